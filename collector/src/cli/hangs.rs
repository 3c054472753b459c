//! `--hang-after`, and what is printed when something hangs.

use super::say;
use crate::collect::{HANG_AFTER, HangNotice, HangWatch};
use crate::model::hangs::Hang;
use crate::report::hangs::sentence;
use clap::Args;
use gpuspy_wire::duration::{number, split};
use std::time::Duration;

#[derive(Args, Debug)]
pub(super) struct HangOptions {
    /// Say so when an operation has been pending for so long while nothing else of its stream completed, or a thread
    /// has been in one CUDA call for so long; 0 = never
    #[arg(long, value_name = "SECONDS", env = "GPUSPY_HANG_AFTER", value_parser = seconds, allow_negative_numbers = true, default_value_t = Limit(Some(HANG_AFTER)))]
    hang_after: Limit,
}

/// A limit; `None` = none.
#[derive(Clone, Copy, Debug)]
struct Limit(Option<Duration>);

impl std::fmt::Display for Limit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0.map_or(0.0, |limit| limit.as_secs_f64()))
    }
}

impl HangOptions {
    /// Returns the watch that these options ask for, which prints what it finds.
    pub(super) fn watch(&self) -> HangWatch {
        HangWatch { tell: Some(tell), ..self.untold() }
    }

    /// Returns the watch that only writes into the trace.
    pub(super) fn untold(&self) -> HangWatch {
        HangWatch { after: self.hang_after.0, tell: None }
    }
}

/// The shortest limit: below, the times at which the collector looks would matter.
const SHORTEST: Duration = Duration::from_millis(100);

/// Parses the limit: a number of seconds, or a number and a unit.
fn seconds(text: &str) -> Result<Limit, String> {
    let text = text.trim();
    let (digits, ns) = split(text).unwrap_or((text, 1e9));
    let limit = number(digits).map(|number| Duration::try_from_secs_f64(number * ns / 1e9));
    match limit {
        Some(Ok(Duration::ZERO)) => Ok(Limit(None)),
        Some(Ok(limit)) if limit >= SHORTEST => Ok(Limit(Some(limit))),
        _ => Err("a number of seconds from 0.1 on is needed, or 0 for never".to_owned()),
    }
}

/// Prints a hang.
fn tell(notice: &HangNotice<'_>) {
    let HangNotice { pid, program, more, .. } = *notice;
    let more = if more > 0 { format!("; and {more} more streams or calls") } else { String::new() };
    say(format_args!("{program} ({pid}): {}{more}", sentence(&Hang::of(notice.hang, notice.names))));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_a_number_of_seconds_and_0_is_never() {
        for (text, limit) in
            [("60", Some(60_000)), ("0.5", Some(500)), ("2min", Some(120_000)), ("0", None), ("0s", None)]
        {
            assert_eq!(seconds(text).unwrap().0, limit.map(Duration::from_millis), "{text}");
        }
        for bad in ["", "-1", "0.01", "1e3", "inf", "soon", "99999999999999999999999"] {
            assert!(seconds(bad).is_err(), "{bad}");
        }
    }
}
