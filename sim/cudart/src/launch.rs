//! Kernel launches, and the launch configuration that `<<<…>>>` passes on a per-thread stack.

use std::cell::RefCell;
use std::ffi::{c_int, c_uint, c_void};
use std::ptr::null_mut;

use crate::driver::{DefaultStream, Driver, Handle};
use crate::error::{self, MISSING_CONFIGURATION, Result};
use crate::kernel::function;

/// `dim3` (vector_types.h); passed by value.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dim3 {
    pub x: c_uint,
    pub y: c_uint,
    pub z: c_uint,
}

/// `cudaLaunchConfig_t` (driver_types.h).
#[repr(C)]
pub struct LaunchConfig {
    grid: Dim3,
    block: Dim3,
    shared_bytes: usize,
    stream: Handle,
    attributes: *mut c_void,
    attribute_count: c_uint,
}

/// `CUlaunchConfig` (cuda.h). Attributes are the same in both APIs.
#[repr(C)]
pub struct DriverConfig {
    grid: Dim3,
    block: Dim3,
    shared_bytes: c_uint,
    stream: Handle,
    attributes: *mut c_void,
    attribute_count: c_uint,
}

const _: () = assert!(size_of::<LaunchConfig>() == 56 && size_of::<DriverConfig>() == 56);

impl LaunchConfig {
    /// As the driver takes it.
    pub fn of_driver(&self) -> DriverConfig {
        let LaunchConfig { grid, block, shared_bytes, stream, attributes, attribute_count } = *self;
        DriverConfig {
            grid,
            block,
            shared_bytes: shared_bytes as c_uint,
            stream,
            attributes,
            attribute_count,
        }
    }
}

unsafe fn launch(
    driver: &Driver,
    default: DefaultStream,
    function: Handle,
    grid: Dim3,
    block: Dim3,
    arguments: *mut *mut c_void,
    shared_bytes: usize,
    stream: Handle,
) -> Result {
    // SAFETY: the arguments are as the application passed them for this kernel.
    unsafe {
        driver.cuLaunchKernel(
            default,
            function,
            grid.x,
            grid.y,
            grid.z,
            block.x,
            block.y,
            block.z,
            shared_bytes as c_uint,
            stream,
            arguments,
            null_mut(),
        )
    }
}

export_on_stream! {
    fn cudaLaunchKernel, cudaLaunchKernel_ptsz(func: *const c_void, grid: Dim3, block: Dim3,
        arguments: *mut *mut c_void, shared_bytes: usize, stream: Handle) = with_context |driver, default| {
        launch(driver, default, function(driver, func)?, grid, block, arguments, shared_bytes, stream)
    }

    fn cudaLaunchCooperativeKernel, cudaLaunchCooperativeKernel_ptsz(func: *const c_void, grid: Dim3, block: Dim3,
        arguments: *mut *mut c_void, shared_bytes: usize, stream: Handle) = with_context |driver, default| {
        let function = function(driver, func)?;
        driver.cuLaunchCooperativeKernel(default, function, grid.x, grid.y, grid.z, block.x, block.y, block.z,
            shared_bytes as c_uint, stream, arguments)
    }

    // Since CUDA 12 the driver's launch takes a CUkernel in a CUfunction's place.
    fn __cudaLaunchKernel, __cudaLaunchKernel_ptsz(kernel: Handle, grid: Dim3, block: Dim3,
        arguments: *mut *mut c_void, shared_bytes: usize, stream: Handle) = with_context |driver, default| {
        launch(driver, default, kernel, grid, block, arguments, shared_bytes, stream)
    }

    fn cudaLaunchKernelExC, cudaLaunchKernelExC_ptsz(config: *const LaunchConfig, func: *const c_void,
        arguments: *mut *mut c_void) = with_context |driver, default| {
        let config = config.as_ref().ok_or(error::INVALID_VALUE)?.of_driver();
        let function = function(driver, func)?;
        driver.cuLaunchKernelEx(default, (&raw const config).cast(), function, arguments, null_mut())
    }

    fn cudaLaunchHostFunc, cudaLaunchHostFunc_ptsz(stream: Handle, host_function: *mut c_void, data: *mut c_void)
        = with_context |driver, default| {
        driver.cuLaunchHostFunc(default, stream, host_function, data)
    }
}

struct Configuration {
    grid: Dim3,
    block: Dim3,
    shared_bytes: usize,
    stream: Handle,
}

thread_local! {
    static CONFIGURATIONS: RefCell<Vec<Configuration>> = const { RefCell::new(Vec::new()) };
}

/// `<<<grid, block, shared_bytes, stream>>>`: kept until the kernel's host stub pops it. Returns 0.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn __cudaPushCallConfiguration(
    grid: Dim3,
    block: Dim3,
    shared_bytes: usize,
    stream: Handle,
) -> c_uint {
    CONFIGURATIONS.with_borrow_mut(|stack| stack.push(Configuration { grid, block, shared_bytes, stream }));
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __cudaPopCallConfiguration(
    grid: *mut Dim3,
    block: *mut Dim3,
    shared_bytes: *mut usize,
    stream: *mut c_void,
) -> c_int {
    let Some(last) = CONFIGURATIONS.with_borrow_mut(Vec::pop) else {
        return error::remember(Err(MISSING_CONFIGURATION));
    };
    // SAFETY: the host stub passes places for all four; `stream` is a cudaStream_t's.
    unsafe {
        grid.write(last.grid);
        block.write(last.block);
        shared_bytes.write(last.shared_bytes);
        stream.cast::<Handle>().write(last.stream);
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configurations_are_a_stack() {
        let one = |x| Dim3 { x, y: 1, z: 1 };
        __cudaPushCallConfiguration(one(4), one(64), 16, null_mut());
        __cudaPushCallConfiguration(one(8), one(32), 0, 2 as Handle);
        let (mut grid, mut block, mut shared, mut stream) = (one(0), one(0), 9usize, null_mut::<c_void>());
        let mut pop = || {
            // SAFETY: places for all four answers.
            let code = unsafe {
                __cudaPopCallConfiguration(&mut grid, &mut block, &mut shared, (&raw mut stream).cast())
            };
            (code, grid.x, block.x, shared, stream as usize)
        };
        assert_eq!(pop(), (0, 8, 32, 0, 2));
        assert_eq!(pop(), (0, 4, 64, 16, 0));
        assert_eq!(pop().0, MISSING_CONFIGURATION.0);
        error::cudaGetLastError();
    }
}
