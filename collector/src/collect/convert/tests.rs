//! Records as the agent writes them, and what they become in a trace.

use super::super::host_ticks::{Pair, Slope};
use super::*;
use gpuspy_wire::record::flag;
use proptest::prelude::*;

/// A clock with 2 ns per tick, on which tick 100 is at 1000 ns.
fn clock() -> Clock {
    let origin = Pair { ticks: 100, ns: 1000, uncertainty: 0 };
    Clock::new(origin, Slope { ns_per_tick: 2.0, error: 0.0 })
}

fn launch() -> wire::Launch {
    wire::Launch {
        work: wire::Work {
            head: Head {
                api: 5,
                via: Via::RuntimeDriver as u8,
                flags: flag::MORE,
                ..Head::new::<wire::Launch>()
            },
            correlation: 77,
            begin: 100,
            end: 150,
            submitted: 130,
            lead: 20,
            tail: u32::MAX,
            caller: 0xabc,
            context: 3,
            stream: 9,
            ..wire::Work::default()
        },
        kernel: 4,
        grid: [1, 2, 3],
        block: [32, 1, 1],
        ..wire::Launch::default()
    }
}

/// Such kernels once shared a row of the report, and nothing showed that their names were cut.
#[test]
fn kernels_whose_names_are_cut_at_the_same_prefix_stay_distinct() {
    let name = |namespace: Namespace, id: u32, text: &[u8], cut: u8| {
        let cells = wire::Intern::cells(text.len());
        let head = Head { kind: Kind::Intern as u8, cells: cells as u8, version: 1, ..Head::default() };
        let (namespace, length) = (namespace as u8, text.len() as u16);
        let intern = wire::Intern { head, id, length, namespace, cut };
        let mut bytes = vec![0; cells * wire::CELL_WORDS * 8];
        // SAFETY: a struct of integers without padding, read with its exact size.
        let fields = unsafe {
            std::slice::from_raw_parts((&raw const intern).cast::<u8>(), size_of::<wire::Intern>())
        };
        bytes[..fields.len()].copy_from_slice(fields);
        bytes[fields.len()..][..text.len()].copy_from_slice(text);
        let words: Vec<u64> =
            bytes.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().unwrap())).collect();
        match name(&words) {
            Some(Item::Name(_, _, text)) => text.into_owned(),
            _ => panic!("no name"),
        }
    };
    let long = vec![b'k'; wire::MAX_TEXT];
    let reported = |id, cut| name(Namespace::Kernel, id, &long, cut);
    assert_eq!(reported(7, 0), "k".repeat(16_304));
    assert_eq!(reported(7, 1), "k".repeat(16_304) + "[cut at 16304 bytes, name 7]");
    assert_ne!(reported(7, 1), reported(8, 1));
    assert_eq!(name(Namespace::Path, 8, &long, 1).len(), 16_304, "only kernels' names get a number");
}

#[test]
fn a_launch_is_converted_to_nanoseconds() {
    let Item::Record(record) = convert(launch().as_words(), 8, 0, &clock()) else { panic!("no record") };
    assert_eq!((record.thread, record.at), (8, 1104));
    let Body::Work(work) = record.body else { panic!("no work") };
    assert_eq!((work.call.begin, work.submitted, work.call.end), (1000, 1064, 1104), "in steps of 8 ns");
    assert_eq!((work.lead, work.tail), (48, u64::MAX), "rounded outward; unbounded stays unbounded");
    assert_eq!((work.call.via, work.call.flags, work.call.api), (Some(Via::RuntimeDriver), flag::MORE, 5));
    assert_eq!((work.untimed, work.stream, work.gpu), (Untimed::Timed, 9, None));
    let What::Kernel { name, grid, .. } = work.what else { panic!("no kernel") };
    assert_eq!((name, grid), (4, [1, 2, 3]));
}

#[test]
fn a_free_is_placed_at_its_start() {
    let free = wire::Free {
        head: Head::new::<wire::Free>(),
        begin: 110,
        address: 0x1000,
        memory: Memory::Pool as u8,
        ..wire::Free::default()
    };
    let Item::Record(Record { at, body: Body::Free(free), .. }) = convert(free.as_words(), 0, 0, &clock())
    else {
        panic!("no free")
    };
    assert_eq!((at, free.call.begin, free.call.end, free.memory), (1024, 1024, 1024, Memory::Pool));
}

#[test]
fn queries_in_a_row_have_their_count_and_their_own_time() {
    let head = Head { api: 3, ..Head::new::<wire::Api>() };
    let api = |more, inside| wire::Api {
        head,
        begin: 110,
        end: 150,
        result: 600,
        more,
        inside,
        ..Default::default()
    };
    let reported = |api: wire::Api| match convert(api.as_words(), 0, 0, &clock()) {
        Item::Record(Record { body: Body::Api(api), .. }) => {
            (api.calls, api.inside, api.entered, api.call.end - api.call.begin)
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(reported(api(0, 7)), (1, 0, 14, 80), "for a single one, the field says when CUDA was entered");
    assert_eq!(reported(api(4, 7)), (5, 14, 0, 80));
    assert_eq!(reported(api(u32::MAX, 7)).0, u32::MAX);
}

#[test]
fn both_event_kinds_are_distinguished() {
    let mut op = wire::EventOp { head: Head::new::<wire::EventOp>(), event: 6, ..wire::EventOp::default() };
    let body = |op: &wire::EventOp| match convert(op.as_words(), 0, 0, &clock()) {
        Item::Record(record) => record.body,
        other => panic!("{other:?}"),
    };
    assert!(matches!(body(&op), Body::EventRecord(trace::EventOp { event: 6, .. })));
    op.head.kind = Kind::EventWait as u8;
    assert!(matches!(body(&op), Body::EventWait(trace::EventOp { event: 6, .. })));
}

#[test]
fn a_record_without_a_time_gets_that_of_the_one_before() {
    let device = wire::Device { head: Head::new::<wire::Device>(), ..wire::Device::default() };
    let item = convert(device.as_words(), 1, 4328, &clock());
    assert!(matches!(item, Item::Record(Record { at: 4328, body: Body::Device(_), .. })), "{item:?}");
}

#[test]
fn texts_are_decoded_lossily() {
    let mut words = [0u64; 8];
    words[0] = u64::from_ne_bytes([Kind::Intern as u8, 1, 1, 0, 0, 0, 0, 0]);
    words[1] = 12 | 3 << 32 | (Namespace::Kernel as u64) << 48;
    words[2] = u64::from_le_bytes([b'a', 0xff, b'b', 0, 0, 0, 0, 0]);
    let expected = Item::Name(Namespace::Kernel, 12, "a\u{fffd}b".into());
    assert_eq!(convert(&words, 0, 0, &clock()), expected);
    words[1] = 3 << 32 | (Namespace::Kernel as u64) << 48;
    assert_eq!(convert(&words, 0, 0, &clock()), Item::Invalid, "id 0 names nothing");
}

#[test]
fn unknown_kinds_and_invalid_values_are_distinguished() {
    let mut words = launch().as_words().to_vec();
    words[0] = (words[0] & !0xff) | 200;
    assert_eq!(convert(&words, 0, 0, &clock()), Item::Unknown);
    let mut bad = launch();
    bad.work.untimed = 99;
    assert_eq!(convert(bad.as_words(), 0, 0, &clock()), Item::Invalid);
    assert_eq!(convert(&launch().as_words()[..8], 0, 0, &clock()), Item::Invalid, "half a launch");
    assert_eq!(convert(&[], 0, 0, &clock()), Item::Invalid);
}

proptest! {
    #[test]
    fn any_words_are_converted_without_panic(
        kind in 0u8..40,
        mut words in prop::collection::vec(any::<u64>(), 1..40),
    ) {
        words[0] = (words[0] & !0xff) | u64::from(kind);
        let item = convert(&words, 1, 0, &clock());
        prop_assert_eq!(matches!(item, Item::Unknown), Kind::from_wire(kind).is_none());
    }
}
