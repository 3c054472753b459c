//! Which line of the program made a call?
//!
//! A trace names each stack and each frame once. Of a stack's frames, the user's is the innermost one that is in the
//! program's own files: not in an installed package, in the standard library, in a frozen module, or in code that a
//! compiler wrote.
//!
//! A frame is of Python, or native: of a function in a program's or a library's file, which calls came from
//! ([`callers`](super::callers)).

mod native;

use crate::hash::HashMap;
use crate::trace::record::{Call, Names};
use gpuspy_wire::program_files::{is_given, is_users};
use gpuspy_wire::record::Namespace;
use std::fmt;

/// A frame: where a function was.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Frame {
    /// The file, as the interpreter or the compiler has it; that of the library if a native function's is not known.
    pub file: String,
    /// The line; 0 = not known.
    pub line: u32,
    /// The function, qualified where the interpreter has that; demangled.
    pub function: String,
    /// The file of the library or program that contains a native function; empty for Python.
    pub library: String,
    /// The line on which a function of Python begins; 0 = not known.
    pub first_line: u32,
}

impl Frame {
    /// Reads a frame of a trace: its function, its file, its line, of a native one the library, and the function's first line; a
    /// line each, of which the last two may be missing.
    fn parse(text: &str) -> Option<Frame> {
        let mut parts = text.split('\n');
        let (function, file, line) = (parts.next()?, parts.next()?, parts.next()?);
        Some(Frame {
            file: file.to_owned(),
            line: line.parse().ok()?,
            function: function.to_owned(),
            library: parts.next().unwrap_or_default().to_owned(),
            first_line: parts.next().and_then(|line| line.parse().ok()).unwrap_or(0),
        })
    }

    /// Its place: `file:line`, or `function in library` for a native function whose line is not known.
    pub fn place(&self) -> String {
        match self.library.rsplit('/').next() {
            Some(library) if self.is_without_line() => format!("{} in {library}", self.function),
            _ => format!("{}:{}", self.file, self.line),
        }
    }

    /// The same without the folders of the file.
    pub fn short_place(&self) -> String {
        if self.is_without_line() { self.place() } else { format!("{}:{}", self.short_file(), self.line) }
    }

    /// Whether it is a native function whose line is not known.
    pub fn is_without_line(&self) -> bool {
        !self.library.is_empty() && self.line == 0
    }

    /// Whether it is of Python, and may be what `python -c` was given.
    fn is_given(&self) -> bool {
        self.is_python() && is_given(&self.file)
    }

    /// The file without what is the same for all files of a package, or of the program.
    pub fn short_file(&self) -> &str {
        let file = self.file.as_str();
        let installed =
            ["/site-packages/", "/dist-packages/"].into_iter().find_map(|folder| file.split_once(folder));
        installed.map_or_else(|| file.rsplit('/').next().unwrap_or(file), |(_, inside)| inside)
    }

    /// Whether it is of Python.
    pub fn is_python(&self) -> bool {
        self.library.is_empty()
    }

    /// Whether it is of Python, and in the program's own files.
    pub(super) fn is_users(&self) -> bool {
        self.is_python() && is_users(&self.file)
    }
}

impl fmt::Display for Frame {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_without_line() {
            return out.write_str(&self.place());
        }
        write!(out, "{} ({}:{})", self.function, self.file, self.line)
    }
}

/// Where in the program a call was made, by numbers that its trace explains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Caller {
    /// The return address of the call; 0 = not known.
    pub address: u64,
    /// The number of its [line](Stacks::line_of); 0 = not known.
    pub line: u32,
}

/// A stack: the numbers of its frames, the innermost first.
#[derive(Clone, Debug, Default)]
struct Stack {
    frames: Vec<u32>,
    /// Whether there were more frames, which were not read.
    is_cut: bool,
    /// The number of the user's frame; `None` if none of the frames that were read is the user's.
    user: Option<u32>,
}

/// The stacks of a trace.
#[derive(Clone, Debug, Default)]
pub struct Stacks {
    frames: HashMap<u32, Frame>,
    stacks: HashMap<u32, Stack>,
}

/// Returns the names of a trace with each stack in place of its line: what is then computed by line is by stack. The number of
/// the line is that of the stack.
pub fn as_lines(names: &Names) -> Names {
    let mut names = names.clone();
    names.0.retain(|(space, _), _| *space != Namespace::Frame);
    let stacks: Vec<u32> =
        names.0.range((Namespace::Stack, 0)..=(Namespace::Stack, u32::MAX)).map(|((_, id), _)| *id).collect();
    for stack in stacks {
        names.0.insert((Namespace::Stack, stack), stack.to_string());
        names.0.insert((Namespace::Frame, stack), format!("\nstack\n{stack}"));
    }
    names
}

impl Stacks {
    /// Reads the stacks among the names of a trace.
    pub fn of(names: &Names) -> Stacks {
        let of = |space| names.0.range((space, 0)..=(space, u32::MAX)).map(|((_, id), text)| (*id, text));
        let frames: HashMap<u32, Frame> =
            of(Namespace::Frame).filter_map(|(id, text)| Some((id, Frame::parse(text)?))).collect();
        let stack = |text: &str| {
            let numbers = text.split(' ').map_while(|number| number.parse().ok());
            let listed: Vec<u32> = numbers.collect();
            let first = |is_it: fn(&Frame) -> bool| {
                listed.iter().copied().find(|id| frames.get(id).is_some_and(is_it))
            };
            let is_cut = text.ends_with('…');
            // What `python -c` was given is outside of everything else.
            let is_given = |id: &&u32| frames.get(*id).is_some_and(Frame::is_given);
            let given = listed.iter().rev().take_while(is_given).last().copied().filter(|_| !is_cut);
            let user = first(Frame::is_users).or(given).or_else(|| first(Frame::is_of_autograd));
            let user = user.or_else(|| first(Frame::is_users_native));
            Stack { frames: listed, is_cut, user }
        };
        let stacks = of(Namespace::Stack).map(|(id, text)| (id, stack(text))).collect();
        Stacks { frames, stacks }
    }

    /// Whether the trace has any.
    pub fn is_empty(&self) -> bool {
        self.stacks.is_empty()
    }

    /// Returns the number of the line of the program that made a call, for [`Stacks::line`]: that of the user's frame;
    /// 0 = not known.
    pub fn line_of(&self, call: &Call) -> u32 {
        self.stacks.get(&call.stack).and_then(|stack| stack.user).unwrap_or(0)
    }

    /// Returns a line, by its number.
    pub fn line(&self, number: u32) -> Option<&Frame> {
        self.frames.get(&number)
    }

    /// Returns where a call was made.
    #[cfg(test)]
    pub fn caller(&self, call: &Call) -> Caller {
        Caller { address: call.caller, line: self.line_of(call) }
    }

    /// Returns a stack's frames, the innermost first, and whether there were more, which were not read. A frame that is not
    /// known is `None`. `None`: there is no such stack.
    pub fn frames(&self, stack: u32) -> Option<(Vec<Option<&Frame>>, bool)> {
        let stack = self.stacks.get(&stack)?;
        Some((stack.frames.iter().map(|id| self.frames.get(id)).collect(), stack.is_cut))
    }

    /// Returns a stack's frames as a reader gets them, the innermost first: `function (file:line)`, and `…` at the end if
    /// there were more. `None`: the call has no stack.
    pub fn listed(&self, stack: u32) -> Option<Vec<String>> {
        let (frames, is_cut) = self.frames(stack)?;
        let frame = |frame: Option<&Frame>| frame.map_or_else(|| "?".to_owned(), Frame::to_string);
        let more = is_cut.then(|| "…".to_owned());
        Some(frames.into_iter().map(frame).chain(more).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn stacks(texts: &[(Namespace, u32, &str)]) -> Stacks {
        let names = texts.iter().map(|(space, id, text)| ((*space, *id), (*text).to_owned()));
        Stacks::of(&Names(BTreeMap::from_iter(names)))
    }

    #[test]
    fn the_users_frame_is_the_innermost_of_its_own_files() {
        let stacks = stacks(&[
            (Namespace::Frame, 1, "Tensor.item\n/x/lib/python3.11/site-packages/torch/_tensor.py\n30"),
            (Namespace::Frame, 2, "train\ntrain.py\n42"),
            (Namespace::Frame, 3, "<module>\ntrain.py\n99"),
            (Namespace::Stack, 7, "1 2 3"),
            (Namespace::Stack, 8, "1 …"),
            (Namespace::Stack, 9, "0 5"),
        ]);
        let line = |stack| stacks.line_of(&Call { stack, ..Call::default() });
        assert_eq!(stacks.line(line(7)).map(Frame::place).as_deref(), Some("train.py:42"));
        assert_eq!(stacks.listed(7).unwrap()[1..], ["train (train.py:42)", "<module> (train.py:99)"]);
        assert_eq!((line(8), stacks.listed(8).unwrap().len()), (0, 2));
        assert_eq!(stacks.listed(9).unwrap(), ["?", "?"]);
        assert_eq!((line(1), stacks.listed(0)), (0, None));
    }

    /// tinygrad compiles functions of its own from strings, and they had all of its launches.
    #[test]
    fn what_python_was_given_on_the_command_line_is_the_users_and_what_a_package_compiles_is_not() {
        let stacks = stacks(&[
            (Namespace::Frame, 1, "match\n<string>\n3"),
            (Namespace::Frame, 2, "run\n/x/lib/python3.11/site-packages/tinygrad/a.py\n30"),
            (Namespace::Frame, 3, "train\n<string>\n42"),
            (Namespace::Frame, 4, "<module>\n<string>\n99"),
            (Namespace::Frame, 5, "<module>\ntrain.py\n7"),
            (Namespace::Stack, 7, "1 2 3 4"),
            (Namespace::Stack, 8, "1 2 5"),
            (Namespace::Stack, 9, "1 2"),
            (Namespace::Stack, 10, "3 …"),
        ]);
        let line = |stack| stacks.line_of(&Call { stack, ..Call::default() });
        assert_eq!([7, 8, 9, 10].map(line), [3, 5, 0, 0]);
    }

    #[test]
    fn a_stack_can_stand_in_place_of_its_line() {
        let names = Names(BTreeMap::from([
            (
                (Namespace::Frame, 1),
                "Tensor.item\n/x/lib/python3.11/site-packages/torch/_tensor.py\n30".to_owned(),
            ),
            ((Namespace::Frame, 2), "train\ntrain.py\n42".to_owned()),
            ((Namespace::Stack, 7), "1 2".to_owned()),
            ((Namespace::Stack, 8), "1 …".to_owned()),
            ((Namespace::Kernel, 1), "gemm".to_owned()),
        ]));
        let folded = as_lines(&names);
        let stacks = Stacks::of(&folded);
        for stack in [7, 8] {
            let line = stacks.line(stacks.line_of(&Call { stack, ..Call::default() })).unwrap();
            assert_eq!(line.line, stack);
        }
        assert_eq!(stacks.line_of(&Call::default()), 0, "a call without a stack");
        assert_eq!(folded.get(Namespace::Kernel, 1), Some("gemm"));
        let all = Stacks::of(&names);
        let frames = |stack: u32| all.frames(stack).map(|(frames, is_cut)| (frames.len(), is_cut));
        assert_eq!((frames(7), frames(8), frames(9)), (Some((2, false)), Some((1, true)), None));
    }

    #[test]
    fn a_damaged_frame_is_none() {
        for text in ["", "f", "f\nx.py", "f\nx.py\nmany"] {
            assert_eq!(Frame::parse(text), None, "{text:?}");
        }
    }
}
