//! What the findings about grids share: kernels that take a good part of the time and are launched in one shape.

use super::super::Facts;
use super::super::buckets::Bucket;
use crate::analyze::kernels::Kernel;
use crate::analyze::shapes::Launched;

/// The share of a kernel's launches that its commonest shape has to have, so that its time is the time of that shape.
const NEARLY_ALL: f64 = 0.9;

/// A kernel, and the shape that nearly all of its launches have.
#[derive(Clone, Copy, Debug)]
pub struct OneShape<'a> {
    /// The kernel.
    pub kernel: &'a Kernel,
    /// The shape.
    pub shape: &'a Launched,
    /// The fewest and the most blocks of a launch.
    pub blocks: (u64, u64),
    /// The time of all launches, ns.
    pub total: u64,
}

/// Returns the time of all kernels, ns.
pub fn time_of_all(facts: &Facts<'_>) -> u64 {
    facts.all.kernels.iter().filter_map(|kernel| kernel.total()).map(|total| total.value).sum()
}

/// Returns the kernels of one shape whose launches take at least `least` ns on average, and together at least `share` of
/// the time that kernels keep the GPU busy. Communication kernels have few blocks on purpose.
pub fn kernels<'a>(facts: &Facts<'a>, least: u64, share: f64) -> Vec<OneShape<'a>> {
    let busy = facts.buckets.get(Bucket::Compute).value as f64 * facts.gpus() as f64;
    let of = |kernel: &'a Kernel| {
        let shape = kernel.shapes.commonest()?;
        let total = kernel.total()?.value;
        let is_typical = shape.launches as f64 >= NEARLY_ALL * kernel.count as f64;
        let is_long = total >= least.saturating_mul(kernel.count) && total as f64 >= share * busy;
        let is_meant = is_typical && is_long && total > 0 && !kernel.communication;
        is_meant.then_some(OneShape { kernel, shape, blocks: shape.blocks?, total })
    };
    facts.all.kernels.iter().filter_map(of).collect()
}
