//! The kernels that compiled code registers at start-up, looked up by the address of their host stubs.
//!
//! nvcc's output registers each fat binary with the names in it. Device code is not read: a registration becomes a
//! PTX module with an empty kernel of each name, and a fat binary that says what architectures there was code for, which is
//! all that the simulated driver needs. It is loaded at the first use of one of its kernels, once: libraries and `CUkernel`s
//! belong to no context, `CUfunction`s do.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fmt::Write;
use std::ptr::null_mut;

use crate::context;
use crate::driver::{Driver, Handle, driver};
use crate::error::{INVALID_DEVICE_FUNCTION, INVALID_VALUE, Result};
use crate::fat_binary::{self, Entry, with_text};
use crate::launch::LaunchConfig;
use crate::variable::Variable;

/// One registered fat binary. Handles are kept as addresses.
#[derive(Default)]
pub struct Binary {
    /// The architectures that it has code for; none if it is no fat binary.
    entries: Vec<Entry>,
    kernels: Vec<CString>,
    pub variables: Vec<Variable>,
    library: Option<usize>,
}

impl Binary {
    /// Returns its library, and loads it if necessary.
    pub fn library(&mut self, driver: &Driver) -> Result<usize> {
        match self.library {
            Some(library) => Ok(library),
            None => {
                Ok(*self.library.insert(load(driver, &self.entries, &ptx(&self.kernels, &self.variables))?))
            }
        }
    }
}

#[derive(Default)]
pub struct Registry {
    pub binaries: HashMap<usize, Binary>,
    /// Host stub → binary and index of its kernel there.
    stubs: HashMap<usize, (usize, usize)>,
    /// Host variable → binary and index of its device variable there.
    pub variables: HashMap<usize, (usize, usize)>,
    /// Host stub → `CUkernel`.
    kernels: HashMap<usize, usize>,
    /// `CUkernel` that the application looked up → its library.
    given: HashMap<usize, usize>,
    /// Number of a context (`cuCtxGetId`) and `CUkernel` → `CUfunction`.
    functions: HashMap<(u64, usize), usize>,
    next: usize,
}

static REGISTRY: Mutex<Option<Registry>> = Mutex::new(None);

pub fn with_registry<T>(body: impl FnOnce(&mut Registry) -> T) -> T {
    body(REGISTRY.lock().get_or_insert_default())
}

/// Returns the text of a module with these kernels and variables.
fn ptx(kernels: &[CString], variables: &[Variable]) -> String {
    let mut text = String::from(".version 7.8\n.target sm_90\n.address_size 64\n");
    for Variable { name, bytes, pointer } in variables {
        let managed = if pointer.is_some() { ".attribute(.managed) " } else { "" };
        // Writing to a String cannot fail.
        let _ = writeln!(text, ".visible .global {managed}.align 8 .b8 {name}[{bytes}];");
    }
    for name in kernels {
        let _ = writeln!(text, ".visible .entry {}()\n{{\n    ret;\n}}", name.to_string_lossy());
    }
    text
}

impl Registry {
    /// Returns the `CUkernel` of a host stub, and loads its library if necessary.
    fn kernel(&mut self, driver: &Driver, stub: usize) -> Result<usize> {
        if let Some(kernel) = self.kernels.get(&stub) {
            return Ok(*kernel);
        }
        let (id, index) = *self.stubs.get(&stub).ok_or(INVALID_DEVICE_FUNCTION)?;
        let binary = self.binaries.get_mut(&id).ok_or(INVALID_DEVICE_FUNCTION)?;
        let library = binary.library(driver)?;
        let mut kernel = null_mut();
        // SAFETY: a library that is loaded, a terminated name, a place for the kernel.
        unsafe { driver.cuLibraryGetKernel(&mut kernel, library as Handle, binary.kernels[index].as_ptr())? };
        self.kernels.insert(stub, kernel as usize);
        Ok(kernel as usize)
    }

    /// Forgets the handles of loaded libraries, and returns the libraries.
    fn unload(&mut self, only: Option<usize>) -> Vec<usize> {
        let chosen = |id: &usize| only.is_none_or(|only| only == *id);
        let Registry { binaries, stubs, kernels, functions, .. } = self;
        kernels.retain(|stub, kernel| {
            let keep = !stubs.get(stub).is_some_and(|(id, _)| chosen(id));
            if !keep {
                functions.retain(|(_, of), _| of != kernel);
            }
            keep
        });
        binaries
            .iter_mut()
            .filter(|(id, _)| chosen(id))
            .filter_map(|(_, binary)| binary.library.take())
            .collect()
    }
}

fn load(driver: &Driver, entries: &[Entry], text: &str) -> Result<usize> {
    let binary = with_text(entries, text);
    let text = CString::new(text).map_err(|_| INVALID_DEVICE_FUNCTION)?;
    let code: *const c_void = if entries.is_empty() { text.as_ptr().cast() } else { binary.as_ptr().cast() };
    let mut library = null_mut();
    // SAFETY: PTX text, terminated, or a fat binary; no options.
    unsafe {
        driver.cuLibraryLoadData(&mut library, code, null_mut(), null_mut(), 0, null_mut(), null_mut(), 0)?
    };
    Ok(library as usize)
}

/// The `CUkernel` of a host stub.
pub fn kernel(driver: &Driver, stub: *const c_void) -> Result<Handle> {
    with_registry(|registry| registry.kernel(driver, stub as usize)).map(|kernel| kernel as Handle)
}

/// Notes that the application has a kernel of a library that it loaded.
pub fn given(library: Handle, kernel: Handle) {
    with_registry(|registry| registry.given.insert(kernel as usize, library as usize));
}

/// It unloads the library.
pub fn taken_back(library: Handle) {
    with_registry(|registry| {
        let Registry { given, functions, .. } = registry;
        functions.retain(|(_, kernel), _| given.get(kernel) != Some(&(library as usize)));
        given.retain(|_, of| *of != library as usize);
    });
}

/// Returns the function of `func` in the current context. `func` is a host stub, or a `cudaKernel_t` that this runtime
/// returned.
pub fn function(driver: &Driver, func: *const c_void) -> Result<Handle> {
    let (current, mut context) = (context::current(driver)?, 0);
    // SAFETY: a live context and a place for its number, which no other context ever has, as it may have its handle.
    unsafe { driver.cuCtxGetId(current, &mut context)? };
    with_registry(|registry| {
        let kernel = match registry.kernel(driver, func as usize) {
            Ok(kernel) => kernel,
            Err(_) if registry.kernels.values().any(|kernel| *kernel == func as usize) => func as usize,
            Err(_) if registry.given.contains_key(&(func as usize)) => func as usize,
            Err(error) => return Err(error),
        };
        if let Some(function) = registry.functions.get(&(context, kernel)) {
            return Ok(*function as Handle);
        }
        let mut function = null_mut();
        // SAFETY: a kernel that the driver gave, of a library that is still loaded.
        unsafe { driver.cuKernelGetFunction(&mut function, kernel as Handle)? };
        registry.functions.insert((context, kernel), function as usize);
        Ok(function)
    })
}

/// Returns the pointer that the application uses for a driver function: its kernel's host stub, if it is registered.
pub fn stub(function: Handle) -> *const c_void {
    with_registry(|registry| {
        let of = registry.functions.iter().find(|(_, known)| **known == function as usize);
        let kernel = of.map(|((_, kernel), _)| *kernel);
        let stub = registry.kernels.iter().find(|(_, known)| Some(**known) == kernel);
        stub.map_or(function.cast_const(), |(stub, _)| *stub as *const c_void)
    })
}

/// Unloads every library, before the device they are loaded on is reset.
pub fn unload_all(driver: &Driver) {
    unload(driver, None);
}

fn unload(driver: &Driver, only: Option<usize>) {
    for library in with_registry(|registry| registry.unload(only)) {
        // SAFETY: a library that this runtime loaded and has just forgotten. At exit the driver may be gone before us,
        // and says so: nothing is left to be done about it then.
        let _ = unsafe { driver.cuLibraryUnload(library as Handle) };
    }
}

/// Registers a fat binary without reading its code, and returns the handle that its names are registered under.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __cudaRegisterFatBinary(binary: *mut c_void) -> *mut *mut c_void {
    // SAFETY: compiled code passes the structure that wraps its fat binary.
    let entries = unsafe { fat_binary::entries(binary) };
    with_registry(|registry| {
        registry.next += 1;
        // A number that differs from null and from small error codes; it is never dereferenced.
        let id = registry.next << 4;
        registry.binaries.insert(id, Binary { entries, ..Binary::default() });
        id as *mut *mut c_void
    })
}

#[unsafe(no_mangle)]
pub extern "C-unwind" fn __cudaRegisterFatBinaryEnd(_handle: *mut *mut c_void) {}

#[unsafe(no_mangle)]
pub extern "C-unwind" fn __cudaUnregisterFatBinary(handle: *mut *mut c_void) {
    let id = handle as usize;
    // A program that registered kernels and never used CUDA must not find the driver now.
    let loaded =
        with_registry(|registry| registry.binaries.get(&id).is_some_and(|binary| binary.library.is_some()));
    if loaded && let Ok(driver) = driver() {
        unload(driver, Some(id));
    }
    with_registry(|registry| {
        registry.binaries.remove(&id);
        registry.stubs.retain(|_, (binary, _)| *binary != id);
        registry.variables.retain(|_, (binary, _)| *binary != id);
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __cudaRegisterFunction(
    handle: *mut *mut c_void,
    stub: *const c_char,
    _device_function: *mut c_char,
    name: *const c_char,
    _thread_limit: c_int,
    _thread_id: *mut c_void,
    _block_id: *mut c_void,
    _block_dim: *mut c_void,
    _grid_dim: *mut c_void,
    _warp_size: *mut c_int,
) {
    // SAFETY: compiled code passes a terminated name.
    let name = unsafe { CStr::from_ptr(name) }.to_owned();
    with_registry(|registry| {
        let id = handle as usize;
        if let Some(binary) = registry.binaries.get_mut(&id) {
            registry.stubs.insert(stub as usize, (id, binary.kernels.len()));
            binary.kernels.push(name);
        }
    });
}

export! {
    fn __cudaGetKernel(kernel_out: *mut Handle, stub: *const c_void) = with_driver |driver| {
        *kernel_out = kernel(driver, stub)?;
        Ok(())
    }

    fn cudaGetKernel(kernel_out: *mut Handle, stub: *const c_void) = with_driver |driver| {
        *kernel_out = kernel(driver, stub)?;
        Ok(())
    }

    fn cudaGetFuncBySymbol(function_out: *mut Handle, stub: *const c_void) = with_context |driver| {
        *function_out = function(driver, stub)?;
        Ok(())
    }

    fn cudaFuncGetAttributes(attributes: *mut FuncAttributes, func: *const c_void) = with_context |driver| {
        let function = function(driver, func)?;
        let get = |attribute| {
            let mut value = 0;
            driver.cuFuncGetAttribute(&mut value, attribute, function).map(|()| value)
        };
        // The numbers are CUfunction_attribute's (cuda.h).
        attributes.write(FuncAttributes {
            max_threads_per_block: get(0)?,
            shared_bytes: get(1)? as usize,
            const_bytes: get(2)? as usize,
            local_bytes: get(3)? as usize,
            registers: get(4)?,
            ptx_version: get(5)?,
            binary_version: get(6)?,
            cache_mode_ca: get(7)?,
            max_dynamic_shared_bytes: get(8)?,
            preferred_shared_carveout: get(9)?,
            rest: [0; 23],
        });
        Ok(())
    }

    fn cudaFuncGetName(name: *mut *const c_char, func: *const c_void) = with_context |driver| {
        driver.cuFuncGetName(name, function(driver, func)?)
    }

    fn cudaFuncGetParamInfo(func: *const c_void, index: usize, offset: *mut usize, bytes: *mut usize)
        = with_context |driver| {
        driver.cuFuncGetParamInfo(function(driver, func)?, index, offset, bytes)
    }

    fn cudaFuncGetParamCount(func: *const c_void, count: *mut usize) = with_context |driver| {
        driver.cuFuncGetParamCount(function(driver, func)?, count)
    }

    fn cudaKernelSetAttributeForDevice(kernel: Handle, attribute: c_int, value: c_int, device: c_int)
        = with_context |driver| { driver.cuKernelSetAttribute(attribute, value, kernel, device) }

    fn cudaFuncSetCacheConfig(func: *const c_void, config: c_int) = with_context |driver| {
        driver.cuFuncSetCacheConfig(function(driver, func)?, config)
    }

    fn cudaFuncSetSharedMemConfig(func: *const c_void, config: c_int) = with_context |driver| {
        driver.cuFuncSetSharedMemConfig(function(driver, func)?, config)
    }

    fn cudaOccupancyAvailableDynamicSMemPerBlock(bytes: *mut usize, func: *const c_void, blocks: c_int, block_size: c_int)
        = with_context |driver| {
        driver.cuOccupancyAvailableDynamicSMemPerBlock(bytes, function(driver, func)?, blocks, block_size)
    }

    fn cudaOccupancyMaxPotentialClusterSize(size: *mut c_int, func: *const c_void, config: *const LaunchConfig)
        = with_context |driver| {
        let config = config.as_ref().ok_or(INVALID_VALUE)?.of_driver();
        driver.cuOccupancyMaxPotentialClusterSize(size, function(driver, func)?, (&raw const config).cast())
    }

    fn cudaOccupancyMaxActiveClusters(clusters: *mut c_int, func: *const c_void, config: *const LaunchConfig)
        = with_context |driver| {
        let config = config.as_ref().ok_or(INVALID_VALUE)?.of_driver();
        driver.cuOccupancyMaxActiveClusters(clusters, function(driver, func)?, (&raw const config).cast())
    }

    fn cudaFuncSetAttribute(func: *const c_void, attribute: c_int, value: c_int) = with_context |driver| {
        driver.cuFuncSetAttribute(function(driver, func)?, attribute, value)
    }

    fn cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks: *mut c_int, func: *const c_void, block_size: c_int,
        shared_bytes: usize) = with_context |driver| {
        let function = function(driver, func)?;
        driver.cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, block_size, shared_bytes, 0)
    }

    fn cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks: *mut c_int, func: *const c_void,
        block_size: c_int, shared_bytes: usize, flags: u32) = with_context |driver| {
        let function = function(driver, func)?;
        driver.cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, block_size, shared_bytes, flags)
    }
}

/// `cudaFuncAttributes` (driver_types.h, CUDA 12: 144 bytes).
#[repr(C)]
pub struct FuncAttributes {
    shared_bytes: usize,
    const_bytes: usize,
    local_bytes: usize,
    max_threads_per_block: c_int,
    registers: c_int,
    ptx_version: c_int,
    binary_version: c_int,
    cache_mode_ca: c_int,
    max_dynamic_shared_bytes: c_int,
    preferred_shared_carveout: c_int,
    /// Cluster dimensions and reserved fields.
    rest: [c_int; 23],
}

const _: () = assert!(size_of::<FuncAttributes>() == 144);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registration_becomes_ptx_with_its_names() {
        let variable = |name: &str, pointer| Variable { name: name.into(), bytes: 64, pointer };
        let text = ptx(
            &[c"gemm_5us".to_owned(), c"_Z3addPf".to_owned()],
            &[variable("table", None), variable("shared", Some(8))],
        );
        assert!(text.starts_with(".version "));
        assert!(text.contains(".visible .entry gemm_5us()\n"));
        assert!(text.contains(".visible .entry _Z3addPf()\n"));
        assert!(text.contains(".visible .global .align 8 .b8 table[64];\n"));
        assert!(text.contains(".attribute(.managed) .align 8 .b8 shared[64];\n"));
    }

    #[test]
    fn unregistering_forgets_only_its_own_binary() {
        // SAFETY: no binary.
        let (first, second) =
            unsafe { (__cudaRegisterFatBinary(null_mut()), __cudaRegisterFatBinary(null_mut())) };
        assert_ne!(first, second);
        let stubs = [1u8; 2];
        for (handle, stub) in [(first, &stubs[0]), (second, &stubs[1])] {
            // SAFETY: terminated names; the other arguments are not read.
            unsafe {
                __cudaRegisterFunction(
                    handle,
                    (&raw const *stub).cast(),
                    null_mut(),
                    c"k_1us".as_ptr(),
                    -1,
                    null_mut(),
                    null_mut(),
                    null_mut(),
                    null_mut(),
                    null_mut(),
                );
            }
        }
        __cudaUnregisterFatBinary(first);
        with_registry(|registry| {
            assert!(!registry.stubs.contains_key(&(&raw const stubs[0]).addr()));
            assert!(registry.stubs.contains_key(&(&raw const stubs[1]).addr()));
        });
        __cudaUnregisterFatBinary(second);
    }
}
