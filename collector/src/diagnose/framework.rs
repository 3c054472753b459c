//! Advice in the words of the framework that the program uses.

use super::Facts;
use crate::model::framework::Framework;
use crate::model::steps::is_optimizer;

/// The same advice in the words of each framework.
#[derive(Clone, Copy, Debug)]
pub struct Advice {
    /// For PyTorch.
    pub pytorch: &'static str,
    /// For JAX.
    pub jax: &'static str,
    /// For programs that call CUDA themselves.
    pub cuda: &'static str,
}

impl Advice {
    /// Returns the advice in the words of the framework of a run's processes. If they use several, the words are
    /// those of CUDA, which are true of all.
    pub fn of(&self, facts: &Facts<'_>) -> String {
        let mut frameworks = facts.reports.iter().map(|report| report.process.framework);
        let first = frameworks.next().unwrap_or_default();
        let words = match if frameworks.all(|other| other == first) { first } else { Framework::Cuda } {
            Framework::PyTorch => self.pytorch,
            Framework::Jax => self.jax,
            Framework::Cuda => self.cuda,
        };
        words.to_owned()
    }
}

/// Whether a part of a PyTorch program is compiled, or replayed as a CUDA graph: Inductor's kernels have names that begin
/// with `triton_`. To compile the program is no advice then, but to compile the rest of it.
pub fn is_partly_compiled(facts: &Facts<'_>) -> bool {
    facts.all.graphs.launches > 0
        || facts.all.kernels.iter().any(|kernel| kernel.symbol.starts_with("triton_"))
}

/// Whether nothing of a PyTorch program says that it trains: no kernel and no line of a backward pass, and no optimizer's
/// kernel.
pub fn only_infers(facts: &Facts<'_>) -> bool {
    let is_pytorch = facts.reports.iter().all(|report| report.process.framework == Framework::PyTorch);
    let is_backward = |name: &str| name.to_ascii_lowercase().contains("backward");
    let mut kernels = facts.all.kernels.iter().map(|kernel| kernel.symbol.as_str());
    // A line that waits for the backward pass says so.
    let mut lines = facts.all.source_lines.rows.keys().flatten();
    let trains = kernels.any(|symbol| is_backward(symbol) || is_optimizer(symbol))
        || lines.any(|line| is_backward(&line.function));
    is_pytorch && !trains
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyze::ranks::Ranks;
    use crate::analyze::{ProcessInfo, ProcessReport, Tables};
    use crate::diagnose::buckets::Buckets;

    #[test]
    fn advice_is_in_the_words_of_the_framework_that_all_processes_use() {
        let advice = Advice { pytorch: "torch", jax: "jax", cuda: "cuda" };
        let report = |framework| ProcessReport {
            process: ProcessInfo { framework, ..ProcessInfo::default() },
            tables: Tables::default(),
            together: None,
            findings: None,
        };
        let of = |frameworks: &[Framework]| {
            let reports: Vec<_> = frameworks.iter().copied().map(report).collect();
            let (all, buckets) = (Tables::default(), Buckets::default());
            advice.of(&Facts { reports: &reports, all: &all, buckets: &buckets, ranks: &Ranks::default() })
        };
        assert_eq!(of(&[Framework::PyTorch, Framework::PyTorch]), "torch");
        assert_eq!(of(&[Framework::Jax]), "jax");
        assert_eq!(of(&[Framework::PyTorch, Framework::Cuda]), "cuda");
        assert_eq!(of(&[]), "cuda");
    }
}
