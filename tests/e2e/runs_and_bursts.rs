//! Compares bursts and runs, which are launches that are timed together, with the simulator's truth.
//! `random_programs.rs` checks every random program with this.

use crate::compare::{Compared, slack};
use crate::random_programs::Setting;
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
    /// Its interval, if it is timed.
    pub interval: Option<GpuInterval>,
    /// The correlations of its launches.
    pub members: Vec<u64>,
}

/// Returns the bursts and runs of a trace.
pub fn of(done: &Done) -> Vec<Together> {
    let mut reader = TraceReader::open(&done.trace()).unwrap();
    let names = reader.names().clone();
    let clocks = Survey::of(reader.records());
    let mut model = Model::new(&names, &clocks);
    // Another thread may end a run before the record of its last launch arrives, so launches are assigned by submission
    // time.
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
        let members =
            of_stream.get(first..first + run.members.len()).expect("the trace has every launch of the run");
        assert!(members.iter().all(|(submitted, _)| *submitted <= run.work.call.end), "{:?}", run.work);
        run.members = members.iter().map(|(_, correlation)| *correlation).collect();
    }
    all
}

/// Returns whether operations run without a gap from `from` to `to`.
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

/// Lists what is wrong with bursts and runs, one line each.
pub fn violations(done: &Done, compared: &[Compared], setting: Setting) -> Vec<String> {
    // Skips clocks that drift faster than the collector assumes: their error can exceed the reported one.
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
        // Within the clocks' uncertainty, nothing is claimed at the ends.
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
