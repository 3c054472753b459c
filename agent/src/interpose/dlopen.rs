//! When does the process load libraries? `dlopen` is exported to notice that, and whether the library asked for
//! `RTLD_DEEPBIND`.
//!
//! It continues with a tail jump, so that the C library sees the true caller: which files it finds depends on the
//! caller's RUNPATH and namespace. So we run before a library is loaded and never behind, and what a library needs of us
//! is done at the next `dlopen`, or at the next lookup of a function in the table, whichever is first.

use crate::interpose::{deepbind, own_symbols};
use crate::loader::next_dlopen;
use core::ffi::{c_char, c_int, c_void};
use core::sync::atomic::Ordering;

/// The exported `dlopen`.
///
/// # Safety
/// As dlopen(3).
#[cfg(target_arch = "x86_64")]
#[cfg_attr(not(test), unsafe(no_mangle))]
#[unsafe(naked)]
pub unsafe extern "C" fn dlopen(file: *const c_char, flags: c_int) -> *mut c_void {
    // The end is a jump: rsp and the return address are the caller's, and the argument registers are
    // restored.
    core::arch::naked_asm!(
        "push rdi",
        "push rsi",
        "sub rsp, 8",
        "mov edi, esi",
        "call {before}",
        "add rsp, 8",
        "pop rsi",
        "pop rdi",
        "jmp rax",
        before = sym before,
    )
}

/// The exported `dlopen`.
///
/// # Safety
/// As dlopen(3).
#[cfg(target_arch = "aarch64")]
#[cfg_attr(not(test), unsafe(no_mangle))]
#[unsafe(naked)]
pub unsafe extern "C" fn dlopen(file: *const c_char, flags: c_int) -> *mut c_void {
    core::arch::naked_asm!(
        "stp x0, x1, [sp, -32]!",
        "str x30, [sp, 16]",
        "mov w0, w1",
        "bl {before}",
        "mov x9, x0",
        "ldr x30, [sp, 16]",
        "ldp x0, x1, [sp], 32",
        "br x9",
        before = sym before,
    )
}

/// Returns the address to jump to. Called from the naked code above.
extern "C" fn before(flags: c_int) -> usize {
    if flags & libc::RTLD_DEEPBIND != 0 {
        deepbind::GIVEN.store(true, Ordering::Relaxed);
    }
    own_symbols::give_back_new();
    next_dlopen() as usize
}
