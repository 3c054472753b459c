//! The fold over blocks of device memory: who holds them, how long, and since when.
//!
//! Its size is bounded by the blocks that are alive, and by the number of origins ([`ORIGINS`]). A new peak copies nothing,
//! since a program whose memory grows reaches one at each allocation. Instead, the number of a block says whether it was
//! held at the last peak, and the block is added to that peak's account when it is freed.

use super::By;
use super::churn::{ChurnFold, Place};
use super::gpus::{ByGpu, Gpus};
use super::holders::{Failure, Growth, Holder, Holders, LISTED, Origin, listed};
use super::lifetimes::{Life, Lifetime, Lifetimes, Lived};
use super::pools::pool_of;
use super::stretches::{Floor, Stretches};
use super::trend::Trend;
use crate::analyze::analysis::{End, Start};
use crate::analyze::calls::base_name;
use crate::analyze::ranges::RangeName;
use crate::hash::HashMap;
use crate::model::gpu_interval::host;
use crate::model::memory::MemoryChange;
use crate::model::period::Period;
use crate::model::range_names::Folded;
use crate::model::ranges::{Begun, Inside, Ranges};
use crate::model::stacks::Caller;
use crate::model::{Event, When};
use crate::trace::record::{Body, NvtxRange};
use gpuspy_wire::record::{Memory, Namespace, NvtxChange};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// The most origins that are told apart; all others count as one.
const ORIGINS: usize = 4096;
/// The most stretches of the level of the process.
const STRETCHES: usize = 128;
/// The most stretches of the level of each origin.
const STRETCHES_OF_ORIGIN: usize = 32;
/// The most blocks that are kept after they ended with their context.
const VANISHED: usize = 1 << 16;
/// Blocks that are never freed are a leak only if they were allocated in at least this many different steps (or eighths of
/// the run): what a program allocates once or twice is none.
const TIMES: usize = 3;
/// Blocks that are never freed are a leak only from this many bytes on: less than that is lost in the driver's own pages
/// of 2 MiB.
const LEAST: u64 = 1 << 20;

/// The properties that tell origins apart.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Key {
    api: u16,
    caller: Caller,
    thread: u32,
    /// The domain and the text of the innermost range.
    range: Option<(u32, u32)>,
    kind: &'static str,
}

/// Blocks that one call allocated.
#[derive(Clone, Copy, Debug)]
struct Block {
    origin: u32,
    bytes: u64,
    blocks: u64,
    /// Host ns when it was allocated.
    at: u64,
    place: Place,
    /// The block's number, in the order of allocations.
    number: u64,
}

/// The bytes held over time, as far as operations were launched meanwhile: what is freed after the last operation does
/// not lower the level.
#[derive(Debug)]
struct Level {
    bytes: u64,
    /// The number of operations in the selected time at the last change.
    operations: u64,
    steps: Stretches<Floor>,
    time: Stretches<Floor>,
}

impl Level {
    fn new(most: usize) -> Self {
        let (steps, time) = (Stretches::new(most), Stretches::new(most));
        Level { bytes: 0, operations: 0, steps, time }
    }

    /// Records the present level, before it changes or at the end.
    fn settle(&mut self, now: Place) {
        if now.selected == self.operations {
            return;
        }
        self.operations = now.selected;
        if let Some(step) = now.steps {
            self.steps.held(self.bytes, step);
        }
        if let Some(micros) = now.micros {
            self.time.held(self.bytes, micros);
        }
    }

    fn stretches(&self, in_steps: bool) -> &Stretches<Floor> {
        if in_steps { &self.steps } else { &self.time }
    }
}

/// What one origin holds.
#[derive(Debug)]
struct Account {
    level: Level,
    blocks: u64,
    /// The number of the peak that `at_peak` belongs to.
    peak: u64,
    /// What the origin held at that peak, as far as it has been freed since.
    at_peak: Holder,
}

impl Account {
    fn new() -> Self {
        let level = Level::new(STRETCHES_OF_ORIGIN);
        Account { level, blocks: 0, peak: 0, at_peak: Holder::default() }
    }

    /// Adds bytes of a block that was held at peak number `peak`.
    fn was_at_peak(&mut self, peak: u64, block: &Block, bytes: u64) {
        if self.peak != peak {
            (self.peak, self.at_peak) = (peak, Holder::default());
        }
        add(&mut self.at_peak, block, bytes);
    }
}

fn add(holder: &mut Holder, block: &Block, bytes: u64) {
    holder.first_ns = if holder.blocks == 0 { block.at } else { holder.first_ns.min(block.at) };
    holder.bytes = holder.bytes.saturating_add(bytes);
    holder.blocks += block.blocks;
    if let Some(step) = block.place.step {
        let (first, last) = holder.steps.unwrap_or((step, step));
        holder.steps = Some((first.min(step), last.max(step)));
    }
}

/// What this fold collects inside NVTX ranges: nothing.
#[derive(Clone, Copy, Debug)]
struct Nothing;

impl Inside for Nothing {
    fn absorb(&mut self, _: &Nothing) {}
}

/// A refused allocation.
#[derive(Debug)]
struct Refused {
    key: Key,
    failure: Failure,
    /// What was held: origin, bytes and number of blocks.
    held: Vec<(u32, u64, u64)>,
    operations: u64,
}

/// The fold over the blocks of device memory of one process.
#[derive(Debug)]
pub struct Held {
    began: u64,
    tids: BTreeMap<u32, u32>,
    ranges: Ranges<Nothing>,
    folded: Folded,
    place: Place,
    /// The selected time: growth and churn are of this part of the run.
    period: Period,
    /// Host ns of the call of the first operation in it, and its step.
    first_work: Option<u64>,
    first_step: Option<u64>,
    /// Host ns of the first allocation.
    first_block: Option<u64>,
    keys: HashMap<Key, u32>,
    accounts: Vec<Account>,
    blocks: HashMap<u64, Block>,
    vanished: Vec<Block>,
    numbers: u64,
    /// The number of peaks until now.
    peaks: u64,
    /// The number that the next block had at the last peak: blocks with lower numbers were allocated before it.
    peak_before: u64,
    /// The memory that one call allocated and freed again at the last peak: its origin and its bytes.
    passing: Option<(u32, u64)>,
    lifetimes: Lifetimes,
    level: Level,
    churn: ChurnFold,
    gpus: Gpus,
    refused: Option<Refused>,
}

impl Held {
    /// Creates the fold at the start of a process.
    pub fn new(start: &Start<'_>) -> Self {
        Held {
            began: start.began,
            tids: start.status.map(|status| status.threads.clone()).unwrap_or_default(),
            ranges: Ranges::new(0),
            folded: Folded::of(start.names),
            place: Place::default(),
            period: start.period.clone(),
            first_work: None,
            first_step: None,
            first_block: None,
            keys: HashMap::default(),
            accounts: Vec::new(),
            blocks: HashMap::default(),
            vanished: Vec::new(),
            numbers: 0,
            peaks: 0,
            peak_before: 0,
            passing: None,
            lifetimes: Lifetimes::default(),
            level: Level::new(STRETCHES),
            churn: ChurnFold::default(),
            gpus: Gpus::default(),
            refused: None,
        }
    }

    /// Takes an event, before its changes of memory. `counts` says whether the record filter lets its call through.
    pub fn observe(&mut self, event: &Event<'_>, counts: bool) {
        let record = event.record;
        if let Body::NvtxRange(range) = &record.body {
            return self.range(record.thread, record.at, range);
        }
        if let Body::Context(context) = &record.body {
            self.gpus.context(context);
        }
        self.churn.observe(event, self.place, counts);
        let is_work = |when: &When| !matches!(when, When::Captured);
        if let Some(operation) = event.operation.as_ref().filter(|operation| is_work(&operation.when)) {
            self.place.operations += 1;
            self.place.step = event.step.or(self.place.step);
            if self.period.contains(host(operation.called)) {
                self.pass(operation.called);
            }
        }
    }

    /// Moves on to an operation in the selected time, called at host ns `called`.
    fn pass(&mut self, called: u64) {
        let first = *self.first_work.get_or_insert(called);
        let micros = called.saturating_sub(first) / 1000;
        let place = &mut self.place;
        place.selected += 1;
        place.micros = Some(place.micros.map_or(micros, |before| before.max(micros)));
        if let Some(step) = place.step {
            place.steps = Some(step - *self.first_step.get_or_insert(step));
        }
    }

    fn range(&mut self, thread: u32, at: u64, range: &NvtxRange) {
        match range.change {
            NvtxChange::Push | NvtxChange::Start => {
                self.ranges.begin(Begun { thread, at, range: range.clone(), inside: Nothing });
            }
            // Ends without a beginning are reported with the ranges.
            NvtxChange::Pop => drop(self.ranges.pop(thread, range.domain, at)),
            NvtxChange::End => drop(self.ranges.end(range.id, at)),
            NvtxChange::Mark => {}
        }
    }

    /// Enters a part of the selected time, `at` ns since the collection began, with what is held then.
    pub(super) fn enters(&mut self, at: u64) {
        self.gpus.enters(at);
    }

    /// Applies a change of device memory, whose call has returned at host ns `at`. `by` made the change.
    pub(super) fn change(&mut self, change: &MemoryChange, by: &By, at: u64) {
        self.gpus.change(change, at.saturating_sub(self.began), self.period.contains(host(at)));
        match *change {
            MemoryChange::Allocated { memory, bytes, of } if bytes > 0 => {
                let origin = self.origin(memory, by);
                let (number, place) = (self.numbers, self.place);
                self.numbers += 1;
                self.first_block.get_or_insert(at);
                let new = Block { origin, bytes: 0, blocks: 0, at, place, number };
                let block = self.blocks.entry(of.correlation).or_insert(new);
                block.bytes = block.bytes.saturating_add(bytes);
                block.blocks += 1;
                self.changed(origin, |level| level.saturating_add(bytes), 1);
            }
            MemoryChange::Freed { bytes, of, .. } | MemoryChange::Vanished { bytes, of, .. } if bytes > 0 => {
                let Some(block) = self.blocks.get_mut(&of.correlation) else { return };
                let gone = Block { bytes: bytes.min(block.bytes), blocks: 1, ..*block };
                block.bytes -= gone.bytes;
                block.blocks = block.blocks.saturating_sub(1);
                if block.bytes == 0 {
                    self.blocks.remove(&of.correlation);
                }
                self.changed(gone.origin, |level| level.saturating_sub(gone.bytes), -1);
                self.gone(gone, at, matches!(change, MemoryChange::Vanished { .. }));
            }
            MemoryChange::Passed { blocks, bytes, .. } if self.period.contains(host(at)) => {
                let life = Life { ns: 0, steps: None, has_work: false };
                self.lifetimes.freed(life, Lived { blocks, bytes, at_peak_bytes: 0 }, self.peaks);
            }
            // Nothing else changes what is held: a free counts when its call has returned, so one that failed was not
            // counted.
            _ => {}
        }
    }

    /// Returns the number of an origin.
    fn origin(&mut self, memory: Memory, by: &By) -> u32 {
        let key = self.key(memory.name(), by);
        let is_full = self.keys.len() >= ORIGINS && !self.keys.contains_key(&key);
        let next = self.accounts.len() as u32;
        let origin = *self.keys.entry(if is_full { Key::default() } else { key }).or_insert(next);
        if origin == next {
            self.accounts.push(Account::new());
        }
        origin
    }

    fn key(&mut self, kind: &'static str, by: &By) -> Key {
        let around = self.ranges.around(by.thread, by.call.begin);
        let innermost = around.max_by_key(|begun| begun.at).map(|begun| &begun.range);
        let range = innermost.map(|range| (range.domain, self.folded.number(range.text)));
        Key { api: by.call.api, caller: by.caller(), thread: by.thread, range, kind }
    }

    fn changed(&mut self, origin: u32, change: impl Fn(u64) -> u64, blocks: i64) {
        let account = &mut self.accounts[origin as usize];
        account.blocks = account.blocks.saturating_add_signed(blocks);
        for level in [&mut self.level, &mut account.level] {
            level.settle(self.place);
            level.bytes = change(level.bytes);
        }
    }

    fn gone(&mut self, block: Block, at: u64, has_vanished: bool) {
        if has_vanished && self.vanished.len() < VANISHED {
            self.vanished.push(block);
        }
        let life = Life {
            ns: at.saturating_sub(block.at),
            steps: self.place.step.zip(block.place.step).map(|(now, then)| now.saturating_sub(then)),
            has_work: self.place.operations > block.place.operations,
        };
        let is_at_peak = block.number < self.peak_before;
        let at_peak_bytes = if is_at_peak { block.bytes } else { 0 };
        // A block counts if it was held at some time that is selected.
        if self.period.touches(host(block.at), host(at)) {
            self.lifetimes.freed(life, Lived { blocks: 1, bytes: block.bytes, at_peak_bytes }, self.peaks);
        }
        if is_at_peak {
            self.accounts[block.origin as usize].was_at_peak(self.peaks, &block, block.bytes);
        }
    }

    /// Records that what is held now is a new peak, with `passing` bytes more that the call of a thread allocated and
    /// freed.
    pub(super) fn peaked(&mut self, passing: Option<(Memory, &By, u64)>) {
        self.peaks += 1;
        self.peak_before = self.numbers;
        self.passing = passing
            .filter(|(.., bytes)| *bytes > 0)
            .map(|(memory, by, bytes)| (self.origin(memory, by), bytes));
    }

    /// Records that a call for `asked` bytes failed because there was not enough memory, while `unmapped` bytes of physical
    /// memory were created and not mapped.
    pub(super) fn refused(&mut self, by: &By, asked: u64, at: u64, unmapped: u64) {
        let key = self.key("", by);
        let accounts = self.accounts.iter().enumerate().filter(|(_, account)| account.level.bytes > 0);
        let held = accounts.map(|(at, account)| (at as u32, account.level.bytes, account.blocks));
        let at = at.saturating_sub(self.began);
        let failure = Failure {
            at,
            first_at: self.refused.as_ref().map_or(at, |before| before.failure.first_at),
            requested: (asked > 0).then_some(asked),
            live: self.level.bytes,
            by_gpu: self.gpus.held(),
            unmapped,
            ..Failure::default()
        };
        self.refused =
            Some(Refused { key, failure, held: held.collect(), operations: self.place.operations });
    }

    /// Returns the memory on each GPU.
    pub fn by_gpu(&mut self) -> ByGpu {
        std::mem::take(&mut self.gpus).finish()
    }

    /// Returns the rows.
    pub fn finish(mut self, end: &End<'_>) -> Holders {
        self.level.settle(self.place);
        self.accounts.iter_mut().for_each(|account| account.level.settle(self.place));
        let mut origins = vec![Origin::default(); self.accounts.len()];
        for (key, at) in &self.keys {
            origins[*at as usize] = self.named(key, end);
        }
        let failure = self.refused.take().map(|refused| self.failure(refused, &origins, end));
        let never_freed = self.never_freed(&origins);
        let growth = self.growth(&origins);
        let churn = std::mem::take(&mut self.churn);
        let most = churn.most().map(|(api, caller)| Key { api, caller, ..Key::default() });
        let origin = most.map(|key| Origin { tid: None, ..self.named(&key, end) }).unwrap_or_default();
        let churn = churn.finish(self.place, self.began, origin);
        let at_peak = self.at_peak(&origins);
        Holders { at_peak, lifetimes: self.lifetimes(end), growth, never_freed, churn, failure }
    }

    fn named(&self, key: &Key, end: &End<'_>) -> Origin {
        if *key == Key::default() {
            return Origin { pid: end.pid, kind: "(others)", ..Origin::default() };
        }
        let source = end.source(key.caller);
        let api = end.names.get(Namespace::Api, key.api.into()).map(|name| base_name(name).to_owned());
        let range = key.range.map(|range| RangeName::numbered(range, end.names, &self.folded).to_string());
        let pool = source.library.as_deref().and_then(pool_of);
        let tid = self.tids.get(&key.thread).copied();
        Origin { pid: end.pid, tid, source, api, range, kind: key.kind, pool }
    }

    fn at_peak(&mut self, origins: &[Origin]) -> Vec<Holder> {
        for block in self.blocks.values().filter(|block| block.number < self.peak_before) {
            self.accounts[block.origin as usize].was_at_peak(self.peaks, block, block.bytes);
        }
        if let Some((origin, bytes)) = self.passing {
            let place = self.place;
            let block = Block { origin, bytes, blocks: 1, at: self.began, place, number: 0 };
            self.accounts[origin as usize].was_at_peak(self.peaks, &block, bytes);
        }
        let of_peak = self.accounts.iter().zip(origins).filter(|(account, _)| account.peak == self.peaks);
        listed(of_peak.map(|(account, origin)| self.holder(&account.at_peak, origin)).collect())
    }

    /// Returns a holder with its origin, and times since the collection began.
    fn holder(&self, holder: &Holder, origin: &Origin) -> Holder {
        let first_ns = holder.first_ns.saturating_sub(self.began);
        Holder { origin: origin.clone(), first_ns, ..holder.clone() }
    }

    fn lifetimes(self, end: &End<'_>) -> BTreeMap<Lifetime, Lived> {
        let run_ns = end.ended.saturating_sub(self.first_block.unwrap_or(end.ended));
        let mut table = self.lifetimes.finish(run_ns, self.peaks);
        for block in self.blocks.values() {
            let at_peak_bytes = if block.number < self.peak_before { block.bytes } else { 0 };
            let lived = Lived { blocks: block.blocks, bytes: block.bytes, at_peak_bytes };
            table.entry(Lifetime::Persistent).or_default().add(lived);
        }
        if let Some((_, bytes)) = self.passing {
            table.entry(Lifetime::Temporary).or_default().at_peak_bytes += bytes;
        }
        table
    }

    fn growth(&self, origins: &[Origin]) -> Option<Growth> {
        let is_per_step = self.place.is_in_steps();
        let whole = self.level.stretches(is_per_step);
        let Trend { first, last, slope, .. } = Trend::growing(&whole.values)?;
        let growth = |account: &Account| {
            let trend = Trend::of(&account.level.stretches(is_per_step).values)?;
            trend.last.checked_sub(trend.first).filter(|bytes| *bytes > 0)
        };
        let grown = self.accounts.iter().zip(origins);
        let mut grown: Vec<_> =
            grown.filter_map(|(account, origin)| Some((origin.clone(), growth(account)?))).collect();
        grown.sort_by_key(|(_, bytes)| Reverse(*bytes));
        grown.truncate(LISTED);
        // An index of a stretch is a step or a microsecond, and the slope is per step or per second.
        let slope = slope / whole.length as f64 * if is_per_step { 1.0 } else { 1e6 };
        Some(Growth { is_per_step, slope, first, last, origins: grown })
    }

    /// Returns the blocks of each origin that were allocated after the warm-up and not in the last two steps (or in the
    /// last eighth of the time), and never freed.
    fn never_freed(&self, origins: &[Origin]) -> Vec<Holder> {
        let in_steps = self.place.is_in_steps();
        let index = |place: &Place| if in_steps { place.steps } else { place.micros };
        let Some(last) = index(&self.place) else { return Vec::new() };
        let recent = if in_steps { 2 } else { last / 8 };
        let (from, to) = (last.div_ceil(8), last.saturating_sub(recent));
        let mut kept: BTreeMap<u32, (Holder, BTreeSet<u64>)> = BTreeMap::new();
        for block in self.blocks.values().chain(&self.vanished) {
            let Some(index) = index(&block.place).filter(|index| (from..to).contains(index)) else {
                continue;
            };
            let (holder, times) = kept.entry(block.origin).or_default();
            add(holder, block, block.bytes);
            times.insert(if in_steps { index } else { index / (last / 8).max(1) });
        }
        let is_leak = |(origin, (holder, times)): &(u32, (Holder, BTreeSet<u64>))| {
            times.len() >= TIMES && holder.bytes >= LEAST && origins[*origin as usize].pool.is_none()
        };
        let leaks = kept.into_iter().filter(is_leak);
        listed(leaks.map(|(origin, (holder, _))| self.holder(&holder, &origins[origin as usize])).collect())
    }

    fn failure(&self, refused: Refused, origins: &[Origin], end: &End<'_>) -> Failure {
        let is_managed = |held: &&(u32, u64, u64)| origins[held.0 as usize].kind == Memory::Managed.name();
        let managed = refused.held.iter().filter(is_managed).map(|held| held.1).sum();
        let holder = |(origin, bytes, blocks): (u32, u64, u64)| {
            let origin = origins[origin as usize].clone();
            Holder { origin, bytes, blocks, ..Holder::default() }
        };
        Failure {
            origin: self.named(&refused.key, end),
            holders: listed(refused.held.into_iter().map(holder).collect()),
            managed,
            went_on: self.place.operations > refused.operations,
            ..refused.failure
        }
    }
}
