//! Which of the periods in a sequence is the step?
//!
//! Tokens that recur at about the same distance form a **level**. A program has several: the layers of a network, the
//! micro-batches of a step, its steps, evaluation after some steps. The innermost level that the loop consists of is
//! where the search begins; it goes on to the next outer level if the inner one looks like a part of a step:
//!
//! 1. Kernels whose names reveal an optimizer recur at one level: that one is the step. If they do at several, it is the
//!    outermost one that has more than a fourth as many of them as another: a value that is read after some steps comes before
//!    one of them.
//! 2. The inner level is a **phase**: other tokens recur as often, but not between its own, as do the layers' forward and
//!    backward kernels.
//! 3. What the outer level adds to the inner segments is shorter than one of them, both in launches and in host time,
//!    and it computes: an optimizer's update after some micro-batches. A wait or a read after some steps that are not
//!    [short](SHORT) computes nothing, and what follows it is the next step.
//! 4. The host and the GPU meet (a synchronization, a copy from or to the host) at the outer level only, once or a few times,
//!    and what it adds is shorter than half of the inner segments: sampling after all layers.
//!
//! 5. The distances of the outer level are the same to the launch, and those of the inner one are not; or it has several
//!    times as many tokens: then the inner level is a kernel that comes several times in a step.
//! 6. The inner segments are [short](SHORT), and at equal distances other work [interrupts](INTERRUPTED) them that is many times as
//!    long and has more kinds of launches: an optimizer that updates one parameter after the other, after the backward pass. What
//!    an evaluation adds is one kind of segment again and again.
//! 7. The inner segments are [short](SHORT), and at equal distances, between which nothing else comes again and again, the host and
//!    the GPU meet, as only there: a batch, or what is read of it. Or one of them has an operation of the outer level in place of its
//!    own: the first or the last layer of a network.
//!
//! Otherwise the outer level is something that happens after some steps, as an evaluation or a checkpoint; or a variant of
//! the inner one, as every second step on another stream. More than [`MOST_INNER`]
//! inner segments are never parts of a step, unless something interrupts them so.
//!
//! Its limits: without an optimizer's name, a small kernel after every few steps, as a gradient's norm that is printed,
//! looks like rule 3 and multiplies the step; and steps whose layers differ from evaluation in nothing but their number
//! look like an evaluation.

use super::lane::{Lane, Occurrences};
use super::spacing::Usual;
use super::token::{Key, Kind};
use std::collections::BTreeSet;

/// The fewest occurrences of a token from which a period is claimed.
const FEWEST: u64 = 4;

/// The share of distances that are alike in a regular token. Four micro-batches in a step have one distance in four
/// that contains the update.
const AGREEMENT: f64 = 0.7;

/// The number of equal distances from which on they are no coincidence, whatever else recurs: of the hundreds of tokens of
/// a random sequence, some recur at a few nearly equal distances.
const SURE: u64 = 16;

/// The share of distances that are the same to the place in tokens that recur less often.
const EXACTNESS: f64 = 0.6;

/// How much less a token's distances may agree than those of the steadiest one of its level: a token of each step has other
/// distances in the warm-up, and one that comes after it only has none. Distances that are [longer](Usual::stretched), as in
/// a warm-up whose steps contain more, do agree for this.
const STEADY: f64 = 0.06;

/// The share of a sequence that the regular distances of a level cover at least. The rest is what does not repeat:
/// the program's start, evaluations.
const COVERED: f64 = 0.2;

/// The share of a sequence from the first to the last occurrence.
const SPANNED: f64 = 0.5;

/// The most inner segments that a step can have: layers of the largest language models (126 in Llama 3.1 405B).
const MOST_INNER: f64 = 128.0;

/// How often the host and the GPU meet in a segment at most, for the segment to be told by that.
const MEETINGS: f64 = 4.0;

/// The places of a segment from which on it is a step though the host waits after some of them only. A shorter one may be a layer, or
/// one pass of a loop that is a step with its wait: nothing tells these apart from steps that are so short.
const SHORT: f64 = 16.0;

/// How many times as long as a segment that is what interrupts the segments of a part of a step.
const INTERRUPTED: f64 = 10.0;

/// The share of distances that are the same to the place in tokens of segments that are all alike.
const ALL_ALIKE: f64 = 0.9;

/// The most places that the outer level adds for each moment that its tokens mark, if what it adds does not repeat itself.
const NO_LOOP: f64 = 2.0;

/// How long a segment of the outer level is at least, as a share of the inner segments for each of them. Those may be of two lengths by
/// turns, as from the first norm of a layer to the second.
const MOST: f64 = 0.75;

/// How far the distances of tokens of a level can differ, as a ratio.
const ALIKE: f64 = 1.15;

/// How many times more tokens a level has at most than another one that is a variant of it. Steps on two streams by turns have
/// each precise token twice, and precise tokens tell apart kernels that plain ones do not.
const RICHER: usize = 4;

/// How many times less of a sequence than another token of its level a token covers at least.
const SELDOM: f64 = 4.0;

/// Parts of kernel names that reveal an optimizer, in small letters: PyTorch's foreach and fused optimizers, Apex,
/// DeepSpeed, bitsandbytes, JAX's and TensorFlow's own kernels.
const OPTIMIZERS: [&str; 8] = [
    "adam",
    "multi_tensor_apply",
    "sgd",
    "lamb",
    "adagrad",
    "rmsprop",
    "applygradientdescent",
    "applymomentum",
];

/// Whether a kernel's name reveals an optimizer.
pub fn is_optimizer(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    // Norms for clipping are computed by the same template.
    OPTIMIZERS.iter().any(|part| name.contains(part)) && !name.contains("lpnorm")
}

/// A token that recurs regularly.
#[derive(Clone, Copy, Debug)]
struct Regular<'l> {
    key: Key,
    of: &'l Occurrences,
    usual: Usual,
}

impl Regular<'_> {
    /// The share of a sequence that its regular distances cover.
    fn covers(&self, places: u64) -> f64 {
        self.usual.count as f64 * self.usual.distance / places.max(1) as f64
    }

    fn spans(&self, places: u64) -> f64 {
        (self.of.last - self.of.first) as f64 / places.max(1) as f64
    }

    /// Whether it occurs once between occurrences of another token, mostly.
    fn alternates_with(&self, other: &Regular<'_>) -> bool {
        let (mine, theirs): (Vec<u64>, Vec<u64>) = (self.of.recent().collect(), other.of.recent().collect());
        let inside = |two: &&[u64]| theirs.first() < Some(&two[0]) && Some(&two[1]) < theirs.last();
        let between = mine.windows(2).filter(inside);
        let once = |two: &[u64]| theirs.iter().filter(|at| two[0] < **at && **at <= two[1]).count() == 1;
        let (all, alternating) =
            between.fold((0, 0), |(all, count), two| (all + 1, count + usize::from(once(two))));
        all > 0 && alternating * 4 >= all * 3
    }
}

/// Tokens that recur at about the same distance.
#[derive(Clone, Debug)]
pub(super) struct Level<'l> {
    tokens: Vec<Regular<'l>>,
    /// The agreement of its steadiest tokens at least, and how often they occur.
    steadiest: f64,
    count: u64,
    /// By how much the number of a token's occurrences may differ from that: the last segment may not be complete.
    spare: u64,
    /// The distance and the host ns from one occurrence to the next.
    distance: f64,
    time: f64,
}

/// Where a step begins in a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Anchor {
    /// The token that begins it.
    pub begins: Key,
    /// If given, it begins a step only after this one.
    pub after: Option<Key>,
    /// The fewest places between two steps: half of the usual number.
    pub least: u64,
    /// How often it was found.
    pub count: u64,
    /// What had been [launched](Lane::launched) before the first step.
    pub launched: u64,
    /// Whether the step's launches are mostly graphs.
    pub is_graph: bool,
}

/// Finds the steps of a sequence. `optimizers` says whether the kernel with this number is one.
pub(super) fn find(lane: &Lane, optimizers: impl Fn(u32) -> bool) -> Option<Anchor> {
    let places = lane.len();
    let all = regular(lane);
    let mut levels = grouped(&all);
    // A capture is preceded by steps that are launched one by one, which can be more launches than the replays are.
    if levels.iter().any(|level| level.is_of_graphs(lane)) {
        levels.retain(|level| level.is_of_graphs(lane));
    } else {
        levels.retain(|level| level.is_loop(places) && level.is_sure());
        // Copies that come one by one are no steps of a program that computes on all of them afterwards.
        if levels.iter().any(|level| level.has(Kind::computes)) {
            levels.retain(|level| level.has(Kind::computes));
        }
    }
    let updates = |level: &Level<'_>| {
        let is_update =
            |token: &&Regular<'_>| matches!(token.of.kind, Kind::Kernel(name) if optimizers(name));
        moments(level.tokens.iter().filter(is_update))
    };
    let most = levels.iter().map(updates).max().unwrap_or(0);
    let has_them = |level: &Level<'_>| updates(level) > 0 && updates(level) * RICHER > most;
    let step = levels.iter().rposition(has_them).unwrap_or_else(|| outermost_part(&levels, &all, lane));
    let (step, inner) = (levels.get(step)?, levels[..step].last());
    let is_graph = lane.in_graphs > lane.launches;
    Some(Anchor { is_graph, ..step.anchor(inner)? })
}

/// Tokens that recur regularly, the shortest distance first. A period of one place is none, unless it is a graph of
/// several operations.
fn regular(lane: &Lane) -> Vec<Regular<'_>> {
    let is_period = |of: &Occurrences, usual: &Usual| {
        usual.distance >= 2.0 || matches!(of.kind, Kind::Graph(operations) if operations >= 2)
    };
    let tokens = lane.tokens.iter().filter(|(_, of)| of.count >= FEWEST);
    let regular = tokens.filter_map(|(key, of)| {
        let usual = of.spacings.usual()?;
        (usual.agreement >= AGREEMENT && is_period(of, &usual)).then_some(Regular { key: *key, of, usual })
    });
    let mut regular: Vec<Regular<'_>> = regular.collect();
    regular.sort_by(|a, b| {
        let order = a.usual.distance.total_cmp(&b.usual.distance);
        order.then(a.of.first.cmp(&b.of.first)).then(a.key.cmp(&b.key))
    });
    regular
}

fn grouped<'l>(all: &[Regular<'l>]) -> Vec<Level<'l>> {
    let (mut levels, mut rest) = (Vec::new(), all);
    while let Some(first) = rest.first() {
        let is_alike = |token: &Regular<'_>| token.usual.distance <= first.usual.distance * ALIKE;
        let (level, wider) = rest.split_at(rest.partition_point(is_alike));
        levels.push(Level::of(throughout(level)));
        rest = wider;
    }
    levels
}

/// Of tokens that recur at about the same distance, those that do so for as long as the others: a kernel of a model's first
/// layers, as for the prompt of a language model, recurs like those of all other layers, but only now and then.
fn throughout<'l>(alike: &[Regular<'l>]) -> Vec<Regular<'l>> {
    let length = |token: &Regular<'_>| token.usual.count as f64 * token.usual.distance;
    let longest = alike.iter().map(length).fold(0.0, f64::max);
    alike.iter().filter(|token| length(token) * SELDOM >= longest).copied().collect()
}

/// The level that the search ends at, from the innermost on.
fn outermost_part(levels: &[Level<'_>], all: &[Regular<'_>], lane: &Lane) -> usize {
    let mut at = 0;
    for outer in 1..levels.len() {
        if levels[at].is_part_of(&levels[outer], all, lane) {
            at = outer;
        }
    }
    at
}

/// The number of tokens that do not come at the same place.
fn moments<'t>(tokens: impl Iterator<Item = &'t Regular<'t>>) -> usize {
    let places: BTreeSet<u64> = tokens.map(|token| token.of.last).collect();
    places.len()
}

impl<'l> Level<'l> {
    fn of(tokens: Vec<Regular<'l>>) -> Level<'l> {
        let median = |mut values: Vec<f64>| {
            values.sort_by(f64::total_cmp);
            values[values.len() / 2]
        };
        // Other tokens are not in all segments, or also elsewhere.
        let best = tokens.iter().map(|token| token.usual.agreement).fold(0.0, f64::max);
        let steadiest = best - STEADY;
        let counts = |tokens: &[&Regular<'_>]| tokens.iter().map(|token| token.of.count as f64).collect();
        let steady: Vec<_> = tokens.iter().filter(|token| token.usual.agreement >= steadiest).collect();
        let count = median(counts(&steady));
        // Tokens of the steps that contain something more, too, come more often. A few more would agree as well.
        let is_more = |token: &&Regular<'_>| {
            token.usual.stretched >= steadiest && token.of.count as f64 > count * (1.0 + STEADY)
        };
        let more: Vec<_> = tokens.iter().filter(is_more).collect();
        let has_more = moments(more.iter().copied()) >= 2;
        let (count, spare) = if has_more { (median(counts(&more)) as u64, 0) } else { (count as u64, 1) };
        let distance = median(tokens.iter().map(|token| token.usual.distance).collect());
        let time = median(tokens.iter().map(|token| token.usual.time).collect());
        Level { tokens, steadiest, count, spare, distance, time }
    }

    /// Whether the sequence consists of its segments, as far as it repeats.
    fn is_loop(&self, places: u64) -> bool {
        self.tokens.iter().any(|token| token.covers(places) >= COVERED && token.spans(places) >= SPANNED)
    }

    /// Whether most operations of a sequence are in launches of one of its graphs.
    fn is_of_graphs(&self, lane: &Lane) -> bool {
        let all = lane.in_graphs + lane.launches;
        self.tokens.iter().any(|token| match token.of.kind {
            Kind::Graph(operations) => token.of.count.saturating_mul(operations.into()) > all / 2,
            _ => false,
        })
    }

    /// Whether its tokens recur too often, or too exactly, for a coincidence.
    fn is_sure(&self) -> bool {
        let is_exact = |token: &&Regular<'_>| token.usual.exactness >= EXACTNESS;
        moments(self.tokens.iter().filter(is_exact)) >= 2
            || self.tokens.iter().any(|token| token.usual.count >= SURE)
    }

    /// Whether one of its tokens is such.
    fn has(&self, is: fn(Kind) -> bool) -> bool {
        self.tokens.iter().any(|token| is(token.of.kind))
    }

    /// The number of moments of a segment that its tokens mark.
    fn moments(&self) -> usize {
        moments(self.tokens.iter())
    }

    /// The largest share of distances that are the same to the place, among the tokens that all segments have.
    fn exactness(&self) -> f64 {
        let in_all = self.tokens.iter().filter(|token| token.of.count.abs_diff(self.count) <= 1);
        in_all.map(|token| token.usual.exactness).fold(0.0, f64::max)
    }

    /// Whether its segments are parts of the steps that the outer level has. See the module.
    fn is_part_of(&self, outer: &Level<'_>, all: &[Regular<'_>], lane: &Lane) -> bool {
        let segments = self.count as f64 / outer.count.max(1) as f64;
        let added = outer.distance - segments.round() * self.distance;
        let added_time = outer.time - segments.round() * self.time;
        if self.is_interrupted_by(outer, added) {
            return true;
        }
        if !(1.5..=MOST_INNER).contains(&segments) {
            return false;
        }
        let meets_outside = !self.has(Kind::is_of_host)
            && (outer.has(Kind::is_of_host) || self.meetings_of(outer, lane) > 0.0);
        // Else many of its segments are elsewhere.
        let has_all = outer.distance >= MOST * segments * self.distance;
        if self.distance < SHORT
            && has_all
            && (meets_outside && outer.is_no_loop(added) || self.is_replaced_in(outer, segments, added, lane))
        {
            return true;
        }
        let is_richer = outer.moments() > RICHER * self.moments();
        if is_richer || outer.exactness() >= self.exactness() + 0.3 {
            return true;
        }
        let meetings = if self.distance < SHORT { 0.0 } else { self.meetings_of(outer, lane) };
        if added - meetings < 0.5 || self.differs_by(meetings, outer) {
            return false;
        }
        let is_short = added < self.distance && added_time < self.time;
        let is_rest = added < 0.5 * segments * self.distance;
        outer.has(Kind::computes) && (is_short || (is_rest && meets_outside) || self.is_phase(all))
    }

    /// Whether these short segments come in rows, between which is always the same long work with more kinds of launches. `added`
    /// is its length.
    fn is_interrupted_by(&self, outer: &Level<'_>, added: f64) -> bool {
        self.distance < SHORT
            && added >= INTERRUPTED * self.distance
            && outer.exactness() >= ALL_ALIKE
            && outer.moments() > self.moments()
    }

    /// Whether its segments are all alike, and what `added` places of them add to those of an inner level comes once in each.
    fn is_no_loop(&self, added: f64) -> bool {
        self.exactness() >= ALL_ALIKE && added <= NO_LOOP * self.moments() as f64
    }

    /// Whether one of some segments differs from the others in nothing but an operation of the outer level, in place of a kernel that
    /// the others have.
    fn is_replaced_in(&self, outer: &Level<'_>, segments: f64, added: f64, lane: &Lane) -> bool {
        let is_own = |token: &Regular<'_>| token.of.is_plain && token.of.kind.is_operation();
        let is_lacking =
            |of: &Occurrences| of.is_plain && of.kind.computes() && of.count + outer.count == self.count;
        segments >= 2.5
            && added < 0.5
            && outer.exactness() >= EXACTNESS
            && outer.tokens.iter().any(is_own)
            && lane.tokens.values().any(is_lacking)
    }

    /// How often the host and the GPU meet for each segment of the outer level, if that is a few times, and less often than there are
    /// segments of this one: these places are none of what it computes. (Two copies to the host in each segment have no distance that
    /// most of them have.)
    fn meetings_of(&self, outer: &Level<'_>, lane: &Lane) -> f64 {
        let is_meeting = |of: &&Occurrences| {
            of.kind.is_of_host()
                && of.is_plain
                && of.count >= outer.count * 19 / 20
                && (of.last - of.first) as f64 >= lane.len() as f64 * SPANNED
        };
        let segments = self.count as f64 / outer.count.max(1) as f64;
        // The host meets the GPU before the loop, too, as often as a model has parameters; or after it.
        let number = |of: &Occurrences| {
            let by_count = of.count as f64 / outer.count.max(1) as f64;
            by_count.min(outer.distance / of.last_distance())
        };
        let is_few = |number: &f64| (0.5..MEETINGS * 1.05).contains(number) && *number < 0.75 * segments;
        lane.tokens.values().filter(is_meeting).map(number).filter(is_few).map(f64::round).sum()
    }

    /// Whether the outer level's segments are some of its own, and nothing but so many meetings. How many segments that are is
    /// not told by how often both occur: a wait before the loop and one after it are as many as several segments of it.
    fn differs_by(&self, meetings: f64, outer: &Level<'_>) -> bool {
        let in_all = self.tokens.iter().filter(|token| token.of.count.abs_diff(self.count) <= 1);
        let spacing = |token: &Regular<'_>| {
            (token.of.last - token.of.first) as f64 / token.of.count.saturating_sub(1).max(1) as f64
        };
        let least = in_all.map(spacing).fold(f64::INFINITY, f64::min);
        let segments = (outer.distance / least).round();
        meetings > 0.0 && (outer.distance - segments * self.distance - meetings).abs() < 0.5
    }

    /// Whether other tokens recur as often, but not between its own.
    fn is_phase(&self, all: &[Regular<'_>]) -> bool {
        let Some(own) = self.tokens.iter().find(|token| token.of.count == self.count) else { return false };
        let is_as_frequent = |other: &&Regular<'_>| {
            other.of.is_plain && other.of.count.abs_diff(self.count) <= self.count / 50
        };
        all.iter().filter(is_as_frequent).any(|other| !own.alternates_with(other))
    }

    /// The operation that begins its segments: the first one of those that occur in all of them.
    fn beginning(&self) -> Option<&Regular<'l>> {
        let operations = || self.tokens.iter().filter(|token| token.of.kind.is_operation());
        let is_in_all = |token: &&Regular<'_>| {
            token.of.count.abs_diff(self.count) <= self.spare && token.usual.stretched >= self.steadiest
        };
        let first = operations().filter(is_in_all).min_by_key(|token| (token.of.first, !token.of.is_plain));
        first.or_else(|| operations().max_by(|a, b| a.usual.agreement.total_cmp(&b.usual.agreement)))
    }

    /// Where its segments begin. If they end with what only they have, after some segments of the inner level, they
    /// begin with the next one of those.
    fn anchor(&self, inner: Option<&Level<'_>>) -> Option<Anchor> {
        let own = self.beginning()?;
        let least = (self.distance / 2.0) as u64;
        let (count, launched) = (own.of.count, own.of.launched);
        let plain = Anchor { begins: own.key, after: None, least, count, launched, is_graph: false };
        let before = inner.and_then(Level::beginning).filter(|inner| inner.of.first < own.of.first);
        let Some(before) = before else { return Some(plain) };
        let is_last = |token: &&Regular<'_>| token.of.count == own.of.count && token.of.kind.is_operation();
        let last = self.tokens.iter().filter(is_last).max_by_key(|token| token.of.last).unwrap_or(own);
        Some(Anchor { begins: before.key, after: Some(last.key), launched: before.of.launched, ..plain })
    }
}
