//! How much longer does a launch take while it is timed, for sure?
//!
//! Each comparison of a pause with the windows beside it is one observation, and a program whose pace varies makes wild
//! ones, in both directions. So the account pays for the **least that is likely**: of the last [`KEPT`] observations the
//! fourth smallest. Half of the observations of a program that is not slowed lie below nothing; that no more than three of sixteen do
//! happens once in a hundred times. A steady program's observations are all alike, and the fourth smallest is what they all
//! say. One outlier changes nothing, and four observations without a slowdown end what was paid.

use gpuspy_wire::pace::{Compared, Pace, Point};

use crate::gpu::stream::{Pending, Stream};

/// Observations that count: what was found longer ago is another phase's.
const KEPT: usize = 16;
/// So many are needed.
const LEAST: usize = 8;
/// Another stream is followed from then on that it has had so many times as many launches as the one that was.
const MUCH_BUSIER: u64 = 2;
/// Or if this one has had no events for so many windows.
const LOST_AFTER: u32 = 4;

/// Follows the stream that most is launched on, and compares. The poller's own.
pub struct Follower {
    /// By its address, which is never another's.
    stream: usize,
    launches: u64,
    /// The time base that the last point was measured on.
    time_base: u32,
    pace: Pace,
    compared: Option<Compared>,
}

impl Follower {
    /// Follows none yet.
    pub const NEW: Follower =
        Follower { stream: 0, launches: 0, time_base: 0, pace: Pace::NEW, compared: None };

    /// An operation of a stream has ended at `ns` on that time base of its context's clock.
    pub fn saw(&mut self, stream: &Stream, op: &Pending, time_base: u32, ns: i64) {
        let address = core::ptr::from_ref(stream).addr();
        if address != self.stream {
            let is_lost = op.window.wrapping_sub(self.pace.window()) >= LOST_AFTER;
            if op.launches < self.launches.saturating_mul(MUCH_BUSIER) && !is_lost {
                return;
            }
            self.stream = address;
            self.pace = Pace::NEW;
        } else if time_base != self.time_base {
            self.pace = Pace::NEW; // how far apart two time bases are is known to no better than the clocks are
        }
        (self.launches, self.time_base) = (op.launches, time_base);
        let point = Point { launches: op.launches, ns };
        self.compared = self.pace.passes(op.window, point).or(self.compared);
    }

    /// What could be compared since it was last asked, and the launches that the stream has had.
    pub fn take(&mut self) -> Option<(Compared, u64)> {
        self.compared.take().map(|compared| (compared, self.launches))
    }
}

/// The last observations, ns a launch.
#[derive(Default)]
pub struct Slowdown {
    last: [f64; KEPT],
    count: usize,
}

impl Slowdown {
    /// One more.
    pub fn observe(&mut self, longer: f64) {
        if let Some(place) = self.last.get_mut(self.count % KEPT) {
            *place = longer;
        }
        self.count += 1;
    }

    /// Whether there are enough of them.
    pub fn is_known(&self) -> bool {
        self.count >= LEAST
    }

    /// What a launch takes longer at least, ns. Nothing where too little is known: no event makes a launch faster.
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

    fn least(observations: impl IntoIterator<Item = f64>) -> f64 {
        let mut slowdown = Slowdown::default();
        observations.into_iter().for_each(|longer| slowdown.observe(longer));
        slowdown.least()
    }

    #[test]
    fn a_steady_slowdown_is_paid_for_and_a_few_observations_are_none() {
        assert_eq!(least([900.0; 7]), 0.0);
        assert_eq!(least([900.0; 8]), 900.0);
        assert_eq!(least((0..100).map(|n| 900.0 + f64::from(n % 3))), 900.0);
    }

    #[test]
    fn outliers_are_not_and_what_is_over_is_soon_forgotten() {
        assert_eq!(least((0..100).map(|n| if n % 8 == 0 { 1e6 } else { 0.0 })), 0.0);
        assert_eq!(least((0..16).map(|n| if n % 8 == 0 { -1e6 } else { 700.0 })), 700.0);
        assert_eq!(least((0..20).map(|n| if n < 16 { 700.0 } else { 0.0 })), 0.0);
    }

    /// Of a pace that varies without us half of the observations are positive, and large.
    #[test]
    fn a_program_without_a_steady_pace_pays_hardly_ever() {
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
