//! What `--capture-range` and `GPUSPY_CAPTURE_RANGE` can say: which part of a run is looked at. Both halves read it here,
//! so that what the one accepts the other understands.

use crate::duration;

/// Longest time that can be asked for, ns: some 30 years.
const MOST_NS: f64 = 1e18;

/// Why a text is none.
pub const EXPECTED: &str = "one of profiler-api, nvtx:NAME, nvtx:NAME@DOMAIN, delay=SECONDS and \
                            delay=SECONDS,duration=SECONDS is needed (seconds, or a time with its unit: 200ms)";

/// Which part of a run is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaptureRange<'t> {
    /// From each `cuProfilerStart` to the next `cuProfilerStop`.
    ProfilerApi,
    /// While an NVTX range of this text is open.
    Nvtx {
        /// The text.
        name: &'t str,
        /// Where it counts.
        domain: Domain<'t>,
    },
    /// From so long after the process's first CUDA call, and for so long.
    Delay {
        /// ns.
        delay: u64,
        /// ns; `None` = to the end.
        duration: Option<u64>,
    },
}

/// A domain of NVTX ranges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Domain<'t> {
    /// Every one.
    Any,
    /// The one that ranges without a domain are in.
    Default,
    /// The one of this name.
    Named(&'t str),
}

impl<'t> CaptureRange<'t> {
    /// Reads what was asked for; `None`: it is none of the forms. The domain stands behind the last `@`, and an empty one is
    /// the default one: `name@` is how a name that holds an `@` itself is written.
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
        // A range that ends as it begins holds nothing.
        (duration != Some(0)).then_some(CaptureRange::Delay { delay, duration })
    }
}

/// ns of a decimal number of seconds, or of one with its unit.
fn time(text: &str) -> Option<u64> {
    let (number, nanoseconds) = duration::split(text).unwrap_or((text, 1e9));
    let number = duration::number(number)?;
    Some(number * nanoseconds).filter(|ns| *ns <= MOST_NS).map(|ns| ns as u64)
}
