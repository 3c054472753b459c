//! What ran inside graph launches, and for how long.
//!
//! Copies and memsets of graphs are counted here and not among the transfers, since they have no times of their own.
//! Kernels are counted by name with the others (`in_graphs`). With `--graph nodes` their times are samples: a
//! replay's events are read only if no other replay had started before.

use super::analysis::{Analysis, End, Start};
use super::durations::Durations;
use super::estimate::Estimate;
use super::extrapolate::{Strata, Windows};
use super::kernels::UNKNOWN;
use super::merge::Merge;
use super::scope::Scope;
use crate::hash::HashMap;
use crate::model::graphs::Moves;
use crate::model::{Action, Event, When};
use crate::trace::record::{Body, Names, What, Work};
use gpuspy_wire::record::Namespace;
use std::collections::BTreeMap;

/// All graph launches.
#[derive(Clone, Debug, Default)]
pub struct GraphUse {
    /// Launches that succeeded outside stream captures.
    pub launches: u64,
    /// Kernels that they ran.
    pub kernels: u64,
    /// Their copies.
    pub copies: Moves,
    /// Their memsets.
    pub sets: Moves,
    /// Their nodes of other kinds.
    pub others: u64,
    /// The durations of the timed launches, each as a whole.
    pub durations: Durations,
    /// The sample from which the time of the other launches is estimated, by graph.
    pub strata: Strata<u32>,
    /// Launches whose nodes were timed.
    pub sampled: u64,
    /// The times of kernels in those, by name as the program's binary has it.
    pub nodes: BTreeMap<String, Durations>,
}

impl GraphUse {
    /// Returns the time of all launches, ns, extrapolated if not all are timed; `None` if none is.
    pub fn total(&self) -> Option<Estimate<u64>> {
        self.strata.total()
    }
}

impl Merge for GraphUse {
    fn merge(&mut self, other: &GraphUse) {
        self.launches += other.launches;
        self.kernels = self.kernels.saturating_add(other.kernels);
        self.copies.add(other.copies);
        self.sets.add(other.sets);
        self.others = self.others.saturating_add(other.others);
        self.durations.merge(&other.durations);
        self.strata.merge(&other.strata);
        self.sampled += other.sampled;
        for (symbol, durations) in &other.nodes {
            self.nodes.entry(symbol.clone()).or_default().merge(durations);
        }
    }
}

/// The analysis.
#[derive(Debug)]
pub struct GraphTimes<'a> {
    names: &'a Names,
    sum: GraphUse,
    nodes: HashMap<u32, Durations>,
    /// The launch of the last node time. All node times of a launch come together.
    last: Option<u64>,
    windows: Windows,
}

impl<'a> Analysis<'a> for GraphTimes<'a> {
    type Rows = GraphUse;

    fn new(start: &Start<'a>) -> Self {
        GraphTimes {
            names: start.names,
            sum: GraphUse::default(),
            nodes: HashMap::default(),
            last: None,
            windows: Windows::default(),
        }
    }

    fn observe(&mut self, event: &Event<'_>, scope: &Scope<'_>) {
        self.windows.observe(event.record);
        if let Body::NodeTime(node) = &event.record.body {
            let is_new = self.last.replace(node.correlation) != Some(node.correlation);
            if let Some(interval) = scope.node() {
                self.nodes.entry(node.kernel).or_default().add(interval.length);
                self.sum.sampled += u64::from(is_new);
            }
        }
        let Some(operation) = scope.operation() else { return };
        let (Action::Graph { .. }, Some(ran)) = (operation.what, scope.graph()) else { return };
        let sum = &mut self.sum;
        match operation.when {
            When::Captured => return,
            When::Timed(interval) => sum.durations.add(interval.length),
            When::Untimed { .. } => {}
        }
        if let Body::Work(Work { what: What::Graph { graph, .. }, .. }) = &event.record.body {
            sum.strata.observe(*graph, &self.windows, operation, event);
        }
        sum.launches += 1;
        sum.kernels = sum.kernels.saturating_add(ran.kernel_count);
        sum.copies.add(ran.copies);
        sum.sets.add(ran.sets);
        sum.others = sum.others.saturating_add(ran.others);
    }

    fn finish(mut self, _: &End<'_>) -> GraphUse {
        for (id, durations) in &self.nodes {
            let symbol = self.names.get(Namespace::Kernel, *id).unwrap_or(UNKNOWN);
            self.sum.nodes.entry(symbol.to_owned()).or_default().merge(durations);
        }
        self.sum
    }
}
