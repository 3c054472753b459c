//! What is known of a GPU clock against the host's.
//!
//! Let θ(t) be the GPU's time minus the host's at host time t. Nobody can read it; two facts bound it.
//!
//! - An event never completes before it was recorded. One recorded by a call that began at host time `b` and that
//!   carries GPU time `g` fired at a host time ≥ `b`, so θ ≤ g − b.
//! - An event that was seen complete at host time `s` (by the poller, or because the app's own synchronise returned)
//!   fired at a host time ≤ `s`, so θ ≥ g − s.
//!
//! A bound found at one time serves at another, relaxed by how far two clocks can part meanwhile: [`DRIFT_PPM`]. That
//! figure is an assumption, and the only one here: PC oscillators are specified to ±100 ppm, and both clocks have one.
//!
//! Only the best bound of each side is kept: a candidate replaces it when it is better at the candidate's own time.
//! So the state is a few words per chain, however long the trace.

use super::stamps::Stamps;

/// How far a GPU clock and the host's may part, in parts per million: two oscillators of ±100 ppm each. Assumed.
pub const DRIFT_PPM: i64 = 200;

/// How far the offset can have moved within `elapsed` ns, rounded up.
pub fn drift(elapsed: i64) -> i64 {
    const PER_NS: i64 = 1_000_000 / DRIFT_PPM;
    elapsed.saturating_abs().saturating_add(PER_NS - 1) / PER_NS
}

/// A bound on θ, and the host time at which it holds as it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bound {
    offset: i64,
    at: i64,
}

/// The interval that θ of one chain of one context lies in. All times in ns.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClockBounds {
    /// What its events' stamps are worth.
    pub stamps: Stamps,
    upper: Option<Bound>,
    lower: Option<Bound>,
    record_cost: Option<i64>,
    contradictions: u64,
}

impl ClockBounds {
    /// An event with GPU time `gpu` was recorded by a call that began at host time `host`: θ ≤ gpu − host.
    pub fn recorded(&mut self, host: i64, gpu: i64) {
        let offset = gpu - host;
        if self.upper(host).is_none_or(|known| offset < known) {
            self.upper = Some(Bound { offset, at: host });
            self.settle(host, true);
        }
    }

    /// An event with GPU time `gpu` had completed at host time `host`: θ ≥ gpu − host.
    pub fn completed(&mut self, host: i64, gpu: i64) {
        let offset = gpu - host;
        if self.lower(host).is_none_or(|known| offset > known) {
            self.lower = Some(Bound { offset, at: host });
            self.settle(host, false);
        }
    }

    /// A call that records an event took `ns`. The least of them tells how far [`upper`](Self::upper) is from θ.
    pub fn record_took(&mut self, ns: i64) {
        self.record_cost = Some(self.record_cost.map_or(ns, |least| least.min(ns)));
    }

    /// The most that θ can be at host time `at`.
    pub fn upper(&self, at: i64) -> Option<i64> {
        self.upper.map(|b| b.offset + drift(at - b.at))
    }

    /// The least that θ can be at host time `at`.
    pub fn lower(&self, at: i64) -> Option<i64> {
        self.lower.map(|b| b.offset - drift(at - b.at))
    }

    /// The best guess of θ at host time `at`.
    ///
    /// The upper bound counts from the begin of a record call, but the event reaches the GPU at its end. On a drained
    /// stream it fires at once, so the least of `g − b` stands one record call above θ; that call's cost is taken off.
    pub fn guess(&self, at: i64) -> Option<i64> {
        let guess = self.upper(at)? - self.record_cost.unwrap_or(0);
        Some(self.lower(at).map_or(guess, |lower| guess.max(lower)))
    }

    /// Half the width of the interval at host time `at`, ns; `None` while a side is unknown.
    pub fn half_width(&self, at: i64) -> Option<u64> {
        let width = self.upper(at)? - self.lower(at)?;
        Some(width.max(0) as u64 / 2)
    }

    /// How often a new bound contradicted the other side: the drift assumption does not hold on this machine.
    pub fn contradictions(&self) -> u64 {
        self.contradictions
    }

    /// Forgets the other side when the newest bound contradicts it.
    fn settle(&mut self, at: i64, upper_is_new: bool) {
        if let (Some(upper), Some(lower)) = (self.upper(at), self.lower(at))
            && lower > upper
        {
            self.contradictions += 1;
            *(if upper_is_new { &mut self.lower } else { &mut self.upper }) = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_unseen_clock_is_unknown() {
        let clock = ClockBounds::default();
        assert_eq!(
            (clock.upper(0), clock.lower(0), clock.guess(0), clock.half_width(0)),
            (None, None, None, None)
        );
    }

    #[test]
    fn a_bound_loosens_with_time_both_ways_and_a_better_one_replaces_it() {
        let mut clock = ClockBounds::default();
        clock.recorded(1_000_000, 1_000_700);
        assert_eq!(clock.upper(1_000_000), Some(700));
        assert_eq!(clock.upper(2_000_000), Some(900), "200 ppm of a millisecond");
        assert_eq!(clock.upper(0), Some(900));
        clock.recorded(2_000_000, 2_000_901);
        assert_eq!(clock.upper(2_000_000), Some(900), "901 is no better");
        clock.recorded(2_000_000, 2_000_899);
        assert_eq!(clock.upper(2_000_000), Some(899));
    }

    #[test]
    fn a_contradiction_is_counted_and_the_newer_side_kept() {
        let mut clock = ClockBounds::default();
        clock.recorded(0, 100);
        clock.completed(0, 500);
        assert_eq!((clock.contradictions(), clock.upper(0), clock.lower(0)), (1, None, Some(500)));
    }

    proptest! {
        /// Whatever is recorded and seen, in any order, θ is inside.
        #[test]
        fn theta_is_always_inside(
            ppm in -100i64..=100,
            offset in -1_000_000_000_000i64..1_000_000_000_000,
            events in proptest::collection::vec((0i64..2_000_000_000, 0i64..5_000, 0i64..1_000_000), 1..60),
        ) {
            let theta = |host: i64| offset + host * ppm / 1_000_000;
            let mut clock = ClockBounds::default();
            for (begin, fires_after, seen_after) in &events {
                let fired = begin + fires_after;
                clock.recorded(*begin, fired + theta(fired) + 1);
                clock.completed(fired + seen_after, fired + theta(fired) - 1);
                for at in [*begin, 0, 2_000_000_000] {
                    prop_assert!(clock.upper(at).unwrap() >= theta(at));
                    prop_assert!(clock.lower(at).unwrap() <= theta(at));
                }
            }
            prop_assert_eq!(clock.contradictions(), 0);
        }
    }
}
