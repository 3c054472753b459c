//! What does a graph launch run?
//!
//! An executable graph has a number for its present contents; an update gives it another one. Records of two threads
//! can arrive in another order than they were made, so a graph's contents under its previous numbers are kept
//! too.

use super::memory::graph::GraphMemory;
use crate::hash::HashMap;
use crate::trace::record::{Graph, GraphNode};
use gpuspy_wire::record::NodeKind;
use std::collections::VecDeque;
use std::sync::Arc;

/// The number of replaced contents that are kept.
const KEPT: usize = 4096;

/// Nodes that copy or set memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moves {
    /// The number of nodes.
    pub count: u64,
    /// Bytes of all of them.
    pub bytes: u64,
}

impl Moves {
    /// Adds others.
    pub fn add(&mut self, other: Moves) {
        self.count = self.count.saturating_add(other.count);
        self.bytes = self.bytes.saturating_add(other.bytes);
    }
}

/// What one launch of a graph runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// The number of kernels.
    pub kernel_count: u64,
    /// Kernels by name, in [`gpuspy_wire::record::Namespace::Kernel`] (0 = unknown), with the number of each.
    pub kernels: Vec<(u32, u64)>,
    /// Copies.
    pub copies: Moves,
    /// Memsets.
    pub sets: Moves,
    /// The number of nodes of other kinds, including those that allocate or free memory.
    pub others: u64,
    /// What the graph allocates and frees.
    pub memory: GraphMemory,
}

impl Contents {
    /// The number of kernels whose names were lost.
    pub fn unnamed(&self) -> u64 {
        let named = self.kernels.iter().fold(0, |sum: u64, (_, count)| sum.saturating_add(*count));
        self.kernel_count.saturating_sub(named)
    }
}

/// The graphs of a process.
#[derive(Debug, Default)]
pub struct Graphs {
    by_number: HashMap<u32, Arc<Contents>>,
    /// CUgraphExec → its present number.
    numbers: HashMap<u64, u32>,
    replaced: VecDeque<u32>,
}

impl Graphs {
    /// Takes a graph's new number; records of its contents follow.
    pub fn define(&mut self, graph: &Graph) {
        let contents = Contents {
            kernel_count: u64::from(graph.kernels),
            copies: Moves { count: u64::from(graph.copies), bytes: 0 },
            sets: Moves { count: u64::from(graph.memsets), bytes: 0 },
            others: u64::from(graph.others),
            ..Contents::default()
        };
        self.by_number.insert(graph.graph, Arc::new(contents));
        self.replaced.extend(self.numbers.insert(graph.handle, graph.graph));
        if self.replaced.len() > KEPT
            && let Some(oldest) = self.replaced.pop_front()
        {
            self.by_number.remove(&oldest);
        }
    }

    /// Takes a record of its nodes of one kind.
    pub fn holds(&mut self, node: &GraphNode) {
        let Some(contents) = self.by_number.get_mut(&node.graph) else { return };
        let contents = Arc::make_mut(contents);
        match node.kind {
            NodeKind::Kernel => contents.kernels.push((node.kernel, u64::from(node.count))),
            NodeKind::Copy => contents.copies.bytes = node.bytes,
            NodeKind::Set => contents.sets.bytes = node.bytes,
            NodeKind::Alloc => contents.memory.takes(node.address, node.bytes),
            NodeKind::Free => contents.memory.frees(node.address),
            NodeKind::Other => {}
        }
    }

    /// The contents that a launch ran, by the graph's number; if that is unknown, the counts in the launch's own
    /// record.
    pub fn launched(&self, graph: u32, kernels: u32, copies: u32, sets: u32) -> Arc<Contents> {
        let moves = |count: u32| Moves { count: u64::from(count), bytes: 0 };
        self.by_number.get(&graph).cloned().unwrap_or_else(|| {
            let kernel_count = u64::from(kernels);
            Arc::new(Contents {
                kernel_count,
                copies: moves(copies),
                sets: moves(sets),
                ..Contents::default()
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(graph: u32, handle: u64, kernels: u32) -> Graph {
        Graph { graph, handle, kernels, copies: 2, memsets: 1, others: 0 }
    }

    fn node(graph: u32, kind: NodeKind, kernel: u32, count: u32, bytes: u64) -> GraphNode {
        GraphNode { graph, kind, kernel, count, bytes, address: 0 }
    }

    #[test]
    fn a_launch_runs_what_its_graph_held_under_that_number() {
        let mut graphs = Graphs::default();
        graphs.define(&graph(1, 0x10, 5));
        graphs.holds(&node(1, NodeKind::Kernel, 7, 3, 0));
        graphs.holds(&node(1, NodeKind::Copy, 0, 2, 4096));
        graphs.define(&graph(2, 0x10, 1));
        let first = graphs.launched(1, 5, 2, 1);
        assert_eq!(
            (first.kernels.as_slice(), first.unnamed()),
            ([(7, 3)].as_slice(), 2),
            "two names were lost"
        );
        assert_eq!(
            (first.copies, first.sets),
            (Moves { count: 2, bytes: 4096 }, Moves { count: 1, bytes: 0 })
        );
        assert_eq!(graphs.launched(2, 1, 2, 1).kernel_count, 1);
        assert_eq!(graphs.launched(9, 4, 0, 0).unnamed(), 4, "unknown graph: the launch's own count");
    }

    #[test]
    fn old_contents_of_a_graph_that_keeps_changing_are_dropped() {
        let mut graphs = Graphs::default();
        graphs.define(&graph(1_000_000, 0x20, 8));
        for number in 1..=2 * KEPT as u32 {
            graphs.define(&graph(number, 0x10, 3));
        }
        assert_eq!(
            graphs.by_number.len(),
            KEPT + 2,
            "the present contents, and the latest that were replaced"
        );
        assert_eq!(graphs.launched(1_000_000, 0, 0, 0).kernel_count, 8, "another graph stays");
    }
}
