//! Kernels that fail: from the end of such a kernel on, its context does no more work, and calls in it return the kernel's error.
//!
//! cuda.h, CUDA_ERROR_ILLEGAL_ADDRESS and others: "This leaves the process in an inconsistent state and any further CUDA work
//! will return the same error." Which calls are no work is an assumption: those that start the driver, describe it or its
//! devices, or say which context is current; and those that end a context, after which a new one works again
//! (CUDA_ERROR_ASSERT: "The context cannot be used anymore, and must be destroyed").

use crate::call::{Call, Class};
use crate::clocks::Ns;
use crate::error::{Failure, Outcome};
use crate::export::Api;
use crate::handle::Handle;
use crate::state::{self, State};
use crate::thread;
use std::sync::atomic::{AtomicBool, Ordering};

/// What a kernel that fails does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Number of the context that it ends.
    pub context: u32,
    /// The result of the calls in it.
    pub result: Failure,
}

/// Whether a kernel that fails was ever launched. Relaxed: a call that races with the launch comes before its end.
static ANY: AtomicBool = AtomicBool::new(false);

/// Returns the error of a kernel with a part `_fault<N>` in its name.
pub fn named(name: &str) -> Option<Failure> {
    name.split('_')
        .skip(1)
        .find_map(|part| part.strip_prefix("fault")?.parse().ok())
        .filter(|result| *result > 0)
}

/// Whether a function can be called in a context that does no more work.
fn is_no_work(api: &Api) -> bool {
    let of_contexts = ["Create", "Destroy", "Attach", "Detach", "Get", "Set", "Push", "Pop"];
    let is_about_contexts =
        |rest: &str| of_contexts.iter().any(|what| rest.starts_with(what)) && !rest.contains("Limit");
    api.class == Class::Free
        || api.name.starts_with("cuDevice")
        || api.name.strip_prefix("cuCtx").is_some_and(is_about_contexts)
}

/// Refuses a call if a kernel has ended the work of the thread's current context.
pub fn admit(call: &Call) -> Outcome {
    if is_no_work(call.api) { Ok(()) } else { check(thread::current()) }
}

/// Refuses to go on if a kernel has ended the work of a context.
pub fn check(context: Handle) -> Outcome {
    if ANY.load(Ordering::Relaxed) { state::lock(0).check_works(context) } else { Ok(()) }
}

impl State {
    /// Ends the work of a context at a time that may be in the future.
    pub fn fail(&mut self, Fault { context, result }: Fault, at: Ns) {
        ANY.store(true, Ordering::Relaxed);
        let first = self.faults.entry(context).or_insert((at, result));
        if at < first.0 {
            *first = (at, result);
        }
    }

    /// Returns when the work of a context ends, by its number.
    pub fn works_until(&self, context: u32) -> Ns {
        self.faults.get(&context).map_or(Ns::MAX, |(at, _)| *at)
    }

    /// Returns the error of the kernel that has ended the work of a context, if one has.
    pub fn check_works(&self, context: Handle) -> Outcome {
        let number = self.contexts.get(self.root(context)).map(|context| context.id);
        match number.and_then(|number| self.faults.get(&number)) {
            Some((at, result)) if *at <= self.now => Err(*result),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_kernel_says_with_which_error_it_fails() {
        assert_eq!(named("scatter_fault700_20us"), Some(700));
        assert_eq!(named("step_fault710"), Some(710));
        for fine in ["fault700_20us", "default_20us", "a_default700", "a_fault_20us", "a_fault0"] {
            assert_eq!(named(fine), None, "{fine}");
        }
    }

    #[test]
    fn what_is_no_work_goes_on() {
        let is_refused = |name| !is_no_work(&Api { name, per_thread: false, class: Class::of(name) });
        for name in [
            "cuGetErrorName",
            "cuCtxGetCurrent",
            "cuCtxSetCurrent",
            "cuDevicePrimaryCtxReset",
            "cuCtxDestroy",
        ] {
            assert!(!is_refused(name), "{name}");
        }
        for name in
            ["cuStreamSynchronize", "cuCtxSynchronize", "cuMemAlloc", "cuEventQuery", "cuLaunchKernel"]
        {
            assert!(is_refused(name), "{name}");
        }
    }
}
