//! Which interpreter is in the process?

use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, Ordering};

use crate::loader::libraries;
use crate::loader::symbols::Symbols;
use crate::memory;
use crate::python::layout::{DEBUG_WORDS, Layout, Unknown};

/// An interpreter whose frames can be read.
pub struct Interpreter {
    /// `PyGILState_GetThisThreadState`: the calling thread's state, also where it does not hold the GIL. (What returns the
    /// current state returns that of the thread that holds the GIL, or none.)
    this_thread: unsafe extern "C" fn() -> u64,
    /// `Py_IsFinalizing`: whether the interpreter ends, which frees the states of threads that still run.
    is_finalizing: unsafe extern "C" fn() -> c_int,
    /// The addresses of `PyCode_Type`, `PyUnicode_Type` and `PyBytes_Type`.
    pub types: Types,
    pub layout: Layout,
    /// `major << 8 | minor`.
    pub version: u16,
    /// The load bias of the object that it is in, and whether that stays loaded until the process ends. Relaxed: a thread
    /// that misses it has it stay loaded once more.
    base: u64,
    is_pinned: AtomicBool,
}

/// The types of the objects that are read.
#[derive(Clone, Copy)]
pub struct Types {
    pub code: u64,
    pub text: u64,
    pub bytes: u64,
}

/// The addresses of the symbols that are used.
struct Addresses {
    base: u64,
    this_thread: u64,
    is_finalizing: u64,
    types: Types,
    /// `Py_Version`, a number, from 3.11 on.
    number: Option<u64>,
    /// Whether there are `Py_NewRef` and `PyFrame_GetBack`, which 3.10 and 3.9 have brought.
    has_new_ref: bool,
    has_get_back: bool,
    runtime: Option<u64>,
}

impl Addresses {
    /// Finds them in the first object that has an interpreter: a libpython, or a program that one is linked into.
    fn find() -> Option<Addresses> {
        libraries::search(|loaded| {
            let symbols = Symbols::of(loaded)?;
            Some(Addresses {
                base: loaded.base(),
                this_thread: symbols.get(c"PyGILState_GetThisThreadState")?,
                is_finalizing: symbols
                    .get(c"Py_IsFinalizing")
                    .or_else(|| symbols.get(c"_Py_IsFinalizing"))?,
                types: Types {
                    code: symbols.get(c"PyCode_Type")?,
                    text: symbols.get(c"PyUnicode_Type")?,
                    bytes: symbols.get(c"PyBytes_Type")?,
                },
                number: symbols.get(c"Py_Version"),
                has_new_ref: symbols.get(c"Py_NewRef").is_some(),
                has_get_back: symbols.get(c"PyFrame_GetBack").is_some(),
                runtime: symbols.get(c"_PyRuntime"),
            })
        })
    }

    /// Returns `major << 8 | minor`, without a call of the interpreter's; 0 = older than 3.9.
    fn version(&self) -> u16 {
        match self.number {
            // PY_VERSION_HEX: two bytes for what is neither major nor minor.
            Some(number) => memory::checked_int(number).map_or(0, |hex| (hex as u32 >> 16) as u16),
            // "New in version 3.10", "New in version 3.9" (Python/C API Reference Manual).
            None if self.has_new_ref => 0x030a,
            None if self.has_get_back => 0x0309,
            None => 0,
        }
    }

    /// Copies `_Py_DebugOffsets`, with which `_PyRuntime` begins from 3.13 on.
    fn debug_offsets(&self) -> Option<[u64; DEBUG_WORDS]> {
        let mut words = [0; DEBUG_WORDS];
        let runtime = self.runtime?;
        for (at, word) in (0..).zip(&mut words) {
            *word = memory::checked_word(runtime + 8 * at)?;
        }
        Some(words)
    }
}

impl Interpreter {
    /// Searches the loaded objects. `None`: there is no interpreter. An error says why its frames cannot be read.
    pub fn find() -> Option<Result<Interpreter, Unknown>> {
        Addresses::find().map(|addresses| Interpreter::at(&addresses))
    }

    fn at(addresses: &Addresses) -> Result<Interpreter, Unknown> {
        let version = addresses.version();
        let layout = Layout::of(version, addresses.debug_offsets().as_ref())?;
        // SAFETY: CPython's functions with these names and prototypes, of a version that is known.
        let (this_thread, is_finalizing) = unsafe {
            (
                core::mem::transmute::<usize, unsafe extern "C" fn() -> u64>(addresses.this_thread as usize),
                core::mem::transmute::<usize, unsafe extern "C" fn() -> c_int>(
                    addresses.is_finalizing as usize,
                ),
            )
        };
        let Addresses { types, base, .. } = *addresses;
        let is_pinned = AtomicBool::new(false);
        Ok(Interpreter { this_thread, is_finalizing, types, layout, version, base, is_pinned })
    }

    /// Has its library stay loaded, so that its functions can be called. Returns false if it was unloaded. The first call
    /// takes the loader's lock, so it is for a thread of the app's.
    pub fn stays_loaded(&self) -> bool {
        if self.is_pinned.load(Ordering::Relaxed) {
            return true;
        }
        let function = self.this_thread as *const () as u64;
        let is_pinned = libraries::stays(self.base) && libraries::base_of(function) == Some(self.base);
        self.is_pinned.store(is_pinned, Ordering::Relaxed);
        is_pinned
    }

    /// Returns the address of the calling thread's state, if the library [stays loaded](Self::stays_loaded); `None` where it has none, and once the interpreter ends.
    #[inline]
    pub fn this_thread(&self) -> Option<u64> {
        // SAFETY: both read a word of the interpreter's and, of the thread, its own specific value; they take no lock and
        // need no GIL.
        let state = unsafe { if (self.is_finalizing)() != 0 { 0 } else { (self.this_thread)() } };
        (state != 0).then_some(state)
    }
}
