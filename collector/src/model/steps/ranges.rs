//! Which NVTX range does the program open once in each step?
//!
//! Such a range contains most launches and is opened again and again, its name perhaps with a number at its end. A
//! name that speaks of a step decides between several; else the outermost range does, if it recurs regularly. Ranges that
//! are started while others of their name are open are no steps, which follow each other: they are requests that wait in a queue.

use super::spacing::Spacings;
use crate::hash::HashMap;
use crate::model::range_names::Folded;
use crate::trace::record::{Names, NvtxRange};
use gpuspy_wire::record::{Namespace, NvtxChange};
use std::collections::BTreeMap;

/// The most names, and open ranges of a thread, that are followed.
const MOST: usize = 1024;
/// The most threads that are told apart of each name: those that opened it first.
const MOST_THREADS: usize = 64;
/// The fewest ranges that are steps.
pub(super) const FEWEST: u64 = 3;
/// The share of all launches that lie in them at least.
const COVERED: f64 = 0.5;
/// The share of distances between ranges that are alike, if the name does not speak of a step.
const AGREEMENT: f64 = 0.7;

/// Steps follow each other: at most one in so many ranges starts while another of its name is open.
const OVERLAPS: u64 = 10;

/// Names that programs give their steps, in small letters: PyTorch's profiler writes ProfilerStep#1.
const STEPS: [&str; 3] = ["step", "iter", "batch"];
/// Parts of a step whose names contain such a word: PyTorch writes Optimizer.step#SGD.step.
const PARTS: [&str; 5] = ["optim", "micro", "epoch", "sched", "load"];

/// The ranges of one name.
#[derive(Clone, Debug, Default)]
struct Opened {
    count: u64,
    /// The launches so far when the first one was opened.
    first: u64,
    /// How many are open.
    open: u64,
    /// How many were started, not pushed, while another one was open.
    overlapping: u64,
    /// The launches so far when the outermost of them was opened, and the last.
    from: u64,
    last: u64,
    time: u64,
    /// Launches in them.
    launches: u64,
    spacings: Spacings,
    /// How many of them threads opened that were followed.
    by_thread: BTreeMap<u32, u64>,
}

/// The ranges of a trace by name.
#[derive(Clone, Debug, Default)]
pub(super) struct Opens {
    folded: Folded,
    by_name: HashMap<u32, Opened>,
    /// Open ranges of each thread and domain, or started ones by id; the innermost last.
    pushed: BTreeMap<(u32, u32), Vec<u32>>,
    started: HashMap<u64, u32>,
}

impl Opens {
    /// The ranges of a trace with these names.
    pub(super) fn new(names: &Names) -> Opens {
        Opens { folded: Folded::all(names), ..Opens::default() }
    }

    /// Takes a change of a range after so many launches.
    pub(super) fn changed(&mut self, thread: u32, at: u64, range: &NvtxRange, launches: u64) {
        let name = self.folded.number(range.text);
        let stack = (thread, range.domain);
        match range.change {
            NvtxChange::Push => {
                let open = self.pushed.entry(stack).or_default();
                if open.len() < MOST {
                    open.push(name);
                    self.open(name, at, launches);
                    self.opened_by(name, thread);
                }
            }
            NvtxChange::Pop => {
                if let Some(name) = self.pushed.get_mut(&stack).and_then(Vec::pop) {
                    self.close(name, launches);
                }
            }
            NvtxChange::Start if self.started.len() < MOST => {
                self.started.insert(range.id, name);
                self.open(name, at, launches);
                self.overlaps(name);
            }
            NvtxChange::End => {
                if let Some(name) = self.started.remove(&range.id) {
                    self.close(name, launches);
                }
            }
            NvtxChange::Start | NvtxChange::Mark => {}
        }
    }

    fn open(&mut self, name: u32, at: u64, launches: u64) {
        if name == 0 || (self.by_name.len() >= MOST && !self.by_name.contains_key(&name)) {
            return;
        }
        let of = self.by_name.entry(name).or_default();
        if of.count > 0 {
            of.spacings.add(launches - of.last, at.saturating_sub(of.time));
        } else {
            of.first = launches;
        }
        (of.last, of.time) = (launches, at);
        if of.open == 0 {
            of.from = launches;
        }
        of.count += 1;
        of.open += 1;
    }

    fn overlaps(&mut self, name: u32) {
        let Some(of) = self.by_name.get_mut(&name) else { return };
        of.overlapping += u64::from(of.open > 1);
    }

    fn opened_by(&mut self, name: u32, thread: u32) {
        let Some(of) = self.by_name.get_mut(&name) else { return };
        if of.by_thread.len() < MOST_THREADS || of.by_thread.contains_key(&thread) {
            *of.by_thread.entry(thread).or_default() += 1;
        }
    }

    fn close(&mut self, name: u32, launches: u64) {
        let Some(of) = self.by_name.get_mut(&name).filter(|of| of.open > 0) else { return };
        of.open -= 1;
        if of.open == 0 {
            of.launches += launches - of.from;
        }
    }

    /// Returns the number and the text of the name that steps have, and the launches before the first, in a trace with so many
    /// launches.
    pub(super) fn step(&self, names: &Names, launches: u64) -> Option<(u32, String, u64)> {
        let text = |name: u32| {
            let own = || names.get(Namespace::NvtxRange, name).map(str::to_owned);
            self.folded.name(name).map(str::to_owned).or_else(own)
        };
        let mut fits: Vec<(bool, u64, u32, String, u64)> = Vec::new();
        for (&name, of) in &self.by_name {
            let inside = of.launches + if of.open > 0 { launches - of.from } else { 0 };
            let is_most = launches > 0 && inside as f64 >= COVERED * launches as f64;
            let follow = of.overlapping * OVERLAPS <= of.count;
            let Some(text) = text(name).filter(|_| of.count >= FEWEST && is_most && follow) else {
                continue;
            };
            let is_named = speaks_of_a_step(&text);
            let agreement = of.spacings.usual().map_or(0.0, |usual| usual.agreement);
            if is_named || agreement >= AGREEMENT {
                fits.push((!is_named, of.count, name, text, of.first));
            }
        }
        fits.sort();
        fits.into_iter().next().map(|(_, _, name, text, first)| (name, text, first))
    }

    /// How often a thread pushed a range of this name, as far as it was followed.
    pub(super) fn pushed_by(&self, name: u32, thread: u32) -> u64 {
        self.by_name.get(&name).and_then(|of| of.by_thread.get(&thread)).copied().unwrap_or(0)
    }

    /// The names, to follow the one that was found.
    pub(super) fn folded(&self) -> Folded {
        self.folded.clone()
    }
}

fn speaks_of_a_step(text: &str) -> bool {
    let text = text.to_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
    has(&STEPS) && !has(&PARTS)
}
