//! What profiling cost, by the agent's own measurement.

use super::merge::Merge;
use super::windows::Duty;
use crate::trace::record::Status;

/// The agent's cost, by its own measurement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overhead {
    /// ns spent in hooks outside the real calls, all threads added.
    pub agent_ns: u64,
    /// ns the poller spent outside driver calls.
    pub poller_ns: u64,
    /// Host ns that the collection spanned, including its first call, which starts the collection and began before
    /// it.
    pub wall_ns: u64,
    /// Calls entered.
    pub calls: u64,
    /// Records published by the agent.
    pub published: u64,
    /// Records that reached the collector.
    pub collected: u64,
}

/// What profiling cost, in percent of the time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// Hooks, the sum over all threads.
    pub hooks: f64,
    /// The poller thread.
    pub poller: f64,
    /// How much timing slowed the work besides: events take GPU time, and the poller holds locks that launches wait
    /// for. `None` if too few windows and pauses can be compared, or if they differ no more than launches vary.
    pub events: Option<f64>,
}

impl Cost {
    /// Returns the sum of the parts that are known.
    pub fn total(&self) -> f64 {
        self.hooks + self.poller + self.events.unwrap_or(0.0)
    }
}

impl Overhead {
    /// Computes it from the last status of a process whose first call in the trace, if there is any, began at host ns
    /// `earliest`.
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

    /// Returns the cost in percent of the time; `None` if no time passed.
    pub fn cost(&self, duty: &Duty) -> Option<Cost> {
        if self.wall_ns == 0 {
            return None;
        }
        let percent = |ns: u64| 100.0 * ns as f64 / self.wall_ns as f64;
        let (timed, all) = duty.time();
        let events = duty.longer().filter(|_| all > 0);
        let events = events.map(|longer| 100.0 * longer * timed as f64 / all as f64);
        Some(Cost { hooks: percent(self.agent_ns), poller: percent(self.poller_ns), events })
    }
}

impl Merge for Overhead {
    fn merge(&mut self, other: &Overhead) {
        self.agent_ns = self.agent_ns.saturating_add(other.agent_ns);
        self.poller_ns = self.poller_ns.saturating_add(other.poller_ns);
        self.wall_ns = self.wall_ns.saturating_add(other.wall_ns);
        self.calls = self.calls.saturating_add(other.calls);
        self.published = self.published.saturating_add(other.published);
        self.collected = self.collected.saturating_add(other.collected);
    }
}
