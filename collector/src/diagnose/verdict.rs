//! The verdict: what bounds the program, in at most three lines.

use super::Facts;
use super::finding::Finding;

/// What bounds a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Bound {
    /// Kernels: the GPU is busy.
    Gpu,
    /// The host cannot launch work as fast as the GPU runs it.
    Launches,
    /// The host is busy outside CUDA.
    Host,
    /// Synchronization empties the GPU's queue.
    Syncs,
    /// Copies that overlap no kernel.
    Copies,
    /// Allocating and freeing memory.
    Allocations,
    /// Communication that overlaps no other kernel.
    Communication,
    /// The time until the first kernel.
    StartUp,
}

/// The verdict on a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Verdict {
    /// What bounds it; `None` if that is not safe to say.
    pub bound: Option<Bound>,
    /// At most three sentences.
    pub text: Vec<String>,
    /// The bound's share of the wall time, 0 to 1.
    pub share: Option<f64>,
    /// The most that removing the bound would save, ns.
    pub saves: Option<u64>,
    /// Why no verdict is safe, and what to run again; `None` if it is.
    pub is_unsafe: Option<String>,
}

impl Verdict {
    /// Judges a run.
    pub fn of(_facts: &Facts<'_>, _findings: &[Finding]) -> Verdict {
        Verdict::default()
    }
}
