//! Which functions does the agent bind only when it needs them?
//!
//! Before glibc 2.34, functions for threads and for the loader are not in libc but in libpthread and libdl, and those for
//! unwinding are in libgcc_s everywhere. A library that says that it needs these makes the dynamic loader load them into
//! each process that it is preloaded into, whether that calls CUDA or not, which took more than a third of what the agent
//! adds to the start of a process (docs/speed.md). So the agent says that it needs libc alone, and the functions below,
//! which it calls by their own names, are bound at their first call.
//!
//! Each has a stub of its name that is hidden, so that the program never sees it: it jumps to an address, which at first
//! is [`bind`]'s. The unwinder must be the process's own: code that is unwound when a thread is cancelled asks the unwinder
//! about its frames, and glibc has loaded libgcc_s for that.

use core::ffi::{CStr, c_int};
use core::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use crate::loader::{in_library, libc_dlopen, libc_dlsym, quietly, symbols};
use crate::sys::{Errno, Uncancelled};

/// A function that is bound late.
#[repr(C)]
struct Late {
    /// Where its stub jumps to. Relaxed: code, immutable, and every thread finds the same.
    address: AtomicPtr<()>,
    name: &'static CStr,
    home: Home,
}

/// Where a function is looked for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Home {
    /// libc, or libdl before glibc 2.34. While the process starts, they are found without a lock and without a call, since
    /// sanitizers look functions up before theirs are ready; later, without the lock of dlsym.
    Loader,
    /// Wherever the program would find it, since sanitizers have functions of these names that have to be called; in the
    /// end, in libpthread.
    Threads,
    /// libgcc_s, which may not be loaded yet.
    Unwinder,
}

/// Whether the process has started: the loader has run our constructor. Relaxed: a library's constructor that has started a thread
/// before has synchronized with it.
static STARTED: AtomicBool = AtomicBool::new(false);

/// Binds the loader's functions while the process starts.
pub fn bind_at_start() {
    functions::LOADERS.iter().for_each(|function| _ = address_of(function));
    STARTED.store(true, Ordering::Relaxed);
}

impl Late {
    /// Returns its address, if it is found.
    fn find(&self) -> Option<usize> {
        const LIBDL: &CStr = c"libdl.so.2";
        const UNWINDER: &CStr = c"libgcc_s.so.1";
        match self.home {
            Home::Loader if STARTED.load(Ordering::Relaxed) => {
                symbols::in_libc(self.name).or_else(|| symbols::in_file(LIBDL, self.name))
            }
            Home::Loader => symbols::in_file_at_start(c"libc.so.6", self.name)
                .or_else(|| symbols::in_file_at_start(LIBDL, self.name)),
            Home::Threads => self.in_process(),
            // Where a thread is cancelled it has been loaded, and the loader's lock is not needed.
            Home::Unwinder => symbols::in_file(UNWINDER, self.name).or_else(|| self.in_file(UNWINDER)),
        }
    }

    /// Returns the function that is called where it is not found, and says that it has failed.
    fn absent(&self) -> *const () {
        match self.home {
            Home::Loader => no_loader as *const (),
            Home::Threads => no_threads as *const (),
            Home::Unwinder => no_unwinder as *const (),
        }
    }

    fn in_process(&self) -> Option<usize> {
        let found = quietly(|| {
            // SAFETY: a terminated name.
            let found = unsafe { libc_dlsym()(libc::RTLD_DEFAULT, self.name.as_ptr()) };
            (!found.is_null()).then_some(found as usize)
        });
        found.or_else(|| self.in_file(c"libpthread.so.0"))
    }

    /// Its address in a library, which is loaded if it is not there yet, and stays.
    fn in_file(&self, library: &CStr) -> Option<usize> {
        let handle = quietly(|| {
            // SAFETY: a terminated name.
            let handle = unsafe { libc_dlopen()(library.as_ptr(), libc::RTLD_LAZY) };
            (!handle.is_null()).then_some(handle)
        });
        in_library(handle?, self.name)
    }
}

/// What dladdr, dlclose, dlerror and dlvsym return where there is none: nothing was found, and there is no message.
extern "C" fn no_loader() -> usize {
    0
}

/// What functions for threads return where there is none.
extern "C" fn no_threads() -> c_int {
    libc::ENOSYS
}

/// Without an unwinder nothing can be unwound. Rust ends the process in that case, too.
extern "C" fn no_unwinder() -> ! {
    // SAFETY: ends the process.
    unsafe { libc::abort() }
}

/// Binds a function, if it is found, and returns what to call. Called by [`bind`].
extern "C" fn address_of(function: &Late) -> *const () {
    let errno = Errno::save();
    // What finds the loader's functions is no cancellation point, and calls nothing that others may have replaced.
    let _whole = (function.home != Home::Loader).then(Uncancelled::new);
    let found = function.find().map(|address| address as *const ());
    if let Some(address) = found {
        function.address.store(address.cast_mut(), Ordering::Relaxed);
    }
    errno.restore();
    found.unwrap_or_else(|| function.absent())
}

/// Binds the function that the stub has passed in a register, and goes on there with the caller's arguments.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
unsafe extern "C" fn bind() {
    core::arch::naked_asm!(
        "push rdi",
        "push rsi",
        "push rdx",
        "push rcx",
        "sub rsp, 8",
        "mov rdi, r11",
        "call {address_of}",
        "add rsp, 8",
        "pop rcx",
        "pop rdx",
        "pop rsi",
        "pop rdi",
        "jmp rax",
        address_of = sym address_of,
    )
}

/// Binds the function that the stub has passed in a register, and goes on there with the caller's arguments.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
unsafe extern "C" fn bind() {
    core::arch::naked_asm!(
        "stp x0, x1, [sp, -48]!",
        "stp x2, x3, [sp, 16]",
        "str x30, [sp, 32]",
        "mov x0, x16",
        "bl {address_of}",
        "mov x17, x0",
        "ldr x30, [sp, 32]",
        "ldp x2, x3, [sp, 16]",
        "ldp x0, x1, [sp], 48",
        "br x17",
        address_of = sym address_of,
    )
}

/// Declares the functions, and defines their stubs. None takes more than four arguments, which are words.
macro_rules! late_bound {
    ($($home:ident { $($name:ident)* })*) => {
        /// The functions.
        #[allow(non_upper_case_globals)]
        mod functions {
            use super::*;
            $($(pub static $name: Late = Late {
                address: AtomicPtr::new(bind as *mut ()),
                name: match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                    Ok(name) => name,
                    Err(_) => c"",
                },
                home: Home::$home,
            };)*)*

            /// Those of the loader.
            pub static LOADERS: [&Late; 4] = [&dladdr, &dlclose, &dlerror, &dlvsym];
        }

        #[cfg(test)]
        static ALL: &[&Late] = &[$($(&functions::$name,)*)*];

        // A test executable is linked against the libraries.
        #[cfg(not(test))]
        mod stubs {
            use super::functions;
            $($(core::arch::global_asm!(
                ".pushsection .text.late_bound, \"ax\"",
                concat!(".globl ", stringify!($name)),
                concat!(".hidden ", stringify!($name)),
                concat!(".type ", stringify!($name), ", %function"),
                concat!(stringify!($name), ":"),
                #[cfg(target_arch = "x86_64")]
                "lea r11, [rip + {function}]",
                #[cfg(target_arch = "x86_64")]
                "jmp [r11]",
                #[cfg(target_arch = "aarch64")]
                "adrp x16, {function}",
                #[cfg(target_arch = "aarch64")]
                "add x16, x16, :lo12:{function}",
                #[cfg(target_arch = "aarch64")]
                "ldr x17, [x16]",
                #[cfg(target_arch = "aarch64")]
                "br x17",
                concat!(".size ", stringify!($name), ", . - ", stringify!($name)),
                ".popsection",
                function = sym functions::$name,
            );)*)*
        }
    };
}

late_bound! {
    Loader { dladdr dlclose dlerror dlvsym }
    // Rust's standard library calls some of them, too.
    Threads {
        pthread_attr_setstacksize pthread_create pthread_key_create pthread_key_delete pthread_setname_np
        pthread_setspecific pthread_sigmask
    }
    Unwinder {
        _Unwind_Backtrace _Unwind_DeleteException _Unwind_FindEnclosingFunction _Unwind_GetCFA _Unwind_GetDataRelBase
        _Unwind_GetIP _Unwind_GetIPInfo _Unwind_GetLanguageSpecificData _Unwind_GetRegionStart
        _Unwind_GetTextRelBase _Unwind_RaiseException _Unwind_Resume _Unwind_SetGR _Unwind_SetIP
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loader::next_definition;

    #[test]
    fn each_function_is_the_process_own() {
        for function in ALL {
            let found = address_of(function);
            assert_eq!(Some(found as usize), next_definition(function.name), "{:?}", function.name);
            assert_eq!(function.address.load(Ordering::Relaxed).cast_const(), found);
        }
    }

    #[test]
    fn a_function_that_is_missing_fails_and_is_looked_for_again() {
        let called = |home| {
            let function = Late { address: AtomicPtr::default(), name: c"gpuspy_has_no_such_function", home };
            let called = address_of(&function);
            assert!(function.address.load(Ordering::Relaxed).is_null(), "it may be found later");
            called
        };
        assert_eq!(called(Home::Loader), no_loader as *const ());
        assert_eq!(called(Home::Threads), no_threads as *const ());
        assert_eq!(called(Home::Unwinder), no_unwinder as *const ());
    }

    #[test]
    fn functions_of_the_loader_are_found_when_the_process_has_started_too() {
        let before: Vec<_> = functions::LOADERS.iter().map(|function| address_of(function)).collect();
        bind_at_start();
        let after: Vec<_> = functions::LOADERS.iter().map(|function| address_of(function)).collect();
        assert_eq!(before, after);
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn the_first_call_has_its_arguments_and_so_have_the_next() {
        // Any function of the process is found like those for threads.
        static MEMMEM: Late =
            Late { address: AtomicPtr::new(bind as *mut ()), name: c"memmem", home: Home::Threads };
        let text = b"a launch on a stream";
        let find = |part: &[u8]| {
            let found: *const u8;
            // SAFETY: what a stub does, which passes the function in a register; memmem(3) takes two texts and their lengths.
            unsafe {
                core::arch::asm!(
                    "call [r11]",
                    in("r11") &MEMMEM,
                    inout("rdi") text.as_ptr() => _,
                    inout("rsi") text.len() => _,
                    inout("rdx") part.as_ptr() => _,
                    inout("rcx") part.len() => _,
                    lateout("rax") found,
                    clobber_abi("C"),
                );
            }
            (!found.is_null()).then(|| found as usize - text.as_ptr() as usize)
        };
        assert_eq!([find(b"launch"), find(b"stream"), find(b"event")], [Some(2), Some(14), None]);
        assert_ne!(MEMMEM.address.load(Ordering::Relaxed).cast_const(), bind as *const ());
    }
}
