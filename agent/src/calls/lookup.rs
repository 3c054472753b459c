//! Lookups: the calls that hand out driver functions.

use core::ffi::CStr;

use crate::cuda::*;
use crate::hook::Entry;
use crate::interpose::{getproc, unknown};
use crate::sink;

/// A question for a driver function.
pub struct Lookup {
    pub symbol: *const char_t,
    pub pfn: *mut *mut void,
}

/// Asks the real function first, and replaces its answer where the table has a hook for exactly that. Results, statuses
/// and everything else are the real one's. No session begins on account of a lookup.
pub fn lookup(_: Entry, what: impl FnOnce() -> Lookup, real: impl FnOnce() -> CUresult) -> CUresult {
    let what = what();
    let counted = unknown::counted();
    let result = real();
    if result != CUDA_SUCCESS || what.symbol.is_null() || what.pfn.is_null() || !sink::is_enabled() {
        return result; // (success with a null pointer is valid: below)
    }
    // SAFETY: the call succeeded by this terminated name.
    let symbol = unsafe { CStr::from_ptr(what.symbol) };
    // SAFETY: the call succeeded, so it has written there.
    let answer = unsafe { *what.pfn };
    if answer.is_null() {
        return result;
    }
    match getproc::substitute(symbol, answer as usize) {
        // SAFETY: as above.
        Some(hook) => unsafe { *what.pfn = hook.cast_mut().cast() },
        // A runtime that has asked the driver through us has had it counted.
        None if unknown::counted() == counted => unknown::found(symbol),
        None => {}
    }
    result
}
