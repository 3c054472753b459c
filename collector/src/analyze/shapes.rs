//! The shapes that kernels were launched in, and how well they fill a GPU.

use super::calls::base_name;
use crate::hash::HashMap;
use crate::model::facts::{Facts, Known, Shape};
use crate::model::multiprocessor::{Limit, WARP, limits};
use crate::model::{Action, Operation, Process, When};
use crate::trace::record::{Body, Device, KernelFacts, Names, Record, What, Work};
use gpuspy_wire::record::Namespace;
use std::collections::hash_map::Entry;

/// Shapes of a kernel that are distinguished.
const MOST: usize = 64;

/// The launches of one kernel in one shape, and what the driver reports about it.
#[derive(Clone, Debug, PartialEq)]
pub struct Launched {
    /// Threads of a block.
    pub threads: u32,
    /// Dynamic shared memory of a block, bytes.
    pub dynamic_shared_bytes: u32,
    /// Launches outside stream captures.
    pub launches: u64,
    /// Launches inside stream captures.
    pub captured: u64,
    /// The fewest and the most blocks of a launch; `None` if no launch was observed (the kernel is a node of a
    /// graph).
    pub blocks: Option<(u64, u64)>,
    /// The driver's facts about the kernel in this shape.
    pub said: Option<Said>,
}

/// What the driver reports about a kernel in a shape, on one GPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Said {
    /// Registers of a thread.
    pub registers: u32,
    /// Static shared memory of a block, bytes.
    pub static_shared_bytes: u32,
    /// Local memory of a thread, bytes.
    pub local_bytes: u32,
    /// Blocks that a multiprocessor holds at a time; 0 if not known.
    pub blocks_per_multiprocessor: u32,
    /// What limits them; empty if not known.
    pub limits: Vec<Limit>,
    /// Multiprocessors of the GPU; 0 if not known.
    pub multiprocessors: u32,
    /// Warps that a multiprocessor holds; 0 if not known.
    pub warps_per_multiprocessor: u32,
    /// The file that contains the kernel.
    pub library: Option<String>,
    /// The driver function that loaded its module, if the program called it.
    pub loaded_by: Option<String>,
}

impl Launched {
    /// Returns the occupancy if the blocks of a launch were spread evenly: for the launch with the fewest blocks, and
    /// for the one with the most. Kineto calls this the estimated achieved occupancy; it is not measured.
    pub fn achieved(&self) -> Option<(f64, f64)> {
        let (theoretical, (least, most)) = (self.occupancy()?, self.waves()?);
        Some((theoretical * least.min(1.0), theoretical * most.min(1.0)))
    }

    /// Returns the theoretical occupancy: the most warps of it that a multiprocessor holds, as a share of the warps
    /// that it can hold.
    pub fn occupancy(&self) -> Option<f64> {
        let said = self.said.as_ref()?;
        let warps = u64::from(said.blocks_per_multiprocessor) * u64::from(self.threads.div_ceil(WARP));
        let known = warps > 0 && said.warps_per_multiprocessor > 0;
        known.then(|| warps as f64 / f64::from(said.warps_per_multiprocessor))
    }

    /// Returns the number of its blocks that the GPU holds.
    pub fn resident(&self) -> Option<u64> {
        let said = self.said.as_ref()?;
        let blocks = u64::from(said.blocks_per_multiprocessor) * u64::from(said.multiprocessors);
        (blocks > 0).then_some(blocks)
    }

    /// Returns how many times the blocks of a launch fill the GPU: the fewest and the most.
    pub fn waves(&self) -> Option<(f64, f64)> {
        let ((least, most), resident) = (self.blocks?, self.resident()? as f64);
        Some((least as f64 / resident, most as f64 / resident))
    }

    /// Returns the shared memory of a block, bytes.
    pub fn shared_bytes(&self) -> Option<u64> {
        let said = self.said.as_ref()?;
        Some(u64::from(self.dynamic_shared_bytes) + u64::from(said.static_shared_bytes))
    }

    fn is_like(&self, other: &Launched) -> bool {
        (self.threads, self.dynamic_shared_bytes, &self.said)
            == (other.threads, other.dynamic_shared_bytes, &other.said)
    }

    fn add(&mut self, other: &Launched) {
        self.launches += other.launches;
        self.captured += other.captured;
        self.blocks = match (self.blocks, other.blocks) {
            (Some((a, b)), Some((c, d))) => Some((a.min(c), b.max(d))),
            (one, other) => one.or(other),
        };
    }
}

/// All shapes of a kernel.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Shapes {
    /// Those that are kept apart, the most launched first.
    pub list: Vec<Launched>,
    /// Launches in other shapes.
    pub others: u64,
}

impl Shapes {
    /// Returns the shape with the most launches, and of equal ones the one that was captured most.
    pub fn commonest(&self) -> Option<&Launched> {
        self.list.first()
    }

    /// Adds another's.
    pub fn merge(&mut self, other: &Shapes) {
        self.others += other.others;
        other.list.iter().for_each(|launched| self.add(launched.clone()));
        self.sort();
    }

    fn add(&mut self, launched: Launched) {
        if let Some(mine) = self.list.iter_mut().find(|mine| mine.is_like(&launched)) {
            mine.add(&launched);
        } else if self.list.len() < MOST {
            self.list.push(launched);
        } else {
            self.others += launched.launches;
        }
    }

    /// Sorts the shapes, and drops those without a launch unless graphs run the kernel: the driver's facts also cover
    /// launches that the filter leaves out.
    pub fn settle(&mut self, is_in_graphs: bool) {
        self.list.retain(|launched| launched.blocks.is_some() || is_in_graphs);
        self.sort();
    }

    fn sort(&mut self) {
        let rank = |l: &Launched| (l.launches, l.captured, l.blocks, l.threads, l.dynamic_shared_bytes);
        self.list.sort_by_key(|launched| std::cmp::Reverse(rank(launched)));
    }
}

/// How often a shape was launched.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    launches: u64,
    captured: u64,
    blocks: (u64, u64),
}

/// Counts launches by shape. Its size grows with the number of different kernels.
#[derive(Debug, Default)]
pub struct ShapeCounts {
    counts: HashMap<Shape, Count>,
    /// By kernel.
    kernels: HashMap<u32, Kept>,
}

/// What is kept of a kernel's shapes.
#[derive(Clone, Copy, Debug, Default)]
struct Kept {
    /// The number of its shapes.
    shapes: usize,
    /// Launches in shapes beyond the limit.
    others: u64,
}

impl ShapeCounts {
    /// Counts an operation that its record describes, if it is a kernel launch.
    pub fn observe(&mut self, record: &Record, operation: &Operation) {
        let (Action::Kernel { name, .. }, Body::Work(work)) = (operation.what, &record.body) else {
            return;
        };
        let Work { what: What::Kernel { grid, block, shared_bytes, .. }, .. } = *work else { return };
        let is_captured = operation.when == When::Captured;
        let blocks = grid.into_iter().map(u64::from).fold(1, u64::saturating_mul);
        let Some(count) = self.count(Shape::of(name, operation.context, block, shared_bytes), blocks) else {
            self.kernels.entry(name).or_default().others += u64::from(!is_captured);
            return;
        };
        count.launches += u64::from(!is_captured);
        count.captured += u64::from(is_captured);
        count.blocks = (count.blocks.0.min(blocks), count.blocks.1.max(blocks));
    }

    /// Returns the count of a shape, or `None` if its kernel has too many shapes.
    fn count(&mut self, shape: Shape, blocks: u64) -> Option<&mut Count> {
        match self.counts.entry(shape) {
            Entry::Occupied(known) => Some(known.into_mut()),
            Entry::Vacant(new) => {
                let kept = self.kernels.entry(shape.kernel).or_default();
                kept.shapes += 1;
                (kept.shapes <= MOST)
                    .then(|| new.insert(Count { blocks: (blocks, blocks), ..Count::default() }))
            }
        }
    }

    /// Returns the shapes of each kernel, with the driver's facts about them, by the kernel's `symbol`.
    pub fn by_symbol<'s>(
        mut self,
        symbol: impl Fn(u32) -> &'s str,
        known: &Process,
        names: &Names,
    ) -> HashMap<&'s str, Shapes> {
        let mut by_symbol: HashMap<&str, Shapes> = HashMap::default();
        for (kernel, kept) in &self.kernels {
            by_symbol.entry(symbol(*kernel)).or_default().others += kept.others;
        }
        // A kernel that graphs run may never have been launched by itself.
        known.facts.all().for_each(|(shape, _)| {
            self.count(*shape, 0);
        });
        let mut counts: Vec<(Shape, Count)> = self.counts.into_iter().collect();
        counts.sort_by_key(|(shape, _)| *shape);
        for (shape, count) in counts {
            by_symbol.entry(symbol(shape.kernel)).or_default().add(Launched {
                threads: shape.threads,
                dynamic_shared_bytes: shape.shared_bytes,
                launches: count.launches,
                captured: count.captured,
                blocks: (count.launches + count.captured > 0).then_some(count.blocks),
                said: said(&known.facts, &shape, known, names),
            });
        }
        by_symbol
    }
}

/// Returns the driver's facts about a shape.
fn said(facts: &Facts, shape: &Shape, known: &Process, names: &Names) -> Option<Said> {
    let Known { facts, loaded_by } = facts.of(shape)?;
    let device = known.context_devices.get(&shape.context).and_then(|device| known.devices.get(device));
    // Modules that a runtime loads are not loaded by the program, and a runtime contains no kernel of the program.
    let file = |address| {
        known.modules.resolve(address, names).map(|site| site.path).filter(|path| !is_runtime(path))
    };
    let load = loaded_by.filter(|load| file(load.caller).is_some());
    let api = load.and_then(|load| names.get(Namespace::Api, load.api.into()));
    Some(Said {
        library: file(facts.origin),
        loaded_by: api.map(|api| base_name(api).to_owned()),
        ..reported(facts, device)
    })
}

fn reported(facts: &KernelFacts, device: Option<&Device>) -> Said {
    let limits = |device: &Device| limits(facts, device.capability, device.warps_per_multiprocessor);
    Said {
        registers: facts.registers.into(),
        static_shared_bytes: facts.static_shared_bytes,
        local_bytes: facts.local_bytes,
        blocks_per_multiprocessor: facts.blocks_per_multiprocessor.into(),
        limits: device.map(limits).unwrap_or_default(),
        multiprocessors: device.map_or(0, |device| device.multiprocessors),
        warps_per_multiprocessor: device.map_or(0, |device| device.warps_per_multiprocessor),
        ..Said::default()
    }
}

fn is_runtime(path: &str) -> bool {
    path.rsplit('/').next().is_some_and(|name| name.starts_with("libcudart.so"))
}
