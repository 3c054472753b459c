//! Does an operation, or a call, not end? Found while the process runs, told at once, and kept in the trace's status.
//!
//! A stream hangs if its oldest timed operation has been pending for longer than a limit and nothing of the stream
//! completed meanwhile. A long queue that moves on is no hang, and neither is a stream without operations. Besides, each
//! thread says which call it is in (`gpuspy_wire::in_progress`): a call that does not return is reported with the stream
//! that hangs, or by itself where no operation is known to be pending.
//!
//! That an operation is pending is known as of the poller's last polling pass, which the draining thread reads before it
//! drains: a poller that the driver keeps waiting shows nothing, and nothing is claimed for that time.

mod known;
mod process;
mod streams;

use crate::trace::record::{Blocked, Body, Ending, Hang, MAX_HANGS, Names, Record};
use gpuspy_wire::record::Namespace;
use known::Known;
pub(super) use process::{Polled, ProcessWatch};
use std::time::Duration;
use streams::{Key, OnStream, Streams};

/// The limit if none is set: a tenth of the time after which PyTorch gives up a collective of NCCL by default
/// (`timeout` of `torch.distributed.init_process_group`), and far above what a kernel of training takes.
pub const HANG_AFTER: Duration = Duration::from_secs(60);
/// What counts when a process was killed, if the limit is longer: it may have been killed because it hung.
const WHEN_KILLED: Duration = Duration::from_secs(5);
/// The time between two looks, unless the limit is short.
const LOOK: Duration = Duration::from_secs(1);
/// How long a thread has to be in one call to be told with a stream that hangs, unless the limit is short.
const BLOCKED: Duration = Duration::from_millis(500);
/// The most hangs that a look tells by themselves; of more, the number is reported.
const TOLD: usize = 4;

/// When a hang is found, and who gets the report of it.
#[derive(Clone, Copy, Debug)]
pub struct HangWatch {
    /// The limit; `None` = hangs are not looked for.
    pub after: Option<Duration>,
    /// Gets each hang when it is found, and when it is over.
    pub tell: Option<fn(&HangNotice<'_>)>,
}

impl Default for HangWatch {
    fn default() -> HangWatch {
        HangWatch { after: Some(HANG_AFTER), tell: None }
    }
}

/// A hang that was found, or is over.
#[derive(Clone, Copy, Debug)]
pub struct HangNotice<'a> {
    /// The process.
    pub pid: u32,
    /// Its name for display.
    pub program: &'a str,
    /// The hang.
    pub hang: &'a Hang,
    /// The names of kernels, functions and files.
    pub names: &'a Names,
    /// The number of further hangs that were found at the same time and are not told; told with the last one.
    pub more: usize,
}

/// A call that a thread is in. All of it may be hostile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct InCall {
    pub(super) tid: u32,
    pub(super) api: u16,
    pub(super) caller: u64,
    /// Host ns.
    pub(super) since: u64,
}

/// What is looked at. Times are host ns.
#[derive(Clone, Debug)]
pub(super) struct Look {
    pub(super) now: u64,
    /// The moment at which every operation that is pending here was pending indeed: before it, the poller had looked,
    /// and all that it found has been taken. `None`: nothing is known to be pending.
    pub(super) polled: Option<u64>,
    /// The calls in progress.
    pub(super) calls: Vec<InCall>,
}

/// What tells a hang from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Stream(Key),
    /// A thread's tid, and when it entered the call.
    Call(u32, u64),
}

#[derive(Debug)]
struct Found {
    place: Place,
    hang: Hang,
    is_told: bool,
}

/// Follows a process.
#[derive(Debug)]
pub(super) struct Watch {
    limit: u64,
    streams: Streams,
    known: Known,
    /// In the order in which they were found.
    found: Vec<Found>,
}

fn ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl Watch {
    pub(super) fn new(limit: Duration) -> Watch {
        let (streams, known, found) = (Streams::default(), Known::default(), Vec::new());
        Watch { limit: ns(limit), streams, known, found }
    }

    /// The time between two looks.
    pub(super) fn period(&self) -> Duration {
        LOOK.min(Duration::from_nanos(self.limit / 4))
    }

    /// Takes a record.
    pub(super) fn record(&mut self, record: &Record) {
        if let Body::Module(module) = &record.body {
            self.known.module(module);
        }
        let key = self.streams.record(record);
        self.ended(key);
    }

    /// Takes the time of an operation.
    pub(super) fn time(&mut self, correlation: u64, seen: u64) {
        let key = self.streams.completed(correlation, seen);
        self.ended(key);
    }

    /// Takes a name.
    pub(super) fn name(&mut self, namespace: Namespace, id: u32, text: &str) {
        self.known.name(namespace, id, text);
        if let (Namespace::Api, Ok(api)) = (namespace, u16::try_from(id)) {
            self.streams.function(api, text);
        }
    }

    /// Forgets what is pending: GPU times were lost.
    pub(super) fn forget(&mut self) {
        self.streams.forget();
    }

    /// The names that the hangs contain.
    pub(super) fn names(&self) -> &Names {
        &self.known.names
    }

    /// All hangs, for the status.
    pub(super) fn hangs(&self) -> Vec<Hang> {
        self.found.iter().map(|found| found.hang.clone()).collect()
    }

    /// Ends a stream's hang, if it hangs: something completed on it.
    fn ended(&mut self, key: Option<Key>) {
        let Some(key) = key else { return };
        let Some(stream) = self.streams.get_mut(key).filter(|stream| stream.is_hung) else { return };
        stream.is_hung = false;
        let seen = stream.last().map(|last| last.seen);
        if let Some(hang) = self.open(Place::Stream(key)) {
            hang.is_over = true;
            hang.until = seen.unwrap_or(hang.until).max(hang.until);
        }
    }

    fn open(&mut self, place: Place) -> Option<&mut Hang> {
        let found = self.found.iter_mut().find(|found| found.place == place && !found.hang.is_over);
        found.map(|found| &mut found.hang)
    }

    /// Looks for hangs. Returns those that were found or are over since the last look, and how many more there are.
    pub(super) fn look(&mut self, look: &Look) -> (Vec<Hang>, usize) {
        self.look_within(look, self.limit)
    }

    /// Looks for the last time, after the process has ended.
    pub(super) fn finish(&mut self, look: &Look, ending: Ending) {
        let limit = if ending == Ending::Vanished { self.limit.min(ns(WHEN_KILLED)) } else { self.limit };
        self.look_within(look, limit);
        for Found { hang, .. } in self.found.iter_mut().filter(|found| !found.hang.is_over) {
            let until = if hang.is_pending { look.polled } else { Some(look.now) };
            hang.until = hang.until.max(until.unwrap_or(0));
        }
    }

    fn look_within(&mut self, look: &Look, limit: u64) -> (Vec<Hang>, usize) {
        let over = self.end_calls(look);
        let before = self.found.len();
        self.find_streams(look, limit);
        self.find_calls(look, limit);
        let is_new =
            |(at, found): &(usize, &mut Found)| *at >= before || (found.hang.is_over && !found.is_told);
        let mut told = over;
        for (_, found) in self.found.iter_mut().enumerate().filter(is_new) {
            found.is_told = found.hang.is_over;
            told.push(found.hang.clone());
        }
        self.make_room();
        let more = told.len().saturating_sub(TOLD);
        told.truncate(TOLD);
        (told, more)
    }

    /// Ends the hangs of calls that have returned, and returns them.
    fn end_calls(&mut self, look: &Look) -> Vec<Hang> {
        let mut over = Vec::new();
        for found in self.found.iter_mut().filter(|found| !found.hang.is_over) {
            let Place::Call(tid, since) = found.place else { continue };
            if !look.calls.iter().any(|call| (call.tid, call.since) == (tid, since)) {
                found.hang.is_over = true;
                found.is_told = true;
                found.hang.until = look.now;
                over.push(found.hang.clone());
            }
        }
        over
    }

    fn find_streams(&mut self, look: &Look, limit: u64) {
        let Some(polled) = look.polled else { return };
        let mut stuck: Vec<(Key, u64)> = Vec::new();
        for (key, stream) in self.streams.iter() {
            let since = stream.oldest().map(|(_, since)| since);
            stuck.extend(
                since.filter(|since| polled.saturating_sub(*since) >= limit).map(|since| (key, since)),
            );
        }
        // The one that hangs for longest first: others may wait for it.
        stuck.sort_by_key(|(key, since)| (*since, *key));
        let least = self.limit.min(ns(BLOCKED) * 2) / 2;
        let call = longest(look, least).map(|call| self.blocked(call));
        for (key, since) in stuck.into_iter().take(MAX_HANGS) {
            let others_complete = self.others_complete(key, since);
            if let Some(hang) = self.open(Place::Stream(key)) {
                refresh(hang, polled, call, others_complete);
            } else if self.count_open() < MAX_HANGS {
                self.found_on(key, |stream| Hang { until: polled, call, others_complete, ..stream });
            }
        }
    }

    /// Adds the hang of a stream.
    fn found_on(&mut self, key: Key, complete: impl FnOnce(Hang) -> Hang) {
        let device = self.streams.device(key.0);
        let Some(stream) = self.streams.get_mut(key) else { return };
        let Some((oldest, since)) = stream.oldest() else { return };
        let hang = complete(Hang {
            since,
            is_pending: true,
            device,
            stream: Some(key.1),
            operation: Some(oldest.operation),
            untimed_before: oldest.untimed_before,
            behind: stream.behind(),
            last: stream.last(),
            ..Hang::default()
        });
        stream.is_hung = true;
        self.found.push(Found { place: Place::Stream(key), hang, is_told: false });
    }

    /// Whether another stream of the device completed an operation since then.
    fn others_complete(&self, key: Key, since: u64) -> bool {
        let device = self.streams.device(key.0);
        let mut others = self.streams.iter().filter(|(other, _)| *other != key);
        others.any(|((context, _), stream)| {
            self.streams.device(context) == device && stream.last().is_some_and(|last| last.seen > since)
        })
    }

    /// Finds calls that do not return while no stream is known to hang. They get a look longer than streams, so that the
    /// operation that a call waits for, which was launched before it, is found first.
    fn find_calls(&mut self, look: &Look, limit: u64) {
        let limit = limit.saturating_add(ns(self.period()));
        for call in look.calls.iter().filter(|call| look.now.saturating_sub(call.since) >= limit) {
            let place = Place::Call(call.tid, call.since);
            if let Some(hang) = self.open(place) {
                let blocked = hang.call;
                refresh(hang, look.now, blocked, false);
                continue;
            }
            let blocked = self.blocked(*call);
            let is_told =
                self.found.iter().any(|found| !found.hang.is_over && found.hang.call == Some(blocked));
            if !is_told && self.count_open() < MAX_HANGS {
                let hang = Hang { since: call.since, until: look.now, call: Some(blocked), ..self.newest() };
                self.found.push(Found { place, hang, is_told: false });
            }
        }
    }

    /// The last operation that was launched and may be pending, as part of a hang.
    fn newest(&self) -> Hang {
        let newest = |stream: &OnStream| stream.newest().map(|(operation, at)| (at, operation));
        let all = self.streams.iter().filter_map(|(key, stream)| Some((newest(stream)?, key, stream)));
        let Some(((_, operation), key, stream)) = all.max_by_key(|((at, _), key, _)| (*at, *key)) else {
            return Hang::default();
        };
        Hang {
            device: self.streams.device(key.0),
            stream: Some(key.1),
            operation: Some(operation),
            behind: stream.behind(),
            last: stream.last(),
            ..Hang::default()
        }
    }

    fn blocked(&self, call: InCall) -> Blocked {
        let InCall { tid, api, caller, since } = call;
        Blocked { tid, api, library: self.known.file(caller), since }
    }

    fn count_open(&self) -> usize {
        self.found.iter().filter(|found| !found.hang.is_over).count()
    }

    /// Drops the oldest hangs that are over, where there are too many for the status.
    fn make_room(&mut self) {
        let mut surplus = self.found.len().saturating_sub(MAX_HANGS);
        self.found.retain(|found| {
            let goes = surplus > 0 && found.hang.is_over && found.is_told;
            surplus -= usize::from(goes);
            !goes
        });
    }
}

/// The call that has been in progress for longest, if it has been for `least` ns.
fn longest(look: &Look, least: u64) -> Option<InCall> {
    let calls = look.calls.iter().filter(|call| look.now.saturating_sub(call.since) >= least);
    calls.min_by_key(|call| (call.since, call.tid)).copied()
}

/// Brings a hang up to date. Its time grows in steps of a sixteenth, because each step writes a status.
fn refresh(hang: &mut Hang, until: u64, call: Option<Blocked>, others_complete: bool) {
    let known = hang.until.saturating_sub(hang.since);
    if until.saturating_sub(hang.until) >= (known / 16).max(ns(LOOK)) {
        hang.until = until;
    }
    hang.call = call.or(hang.call);
    hang.others_complete |= others_complete;
}

#[cfg(test)]
mod tests;
