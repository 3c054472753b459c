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
use std::sync::OnceLock;

/// What one launch of a graph takes and frees. Its size is that of the graph.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GraphMemory {
    /// Blocks that are there after it: bytes, by first address.
    kept: BTreeMap<u64, u64>,
    /// Blocks that it takes and frees: first address and bytes.
    passing: Vec<(u64, u64)>,
    /// First addresses of blocks that it frees and did not take.
    freed: Vec<u64>,
    /// What follows for each launch; worked out at the first one.
    plan: OnceLock<Plan>,
}

/// In which order blocks come, so that the most is held that can be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Plan {
    /// Blocks that stay, first addresses and bytes: those that can be there beside all that pass.
    before: Vec<(u64, u64)>,
    /// How many blocks pass, bytes of all, and of those that can be there at once.
    passing: [u64; 3],
    /// Blocks that stay where larger ones pass.
    after: Vec<(u64, u64)>,
}

impl GraphMemory {
    /// Whether it does nothing.
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty() && self.passing.is_empty() && self.freed.is_empty()
    }

    /// A node takes a block. Nodes come in an order in which a graph uses an address again.
    pub fn takes(&mut self, address: u64, bytes: u64) {
        self.plan.take();
        let before = self.kept.insert(address, bytes);
        self.passing.extend(before.map(|bytes| (address, bytes)));
    }

    /// A node frees the block at an address.
    pub fn frees(&mut self, address: u64) {
        self.plan.take();
        match self.kept.remove(&address) {
            Some(bytes) => self.passing.push((address, bytes)),
            None => self.freed.push(address),
        }
    }

    fn plan(&self) -> &Plan {
        self.plan.get_or_init(|| {
            let kept = self.kept.iter().map(|(&address, &bytes)| (address, bytes, true));
            let passing = self.passing.iter().map(|&(address, bytes)| (address, bytes, false));
            let mut taken: Vec<(u64, u64, bool)> = kept.chain(passing).collect();
            // Of blocks that share addresses the largest is there beside the others.
            taken.sort_by_key(|(_, bytes, _)| std::cmp::Reverse(*bytes));
            let (mut plan, mut ends) = (Plan::default(), BTreeMap::new());
            for (address, bytes, stays) in taken {
                let end = address.saturating_add(bytes.max(1));
                let below = ends.range(..end).next_back();
                let is_free = below.is_none_or(|(_, below): (&u64, &u64)| *below <= address);
                if is_free {
                    ends.insert(address, end);
                }
                if stays {
                    let place = if is_free { &mut plan.before } else { &mut plan.after };
                    place.push((address, bytes));
                } else {
                    let at_once = if is_free { bytes } else { 0 };
                    let sums = plan.passing.iter_mut().zip([1, bytes, at_once]);
                    sums.for_each(|(sum, more)| *sum = sum.saturating_add(more));
                }
            }
            plan
        })
    }
}

impl Blocks {
    /// A graph was launched.
    pub fn graph_launched(&mut self, thread: u32, work: &Work, graph: &GraphMemory) -> Vec<MemoryChange> {
        if graph.is_empty() {
            return Vec::new();
        }
        let memory = Memory::Graph;
        let of = Allocator::of(thread, &work.call, memory, work.stream);
        let mut changes = Vec::new();
        for (&address, &bytes) in &graph.kept {
            changes.extend(self.displace(address, bytes).into_iter().map(freed_by_launch));
            self.addressed.insert(address, Block { memory, bytes, of, context: 0, handle: 0, references: 1 });
        }
        let Plan { before, passing: [blocks, bytes, at_once], after } = graph.plan();
        let came = |&(_, bytes): &(u64, u64)| MemoryChange::Allocated { memory, bytes, of };
        changes.extend(before.iter().map(came));
        if *blocks > 0 {
            changes.push(MemoryChange::Passed {
                memory,
                blocks: *blocks,
                bytes: *bytes,
                at_once: *at_once,
                of,
            });
        }
        changes.extend(after.iter().map(came));
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

    /// Bytes that come, or go where negative, or that pass: of how many blocks, of all, and at once.
    #[derive(Debug, PartialEq)]
    enum Change {
        By(i64),
        Passed(u64, u64, u64),
    }
    use Change::{By, Passed};

    fn launched(blocks: &mut Blocks, graph: &GraphMemory) -> Vec<Change> {
        let changes = blocks.graph_launched(1, &simulation::work(150, 50, 0), graph);
        let short = |change: MemoryChange| match change {
            MemoryChange::Allocated { memory: Memory::Graph, bytes, .. } => By(bytes as i64),
            MemoryChange::Freed { memory: Memory::Graph, bytes, .. } => By(-(bytes as i64)),
            MemoryChange::Passed { memory: Memory::Graph, blocks, bytes, at_once, .. } => {
                Passed(blocks, bytes, at_once)
            }
            other => panic!("{other:?}"),
        };
        changes.into_iter().map(short).collect()
    }

    #[test]
    fn what_a_graph_frees_itself_is_held_at_once_and_the_rest_stays() {
        let mut blocks = Blocks::default();
        let serial = graph(&[(100, Some(10)), (100, None), (200, Some(20)), (200, None), (300, Some(30))]);
        assert_eq!(launched(&mut blocks, &serial), [By(30), Passed(2, 30, 30)]);
        assert_eq!((blocks.kind_of(300), blocks.kind_of(100)), (Some(Memory::Graph), None));
        assert_eq!(launched(&mut blocks, &serial), [By(-30), By(30), Passed(2, 30, 30)], "freed by the next");
    }

    #[test]
    fn blocks_that_share_an_address_are_never_held_together() {
        let mut blocks = Blocks::default();
        let once = [(100, Some(8)), (100, None), (100, Some(10)), (100, None), (105, Some(2)), (105, None)];
        assert_eq!(launched(&mut blocks, &graph(&once)), [Passed(3, 20, 10)]);
        let mut kept = graph(&[(100, Some(10)), (100, None), (100, Some(8)), (200, Some(5))]);
        let larger = [By(5), Passed(1, 10, 10), By(8)];
        assert_eq!(launched(&mut blocks, &kept), larger, "it may be there with all others");
        assert_eq!((blocks.kind_of(107), blocks.kind_of(108)), (Some(Memory::Graph), None));
        kept.frees(200);
        assert_eq!(launched(&mut blocks, &kept), [By(-8), Passed(2, 15, 15), By(8)], "told late");
    }

    #[test]
    fn a_block_goes_by_a_call_or_with_the_launch_of_another_graph_and_not_with_a_context() {
        let mut blocks = Blocks::default();
        let (taking, freeing) = (graph(&[(100, Some(10))]), graph(&[(100, None)]));
        assert_eq!(launched(&mut blocks, &taking), [By(10)]);
        assert_eq!(launched(&mut blocks, &freeing), [By(-10)]);
        assert_eq!(launched(&mut blocks, &freeing), [], "the launch that took it was not seen");
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
