//! Is the interpreter laid out as its version says? Confirmed once, on the first thread that has frames, by checked
//! reads, which nothing can make fault. After that a hook reads what it has to without checking.

use crate::memory::{can_be_checked, checked_byte, checked_int, checked_word};
use crate::python::bytecode::in_copy;
use crate::python::interpreter::Interpreter;
use crate::python::layout::{C_STACK, Instruction, TAG};

/// What a check found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// All is as expected.
    Confirmed,
    /// The thread has no frames: another one may.
    NothingToSee,
    /// Something is not as the version's headers say.
    Different,
    /// The system refuses checked reads.
    Refused,
}

/// The number of frames that are checked at most.
const FRAMES: usize = 64;

/// Checks the calling thread's state and frames.
pub fn check(interpreter: &Interpreter, thread: u64) -> Outcome {
    if !can_be_checked() {
        return Outcome::Refused;
    }
    match check_frames(interpreter, thread) {
        Some(0) => Outcome::NothingToSee,
        Some(_) => Outcome::Confirmed,
        None => Outcome::Different,
    }
}

/// Returns the number of frames that were checked; `None`: one is not as expected.
fn check_frames(interpreter: &Interpreter, thread: u64) -> Option<usize> {
    let layout = &interpreter.layout;
    let at = |offset: u32| u64::from(offset);
    // SAFETY: no arguments, no failure.
    let this_thread = unsafe { libc::pthread_self() };
    if checked_word(thread + at(layout.thread.id))? != this_thread {
        return None;
    }
    let mut frame = checked_word(thread + at(layout.thread.frame))?;
    if let Some(in_cframe) = layout.thread.in_cframe {
        frame = checked_word(frame.checked_add(at(in_cframe))?)?;
    }
    let mut checked = 0;
    for _ in 0..FRAMES {
        if frame == 0 {
            break;
        }
        let place = |offset: u32| frame.checked_add(at(offset));
        let owner = match layout.frame.owner {
            Some(owner) => checked_byte(place(owner)?)?,
            None => 0,
        };
        if owner < C_STACK {
            let code = checked_word(place(layout.frame.code)?)? & !TAG;
            check_code(interpreter, code)?;
            if let Instruction::Pointer { at, copies: Some(copies), .. } = layout.frame.instruction {
                let index = checked_int(place(copies.index)?)?.try_into().ok()?;
                in_copy(copies, code, index, checked_word(place(at)?)?)?;
            }
            checked += 1;
        }
        frame = checked_word(place(layout.frame.previous)?)?;
    }
    Some(checked)
}

/// Checks that this is a code object whose parts are what they should be.
fn check_code(interpreter: &Interpreter, code: u64) -> Option<()> {
    let (types, at) = (&interpreter.types, &interpreter.layout.code);
    let kind = u64::from(interpreter.layout.object.kind);
    let has_type =
        |object: u64, expected: u64| (checked_word(object.checked_add(kind)?)? == expected).then_some(());
    let part = |offset: u32| checked_word(code.checked_add(u64::from(offset))?);
    has_type(code, types.code)?;
    has_type(part(at.file)?, types.text)?;
    has_type(part(at.name)?, types.text)?;
    has_type(part(at.line_table)?, types.bytes)?;
    (checked_int(code.checked_add(u64::from(at.first_line))?)? >= 0).then_some(())
}
