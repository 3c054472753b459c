use super::*;
use crate::model::gpu_interval::{Basis, GpuInterval, Length};
use crate::model::transfer::{HostMemory, TransferKind};
use crate::model::{Reason, simulation};
use crate::trace::record::{Api, Body, Call, Context, Record};
use gpuspy_wire::record::Untimed;

const INIT: u16 = 1;
const LOAD: u16 = 2;
const MALLOC: u16 = 3;
const OCCUPANCY: u16 = 4;
const LAUNCH: u16 = 5;

fn names() -> Names {
    let api = |id: u16, name: &str| ((Namespace::Api, id.into()), name.to_owned());
    let apis = [(INIT, "cuInit"), (LOAD, "cuModuleLoadData"), (MALLOC, "cuMemAlloc_v2")];
    let more = [(OCCUPANCY, "cuOccupancyMaxActiveBlocksPerMultiprocessor"), (LAUNCH, "cuLaunchKernel_ptsz")];
    let mut names: BTreeMap<_, _> = apis.into_iter().chain(more).map(|(id, name)| api(id, name)).collect();
    let environment = "RANK=1\0CUDA_MODULE_LOADING=EAGER\0".to_owned();
    names.insert((Namespace::Fact, Fact::Environment as u32), environment);
    Names(names)
}

struct Trace<'n> {
    fold: StartupFold<'n>,
}

impl<'n> Trace<'n> {
    fn new(names: &'n Names, period: Period) -> Self {
        Trace { fold: StartupFold::new(&Start { period, ..Start::of(names) }) }
    }

    fn observe(&mut self, event: &Event<'_>) {
        self.fold.observe(event, &Scope::whole(event, true));
    }

    fn call(&mut self, thread: u32, api: u16, begin: u64, end: u64) {
        let call = Call { api, begin, end, caller: 77, ..Call::default() };
        let body = Body::Api(Api { call, result: 0, subject: 0, calls: 1, inside: 0, entered: 0 });
        let counted = CountedCall { api, calls: 1, host_ns: end - begin, failed: false };
        let record = Record { thread, at: end, body };
        self.observe(&Event { call: Some(counted), ..Event::new(&record) });
    }

    fn work(&mut self, what: Action, begin: u64, end: u64, start: Option<i64>) {
        let mut work = simulation::work(end, 10, 10);
        work.call.begin = begin;
        let when = match start {
            Some(start) => When::Timed(GpuInterval {
                time_base: 1,
                earliest_start: start - 4,
                latest_start: start + 2,
                earliest_end: start + 5,
                latest_end: start + 5,
                busy_from: start,
                starved: 0,
                start,
                end: start + 5,
                length: Length::default(),
                basis: Basis::Proven,
                raw: 0,
                clock_half_width: None,
                off_by: Some(1),
            }),
            None => When::Untimed { reason: Reason::Untimed(Untimed::Off), after: None },
        };
        let operation = Operation {
            correlation: 1,
            context: 1,
            device: Some(0),
            stream: 7,
            caller: Caller::default(),
            called: begin,
            returned: end,
            what,
            when,
        };
        let call = CountedCall { api: LAUNCH, calls: 1, host_ns: end - begin, failed: false };
        let record = Record { thread: 1, at: end, body: Body::Work(work) };
        self.observe(&Event { operation: Some(operation), call: Some(call), ..Event::new(&record) });
    }

    fn launch(&mut self, name: u32, begin: u64, end: u64) {
        self.work(Action::Kernel { name, communication: false }, begin, end, Some(end as i64 + 10));
    }

    fn finish(self) -> Option<Startup> {
        self.fold.rows(library)
    }
}

fn library(caller: Caller) -> Source {
    Source { library: (caller.address == 77).then(|| "libx.so".to_owned()), line: None }
}

/// The parts that are not 0.
fn parts(division: &Division) -> Vec<(Part, u64)> {
    Part::ALL.into_iter().map(|part| (part, division.of(part))).filter(|(_, ns)| *ns > 0).collect()
}

/// The driver takes 100 ns; the program runs for 50 ns, loads for 200 ns, and launches for 30 ns.
fn begin(trace: &mut Trace<'_>) {
    trace.call(1, INIT, 1_000, 1_100);
    trace.call(1, LOAD, 1_150, 1_350);
    trace.work(Action::Kernel { name: 1, communication: false }, 1_350, 1_380, Some(1_400));
}

#[test]
fn start_up_is_from_the_first_call_to_the_first_kernel_and_its_parts_sum_to_it() {
    let names = names();
    let mut trace = Trace::new(&names, Period::default());
    begin(&mut trace);
    trace.call(1, MALLOC, 1_390, 2_000);
    let startup = trace.finish().unwrap();
    assert_eq!(startup.first_kernel, Sum { value: 400, lo: 395, hi: 403 });
    let expected =
        [(Part::Context, 100), (Part::Load, 200), (Part::Launch, 30), (Part::Memory, 10), (Part::Own, 60)];
    assert_eq!(parts(&startup.until_kernel), expected);
    assert_eq!(startup.until_kernel.whole(), 400);
    let loads = Calls { count: 1, host_ns: 200 };
    assert_eq!(startup.loads, [(library(Caller { address: 77, line: 0 }), loads)].into());
    assert_eq!((startup.processes, startup.untimed, startup.steady), (1, 0, 0));
    assert_eq!(startup.module_loading.as_deref(), Some("EAGER"));
}

#[test]
fn an_untimed_first_kernel_starts_when_its_call_returns() {
    let names = names();
    let mut trace = Trace::new(&names, Period::default());
    trace.call(1, INIT, 1_000, 1_100);
    trace.work(Action::Graph { kernels: 3 }, 1_100, 1_200, None);
    let startup = trace.finish().unwrap();
    assert_eq!((startup.first_kernel, startup.untimed), (Sum { value: 200, lo: 200, hi: 200 }, 1));
}

#[test]
fn without_a_kernel_there_is_no_start_up() {
    let names = names();
    let mut trace = Trace::new(&names, Period::default());
    trace.call(1, INIT, 1_000, 1_100);
    let (kind, host_memory) = (TransferKind::HtoD, HostMemory::Pinned);
    trace.work(Action::Transfer { kind, host_memory, bytes: 8 }, 1_100, 1_200, Some(1_300));
    trace.work(Action::Graph { kernels: 0 }, 1_200, 1_300, Some(1_300));
    assert_eq!(trace.finish(), None);
}

#[test]
fn calls_of_several_threads_count_once_for_the_first_part() {
    let names = names();
    let mut trace = Trace::new(&names, Period::default());
    trace.call(2, MALLOC, 1_050, 1_120);
    trace.call(1, INIT, 1_000, 1_100);
    trace.call(2, OCCUPANCY, 1_130, 1_200);
    trace.call(1, MALLOC, 1_110, 1_300);
    trace.launch(1, 1_300, 1_310);
    let startup = trace.finish().unwrap();
    let expected = [
        (Part::Context, 100),
        (Part::Launch, 10),
        (Part::Function, 70),
        (Part::Memory, 130),
        (Part::Own, 10),
    ];
    assert_eq!(parts(&startup.until_kernel), expected);
    assert_eq!(startup.first_kernel.value, 320);
}

#[test]
fn a_call_that_creates_a_context_counts_for_the_context() {
    let names = names();
    let mut trace = Trace::new(&names, Period::default());
    let context = Body::Context(Context { context: 1, device: 0, handle: 9, destroyed: false });
    let came = Record { thread: 1, at: 1_050, body: context };
    trace.observe(&Event::new(&came));
    trace.call(2, MALLOC, 1_000, 1_060);
    trace.call(1, MALLOC, 1_000, 1_100);
    trace.call(1, MALLOC, 1_100, 1_200);
    trace.launch(1, 1_200, 1_210);
    let parts = parts(&trace.finish().unwrap().until_kernel);
    assert_eq!(parts, [(Part::Context, 100), (Part::Launch, 10), (Part::Memory, 100), (Part::Own, 10)]);
}

#[test]
fn first_launches_are_compared_with_the_next_ones() {
    let names = names();
    let mut trace = Trace::new(&names, Period::default());
    trace.call(1, INIT, 0, 10);
    for (name, begin, ns) in [(1, 100, 5_000), (1, 6_000, 3), (1, 6_010, 9), (1, 6_020, 4), (2, 7_000, 800)] {
        trace.launch(name, begin, begin + ns);
    }
    let first = trace.finish().unwrap().first_launches;
    assert_eq!((first.all, first.excess_ns), (Calls { count: 2, host_ns: 5_800 }, 4_996));
    assert_eq!(first.compared, Calls { count: 1, host_ns: 5_000 });
}

#[test]
fn a_process_is_steady_after_the_last_of_its_first_launches() {
    let names = names();
    for launches in [STEADY - 1, STEADY] {
        let mut trace = Trace::new(&names, Period::default());
        begin(&mut trace);
        (0..50).for_each(|n| trace.launch(1, 2_000 + n * 10, 2_005 + n * 10));
        trace.call(1, LOAD, 3_000, 3_500);
        trace.launch(2, 3_500, 3_800);
        (0..launches).for_each(|n| trace.launch(1, 4_000 + n * 10, 4_005 + n * 10));
        trace.launch(3, 9_000, 9_500);
        (0..launches).for_each(|n| trace.launch(1, 10_000 + n * 10, 10_005 + n * 10));
        let startup = trace.finish().unwrap();
        assert_eq!(startup.first_launches.all.count, 3);
        assert_eq!(startup.steady, u64::from(launches == STEADY));
        let warm_up = Division { parts: [0, 500, 0, 250 + 300, 0, 0, 0, 0, 0, 2_600 - 1_050] };
        let expected = if launches == STEADY { warm_up } else { Division::default() };
        assert_eq!(startup.until_steady, expected);
    }
}

#[test]
fn two_parts_of_the_time_make_the_whole() {
    let names = names();
    let startup = |since: Option<u64>, until: Option<u64>| {
        let moment = |at: Option<u64>, none| at.map_or(none, host);
        let period = Period::between(moment(since, i64::MIN), moment(until, i64::MAX));
        let mut trace = Trace::new(&names, period);
        begin(&mut trace);
        trace.launch(2, 1_500, 1_600);
        (0..STEADY).for_each(|n| trace.launch(1, 2_000 + n * 10, 2_005 + n * 10));
        trace.finish()
    };
    let whole = startup(None, None).unwrap();
    for cut in [1_000, 1_120, 1_200, 1_390] {
        let mut sum = startup(None, Some(cut)).unwrap_or_default();
        sum.merge(&startup(Some(cut), None).unwrap());
        assert_eq!(sum.until_kernel, whole.until_kernel, "{cut}");
        assert_eq!(sum.until_steady, whole.until_steady, "{cut}");
        assert_eq!(sum.first_launches.all, whole.first_launches.all, "{cut}");
        assert_eq!(sum.first_kernel, whole.first_kernel);
    }
    assert_eq!(startup(Some(5_000), None), None);
}

#[test]
fn more_calls_than_are_kept_have_the_same_sum() {
    let names = names();
    let mut trace = Trace::new(&names, Period::default());
    trace.call(1, INIT, 0, 10);
    let calls = 3 * KEPT as u64 + 7;
    for n in 1..=calls {
        trace.call(1, [MALLOC, OCCUPANCY][n as usize % 2], n * 10, n * 10 + 4);
        assert!(trace.fold.division.calls.len() < KEPT);
    }
    let end = calls * 10 + 10;
    trace.launch(1, end, end + 5);
    let startup = trace.finish().unwrap();
    assert_eq!(startup.until_kernel.whole(), end + 15);
    let [memory, function] = [Part::Memory, Part::Function].map(|part| startup.until_kernel.of(part));
    assert_eq!(memory + function, calls * 4);
}

#[test]
fn a_call_that_lasts_longer_than_what_is_kept_counts_from_there() {
    let names = names();
    let mut trace = Trace::new(&names, Period::default());
    let calls = KEPT as u64;
    (0..calls).for_each(|n| trace.call(1, OCCUPANCY, n * 10, n * 10 + 4));
    let divided = (calls - 1) * 10 + 4;
    trace.call(2, MALLOC, 5, divided + 1_000);
    trace.launch(1, divided + 1_000, divided + 1_005);
    let startup = trace.finish().unwrap();
    assert_eq!(startup.until_kernel.whole(), divided + 1_015);
    assert_eq!(startup.until_kernel.of(Part::Memory), 1_000);
}

#[test]
fn a_row_of_launches_that_a_first_launch_ended_is_warm_up() {
    let names = names();
    let mut trace = Trace::new(&names, Period::default());
    begin(&mut trace);
    trace.launch(1, 2_000, 2_010);
    let calls = KEPT as u64;
    (0..calls).for_each(|n| trace.call(1, MALLOC, 3_000 + n * 10, 3_005 + n * 10));
    let end = 3_000 + calls * 10;
    trace.launch(2, end, end + 10);
    (0..STEADY).for_each(|n| trace.launch(1, end + 100 + n * 10, end + 105 + n * 10));
    let startup = trace.finish().unwrap();
    assert_eq!((startup.steady, startup.until_steady.whole()), (1, end + 100 - 1_400));
    assert_eq!(startup.until_steady.of(Part::Memory), calls * 5);
}
