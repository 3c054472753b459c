//! The tables of `export --to parquet` say what the report and its operations say.

#[path = "parquet/tables.rs"]
mod tables;

use gpuspy_collector::trace::TraceWriter;
use gpuspy_collector::trace::generator::{Generator, Options, Ranks, write_ranks};
use gpuspy_collector::trace::record::{Alloc, Api, Body, Call, Ending, Free, NvtxRange, Record, Status};
use gpuspy_wire::record::{Fact, LossCause, Memory, Namespace, NvtxChange, Untimed, flag};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tables::{Exported, Row};

fn gpuspy(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_gpuspy")).args(arguments).output().unwrap()
}

fn said(arguments: &[&str]) -> String {
    let done = gpuspy(arguments);
    assert!(done.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

/// Exports a trace with these options.
fn exported(trace: &Path, options: &[&str]) -> Exported {
    let folder = tempfile::tempdir().unwrap();
    let (trace, out) = (trace.to_str().unwrap(), folder.path().to_str().unwrap());
    said(&[&["export", trace, "--to", "parquet", "-o", out, "--job", "j"], options].concat());
    Exported::new(folder, "j")
}

fn report(trace: &Path, options: &[&str]) -> Value {
    let text = said(&[&["report", trace.to_str().unwrap(), "--json"], options].concat());
    serde_json::from_str(&text).unwrap()
}

fn operations(trace: &Path, options: &[&str]) -> Vec<Value> {
    let text = said(&[&["report", trace.to_str().unwrap(), "--operations"], options].concat());
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn former() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/former");
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.extension().is_some_and(|end| end == "gspy")).collect()
}

/// Compares everything that can be compared.
fn check(trace: &Path, tables: &Exported, options: &[&str]) {
    check_operations(tables, &operations(trace, options));
    let report = report(trace, options);
    check_totals(tables, &report);
    check_report(tables, &report);
}

/// The tables of operations have the operations that ran, and no others, with the same times and bounds.
fn check_operations(tables: &Exported, operations: &[Value]) {
    let mut rows = BTreeMap::new();
    for table in ["kernel", "memcpy", "memset", "graph", "burst"] {
        for mut row in tables.rows(table) {
            row.insert("table".to_owned(), table.into());
            let there = rows.insert(row["operationId"].as_u64().unwrap(), row);
            assert!(there.is_none(), "{there:?} is there twice");
        }
    }
    let calls: Vec<Value> =
        tables.rows("runtime").into_iter().map(|row| row["correlationId"].clone()).collect();
    let ran = operations.iter().filter(|operation| operation["untimed"] != "captured");
    let mut count = 0;
    for operation in ran {
        count += 1;
        let row = &rows[&operation["correlation"].as_u64().unwrap()];
        let (start, finish, took) = ("start_ns", "finish_ns", "duration_ns");
        for (column, key, part) in [
            ("start", start, "value"),
            ("start_least", start, "lo"),
            ("start_most", start, "hi"),
            ("end", finish, "value"),
            ("end_least", finish, "lo"),
            ("end_most", finish, "hi"),
            ("dur", took, "value"),
            ("dur_least", took, "lo"),
            ("dur_most", took, "hi"),
        ] {
            assert_eq!(row[column], operation[key][part], "{column} of {operation}");
        }
        for (column, key) in [
            ("untimed", "untimed"),
            ("clock", "clock"),
            ("deviceId", "device"),
            ("streamId", "stream"),
            ("pid", "pid"),
            ("tid", "tid"),
            ("callStart", "call_start_ns"),
            ("callEnd", "call_end_ns"),
            ("line", "line"),
        ] {
            assert_eq!(row[column], operation[key], "{column} of {operation}");
        }
        assert_eq!(row["timed"], json!(operation["untimed"].is_null()), "{operation}");
        match row["table"].as_str().unwrap() {
            "kernel" => {
                assert_eq!(
                    (&row["demangledName"], &row["mangledName"]),
                    (&operation["name"], &operation["symbol"])
                );
            }
            "burst" => {
                assert_eq!((&row["kind"], &row["launches"]), (&operation["kind"], &operation["launches"]))
            }
            "graph" => assert_eq!(row["kernels"], operation["launches"]),
            _ => assert_eq!((&row["kind"], &row["bytes"]), (&operation["kind"], &operation["bytes"])),
        }
        let is_in_call = row["table"] != "burst" && !tables.is_filtered;
        assert!(!is_in_call || calls.contains(&row["correlationId"]), "{operation} has no call");
    }
    assert_eq!(count, rows.len());
}

/// What can be added up from rows is what the report adds up.
fn check_totals(tables: &Exported, report: &Value) {
    let mut apis: BTreeMap<String, (u64, u64, u64)> = BTreeMap::new();
    for row in tables.rows("runtime") {
        let sum = apis.entry(row["name"].as_str().unwrap().to_owned()).or_default();
        let number = |column: &str| row[column].as_u64().unwrap();
        *sum = (sum.0 + number("calls"), sum.1 + number("host_ns"), sum.2 + u64::from(row["failed"] == true));
    }
    let of = |api: &Value| {
        let number = |key: &str| api[key].as_u64().unwrap();
        (api["name"].as_str().unwrap().to_owned(), (number("count"), number("host_ns"), number("failed")))
    };
    assert_eq!(apis, report["apis"].as_array().unwrap().iter().map(of).collect());
    let syncs: u64 =
        report["syncs"].as_array().unwrap().iter().map(|sync| sync["count"].as_u64().unwrap()).sum();
    assert_eq!(tables.rows("sync").len() as u64, syncs);

    let gaps = tables.rows("gap");
    let total: u64 = gaps.iter().map(|gap| gap["dur"].as_u64().unwrap()).sum();
    assert_eq!(
        json!([gaps.len(), total]),
        json!([report["gaps"]["count"], report["gaps"]["total_ns"]["value"]])
    );
    assert_eq!(json!(tables.rows("step").len()), report["steps"]["count"]);
    assert_eq!(json!(tables.rows("kernel").len()), report["coverage"]["launches"]);
    let timed = tables.rows("kernel").iter().filter(|row| row["timed"] == true).count();
    assert_eq!(json!(timed), report["coverage"]["timed"]);

    if !tables.is_filtered {
        let device: Vec<Row> =
            tables.rows("alloc").into_iter().filter(|row| row["is_device"] == true).collect();
        let most = device.iter().map(|row| row["live_bytes"].as_u64().unwrap()).max().unwrap_or(0);
        let last = device.last().map_or(json!(0), |row| row["live_bytes"].clone());
        let peak = &report["memory"]["peak_bytes"];
        assert!(
            peak["lo"].as_u64().unwrap() <= most && most <= peak["hi"].as_u64().unwrap(),
            "{most}, {peak}"
        );
        assert_eq!(last, report["memory"]["live_bytes"]);
    }
    check_bursts(tables);
    let ranges = report["ranges"].as_array().unwrap().iter().chain(report["markers"].as_array().unwrap());
    let ranges: u64 = ranges.map(|range| range["count"].as_u64().unwrap()).sum();
    assert_eq!(tables.rows("nvtx").len() as u64, ranges);
    let [process] = &tables.rows("process")[..] else { panic!("a process has one row") };
    assert_eq!(process["timed_in_runs"], report["coverage"]["runs"]["launches"]);
    for key in ["launches", "timed", "captured", "in_graphs", "dropped", "pending", "unattributed"] {
        assert_eq!(process[key], report["coverage"][key], "{key}");
    }
    for (key, count) in report["coverage"]["untimed"].as_object().unwrap() {
        assert_eq!(&process[&format!("untimed_{key}")], count, "{key}");
    }
    for (key, count) in report["coverage"]["dropped_by"].as_object().unwrap() {
        assert_eq!(&process[&format!("dropped_{key}")], count, "{key}");
    }
    for (key, value) in report["processes"][0]["damage"].as_object().unwrap() {
        assert_eq!(&process[key], value, "{key}");
    }
    let devices = report["devices"].as_array().unwrap();
    for (row, device) in tables.rows("device").iter().zip(devices) {
        for (column, key) in
            [("uuid", "uuid"), ("name", "name"), ("totalMemory", "memory_bytes"), ("id", "id")]
        {
            assert_eq!(row[column], device[key], "{column}");
        }
    }
    assert_eq!(tables.rows("device").len(), devices.len());
}

/// Each launch that was timed together with others names the run or burst that has their time.
fn check_bursts(tables: &Exported) {
    let mut members: BTreeMap<u64, u64> = BTreeMap::new();
    for burst in tables.rows("kernel").iter().filter_map(|row| row["burst_id"].as_u64()) {
        *members.entry(burst).or_default() += 1;
    }
    let bursts = tables.rows("burst");
    let ids: BTreeSet<u64> = bursts.iter().map(|row| row["burst_id"].as_u64().unwrap()).collect();
    assert_eq!(ids.len(), bursts.len(), "each has an id of its own");
    for row in bursts.iter().filter(|row| row["timed"] == true && !tables.is_filtered) {
        assert_eq!(
            row["launches"].as_u64(),
            members.get(&row["burst_id"].as_u64().unwrap()).copied(),
            "{row:?}"
        );
    }
}

/// Each plain value of the report is in its table, by the rule that docs/parquet.md gives.
fn check_report(tables: &Exported, report: &Value) {
    let mut plain = Map::new();
    for (key, value) in report.as_object().unwrap() {
        let table = format!("report_{key}");
        match value {
            Value::Array(elements) => check_elements(tables, &table, None, elements),
            Value::Object(_) => check_row(tables, &table, &tables.rows(&table)[0], 0, value),
            Value::Null if tables.has(&table) => assert!(tables.rows(&table).is_empty(), "{table}"),
            _ => drop(plain.insert(key.clone(), value.clone())),
        }
    }
    check_row(tables, "report", &tables.rows("report")[0], 0, &Value::Object(plain));
}

fn check_elements(tables: &Exported, table: &str, parent: Option<usize>, elements: &[Value]) {
    let is_of = |row: &Row| parent.is_none_or(|parent| row["parent"] == json!(parent));
    let rows: Vec<Row> = tables.rows(table).into_iter().filter(is_of).collect();
    assert_eq!(rows.len(), elements.len(), "{table} of {parent:?}");
    for (row, element) in rows.iter().zip(elements) {
        check_row(tables, table, row, row["row"].as_u64().unwrap() as usize, element);
    }
}

fn check_row(tables: &Exported, table: &str, row: &Row, at: usize, value: &Value) {
    check_value(tables, (table, row, at), "", value);
}

fn check_value(tables: &Exported, place @ (table, row, at): (&str, &Row, usize), name: &str, value: &Value) {
    let or = |own: &str| if name.is_empty() { own.to_owned() } else { name.to_owned() };
    let is = |column: &str, value: &Value| {
        let found = row.get(column).unwrap_or_else(|| panic!("{table} has no {column}"));
        let same = match (found.as_f64(), value.as_f64()) {
            (Some(found), Some(value)) => found == value,
            _ => found == value,
        };
        assert!(same, "{table}, row {at}, {column}: {found}, in the report {value}");
    };
    match value {
        Value::Object(keys) if ["value", "lo", "hi", "kind"].iter().all(|key| keys.contains_key(*key)) => {
            is(&or("value"), &keys["value"]);
            for key in ["lo", "hi", "kind"] {
                is(&if name.is_empty() { key.to_owned() } else { format!("{name}_{key}") }, &keys[key]);
            }
        }
        Value::Object(keys) if tables.has(&format!("{table}_{name}")) && !name.is_empty() => {
            let inside = format!("{table}_{name}");
            let rows: Vec<Row> =
                tables.rows(&inside).into_iter().filter(|row| row["parent"] == json!(at)).collect();
            assert_eq!(rows.len(), keys.len(), "{inside}");
            for row in rows {
                let value = &keys[row["key"].as_str().unwrap()];
                check_row(tables, &inside, &row, row["row"].as_u64().unwrap() as usize, value);
            }
        }
        Value::Object(keys) => {
            for (key, value) in keys {
                let is_partition =
                    name.is_empty() && ["rank", "host"].contains(&key.as_str()) && !value.is_object();
                let key = if is_partition { format!("own_{key}") } else { key.clone() };
                let name = if name.is_empty() { key } else { format!("{name}_{key}") };
                check_value(tables, place, &name, value);
            }
        }
        Value::Array(elements) => {
            let inside = or("values");
            check_elements(tables, &format!("{table}_{inside}"), Some(at), elements);
        }
        // An object or a list that is not there has no column of its own.
        Value::Null if !row.contains_key(&or("value")) => {}
        plain => is(&or("value"), plain),
    }
}

#[test]
fn the_tables_say_what_the_report_says() {
    for trace in former() {
        check(&trace, &exported(&trace, &[]), &[]);
    }
}

#[test]
fn filters_select_the_same_rows_as_those_of_the_report() {
    let trace = |name: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/former").join(name);
    for (name, options) in [
        ("chain_and_waits.gspy", &["--since", "12ms", "--until", "20ms"][..]),
        ("chain_and_waits.gspy", &["--step", "10..20"]),
        ("graphs.gspy", &["--since", "1ms"]),
        ("moves.gspy", &["--stream", "7"]),
    ] {
        let trace = trace(name);
        let tables = exported(&trace, options).filtered();
        check(&trace, &tables, options);
        let all = exported(&trace, &[]);
        let count = |tables: &Exported| tables.rows("runtime").len() + tables.rows("kernel").len();
        assert!(count(&tables) < count(&all), "{name} {options:?}: nothing was left out");
    }
}

/// Writes the trace of a rank that lost records, with operations of two threads of which every ninth is untimed.
fn write_rank(path: &Path, rank: u32, records: usize) {
    let options = Options { threads: 2, other_calls: true, kernels: 20, ..Options::default() };
    let mut generator = Generator::new(u64::from(rank), options);
    let mut all: Vec<Record> = generator.by_ref().take(records).collect();
    for (n, record) in all.iter_mut().enumerate() {
        if let Body::Work(work) = &mut record.body
            && n % 9 == 4
        {
            (work.untimed, work.gpu) = (Untimed::DeepQueue, None);
        }
    }
    let status = Status {
        pid: 4242 + rank,
        began: all[0].at - 1_000_000,
        began_realtime: 1_795_924_516_000_000_000,
        ended: all[all.len() - 1].at,
        ending: Ending::Exited,
        driver_hooked: true,
        threads: BTreeMap::from([(0, 900), (1, 901)]),
        lost: BTreeMap::from([(LossCause::RingFull, 7)]),
        ..Status::default()
    };
    let mut writer =
        TraceWriter::create(path, &Status { ending: Ending::Running, ..status.clone() }).unwrap();
    for (space, id, text) in generator.names() {
        writer.name(space, id, &text).unwrap();
    }
    let environment = format!("RANK={rank}\0WORLD_SIZE=2\0");
    for (fact, text) in [
        (Fact::Environment, environment.as_str()),
        (Fact::Host, "node/../\u{1b}[1m"),
        (Fact::CommandLine, "python3\0dir/train.py\0"),
    ] {
        writer.name(Namespace::Fact, fact as u32, text).unwrap();
    }
    for (n, record) in all.into_iter().enumerate() {
        writer.push(record).unwrap();
        if n % 2_000 == 1_999 {
            writer.flush().unwrap();
        }
    }
    writer.finish(&status).unwrap();
}

#[test]
fn ranks_are_partitions_and_losses_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    for rank in [0, 1] {
        write_rank(&folder.path().join(format!("{rank}.gspy")), rank, 2_000 + 500 * rank as usize);
    }
    let tables = exported(folder.path(), &[]);
    assert_eq!(tables.places(), ["host=node_..___1m"]);
    assert_eq!(tables.ranks(), ["rank=0", "rank=1"]);
    for rank in [0, 1] {
        let trace = folder.path().join(format!("{rank}.gspy"));
        let tables = tables.of_rank(rank);
        check(&trace, &tables, &[]);
        let [process] = &tables.rows("process")[..] else { panic!("one process") };
        assert_eq!((&process["dropped_ring_full"], &process["world_size"]), (&json!(7), &json!(2)));
        assert!(process["untimed_deep_queue"].as_u64().unwrap() > 100);
        assert_eq!(process["realtimeBegan"], json!(1_795_924_516_000_000_000u64));
    }
}

/// They were numbered by SQL, by the rows that a filter or a window had left, so that different ones were compared.
#[test]
fn communication_kernels_have_the_same_numbers_whatever_the_filter_selects() {
    let folder = tempfile::tempdir().unwrap();
    write_ranks(folder.path(), Ranks { ranks: 2, hosts: 2, late: None, seed: 5, start: 0 }, 600).unwrap();
    let (whole, part) = (exported(folder.path(), &[]), exported(folder.path(), &["--since", "5ms"]));
    let (whole, part) = (whole.of_rank(1), part.of_rank(1));
    let numbers = |tables: &Exported| -> BTreeMap<u64, [Value; 3]> {
        let columns = ["mangledName", "communicationNumber", "communicationPlace"];
        let number = |row: &Row| row["operationId"].as_u64().unwrap();
        let rows = tables.rows("kernel").into_iter();
        rows.map(|row| (number(&row), columns.map(|column| row[column].clone()))).collect()
    };
    let (all, selected) = (numbers(&whole), numbers(&part));
    assert!(!selected.is_empty() && selected.len() < all.len(), "{} of {}", selected.len(), all.len());
    assert!(selected.iter().all(|(operation, numbers)| all[operation] == *numbers));
    let mut launches: BTreeMap<String, u64> = BTreeMap::new();
    for (place, (operation, [name, number, at])) in
        all.iter().filter(|(_, numbers)| !numbers[1].is_null()).enumerate()
    {
        let count = launches.entry(name.as_str().unwrap().to_owned()).or_default();
        assert_eq!((number, at), (&json!(*count), &json!(place)), "{operation}");
        *count += 1;
    }
    assert_eq!(launches.len(), 3);
    let named =
        |row: Row| (row["mangledName"].as_str().unwrap().to_owned(), row["launches"].as_u64().unwrap());
    for tables in [&whole, &part] {
        let rows = tables.rows("communication").into_iter();
        assert_eq!(rows.map(named).collect::<BTreeMap<_, _>>(), launches);
    }
}

/// Writes what one thread did in 800 µs.
fn write_records(path: &Path, began: u64, records: impl IntoIterator<Item = (u64, Body)>) {
    let status = Status { pid: 7, began, ended: began + 800_000, ..Status::default() };
    let mut writer = TraceWriter::create(path, &status).unwrap();
    writer.name(Namespace::Api, 1, "cuMemFree").unwrap();
    for (at, body) in records {
        writer.push(Record { thread: 0, at, body }).unwrap();
    }
    writer.finish(&status).unwrap();
}

/// A range that was open when the selected time began was in the table, and not in the report.
#[test]
fn ranges_of_a_part_are_those_that_start_in_it() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("t.gspy");
    let began = 1_000_000;
    let change = |at: u64, change, text| {
        let range = NvtxRange { change, id: 0, domain: 0, text, category: 0, color: 0, payload: false };
        (began + at, Body::NvtxRange(range))
    };
    let records = [
        change(100_000, NvtxChange::Push, 1),
        change(600_000, NvtxChange::Push, 2),
        change(650_000, NvtxChange::Mark, 3),
        change(700_000, NvtxChange::Pop, 0),
        change(750_000, NvtxChange::Pop, 0),
    ];
    write_records(&trace, began, records);
    for (options, count) in
        [(&[][..], 3), (&["--since", "500us"], 2), (&["--until", "500us"], 1), (&["--since", "720us"], 0)]
    {
        let tables = exported(&trace, options).filtered();
        check(&trace, &tables, options);
        assert_eq!(tables.rows("nvtx").len(), count, "{options:?}");
    }
}

/// What a call freed was gone when the call began: a call that waited across the end of a window had freed in that window by the table, and
/// in the next one by the report.
#[test]
fn memory_is_held_until_the_call_that_frees_it_has_returned() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("t.gspy");
    let began = 1_000_000;
    let call =
        |correlation, begin, end| Call { api: 1, begin, end, correlation, context: 1, ..Call::default() };
    let allocated = call(1, began + 1_000, began + 2_000);
    let freed = call(2, began + 10_000, began + 700_000);
    let begun = Call { end: freed.begin, flags: flag::MORE, ..freed };
    let (memory, address) = (Memory::Device, 0x1000);
    let records = [
        (
            allocated.end,
            Body::Alloc(Alloc { call: allocated, memory, address, bytes: 4_096, stream: 0, pool: 0 }),
        ),
        (freed.begin, Body::Free(Free { call: begun, memory, address, stream: 0, bytes: 0 })),
        (freed.end, Body::Api(Api { call: freed, result: 0, subject: 0, calls: 1, inside: 0, entered: 0 })),
    ];
    write_records(&trace, began, records);
    for (options, changes, live) in [
        (&[][..], &[("allocated", 2_000), ("freed", 700_000)][..], 0),
        (&["--until", "500us"], &[("allocated", 2_000)], 4_096),
        (&["--since", "500us"], &[("freed", 700_000)], 0),
    ] {
        let rows = exported(&trace, options).rows("alloc");
        let found: Vec<(&str, u64)> = rows
            .iter()
            .map(|row| (row["change"].as_str().unwrap(), row["start"].as_u64().unwrap() - began))
            .collect();
        assert_eq!(found, changes, "{options:?}");
        assert_eq!(report(&trace, options)["memory"]["live_bytes"], live, "{options:?}");
        assert_eq!(rows.last().unwrap()["live_bytes"], live, "{options:?}");
    }
}

#[test]
fn a_damaged_trace_has_what_can_be_read_and_says_what_cannot() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("cut.gspy");
    write_rank(&trace, 3, 30_000);
    let whole = exported(&trace, &[]).rows("kernel").len();
    let bytes = fs::read(&trace).unwrap();
    fs::write(&trace, &bytes[..bytes.len() * 2 / 3]).unwrap();
    let tables = exported(&trace, &[]);
    check(&trace, &tables, &[]);
    assert!((1..whole).contains(&tables.rows("kernel").len()), "of {whole}");
    assert_eq!(tables.rows("process")[0]["cut"], json!(true));
}

#[test]
fn a_job_that_is_there_is_not_touched_and_others_may_be() {
    let (folder, traces) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let trace = traces.path().join("t.gspy");
    write_rank(&trace, 0, 500);
    let (trace, out) = (trace.to_str().unwrap(), folder.path().join("new").join("out"));
    let out = out.to_str().unwrap();
    let export =
        |options: &[&str]| gpuspy(&[&["export", trace, "--to", "parquet", "-o", out], options].concat());
    assert!(export(&[]).status.success());
    let again = export(&[]);
    let sentence = String::from_utf8_lossy(&again.stderr).into_owned();
    assert_eq!(again.status.code(), Some(2), "{sentence}");
    assert!(
        sentence.contains("job=train.py-20261129-035516 is there already: name another job"),
        "{sentence}"
    );
    assert!(export(&["--job", "../b"]).status.success());
    let mut jobs: Vec<String> =
        fs::read_dir(out).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    jobs.sort();
    assert_eq!(jobs, ["job=.._b", "job=train.py-20261129-035516"], "and nothing hidden is left");
    for (options, why) in [
        (&["export", trace, "--to", "parquet"][..], "-o DIR"),
        (&["export", trace, "--to", "parquet", "-o", trace], "is a file"),
        (&["export", trace, "--to", "chrome", "--job", "j"], "--job is for --to parquet"),
        (&["export", trace, "--to", "parquet", "-o", out, "--weight", "gpu"], "--weight is for"),
    ] {
        let done = gpuspy(options);
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(done.status.code() == Some(2) && said.contains(why), "{options:?}: {said}");
    }
}
