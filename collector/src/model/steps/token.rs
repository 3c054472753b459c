//! What is launched, as a token: the letters of the sequence in which steps are looked for.
//!
//! Each place of the sequence is a kernel launch, a graph launch, a copy, a memset or a synchronization of the host.
//! It has a **plain** token (which kernel, which graph, or which kind of transfer and its size to a power of two), and a
//! **precise** one (that, its stream, a kernel's grid and block, and the plain token before it). Of launches of the same
//! kernel on the same stream in a row only the first has tokens, because the number of such launches often varies.

use crate::trace::record::{Body, Call, Record, What, Work};
use gpuspy_wire::record::{Direction, Untimed, flag};

/// What a token stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A kernel; its number among the trace's names.
    Kernel(u32),
    /// A graph with this many operations.
    Graph(u32),
    /// A copy or a memset, and whether the host's memory takes part.
    Transfer { with_host: bool },
    /// The host waits.
    Sync,
}

impl Kind {
    /// Whether it begins work on a GPU.
    pub(super) fn is_operation(self) -> bool {
        self != Kind::Sync
    }

    /// Whether the host and the GPU meet here.
    pub(super) fn is_of_host(self) -> bool {
        matches!(self, Kind::Sync | Kind::Transfer { with_host: true })
    }

    /// Whether it computes.
    pub(super) fn computes(self) -> bool {
        matches!(self, Kind::Kernel(_) | Kind::Graph(_))
    }
}

/// A number that stands for a token: a hash, so that it is the same in both passes over a trace.
pub(super) type Key = u64;

/// A place of the sequence that has tokens.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// Its number in the sequence.
    pub number: u64,
    /// Host ns at which its call began.
    pub time: u64,
    pub kind: Kind,
    pub plain: Key,
    pub precise: Key,
}

/// Turns records into places.
#[derive(Clone, Debug, Default)]
pub(super) struct Sequence {
    places: u64,
    /// The plain token before, and it with its stream.
    before: (Key, Key),
}

impl Sequence {
    /// The number of places so far.
    pub(super) fn len(&self) -> u64 {
        self.places
    }

    /// Takes what a record [contains](letter).
    pub(super) fn place(&mut self, letter: &Letter) -> Option<Place> {
        self.places += 1;
        let Letter { kind, plain, on_stream, shape, time, .. } = *letter;
        let (before, last) = self.before;
        if on_stream == last && matches!(kind, Kind::Kernel(_)) {
            return None;
        }
        self.before = (plain, on_stream);
        let precise = mix(mix(on_stream, shape), before);
        Some(Place { number: self.places, time, kind, plain, precise })
    }
}

/// What one record contributes to the sequence.
#[derive(Clone, Copy, Debug)]
pub(super) struct Letter {
    pub kind: Kind,
    plain: Key,
    on_stream: Key,
    shape: Key,
    pub time: u64,
    /// Its context.
    pub context: u32,
}

/// Returns what a record contributes to a sequence, if anything.
pub(super) fn letter(record: &Record) -> Option<Letter> {
    match &record.body {
        Body::Work(work) => of_work(work),
        Body::Synchronize(sync) => {
            let plain = mix(5, sync.scope as u64);
            let Call { begin, context, .. } = sync.call;
            Some(Letter { kind: Kind::Sync, plain, on_stream: plain, shape: 0, time: begin, context })
        }
        _ => None,
    }
}

fn of_work(work: &Work) -> Option<Letter> {
    if work.untimed == Untimed::Captured || work.call.flags & flag::CAPTURED != 0 {
        return None;
    }
    let mut shape = 0;
    let (kind, plain) = match work.what {
        What::Kernel { name, grid, block, .. } => {
            shape = grid.iter().chain(&block).fold(0, |hash, part| mix(hash, u64::from(*part)));
            (Kind::Kernel(name), mix(1, u64::from(name)))
        }
        What::Graph { graph, handle, kernels, copies, memsets } => {
            let operations = kernels.saturating_add(copies).saturating_add(memsets);
            // An update gives a graph another number, and the handle stays: a loop may update the graph that it launches.
            let plain = if handle == 0 { mix(2, u64::from(graph)) } else { mix(6, handle) };
            (Kind::Graph(operations), plain)
        }
        What::Memcpy { direction, bytes, .. } => {
            let with_host = direction != Direction::DtoD;
            (Kind::Transfer { with_host }, mix(mix(3, direction as u64), size_class(bytes)))
        }
        What::Memset { bytes, .. } => (Kind::Transfer { with_host: false }, mix(4, size_class(bytes))),
        // Its launches have records of their own.
        What::Burst { .. } => return None,
    };
    let Call { begin, context, .. } = work.call;
    Some(Letter { kind, plain, on_stream: mix(plain, work.stream), shape, time: begin, context })
}

/// The power of two that a size reaches.
fn size_class(bytes: u64) -> u64 {
    bytes.checked_ilog2().map_or(0, |power| u64::from(power) + 1)
}

/// Mixes a number into a hash: the multiplication of FxHash (rustc-hash), and a shift that brings high bits down.
fn mix(hash: u64, number: u64) -> u64 {
    let product = (hash.rotate_left(26) ^ number).wrapping_mul(0x517c_c1b7_2722_0a95);
    product ^ (product >> 32)
}
