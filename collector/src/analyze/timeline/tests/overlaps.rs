//! Untimed work beside timed work of another thread on the same stream.

use super::*;

fn called(number: u64, call: [u64; 2], when: When) -> Operation {
    Operation { called: call[0], returned: call[1], ..operation(number, 7, KERNEL, when) }
}

/// A graph runs from 0 to 2000 on another stream, and the operations run on a stream of their own.
fn beside_a_graph(operations: &[Operation]) -> Identity {
    let graph = Operation { stream: 8, ..operation(0, 8, GRAPH, When::Timed(exactly(0, 2_000))) };
    let all: Vec<Operation> = [graph].iter().chain(operations).copied().collect();
    sweep_all(&all, None).identity
}

fn busy(identity: &Identity, class: Class) -> Sum {
    identity.busy[class as usize]
}

/// A thread records the start event of its pair and is delayed; what other threads launch meanwhile comes between its
/// two events.
#[test]
fn work_whose_call_overlaps_a_timed_ones_may_lie_inside_its_pair_or_on_either_side() {
    let holder =
        called(1, [200, 300], When::Timed(at([400, 400], [400, 700], [700, 700], Basis::BoundsOnly)));
    let between = called(2, [220, 230], untimed(220));
    let later = called(3, [310, 320], When::Timed(exactly(800, 810)));
    for [first, second] in [[holder, between], [between, holder]] {
        let identity = beside_a_graph(&[first, second, later]);
        assert_eq!(busy(&identity, Class::Graph).lo, 220 + 1_190, "until the call, and after the next one");
        assert_eq!(busy(&identity, Class::Compute), Sum { value: 10, lo: 10, hi: 590 });
    }
}

#[test]
fn work_whose_call_overlaps_no_other_is_in_stream_order() {
    let before = called(1, [200, 220], When::Timed(exactly(400, 410)));
    let between = called(2, [220, 230], untimed(220));
    let later = called(3, [230, 320], When::Timed(exactly(800, 810)));
    let identity = beside_a_graph(&[before, between, later]);
    assert_eq!(busy(&identity, Class::Compute), Sum { value: 20, lo: 20, hi: 410 });
}

/// The call that returned first is first in the trace; the other one had been entered before.
#[test]
fn untimed_work_of_two_threads_may_start_with_the_last_in_the_trace() {
    let before = called(1, [200, 320], When::Timed(exactly(600, 610)));
    let late = called(2, [330, 340], untimed(330));
    let early = called(3, [310, 350], untimed(310));
    let later = called(4, [360, 370], When::Timed(exactly(800, 810)));
    let identity = beside_a_graph(&[before, late, early, later]);
    assert_eq!(busy(&identity, Class::Compute).hi, 500, "from 310 to 810");
}

/// A stamp of 200 belongs to an event that fired before 232.
#[test]
fn untimed_work_may_reach_into_the_error_of_its_neighbors_stamps() {
    let blurred = |number, start, end| {
        let raw = (end - start) as u64;
        let length = Length { lo: raw - 32, value: raw, hi: raw + 32 };
        let whole = at([start, end], [start, end], [start + 32, end + 32], Basis::Corrected);
        operation(number, 7, COPY, When::Timed(GpuInterval { length, raw, ..whole }))
    };
    let identity =
        beside_a_graph(&[blurred(1, 100, 200), called(2, [2, 3], untimed(2)), blurred(3, 300, 400)]);
    let hi = busy(&identity, Class::Compute).hi;
    assert!(hi >= 332 - 200, "from 200 to 332: {hi}");
}

/// The truth about a launch: its call, when the GPU worked on it, and whether it is timed.
#[derive(Clone, Debug)]
struct Launch {
    call: [u64; 2],
    ran: [i64; 2],
    is_timed: bool,
}

impl Launch {
    fn overlaps(&self, other: &Launch) -> bool {
        self.call[0] < other.call[1] && other.call[0] < self.call[1]
    }
}

/// The launches of a stream in its order; each one reached the stream somewhere inside its call.
fn launches() -> impl Strategy<Value = Vec<Launch>> {
    let launch = (1..20u64, [0..40u64, 0..40u64], 0..30i64, 1..60i64, any::<bool>());
    proptest::collection::vec(launch, 0..12).prop_map(|list| {
        let (mut reached, mut end) = (100, 0);
        let all = list.into_iter().map(|(apart, [before, after], wait, work, is_timed)| {
            reached += apart;
            let start = end.max(reached as i64) + wait;
            end = start + work;
            Launch { call: [reached - before, reached + after], ran: [start, end], is_timed }
        });
        all.collect()
    })
}

/// What is observed of the launch at `place`: its pair contains all launches next to it whose calls overlap its own.
fn observed(launches: &[Launch], place: usize) -> Operation {
    let this = &launches[place];
    let inside = |other: &&Launch| other.overlaps(this);
    let from = launches[..place].iter().rev().take_while(inside).last().unwrap_or(this).ran[0];
    let to = launches[place + 1..].iter().take_while(inside).last().unwrap_or(this).ran[1];
    let when = match this.is_timed {
        false => untimed(this.call[0] as i64),
        true if [from, to] == this.ran => When::Timed(exactly(from, to)),
        true => When::Timed(at([from, from], [from, to], [to, to], Basis::BoundsOnly)),
    };
    called(place as u64 + 1, this.call, when)
}

proptest! {
    /// Whatever the order of the threads' calls in the trace.
    #[test]
    fn the_truth_is_inside_however_calls_overlap(
        (launches, order) in launches().prop_flat_map(|launches| {
            let order: Vec<usize> = (0..launches.len()).collect();
            (Just(launches), Just(order).prop_shuffle())
        })
    ) {
        let operations: Vec<Operation> = order.iter().map(|&place| observed(&launches, place)).collect();
        let identity = beside_a_graph(&operations);
        let truth: u64 = launches.iter().map(|launch| (launch.ran[1] - launch.ran[0]) as u64).sum();
        let (compute, graph) = (busy(&identity, Class::Compute), busy(&identity, Class::Graph));
        prop_assert!(compute.lo <= truth && truth <= compute.hi, "{truth} in {compute:?}");
        prop_assert!(graph.lo <= identity.span - truth, "{truth} of {}, {graph:?}", identity.span);
        prop_assert!(identity.span - truth <= graph.hi, "{truth} of {}, {graph:?}", identity.span);
    }
}
