//! Modules, libraries, kernels and functions.

use super::device::ordinal;
use super::{offer, put, text};
use crate::call::Call;
use crate::config::config;
use crate::effects;
use crate::error::{
    FILE_NOT_FOUND, INVALID_CONTEXT, INVALID_HANDLE, INVALID_IMAGE, INVALID_VALUE, NOT_FOUND, Outcome,
};
use crate::export::exports;
use crate::fat_binary::Versions;
use crate::handle::Handle;
use crate::image::{Duration, Function, Image, Kernel, KernelHandle, Library, Module};
use crate::memory::{Allocation, MemoryKind};
use crate::resources::{Resources, SHARED_BYTES_OPTIN, SHARED_BYTES_PER_BLOCK};
use crate::state::State;
use crate::truth::{self, Escaped};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::ffi::{CString, c_char};
use std::sync::Arc;

exports! {
    cuModuleLoad => load(module: *mut Handle, file: *const c_char);
    cuModuleLoadData | cuModuleLoadFatBinary => load_data(module: *mut Handle, image: *const u8);
    cuModuleLoadDataEx => load_data_ex(module: *mut Handle, image: *const u8, count: u32, options: *const u32, values: *const u64);
    cuModuleUnload => unload(module: Handle);
    cuModuleGetLoadingMode => loading_mode(mode: *mut u32);
    cuModuleGetFunction => get_function(function: *mut Handle, module: Handle, name: *const c_char);
    cuModuleGetFunctionCount => function_count(count: *mut u32, module: Handle);
    cuModuleEnumerateFunctions => enumerate_functions(functions: *mut Handle, room: u32, module: Handle);
    cuModuleGetGlobal_v2 => get_global(address: *mut u64, bytes: *mut usize, module: Handle, name: *const c_char);
    cuLibraryLoadData => library_load_data(library: *mut Handle, code: *const u8, jit: *const u32, jit_values: *const u64, jit_count: u32, options: *const u32, values: *const u64, count: u32);
    cuLibraryLoadFromFile => library_load_file(library: *mut Handle, file: *const c_char, jit: *const u32, jit_values: *const u64, jit_count: u32, options: *const u32, values: *const u64, count: u32);
    cuLibraryUnload => library_unload(library: Handle);
    cuLibraryGetKernel => library_kernel(kernel: *mut Handle, library: Handle, name: *const c_char);
    cuLibraryGetKernelCount => library_kernel_count(count: *mut u32, library: Handle);
    cuLibraryEnumerateKernels => library_kernels(kernels: *mut Handle, room: u32, library: Handle);
    cuLibraryGetModule => library_module(module: *mut Handle, library: Handle);
    cuLibraryGetGlobal => library_global(address: *mut u64, bytes: *mut usize, library: Handle, name: *const c_char);
    cuLibraryGetManaged => library_managed(address: *mut u64, bytes: *mut usize, library: Handle, name: *const c_char);
    cuKernelGetFunction => kernel_function(function: *mut Handle, kernel: Handle);
    cuKernelGetLibrary => kernel_library(library: *mut Handle, kernel: Handle);
    cuKernelGetName | cuFuncGetName => get_name(name: *mut *const c_char, function: Handle);
    cuKernelGetParamInfo | cuFuncGetParamInfo => parameter(function: Handle, index: usize, offset: *mut usize, size: *mut usize);
    cuKernelGetParamCount | cuFuncGetParamCount => parameter_count(function: Handle, count: *mut usize);
    cuKernelGetAttribute => kernel_attribute(value: *mut i32, attribute: u32, kernel: Handle, device: i32);
    cuKernelSetAttribute => set_kernel_attribute(attribute: u32, value: i32, kernel: Handle, device: i32);
    cuKernelSetCacheConfig => kernel_cache_config(kernel: Handle, config: u32, device: i32);
    cuFuncGetAttribute => function_attribute(value: *mut i32, attribute: u32, function: Handle);
    cuFuncSetAttribute => set_function_attribute(function: Handle, attribute: u32, value: i32);
    cuFuncSetCacheConfig | cuFuncSetSharedMemConfig | cuFuncSetSharedSize => function_config(function: Handle, config: u32);
    cuFuncSetBlockShape => block_shape(function: Handle, x: i32, y: i32, z: i32);
    cuFuncGetModule => function_module(module: *mut Handle, function: Handle);
    cuFuncIsLoaded => function_loaded(loaded: *mut i32, function: Handle);
    cuFuncLoad => function_load(function: Handle);
}

impl State {
    fn new_module(&mut self, context: Handle, image: Arc<Image>) -> Handle {
        let module =
            Module { image, context, functions: HashMap::new(), globals: HashMap::new(), launched: false };
        self.modules.insert(module)
    }

    /// A module's function of a name; the same handle however often it is asked for.
    fn module_function(&mut self, module: Handle, name: &str) -> Outcome<Handle> {
        let of = self.modules.get(module).ok_or(INVALID_HANDLE)?;
        if let Some(&known) = of.functions.get(name) {
            return Ok(known);
        }
        let kernel = of.image.kernel(name).ok_or(NOT_FOUND)?;
        let (context, name) = (of.context, kernel.name.clone());
        let (duration, resources) = (Duration::of(&name), Resources::of(&name));
        let function = self.functions.insert(Function {
            kernel,
            module,
            context,
            duration,
            resources,
            attributes: HashMap::new(),
            block: [1; 3],
        });
        if let Some(of) = self.modules.get_mut(module) {
            of.functions.insert(name, function);
        }
        Ok(function)
    }

    fn module_global(&mut self, module: Handle, name: &str, managed: bool) -> Outcome<(u64, u64)> {
        let of = self.modules.get(module).ok_or(INVALID_HANDLE)?;
        if let Some(&known) = of.globals.get(name) {
            return Ok(known);
        }
        let variable = of.image.variable(name).ok_or(NOT_FOUND)?;
        if managed && !variable.managed {
            return Err(NOT_FOUND);
        }
        let context = of.context;
        let device = self.context(context)?.device;
        let kind = if variable.managed { MemoryKind::Managed } else { MemoryKind::Device };
        let address = self.memory.allocate(Allocation::new(kind, variable.bytes.max(1), context, device))?;
        if let Some(of) = self.modules.get_mut(module) {
            of.globals.insert(name.to_owned(), (address, variable.bytes));
        }
        Ok((address, variable.bytes))
    }

    fn end_module(&mut self, module: Handle) -> Outcome {
        let Module { functions, globals, .. } = self.modules.remove(module).ok_or(INVALID_HANDLE)?;
        for function in functions.into_values() {
            self.functions.remove(function);
        }
        for (address, _) in globals.into_values() {
            if let Some((_, Some(range))) = self.memory.remove(address) {
                effects::push(effects::Effect::Release(range));
            }
        }
        Ok(())
    }

    /// Libraries outlive contexts; their modules do not.
    pub fn forget_modules(&mut self, context: Handle) {
        for library in self.libraries.values_mut() {
            library.modules.remove(&context);
        }
        for kernel in self.kernels.values_mut() {
            kernel.functions.remove(&context);
        }
    }

    /// A library's module in the current context; loaded when first asked for.
    fn module_of(&mut self, library: Handle) -> Outcome<Handle> {
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

    /// The function that a CUfunction, or a CUkernel in the current context, is.
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

    /// A CUfunction that belongs to the current context, or the one that a CUkernel has there. Stricter than cuda.h, which
    /// only says that CUDA_ERROR_INVALID_CONTEXT is possible.
    pub fn function_here(&mut self, handle: Handle) -> Outcome<Handle> {
        let context = self.current()?;
        let function = self.function(handle)?;
        let of = self.functions.get(function).ok_or(INVALID_HANDLE)?;
        if of.context == context { Ok(function) } else { Err(INVALID_CONTEXT) }
    }

    /// What a CUfunction or CUkernel takes of a multiprocessor.
    pub fn resources(&self, handle: Handle) -> Outcome<Resources> {
        self.kernel(handle).map(|kernel| Resources::of(&kernel.name))
    }

    /// Dynamic shared memory that a launch of a CUfunction may have: what was asked for, of it or of its CUkernel.
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

    /// The kernel that a CUfunction or CUkernel is.
    pub fn kernel(&self, handle: Handle) -> Outcome<&Kernel> {
        let function = self.functions.get(handle).map(|function| &function.kernel);
        function.or_else(|| self.kernels.get(handle).map(|kernel| &kernel.kernel)).ok_or(INVALID_HANDLE)
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

fn tell(kind: &str, handle: Handle, context: u32, image: &Image, loaded: bool) {
    if !truth::wanted() {
        return;
    }
    let kernels: Vec<String> =
        image.kernels.iter().flatten().map(|kernel| Escaped(&kernel.name).to_string()).collect();
    truth::line(format_args!(
        "\"kind\":\"module\",\"form\":\"{kind}\",\"handle\":{handle},\"context\":{context},\"loaded\":{loaded},\
         \"kernels\":{kernels:?}"
    ));
}

/// A file's bytes and a NUL, as an image in memory.
///
/// # Safety
/// `file` is NULL or a C string.
unsafe fn from_file(file: *const c_char) -> Outcome<Vec<u8>> {
    // SAFETY: the caller's.
    let path = unsafe { text(file) }?;
    let mut bytes = std::fs::read(path).map_err(|_| FILE_NOT_FOUND)?;
    bytes.extend([0; 4]);
    Ok(bytes)
}

unsafe fn load(call: &mut Call, module: *mut Handle, file: *const c_char) -> Outcome {
    // SAFETY: cuda.h's promise.
    unsafe {
        let bytes = from_file(file)?;
        load_data(call, module, bytes.as_ptr())
    }
}

unsafe fn load_data(call: &mut Call, module: *mut Handle, image: *const u8) -> Outcome {
    if image.is_null() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: cuda.h's promise.
    let image = Arc::new(unsafe { Image::read(image) });
    let mut state = call.lock();
    let context = state.current()?;
    state.check_assumed_unsafe("module_load_in_capture")?;
    if image.kernels.as_ref().is_some_and(Vec::is_empty) && image.variables.is_empty() {
        return Err(INVALID_IMAGE);
    }
    let number = state.context(context)?.id;
    let handle = state.new_module(context, image.clone());
    tell("module", handle, number, &image, true);
    call.costs(config().cost.load);
    drop(state);
    call.compiles();
    // SAFETY: cuda.h's promise.
    unsafe { put(module, handle) }
}

unsafe fn load_data_ex(
    call: &mut Call,
    module: *mut Handle,
    image: *const u8,
    _: u32,
    _: *const u32,
    _: *const u64,
) -> Outcome {
    // SAFETY: cuda.h's promise.
    unsafe { load_data(call, module, image) }
}

unsafe fn unload(call: &mut Call, module: Handle) -> Outcome {
    let mut state = call.lock();
    let context = state.current()?;
    let of = state.modules.get(module).ok_or(INVALID_HANDLE)?;
    let image = of.image.clone();
    state.check_assumed_unsafe("module_load_in_capture")?;
    let number = state.context(context)?.id;
    // The code must not go while it runs.
    let work = state.context_work(context);
    drop(state);
    call.wait_for(&work);
    call.lock().end_module(module)?;
    tell("module", module, number, &image, false);
    Ok(())
}

unsafe fn loading_mode(_: &mut Call, mode: *mut u32) -> Outcome {
    // CU_MODULE_LAZY_LOADING, the default since CUDA 12.2 (CUDA programming guide, "Lazy Loading").
    // SAFETY: cuda.h's promise.
    unsafe { put(mode, 2) }
}

unsafe fn get_function(
    call: &mut Call,
    function: *mut Handle,
    module: Handle,
    name: *const c_char,
) -> Outcome {
    // SAFETY: cuda.h's promise.
    unsafe {
        let name = text(name)?;
        let mut state = call.lock();
        state.current()?;
        put(function, state.module_function(module, name)?)
    }
}

unsafe fn function_count(call: &mut Call, count: *mut u32, module: Handle) -> Outcome {
    let state = call.lock();
    let image = &state.modules.get(module).ok_or(INVALID_HANDLE)?.image;
    // SAFETY: cuda.h's promise.
    unsafe { put(count, image.kernels.as_ref().map_or(0, Vec::len) as u32) }
}

unsafe fn enumerate_functions(call: &mut Call, functions: *mut Handle, room: u32, module: Handle) -> Outcome {
    let mut state = call.lock();
    let image = state.modules.get(module).ok_or(INVALID_HANDLE)?.image.clone();
    for (index, kernel) in image.kernels.iter().flatten().take(room as usize).enumerate() {
        let handle = state.module_function(module, &kernel.name)?;
        // SAFETY: cuda.h's promise: room for `room` handles.
        unsafe { put(functions.add(index), handle) }?;
    }
    Ok(())
}

unsafe fn get_global(
    call: &mut Call,
    address: *mut u64,
    bytes: *mut usize,
    module: Handle,
    name: *const c_char,
) -> Outcome {
    // SAFETY: cuda.h's promise; either place may be NULL.
    unsafe {
        let name = text(name)?;
        let mut state = call.lock();
        state.current()?;
        let (first, size) = state.module_global(module, name, false)?;
        offer(address, first);
        offer(bytes, size as usize);
    }
    Ok(())
}

#[allow(clippy::too_many_arguments)]
unsafe fn library_load_data(
    call: &mut Call,
    library: *mut Handle,
    code: *const u8,
    _: *const u32,
    _: *const u64,
    _: u32,
    _: *const u32,
    _: *const u64,
    _: u32,
) -> Outcome {
    if code.is_null() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: cuda.h's promise.
    let image = Arc::new(unsafe { Image::read(code) });
    if image.kernels.as_ref().is_some_and(Vec::is_empty) && image.variables.is_empty() {
        return Err(INVALID_IMAGE);
    }
    let new = Library { image: image.clone(), kernels: HashMap::new(), modules: HashMap::new() };
    let handle = call.lock().libraries.insert(new);
    tell("library", handle, 0, &image, true);
    call.costs(config().cost.load);
    // SAFETY: cuda.h's promise.
    unsafe { put(library, handle) }
}

#[allow(clippy::too_many_arguments)]
unsafe fn library_load_file(
    call: &mut Call,
    library: *mut Handle,
    file: *const c_char,
    jit: *const u32,
    jit_values: *const u64,
    jit_count: u32,
    options: *const u32,
    values: *const u64,
    count: u32,
) -> Outcome {
    // SAFETY: cuda.h's promise.
    unsafe {
        let bytes = from_file(file)?;
        library_load_data(call, library, bytes.as_ptr(), jit, jit_values, jit_count, options, values, count)
    }
}

unsafe fn library_unload(call: &mut Call, library: Handle) -> Outcome {
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
    tell("library", library, 0, &image, false);
    Ok(())
}

unsafe fn library_kernel(
    call: &mut Call,
    kernel: *mut Handle,
    library: Handle,
    name: *const c_char,
) -> Outcome {
    // SAFETY: cuda.h's promise.
    unsafe {
        let name = text(name)?;
        put(kernel, call.lock().library_kernel(library, name)?)
    }
}

unsafe fn library_kernel_count(call: &mut Call, count: *mut u32, library: Handle) -> Outcome {
    let state = call.lock();
    let image = &state.libraries.get(library).ok_or(INVALID_HANDLE)?.image;
    // SAFETY: cuda.h's promise.
    unsafe { put(count, image.kernels.as_ref().map_or(0, Vec::len) as u32) }
}

unsafe fn library_kernels(call: &mut Call, kernels: *mut Handle, room: u32, library: Handle) -> Outcome {
    let mut state = call.lock();
    let image = state.libraries.get(library).ok_or(INVALID_HANDLE)?.image.clone();
    for (index, kernel) in image.kernels.iter().flatten().take(room as usize).enumerate() {
        let handle = state.library_kernel(library, &kernel.name)?;
        // SAFETY: cuda.h's promise: room for `room` handles.
        unsafe { put(kernels.add(index), handle) }?;
    }
    Ok(())
}

unsafe fn library_module(call: &mut Call, module: *mut Handle, library: Handle) -> Outcome {
    let handle = call.lock().module_of(library)?;
    // SAFETY: cuda.h's promise.
    unsafe { put(module, handle) }
}

unsafe fn library_variable(
    call: &mut Call,
    address: *mut u64,
    bytes: *mut usize,
    library: Handle,
    name: *const c_char,
    managed: bool,
) -> Outcome {
    // SAFETY: cuda.h's promise; either place may be NULL.
    unsafe {
        let name = text(name)?;
        let mut state = call.lock();
        let module = state.module_of(library)?;
        let (first, size) = state.module_global(module, name, managed)?;
        offer(address, first);
        offer(bytes, size as usize);
    }
    Ok(())
}

unsafe fn library_global(
    call: &mut Call,
    address: *mut u64,
    bytes: *mut usize,
    library: Handle,
    name: *const c_char,
) -> Outcome {
    // SAFETY: cuda.h's promise.
    unsafe { library_variable(call, address, bytes, library, name, false) }
}

unsafe fn library_managed(
    call: &mut Call,
    address: *mut u64,
    bytes: *mut usize,
    library: Handle,
    name: *const c_char,
) -> Outcome {
    // SAFETY: cuda.h's promise.
    unsafe { library_variable(call, address, bytes, library, name, true) }
}

unsafe fn kernel_function(call: &mut Call, function: *mut Handle, kernel: Handle) -> Outcome {
    let mut state = call.lock();
    state.takes(call, kernel)?;
    let handle = state.function(kernel)?;
    // SAFETY: cuda.h's promise.
    unsafe { put(function, handle) }
}

unsafe fn kernel_library(call: &mut Call, library: *mut Handle, kernel: Handle) -> Outcome {
    let state = call.lock();
    state.takes(call, kernel)?;
    // A CUfunction may be of no library.
    let of = state.kernels.get(kernel).ok_or(INVALID_HANDLE)?.library;
    // SAFETY: cuda.h's promise.
    unsafe { put(library, of) }
}

unsafe fn get_name(call: &mut Call, name: *mut *const c_char, function: Handle) -> Outcome {
    // The names given out live as long as the process: an unloaded module's are read by careless applications.
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
    // SAFETY: cuda.h's promise; the text is never dropped nor moved.
    unsafe { put(name, kept.as_ptr()) }
}

unsafe fn parameter(
    call: &mut Call,
    function: Handle,
    index: usize,
    offset: *mut usize,
    size: *mut usize,
) -> Outcome {
    let state = call.lock();
    state.takes(call, function)?;
    let parameters = state.kernel(function)?.parameters.as_deref().unwrap_or_default();
    let &(at, bytes) = parameters.get(index).ok_or(INVALID_VALUE)?;
    // SAFETY: cuda.h's promise; the size's place may be NULL.
    unsafe {
        offer(size, bytes);
        put(offset, at)
    }
}

unsafe fn parameter_count(call: &mut Call, function: Handle, count: *mut usize) -> Outcome {
    let state = call.lock();
    state.takes(call, function)?;
    let known = state.kernel(function)?.parameters.as_deref().map_or(0, <[_]>::len);
    // SAFETY: cuda.h's promise.
    unsafe { put(count, known) }
}

/// `CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES`.
const MAX_DYNAMIC_SHARED: u32 = 8;

/// `CUfunction_attribute` of a kernel that nobody has compiled.
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

/// The attributes that can be set are 8 to 15; dynamic shared memory, with the static, within what a block may opt in to
/// (cuda.h, cuFuncSetAttribute).
fn check_settable(attribute: u32, value: i32, takes: &Resources) -> Outcome {
    let optin = (SHARED_BYTES_OPTIN - takes.shared_bytes).cast_signed();
    match attribute {
        MAX_DYNAMIC_SHARED if (0..=optin).contains(&value) => Ok(()),
        9..=15 => Ok(()),
        _ => Err(INVALID_VALUE),
    }
}

/// Tells the truth about an attribute that was asked for.
fn tell_asked(call: &Call, handle: Handle, kernel: &Kernel, which: u32, value: i32) {
    if truth::wanted() {
        let (api, name) = (call.api.name, Escaped(&kernel.name));
        truth::line(format_args!(
            "\"kind\":\"asked\",\"api\":\"{api}\",\"function\":{handle},\"kernel\":\"{name}\",\"attribute\":{which},\
             \"value\":{value}"
        ));
    }
}

unsafe fn kernel_attribute(
    call: &mut Call,
    value: *mut i32,
    which: u32,
    kernel: Handle,
    device: i32,
) -> Outcome {
    ordinal(device)?;
    let state = call.lock();
    state.takes(call, kernel)?;
    let of = state.kernel(kernel)?;
    let own = state.kernels.get(kernel).map(|kernel| &kernel.attributes);
    let set = own.or_else(|| state.functions.get(kernel).map(|function| &function.attributes));
    let known = attribute(set.ok_or(INVALID_HANDLE)?, &Resources::of(&of.name), of.versions, which)?;
    tell_asked(call, kernel, of, which, known);
    // SAFETY: cuda.h's promise.
    unsafe { put(value, known) }
}

unsafe fn set_kernel_attribute(
    call: &mut Call,
    which: u32,
    value: i32,
    kernel: Handle,
    device: i32,
) -> Outcome {
    ordinal(device)?;
    let mut state = call.lock();
    state.takes(call, kernel)?;
    let of = state.kernels.get_mut(kernel).ok_or(INVALID_HANDLE)?;
    check_settable(which, value, &Resources::of(&of.kernel.name))?;
    of.attributes.insert(which, value);
    Ok(())
}

unsafe fn kernel_cache_config(call: &mut Call, kernel: Handle, _: u32, device: i32) -> Outcome {
    ordinal(device)?;
    call.lock().takes(call, kernel)
}

unsafe fn function_attribute(call: &mut Call, value: *mut i32, which: u32, function: Handle) -> Outcome {
    let mut state = call.lock();
    state.current()?;
    state.takes(call, function)?;
    let asked = state.function(function)?;
    let of = state.functions.get(asked).ok_or(INVALID_HANDLE)?;
    let known = attribute(&of.attributes, &of.resources, of.kernel.versions, which)?;
    tell_asked(call, function, &of.kernel, which, known);
    // SAFETY: cuda.h's promise.
    unsafe { put(value, known) }
}

unsafe fn set_function_attribute(call: &mut Call, function: Handle, which: u32, value: i32) -> Outcome {
    let mut state = call.lock();
    state.takes(call, function)?;
    let function = state.function(function)?;
    let of = state.functions.get_mut(function).ok_or(INVALID_HANDLE)?;
    check_settable(which, value, &of.resources)?;
    of.attributes.insert(which, value);
    Ok(())
}

unsafe fn function_config(call: &mut Call, function: Handle, _: u32) -> Outcome {
    let mut state = call.lock();
    state.takes(call, function)?;
    state.function(function).map(|_| ())
}

unsafe fn block_shape(call: &mut Call, function: Handle, x: i32, y: i32, z: i32) -> Outcome {
    if x <= 0 || y <= 0 || z <= 0 {
        return Err(INVALID_VALUE);
    }
    let mut state = call.lock();
    state.takes(call, function)?;
    let function = state.function(function)?;
    state.functions.get_mut(function).ok_or(INVALID_HANDLE)?.block = [x, y, z].map(i32::cast_unsigned);
    Ok(())
}

unsafe fn function_module(call: &mut Call, module: *mut Handle, function: Handle) -> Outcome {
    let mut state = call.lock();
    state.takes(call, function)?;
    let function = state.function(function)?;
    let of = state.functions.get(function).ok_or(INVALID_HANDLE)?.module;
    // SAFETY: cuda.h's promise.
    unsafe { put(module, of) }
}

unsafe fn function_loaded(call: &mut Call, loaded: *mut i32, function: Handle) -> Outcome {
    let mut state = call.lock();
    state.takes(call, function)?;
    let function = state.function(function)?;
    let module = state.functions.get(function).ok_or(INVALID_HANDLE)?.module;
    let launched = state.modules.get(module).is_some_and(|module| module.launched);
    // SAFETY: cuda.h's promise.
    unsafe { put(loaded, i32::from(launched)) }
}

unsafe fn function_load(call: &mut Call, function: Handle) -> Outcome {
    let mut state = call.lock();
    state.takes(call, function)?;
    state.function(function).map(|_| ())
}
