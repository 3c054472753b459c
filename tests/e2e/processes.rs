//! Runs of several processes: their ranks, how each ended, and the report of the directory of their traces.

use gpuspy_collector::trace::TraceReader;
use gpuspy_collector::trace::record::Body;
use gpuspy_tests::truth::Truth;
use gpuspy_tests::{Done, Run, gpuspy, program, report};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Runs the job of three processes under gpuspy, and returns the run with the directory of its traces.
fn family() -> (Done, PathBuf) {
    let run = Run::of("job_of_three");
    let mut command = run.gpuspy_command(&["run", "-o", "job/", "--json", "--"]);
    command.arg(program("job_of_three"));
    let done = run.finish(command).succeeded();
    let traces = done.folder().join("job");
    (done, traces)
}

/// Returns what each process printed, by its rank.
fn said(done: &Done) -> BTreeMap<u64, Value> {
    let lines = done.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let said: BTreeMap<u64, Value> = lines.map(|said| (said["rank"].as_u64().unwrap(), said)).collect();
    assert_eq!(said.len(), 3, "{}", done.stdout);
    said
}

fn run_gpuspy(arguments: &[&str], path: &Path) -> Output {
    Command::new(gpuspy()).arg(arguments[0]).arg(path).args(&arguments[1..]).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Returns an exported file, decompressed.
fn unpacked(file: &Path) -> String {
    let output = Command::new("gzip").arg("-dc").arg(file).output().unwrap();
    assert!(output.status.success(), "gzip cannot decompress {}", file.display());
    text(&output.stdout)
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_job_of_three_processes_is_reported_process_by_process() {
    let (done, traces) = family();
    let said = said(&done);
    let whole = report(&traces);
    let launches: u64 = said.values().map(|said| said["launches"].as_u64().unwrap()).sum();
    assert_eq!(whole["coverage"]["launches"], launches);
    let beside: Value = serde_json::from_slice(&fs::read(done.folder().join("job.json")).unwrap()).unwrap();
    assert_eq!(beside["coverage"]["launches"], launches, "run --json writes its report beside the directory");

    let processes = whole["processes"].as_array().unwrap();
    let reported: Vec<[&Value; 6]> = processes
        .iter()
        .map(|p| ["rank", "pid", "launches", "ending", "exit_code", "signal"].map(|key| &p[key]))
        .collect();
    let expected = [
        (0, json!("exited"), json!(0), json!(null)),
        (1, json!("killed"), json!(null), json!("SIGKILL")),
        (2, json!("crashed"), json!(null), json!("SIGSEGV")),
    ];
    for ((rank, ending, code, signal), reported) in expected.into_iter().zip(&reported) {
        let said = &said[&rank];
        assert_eq!(*reported, [&json!(rank), &said["pid"], &said["launches"], &ending, &code, &signal]);
    }
    for (process, rank) in processes.iter().zip(0..) {
        assert_eq!((&process["local_rank"], &process["world_size"]), (&json!(rank), &json!(3)));
        let gpus = process["gpus"].as_array().unwrap();
        assert_eq!((gpus.len(), &gpus[0]), (1, &whole["devices"][0]["uuid"]));
        if rank > 0 {
            assert_eq!(process["parent"], said[&0]["pid"], "rank 0 is reported as the parent");
        }
    }

    let screen = text(&run_gpuspy(&["report"], &traces).stdout);
    for (rank, said) in &said {
        let start = [rank.to_string(), said["pid"].to_string()];
        let line = screen.lines().find(|line| line.split_whitespace().take(2).eq(&start));
        assert!(line.is_some(), "{start:?}:\n{screen}");
    }
    for ending in ["rank 1: killed by SIGKILL", "rank 2: crashed with SIGSEGV"] {
        assert!(screen.contains(ending), "{ending}:\n{screen}");
    }
}

#[test]
fn an_export_to_a_directory_has_a_file_for_each_rank() {
    let (done, traces) = family();
    let folder = done.folder().join("exports/");
    let output = run_gpuspy(&["export", "-o", folder.to_str().unwrap()], &traces);
    let wrote =
        format!("gpuspy: wrote rank0.json.gz, rank1.json.gz, rank2.json.gz into {}\n", folder.display());
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), wrote));
    assert_eq!(names(&folder), ["rank0.json.gz", "rank1.json.gz", "rank2.json.gz"]);
    for (rank, said) in said(&done) {
        let text = unpacked(&folder.join(format!("rank{rank}.json.gz")));
        // The text is compared, because HTA searches for it with the space.
        let line = format!("\"distributedInfo\": {{\"rank\": {rank}, \"world_size\": 3}},\n");
        assert!(text.contains(&line), "{}", &text[..300]);
        let trace: Value = serde_json::from_str(&text).unwrap();
        let events = trace["traceEvents"].as_array().unwrap();
        let calls = events.iter().filter(|event| event["name"] == "cuLaunchKernel");
        assert_eq!(json!(calls.count()), said["launches"]);
        let mut pids = events.iter().filter(|e| e["cat"] == "cuda_driver").map(|e| &e["pid"]);
        assert!(pids.all(|pid| *pid == said["pid"]));
    }
    let one = run_gpuspy(&["export"], &traces).stdout;
    assert!(!text(&one).contains("distributedInfo"), "one file of three ranks has no distributedInfo");
}

#[test]
fn a_process_without_a_rank_is_identified_by_its_pid() {
    let done = Run::of("fork_child").arg("before").env("RANK", "").observed().succeeded();
    let traces = done.folder().join("trace.gspy");
    let whole = report(&traces);
    let processes = whole["processes"].as_array().unwrap();
    assert!(processes.iter().all(|p| p["rank"].is_null() && p["local_rank"].is_null()), "{processes:#?}");
    let folder = done.folder().join("exports/");
    assert!(run_gpuspy(&["export", "-o", folder.to_str().unwrap()], &traces).status.success());
    let mut expected: Vec<String> = processes.iter().map(|p| format!("pid{}.json.gz", p["pid"])).collect();
    expected.sort();
    assert_eq!(names(&folder), expected);
}

#[test]
fn unreadable_files_in_a_directory_are_named_and_the_rest_is_reported() {
    let (_done, traces) = family();
    let launches = |path: &Path| report(path)["coverage"]["launches"].as_u64().unwrap();
    assert_eq!(launches(&traces), 600);
    let mut files = names(&traces);
    fs::write(traces.join("rubbish.gspy"), "rubbish").unwrap();
    fs::write(traces.join("notes.txt"), "none of ours").unwrap();
    let output = run_gpuspy(&["report", "--json"], &traces);
    let error = text(&output.stderr);
    assert!(output.status.success() && error.lines().count() == 1, "{error}");
    assert!(error.starts_with("gpuspy: cannot read ") && error.contains("rubbish.gspy"), "{error}");
    let whole: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(whole["coverage"]["launches"], 600);

    // One of the three is cut off in the middle of a chunk.
    let cut = files.remove(1);
    let bytes = fs::read(traces.join(&cut)).unwrap();
    fs::write(traces.join(&cut), &bytes[..bytes.len() - 10]).unwrap();
    fs::remove_file(traces.join("rubbish.gspy")).unwrap();
    let screen = text(&run_gpuspy(&["report"], &traces).stdout);
    let reported: Vec<&str> = screen.lines().filter(|line| line.contains("cut trace")).collect();
    assert!(reported.len() == 1 && reported[0].contains(&cut), "{reported:?}");
    let whole = report(&traces);
    let is_cut = |p: &&Value| p["damage"]["cut"] == true;
    let damaged: Vec<&Value> = whole["processes"].as_array().unwrap().iter().filter(is_cut).collect();
    assert!(damaged.len() == 1 && damaged[0]["path"].as_str().unwrap().ends_with(&cut), "{damaged:#?}");
}

#[test]
fn a_trace_contains_no_environment_variables_beyond_the_ranks() {
    let run = Run::of("plain_work").env("SECRET_TOKEN", "tellnobody").env("RANK", "12345678");
    let done = run.observed().succeeded();
    assert_eq!(done.report()["processes"][0]["rank"], 12_345_678);
    let reader = TraceReader::open(&done.trace()).unwrap();
    assert!(reader.names().0.values().all(|text| !text.contains("tellnobody")));
    assert!(reader.names().0.values().any(|text| text.contains("RANK=12345678")));
}

#[test]
fn an_exit_code_is_reported_and_an_exit_without_handlers_is_no_crash() {
    let ending = |name: &str| {
        let report = Run::of(name).observed().report();
        let reported = &report["processes"][0];
        (reported["ending"].clone(), reported["exit_code"].clone(), reported["signal"].clone())
    };
    assert_eq!(ending("exit_early"), (json!("exited"), json!(5), json!(null)));
    assert_eq!(ending("underscore_exit"), (json!("vanished"), json!(6), json!(null)));
}

/// The verdict of the whole run was that launches did not pass through the agent.
#[test]
fn a_helper_that_launches_nothing_leaves_the_run_its_verdict() {
    let run = Run::of("train_loop");
    let mut command = run.gpuspy_command(&["run", "-o", "job/", "--quiet", "--"]);
    command.args(["sh", "-c", "\"$1\"; \"$0\" 200 200000 0"]);
    command.arg(program("train_loop")).arg(program("init_only"));
    let done = run.finish(command).succeeded();
    let whole = report(&done.folder().join("job"));
    assert_eq!(whole["processes"].as_array().map(Vec::len), Some(2));
    assert_eq!(whole["coverage"]["driver_hooked"], true);
    let text = whole["verdict"]["text"].to_string();
    assert!(!text.contains("did not pass through the agent"), "{text}");
}

/// Two ranks run on one GPU at the same time. Their report must add up neither their wall times nor the time in which the
/// GPU was busy.
#[test]
fn ranks_that_share_a_gpu_share_one_row() {
    let run = Run::of("launch_rate");
    let mut command = run.gpuspy_command(&["run", "-o", "job/", "--quiet", "--timing", "exact", "--"]);
    let both =
        "for rank in 0 1; do RANK=$rank SIMCUDA_TRUTH=truth$rank \"$0\" $((1000 + 1000 * rank)) & done; wait";
    command.args(["bash", "-c", both]).arg(program("launch_rate"));
    let done = run.finish(command).succeeded();
    let traces = done.folder().join("job");
    let statuses: Vec<_> = names(&traces)
        .iter()
        .map(|name| TraceReader::open(&traces.join(name)).unwrap().status().cloned().unwrap())
        .collect();
    assert!(statuses.len() == 2 && statuses[0].boot.is_some() && statuses[0].boot == statuses[1].boot);
    let (began, ended) = (statuses.iter().map(|s| s.began).min(), statuses.iter().map(|s| s.ended).max());
    let whole = report(&traces);
    // It was longer where a thread's time was read after the program's end had been seen, and before that was known to who read it.
    assert_eq!(whole["wall_ns"], ended.unwrap() - began.unwrap());
    let [device] = whole["devices"].as_array().unwrap().as_slice() else { panic!("{whole:#}") };
    assert_eq!(device["processes"], 2);

    // The time in which the GPU ran something, whichever rank launched it.
    let ran = |rank: u32| Truth::read(&done.folder().join(format!("truth{rank}"))).operations();
    let mut spans: Vec<(u64, u64)> = (0..2).flat_map(ran).map(|operation| operation.interval).collect();
    spans.sort_unstable();
    let (mut busy, mut until) = (0, 0);
    for (from, to) in spans {
        busy += to.max(until) - from.max(until);
        until = to.max(until);
    }
    let compute = &device["compute_ns"];
    let bound = |key: &str| compute[key].as_u64().unwrap();
    assert!(bound("lo") <= busy && busy <= bound("hi"), "{busy} is not in {compute}");
}

/// The first call began before the trace did: `--since 0s` left it out, and what the agent does for its start was a part of it.
#[test]
fn a_trace_begins_before_its_first_call() {
    let done = Run::of("plain_work").observed().succeeded();
    let calls = |since: &[&str]| {
        let asked = Command::new(gpuspy()).args(["report", "--json"]).args(since).arg(done.trace()).output();
        serde_json::from_slice::<Value>(&asked.unwrap().stdout).unwrap()["apis"].clone()
    };
    let all = calls(&[]);
    assert!(all.as_array().unwrap().iter().any(|api| api["name"] == "cuInit"), "{all}");
    assert_eq!(all, calls(&["--since", "0s"]));
}

/// Returns a trace, or those of a directory.
fn traces_of(path: &Path) -> Vec<PathBuf> {
    let inside = fs::read_dir(path).map(|entries| entries.map(|entry| entry.unwrap().path()).collect());
    inside.unwrap_or_else(|_| vec![path.to_owned()])
}

/// `--last` is `--since` with a time that is counted from the end of the run, whichever of its processes ends last.
#[test]
fn the_last_of_a_run_is_what_is_before_its_end() {
    for program in [&["plain_work"][..], &["fork_child", "before"]] {
        let run = program[1..].iter().fold(Run::of(program[0]), |run, word| run.arg(word));
        let done = run.observed().succeeded();
        let whole = done.report();
        let readers = traces_of(&done.trace()).into_iter().map(|trace| TraceReader::open(&trace).unwrap());
        let readers: Vec<TraceReader> = readers.collect();
        let origin = readers.iter().map(|reader| reader.status().unwrap().began).min().unwrap();
        let launches = readers.into_iter().flat_map(|mut reader| {
            reader
                .records()
                .filter(|record| matches!(record.body, Body::Work(_)))
                .map(|r| r.at)
                .collect::<Vec<_>>()
        });
        let mut launches: Vec<u64> = launches.collect();
        launches.sort_unstable();
        // By then some of the launches are over, and not all.
        let since = launches[launches.len() / 2] - origin;
        let shown = whole["wall_ns"].as_u64().unwrap() - since;
        let asked = |command: &[&str], time: &str| {
            let output = Command::new(gpuspy()).args(command).arg(time).arg(done.trace()).output().unwrap();
            assert!(output.status.success(), "{command:?} {time}");
            String::from_utf8(output.stdout).unwrap()
        };
        let (last, since) = (format!("--last={shown}ns"), format!("--since={since}ns"));
        for command in [&["report", "--operations"][..], &["export", "--to", "chrome", "-o", "-"]] {
            let (by_end, by_start) = (asked(command, &last), asked(command, &since));
            assert!(!by_end.is_empty() && by_end == by_start, "{command:?}: {by_end}\n{by_start}");
        }
        let [mut by_end, mut by_start] = [&last, &since]
            .map(|time| serde_json::from_str::<Value>(&asked(&["report", "--json"], time)).unwrap());
        // Each process says it, in the same words.
        let said = |report: &mut Value| {
            let processes = report["processes"].as_array_mut().unwrap().iter_mut();
            let mut said: Vec<Value> = processes.map(|process| process["filter"].take()).collect();
            said.dedup();
            assert_eq!(said.len(), 1, "{said:?}");
            said[0].as_str().unwrap().to_owned()
        };
        let (words, others) = (said(&mut by_end), said(&mut by_start));
        assert_eq!(words, format!("the last {} s, {others}", shown as f64 / 1e9));
        assert_eq!(by_end, by_start);
        assert!(by_end["coverage"]["launches"].as_u64() < whole["coverage"]["launches"].as_u64());
    }
}
