//! The kernels of both runs, matched by name.

use super::figure::{Figure, Scale, plus};
use crate::report::rows::kernels;
use crate::report::rows::numbers::{Estimate, Kind, divided};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// A kernel of either run.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Kernel {
    /// The demangled name.
    pub name: String,
    pub state: State,
    /// The number of launches outside stream captures.
    pub count: Figure,
    /// The number of executions inside graphs, which count leaves out.
    pub in_graphs: Figure,
    /// The sum of the GPU times of all launches, without those in graphs; null = none was timed.
    pub total_ns: Figure,
    /// The mean GPU time of a launch.
    pub avg_ns: Figure,
}

/// Which run has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Only the run after the change.
    Appeared,
    /// Only the run before it.
    Vanished,
    /// Both.
    Both,
}

/// The launches of one name in one run.
#[derive(Clone, Copy, Debug)]
struct Sum {
    count: u64,
    in_graphs: u64,
    /// `None` if launches of a kernel of this name were not timed at all.
    total: Option<Estimate>,
    avg: Option<Estimate<f64>>,
}

/// Compares the kernels of two runs, the largest change of the total first, then the largest change of the count.
pub fn kernels(before: &[kernels::Kernel], after: &[kernels::Kernel], scale: Scale) -> Vec<Kernel> {
    let (before, after) = (by_name(before), by_name(after));
    let mut names: Vec<&str> = before.keys().chain(after.keys()).copied().collect();
    names.sort_unstable();
    names.dedup();
    let row = |name: &str| Kernel::of(name, before.get(name), after.get(name), scale);
    let mut rows: Vec<Kernel> = names.into_iter().map(row).collect();
    let size = |row: &Kernel| (row.total_ns.size(), row.count.size() + row.in_graphs.size());
    rows.sort_by(|a, b| {
        let ((time, count), (other_time, other_count)) = (size(a), size(b));
        other_time.total_cmp(&time).then(other_count.total_cmp(&count))
    });
    rows
}

/// Adds up the kernels that have the same name: anonymous namespaces and static functions have symbols of their own.
fn by_name(rows: &[kernels::Kernel]) -> BTreeMap<&str, Sum> {
    let mut sums: BTreeMap<&str, Sum> = BTreeMap::new();
    for row in rows {
        let one = Sum { count: row.count, in_graphs: row.in_graphs, total: total(row), avg: row.avg_ns };
        let sum = sums.get(row.name.as_str()).map_or(one, |sum| sum.plus(&one));
        sums.insert(&row.name, sum);
    }
    sums
}

/// Returns the time of all launches: none for a kernel that is only in graphs.
fn total(row: &kernels::Kernel) -> Option<Estimate> {
    if row.count == 0 { Some(Estimate::exactly(0)) } else { row.total_ns }
}

impl Sum {
    const NOTHING: Sum = Sum {
        count: 0,
        in_graphs: 0,
        total: Some(Estimate { value: 0, lo: 0, hi: 0, kind: Kind::Exact }),
        avg: None,
    };

    fn plus(&self, other: &Sum) -> Sum {
        let total = self.total.zip(other.total).map(|(one, other)| plus(one, other));
        let count = self.count.saturating_add(other.count);
        let avg = total.filter(|_| count > 0).map(|total| divided(total, count as f64));
        Sum { count, in_graphs: self.in_graphs.saturating_add(other.in_graphs), total, avg }
    }
}

impl Kernel {
    fn of(name: &str, before: Option<&Sum>, after: Option<&Sum>, scale: Scale) -> Kernel {
        let state = match (before, after) {
            (None, _) => State::Appeared,
            (_, None) => State::Vanished,
            _ => State::Both,
        };
        let [before, after] = [before, after].map(|sum| sum.copied().unwrap_or(Sum::NOTHING));
        Kernel {
            name: name.to_owned(),
            state,
            count: scale.count(before.count, after.count),
            in_graphs: scale.count(before.in_graphs, after.in_graphs),
            total_ns: scale.times(before.total, after.total),
            avg_ns: Figure::of(before.avg, after.avg),
        }
    }

    /// Whether both runs launched it equally often for exactly as long.
    pub fn is_same(&self) -> bool {
        self.count.is_same() && self.in_graphs.is_same() && self.total_ns.is_same()
    }
}
