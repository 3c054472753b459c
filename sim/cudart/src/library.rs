//! Libraries of kernels that the application loads itself.

use std::ffi::{c_char, c_int, c_uint, c_void};

use crate::driver::Handle;
use crate::kernel;

export! {
    fn cudaLibraryLoadData(library: *mut Handle, code: *const c_void, jit_options: *mut c_int,
        jit_values: *mut *mut c_void, jit_count: c_uint, options: *mut c_int, values: *mut *mut c_void, count: c_uint)
        = with_context |driver| {
        driver.cuLibraryLoadData(library, code, jit_options, jit_values, jit_count, options, values, count)
    }

    fn cudaLibraryLoadFromFile(library: *mut Handle, path: *const c_char, jit_options: *mut c_int,
        jit_values: *mut *mut c_void, jit_count: c_uint, options: *mut c_int, values: *mut *mut c_void, count: c_uint)
        = with_context |driver| {
        driver.cuLibraryLoadFromFile(library, path, jit_options, jit_values, jit_count, options, values, count)
    }

    fn cudaLibraryGetKernel(kernel: *mut Handle, library: Handle, name: *const c_char) = with_context |driver| {
        driver.cuLibraryGetKernel(kernel, library, name)?;
        kernel::given(library, *kernel);
        Ok(())
    }

    fn cudaLibraryGetKernelCount(count: *mut c_uint, library: Handle) = with_context |driver| {
        driver.cuLibraryGetKernelCount(count, library)
    }

    fn cudaLibraryEnumerateKernels(kernels: *mut Handle, count: c_uint, library: Handle) = with_context |driver| {
        driver.cuLibraryEnumerateKernels(kernels, count, library)?;
        // The elements after the last kernel stay as they were.
        let mut known = 0;
        driver.cuLibraryGetKernelCount(&mut known, library)?;
        for index in 0..known.min(count) as usize {
            kernel::given(library, *kernels.add(index));
        }
        Ok(())
    }

    fn cudaLibraryGetGlobal(place: *mut *mut c_void, bytes: *mut usize, library: Handle, name: *const c_char)
        = with_context |driver| { driver.cuLibraryGetGlobal(place.cast(), bytes, library, name) }

    fn cudaLibraryGetManaged(place: *mut *mut c_void, bytes: *mut usize, library: Handle, name: *const c_char)
        = with_context |driver| { driver.cuLibraryGetManaged(place.cast(), bytes, library, name) }

    fn cudaLibraryUnload(library: Handle) = with_context |driver| {
        kernel::taken_back(library);
        driver.cuLibraryUnload(library)
    }
}
