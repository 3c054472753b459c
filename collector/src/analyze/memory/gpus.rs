//! How much memory does a process hold on each of its GPUs? Sums over GPUs hide one that is full.

use super::usage::Use;
use crate::hash::HashMap;
use crate::model::memory::{MemoryChange, fills_gpu};
use crate::trace::record::Context;
use std::collections::BTreeMap;

/// Device memory, without managed memory, by the GPU's ordinal in the process.
pub type ByGpu = BTreeMap<u32, Use>;

/// The fold over the changes of device memory of one process.
#[derive(Debug, Default)]
pub struct Gpus {
    /// The GPU of each context.
    contexts: HashMap<u32, u32>,
    by_gpu: ByGpu,
}

impl Gpus {
    /// Takes the record of a context, which says which GPU it is on.
    pub fn context(&mut self, context: &Context) {
        self.contexts.entry(context.context).or_insert(context.device);
    }

    /// Enters a part of the selected time, `at` ns since the collection began: what is held then may be the most.
    pub fn enters(&mut self, at: u64) {
        for held in self.by_gpu.values_mut() {
            held.raise_peak(at, 0);
        }
    }

    /// Applies a change, `at` ns since the collection began; `is_counted` if that is in the selected time. Memory of an
    /// unknown context is on no GPU here, and managed memory fills none.
    pub fn change(&mut self, change: &MemoryChange, at: u64, is_counted: bool) {
        let Some(gpu) = self.contexts.get(&change.allocator().context) else { return };
        let held = self.by_gpu.entry(*gpu).or_default();
        if !fills_gpu(change.memory()) {
            return;
        }
        held.change(*change, is_counted);
        if is_counted {
            let passing = if let MemoryChange::Passed { at_once, .. } = change { *at_once } else { 0 };
            held.raise_peak(at, passing);
        }
    }

    /// Returns what is held on each GPU now, bytes.
    pub fn held(&self) -> BTreeMap<u32, u64> {
        self.by_gpu.iter().map(|(gpu, held)| (*gpu, held.live_bytes)).collect()
    }

    /// Returns what was held on each GPU.
    pub fn finish(self) -> ByGpu {
        self.by_gpu
    }
}
