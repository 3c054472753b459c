//! Which line of the program made a call? Stacks of an interpreter's frames, each sent once, and the code objects that
//! the frames run.
//!
//! The agent decodes nothing: a frame is a code object and the place in its bytecode, and a code object comes with the
//! table from which the collector finds the line.

use super::{CELL_BYTES, CELL_WORDS, Head, Kind, Record};
use core::mem::{align_of, offset_of, size_of};

/// The number of a [`Stack`] in a record of a call; 0 = none was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Hash)]
#[repr(transparent)]
pub struct StackNumber([u8; 3]);

impl StackNumber {
    /// No stack.
    pub const NONE: StackNumber = StackNumber([0; 3]);
    /// The largest number.
    pub const MAX: u32 = (1 << 24) - 1;

    /// Returns the number for a record; none if it is larger than [`StackNumber::MAX`].
    pub const fn new(number: u32) -> StackNumber {
        match number.to_le_bytes() {
            [low, middle, high, 0] => StackNumber([low, middle, high]),
            _ => StackNumber::NONE,
        }
    }

    /// Returns the number; 0 = none.
    pub const fn get(self) -> u32 {
        let [low, middle, high] = self.0;
        u32::from_le_bytes([low, middle, high, 0])
    }
}

/// A code object. Its texts follow in [`CodePart`]s. An interpreter reuses addresses, and a code object at the address
/// of another has a number of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Code {
    /// The head.
    pub head: Head,
    /// Its number, never 0.
    pub code: u32,
    /// The first line of the function (`co_firstlineno`).
    pub first_line: u32,
    /// The version of CPython, which says how the line table is coded: `major << 8 | minor`.
    pub python: u16,
    /// Zero.
    pub reserved: u16,
    /// The number of bytes of the file's name, of the qualified name, and of the line table.
    pub bytes: [u32; 3],
    /// Zero.
    pub reserved2: [u64; 4],
}

/// A piece of what belongs to a code object; the bytes follow in the record's remaining space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C, align(8))]
pub struct CodePart {
    /// The head; `cells` includes the bytes.
    pub head: Head,
    /// The code object's number.
    pub code: u32,
    /// The place of the first byte in the whole.
    pub offset: u32,
    /// The number of bytes that follow this struct.
    pub length: u16,
    /// A [`CodeText`](super::CodeText).
    pub text: u8,
    /// Zero.
    pub reserved: [u8; 5],
}

/// The number of cells of the longest [`CodePart`], which a hook builds on its thread's stack.
pub const MAX_PART_CELLS: usize = 15;
/// The largest number of bytes in a [`CodePart`].
pub const MAX_PART: usize = MAX_PART_CELLS * CELL_BYTES - size_of::<CodePart>();

impl CodePart {
    /// Writes the record with its bytes, of which there are at most [`MAX_PART`], and returns its words.
    pub fn with_bytes<'b>(
        mut self,
        bytes: &[u8],
        buffer: &'b mut [u64; MAX_PART_CELLS * CELL_WORDS],
    ) -> &'b [u64] {
        let kept = bytes.get(..MAX_PART).unwrap_or(bytes);
        let cells = (size_of::<CodePart>() + kept.len()).div_ceil(CELL_BYTES);
        self.head.cells = cells as u8;
        self.length = kept.len() as u16;
        let words = buffer.get_mut(..cells * CELL_WORDS).unwrap_or_default();
        words.fill(0);
        // SAFETY: the words have room for the struct and the bytes after it, which were cut to fit; integers only.
        unsafe {
            words.as_mut_ptr().cast::<CodePart>().write(self);
            let at = words.as_mut_ptr().cast::<u8>().add(size_of::<CodePart>());
            core::ptr::copy_nonoverlapping(kept.as_ptr(), at, kept.len());
        }
        words
    }

    /// Reads the record and its bytes from the words of a record; they cannot exceed the record.
    pub fn of(words: &[u64]) -> Option<(CodePart, &[u8])> {
        let part = CodePart::from_words(words)?;
        // SAFETY: the slice's own memory, as bytes.
        let bytes = unsafe { core::slice::from_raw_parts(words.as_ptr().cast::<u8>(), size_of_val(words)) };
        let bytes = bytes.get(size_of::<CodePart>()..size_of::<CodePart>() + usize::from(part.length))?;
        Some((part, bytes))
    }
}

/// A stack; its [`Frame`]s follow in the record's remaining space, the innermost first. A native stack has, in their place, the
/// number of the Python stack that the call has besides (0 = none), and return addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C, align(8))]
pub struct Stack {
    /// The head; `cells` includes the frames.
    pub head: Head,
    /// Its number in records of calls, never 0.
    pub stack: u32,
    /// The number of words that follow this struct.
    pub frames: u16,
    /// Non-zero: there were more frames, which were not read.
    pub cut: u8,
    /// Non-zero: a native stack.
    pub native: u8,
}

/// A frame: one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Frame {
    /// The [`Code`]; 0 = one that found no number.
    pub code: u32,
    /// The place in its bytecode, bytes; negative before its first instruction.
    pub instruction: i32,
}

impl Frame {
    const fn word(self) -> u64 {
        self.code as u64 | (self.instruction as u32 as u64) << 32
    }

    const fn of(word: u64) -> Frame {
        Frame { code: word as u32, instruction: (word >> 32) as i32 }
    }
}

/// The largest number of frames of a [`Stack`].
pub const MAX_FRAMES: usize = 126;
/// The number of cells of the longest [`Stack`].
pub const MAX_STACK_CELLS: usize = 16;

impl Stack {
    /// Writes the record with its frames, of which there are at most [`MAX_FRAMES`], and returns its words.
    pub fn with_frames(
        self,
        frames: impl Iterator<Item = Frame>,
        buffer: &mut [u64; MAX_STACK_CELLS * CELL_WORDS],
    ) -> &[u64] {
        self.with_words(frames.map(Frame::word), buffer)
    }

    /// Writes the record of a native stack with its return addresses, of which there are at most [`MAX_FRAMES`] - 1, and returns
    /// its words.
    pub fn with_addresses(
        self,
        python: StackNumber,
        addresses: impl Iterator<Item = u64>,
        buffer: &mut [u64; MAX_STACK_CELLS * CELL_WORDS],
    ) -> &[u64] {
        self.with_words(core::iter::once(u64::from(python.get())).chain(addresses), buffer)
    }

    fn with_words(
        mut self,
        all: impl Iterator<Item = u64>,
        buffer: &mut [u64; MAX_STACK_CELLS * CELL_WORDS],
    ) -> &[u64] {
        let (front, places) = buffer.split_at_mut(size_of::<Stack>() / 8);
        places.fill(0);
        let mut count = 0;
        for (place, word) in places.iter_mut().zip(all) {
            *place = word;
            count += 1;
        }
        let words = size_of::<Stack>() / 8 + count;
        self.head.cells = words.div_ceil(CELL_WORDS) as u8;
        self.frames = count as u16;
        front.copy_from_slice(self.as_words());
        buffer.get(..words.div_ceil(CELL_WORDS) * CELL_WORDS).unwrap_or_default()
    }

    /// Reads the record and its frames from the words of a record; the frames cannot exceed the record.
    pub fn of(words: &[u64]) -> Option<(Stack, impl Iterator<Item = Frame> + '_)> {
        let (stack, words) = Stack::words_of(words)?;
        Some((stack, words.iter().map(|word| Frame::of(*word))))
    }

    /// Reads a native stack: the number of the Python stack, and the return addresses. `None`: it is not one.
    pub fn addresses_of(words: &[u64]) -> Option<(Stack, StackNumber, &[u64])> {
        let (stack, words) = Stack::words_of(words)?;
        let (python, addresses) = words.split_first().filter(|_| stack.native != 0)?;
        Some((stack, StackNumber::new(u32::try_from(*python).ok()?), addresses))
    }

    fn words_of(words: &[u64]) -> Option<(Stack, &[u64])> {
        let stack = Stack::from_words(words)?;
        let first = size_of::<Stack>() / 8;
        Some((stack, words.get(first..first + usize::from(stack.frames))?))
    }
}

records! {
    Code = Code, 64;
}

// SAFETY: repr(C), integers only, no padding (asserted below), alignment 8.
unsafe impl Record for CodePart {
    const KIND: Kind = Kind::CodePart;
}

// SAFETY: as above.
unsafe impl Record for Stack {
    const KIND: Kind = Kind::Stack;
}

const _: () = {
    assert!(size_of::<StackNumber>() == 3);
    assert!(size_of::<CodePart>() == 24 && offset_of!(CodePart, text) == 18);
    assert!(size_of::<Stack>() == 16 && offset_of!(Stack, frames) == 12);
    assert!(size_of::<Stack>() / 8 + MAX_FRAMES == MAX_STACK_CELLS * CELL_WORDS);
    assert!(MAX_PART_CELLS <= super::MAX_CELLS && MAX_STACK_CELLS <= super::MAX_CELLS);
};

#[cfg(test)]
mod tests {
    use super::super::CodeText;
    use super::*;

    #[test]
    fn a_number_beyond_three_bytes_is_none() {
        for number in [0, 1, 0x1234, StackNumber::MAX] {
            assert_eq!(StackNumber::new(number).get(), number);
        }
        assert_eq!(StackNumber::new(StackNumber::MAX + 1), StackNumber::NONE);
    }

    #[test]
    fn frames_come_back_as_they_were_written() {
        for count in [0, 1, 6, 7, MAX_FRAMES] {
            let frames = || (0..count).map(|n| Frame { code: n as u32, instruction: n as i32 * 2 - 1 });
            let mut buffer = [7; MAX_STACK_CELLS * CELL_WORDS];
            let stack = Stack { head: Head::new::<Stack>(), stack: 5, ..Stack::default() };
            let words = stack.with_frames(frames(), &mut buffer);
            let (read, found) = Stack::of(words).unwrap();
            assert_eq!((read.stack, usize::from(read.frames)), (5, count));
            assert!(found.eq(frames()));
            assert_eq!(words.len(), usize::from(read.head.cells) * CELL_WORDS);
        }
    }

    #[test]
    fn more_frames_than_the_record_has_are_rejected() {
        let mut words = [0; CELL_WORDS];
        let stack = Stack { head: Head::new::<Stack>(), stack: 1, frames: 7, ..Stack::default() };
        words[..2].copy_from_slice(stack.as_words());
        assert!(Stack::of(&words).is_none());
    }

    #[test]
    fn bytes_of_a_code_object_come_back_as_they_were_written() {
        let bytes: [u8; MAX_PART + 9] = core::array::from_fn(|n| n as u8);
        for length in [0, 1, 40, 41, MAX_PART, MAX_PART + 9] {
            let part = CodePart {
                head: Head::new::<CodePart>(),
                code: 3,
                offset: 9,
                text: CodeText::LineTable as u8,
                ..CodePart::default()
            };
            let mut buffer = [7; MAX_PART_CELLS * CELL_WORDS];
            let words = part.with_bytes(&bytes[..length], &mut buffer);
            let (read, found) = CodePart::of(words).unwrap();
            assert_eq!((read.code, read.offset, found), (3, 9, &bytes[..length.min(MAX_PART)]));
            assert_eq!(words.len(), usize::from(read.head.cells) * CELL_WORDS);
        }
    }
}
