//! How exact are the host times of a trace? They are whole multiples of [`STEP`].
//!
//! The last three bits of a time are noise that no coder compresses, and a launch has six times. Reading the clock takes
//! about as long as a step, so what these bits say is not worth what they cost: a quarter of the trace.
//!
//! All times are rounded up, so that their order stays, and so that lengths of calls are right on average: a sum over many
//! short calls does not grow. Up is also the safe side of the times by which something had
//! happened: that an operation was submitted, that its end was seen, that a wait was over. Two times are the other kind:
//!
//! - Before the record of the start event began, that event did not fire. This moment is rounded down; the trace has it as
//!   the [`lead`](super::record::Work::lead) of `submitted`.
//! - Before a call began, nothing that it submitted ran. It is rounded up like its end; between this reading of the clock
//!   and the driver is more work of the agent than a step is long.
//!
//! GPU times stay as they were read. So do samples of the GPU's clock, and what the collector itself records: these are few.

use super::record::{Body, Call, GpuTime, Record, What, Work};

/// Host times are whole multiples of this, ns.
pub const STEP: u64 = 8;

/// The first multiple of a step that is no earlier.
fn up(ns: u64) -> u64 {
    down(ns.saturating_add(STEP - 1))
}

/// The last multiple of a step that is no later.
fn down(ns: u64) -> u64 {
    ns & !(STEP - 1)
}

/// Rounds the host times of a record.
pub fn round(record: &mut Record) {
    record.at = up(record.at);
    if let Body::Work(work) = &mut record.body {
        round_work(work);
    }
    if let Body::NodeTime(time) = &mut record.body {
        round_time(&mut time.gpu);
    }
    if let Some(Call { begin, end, .. }) = record.body.call_mut() {
        (*begin, *end) = (up(*begin), up(*end));
    }
}

/// Rounds the moments between the start and the end of an operation's call, which have not been rounded yet.
fn round_work(work: &mut Work) {
    let submitted = up(work.submitted);
    // 0 and the greatest value say that there is none, and that it is longer than the field can say.
    let is_length = |ns: u64| ns != 0 && ns != u64::MAX;
    if is_length(work.lead) {
        work.lead = submitted.saturating_sub(down(work.submitted.saturating_sub(work.lead))).max(STEP);
    }
    if is_length(work.tail) {
        work.tail = up(work.submitted.saturating_add(work.tail)).saturating_sub(submitted).max(STEP);
    }
    if let What::Burst { closing, .. } = &mut work.what {
        *closing = up(work.call.end).saturating_sub(up(work.call.end.saturating_sub(*closing)));
    }
    work.submitted = submitted;
    if let Some(time) = &mut work.gpu {
        round_time(time);
    }
}

/// Rounds the host times of a GPU time.
pub fn round_time(time: &mut GpuTime) {
    time.seen = up(time.seen);
    if time.tail != u64::MAX {
        time.tail = up(time.tail);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::record::{ClockSample, NodeTime, Synchronize};
    use gpuspy_wire::record::{SyncScope, Untimed};
    use proptest::prelude::*;

    fn rounded(at: u64, body: Body) -> Record {
        let mut record = Record { thread: 0, at, body };
        round(&mut record);
        record
    }

    fn work(begin: u64, steps: [u64; 4], closing: Option<u64>) -> Work {
        let [before, lead, tail, after] = steps;
        let submitted = begin + before + lead;
        let what = match closing {
            Some(closing) => What::Burst { launches: 2, ordinary: 2, closing },
            None => What::Graph { graph: 0, handle: 0, kernels: 0, copies: 0, memsets: 0 },
        };
        let gpu =
            Some(GpuTime { start: 3, duration: 5, seen: begin + 1_001, tail: 17, ..GpuTime::default() });
        let call = Call { begin, end: submitted + tail + after, ..Call::default() };
        Work { call, submitted, entered: 0, lead, tail, untimed: Untimed::Timed, stream: 1, gpu, what }
    }

    proptest! {
        /// What bounds when the GPU worked must stay a bound.
        #[test]
        fn an_operation_is_rounded_outward(begin in 1u64 << 40..1 << 41, steps in prop::array::uniform4(1u64..40)) {
            let exact = work(begin, steps, Some(steps[3]));
            let Body::Work(coarse) = rounded(exact.call.end, Body::Work(exact.clone())).body else { unreachable!() };
            prop_assert!(coarse.submitted >= exact.submitted);
            prop_assert!(coarse.submitted - coarse.lead <= exact.submitted - exact.lead);
            prop_assert!(coarse.submitted + coarse.tail >= exact.submitted + exact.tail);
            prop_assert!(coarse.call.begin <= coarse.submitted && coarse.submitted <= coarse.call.end);
            let (What::Burst { closing: before, .. }, What::Burst { closing, .. }) = (exact.what, coarse.what) else { unreachable!() };
            prop_assert!(coarse.call.end - closing >= exact.call.end - before);
            let (before, gpu) = (exact.gpu.unwrap(), coarse.gpu.unwrap());
            prop_assert!(gpu.seen >= before.seen && gpu.tail >= before.tail);
            prop_assert_eq!((gpu.start, gpu.duration), (before.start, before.duration), "the GPU's clock is not rounded");
            let times = [coarse.call.begin, coarse.call.end, coarse.submitted, coarse.lead, coarse.tail, closing, gpu.seen, gpu.tail];
            prop_assert!(times.iter().all(|ns| ns % STEP == 0), "{times:?}");
        }

        #[test]
        fn any_times_are_rounded_without_panic(times in prop::array::uniform8(any::<u64>())) {
            let [begin, end, submitted, lead, tail, seen, late, closing] = times;
            let mut odd = work(0, [0; 4], Some(closing));
            (odd.call.begin, odd.call.end, odd.submitted, odd.lead, odd.tail) = (begin, end, submitted, lead, tail);
            odd.gpu = Some(GpuTime { seen, tail: late, ..GpuTime::default() });
            rounded(end, Body::Work(odd));
        }
    }

    /// With the start rounded down and the end up, a call of 200 ns would take 4 % longer.
    #[test]
    fn calls_take_as_long_as_before_on_average() {
        for length in 0..40 {
            let call = |begin| Call { begin, end: begin + length, ..Call::default() };
            let took = |begin| {
                let body = Synchronize { call: call(begin), scope: SyncScope::Device, stream: 0, event: 0 };
                let record = rounded(begin + length, Body::Synchronize(body));
                let call = record.body.call().unwrap();
                assert_eq!(record.at, call.end);
                call.end - call.begin
            };
            assert_eq!((1_000..1_000 + STEP).map(took).sum::<u64>(), STEP * length);
        }
    }

    #[test]
    fn what_says_that_there_is_no_length_stays() {
        for (lead, tail) in [(0, 0), (u64::MAX, u64::MAX)] {
            let Body::Work(coarse) =
                rounded(0, Body::Work(Work { lead, tail, ..work(1_001, [9; 4], None) })).body
            else {
                unreachable!()
            };
            assert_eq!((coarse.lead, coarse.tail), (lead, tail));
        }
        let mut time = GpuTime { tail: u64::MAX, ..GpuTime::default() };
        round_time(&mut time);
        assert_eq!((time.seen, time.tail), (0, u64::MAX));
    }

    #[test]
    fn times_of_nodes_are_rounded_and_samples_of_the_clock_are_not() {
        let gpu = GpuTime { start: 9, seen: 1_001, ..GpuTime::default() };
        let node = NodeTime { correlation: 1, context: 1, kernel: 1, node: 0, gpu };
        let record = rounded(1_001, Body::NodeTime(node));
        let Body::NodeTime(node) = record.body else { unreachable!() };
        assert_eq!((record.at, node.gpu.seen, node.gpu.start), (1_008, 1_008, 9));
        let sample = ClockSample { context: 1, time_base: 1, gpu: 9, error: 0, after: 1_001, before: 1_003 };
        assert_eq!(rounded(1_003, Body::ClockSample(sample.clone())).body, Body::ClockSample(sample));
    }
}
