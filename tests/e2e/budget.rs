//! `--timing auto`: the agent keeps to its budget, times windows without holes, and counts the launches that it does
//! not time.

use crate::compare::{by_name, slack};
use gpuspy_collector::trace::TraceReader;
use gpuspy_collector::trace::record::{Body, Names, What, Window, Work};
use gpuspy_tests::{Done, Run, gpuspy, until_one_is_good};
use gpuspy_wire::record::{Fact, Namespace, Untimed, WindowChange};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::process::Command;

const SECOND: u64 = 1_000_000_000;

/// What a trace contains about timing windows.
struct Windows {
    names: Names,
    /// Window edges in order, each with its host time.
    edges: Vec<(u64, Window)>,
    /// Everything that was submitted to a stream outside stream captures.
    work: Vec<Work>,
}

impl Windows {
    fn of(done: &Done) -> Windows {
        let mut reader = TraceReader::open(&done.trace()).unwrap();
        let names = reader.names().clone();
        let mut seen = Windows { names, edges: Vec::new(), work: Vec::new() };
        for record in reader.records() {
            match record.body {
                Body::Window(window) => seen.edges.push((record.at, window)),
                Body::Work(work) if work.untimed != Untimed::Captured => seen.work.push(work),
                _ => {}
            }
        }
        seen
    }

    fn fact(&self, fact: Fact) -> Option<&str> {
        self.names.get(Namespace::Fact, fact as u32)
    }

    /// Returns each window's start and end; the last window may still be open at the end.
    fn windows(&self) -> Vec<(u64, u64)> {
        let mut windows = Vec::new();
        for (n, (at, window)) in self.edges.iter().enumerate() {
            let expected = if n % 2 == 0 { WindowChange::Opens } else { WindowChange::Closes };
            assert_eq!(window.change, expected, "windows open and close in turn: {:?}", self.edges);
            match expected {
                WindowChange::Opens => windows.push((*at, u64::MAX)),
                WindowChange::Closes => windows.last_mut().unwrap().1 = *at,
            }
        }
        windows
    }

    /// Returns the cost, in percent, from the end of the first phase to each edge that is at least `after` ns later.
    fn shares(&self, after: u64) -> Vec<f64> {
        let (begun, first) = &self.edges[1];
        let cost = |w: &Window| w.agent_ns + w.poller_ns;
        let later = self.edges.iter().filter(|(at, _)| *at >= begun + after);
        later.map(|(at, w)| 100.0 * (cost(w) - cost(first)) as f64 / (at - begun) as f64).collect()
    }
}

fn storm(percent: &str, ms: &str, threads: &str, launch: u64) -> Done {
    let run = Run::of("launch_storm").arg(ms).arg(threads).auto(percent);
    // The truth of a million launches is not needed here.
    run.env("SIMCUDA_TRUTH", "")
        .env("SIMCUDA_HOST_COST", format!("launch={launch}"))
        .observed_with(&["--quiet"])
        .succeeded()
}

/// Checks that the cost settles within a fifth of the budget. A hook that the kernel interrupts for another process
/// looks expensive, and with a small budget it takes seconds until it is paid for. On a busy machine an attempt can
/// fail, so there are three, each longer than the one before.
fn settles_at(percent: f64, threads: u32, launch: u64) {
    let mut attempts = Vec::new();
    for ms in ["4000", "8000", "16000"] {
        let done = storm(&percent.to_string(), ms, &threads.to_string(), launch);
        assert_eq!(done.report()["coverage"]["launches"], done.said()["launches"]);
        let seen = Windows::of(&done);
        let shares = seen.shares(2 * SECOND);
        println!(
            "budget {percent} %, {launch} ns a launch, {threads} threads: {} windows, cost {:.2} % after 2 s, {:.2} % at the end",
            seen.windows().len(),
            shares.first().unwrap_or(&f64::NAN),
            shares.last().unwrap_or(&f64::NAN)
        );
        // The cost of interruptions is paid for over time, so on a busy machine the end counts.
        let from = if done.pressure > 0.3 { shares.len().saturating_sub(1) } else { 0 };
        let judged = &shares[from..];
        let off = 0.2 * (1.0 + 4.0 * done.pressure);
        if !judged.is_empty() && judged.iter().all(|share| (share / percent - 1.0).abs() < off) {
            return;
        }
        attempts.push(shares);
    }
    panic!("no attempt kept the budget of {percent} %: {attempts:?}");
}

#[test]
fn the_cost_of_a_storm_settles_at_one_percent() {
    settles_at(1.0, 1, 80_000);
}

#[test]
fn the_cost_of_a_storm_settles_at_five_percent() {
    settles_at(5.0, 1, 10_000);
}

#[test]
fn the_cost_of_a_storm_settles_at_twenty_percent() {
    settles_at(20.0, 1, 3_000);
}

#[test]
fn the_cost_of_a_storm_of_several_threads_settles() {
    settles_at(10.0, 2, 20_000);
}

/// Returns the work that lies entirely in a window by the host's clock, from the call's entry to its return.
fn inside<'s>(seen: &'s Windows, windows: &'s [(u64, u64)]) -> impl Iterator<Item = &'s Work> {
    let is_in = |w: &Work| windows.iter().any(|(from, to)| *from <= w.call.begin && w.call.end <= *to);
    seen.work.iter().filter(move |w| is_in(w))
}

#[test]
fn every_launch_in_a_window_is_timed() {
    for threads in ["1", "3"] {
        until_one_is_good(|| {
            let seen = Windows::of(&storm("5", "2500", threads, 10_000));
            let windows = seen.windows();
            let holes = inside(&seen, &windows).filter(|w| w.untimed == Untimed::Budget).count();
            assert_eq!(holes, 0, "{threads} threads: a launch inside a window is untimed for the budget");
            // Launches that wait for a processor leave more of the budget for each of them.
            let budgeted = seen.work.iter().filter(|w| w.untimed == Untimed::Budget).count();
            let is_sampled = windows.len() >= 3 && budgeted > seen.work.len() / 3;
            is_sampled.then_some(()).ok_or_else(|| format!("{budgeted} of {}; {windows:?}", seen.work.len()))
        });
    }
}

#[test]
fn a_stream_that_is_never_waited_for_does_not_look_deep_after_a_pause() {
    let done = storm("5", "2500", "1", 20_000);
    let seen = Windows::of(&done);
    let windows = seen.windows();
    let (all, timed) = inside(&seen, &windows[1..])
        .fold((0, 0), |(all, timed), w| (all + 1, timed + usize::from(w.untimed == Untimed::Timed)));
    // A poller that waits for a processor falls behind, and the stream is deep then.
    assert!(all > 500 && done.is_share(timed, all, 0.9), "{timed} of {all} launches in windows are timed");
}

#[test]
fn the_first_phase_is_timed_in_full() {
    let done = Run::of("mixed_kernels").arg("600").auto("1").observed().succeeded();
    let seen = Windows::of(&done);
    let (opened, closed) = seen.windows()[0];
    let first = &seen.edges[1].1;
    assert!(first.launches == 10_000 || closed - opened >= SECOND, "{first:?}");
    let launches = inside(&seen, &[(0, closed)]).count() as u64;
    assert!(launches >= first.launches - 1, "{launches} of {}", first.launches);
    assert!(inside(&seen, &[(0, closed)]).all(|w| w.untimed != Untimed::Budget));
    let what = seen.work.iter().filter(|w| matches!(w.what, What::Kernel { .. })).count() as u64;
    assert_eq!(what, done.said()["launches"].as_u64().unwrap());
}

#[test]
fn every_launch_is_counted_whether_it_is_timed_or_not() {
    for program in ["work_runtime", "work_driver", "work_getproc"] {
        let done = Run::of(program).auto("0.5").observed().succeeded();
        crate::launches::counts_are_exact(&done);
        let untimed = done.report()["coverage"]["untimed"].clone();
        assert_eq!(Windows::of(&done).fact(Fact::Timing), Some("auto 0.5"));
        println!("{program}: {untimed}");
    }
    let done = Run::of("mixed_kernels").auto("1").observed().succeeded();
    let (said, report) = (done.said(), done.report());
    assert_eq!(json!(by_name(&report["kernels"], "name", "count")), said["kernels"]);
    assert!(report["coverage"]["untimed"]["budget"].as_u64() > Some(10_000), "{}", report["coverage"]);
    assert_eq!(report["transfers"][0]["count"], said["memsets"]);
}

#[test]
fn without_a_budget_there_are_no_windows() {
    for timing in ["exact", "off"] {
        let done = Run::of("mixed_kernels").arg("300").observed_with(&["--timing", timing]).succeeded();
        let seen = Windows::of(&done);
        assert!(seen.edges.is_empty(), "{timing}: {:?}", seen.edges);
        assert_eq!(seen.fact(Fact::Timing), Some(timing));
        assert_eq!(seen.fact(Fact::TimingNote), None);
        let budgeted = seen.work.iter().filter(|w| w.untimed == Untimed::Budget).count();
        assert_eq!((seen.work.len(), budgeted), (300 * 61, 0), "{timing}");
    }
}

#[test]
fn auto_is_the_default_and_a_bad_value_of_a_variable_is_reported() {
    let facts = |variables: &[(&str, &str)]| {
        let run = variables.iter().fold(Run::of("plain_work"), |run, (name, value)| run.env(name, value));
        let done = run.preloaded().succeeded();
        done.report(); // waits until the trace is complete
        let seen = Windows::of(&done);
        let fact = |fact| seen.fact(fact).unwrap_or_default().to_owned();
        (fact(Fact::Timing), fact(Fact::TimingNote))
    };
    assert_eq!(facts(&[("GPUSPY_TIMING", "")]), ("auto 5".into(), String::new()));
    for (name, value) in [("GPUSPY_TIMING", "always"), ("GPUSPY_BUDGET", "0"), ("GPUSPY_BUDGET", "5 %")] {
        let (timing, note) = facts(&[("GPUSPY_TIMING", "auto"), (name, value)]);
        assert_eq!(timing, "auto 5", "{name}={value}");
        assert!(note.contains(name), "{name}={value}: {note}");
    }
}

/// The budget applies after the first phase: a run that ends within it may cost more, and the report says why.
#[test]
fn a_short_run_says_why_it_may_cost_more_than_the_budget() {
    let screen = |run: Run| run.auto("5").observed().succeeded().section("coverage");
    let short = screen(Run::of("plain_work"));
    assert!(short.contains("a short run may exceed the budget of 5 %: its first second"), "{short}");
    let long = screen(Run::of("launch_storm").arg("1500").env("SIMCUDA_TRUTH", ""));
    assert!(long.contains("of a budget of 5 % after the first phase, which is timed in full"), "{long}");
}

#[test]
fn with_one_hardware_queue_nothing_is_timed_by_default() {
    let run = Run::of("plain_work").env("CUDA_DEVICE_MAX_CONNECTIONS", "1").env("GPUSPY_TIMING", "");
    let done = run.preloaded().succeeded();
    assert_eq!(done.report()["coverage"]["timed"], 0);
    let seen = Windows::of(&done);
    assert_eq!(seen.fact(Fact::Timing), Some("off"));
    assert!(seen.fact(Fact::TimingNote).unwrap().contains("unless --timing auto requests it"));
    let events = done.truth().of("event_record").filter(|line| line["captured"] == false).count();
    assert_eq!(events, 0, "the agent recorded events");
}

#[test]
fn with_one_hardware_queue_auto_times_windows_only() {
    let run =
        Run::of("launch_storm").arg("1500").env("CUDA_DEVICE_MAX_CONNECTIONS", "1").env("SIMCUDA_TRUTH", "");
    let done = run.observed_with(&["--timing", "exact"]).succeeded();
    let seen = Windows::of(&done);
    assert_eq!(seen.fact(Fact::Timing), Some("auto 5"));
    let note = seen.fact(Fact::TimingNote).unwrap();
    assert!(note.contains("CUDA_DEVICE_MAX_CONNECTIONS=1"), "{note}");
    assert!(seen.work.iter().any(|w| w.untimed == Untimed::Budget));
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words(&done.stderr).contains(&words(note)), "the report says so: {}", done.stderr);
}

/// The program has work on two streams, and the agent has one. Streams without work, such as the 16 or 32 that cuBLAS of CUDA 13
/// creates in each context, take no queue.
#[test]
fn with_more_streams_than_hardware_queues_only_windows_are_timed() {
    let run = |variable: &str, value: &str| {
        let arguments = ["steady_20us", "1000", "1.5", "0", "1", "1", "32"];
        let run = arguments.iter().fold(Run::of("paced"), Run::arg);
        let done = run.auto("50").env(variable, value).observed().succeeded();
        let note = Windows::of(&done).fact(Fact::TimingNote).map(str::to_owned);
        let report = done.report();
        let number = |name: &str| report["coverage"][name].as_f64().unwrap();
        (note, number("timed") / number("launches"))
    };
    // A client of MPS has two unless the variable says something else.
    for (variable, value) in [("CUDA_DEVICE_MAX_CONNECTIONS", "2"), ("SIMCUDA_MPS", "1")] {
        let (note, share) = run(variable, value);
        assert!(note.is_some_and(|note| note.contains("than there are hardware queues")), "{variable}");
        assert!(share < 0.5, "{variable}: {share}");
    }
    for connections in ["3", ""] {
        let (note, share) = run("CUDA_DEVICE_MAX_CONNECTIONS", connections);
        assert!(note.is_none() && share > 0.5, "{connections}: {note:?}, {share}");
    }
}

/// Streams on which a program only captures have no work of their own; they counted as users of hardware queues, and only a
/// tenth was timed for the rest of the run.
#[test]
fn streams_that_are_only_captured_take_no_hardware_queue() {
    for timing in ["auto", "exact"] {
        let done = Run::of("captured_side_streams").env("GPUSPY_TIMING", timing).observed().succeeded();
        let note = Windows::of(&done).fact(Fact::TimingNote).map(str::to_owned);
        assert!(note.is_none(), "{timing}: {note:?}");
    }
}

/// The rate of launches on a stream that is always busy is the only place where the cost of events on the GPU shows: no
/// host time contains it.
#[test]
fn the_cost_of_events_on_the_gpu_is_measured_from_launch_rates() {
    for event_ns in [0.0, 2_000.0] {
        until_one_is_good(|| event_cost_is_near_the_truth(event_ns));
    }
}

/// Runs a stream that is always busy, on which the agent records one event for each launch and the program two for every
/// 25, and compares the measured slowdown with what events of this length take of the GPU. The bounds have to contain the
/// truth in every run; the result says whether the best value is close. Load on the machine delays launches and can
/// only move the best value away from the truth.
fn event_cost_is_near_the_truth(event_ns: f64) -> Result<(), String> {
    let (kernel_ns, own) = (20_000.0, 1.0 / 25.0);
    let run = Run::of("busy_stream").arg("200000").auto("5").env("SIMCUDA_TRUTH", "");
    // The hooks' cost is small, and hidden behind the GPU's work.
    let run = run.env("SIMCUDA_EVENT_NS", event_ns.to_string()).env("SIMCUDA_HOST_COST", "record=100");
    let done = run.observed_with(&["--quiet"]).succeeded();
    let report = done.report();
    let found = &report["coverage"]["timing"]["gpu_slowdown"];
    if found.is_null() && done.pressure > 0.3 {
        return Ok(()); // no window and pause next to each other could be compared
    }
    let [lo, value, hi] = ["lo", "value", "hi"].map(|key| found[key].as_f64().unwrap());
    let truth = event_ns / (kernel_ns + own * event_ns);
    println!("{event_ns} ns an event cost {truth:.4}, found {lo:.4} .. {value:.4} .. {hi:.4}");
    // Of 64 launches one has an event pair of its own, and a busy machine delays some.
    let noise = done.pressure;
    // The poller, which reads the events, needs a processor as well: where too many want one, launches are late in windows.
    assert!(lo - 0.01 <= truth || noise > 0.3, "{truth}: {found}, pressure {noise}");
    assert!(truth <= hi + 0.01 + 0.05 * noise, "{truth}: {found}, pressure {noise}");
    assert!(event_ns == 0.0 || lo > 0.0 || noise > 0.3, "{found}");
    let is_near = (value - truth).abs() < 0.06 + 0.1 * noise;
    is_near.then_some(()).ok_or_else(|| format!("{truth}: {found}, pressure {noise}"))
}

/// A program whose launches take longer while they are timed, in a way that neither the hooks nor the poller measure.
struct Slowed {
    /// The budget in percent.
    percent: f64,
    /// The most that the slowdown alone may cost, in percent: an agent that does not pay for the slowdown exceeds this.
    most: f64,
    /// The range, as a share, within which launches in windows must be found to be slower.
    longer: (f64, f64),
    /// How long a launch takes in a pause, ns. Where other programs use the processor, the GPU waits for the host as well:
    /// the same additional time is then a smaller share.
    launch_ns: f64,
}

impl Slowed {
    /// Returns the cost in the second half of the time after the first phase, when the slowdown has been measured: the
    /// share of the time, in percent, by which launches took longer. (Hooks and poller are paid for as well. Other
    /// programs that use the processor make both look expensive, in pauses as well as in windows.)
    fn cost(seen: &Windows, longer: f64) -> f64 {
        let (begun, ended) = (seen.edges[1].0, seen.edges[seen.edges.len() - 1].0);
        let begun = begun + (ended - begun) / 2;
        let later: Vec<&(u64, Window)> = seen.edges.iter().filter(|(at, _)| *at >= begun).collect();
        let (from, to) = (later[0].0, later[later.len() - 1].0);
        let windows = later.windows(2).filter(|pair| pair[0].1.change == WindowChange::Opens);
        let timed: u64 = windows.map(|pair| pair[1].0 - pair[0].0).sum();
        100.0 * timed as f64 * longer / (1.0 + longer) / (to - from) as f64
    }

    /// Checks that the program is timed as often as the budget allows, and that the report says how much longer its
    /// launches take. On a busy machine an attempt can fail, so there are three, each longer than the one before. Where
    /// other programs make launches take more than twice as long as they are made to, in windows and in pauses by
    /// chance, an attempt shows nothing.
    fn is_paid_for(&self, run: impl Fn(u32) -> Run) {
        let mut attempts = Vec::new();
        for attempt in 1..=3 {
            let run = run(attempt).auto(&self.percent.to_string()).env("SIMCUDA_TRUTH", "");
            let done = run.observed_with(&["--quiet"]).succeeded();
            // Reads the report without the checks of `gpuspy_tests::agree`, which compare totals with the elapsed time:
            // no real event takes as long as these do.
            let report =
                Command::new(gpuspy()).args(["report", "--json"]).arg(done.trace()).output().unwrap();
            let report: Value = serde_json::from_slice(&report.stdout).unwrap();
            let found = report["coverage"]["timing"]["gpu_slowdown"]["value"].as_f64().unwrap_or(f64::NAN);
            let number = |value: &Value| value.as_f64().unwrap();
            let launch_ns = number(&report["wall_ns"]) / number(&report["coverage"]["launches"]);
            let longer = (self.longer.0 * (self.launch_ns / launch_ns).min(1.0), self.longer.1);
            let seen = Windows::of(&done);
            let (cost, windows) = (Slowed::cost(&seen, found), seen.windows().len());
            println!(
                "{windows} windows, {cost:.2} % of a budget of {} %, found {found:.4} of {longer:?}",
                self.percent
            );
            if cost < self.most && (longer.0..=longer.1).contains(&found) {
                // After the first phase there is one window a second, whatever it costs.
                assert!(windows >= 8, "{windows}");
                return;
            }
            if launch_ns < 2.0 * self.launch_ns {
                attempts.push((cost, found, longer));
            }
        }
        assert!(
            attempts.is_empty(),
            "no attempt kept {} % and found the slowdown: cost, slowdown and what it may be are {attempts:?}",
            self.percent
        );
    }
}

/// An event takes half as long as a launch, and each launch has one; the program itself records one event for 25
/// launches.
#[test]
fn gpu_time_taken_by_events_is_charged_to_the_budget() {
    let (kernel_ns, event_ns) = (20_000.0, 10_000.0);
    let round = 25.0 * kernel_ns + event_ns;
    let longer = 25.0 * event_ns / round;
    let slowed =
        Slowed { percent: 5.0, most: 7.5, longer: (0.75 * longer, 1.25 * longer), launch_ns: round / 25.0 };
    slowed.is_paid_for(|attempt| {
        let run = Run::of("busy_stream").arg((400_000 * attempt).to_string());
        run.env("SIMCUDA_EVENT_NS", event_ns.to_string()).env("SIMCUDA_HOST_COST", "launch=2000,record=100")
    });
}

/// The poller queries the driver for each timed launch, and the driver holds launches up meanwhile for at least a tenth
/// of the time. The query sleeps, so no thread's processor time shows the cost.
#[test]
fn time_that_launches_wait_for_driver_locks_is_charged_to_the_budget() {
    let slowed = Slowed { percent: 5.0, most: 10.0, longer: (0.1, 3.0), launch_ns: 100_000.0 };
    slowed.is_paid_for(|attempt| {
        let run = Run::of("busy_stream").arg((60_000 * attempt).to_string());
        run.env("SIMCUDA_ASSUME", "question_lock=100000").env("SIMCUDA_HOST_COST", "launch=100000,record=100")
    });
}

/// The program launches for 300 ms and does nothing for 200 ms. Some windows contain such an idle phase and some pauses
/// do not: the agent does not cause the difference, so it must not time the program less for it. Apart from the cost of
/// polling, the program could be timed in full; other programs that use the processor can make polling expensive.
#[test]
fn a_program_with_idle_phases_keeps_its_windows() {
    let mut attempts = Vec::new();
    for _ in 0..3 {
        let run = Run::of("paced").arg("paced_1us").arg("20000").arg("0.3").arg("200").arg("14");
        let done = run.auto("30").env("SIMCUDA_TRUTH", "").observed_with(&["--quiet"]).succeeded();
        let coverage = &done.report()["coverage"];
        let [launches, timed] = ["launches", "timed"].map(|key| coverage[key].as_f64().unwrap());
        println!("{timed} of {launches}: {}", coverage["timing"]);
        if timed > 0.7 * launches {
            return;
        }
        attempts.push(timed / launches);
    }
    panic!("no attempt timed more than 0.7 of the launches: {attempts:?}");
}

#[test]
fn a_budget_that_is_no_percentage_is_refused() {
    for bad in ["0", "-1", "100.1", "NaN", "five", ""] {
        let run = Run::of("plain_work");
        let output = run.gpuspy_command(&["run", "--budget", bad, "--", "true"]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{bad}: {said}");
        assert!(said.contains("a percentage above 0 and up to 100 is needed"), "{bad}: {said}");
    }
}

#[test]
fn extrapolated_totals_contain_the_truth() {
    let (mut all, mut missed) = (0, Vec::new());
    for seed in ["1", "2", "3"] {
        let done = Run::of("mixed_kernels").arg("1500").arg(seed).auto("3").observed().succeeded();
        let mut truth: BTreeMap<String, u64> = BTreeMap::new();
        for operation in done.truth().operations() {
            let name = if operation.kind == "kernel" { operation.name } else { operation.kind };
            *truth.entry(name).or_default() += operation.interval.1 - operation.interval.0;
        }
        let report = done.report();
        let rows = report["kernels"].as_array().unwrap().iter().map(|row| (&row["name"], row));
        let sets = report["transfers"].as_array().unwrap().iter().map(|row| (&row["kind"], row));
        for (name, row) in rows.chain(sets) {
            let total = &row["total_ns"];
            assert_eq!(total["kind"], "extrapolated", "seed {seed}: {row}");
            let truth = truth[name.as_str().unwrap()];
            let [lo, value, hi] = ["lo", "value", "hi"].map(|key| total[key].as_u64().unwrap());
            println!(
                "seed {seed} {name}: {} of {} timed, {truth} ns in {lo} .. {hi}, estimate {:+.2} %",
                row["timed"],
                row["count"],
                100.0 * (value as f64 / truth as f64 - 1.0)
            );
            all += 1;
            // The totals are on the GPU's clock, the truth is on the host's.
            let (lo, hi) = (lo.saturating_sub(slack(truth)), hi + slack(truth));
            if !(lo..=hi).contains(&truth) {
                missed.push(format!("seed {seed}: {truth} of {row}"));
            }
            let far = hi - lo;
            assert!(lo.saturating_sub(far) <= truth && truth <= hi + far, "{truth}: {row}");
        }
    }
    // Each interval contains the truth in 99 of 100 cases: more than two of fifteen miss once in some thousand runs.
    assert!(all == 15 && missed.len() <= 2, "{missed:#?}");
}
