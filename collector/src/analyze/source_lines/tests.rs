use super::super::analysis::{Line, finish_at};
use super::super::source::Lines;
use super::super::waits;
use super::*;
use crate::model;
use crate::model::simulation::{exactly, operation};
use crate::model::stacks::Stacks;
use crate::model::{CountedCall, Reason};
use crate::trace::record::{Call, Record, Synchronize, Work};
use gpuspy_wire::record::{SyncScope, Untimed};

/// Three stacks: two of one line, by way of two frames of a library, and one of another line; the fourth has no user's.
fn names() -> Names {
    let package = "/x/lib/python3.11/site-packages/torch/a.py";
    let texts = [
        (Namespace::Frame, 1, format!("launch\n{package}\n5")),
        (Namespace::Frame, 2, format!("launch\n{package}\n6")),
        (Namespace::Frame, 3, "step\ntrain.py\n10".to_owned()),
        (Namespace::Frame, 4, "step\ntrain.py\n11".to_owned()),
        (Namespace::Stack, 1, "1 3".to_owned()),
        (Namespace::Stack, 2, "2 3".to_owned()),
        (Namespace::Stack, 3, "4".to_owned()),
        (Namespace::Stack, 4, "1 …".to_owned()),
        (Namespace::Api, 7, "cuLaunchKernel_ptsz".to_owned()),
        (Namespace::Kernel, 1, "gemm".to_owned()),
    ];
    Names(texts.into_iter().map(|(space, id, text)| ((space, id), text)).collect())
}

fn call(stack: u32, flags: u16) -> Call {
    Call { api: 7, stack, flags, begin: 10, end: 30, ..Call::default() }
}

fn counted() -> CountedCall {
    CountedCall { api: 7, calls: 1, host_ns: 20, failed: false }
}

/// Gives an operation to the analysis, made by a stack.
fn observe(fold: &mut LineFold<'_>, stack: u32, what: Action, when: When, untimed: Untimed, flags: u16) {
    let work = Work { call: call(stack, flags), untimed, ..crate::model::simulation::work(10, 0, 0) };
    let record = Record { thread: 1, at: 30, body: Body::Work(work.clone()) };
    let operation = Operation { when, ..operation(what, (10, 30)) };
    let (call, caller) = ((flags & flag::MORE == 0).then(counted), Stacks::of(&names()).caller(&work.call));
    let event = Event { operation: Some(operation), call, caller, ..Event::new(&record) };
    fold.observe(&event, &Scope::whole(&event, true));
}

/// Returns the rows of an analysis.
fn rows(fold: LineFold<'_>) -> SourceLines {
    let names = names();
    let known = model::Process { stacks: Stacks::of(&names), ..model::Process::default() };
    let end = End { names: &names, known: &known, pid: None, status: None, ended: 0, line: Line::default() };
    fold.finish(&end)
}

const KERNEL: Action = Action::Kernel { name: 1, communication: false };

fn frame(line: u32) -> Option<Frame> {
    Some(Frame { file: "train.py".to_owned(), line, function: "step".to_owned(), ..Frame::default() })
}

#[test]
fn what_a_library_does_counts_for_the_line_that_called_it() {
    let names = names();
    let mut fold = LineFold::new(&Start::of(&names));
    let timed = When::Timed(exactly(100, 150));
    let copy = Action::Transfer { kind: TransferKind::HtoD, host_memory: HostMemory::Pinned, bytes: 64 };
    observe(&mut fold, 1, KERNEL, timed, Untimed::Timed, 0);
    observe(&mut fold, 2, KERNEL, When::Captured, Untimed::Captured, 0);
    observe(&mut fold, 2, copy, timed, Untimed::Timed, 0);
    observe(&mut fold, 3, KERNEL, timed, Untimed::Timed, 0);
    observe(&mut fold, 4, KERNEL, timed, Untimed::Timed, 0);
    observe(&mut fold, 0, KERNEL, timed, Untimed::Timed, 0);
    let SourceLines { rows, of } = rows(fold);
    let weights = |row: Row<String>| -> Vec<(Option<Frame>, u64)> {
        of[&row].weights().map(|(line, weight)| (line.cloned(), weight)).collect()
    };
    assert_eq!(weights(Row::Kernel("gemm".to_owned())), [(None, 2), (frame(10), 1), (frame(11), 1)]);
    assert_eq!(weights(Row::Transfer(TransferKind::HtoD, HostMemory::Pinned)), [(frame(10), 64)]);
    let line = &rows[&frame(10)];
    assert_eq!(line.calls, BTreeMap::from([("cuLaunchKernel".to_owned(), 3)]));
    assert_eq!((line.launches, line.operations, line.timed, line.bytes), (1, 2, 2, 64));
    assert_eq!(line.gpu.value, 100);
    assert_eq!(rows[&frame(11)].launches, 1);
    assert_eq!(rows[&None].launches, 2, "of calls without a line, and with none of the user's");
}

#[test]
fn launches_that_were_timed_together_share_the_time_by_their_number() {
    let names = names();
    let mut fold = LineFold::new(&Start::of(&names));
    let untimed = When::Untimed { reason: Reason::Untimed(Untimed::Run), after: None };
    for stack in [1, 2, 1, 3] {
        observe(&mut fold, stack, KERNEL, untimed, Untimed::Run, flag::BURST);
    }
    let burst = Action::Burst { launches: 4, ordinary: 4, communication: false };
    observe(&mut fold, 0, burst, When::Timed(exactly(100, 500)), Untimed::Timed, flag::MORE);
    let rows = rows(fold).rows;
    let gpu = |line: u32| rows[&frame(line)].gpu;
    assert_eq!((gpu(10).value, gpu(11).value), (300, 100));
    assert_eq!((gpu(11).lo, gpu(11).hi), (0, 400), "each of several lines may have had all of it");
    assert_eq!((rows[&frame(10)].launches, rows[&frame(10)].timed), (3, 3));
    assert!(!rows.contains_key(&None), "the burst is no launch of its own");
}

#[test]
fn waits_and_idle_time_count_for_the_line_of_their_stack() {
    let names = names();
    let mut fold = LineFold::new(&Start::of(&names));
    let sync = Synchronize { call: call(3, 0), scope: SyncScope::Device, stream: 0, event: 0 };
    let record = Record { thread: 1, at: 30, body: Body::Synchronize(sync) };
    let caller = Stacks::of(&names).caller(&call(3, 0));
    let event = Event { call: Some(counted()), caller, ..Event::new(&record) };
    fold.observe(&event, &Scope::whole(&event, true));
    let mut lines = rows(fold);
    assert_eq!(lines.of_api("cuLaunchKernel"), frame(11).as_ref().map(|line| (line, 1.0)));
    let gaps = BTreeMap::from([(frame(10), Part { count: 3, total: 75 })]);
    let waited = Lines::of([(frame(11), 4), (None, 6)]);
    let waits = [(("cudaFree".to_owned(), waits::Cause::Free), waited)].into();
    let paused = BTreeMap::from([(frame(10), 5)]);
    lines.relate(&gaps, &paused, &ImplicitSyncs { lines: waits, ..ImplicitSyncs::default() });
    assert_eq!((lines.rows[&frame(11)].wait_ns, lines.rows[&frame(10)].idle_ns), (24, 80));
    assert_eq!(lines.rows[&None].wait_ns, 6);
    let mut both = lines.clone();
    both.merge(&lines);
    assert_eq!(both.rows[&frame(10)].idle_ns, 160);
    assert_eq!(both.of_api("cuLaunchKernel"), lines.of_api("cuLaunchKernel"));
}

#[test]
fn a_trace_without_stacks_has_no_lines() {
    let names = Names::default();
    let mut fold = LineFold::new(&Start::of(&names));
    observe(&mut fold, 0, KERNEL, When::Timed(exactly(100, 150)), Untimed::Timed, 0);
    let mut lines = finish_at(fold, 0);
    lines.relate(
        &BTreeMap::from([(None, Part { count: 1, total: 70 })]),
        &BTreeMap::new(),
        &ImplicitSyncs::default(),
    );
    assert!(lines.rows.is_empty());
}

/// An update gives a graph another number: a program that updates one before each launch had a row for each launch.
#[test]
fn a_graph_that_is_updated_before_each_launch_takes_bounded_memory() {
    let names = names();
    let mut fold = LineFold::new(&Start::of(&names));
    let caller = Stacks::of(&names).caller(&call(1, 0));
    let launches = 3 * MOST_GRAPHS as u64;
    for graph in 1..=launches as u32 {
        let what = What::Graph { graph, handle: 9, kernels: 2, copies: 0, memsets: 0 };
        let work = Work { call: call(1, 0), what, ..crate::model::simulation::work(10, 0, 0) };
        let record = Record { thread: 1, at: 30, body: Body::Work(work) };
        let when = When::Timed(exactly(100, 150));
        let launch = Operation { when, ..operation(Action::Graph { kernels: 2 }, (10, 30)) };
        let event = Event { operation: Some(launch), call: Some(counted()), caller, ..Event::new(&record) };
        fold.observe(&event, &Scope::whole(&event, true));
    }
    let of_graphs = fold.rows.keys().filter(|(row, _)| matches!(row, Row::Graph(_)));
    assert_eq!(of_graphs.count(), MOST_GRAPHS + 1);
    let rows = rows(fold).rows;
    let line = &rows[&frame(10)];
    assert_eq!((line.operations, line.timed, line.gpu.value), (launches, launches, 50 * launches));
}
