use super::proto::{
    DebugAnnotation, InternedData, NEEDS_STATE, OWN_CLOCK, REALTIME, STATE_CLEARED, Trace, Value as Said,
};
use super::*;
use crate::export::chrome::Chrome;
use crate::export::timeline::given::*;
use crate::model::filter::Filter;
use crate::trace::record::{Api, Body, Call, Record, Synchronize};
use gpuspy_wire::record::{Fact, Namespace, NvtxChange, SyncScope};
use prost::Message as _;
use serde_json::{Value as Json, json};
use std::collections::{BTreeMap, BTreeSet};

fn bytes(processes: &[Given], filter: &Filter) -> Vec<u8> {
    written(processes, filter, Perfetto::new(Vec::new())).0
}

/// An event as a reader shows it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Shown {
    /// The program, the process or the GPU, and the row.
    place: [String; 3],
    category: String,
    name: String,
    span: (i64, i64),
    /// As JSON.
    args: String,
    /// Whether an arrow begins, and whether one ends.
    arrows: (bool, bool),
}

/// The values of counters, in order: the process, the name, the time and the value.
type Counted = Vec<(String, String, i64, i64)>;

/// What a file says.
#[derive(Debug, Default, PartialEq)]
struct Contents {
    events: Vec<Shown>,
    counters: Counted,
    /// Of each arrow, the two correlations.
    arrows: BTreeSet<(u64, u64)>,
}

/// What begins or ends on a track, or is an instant: its time, what it says, and its correlation.
type Moment = (u64, TrackEvent, Option<Shown>, u64);

/// What a sequence has said.
#[derive(Default)]
struct State {
    now: u64,
    track: u64,
    texts: [BTreeMap<u64, String>; 4],
}

impl State {
    fn learn(&mut self, new: &InternedData) {
        let lists = [
            &new.event_categories,
            &new.event_names,
            &new.debug_annotation_names,
            &new.debug_annotation_string_values,
        ];
        for (texts, list) in self.texts.iter_mut().zip(lists) {
            for text in list {
                let known = texts.insert(text.iid.unwrap(), text.str.clone().unwrap());
                assert_eq!(known, None, "what a number stands for is said once");
            }
        }
    }

    fn value(&self, annotation: &DebugAnnotation) -> Json {
        match &annotation.value {
            None => annotation.array_values.iter().map(|value| self.value(value)).collect(),
            Some(Said::Uint(number)) => json!(number),
            Some(Said::Int(number)) => json!(number),
            // The other format has six decimals.
            Some(Said::Double(number)) => json!(format!("{number:.6}").parse::<f64>().unwrap()),
            Some(Said::String(text)) => json!(text),
            Some(Said::StringIid(iid)) => json!(self.texts[3][iid]),
        }
    }
}

/// Reads a file as Perfetto's trace processor does.
fn read(bytes: &[u8]) -> Contents {
    let mut tracks: BTreeMap<u64, TrackDescriptor> = BTreeMap::new();
    let mut states: BTreeMap<u32, State> = BTreeMap::new();
    let mut events: BTreeMap<u64, Vec<Moment>> = BTreeMap::new();
    for packet in Trace::decode(bytes).unwrap().packet {
        if let Some(track) = packet.track_descriptor {
            let uuid = track.uuid.unwrap();
            assert_eq!(tracks.insert(uuid, *track), None, "a track is described once");
        }
        let id = packet.trusted_packet_sequence_id.unwrap_or(0);
        if packet.sequence_flags == Some(STATE_CLEARED) {
            let defaults = packet.trace_packet_defaults.unwrap();
            let clocks = packet.clock_snapshot.unwrap();
            assert_eq!(
                (defaults.timestamp_clock_id, clocks.primary_trace_clock),
                (Some(OWN_CLOCK), Some(REALTIME))
            );
            let now = clocks.clocks[0].timestamp.unwrap();
            let track = defaults.track_event_defaults.unwrap().track_uuid.unwrap();
            states.insert(id, State { now, track, ..State::default() });
            continue;
        }
        let Some(event) = packet.track_event else { continue };
        assert_eq!(packet.sequence_flags, Some(NEEDS_STATE));
        let state = states.get_mut(&id).unwrap();
        packet.interned_data.iter().for_each(|new| state.learn(new));
        let at = match packet.timestamp_clock_id {
            None => {
                state.now += packet.timestamp.unwrap();
                state.now
            }
            clock => {
                assert_eq!(clock, Some(REALTIME));
                packet.timestamp.unwrap()
            }
        };
        let name = event.name.as_ref().map(|name| match name {
            Name::NameIid(iid) => state.texts[1][iid].clone(),
            Name::Name(name) => name.clone(),
        });
        let mut correlation = 0;
        let shown = name.map(|name| {
            let args = event.debug_annotations.iter();
            let args: serde_json::Map<String, Json> =
                args.map(|arg| (state.texts[2][&arg.name_iid.unwrap()].clone(), state.value(arg))).collect();
            correlation = args.get("correlation").and_then(Json::as_u64).unwrap_or(0);
            Shown {
                place: place(&tracks, state.track),
                category: state.texts[0][&event.category_iids.unwrap()].clone(),
                name,
                span: (at as i64, at as i64),
                args: Json::Object(args).to_string(),
                arrows: (event.flow_ids.is_some(), event.terminating_flow_ids.is_some()),
            }
        });
        events.entry(state.track).or_default().push((at, *event, shown, correlation));
    }
    let mut contents = Contents::default();
    let (mut begun, mut ended) = (BTreeMap::new(), BTreeMap::new());
    for (track, mut list) in events {
        list.sort_by_key(|(at, ..)| *at);
        let mut open: Vec<Shown> = Vec::new();
        for (at, event, shown, correlation) in list {
            for (flow, known) in [(event.flow_ids, &mut begun), (event.terminating_flow_ids, &mut ended)] {
                assert!(flow.is_none_or(|flow| known.insert(flow, correlation).is_none()));
            }
            match (event.r#type(), shown) {
                (Type::SliceBegin, Some(shown)) => open.push(shown),
                (Type::SliceEnd, None) => {
                    let slice = open.pop().expect("an end has a beginning");
                    contents.events.push(Shown { span: (slice.span.0, at as i64), ..slice });
                }
                (Type::Instant, Some(shown)) => contents.events.push(shown),
                (Type::Counter, None) => {
                    let [program, _, name] = place(&tracks, track);
                    let value = event.counter_value.unwrap();
                    contents.counters.push((program, name, at as i64, value));
                }
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(open, [], "a beginning has an end");
    }
    assert_eq!(begun.keys().collect::<Vec<_>>(), ended.keys().collect::<Vec<_>>(), "an arrow has both ends");
    contents.arrows = begun.into_values().zip(ended.into_values()).collect();
    contents.events.sort();
    contents.counters.sort_by_key(|(program, name, at, _)| (program.clone(), name.clone(), *at));
    contents
}

/// Where a track is shown.
fn place(tracks: &BTreeMap<u64, TrackDescriptor>, uuid: u64) -> [String; 3] {
    let track = &tracks[&uuid];
    let parent = track.parent_uuid.map(|parent| &tracks[&parent]);
    let name = |track: &TrackDescriptor| track.name.clone().unwrap_or_default();
    let program = |track: &TrackDescriptor| track.process.clone().unwrap().process_name.unwrap();
    match (&track.thread, parent) {
        (Some(thread), _) => {
            let of = tracks.values().filter_map(|track| track.process.as_ref());
            let of = of.into_iter().find(|process| process.pid == thread.pid).unwrap();
            let name = thread.thread_name.clone().unwrap_or_default();
            [of.process_name.clone().unwrap(), thread.pid.unwrap().to_string(), name]
        }
        (None, Some(group)) if group.process.is_some() => {
            [program(group), group.process.as_ref().unwrap().pid.unwrap().to_string(), name(track)]
        }
        (None, Some(group)) => [program(&tracks[&group.parent_uuid.unwrap()]), name(group), name(track)],
        (None, None) => panic!("{track:?} belongs to nothing"),
    }
}

/// Reads the Chrome trace of the same.
fn read_chrome(processes: &[Given], filter: &Filter) -> Contents {
    let trace: Json = serde_json::from_slice(&written(processes, filter, Chrome::new(Vec::new())).0).unwrap();
    let base = trace["baseTimeNanoseconds"].as_i64().unwrap();
    let ns = |value: &Json| (value.as_f64().unwrap() * 1000.0).round() as i64;
    let events = trace["traceEvents"].as_array().unwrap();
    let number = |event: &Json, key: &str| event[key].as_u64().unwrap();
    let row = |event: &Json| (number(event, "pid"), number(event, "tid"));
    let (mut groups, mut rows) = (BTreeMap::new(), BTreeMap::new());
    let (mut begun, mut ended, mut at) =
        (BTreeSet::new(), BTreeSet::new(), [BTreeSet::new(), BTreeSet::new()]);
    for event in events {
        let text = |key: &str| event["args"][key].as_str().unwrap().to_owned();
        match (event["ph"].as_str().unwrap(), event["name"].as_str().unwrap()) {
            ("M", "process_name") => drop(groups.insert(number(event, "pid"), [text("name"), String::new()])),
            ("M", "process_labels") => {
                let label = text("labels");
                let pid = event["pid"].to_string();
                let group = groups.get_mut(&number(event, "pid")).unwrap();
                let (place, _rank) = label.split_once(", ").unwrap_or((&label, ""));
                group[1] = if place == "CPU" { pid } else { place.to_owned() };
            }
            ("M", "thread_name") => drop(rows.insert(row(event), text("name"))),
            ("s", _) => {
                begun.insert(number(event, "id"));
                at[0].insert((row(event), ns(&event["ts"])));
            }
            ("f", _) => {
                ended.insert(number(event, "id"));
                at[1].insert((row(event), ns(&event["ts"])));
            }
            _ => {}
        }
    }
    assert_eq!(begun, ended);
    let mut contents =
        Contents { arrows: begun.into_iter().map(|id| (id, id)).collect(), ..Contents::default() };
    for event in events {
        let begin = || base + ns(&event["ts"]);
        match event["ph"].as_str().unwrap() {
            "C" => {
                let [program, _] = &groups[&number(event, "pid")];
                let (name, bytes) =
                    (event["name"].as_str().unwrap(), event["args"]["bytes"].as_i64().unwrap());
                contents.counters.push((program.clone(), name.to_owned(), begin(), bytes));
            }
            "X" | "i" => {
                let [program, group] = groups[&number(event, "pid")].clone();
                let args = if event["args"].is_null() { json!({}) } else { event["args"].clone() };
                // An arrow is at the call, and not at the synchronization inside.
                let arrow = |ends: &BTreeSet<((u64, u64), i64)>| {
                    let is_at = ends.contains(&(row(event), ns(&event["ts"])));
                    is_at && event["cat"] != "cuda_sync" && event["cat"] != "user_annotation"
                };
                contents.events.push(Shown {
                    place: [program, group, rows.get(&row(event)).cloned().unwrap_or_default()],
                    category: event["cat"].as_str().unwrap().to_owned(),
                    name: event["name"].as_str().unwrap().to_owned(),
                    span: (begin(), begin() + event["dur"].as_f64().map_or(0, |_| ns(&event["dur"]))),
                    args: args.to_string(),
                    arrows: (arrow(&at[0]), arrow(&at[1])),
                });
            }
            _ => {}
        }
    }
    contents.events.sort();
    contents.counters.sort_by_key(|(program, name, at, _)| (program.clone(), name.clone(), *at));
    contents
}

/// Checks that both formats say the same of what a filter selects, and returns it.
fn both(processes: &[Given], filter: &Filter) -> Contents {
    let ours = read(&bytes(processes, filter));
    let theirs = read_chrome(processes, filter);
    for (ours, theirs) in ours.events.iter().zip(&theirs.events) {
        assert_eq!(ours, theirs);
    }
    assert_eq!(ours, theirs);
    ours
}

#[test]
fn a_perfetto_trace_says_what_a_chrome_trace_says() {
    let everything = Filter::default();
    let given = generated(3, 3, 20_000);
    let all = both(std::slice::from_ref(&given), &everything);
    assert!(
        all.events.len() > 20_000 && all.arrows.len() > 10_000,
        "{} {}",
        all.events.len(),
        all.arrows.len()
    );
    let taken = both(&[memory_taken()], &everything);
    let device = taken.counters.iter().filter(|(_, name, ..)| name == "device memory");
    assert_eq!(device.map(|(.., value)| *value).collect::<Vec<_>>(), [4_096, 5_096, 1_000, 0]);
    let ranges = both(&[annotated()], &everything);
    assert!(ranges.events.iter().any(|event| event.place[2] == "ranges 1"));
    assert!(ranges.events.iter().any(|event| event.place[1..] == ["GPU 0", "ranges 1 on stream 9"]));
    let steps = both(&[stepping(12, |_, _| Vec::new())], &everything);
    assert!(steps.events.iter().any(|event| event.place[2] == "steps that gpuspy found"));
    let of_pytorch = both(&[operators()], &everything);
    assert!(of_pytorch.events.iter().any(|event| event.name == "aten::addmm"));
    // The collection began at 5 000 000 ns of the real time.
    let moment = |part: usize| {
        let mut begins: Vec<i64> = all.events.iter().map(|event| event.span.0).collect();
        begins.sort_unstable();
        Some((begins[begins.len() * part / 4] - 5_000_000) as u64)
    };
    for filter in [
        Filter { streams: vec![8], ..Filter::default() },
        Filter { since: moment(1), until: moment(2), ..Filter::default() },
        Filter { threads: vec![4_243], ..Filter::default() },
    ] {
        let part = both(std::slice::from_ref(&given), &filter).events.len();
        assert!(part > 100 && part < all.events.len(), "{part} of {filter:?}");
    }
    assert_eq!(both(&[given], &Filter { devices: vec![5], ..everything }).arrows, BTreeSet::new());
}

/// Two pushed ranges of one domain around the first launch, and one around the second.
fn nested() -> Given {
    use NvtxChange::{Pop, Push};
    let records = vec![
        context(1, 0),
        range(1, 8_000, Push, 0, 0, 1),
        range(1, 9_000, Push, 0, 0, 2),
        record(1, Body::Work(launch(10_000, 5_000, 9_000))),
        range(1, 20_000, Pop, 0, 0, 0),
        record(1, Body::Work(launch(30_000, 5_000, 9_000))),
        range(1, 40_000, Pop, 0, 0, 0),
        range(1, 48_000, Push, 0, 0, 1),
        range(1, 49_000, Push, 0, 0, 2),
        record(1, Body::Work(launch(50_000, 5_000, 9_000))),
        range(1, 60_000, Pop, 0, 0, 0),
        range(1, 61_000, Pop, 0, 0, 0),
    ];
    (Some(status(77)), with_ranges(), records)
}

#[test]
fn projections_that_begin_with_one_operation_keep_their_names_and_lie_inside_each_other() {
    let given = nested();
    let ran: Vec<(i64, i64)> =
        placed(&given).iter().map(|(_, begin, end)| (begin + 4_999_000, end + 4_999_000)).collect();
    let contents = both(&[given], &Filter::default());
    let projected = contents.events.iter().filter(|event| event.category == "gpu_user_annotation");
    let mut projected: Vec<_> = projected.map(|event| (event.span, event.name.as_str())).collect();
    projected.sort_unstable();
    let expected = [
        ((ran[0].0, ran[1].1), "step"),
        ((ran[0].0 + 1, ran[0].1), "forward"),
        ((ran[2].0, ran[2].1), "step"),
        ((ran[2].0 + 1, ran[2].1), "forward"),
    ];
    assert_eq!(projected, expected);
}

#[test]
fn a_call_does_not_begin_with_the_range_around_it() {
    use NvtxChange::{Pop, Push};
    let records = vec![
        context(1, 0),
        range(1, 8_000, Push, 0, 0, 1),
        range(1, 9_000, Push, 0, 1, 2),
        range(1, 20_000, Pop, 0, 0, 0),
        record(1, Body::Work(launch(20_000, 5_000, 4_000))),
        range(1, 40_000, Pop, 0, 1, 0),
    ];
    let contents = both(&[(Some(status(77)), with_ranges(), records)], &Filter::default());
    let of = |category: &str| {
        contents.events.iter().find(|event| event.category == category).map(|event| event.span)
    };
    let (call, range) = (of("cuda_driver").unwrap(), of("user_annotation").unwrap());
    assert!(range.0 < call.0 && call.1 < range.1, "{call:?} {range:?}");
}

#[test]
fn operations_are_where_the_model_places_them() {
    let given = generated(3, 3, 20_000);
    let mut theirs: Vec<(i64, i64)> =
        placed(&given).into_iter().map(|(_, start, end)| (start, end)).collect();
    // Of the status: real time less host time.
    let real = 5_000_000 - 1_000;
    theirs.iter_mut().for_each(|span| *span = (span.0 + real, span.1 + real));
    let contents = read(&bytes(&[given], &Filter::default()));
    let of_gpu = contents.events.iter().filter(|event| event.place[1].starts_with("GPU"));
    let mut ours: Vec<(i64, i64)> = of_gpu.map(|event| event.span).collect();
    ours.sort_unstable();
    theirs.sort_unstable();
    assert!(ours.len() > 10_000);
    assert_eq!(ours, theirs);
}

#[test]
fn several_processes_keep_apart_and_files_can_be_put_together() {
    let (mut one, mut two) = (generated(5, 2, 3_000), generated(6, 1, 3_000));
    one.1.0.insert((Namespace::Fact, 0), String::new());
    (two.0.as_mut().unwrap().pid, two.0.as_mut().unwrap().began_realtime) = (77, 5_000_001);
    two.0.as_mut().unwrap().threads = BTreeMap::from([(1, 77)]);
    one.0.as_mut().unwrap().boot = Some(3);
    let everything = Filter::default();
    let (alone, other) =
        (bytes(std::slice::from_ref(&one), &everything), bytes(std::slice::from_ref(&two), &everything));
    let joined = read(&[alone.clone(), other.clone()].concat());
    assert_eq!(joined.events.len(), read(&alone).events.len() + read(&other).events.len());
    let of = |pid: &str| joined.events.iter().filter(|event| event.place[1] == pid).count();
    assert!(of("4242") > 1_000 && of("77") > 1_000);
    let together = both(&[one, two], &everything);
    assert_eq!(together.events.len(), joined.events.len());
}

#[test]
fn processes_of_two_machines_with_one_pid_keep_apart() {
    let of_host = |seed, boot, host: &str| {
        let (mut status, mut names, records) = generated(seed, 2, 3_000);
        status.as_mut().unwrap().boot = Some(boot);
        names.0.insert((Namespace::Fact, Fact::Host as u32), host.to_owned());
        (status, names, records)
    };
    let processes = [of_host(5, 3, "a"), of_host(6, 4, "b")];
    let (everything, other) = (Filter::default(), (1 << 22) + 1);
    let contents = both(&processes, &everything);
    let of = |pid: u32| contents.events.iter().filter(|event| event.place[1] == pid.to_string()).count();
    assert!(of(4242) > 1_000 && of(other) > 1_000);
    let tracks = Trace::decode(bytes(&processes, &everything).as_slice()).unwrap().packet.into_iter();
    let tracks: Vec<TrackDescriptor> =
        tracks.filter_map(|packet| packet.track_descriptor).map(|track| *track).collect();
    let labels =
        tracks.iter().filter_map(|track| track.process.as_ref()).map(|process| &process.process_labels);
    assert_eq!(labels.collect::<Vec<_>>(), [&Vec::<String>::new(), &vec!["pid 4242 on b".to_owned()]]);
    let threads: Vec<&ThreadDescriptor> = tracks.iter().filter_map(|track| track.thread.as_ref()).collect();
    let tids: BTreeSet<i64> = threads.iter().filter_map(|thread| thread.tid).collect();
    assert!(tids.len() == threads.len() && tids.contains(&4242) && tids.contains(&i64::from(other)));
    let named = |tid| {
        threads.iter().find(|thread| thread.tid == Some(tid)).and_then(|thread| thread.thread_name.as_ref())
    };
    assert!(named(other.into()).unwrap().starts_with("thread 4242 "), "its name has the tid in the system");
}

#[test]
fn a_hostile_name_is_only_a_name() {
    let long = "x".repeat(1 << 20);
    let hostile = ["</script>\u{202e}\"\\\n", "nul\0inside", "", long.as_str(), "🦀"];
    let mut names = names();
    for (id, name) in (1..).zip(hostile) {
        names.0.insert((Namespace::Thread, id), name.to_owned());
        names.0.insert((Namespace::NvtxRange, id), name.to_owned());
        names.0.insert((Namespace::Api, id as u16 as u32 + 100), format!("cu{name}"));
    }
    names.0.insert((Namespace::Kernel, 1), hostile[0].to_owned());
    let mut records = vec![context(1, 0), record(1, Body::Work(launch(10_000, 5_000, 9_000)))];
    for (id, begin) in (1..=5).zip((20_000..).step_by(1_000)) {
        let call = Call { api: 100 + id as u16, begin, end: begin + 500, ..Call::default() };
        records.push(range(id, begin - 100, NvtxChange::Push, 0, 0, id));
        records.push(record(
            id,
            Body::Api(Api { call, result: 0, subject: 0, calls: 1, inside: 0, entered: 0 }),
        ));
        records.push(range(id, begin + 600, NvtxChange::Pop, 0, 0, 0));
    }
    let contents = both(&[(Some(status(77)), names, records)], &Filter::default());
    for name in hostile {
        let is = |event: &&Shown| {
            event.name == format!("cu{name}") && event.place[2].ends_with(&format!("({name})"))
        };
        assert_eq!(contents.events.iter().filter(is).count(), 1, "{:?}", &name[..name.len().min(20)]);
    }
    assert!(contents.events.iter().any(|event| event.category == "kernel" && event.name == hostile[0]));
}

#[test]
fn a_synchronization_lies_inside_its_call_and_both_end() {
    let calls = (0..3).map(|index| {
        let begin = 10_000 + index * 10_000;
        // The last one takes no time.
        let call = Call { api: WAIT, begin, end: begin + (2 - index) * 4_000, context: 1, ..Call::default() };
        record(1, Body::Synchronize(Synchronize { call, scope: SyncScope::Stream, stream: 9, event: 0 }))
    });
    let contents = both(&[(Some(status(5)), names(), calls.collect())], &Filter::default());
    let lengths = |category: &str| -> Vec<i64> {
        let events = contents.events.iter().filter(|event| event.category == category);
        events.map(|event| event.span.1 - event.span.0).collect()
    };
    assert_eq!(
        (lengths("cuda_runtime"), lengths("cuda_sync")),
        (vec![8_000, 4_000, 0], vec![8_000, 4_000, 0])
    );
}

/// More different names than are kept once made memory grow with the length of the trace.
#[test]
fn names_beyond_those_that_are_kept_are_written_where_they_occur() {
    let mut names = names();
    let mut records = Vec::new();
    for id in 0..70_000 {
        names.0.insert((Namespace::NvtxRange, id), format!("range {id}"));
        records.push(range(1, 1_000 + u64::from(id), NvtxChange::Mark, 0, 0, id));
    }
    let contents = both(&[(Some(status(7)), names, records)], &Filter::default());
    let names: BTreeSet<&str> = contents.events.iter().map(|event| event.name.as_str()).collect();
    assert_eq!(names.len(), 70_000);
}

#[test]
fn a_thread_without_a_call_has_a_row() {
    let mut gone = context(1, 0);
    if let Body::Context(context) = &mut gone.body {
        context.destroyed = true;
    }
    (gone.thread, gone.at) = (2, 90_000);
    let (status, names, mut records) = memory_taken();
    records.retain(|record| !matches!(record.body, Body::Context(_)));
    let records: Vec<Record> = [context(1, 0)].into_iter().chain(records).chain([gone]).collect();
    let contents = both(&[(status, names, records)], &Filter::default());
    assert!(
        contents
            .events
            .iter()
            .any(|event| event.place[2].is_empty() && event.category == "cpu_instant_event")
    );
}

#[test]
fn absurd_numbers_can_be_read() {
    let contents = read(&bytes(&absurd(), &Filter::default()));
    let of = |category: &str| contents.events.iter().filter(|event| event.category == category).count();
    assert_eq!((of("kernel"), of("gpu_memset")), (4, 2));
}

#[test]
fn what_is_true_of_the_whole_file_is_an_attribute() {
    let of_rank = |rank: &str| {
        let mut given = generated(3, 1, 1_000);
        let text = format!("RANK={rank}\0WORLD_SIZE=4\0");
        given.1.0.insert((Namespace::Fact, gpuspy_wire::record::Fact::Environment as u32), text);
        given
    };
    let file = bytes(&[of_rank("3")], &Filter::default());
    assert!(file[..32].windows(MARK.len()).any(|part| part == MARK.as_bytes()), "files are recognised by it");
    let trace = Trace::decode(&*file).unwrap();
    let attributes: BTreeMap<String, AttributeValue> = trace
        .packet
        .iter()
        .filter_map(|packet| packet.trace_attributes.as_ref())
        .flat_map(|attributes| &attributes.attribute)
        .map(|one| (one.key.clone().unwrap(), one.value.clone().unwrap()))
        .collect();
    let summary = written(&[of_rank("3")], &Filter::default(), Perfetto::new(Vec::new())).1;
    for (key, value) in [
        ("gpuspy.rank", 3),
        ("gpuspy.world_size", 4),
        ("gpuspy.calls", summary.calls as i64),
        ("gpuspy.operations", summary.operations as i64),
    ] {
        assert_eq!(attributes[key], AttributeValue::Long(value), "{key}");
    }
    let labels = trace.packet.iter().filter_map(|packet| packet.track_descriptor.as_ref()?.process.as_ref());
    assert_eq!(labels.map(|process| process.process_labels.clone()).collect::<Vec<_>>(), [["rank 3"]]);
}
