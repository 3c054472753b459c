//! Damaged traces and lost records: what is said of them.

use super::*;

#[test]
fn a_damaged_trace_without_a_readable_call_may_have_had_some() {
    let empty = || App { now: 0, correlation: 0, records: Vec::new() };
    let said = |damage| terminal(&[empty().report(None, damage)], &everything(), &wide(100));
    let cut = said(Damage { chunks_lost: 1, cut: true, ..Damage::default() });
    assert!(cut.contains("the readable part of the trace contains no CUDA call"), "{cut}");
    assert!(!cut.contains("made none"), "{cut}");
    assert!(said(Damage::default()).contains("the program made none"));
}

/// A chunk that could not be read, and "no record lost", were on one screen.
#[test]
fn of_a_trace_whose_end_cannot_be_read_it_is_not_said_that_no_record_was_lost() {
    let screen =
        |damage| terminal(&[training().report(Some(&status()), damage)], &everything(), &wide(4_000));
    let in_middle = Damage { chunks_lost: 1, ..Damage::default() };
    let known = screen(in_middle);
    assert!(known.contains("1 chunk could not be read, which had no records"), "{known}");
    assert!(known.contains("no record lost"), "{known}");
    let unknown = screen(Damage { end_unread: true, ..in_middle });
    assert!(
        unknown.contains("1 chunk could not be read, and how many records it had is not known"),
        "{unknown}"
    );
    assert!(unknown.contains("how many records were lost is not known"), "{unknown}");
    assert!(!unknown.contains("no record lost") && !unknown.contains("100 % recorded"), "{unknown}");
}

#[test]
fn causes_of_losses_are_given_in_words() {
    let mut status = status();
    let lost = LossCause::ALL.iter().copied().filter(|cause| *cause != LossCause::GpuTimePending);
    status.lost = lost.map(|cause| (cause, 31)).collect();
    let damage = Damage { chunks_lost: 1, records_lost: 181, ..Damage::default() };
    let reports = [training().report(Some(&status), damage)];
    let screen = terminal(&reports, &everything(), &wide(4_000));
    let line =
        screen.lines().find(|line| line.contains("LOST records")).unwrap_or_else(|| panic!("{screen}"));
    assert!(line.contains("31 while tracing was set up"), "{line}");
    assert!(line.contains("181 in damaged parts of the trace"), "{line}");
    assert!(line.matches(" 31 ").count() == LossCause::ALL.len() - 1, "{line}");
    for name in json(&reports)["coverage"]["dropped_by"].as_object().unwrap().keys() {
        assert!(!line.contains(&format!(" {name},")) && !line.contains('_'), "{name}: {line}");
    }
}

#[test]
fn warnings_come_first() {
    let mut status = status();
    status.driver_hooked = false;
    let damage = Damage { chunks_lost: 2, records_lost: 70, times_lost: 30, cut: true, ..Damage::default() };
    let screen = terminal(&[training().report(Some(&status), damage)], &everything(), &wide(100));
    assert!(screen.starts_with("driver not hooked"), "{screen}");
    let header = screen.find("gpuspy  python").unwrap();
    let damaged = "damaged trace: 2 chunks could not be read, at least 70 records and 30 GPU times missing.";
    assert!(screen.find(damaged).is_some_and(|at| at < header), "{screen}");
    assert!(screen.find("cut trace").is_some_and(|at| at < header));
}
