//! The linker: PTX in, an image that modules load out (CUDA driver API reference, "Module Management").

use crate::call::Call;
use crate::error::{FILE_NOT_FOUND, INVALID_HANDLE, INVALID_IMAGE, INVALID_VALUE, Outcome};
use crate::export::exports;
use crate::handle::Handle;
use crate::parameter::{Out, Pointer, Slice, Text};
use crate::state::Guard;
use std::ffi::c_char;

exports! {
    cuLinkCreate | cuLinkCreate_v2 => create(count: u32, options: Pointer<u32>, values: Pointer<u64>, link: Out<Handle>);
    cuLinkAddData | cuLinkAddData_v2 => add_data(link: Handle, kind: u32, data[bytes]: Slice<u8>, bytes: usize, name: Pointer<c_char>, count: u32, options: Pointer<u32>, values: Pointer<u64>);
    cuLinkAddFile | cuLinkAddFile_v2 => add_file(link: Handle, kind: u32, path: Text, count: u32, options: Pointer<u32>, values: Pointer<u64>);
    cuLinkComplete => complete(link: Handle, image: Out<*const u8>, bytes: Out<usize>);
    cuLinkDestroy => destroy(link: Handle);
}

/// A link in progress, or done.
#[derive(Debug, Default)]
pub struct Link {
    text: Vec<u8>,
    /// Whether the image was returned: nothing can be added, and it stays at its address.
    complete: bool,
}

/// CU_JIT_INPUT_PTX, the only input that is text and so can be read here.
const PTX: u32 = 1;

fn create(
    call: &mut Call,
    count: u32,
    options: Pointer<u32>,
    values: Pointer<u64>,
    link: Out<Handle>,
) -> Outcome {
    if count != 0 && (options.is_null() || values.is_null()) {
        return Err(INVALID_VALUE);
    }
    let mut state = call.lock();
    state.current()?;
    let handle = state.links.insert(Link::default());
    link.put(handle);
    Ok(())
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
fn add_data(
    call: &mut Call,
    link: Handle,
    kind: u32,
    data: Slice<u8>,
    bytes: usize,
    _: Pointer<c_char>,
    _: u32,
    _: Pointer<u32>,
    _: Pointer<u64>,
) -> Outcome {
    if bytes == 0 {
        return Err(INVALID_VALUE);
    }
    add(call, link, kind, &data)
}

fn add_file(
    call: &mut Call,
    link: Handle,
    kind: u32,
    path: Text,
    _: u32,
    _: Pointer<u32>,
    _: Pointer<u64>,
) -> Outcome {
    add(call, link, kind, &std::fs::read(&*path).map_err(|_| FILE_NOT_FOUND)?)
}

fn complete(call: &mut Call, link: Handle, image: Out<*const u8>, bytes: Out<usize>) -> Outcome {
    let mut state = call.lock();
    let link = open(&mut state, link)?;
    if link.text.is_empty() {
        return Err(INVALID_IMAGE);
    }
    link.text.push(0);
    link.complete = true;
    image.put(link.text.as_ptr());
    bytes.put(link.text.len());
    Ok(())
}

fn destroy(call: &mut Call, link: Handle) -> Outcome {
    call.lock().links.remove(link).map(drop).ok_or(INVALID_HANDLE)
}
