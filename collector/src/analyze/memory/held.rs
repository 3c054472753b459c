//! The fold over blocks of memory, of a GPU or page-locked: who holds them, how long, and since when.
//!
//! Its size is bounded by the blocks that are alive, and by the number of origins and lines ([`ORIGINS`]). A new peak copies nothing,
//! since a program whose memory grows reaches one at each allocation. Instead, the number of a block says whether it was
//! held at the last peak, and the block is added to that peak's account when it is freed.

mod level;
mod lines;
mod rows;

use super::By;
use super::churn::{ChurnFold, Place};
use super::gpus::{ByGpu, Gpus};
use super::holders::{Failure, Holder};
use super::lifetimes::{Life, Lifetimes, Lived};
use crate::analyze::analysis::Start;
use crate::hash::HashMap;
use crate::model::gpu_interval::host;
use crate::model::memory::MemoryChange;
use crate::model::period::Period;
use crate::model::range_names::Folded;
use crate::model::ranges::{Begun, Inside, Ranges};
use crate::model::stacks::Caller;
use crate::model::{Event, When};
use crate::trace::record::{Body, NvtxRange};
use gpuspy_wire::record::{Memory, NvtxChange};
use level::Level;
use lines::Lines;
use std::collections::BTreeMap;

/// The most origins, and lines, that are told apart; all others count as one.
const ORIGINS: usize = 4096;
/// The most blocks that are kept after they ended with their context, behind which no work has come.
const VANISHED: usize = 1 << 16;

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

impl Key {
    /// What the calls of a line have in common.
    fn line(&self) -> Key {
        Key { thread: 0, range: None, ..self.clone() }
    }
}

/// Blocks that one call allocated.
#[derive(Clone, Copy, Debug)]
struct Block {
    origin: u32,
    /// The number of the origin's line.
    line: u32,
    bytes: u64,
    blocks: u64,
    /// The bytes of it that are freed after the selected time, and the number of such blocks.
    later: (u64, u64),
    /// Host ns when it was allocated.
    at: u64,
    place: Place,
    /// The block's number, in the order of allocations.
    number: u64,
    /// How many operations there had been when its context ended; `None` if it did not end with one.
    vanished: Option<u64>,
}

/// What one origin holds.
#[derive(Debug)]
struct Account {
    /// The number of its line.
    line: u32,
    bytes: u64,
    blocks: u64,
    /// The number of the peak that `at_peak` belongs to.
    peak: u64,
    /// What the origin held at that peak, as far as it has been freed since.
    at_peak: Holder,
}

impl Account {
    fn of(line: u32) -> Self {
        Account { line, bytes: 0, blocks: 0, peak: 0, at_peak: Holder::default() }
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

/// What one call allocated and freed again, as a graph launch does.
#[derive(Clone, Copy, Debug)]
pub(super) struct Passing<'a> {
    pub memory: Memory,
    pub by: &'a By,
    /// The most that was held at once.
    pub bytes: u64,
    /// Host ns when the call returned.
    pub at: u64,
}

/// What is held after the selected time.
#[derive(Debug)]
struct After {
    bytes: u64,
    /// The least of it at an operation; `None` if there is none after it was changed.
    least: Option<u64>,
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

/// The fold over the blocks of memory of one process.
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
    lines: Lines,
    blocks: HashMap<u64, Block>,
    vanished: Vec<Block>,
    numbers: u64,
    /// The number of peaks until now.
    peaks: u64,
    /// The number that the next block had at the last peak: blocks with lower numbers were allocated before it.
    peak_before: u64,
    /// The memory that one call allocated and freed again at the last peak.
    passing: Option<Block>,
    lifetimes: Lifetimes,
    level: Level,
    /// What is held after the selected time, if it changes then.
    after: Option<After>,
    churn: ChurnFold,
    gpus: Gpus,
    refused: Option<Refused>,
}

impl Held {
    /// Creates the fold at the start of a process.
    pub fn new(start: &Start<'_>) -> Self {
        let tids = start.status.map(|status| status.threads.clone()).unwrap_or_default();
        Held::at(start.began, tids, Folded::of(start.names), start.period.clone())
    }

    /// Creates a fold over blocks of other memory, which has seen what this one has seen besides its blocks.
    pub(super) fn beside(&self) -> Held {
        Held {
            ranges: self.ranges.clone(),
            place: self.place,
            first_work: self.first_work,
            first_step: self.first_step,
            ..Held::at(self.began, self.tids.clone(), self.folded.clone(), self.period.clone())
        }
    }

    fn at(began: u64, tids: BTreeMap<u32, u32>, folded: Folded, period: Period) -> Held {
        Held {
            began,
            tids,
            ranges: Ranges::new(0),
            folded,
            place: Place::default(),
            period,
            first_work: None,
            first_step: None,
            first_block: None,
            keys: HashMap::default(),
            accounts: Vec::new(),
            lines: Lines::default(),
            blocks: HashMap::default(),
            vanished: Vec::new(),
            numbers: 0,
            peaks: 0,
            peak_before: 0,
            passing: None,
            lifetimes: Lifetimes::default(),
            level: Level::default(),
            after: None,
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
            } else if let Some(After { bytes, least }) = &mut self.after {
                *least = Some(least.unwrap_or(*bytes).min(*bytes));
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

    /// Applies a change of memory, whose call has returned at host ns `at`. `by` made the change.
    pub(super) fn change(&mut self, change: &MemoryChange, by: &By, at: u64) {
        self.gpus.change(change, at.saturating_sub(self.began), self.period.contains(host(at)));
        match *change {
            MemoryChange::Allocated { memory, bytes, of } if bytes > 0 => {
                let (origin, line) = self.origin(memory, by);
                let (number, place) = (self.numbers, self.place);
                self.numbers += 1;
                self.first_block.get_or_insert(at);
                let new = Block {
                    origin,
                    line,
                    bytes: 0,
                    blocks: 0,
                    later: (0, 0),
                    at,
                    place,
                    number,
                    vanished: None,
                };
                let block = self.blocks.entry(of.correlation).or_insert(new);
                block.bytes = block.bytes.saturating_add(bytes);
                block.blocks += 1;
                self.lines.accounts[line as usize].allocated(bytes);
                self.changed(origin, line, |level| level.saturating_add(bytes), 1);
            }
            MemoryChange::Freed { bytes, of, .. } | MemoryChange::Vanished { bytes, of, .. } if bytes > 0 => {
                let Some(block) = self.blocks.get_mut(&of.correlation) else { return };
                let vanished =
                    matches!(change, MemoryChange::Vanished { .. }).then_some(self.place.operations);
                let gone =
                    Block { bytes: bytes.min(block.bytes), blocks: 1, later: (0, 0), vanished, ..*block };
                block.bytes -= gone.bytes;
                block.blocks = block.blocks.saturating_sub(1);
                if block.bytes == 0 {
                    self.blocks.remove(&of.correlation);
                }
                self.changed(gone.origin, gone.line, |level| level.saturating_sub(gone.bytes), -1);
                self.gone(gone, at);
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

    /// Takes a change after the selected time: what is freed then was not lost, and what is held then says whether memory
    /// that grew goes on to.
    pub(super) fn change_after(&mut self, change: &MemoryChange) {
        let after = self.after.get_or_insert(After { bytes: self.level.bytes, least: None });
        match *change {
            MemoryChange::Allocated { bytes, .. } => after.bytes = after.bytes.saturating_add(bytes),
            MemoryChange::Vanished { bytes, of, .. } => {
                after.bytes = after.bytes.saturating_sub(bytes);
                if let Some(block) = self.blocks.get_mut(&of.correlation) {
                    block.vanished = Some(self.place.operations);
                }
            }
            MemoryChange::Freed { bytes, of, .. } => {
                after.bytes = after.bytes.saturating_sub(bytes);
                let Some(block) = self.blocks.get_mut(&of.correlation) else { return };
                block.later = (block.later.0.saturating_add(bytes).min(block.bytes), block.later.1 + 1);
                self.lines.accounts[block.line as usize].freed(bytes, block.place, self.place);
            }
            MemoryChange::FreeFailed { .. } | MemoryChange::Passed { .. } => {}
        }
    }

    /// Returns the numbers of an origin and of its line.
    fn origin(&mut self, memory: Memory, by: &By) -> (u32, u32) {
        let key = self.key(memory.name(), by);
        let line = self.lines.of(&key);
        let is_full = self.keys.len() >= ORIGINS && !self.keys.contains_key(&key);
        let next = self.accounts.len() as u32;
        let origin = *self.keys.entry(if is_full { Key::default() } else { key }).or_insert(next);
        if origin == next {
            self.accounts.push(Account::of(line));
        }
        (origin, line)
    }

    fn key(&mut self, kind: &'static str, by: &By) -> Key {
        let around = self.ranges.around(by.thread, by.call.begin);
        let innermost = around.max_by_key(|begun| begun.at).map(|begun| &begun.range);
        let range = innermost.map(|range| (range.domain, self.folded.number(range.text)));
        Key { api: by.call.api, caller: by.caller(), thread: by.thread, range, kind }
    }

    fn changed(&mut self, origin: u32, line: u32, change: impl Fn(u64) -> u64, blocks: i64) {
        let account = &mut self.accounts[origin as usize];
        (account.bytes, account.blocks) =
            (change(account.bytes), account.blocks.saturating_add_signed(blocks));
        for level in [&mut self.level, &mut self.lines.accounts[line as usize].level] {
            level.settle(self.place);
            level.bytes = change(level.bytes);
        }
    }

    fn gone(&mut self, block: Block, at: u64) {
        self.lines.accounts[block.line as usize].freed(block.bytes, block.place, self.place);
        if block.vanished.is_some() {
            // Work went on since: what ended before did not last until the end.
            if self.vanished.first().is_some_and(|before| before.vanished != block.vanished) {
                self.vanished.clear();
            }
            if self.vanished.len() < VANISHED {
                self.vanished.push(block);
            }
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

    /// Records that what is held now is a new peak, with more that one call allocated and freed.
    pub(super) fn peaked(&mut self, passing: Option<Passing<'_>>) {
        self.peaks += 1;
        self.peak_before = self.numbers;
        self.passing = passing.filter(|passing| passing.bytes > 0).map(|passing| {
            let Passing { memory, by, bytes, at } = passing;
            let (origin, line) = self.origin(memory, by);
            let (place, later, vanished) = (self.place, (0, 0), None);
            Block { origin, line, bytes, blocks: 1, later, at, place, number: 0, vanished }
        });
    }

    /// Records that a call for `asked` bytes failed because there was not enough memory, while `unmapped` bytes of physical
    /// memory were created and not mapped.
    pub(super) fn refused(&mut self, by: &By, asked: u64, at: u64, unmapped: u64) {
        let key = self.key("", by);
        let accounts = self.accounts.iter().enumerate().filter(|(_, account)| account.bytes > 0);
        let held = accounts.map(|(at, account)| (at as u32, account.bytes, account.blocks));
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
}
