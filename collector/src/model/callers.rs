//! Where in the program's files do the calls come from of which no Python line is known?
//!
//! The [survey](super::survey) collects the return addresses of those calls. What the files say of them becomes frames and
//! stacks among the names of the trace, as if the agent had sent them, and [`Callers::on_stacks`] gives each such call the
//! number of its stack: its native frames, and then those of Python that were read, if any. Of a call of autograd's threads
//! they are those of [the line that waits for it](super::backward).

use super::backward::{Backward, Behind};
use super::modules::Modules;
use super::names::demangle;
use super::native_stacks::NativeStack;
use super::stacks::{Frame, Stacks};
use crate::hash::{HashMap, HashSet};
use crate::trace::record::{Body, Call, Module, Names, Record, What, Work};
use gpuspy_wire::build_id::BuildId;
use gpuspy_wire::record::Namespace;

/// The most places that are looked up. Programs have some hundreds; the calls of further ones have no line.
const MOST_CALLERS: usize = 65_536;
/// The most calls with the times at which they are of other files.
const MOST_TIMES: usize = 4 * MOST_CALLERS;
/// If a program loads more files, nothing is looked up. Programs load some hundreds.
const MOST_MODULES: usize = 16_384;

/// The most files that a note names.
const MOST_NAMED: usize = 3;

/// A return address in a file, or in code that the program generated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file's path; empty if it is in no file.
    pub path: String,
    /// Its build id; zeros if it had none.
    pub build_id: BuildId,
    /// The address in the file's own numbering, or in the process.
    pub offset: u64,
}

/// What the files say of places.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// The frames of each place, the innermost first; none if nothing is known.
    pub frames: Vec<Vec<Frame>>,
    /// The files of which nothing is believed, and why; sorted.
    pub unread: Vec<(WhyUnread, String)>,
}

/// Why nothing of a file is believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WhyUnread {
    /// It is another file than the one that ran.
    Changed,
    /// There is none at its path.
    Missing,
    /// It cannot be read, or is none of a program.
    Unreadable,
    /// Nobody can tell whether it is the file that ran.
    Untold,
}

impl WhyUnread {
    /// Says it of files.
    fn said(self, files: &str, are_several: bool) -> String {
        let (has, is, it) = if are_several { ("have", "are", "them") } else { ("has", "is", "it") };
        let none = format!("calls from {it} have no line");
        match self {
            WhyUnread::Changed => format!("{files} {has} changed since the run: {none}"),
            WhyUnread::Missing => {
                format!(
                    "{files} {is} not on this machine: {none}; make the report where the program's files are"
                )
            }
            WhyUnread::Unreadable => format!("{files} cannot be read: {none}"),
            WhyUnread::Untold => {
                format!(
                    "{files} may have changed since the run, as the trace does not say which build ran: {none}"
                )
            }
        }
    }
}

/// Where calls come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Origin {
    /// The return address.
    caller: u64,
    /// The number of the stack that they have, of Python or [native](NativeStack).
    stack: u32,
    /// The kernel that they launch, if they have a native stack: in front of it is what compiled code has for that.
    kernel: u32,
    behind: Behind,
    /// From when on (host ns), if one file took the place of another at their addresses. Else 0.
    since: u64,
}

impl Origin {
    fn of(record: &Record, call: &Call, behind: Behind, natives: &HashMap<u32, NativeStack>) -> Origin {
        let kernel = match &record.body {
            Body::Work(Work { what: What::Kernel { name, .. }, .. }) if natives.contains_key(&call.stack) => {
                *name
            }
            _ => 0,
        };
        Origin { caller: call.caller, stack: call.stack, kernel, behind, since: 0 }
    }

    /// Returns the return addresses, the innermost first.
    fn addresses<'c>(&'c self, natives: &'c HashMap<u32, NativeStack>) -> &'c [u64] {
        let native = natives.get(&self.stack).map(|native| native.addresses.as_slice());
        native.unwrap_or(std::slice::from_ref(&self.caller))
    }
}

/// Collects the callers of a trace.
#[derive(Debug)]
pub struct CallerFold {
    stacks: Stacks,
    natives: HashMap<u32, NativeStack>,
    backward: Backward,
    calls: HashSet<Origin>,
    last: Origin,
    /// When each was seen (host ns).
    modules: Vec<(u64, Module)>,
}

impl Default for CallerFold {
    fn default() -> Self {
        CallerFold::new(&Names::default())
    }
}

impl CallerFold {
    /// A fold over a trace with these names.
    pub fn new(names: &Names) -> CallerFold {
        let stacks = Stacks::of(names);
        let backward = Backward::of(names, &stacks);
        let (calls, modules) = (HashSet::default(), Vec::new());
        CallerFold {
            stacks,
            natives: NativeStack::all(names),
            backward,
            calls,
            last: Origin::default(),
            modules,
        }
    }

    /// Takes the next record.
    pub fn observe(&mut self, record: &Record) {
        let behind = self.backward.observe(record);
        let Some(call) = record.body.call() else {
            if let Body::Module(module) = &record.body
                && self.modules.len() <= MOST_MODULES
            {
                self.modules.push((record.at, module.clone()));
            }
            return;
        };
        let key = Origin::of(record, call, behind, &self.natives);
        // Most calls come from where the one before came from.
        if key != self.last && self.calls.len() < MOST_CALLERS && call.caller != 0 {
            self.last = key;
            if self.stacks.line_of(call) == 0 {
                self.calls.insert(key);
            }
        }
    }

    /// Ends the fold.
    pub fn finish(self) -> Callers {
        let mut calls: Vec<Origin> = self.calls.into_iter().collect();
        calls.sort_unstable();
        calls.truncate(if self.modules.len() > MOST_MODULES { 0 } else { MOST_CALLERS });
        let addresses = calls.iter().flat_map(|call| call.addresses(&self.natives)).copied();
        let modules = Modules::new(self.modules, addresses);
        Callers {
            calls,
            modules,
            natives: self.natives,
            backward: self.backward.again(),
            ..Callers::default()
        }
    }
}

/// The callers of a trace.
#[derive(Clone, Debug, Default)]
pub struct Callers {
    calls: Vec<Origin>,
    natives: HashMap<u32, NativeStack>,
    modules: Modules,
    /// Of calls at whose addresses one file took the place of another: since when each applies (host ns), in order.
    times: HashMap<Origin, Vec<u64>>,
    /// Who waits for autograd's threads, at the start of the trace.
    backward: Backward,
    /// The number of the stack that each has, once it was looked up.
    stacks: HashMap<Origin, u32>,
    unread: Vec<(WhyUnread, String)>,
}

impl Callers {
    /// Gives the callers their stacks: `look_up` says what the files say, and `names` gets the frames and stacks.
    pub fn resolve(&mut self, names: &mut Names, look_up: impl FnOnce(&[Place]) -> Found) {
        let calls = self.at_their_times();
        let (mut places, mut numbers): (Vec<Place>, HashMap<u64, usize>) = Default::default();
        for address in calls.iter().flat_map(|(_, addresses)| addresses) {
            if places.len() < MOST_CALLERS
                && !numbers.contains_key(address)
                && let Some(place) = self.place(*address, names).or_else(|| self.generated(*address))
            {
                numbers.insert(*address, places.len());
                places.push(place);
            }
        }
        let Found { frames, unread } = look_up(&places);
        self.unread = unread;
        let found = |address: &u64| Some(frames.get(*numbers.get(address)?)?.as_slice());
        let (mut added, stacks) = (Added::to(names), Stacks::of(names));
        let mut numbered: HashMap<Origin, u32> = HashMap::default();
        for (call, addresses) in &calls {
            let python = self.natives.get(&call.stack).map_or(call.stack, |native| native.python);
            let has_line = stacks.line_of(&Call { stack: python, ..Call::default() }) != 0;
            let native = self.native((call, addresses), has_line, names, &found);
            let waiting = self.backward.frames(call.behind, &stacks);
            if !(native.is_empty() && waiting.is_empty()) {
                added.stack(names, (&native, python, &waiting)).map(|stack| numbered.insert(*call, stack));
            } else if python != call.stack {
                numbered.insert(*call, python);
            }
        }
        for (call, _) in calls.iter().filter(|(call, _)| call.since != 0) {
            self.times.entry(Origin { since: 0, ..*call }).or_default().push(call.since);
        }
        self.stacks = numbered;
    }

    /// Returns the calls with their addresses, the innermost first, [at](Modules::at) each time at which these are of other files.
    fn at_their_times(&self) -> Vec<(Origin, Vec<u64>)> {
        let mut all: Vec<(Origin, Vec<u64>)> = Vec::new();
        for call in &self.calls {
            let addresses = call.addresses(&self.natives);
            let mut times: Vec<u64> =
                addresses.iter().flat_map(|address| self.modules.changes(*address)).chain([0]).collect();
            times.sort_unstable();
            let at = |since: u64| -> (Origin, Vec<u64>) {
                let there = addresses.iter().map(|address| self.modules.at(*address, since));
                (Origin { since, ..*call }, there.collect())
            };
            let mut at_times: Vec<(Origin, Vec<u64>)> = times.into_iter().map(at).collect();
            at_times.dedup_by(|(_, next), (_, before)| next == before);
            if all.len() + at_times.len() > MOST_TIMES {
                break;
            }
            all.append(&mut at_times);
        }
        all
    }

    /// Returns the origin of a call of the trace.
    fn origin(&self, record: &Record, call: &Call, behind: Behind) -> Origin {
        let origin = Origin::of(record, call, behind, &self.natives);
        let Some(times) = self.times.get(&origin) else { return origin };
        let since = times.partition_point(|since| *since <= call.begin).checked_sub(1);
        Origin { since: since.map_or(0, |at| times[at]), ..origin }
    }

    /// Returns the native frames of calls, by what was found of each address. `has_line`: their line is one of Python.
    fn native<'f>(
        &self,
        (call, addresses): (&Origin, &[u64]),
        has_line: bool,
        names: &Names,
        found: &impl Fn(&u64) -> Option<&'f [Frame]>,
    ) -> Vec<Frame> {
        let known = |address| found(address).filter(|frames| !frames.is_empty());
        let mut frames = Vec::new();
        for address in addresses {
            match known(address) {
                Some(of_address) => frames.extend_from_slice(of_address),
                None => frames.push(Frame::lost(self.place(*address, names).map(|place| place.path))),
            }
        }
        if call.kernel != 0 {
            let kernel = demangle(names.get(Namespace::Kernel, call.kernel).unwrap_or_default());
            frames = Frame::without_launch(frames, &kernel);
        }
        match has_line {
            true if frames.iter().all(Frame::is_lost) => Vec::new(),
            true => frames,
            false => Frame::of_caller(Frame::up_to_lost(frames)),
        }
    }

    /// Returns the file that an address lies in. `None` also if several lay there, and nobody knows which one it was.
    fn place(&self, address: u64, names: &Names) -> Option<Place> {
        let (module, plain) = self.modules.file(address)?;
        let path = names.get(Namespace::Path, module.path)?;
        let offset = plain.wrapping_sub(module.bias);
        Some(Place { path: path.to_owned(), build_id: module.build_id, offset })
    }

    /// Returns the place of an address that lay in no file.
    fn generated(&self, address: u64) -> Option<Place> {
        let place = Place { path: String::new(), build_id: BuildId::default(), offset: address };
        (!self.modules.holds(address)).then_some(place)
    }

    /// Returns the records of the trace, from its start on, with the numbers of their calls' stacks, and of their calls' files.
    pub fn on_stacks(&self, records: impl Iterator<Item = Record>) -> impl Iterator<Item = Record> {
        let mut backward = self.backward.clone();
        records.map(move |mut record| {
            let behind = backward.observe(&record);
            let call = record.body.call().filter(|_| !self.stacks.is_empty());
            let origin = call.map(|call| self.origin(&record, call, behind));
            let stack = origin.and_then(|origin| self.stacks.get(&origin));
            if let Some(call) = record.body.call_mut() {
                call.stack = stack.copied().unwrap_or(call.stack);
                call.caller = self.modules.at(call.caller, call.begin);
            }
            record
        })
    }

    /// The files that were mapped during the run.
    pub fn modules(&self) -> &Modules {
        &self.modules
    }

    /// Says of which files nothing is believed, and why: a sentence for each reason.
    pub fn notes(&self) -> impl Iterator<Item = String> {
        self.unread.chunk_by(|(one, _), (other, _)| one == other).map(|alike| {
            let named: Vec<&str> = alike.iter().take(MOST_NAMED).map(|(_, file)| file.as_str()).collect();
            let others = match alike.len() - named.len() {
                0 => String::new(),
                1 => " and another file".to_owned(),
                others => format!(" and {others} other files"),
            };
            alike[0].0.said(&format!("{}{others}", named.join(", ")), alike.len() > 1)
        })
    }
}

/// The numbers that new frames and stacks get.
struct Added {
    frames: HashMap<Frame, u32>,
    frame: u32,
    stack: u32,
}

impl Added {
    fn to(names: &Names) -> Added {
        let last =
            |space| names.0.range((space, 0)..=(space, u32::MAX)).next_back().map_or(0, |((_, id), _)| *id);
        Added { frames: HashMap::default(), frame: last(Namespace::Frame), stack: last(Namespace::Stack) }
    }

    /// Adds a stack: native frames, those of a stack of Python, if that is known, and those of who waits. `None`: there are
    /// no more numbers.
    fn stack(
        &mut self,
        names: &mut Names,
        (native, python, waiting): (&[Frame], u32, &[Frame]),
    ) -> Option<u32> {
        let mut numbers = Vec::new();
        for frame in native {
            numbers.push(self.frame(names, frame)?.to_string());
        }
        numbers.extend(names.get(Namespace::Stack, python).map(str::to_owned));
        for frame in waiting {
            numbers.push(self.frame(names, frame)?.to_string());
        }
        self.stack = self.stack.checked_add(1)?;
        names.0.insert((Namespace::Stack, self.stack), numbers.join(" "));
        Some(self.stack)
    }

    fn frame(&mut self, names: &mut Names, frame: &Frame) -> Option<u32> {
        if let Some(number) = self.frames.get(frame) {
            return Some(*number);
        }
        self.frame = self.frame.checked_add(1)?;
        names.0.insert((Namespace::Frame, self.frame), frame.text());
        self.frames.insert(frame.clone(), self.frame);
        Some(self.frame)
    }
}

#[cfg(test)]
mod tests;
