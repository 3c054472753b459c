//! Reports of runs: on the screen, as JSON, from files and directories, and errors.

#[allow(dead_code, reason = "shared with tests that use the rest of it")]
mod collect_support;

use collect_support::place::{Place, run_script, stderr};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::{Duration, Instant};

#[test]
fn the_simulated_agent_launches() {
    collect_support::launch_for_a_collector();
}

fn json(text: &[u8]) -> Value {
    serde_json::from_slice(text).unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(text)))
}

#[test]
fn a_run_ends_with_its_report_on_stderr() {
    let place = Place::new();
    let output = run_script(&place, &["-o", "x.gspy"], "echo app; exec $AGENT >/dev/null");
    assert_eq!(output.stdout, b"app\n");
    let told = stderr(&output);
    assert!(told.contains("saxpy") && told.contains("10 launches"), "{told}");
    assert!(
        told.ends_with("gpuspy: the trace is x.gspy; read it again with: gpuspy report x.gspy\n"),
        "{told}"
    );
    assert!(!place.path("x.json").exists());
    let again = place.gpuspy(&["report", "x.gspy"]).output().unwrap();
    assert_eq!((again.status.code(), stderr(&again)), (Some(0), String::new()));
    let screen = String::from_utf8(again.stdout).unwrap();
    assert!(told.starts_with(&screen), "the same screen:\n{told}\n{screen}");
}

#[test]
fn json_is_written_beside_the_trace_and_to_stdout() {
    let place = Place::new();
    let output = run_script(&place, &["-o", "x.gspy", "--json", "--quiet"], "exec $AGENT >/dev/null 2>&1");
    assert_eq!(stderr(&output), "");
    let written = fs::read(place.path("x.json")).unwrap();
    let printed = place.gpuspy(&["report", "x.gspy", "--json"]).output().unwrap();
    assert_eq!(json(&written), json(&printed.stdout));
    let report = json(&written);
    assert_eq!(report["coverage"]["launches"], 10);
    assert_eq!(report["kernels"][0]["name"], "saxpy");
}

#[test]
fn a_directory_is_one_run() {
    let place = Place::new();
    run_script(&place, &["-o", "x.gspy", "--quiet"], "$AGENT >/dev/null & $AGENT >/dev/null; wait");
    let output = place.gpuspy(&["report", "x.gspy", "--json"]).output().unwrap();
    let report = json(&output.stdout);
    assert_eq!(report["coverage"]["launches"], 20);
    assert_eq!(report["processes"].as_array().unwrap().len(), 2);
    // A trace that cannot be read is named; the others are reported.
    fs::write(place.path("x.gspy/zzz.gspy"), "no trace").unwrap();
    let output = place.gpuspy(&["report", "x.gspy", "--json"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let report = json(&output.stdout);
    assert_eq!(report["coverage"]["launches"], 20);
    let unread = serde_json::json!([{ "path": "x.gspy/zzz.gspy", "why": "it is not a gpuspy trace" }]);
    assert_eq!(report["unread"], unread);
    assert!(stderr(&output).contains("cannot read x.gspy/zzz.gspy"), "{}", stderr(&output));
    let screen = place.gpuspy(&["report", "x.gspy"]).output().unwrap().stdout;
    let screen = String::from_utf8(screen).unwrap();
    assert!(screen.contains("\nunreadable trace: x.gspy/zzz.gspy: it is not a gpuspy trace."), "{screen}");
}

#[test]
fn every_command_reports_that_a_trace_is_cut() {
    let place = Place::new();
    run_script(&place, &["-o", "x.gspy", "--quiet"], "exec $AGENT >/dev/null");
    let whole = fs::read(place.path("x.gspy")).unwrap();
    fs::write(place.path("cut.gspy"), &whole[..whole.len() - 3]).unwrap();
    for command in [
        &["export", "cut.gspy", "-o", "cut.json"][..],
        &["export", "cut.gspy"],
        &["report", "cut.gspy", "--operations"],
    ] {
        let said = stderr(&place.gpuspy(command).output().unwrap());
        let mut lines = said.lines();
        let cut = "gpuspy: cut.gspy is cut: the file ends in the middle of a chunk";
        assert_eq!(lines.next(), Some(cut), "{command:?}");
        assert!(lines.all(|line| line.starts_with("gpuspy: wrote cut.json (")), "{command:?}: {said}");
    }
    let screen = place.gpuspy(&["report", "cut.gspy"]).output().unwrap().stdout;
    let screen = String::from_utf8(screen).unwrap();
    assert!(screen.contains("\ncut trace: ") && !screen.contains("damaged trace"), "{screen}");
}

#[test]
fn an_export_into_a_directory_names_the_files_it_wrote() {
    let place = Place::new();
    run_script(&place, &["-o", "x.gspy", "--quiet"], "exec $AGENT >/dev/null");
    let output = place.gpuspy(&["export", "x.gspy", "-o", "out/"]).output().unwrap();
    let names: Vec<String> = fs::read_dir(place.path("out"))
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(names.len(), 1);
    assert_eq!(stderr(&output), format!("gpuspy: wrote {} into out/\n", names[0]));
}

#[test]
fn errors_have_the_systems_text_and_advice() {
    let place = Place::new();
    run_script(&place, &["-o", "x.gspy", "--quiet"], "exec $AGENT >/dev/null");
    for (command, text, advice) in [
        (
            &["run", "-o", "/no/such/x.gspy", "--", "true"][..],
            "/no/such: No such file or directory; ",
            "choose another directory with -o",
        ),
        (
            &["export", "x.gspy", "-o", "/no/such/x.json"],
            "/no/such/x.json: No such file or directory; ",
            "create its directory first",
        ),
        (
            &["run", "--", "no-such-program"],
            "no-such-program: No such file or directory; ",
            "check its path, PATH",
        ),
        (&["run", "--", "/"], "/: Permission denied; ", "chmod +x"),
        (&["collect", "--dir", "/proc/no"], "/proc/no: No such file or directory; ", "choose another path"),
        (&["report", "/no/such.gspy"], "/no/such.gspy: No such file or directory", ""),
        (&["collect"], "", "--dir DIR or --pid PID"),
    ] {
        let said = stderr(&place.gpuspy(command).output().unwrap());
        assert!(said.contains(text) && said.contains(advice), "{command:?}: {said}");
        assert!(!said.contains("os error"), "{command:?}: {said}");
    }
}

#[test]
fn an_export_replaces_an_earlier_export_and_nothing_else() {
    let place = Place::new();
    run_script(&place, &["-o", "x.gspy", "--quiet"], "exec $AGENT >/dev/null");
    let export = |output: &str| {
        let done = place.gpuspy(&["export", "x.gspy", "-o", output]).output().unwrap();
        (done.status.code(), stderr(&done))
    };
    for file in ["x.json", "x.json.gz"] {
        fs::write(place.path(file), "").unwrap();
        for _ in ["an empty file", "an earlier export"] {
            let (code, said) = export(file);
            assert_eq!(code, Some(0), "{said}");
            assert!(said.starts_with(&format!("gpuspy: wrote {file} (")) && said.ends_with("B)\n"), "{said}");
        }
    }
    fs::write(place.path("notes.json"), "{}").unwrap();
    for (output, why) in [
        ("notes.json", "notes.json exists and is not an export: choose another path with -o, or remove it"),
        ("x.gspy", "x.gspy exists and is not an export: choose another path with -o, or remove it"),
        (".", ". is not empty: choose another path with -o, or remove it"),
        ("./", "./ is not empty: choose another path with -o, or remove it"),
    ] {
        assert_eq!(export(output), (Some(2), format!("gpuspy: {why}\n")));
    }
    assert_eq!(fs::read(place.path("notes.json")).unwrap(), b"{}");
    fs::create_dir(place.path("empty")).unwrap();
    let (code, said) = export("empty");
    assert!(code == Some(0) && said.ends_with(".json.gz into empty\n"), "{said}");
    assert_eq!(export("/dev/null"), (Some(0), "gpuspy: wrote /dev/null\n".to_owned()));
}

#[test]
fn an_empty_capture_range_is_allowed_as_a_variable_only() {
    let place = Place::new();
    let run = |arguments: &[&str], range: Option<&str>| {
        let mut command = place.gpuspy(&[&["run"], arguments, &["--", "true"]].concat());
        command.env_remove("GPUSPY_CAPTURE_RANGE");
        command.envs(range.map(|range| ("GPUSPY_CAPTURE_RANGE", range)));
        command.output().unwrap().status.code()
    };
    assert_eq!(run(&[], Some("")), Some(0));
    assert_eq!(run(&[], Some("soon")), Some(2));
    assert_eq!(run(&["--capture-range", ""], None), Some(2));
    assert_eq!(run(&["--capture-range", "delay=200ms"], None), Some(0));
}

#[test]
fn a_bad_value_is_attributed_to_its_variable_or_option() {
    let place = Place::new();
    let said = |arguments: &[&str], budget: &str| {
        stderr(&place.gpuspy(arguments).env("GPUSPY_BUDGET", budget).output().unwrap())
    };
    let needed = ": a percentage above 0 and up to 100 is needed";
    let of_variable = said(&["run", "--", "true"], "much");
    assert!(of_variable.contains(&format!("'much' for 'GPUSPY_BUDGET'{needed}")), "{of_variable}");
    let of_command = said(&["run", "--", "true", "--budget"], "much");
    assert!(of_command.contains("for 'GPUSPY_BUDGET'"), "the program's own option: {of_command}");
    for typed in [&["run", "--budget", "much", "--", "true"][..], &["run", "--budget=much", "--", "true"]] {
        assert!(said(typed, "much").contains("for '--budget <PERCENT>'"), "{typed:?}");
    }
    let negative = said(&["report", "x", "--top", "-1"], "5");
    assert!(negative.contains("a number of 1 or more is needed"), "{negative}");
}

#[test]
fn hidden_options_are_not_completed() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script =
            String::from_utf8(place.gpuspy(&["completions", shell]).output().unwrap().stdout).unwrap();
        assert!(script.contains("--budget") || script.contains("-l budget"), "{shell}");
        for hidden in ["inherit-fd", "doctor-probe", "demo-workload"] {
            assert!(!script.contains(hidden), "{shell}: {hidden}");
        }
    }
    let usage = place.gpuspy(&["collect", "-o", "x"]).output().unwrap();
    assert!(!stderr(&usage).contains("inherit"), "{}", stderr(&usage));
    assert_eq!(usage.status.code(), Some(2));
}

#[test]
fn what_is_no_trace_is_exit_3() {
    let place = Place::new();
    fs::create_dir(place.path("empty")).unwrap();
    fs::write(place.path("noise.gspy"), [7; 5000]).unwrap();
    for path in ["absent.gspy", "empty", "noise.gspy"] {
        let output = place.gpuspy(&["report", path]).output().unwrap();
        assert_eq!(output.status.code(), Some(3), "{path}");
        assert!(output.stdout.is_empty());
        assert!(
            stderr(&output).starts_with("gpuspy: ") && stderr(&output).contains(path),
            "{}",
            stderr(&output)
        );
        assert_eq!(stderr(&output).lines().count(), 1, "{}", stderr(&output));
    }
}

#[test]
fn a_damaged_trace_is_reported_with_its_losses() {
    let place = Place::new();
    run_script(&place, &["-o", "x.gspy", "--quiet"], "exec $AGENT >/dev/null");
    let whole = fs::read(place.path("x.gspy")).unwrap();
    let mut reported = 0;
    for at in (0..whole.len()).step_by(whole.len() / 60 + 1) {
        let mut flipped = whole.clone();
        flipped[at] ^= 0x10;
        for bytes in [&whole[..at], &flipped] {
            fs::write(place.path("bad.gspy"), bytes).unwrap();
            let output = place.gpuspy(&["report", "bad.gspy"]).output().unwrap();
            let code = output.status.code();
            assert!(code == Some(0) || code == Some(3), "byte {at}: {code:?} {}", stderr(&output));
            assert!(!stderr(&output).contains("panicked"), "{}", stderr(&output));
            reported += usize::from(code == Some(0));
        }
    }
    assert!(reported > 0, "some of them must be readable");
}

#[test]
fn a_closed_pipe_is_no_error() {
    let place = Place::new();
    run_script(&place, &["-o", "x.gspy", "--quiet"], "exec $AGENT >/dev/null");
    let mut report =
        place.gpuspy(&["report", "x.gspy"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(report.stdout.take());
    let output = report.wait_with_output().unwrap();
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), String::new()));
}

#[test]
fn a_growing_trace_is_waited_for_and_then_read_as_it_is() {
    let place = Place::new();
    let script = "FAKE_LINGERS=1 $AGENT 2>&1 & echo $! >pid; wait";
    let agent = format!(
        "{} --exact the_simulated_agent_launches --nocapture",
        std::env::current_exe().unwrap().display()
    );
    let mut run = place.gpuspy(&["run", "--quiet", "-o", "x.gspy", "--", "sh", "-c", script]);
    let mut run = run.env("AGENT", agent).stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(run.stdout.as_mut().unwrap()).lines();
    assert!(lines.map_while(Result::ok).any(|line| line.ends_with("lingering")));
    // The program does not wait for its collector to begin the trace.
    let began = Instant::now();
    while fs::metadata(place.path("x.gspy")).map_or(0, |file| file.len()) == 0 {
        assert!(began.elapsed() < Duration::from_secs(60), "there is no trace");
        std::thread::sleep(Duration::from_millis(5));
    }
    let output = place.gpuspy(&["report", "x.gspy", "--json"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stderr(&output).contains("x.gspy is still being written"), "{}", stderr(&output));
    assert_eq!(
        json(&output.stdout)["coverage"]["launches"],
        10,
        "what was published is on disk within moments"
    );
    let pid: i32 = fs::read_to_string(place.path("pid")).unwrap().trim().parse().unwrap();
    // SAFETY: kill takes numbers; the process is a sleeping descendant of this test.
    assert_eq!(unsafe { libc::kill(pid, libc::SIGKILL) }, 0);
    run.wait().unwrap();
}
