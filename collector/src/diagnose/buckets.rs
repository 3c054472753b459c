//! The parts of the wall time, which do not overlap and sum to it.

use crate::analyze::devices::DeviceReport;
use crate::analyze::estimate::Sum;
use crate::analyze::identity::Class;
use crate::analyze::idle::Cause;
use crate::analyze::{ProcessReport, Tables, lines};
use std::collections::BTreeMap;

/// A part of the wall time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Bucket {
    /// Before the GPU's first operation.
    StartUp,
    /// A kernel ran.
    Compute,
    /// A communication kernel ran, and no other.
    ExposedCommunication,
    /// A copy or a memset ran, and no kernel.
    ExposedCopies,
    /// A graph launch ran.
    Graphs,
    /// The GPU was idle, for this cause.
    Idle(Cause),
    /// Neither certainly busy nor certainly idle.
    Undecided,
    /// After the GPU's last operation.
    Tail,
}

/// The wall time of the GPU that was used most, by [`Bucket`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Buckets {
    /// The wall time, ns: the values of the parts sum to it.
    pub wall: u64,
    /// The parts, ns.
    pub parts: BTreeMap<Bucket, Sum>,
    /// That GPU's place in the tables; `None` if no GPU had work.
    pub device: Option<usize>,
}

impl Buckets {
    /// Divides the wall time of a run.
    pub fn of(reports: &[ProcessReport], all: &Tables) -> Buckets {
        let used = all.devices.iter().enumerate().filter(|(_, device)| device.timelines > 0);
        let Some((at, device)) = used.max_by_key(|(_, device)| device.identity.span) else {
            let wall = lines(reports).map(|line| line.looked_ns).max().unwrap_or(0);
            let parts = BTreeMap::from([(Bucket::StartUp, Sum { value: wall, lo: wall, hi: wall })]);
            return Buckets { wall, parts, device: None };
        };
        Buckets { device: Some(at), ..Buckets::of_device(device, all) }
    }

    fn of_device(device: &DeviceReport, all: &Tables) -> Buckets {
        let whole = device.whole();
        let wall = device.line.looked_ns.max(whole.span);
        let outside = wall - whole.span;
        let first = device.line.period_ns.0;
        let start_up = match device.began_ns {
            // It has no work in the selected period.
            _ if whole.span == 0 => outside,
            Some(began) => began.saturating_sub(first).min(outside),
            None => 0,
        };
        let exactly = |value| Sum { value, lo: value, hi: value };
        let mut parts = BTreeMap::from([
            (Bucket::StartUp, exactly(start_up)),
            (Bucket::Compute, whole.busy[Class::Compute as usize]),
            (Bucket::ExposedCommunication, whole.busy[Class::Communication as usize]),
            (Bucket::ExposedCopies, whole.busy[Class::Copy as usize]),
            (Bucket::Graphs, whole.busy[Class::Graph as usize]),
            (Bucket::Tail, exactly(outside - start_up)),
        ]);
        let mut undecided = whole.undecided;
        undecided.add(whole.unobserved);
        parts.insert(Bucket::Undecided, undecided);
        // The causes are those of all devices: they are reduced to the idle time of this one.
        let of_all = all.idle.by_cause.values().fold(0u64, |sum, part| sum.saturating_add(part.total.value));
        let mut left = whole.idle.value;
        for (cause, part) in all.idle.by_cause.iter().filter(|(cause, _)| **cause != Cause::Undecided) {
            let share =
                |ns: u64| (u128::from(ns) * u128::from(whole.idle.value) / u128::from(of_all.max(1))) as u64;
            let value = share(part.total.value).min(left);
            left -= value;
            let idle =
                Sum { value, lo: share(part.total.lo).min(value), hi: share(part.total.hi).max(value) };
            parts.insert(Bucket::Idle(*cause), idle);
        }
        parts.insert(Bucket::Idle(Cause::Undecided), exactly(left));
        Buckets { wall, parts, device: None }
    }

    /// Returns a part, ns; 0 if it is absent.
    pub fn get(&self, bucket: Bucket) -> Sum {
        self.parts.get(&bucket).copied().unwrap_or_default()
    }

    /// Returns the idle time of all causes, ns.
    pub fn idle(&self) -> Sum {
        let idle = self.parts.iter().filter(|(bucket, _)| matches!(bucket, Bucket::Idle(_)));
        idle.fold(Sum::default(), |mut all, (_, part)| {
            all.add(*part);
            all
        })
    }
}
