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
enum Like {
    Kernel { name: u32, grid: [u32; 3], block: [u32; 3], shared_bytes: u32 },
    Transfer { kind: TransferKind, host_memory: HostMemory, size: u64, rows: u32, flags: u16 },
    Graph { graph: u32 },
}

impl Like {
    /// Returns `None` for operations that have no kind: bursts, and operations without a name or number.
    fn of(work: &Work, moved: Option<Moved>) -> Option<Like> {
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
mod tests {
    use super::super::Model;
    use super::super::survey::Survey;
    use super::*;
    use crate::trace::record::{Alloc, Call, Context, Names};
    use gpuspy_wire::record::{Direction, Memory, Untimed};

    /// Launches with a known truth on a GPU whose clock is the host's. A queued launch waits for earlier work, and
    /// its events determine its length; one on a drained stream is issued while its start event fires.
    #[derive(Default)]
    struct Gpu {
        now: u64,
        records: Vec<Record>,
    }

    impl Gpu {
        fn record(&mut self, body: Body) {
            self.records.push(Record { thread: 1, at: self.now, body });
        }

        fn ran(&mut self, what: What, is_queued: bool, lasted: u64) -> Work {
            let begin = self.now + 1_000_000;
            let (submitted, end) = (begin + 4_000, begin + 5_000);
            self.now = end + 1_000_000;
            let start = if is_queued { begin + 500_000 } else { begin + 1_000 };
            let over = if is_queued { start + lasted } else { end.max(submitted + lasted) };
            let call = Call { begin, end, context: 1, ..Call::default() };
            let gpu = GpuTime {
                time_base: 1,
                start: start as i64,
                duration: over - start,
                seen: self.now,
                ..GpuTime::default()
            };
            let (lead, tail, stream) = (4_000, 1_000, 7);
            let gpu = Some(gpu);
            let work =
                Work { call, submitted, entered: 0, lead, tail, untimed: Untimed::Timed, stream, gpu, what };
            self.record(Body::Work(work.clone()));
            work
        }

        fn kernel(&mut self, blocks: u32, is_queued: bool, lasted: u64) -> Work {
            let (name, function, shared_bytes, attributes) = (3, 0, 0, 0);
            let (grid, block, cluster) = ([blocks, 1, 1], [64, 1, 1], [0; 3]);
            let kernel = What::Kernel { name, function, grid, block, shared_bytes, attributes, cluster };
            self.ran(kernel, is_queued, lasted)
        }

        fn copy(&mut self, dst: u64, bytes: u64, is_queued: bool, lasted: u64) -> Work {
            let (direction, asynchronous) = (Direction::DtoH, true);
            let (src, rows, peer_context) = (0x10, 1, 0);
            let copy = What::Memcpy { direction, asynchronous, bytes, dst, src, rows, peer_context };
            self.ran(copy, is_queued, lasted)
        }

        fn typical(&self) -> Typical {
            Survey::of(self.records.iter().cloned()).typical
        }
    }

    const KERNEL: Action = Action::Kernel { name: 3, communication: false };

    fn to_host(host_memory: HostMemory, bytes: u64) -> Action {
        Action::Transfer { kind: TransferKind::DtoH, host_memory, bytes }
    }

    /// Starts with a drained launch, which bounds the clock, and two with nothing between, which show that
    /// an event costs nothing.
    fn known() -> Gpu {
        let mut gpu = Gpu::default();
        gpu.kernel(9_999, false, 0);
        let mut next = gpu.kernel(9_998, true, 7_001);
        if let Some(gpu) = &mut next.gpu {
            gpu.start += 7_001;
        }
        gpu.record(Body::Work(next));
        gpu
    }

    #[test]
    fn lengths_that_agree_are_typical_of_their_shape_only() {
        let mut gpu = known();
        let wide = gpu.kernel(8, false, 5_000);
        for ns in [5_000, 5_050, 5_100] {
            gpu.kernel(8, true, ns);
        }
        let other = gpu.kernel(16, true, 9_000);
        let typical = gpu.typical();
        assert_eq!(typical.of(&wide, KERNEL), Some(5_050));
        assert_eq!(
            typical.usual(&wide, KERNEL),
            Some(Usual { from: 5_000, value: 5_050, to: 5_100, beyond: 0, is_agreed: true })
        );
        assert_eq!(typical.of(&other, KERNEL), None, "one alone is too few");
        let mut elsewhere = wide.clone();
        elsewhere.call.context = 2;
        assert_eq!(typical.of(&elsewhere, KERNEL), None);
        let mut unnamed = wide;
        if let What::Kernel { name, .. } = &mut unnamed.what {
            *name = 0;
        }
        assert_eq!(typical.of(&unnamed, KERNEL), None);
    }

    /// A launch that is timed alone between runs counts like any other operation.
    #[test]
    fn a_launch_between_runs_counts_like_any_other() {
        let mut gpu = known();
        let wide = gpu.kernel(8, false, 5_000);
        for lasted in [5_000, 5_020] {
            gpu.kernel(8, true, lasted);
            let last = gpu.records.last_mut().map(|record| &mut record.body);
            let Some(Body::Work(work)) = last else { panic!("no launch") };
            work.call.flags |= flag::SAMPLED;
        }
        assert_eq!(gpu.typical().of(&wide, KERNEL), Some(5_020));
    }

    #[test]
    fn nothing_is_typical_where_determined_lengths_differ() {
        for (lengths, expected) in [([4_000, 5_000], Some(5_000)), ([4_000, 5_300], None)] {
            let mut gpu = known();
            let wide = gpu.kernel(8, false, 4_500);
            for ns in lengths {
                gpu.kernel(8, true, ns);
            }
            assert_eq!(gpu.typical().of(&wide, KERNEL), expected, "{lengths:?}");
        }
    }

    /// Of a drained stream's operations, only the long ones exceed what their events over-read.
    #[test]
    fn long_operations_do_not_speak_for_short_ones_that_contradict_them() {
        let mut gpu = known();
        let wide = gpu.kernel(8, false, 3_000);
        for lasted in [2_000, 40_000, 4_000, 42_000, 6_000, 41_000] {
            gpu.kernel(8, false, lasted);
        }
        assert_eq!(gpu.typical().of(&wide, KERNEL), None);
    }

    /// Kernels of 2 µs on a drained stream, none of them conclusive. The host stalled after one of them.
    #[test]
    fn an_operation_after_which_the_host_stalled_is_taken_to_be_like_the_others() {
        let mut gpu = known();
        let mut last = gpu.kernel(8, false, 2_000);
        for lasted in [1_000, 2_500, 1_500, 3_000, 2_000, 500, 2_000, 2_000] {
            last = gpu.kernel(8, false, lasted);
        }
        let typical = gpu.typical();
        assert_eq!(typical.of(&last, KERNEL), None, "no determined lengths agree on it");
        let usual = typical.usual(&last, KERNEL).unwrap();
        assert_eq!(usual.within(0, 8_000), None, "its own estimate is as good");
        assert!(usual.within(0, 900_000).is_some_and(|ns| ns < 4_000), "{usual:?}");
        assert_eq!(usual.within(800_000, 900_000), Some(800_000));
    }

    /// The host returns late from a call that waits, so the shortest measurement is the least wrong.
    #[test]
    fn of_copies_that_the_host_waits_for_the_shortest_are_nearest_to_the_truth() {
        let mut gpu = known();
        let copies = [3_000, 90_000, 4_000, 3_100, 60_000].map(|seems| {
            let mut copy = gpu.copy(1 << 40, 64, false, seems);
            // The call returned when the copy seemed to be over; the end event was recorded only then.
            (copy.lead, copy.submitted) = (seems, copy.call.begin + seems);
            copy.call.end = copy.submitted + 1_000;
            gpu.records.pop();
            gpu.record(Body::Work(copy.clone()));
            copy
        });
        let pageable = to_host(HostMemory::Pageable, 64);
        let typical = gpu.typical();
        let usual = typical.usual(&copies[1], pageable).unwrap();
        assert_eq!((typical.of(&copies[1], pageable), usual.beyond), (None, 0));
        assert!(usual.value <= 7_000, "{usual:?}");
    }

    /// A copy of 14 KiB whose call was held up for 40 ms was the only one of its size, and counted with 20 or 40 ms.
    #[test]
    fn a_copy_whose_call_was_held_up_takes_as_long_as_those_of_sizes_near_it() {
        const STALL: u64 = 40_000_000;
        let mut gpu = known();
        let waits_for = |gpu: &mut Gpu, bytes: u64, seems: u64| {
            let mut copy = gpu.copy(1 << 40, bytes, false, seems);
            (copy.lead, copy.submitted) = (seems, copy.call.begin + seems);
            copy.call.end = copy.submitted + 1_000;
            gpu.records.pop();
            gpu.record(Body::Work(copy.clone()));
            copy
        };
        let others = [9_000, 10_700, 12_400, 17_000, 19_000, 25_000, 37_000, 49_000];
        for bytes in others {
            waits_for(&mut gpu, bytes, 2_000 + bytes / 6);
        }
        let held_up = waits_for(&mut gpu, 14_465, STALL);
        let far = waits_for(&mut gpu, 1 << 20, STALL);
        let typical = gpu.typical();
        let of = |copy: &Work, bytes| typical.usual(copy, to_host(HostMemory::Pageable, bytes));
        let usual = of(&held_up, 14_465).unwrap();
        assert_eq!(typical.of(&held_up, to_host(HostMemory::Pageable, 14_465)), None, "it is a guess");
        let best = usual.within(0, STALL).unwrap();
        assert!(
            (3_000..9_000).contains(&best),
            "{usual:?}; others of its size take 4.4 µs and what is over-read"
        );
        assert_eq!(usual.within(0, 12_000), None, "its own estimate is as good");
        assert_eq!(usual.within(STALL / 2, STALL), Some(STALL / 2), "it certainly took that long");
        assert_eq!(of(&far, 1 << 20), None, "none of a comparable size was timed");
    }

    #[test]
    fn of_few_operations_one_stands_out_if_it_may_have_taken_very_long() {
        let of = |hi: u64| Length { lo: 0, value: hi / 2, hi };
        let usual = stalled(&[of(4_000), of(40_000_000), of(5_000)]).unwrap();
        assert_eq!([40_000_000, 300_000].map(|hi| usual.within(0, hi)), [Some(2_500), None]);
        assert_eq!(stalled(&[of(4_000), of(40_000_000)]), None, "either may be the usual one");
    }

    #[test]
    fn copies_are_similar_by_direction_host_memory_and_size() {
        const PINNED: u64 = 0x10_000;
        let mut gpu = known();
        let (memory, stream, pool) = (Memory::Pinned, 0, 0);
        let (call, address, bytes) = (Call { context: 1, ..Call::default() }, PINNED, 1 << 16);
        gpu.record(Body::Alloc(Alloc { call, memory, address, bytes, stream, pool }));
        let pinned = gpu.copy(PINNED, 40_000, false, 3_000);
        for ns in [3_000, 3_100] {
            gpu.copy(PINNED, 40_500, true, ns);
        }
        for ns in [9_000, 9_100] {
            gpu.copy(1 << 40, 40_500, true, ns);
        }
        let typical = gpu.typical();
        assert_eq!(typical.of(&pinned, to_host(HostMemory::Pinned, 40_000)), Some(3_100));
        assert_eq!(typical.of(&pinned, to_host(HostMemory::Pageable, 40_000)), Some(9_100));
        assert_eq!(typical.of(&pinned, to_host(HostMemory::Pinned, 80_000)), None);
    }

    /// The first pass took them for copies inside of a GPU, and the second one for what they are: none had a typical length.
    #[test]
    fn copies_between_two_gpus_are_similar_in_both_passes() {
        let mut gpu = known();
        for (context, device, address) in [(1, 0, 0x10_000), (2, 1, 0x20_000)] {
            gpu.record(Body::Context(Context { context, device, handle: 9, destroyed: false }));
            let (memory, bytes, stream, pool) = (Memory::Device, 0x1000, 0, 0);
            let call = Call { context, ..Call::default() };
            gpu.record(Body::Alloc(Alloc { call, memory, address, bytes, stream, pool }));
        }
        let (asynchronous, src, dst, rows, peer_context) = (true, 0x10_000, 0x20_000, 1, 0);
        let (direction, bytes) = (Direction::DtoD, 64);
        let copy = What::Memcpy { direction, asynchronous, bytes, dst, src, rows, peer_context };
        let copies = [3_000, 3_050, 3_100].map(|ns| gpu.ran(copy, true, ns));
        let clocks = Survey::of(gpu.records.iter().cloned());
        let mut model = Model::new(&Names::default(), &clocks);
        let operations = gpu.records.iter().filter_map(|record| model.observe(record).operation);
        let actions: Vec<Action> = operations.map(|operation| operation.what).collect();
        let what = *actions.last().unwrap();
        assert_eq!(what.moved(), Some((TransferKind::PtoP, HostMemory::None, 64)));
        assert_eq!(clocks.typical.of(&copies[0], what), Some(3_050));
    }

    #[test]
    fn a_class_of_sizes_spans_an_eighth() {
        assert_eq!([0, 1, 15, 16, 17, 18, 1 << 20].map(size_class), [0, 1, 15, 16, 16, 18, 1 << 20]);
        assert_eq!(size_class(u64::MAX), 15 << 60);
    }

    #[test]
    fn an_operation_whose_bounds_exclude_the_usual_length_is_not_typical() {
        let usual = Usual { from: 90, value: 100, to: 110, beyond: 0, is_agreed: true };
        assert_eq!(
            [(0, 200), (0, 95), (105, 200)].map(|(lo, hi)| usual.within(lo, hi)),
            [100, 95, 105].map(Some)
        );
        assert_eq!([(0, 89), (111, 300)].map(|(lo, hi)| usual.within(lo, hi)), [None, None]);
    }

    #[test]
    fn memory_is_bounded_and_the_most_frequent_kinds_stay() {
        let mut gpu = known();
        for ns in [5_000, 5_050] {
            gpu.kernel(8, true, ns);
        }
        let mut lengths = Lengths::default();
        let launch = gpu.records.last().cloned();
        let Some(Body::Work(work)) = launch.map(|record| record.body) else { panic!("no launch") };
        for n in 0..5 * MOST_KINDS as u32 {
            let mut one = work.clone();
            if let What::Kernel { name, .. } = &mut one.what {
                *name = if n % 2 == 0 { 3 } else { 10 + n };
            }
            lengths.timed(&one, &one.gpu.unwrap(), &HashMap::default());
            assert!(lengths.alike.len() <= MOST_KINDS);
        }
        let often = &lengths.alike[&(1, Like::of(&work, None).unwrap())];
        assert_eq!((often.all.seen, often.all.drawn.len()), (5 * MOST_KINDS as u64 / 2, DRAWN));
    }
}
