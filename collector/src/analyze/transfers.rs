//! Copies and memsets: between which kinds of memory, how much, and how fast.

use super::analysis::{Analysis, End, Start};
use super::calls::HostTimes;
use super::estimate::{Estimate, Sum};
use super::extrapolate::{Extent, Strata, Windows};
use super::merge::Merge;
use super::scope::Scope;
use crate::model::transfer::{HostMemory, TransferKind};
use crate::model::{Action, Event, When};
use std::collections::BTreeMap;

/// Transfers by direction and kind of host memory.
pub type Transfers = BTreeMap<(TransferKind, HostMemory), Transfer>;

/// Transfers of one kind.
#[derive(Clone, Debug, Default)]
pub struct Transfer {
    /// How many, without those inside graphs.
    pub count: u64,
    /// The bytes that they moved.
    pub bytes: u64,
    /// How many were timed.
    pub timed: u64,
    /// The bytes that the timed ones moved.
    pub timed_bytes: u64,
    /// The time of the timed ones, ns.
    pub time: Sum,
    /// The same by the size of one transfer; sizes that did not occur are absent.
    pub sizes: BTreeMap<SizeClass, SizePart>,
    /// The host's time in their calls.
    pub host: HostTimes,
    /// The sample from which the time of the others is estimated, by size.
    pub strata: Strata<SizeStep>,
}

/// The size of one transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SizeClass {
    /// At most 4 KiB: about the cost of the call alone.
    UpTo4KiB,
    /// At most 64 KiB: up to this size a copy to the device returns before it is done (CUDA Driver API, "API
    /// synchronization behavior").
    UpTo64KiB,
    /// At most 1 MiB.
    UpTo1MiB,
    /// At most 16 MiB.
    UpTo16MiB,
    /// More.
    Larger,
}

/// Transfers of one kind and size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SizePart {
    /// How many.
    pub count: u64,
    /// The bytes that they moved.
    pub bytes: u64,
    /// How many were timed.
    pub timed: u64,
    /// The bytes that the timed ones moved.
    pub timed_bytes: u64,
    /// The time of the timed ones, ns.
    pub time: Sum,
}

impl SizeClass {
    /// All, in order.
    pub const ALL: [SizeClass; 5] = [
        SizeClass::UpTo4KiB,
        SizeClass::UpTo64KiB,
        SizeClass::UpTo1MiB,
        SizeClass::UpTo16MiB,
        SizeClass::Larger,
    ];

    /// Returns the class of a transfer of this many bytes.
    pub fn of(bytes: u64) -> Self {
        let holds = |class: &SizeClass| class.most().is_none_or(|most| bytes <= most);
        SizeClass::ALL.into_iter().find(holds).unwrap_or(SizeClass::Larger)
    }

    /// Returns the largest transfer of this class, bytes; `None` if there is no limit.
    pub fn most(self) -> Option<u64> {
        match self {
            SizeClass::UpTo4KiB => Some(0x1000),
            SizeClass::UpTo64KiB => Some(0x1_0000),
            SizeClass::UpTo1MiB => Some(0x10_0000),
            SizeClass::UpTo16MiB => Some(0x100_0000),
            SizeClass::Larger => None,
        }
    }

    /// The label on screen.
    pub fn label(self) -> &'static str {
        match self {
            SizeClass::UpTo4KiB => "<= 4 KiB",
            SizeClass::UpTo64KiB => "<= 64 KiB",
            SizeClass::UpTo1MiB => "<= 1 MiB",
            SizeClass::UpTo16MiB => "<= 16 MiB",
            SizeClass::Larger => "> 16 MiB",
        }
    }
}

/// The size of a transfer, in steps of a quarter of an octave: the largest of a step is at most a quarter larger than the smallest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SizeStep(u8);

impl SizeStep {
    /// Returns the step of a transfer of this many bytes.
    pub fn of(bytes: u64) -> Self {
        let octave = bytes.max(1).ilog2();
        let quarter = (u128::from(bytes) << 2 >> octave) as u8 & 3;
        SizeStep(octave as u8 * 4 + quarter)
    }
}

impl SizePart {
    /// Returns the throughput of the timed ones, as [`Transfer::gbps`].
    pub fn gbps(&self) -> Option<Estimate<Option<f64>>> {
        (self.timed > 0).then(|| gbps(self.timed_bytes, self.time))
    }

    /// Whether it is meaningful, as [`Transfer::gbps_is_known`].
    pub fn gbps_is_known(&self) -> bool {
        self.timed > 0 && is_known(self.time)
    }

    fn add(&mut self, other: &SizePart) {
        self.count += other.count;
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.timed += other.timed;
        self.timed_bytes = self.timed_bytes.saturating_add(other.timed_bytes);
        self.time.add(other.time);
    }
}

impl Transfer {
    /// Returns the time of all, ns, extrapolated if not all are timed; `None` if none is.
    pub fn total(&self) -> Option<Estimate<u64>> {
        self.strata.total()
    }

    /// Returns the throughput of the timed ones, 10⁹ bytes per second; `None` without any. Its hi is unknown if the
    /// time has no lower bound above 0.
    pub fn gbps(&self) -> Option<Estimate<Option<f64>>> {
        (self.timed > 0).then(|| gbps(self.timed_bytes, self.time))
    }

    /// Whether the best value of the throughput is meaningful: the upper bound of the time is at most [`WIDEST`]
    /// times the lower one. A small copy on a drained stream is over before its end event is recorded, and its best
    /// value is then a guess that looks like a measurement.
    pub fn gbps_is_known(&self) -> bool {
        self.timed > 0 && is_known(self.time)
    }
}

impl Merge for Transfer {
    fn merge(&mut self, other: &Transfer) {
        self.count += other.count;
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.timed += other.timed;
        self.timed_bytes = self.timed_bytes.saturating_add(other.timed_bytes);
        self.time.add(other.time);
        for (class, theirs) in &other.sizes {
            self.sizes.entry(*class).or_default().add(theirs);
        }
        self.host.merge(&other.host);
        self.strata.merge(&other.strata);
    }
}

/// Returns the estimated time of untimed transfers on a device, which `extent` selects.
pub fn untimed(transfers: &Transfers, extent: impl Fn(&Strata<SizeStep>) -> Extent) -> Extent {
    let each = transfers.values().map(|transfer| extent(&transfer.strata));
    each.fold(Extent::default(), Extent::plus)
}

/// How many times the lower bound of the time its upper bound may be for a throughput to be printed as a number: this
/// is within a factor of 2 of the geometric mean.
const WIDEST: u64 = 4;

fn is_known(time: Sum) -> bool {
    time.lo > 0 && time.hi <= time.lo.saturating_mul(WIDEST)
}

fn gbps(bytes: u64, time: Sum) -> Estimate<Option<f64>> {
    let per = |ns: u64| (ns > 0).then(|| bytes as f64 / ns as f64);
    Estimate::new(per(time.value), per(time.hi), per(time.lo))
}

/// The analysis.
#[derive(Debug, Default)]
pub struct TransferTimes {
    table: Transfers,
    windows: Windows,
}

impl<'a> Analysis<'a> for TransferTimes {
    type Rows = Transfers;

    fn new(_: &Start<'a>) -> Self {
        TransferTimes::default()
    }

    fn observe(&mut self, event: &Event<'_>, scope: &Scope<'_>) {
        self.windows.observe(event.record);
        let Some(operation) = scope.operation() else { return };
        let Action::Transfer { kind, host_memory, bytes } = operation.what else { return };
        if operation.when == When::Captured {
            return;
        }
        let mut one = SizePart { count: 1, bytes, ..SizePart::default() };
        let sum = self.table.entry((kind, host_memory)).or_default();
        sum.count += 1;
        sum.bytes = sum.bytes.saturating_add(bytes);
        sum.strata.observe(SizeStep::of(bytes), &self.windows, operation, event);
        if let When::Timed(o) = operation.when {
            let time = Sum { value: o.value(), lo: o.lo(), hi: o.hi() };
            one = SizePart { timed: 1, timed_bytes: bytes, time, ..one };
            sum.timed += 1;
            sum.timed_bytes = sum.timed_bytes.saturating_add(bytes);
            sum.time.add(time);
        }
        sum.sizes.entry(SizeClass::of(bytes)).or_default().add(&one);
        event.call.into_iter().for_each(|call| sum.host.add(call));
    }

    fn finish(self, _: &End<'_>) -> Transfers {
        self.table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_class_includes_its_bound() {
        let sizes = [0, 4 << 10, (4 << 10) + 1, 64 << 10, (64 << 10) + 1, 1 << 20, (1 << 20) + 1, 16 << 20];
        let classes = sizes.map(|bytes| SizeClass::of(bytes) as usize);
        assert_eq!(classes, [0, 0, 1, 1, 2, 2, 3, 3]);
        assert_eq!(SizeClass::of((16 << 20) + 1), SizeClass::Larger);
        assert_eq!(SizeClass::of(u64::MAX).label(), "> 16 MiB");
    }

    #[test]
    fn a_step_holds_sizes_that_differ_by_a_quarter_at_most() {
        let same = |a, b| SizeStep::of(a) == SizeStep::of(b);
        assert!(same(64, 79) && same(80, 95) && same(112, 127) && same(1 << 40, (1 << 40) * 5 / 4 - 1));
        assert!(!same(79, 80) && !same(127, 128) && !same(70 << 10, 1_000 << 10));
        assert!(SizeStep::of(0) < SizeStep::of(2) && SizeStep::of(u64::MAX) == SizeStep(255));
    }

    #[test]
    fn a_throughput_is_known_if_its_time_is() {
        let of = |lo, value, hi| Transfer {
            timed: 1,
            timed_bytes: 1_000,
            time: Sum { value, lo, hi },
            ..Transfer::default()
        };
        assert!(of(10, 20, 40).gbps_is_known() && of(7, 7, 7).gbps_is_known());
        assert!(!of(10, 20, 41).gbps_is_known(), "more than a factor of four");
        assert!(!of(0, 20, 20).gbps_is_known() && !of(0, 0, 0).gbps_is_known(), "it may have taken no time");
        assert_eq!(of(0, 20, 40).gbps(), Some(Estimate::new(Some(50.0), Some(25.0), None)));
        assert!(!Transfer::default().gbps_is_known() && Transfer::default().gbps().is_none());
    }
}
