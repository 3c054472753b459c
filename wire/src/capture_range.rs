//! Which part of a run do `--capture-range` and `GPUSPY_CAPTURE_RANGE` select? Both halves parse the text
//! here, so that the agent understands what the collector accepts.

use crate::duration;

/// The longest time that can be requested, in ns: about 30 years.
const MOST_NS: f64 = 1e18;

/// The message for a text that has none of the forms.
pub const EXPECTED: &str = "one of profiler-api, nvtx:NAME, nvtx:NAME@DOMAIN, delay=SECONDS and \
                            delay=SECONDS,duration=SECONDS is needed (seconds, or a time with its unit: 200ms)";

/// The part of a run that is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaptureRange<'t> {
    /// From each `cuProfilerStart` to the next `cuProfilerStop`.
    ProfilerApi,
    /// While an NVTX range with this text is open.
    Nvtx {
        /// The text.
        name: &'t str,
        /// The domains in which it counts.
        domain: Domain<'t>,
    },
    /// From `delay` after the process's first CUDA call, for `duration`.
    Delay {
        /// The delay in ns.
        delay: u64,
        /// The duration in ns; `None` = to the end of the process.
        duration: Option<u64>,
    },
}

/// A domain of NVTX ranges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Domain<'t> {
    /// Every domain.
    Any,
    /// The default domain, which contains ranges without a domain.
    Default,
    /// The domain with this name.
    Named(&'t str),
}

impl<'t> CaptureRange<'t> {
    /// Parses the text. Returns `None` if it has none of the forms. The domain follows the last `@`, and an
    /// empty one is the default domain, so a name that itself contains an `@` is written as `name@`.
    pub fn parse(text: &'t str) -> Option<CaptureRange<'t>> {
        if text == "profiler-api" {
            return Some(CaptureRange::ProfilerApi);
        }
        if let Some(range) = text.strip_prefix("nvtx:") {
            let (name, domain) = range.rsplit_once('@').unwrap_or((range, ""));
            let domain = match domain {
                "" => Domain::Default,
                "*" => Domain::Any,
                named => Domain::Named(named),
            };
            return (!name.is_empty()).then_some(CaptureRange::Nvtx { name, domain });
        }
        let (delay, duration) = match text.split_once(',') {
            Some((delay, duration)) => (delay, Some(time(duration.strip_prefix("duration=")?)?)),
            None => (text, None),
        };
        let delay = time(delay.strip_prefix("delay=")?)?;
        // A range of length 0 contains nothing.
        (duration != Some(0)).then_some(CaptureRange::Delay { delay, duration })
    }
}

/// Parses a decimal number of seconds, or a number with its unit, to ns.
fn time(text: &str) -> Option<u64> {
    let (number, nanoseconds) = duration::split(text).unwrap_or((text, 1e9));
    let number = duration::number(number)?;
    Some(number * nanoseconds).filter(|ns| *ns <= MOST_NS).map(|ns| ns as u64)
}
