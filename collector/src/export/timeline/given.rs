//! Processes for tests of formats.

use super::sink::Sink;
use super::{Export, Source, Summary, lay_out};
use crate::model::filter::Filter;
use crate::model::survey::Survey;
use crate::model::{Model, When, simulation};
use crate::trace::generator::{Generator, Options};
use crate::trace::record::{
    Alloc, Api, Body, Call, Context, Device, Ending, GpuTime, Names, NvtxRange, Record, Status, Synchronize,
    What, Work,
};
use gpuspy_wire::record::{Fact, Memory, Namespace, NvtxChange, SyncScope, flag};
use std::collections::BTreeMap;

pub const LAUNCH: u16 = 1;
pub const WAIT: u16 = 2;

/// A process: its status, its names and its records.
pub type Given = (Option<Status>, Names, Vec<Record>);

/// Writes what `filter` selects of a run's processes.
pub fn written<S: Sink>(processes: &[Given], filter: &Filter, sink: S) -> (S::Out, Summary) {
    let mut sources: Vec<Source> = processes.iter().map(source).collect();
    lay_out(&mut sources.iter_mut().collect::<Vec<_>>(), filter);
    let mut export = Export::begin(sink, &sources).unwrap();
    for (index, (_, _, records)) in processes.iter().enumerate() {
        export.process(index, &sources[index], records.iter().cloned()).unwrap();
    }
    export.finish().unwrap()
}

/// A process after the first pass over its trace.
pub fn source((status, names, records): &Given) -> Source {
    Source::of(names.clone(), status.clone(), |observe| records.iter().for_each(observe))
}

pub fn status(pid: u32) -> Status {
    Status {
        pid,
        began: 1_000,
        began_realtime: 5_000_000,
        ending: Ending::Exited,
        driver_hooked: true,
        threads: BTreeMap::from([(1, pid), (2, pid + 1)]),
        ..Status::default()
    }
}

pub fn names() -> Names {
    let text = |space, id, text: &str| ((space, id), text.to_owned());
    Names(BTreeMap::from([
        text(Namespace::Kernel, 1, "_Z6vecaddPKfS0_Pfi"),
        text(Namespace::Api, LAUNCH.into(), "cuLaunchKernel_ptsz"),
        text(Namespace::Api, WAIT.into(), "cudaStreamSynchronize"),
        text(Namespace::Fact, Fact::Executable as u32, "/usr/bin/a \"quoted\" name"),
    ]))
}

/// The kernel of a launch.
pub fn kernel() -> What {
    What::Kernel {
        name: 1,
        function: 0,
        grid: [264, 1, 1],
        block: [33, 1, 1],
        shared_bytes: 48,
        attributes: 0,
        cluster: [0; 3],
    }
}

/// A launch on stream 9 whose events are `duration` ns apart, the first one `start` ns after its call's start.
pub fn launch(begin: u64, start: i64, duration: u64) -> Work {
    let mut work = simulation::work(begin + 4_000, 4_000, 1_000);
    (work.call.api, work.call.context, work.stream, work.what) = (LAUNCH, 1, 9, kernel());
    work.gpu = Some(GpuTime {
        time_base: 2,
        start: begin as i64 + start,
        duration,
        seen: begin + start as u64 + duration + 50_000,
        ..GpuTime::default()
    });
    work
}

pub fn record(thread: u32, body: Body) -> Record {
    let at = body.call().map_or(0, |call| call.end);
    Record { thread, at, body }
}

pub fn context(context: u32, device: u32) -> Record {
    record(1, Body::Context(Context { context, device, handle: 9, destroyed: false }))
}

pub fn generated(seed: u64, threads: u32, records: usize) -> Given {
    let mut generator = Generator::new(seed, Options { threads, other_calls: true, ..Options::default() });
    let named = generator.names().into_iter().map(|(space, id, text)| ((space, id), text));
    (Some(status(4242)), Names(named.collect()), generator.by_ref().take(records).collect())
}

pub fn failed(begin: u64, end: u64) -> Record {
    let call = Call { api: LAUNCH, begin, end, flags: flag::FAILED, ..Call::default() };
    record(1, Body::Api(Api { call, result: 719, subject: 0, calls: 1, inside: 0, entered: 0 }))
}

/// A range in domain 0 or 1 with the text of this number.
pub fn range(thread: u32, at: u64, change: NvtxChange, id: u64, domain: u32, text: u32) -> Record {
    let range = NvtxRange { change, id, domain, text, category: 0, color: 0, payload: false };
    Record { thread, at, body: Body::NvtxRange(range) }
}

/// Names with texts of ranges: 1 is "step", 2 "forward".
pub fn with_ranges() -> Names {
    let mut names = names();
    for (space, id, text) in [
        (Namespace::NvtxRange, 1, "step"),
        (Namespace::NvtxRange, 2, "forward"),
        (Namespace::Domain, 1, "loader"),
    ] {
        names.0.insert((space, id), text.to_owned());
    }
    names
}

/// The ranges of a thread around two launches, and one that was started around everything.
pub fn annotated() -> Given {
    use NvtxChange::{End, Mark, Pop, Push, Start};
    let records = vec![
        context(1, 0),
        range(2, 5_000, Start, 9, 0, 2),
        range(1, 8_000, Push, 0, 0, 1),
        range(1, 9_000, Push, 0, 1, 2),
        record(1, Body::Work(launch(10_000, 5_000, 9_000))),
        range(1, 20_000, Pop, 0, 0, 0),
        record(1, Body::Work(launch(30_000, 5_000, 9_000))),
        range(1, 40_000, Pop, 0, 1, 0),
        range(1, 41_000, Pop, 0, 0, 0),
        range(1, 42_000, Mark, 0, 0, 2),
        range(1, 50_000, End, 9, 0, 0),
        range(1, 60_000, Push, 0, 0, 1),
        range(1, 61_000, Push, 0, 0, 2),
        range(1, 70_000, Mark, 0, 1, 1),
    ];
    (Some(status(77)), with_ranges(), records)
}

/// The host ns from a step to the next in [`stepping`].
pub const STEP_NS: u64 = 100_000;

/// A loop: three kernels and a wait in each step. `around` adds what is in a step besides, by its number and its start.
pub fn stepping(steps: u64, mut around: impl FnMut(u64, u64) -> Vec<Record>) -> Given {
    let mut records = vec![context(1, 0)];
    for step in 0..steps {
        let begin = 1_000_000 + step * STEP_NS;
        records.extend(around(step, begin));
        for kernel in 0..3 {
            let mut launched = launch(begin + 10_000 + u64::from(kernel) * 10_000, 5_000, 4_000);
            if let What::Kernel { name, .. } = &mut launched.what {
                *name = kernel + 1;
            }
            records.push(record(1, Body::Work(launched)));
        }
        let (begin, end) = (begin + 50_000, begin + 60_000);
        let call = Call { api: WAIT, begin, end, context: 1, ..Call::default() };
        let scope = SyncScope::Stream;
        records.push(record(1, Body::Synchronize(Synchronize { call, scope, stream: 9, event: 0 })));
    }
    records.sort_by_key(|record| record.at);
    let mut names = with_ranges();
    names.0.insert((Namespace::Kernel, 2), "_Z4geluPf".to_owned());
    names.0.insert((Namespace::Kernel, 3), "_Z4lossPf".to_owned());
    (Some(status(77)), names, records)
}

/// The ranges of `emit_nvtx` around two launches of the main thread and one of autograd's; the texts are numbered from 10.
pub fn operators() -> Given {
    use NvtxChange::{Pop, Push};
    const TEXTS: [&str; 6] = [
        "aten::linear, op_id = 41, sizes = [[8, 32], [32, 32], []]",
        "aten::addmm, seq = 7, op_id = 42, sizes = [[32], [8, 32], [32, 32]], input_op_ids = [(40,0)]",
        "inside, op_id = 43",
        "autograd::engine::evaluate_function: AddmmBackward0, seq = 7, op_id = 44",
        "ProfilerStep#3, op_id = 40",
        "aten::mm, seq = x",
    ];
    let push = |thread, at, text: u32| range(thread, at, Push, 0, 0, 10 + text);
    let pop = |thread, at| range(thread, at, Pop, 0, 0, 0);
    let records = vec![
        context(1, 0),
        push(1, 5_000, 4),
        push(1, 8_000, 0),
        record(1, Body::Work(launch(10_000, 5_000, 4_000))),
        push(1, 15_000, 1),
        push(1, 16_000, 2),
        record(1, Body::Work(launch(20_000, 5_000, 4_000))),
        pop(1, 25_000),
        pop(1, 26_000),
        pop(1, 28_000),
        push(2, 29_000, 3),
        record(2, Body::Work(launch(30_000, 5_000, 4_000))),
        pop(2, 36_000),
        push(1, 37_000, 5),
        record(1, Body::Work(launch(40_000, 5_000, 4_000))),
        pop(1, 45_000),
        pop(1, 50_000),
    ];
    let mut names = names();
    for (text, id) in TEXTS.iter().zip(10..) {
        names.0.insert((Namespace::NvtxRange, id), (*text).to_owned());
    }
    (Some(status(77)), names, records)
}

/// Where the model places the operations: (stream, start, end).
pub fn placed((_, names, records): &Given) -> Vec<(u64, i64, i64)> {
    let clocks = Survey::of(records.iter().cloned());
    let mut model = Model::new(names, &clocks);
    let timed = |record: &Record| {
        let operation = model.observe(record).operation?;
        match operation.when {
            When::Timed(o) => Some((operation.stream, o.start, o.end)),
            _ => None,
        }
    };
    records.iter().filter_map(timed).collect()
}

/// Allocations of each kind of memory, and the end of the context that has them.
pub fn memory_taken() -> Given {
    let alloc = |memory, address, bytes, begin| {
        let call = Call { api: LAUNCH, begin, end: begin + 500, context: 1, ..Call::default() };
        record(1, Body::Alloc(Alloc { call, memory, address, bytes, stream: 0, pool: 0 }))
    };
    let mut gone = context(1, 0);
    if let Body::Context(context) = &mut gone.body {
        context.destroyed = true;
    }
    gone.at = 50_000;
    let records = vec![
        context(1, 0),
        alloc(Memory::Device, 1 << 30, 4_096, 10_000),
        alloc(Memory::Pinned, 1 << 20, 512, 20_000),
        alloc(Memory::Managed, 2 << 30, 1_000, 30_000),
        gone,
    ];
    (Some(status(5)), names(), records)
}

/// Two processes whose numbers are as large or as small as they can be.
pub fn absurd() -> [Given; 2] {
    let most = u64::MAX;
    let device = Device {
        ordinal: u32::MAX,
        uuid: [0xff; 16],
        memory_bytes: most,
        multiprocessors: 1,
        capability: u32::MAX,
        warps_per_multiprocessor: u32::MAX,
    };
    let work = |begin, end, gpu: GpuTime, what| {
        let mut launched = launch(0, 0, 0);
        (launched.call.begin, launched.call.end, launched.call.context) = (begin, end, u32::MAX);
        (launched.submitted, launched.lead, launched.tail, launched.stream) = (end, most, most, most);
        (launched.gpu, launched.what) = (Some(gpu), what);
        record(u32::MAX, Body::Work(launched))
    };
    let late = GpuTime { start: i64::MAX, duration: most, seen: most, ..GpuTime::default() };
    let early = GpuTime { start: i64::MIN, duration: most, start_error: u32::MAX, ..GpuTime::default() };
    let wide = What::Kernel {
        name: u32::MAX,
        function: most,
        grid: [u32::MAX; 3],
        block: [u32::MAX; 3],
        shared_bytes: u32::MAX,
        attributes: u32::MAX,
        cluster: [u8::MAX; 3],
    };
    let set = What::Memset { asynchronous: true, bytes: most, dst: most, value: 0, element: 1, rows: 1 };
    let call = Call { api: u16::MAX, begin: most, end: 0, context: u32::MAX, ..Call::default() };
    let memory = Memory::Device;
    let alloc = |address| Alloc { call, memory, address, bytes: most >> 1, stream: 0, pool: 0 };
    let records = vec![
        record(1, Body::Device(device)),
        context(u32::MAX, u32::MAX),
        work(0, most, late, wide),
        work(most, 0, early, set),
        work(0, 0, late, What::Graph { graph: 0, handle: 0, kernels: u32::MAX, copies: 0, memsets: 0 }),
        record(2, Body::Alloc(alloc(1))),
        record(3, Body::Alloc(alloc(most >> 1))),
    ];
    let mut odd = status(5);
    (odd.pid, odd.began, odd.began_realtime) = (u32::MAX, most, most);
    [(Some(odd), names(), records.clone()), (None, Names::default(), records)]
}
