//! What a code object consists of, copied for the collector when the object is first met. The copies are made by checked
//! reads: what has a length of its own is never trusted.

use gpuspy_wire::program_files::is_users;
use gpuspy_wire::record::{self, CELL_WORDS, CodePart, CodeText, Head, MAX_PART, MAX_PART_CELLS, Record};

use crate::memory::{checked_byte, checked_int, checked_word, copy};
use crate::python::interpreter::Interpreter;

/// The largest line table that is copied, bytes. Lines behind it are not known.
const MAX_TABLE: u64 = 1 << 16;

/// A code object that is being sent.
pub struct Sent<'a> {
    pub interpreter: &'a Interpreter,
    /// Its address and its number.
    pub code: u64,
    pub number: u32,
}

impl Sent<'_> {
    /// Passes its records to `push`. Returns whether the user of the program wrote it; `None` when a record did not fit: all
    /// of them have to be sent again. One that cannot be read counts as sent, since it would not be read another time
    /// either.
    pub fn send(&self, mut push: impl FnMut(&[u64]) -> bool) -> Option<bool> {
        let Some((fits, is_users)) = self.records(&mut push) else { return Some(false) };
        fits.then_some(is_users)
    }

    /// Returns whether all of the records did fit, and whether the user wrote it; `None`: it cannot be read.
    fn records(&self, push: &mut dyn FnMut(&[u64]) -> bool) -> Option<(bool, bool)> {
        let (at, object) = (&self.interpreter.layout.code, &self.interpreter.layout.object);
        let word = |offset: u32| checked_word(self.code.checked_add(u64::from(offset))?);
        let (mut file, mut name) = ([0; MAX_PART], [0; MAX_PART]);
        let file = self.text(word(at.file)?, &mut file)?;
        let name = self.text(word(at.name)?, &mut name)?;
        let is_users = core::str::from_utf8(file).is_ok_and(is_users);
        let table = word(at.line_table)?;
        let table_bytes = checked_word(table.checked_add(u64::from(object.length))?)?.min(MAX_TABLE) as u32;
        let code = record::Code {
            head: Head::new::<record::Code>(),
            code: self.number,
            first_line: checked_int(self.code.checked_add(u64::from(at.first_line))?)? as u32,
            python: self.interpreter.version,
            bytes: [file.len() as u32, name.len() as u32, table_bytes],
            ..Default::default()
        };
        let is_sent = push(code.as_words())
            && self.part(CodeText::File, 0, file, push)
            && self.part(CodeText::Name, 0, name, push);
        let mut offset = 0;
        while is_sent && offset < table_bytes {
            let mut bytes = [0; MAX_PART];
            let bytes = bytes.get_mut(..(table_bytes - offset).min(MAX_PART as u32) as usize)?;
            copy(table.checked_add(u64::from(object.first_byte + offset))?, bytes).then_some(())?;
            if !self.part(CodeText::LineTable, offset, bytes, push) {
                return Some((false, is_users));
            }
            offset += bytes.len() as u32;
        }
        Some((is_sent, is_users))
    }

    fn part(&self, text: CodeText, offset: u32, bytes: &[u8], push: &mut dyn FnMut(&[u64]) -> bool) -> bool {
        let head = Head::new::<CodePart>();
        let part = CodePart { head, code: self.number, offset, text: text as u8, ..CodePart::default() };
        push(part.with_bytes(bytes, &mut [0; MAX_PART_CELLS * CELL_WORDS]))
    }

    /// Copies a `str` as UTF-8, as much of it as fits. `None`: it cannot be read, or is of a form that no string of a code
    /// object has.
    fn text<'b>(&self, object: u64, buffer: &'b mut [u8; MAX_PART]) -> Option<&'b [u8]> {
        let layout = &self.interpreter.layout;
        let at = &layout.text;
        let length = checked_word(object.checked_add(u64::from(layout.object.length))?)?;
        let state = State::of(checked_byte(object.checked_add(u64::from(at.state))?)? >> at.shift)?;
        if state.is_ascii {
            let kept = buffer.get_mut(..length.min(MAX_PART as u64) as usize)?;
            return copy(object.checked_add(u64::from(at.ascii))?, kept).then_some(kept);
        }
        let start = object.checked_add(u64::from(at.other))?;
        let mut filled = 0;
        for index in 0..length {
            let mut unit = [0; 4];
            copy(start.checked_add(index.checked_mul(state.width)?)?, unit.get_mut(..state.width as usize)?)
                .then_some(())?;
            let character = char::from_u32(u32::from_le_bytes(unit)).unwrap_or(char::REPLACEMENT_CHARACTER);
            let Some(place) = buffer.get_mut(filled..filled + character.len_utf8()) else { break };
            character.encode_utf8(place);
            filled += character.len_utf8();
        }
        buffer.get(..filled)
    }
}

/// The state of a `str`, as its bits are in 3.9 to 3.15 (`Include/cpython/unicodeobject.h`): three for the bytes of a character,
/// and whether it is compact, and ASCII.
#[derive(Debug, PartialEq, Eq)]
struct State {
    /// Bytes of a character.
    width: u64,
    is_ascii: bool,
}

impl State {
    /// Returns `None` for a string that is not compact, or whose characters have no width.
    fn of(bits: u8) -> Option<State> {
        let width = u64::from(bits & 7);
        let (is_compact, is_ascii) = (bits & 1 << 3 != 0, bits & 1 << 4 != 0);
        (is_compact && matches!(width, 1 | 2 | 4)).then_some(State { width, is_ascii })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_string_that_no_code_object_has_is_refused() {
        assert_eq!(State::of(0b11_001), Some(State { width: 1, is_ascii: true }));
        assert_eq!(State::of(0b01_010), Some(State { width: 2, is_ascii: false }));
        assert_eq!(State::of(0b01_100), Some(State { width: 4, is_ascii: false }));
        for bits in [0, 0b10_001, 0b01_011, 0b01_000] {
            assert_eq!(State::of(bits), None, "{bits:#b}");
        }
    }
}
