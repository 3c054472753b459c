//! The driver's exports: one table of names and versions, and the macro that ties them to their functions.

use crate::call::Class;
use crate::config::config;
use crate::error::{Failure, NOT_SUPPORTED};
use std::ffi::{CStr, c_char};

/// A function as `dlsym` and `cuGetProcAddress` give it.
pub type Address = unsafe extern "C" fn();

/// A line of `names.txt`, variant by variant.
#[derive(Debug)]
pub struct Row {
    /// The name that is passed to `cuGetProcAddress`.
    pub base: &'static str,
    /// The CUDA version from which this variant is returned; 0 if it never is.
    pub version: i32,
    /// The exported name.
    pub export: &'static str,
    /// Our export.
    pub address: Address,
}

impl Row {
    /// Returns whether it belongs to the API with per-thread default streams.
    pub fn per_thread(&self) -> bool {
        per_thread(self.export)
    }
}

/// The results of `cuGetProcAddress`.
#[derive(Clone, Copy, Debug)]
pub enum Answer {
    /// The export.
    Found(&'static Row),
    /// This driver has no such function.
    SymbolNotFound,
    /// The function exists only in versions later than the requested one.
    VersionNotSufficient,
}

/// Looks `symbol` up as a driver of `driver` version does for a program built for `version`.
///
/// cuda.h, `cuGetProcAddress`: the per-thread search includes per-thread variants and falls back to the legacy one.
pub fn lookup(symbol: &str, version: i32, want_per_thread: bool, driver: i32) -> Answer {
    let first = ROWS.partition_point(|row| row.base < symbol);
    let rows = ROWS[first..].iter().take_while(|row| row.base == symbol);
    let mut best: Option<&'static Row> = None;
    let mut exists = false;
    for row in rows.filter(|row| row.version > 0 && row.version <= driver) {
        exists = true;
        if row.version > version || (row.per_thread() && !want_per_thread) {
            continue;
        }
        if best.is_none_or(|best| (row.per_thread(), row.version) > (best.per_thread(), best.version)) {
            best = Some(row);
        }
    }
    match best {
        Some(row) => Answer::Found(row),
        None if exists => Answer::VersionNotSufficient,
        None => Answer::SymbolNotFound,
    }
}

/// Returns the exported function, or null, to a runtime that under `runtime_primary=hidden` or `runtime_kernels=hidden`
/// does not look it up by name. It takes the place of NVIDIA's export tables.
///
/// # Safety
/// `export` is a terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn simcuda_hidden(export: *const c_char) -> Option<Address> {
    // SAFETY: the caller's promise.
    let export = unsafe { CStr::from_ptr(export) };
    let is_meant = |row: &&Row| row.export.as_bytes() == export.to_bytes();
    let is_primary = export.to_bytes().starts_with(b"cuDevicePrimaryCtx");
    let word = if is_primary { "runtime_primary" } else { "runtime_kernels" };
    if config().assume.is(word, "hidden") { ROWS.iter().find(is_meant).map(|row| row.address) } else { None }
}

/// Whether an export belongs to the API with per-thread default streams.
pub const fn per_thread(export: &str) -> bool {
    ends_with(export, "_ptsz") || ends_with(export, "_ptds")
}

const fn ends_with(text: &str, end: &str) -> bool {
    let (text, end) = (text.as_bytes(), end.as_bytes());
    if text.len() < end.len() {
        return false;
    }
    let mut i = 0;
    while i < end.len() {
        if text[text.len() - end.len() + i] != end[i] {
            return false;
        }
        i += 1;
    }
    true
}

/// The name without `_v2`, `_ptsz` and their like.
pub const fn base(export: &'static str) -> &'static str {
    let bytes = export.as_bytes();
    let mut i = 0;
    while i < bytes.len() {
        if bytes[i] == b'_' {
            return export.split_at(i).0;
        }
        i += 1;
    }
    export
}

/// An export as its function sees it.
#[derive(Debug)]
pub struct Api {
    /// Without suffixes.
    pub name: &'static str,
    /// A NULL stream means the calling thread's.
    pub per_thread: bool,
    /// Its class of cost.
    pub class: Class,
}

impl Api {
    /// Derives the properties of an export from its name.
    pub const fn of(export: &'static str) -> Self {
        let name = base(export);
        Self { name, per_thread: per_thread(export), class: Class::of(name) }
    }
}

/// Ties exports to functions: `cuA | cuA_v2 => function(arg: Type, list[count]: Slice<u32>, count: usize);` makes each name
/// an exported C function that enters the simulator, checks its parameters (`parameter.rs`) and calls
/// `function(&mut Call, arg, list, count)`. A list names the parameter that counts its elements. build.rs reads these
/// lines too.
macro_rules! exports {
    ($($($export:ident)|+ => $function:ident $arguments:tt;)+) => {
        $($($crate::export::exports!(@one $export $function $arguments);)+)+
    };
    (@one $export:ident $function:ident ($($argument:ident $([$count:expr])? : $type:ty),*)) => {
        #[doc = concat!("`", stringify!($export), "` of cuda.h.\n\n# Safety\nThe requirements of cuda.h.")]
        #[unsafe(no_mangle)]
        #[allow(non_snake_case, clippy::too_many_arguments)]
        pub unsafe extern "C-unwind" fn $export(
            $($argument: <$type as $crate::parameter::Parameter>::Raw),*
        ) -> i32 {
            const API: $crate::export::Api = $crate::export::Api::of(stringify!($export));
            $crate::call::enter(&API, |call| {
                $crate::fault::admit(call)?;
                $(
                    // SAFETY: cuda.h's promise: a pointer is NULL or valid as its documentation says, a list as long
                    // as the parameter that counts its elements says.
                    let $argument = unsafe {
                        <$type as $crate::parameter::Parameter>::take($argument, 0 $(+ ($count) as usize)?)
                    }?;
                )*
                self::$function(call, $($argument),*)
            })
        }
    };
}
pub(crate) use exports;

/// Exports that are not simulated and always fail.
macro_rules! unsimulated {
    ($($export:ident,)*) => {
        mod unsimulated {
            $(
                #[unsafe(no_mangle)]
                #[allow(non_snake_case)]
                extern "C" fn $export() -> i32 {
                    super::not_simulated(super::base(stringify!($export)))
                }
            )*
        }
    };
}

fn not_simulated(api: &'static str) -> Failure {
    crate::call::report_failure(api, NOT_SUPPORTED);
    NOT_SUPPORTED
}

include!(concat!(env!("OUT_DIR"), "/names.rs"));
