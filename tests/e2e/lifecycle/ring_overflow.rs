//! A collector that does not collect: the program goes on, and records without room are counted.

use super::{Listener, launches, number};
use gpuspy_tests::{Done, Run, program, report, until_one_is_good};
use std::time::{Duration, Instant};

/// More launches than all of a thread's rings hold: 74 752 cells of 64 bytes, two for each launch.
const LAUNCHES: u64 = 100_000;

#[test]
fn a_stopped_collector_does_not_stop_the_program_and_drops_are_counted() {
    let run = || Run::of("flood").arg(LAUNCHES.to_string());
    let plain = run().plain().succeeded();
    let listener = Listener::start();
    listener.signal(libc::SIGSTOP);
    let began = Instant::now();
    let done = run().env("GPUSPY_SOCKET", listener.socket()).preloaded().succeeded();
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
    assert_eq!(done.said()["launches"], LAUNCHES);
    println!("ns without and with: {} {}", plain.said()["ns"], done.said()["ns"]);
    listener.signal(libc::SIGCONT);
    let traces = listener.stop();
    assert_eq!(traces.len(), 1, "{traces:?}");
    let report = report(&traces[0]);
    let (seen, dropped) = (launches(&report), number(&report, "/coverage/dropped_by/ring_full"));
    assert!(seen > 20_000, "the rings hold that many: {seen}");
    assert!(seen < LAUNCHES, "{seen}");
    // The poller's ring can be full as well: dropped GPU times are counted with the launches.
    assert!(seen + dropped >= LAUNCHES, "{seen} launches are reported and {dropped} records dropped");
    assert_eq!(report["processes"][0]["ending"], "exited");
}

/// Returns how long a GPU was idle, and for how long at most at once, ns.
fn idle(done: &Done) -> (u64, u64) {
    let mut ran: Vec<(u64, u64)> = done.truth().operations().iter().map(|one| one.interval).collect();
    ran.sort_unstable();
    let (mut until, mut all, mut longest) = (ran[0].0, 0, 0);
    for (from, to) in ran {
        let gap = from.saturating_sub(until);
        (all, longest, until) = (all + gap, longest.max(gap), until.max(to));
    }
    (all, longest)
}

/// A program that launched all the time was certainly idle while its collector was stopped, as long gaps in which the host was outside
/// CUDA.
#[test]
fn the_time_in_which_records_are_dropped_is_not_idle() {
    until_one_is_good(|| {
        let run = Run::of("keeps_launching");
        let client = program("keeps_launching");
        let options = ["run", "--no-report", "-o", "trace.gspy", "--", client.to_str().unwrap(), "5000"];
        let command = run.gpuspy_command(&options);
        let stopped = |pid: u32| {
            // SAFETY: takes numbers only.
            let send = |signal| unsafe { libc::kill(pid as i32, signal) };
            std::thread::sleep(Duration::from_millis(700));
            send(libc::SIGSTOP);
            std::thread::sleep(Duration::from_millis(2500));
            send(libc::SIGCONT);
        };
        let done = run.finish_after(command, stopped).succeeded();
        let report = done.report();
        if report["coverage"]["dropped_by"]["ring_full"].is_null() {
            return Err("all fitted into the rings".to_owned());
        }
        let (all, longest) = idle(&done);
        let device = &report["devices"][0];
        let of = |key: &str| number(device, key);
        // The clocks, and the start of the first kernel.
        let slack = all / 1_000 + 100_000;
        let (lo, hi) = (of("/idle_ns/lo"), of("/idle_ns/hi"));
        assert!(lo <= all + slack && all <= hi + slack, "{lo}, {all}, {hi}");
        assert!(of("/undecided_ns/lo") > 0);
        for gap in report["gaps"]["largest"].as_array().unwrap() {
            let certain = number(gap, "/duration_ns/lo");
            assert!(certain <= longest + slack, "{gap:#}, and the longest was {longest}");
        }
        Ok(())
    });
}

#[test]
fn a_peer_that_accepts_and_never_reads_does_no_harm() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("mute");
    let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let accepting = std::thread::spawn(move || listener.accept().unwrap());
    let done =
        Run::of("flood").arg(LAUNCHES.to_string()).env("GPUSPY_SOCKET", &socket).preloaded().succeeded();
    assert_eq!(done.said()["launches"], LAUNCHES);
    assert_eq!(done.stderr, "");
    drop(accepting.join().unwrap());
}

/// The end of the program waited for a connection that its collector, which was stopped, did not take, and nothing was said.
#[test]
fn a_collector_that_takes_no_connection_is_told_at_the_programs_end() {
    use std::os::fd::AsRawFd;
    let run = Run::of("plain_work");
    let socket = run.folder().join("full");
    let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    // SAFETY: lets one connection wait to be accepted.
    assert_eq!(unsafe { libc::listen(listener.as_raw_fd(), 0) }, 0);
    let _waiting = std::os::unix::net::UnixStream::connect(&socket).unwrap();
    let done = run.env("GPUSPY_SOCKET", &socket).preloaded().succeeded();
    let line = super::the_line(&done);
    assert!(line.contains("runs unobserved") && line.contains("has taken no connection"), "{line}");
}

#[test]
fn a_socket_without_a_listener_is_reported_in_one_line() {
    let done = Run::of("plain_work").env("GPUSPY_SOCKET", "/no/such/socket").preloaded().succeeded();
    let line = super::the_line(&done);
    assert!(line.contains("runs unobserved") && line.contains("/no/such/socket"), "{line}");
}
