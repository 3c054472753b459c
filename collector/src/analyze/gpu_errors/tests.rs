use super::super::analysis::{Line, finish_at};
use super::*;
use crate::model::simulation;
use crate::model::{self, CountedCall};
use crate::trace::record::{Api, Call, GpuTime, Record, Status, Work};
use gpuspy_wire::record::{Untimed, flag};

const ILLEGAL_ADDRESS: i32 = 700;
const SYNC: u16 = 9;

/// One thing that happened.
#[derive(Clone, Copy)]
enum Happened {
    /// A launch of a kernel on a stream: its call returned at this time. `true`: its end was seen.
    Launch(u32, u64, u64, bool),
    /// The program waited for a stream; the wait began at this time.
    Waited(Option<u64>, u64),
    /// A run of launches on a stream whose end was seen; the last of them returned at this time.
    Run(u64, u64),
    /// A call that began at this time returned a result.
    Returned(i32, u64),
}
use Happened::{Launch, Returned, Run, Waited};

fn names() -> Names {
    let kernels = [(1, "first"), (2, "second"), (3, "third")].into_iter();
    let kernels = kernels.map(|(id, name)| ((Namespace::Kernel, id), name.to_owned()));
    Names(kernels.chain([((Namespace::Api, SYNC.into()), "cuStreamSynchronize_ptsz".to_owned())]).collect())
}

fn work(returned: u64, stream: u64, is_seen: bool, what: Option<What>) -> Work {
    let mut work = simulation::work(returned, 5, 0);
    work.gpu = is_seen.then(GpuTime::default);
    work.untimed = Untimed::Timed;
    work.stream = stream;
    work.what = what.unwrap_or(work.what);
    work
}

fn observe(fold: &mut ErrorFold<'_>, happened: Happened) {
    let record = |at, body| Record { thread: 1, at, body };
    let of_stream = |what, returned, stream| Operation {
        stream,
        ..simulation::operation(what, (returned - 5, returned))
    };
    match happened {
        Launch(name, stream, returned, is_seen) => {
            let record = record(returned, Body::Work(work(returned, stream, is_seen, None)));
            let what = Action::Kernel { name, communication: false };
            let operation = Some(of_stream(what, returned, stream));
            let event = Event { operation, ..Event::new(&record) };
            fold.observe(&event, &Scope::whole(&event, true));
        }
        Run(stream, last) => {
            let what = What::Burst { launches: 2, ordinary: 2, closing: 10 };
            let record = record(last + 10, Body::Work(work(last + 10, stream, true, Some(what))));
            let what = Action::Burst { launches: 2, ordinary: 2, communication: false };
            let operation = Some(of_stream(what, last + 10, stream));
            let event = Event { operation, ..Event::new(&record) };
            fold.observe(&event, &Scope::whole(&event, true));
        }
        Waited(stream, issued_before) => {
            let record = record(issued_before + 5, Body::CaptureEdge { begins: true });
            let drained = vec![Drained { context: 1, stream, issued_before, by: 0 }];
            let event = Event { drained, ..Event::new(&record) };
            fold.observe(&event, &Scope::whole(&event, true));
        }
        Returned(result, begin) => {
            let call = Call { api: SYNC, flags: flag::FAILED, begin, end: begin + 5, ..Call::default() };
            let api = Api { call, result, subject: 0, calls: 1, inside: 0, entered: 0 };
            let record = record(begin + 5, Body::Api(api));
            let call = Some(CountedCall { api: SYNC, calls: 1, host_ns: 5, failed: true });
            let event = Event { call, ..Event::new(&record) };
            fold.observe(&event, &Scope::whole(&event, true));
        }
    }
}

fn errors(all: &[Happened]) -> GpuErrors {
    let names = names();
    let mut fold = ErrorFold::new(&Start { began: 1_000, ..Start::of(&names) });
    all.iter().for_each(|happened| observe(&mut fold, *happened));
    finish_at(fold, 10_000)
}

/// Returns the suspects with the numbers of their launches, and how many others there are.
fn suspects(all: &[Happened]) -> (Vec<(String, u64)>, u64) {
    let first = errors(&[all, &[Returned(ILLEGAL_ADDRESS, 9_000)]].concat()).first.unwrap();
    let named = first.suspects.into_iter().map(|suspect| (suspect.symbol.unwrap(), suspect.count));
    (named.collect(), first.others)
}

#[test]
fn the_first_call_is_kept_and_all_that_return_the_same_error_count() {
    let found = errors(&[
        Returned(1, 2_000),
        Returned(ILLEGAL_ADDRESS, 3_000),
        Returned(2, 4_000),
        Returned(ILLEGAL_ADDRESS, 5_000),
    ]);
    assert_eq!((found.processes, found.calls), (1, 2));
    let first = found.first.unwrap();
    assert_eq!((first.result, first.at, first.since_began), (ILLEGAL_ADDRESS, 3_005, 2_005));
    assert_eq!(first.api, "cuStreamSynchronize");
}

#[test]
fn a_process_whose_calls_fail_otherwise_has_none() {
    assert_eq!(errors(&[Launch(1, 7, 2_000, false), Returned(2, 3_000)]), GpuErrors::default());
}

#[test]
fn launches_that_were_seen_to_complete_are_no_suspects() {
    let one = |name: &str, count| (vec![(name.to_owned(), count)], 0);
    // The end of a later one of the stream shows it of those before.
    let all = [Launch(1, 7, 2_000, false), Launch(2, 7, 3_000, true), Launch(3, 7, 4_000, false)];
    assert_eq!(suspects(&all), one("third", 1));
    // That of another stream shows nothing, and a wait shows it of what was issued before.
    let waited = |stream| {
        [
            Launch(1, 7, 2_000, false),
            Launch(2, 8, 3_000, true),
            Waited(stream, 3_500),
            Launch(3, 7, 4_000, false),
        ]
    };
    assert_eq!(suspects(&waited(Some(7))), one("third", 1));
    assert_eq!(suspects(&waited(None)), one("third", 1));
    let both = vec![("first".to_owned(), 1), ("third".to_owned(), 1)];
    assert_eq!(suspects(&waited(Some(8))), (both, 0));
    // The end of a run shows it of its launches, and not of one after them.
    let run =
        [Launch(1, 7, 2_000, false), Launch(2, 7, 2_100, false), Run(7, 2_100), Launch(3, 7, 2_105, false)];
    assert_eq!(suspects(&run), one("third", 1));
    assert_eq!(suspects(&run[..3]), (Vec::new(), 0));
}

#[test]
fn launches_after_the_error_are_no_suspects_and_the_latest_comes_last() {
    let launches = [Launch(3, 7, 2_000, false), Launch(1, 7, 2_100, false), Launch(3, 7, 2_200, false)];
    let after = [Returned(ILLEGAL_ADDRESS, 3_000), Launch(2, 7, 4_000, false)];
    let said = suspects(&[&launches[..], &after].concat());
    assert_eq!(said, (vec![("first".to_owned(), 1), ("third".to_owned(), 2)], 0));
}

#[test]
fn of_many_launches_the_last_ones_are_named_and_the_others_counted() {
    let launches: Vec<_> = (0..1_000).map(|n| Launch(1 + n % 2, 7, 2_000 + u64::from(n), false)).collect();
    let (named, others) = suspects(&launches);
    let half = REMEMBERED as u64 / 2;
    assert_eq!(named, [("first".to_owned(), half), ("second".to_owned(), half)]);
    assert_eq!(others, 1_000 - 2 * half);
    // A wait that covers some of those that are only counted says nothing of them.
    let waited = [&launches[..], &[Waited(Some(7), 2_100)]].concat();
    assert_eq!(suspects(&waited), (named, others));
    let over = [&launches[..], &[Waited(Some(7), 2_999)]].concat();
    assert_eq!(suspects(&over), (Vec::new(), 0));
}

#[test]
fn of_several_processes_the_earliest_error_is_the_first() {
    let of = |at, pid| {
        let first = Some(Stopped { at, pid: Some(pid), ..Stopped::default() });
        GpuErrors { processes: 1, calls: 2, first }
    };
    let mut all = GpuErrors::default();
    [GpuErrors::default(), of(20, 1), of(10, 2), of(30, 3)].iter().for_each(|one| all.merge(one));
    let first = all.first.as_ref().and_then(|first| first.pid);
    assert_eq!((all.processes, all.calls, first), (3, 6, Some(2)));
}

#[test]
fn of_several_machines_the_earliest_error_is_the_first_by_real_time() {
    let of = |boot, [at, real_time]: [u64; 2], pid| {
        let (machine, pid) = (Some(Machine::Boot(boot)), Some(pid));
        let first = Stopped { at, real_time: Some(real_time), machine, pid, ..Stopped::default() };
        GpuErrors { processes: 1, calls: 1, first: Some(first) }
    };
    // The second machine has been up for longer, and its error came first. The real time of the first one was set back
    // before its second process.
    let errors = [of(1, [20, 5_020], 1), of(1, [30, 4_030], 2), of(2, [900, 5_010], 3)];
    let first = |errors: &[&GpuErrors]| {
        let mut all = GpuErrors::default();
        errors.iter().for_each(|one| all.merge(one));
        all.first.and_then(|first| first.pid)
    };
    let [early, late, other] = &errors;
    assert_eq!((first(&[early, other]), first(&[other, early])), (Some(3), Some(3)));
    assert_eq!((first(&[early, late]), first(&[late, early])), (Some(1), Some(1)), "one machine, one clock");
}

#[test]
fn the_real_time_of_an_error_follows_from_that_of_the_start() {
    let names = names();
    let mut fold = ErrorFold::new(&Start { began: 1_000, ..Start::of(&names) });
    observe(&mut fold, Returned(ILLEGAL_ADDRESS, 3_000));
    let status = Status { began: 1_000, began_realtime: 7_000, boot: Some(5), ..Status::default() };
    let known = model::Process::default();
    let line = Line::default();
    let end = End { names: &names, known: &known, pid: Some(1), status: Some(&status), ended: 10_000, line };
    let first = fold.finish(&end).first.unwrap();
    assert_eq!((first.real_time, first.machine), (Some(7_000 + 2_005), Some(Machine::Boot(5))));
}
