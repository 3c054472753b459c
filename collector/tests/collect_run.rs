//! `gpuspy run` and `collect` as commands: exit codes, streams, environment, names.

#[allow(dead_code, reason = "shared with tests that use the rest of it")]
mod collect_support;

use collect_support::FakeAgent;
use collect_support::place::{Place, names, run_script, sample_program, stderr};
use gpuspy_collector::trace::TraceReader;
use gpuspy_collector::trace::record::{Ending, Exit};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

#[test]
fn the_exit_code_is_the_commands() {
    let place = Place::new();
    let code = |command: &[&str]| place.run(command).status.code().unwrap();
    assert_eq!(code(&["true"]), 0);
    assert_eq!(code(&["false"]), 1);
    assert_eq!(code(&["sh", "-c", "exit 42"]), 42);
    assert_eq!(code(&["no-such-program-anywhere"]), 127);
    assert_eq!(code(&["./no/such/program"]), 127);
    place.script("plain", 0o644, "#!/bin/sh\n");
    assert_eq!(code(&["./plain"]), 126);
    assert_eq!(code(&["."]), 126, "a directory");
    assert!(place.traces().is_empty(), "no CUDA, no trace");
}

#[test]
fn a_command_that_a_signal_ended_ends_gpuspy_by_the_same_signal() {
    let place = Place::new();
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGKILL, libc::SIGSEGV, libc::SIGPIPE] {
        let script = format!("kill -{signal} $$");
        let mut run = place.gpuspy(&["run", "--", "sh", "-c", &script]);
        ignore(&mut run, &[]);
        let output = run.output().unwrap();
        let status = output.status;
        assert_eq!((status.code(), status.signal(), status.core_dumped()), (None, Some(signal), false));
        assert!(stderr(&output).contains("called CUDA"), "{}", stderr(&output));
    }
    let script = "\"$0\" run --quiet -- sh -c 'kill -9 $$'; echo $?";
    let mut shell = Command::new("sh");
    shell.args(["-c", script, env!("CARGO_BIN_EXE_gpuspy")]).env("GPUSPY_AGENT", place.path("agent.so"));
    assert_eq!(String::from_utf8(shell.output().unwrap().stdout).unwrap(), "137\n", "128 + n in a shell");
}

/// A shell took the exit code 130 for that of a program that has handled Ctrl-C, and went on.
#[test]
fn ctrl_c_ends_a_shells_loop_around_gpuspy() {
    let place = Place::new();
    let script = "while :; do \"$0\" run --quiet -- sh -c 'echo ready; exec sleep 60'; done";
    let mut shell = Command::new("bash");
    shell.args(["-c", script, env!("CARGO_BIN_EXE_gpuspy")]).env("GPUSPY_AGENT", place.path("agent.so"));
    ignore(&mut shell, &[]);
    // A terminal sends the signal to the whole process group, and so does this test.
    std::os::unix::process::CommandExt::process_group(&mut shell, 0);
    let mut shell = shell.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let mut ready = [0; 6];
    shell.stdout.as_mut().unwrap().read_exact(&mut ready).unwrap();
    // SAFETY: kill takes numbers; the group is that of the child.
    assert_eq!(unsafe { libc::kill(-(shell.id() as i32), libc::SIGINT) }, 0);
    assert_eq!(ended(&mut shell).signal(), Some(libc::SIGINT));
}

#[test]
fn the_programs_streams_are_its_own() {
    let place = Place::new();
    let output = place.run(&["sh", "-c", "printf out; printf err >&2"]);
    assert_eq!(output.stdout, b"out");
    let line = "nothing was collected: no process that the command started here called CUDA before the command ended, or it ended in \
                its first call, or said above why it runs unobserved. What goes on in the background is not waited for; \
                docker, srun, ssh and sudo start programs elsewhere or without this environment, and gosu, setpriv and su as \
                another user: put `gpuspy run` inside them. Else: gpuspy doctor -- sh";
    assert_eq!(stderr(&output), format!("errgpuspy: {line}\n"));
    let quiet = place.gpuspy(&["run", "--quiet", "--", "sh", "-c", "printf err >&2"]).output().unwrap();
    assert_eq!(stderr(&quiet), "err");
    let quiet = place.gpuspy(&["run", "true"]).env("GPUSPY_QUIET", "1").output().unwrap();
    assert_eq!(stderr(&quiet), "");
}

/// The standard library ends a process by SIGABRT in which an allocation fails: that was what became of the command, too.
#[test]
fn a_report_for_which_there_is_no_memory_does_not_change_the_exit_code() {
    let place = Place::new();
    // The trace is written when nobody has it locked any more.
    let low = "$AGENT >/dev/null; until [ -s mine.gspy ] && flock -n mine.gspy true; do sleep 0.02; done; \
               prlimit --pid $PPID --as=1000000";
    let output = run_script(&place, &["-o", "mine.gspy"], &format!("{low}; exit 7"));
    let said = stderr(&output);
    assert_eq!((output.status.code(), output.status.signal()), (Some(7), None), "{said}");
    assert!(said.contains("there is no report") && said.contains("gpuspy report mine.gspy"), "{said}");
    let output = run_script(&place, &["-o", "mine.gspy"], &format!("rm mine.gspy; {low}; kill -TERM $$"));
    assert_eq!(output.status.signal(), Some(libc::SIGTERM), "{}", stderr(&output));
    assert_eq!(launches(&place.path("mine.gspy")), 10);
}

/// Whoever sends SIGABRT to gpuspy wants it to end.
#[test]
fn an_abort_that_somebody_else_sends_ends_gpuspy() {
    let place = Place::new();
    let output = place.run(&["sh", "-c", "kill -ABRT $PPID; exit 3"]);
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{}", stderr(&output));
}

/// A library that has these calls refused, as a seccomp filter does.
fn refuses(place: &Place, calls: &[&str]) -> PathBuf {
    let one = |call: &&str| format!("int {call}() {{ errno = EPERM; return -1; }}\n");
    let all: String = calls.iter().map(one).collect();
    place.library("refuses.so", &format!("#include <errno.h>\n{all}"));
    place.path("refuses.so")
}

/// It waited for a connection for ever when the command had ended, and SIGTERM did not end it.
#[test]
fn a_refused_ioctl_does_not_keep_gpuspy_from_ending() {
    let place = Place::new();
    let library = refuses(&place, &["ioctl"]);
    let mut run = place.gpuspy(&["run", "--quiet", "--", "sh", "-c", "exit 5"]);
    let mut run = run.env("LD_PRELOAD", library).spawn().unwrap();
    assert_eq!(ended(&mut run).code(), Some(5));
}

/// Rust's runtime ended gpuspy by SIGABRT without a word.
#[test]
fn a_refused_poll_is_told_before_the_command_starts() {
    let place = Place::new();
    let library = refuses(&place, &["poll"]);
    let output = place.gpuspy(&["run", "--", "echo", "ran"]).env("LD_PRELOAD", library).output().unwrap();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{}", stderr(&output));
    assert!(stderr(&output).contains("refuses poll(2)"), "{}", stderr(&output));
}

/// Signals were passed on to the command, which had ended, while gpuspy waited for those that it still collected from.
#[test]
fn a_signal_after_the_commands_end_ends_gpuspy() {
    let place = Place::new();
    let script = "echo $GPUSPY_SOCKET >part; mv part socket; until [ -e go ]; do sleep 0.02; done; exit 6";
    let mut run = place.gpuspy(&["run", "--quiet", "--", "sh", "-c", script]).spawn().unwrap();
    let socket = loop {
        match fs::read_to_string(place.path("socket")) {
            Ok(socket) => break socket,
            Err(_) => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    // Its greeting is waited for, which takes 5 s.
    let _silent = UnixStream::connect(socket.trim()).unwrap();
    fs::write(place.path("go"), "").unwrap();
    std::thread::sleep(Duration::from_millis(1000));
    // SAFETY: kill takes numbers; the child has not been waited for.
    assert_eq!(unsafe { libc::kill(run.id() as i32, libc::SIGTERM) }, 0);
    assert_eq!(ended(&mut run).signal(), Some(libc::SIGTERM));
}

/// Only "0" was told: with the others the program was said to have made no call.
#[test]
fn each_word_that_turns_the_agent_off_is_named() {
    let place = Place::new();
    for word in ["0", "off", "no", "false", ""] {
        let output = place.gpuspy(&["run", "true"]).env("GPUSPY", word).output().unwrap();
        let line = format!("gpuspy: nothing was collected: GPUSPY={word} turns the agent off: unset it\n");
        assert_eq!(stderr(&output), line);
    }
}

#[test]
fn the_environment_of_the_program_is_set_up() {
    let place = Place::new();
    place.library("other.so", "");
    let other = place.path("other.so");
    let show =
        "echo $LD_PRELOAD; echo $GPUSPY_TIMING; stat -c %a $(dirname $GPUSPY_SOCKET); dirname $GPUSPY_SOCKET";
    let output = place
        .gpuspy(&["run", "--timing", "off", "--", "sh", "-c", show])
        .env("LD_PRELOAD", &other)
        .output()
        .unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = stdout.lines().collect();
    assert_eq!(lines[0], format!("{}:{}", place.path("agent.so").display(), other.display()));
    assert_eq!(&lines[1..3], ["off", "700"]);
    assert!(!Path::new(lines[3]).exists(), "the private directory goes when the run is over");
}

#[test]
fn an_agent_with_an_awkward_path_is_loaded_all_the_same() {
    let place = Place::new();
    fs::create_dir(place.path("a b:c")).unwrap();
    place.library(
        "a b:c/agent.so",
        "#include <unistd.h>\n__attribute__((constructor)) void f(void) { write(1, \"here \", 5); }",
    );
    let output = place
        .gpuspy(&["run", "--", "/bin/echo", "x"])
        .env("GPUSPY_AGENT", place.path("a b:c/agent.so"))
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "here x\n", "{}", stderr(&output));
}

#[test]
fn errors_are_reported_before_the_program_starts() {
    let place = Place::new();
    let failed = |command: &mut Command, what: &str| {
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        assert!(output.stdout.is_empty(), "the program must not have run");
        assert!(stderr(&output).contains(what), "{}", stderr(&output));
        assert_eq!(stderr(&output).lines().count(), 1, "one sentence: {}", stderr(&output));
    };
    let echo = ["--", "echo", "ran"];
    failed(
        place.gpuspy(&[&["run"][..], &echo].concat()).env("GPUSPY_AGENT", "/no/agent.so"),
        "cannot open the agent",
    );
    failed(
        &mut place.gpuspy(&[&["run", "-o", "no/where/x.gspy"][..], &echo].concat()),
        "cannot write into no/where",
    );
    failed(&mut place.gpuspy(&[&["run", "-o", "agent.so"][..], &echo].concat()), "exists and is not a trace");
    failed(&mut place.gpuspy(&["collect", "--pid", "999999999"]), "there is no process 999999999");
    let usage = place.gpuspy(&["run", "--timing", "sometimes", "--", "echo"]).output().unwrap();
    assert_eq!(usage.status.code(), Some(2));
    assert_eq!(place.gpuspy(&["collect"]).output().unwrap().status.code(), Some(2));
    assert_eq!(place.gpuspy(&["run"]).output().unwrap().status.code(), Some(2));
}

#[test]
fn an_unknown_option_of_run_is_a_usage_error_with_a_suggestion() {
    let place = Place::new();
    for (arguments, suggestion) in [
        (
            &["--no-such-option", "echo", "ran"][..],
            "to pass '--no-such-option' as a value, use '-- --no-such-option'",
        ),
        (&["--bugdet", "5", "echo", "ran"], "'--budget'"),
        (&["--timing", "exact", "--no-reports", "echo", "ran"], "'--no-report'"),
    ] {
        let output = place.gpuspy(&[&["run"], arguments].concat()).output().unwrap();
        let said = stderr(&output);
        assert_eq!((output.status.code(), &*output.stdout), (Some(2), &b""[..]), "{said}");
        assert!(said.contains("unexpected argument") && said.contains(suggestion), "{arguments:?}: {said}");
    }
    let own = place.run(&["echo", "--no-such-option", "--budget", "--"]);
    assert_eq!(
        String::from_utf8_lossy(&own.stdout),
        "--no-such-option --budget --\n",
        "the program's own options"
    );
    let without_separator = place.gpuspy(&["run", "echo", "-n", "--quiet"]).output().unwrap();
    assert_eq!(without_separator.stdout, b"--quiet");
}

#[test]
fn a_program_without_preload_is_run_and_named() {
    let place = Place::new();
    fs::write(place.path("main.c"), "int main(void) { return 5; }").unwrap();
    let gcc = Command::new("gcc")
        .args(["-static", "-o"])
        .args([place.path("static"), place.path("main.c")])
        .status();
    assert!(gcc.unwrap().success());
    let output = place.run(&["./static"]);
    assert_eq!(output.status.code(), Some(5));
    assert!(stderr(&output).contains("./static is statically linked"), "{}", stderr(&output));
}

#[test]
fn signals_reach_the_program() {
    let place = Place::new();
    let script =
        "trap 'echo term; exit 7' TERM; trap 'echo usr1' USR1; echo ready; while :; do sleep 0.02; done";
    let mut run = place.gpuspy(&["run", "--", "sh", "-c", script]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(run.stdout.take().unwrap()).lines().map_while(Result::ok);
    let mut expect = |line: &str| assert_eq!(lines.next().as_deref(), Some(line));
    let send = |signal| {
        // SAFETY: kill takes numbers; the child has not been waited for, so the pid is still its own.
        assert_eq!(unsafe { libc::kill(run.id() as i32, signal) }, 0);
    };
    expect("ready");
    send(libc::SIGUSR1);
    expect("usr1");
    send(libc::SIGTERM);
    expect("term");
    assert_eq!(run.wait().unwrap().code(), Some(7));
}

/// SIGXCPU of a scheduler, or an alarm that was set before, ended gpuspy and left the program behind.
#[test]
fn signals_that_end_a_process_by_default_reach_the_program() {
    let place = Place::new();
    let (real_time, last) = (libc::SIGRTMIN() + 3, libc::SIGRTMAX());
    let signals = [libc::SIGALRM, libc::SIGXCPU, libc::SIGXFSZ, libc::SIGPWR, real_time, last];
    let traps = signals.map(|signal| format!("trap 'echo {signal}' {signal}; ")).concat();
    let script = format!("{traps} trap 'exit 7' TERM; echo ready; while :; do sleep 0.02; done");
    let mut run = place.gpuspy(&["run", "--", "sh", "-c", &script]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(run.stdout.take().unwrap()).lines().map_while(Result::ok);
    assert_eq!(lines.next().as_deref(), Some("ready"));
    for signal in signals {
        // SAFETY: kill takes numbers; the child has not been waited for.
        assert_eq!(unsafe { libc::kill(run.id() as i32, signal) }, 0);
        assert_eq!(lines.next(), Some(signal.to_string()));
    }
    // SAFETY: as above.
    assert_eq!(unsafe { libc::kill(run.id() as i32, libc::SIGTERM) }, 0);
    assert_eq!(ended(&mut run).code(), Some(7));
}

#[test]
fn a_terminals_interrupt_ends_the_program_and_not_the_run() {
    let place = Place::new();
    // A terminal sends the signal to the whole process group, and so does this test. The program gets the signal once from
    // there and once from gpuspy, which makes no difference with its default disposition.
    let mut command = place.gpuspy(&["run", "--", "sh", "-c", "echo ready; exec sleep 60"]);
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let mut run = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut ready = [0; 6];
    run.stdout.as_mut().unwrap().read_exact(&mut ready).unwrap();
    // SAFETY: kill takes numbers; the group is that of the child.
    assert_eq!(unsafe { libc::kill(-(run.id() as i32), libc::SIGINT) }, 0);
    let output = run.wait_with_output().unwrap();
    assert_eq!(output.status.signal(), Some(libc::SIGINT));
    assert!(stderr(&output).contains("called CUDA"), "{}", stderr(&output));
}

/// Signals that a test may be started to ignore.
const INHERITED: [i32; 4] = [libc::SIGHUP, libc::SIGINT, libc::SIGPIPE, libc::SIGCHLD];

/// Makes a command ignore these of them, and no others.
fn ignore(command: &mut Command, ignored: &'static [i32]) {
    use std::os::unix::process::CommandExt;
    let set = move || {
        for number in INHERITED {
            let action = if ignored.contains(&number) { libc::SIG_IGN } else { libc::SIG_DFL };
            // SAFETY: neither runs code of ours.
            unsafe { libc::signal(number, action) };
        }
        Ok(())
    };
    // SAFETY: the closure is async-signal-safe.
    unsafe { command.pre_exec(set) };
}

/// A service that had SIGPIPE ignored was ended by it under gpuspy: the standard library has children not ignore it.
#[test]
fn the_program_ignores_the_signals_that_it_would_ignore_without_gpuspy() {
    const CASES: [&[i32]; 4] = [&[], &[libc::SIGPIPE], &[libc::SIGCHLD], &INHERITED];
    let place = Place::new();
    for ignored in CASES {
        let mut run = place.gpuspy(&["run", "--quiet", "--", "grep", "SigIgn", "/proc/self/status"]);
        ignore(&mut run, ignored);
        let output = run.output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        let mask = u64::from_str_radix(said.trim_start_matches("SigIgn:").trim(), 16).unwrap();
        let ignores: Vec<i32> =
            INHERITED.into_iter().filter(|number| mask >> (number - 1) & 1 == 1).collect();
        assert_eq!(ignores, ignored, "{said}");
    }
}

/// Opens a pseudo-terminal. It hangs up when the first descriptor is closed; a session has the second.
fn terminal() -> (OwnedFd, OwnedFd) {
    let (mut master, mut slave) = (0, 0);
    let (no_name, no_settings, no_size) = (std::ptr::null_mut(), std::ptr::null_mut(), std::ptr::null_mut());
    // SAFETY: openpty fills two descriptors, which we own from then on, and which no program inherits.
    unsafe {
        assert_eq!(libc::openpty(&mut master, &mut slave, no_name, no_settings, no_size), 0);
        for descriptor in [master, slave] {
            assert_eq!(libc::fcntl(descriptor, libc::F_SETFD, libc::FD_CLOEXEC), 0);
        }
        (OwnedFd::from_raw_fd(master), OwnedFd::from_raw_fd(slave))
    }
}

/// Waits for the end of a child, and ends it if that does not come.
fn ended(child: &mut Child) -> ExitStatus {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if Instant::now() > deadline {
            child.kill().unwrap();
            panic!("it does not end");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The kernel sends a hangup to the leader of the session alone. Under `ssh -t host gpuspy run …` the program never got it, and ran on.
#[test]
fn a_hangup_of_the_terminal_reaches_the_program_where_gpuspy_leads_the_session() {
    let place = Place::new();
    let (master, slave) = terminal();
    let script = "trap 'echo hangup >ended; exit 7' HUP; echo ready >began; while :; do sleep 0.02; done";
    let mut leader = Command::new("setsid");
    leader.args(["--ctty", env!("CARGO_BIN_EXE_gpuspy"), "run", "--quiet", "--", "sh", "-c", script]);
    leader.env("GPUSPY_AGENT", place.path("agent.so")).current_dir(place.path(""));
    leader.stdin(slave).stdout(Stdio::null()).stderr(Stdio::null());
    ignore(&mut leader, &[]);
    let mut run = leader.spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    while !place.path("began").exists() {
        assert!(Instant::now() < deadline, "it does not begin");
        std::thread::sleep(Duration::from_millis(5));
    }
    drop(master);
    assert_eq!(ended(&mut run).code(), Some(7));
    assert_eq!(fs::read_to_string(place.path("ended")).unwrap(), "hangup\n");
}

#[test]
fn the_simulated_agent_launches() {
    collect_support::launch_for_a_collector();
}

fn launches(path: &Path) -> usize {
    let mut reader = TraceReader::open(path).unwrap();
    assert!(reader.complete());
    assert_eq!(reader.status().unwrap().ending, Ending::Exited);
    reader.records().count()
}

#[test]
fn one_process_makes_one_file() {
    let place = Place::new();
    let output = run_script(&place, &["--no-report"], "exec $AGENT >/dev/null");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let traces = place.traces();
    let [trace] = &traces[..] else { panic!("{traces:?}") };
    assert!(trace.starts_with("gpuspy-collect_run-"), "{trace}");
    assert_eq!(launches(&place.path(trace)), 10);
    let told = stderr(&output);
    assert_eq!(told, format!("gpuspy: the trace is {trace}; read it again with: gpuspy report {trace}\n"));
    // A second run does not replace the trace of the first; with -o, it replaces the trace of that name.
    for _ in 0..2 {
        let output = run_script(&place, &["--no-report", "-o", "mine.gspy"], "exec $AGENT >/dev/null");
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    }
    assert_eq!(place.traces(), [trace.as_str(), "mine.gspy"]);
    assert_eq!(launches(&place.path("mine.gspy")), 10);
}

/// The limit of the shell, usually 1024, was that of the collector: with hundreds of threads or a dozen processes, none was left.
#[test]
fn gpuspy_raises_its_own_limit_on_descriptors_and_the_program_keeps_its_own() {
    let place = Place::new();
    let script = "ulimit -Sn; grep 'open files' /proc/$PPID/limits";
    let gpuspy = env!("CARGO_BIN_EXE_gpuspy");
    let mut run = Command::new("sh");
    run.args(["-c", "ulimit -Sn 77; exec \"$0\" run --quiet -- sh -c \"$1\"", gpuspy, script]);
    let output =
        run.env("GPUSPY_AGENT", place.path("agent.so")).current_dir(place.path("")).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let numbers: Vec<&str> =
        said.split_ascii_whitespace().filter(|word| word.parse::<u64>().is_ok()).collect();
    let [program, soft, hard] = numbers[..] else {
        panic!("{said} {}", String::from_utf8_lossy(&output.stderr))
    };
    assert_eq!((program, soft), ("77", hard));
}

/// Starts a collector that may open so many descriptors. Returns what it says after that it listens, and where it does.
fn collecting_with_descriptors(place: &Place, most: u32) -> (Child, impl Iterator<Item = String>, PathBuf) {
    let command = format!("ulimit -n {most}; exec \"$0\" collect --dir traces");
    let mut collect = Command::new("sh")
        .args(["-c", &command, env!("CARGO_BIN_EXE_gpuspy")])
        .current_dir(place.path(""))
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(collect.stderr.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.next().unwrap().contains("traces/gpuspy.sock"));
    (collect, lines, place.path("traces/gpuspy.sock"))
}

/// Nothing was said, and the processes that waited had no trace.
#[test]
fn a_collector_that_may_open_no_more_descriptors_says_so_once() {
    let place = Place::new();
    let (mut collect, mut lines, socket) = collecting_with_descriptors(&place, 32);
    let waiting: Vec<UnixStream> = (0..40).map(|_| UnixStream::connect(&socket).unwrap()).collect();
    let is_said = |line: &str| line.contains("Too many open files; raise the limit on descriptors");
    assert!(lines.any(|line| is_said(&line)));
    drop(waiting);
    assert!(sample_program().env("GPUSPY_SOCKET", &socket).output().unwrap().status.success());
    assert!(
        !lines
            .by_ref()
            .take_while(|line| !line.contains("has exited; its trace is"))
            .any(|line| is_said(&line))
    );
    // SAFETY: kill takes numbers; the child has not been waited for.
    assert_eq!(unsafe { libc::kill(collect.id() as i32, libc::SIGTERM) }, 0);
    assert_eq!(collect.wait().unwrap().code(), Some(0));
}

/// Only a connection waited for a descriptor: a process that was accepted and had none for its segment or its trace lost that.
#[test]
fn processes_for_which_a_collector_has_no_descriptors_wait_and_all_have_traces() {
    let place = Place::new();
    let (mut collect, lines, socket) = collecting_with_descriptors(&place, 26);
    let agent = || sample_program().env("GPUSPY_SOCKET", &socket).stdout(Stdio::null()).spawn().unwrap();
    let agents: Vec<Child> = (0..12).map(|_| agent()).collect();
    agents.into_iter().for_each(|mut agent| assert!(ended(&mut agent).success()));
    // SAFETY: kill takes numbers; the child has not been waited for.
    assert_eq!(unsafe { libc::kill(collect.id() as i32, libc::SIGTERM) }, 0);
    assert_eq!(ended(&mut collect).code(), Some(0));
    let said: Vec<String> = lines.collect();
    let traces = names(&place.path("traces"));
    assert_eq!(traces.len(), 12, "{traces:?} {said:?}");
    for trace in traces {
        assert_eq!(launches(&place.path("traces").join(trace)), 10);
    }
}

/// `run --json -o config.gspy` wrote over a `config.json` that lay there.
#[test]
fn a_file_that_is_no_report_is_not_replaced_by_the_json_beside_the_trace() {
    let place = Place::new();
    let json = place.path("mine.json");
    fs::write(&json, "{\"coverage\": \"the user's own\"}").unwrap();
    let run = || {
        run_script(&place, &["--no-report", "--json", "-o", "mine.gspy"], "echo ran; exec $AGENT >/dev/null")
    };
    let refused = run();
    assert_eq!(
        (refused.status.code(), &*refused.stdout),
        (Some(2), &b""[..]),
        "the program must not have run"
    );
    let said = stderr(&refused);
    assert!(said.contains("mine.json, which exists and is not a report of gpuspy's"), "{said}");
    assert_eq!(fs::read(&json).unwrap(), b"{\"coverage\": \"the user's own\"}");
    fs::write(&json, "").unwrap();
    for _ in 0..2 {
        let output = run();
        assert_eq!((output.status.code(), &*output.stdout), (Some(0), &b"ran\n"[..]), "{}", stderr(&output));
        assert!(fs::read_to_string(&json).unwrap().contains("\"launches\": 10"));
        assert_eq!(fs::metadata(&json).unwrap().permissions().mode() & 0o777, 0o600);
    }
}

/// Others could read the command line in it, and not in the trace.
#[test]
fn the_page_of_a_run_is_as_private_as_its_trace() {
    let place = Place::new();
    let options = ["--no-report", "--html", "run.html", "-o", "run.gspy"];
    let output = run_script(&place, &options, "umask 022; exec $AGENT >/dev/null");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let mode = |name: &str| fs::metadata(place.path(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!([mode("run.gspy"), mode("run.html")], [0o600, 0o600]);
}

#[test]
fn the_program_runs_even_if_its_trace_cannot_be_written() {
    let place = Place::new();
    let output = run_script(&place, &["-o", "/dev/full"], "$AGENT >/dev/null; exit 4");
    assert_eq!(output.status.code(), Some(4));
    assert_eq!(
        stderr(&output),
        "gpuspy: cannot write /dev/full: No space left on device; free some space, or choose another path\n"
    );
}

#[test]
fn several_processes_make_a_directory() {
    let place = Place::new();
    let output =
        run_script(&place, &["--no-report", "-o", "run.gspy"], "$AGENT >/dev/null & $AGENT >/dev/null; wait");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(place.traces(), ["run.gspy"]);
    let traces = names(&place.path("run.gspy"));
    assert_eq!(traces.len(), 2);
    for trace in &traces {
        assert!(trace.starts_with("collect_run-"), "{trace}");
        assert_eq!(launches(&place.path("run.gspy").join(trace)), 10);
    }
    assert!(stderr(&output).contains("the trace is run.gspy;"), "{}", stderr(&output));
}

#[test]
fn a_process_that_outlives_the_command_is_named_and_left_running() {
    let place = Place::new();
    let script =
        "FAKE_LINGERS=1 $AGENT >out 2>&1 & echo $! >pid; until grep -qs lingering out; do sleep 0.02; done";
    let output = run_script(&place, &["--no-report"], script);
    let pid: i32 = fs::read_to_string(place.path("pid")).unwrap().trim().parse().unwrap();
    // SAFETY: kill takes numbers; the process exists, as checked, and is a descendant of this test.
    assert_eq!(unsafe { libc::kill(pid, libc::SIGKILL) }, 0, "it must still run");
    assert_eq!(output.status.code(), Some(0));
    assert!(stderr(&output).contains(&format!("({pid}) is still running")), "{}", stderr(&output));
}

#[test]
fn a_listening_collector_serves_until_sigint() {
    let place = Place::new();
    let mut collect = place.gpuspy(&["collect", "--dir", "traces"]).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(collect.stderr.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.next().unwrap().contains("traces/gpuspy.sock"));
    let socket = place.path("traces/gpuspy.sock");
    for _ in 0..2 {
        let agent = sample_program().env("GPUSPY_SOCKET", &socket).output();
        assert!(agent.unwrap().status.success());
        assert!(lines.next().unwrap().contains("has exited; its trace is"));
    }
    let second = place.gpuspy(&["collect", "--dir", "traces"]).output().unwrap();
    assert_eq!(second.status.code(), Some(2));
    assert!(stderr(&second).contains("another collector listens"), "{}", stderr(&second));
    // SAFETY: kill takes numbers; the child has not been waited for.
    assert_eq!(unsafe { libc::kill(collect.id() as i32, libc::SIGTERM) }, 0);
    assert_eq!(collect.wait().unwrap().code(), Some(0));
    let traces = names(&place.path("traces"));
    assert_eq!(traces.len(), 2, "the socket is gone: {traces:?}");
    for trace in traces {
        assert_eq!(launches(&place.path("traces").join(trace)), 10);
    }
}

/// A hangup ended it at once, and its traces had no end.
#[test]
fn a_hangup_ends_a_collector_as_sigterm_does_unless_it_was_ignored() {
    const CASES: [&[i32]; 2] = [&[], &[libc::SIGHUP]];
    for ignored in CASES {
        let place = Place::new();
        let mut collect = place.gpuspy(&["collect", "--dir", "traces"]);
        ignore(&mut collect, ignored);
        let mut collect = collect.stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(collect.stderr.take().unwrap()).lines().map_while(Result::ok);
        assert!(lines.next().unwrap().contains("traces/gpuspy.sock"));
        // SAFETY: kill takes numbers; the child has not been waited for.
        let send = |signal| assert_eq!(unsafe { libc::kill(collect.id() as i32, signal) }, 0);
        send(libc::SIGHUP);
        if !ignored.is_empty() {
            let agent = sample_program().env("GPUSPY_SOCKET", place.path("traces/gpuspy.sock")).output();
            assert!(agent.unwrap().status.success());
            assert!(lines.next().unwrap().contains("has exited; its trace is"));
            send(libc::SIGTERM);
        }
        assert_eq!(ended(&mut collect).code(), Some(0));
    }
}

/// Only the mode was looked at: who owned the directory could put another socket into it.
#[test]
fn a_directory_of_another_user_is_refused() {
    let place = Place::new();
    let folder = place.path("theirs");
    fs::create_dir(&folder).unwrap();
    fs::set_permissions(&folder, PermissionsExt::from_mode(0o700)).unwrap();
    if std::os::unix::fs::chown(&folder, Some(12_345), None).is_err() {
        eprintln!("skipped: only root can give a directory to another user");
        return;
    }
    let mut collect = place.gpuspy(&["collect", "--dir", "theirs"]).stderr(Stdio::piped()).spawn().unwrap();
    assert_eq!(ended(&mut collect).code(), Some(2));
    let said = stderr(&collect.wait_with_output().unwrap());
    assert!(said.contains("theirs belongs to another user"), "{said}");
}

/// Whether the collector that listens in a folder has accepted a connection: its end has an inode then (`/proc/net/unix`, proc(5)).
fn has_accepted(folder: &Path) -> bool {
    const CONNECTED: &str = "03";
    let all = fs::read_to_string("/proc/net/unix").unwrap();
    let in_folder = all.lines().filter(|line| line.contains(folder.to_str().unwrap()));
    let mut fields = in_folder.map(|line| line.split_ascii_whitespace().collect::<Vec<_>>());
    fields.any(|fields| fields[5] == CONNECTED && fields[6] != "0")
}

/// A second Ctrl-C did nothing, however long the end took.
#[test]
fn a_second_signal_ends_a_collector_at_once_and_its_traces_are_kept() {
    let place = Place::new();
    let folder = place.path("traces");
    let mut collect = place.gpuspy(&["collect", "--dir", folder.to_str().unwrap()]);
    let mut collect = collect.stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(collect.stderr.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.next().unwrap().contains("traces/gpuspy.sock"));
    let socket = place.path("traces/gpuspy.sock");
    assert!(sample_program().env("GPUSPY_SOCKET", &socket).output().unwrap().status.success());
    assert!(lines.next().unwrap().contains("has exited; its trace is"));
    // The collector waits five seconds for what it has to say.
    let silent = UnixStream::connect(&socket).unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    while !has_accepted(&folder) {
        assert!(Instant::now() < deadline, "the collector does not accept a connection");
        std::thread::sleep(Duration::from_millis(5));
    }
    let status = loop {
        // SAFETY: kill takes numbers; the child has not been waited for.
        assert_eq!(unsafe { libc::kill(collect.id() as i32, libc::SIGTERM) }, 0);
        std::thread::sleep(Duration::from_millis(10));
        if let Some(status) = collect.try_wait().unwrap() {
            break status;
        }
    };
    assert_eq!((status.code(), status.signal()), (None, Some(libc::SIGTERM)));
    drop(silent);
    let mut traces = names(&place.path("traces"));
    traces.retain(|name| name.ends_with(".gspy"));
    assert_eq!(traces.len(), 1, "{traces:?}");
    assert_eq!(launches(&place.path("traces").join(&traces[0])), 10);
}

/// A pipe that takes no more, and the end that nobody reads.
fn full_pipe() -> (std::io::PipeReader, std::io::PipeWriter) {
    let (reader, writer) = std::io::pipe().unwrap();
    let set_flags = |flags: i32| {
        // SAFETY: sets the flags of this descriptor.
        assert_eq!(unsafe { libc::fcntl(writer.as_raw_fd(), libc::F_SETFL, flags) }, 0);
    };
    set_flags(libc::O_NONBLOCK);
    while matches!((&writer).write(&[b'x'; 4096]), Ok(1..)) {}
    while matches!((&writer).write(b"x"), Ok(1..)) {}
    set_flags(0);
    (reader, writer)
}

/// The first sentence that stderr did not take stopped all collecting: no further session began, and SIGTERM did nothing.
#[test]
fn a_collector_whose_stderr_nobody_reads_collects_all_the_same_and_ends_at_sigterm() {
    let place = Place::new();
    let (reader, writer) = full_pipe();
    let mut collect = place.gpuspy(&["collect", "--dir", "traces"]).stderr(writer).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    let is_in_time = |collect: &mut Child| {
        std::thread::sleep(Duration::from_millis(5));
        let is_in_time = Instant::now() < deadline;
        if !is_in_time {
            collect.kill().unwrap();
        }
        is_in_time
    };
    let socket = place.path("traces/gpuspy.sock");
    while !socket.exists() {
        assert!(is_in_time(&mut collect), "it does not listen");
    }
    for count in 1..=3 {
        let agent = sample_program().env("GPUSPY_SOCKET", &socket).output();
        assert!(agent.unwrap().status.success());
        while names(&place.path("traces")).iter().filter(|name| name.ends_with(".gspy")).count() < count {
            assert!(is_in_time(&mut collect), "session {count} has no trace");
        }
    }
    // SAFETY: kill takes numbers; the child has not been waited for.
    assert_eq!(unsafe { libc::kill(collect.id() as i32, libc::SIGTERM) }, 0);
    let status = loop {
        match collect.try_wait().unwrap() {
            Some(status) => break status,
            None => assert!(is_in_time(&mut collect), "it does not end"),
        }
    };
    assert_eq!(status.code(), Some(0));
    drop(reader);
    for trace in names(&place.path("traces")) {
        assert_eq!(launches(&place.path("traces").join(trace)), 10);
    }
}

/// Such a trace was named `process-PID`: the collector asked the system for a name that only the process had known.
#[test]
fn a_process_that_is_gone_before_the_collector_looks_has_its_name_and_its_exit_code() {
    let place = Place::new();
    let mut collect = place.gpuspy(&["collect", "--dir", "traces"]).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(collect.stderr.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.next().unwrap().contains("traces/gpuspy.sock"));
    let id = collect.id() as i32;
    // SAFETY: kill takes numbers; the child has not been waited for, here and below.
    let signal = |number| assert_eq!(unsafe { libc::kill(id, number) }, 0);
    signal(libc::SIGSTOP);
    let mut status = 0;
    // SAFETY: waitpid writes the status; a child that has only stopped can be waited for again.
    assert_eq!(unsafe { libc::waitpid(id, &raw mut status, libc::WUNTRACED) }, id);
    assert!(libc::WIFSTOPPED(status));
    let mut agent = sample_program();
    agent.env("GPUSPY_SOCKET", place.path("traces/gpuspy.sock")).env("FAKE_HURRIES", "1");
    assert!(agent.output().unwrap().status.success());
    signal(libc::SIGCONT);
    assert!(lines.next().unwrap().contains("has exited; its trace is"));
    signal(libc::SIGTERM);
    assert_eq!(collect.wait().unwrap().code(), Some(0));
    let traces = names(&place.path("traces"));
    assert!(matches!(traces.as_slice(), [trace] if trace.starts_with("collect_run-")), "{traces:?}");
    let trace = place.path("traces").join(&traces[0]);
    assert_eq!(launches(&trace), 10);
    // Linux tells how it exited since 6.16.
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split(['.', '-']).map(|number| number.parse::<u32>().unwrap_or(0));
    let is_told = (numbers.next(), numbers.next()) >= (Some(6), Some(16));
    let exit = TraceReader::open(&trace).unwrap().status().unwrap().exit;
    assert_eq!(exit, is_told.then_some(Exit::Code(0)));
}

/// Nothing was told, and the agent took the file that it had made for the trace.
#[test]
fn a_collector_that_cannot_begin_tells_the_agent_why() {
    use std::os::unix::process::CommandExt;
    let place = Place::new();
    let library = refuses(&place, &["pipe2"]);
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    let number = theirs.as_raw_fd();
    let mut command = place.gpuspy(&["collect", "--inherit-fd", "207", "--output", "own.gspy"]);
    let inherit = move || {
        // SAFETY: the call takes numbers and is async-signal-safe.
        unsafe { libc::dup2(number, 207) };
        Ok(())
    };
    // SAFETY: the closure is async-signal-safe.
    unsafe { command.pre_exec(inherit) };
    let output = command.env("LD_PRELOAD", library).output().unwrap();
    drop(theirs);
    let mut told = String::new();
    ours.read_to_string(&mut told).unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(told.starts_with("failed: cannot create a pipe: Operation not permitted"), "{told}");
}

/// Starts a collector as an agent does, and hands it a segment. Returns both, and the connection between them.
fn started_by_an_agent(place: &Place) -> (FakeAgent, UnixStream, Child) {
    use std::os::unix::process::CommandExt;
    let (ours, theirs) = UnixStream::pair().unwrap();
    let (number, kept) = (theirs.as_raw_fd(), ours.as_raw_fd());
    let mut command = place.gpuspy(&["collect", "--inherit-fd", "207", "--output", "own.gspy"]);
    let inherit = move || {
        // SAFETY: these calls take numbers and are async-signal-safe. `kept` is duplicated without close-on-exec, as a leak that the
        // collector must close.
        unsafe {
            libc::dup2(number, 207);
            libc::dup2(kept, 209);
        }
        Ok(())
    };
    // SAFETY: the closure is async-signal-safe.
    unsafe { command.pre_exec(inherit) };
    let collector = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(theirs);
    let agent = FakeAgent::new(gpuspy_wire::segment::Layout::OURS);
    agent.greet(&ours);
    agent.wait_attached();
    (agent, ours, collector)
}

#[test]
fn a_collector_started_by_an_agent_is_silent_and_ends_with_it() {
    let place = Place::new();
    let (agent, ours, collector) = started_by_an_agent(&place);
    let mut thread = agent.thread();
    for _ in 0..11 {
        thread.launch(1);
    }
    agent.exiting();
    // The session ends here. If the collector had kept its copy of this end (209), it would wait forever.
    drop(ours);
    let output = collector.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(output.stdout.is_empty() && output.stderr.is_empty());
    assert_eq!(launches(&place.path("own.gspy")), 11);
}

/// SIGUSR1, which Slurm sends to all of a job before its time is up, ended it.
#[test]
fn no_signal_that_is_sent_to_all_of_a_job_ends_a_collector_that_an_agent_started() {
    use libc::{SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGKILL, SIGSEGV, SIGSTOP, SIGSYS, SIGTRAP};
    let place = Place::new();
    let (agent, ours, collector) = started_by_an_agent(&place);
    let mut thread = agent.thread();
    thread.launch(1);
    // Those for a fault of its own, and those that nobody can ignore. libc has 32 and 33 for itself.
    let others = [SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGKILL, SIGSEGV, SIGSTOP, SIGSYS, SIGTRAP, 32, 33];
    for signal in (1..=libc::SIGRTMAX()).filter(|signal| !others.contains(signal)) {
        // SAFETY: kill takes numbers; the child has not been waited for.
        assert_eq!(unsafe { libc::kill(collector.id() as i32, signal) }, 0, "{signal}");
    }
    thread.launch(1);
    agent.exiting();
    drop(ours);
    let output = collector.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", output.status);
    assert_eq!(launches(&place.path("own.gspy")), 2);
}
