//! Memory that graphs allocate while they run.
//!
//! Sources: cuda.h (cuGraphAddMemAllocNode, cuGraphAddMemFreeNode, cuGraphInstantiate, cuGraphLaunch, cuMemFreeAsync,
//! cuDeviceGetGraphMemAttribute); CUDA programming guide, "Graph Memory Nodes".
//!
//! - An address is assigned when its node is added, and is the same in every launch. Two nodes of one graph share an
//!   address if the second depends on the free of the first ("Address Reuse within a Graph").
//! - A launch allocates a block. A node of the same graph or of another one frees it, or a call, or, with
//!   AUTO_FREE_ON_LAUNCH, the next launch. Destroying a graph frees nothing.
//! - A block belongs to no context: its node names a device, and cuda.h's list of what cuCtxDestroy frees does not
//!   mention it.
//! - Physical memory is allocated at launches, shared by blocks that do not exist at the same time, and kept until it
//!   is trimmed. The simulator counts it in the order of calls.

use crate::api::memory::{report_free, report_graph_memory};
use crate::call::Call;
use crate::config::config;
use crate::effects::{self, Effect};
use crate::engine::Done;
use crate::error::{INVALID_DEVICE, INVALID_HANDLE, INVALID_VALUE, NOT_SUPPORTED, OUT_OF_MEMORY, Outcome};
use crate::graph::{NodeWork, Step};
use crate::handle::Handle;
use crate::memory::{Allocation, MemoryKind};
use crate::state::State;
use crate::work::Work;
use crate::{thread, truth};
use std::collections::{BTreeMap, HashMap, HashSet};

/// `CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH`.
const AUTO_FREE_ON_LAUNCH: u64 = 1;

/// Access of another device to an allocation: `CUmemAccessDesc` of cuda.h.
pub type Access = [u32; 3];

/// The request of an allocation node.
#[derive(Clone, Debug)]
pub struct Requested {
    /// `CUmemPoolProps` of cuda.h.
    pub pool: [u64; 11],
    /// The devices that may access it.
    pub access: Box<[Access]>,
    /// The number of bytes.
    pub bytes: u64,
}

/// Where the node is that frees a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Freed {
    Nowhere,
    /// In the block's own graph: the node.
    Inside(Handle),
    Elsewhere,
}

/// The block that an allocation node allocates.
#[derive(Debug)]
pub struct Block {
    /// First address.
    pub address: u64,
    /// The request.
    pub requested: Requested,
    /// Bytes that it takes.
    taken: u64,
    device: u32,
    /// Its graph; 0 once that is destroyed.
    graph: Handle,
    /// Its node.
    node: Handle,
    freed: Freed,
    live: bool,
    /// The last work that allocated or freed it.
    done: Done,
}

/// Byte counts of a device, each with its maximum since the last reset.
#[derive(Clone, Copy, Debug, Default)]
pub struct Footprint {
    /// Bytes in allocated blocks.
    pub used: (u64, u64),
    /// Bytes reserved for graphs.
    pub reserved: (u64, u64),
}

/// All blocks of graphs, by number.
#[derive(Debug, Default)]
pub struct GraphMemory {
    blocks: BTreeMap<u64, Block>,
    footprints: HashMap<u32, Footprint>,
}

/// A step that takes or frees a block.
#[derive(Clone, Copy, Debug)]
struct Move {
    /// Its place among the steps.
    step: usize,
    block: u64,
    takes: bool,
}

/// The allocations and frees of a launch.
#[derive(Debug, Default)]
pub struct Moves(Vec<Move>);

impl GraphMemory {
    /// A block.
    pub fn block(&self, number: u64) -> Option<&Block> {
        self.blocks.get(&number)
    }

    /// Returns the memory that graphs use on a device.
    pub fn footprint(&mut self, device: u32) -> &mut Footprint {
        self.footprints.entry(device).or_default()
    }

    fn live_at(&self, address: u64) -> Option<u64> {
        self.blocks
            .iter()
            .find(|(_, block)| block.live && block.address == address)
            .map(|(&number, _)| number)
    }

    /// Notes that a graph was destroyed.
    pub fn orphan(&mut self, graph: Handle) {
        self.blocks.values_mut().filter(|block| block.graph == graph).for_each(|block| block.graph = 0);
    }

    /// Counts a block that was allocated or freed.
    fn count(&mut self, device: u32, change: i64) {
        let Footprint { used, .. } = self.footprint(device);
        used.0 = used.0.saturating_add_signed(change);
        used.1 = used.1.max(used.0);
    }
}

/// Returns whether work allocates or frees memory, and which block.
fn move_of(work: &Work) -> Option<(u64, bool)> {
    match *work {
        Work::Take(block) => Some((block, true)),
        Work::Give(block) => Some((block, false)),
        _ => None,
    }
}

/// Writes a node that allocates memory, or (no bytes) frees it, to the truth file.
fn report_node(call: &Call, graph: Handle, address: u64, bytes: u64) {
    let (api, tid, begin) = (call.api.name, thread::tid(), call.begin);
    truth::line(format_args!(
        "\"kind\":\"memory_node\",\"api\":\"{api}\",\"tid\":{tid},\"begin\":{begin},\"graph\":{graph},\
         \"address\":{address},\"bytes\":{bytes}"
    ));
}

impl Moves {
    /// Returns the allocations and frees of these steps.
    pub fn of(steps: &[Step]) -> Self {
        let of =
            |(step, at): (usize, &Step)| move_of(&at.work).map(|(block, takes)| Move { step, block, takes });
        Self(steps.iter().enumerate().filter_map(of).collect())
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl State {
    /// Returns whether a graph, or a graph inside it, allocates or frees memory.
    pub fn has_memory(&self, graph: Handle) -> bool {
        let nodes = self.graphs.get(graph).into_iter().flat_map(|graph| &graph.nodes);
        nodes.filter_map(|&node| self.nodes.get(node)).any(|node| match &node.work {
            NodeWork::One(work) => move_of(work).is_some(),
            NodeWork::Child(child) => self.has_memory(*child),
            NodeWork::Conditional(_) => false,
        })
    }

    /// Fails if nodes must not allocate or free memory in a graph. cuda.h, cuGraphChildGraphNodeGetGraph: not in a
    /// child's graph.
    fn check_memory_graph(&self, graph: Handle) -> Outcome {
        let owned = self.graphs.get(graph).ok_or(INVALID_HANDLE)?.owned;
        if owned { Err(INVALID_VALUE) } else { Ok(()) }
    }

    /// Returns the nodes that run before a node that depends on `before`.
    fn all_before(&self, before: &[Handle]) -> HashSet<Handle> {
        let (mut reached, mut next) = (HashSet::new(), before.to_vec());
        while let Some(node) = next.pop() {
            if reached.insert(node) {
                next.extend(self.nodes.get(node).into_iter().flat_map(|node| &node.before));
            }
        }
        reached
    }

    /// Adds a node that allocates memory, and returns it and the address.
    pub fn add_take(
        &mut self,
        call: &Call,
        graph: Handle,
        before: Vec<Handle>,
        requested: Requested,
    ) -> Outcome<(Handle, u64)> {
        self.check_memory_graph(graph)?;
        self.check_dependencies(graph, &before)?;
        let halves = |word: u64| [word as u32, (word >> 32) as u32];
        let ([kind, handles], [location, device]) = (halves(requested.pool[0]), halves(requested.pool[1]));
        // CU_MEM_ALLOCATION_TYPE_PINNED, CU_MEM_HANDLE_TYPE_NONE, CU_MEM_LOCATION_TYPE_DEVICE.
        if kind != 1 || handles != 0 {
            return Err(INVALID_VALUE);
        }
        if location != 1 {
            return Err(NOT_SUPPORTED);
        }
        if device >= config().devices() {
            return Err(INVALID_DEVICE);
        }
        let taken = requested.bytes.checked_next_multiple_of(512).ok_or(OUT_OF_MEMORY)?;
        let address = match self.reusable(graph, &before, requested.bytes, device) {
            Some(address) => address,
            None => self.memory.allocate(Allocation::new(MemoryKind::Graph, requested.bytes, 0, device))?,
        };
        let number = self.id();
        let node = self.add_node(graph, NodeWork::One(Work::Take(number)), before)?;
        report_node(call, graph, address, requested.bytes);
        let (freed, done) = (Freed::Nowhere, Done::At(0));
        let block = Block { address, requested, taken, device, graph, node, freed, live: false, done };
        self.graph_memory.blocks.insert(number, block);
        Ok((node, address))
    }

    /// Returns an address of the same graph whose block is as large and is freed before a node that depends on `before`
    /// runs.
    fn reusable(&self, graph: Handle, before: &[Handle], bytes: u64, device: u32) -> Option<u64> {
        let blocks = &self.graph_memory.blocks;
        let earlier = self.all_before(before);
        let is_over = |block: &Block| {
            let is_before = matches!(block.freed, Freed::Inside(node) if earlier.contains(&node));
            block.graph == graph && block.device == device && is_before
        };
        let fits = |address: u64| {
            self.memory.at(address).is_some_and(|of| of.bytes >= bytes && of.bytes < 2 * bytes)
        };
        let all_over = |address: u64| blocks.values().filter(|b| b.address == address).all(is_over);
        let candidates = blocks.values().filter(|block| is_over(block)).map(|block| block.address);
        candidates.into_iter().find(|&address| fits(address) && all_over(address))
    }

    /// Adds a node that frees memory. cuda.h, cuGraphAddMemFreeNode: an allocation of a node, freed once in a graph, and
    /// either in its own or in others.
    pub fn add_give(
        &mut self,
        call: &Call,
        graph: Handle,
        before: Vec<Handle>,
        address: u64,
    ) -> Outcome<Handle> {
        self.check_memory_graph(graph)?;
        self.check_dependencies(graph, &before)?;
        let at: Vec<(u64, &Block)> = self
            .graph_memory
            .blocks
            .iter()
            .filter(|(_, b)| b.address == address)
            .map(|(&n, b)| (n, b))
            .collect();
        let is_open = |(_, block): &&(u64, &Block)| !matches!(block.freed, Freed::Inside(_));
        let &(number, block) = at.iter().find(is_open).ok_or(INVALID_VALUE)?;
        let is_own = block.graph == graph;
        if is_own && (block.freed == Freed::Elsewhere || !self.all_before(&before).contains(&block.node)) {
            return Err(INVALID_VALUE);
        }
        let nodes = self.graphs.get(graph).into_iter().flat_map(|graph| &graph.nodes);
        let frees = |&node: &Handle| {
            self.nodes
                .get(node)
                .is_some_and(|n| matches!(n.work, NodeWork::One(Work::Give(of)) if of == number))
        };
        if nodes.into_iter().any(frees) {
            return Err(INVALID_VALUE);
        }
        let node = self.add_node(graph, NodeWork::One(Work::Give(number)), before)?;
        report_node(call, graph, address, 0);
        if let Some(block) = self.graph_memory.blocks.get_mut(&number) {
            block.freed = if is_own { Freed::Inside(node) } else { Freed::Elsewhere };
        }
        Ok(node)
    }

    /// Checks a launch: fails if a block that it allocates is still allocated, if a block that it frees is not (cuda.h,
    /// cuGraphLaunch), or if the device has no memory left. Blocks that an earlier launch left are freed first, if the
    /// instantiation requested it.
    pub fn begin_moves(&mut self, call: &Call, moves: &Moves, flags: u64) -> Outcome {
        if moves.is_empty() {
            return Ok(());
        }
        let blocks = &self.graph_memory.blocks;
        let is_live = |number: u64| blocks.get(&number).is_some_and(|block| block.live);
        let left: Vec<u64> =
            moves.0.iter().filter(|of| of.takes && is_live(of.block)).map(|of| of.block).collect();
        if !left.is_empty() && flags & AUTO_FREE_ON_LAUNCH == 0 {
            return Err(INVALID_VALUE);
        }
        let (mut live, mut used, mut most) = (HashMap::new(), HashMap::new(), HashMap::new());
        let mut walk = |number: u64, takes: bool| {
            let block = blocks.get(&number).ok_or(INVALID_HANDLE)?;
            if live.insert(number, takes).unwrap_or(block.live) == takes {
                return Err(INVALID_VALUE);
            }
            let of_device: &mut i64 = used.entry(block.device).or_default();
            *of_device += if takes { block.taken as i64 } else { -(block.taken as i64) };
            let highest: &mut i64 = most.entry(block.device).or_default();
            *highest = (*highest).max(*of_device);
            Ok(())
        };
        left.iter().try_for_each(|&number| walk(number, false))?;
        moves.0.iter().try_for_each(|of| walk(of.block, of.takes))?;
        for (device, most) in most {
            let Footprint { used, reserved } = *self.graph_memory.footprint(device);
            let needed = used.0.saturating_add_signed(most);
            if let Some(more) = needed.checked_sub(reserved.0) {
                self.memory.charge(device, more)?;
                let footprint = self.graph_memory.footprint(device);
                footprint.reserved = (needed, reserved.1.max(needed));
            }
        }
        left.into_iter().for_each(|number| self.go(call, number, 0, None));
        Ok(())
    }

    /// Notes that the launch `launch` was scheduled and that its steps end at `ends`.
    pub fn end_moves(&mut self, call: &Call, moves: &Moves, ends: &[Done], stream: u64, launch: u64) {
        for of in &moves.0 {
            let Some(block) = self.graph_memory.blocks.get_mut(&of.block) else { continue };
            (block.live, block.done) = (of.takes, ends[of.step].clone());
            let (what, sign) = if of.takes { ("alloc", 1) } else { ("free", -1) };
            report_graph_memory(
                call,
                what,
                (block.address, block.requested.bytes),
                stream,
                launch,
                ends[of.step].end(),
            );
            let (device, taken) = (block.device, block.taken as i64);
            self.graph_memory.count(device, sign * taken);
        }
    }

    /// Frees a block in a call.
    fn go(&mut self, call: &Call, number: u64, stream: u64, done: Option<Done>) {
        let Some(block) = self.graph_memory.blocks.get_mut(&number) else { return };
        block.live = false;
        block.done = done.unwrap_or_else(|| block.done.clone());
        report_free(call, block.address, block.requested.bytes, MemoryKind::Graph, stream);
        let (device, taken) = (block.device, block.taken as i64);
        self.graph_memory.count(device, -taken);
    }

    /// Fails unless an allocated block of a graph starts at an address.
    pub fn check_graph_block(&self, address: u64) -> Outcome {
        self.graph_memory.live_at(address).map(|_| ()).ok_or(INVALID_VALUE)
    }

    /// Frees a block of a graph by its address, in the order of a stream if one is given.
    pub fn free_graph_block(
        &mut self,
        call: &Call,
        address: u64,
        stream: u64,
        done: Option<Done>,
    ) -> Outcome {
        let number = self.graph_memory.live_at(address).ok_or(INVALID_VALUE)?;
        self.go(call, number, stream, done);
        self.sweep_graph_memory();
        Ok(())
    }

    /// Forgets blocks that nothing can name any more, and releases their addresses.
    pub fn sweep_graph_memory(&mut self) {
        if self.graph_memory.blocks.is_empty() {
            return;
        }
        let of_nodes = self.nodes.iter().filter_map(|(_, node)| match &node.work {
            NodeWork::One(work) => move_of(work),
            _ => None,
        });
        let of_steps =
            self.execs.iter().flat_map(|(_, exec)| &exec.steps).filter_map(|step| move_of(&step.work));
        let named: HashSet<u64> = of_nodes.chain(of_steps).map(|(block, _)| block).collect();
        let (now, mut gone) = (self.now, Vec::new());
        self.graph_memory.blocks.retain(|number, block| {
            let keep = block.live || named.contains(number) || !block.done.by(now);
            if !keep {
                gone.push(block.address);
            }
            keep
        });
        for address in gone {
            if self.graph_memory.blocks.values().any(|block| block.address == address) {
                continue;
            }
            if let Some((_, Some(range))) = self.memory.remove(address) {
                effects::push(Effect::Release(range));
            }
        }
    }

    /// Releases memory that is reserved for a device's graphs and not in use by allocated blocks or by unfinished
    /// launches (cuda.h, cuDeviceGraphMemTrim).
    pub fn trim_graph_memory(&mut self, device: u32) {
        let now = self.now;
        let mut blocks = self.graph_memory.blocks.values();
        if blocks.any(|block| block.device == device && !block.done.by(now)) {
            return;
        }
        let footprint = self.graph_memory.footprint(device);
        let more = footprint.reserved.0.saturating_sub(footprint.used.0);
        footprint.reserved.0 -= more;
        self.memory.discharge(device, more);
    }
}
