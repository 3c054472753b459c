//! Allocations that failed because memory ran out.

use super::holding;
use crate::analyze::memory::holders::{Failure, Origin};
use crate::analyze::{ProcessReport, Tables};
use crate::diagnose::Facts;
use crate::diagnose::finding::{Claimed, Id};
use crate::diagnose::framework::Advice;
use crate::units::{bytes, capital, duration, plural};

const ADVICE: Advice = Advice {
    pytorch: "A smaller batch with gradient accumulation, activation checkpointing (torch.utils.checkpoint), and \
              PYTORCH_ALLOC_CONF=expandable_segments:True (before PyTorch 2.9, PYTORCH_CUDA_ALLOC_CONF) where the pool \
              is fragmented. Call torch.cuda.memory._record_memory_history() at the start and \
              torch.cuda.memory._dump_snapshot('memory.pickle') where the error is caught: pytorch.org/memory_viz then \
              shows the lines that hold memory.",
    jax: "A smaller batch, jax.checkpoint, donated arguments (donate_argnums); XLA_PYTHON_CLIENT_MEM_FRACTION sets what JAX \
          takes for itself.",
    cuda: "Free what the largest holders do not need any more, use blocks again, or ask for less at a time.",
};

/// Looks for it.
pub fn find(facts: &Facts<'_>) -> Option<Claimed> {
    let failures = facts.all.memory.out_of_memory;
    let failure = facts.all.memory.holders.failure.as_ref()?;
    let requested = requested(failure);
    let held = holding::holders(&failure.holders.iter().collect::<Vec<_>>(), failure.live);
    let held = if held.is_empty() { held } else { format!(": {held}") };
    let tables = facts.of_process(|tables| tables.memory.holders.failure.as_ref() == Some(failure));
    let rest = match failure.by_gpu.iter().next() {
        // Which of them was asked is not known.
        Some(_) if failure.by_gpu.len() > 1 => on_each(tables, failure),
        Some((gpu, _)) => room(failure, holding::size_of(tables, *gpu).or_else(|| holding::size(tables))),
        None => room(failure, holding::size(tables)),
    };
    let text = format!(
        "{} failed. The last one, of {}, asked for {requested} at {}, when the program held {}{held}.{rest}{}",
        plural(failures, "call", "calls"),
        holding::place(&failure.origin),
        duration(failure.at),
        bytes(failure.live),
        if failure.went_on { " The program went on." } else { "" },
    );
    Some(holding::finding(
        Id::OutOfMemory,
        title(failure, facts),
        holding::evidence(&failure.origin, text, failures, Some(failure.first_at)),
        "An allocation fails if no free part of the GPU's memory is large enough.",
        ADVICE.of(facts),
    ))
}

/// Returns what to say first of a run that a failed allocation ended, one sentence: its program launched nothing after it,
/// and is known to have ended otherwise than with code 0.
pub fn lead(facts: &Facts<'_>) -> Option<Vec<String>> {
    let failure = facts.all.memory.holders.failure.as_ref().filter(|failure| !failure.went_on)?;
    let is_its = |report: &&ProcessReport| report.tables.memory.holders.failure.as_ref() == Some(failure);
    facts.reports.iter().find(is_its)?.process.outcome.filter(|outcome| outcome.is_failure())?;
    let Origin { api, source, .. } = &failure.origin;
    let by = api.as_ref().map_or_else(String::new, |api| format!(" by {api}"));
    let at = source.line.as_ref().map_or_else(String::new, |line| format!(" at {}", line.place()));
    Some(vec![format!("{}{by}{at}.", title(failure, facts))])
}

fn title(failure: &Failure, facts: &Facts<'_>) -> String {
    let mut all = facts.reports.iter().map(|report| (&report.process, &report.tables.memory.holders.failure));
    let process = all.find(|(_, own)| own.as_ref() == Some(failure)).map(|(process, _)| process);
    let process = process.map_or_else(String::new, |its| facts.in_process(its.job.rank, its.pid));
    format!("Memory ran out{process}: {} could not be allocated", requested(failure))
}

fn requested(failure: &Failure) -> String {
    failure.requested.map_or_else(|| "memory".to_owned(), bytes)
}

/// Returns what was held on each GPU, in a sentence.
fn on_each(tables: &Tables, failure: &Failure) -> String {
    let on = |(gpu, held): (&u32, &u64)| match holding::size_of(tables, *gpu) {
        Some(size) => format!("{} of the {} of GPU {gpu}", bytes(*held), bytes(size)),
        None => format!("{} of GPU {gpu}", bytes(*held)),
    };
    let that = if failure.managed > 0 { "Without managed memory, that was" } else { "That was" };
    format!(" {that} {}.", failure.by_gpu.iter().map(on).collect::<Vec<_>>().join(" and "))
}

/// Returns how the request compares with what was free, in a sentence.
fn room(failure: &Failure, size: Option<u64>) -> String {
    let mut words = String::new();
    if failure.unmapped > 0 {
        words = format!(" Another {} was reserved and not mapped.", bytes(failure.unmapped));
    }
    if failure.managed > 0 {
        let managed = bytes(failure.managed);
        words +=
            &format!(" Of what it held, {managed} was managed memory, which makes room for other memory.");
    }
    let Some(size) = size else { return words };
    // The driver moves managed memory out of the way of other allocations.
    let resident = failure.live.saturating_sub(failure.managed);
    let free = size.saturating_sub(resident).saturating_sub(failure.unmapped);
    let of = format!("of the GPU's {} it left {}", bytes(size), bytes(free));
    match failure.requested {
        Some(requested) if requested > size => {
            format!("{words} The GPU has only {}.", bytes(size))
        }
        Some(requested) if requested <= free => format!(
            "{words} {}, which is enough: other processes hold memory, or what is free is in pieces (fragmentation).",
            capital(&of)
        ),
        _ => format!("{words} {}.", capital(&of)),
    }
}
