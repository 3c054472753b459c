//! An intercepted function: its names, the routes on which calls reach it, and the functions that it calls next.

use crate::sys::Caller;
use core::ffi::CStr;
use core::sync::atomic::{AtomicUsize, Ordering};

/// Which library a function belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Layer {
    /// libcuda.
    Driver,
    /// libcudart.
    Runtime,
}

/// The route on which a call reached us. It decides which function is called next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Route {
    /// By symbol. The next function is the next definition in search order.
    Symbol = 0,
    /// By a pointer that a lookup (`dlsym`, `cuGetProcAddress`) returned. The next function is the one that the lookup
    /// would have returned without us.
    Pointer = 1,
    /// As [`Route::Pointer`], for a second function: from a `dlsym` hook that comes after us, or from a driver whose
    /// `cuGetProcAddress` returns functions that it does not export.
    OtherPointer = 2,
}

/// One intercepted symbol.
pub struct Hook {
    /// The exported name.
    pub symbol: &'static CStr,
    /// The name that is passed to `cuGetProcAddress`, and that reports print.
    pub base: &'static CStr,
    pub layer: Layer,
    /// The lowest CUDA version for which `cuGetProcAddress` returns this variant.
    pub version: i32,
    /// Whether the variant's default stream is the calling thread's.
    pub per_thread: bool,
    /// The function's number in records. Its name is sent once ([`gpuspy_wire::record::Namespace::Api`]).
    pub api: u16,
    /// Our functions, by [`Route`].
    by_symbol: *const (),
    by_pointer: *const (),
    by_other_pointer: *const (),
}

/// What is found out of a hook's function while the program runs. It is apart from the hooks, whose pages the loader writes
/// in each process when it relocates their addresses: these pages are touched only where CUDA is called. Relaxed
/// throughout: these are addresses of code, which does not change once it is loaded.
struct Found {
    /// The function to call next, by [`Route`]; 0 = not known yet.
    next: [AtomicUsize; 3],
    /// The next function for [`Route::Symbol`], found before the first such call; 0 = not known.
    ahead: AtomicUsize,
    /// The real function's addresses: the library's export, and what the real `cuGetProcAddress` returns; 0 = not
    /// looked up yet, [`ABSENT`] = there is none.
    real: [AtomicUsize; 2],
}

/// The most hooks that a table has: [`Hook::api`] is at most that.
pub const MOST: usize = 1024;

/// By [`Hook::api`], which begins with 1.
static FOUND: [Found; MOST] = [const {
    Found {
        next: [const { AtomicUsize::new(0) }; 3],
        ahead: AtomicUsize::new(0),
        real: [const { AtomicUsize::new(0) }; 2],
    }
}; MOST];

/// In [`Hook::real`]: the library has no such function.
pub const ABSENT: usize = usize::MAX;

// SAFETY: the raw pointers are addresses of functions.
unsafe impl Sync for Hook {}

impl Hook {
    #[allow(clippy::too_many_arguments, reason = "called by the table's macro only, with named statics")]
    pub const fn new(
        symbol: &'static CStr,
        base: &'static CStr,
        layer: Layer,
        version: i32,
        per_thread: bool,
        api: u16,
        by_symbol: *const (),
        by_pointer: *const (),
        by_other_pointer: *const (),
    ) -> Hook {
        Hook { symbol, base, layer, version, per_thread, api, by_symbol, by_pointer, by_other_pointer }
    }

    #[inline(always)]
    fn found(&self) -> &'static Found {
        #[allow(clippy::indexing_slicing, reason = "the remainder is below the length")]
        &FOUND[(self.api as usize).wrapping_sub(1) % MOST]
    }

    /// The function to call next on this route, if it is known.
    #[inline]
    pub fn next(&self, route: Route) -> Option<usize> {
        // The route is an index: of a match, the compiler would make a table of three addresses for each hook, which the loader
        // would have to relocate.
        match self.found().next.get(route as usize)?.load(Ordering::Relaxed) {
            0 => None,
            next => Some(next),
        }
    }

    /// The real function's addresses: the library's export, and what the real `cuGetProcAddress` returns; 0 = not
    /// looked up yet, [`ABSENT`] = there is none. Relaxed: addresses of code.
    pub fn real(&self) -> &'static [AtomicUsize; 2] {
        &self.found().real
    }

    /// Sets the function that calls by symbol continue to.
    pub fn lead_symbol(&self, next: usize) {
        let [symbol, ..] = &self.found().next;
        symbol.store(next, Ordering::Relaxed);
    }

    /// Returns the function that calls by symbol will continue to, if [`Hook::look_ahead`] has stored it.
    pub fn ahead(&self) -> Option<usize> {
        Some(self.found().ahead.load(Ordering::Relaxed)).filter(|address| *address != 0)
    }

    /// Stores the function that calls by symbol will continue to.
    pub fn look_ahead(&self, next: usize) {
        self.found().ahead.store(next, Ordering::Relaxed);
    }

    /// Returns our function for [`Route::Symbol`], which is the export.
    pub fn by_symbol(&self) -> *const () {
        self.by_symbol
    }

    /// Whether this is one of our functions.
    pub fn is_wrapper(&self, address: usize) -> bool {
        [self.by_symbol, self.by_pointer, self.by_other_pointer].contains(&(address as *const ()))
    }

    /// Returns our function that continues to `next`, for a lookup to return in its place. It is always the same one
    /// for the same `next`, whichever lookup it is for, because programs compare pointers. `None` when both of our
    /// functions already continue elsewhere (there is a second library of the same kind): the caller then leaves `next`
    /// as it is.
    pub fn wrapper(&self, next: usize) -> Option<*const ()> {
        let [_, pointer, other] = &self.found().next;
        [(pointer, self.by_pointer), (other, self.by_other_pointer)].into_iter().find_map(|(slot, entry)| {
            match slot.compare_exchange(0, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => Some(entry),
                Err(known) => (known == next).then_some(entry),
            }
        })
    }
}

/// A call that reached a hook.
#[derive(Clone, Copy)]
pub struct Entry {
    pub caller: Caller,
    /// [`Hook::layer`], [`Hook::per_thread`] and [`Hook::api`], which the compiler knows where the hook's code begins.
    pub layer: Layer,
    pub per_thread: bool,
    pub api: u16,
}

/// The hook table, as lower floors see it. `crate::table` implements [`Hooks`] for it.
pub struct Table;

/// What lower floors need of the hook table.
pub trait Hooks {
    /// How many hooks there are.
    const COUNT: usize;
    /// Returns all of them, in the order of [`Hook::api`].
    fn all() -> &'static [Hook];
    /// Returns the one with this exported name.
    fn named(symbol: &CStr) -> Option<&'static Hook>;
    /// Returns those whose base name this is.
    fn variants(base: &CStr) -> impl Iterator<Item = &'static Hook>;
    /// Returns those of `cuGetProcAddress_v2` and `cuGetProcAddress`.
    fn getproc() -> [&'static Hook; 2];
}

#[cfg(test)]
mod tests {
    use super::{Hook, Layer, Route};

    #[test]
    fn one_function_has_one_wrapper_and_a_third_none() {
        let [export, first, second] = [0x8, 0x10, 0x20].map(|address: usize| address as *const ());
        let hook = Hook::new(c"cuInit", c"cuInit", Layer::Driver, 2000, false, 1, export, first, second);
        assert_eq!(hook.wrapper(0x1000), Some(first));
        assert_eq!(
            hook.wrapper(0x1000),
            Some(first),
            "every lookup gets the same one: programs compare pointers"
        );
        assert_eq!(hook.wrapper(0x2000), Some(second));
        assert_eq!(hook.wrapper(0x1000), Some(first));
        assert_eq!(
            hook.wrapper(0x3000),
            None,
            "a wrapper never continues to another function than the one that it replaced"
        );
        assert_eq!(hook.next(Route::Pointer), Some(0x1000));
        assert_eq!(hook.next(Route::OtherPointer), Some(0x2000));
        assert_eq!(hook.next(Route::Symbol), None);
    }
}
