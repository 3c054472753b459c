//! How precise is an event's time stamp, and how much GPU time does the event itself cost?
//!
//! Both are properties of the GPU, learned from all stamps of a trace.
//!
//! **Resolution.** A stamp is a multiple of some number of ns, rounded down. The greatest common divisor of all exact
//! distances on a time base is that number or a multiple of it. It is never smaller, so it errs on the safe side, and
//! after a few stamps it is nearly exact. Until then [`MOST_RESOLUTION`] bounds it. The test
//! `the_resolution_is_the_common_divisor_and_never_coarser_than_assumed` checks this.
//!
//! **Cost.** The GPU's front end takes time for an event, and a pair around an operation contains one event's cost:
//! the end event's. Between two neighbors on a stream, the agent puts nothing but the second one's start event, so
//! the least distance between an end event and the next start event is an upper bound on the cost of an event, and
//! equals it if the stream was not empty in between. Until there are neighbors, [`MOST_EVENT_COST`] bounds it. The
//! test `the_least_gap_of_neighbors_bounds_an_events_cost` checks this.

/// The coarsest resolution of CUDA event times, ns. The CUDA Runtime API's documentation of `cudaEventElapsedTime`
/// says "around 0.5 microseconds", and GPUs whose timer counts in multiples of 1.024 µs have been reported. This
/// assumes twice that until a trace's stamps show more.
pub const MOST_RESOLUTION: i64 = 2_048;

/// The most GPU time that an event costs, ns. This is an assumption until neighboring operations bound it; a pair of
/// events with nothing in between commonly reads 1 to 2 µs.
pub const MOST_EVENT_COST: i64 = 3_000;

/// What the stamps of a time base have shown about their precision.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stamps {
    /// The greatest common divisor of the measured distances, ns; 0 before the first.
    divisor: u64,
    least_gap: Option<i64>,
}

impl Stamps {
    /// Adds a distance between two stamps, exact to the ns.
    pub fn distance(&mut self, ns: i64) {
        let (mut divisor, mut rest) = (self.divisor, ns.unsigned_abs());
        while rest != 0 {
            (divisor, rest) = (rest, divisor % rest);
        }
        self.divisor = divisor;
    }

    /// Adds the distance from an operation's end event to the next start event on its stream, rounded up, ns.
    pub fn gap(&mut self, ns: i64) {
        if ns >= 0 {
            self.least_gap = Some(self.least_gap.map_or(ns, |least| least.min(ns)));
        }
    }

    /// Combines two time bases of one GPU.
    pub fn and(mut self, other: Stamps) -> Stamps {
        self.distance(other.divisor.min(i64::MAX as u64) as i64);
        other.least_gap.into_iter().for_each(|gap| self.gap(gap));
        self
    }

    /// How much later than its stamp an event may have fired, ns.
    pub fn resolution(&self) -> i64 {
        match self.divisor {
            0 => MOST_RESOLUTION,
            divisor => MOST_RESOLUTION.min(divisor.min(i64::MAX as u64) as i64 - 1),
        }
    }

    /// An upper bound on the cost of an event, ns.
    pub fn most_cost(&self) -> i64 {
        self.least_gap.map_or(MOST_EVENT_COST, |gap| MOST_EVENT_COST.min(gap + self.resolution()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_measurements_the_assumptions_apply() {
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
    fn time_bases_of_one_gpu_combine_what_each_has_shown() {
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
    fn the_least_gap_of_neighbors_bounds_an_events_cost() {
        let mut stamps = Stamps::default();
        stamps.distance(3);
        stamps.distance(5);
        for (gap, most) in [(-4, 3_000), (9_000, 3_000), (320, 320), (900, 320), (0, 0)] {
            stamps.gap(gap);
            assert_eq!(stamps.most_cost(), most);
        }
    }
}
