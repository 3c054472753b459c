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
mod tests {
    use super::super::simulation;
    use super::*;
    use crate::trace::record::Synchronize;
    use gpuspy_wire::record::SyncScope;

    const STACK_OF_A_PACKAGE: u32 = 4;
    const STACK_OF_THE_USER: u32 = 5;

    fn names() -> Names {
        let text = |space, id, text: &str| ((space, id), text.to_owned());
        Names(
            [
                text(Namespace::Path, 1, "/opt/app"),
                text(Namespace::Path, 2, "/lib/x.so"),
                text(Namespace::Frame, 1, "item\n/x/site-packages/torch/_tensor.py\n30"),
                text(Namespace::Frame, 2, "train\ntrain.py\n42"),
                text(Namespace::Stack, STACK_OF_A_PACKAGE, "1"),
                text(Namespace::Stack, STACK_OF_THE_USER, "1 2"),
            ]
            .into(),
        )
    }

    fn module(start: u64, end: u64, path: u32) -> Record {
        let module = Module { start, end, bias: 0x1000, path, build_id: [path as u8; 20] };
        Record { thread: 1, at: 0, body: Body::Module(module) }
    }

    fn call(caller: u64, stack: u32) -> Record {
        let call = Call { caller, stack, ..Call::default() };
        Record {
            thread: 1,
            at: 0,
            body: Body::Synchronize(Synchronize { call, scope: SyncScope::Device, stream: 0, event: 0 }),
        }
    }

    fn callers(names: &Names, records: &[Record]) -> Callers {
        let mut fold = CallerFold::new(names);
        records.iter().for_each(|record| fold.observe(record));
        fold.finish()
    }

    #[test]
    fn each_caller_without_a_line_of_python_is_looked_up_once() {
        let mut names = names();
        let records = [
            module(0x2000, 0x4000, 1),
            module(0x5000, 0x6000, 2),
            call(0x2500, 0),
            call(0x2500, STACK_OF_A_PACKAGE),
            call(0x2500, 0),
            call(0x2600, STACK_OF_THE_USER),
            call(0x5100, 0),
            call(0x9000, 0),
            call(0, 0),
        ];
        let mut callers = callers(&names, &records);
        let mut asked = Vec::new();
        callers.resolve(&mut names, |places| {
            asked =
                places.iter().map(|place| (place.path.clone(), place.offset, place.build_id[0])).collect();
            let step = Frame::native("step", Some(("/src/app.cpp".to_owned(), 12)), "/opt/app");
            let frames = vec![vec![step], Vec::new(), Vec::new()];
            Found { frames, unread: vec![(WhyUnread::Changed, "/lib/x.so".to_owned())] }
        });
        let app = ("/opt/app".to_owned(), 0x1500, 1);
        assert_eq!(asked, [app, ("/lib/x.so".to_owned(), 0x4100, 2), (String::new(), 0x9000, 0)]);
        let stacks = Stacks::of(&names);
        let on = |record: &Record| callers.on_stacks([record.clone()].into_iter()).next().unwrap();
        let line = |record: &Record| {
            let call = on(record).body.call().cloned().unwrap();
            stacks.line(stacks.line_of(&call)).map(Frame::place)
        };
        let (native, of_package) = (on(&records[2]), on(&records[3]));
        assert_eq!(line(&records[2]).as_deref(), Some("/src/app.cpp:12"));
        assert_eq!(stacks.listed(native.body.call().unwrap().stack).unwrap(), ["step (/src/app.cpp:12)"]);
        let both = ["step (/src/app.cpp:12)", "item (/x/site-packages/torch/_tensor.py:30)"];
        assert_eq!(stacks.listed(of_package.body.call().unwrap().stack).unwrap(), both);
        assert_eq!(line(&records[5]).as_deref(), Some("train.py:42"), "the line of Python is the user's");
        for unknown in [6, 7, 8] {
            assert_eq!(on(&records[unknown]), records[unknown]);
        }
        let notes: Vec<String> = callers.notes().collect();
        assert_eq!(notes, ["/lib/x.so has changed since the run: calls from it have no line"]);
    }

    #[test]
    fn a_native_stack_is_in_front_of_that_of_python_and_a_launch_is_without_its_stub() {
        let mut names = names();
        let (long, of_launch, lost) = (9, 10, 11);
        for (number, text) in [
            (long, format!("{STACK_OF_THE_USER} 2500 2600")),
            (of_launch, "0 2700 2500".to_owned()),
            (lost, format!("{STACK_OF_THE_USER} 9500 9600")),
        ] {
            names.0.insert((Namespace::NativeStack, number), text);
        }
        names.0.insert((Namespace::Kernel, 1), "_Z3addPfi".to_owned());
        let launch = |caller: u64, stack: u32| {
            // Of kernel 1.
            let mut work = simulation::work(1, 2, 3);
            (work.call.caller, work.call.stack) = (caller, stack);
            Record { thread: 1, at: 0, body: Body::Work(work) }
        };
        let records =
            [module(0x2000, 0x4000, 1), call(0x2500, long), launch(0x2700, of_launch), call(0x9500, lost)];
        let mut callers = callers(&names, &records);
        callers.resolve(&mut names, |places| {
            let frame = |place: &Place| match place.offset {
                0x1500 => vec![Frame::native("step", Some(("/src/app.cpp".to_owned(), 12)), "/opt/app")],
                0x1600 => vec![Frame::native("main", Some(("/src/app.cpp".to_owned(), 34)), "/opt/app")],
                0x1700 => vec![Frame::native("__device_stub__Z3addPfi", None, "/opt/app")],
                0x9500 | 0x9600 if place.path.is_empty() => Vec::new(),
                other => panic!("{other:#x}"),
            };
            Found { frames: places.iter().map(frame).collect(), unread: Vec::new() }
        });
        let stacks = Stacks::of(&names);
        let of = |record: &Record| {
            let record = callers.on_stacks([record.clone()].into_iter()).next().unwrap();
            let call = record.body.call().cloned().unwrap();
            let line = stacks.line(stacks.line_of(&call)).map(Frame::place);
            (line.unwrap_or_default(), stacks.listed(call.stack).unwrap())
        };
        let native = ["step (/src/app.cpp:12)", "main (/src/app.cpp:34)"];
        let python = ["item (/x/site-packages/torch/_tensor.py:30)", "train (train.py:42)"];
        let both = [native, python].concat().iter().map(|frame| (*frame).to_owned()).collect();
        assert_eq!(of(&records[1]), ("train.py:42".to_owned(), both));
        assert_eq!(of(&records[2]), ("/src/app.cpp:12".to_owned(), vec![native[0].to_owned()]));
        let (line, stack) = of(&records[3]);
        assert_eq!((line.as_str(), stack.len()), ("train.py:42", 2), "of files that nobody has");
    }

    /// All calls of a library that was unloaded, and those of the one that was loaded in its place, had no line.
    #[test]
    fn a_call_has_the_line_of_the_library_that_lay_at_its_address_then() {
        let mut names = names();
        names.0.insert((Namespace::NativeStack, 9), "0 3500 4500".to_owned());
        let then = |at: u64, mut record: Record| {
            record.at = at;
            if let Some(call) = record.body.call_mut() {
                (call.begin, call.end) = (at, at + 1);
            }
            record
        };
        let files = [
            (10, module(0x3000, 0x5000, 1)),
            (30, module(0x3000, 0x5000, 1)),
            (40, module(0x3000, 0x5000, 2)),
        ];
        let calls = [20, 35, 50].map(|at| then(at, call(0x3500, 0)));
        let on_stacks = [20, 35, 50].map(|at| then(at, call(0x3500, 9)));
        let files = files.map(|(at, file)| then(at, file));
        let all: Vec<Record> = calls.iter().chain(&on_stacks).chain(&files).cloned().collect();
        let mut callers = callers(&names, &all);
        callers.resolve(&mut names, |places| {
            let frame = |place: &Place| {
                let file = Some((format!("{}.c", place.path), place.offset as u32));
                vec![Frame::native("step", file, &place.path)]
            };
            Found { frames: places.iter().map(frame).collect(), unread: Vec::new() }
        });
        let stacks = Stacks::of(&names);
        let owned = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>();
        for (calls, of_app, of_x) in [
            (&calls, &["step (/opt/app.c:9472)"][..], &["step (/lib/x.so.c:9472)"][..]),
            (
                &on_stacks,
                &["step (/opt/app.c:9472)", "step (/opt/app.c:13568)"],
                &["step (/lib/x.so.c:9472)", "step (/lib/x.so.c:13568)"],
            ),
        ] {
            let on = |record: &Record| {
                let record = callers.on_stacks([record.clone()].into_iter()).next().unwrap();
                let call = record.body.call().cloned().unwrap();
                let library = callers.modules().resolve(call.caller, &names).map(|site| site.path);
                (stacks.listed(call.stack).unwrap_or_default(), library.unwrap_or_default())
            };
            let [first, between, last] = [0, 1, 2].map(|at| on(&calls[at]));
            assert_eq!((first.0.as_slice(), first.1.as_str()), (owned(of_app).as_slice(), "/opt/app"));
            assert_eq!((last.0.as_slice(), last.1.as_str()), (owned(of_x).as_slice(), "/lib/x.so"));
            assert_eq!(between.1, "", "of one of them");
            assert!(between.0.iter().all(|frame| !frame.contains("step")), "{between:?}");
        }
    }

    #[test]
    fn an_address_where_one_file_was_seen_twice_is_looked_up_once() {
        let names = names();
        let mut again = module(0x2000, 0x4000, 1);
        again.at = 10;
        let mut callers = callers(&names, &[module(0x2000, 0x4000, 1), call(0x3500, 0), again]);
        callers.resolve(&mut names.clone(), |places| {
            assert_eq!(places.len(), 1);
            Found { frames: vec![Vec::new()], unread: Vec::new() }
        });
    }

    #[test]
    fn callers_and_what_is_said_of_changed_files_are_limited() {
        let names = names();
        let calls = (1..=2 * MOST_CALLERS as u64).map(|n| call(n * 16, 0));
        let mut fold = CallerFold::new(&names);
        calls.for_each(|record| fold.observe(&record));
        let mut callers = fold.finish();
        assert_eq!(callers.calls.len(), MOST_CALLERS);
        for (count, expected) in [
            (1, "/f0 has changed since the run: calls from it have no line"),
            (3, "/f0, /f1, /f2 have changed since the run: calls from them have no line"),
            (4, "/f0, /f1, /f2 and another file have changed since the run: calls from them have no line"),
            (9, "/f0, /f1, /f2 and 6 other files have changed since the run: calls from them have no line"),
        ] {
            callers.unread = (0..count).map(|n| (WhyUnread::Changed, format!("/f{n}"))).collect();
            assert_eq!(callers.notes().collect::<Vec<_>>(), [expected]);
        }
    }

    /// Nothing was said of a file that was not there, as where a trace is read on another machine.
    #[test]
    fn a_file_of_which_nothing_is_believed_is_named_with_the_reason() {
        let file = |why, name: &str| (why, name.to_owned());
        let unread = vec![
            file(WhyUnread::Missing, "/a"),
            file(WhyUnread::Missing, "/b"),
            file(WhyUnread::Unreadable, "/c"),
            file(WhyUnread::Untold, "/d"),
        ];
        let notes: Vec<String> = Callers { unread, ..Callers::default() }.notes().collect();
        let expected = [
            "/a, /b are not on this machine: calls from them have no line; make the report where the program's files are",
            "/c cannot be read: calls from it have no line",
            "/d may have changed since the run, as the trace does not say which build ran: calls from it have no line",
        ];
        assert_eq!(notes, expected);
        assert_eq!(Callers::default().notes().count(), 0);
    }
}
