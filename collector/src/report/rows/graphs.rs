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
    pub launches: u64,
    /// The number of those with a GPU time; each graph launch is timed as a whole.
    pub timed: u64,
    /// The sum of the timed launches' GPU times.
    pub total_ns: Option<Estimate>,
    /// The median of those times.
    pub median_ns: Option<Estimate>,
    /// The number of kernels that the graphs ran; they are listed by name under kernels.
    pub kernels: u64,
    /// The copies that the graphs ran, which are not among the transfers.
    pub copies: Moves,
    /// The memsets that the graphs ran, which are not among the transfers.
    pub memsets: Moves,
    /// The number of nodes of other kinds that the graphs ran.
    pub others: u64,
    /// The number of launches whose nodes were timed (--graph nodes).
    pub sampled: u64,
    /// The kernels in the sampled launches. A sample includes the cost of the event after the kernel.
    pub nodes: Vec<Node>,
}

/// Copies or memsets.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Moves {
    /// The number of operations.
    pub count: u64,
    /// The sum of their bytes.
    pub bytes: u64,
}

/// A kernel in the sampled launches.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Node {
    /// The demangled name.
    pub name: String,
    /// The name as the app's binary has it.
    pub symbol: String,
    /// The number of samples.
    pub samples: u64,
    /// The mean of the samples; only on the screen.
    #[serde(skip)]
    pub avg_ns: Option<Estimate<f64>>,
    /// The median sample.
    pub median_ns: Option<Estimate>,
    /// The shortest sample.
    pub min_ns: Option<Estimate>,
    /// The longest sample.
    pub max_ns: Option<Estimate>,
    /// The standard deviation of the samples, of the population; only on the screen.
    #[serde(skip)]
    pub stddev_ns: Option<Estimate<f64>>,
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
            avg_ns: durations.mean().map(Into::into),
            median_ns: durations.median().map(Into::into),
            min_ns: durations.min().map(Into::into),
            max_ns: durations.max().map(Into::into),
            stddev_ns: durations.stddev().map(Into::into),
        }
    }
}
