//! The command that a finding says to check a change with: it is run as it is printed, with the twin that has the fault no
//! more in place of the program.

use gpuspy_tests::{Done, Run, gpuspy, program, until_one_is_good};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// A variable of the simulator and its value, if a client needs one.
type Setting = Option<(&'static str, &'static str)>;

/// Clients of tests/programs, the findings that they have, and the simulator's settings.
const FAULTS: [(&str, &str, Setting); 4] = [
    ("fault_sync_per_step", "sync-per-step", None),
    ("fault_device_wide_sync", "device-wide-sync", None),
    ("fault_host_stall", "host-stall", None),
    (
        "fault_tiny_kernels",
        "tiny-kernels",
        Some(("SIMCUDA_HOST_COST", "launch=30000,record=100,query=100,elapsed=100")),
    ),
];

fn with(run: Run, setting: Setting) -> Run {
    setting.into_iter().fold(run, |run, (name, value)| run.env(name, value))
}

/// Runs a command of a shell in which `gpuspy` is found.
fn shell(command: &str, setting: Setting) -> Done {
    let paths = std::env::var("PATH").unwrap_or_default();
    let path = format!("{}:{paths}", gpuspy().parent().unwrap().display());
    with(Run::command("sh").arg("-c").arg(command).env("PATH", path), setting).plain()
}

/// Returns the command that the first finding of a run is checked with, if that is this finding.
fn verify(done: &Done, id: &str) -> Result<String, String> {
    let findings = done.report()["findings"].clone();
    let first = findings.get(0).filter(|first| first["id"] == id);
    let first = first.ok_or_else(|| format!("first is not {id}: {findings:#}"))?;
    Ok(first["verify"].as_str().unwrap().to_owned())
}

/// Returns what a comparison on the screen says of a finding: gone, new or still.
fn state_of(screen: &str, id: &str) -> Option<String> {
    let rows = screen.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    rows.filter(|row| row.get(1) == Some(&id)).map(|row| row[0].to_owned()).next()
}

fn compared(before: &Path, after: &Path) -> Value {
    let output = Command::new(gpuspy()).arg("diff").arg(before).arg(after).arg("--json").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The most runs of a client and its twin, and of how many the shortest are compared. A short run may promise little by chance,
/// so that the next ones begin anew.
const RUNS: usize = 15;
const COMPARED: usize = 5;

/// A run with its wall time, ns.
type Kept = Option<(u64, Done)>;

fn wall_ns(report: &Value) -> u64 {
    report["processes"][0]["wall_ns"].as_u64().unwrap()
}

/// Other programs on the machine make each run longer and none shorter, so the shortest runs are compared.
#[test]
fn the_command_that_checks_a_finding_shows_that_the_fixed_program_has_it_no_more() {
    for (name, id, setting) in FAULTS {
        let (mut before, mut after) = (Kept::None, Kept::None);
        let mut why = Vec::new();
        let is_good = (0..RUNS).any(|run| {
            if run % COMPARED == 0 {
                (before, after) = (None, None);
            }
            let faulty = with(Run::of(name), setting).arg("faulty").observed().succeeded();
            keep_shortest(&mut before, wall_ns(&faulty.report()), faulty);
            let (_, faulty) = before.as_ref().unwrap();
            let tried = verify(faulty, id).and_then(|command| {
                let changed = command.replace("faulty", "fixed");
                assert_ne!(changed, command, "the command runs the program with its arguments");
                let done = shell(&changed, setting).succeeded();
                assert!(state_of(&done.stdout, id).is_some(), "it prints the comparison: {}", done.stdout);
                let wall = wall_ns(&gpuspy_tests::report(&done.folder().join("after.gspy")));
                keep_shortest(&mut after, wall, done);
                is_gone_with_its_gain(faulty, &after.as_ref().unwrap().1, id)
            });
            tried.map_err(|reason| why.push(reason)).is_ok()
        });
        assert!(is_good, "none of the runs is good: {why:#?}");
    }
}

fn keep_shortest(kept: &mut Kept, wall: u64, done: Done) {
    if kept.as_ref().is_none_or(|(shortest, _)| wall < *shortest) {
        *kept = Some((wall, done));
    }
}

/// Tests that what `gpuspy diff` says of the two runs is that the program is faster, by what the finding promised, and has
/// the finding no more.
fn is_gone_with_its_gain(faulty: &Done, fixed: &Done, id: &str) -> Result<(), String> {
    let (before, after) = (faulty.trace(), fixed.folder().join("after.gspy"));
    let screen = Command::new(gpuspy()).arg("diff").args([&before, &after]).output().unwrap();
    let screen = String::from_utf8(screen.stdout).unwrap();
    if state_of(&screen, id).as_deref() != Some("gone") {
        return Err(format!("{id} is not gone:\n{screen}"));
    }
    let is_faster = |line: &str| line.starts_with("AFTER is ") && line.contains("x faster");
    if !screen.lines().any(is_faster) {
        return Err(format!("it is not faster:\n{screen}"));
    }
    let findings = &compared(&before, &after)["findings"];
    let promised = findings["promised_ns"]["value"].as_f64().unwrap();
    let gained = findings["gained_ns"].as_f64().unwrap();
    // What other programs take of the host while it launches is gained, too, and is not of the finding.
    let is_close = (promised * 0.75..=promised * (1.25 + 0.5 * faulty.pressure)).contains(&gained);
    is_close.then_some(()).ok_or_else(|| format!("{id}: promised {promised}, gained {gained}"))
}

#[test]
fn the_same_command_shows_that_an_unchanged_program_still_has_the_finding() {
    until_one_is_good(|| {
        let faulty = Run::of("fault_sync_per_step").arg("faulty").observed().succeeded();
        let command = verify(&faulty, "sync-per-step")?;
        let done = shell(&command, None).succeeded();
        let is_there = state_of(&done.stdout, "sync-per-step").as_deref() == Some("still");
        is_there.then_some(()).ok_or(done.stdout)
    });
}

#[test]
fn the_comparison_that_the_screen_proposes_shows_that_a_finding_is_gone() {
    until_one_is_good(|| {
        let done = Run::of("fault_sync_per_step").arg("faulty").observed().succeeded();
        let line = done.stderr.lines().find_map(|line| line.strip_prefix("Check "));
        let Some(line) = line else { return Err(done.stderr) };
        let proposed = line.trim().strip_prefix("run it again, then ").unwrap();
        assert_eq!(proposed, "gpuspy diff trace.gspy NEW");
        let again = format!("gpuspy run -o NEW -- {} fixed", program("fault_sync_per_step").display());
        let folder = done.folder().display();
        let compared = shell(&format!("cd {folder} && {again} && {proposed}"), None).succeeded();
        let is_gone = state_of(&compared.stdout, "sync-per-step").as_deref() == Some("gone");
        is_gone.then_some(()).ok_or(compared.stdout)
    });
}

#[test]
fn a_run_of_several_processes_is_compared_by_its_directory() {
    until_one_is_good(|| {
        let run = Run::command("bash").arg("-c").arg("\"$0\" faulty & \"$0\" faulty & wait");
        let done = run.arg(program("fault_sync_per_step")).observed().succeeded();
        let line = done.stderr.lines().find_map(|line| line.strip_prefix("Check "));
        let Some(line) = line else { return Err(done.stderr) };
        assert_eq!(line.trim(), "run it again, then gpuspy diff trace.gspy NEW");
        let folder = done.folder().display();
        let compared = shell(&format!("cd {folder} && gpuspy diff trace.gspy trace.gspy"), None).succeeded();
        assert!(compared.stdout.starts_with("There is no change: "), "{}", compared.stdout);
        Ok(())
    });
}

/// Each rank's own command would wait for the other one for ever.
#[test]
fn the_command_that_checks_a_job_of_two_ranks_launches_both_again() {
    const RANKS: &str = "for rank in 0 1; do \"$0\" $rank 2 $((rank * 20000)) 30 meeting & done; wait";
    until_one_is_good(|| {
        let run = Run::command("bash").arg("-c").arg(RANKS).arg(program("job_of_ranks"));
        let done = run.observed_with(&["--quiet", "--timing", "exact"]).succeeded();
        let report = done.report();
        let first = &report["findings"][0];
        let Some(command) = first["verify"].as_str() else { return Err(format!("{report:#}")) };
        assert!(command.starts_with("gpuspy run -o after.gspy --timing exact -- bash -c '"), "{command}");
        let again = shell(command, None).succeeded();
        let after = gpuspy_tests::report(&again.folder().join("after.gspy"));
        let ranks = |report: &Value| report["ranks"].as_array().unwrap().len();
        assert_eq!((ranks(&after), ranks(&report)), (2, 2), "{command}");
        let state = state_of(&again.stdout, first["id"].as_str().unwrap());
        if state.as_deref() == Some("still") { Ok(()) } else { Err(again.stdout) }
    });
}

#[test]
fn the_command_that_checks_a_finding_quotes_what_a_shell_would_change() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("it's $HOME;  no \\ `*");
    std::fs::copy(program("fault_sync_per_step"), &path).unwrap();
    until_one_is_good(|| {
        let done = Run::command(&path).arg("faulty").observed().succeeded();
        let command = verify(&done, "sync-per-step")?;
        let again = shell(&command, None).succeeded();
        let of = |trace: &Path| gpuspy_tests::report(trace)["processes"][0]["command"].clone();
        assert_eq!(of(&again.folder().join("after.gspy")), of(&done.trace()), "{command}");
        Ok(())
    });
}
