//! Event nodes in an app's graph, for as long as the driver makes an executable graph of it, or updates one.
//!
//! An executable graph is a snapshot: what is put into a graph before the call, and taken out after it, is in the
//! executable graph and nowhere else. Each kernel node gets a node that records an event in front of it and one behind:
//!
//! ```text
//! dependencies ──┬──────────▸ kernel ─▸ end
//!                └─▸ start ──▸
//! ```
//!
//! Nodes and edges of the app's own are never taken away, so their order stays what it was, by which an update pairs the
//! nodes of two graphs (cuda.h, cuGraphExecUpdate). Child graphs are left alone: the app may replace them by its own, which
//! would not match. So are graphs
//!
//! - whose nodes cannot be taken out again: with memory nodes (cuda.h, cuGraphDestroyNode);
//! - with conditional nodes, of which there can be one instantiation only;
//! - with programmatic edges, which an event between would serialise;
//! - with kernels of another context than the events'.

use crate::cuda::*;
use crate::driver::Driver;
use crate::gpu::nodes::Pair;

/// Kernels of a graph that are timed at most; those behind are left alone.
const MOST_KERNELS: usize = 2048;

/// Our nodes in a graph. Dropped, they are out again.
pub struct Inserted {
    driver: &'static Driver,
    /// Each with the kernel node that it stands beside.
    nodes: Vec<(CUgraphNode, CUgraphNode)>,
}

impl Drop for Inserted {
    fn drop(&mut self) {
        let Some(destroy) = self.driver.destroy_node else { return };
        for (node, _) in self.nodes.drain(..).rev() {
            // SAFETY: a node that we added to a graph which the app's own call is still using.
            unsafe { destroy(node) };
        }
    }
}

impl Inserted {
    /// Puts a pair of events around each of a graph's kernels, with as many pairs as there are. `None`: it cannot be done,
    /// and the graph is as it was.
    pub fn new(
        driver: &'static Driver,
        graph: CUgraph,
        kernels: &[CUgraphNode],
        pairs: &[Pair],
    ) -> Option<Inserted> {
        let edges = edges(driver, graph)?;
        let mut inserted = Inserted { driver, nodes: Vec::with_capacity(2 * kernels.len()) };
        for (&kernel, &[start, end]) in kernels.iter().zip(pairs) {
            let first = edges.partition_point(|(to, _)| *to < kernel as usize);
            let before = edges.get(first..)?.iter().take_while(|(to, _)| *to == kernel as usize);
            let before: Vec<CUgraphNode> = before.map(|(_, from)| *from).collect();
            let node = inserted.add(graph, kernel, &before, start)?;
            // SAFETY: two nodes of this graph.
            if unsafe { (driver.add_edges?)(graph, &node, &kernel, 1) } != CUDA_SUCCESS {
                return None;
            }
            inserted.add(graph, kernel, &[kernel], end)?;
        }
        Some(inserted)
    }

    fn add(
        &mut self,
        graph: CUgraph,
        kernel: CUgraphNode,
        before: &[CUgraphNode],
        event: CUevent,
    ) -> Option<CUgraphNode> {
        let mut node: CUgraphNode = core::ptr::null_mut();
        // SAFETY: nodes of this graph, each once, and an event of ours; writes a place of ours.
        let added =
            unsafe { (self.driver.add_record_node?)(&mut node, graph, before.as_ptr(), before.len(), event) };
        (added == CUDA_SUCCESS).then(|| self.nodes.push((node, kernel)))?;
        Some(node)
    }

    /// The app's node that a node of ours stands beside.
    pub fn kernel_beside(&self, node: CUgraphNode) -> Option<CUgraphNode> {
        self.nodes.iter().find(|(ours, _)| *ours == node).map(|(_, kernel)| *kernel)
    }
}

/// A graph's own kernel nodes, if events may stand beside them.
pub fn kernels(driver: &Driver, graph: CUgraph) -> Option<Vec<CUgraphNode>> {
    let mut kernels = Vec::new();
    let mut graphs = vec![graph];
    while let Some(next) = graphs.pop() {
        for node in driver.nodes_of(next) {
            match driver.type_of_node(node) {
                NODE_MEMORY_ALLOC | NODE_MEMORY_FREE | NODE_CONDITIONAL => return None,
                NODE_GRAPH => graphs.push(driver.child_of(node)?),
                NODE_KERNEL if next == graph && kernels.len() < MOST_KERNELS => {
                    let context = driver.kernel_of_node(node)?.context;
                    if !context.is_null() && context != driver.current_context() {
                        return None;
                    }
                    kernels.push(node);
                }
                _ => {}
            }
        }
    }
    Some(kernels)
}

/// A graph's edges, by where they lead: (to, from). `None` also when an edge says more than that one node follows another:
/// drivers that have such edges have the second version of the question, which tells.
fn edges(driver: &Driver, graph: CUgraph) -> Option<Vec<(usize, CUgraphNode)>> {
    let ask = |from: *mut CUgraphNode, to: *mut CUgraphNode, data: *mut u64, count: &mut usize| {
        // SAFETY: a graph that the app is using; null arrays ask for the count, others are ours and have room for it.
        let result = unsafe {
            match driver.graph_edges_v2 {
                Some(ask) => ask(graph, from, to, data, count),
                None => (driver.graph_edges?)(graph, from, to, count),
            }
        };
        (result == CUDA_SUCCESS).then_some(())
    };
    let (mut count, none) = (0usize, core::ptr::null_mut());
    ask(none, none, core::ptr::null_mut(), &mut count)?;
    if count == 0 {
        return Some(Vec::new());
    }
    let no_node: CUgraphNode = core::ptr::null_mut();
    let (mut from, mut to, mut data) = (vec![no_node; count], vec![no_node; count], vec![0u64; count]);
    ask(from.as_mut_ptr(), to.as_mut_ptr(), data.as_mut_ptr(), &mut count)?;
    if data.iter().any(|data| *data != 0) {
        return None;
    }
    let mut edges: Vec<(usize, CUgraphNode)> =
        to.into_iter().zip(from).take(count).map(|(to, from)| (to as usize, from)).collect();
    edges.sort_by_key(|(to, _)| *to);
    Some(edges)
}
