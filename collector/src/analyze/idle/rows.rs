//! The names of what a tally has found.

use super::super::calls::shown_name;
use super::super::merge::Merge;
use super::super::source::Source;
use super::closed::Place;
use super::history::Thread;
use super::pauses::HostTimes;
use super::running::{Outside, Running};
use super::split::Tally;
use super::{Cause, HtaClasses, IdleReport, Part, Site, THREADS, ThreadUse, Wait};
use crate::model::stacks::Caller;
use gpuspy_wire::record::Namespace;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// What was found of a device, before it is named.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// The gaps by cause and place.
    pub tally: Tally,
    /// HTA's classes.
    pub hta: HtaClasses,
    /// The threads that led gaps, by process and number.
    pub threads: BTreeMap<(u32, u32), Used>,
    /// Whether they ran in the time outside CUDA.
    pub running: BTreeMap<Outside, Running>,
}

/// How a thread used its time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Used {
    span: u64,
    led: u64,
    host: HostTimes,
}

impl Used {
    /// A thread with calls in the period, that led idle time of `led` ns.
    pub fn of(thread: &Thread, span: u64, led: u64) -> Used {
        Used { span, led, host: thread.host }
    }
}

/// What names the numbers of a process.
pub trait Resolve {
    /// The id of a thread in the system.
    fn tid(&self, process: u32, thread: u32) -> Option<u32>;
    /// The text of an id.
    fn text(&self, process: u32, namespace: Namespace, id: u32) -> Option<&str>;
    /// Where in a process's program a call was made.
    fn source(&self, process: u32, caller: Caller) -> Source;
}

impl Found {
    /// Adds what was found of another timeline of the device.
    pub fn add(&mut self, other: Found) {
        self.tally.merge(&other.tally);
        self.hta.add(&other.hta);
        Merge::merge(&mut self.running, &other.running);
        for (key, used) in other.threads {
            let mine = self.threads.entry(key).or_insert(Used { led: 0, ..used });
            mine.led = mine.led.saturating_add(used.led);
        }
    }

    /// Returns the rows of a device.
    pub fn report(&self, resolve: &impl Resolve) -> IdleReport {
        let running = self.running.clone();
        let mut report = IdleReport { hta: self.hta, running, ..IdleReport::default() };
        for cause in Cause::ALL {
            let part = self.tally.by_cause[cause as usize];
            if part != Part::default() {
                report.by_cause.insert(cause, part);
            }
            let beyond = self.tally.beyond[cause as usize];
            if beyond != Part::default() {
                report.sites.entry((cause, Site::default())).or_default().merge(&beyond);
            }
        }
        for ((cause, place), part) in &self.tally.places {
            report.sites.entry((*cause, site(*cause, place, resolve))).or_default().merge(part);
        }
        self.threads.values().for_each(|used| report.host.merge(&used.host));
        report.host.leave_out(&self.tally.set_up);
        let early = self.tally.early.iter();
        report.early_running.clone_from(&self.tally.early_running);
        report.early = early.map(|one| one.named(site(Cause::OutsideCuda, &one.place, resolve))).collect();
        for ((process, api, line), (emptied, _)) in &self.tally.waits {
            report.waits.entry(wait(*process, (*api, *line), resolve)).or_default().merge(emptied);
        }
        report.threads =
            self.threads.iter().map(|(key, used)| used.named(resolve.tid(key.0, key.1))).collect();
        report.threads.sort_by_key(|thread| Reverse(thread.idle_led));
        report.threads.truncate(THREADS);
        report
    }
}

impl Used {
    fn named(&self, tid: Option<u32>) -> ThreadUse {
        let calls = Cause::ALL.into_iter().map(|cause| (cause, self.host.in_calls(cause)));
        ThreadUse {
            tid,
            span: self.span,
            calls: calls.filter(|(_, ns)| *ns > 0).collect(),
            idle_led: self.led,
        }
    }
}

/// Names a place in which idle time has a cause.
pub fn site(cause: Cause, place: &Place, resolve: &impl Resolve) -> Site {
    if cause == Cause::Undecided {
        return Site::default();
    }
    let process = place.process;
    let text = |space, id: u32| resolve.text(process, space, id);
    let api = |api: u16| api_name(process, api, resolve);
    Site {
        api: place.api.map(api),
        source: resolve.source(process, place.caller),
        tid: resolve.tid(process, place.thread),
        range: (place.range != 0)
            .then(|| text(Namespace::NvtxRange, place.range))
            .flatten()
            .map(str::to_owned),
        after_wait: place.waited.map(|waited| wait(process, waited, resolve)),
        then_waited: place.then_waited.map(|waited| wait(process, waited, resolve)),
        is_long: place.is_long,
        next: place.next,
    }
}

/// Names a wait of a process.
fn wait(process: u32, (api, line): (u16, u32), resolve: &impl Resolve) -> Wait {
    let Source { line, .. } = resolve.source(process, Caller { address: 0, line });
    Wait { api: api_name(process, api, resolve), line }
}

/// Returns the base name of an API of a process.
fn api_name(process: u32, api: u16, resolve: &impl Resolve) -> String {
    shown_name(resolve.text(process, Namespace::Api, api.into()), api)
}

impl Tally {
    /// Adds another.
    fn merge(&mut self, other: &Tally) {
        let both = |mine: &mut [Part; Cause::COUNT], theirs: &[Part; Cause::COUNT]| {
            mine.iter_mut().zip(theirs).for_each(|(mine, theirs)| mine.merge(theirs));
        };
        both(&mut self.by_cause, &other.by_cause);
        both(&mut self.beyond, &other.beyond);
        for (key, part) in &other.places {
            self.places.entry(*key).or_default().merge(part);
        }
        self.early.add(&other.early);
        Merge::merge(&mut self.early_running, &other.running.early());
        self.set_up.merge(&other.set_up);
        for (key, led) in &other.led {
            let mine = self.led.entry(*key).or_default();
            *mine = mine.saturating_add(*led);
        }
        for (key, (emptied, _)) in &other.waits {
            self.waits.entry(*key).or_default().0.merge(emptied);
        }
    }
}
