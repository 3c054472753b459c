//! Libraries that many systems preload: allocators in place of libc's, a false clock, an audit of the loader.

use super::{nothing_is_left_of, watched};
use crate::lifecycle::launches;
use gpuspy_tests::{Done, Run, agent, program};
use std::path::{Path, PathBuf};

/// Where Debian's and Fedora's packages have a library.
fn installed(name: &str) -> Option<PathBuf> {
    let folders = [
        "/usr/lib/x86_64-linux-gnu",
        "/usr/lib/x86_64-linux-gnu/faketime",
        "/usr/lib64",
        "/usr/lib64/faketime",
    ];
    let found = folders.iter().map(|folder| Path::new(folder).join(name)).find(|path| path.exists());
    if found.is_none() {
        eprintln!(
            "skipped: {name} is not installed here (scripts/test.sh installs it where it is root on Debian)"
        );
    }
    found
}

/// Runs a client with a library preloaded alone, and before and after the agent.
fn on_both_sides(library: &Path, prepare: impl Fn() -> Run, check: impl Fn(&Done, &str)) {
    let library = library.to_str().unwrap();
    let plain = watched(prepare()).env("LD_PRELOAD", library).plain().succeeded();
    for (before, after) in [(vec![library], vec![]), (vec![], vec![library])] {
        let what =
            format!("{library} {}", if after.is_empty() { "before the agent" } else { "after the agent" });
        let done = watched(prepare()).preloaded_among(&before, &after).succeeded();
        assert_eq!(done.said()["launches"], plain.said()["launches"], "{what}");
        assert!(done.stderr.lines().all(|line| line.starts_with("gpuspy: ")), "{what}: {}", done.stderr);
        nothing_is_left_of(&done, &what);
        check(&done, &what);
    }
}

#[test]
fn other_allocators_before_and_after_the_agent_change_nothing() {
    for name in ["libjemalloc.so.2", "libmimalloc.so.2", "libtcmalloc_minimal.so.4"] {
        let Some(library) = installed(name) else { continue };
        for client in ["many_threads", "graphs", "plain_work"] {
            on_both_sides(
                &library,
                || Run::of(client),
                |done, what| {
                    let report = done.report();
                    assert_eq!(launches(&report), done.truth().enqueued("kernel") as u64, "{what}: {client}");
                    done.dropped_nothing(&report);
                },
            );
        }
    }
}

/// The time between the simulated GPU's first and last operation, ns.
fn took(done: &Done) -> u64 {
    let truth = std::fs::read_to_string(done.folder().join("truth.jsonl")).unwrap();
    let lines = truth.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let kernels: Vec<_> = lines.filter(|line| line["kind"] == "kernel").collect();
    let time = |line: &serde_json::Value, name| line[name].as_u64();
    let first = kernels.iter().filter_map(|line| time(line, "head")).min().unwrap();
    kernels.iter().filter_map(|line| time(line, "end")).max().unwrap() - first
}

/// The report had no times at all: the agent's clock was the program's, the collector's the true one.
#[test]
fn a_false_clock_is_the_programs_and_not_the_traces() {
    for name in ["libfaketime.so.1", "libfaketimeMT.so.1"] {
        let Some(library) = installed(name) else { continue };
        for time in ["+15d", "-30d x5", "+0 x0.2"] {
            let prepare = || Run::of("plain_work").env("FAKETIME", time).env("FAKETIME_NO_CACHE", "1");
            on_both_sides(&library, prepare, |done, what| {
                let what = format!("{what}, {time}");
                let report = done.report();
                assert_eq!((launches(&report), &report["coverage"]["timed"]), (200, &200.into()), "{what}");
                let wall = report["identity"]["wall_ns"].as_u64().unwrap();
                assert!(wall > took(done), "{what}: {wall} ns");
                let kernel = &report["kernels"][0]["total_ns"];
                let [low, high] = ["lo", "hi"].map(|bound| kernel[bound].as_u64().unwrap());
                // 200 of 10 us.
                assert!(low <= 2_000_000 + 1000 && high >= 2_000_000, "{what}: {kernel}");
            });
        }
    }
}

#[test]
fn an_audit_of_the_loader_sees_what_it_saw_and_every_call_is_counted() {
    for client in ["plain_work", "dlsym_launch", "work_runtime", "work_getproc"] {
        let run = || {
            let run = Run::of(client);
            let count = run.folder().join("bindings");
            watched(run.env("LD_AUDIT", program("libaudit.so")).env("AUDIT_COUNT", count))
        };
        let plain = run().plain().succeeded();
        let done = run().env("LD_PRELOAD", agent()).plain().succeeded();
        assert_eq!(done.said()["launches"], plain.said()["launches"], "{client}");
        nothing_is_left_of(&done, client);
        let bindings = |done: &Done| std::fs::read_to_string(done.folder().join("bindings")).unwrap();
        println!(
            "{client}: {} bindings without, {} with the agent",
            bindings(&plain).trim(),
            bindings(&done).trim()
        );
        assert_eq!(
            launches(&done.report()),
            done.truth().enqueued("kernel") as u64,
            "{client}: {}",
            done.stderr
        );
    }
}
