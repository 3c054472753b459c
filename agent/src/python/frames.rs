//! The calling thread's own frames. They stand still while it is inside a hook: only the thread itself changes them, and
//! it is here. Nothing is called, locked or allocated.

use gpuspy_wire::record::MAX_FRAMES;

use crate::memory::read;
use crate::numbers::mix;
use crate::python::interpreter::Interpreter;
use crate::python::layout::{BYTES, C_STACK, Code, HASH, Instruction, LENGTH, Layout, TAG};

/// A frame of the program's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Frame {
    /// The address of its code object.
    pub code: u64,
    /// The place in its bytecode, bytes.
    pub instruction: i32,
    /// Tells its code object from others that had, or will have, the same address.
    pub identity: u64,
}

/// The frames of a thread, the innermost first.
#[derive(Clone)]
pub struct Frames<'a> {
    layout: &'a Layout,
    /// The address of the next frame, or 0.
    next: u64,
}

impl<'a> Frames<'a> {
    /// The frames of the calling thread.
    ///
    /// # Safety
    /// `thread` is what [`Interpreter::this_thread`] returned on this thread since it entered the hook, and
    /// [`check`](super::check) has confirmed that the interpreter is laid out as it says.
    #[inline]
    pub unsafe fn of(interpreter: &'a Interpreter, thread: u64) -> Frames<'a> {
        let layout = &interpreter.layout;
        // SAFETY: the thread's own state, and the struct on its stack that the state points to.
        let next = unsafe {
            let first: u64 = read(thread + u64::from(layout.thread.frame));
            match layout.thread.in_cframe {
                Some(at) if first != 0 => read(first + u64::from(at)),
                _ => first,
            }
        };
        Frames { layout, next }
    }
}

impl Iterator for Frames<'_> {
    type Item = Frame;

    #[inline]
    fn next(&mut self) -> Option<Frame> {
        let at = &self.layout.frame;
        while self.next != 0 {
            let frame = self.next;
            // SAFETY: a frame of this thread that has not returned, and its code object, which it keeps alive.
            unsafe {
                self.next = read(frame + u64::from(at.previous));
                if at.owner.is_some_and(|owner| read::<u8>(frame + u64::from(owner)) >= C_STACK) {
                    continue;
                }
                let code = read::<u64>(frame + u64::from(at.code)) & !TAG;
                let instruction = match at.instruction {
                    Instruction::Index { at, bytes } => {
                        read::<i32>(frame + u64::from(at)).wrapping_mul(bytes)
                    }
                    Instruction::Pointer { at, bytecode } => {
                        let address: u64 = read(frame + u64::from(at));
                        address.wrapping_sub(code + u64::from(bytecode)) as i32
                    }
                };
                return Some(Frame { code, instruction, identity: identity(&self.layout.code, code) });
            }
        }
        None
    }
}

/// Returns what tells a code object from others at its address.
///
/// # Safety
/// The calling thread keeps the code object alive.
#[inline]
unsafe fn identity(at: &Code, code: u64) -> u64 {
    // SAFETY: as the caller promises.
    unsafe {
        let first_line = u64::from(read::<u32>(code + u64::from(at.first_line)));
        match at.version.map_or(0, |version| read::<u32>(code + u64::from(version))) {
            0 => mix(first_line, contents(at, code)),
            version => first_line | u64::from(version) << 32,
        }
    }
}

/// Where code objects have no version: hashes what the code object consists of. Its parts may lie where those of another
/// one lay, so it takes some of what they contain.
///
/// # Safety
/// As for [`identity`].
unsafe fn contents(at: &Code, code: u64) -> u64 {
    // SAFETY: the code object's strings and bytes live as long as it does. The last eight bytes of an object are read only
    // if it is that long.
    unsafe {
        let part = |offset: u32| read::<u64>(code + u64::from(offset));
        let (table, name, file) = (part(at.line_table), part(at.name), part(at.file));
        let length = |object: u64| read::<u64>(object + LENGTH);
        let hash = |object: u64| read::<u64>(object + HASH);
        let last = |object: u64, start: u64| match length(object) {
            bytes @ 8.. => read::<u64>(object + start + bytes - 8),
            _ => 0,
        };
        let of_table = mix(table ^ length(table), last(table, BYTES));
        let of_name = mix(name ^ length(name), hash(name) ^ last(name, TEXT_START));
        let of_file = mix(file ^ length(file), hash(file) ^ last(file, TEXT_START));
        mix(of_table ^ of_name, of_file)
    }
}

/// Where the characters of an ASCII `str` begin before 3.12. Those of another one begin later, so that what is read lies
/// in it too.
const TEXT_START: u64 = 48;

/// Hashes frames up to and including the first that `is_last`, at most as many as a record has. Returns the hash, and how
/// many there were.
#[inline(always)]
pub fn hash(frames: Frames<'_>, mut is_last: impl FnMut(&Frame) -> bool) -> (u64, usize) {
    let (mut hash, mut count) = (0, 0);
    for frame in frames.take(MAX_FRAMES) {
        // Objects are aligned to 16 and user addresses have 47 bits, so the two do not overlap below 1 MiB of bytecode.
        let place = frame.code.rotate_left(16) ^ u64::from(frame.instruction as u32);
        hash = mix(hash ^ place, frame.identity);
        count += 1;
        if is_last(&frame) {
            break;
        }
    }
    (hash, count)
}
