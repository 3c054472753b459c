//! Blocks that are allocated again and again, and never freed.

use super::holding;
use crate::diagnose::Facts;
use crate::diagnose::finding::{Claimed, Id};
use crate::diagnose::framework::Advice;
use crate::units::{bytes, plural};

const ADVICE: Advice = Advice {
    pytorch: "This memory is outside PyTorch's pool: an extension, or a library that it calls, allocates it with CUDA. \
              Free it there, or allocate tensors in its place.",
    jax: "This memory is outside JAX's pool: a custom call, or a library, allocates it with CUDA. Free it there.",
    cuda: "Free the blocks (cudaFree) when the step that needs them is over, or use one block again.",
};

/// Looks for it. What grows all the time is reported as growth.
pub fn find(facts: &Facts<'_>) -> Option<Claimed> {
    let memory = &facts.all.memory.holders;
    let grows = |origin| memory.growth.iter().any(|growth| growth.origins.iter().any(|(by, _)| by == origin));
    let leak = memory.never_freed.iter().find(|holder| !grows(&holder.origin))?;
    let times = leak.steps.map(|(first, last)| format!(", in steps {first} to {last}")).unwrap_or_default();
    let text = format!(
        "{} of {} in all, allocated after the warm-up by {}{times}, still held at the end.",
        plural(leak.blocks, "block", "blocks"),
        bytes(leak.bytes),
        holding::place(&leak.origin),
    );
    Some(holding::finding(
        Id::NeverFreed,
        format!("{} of device memory are allocated and never freed", bytes(leak.bytes)),
        holding::evidence(&leak.origin, text, leak.blocks, Some(leak.first_ns)),
        "Memory that nobody frees is lost until the process ends.",
        ADVICE.of(facts),
    ))
}
