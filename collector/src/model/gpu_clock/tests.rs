//! Does the fit contain the truth? Simulated oscillators with a known θ say.

use super::super::clocks::Clocks;
use super::*;
use crate::trace::generator::Random;
use proptest::prelude::*;
use std::collections::BTreeMap;

const SECOND: i64 = 1_000_000_000;
/// Host time at which the records begin: not on a border between pieces.
const BEGAN: i64 = 86_400 * SECOND + 300_000_000;

/// How a GPU clock drifts against the host's.
#[derive(Clone, Copy, Debug)]
enum Drift {
    /// Constant, in ppm.
    Constant(i64),
    /// It starts with this many ppm and changes by up to 1 ppm a second, within ± 60 ppm.
    Wandering(i64),
}

/// An oscillator whose θ is known at all times.
struct Oscillator {
    offset: i64,
    /// θ − offset, and the drift from there on in ppm, ten times a second.
    steps: Vec<(f64, f64)>,
}

impl Oscillator {
    fn new(offset: i64, drift: Drift, seconds: i64, random: &mut Random) -> Oscillator {
        let (Drift::Constant(of) | Drift::Wandering(of)) = drift;
        let (mut theta, mut ppm, mut turn) = (0.0, of as f64, 0.0);
        let mut steps = Vec::new();
        for step in 0..(seconds + 2) * 10 {
            steps.push((theta, ppm));
            theta += ppm * 100.0;
            if let Drift::Wandering(_) = drift {
                // One direction is kept for 17 s, so that the drift gets somewhere.
                if step % 170 == 0 {
                    turn = random.unit() * 0.2 - 0.1;
                }
                ppm = (ppm + turn).clamp(-60.0, 60.0);
            }
        }
        Oscillator { offset, steps }
    }

    fn theta(&self, host: i64) -> i64 {
        let since = host - BEGAN;
        let step = (since / 100_000_000).clamp(0, self.steps.len() as i64 - 1);
        let (theta, ppm) = self.steps[step as usize];
        let within = (since - step * 100_000_000) as f64 * ppm / 1e6;
        self.offset + (theta + within).round() as i64
    }

    fn gpu(&self, host: i64) -> i64 {
        host + self.theta(host)
    }
}

/// How a program uses its GPU, as far as its clock is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum App {
    /// A launch every 10 ms, each on a drained stream; the poller polls every 0.5 ms.
    Drains,
    /// The queue is 20 ms deep except once a second, when the program waits for it to drain.
    Syncs,
    /// The queue is always 20 ms deep; once a second the poller watches its own event for 50 µs.
    Deep,
}

/// The bounds that such a program and the poller give.
fn bounds(app: App, oscillator: &Oscillator, seconds: i64, random: &mut Random) -> Bounds {
    bounds_of(app, oscillator, (1, 0), seconds, random)
}

/// The same from stamps that are multiples of `resolution` and wrong by up to `error`.
fn bounds_of(
    app: App,
    oscillator: &Oscillator,
    (resolution, error): (i64, i64),
    seconds: i64,
    random: &mut Random,
) -> Bounds {
    let mut bounds = Bounds::default();
    bounds.stamps.distance(resolution);
    let mut noise = Random(random.word());
    let mut stamp = |fired: i64| {
        let gpu = oscillator.gpu(fired);
        gpu - gpu.rem_euclid(resolution) + noise.below(2 * error as u64 + 1) as i64 - error
    };
    let mut within = |most: u64| random.below(most) as i64;
    for step in 0..seconds * 100 {
        let call = BEGAN + step * 10_000_000 + within(1_000_000);
        let waits = app == App::Drains || (app == App::Syncs && step % 100 == 99);
        let fired = call + if waits { within(1_500) } else { 20_000_000 + within(5_000_000) };
        bounds.recorded(call, stamp(fired), error);
        bounds.completed(fired + within(500_000), stamp(fired), error);
        if app == App::Syncs && waits {
            bounds.completed(fired + within(6_000), stamp(fired), error);
        }
        if app == App::Deep && step % 100 == 50 {
            let fired = call + 1_500 + within(40_000);
            bounds.recorded(fired - within(20_000), stamp(fired), error);
            bounds.completed(fired + within(20_000), stamp(fired), error);
        }
    }
    bounds.record_took(1_000);
    bounds
}

fn fit_one(bounds: Bounds) -> (Clock, u64) {
    let clocks = Clocks::fit(BTreeMap::from([((1, 1), bounds)]), HashMap::default());
    (clocks.of(1, 1).unwrap().clone(), clocks.contradictions())
}

/// Checks that the interval contains θ at all times and that the line's error is at most `off_by`; returns the
/// interval's median width.
fn judge(clock: &Clock, oscillator: &Oscillator, seconds: i64) -> Result<u64, TestCaseError> {
    let mut widths = Vec::new();
    for at in (0..20_000).map(|n| BEGAN + n * (seconds * SECOND / 20_000)) {
        let (theta, line) = (oscillator.theta(at), clock.line(at));
        let (lower, upper) = (clock.lower(at).unwrap(), clock.upper(at).unwrap());
        prop_assert!(lower <= theta && theta <= upper, "{theta} not in [{lower}, {upper}] at {at}");
        prop_assert!(
            line.abs_diff(theta) <= clock.off_by(at).unwrap(),
            "the line is at {line}, θ at {theta}"
        );
        let gpu = oscillator.gpu(at);
        prop_assert!((clock.to_host(gpu) - at).unsigned_abs() <= clock.off_by(at).unwrap() + 1);
        widths.push((upper - lower) as u64);
    }
    widths.sort_unstable();
    Ok(widths[widths.len() / 2])
}

fn run(
    app: App,
    drift: Drift,
    offset: i64,
    stamps: (i64, i64),
    seconds: i64,
    seed: u64,
) -> Result<u64, TestCaseError> {
    let mut random = Random(seed);
    let oscillator = Oscillator::new(offset, drift, seconds, &mut random);
    let (clock, contradictions) = fit_one(bounds_of(app, &oscillator, stamps, seconds, &mut random));
    prop_assert_eq!(contradictions, 0);
    judge(&clock, &oscillator, seconds)
}

const HOURS: i64 = 3_600 * SECOND;

#[test]
fn the_width_is_what_the_bounds_allow() {
    for (app, most) in [(App::Drains, 20_000), (App::Syncs, 20_000), (App::Deep, 60_000)] {
        for drift in [Drift::Constant(50), Drift::Constant(-50), Drift::Wandering(0), Drift::Wandering(40)] {
            for offset in [0, 11 * HOURS, -7 * HOURS] {
                let width = run(app, drift, offset, (32, 20), 60, 7).unwrap();
                println!("{app:?}, {drift:?} ppm, offset {} h: median width {width} ns", offset / HOURS);
                assert!(width <= most, "{app:?} {drift:?}: {width}");
            }
        }
    }
}

#[test]
fn time_bases_of_a_device_share_its_drift() {
    let mut random = Random(3);
    let drift = Drift::Constant(33);
    let one = Oscillator::new(0, drift, 20, &mut random);
    let long = bounds(App::Drains, &one, 20, &mut random);
    // A time base with one tight pair of bounds: by itself, 200 ppm of drift blur it ten seconds later.
    let mut short = Bounds::default();
    short.stamps.distance(1);
    short.recorded(BEGAN, one.gpu(BEGAN + 1_000), 0);
    short.completed(BEGAN + 2_000, one.gpu(BEGAN + 1_000), 0);
    short.recorded(BEGAN + 10 * SECOND, one.gpu(BEGAN + 10 * SECOND + 50_000_000), 0);
    let half_width = |devices: &[(u32, u32)]| {
        let all = BTreeMap::from([((1, 1), long.clone()), ((2, 9), short.clone())]);
        let clocks = Clocks::fit(all, devices.iter().copied().collect());
        let clock = clocks.of(2, 9).unwrap();
        let at = BEGAN + 5 * SECOND;
        assert!(clock.lower(at).unwrap() <= one.theta(at) && one.theta(at) <= clock.upper(at).unwrap());
        clock.half_width(at).unwrap()
    };
    let (together, apart) = (half_width(&[(1, 0), (2, 0)]), half_width(&[(1, 0), (2, 1)]));
    assert!(together < 50_000 && apart > 500_000, "{together} and {apart}");
}

#[test]
fn bounds_on_one_side_give_a_line_but_no_interval() {
    let mut bounds = Bounds::default();
    bounds.stamps.distance(1);
    bounds.recorded(BEGAN, BEGAN + 700, 0);
    let (clock, _) = fit_one(bounds);
    assert_eq!((clock.lower(BEGAN), clock.half_width(BEGAN), clock.off_by(BEGAN)), (None, None, None));
    assert!(clock.upper(BEGAN).is_some_and(|upper| (700..1_000).contains(&upper)));
    assert!(clock.to_host(BEGAN + 700) >= BEGAN);
    let nothing = Clock::default();
    assert_eq!((nothing.upper(0), nothing.guess(nothing.theta(0)), nothing.to_host(5)), (None, None, 5));
}

#[test]
fn a_step_of_the_clock_is_counted_and_both_sides_are_kept() {
    let mut bounds = Bounds::default();
    bounds.stamps.distance(1);
    for step in 0..100 {
        let (at, offset) = (BEGAN + step * 100_000_000, if step < 50 { 0 } else { 20_000_000 });
        bounds.recorded(at, at + offset + 2_000, 0);
        bounds.completed(at + 4_000, at + offset + 2_000, 0);
    }
    let (clock, contradictions) = fit_one(bounds);
    assert!(contradictions > 0);
    let (before, after) = (clock.line(BEGAN + SECOND), clock.line(BEGAN + 9 * SECOND));
    assert!(before.abs() < 5_000 && (after - 20_000_000).abs() < 5_000, "{before} {after}");
    for at in (0..1_000).map(|n| BEGAN + n * 10_000_000) {
        assert!(clock.to_host(at + 10_000_000) >= clock.to_host(at), "the line never goes back");
        assert!(clock.lower(at) <= clock.upper(at));
    }
}

#[test]
fn an_idle_hour_is_bounded_from_its_ends() {
    let mut random = Random(5);
    let oscillator = Oscillator::new(5 * HOURS, Drift::Wandering(-30), 3_700, &mut random);
    let mut all = bounds(App::Drains, &oscillator, 30, &mut random);
    let late = bounds(App::Drains, &oscillator, 3_690, &mut random);
    all.pieces.extend(late.pieces.into_iter().filter(|piece| piece.second > BEGAN / SECOND + 3_660));
    let (clock, contradictions) = fit_one(all);
    assert_eq!(contradictions, 0);
    judge(&clock, &oscillator, 3_690).unwrap();
}

/// Over three hours, memory grows with the number of seconds, not with the number of bounds.
#[test]
fn three_hours_take_a_few_numbers_per_second() {
    let seconds = 3 * 3_600;
    let mut random = Random(11);
    let oscillator = Oscillator::new(-9 * HOURS, Drift::Wandering(10), seconds, &mut random);
    let bounds = bounds(App::Syncs, &oscillator, seconds, &mut random);
    let kept = bounds.kept();
    assert!(kept as i64 <= 30 * seconds, "{kept} of {} bounds are kept", 2 * 100 * seconds);
    let (clock, contradictions) = fit_one(bounds);
    assert_eq!(contradictions, 0);
    let width = judge(&clock, &oscillator, seconds).unwrap();
    println!(
        "{kept} bounds of {seconds} s kept, the line has {} bends, median width {width} ns",
        clock.line.points().len()
    );
    assert!(width <= 20_000, "{width}");
    assert!((clock.line.points().len() as i64) < seconds, "{} bends", clock.line.points().len());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn theta_is_always_inside(
        app in prop_oneof![Just(App::Drains), Just(App::Syncs), Just(App::Deep)],
        drift in prop_oneof![(-50i64..=50).prop_map(Drift::Constant), (-50i64..=50).prop_map(Drift::Wandering)],
        offset in -20 * HOURS..20 * HOURS,
        stamps in prop_oneof![Just((1, 0)), Just((32, 0)), Just((500, 0)), Just((1, 700)), Just((1, 3_000))],
        (seconds, seed) in (1i64..40, any::<u64>()),
    ) {
        run(app, drift, offset, stamps, seconds, seed)?;
    }

    /// Whatever the bounds are, genuine or forged: nothing panics and the line rises; without contradictions it keeps
    /// every bound that it was given.
    #[test]
    fn the_line_keeps_every_bound(
        drift in -190i64..=190,
        events in proptest::collection::vec((0i64..6 * SECOND, 0i64..5_000_000, 0i64..5_000_000, 0i64..30), 1..120),
        forged in proptest::collection::vec((any::<i64>(), any::<i64>()), 0..3),
    ) {
        let mut random = Random(1);
        let oscillator = Oscillator::new(-2 * HOURS, Drift::Constant(drift), 8, &mut random);
        let mut bounds = Bounds::default();
        bounds.stamps.distance(1);
        for (at, fires_after, seen_after, error) in &events {
            let fired = BEGAN + at + fires_after;
            bounds.recorded(BEGAN + at, oscillator.gpu(fired), *error);
            bounds.completed(fired + seen_after, oscillator.gpu(fired), *error);
        }
        for (host, gpu) in &forged {
            let most = 1 << 59;
            bounds.recorded(host.rem_euclid(most), gpu.rem_euclid(most), 0);
            bounds.completed(gpu.rem_euclid(most), host.rem_euclid(most), 0);
        }
        let (clock, contradictions) = fit_one(bounds);
        let mut last = i64::MIN;
        for gpu in (0..700).map(|n| oscillator.gpu(BEGAN + n * 10_000_000)) {
            prop_assert!(clock.to_host(gpu) >= last);
            last = clock.to_host(gpu);
        }
        if forged.is_empty() {
            prop_assert_eq!(contradictions, 0);
            for (at, fires_after, seen_after, error) in &events {
                let fired = BEGAN + at + fires_after;
                let gpu = oscillator.gpu(fired);
                prop_assert!(clock.to_host(gpu + error) >= BEGAN + at);
                prop_assert!(clock.to_host(gpu - error) <= fired + seen_after);
            }
        }
    }
}
