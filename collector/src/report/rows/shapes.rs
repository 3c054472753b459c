//! The most common launch shape of a kernel, and how well it fills a GPU.

use crate::analyze::shapes::{Launched, Shapes};
use crate::model::multiprocessor::Limit;
use schemars::JsonSchema;
use serde::Serialize;

/// The most common launch shape of a kernel, and what is known about the kernel in that shape.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Shape {
    /// In how many shapes (threads and dynamic shared memory of a block, on one kind of GPU) it was launched, 64 at
    /// most. What follows (threads to loaded_by) is about the one with the most launches; null = not known.
    pub shapes: u64,
    /// Threads of a block.
    pub threads: Option<u32>,
    /// Dynamic shared memory of a block, as launched.
    pub dynamic_shared_bytes: Option<u32>,
    /// Static shared memory of a block, as compiled.
    pub static_shared_bytes: Option<u32>,
    /// Registers of a thread.
    #[schemars(range(min = 1))]
    pub registers: Option<u32>,
    /// Local memory of a thread: spilled registers, arrays indexed at run time.
    pub local_bytes: Option<u32>,
    /// Blocks that a multiprocessor can hold at a time.
    #[schemars(range(min = 1))]
    pub blocks_per_multiprocessor: Option<u32>,
    /// The warps of those blocks, as a part of what a multiprocessor can hold. What a launch achieves may be less.
    #[schemars(range(min = 0))]
    pub theoretical_occupancy: Option<f64>,
    /// The same as far as the blocks of a launch reach, spread evenly: of the launch with the fewest blocks and of that
    /// with the most. What exports call est. achieved occupancy %; nothing is measured.
    pub est_achieved_occupancy: Option<Between>,
    /// Blocks of a launch, by the blocks that the whole GPU can hold at a time: of the smallest launch and of the
    /// largest.
    pub waves: Option<Between>,
    /// What limits the blocks of a multiprocessor; several if they are reached at once, none if not known.
    #[schemars(extend("items" = { "enum": Limit::ALL.map(Limit::name) }))]
    pub limited_by: Vec<&'static str>,
    /// The file that the kernel is from: which holds its host stub, or called for its module to be loaded.
    pub library: Option<String>,
    /// The driver's function by which the program loaded its module; null where the runtime did that.
    pub loaded_by: Option<String>,
}

/// The smallest and the largest of several values.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Between {
    /// The smallest value.
    #[schemars(range(min = 0))]
    pub min: f64,
    /// The largest value.
    #[schemars(range(min = 0))]
    pub max: f64,
}

impl Shape {
    /// Returns the row of the most common of these shapes.
    pub fn of(shapes: &Shapes) -> Shape {
        let launched = shapes.commonest();
        let said = launched.and_then(|launched| launched.said.as_ref());
        let known = |number: u32| (number > 0).then_some(number);
        let between = |(min, max): (f64, f64)| Between { min, max };
        let limits = said.map(|said| said.limits.iter().map(|limit| limit.name()).collect());
        Shape {
            shapes: shapes.list.len() as u64,
            threads: launched.map(|launched| launched.threads),
            dynamic_shared_bytes: launched.map(|launched| launched.dynamic_shared_bytes),
            static_shared_bytes: said.map(|said| said.static_shared_bytes),
            registers: said.and_then(|said| known(said.registers)),
            local_bytes: said.map(|said| said.local_bytes),
            blocks_per_multiprocessor: said.and_then(|said| known(said.blocks_per_multiprocessor)),
            theoretical_occupancy: launched.and_then(Launched::occupancy),
            est_achieved_occupancy: launched.and_then(Launched::achieved).map(between),
            waves: launched.and_then(Launched::waves).map(between),
            limited_by: limits.unwrap_or_default(),
            library: said.and_then(|said| said.library.clone()),
            loaded_by: said.and_then(|said| said.loaded_by.clone()),
        }
    }
}
