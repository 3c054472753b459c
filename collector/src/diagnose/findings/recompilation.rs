//! `recompilation`: code is compiled, or only loaded, while the GPU has nothing to do, again and again.

use super::super::Facts;
use super::super::buckets::Bucket;
use super::super::finding::{Claimed, Evidence, Finding, Id};
use super::super::framework::Advice;
use super::idle::Idle;
use crate::analyze::estimate::Estimate;
use crate::analyze::idle::{Cause, Next, Site};
use std::path::Path;

/// Of cuDNN, which builds a plan for each shape. PyTorch's documentation has the switch of the backend
/// (`torch.backends.cuda.enable_cudnn_sdp`). Without it, a model generated its first 80 tokens in 1.2 to 1.4 s instead of 5.3 to 6.9
/// on an H100 (`tests/gpu-results/h100-580.159.04-2026-11-27`).
const PLANS: Advice = Advice {
    pytorch: "Give cuDNN few shapes: pad sequences and batches to a few lengths, and leave the last, smaller batch out \
              (drop_last=True). For attention, torch.backends.cuda.enable_cudnn_sdp(False) makes PyTorch choose kernels that \
              are compiled already.",
    jax: "Give cuDNN few shapes: pad sequences and batches to a few lengths.",
    cuda: "Build a plan once for each shape and keep it, and pad to a few shapes; cuDNN's frontend can build plans for \
           dynamic shapes, and keep the kernels that it has compiled for others.",
};

/// Of anybody else.
const COMPILED: Advice = Advice {
    pytorch: "Let the compilers see few shapes: pad to a few lengths, leave the last, smaller batch out (drop_last=True), or \
              call torch.compile with dynamic=True. TORCH_LOGS=recompiles says why it compiles again, and for kernels in \
              Triton, arguments that change can be named in do_not_specialize.",
    jax: "Let jax.jit see few shapes and static arguments: pad batches, and make what changes an array. JAX_LOG_COMPILES=1 says \
          what it compiles, and jax_explain_cache_misses why.",
    cuda: "Compile each kernel once and keep the module: build it ahead with nvcc, or keep what NVRTC or the linker made, by \
           what it was made from.",
};

/// Where code is only loaded.
const LOADED: Advice = Advice {
    pytorch: "Make kernels once, before the loop: a module, a Triton kernel or a compiled function that each step makes again is \
              loaded again, and each kernel's code comes to the GPU when it is launched for the first time.",
    jax: "Call jax.jit once, before the loop: a function that each step makes again, as a lambda, is compiled and loaded again.",
    cuda: "Load each module once and keep it, with its context: after cuModuleUnload, cuCtxDestroy or cudaDeviceReset all code is \
           loaded again, and its kernels' first launches wait for that.",
};

/// The least share of the judged time in which code is loaded that is a fault.
const MUCH: f64 = 0.05;

/// The fewest gaps that are a habit of the program.
const HABIT: u64 = 3;

/// The least that the mean length of the gaps is, if something was compiled, ns. Code that is only read from a file takes one or two ms (the
/// Trainer of Transformers on an H100), and what compiles a kernel tens of them (cuDNN there) and more.
const COMPILED_NS: u64 = 5_000_000;

/// Whether the host compiled code or loaded it.
fn is_code(cause: Cause, site: &Site) -> bool {
    cause == Cause::OutsideCuda && site.is_long && site.next == Next::Code
}

/// Returns the gaps in which code was compiled, if that is a fault. What happened once, before the steps or in their warm-up, is
/// set-up, and not among them: each kernel is loaded when it is launched for the first time.
pub fn compiling<'a>(facts: &Facts<'a>) -> Option<Idle<'a>> {
    let idle = Idle::of(facts, is_code);
    let mean = idle.part.total.lo / idle.part.count.max(1);
    (idle.part.count >= HABIT && mean >= COMPILED_NS).then_some(idle)
}

/// Looks for it.
pub fn find(facts: &Facts<'_>) -> Option<Claimed> {
    compiled(facts).or_else(|| loaded(facts))
}

/// Looks for code that is loaded in the steps, by calls that do it or by first launches.
fn loaded(facts: &Facts<'_>) -> Option<Claimed> {
    let loading = Bucket::Idle(Cause::Loading);
    let all = facts.buckets.get(loading).value;
    let in_steps = all - facts.buckets.once(loading);
    if (in_steps as f64) < facts.buckets.judged() as f64 * MUCH {
        return None;
    }
    let mut idle = Idle::of(facts, |cause, _| cause == Cause::Loading);
    idle.reduce(in_steps, all);
    let site = idle.main.filter(|_| idle.part.count >= HABIT)?;
    let text = format!(
        "{}, in which {} loaded code, most of it in {}.",
        idle.lengths(facts, Cause::Loading),
        idle.leader(),
        site.api.as_deref().unwrap_or("calls")
    );
    Some(Claimed {
        finding: Finding {
            id: Id::Recompilation,
            title: "Code is loaded again and again".to_owned(),
            evidence: Evidence {
                text,
                count: idle.part.count,
                total: Some(idle.part.total),
                api: site.api.clone(),
                source: idle.source(),
                tid: site.tid,
                ..Evidence::default()
            },
            explanation: "A module that is loaded again, or a context that is created again, comes to the GPU with its code again, and \
                          the GPU has nothing to do meanwhile."
                .to_owned(),
            fix: LOADED.of(facts),
            saves: Estimate::exactly(0),
        },
        claims: idle.claims,
        sites: idle.sites,
    })
}

/// Looks for code that is compiled.
fn compiled(facts: &Facts<'_>) -> Option<Claimed> {
    let idle = compiling(facts)?;
    let site = idle.main?;
    let library = site.source.library.as_deref().and_then(|path| Path::new(path).file_name()?.to_str());
    let loader = library.unwrap_or("it");
    let is_cudnn = library.is_some_and(|name| name.starts_with("libcudnn"));
    let text = format!(
        "{}, in which {} was in no CUDA call and after which {loader} loaded code.",
        idle.lengths(facts, Cause::OutsideCuda),
        idle.leader()
    );
    Some(Claimed {
        finding: Finding {
            id: Id::Recompilation,
            title: "Code is compiled again and again".to_owned(),
            evidence: Evidence {
                text,
                count: idle.part.count,
                total: Some(idle.part.total),
                source: idle.source(),
                tid: site.tid,
                ..Evidence::default()
            },
            explanation: if is_cudnn {
                "cuDNN builds a plan, and compiles a kernel, for each shape that it has not seen yet, and the GPU waits for \
                 it."
            } else {
                "Compilers that run with the program compile again for each shape, type or constant that they have not seen \
                 yet, and the GPU waits for them."
            }
            .to_owned(),
            fix: if is_cudnn { PLANS } else { COMPILED }.of(facts),
            saves: Estimate::exactly(0),
        },
        claims: idle.claims,
        sites: idle.sites,
    })
}
