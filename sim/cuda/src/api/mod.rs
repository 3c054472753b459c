//! The driver's functions, by the sections of NVIDIA's CUDA driver API reference. A file begins with its table of
//! exports; build.rs reads the names from it.

pub mod array;
pub mod array_copy;
pub mod batch;
pub mod capture;
pub mod context;
pub mod copy;
pub mod device;
pub mod event;
pub mod graph;
pub mod graph_exec;
pub mod graph_memory;
pub mod graph_shape;
pub mod green;
pub mod init;
pub mod ipc;
pub mod launch;
pub mod link;
pub mod managed;
pub mod memory;
pub mod module;
pub mod multicast;
pub mod occupancy;
pub mod pool;
pub mod semaphore;
pub mod stream;
pub mod tensor_map;
pub mod texture;
pub mod user_object;
pub mod virtual_memory;

use crate::error::{INVALID_VALUE, Outcome};
use std::ffi::{CStr, c_char};

/// Writes a result that the application has to give a place for.
///
/// # Safety
/// `out` is NULL or valid for a write.
pub unsafe fn put<T>(out: *mut T, value: T) -> Outcome {
    if out.is_null() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: the caller's.
    unsafe { out.write(value) };
    Ok(())
}

/// Writes a result that the application need not want.
///
/// # Safety
/// As [`put`].
pub unsafe fn offer<T>(out: *mut T, value: T) {
    if !out.is_null() {
        // SAFETY: the caller's.
        unsafe { out.write(value) };
    }
}

/// A name that the application gave.
///
/// # Safety
/// `name` is NULL or a C string.
pub unsafe fn text<'a>(name: *const c_char) -> Outcome<&'a str> {
    if name.is_null() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: the caller's.
    unsafe { CStr::from_ptr(name) }.to_str().map_err(|_| INVALID_VALUE)
}

/// Writes a text and its NUL into `room` bytes, cut where it does not fit.
///
/// # Safety
/// `out` is NULL or valid for `room` bytes.
pub unsafe fn put_text(out: *mut c_char, room: i32, text: &str) -> Outcome {
    let Some(room) = usize::try_from(room).ok().filter(|&room| room > 0 && !out.is_null()) else {
        return Err(INVALID_VALUE);
    };
    let length = text.len().min(room - 1);
    // SAFETY: `length + 1` is at most `room`.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr().cast(), out, length);
        out.add(length).write(0);
    }
    Ok(())
}
