//! What must a sanitizer know of us? A program that is compiled with one has its runtime, which watches our calls of the C
//! library, too, and not what orders them.

use crate::loader::{libc_dlsym, quietly};
use core::ffi::{c_char, c_void};

/// Tells LeakSanitizer, if the process has it, that memory from mmap(2) holds pointers to what malloc(3) has given us:
/// otherwise it takes that for leaked, and the process ends with another exit code. (sanitizer/lsan_interface.h.)
pub fn is_no_leak(place: *const c_void, bytes: usize) {
    let found = quietly(|| {
        // SAFETY: a terminated name.
        let found = unsafe { libc_dlsym()(libc::RTLD_DEFAULT, c"__lsan_register_root_region".as_ptr()) };
        (!found.is_null()).then_some(found as usize)
    });
    if let Some(found) = found {
        // SAFETY: a function with this name has this prototype.
        let register =
            unsafe { core::mem::transmute::<usize, unsafe extern "C" fn(*const c_void, usize)>(found) };
        // SAFETY: a mapping of ours, which is never unmapped.
        unsafe { register(place, bytes) };
    }
}

/// Asked by ThreadSanitizer's runtime: the calls that it does not watch (sanitizer/tsan_interface.h). It would report
/// memory that one of our threads allocates and another frees as a data race, since it cannot see our atomics.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub extern "C" fn __tsan_default_suppressions() -> *const c_char {
    c"called_from_lib:libgpuspy.so\n".as_ptr()
}
