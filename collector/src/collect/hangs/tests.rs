//! Hangs are found where nothing completes, and nowhere else.

use super::*;
use crate::trace::record::{Call, Context, EventOp, Operation, Stream, What, Work};
use gpuspy_wire::record::{LossCause, Untimed};

const S: u64 = 1_000_000_000;
/// The context of all streams; its device is 3.
const CONTEXT: u32 = 1;

struct Process {
    watch: Watch,
    correlation: u64,
}

impl Process {
    /// A process whose limit is 60 s.
    fn new() -> Process {
        let mut process = Process { watch: Watch::new(HANG_AFTER), correlation: 0 };
        let context = Context { context: CONTEXT, device: 3, handle: 9, destroyed: false };
        process.push(Body::Context(context));
        process
    }

    fn push(&mut self, body: Body) {
        self.watch.record(&Record { thread: 1, at: 0, body });
    }

    fn work(&mut self, stream: u64, submitted: u64, untimed: Untimed, name: u32) -> u64 {
        self.correlation += 1;
        let call =
            Call { correlation: self.correlation, context: CONTEXT, end: submitted, ..Call::default() };
        let what = What::Kernel {
            name,
            function: 0,
            grid: [1; 3],
            block: [1; 3],
            shared_bytes: 0,
            attributes: 0,
            cluster: [0; 3],
        };
        let (entered, lead, tail, gpu) = (0, 0, 0, None);
        self.push(Body::Work(Work { call, submitted, entered, lead, tail, untimed, stream, gpu, what }));
        self.correlation
    }

    fn timed(&mut self, stream: u64, submitted: u64, name: u32) -> u64 {
        self.work(stream, submitted, Untimed::Timed, name)
    }

    /// Looks at `now`; returns what is reported.
    fn look(&mut self, now: u64, calls: &[InCall]) -> Vec<Hang> {
        self.watch.look(&Look { now, polled: Some(now), calls: calls.to_vec() }).0
    }
}

fn in_call(tid: u32, since: u64) -> InCall {
    InCall { tid, api: 5, caller: 0x1000, since }
}

#[test]
fn an_operation_is_reported_once_when_it_hangs_and_once_when_it_completes() {
    let mut process = Process::new();
    let first = process.timed(7, S, 11);
    process.watch.time(first, 2 * S);
    let second = process.timed(7, 3 * S, 12);
    process.timed(7, 4 * S, 13);
    assert_eq!(process.look(62 * S, &[]), []);
    let [hang] = &process.look(63 * S, &[in_call(42, 5 * S)])[..] else { panic!("a hang is reported") };
    assert_eq!((hang.since, hang.until, hang.device, hang.stream), (3 * S, 63 * S, Some(3), Some(7)));
    assert_eq!(hang.operation, Some(Operation::Kernel(12)));
    assert_eq!(hang.last.map(|last| (last.operation, last.seen)), Some((Operation::Kernel(11), 2 * S)));
    assert_eq!(hang.call, Some(Blocked { tid: 42, api: 5, library: 0, since: 5 * S }));
    assert_eq!(process.look(90 * S, &[in_call(42, 5 * S)]), [], "a hang is reported once");
    process.watch.time(second, 91 * S);
    let [over] = &process.look(92 * S, &[])[..] else { panic!("its end is reported") };
    assert_eq!((over.is_over, over.since, over.until), (true, 3 * S, 91 * S));
    assert_eq!(process.look(93 * S, &[]), []);
    assert_eq!(process.watch.hangs().len(), 1);
}

#[test]
fn a_queue_that_moves_on_is_no_hang() {
    let mut process = Process::new();
    let launched: Vec<u64> = (0..100).map(|_| process.timed(7, S, 1)).collect();
    for (n, correlation) in (1..).zip(launched) {
        let now = n * 59 * S;
        assert_eq!(process.look(now, &[]), [], "{n}");
        process.watch.time(correlation, now);
    }
    assert_eq!(process.look(100_000 * S, &[]), [], "without operations there is no hang");
}

#[test]
fn times_may_come_before_their_operations_and_operations_out_of_order() {
    let mut process = Process::new();
    process.watch.time(1, 2 * S);
    assert_eq!(process.timed(7, S, 1), 1);
    assert_eq!(process.look(100 * S, &[]), [], "it had completed");
    // Another thread's launch on the stream was made earlier, and is drained later.
    let later = process.timed(7, 101 * S, 2);
    let earlier = process.timed(7, 100 * S, 3);
    process.watch.time(earlier, 102 * S);
    let [hang] = &process.look(170 * S, &[])[..] else { panic!("the later one hangs") };
    assert_eq!((hang.operation, hang.since), (Some(Operation::Kernel(2)), 102 * S));
    process.watch.time(later, 171 * S);
    assert!(process.look(172 * S, &[])[0].is_over);
}

#[test]
fn what_the_poller_has_not_looked_at_is_not_claimed() {
    let mut process = Process::new();
    process.timed(7, S, 1);
    let look = |polled| Look { now: 100 * S, polled, calls: Vec::new() };
    assert_eq!(process.watch.look(&look(None)).0, []);
    assert_eq!(process.watch.look(&look(Some(50 * S))).0, [], "the driver keeps the poller waiting");
    assert_eq!(process.watch.look(&look(Some(99 * S))).0.len(), 1);
}

#[test]
fn lost_times_and_streams_that_are_gone_hang_nothing() {
    let mut process = Process::new();
    process.timed(7, S, 1);
    process.push(Body::Loss { cause: LossCause::GpuTimePending, count: 1 });
    assert_eq!(process.look(100 * S, &[]), []);
    process.timed(8, 101 * S, 1);
    let (flags, priority) = (0, 0);
    process.push(Body::Stream(Stream {
        stream: 8,
        handle: 4,
        context: CONTEXT,
        flags,
        priority,
        destroyed: true,
    }));
    assert_eq!(process.look(200 * S, &[]), []);
    process.timed(9, 201 * S, 1);
    process.push(Body::Context(Context { context: CONTEXT, device: 3, handle: 9, destroyed: true }));
    assert_eq!(process.look(300 * S, &[]), []);
}

#[test]
fn a_hang_says_what_may_hang_instead_and_what_goes_on() {
    let mut process = Process::new();
    for at in [1, 2] {
        process.work(7, at * S, Untimed::Budget, 1);
    }
    let op = EventOp {
        call: Call { api: 77, context: CONTEXT, end: 3 * S, ..Call::default() },
        stream: 7,
        event: 5,
        event_flags: 0,
    };
    process.push(Body::EventWait(op));
    process.timed(7, 4 * S, 2);
    let other = process.timed(8, 5 * S, 3);
    process.watch.time(other, 30 * S);
    let [hang] = &process.look(64 * S, &[])[..] else { panic!("a hang is reported") };
    assert_eq!((hang.untimed_before, hang.behind, hang.others_complete), (2, Some(77), true));
    assert_eq!((hang.last, hang.call), (None, None));
}

#[test]
fn a_call_that_does_not_return_is_reported_by_itself_where_nothing_is_known_to_be_pending() {
    let mut process = Process::new();
    process.work(7, S, Untimed::Budget, 4);
    let (blocked, other) = (in_call(42, 2 * S), in_call(43, 60 * S));
    let look = |now, calls: &[InCall]| Look { now, polled: None, calls: calls.to_vec() };
    assert_eq!(process.watch.look(&look(62 * S, &[blocked, other])).0, [], "streams come first");
    let (told, _) = process.watch.look(&look(63 * S, &[blocked, other]));
    let [hang] = &told[..] else { panic!("{told:?}") };
    assert_eq!((hang.is_pending, hang.operation), (false, Some(Operation::Kernel(4))));
    assert_eq!(hang.call.map(|call| call.tid), Some(42));
    assert_eq!(process.watch.look(&look(64 * S, &[blocked])).0, []);
    let (told, _) = process.watch.look(&look(80 * S, &[in_call(42, 79 * S)]));
    assert!(told.len() == 1 && told[0].is_over && told[0].until == 80 * S, "{told:?}");
}

#[test]
fn a_killed_process_may_have_been_killed_because_it_hung_for_less_than_the_limit() {
    for (ending, found) in [(Ending::Vanished, 1), (Ending::Exited, 0)] {
        let mut process = Process::new();
        process.timed(7, S, 1);
        process.watch.finish(&Look { now: 7 * S, polled: Some(7 * S), calls: Vec::new() }, ending);
        assert_eq!(process.watch.hangs().len(), found, "{ending:?}");
    }
    let mut busy = Process::new();
    busy.timed(7, S, 1);
    busy.watch.finish(&Look { now: 5 * S, polled: Some(5 * S), calls: Vec::new() }, Ending::Vanished);
    assert_eq!(busy.watch.hangs(), []);
}

#[test]
fn many_hangs_are_reported_as_a_number_and_the_status_stays_bounded() {
    let mut process = Process::new();
    for stream in 0..1000 {
        process.timed(stream, S, 1);
    }
    let (told, more) = process.watch.look(&Look { now: 100 * S, polled: Some(100 * S), calls: Vec::new() });
    assert_eq!((told.len(), more), (TOLD, MAX_HANGS - TOLD));
    for round in 2..20 {
        (1..=1000).for_each(|correlation| process.watch.time(correlation, round * 100 * S));
        process.look(round * 100 * S, &[]);
        assert!(process.watch.hangs().len() <= MAX_HANGS);
        process.correlation = 0;
        for stream in 0..1000 {
            process.timed(stream, round * 100 * S, 1);
        }
        process.look(round * 100 * S + 70 * S, &[]);
        assert!(process.watch.hangs().len() <= MAX_HANGS, "{}", process.watch.hangs().len());
    }
}
