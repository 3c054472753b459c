//! How operations were timed, and what that cost.

use crate::analyze::windows;
use schemars::JsonSchema;
use serde::Serialize;

/// How operations were timed (--timing), and what that cost. With auto, everything is timed in sampling windows; the
/// first window is the first phase.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Timing {
    /// The value of --timing; null = not recorded, or processes differ.
    pub mode: Option<Mode>,
    /// The selected budget, of wall time; null = no budget.
    #[schemars(extend("exclusiveMinimum" = 0, "maximum" = 100))]
    pub budget_percent: Option<f64>,
    /// The number of sampling windows, the first phase included.
    pub windows: u64,
    /// The host time in windows.
    pub timed_ns: u64,
    /// The host time from the first launch to the end.
    pub wall_ns: u64,
    /// The first phase, which is timed in full whatever it costs.
    pub first_phase: Stretch,
    /// The complete windows after the first phase.
    pub after_windows: Stretch,
    /// The complete pauses.
    pub after_pauses: Stretch,
    /// What hooks and poller cost after the first phase, of wall time, to compare with the budget; null = no pause
    /// ended.
    #[schemars(range(min = 0))]
    pub cost_percent: Option<f64>,
    /// Whether the hooks cost more than the budget even in pauses, so that windows could hardly open.
    pub counting_exceeds_budget: bool,
    /// What events cost the GPU; null = too few pairs.
    pub gpu_slowdown: Option<Slowdown>,
}

/// Which operations were timed.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Those in sampling windows, which a budget pays for.
    Auto,
    /// All of them.
    Exact,
    /// None of them.
    Off,
}

/// An interval of time: what was launched in it, and what that cost.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Stretch {
    /// The host time.
    pub wall_ns: u64,
    /// The number of calls that put something onto a stream.
    pub launches: u64,
    /// The time in hooks, summed over all threads.
    pub agent_ns: u64,
    /// The CPU time of the poller.
    pub poller_ns: u64,
}

/// By how much a launch takes longer in windows than in the pauses beside them, hooks aside, as a share: what events
/// cost the GPU. The median over pairs of neighbors, and its 99 % interval.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Slowdown {
    /// The best value: 0.01 means that a launch takes 1 % longer.
    pub value: f64,
    /// The lower bound of the interval.
    pub lo: f64,
    /// The upper bound of the interval.
    pub hi: f64,
    /// The number of pairs.
    pub pairs: u64,
}

impl Timing {
    /// Returns the row.
    pub fn of(duty: &windows::Duty) -> Timing {
        let (mode, budget_percent) = match duty.timing {
            Some(windows::Timing::Auto(percent)) => (Some(Mode::Auto), Some(percent)),
            Some(windows::Timing::Exact) => (Some(Mode::Exact), None),
            Some(windows::Timing::Off) => (Some(Mode::Off), None),
            None => (None, None),
        };
        let (timed_ns, wall_ns) = duty.time();
        Timing {
            mode,
            budget_percent,
            windows: duty.windows,
            timed_ns,
            wall_ns,
            first_phase: Stretch::of(&duty.first),
            after_windows: Stretch::of(&duty.timed),
            after_pauses: Stretch::of(&duty.counted),
            cost_percent: duty.measured().percent(),
            counting_exceeds_budget: duty.is_exhausted(),
            gpu_slowdown: duty.slowdown().map(Slowdown::of),
        }
    }
}

impl Stretch {
    fn of(stretch: &windows::Stretch) -> Stretch {
        let windows::Stretch { ns: wall_ns, launches, agent_ns, poller_ns } = *stretch;
        Stretch { wall_ns, launches, agent_ns, poller_ns }
    }
}

impl Slowdown {
    fn of(slowdown: windows::Slowdown) -> Slowdown {
        let windows::Slowdown { value, lo, hi, pairs } = slowdown;
        Slowdown { value, lo, hi, pairs }
    }
}
