//! How are the functions of Python shown that called CUDA? As in Kineto, each is a `python_function` on its thread's row, around the
//! calls that it made: HTA and TraceLens find by that who launched a kernel. When it begins and ends is described in `thread_row`.
//!
//! - Its name is Kineto's: `train.py(12): step`, with the line on which the function begins, and the name without its class. The
//!   arguments have the qualified name and the whole path.
//! - Its `Python id` is unique in the file. The function around it is the one that called it.
//! - Calls of autograd's threads have none: their line is that of another thread.
//! - What is not known is left out: native functions, and those behind the program's own of launches whose whole stack was not read.

use super::Pass;
use crate::export::timeline::sink::{Arg, Category, Key, Row, Sink, Slice};
use crate::export::timeline::thread_row::{Chain, Drawn};
use crate::hash::{HashMap, HashSet};
use crate::model::backward;
use crate::model::stacks::{Frame, Stacks};
use crate::trace::record::{Call, Names};
use std::io;
use std::rc::Rc;

/// A function: its file, its qualified name, and the line on which it begins.
type Function = (String, String, u32);

/// The functions of a process.
pub(super) struct Functions<S: Sink> {
    /// Whether they are shown.
    is_shown: bool,
    /// Autograd's threads.
    without: HashSet<u32>,
    /// By the number of a stack: its functions.
    chains: HashMap<u32, Rc<Chain>>,
    numbers: HashMap<Function, u32>,
    /// By a function's number: its name and its arguments.
    shown: Vec<(S::Name, S::Args)>,
    /// The functions of calls that have none.
    none: Rc<Chain>,
}

impl<S: Sink> Functions<S> {
    pub(super) fn of(names: &Names, is_shown: bool) -> Functions<S> {
        Functions {
            is_shown,
            without: backward::threads(names),
            chains: HashMap::default(),
            numbers: HashMap::default(),
            shown: Vec::new(),
            none: Rc::default(),
        }
    }

    /// The functions on the stack of a thread's call.
    pub(super) fn chain(&mut self, thread: u32, call: &Call, stacks: &Stacks, sink: &mut S) -> Rc<Chain> {
        if !self.is_shown || call.stack == 0 || self.without.contains(&thread) {
            return Rc::clone(&self.none);
        }
        if let Some(known) = self.chains.get(&call.stack) {
            return Rc::clone(known);
        }
        let (frames, is_cut) = stacks.frames(call.stack).unwrap_or_default();
        let python = frames.into_iter().rev().flatten().filter(|frame| frame.is_python());
        let functions = python.map(|frame| self.number(frame, sink)).collect();
        let chain = Rc::new(Chain { functions, is_cut });
        Rc::clone(self.chains.entry(call.stack).or_insert(chain))
    }

    fn number(&mut self, frame: &Frame, sink: &mut S) -> u32 {
        let function = (frame.file.clone(), frame.function.clone(), frame.first_line);
        if let Some(known) = self.numbers.get(&function) {
            return *known;
        }
        let (number, last) = (self.shown.len() as u32, frame.function.rsplit('.').next());
        let line = if frame.first_line == 0 { String::new() } else { format!("({})", frame.first_line) };
        let name = format!("{}{line}: {}", frame.short_file(), last.unwrap_or_default());
        let args = [Arg::of(Key::Function, frame.function.as_str()), Arg::of(Key::File, frame.file.as_str())];
        self.shown.push((sink.name(&name), sink.args(&args)));
        self.numbers.insert(function, number);
        number
    }
}

impl<S: Sink> Pass<'_, '_, S> {
    /// Writes the functions that have ended on a thread's row.
    pub(super) fn ended_functions(&mut self, thread: u32) -> io::Result<()> {
        let ended = self.threads.get_mut(&thread).map(|row| row.take_ended()).unwrap_or_default();
        let row = Row { pid: self.rows().pid, tid: self.rows().tid(thread) };
        for Drawn { function, span } in ended {
            let Some((name, more)) = self.functions.shown.get(function as usize) else { continue };
            self.export.summary.functions += 1;
            let args = &[Arg::of(Key::PythonId, self.export.summary.functions)];
            let (category, more, arrow, inside) = (Category::Python, Some(more), None, None);
            self.export.sink.slice(&Slice { category, name, row, span, args, more, arrow, inside })?;
        }
        Ok(())
    }

    /// Ends all functions and writes them.
    pub(super) fn last_functions(&mut self) -> io::Result<()> {
        let mut threads: Vec<u32> = self.threads.keys().copied().collect();
        threads.sort_unstable();
        for thread in threads {
            self.threads.entry(thread).or_default().finish();
            self.ended_functions(thread)?;
        }
        Ok(())
    }
}
