//! Compares what the report says with what the program did, and each operation's interval with the simulator's truth.

use gpuspy_collector::model::gpu_interval::GpuInterval;
use gpuspy_collector::model::survey::Survey;
use gpuspy_collector::model::typical::Prior;
use gpuspy_collector::model::{Model, When};
use gpuspy_collector::trace::TraceReader;
use gpuspy_collector::trace::record::{Body, What, Work};
use gpuspy_tests::{Done, truth};
use serde_json::Value;
use std::collections::BTreeMap;

/// Functions that are not intercepted yet: they enqueue nothing and allocate nothing.
const UNKNOWN_CALLS: &[&str] = &["cuDeviceGet", "cuCtxSetCurrent", "cudaSetDevice"];

/// Returns the program's own counts of calls, for the functions in the agent's table.
pub fn known_calls(said: &Value) -> BTreeMap<String, u64> {
    let calls = said["apis"].as_object().unwrap().iter().map(|(n, c)| (n.clone(), c.as_u64().unwrap()));
    calls.filter(|(name, _)| !UNKNOWN_CALLS.contains(&name.as_str())).collect()
}

/// Returns one number of each entry of a list, by the entry's name.
pub fn by_name(list: &Value, name: &str, count: &str) -> BTreeMap<String, u64> {
    let entry = |e: &Value| (e[name].as_str().unwrap().to_owned(), e[count].as_u64().unwrap());
    list.as_array().unwrap().iter().map(entry).collect()
}

/// Returns copies and memsets by kind and host memory, with their count and bytes.
pub fn transfers(list: &Value) -> BTreeMap<(String, String), (u64, u64)> {
    let mut sums = BTreeMap::new();
    for e in list.as_array().unwrap() {
        let key = (e["kind"].as_str().unwrap().to_owned(), e["host_memory"].as_str().unwrap().to_owned());
        let sum: &mut (u64, u64) = sums.entry(key).or_default();
        sum.0 += e["count"].as_u64().unwrap();
        sum.1 += e["bytes"].as_u64().unwrap();
    }
    sums
}

/// An operation of the trace, beside its truth.
pub struct Compared {
    pub correlation: u64,
    pub work: Work,
    pub truth: truth::Operation,
    pub when: When,
}

impl Compared {
    /// Returns the trace's id of its stream.
    pub fn stream(&self) -> u64 {
        self.work.stream
    }

    /// Returns the host ns when the poller observed that it was complete.
    pub fn seen(&self) -> Option<u64> {
        self.work.gpu.map(|gpu| gpu.seen)
    }

    /// Returns its interval and its true length, if it is timed.
    pub fn timed(&self) -> Option<(&GpuInterval, u64)> {
        match &self.when {
            When::Timed(interval) => Some((interval, self.truth.interval.1 - self.truth.interval.0)),
            _ => None,
        }
    }

    /// Returns its best value as a share of its true length.
    pub fn of_truth(&self) -> Option<f64> {
        self.timed().map(|(interval, truth)| interval.value() as f64 / truth as f64)
    }

    /// Describes its interval if it does not contain the truth.
    pub fn violation(&self) -> Option<String> {
        let (interval, truth) = self.timed()?;
        let within = (interval.lo().saturating_sub(slack(truth)), interval.hi() + slack(truth));
        let holds = within.0 <= truth && truth <= within.1;
        let found = || format!("{interval:?} of {:?}", self.work);
        (!holds).then(|| format!("{:?} lasted {truth}, not in {within:?}: {}", self.truth, found()))
    }
}

/// Fails the test unless each interval contains the truth.
pub fn intervals_contain_the_truth(compared: &[Compared]) {
    let wrong: Vec<String> = compared.iter().filter_map(Compared::violation).collect();
    assert!(wrong.is_empty(), "{} of {}: {}", wrong.len(), compared.len(), wrong[0]);
}

/// Pairs each operation of the trace with the simulator's, and checks that their stream ids are equal.
pub fn compare(done: &Done) -> Vec<Compared> {
    let compared = pair(done);
    for Compared { truth, work, .. } in &compared {
        assert_eq!(work.stream, truth.stream, "stream id of {truth:?}");
    }
    compared
}

/// Pairs each operation of the trace with the simulator's, thread by thread, in the order of their calls.
pub fn pair(done: &Done) -> Vec<Compared> {
    estimated(done, Prior::default())
}

/// Does the same with a given rule for using typical lengths.
pub fn estimated(done: &Done, prior: Prior) -> Vec<Compared> {
    let mut reader = TraceReader::open(&done.trace()).unwrap();
    let status = reader.status().unwrap().clone();
    let names = reader.names().clone();
    let clocks = Survey::with(prior, reader.records());
    let mut model = Model::new(&names, &clocks);
    let mut ours: BTreeMap<u64, Vec<(Work, &str, When)>> = BTreeMap::new();
    for record in reader.records() {
        let Some(operation) = model.observe(&record).operation else { continue };
        let Body::Work(work) = &record.body else { panic!("{record:?}") };
        let kind = match work.what {
            What::Kernel { .. } => "kernel",
            What::Memcpy { .. } => "copy",
            What::Memset { .. } => "memset",
            What::Graph { .. } => "graph",
            // Its launches are compared one by one.
            What::Burst { .. } => continue,
        };
        if operation.when != When::Captured {
            let tid = u64::from(status.threads[&record.thread]);
            ours.entry(tid).or_default().push((work.clone(), kind, operation.when));
        }
    }
    let mut theirs: BTreeMap<u64, Vec<truth::Operation>> = BTreeMap::new();
    for operation in done.truth().operations() {
        theirs.entry(operation.tid).or_default().push(operation);
    }
    assert_eq!(ours.keys().collect::<Vec<_>>(), theirs.keys().collect::<Vec<_>>());
    let mut compared = Vec::new();
    for (tid, mut ours) in ours {
        ours.sort_by_key(|(work, ..)| work.call.correlation);
        let theirs = &theirs[&tid];
        assert_eq!(ours.len(), theirs.len(), "thread {tid}");
        for ((work, kind, when), truth) in ours.into_iter().zip(theirs) {
            assert_eq!(kind, truth.kind, "thread {tid}: {truth:?}");
            let correlation = work.call.correlation;
            compared.push(Compared { correlation, work, truth: truth.clone(), when });
        }
    }
    compared
}

/// Returns the median.
pub fn median(mut values: Vec<u64>) -> u64 {
    values.sort_unstable();
    values[values.len() / 2]
}

/// Returns the tolerance for a duration, ns: the GPU clock runs up to 100 ppm apart from the host's, which the truth
/// uses, and ns are rounded.
pub fn slack(duration: u64) -> u64 {
    2 + duration / 10_000
}
