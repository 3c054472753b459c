//! Libraries: code that is loaded once and has a module in each context that uses it.

use super::module::{from_file, from_memory, report};
use crate::call::Call;
use crate::config::config;
use crate::error::{INVALID_HANDLE, INVALID_IMAGE, NOT_FOUND, Outcome};
use crate::export::exports;
use crate::handle::Handle;
use crate::image::{Image, KernelHandle, Library};
use crate::parameter::{In, Maybe, Out, Pointer, Room, Text};
use crate::state::State;
use std::collections::HashMap;
use std::sync::Arc;

exports! {
    cuLibraryLoadData => library_load_data(library: Out<Handle>, code: In<u8>, jit: Pointer<u32>, jit_values: Pointer<u64>, jit_count: u32, options: Pointer<u32>, values: Pointer<u64>, count: u32);
    cuLibraryLoadFromFile => library_load_file(library: Out<Handle>, file: Text, jit: Pointer<u32>, jit_values: Pointer<u64>, jit_count: u32, options: Pointer<u32>, values: Pointer<u64>, count: u32);
    cuLibraryUnload => library_unload(library: Handle);
    cuLibraryGetKernel => library_kernel(kernel: Out<Handle>, library: Handle, name: Text);
    cuLibraryGetKernelCount => library_kernel_count(count: Out<u32>, library: Handle);
    cuLibraryEnumerateKernels => library_kernels(kernels[room]: Room<Handle>, room: u32, library: Handle);
    cuLibraryGetModule => library_module(module: Out<Handle>, library: Handle);
    cuLibraryGetGlobal => library_global(address: Maybe<u64>, bytes: Maybe<usize>, library: Handle, name: Text);
    cuLibraryGetManaged => library_managed(address: Maybe<u64>, bytes: Maybe<usize>, library: Handle, name: Text);
    cuKernelGetFunction => kernel_function(function: Out<Handle>, kernel: Handle);
    cuKernelGetLibrary => kernel_library(library: Out<Handle>, kernel: Handle);
}

impl State {
    /// Returns a library's module in the current context, which the first query loads.
    pub(super) fn module_of(&mut self, library: Handle) -> Outcome<Handle> {
        let context = self.current()?;
        let of = self.libraries.get(library).ok_or(INVALID_HANDLE)?;
        if let Some(&module) = of.modules.get(&context) {
            return Ok(module);
        }
        let image = of.image.clone();
        let module = self.new_module(context, image);
        if let Some(of) = self.libraries.get_mut(library) {
            of.modules.insert(context, module);
        }
        Ok(module)
    }

    fn library_kernel(&mut self, library: Handle, name: &str) -> Outcome<Handle> {
        let of = self.libraries.get(library).ok_or(INVALID_HANDLE)?;
        if let Some(&known) = of.kernels.get(name) {
            return Ok(known);
        }
        let kernel = of.image.kernel(name).ok_or(NOT_FOUND)?;
        let name = kernel.name.clone();
        let new = KernelHandle { kernel, library, functions: HashMap::new(), attributes: HashMap::new() };
        let handle = self.kernels.insert(new);
        if let Some(of) = self.libraries.get_mut(library) {
            of.kernels.insert(name, handle);
        }
        Ok(handle)
    }
}

#[allow(clippy::too_many_arguments)]
fn library_load_data(
    call: &mut Call,
    library: Out<Handle>,
    code: In<u8>,
    _: Pointer<u32>,
    _: Pointer<u64>,
    _: u32,
    _: Pointer<u32>,
    _: Pointer<u64>,
    _: u32,
) -> Outcome {
    load_library(call, library, from_memory(code))
}

fn load_library(call: &mut Call, library: Out<Handle>, image: Image) -> Outcome {
    let image = Arc::new(image);
    if image.kernels.as_ref().is_some_and(Vec::is_empty) && image.variables.is_empty() {
        return Err(INVALID_IMAGE);
    }
    let new = Library { image: image.clone(), kernels: HashMap::new(), modules: HashMap::new() };
    let handle = call.lock().libraries.insert(new);
    report("library", handle, 0, &image, true);
    call.costs(config().cost.load);
    library.put(handle);
    Ok(())
}

#[allow(clippy::too_many_arguments)]
fn library_load_file(
    call: &mut Call,
    library: Out<Handle>,
    file: Text,
    _: Pointer<u32>,
    _: Pointer<u64>,
    _: u32,
    _: Pointer<u32>,
    _: Pointer<u64>,
    _: u32,
) -> Outcome {
    load_library(call, library, from_file(&file)?)
}

fn library_unload(call: &mut Call, library: Handle) -> Outcome {
    let mut state = call.lock();
    let Library { image, kernels, modules } = state.libraries.remove(library).ok_or(INVALID_HANDLE)?;
    for kernel in kernels.into_values() {
        state.kernels.remove(kernel);
    }
    let work: Vec<_> = modules.keys().flat_map(|&context| state.context_work(context)).collect();
    drop(state);
    call.wait_for(&work);
    let mut state = call.lock();
    for module in
        modules.into_values().filter(|&module| state.modules.get(module).is_some()).collect::<Vec<_>>()
    {
        state.end_module(module)?;
    }
    report("library", library, 0, &image, false);
    Ok(())
}

fn library_kernel(call: &mut Call, kernel: Out<Handle>, library: Handle, name: Text) -> Outcome {
    kernel.put(call.lock().library_kernel(library, &name)?);
    Ok(())
}

fn library_kernel_count(call: &mut Call, count: Out<u32>, library: Handle) -> Outcome {
    let state = call.lock();
    let image = &state.libraries.get(library).ok_or(INVALID_HANDLE)?.image;
    count.put(image.kernels.as_ref().map_or(0, Vec::len) as u32);
    Ok(())
}

fn library_kernels(call: &mut Call, kernels: Room<Handle>, room: u32, library: Handle) -> Outcome {
    let mut state = call.lock();
    let image = state.libraries.get(library).ok_or(INVALID_HANDLE)?.image.clone();
    for (index, kernel) in image.kernels.iter().flatten().take(room as usize).enumerate() {
        let handle = state.library_kernel(library, &kernel.name)?;
        kernels.put(index, handle);
    }
    Ok(())
}

fn library_module(call: &mut Call, module: Out<Handle>, library: Handle) -> Outcome {
    let handle = call.lock().module_of(library)?;
    module.put(handle);
    Ok(())
}

fn library_variable(
    call: &mut Call,
    address: Maybe<u64>,
    bytes: Maybe<usize>,
    library: Handle,
    name: Text,
    managed: bool,
) -> Outcome {
    let mut state = call.lock();
    let module = state.module_of(library)?;
    let (first, size) = state.module_global(module, &name, managed)?;
    address.put(first);
    bytes.put(size as usize);
    Ok(())
}

fn library_global(
    call: &mut Call,
    address: Maybe<u64>,
    bytes: Maybe<usize>,
    library: Handle,
    name: Text,
) -> Outcome {
    library_variable(call, address, bytes, library, name, false)
}

fn library_managed(
    call: &mut Call,
    address: Maybe<u64>,
    bytes: Maybe<usize>,
    library: Handle,
    name: Text,
) -> Outcome {
    library_variable(call, address, bytes, library, name, true)
}

fn kernel_function(call: &mut Call, function: Out<Handle>, kernel: Handle) -> Outcome {
    let mut state = call.lock();
    state.takes(call, kernel)?;
    let handle = state.function(kernel)?;
    function.put(handle);
    Ok(())
}

fn kernel_library(call: &mut Call, library: Out<Handle>, kernel: Handle) -> Outcome {
    let state = call.lock();
    state.takes(call, kernel)?;
    // A CUfunction may belong to no library.
    let of = state.kernels.get(kernel).ok_or(INVALID_HANDLE)?.library;
    library.put(of);
    Ok(())
}
