//! Launches that are timed together, bursts and runs: what is said of each against the simulator's truth. `random.rs` asks
//! this of every random program.

use crate::compare::{Compared, slack};
use crate::random::Setting;
use gpuspy_collector::model::gpu_interval::{Basis, GpuInterval};
use gpuspy_collector::model::survey::Survey;
use gpuspy_collector::model::{Action, Model, When};
use gpuspy_collector::trace::TraceReader;
use gpuspy_collector::trace::record::{Body, Work};
use gpuspy_tests::Done;
use gpuspy_wire::record::flag;
use std::collections::BTreeMap;

/// A burst or a run.
pub struct Together {
    pub work: Work,
    /// When it ran, if that is known.
    pub interval: Option<GpuInterval>,
    /// The correlations of its launches.
    pub members: Vec<u64>,
}

/// Those of a trace.
pub fn of(done: &Done) -> Vec<Together> {
    let mut reader = TraceReader::open(&done.trace()).unwrap();
    let names = reader.names().clone();
    let clocks = Survey::of(reader.records());
    let mut model = Model::new(&names, &clocks);
    // Another thread may end a run before the record of its last launch has come: what belongs to which is told by when.
    let mut launched: BTreeMap<(u32, u64), Vec<(u64, u64)>> = BTreeMap::new();
    let mut all: Vec<Together> = Vec::new();
    for record in reader.records() {
        let Some(operation) = model.observe(&record).operation else { continue };
        let Body::Work(work) = record.body else { panic!("{record:?}") };
        let stream = (work.call.context, work.stream);
        if let Action::Burst { launches, .. } = operation.what {
            let interval = if let When::Timed(interval) = operation.when { Some(interval) } else { None };
            all.push(Together { work, interval, members: vec![0; launches as usize] });
        } else if work.call.flags & flag::BURST != 0 {
            launched.entry(stream).or_default().push((work.submitted, work.call.correlation));
        }
    }
    for run in &mut all {
        let of_stream = launched.get_mut(&(run.work.call.context, run.work.stream)).unwrap();
        of_stream.sort_unstable();
        let first = of_stream.partition_point(|(submitted, _)| *submitted < run.work.submitted);
        let members = of_stream.get(first..first + run.members.len()).expect("all of its launches are there");
        assert!(members.iter().all(|(submitted, _)| *submitted <= run.work.call.end), "{:?}", run.work);
        run.members = members.iter().map(|(_, correlation)| *correlation).collect();
    }
    all
}

/// Whether operations run one after the other without a ns between them from `from` to `to`.
fn is_covered(sorted: &[(u64, u64)], from: i64, to: i64) -> bool {
    let mut reached = from;
    let first = sorted.partition_point(|(_, end)| *end as i64 <= from);
    for (begin, end) in sorted.iter().skip(first) {
        if reached >= to || *begin as i64 > reached {
            break;
        }
        reached = reached.max(*end as i64);
    }
    reached >= to
}

/// What is wrong with what is said of bursts and runs, a line each.
pub fn violations(done: &Done, compared: &[Compared], setting: Setting) -> Vec<String> {
    // Clocks that run apart faster than is assumed can be off against each other by more than is said.
    if setting.iter().any(|(name, value)| *name == "SIMCUDA_CLOCK_WANDER_PPB" && *value == "2000") {
        return Vec::new();
    }
    let by_correlation: BTreeMap<u64, &Compared> = compared.iter().map(|c| (c.correlation, c)).collect();
    let mut streams: BTreeMap<u64, Vec<(u64, u64)>> = BTreeMap::new();
    for c in compared {
        streams.entry(c.truth.stream).or_default().push(c.truth.interval);
    }
    streams.values_mut().for_each(|stream| stream.sort_unstable_by_key(|(begin, end)| (*end, *begin)));
    let mut wrong = Vec::new();
    for run in of(done) {
        let Some(o) = run.interval else { continue };
        let truth: Vec<_> = run.members.iter().map(|member| by_correlation[member].truth.interval).collect();
        let (Some(begin), Some(end)) = (truth.iter().map(|t| t.0).min(), truth.iter().map(|t| t.1).max())
        else {
            continue;
        };
        let off_by = o.off_by.unwrap_or(u64::MAX >> 2) as i64 + 2;
        let within = |from: i64, at: u64, to: i64| from - off_by <= at as i64 && at as i64 <= to + off_by;
        let lasted = end - begin;
        let lengths = (o.lo().saturating_sub(slack(lasted)), o.hi() + slack(lasted));
        let stream = by_correlation[&run.members[0]].truth.stream;
        // By what the two clocks may be off there is nothing to say at the ends.
        let (from, to) = (o.busy_from + off_by, o.earliest_end - off_by);
        let is_certain =
            o.basis == Basis::BoundsOnly || to <= from || is_covered(&streams[&stream], from, to);
        if !(within(o.earliest_start, begin, o.latest_start)
            && within(o.earliest_end, end, o.latest_end)
            && lengths.0 <= lasted
            && lasted <= lengths.1
            && is_certain)
        {
            wrong.push(format!("{begin}..{end} ({lasted} ns, certain: {is_certain}): {o:?}, {:?}", run.work));
        }
    }
    wrong
}
