//! Where do the versions of CPython keep what we read of a thread, a frame and a code object? Offsets in bytes on 64-bit
//! systems, from `offsetof` in the headers of 3.9.18, 3.10.13, 3.11.7, 3.12.1, 3.13.0, 3.14.10 and 3.15.2, and for the
//! free-threaded builds of 3.13.5 and 3.14.7 (`Include/cpython` and `Include/internal`); they do not change within a minor
//! version. A build that moves them (`Py_TRACE_REFS`) is refused by [`check`](super::check).

/// How a frame says which instruction it runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Instruction {
    /// An `int` at this offset in the frame, which counts units of this many bytes.
    Index { at: u32, bytes: i32 },
    /// A pointer at this offset in the frame, into the bytecode that lies at `bytecode` in the code object, or into a thread's
    /// copy of it.
    Pointer { at: u32, bytecode: u32, copies: Option<Copies> },
}

/// In a free-threaded build from 3.14 on, each thread runs a copy of its own of a code object's bytecode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Copies {
    /// An `int` in a frame: the number of its thread's copy. The first is the code object's own bytecode.
    pub index: u32,
    /// A pointer in a code object, to a word and then the addresses of the copies.
    pub array: u32,
}

/// Offsets in a thread's state (`PyThreadState`).
#[derive(Clone, Copy, Debug)]
pub struct Thread {
    /// A pointer to the innermost frame, or to a struct that has it (`cframe`).
    pub frame: u32,
    /// The offset of the pointer to the frame in that struct; `None` where there is no such struct.
    pub in_cframe: Option<u32>,
    /// The thread's `pthread_t`.
    pub id: u32,
}

/// Offsets in a frame.
#[derive(Clone, Copy, Debug)]
pub struct Frame {
    pub code: u32,
    pub previous: u32,
    pub instruction: Instruction,
    /// A byte that says who made the frame; a frame of [`C_STACK`] runs no code of the program's.
    pub owner: Option<u32>,
}

/// The least `owner` of a frame that the interpreter made for itself: `FRAME_OWNED_BY_CSTACK`, and from 3.14 on
/// `FRAME_OWNED_BY_INTERPRETER`.
pub const C_STACK: u8 = 3;

/// The bits of a frame's pointer to its code object that say how the reference is counted (`Py_TAG_BITS`, from 3.14 on);
/// before, they are always zero.
pub const TAG: u64 = 3;

/// Offsets in a code object.
#[derive(Clone, Copy, Debug)]
pub struct Code {
    pub file: u32,
    /// The qualified name, or the name where there is none (before 3.11).
    pub name: u32,
    pub first_line: u32,
    pub line_table: u32,
    /// A number that no other code object of the process has, or 0 when they have run out.
    pub version: Option<u32>,
}

/// Offsets in objects.
#[derive(Clone, Copy, Debug)]
pub struct Object {
    /// In every object: its type.
    pub kind: u32,
    /// In a `str` the number of its characters, and in `bytes` that of the bytes.
    pub length: u32,
    /// In a `str`: its hash.
    pub hash: u32,
    /// In `bytes`: the first byte.
    pub first_byte: u32,
}

/// Offsets in a `str`.
#[derive(Clone, Copy, Debug)]
pub struct Text {
    /// A byte that says how the characters are stored, and the number of its lowest bits that do not belong to that.
    pub state: u32,
    pub shift: u8,
    /// The characters of an ASCII string, and of another compact one.
    pub ascii: u32,
    pub other: u32,
}

/// A version's offsets.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    pub thread: Thread,
    pub frame: Frame,
    pub code: Code,
    pub object: Object,
    pub text: Text,
}

/// Without `Py_GIL_DISABLED` and with it.
const OBJECT: Object = Object { kind: 8, length: 16, hash: 24, first_byte: 32 };
const FREE_THREADED_OBJECT: Object = Object { kind: 24, length: 32, hash: 40, first_byte: 48 };

/// The offset of the state of a `str`, and the bits in it that say whether it is interned.
const STATE: u32 = 32;
const INTERNED: u8 = 2;

const OLD_TEXT: Text = Text { state: STATE, shift: INTERNED, ascii: 48, other: 72 };
const TEXT: Text = Text { state: STATE, shift: INTERNED, ascii: 40, other: 56 };

pub const PYTHON_3_9: Layout = Layout {
    thread: Thread { frame: 24, in_cframe: None, id: 176 },
    frame: Frame {
        code: 32,
        previous: 24,
        instruction: Instruction::Index { at: 104, bytes: 1 },
        owner: None,
    },
    code: Code { file: 104, name: 112, first_line: 40, line_table: 120, version: None },
    object: OBJECT,
    text: OLD_TEXT,
};

pub const PYTHON_3_10: Layout = Layout {
    frame: Frame { instruction: Instruction::Index { at: 96, bytes: 2 }, ..PYTHON_3_9.frame },
    ..PYTHON_3_9
};

pub const PYTHON_3_11: Layout = Layout {
    thread: Thread { frame: 56, in_cframe: Some(8), id: 152 },
    frame: Frame {
        code: 32,
        previous: 48,
        instruction: Instruction::Pointer { at: 56, bytecode: 184, copies: None },
        owner: Some(69),
    },
    code: Code { file: 112, name: 128, first_line: 72, line_table: 136, version: None },
    object: OBJECT,
    text: OLD_TEXT,
};

/// How far a code object's version is behind its first line, from 3.12 on.
const VERSION: u32 = 24;

const PYTHON_3_12: Layout = Layout {
    thread: Thread { frame: 56, in_cframe: Some(0), id: 136 },
    frame: Frame {
        code: 0,
        previous: 8,
        instruction: Instruction::Pointer { at: 56, bytecode: 192, copies: None },
        owner: Some(70),
    },
    code: Code { file: 112, name: 128, first_line: 68, line_table: 136, version: Some(68 + VERSION) },
    object: OBJECT,
    text: TEXT,
};

/// The words of `_Py_DebugOffsets` up to the last one that we read of any version.
pub const DEBUG_WORDS: usize = 93;
/// Its first word: the text `xdebugpy`.
const COOKIE: u64 = u64::from_le_bytes(*b"xdebugpy");

/// Why an interpreter's frames are not read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unknown {
    /// Its version is not one of those above.
    Version,
    /// It is a free-threaded build of a version that is not known as one.
    FreeThreaded,
    /// Its `_Py_DebugOffsets` are not what its version should have.
    Offsets,
}

impl Layout {
    /// Returns the offsets of a version, `major << 8 | minor`. `debug`: the interpreter's `_Py_DebugOffsets`, with which
    /// it describes itself from 3.13 on.
    pub fn of(version: u16, debug: Option<&[u64; DEBUG_WORDS]>) -> Result<Layout, Unknown> {
        let description = match version {
            0x0309 => return Ok(PYTHON_3_9),
            0x030a => return Ok(PYTHON_3_10),
            0x030b => return Ok(PYTHON_3_11),
            0x030c => return Ok(PYTHON_3_12),
            0x030d => &DEBUG_3_13,
            0x030e => &DEBUG_3_14,
            0x030f => &DEBUG_3_15,
            _ => return Err(Unknown::Version),
        };
        debug.ok_or(Unknown::Offsets).and_then(|words| description.read(version, words))
    }
}

/// Where a version's `_Py_DebugOffsets` (`Include/internal/pycore_debug_offsets.h`, in 3.13 `pycore_runtime.h`) has what we
/// read: numbers of words. A group begins with the size of its struct, and the versions have the same members at the
/// beginnings of these groups.
struct Description {
    /// `thread_state.current_frame` and `thread_state.thread_id`.
    current_frame: usize,
    thread_id: usize,
    /// The groups `interpreter_frame`, `code_object`, `bytes_object` and `unicode_object`.
    frame: usize,
    code: usize,
    bytes: usize,
    text: usize,
}

const DEBUG_3_13: Description =
    Description { current_frame: 23, thread_id: 24, frame: 28, code: 34, bytes: 64, text: 67 };
const DEBUG_3_14: Description =
    Description { current_frame: 26, thread_id: 27, frame: 31, code: 39, bytes: 74, text: 77 };
const DEBUG_3_15: Description =
    Description { current_frame: 26, thread_id: 30, frame: 39, code: 47, bytes: 86, text: 89 };

impl Description {
    /// Reads the offsets. That of a code object's version is not among them.
    fn read(&self, version: u16, words: &[u64; DEBUG_WORDS]) -> Result<Layout, Unknown> {
        let [cookie, hex, free_threaded, ..] = *words;
        if cookie != COOKIE || hex >> 16 != u64::from(version) {
            return Err(Unknown::Offsets);
        }
        // No offset that we use is anywhere near this large.
        let at = |index: usize| {
            let offset = words.get(index).copied().filter(|offset| *offset < 1024);
            offset.map(|offset| offset as u32).ok_or(Unknown::Offsets)
        };
        let (object, copies) = match (free_threaded, version) {
            (0, _) => (OBJECT, None),
            (_, 0x030d) => (FREE_THREADED_OBJECT, None),
            (_, 0x030e) => {
                let (index, array) = (at(self.frame + 7)?, at(self.code + 10)?);
                (FREE_THREADED_OBJECT, Some(Copies { index, array }))
            }
            _ => return Err(Unknown::FreeThreaded),
        };
        let (state, ascii) = (at(self.text + 1)?, at(self.text + 3)?);
        if [at(self.text + 2)?, at(self.bytes + 2)?] != [object.length, object.first_byte]
            || state != object.hash + 8
        {
            return Err(Unknown::Offsets);
        }
        // Where each thread has a copy, threads set whether a text is interned by a byte of its own.
        let (state, shift) = if copies.is_some() { (state + 1, 0) } else { (state, INTERNED) };
        let first_line = at(self.code + 5)?;
        Ok(Layout {
            thread: Thread { frame: at(self.current_frame)?, in_cframe: None, id: at(self.thread_id)? },
            frame: Frame {
                previous: at(self.frame + 1)?,
                code: at(self.frame + 2)?,
                instruction: Instruction::Pointer {
                    at: at(self.frame + 3)?,
                    bytecode: at(self.code + 9)?,
                    copies,
                },
                owner: Some(at(self.frame + 5)?),
            },
            code: Code {
                file: at(self.code + 1)?,
                name: at(self.code + 3)?,
                line_table: at(self.code + 4)?,
                first_line,
                version: Some(first_line + VERSION),
            },
            object,
            text: Text { state, shift, ascii, other: ascii + 16 },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The words that are read of an interpreter, as the headers of 3.13.0, 3.14.10 and 3.15.2 make them.
    fn words(version: u16) -> [u64; DEBUG_WORDS] {
        let read: [(usize, u64); 15] = match version {
            0x030d => [
                (23, 72),
                (24, 152),
                (29, 8),
                (30, 0),
                (31, 56),
                (33, 70),
                (35, 112),
                (37, 128),
                (38, 136),
                (39, 68),
                (43, 200),
                (66, 32),
                (68, 32),
                (69, 16),
                (70, 40),
            ],
            0x030e => [
                (26, 72),
                (27, 152),
                (32, 8),
                (33, 0),
                (34, 56),
                (36, 74),
                (40, 112),
                (42, 128),
                (43, 136),
                (44, 68),
                (48, 208),
                (76, 32),
                (78, 32),
                (79, 16),
                (80, 40),
            ],
            _ => [
                (26, 72),
                (30, 176),
                (40, 8),
                (41, 0),
                (42, 56),
                (44, 74),
                (48, 112),
                (50, 128),
                (51, 136),
                (52, 68),
                (56, 208),
                (88, 32),
                (90, 32),
                (91, 16),
                (92, 40),
            ],
        };
        let mut words = [0; DEBUG_WORDS];
        words[0] = COOKIE;
        words[1] = u64::from(version) << 16 | 0x00f0;
        for (index, value) in read {
            words[index] = value;
        }
        words
    }

    #[test]
    fn an_interpreter_that_describes_itself_is_read_by_its_own_offsets() {
        for (version, id, owner, bytecode) in
            [(0x030d, 152, 70, 200), (0x030e, 152, 74, 208), (0x030f, 176, 74, 208)]
        {
            let layout = Layout::of(version, Some(&words(version))).unwrap();
            assert_eq!((layout.thread.frame, layout.thread.id), (72, id));
            assert_eq!((layout.frame.previous, layout.frame.code, layout.frame.owner), (8, 0, Some(owner)));
            assert_eq!(layout.frame.instruction, Instruction::Pointer { at: 56, bytecode, copies: None });
            let Code { file, name, line_table, first_line, .. } = layout.code;
            assert_eq!((file, name, line_table, first_line, layout.text.ascii), (112, 128, 136, 68, 40));
        }
    }

    /// The words of a free-threaded build, as the headers of 3.13.5 and 3.14.7 make them.
    fn free_threaded(version: u16) -> [u64; DEBUG_WORDS] {
        let mut words = words(version);
        words[2] = 1;
        let moved: &[(usize, u64)] = match version {
            0x030d => &[
                (33, 70),
                (35, 128),
                (37, 144),
                (38, 152),
                (39, 84),
                (43, 216),
                (66, 48),
                (68, 48),
                (69, 32),
                (70, 56),
            ],
            _ => &[
                (36, 78),
                (38, 72),
                (40, 128),
                (42, 144),
                (43, 152),
                (44, 84),
                (48, 232),
                (49, 224),
                (76, 48),
                (78, 48),
                (79, 32),
                (80, 56),
            ],
        };
        moved.iter().for_each(|(index, value)| words[*index] = *value);
        words
    }

    #[test]
    fn a_free_threaded_build_has_larger_objects_and_from_3_14_on_copies_of_the_bytecode() {
        for version in [0x030d, 0x030e] {
            let layout = Layout::of(version, Some(&free_threaded(version))).unwrap();
            let Code { file, name, line_table, first_line, version: number } = layout.code;
            assert_eq!((file, name, line_table, first_line, number), (128, 144, 152, 84, Some(108)));
            let Object { kind, length, hash, first_byte } = layout.object;
            assert_eq!((kind, length, hash, first_byte), (24, 32, 40, 48));
            let Text { state, shift, ascii, other } = layout.text;
            assert_eq!((state, shift), if version == 0x030d { (48, 2) } else { (49, 0) });
            assert_eq!((ascii, other), (56, 72));
            let (bytecode, copies) = match version {
                0x030d => (216, None),
                _ => (232, Some(Copies { index: 72, array: 224 })),
            };
            assert_eq!(layout.frame.instruction, Instruction::Pointer { at: 56, bytecode, copies });
        }
        let mut words = free_threaded(0x030e);
        words[78] = 32;
        assert_eq!(Layout::of(0x030e, Some(&words)).err(), Some(Unknown::Offsets));
        let mut later = self::words(0x030f);
        later[2] = 1;
        assert_eq!(Layout::of(0x030f, Some(&later)).err(), Some(Unknown::FreeThreaded));
    }

    #[test]
    fn an_interpreter_that_is_not_as_its_version_should_be_is_refused() {
        for version in [0x030d, 0x030e, 0x030f] {
            let refused = |change: &dyn Fn(&mut [u64; DEBUG_WORDS])| {
                let mut words = words(version);
                change(&mut words);
                Layout::of(version, Some(&words)).err()
            };
            assert_eq!(refused(&|_| {}), None);
            assert_eq!(refused(&|words| words[0] ^= 1), Some(Unknown::Offsets));
            assert_eq!(refused(&|words| words[1] ^= 1 << 16), Some(Unknown::Offsets));
            let of_gil = if version == 0x030f { Unknown::FreeThreaded } else { Unknown::Offsets };
            assert_eq!(
                refused(&|words| words[2] = 1),
                Some(of_gil),
                "the other offsets are those of a build with the GIL"
            );
            assert_eq!(refused(&|words| words[26..45].fill(u64::MAX)), Some(Unknown::Offsets));
            assert_eq!(Layout::of(version, None).err(), Some(Unknown::Offsets));
        }
        for version in [0x0207, 0x0308, 0x0310, 0x0400] {
            assert_eq!(Layout::of(version, None).err(), Some(Unknown::Version));
        }
    }
}
