//! Libraries that are loaded with `RTLD_DEEPBIND`: they look into themselves and what they need before the rest of the
//! process, so their `dlsym` is libc's and their CUDA functions are the driver's own.
//!
//! The flag means that to them, and keeps meaning it: every symbol stays bound as the loader bound it, but for the slots of
//! `dlsym` and of CUDA functions in the table, which are led to us. `dlopen` is exported only to notice the flag: it
//! goes on by a tail jump, so that the C library sees the true caller (RUNPATH and namespace depend on it). The slots are
//! looked through at the next lookup by handle, which whoever loads a library makes: what its constructors call goes by.

use crate::hook::Hook;
use crate::interpose::dlsym;
use crate::loader::libraries::{self, List};
use crate::loader::slots::{self, Slot};
use crate::loader::{in_library, is_libc_own, next_definition};
use crate::sink;
use crate::sys::Errno;
use core::ffi::{CStr, c_char, c_int, c_void};
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// The flag was given at least once. Relaxed: whoever loaded the library looks up in it on the same thread, or tells
/// another with an ordering of its own.
static GIVEN: AtomicBool = AtomicBool::new(false);
/// The loader's count of objects ever added, when all slots of theirs had been looked through. Release when they have been
/// written, acquire by who finds nothing new.
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
    let found = next_definition(c"dlopen").unwrap_or(no_dlopen as *const () as usize);
    NEXT.store(found, Ordering::Relaxed);
    found
}

/// Stands in for a C library without a dlopen that we can find: nothing is ever loaded.
unsafe extern "C" fn no_dlopen(_: *const c_char, _: c_int) -> *mut c_void {
    core::ptr::null_mut()
}

/// How often the slots are looked through while other threads load and unload libraries; then it is the next lookup's.
const TRIES: usize = 4;

/// Leads the slots of what was loaded since to us, if there was anything that does not come to us by itself.
#[inline]
pub fn look() {
    if GIVEN.load(Ordering::Relaxed) && sink::is_enabled() {
        look_at_new();
    }
}

#[cold]
fn look_at_new() {
    let looked = LOOKED.load(Ordering::Acquire);
    if libraries::adds() == looked {
        return;
    }
    let errno = Errno::save();
    let list = (0..TRIES).map(|_| List::now()).find(|list| lead(list, looked));
    if let Some(list) = list {
        LOOKED.store(list.adds, Ordering::Release);
    }
    errno.restore();
}

/// Leads the slots of what a list has at its end to us: as many objects as were added since there were `looked` at most.
/// False when the loader has changed the list meanwhile. (Two threads that do so at once write the same.)
fn lead(list: &List, looked: u64) -> bool {
    libraries::wait_for_loading();
    let known = list.objects.saturating_sub(list.adds.wrapping_sub(looked));
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
    // The loader is asked between the walks over its list, not during one: its locks have an order. In the last walk the
    // object is there as long as we write.
    let decided: Vec<(Slot, usize)> =
        found.into_iter().filter_map(|(slot, wanted)| Some((slot, in_place_of(&slot, wanted)?))).collect();
    let ours = |slot: &Slot| decided.iter().find(|(known, _)| known == slot).map(|(_, ours)| *ours);
    counted && gathered && slots::each(list, known, wanted, |slot, _| ours(slot))
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

/// The function of ours that belongs into a slot, if what it holds, or would, passes us by.
fn in_place_of(slot: &Slot, wanted: Wanted) -> Option<usize> {
    if !slot.is_bound {
        // At the first use, the loader would bind it to what the object and what it needs have, if that is bound deeply;
        // and anything else to what comes first for everybody, which is to be us.
        return in_own_scope(slot, wanted.symbol())
            .filter(|found| wanted.is_real(*found))
            .and_then(|_| dlsym::first_if_ours(wanted.symbol()));
    }
    match wanted {
        Wanted::Dlsym => wanted.is_real(slot.value).then_some(dlsym::dlsym as *const () as usize),
        Wanted::Function(hook) => dlsym::wrapper(hook, slot.value, slot.value).map(|ours| ours as usize),
    }
}

/// What the object that a slot lies in finds in itself and what it needs. Of the program itself, nothing: it is not bound
/// deeply.
fn in_own_scope(slot: &Slot, symbol: &CStr) -> Option<usize> {
    let (object, _) = libraries::holder_of(slot.address)?;
    let path = object.path.as_c_str();
    if path.is_empty() {
        return None;
    }
    libraries::with(path, |handle| in_library(handle, symbol))
}
