//! Writes each operation of a trace as a JSON object, for scripts that compute their own figures. docs/operations.md
//! describes the keys.

use super::names::demangle;
use crate::analyze::calls::base_name;
use crate::analyze::estimate::Estimate;
use crate::analyze::kernels::UNKNOWN;
use crate::harmless;
use crate::hash::HashMap;
use crate::model::clocks::Clocks;
use crate::model::filter::{Filter, RecordFilter};
use crate::model::gpu_interval::GpuInterval;
use crate::model::job::Job;
use crate::model::process_key::key;
use crate::model::stacks::{Frame, Stacks};
use crate::model::{Action, Model, Operation, When};
use crate::trace::record::{Body, Call, Names, Record, Status};
use gpuspy_wire::record::{Namespace, Untimed};
use serde::Serialize;

/// Turns the records of one process, in the order of the trace, into operations. Its memory grows with the number of
/// different kernels, not with the trace.
#[derive(Debug)]
pub struct Operations<'a> {
    names: &'a Names,
    process: String,
    rank: Option<u32>,
    model: Model<'a>,
    status: Option<&'a Status>,
    record_filter: RecordFilter<'a>,
    filter: &'a Filter,
    demangled: HashMap<u32, String>,
    stacks: Stacks,
}

#[derive(Serialize)]
struct Line<'l> {
    process: &'l str,
    rank: Option<u32>,
    pid: Option<u32>,
    tid: Option<u32>,
    correlation: u64,
    api: Option<&'l str>,
    kind: &'static str,
    name: Option<&'l str>,
    symbol: Option<&'l str>,
    bytes: Option<u64>,
    launches: Option<u32>,
    device: Option<u32>,
    context: u32,
    stream: u64,
    call_start_ns: u64,
    call_end_ns: u64,
    #[serde(flatten)]
    times: Times,
    untimed: Option<&'static str>,
    line: Option<String>,
    stack: Option<Vec<String>>,
}

#[derive(Default, Serialize)]
struct Times {
    clock: Option<String>,
    start_ns: Option<Estimate<i64>>,
    finish_ns: Option<Estimate<i64>>,
    duration_ns: Option<Estimate<u64>>,
}

impl Times {
    fn of(o: &GpuInterval) -> Times {
        // If nothing relates the clocks, the operation has a position among its neighbours, but no host time.
        let [start, end] = o.bounds();
        Times {
            clock: Some(o.clock().into_owned()),
            start_ns: Some(Estimate::new(o.start, start.0, start.1)),
            finish_ns: Some(Estimate::new(o.end, end.0, end.1)),
            duration_ns: Some(Estimate::new(o.value(), o.lo(), o.hi())),
        }
    }
}

impl<'a> Operations<'a> {
    /// Starts the conversion of one process, limited to a filter. No record of it may have been observed yet.
    pub fn new(names: &'a Names, clocks: &'a Clocks, status: Option<&'a Status>, filter: &'a Filter) -> Self {
        Operations {
            names,
            process: key(names, status, "-"),
            rank: Job::of(names).rank,
            model: Model::new(names, clocks),
            status,
            filter,
            record_filter: RecordFilter::of(filter, names, status, clocks),
            demangled: HashMap::default(),
            stacks: Stacks::of(names),
        }
    }

    /// Names the process by the name of its trace, if the trace has no status that tells it from others.
    pub fn of_trace(self, name: &str) -> Self {
        Operations { process: key(self.names, self.status, name), ..self }
    }

    /// Returns the line of the next record, without a newline; `None` if the record is not an operation or is filtered out.
    pub fn observe(&mut self, record: &Record) -> Option<String> {
        let event = self.model.observe(record);
        let operation = Some(&event).filter(|event| self.record_filter.passes(event))?.operation?;
        let Body::Work(work) = &record.body else { return None };
        Some(self.line(record.thread, &work.call, &operation))
    }

    fn line(&mut self, thread: u32, call: &Call, operation: &Operation) -> String {
        let names = self.names;
        let (mut name, mut symbol, mut bytes, mut launches) = (None, None, None, None);
        let kind = match operation.what {
            Action::Kernel { name: id, .. } => {
                symbol = names.get(Namespace::Kernel, id);
                let text = self.demangled.entry(id).or_insert_with(|| demangle(symbol.unwrap_or(UNKNOWN)));
                name = Some(text.as_str());
                "kernel"
            }
            Action::Transfer { kind, bytes: moved, .. } => {
                bytes = Some(moved);
                kind.name()
            }
            Action::Graph { kernels } => {
                launches = Some(kernels);
                "graph"
            }
            Action::Burst { launches: several, .. } => {
                launches = Some(several);
                if operation.what.is_run() { "run" } else { "burst" }
            }
        };
        let (times, untimed) = match operation.when {
            When::Timed(interval) => (Times::of(&interval), None),
            When::Untimed { reason, .. } => (Times::default(), Some(reason.name())),
            When::Captured => (Times::default(), Some(Untimed::Captured.name())),
        };
        let line = Line {
            process: &self.process,
            rank: self.rank,
            pid: self.status.map(|status| status.pid),
            tid: self.status.and_then(|status| status.threads.get(&thread).copied()),
            correlation: operation.correlation,
            api: names.get(Namespace::Api, call.api.into()).map(base_name),
            kind,
            name,
            symbol,
            bytes,
            launches,
            device: operation.device,
            context: operation.context,
            stream: self.filter.number_of(operation.context, operation.stream),
            call_start_ns: call.begin,
            call_end_ns: call.end,
            times,
            untimed,
            line: self.stacks.line(self.stacks.line_of(call)).map(Frame::place),
            stack: self.stacks.listed(call.stack),
        };
        // A line has only numbers and texts, so serialization cannot fail.
        harmless::json(serde_json::to_string(&line).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::simulation;
    use crate::model::survey::Survey;
    use crate::trace::record::{Context, Ending, GpuTime};
    use gpuspy_wire::record::Fact;
    use serde_json::{Value, json};
    use std::collections::BTreeMap;

    const PID: u32 = 4242;

    fn lines(records: &[Body], filter: &Filter) -> Vec<Value> {
        let text = |space, id, text: &str| ((space, id), text.to_owned());
        let names = Names(BTreeMap::from([
            text(Namespace::Kernel, 1, "_Z6vecaddPKfS0_Pfi"),
            text(Namespace::Api, 5, "cuLaunchKernel_ptsz"),
        ]));
        let record = |body: &Body| Record { thread: 1, at: 0, body: body.clone() };
        let clocks = Survey::of(records.iter().map(record));
        let status = Status {
            pid: PID,
            ending: Ending::Exited,
            driver_hooked: true,
            threads: BTreeMap::from([(1, 77)]),
            ..Status::default()
        };
        let mut operations = Operations::new(&names, &clocks, Some(&status), filter);
        let lines = records.iter().filter_map(|body| operations.observe(&record(body)));
        lines.map(|line| serde_json::from_str(&line).unwrap()).collect()
    }

    fn launch(gpu: Option<GpuTime>, untimed: Untimed) -> Body {
        let mut work = simulation::work(10_000, 4_000, 1_000);
        (work.gpu, work.untimed, work.call.api, work.call.context) = (gpu, untimed, 5, 1);
        Body::Work(work)
    }

    #[test]
    fn each_operation_is_one_line_and_other_records_are_none() {
        let gpu = GpuTime { time_base: 2, start: 50_000, duration: 90_000, ..GpuTime::default() };
        let context = Body::Context(Context { context: 1, device: 3, handle: 9, destroyed: false });
        let records = [
            context,
            launch(Some(gpu), Untimed::Timed),
            launch(None, Untimed::DeepQueue),
            launch(None, Untimed::Captured),
        ];
        let lines = lines(&records, &Filter::default());
        let [timed, deep, captured] = &lines[..] else { panic!("{lines:?}") };
        for (key, value) in [
            ("pid", json!(PID)),
            ("tid", json!(77)),
            ("api", json!("cuLaunchKernel")),
            ("kind", json!("kernel")),
            ("name", json!("vecadd(float const*, float const*, float*, int)")),
            ("symbol", json!("_Z6vecaddPKfS0_Pfi")),
            ("bytes", Value::Null),
            ("device", json!(3)),
            ("untimed", Value::Null),
        ] {
            assert_eq!(timed[key], value, "{key}");
        }
        let (start, finish, took) = (&timed["start_ns"], &timed["finish_ns"], &timed["duration_ns"]);
        assert_eq!(start["lo"], 6_000, "its start event cannot have fired before it was recorded");
        assert!(
            took["hi"].as_u64().is_some_and(|hi| (90_000..=92_048).contains(&hi)),
            "{took}: a stamp of unknown resolution"
        );
        let span = finish["value"].as_i64().unwrap() - start["value"].as_i64().unwrap();
        // The duration is on the GPU's clock, which may drift by 200 ppm against the host's.
        assert!((took["value"].as_i64().unwrap() - span).abs() <= span / 5_000 + 1, "{took}, {span}");
        assert_eq!((&deep["untimed"], &deep["duration_ns"]), (&json!("deep_queue"), &Value::Null));
        assert_eq!(captured["untimed"], "captured");
        assert_eq!(
            (&timed["process"], &timed["rank"]),
            (&json!("unknown/-/4242/19700101-000000.000000000"), &Value::Null)
        );
        let documented = include_str!("../../../docs/operations.md");
        for key in timed.as_object().unwrap().keys() {
            assert!(documented.contains(&format!("`{key}`")), "docs/operations.md does not describe {key}");
        }
    }

    /// With one pid on two machines, lines of both had the same pid and correlation.
    #[test]
    fn operations_of_processes_with_one_pid_have_different_keys() {
        let (clocks, filter) = (Survey::of(std::iter::empty()), Filter::default());
        let process = |host: &str, rank: &str, status: Option<&Status>, trace: &str| {
            let fact = |fact: Fact, text: &str| ((Namespace::Fact, fact as u32), text.to_owned());
            let variables = format!("RANK={rank}");
            let names = Names(BTreeMap::from([fact(Fact::Host, host), fact(Fact::Environment, &variables)]));
            let mut operations = Operations::new(&names, &clocks, status, &filter).of_trace(trace);
            let work = launch(None, Untimed::DeepQueue);
            let line = operations.observe(&Record { thread: 1, at: 0, body: work }).unwrap();
            let line: Value = serde_json::from_str(&line).unwrap();
            assert_eq!(line["rank"].to_string(), rank);
            line["process"].to_string()
        };
        let status = Status { pid: PID, ..Status::default() };
        let again = Status { began_realtime: 7, ..status.clone() };
        let keys = [
            process("one", "0", Some(&status), "a.gspy"),
            process("two", "0", Some(&status), "a.gspy"),
            process("one", "1", Some(&status), "a.gspy"),
            process("one", "0", Some(&again), "a.gspy"),
            process("one", "0", None, "a.gspy"),
            process("one", "0", None, "b.gspy"),
        ];
        assert_eq!(keys.iter().collect::<std::collections::BTreeSet<_>>().len(), keys.len(), "{keys:?}");
    }

    #[test]
    fn filtered_operations_have_no_line() {
        let records = [launch(None, Untimed::DeepQueue), launch(None, Untimed::DeepQueue)];
        let count = |filter: &Filter| lines(&records, filter).len();
        let of = |streams: &[u64]| Filter { streams: streams.to_vec(), ..Filter::default() };
        assert_eq!((count(&of(&[7])), count(&of(&[8])), count(&of(&[8, 7]))), (2, 0, 2));
        let by = |threads: &[u32]| Filter { threads: threads.to_vec(), ..Filter::default() };
        assert_eq!(
            (count(&by(&[77])), count(&by(&[1]))),
            (2, 0),
            "threads are selected by tid, not by claim number"
        );
    }
}
