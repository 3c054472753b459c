//! How much extra does a launch certainly take while it is timed?
//!
//! Each comparison of a pause with the windows next to it is one observation, and a program with a varying
//! pace yields wild observations in both directions. So the account pays for the **smallest plausible
//! slowdown**: the fourth smallest of the last [`KEPT`] observations. For a program that is not slowed down,
//! half of the observations are negative, and the chance that no more than three of sixteen are negative is
//! one in a hundred. A steady program's observations all agree, and the fourth smallest is their common
//! value. One outlier changes nothing, and four observations without a slowdown reduce the payment to 0.

use gpuspy_wire::pace::{Compared, Pace, Point};

use crate::gpu::stream::{Pending, Stream};

/// The number of latest observations that count. Older ones may belong to another phase of the program.
const KEPT: usize = 16;
/// The number of observations without which the slowdown counts as unknown.
const LEAST: usize = 8;
/// The follower switches to another stream when that has had this many times as many launches as the followed
/// one.
const MUCH_BUSIER: u64 = 2;
/// The follower also switches when the followed stream has had no events for this many windows.
const LOST_AFTER: i32 = 4;

/// Follows the stream with the most launches and compares its pace. Only the poller uses it.
pub struct Follower {
    /// The stream, by its context's address and its id, which no other stream ever has: its own memory may become another's.
    stream: (u64, u64),
    launches: u64,
    /// The time base that the last point was measured on.
    time_base: u32,
    pace: Pace,
    compared: Option<Compared>,
}

impl Follower {
    /// A follower that has not observed any stream yet.
    pub const NEW: Follower =
        Follower { stream: (0, 0), launches: 0, time_base: 0, pace: Pace::NEW, compared: None };

    /// Takes in the end of an operation of `stream`, at `ns` on the given time base of its context's clock.
    pub fn observe(&mut self, stream: &Stream, op: &Pending, time_base: u32, ns: i64) {
        self.observe_on((stream.context_address(), stream.id()), op, time_base, ns);
    }

    fn observe_on(&mut self, stream: (u64, u64), op: &Pending, time_base: u32, ns: i64) {
        if stream != self.stream {
            // The distance is negative for an operation of an older window: streams are read one after the other.
            let is_lost = op.window.wrapping_sub(self.pace.window()) as i32 >= LOST_AFTER;
            if op.launches < self.launches.saturating_mul(MUCH_BUSIER) && !is_lost {
                return;
            }
            self.stream = stream;
            self.pace = Pace::NEW;
        } else if time_base != self.time_base {
            self.pace = Pace::NEW; // the distance of two time bases is known no better than the clocks' offset
        }
        (self.launches, self.time_base) = (op.launches, time_base);
        let point = Point { launches: op.launches, ns };
        self.compared = self.pace.passes(op.window, point).or(self.compared);
    }

    /// Returns the newest comparison since the last call, if any, and the number of launches that the stream
    /// has had.
    pub fn take(&mut self) -> Option<(Compared, u64)> {
        self.compared.take().map(|compared| (compared, self.launches))
    }
}

/// The last observations, in ns per launch.
#[derive(Default)]
pub struct Slowdown {
    last: [f64; KEPT],
    count: usize,
}

impl Slowdown {
    /// Adds an observation.
    pub fn observe(&mut self, extra: f64) {
        if let Some(place) = self.last.get_mut(self.count % KEPT) {
            *place = extra;
        }
        self.count += 1;
    }

    /// Whether there are enough observations.
    pub fn is_known(&self) -> bool {
        self.count >= LEAST
    }

    /// How much extra a launch takes at least, ns. Returns 0 where too little is known or the estimate is
    /// negative: no event makes a launch faster.
    pub fn least(&self) -> f64 {
        if !self.is_known() {
            return 0.0;
        }
        let known = self.count.min(KEPT);
        let mut sorted = self.last;
        let Some(sorted) = sorted.get_mut(..known) else { return 0.0 };
        sorted.sort_unstable_by(f64::total_cmp);
        sorted.get(known / 4 - 1).copied().unwrap_or(0.0).max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The followed stream was given up for each stream of which an operation was read that was timed a window earlier.
    #[test]
    fn an_operation_of_an_older_window_is_no_reason_to_follow_another_stream() {
        let op = |window, launches| Pending { window, launches, ..Pending::default() };
        let (busy, other) = ((0x1000, 7), (0x1000, 8));
        let mut follower = Follower::NEW;
        follower.observe_on(busy, &op(7, 1000), 1, 0);
        follower.observe_on(other, &op(6, 10), 1, 0);
        follower.observe_on(other, &op(7 + LOST_AFTER as u32 - 1, 20), 1, 0);
        assert_eq!((follower.stream, follower.launches), (busy, 1000));
        follower.observe_on(other, &op(7 + LOST_AFTER as u32, 30), 1, 0);
        assert_eq!((follower.stream, follower.launches), (other, 30), "the other has had no events for long");
    }

    fn least(observations: impl IntoIterator<Item = f64>) -> f64 {
        let mut slowdown = Slowdown::default();
        observations.into_iter().for_each(|extra| slowdown.observe(extra));
        slowdown.least()
    }

    #[test]
    fn a_steady_slowdown_is_paid_for_once_there_are_eight_observations() {
        assert_eq!(least([900.0; 7]), 0.0);
        assert_eq!(least([900.0; 8]), 900.0);
        assert_eq!(least((0..100).map(|n| 900.0 + f64::from(n % 3))), 900.0);
    }

    #[test]
    fn outliers_cost_nothing_and_a_past_slowdown_is_soon_forgotten() {
        assert_eq!(least((0..100).map(|n| if n % 8 == 0 { 1e6 } else { 0.0 })), 0.0);
        assert_eq!(least((0..16).map(|n| if n % 8 == 0 { -1e6 } else { 700.0 })), 700.0);
        assert_eq!(least((0..20).map(|n| if n < 16 { 700.0 } else { 0.0 })), 0.0);
    }

    /// If the pace varies on its own, half of the observations are positive, and large.
    #[test]
    fn a_program_without_a_steady_pace_almost_never_pays() {
        let (mut state, mut slowdown, mut paid) = (7u64, Slowdown::default(), 0);
        for _ in 0..10_000 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            slowdown.observe((state % 20_001) as f64 - 10_000.0);
            paid += u32::from(slowdown.least() > 0.0);
        }
        assert!(paid < 300, "{paid} of 10 000");
    }
}
