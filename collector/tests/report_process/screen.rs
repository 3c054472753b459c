//! Snapshots of screens, and checks of all of them.

use super::*;
use clap::ValueEnum;
use gpuspy_collector::analyze::memory::Reasons;
use gpuspy_collector::model::outcome::Outcome;
use gpuspy_collector::report::units::{bytes, count, duration, percent};
use gpuspy_collector::report::{Section, Sort};
use unicode_width::UnicodeWidthChar;

const TEMPLATE: u32 = 4;
const SOFTMAX: u32 = 5;
/// An address in the second library.
const NCCL_CALLER: u64 = 0xA234;

/// Returns each section by itself.
fn all_sections() -> Vec<Section> {
    Section::value_variants().iter().copied().filter(|section| *section != Section::All).collect()
}

fn screen(reports: &[ProcessReport], width: usize) -> String {
    terminal(reports, &View { trace_bytes: Some(59_597), ..everything() }, &wide(width))
}

fn section(reports: &[ProcessReport], sections: &[Section]) -> String {
    terminal(reports, &View { sections: sections.to_vec(), ..View::default() }, &wide(100))
}

fn texts() -> Names {
    let mut names = names();
    let mut add = |space, id: u32, text: &str| names.0.insert((space, id), text.to_owned());
    add(
        Namespace::Kernel,
        TEMPLATE,
        "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_addIfEESt5arrayIPcLm3EEEEviT0_T1_",
    );
    add(Namespace::Kernel, SOFTMAX, "softmax_warp_forward");
    add(Namespace::Path, 2, "/usr/lib/x86_64-linux-gnu/libnccl.so.2");
    names
}

/// A training run of twelve steps with host pauses between them and at the end.
fn epoch() -> App {
    let mut app = App::new();
    app.push(Body::Module(Module { start: 0xA000, end: 0xB000, bias: 0xA000, path: 2, ..Module::default() }));
    app.alloc(MALLOC, Memory::Device, 0x10_0000, 64 << 20);
    app.alloc(HOST_ALLOC, Memory::Pinned, 0x7000_0000, 8 << 20);
    let graph = Graph { graph: 1, handle: 5, kernels: 2, copies: 0, memsets: 0, others: 0 };
    app.push(Body::Graph(graph));
    app.push(Body::GraphNode(GraphNode {
        graph: 1,
        kind: NodeKind::Kernel,
        kernel: SOFTMAX,
        count: 2,
        bytes: 0,
        address: 0,
    }));
    for step in 0..12u64 {
        step_of(&mut app, step);
    }
    app.free(0x10_0000, false);
    app.idle(400_000);
    app
}

fn step_of(app: &mut App, step: u64) {
    let slow = if step == 7 { 12_000_000 } else { 0 };
    app.alloc(MALLOC, Memory::Pool, 0x5000_0000 + (step << 20), (step + 1) << 16);
    app.timed(COPY, copy(Direction::Default, 0x10_0000, 0x7000_0000, 2 << 20), 0, 80_000);
    app.timed(COPY, copy(Direction::HtoD, 0x10_0000, 0x9000, 16 << 10), 76_000, 12_000);
    app.timed(LAUNCH, kernel(GEMM), 83_000, 100_000 + 1_000 * step as i64);
    app.timed(LAUNCH, kernel(TEMPLATE), 180_000 + 1_000 * step as i64, 20_000);
    let graph = What::Graph { graph: 1, handle: 5, kernels: 2, copies: 0, memsets: 0 };
    app.timed(GRAPH_LAUNCH, graph, 200_000 + 1_000 * step as i64, 30_000);
    app.timed(LAUNCH, kernel(NCCL), 230_000 + 1_000 * step as i64, 40_000);
    if let Some(Record { body: Body::Work(work), .. }) = app.records.last_mut() {
        work.call.caller = NCCL_CALLER;
    }
    app.timed(COPY, copy(Direction::DtoH, 0x9000, 0x10_0000, 4), 270_000 + 1_000 * step as i64, 2_000);
    app.sync(300_000);
    app.idle(20_000 + 30_000 * step + slow);
    if step.is_multiple_of(3) {
        app.timed(LAUNCH, kernel(NCCL), 0, 5_000);
        if let Some(Record { body: Body::Work(work), .. }) = app.records.last_mut() {
            work.call.caller = NCCL_CALLER;
        }
        app.sync(30_000);
    }
}

fn status_of(app: &App, pid: u32, ending: Ending) -> Status {
    let threads = BTreeMap::from([(1, 4243)]);
    // A process that vanished was killed.
    let exit = (ending == Ending::Vanished).then_some(Exit::Signal(9));
    Status { pid, ending, exit, ended: app.now, agent_ns: 130_000, threads, ..status() }
}

fn reported(app: App, names: &Names, pid: u32, ending: Ending, filter: &Filter) -> ProcessReport {
    let status = status_of(&app, pid, ending);
    process(Input {
        path: format!("gpuspy-python-{pid}.gspy"),
        names,
        status: Some(&status),
        damage: Damage::default(),
        clocks: &Survey::of(app.records.iter().cloned()),
        filter,
        records: app.records.into_iter(),
    })
}

fn whole_epoch() -> [ProcessReport; 1] {
    [reported(epoch(), &texts(), 4242, Ending::Exited, &Filter::default())]
}

/// The same program with `--timing off`.
fn untimed_epoch() -> [ProcessReport; 1] {
    let (mut app, mut names) = (epoch(), texts());
    names.0.insert((Namespace::Fact, Fact::Timing as u32), "off".to_owned());
    for record in &mut app.records {
        if let Body::Work(work) = &mut record.body {
            (work.gpu, work.untimed) = (None, Untimed::Off);
        }
    }
    [reported(app, &names, 4242, Ending::Exited, &Filter::default())]
}

/// Two processes; the second was killed after its fourth step.
fn killed() -> Vec<ProcessReport> {
    let mut short = App::new();
    (0..4).for_each(|step| step_of(&mut short, step));
    let lost = short.work(LAUNCH, kernel(GEMM), Untimed::Timed);
    short.push(Body::Work(lost));
    run_of([(epoch(), 4242, Ending::Exited), (short, 4250, Ending::Vanished)], &Filter::default())
}

fn run_of(apps: [(App, u32, Ending); 2], filter: &Filter) -> Vec<ProcessReport> {
    let with_status = |(app, pid, ending): (App, u32, Ending)| {
        let status = status_of(&app, pid, ending);
        (app, texts(), status)
    };
    reports_of(apps.into_iter().map(with_status).collect(), filter)
}

fn filtered(filter: &Filter) -> [ProcessReport; 1] {
    [reported(epoch(), &texts(), 4242, Ending::Exited, filter)]
}

fn columns(line: &str) -> usize {
    line.chars().map(|c| c.width().unwrap_or(0)).sum()
}

#[test]
fn the_screen() {
    insta::assert_snapshot!(screen(&whole_epoch(), 100));
}

#[test]
fn names_stay_readable_on_a_narrow_screen() {
    insta::assert_snapshot!(screen(&whole_epoch(), 80));
}

#[test]
fn a_wide_screen_has_every_column() {
    insta::assert_snapshot!(screen(&whole_epoch(), 160));
}

/// The same program with NVTX ranges and markers.
fn annotated_epoch() -> [ProcessReport; 1] {
    let mut names = texts();
    names.0.insert(
        (Namespace::NvtxRange, FORWARD),
        "forward of a layer\u{1b}[2J with a name that is long enough to be cut, surely".to_owned(),
    );
    let mut app = epoch();
    app.range(2, NvtxChange::Start, 9, 0, EPOCH);
    for step in 0..3 {
        app.push_range(STEP);
        app.range(1, NvtxChange::Push, 0, LOADER, FORWARD);
        app.idle(40_000);
        app.range(1, NvtxChange::Pop, 0, LOADER, 0);
        step_of(&mut app, step);
        app.pop_range();
        app.range(1, NvtxChange::Mark, 0, 0, STEP);
    }
    app.pop_range();
    [reported(app, &names, 4242, Ending::Exited, &Filter::default())]
}

#[test]
fn ranges_have_a_section_if_there_are_any() {
    insta::assert_snapshot!(section(&annotated_epoch(), &[Section::Ranges]));
    assert!(screen(&annotated_epoch(), 100).contains("\nRanges"));
    assert!(!screen(&whole_epoch(), 100).contains("Ranges"));
    let view = View { sections: vec![Section::Ranges], sort: Sort::Count, top: Some(1), ..View::default() };
    let most = terminal(&annotated_epoch(), &view, &wide(80));
    assert!(most.contains("  step\n") && !most.contains("epoch"), "{most}");
}

/// A screen in colour, without its escape sequences, equals the screen without colour.
#[test]
fn colour_does_not_change_the_text() {
    for width in [80, 160] {
        let coloured = terminal(&whole_epoch(), &everything(), &Style { color: true, ..wide(width) });
        let mut plain = String::new();
        for (n, part) in coloured.split('\u{1b}').enumerate() {
            plain.push_str(if n == 0 { part } else { part.split_once('m').unwrap().1 });
        }
        assert_eq!(plain, terminal(&whole_epoch(), &everything(), &wide(width)));
        insta::assert_snapshot!(format!("in_colour_at_{width}"), coloured.replace('\u{1b}', "ESC"));
    }
}

#[test]
fn colours_have_a_meaning() {
    let style = Style { color: true, ..wide(80) };
    let first = terminal(
        &killed(),
        &View { sections: vec![Section::Coverage, Section::Gpu], ..View::default() },
        &style,
    );
    insta::assert_snapshot!(first.replace('\u{1b}', "ESC"));
}

#[test]
fn without_unicode_the_screen_is_ascii() {
    let ascii = terminal(&whole_epoch(), &everything(), &Style { ascii: true, ..wide(100) });
    assert!(ascii.is_ascii());
    insta::assert_snapshot!(ascii);
}

#[test]
fn without_gpu_times_the_rest_is_reported() {
    insta::assert_snapshot!(screen(&untimed_epoch(), 100));
}

#[test]
fn each_of_several_processes_is_listed() {
    insta::assert_snapshot!(screen(&killed(), 100));
}

#[test]
fn filters_are_named_in_the_header() {
    let filter = Filter { kernel: regex("gemm|nccl"), since: Some(2_000_000), ..Filter::default() };
    insta::assert_snapshot!(screen(&filtered(&filter), 100));
}

#[test]
fn a_filter_without_matches_says_so() {
    for filter in [
        Filter { kernel: regex("^no such kernel$"), ..Filter::default() },
        Filter { since: Some(3_600_000_000_000), ..Filter::default() },
        Filter { threads: vec![1], ..Filter::default() },
    ] {
        let screen = screen(&filtered(&filter), 80);
        assert!(screen.contains("nothing in the trace matches these filters"), "{filter:?}:\n{screen}");
        assert!(!screen.contains("Kernels"), "{screen}");
    }
}

fn regex(text: &str) -> Option<regex::Regex> {
    Some(regex::Regex::new(text).unwrap())
}

#[test]
fn selected_sections_are_shown_completely_and_alone() {
    insta::assert_snapshot!(section(&whole_epoch(), &all_sections()));
    let one = section(&whole_epoch(), &[Section::Memory]);
    assert!(one.contains("\nMemory") && !one.contains("\nCoverage") && !one.contains("\nKernels"), "{one}");
}

#[test]
fn an_empty_section_says_so() {
    let mut app = App::new();
    app.sync(1_000);
    let reports = [reported(app, &texts(), 1, Ending::Exited, &Filter::default())];
    let screen = section(&reports, &all_sections());
    for (title, said) in [
        ("GPU", "no operation has a GPU time"),
        ("Gaps", "gaps are not known"),
        ("Ranges", "the program reported no NVTX range"),
        ("Kernels", "no kernel was launched"),
        ("Launches", "no launch has a GPU time"),
        ("Graphs", "no graph was launched"),
        ("Transfers", "no copy and no memset was made"),
        ("Memory", "no memory was allocated"),
        ("Syncs", "1 call"),
    ] {
        let line = screen
            .lines()
            .find(|line| line.starts_with(title))
            .unwrap_or_else(|| panic!("{title}:\n{screen}"));
        assert!(line.contains(said), "{line}");
    }
}

/// "no copy and no memset was made" was said of 600 copies in graphs.
#[test]
fn copies_in_graphs_are_copies() {
    let mut app = App::new();
    app.push(Body::Graph(Graph { graph: 1, handle: 5, kernels: 0, copies: 3, memsets: 1, others: 0 }));
    for (kind, count, bytes) in [(NodeKind::Copy, 3, 3 << 20), (NodeKind::Set, 1, 512)] {
        app.push(Body::GraphNode(GraphNode { graph: 1, kind, kernel: 0, count, bytes, address: 0 }));
    }
    let graph = What::Graph { graph: 1, handle: 5, kernels: 0, copies: 3, memsets: 1 };
    app.timed(GRAPH_LAUNCH, graph, 0, 40_000);
    let screen = section(&[app.report(None, Damage::default())], &[Section::Transfers]);
    let said = "none outside of graphs, which ran 3 copies of 3.00 MiB and 1 memset of 512 B";
    assert!(screen.contains(said), "{screen}");
}

#[test]
fn rows_are_limited_and_sorted_as_asked() {
    let names = |sort, top| {
        let view = View { sections: vec![Section::Kernels], sort, top, ..View::default() };
        let screen = terminal(&whole_epoch(), &view, &Style { full_names: true, ..wide(80) });
        let rows = screen.lines().skip_while(|line| !line.contains("time %")).skip(1);
        let names = rows.filter_map(|line| line.rsplit_once("  ").map(|(_, name)| name.replace("void ", "")));
        names.collect::<Vec<_>>()
    };
    let by_name = names(Sort::Name, None);
    assert_eq!(by_name.len(), 3);
    assert!(by_name.is_sorted(), "{by_name:?}");
    let longest = &names(Sort::Max, Some(1))[0];
    assert_eq!(longest, &names(Sort::Total, None)[0]);
    assert!(names(Sort::Count, Some(1))[0].starts_with("ncclDevKernel"), "launched most often");
    let cut = terminal(&whole_epoch(), &View { top: Some(1), ..everything() }, &wide(100));
    assert!(cut.contains("and 2 more\n"), "{cut}");
}

#[test]
fn full_names_are_whole_however_long_the_line() {
    let whole = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, \
                 std::array<char*, (unsigned long)3> >(int, at::native::CUDAFunctor_add<float>, \
                 std::array<char*, (unsigned long)3>)";
    let style = Style { full_names: true, ..wide(80) };
    let full = terminal(&whole_epoch(), &everything(), &style);
    assert!(full.lines().any(|line| line.ends_with(whole)), "{full}");
    assert!(!screen(&whole_epoch(), 80).contains(whole));
}

#[test]
fn no_line_is_longer_than_the_screen() {
    let mut strange = texts();
    for text in strange.0.values_mut() {
        *text = format!("{text} 世界核心 {}", "é\u{301}長い名前".repeat(30));
    }
    let strange = [reported(epoch(), &strange, 4242, Ending::Exited, &Filter::default())];
    let (app, windows) = in_windows();
    let windows = [reported(app, &windows, 4242, Ending::Running, &Filter::default())];
    let all: [&[ProcessReport]; 7] = [
        &whole_epoch(),
        &untimed_epoch(),
        &killed(),
        &strange,
        &windows,
        &annotated_epoch(),
        &[training().report(None, Damage::default())],
    ];
    for width in [80, 100, 160] {
        for reports in all {
            for sections in [Vec::new(), all_sections()] {
                for (color, ascii) in [(false, false), (false, true)] {
                    let view = View { sections: sections.clone(), ..View::default() };
                    let screen = terminal(reports, &view, &Style { color, ascii, ..wide(width) });
                    for line in screen.lines() {
                        assert!(
                            columns(line) <= width && !line.ends_with(' '),
                            "{width}: {line:?}\n{screen}"
                        );
                    }
                }
            }
        }
    }
    let narrow = screen(&whole_epoch(), 0);
    assert_eq!(narrow, screen(&whole_epoch(), 80), "there is no narrower screen");
}

fn section_at(reports: &[ProcessReport], section: Section, style: &Style) -> String {
    terminal(reports, &View { sections: vec![section], ..View::default() }, style)
}

#[test]
fn memory_lines_leave_room_for_the_longest_kind() {
    let mut app = epoch();
    app.alloc(HOST_ALLOC, Memory::Registered, 0x7100_0000, 4 << 20);
    app.alloc(MALLOC, Memory::Managed, 0x7200_0000, 4 << 20);
    let reports = [reported(app, &texts(), 4242, Ending::Exited, &Filter::default())];
    for width in [80, 100, 160] {
        for ascii in [false, true] {
            let memory = section_at(&reports, Section::Memory, &Style { ascii, ..wide(width) });
            for kind in [" registered\n", " managed\n"] {
                assert!(memory.contains(kind), "{memory}");
            }
            let longest = memory.lines().map(columns).max();
            assert_eq!(longest, Some(width), "the lines fill the width\n{memory}");
        }
    }
}

#[test]
fn the_allocating_library_has_its_path_if_it_fits() {
    let head = |width| {
        let memory = section_at(&whole_epoch(), Section::Memory, &wide(width));
        memory.lines().find(|line| line.contains("allocated by")).unwrap().to_owned()
    };
    assert!(head(80).ends_with("  frees made"), "{}", head(80));
    assert!(head(100).ends_with("  frees made  file"), "{}", head(100));
    assert!(head(160).ends_with("  bytes freed  file"), "{}", head(160));
}

#[test]
fn memory_of_several_processes_has_a_remark() {
    let remark = "all processes together";
    assert!(section(&killed(), &[Section::Memory]).contains(remark));
    assert!(!section(&whole_epoch(), &[Section::Memory]).contains(remark));
}

#[test]
fn the_signs_of_throughput_are_explained_if_they_occur() {
    let remark = "GB/s: > marks a lower bound";
    let with = |errors: &[u32]| {
        let mut app = App::new();
        for (direction, error) in [Direction::HtoD, Direction::DtoH].into_iter().zip(errors) {
            app.timed(COPY, copy(direction, 0x10_0000, 0x9000, 1 << 20), 0, 40_000);
            let Some(Record { body: Body::Work(Work { gpu: Some(gpu), .. }), .. }) = app.records.last_mut()
            else {
                panic!("it has a time")
            };
            (gpu.start_error, gpu.duration_error) = (*error, *error);
            app.sync(60_000);
        }
        section(&[reported(app, &texts(), 1, Ending::Exited, &Filter::default())], &[Section::Transfers])
    };
    let unknown = with(&[400_000]);
    assert!(!unknown.contains("GB/s"), "{unknown}");
    let both = with(&[400_000, 0]);
    assert!(both.contains("  GB/s  ") && both.contains(remark), "{both}");
    assert!(!with(&[0, 0]).contains(remark));
}

#[test]
fn the_process_list_has_parents_and_gpus_if_known_and_if_they_fit() {
    let mut two = killed();
    assert!(!screen(&two, 100).contains("parent"), "no parent is known");
    two[1].process.parent = Some(4242);
    two[1].process.gpus.push("GPU-of-another".to_owned());
    let broad = screen(&two, 100);
    let row = |pid: &str| -> Vec<&str> {
        let row = broad.lines().find(|line| line.trim_start().starts_with(pid));
        row.unwrap_or_else(|| panic!("{broad}")).split_whitespace().collect()
    };
    assert_eq!(
        (&row("pid")[..4], &row("4242")[1..4]),
        (&["pid", "parent", "GPUs", "ending"][..], &["-", "1", "exited"][..])
    );
    assert_eq!(row("4250")[1..4], ["4242", "2", "killed"]);
    two[1].tables.coverage.launches = 123_456_789_012_345;
    let narrow = screen(&two, 80);
    let head = narrow.lines().find(|line| line.contains("ending")).unwrap();
    assert!(!head.contains("parent") && head.ends_with("command"), "{narrow}");
}

/// A process had 35 % of its launches timed where the overview had 100 %: one counted only those that were timed alone.
#[test]
fn launches_in_runs_are_timed_in_the_overview_and_in_the_list_of_processes() {
    let mut two = killed();
    for (report, launches) in two.iter_mut().zip([0, 1_000]) {
        let coverage = &mut report.tables.coverage;
        (coverage.launches, coverage.timed, coverage.runs.launches) =
            (launches, launches * 35 / 100, launches * 65 / 100);
    }
    let broad = screen(&two, 120);
    let row = broad.lines().find(|line| line.trim_start().starts_with("4250")).unwrap();
    assert!(row.contains("100.0 %"), "{row}");
    let process = &json(&two)["processes"][1];
    assert_eq!([&process["timed"], &process["timed_in_runs"]], [350, 650]);
}

/// Returns the cells of the table row that ends with a name.
fn row<'s>(screen: &'s str, name: &str) -> Vec<&'s str> {
    let line = screen.lines().find(|line| line.ends_with(&format!("  {name}")));
    line.unwrap_or_else(|| panic!("{name} has no line:\n{screen}"))
        .split("  ")
        .map(str::trim)
        .filter(|cell| !cell.is_empty())
        .collect()
}

/// Formats a time as the screen does: marked if its bounds are further apart than a fifth of it.
fn ns(value: &Value) -> String {
    let ns = |value: &Value| value.as_f64().map(|ns| ns.round() as u64);
    let [lo, best, hi] = ["lo", "value", "hi"].map(|end| ns(&value[end]).or_else(|| ns(value)).unwrap());
    format!("{}{}", if 5 * (hi - lo) > best { "~" } else { "" }, duration(best))
}

#[test]
fn the_screens_numbers_are_those_of_the_json() {
    let reports = whole_epoch();
    let (screen, json) = (screen(&reports, 160), json(&reports));
    for kernel in json["kernels"].as_array().unwrap().iter().filter(|kernel| kernel["count"] != 0) {
        let name = kernel["name"].as_str().unwrap();
        let Some(name) =
            ["ncclDevKernel_AllReduce_Sum_bf16_RING_LL"].into_iter().find(|known| *known == name)
        else {
            continue;
        };
        let cells = row(&screen, name);
        let keys = ["total_ns", "avg_ns", "median_ns", "min_ns", "max_ns", "stddev_ns"];
        let mut expected: Vec<String> = keys.iter().map(|key| ns(&kernel[key])).collect();
        expected.insert(1, count(kernel["count"].as_u64().unwrap()));
        assert_eq!(cells[2..9], expected, "{kernel}");
        assert!(expected[4].starts_with('~') && !expected[5].starts_with('~'), "{expected:?}");
    }
    assert!(screen.ends_with(
        "\n\n~ marks a figure whose bounds (in --json) are further apart than a fifth of its value\n"
    ));
    let device = &json["devices"][0];
    let span = device["span_ns"].as_u64().unwrap();
    for (name, key) in
        [("compute", "compute_ns"), ("idle", "idle_ns"), ("exposed copies and memsets", "exposed_copy_ns")]
    {
        let line = screen
            .lines()
            .find(|line| line.starts_with("  ") && line[2..].contains(&format!(" {name}  ")))
            .unwrap();
        assert!(line.contains(&ns(&device[key])), "{key}: {line}");
        assert!(line.contains(&percent(device[key]["value"].as_u64().unwrap(), span)), "{key}: {line}");
    }
    for sync in json["syncs"].as_array().unwrap() {
        let cells = row(&screen, sync["api"].as_str().unwrap());
        assert_eq!(cells[2..4], [ns(&sync["host_ns"]), count(sync["count"].as_u64().unwrap())]);
    }
    let gaps = &json["gaps"];
    assert!(
        screen.contains(&format!("{} gaps, {} in total", gaps["count"], ns(&gaps["total_ns"]))),
        "{gaps}"
    );
    let memory = &json["memory"];
    assert!(
        screen.contains(&format!(
            "on the GPU: peak {}",
            bytes(memory["peak_bytes"]["value"].as_u64().unwrap())
        )),
        "{memory}"
    );
    for transfer in json["transfers"].as_array().unwrap() {
        let (kind, host) = (transfer["kind"].as_str().unwrap(), transfer["host_memory"].as_str().unwrap());
        let line = screen
            .lines()
            .find(|line| line.starts_with(&format!("  {kind}")) && line.contains(host))
            .unwrap();
        assert!(line.contains(&ns(&transfer["total_ns"])), "{transfer}: {line}");
        assert!(line.contains(&bytes(transfer["bytes"].as_u64().unwrap())), "{transfer}: {line}");
    }
}

#[test]
fn idle_time_outside_gaps_is_reported() {
    let mut reports = whole_epoch();
    assert!(!screen(&reports, 80).contains("more idle time"));
    let total = &mut reports[0].tables.gaps.total.value;
    *total -= *total / 4;
    assert!(screen(&reports, 80).contains("more idle time is not in gaps"));
}

#[test]
fn the_parts_of_the_wall_sum_to_it() {
    let reports = whole_epoch();
    let screen = screen(&reports, 100);
    let device = &reports[0].tables.devices[0];
    let wall = reports[0].process.line.wall_ns;
    assert!(
        device.began_ns.is_some_and(|began| began > 0 && began + device.identity.span < wall),
        "{device:?}"
    );
    let line = screen.lines().find(|line| line.contains("= wall")).unwrap_or_else(|| panic!("{screen}"));
    assert!(line.contains(&format!("{} ns", count(wall))), "{line}, not {wall}");
    let bar = screen.lines().find(|line| line.contains('█')).unwrap();
    assert_eq!(columns(bar), 100, "{bar}");
}

/// A program that calls exec leaves two traces with one process id. The GPU work of the second starts later.
#[test]
fn a_gap_has_the_time_base_of_its_own_trace() {
    let late = || {
        let mut app = App::new();
        app.idle(3_000_000_000);
        app.timed(LAUNCH, kernel(GEMM), 0, 100_000);
        app.sync(150_000);
        app.idle(50_000_000);
        app.timed(LAUNCH, kernel(ADD), 0, 100_000);
        app.sync(150_000);
        app
    };
    let reports =
        run_of([(epoch(), 4242, Ending::Replaced), (late(), 4242, Ending::Exited)], &Filter::default());
    let screen = section(&reports, &[Section::Gaps]);
    let mut largest = screen.lines().skip_while(|line| !line.contains("before it"));
    assert!(largest.any(|line| line.contains("50.1 ms   3.00 s")), "{screen}");
}

#[test]
fn a_process_without_work_in_a_period_does_not_shorten_it() {
    let mut short = App::new();
    short.timed(LAUNCH, kernel(GEMM), 0, 100_000);
    short.sync(150_000);
    short.idle(40_000_000);
    let filter = Filter { since: Some(2_000_000), until: Some(6_000_000), ..Filter::default() };
    let reports = run_of([(epoch(), 4242, Ending::Exited), (short, 4243, Ending::Exited)], &filter);
    assert_eq!(reports[1].tables.devices[0].identity.span, 0);
    let screen = section(&reports, &[Section::Gpu]);
    let sum = screen.lines().find(|line| line.contains("= period")).unwrap_or_else(|| panic!("{screen}"));
    assert!(sum.contains("4 000 000 ns"), "the period counts once: {screen}");
}

/// A former version said "20 never seen to end" and "copies still on the GPU at the end", although a synchronization had
/// returned after that work.
#[test]
fn work_before_a_crash_is_not_called_unfinished() {
    let mut app = App::new();
    for _ in 0..20 {
        let lost = app.work(LAUNCH, kernel(GEMM), Untimed::Timed);
        app.push(Body::Work(lost));
    }
    let lost = app.work(COPY, copy(Direction::HtoD, 0x10_0000, 0x9000, 64), Untimed::Timed);
    app.push(Body::Work(lost));
    app.sync(300_000);
    let screen = screen(&[reported(app, &texts(), 4242, Ending::Vanished, &Filter::default())], 160);
    assert!(screen.contains("without GPU time: 20 whose end event was never read"), "{screen}");
    assert!(screen.contains("1 copy, memset or graph whose end event was never read"), "{screen}");
    assert!(!screen.contains("still on the GPU") && !screen.contains("unfinished"), "{screen}");
}

/// A former version said "exposed copies 23.6 %", where the bounds were 0.0 % .. 23.6 %.
#[test]
fn a_value_that_may_be_zero_is_printed_as_an_upper_bound() {
    let mut reports = whole_epoch();
    let device = &mut reports[0].tables.devices[0];
    let span = device.identity.span;
    let quarter = span / 4;
    let exactly = |ns| Sum { value: ns, lo: ns, hi: ns };
    device.identity.busy = [exactly(quarter), exactly(0), exactly(0), Sum { lo: 0, ..exactly(quarter) }];
    device.identity.idle = Sum { value: span - 2 * quarter, lo: span - 2 * quarter, hi: span - quarter };
    let gpu = section(&reports, &[Section::Gpu]);
    assert!(gpu.contains("busy 25.0 % .. 50.0 %"), "{gpu}");
    let copies = gpu.lines().find(|line| line.contains("exposed copies")).unwrap();
    assert!(copies.contains("<= 25.0 %") && copies.contains("0.0 % .. 25.0 %"), "{gpu}");
    let compute = gpu.lines().find(|line| line.contains("compute")).unwrap();
    assert!(!compute.contains("<="), "{gpu}");
}

#[test]
fn nothing_is_clipped_on_a_narrow_screen() {
    let mut processes = killed();
    for report in &mut processes {
        (report.process.parent, report.process.outcome) = (Some(1), Some(Outcome::Vanished));
        report.tables.coverage.launches = 123_456_789;
    }
    let narrow = screen(&processes, 80);
    let head = narrow.lines().find(|line| line.contains("ending")).unwrap();
    assert!(head.contains("timed") && head.ends_with("command"), "{narrow}");
    let rows: Vec<&str> = narrow.lines().filter(|line| line.contains("123 456 789")).collect();
    assert!(rows.len() == 2 && rows.iter().all(|row| row.ends_with("<0.1 %  python train.py")), "{narrow}");
    let mut large = whole_epoch();
    for part in large[0].tables.memory.by_kind.values_mut() {
        (part.allocations, part.frees, part.peak_bytes, part.live_bytes) =
            (12_345_678_901, 12_345_678_901, u64::MAX / 5, u64::MAX / 5);
        part.peak_between = (part.peak_bytes, part.peak_bytes);
        part.allocated_bytes = u64::MAX / 3;
    }
    let memory = terminal(&large, &View { sections: vec![Section::Memory], ..View::default() }, &wide(80));
    let head = memory.lines().find(|line| line.contains("live at end")).unwrap();
    assert!(head.ends_with("  allocated") && memory.contains("  5.33 EiB\n"), "{memory}");
    let launches =
        terminal(&whole_epoch(), &View { sections: vec![Section::Launches], ..View::default() }, &wide(80));
    assert!(launches.contains("ncclDevKernel_AllRed"), "{launches}");
}

/// Of a program with one thread, whose graph takes and frees two blocks, it was said that calls of several threads overlap.
#[test]
fn the_reason_why_a_peak_is_not_exact_is_the_true_one() {
    let said = |overlap, graphs| {
        let mut reports = whole_epoch();
        for part in reports[0].tables.memory.by_kind.values_mut() {
            part.peak_between = (part.peak_bytes / 2, part.peak_bytes);
            part.doubt = Reasons { overlap, graphs };
        }
        section(&reports, &[Section::Memory]).split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let (threads, graph) =
        ("calls of several threads overlap", "a graph may hold its blocks at once or one after the other");
    assert!(said(false, true).contains(&format!(" ~ {graph}: ~")), "{}", said(false, true));
    assert!(said(true, false).contains(&format!(" ~ {threads}: ~")), "{}", said(true, false));
    assert!(said(true, true).contains(&format!(" ~ {threads}, and {graph}: ~")), "{}", said(true, true));
}

/// Total times extrapolate from timed copies; times by size do not.
#[test]
fn a_remark_says_that_times_by_size_are_of_timed_operations() {
    let remark = "times by size are of timed operations only";
    let whole = section(&whole_epoch(), &[Section::Transfers]);
    assert!(!whole.contains(remark), "{whole}");
    let mut app = epoch();
    app.untimed(COPY, copy(Direction::HtoD, 0x10_0000, 0x9000, 16 << 10), Untimed::DeepQueue, 0);
    let reports = [reported(app, &texts(), 4242, Ending::Exited, &Filter::default())];
    let some = section(&reports, &[Section::Transfers]);
    assert!(some.contains(remark), "{some}");
    assert!(!screen(&reports, 100).contains(remark), "the overview has no sizes");
}

#[test]
fn the_overview_is_one_screen() {
    let overview =
        terminal(&whole_epoch(), &View { trace_bytes: Some(59_597), ..View::default() }, &wide(80));
    insta::assert_snapshot!(overview);
}
