//! What a graph's launches do to memory.
//!
//! A block comes with the launch that takes it, at that launch's place in the order, whenever the GPU comes to it. It goes
//! with the same launch where the graph frees it too; else by a free of its address, by the launch of a graph that frees
//! it, or by the next launch that takes it: that would have failed with the block still there (cuda.h, cuGraphLaunch), so
//! the launch has freed it (AUTO_FREE_ON_LAUNCH).
//!
//! **Of one launch all that it takes is held at once**, whatever the order of its nodes, but for blocks that share
//! addresses, which are never there together: the most that it can hold. Launches that run at the same time on several
//! streams are not summed: what they free themselves is counted launch by launch.

use super::{Allocator, Block, Blocks, MemoryChange, PendingFree};
use crate::trace::record::Work;
use gpuspy_wire::record::Memory;
use std::collections::BTreeMap;

/// What one launch of a graph takes and frees. Its size is that of the graph.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GraphMemory {
    /// Blocks that are there after it: bytes, by first address.
    kept: BTreeMap<u64, u64>,
    /// Blocks that it takes and frees: first address and bytes.
    passing: Vec<(u64, u64)>,
    /// First addresses of blocks that it frees and did not take.
    freed: Vec<u64>,
}

impl GraphMemory {
    /// Whether it does nothing.
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty() && self.passing.is_empty() && self.freed.is_empty()
    }

    /// A node takes a block. Nodes come in an order in which a graph uses an address again.
    pub fn takes(&mut self, address: u64, bytes: u64) {
        let before = self.kept.insert(address, bytes);
        self.passing.extend(before.map(|bytes| (address, bytes)));
    }

    /// A node frees the block at an address.
    pub fn frees(&mut self, address: u64) {
        match self.kept.remove(&address) {
            Some(bytes) => self.passing.push((address, bytes)),
            None => self.freed.push(address),
        }
    }

    /// The blocks that it takes, parted: those that can be there together, the largest first; and the rest, each of which
    /// lies where a larger one does.
    fn parted(&self) -> (Vec<Taken>, Vec<Taken>) {
        let kept = self.kept.iter().map(|(&address, &bytes)| Taken { address, bytes, stays: true });
        let passing = self.passing.iter().map(|&(address, bytes)| Taken { address, bytes, stays: false });
        let mut taken: Vec<Taken> = kept.chain(passing).collect();
        taken.sort_by_key(|block| std::cmp::Reverse(block.bytes));
        let mut ends: BTreeMap<u64, u64> = BTreeMap::new();
        taken.into_iter().partition(|block| {
            let end = block.address.saturating_add(block.bytes.max(1));
            let below = ends.range(..end).next_back();
            let is_free = below.is_none_or(|(_, below)| *below <= block.address);
            if is_free {
                ends.insert(block.address, end);
            }
            is_free
        })
    }
}

/// A block that a launch takes.
#[derive(Clone, Copy, Debug)]
struct Taken {
    address: u64,
    bytes: u64,
    /// It is there after the launch.
    stays: bool,
}

impl Blocks {
    /// A graph was launched.
    pub fn graph_launched(&mut self, thread: u32, work: &Work, graph: &GraphMemory) -> Vec<MemoryChange> {
        if graph.is_empty() {
            return Vec::new();
        }
        let memory = Memory::Graph;
        let of = Allocator::of(thread, &work.call, memory, work.stream);
        let (together, alone) = graph.parted();
        let mut changes = Vec::new();
        for block in together.iter().chain(&alone) {
            changes.extend(self.displace(block.address, block.bytes).into_iter().map(freed_by_launch));
        }
        for come in [together.as_slice()].into_iter().chain(alone.chunks(1)) {
            changes.extend(come.iter().map(|&Taken { bytes, .. }| MemoryChange::Allocated {
                memory,
                bytes,
                of,
            }));
            let passing = come.iter().filter(|block| !block.stays);
            changes.extend(passing.map(|&Taken { bytes, .. }| MemoryChange::Freed { memory, bytes, of }));
        }
        for (&address, &bytes) in &graph.kept {
            self.addressed.insert(address, Block { memory, bytes, of, context: 0, handle: 0, references: 1 });
        }
        let mut others = PendingFree::default();
        for address in &graph.freed {
            if self.addressed.get(address).is_some_and(|block| block.memory == memory) {
                self.take(*address, &mut others);
            }
        }
        let freed = others.freed.into_iter();
        changes.extend(freed.map(|(memory, bytes, of)| MemoryChange::Freed { memory, bytes, of }));
        changes
    }
}

/// What lay where a launch took memory: a graph's block was freed by it, another's free was lost.
fn freed_by_launch(change: MemoryChange) -> MemoryChange {
    match change {
        MemoryChange::Vanished { memory: Memory::Graph, bytes, of } => {
            MemoryChange::Freed { memory: Memory::Graph, bytes, of }
        }
        change => change,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::simulation;
    use crate::trace::record::{Call, Free};

    /// Nodes: an address and bytes that are taken, or an address that is freed.
    fn graph(nodes: &[(u64, Option<u64>)]) -> GraphMemory {
        let mut graph = GraphMemory::default();
        for (address, bytes) in nodes {
            match bytes {
                Some(bytes) => graph.takes(*address, *bytes),
                None => graph.frees(*address),
            }
        }
        graph
    }

    fn launched(blocks: &mut Blocks, graph: &GraphMemory) -> Vec<i64> {
        let changes = blocks.graph_launched(1, &simulation::work(150, 50, 0), graph);
        let signed = |change: MemoryChange| match change {
            MemoryChange::Allocated { memory: Memory::Graph, bytes, .. } => bytes as i64,
            MemoryChange::Freed { memory: Memory::Graph, bytes, .. } => -(bytes as i64),
            other => panic!("{other:?}"),
        };
        changes.into_iter().map(signed).collect()
    }

    #[test]
    fn what_a_graph_frees_itself_is_held_at_once_and_the_rest_stays() {
        let mut blocks = Blocks::default();
        let serial = graph(&[(100, Some(10)), (100, None), (200, Some(20)), (200, None), (300, Some(30))]);
        assert_eq!(launched(&mut blocks, &serial), [30, 20, 10, -20, -10]);
        assert_eq!((blocks.kind_of(300), blocks.kind_of(100)), (Some(Memory::Graph), None));
        assert_eq!(launched(&mut blocks, &serial), [-30, 30, 20, 10, -20, -10], "freed by the next launch");
    }

    #[test]
    fn blocks_that_share_an_address_are_never_held_together() {
        let mut blocks = Blocks::default();
        let again =
            graph(&[(100, Some(10)), (100, None), (100, Some(8)), (100, None), (105, Some(2)), (105, None)]);
        assert_eq!(launched(&mut blocks, &again), [10, -10, 8, -8, 2, -2]);
        let kept = graph(&[(100, Some(10)), (100, None), (100, Some(8)), (200, Some(5))]);
        assert_eq!(
            launched(&mut blocks, &kept),
            [10, 5, -10, 8],
            "the larger one may be there with all others"
        );
        assert_eq!((blocks.kind_of(107), blocks.kind_of(108)), (Some(Memory::Graph), None));
    }

    #[test]
    fn a_block_goes_by_a_call_or_with_the_launch_of_another_graph_and_not_with_a_context() {
        let mut blocks = Blocks::default();
        let (taking, freeing) = (graph(&[(100, Some(10))]), graph(&[(100, None)]));
        assert_eq!(launched(&mut blocks, &taking), [10]);
        assert_eq!(launched(&mut blocks, &freeing), [-10]);
        assert_eq!(launched(&mut blocks, &freeing), [0; 0], "the launch that took it was not seen");
        launched(&mut blocks, &taking);
        assert!(blocks.context_destroyed(1).is_empty());
        let call = Call { correlation: 5, context: 1, ..Call::default() };
        let free = Free { call, memory: Memory::Pool, address: 100, stream: 0, bytes: 0 };
        let freed = blocks.freed(1, &free);
        assert!(
            matches!(freed[..], [MemoryChange::Freed { memory: Memory::Graph, bytes: 10, .. }]),
            "{freed:?}"
        );
        launched(&mut blocks, &taking);
    }
}
