//! Steps that were found, as torch.profiler would have marked them.

use super::*;
use crate::model::steps::{Span, StepRule};

/// The annotations of steps: name, row, span, arguments.
fn steps(trace: &Value) -> Vec<(String, u64, (i64, i64), Value)> {
    let is_step =
        |event: &&&Value| event["name"].as_str().is_some_and(|name| name.starts_with("ProfilerStep#"));
    of_category(trace, "user_annotation")
        .iter()
        .filter(is_step)
        .map(|event| {
            let name = event["name"].as_str().unwrap().to_owned();
            (name, event["tid"].as_u64().unwrap(), span(event), event["args"].clone())
        })
        .collect()
}

/// The host ns at which each step of a process begins, as the model says.
fn begins((status, names, records): &Given) -> Vec<i64> {
    let source = source(&(status.clone(), names.clone(), records.clone()));
    let rule: &StepRule = &source.contents().2.steps;
    let count = Span::of(rule, records.iter().cloned(), (0, 0)).count;
    let from = |step| Span::of(rule, records.iter().cloned(), (step, step)).from.unwrap() as i64;
    (0..count).map(from).collect()
}

#[test]
fn found_steps_are_annotations_with_the_reports_numbers_and_say_that_they_were_found() {
    let given = stepping(12, |_, _| Vec::new());
    let trace = exported(std::slice::from_ref(&given));
    let first_call =
        given.2.iter().filter_map(|record| record.body.call()).map(|call| call.begin).min().unwrap();
    let expected: Vec<i64> = begins(&given).iter().map(|begin| begin - first_call as i64).collect();
    assert!(expected.len() >= 11 && expected.windows(2).all(|two| two[1] - two[0] == STEP_NS as i64));

    let shown = steps(&trace);
    assert_eq!(shown.len(), expected.len());
    for (number, (name, tid, (begin, end), args)) in shown.iter().enumerate() {
        assert_eq!((name.as_str(), *begin), (format!("ProfilerStep#{number}").as_str(), expected[number]));
        assert_eq!(args["found by gpuspy"], "the sequence of launches repeats");
        let next = expected.get(number + 1);
        assert_eq!(args["until"].is_string(), next.is_none(), "only the last has no end");
        let launches = of_category(&trace, "cuda_driver");
        let last_launch = launches.iter().map(|call| span(call).1).max().unwrap();
        assert_eq!(*end, next.map_or(last_launch, |next| next - 1));
        // Nothing else is on their row.
        let same_row = events(&trace).iter().filter(|event| event["ph"] == "X" && event["tid"] == *tid);
        assert_eq!(same_row.count(), shown.len());
    }
    let named =
        events(&trace).iter().find(|event| event["name"] == "thread_name" && event["tid"] == shown[0].1);
    assert_eq!(named.unwrap()["args"]["name"], "steps that gpuspy found");
    assert_eq!(of_category(&trace, "gpu_user_annotation").len(), 0);
    assert_eq!(trace["gpuspy"]["annotations"], shown.len());
}

#[test]
fn the_steps_of_a_selected_time_are_whole() {
    let given = stepping(12, |_, _| Vec::new());
    let began = i64::try_from(given.0.as_ref().unwrap().began).unwrap();
    let starts = begins(&given);
    // From the middle of step 3 to the middle of step 5.
    let ns = |step: usize| (starts[step] - began + STEP_NS as i64 / 2) as u64;
    let filter = Filter { since: Some(ns(3)), until: Some(ns(5)), ..Filter::default() };
    let trace: Value = serde_json::from_slice(&filtered(std::slice::from_ref(&given), &filter)).unwrap();
    let shown = steps(&trace);
    let names: Vec<&str> = shown.iter().map(|(name, ..)| name.as_str()).collect();
    assert_eq!(names, ["ProfilerStep#3", "ProfilerStep#4", "ProfilerStep#5"]);
    assert!(shown.iter().all(|(.., (begin, end), _)| end - begin == STEP_NS as i64 - 1));
}

#[test]
fn a_program_that_marks_its_steps_has_no_others() {
    use NvtxChange::{Pop, Push};
    let named = |text: &str| {
        let mut given = stepping(12, |step, begin| {
            vec![
                range(1, begin + 1_000, Push, 0, 0, 100 + step as u32),
                // In a part of a step.
                range(1, begin + 25_000, Push, 0, 0, 2),
                range(1, begin + 35_000, Pop, 0, 0, 0),
                range(1, begin + 80_000, Pop, 0, 0, 0),
            ]
        });
        given.1.0.extend((0..12).map(|step| ((Namespace::NvtxRange, 100 + step), format!("{text}{step}"))));
        exported(&[given])
    };
    let marked = named("ProfilerStep#");
    let shown = steps(&marked);
    assert_eq!(shown.len(), 12);
    assert!(shown.iter().all(|(_, tid, _, args)| *tid == 77 && args["found by gpuspy"].is_null()));
    let projected = of_category(&marked, "gpu_user_annotation");
    assert!(projected.len() == 12 && projected.iter().all(|event| event["name"] == "forward"));

    // Ranges of another name are steps, too, and those have to be said.
    let ranges = named("train ");
    let shown = steps(&ranges);
    assert_eq!(shown.len(), 12);
    assert!(
        shown
            .iter()
            .all(|(.., args)| args["found by gpuspy"] == "the range train * is opened once in each step")
    );
    let own = of_category(&ranges, "user_annotation");
    let own = own.iter().filter(|event| event["name"].as_str().unwrap().starts_with("train "));
    let own: Vec<i64> = own.map(|event| span(event).0).collect();
    assert_eq!(shown.iter().map(|(.., (begin, _), _)| *begin).collect::<Vec<_>>(), own);
}

#[test]
fn a_program_without_steps_has_none() {
    let given = annotated();
    assert_eq!(begins(&given), [0; 0]);
    assert_eq!(steps(&exported(&[given])), []);
}
