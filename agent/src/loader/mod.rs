//! What has the dynamic loader loaded, and where are its functions? Our own lookups call libc's dlsym and never a hook;
//! [`libraries`] lists the loaded libraries, [`slots`] finds the slots that they call through, [`symbols`] finds what
//! they define, [`maps`] says which files the system has mapped, and [`late`] binds what the agent itself needs of libraries that
//! it does not load.

pub mod late;
pub mod libraries;
pub mod maps;
pub mod sanitizers;
pub mod slots;
pub mod symbols;
pub mod walks;

use core::ffi::{CStr, c_char, c_int, c_void};
use core::sync::atomic::{AtomicUsize, Ordering};

/// dlsym(3).
pub type Dlsym = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;

/// Where glibc before 2.34 has dlopen and dlsym.
const LIBDL: &CStr = c"libdl.so.2";

/// Returns the address of a function, which is looked for until it is found: libdl may be loaded late. One that only some of the
/// objects see is looked for by its name, each time, since it is unloaded with them.
fn learned(place: &AtomicUsize, find: impl FnOnce() -> Option<usize>) -> Option<usize> {
    // Relaxed: code, immutable, and every thread finds the same.
    let known = place.load(Ordering::Relaxed);
    if known != 0 {
        return Some(known);
    }
    let found = find()?;
    place.store(found, Ordering::Relaxed);
    Some(found)
}

/// Returns libc's dlsym. glibc has it in two versions: 2.34 (in libc.so.6), and the port's first version (in libdl.so.2 before).
pub fn libc_dlsym() -> Dlsym {
    static LIBC: AtomicUsize = AtomicUsize::new(0);
    const OLD: &CStr = if cfg!(target_arch = "aarch64") { c"GLIBC_2.17" } else { c"GLIBC_2.2.5" };
    let found = learned(&LIBC, || {
        let in_version = |version: &CStr| {
            // SAFETY: terminated strings; RTLD_NEXT is relative to us, the caller, as intended.
            let found = unsafe { libc::dlvsym(libc::RTLD_NEXT, c"dlsym".as_ptr(), version.as_ptr()) };
            (!found.is_null()).then_some(found as usize)
        };
        [c"GLIBC_2.34", OLD].into_iter().find_map(in_version)
    });
    let Some(address) = found.or_else(|| symbols::in_file(LIBDL, c"dlsym")) else { return no_dlsym };
    // SAFETY: the C library's function with this name and prototype.
    unsafe { core::mem::transmute::<usize, Dlsym>(address) }
}

/// Replaces dlsym in a C library where we cannot find it: no lookup ever succeeds.
unsafe extern "C" fn no_dlsym(_: *mut c_void, _: *const c_char) -> *mut c_void {
    core::ptr::null_mut()
}

/// dlopen(3).
pub type Dlopen = unsafe extern "C" fn(*const c_char, c_int) -> *mut c_void;

/// The dlopen that follows ours in search order.
pub fn next_dlopen() -> Dlopen {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let found = learned(&NEXT, || next_definition(c"dlopen"));
    dlopen_at(found.or_else(|| symbols::in_file(LIBDL, c"dlopen")))
}

fn dlopen_at(address: Option<usize>) -> Dlopen {
    let Some(address) = address else { return no_dlopen };
    // SAFETY: a function named dlopen, found in libc, in libdl or by the loader: it has dlopen's prototype.
    unsafe { core::mem::transmute::<usize, Dlopen>(address) }
}

/// Replaces dlopen in a C library where we cannot find it: nothing is ever loaded.
unsafe extern "C" fn no_dlopen(_: *const c_char, _: c_int) -> *mut c_void {
    core::ptr::null_mut()
}

/// libc's dlopen, for our own lookups: what Nsight Compute injects answers one of libcuda with a handle through which functions
/// of other libraries are found. Where libc has none (glibc before 2.34), the next one.
pub fn libc_dlopen() -> Dlopen {
    static LIBC: AtomicUsize = AtomicUsize::new(0);
    learned(&LIBC, || symbols::in_libc(c"dlopen")).map_or_else(next_dlopen, |found| dlopen_at(Some(found)))
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A plugin that brought libdl along in a scope of its own was answered for ever that nothing can be loaded.
    #[test]
    fn what_is_not_there_yet_is_looked_for_again() {
        let place = AtomicUsize::new(0);
        assert_eq!(learned(&place, || None), None);
        assert_eq!(learned(&place, || Some(7)), Some(7));
        assert_eq!(learned(&place, || None), Some(7));
    }
}
