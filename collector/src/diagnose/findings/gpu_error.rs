//! Errors with which a GPU stopped the work of a program.

use crate::analyze::estimate::Estimate;
use crate::analyze::gpu_errors::{Stopped, Suspect};
use crate::diagnose::Facts;
use crate::diagnose::finding::{Claimed, Evidence, Finding, Id, Sites};
use crate::diagnose::framework::Advice;
use crate::model::gpu_error::{self, Cause, GpuError};
use crate::model::names::demangle;
use crate::model::short_names::shorten;
use crate::units::{count, plural};
use std::collections::BTreeMap;

/// The columns of a kernel's name in the evidence, and on the first screen.
const NAME: (usize, usize) = (60, 40);

/// To find a kernel that fails.
const KERNEL: Advice = Advice {
    pytorch: "Run once with CUDA_LAUNCH_BLOCKING=1. Each launch then waits for its kernel, so that the line of the error is that \
              of the kernel which fails. compute-sanitizer python3 train.py says what that kernel does wrong and where, and a \
              PyTorch that was built with TORCH_USE_CUDA_DSA=1 which of its assertions failed.",
    jax: "Run once with CUDA_LAUNCH_BLOCKING=1 and JAX_DISABLE_JIT=1. Each operation is then launched by its own line, and \
          waits for its kernel. compute-sanitizer python3 train.py says what the kernel does wrong and where.",
    cuda: "Run compute-sanitizer ./app. It names the kernel that fails, what it does wrong, and with -lineinfo of nvcc on which \
           line; cuda-gdb ./app stops there. With CUDA_LAUNCH_BLOCKING=1 each launch waits for its kernel, so that the line of \
           the error is that of the kernel which fails.",
};

const HARDWARE: &str = "Look for the driver's message (Xid) with dmesg, and at nvidia-smi -q. If the error comes again on this \
                        GPU, reset or replace it.";

const EITHER: &str =
    "The driver's message (Xid), which dmesg shows, and nvidia-smi -q say whether the hardware is at fault.";

const TIME: &str = "Shorten the kernel, or run it on a GPU that has no display. Where a GPU serves a display, the driver ends \
                    kernels that run for some seconds.";

const SERVER: &str = "Look into the log of the MPS server (CUDA_MPS_LOG_DIRECTORY). It ends all of its clients on a GPU when \
                      a kernel of one of them fails, so the fault may be another program's.";

/// Looks for it.
pub fn find(facts: &Facts<'_>) -> Option<Claimed> {
    let (stopped, error) = first(facts)?;
    let errors = &facts.all.gpu_errors;
    let (api, place) = (&stopped.api, place(stopped));
    let calls = match errors.calls {
        _ if errors.processes > 1 => format!("{api}{place} returned it first"),
        0 | 1 => format!("{api}{place} returned it"),
        calls => format!("{api}{place} was the first of {} that returned it", plural(calls, "call", "calls")),
    };
    let processes = match errors.processes {
        0 | 1 => String::new(),
        all => format!(" {} got such an error; this is the earliest.", plural(all, "process", "processes")),
    };
    let suspects = suspects(stopped, NAME.0)
        .unwrap_or_else(|| "No launch before it is known to have been pending.".to_owned());
    let text =
        format!("{} ({}): {}. {calls}. {suspects}{processes}", error.name, error.result, error.meaning);
    let evidence = Evidence {
        text,
        count: errors.calls,
        first: Some(stopped.since_began),
        api: Some(stopped.api.clone()),
        kernel: only(stopped),
        source: stopped.source.clone(),
        tid: stopped.tid,
        ..Evidence::default()
    };
    let finding = Finding {
        id: Id::GpuError,
        title: format!("{}{}", title(error), process(stopped, facts)),
        evidence,
        explanation: explanation(error).to_owned(),
        fix: fix(error, facts),
        saves: Estimate::exactly(0),
    };
    Some(Claimed { finding, claims: BTreeMap::new(), sites: Sites::new() })
}

/// Returns what to say first of a run in which a GPU stopped, in two sentences at most: the error, with the call that returned
/// it first, and what may have caused it.
pub fn lead(facts: &Facts<'_>) -> Option<Vec<String>> {
    let (stopped, error) = first(facts)?;
    let (title, process) = (title(error), process(stopped, facts));
    let said = format!("{title}{process}, first returned by {}{}.", stopped.api, place(stopped));
    Some([said].into_iter().chain(suspects(stopped, NAME.1)).collect())
}

fn first<'f>(facts: &Facts<'f>) -> Option<(&'f Stopped, &'static GpuError)> {
    let stopped = facts.all.gpu_errors.first.as_ref()?;
    Some((stopped, gpu_error::of(stopped.result)?))
}

fn title(error: &GpuError) -> String {
    format!("The GPU stopped with an error: {} ({})", error.short, error.result)
}

/// Says which process it was, with a blank before it.
fn process(stopped: &Stopped, facts: &Facts<'_>) -> String {
    facts.in_process(stopped.rank, stopped.pid)
}

/// Returns where the call was made, with a blank before it; nothing if that is not known.
fn place(stopped: &Stopped) -> String {
    stopped.source.line.as_ref().map_or_else(String::new, |line| format!(" at {}", line.place()))
}

/// Returns which launches may have caused the error, in a sentence; `None` if none is known.
fn suspects(stopped: &Stopped, width: usize) -> Option<String> {
    let mut named: Vec<String> = stopped.suspects.iter().map(|suspect| in_words(suspect, width)).collect();
    if stopped.others > 0 {
        named.insert(0, format!("{} more", count(stopped.others)));
    }
    let latest = if named.len() > 1 { ", the latest last" } else { "" };
    (!named.is_empty())
        .then(|| format!("Launched before it and not seen to complete{latest}: {}.", named.join(", ")))
}

fn in_words(suspect: &Suspect, width: usize) -> String {
    let name = match &suspect.symbol {
        Some(symbol) => shorten(&demangle(symbol), width),
        None if suspect.is_graph => "a graph".to_owned(),
        None => "a kernel without a name".to_owned(),
    };
    let times = (suspect.count > 1).then(|| format!("{} times", count(suspect.count)));
    let line = suspect.line.as_ref().map(|line| format!("at {}", line.place()));
    let more: Vec<String> = times.into_iter().chain(line).collect();
    if more.is_empty() { name } else { format!("{name} ({})", more.join(" ")) }
}

/// Returns the only kernel that is known to have been pending, demangled.
fn only(stopped: &Stopped) -> Option<String> {
    match stopped.suspects.as_slice() {
        [only] if stopped.others == 0 => only.symbol.as_deref().map(demangle),
        _ => None,
    }
}

fn explanation(error: &GpuError) -> &'static str {
    if error.is_sticky {
        "After this error CUDA cannot be used any more in the process: all its later calls return the same error. Kernels run \
         while the program goes on, so the line of the call that returned the error is often later than the launch at fault."
    } else {
        "The hardware failed during the work, and no line of the program has to be at fault. What the GPU was to compute is \
         lost."
    }
}

fn fix(error: &GpuError, facts: &Facts<'_>) -> String {
    match error.cause {
        Cause::Kernel => KERNEL.of(facts),
        Cause::KernelOrHardware => format!("{} {EITHER}", KERNEL.of(facts)),
        Cause::Hardware => HARDWARE.to_owned(),
        Cause::Time => TIME.to_owned(),
        Cause::Server => SERVER.to_owned(),
    }
}
