//! A simulated GPU whose events answer as drivers do.

use super::*;
use proptest::prelude::*;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

const MS: i64 = 1_000_000;
const SECOND: i64 = 1_000 * MS;
const HOUR: i64 = 3_600 * SECOND;

/// How the driver makes float ms of ns.
#[derive(Clone, Copy, Debug)]
enum Rule {
    Quotient,
    Product,
}

impl Rule {
    fn ms(self, ns: i64) -> f32 {
        match self {
            // Rounding twice is safe here: 1e6 = 2^6 · 15625, so no quotient lies so near to a tie.
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
    /// The longest distance that was asked for.
    longest: Cell<i64>,
}

impl Gpu {
    fn new(rule: Rule, refuses_negative: bool) -> Gpu {
        let (times, held) = (RefCell::default(), RefCell::default());
        Gpu { rule, refuses_negative, times, held, next: Cell::new(0), longest: Cell::new(0) }
    }

    /// An event that fired at this time. Those that nobody holds are recorded anew, as in a pool.
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

/// A time base, and where its time bases' origins really are: every position is compared with the truth.
struct Watched {
    gpu: Gpu,
    time_base: TimeBase,
    number: u32,
    origin: i64,
}

impl Watched {
    fn new(rule: Rule, refuses_negative: bool) -> Watched {
        Watched {
            gpu: Gpu::new(rule, refuses_negative),
            time_base: TimeBase::default(),
            number: 0,
            origin: 0,
        }
    }

    /// Locates an event of this true time. Returns the error that was stated; `None` where the time base was tied anew.
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

    /// How long an operation between two events took: what the poller writes as its duration.
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
    // And the product not far beyond: the limit is no looser than it says.
    let wrong = (EXACT_NS as i64..).find(|ns| (f64::from(Rule::Product.ms(*ns)) * 1e6).round() as i64 != *ns);
    assert!(wrong.unwrap() < 9_500_000, "{wrong:?}");
}

proptest! {
    #[test]
    fn a_distance_is_inside_its_error_and_that_is_no_more_than_both_roundings(
        ns in prop_oneof![-20 * MS..20 * MS, -SECOND..SECOND, -HOUR..HOUR], rule in rules(), refuses: bool
    ) {
        let gpu = Gpu::new(rule, refuses);
        let found = distance(&gpu, gpu.event(0), gpu.event(ns)).unwrap();
        prop_assert!((found.ns - ns).abs() as f64 <= found.error, "{found:?} is {ns}");
        prop_assert!(found.error <= 1.3e-7 * ns.abs() as f64 + 0.5, "{found:?}");
    }

    #[test]
    fn positions_stay_inside_their_bound_over_any_gaps(
        gaps in prop::collection::vec(prop_oneof![1_000..4 * MS, MS..200 * MS, 1_000..60 * SECOND], 1..400),
        rule in rules(), refuses: bool
    ) {
        let mut watched = Watched::new(rule, refuses);
        let mut now = 7 * HOUR;
        for gap in gaps {
            now += gap;
            watched.locate(now);
        }
    }

    #[test]
    fn a_chain_is_tied_anew_exactly_when_its_error_would_pass_the_limit(
        gaps in prop::collection::vec(prop_oneof![1_000..8 * MS, 9 * MS..20 * SECOND], 1..200), rule in rules()
    ) {
        let mut watched = Watched::new(rule, false);
        watched.locate(0);
        // Each event is far enough from the last to be an anchor. The least error that any route there costs:
        let (mut now, mut reached) = (0i64, vec![(0i64, 0.0)]);
        for gap in gaps {
            now += gap.max(STEP_NS + 1);
            let route = |(from, error): &(i64, f64)| error + watched.duration(*from, now).error;
            let least = reached.iter().rev().take(ANCHORS).map(route).fold(f64::MAX, f64::min);
            match watched.locate(now) {
                Some(error) => {
                    prop_assert!(least <= LIMIT + 0.01, "{least} and not tied anew");
                    prop_assert!((f64::from(error) - least).abs() < 1.01, "{error} is not {least}");
                    reached.push((now, least));
                }
                None => {
                    prop_assert!(least > LIMIT - 0.01, "tied anew at {least}");
                    reached = vec![(now, 0.0)];
                }
            }
        }
    }
}

/// Three hours of dense work on four streams, read stream by stream, with an idle gap of some length after every 30 looks.
fn three_hours(rule: Rule) {
    let mut watched = Watched::new(rule, true);
    let mut random = 1u64;
    let mut next = |below: i64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) as i64 % below
    };
    let (mut now, mut looks, mut gaps, mut ties) = (0i64, 0u64, 0, 0);
    let mut durations: BTreeMap<i64, Distance> = BTreeMap::new();
    watched.locate(now);
    while now < 3 * HOUR {
        // What one look finds: the last 1 to 20 ms of every stream (the poller was a little late, or very).
        let length = MS + next(if looks.is_multiple_of(50) { 20 * MS } else { 4 * MS });
        watched.gpu.longest.set(0);
        let before = watched.number;
        for stream in 0..4 {
            let mut at = now + 200_000 * stream;
            while at < now + length {
                // A round of durations, each met again and again: its error must not change with the hours.
                let lasts = 1_000 + (at / 7 % 40) * 50_000;
                let found = watched.duration(at, at + lasts);
                let first = durations.entry(lasts).or_insert(found);
                assert_eq!((first.ns, first.error), (lasts, 0.0));
                assert_eq!(found, *first, "after {} s", now / SECOND);
                watched.locate(at);
                at += lasts + next(1_000_000) + 500_000;
            }
        }
        now += length;
        ties += watched.number - before;
        looks += 1;
        if looks.is_multiple_of(30) {
            gaps += 1;
            now += [1_000, 100_000, 20 * MS, 200 * MS, SECOND, 10 * SECOND, 60 * SECOND][gaps % 7];
        }
    }
    // The gaps of 10 s and 60 s; what the others cost never comes to a microsecond between two of those.
    println!("{gaps} gaps, {ties} ties");
    assert!(ties.abs_diff(gaps as u32 * 2 / 7) <= 2, "{ties} ties of {gaps} gaps");
}

#[test]
fn three_hours_of_quotients_are_as_exact_as_the_first_second() {
    three_hours(Rule::Quotient);
}

#[test]
fn three_hours_of_products_are_as_exact_as_the_first_second() {
    three_hours(Rule::Product);
}

/// How far apart an anchor and the one it was measured from lie can be seen by its error: beyond 9 ms there is one.
#[test]
fn dense_work_is_never_rounded_whatever_order_it_is_read_in() {
    for rule in [Rule::Quotient, Rule::Product] {
        let mut watched = Watched::new(rule, true);
        let mut now = 0;
        for look in 0..1_000 {
            // Two streams, 30 ms late; every look begins with the one that ended the last.
            let late = 30 * MS;
            for stream in [look % 2, 1 - look % 2] {
                for n in 0..15 {
                    let error = watched.locate(now + n * 2 * MS + stream * 700_000);
                    assert!(error.is_none_or(|e| e == 0), "look {look}: rounded by {error:?}");
                }
            }
            now += late;
        }
        assert_eq!(watched.number, 1, "never tied anew");
        assert!(watched.gpu.longest.get() < 40 * MS);
    }
}

#[test]
fn no_hop_reaches_eight_ms_while_a_stream_is_read_in_order() {
    let mut watched = Watched::new(Rule::Product, false);
    for n in 0..HOUR / 2 / 3_999_000 {
        watched.locate(n * 3_999_000);
    }
    assert!(watched.gpu.longest.get() < 8 * MS, "{}", watched.gpu.longest.get());
}

#[test]
fn the_start_of_a_minute_long_kernel_is_behind_and_does_not_tie_the_chain_anew() {
    let mut watched = Watched::new(Rule::Product, true);
    for n in 0..30_000 {
        watched.locate(n * 2 * MS);
    }
    // Another stream's kernel began with all this and ends only now.
    let error = watched.locate(500_000).unwrap();
    assert!((1_000..10_000).contains(&error), "{error}");
    assert_eq!(watched.locate(60 * SECOND), Some(0));
    assert_eq!(watched.number, 1);
}

#[test]
fn a_driver_that_does_not_answer_leaves_the_chain_as_it_was() {
    struct Mute;
    impl Events for Mute {
        fn elapsed(&self, _: u32, _: u32) -> Option<f32> {
            None
        }
        fn hold(&self, _: u32) {}
        fn give(&self, _: u32) {}
    }
    let mut watched = Watched::new(Rule::Quotient, false);
    watched.locate(0);
    assert_eq!(watched.time_base.locate(&Mute, 99), None);
    assert_eq!(watched.locate(MS), Some(0));
}
