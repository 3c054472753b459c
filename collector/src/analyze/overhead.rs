//! What did looking cost?

use crate::trace::record::Status;

/// The agent's own cost, by its own measurement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overhead {
    /// ns spent in hooks outside the real calls, all threads added.
    pub agent_ns: u64,
    /// ns the poller spent outside driver calls.
    pub poller_ns: u64,
    /// Host ns that the collection spanned, with its first call: that begins before, and starts it.
    pub wall_ns: u64,
    /// Calls entered.
    pub calls: u64,
    /// Records published by the agent.
    pub published: u64,
    /// Records that reached the collector.
    pub collected: u64,
}

impl Overhead {
    /// From the last status of a process whose first call, as far as the trace has any, began at host ns `earliest`.
    pub fn of(status: &Status, earliest: Option<u64>) -> Self {
        let began = earliest.map_or(status.began, |earliest| earliest.min(status.began));
        Overhead {
            agent_ns: status.agent_ns,
            poller_ns: status.poller_ns,
            wall_ns: status.ended.saturating_sub(began),
            calls: status.calls,
            published: status.published,
            collected: status.collected,
        }
    }

    /// The hooks' time as a share of the host's; `None` without any.
    pub fn share(&self) -> Option<f64> {
        (self.wall_ns > 0).then(|| self.agent_ns as f64 / self.wall_ns as f64)
    }

    /// Adds another process's.
    pub fn merge(&mut self, other: &Overhead) {
        self.agent_ns = self.agent_ns.saturating_add(other.agent_ns);
        self.poller_ns = self.poller_ns.saturating_add(other.poller_ns);
        self.wall_ns = self.wall_ns.saturating_add(other.wall_ns);
        self.calls = self.calls.saturating_add(other.calls);
        self.published = self.published.saturating_add(other.published);
        self.collected = self.collected.saturating_add(other.collected);
    }
}
