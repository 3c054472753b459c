//! Which nodes does an executable graph have, and what does each do?
//!
//! The graph is read once when it is instantiated, in time linear in its nodes, and kept, so that a call that
//! changes one node costs one search and no driver call. A child graph's nodes follow the node that runs it,
//! so two graphs with the same structure that were created in the same order have the same list, apart from
//! what the nodes do.

use core::ffi::c_int;
use gpuspy_wire::record::NodeKind;

use crate::cuda::*;
use crate::driver::{self, Driver};
use crate::facts::Facts;
use crate::names::Names;
use crate::thread::Call;

/// The depth to which nested child graphs are read.
const MAX_NESTING: u32 = 16;

/// What a node does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    /// Runs a kernel, given by its number in the names table; 0 = unknown.
    Kernel(u32),
    /// Copies this number of bytes.
    Copy(u64),
    /// Sets this number of bytes.
    Memset(u64),
    /// Allocates device memory.
    Alloc {
        /// First address, the same in every launch.
        address: u64,
        bytes: u64,
    },
    /// Frees memory, given by its first address.
    Free(u64),
    /// Runs this number of nodes, which follow it in the list.
    Child(u32),
    /// Runs graphs of its own, and only the GPU knows how often.
    Conditional,
    /// Does anything else.
    Other,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    what: What,
    /// A disabled node does nothing (cuda.h, cuGraphNodeSetEnabled).
    enabled: bool,
}

/// All nodes of one kind (for kernels, of one name), or one node that allocates or frees memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Line {
    pub kind: NodeKind,
    pub kernel: u32,
    pub count: u32,
    pub bytes: u64,
    pub address: u64,
}

/// The nodes of an executable graph.
#[derive(Default)]
pub struct Contents {
    nodes: Vec<Node>,
    /// The node handles of the graph that it was created from, sorted, with their indices in `nodes`: calls
    /// name the node that they change by its handle.
    places: Vec<(usize, usize)>,
}

impl Contents {
    /// Reads a graph, while the app's own call on it keeps other threads away (cuda.h: two threads must not
    /// use a graph at the same time).
    ///
    /// `None`: there is no memory for it.
    pub fn read(call: &Call, driver: &Driver, graph: CUgraph) -> Option<Contents> {
        let mut contents = Contents::default();
        contents.add(call, driver, graph, 0)?;
        contents.places.sort_unstable();
        Some(contents)
    }

    fn add(&mut self, call: &Call, driver: &Driver, graph: CUgraph, nesting: u32) -> Option<()> {
        for handle in driver.nodes_of(graph) {
            self.nodes.try_reserve(1).ok()?;
            self.places.try_reserve(1).ok()?;
            let place = self.nodes.len();
            self.places.push((handle as usize, place));
            let what = what(call, driver, handle);
            self.nodes.push(Node { what, enabled: true });
            if let What::Child(_) = what
                && nesting < MAX_NESTING
                && let Some(child) = driver.child_of(handle)
            {
                self.add(call, driver, child, nesting + 1)?;
                let inside = (self.nodes.len() - place - 1) as u32;
                if let Some(node) = self.nodes.get_mut(place) {
                    node.what = What::Child(inside);
                }
            }
        }
        Some(())
    }

    /// Changes what a node does. Returns whether that changes what the graph runs; `None`: the node is
    /// unknown.
    pub fn set(&mut self, handle: CUgraphNode, what: What) -> Option<bool> {
        let node = self.node(handle)?;
        let changed = node.what != what && node.enabled;
        node.what = what;
        Some(changed)
    }

    /// Enables or disables a node; returns the same as [`Contents::set`].
    pub fn enable(&mut self, handle: CUgraphNode, enabled: bool) -> Option<bool> {
        let node = self.node(handle)?;
        let changed = node.enabled != enabled;
        node.enabled = enabled;
        Some(changed)
    }

    /// Makes every node do what the corresponding node in `new` does; returns the same as [`Contents::set`].
    /// The driver has found the two graphs to have the same structure. `None`: they were created in another
    /// order, so it is unknown which nodes correspond.
    pub fn replace(&mut self, new: &Contents) -> Option<bool> {
        replace(&mut self.nodes, &new.nodes)
    }

    /// Does the same for the nodes of a child graph, given by the node that runs it.
    pub fn replace_child(&mut self, handle: CUgraphNode, new: &Contents) -> Option<bool> {
        let place = self.place(handle)?;
        let What::Child(inside) = self.nodes.get(place)?.what else { return None };
        replace(self.nodes.get_mut(place + 1..)?.get_mut(..inside as usize)?, &new.nodes)
    }

    /// What a launch runs, summed by kind and name, followed by the memory nodes one by one in their order; nothing if
    /// there is no memory for it.
    pub fn lines(&self) -> Vec<Line> {
        let mut kernels: Vec<u32> = Vec::new();
        let mut memory: Vec<Line> = Vec::new();
        let mut all: Vec<Line> = Vec::new();
        let are_memory = |node: &&Node| matches!(node.what, What::Alloc { .. } | What::Free(_));
        let [nodes, of_memory] = [self.nodes.len(), self.nodes.iter().filter(are_memory).count()];
        let reserved = kernels.try_reserve_exact(nodes).and(memory.try_reserve_exact(of_memory));
        // At most a line for each node, besides the sums of three kinds.
        if reserved.and(all.try_reserve(nodes + 3)).is_err() {
            return all;
        }
        let [mut copies, mut sets, mut others] = [NodeKind::Copy, NodeKind::Set, NodeKind::Other]
            .map(|kind| Line { kind, kernel: 0, count: 0, bytes: 0, address: 0 });
        let one = |kind, address, bytes| Line { kind, kernel: 0, count: 1, bytes, address };
        for node in self.nodes.iter().filter(|node| node.enabled) {
            match node.what {
                What::Kernel(name) => kernels.push(name),
                What::Copy(bytes) => copies.add(bytes),
                What::Memset(bytes) => sets.add(bytes),
                What::Alloc { address, bytes } => memory.push(one(NodeKind::Alloc, address, bytes)),
                What::Free(address) => memory.push(one(NodeKind::Free, address, 0)),
                What::Child(_) => {}
                What::Conditional | What::Other => others.add(0),
            }
        }
        kernels.sort_unstable();
        let alike = kernels.chunk_by(|one, other| one == other);
        let named = alike.filter_map(|alike| {
            let count = alike.len() as u32;
            Some(Line { kind: NodeKind::Kernel, kernel: *alike.first()?, count, bytes: 0, address: 0 })
        });
        let sums = [copies, sets, others].into_iter().filter(|line| line.count > 0);
        all.extend(named.chain(sums).chain(memory));
        all
    }

    /// The graph's own kernels without those of child graphs, in the driver's order: their names, and whether
    /// they are enabled.
    pub fn own_kernels(&self) -> impl Iterator<Item = (u32, bool)> + '_ {
        let mut inside = 0;
        self.nodes.iter().filter_map(move |node| match (inside, node.what) {
            (0, What::Kernel(name)) => Some((name, node.enabled)),
            (0, What::Child(nodes)) => {
                inside = nodes;
                None
            }
            (0, _) => None,
            _ => {
                inside -= 1;
                None
            }
        })
    }

    /// Whether a node runs graphs of its own an unknown number of times.
    pub fn has_conditionals(&self) -> bool {
        self.nodes.iter().any(|node| node.what == What::Conditional)
    }

    fn place(&self, handle: CUgraphNode) -> Option<usize> {
        let at = self.places.binary_search_by_key(&(handle as usize), |(handle, _)| *handle).ok()?;
        self.places.get(at).map(|(_, place)| *place)
    }

    fn node(&mut self, handle: CUgraphNode) -> Option<&mut Node> {
        let place = self.place(handle)?;
        self.nodes.get_mut(place)
    }
}

impl Line {
    fn add(&mut self, bytes: u64) {
        self.count += 1;
        self.bytes = self.bytes.saturating_add(bytes);
    }
}

/// Makes each old node do what the new node at the same index does. The kinds must agree at each index, or
/// nothing is changed.
fn replace(old: &mut [Node], new: &[Node]) -> Option<bool> {
    let is_alike = |(old, new): (&Node, &Node)| match (old.what, new.what) {
        (What::Child(old), What::Child(new)) => old == new,
        (old, new) => core::mem::discriminant(&old) == core::mem::discriminant(&new),
    };
    if old.len() != new.len() || !old.iter().zip(new).all(is_alike) {
        return None;
    }
    let changed = old.iter().zip(new).any(|(old, new)| old.enabled && old.what != new.what);
    old.iter_mut().zip(new).for_each(|(old, new)| old.what = new.what);
    Some(changed)
}

/// Queries what a node does.
fn what(call: &Call, driver: &Driver, node: CUgraphNode) -> What {
    match driver.type_of_node(node) {
        NODE_KERNEL => What::Kernel(driver.kernel_of_node(node).map_or(0, |kernel| kernel.name(call))),
        NODE_MEMCPY => What::Copy(driver.copy_of_node(node).map_or(0, |copy| copy.bytes())),
        NODE_MEMSET => What::Memset(driver.set_of_node(node).map_or(0, |set| set.bytes())),
        NODE_MEMORY_ALLOC => driver.alloc_of_node(node).map_or(What::Other, |alloc| alloc.what()),
        NODE_MEMORY_FREE => driver.free_of_node(node).map_or(What::Other, What::Free),
        NODE_GRAPH => What::Child(0),
        kind => What::of_kind(kind),
    }
}

impl What {
    /// What a node of a kind does of which nothing else is queried. The bytes of a batch of copies count as 0.
    fn of_kind(kind: c_int) -> What {
        match kind {
            NODE_MEMCPY_BATCH | NODE_FABRIC_COPY_BATCH => What::Copy(0),
            NODE_CONDITIONAL => What::Conditional,
            _ => What::Other,
        }
    }
}

impl CUDA_MEM_ALLOC_NODE_PARAMS {
    /// What a node with these parameters does. Host memory is not tracked.
    fn what(&self) -> What {
        match self.location {
            LOCATION_DEVICE | LOCATION_LOCALITY_DOMAIN => {
                What::Alloc { address: self.address, bytes: self.bytes as u64 }
            }
            _ => What::Other,
        }
    }
}

impl CUDA_KERNEL_NODE_PARAMS_v2 {
    /// Returns the kernel's number in the names table; 0 = unknown. The facts about a new kernel are
    /// published.
    pub fn name(&self, call: &Call) -> u32 {
        if let Some(driver) = driver::driver() {
            call.session.get::<Facts>().of_node(call, driver, self);
        }
        call.session.get::<Names>().of_node(call, self).1.id
    }

    /// Returns the parameters as the app means them: next to a `func`, the driver does not read `kern`
    /// (cuda.h), so it may contain anything.
    pub fn given(mut self) -> CUDA_KERNEL_NODE_PARAMS_v2 {
        if !self.first.func.is_null() {
            self.kern = core::ptr::null_mut();
        }
        self
    }
}

impl CUDA_MEMCPY3D {
    /// The number of bytes copied.
    pub fn bytes(&self) -> u64 {
        (self.width as u64).saturating_mul(self.height as u64).saturating_mul(self.depth as u64)
    }
}

impl CUDA_MEMSET_NODE_PARAMS {
    /// The number of bytes written: `height` rows of `width` elements.
    pub fn bytes(&self) -> u64 {
        u64::from(self.element).saturating_mul(self.width as u64).saturating_mul(self.height.max(1) as u64)
    }
}

impl CUgraphNodeParams {
    /// What a node with these parameters does; `None`: it is a child graph, see [`CUgraphNodeParams::child`].
    pub fn what(&self, call: &Call) -> Option<What> {
        let body: *const u64 = self.body.as_ptr();
        // SAFETY: `kind` says which member the union has, and none is larger than the body (asserted); the
        // body may contain any bytes.
        Some(unsafe {
            match self.kind {
                NODE_KERNEL => What::Kernel((*body.cast::<CUDA_KERNEL_NODE_PARAMS_v2>()).given().name(call)),
                // CUDA_MEMCPY_NODE_PARAMS: flags and a reserved word, a context, the copy.
                NODE_MEMCPY => What::Copy((*body.add(2).cast::<CUDA_MEMCPY3D>()).bytes()),
                NODE_MEMSET => What::Memset((*body.cast::<CUDA_MEMSET_NODE_PARAMS>()).bytes()),
                NODE_GRAPH => return None,
                kind => What::of_kind(kind),
            }
        })
    }

    /// The graph of a child node.
    pub fn child(&self) -> CUgraph {
        self.body.first().map_or(core::ptr::null_mut(), |graph| *graph as CUgraph)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(list: &[What]) -> Contents {
        let nodes = list.iter().map(|&what| Node { what, enabled: true }).collect();
        let places = (0..list.len()).map(|place| (100 + place, place)).collect();
        Contents { nodes, places }
    }

    fn kernels(contents: &Contents) -> Vec<(u32, u32)> {
        let lines = contents.lines().into_iter().filter(|line| line.kind == NodeKind::Kernel);
        lines.map(|line| (line.kernel, line.count)).collect()
    }

    #[test]
    fn enabled_nodes_are_summed_by_kind_and_name() {
        let (a, b) = (What::Kernel(7), What::Kernel(3));
        let mut g = graph(&[
            a,
            What::Copy(10),
            b,
            a,
            What::Child(1),
            a,
            What::Memset(5),
            What::Copy(20),
            What::Other,
        ]);
        let line = |kind, kernel, count, bytes| Line { kind, kernel, count, bytes, address: 0 };
        let expected = [
            line(NodeKind::Kernel, 3, 1, 0),
            line(NodeKind::Kernel, 7, 3, 0),
            line(NodeKind::Copy, 0, 2, 30),
            line(NodeKind::Set, 0, 1, 5),
            line(NodeKind::Other, 0, 1, 0),
        ];
        assert_eq!(g.lines(), expected);
        assert_eq!(g.enable(105 as CUgraphNode, false), Some(true));
        assert_eq!(g.enable(105 as CUgraphNode, false), Some(false));
        assert_eq!(kernels(&g), [(3, 1), (7, 2)]);
        assert_eq!(g.set(105 as CUgraphNode, b), Some(false), "a disabled node does not run");
        assert_eq!(g.enable(105 as CUgraphNode, true), Some(true));
        assert_eq!(kernels(&g), [(3, 2), (7, 2)]);
        assert_eq!(g.set(99 as CUgraphNode, b), None, "no node of this graph");
    }

    /// They were other nodes.
    #[test]
    fn batches_of_copies_are_copies() {
        let kinds = [NODE_MEMCPY_BATCH, NODE_FABRIC_COPY_BATCH, NODE_CONDITIONAL, -1].map(What::of_kind);
        assert_eq!(kinds, [What::Copy(0), What::Copy(0), What::Conditional, What::Other]);
    }

    #[test]
    fn memory_nodes_are_listed_one_by_one_in_their_order() {
        let alloc = |address, bytes| What::Alloc { address, bytes };
        let nodes = [alloc(0x200, 7), What::Child(2), alloc(0x100, 8), What::Free(0x200), What::Kernel(1)];
        let mut g = graph(&nodes);
        let memory_of = |g: &Contents| -> Vec<_> {
            g.lines().into_iter().skip(1).map(|l| (l.kind, l.count, l.address, l.bytes)).collect()
        };
        let (take, give) = (NodeKind::Alloc, NodeKind::Free);
        assert_eq!(memory_of(&g), [(take, 1, 0x200, 7), (take, 1, 0x100, 8), (give, 1, 0x200, 0)]);
        let new = [alloc(0x200, 7), What::Child(2), alloc(0x300, 9), What::Free(0x200), What::Kernel(1)];
        assert_eq!(g.replace(&graph(&new)), Some(true));
        assert_eq!(memory_of(&g), [(take, 1, 0x200, 7), (take, 1, 0x300, 9), (give, 1, 0x200, 0)]);
        assert_eq!(g.replace(&graph(&[What::Free(1); 5])), None, "an allocation cannot become a free");
    }

    #[test]
    fn a_child_graphs_nodes_are_replaced_one_by_one() {
        let (a, b, c) = (What::Kernel(1), What::Kernel(2), What::Kernel(3));
        let mut g = graph(&[a, What::Child(3), a, What::Child(1), b, a]);
        assert_eq!(g.replace_child(101 as CUgraphNode, &graph(&[c, What::Child(1), b])), Some(true));
        assert_eq!(kernels(&g), [(1, 2), (2, 1), (3, 1)]);
        let own: Vec<_> = g.own_kernels().collect();
        assert_eq!(own, [(1, true), (1, true)], "two of the graph's own, and three of its child's");
        assert_eq!(g.replace_child(103 as CUgraphNode, &graph(&[b])), Some(false));
        assert_eq!(g.replace_child(100 as CUgraphNode, &graph(&[b])), None, "the node runs no graph");
        assert_eq!(g.replace_child(101 as CUgraphNode, &graph(&[c])), None, "another shape");
        assert_eq!(g.replace(&graph(&[a, What::Child(3), a, What::Child(1), b, c])), Some(true));
        assert_eq!(kernels(&g), [(1, 2), (2, 1), (3, 1)]);
    }
}
