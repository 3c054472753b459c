//! How is a process made that the app does not notice? By the system call itself: a sanitizer replaces the C library's
//! `clone`, and takes what we do for a fork of the app's.

use core::ffi::{c_int, c_void};

/// What runs in the new process.
pub type Body = extern "C" fn(*mut c_void) -> c_int;

/// Runs a function in a new process that shares our memory, on a stack of its own that ends at `stack_top` (a multiple of
/// 16), and waits until it has called exec or exit. `signal` is what its parent gets at its end; 0 = none. Returns its id, or
/// -errno.
///
/// # Safety
/// The function uses only what outlives the call, allocates nothing and takes no lock; the stack is large enough for it.
#[cfg(target_arch = "x86_64")]
pub unsafe fn run(body: Body, stack_top: *mut c_void, signal: c_int, argument: *mut c_void) -> c_int {
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | signal;
    let result: i64;
    // SAFETY: the caller's promises. The new process continues behind the system call with our registers and its own
    // stack, on which it makes the call as the ABI has it, and never comes back; we continue when it is gone. rcx and r11
    // are changed by the system call.
    unsafe {
        core::arch::asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "mov rdi, r13",
            "call r12",
            "mov edi, eax",
            "mov eax, {exit}",
            "syscall",
            "ud2",
            "2:",
            exit = const libc::SYS_exit,
            inlateout("rax") libc::SYS_clone => result,
            in("rdi") i64::from(flags),
            in("rsi") stack_top,
            in("rdx") 0u64,
            in("r10") 0u64,
            in("r8") 0u64,
            in("r12") body,
            in("r13") argument,
            lateout("rcx") _,
            lateout("r11") _,
        );
    }
    result as c_int
}

/// As above.
///
/// # Safety
/// As above.
#[cfg(target_arch = "aarch64")]
pub unsafe fn run(body: Body, stack_top: *mut c_void, signal: c_int, argument: *mut c_void) -> c_int {
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | signal;
    let result: i64;
    // SAFETY: as above.
    unsafe {
        core::arch::asm!(
            "svc 0",
            "cbnz x0, 2f",
            "mov x29, xzr",
            "mov x0, x21",
            "blr x20",
            "mov x8, {exit}",
            "svc 0",
            "brk 1",
            "2:",
            exit = const libc::SYS_exit,
            inlateout("x0") i64::from(flags) => result,
            in("x8") libc::SYS_clone,
            in("x1") stack_top,
            in("x2") 0u64,
            in("x3") 0u64,
            in("x4") 0u64,
            in("x20") body,
            in("x21") argument,
        );
    }
    result as c_int
}

#[cfg(test)]
mod tests {
    use super::*;

    extern "C" fn add_one(argument: *mut c_void) -> c_int {
        // SAFETY: the test's variable, which outlives this process.
        unsafe { *argument.cast::<u32>() += 1 };
        41
    }

    #[test]
    fn a_function_runs_in_a_process_of_its_own_and_shares_our_memory() {
        let stack = vec![0u128; 4096];
        let mut value = 6u32;
        let top = stack.as_ptr_range().end.cast_mut().cast();
        // SAFETY: the function uses only the variable; the stack is of 64 KiB.
        let child = unsafe { run(add_one, top, libc::SIGCHLD, (&raw mut value).cast()) };
        assert!(child > 0, "{child}");
        let mut status = 0;
        // SAFETY: our own child.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert_eq!((value, libc::WEXITSTATUS(status)), (7, 41));
    }
}
