//! How are events placed inside an app's graph? Event nodes are inserted while the driver instantiates or
//! updates an executable graph.
//!
//! An executable graph is a snapshot: nodes that are added to a graph before the call and removed after it
//! are in the executable graph and nowhere else. Each kernel node gets a node before it and one after it that
//! record events:
//!
//! ```text
//! dependencies ──┬──────────▸ kernel ─▸ end
//!                └─▸ start ──▸
//! ```
//!
//! The app's own nodes and edges are never removed, so their order stays the same. An update matches the
//! nodes of two graphs by that order (cuda.h, cuGraphExecUpdate). Child graphs are left alone: the app may
//! replace them by its own, which would not match. The following graphs are left alone, too:
//!
//! - graphs whose nodes cannot be removed again, because they have memory nodes (cuda.h, cuGraphDestroyNode);
//! - graphs with conditional nodes, which can be instantiated only once;
//! - graphs with programmatic edges, which an event in between would serialize;
//! - graphs with kernels of another context than the events'.

use crate::cuda::*;
use crate::driver::Driver;
use crate::gpu::nodes::Pair;
use crate::heap;

/// The number of kernels of a graph that are timed at most; the rest are left alone.
const MOST_KERNELS: usize = 2048;

/// An edge as (to, from).
pub type Edge = (usize, CUgraphNode);

/// Our nodes in a graph. Dropping it removes them.
pub struct Inserted {
    driver: &'static Driver,
    /// Each node with the kernel node that it belongs to.
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
    /// Adds a pair of event nodes around each of a graph's kernels, up to the number of pairs. `edges` are the graph's
    /// [`edges`]. `None`: this is impossible, and the graph is unchanged.
    pub fn new(
        driver: &'static Driver,
        graph: CUgraph,
        kernels: &[CUgraphNode],
        edges: &[Edge],
        pairs: &[Pair],
    ) -> Option<Inserted> {
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
        // SAFETY: distinct nodes of this graph and an event of ours; the call writes to a local variable.
        let added =
            unsafe { (self.driver.add_record_node?)(&mut node, graph, before.as_ptr(), before.len(), event) };
        (added == CUDA_SUCCESS).then(|| self.nodes.push((node, kernel)))?;
        Some(node)
    }

    /// The app's kernel node that a node of ours belongs to.
    pub fn kernel_next_to(&self, node: CUgraphNode) -> Option<CUgraphNode> {
        self.nodes.iter().find(|(ours, _)| *ours == node).map(|(_, kernel)| *kernel)
    }
}

/// A graph's own kernel nodes, if events that were created with this context current may be placed next to them.
pub fn kernels(driver: &Driver, graph: CUgraph, of_events: CUcontext) -> Option<Vec<CUgraphNode>> {
    let mut kernels = Vec::new();
    let mut graphs = vec![graph];
    while let Some(next) = graphs.pop() {
        for node in driver.nodes_of(next) {
            match driver.type_of_node(node) {
                NODE_MEMORY_ALLOC | NODE_MEMORY_FREE | NODE_CONDITIONAL => return None,
                NODE_GRAPH => graphs.push(driver.child_of(node)?),
                NODE_KERNEL if next == graph && kernels.len() < MOST_KERNELS => {
                    let context = driver.kernel_of_node(node)?.context;
                    if !context.is_null() && context != of_events {
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

/// A graph's edges, sorted by `to`. Also `None` if an edge means more than that one node follows another: drivers
/// that have such edges have the second version of the function, which returns the edge data.
pub fn edges(driver: &Driver, graph: CUgraph) -> Option<Vec<Edge>> {
    let get = |from: *mut CUgraphNode, to: *mut CUgraphNode, data: *mut u64, count: &mut usize| {
        // SAFETY: a graph that the app is using; null arrays query only the count, other arrays are ours and
        // large enough.
        let result = unsafe {
            match driver.graph_edges_v2 {
                Some(get) => get(graph, from, to, data, count),
                None => (driver.graph_edges?)(graph, from, to, count),
            }
        };
        (result == CUDA_SUCCESS).then_some(())
    };
    let (mut count, none) = (0usize, core::ptr::null_mut());
    get(none, none, core::ptr::null_mut(), &mut count)?;
    if count == 0 {
        return Some(Vec::new());
    }
    let no_node: CUgraphNode = core::ptr::null_mut();
    let (mut from, mut to) = (heap::boxed(count, || no_node)?, heap::boxed(count, || no_node)?);
    let mut data = heap::boxed(count, || 0u64)?;
    get(from.as_mut_ptr(), to.as_mut_ptr(), data.as_mut_ptr(), &mut count)?;
    if data.iter().any(|data| *data != 0) {
        return None;
    }
    let mut edges = Vec::new();
    edges.try_reserve_exact(count).ok()?;
    edges.extend(to.iter().zip(&from).take(count).map(|(to, from)| (*to as usize, *from)));
    edges.sort_by_key(|(to, _)| *to);
    Some(edges)
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::ffi::c_int;

    const OWN: CUcontext = 0x100 as CUcontext;
    const OTHER: CUcontext = 0x200 as CUcontext;
    const KERNEL: CUgraphNode = 0x300 as CUgraphNode;

    /// Reports the nodes of a graph that has one.
    unsafe extern "C-unwind" fn nodes(_: CUgraph, nodes: *mut CUgraphNode, count: *mut usize) -> CUresult {
        // SAFETY: the caller's places, or null, which asks for the number only.
        unsafe {
            if let Some(first) = nodes.as_mut() {
                *first = KERNEL;
            }
            *count = 1;
        }
        CUDA_SUCCESS
    }

    unsafe extern "C-unwind" fn node_type(_: CUgraphNode, node_type: *mut c_int) -> CUresult {
        // SAFETY: the caller's place.
        unsafe { *node_type = NODE_KERNEL };
        CUDA_SUCCESS
    }

    /// Reports the parameters of a kernel of `OWN`.
    unsafe extern "C-unwind" fn kernel_node(
        _: CUgraphNode,
        parameters: *mut CUDA_KERNEL_NODE_PARAMS_v2,
    ) -> CUresult {
        // SAFETY: the caller's place.
        unsafe { (*parameters).context = OWN };
        CUDA_SUCCESS
    }

    unsafe extern "C-unwind" fn current(context: *mut CUcontext) -> CUresult {
        // SAFETY: the caller's place.
        unsafe { *context = OTHER };
        CUDA_SUCCESS
    }

    /// The context that was current to the updating thread decided, and so an update failed that succeeds without the events.
    #[test]
    fn events_may_be_placed_next_to_kernels_of_their_own_context_whichever_is_current() {
        let mut driver = Driver::without_functions();
        driver.graph_nodes = Some(nodes);
        driver.node_type = Some(node_type);
        driver.kernel_node = Some(kernel_node);
        driver.context_current = Some(current);
        let graph = 0x400 as CUgraph;
        assert_eq!(kernels(&driver, graph, OWN), Some(vec![KERNEL]));
        assert_eq!(kernels(&driver, graph, OTHER), None);
    }
}
