//! How are functions hooked that are looked up with `dlsym`?
//!
//! `dlsym` is exported, so every lookup by handle in the process comes here first. The results for
//! RTLD_DEFAULT and RTLD_NEXT depend on the caller, which the C library finds by the return address. Those
//! lookups continue with a tail jump that leaves the caller's return address in place. (An ordinary call
//! would make *us* the caller, and a library's `dlsym(RTLD_NEXT, f)` would find its own f.) Lookups in a real
//! handle do not depend on the caller; there, and only for a name in the table, the result may be replaced.
//!
//! Two functions are called next: **libc's** dlsym for our own lookups, and the **next** dlsym in search
//! order for the app's, so that a dlsym hook that comes after ours is still called.

use crate::hook::{Hook, Hooks, Layer, Table};
use crate::interpose::{self, deepbind, unknown};
use crate::loader::{Dlsym, in_library, libc_dlsym, libraries, quietly};
use crate::sink;
use core::ffi::{CStr, c_char, c_void};
use core::sync::atomic::{AtomicUsize, Ordering};

/// The next dlsym in search order. Relaxed: code, immutable, and every thread finds the same.
static NEXT: AtomicUsize = AtomicUsize::new(0);

/// The exported `dlsym`.
///
/// # Safety
/// As dlsym(3).
#[cfg(target_arch = "x86_64")]
#[cfg_attr(not(test), unsafe(no_mangle))]
#[unsafe(naked)]
pub unsafe extern "C" fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    // RTLD_DEFAULT is 0 and RTLD_NEXT is -1: handle + 1 is at most 1 for these two and for no other. Both
    // ends are jumps: rsp and the return address are the caller's, and the argument registers are restored.
    core::arch::naked_asm!(
        "lea rax, [rdi + 1]",
        "cmp rax, 1",
        "ja {by_handle}",
        "mov rax, [rip + {next}]",
        "test rax, rax",
        "jnz 2f",
        "push rdi",
        "push rsi",
        "sub rsp, 8",
        "call {find}",
        "add rsp, 8",
        "pop rsi",
        "pop rdi",
        "2: jmp rax",
        by_handle = sym by_handle,
        next = sym NEXT,
        find = sym find_next,
    )
}

/// The exported `dlsym`.
///
/// # Safety
/// As dlsym(3).
#[cfg(target_arch = "aarch64")]
#[cfg_attr(not(test), unsafe(no_mangle))]
#[unsafe(naked)]
pub unsafe extern "C" fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    core::arch::naked_asm!(
        "add x9, x0, 1",
        "cmp x9, 1",
        "b.hi {by_handle}",
        "adrp x9, {next}",
        "ldr x9, [x9, :lo12:{next}]",
        "cbnz x9, 2f",
        "stp x0, x1, [sp, -32]!",
        "str x30, [sp, 16]",
        "bl {find}",
        "mov x9, x0",
        "ldr x30, [sp, 16]",
        "ldp x0, x1, [sp], 32",
        "2: br x9",
        by_handle = sym by_handle,
        next = sym NEXT,
        find = sym find_next,
    )
}

/// The address to jump to for the caller-dependent handles. Called from the naked code above.
extern "C" fn find_next() -> usize {
    next_dlsym() as usize
}

/// The next dlsym in search order: another hook's, or libc's.
fn next_dlsym() -> Dlsym {
    let mut address = NEXT.load(Ordering::Relaxed);
    if address == 0 {
        // SAFETY: a terminated name; RTLD_NEXT is relative to us.
        let found = unsafe { libc_dlsym()(libc::RTLD_NEXT, c"dlsym".as_ptr()) };
        address = if found.is_null() { libc_dlsym() as usize } else { found as usize };
        NEXT.store(address, Ordering::Relaxed);
    }
    // SAFETY: a function named dlsym, found by the loader: it has dlsym's prototype.
    unsafe { core::mem::transmute::<usize, Dlsym>(address) }
}

/// The first definition for the whole process, if it is our export.
pub fn first_if_ours(symbol: &CStr) -> Option<usize> {
    let first = quietly(|| {
        // SAFETY: a terminated name.
        let found = unsafe { libc_dlsym()(libc::RTLD_DEFAULT, symbol.as_ptr()) };
        (!found.is_null()).then_some(found as usize)
    })?;
    libraries::is_ours(first).then_some(first)
}

/// A lookup in a real handle: returns the next dlsym's result, or the hook that replaces it.
unsafe extern "C" fn by_handle(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    deepbind::bind_new();
    // SAFETY: the app's own arguments, passed on.
    let answer = unsafe { next_dlsym()(handle, name) };
    if answer.is_null() || name.is_null() {
        return answer;
    }
    // SAFETY: dlsym found something under this name, so it is a terminated string.
    let name = unsafe { CStr::from_ptr(name) };
    let Some(hook) = find(name) else {
        // (Another hook's result may be in another library.)
        if unknown::is_cudas(name) && in_library(handle, name).is_some_and(libraries::is_cuda) {
            unknown::found(name);
        }
        return answer;
    };
    substitute(hook, handle, answer as usize).map_or(answer, |entry| entry.cast_mut().cast())
}

/// The table's entry for an exported name. The first test rejects almost every name in a process's life.
pub fn find(name: &CStr) -> Option<&'static Hook> {
    let bytes = name.to_bytes();
    if !(bytes.starts_with(b"cu") || bytes.starts_with(b"__cuda")) {
        return None;
    }
    Table::all().iter().find(|hook| hook.symbol == name)
}

/// The hook to return instead of `answer`, if `answer` is the real function that the hook intercepts.
fn substitute(hook: &'static Hook, handle: *mut c_void, answer: usize) -> Option<*const ()> {
    if !sink::is_enabled() {
        return None;
    }
    // If the next dlsym returned something other than libc's result, that is a hook after ours: our hook
    // continues to it.
    let entry = wrapper(hook, in_library(handle, hook.symbol)?, answer);
    if hook.layer == Layer::Driver {
        sink::looked_up(hook, entry.is_some());
    }
    entry
}

/// Our function that continues to `next`, if `found` is the real function that the hook intercepts.
pub fn wrapper(hook: &'static Hook, found: usize, next: usize) -> Option<*const ()> {
    // The wrapper continues to a runtime's function for good, so the runtime must stay loaded.
    let stays =
        || hook.layer == Layer::Driver || libraries::runtime_at(found).and_then(libraries::pinned).is_some();
    (is_real(hook, found) && stays()).then(|| hook.wrapper(next)).flatten()
}

/// Whether `found` is the real function that a hook intercepts.
pub fn is_real(hook: &Hook, found: usize) -> bool {
    match hook.layer {
        Layer::Driver => interpose::is_real(hook, found),
        Layer::Runtime => libraries::runtime_at(found).is_some(),
    }
}
