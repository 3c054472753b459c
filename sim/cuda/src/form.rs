//! CUfunction and CUkernel: two kinds of handles for kernels. cuda.h says that launches and occupancy queries accept
//! either; for all other functions it does not say, and `kernel_handles` decides.

use crate::call::Call;
use crate::config::config;
use crate::error::{INVALID_HANDLE, INVALID_VALUE, Outcome};
use crate::handle::{Handle, stale};
use crate::state::State;
use crate::truth;

/// The kind of handle that a call accepts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// A CUfunction.
    Function,
    /// A CUkernel.
    Kernel,
}

impl Form {
    /// Returns the kind that a function of this name accepts.
    pub fn of(api: &str) -> Self {
        if api.starts_with("cuKernel") { Self::Kernel } else { Self::Function }
    }
}

impl State {
    /// Checks a handle in a call that accepts one of the two kinds. Each handle of the other kind gets a line in the
    /// truth file.
    pub fn takes(&self, call: &Call, handle: Handle) -> Outcome {
        let form = Form::of(call.api.name);
        let (is_function, is_kernel) =
            (self.functions.get(handle).is_some(), self.kernels.get(handle).is_some());
        let (own, other) = match form {
            Form::Function => (is_function, is_kernel),
            Form::Kernel => (is_kernel, is_function),
        };
        if own {
            return Ok(());
        }
        if handle == 0 {
            // cuda.h, cuFuncGetName.
            return Err(INVALID_VALUE);
        }
        if !other {
            return Err(stale(INVALID_HANDLE, handle));
        }
        let api = call.api.name;
        if truth::wanted() {
            truth::line(format_args!("\"kind\":\"other_form\",\"api\":\"{api}\",\"handle\":{handle}"));
        }
        let assume = &config().assume;
        if assume.is("kernel_handles", "crash") {
            eprintln!("simcuda: {api} got the handle {handle:#x} of the other kind (CUfunction or CUkernel)");
            std::process::abort();
        }
        if assume.is("kernel_handles", "either") { Ok(()) } else { Err(INVALID_HANDLE) }
    }
}
