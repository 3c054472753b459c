//! The parts of a GPU's time if not all of its operations were timed (`--timing auto`, and streams that are deep).
//!
//! Operations that were called in pauses are counted, so their time can be estimated from the timed ones: for each
//! kernel in each shape, for copies of each size, for each graph ([`extrapolate`](super::extrapolate)). Therefore the
//! table of kernels and this one agree. The length of a pause says nothing about its operations: the program may have
//! been stopped in it, or have waited for data.
//!
//! If operations ran side by side, the sum of their times is more than the time that they fill. Operations in pauses
//! are assumed to fill the same share of their sum as the observed ones. The rest of the pauses is idle time.
//! Operations that were called outside of pauses and yet have no time (while the stream is so deep that events are
//! sparse) ran in the undecided time. The launches of runs and bursts are none of them: a run or a burst has its time, which
//! was observed. What does not fit into pauses ran in undecided time, and the reverse: on a full stream,
//! a launch in a pause runs after it. The parts sum to the span, to the nanosecond.
//!
//! A part's interval contains what was observed between its bounds, and of the operations in pauses at most all, and at least what
//! is left if twice as much of it had run side by side; of what kernels can cover, [four times](COVERED) as much. Where too few
//! windows stand for the operations in pauses, nothing follows from what was observed: all streams may have worked at the same time.
//! No part gets more than it may have been. If no operation of a kind was ever timed, that kind may have filled all pauses.

use super::estimate::Sum;
use super::extrapolate::Extent;
use super::identity::{CLASSES, Class, Identity};
use std::slice;

/// The sums of the operations' times, by [`Class`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Work {
    /// Of those that were observed, ns.
    pub observed: [u64; CLASSES],
    /// Of those that were called in pauses.
    pub paused: [Extent; CLASSES],
    /// Of others that are untimed for other reasons, and in no run and no burst.
    pub unseen: [Extent; CLASSES],
    /// The upper bound of the time of all kernels, where the table of kernels knows it.
    pub most_compute: Option<u64>,
    /// The time of the selected kernels by their table, where these alone are selected.
    pub selected: Option<Sum>,
}

/// Returns the parts of the whole span, extrapolated where that can be done. Kernels ran for no longer than the table of
/// kernels says: where the host stalls within a run, the GPU waits in the run's interval, and that is idle time. So is
/// the time in which those launches of a run ran that are not selected. `streams`: how many had work.
pub fn whole(identity: &Identity, work: &Work, streams: u64) -> Identity {
    let mut whole = extrapolated(identity, work, streams).unwrap_or(*identity);
    let compute = &mut whole.busy[Class::Compute as usize];
    let least = compute.lo;
    let most = work.most_compute.map_or(u64::MAX, |most| most.max(least));
    let most = work.selected.map_or(most, |selected| most.min(selected.value.max(least)));
    compute.hi = work.selected.map_or(compute.hi, |selected| compute.hi.min(selected.hi.max(least)));
    let waited = compute.value.saturating_sub(most);
    compute.value -= waited;
    let idle = &mut whole.idle;
    idle.value += waited;
    idle.hi = idle.hi.max(idle.value);
    whole
}

/// Returns the parts of the whole span, with nothing left unobserved; `None` if every operation was timed, or if none like
/// the untimed ones was.
pub fn extrapolated(identity: &Identity, work: &Work, streams: u64) -> Option<Identity> {
    let pauses = identity.unobserved.value;
    let is_known = |paused: &Extent| paused.unknown == 0 || paused.known > 0;
    let has_unseen = identity.undecided.value > 0 && work.unseen.iter().any(|unseen| unseen.known > 0);
    let has_paused = pauses > 0 && work.paused.iter().any(is_known);
    if !(has_paused || pauses == 0 && has_unseen) || work.observed == [0; CLASSES] {
        return None;
    }
    let mut whole = Identity { unobserved: Sum::default(), ..*identity };
    let mut fill: Vec<Fill> =
        Class::ALL.iter().map(|&class| Fill::of(class, identity, work, streams)).collect();
    let room = pauses.saturating_add(identity.undecided.value);
    fit(|fill| [&mut fill.value, &mut fill.unseen], &mut fill, room);
    fit(|fill| [&mut fill.lo], &mut fill, pauses);
    let mut filled = 0;
    for (class, fill) in fill.iter().enumerate() {
        let (part, maybe) = (&mut whole.busy[class], whole.maybe[class]);
        // A fraction of a nanosecond that is cut off counts as idle. Rounding can make the parts of long times a
        // little more than what they were fitted to.
        let most = (room - filled).min(part.hi.saturating_sub(part.value));
        let more = ((fill.value + fill.unseen) as u64).min(most);
        filled += more;
        part.value += more;
        part.lo = part.lo.saturating_add(fill.lo as u64).min(part.value);
        if !fill.is_open {
            part.hi = part.hi.min((part.hi - maybe).saturating_add(fill.hi.ceil() as u64));
        }
        part.hi = part.hi.max(part.value);
    }
    let undecided = &mut whole.undecided;
    let sum = |of: fn(&Fill) -> f64| fill.iter().map(of).sum::<f64>();
    let behind = sum(|fill| fill.unseen) + (sum(|fill| fill.value) - pauses as f64).max(0.0);
    let behind = (behind as u64).clamp(filled.saturating_sub(pauses), filled.min(undecided.value));
    undecided.value -= behind;
    undecided.lo = undecided.lo.min(undecided.value);
    idle(&mut whole, pauses - (filled - behind));
    Some(whole)
}

/// Adds the rest as idle time, with the bounds that all other parts leave.
fn idle(whole: &mut Identity, left: u64) {
    let sum = |of: fn(&Sum) -> u64| whole.busy.iter().map(of).fold(0u64, u64::saturating_add);
    let (least, most) =
        (whole.span.saturating_sub(sum(|part| part.hi)), whole.span.saturating_sub(sum(|part| part.lo)));
    let idle = &mut whole.idle;
    idle.value += left;
    idle.lo = idle.lo.max(least).min(idle.value);
    idle.hi = idle.hi.min(most).max(idle.value);
}

/// How many times as much of a class may have run side by side in pauses as was observed. Timing makes launches take longer,
/// so that less runs beside them.
const BESIDE: f64 = 2.0;
/// The same for graphs, communication and copies, of which all may have run beside kernels.
const COVERED: f64 = 4.0;

/// What a class fills of the pauses, ns.
#[derive(Clone, Copy, Debug)]
struct Fill {
    lo: f64,
    value: f64,
    hi: f64,
    /// What it fills besides, of the undecided time, by the best value.
    unseen: f64,
    /// Whether it may be more, by an unknown amount.
    is_open: bool,
}

impl Fill {
    fn of(class: Class, identity: &Identity, work: &Work, streams: u64) -> Fill {
        let beside = if class == Class::Compute { BESIDE } else { COVERED };
        let class = class as usize;
        let (paused, unseen) = (work.paused[class], work.unseen[class]);
        let share = match work.observed[class] {
            0 => 1.0,
            all => (identity.busy[class].value as f64 / all as f64).min(1.0),
        };
        let alone = if paused.is_sampled() { 1.0 } else { 1.0 / streams.max(1) as f64 };
        // Those that were never timed are assumed to be like the others.
        let all = |of: Extent| of.time.value * (of.known + of.unknown) as f64 / of.known.max(1) as f64;
        let mut fill = Fill {
            lo: (paused.time.lo * alone.min(1.0 - beside * (1.0 - share))).max(0.0),
            value: all(paused) * share,
            hi: paused.time.hi,
            unseen: all(unseen) * share,
            is_open: paused.unknown + paused.guessed > 0,
        };
        let Sum { value, hi, .. } = identity.busy[class];
        let room = hi.saturating_sub(value);
        fit(|fill| [&mut fill.value, &mut fill.unseen], slice::from_mut(&mut fill), room);
        fill
    }
}

/// Reduces what is filled to the time that there is.
fn fit<const N: usize>(of: fn(&mut Fill) -> [&mut f64; N], fill: &mut [Fill], room: u64) {
    let sum: f64 = fill.iter_mut().flat_map(|fill| of(fill).map(|part| *part)).sum();
    if sum > room as f64 {
        fill.iter_mut().flat_map(of).for_each(|part| *part *= room as f64 / sum);
    }
}

#[cfg(test)]
mod tests {
    use super::super::extrapolate::Range;
    use super::*;
    use proptest::prelude::*;

    fn exactly(value: u64) -> Sum {
        Sum { value, lo: value, hi: value }
    }

    /// All operations in undecided time and in pauses may have been of any class.
    fn identity(busy: [u64; 4], idle: u64, undecided: u64, unobserved: u64) -> Identity {
        let maybe = |value| Sum { value, lo: value, hi: value + undecided + unobserved };
        Identity {
            span: busy.iter().sum::<u64>() + idle + undecided + unobserved,
            busy: busy.map(maybe),
            idle: maybe(idle),
            undecided: exactly(undecided),
            unobserved: exactly(unobserved),
            maybe: [unobserved; 4],
        }
    }

    /// The host stalled for 8 of the 53 ms in which the GPU had work, in the midst of a run of launches.
    #[test]
    fn kernels_ran_no_longer_than_the_table_of_kernels_says() {
        let mut observed = identity([53, 0, 0, 0], 20, 0, 0);
        observed.busy[0].lo = 39;
        let of = |most| {
            whole(&observed, &Work { observed: [53, 0, 0, 0], most_compute: most, ..Work::default() }, 1)
        };
        let parts = |most| (of(most).busy[0].value, of(most).idle.value);
        assert_eq!(parts(Some(50)), (50, 23));
        assert_eq!(parts(Some(30)), (39, 34), "but what is certain");
        assert_eq!((parts(Some(60)), parts(None)), ((53, 20), (53, 20)));
    }

    /// A run counted whole as certain compute time of each kernel in it: 124 ms of a kernel of which the table said 4.3 ms.
    #[test]
    fn selected_kernels_ran_no_longer_than_their_table_says() {
        let selected = Some(Sum { value: 4, lo: 3, hi: 6 });
        let of = |least| {
            let mut observed = identity([124, 0, 0, 0], 20, 10, 0);
            observed.busy[0].lo = least;
            observed.idle.hi = observed.span;
            whole(&observed, &Work { observed: [124, 0, 0, 0], selected, ..Work::default() }, 1)
        };
        assert_eq!((of(0).busy[0], of(0).idle.value), (Sum { value: 4, lo: 0, hi: 6 }, 140));
        assert_eq!(of(5).busy[0], Sum { value: 5, lo: 5, hi: 6 }, "but what is certain");
    }

    fn took(known: u64, lo: f64, value: f64, hi: f64) -> Extent {
        Extent { known, sampled: known, time: Range { lo, value, hi }, ..Extent::default() }
    }

    fn work(observed: [u64; 4], compute: Extent) -> Work {
        let paused = [compute, Extent::default(), Extent::default(), Extent::default()];
        Work { observed, paused, ..Work::default() }
    }

    /// Five seconds, of which a tenth was observed. Timing makes the program look idler than it is.
    #[test]
    fn busy_time_in_pauses_follows_from_the_launches_and_not_from_the_length_of_the_pauses() {
        let observed = identity([60, 0, 0, 0], 440, 0, 4_500);
        let whole =
            extrapolated(&observed, &work([60, 0, 0, 0], took(157, 1_500.0, 1_570.0, 1_600.0)), 1).unwrap();
        assert_eq!((whole.busy[0], whole.unobserved.value), (Sum { value: 1_630, lo: 1_560, hi: 1_660 }, 0));
        assert_eq!(whole.idle, Sum { value: 440 + 2_930, lo: 440 + 2_900, hi: 440 + 3_000 });
    }

    #[test]
    fn a_longer_pause_adds_only_idle_time() {
        let paused = took(10, 900.0, 1_000.0, 1_100.0);
        let of = |pause| {
            extrapolated(&identity([100, 0, 0, 0], 100, 0, pause), &work([100, 0, 0, 0], paused), 1).unwrap()
        };
        let (short, long) = (of(2_000), of(5_000));
        assert_eq!(short.busy, long.busy);
        assert_eq!(long.idle.value - short.idle.value, 3_000);
    }

    /// 2^53 + 3 ns become one more as a float: a report of a hostile trace ended in a panic.
    #[test]
    fn rounding_does_not_fill_more_than_the_pauses() {
        let pause = (1 << 53) + 3;
        let all = took(10, 1e17, 1e17, 1e17);
        let whole =
            extrapolated(&identity([100, 0, 0, 0], 100, 0, pause), &work([100, 0, 0, 0], all), 1).unwrap();
        assert_eq!((whole.busy[0].value, whole.idle.value), (100 + pause, 100));
    }

    #[test]
    fn operations_side_by_side_fill_less_than_the_sum_of_their_times() {
        let observed = identity([60, 0, 0, 0], 0, 0, 1_000);
        let whole = extrapolated(&observed, &work([80, 0, 0, 0], took(10, 800.0, 800.0, 800.0)), 1).unwrap();
        assert_eq!(whole.busy[0], Sum { value: 60 + 600, lo: 60 + 400, hi: 60 + 800 });
    }

    /// In the first phase and two windows, kernels on 24 streams hardly met; in the pauses, where launches follow each other three times
    /// as fast, a fifth of their time was side by side. The lower bound was above the truth.
    #[test]
    fn where_few_windows_stand_for_the_pauses_all_streams_may_have_worked_at_the_same_time() {
        let observed = identity([14, 0, 0, 0], 0, 0, 1_000);
        let of = |sampled, streams| {
            let compute = Extent { sampled, ..took(10, 240.0, 240.0, 240.0) };
            extrapolated(&observed, &work([14, 0, 0, 0], compute), streams).unwrap().busy[0]
        };
        assert_eq!(of(4, 24), Sum { value: 14 + 240, lo: 14 + 10, hi: 14 + 240 });
        assert_eq!((of(5, 24).lo, of(0, 1).lo), (14 + 240, 14 + 240));
    }

    /// In windows a fifth of the graphs' time was beside kernels, and in pauses two thirds: the lower bound was above the truth.
    #[test]
    fn more_of_a_graph_may_run_beside_kernels_in_pauses_than_where_launches_are_timed() {
        let class = Class::Graph as usize;
        let observed = identity([60, 80, 0, 0], 60, 0, 1_000);
        let mut all = work([60, 100, 0, 0], Extent::default());
        all.paused[class] = took(10, 500.0, 500.0, 500.0);
        let whole = extrapolated(&observed, &all, 1).unwrap();
        assert_eq!(whole.busy[class], Sum { value: 80 + 400, lo: 80 + 100, hi: 80 + 500 });
    }

    /// A window opened on a full stream: 1024 launches each had no time, and a tenth of the GPU's time was reported
    /// as undecided.
    #[test]
    fn untimed_operations_outside_of_pauses_ran_in_undecided_time() {
        let observed = identity([600, 0, 0, 0], 10, 110, 330);
        let whole = |unseen: f64| {
            let mut all = work([600, 0, 0, 0], took(8_800, 306.0, 306.0, 306.0));
            all.unseen[0] = took(3_860, unseen, unseen, unseen);
            extrapolated(&observed, &all, 1).unwrap()
        };
        let (some, all) = (whole(100.0), whole(134.0));
        assert_eq!((some.busy[0].value, some.undecided.value, some.undecided.lo), (1_006, 10, 10));
        assert_eq!((some.busy[0].lo, some.idle.value), (906, 34), "certain is no more of it");
        assert_eq!(
            (all.busy[0].value, all.undecided.value, all.idle.value),
            (1_040, 0, 10),
            "also in pauses"
        );
    }

    /// While nothing on a stream completes, events are sparse: 16 of 81 operations had no time, and a fifth of the copies'
    /// time was missing.
    #[test]
    fn untimed_operations_of_a_run_without_pauses_ran_in_undecided_time() {
        let observed = identity([660, 0, 0, 160], 60, 200, 0);
        let mut all = work([660, 0, 0, 160], Extent::default());
        (all.unseen[0], all.unseen[3]) = (took(8, 160.0, 160.0, 160.0), took(8, 30.0, 30.0, 30.0));
        let whole = extrapolated(&observed, &all, 1).unwrap();
        assert_eq!((whole.busy[0].value, whole.busy[3].value), (820, 190));
        assert_eq!((whole.undecided.value, whole.idle.value), (10, 60));
        assert_eq!(whole.busy[3].lo, 160, "certain is no more of it");
    }

    #[test]
    fn operations_in_pauses_fill_no_more_than_the_pauses() {
        let observed = identity([60, 0, 0, 0], 0, 0, 1_000);
        let whole =
            extrapolated(&observed, &work([60, 0, 0, 0], took(10, 900.0, 1_200.0, 2_000.0)), 1).unwrap();
        assert_eq!(whole.busy[0], Sum { value: 1_060, lo: 960, hi: 1_060 });
        assert_eq!(whole.idle.value, 0);
    }

    #[test]
    fn without_timed_operations_nothing_is_extrapolated() {
        let some = work([60, 0, 0, 0], took(1, 5.0, 5.0, 5.0));
        assert_eq!(extrapolated(&identity([60, 0, 0, 0], 40, 0, 0), &some, 1), None, "all was observed");
        let never = Extent { unknown: 5, ..Extent::default() };
        let nothing = Work { observed: [0; 4], paused: [never; 4], ..Work::default() };
        assert_eq!(extrapolated(&identity([0; 4], 0, 0, 900), &nothing, 1), None, "nothing was");
        let paused = [took(1, 5.0, 5.0, 5.0), never, never, never];
        let unknown = Work { observed: [60, 0, 0, 0], paused, ..Work::default() };
        let whole = extrapolated(&identity([60, 0, 0, 0], 40, 0, 900), &unknown, 1).unwrap();
        assert_eq!(
            whole.busy[3],
            Sum { value: 0, lo: 0, hi: 900 },
            "never timed: all of the pauses, or nothing"
        );
        assert_eq!((whole.idle.value, whole.idle.hi), (40 + 895, 40 + 895));
    }

    /// The GPU ran one kernel of NCCL where it was not observed, for 10 ns at most: 50 ns were reported, and the same
    /// as the upper bound.
    #[test]
    fn a_part_is_not_extrapolated_beyond_its_upper_bound() {
        let class = Class::Communication as usize;
        let mut observed = identity([60, 0, 0, 0], 40, 0, 100);
        (observed.busy[class].hi, observed.maybe[class]) = (10, 10);
        let mut all = work([60, 0, 0, 0], took(1, 40.0, 40.0, 40.0));
        all.paused[class] = took(1, 50.0, 50.0, 50.0);
        let whole = extrapolated(&observed, &all, 1).unwrap();
        assert_eq!((whole.busy[class].value, whole.busy[class].hi), (10, 10));
        assert_eq!((whole.busy[0].value, whole.idle.value), (100, 40 + 100 - 40 - 10));
        // The room that it does not take is the others': not all of them are scaled down to fit with it.
        all.paused[0] = took(1, 90.0, 90.0, 90.0);
        let whole = extrapolated(&observed, &all, 1).unwrap();
        assert_eq!((whole.busy[0].value, whole.busy[class].value, whole.idle.value), (150, 10, 40));
    }

    proptest! {
        #[test]
        fn the_parts_sum_to_the_span(
            busy in proptest::array::uniform4(0..1u64 << 40),
            rest in proptest::array::uniform3(0..1u64 << 40),
            paused in proptest::array::uniform4((0..9u64, 0.0..1e12f64, 0..3u64)),
            unseen in proptest::array::uniform4((0..9u64, 0.0..1e12f64, 0..3u64)),
            beside in proptest::array::uniform4(0..1u64 << 40),
            possible in proptest::array::uniform4(0..1u64 << 40),
        ) {
            let mut identity = identity(busy, rest[0], rest[1], rest[2]);
            for (class, most) in possible.into_iter().enumerate() {
                identity.maybe[class] = identity.maybe[class].min(most);
                identity.busy[class].hi = identity.busy[class].hi.min(busy[class] + most);
            }
            let extent = |(known, ns, unknown): (u64, f64, u64)| Extent {
                known,
                sampled: known / 2,
                guessed: 0,
                unknown,
                time: if known > 0 { Range { lo: ns / 2.0, value: ns, hi: ns * 2.0 } } else { Range::default() },
            };
            let mut observed = busy;
            observed.iter_mut().zip(beside).for_each(|(all, more)| *all += more);
            let work = Work {
                observed,
                paused: paused.map(extent),
                unseen: unseen.map(extent),
                most_compute: None,
                selected: None,
            };
            if let Some(whole) = extrapolated(&identity, &work, 3) {
                let parts: Vec<&Sum> = whole.busy.iter().chain([&whole.idle, &whole.undecided]).collect();
                prop_assert_eq!(parts.iter().map(|part| part.value).sum::<u64>(), identity.span);
                prop_assert!(parts.iter().all(|part| part.lo <= part.value && part.value <= part.hi));
                prop_assert!(parts.iter().all(|part| part.hi <= identity.span));
                let bounds = whole.busy.iter().zip(&identity.busy);
                prop_assert!(bounds.clone().all(|(part, observed)| part.hi <= observed.hi), "{whole:?}");
            }
        }
    }
}
