//! Processes with special rules: those that reap children, run as PID 1, may write no files, or lock their memory.

use super::{files, launches, the_line};
use gpuspy_tests::{Done, Run, agent, gpuspy, program, report, root, until_one_is_good};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

#[test]
fn a_program_that_waits_for_any_child_gets_only_its_own() {
    let done = Run::of("reap_any_child").preloaded().succeeded();
    assert_eq!(done.said()["reaped"], 2);
    assert_eq!(launches(&done.report()), done.said()["launches"]);
}

#[test]
fn a_subreaper_gets_only_its_own_children_and_one_line_says_that_it_is_unobserved() {
    let run = Run::of("reap_any_child");
    let mut command = run.preloaded_command();
    let subreaper = || {
        // The setting is kept across exec (prctl(2)).
        // SAFETY: takes numbers only.
        match unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) } {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        }
    };
    // SAFETY: the closure makes one system call, and neither allocates nor locks.
    unsafe { command.pre_exec(subreaper) };
    let done = run.finish(command).succeeded();
    assert_eq!(done.said()["reaped"], 2);
    assert_unobserved(&done, "subreaper");
}

fn assert_unobserved(done: &Done, why: &str) {
    let line = the_line(done);
    assert!(line.contains("runs unobserved") && line.contains(why), "{line}");
    assert_eq!(files(done), [] as [&str; 0]);
}

/// Returns a command that runs another as PID 1 of a namespace; `None`, with a line that says so, if that is not
/// permitted.
fn as_pid_1() -> Option<Vec<&'static str>> {
    let unshare = vec!["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"];
    let output = Command::new(unshare[0]).args(&unshare[1..]).arg("true").output();
    let permitted = output.is_ok_and(|o| o.status.success());
    if !permitted {
        eprintln!("skipped: PID namespaces are not permitted here (unshare --pid)");
    }
    permitted.then_some(unshare)
}

/// Prepares a client that runs as PID 1 with the agent preloaded.
fn preloaded_as_pid_1(unshare: &[&str], client: &str, variables: &[String]) -> Run {
    let run = unshare[1..].iter().fold(Run::command(unshare[0]), Run::arg);
    let run = run.arg("env").arg(format!("LD_PRELOAD={}", agent().display()));
    variables.iter().fold(run, Run::arg).arg(program(client))
}

#[test]
fn pid_1_reaps_only_its_own_children_and_one_line_says_that_it_is_unobserved() {
    let Some(unshare) = as_pid_1() else { return };
    let done = preloaded_as_pid_1(&unshare, "plain_work", &[]).plain().succeeded();
    assert_eq!((&done.said()["pid"], &done.said()["launches"]), (&1.into(), &200.into()));
    assert_unobserved(&done, "PID 1");
    let done = preloaded_as_pid_1(&unshare, "reap_any_child", &[]).plain().succeeded();
    assert_eq!(done.said()["reaped"], 2);
}

/// The shell is PID 1, and takes the collector with it, which needs a while to start: the trace was cut off or empty.
#[test]
fn the_trace_of_a_program_whose_surroundings_end_with_it_is_whole() {
    let Some(unshare) = as_pid_1() else { return };
    until_one_is_good(|| {
        let run = unshare[1..].iter().fold(Run::command(unshare[0]), Run::arg);
        let collector = run.folder().join("collector");
        let script = format!("#!/bin/sh\nsleep 0.3\nexec {} \"$@\"\n", gpuspy().display());
        std::fs::write(&collector, script).unwrap();
        std::fs::set_permissions(&collector, PermissionsExt::from_mode(0o755)).unwrap();
        let run = run.env("GPUSPY_COLLECTOR", collector);
        let run = run.arg("sh").arg("-c").arg("LD_PRELOAD=\"$0\" \"$1\" 100 20000 0; exit 0");
        let done = run.arg(agent()).arg(program("train_loop")).plain().succeeded();
        let output = Command::new(gpuspy()).args(["report", "--json"]).arg(done.trace()).output().unwrap();
        let report = serde_json::from_slice::<serde_json::Value>(&output.stdout);
        let Ok(report) = report else { return Err(String::from_utf8_lossy(&output.stderr).into_owned()) };
        let (ending, seen) = (&report["processes"][0]["ending"], launches(&report));
        let is_whole = *ending == "exited" && done.said()["launches"] == seen;
        is_whole.then_some(()).ok_or_else(|| format!("{ending}, {seen} launches: {}", done.stderr))
    });
}

#[test]
fn gpuspy_run_as_pid_1_observes_its_program() {
    let Some(unshare) = as_pid_1() else { return };
    let run = unshare[1..].iter().fold(Run::command(unshare[0]), Run::arg);
    let run = [gpuspy_tests::gpuspy().to_str().unwrap(), "run", "-o", "trace.gspy", "--"]
        .iter()
        .fold(run, Run::arg);
    let done = run.arg(program("plain_work")).plain().succeeded();
    assert_eq!(launches(&done.report()), 200);
}

/// Processes whose parents had ended stayed zombies until the end of the container.
#[test]
fn gpuspy_run_as_pid_1_reaps_what_it_inherits() {
    let Some(unshare) = as_pid_1() else { return };
    let run = unshare[1..].iter().fold(Run::command(unshare[0]), Run::arg);
    let run = [gpuspy_tests::gpuspy().to_str().unwrap(), "run", "--quiet", "--", "sh", "-c"]
        .iter()
        .fold(run, Run::arg);
    let script = "for n in 1 2 3; do (sleep 0.1 &) done
sleep 1
tries=600
while grep -qs '^State:.Z' /proc/[0-9]*/status; do
    tries=$((tries - 1))
    [ $tries -gt 0 ] || exit 9
    sleep 0.1
done
exit 7";
    let done = run.arg(script).plain();
    assert_eq!(done.status.code(), Some(7), "{}", done.stderr);
}

/// A signal that PID 1 sends to itself does nothing.
#[test]
fn gpuspy_run_as_pid_1_has_an_exit_code_for_a_signal() {
    let Some(unshare) = as_pid_1() else { return };
    let run = unshare[1..].iter().fold(Run::command(unshare[0]), Run::arg);
    let gpuspy = gpuspy_tests::gpuspy();
    let words = [gpuspy.to_str().unwrap(), "run", "--quiet", "--", "sh", "-c", "kill -9 $$"];
    let done = words.iter().fold(run, Run::arg).plain();
    assert_eq!(done.status.code(), Some(137), "{}", done.stderr);
}

#[test]
fn a_listening_collector_observes_pid_1() {
    let Some(unshare) = as_pid_1() else { return };
    let listener = super::Listener::start();
    let done = preloaded_as_pid_1(&unshare, "plain_work", &[listener.variable()]).plain().succeeded();
    assert_eq!(done.stderr, "");
    let traces = listener.stop();
    assert_eq!(traces.len(), 1, "{traces:?}");
    assert_eq!(launches(&report(&traces[0])), 200);
}

/// A collector in a container beside that of the program: the trace was called `process-0`.
#[test]
fn a_collector_that_cannot_see_the_process_names_it_as_it_names_itself() {
    let Some(unshare) = as_pid_1() else { return };
    let script = format!(
        "{} \"$0\" collect --dir \"$1\" & trap 'kill $(cat /proc/$!/task/$!/children)' INT; wait; wait",
        unshare.join(" ")
    );
    let listener = super::Listener::run(&script, std::process::Stdio::null());
    let done = Run::of("plain_work").env("GPUSPY_SOCKET", listener.socket()).preloaded().succeeded();
    let traces = listener.stop();
    let pid = &done.said()["pid"];
    assert_eq!(traces, [listener.folder.path().join(format!("plain_work-{pid}.gspy"))]);
    let report = report(&traces[0]);
    assert_eq!((launches(&report), &report["processes"][0]["pid"]), (200, pid));
}

#[test]
fn a_file_size_limit_does_no_harm() {
    for bytes in ["1048576", "4096", "0"] {
        // The simulator's truth file would be limited as well.
        let done = Run::of("rlimit_fsize").arg(bytes).env("SIMCUDA_TRUTH", "").preloaded().succeeded();
        assert_eq!(done.said()["launches"], 200);
        assert_unobserved(&done, "ulimit -f");
        let done = Run::of("rlimit_fsize").arg(bytes).env("SIMCUDA_TRUTH", "").observed().succeeded();
        assert_eq!(done.said()["launches"], 200);
    }
}

#[test]
fn a_collector_under_a_file_size_limit_keeps_what_fits() {
    // Both under the limit: the agent declines, and the exit code is the program's.
    let limited = |script: &str| {
        let run = Run::command("bash").env("SIMCUDA_TRUTH", "").arg("-c").arg(script);
        run.arg(gpuspy_tests::gpuspy()).arg(program("exit_early"))
    };
    let done = limited("ulimit -f 0; exec \"$0\" run -o trace.gspy -- \"$1\" 300").plain();
    assert_eq!(done.status.code(), Some(5), "{}", done.stderr);
    // Only the collector under the limit: it ends the trace at the limit, and is not killed itself.
    let listener = super::Listener::limited_to_kib(8);
    let done = Run::of("flood").arg("50000").env("GPUSPY_SOCKET", listener.socket()).preloaded().succeeded();
    assert_eq!(done.said()["launches"], 50_000);
    let traces = listener.stop();
    assert_eq!(traces.len(), 1, "{traces:?}");
    assert!(std::fs::metadata(&traces[0]).unwrap().len() <= 8 << 10);
    report(&traces[0]);
}

#[test]
fn a_file_that_reuses_one_of_the_agents_descriptor_numbers_is_not_written() {
    let run = Run::of("close_all");
    let folder = run.folder().to_owned();
    let done = run.arg(folder).arg("close").env("SIMCUDA_TRUTH", "").preloaded().succeeded();
    assert_eq!(done.said()["launches"], 360);
    assert_eq!(done.said()["file_blocks"], 0, "{}", done.stdout);
}

/// What the agent may add to a process whose every mapping is resident: its header and slots, one or two rings of 64
/// KiB, its tables, a thread's stack, and libc's memory for a second thread.
const RESIDENT_KIB: i64 = 8 << 10;

#[test]
fn locked_memory_does_no_harm_and_the_agent_adds_little_resident_memory() {
    let plain = Run::of("mlockall_future").plain();
    if plain.status.code() == Some(77) {
        eprintln!("skipped: {}", plain.stderr);
        return;
    }
    let plain = plain.succeeded();
    let done = Run::of("mlockall_future").preloaded().succeeded();
    assert_eq!(done.said()["launches"], 200);
    let after = |done: &Done| done.said()["resident_kib_after"].as_i64().unwrap();
    let added = after(&done) - after(&plain);
    println!("{added} KiB more resident with the agent");
    assert!(added <= RESIDENT_KIB, "the agent takes {added} KiB of memory");
    assert!(the_line(&done).contains("the trace is"));
    assert_eq!(launches(&done.report()), 200);
}

#[test]
fn a_limit_on_address_space_does_no_harm_and_the_program_is_traced() {
    let limited = |script: &str| Run::command("bash").arg("-c").arg(script).arg(program("plain_work"));
    let preload = format!("LD_PRELOAD={} exec \"$0\"", agent().display());
    let plain = limited("ulimit -v 45000; exec \"$0\"").plain().succeeded();
    let done = limited(&format!("ulimit -v 45000; {preload}")).plain().succeeded();
    assert_eq!(done.said()["launches"], plain.said()["launches"]);
    // The collector inherits the limit, and maps what the agent has made.
    assert!(the_line(&done).contains("the trace is"));
    assert_eq!(launches(&done.report()), 200);
}

#[test]
fn where_address_space_is_limited_the_agent_leaves_it_to_the_program() {
    // What a heap for another thread takes: 64 MiB, and 128 MiB while it is made.
    const A_HEAP_KIB: i64 = 64 << 10;
    let script = "import ctypes, json, time
cuda = ctypes.CDLL('libcuda.so.1')
def peak():
    return next(int(line.split()[1]) for line in open('/proc/self/status') if line.startswith('VmPeak'))
before = peak()
cuda.cuInit(0)
context = ctypes.c_void_p()
cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0)
time.sleep(0.3)
print(json.dumps({'program': 'python', 'added': peak() - before}))";
    let python = |limit: &str| {
        let shell = format!("ulimit -v {limit}; LD_PRELOAD={} exec python3 -c \"$0\"", agent().display());
        Run::command("bash").arg("-c").arg(shell).arg(script).plain().succeeded()
    };
    let done = python("900000");
    let added = done.said()["added"].as_i64().unwrap();
    println!("{added} KiB more address space with a limit");
    assert!(added < A_HEAP_KIB, "{added} KiB");
    assert!(the_line(&done).contains("the trace is"));
}

#[test]
fn a_thread_that_cannot_be_started_refuses_one_process_and_later_ones_are_served() {
    let folder = tempfile::tempdir().unwrap();
    let errors = std::fs::File::create(folder.path().join("stderr")).unwrap();
    let no_threads = folder.path().join("no-threads");
    let library = root().join("target/sim/bin/libnothreads.so");
    let variables = format!("LD_PRELOAD={} NO_THREADS_WHILE={}", library.display(), no_threads.display());
    let script = format!("{variables} exec \"$0\" collect --dir \"$1\"");
    let mut listener = super::Listener::run(&script, errors);
    let client = || Run::of("plain_work").env("GPUSPY_SOCKET", listener.socket());
    let said = || std::fs::read_to_string(folder.path().join("stderr")).unwrap();
    let wait_for = |text: &str| {
        let until = Instant::now() + Duration::from_secs(20);
        while !said().contains(text) {
            assert!(Instant::now() < until, "{}", said());
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    // The socket is there before the collector's own threads are.
    wait_for("listening");
    std::fs::write(&no_threads, "").unwrap();
    let refused = client().preloaded().succeeded();
    assert_eq!(refused.said()["launches"], 200);
    wait_for(&format!("process {}: no thread can be started for it: ", refused.said()["pid"]));
    std::fs::remove_file(&no_threads).unwrap();
    let served = client().preloaded().succeeded();
    let traces = listener.stop();
    let status = listener.process.wait().unwrap();
    let said = said();
    assert!(status.success() && said.contains("ulimit -u") && !said.contains("internal error"), "{said}");
    // Of a process that is gone before the collector has looked at it, the name is not known.
    let name = format!("-{}.gspy", served.said()["pid"]);
    let has_name = |trace: &Path| trace.to_string_lossy().ends_with(&name);
    let trace = traces.iter().find(|trace| has_name(trace)).unwrap_or_else(|| panic!("{traces:?}"));
    assert_eq!(launches(&report(trace)), 200);
    assert_eq!(traces.len(), 1, "{traces:?}");
}

#[test]
fn a_limit_on_descriptors_does_no_harm() {
    let with_limit = |most: u32, preload: &str| {
        // The simulator's truth would take one.
        let shell = format!(
            "unset SIMCUDA_TRUTH; ulimit -n {most}; {preload} exec {}",
            gpuspy_tests::program("dlsym_launch").display()
        );
        Run::command("bash").arg("-c").arg(shell).plain().succeeded()
    };
    let preload = format!("LD_PRELOAD={}", agent().display());
    let mut traced = 0;
    // 0 to 2 are open, and the loader needs one to open libcuda.
    for most in 4..=16 {
        let done = with_limit(most, &preload);
        assert_eq!(done.stdout, with_limit(most, "").stdout, "{most} descriptors");
        traced += u32::from(the_line(&done).contains("the trace is"));
    }
    assert!(traced >= 4, "{traced} of 13 were traced");
}
