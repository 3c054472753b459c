//! What an event's time stamp is worth: its resolution, and what the event itself costs the GPU. Both are the GPU's, and known
//! from its whole trace.
//!
//! **Resolution.** A stamp is a whole multiple of some number of ns, rounded down. The greatest common divisor of all that
//! was measured on a time base is that number, or a multiple of it: never less, so it errs to the careful side, and by a few
//! ns only after a few stamps. [`MOST_RESOLUTION`] bounds it before that.
//!
//! **Cost.** The front end takes time for an event, and a pair around an operation holds one event's: that of the end
//! event. Between two neighbours on a stream lies nothing of ours but the second one's start event, so the least distance
//! ever seen between an end event and the next start event is the most that an event costs, and on a stream that was
//! never empty in between it is the cost. [`MOST_EVENT_COST`] bounds it before that.

/// The coarsest resolution of CUDA event times, ns. The documentation of `cudaEventElapsedTime` says about 0.5 µs, and GPUs
/// whose timer counts in multiples of 1.024 µs were reported: twice that is allowed for until stamps tell.
pub const MOST_RESOLUTION: i64 = 2_048;

/// What an event costs a GPU at most, ns. Assumed, until neighbours tell; a pair of events with nothing between is commonly
/// seen to read 1 to 2 µs.
pub const MOST_EVENT_COST: i64 = 3_000;

/// What is known of a time base's time stamps.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stamps {
    /// The greatest common divisor of what was measured, ns; 0 = nothing was.
    divisor: u64,
    least_gap: Option<i64>,
}

impl Stamps {
    /// A distance between two stamps, exact to the ns.
    pub fn distance(&mut self, ns: i64) {
        let (mut divisor, mut rest) = (self.divisor, ns.unsigned_abs());
        while rest != 0 {
            (divisor, rest) = (rest, divisor % rest);
        }
        self.divisor = divisor;
    }

    /// From the end event of one operation to the start event of the next on its stream, rounded up.
    pub fn gap(&mut self, ns: i64) {
        if ns >= 0 {
            self.least_gap = Some(self.least_gap.map_or(ns, |least| least.min(ns)));
        }
    }

    /// What two time bases of one GPU know together.
    pub fn and(mut self, other: Stamps) -> Stamps {
        self.distance(other.divisor.min(i64::MAX as u64) as i64);
        other.least_gap.into_iter().for_each(|gap| self.gap(gap));
        self
    }

    /// How much later than its stamp an event can have fired, ns.
    pub fn resolution(&self) -> i64 {
        match self.divisor {
            0 => MOST_RESOLUTION,
            divisor => MOST_RESOLUTION.min(divisor.min(i64::MAX as u64) as i64 - 1),
        }
    }

    /// The most that an event costs, ns.
    pub fn most_cost(&self) -> i64 {
        self.least_gap.map_or(MOST_EVENT_COST, |gap| MOST_EVENT_COST.min(gap + self.resolution()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_trusted_before_something_was_seen() {
        let stamps = Stamps::default();
        assert_eq!((stamps.resolution(), stamps.most_cost()), (2_048, 3_000));
    }

    #[test]
    fn the_resolution_is_the_common_divisor_and_never_coarser_than_assumed() {
        let mut stamps = Stamps::default();
        for (distance, resolution) in [(64_000, 2_048), (-1_600, 1_599), (96, 31), (0, 31), (1_000_001, 0)] {
            stamps.distance(distance);
            assert_eq!(stamps.resolution(), resolution, "{stamps:?}");
        }
    }

    #[test]
    fn chains_of_one_gpu_know_together_what_each_knows() {
        let (mut one, mut other) = (Stamps::default(), Stamps::default());
        one.distance(96);
        one.gap(2_000);
        other.distance(64);
        other.gap(700);
        let both = one.and(other);
        assert_eq!((both.resolution(), both.most_cost()), (31, 731));
        assert_eq!(both.and(Stamps::default()).most_cost(), 731);
    }

    #[test]
    fn the_least_gap_of_neighbours_bounds_what_an_event_costs() {
        let mut stamps = Stamps::default();
        stamps.distance(3);
        stamps.distance(5);
        for (gap, most) in [(-4, 3_000), (9_000, 3_000), (320, 320), (900, 320), (0, 0)] {
            stamps.gap(gap);
            assert_eq!(stamps.most_cost(), most);
        }
    }
}
