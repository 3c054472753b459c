//! Advice in the words of the framework that the program uses.

use super::Facts;
use crate::model::framework::Framework;

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
