//! How the commands behave for the person who types them: help, exit codes, errors, pipes, a terminal.

use gpuspy_tests::{Run, gpuspy, program, sim_lib, terminal};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Returns the commands that the help lists.
fn commands() -> Vec<String> {
    let help = text(&run_gpuspy(&["--help"]).stdout);
    let lines =
        help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let names = lines.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names = names.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help");
    let names: Vec<String> = names.map(str::to_owned).collect();
    for known in ["run", "collect", "report", "doctor", "demo", "completions", "man"] {
        assert!(names.iter().any(|name| name == known), "{known} is not among {names:?}");
    }
    names
}

/// Runs `gpuspy` with these arguments, with every variable set that makes panics and errors verbose.
fn run_gpuspy(arguments: &[&str]) -> Output {
    let mut command = Command::new(gpuspy());
    command.args(arguments).env("RUST_BACKTRACE", "full").env("RUST_LIB_BACKTRACE", "1").stdin(Stdio::null());
    command.current_dir(std::env::temp_dir()).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Help that could not be written was success, and `--verbose` alone listed the commands that are not for people.
#[test]
fn help_that_cannot_be_written_and_an_option_without_a_command_are_refused() {
    for arguments in [&["--help"][..], &["report", "--help"], &["--version"]] {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let output = Command::new(gpuspy()).args(arguments).stdout(full).output().unwrap();
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.starts_with("gpuspy: cannot write to stdout: "), "{arguments:?}: {said}");
    }
    let output = run_gpuspy(&["--verbose"]);
    assert_eq!(
        (output.status.code(), &*text(&output.stderr)),
        (Some(2), "gpuspy: --verbose is for --version\n")
    );
    let nothing = run_gpuspy(&[]);
    assert!(
        nothing.status.code() == Some(2) && text(&nothing.stderr).contains("Usage: gpuspy"),
        "{nothing:?}"
    );
}

#[test]
fn every_command_helps_with_examples() {
    for command in commands() {
        let output = run_gpuspy(&[&command, "--help"]);
        let help = text(&output.stdout);
        assert_eq!(output.status.code(), Some(0), "{command}");
        assert!(help.contains("Examples:\n  "), "{help}");
        assert!(help.contains(&format!("gpuspy {command} ")), "{help}");
    }
    for hidden in ["doctor-probe", "demo-workload"] {
        assert!(!commands().contains(&hidden.to_owned()), "{hidden} is hidden from help");
    }
}

#[test]
fn errors_are_one_sentence_and_the_exit_code_says_whose_fault_it_is() {
    let place = tempfile::tempdir().unwrap();
    let rubbish = place.path().join("rubbish.gspy");
    std::fs::write(&rubbish, "rubbish").unwrap();
    let rubbish = rubbish.to_str().unwrap();
    let empty = place.path().to_str().unwrap();
    for (code, arguments) in [
        (3, &["report", "/no/such.gspy"][..]),
        (3, &["report", rubbish]),
        (3, &["report", rubbish, "--operations"]),
        (3, &["export", "/no/such.gspy"]),
        (3, &["export", rubbish, "-o", "-"]),
        (3, &["export", empty]),
        (2, &["export", rubbish, "--since", "2s", "--until", "2s"]),
        (2, &["run", "-o", "/no/such/place.gspy", "--", "true"]),
        (2, &["collect", "--pid", "4194304"]),
        (2, &["collect", "--dir", "/proc/no"]),
        (2, &["man", "nothing"]),
        (2, &["report", rubbish, "--since", "2s", "--until", "1500ms"]),
        (2, &["report", rubbish, "--last", "0s"]),
        (2, &["export", rubbish, "--last", "0s"]),
        (127, &["run", "--", "no-such-program"]),
        (126, &["run", "--", empty]),
    ] {
        let output = run_gpuspy(arguments);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
        assert_eq!(said.lines().count(), 1, "{arguments:?}: {said}");
        assert!(said.starts_with("gpuspy: ") && !said.contains("panicked"), "{said}");
        assert_eq!(text(&output.stdout), "", "{arguments:?}");
    }
}

#[test]
fn bad_usage_exits_with_2_and_says_what_is_valid() {
    for arguments in [
        &["nonsense"][..],
        &[],
        &["run"],
        &["run", "--budget", "0", "--", "true"],
        &["report"],
        &["export"],
        &["export", "x.gspy", "--since", "5"],
        &["export", "x.gspy", "--device", "zero"],
        &["report", "x", "--section", "kernels,nonsense"],
        &["report", "x", "--sort", "nonsense"],
        &["report", "x", "--json", "--section", "kernels"],
        &["report", "x", "--top", "0"],
        &["report", "x", "--width", "79"],
        &["report", "x", "--since", "15"],
        &["report", "x", "--since", "15s", "--last", "1s"],
        &["export", "x", "--step", "3", "--last", "1s"],
        &["report", "x", "--kernel", "gemm("],
        &["collect"],
        &["doctor", "--timeout", "0"],
        &["completions", "nosuchshell"],
    ] {
        let output = run_gpuspy(arguments);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains("--help") || said.contains("Usage:"), "{arguments:?}: {said}");
        assert!(!said.contains("backtrace"), "{said}");
    }
}

#[test]
fn invalid_report_options_are_refused_with_the_valid_values() {
    for (arguments, said) in [
        (
            ["--section", "nonsense"],
            "possible values: all, findings, ranks, coverage, gpu, idle, gaps, steps, ranges, kernels",
        ),
        (["--sort", "nonsense"], "possible values: total, count, avg"),
        (["--until", "soon"], "as in 1.5s, 200ms, 10us or 3m"),
        (["--kernel", "gemm("], "unclosed group"),
        (["--width", "79"], "a number of 80 or more is needed"),
    ] {
        let reported = text(&run_gpuspy(&[&["report", "x"][..], &arguments].concat()).stderr);
        assert!(reported.contains(said), "{arguments:?}: {reported}");
    }
}

#[test]
fn a_filter_for_something_that_the_trace_lacks_is_refused_with_what_it_has() {
    let done = Run::of("plain_work").observed().succeeded();
    let trace = done.trace();
    let trace = trace.to_str().unwrap();
    let operations = text(&run_gpuspy(&["report", trace, "--operations"]).stdout);
    let first: serde_json::Value = serde_json::from_str(operations.lines().next().unwrap()).unwrap();
    for (option, value, known) in [
        ("--device", "7", "its devices: 0".to_owned()),
        ("--stream", "424242", format!("its streams: {}", first["stream"])),
        ("--thread", "4194305", format!("its threads: {}", first["tid"])),
        ("--kernel", "no such kernel", "its kernels: plain_10us".to_owned()),
    ] {
        let commands = [&["report"][..], &["report", "--json"], &["report", "--operations"], &["export"]];
        for command in
            commands.into_iter().filter(|c| c[0] == "report" || ["--device", "--stream"].contains(&option))
        {
            let output = run_gpuspy(&[command, &[trace, option, value]].concat());
            let said = text(&output.stderr);
            assert_eq!((output.status.code(), &*text(&output.stdout)), (Some(2), ""), "{command:?}: {said}");
            assert!(said.starts_with(&format!("gpuspy: {option} {value} ")), "{said}");
            assert!(said.contains(&known) && said.lines().count() == 1, "{command:?} {option}: {said}");
        }
    }
    assert_eq!(run_gpuspy(&["report", trace, "--device", "0", "--kernel", "plain"]).status.code(), Some(0));
}

#[test]
fn completions_list_every_command_and_the_shell_accepts_them() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = run_gpuspy(&["completions", shell]);
        let script = text(&output.stdout);
        assert!(output.status.success(), "{shell}");
        for command in commands() {
            assert!(script.contains(&command), "{shell} lacks {command}");
        }
    }
    let script = "source <(\"$0\" completions bash) && COMP_WORDS=(gpuspy rep) COMP_CWORD=1 && \
                  _gpuspy gpuspy rep gpuspy; echo \"${COMPREPLY[@]}\"";
    let output = Command::new("bash").arg("-c").arg(script).arg(gpuspy()).output().unwrap();
    assert_eq!(text(&output.stdout), "report\n", "{}", text(&output.stderr));
}

#[test]
fn every_command_has_a_manual_page() {
    let page = text(&run_gpuspy(&["man"]).stdout);
    assert!(page.contains(".TH gpuspy 1"), "{page}");
    let named: Vec<&str> =
        page.split("gpuspy\\-").skip(1).filter_map(|rest| Some(rest.split_once("(1)")?.0)).collect();
    assert_eq!(named, commands(), "it names pages that there are not");
    for command in commands() {
        assert!(page.contains(&format!("gpuspy\\-{command}(1)")), "{command} is not named: {page}");
        let output = run_gpuspy(&["man", &command]);
        let page = text(&output.stdout);
        assert!(output.status.success(), "{command}");
        assert!(page.contains(&format!(".TH gpuspy-{command} 1")), "{page}");
        assert!(page.contains("Examples:"), "{page}");
    }
    assert_eq!(run_gpuspy(&["man", "doctor-probe"]).status.code(), Some(2));
}

/// No thread can have a stack of this size.
#[test]
fn where_no_thread_can_be_started_collect_says_so_and_run_runs_the_program() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().to_str().unwrap();
    for (arguments, code) in [
        (&["collect", "--dir", folder][..], 2),
        (&["run", "--", "true"], 0),
        (&["run", "--", "sh", "-c", "exit 7"], 7),
    ] {
        let mut command = Command::new(gpuspy());
        command.args(arguments).current_dir(place.path()).stdin(Stdio::null());
        command.env("RUST_MIN_STACK", "1000000000000000");
        let output = command.env("GPUSPY_QUIET", "1").output().unwrap();
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(said.starts_with("gpuspy: no thread can be started for the collector: "), "{said}");
    }
    let help = text(&run_gpuspy(&["--help"]).stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(help.contains("70 on an internal error of gpuspy"), "{help}");
}

/// Runs every command that prints into a pipe that nobody reads.
#[test]
fn a_broken_pipe_is_silent() {
    let done = Run::of("plain_work").observed().succeeded();
    let trace = done.trace();
    let trace = trace.to_str().unwrap();
    for arguments in [
        &["report", trace][..],
        &["report", trace, "--json"],
        &["report", trace, "--operations"],
        &["export", trace],
        &["doctor"],
        &["doctor", "--json"],
        &["completions", "bash"],
        &["man"],
        &["--help"],
        &["--version"],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = Command::new(gpuspy());
        command.args(arguments).env("LD_LIBRARY_PATH", sim_lib()).env_remove("LD_PRELOAD").stdout(writer);
        let output = command.stderr(Stdio::piped()).current_dir(done.folder()).output().unwrap();
        assert_eq!(text(&output.stderr), "", "{arguments:?}");
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
    }
}

#[test]
fn the_suggested_command_works_for_paths_with_shell_characters() {
    let run = Run::of("plain_work");
    let name = "it's a $HOME; trace.gspy";
    let mut command = run.gpuspy_command(&["run", "-o", name, "--no-report", "--"]);
    command.arg(program("plain_work"));
    let done = run.finish(command).succeeded();
    let (_, command) = done.stderr.trim_end().split_once("read it again with: gpuspy ").unwrap();
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(format!("\"$0\" {command}")).arg(gpuspy()).current_dir(done.folder());
    let output = shell.output().unwrap();
    assert!(output.status.success(), "{command}: {}", text(&output.stderr));
    assert!(text(&output.stdout).contains("plain_10us"));
}

/// Returns what the terminal's lines show at the end, and everything that was written.
fn shown(mut terminal: File) -> (Vec<String>, String) {
    let mut bytes = Vec::new();
    // Reading ends with EIO once the last writer has closed.
    let _ = terminal.read_to_end(&mut bytes);
    let all = text(&bytes);
    let line = |line: &str| line.rsplit("\r\x1b[K").next().unwrap().trim_end_matches('\r').to_owned();
    (all.split('\n').map(line).collect(), all)
}

/// Runs `collect --dir` with this stderr while a program runs for some seconds. Returns how long it ran.
fn collect(folder: &Path, options: &[&str], stderr: OwnedFd) -> Duration {
    let mut command = Command::new(gpuspy());
    command.arg("collect").arg("--dir").arg(folder).args(options).stderr(stderr);
    collect_by(command, folder, |collector| collector.id())
}

/// Does the same for a collector started by any command; `pid` returns the collector's pid.
fn collect_by(mut command: Command, folder: &Path, pid: impl FnOnce(&mut Child) -> u32) -> Duration {
    let began = Instant::now();
    let mut started = command.env_remove("GPUSPY_QUIET").spawn().unwrap();
    // The command holds the terminal's end, which has to be closed.
    drop(command);
    let pid = pid(&mut started);
    let socket = folder.join("gpuspy.sock");
    while !socket.exists() {
        assert!(began.elapsed() < Duration::from_secs(20), "the collector does not listen");
        std::thread::sleep(Duration::from_millis(10));
    }
    // 1000 launches a second, for one second.
    let arguments = ["step_20us", "1000", "1", "100", "1"];
    let run = arguments.into_iter().fold(Run::of("paced"), Run::arg).env("GPUSPY_SOCKET", &socket);
    let program = run.preloaded_command();
    run.finish(program).succeeded();
    // SAFETY: signals a process that we started and have not waited for.
    unsafe { libc::kill(pid as i32, libc::SIGINT) };
    assert!(started.wait().unwrap().success());
    began.elapsed()
}

/// Runs the collector from a shell with a terminal of its own, in the background (`&`) or not. Returns whether it drew.
fn drawn_by_a_job(in_background: bool) -> bool {
    let folder = tempfile::tempdir().unwrap();
    let (master, slave) = terminal();
    let script = if in_background {
        "set -m; \"$0\" collect --dir \"$1\" & echo $!; wait $!"
    } else {
        "echo $$; exec \"$0\" collect --dir \"$1\""
    };
    let mut command = Command::new("setsid");
    command.args(["--ctty", "--wait", "bash", "-c", script]).arg(gpuspy()).arg(folder.path());
    command.stdin(slave.try_clone().unwrap()).stderr(slave).stdout(Stdio::piped());
    collect_by(command, folder.path(), |shell| {
        let mut line = String::new();
        BufReader::new(shell.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        line.trim().parse().unwrap()
    });
    !drawn(&shown(master).1).is_empty()
}

/// Returns the progress lines that were drawn and erased again.
fn drawn(all: &str) -> Vec<&str> {
    let is_line = |part: &&str| part.starts_with(|c: char| c.is_ascii_digit()) && part.contains(" records, ");
    all.split("\r\x1b[K").filter(is_line).collect()
}

#[test]
fn collect_in_the_background_leaves_the_shells_terminal_alone() {
    assert!(drawn_by_a_job(false));
    assert!(!drawn_by_a_job(true));
}

#[test]
fn collect_shows_progress_on_a_terminal_and_erases_it() {
    let folder = tempfile::tempdir().unwrap();
    let (master, slave) = terminal();
    let took = collect(folder.path(), &[], slave);
    let (lines, all) = shown(master);
    let drawn = drawn(&all);
    assert!(!drawn.is_empty(), "{all:?}");
    assert!(drawn.len() as u128 <= took.as_millis() / 200 + 1, "{} in {took:?}", drawn.len());
    let records = drawn.last().unwrap().split(' ').next().unwrap();
    assert!(records.parse::<u64>().unwrap() > 100, "{all:?}");
    assert_eq!(lines.len(), 4, "all of them are erased: {lines:?}");
    assert!(lines[0].starts_with("gpuspy: listening;") && lines[1].contains(" has exited; its trace is "));
    // The summary line stays.
    assert!(lines[2].starts_with("gpuspy: ") && lines[2].contains(" records, "), "{lines:?}");
    assert_eq!(lines[3], "");
}

#[test]
fn collect_with_quiet_is_silent() {
    let folder = tempfile::tempdir().unwrap();
    let (master, slave) = terminal();
    collect(folder.path(), &["--quiet"], slave);
    assert_eq!(shown(master).1, "");
}

#[test]
fn collect_draws_no_progress_without_a_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let (mut reader, writer) = std::io::pipe().unwrap();
    collect(folder.path(), &[], writer.into());
    let mut said = String::new();
    reader.read_to_string(&mut said).unwrap();
    assert_eq!(said.lines().count(), 3, "{said:?}");
    assert!(!said.contains('\r') && !said.contains('\x1b'), "{said:?}");
}

/// The system's "Illegal seek" did not say what to do.
#[test]
fn a_trace_that_is_piped_is_refused_with_what_to_do() {
    let mut command = Command::new(gpuspy());
    command.args(["report", "/dev/stdin"]).stdin(Stdio::piped()).stderr(Stdio::piped());
    let output = command.spawn().unwrap().wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    let sentence = "a trace has to be a file: save what is piped to one, and name that\n";
    assert!(text(&output.stderr).ends_with(sentence), "{}", text(&output.stderr));
}
