//! Which interpreter is in the process?

use core::ffi::{CStr, c_char, c_int};

use crate::loader::libraries;
use crate::loader::symbols::Symbols;
use crate::python::layout::{DEBUG_WORDS, Layout, Unknown};
use crate::python::memory;

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
    this_thread: u64,
    is_finalizing: u64,
    types: Types,
    /// `Py_Version`, a number, from 3.11 on; before, `Py_GetVersion`, which returns a text.
    number: Option<u64>,
    text: Option<u64>,
    runtime: Option<u64>,
}

impl Addresses {
    /// Finds them in the first object that has an interpreter: a libpython, or a program that one is linked into.
    fn find() -> Option<Addresses> {
        libraries::search(|loaded| {
            let symbols = Symbols::of(loaded)?;
            Some(Addresses {
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
                text: symbols.get(c"Py_GetVersion"),
                runtime: symbols.get(c"_PyRuntime"),
            })
        })
    }

    fn version(&self) -> u16 {
        if let Some(number) = self.number {
            // PY_VERSION_HEX: two bytes for what is neither major nor minor.
            return memory::checked_int(number).map_or(0, |hex| (hex as u32 >> 16) as u16);
        }
        self.text.map_or(0, |address| {
            // SAFETY: CPython's function with this name and prototype. It formats into a buffer of its own, takes no lock
            // and needs no GIL; the text is terminated and stays.
            let text = unsafe {
                let version: unsafe extern "C" fn() -> *const c_char = core::mem::transmute(address as usize);
                CStr::from_ptr(version())
            };
            text.to_str().map_or(0, parse)
        })
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

/// Reads `major << 8 | minor` from a text such as `3.9.18 (main, …`.
fn parse(text: &str) -> u16 {
    let mut numbers = text.split(['.', ' ', '+']).map(|part| part.parse::<u8>().ok());
    match (numbers.next().flatten(), numbers.next().flatten()) {
        (Some(major), Some(minor)) => u16::from(major) << 8 | u16::from(minor),
        _ => 0,
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
        let types = addresses.types;
        Ok(Interpreter { this_thread, is_finalizing, types, layout, version })
    }

    /// Returns the address of the calling thread's state; `None` where it has none, and once the interpreter ends.
    #[inline]
    pub fn this_thread(&self) -> Option<u64> {
        // SAFETY: both read a word of the interpreter's and, of the thread, its own specific value; they take no lock and
        // need no GIL.
        let state = unsafe { if (self.is_finalizing)() != 0 { 0 } else { (self.this_thread)() } };
        (state != 0).then_some(state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_read_from_its_text() {
        assert_eq!(parse("3.9.18 (main, May  9 2026, 10:00:00) [GCC 12.2.0]"), 0x0309);
        assert_eq!(parse("3.10.0+ (heads)"), 0x030a);
        assert_eq!(parse("3.15+"), 0x030f);
        for text in ["", "three", "3", "3.x"] {
            assert_eq!(parse(text), 0, "{text}");
        }
    }
}
