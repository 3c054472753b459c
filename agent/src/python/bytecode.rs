//! Which instruction does a frame run, where each thread has a copy of the bytecode?
//!
//! A frame's hash needs no more than the address of its instruction. Only a stack that is sent says where that is in the
//! bytecode.

use crate::memory::{checked_word, read};
use crate::python::frames::Frame;
use crate::python::layout::{Copies, Instruction, Layout};

/// More than any bytecode has, bytes.
const MOST: u64 = 1 << 28;

/// Returns the place of a frame in its bytecode, bytes; -1 where it is not known.
///
/// # Safety
/// The calling thread's own frame, which has not returned; its interpreter is laid out like this.
pub unsafe fn instruction(layout: &Layout, frame: &Frame) -> i32 {
    let Instruction::Pointer { bytecode, copies: Some(copies), .. } = layout.frame.instruction else {
        return frame.place as i32;
    };
    // SAFETY: as the caller promises.
    let index: u32 = unsafe { read(frame.address + u64::from(copies.index)) };
    if index == 0 {
        return frame.place as i32;
    }
    let address = (frame.code + u64::from(bytecode)).wrapping_add_signed(frame.place);
    in_copy(copies, frame.code, index, address).unwrap_or(-1)
}

/// Returns where an address is in a thread's copy of a code object's bytecode, bytes. `None`: it is not in it, or the list of
/// the copies has just been replaced. Nothing can fault here: another thread may free the list.
pub fn in_copy(copies: Copies, code: u64, index: u32, address: u64) -> Option<i32> {
    let array = checked_word(code.checked_add(u64::from(copies.array))?)?;
    let copy = checked_word(array.checked_add(8 + 8 * u64::from(index))?)?;
    address.checked_sub(copy).filter(|offset| *offset < MOST).map(|offset| offset as i32)
}
