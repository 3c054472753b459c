//! How are the calls hooked that hand out driver functions?

use core::ffi::CStr;

use crate::cuda::*;
use crate::hook::Entry;
use crate::interpose::{getproc, unknown};
use crate::sink;
use crate::sys::Errno;

/// A lookup of a driver function.
pub struct Lookup {
    pub symbol: *const char_t,
    pub pfn: *mut *mut void,
}

/// Calls the real function first, and replaces its result where the table has a hook for exactly that
/// function. Return values and everything else come from the real call. A lookup does not start a session.
pub fn lookup(_: Entry, what: impl FnOnce() -> Lookup, real: impl FnOnce() -> CUresult) -> CUresult {
    let what = what();
    let counted = unknown::counted();
    let result = real();
    if result != CUDA_SUCCESS || what.symbol.is_null() || what.pfn.is_null() || !sink::is_enabled() {
        return result; // (success with a null pointer is valid: see below)
    }
    let errno = Errno::save();
    // SAFETY: the call succeeded with this terminated name.
    let symbol = unsafe { CStr::from_ptr(what.symbol) };
    // SAFETY: the call succeeded, so it has written there.
    let answer = unsafe { *what.pfn };
    if answer.is_null() {
        return result;
    }
    match getproc::substitute(symbol, answer as usize) {
        // SAFETY: as above.
        Some(hook) => unsafe { *what.pfn = hook.cast_mut().cast() },
        // If the runtime has made the lookup by calling the driver through our hook, it is counted already.
        None if unknown::counted() == counted => unknown::found(symbol),
        None => {}
    }
    errno.restore();
    result
}
