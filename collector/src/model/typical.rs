//! What an operation of a kind typically takes: a prior for those whose own interval is wide.
//!
//! Operations are alike if they are launches of a kernel in one shape, launches of a graph, or copies and sets of one way, one
//! host memory and one size, in one context. In the first pass over a trace [`Lengths`] keeps a few of each kind, drawn by
//! chance: of all that were timed, and of those whose events tell how long they lasted, up to what all events are off by
//! ([`Spread::is_telling`]). At its end [`Typical`] has what these took, of every kind where that means something:
//!
//! - They agree with each other: there are [`LEAST`] or more, and their 90th percentile is at most [`AGREE`] tenths of their
//!   10th. Where lengths are random, a typical one would be worse than none.
//! - The others do not contradict them: of all that were drawn, at most one in ten certainly took another time. Those that tell
//!   may just be those that were long enough to be told apart from what their events over-read.
//!
//! Elsewhere two guesses are better than what an operation says by itself. Where the host waits for each operation in its call, it
//! comes back late, and the shortest are the nearest to what they take. And where the host stalls between an operation and its
//! end event, that one can have taken several times as long as its like, and is taken to have lasted as long as they.
//!
//! An operation that certainly took another time than its like is not typical, whatever the others are:
//! [`Usual::within`] has nothing for it.

use super::Action;
use super::gpu_clock::{Clocks, parted};
use super::gpu_interval::pair::{Pair, Spread};
use super::gpu_interval::{self, MOST_TIME, Measured};
use super::memory::Blocks;
use super::transfer::{self, HostMemory, Moved, TransferKind};
use crate::trace::record::{Body, GpuTime, Record, What, Work};
use gpuspy_wire::record::flag;
use std::collections::HashMap;

/// Kinds of operations that are kept at a time. Where there are more, those go that had the fewest.
const MOST_KINDS: usize = 2_048;
/// Operations that are drawn of a kind, of all and of those that tell.
const DRAWN: usize = 24;
/// So many that tell must agree.
const LEAST: usize = 2;
/// So many say what most others may have taken.
const MANY: usize = 8;
/// The host stalled beside an operation that can have taken so many times as long as most.
const STALLED: u64 = 4;
/// How many times the 10th percentile the 90th may be, in tenths.
const AGREE: u64 = 13;

/// What makes operations alike, in a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Like {
    Kernel { name: u32, grid: [u32; 3], block: [u32; 3], shared_bytes: u32 },
    Transfer { kind: TransferKind, host_memory: HostMemory, size: u64, rows: u32, manner: u16 },
    Graph { graph: u32 },
}

impl Like {
    /// `None` where nothing is like it: a burst, or what nobody knows the name of.
    fn of(work: &Work, moved: Option<Moved>) -> Option<Like> {
        match (work.what, moved) {
            (What::Kernel { name, grid, block, shared_bytes, .. }, _) if name != 0 => {
                Some(Like::Kernel { name, grid, block, shared_bytes })
            }
            (What::Graph { graph, .. }, _) if graph != 0 => Some(Like::Graph { graph }),
            (What::Memcpy { rows, .. } | What::Memset { rows, .. }, Some((kind, host_memory, bytes))) => {
                let manner = work.call.flags & (flag::PREFETCH | flag::BATCH);
                Some(Like::Transfer { kind, host_memory, size: size_class(bytes), rows, manner })
            }
            _ => None,
        }
    }
}

/// Sizes of one class differ by an eighth at most.
fn size_class(bytes: u64) -> u64 {
    let cut = bytes.checked_ilog2().unwrap_or(0).saturating_sub(3);
    bytes >> cut << cut
}

/// Where what is typical is used. [`Prior::Agreeing`] is what everybody reads; the others are there to be compared with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Prior {
    /// Nowhere.
    Never,
    /// Wherever two tell, whether or not they agree, and nowhere else.
    Always,
    /// By the rules above.
    #[default]
    Agreeing,
}

/// What operations that are alike usually take, GPU ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usual {
    /// The 10th percentile.
    pub from: u64,
    /// The median.
    pub value: u64,
    /// The 90th percentile.
    pub to: u64,
    /// It is the best value of those only that can have taken longer than this.
    pub beyond: u64,
    /// Those that tell agree on it.
    pub is_agreed: bool,
}

impl Usual {
    /// Of some that are alike; `None` of too few.
    fn of(mut values: Vec<u64>) -> Option<Usual> {
        values.sort_unstable();
        let last = values.len().checked_sub(1).filter(|last| last + 1 >= LEAST)?;
        let rank = |rank: usize| values.get(rank).copied();
        let (from, to) = (rank(last * 10 / 100)?, rank((last * 90).div_ceil(100))?);
        Some(Usual { from, value: rank(last.div_ceil(2))?, to, beyond: 0, is_agreed: true })
    }

    /// What nobody has agreed on, so that it contradicts nothing.
    fn guessed(self) -> Usual {
        Usual { from: 0, to: u64::MAX, is_agreed: false, ..self }
    }

    /// The best value for an operation that took from `lo` to `hi`; `None` if it certainly took another time than is usual, or
    /// is known better than that.
    pub fn within(&self, lo: u64, hi: u64) -> Option<u64> {
        (lo <= self.to && self.from <= hi && self.beyond <= hi).then(|| self.value.clamp(lo, hi))
    }
}

/// What operations typically take, of a whole trace.
#[derive(Clone, Debug, Default)]
pub struct Typical {
    usual: HashMap<(u32, Like), Usual>,
}

impl Typical {
    /// What an operation like this one typically takes, ns; `None` where those that tell do not agree.
    pub fn of(&self, work: &Work, what: Action) -> Option<u64> {
        self.usual(work, what).filter(|usual| usual.is_agreed).map(|usual| usual.value)
    }

    /// The same, and how far that usually differs; also where it is but the best guess that there is.
    pub fn usual(&self, work: &Work, what: Action) -> Option<Usual> {
        self.usual.get(&(work.call.context, Like::of(work, what.moved())?)).copied()
    }
}

/// An operation that was drawn.
#[derive(Clone, Copy, Debug)]
struct Drawn {
    time_base: u32,
    pair: Pair,
    /// Its call returned when it was done.
    blocking: bool,
}

/// A few of many, each as likely to be among them as any other.
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

/// Operations that are alike.
#[derive(Clone, Debug, Default)]
struct Alike {
    all: Few,
    telling: Few,
}

impl Alike {
    /// What they usually take, if the rules above allow to speak of that.
    fn usual(&self, prior: Prior, measure: impl Fn(&Drawn) -> Option<Measured>) -> Option<Usual> {
        let all: Vec<Measured> = self.all.drawn.iter().filter_map(&measure).collect();
        let telling = self.telling.drawn.iter().filter_map(&measure).filter(|one| one.is_telling);
        let usual = Usual::of(telling.map(|one| one.length.value).collect());
        if prior == Prior::Always {
            return usual.map(|usual| Usual { from: 0, to: u64::MAX, ..usual });
        }
        let Some(usual) = usual else { return self.shortest(&all).or_else(|| stalled(&all)) };
        let contradict = |one: &&Measured| usual.within(one.length.lo, one.length.hi).is_none();
        let contradicted = all.iter().filter(contradict).count() * 10 > all.len();
        let agree = usual.to.saturating_mul(10) <= usual.from.saturating_mul(AGREE) && !contradicted;
        if agree { Some(usual) } else { stalled(&all) }
    }

    /// Where none tells, but the host waited in all of their calls. How late it came back only ever adds: they take what the
    /// shortest seem to.
    fn shortest(&self, all: &[Measured]) -> Option<Usual> {
        let is_blocking = self.all.drawn.iter().all(|one| one.blocking);
        let usual = Usual::of(all.iter().map(|one| one.length.value).collect()).filter(|_| is_blocking)?;
        Some(Usual { value: usual.from, ..usual.guessed() })
    }
}

/// For those behind which the host stalled: they may have taken much longer than most others may have,
/// and nothing says that they did.
fn stalled(all: &[Measured]) -> Option<Usual> {
    let usual = Usual::of(all.iter().map(|one| one.length.value).collect())?;
    let most = Usual::of(all.iter().map(|one| one.length.hi).collect())?;
    (all.len() >= MANY).then(|| Usual { beyond: most.value.saturating_mul(STALLED), ..usual.guessed() })
}

/// The most that a GPU clock can be ahead of the host's, by all that was seen of it until now.
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

/// The fold of the first pass. Its size is that of [`MOST_KINDS`] kinds, and of what memory is allocated at the moment.
#[derive(Debug, Default)]
pub struct Lengths {
    alike: HashMap<(u32, Like), Alike>,
    ahead: HashMap<(u32, u32), Ahead>,
    /// What addresses mean, to tell copies apart. Memory that graphs take is not followed.
    blocks: Blocks,
    random: u64,
}

impl Lengths {
    /// Takes what a record says of memory.
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

    /// Takes an operation that ran and was timed.
    pub fn timed(&mut self, work: &Work, gpu: &GpuTime) {
        let pair = Pair::new(work, gpu);
        let ahead = self.learn(work.call.context, gpu.time_base, &pair);
        let moved = transfer::moved(&work.what, &self.blocks);
        let Some(like) = Like::of(work, moved) else { return };
        let blocking = transfer::blocks_host(work.call.flags, moved);
        let spread = Spread::of(&pair, [ahead; 2], 0, 0);
        let is_telling = spread.is_telling(&pair);
        let chance = self.chance();
        let alike = self.alike.entry((work.call.context, like)).or_default();
        let one = Drawn { time_base: gpu.time_base, pair, blocking };
        alike.all.add(one, chance);
        if is_telling {
            alike.telling.add(one, chance);
        }
        if self.alike.len() > MOST_KINDS {
            self.forget_half();
        }
    }

    /// What is typical, by clocks that were fitted to the whole trace.
    pub fn finish(self, prior: Prior, clocks: &Clocks) -> Typical {
        if prior == Prior::Never {
            return Typical::default();
        }
        let usual = self.alike.into_iter().filter_map(|(key, alike)| {
            let measure = |one: &Drawn| {
                Some(gpu_interval::measure(&one.pair, one.blocking, clocks.of(key.0, one.time_base)?))
            };
            Some((key, alike.usual(prior, measure)?))
        });
        Typical { usual: usual.collect() }
    }

    /// How far the time base's clock is ahead at most, once this pair is known, where it was submitted.
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

    /// SplitMix64.
    fn chance(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.random ^ (self.random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Leaves the kinds that had the most operations.
    fn forget_half(&mut self) {
        let mut seen: Vec<u64> = self.alike.values().map(|alike| alike.all.seen).collect();
        seen.sort_unstable();
        let least = seen[seen.len() / 2];
        self.alike.retain(|_, alike| alike.all.seen > least);
    }
}

#[cfg(test)]
mod tests {
    use super::super::survey::Survey;
    use super::*;
    use crate::trace::record::{Alloc, Call};
    use gpuspy_wire::record::{Direction, Memory, Untimed};

    /// Launches with a known truth, on a GPU whose clock is the host's. A queued launch waits behind what came before it,
    /// and its events tell how long it lasts; one on a drained stream is issued while its start event fires.
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

    /// A drained launch first, by which the clock is known, and two with nothing between, by which it is known that an event
    /// costs nothing.
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
    fn those_that_agree_are_typical_of_their_shape_and_of_no_other() {
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
        assert_eq!(typical.of(&other, KERNEL), None, "one alone agrees with nobody");
        let mut elsewhere = wide.clone();
        elsewhere.call.context = 2;
        assert_eq!(typical.of(&elsewhere, KERNEL), None);
        let mut unnamed = wide;
        if let What::Kernel { name, .. } = &mut unnamed.what {
            *name = 0;
        }
        assert_eq!(typical.of(&unnamed, KERNEL), None);
    }

    /// What is timed alone among the launches of runs is an operation like any other.
    #[test]
    fn a_launch_that_stands_for_others_counts_like_any() {
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
    fn where_those_that_tell_differ_nothing_is_typical() {
        for (lengths, expected) in [([4_000, 5_000], Some(5_000)), ([4_000, 5_300], None)] {
            let mut gpu = known();
            let wide = gpu.kernel(8, false, 4_500);
            for ns in lengths {
                gpu.kernel(8, true, ns);
            }
            assert_eq!(gpu.typical().of(&wide, KERNEL), expected, "{lengths:?}");
        }
    }

    /// Only the long ones of a drained stream are told apart from what their events over-read.
    #[test]
    fn those_that_tell_do_not_speak_for_others_that_contradict_them() {
        let mut gpu = known();
        let wide = gpu.kernel(8, false, 3_000);
        for lasted in [2_000, 40_000, 4_000, 42_000, 6_000, 41_000] {
            gpu.kernel(8, false, lasted);
        }
        assert_eq!(gpu.typical().of(&wide, KERNEL), None);
    }

    /// 2 µs kernels on a drained stream, and a random one: none tells. Beside one of them the host was away for a while.
    #[test]
    fn beside_which_the_host_stalled_is_taken_to_be_like_the_others() {
        let mut gpu = known();
        let mut last = gpu.kernel(8, false, 2_000);
        for lasted in [1_000, 2_500, 1_500, 3_000, 2_000, 500, 2_000, 2_000] {
            last = gpu.kernel(8, false, lasted);
        }
        let typical = gpu.typical();
        assert_eq!(typical.of(&last, KERNEL), None, "nobody has agreed on it");
        let usual = typical.usual(&last, KERNEL).unwrap();
        assert_eq!(usual.within(0, 8_000), None, "its own guess is as good");
        assert!(usual.within(0, 900_000).is_some_and(|ns| ns < 4_000), "{usual:?}");
        assert_eq!(usual.within(800_000, 900_000), Some(800_000));
    }

    /// The host comes back late from a call that waits: what seems to have lasted least lasted least too long.
    #[test]
    fn of_copies_that_the_host_waits_for_the_shortest_are_the_nearest() {
        let mut gpu = known();
        let copies = [3_000, 90_000, 4_000, 3_100, 60_000].map(|seems| {
            let mut copy = gpu.copy(1 << 40, 64, false, seems);
            // The call returned when it seemed to be over, and only then came the end event.
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

    #[test]
    fn a_copy_is_like_those_of_its_way_its_memory_and_its_size() {
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

    #[test]
    fn a_class_of_sizes_spans_an_eighth() {
        assert_eq!([0, 1, 15, 16, 17, 18, 1 << 20].map(size_class), [0, 1, 15, 16, 16, 18, 1 << 20]);
        assert_eq!(size_class(u64::MAX), 15 << 60);
    }

    #[test]
    fn what_certainly_took_another_time_is_not_typical() {
        let usual = Usual { from: 90, value: 100, to: 110, beyond: 0, is_agreed: true };
        assert_eq!(
            [(0, 200), (0, 95), (105, 200)].map(|(lo, hi)| usual.within(lo, hi)),
            [100, 95, 105].map(Some)
        );
        assert_eq!([(0, 89), (111, 300)].map(|(lo, hi)| usual.within(lo, hi)), [None, None]);
    }

    #[test]
    fn what_is_kept_is_bounded_and_the_most_frequent_stay() {
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
            lengths.timed(&one, &one.gpu.unwrap());
            assert!(lengths.alike.len() <= MOST_KINDS);
        }
        let often = &lengths.alike[&(1, Like::of(&work, None).unwrap())];
        assert_eq!((often.all.seen, often.all.drawn.len()), (5 * MOST_KINDS as u64 / 2, DRAWN));
    }
}
