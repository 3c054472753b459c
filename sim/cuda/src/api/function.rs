//! Kernels and functions: their names, parameters and attributes.

use super::device::ordinal;
use crate::call::Call;
use crate::error::{INVALID_CONTEXT, INVALID_HANDLE, INVALID_VALUE, Outcome};
use crate::export::exports;
use crate::fat_binary::Versions;
use crate::handle::Handle;
use crate::image::{Kernel, KernelHandle};
use crate::parameter::{Maybe, Out};
use crate::resources::{Resources, SHARED_BYTES_OPTIN, SHARED_BYTES_PER_BLOCK};
use crate::state::State;
use crate::truth::{self, Escaped};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::ffi::{CString, c_char};
use std::sync::Arc;

exports! {
    cuKernelGetName | cuFuncGetName => get_name(name: Out<*const c_char>, function: Handle);
    cuKernelGetParamInfo | cuFuncGetParamInfo => parameter(function: Handle, index: usize, offset: Out<usize>, size: Maybe<usize>);
    cuKernelGetParamCount | cuFuncGetParamCount => parameter_count(function: Handle, count: Out<usize>);
    cuKernelGetAttribute => kernel_attribute(value: Out<i32>, attribute: u32, kernel: Handle, device: i32);
    cuKernelSetAttribute => set_kernel_attribute(attribute: u32, value: i32, kernel: Handle, device: i32);
    cuKernelSetCacheConfig => kernel_cache_config(kernel: Handle, config: u32, device: i32);
    cuFuncGetAttribute => function_attribute(value: Out<i32>, attribute: u32, function: Handle);
    cuFuncSetAttribute => set_function_attribute(function: Handle, attribute: u32, value: i32);
    cuFuncSetCacheConfig | cuFuncSetSharedMemConfig | cuFuncSetSharedSize => function_config(function: Handle, config: u32);
    cuFuncSetBlockShape => block_shape(function: Handle, x: i32, y: i32, z: i32);
    cuFuncGetModule => function_module(module: Out<Handle>, function: Handle);
    cuFuncIsLoaded => function_loaded(loaded: Out<i32>, function: Handle);
    cuFuncLoad => function_load(function: Handle);
}

impl State {
    /// Returns the function that a CUfunction names, or that a CUkernel has in the current context.
    pub fn function(&mut self, handle: Handle) -> Outcome<Handle> {
        if self.functions.get(handle).is_some() {
            return Ok(handle);
        }
        let context = self.current()?;
        let kernel = self.kernels.get(handle).ok_or(INVALID_HANDLE)?;
        if let Some(&function) = kernel.functions.get(&context) {
            return Ok(function);
        }
        let (library, name) = (kernel.library, kernel.kernel.name.clone());
        let module = self.module_of(library)?;
        let function = self.module_function(module, &name)?;
        if let Some(kernel) = self.kernels.get_mut(handle) {
            kernel.functions.insert(context, function);
        }
        Ok(function)
    }

    /// Returns a CUfunction that belongs to the current context, or the one that a CUkernel has there. This is stricter
    /// than cuda.h, which only says that CUDA_ERROR_INVALID_CONTEXT is possible.
    pub fn function_here(&mut self, handle: Handle) -> Outcome<Handle> {
        let context = self.current()?;
        let function = self.function(handle)?;
        let of = self.functions.get(function).ok_or(INVALID_HANDLE)?;
        if of.context == context { Ok(function) } else { Err(INVALID_CONTEXT) }
    }

    /// Returns the multiprocessor resources that a CUfunction or CUkernel needs.
    pub fn resources(&self, handle: Handle) -> Outcome<Resources> {
        self.kernel(handle).map(|kernel| Resources::of(&kernel.name))
    }

    /// Returns the maximum dynamic shared memory (bytes) of a launch of a CUfunction, as set for it or for its
    /// CUkernel.
    pub fn most_dynamic_shared(&self, function: Handle) -> Outcome<u32> {
        let of = self.functions.get(function).ok_or(INVALID_HANDLE)?;
        let own = attribute(&of.attributes, &of.resources, of.kernel.versions, MAX_DYNAMIC_SHARED)?;
        let is_its = |kernel: &&KernelHandle| kernel.functions.values().any(|&known| known == function);
        let kernel = self.kernels.iter().map(|(_, kernel)| kernel).find(is_its);
        let of_kernel = kernel.map_or(Ok(0), |kernel| {
            attribute(&kernel.attributes, &of.resources, of.kernel.versions, MAX_DYNAMIC_SHARED)
        })?;
        Ok(own.max(of_kernel).cast_unsigned())
    }

    /// Returns the kernel that a CUfunction or CUkernel names.
    pub fn kernel(&self, handle: Handle) -> Outcome<&Kernel> {
        let function = self.functions.get(handle).map(|function| &function.kernel);
        function.or_else(|| self.kernels.get(handle).map(|kernel| &kernel.kernel)).ok_or(INVALID_HANDLE)
    }
}

fn get_name(call: &mut Call, name: Out<*const c_char>, function: Handle) -> Outcome {
    // The returned names live as long as the process, because careless applications read them after the module is
    // unloaded.
    static NAMES: Mutex<Option<HashMap<Arc<str>, CString>>> = Mutex::new(None);
    let state = call.lock();
    state.takes(call, function)?;
    let known = state.kernel(function)?.name.clone();
    drop(state);
    let mut names = NAMES.lock();
    let kept = names
        .get_or_insert_default()
        .entry(known.clone())
        .or_insert_with(|| CString::new(&*known).expect("a name read up to its NUL"));
    // The text is never dropped or moved.
    name.put(kept.as_ptr());
    Ok(())
}

fn parameter(
    call: &mut Call,
    function: Handle,
    index: usize,
    offset: Out<usize>,
    size: Maybe<usize>,
) -> Outcome {
    let state = call.lock();
    state.takes(call, function)?;
    let parameters = state.kernel(function)?.parameters.as_deref().unwrap_or_default();
    let &(at, bytes) = parameters.get(index).ok_or(INVALID_VALUE)?;
    size.put(bytes);
    offset.put(at);
    Ok(())
}

fn parameter_count(call: &mut Call, function: Handle, count: Out<usize>) -> Outcome {
    let state = call.lock();
    state.takes(call, function)?;
    let known = state.kernel(function)?.parameters.as_deref().map_or(0, <[_]>::len);
    count.put(known);
    Ok(())
}

/// `CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES`.
const MAX_DYNAMIC_SHARED: u32 = 8;

/// Returns a `CUfunction_attribute`. There is no compiled code, so most values are constants.
fn attribute(set: &HashMap<u32, i32>, takes: &Resources, versions: Versions, attribute: u32) -> Outcome<i32> {
    let default = match attribute {
        0 => takes.max_threads.cast_signed(),
        1 => takes.shared_bytes.cast_signed(),
        2 | 7 => 0, // CONST_SIZE_BYTES, CACHE_MODE_CA
        3 => takes.local_bytes.cast_signed(),
        4 => takes.registers.cast_signed(),
        5 => versions.ptx.cast_signed(),
        6 => versions.binary.cast_signed(),
        MAX_DYNAMIC_SHARED => (SHARED_BYTES_PER_BLOCK - takes.shared_bytes).cast_signed(),
        9 => -1,      // PREFERRED_SHARED_MEMORY_CARVEOUT
        10..=15 => 0, // clusters
        _ => return Err(INVALID_VALUE),
    };
    Ok(set.get(&attribute).copied().unwrap_or(default))
}

/// Checks that an attribute can be set: 8 to 15 can. Dynamic and static shared memory together must not exceed what a
/// block may opt in to (cuda.h, cuFuncSetAttribute).
fn check_settable(attribute: u32, value: i32, takes: &Resources) -> Outcome {
    let optin = (SHARED_BYTES_OPTIN - takes.shared_bytes).cast_signed();
    match attribute {
        MAX_DYNAMIC_SHARED if (0..=optin).contains(&value) => Ok(()),
        9..=15 => Ok(()),
        _ => Err(INVALID_VALUE),
    }
}

/// Writes an attribute that was queried to the truth file.
fn report_attribute(call: &Call, handle: Handle, kernel: &Kernel, which: u32, value: i32) {
    if truth::wanted() {
        let (api, name) = (call.api.name, Escaped(&kernel.name));
        truth::line(format_args!(
            "\"kind\":\"asked\",\"api\":\"{api}\",\"function\":{handle},\"kernel\":\"{name}\",\"attribute\":{which},\
             \"value\":{value}"
        ));
    }
}

fn kernel_attribute(call: &mut Call, value: Out<i32>, which: u32, kernel: Handle, device: i32) -> Outcome {
    ordinal(device)?;
    let state = call.lock();
    state.takes(call, kernel)?;
    let of = state.kernel(kernel)?;
    let own = state.kernels.get(kernel).map(|kernel| &kernel.attributes);
    let set = own.or_else(|| state.functions.get(kernel).map(|function| &function.attributes));
    let known = attribute(set.ok_or(INVALID_HANDLE)?, &Resources::of(&of.name), of.versions, which)?;
    report_attribute(call, kernel, of, which, known);
    value.put(known);
    Ok(())
}

fn set_kernel_attribute(call: &mut Call, which: u32, value: i32, kernel: Handle, device: i32) -> Outcome {
    ordinal(device)?;
    let mut state = call.lock();
    state.takes(call, kernel)?;
    let of = state.kernels.get_mut(kernel).ok_or(INVALID_HANDLE)?;
    check_settable(which, value, &Resources::of(&of.kernel.name))?;
    of.attributes.insert(which, value);
    Ok(())
}

fn kernel_cache_config(call: &mut Call, kernel: Handle, _: u32, device: i32) -> Outcome {
    ordinal(device)?;
    call.lock().takes(call, kernel)
}

fn function_attribute(call: &mut Call, value: Out<i32>, which: u32, function: Handle) -> Outcome {
    let mut state = call.lock();
    state.current()?;
    state.takes(call, function)?;
    let requested = state.function(function)?;
    let of = state.functions.get(requested).ok_or(INVALID_HANDLE)?;
    let known = attribute(&of.attributes, &of.resources, of.kernel.versions, which)?;
    report_attribute(call, function, &of.kernel, which, known);
    value.put(known);
    Ok(())
}

fn set_function_attribute(call: &mut Call, function: Handle, which: u32, value: i32) -> Outcome {
    let mut state = call.lock();
    state.takes(call, function)?;
    let function = state.function(function)?;
    let of = state.functions.get_mut(function).ok_or(INVALID_HANDLE)?;
    check_settable(which, value, &of.resources)?;
    of.attributes.insert(which, value);
    Ok(())
}

fn function_config(call: &mut Call, function: Handle, _: u32) -> Outcome {
    let mut state = call.lock();
    state.takes(call, function)?;
    state.function(function).map(|_| ())
}

fn block_shape(call: &mut Call, function: Handle, x: i32, y: i32, z: i32) -> Outcome {
    if x <= 0 || y <= 0 || z <= 0 {
        return Err(INVALID_VALUE);
    }
    let mut state = call.lock();
    state.takes(call, function)?;
    let function = state.function(function)?;
    state.functions.get_mut(function).ok_or(INVALID_HANDLE)?.block = [x, y, z].map(i32::cast_unsigned);
    Ok(())
}

fn function_module(call: &mut Call, module: Out<Handle>, function: Handle) -> Outcome {
    let mut state = call.lock();
    state.takes(call, function)?;
    let function = state.function(function)?;
    let of = state.functions.get(function).ok_or(INVALID_HANDLE)?.module;
    module.put(of);
    Ok(())
}

fn function_loaded(call: &mut Call, loaded: Out<i32>, function: Handle) -> Outcome {
    let mut state = call.lock();
    state.takes(call, function)?;
    let function = state.function(function)?;
    let module = state.functions.get(function).ok_or(INVALID_HANDLE)?.module;
    let launched = state.modules.get(module).is_some_and(|module| module.launched);
    loaded.put(i32::from(launched));
    Ok(())
}

fn function_load(call: &mut Call, function: Handle) -> Outcome {
    let mut state = call.lock();
    state.takes(call, function)?;
    state.function(function).map(|_| ())
}
