//! The linker: PTX in, an image that modules load out (CUDA driver API reference, "Module Management").

use super::put;
use crate::call::Call;
use crate::error::{FILE_NOT_FOUND, INVALID_HANDLE, INVALID_IMAGE, INVALID_VALUE, Outcome};
use crate::export::exports;
use crate::handle::Handle;
use crate::state::Guard;
use std::ffi::c_char;

exports! {
    cuLinkCreate | cuLinkCreate_v2 => create(count: u32, options: *const u32, values: *const u64, link: *mut Handle);
    cuLinkAddData | cuLinkAddData_v2 => add_data(link: Handle, kind: u32, data: *const u8, bytes: usize, name: *const c_char, count: u32, options: *const u32, values: *const u64);
    cuLinkAddFile | cuLinkAddFile_v2 => add_file(link: Handle, kind: u32, path: *const c_char, count: u32, options: *const u32, values: *const u64);
    cuLinkComplete => complete(link: Handle, image: *mut *const u8, bytes: *mut usize);
    cuLinkDestroy => destroy(link: Handle);
}

/// A link in progress, or done.
#[derive(Debug, Default)]
pub struct Link {
    text: Vec<u8>,
    /// The image is out: nothing can be added, and it stays where it is.
    complete: bool,
}

/// CU_JIT_INPUT_PTX, the only input that is text and so can be read here.
const PTX: u32 = 1;

unsafe fn create(
    call: &mut Call,
    count: u32,
    options: *const u32,
    values: *const u64,
    link: *mut Handle,
) -> Outcome {
    if count != 0 && (options.is_null() || values.is_null()) {
        return Err(INVALID_VALUE);
    }
    let mut state = call.lock();
    state.current()?;
    let handle = state.links.insert(Link::default());
    // SAFETY: cuda.h's promise.
    unsafe { put(link, handle) }
}

fn open(state: &mut Guard, link: Handle) -> Outcome<&mut Link> {
    state.links.get_mut(link).filter(|link| !link.complete).ok_or(INVALID_HANDLE)
}

fn add(call: &Call, link: Handle, kind: u32, text: &[u8]) -> Outcome {
    let mut state = call.lock();
    let link = open(&mut state, link)?;
    if kind != PTX {
        return Err(INVALID_IMAGE);
    }
    // The text may end with a NUL of its own.
    link.text.extend(text.split(|byte| *byte == 0).next().unwrap_or_default());
    link.text.push(b'\n');
    Ok(())
}

#[allow(clippy::too_many_arguments)]
unsafe fn add_data(
    call: &mut Call,
    link: Handle,
    kind: u32,
    data: *const u8,
    bytes: usize,
    _: *const c_char,
    _: u32,
    _: *const u32,
    _: *const u64,
) -> Outcome {
    if data.is_null() || bytes == 0 {
        return Err(INVALID_VALUE);
    }
    // SAFETY: cuda.h's promise: so many bytes.
    add(call, link, kind, unsafe { std::slice::from_raw_parts(data, bytes) })
}

unsafe fn add_file(
    call: &mut Call,
    link: Handle,
    kind: u32,
    path: *const c_char,
    _: u32,
    _: *const u32,
    _: *const u64,
) -> Outcome {
    // SAFETY: cuda.h's promise.
    let path = unsafe { super::text(path) }?;
    add(call, link, kind, &std::fs::read(path).map_err(|_| FILE_NOT_FOUND)?)
}

unsafe fn complete(call: &mut Call, link: Handle, image: *mut *const u8, bytes: *mut usize) -> Outcome {
    let mut state = call.lock();
    let link = open(&mut state, link)?;
    if link.text.is_empty() {
        return Err(INVALID_IMAGE);
    }
    link.text.push(0);
    link.complete = true;
    // SAFETY: cuda.h's promise.
    unsafe {
        put(image, link.text.as_ptr())?;
        put(bytes, link.text.len())
    }
}

unsafe fn destroy(call: &mut Call, link: Handle) -> Outcome {
    call.lock().links.remove(link).map(drop).ok_or(INVALID_HANDLE)
}
