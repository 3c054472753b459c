//! Where do the versions of CPython keep what we read of a thread, a frame and a code object? Offsets in bytes on 64-bit
//! systems, from `offsetof` in the headers of 3.9.18, 3.10.13, 3.11.7, 3.12.1 and 3.13.0 (`Include/cpython` and
//! `Include/internal`); they do not change within a minor version. A build that moves them (`Py_TRACE_REFS`) is refused
//! by [`check`](super::check).

/// How a frame says which instruction it runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Instruction {
    /// An `int` at this offset in the frame, which counts units of this many bytes.
    Index { at: u32, bytes: i32 },
    /// A pointer at this offset in the frame, into the bytecode that lies at `bytecode` in the code object.
    Pointer { at: u32, bytecode: u32 },
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

/// The least `owner` of a frame that the interpreter made for itself (`FRAME_OWNED_BY_CSTACK`).
pub const C_STACK: u8 = 3;

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

/// Offsets in a `str`.
#[derive(Clone, Copy, Debug)]
pub struct Text {
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
    pub text: Text,
}

/// In every object: its type. In a `str`: the number of its characters, its hash, and its state. In `bytes`: the number
/// of bytes, and the first.
pub const TYPE: u64 = 8;
pub const LENGTH: u64 = 16;
pub const HASH: u64 = 24;
pub const STATE: u64 = 32;
pub const BYTES: u64 = 32;

const OLD_TEXT: Text = Text { ascii: 48, other: 72 };
const TEXT: Text = Text { ascii: 40, other: 56 };

const PYTHON_3_9: Layout = Layout {
    thread: Thread { frame: 24, in_cframe: None, id: 176 },
    frame: Frame {
        code: 32,
        previous: 24,
        instruction: Instruction::Index { at: 104, bytes: 1 },
        owner: None,
    },
    code: Code { file: 104, name: 112, first_line: 40, line_table: 120, version: None },
    text: OLD_TEXT,
};

const PYTHON_3_10: Layout = Layout {
    frame: Frame { instruction: Instruction::Index { at: 96, bytes: 2 }, ..PYTHON_3_9.frame },
    ..PYTHON_3_9
};

const PYTHON_3_11: Layout = Layout {
    thread: Thread { frame: 56, in_cframe: Some(8), id: 152 },
    frame: Frame {
        code: 32,
        previous: 48,
        instruction: Instruction::Pointer { at: 56, bytecode: 184 },
        owner: Some(69),
    },
    code: Code { file: 112, name: 128, first_line: 72, line_table: 136, version: None },
    text: OLD_TEXT,
};

const PYTHON_3_12: Layout = Layout {
    thread: Thread { frame: 56, in_cframe: Some(0), id: 136 },
    frame: Frame {
        code: 0,
        previous: 8,
        instruction: Instruction::Pointer { at: 56, bytecode: 192 },
        owner: Some(70),
    },
    code: Code { file: 112, name: 128, first_line: 68, line_table: 136, version: Some(92) },
    text: TEXT,
};

/// The words of 3.13's `_Py_DebugOffsets` up to the last one that we read.
pub const DEBUG_WORDS: usize = 71;
/// Its first word: the text `xdebugpy`.
const COOKIE: u64 = u64::from_le_bytes(*b"xdebugpy");

/// Why an interpreter's frames are not read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unknown {
    /// Its version is not one of those above.
    Version,
    /// It is a free-threaded build, whose objects are laid out otherwise.
    FreeThreaded,
    /// Its `_Py_DebugOffsets` are not what its version should have.
    Offsets,
}

impl Layout {
    /// Returns the offsets of a version, `major << 8 | minor`. `debug`: the interpreter's `_Py_DebugOffsets`, with which
    /// 3.13 describes itself.
    pub fn of(version: u16, debug: Option<&[u64; DEBUG_WORDS]>) -> Result<Layout, Unknown> {
        match version {
            0x0309 => Ok(PYTHON_3_9),
            0x030a => Ok(PYTHON_3_10),
            0x030b => Ok(PYTHON_3_11),
            0x030c => Ok(PYTHON_3_12),
            0x030d => debug.ok_or(Unknown::Offsets).and_then(|words| described(version, words)),
            _ => Err(Unknown::Version),
        }
    }
}

/// Reads 3.13's `_Py_DebugOffsets` (`Include/internal/pycore_runtime.h`). The offset of a code object's version is not in
/// it.
fn described(version: u16, words: &[u64; DEBUG_WORDS]) -> Result<Layout, Unknown> {
    let [cookie, hex, free_threaded, ..] = *words;
    if cookie != COOKIE || hex >> 16 != u64::from(version) {
        return Err(Unknown::Offsets);
    }
    if free_threaded != 0 {
        return Err(Unknown::FreeThreaded);
    }
    // No offset that we use is anywhere near this large.
    let at = |index: usize| {
        let offset = words.get(index).copied().filter(|offset| *offset < 1024);
        offset.map(|offset| offset as u32).ok_or(Unknown::Offsets)
    };
    let (length, first_byte) = (at(69)?, at(66)?);
    if u64::from(length) != LENGTH || u64::from(first_byte) != BYTES || u64::from(at(68)?) != STATE {
        return Err(Unknown::Offsets);
    }
    Ok(Layout {
        thread: Thread { frame: at(23)?, in_cframe: None, id: at(24)? },
        frame: Frame {
            previous: at(29)?,
            code: at(30)?,
            instruction: Instruction::Pointer { at: at(31)?, bytecode: at(43)? },
            owner: Some(at(33)?),
        },
        code: Code {
            file: at(35)?,
            name: at(37)?,
            line_table: at(38)?,
            first_line: at(39)?,
            version: Some(92),
        },
        text: Text { ascii: at(70)?, ..TEXT },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The words of CPython 3.13.0 that are read, as its header makes them.
    fn words() -> [u64; DEBUG_WORDS] {
        let mut words = [0; DEBUG_WORDS];
        words[0] = COOKIE;
        words[1] = 0x030d_00f0;
        let read = [
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
        ];
        for (index, value) in read {
            words[index] = value;
        }
        words
    }

    #[test]
    fn an_interpreter_that_describes_itself_is_read_by_its_own_offsets() {
        let layout = Layout::of(0x030d, Some(&words())).unwrap();
        assert_eq!((layout.thread.frame, layout.code.name, layout.text.ascii), (72, 128, 40));
        assert_eq!(layout.frame.instruction, Instruction::Pointer { at: 56, bytecode: 200 });
    }

    #[test]
    fn an_interpreter_that_is_not_as_its_version_should_be_is_refused() {
        let refused = |change: &dyn Fn(&mut [u64; DEBUG_WORDS])| {
            let mut words = words();
            change(&mut words);
            Layout::of(0x030d, Some(&words)).err()
        };
        assert_eq!(refused(&|words| words[0] ^= 1), Some(Unknown::Offsets));
        assert_eq!(refused(&|words| words[1] = 0x030e_00f0), Some(Unknown::Offsets));
        assert_eq!(refused(&|words| words[2] = 1), Some(Unknown::FreeThreaded));
        assert_eq!(refused(&|words| words[31] = u64::MAX), Some(Unknown::Offsets));
        assert_eq!(Layout::of(0x030d, None).err(), Some(Unknown::Offsets));
        for version in [0x0207, 0x0308, 0x030e, 0x0400] {
            assert_eq!(Layout::of(version, None).err(), Some(Unknown::Version));
        }
    }
}
