//! Libraries that are loaded with `RTLD_DEEPBIND`: they look into themselves and what they need before the rest of the
//! process, so their `dlsym` is libc's and their CUDA functions are the driver's own.
//!
//! The flag means that to them, and keeps meaning it: every symbol stays bound as the loader bound it, but for the slots of
//! `dlsym` and of CUDA functions in the table, which are led to us. `dlopen` is exported only to notice the flag: it
//! goes on by a tail jump, so that the C library sees the true caller (RUNPATH and namespace depend on it). The slots are
//! looked through at the next lookup by handle, which whoever loads a library makes: what its constructors call goes by.

use crate::hook::Hook;
use crate::roads::dlsym;
use crate::roads::libraries;
use crate::roads::slots::{self, Slot};
use crate::session;
use crate::sys::Errno;
use core::ffi::{CStr, c_char, c_int, c_void};
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// The flag was given at least once. Relaxed: whoever loaded the library looks up in it on the same thread, or tells
/// another with an ordering of its own.
static GIVEN: AtomicBool = AtomicBool::new(false);
/// The loader's count of objects ever added, when the slots were last looked through. Relaxed: a number; two who look at once
/// write the same.
static LOOKED: AtomicU64 = AtomicU64::new(0);
/// The next dlopen in search order. Relaxed: code, immutable, and every thread finds the same.
static NEXT: AtomicUsize = AtomicUsize::new(0);

/// The exported `dlopen`.
///
/// # Safety
/// As dlopen(3).
#[cfg(target_arch = "x86_64")]
#[cfg_attr(not(test), unsafe(no_mangle))]
#[unsafe(naked)]
pub unsafe extern "C" fn dlopen(file: *const c_char, flags: c_int) -> *mut c_void {
    // The end is a jump: rsp and the return address are the caller's, the argument registers are restored.
    core::arch::naked_asm!(
        "test esi, {deepbind}",
        "jz 2f",
        "mov byte ptr [rip + {given}], 1",
        "2: mov rax, [rip + {next}]",
        "test rax, rax",
        "jnz 3f",
        "push rdi",
        "push rsi",
        "sub rsp, 8",
        "call {find}",
        "add rsp, 8",
        "pop rsi",
        "pop rdi",
        "3: jmp rax",
        deepbind = const libc::RTLD_DEEPBIND,
        given = sym GIVEN,
        next = sym NEXT,
        find = sym find_next,
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
        "tst w1, {deepbind}",
        "b.eq 2f",
        "mov w9, 1",
        "adrp x10, {given}",
        "strb w9, [x10, :lo12:{given}]",
        "2: adrp x9, {next}",
        "ldr x9, [x9, :lo12:{next}]",
        "cbnz x9, 3f",
        "stp x0, x1, [sp, -32]!",
        "str x30, [sp, 16]",
        "bl {find}",
        "mov x9, x0",
        "ldr x30, [sp, 16]",
        "ldp x0, x1, [sp], 32",
        "3: br x9",
        deepbind = const libc::RTLD_DEEPBIND,
        given = sym GIVEN,
        next = sym NEXT,
        find = sym find_next,
    )
}

/// The address to jump to. Called from the naked code above.
extern "C" fn find_next() -> usize {
    let found = dlsym::next_definition(c"dlopen").unwrap_or(no_dlopen as *const () as usize);
    NEXT.store(found, Ordering::Relaxed);
    found
}

/// Stands in for a C library without a dlopen that we can find: nothing is ever loaded.
unsafe extern "C" fn no_dlopen(_: *const c_char, _: c_int) -> *mut c_void {
    core::ptr::null_mut()
}

/// Leads the slots of what was loaded since to us, if there was anything that does not come to us by itself.
#[inline]
pub fn look() {
    if GIVEN.load(Ordering::Relaxed) {
        look_at_new();
    }
}

#[cold]
fn look_at_new() {
    let adds = libraries::adds();
    if LOOKED.swap(adds, Ordering::Relaxed) == adds || !session::is_enabled() {
        return;
    }
    let errno = Errno::save();
    let mut found = Vec::new();
    slots::each(wanted, |slot, wanted| {
        found.push((*slot, wanted));
        None
    });
    // The loader is asked between two walks over its list, not during one: its locks have an order. In the second walk
    // the object is there as long as we write.
    let decided: Vec<(Slot, usize)> =
        found.into_iter().filter_map(|(slot, wanted)| Some((slot, in_place_of(&slot, wanted)?))).collect();
    if !decided.is_empty() {
        slots::each(wanted, |slot, _| decided.iter().find(|(known, _)| known == slot).map(|(_, ours)| *ours));
    }
    errno.restore();
}

/// A symbol whose slots may be led to us.
#[derive(Clone, Copy)]
enum Wanted {
    Dlsym,
    Function(&'static Hook),
}

fn wanted(name: &CStr) -> Option<Wanted> {
    if name == c"dlsym" { Some(Wanted::Dlsym) } else { dlsym::find(name).map(Wanted::Function) }
}

/// The function of ours that belongs into a slot, if what it holds passes us by.
fn in_place_of(slot: &Slot, wanted: Wanted) -> Option<usize> {
    match wanted {
        // The loader would bind it at its first use. Where we come first for everybody, that is to us.
        Wanted::Dlsym if !slot.is_bound => dlsym::first_if_ours(c"dlsym"),
        Wanted::Function(hook) if !slot.is_bound => dlsym::first_if_ours(hook.symbol),
        Wanted::Dlsym => dlsym::is_libc_own(slot.value).then_some(dlsym::dlsym as *const () as usize),
        Wanted::Function(hook) => dlsym::stand_in(hook, slot.value, slot.value).map(|ours| ours as usize),
    }
}
