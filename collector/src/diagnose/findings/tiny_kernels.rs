//! `tiny-kernels`: kernels so short that the host cannot launch them as fast as the GPU runs them.

use super::super::Facts;
use super::super::finding::{Claimed, Evidence, Finding, Id};
use super::super::framework::{Advice, is_partly_compiled};
use super::idle::{Idle, without_own_cost};
use crate::analyze::estimate::Estimate;
use crate::analyze::idle::{Cause, Next, Site};
use crate::analyze::kernels::Kernel;
use crate::model::names::demangle;
use crate::units::{count, duration, percent};

const FIX: Advice = Advice {
    pytorch: "Try torch.compile(model, mode=\"reduce-overhead\"), which fuses kernels and launches them as a CUDA graph; \
              or capture the step with torch.cuda.graph or torch.cuda.make_graphed_callables. A fused optimizer \
              (fused=True or foreach=True) and a larger batch also help.",
    jax: "Put the whole step under one jax.jit, and use lax.scan for loops over layers or steps, so that XLA fuses the \
          operations and launches them together.",
    cuda: "Capture the launches of a step once into a CUDA graph (cudaStreamBeginCapture, cudaGraphInstantiate) and \
           launch that (cudaGraphLaunch); or fuse kernels.",
};

/// If a part of the program is compiled already.
const REST: Advice = Advice {
    pytorch: "Compile what launches these kernels, too, as a part of the program is already, or capture it in the CUDA graph: an \
              optimizer is a function like others (torch.compile(optimizer.step)), or launches little with fused=True, and \
              TORCH_LOGS=graph_breaks shows where torch.compile leaves the model.",
    ..FIX
};

/// The longest tiny kernel, ns: a launch takes the host 2 to 10 µs with its framework, and a kernel that is shorter cannot
/// hide the next launch.
const TINY: u64 = 10_000;

/// The share of the time that is judged from which on it is a fault if the GPU waits for launches, though only some of the
/// kernels are tiny.
const MUCH: f64 = 0.1;

/// The fewest gaps of a GPU that are a habit of the program.
const HABIT: u64 = 10;

/// Looks for it: half of the launches or more are tiny, and the GPU waited for launches again and again; or it did so for long,
/// and most launches are in no graph. What the first launch of each kernel takes is start-up.
pub fn find(facts: &Facts<'_>) -> Option<Claimed> {
    let kernels = || facts.all.kernels.iter();
    let launched: u64 = kernels().map(|kernel| kernel.count).sum();
    let in_graphs: u64 = kernels().map(|kernel| kernel.in_graphs).sum();
    let number: u64 = kernels().filter(|kernel| is_tiny(kernel)).map(|kernel| kernel.count).sum();
    let idle = Idle::of(facts, |cause, site| {
        let is_launching =
            cause == Cause::Launching || is_between_launches(cause) && !site.is_long && !is_before_copy(site);
        is_launching && facts.owed_to_habit(cause, site).is_none()
    });
    let total = idle.part.total;
    let gaps = idle.part.count / facts.idle_gpus();
    // What is replayed as a graph is launched already as the remedy says.
    let most_are_tiny = number * 2 >= launched + in_graphs;
    let judged = facts.buckets.judged().saturating_mul(facts.idle_gpus());
    let is_bound = launched > in_graphs && total.value as f64 >= judged as f64 * MUCH;
    let site = idle.main.filter(|_| gaps >= HABIT && (most_are_tiny || is_bound))?;
    let meant = kernels().filter(|kernel| !most_are_tiny || is_tiny(kernel));
    let commonest = meant.max_by_key(|kernel| kernel.count);
    let waited = format!(
        "{} gaps, {} in all, the GPU waited for the next launch",
        count(idle.part.count),
        duration(total.value)
    );
    let mut text = match most_are_tiny {
        true => format!(
            "{} of {} launches ({}) are of kernels that run for less than {}, and in {waited}",
            count(number),
            count(launched),
            percent(number, launched),
            duration(TINY)
        ),
        false => format!("In {waited}"),
    };
    if let Some(median) = commonest.and_then(|kernel| kernel.durations.median()) {
        let which = if most_are_tiny { "the commonest" } else { "the commonest kernel" };
        text += &format!("; {which} runs for {}", duration(median.value));
    }
    Some(Claimed {
        finding: Finding {
            id: Id::TinyKernels,
            title: "Kernels end before the next one is launched".to_owned(),
            evidence: Evidence {
                text: text + ".",
                count: if most_are_tiny { number } else { idle.part.count },
                total: Some(total),
                first: None,
                api: site.api.clone(),
                kernel: commonest.map(|kernel| demangle(&kernel.symbol)),
                source: idle.source(),
                tid: site.tid,
            },
            explanation: "Each launch costs the host some microseconds, whatever it launches. A kernel that is over before the host \
                          has launched the next one leaves the GPU waiting."
                .to_owned(),
            fix: if is_partly_compiled(facts) { REST } else { FIX }.of(facts),
            saves: Estimate::exactly(0),
        },
        // The gaps may be those of all GPUs, and the claims are those of one.
        claims: without_own_cost(facts, idle.claims, gaps),
        sites: idle.sites,
    })
}

/// Whether launches of a kernel are tiny, and are known to be.
fn is_tiny(kernel: &Kernel) -> bool {
    let median = kernel.durations.median();
    median.is_some_and(|median| median.value < TINY && median.hi < 2 * TINY)
}

/// Whether the host went on with a copy to the GPU: what launches kernels together does not gain that.
fn is_before_copy(site: &Site) -> bool {
    matches!(site.next, Next::Input | Next::MoreInput)
}

/// Whether the host was launching, or between two launches.
fn is_between_launches(cause: Cause) -> bool {
    use Cause::{BetweenLaunches, Launching, OtherCall, OutsideCuda};
    matches!(cause, Launching | BetweenLaunches | OutsideCuda | OtherCall)
}
