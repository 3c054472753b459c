//! Work that does not end is reported while the program hangs, and at the top of the report after it was killed.
//!
//! The programs' own waits are far longer or shorter than the limit of one second, so that load does not matter.

use gpuspy_tests::{Run, gpuspy, program, report};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

const SECOND: u64 = 1_000_000_000;

/// A program that hangs, and a gpuspy that reports hangs after a second.
struct Hanging {
    run: Run,
    gpuspy: Child,
    lines: Receiver<String>,
}

impl Hanging {
    /// Runs the program under `gpuspy run`.
    fn start(mode: &str, options: &[&str]) -> Hanging {
        let program = program("hang");
        Hanging::run(&[program.to_str().unwrap(), mode], options)
    }

    /// Runs a command under `gpuspy run`.
    fn run(command: &[&str], options: &[&str]) -> Hanging {
        let mut arguments = vec!["run", "--hang-after", "1", "--no-report", "-o", "trace.gspy"];
        arguments.extend(options);
        arguments.push("--");
        arguments.extend(command);
        Hanging::under(Run::of("hang"), &arguments)
    }

    /// Starts gpuspy with these arguments.
    fn under(run: Run, arguments: &[&str]) -> Hanging {
        let mut command = run.gpuspy_command(arguments);
        let mut gpuspy = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let stderr = BufReader::new(gpuspy.stderr.take().unwrap());
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            stderr.lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        Hanging { run, gpuspy, lines }
    }

    /// Returns the first line about a hang, and the process that it names.
    fn reported(&self) -> (String, i32) {
        loop {
            let line = self
                .lines
                .recv_timeout(Duration::from_secs(50))
                .expect("gpuspy reports the hang while it lasts");
            let pid =
                line.strip_prefix("gpuspy: hang (").and_then(|rest| rest.split(')').next()?.parse().ok());
            match pid {
                Some(pid) => return (line, pid),
                None => {
                    assert!(line.starts_with("gpuspy: listening"), "the line is not about a hang: {line}")
                }
            }
        }
    }

    /// Starts the program until the first line about its hang is as meant, on a busy machine: what of the program is timed depends on
    /// how fast it is. Returns that line too, and the process that it names.
    fn start_until(mode: &str, options: &[&str], is_meant: impl Fn(&str) -> bool) -> (Hanging, String, i32) {
        let mut others = Vec::new();
        for _ in 0..10 {
            let hanging = Hanging::start(mode, options);
            let (line, pid) = hanging.reported();
            if is_meant(&line) {
                return (hanging, line, pid);
            }
            kill(pid);
            others.push(line);
        }
        panic!("none of the lines is meant: {others:#?}");
    }

    /// Kills the program, and returns the report of it and the top of its screen.
    fn kill(self, pid: i32) -> (Value, String) {
        kill(pid);
        self.ended("trace.gspy")
    }

    /// Waits until gpuspy has ended, and returns the report of what it wrote and the top of its screen.
    fn ended(mut self, trace: &str) -> (Value, String) {
        self.gpuspy.wait().unwrap();
        let trace = self.run.folder().join(trace);
        (report(&trace), screen(&trace))
    }
}

impl Drop for Hanging {
    fn drop(&mut self) {
        // If the test failed, the program ends by itself.
        let _ = self.gpuspy.kill();
        let _ = self.gpuspy.wait();
    }
}

/// Kills the program, which runs until then.
fn kill(pid: i32) {
    // SAFETY: a signal to a process that a test started, and whose parent has not waited for it.
    assert_eq!(unsafe { libc::kill(pid, libc::SIGKILL) }, 0);
}

/// Returns the report as it is printed, without line breaks.
fn screen(trace: &Path) -> String {
    let output = Command::new(gpuspy()).arg("report").arg(trace).output().unwrap();
    String::from_utf8(output.stdout).unwrap().split_whitespace().collect::<Vec<_>>().join(" ")
}

fn the_hang(report: &Value) -> &Value {
    let hangs = report["hangs"].as_array().unwrap();
    assert_eq!(hangs.len(), 1, "{hangs:#?}");
    &hangs[0]
}

/// Checks the only hang of a program that was killed: its operation was pending for longer than the limit, and blocked a call.
fn assert_hung(report: &Value, kernel: &str, api: &str) {
    let hang = the_hang(report);
    assert_eq!(hang["operation"]["kernel"], kernel, "{hang:#}");
    assert_eq!((&hang["over"], &hang["pending"]), (&json!(false), &json!(true)), "{hang:#}");
    assert!(hang["age_ns"].as_u64().unwrap() >= SECOND, "{hang:#}");
    assert_eq!(hang["device"], 0, "{hang:#}");
    assert_eq!(hang["api"], api, "{hang:#}");
    assert_eq!(hang["pid"], hang["tid"], "the main thread is blocked: {hang:#}");
    assert!(hang["library"].as_str().unwrap().ends_with("/hang"), "{hang:#}");
    assert_eq!(hang["pid"], report["processes"][0]["pid"]);
}

#[test]
fn a_stream_that_waits_for_a_value_that_nobody_writes_is_reported_live_and_after_the_process_was_killed() {
    let hanging = Hanging::start("gate", &[]);
    let (line, pid) = hanging.reported();
    for part in [
        "stalled_3us has been pending for",
        "cuStreamWaitValue32 made the stream wait",
        "the last operation that completed on the stream was ahead_20us",
        "has been in cuStreamSynchronize for",
        "called by hang",
    ] {
        assert!(line.contains(part), "{part}: {line}");
    }
    let (report, screen) = hanging.kill(pid);
    assert_hung(&report, "stalled_3us", "cuStreamSynchronize");
    let hang = the_hang(&report);
    assert_eq!(hang["behind"], "cuStreamWaitValue32");
    assert_eq!(hang["last_completed"]["operation"]["kernel"], "ahead_20us");
    assert_eq!(report["processes"][0]["ending"], "killed");
    let top = "hung to the end: GPU 0, stream ";
    assert!(screen.starts_with(top) && screen.contains("stalled_3us has been pending for"), "{screen}");
}

#[test]
fn a_kernel_that_does_not_end_is_reported() {
    let hanging = Hanging::start("kernel", &[]);
    let (line, pid) = hanging.reported();
    assert!(line.contains("spins_3600000ms has been pending for"), "{line}");
    assert!(!line.contains("made the stream wait"), "{line}");
    let (report, _) = hanging.kill(pid);
    assert_hung(&report, "spins_3600000ms", "cuStreamSynchronize");
}

#[test]
fn a_synchronous_copy_that_waits_for_a_kernel_that_does_not_end_is_the_blocked_call() {
    let hanging = Hanging::start("copy", &[]);
    let (_, pid) = hanging.reported();
    let (report, _) = hanging.kill(pid);
    assert_hung(&report, "spins_3600000ms", "cuMemcpyDtoH");
    assert_eq!(the_hang(&report)["last_completed"], Value::Null, "nothing completed on the default stream");
}

#[test]
fn without_gpu_times_the_blocked_call_is_reported_and_nothing_is_claimed_about_the_gpu() {
    let hanging = Hanging::start("launches", &["--timing", "off"]);
    let (line, pid) = hanging.reported();
    assert!(line.contains("has been in cuStreamSynchronize for"), "{line}");
    assert!(line.contains("whether the GPU goes on is not known"), "{line}");
    let (report, _) = hanging.kill(pid);
    let hang = the_hang(&report);
    assert_eq!((&hang["pending"], &hang["over"]), (&json!(false), &json!(false)));
    assert_eq!(hang["operation"]["kernel"], "stalled_3us");
    assert_eq!(hang["api"], "cuStreamSynchronize");
    assert!(hang["age_ns"].as_u64().unwrap() >= SECOND, "{hang:#}");
}

#[test]
fn a_stalled_stream_is_reported_although_another_one_goes_on_and_no_thread_is_blocked() {
    let hanging = Hanging::start("two", &[]);
    let (line, pid) = hanging.reported();
    assert!(line.contains("other streams of the GPU go on; no thread is blocked in a CUDA call"), "{line}");
    let (report, _) = hanging.kill(pid);
    let hang = the_hang(&report);
    assert_eq!(hang["operation"]["kernel"], "stalled_3us");
    assert_eq!((&hang["others_complete"], &hang["api"]), (&json!(true), &Value::Null), "{hang:#}");
}

#[test]
fn a_kernel_longer_than_the_limit_is_reported_and_then_its_completion() {
    gpuspy_tests::until_one_is_good(|| {
        let done = Run::of("hang").arg("slow").observed_with(&["--hang-after", "1"]).succeeded();
        let hang_lines = done.stderr.lines().filter(|line| line.starts_with("gpuspy: hang ("));
        let lines: Vec<&str> = hang_lines.collect();
        assert!((1..=2).contains(&lines.len()), "{}", done.stderr);
        assert!(lines[0].contains("slow_3000ms has been pending for"), "{}", lines[0]);
        // A collector that gets no processor for half a second, as on a busy machine, finds that the program has ended.
        let Some(ends) = lines.get(1) else { return Err(done.stderr) };
        assert!(ends.contains("slow_3000ms completed after"), "{ends}");
        let report = done.report();
        let hang = the_hang(&report);
        assert_eq!(hang["over"], true);
        assert!(hang["age_ns"].as_u64().unwrap() >= 2 * SECOND, "{hang:#}");
        assert!(screen(&done.trace()).starts_with("hung for a while: GPU 0"), "{}", screen(&done.trace()));
        Ok(())
    });
}

#[test]
fn work_that_goes_on_is_no_hang_however_long_its_queue_is() {
    // On a machine that is so busy that 100 ms become more than ten seconds, it would be right to report a hang.
    for mode in ["progress", "healthy"] {
        let done = Run::of("hang").arg(mode).observed_with(&["--hang-after", "10"]).succeeded();
        assert_eq!(done.report()["hangs"], json!([]), "{mode}");
        assert!(!done.stderr.contains("pending for"), "{mode}: {}", done.stderr);
    }
    gpuspy_tests::until_one_is_good(|| {
        let done = Run::of("hang").arg("progress").observed_with(&["--hang-after", "1"]).succeeded();
        let hangs = &done.report()["hangs"];
        if *hangs == json!([]) { Ok(()) } else { Err(hangs.to_string()) }
    });
}

#[test]
fn with_a_limit_of_0_nothing_is_reported() {
    let done = Run::of("hang").arg("slow").env("GPUSPY_HANG_AFTER", "0").observed().succeeded();
    assert_eq!(done.report()["hangs"], json!([]));
    assert!(!done.stderr.contains("slow_3000ms has been pending"), "{}", done.stderr);
}

#[test]
fn under_the_bare_preload_a_report_shows_the_hang_while_it_lasts() {
    let run = Run::of("hang").arg("gate").env("GPUSPY_HANG_AFTER", "1");
    let mut program = run.preloaded_command().stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let trace = run.folder().join(format!("gpuspy-hang-{}.gspy", program.id()));
    let until = Instant::now() + Duration::from_secs(50);
    let is_reported = || trace.exists() && screen(&trace).starts_with("hangs: GPU 0, stream ");
    while !is_reported() {
        assert!(Instant::now() < until, "the report does not show the hang: {}", screen(&trace));
        std::thread::sleep(Duration::from_millis(300));
    }
    program.kill().unwrap();
    program.wait().unwrap();
    // The collector writes the rest; `report` waits for it.
    assert_hung(&report(&trace), "stalled_3us", "cuStreamSynchronize");
}

#[test]
fn a_hang_under_a_budget_is_reported_like_any_other() {
    // A launch in a sampling pause has no event that could be pending.
    let is_timed = |line: &str| line.contains("stalled_3us has been pending for");
    let (hanging, _, pid) = Hanging::start_until("gate", &["--timing", "auto", "--budget", "5"], is_timed);
    let (report, _) = hanging.kill(pid);
    assert_hung(&report, "stalled_3us", "cuStreamSynchronize");
}

/// What is launched on a deep stream behind a wait that only the program can end gets no events.
#[test]
fn a_hang_of_a_deep_stream_behind_a_wait_names_the_wait_and_claims_nothing_of_the_gpu() {
    // If the program launches so late that the stream has become empty, what follows is timed.
    let is_deep = |line: &str| !line.contains(" has been pending for ");
    let (hanging, line, pid) = Hanging::start_until("deep", &[], is_deep);
    for part in [
        "has been in cuStreamSynchronize for",
        "whether the GPU goes on is not known",
        "cuStreamWaitValue32 made the stream wait",
    ] {
        assert!(line.contains(part), "{part}: {line}");
    }
    let (report, _) = hanging.kill(pid);
    let hang = the_hang(&report);
    assert_eq!((&hang["pending"], &hang["over"]), (&json!(false), &json!(false)), "{hang:#}");
    assert_eq!(hang["operation"]["kernel"], "stalled_3us", "{hang:#}");
    assert_eq!(hang["last_completed"]["operation"]["kernel"], "ahead_200us", "{hang:#}");
    assert_eq!(
        (&hang["behind"], &hang["api"]),
        (&json!("cuStreamWaitValue32"), &json!("cuStreamSynchronize"))
    );
}

/// Most launches have no events of their own, so a kernel that does not end is in a run, or the first one after it is known
/// to be pending.
#[test]
fn a_kernel_that_does_not_end_inside_a_deep_stream_that_is_timed_in_runs_is_reported() {
    let hanging = Hanging::start("deep_kernel", &[]);
    let (line, pid) = hanging.reported();
    assert!(line.contains(" has been pending for"), "{line}");
    kill(pid);
    let trace = hanging.run.folder().join("trace.gspy");
    let operations = Command::new(gpuspy()).args(["report", "--operations"]).arg(&trace).output().unwrap();
    let runs = String::from_utf8_lossy(&operations.stdout).matches("\"kind\":\"run\"").count();
    assert!(runs > 10, "the stream is timed in runs: {runs}");
    let (report, _) = hanging.ended("trace.gspy");
    let hang = the_hang(&report);
    assert_eq!((&hang["over"], &hang["pending"]), (&json!(false), &json!(true)), "{hang:#}");
    let is_it = hang["operation"]["kernel"] == "spins_3600000ms";
    let launches = hang["operation"]["launches"].as_u64().unwrap_or(1);
    assert!(is_it || launches > 1 || hang["untimed_before"].as_u64().unwrap() > 0, "{hang:#}");
    assert_eq!(hang["last_completed"]["operation"]["kernel"], "ahead_200us", "{hang:#}");
    assert_eq!((&hang["behind"], &hang["api"]), (&Value::Null, &json!("cuStreamSynchronize")), "{hang:#}");
}

#[test]
fn a_hang_of_one_rank_is_reported_with_its_rank_while_the_other_goes_on() {
    let both = "RANK=0 WORLD_SIZE=2 \"$0\" healthy & RANK=1 WORLD_SIZE=2 \"$0\" gate & wait";
    let hanging = Hanging::run(&["bash", "-c", both, program("hang").to_str().unwrap()], &[]);
    let (line, pid) = hanging.reported();
    assert!(line.contains("stalled_3us has been pending for"), "{line}");
    let (report, screen) = hanging.kill(pid);
    let processes = report["processes"].as_array().unwrap();
    let rank = |rank: u32| processes.iter().find(|process| process["rank"] == rank).unwrap();
    let hang = the_hang(&report);
    assert_eq!(
        (&hang["pid"], &hang["rank"], &rank(1)["pid"]),
        (&json!(pid), &json!(1), &json!(pid)),
        "{hang:#}"
    );
    assert_eq!((&rank(0)["ending"], &rank(1)["ending"]), (&json!("exited"), &json!("killed")));
    assert!(screen.starts_with(&format!("hung to the end: rank 1 (pid {pid}): ")), "{screen}");
}

#[test]
fn a_listening_collector_reports_a_hang_of_a_program_that_was_started_elsewhere() {
    let run = Run::of("hang").arg("gate");
    let folder = run.folder().join("traces");
    std::fs::create_dir(&folder).unwrap();
    let mut preloaded = run.preloaded_command();
    let hanging = Hanging::under(run, &["collect", "--dir", "traces", "--hang-after", "1"]);
    let until = Instant::now() + Duration::from_secs(20);
    while !folder.join("gpuspy.sock").exists() {
        assert!(Instant::now() < until, "the collector does not listen");
        std::thread::sleep(Duration::from_millis(10));
    }
    preloaded.env("GPUSPY_SOCKET", folder.join("gpuspy.sock")).stdout(Stdio::null()).stderr(Stdio::null());
    let mut program = preloaded.spawn().unwrap();
    let (line, pid) = hanging.reported();
    assert_eq!(pid as u32, program.id(), "{line}");
    assert!(line.contains("stalled_3us has been pending for"), "{line}");
    program.kill().unwrap();
    program.wait().unwrap();
    // SAFETY: the collector listens until it is interrupted here.
    assert_eq!(unsafe { libc::kill(hanging.gpuspy.id() as i32, libc::SIGINT) }, 0);
    let report = hanging.ended("traces").0;
    assert_hung(&report, "stalled_3us", "cuStreamSynchronize");
}
