//! The agent is a guest in another program's process: from start to end, however the process ends, it changes nothing
//! that the program could notice, and what it recorded is not lost.

mod bare_preload;
mod collectors_that_go;
mod damaged_traces;
mod exits;
mod forks;
mod full_disks;
mod gpuspy_run;
mod hostile_peers;
mod private_traces;
mod programs_without_cuda;
mod restricted_processes;
mod ring_overflow;
mod threads;
mod variables;

use gpuspy_tests::{Done, gpuspy};
use serde_json::Value;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Returns the agent's lines on stderr.
fn our_lines(done: &Done) -> Vec<&str> {
    done.stderr.lines().filter(|l| l.starts_with("gpuspy: ")).collect()
}

/// Returns the only line on stderr, which is the agent's.
fn the_line(done: &Done) -> &str {
    let lines: Vec<&str> = done.stderr.lines().collect();
    assert_eq!(lines.len(), 1, "{}", done.stderr);
    assert!(lines[0].starts_with("gpuspy: "), "{}", done.stderr);
    lines[0]
}

/// Returns the names of the files in the run's folder, without the simulator's truth.
pub(crate) fn files(done: &Done) -> Vec<String> {
    let entries = std::fs::read_dir(done.folder()).unwrap();
    let names = entries.map(|e| e.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|n| n != "truth.jsonl").collect();
    names.sort();
    names
}

fn number(report: &Value, pointer: &str) -> u64 {
    report.pointer(pointer).and_then(Value::as_u64).unwrap_or_else(|| panic!("no {pointer} in {report:#}"))
}

pub(crate) fn launches(report: &Value) -> u64 {
    number(report, "/coverage/launches")
}

/// Checks that the report's parts of all launches add up to the total.
fn assert_all_accounted(report: &Value) {
    let untimed = report["coverage"]["untimed"].as_object().unwrap();
    let untimed: u64 = untimed.values().map(|v| v.as_u64().unwrap()).sum();
    let timed = number(report, "/coverage/timed") + number(report, "/coverage/runs/launches");
    assert_eq!(timed + untimed, launches(report), "{:#}", report["coverage"]);
}

#[test]
fn the_agent_depends_on_libc_only() {
    let script = gpuspy_tests::root().join("scripts/check-agent-deps.sh");
    let output = Command::new("bash").arg(script).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// A listening `gpuspy collect --dir`.
pub(crate) struct Listener {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) process: Child,
}

impl Listener {
    pub(crate) fn start() -> Listener {
        Listener::run("exec \"$0\" collect --dir \"$1\"", Stdio::null())
    }

    /// Starts one under this limit on the size of files.
    fn limited_to_kib(kib: u32) -> Listener {
        Listener::run(&format!("ulimit -f {kib}; exec \"$0\" collect --dir \"$1\""), Stdio::null())
    }

    fn run(script: &str, stderr: impl Into<Stdio>) -> Listener {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new("bash");
        command.arg("-c").arg(script).arg(gpuspy()).arg(folder.path()).stderr(stderr);
        let listener = Listener { process: command.spawn().unwrap(), folder };
        let until = Instant::now() + Duration::from_secs(20);
        while !listener.socket().exists() {
            assert!(Instant::now() < until, "the collector does not listen");
            std::thread::sleep(Duration::from_millis(10));
        }
        listener
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join("gpuspy.sock")
    }

    /// Returns `GPUSPY_SOCKET=…`.
    fn variable(&self) -> String {
        format!("GPUSPY_SOCKET={}", self.socket().display())
    }

    pub(crate) fn signal(&self, number: i32) {
        // SAFETY: signals a child of ours that has not been waited for.
        unsafe { libc::kill(self.process.id() as i32, number) };
    }

    /// Ends the listener and returns the traces that it wrote, which exist as long as the listener does.
    fn stop(&self) -> Vec<PathBuf> {
        self.signal(libc::SIGINT);
        let is_over = || {
            // SAFETY: all-zero is a valid siginfo_t; waitid queries a child of ours and leaves it to be waited for.
            unsafe {
                let mut info: libc::siginfo_t = std::mem::zeroed();
                let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
                libc::waitid(libc::P_PID, self.process.id(), &mut info, flags) == 0 && info.si_pid() != 0
            }
        };
        let until = Instant::now() + Duration::from_secs(20);
        while !is_over() {
            assert!(Instant::now() < until, "the collector does not end");
            std::thread::sleep(Duration::from_millis(10));
        }
        self.traces()
    }

    fn traces(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.folder.path()).unwrap().map(|e| e.unwrap().path());
        entries.filter(|p| p.extension().is_some_and(|e| e == "gspy")).collect()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
