//! Which copies to a GPU move the same data again?
//!
//! A trace does not hold what was copied. But where an asynchronous copy of page-locked memory was certainly not over when
//! the program called a copy from the same address, of the same size, to the same place, the host cannot have changed
//! the data between the two calls: the GPU was still reading it. If the host did, that is a fault of its own. Such a copy
//! is certainly a repeat, unless something else was copied to that place in between. Where half of the copies of a buffer or more certainly are, all of them after the first count as
//! **repeats**. Copies of pageable memory return when the data has been read, so nothing is known about those.

use super::analysis::{Analysis, End, Start};
use super::calls::api_name;
use super::estimate::Sum;
use super::merge::Merge;
use super::scope::Scope;
use super::source::Source;
use crate::hash::HashMap;
use crate::model::gpu_interval::host;
use crate::model::stacks::Caller;
use crate::model::transfer::{HostMemory, TransferKind, blocks_host};
use crate::model::{Action, Event, When};
use crate::trace::record::{Body, Names, What};
use gpuspy_wire::record::flag;
use std::collections::BTreeMap;
use std::collections::hash_map::Entry;

/// The most copies (by addresses and size) that are remembered.
const MOST: usize = 4096;

/// Copies of the same data to the same place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repeats {
    /// Different data that was copied again.
    pub buffers: u64,
    /// Repeats.
    pub count: u64,
    /// Of them, those that certainly are.
    pub certain: u64,
    /// Their bytes.
    pub bytes: u64,
    /// How many were timed.
    pub timed: u64,
    /// The time of the timed ones, ns.
    pub time: Sum,
    /// ns from the start of the collection to the call of the first repeat.
    pub first: u64,
}

impl Merge for Repeats {
    fn merge(&mut self, other: &Repeats) {
        self.first = if self.count == 0 { other.first } else { self.first.min(other.first) };
        self.buffers += other.buffers;
        self.count += other.count;
        self.certain += other.certain;
        self.timed += other.timed;
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.time.add(other.time);
    }
}

impl Repeats {
    /// Returns the time of all of them, ns: the untimed ones like the timed ones.
    pub fn whole(&self) -> u64 {
        self.time.value.checked_div(self.timed).unwrap_or(0).saturating_mul(self.count)
    }

    fn are_regular(&self) -> bool {
        self.certain > 0 && self.certain * 2 >= self.count
    }
}

/// Repeats by the API, and where it is called.
pub type RepeatedUploads = BTreeMap<(String, Source), Repeats>;

/// What is copied and to where: the context, the two addresses and the size.
type Key = (u32, u64, u64, u64);

/// The copies of one key.
#[derive(Clone, Copy, Debug)]
struct Upload {
    api: u16,
    caller: Caller,
    /// The last one was certainly not over at this time: host ns.
    until: Option<i64>,
    /// All copies after the first.
    repeats: Repeats,
}

/// The analysis.
#[derive(Debug)]
pub struct Uploads<'a> {
    names: &'a Names,
    began: u64,
    uploads: HashMap<Key, Upload>,
    /// What was copied last to a place: by the context and the address, the address that it is from.
    latest: HashMap<(u32, u64), u64>,
}

impl<'a> Analysis<'a> for Uploads<'a> {
    type Rows = RepeatedUploads;

    fn new(start: &Start<'a>) -> Self {
        Uploads {
            names: start.names,
            began: start.began,
            uploads: HashMap::default(),
            latest: HashMap::default(),
        }
    }

    fn observe(&mut self, event: &Event<'_>, scope: &Scope<'_>) {
        let (Some(operation), Body::Work(work)) = (scope.operation(), &event.record.body) else { return };
        let (
            Action::Transfer { kind: TransferKind::HtoD, host_memory, bytes },
            What::Memcpy { dst, src, rows, .. },
        ) = (operation.what, work.what)
        else {
            return;
        };
        if self.latest.len() >= MOST {
            self.latest.clear();
        }
        let is_there = self.latest.insert((operation.context, dst), src) == Some(src);
        let is_plain = rows == 1 && work.call.flags & (flag::BATCH | flag::PREFETCH) == 0;
        let is_read_later =
            host_memory == HostMemory::Pinned && !blocks_host(work.call.flags, operation.what.moved());
        if !is_plain || !is_read_later || operation.when == When::Captured {
            return;
        }
        if self.uploads.len() >= MOST {
            self.uploads.retain(|_, upload| upload.repeats.count > 0);
        }
        let is_full = self.uploads.len() >= MOST;
        let (until, time) = match operation.when {
            When::Timed(interval) => (
                interval.off_by.map(|off_by| interval.earliest_end.saturating_sub_unsigned(off_by)),
                Sum { value: interval.value(), lo: interval.lo(), hi: interval.hi() },
            ),
            _ => (None, Sum::default()),
        };
        match self.uploads.entry((operation.context, src, dst, bytes)) {
            Entry::Occupied(mut known) => {
                let upload = known.get_mut();
                let is_read = upload.until.is_some_and(|until| until > host(operation.called));
                let certain = u64::from(is_read && is_there);
                let first = operation.called.saturating_sub(self.began);
                let buffers = u64::from(upload.repeats.count == 0);
                let timed = u64::from(matches!(operation.when, When::Timed(_)));
                upload.repeats.merge(&Repeats { buffers, count: 1, certain, bytes, timed, time, first });
                upload.until = until;
            }
            Entry::Vacant(new) if !is_full => {
                let (api, caller) = (work.call.api, operation.caller);
                new.insert(Upload { api, caller, until, repeats: Repeats::default() });
            }
            Entry::Vacant(_) => {}
        }
    }

    fn finish(self, end: &End<'_>) -> RepeatedUploads {
        let mut rows = RepeatedUploads::new();
        for upload in self.uploads.into_values().filter(|upload| upload.repeats.are_regular()) {
            let site = (api_name(self.names, upload.api), end.source(upload.caller));
            rows.entry(site).or_default().merge(&upload.repeats);
        }
        rows
    }
}

#[cfg(test)]
mod tests;
