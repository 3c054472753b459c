//! A simulated GPU whose events respond as drivers do.

use super::*;
use proptest::prelude::*;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

const MS: i64 = 1_000_000;
const SECOND: i64 = 1_000 * MS;
const HOUR: i64 = 3_600 * SECOND;

/// How the driver converts ns to float ms.
#[derive(Clone, Copy, Debug)]
enum Rule {
    Quotient,
    Product,
}

impl Rule {
    fn ms(self, ns: i64) -> f32 {
        match self {
            // Rounding twice is safe here: 1e6 = 2^6 · 15625, so no quotient lies close enough to a tie.
            Rule::Quotient => (ns as f64 / 1e6) as f32,
            Rule::Product => ns as f32 * 1e-6,
        }
    }
}

/// The true times of events, by index.
struct Gpu {
    rule: Rule,
    refuses_negative: bool,
    times: RefCell<BTreeMap<u32, i64>>,
    held: RefCell<BTreeMap<u32, u32>>,
    next: Cell<u32>,
    /// The longest distance that was queried.
    longest: Cell<i64>,
}

impl Gpu {
    fn new(rule: Rule, refuses_negative: bool) -> Gpu {
        let (times, held) = (RefCell::default(), RefCell::default());
        Gpu { rule, refuses_negative, times, held, next: Cell::new(0), longest: Cell::new(0) }
    }

    /// Returns an event that fired at this time. As in a pool, events without a holder are recorded again.
    fn event(&self, time: i64) -> u32 {
        let event = self.next.replace(self.next.get() + 1);
        let mut times = self.times.borrow_mut();
        if times.len() > 8 * ANCHORS {
            let held = self.held.borrow();
            times.retain(|e, _| held.contains_key(e) || event - e < 4 * ANCHORS as u32);
        }
        times.insert(event, time);
        event
    }
}

impl Events for Gpu {
    fn elapsed(&self, from: u32, to: u32) -> Option<f32> {
        let times = self.times.borrow();
        let ns = times[&to] - times[&from];
        if self.refuses_negative && ns < 0 {
            return None;
        }
        self.longest.set(self.longest.get().max(ns.abs()));
        Some(self.rule.ms(ns))
    }

    fn hold(&self, event: u32) {
        *self.held.borrow_mut().entry(event).or_default() += 1;
    }

    fn give(&self, event: u32) {
        let mut held = self.held.borrow_mut();
        let holders = held.get_mut(&event).expect("only a held event is given back");
        *holders -= 1;
        if *holders == 0 {
            held.remove(&event);
        }
    }
}

/// A time base together with its true origin: every position is compared with the truth.
struct Checked {
    gpu: Gpu,
    time_base: TimeBase,
    number: u32,
    origin: i64,
}

impl Checked {
    fn new(rule: Rule, refuses_negative: bool) -> Checked {
        Checked {
            gpu: Gpu::new(rule, refuses_negative),
            time_base: TimeBase::default(),
            number: 0,
            origin: 0,
        }
    }

    /// Locates an event with this true time. Returns the stated error, or `None` if a new time base began.
    fn locate(&mut self, time: i64) -> Option<u32> {
        let event = self.gpu.event(time);
        let found = self.time_base.locate(&self.gpu, event).unwrap();
        assert!(self.gpu.held.borrow().len() <= ANCHORS);
        if found.time_base != self.number {
            assert_eq!((found.time_base, found.ns, found.error), (self.number + 1, 0, 0));
            (self.number, self.origin) = (found.time_base, time);
            return None;
        }
        let off = (self.origin + found.ns - time).unsigned_abs();
        assert!(off <= u64::from(found.error), "at {time}: off by {off}, stated {}", found.error);
        Some(found.error)
    }

    /// The duration of an operation between two events, as the poller writes it.
    fn duration(&self, start: i64, end: i64) -> Distance {
        distance(&self.gpu, self.gpu.event(start), self.gpu.event(end)).unwrap()
    }
}

fn rules() -> impl Strategy<Value = Rule> {
    prop_oneof![Just(Rule::Quotient), Just(Rule::Product)]
}

#[test]
fn below_nine_ms_every_ns_is_exact_by_either_rule() {
    for rule in [Rule::Quotient, Rule::Product] {
        let wrong = (0..EXACT_NS as i64).find(|ns| (f64::from(rule.ms(*ns)) * 1e6).round() as i64 != *ns);
        assert_eq!(wrong, None, "{rule:?}");
    }
    // The product is not exact far beyond that: the limit is not too low.
    let wrong = (EXACT_NS as i64..).find(|ns| (f64::from(Rule::Product.ms(*ns)) * 1e6).round() as i64 != *ns);
    assert!(wrong.unwrap() < 9_500_000, "{wrong:?}");
}

proptest! {
    #[test]
    fn a_distance_is_within_its_error_which_is_no_more_than_both_roundings(
        ns in prop_oneof![-20 * MS..20 * MS, -SECOND..SECOND, -HOUR..HOUR], rule in rules(), refuses: bool
    ) {
        let gpu = Gpu::new(rule, refuses);
        let found = distance(&gpu, gpu.event(0), gpu.event(ns)).unwrap();
        prop_assert!((found.ns - ns).abs() as f64 <= found.error, "{found:?} is {ns}");
        prop_assert!(found.error <= 1.3e-7 * ns.abs() as f64 + 0.5, "{found:?}");
    }

    #[test]
    fn positions_stay_within_their_error_across_any_gaps(
        gaps in prop::collection::vec(prop_oneof![1_000..4 * MS, MS..200 * MS, 1_000..60 * SECOND], 1..400),
        rule in rules(), refuses: bool
    ) {
        let mut checked = Checked::new(rule, refuses);
        let mut now = 7 * HOUR;
        for gap in gaps {
            now += gap;
            checked.locate(now);
        }
    }

    #[test]
    fn a_new_time_base_begins_exactly_when_the_error_would_exceed_the_limit(
        gaps in prop::collection::vec(prop_oneof![1_000..8 * MS, 9 * MS..20 * SECOND], 1..200), rule in rules()
    ) {
        let mut checked = Checked::new(rule, false);
        checked.locate(0);
        // Each event is far enough from the last to be an anchor. `least` is the smallest error along any
        // path to it:
        let (mut now, mut reached) = (0i64, vec![(0i64, 0.0)]);
        for gap in gaps {
            now += gap.max(STEP_NS + 1);
            let route = |(from, error): &(i64, f64)| error + checked.duration(*from, now).error;
            let least = reached.iter().rev().take(ANCHORS).map(route).fold(f64::MAX, f64::min);
            match checked.locate(now) {
                Some(error) => {
                    prop_assert!(least <= LIMIT + 0.01, "{least} and no new time base");
                    prop_assert!((f64::from(error) - least).abs() < 1.01, "{error} is not {least}");
                    reached.push((now, least));
                }
                None => {
                    prop_assert!(least > LIMIT - 0.01, "new time base at {least}");
                    reached = vec![(now, 0.0)];
                }
            }
        }
    }
}

/// Three hours of dense work on four streams, read stream by stream, with an idle gap of varying length after
/// every 30 polling passes.
fn three_hours(rule: Rule) {
    let mut checked = Checked::new(rule, true);
    let mut random = 1u64;
    let mut next = |below: i64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) as i64 % below
    };
    let (mut now, mut passes, mut gaps, mut restarts) = (0i64, 0u64, 0, 0);
    let mut durations: BTreeMap<i64, Distance> = BTreeMap::new();
    checked.locate(now);
    while now < 3 * HOUR {
        // One polling pass finds the last 1 to 20 ms of every stream (the poller was a little late, or very
        // late).
        let length = MS + next(if passes.is_multiple_of(50) { 20 * MS } else { 4 * MS });
        checked.gpu.longest.set(0);
        let before = checked.number;
        for stream in 0..4 {
            let mut at = now + 200_000 * stream;
            while at < now + length {
                // Durations repeat over the hours, and their error must not grow.
                let lasts = 1_000 + (at / 7 % 40) * 50_000;
                let found = checked.duration(at, at + lasts);
                let first = durations.entry(lasts).or_insert(found);
                assert_eq!((first.ns, first.error), (lasts, 0.0));
                assert_eq!(found, *first, "after {} s", now / SECOND);
                checked.locate(at);
                at += lasts + next(1_000_000) + 500_000;
            }
        }
        now += length;
        restarts += checked.number - before;
        passes += 1;
        if passes.is_multiple_of(30) {
            gaps += 1;
            now += [1_000, 100_000, 20 * MS, 200 * MS, SECOND, 10 * SECOND, 60 * SECOND][gaps % 7];
        }
    }
    // The gaps of 10 s and 60 s; the errors of the others never add up to a microsecond between two of those.
    println!("{gaps} gaps, {restarts} restarts");
    assert!(restarts.abs_diff(gaps as u32 * 2 / 7) <= 2, "{restarts} restarts of {gaps} gaps");
}

#[test]
fn three_hours_are_as_exact_as_the_first_second_if_the_driver_divides() {
    three_hours(Rule::Quotient);
}

#[test]
fn three_hours_are_as_exact_as_the_first_second_if_the_driver_multiplies() {
    three_hours(Rule::Product);
}

/// The error shows how far an anchor is from the one that it was measured from: beyond 9 ms it is not 0.
#[test]
fn dense_work_is_never_rounded_in_any_reading_order() {
    for rule in [Rule::Quotient, Rule::Product] {
        let mut checked = Checked::new(rule, true);
        let mut now = 0;
        for pass in 0..1_000 {
            // Two streams are read 30 ms late; every polling pass begins with the stream that ended the last
            // one.
            let late = 30 * MS;
            for stream in [pass % 2, 1 - pass % 2] {
                for n in 0..15 {
                    let error = checked.locate(now + n * 2 * MS + stream * 700_000);
                    assert!(error.is_none_or(|e| e == 0), "pass {pass}: rounded by {error:?}");
                }
            }
            now += late;
        }
        assert_eq!(checked.number, 1, "one time base");
        assert!(checked.gpu.longest.get() < 40 * MS);
    }
}

#[test]
fn no_query_spans_eight_ms_while_a_stream_is_read_in_order() {
    let mut checked = Checked::new(Rule::Product, false);
    for n in 0..HOUR / 2 / 3_999_000 {
        checked.locate(n * 3_999_000);
    }
    assert!(checked.gpu.longest.get() < 8 * MS, "{}", checked.gpu.longest.get());
}

#[test]
fn the_start_of_a_minute_long_kernel_does_not_start_a_new_time_base() {
    let mut checked = Checked::new(Rule::Product, true);
    for n in 0..30_000 {
        checked.locate(n * 2 * MS);
    }
    // Another stream's kernel began with all this and ends only now.
    let error = checked.locate(500_000).unwrap();
    assert!((1_000..10_000).contains(&error), "{error}");
    assert_eq!(checked.locate(60 * SECOND), Some(0));
    assert_eq!(checked.number, 1);
}

#[test]
fn a_driver_error_leaves_the_time_base_unchanged() {
    struct Failing;
    impl Events for Failing {
        fn elapsed(&self, _: u32, _: u32) -> Option<f32> {
            None
        }
        fn hold(&self, _: u32) {}
        fn give(&self, _: u32) {}
    }
    let mut checked = Checked::new(Rule::Quotient, false);
    checked.locate(0);
    assert_eq!(checked.time_base.locate(&Failing, 99), None);
    assert_eq!(checked.locate(MS), Some(0));
}
