//! Which line of a PyTorch program waits for the calls that autograd's threads make?
//!
//! The backward pass runs in threads of autograd, which have no frames of Python. Meanwhile the thread that called
//! `loss.backward()` waits, and the last call that it made, for the gradient of the loss, has its frames. So a call of
//! autograd's threads has the line of the only thread that is in the backward pass then. Where PyTorch's ranges say which
//! [operator of the forward pass](super::forward) a call computes the gradient of, it has the line of that operator instead.
//! Either is **inferred**: the function of that line says `(backward)`. With several threads in the pass, or none that was
//! seen to enter it, the line is not known.

use super::forward::Forward;
use super::native_stacks::NativeStack;
use super::stacks::{Frame, Stacks};
use crate::hash::{HashMap, HashSet};
use crate::trace::record::{Body, Names, Record};
use gpuspy_wire::record::Namespace;

/// How PyTorch names these threads, before the number of the GPU (`Engine::thread_init`, torch/csrc/autograd/engine.cpp).
const THREAD: &str = "pt_autograd_";
/// The file of the functions that enter the backward pass (PyTorch 2.7.1).
const FILE: &str = "/torch/autograd/__init__.py";
/// Those functions.
const ENTRIES: [&str; 2] = ["backward", "grad"];

/// Who waits for a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Behind {
    /// Nobody: the call is not of autograd's threads.
    #[default]
    Nobody,
    /// It is not known who.
    Unknown,
    /// The thread whose last call has the stack with this number.
    Stack(u32),
    /// The call computes the gradient of an operator that was called with this stack of Python.
    Forward(u32),
}

/// The threads that are in the backward pass, as the calls of a trace show it.
#[derive(Clone, Debug, Default)]
pub struct Backward {
    /// Autograd's threads.
    threads: HashSet<u32>,
    /// The stacks that lead through an entry of the backward pass: the stack of Python, and how many of its innermost frames are
    /// inside of the pass.
    entries: HashMap<u32, (u32, usize)>,
    /// The stacks of Python in the native ones.
    pythons: HashMap<u32, u32>,
    /// The threads in the pass, with the stack of the last call of each.
    inside: HashMap<u32, u32>,
    forward: Forward,
}

impl Backward {
    /// Reads from a trace's names which threads and stacks are meant.
    pub fn of(names: &Names, stacks: &Stacks) -> Backward {
        let of = |space| names.0.range((space, 0)..=(space, u32::MAX)).map(|((_, id), text)| (*id, text));
        let threads = threads(names);
        if threads.is_empty() {
            return Backward::default();
        }
        let entry = |stack: u32| {
            let (frames, _) = stacks.frames(stack)?;
            frames.iter().position(|frame| frame.is_some_and(is_entry))
        };
        let own = of(Namespace::Stack).map(|(stack, _)| (stack, stack));
        let pythons: HashMap<u32, u32> =
            NativeStack::all(names).into_iter().map(|(stack, native)| (stack, native.python)).collect();
        let all = own.chain(pythons.iter().map(|(stack, python)| (*stack, *python)));
        let entries = all.filter_map(|(stack, python)| Some((stack, (python, entry(python)?)))).collect();
        Backward { threads, entries, pythons, inside: HashMap::default(), forward: Forward::of(names) }
    }

    /// Returns it as it is before the first record.
    pub fn again(&self) -> Backward {
        Backward { inside: HashMap::default(), forward: self.forward.again(), ..self.clone() }
    }

    /// Takes the next record, and returns who waits for its call.
    pub fn observe(&mut self, record: &Record) -> Behind {
        if self.threads.is_empty() {
            return Behind::Nobody;
        }
        if let Body::NvtxRange(range) = &record.body {
            self.forward.range(record.thread, range);
        }
        let Some(call) = record.body.call() else { return Behind::Nobody };
        if self.threads.contains(&record.thread) {
            return self.waiting(record.thread);
        }
        match self.entries.get(&call.stack) {
            Some((python, _)) => self.inside.insert(record.thread, *python),
            None => self.inside.remove(&record.thread),
        };
        let python = self.pythons.get(&call.stack).copied().unwrap_or(call.stack);
        if python != 0 {
            self.forward.call(record.thread, python);
        }
        Behind::Nobody
    }

    /// Returns who waits for a call that a thread of autograd's makes.
    fn waiting(&self, thread: u32) -> Behind {
        let mut inside = self.inside.iter();
        let waiting = inside.next().filter(|_| inside.next().is_none());
        match (self.forward.stack(thread, waiting.map(|(thread, _)| *thread)), waiting) {
            (Some(stack), _) => Behind::Forward(stack),
            (None, Some((_, stack))) => Behind::Stack(*stack),
            (None, None) => Behind::Unknown,
        }
    }

    /// Returns the frames of who waits for a call of autograd's threads, the line of the program's own marked: of a stack in
    /// the backward pass those from its entry outwards, of one in the forward pass all.
    pub fn frames(&self, behind: Behind, stacks: &Stacks) -> Vec<Frame> {
        let (stack, inside) = match behind {
            Behind::Nobody => return Vec::new(),
            Behind::Unknown => return vec![unknown()],
            Behind::Stack(stack) => (stack, self.entries.get(&stack).map_or(0, |(_, inside)| *inside)),
            Behind::Forward(stack) => (stack, 0),
        };
        let frames = stacks.frames(stack).map(|(frames, _)| frames).unwrap_or_default();
        let mut frames: Vec<Frame> = frames.into_iter().skip(inside).flatten().cloned().collect();
        if let Some(own) = frames.iter_mut().find(|frame| frame.is_users()) {
            own.function.push_str(" (backward)");
        }
        frames
    }
}

/// Returns autograd's threads.
pub fn threads(names: &Names) -> HashSet<u32> {
    let named = names.0.range((Namespace::Thread, 0)..=(Namespace::Thread, u32::MAX));
    named.filter(|(_, name)| name.starts_with(THREAD)).map(|((_, thread), _)| *thread).collect()
}

/// What stands in place of a library in the frame of a call of autograd's threads if nobody is known to wait for it.
const LIBRARY: &str = "autograd's thread";

/// Returns that frame.
fn unknown() -> Frame {
    let library = LIBRARY.to_owned();
    Frame { function: "backward".to_owned(), file: library.clone(), library, ..Frame::default() }
}

impl Frame {
    /// Whether it is [`unknown`].
    pub(super) fn is_of_autograd(&self) -> bool {
        self.library == LIBRARY
    }
}

fn is_entry(frame: &Frame) -> bool {
    frame.file.ends_with(FILE) && ENTRIES.contains(&frame.function.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::record::{Body, Call, Synchronize};
    use gpuspy_wire::record::SyncScope;

    const MAIN: u32 = 1;
    const OTHER: u32 = 2;
    const AUTOGRAD: u32 = 3;
    const LOSS: u32 = 7;
    const FORWARD: u32 = 8;

    fn names() -> Names {
        let file = "/x/lib/python3.11/site-packages/torch/autograd/__init__.py";
        let text = |space, id, text: &str| ((space, id), text.to_owned());
        Names(
            [
                text(Namespace::Thread, MAIN, "python"),
                text(Namespace::Thread, AUTOGRAD, "pt_autograd_0"),
                text(Namespace::Frame, 1, &format!("_make_grads\n{file}\n90")),
                text(Namespace::Frame, 2, &format!("backward\n{file}\n340")),
                text(
                    Namespace::Frame,
                    3,
                    "Tensor.backward\n/x/lib/python3.11/site-packages/torch/_tensor.py\n600",
                ),
                text(Namespace::Frame, 4, "train\ntrain.py\n42"),
                text(Namespace::Stack, LOSS, "1 2 3 4"),
                text(Namespace::Stack, FORWARD, "4"),
            ]
            .into(),
        )
    }

    fn call(thread: u32, stack: u32) -> Record {
        let call = Call { stack, ..Call::default() };
        let sync = Synchronize { call, scope: SyncScope::Device, stream: 0, event: 0 };
        Record { thread, at: 0, body: Body::Synchronize(sync) }
    }

    fn behind(calls: &[(u32, u32)]) -> Vec<Behind> {
        let names = names();
        let mut backward = Backward::of(&names, &Stacks::of(&names));
        calls.iter().map(|(thread, stack)| backward.observe(&call(*thread, *stack))).collect()
    }

    #[test]
    fn the_thread_that_entered_the_pass_waits_for_autograds_calls_until_its_next_call() {
        let calls =
            [(AUTOGRAD, 0), (MAIN, LOSS), (AUTOGRAD, 0), (AUTOGRAD, 0), (MAIN, FORWARD), (AUTOGRAD, 0)];
        let (nobody, unknown, waits) = (Behind::Nobody, Behind::Unknown, Behind::Stack(LOSS));
        assert_eq!(behind(&calls), [unknown, nobody, waits, waits, nobody, unknown]);
    }

    #[test]
    fn of_two_threads_in_the_pass_nobody_knows_which_one_waits() {
        let calls = [(MAIN, LOSS), (OTHER, LOSS), (AUTOGRAD, 0), (OTHER, FORWARD), (AUTOGRAD, 0)];
        assert_eq!(behind(&calls)[2], Behind::Unknown);
        assert_eq!(behind(&calls)[4], Behind::Stack(LOSS));
    }

    #[test]
    fn the_line_that_waits_is_marked_and_what_computed_the_gradient_is_left_out() {
        let names = names();
        let stacks = Stacks::of(&names);
        let backward = Backward::of(&names, &stacks);
        let frames = backward.frames(Behind::Stack(LOSS), &stacks);
        let functions: Vec<&str> = frames.iter().map(|frame| frame.function.as_str()).collect();
        assert_eq!(functions, ["backward", "Tensor.backward", "train (backward)"]);
        assert_eq!(frames[2].place(), "train.py:42");
        let of_forward = backward.frames(Behind::Forward(FORWARD), &stacks);
        assert_eq!((of_forward[0].function.as_str(), of_forward.len()), ("train (backward)", 1));
        let of_unknown = backward.frames(Behind::Unknown, &stacks);
        assert_eq!(of_unknown[0].place(), "backward in autograd's thread");
    }

    #[test]
    fn a_program_without_such_threads_costs_nothing() {
        let mut names = names();
        names.0.retain(|(space, _), _| *space != Namespace::Thread);
        let mut backward = Backward::of(&names, &Stacks::of(&names));
        assert_eq!(backward.observe(&call(MAIN, LOSS)), Behind::Nobody);
        assert!(backward.entries.is_empty() && backward.inside.is_empty());
    }
}
