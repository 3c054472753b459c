//! The sampling of `--timing auto`: windows, pauses and their cost.

use super::*;

#[test]
fn sampling_windows_are_reported_with_their_cost_and_what_stays_untimed() {
    let (app, names) = in_windows();
    let mut status = status();
    status.ended = app.now;
    let path = "gpuspy-python-4242.gspy".to_owned();
    let clocks = &Survey::of(app.records.iter().cloned());
    let (damage, records) = (Damage::default(), app.records.into_iter());
    let reports = [process(Input {
        path,
        names: &names,
        status: Some(&status),
        damage,
        clocks,
        filter: &Filter::default(),
        records,
    })];
    let report = json(&reports);
    assert_valid(&report);
    let coverage = &report["coverage"];
    assert_eq!((&coverage["launches"], &coverage["timed"]), (&value!(3_350), &value!(1_250)));
    assert_eq!((&coverage["untimed"]["budget"], &coverage["never_timed"]), (&value!(2_100), &value!(21)));
    let timing = &coverage["timing"];
    assert_eq!((&timing["mode"], &timing["budget_percent"]), (&value!("auto"), &value!(5.0)));
    assert_eq!((&timing["windows"], &timing["first_phase"]["launches"]), (&value!(21), &value!(50)));
    assert_eq!(timing["first_phase"]["agent_ns"], 30_000);
    assert_eq!(timing["after_windows"]["launches"], 1_200);
    assert_eq!(timing["after_pauses"]["agent_ns"], 20 * 100 * 100);
    let slowdown = timing["gpu_slowdown"]["value"].as_f64().unwrap();
    assert!(
        (slowdown - 0.1).abs() < 0.02,
        "a launch of 5 µs takes 1 µs longer, of which hooks take half: {timing}"
    );
    let kernel = |symbol: &str| {
        report["kernels"].as_array().unwrap().iter().find(|row| row["symbol"] == symbol).unwrap()
    };
    let add = kernel("vector_add");
    let total = &add["total_ns"];
    assert_eq!((&add["timed"], &total["kind"]), (&value!(1_250), &value!("extrapolated")));
    let truth = add["count"].as_u64().unwrap() * 3_000;
    assert!(total["lo"].as_u64() <= Some(truth) && Some(truth) <= total["hi"].as_u64(), "{truth}: {total}");
    assert!(total["hi"].as_u64() < Some(3 * truth), "{total}");
    let gemm = report["kernels"].as_array().unwrap().iter().find(|row| row["timed"] == 0).unwrap();
    assert_eq!((&gemm["count"], &gemm["total_ns"]), (&value!(21), &Value::Null));
    let screen = terminal(&reports, &everything(), &wide(100));
    let coverage = screen.lines().skip_while(|line| !line.starts_with("Coverage"));
    insta::assert_snapshot!(coverage.take(7).collect::<Vec<_>>().join("\n"));
}

#[test]
fn gpu_time_in_sampling_pauses_is_extrapolated_and_reported() {
    let mut report = training().report(None, Damage::default());
    let DeviceReport { identity, work, .. } = &mut report.tables.devices[0];
    let observed = identity.span;
    let compute = identity.busy[0].value;
    // Three times as many launches as were observed.
    let time = extrapolate::Range {
        lo: 3.0 * compute as f64,
        value: 3.0 * compute as f64,
        hi: 3.0 * compute as f64,
    };
    work.observed = [compute, 0, 0, 0];
    work.paused[0] = Extent { known: 9, sampled: 9, time, guessed: 0, unknown: 0 };
    // The table of kernels knows nothing of them.
    work.most_compute = None;
    identity.unobserved = Sum { value: 3 * observed + 1, lo: 3 * observed + 1, hi: 3 * observed + 1 };
    identity.span += identity.unobserved.value;
    identity.maybe[0] = identity.unobserved.value;
    identity.busy[0].hi += identity.unobserved.value;
    let reports = [report];
    let report = json(&reports);
    assert_valid(&report);
    let device = &report["devices"][0];
    let parts = ["compute_ns", "exposed_comm_ns", "exposed_copy_ns", "graph_ns", "idle_ns", "undecided_ns"];
    let sum: u64 = parts.iter().map(|part| device[part]["value"].as_u64().unwrap()).sum();
    assert_eq!((sum, device["observed_ns"].as_u64()), (4 * observed + 1, Some(observed)));
    assert_eq!(device["compute_ns"]["value"].as_u64(), Some(4 * compute), "{device}");
    assert!(parts.iter().all(|part| device[part]["kind"] == "extrapolated"), "{device}");
    let screen = terminal(&reports, &everything(), &wide(100));
    assert!(screen.contains("75.0 % of the span was in sampling pauses"), "{screen}");
}

/// A program that launched nothing was said not to be timed for want of a sampling window.
#[test]
fn no_sampling_window_is_counted_where_nothing_could_be_timed() {
    let mut names = names();
    names.0.insert((Namespace::Fact, Fact::Timing as u32), "auto 5".to_owned());
    let screen = |launches: u32| {
        let mut app = App::new();
        app.sync(1_000);
        (0..launches).for_each(|_| app.untimed(LAUNCH, kernel(ADD), Untimed::Budget, 0));
        let reports = [process(Input {
            path: String::new(),
            names: &names,
            status: Some(&status()),
            damage: Damage::default(),
            clocks: &Survey::of(app.records.iter().cloned()),
            filter: &Filter::default(),
            records: app.records.into_iter(),
        })];
        terminal(&reports, &everything(), &wide(4_000))
    };
    let said = "nothing was timed, because no sampling window opened (budget 5 %)";
    let untimed = screen(1);
    assert!(untimed.contains(said) && !untimed.contains("0 sampling windows"), "{untimed}");
    let empty = screen(0);
    assert!(empty.contains("0 launches") && !empty.contains("sampling window"), "{empty}");
}
