//! The ranks of a job: one line for each, and the one that the others wait for.

use super::*;
use gpuspy_collector::analyze::Tables;
use gpuspy_collector::analyze::idle::{Cause, Part};
use gpuspy_collector::model::outcome::Outcome;
use gpuspy_collector::report::{Section, sentences};
use std::borrow::Cow;

const MS: u64 = 1_000_000;
const STEP_NS: u64 = 50 * MS;
const STEPS: u64 = 20;

/// What one rank does.
#[derive(Clone, Copy, Default)]
struct Does {
    /// How long its host sleeps in each step before it launches.
    sleeps: u64,
    /// How long its kernel takes beyond that of the others.
    computes: u64,
    /// The device memory that it holds beyond that of the others.
    holds: u64,
    /// How far its collectives are from those of others in each step.
    apart: u64,
    /// If this is not 0, it sleeps only in one of so many steps, the one of its number first.
    one_of: u64,
}

impl Does {
    /// How long it sleeps in a step.
    fn sleeps_in(self, rank: u32, step: u64) -> u64 {
        let is_its = self.one_of == 0 || step % self.one_of == u64::from(rank);
        if is_its { self.sleeps } else { 0 }
    }
}

/// Returns a rank of a job of `world`. Each step is a kernel of 5 ms, a synchronization, and an all-reduce that takes 200 µs
/// from the moment that the last rank comes, `latest` after the others.
fn rank(rank: u32, world: u32, latest: u64, does: Does) -> (App, Names, Status) {
    let mut app = App::new();
    for record in &mut app.records {
        if let Body::Device(device) = &mut record.body {
            device.uuid[0..4].copy_from_slice(&rank.to_le_bytes());
        }
    }
    app.alloc(MALLOC, Memory::Device, 0x10_0000, (8 << 30) + does.holds);
    for step in 0..STEPS {
        let begin = BEGAN + 100_000 + step * STEP_NS;
        app.now = begin + does.sleeps_in(rank, step) + does.apart;
        let compute = 5 * MS + does.computes;
        app.timed(LAUNCH, kernel(GEMM), 0, compute as i64);
        app.sync(compute + 10_000);
        let end = begin + does.apart + latest + 5 * MS + 220_000;
        let ns = (end - app.now) as i64;
        app.timed(LAUNCH, kernel(NCCL), 0, ns);
        app.sync(ns as u64 + 10_000);
    }
    let mut names = names();
    let environment = format!("RANK={rank}\0LOCAL_RANK={}\0WORLD_SIZE={world}", rank % 8);
    names.0.insert((Namespace::Fact, Fact::Environment as u32), environment);
    let ended = BEGAN + 100_000 + STEPS * STEP_NS + MS;
    let status = Status { pid: 4242 + rank, ended, boot: Some(7), ..status() };
    (app, names, status)
}

/// Returns the reports of a job, in which `odd` says what each rank does.
fn job(world: u32, odd: impl Fn(u32) -> Does) -> Vec<ProcessReport> {
    reports_of(apps(world, odd), &Filter::default())
}

fn apps(world: u32, odd: impl Fn(u32) -> Does) -> Vec<(App, Names, Status)> {
    let latest = (0..world).map(|at| odd(at).sleeps + odd(at).computes).max().unwrap();
    (0..world).map(|at| rank(at, world, latest, odd(at))).collect()
}

fn sixth_sleeps(rank: u32) -> Does {
    Does { sleeps: if rank == 6 { 20 * MS } else { 0 }, ..Does::default() }
}

fn section(reports: &[ProcessReport], width: usize) -> String {
    terminal(reports, &View { sections: vec![Section::Ranks], ..View::default() }, &wide(width))
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value}"))
}

#[test]
fn a_rank_that_sleeps_20_ms_in_each_step_is_named() {
    let reports = job(8, sixth_sleeps);
    let report = json(&reports);
    assert_valid(&report);
    let rows = report["ranks"].as_array().unwrap();
    assert_eq!(rows.len(), 8);
    for (row, rank) in rows.iter().zip(0..) {
        let straggler = &row["straggler"];
        assert_eq!((&row["rank"], &straggler["collectives"]), (&value!(rank), &value!(STEPS)));
        let (last, late) = (number(&straggler["last_arrivals"]), number(&straggler["late_ns"]));
        let score = straggler["vs_best"].as_f64().unwrap();
        if rank == 6 {
            assert_eq!(last, STEPS);
            assert!(late.abs_diff(STEPS * 20 * MS) < STEPS * 100_000, "{late}");
            // From one collective to the next it needs 50 ms less 0.2 ms, the others 50 ms less 20.2 ms.
            assert!((score - 29.8 / 49.8).abs() < 0.01, "{score}");
        } else {
            assert_eq!((last, late), (0, 0), "rank {rank}");
            assert!(score > 0.99, "{score}");
        }
    }
    let screen = section(&reports, 80);
    let said = screen.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("rank 6 is slower than the others"), "{screen}");
    assert!(said.contains("the others wait for it in ncclAllReduce"), "{screen}");
}

#[test]
fn ranks_that_come_at_the_same_time_are_no_stragglers() {
    let reports = job(8, |_| Does::default());
    let screen = section(&reports, 80);
    assert!(!screen.contains("slower") && screen.contains("none keeps the others waiting"), "{screen}");
}

fn each_sleeps_in_turn(_rank: u32) -> Does {
    Does { sleeps: 20 * MS, one_of: 4, ..Does::default() }
}

/// That none keeps the others waiting was said wherever no rank came last to more than half of the collectives.
#[test]
fn ranks_that_wait_for_each_other_by_turns_are_said_to_wait() {
    let screen = section(&job(4, each_sleeps_in_turn), 160);
    // Each of them waits 20 ms in three of four steps.
    let said = "4 ranks: each waits 300 ms for others in collectives on average (30.";
    assert!(
        screen.contains(said) && screen.contains("none stands out (20 collectives compared)"),
        "{screen}"
    );
}

#[test]
fn two_slow_ranks_of_four_are_both_named() {
    let reports = job(4, |rank| Does { sleeps: u64::from(rank % 2) * 20 * MS, ..Does::default() });
    let screen = section(&reports, 120);
    assert!(screen.contains("ranks 1 and 3 are slower than the others: "), "{screen}");
    let report = json(&reports);
    let findings = report["findings"].as_array().unwrap();
    let found = findings.iter().find(|found| found["id"] == "straggler-rank").unwrap();
    assert_eq!(found["title"], "Ranks 1 and 3 keep the others waiting");
    let waited = number(&found["evidence"]["total_ns"]["value"]);
    assert!(waited.abs_diff(STEPS * 20 * MS) < STEPS * 100_000, "{found:#}");
}

#[test]
fn a_rank_that_sleeps_in_one_step_of_many_is_named_with_that() {
    let once = |rank| Does { sleeps: if rank == 2 { 20 * MS } else { 0 }, one_of: STEPS, ..Does::default() };
    let screen = section(&job(4, once), 160);
    assert!(screen.contains("rank 2 is slower than the others: "), "{screen}");
    assert!(screen.contains("20.0 ms longer in all, most of it before 1 of 20 collectives"), "{screen}");
}

/// Of a job of four ranks whose slowest one had no trace, it was said that none keeps the others waiting.
#[test]
fn ranks_without_a_trace_are_said_to_be_missing() {
    let mut apps = apps(4, |rank| Does { sleeps: if rank == 1 { 20 * MS } else { 0 }, ..Does::default() });
    let without = |apps: &[(App, Names, Status)], filter: &Filter| reports_of(apps.to_vec(), filter);
    let whole = terminal(&without(&apps, &Filter::default()), &View::default(), &wide(160));
    assert!(!whole.contains("no trace"), "{whole}");
    apps.remove(3);
    let reports = without(&apps, &Filter::default());
    let screen = terminal(&reports, &View::default(), &wide(160));
    for said in [
        "incomplete job: rank 3 of 4 has no trace, so that this report is about the others.",
        "rank 1 is slower than the others",
        "rank 3 of 4 has no trace: how long the others wait for it is not known",
    ] {
        assert!(screen.contains(said), "{said}: {screen}");
    }
    let found = &json(&reports)["findings"][0]["evidence"]["text"];
    let said = "Rank 3 of 4 has no trace: how long the others wait for it is not known.";
    assert!(found.as_str().unwrap().ends_with(said), "{found}");
    let alike = section(&without(&apps[..1], &Filter::default()), 160);
    assert!(alike.contains("no two processes have ranks"), "{alike}");
    apps.remove(1);
    let two = section(&without(&apps, &Filter::default()), 160);
    assert!(two.contains("2 of 4 ranks: none keeps the others waiting"), "{two}");
    assert!(two.contains("ranks 1 and 3 of 4 have no trace: how long the others wait for them"), "{two}");
    let selected = Filter { ranks: vec![0, 2], ..Filter::default() };
    let selected = section(&without(&apps, &selected), 160);
    assert!(!selected.contains("no trace") && selected.contains("2 ranks: none"), "{selected}");
}

#[test]
fn a_rank_whose_kernels_take_longer_is_named_with_that() {
    let slow = |rank| Does { computes: if rank == 2 { 3 * MS } else { 0 }, ..Does::default() };
    let screen = section(&job(4, slow), 100);
    let said = "rank 2 is slower than the others: its kernels run 3.00 ms longer in each step";
    assert!(screen.contains(said), "{screen}");
}

#[test]
fn on_several_machines_the_shortest_collective_is_that_of_the_last_rank() {
    let mut apps = apps(4, |rank| Does { sleeps: if rank == 3 { 20 * MS } else { 0 }, ..Does::default() });
    for (_, _, status) in &mut apps[2..] {
        status.boot = Some(8);
    }
    let report = json(&reports_of(apps, &Filter::default()));
    assert_valid(&report);
    let last: Vec<u64> = report["ranks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| number(&row["straggler"]["last_arrivals"]))
        .collect();
    assert_eq!(last, [0, 0, 0, STEPS]);
}

#[test]
fn collectives_at_different_times_are_not_compared() {
    let apart = |rank| Does { apart: if rank > 1 { 12 * MS } else { 0 }, ..Does::default() };
    let reports = job(4, apart);
    let report = json(&reports);
    assert!(report["ranks"].as_array().unwrap().iter().all(|row| row["straggler"]["last_arrivals"] == 0));
    let screen = section(&reports, 100);
    assert!(
        screen.contains("100.0 % of the collectives did not run at the same time on all ranks"),
        "{screen}"
    );
}

fn second_sleeps(rank: u32) -> Does {
    Does { sleeps: if rank == 1 { 20 * MS } else { 0 }, ..Does::default() }
}

/// The k-th collective of one start was compared with the k-th of the other, and nobody came last.
#[test]
fn the_ranks_of_a_job_that_was_started_again_are_compared_start_by_start() {
    let mut starts = [apps(2, second_sleeps), apps(2, second_sleeps)];
    for (_, _, status) in &mut starts[1] {
        status.pid += 100;
        status.began_realtime += 60_000 * MS;
    }
    let reports = reports_of(starts.into_iter().flatten().collect(), &Filter::default());
    let report = json(&reports);
    assert_valid(&report);
    let rows = report["ranks"].as_array().unwrap();
    let last: Vec<(u64, u64)> =
        rows.iter().map(|row| (number(&row["rank"]), number(&row["straggler"]["last_arrivals"]))).collect();
    assert_eq!(last, [(0, 0), (1, STEPS), (0, 0), (1, STEPS)]);
    let screen = section(&reports, 100);
    assert!(screen.contains("rank 1 is slower than the others"), "{screen}");
    assert!(screen.contains("started more than once (2)"), "{screen}");
}

/// Both starts were one, with each rank twice, since one rank was there again before the other was noticed to be over.
#[test]
fn a_job_that_is_started_again_while_a_rank_is_about_to_end_has_two_starts() {
    let mut starts = [apps(2, second_sleeps), apps(2, second_sleeps)];
    for (rank, (_, _, status)) in (0..).zip(&mut starts[1]) {
        status.pid += 100;
        status.began_realtime += status.ended - status.began + rank * MS - 2 * MS;
    }
    let report = json(&reports_of(starts.into_iter().flatten().collect(), &Filter::default()));
    let rows = report["ranks"].as_array().unwrap();
    let last: Vec<(u64, u64)> =
        rows.iter().map(|row| (number(&row["rank"]), number(&row["straggler"]["last_arrivals"]))).collect();
    assert_eq!(last, [(0, 0), (1, STEPS), (0, 0), (1, STEPS)]);
}

/// It was said that ranks 1 and 2 have no trace of each start, and that the report is about the others.
#[test]
fn a_rank_that_runs_one_more_program_leaves_no_other_missing() {
    let mut all = apps(3, second_sleeps);
    let (app, names, status) = rank(0, 3, 0, Does::default());
    let again = status.began_realtime + status.ended - status.began + 1_000 * MS;
    all.push((app, names, Status { pid: 5000, began_realtime: again, ..status }));
    let reports = reports_of(all, &Filter::default());
    let screen = terminal(&reports, &View::default(), &wide(160));
    assert!(!screen.contains("incomplete job") && !screen.contains("no trace"), "{screen}");
    assert!(
        screen.contains("started more than once (2, not all of them with all ranks): each has lines"),
        "{screen}"
    );
    let mut missing = apps(3, second_sleeps);
    missing.extend(
        apps(3, second_sleeps)
            .into_iter()
            .take(1)
            .map(|(app, names, status)| (app, names, Status { pid: 5000, began_realtime: again, ..status })),
    );
    missing.remove(2);
    let screen = terminal(&reports_of(missing, &Filter::default()), &View::default(), &wide(160));
    assert!(screen.contains("incomplete job: rank 2 of 3 has no trace, so that"), "{screen}");
}

/// Workers of a DataLoader have the variables of their rank, and counted as ranks that launch nothing.
#[test]
fn a_helper_with_the_number_of_its_rank_is_no_rank() {
    let mut apps = apps(2, |_| Does::default());
    let (_, names, status) = &apps[1];
    let helper = (App::new(), names.clone(), Status { pid: 5000, ..status.clone() });
    apps.push(helper);
    let reports = reports_of(apps, &Filter::default());
    let report = json(&reports);
    let pids: Vec<u64> = report["ranks"].as_array().unwrap().iter().map(|row| number(&row["pid"])).collect();
    assert_eq!(pids, [4242, 4243]);
    let overview = terminal(&reports, &View::default(), &wide(100));
    assert!(overview.contains("5000") && overview.contains("2 ranks:"), "{overview}");
}

/// A directory with windows of one process was a job of several ranks.
#[test]
fn windows_of_one_process_are_one_rank() {
    let mut windows: Vec<(App, Names, Status)> = (0..3).map(|_| apps(2, second_sleeps).remove(1)).collect();
    for (at, (_, names, status)) in (0..).zip(&mut windows) {
        names.0.insert((Namespace::Fact, Fact::Window as u32), at.to_string());
        status.began_realtime += at * 60_000 * MS;
    }
    let report = json(&reports_of(windows, &Filter::default()));
    assert_eq!(report["ranks"], value!([]));
}

#[test]
fn sixteen_ranks_fit_on_a_screen_of_24_lines_with_80_columns() {
    let screen = section(&job(16, sixth_sleeps), 80);
    assert!(screen.lines().count() <= 24, "{screen}");
    assert!(screen.lines().all(|line| line.chars().count() <= 80), "{screen}");
    insta::assert_snapshot!(screen);
}

#[test]
fn many_ranks_are_summarised_with_those_that_differ() {
    let odd = |rank| Does {
        sleeps: if rank == 6 { 20 * MS } else { 0 },
        holds: if rank == 200 { 4 << 30 } else { 0 },
        ..Does::default()
    };
    let reports = job(256, odd);
    let overview = terminal(&reports, &View::default(), &wide(80));
    let start = overview.find("Ranks").unwrap();
    let ranks: Vec<&str> = overview[start..].lines().take_while(|line| !line.is_empty()).collect();
    insta::assert_snapshot!(ranks.join("\n"));
    let whole = section(&reports, 80);
    assert_eq!(
        whole
            .lines()
            .filter(|line| line.contains(" %") && line.trim().starts_with(|c: char| c.is_ascii_digit()))
            .count(),
        256
    );
}

#[test]
fn a_gpu_is_named_by_the_rank_that_has_it_to_itself() {
    let reports = job(2, |_| Does::default());
    let titles = |reports: &[ProcessReport]| -> Vec<String> {
        let screen = terminal(reports, &View { sections: vec![Section::Gpu], ..View::default() }, &wide(100));
        let titles = screen.lines().filter(|line| line.starts_with("rank ") || line.starts_with("GPU "));
        titles.map(|line| line[..6].trim().to_owned()).collect()
    };
    assert_eq!(titles(&reports), ["rank 0", "rank 1"]);
    assert_eq!(titles(&reports[1..]), ["rank 1"]);
    let ranks: Vec<Value> =
        json(&reports)["devices"].as_array().unwrap().iter().map(|one| one["rank"].clone()).collect();
    assert_eq!(ranks, [value!(0), value!(1)]);
    let mut shared = apps(2, |_| Does::default());
    for (app, ..) in &mut shared {
        for record in &mut app.records {
            if let Body::Device(device) = &mut record.body {
                device.uuid = *b"0123456789abcdef";
            }
        }
    }
    assert_eq!(titles(&reports_of(shared, &Filter::default())), ["GPU 0"]);
}

/// The table of idle time by cause is made up here: what the host did is found elsewhere.
#[test]
fn what_the_slow_rank_does_longer_than_the_others_is_named_by_step() {
    let mut reports = job(8, sixth_sleeps);
    for report in &mut reports {
        let is_late = report.process.job.rank == Some(6);
        let part = |each: u64| Part { count: STEPS, total: exactly(STEPS * each) };
        let outside = if is_late { 24 * MS } else { 4 * MS };
        report.tables.idle.by_cause =
            BTreeMap::from([(Cause::OutsideCuda, part(outside)), (Cause::Launching, part(MS))]);
        report.tables.steps.count = STEPS;
    }
    let said = |reports: &[ProcessReport]| {
        section(reports, 160).lines().find(|line| line.contains("slower")).unwrap_or_default().to_owned()
    };
    let expected = "rank 6 is slower than the others: its host is outside CUDA 20.0 ms longer in each step; the others \
                    wait for it in ncclAllReduce";
    assert!(said(&reports).ends_with(expected), "{}", said(&reports));
    // What explains less than half of it is no explanation.
    let outside = reports[6].tables.idle.by_cause.get_mut(&Cause::OutsideCuda).unwrap();
    outside.total = exactly(STEPS * 12 * MS);
    assert!(said(&reports).contains("it comes 20.0 ms later in each step"), "{}", said(&reports));
}

fn exactly(ns: u64) -> Sum {
    Sum { value: ns, lo: ns, hi: ns }
}

/// The page did not say that a rank had crashed, nor anything else that stands above the terminal's table.
#[test]
fn a_page_is_told_what_the_terminal_says_of_ranks_and_how_they_ended() {
    let mut reports = job(8, sixth_sleeps);
    reports[1].process.outcome = Some(Outcome::Crashed(6));
    reports[3].process.outcome = Some(Outcome::Exited(Some(3)));
    let all = Tables::of_run(&reports);
    let said = sentences(&reports, Cow::Borrowed(&all), &[]);
    assert_eq!(said.endings, ["rank 1: crashed with SIGABRT", "rank 3: exited with code 3"]);
    let outcomes = [(0, "exited"), (1, "crashed with SIGABRT"), (3, "exited with code 3")];
    assert!(outcomes.iter().all(|(rank, how)| said.outcomes[*rank] == *how), "{:?}", said.outcomes);
    let screen = section(&reports, 10_000);
    let lines = screen.lines().skip_while(|line| !line.starts_with("Ranks"));
    let above = lines.take_while(|line| !line.starts_with("  rank"));
    let above: Vec<&str> = above.map(|line| line.trim_start_matches("Ranks").trim()).collect();
    assert!(above[0].contains("slower than the others") && above.len() == 3, "{above:?}");
    assert_eq!(said.ranks, above);
    let alone = &reports[..1];
    assert!(sentences(alone, Tables::of_run(alone), &[]).ranks.is_empty());
}
