//! Modules, libraries, kernels and functions.

use super::device::ordinal;
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
use crate::parameter::{In, Maybe, Out, Pointer, Room, Text};
use crate::resources::{Resources, SHARED_BYTES_OPTIN, SHARED_BYTES_PER_BLOCK};
use crate::state::State;
use crate::truth::{self, Escaped};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::ffi::{CString, c_char};
use std::sync::Arc;

exports! {
    cuModuleLoad => load(module: Out<Handle>, file: Text);
    cuModuleLoadData | cuModuleLoadFatBinary => load_data(module: Out<Handle>, image: In<u8>);
    cuModuleLoadDataEx => load_data_ex(module: Out<Handle>, image: In<u8>, count: u32, options: Pointer<u32>, values: Pointer<u64>);
    cuModuleUnload => unload(module: Handle);
    cuModuleGetLoadingMode => loading_mode(mode: Out<u32>);
    cuModuleGetFunction => get_function(function: Out<Handle>, module: Handle, name: Text);
    cuModuleGetFunctionCount => function_count(count: Out<u32>, module: Handle);
    cuModuleEnumerateFunctions => enumerate_functions(functions[room]: Room<Handle>, room: u32, module: Handle);
    cuModuleGetGlobal_v2 => get_global(address: Maybe<u64>, bytes: Maybe<usize>, module: Handle, name: Text);
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

/// The image that the application passed.
fn from_memory(image: In<u8>) -> Image {
    // SAFETY: cuda.h's promise: an image, whose end its own headers or a NUL say.
    unsafe { Image::read(image.as_ptr()) }
}

/// The image in a file.
fn from_file(file: &str) -> Outcome<Image> {
    let mut bytes = std::fs::read(file).map_err(|_| FILE_NOT_FOUND)?;
    bytes.extend([0; 4]);
    // SAFETY: the file's bytes and a NUL.
    Ok(unsafe { Image::read(bytes.as_ptr()) })
}

fn load(call: &mut Call, module: Out<Handle>, file: Text) -> Outcome {
    load_image(call, module, from_file(&file)?)
}

fn load_data(call: &mut Call, module: Out<Handle>, image: In<u8>) -> Outcome {
    load_image(call, module, from_memory(image))
}

fn load_image(call: &mut Call, module: Out<Handle>, image: Image) -> Outcome {
    let image = Arc::new(image);
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
    module.put(handle);
    Ok(())
}

fn load_data_ex(
    call: &mut Call,
    module: Out<Handle>,
    image: In<u8>,
    _: u32,
    _: Pointer<u32>,
    _: Pointer<u64>,
) -> Outcome {
    load_data(call, module, image)
}

fn unload(call: &mut Call, module: Handle) -> Outcome {
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

fn loading_mode(_: &mut Call, mode: Out<u32>) -> Outcome {
    // CU_MODULE_LAZY_LOADING, the default since CUDA 12.2 (CUDA programming guide, "Lazy Loading").
    mode.put(2);
    Ok(())
}

fn get_function(call: &mut Call, function: Out<Handle>, module: Handle, name: Text) -> Outcome {
    let mut state = call.lock();
    state.current()?;
    function.put(state.module_function(module, &name)?);
    Ok(())
}

fn function_count(call: &mut Call, count: Out<u32>, module: Handle) -> Outcome {
    let state = call.lock();
    let image = &state.modules.get(module).ok_or(INVALID_HANDLE)?.image;
    count.put(image.kernels.as_ref().map_or(0, Vec::len) as u32);
    Ok(())
}

fn enumerate_functions(call: &mut Call, functions: Room<Handle>, room: u32, module: Handle) -> Outcome {
    let mut state = call.lock();
    let image = state.modules.get(module).ok_or(INVALID_HANDLE)?.image.clone();
    for (index, kernel) in image.kernels.iter().flatten().take(room as usize).enumerate() {
        let handle = state.module_function(module, &kernel.name)?;
        functions.put(index, handle);
    }
    Ok(())
}

fn get_global(
    call: &mut Call,
    address: Maybe<u64>,
    bytes: Maybe<usize>,
    module: Handle,
    name: Text,
) -> Outcome {
    let mut state = call.lock();
    state.current()?;
    let (first, size) = state.module_global(module, &name, false)?;
    address.put(first);
    bytes.put(size as usize);
    Ok(())
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
    tell("library", handle, 0, &image, true);
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
    tell("library", library, 0, &image, false);
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
    // A CUfunction may be of no library.
    let of = state.kernels.get(kernel).ok_or(INVALID_HANDLE)?.library;
    library.put(of);
    Ok(())
}

fn get_name(call: &mut Call, name: Out<*const c_char>, function: Handle) -> Outcome {
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
    // The text is never dropped nor moved.
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

fn kernel_attribute(call: &mut Call, value: Out<i32>, which: u32, kernel: Handle, device: i32) -> Outcome {
    ordinal(device)?;
    let state = call.lock();
    state.takes(call, kernel)?;
    let of = state.kernel(kernel)?;
    let own = state.kernels.get(kernel).map(|kernel| &kernel.attributes);
    let set = own.or_else(|| state.functions.get(kernel).map(|function| &function.attributes));
    let known = attribute(set.ok_or(INVALID_HANDLE)?, &Resources::of(&of.name), of.versions, which)?;
    tell_asked(call, kernel, of, which, known);
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
    let asked = state.function(function)?;
    let of = state.functions.get(asked).ok_or(INVALID_HANDLE)?;
    let known = attribute(&of.attributes, &of.resources, of.kernel.versions, which)?;
    tell_asked(call, function, &of.kernel, which, known);
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
