//! Copies: how many there are, what they overlap, and what waits for them.

use super::*;

/// Eight ranks with two small copies in each step had sixteen for each of the steps of one of them.
#[test]
fn small_copies_are_counted_for_each_step_of_their_process() {
    let of = |per_step: u64| {
        let number = per_step * STEPS;
        let copied =
            Copied { count: number, timed: number, time: exactly(number * 2_000), ..Copied::default() };
        let copy_sites = copies(SizeClass::UpTo4KiB, copied);
        let ranks = vec![Tables { copy_sites, ..process(1) }; RANKS];
        let parts = [(Bucket::ExposedCopies, number * 2_000), (Bucket::Compute, S)];
        found(ranks, &parts, small_copies::find).map(|found| found.finding.title)
    };
    assert_eq!(of(2), None);
    assert_eq!(of(8).as_deref(), Some("8 small copies for each step"));
}

/// Three copies that need no wait were said to have the idle time behind 297 of pageable memory, which are made by the same call.
#[test]
fn copies_that_need_no_wait_have_their_part_of_what_their_call_costs() {
    let of = |needless: u64| {
        let site = Site { after_wait: Some(wait_in("cudaMemcpyAsync")), ..Site::default() };
        let part = Part { count: 300, total: exactly(300 * MS) };
        let mut one = process(1);
        one.idle = IdleReport {
            by_cause: [(Cause::OutsideCuda, part)].into(),
            sites: [((Cause::OutsideCuda, site), part)].into(),
            waits: [(wait_in("cudaMemcpyAsync"), emptied(300))].into(),
            ..IdleReport::default()
        };
        for (host_memory, count) in [(HostMemory::Pinned, needless), (HostMemory::Pageable, 300 - needless)] {
            let of = copies(SizeClass::UpTo4KiB, Copied { count, ..Copied::default() }).into_iter();
            one.copy_sites.extend(of.map(|(site, of)| (CopySite { host_memory, blocks: true, ..site }, of)));
        }
        let outside = Bucket::Idle(Cause::OutsideCuda);
        let found = found(vec![one], &[(outside, 300 * MS), (Bucket::Compute, S)], synchronous_copies::find)?;
        Some((found.claims[&outside].value / MS, found.finding.evidence.text))
    };
    assert_eq!(of(3), None);
    let (gain, said) = of(30).unwrap();
    assert_eq!(gain, 30);
    assert!(said.starts_with("30.0 ms idle behind 30 copies and memsets"), "{said}");
}

/// Programs without a launch had "18 small copies for each launch".
#[test]
fn copies_of_a_program_that_launches_nothing_are_not_counted_for_each_launch() {
    let copied = Copied { count: 18, timed: 18, time: exactly(18 * 2_000), ..Copied::default() };
    let one = Tables { copy_sites: copies(SizeClass::UpTo4KiB, copied), ..Tables::default() };
    assert!(found(vec![one], &[(Bucket::ExposedCopies, 36_000)], small_copies::find).is_none());
}

fn no_overlap(processes: Vec<Tables>, exposed: u64) -> Option<Claimed> {
    found(processes, &[(Bucket::ExposedCopies, exposed), (Bucket::Compute, 60 * S)], no_overlap::find)
}

/// The exposed time of all copies was compared with the time of those that were timed.
#[test]
fn copies_in_a_sampled_run_overlap_if_most_of_their_time_is_covered() {
    let copied = Copied { count: 6_000, timed: 600, time: exactly(3 * S), ..Copied::default() };
    let sampled = Tables { copy_sites: copies(SizeClass::Larger, copied), ..process(1) };
    assert!(no_overlap(vec![sampled.clone()], 3 * S).is_none(), "27 of 30 s are covered");
    assert!(text(no_overlap(vec![sampled], 30 * S)).starts_with("100.0 % of the 30.0 s"));
}

/// The exposed time of one GPU was compared with the copies of all.
#[test]
fn copies_of_several_gpus_do_not_overlap_if_those_of_one_do_not() {
    let copied = Copied { count: 1_000, timed: 1_000, time: exactly(10 * S), ..Copied::default() };
    let copy_sites = copies(SizeClass::Larger, copied);
    let both = || Tables { copy_sites: copy_sites.clone(), ..process(2) };
    let of = |exposed| no_overlap(vec![both()], exposed).map(|found| found.claims);
    assert_eq!(of(5 * S).map(|claims| claims[&Bucket::ExposedCopies].value), Some(5 * S));
    assert_eq!(of(2 * S), None);
    let one = Tables { copy_sites: copy_sites.clone(), ..process(1) };
    assert!(no_overlap(vec![one; 2], 10 * S).is_some(), "two processes");
}

/// Copies that had taken 11.8 ms at most were said to save 15.1 ms.
#[test]
fn copies_that_overlap_save_no_more_than_they_took() {
    let of = |timed, transfers: Transfers| {
        let time = Sum { value: 8 * S, lo: 7 * S, hi: 11 * S };
        let copied = Copied { count: 1_000, timed, time, ..Copied::default() };
        let one = Tables { copy_sites: copies(SizeClass::Larger, copied), transfers, ..process(1) };
        let exposed = Sum { value: 8 * S, lo: 5 * S, hi: 15 * S };
        let parts = [(Bucket::ExposedCopies, exposed), (Bucket::Compute, exactly(60 * S))];
        let found = found_between(&ProcessInfo::default(), vec![one], &parts, no_overlap::find);
        found.unwrap().claims[&Bucket::ExposedCopies].hi
    };
    assert_eq!(of(1_000, Transfers::default()), 11 * S);
    let transfer = Transfer { count: 1_000, timed: 999, ..Transfer::default() };
    let transfers = [((TransferKind::HtoD, HostMemory::Pinned), transfer)].into();
    assert_eq!(of(999, transfers), 15 * S, "of which nothing more is known");
}

/// Of copies of 105 ms, of which some were not timed, 120 ms were promised: what was exposed had part of the time of those, too.
#[test]
fn copies_without_a_gpu_time_are_promised_once() {
    let of = |exposed| {
        let copied = Copied { count: 40, timed: 32, time: exactly(32 * S), ..Copied::default() };
        let one = Tables { copy_sites: copies(SizeClass::Larger, copied), ..process(1) };
        let parts =
            [(Bucket::ExposedCopies, exposed), (Bucket::Compute, 60 * S), (Bucket::Undecided, 20 * S)];
        let claims = found(vec![one], &parts, no_overlap::find).unwrap().claims;
        [Bucket::ExposedCopies, Bucket::Undecided].map(|bucket| claims[&bucket].value)
    };
    assert_eq!(of(32 * S), [32 * S, 8 * S]);
    assert_eq!(of(38 * S), [38 * S, 2 * S]);
    assert_eq!(of(42 * S), [42 * S, 0]);
}

/// The idle time behind a copy to pageable memory, 60 ms of it, was in no promise.
#[test]
fn what_is_owed_to_waits_in_copies_of_pageable_memory_is_theirs() {
    let claim = |kind: TransferKind| {
        let copied = Copied { count: 20, timed: 20, time: exactly(20 * MS), ..Copied::default() };
        let of = copies(SizeClass::Larger, copied).into_iter();
        let mut one = process(1);
        one.copy_sites =
            of.map(|(site, of)| (CopySite { kind, host_memory: HostMemory::Pageable, ..site }, of)).collect();
        let after_wait = Some(wait_in("cudaMemcpyAsync"));
        let part = Part { count: STEPS, total: exactly(60 * MS) };
        one.idle.by_cause = [(Cause::OutsideCuda, part)].into();
        one.idle.sites = [((Cause::OutsideCuda, Site { after_wait, ..Site::default() }), part)].into();
        let parts = [(Bucket::Idle(Cause::OutsideCuda), 60 * MS), (Bucket::ExposedCopies, 20 * MS)];
        let claims = found(vec![one], &parts, pageable_copies::find).unwrap().claims;
        claims[&Bucket::Idle(Cause::OutsideCuda)]
    };
    assert_eq!(claim(TransferKind::HtoD), exactly(60 * MS));
    assert_eq!(
        claim(TransferKind::DtoH),
        Sum { lo: 0, ..exactly(60 * MS) },
        "the host may need what it reads"
    );
}

/// A program that copies its input once was told to page-lock it, which takes as long, and to copy the next batch meanwhile.
#[test]
fn a_copy_to_the_gpu_and_one_back_are_no_habit() {
    let of = |count: u64, host_memory: HostMemory, find: Find| {
        let copied = Copied { count, timed: count, time: exactly(count * MS), ..Copied::default() };
        let mut copy_sites = copies(SizeClass::Larger, copied);
        copy_sites =
            copy_sites.into_iter().map(|(site, of)| (CopySite { host_memory, ..site }, of)).collect();
        let one = Tables { copy_sites, ..process(1) };
        let parts = [(Bucket::ExposedCopies, count * MS), (Bucket::Compute, count * MS)];
        found(vec![one], &parts, find).is_some()
    };
    assert_eq!([2, 3].map(|count| of(count, HostMemory::Pinned, no_overlap::find)), [false, true]);
    assert_eq!([9, 10].map(|count| of(count, HostMemory::Pageable, pageable_copies::find)), [false, true]);
}
