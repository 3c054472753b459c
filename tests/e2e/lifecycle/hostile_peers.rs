//! Another process of the same user writes into the shared memory of a program, or to the collector's socket.

use super::Listener;
use crate::random_programs::{Breadth, agreement, program};
use gpuspy_tests::{Run, gpuspy};
use gpuspy_wire::segment::Layout;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The segment of a process, once it has one; `None` if it ends without.
fn segment_of(pid: u32) -> Option<File> {
    while !is_over(pid) {
        for entry in fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten() {
            let is_segment =
                fs::read_link(entry.path()).is_ok_and(|to| to.to_str() == Some("/memfd:gpuspy (deleted)"));
            // It has no size until just after it has appeared.
            if is_segment
                && let Ok(file) = OpenOptions::new().read(true).write(true).open(entry.path())
                && file.metadata().is_ok_and(|segment| segment.len() > 0)
            {
                return Some(file);
            }
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    None
}

/// Whether a child of ours has ended; it is not waited for.
fn is_over(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| stat.contains(") Z "))
}

/// Writes numbers at random places of a program's segment until the program has ended. Returns how many.
fn scribble(pid: u32) -> u64 {
    let Some(file) = segment_of(pid) else { return 0 };
    let layout = Layout::OURS;
    // SAFETY: a new mapping of a whole object that cannot shrink; only the atomic accesses below use it.
    let base = unsafe {
        let bytes = layout.segment_bytes as usize;
        libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_WRITE, libc::MAP_SHARED, file.as_raw_fd(), 0)
    };
    assert_ne!(base, libc::MAP_FAILED);
    let (mut state, mut written) = (88_172_645_463_325_252u64, 0);
    let mut random = move || {
        // xorshift64, Marsaglia 2003.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    while !is_over(pid) {
        for _ in 0..2_000 {
            // The header, the slots and the first rings: all that the program uses, and not the rest of the memory.
            let end = if random() % 2 == 0 { layout.rings_at } else { layout.rings_at + (4 << 20) };
            let at = (random() % (end / 8) * 8) as usize;
            // SAFETY: inside the mapping, and aligned. The other sides use atomics, and accept any value.
            let word = unsafe { &*base.cast::<u8>().add(at).cast::<AtomicU64>() };
            let value = match random() % 4 {
                0 => random(),
                1 => random() >> (random() % 64),
                2 => word.load(Ordering::Relaxed).wrapping_add_signed((random() % 129) as i64 - 64),
                _ => word.load(Ordering::Relaxed) ^ 1 << (random() % 64),
            };
            word.store(value, Ordering::Relaxed);
            written += 1;
        }
        std::thread::yield_now();
    }
    written
}

/// Memory that the collector may use at most, in KiB: far more than it needs, and far less than what a segment can claim.
const MOST_KIB: u64 = 512 << 10;

fn peak_kib(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn who_writes_into_a_programs_segment_harms_only_its_trace() {
    let listener = Listener::start();
    let written: u64 = (1..=6)
        .map(|seed| {
            let run = program(seed, Breadth::Wide, &[]);
            let mut command = run.preloaded_command();
            command.env("GPUSPY_SOCKET", listener.socket());
            let mut written = 0;
            let done = run.finish_after(command, |pid| written = scribble(pid)).succeeded();
            assert_eq!(done.said()["seed"], seed, "the program runs to its end");
            written
        })
        .sum();
    assert!(written > 10_000, "{written} words were written");
    // Programs that nobody attacks are recorded whole.
    let run = program(7, Breadth::Wide, &[]);
    let folder = run.folder().join("trace.gspy");
    let mut command = run.preloaded_command();
    command.env("GPUSPY_SOCKET", listener.socket());
    let mut name = String::new();
    let done = run.finish_after(command, |pid| name = format!("random_program-{pid}.gspy")).succeeded();
    let peak = peak_kib(listener.process.id());
    assert!(peak < MOST_KIB, "{peak} KiB");
    let traces = listener.stop();
    // A program has no trace if its segment was wrong when the collector first looked.
    let whole = traces.iter().find(|path| path.ends_with(&name));
    fs::copy(whole.unwrap_or_else(|| panic!("no {name}: {traces:?}")), folder).unwrap();
    if done.report()["coverage"]["dropped"] == 0 {
        agreement(&done, &[]).unwrap();
    }
    for trace in traces {
        let output = Command::new(gpuspy()).arg("report").arg("--json").arg(&trace).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && !error.contains("internal error"), "{}: {error}", trace.display());
    }
}

#[test]
fn noise_at_the_collectors_socket_does_not_reach_other_traces() {
    let listener = Listener::start();
    let noise = [&b""[..], b"\0", b"GPUSPYHI", &[0xff; 4096], b"GET / HTTP/1.1\r\n\r\n"];
    let mut streams = Vec::new();
    for bytes in noise.iter().cycle().take(200) {
        let mut stream = UnixStream::connect(listener.socket()).unwrap();
        // The collector may have hung up already.
        let _ = stream.write_all(bytes);
        streams.push(stream);
    }
    let run = Run::of("flood").arg("5000");
    let done = run.env("GPUSPY_SOCKET", listener.socket()).preloaded().succeeded();
    assert_eq!(done.said()["launches"], 5000);
    // Each of them is answered, or hung up on, in the end.
    for stream in &mut streams {
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut answer = Vec::new();
        let end = stream.read_to_end(&mut answer);
        let answer = String::from_utf8_lossy(&answer);
        // What it did not read of ours makes its end a reset.
        let is_reset = end.as_ref().is_err_and(|e| e.kind() == std::io::ErrorKind::ConnectionReset);
        assert!(end.is_ok() || is_reset, "{end:?}");
        assert!(answer.is_empty() || answer.starts_with("failed: "), "{answer}");
    }
    let began = Instant::now();
    while fs::read_dir(format!("/proc/{}/task", listener.process.id())).unwrap().count() > 4 {
        assert!(began.elapsed() < Duration::from_secs(60), "threads stay");
        std::thread::sleep(Duration::from_millis(10));
    }
    let traces = listener.stop();
    assert_eq!(traces.len(), 1, "{traces:?}");
    let report = gpuspy_tests::report(&traces[0]);
    assert_eq!(
        report["coverage"]["launches"].as_u64().unwrap() + super::number(&report, "/coverage/dropped"),
        5000
    );
}
