//! Which symbols do our exports take from the program that it must keep?
//!
//! We are first in the search order, so every reference to a name of the table is bound to our function. Two kinds of
//! references are given back, when the loader has bound them and before the program uses them:
//!
//! - **Variables.** Libraries that find CUDA at run time (cuew and its likes) have variables of their own with CUDA's
//!   names, and write `cuInit = dlsym(…)`. Bound to us, they would write into our code.
//! - **Weak references without a definition.** A program that asks `if (cudaMalloc)` whether CUDA is there must find
//!   that it is not.
//!
//! That is done in every process, also where gpuspy is turned off. At the start a constructor of ours does it: the
//! loader has bound everything by then, though libraries' own constructors may have run. For what is loaded later see
//! [`dlopen`](super::dlopen).

use crate::hook::{Hook, Hooks, Table};
use crate::interpose::runtime;
use crate::loader::libraries::{self, List};
use crate::loader::next_definition;
use crate::loader::slots::{self, Reference, Slot};
use crate::sys::Errno;
use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering};

/// The loader's count of objects ever added when the references of all of them had last been looked at. Release after
/// the references have been changed, acquire by a thread that finds nothing new.
static SEEN: AtomicU64 = AtomicU64::new(0);

/// Runs when the loader has bound the objects that the program starts with.
#[cfg(not(test))]
#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = {
    extern "C" fn at_load() {
        crate::loader::late::bind_at_start();
        crate::sys::remember_stderr();
        crate::loader::walks::watch_forks();
        libraries::process_starts();
        if libraries::is_second_copy() {
            crate::sink::leave_to_other_copy();
        }
        give_back_new();
    }
    at_load
};

/// Gives the references of newly loaded objects back, and forgets what was known of unloaded ones.
#[inline]
pub fn give_back_new() {
    let (adds, unloaded) = libraries::changes();
    runtime::forget_unloaded(unloaded);
    if adds != SEEN.load(Ordering::Acquire) {
        give_back();
    }
}

#[cold]
fn give_back() {
    let errno = Errno::save();
    let seen = SEEN.load(Ordering::Acquire);
    let ours = libraries::ours();
    let list = List::steady(|list| {
        libraries::wait_for_loading();
        let known = list.known_since(seen);
        slots::change(list, known, |reference| Taken::of(reference, &ours), Taken::without_us)
    });
    if let Some(list) = list {
        SEEN.store(list.adds, Ordering::Release);
    }
    errno.restore();
}

/// A reference that was bound to us.
#[derive(Clone, Copy)]
enum Taken {
    Address {
        hook: &'static Hook,
        is_weak: bool,
    },
    /// The first word of our function, where the program's copy of a library's variable is.
    Copy {
        hook: &'static Hook,
    },
}

impl Taken {
    fn of(reference: &Reference<'_>, ours: &Range<usize>) -> Option<Taken> {
        if let Some(bytes) = reference.copied_bytes() {
            let hook = Table::named(reference.name()).filter(|_| bytes == size_of::<usize>())?;
            return Some(Taken::Copy { hook });
        }
        // What others bind to is rejected by its address, without a look at its name.
        if !ours.contains(&reference.slot.value) {
            return None;
        }
        Some(Taken::Address { hook: Table::named(reference.name())?, is_weak: reference.is_weak() })
    }

    /// Returns what the slot would hold without us, if that is not a function.
    fn without_us(slot: &Slot, taken: Taken) -> Option<usize> {
        match taken {
            Taken::Address { hook, is_weak } => match behind_us(slot.address, hook) {
                Some(found) => (!libraries::is_code(found)).then_some(found),
                None => is_weak.then_some(0),
            },
            Taken::Copy { hook } => {
                let variable = behind_us(slot.address, hook).filter(|found| !libraries::is_code(*found))?;
                // SAFETY: the first word of our own function, and a loaded library's variable of that size; both are
                // aligned, as functions are by 16 and the loader's copies by their size.
                let (code, original) = unsafe {
                    (
                        (hook.by_symbol() as *const usize).read_unaligned(),
                        (variable as *const usize).read_unaligned(),
                    )
                };
                // A constructor may have given the variable a value already.
                (slot.value == code).then_some(original)
            }
        }
    }
}

/// The definition that the object with this address would find without us.
fn behind_us(address: u64, hook: &Hook) -> Option<usize> {
    next_definition(hook.symbol).or_else(|| libraries::in_scopes_of(address, hook.symbol))
}
