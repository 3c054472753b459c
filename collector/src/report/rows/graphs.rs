//! What graph launches ran.

use super::super::names::demangle;
use super::numbers::Estimate;
use crate::analyze::durations::Durations;
use crate::analyze::graphs::GraphUse;
use crate::model::graphs;
use schemars::JsonSchema;
use serde::Serialize;

/// Graph launches that succeeded outside captures, and what they ran.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Graphs {
    /// The number of launches.
    launches: u64,
    /// Launches with a GPU time, each as a whole.
    timed: u64,
    /// Of the timed launches.
    total_ns: Option<Estimate>,
    /// The median.
    median_ns: Option<Estimate>,
    /// Kernels that they ran; by name under kernels.
    kernels: u64,
    /// Copies that they ran; not among the transfers.
    copies: Moves,
    /// Memsets that they ran; not among the transfers.
    memsets: Moves,
    /// Nodes of other kinds.
    others: u64,
    /// Launches whose nodes were timed (--graph nodes).
    sampled: u64,
    /// Kernels in the sampled launches. A sample includes the cost of the event after the kernel.
    nodes: Vec<Node>,
}

/// Copies or memsets.
#[derive(Debug, Serialize, JsonSchema)]
struct Moves {
    /// How many.
    count: u64,
    /// Bytes of all of them.
    bytes: u64,
}

/// A kernel in the sampled launches.
#[derive(Debug, Serialize, JsonSchema)]
struct Node {
    /// Demangled.
    name: String,
    /// As the app's binary has it.
    symbol: String,
    /// The number of samples.
    samples: u64,
    /// The median.
    median_ns: Option<Estimate>,
    /// The shortest.
    min_ns: Option<Estimate>,
    /// The longest.
    max_ns: Option<Estimate>,
}

impl Graphs {
    /// Returns the row.
    pub fn of(graphs: &GraphUse) -> Graphs {
        Graphs {
            launches: graphs.launches,
            timed: graphs.durations.count(),
            total_ns: graphs.total().map(Into::into),
            median_ns: graphs.durations.median().map(Into::into),
            kernels: graphs.kernels,
            copies: Moves::of(&graphs.copies),
            memsets: Moves::of(&graphs.sets),
            others: graphs.others,
            sampled: graphs.sampled,
            nodes: graphs.nodes.iter().map(Node::of).collect(),
        }
    }
}

impl Moves {
    fn of(moves: &graphs::Moves) -> Moves {
        Moves { count: moves.count, bytes: moves.bytes }
    }
}

impl Node {
    fn of((symbol, durations): (&String, &Durations)) -> Node {
        Node {
            name: demangle(symbol),
            symbol: symbol.clone(),
            samples: durations.count(),
            median_ns: durations.median().map(Into::into),
            min_ns: durations.min().map(Into::into),
            max_ns: durations.max().map(Into::into),
        }
    }
}
