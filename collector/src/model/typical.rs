//! How long does an operation of a kind typically take? The answer is a prior for operations whose own interval is
//! wide.
//!
//! Operations of one context are similar if they are launches of one kernel with one grid, block and shared memory
//! size; or launches of one graph; or copies or memsets of one direction, one kind of host memory and one size
//! class. In the first pass over a trace, [`Lengths`] draws two random samples of each kind: one of all
//! timed operations, and one of those whose events determine their length ([`Spread::is_conclusive`]). When the clocks
//! are known, [`Typical`] computes the typical length of each kind for which the samples allow that:
//!
//! - The operations with a determined length agree: there are at least [`LEAST`] of them, and their 90th percentile
//!   is at most [`AGREE`] tenths of their 10th percentile. Where lengths are random, a typical one would be worse
//!   than none.
//! - The other operations do not contradict them: the intervals of at most one in ten of the first sample exclude the
//!   typical length. Without this rule, a few long operations could speak for many short ones, whose length the
//!   events' over-read hides.
//!
//! Elsewhere, two guesses are better than an operation's own estimate:
//!
//! - Where the host waits in each call until the operation is done, it returns late, so the shortest are nearest to
//!   the truth.
//! - Where the host stalls between an operation and its end event, the operation may have taken several times as long
//!   as others of its kind; it is assumed to have taken as long as they did. If there are too few others of a transfer's
//!   size to show that, those of sizes [near it](NEAR) do, by their bytes.
//!
//! An operation whose own interval excludes the typical length keeps its own estimate ([`Usual::within`]).
//!
//! The tests in this module give known lengths, among them `nothing_is_typical_where_determined_lengths_differ` and
//! `long_operations_do_not_speak_for_short_ones_that_contradict_them`.

use super::Action;
use super::clocks::Clocks;
use super::gpu_clock::parted;
use super::gpu_interval::pair::{Pair, Spread};
use super::gpu_interval::{self, Length, MOST_TIME, Measured, Usual};
use super::memory::Blocks;
use super::transfer::{self, HostMemory, Moved, TransferKind};
use crate::hash::HashMap;
use crate::trace::record::{Body, GpuTime, Record, What, Work};
use gpuspy_wire::record::flag;
use std::collections::BTreeMap;

/// Limit on the kinds that are kept at a time. Beyond it, the less frequent half is dropped.
const MOST_KINDS: usize = 2_048;
/// Size of each of a kind's two samples.
const DRAWN: usize = 24;
/// This many operations with a determined length must agree.
const LEAST: usize = 2;
/// A sample must have this many operations to show that one of them stands out, or [`FEW`] if it stands out very far.
const MANY: usize = 8;
const FEW: usize = 3;
/// The host is assumed to have stalled after an operation that may have taken more than this many times the median
/// bound; of few operations, more than [`FAR`] times.
const STALLED: u64 = 4;
const FAR: u64 = 64;
/// Largest ratio of the 90th to the 10th percentile, in tenths.
const AGREE: u64 = 13;
/// Transfers of comparable sizes differ by no more than this factor in their bytes.
const NEAR: u64 = 4;

/// What makes operations of one context similar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Like {
    Kernel { name: u32, grid: [u32; 3], block: [u32; 3], shared_bytes: u32 },
    Transfer { kind: TransferKind, host_memory: HostMemory, size: u64, rows: u32, flags: u16 },
    Graph { graph: u32 },
}

impl Like {
    /// Returns `None` for operations that have no kind: bursts, and operations without a name or number.
    pub(crate) fn of(work: &Work, moved: Option<Moved>) -> Option<Like> {
        match (work.what, moved) {
            (What::Kernel { name, grid, block, shared_bytes, .. }, _) if name != 0 => {
                Some(Like::Kernel { name, grid, block, shared_bytes })
            }
            (What::Graph { graph, .. }, _) if graph != 0 => Some(Like::Graph { graph }),
            (What::Memcpy { rows, .. } | What::Memset { rows, .. }, Some((kind, host_memory, bytes))) => {
                let flags = work.call.flags & (flag::PREFETCH | flag::BATCH);
                Some(Like::Transfer { kind, host_memory, size: size_class(bytes), rows, flags })
            }
            _ => None,
        }
    }

    /// A transfer's size class, bytes, and what it has in common with transfers of other sizes; `None` for other operations.
    fn sized(self) -> Option<(Like, u64)> {
        match self {
            Like::Transfer { kind, host_memory, size, rows, flags } => {
                Some((Like::Transfer { kind, host_memory, size: 0, rows, flags }, size))
            }
            Like::Kernel { .. } | Like::Graph { .. } => None,
        }
    }
}

/// Returns the size class: sizes of one class differ by at most an eighth.
fn size_class(bytes: u64) -> u64 {
    let cut = bytes.checked_ilog2().unwrap_or(0).saturating_sub(3);
    bytes >> cut << cut
}

/// Where typical lengths are used. Reports use [`Prior::Agreeing`]; tests compare it with the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Prior {
    /// Nowhere.
    Never,
    /// Wherever two operations have a determined length, whether or not they agree.
    Always,
    /// By the rules of this module.
    #[default]
    Agreeing,
}

impl Usual {
    /// Summarizes some lengths; `None` if there are too few.
    fn of(mut values: Vec<u64>) -> Option<Usual> {
        values.sort_unstable();
        let last = values.len().checked_sub(1).filter(|last| last + 1 >= LEAST)?;
        let rank = |rank: usize| values.get(rank).copied();
        let (from, to) = (rank(last * 10 / 100)?, rank((last * 90).div_ceil(100))?);
        Some(Usual { from, value: rank(last.div_ceil(2))?, to, beyond: 0, is_agreed: true })
    }

    /// Marks this as a mere guess, which contradicts no operation.
    fn guessed(self) -> Usual {
        Usual { from: 0, to: u64::MAX, is_agreed: false, ..self }
    }

    /// The best value for an operation that took from `lo` to `hi`; `None` if those bounds exclude the usual length,
    /// or the operation's own estimate is better.
    pub fn within(&self, lo: u64, hi: u64) -> Option<u64> {
        (lo <= self.to && self.from <= hi && self.beyond <= hi).then(|| self.value.clamp(lo, hi))
    }
}

/// Typical lengths from a whole trace.
#[derive(Clone, Debug, Default)]
pub struct Typical {
    usual: HashMap<(u32, Like), Usual>,
}

impl Typical {
    /// The typical length of operations like this one, ns; `None` where determined lengths do not agree.
    pub fn of(&self, work: &Work, what: Action) -> Option<u64> {
        self.usual(work, what).filter(|usual| usual.is_agreed).map(|usual| usual.value)
    }

    /// The same with its spread, including mere guesses.
    pub fn usual(&self, work: &Work, what: Action) -> Option<Usual> {
        self.usual.get(&(work.call.context, Like::of(work, what.moved())?)).copied()
    }
}

/// An operation in a sample.
#[derive(Clone, Copy, Debug)]
struct Drawn {
    time_base: u32,
    pair: Pair,
    /// Whether its call returned when it was done.
    blocking: bool,
}

/// A random sample of up to [`DRAWN`] operations, by reservoir sampling (Vitter's Algorithm R, 1985).
#[derive(Clone, Debug, Default)]
struct Few {
    seen: u64,
    drawn: Vec<Drawn>,
}

impl Few {
    fn add(&mut self, one: Drawn, chance: u64) {
        self.seen += 1;
        let place = chance % self.seen;
        if self.drawn.len() < DRAWN {
            self.drawn.push(one);
        } else if let Some(place) = usize::try_from(place).ok().and_then(|place| self.drawn.get_mut(place)) {
            *place = one;
        }
    }
}

/// The samples of one kind.
#[derive(Clone, Debug, Default)]
struct Alike {
    all: Few,
    conclusive: Few,
}

impl Alike {
    /// Returns the usual length, if the module's rules allow one. `all` is the first sample.
    fn usual(
        &self,
        prior: Prior,
        all: &[Length],
        measure: impl Fn(&Drawn) -> Option<Measured>,
    ) -> Option<Usual> {
        let conclusive = self.conclusive.drawn.iter().filter_map(&measure).filter(|one| one.is_conclusive);
        let usual = Usual::of(conclusive.map(|one| one.length.value).collect());
        if prior == Prior::Always {
            return usual.map(|usual| Usual { from: 0, to: u64::MAX, ..usual });
        }
        let Some(usual) = usual else { return self.shortest(all).or_else(|| stalled(all)) };
        let contradict = |one: &&Length| usual.within(one.lo, one.hi).is_none();
        let contradicted = all.iter().filter(contradict).count() * 10 > all.len();
        let agree = usual.to.saturating_mul(10) <= usual.from.saturating_mul(AGREE) && !contradicted;
        if agree { Some(usual) } else { stalled(all) }
    }

    /// For kinds without a determined length whose calls all wait for their operation. Returning late only ever adds
    /// time, so the usual length is that of the shortest.
    fn shortest(&self, all: &[Length]) -> Option<Usual> {
        let is_blocking = self.all.drawn.iter().all(|one| one.blocking);
        let usual = Usual::of(all.iter().map(|one| one.value).collect()).filter(|_| is_blocking)?;
        Some(Usual { value: usual.from, ..usual.guessed() })
    }
}

/// For operations after which the host stalled: they may have taken much longer than most others, and nothing shows
/// that they did.
fn stalled(all: &[Length]) -> Option<Usual> {
    let usual = Usual::of(all.iter().map(|one| one.value).collect())?;
    let most = Usual::of(all.iter().map(|one| one.hi).collect())?;
    let times = if all.len() >= MANY { STALLED } else { FAR };
    let beyond = most.value.saturating_mul(times);
    (all.len() >= FEW).then(|| Usual { beyond, ..usual.guessed() })
}

/// The lengths of transfers by their size class, of one direction and kind of host memory in one context.
type BySize = BTreeMap<u64, Vec<Length>>;

/// Returns the usual length of a transfer of this size class by those of comparable sizes, if there are enough. Like
/// [`stalled`], it applies only to operations that may have taken much longer.
fn near(sizes: &BySize, size: u64) -> Option<Usual> {
    let comparable = sizes.range(size / NEAR..=size.saturating_mul(NEAR));
    let lengths = comparable.flat_map(|(of, lengths)| lengths.iter().map(|one| as_long(*one, *of, size)));
    stalled(&lengths.collect::<Vec<Length>>())
}

/// The length that a transfer of `size` bytes has if one of `of` bytes has this one. Part of its time is for its bytes, and
/// part is the same for all sizes, so that it grows with the square root of the ratio: that is halfway between the two.
fn as_long(length: Length, of: u64, size: u64) -> Length {
    let ratio = (size.max(1) as f64 / of.max(1) as f64).sqrt();
    let scaled = |ns: u64| (ns as f64 * ratio) as u64;
    Length { lo: scaled(length.lo), value: scaled(length.value), hi: scaled(length.hi) }
}

/// An upper bound on θ from the records so far.
#[derive(Clone, Copy, Debug)]
struct Ahead {
    /// Host time.
    at: i64,
    by: i64,
}

impl Ahead {
    fn by(&self, at: i64) -> i64 {
        self.by.saturating_add(parted(at.saturating_sub(self.at)))
    }
}

/// The fold of the first pass. Its memory is bounded by [`MOST_KINDS`], and by the memory blocks that the program
/// holds.
#[derive(Debug, Default)]
pub struct Lengths {
    alike: HashMap<(u32, Like), Alike>,
    ahead: HashMap<(u32, u32), Ahead>,
    /// Blocks by address, to classify copies. Memory that graphs take is not followed.
    blocks: Blocks,
    random: u64,
}

impl Lengths {
    /// Takes what a record says about memory.
    pub fn observe(&mut self, record: &Record) {
        match &record.body {
            Body::Alloc(alloc) => drop(self.blocks.allocated(record.thread, alloc)),
            Body::Free(free) => drop(self.blocks.freed(record.thread, free)),
            Body::Api(api) => drop(self.blocks.call_ended(record.thread, api)),
            Body::Context(context) if context.destroyed => {
                drop(self.blocks.context_destroyed(context.context));
            }
            _ => {}
        }
    }

    /// Takes an operation that ran and was timed. `devices` are the devices of the contexts.
    pub fn timed(&mut self, work: &Work, gpu: &GpuTime, devices: &HashMap<u32, u32>) {
        let pair = Pair::new(work, gpu);
        let ahead = self.learn(work.call.context, gpu.time_base, &pair);
        let moved = transfer::moved(&work.what, &self.blocks, devices);
        let Some(like) = Like::of(work, moved) else { return };
        let blocking = transfer::blocks_host(work.call.flags, moved);
        let spread = Spread::of(&pair, [ahead; 2], 0, 0, 0);
        let is_conclusive = spread.is_conclusive(&pair);
        let chance = self.chance();
        let alike = self.alike.entry((work.call.context, like)).or_default();
        let one = Drawn { time_base: gpu.time_base, pair, blocking };
        alike.all.add(one, chance);
        if is_conclusive {
            alike.conclusive.add(one, chance);
        }
        if self.alike.len() > MOST_KINDS {
            self.forget_half();
        }
    }

    /// Returns the typical lengths, by clocks that were fitted to the whole trace.
    pub fn finish(self, prior: Prior, clocks: &Clocks) -> Typical {
        if prior == Prior::Never {
            return Typical::default();
        }
        let measure = |context: u32| {
            move |one: &Drawn| {
                Some(gpu_interval::measure(&one.pair, one.blocking, clocks.of(context, one.time_base)?))
            }
        };
        let (mut usual, mut others) = (HashMap::default(), Vec::new());
        let mut families: HashMap<(u32, Like), BySize> = HashMap::default();
        for (key, alike) in self.alike {
            let (context, like) = key;
            let measured = alike.all.drawn.iter().filter_map(measure(context));
            let all: Vec<Length> = measured.map(|one| one.length).collect();
            match alike.usual(prior, &all, measure(context)) {
                Some(found) => drop(usual.insert(key, found)),
                None => others.push(key),
            }
            if let Some((family, size)) = like.sized() {
                families.entry((context, family)).or_default().insert(size, all);
            }
        }
        let by_size = |(context, like): (u32, Like)| {
            let (family, size) = like.sized()?;
            Some(((context, like), near(families.get(&(context, family))?, size)?))
        };
        usual.extend(others.into_iter().filter_map(by_size));
        Typical { usual }
    }

    /// Updates the upper bound on a time base's θ with this pair, and returns it for the moment of submission.
    fn learn(&mut self, context: u32, time_base: u32, pair: &Pair) -> i64 {
        let recorded = pair.submitted - if pair.lead < MOST_TIME as i64 { pair.lead } else { 0 };
        let stamp = if pair.lead < MOST_TIME as i64 { pair.start } else { pair.end() };
        let new = Ahead { at: recorded, by: stamp + pair.error() - recorded };
        let known = self.ahead.entry((context, time_base)).or_insert(new);
        if new.by <= known.by(recorded) {
            *known = new;
        }
        known.by(pair.submitted)
    }

    /// SplitMix64 (Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014).
    fn chance(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.random ^ (self.random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Keeps the kinds that had the most operations.
    fn forget_half(&mut self) {
        let mut seen: Vec<u64> = self.alike.values().map(|alike| alike.all.seen).collect();
        seen.sort_unstable();
        let least = seen[seen.len() / 2];
        self.alike.retain(|_, alike| alike.all.seen > least);
    }
}

#[cfg(test)]
mod tests;
