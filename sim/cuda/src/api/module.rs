//! Modules: code that is loaded into a context.

use crate::call::Call;
use crate::config::config;
use crate::effects;
use crate::error::{FILE_NOT_FOUND, INVALID_HANDLE, INVALID_IMAGE, NOT_FOUND, Outcome};
use crate::export::exports;
use crate::fault;
use crate::handle::Handle;
use crate::image::{Duration, Function, Image, Module};
use crate::memory::{Allocation, MemoryKind};
use crate::parameter::{In, Maybe, Out, Pointer, Room, Text};
use crate::resources::Resources;
use crate::state::State;
use crate::truth::{self, Escaped};
use std::collections::HashMap;
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
}

impl State {
    pub(super) fn new_module(&mut self, context: Handle, image: Arc<Image>) -> Handle {
        let module =
            Module { image, context, functions: HashMap::new(), globals: HashMap::new(), launched: false };
        self.modules.insert(module)
    }

    /// Returns a module's function by name, with the same handle every time.
    pub(super) fn module_function(&mut self, module: Handle, name: &str) -> Outcome<Handle> {
        let of = self.modules.get(module).ok_or(INVALID_HANDLE)?;
        if let Some(&known) = of.functions.get(name) {
            return Ok(known);
        }
        let kernel = of.image.kernel(name).ok_or(NOT_FOUND)?;
        let (context, name) = (of.context, kernel.name.clone());
        let (duration, fault, resources) = (Duration::of(&name), fault::named(&name), Resources::of(&name));
        let function = self.functions.insert(Function {
            kernel,
            module,
            context,
            duration,
            fault,
            resources,
            attributes: HashMap::new(),
            block: [1; 3],
        });
        if let Some(of) = self.modules.get_mut(module) {
            of.functions.insert(name, function);
        }
        Ok(function)
    }

    pub(super) fn module_global(&mut self, module: Handle, name: &str, managed: bool) -> Outcome<(u64, u64)> {
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

    pub(super) fn end_module(&mut self, module: Handle) -> Outcome {
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
}

pub(super) fn report(kind: &str, handle: Handle, context: u32, image: &Image, loaded: bool) {
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

/// Reads the image that the application passed.
pub(super) fn from_memory(image: In<u8>) -> Image {
    // SAFETY: cuda.h's promise: an image, whose end its own headers or a NUL say.
    unsafe { Image::read(image.as_ptr()) }
}

/// Reads the image in a file.
pub(super) fn from_file(file: &str) -> Outcome<Image> {
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
    if config().assume.is("load_waits", "yes") {
        let work = state.context_work(context);
        drop(state);
        call.wait_for(&work);
        state = call.lock();
    }
    let number = state.context(context)?.id;
    let handle = state.new_module(context, image.clone());
    report("module", handle, number, &image, true);
    call.costs_after_wait(config().cost.load);
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
    // Running work may still need the code.
    let work = state.context_work(context);
    drop(state);
    call.wait_for(&work);
    call.lock().end_module(module)?;
    report("module", module, number, &image, false);
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
