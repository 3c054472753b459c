//! Jobs of ranks that stopped: what is said of the rank that failed, and of ranks that wait.

use super::super::{failed_rank, stuck_collective};
use super::{Facts, S};
use crate::analyze::last_work::{LastWork, Launched, Work};
use crate::analyze::ranks::stopped::{Stopped, Wait, Why};
use crate::analyze::ranks::{Rank, Ranks};
use crate::analyze::{ProcessInfo, ProcessReport, Tables};
use crate::diagnose::buckets::Buckets;
use crate::diagnose::finding::Finding;
use crate::model::hangs::{Blocked, Hang};
use crate::model::outcome::Outcome;
use crate::model::stacks::Frame;

const REDUCE: &str = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)";

/// Four ranks on two machines, of which rank 2 ended like this; all but rank 2 wait in these collectives.
fn said(outcome: Outcome, why: Why, waits: &[(usize, &str, u64)]) -> (Finding, Vec<String>) {
    let line = Frame { file: "/home/me/train.py".to_owned(), line: 42, ..Frame::default() };
    let launched =
        Launched { work: Work::Kernel("gemm".to_owned()), line: Some(line), tid: Some(7), ago: 3 * S };
    let report = |rank: usize| {
        let call = Blocked { tid: 9, api: Some("cudaMalloc".to_owned()), library: None, age: 2 * S };
        let hang = Hang { call: Some(call), ..Hang::default() };
        let process = ProcessInfo {
            pid: Some(100 + rank as u32),
            outcome: Some(outcome),
            hangs: vec![hang],
            ..ProcessInfo::default()
        };
        let last_work = LastWork { launched: Some(launched.clone()), unended: None };
        let tables = Tables { last_work, ..Tables::default() };
        ProcessReport { process, tables, together: None, findings: None }
    };
    let reports: Vec<ProcessReport> = (0..4).map(report).collect();
    let row =
        |at: usize| Rank { at, rank: at as u32, host: Some(format!("node{}", at / 2)), ..Rank::default() };
    let wait = |(place, collective, launched): &(usize, &str, u64)| Wait {
        place: *place,
        collective: (*collective).to_owned(),
        launched: *launched,
        ns: 6 * S,
        is_known: true,
    };
    let stopped = Some(Stopped { why, waits: waits.iter().map(wait).collect() });
    let ranks = Ranks { rows: (0..4).map(row).collect(), stopped, ..Ranks::default() };
    let (all, buckets) = (Tables::default(), Buckets::default());
    let facts = Facts { reports: &reports, all: &all, buckets: &buckets, ranks: &ranks };
    let found = failed_rank::find(&facts).or_else(|| stuck_collective::find(&facts)).unwrap().finding;
    (found, failed_rank::lead(&facts).or_else(|| stuck_collective::lead(&facts)).unwrap())
}

const OTHERS: [(usize, &str, u64); 3] = [(0, REDUCE, 5), (1, REDUCE, 5), (3, REDUCE, 5)];

#[test]
fn a_rank_that_failed_is_named_with_its_machine_and_where_to_look() {
    let why = || Why::Failed { place: 2, at: 9 * S, before: 5 * S };
    let (found, lead) = said(Outcome::Killed(9), why(), &OTHERS);
    assert_eq!(
        lead,
        [
            "Rank 2 (node1) ended first: killed by SIGKILL at 9.00 s.",
            "Ranks 0, 1 and 3 waited for it in ncclAllReduce to the end, for 6.00 s."
        ]
    );
    assert_eq!(found.title, "Rank 2 (node1) ended first (killed by SIGKILL)");
    assert_eq!(
        found.evidence.text,
        "It ended at 9.00 s, 5.00 s before any other rank. Ranks 0, 1 and 3 waited for it in ncclAllReduce to the end, for \
         6.00 s. Its last launch, of gemm at /home/me/train.py:42, was 3.00 s before its end."
    );
    assert_eq!(found.gain(), "ends the work");
    for (outcome, advice) in [
        (Outcome::Killed(9), "dmesg -T | grep -i 'killed process' on node1."),
        (Outcome::Killed(15), "the log of the launcher or of the scheduler"),
        (Outcome::Crashed(11), "coredumpctl gdb on node1."),
        (Outcome::Exited(Some(1)), "Look for the error of rank 2 (node1) in its own output."),
        (Outcome::Exited(Some(0)), "the same number of steps"),
        (Outcome::Exited(None), "its exit code is not known"),
    ] {
        let (found, _) = said(outcome, why(), &OTHERS);
        assert!(found.fix.contains(advice), "{outcome}: {}", found.fix);
    }
    let (found, lead) = said(Outcome::Exited(Some(1)), why(), &[]);
    assert_eq!(lead[1], "The next rank ended 5.00 s later.");
    assert!(found.evidence.text.starts_with("It ended at 9.00 s, 5.00 s before the next rank. Its last"));
    let (_, lead) = said(Outcome::Exited(Some(1)), why(), &OTHERS[..1]);
    assert_eq!(lead[1], "Rank 0 waited for it in ncclAllReduce to the end, for 6.00 s, as far as is known.");
}

#[test]
fn a_rank_that_did_not_come_is_named_with_what_it_did_last() {
    let (found, lead) = said(Outcome::Killed(15), Why::Absent(vec![2]), &OTHERS);
    assert_eq!(lead[0], "Rank 2 (node1) did not come to ncclAllReduce, in which the others wait.");
    assert_eq!(
        found.evidence.text,
        "Ranks 0, 1 and 3 waited there to the end, for 6.00 s. Its last launch, of gemm at /home/me/train.py:42, was 3.00 s \
         before its end. Its thread 9 was in cudaMalloc for 2.00 s."
    );
    assert!(found.fix.contains("py-spy dump --pid 102"), "{}", found.fix);
    let (found, _) = said(Outcome::Running, Why::Absent(vec![2]), &OTHERS);
    assert!(found.evidence.text.starts_with("Ranks 0, 1 and 3 have been waiting there for 6.00 s. "));
}

#[test]
fn ranks_that_all_wait_wait_for_each_other_or_for_the_network() {
    let all: Vec<_> = OTHERS.into_iter().chain([(2, REDUCE, 5)]).collect();
    let (found, lead) = said(Outcome::Killed(15), Why::Same, &all);
    assert_eq!(lead[0], "All ranks came to ncclAllReduce, and it did not end.");
    assert!(found.fix.contains("NCCL_DEBUG=INFO"), "{}", found.fix);
    let other: Vec<_> = OTHERS.into_iter().chain([(2, "ncclDevKernel_Broadcast_RING_LL", 1)]).collect();
    let (found, _) = said(Outcome::Killed(15), Why::Different, &other);
    assert_eq!(
        found.evidence.text,
        "After 6.00 s: ranks 0, 1 and 3 in ncclAllReduce number 5; rank 2 in ncclBroadcast number 1."
    );
}
