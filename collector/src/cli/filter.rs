//! Options that ask for a part of a trace.

use super::Failure;
use crate::model::filter::Filter;
use clap::Args;
use regex::Regex;

/// A trace's part: what meets all conditions.
#[derive(Args, Debug, Default)]
#[command(next_help_heading = "Limit it to")]
pub(super) struct FilterOptions {
    /// A GPU, by its number in the program; may be repeated
    #[arg(long = "device", value_name = "N")]
    devices: Vec<u32>,
    /// A stream, by the number that --operations gives it; may be repeated
    #[arg(long = "stream", value_name = "ID")]
    streams: Vec<u64>,
    /// A thread that called, by its Linux thread id; may be repeated
    #[arg(long = "thread", value_name = "TID")]
    threads: Vec<u32>,
    /// Kernels whose demangled name or symbol this regular expression finds
    #[arg(long, value_name = "REGEX", value_parser = regex)]
    kernel: Option<Regex>,
    /// What begins at this time or later, counted from the begin of the collection: 1.5s, 200ms, 10us, 3m
    #[arg(long, value_name = "T", value_parser = moment)]
    since: Option<u64>,
    /// What begins before this time
    #[arg(long, value_name = "T", value_parser = moment)]
    until: Option<u64>,
}

impl FilterOptions {
    /// The filter that they mean.
    pub(super) fn filter(&self) -> Result<Filter, Failure> {
        if let (Some(since), Some(until)) = (self.since, self.until)
            && since >= until
        {
            let sentence =
                "nothing is both after --since and before --until: --until has to be the later one";
            return Err(Failure::usage(sentence));
        }
        let FilterOptions { devices, streams, threads, kernel, since, until } = self;
        Ok(Filter {
            devices: devices.clone(),
            streams: streams.clone(),
            threads: threads.clone(),
            kernel: kernel.clone(),
            since: *since,
            until: *until,
        })
    }
}

/// A time with its unit, in ns.
fn moment(text: &str) -> Result<u64, String> {
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let ns = match unit.trim() {
        "ns" => 1.0,
        "us" | "µs" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "m" | "min" => 60e9,
        "h" => 3_600e9,
        _ => f64::NAN,
    };
    let moment = number.parse::<f64>().map(|number| (number * ns).round());
    // Beyond 2^53 ns, a hundred days, a number is not exact any more.
    let moment = moment.ok().filter(|ns| (0.0..=9_007_199_254_740_992.0).contains(ns));
    moment
        .map(|ns| ns as u64)
        .ok_or_else(|| "a time with its unit is needed, as in 1.5s, 200ms, 10us or 3m".to_owned())
}

/// A regular expression; why it is none, in a sentence.
fn regex(text: &str) -> Result<Regex, String> {
    Regex::new(text).map_err(|error| {
        let told = error.to_string();
        let why = told.lines().last().unwrap_or_default();
        let why = why.strip_prefix("error: ").unwrap_or(why);
        format!("{why}; to find such a character itself, put a backslash before it")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_in_their_units() {
        for (text, ns) in [
            ("1.5s", 1_500_000_000),
            ("200ms", 200_000_000),
            ("10us", 10_000),
            ("10µs", 10_000),
            ("3m", 180_000_000_000),
            ("0.5 h", 1_800_000_000_000),
            ("7ns", 7),
            ("0s", 0),
        ] {
            assert_eq!(moment(text), Ok(ns), "{text}");
        }
        for bad in ["", "s", "1.5", "-1s", "1.2.3s", "infs", "nans", "1e3s", "5 parsecs", "9999999999h"] {
            assert!(moment(bad).is_err_and(|error| error.contains("1.5s")), "{bad}");
        }
    }

    #[test]
    fn a_bad_expression_is_told_in_one_line() {
        let error = regex("gemm(").unwrap_err();
        assert!(error.contains("unclosed group") && !error.contains('\n'), "{error}");
        assert!(regex("^gemm<[0-9]+>").is_ok());
    }

    #[test]
    fn time_goes_forward() {
        let between = |since, until| FilterOptions { since, until, ..FilterOptions::default() }.filter();
        assert!(between(Some(5), Some(5)).is_err_and(|failure| failure.sentence.contains("--until")));
        assert!(between(Some(5), Some(6)).is_ok() && between(None, Some(0)).is_ok());
    }
}
