//! The bare preload: `LD_PRELOAD=libgpuspy.so program`, and nothing else.

use super::{files, launches, the_line};
use gpuspy_tests::{Done, Run, agent, gpuspy, program, report};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Runs the command that the line suggests, in a shell in another directory, and returns its output.
fn follow(line: &str) -> String {
    let (_, command) = line.split_once("read it with: ").unwrap_or_else(|| panic!("{line}"));
    let output = Command::new("sh").arg("-c").arg(command).current_dir("/").output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command}: {error}");
    assert_eq!(error, "");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_trace_goes_into_the_working_directory_and_one_line_names_it() {
    let done = Run::of("plain_work").preloaded().succeeded();
    let name = format!("gpuspy-plain_work-{}.gspy", done.said()["pid"]);
    let line = the_line(&done);
    assert!(line.contains(&*done.folder().join(&name).to_string_lossy()), "{line}");
    let screen = follow(line);
    assert!(screen.contains("plain_10us"), "{screen}");
    assert_eq!(files(&done), [name]);
    let report = done.report();
    assert_eq!(launches(&report), 200);
    assert_eq!(report["processes"][0]["ending"], "exited");
}

#[test]
fn the_suggested_command_works_for_folders_with_shell_characters() {
    let run = Run::of("plain_work");
    let folder = run.folder().join("it's a $HOME; \"x\"");
    std::fs::create_dir(&folder).unwrap();
    let mut command = run.preloaded_command();
    command.current_dir(&folder);
    let done = run.finish(command).succeeded();
    assert!(follow(the_line(&done)).contains("plain_10us"));
}

#[test]
fn a_report_right_after_the_program_ends_is_complete() {
    for count in [1, 30, 300, 20_000] {
        let run = Run::of("flood").arg(count.to_string());
        let command = run.preloaded_command();
        let done = run.finish(command).succeeded();
        // Not `Done::report`, which waits for the file.
        let (_, path) = the_line(&done).rsplit_once(' ').unwrap();
        assert_eq!(launches(&report(Path::new(path))), count, "{}", done.stderr);
    }
}

#[test]
fn a_program_with_a_single_cuda_call_is_recorded() {
    for _ in 0..10 {
        let done = Run::of("init_only").preloaded().succeeded();
        let report = done.report();
        assert_eq!(launches(&report), 0);
        assert_eq!(report["processes"][0]["ending"], "exited");
        let verdict = report["verdict"]["text"].to_string();
        let is_told = verdict.contains("launched nothing on the GPU") && !verdict.contains("--timing");
        assert!(is_told, "{verdict}");
        assert!(the_line(&done).contains("the trace is"));
    }
}

#[test]
fn gpuspy_quiet_prints_nothing_and_still_traces() {
    let done = Run::of("plain_work").env("GPUSPY_QUIET", "1").preloaded().succeeded();
    assert_eq!(done.stderr, "");
    assert_eq!(launches(&done.report()), 200);
}

#[test]
fn a_closed_stderr_pipe_does_not_change_the_exit_code() {
    for collector in [None, Some("/no/such/gpuspy")] {
        let run = Run::of("plain_work");
        let program = run.preloaded_command();
        // `true` has ended by the time the program ends; the program's own output goes elsewhere.
        let script = "{ sleep 0.3; \"$0\" >/dev/null; } 2>&1 | true; exit ${PIPESTATUS[0]}";
        let mut shell = Command::new("bash");
        shell.arg("-c").arg(script).arg(program.get_program()).current_dir(run.folder());
        for (name, value) in program.get_envs() {
            match value {
                Some(value) => shell.env(name, value),
                None => shell.env_remove(name),
            };
        }
        if let Some(collector) = collector {
            shell.env("GPUSPY_COLLECTOR", collector);
        }
        assert_eq!(shell.status().unwrap().code(), Some(0));
    }
}

/// The line was written into the program's file, which had the number of a stderr that was closed.
#[test]
fn no_line_is_written_into_a_file_that_has_the_number_of_stderr() {
    for collector in [None, Some("/no/such/gpuspy")] {
        for script in ["exec \"$0\" own", "exec \"$0\" own 2>&-"] {
            let run = Run::command("sh").arg("-c").arg(script).arg(program("file_as_stderr"));
            let run = match collector {
                Some(path) => run.env("GPUSPY_COLLECTOR", path),
                None => run,
            };
            let done = run.preloaded().succeeded();
            assert_eq!(std::fs::read_to_string(done.folder().join("own")).unwrap(), "", "{script}");
            assert_eq!(done.stderr, "", "{script}");
            if collector.is_none() {
                assert_eq!(launches(&done.report()), done.said()["launches"]);
            }
        }
    }
}

#[test]
fn gpuspy_0_disables_the_agent() {
    let done = Run::of("plain_work").env("GPUSPY", "0").preloaded().succeeded();
    assert_eq!(done.stderr, "");
    assert_eq!(done.said()["launches"], 200);
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(files(&done), [] as [&str; 0]);
}

/// Keeps root from writing where permissions forbid it; other users have no such right to lose.
fn without_override(command: &mut Command) {
    // linux/capability.h: CAP_DAC_OVERRIDE. Without it in the bounding set, exec does not give it to root.
    const CAP_DAC_OVERRIDE: libc::c_ulong = 1;
    let drop = || {
        // SAFETY: takes numbers only; a refusal (not root) does no harm.
        unsafe { libc::prctl(libc::PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, 0, 0, 0) };
        Ok(())
    };
    // SAFETY: the closure makes one system call, and neither allocates nor locks.
    unsafe { command.pre_exec(drop) };
}

/// Runs plain work in a directory that cannot be written, and returns the path of the trace that the line names.
fn in_unwritable_directory(variables: &[(&str, &str)]) -> (Done, PathBuf) {
    let run = Run::of("plain_work");
    let root = run.folder().to_owned();
    let closed = root.join("closed");
    std::fs::create_dir(&closed).unwrap();
    std::fs::set_permissions(&closed, PermissionsExt::from_mode(0o555)).unwrap();
    let mut command = run.preloaded_command();
    without_override(&mut command);
    command.current_dir(&closed).env_remove("TMPDIR");
    for (name, folder) in variables {
        std::fs::create_dir(root.join(folder)).unwrap();
        command.env(name, root.join(folder));
    }
    let done = run.finish(command).succeeded();
    let (_, path) = the_line(&done).rsplit_once(' ').unwrap();
    let path = PathBuf::from(path);
    assert_eq!(launches(&report(&path)), 200);
    assert_eq!(std::fs::read_dir(&closed).unwrap().count(), 0);
    (done, path)
}

#[test]
fn an_unwritable_directory_sends_the_trace_to_gpuspy_dir() {
    let (done, path) = in_unwritable_directory(&[("GPUSPY_DIR", "mine"), ("TMPDIR", "tmp")]);
    assert_eq!(path.parent(), Some(&*done.folder().join("mine")));
}

#[test]
fn without_gpuspy_dir_the_trace_goes_to_tmpdir() {
    let (done, path) = in_unwritable_directory(&[("TMPDIR", "tmp")]);
    assert_eq!(path.parent(), Some(&*done.folder().join("tmp")));
}

#[test]
fn without_gpuspy_dir_and_tmpdir_the_trace_goes_to_tmp() {
    let (_done, path) = in_unwritable_directory(&[]);
    assert_eq!(path.parent(), Some(Path::new("/tmp")));
    std::fs::remove_file(path).unwrap();
}

/// The trace lay in /tmp, whatever the variables said.
#[test]
fn a_removed_working_directory_sends_the_trace_to_gpuspy_dir_or_tmpdir() {
    for variable in ["GPUSPY_DIR", "TMPDIR"] {
        let run = Run::command("sh").arg("-c").arg("cd gone && rmdir ../gone && exec \"$0\"");
        let run = run.arg(program("plain_work"));
        let [gone, named] = ["gone", "named"].map(|name| run.folder().join(name));
        std::fs::create_dir(&gone).unwrap();
        std::fs::create_dir(&named).unwrap();
        let done = run.env(variable, &named).preloaded().succeeded();
        let (_, path) = the_line(&done).rsplit_once(' ').unwrap();
        assert_eq!(Path::new(path).parent(), Some(&*named), "{variable}");
        assert_eq!(launches(&report(Path::new(path))), 200, "{variable}");
    }
}

/// The library was looked for where the program had gone.
#[test]
fn a_library_with_a_relative_path_finds_its_collector_from_any_directory() {
    let script = "import ctypes, os
os.chdir('elsewhere')
ctypes.CDLL('libcuda.so.1').cuInit(0)";
    let run = Run::command("python3").arg("-c").arg(script);
    let elsewhere = run.folder().join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    symlink(agent(), run.folder().join("libgpuspy.so")).unwrap();
    let mut command = run.plain_command();
    command.env("LD_PRELOAD", "./libgpuspy.so");
    let done = run.finish(command).succeeded();
    // Where python3 is a script that starts the interpreter, the loader complains of the library in the script's own children.
    let line = done.stderr.lines().find(|line| line.starts_with("gpuspy: the trace is "));
    let (_, path) = line.and_then(|line| line.rsplit_once(' ')).unwrap_or_else(|| panic!("{}", done.stderr));
    let path = Path::new(path);
    assert_eq!(path.parent(), Some(&*elsewhere), "{}", done.stderr);
    report(path);
}

/// The trace lay where the program had gone since, and such a collector could not be started.
#[test]
fn relative_paths_are_relative_to_where_the_first_call_was_made() {
    let script = "import ctypes, os
ctypes.CDLL('libcuda.so.1').cuInit(0)
os.chdir('elsewhere')";
    let run = Run::command("python3").arg("-c").arg(script);
    let run = run.env("GPUSPY_OUTPUT", "traces/run.gspy").env("GPUSPY_COLLECTOR", "bin/gpuspy");
    let [elsewhere, traces, bin] = ["elsewhere", "traces", "bin"].map(|name| run.folder().join(name));
    for folder in [&elsewhere, &traces, &bin] {
        std::fs::create_dir(folder).unwrap();
    }
    symlink(gpuspy(), bin.join("gpuspy")).unwrap();
    let done = run.preloaded().succeeded();
    let (_, path) = the_line(&done).rsplit_once(' ').unwrap();
    assert_eq!(Path::new(path), traces.join("run.gspy"), "{}", done.stderr);
    report(Path::new(path));
}

/// It could not be started, and `gpuspy` on PATH was not looked for.
#[test]
fn a_directory_beside_the_library_is_not_taken_for_the_collector() {
    let run = Run::of("plain_work");
    let library = run.folder().join("libgpuspy.so");
    std::fs::copy(agent(), &library).unwrap();
    std::fs::create_dir(run.folder().join("gpuspy")).unwrap();
    let mut command = run.plain_command();
    command.env("LD_PRELOAD", library).env("PATH", gpuspy().parent().unwrap());
    let done = run.finish(command).succeeded();
    assert!(the_line(&done).contains("the trace is"), "{}", done.stderr);
    assert_eq!(launches(&done.report()), 200);
}

#[test]
fn a_missing_collector_is_reported_in_one_line_and_the_program_runs() {
    let done = Run::of("plain_work").env("GPUSPY_COLLECTOR", "/no/such/gpuspy").preloaded().succeeded();
    let line = the_line(&done);
    assert!(line.contains("runs unobserved") && line.contains("GPUSPY_COLLECTOR"), "{line}");
    assert_eq!(done.said()["launches"], 200);
    assert_eq!(files(&done), [] as [&str; 0]);
}

#[test]
fn simultaneous_first_calls_of_many_threads_start_one_session() {
    for _ in 0..20 {
        let done = Run::of("first_calls").preloaded().succeeded();
        assert_eq!(done.said()["agent_threads"], 1);
        assert!(the_line(&done).contains("the trace is"));
        assert_eq!(files(&done).len(), 1, "{:?}", files(&done));
    }
}

/// The kernel waits for all processors, for milliseconds, before it enlarges the table of a process with several threads.
#[test]
fn the_first_call_of_a_process_with_threads_does_not_wait_for_a_larger_table_of_descriptors() {
    let program = || Run::of("first_calls");
    for done in [program().preloaded().succeeded(), program().observed().succeeded()] {
        let room = &done.said()["descriptors"];
        assert_eq!(room[0], room[1], "{}", done.stdout);
    }
}

#[test]
fn without_a_collector_recording_stops() {
    let unreachable = ("GPUSPY_SOCKET", "/no/such/socket");
    for (name, value) in [unreachable, ("GPUSPY_COLLECTOR", "/no/such/gpuspy")] {
        let done = Run::of("unobserved_threads").env(name, value).preloaded().succeeded();
        assert!(the_line(&done).contains("runs unobserved"));
        // Header and slots, the poller's ring, and the first thread's ring in up to three sizes.
        assert!(done.said()["mappings"].as_u64().unwrap() <= 7, "{}", done.stdout);
    }
}

/// Writes a collector that keeps what it was given open, and starts only when the file `go` exists.
fn late_collector(folder: &Path) -> PathBuf {
    let script = folder.join("collector");
    let text = format!(
        "#!/bin/sh\nn=0\nwhile [ ! -e {0}/go ] && [ $n -lt 600 ]; do sleep 0.1; n=$((n+1)); done\nexec {1} \"$@\"\n",
        folder.display(),
        gpuspy().display()
    );
    std::fs::write(&script, text).unwrap();
    std::fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).unwrap();
    script
}

#[test]
fn a_pipe_closes_with_the_program_and_not_with_its_collector() {
    let run = Run::of("plain_work");
    let collector = late_collector(run.folder());
    for redirect in ["", "2>&1"] {
        let program = run.preloaded_command();
        let script = format!("\"$0\" {redirect} | cat");
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(script).arg(program.get_program()).env("GPUSPY_COLLECTOR", &collector);
        for (name, value) in program.get_envs() {
            match value {
                Some(value) => shell.env(name, value),
                None => shell.env_remove(name),
            };
        }
        let began = Instant::now();
        let output = shell.current_dir(run.folder()).stdin(Stdio::null()).output().unwrap();
        // The collector would have kept the pipe open for a minute.
        assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
        let output_text =
            String::from_utf8_lossy(if redirect.is_empty() { &output.stderr } else { &output.stdout });
        assert!(output_text.contains("gpuspy: the trace is"), "{output_text}");
    }
    // The collectors start late, and lose nothing.
    std::fs::write(run.folder().join("go"), "").unwrap();
    let traces = || {
        let entries = std::fs::read_dir(run.folder()).unwrap().map(|e| e.unwrap().path());
        entries.filter(|p| p.extension().is_some_and(|e| e == "gspy")).collect::<Vec<_>>()
    };
    assert_eq!(traces().len(), 2);
    for trace in traces() {
        assert_eq!(launches(&report(&trace)), 200);
    }
}
