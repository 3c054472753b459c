//! Where the agent's events are placed: shared between neighbours, and never inside a sequence of programmatic
//! launches.

use crate::compare::{self, Compared, compare, median, slack};
use crate::runs_and_bursts;
use gpuspy_collector::model::gpu_interval::GpuInterval;
use gpuspy_collector::model::survey::Survey;
use gpuspy_collector::model::{Action, Model, When};
use gpuspy_collector::trace::TraceReader;
use gpuspy_collector::trace::record::{Body, Work};
use gpuspy_tests::{Done, Run, until_one_is_good};
use gpuspy_wire::record::flag;
use std::collections::{BTreeMap, BTreeSet};

/// Returns all work of a trace in order, with the model's interpretation of it.
fn work(done: &Done) -> Vec<(Work, Action, When)> {
    let mut reader = TraceReader::open(&done.trace()).unwrap();
    let (names, clocks) = (reader.names().clone(), Survey::of(reader.records()));
    let mut model = Model::new(&names, &clocks);
    let mut all = Vec::new();
    for record in reader.records() {
        let Some(operation) = model.observe(&record).operation else { continue };
        let Body::Work(work) = &record.body else { panic!("{record:?}") };
        all.push((work.clone(), operation.what, operation.when));
    }
    all
}

fn intervals_contain_the_truth(done: &Done) -> Vec<Compared> {
    let compared = compare(done);
    compare::intervals_contain_the_truth(&compared);
    compared
}

fn busy_stream() -> Run {
    Run::of("busy_stream")
}

/// Counts the timed operations that share their start event with the end of the operation before, and all timed ones.
fn shared(done: &Done) -> (usize, usize) {
    let timed = |w: &&(Work, Action, When)| matches!(w.2, When::Timed(_));
    let work = work(done);
    let shared = work.iter().filter(timed).filter(|w| w.0.call.flags & flag::SHARED_START != 0).count();
    (shared, work.iter().filter(timed).count())
}

#[test]
fn on_a_busy_stream_one_event_ends_an_operation_and_starts_the_next() {
    let done = busy_stream().observed().succeeded();
    let (shared, timed) = shared(&done);
    println!("{shared} of {timed} share their start event");
    assert!(shared * 10 > timed * 8, "{shared} of {timed}");
    // At least one in 64 is not shared: only such pairs show what an event costs.
    assert!(shared * 64 <= timed * 63, "{shared} of {timed}");
    let errors = intervals_contain_the_truth(&done)
        .iter()
        .filter_map(|c| c.timed().map(|(o, truth)| o.value().abs_diff(truth)))
        .collect();
    assert!(median(errors) <= 2);
}

/// A GPU like those that were measured: an event takes it 1248 ns, in steps of 32, and it needs half of that from the start event
/// to the kernel.
#[test]
fn best_values_leave_out_what_events_and_launches_take_on_the_gpu() {
    let run = busy_stream().env("SIMCUDA_EVENT_NS", "1248").env("SIMCUDA_EVENT_RESOLUTION_NS", "32");
    let done = run.env("SIMCUDA_LAUNCH_NS", "624").observed().succeeded();
    let compared = intervals_contain_the_truth(&done);
    let queued = compared.iter().filter(|c| c.truth.queue > 0).filter_map(Compared::timed);
    let errors: Vec<u64> = queued.map(|(o, truth)| o.value().abs_diff(truth)).collect();
    assert!(errors.len() > 1_000, "only {} were queued", errors.len());
    assert!(median(errors) <= 100);
}

/// The poller asked for two distances of each operation, where one is enough for most: what it was told of an operation did not say
/// that this begins with the event that ended the one before.
#[test]
fn an_operation_that_begins_with_the_event_before_takes_the_poller_one_distance() {
    let done = busy_stream().observed().succeeded();
    let (shared, timed) = shared(&done);
    let truth = done.truth();
    let questions = truth.of("questions").next().unwrap();
    let distances = questions["distances"].as_u64().unwrap() as usize;
    println!("{questions} for {timed} operations, of which {shared} share their start event");
    // Where a polling pass begins, and where an anchor of the time base is set, it takes two.
    assert!(distances < 2 * timed - shared / 2, "{distances} for {timed}, of which {shared} share");
}

#[test]
fn without_sharing_every_operation_has_its_own_event_pair() {
    let done = busy_stream().env("GPUSPY_EVENTS", "pairs").observed().succeeded();
    assert_eq!(shared(&done).0, 0);
    intervals_contain_the_truth(&done);
}

/// Returns the median GPU time between a kernel's end and the next one's start: where the stream was busy, only the
/// agent's events lie there.
fn between_kernels(done: &Done) -> u64 {
    let all = done.truth().operations();
    median(all.windows(2).map(|pair| pair[1].interval.0 - pair[0].interval.1).collect())
}

#[test]
fn sharing_halves_the_gpu_time_taken_by_the_agents_events() {
    // An event takes 2 µs of the GPU here, a kernel 20 µs.
    let costly = || busy_stream().env("SIMCUDA_EVENT_NS", "2000");
    until_one_is_good(|| {
        let pairs = costly().env("GPUSPY_EVENTS", "pairs").observed().succeeded();
        let shared = costly().observed().succeeded();
        let plain = between_kernels(&costly().plain().succeeded());
        [&pairs, &shared].iter().for_each(|done| drop(intervals_contain_the_truth(done)));
        let found =
            [("without", plain), ("pairs", between_kernels(&pairs)), ("shared", between_kernels(&shared))];
        println!("between kernels, ns: {found:?}");
        // Where other programs hold it up, most launches find the stream deep, and have no events of their own.
        let is_good = found.map(|(_, ns)| ns) == [0, 4_000, 2_000];
        is_good.then_some(()).ok_or_else(|| format!("{found:?}"))
    });
}

#[test]
fn an_event_is_not_shared_across_waits_and_host_functions() {
    let done = Run::of("between_kernels").observed().succeeded();
    let compared = intervals_contain_the_truth(&done);
    let timed = compared.iter().filter(|c| c.timed().is_some()).count();
    assert!(done.is_share(timed, compared.len(), 0.9), "{timed} of {}", compared.len());
    let (shared, timed) = shared(&done);
    assert!(shared * 2 > timed, "the test proves nothing: only {shared} of {timed} launches share events");
}

/// Returns the bursts of a trace, each with the correlations of its launches.
fn bursts(done: &Done) -> Vec<(Option<GpuInterval>, Vec<u64>)> {
    runs_and_bursts::of(done).into_iter().map(|burst| (burst.interval, burst.members)).collect()
}

fn programmatic_launches_are_timed_as_bursts(program: &str) {
    let done = Run::of(program).observed().succeeded();
    let (said, truth) = (done.said(), done.truth());

    // Each kernel cuts at most one sequence per thread: the streams of two threads can find out at the same time.
    let cut = truth.of("kernel").filter(|kernel| kernel["cut"] == true);
    let cut: Vec<&str> = cut.map(|kernel| kernel["name"].as_str().unwrap()).collect();
    println!("{} of {} sequences were cut: {cut:?}", cut.len(), said["chains"]);
    let kernels = said["kernels"].as_object().unwrap().len();
    assert!(cut.len() <= 2 * kernels, "{cut:?}");

    let compared = intervals_contain_the_truth(&done);
    let by_correlation: BTreeMap<u64, &Compared> = compared.iter().map(|c| (c.correlation, c)).collect();
    let all = bursts(&done);
    let mut inside = BTreeSet::new();
    for (interval, members) in &all {
        inside.extend(members.iter().copied());
        let Some(interval) = interval else { panic!("a burst of {} launches has no time", members.len()) };
        let members: Vec<_> = members.iter().map(|m| by_correlation[m].truth.interval).collect();
        let begin = members.iter().map(|m| m.0).min().unwrap();
        let truth = members.iter().map(|m| m.1).max().unwrap() - begin;
        let (lo, hi) = (interval.lo().saturating_sub(slack(truth)), interval.hi() + slack(truth));
        assert!(lo <= truth && truth <= hi, "the true value {truth} is outside [{lo}, {hi}]: {interval:?}");
    }
    let long = all.iter().filter(|(_, members)| members.len() > 1).count();
    println!("{} bursts, {long} of more than one launch", all.len());
    let sequences = said["chains"].as_u64().unwrap() as usize;
    assert!(done.is_share(long, sequences, 0.9), "{long} of {sequences}");
    let told = &done.report()["coverage"]["bursts"];
    assert_eq!(told["count"], all.len());
    assert_eq!(told["launches"], inside.len());
    // No programmatic launch was timed by itself, and few stayed outside bursts.
    let programmatic: Vec<u64> = work(&done)
        .iter()
        .filter(|(work, ..)| is_programmatic(work))
        .map(|(work, ..)| work.call.correlation)
        .collect();
    assert!(programmatic.len() as u64 >= said["programmatic"].as_u64().unwrap());
    assert!(programmatic.iter().all(|p| by_correlation[p].timed().is_none()));
    let left = programmatic.iter().filter(|p| !inside.contains(p)).count();
    assert!(left * 20 <= programmatic.len(), "{left} of {}", programmatic.len());
}

fn is_programmatic(work: &Work) -> bool {
    // CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, _PROGRAMMATIC_EVENT, _LAUNCH_COMPLETION_EVENT (cuda.h).
    use gpuspy_collector::trace::record::What;
    matches!(work.what, What::Kernel { attributes, .. } if attributes & (1 << 6 | 1 << 7 | 1 << 12) != 0)
}

#[test]
fn programmatic_launches_of_the_driver_api_are_timed_as_bursts() {
    programmatic_launches_are_timed_as_bursts("programmatic");
}

#[test]
fn programmatic_launches_of_the_runtime_are_timed_as_bursts() {
    programmatic_launches_are_timed_as_bursts("programmatic_runtime");
}

/// Counts the kernels that one of the agent's events separated from the sequence they were launched to continue.
fn cut(done: &Done) -> usize {
    done.truth().of("kernel").filter(|kernel| kernel["cut"] == true).count()
}

#[test]
fn a_wait_for_something_else_cuts_no_sequence_of_programmatic_launches() {
    let done = Run::of("programmatic_with_waits").observed().succeeded();
    intervals_contain_the_truth(&done);
    assert!(
        cut(&done) <= 2,
        "events of the agent cut off {} launches; only one launch after each of two kernels may be cut off",
        cut(&done)
    );
}

#[test]
fn sampling_pauses_cut_no_sequence_of_programmatic_launches() {
    // After the first phase almost nothing is timed; the stream is never waited for and looks deep.
    until_one_is_good(|| {
        let run = Run::of("launch_storm").arg("1500").arg("1").arg("chains").auto("0.5");
        let done = run.env("SIMCUDA_HOST_COST", "launch=20000").observed().succeeded();
        // Where other programs hold up the simulated GPU the stream is deep, and on a stream that holds some 1 000 entries a few
        // launches of ten thousand are cut off.
        let sequences = done.said()["launches"].as_u64().unwrap() as usize / 2;
        println!("{} of {sequences} sequences were cut", cut(&done));
        assert!(cut(&done) <= 4 + sequences / 500, "events of the agent cut off {} launches", cut(&done));
        let pauses = done.report()["coverage"]["untimed"]["budget"].as_u64().unwrap();
        (pauses > 500)
            .then_some(())
            .ok_or_else(|| format!("it proves nothing: only {pauses} launches were in pauses"))
    });
}

/// The agent has 511 slots for threads. What a thread without one put between two events was counted as part of the operation
/// that they time: 5 µs were at least 778 µs.
#[test]
fn work_of_a_thread_without_a_slot_widens_what_it_came_between() {
    let done = Run::of("threads_without_slots").observed().succeeded();
    let report = done.report();
    let kernels = report["kernels"].as_array().unwrap();
    let short = kernels.iter().find(|row| row["name"] == "short_5us").unwrap();
    assert_eq!(short["count"], done.said()["short"]);
    let longest = short["max_ns"]["lo"].as_u64().unwrap();
    assert!(longest <= 5_000 + slack(5_000), "{longest} ns");
}
