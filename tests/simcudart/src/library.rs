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

    fn cudaLibraryUnload(library: Handle) = with_context |driver| {
        kernel::taken_back(library);
        driver.cuLibraryUnload(library)
    }
}
