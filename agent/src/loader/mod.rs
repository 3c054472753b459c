//! What has the dynamic loader loaded, and where are its functions? Our own lookups call libc's dlsym and never a hook;
//! [`libraries`] lists the loaded libraries, [`slots`] finds the slots that they call through, [`symbols`] finds what
//! they define, and [`late`] binds what the agent itself needs of libraries that it does not load.

pub mod late;
pub mod libraries;
pub mod sanitizers;
pub mod slots;
pub mod symbols;
pub mod walks;

use core::ffi::{CStr, c_char, c_int, c_void};
use core::sync::atomic::{AtomicUsize, Ordering};

/// dlsym(3).
pub type Dlsym = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;

/// libc's dlsym. Relaxed: code, immutable, and every thread finds the same.
static LIBC: AtomicUsize = AtomicUsize::new(0);

/// libc's dlsym. glibc has it in two versions: 2.34 (in libc.so.6), and the port's first version (in
/// libdl.so.2 before).
pub fn libc_dlsym() -> Dlsym {
    let mut address = LIBC.load(Ordering::Relaxed);
    if address == 0 {
        const OLD: &CStr = if cfg!(target_arch = "aarch64") { c"GLIBC_2.17" } else { c"GLIBC_2.2.5" };
        for version in [c"GLIBC_2.34", OLD] {
            // SAFETY: terminated strings; RTLD_NEXT is relative to us, the caller, as intended.
            let found = unsafe { libc::dlvsym(libc::RTLD_NEXT, c"dlsym".as_ptr(), version.as_ptr()) };
            if !found.is_null() {
                address = found as usize;
                LIBC.store(address, Ordering::Relaxed);
                break;
            }
        }
    }
    if address == 0 {
        return no_dlsym;
    }
    // SAFETY: the C library's function with this name and prototype.
    unsafe { core::mem::transmute::<usize, Dlsym>(address) }
}

/// Replaces dlsym in a C library where we cannot find it: no lookup ever succeeds.
unsafe extern "C" fn no_dlsym(_: *mut c_void, _: *const c_char) -> *mut c_void {
    core::ptr::null_mut()
}

/// dlopen(3).
pub type Dlopen = unsafe extern "C" fn(*const c_char, c_int) -> *mut c_void;

/// The next dlopen in search order. Relaxed: code, immutable, and every thread finds the same.
static NEXT_DLOPEN: AtomicUsize = AtomicUsize::new(0);

/// The dlopen that follows ours in search order.
pub fn next_dlopen() -> Dlopen {
    let mut address = NEXT_DLOPEN.load(Ordering::Relaxed);
    if address == 0 {
        address = next_definition(c"dlopen").unwrap_or(no_dlopen as *const () as usize);
        NEXT_DLOPEN.store(address, Ordering::Relaxed);
    }
    // SAFETY: a function named dlopen, found by the loader: it has dlopen's prototype.
    unsafe { core::mem::transmute::<usize, Dlopen>(address) }
}

/// Replaces dlopen in a C library where we cannot find it: nothing is ever loaded.
unsafe extern "C" fn no_dlopen(_: *const c_char, _: c_int) -> *mut c_void {
    core::ptr::null_mut()
}

/// libc's dlopen, for our own lookups: what Nsight Compute injects answers one of libcuda with a handle through which functions
/// of other libraries are found. In glibc before 2.34 it is in libdl, where it is not looked for: there, the next one.
pub fn libc_dlopen() -> Dlopen {
    // Relaxed: code, immutable, and every thread finds the same.
    static LIBC_DLOPEN: AtomicUsize = AtomicUsize::new(0);
    let mut address = LIBC_DLOPEN.load(Ordering::Relaxed);
    if address == 0 {
        address = symbols::in_libc(c"dlopen").unwrap_or(next_dlopen() as usize);
        LIBC_DLOPEN.store(address, Ordering::Relaxed);
    }
    // SAFETY: a function named dlopen, found in libc or by the loader: it has dlopen's prototype.
    unsafe { core::mem::transmute::<usize, Dlopen>(address) }
}

/// The definition that follows ours in search order.
pub fn next_definition(symbol: &CStr) -> Option<usize> {
    quietly(|| {
        // SAFETY: a terminated name; RTLD_NEXT is relative to us.
        let found = unsafe { libc_dlsym()(libc::RTLD_NEXT, symbol.as_ptr()) };
        (!found.is_null()).then_some(found as usize)
    })
}

/// Whether a function is libc's dlsym.
pub fn is_libc_own(address: usize) -> bool {
    address == libc_dlsym() as usize
}

/// The definition in a library.
pub fn in_library(handle: *mut c_void, symbol: &CStr) -> Option<usize> {
    quietly(|| {
        // SAFETY: a handle that dlopen returned, and a terminated name.
        let found = unsafe { libc_dlsym()(handle, symbol.as_ptr()) };
        (!found.is_null()).then_some(found as usize)
    })
}

/// Runs a lookup of our own and leaves dlerror(3) without an error of ours.
pub fn quietly<T>(lookup: impl FnOnce() -> Option<T>) -> Option<T> {
    let found = lookup();
    if found.is_none() {
        // SAFETY: clears the thread's error state, which contains our own failed lookup.
        unsafe { libc::dlerror() };
    }
    found
}
