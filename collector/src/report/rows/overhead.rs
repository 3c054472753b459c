//! What profiling cost.

use crate::analyze::overhead;
use crate::analyze::windows::Duty;
use schemars::JsonSchema;
use serde::Serialize;

/// The profiling overhead as measured by the agent.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Overhead {
    /// All of it: hooks, poller, and by how much events slowed the GPU's work, where that is known; null = no time
    /// passed.
    #[schemars(range(min = 0))]
    pub cost_percent: Option<f64>,
    /// The cost of the hooks, of wall time.
    #[schemars(range(min = 0))]
    pub hooks_percent: Option<f64>,
    /// The cost of the poller, of wall time.
    #[schemars(range(min = 0))]
    pub poller_percent: Option<f64>,
    /// By how much events slowed the GPU's work, of all the time (gpu_slowdown is of the time in windows); null = too
    /// few windows and pauses to compare.
    #[schemars(range(min = 0))]
    pub events_percent: Option<f64>,
    /// The time in hooks outside the real calls, summed over all threads.
    pub agent_ns: u64,
    /// The poller's time outside driver calls.
    pub poller_ns: u64,
    /// Host time that the collection spanned, with its first call; of several processes the time of all, which is what
    /// percentages are of.
    pub wall_ns: u64,
    /// The number of calls that entered a hook.
    pub calls: u64,
    /// The number of records that the agent published.
    pub published: u64,
    /// The number of records that reached the collector.
    pub collected: u64,
}

impl Overhead {
    /// Returns the row.
    pub fn of(overhead: &overhead::Overhead, duty: &Duty) -> Overhead {
        let cost = overhead.cost(duty);
        let overhead::Overhead { agent_ns, poller_ns, wall_ns, calls, published, collected } = *overhead;
        Overhead {
            cost_percent: cost.map(|cost| cost.total()),
            hooks_percent: cost.map(|cost| cost.hooks),
            poller_percent: cost.map(|cost| cost.poller),
            events_percent: cost.and_then(|cost| cost.events),
            agent_ns,
            poller_ns,
            wall_ns,
            calls,
            published,
            collected,
        }
    }
}
