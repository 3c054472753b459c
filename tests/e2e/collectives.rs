//! Communication kernels may run until their peers on other GPUs do. The agent records no event right after one while
//! other streams get work: that work would wait for the event where streams share a hardware queue.

use crate::compare::{Compared, compare};
use gpuspy_tests::{Done, Run};
use serde_json::Value;

fn number(line: &Value, key: &str) -> u64 {
    line[key].as_u64().unwrap_or_else(|| panic!("no {key} in {line}"))
}

/// Counts communication kernels that hold other work up: those directly followed by one of the agent's events, after
/// which a kernel of another stream was launched before the communication kernel's own stream got anything else.
/// Entries are in the order in which the simulator received them.
fn held_up(done: &Done) -> usize {
    let truth = done.truth();
    let of = |kind: &'static str| {
        truth.of(kind).map(move |line| (number(line, "seq"), line, kind != "event_record"))
    };
    let mut entries: Vec<(u64, &Value, bool)> =
        of("kernel").chain(of("graph")).chain(of("event_record")).collect();
    entries.retain(|(_, line, _)| line["captured"] != true && line["in_graph"].as_u64().unwrap_or(0) == 0);
    entries.sort_by_key(|(seq, ..)| *seq);
    let is_communication = |line: &Value| {
        line["kind"] == "graph" || line["name"].as_str().is_some_and(|name| name.contains("nccl"))
    };
    let is_held_up = |at: usize| {
        let stream = &entries[at].1["stream"];
        let mut own = (at + 1..entries.len()).filter(|next| entries[*next].1["stream"] == *stream);
        let Some(event) = own.next().filter(|event| !entries[*event].2) else { return false };
        let next = own.next().unwrap_or(entries.len());
        entries[event..next].iter().any(|(_, _, is_work)| *is_work)
    };
    let work = (0..entries.len()).filter(|at| entries[*at].2 && is_communication(entries[*at].1));
    work.filter(|at| is_held_up(*at)).count()
}

/// Returns the median share of a communication kernel's time that is certain; all of them have an interval. Where a thread loses the
/// processor around a launch, less of that one's is.
fn known(behind: &str) -> f64 {
    let done = Run::of("collectives").arg(behind).observed().succeeded();
    let compared = compare(&done);
    let violations: Vec<String> = compared.iter().filter_map(Compared::violation).collect();
    assert!(violations.is_empty(), "{}", violations.join("\n"));
    assert_eq!(held_up(&done), 0, "{behind}");
    let communication = compared.iter().filter(|c| c.truth.kind == "graph" || c.truth.name.contains("nccl"));
    let lengths: Vec<(Option<u64>, u64)> = communication
        .map(|c| (c.timed().map(|(o, _)| o.lo()), c.truth.interval.1 - c.truth.interval.0))
        .collect();
    assert_eq!(lengths.len(), 50);
    assert!(lengths.iter().all(|(lo, _)| lo.is_some()), "{behind}: {lengths:?}");
    let mut shares: Vec<f64> = lengths.iter().map(|(lo, all)| lo.unwrap_or(0) as f64 / *all as f64).collect();
    shares.sort_by(f64::total_cmp);
    println!("{behind}: from {:.2} to {:.2}, median {:.2}", shares[0], shares[49], shares[25]);
    shares[25]
}

/// The operation that follows on the stream provides the end event: an event of the program's, the next kernel, or,
/// where no other stream has work, a wait.
#[test]
fn a_collective_is_timed_by_what_follows_it_on_its_stream() {
    for behind in ["record", "next", "graph"] {
        let known = known(behind);
        assert!(known > 0.8, "{behind}: {known}");
    }
}

/// The end event follows the wait, so there is nothing left that it could hold up.
#[test]
fn a_collective_followed_only_by_a_wait_delays_no_other_work() {
    known("wait");
}

/// When a collective starts says when its rank came to it. Before, most collectives on a deep stream were timed in runs
/// with other kernels, and no rank could be compared with another.
#[test]
fn a_collective_on_a_deep_stream_is_timed_alone() {
    let done = Run::of("collectives").arg("deep").observed().succeeded();
    let compared = compare(&done);
    let violations: Vec<String> = compared.iter().filter_map(Compared::violation).collect();
    assert!(violations.is_empty(), "{}", violations.join("\n"));
    let (reduces, others): (Vec<_>, Vec<_>) = compared.iter().partition(|c| c.truth.name.contains("nccl"));
    let alone = |those: &[&Compared]| those.iter().filter(|c| c.timed().is_some()).count();
    assert_eq!(reduces.len(), 200);
    assert!(
        done.is_share(alone(&reduces), reduces.len(), 0.9),
        "only {} of 200 reductions are timed alone",
        alone(&reduces)
    );
    assert!(
        alone(&others) < others.len() / 2,
        "{} of {} other operations are timed alone, although the stream is deep",
        alone(&others),
        others.len()
    );
}

/// Two ranks' kernels wait for each other on streams that share a hardware queue: an event after the first of them
/// would keep the second from ever starting.
fn crossed(kernel: &str) {
    for connections in ["queues", "streams"] {
        for timing in ["exact", "auto"] {
            let run = Run::of("collectives").arg("crossed").arg(kernel).env("GPUSPY_TIMING", timing);
            let done = run.env("SIMCUDA_ASSUME", format!("connections={connections}")).observed().succeeded();
            assert_eq!(done.report()["coverage"]["launches"], 192, "{kernel}: {connections}, {timing}");
        }
    }
}

#[test]
fn collectives_of_two_ranks_in_opposite_orders_finish() {
    crossed("ncclDevKernel_AllReduce_Sum_f32_RING_LL_meets");
}

/// Only kernels with the names that NCCL had before 2.27 were known to wait for others.
#[test]
fn collectives_on_symmetric_memory_in_opposite_orders_finish() {
    crossed("ncclSymkDevKernel_AllReduce_RSxLD_AGxST_sum_f32_meets");
}

/// So do those that serving frameworks launch without NCCL.
#[test]
fn all_reduces_of_vllm_in_opposite_orders_finish() {
    crossed("vllm_cross_device_reduce_1stage_meets");
}
