//! Collectors that end before the program: what it costs the program from then on, and what another collector sees of it.

use super::{Listener, launches};
use gpuspy_collector::trace::TraceReader;
use gpuspy_tests::{Done, Run, gpuspy, report};
use gpuspy_wire::record::{Fact, Namespace};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// Waits until something is so.
fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < until, "{what} is not so");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Runs a client in two halves, under a listening collector at first. `between` gets the program's pid.
fn in_two_halves(client: &str, arguments: &[&str], socket: &Path, between: impl FnOnce(u32, &Path)) -> Done {
    let run = Run::of(client).env("GPUSPY_SOCKET", socket);
    let folder = run.folder().to_owned();
    let run = arguments.iter().fold(run.arg(&folder), Run::arg);
    let command = run.preloaded_command();
    let during = |pid| {
        wait_until("the first half", || folder.join("first").exists());
        between(pid, &folder);
        std::fs::write(folder.join("go"), "").unwrap();
    };
    run.finish_after(command, during).succeeded()
}

/// Whether the trace says what the process is.
fn is_introduced(trace: &Path) -> bool {
    let command = (Namespace::Fact, Fact::CommandLine as u32);
    TraceReader::open(trace).is_ok_and(|reader| reader.names().get(command.0, command.1).is_some())
}

/// Its launches had no names and were one kernel, and its time began with the process.
#[test]
fn the_trace_of_a_second_collector_has_all_names_and_begins_with_it() {
    let listener = Listener::start();
    let (mut first, mut second) = (Vec::<PathBuf>::new(), None);
    let done = in_two_halves("two_halves", &[], &listener.socket(), |pid, folder| {
        first = listener.stop();
        // What nobody collects.
        std::thread::sleep(Duration::from_millis(500));
        let (began, trace) = (Instant::now(), folder.join("second.gspy"));
        let mut collect = Command::new(gpuspy());
        collect.args(["collect", "--quiet", "--pid", &pid.to_string(), "--output"]).arg(&trace);
        let collect = collect.spawn().unwrap();
        wait_until("the process is introduced", || is_introduced(&trace));
        second = Some((collect, began, trace));
    });
    let (mut collect, began, trace) = second.unwrap();
    assert!(collect.wait().unwrap().success());
    let elapsed = began.elapsed();
    let said = done.said();

    let before = report(&first[0]);
    assert_eq!(launches(&before), said["first"]);
    assert_eq!(before["processes"][0]["ending"], "detached");

    let report = report(&trace);
    assert_eq!(launches(&report), said["second"]);
    let mut kernels: Vec<(String, u64)> = report["kernels"]
        .as_array()
        .unwrap()
        .iter()
        .map(|kernel| (kernel["name"].as_str().unwrap().to_owned(), kernel["count"].as_u64().unwrap()))
        .collect();
    kernels.sort();
    let expected = [("one_5us", 70), ("three_5us", 20), ("two_5us", 30)];
    assert_eq!(kernels, expected.map(|(name, count)| (name.to_owned(), count)));
    let is_launch = |api: &&serde_json::Value| api["name"] == "cuLaunchKernel";
    let apis = report["apis"].as_array().unwrap();
    assert_eq!(apis.iter().find(is_launch).map(|api| &api["count"]), Some(&said["second"]), "{apis:#?}");
    assert!(report["devices"][0]["name"].is_string(), "{}", report["devices"]);
    let process = &report["processes"][0];
    assert!(process["command"].to_string().contains("two_halves"), "{process}");
    assert_eq!(process["ending"], "exited");
    let wall = Duration::from_nanos(process["wall_ns"].as_u64().unwrap());
    assert!(wall <= elapsed, "{wall:?} of the {elapsed:?} since it was started");
    done.dropped_nothing(&report);
    is_one_process_of_two_traces(&first[0], &trace);
}

/// Starts a collector in the place of one that has gone, and waits until it has the program.
fn succeed(listener: &Listener, options: &[&str]) -> Child {
    let first = listener.traces();
    let mut collect = Command::new(gpuspy());
    let collect = collect.args(["collect", "--quiet", "--dir"]).arg(listener.folder.path()).args(options);
    let second = collect.spawn().unwrap();
    let is_there = || listener.traces().iter().any(|trace| !first.contains(trace) && is_introduced(trace));
    wait_until("the process is introduced", is_there);
    second
}

/// After a collector was replaced, as by a new version of it, nobody collected from the programs that ran, and later not from those that
/// had a relative path of the socket.
#[test]
fn a_collector_takes_over_the_programs_that_the_one_before_it_has_left() {
    for (windows, is_relative) in [(&[][..], false), (&["--every", "1h"], false), (&[], true)] {
        let listener = Listener::start();
        let socket = listener.socket();
        // From the folder of the run, or any other that is not as deep.
        let relative = Path::new("../../../../..").join(socket.strip_prefix("/").unwrap());
        let socket = if is_relative { relative } else { socket };
        let (mut first, mut second) = (Vec::<PathBuf>::new(), None);
        let done = in_two_halves("two_halves", &[], &socket, |_, _| {
            first = listener.stop();
            second = Some(succeed(&listener, windows));
        });
        let mut second = second.unwrap();
        // SAFETY: signals a child of ours that has not been waited for.
        unsafe { libc::kill(second.id() as i32, libc::SIGINT) };
        assert!(second.wait().unwrap().success());
        let (said, all) = (done.said(), listener.traces());
        assert_eq!((first.len(), all.len()), (1, 2), "{all:?}");
        let later = all.iter().find(|trace| !first.contains(trace)).unwrap();
        let launched = [&first[0], later].map(|trace| launches(&report(trace)));
        assert_eq!(serde_json::json!(launched), serde_json::json!([said["first"], said["second"]]));
        is_one_process_of_two_traces(&first[0], later);
    }
}

/// The report of both counted two processes, of which one "was still running".
fn is_one_process_of_two_traces(first: &Path, second: &Path) {
    let folder = tempfile::tempdir().unwrap();
    for (trace, name) in [(first, "first.gspy"), (second, "second.gspy")] {
        std::fs::copy(trace, folder.path().join(name)).unwrap();
    }
    let output = Command::new(gpuspy()).arg("report").arg(folder.path()).output().unwrap();
    let screen = String::from_utf8_lossy(&output.stdout).into_owned();
    let header = screen.lines().take(2).collect::<Vec<_>>().join("\n");
    assert!(header.contains(", exited, ") && header.contains(", 2 traces"), "{screen}");
    let both = report(folder.path());
    assert_eq!(both["devices"][0]["processes"], 1, "{}", both["devices"]);
}

/// Runs a program whose collector is killed by `kill`, and checks that it says so and has its shared memory back.
fn has_nothing_left_when(kill: impl FnOnce(&Listener)) {
    let listener = Listener::start();
    let done = in_two_halves("unread_rings", &["1024"], &listener.socket(), |_, _| kill(&listener));
    let least = done.said()["least_kib"].as_u64().unwrap();
    assert!(least < 1024, "{}", done.stdout);
    let line = "gpuspy: this process runs unobserved from here on: its collector was killed\n";
    assert_eq!(done.stderr, line);
}

/// Each thread's ring grew to 4.6 MB, and was the program's for ever. And nobody was told that the rest of the program was not recorded.
#[test]
fn a_program_whose_collector_was_killed_says_so_and_has_its_shared_memory_back() {
    has_nothing_left_when(|listener| listener.signal(libc::SIGKILL));
}

/// Of a collector that had taken the program over, its end was not seen: the program paid for records that nobody read, and said nothing.
#[test]
fn a_program_whose_second_collector_was_killed_says_so_and_has_its_shared_memory_back() {
    has_nothing_left_when(|listener| {
        assert_eq!(listener.stop().len(), 1);
        let mut second = succeed(listener, &[]);
        second.kill().unwrap();
        second.wait().unwrap();
    });
}

#[test]
fn rings_do_not_grow_after_a_collector_that_has_ended() {
    let listener = Listener::start();
    let done = in_two_halves("unread_rings", &["1000000"], &listener.socket(), |_, _| {
        assert_eq!(listener.stop().len(), 1);
    });
    assert_eq!(done.stderr, "", "the collector went in order");
    let (said, most) = (done.said(), done.said()["most_kib"].as_u64().unwrap());
    // A small ring for each thread, and a megabyte for what there is once.
    assert!(most < 64 * said["threads"].as_u64().unwrap() + 1024, "{}", done.stdout);
}
