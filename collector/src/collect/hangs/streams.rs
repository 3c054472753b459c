//! Which operations are pending on each stream, as far as that is known?
//!
//! A timed operation is pending until its GPU time arrives, or that of a later operation of its stream. An operation
//! without a GPU time says only what was launched. Records come from different rings, so a time may come before its
//! operation, and the operations of two threads on one stream in another order than they were launched; `submitted` is
//! their order.

use crate::hash::{HashMap, HashSet};
use crate::trace::record::{Body, Completed, Operation, Record, Stream, What, Work};
use gpuspy_wire::record::{LossCause, Untimed, flag};
use std::collections::VecDeque;

/// A stream: its context's number, and its id.
pub(super) type Key = (u32, u64);

/// Limit on the streams that are followed. Further ones are not: no program has so many.
const STREAMS: usize = 1 << 16;
/// Limit on the pending operations. The agent times no stream with more than 256 entries in its queue. Beyond the
/// limit all are forgotten: nothing is known to be pending then.
const WAITING: usize = 1 << 17;
/// Limit on the times in each of the two generations of `early`. A time is at most one round of the drain earlier than
/// its operation.
const EARLY: usize = 1 << 14;

/// An operation that is pending.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    correlation: u64,
    /// Host ns when its launch had returned; of a burst, that of its first one.
    submitted: u64,
    /// Since when all of it has been on the stream.
    pub(super) enqueued: u64,
    pub(super) operation: Operation,
    pub(super) untimed_before: u64,
}

/// What is known of a stream.
#[derive(Debug, Default)]
pub(super) struct OnStream {
    /// By `submitted`.
    waiting: VecDeque<Waiting>,
    /// The number of operations without a GPU time since the last timed one was launched.
    untimed: u64,
    /// The last operation that was launched, and when.
    newest: Option<(Operation, u64)>,
    /// The last kernel that was launched in a run.
    kernel: u32,
    /// The operation that completed last, and its `submitted`.
    last: Option<(Completed, u64)>,
    /// The last call that made the stream wait for something else, and when.
    behind: Option<(u16, u64)>,
    /// Whether it hangs: what completes on it next ends that.
    pub(super) is_hung: bool,
}

impl OnStream {
    /// The oldest operation that is pending, and since when the stream has been stuck there.
    pub(super) fn oldest(&self) -> Option<(&Waiting, u64)> {
        let oldest = self.waiting.front()?;
        Some((oldest, oldest.enqueued.max(self.last.map_or(0, |(last, _)| last.seen))))
    }

    /// The operation that completed last.
    pub(super) fn last(&self) -> Option<Completed> {
        self.last.map(|(last, _)| last)
    }

    /// The last operation that was launched, and when, unless it has completed.
    pub(super) fn newest(&self) -> Option<(Operation, u64)> {
        let completed = self.last.map_or(0, |(_, submitted)| submitted);
        self.newest.filter(|(_, submitted)| *submitted > completed)
    }

    /// The last call that made the stream wait for something else after the last operation that completed.
    pub(super) fn behind(&self) -> Option<u16> {
        let completed = self.last.map_or(0, |(_, submitted)| submitted);
        self.behind.filter(|(_, at)| *at > completed).map(|(api, _)| api)
    }

    fn insert(&mut self, waiting: Waiting) {
        let at = self.waiting.partition_point(|other| other.submitted <= waiting.submitted);
        self.waiting.insert(at, waiting);
    }
}

/// The streams of a process.
#[derive(Debug, Default)]
pub(super) struct Streams {
    streams: HashMap<Key, OnStream>,
    /// Correlation → stream of a pending operation.
    waiting: HashMap<u64, Key>,
    /// Times whose operation has not come: correlation → when it was found completed. The second one is the older
    /// generation.
    early: [HashMap<u64, u64>; 2],
    devices: HashMap<u32, u32>,
    /// CUstream → stream.
    handles: HashMap<u64, Key>,
    /// The functions that make a stream wait for something else than its own work.
    waits: HashSet<u16>,
}

impl Streams {
    /// All streams.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Key, &OnStream)> {
        self.streams.iter().map(|(key, stream)| (*key, stream))
    }

    /// A stream.
    pub(super) fn get_mut(&mut self, key: Key) -> Option<&mut OnStream> {
        self.streams.get_mut(&key)
    }

    /// The ordinal of a context's device.
    pub(super) fn device(&self, context: u32) -> Option<u32> {
        self.devices.get(&context).copied()
    }

    /// Takes the name of a function.
    pub(super) fn function(&mut self, api: u16, name: &str) {
        const WAITS: [&str; 7] = [
            "cuStreamWaitValue",
            "cuStreamBatchMemOp",
            "cuLaunchHostFunc",
            "cuStreamAddCallback",
            "cuWaitExternalSemaphores",
            "cudaWaitExternalSemaphores",
            "cudaLaunchHostFunc",
        ];
        if WAITS.iter().any(|wait| name.starts_with(wait)) {
            self.waits.insert(api);
        }
    }

    /// Takes a record. Returns the stream on which it shows that an operation completed.
    pub(super) fn record(&mut self, record: &Record) -> Option<Key> {
        match &record.body {
            Body::Work(work) => return self.work(work),
            Body::EventWait(op) => {
                let key = (op.call.context, op.stream);
                if let Some(stream) = self.streams.get_mut(&key) {
                    stream.behind = Some((op.call.api, op.call.end));
                }
            }
            Body::Api(api) if self.waits.contains(&api.call.api) => {
                let stream = self.handles.get(&api.subject).and_then(|key| self.streams.get_mut(key));
                if let Some(stream) = stream {
                    stream.behind = Some((api.call.api, api.call.end));
                }
            }
            Body::Context(context) if context.destroyed => {
                self.devices.remove(&context.context);
                self.drop_streams(|(of, _)| of == context.context);
            }
            Body::Context(context) if self.devices.len() < STREAMS => {
                self.devices.insert(context.context, context.device);
            }
            Body::Stream(stream) => self.stream(stream),
            Body::Loss { cause: LossCause::GpuTimePending, .. } => self.forget(),
            _ => {}
        }
        None
    }

    fn stream(&mut self, stream: &Stream) {
        let key = (stream.context, stream.stream);
        if stream.destroyed {
            self.handles.remove(&stream.handle);
            self.drop_streams(|other| other == key);
        } else if self.handles.len() < STREAMS {
            self.handles.insert(stream.handle, key);
            if self.streams.len() < STREAMS {
                self.streams.entry(key).or_default();
            }
        }
    }

    fn work(&mut self, work: &Work) -> Option<Key> {
        let is_elsewhere = matches!(work.untimed, Untimed::Captured | Untimed::NoStream | Untimed::NotHooked)
            || work.call.flags & flag::CAPTURED != 0;
        let key = (work.call.context, work.stream);
        if is_elsewhere || (self.streams.len() >= STREAMS && !self.streams.contains_key(&key)) {
            return None;
        }
        let stream = self.streams.entry(key).or_default();
        let mut untimed_before = stream.untimed;
        let operation = match work.what {
            What::Kernel { name, .. } => {
                stream.kernel = name;
                Operation::Kernel(name)
            }
            What::Memcpy { direction, bytes, .. } => Operation::Copy(direction, bytes),
            What::Memset { bytes, .. } => Operation::Set(bytes),
            What::Graph { .. } => Operation::Graph,
            What::Burst { launches, .. } => {
                untimed_before = untimed_before.saturating_sub(launches.into());
                Operation::Run(stream.kernel, launches.into())
            }
        };
        let is_burst = matches!(operation, Operation::Run(..));
        // A burst's launches have records of their own.
        if !is_burst && stream.newest.is_none_or(|(_, submitted)| submitted <= work.submitted) {
            stream.newest = Some((operation, work.submitted));
        }
        if work.untimed != Untimed::Timed {
            stream.untimed += 1;
            return None;
        }
        stream.untimed = 0;
        let correlation = work.call.correlation;
        let enqueued = if is_burst { work.call.end } else { work.submitted };
        let waiting = Waiting { correlation, submitted: work.submitted, enqueued, operation, untimed_before };
        let seen = self.early.iter_mut().find_map(|early| early.remove(&correlation));
        stream.insert(waiting);
        self.waiting.insert(correlation, key);
        if let Some(seen) = seen {
            return self.completed(correlation, seen);
        }
        if self.waiting.len() > WAITING {
            self.forget();
        }
        None
    }

    /// Takes the time of an operation, which was found completed at `seen`. Returns its stream.
    pub(super) fn completed(&mut self, correlation: u64, seen: u64) -> Option<Key> {
        let Some(key) = self.waiting.remove(&correlation) else {
            if self.early[0].len() >= EARLY {
                self.early.swap(0, 1);
                self.early[0].clear();
            }
            self.early[0].insert(correlation, seen);
            return None;
        };
        let stream = self.streams.get_mut(&key)?;
        let at = stream.waiting.iter().position(|waiting| waiting.correlation == correlation)?;
        let done = stream.waiting.get(at).copied()?;
        // A stream completes its operations in order, so those before it have completed too.
        for earlier in stream.waiting.drain(..=at) {
            self.waiting.remove(&earlier.correlation);
        }
        if stream.last.is_none_or(|(_, submitted)| submitted <= done.submitted) {
            let seen = stream.last.map_or(seen, |(last, _)| seen.max(last.seen));
            stream.last = Some((Completed { operation: done.operation, seen }, done.submitted));
        }
        Some(key)
    }

    /// Forgets what is pending, because GPU times are lost: they may have been these operations'.
    pub(super) fn forget(&mut self) {
        self.waiting.clear();
        for stream in self.streams.values_mut() {
            stream.waiting.clear();
        }
    }

    fn drop_streams(&mut self, is_gone: impl Fn(Key) -> bool) {
        let waiting = &mut self.waiting;
        self.streams.retain(|key, stream| {
            if is_gone(*key) {
                for one in stream.waiting.drain(..) {
                    waiting.remove(&one.correlation);
                }
            }
            !is_gone(*key)
        });
    }
}
