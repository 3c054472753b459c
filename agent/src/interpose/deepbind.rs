//! How are libraries hooked that are loaded with `RTLD_DEEPBIND`? They search themselves and their
//! dependencies before the rest of the process, so their `dlsym` is libc's and their CUDA functions are the
//! driver's own.
//!
//! The flag keeps its meaning: every symbol stays bound as the loader bound it, except for the slots of
//! `dlsym` and of CUDA functions in the table, which are changed to point to us. The slots are searched at the
//! next lookup by handle, which a program that loads a library makes; calls by the library's constructors are
//! missed.

use crate::hook::{Hook, Hooks, Table};
use crate::interpose::dlsym;
use crate::loader::is_libc_own;
use crate::loader::libraries::{self, List};
use crate::loader::slots::{self, Reference, Slot};
use crate::sink;
use crate::sys::Errno;
use core::ffi::CStr;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Whether the flag was given at least once. Relaxed: the thread that loaded the library looks up functions
/// in it itself, or informs another thread with an ordering of its own.
pub static GIVEN: AtomicBool = AtomicBool::new(false);
/// The loader's count of objects ever added when all their slots had last been searched. Release after the
/// slots have been written, acquire by a thread that finds nothing new.
static SEARCHED: AtomicU64 = AtomicU64::new(0);
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
    if let Some(list) = List::steady(|list| redirect(list, searched)) {
        SEARCHED.store(list.adds, Ordering::Release);
    }
    errno.restore();
}

/// Redirects the slots in the last objects of a list to us: at most as many objects as were added since the
/// count was `searched`. Returns false when the loader has changed the list meanwhile. (Two threads that do
/// so at the same time write the same values.)
fn redirect(list: &List, searched: u64) -> bool {
    libraries::wait_for_loading();
    slots::change(list, list.known_since(searched), wanted, replacement_for)
}

/// A symbol whose slots may be redirected to us.
#[derive(Clone, Copy)]
enum Wanted {
    Dlsym,
    Function(&'static Hook),
}

fn wanted(reference: &Reference<'_>) -> Option<Wanted> {
    // A symbol that the object itself defines means that definition.
    if reference.is_own() || reference.copied_bytes().is_some() {
        return None;
    }
    let name = reference.name();
    if name == c"dlsym" { Some(Wanted::Dlsym) } else { Table::named(name).map(Wanted::Function) }
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
        return libraries::in_scope_of(slot.address, wanted.symbol())
            .filter(|found| wanted.is_real(*found))
            .and_then(|_| dlsym::first_if_ours(wanted.symbol()));
    }
    match wanted {
        Wanted::Dlsym => wanted.is_real(slot.value).then_some(dlsym::dlsym as *const () as usize),
        Wanted::Function(hook) => dlsym::wrapper(hook, slot.value, slot.value).map(|ours| ours as usize),
    }
}
