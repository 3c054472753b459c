//! What a table entry becomes: an intercepted symbol, and the data by which lookups find it.

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

/// The route on which a call came in: it decides which function is called next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Route {
    /// By symbol: on to the next definition in search order.
    Symbol = 0,
    /// By a pointer that a lookup (`dlsym`, `cuGetProcAddress`) handed out: on to what it would have answered.
    Pointer = 1,
    /// The same, for a second answer: a `dlsym` hook behind us, or a driver whose `cuGetProcAddress` has functions of
    /// its own.
    OtherPointer = 2,
}

/// One intercepted symbol.
pub struct Hook {
    /// The exported name.
    pub symbol: &'static CStr,
    /// What `cuGetProcAddress` is asked for, and what reports call it.
    pub base: &'static CStr,
    pub layer: Layer,
    /// The CUDA version from which `cuGetProcAddress` answers with this variant.
    pub version: i32,
    /// The variant's default stream is the calling thread's.
    pub per_thread: bool,
    /// The number that records carry; its name is sent once ([`gpuspy_wire::record::Namespace::Api`]).
    pub api: u16,
    /// Our functions for [`Route::Pointer`] and [`Route::OtherPointer`].
    by_pointer: *const (),
    by_other_pointer: *const (),
    /// The function to call next, by [`Route`]; 0 = not known yet. Relaxed throughout: code, immutable once loaded.
    next: [AtomicUsize; 3],
    /// What [`Route::Symbol`] will lead to, found before the first such call; 0 = not known. Relaxed, as above.
    ahead: AtomicUsize,
    /// The real function's addresses: the library's export and what the real `cuGetProcAddress` answers; 0 = not
    /// learned, [`ABSENT`] = asked, and there is none. Relaxed, as above.
    pub real: [AtomicUsize; 2],
}

/// In [`Hook::real`]: asked, and there is none.
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
        by_pointer: *const (),
        by_other_pointer: *const (),
    ) -> Hook {
        Hook {
            symbol,
            base,
            layer,
            version,
            per_thread,
            api,
            by_pointer,
            by_other_pointer,
            next: [const { AtomicUsize::new(0) }; 3],
            ahead: AtomicUsize::new(0),
            real: [const { AtomicUsize::new(0) }; 2],
        }
    }

    /// The function to call next on this route, if it is known.
    #[inline]
    pub fn next(&self, route: Route) -> Option<usize> {
        let [symbol, pointer, other] = &self.next;
        let slot = match route {
            Route::Symbol => symbol,
            Route::Pointer => pointer,
            Route::OtherPointer => other,
        };
        match slot.load(Ordering::Relaxed) {
            0 => None,
            next => Some(next),
        }
    }

    /// Makes `next` the function that calls by symbol go on to.
    pub fn lead_symbol(&self, next: usize) {
        let [symbol, ..] = &self.next;
        symbol.store(next, Ordering::Relaxed);
    }

    /// The function that calls by symbol will go on to, if that was found already.
    pub fn ahead(&self) -> Option<usize> {
        Some(self.ahead.load(Ordering::Relaxed)).filter(|address| *address != 0)
    }

    /// Remembers it.
    pub fn look_ahead(&self, next: usize) {
        self.ahead.store(next, Ordering::Relaxed);
    }

    /// Whether this is one of the functions that [`Hook::wrapper`] hands out.
    pub fn is_wrapper(&self, address: usize) -> bool {
        [self.by_pointer, self.by_other_pointer].contains(&(address as *const ()))
    }

    /// The function of ours that goes on to `next`, to be handed out in its place: always the same one for the same
    /// `next`, whichever lookup asks, because programs compare pointers. `None` when both that we have lead elsewhere
    /// already (a second library of the same kind): that one then passes untouched.
    pub fn wrapper(&self, next: usize) -> Option<*const ()> {
        let [_, pointer, other] = &self.next;
        [(pointer, self.by_pointer), (other, self.by_other_pointer)].into_iter().find_map(|(slot, entry)| {
            match slot.compare_exchange(0, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => Some(entry),
                Err(known) => (known == next).then_some(entry),
            }
        })
    }
}

/// A call that came in.
#[derive(Clone, Copy)]
pub struct Entry {
    pub hook: &'static Hook,
    pub caller: Caller,
}

/// What the lower floors ask of the hook table: implemented by `crate::table`.
pub struct Table;

/// See [`Table`].
pub trait Hooks {
    /// How many hooks there are.
    const COUNT: usize;
    /// All of them, in the order of [`Hook::api`].
    fn all() -> &'static [Hook];
    /// Those of `cuGetProcAddress_v2` and `cuGetProcAddress`.
    fn getproc() -> [&'static Hook; 2];
}

#[cfg(test)]
mod tests {
    use super::{Hook, Layer, Route};

    #[test]
    fn one_function_has_one_wrapper_and_a_third_none() {
        let (first, second) = (0x10 as *const (), 0x20 as *const ());
        let hook = Hook::new(c"cuInit", c"cuInit", Layer::Driver, 2000, false, 1, first, second);
        assert_eq!(hook.wrapper(0x1000), Some(first));
        assert_eq!(hook.wrapper(0x1000), Some(first), "whoever asks: programs compare pointers");
        assert_eq!(hook.wrapper(0x2000), Some(second));
        assert_eq!(hook.wrapper(0x1000), Some(first));
        assert_eq!(
            hook.wrapper(0x3000),
            None,
            "a hook of ours never leads to another function than it replaced"
        );
        assert_eq!(hook.next(Route::Pointer), Some(0x1000));
        assert_eq!(hook.next(Route::OtherPointer), Some(0x2000));
        assert_eq!(hook.next(Route::Symbol), None);
    }
}
