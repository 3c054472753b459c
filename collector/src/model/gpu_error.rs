//! Which errors say that a GPU stopped the work of a program?
//!
//! `CUresult` and `cudaError_t` have the same numbers for them. These are the errors of which cuda.h or driver_types.h says
//! that the context cannot be used any more, or that the process must be terminated and relaunched to go on with CUDA, and the
//! two about hardware, of which they do not say it: an ECC error and an NVLink error. `CUDA_ERROR_EXTERNAL_DEVICE` (911) is left
//! out, since it may also be an error of the call itself.

/// What is known of the cause of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A kernel.
    Kernel,
    /// A kernel that ran for too long.
    Time,
    /// The hardware.
    Hardware,
    /// A kernel or the hardware.
    KernelOrHardware,
    /// The server of MPS.
    Server,
}

/// An error after which a GPU does no more work for a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GpuError {
    /// Its number.
    pub result: i32,
    /// Its name in cuda.h.
    pub name: &'static str,
    /// The error in two or three words.
    pub short: &'static str,
    /// What happened, as a sentence without its full stop.
    pub meaning: &'static str,
    /// What is known of its cause.
    pub cause: Cause,
    /// Whether NVIDIA says that the context cannot be used any more.
    pub is_sticky: bool,
}

const fn error(
    result: i32,
    name: &'static str,
    short: &'static str,
    meaning: &'static str,
    cause: Cause,
) -> GpuError {
    GpuError { result, name, short, meaning, cause, is_sticky: !matches!(cause, Cause::Hardware) }
}

/// All of them, by number.
const ALL: [GpuError; 14] = [
    error(
        214,
        "CUDA_ERROR_ECC_UNCORRECTABLE",
        "uncorrectable memory error",
        "the GPU found an error in its memory (ECC) that it could not correct",
        Cause::Hardware,
    ),
    error(
        220,
        "CUDA_ERROR_NVLINK_UNCORRECTABLE",
        "uncorrectable NVLink error",
        "a connection between GPUs (NVLink) had an error that could not be corrected",
        Cause::Hardware,
    ),
    error(
        226,
        "CUDA_ERROR_CONTAINED",
        "contained exception",
        "the GPU ended work after an invalid access to another GPU's memory, or after an error of the hardware",
        Cause::KernelOrHardware,
    ),
    error(
        700,
        "CUDA_ERROR_ILLEGAL_ADDRESS",
        "illegal address",
        "a kernel used an address at which it has no memory",
        Cause::Kernel,
    ),
    error(
        702,
        "CUDA_ERROR_LAUNCH_TIMEOUT",
        "launch timeout",
        "a kernel ran for longer than this GPU lets kernels run",
        Cause::Time,
    ),
    error(710, "CUDA_ERROR_ASSERT", "failed assertion", "an assertion in a kernel failed", Cause::Kernel),
    error(
        714,
        "CUDA_ERROR_HARDWARE_STACK_ERROR",
        "stack error",
        "a kernel's call stack was damaged or too large",
        Cause::Kernel,
    ),
    error(
        715,
        "CUDA_ERROR_ILLEGAL_INSTRUCTION",
        "illegal instruction",
        "a kernel came to an instruction that the GPU does not have",
        Cause::Kernel,
    ),
    error(
        716,
        "CUDA_ERROR_MISALIGNED_ADDRESS",
        "misaligned address",
        "a kernel used an address that is not a multiple of the size of what it read or wrote",
        Cause::Kernel,
    ),
    error(
        717,
        "CUDA_ERROR_INVALID_ADDRESS_SPACE",
        "invalid address space",
        "a kernel used an address of another kind of memory than its instruction is for",
        Cause::Kernel,
    ),
    error(
        718,
        "CUDA_ERROR_INVALID_PC",
        "invalid program counter",
        "a kernel came to an address that has no code",
        Cause::Kernel,
    ),
    error(
        719,
        "CUDA_ERROR_LAUNCH_FAILED",
        "launch failure",
        "a kernel failed, as with an invalid pointer, or an index outside its shared memory",
        Cause::Kernel,
    ),
    error(
        721,
        "CUDA_ERROR_TENSOR_MEMORY_LEAK",
        "tensor memory leak",
        "a kernel ended and had not given back all of its tensor memory",
        Cause::Kernel,
    ),
    error(
        810,
        "CUDA_ERROR_MPS_CLIENT_TERMINATED",
        "ended by MPS",
        "the server of MPS ended the program's work",
        Cause::Server,
    ),
];

/// Returns the error that a call returned, if it is one of these.
pub fn of(result: i32) -> Option<&'static GpuError> {
    ALL.iter().find(|error| error.result == result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_that_end_a_context_are_told_from_those_of_a_call() {
        let numbers = ALL.map(|error| error.result);
        assert!(numbers.is_sorted());
        for of_a_call in [0, 1, 2, 46, 100, 201, 209, 600, 701, 703, 704, 709, 711, 720, 801, 911, 999] {
            assert_eq!(of(of_a_call), None);
        }
        assert_eq!(
            of(700).map(|error| (error.name, error.is_sticky)),
            Some(("CUDA_ERROR_ILLEGAL_ADDRESS", true))
        );
        assert_eq!(of(214).map(|error| error.is_sticky), Some(false), "cuda.h does not say it");
    }
}
