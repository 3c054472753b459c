//! Which streams does a process have, and which numbers do they get?
//!
//! **Numbers of streams** identify streams in reports, filters and exports. They are unique among the processes of
//! one rank (processes without a rank form a group of their own), because such processes share an export's file, and
//! readers of that file distinguish rows by nothing else. The default stream of the first context is 7, as in CUPTI,
//! and no other stream is; a stream keeps the driver's id if that is free and fits 31 bits; the others get the next
//! free number in order of appearance.

use crate::hash::{HashMap, HashSet};
use crate::trace::record::{Body, Record};
use gpuspy_wire::record::{SyncScope, flag};

/// CUPTI's number of the default stream.
pub const DEFAULT_STREAM: u32 = 7;

/// The numbers of a process's streams, by context and id.
pub type StreamNumbers = HashMap<(u32, u64), u32>;

/// Streams in order of appearance.
#[derive(Clone, Debug, Default)]
pub struct Streams {
    list: Vec<Stream>,
    /// (Context, id) → index in the list.
    met: HashMap<(u32, u64), usize>,
}

/// A stream that a record named.
#[derive(Clone, Copy, Debug)]
pub struct Stream {
    /// Its context.
    pub context: u32,
    /// Its id.
    pub stream: u64,
    /// Whether it is its context's legacy default stream.
    is_default: bool,
}

impl Streams {
    /// Returns the streams in order of appearance.
    pub fn all(&self) -> &[Stream] {
        &self.list
    }

    /// Takes what a record says about streams.
    pub fn observe(&mut self, record: &Record) {
        let (call, stream) = match &record.body {
            Body::Work(work) => (&work.call, work.stream),
            Body::Synchronize(sync) if sync.scope == SyncScope::Stream => (&sync.call, sync.stream),
            Body::EventRecord(op) | Body::EventWait(op) => (&op.call, op.stream),
            _ => return,
        };
        let (context, next) = (call.context, self.list.len());
        let place = *self.met.entry((context, stream)).or_insert(next);
        if place == next {
            self.list.push(Stream { context, stream, is_default: false });
        }
        self.list[place].is_default |= call.flags & flag::LEGACY_STREAM != 0;
    }
}

/// Gives out each number once.
#[derive(Clone, Debug, Default)]
pub struct Numbers {
    taken: HashSet<u32>,
    next: u32,
    /// Whether number 7 is still reserved for the first default stream.
    has_default: bool,
}

impl Numbers {
    /// For streams: only a default stream gets the number 7.
    pub fn of_streams() -> Numbers {
        Numbers { taken: HashSet::from_iter([DEFAULT_STREAM]), next: DEFAULT_STREAM, has_default: true }
    }

    /// The number of a stream.
    pub fn of(&mut self, stream: &Stream) -> u32 {
        if stream.is_default && std::mem::take(&mut self.has_default) {
            return DEFAULT_STREAM;
        }
        self.take(i32::try_from(stream.stream).ok().filter(|id| *id > 0).map(|id| id as u32))
    }

    /// Marks numbers as taken.
    pub fn reserve(&mut self, taken: impl IntoIterator<Item = u32>) {
        self.taken.extend(taken);
    }

    /// Takes the wanted number if it is free, else the next free one.
    pub fn take(&mut self, wanted: Option<u32>) -> u32 {
        if let Some(wanted) = wanted.filter(|wanted| self.taken.insert(*wanted)) {
            return wanted;
        }
        while !self.taken.insert(self.next) {
            self.next += 1;
        }
        self.next
    }
}
