//! What befalls programs in the field, at every point of their run: they end as without the agent, and nothing of ours is left
//! behind.

mod children;
mod clocks_and_allocators;
mod killed;
mod limits;
mod memory_groups;
mod signals;
mod stops;

use crate::lifecycle::launches;
use gpuspy_tests::{Done, Run, gpuspy, report};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// A variable that all processes which come from a run have: the run's folder.
const MARK: &str = "GPUSPY_TESTS_RUN";

/// Prepares a run whose processes are found by [`nothing_is_left_of`], and whose temporary files lie in a folder of its own.
fn watched(run: Run) -> Run {
    let (folder, temporary) = (run.folder().to_owned(), run.folder().join("tmp"));
    std::fs::create_dir(&temporary).unwrap();
    run.env(MARK, folder).env("TMPDIR", &temporary).env("XDG_RUNTIME_DIR", temporary)
}

/// The processes that come from a run and still exist.
fn processes_of(folder: &Path) -> Vec<String> {
    let mark = format!("{MARK}={}\0", folder.display()).into_bytes();
    // A process that executes a program has no environment for a moment, which is long on a busy machine. One that has
    // ended has none either, nor a program.
    let is_beginning = |pid: &String| {
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm"));
        name.is_ok_and(|name| name == "gpuspy\n") && std::fs::read_link(format!("/proc/{pid}/exe")).is_ok()
    };
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let is_process = |name: &String| name.bytes().all(|b| b.is_ascii_digit());
    let all = entries.filter_map(|entry| entry.file_name().into_string().ok()).filter(is_process);
    let is_of_run = |pid: &String| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.windows(mark.len()).any(|part| part == mark)
            || environment.is_empty() && is_beginning(pid)
    };
    let told = |pid: String| {
        let command = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        format!("{pid}: {}", command.replace('\0', " "))
    };
    all.filter(is_of_run).map(told).collect()
}

/// Waits for the end of all processes of a run. Fails the test if one stays.
fn no_process_is_left_of(done: &Done, what: &str) {
    let until = Instant::now() + Duration::from_secs(30);
    loop {
        let processes = processes_of(done.folder());
        if processes.is_empty() {
            break;
        }
        assert!(Instant::now() < until, "{what}: these processes stay: {processes:#?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Does the same. Fails the test as well if a file of ours stays outside of the run's folder.
fn nothing_is_left_of(done: &Done, what: &str) {
    no_process_is_left_of(done, what);
    assert_eq!(names_in(&done.folder().join("tmp")), [] as [&str; 0], "{what}");
    let shared = names_in(Path::new("/dev/shm"));
    assert!(!shared.iter().any(|name| name.contains("gpuspy")), "{what}: {shared:?}");
}

fn names_in(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

/// Checks that a program ended as without the agent, and that all that the agent printed is at most a line of its own.
fn same(plain: &Done, done: &Done, what: &str) {
    assert_eq!(done.status, plain.status, "{what}: {}", done.stderr);
    assert_eq!(done.stdout, plain.stdout, "{what}: {}", done.stderr);
    let own = plain.stderr.lines().count();
    let lines: Vec<&str> = done.stderr.lines().filter(|line| line.starts_with("gpuspy: ")).collect();
    assert!(lines.len() <= 1 && done.stderr.lines().count() == own + lines.len(), "{what}: {}", done.stderr);
}

/// The run's traces that something was written into.
fn traces_with_content(done: &Done) -> Vec<std::path::PathBuf> {
    let names = names_in(done.folder()).into_iter().filter(|name| name.ends_with(".gspy"));
    let paths = names.map(|name| done.folder().join(name));
    paths.filter(|path| std::fs::metadata(path).is_ok_and(|file| file.len() > 0)).collect()
}

/// Checks what a report says of a trace whose collector was killed, maybe before it had written a whole part: it has at most so many launches.
fn is_read_or_said_to_be_empty(trace: &Path, most: u64, what: &str) {
    let output = Command::new(gpuspy()).arg("report").arg(trace).arg("--json").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(3) {
        assert!(said.contains("nothing in it is readable"), "{what}: {said}");
    } else {
        assert!(launches(&report(trace)) <= most, "{what}");
    }
}

/// Whether a long sweep goes through everything (`GPUSPY_ALL_FAILURES`), or takes samples.
fn all_points() -> bool {
    std::env::var_os("GPUSPY_ALL_FAILURES").is_some()
}

/// Says that a test was skipped where a program ends with the exit code for that.
fn is_skipped(done: &Done) -> bool {
    let skipped = done.status.code() == Some(77);
    if skipped {
        eprintln!("skipped: {}", done.stderr);
    }
    skipped
}
