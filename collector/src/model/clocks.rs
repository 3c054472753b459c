//! What does the first pass over a trace learn that the second pass needs?

use super::callers::Callers;
use super::gpu_clock::{Bounds, Clock, fit_oscillator};
use super::lost::Lost;
use super::period::CaptureRanges;
use super::steps::StepRule;
use super::streams::Streams;
use super::thread_times::ThreadTimes;
use super::typical::Typical;
use crate::hash::HashMap;
use crate::trace::record::Status;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The oscillator that drives a context's time bases: its device's if the device is known, else one of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Oscillator {
    Device(u32),
    Context(u32),
}

/// What a first pass learns from a whole trace before the second one interprets records: the clocks of all time
/// bases, the contexts' devices, the capture ranges, and typical durations.
#[derive(Clone, Debug, Default)]
pub struct Clocks {
    /// Context → device ordinal.
    pub devices: HashMap<u32, u32>,
    /// Host ns at which the first call or range began; in a trace that has neither, the time of its first record.
    pub earliest: Option<u64>,
    /// The latest time in the records: host ns.
    pub latest: u64,
    /// The capture ranges.
    pub capture_ranges: CaptureRanges,
    /// Streams in the order in which they first appeared.
    pub streams: Streams,
    /// (Context, stream) → host ns at which the end event of the stream's last burst was recorded. Later launches of
    /// a burst have no end event: the program or the context ended before anything followed them.
    pub bursts: HashMap<(u32, u64), u64>,
    /// Typical durations of operations.
    pub typical: Typical,
    /// What begins a step of the program.
    pub steps: StepRule,
    /// When records may have been lost, as the trace's reader has found.
    pub lost: Lost,
    /// How long threads ran.
    pub thread_times: Arc<ThreadTimes>,
    /// Where calls came from of which no Python line is known.
    pub callers: Callers,
    time_bases: HashMap<(u32, u32), Clock>,
    contradictions: u64,
}

impl Clocks {
    /// Host ns at which the collection began: from the status or, in a trace that lost it, the earliest time in the
    /// records.
    pub fn began(&self, status: Option<&Status>) -> u64 {
        status.map_or(self.earliest.unwrap_or(0), |status| status.began)
    }

    /// Host ns at which the collection ended, or up to which it has come. The last status of a trace that was cut, or is still being
    /// written, is older than the records after it.
    pub fn ended(&self, status: Option<&Status>) -> u64 {
        status.map_or(0, |status| status.ended).max(self.latest).max(self.began(status))
    }

    /// Fits the bounds of all time bases, which are keyed by (context, time base).
    pub fn fit(bounds: BTreeMap<(u32, u32), Bounds>, devices: HashMap<u32, u32>) -> Clocks {
        let mut clocks = Clocks { devices, ..Clocks::default() };
        let mut by_oscillator: BTreeMap<Oscillator, Vec<_>> = BTreeMap::new();
        for (key, bounds) in bounds {
            let device = clocks.devices.get(&key.0);
            let oscillator = device.map_or(Oscillator::Context(key.0), |device| Oscillator::Device(*device));
            by_oscillator.entry(oscillator).or_default().push((key, bounds));
        }
        for time_bases in by_oscillator.into_values() {
            let (keys, bounds): (Vec<_>, Vec<_>) = time_bases.into_iter().unzip();
            let (fitted, contradictions) = fit_oscillator(bounds);
            clocks.contradictions += contradictions;
            clocks.time_bases.extend(keys.into_iter().zip(fitted));
        }
        clocks
    }

    /// The clock of a time base.
    pub fn of(&self, context: u32, time_base: u32) -> Option<&Clock> {
        self.time_bases.get(&(context, time_base))
    }

    /// How many bounds contradicted each other. Each of them shows that the assumptions do not hold on this machine.
    pub fn contradictions(&self) -> u64 {
        self.contradictions
    }
}
