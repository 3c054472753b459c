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
//! test `the_least_gap_of_neighbors_bounds_an_events_cost` checks this. If many gaps are as short as the least one, it is the
//! cost: on an H200 the least is 1248 ns, most gaps of a busy stream are up to 32 ns longer, and two events with nothing
//! between them are 1248 ns apart.

/// The coarsest resolution of CUDA event times, ns. The CUDA Runtime API's documentation of `cudaEventElapsedTime`
/// says "around 0.5 microseconds", and GPUs whose timer counts in multiples of 1.024 µs have been reported. This
/// assumes twice that until a trace's stamps show more.
pub const MOST_RESOLUTION: i64 = 2_048;

/// The most GPU time that an event costs, ns. This is an assumption until neighboring operations bound it; a pair of
/// events with nothing in between commonly reads 1 to 2 µs.
pub const MOST_EVENT_COST: i64 = 3_000;

/// How much of the time between two events is neither the operation's nor the end event's own, but the launch's. In multiples of
/// an event's cost: both are the work of the GPU's front end, and nothing in a trace shows a launch's. Measured on an H200, where
/// an event costs 1248 ns, against CUPTI (`tests/gpu-results/h200-580.159.04-2026-11-25`).
#[derive(Clone, Copy, Debug)]
pub struct Launch {
    /// Usually, if the operation was queued behind its start event, ns. Kernels follow each other at a distance of 1.0 µs where
    /// no event is between them; that much is left as part of the operation, as it is in runs.
    pub queued: i64,
    /// Usually, if the stream may have been empty when the call returned, ns. The same 1.0 µs is left, or up to 2 µs on a GPU that
    /// had nothing else to do.
    pub late: i64,
    /// At most, ns: with it, CUPTI's time lay inside the interval of 2 098 of 2 099 launches.
    pub most: i64,
    /// At most, of a graph, ns. For 60 launches of torch.compile's graphs on an H100, our values were longer than CUPTI's by 3.9 µs
    /// in the median and 4.8 µs at the 95th percentile, and what is taken for a kernel left 11 of CUPTI's below the interval
    /// (`tests/gpu-results/h100-580.159.04-2026-11-27`).
    pub most_of_graph: i64,
}

/// What the stamps of a time base have shown about their precision.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stamps {
    /// The greatest common divisor of the measured distances, ns; 0 before the first.
    divisor: u64,
    /// The least upper bound on a gap, ns.
    least_bound: Option<i64>,
    /// The least gap as it was measured, ns.
    least_gap: Option<i64>,
    /// The number of gaps that are at most [`ALIKE`] longer than that.
    alike: u64,
}

/// By how much gaps that show what an event costs differ, ns: two steps of an H200's stamps.
const ALIKE: i64 = 64;
/// How many such gaps show it. In a long trace in which the GPU always waits for the host, as many gaps are alike by chance; the
/// least of them is then hardly more, since recording an event takes the host as long.
const ENOUGH: u64 = 8;

impl Stamps {
    /// Adds a distance between two stamps, exact to the ns.
    pub fn distance(&mut self, ns: i64) {
        let (mut divisor, mut rest) = (self.divisor, ns.unsigned_abs());
        while rest != 0 {
            (divisor, rest) = (rest, divisor % rest);
        }
        self.divisor = divisor;
    }

    /// Adds the distance from an operation's end event to the next start event on its stream, ns. It is up to `off_by` longer.
    pub fn gap(&mut self, ns: i64, off_by: i64) {
        let bound = ns.saturating_add(off_by);
        if bound >= 0 {
            self.bound(bound);
            self.gaps(ns.max(0), 1);
        }
    }

    fn bound(&mut self, ns: i64) {
        self.least_bound = Some(self.least_bound.map_or(ns, |least| least.min(ns)));
    }

    /// Adds as many gaps that are `ns` long, or hardly longer.
    fn gaps(&mut self, ns: i64, alike: u64) {
        let least = self.least_gap.unwrap_or(i64::MAX);
        if ns > least.saturating_add(ALIKE) {
            return;
        }
        self.alike = if ns.saturating_add(ALIKE) < least { alike } else { self.alike.saturating_add(alike) };
        self.least_gap = Some(ns.min(least));
    }

    /// Combines two time bases of one GPU.
    pub fn and(mut self, other: Stamps) -> Stamps {
        self.distance(other.divisor.min(i64::MAX as u64) as i64);
        other.least_bound.into_iter().for_each(|bound| self.bound(bound));
        other.least_gap.into_iter().for_each(|gap| self.gaps(gap, other.alike));
        self
    }

    /// How much later than its stamp an event may have fired, ns.
    pub fn resolution(&self) -> i64 {
        match self.divisor {
            0 => MOST_RESOLUTION,
            divisor => MOST_RESOLUTION.min(divisor.min(i64::MAX as u64) as i64 - 1),
        }
    }

    /// The cost of an event, ns, where gaps show it; otherwise 0.
    pub fn cost(&self) -> i64 {
        self.least_gap.filter(|gap| self.alike >= ENOUGH && *gap <= MOST_EVENT_COST).unwrap_or(0)
    }

    /// How long a launch takes on the GPU, where events show it; otherwise nothing is assumed.
    pub fn launch(&self) -> Launch {
        let cost = self.cost();
        Launch { queued: cost / 2, late: 3 * cost / 2, most: 13 * cost / 4, most_of_graph: 13 * cost / 2 }
    }

    /// An upper bound on the cost of an event, ns.
    pub fn most_cost(&self) -> i64 {
        self.least_bound
            .map_or(MOST_EVENT_COST, |gap| MOST_EVENT_COST.min(gap.saturating_add(self.resolution())))
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
        one.gap(2_000, 0);
        other.distance(64);
        other.gap(690, 10);
        let both = one.and(other);
        assert_eq!((both.resolution(), both.most_cost()), (31, 731));
        assert_eq!(both.and(Stamps::default()).most_cost(), 731);
    }

    #[test]
    fn many_gaps_like_the_least_are_what_an_event_costs() {
        let of = |gaps: &[i64]| {
            let mut stamps = Stamps::default();
            gaps.iter().for_each(|gap| stamps.gap(*gap, 0));
            stamps
        };
        let busy: Vec<i64> = (0..40).map(|n| 1_248 + n % 2 * 32).collect();
        assert_eq!(of(&busy).cost(), 1_248);
        assert_eq!(of(&busy[..7]).cost(), 0, "too few");
        let host: Vec<i64> = (0..40).map(|n| 1_900 + n * 20).collect();
        assert_eq!(of(&host).cost(), 0, "a host's calls");
        let both: Vec<i64> = host.iter().chain(&busy).copied().collect();
        assert_eq!(of(&both).cost(), 1_248);
        let halves = (of(&busy[..5]), of(&busy[5..10]));
        assert_eq!((halves.0.cost(), halves.0.and(halves.1).cost()), (0, 1_248));
        assert_eq!(of(&vec![9_000; 40]).cost(), 0, "no event costs so much");
        assert_eq!(of(&vec![0; 40]).cost(), 0);
    }

    #[test]
    fn a_launch_takes_a_multiple_of_what_an_event_costs() {
        let launch = |gaps: u64| {
            let mut stamps = Stamps::default();
            (0..gaps).for_each(|_| stamps.gap(1_248, 0));
            let Launch { queued, late, most, most_of_graph } = stamps.launch();
            [queued, late, most, most_of_graph]
        };
        assert_eq!(launch(7), [0; 4], "too few events show a cost: nothing is assumed");
        assert_eq!(launch(8), [624, 1_872, 4_056, 8_112]);
    }

    #[test]
    fn what_gaps_are_off_by_is_in_the_bound_and_not_in_the_cost() {
        // After a second, a time base is read to 60 ns.
        let mut stamps = Stamps::default();
        stamps.distance(1);
        (0..40).for_each(|n| stamps.gap(n % 3 - 1, 60));
        assert_eq!((stamps.cost(), stamps.most_cost()), (0, 59));
    }

    #[test]
    fn the_least_gap_of_neighbors_bounds_an_events_cost() {
        let mut stamps = Stamps::default();
        stamps.distance(3);
        stamps.distance(5);
        for (gap, most) in [(-4, 3_000), (9_000, 3_000), (320, 320), (900, 320), (0, 0)] {
            stamps.gap(gap, 0);
            assert_eq!(stamps.most_cost(), most);
        }
    }
}
