//! Which line of the program made a call?
//!
//! A trace names each stack and each frame once. Of a stack's frames, the user's is the innermost one that is in the
//! program's own files: not in an installed package, in the standard library, in a frozen module, or in code that a
//! compiler wrote.

use crate::hash::HashMap;
use crate::trace::record::Names;
use gpuspy_wire::record::Namespace;
use std::fmt;

/// A frame: where a function was.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Frame {
    /// The file, as the interpreter has it.
    pub file: String,
    /// The line; 0 = not known.
    pub line: u32,
    /// The function, qualified where the interpreter has that.
    pub function: String,
}

impl Frame {
    /// Reads a frame of a trace: its function, its file and its line, a line each.
    fn parse(text: &str) -> Option<Frame> {
        let mut parts = text.split('\n');
        let (function, file, line) = (parts.next()?, parts.next()?, parts.next()?);
        Some(Frame { file: file.to_owned(), line: line.parse().ok()?, function: function.to_owned() })
    }

    /// Its place: `file:line`.
    pub fn place(&self) -> String {
        format!("{}:{}", self.file, self.line)
    }
}

impl fmt::Display for Frame {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} ({}:{})", self.function, self.file, self.line)
    }
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

impl Stacks {
    /// Reads the stacks among the names of a trace.
    pub fn of(names: &Names) -> Stacks {
        let of = |space| names.0.range((space, 0)..=(space, u32::MAX)).map(|((_, id), text)| (*id, text));
        let frames: HashMap<u32, Frame> =
            of(Namespace::Frame).filter_map(|(id, text)| Some((id, Frame::parse(text)?))).collect();
        let stack = |text: &str| {
            let numbers = text.split(' ').map_while(|number| number.parse().ok());
            let listed: Vec<u32> = numbers.collect();
            let is_users = |id: &u32| frames.get(id).is_some_and(|frame| is_users(&frame.file));
            let user = listed.iter().copied().find(is_users);
            Stack { frames: listed, is_cut: text.ends_with('…'), user }
        };
        let stacks = of(Namespace::Stack).map(|(id, text)| (id, stack(text))).collect();
        Stacks { frames, stacks }
    }

    /// Whether the trace has any.
    pub fn is_empty(&self) -> bool {
        self.stacks.is_empty()
    }

    /// Returns the user's frame of a stack, by the stack's number in calls.
    pub fn user(&self, stack: u32) -> Option<&Frame> {
        self.frames.get(&self.user_number(stack)?)
    }

    /// Returns the number of the user's frame of a stack, for [`Stacks::frame`].
    pub fn user_number(&self, stack: u32) -> Option<u32> {
        self.stacks.get(&stack)?.user
    }

    /// Returns a frame.
    pub fn frame(&self, number: u32) -> Option<&Frame> {
        self.frames.get(&number)
    }

    /// Returns the user's frame of each stack that has one.
    pub fn users(&self) -> HashMap<u32, Frame> {
        let user = |(id, stack): (&u32, &Stack)| Some((*id, self.frames.get(&stack.user?)?.clone()));
        self.stacks.iter().filter_map(user).collect()
    }

    /// Returns a stack's frames as a reader gets them, the innermost first: `function (file:line)`, and `…` at the end if
    /// there were more. `None`: the call has no stack.
    pub fn listed(&self, stack: u32) -> Option<Vec<String>> {
        let stack = self.stacks.get(&stack)?;
        let frame = |id: &u32| self.frames.get(id).map_or_else(|| "?".to_owned(), Frame::to_string);
        let more = stack.is_cut.then(|| "…".to_owned());
        Some(stack.frames.iter().map(frame).chain(more).collect())
    }
}

/// Whether a file is the program's own.
fn is_users(file: &str) -> bool {
    if let Some(inside) = file.strip_prefix('<') {
        // Typed in, or given on the command line. Other such names are of frozen modules and of generated code
        // (`<eval_with_key>` of torch.fx, `<__array_function__ internals>`).
        return ["string>", "stdin>", "console>", "ipython-input"]
            .iter()
            .any(|name| inside.starts_with(name));
    }
    let is_installed = ["/site-packages/", "/dist-packages/"].iter().any(|folder| file.contains(folder));
    // What TorchInductor and Triton write, by the names of their caches.
    let is_generated = ["/torchinductor_", "/.triton/cache/"].iter().any(|folder| file.contains(folder));
    !(file.is_empty() || is_installed || is_generated || is_standard(file))
}

/// Whether a file is in the standard library: below a folder `lib/python3.11`, or in `python311.zip`.
fn is_standard(file: &str) -> bool {
    let version = |name: &str, end: &str| {
        let number = name.strip_prefix("python").and_then(|rest| rest.strip_suffix(end));
        number.is_some_and(|number| {
            number.starts_with('3') && number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
        })
    };
    let mut folders = file.split('/');
    let mut before = folders.next().unwrap_or_default();
    for folder in folders {
        if version(folder, ".zip") || (before.starts_with("lib") && version(folder, "")) {
            return true;
        }
        before = folder;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn the_users_files_are_told_from_all_others() {
        for own in [
            "train.py",
            "/home/ann/train.py",
            "/work/lib/python_tools/a.py",
            "/srv/python3/app.py",
            "<string>",
            "<stdin>",
            "<ipython-input-3-abc>",
            "/tmp/ipykernel_12/345.py",
        ] {
            assert!(is_users(own), "{own}");
        }
        for other in [
            "",
            "/usr/lib/python3/dist-packages/numpy/core.py",
            "/home/ann/.venv/lib/python3.12/site-packages/torch/nn/modules/module.py",
            "/usr/lib/python3.11/threading.py",
            "/opt/conda/lib/python3.9/runpy.py",
            "/usr/lib64/python3.13/ctypes/__init__.py",
            "/usr/lib/python311.zip/runpy.py",
            "<frozen importlib._bootstrap>",
            "<eval_with_key>.3",
            "/tmp/torchinductor_ann/ab/cab.py",
            "/home/ann/.triton/cache/x/launcher.py",
        ] {
            assert!(!is_users(other), "{other}");
        }
    }

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
        assert_eq!(stacks.user(7).map(Frame::place).as_deref(), Some("train.py:42"));
        assert_eq!(stacks.listed(7).unwrap()[1..], ["train (train.py:42)", "<module> (train.py:99)"]);
        assert_eq!((stacks.user(8), stacks.listed(8).unwrap().len()), (None, 2));
        assert_eq!(stacks.listed(9).unwrap(), ["?", "?"]);
        assert_eq!((stacks.user(1), stacks.listed(0)), (None, None));
    }

    #[test]
    fn a_damaged_frame_is_none() {
        for text in ["", "f", "f\nx.py", "f\nx.py\nmany"] {
            assert_eq!(Frame::parse(text), None, "{text:?}");
        }
    }
}
