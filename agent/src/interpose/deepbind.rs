//! How are libraries hooked that are loaded with `RTLD_DEEPBIND`? They search themselves and their
//! dependencies before the rest of the process, so their `dlsym` is libc's and their CUDA functions are the
//! driver's own.
//!
//! The flag keeps its meaning: every symbol stays bound as the loader bound it, except for the slots of
//! `dlsym` and of CUDA functions in the table, which are changed to point to us. `dlopen` is exported only to
//! notice the flag. It continues with a tail jump, so that the C library sees the true caller (RUNPATH and
//! namespace depend on it). The slots are searched at the next lookup by handle, which a program that loads a
//! library makes; calls by the library's constructors are missed.

use crate::hook::Hook;
use crate::interpose::dlsym;
use crate::loader::libraries::{self, List};
use crate::loader::slots::{self, Slot};
use crate::loader::{in_library, is_libc_own, next_definition};
use crate::sink;
use crate::sys::Errno;
use core::ffi::{CStr, c_char, c_int, c_void};
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// Whether the flag was given at least once. Relaxed: the thread that loaded the library looks up functions
/// in it itself, or informs another thread with an ordering of its own.
static GIVEN: AtomicBool = AtomicBool::new(false);
/// The loader's count of objects ever added when all their slots had last been searched. Release after the
/// slots have been written, acquire by a thread that finds nothing new.
static SEARCHED: AtomicU64 = AtomicU64::new(0);
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
    // The end is a jump: rsp and the return address are the caller's, and the argument registers are
    // restored.
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
    let found = next_definition(c"dlopen").unwrap_or(no_dlopen as *const () as usize);
    NEXT.store(found, Ordering::Relaxed);
    found
}

/// Replaces dlopen in a C library where we cannot find it: nothing is ever loaded.
unsafe extern "C" fn no_dlopen(_: *const c_char, _: c_int) -> *mut c_void {
    core::ptr::null_mut()
}

/// The number of searches of the slots while other threads load and unload libraries; after that, the next
/// lookup searches.
const TRIES: usize = 4;

/// Redirects the slots of newly loaded objects to us, if a library was loaded whose calls do not reach us
/// otherwise.
#[inline]
pub fn bind_new() {
    if GIVEN.load(Ordering::Relaxed) && sink::is_enabled() {
        search_new();
    }
}

#[cold]
fn search_new() {
    let searched = SEARCHED.load(Ordering::Acquire);
    if libraries::adds() == searched {
        return;
    }
    let errno = Errno::save();
    let list = (0..TRIES).map(|_| List::now()).find(|list| redirect(list, searched));
    if let Some(list) = list {
        SEARCHED.store(list.adds, Ordering::Release);
    }
    errno.restore();
}

/// Redirects the slots in the last objects of a list to us: at most as many objects as were added since the
/// count was `searched`. Returns false when the loader has changed the list meanwhile. (Two threads that do
/// so at the same time write the same values.)
fn redirect(list: &List, searched: u64) -> bool {
    libraries::wait_for_loading();
    let known = list.objects.saturating_sub(list.adds.wrapping_sub(searched));
    let mut count = 0;
    let counted = slots::each(list, known, wanted, |_, _| {
        count += 1;
        None
    });
    let mut found = Vec::with_capacity(count);
    let gathered = slots::each(list, known, wanted, |slot, wanted| {
        if found.len() < count {
            found.push((*slot, wanted));
        }
        None
    });
    // The loader is called between the walks over its list rather than during one, because its locks have an
    // order. During the last walk, the object stays loaded while we write.
    let decided: Vec<(Slot, usize)> = found
        .into_iter()
        .filter_map(|(slot, wanted)| Some((slot, replacement_for(&slot, wanted)?)))
        .collect();
    let ours = |slot: &Slot| decided.iter().find(|(known, _)| known == slot).map(|(_, ours)| *ours);
    counted && gathered && slots::each(list, known, wanted, |slot, _| ours(slot))
}

/// A symbol whose slots may be redirected to us.
#[derive(Clone, Copy)]
enum Wanted {
    Dlsym,
    Function(&'static Hook),
}

fn wanted(name: &CStr) -> Option<Wanted> {
    if name == c"dlsym" { Some(Wanted::Dlsym) } else { dlsym::find(name).map(Wanted::Function) }
}

impl Wanted {
    fn symbol(self) -> &'static CStr {
        match self {
            Wanted::Dlsym => c"dlsym",
            Wanted::Function(hook) => hook.symbol,
        }
    }

    /// Whether a function is the C library's, or CUDA's own.
    fn is_real(self, found: usize) -> bool {
        match self {
            Wanted::Dlsym => is_libc_own(found),
            Wanted::Function(hook) => dlsym::is_real(hook, found),
        }
    }
}

/// The function of ours for a slot, if the function that is in it, or that would be bound, bypasses us.
fn replacement_for(slot: &Slot, wanted: Wanted) -> Option<usize> {
    if !slot.is_bound {
        // At the first use, the loader would bind the slot to a function of the object or its dependencies,
        // if the object is bound deeply, and otherwise to the first definition in the process, which must be
        // ours.
        return in_own_scope(slot, wanted.symbol())
            .filter(|found| wanted.is_real(*found))
            .and_then(|_| dlsym::first_if_ours(wanted.symbol()));
    }
    match wanted {
        Wanted::Dlsym => wanted.is_real(slot.value).then_some(dlsym::dlsym as *const () as usize),
        Wanted::Function(hook) => dlsym::wrapper(hook, slot.value, slot.value).map(|ours| ours as usize),
    }
}

/// The function that the object with this slot finds in itself and its dependencies. `None` for the program
/// itself, which is not bound deeply.
fn in_own_scope(slot: &Slot, symbol: &CStr) -> Option<usize> {
    let (object, _) = libraries::holder_of(slot.address)?;
    let path = object.path.as_c_str();
    if path.is_empty() {
        return None;
    }
    libraries::with(path, |handle| in_library(handle, symbol))
}
