//! `host-stall`: the host is elsewhere, in no CUDA call, while the GPU has nothing to do.

use super::super::Facts;
use super::super::finding::{Claimed, Evidence, Finding};
use super::super::framework::Advice;
use super::idle::Idle;
use crate::analyze::estimate::Estimate;
use crate::analyze::idle::Cause;
use crate::units::{count, duration};

const FIX: Advice = Advice {
    pytorch: "Use DataLoader(num_workers=4 or more, persistent_workers=True, prefetch_factor=2 or more), decode and augment \
              in its workers or on the GPU, and log and save checkpoints in another thread: the thread that launches has \
              to stay free. py-spy dump --pid PID shows what it does.",
    jax: "Prepare batches in another thread or process (grain, tf.data with prefetch), and put them on the device one \
          or two steps ahead.",
    cuda: "Prepare the input of the next steps in another thread, so that the thread that launches always finds it \
           ready. A sampling profiler (perf, py-spy) shows what the thread does meanwhile.",
};

/// The fewest gaps that are a habit of the program.
const HABIT: u64 = 3;

/// Looks for it.
pub fn find(facts: &Facts<'_>) -> Option<Claimed> {
    let idle = Idle::of(facts, |cause, site| cause == Cause::OutsideCuda && site.is_long);
    let site = idle.main.filter(|_| idle.part.count >= HABIT)?;
    let thread = site.tid.map_or("the thread that launches".to_owned(), |tid| format!("thread {tid}"));
    let mut text = format!(
        "In {} gaps, {} in all, {thread} was in no CUDA call: {} each.",
        count(idle.part.count),
        duration(idle.part.total.value),
        duration(idle.part.total.value / idle.part.count)
    );
    if let Some(range) = &site.range {
        text += &format!(" Most of it ended in the NVTX range {range}.");
    }
    Some(Claimed {
        finding: Finding {
            id: "host-stall",
            title: "The GPU waits for the host, which is outside CUDA".to_owned(),
            evidence: Evidence {
                text,
                count: idle.part.count,
                total: Some(idle.part.total),
                first: None,
                api: None,
                kernel: None,
                library: site.library.clone(),
                tid: site.tid,
            },
            explanation: "The thread that launches work was busy with something else or asleep for so long that the GPU \
                          finished all that was queued. Waiting for input data is the usual reason; on a \
                          machine whose processors are all busy, the thread may wait for one."
                .to_owned(),
            fix: FIX.of(facts),
            saves: Estimate::exactly(0),
        },
        claims: idle.claims,
    })
}
