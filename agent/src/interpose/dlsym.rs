//! How are functions hooked that are looked up with `dlsym`?
//!
//! `dlsym` is exported, so every lookup by handle in the process comes here first. The results for
//! RTLD_DEFAULT and RTLD_NEXT depend on the caller, which the C library finds by the return address. Those
//! lookups continue with a tail jump that leaves the caller's return address in place. (An ordinary call
//! would make *us* the caller, and a library's `dlsym(RTLD_NEXT, f)` would find its own f.) Lookups in a real
//! handle do not depend on the caller; there, and only for a name in the table, the result may be replaced.
//!
//! A name of the table that nothing behind us defines as a function is not found through us either: see
//! [`without_us`].
//!
//! Two functions are called next: **libc's** dlsym for our own lookups, and the **next** dlsym in search
//! order for the app's, so that a dlsym hook that comes after ours is still called.

use crate::hook::{Hook, Hooks, Layer, Table};
use crate::interpose::{self, deepbind, own_symbols, unknown};
use crate::loader::{Dlsym, in_library, libc_dlsym, libraries, quietly};
use crate::sink;
use crate::sys::Errno;
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
        "mov rdx, [rsp]",
        "push rdi",
        "push rsi",
        "sub rsp, 8",
        "call {by_caller}",
        "add rsp, 8",
        "pop rsi",
        "pop rdi",
        "jmp rax",
        by_handle = sym by_handle,
        by_caller = sym by_caller,
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
        "mov x2, x30",
        "stp x0, x1, [sp, -32]!",
        "str x30, [sp, 16]",
        "bl {by_caller}",
        "mov x9, x0",
        "ldr x30, [sp, 16]",
        "ldp x0, x1, [sp], 32",
        "br x9",
        by_handle = sym by_handle,
        by_caller = sym by_caller,
    )
}

/// The address to jump to for the caller-dependent handles. Called from the naked code above.
extern "C" fn by_caller(handle: *mut c_void, name: *const c_char, caller: u64) -> usize {
    // SAFETY: the app's own argument; dlsym reads it as a terminated string, too.
    let hook = (!name.is_null()).then(|| Table::named(unsafe { CStr::from_ptr(name) })).flatten();
    match hook {
        Some(hook) if is_only_ours(hook, handle, caller) => without_us as *const () as usize,
        _ => next_dlsym() as usize,
    }
}

/// Whether the lookup would find our function although nothing behind us defines one of this name.
#[cold]
fn is_only_ours(hook: &Hook, handle: *mut c_void, caller: u64) -> bool {
    let errno = Errno::save();
    own_symbols::give_back_new();
    let in_front = || first_if_ours(hook.symbol).is_none();
    let behind_caller = || handle == libc::RTLD_NEXT && libraries::is_behind_us(caller);
    let is_ours = !interpose::is_defined(hook, caller) && !in_front() && !behind_caller();
    errno.restore();
    is_ours
}

/// Looks a name up in what is behind us in search order. That leaves dlerror(3) with the name if there is nothing.
unsafe extern "C" fn without_us(_: *mut c_void, name: *const c_char) -> *mut c_void {
    // SAFETY: the app's own argument; RTLD_NEXT is relative to us, the caller. (The black box keeps the compiler from
    // making this call a jump, by which the caller would be the app.)
    core::hint::black_box(unsafe { libc_dlsym()(libc::RTLD_NEXT, name) })
}

/// The next dlsym in search order: another hook's, or libc's.
fn next_dlsym() -> Dlsym {
    let mut address = NEXT.load(Ordering::Relaxed);
    if address == 0 {
        // SAFETY: a terminated name; RTLD_NEXT is relative to us.
        let found = unsafe { libc_dlsym()(libc::RTLD_NEXT, c"dlsym".as_ptr()) };
        if found.is_null() {
            return libc_dlsym(); // in a libdl that only some of the objects see, or nowhere yet
        }
        address = found as usize;
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
    let Some(hook) = Table::named(name) else {
        // (Another hook's result may be in another library.)
        if unknown::is_cudas(name) && in_library(handle, name).is_some_and(libraries::is_cuda) {
            unknown::found(name);
        }
        return answer;
    };
    own_symbols::give_back_new();
    if answer == hook.by_symbol().cast_mut().cast() && !interpose::is_defined(hook, 0) {
        // SAFETY: the app's own argument.
        return unsafe { without_us(handle, hook.symbol.as_ptr()) };
    }
    substitute(hook, handle, answer as usize).map_or(answer, |entry| entry.cast_mut().cast())
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
    if !is_real(hook, found) || !stays() {
        return None;
    }
    match hook.layer {
        Layer::Driver => interpose::wrapper_in_driver(hook, next),
        // Which runtime the export continues to depends on the caller.
        Layer::Runtime => hook.wrapper(next),
    }
}

/// Whether `found` is the real function that a hook intercepts.
pub fn is_real(hook: &Hook, found: usize) -> bool {
    match hook.layer {
        Layer::Driver => interpose::is_real(hook, found),
        Layer::Runtime => libraries::runtime_at(found).is_some(),
    }
}
