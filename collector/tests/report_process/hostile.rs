//! Hostile traces: whatever a trace says, there is a report.

use super::*;
use proptest::prelude::*;

/// Numbers that a broken or hostile trace may contain.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), Just(1), Just(u64::MAX), Just(1 << 63), 0..100_000u64, any::<u64>()]
}

fn body() -> impl Strategy<Value = Body> {
    let numbers = proptest::array::uniform12(number());
    (0..11u8, numbers, any::<u16>(), 0..12usize).prop_map(|(kind, n, flags, untimed)| {
        let call = Call {
            correlation: n[0] % 4,
            api: n[1] as u16 % 10,
            via: None,
            flags,
            begin: n[2],
            end: n[3],
            caller: n[4],
            context: n[5] as u32 % 3,
            stack: 0,
        };
        let gpu = GpuTime {
            time_base: n[6] as u32 % 3,
            start: n[7] as i64,
            duration: n[8],
            start_error: n[9] as u32,
            duration_error: n[10] as u32,
            seen: n[11],
            flags: n[9] as u16,
            tail: n[4] % 3,
        };
        let work = |what| Work {
            call,
            submitted: n[9],
            entered: 0,
            lead: n[10],
            tail: n[11],
            untimed: Untimed::ALL[untimed % Untimed::ALL.len()],
            stream: n[6] % 3,
            gpu: (untimed < 6).then_some(gpu),
            what,
        };
        let memory = Memory::ALL[untimed % Memory::ALL.len()];
        match kind {
            0 | 1 => Body::Work(work(kernel(n[4] as u32 % 5))),
            2 => Body::Work(work(copy(Direction::Default, n[6], n[7], n[8]))),
            3 => Body::Alloc(Alloc { call, memory, address: n[6], bytes: n[7], stream: 0, pool: 0 }),
            4 => Body::Free(Free { call, memory, address: n[6], stream: 0, bytes: n[7] }),
            5 => Body::Api(Api { call, result: 1, subject: 0, calls: 1, inside: 0, entered: 0 }),
            6 => Body::Synchronize(Synchronize { call, scope: SyncScope::Context, stream: 0, event: 0 }),
            7 => Body::Loss { cause: LossCause::RingFull, count: n[6] },
            8 => Body::Window(Window {
                change: WindowChange::ALL[untimed % 2],
                agent_ns: n[6],
                poller_ns: n[7],
                launches: n[8],
            }),
            9 => Body::NvtxRange(NvtxRange {
                change: NvtxChange::ALL[untimed % NvtxChange::ALL.len()],
                id: n[0] % 3,
                domain: n[5] as u32 % 2,
                text: n[6] as u32 % 4,
                category: 0,
                color: 0,
                payload: flags & 1 != 0,
            }),
            _ => Body::Context(Context {
                context: call.context,
                device: n[6] as u32 % 2,
                handle: 0,
                destroyed: flags & 1 != 0,
            }),
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn whatever_a_trace_says_there_is_a_report(
        bodies in proptest::collection::vec((body(), number()), 0..60),
        (since, until) in (proptest::option::of(number()), proptest::option::of(number())),
    ) {
        let records = bodies.into_iter().map(|(body, at)| Record { thread: at as u32 % 3, at, body });
        let mut status = status();
        (status.began, status.ended, status.agent_ns) = (until.unwrap_or(u64::MAX), 0, u64::MAX);
        status.lost = BTreeMap::from([(LossCause::NoSlot, u64::MAX), (LossCause::Corrupt, 1)]);
        let app = App { now: 0, correlation: 0, records: records.collect() };
        let filter = Filter { since, until, ..Filter::default() };
        let reports = [app.report_of(&filter, Some(&status), Damage { records_lost: u64::MAX, ..Damage::default() })];
        let report = json(&reports);
        assert_valid(&report);
        for device in report["devices"].as_array().unwrap() {
            let parts = ["compute_ns", "exposed_comm_ns", "exposed_copy_ns", "graph_ns", "idle_ns", "undecided_ns", "unobserved_ns"];
            let sum: u64 = parts.iter().map(|part| device[part]["value"].as_u64().unwrap()).sum();
            prop_assert_eq!(Some(sum), device["span_ns"].as_u64());
        }
        let screen = terminal(&reports, &everything(), &wide(100));
        prop_assert!(screen.lines().all(|line| line.chars().count() <= 100), "{}", screen);
    }
}
