//! The rows of the fold, at the end of the run.

use super::lines::Turnover;
use super::{Block, Held, Key, Refused, add};
use crate::analyze::analysis::End;
use crate::analyze::calls::base_name;
use crate::analyze::memory::churn::Place;
use crate::analyze::memory::holders::{Failure, Growth, Holder, Holders, LISTED, Origin, listed};
use crate::analyze::memory::lifetimes::{Lifetime, Lived};
use crate::analyze::memory::pools::pool_of;
use crate::analyze::memory::stretches::Floor;
use crate::analyze::memory::trend::Trend;
use crate::analyze::ranges::RangeName;
use gpuspy_wire::record::{Memory, Namespace};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Blocks that are never freed are a leak only if they were allocated in at least this many different steps (or eighths of
/// the run): what a program allocates once or twice is none.
const TIMES: usize = 3;
/// Blocks that are never freed are a leak only from this many bytes on: less than that is lost in the driver's own pages
/// of 2 MiB.
const LEAST: u64 = 1 << 20;

/// The kind of the origins beyond the limit.
const OTHERS: &str = "(others)";

/// What tells rows apart: the origin, and where its line is not known, the address of the call.
type Row = (Origin, u64);

/// The names of origins and of lines.
struct Named {
    /// By the origin's number.
    origins: Vec<Row>,
    /// By the number of a line's account, the line in `lines`: the calls of one line of the source may have several.
    line_of: Vec<usize>,
    /// Each with the thread and the range that its calls have in common.
    lines: Vec<Origin>,
}

impl Named {
    fn of(held: &Held, end: &End<'_>) -> Named {
        let row = |key: &Key| {
            let origin = held.named(key, end);
            let has_line = origin.source.line.as_ref().is_some_and(|frame| !frame.is_without_line());
            let address = if has_line { 0 } else { key.caller.address };
            (origin, address)
        };
        let mut origins = vec![Row::default(); held.accounts.len()];
        held.keys.iter().for_each(|(key, at)| origins[*at as usize] = row(key));
        let mut line_of = vec![0; held.lines.accounts.len()];
        let mut numbers: BTreeMap<Row, usize> = BTreeMap::new();
        for (key, at) in &held.lines.keys {
            let (origin, address) = row(key);
            let next = numbers.len();
            line_of[*at as usize] = *numbers.entry((Origin { tid: None, ..origin }, address)).or_insert(next);
        }
        let mut lines = vec![Origin::default(); numbers.len()];
        numbers.into_iter().for_each(|((origin, _), line)| lines[line] = origin);
        let mut named = Named { origins, line_of, lines };
        named.name_what_is_common(held);
        named
    }

    /// Gives each line the thread and the range of its origins, if these are of only one.
    fn name_what_is_common(&mut self, held: &Held) {
        let mut is_named = vec![false; self.lines.len()];
        for (account, (origin, _)) in held.accounts.iter().zip(&self.origins) {
            let at = self.line_of[account.line as usize];
            let line = &mut self.lines[at];
            if !std::mem::replace(&mut is_named[at], true) {
                (line.tid, line.range) = (origin.tid, origin.range.clone());
            }
            line.tid = line.tid.filter(|tid| Some(*tid) == origin.tid);
            line.range.take_if(|range| Some(&*range) != origin.range.as_ref());
        }
    }

    /// Returns the line that has an account.
    fn line(&self, account: u32) -> (usize, &Origin) {
        let line = self.line_of[account as usize];
        (line, &self.lines[line])
    }
}

/// Whether what happened at these times goes on until then: since the last one, no more than twice the longest time between two of
/// them has passed. A cache that has filled is allocated no further.
fn goes_on(times: &BTreeSet<u64>, until: u64) -> bool {
    let Some(last) = times.last() else { return false };
    let between = times.iter().zip(times.iter().skip(1)).map(|(one, next)| next - one);
    until.saturating_sub(*last) <= 2 * between.max().unwrap_or(0)
}

impl Held {
    /// Returns the rows.
    pub fn finish(mut self, end: &End<'_>) -> Holders {
        self.level.settle(self.place);
        self.lines.accounts.iter_mut().for_each(|account| account.level.settle(self.place));
        let named = Named::of(&self, end);
        let failure = self.refused.take().map(|refused| self.failure(refused, &named, end));
        let never_freed = self.never_freed(&named);
        let growth = self.growth(&named);
        let churn = std::mem::take(&mut self.churn);
        let most = churn.most().map(|(api, caller)| Key { api, caller, ..Key::default() });
        let origin = most.map(|key| Origin { tid: None, ..self.named(&key, end) }).unwrap_or_default();
        let churn = churn.finish(self.place, self.began, origin);
        let at_peak = self.at_peak(&named);
        Holders {
            at_peak,
            lifetimes: self.lifetimes(end),
            growth,
            page_locked: None,
            never_freed,
            churn,
            failure,
        }
    }

    fn named(&self, key: &Key, end: &End<'_>) -> Origin {
        if *key == Key::default() {
            return Origin { pid: end.pid, kind: OTHERS, ..Origin::default() };
        }
        let source = end.source(key.caller);
        let api = end.names.get(Namespace::Api, key.api.into()).map(|name| base_name(name).to_owned());
        let range = key.range.map(|range| RangeName::numbered(range, end.names, &self.folded).to_string());
        let pool = source.library.as_deref().and_then(pool_of);
        let tid = self.tids.get(&key.thread).copied();
        Origin { pid: end.pid, tid, source, api, range, kind: key.kind, pool }
    }

    fn at_peak(&mut self, named: &Named) -> Vec<Holder> {
        for block in self.blocks.values().filter(|block| block.number < self.peak_before) {
            self.accounts[block.origin as usize].was_at_peak(self.peaks, block, block.bytes);
        }
        if let Some(block) = self.passing {
            self.accounts[block.origin as usize].was_at_peak(self.peaks, &block, block.bytes);
        }
        let accounts = self.accounts.iter().zip(0..).filter(|(account, _)| account.peak == self.peaks);
        let held = accounts.map(|(account, origin)| (origin, self.since_began(&account.at_peak)));
        self.holders(held.collect(), named)
    }

    /// Returns a holder with times since the collection began.
    fn since_began(&self, holder: &Holder) -> Holder {
        Holder { first_ns: holder.first_ns.saturating_sub(self.began), ..holder.clone() }
    }

    /// Names what origins hold. Where that is more than can be listed, a line has one row for all its threads and ranges.
    fn holders(&self, held: Vec<(u32, Holder)>, named: &Named) -> Vec<Holder> {
        let mut rows: BTreeMap<Row, Holder> = BTreeMap::new();
        for (origin, holder) in &held {
            rows.entry(named.origins[*origin as usize].clone()).or_default().join(holder);
        }
        if rows.len() <= LISTED {
            return listed(
                rows.into_iter().map(|((origin, _), holder)| Holder { origin, ..holder }).collect(),
            );
        }
        let mut lines: BTreeMap<usize, Holder> = BTreeMap::new();
        for (origin, holder) in &held {
            let of_origin = &named.origins[*origin as usize].0;
            // Origins beyond the limit are of several lines.
            let (line, name) = match of_origin.kind {
                OTHERS => (usize::MAX, of_origin),
                _ => named.line(self.accounts[*origin as usize].line),
            };
            let row =
                lines.entry(line).or_insert_with(|| Holder { origin: name.clone(), ..Holder::default() });
            row.join(holder);
        }
        listed(lines.into_values().collect())
    }

    fn lifetimes(self, end: &End<'_>) -> BTreeMap<Lifetime, Lived> {
        let run_ns = end.ended.saturating_sub(self.first_block.unwrap_or(end.ended));
        let mut table = self.lifetimes.finish(run_ns, self.peaks);
        for block in self.blocks.values() {
            let at_peak_bytes = if block.number < self.peak_before { block.bytes } else { 0 };
            let lived = Lived { blocks: block.blocks, bytes: block.bytes, at_peak_bytes };
            table.entry(Lifetime::Persistent).or_default().add(lived);
        }
        if let Some(Block { bytes, .. }) = self.passing {
            let temporary: &mut Lived = table.entry(Lifetime::Temporary).or_default();
            temporary.at_peak_bytes = temporary.at_peak_bytes.saturating_add(bytes);
        }
        table
    }

    fn growth(&self, named: &Named) -> Option<Growth> {
        let is_per_step = self.place.is_in_steps();
        let whole = self.level.stretches(is_per_step);
        let Trend { first, last, slope, .. } = Trend::growing(&whole.values)?;
        // What grew in the selected time and is freed afterwards while work goes on, like a ring that is emptied, comes and goes.
        let after = self.after.as_ref().and_then(|after| after.least);
        if after.is_some_and(|least| least < first + (last - first) / 2) {
            return None;
        }
        let mut lines: BTreeMap<usize, Vec<Floor>> = BTreeMap::new();
        for (account, at) in self.lines.accounts.iter().zip(0..) {
            let floors = &account.level.stretches(is_per_step).values;
            // What the calls of a line held together is no less than the sum of the least of each.
            let sum = lines.entry(named.line(at).0).or_insert_with(|| vec![Floor(0); floors.len()]);
            sum.iter_mut().zip(floors).for_each(|(sum, floor)| sum.0 = sum.0.saturating_add(floor.0));
        }
        let growth = |(line, floors): (usize, Vec<Floor>)| {
            let trend = Trend::of(&floors)?;
            let bytes = trend.last.checked_sub(trend.first).filter(|bytes| *bytes > 0)?;
            Some((named.lines[line].clone(), bytes))
        };
        let mut grown: Vec<_> = lines.into_iter().filter_map(growth).collect();
        grown.sort_by_key(|(_, bytes)| Reverse(*bytes));
        grown.truncate(LISTED);
        // An index of a stretch is a step or a microsecond, and the slope is per step or per second.
        let slope = slope / whole.length as f64 * if is_per_step { 1.0 } else { 1e6 };
        Some(Growth { is_per_step, slope, first, last, origins: grown })
    }

    /// Returns the blocks of each line that were allocated after the warm-up and not in the last two steps (or in the last
    /// eighth of the time), and never freed, also not after the selected time, if the line [goes on](goes_on) with that. Those that
    /// ended with their context before the work did are freed: a program that makes a context for each of its jobs frees all of a
    /// job's memory so.
    fn never_freed(&self, named: &Named) -> Vec<Holder> {
        let in_steps = self.place.is_in_steps();
        let index = |place: &Place| if in_steps { place.steps } else { place.micros };
        let Some(last) = index(&self.place) else { return Vec::new() };
        let recent = if in_steps { 2 } else { last / 8 };
        let (from, to) = (last.div_ceil(8), last.saturating_sub(recent));
        let mut turnovers = vec![Turnover::default(); named.lines.len()];
        for (account, at) in self.lines.accounts.iter().zip(0..) {
            turnovers[named.line(at).0].join(account.turnover(self.place));
        }
        let until = |line: usize| to.min(last.saturating_sub(turnovers[line].usual_age(in_steps)));
        // Times are steps, or eighths of the time.
        let unit = if in_steps { 1 } else { (last / 8).max(1) };
        let mut kept: BTreeMap<usize, (Holder, BTreeSet<u64>)> = BTreeMap::new();
        let is_kept = |block: &&Block| block.vanished.is_none_or(|at| at == self.place.operations);
        for block in self.blocks.values().chain(&self.vanished).filter(is_kept) {
            let line = named.line(block.line).0;
            let Some(index) = index(&block.place).filter(|index| (from..until(line)).contains(index)) else {
                continue;
            };
            let (later, blocks) = block.later;
            let (bytes, blocks) = (block.bytes.saturating_sub(later), block.blocks.saturating_sub(blocks));
            if bytes == 0 {
                continue;
            }
            let (holder, times) = kept.entry(line).or_default();
            add(holder, &Block { blocks, ..*block }, bytes);
            times.insert(index / unit);
        }
        let is_leak = |(line, (holder, times)): &(usize, (Holder, BTreeSet<u64>))| {
            times.len() >= TIMES
                && goes_on(times, until(*line) / unit)
                && holder.bytes >= LEAST
                && named.lines[*line].pool.is_none()
        };
        let leaks = kept.into_iter().filter(is_leak);
        let holder = |(line, (holder, _)): (usize, (Holder, BTreeSet<u64>))| Holder {
            origin: named.lines[line].clone(),
            ..self.since_began(&holder)
        };
        listed(leaks.map(holder).collect())
    }

    fn failure(&self, refused: Refused, named: &Named, end: &End<'_>) -> Failure {
        let is_managed =
            |held: &&(u32, u64, u64)| named.origins[held.0 as usize].0.kind == Memory::Managed.name();
        let managed = refused.held.iter().filter(is_managed);
        let managed = managed.fold(0u64, |sum, held| sum.saturating_add(held.1));
        let holder = |(origin, bytes, blocks): (u32, u64, u64)| {
            (origin, Holder { bytes, blocks, ..Holder::default() })
        };
        Failure {
            origin: self.named(&refused.key, end),
            holders: self.holders(refused.held.into_iter().map(holder).collect(), named),
            managed,
            went_on: self.place.operations > refused.operations,
            ..refused.failure
        }
    }
}
