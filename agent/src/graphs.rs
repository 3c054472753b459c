//! Executable graphs: what a graph launch will run, counted when the graph is instantiated.

use core::sync::atomic::{AtomicU32, Ordering};
use gpuspy_wire::record::{self, Head, LossCause};

use crate::cuda::*;
use crate::driver::Driver;
use crate::keyed::Keyed;
use crate::sys::ticks;
use crate::thread::Call;

/// Executable graphs alive at the same time (handles are reused).
const PLACES: usize = 4096;
/// Child graphs inside child graphs that are still counted.
const MAX_NESTING: u32 = 16;

/// The graphs of a session. Valid when zero.
pub struct Graphs {
    /// By CUgraphExec.
    places: Keyed<Place, PLACES>,
    /// The last number given. Relaxed: only its being unique matters.
    last: AtomicU32,
}

struct Place {
    /// Its number. Release on the store, acquire on the load: the counts behind it.
    graph: AtomicU32,
    kernels: AtomicU32,
    copies: AtomicU32,
    memsets: AtomicU32,
}

/// What is in a graph.
#[derive(Clone, Copy, Default)]
pub struct Counts {
    /// Its number; 0 = never seen instantiated.
    pub graph: u32,
    pub kernels: u32,
    pub copies: u32,
    pub memsets: u32,
    pub others: u32,
}

impl Graphs {
    /// What a launch of this executable graph runs.
    pub fn of_handle(&self, handle: CUgraphExec) -> Counts {
        let Some(place) = self.places.get(handle as u64) else { return Counts::default() };
        Counts {
            graph: place.graph.load(Ordering::Acquire),
            kernels: place.kernels.load(Ordering::Relaxed),
            copies: place.copies.load(Ordering::Relaxed),
            memsets: place.memsets.load(Ordering::Relaxed),
            others: 0,
        }
    }

    /// A graph was instantiated: counts its nodes and tells of it.
    pub fn instantiated(&self, call: &Call, driver: &Driver, handle: CUgraphExec, graph: CUgraph) {
        let errno = crate::sys::Errno::save();
        let mut counts = Counts { graph: self.last.fetch_add(1, Ordering::Relaxed) + 1, ..Counts::default() };
        driver.relaxed(|| count_nodes(driver, graph, &mut counts, 0));
        errno.restore();
        match self.places.get(handle as u64) {
            Some(place) => {
                place.kernels.store(counts.kernels, Ordering::Relaxed);
                place.copies.store(counts.copies, Ordering::Relaxed);
                place.memsets.store(counts.memsets, Ordering::Relaxed);
                place.graph.store(counts.graph, Ordering::Release);
            }
            None => call.lost(LossCause::TableFull, 1),
        }
        call.publish(&record::Graph {
            head: Head::new::<record::Graph>(),
            at: ticks(),
            handle: handle as u64,
            graph: counts.graph,
            kernels: counts.kernels,
            copies: counts.copies,
            memsets: counts.memsets,
            others: counts.others,
            reserved: [0; 5],
        });
    }

    /// An executable graph was destroyed: its handle may come back as another's.
    pub fn destroyed(&self, handle: CUgraphExec) {
        if let Some(place) = self.places.get(handle as u64) {
            place.graph.store(0, Ordering::Release);
            place.kernels.store(0, Ordering::Relaxed);
            place.copies.store(0, Ordering::Relaxed);
            place.memsets.store(0, Ordering::Relaxed);
        }
    }
}

fn count_nodes(driver: &Driver, graph: CUgraph, counts: &mut Counts, nesting: u32) {
    let (Some(nodes_of), Some(type_of)) = (driver.graph_nodes, driver.node_type) else { return };
    let mut count = 0usize;
    // SAFETY: the graph that the app has just instantiated; a null array asks for the count.
    if unsafe { nodes_of(graph, core::ptr::null_mut(), &mut count) } != CUDA_SUCCESS {
        return;
    }
    let mut nodes: Vec<CUgraphNode> = vec![core::ptr::null_mut(); count];
    // SAFETY: an array of ours with room for `count`.
    if unsafe { nodes_of(graph, nodes.as_mut_ptr(), &mut count) } != CUDA_SUCCESS {
        return;
    }
    for node in nodes.into_iter().take(count) {
        let mut kind = -1;
        // SAFETY: a node of that graph; writes a place of ours.
        unsafe { type_of(node, &mut kind) };
        match kind {
            NODE_KERNEL => counts.kernels += 1,
            NODE_MEMCPY => counts.copies += 1,
            NODE_MEMSET => counts.memsets += 1,
            NODE_GRAPH if nesting < MAX_NESTING => {
                let mut child: CUgraph = core::ptr::null_mut();
                // SAFETY: a child-graph node; writes a place of ours.
                if driver.child_graph.is_some_and(|ask| unsafe { ask(node, &mut child) } == CUDA_SUCCESS) {
                    count_nodes(driver, child, counts, nesting + 1);
                }
            }
            _ => counts.others += 1,
        }
    }
}
