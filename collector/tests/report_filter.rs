//! Filtered reports: what matches is counted, and counted once.

use gpuspy_collector::analyze::{Damage, Input, ProcessReport, process};
use gpuspy_collector::model::filter::Filter;
use gpuspy_collector::model::survey::Survey;
use gpuspy_collector::trace::generator::{Generator, Options};
use gpuspy_collector::trace::record::*;
use gpuspy_wire::record::Untimed;
use proptest::prelude::*;
use regex::Regex;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// A program with two threads on one device, each with its own stream. Every ninth operation is untimed.
static APP: LazyLock<(Vec<Record>, Names)> = LazyLock::new(|| {
    let options = Options { threads: 2, other_calls: true, kernels: 20, ..Options::default() };
    let mut generator = Generator::new(11, options);
    let names = generator.names().into_iter().map(|(space, id, text)| ((space, id), text)).collect();
    let mut records: Vec<Record> = generator.by_ref().take(3_000).collect();
    let context = Context { context: 1, device: 0, handle: 1, destroyed: false };
    let at = records[0].at;
    for (n, record) in records.iter_mut().enumerate() {
        if let Body::Work(work) = &mut record.body
            && n % 9 == 4
        {
            (work.untimed, work.gpu) = (Untimed::DeepQueue, None);
        }
    }
    let device = Device {
        ordinal: 0,
        uuid: [0; 16],
        memory_bytes: 1 << 30,
        multiprocessors: 1,
        capability: 90,
        warps_per_multiprocessor: 64,
    };
    let known = [Body::Device(device), Body::Context(context)];
    records.splice(0..0, known.map(|body| Record { thread: 0, at, body }));
    (records, Names(names))
});

fn status() -> Status {
    let records = &APP.0;
    Status {
        pid: 4242,
        start_time: 1,
        began: records[0].at - 1_000_000,
        began_realtime: 1,
        ended: records[records.len() - 1].at,
        ending: Ending::Exited,
        driver_hooked: true,
        threads: BTreeMap::from([(0, 900), (1, 901)]),
        ..Status::default()
    }
}

/// The report of everything, which each pair of periods is compared with.
static WHOLE: LazyLock<ProcessReport> = LazyLock::new(|| report(&Filter::default()));

fn report(filter: &Filter) -> ProcessReport {
    let (records, names) = &*APP;
    let status = status();
    let clocks = Survey::of(records.iter().cloned());
    process(Input {
        path: String::new(),
        names,
        status: Some(&status),
        damage: Damage::default(),
        clocks: &clocks,
        filter,
        records: records.iter().cloned(),
    })
}

/// Returns all figures that must add up: counts, and sums of the best estimates.
fn figures(report: &ProcessReport) -> BTreeMap<String, u64> {
    let tables = &report.tables;
    let mut out = BTreeMap::new();
    let mut put = |key: String, value: u64| assert!(out.insert(key, value).is_none());
    put("launches".into(), tables.coverage.launches);
    put("timed".into(), tables.coverage.timed);
    for (reason, count) in &tables.coverage.untimed {
        put(format!("untimed {reason}"), *count);
    }
    for kernel in &tables.kernels {
        let total = kernel.durations.total().map_or(0, |total| total.value);
        put(format!("{} count", kernel.symbol), kernel.count);
        put(format!("{} timed", kernel.symbol), kernel.durations.count());
        put(format!("{} ns", kernel.symbol), total);
        put(format!("{} api", kernel.symbol), kernel.api.total);
        put(format!("{} queue", kernel.symbol), kernel.queue.total().map_or(0, |total| total.value));
    }
    for (key, transfer) in &tables.transfers {
        put(format!("{key:?} count"), transfer.count);
        put(format!("{key:?} bytes"), transfer.bytes);
        put(format!("{key:?} ns"), transfer.time.value);
        put(format!("{key:?} host"), transfer.host.total);
        for (class, part) in &transfer.sizes {
            put(format!("{key:?} {} count", class.label()), part.count);
            put(format!("{key:?} {} ns", class.label()), part.time.value);
        }
    }
    for (table, calls) in [("api", &tables.apis), ("sync", &tables.syncs)] {
        for (name, calls) in calls {
            put(format!("{table} {name}"), calls.count);
            put(format!("{table} {name} ns"), calls.total);
        }
    }
    put("allocations".into(), tables.memory.device.allocations);
    put("allocated".into(), tables.memory.device.allocated_bytes);
    put("frees".into(), tables.memory.device.frees);
    put("gaps ns".into(), tables.gaps.total.value);
    for device in &tables.devices {
        let identity = &device.identity;
        put(format!("{:?} span", device.id), identity.span);
        put(format!("{:?} idle", device.id), identity.idle.value);
        put(format!("{:?} undecided", device.id), identity.undecided.value);
        put(format!("{:?} late", device.id), device.late);
        for (class, part) in identity.busy.iter().enumerate() {
            put(format!("{:?} class {class}", device.id), part.value);
        }
    }
    // A row of zeros equals a missing row.
    out.retain(|_, value| *value > 0);
    out
}

fn sum(parts: &[BTreeMap<String, u64>]) -> BTreeMap<String, u64> {
    let mut out = BTreeMap::new();
    for (key, value) in parts.iter().flatten() {
        *out.entry(key.clone()).or_default() += value;
    }
    out
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn two_periods_make_the_whole(cut in 0.0..1.1f64) {
        let status = status();
        let cut = ((status.ended - status.began) as f64 * cut) as u64;
        let whole = &*WHOLE;
        let before = report(&Filter { until: Some(cut), ..Filter::default() });
        let after = report(&Filter { since: Some(cut), ..Filter::default() });
        prop_assert_eq!(sum(&[figures(&before), figures(&after)]), figures(whole));
        let gaps = before.tables.gaps.count + after.tables.gaps.count;
        prop_assert!(gaps == whole.tables.gaps.count || gaps == whole.tables.gaps.count + 1);
        let memory = |report: &ProcessReport| report.tables.memory.device;
        prop_assert_eq!(memory(&after).live_bytes, memory(whole).live_bytes);
        prop_assert_eq!(memory(&before).peak_bytes.max(memory(&after).peak_bytes), memory(whole).peak_bytes);
    }
}

#[test]
fn gaps_transfers_and_memory_of_two_periods_make_the_whole() {
    let report = report(&Filter::default());
    let tables = &report.tables;
    assert!(tables.gaps.count > 10 && tables.memory.device.allocations > 1 && !tables.transfers.is_empty());
    let (count, total) = (tables.gaps.count, tables.gaps.total.value);
    let bands = tables.gaps.bands.iter().fold((0, 0), |sum, part| (sum.0 + part.count, sum.1 + part.total));
    let libraries =
        tables.gaps.by_library.iter().fold((0, 0), |sum, part| (sum.0 + part.count, sum.1 + part.total));
    assert_eq!((bands, libraries), ((count, total), (count, total)));
    for transfer in tables.transfers.values() {
        let sizes = transfer.sizes.values();
        assert_eq!(sizes.clone().map(|part| part.count).sum::<u64>(), transfer.count);
        assert_eq!(sizes.clone().map(|part| part.bytes).sum::<u64>(), transfer.bytes);
        assert_eq!(sizes.clone().map(|part| part.timed_bytes).sum::<u64>(), transfer.timed_bytes);
        assert_eq!(sizes.map(|part| part.time.value).sum::<u64>(), transfer.time.value);
    }
    let line = &tables.memory.timeline;
    assert_eq!(line.peaks.iter().max(), Some(&tables.memory.device.peak_bytes));
    let peak = (tables.memory.device.peak_at / line.bucket_ns) as usize;
    assert_eq!(line.peaks[peak], tables.memory.device.peak_bytes);
}

/// Each thread has its own stream, so filters on threads and on streams split the program in the same way.
#[test]
fn threads_and_streams_split_what_they_did() {
    let by_thread = [900, 901].map(|tid| report(&Filter { threads: vec![tid], ..Filter::default() }));
    let by_stream = [7, 8].map(|stream| report(&Filter { streams: vec![stream], ..Filter::default() }));
    let whole = figures(&report(&Filter::default()));
    let is_additive = |key: &String| {
        ["gaps", "Some", "None"].iter().all(|timeline| !key.starts_with(timeline)) && key != "late"
    };
    let mut threads = sum(&by_thread.each_ref().map(figures));
    threads.retain(|key, _| is_additive(key));
    assert!(!threads.is_empty() && threads.iter().all(|(key, value)| whole.get(key) == Some(value)));
    for (thread, stream) in by_thread.iter().zip(&by_stream) {
        assert!(thread.tables.coverage.launches > 100);
        assert_eq!(thread.tables.coverage, stream.tables.coverage);
        assert_eq!(thread.tables.devices, stream.tables.devices);
        assert_eq!(
            thread.tables.memory.device.allocations > 0,
            thread.tables.apis.contains_key("cudaMalloc")
        );
        assert_eq!(stream.tables.memory.device.allocations, 0, "an allocation that names no stream");
    }
    let nobody = report(&Filter { threads: vec![1], ..Filter::default() });
    assert_eq!(figures(&nobody), BTreeMap::new());
}

#[test]
fn a_device_is_selected_by_its_ordinal() {
    let only = report(&Filter { devices: vec![0], ..Filter::default() });
    assert_eq!(figures(&only), figures(&report(&Filter::default())));
    let other = report(&Filter { devices: vec![1], ..Filter::default() });
    assert_eq!((figures(&other), other.tables.devices.len()), (BTreeMap::new(), 0));
}

#[test]
fn a_kernel_filter_reports_matching_kernels_only() {
    let whole = report(&Filter::default());
    let one = &whole.tables.kernels[3];
    let kernel = Some(Regex::new(&format!("^{}$", regex::escape(&one.symbol))).unwrap());
    let only = report(&Filter { kernel, ..Filter::default() });
    let [found] = only.tables.kernels.as_slice() else { panic!("{:?}", only.tables.kernels) };
    assert_eq!((&found.symbol, found.count), (&one.symbol, one.count));
    assert_eq!(found.durations.total(), one.durations.total());
    assert_eq!(only.tables.coverage.launches, one.count);
    let calls: Vec<u64> = only.tables.apis.values().map(|calls| calls.count).collect();
    assert_eq!((only.tables.transfers.len(), calls), (0, vec![one.count]), "its launches' calls");
    assert_eq!(only.tables.memory, Default::default());
    let identity = &only.tables.devices[0].identity;
    assert_eq!(identity.busy[1..].iter().map(|part| part.value).sum::<u64>(), 0);
    assert!(only.process.filter.starts_with("kernels that match ^"), "{}", only.process.filter);
    assert_eq!(whole.process.filter, "");
}

#[test]
fn a_devices_span_is_between_its_first_and_last_operation() {
    let whole = report(&Filter::default());
    let device = &whole.tables.devices[0];
    let began = device.began_ns.unwrap();
    assert!(began > 0 && began + device.identity.span <= whole.process.line.wall_ns + 1_000_000);
    let later = report(&Filter { since: Some(began + 5_000), ..Filter::default() });
    let later = &later.tables.devices[0];
    assert_eq!(later.began_ns, Some(began + 5_000));
    assert_eq!(later.identity.span, device.identity.span - 5_000);
}
