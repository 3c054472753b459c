//! What was copied and set, between what kinds of memory, and how fast?

use super::Analysis;
use super::estimate::{Estimate, Sum};
use super::extrapolate::{Sample, WindowCount};
use crate::model::transfer::{HostMemory, TransferKind};
use crate::model::{Action, Event, When};
use std::collections::BTreeMap;

/// By what was moved and which host memory took part.
pub type Transfers = BTreeMap<(TransferKind, HostMemory), Transfer>;

/// Transfers of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Transfer {
    /// How many, graphs' own not counted.
    pub count: u64,
    /// How much they moved.
    pub bytes: u64,
    /// How many were timed.
    pub timed: u64,
    /// How much those moved.
    pub timed_bytes: u64,
    /// How long those took, ns.
    pub time: Sum,
    /// The same, by windows.
    sample: Sample,
}

impl Transfer {
    /// Time of all, ns, extrapolated where not all are timed; `None` when none is.
    pub fn total(&self) -> Option<Estimate<u64>> {
        (self.timed > 0).then(|| self.sample.total(self.count, self.timed, self.time.estimate()))
    }

    /// Throughput of the timed ones, 10⁹ bytes a second; `None` without any. Its hi is not known where nothing
    /// bounds the time from below.
    pub fn gbps(&self) -> Option<Estimate<Option<f64>>> {
        let per = |ns: u64| (ns > 0).then(|| self.timed_bytes as f64 / ns as f64);
        let time = self.time;
        (self.timed > 0).then(|| Estimate::new(per(time.value), per(time.hi), per(time.lo)))
    }

    /// Adds another's.
    pub fn merge(&mut self, other: &Transfer) {
        self.count += other.count;
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.timed += other.timed;
        self.timed_bytes = self.timed_bytes.saturating_add(other.timed_bytes);
        self.time.add(other.time);
        self.sample.merge(&other.sample);
    }
}

/// The fold.
#[derive(Debug, Default)]
pub struct TransferTimes {
    table: Transfers,
    window: WindowCount,
}

impl Analysis for TransferTimes {
    type Table = Transfers;

    fn observe(&mut self, event: &Event<'_>) {
        self.window.observe(&event.record.body);
        let Some(operation) = &event.operation else { return };
        let Action::Transfer { kind, host_memory, bytes } = operation.what else { return };
        if operation.when == When::Captured {
            return;
        }
        let sum = self.table.entry((kind, host_memory)).or_default();
        sum.count += 1;
        sum.bytes = sum.bytes.saturating_add(bytes);
        if let When::Timed(o) = operation.when {
            let time = Sum { value: o.value(), lo: o.lo(), hi: o.hi() };
            sum.timed += 1;
            sum.timed_bytes = sum.timed_bytes.saturating_add(bytes);
            sum.time.add(time);
            sum.sample.add(self.window, time);
        }
    }

    fn finish(self) -> Self::Table {
        self.table
    }
}
