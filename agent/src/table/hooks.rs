//! The macros that turn a table entry into code: three entry points, their common body, and the array that lookups
//! search.

/// Expands to the functions of one intercepted symbol. See [`hooks`].
macro_rules! hook {
    ($layer:ident $symbol:ident ($($thread:ident)?) ( $($arg:ident : $ty:ty),* ) $how:ident ( $call:expr )) => {
        #[allow(non_snake_case, unused_imports, clippy::missing_safety_doc, clippy::too_many_arguments, reason = "C's names")]
        pub mod $symbol {
            use super::*;
            use $crate::hook::{Entry, Route};
            use $crate::sys::{Caller, caller};

            /// The exported symbol.
            ///
            /// # Safety
            /// As CUDA's function of this name.
            #[cfg_attr(not(test), unsafe(no_mangle))]
            pub unsafe extern "C-unwind" fn $symbol($($arg: $ty),*) -> int {
                let caller = caller!();
                $crate::table::hooks::light! { $layer $how ($($arg,)* caller, Route::Symbol) }
                // SAFETY: the caller's promises, passed on.
                unsafe { body($($arg,)* caller, Route::Symbol) }
            }

            pub unsafe extern "C-unwind" fn by_pointer($($arg: $ty),*) -> int {
                let caller = caller!();
                $crate::table::hooks::light! { $layer $how ($($arg,)* caller, Route::Pointer) }
                // SAFETY: the caller's promises, passed on.
                unsafe { body($($arg,)* caller, Route::Pointer) }
            }

            pub unsafe extern "C-unwind" fn by_other_pointer($($arg: $ty),*) -> int {
                let caller = caller!();
                $crate::table::hooks::light! { $layer $how ($($arg,)* caller, Route::OtherPointer) }
                // SAFETY: the caller's promises, passed on.
                unsafe { body($($arg,)* caller, Route::OtherPointer) }
            }

            type Function = unsafe extern "C-unwind" fn($($ty),*) -> int;

            const fn entry(caller: Caller) -> Entry {
                Entry {
                    caller,
                    layer: $crate::table::hooks::layer!($layer),
                    per_thread: $crate::table::hooks::per_thread!($($thread)?),
                    api: $crate::table::Symbol::$symbol as u16 + 1,
                }
            }

            $crate::table::hooks::if_light! { $layer $how
            /// Makes the call if nothing has to be done but to record it; `None`: nothing has happened.
            #[inline(always)]
            unsafe fn light($($arg: $ty,)* caller: Caller, route: Route) -> Option<int> {
                let next = $crate::interpose::known($crate::table::get($crate::table::Symbol::$symbol), route, caller)?;
                // SAFETY: as in `body`.
                let call = unsafe { core::mem::transmute::<usize, Function>(next) };
                // SAFETY: the caller's promises, passed on.
                $crate::calls::light(entry(caller), #[inline(always)] move || $call, #[inline(always)] move || unsafe { call($($arg),*) })
            } }

            // One function for all three entry points. Ours are the last parameters, so that the program's stay in their registers.
            #[inline(never)]
            #[allow(unused_variables, reason = "a call's record needs some of its parameters")]
            unsafe fn body($($arg: $ty,)* caller: Caller, route: Route) -> int {
                let hook = $crate::table::get($crate::table::Symbol::$symbol);
                let Some(next) = $crate::interpose::next(hook, route, caller) else {
                    return $crate::cuda::ERROR_STUB_LIBRARY;
                };
                // SAFETY: the address of a function that the loader, or the driver, gave for this very symbol, whose
                // prototype is checked against NVIDIA's headers.
                let call = unsafe { core::mem::transmute::<usize, Function>(next.address) };
                if !next.labelled {
                    // SAFETY: as `next.address` above; the arguments are the caller's.
                    return unsafe { call($($arg),*) };
                }
                $crate::calls::$how(
                    entry(caller),
                    #[inline(always)]
                    move || $call,
                    // SAFETY: the caller's promises, passed on.
                    #[inline(always)]
                    move || unsafe { call($($arg),*) },
                )
            }
        }
    };
}
pub(crate) use hook;

/// Keeps what is for calls that [`light`](crate::calls::light) may make.
macro_rules! if_light {
    ($layer:ident launch $($item:tt)*) => { $($item)* };
    ($layer:ident $how:ident $($item:tt)*) => {};
}
pub(crate) use if_light;

/// Returns from an entry point if its call was a light one.
macro_rules! light {
    ($layer:ident launch $arguments:tt) => {
        // SAFETY: the caller's promises, passed on.
        if let Some(result) = unsafe { light $arguments } {
            return result;
        }
        core::hint::cold_path();
    };
    ($layer:ident $how:ident $arguments:tt) => {};
}
pub(crate) use light;

/// Expands the table: a module per symbol, an enum of all symbols, the array of [`Hook`]s, and (in tests) the
/// prototypes as text.
macro_rules! hooks {
    ($( $layer:ident $base:literal { $( $symbol:ident @ $version:literal $($thread:ident)? ),+ $(,)? }
        $args:tt => $how:ident $call:tt ; )*) => {
        $( $( $crate::table::hooks::hook!($layer $symbol ($($thread)?) $args $how $call); )+ )*

        /// Every intercepted symbol.
        #[allow(non_camel_case_types, clippy::enum_variant_names, reason = "C's names")]
        #[derive(Clone, Copy)]
        #[repr(u16)]
        pub enum Symbol { $( $( $symbol, )+ )* }

        /// How many symbols there are.
        pub const COUNT: usize = [$( $( Symbol::$symbol, )+ )*].len();

        const _: () = assert!(COUNT <= $crate::hook::MOST);

        static HOOKS: [$crate::hook::Hook; COUNT] = [$( $( {
            const fn text(with_nul: &'static str) -> &'static core::ffi::CStr {
                match core::ffi::CStr::from_bytes_with_nul(with_nul.as_bytes()) {
                    Ok(text) => text,
                    Err(_) => c"",
                }
            }
            $crate::hook::Hook::new(
                text(concat!(stringify!($symbol), "\0")),
                text(concat!($base, "\0")),
                $crate::table::hooks::layer!($layer),
                $version,
                $crate::table::hooks::per_thread!($($thread)?),
                Symbol::$symbol as u16 + 1,
                $symbol::$symbol as *const (),
                $symbol::by_pointer as *const (),
                $symbol::by_other_pointer as *const (),
            )
        }, )+ )*];

        static BY_SYMBOL: $crate::table::index::Index =
            $crate::table::index::Index::of(&[$( $( stringify!($symbol), )+ )*]);
        static BY_BASE: $crate::table::index::Index =
            $crate::table::index::Index::of(&[$( $( { let _ = $version; $base }, )+ )*]);

        /// Returns a symbol's hook.
        #[inline(always)]
        pub fn get(symbol: Symbol) -> &'static $crate::hook::Hook {
            #[allow(clippy::indexing_slicing, reason = "the enum and the array are made from one list")]
            &HOOKS[symbol as usize]
        }

        /// Returns all hooks.
        #[cfg(test)]
        pub fn all() -> &'static [$crate::hook::Hook] {
            &HOOKS
        }

        impl $crate::hook::Hooks for $crate::hook::Table {
            const COUNT: usize = COUNT;

            fn all() -> &'static [$crate::hook::Hook] {
                &HOOKS
            }

            fn named(symbol: &core::ffi::CStr) -> Option<&'static $crate::hook::Hook> {
                // This rejects almost every name that a process looks up.
                if !(symbol.to_bytes().starts_with(b"cu") || symbol.to_bytes().starts_with(b"__cuda")) {
                    return None;
                }
                let is = |at: usize| HOOKS.get(at).is_some_and(|hook| hook.symbol == symbol);
                HOOKS.get(BY_SYMBOL.find(symbol.to_bytes(), is)?)
            }

            fn variants(base: &core::ffi::CStr) -> impl Iterator<Item = &'static $crate::hook::Hook> {
                let is = |at: usize| HOOKS.get(at).is_some_and(|hook| hook.base == base);
                let first = BY_BASE.find(base.to_bytes(), is);
                let (first, rest) = first.and_then(|at| HOOKS.get(at..)?.split_first()).unzip();
                let others = rest.into_iter().flatten();
                // Most lookups end at the first, so the others are compared only when they are asked for.
                first.into_iter().chain(others.take_while(move |hook| Some(hook.base) == first.map(|hook| hook.base)))
            }

            fn getproc() -> [&'static $crate::hook::Hook; 2] {
                [get(Symbol::cuGetProcAddress_v2), get(Symbol::cuGetProcAddress)]
            }
        }

        /// Every entry as text: the symbol, its parameters, and how it is recorded.
        #[cfg(test)]
        pub const TEXTS: &[(&str, &str, &str)] =
            &[$( $( (stringify!($symbol), stringify!($args), stringify!($how $call)), )+ )*];
    };
}
pub(crate) use hooks;

macro_rules! layer {
    (driver) => {
        $crate::hook::Layer::Driver
    };
    (runtime) => {
        $crate::hook::Layer::Runtime
    };
}
pub(crate) use layer;

macro_rules! per_thread {
    () => {
        false
    };
    (per_thread) => {
        true
    };
}
pub(crate) use per_thread;
