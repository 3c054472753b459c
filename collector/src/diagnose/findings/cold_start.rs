//! `cold-start`: loading and linking code before the first kernel runs, and what a program without steps does once before
//! its work.

use super::super::Facts;
use super::super::buckets::Bucket;
use super::super::finding::{Claimed, Evidence, Finding, Id, Sites};
use super::super::framework::Advice;
use crate::analyze::estimate::{Estimate, Sum};
use crate::analyze::idle::Cause;
use crate::analyze::startup::Part;
use crate::units::{duration, plural};
use std::collections::BTreeMap;

const FIX: Advice = Advice {
    pytorch: "Keep the caches of torch.compile and Triton (TORCHINDUCTOR_CACHE_DIR, TRITON_CACHE_DIR) and CUDA's own \
              (CUDA_CACHE_PATH) between runs. Set CUDA_MODULE_LOADING=LAZY (the default since CUDA 12.2), and use a build \
              with code for this GPU, so that nothing is compiled from PTX.",
    jax: "Set jax_compilation_cache_dir to a folder that outlives the run, and CUDA_MODULE_LOADING=LAZY.",
    cuda: "Load only the modules that are needed, set CUDA_MODULE_LOADING=LAZY, build with code for this GPU (nvcc \
           -arch), so that nothing is compiled from PTX, and keep CUDA's cache (CUDA_CACHE_PATH) between runs.",
};

/// What is said before that where the program does other things for longer than it loads code.
const PREPARING: Advice = Advice {
    pytorch: "py-spy record, or py-spy dump --pid PID, shows what it does: imports, reading a checkpoint, compilers.",
    jax: "py-spy record, or py-spy dump --pid PID, shows what it does: imports, reading a checkpoint, compilers.",
    cuda: "perf record, or py-spy record for Python, shows what it does: imports, reading files, compilers.",
};

/// The least that is worth reporting, as a share of the wall time and in ns: every program has to load its code, and a short
/// one is all start-up.
const LEAST: (f64, u64) = (0.05, 100_000_000);

/// Says what took the time: loading and linking, which are added over the processes, and what is outside CUDA, of which either may
/// be nothing.
fn evidence([load, link]: [u64; 2], loads: u64, processes: u64, mode: Option<&str>, outside: u64) -> String {
    let [load, link, loads] = [load, link, loads].map(|sum| sum / processes.max(1));
    let in_each = if processes > 1 { format!(" in each of {processes} processes") } else { String::new() };
    let loading = (load + link > 0).then(|| {
        format!(
            "{} of loading and {} of linking before the first kernel{in_each}, in {} of modules and libraries of kernels{}",
            duration(load),
            duration(link),
            plural(loads, "load", "loads"),
            mode.map(|mode| format!(" (CUDA_MODULE_LOADING={mode})")).unwrap_or_default()
        )
    });
    let outside = (outside > 0).then(|| {
        format!("{} outside CUDA between the first launches, as in imports and compilers", duration(outside))
    });
    loading.into_iter().chain(outside).collect::<Vec<String>>().join("; ") + "."
}

/// Looks for it.
pub fn find(facts: &Facts<'_>) -> Option<Claimed> {
    let startup = facts.all.startup.as_ref()?;
    let [load, link] = [Part::Load, Part::Link].map(|part| startup.until_kernel.of(part));
    // The wall time is that of one line; the parts are sums over the processes, which start together.
    let code = (load + link) / startup.processes.max(1);
    let prepared = match facts.all.steps.count {
        0 => facts.buckets.get(Bucket::Idle(Cause::SetUp)).value,
        // What comes before the steps is then left out of the verdict.
        _ => 0,
    };
    let ns = code + prepared;
    if ns < LEAST.1 || (ns as f64) < LEAST.0 * facts.buckets.wall as f64 {
        return None;
    }
    let loads = startup.loads.values().map(|calls| calls.count).sum();
    let most = startup.loads.iter().max_by_key(|(_, calls)| calls.host_ns);
    let source = most.map(|(source, _)| source.clone()).unwrap_or_default();
    let text = evidence([load, link], loads, startup.processes, startup.module_loading.as_deref(), prepared);
    let at_most = |ns: u64| Sum { value: ns, lo: 0, hi: ns };
    let (title, explanation, fix) = if code < prepared {
        (
            "The program prepares for long before its work",
            "While it imports, reads, compiles or tunes, between its first launches, the GPU has nothing to do.",
            format!("{} {}", PREPARING.of(facts), FIX.of(facts)),
        )
    } else {
        (
            "Loading and compiling code takes much of the time",
            "Before the first kernel can run, its code is loaded, and compiled if the file has only PTX for this GPU.",
            FIX.of(facts),
        )
    };
    Some(Claimed {
        finding: Finding {
            id: Id::ColdStart,
            title: title.to_owned(),
            evidence: Evidence {
                text,
                count: loads,
                total: Some(Sum { value: ns, lo: ns, hi: ns }),
                source,
                ..Evidence::default()
            },
            explanation: explanation.to_owned(),
            fix,
            saves: Estimate::exactly(0),
        },
        claims: BTreeMap::from([
            (Bucket::StartUp, at_most(code)),
            (Bucket::Idle(Cause::SetUp), at_most(prepared)),
        ]),
        sites: Sites::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_took_time_is_said() {
        let outside = "2.50 s outside CUDA between the first launches, as in imports and compilers.";
        assert_eq!(evidence([0, 0], 4, 1, Some("LAZY"), 2_500_000_000), outside);
        let both = evidence([300_000_000, 0], 4, 1, Some("LAZY"), 2_500_000_000);
        assert!(
            both.starts_with("300 ms of loading and 0 ns of linking") && both.ends_with(outside),
            "{both}"
        );
        assert!(evidence([300_000_000, 0], 4, 1, None, 0).ends_with("libraries of kernels."));
    }

    /// Eight processes, which start together, seemed to load for longer than they ran.
    #[test]
    fn what_several_processes_load_is_said_of_each() {
        let text = evidence([8 * 300_000_000, 0], 8 * 4, 8, None, 0);
        let start = "300 ms of loading and 0 ns of linking before the first kernel in each of 8 processes, in 4 loads";
        assert!(text.starts_with(start), "{text}");
    }
}
