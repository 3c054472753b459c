//! What is a stack, in words? Puts the pieces of code objects together, and turns the places in their bytecode into lines.
//!
//! A stack may arrive before the code objects that it names, because another thread's ring had them: it waits. What
//! arrives is a hostile process's: the number of stacks and frames is bounded, and so is what is kept of code objects.

use super::line_table::line;
use crate::hash::HashMap;
use gpuspy_wire::record::{Code, CodePart, CodeText, Frame, Namespace, Stack};
use std::fmt::Write;

/// Limit on what is kept of all code objects, bytes. An import of PyTorch leaves the code objects that call CUDA with a few
/// hundred KB.
const MOST_BYTES: usize = 64 << 20;
/// Limits on the code objects, the frames and the stacks of a session; the agent has fewer of each.
const MOST: usize = 1 << 18;
/// Limit on the stacks that wait. The rings are drained in turns, so what a stack waits for is at most one turn away.
const MOST_WAITING: usize = 4096;

/// What a trace has to name.
pub type Named = (Namespace, u32, String);

/// The code objects and stacks of a session.
#[derive(Debug, Default)]
pub struct Stacks {
    codes: HashMap<u32, Known>,
    /// The number of each frame that was named: by code object and line.
    frames: HashMap<(u32, u32), u32>,
    /// Stacks with code objects that are not whole yet.
    waiting: Vec<Waiting>,
    /// How many stacks were named.
    named: usize,
    bytes: usize,
}

/// What has arrived of a code object.
#[derive(Debug)]
struct Known {
    code: Code,
    /// Its file, its name and its line table.
    texts: [Vec<u8>; 3],
}

impl Known {
    fn bytes(&self) -> usize {
        self.texts.iter().map(Vec::len).sum()
    }

    fn is_whole(&self) -> bool {
        self.texts.iter().zip(self.code.bytes).all(|(text, bytes)| text.len() == bytes as usize)
    }
}

#[derive(Debug)]
struct Waiting {
    stack: Stack,
    frames: Vec<Frame>,
}

impl Stacks {
    /// Takes a code object. One that is there already is the same, sent twice.
    pub fn code(&mut self, code: Code) {
        let known = self.codes.get(&code.code);
        if known.is_some_and(Known::is_whole) || (known.is_none() && self.codes.len() >= MOST) {
            return;
        }
        self.bytes -= known.map_or(0, Known::bytes);
        self.codes.insert(code.code, Known { code, texts: Default::default() });
    }

    /// Takes a piece of a code object.
    pub fn part(&mut self, part: CodePart, bytes: &[u8]) {
        let Some(text) = CodeText::from_wire(part.text) else { return };
        let Some(known) = self.codes.get_mut(&part.code) else { return };
        let place = text as usize - CodeText::File as usize;
        let (text, whole) = (&mut known.texts[place], known.code.bytes[place] as usize);
        let fits = text.len() + bytes.len() <= whole && self.bytes + bytes.len() <= MOST_BYTES;
        if text.len() == part.offset as usize && fits {
            text.extend_from_slice(bytes);
            self.bytes += bytes.len();
        }
    }

    /// Takes a stack, and returns what there is to name of it and of its frames, unless it has to wait.
    pub fn stack(&mut self, stack: Stack, frames: Vec<Frame>) -> Vec<Named> {
        let waiting = Waiting { stack, frames };
        if self.is_known(&waiting) || self.waiting.len() >= MOST_WAITING {
            return self.name(&waiting);
        }
        self.waiting.push(waiting);
        Vec::new()
    }

    /// Returns what there is to name of the stacks that need not wait any longer.
    pub fn settle(&mut self) -> Vec<Named> {
        let (known, waiting) =
            std::mem::take(&mut self.waiting).into_iter().partition(|waiting| self.is_known(waiting));
        self.waiting = waiting;
        self.name_all(known)
    }

    /// Returns what there is to name of the stacks that still wait. Frames whose code object never arrived have no line.
    pub fn finish(&mut self) -> Vec<Named> {
        let rest = std::mem::take(&mut self.waiting);
        self.name_all(rest)
    }

    fn is_known(&self, waiting: &Waiting) -> bool {
        let is_whole = |code: u32| code == 0 || self.codes.get(&code).is_some_and(Known::is_whole);
        waiting.frames.iter().all(|frame| is_whole(frame.code))
    }

    fn name_all(&mut self, stacks: Vec<Waiting>) -> Vec<Named> {
        stacks.iter().flat_map(|stack| self.name(stack)).collect()
    }

    fn name(&mut self, waiting: &Waiting) -> Vec<Named> {
        let mut named = Vec::new();
        if self.named >= MOST {
            return named;
        }
        self.named += 1;
        let mut text = String::new();
        for frame in &waiting.frames {
            let number = self.frame(frame, &mut named);
            let _always = write!(text, "{}{number}", if text.is_empty() { "" } else { " " });
        }
        if waiting.stack.cut != 0 {
            text.push_str(" …");
        }
        named.push((Namespace::Stack, waiting.stack.stack, text));
        named
    }

    /// Returns a frame's number, and names the frame if it is new. 0: there are too many, or nothing is known of it.
    fn frame(&mut self, frame: &Frame, named: &mut Vec<Named>) -> u32 {
        let Some(known) = self.codes.get(&frame.code) else { return 0 };
        let Known { code, texts: [file, name, table] } = known;
        let first_line = code.first_line;
        let line = line(code.python, table, first_line, frame.instruction).unwrap_or(0);
        if let Some(&number) = self.frames.get(&(frame.code, line)) {
            return number;
        }
        if self.frames.len() >= MOST {
            return 0;
        }
        let number = self.frames.len() as u32 + 1;
        self.frames.insert((frame.code, line), number);
        // Between the lines is the library of native functions.
        let frame = format!("{}\n{}\n{line}\n\n{first_line}", text(name), text(file));
        named.push((Namespace::Frame, number, frame));
        number
    }
}

/// A text on one line.
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).replace(['\n', '\r'], " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(number: u32, file: &str, name: &str, table: &[u8]) -> (Code, [(CodePart, Vec<u8>); 3]) {
        let bytes = [file.as_bytes(), name.as_bytes(), table];
        let code = Code {
            code: number,
            first_line: 10,
            python: 0x030a,
            bytes: bytes.map(|bytes| bytes.len() as u32),
            ..Code::default()
        };
        let part = |text: CodeText, bytes: &[u8]| {
            (CodePart { code: number, text: text as u8, ..CodePart::default() }, bytes.to_vec())
        };
        let parts = [
            part(CodeText::File, bytes[0]),
            part(CodeText::Name, bytes[1]),
            part(CodeText::LineTable, bytes[2]),
        ];
        (code, parts)
    }

    fn take(stacks: &mut Stacks, (code, parts): &(Code, [(CodePart, Vec<u8>); 3])) {
        stacks.code(*code);
        for (part, bytes) in parts {
            stacks.part(*part, bytes);
        }
    }

    fn stack(number: u32) -> Stack {
        Stack { stack: number, ..Stack::default() }
    }

    fn at(code: u32, instruction: i32) -> Frame {
        Frame { code, instruction }
    }

    #[test]
    fn a_frame_is_named_once_for_each_of_its_lines() {
        let mut stacks = Stacks::default();
        take(&mut stacks, &code(4, "train.py", "step", &[4, 1, 4, 1]));
        let first = stacks.stack(stack(1), vec![at(4, 0), at(4, 6)]);
        assert_eq!(
            first,
            [
                (Namespace::Frame, 1, "step\ntrain.py\n11\n\n10".to_owned()),
                (Namespace::Frame, 2, "step\ntrain.py\n12\n\n10".to_owned()),
                (Namespace::Stack, 1, "1 2".to_owned()),
            ]
        );
        let second = stacks.stack(Stack { cut: 1, ..stack(2) }, vec![at(4, 2)]);
        assert_eq!(second, [(Namespace::Stack, 2, "1 …".to_owned())]);
    }

    #[test]
    fn a_stack_waits_for_code_that_comes_by_another_ring() {
        let mut stacks = Stacks::default();
        assert_eq!(stacks.stack(stack(1), vec![at(4, 0)]), []);
        assert_eq!(stacks.settle(), []);
        take(&mut stacks, &code(4, "train.py", "step", &[4, 1]));
        let named = stacks.settle();
        assert_eq!(named.last(), Some(&(Namespace::Stack, 1, "1".to_owned())));
        assert_eq!(stacks.finish(), []);
    }

    #[test]
    fn a_stack_whose_code_never_came_has_no_lines() {
        let mut stacks = Stacks::default();
        assert_eq!(stacks.stack(stack(1), vec![at(0, 4), at(9, 0)]), []);
        assert_eq!(stacks.finish(), [(Namespace::Stack, 1, "0 0".to_owned())]);
    }

    #[test]
    fn a_code_object_that_is_sent_by_two_threads_is_put_together_once() {
        let mut stacks = Stacks::default();
        let (code, parts) = code(4, "train.py", "step", &[4, 1]);
        stacks.code(code);
        stacks.part(parts[0].0, &parts[0].1);
        // The other thread's comes in between, and its ring is full after the first piece.
        stacks.code(code);
        stacks.part(parts[0].0, &parts[0].1);
        stacks.part(parts[1].0, &parts[1].1);
        stacks.part(parts[2].0, &parts[2].1);
        stacks.code(code);
        let named = stacks.stack(stack(1), vec![at(4, 0)]);
        assert_eq!(named[0].2, "step\ntrain.py\n11\n\n10");
    }

    #[test]
    fn a_code_object_that_is_sent_again_counts_once() {
        let mut stacks = Stacks::default();
        let (code, parts) = code(4, "train.py", "step", &[4, 1]);
        for _ in 0..3 {
            stacks.code(code);
            stacks.part(parts[0].0, &parts[0].1);
        }
        assert_eq!(stacks.bytes, "train.py".len());
    }

    #[test]
    fn only_so_many_stacks_wait_and_others_are_named_at_once() {
        let mut stacks = Stacks::default();
        for number in 1..=MOST_WAITING as u32 {
            assert_eq!(stacks.stack(stack(number), vec![at(4, 0)]), []);
        }
        let more = MOST_WAITING as u32 + 1;
        assert_eq!(stacks.stack(stack(more), vec![at(4, 0)]), [(Namespace::Stack, more, "0".to_owned())]);
        assert_eq!(stacks.finish().len(), MOST_WAITING);
    }

    #[test]
    fn pieces_beyond_what_was_announced_are_not_kept() {
        let mut stacks = Stacks::default();
        let (code, parts) = code(4, "train.py", "step", &[4, 1]);
        stacks.code(code);
        stacks.part(parts[0].0, b"a much longer name of a file");
        stacks.part(CodePart { offset: 7, ..parts[1].0 }, b"step");
        stacks.part(CodePart { text: 9, ..parts[1].0 }, b"step");
        assert_eq!(stacks.bytes, 0);
    }
}
