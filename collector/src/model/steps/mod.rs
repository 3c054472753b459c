//! Which launch begins a step of the program?
//!
//! The first pass over a trace learns a [`StepRule`] ([`Finder`]); the second one gives every event the number of its step
//! by following it ([`StepCounter`]). Three sources are asked, in this order:
//!
//! 1. An **NVTX range** that contains most launches and is opened again and again (`ranges`).
//! 2. The **launch sequence** of the whole process: tokens (which kernel, copy or graph, `token`) that recur at about the
//!    same distance (`spacing`) form levels, one of which is the step (`levels`). Threads that launch by turns, as
//!    PyTorch's main thread and the thread of its backward pass, are one sequence.
//! 3. If that has no steps, the same for the thread that launched most: several threads may each have a loop of their own.
//!
//! Threads that have a GPU each have [loops of their own](Finder::of_one_gpu), too, and as many steps as all of them together are
//! none of any. So in both searches these steps are those of one of them.
//!
//! If the operations are mostly in graphs, the steps are counted by **graph launches**.
//!
//! Memory is bounded: some thousand tokens, each with a few bins of distances. Without at least four occurrences of a
//! token (three of an NVTX range), most of them at the same distance, there are no steps: a program that launches at
//! random, or that does one long thing, has none.

mod lane;
mod levels;
mod ranges;
mod spacing;
#[cfg(test)]
mod tests;
mod token;

use super::period;
use super::range_names::Folded;
use crate::trace::record::{Body, Names, Record};
use gpuspy_wire::record::{Namespace, NvtxChange};
use lane::{Contexts, Lane};
use levels::Anchor;
pub use levels::is_optimizer;
use ranges::Opens;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use token::{Letter, Sequence, letter};

/// The most threads whose own sequences are followed. A program that creates a thread for each step has its steps in the
/// sequence of the process.
const MOST_THREADS: usize = 8;

/// A thread launches about as much as another if it launches more than this part of that.
const ALIKE: u64 = 2;

/// How steps were found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The sequence of launches repeats.
    Launches,
    /// An NVTX range of this name is opened once in each step; digits at its end count the steps.
    NvtxRange(String),
    /// A graph is launched once in each step.
    Graphs,
}

/// What begins a step.
#[derive(Clone, Debug, Default)]
pub struct StepRule {
    /// How the rule was found; `None` if the program has no steps.
    pub source: Option<Source>,
    /// The thread whose steps they are; `None`: the process's.
    pub thread: Option<u32>,
    begins: Begins,
    /// Whether the trace begins with the program: else it has prepared, and warmed up, in an earlier window of the collection.
    prepares: bool,
    /// Whether the program launches [little](LITTLE) before its first step: it only sets up until then.
    sets_up: bool,
}

#[derive(Clone, Debug, Default)]
enum Begins {
    #[default]
    Nothing,
    /// Nothing, and the program prepares until it has launched this often.
    Work { from: u64 },
    /// A range with this number among folded names.
    Range { name: u32, folded: Arc<Folded> },
    /// A token of a sequence.
    Token { anchor: Anchor },
}

/// A program without steps prepares for this part of its launches at most: it imports, reads, compiles and tunes first.
const PREPARING: u64 = 20;

/// What a program launches before its first step is little if it is at most this part of all that it launches, as when it creates a
/// model and loads it. More is work of another kind.
const LITTLE: u64 = 10;

/// Learns what begins a step, in the first pass over a trace.
#[derive(Clone, Debug, Default)]
pub struct Finder {
    names: Option<Arc<Names>>,
    ranges: Opens,
    process: Lane,
    /// The threads' own sequences, from when the second thread launched.
    threads: BTreeMap<u32, Lane>,
    /// The thread that launched first.
    first: Option<u32>,
}

impl Finder {
    /// A finder at the start of a trace with these names. Without names, neither ranges nor optimizers are known.
    pub fn new(names: &Names) -> Finder {
        Finder { ranges: Opens::new(names), names: Some(Arc::new(names.clone())), ..Finder::default() }
    }

    /// Takes the next record.
    pub fn observe(&mut self, record: &Record) {
        if let Body::NvtxRange(range) = &record.body {
            return self.ranges.changed(record.thread, record.at, range, self.process.launches);
        }
        let Some(letter) = letter(record) else { return };
        self.process.observe(&letter);
        if letter.kind.is_operation() && *self.first.get_or_insert(record.thread) != record.thread {
            self.lane(record.thread);
        }
        // One thread's sequence is that of the process.
        if !self.threads.is_empty() {
            self.own(record.thread, &letter);
        }
    }

    fn own(&mut self, thread: u32, letter: &Letter) {
        if let Some(lane) = self.threads.get_mut(&thread) {
            lane.observe(letter);
        } else if letter.kind.is_operation()
            && let Some(lane) = self.lane(thread)
        {
            lane.observe(letter);
        }
    }

    /// A thread's own sequence. If there are too many, the one that launched least makes place if it launched little.
    fn lane(&mut self, thread: u32) -> Option<&mut Lane> {
        if !self.threads.contains_key(&thread) && self.threads.len() >= MOST_THREADS {
            let (least, len) =
                self.threads.iter().map(|(of, lane)| (*of, lane.len())).min_by_key(|of| of.1)?;
            if len * 16 > self.process.len() / MOST_THREADS as u64 {
                return None;
            }
            self.threads.remove(&least);
        }
        Some(self.threads.entry(thread).or_default())
    }

    /// Decides what begins a step.
    pub fn finish(self) -> StepRule {
        let of_one_gpu = self.of_one_gpu();
        let Finder { names, ranges, process, threads, .. } = self;
        let unnamed = Arc::new(Names::default());
        let names = names.as_ref().unwrap_or(&unnamed);
        let prepares = period::window(names).is_none_or(|number| number == 0);
        if let Some((name, text, launched)) = ranges.step(names, process.launches) {
            let opens = |thread: &&u32| ranges.pushed_by(name, **thread) >= ranges::FEWEST;
            let opening = of_one_gpu.iter().filter(opens);
            let thread = of_one_gpu.first().copied().filter(|_| opening.count() == of_one_gpu.len());
            let begins = Begins::Range { name, folded: Arc::new(ranges.folded()) };
            let sets_up = launched.saturating_mul(LITTLE) <= process.launches;
            return StepRule { source: Some(Source::NvtxRange(text)), thread, begins, prepares, sets_up };
        }
        let optimizers = |kernel: u32| names.get(Namespace::Kernel, kernel).is_some_and(is_optimizer);
        let of_thread = |thread: &u32| Some((Some(*thread), levels::find(threads.get(thread)?, optimizers)?));
        let most = || threads.iter().max_by_key(|(_, lane)| lane.launches);
        let of_gpu = of_one_gpu.first().and_then(of_thread);
        let of_process = || levels::find(&process, optimizers).map(|anchor| (None, anchor));
        let found = of_gpu.or_else(of_process).or_else(|| of_thread(most()?.0));
        let Some((thread, anchor)) = found else {
            let begins = Begins::Work { from: process.launches / PREPARING };
            return StepRule { source: None, thread: None, begins, prepares, sets_up: false };
        };
        let source = if anchor.is_graph { Source::Graphs } else { Source::Launches };
        let lane = thread.and_then(|thread| threads.get(&thread)).unwrap_or(&process);
        let sets_up = anchor.launched.saturating_mul(LITTLE) <= lane.launched();
        StepRule { source: Some(source), thread, begins: Begins::Token { anchor }, prepares, sets_up }
    }

    /// Returns the threads that have a GPU each, if all that launch much are such: each launches in a context of its own, and no
    /// other of them does. The first is the one whose steps stand for the program's: of those that launch about as much, the one that
    /// is busy with it for longest. A thread that launches on several GPUs has the loop of all of them, and threads that share one
    /// may share a loop.
    fn of_one_gpu(&self) -> Vec<u32> {
        let most = self.threads.values().map(|lane| lane.launches).max().unwrap_or(0);
        let busy = self.threads.iter().filter(|(_, lane)| lane.launches * ALIKE > most);
        let mut busy: Vec<(u32, &Lane)> = busy.map(|(thread, lane)| (*thread, lane)).collect();
        let contexts: BTreeSet<u32> = busy
            .iter()
            .filter_map(|(_, lane)| match lane.contexts {
                Contexts::One(context) => Some(context),
                Contexts::None | Contexts::Several => None,
            })
            .collect();
        if busy.len() < 2 || contexts.len() < busy.len() {
            return Vec::new();
        }
        busy.sort_by_key(|(_, lane)| Reverse(lane.time()));
        busy.into_iter().map(|(thread, _)| thread).collect()
    }
}

/// When steps began on the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// The number of steps of the trace.
    pub count: u64,
    /// Host ns at which the first of the steps that were asked for began.
    pub from: Option<u64>,
    /// Host ns at which the first step after them began.
    pub to: Option<u64>,
}

impl Span {
    /// Returns the host time of the steps from `first` to `last` in a trace with this rule.
    pub fn of(rule: &StepRule, records: impl IntoIterator<Item = Record>, (first, last): (u64, u64)) -> Span {
        let (mut counter, mut span) = (StepCounter::new(rule), Span::default());
        for record in records {
            let Some(step) = counter.observe(&record).filter(|step| *step >= span.count) else { continue };
            span.count = step + 1;
            let at = record.began().unwrap_or(record.at);
            if step == first {
                span.from = Some(at);
            }
            if step == last.saturating_add(1) {
                span.to = Some(at);
            }
        }
        span
    }
}

/// Follows a [`StepRule`] through a trace.
#[derive(Clone, Debug, Default)]
pub struct StepCounter {
    begins: Begins,
    /// The thread whose steps are counted; `None`: the process's.
    thread: Option<u32>,
    sequence: Sequence,
    /// Whether the token after which a step begins has come.
    is_due: bool,
    /// The place at which the last step began.
    began: Option<u64>,
    step: Option<u64>,
    /// The launches so far of a program without steps.
    launches: u64,
    prepares: bool,
    /// Whether it sets up until the next record.
    sets_up: bool,
}

impl StepCounter {
    /// Creates a counter at the start of a trace.
    pub fn new(rule: &StepRule) -> StepCounter {
        let StepRule { begins, thread, prepares, sets_up, .. } = rule.clone();
        let sets_up = sets_up && prepares;
        StepCounter { begins, thread, prepares, sets_up, is_due: true, ..StepCounter::default() }
    }

    /// Takes the next record, and returns the number of its step, from 0; `None` before the first step.
    pub fn observe(&mut self, record: &Record) -> Option<u64> {
        let is_own = self.thread.is_none_or(|thread| thread == record.thread);
        let begins = match &self.begins {
            _ if !is_own => false,
            Begins::Nothing => false,
            Begins::Work { .. } => {
                let is_launch = letter(record).is_some_and(|letter| letter.kind.computes());
                self.launches += u64::from(is_launch);
                false
            }
            Begins::Range { name, folded } => match &record.body {
                Body::NvtxRange(range) => {
                    matches!(range.change, NvtxChange::Push | NvtxChange::Start)
                        && folded.number(range.text) == *name
                }
                _ => false,
            },
            Begins::Token { anchor } => {
                let anchor = *anchor;
                letter(record).is_some_and(|letter| self.is_anchor(&letter, &anchor))
            }
        };
        if begins {
            self.step = Some(self.step.map_or(0, |step| step + 1));
        }
        self.sets_up &=
            self.step.is_none() || letter(record).is_none_or(|letter| !letter.kind.is_operation());
        self.step
    }

    /// Whether the program prepares: the second step has not begun, or of a program without steps the first twentieth of its launches is not
    /// over.
    pub fn is_preparing(&self) -> bool {
        self.prepares
            && match self.begins {
                Begins::Nothing => false,
                Begins::Work { from } => self.launches <= from,
                Begins::Range { .. } | Begins::Token { .. } => self.step.is_none_or(|step| step == 0),
            }
    }

    /// Whether the program sets up until the next record: no operation of its first step has come, and it launches little until
    /// then.
    pub fn is_setting_up(&self) -> bool {
        self.sets_up
    }

    fn is_anchor(&mut self, letter: &Letter, anchor: &Anchor) -> bool {
        let Some(place) = self.sequence.place(letter) else { return false };
        let is = |key| key == place.plain || key == place.precise;
        if anchor.after.is_some_and(is) {
            self.is_due = true;
        }
        let is_soon = self.began.is_some_and(|began| place.number - began < anchor.least);
        if !is(anchor.begins) || is_soon || !self.is_due {
            return false;
        }
        self.began = Some(place.number);
        self.is_due = anchor.after.is_none();
        true
    }
}
