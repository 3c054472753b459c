//! The launch shapes of kernels, and what the driver reports about them.

use super::*;
use gpuspy_collector::report::Section;
use gpuspy_wire::record::NodeKind;

const LOAD: u16 = 20;
const MODULE: u64 = 0x77;

fn launch_of(name: u32, blocks: u32, threads: u32, shared_bytes: u32) -> What {
    let (grid, block) = ([blocks, 1, 1], [threads, 1, 1]);
    What::Kernel { name, function: 0, grid, block, shared_bytes, attributes: 0, cluster: [0; 3] }
}

fn facts(kernel: u32, threads: u32, registers: u16, blocks_per_multiprocessor: u16) -> KernelFacts {
    KernelFacts {
        kernel,
        context: 1,
        threads,
        registers,
        blocks_per_multiprocessor,
        ..KernelFacts::default()
    }
}

fn app() -> (App, Names) {
    let (mut app, mut names) = (App::new(), names());
    names.0.insert((Namespace::Api, LOAD.into()), "cuModuleLoadData".to_owned());
    names.0.insert((Namespace::Path, 2), "/usr/lib/libcudart.so.12".to_owned());
    app.push(Body::Module(Module {
        start: 0x1_0000,
        end: 0x2_0000,
        bias: 0x1_0000,
        path: 2,
        ..Module::default()
    }));
    let call = app.call(LOAD, 1_000);
    app.push(Body::Api(Api { call, result: 0, subject: MODULE, calls: 1, inside: 0, entered: 0 }));
    // With 128 registers, 16 of 64 warps fit: two blocks of 8 warps.
    let gemm = KernelFacts {
        static_shared_bytes: 16384,
        module: MODULE,
        origin: 0x1500,
        ..facts(GEMM, 256, 128, 2)
    };
    app.push(Body::KernelFacts(KernelFacts { shared_bytes: 1024, ..gemm.clone() }));
    for blocks in [66, 200, 66] {
        app.timed(LAUNCH, launch_of(GEMM, blocks, 256, 1024), 0, 50_000);
        app.idle(100_000);
    }
    app.push(Body::KernelFacts(KernelFacts { threads: 512, blocks_per_multiprocessor: 1, ..gemm }));
    app.timed(LAUNCH, launch_of(GEMM, 1, 512, 0), 0, 1_000);
    app.idle(100_000);
    // The runtime loaded this kernel. One shape is captured, another is added to a graph by hand.
    app.push(Body::KernelFacts(KernelFacts { local_bytes: 48, origin: 0x1_0400, ..facts(ADD, 64, 16, 32) }));
    app.untimed(LAUNCH, launch_of(ADD, 1 << 20, 64, 0), Untimed::Captured, flag::CAPTURED);
    app.push(Body::KernelFacts(facts(ADD, 96, 16, 21)));
    app.push(Body::Graph(Graph { graph: 1, handle: 5, kernels: 2, copies: 0, memsets: 0, others: 0 }));
    let node = GraphNode { graph: 1, kind: NodeKind::Kernel, kernel: ADD, count: 2, bytes: 0, address: 0 };
    app.push(Body::GraphNode(node));
    let graph = What::Graph { graph: 1, handle: 5, kernels: 2, copies: 0, memsets: 0 };
    app.timed(GRAPH_LAUNCH, graph, 0, 30_000);
    app.timed(LAUNCH, kernel(NCCL), 30_000, 30_000);
    (app, names)
}

fn reported(filter: &Filter) -> ProcessReport {
    let (app, names) = app();
    process(Input {
        path: String::new(),
        names: &names,
        status: Some(&status()),
        damage: Damage::default(),
        clocks: &Survey::of(app.records.iter().cloned()),
        filter,
        records: app.records.into_iter(),
    })
}

fn shape_of(report: &Value, symbol: &str) -> Value {
    let kernels = report["kernels"].as_array().unwrap();
    let kernel = kernels.iter().find(|kernel| kernel["symbol"].as_str().unwrap().contains(symbol)).unwrap();
    let keys = [
        "shapes",
        "threads",
        "dynamic_shared_bytes",
        "static_shared_bytes",
        "registers",
        "local_bytes",
        "blocks_per_multiprocessor",
        "theoretical_occupancy",
        "waves",
        "limited_by",
        "library",
        "loaded_by",
    ];
    keys.into_iter().map(|key| kernel[key].clone()).collect()
}

#[test]
fn the_most_common_shape_of_a_kernel_is_reported_with_its_occupancy() {
    let report = json(&[reported(&Filter::default())]);
    assert_valid(&report);
    let waves = value!({ "min": 66.0 / 264.0, "max": 200.0 / 264.0 });
    let torch = "/opt/torch/lib/libtorch_cuda.so";
    assert_eq!(
        shape_of(&report, "gemm"),
        value!([2, 256, 1024, 16384, 128, 0, 2, 0.25, waves, ["registers"], torch, "cuModuleLoadData"])
    );
    // 2^20 blocks, of which 132 × 32 fit at a time. A kernel that the runtime loaded is not attributed to the runtime.
    let waves = f64::from(1 << 20) / f64::from(132 * 32);
    let waves = value!({ "min": waves, "max": waves });
    assert_eq!(
        shape_of(&report, "vector_add"),
        value!([2, 64, 0, 0, 16, 48, 32, 1.0, waves, ["warps", "blocks"], null, null])
    );
    assert_eq!(
        shape_of(&report, "nccl"),
        value!([1, 128, 0, null, null, null, null, null, null, [], null, null]),
        "the driver was not queried"
    );
}

#[test]
fn equal_shapes_of_several_processes_are_merged() {
    let both = [reported(&Filter::default()), reported(&Filter::default())];
    let report = json(&both);
    assert_valid(&report);
    let of_one = json(&both[..1]);
    for symbol in ["gemm", "vector_add", "nccl"] {
        assert_eq!(shape_of(&report, symbol), shape_of(&of_one, symbol));
    }
}

#[test]
fn filters_limit_the_shapes() {
    let (app, _) = app();
    let first = app.records.iter().find_map(|record| match &record.body {
        Body::Work(work) => Some(work.call.end - BEGAN + 20_000),
        _ => None,
    });
    let report = json(&[reported(&Filter { until: first, ..Filter::default() })]);
    let gemm = shape_of(&report, "gemm");
    assert_eq!((&gemm[0], &gemm[8]), (&value!(1), &value!({ "min": 0.25, "max": 0.25 })));
}

#[test]
fn at_most_64_shapes_of_a_kernel_are_kept() {
    let mut app = App::new();
    for threads in 1..=200 {
        app.push(Body::KernelFacts(facts(GEMM, threads, 32, 8)));
        let launches = if threads == 150 { 2 } else { 1 };
        (0..launches).for_each(|_| app.untimed(LAUNCH, launch_of(GEMM, 1, threads, 0), Untimed::Off, 0));
    }
    let report = app.report(None, Damage::default());
    let shapes = &report.tables.kernels[0].shapes;
    assert_eq!((shapes.list.len(), shapes.others, report.tables.kernels[0].count), (64, 201 - 64, 201));
}

#[test]
fn all_sections_together_have_expensive_kernels_and_the_section_has_all() {
    let reports = [reported(&Filter::default())];
    let overview = terminal(&reports, &everything(), &wide(100));
    let gemm = "200 blocks launched, but 264 fit";
    let sentences: Vec<&str> = overview.lines().filter(|line| line.starts_with("Occupancy")).collect();
    assert!(sentences.len() == 1 && sentences[0].contains(gemm), "{overview}");
    assert!(!overview.contains("local memory"), "graphs' kernels have no time of their own: {overview}");
    let view = View { sections: vec![Section::Occupancy], ..View::default() };
    for width in [80, 100, 160] {
        let section = terminal(&reports, &view, &wide(width));
        assert!(section.lines().all(|line| line.chars().count() <= width), "{section}");
        let row = |name: &str| {
            let row = section.lines().find(|line| line.trim_end().ends_with(name));
            row.unwrap_or_else(|| panic!("{name}: {section}")).split_whitespace().collect::<Vec<_>>()
        };
        let gemm = if width == 80 { "sm90_gemm_bf16..8x<..>" } else { "sm90_gemm_bf16_128x<4, float>" };
        assert_eq!(row(gemm)[..4], ["128", "17.0", "KiB", "256"], "{section}");
        assert!(row("vector_add").contains(&"100") && row("vector_add").contains(&"248"), "{section}");
        assert!(
            !section.lines().any(|line| line.ends_with("ncclDevKernel_AllReduce_Sum_bf16_RING_LL")),
            "{section}"
        );
        assert!(section.contains("48 B of local memory per thread"), "{section}");
    }
    // A former version printed 100 % on the screen and 24 % in the export, and called both occupancy.
    let said = terminal(&reports, &view, &wide(160));
    assert!(said.lines().any(|line| line.contains(" theor. ") && line.contains(" est. ")), "{said}");
    assert!(said.contains("theor. is the theoretical occupancy"), "{said}");
    let kernels = json(&reports)["kernels"].clone();
    let add = kernels.as_array().unwrap().iter().find(|kernel| kernel["name"] == "vector_add").unwrap();
    assert_eq!(
        (&add["theoretical_occupancy"], &add["est_achieved_occupancy"]["max"]),
        (&value!(1.0), &value!(1.0))
    );
    let narrow = terminal(&reports, &view, &wide(80));
    assert!(narrow.contains("blocks/SM"), "the name is shortened first: {narrow}");
    let broad = terminal(&reports, &view, &wide(160));
    assert!(broad.contains("libtorch_cuda.so") && broad.contains("warps, blocks"), "{broad}");
}

#[test]
fn only_wide_screens_have_shapes_in_the_kernel_table() {
    let reports = [reported(&Filter::default())];
    let view = View { sections: vec![Section::Kernels], ..View::default() };
    for (width, has) in [(80, false), (119, false), (140, true)] {
        let kernels = terminal(&reports, &view, &wide(width));
        assert_eq!(kernels.contains("theor. occ."), has, "{width}: {kernels}");
        assert_eq!(kernels.contains("0.25..0.76"), has, "{width}: {kernels}");
    }
}

#[test]
fn without_queries_the_occupancy_section_says_so() {
    let view = View { sections: vec![Section::Occupancy], ..View::default() };
    let screen = terminal(&[training().report(None, Damage::default())], &view, &wide(80));
    assert!(screen.contains("no kernel's occupancy was queried from the driver"), "{screen}");
}
