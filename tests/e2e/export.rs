//! `gpuspy export --to chrome` and `--to perfetto`: the file contains what the model contains.

use flate2::read::ZlibDecoder;
use gpuspy_collector::model::gpu_interval::host;
use gpuspy_collector::model::survey::Survey;
use gpuspy_collector::model::{Model, When};
use gpuspy_collector::report::names::demangle;
use gpuspy_collector::trace::TraceReader;
use gpuspy_collector::trace::generator::{Held, Kind, Lengths, write_trace};
use gpuspy_tests::{Run, generated, gpuspy};
use gpuspy_wire::record::{Memory, Namespace};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Runs `gpuspy export` with these arguments.
fn export(trace: &Path, arguments: &[&str]) -> Output {
    Command::new(gpuspy()).arg("export").arg(trace).args(["--to", "chrome"]).args(arguments).output().unwrap()
}

/// Returns the Chrome trace of a trace.
pub fn exported(trace: &Path) -> Value {
    let output = export(trace, &[]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Converts µs to ns digit by digit, since a thousand times a number of µs has more digits than a double keeps.
pub fn ns(value: &Value) -> i64 {
    let text = value.to_string();
    let (whole, part) = text.split_once('.').unwrap_or((&text, ""));
    whole.parse::<i64>().unwrap() * 1000 + format!("{part:0<3}").parse::<i64>().unwrap()
}

/// Returns the host ns that is 0 in the export of a run, from its first trace.
fn zero_of(base: &Value, trace: &Path) -> i64 {
    let reader = TraceReader::open(trace).unwrap();
    let status = reader.status().unwrap();
    base.as_i64().unwrap() - (status.began_realtime as i64 - host(status.began))
}

/// Returns a number of an event.
pub fn number(event: &Value, pointer: &str) -> u64 {
    event.pointer(pointer).and_then(Value::as_u64).unwrap_or_else(|| panic!("no {pointer} in {event}"))
}

/// The rows of the file, each with the start and end of its events.
type Rows = BTreeMap<(u64, u64), Vec<(i64, i64)>>;

/// Returns the rows with the events that `counts` accepts.
fn rows(trace: &Value, counts: impl Fn(&Value) -> bool) -> Rows {
    let mut rows = Rows::new();
    for event in trace["traceEvents"].as_array().unwrap().iter().filter(|e| e["ph"] == "X" && counts(e)) {
        let span = (ns(&event["ts"]), ns(&event["ts"]) + ns(&event["dur"]));
        rows.entry((number(event, "/pid"), number(event, "/tid"))).or_default().push(span);
    }
    rows.values_mut().for_each(|row| row.sort_unstable());
    rows
}

/// What the traces themselves contain: calls by (pid, tid), and operations by (trace, context, stream), where those of
/// a stream that overlap are placed one after the other. In ns since the file's base.
#[derive(Default)]
struct Expected {
    calls: Rows,
    operations: BTreeMap<(usize, u32, u64), Vec<(i64, i64)>>,
}

fn expected(base: &Value, traces: &[&Path]) -> Expected {
    let mut expected = Expected::default();
    let zero = zero_of(base, traces[0]);
    for (index, path) in traces.iter().enumerate() {
        let mut reader = TraceReader::open(path).unwrap();
        let status = reader.status().unwrap().clone();
        let names = reader.names().clone();
        let clocks = Survey::of(reader.records());
        let mut model = Model::new(&names, &clocks);
        for record in reader.records() {
            let event = model.observe(&record);
            if let Some(call) = event.call {
                // A call's record is written when the call ends.
                let end = host(record.at);
                let begin = end - call.host_ns as i64;
                let row = (status.pid.into(), status.threads[&record.thread].into());
                expected.calls.entry(row).or_default().push((begin, end));
            }
            if let Some(operation) = event.operation
                && let When::Timed(o) = operation.when
            {
                let row = (index, operation.context, operation.stream);
                expected.operations.entry(row).or_default().push((o.start, o.end));
            }
        }
    }
    for row in expected.calls.values_mut() {
        row.sort_unstable();
        // An operation that starts in the same ns in which another ends is exported 1 ns later.
        let mut last = i64::MIN;
        for (begin, end) in row.iter_mut() {
            *begin += i64::from(*begin == last);
            *end = (*end).max(*begin);
            last = *end;
        }
    }
    for row in expected.operations.values_mut() {
        row.sort_by_key(|(start, _)| *start);
        let mut last = i64::MIN;
        for (start, end) in row.iter_mut() {
            *start = last.saturating_add(1).max(*start);
            *end = (*end).max(*start);
            last = *end;
        }
    }
    let spans = expected.calls.values_mut().chain(expected.operations.values_mut()).flatten();
    spans.for_each(|span| *span = (span.0 - zero, span.1 - zero));
    expected
}

/// Checks everything that must be true of any export.
fn agrees(trace: &Value, traces: &[&Path]) {
    let Expected { calls, operations } = expected(&trace["baseTimeNanoseconds"], traces);
    let is_call = |event: &Value| ["cuda_driver", "cuda_runtime"].iter().any(|cat| event["cat"] == *cat);
    let is_work = |event: &Value| event["args"]["stream"] != Value::Null && event["cat"] != "cuda_sync";
    assert_eq!(rows(trace, is_call), calls);
    let mut ours: Vec<Vec<(i64, i64)>> = rows(trace, is_work).into_values().collect();
    let mut theirs: Vec<Vec<(i64, i64)>> = operations.into_values().collect();
    ours.sort();
    theirs.iter_mut().for_each(|row| row.sort_unstable());
    theirs.sort();
    assert_eq!(ours, theirs);
    for row in ours {
        assert!(row.windows(2).all(|w| w[0].1 <= w[1].0), "operations on one row do not overlap");
    }
    let ends = |phase: &str| -> Vec<u64> {
        let ends = trace["traceEvents"].as_array().unwrap().iter().filter(|event| event["ph"] == phase);
        let mut ids: Vec<u64> = ends.map(|event| number(event, "/id")).collect();
        ids.sort_unstable();
        ids
    };
    let (begins, ends) = (ends("s"), ends("f"));
    assert_eq!(begins, ends, "each arrow has two ends");
    assert!(begins.windows(2).all(|w| w[0] < w[1]), "each arrow has a number of its own");
}

#[test]
fn exports_of_random_programs_agree_with_the_model() {
    for seed in ["2", "3", "11"] {
        let done = Run::of("random_program").arg(seed).arg("50").arg("wide").observed().succeeded();
        agrees(&exported(&done.trace()), &[&done.trace()]);
    }
}

#[test]
fn exports_of_client_programs_agree_with_the_model() {
    for program in
        ["work_driver", "work_runtime", "graphs", "default_streams", "programmatic", "many_threads"]
    {
        let done = Run::of(program).observed().succeeded();
        let trace = exported(&done.trace());
        agrees(&trace, &[&done.trace()]);
        let report = done.report();
        let untimed: u64 =
            trace["gpuspy"]["untimed"].as_object().unwrap().values().filter_map(Value::as_u64).sum();
        let ran = number(&report, "/coverage/launches");
        assert!(
            number(&trace, "/gpuspy/operations") + untimed >= ran,
            "{program}: {ran} launches ran, and the export has fewer operations"
        );
    }
}

#[test]
fn a_run_of_several_processes_becomes_one_file() {
    let done = Run::of("fork_child").arg("before").observed().succeeded();
    let folder = done.folder().join("trace.gspy");
    let mut traces: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    traces.sort();
    let trace = exported(&folder);
    agrees(&trace, &traces.iter().map(|path| path.as_path()).collect::<Vec<_>>());
    let kernels: Vec<&Value> =
        trace["traceEvents"].as_array().unwrap().iter().filter(|e| e["cat"] == "kernel").collect();
    let all = |pointer: &str| kernels.iter().map(|row| number(row, pointer)).collect::<BTreeSet<u64>>();
    assert_eq!((kernels.len(), all("/args/correlation").len()), (400, 400));
    assert_eq!(
        (all("/pid").len(), all("/args/stream").len()),
        (2, 2),
        "each process has its own rows of a GPU"
    );
}

#[test]
fn a_part_of_a_trace_can_be_exported() {
    let done = Run::of("plain_work").observed().succeeded();
    let trace = done.trace();
    let kernels = |arguments: &[&str]| -> (Vec<i64>, String) {
        let output = export(&trace, arguments);
        assert!(output.status.success(), "{arguments:?}");
        let text: Value = serde_json::from_slice(&output.stdout).unwrap();
        let rows = text["traceEvents"].as_array().unwrap().iter().filter(|e| e["cat"] == "kernel");
        let begins = rows.map(|row| ns(&row["ts"])).collect();
        (begins, String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (all, said) = kernels(&["--device", "0"]);
    assert_eq!((all.len(), said.as_str()), (200, ""));
    let base = &exported(&trace)["baseTimeNanoseconds"];
    let began = host(TraceReader::open(&trace).unwrap().status().unwrap().began) - zero_of(base, &trace);
    let middle = format!("{}us", (all[100] - began) / 1000 + 1);
    let (before, _) = kernels(&["--until", &middle]);
    let (behind, _) = kernels(&["--since", &middle]);
    assert!(before.len() > 50 && behind.len() > 50, "{} {}", before.len(), behind.len());
    let mut both = before;
    both.extend(behind.iter().filter(|begin| !both.contains(begin)).copied().collect::<Vec<_>>());
    assert_eq!(both, all, "an operation across the cut is in both parts");
    let (rows, said) = kernels(&["--since", "1min"]);
    assert!(rows.is_empty(), "{said}");
    assert!(said.starts_with("gpuspy: the export is empty: ") && said.lines().count() == 1, "{said}");
}

#[test]
fn an_export_either_completes_or_leaves_the_old_file() {
    let done = Run::of("plain_work").observed().succeeded();
    let (trace, folder) = (done.trace(), done.folder());
    let expected = export(&trace, &["-o", "-"]).stdout;
    let plain = folder.join("plain.json");
    assert!(export(&trace, &["-o", plain.to_str().unwrap()]).status.success());
    assert_eq!(fs::read(&plain).unwrap(), expected);

    let packed = folder.join("packed.json.gz");
    assert!(export(&trace, &["-o", packed.to_str().unwrap()]).status.success());
    let unpacked = Command::new("gzip").arg("-dc").arg(&packed).output().unwrap();
    assert!(unpacked.status.success() && unpacked.stdout == expected);
    assert!(fs::metadata(&packed).unwrap().len() * 4 < expected.len() as u64);

    // A full disk: 64 KiB and no more.
    let limited = |output: &Path| {
        let command = "ulimit -f 64; trap '' XFSZ; exec \"$0\" export \"$1\" -o \"$2\"";
        Command::new("bash").args(["-c", command]).arg(gpuspy()).arg(&trace).arg(output).output().unwrap()
    };
    let failed = limited(&plain);
    let error = String::from_utf8_lossy(&failed.stderr);
    assert_eq!(failed.status.code(), Some(2), "{error}");
    assert!(error.starts_with("gpuspy: cannot write ") && error.lines().count() == 1, "{error}");
    assert_eq!(fs::read(&plain).unwrap(), expected, "the earlier export is still there");
    let left: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().ends_with(".part")), "{left:?}");

    let onto_itself = export(&trace, &["-o", trace.to_str().unwrap()]);
    assert_eq!(onto_itself.status.code(), Some(2));
    assert_eq!(export(&trace, &["-o", "-"]).stdout, expected, "the trace is unchanged");
    assert_eq!(export(Path::new("absent.gspy"), &[]).status.code(), Some(3));
    assert_eq!(
        export(&trace, &["-o", folder.join("absent/x.json").to_str().unwrap()]).status.code(),
        Some(2)
    );
}

#[test]
fn a_reader_of_an_export_may_close_the_pipe_early() {
    let done = Run::of("plain_work").observed().succeeded();
    let mut export = Command::new(gpuspy())
        .arg("export")
        .arg(done.trace())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    export.stdout.take().unwrap().read_exact(&mut [0]).unwrap();
    let output = export.wait_with_output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}

#[test]
fn the_export_of_a_generated_trace_matches_the_generator() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.gspy");
    let mut generator = generated::generator();
    write_trace(&path, &mut generator, 30_000).unwrap();
    let (truth, trace) = (generator.truth(), exported(&path));
    let rows = |category: &'static str| {
        trace["traceEvents"].as_array().unwrap().iter().filter(move |event| event["cat"] == category)
    };
    // By name: the count, and the sums of the shortest and the longest lengths.
    let mut kernels: BTreeMap<&str, (u64, u64, u64)> = BTreeMap::new();
    for row in rows("kernel") {
        let (count, least, most) = kernels.entry(row["name"].as_str().unwrap()).or_default();
        *count += 1;
        *least += number(row, "/args/gpu duration ns/0");
        *most += number(row, "/args/gpu duration ns/2");
    }
    let names: BTreeMap<u32, String> = generator
        .names()
        .into_iter()
        .filter(|(space, ..)| *space == Namespace::Kernel)
        .map(|(_, id, symbol)| (id, demangle(&symbol)))
        .collect();
    assert_eq!(kernels.len(), truth.kernels.len());
    for (id, Lengths { count, total, .. }) in &truth.kernels {
        let (ours, least, most) = kernels[names[id].as_str()];
        assert_eq!(ours, *count, "{}", names[id]);
        assert!(least <= *total && *total <= most, "{}: {total} not in {least}..{most}", names[id]);
    }
    let moved = |category: &'static str| {
        let bytes = rows(category).map(|row| number(row, "/args/bytes"));
        bytes.fold((0, 0), |(count, sum), bytes| (count + 1, sum + bytes))
    };
    let expected = |wanted: &[Kind]| {
        let moved = wanted.iter().map(|kind| truth.transfers[kind]);
        moved.fold((0, 0), |(count, bytes), moved| (count + moved.count, bytes + moved.bytes))
    };
    assert_eq!(moved("gpu_memcpy"), expected(&[Kind::HtoD, Kind::DtoH]));
    assert_eq!(moved("gpu_memset"), expected(&[Kind::Memset]));
    let waited =
        rows("cuda_sync").map(|row| ns(&row["dur"]) as u64).fold((0, 0), |(n, sum), ns| (n + 1, sum + ns));
    let wait = generator.names().into_iter().find(|(.., name)| name == "cudaStreamSynchronize").unwrap();
    assert_eq!(waited, truth.calls[&(wait.1 as u16)]);
    let changes = rows("cpu_instant_event").map(|row| row["args"]["Bytes"].as_i64().unwrap());
    let (came, went): (Vec<i64>, Vec<i64>) = changes.partition(|bytes| *bytes > 0);
    let Held { allocations, frees, .. } = truth.memory[&Memory::Device];
    assert_eq!((came.len() as u64, went.len() as u64), (allocations, frees));
}

/// The events of a category, with their args.
fn of_category<'t>(trace: &'t Value, category: &'t str) -> impl Iterator<Item = &'t Value> {
    trace["traceEvents"].as_array().unwrap().iter().filter(move |event| event["cat"] == category)
}

#[test]
fn operators_and_steps_are_exported_as_torch_profiler_has_them() {
    let done = Run::of("operators").arg("20").observed_with(&["--timing", "exact"]).succeeded();
    let (trace, said, report) = (exported(&done.trace()), done.said(), done.report());
    let operators: BTreeMap<u64, &Value> =
        of_category(&trace, "cpu_op").map(|event| (number(event, "/args/External id"), event)).collect();
    assert_eq!(operators.len() as u64, number(&said, "/operators"), "each has a number of its own");
    let linear = operators.values().find(|event| event["name"] == "aten::linear").unwrap();
    assert_eq!(linear["args"]["Input Dims"], serde_json::json!([[64, 128], [256, 128], [256]]));

    // Which operator launched what: kernels are named after them.
    let mut launched: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for kernel in of_category(&trace, "kernel") {
        let id = kernel["args"]["External id"].as_u64();
        let operator = id.map_or("none", |id| operators[&id]["name"].as_str().unwrap());
        *launched.entry((kernel["name"].as_str().unwrap(), operator)).or_default() += 1;
    }
    let expected = [
        (("addmm_60us", "aten::addmm"), 20),
        (("gather_10us", "none"), 20),
        (("mm_40us", "aten::mm"), 20),
        (("sgd_20us", "none"), 20),
    ];
    assert_eq!(launched, BTreeMap::from(expected));
    // A function of the backward pass has the number of the operator, and so has what calls it.
    let numbers = |name: &str| -> Vec<u64> {
        let found = operators.values().filter(|event| event["name"] == name);
        found.map(|event| number(event, "/args/Sequence number")).collect()
    };
    let forward = numbers("aten::addmm");
    assert_eq!(forward, (1..=20).collect::<Vec<u64>>());
    assert_eq!(numbers("AddmmBackward0"), forward);
    assert_eq!(numbers("autograd::engine::evaluate_function: AddmmBackward0"), forward);

    let is_step =
        |event: &&Value| event["name"].as_str().is_some_and(|name| name.starts_with("ProfilerStep#"));
    let steps: Vec<(i64, i64)> = of_category(&trace, "user_annotation")
        .filter(is_step)
        .map(|event| (ns(&event["ts"]), ns(&event["ts"]) + ns(&event["dur"])))
        .collect();
    assert_eq!(steps.len() as u64, number(&report, "/steps/count"));
    let calls: Vec<i64> = of_category(&trace, "cuda_driver")
        .filter(|event| event["name"] == "cuLaunchKernel")
        .map(|event| ns(&event["ts"]))
        .collect();
    for (begin, end) in &steps[..steps.len() - 1] {
        let inside = calls.iter().filter(|at| (begin..=end).contains(at)).count() as u64;
        assert_eq!(inside, number(&report, "/steps/launches_per_step"));
    }
    let whole = export(&done.trace(), &["--without-steps"]);
    let whole: Value = serde_json::from_slice(&whole.stdout).unwrap();
    assert_eq!(of_category(&whole, "user_annotation").filter(is_step).count(), 0);
    let stacks = ["export", "--to", "collapsed", "--without-steps"];
    let refused = Command::new(gpuspy()).args(stacks).arg(done.trace()).output().unwrap();
    let error = String::from_utf8_lossy(&refused.stderr);
    assert!(refused.status.code() == Some(2) && error.contains("--without-steps is for"), "{error}");
}

/// What a file in the wire format of protocol buffers has under a path of field numbers: the bytes of messages and texts.
fn fields<'f>(file: &'f [u8], path: &[u64]) -> Vec<&'f [u8]> {
    fn number(bytes: &mut &[u8]) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let (first, rest) = bytes.split_first()?;
            *bytes = rest;
            value |= u64::from(first & 0x7f) << shift;
            if first & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }
    let Some((wanted, inner)) = path.split_first() else { return vec![file] };
    let (mut rest, mut found) = (file, Vec::new());
    while let Some(key) = number(&mut rest) {
        let length = match key & 7 {
            0 => {
                let before = rest;
                number(&mut rest).unwrap();
                if key >> 3 == *wanted && inner.is_empty() {
                    found.push(&before[..before.len() - rest.len()]);
                }
                continue;
            }
            1 => 8,
            2 => number(&mut rest).unwrap() as usize,
            5 => 4,
            other => panic!("type {other} of field {}", key >> 3),
        };
        let (value, after) = rest.split_at(length);
        rest = after;
        if key >> 3 == *wanted {
            found.extend(fields(value, inner));
        }
    }
    found
}

#[test]
fn the_perfetto_export_has_what_the_trace_has() {
    let done = Run::of("fork_child").arg("before").observed().succeeded();
    let (trace, file) = (done.folder().join("trace.gspy"), done.folder().join("all.pftrace"));
    let perfetto = |output: &Path| {
        let command =
            [Path::new("export"), &trace, Path::new("--to"), Path::new("perfetto"), Path::new("-o"), output];
        let output = Command::new(gpuspy()).args(command).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    perfetto(&file);
    let packed = done.folder().join("all.pftrace.gz");
    perfetto(&packed);
    let gzip = Command::new("gzip").arg("-dc").arg(&packed).output().unwrap();
    assert!(gzip.status.success());
    let bytes = gzip.stdout;
    let chrome = exported(&trace);
    let events = chrome["traceEvents"].as_array().unwrap();
    let of_phase = |phase: &str| events.iter().filter(|event| event["ph"] == phase).count();
    // packet.track_event: its type, where an arrow begins, and where one ends.
    let (types, begun, ended) =
        (fields(&bytes, &[1, 11, 9]), fields(&bytes, &[1, 11, 47]), fields(&bytes, &[1, 11, 48]));
    let of_type = |kind: u8| types.iter().filter(|value| **value == [kind]).count();
    assert_eq!((of_type(1), of_type(2)), (of_phase("X"), of_phase("X")), "each slice begins and ends");
    assert_eq!((of_type(3), of_type(4)), (of_phase("i"), of_phase("C")));
    assert_eq!((begun.len(), ended.len()), (of_phase("s"), of_phase("f")));
    assert_eq!(begun.iter().collect::<BTreeSet<_>>(), ended.iter().collect::<BTreeSet<_>>());
    assert_eq!(begun.len(), 400);
    // packet.track_descriptor.process.pid, and the names of what is interned.
    assert_eq!(fields(&bytes, &[1, 60, 3, 1]).len(), 2, "two processes");
    let names = fields(&bytes, &[1, 12, 2, 2]);
    assert!(names.contains(&b"plain_10us".as_slice()) && names.contains(&b"cuLaunchKernel".as_slice()));
    assert!(bytes.len() * 2 < chrome.to_string().len(), "{} bytes", bytes.len());

    // In a file that is not compressed as a whole, the packets are: packet.compressed_packets, behind the first packet.
    let compressed = fs::read(&file).unwrap();
    let mut unpacked = Vec::new();
    for block in fields(&compressed, &[1, 50]) {
        ZlibDecoder::new(block).read_to_end(&mut unpacked).unwrap();
    }
    let first = bytes.len() - unpacked.len();
    assert!(compressed[..first] == bytes[..first] && unpacked == bytes[first..]);
    assert!(compressed.len() * 5 < chrome.to_string().len(), "{} bytes", compressed.len());

    // An earlier export is replaced.
    perfetto(&file);
    assert_eq!(fs::read(&file).unwrap(), compressed, "the same trace gives the same bytes");
    perfetto(&packed);
    let each = done.folder().join("each");
    perfetto(&each.join(""));
    let mut files: Vec<_> = fs::read_dir(&each).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    files.sort();
    assert_eq!(files.len(), 2);
    assert!(files.iter().all(|name| name.to_string_lossy().ends_with(".pftrace.gz")), "{files:?}");
}
