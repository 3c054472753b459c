//! Calls from files and stacks that are known.

use super::super::simulation;
use super::*;
use crate::trace::record::Synchronize;
use gpuspy_wire::record::SyncScope;

const STACK_OF_A_PACKAGE: u32 = 4;
const STACK_OF_THE_USER: u32 = 5;

fn names() -> Names {
    let text = |space, id, text: &str| ((space, id), text.to_owned());
    Names(
        [
            text(Namespace::Path, 1, "/opt/app"),
            text(Namespace::Path, 2, "/lib/x.so"),
            text(Namespace::Frame, 1, "item\n/x/site-packages/torch/_tensor.py\n30"),
            text(Namespace::Frame, 2, "train\ntrain.py\n42"),
            text(Namespace::Stack, STACK_OF_A_PACKAGE, "1"),
            text(Namespace::Stack, STACK_OF_THE_USER, "1 2"),
        ]
        .into(),
    )
}

fn module(start: u64, end: u64, path: u32) -> Record {
    let module = Module { start, end, bias: 0x1000, path, build_id: [path as u8; 20] };
    Record { thread: 1, at: 0, body: Body::Module(module) }
}

fn call(caller: u64, stack: u32) -> Record {
    let call = Call { caller, stack, ..Call::default() };
    Record {
        thread: 1,
        at: 0,
        body: Body::Synchronize(Synchronize { call, scope: SyncScope::Device, stream: 0, event: 0 }),
    }
}

fn callers(names: &Names, records: &[Record]) -> Callers {
    let mut fold = CallerFold::new(names);
    records.iter().for_each(|record| fold.observe(record));
    fold.finish()
}

#[test]
fn each_caller_without_a_line_of_python_is_looked_up_once() {
    let mut names = names();
    let records = [
        module(0x2000, 0x4000, 1),
        module(0x5000, 0x6000, 2),
        call(0x2500, 0),
        call(0x2500, STACK_OF_A_PACKAGE),
        call(0x2500, 0),
        call(0x2600, STACK_OF_THE_USER),
        call(0x5100, 0),
        call(0x9000, 0),
        call(0, 0),
    ];
    let mut callers = callers(&names, &records);
    let mut asked = Vec::new();
    callers.resolve(&mut names, |places| {
        asked = places.iter().map(|place| (place.path.clone(), place.offset, place.build_id[0])).collect();
        let step = Frame::native("step", Some(("/src/app.cpp".to_owned(), 12)), "/opt/app");
        let frames = vec![vec![step], Vec::new(), Vec::new()];
        Found { frames, unread: vec![(WhyUnread::Changed, "/lib/x.so".to_owned())] }
    });
    let app = ("/opt/app".to_owned(), 0x1500, 1);
    assert_eq!(asked, [app, ("/lib/x.so".to_owned(), 0x4100, 2), (String::new(), 0x9000, 0)]);
    let stacks = Stacks::of(&names);
    let on = |record: &Record| callers.on_stacks([record.clone()].into_iter()).next().unwrap();
    let line = |record: &Record| {
        let call = on(record).body.call().cloned().unwrap();
        stacks.line(stacks.line_of(&call)).map(Frame::place)
    };
    let (native, of_package) = (on(&records[2]), on(&records[3]));
    assert_eq!(line(&records[2]).as_deref(), Some("/src/app.cpp:12"));
    assert_eq!(stacks.listed(native.body.call().unwrap().stack).unwrap(), ["step (/src/app.cpp:12)"]);
    let both = ["step (/src/app.cpp:12)", "item (/x/site-packages/torch/_tensor.py:30)"];
    assert_eq!(stacks.listed(of_package.body.call().unwrap().stack).unwrap(), both);
    assert_eq!(line(&records[5]).as_deref(), Some("train.py:42"), "the line of Python is the user's");
    for unknown in [6, 7, 8] {
        assert_eq!(on(&records[unknown]), records[unknown]);
    }
    let notes: Vec<String> = callers.notes().collect();
    assert_eq!(notes, ["/lib/x.so has changed since the run: calls from it have no line"]);
}

#[test]
fn a_native_stack_is_in_front_of_that_of_python_and_a_launch_is_without_its_stub() {
    let mut names = names();
    let (long, of_launch, lost) = (9, 10, 11);
    for (number, text) in [
        (long, format!("{STACK_OF_THE_USER} 2500 2600")),
        (of_launch, "0 2700 2500".to_owned()),
        (lost, format!("{STACK_OF_THE_USER} 9500 9600")),
    ] {
        names.0.insert((Namespace::NativeStack, number), text);
    }
    names.0.insert((Namespace::Kernel, 1), "_Z3addPfi".to_owned());
    let launch = |caller: u64, stack: u32| {
        // Of kernel 1.
        let mut work = simulation::work(1, 2, 3);
        (work.call.caller, work.call.stack) = (caller, stack);
        Record { thread: 1, at: 0, body: Body::Work(work) }
    };
    let records =
        [module(0x2000, 0x4000, 1), call(0x2500, long), launch(0x2700, of_launch), call(0x9500, lost)];
    let mut callers = callers(&names, &records);
    callers.resolve(&mut names, |places| {
        let frame = |place: &Place| match place.offset {
            0x1500 => vec![Frame::native("step", Some(("/src/app.cpp".to_owned(), 12)), "/opt/app")],
            0x1600 => vec![Frame::native("main", Some(("/src/app.cpp".to_owned(), 34)), "/opt/app")],
            0x1700 => vec![Frame::native("__device_stub__Z3addPfi", None, "/opt/app")],
            0x9500 | 0x9600 if place.path.is_empty() => Vec::new(),
            other => panic!("{other:#x}"),
        };
        Found { frames: places.iter().map(frame).collect(), unread: Vec::new() }
    });
    let stacks = Stacks::of(&names);
    let of = |record: &Record| {
        let record = callers.on_stacks([record.clone()].into_iter()).next().unwrap();
        let call = record.body.call().cloned().unwrap();
        let line = stacks.line(stacks.line_of(&call)).map(Frame::place);
        (line.unwrap_or_default(), stacks.listed(call.stack).unwrap())
    };
    let native = ["step (/src/app.cpp:12)", "main (/src/app.cpp:34)"];
    let python = ["item (/x/site-packages/torch/_tensor.py:30)", "train (train.py:42)"];
    let both = [native, python].concat().iter().map(|frame| (*frame).to_owned()).collect();
    assert_eq!(of(&records[1]), ("train.py:42".to_owned(), both));
    assert_eq!(of(&records[2]), ("/src/app.cpp:12".to_owned(), vec![native[0].to_owned()]));
    let (line, stack) = of(&records[3]);
    assert_eq!((line.as_str(), stack.len()), ("train.py:42", 2), "of files that nobody has");
}

/// All calls of a library that was unloaded, and those of the one that was loaded in its place, had no line.
#[test]
fn a_call_has_the_line_of_the_library_that_lay_at_its_address_then() {
    let mut names = names();
    names.0.insert((Namespace::NativeStack, 9), "0 3500 4500".to_owned());
    let then = |at: u64, mut record: Record| {
        record.at = at;
        if let Some(call) = record.body.call_mut() {
            (call.begin, call.end) = (at, at + 1);
        }
        record
    };
    let files =
        [(10, module(0x3000, 0x5000, 1)), (30, module(0x3000, 0x5000, 1)), (40, module(0x3000, 0x5000, 2))];
    let calls = [20, 35, 50].map(|at| then(at, call(0x3500, 0)));
    let on_stacks = [20, 35, 50].map(|at| then(at, call(0x3500, 9)));
    let files = files.map(|(at, file)| then(at, file));
    let all: Vec<Record> = calls.iter().chain(&on_stacks).chain(&files).cloned().collect();
    let mut callers = callers(&names, &all);
    callers.resolve(&mut names, |places| {
        let frame = |place: &Place| {
            let file = Some((format!("{}.c", place.path), place.offset as u32));
            vec![Frame::native("step", file, &place.path)]
        };
        Found { frames: places.iter().map(frame).collect(), unread: Vec::new() }
    });
    let stacks = Stacks::of(&names);
    let owned = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>();
    for (calls, of_app, of_x) in [
        (&calls, &["step (/opt/app.c:9472)"][..], &["step (/lib/x.so.c:9472)"][..]),
        (
            &on_stacks,
            &["step (/opt/app.c:9472)", "step (/opt/app.c:13568)"],
            &["step (/lib/x.so.c:9472)", "step (/lib/x.so.c:13568)"],
        ),
    ] {
        let on = |record: &Record| {
            let record = callers.on_stacks([record.clone()].into_iter()).next().unwrap();
            let call = record.body.call().cloned().unwrap();
            let library = callers.modules().resolve(call.caller, &names).map(|site| site.path);
            (stacks.listed(call.stack).unwrap_or_default(), library.unwrap_or_default())
        };
        let [first, between, last] = [0, 1, 2].map(|at| on(&calls[at]));
        assert_eq!((first.0.as_slice(), first.1.as_str()), (owned(of_app).as_slice(), "/opt/app"));
        assert_eq!((last.0.as_slice(), last.1.as_str()), (owned(of_x).as_slice(), "/lib/x.so"));
        assert_eq!(between.1, "", "of one of them");
        assert!(between.0.iter().all(|frame| !frame.contains("step")), "{between:?}");
    }
}

#[test]
fn an_address_where_one_file_was_seen_twice_is_looked_up_once() {
    let names = names();
    let mut again = module(0x2000, 0x4000, 1);
    again.at = 10;
    let mut callers = callers(&names, &[module(0x2000, 0x4000, 1), call(0x3500, 0), again]);
    callers.resolve(&mut names.clone(), |places| {
        assert_eq!(places.len(), 1);
        Found { frames: vec![Vec::new()], unread: Vec::new() }
    });
}

#[test]
fn callers_and_what_is_said_of_changed_files_are_limited() {
    let names = names();
    let calls = (1..=2 * MOST_CALLERS as u64).map(|n| call(n * 16, 0));
    let mut fold = CallerFold::new(&names);
    calls.for_each(|record| fold.observe(&record));
    let mut callers = fold.finish();
    assert_eq!(callers.calls.len(), MOST_CALLERS);
    for (count, expected) in [
        (1, "/f0 has changed since the run: calls from it have no line"),
        (3, "/f0, /f1, /f2 have changed since the run: calls from them have no line"),
        (4, "/f0, /f1, /f2 and another file have changed since the run: calls from them have no line"),
        (9, "/f0, /f1, /f2 and 6 other files have changed since the run: calls from them have no line"),
    ] {
        callers.unread = (0..count).map(|n| (WhyUnread::Changed, format!("/f{n}"))).collect();
        assert_eq!(callers.notes().collect::<Vec<_>>(), [expected]);
    }
}

/// Nothing was said of a file that was not there, as where a trace is read on another machine.
#[test]
fn a_file_of_which_nothing_is_believed_is_named_with_the_reason() {
    let file = |why, name: &str| (why, name.to_owned());
    let unread = vec![
        file(WhyUnread::Missing, "/a"),
        file(WhyUnread::Missing, "/b"),
        file(WhyUnread::Unreadable, "/c"),
        file(WhyUnread::Untold, "/d"),
    ];
    let notes: Vec<String> = Callers { unread, ..Callers::default() }.notes().collect();
    let expected = [
        "/a, /b are not on this machine: calls from them have no line; make the report where the program's files are",
        "/c cannot be read: calls from it have no line",
        "/d may have changed since the run, as the trace does not say which build ran: calls from it have no line",
    ];
    assert_eq!(notes, expected);
    assert_eq!(Callers::default().notes().count(), 0);
}
