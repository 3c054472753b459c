//! What does a graph launch do to memory?
//!
//! A block is counted from the launch that allocates it, at that launch's place in the order of calls, whenever the
//! GPU gets to it. It is freed by the same launch if the graph also frees it. Otherwise it is freed by a call with
//! its address, by the launch of a graph that frees it, or by the next launch that allocates it: that launch would
//! have failed with the block still there (cuda.h, cuGraphLaunch), so the graph freed it (AUTO_FREE_ON_LAUNCH).
//!
//! **All blocks of one launch count as held at once**, whatever the order of the nodes, because that is the most that
//! it can hold; except blocks that share addresses, which never exist together. The least is the largest of them. Launches that run at the same time on
//! several streams are not added up: what each frees itself is counted launch by launch.

use super::{Allocator, Block, Blocks, MemoryChange, PendingFree};
use crate::trace::record::Work;
use gpuspy_wire::record::Memory;
use std::collections::BTreeMap;
use std::sync::OnceLock;

/// What one launch of a graph allocates and frees. Its size is that of the graph.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GraphMemory {
    /// Blocks that remain after the launch: first address → bytes.
    kept: BTreeMap<u64, u64>,
    /// Blocks that it allocates and frees: first address and bytes.
    passing: Vec<(u64, u64)>,
    /// First addresses of blocks that it frees but did not allocate.
    freed: Vec<u64>,
    /// The changes of each launch; computed at the first one.
    plan: OnceLock<Plan>,
}

/// The order in which blocks are allocated such that the most memory is held.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Plan {
    /// Remaining blocks that can exist beside all temporary ones: first addresses and bytes.
    before: Vec<(u64, u64)>,
    /// Temporary blocks: their number, the bytes of all, and the bytes of those that can exist at once.
    passing: [u64; 3],
    /// The bytes of the largest of these.
    largest: u64,
    /// Remaining blocks that share addresses with larger temporary ones.
    after: Vec<(u64, u64)>,
}

impl GraphMemory {
    /// Whether the graph does nothing to memory.
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty() && self.passing.is_empty() && self.freed.is_empty()
    }

    /// Adds a node that allocates a block. Nodes come in an order in which the graph uses an address again.
    pub fn takes(&mut self, address: u64, bytes: u64) {
        self.plan.take();
        let before = self.kept.insert(address, bytes);
        self.passing.extend(before.map(|bytes| (address, bytes)));
    }

    /// Adds a node that frees the block at an address.
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
            // Of blocks that share addresses, count the largest as existing beside the others.
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
                    plan.largest = plan.largest.max(bytes);
                    let sums = plan.passing.iter_mut().zip([1, bytes, at_once]);
                    sums.for_each(|(sum, more)| *sum = sum.saturating_add(more));
                }
            }
            plan
        })
    }
}

impl Blocks {
    /// Takes a launch of a graph.
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
        let Plan { before, passing: [blocks, bytes, at_once], largest, after } = graph.plan();
        let came = |&(_, bytes): &(u64, u64)| MemoryChange::Allocated { memory, bytes, of };
        changes.extend(before.iter().map(came));
        if *blocks > 0 {
            changes.push(MemoryChange::Passed {
                memory,
                blocks: *blocks,
                bytes: *bytes,
                at_once: *at_once,
                largest: *largest,
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

/// Interprets a block that overlaps a launch's allocation: the launch freed a graph's block; of another block, the
/// free's record was lost.
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

    /// Nodes: an address with the bytes that are allocated there, or an address that is freed.
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

    /// Bytes that are allocated (negative: freed), or temporary blocks: their number, the bytes of all, and those at
    /// once.
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
    fn blocks_that_a_graph_frees_itself_count_at_once_and_the_others_stay() {
        let mut blocks = Blocks::default();
        let serial = graph(&[(100, Some(10)), (100, None), (200, Some(20)), (200, None), (300, Some(30))]);
        assert_eq!(launched(&mut blocks, &serial), [By(30), Passed(2, 30, 30)]);
        assert_eq!((blocks.kind_of(300), blocks.kind_of(100)), (Some(Memory::Graph), None));
        assert_eq!(launched(&mut blocks, &serial), [By(-30), By(30), Passed(2, 30, 30)], "freed by the next");
    }

    #[test]
    fn blocks_that_share_an_address_never_exist_together() {
        let mut blocks = Blocks::default();
        let once = [(100, Some(8)), (100, None), (100, Some(10)), (100, None), (105, Some(2)), (105, None)];
        assert_eq!(launched(&mut blocks, &graph(&once)), [Passed(3, 20, 10)]);
        let mut kept = graph(&[(100, Some(10)), (100, None), (100, Some(8)), (200, Some(5))]);
        let larger = [By(5), Passed(1, 10, 10), By(8)];
        assert_eq!(launched(&mut blocks, &kept), larger, "it may exist beside all others");
        assert_eq!((blocks.kind_of(107), blocks.kind_of(108)), (Some(Memory::Graph), None));
        kept.frees(200);
        assert_eq!(launched(&mut blocks, &kept), [By(-8), Passed(2, 15, 15), By(8)], "reported late");
    }

    #[test]
    fn a_block_is_freed_by_a_call_or_another_graphs_launch_but_not_with_its_context() {
        let mut blocks = Blocks::default();
        let (taking, freeing) = (graph(&[(100, Some(10))]), graph(&[(100, None)]));
        assert_eq!(launched(&mut blocks, &taking), [By(10)]);
        assert_eq!(launched(&mut blocks, &freeing), [By(-10)]);
        assert_eq!(launched(&mut blocks, &freeing), [], "the launch that allocated it was not recorded");
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
