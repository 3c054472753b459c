//! `host-stall`: the host is elsewhere, in no CUDA call, while the GPU has nothing to do.

use super::super::Facts;
use super::super::finding::{Claimed, Evidence, Finding, Id};
use super::super::framework::Advice;
use super::super::running::{self, State};
use super::idle::Idle;
use crate::analyze::estimate::Estimate;
use crate::analyze::idle::running::Outside;
use crate::analyze::idle::{Cause, Site};
use crate::units::{duration, plural};

const FIX: Advice = Advice {
    pytorch: "Use DataLoader(num_workers=4 or more, persistent_workers=True, prefetch_factor=2 or more), decode and augment \
              in its workers or on the GPU, and log and save checkpoints in another thread: the thread that launches has \
              to stay free. py-spy dump --pid PID shows what it does.",
    jax: "Prepare batches in another thread or process (grain, tf.data with prefetch), and put them on the device one \
          or two steps ahead.",
    cuda: "Prepare the input of the next steps in another thread, so that the thread that launches always finds it \
           ready. A sampling profiler (perf, py-spy) shows what the thread does meanwhile.",
};

/// If the thread is off the CPU.
const FIX_OFF_CPU: Advice = Advice {
    pytorch: "Use DataLoader(num_workers=4 or more, persistent_workers=True, prefetch_factor=2 or more), so that batches are \
              ready before they are needed, and save checkpoints in another thread: this one slept, or waited for a \
              worker, I/O or a lock. py-spy dump --pid PID shows where.",
    jax: "Load batches ahead in other threads or processes (grain, tf.data with prefetch), and put them on the device one \
          or two steps early: the thread slept, or waited for input, I/O or a lock. py-spy dump --pid PID shows where.",
    cuda: "Load the input of the next steps ahead in another thread: the one that launches slept, or waited for input, I/O \
           or a lock. gdb -p PID, or py-spy dump --pid PID for Python, shows where.",
};

/// If the thread is running.
const FIX_RUNNING: Advice = Advice {
    pytorch: "Move what this thread computes elsewhere: decode and augment in workers of a DataLoader(num_workers=4 or more) or \
              on the GPU, and use fewer Python operations from one launch to the next. py-spy record --pid PID shows what \
              it computes.",
    jax: "Move what this thread computes elsewhere: prepare batches in other threads or processes, and put more of a step \
          into one jitted function. py-spy record --pid PID shows what it computes.",
    cuda: "Move what this thread computes to other threads, or onto the GPU. perf record -p PID, or py-spy record --pid PID \
           for Python, shows what that is.",
};

/// If the thread also waits for a processor.
const BUSY: &str = " Other threads take the processors that it needs: start fewer (OMP_NUM_THREADS, num_workers), or use more \
                    processors.";

/// The fewest gaps that are a habit of the program.
const HABIT: u64 = 3;

/// Says why that costs time.
fn explanation(state: Option<State>) -> &'static str {
    match state {
        Some(State::OffCpu) => {
            "The thread that launches work slept or waited for so long that the GPU finished all that was queued. Waiting \
             for input data is the usual reason."
        }
        Some(State::Running) => {
            "The thread that launches work computed something else for so long that the GPU finished all that was queued. \
             Preparing input data is the usual reason."
        }
        Some(State::Both) | None => {
            "The thread that launches work was busy with something else or asleep for so long that the GPU finished all \
             that was queued. Waiting for input data is the usual reason; on a machine whose processors are all busy, the \
             thread may wait for one."
        }
    }
}

/// Returns the gaps in which the host was elsewhere. Those that waits have caused are part of it only where they are the smaller
/// part, as where a loader sleeps for longer than the GPU has work.
fn stalls<'a>(facts: &Facts<'a>) -> Idle<'a> {
    let is_stall = |cause, site: &Site| cause == Cause::OutsideCuda && site.is_long;
    let all = Idle::of(facts, is_stall);
    let own = Idle::of(facts, |cause, site| is_stall(cause, site) && facts.all.idle.habit(site).is_none());
    if own.part.total.value >= all.part.total.value / 2 { all } else { own }
}

/// Looks for it.
pub fn find(facts: &Facts<'_>) -> Option<Claimed> {
    let idle = stalls(facts);
    let site = idle.main.filter(|_| idle.part.count >= HABIT)?;
    let thread = site.tid.map_or("the thread that launches".to_owned(), |tid| format!("thread {tid}"));
    let mut text = format!(
        "{} of {} each, {} in all, in which {thread} was in no CUDA call.",
        plural(idle.part.count, "gap", "gaps"),
        duration(idle.part.total.value / idle.part.count),
        duration(idle.part.total.value)
    );
    if let Some(range) = &site.range {
        text += &format!(" Most of it ended in the NVTX range {range}.");
    }
    let running = facts.all.idle.running.get(&Outside::Long).copied().unwrap_or_default();
    if let Some(said) = running::sentence(&running, "The thread") {
        text += &format!(" {said}.");
    }
    let state = running::state(&running);
    let fix = match state {
        Some(State::OffCpu) => FIX_OFF_CPU,
        Some(State::Running) => FIX_RUNNING,
        Some(State::Both) | None => FIX,
    };
    Some(Claimed {
        finding: Finding {
            id: Id::HostStall,
            title: "The GPU waits for the host outside CUDA".to_owned(),
            evidence: Evidence {
                text,
                count: idle.part.count,
                total: Some(idle.part.total),
                first: None,
                api: None,
                kernel: None,
                source: idle.source(),
                tid: site.tid,
            },
            explanation: explanation(state).to_owned(),
            fix: if running::queued(&running).is_some() { fix.of(facts) + BUSY } else { fix.of(facts) },
            saves: Estimate::exactly(0),
        },
        claims: idle.claims,
    })
}
