//! Graphs: their nodes and dependencies, and executable graphs.

use crate::api::user_object::Kept;
use crate::call::Call;
use crate::config::config;
use crate::engine::{Done, Length};
use crate::error::{INVALID_HANDLE, INVALID_VALUE, NOT_SUPPORTED, Outcome};
use crate::graph_memory::Moves;
use crate::handle::Handle;
use crate::state::State;
use crate::truth;
use crate::work::{Action, Job, Place, Work};
use std::collections::HashMap;
use std::sync::Arc;

/// A kernel node's parameters, as the application gave them.
#[derive(Clone, Debug)]
pub struct KernelNode {
    /// The CUfunction.
    pub function: Handle,
    /// The CUkernel, if the launch named one; otherwise 0.
    pub kernel: Handle,
    /// Blocks and threads of a block.
    pub dimensions: [u32; 6],
    /// Dynamic shared memory, bytes.
    pub shared_bytes: u32,
    /// The context.
    pub context: Handle,
    /// Copies of the arguments, and pointers to them, where the kernel's parameters are known.
    pub arguments: Arguments,
}

/// A copy of a kernel's arguments.
#[derive(Clone, Debug, Default)]
pub struct Arguments {
    /// The values.
    values: Vec<Box<[u8]>>,
    /// Their addresses: what `kernelParams` points to.
    pointers: Vec<u64>,
}

impl Arguments {
    /// Copies each argument of the given sizes.
    ///
    /// # Safety
    /// `arguments` points to as many pointers as `sizes` has, each to as many bytes.
    pub unsafe fn copy(arguments: *const *const u8, sizes: &[(usize, usize)]) -> Self {
        let value = |(index, &(_, bytes)): (usize, &(usize, usize))| {
            // SAFETY: the caller's.
            Box::from(unsafe { std::slice::from_raw_parts(*arguments.add(index), bytes) })
        };
        let values: Vec<Box<[u8]>> = sizes.iter().enumerate().map(value).collect();
        let pointers = values.iter().map(|value| value.as_ptr() as u64).collect();
        Self { values, pointers }
    }

    /// Returns the address for `kernelParams`; 0 without arguments.
    pub fn address(&self) -> u64 {
        if self.values.is_empty() { 0 } else { self.pointers.as_ptr() as u64 }
    }
}

/// The work of a node.
#[derive(Clone, Debug)]
pub enum NodeWork {
    /// One piece of work.
    One(Work),
    /// A child graph.
    Child(Handle),
    /// Graphs that run depending on a value.
    Conditional(Conditional),
}

/// The work of a conditional node.
#[derive(Clone, Debug)]
pub struct Conditional {
    /// `CUgraphConditionalNodeType`.
    pub kind: u32,
    /// The value. Only device code could change it, and the simulator runs none.
    pub value: u32,
    /// Its graphs.
    pub bodies: Vec<Handle>,
}

impl Conditional {
    /// Returns the graph that runs, if any, and how often (cuda.h, CUgraphConditionalNodeType). A loop ends after
    /// `while_loops` iterations, because no device code ends it.
    fn runs(&self) -> (Option<Handle>, u64) {
        let body = |index: u32| self.bodies.get(index as usize).copied();
        match (self.kind, self.value) {
            (0, 0) => (body(1), 1),
            (0, _) => (body(0), 1),
            (1, 0) => (None, 0),
            (1, _) => (body(0), config().assume.number("while_loops")),
            (_, value) => (body(value), 1),
        }
    }
}

impl NodeWork {
    /// `CUgraphNodeType`.
    pub fn kind(&self) -> u32 {
        match self {
            Self::One(Work::Kernel(_)) => 0,
            Self::One(Work::Copy(_)) => 1,
            Self::One(Work::Set(_)) => 2,
            Self::One(Work::Host(_)) => 3,
            Self::Child(_) => 4,
            Self::Conditional(_) => 13,
            Self::One(Work::Empty) => 5,
            Self::One(Work::Wait(_)) => 6,
            Self::One(Work::Record(_)) => 7,
            Self::One(Work::Take(_)) => 10,
            Self::One(Work::Give(_)) => 11,
            Self::One(Work::Value(_)) => 12,
        }
    }
}

/// A node.
#[derive(Clone, Debug)]
pub struct GraphNode {
    /// Its graph.
    pub graph: Handle,
    /// Its work.
    pub work: NodeWork,
    /// The nodes that it depends on.
    pub before: Vec<Handle>,
    /// The data (`CUgraphEdgeData` of cuda.h) of dependencies whose data is not zero.
    pub data: HashMap<Handle, u64>,
    /// The node that it was cloned from, or 0.
    pub original: Handle,
}

/// A graph.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    /// Its nodes, in order of creation.
    pub nodes: Vec<Handle>,
    /// Whether it belongs to a child node and is destroyed with it.
    pub owned: bool,
    /// The graph that it was cloned from, or 0.
    pub original: Handle,
    /// Values of its conditional handles when it is launched.
    pub conditions: Vec<u32>,
    /// The user objects that it references, and how many references it has to each.
    pub objects: Vec<(Arc<Kept>, u32)>,
}

/// A node of an executable graph.
#[derive(Clone, Debug)]
pub struct Step {
    /// The graph's node.
    pub node: Handle,
    /// `CUgraphNodeType`.
    pub kind: u32,
    /// Its work; a disabled step does nothing.
    pub work: Work,
    /// `cuGraphNodeSetEnabled`.
    pub enabled: bool,
    /// Steps that it depends on; all come earlier.
    pub before: Vec<usize>,
}

/// An executable graph.
#[derive(Debug)]
pub struct Exec {
    /// Its steps, in an order that the dependencies allow.
    pub steps: Vec<Step>,
    /// Its last launch.
    pub last: Done,
    /// Flags of its instantiation.
    pub flags: u64,
    /// The context that it was instantiated in.
    pub context: Handle,
    /// The graph that it was instantiated from; 0 once that is destroyed.
    pub graph: Handle,
    /// The user objects that it references: all that its graph referenced, even after the graph is destroyed.
    pub objects: Vec<Arc<Kept>>,
}

impl State {
    /// Adds a node that depends on `before`, which must be distinct nodes of the same graph (cuda.h: duplicates are not
    /// allowed).
    pub fn add_node(&mut self, graph: Handle, work: NodeWork, before: Vec<Handle>) -> Outcome<Handle> {
        if self.graphs.get(graph).is_none() {
            return Err(INVALID_HANDLE);
        }
        self.check_dependencies(graph, &before)?;
        let node = self.nodes.insert(GraphNode { graph, work, before, data: HashMap::new(), original: 0 });
        if let Some(graph) = self.graphs.get_mut(graph) {
            graph.nodes.push(node);
        }
        Ok(node)
    }

    /// Checks that `nodes` are distinct nodes of a graph.
    pub fn check_dependencies(&self, graph: Handle, nodes: &[Handle]) -> Outcome {
        for (index, &node) in nodes.iter().enumerate() {
            let known = self.nodes.get(node).is_some_and(|node| node.graph == graph);
            if !known || nodes[..index].contains(&node) {
                return Err(INVALID_VALUE);
            }
        }
        Ok(())
    }

    /// Returns the `CUgraphNodeType` of a node.
    pub fn kind_of(&self, node: Handle) -> Option<u32> {
        self.nodes.get(node).map(|node| node.work.kind())
    }

    /// Checks an edge's data. cuda.h, CUgraphDependencyType: a programmatic dependency is one between kernel nodes, from one
    /// of the two ports that only they have; CUgraphEdgeData: all else is zero.
    pub fn check_edge_data(&self, from: Handle, to_kind: Option<u32>, data: u64) -> Outcome {
        const KERNEL: Option<u32> = Some(0);
        let [port, to_port, dependency, rest @ ..] = data.to_ne_bytes();
        let programmatic = dependency == 1 && [1, 2].contains(&port) && to_port == 0 && rest == [0; 5];
        let between_kernels = self.kind_of(from) == KERNEL && to_kind == KERNEL;
        if data == 0 || (programmatic && between_kernels) { Ok(()) } else { Err(INVALID_VALUE) }
    }

    /// Sets the data of an edge, which was checked before.
    pub fn set_edge_data(&mut self, from: Handle, to: Handle, data: u64) {
        if let Some(node) = self.nodes.get_mut(to).filter(|_| data != 0) {
            node.data.insert(from, data);
        }
    }

    /// Copies a graph with its nodes and children.
    pub fn clone_graph(&mut self, graph: Handle, owned: bool) -> Outcome<Handle> {
        let source = self.graphs.get(graph).ok_or(INVALID_HANDLE)?.clone();
        let conditional = |&node: &Handle| self.nodes.get(node).is_some_and(|node| node.work.kind() == 13);
        if source.nodes.iter().any(conditional) || self.has_memory(graph) {
            // cuda.h, CU_GRAPH_NODE_TYPE_CONDITIONAL, cuGraphClone: such a graph cannot be cloned, nor, as it is, be used
            // in a child node.
            return Err(NOT_SUPPORTED);
        }
        let objects = source.objects.clone();
        let clone = self.graphs.insert(Graph { owned, original: graph, objects, ..Graph::default() });
        let mut clones = HashMap::new();
        for &node in &source.nodes {
            let mut copy = self.nodes.get(node).ok_or(INVALID_HANDLE)?.clone();
            if let NodeWork::Child(child) = copy.work {
                copy.work = NodeWork::Child(self.clone_graph(child, true)?);
            }
            (copy.graph, copy.original) = (clone, node);
            clones.insert(node, self.nodes.insert(copy));
        }
        let new: Vec<Handle> = source.nodes.iter().map(|node| clones[node]).collect();
        for &node in &new {
            if let Some(node) = self.nodes.get_mut(node) {
                node.before.iter_mut().for_each(|before| *before = clones[before]);
                node.data = node.data.iter().map(|(before, &data)| (clones[before], data)).collect();
            }
        }
        if let Some(clone) = self.graphs.get_mut(clone) {
            clone.nodes = new;
        }
        Ok(clone)
    }

    /// Returns the user objects that a graph and its children reference.
    pub fn kept_by(&self, graph: Handle) -> Vec<Arc<Kept>> {
        let Some(graph) = self.graphs.get(graph) else { return Vec::new() };
        let mut objects: Vec<Arc<Kept>> = graph.objects.iter().map(|(object, _)| object.clone()).collect();
        for node in graph.nodes.iter().filter_map(|&node| self.nodes.get(node)) {
            match &node.work {
                NodeWork::One(_) => {}
                NodeWork::Child(child) => objects.extend(self.kept_by(*child)),
                NodeWork::Conditional(of) => {
                    objects.extend(of.bodies.iter().flat_map(|&body| self.kept_by(body)))
                }
            }
        }
        objects
    }

    /// Removes a graph with its nodes and children.
    pub fn destroy_graph(&mut self, graph: Handle) -> Outcome {
        let gone = self.graphs.remove(graph).ok_or(INVALID_HANDLE)?;
        self.graph_memory.orphan(graph);
        // The next graph may reuse its handle.
        self.execs.values_mut().filter(|exec| exec.graph == graph).for_each(|exec| exec.graph = 0);
        for node in gone.nodes {
            if let Some(node) = self.nodes.remove(node) {
                self.destroy_inner(node.work)?;
            }
        }
        Ok(())
    }

    /// Removes the graphs that belong to a node.
    pub fn destroy_inner(&mut self, work: NodeWork) -> Outcome {
        match work {
            NodeWork::One(_) => Ok(()),
            NodeWork::Child(child) => self.destroy_graph(child),
            NodeWork::Conditional(of) => of.bodies.into_iter().try_for_each(|body| self.destroy_graph(body)),
        }
    }

    /// cuda.h, CUDA_CONDITIONAL_NODE_PARAMS: a body holds kernel, copy, set, child, empty and conditional nodes only.
    fn check_body(&self, body: Handle) -> Outcome {
        let nodes = &self.graphs.get(body).ok_or(INVALID_HANDLE)?.nodes;
        let kind = |&node: &Handle| self.nodes.get(node).map_or(u32::MAX, |node| node.work.kind());
        if nodes.iter().all(|node| [0, 1, 2, 4, 5, 13].contains(&kind(node))) {
            Ok(())
        } else {
            Err(INVALID_VALUE)
        }
    }

    /// Returns a graph's nodes in an order that the dependencies allow; an error if there is none.
    pub fn ordered(&self, graph: Handle) -> Outcome<Vec<Handle>> {
        let graph = self.graphs.get(graph).ok_or(INVALID_HANDLE)?;
        let mut waiting: HashMap<Handle, usize> = HashMap::new();
        let mut behind: HashMap<Handle, Vec<Handle>> = HashMap::new();
        for &node in &graph.nodes {
            let before = &self.nodes.get(node).ok_or(INVALID_HANDLE)?.before;
            waiting.insert(node, before.len());
            for &dependency in before {
                behind.entry(dependency).or_default().push(node);
            }
        }
        let mut order: Vec<Handle> = graph.nodes.iter().copied().filter(|node| waiting[node] == 0).collect();
        let mut at = 0;
        while let Some(&node) = order.get(at) {
            for &next in behind.get(&node).into_iter().flatten() {
                let left = waiting.entry(next).or_default();
                *left -= 1;
                if *left == 0 {
                    order.push(next);
                }
            }
            at += 1;
        }
        if order.len() < graph.nodes.len() { Err(INVALID_VALUE) } else { Ok(order) }
    }

    /// Flattens a graph into steps. A child graph, or the body that a conditional node runs, becomes its steps between
    /// two empty ones.
    pub fn flatten(&self, graph: Handle, roots: &[usize], steps: &mut Vec<Step>) -> Outcome<Vec<usize>> {
        let mut step_of: HashMap<Handle, usize> = HashMap::new();
        let mut leaves: Vec<usize> = Vec::new();
        for node in self.ordered(graph)? {
            let GraphNode { work, before, .. } = self.nodes.get(node).ok_or(INVALID_HANDLE)?;
            let mut before: Vec<usize> = before.iter().map(|before| step_of[before]).collect();
            leaves.retain(|leaf| !before.contains(leaf));
            if before.is_empty() {
                before.extend(roots);
            }
            let kind = work.kind();
            let step = |work, before| Step { node, kind, work, enabled: true, before };
            match work {
                NodeWork::One(work) => steps.push(step(work.clone(), before)),
                NodeWork::Child(_) | NodeWork::Conditional(_) => {
                    steps.push(step(Work::Empty, before));
                    let (inner, rounds) = match work {
                        NodeWork::Child(child) => (Some(*child), 1),
                        NodeWork::Conditional(of) => {
                            of.bodies.iter().try_for_each(|&body| self.check_body(body))?;
                            of.runs()
                        }
                        NodeWork::One(_) => (None, 0),
                    };
                    let mut ends = vec![steps.len() - 1];
                    for graph in inner.into_iter().flat_map(|inner| (0..rounds).map(move |_| inner)) {
                        let leaves = self.flatten(graph, &ends.clone(), steps)?;
                        if !leaves.is_empty() {
                            ends = leaves;
                        }
                    }
                    steps.push(step(Work::Empty, ends));
                }
            }
            step_of.insert(node, steps.len() - 1);
            leaves.push(steps.len() - 1);
        }
        Ok(leaves)
    }

    /// Launches an executable graph on a stream that has room. cuda.h, cuGraphLaunch: "each launch is ordered behind both
    /// any previous work in this stream and any previous launches of this graph".
    pub fn launch_graph(&mut self, call: &Call, stream: Handle, exec: Handle) -> Outcome<Done> {
        let mut place = self.place(stream);
        let before = self.predecessors(stream);
        let Exec { steps, flags, .. } = self.execs.get(exec).ok_or(INVALID_HANDLE)?;
        let (moves, flags) = (Moves::of(steps), *flags);
        self.begin_moves(call, &moves, flags)?;
        let Exec { steps, last, .. } = self.execs.get_mut(exec).ok_or(INVALID_HANDLE)?;
        let last = last.clone();
        let steps = std::mem::take(steps);
        let operation = self.operation_of(call, "graph", &place);
        place.graph = operation.seq;
        let nothing = |action| Job { action, truth: None };
        // It blocks its stream while it waits for its own last launch, which may be on another stream.
        let head = self.add(&before, Length::Fixed(0), None, nothing(Action::None));
        let begin = self.add(&[head.clone(), last], Length::Fixed(0), None, nothing(Action::None));
        let mut ends: Vec<Done> = Vec::with_capacity(steps.len() + 1);
        for step in &steps {
            let behind = match &step.before[..] {
                [] => vec![begin.clone()],
                before => before.iter().map(|&index| ends[index].clone()).collect(),
            };
            let work = if step.enabled { &step.work } else { &Work::Empty };
            ends.push(self.run(call, work, behind, &Place { queue: 0, ..place }));
        }
        self.end_moves(call, &moves, &ends, place.stream, place.graph);
        ends.push(begin.clone());
        let truth = truth::wanted().then_some(operation);
        let end =
            self.add(&ends, Length::Fixed(0), None, Job { action: Action::GraphEnd { head, begin }, truth });
        if let Some(exec) = self.execs.get_mut(exec) {
            exec.steps = steps;
            exec.last = end.clone();
        }
        self.append(stream, end.clone());
        Ok(end)
    }
}
