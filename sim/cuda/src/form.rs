//! CUfunction and CUkernel: two kinds of handles for what can be launched. A call that takes one in the other's place says so
//! (cuda.h: launches and occupancy); of all others nothing is said, and `kernel_handles` decides.

use crate::call::Call;
use crate::config::config;
use crate::error::{INVALID_HANDLE, INVALID_VALUE, Outcome};
use crate::handle::{Handle, stale};
use crate::state::State;
use crate::truth;

/// Which kind a call takes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// A CUfunction.
    Function,
    /// A CUkernel.
    Kernel,
}

impl Form {
    /// The kind that a call of this name takes.
    pub fn of(api: &str) -> Self {
        if api.starts_with("cuKernel") { Self::Kernel } else { Self::Function }
    }
}

impl State {
    /// What comes of a handle in a call that takes handles of the other kind, or of its own. The truth tells of each that was
    /// of the other, whatever comes of it.
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
            eprintln!("simcuda: {api} was given {handle:#x}, which is of the other kind");
            std::process::abort();
        }
        if assume.is("kernel_handles", "either") { Ok(()) } else { Err(INVALID_HANDLE) }
    }
}
