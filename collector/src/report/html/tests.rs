use super::columns::tests::unpacked;
use super::*;
use crate::model::filter::Filter;
use crate::model::simulation::{Load, Simulation, Truth};
use crate::model::survey::Survey;
use crate::report::Operations;
use crate::trace::record::{Body, Context, Names, Record, Status};
use gpuspy_wire::record::{Fact, Namespace, Untimed};

/// A name that would end its element, start a comment, turn the rest of its line around, and go on for a megabyte.
fn hostile() -> String {
    format!("</script><!--<script>\u{202e}\u{2028}\"\\{}", "x".repeat(1 << 20))
}

/// Launches on three streams, some without a time.
fn records() -> Vec<Record> {
    let context = Body::Context(Context { context: 1, device: 3, handle: 9, destroyed: false });
    let launches = Simulation::new(7_000, 30).run(Load::Mixed, 400, 2_000..90_000);
    let of_launch = |(at, truth): (u64, Truth)| {
        let mut work = truth.work;
        work.stream = 7 + at % 3;
        (work.call.api, work.call.context, work.call.correlation) = (5, 1, 1000 + at);
        (work.gpu, work.untimed) = match at % 7 {
            3 => (None, Untimed::DeepQueue),
            _ => (Some(truth.gpu), Untimed::Timed),
        };
        Record { thread: 1 + (at % 2) as u32, at: work.call.end, body: Body::Work(work) }
    };
    let context = Record { thread: 1, at: 0, body: context };
    std::iter::once(context).chain((0..).zip(launches).map(of_launch)).collect()
}

fn names(kernel: &str) -> Names {
    let text = |space, id, text: &str| ((space, id), text.to_owned());
    Names([text(Namespace::Kernel, 1, kernel), text(Namespace::Api, 5, "cuLaunchKernel_ptsz")].into())
}

#[test]
fn the_tables_have_what_operations_prints() {
    let (names, records, filter) = (names("vecadd"), records(), Filter::default());
    let clocks = Survey::of(records.iter().cloned());
    let status =
        Status { pid: 42, driver_hooked: true, threads: [(1, 77), (2, 78)].into(), ..Status::default() };
    let mut printed = Operations::new(&names, &clocks, Some(&status), &filter);
    let lines = records.iter().filter_map(|record| printed.observe(record));
    let lines: Vec<Value> = lines.map(|line| serde_json::from_str(&line).unwrap()).collect();
    let mut timeline = Timeline::default();
    let source = Source { names: &names, status: Some(&status), clocks: &clocks, filter: &filter };
    timeline.add(source, records.iter().cloned());
    let zero = clocks.began(Some(&status)) as i64;

    let Slices::Each(rows) = &timeline.operations else { panic!("few operations are there one by one") };
    let read = unpacked(&rows::operations(rows).unwrap(), rows.len());
    let timed: Vec<&Value> = lines.iter().filter(|line| line["start_ns"].is_object()).collect();
    assert!(rows.len() > 300 && rows.len() == timed.len() && lines.len() == 400);
    let (mut ends, mut call) = (BTreeMap::new(), 0);
    let Slices::Each(calls) = &timeline.calls else { panic!() };
    for (at, line) in timed.iter().enumerate() {
        let get = |name: &str| read[name][at];
        let bound = |of: &str, which: &str| line[of][which].as_i64().unwrap();
        let start = ends.get(&get("stream")).unwrap_or(&0) + get("gap");
        let finish = start + get("length");
        ends.insert(get("stream"), finish);
        assert_eq!((start, finish), (bound("start_ns", "value") - zero, bound("finish_ns", "value") - zero));
        let starts = (start - get("start_lo"), start + get("start_hi"));
        let finishes = (finish - get("finish_lo"), finish + get("finish_hi"));
        assert_eq!(starts, (bound("start_ns", "lo") - zero, bound("start_ns", "hi") - zero));
        assert_eq!(finishes, (bound("finish_ns", "lo") - zero, bound("finish_ns", "hi") - zero));
        assert_eq!(get("took") + finish - start, bound("duration_ns", "value"));
        assert_eq!(get("took_lo") + (finishes.0 - starts.1).max(0), bound("duration_ns", "lo"));
        assert_eq!(get("took_hi") + finishes.1 - starts.0, bound("duration_ns", "hi"));
        call += get("call");
        let row = calls[call as usize];
        assert_eq!(row.begin, line["call_start_ns"].as_i64().unwrap() - zero);
    }
    let untimed = calls.iter().filter(|call| call.untimed != 0).count();
    assert_eq!((calls.len(), untimed), (400, 400 - rows.len()));
}

/// Each window had lanes of its own, a sliver in each.
#[test]
fn windows_of_a_process_share_its_lanes() {
    let (mut names, records, filter) = (names("vecadd"), records(), Filter::default());
    names.0.insert((Namespace::Fact, Fact::Window as u32), "3".to_owned());
    let clocks = Survey::of(records.iter().cloned());
    let first = Status { pid: 42, began_realtime: 5, ..Status::default() };
    let second = Status { began_realtime: 9, session_realtime: Some(5), ..first.clone() };
    let other = Status { session_realtime: Some(7), ..second.clone() };
    let mut timeline = Timeline::default();
    let mut add = |status| {
        let source = Source { names: &names, status: Some(status), clocks: &clocks, filter: &filter };
        timeline.add(source, records.iter().cloned());
        (timeline.processes.len(), [timeline.streams.len(), timeline.threads.len()])
    };
    let (one, lanes) = add(&first);
    assert_eq!(one, 1);
    assert_eq!(add(&second), (1, lanes));
    assert_eq!(add(&other), (2, lanes.map(|count| 2 * count)), "another process has had its id");
}

#[test]
fn no_name_can_end_its_element() {
    let (names, records, filter) = (names(&hostile()), records(), Filter::default());
    let clocks = Survey::of(records.iter().cloned());
    let mut timeline = Timeline::default();
    timeline
        .add(Source { names: &names, status: None, clocks: &clocks, filter: &filter }, records.into_iter());
    let json = json!({ "kernels": [{ "name": hostile() }] });
    let said = |text: &str| vec![text.to_owned()];
    let sentences = Sentences {
        warnings: said(&hostile()),
        about: said("gpuspy"),
        coverage: said("Coverage"),
        ..Sentences::default()
    };
    let commands = Commands { report: hostile(), of_part: hostile() };
    let mut page = Vec::new();
    write(&mut page, Page { json: json.clone(), sentences, timeline, commands }).unwrap();
    let page = String::from_utf8(page).unwrap();
    assert!(page.as_bytes().starts_with(START));
    let data = |id: &str| {
        let start = page.find(&format!("id=\"{id}\">")).unwrap_or_else(|| panic!("{id}"));
        let rest = &page[start..];
        &rest[rest.find('>').unwrap() + 1..rest.find('<').unwrap()]
    };
    assert_eq!(serde_json::from_str::<Value>(data("data-report")).unwrap(), json);
    let about: Value = serde_json::from_str(data("data-about")).unwrap();
    assert_eq!(about["commands"]["report"], hostile());
    let manifest: Value = serde_json::from_str(data("data-timeline")).unwrap();
    let kernel = &manifest["names"]["operations"][0];
    let length = |key: &str| kernel[key].as_str().unwrap().chars().count();
    assert!(
        length("short") <= 64 && length("name") <= 400,
        "a name is there once, and shortened for the rows"
    );
    assert!(!page.contains('\u{202e}') && !page.contains('\u{2028}'));
    let ends = |text: &str| page.matches(text).count();
    assert_eq!(ends("<script"), ends("</script>"));
    assert_eq!(
        ends("<script type="),
        3 + 4,
        "the report, the timeline, what the terminal says, and four tables"
    );
}

#[test]
fn operations_have_no_calls_where_those_are_bins() {
    let (names, records, filter) = (names("vecadd"), records(), Filter::default());
    let clocks = Survey::of(records.iter().cloned());
    let mut timeline = Timeline::default();
    let source = Source { names: &names, status: None, clocks: &clocks, filter: &filter };
    timeline.add(source, records.iter().cloned());
    let calls = |timeline: &Timeline| -> Vec<u32> {
        let Slices::Each(rows) = &timeline.operations else { panic!("few operations are there one by one") };
        rows.iter().map(|row| row.call).collect()
    };
    assert!(calls(&timeline).iter().all(|call| *call != rows::NONE));
    let mut query = rows::CallRow { thread: 0, api: 0, line: 0, untimed: 0, calls: 1, begin: 0, end: 1 };
    while matches!(timeline.calls, Slices::Each(_)) {
        query.begin += 10;
        query.end += 10;
        timeline.calls.push(query);
    }
    let [(_, operations), ..] = tables(&mut timeline).unwrap();
    // Each number is written as the distance from the one before it.
    let written = &unpacked(&operations.packed, operations.rows)["call"];
    assert!(written[0] == -1 && written[1..].iter().all(|distance| *distance == 0));
    assert!(calls(&timeline).iter().all(|call| *call == rows::NONE));
}

#[test]
fn too_many_slices_become_bins() {
    let row =
        |at: i64| rows::CallRow { thread: 0, api: 0, line: 0, untimed: 0, calls: 1, begin: at, end: at + 1 };
    let mut slices = Slices::Each(Vec::new());
    for at in 0..rows::MOST_SLICES as i64 {
        assert_eq!(slices.push(row(10 * at)), at as u32);
    }
    assert!(matches!(slices, Slices::Each(_)));
    assert_eq!(slices.push(row(0)), rows::NONE);
    assert!(matches!(slices, Slices::Bins(_)) && slices.len() == rows::MOST_SLICES as u64 + 1);
}
