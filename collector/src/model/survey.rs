//! The first pass over a trace: what is known of its clocks, from the whole of it.
//!
//! A fold from records to [`Clocks`]. What it keeps is a few numbers per second and chain, however many operations there
//! are. The [`Model`](super::Model), which reads the trace once more, places operations by it.

use super::clock::{Bounds, Clocks};
use super::occupancy::{self, host};
use crate::trace::record::{Body, ClockSample, GpuTime, Record, Synchronize, Work};
use gpuspy_wire::record::{SyncScope, Untimed, flag};
use std::collections::{BTreeMap, HashMap};

/// What has been found so far.
#[derive(Debug, Default)]
pub struct Survey {
    devices: HashMap<u32, u32>,
    chains: BTreeMap<(u32, u32), Bounds>,
    ends: HashMap<(u32, u64), StreamEnd>,
}

/// The last timed operation of a stream.
#[derive(Clone, Copy, Debug)]
struct StreamEnd {
    chain: u32,
    /// Its end event's stamp, and how much that can be off.
    stamp: i64,
    error: i64,
    /// Host ns when its call returned.
    returned: u64,
}

impl Survey {
    /// The clocks of a whole trace.
    pub fn of(records: impl IntoIterator<Item = Record>) -> Clocks {
        let mut survey = Survey::default();
        records.into_iter().for_each(|record| survey.observe(&record));
        survey.finish()
    }

    /// Takes what a record says of a clock.
    pub fn observe(&mut self, record: &Record) {
        match &record.body {
            Body::Work(work) => {
                if let Some(gpu) = timed(work) {
                    self.timed(work, gpu);
                }
            }
            Body::Synchronize(sync) => self.synchronized(sync),
            Body::ClockSample(sample) => self.sampled(sample),
            Body::Context(context) if context.destroyed => {
                self.ends.retain(|(owner, _), _| *owner != context.context);
            }
            Body::Context(context) => {
                self.devices.entry(context.context).or_insert(context.device);
            }
            Body::Stream(stream) if stream.destroyed => {
                self.ends.remove(&(stream.context, stream.stream));
            }
            _ => {}
        }
    }

    /// Fits what was found.
    pub fn finish(self) -> Clocks {
        Clocks::fit(self.chains, self.devices)
    }

    /// How many bounds are kept: its size.
    pub fn kept(&self) -> usize {
        self.chains.values().map(Bounds::kept).sum()
    }

    fn timed(&mut self, work: &Work, gpu: &GpuTime) {
        let context = work.call.context;
        let before = self.ends.get(&(context, work.stream)).filter(|end| end.chain == gpu.chain);
        let bounds = self.chains.entry((context, gpu.chain)).or_default();
        occupancy::teach(work, gpu, before.map(|end| end.stamp), bounds);
        let (stamp, error) = occupancy::end_stamp(work, gpu);
        let end = StreamEnd { chain: gpu.chain, stamp, error, returned: work.call.end };
        self.ends.insert((context, work.stream), end);
    }

    /// The app waited: what it had issued to the streams before is over.
    fn synchronized(&mut self, sync: &Synchronize) {
        for (key, end) in &self.ends {
            if covers(sync, *key, end.returned)
                && let Some(bounds) = self.chains.get_mut(&(key.0, end.chain))
            {
                bounds.completed(host(sync.call.end), end.stamp, end.error);
            }
        }
    }

    /// The poller watched an event of its own.
    fn sampled(&mut self, sample: &ClockSample) {
        let gpu = sample.gpu.clamp(-(occupancy::MOST_TIME as i64), occupancy::MOST_TIME as i64);
        let bounds = self.chains.entry((sample.context, sample.chain)).or_default();
        bounds.recorded(host(sample.after), gpu, sample.error.into());
        bounds.completed(host(sample.before), gpu, sample.error.into());
    }
}

/// The GPU time of an operation that ran and was timed.
pub(super) fn timed(work: &Work) -> Option<&GpuTime> {
    let ran = work.untimed == Untimed::Timed && work.call.flags & flag::CAPTURED == 0;
    work.gpu.as_ref().filter(|_| ran)
}

/// Whether an operation on a stream, whose call returned at `returned`, was waited for. Which operation an event stands
/// behind is not kept.
pub(super) fn covers(sync: &Synchronize, (context, stream): (u32, u64), returned: u64) -> bool {
    let is_in_scope = match sync.scope {
        SyncScope::Device | SyncScope::Context => true,
        SyncScope::Stream => stream == sync.stream,
        SyncScope::Event => false,
    };
    is_in_scope && context == sync.call.context && returned <= sync.call.begin
}
