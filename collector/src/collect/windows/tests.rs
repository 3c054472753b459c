//! Two traces and the edge between them.

use super::*;
use crate::collect::Target;
use crate::model::period::CaptureRanges;
use crate::model::simulation::work;
use crate::trace::TraceReader;
use crate::trace::record::{Call, NvtxRange, Synchronize};
use gpuspy_wire::record::{NvtxChange, SyncScope};

const BEGAN: u64 = 1_000_000;
const EDGE: u64 = 5_000_000;

/// A collection in hours, of which a test says when one ends.
struct Collection {
    folder: tempfile::TempDir,
    division: Division,
    traces: Mutex<Traces>,
}

impl Collection {
    fn new() -> Collection {
        let folder = tempfile::tempdir().unwrap();
        let target = Target::Directory(folder.path().to_owned());
        let division =
            Division { length: Duration::from_secs(3600), complete: crossbeam_channel::unbounded().0 };
        Collection { folder, division, traces: Mutex::new(Traces::new(target)) }
    }

    fn begin(&self) -> Recording<'_> {
        let status = Status { pid: 7, began: BEGAN, ..Status::default() };
        Recording::create(&self.traces, "program", &status, Some(&self.division)).unwrap()
    }

    /// The traces in the order of the windows.
    fn paths(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.folder.path()).unwrap().map(|entry| entry.unwrap().path());
        let mut paths: Vec<PathBuf> = entries.collect();
        // Traces of one hour: those after the first have a number at their ends.
        paths.sort_by_key(|path| (path.as_os_str().len(), path.clone()));
        paths
    }

    /// Opens each trace, in the order of the windows.
    fn readers(&self) -> Vec<TraceReader> {
        self.paths().iter().map(|path| TraceReader::open(path).unwrap()).collect()
    }

    /// Opens all of them as one.
    fn whole(&self) -> TraceReader {
        let paths = self.paths();
        let mut whole = TraceReader::open(&paths[0]).unwrap();
        paths[1..].iter().for_each(|path| whole.continue_with(path).unwrap());
        whole
    }

    /// Returns the works of each trace, in the order of the windows.
    fn works(&self) -> Vec<Vec<Record>> {
        self.readers().into_iter().map(works).collect()
    }
}

fn works(mut reader: TraceReader) -> Vec<Record> {
    reader.records().filter(|record| matches!(record.body, Body::Work(_))).collect()
}

fn turn(recording: &mut Recording<'_>, edge: u64) {
    recording.turn(edge, &Status { pid: 7, ended: edge, ..Status::default() }).unwrap();
}

/// A launch whose call began and returned then.
fn launch(correlation: u64, begin: u64, end: u64) -> Record {
    let mut work = work(end, end - begin, 0);
    work.call = Call { correlation, begin, end, context: 1, ..Call::default() };
    Record { thread: 1, at: end, body: Body::Work(work) }
}

fn seen_at(seen: u64) -> GpuTime {
    GpuTime { time_base: 1, start: 100, duration: 50, seen, ..GpuTime::default() }
}

fn finish(recording: Recording<'_>) {
    assert_eq!(recording.finish(&Status { pid: 7, ended: 9_000_000, ..Status::default() }), None);
}

/// Returns `(correlation, at, begin, has a time)` of each.
fn told(works: &[Record]) -> Vec<(u64, u64, u64, bool)> {
    let one = |record: &Record| {
        let Body::Work(work) = &record.body else { unreachable!("only works were kept") };
        (work.call.correlation, record.at, work.call.begin, work.gpu.is_some())
    };
    works.iter().map(one).collect()
}

/// Near the end of a window it was remembered with its own begin, taken for one of the window before, and written again.
#[test]
fn a_launch_that_is_the_first_call_keeps_its_time() {
    let collection = Collection::new();
    let mut recording = collection.begin();
    recording.push(launch(3, BEGAN - 500, BEGAN + 500)).unwrap();
    recording.gpu_time(3, seen_at(BEGAN + 900)).unwrap();
    finish(recording);
    assert_eq!(told(&collection.works()[0]), [(3, BEGAN + 500, BEGAN, true)]);
}

#[test]
fn what_runs_over_the_edge_is_in_both_traces_and_what_comes_late_in_its_own() {
    let collection = Collection::new();
    let mut recording = collection.begin();
    recording.push(launch(1, EDGE - 900, EDGE - 800)).unwrap();
    recording.push(launch(2, EDGE - 700, EDGE - 600)).unwrap();
    recording.gpu_time(1, seen_at(EDGE - 100)).unwrap();
    recording.turn(EDGE, &Status { pid: 7, ended: EDGE, ..Status::default() }).unwrap();
    recording.gpu_time(2, seen_at(EDGE + 400)).unwrap();
    // Its time comes before it does, and it began before the edge.
    recording.gpu_time(4, seen_at(EDGE + 500)).unwrap();
    recording.push(launch(4, EDGE - 100, EDGE + 100)).unwrap();
    recording.push(launch(5, EDGE, EDGE + 200)).unwrap();
    recording.gpu_time(5, seen_at(EDGE + 600)).unwrap();
    finish(recording);
    let [earlier, later] = &collection.works()[..] else { panic!("two traces") };
    assert_eq!(
        told(earlier),
        [
            (1, EDGE - 800, EDGE - 900, true),
            (2, EDGE - 600, EDGE - 700, true),
            (4, EDGE + 100, EDGE - 100, true)
        ]
    );
    assert_eq!(
        told(later),
        [(2, EDGE - 1, EDGE - 700, true), (4, EDGE - 1, EDGE - 100, true), (5, EDGE + 200, EDGE, true)]
    );
}

/// The GPU was said to be idle after the edge while an operation ran that was launched more than 10 s before.
#[test]
fn an_operation_that_was_written_before_the_edge_is_in_both_traces() {
    let collection = Collection::new();
    let mut recording = collection.begin();
    recording.push(launch(1, EDGE - 900, EDGE - 800)).unwrap();
    recording.flush().unwrap();
    turn(&mut recording, EDGE);
    recording.gpu_time(1, seen_at(EDGE + 400)).unwrap();
    finish(recording);
    let works = collection.works();
    assert_eq!(told(&works[0]), [(1, EDGE - 800, EDGE - 900, true)]);
    assert_eq!(told(&works[1]), [(1, EDGE - 1, EDGE - 900, true)]);
}

/// It was forgotten at the second edge, and the window between the two had no work for the GPU.
#[test]
fn an_operation_that_lasts_for_windows_is_in_each() {
    let collection = Collection::new();
    let mut recording = collection.begin();
    recording.push(launch(1, EDGE - 900, EDGE - 800)).unwrap();
    (1..=3).for_each(|window| turn(&mut recording, window * EDGE));
    recording.flush().unwrap();
    recording.gpu_time(1, seen_at(3 * EDGE + 400)).unwrap();
    finish(recording);
    let works_of: Vec<_> = collection.works().iter().map(|works| told(works)).collect();
    let begin = EDGE - 900;
    let of_window = |window: u64, has_time| vec![(1, window * EDGE - 1, begin, has_time)];
    let first = vec![(1, EDGE - 800, begin, false)];
    assert_eq!(works_of, [first, of_window(1, false), of_window(2, true), of_window(3, true)]);
}

/// Its time is in the trace of the next window, of which nothing from before the edge counts.
#[test]
fn an_operation_whose_time_comes_after_its_trace_has_it_where_windows_are_read_as_one() {
    let collection = Collection::new();
    let mut recording = collection.begin();
    recording.push(launch(1, EDGE - 900, EDGE - 800)).unwrap();
    turn(&mut recording, EDGE);
    recording.flush().unwrap();
    let windows = recording.windows.as_mut().unwrap();
    windows.finish_before(&mut recording.writer, &mut recording.lacking).unwrap();
    recording.gpu_time(1, seen_at(EDGE + 400)).unwrap();
    finish(recording);
    let works_of = collection.works();
    assert_eq!(told(&works_of[0]), [(1, EDGE - 800, EDGE - 900, false)]);
    assert_eq!(told(&works_of[1]), [(1, EDGE - 1, EDGE - 900, true)]);
    assert_eq!(told(&works(collection.whole())), [(1, EDGE - 800, EDGE - 900, true)]);
}

/// A time that is lost does not come in any window.
#[test]
fn an_operation_that_the_program_has_waited_for_is_in_no_later_trace() {
    let collection = Collection::new();
    let mut recording = collection.begin();
    recording.push(launch(1, EDGE - 900, EDGE - 800)).unwrap();
    let call = Call { begin: EDGE - 700, end: EDGE - 600, context: 1, ..Call::default() };
    let wait = Synchronize { call, scope: SyncScope::Context, stream: 0, event: 0 };
    recording.push(Record { thread: 1, at: EDGE - 600, body: Body::Synchronize(wait) }).unwrap();
    recording.push(launch(2, EDGE - 500, EDGE - 400)).unwrap();
    turn(&mut recording, EDGE);
    finish(recording);
    assert_eq!(told(&collection.works()[1]), [(2, EDGE - 1, EDGE - 500, false)]);
}

/// It was in the trace before with its own begin, before that window, and counted nowhere.
#[test]
fn a_call_that_is_longer_than_a_window_counts_from_its_edge_on() {
    let collection = Collection::new();
    let mut recording = collection.begin();
    (1..=2).for_each(|window| turn(&mut recording, window * EDGE));
    recording.push(launch(1, EDGE - 100, 2 * EDGE + 100)).unwrap();
    finish(recording);
    let works = collection.works();
    assert_eq!(told(&works[0]), []);
    assert_eq!(told(&works[1]), [(1, 2 * EDGE + 100, EDGE, false)]);
    assert_eq!(told(&works[2]), [(1, 2 * EDGE - 1, EDGE - 100, false)]);
}

/// Returns what a trace captures.
fn captured(mut reader: TraceReader) -> Vec<(i64, i64)> {
    let mut captures = CaptureRanges::default();
    reader.records().for_each(|record| captures.observe(&record));
    let period = captures.period(reader.names(), reader.status(), (0, 9_000_000));
    period.stretches().to_vec()
}

/// Begins a collection with capture ranges of the user's.
fn begin_with_ranges(collection: &Collection) -> Recording<'_> {
    let mut recording = collection.begin();
    recording.name(CAPTURE_RANGE.0, CAPTURE_RANGE.1, "profiler-api").unwrap();
    recording
}

fn change(recording: &mut Recording<'_>, at: u64, begins: bool) {
    recording.push(edge(at, begins)).unwrap();
}

/// All windows up to the first range were captured.
#[test]
fn windows_before_the_first_capture_range_capture_nothing() {
    let collection = Collection::new();
    let mut recording = begin_with_ranges(&collection);
    turn(&mut recording, EDGE);
    change(&mut recording, EDGE + 100, true);
    change(&mut recording, EDGE + 200, false);
    finish(recording);
    let range = [(EDGE as i64 + 100, EDGE as i64 + 200)];
    let of_windows: Vec<_> = collection.readers().into_iter().map(captured).collect();
    assert_eq!(of_windows, [&[][..], &range]);
    assert_eq!(captured(collection.whole()), range);
}

/// The end was placed before the start of the window, which captured everything until its own end.
#[test]
fn a_capture_range_that_ends_just_before_the_edge_has_ended_in_the_next_window() {
    let (began, edge) = (BEGAN as i64, EDGE as i64);
    for (changes, of_next) in [
        (&[(EDGE - 50, false)][..], &[][..]),
        (&[(EDGE - 50, false), (EDGE - 20, true)], &[(edge, 9_000_000)]),
    ] {
        let collection = Collection::new();
        let mut recording = begin_with_ranges(&collection);
        change(&mut recording, BEGAN + 100, true);
        turn(&mut recording, EDGE);
        changes.iter().for_each(|(at, begins)| change(&mut recording, *at, *begins));
        finish(recording);
        let again = (edge - 20, edge);
        let of_first = [&[(began + 100, edge - 50)][..], if of_next.is_empty() { &[] } else { &[again] }];
        let of_windows: Vec<_> = collection.readers().into_iter().map(captured).collect();
        assert_eq!(of_windows, [&of_first.concat()[..], of_next]);
        let whole = [of_first[0], if of_next.is_empty() { &[] } else { &[(edge - 20, 9_000_000)] }];
        assert_eq!(captured(collection.whole()), whole.concat());
    }
}

/// The folder is away, as a full disk is: nothing can be created, and what is open can be written.
#[test]
fn the_trace_goes_on_where_the_next_one_cannot_be_created() {
    let collection = Collection::new();
    let mut recording = collection.begin();
    let (folder, away) = (collection.folder.path().to_owned(), tempfile::tempdir().unwrap());
    let elsewhere = away.path().join("traces");
    std::fs::rename(&folder, &elsewhere).unwrap();
    recording.push(launch(1, EDGE - 900, EDGE - 800)).unwrap();
    recording.turn(EDGE, &Status { pid: 7, ended: EDGE, ..Status::default() }).unwrap();
    let why = recording.undivided().unwrap();
    assert!(why.starts_with("cannot write ") && why.contains("o such file"), "{why}");
    recording.push(launch(2, EDGE + 100, EDGE + 200)).unwrap();
    recording.gpu_time(2, seen_at(EDGE + 400)).unwrap();
    finish(recording);
    std::fs::rename(&elsewhere, &folder).unwrap();
    let works = collection.works();
    assert_eq!(works.len(), 1);
    let expected = [(1, EDGE - 800, EDGE - 900, false), (2, EDGE + 200, EDGE + 100, true)];
    assert_eq!(told(&works[0]), expected);
}

/// The window went on until the time came again at which it should have ended.
#[test]
fn a_window_is_over_when_the_clock_has_been_set_back() {
    let collection = Collection::new();
    let mut recording = collection.begin();
    // It began while the clock was two hours ahead. The test may run into the next hour.
    recording.windows.as_mut().unwrap().window.number += 2;
    assert!(recording.is_over());
    recording.push(launch(1, EDGE - 900, EDGE - 800)).unwrap();
    recording.turn(EDGE, &Status { pid: 7, ended: EDGE, ..Status::default() }).unwrap();
    recording.push(launch(2, EDGE + 100, EDGE + 200)).unwrap();
    finish(recording);
    let works = collection.works();
    assert_eq!(works.len(), 2, "the hour has a trace already, which is not replaced");
    assert_eq!(told(&works[0]), [(1, EDGE - 800, EDGE - 900, false)]);
    let of_next = [(1, EDGE - 1, EDGE - 900, false), (2, EDGE + 200, EDGE + 100, false)];
    assert_eq!(told(&works[1]), of_next);
}

/// What a process wrote before a window, as the list of the code that it generates, was not believed to be its own.
#[test]
fn a_window_says_when_its_session_began() {
    let collection = Collection::new();
    let mut recording = collection.begin();
    let status = |ended| Status { pid: 7, began_realtime: 77, ended, ..Status::default() };
    recording.turn(EDGE, &status(EDGE)).unwrap();
    recording.turn(2 * EDGE, &status(2 * EDGE)).unwrap();
    assert_eq!(recording.finish(&status(3 * EDGE)), None);
    let began: Vec<Option<u64>> =
        collection.readers().iter().map(|reader| reader.status().unwrap().session_realtime).collect();
    assert_eq!(began, [None, Some(77), Some(77)]);
}

/// On a busy machine a second passed until the collector had the first records: the trace was called after the next window, and its
/// tables in Parquet after the one in which the records begin.
#[test]
fn the_first_trace_is_called_after_the_window_in_which_its_records_begin() {
    let collection = Collection::new();
    let an_hour_ago = (since_1970() - collection.division.length).as_nanos() as u64;
    let status = Status { pid: 7, began: BEGAN, began_realtime: an_hour_ago, ..Status::default() };
    let recording =
        Recording::create(&collection.traces, "program", &status, Some(&collection.division)).unwrap();
    assert!(!recording.is_over(), "it goes on until the present window ends");
    assert_eq!(recording.finish(&status), None);
    let began = Window::at(an_hour_ago, collection.division.length).began();
    let name = format!("program-7-{}.gspy", crate::units::utc(began));
    assert_eq!(collection.paths()[0].file_name().unwrap(), name.as_str());
}

/// What the worker's thread ended was drained before what the main thread had started: each such range was open in all later windows.
#[test]
fn a_range_that_ended_before_the_edge_is_open_in_no_later_window() {
    let collection = Collection::new();
    let mut recording = collection.begin();
    let range = |thread, at, change, id| {
        let range = NvtxRange { change, id, domain: 0, text: 1, category: 0, color: 0, payload: false };
        Record { thread, at, body: Body::NvtxRange(range) }
    };
    recording.push(range(2, EDGE - 800, NvtxChange::End, 1)).unwrap();
    recording.push(range(1, EDGE - 900, NvtxChange::Start, 1)).unwrap();
    // Its end is drained before the edge, and its start after it.
    recording.push(range(2, EDGE - 600, NvtxChange::End, 2)).unwrap();
    turn(&mut recording, EDGE);
    recording.push(range(1, EDGE - 700, NvtxChange::Start, 2)).unwrap();
    // It is open at the edge.
    recording.push(range(2, EDGE + 100, NvtxChange::End, 3)).unwrap();
    recording.push(range(1, EDGE - 500, NvtxChange::Start, 3)).unwrap();
    finish(recording);
    let ranges = |mut reader: TraceReader| -> Vec<(NvtxChange, u64)> {
        let of = |record: Record| match record.body {
            Body::NvtxRange(range) => Some((range.change, range.id)),
            _ => None,
        };
        reader.records().filter_map(of).collect()
    };
    use NvtxChange::{End, Start};
    let of_windows: Vec<_> = collection.readers().into_iter().map(ranges).collect();
    let first = vec![(Start, 1), (End, 1), (Start, 2), (End, 2), (Start, 3)];
    assert_eq!(of_windows, [first, vec![(Start, 3), (End, 3)]]);
}

/// A process that numbers its ranges had texts in its first traces only.
#[test]
fn a_trace_has_the_texts_of_its_own_window_and_of_open_ranges() {
    let collection = Collection::new();
    let mut recording = collection.begin();
    let range = |change, text| {
        let range = NvtxRange { change, id: 0, domain: 0, text, category: 0, color: 0, payload: false };
        Record { thread: 1, at: EDGE - 900, body: Body::NvtxRange(range) }
    };
    for (number, text) in [(1, "epoch"), (2, "step 1")] {
        recording.name(Namespace::NvtxRange, number, text).unwrap();
        recording.push(range(NvtxChange::Push, number)).unwrap();
    }
    recording.push(range(NvtxChange::Pop, 0)).unwrap();
    let open: HashSet<u32> = recording.texts().collect();
    recording.keep_texts(&open);
    recording.turn(EDGE, &Status { pid: 7, ended: EDGE, ..Status::default() }).unwrap();
    recording.name(Namespace::NvtxRange, 3, "step 2").unwrap();
    finish(recording);
    let texts = |reader: &TraceReader| -> Vec<(u32, String)> {
        let names = reader.names().0.iter().filter(|((space, _), _)| *space == Namespace::NvtxRange);
        names.map(|((_, number), text)| (*number, text.clone())).collect()
    };
    let [earlier, later] = &collection.readers()[..] else { panic!("two traces") };
    let [epoch, one, two] =
        [(1_u32, "epoch"), (2, "step 1"), (3, "step 2")].map(|(n, text)| (n, text.to_owned()));
    assert_eq!(texts(later), [epoch.clone(), two.clone()]);
    assert_eq!(texts(earlier), [epoch, one, two], "it takes late records");
}

/// Each number that a process gave to a kernel took memory until its end.
#[test]
fn the_kernels_whose_launches_are_counted_are_bounded() {
    let mut counts = HashMap::default();
    (0..MOST_KERNELS as u32 + 10).for_each(|name| add(&mut counts, name, 1));
    add(&mut counts, 7, 2);
    assert_eq!((counts.len(), counts[&7]), (MOST_KERNELS, 3));
}

#[test]
fn a_window_counts_its_own_part_of_the_status() {
    let status = |calls, collected, lost| Status {
        calls,
        collected,
        lost: [(gpuspy_wire::record::LossCause::RingFull, lost)].into(),
        ..Status::default()
    };
    let part = since(&status(30, 20, 5), &status(10, 12, 5));
    assert_eq!((part.calls, part.collected, part.lost.len()), (20, 8, 0));
    let part = since(&status(30, 20, 5), &status(40, 12, 3));
    assert_eq!((part.calls, part.lost.values().sum::<u64>()), (0, 2), "a hostile peer's counters go back");
}

/// The window before counted a loss in its status, and the next one had the record of it, which a thread writes with its next call.
#[test]
fn a_loss_that_is_told_after_the_edge_counts_in_the_window_that_has_counted_it() {
    use gpuspy_wire::record::LossCause::RingFull;
    let collection = Collection::new();
    let mut recording = collection.begin();
    let status = |ended, lost| Status { pid: 7, ended, lost: [(RingFull, lost)].into(), ..Status::default() };
    let tell = |recording: &mut Recording<'_>, at, count| {
        recording.push(Record { thread: 1, at, body: Body::Loss { cause: RingFull, count } }).unwrap();
    };
    tell(&mut recording, EDGE - 900, 3);
    recording.turn(EDGE, &status(EDGE, 10)).unwrap();
    tell(&mut recording, EDGE + 100, 5);
    // Two of them were lost before the edge, and two after it.
    tell(&mut recording, EDGE + 200, 4);
    assert_eq!(recording.finish(&status(9_000_000, 12)), None);
    let lost = |reader: &mut TraceReader| {
        let status = reader.status().unwrap().lost.clone();
        let told = reader.records().map(|record| match record.body {
            Body::Loss { count, .. } => count,
            _ => 0,
        });
        (status, told.sum::<u64>())
    };
    let lost: Vec<_> = collection.readers().iter_mut().map(lost).collect();
    assert_eq!(lost, [([(RingFull, 10)].into(), 3), ([(RingFull, 2)].into(), 2)]);
}

#[test]
fn windows_begin_at_whole_multiples_of_their_length() {
    let ten = Window::now(Duration::from_secs(600));
    let now = since_1970().as_secs();
    assert_eq!(ten.began() % 600, 0);
    assert!((ten.began()..ten.began() + 1200).contains(&now));
}
