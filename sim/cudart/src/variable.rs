//! Variables of device code. Compiled code registers them with its kernels, and their host variables identify them.

use std::ffi::{CStr, CString, c_char, c_int, c_void};

use crate::context;
use crate::driver::{DevicePtr, Driver, Handle, driver};
use crate::error::{self, INVALID_SYMBOL, INVALID_VALUE, Result};
use crate::kernel::with_registry;

/// A variable of a fat binary.
#[derive(Clone)]
pub struct Variable {
    pub name: String,
    pub bytes: usize,
    /// For a managed variable, the host's pointer to it, which this runtime sets.
    pub pointer: Option<usize>,
}

/// Returns the device address of `bytes` at an offset in the variable that a host variable identifies.
pub fn symbol(driver: &Driver, host: *const c_void, bytes: usize, offset: usize) -> Result<DevicePtr> {
    let (address, size) = variable(driver, host)?;
    let is_inside = offset.checked_add(bytes).is_some_and(|end| end <= size);
    if is_inside { Ok(address + offset as DevicePtr) } else { Err(INVALID_VALUE) }
}

/// Returns the address and size of the variable that a host variable identifies.
pub fn variable(driver: &Driver, host: *const c_void) -> Result<(DevicePtr, usize)> {
    with_registry(|registry| {
        let (id, index) = *registry.variables.get(&(host as usize)).ok_or(INVALID_SYMBOL)?;
        let binary = registry.binaries.get_mut(&id).ok_or(INVALID_SYMBOL)?;
        let library = binary.library(driver)?;
        let name = CString::new(binary.variables[index].name.as_str()).map_err(|_| INVALID_SYMBOL)?;
        let (mut address, mut size) = (0, 0);
        // SAFETY: a library that is loaded, a terminated name, places for both answers.
        unsafe {
            driver.cuLibraryGetGlobal(&mut address, &mut size, library as Handle, name.as_ptr())?;
        }
        Ok((address, size))
    })
}

/// Sets up a binary's managed variables, which compiled code requests before it uses one (crt/host_runtime.h): it sets
/// the pointers by which the host uses them. The memory is zero, whatever the source says, because device code is not
/// read.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn __cudaInitModule(handle: *mut *mut c_void) -> c_char {
    let managed = with_registry(|registry| {
        let binary = registry.binaries.get(&(handle as usize));
        let variables = binary.into_iter().flat_map(|binary| &binary.variables);
        variables.filter(|variable| variable.pointer.is_some()).cloned().collect::<Vec<_>>()
    });
    if !managed.is_empty() {
        let result = driver().and_then(|driver| {
            context::current(driver)?;
            managed.iter().try_for_each(|variable| set_up(driver, handle as usize, variable))
        });
        error::remember(result);
    }
    1
}

/// Sets the host's pointer to a managed variable of a binary.
fn set_up(driver: &Driver, id: usize, variable: &Variable) -> Result {
    let name = CString::new(variable.name.as_str()).map_err(|_| INVALID_SYMBOL)?;
    let library = with_registry(|registry| {
        registry.binaries.get_mut(&id).ok_or(INVALID_SYMBOL).and_then(|binary| binary.library(driver))
    })?;
    let (mut address, mut bytes) = (0, 0);
    // SAFETY: a library that is loaded, a terminated name, places for both answers; then the place that compiled code
    // registered for the pointer.
    unsafe {
        driver.cuLibraryGetManaged(&mut address, &mut bytes, library as Handle, name.as_ptr())?;
        if let Some(place) = variable.pointer {
            (place as *mut DevicePtr).write(address);
        }
    }
    Ok(())
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __cudaRegisterVar(
    handle: *mut *mut c_void,
    host: *mut c_char,
    _device_address: *mut c_char,
    name: *const c_char,
    _external: c_int,
    bytes: usize,
    _constant: c_int,
    _global: c_int,
) {
    // SAFETY: compiled code passes a terminated name.
    unsafe { register(handle, host as usize, name, bytes, None) };
}

/// Registers a `__managed__` variable. `pointer` is the host's pointer to it, and identifies it.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __cudaRegisterManagedVar(
    handle: *mut *mut c_void,
    pointer: *mut *mut c_void,
    _device_address: *mut c_char,
    name: *const c_char,
    _external: c_int,
    bytes: usize,
    _constant: c_int,
    _global: c_int,
) {
    // SAFETY: compiled code passes a terminated name.
    unsafe { register(handle, pointer as usize, name, bytes, Some(pointer as usize)) };
}

unsafe fn register(
    handle: *mut *mut c_void,
    host: usize,
    name: *const c_char,
    bytes: usize,
    pointer: Option<usize>,
) {
    // SAFETY: the caller's.
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned();
    with_registry(|registry| {
        let id = handle as usize;
        if let Some(binary) = registry.binaries.get_mut(&id) {
            registry.variables.insert(host, (id, binary.variables.len()));
            binary.variables.push(Variable { name, bytes, pointer });
        }
    });
}

export! {
    fn cudaGetSymbolAddress(place: *mut *mut c_void, host: *const c_void) = with_context |driver| {
        *place.as_mut().ok_or(INVALID_VALUE)? = variable(driver, host)?.0 as *mut c_void;
        Ok(())
    }

    fn cudaGetSymbolSize(bytes: *mut usize, host: *const c_void) = with_context |driver| {
        *bytes.as_mut().ok_or(INVALID_VALUE)? = variable(driver, host)?.1;
        Ok(())
    }
}
