//! How are functions hooked that are looked up with `cuGetProcAddress`? Runtimes, including statically linked
//! ones, find the driver's functions that way.
//!
//! The real function is always called first. Its result is replaced only when it is the address of a function
//! that is known to be exactly this variant: from libcuda's export, or from our own call of the real
//! `cuGetProcAddress` with the variant's name, version and flags. Other results are passed on unchanged.

use crate::cuda::CUDA_SUCCESS;
use crate::hook::{Hook, Hooks, Layer, Table};
use crate::interpose::{is_real, learn_driver, real_export, wrapper_in_driver};
use crate::loader::libraries;
use crate::sink;
use core::ffi::{CStr, c_char, c_int, c_void};

/// CU_GET_PROC_ADDRESS_LEGACY_STREAM, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM.
const LEGACY: u64 = 1;
const PER_THREAD: u64 = 2;

type GetprocV2 = unsafe extern "C" fn(*const c_char, *mut *mut c_void, c_int, u64, *mut c_int) -> c_int;
type GetprocV1 = unsafe extern "C" fn(*const c_char, *mut *mut c_void, c_int, u64) -> c_int;

/// Looks up a variant in the real driver. `None`: there is no driver; `Some(None)`: the driver does not have
/// it.
pub fn lookup(hook: &Hook) -> Option<Option<usize>> {
    libraries::driver()?;
    let flags = if hook.per_thread { PER_THREAD } else { LEGACY };
    let mut found: *mut c_void = core::ptr::null_mut();
    let [second, first] = Table::getproc();
    let result = if let Some(address) = real_export(second) {
        let mut status: c_int = 0;
        // SAFETY: the driver's export of this name has this prototype (cuda.h, CUDA 12.0).
        let getproc = unsafe { core::mem::transmute::<usize, GetprocV2>(address) };
        // SAFETY: a terminated name and two local variables to write to.
        unsafe { getproc(hook.base.as_ptr(), &mut found, hook.version, flags, &mut status) }
    } else if let Some(address) = real_export(first) {
        // SAFETY: the driver's export of this name has this prototype (cuda.h, CUDA 11.3).
        let getproc = unsafe { core::mem::transmute::<usize, GetprocV1>(address) };
        // SAFETY: a terminated name and a local variable to write to.
        unsafe { getproc(hook.base.as_ptr(), &mut found, hook.version, flags) }
    } else {
        return Some(None);
    };
    Some((result == CUDA_SUCCESS && !found.is_null()).then_some(found as usize))
}

/// The hook to return instead of `answer`, the real function's address that a lookup of `base` returned.
pub fn substitute(base: &CStr, answer: usize) -> Option<*const ()> {
    if !base.to_bytes().starts_with(b"cu") {
        return None;
    }
    learn_driver();
    let last = Table::variants(base).last()?;
    // The answer may be a function of another name: from CUDA 11.4 on, that of cuGraphInstantiate is cuGraphInstantiateWithFlags
    // (cudaTypedefs.h).
    let is_longer = |hook: &&Hook| hook.base != base && hook.base.to_bytes().starts_with(base.to_bytes());
    let others = Table::all().iter().filter(is_longer);
    for hook in Table::variants(base).chain(others).filter(|hook| hook.layer == Layer::Driver) {
        if hook.is_wrapper(answer) {
            return None; // the runtime made the lookup for the app, and that lookup was counted
        }
        if is_real(hook, answer) {
            let entry = wrapper_in_driver(hook, answer);
            sink::looked_up(hook, entry.is_some());
            return entry;
        }
    }
    sink::looked_up(last, false);
    None
}
