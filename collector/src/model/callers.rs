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
    /// The files that are not those that ran any more.
    pub changed: Vec<String>,
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
}

impl Origin {
    fn of(record: &Record, call: &Call, behind: Behind, natives: &HashMap<u32, NativeStack>) -> Origin {
        let kernel = match &record.body {
            Body::Work(Work { what: What::Kernel { name, .. }, .. }) if natives.contains_key(&call.stack) => {
                *name
            }
            _ => 0,
        };
        Origin { caller: call.caller, stack: call.stack, kernel, behind }
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
    modules: Vec<Module>,
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
                self.modules.push(module.clone());
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
        Callers {
            calls,
            natives: self.natives,
            modules: self.modules,
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
    modules: Vec<Module>,
    /// Who waits for autograd's threads, at the start of the trace.
    backward: Backward,
    /// The number of the stack that each has, once it was looked up.
    stacks: HashMap<Origin, u32>,
    changed: Vec<String>,
}

impl Callers {
    /// Gives the callers their stacks: `look_up` says what the files say, and `names` gets the frames and stacks.
    pub fn resolve(&mut self, names: &mut Names, look_up: impl FnOnce(&[Place]) -> Found) {
        let (mut places, mut numbers): (Vec<Place>, HashMap<u64, usize>) = Default::default();
        for address in self.calls.iter().flat_map(|call| self.addresses(call)) {
            if places.len() < MOST_CALLERS
                && !numbers.contains_key(address)
                && let Some(place) = self.place(*address, names).or_else(|| self.generated(*address))
            {
                numbers.insert(*address, places.len());
                places.push(place);
            }
        }
        let Found { frames, changed } = look_up(&places);
        self.changed = changed;
        let found = |address: &u64| Some(frames.get(*numbers.get(address)?)?.as_slice());
        let (mut added, stacks) = (Added::to(names), Stacks::of(names));
        let mut numbered: HashMap<Origin, u32> = HashMap::default();
        for call in &self.calls {
            let python = self.natives.get(&call.stack).map_or(call.stack, |native| native.python);
            let has_line = stacks.line_of(&Call { stack: python, ..Call::default() }) != 0;
            let native = self.native(call, has_line, names, &found);
            let waiting = self.backward.frames(call.behind, &stacks);
            if !(native.is_empty() && waiting.is_empty()) {
                added.stack(names, (&native, python, &waiting)).map(|stack| numbered.insert(*call, stack));
            } else if python != call.stack {
                numbered.insert(*call, python);
            }
        }
        self.stacks = numbered;
    }

    /// Returns the native frames of calls, by what was found of each address. `has_line`: their line is one of Python.
    fn native<'f>(
        &self,
        call: &Origin,
        has_line: bool,
        names: &Names,
        found: &impl Fn(&u64) -> Option<&'f [Frame]>,
    ) -> Vec<Frame> {
        let addresses = self.addresses(call);
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

    /// Returns the return addresses of calls, the innermost first.
    fn addresses<'c>(&'c self, call: &'c Origin) -> &'c [u64] {
        let native = self.natives.get(&call.stack).map(|native| native.addresses.as_slice());
        native.unwrap_or(std::slice::from_ref(&call.caller))
    }

    /// Returns the file that an address lies in. If several lay there during the run, nobody knows which one it was.
    fn place(&self, address: u64, names: &Names) -> Option<Place> {
        let mut around = self.modules.iter().filter(|module| (module.start..module.end).contains(&address));
        let module = around.next()?;
        let is_same = |other: &Module| {
            (other.path, other.bias, other.build_id) == (module.path, module.bias, module.build_id)
        };
        let path = names.get(Namespace::Path, module.path).filter(|_| around.all(is_same))?;
        let offset = address.wrapping_sub(module.bias);
        Some(Place { path: path.to_owned(), build_id: module.build_id, offset })
    }

    /// Returns the place of an address that lay in no file.
    fn generated(&self, address: u64) -> Option<Place> {
        let is_in_a_file = self.modules.iter().any(|module| (module.start..module.end).contains(&address));
        let place = Place { path: String::new(), build_id: BuildId::default(), offset: address };
        (!is_in_a_file).then_some(place)
    }

    /// Returns the records of the trace, from its start on, with the numbers of their calls' stacks.
    pub fn on_stacks(&self, records: impl Iterator<Item = Record>) -> impl Iterator<Item = Record> {
        let mut backward = self.backward.clone();
        records.map(move |mut record| {
            let behind = backward.observe(&record);
            let call = record.body.call().filter(|_| !self.stacks.is_empty());
            let origin = call.map(|call| Origin::of(&record, call, behind, &self.natives));
            if let Some(stack) = origin.and_then(|origin| self.stacks.get(&origin))
                && let Some(call) = record.body.call_mut()
            {
                call.stack = *stack;
            }
            record
        })
    }

    /// The files that were mapped during the run, before any of them is [added](Modules::mapped).
    pub fn modules(&self) -> Modules {
        Modules::first(&self.modules)
    }

    /// Says which files have changed since the run, if any.
    pub fn note(&self) -> Option<String> {
        let named = self.changed.get(..MOST_NAMED).unwrap_or(&self.changed).join(", ");
        Some(match self.changed.len() {
            0 => return None,
            1 => format!("{named} has changed since the run: its callers are named by library only"),
            count => {
                let others = match count.saturating_sub(MOST_NAMED) {
                    0 => String::new(),
                    1 => " and another file".to_owned(),
                    others => format!(" and {others} other files"),
                };
                format!("{named}{others} have changed since the run: their callers are named by library only")
            }
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
            Found { frames, changed: vec!["/lib/x.so".to_owned()] }
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
        let note = callers.note().unwrap();
        assert_eq!(note, "/lib/x.so has changed since the run: its callers are named by library only");
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
            Found { frames: places.iter().map(frame).collect(), changed: Vec::new() }
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

    #[test]
    fn an_address_where_two_files_lay_is_of_neither() {
        let names = names();
        for (second, expected) in [(module(0x3000, 0x5000, 2), 0), (module(0x2000, 0x4000, 1), 1)] {
            let mut callers = callers(&names, &[module(0x2000, 0x4000, 1), call(0x3500, 0), second]);
            callers.resolve(&mut names.clone(), |places| {
                assert_eq!(places.len(), expected);
                Found { frames: vec![Vec::new(); places.len()], changed: Vec::new() }
            });
        }
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
            (0, None),
            (1, Some("/f0 has changed since the run: its callers are named by library only")),
            (3, Some("/f0, /f1, /f2 have changed since the run: their callers are named by library only")),
            (
                4,
                Some(
                    "/f0, /f1, /f2 and another file have changed since the run: their callers are named by library only",
                ),
            ),
            (
                9,
                Some(
                    "/f0, /f1, /f2 and 6 other files have changed since the run: their callers are named by library only",
                ),
            ),
        ] {
            callers.changed = (0..count).map(|n| format!("/f{n}")).collect();
            assert_eq!(callers.note().as_deref(), expected);
        }
    }
}
