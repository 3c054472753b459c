//! Findings about what the host does and waits for while the GPU is idle.

use super::*;
use crate::analyze::collectives::Collectives;
use crate::analyze::gaps::KEPT;
use crate::analyze::idle::Next;
use crate::analyze::idle::running::{Outside, Running};

const OUTSIDE: Bucket = Bucket::Idle(Cause::OutsideCuda);

fn wait_at(api: &str, line: u32) -> Wait {
    let line = Some(Frame { file: "train.c".to_owned(), line, ..Frame::default() });
    Wait { api: api.to_owned(), line }
}

/// A rank of a job of two.
fn rank_of_two() -> ProcessInfo {
    let job = Job { rank: Some(0), world_size: Some(2), ..Job::default() };
    ProcessInfo { job, ..ProcessInfo::default() }
}

/// In each step a free waited for the kernels, and a stream was waited for directly after it. The idle time behind both, 240 ms of it, was
/// promised to who leaves out the second wait, for certain, and the free had no finding: without either of them alone, the other one
/// waits.
#[test]
fn two_waits_in_a_row_gain_nothing_but_together() {
    let (free, sync) = (wait_at("cuMemFree", 10), wait_at("cuStreamSynchronize", 20));
    let of = |then_waited: Option<Wait>| {
        let site = Site { after_wait: Some(free.clone()), then_waited, is_long: true, ..Site::default() };
        let part = Part { count: STEPS, total: exactly(240 * MS) };
        let mut one = process(1);
        one.idle.by_cause = [(Cause::OutsideCuda, part)].into();
        one.idle.sites = [((Cause::OutsideCuda, site), part)].into();
        one.idle.waits = [free.clone(), sync.clone()].map(|wait| (wait, emptied(STEPS))).into();
        one.syncs.insert(sync.api.clone(), calls(STEPS, S));
        let counts = Counts { allocations: STEPS, frees: STEPS, ..Counts::default() };
        one.memory.holders.churn = Some(Churn { counts, spread: 1.0, share: 1.0, ..Churn::default() });
        let parts = [(OUTSIDE, 240 * MS), (Bucket::Compute, S)];
        assert!(found(vec![one.clone()], &parts, sync_per_step::find).is_none(), "it waits for nothing");
        let churn = found(vec![one], &parts, allocation_churn::find).unwrap();
        (churn.claims[&OUTSIDE], churn.finding.fix)
    };
    let (alone, fix) = of(None);
    assert!(alone == exactly(240 * MS) && !fix.contains("only without both"), "{alone:?} {fix}");
    let (gain, fix) = of(Some(sync.clone()));
    assert_eq!(gain, Sum { lo: 0, ..exactly(240 * MS) });
    assert!(
        fix.contains("cuStreamSynchronize at train.c:20")
            && fix.ends_with("only without both is this gained."),
        "{fix}"
    );
}

/// Returns what is found in a program whose thread was off the CPU, or computed, for 300 ms in its steps.
fn stall(process_info: &ProcessInfo, ran: bool, change: impl Fn(&mut Tables)) -> Claimed {
    let part = Part { count: STEPS, total: exactly(300 * MS) };
    let site = Site { is_long: true, tid: Some(7), next: Next::Input, ..Site::default() };
    let mut one = process(1);
    one.idle.by_cause = [(Cause::OutsideCuda, part)].into();
    one.idle.sites = [((Cause::OutsideCuda, site), part)].into();
    let runnable = if ran { part.total } else { Sum::default() };
    let running = Running {
        outside: part.total,
        sampled: part.total.value,
        runnable,
        ran: runnable,
        ..Running::default()
    };
    one.idle.running = [(Outside::Long, running)].into();
    change(&mut one);
    found_in(process_info, vec![one], &[(OUTSIDE, 300 * MS), (Bucket::Compute, S)], host_stall::find).unwrap()
}

/// A server with a request every 12 ms was promised 281 ms for certain, of which nothing can be gained.
#[test]
fn where_a_thread_sleeps_and_nothing_says_that_it_trains_nothing_is_certain_to_be_gained() {
    let of = |framework, kernel: &str, ran| {
        let kernels = vec![Kernel::of_launches(kernel, 9, 1_000)];
        let info = ProcessInfo { framework, ..ProcessInfo::default() };
        stall(&info, ran, |one| one.kernels.clone_from(&kernels)).claims[&OUTSIDE].lo / MS
    };
    assert_eq!(of(Framework::Cuda, "softmax", false), 0);
    assert_eq!(of(Framework::Cuda, "softmax", true), 300, "it computed");
    assert_eq!(of(Framework::PyTorch, "softmax", false), 0, "it infers");
    assert_eq!(of(Framework::PyTorch, "threshold_backward", false), 300, "it trains");
}

/// A rank that spun in MPI_Waitall for a slower one had a firm promise for what it computes meanwhile.
#[test]
fn a_rank_of_a_job_that_does_not_communicate_on_the_gpu_may_wait_for_another_one() {
    let of = |info: &ProcessInfo, communicates: bool| {
        let found = stall(info, true, |one| {
            if communicates {
                one.collectives.kinds.insert("AllReduce".to_owned(), Default::default());
            }
        });
        (found.claims[&OUTSIDE].lo / MS, found.finding.fix.contains("MPI"))
    };
    assert_eq!(of(&rank_of_two(), false), (0, true));
    assert_eq!(of(&rank_of_two(), true), (300, false), "its collectives say who waits");
    // Those of several processes are never added, so that ranks that communicate were said not to, seen together.
    let of_both = |communicates: bool| {
        let kinds = communicates.then(|| ("AllReduce".to_owned(), Default::default())).into_iter().collect();
        let collectives = Collectives { kinds, ..Collectives::default() };
        let tables = Tables { collectives, ..Tables::default() };
        let report = ProcessReport { process: rank_of_two(), tables, together: None, findings: None };
        let reports = [report.clone(), report];
        let (all, buckets, ranks) = (Tables::of_run(&reports), Buckets::default(), Ranks::default());
        let facts = Facts { reports: &reports, all: &all, buckets: &buckets, ranks: &ranks };
        let found = stall(&ProcessInfo::default(), true, |_| {});
        other_ranks::may_be_waited_for(&facts, found).finding.fix.contains("MPI")
    };
    assert_eq!((of_both(false), of_both(true)), (true, false));
    assert_eq!(of(&ProcessInfo::default(), false), (300, false), "there is no other rank");
    let job = Job { rank: Some(0), world_size: Some(1), ..Job::default() };
    assert_eq!(of(&ProcessInfo { job, ..ProcessInfo::default() }, false), (300, false));
}

/// Of a program whose loader took 6 ms in each of 100 steps, and a checkpoint 60 ms in every tenth, the advice was about the checkpoint, and
/// it said that nothing else takes the time.
#[test]
fn beside_pauses_a_slow_loader_has_its_remedy() {
    let lengths: Vec<u64> = [60 * MS; 10].into_iter().chain([6 * MS; 54]).collect();
    let of = |loader: u64| {
        let info = ProcessInfo { framework: Framework::PyTorch, ..ProcessInfo::default() };
        let found = stall(&info, true, |one| {
            one.gaps.largest = lengths.iter().map(|ns| gap(*ns)).collect();
            let all = 600 * MS + loader * MS;
            one.idle.by_cause.values_mut().for_each(|part| part.total = exactly(all));
            one.idle.sites.values_mut().for_each(|part| part.total = exactly(all));
            one.kernels = vec![Kernel::of_launches("threshold_backward", 9, 1_000)];
        });
        found.finding.fix
    };
    let both = of(540);
    assert!(both.starts_with("Look for what stops the launches now and then"), "{both}");
    assert!(
        both.contains("For the other gaps, which have 47 % of that time: Move what this thread computes"),
        "{both}"
    );
    assert!(!both.contains("is not what takes the time"), "{both}");
    let pauses = of(60);
    assert!(pauses.ends_with("is not what takes the time.") && !pauses.contains("other gaps"), "{pauses}");
}

/// A program that writes 40 ms of output in every 25th step and a checkpoint of 400 ms in every 250th was to load its input in 13 other
/// threads: no tenth of its pauses is half as long as the longest one.
#[test]
fn pauses_of_two_lengths_are_pauses() {
    let of = |long: usize, short: usize, each: usize| {
        let lengths: Vec<u64> = [vec![400 * MS; long], vec![40 * MS; short], vec![3 * MS; each]].concat();
        let all = lengths.iter().sum();
        let found = stall(&ProcessInfo::default(), true, |one| {
            one.steps.count = 1_000;
            one.gaps.largest = lengths.iter().take(KEPT).map(|ns| gap(*ns)).collect();
            let part = Part { count: lengths.len() as u64, total: exactly(all) };
            one.idle.by_cause.values_mut().for_each(|all| *all = part);
            one.idle.sites.values_mut().for_each(|all| *all = part);
        });
        found.finding.fix.starts_with("Look for what stops the launches now and then")
    };
    assert!(of(4, 0, 60), "one length");
    assert!(of(4, 36, 0) && of(3, 36, 0), "two lengths");
    assert!(!of(4, 0, 900), "most of the time is in each step");
}

/// Where a simulation writes its output between two kernels, the advice was to load input ahead.
#[test]
fn gaps_that_no_copy_to_the_gpu_ends_are_not_for_input() {
    for ran in [false, true] {
        let of = |next| {
            let found = stall(&ProcessInfo::default(), ran, |one| {
                let sites = std::mem::take(&mut one.idle.sites);
                one.idle.sites = sites
                    .into_iter()
                    .map(|((cause, site), part)| ((cause, Site { next, ..site }), part))
                    .collect();
            });
            found.finding.fix.contains("input")
        };
        assert!(!of(Next::Other), "{ran}");
    }
}

/// A program on one stream that page-locked its memory had a new finding for that: its copies take turns with the kernels.
#[test]
fn who_page_locks_memory_is_told_at_once_that_copies_can_overlap() {
    let of = |kind: TransferKind, streams: u64| {
        let copied = Copied { count: 20, timed: 20, time: exactly(20 * MS), ..Copied::default() };
        let of = copies(SizeClass::Larger, copied).into_iter();
        let mut one = process(1);
        one.devices[0].streams = streams;
        one.copy_sites =
            of.map(|(site, of)| (CopySite { kind, host_memory: HostMemory::Pageable, ..site }, of)).collect();
        let parts = [(Bucket::ExposedCopies, 20 * MS), (Bucket::Compute, S)];
        found(vec![one], &parts, pageable_copies::find).unwrap().finding.fix.contains("take turns")
    };
    assert!(of(TransferKind::HtoD, 1));
    assert!(!of(TransferKind::HtoD, 2) && !of(TransferKind::DtoH, 1));
}
