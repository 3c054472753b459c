//! The `cuGetProcAddress` route: how runtimes, statically linked ones too, find the driver's functions.
//!
//! The real one is always asked first, and its answer is replaced only when it is the address of a function that we know
//! as this very variant: learned from libcuda's export, and by asking the real `cuGetProcAddress` ourselves with the
//! variant's own name, version and flags. An answer that we do not recognise is the app's business.

use crate::cuda::CUDA_SUCCESS;
use crate::hook::{Hook, Hooks, Layer, Table};
use crate::interpose::{is_real, learn_driver, real_export};
use crate::loader::libraries;
use crate::sink;
use core::ffi::{CStr, c_char, c_int, c_void};

/// CU_GET_PROC_ADDRESS_LEGACY_STREAM, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM.
const LEGACY: u64 = 1;
const PER_THREAD: u64 = 2;

type GetprocV2 = unsafe extern "C" fn(*const c_char, *mut *mut c_void, c_int, u64, *mut c_int) -> c_int;
type GetprocV1 = unsafe extern "C" fn(*const c_char, *mut *mut c_void, c_int, u64) -> c_int;

/// Asks the real driver for a variant. `None`: no driver to ask; `Some(None)`: it has none.
pub fn ask(hook: &Hook) -> Option<Option<usize>> {
    libraries::driver()?;
    let flags = if hook.per_thread { PER_THREAD } else { LEGACY };
    let mut found: *mut c_void = core::ptr::null_mut();
    let [second, first] = Table::getproc();
    let result = if let Some(address) = real_export(second) {
        let mut status: c_int = 0;
        // SAFETY: the driver's export of this name has this prototype (cuda.h, CUDA 12.0).
        let getproc = unsafe { core::mem::transmute::<usize, GetprocV2>(address) };
        // SAFETY: a terminated name and two places of ours to write to.
        unsafe { getproc(hook.base.as_ptr(), &mut found, hook.version, flags, &mut status) }
    } else if let Some(address) = real_export(first) {
        // SAFETY: the driver's export of this name has this prototype (cuda.h, CUDA 11.3).
        let getproc = unsafe { core::mem::transmute::<usize, GetprocV1>(address) };
        // SAFETY: a terminated name and a place of ours to write to.
        unsafe { getproc(hook.base.as_ptr(), &mut found, hook.version, flags) }
    } else {
        return Some(None);
    };
    Some((result == CUDA_SUCCESS && !found.is_null()).then_some(found as usize))
}

/// The hook to hand out for `answer`, the real function's address that a lookup of `base` got.
pub fn substitute(base: &CStr, answer: usize) -> Option<*const ()> {
    if !base.to_bytes().starts_with(b"cu") {
        return None;
    }
    learn_driver();
    let mut known = None;
    for hook in Table::all() {
        if hook.layer == Layer::Driver && hook.base == base {
            known = Some(hook);
            if hook.is_wrapper(answer) {
                return None; // the runtime asked on the app's behalf, and that lookup was counted
            }
            if is_real(hook, answer) {
                let entry = hook.wrapper(answer);
                sink::looked_up(hook, entry.is_some());
                return entry;
            }
        }
    }
    if let Some(hook) = known {
        sink::looked_up(hook, false);
    }
    None
}
