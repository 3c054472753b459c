//! How is a frame's caller found? What `.eh_frame` says of a return address (System V ABI for x86-64, section 3.7; DWARF for the
//! Arm 64-bit Architecture; DWARF 5, section 6.4; Linux Standard Base 5, "Exception Frames"), as far as compilers' functions need
//! it: a frame that begins at a distance from the stack pointer or the frame pointer, and where the caller's frame pointer and
//! the return address were saved.
//!
//! All is read by checked reads, which nothing can make fault, and only once for each return address.

use core::sync::atomic::{AtomicU64, Ordering};

use crate::loader::libraries;
use crate::memory::{checked_int, checked_word, copy};

/// The rule of a return address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rule {
    /// Whether the frame's top is found by the frame pointer; else by the stack pointer.
    pub is_by_frame: bool,
    /// The distance from there to the top, bytes.
    pub top: i64,
    /// Where the caller's frame pointer was saved, from the top, bytes; `None`: it is still in its register.
    pub frame: Option<i64>,
    /// Where the return address is, from the top, bytes. On x86-64 it is -8, where the call has put it; on Arm, where the function has
    /// saved it: behind the caller's frame pointer, if it saves both (AAPCS64, "The Frame Pointer").
    pub back: i64,
}

/// Returns what a word has of the places of the caller's frame pointer and of the return address: one of both says where the other
/// is. `None`: it does not.
fn place_of(frame: Option<i64>, back: i64) -> Option<i64> {
    if cfg!(target_arch = "aarch64") {
        frame.is_none_or(|frame| frame.checked_add(8) == Some(back)).then_some(back)
    } else {
        (back == -8).then_some(frame.unwrap_or(0))
    }
}

/// Returns both places again.
#[inline(always)]
fn places_of(place: i64, has_frame: bool) -> (Option<i64>, i64) {
    if cfg!(target_arch = "aarch64") {
        (has_frame.then_some(place - 8), place)
    } else {
        (has_frame.then_some(place), -8)
    }
}

/// A rule as one word: 0 = not looked up yet. Relaxed: a word says all.
pub struct Stored(AtomicU64);

// The lowest 32 bits are the distance to the top, and those above it a place, both signed.
const TOP_BITS: u32 = 32;
const PLACE_BITS: u32 = 28;
const KNOWN: u64 = 1 << 63;
const NONE: u64 = 1 << 62;
const BY_FRAME: u64 = 1 << 61;
const SAVED: u64 = 1 << 60;

impl Stored {
    /// Returns the rule, if there is one that was looked up.
    #[inline(always)]
    pub fn rule(&self) -> Option<Rule> {
        let word = self.0.load(Ordering::Relaxed);
        let place = ((word << (64 - TOP_BITS - PLACE_BITS)) as i64) >> (64 - PLACE_BITS);
        let (frame, back) = places_of(place, word & SAVED != 0);
        let rule = Rule { is_by_frame: word & BY_FRAME != 0, top: i64::from(word as i32), frame, back };
        (word & KNOWN != 0).then_some(rule)
    }

    /// Whether it was looked up, and there is none.
    pub fn is_none(&self) -> bool {
        self.0.load(Ordering::Relaxed) & NONE != 0
    }

    /// Keeps what was found.
    pub fn put(&self, rule: Option<Rule>) {
        let word = rule.and_then(word_of).unwrap_or(NONE);
        self.0.store(word, Ordering::Relaxed);
    }

    /// Forgets it.
    pub fn forget(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

/// Returns a rule as a word. `None`: its distances are too large for it.
fn word_of(rule: Rule) -> Option<u64> {
    let by = if rule.is_by_frame { BY_FRAME } else { 0 };
    let saved = if rule.frame.is_some() { SAVED } else { 0 };
    let (limit, place) = (1i64 << (PLACE_BITS - 1), place_of(rule.frame, rule.back)?);
    let place = (-limit..limit).contains(&place).then_some(place as u64 & ((1 << PLACE_BITS) - 1))?;
    Some(KNOWN | by | saved | place << TOP_BITS | u64::from(i32::try_from(rule.top).ok()?.cast_unsigned()))
}

/// Returns the rule of a return address; `None` where its file says nothing, or something that no compiler's function needs.
pub fn of(address: u64) -> Option<Rule> {
    // The call is the last instruction before it, and may be the last of its function.
    let address = address.checked_sub(1)?;
    let index = libraries::search(|loaded| {
        if !loaded.holds(address) {
            return None;
        }
        let header = loaded.headers().iter().find(|header| header.p_type == libc::PT_GNU_EH_FRAME);
        Some(header.map(|header| loaded.base().wrapping_add(header.p_vaddr)))
    })??;
    let description = find(index, address)?;
    Description::read(description)?.rule(address)
}

// Linux Standard Base 5, 10.5.1: how pointers are coded.
const RELATIVE_I32: u8 = 0x1b;
const U32: u8 = 0x03;
const RELATIVE_TO_INDEX_I32: u8 = 0x3b;

/// Finds the description of the function around an address in `.eh_frame_hdr`: a sorted table of functions.
fn find(index: u64, address: u64) -> Option<u64> {
    let mut front = [0; 4];
    if !copy(index, &mut front) || front != [1, RELATIVE_I32, U32, RELATIVE_TO_INDEX_I32] {
        return None;
    }
    let entry = |at: u32| {
        let word = checked_word(index.checked_add(12 + 8 * u64::from(at))?)?;
        let place = |half: u64| index.checked_add_signed(i64::from(half as u32 as i32));
        Some((place(word)?, place(word >> 32)?))
    };
    // The first that begins after the address.
    let (mut low, mut high) = (0, checked_int(index.checked_add(8)?)? as u32);
    while low < high {
        let middle = low + (high - low) / 2;
        if entry(middle)?.0 <= address {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    Some(entry(low.checked_sub(1)?)?.1)
}

/// The longest record that is read, bytes. Those of large functions have some hundreds.
const LONGEST: usize = 2048;

/// A record of `.eh_frame`, without its length.
struct Part {
    bytes: [u8; LONGEST],
    length: usize,
    /// The address of its first byte.
    start: u64,
}

impl Part {
    fn read(at: u64) -> Option<Part> {
        let length = checked_int(at)? as u32 as usize;
        let mut part = Part { bytes: [0; LONGEST], length, start: at.checked_add(4)? };
        let bytes = part.bytes.get_mut(..part.length)?;
        (length != 0 && copy(part.start, bytes)).then_some(part)
    }

    fn cursor(&self, at: usize) -> Option<Cursor<'_>> {
        self.bytes.get(at..self.length).map(Cursor)
    }
}

/// What `.eh_frame` says of a function.
struct Description {
    function: Part,
    common: Part,
    /// Where the instructions begin in each.
    instructions: [usize; 2],
    /// The function's first address, and the first behind it.
    from: u64,
    to: u64,
    code_unit: u64,
    data_unit: i64,
}

impl Description {
    fn read(at: u64) -> Option<Description> {
        let function = Part::read(at)?;
        let back = function.cursor(0)?.u32()?;
        let common = Part::read(function.start.checked_sub(u64::from(back))?)?;
        let mut cursor = common.cursor(0)?;
        let (zero, version) = (cursor.u32()?, cursor.u8()?);
        if zero != 0 || ![1, 3].contains(&version) {
            return None;
        }
        let Letters { text, length } = Letters::read(&mut cursor)?;
        let (code_unit, data_unit) = (cursor.unsigned()?, cursor.signed()?);
        let register = if version == 1 { u64::from(cursor.u8()?) } else { cursor.unsigned()? };
        if register != RETURN_ADDRESS {
            return None;
        }
        let bytes = cursor.unsigned()?;
        let after = cursor.0.len().checked_sub(usize::try_from(bytes).ok()?)?;
        let coded_as = pointers(text.get(1..length)?, &mut cursor)?;
        if coded_as != RELATIVE_I32 {
            return None;
        }
        let of_common = common.length.checked_sub(after)?;
        // The function's part: the distance to the common part, its start, its length, and the length of more.
        let mut cursor = function.cursor(4)?;
        let from = (function.start + 4).checked_add_signed(i64::from(cursor.u32()? as i32))?;
        let to = from.checked_add(u64::from(cursor.u32()?))?;
        let more = usize::try_from(cursor.unsigned()?).ok()?;
        let of_function = (function.length - cursor.0.len()).checked_add(more)?;
        let instructions = [of_common, of_function];
        Some(Description { function, common, instructions, from, to, code_unit, data_unit })
    }

    /// Returns the rule at an address.
    fn rule(&self, address: u64) -> Option<Rule> {
        if !(self.from..self.to).contains(&address) {
            return None;
        }
        let mut state = State { at: self.from, target: address, ..State::START };
        let [of_common, of_function] = self.instructions;
        state.run(self.common.cursor(of_common)?, self)?;
        state.first = state.row;
        state.run(self.function.cursor(of_function)?, self)?;
        state.row.rule()
    }
}

/// The letters of a common part, of which the first is `z`.
struct Letters {
    text: [u8; 8],
    length: usize,
}

impl Letters {
    fn read(cursor: &mut Cursor<'_>) -> Option<Letters> {
        let mut letters = Letters { text: [0; 8], length: 0 };
        loop {
            match cursor.u8()? {
                0 => break,
                letter => *letters.text.get_mut(letters.length)? = letter,
            }
            letters.length += 1;
        }
        (letters.text.first() == Some(&b'z')).then_some(letters)
    }
}

/// Returns how addresses of functions are coded. A signal's frame (`S`) is no call, and has no rule. (`B`: on Arm, return addresses
/// are signed with another key.)
fn pointers(letters: &[u8], cursor: &mut Cursor<'_>) -> Option<u8> {
    let mut coded_as = None;
    for letter in letters {
        match letter {
            b'R' => coded_as = Some(cursor.u8()?),
            b'L' => _ = cursor.u8()?,
            b'B' => {}
            b'P' => {
                let bytes = match cursor.u8()? & 0x0f {
                    0x00 | 0x04 | 0x0c => 8,
                    0x03 | 0x0b => 4,
                    0x02 | 0x0a => 2,
                    _ => return None,
                };
                cursor.skip(bytes)?;
            }
            _ => return None,
        }
    }
    coded_as
}

// DWARF's numbers of registers: System V ABI for x86-64, figure 3.36; DWARF for the Arm 64-bit Architecture, table 3.
const FRAME_POINTER: u64 = if cfg!(target_arch = "aarch64") { 29 } else { 6 };
const STACK_POINTER: u64 = if cfg!(target_arch = "aarch64") { 31 } else { 7 };
const RETURN_ADDRESS: u64 = if cfg!(target_arch = "aarch64") { 30 } else { 16 };

/// Where something of the caller's is.
#[derive(Clone, Copy, PartialEq)]
enum Saved {
    InPlace,
    At(i64),
    Unknown,
}

/// A row of the table that the instructions describe.
#[derive(Clone, Copy)]
struct Row {
    /// The register from which the top is found, and the distance; `None` if it is found otherwise.
    top: Option<(u64, i64)>,
    frame: Saved,
    back: Saved,
}

impl Row {
    fn set(&mut self, register: u64, saved: Saved) {
        match register {
            FRAME_POINTER => self.frame = saved,
            RETURN_ADDRESS => self.back = saved,
            _ => {}
        }
    }

    fn rule(self) -> Option<Rule> {
        let (register, top) = self.top?;
        if ![FRAME_POINTER, STACK_POINTER].contains(&register) {
            return None;
        }
        let frame = match self.frame {
            Saved::InPlace => None,
            Saved::At(at) => Some(at),
            Saved::Unknown => return None,
        };
        let Saved::At(back) = self.back else { return None };
        place_of(frame, back)?;
        Some(Rule { is_by_frame: register == FRAME_POINTER, top, frame, back })
    }
}

/// Rows that are kept at most, for `DW_CFA_remember_state`.
const KEPT: usize = 4;

/// The rows so far.
struct State {
    at: u64,
    target: u64,
    row: Row,
    /// The row after the common part.
    first: Row,
    kept: [Row; KEPT],
    count: usize,
}

impl State {
    const START: State = {
        let row = Row { top: None, frame: Saved::InPlace, back: Saved::Unknown };
        State { at: 0, target: 0, row, first: row, kept: [row; KEPT], count: 0 }
    };

    /// Runs the instructions up to the row of the target. `None`: one is not known.
    fn run(&mut self, mut code: Cursor<'_>, of: &Description) -> Option<()> {
        while let Some(instruction) = code.u8() {
            let low = u64::from(instruction & 0x3f);
            let scaled = |distance: u64| i64::try_from(distance).ok()?.checked_mul(of.data_unit);
            match instruction >> 6 {
                1 => {
                    if !self.advance(low, of)? {
                        return Some(());
                    }
                    continue;
                }
                2 => {
                    let distance = scaled(code.unsigned()?)?;
                    self.row.set(low, Saved::At(distance));
                    continue;
                }
                3 => {
                    self.restore(low);
                    continue;
                }
                _ => {}
            }
            let (top, row) = (self.row.top, &mut self.row);
            match instruction {
                // nop; AARCH64_negate_ra_state: from here on, the return address is signed, or no more; GNU_args_size
                0x00 => {}
                0x2d if cfg!(target_arch = "aarch64") => {}
                0x2e => _ = code.unsigned()?,
                // advance_loc1, 2 and 4
                0x02..=0x04 => {
                    let by = code.little_endian(1 << (instruction - 2))?;
                    if !self.advance(by, of)? {
                        return Some(());
                    }
                }
                // offset_extended, offset_extended_sf
                0x05 => row.set(code.unsigned()?, Saved::At(scaled(code.unsigned()?)?)),
                0x11 => row.set(code.unsigned()?, Saved::At(code.signed()?.checked_mul(of.data_unit)?)),
                0x06 => self.restore(code.unsigned()?),
                // undefined, same_value
                0x07 => row.set(code.unsigned()?, Saved::Unknown),
                0x08 => row.set(code.unsigned()?, Saved::InPlace),
                // register, val_offset, val_offset_sf
                0x09 | 0x14 => {
                    row.set(code.unsigned()?, Saved::Unknown);
                    code.unsigned()?;
                }
                0x15 => {
                    row.set(code.unsigned()?, Saved::Unknown);
                    code.signed()?;
                }
                // remember_state, restore_state
                0x0a => {
                    *self.kept.get_mut(self.count)? = self.row;
                    self.count += 1;
                }
                0x0b => {
                    self.count = self.count.checked_sub(1)?;
                    self.row = *self.kept.get(self.count)?;
                }
                // def_cfa, def_cfa_sf
                0x0c => row.top = Some((code.unsigned()?, i64::try_from(code.unsigned()?).ok()?)),
                0x12 => row.top = Some((code.unsigned()?, code.signed()?.checked_mul(of.data_unit)?)),
                // def_cfa_register, def_cfa_offset, def_cfa_offset_sf
                0x0d => row.top = Some((code.unsigned()?, top?.1)),
                0x0e => row.top = Some((top?.0, i64::try_from(code.unsigned()?).ok()?)),
                0x13 => row.top = Some((top?.0, code.signed()?.checked_mul(of.data_unit)?)),
                // def_cfa_expression; expression and val_expression
                0x0f => {
                    row.top = None;
                    code.expression()?;
                }
                0x10 | 0x16 => {
                    row.set(code.unsigned()?, Saved::Unknown);
                    code.expression()?;
                }
                _ => return None,
            }
        }
        Some(())
    }

    /// Goes on to a later address. Returns false if the present row is that of the target.
    fn advance(&mut self, by: u64, of: &Description) -> Option<bool> {
        self.at = self.at.checked_add(by.checked_mul(of.code_unit)?)?;
        Some(self.at <= self.target)
    }

    fn restore(&mut self, register: u64) {
        let first = self.first;
        match register {
            FRAME_POINTER => self.row.frame = first.frame,
            RETURN_ADDRESS => self.row.back = first.back,
            _ => {}
        }
    }
}

/// Bytes that are read from the front.
struct Cursor<'b>(&'b [u8]);

impl Cursor<'_> {
    fn u8(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn little_endian(&mut self, bytes: u32) -> Option<u64> {
        (0..bytes).try_fold(0, |value, at| Some(value | u64::from(self.u8()?) << (8 * at)))
    }

    fn u32(&mut self) -> Option<u32> {
        self.little_endian(4).map(|value| value as u32)
    }

    fn skip(&mut self, bytes: usize) -> Option<()> {
        self.0 = self.0.get(bytes..)?;
        Some(())
    }

    /// Skips the bytes of an expression.
    fn expression(&mut self) -> Option<()> {
        let bytes = usize::try_from(self.unsigned()?).ok()?;
        self.skip(bytes)
    }

    /// Reads a LEB128 number.
    fn unsigned(&mut self) -> Option<u64> {
        self.leb128().map(|(value, _)| value)
    }

    fn signed(&mut self) -> Option<i64> {
        let (value, bits) = self.leb128()?;
        let unused = 64u32.saturating_sub(bits);
        Some(((value << unused) as i64) >> unused)
    }

    /// Returns the value and how many bits it has.
    fn leb128(&mut self) -> Option<(u64, u32)> {
        let (mut value, mut bits) = (0u64, 0);
        loop {
            let byte = self.u8()?;
            value |= u64::from(byte & 0x7f).checked_shl(bits)?;
            bits += 7;
            if byte & 0x80 == 0 {
                return Some((value, bits));
            }
        }
    }
}

#[cfg(test)]
mod tests;
