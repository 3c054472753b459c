//! Several processes on one machine: their work on a GPU is one row.

use super::*;
use gpuspy_collector::analyze::Tables;
use gpuspy_collector::export::flame::{self, Weight};
use gpuspy_collector::model::stacks::{Stacks, as_lines};
use gpuspy_collector::model::survey::Survey;
use gpuspy_collector::report::{Operations, Section};
use gpuspy_collector::trace::generator::Random;
use std::cell::Cell;

const MS: u64 = 1_000_000;
const MIB: u64 = 1 << 20;

/// Returns a process that starts and ends at these times, in ns from the start of the first, and does what `acts` does.
fn rank(rank: u32, (from, to): (u64, u64), acts: impl FnOnce(&mut App)) -> (App, Names, Status) {
    let mut app = App::new();
    app.records.iter_mut().for_each(|record| record.at = BEGAN + from);
    app.now = BEGAN + from + 10_000;
    acts(&mut app);
    assert!(app.now <= BEGAN + to);
    let (pid, began, ended) = (4242 + rank, BEGAN + from, BEGAN + to);
    let status = Status { pid, began, ended, boot: Some(7), ..status() };
    (app, names(), status)
}

/// Launches kernels of 10 ms, each followed by a synchronization, every `every` ms.
fn kernels(app: &mut App, count: u64, every: u64) {
    for _ in 0..count {
        let begin = app.now;
        app.timed(LAUNCH, kernel(GEMM), 0, 10 * MS as i64);
        app.sync(10 * MS + 20_000);
        app.now = begin + every * MS;
    }
}

pub(super) fn value_of(row: &Value, key: &str) -> u64 {
    row[key]["value"].as_u64().unwrap_or_else(|| panic!("no {key}: {row}"))
}

/// Two ranks run for 431 and 786 ms, the second 114 ms after the first: 0.9 s together. A former version reported 1.22 s of
/// wall time, and busy and idle times as if there were two GPUs.
#[test]
fn a_gpu_that_two_processes_used_is_one_row_and_their_wall_is_that_of_the_run() {
    let apps = vec![
        rank(0, (0, 431 * MS), |app| kernels(app, 20, 20)),
        rank(1, (114 * MS, 900 * MS), |app| kernels(app, 30, 20)),
    ];
    let reports = reports_of(apps, &Filter::default());
    let report = json(&reports);
    assert_valid(&report);
    let [device] = report["devices"].as_array().unwrap().as_slice() else { panic!("{report}") };
    assert_eq!((&device["timelines"], &device["processes"]), (&value!(1), &value!(2)));
    assert_eq!(report["wall_ns"], value!(900 * MS));
    // Kernels of the first start every 20 ms from 0 on, those of the second from 114 ms on. So 14 times a kernel of the first
    // starts 6 ms after one of the second, and both run for 4 ms.
    let truth = (20 + 30) * 10 * MS - 14 * 4 * MS;
    let busy = &device["compute_ns"];
    assert!(busy["value"].as_u64().unwrap().abs_diff(truth) < MS, "{busy} is not {truth}");
    assert!(busy["lo"].as_u64().unwrap() <= truth && truth <= busy["hi"].as_u64().unwrap(), "{busy}");
    let span = device["span_ns"].as_u64().unwrap();
    assert!(span.abs_diff(704 * MS) < MS, "{span}");
    assert_eq!(value_of(device, "compute_ns") + value_of(device, "idle_ns"), span);

    let screen = terminal(&reports, &everything(), &wide(100));
    assert!(screen.contains("2 processes, 1 GPU (NVIDIA H200), 900 ms"), "{screen}");
    let wall = screen.lines().find(|line| line.contains("= wall")).unwrap();
    assert!(wall.contains("900 000 000 ns"), "{wall}");
    assert!(screen.contains("2 processes used this GPU"), "{screen}");
}

#[test]
fn memory_of_all_processes_peaks_at_no_less_than_its_end() {
    let take = |app: &mut App, mib: u64| {
        app.alloc(MALLOC, Memory::Device, 0x10_0000, mib * MIB);
        app.idle(300 * MS);
    };
    let memory = |second: (u64, u64)| {
        let apps = vec![rank(0, (0, 431 * MS), |app| take(app, 256)), rank(1, second, |app| take(app, 200))];
        let report = json(&reports_of(apps, &Filter::default()));
        assert_valid(&report);
        let device = &report["memory"];
        let number = |key: &str| device[key].as_u64().unwrap() / MIB;
        let library = &device["by_library"][0];
        assert_eq!(device["live_bytes"], library["live_bytes"]);
        let peak = |of: &Value| of["peak_bytes"]["value"].as_u64().unwrap();
        assert_eq!(Some(peak(device)), library["at_peak_bytes"].as_u64());
        assert_eq!((&device["allocations"], &library["allocations"]), (&value!(2), &value!(2)));
        let line = device["timeline"]["peaks_bytes"].as_array().unwrap();
        assert_eq!(line.iter().map(Value::as_u64).max(), Some(Some(peak(device))));
        let own = report["processes"].as_array().unwrap().iter().map(|p| &p["memory"]);
        let own: Vec<_> = own.map(|memory| (peak(memory), memory["live_bytes"].as_u64().unwrap())).collect();
        assert_eq!(own, [(256 * MIB, 256 * MIB), (200 * MIB, 200 * MIB)]);
        (peak(device) / MIB, number("live_bytes"))
    };
    assert_eq!(memory((100 * MS, 431 * MS)), (456, 456), "both at once");
    assert_eq!(memory((114 * MS, 900 * MS)), (456, 200), "memory of the first process ended with it");
    assert_eq!(memory((500 * MS, 900 * MS)), (256, 200), "one after the other");
}

/// It was that of the first machine.
#[test]
fn the_memory_of_several_machines_has_no_timeline() {
    let take = |app: &mut App| {
        app.alloc(MALLOC, Memory::Device, 0x10_0000, 256 * MIB);
        app.idle(300 * MS);
    };
    let timeline = |boots: [u64; 2]| {
        let mut apps = vec![rank(0, (0, 431 * MS), take), rank(1, (0, 431 * MS), take)];
        apps.iter_mut().zip(boots).for_each(|(app, boot)| app.2.boot = Some(boot));
        let report = json(&reports_of(apps, &Filter::default()));
        assert_valid(&report);
        report["memory"]["timeline"].clone()
    };
    let (one, two) = (timeline([7, 7]), timeline([7, 8]));
    let most = one["peaks_bytes"].as_array().unwrap().iter().filter_map(Value::as_u64).max();
    assert_eq!(most, Some(512 * MIB));
    assert_eq!((&two["peaks_bytes"], &two["by_kind"]), (&value!([]), &value!({})));
}

#[test]
fn processes_of_two_machines_or_of_two_starts_of_one_are_never_merged() {
    let mut apps = vec![
        rank(0, (0, 431 * MS), |app| kernels(app, 20, 20)),
        rank(1, (114 * MS, 900 * MS), |app| kernels(app, 30, 20)),
        rank(2, (0, 300 * MS), |app| kernels(app, 1, 20)),
    ];
    apps[1].2.boot = Some(8);
    let report = json(&reports_of(apps.clone(), &Filter::default()));
    assert_valid(&report);
    let used: Vec<&Value> =
        report["devices"].as_array().unwrap().iter().map(|device| &device["processes"]).collect();
    assert_eq!(used, [&value!(2), &value!(1)]);
    assert_eq!(report["wall_ns"], value!(786 * MS), "the longer of the two");
    // If the boot time is not known, the host name is used.
    for (at, name) in ["one", "another", "one"].into_iter().enumerate() {
        apps[at].1.0.insert((Namespace::Fact, Fact::Host as u32), name.to_owned());
        apps[at].2.boot = None;
    }
    let by_name = json(&reports_of(apps, &Filter::default()));
    assert_eq!(by_name["devices"], report["devices"]);
}

#[test]
fn where_one_process_is_not_captured_the_gpu_is_not_called_idle() {
    let captured = |at: u32, ranges: &[(u64, u64)], act_at: u64| {
        let (mut app, mut names, status) = rank(at, (0, 900 * MS), |_| ());
        names.0.insert((Namespace::Fact, Fact::CaptureRange as u32), "profiler-api".to_owned());
        let mut records = std::mem::take(&mut app.records);
        app.now = BEGAN + act_at * MS;
        kernels(&mut app, 1, 20);
        for (from, to) in ranges {
            for (at, begins) in [(from, true), (to, false)] {
                app.records.push(Record {
                    thread: 1,
                    at: BEGAN + at * MS,
                    body: Body::CaptureEdge { begins },
                });
            }
        }
        records.append(&mut app.records);
        records.sort_by_key(|record| record.at);
        app.records = records;
        (app, names, status)
    };
    // The first process is captured from 100 to 200 ms, the second from 150 to 400 ms, so both only from 150 to 200 ms.
    let apps = vec![captured(0, &[(100, 200)], 110), captured(1, &[(150, 400)], 160)];
    let reports = reports_of(apps, &Filter::default());
    let report = json(&reports);
    assert_valid(&report);
    let device = &report["devices"][0];
    assert_eq!((&report["wall_ns"], &device["span_ns"]), (&value!(300 * MS), &value!(300 * MS)));
    let ms = |key: &str| (value_of(device, key) + MS / 2) / MS;
    assert_eq!((ms("compute_ns"), ms("idle_ns"), ms("undecided_ns")), (20, 40, 240));
    let screen = terminal(&reports, &View { sections: vec![Section::Gpu], ..View::default() }, &wide(100));
    assert!(screen.contains("profiler-api: 2 ranges, 300 ms of 900 ms"), "{screen}");
}

/// `gpuspy collect` was ended, and later `gpuspy collect --pid` observed the same process: what nobody had observed in between was idle time,
/// and "start-up takes 38.3 % of the wall".
#[test]
fn between_two_collections_of_a_process_nothing_is_known() {
    let part = |(from, to): (u64, u64), ending| {
        let (app, names, status) = rank(0, (from * MS, to * MS), |app| kernels(app, 20, 20));
        let status = Status { ending, session_realtime: Some(1), began_realtime: 1 + from, ..status };
        (app, names, status)
    };
    let parts = || vec![part((0, 410), Ending::Detached), part((1_000, 1_410), Ending::Exited)];
    let reports = reports_of(parts(), &Filter::default());
    let report = json(&reports);
    assert_valid(&report);
    assert_eq!(report["wall_ns"], value!(820 * MS));
    let device = &report["devices"][0];
    let ms = |device: &Value, key: &str| (value_of(device, key) + MS / 2) / MS;
    assert_eq!((ms(device, "compute_ns"), ms(device, "undecided_ns")), (400, 0), "{device}");
    assert!((390..=410).contains(&ms(device, "idle_ns")), "{device}");
    let screen = terminal(&reports, &View::default(), &wide(100));
    assert!(screen.contains("820 ms of 1.41 s"), "{screen}");
    // Where another process is observed all the time, nobody knows what this one does to the GPU meanwhile.
    let mut all = parts();
    all.push(rank(1, (0, 1_410 * MS), |app| kernels(app, 1, 20)));
    let report = json(&reports_of(all, &Filter::default()));
    let device = &report["devices"][0];
    assert_eq!((&report["wall_ns"], ms(device, "undecided_ns")), (&value!(1_410 * MS), 590), "{device}");
    // A process that has ended uses no GPU until another one begins.
    let mut ended = parts();
    (ended[0].2.ending, ended[1].2.pid) = (Ending::Exited, 7);
    let report = json(&reports_of(ended, &Filter::default()));
    assert_eq!(report["wall_ns"], value!(1_410 * MS));
}

#[test]
fn a_part_of_a_run_counts_from_the_begin_of_its_first_process() {
    let apps = || {
        vec![
            rank(0, (0, 431 * MS), |app| kernels(app, 20, 20)),
            rank(1, (114 * MS, 900 * MS), |app| kernels(app, 30, 20)),
        ]
    };
    let part = |since, until| {
        let filter = Filter { since, until, ..Filter::default() };
        let report = json(&reports_of(apps(), &filter));
        assert_valid(&report);
        report
    };
    let all = part(None, None);
    let (early, late) = (part(None, Some(300 * MS)), part(Some(300 * MS), None));
    assert_eq!((&early["wall_ns"], &late["wall_ns"]), (&value!(300 * MS), &value!(600 * MS)));
    for key in ["compute_ns", "idle_ns"] {
        let of = |report: &Value| value_of(&report["devices"][0], key);
        assert_eq!(of(&early) + of(&late), of(&all), "{key}");
    }
    let launches = |report: &Value| report["coverage"]["launches"].as_u64().unwrap();
    assert_eq!(launches(&early) + launches(&late), launches(&all));
}

/// Moment by moment, against what the operations themselves say.
#[test]
fn the_union_of_random_processes_is_what_their_operations_cover() {
    for seed in 0..20 {
        let mut random = Random(seed);
        let apps: Vec<(App, Names, Status)> = (0..3)
            .map(|at| {
                let from = random.below(40) * MS / 7;
                let mut acts = |app: &mut App| {
                    for _ in 0..30 {
                        app.idle(random.below(3_000_000));
                        let ns = 20_000 + random.below(2_000_000);
                        app.timed(LAUNCH, kernel(GEMM), 0, ns as i64);
                        app.sync(ns + 30_000);
                    }
                };
                rank(at, (from, 1_000 * MS), |app| acts(app))
            })
            .collect();
        let mut edges: Vec<(i64, i64)> = Vec::new();
        let everything = Filter::default();
        for (app, names, status) in &apps {
            let clocks = Survey::of(app.records.iter().cloned());
            let mut operations = Operations::new(names, &clocks, Some(status), &everything);
            for line in app.records.iter().filter_map(|record| operations.observe(record)) {
                let line: Value = serde_json::from_str(&line).unwrap();
                let moment = |key: &str| line[key]["value"].as_i64().unwrap();
                edges.extend([(moment("start_ns"), 1), (moment("finish_ns"), -1)]);
            }
        }
        edges.sort_unstable();
        let (mut busy, mut running) = (0, 0);
        for pair in edges.windows(2) {
            running += pair[0].1;
            busy += if running > 0 { pair[1].0 - pair[0].0 } else { 0 };
        }
        let report = json(&reports_of(apps, &everything));
        let device = &report["devices"][0];
        assert_eq!(value_of(device, "compute_ns"), busy as u64, "seed {seed}");
        let (gaps, idle) = (value_of(&report["gaps"], "total_ns"), value_of(device, "idle_ns"));
        let start_event = 10_000;
        assert!(
            gaps <= idle && idle < gaps + start_event,
            "seed {seed}: all idle time is between two operations"
        );
    }
}

/// Records of a process, of which some are held from the first that is asked for until there is none.
struct Held<'a, Records> {
    records: Records,
    is_held: bool,
    /// The processes of which records are held, and the most there were.
    now: &'a Cell<(u32, u32)>,
}

impl<Records: Iterator<Item = Record>> Iterator for Held<'_, Records> {
    type Item = Record;

    fn next(&mut self) -> Option<Record> {
        let next = self.records.next();
        let (held, most) = self.now.get();
        let held = held + u32::from(next.is_some()) - u32::from(self.is_held);
        self.now.set((held, most.max(held)));
        self.is_held = next.is_some();
        next
    }
}

/// A report of a thousand windows held a chunk and the calls of each of them at the same time.
#[test]
fn processes_that_follow_each_other_are_read_one_after_another() {
    let app = |at: u64| {
        let mut app = App::new();
        app.records.iter_mut().for_each(|record| record.at += at);
        app.idle(at);
        app.sync(1_000);
        app.timed(LAUNCH, kernel(GEMM), 36_000, 100_000);
        app.sync(150_000);
        app
    };
    let apps: Vec<App> = (0..8).map(|number| app(number * 10_000_000)).collect();
    let (names, status, filter, now) = (names(), status(), Filter::default(), Cell::new((0, 0)));
    let clocks: Vec<_> = apps.iter().map(|app| Survey::of(app.records.iter().cloned())).collect();
    let reports = apps.iter().map(|app| app.clone().report(Some(&status), Damage::default()));
    let mut reports: Vec<ProcessReport> = reports.collect();
    let members = apps.iter().zip(&clocks).map(|(app, clocks)| Member {
        names: &names,
        status: Some(&status),
        clocks,
        filter: &filter,
        not_before: app.records[0].at,
        records: Held { records: app.records.iter().cloned(), is_held: false, now: &now },
    });
    together(&mut reports, members.collect());
    assert_eq!(json(&reports)["coverage"]["launches"], 8);
    assert_eq!(now.get(), (0, 1), "held at the end, and at most");
}

/// A rank that was killed before the GPU times of its launches were read weighed nothing.
#[test]
fn flames_of_several_processes_have_the_time_of_all_of_them() {
    let mut names = names();
    names.0.insert((Namespace::Frame, 1), "train\n/home/ann/train.py\n42".to_owned());
    names.0.insert((Namespace::Stack, 1), "1".to_owned());
    let of = |number: u32, acts: fn(&mut App)| {
        let (mut app, _, status) = rank(number, (0, 10 * MS), |app| {
            for _ in 0..10 {
                acts(app);
                app.idle(200_000);
            }
        });
        for record in &mut app.records {
            if let Body::Work(work) = &mut record.body {
                work.call.stack = 1;
            }
        }
        (app, as_lines(&names), status)
    };
    let timed = of(0, |app| app.timed(LAUNCH, kernel(GEMM), 0, 100_000));
    let killed = of(1, |app| app.untimed(LAUNCH, kernel(GEMM), Untimed::Budget, 0));
    let reports = reports_of(vec![timed, killed], &Filter::default());
    let tables: Vec<&Tables> = reports.iter().map(|report| &report.tables).collect();
    let named = |(at, tables): (usize, &&Tables)| {
        flame::Process::of(format!("rank {at}"), Stacks::of(&names), tables)
    };
    let mut processes: Vec<flame::Process> = tables.iter().enumerate().map(named).collect();
    flame::Process::complete(&mut processes, &tables, &Tables::of_run(&reports));
    let mut text = Vec::new();
    flame::collapsed(&mut text, &processes, Weight::Gpu).unwrap();
    let text = String::from_utf8(text).unwrap();
    let times: Vec<u64> =
        text.lines().map(|line| line.rsplit(' ').next().unwrap().parse().unwrap()).collect();
    let whole = json(&reports)["kernels"][0]["total_ns"]["value"].as_u64().unwrap();
    assert_eq!(times.len(), 2, "{text}");
    assert!(
        times[0].abs_diff(times[1]) <= 1 && times.iter().sum::<u64>().abs_diff(whole) <= 1,
        "{text} {whole}"
    );
}

/// Of two processes one after the other, each held all at its own peak: the shares were 81, 81, 19 and 19 % of one peak, and
/// what lived to the end was 190.8 % of it.
#[test]
fn shares_of_peaks_are_of_the_peaks_of_their_own_processes() {
    let holding = |mib: [u64; 2]| {
        move |app: &mut App| {
            kernels(app, 2, 20);
            app.alloc(MALLOC, Memory::Device, 0x10_0000, mib[0] * MIB);
            app.alloc(MALLOC, Memory::Pool, 0x9000_0000, mib[1] * MIB);
            kernels(app, 2, 20);
        }
    };
    let (first, then) = ((0, 100 * MS), (200 * MS, 300 * MS));
    let reports = reports_of(
        vec![rank(0, first, holding([240, 60])), rank(1, then, holding([180, 20]))],
        &Filter::default(),
    );
    let view = View { sections: vec![Section::Memory], ..View::default() };
    let screen = terminal(&reports, &view, &wide(120));
    let rows =
        |kind: &str| screen.lines().filter(|line| line.contains(kind)).map(str::to_owned).collect::<Vec<_>>();
    let shares = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let at = words.iter().position(|word| *word == "%").unwrap();
        words[at - 1].to_owned()
    };
    let held: Vec<_> = rows("cudaMalloc").iter().map(|line| shares(line)).collect();
    assert_eq!(held, ["80.0", "90.0", "20.0", "10.0"], "{screen}");
    assert!(screen.contains("held at its process's peak by"), "{screen}");
    assert_eq!(rows("to the end").iter().map(|line| shares(line)).collect::<Vec<_>>(), ["100.0"], "{screen}");
}

/// Of 220 MiB, ten rows had 73 MiB, and nothing said that there were others.
#[test]
fn holders_that_are_not_listed_have_a_row_together() {
    let allocates = |app: &mut App| {
        for line in 0..12 {
            app.alloc(MALLOC, Memory::Device, (line + 1) << 30, 10 * MIB);
            if let Some(Record { body: Body::Alloc(alloc), .. }) = app.records.last_mut() {
                alloc.call.caller += 16 * line;
            }
        }
        kernels(app, 2, 20);
    };
    let reports = reports_of(vec![rank(0, (0, 100 * MS), allocates)], &Filter::default());
    let view = View { sections: vec![Section::Memory], ..View::default() };
    let screen = terminal(&reports, &view, &wide(120));
    let others: Vec<&str> = screen.lines().filter(|line| line.contains("all others")).collect();
    assert!(matches!(others[..], [row] if row.contains("20.0 MiB") && row.contains("16.7 %")), "{screen}");
}
