//! The exports of the runtime: each finds the driver, runs its body, and keeps a failure as the thread's last error.

use crate::context;
use crate::driver::{Driver, driver};
use crate::error::{self, Result};

/// Runs the body of a function that needs the driver but no context.
pub fn with_driver(body: impl FnOnce(&'static Driver) -> Result) -> i32 {
    error::remember(driver().and_then(body))
}

/// Runs the body of a function that works in the current context; the first such call of a thread makes one current.
pub fn with_context(body: impl FnOnce(&'static Driver) -> Result) -> i32 {
    error::remember(driver().and_then(|driver| {
        context::current(driver)?;
        body(driver)
    }))
}

/// Exports `fn name(arguments) = with_… |driver| body`.
macro_rules! export {
    ($( fn $name:ident($($argument:ident: $type:ty),* $(,)?) = $with:ident |$driver:ident| $body:block )*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name($($argument: $type),*) -> i32 {
            #[allow(unused_unsafe)]
            $crate::export::$with(|$driver| {
                // SAFETY: the caller keeps the contract that CUDA's documentation states for this function's pointers
                // and handles, and the driver's functions take them on the same terms.
                unsafe { $body }
            })
        }
    )*};
}

/// Exports a function in two variants: on the legacy default stream, and (`_ptsz`, `_ptds`) on the thread's own.
macro_rules! export_on_stream {
    ($( fn $legacy:ident, $per_thread:ident($($argument:ident: $type:ty),* $(,)?)
        = $with:ident |$driver:ident, $default:ident| $body:block )*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $legacy($($argument: $type),*) -> i32 {
            let $default = $crate::driver::DefaultStream::Legacy;
            // SAFETY: as in `export!`.
            $crate::export::$with(|$driver| unsafe { $body })
        }

        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $per_thread($($argument: $type),*) -> i32 {
            let $default = $crate::driver::DefaultStream::PerThread;
            // SAFETY: as in `export!`.
            $crate::export::$with(|$driver| unsafe { $body })
        }
    )*};
}
