//! By which routes do calls reach a hook, and which function does the hook call next?
//!
//! - By symbol: the exported names satisfy the app's references. The call continues to the next definition in
//!   search order (another preloaded library's, or CUDA's own), which is found here.
//! - By `dlsym`: see [`dlsym`].
//! - By `cuGetProcAddress`: see [`getproc`].
//!
//! Functions that programs look up and that the table does not know are reported by name: see [`unknown`].

mod deepbind;
mod dlopen;
pub mod dlsym;
pub mod getproc;
mod known;
mod own_symbols;
mod runtime;
pub mod unknown;

use crate::hook::{ABSENT, Hook, Hooks, Layer, Route, Table};
use crate::loader::{self, libraries, symbols};
use crate::sink;
use crate::sys::{Caller, Errno};
use core::sync::atomic::{AtomicBool, Ordering};

/// The function that a call continues to.
#[derive(Clone, Copy)]
pub struct Next {
    pub address: usize,
    /// False: call it without recording anything (it is unclear which runtime is meant, or it is not CUDA's).
    pub labelled: bool,
}

/// The function that a call on this route continues to, or `None` when no CUDA library provides one.
#[inline(always)]
pub fn next(hook: &'static Hook, route: Route, caller: Caller) -> Option<Next> {
    if let Some(address) = hook.next(route) {
        return Some(Next { address, labelled: true });
    }
    next_of_caller(hook, route, caller)
}

#[cold]
fn next_of_caller(hook: &'static Hook, route: Route, caller: Caller) -> Option<Next> {
    match known(hook, route, caller) {
        Some(address) => Some(Next { address, labelled: true }),
        None => next_by_symbol(hook, caller),
    }
}

/// The function that a call on this route continues to, to be recorded, if an earlier call has found it.
#[inline(always)]
pub fn known(hook: &'static Hook, route: Route, caller: Caller) -> Option<usize> {
    match hook.next(route) {
        // Several runtimes can be loaded, and each caller has its own.
        None if hook.layer == Layer::Runtime => runtime::known(caller.address, hook),
        next => next,
    }
}

/// Finds the next function for a call by symbol. errno is left as the app had it. A pending message of
/// dlerror(3) is lost where the loader is called: glibc cannot read it without clearing it, and cannot
/// restore it.
#[cold]
fn next_by_symbol(hook: &'static Hook, caller: Caller) -> Option<Next> {
    let errno = Errno::save();
    let next = match hook.layer {
        Layer::Driver => next_in_driver(hook).map_or_else(
            || own_of_caller(hook, caller),
            |address| {
                // Without libcuda it is a function of another library that has the name of one of the driver's.
                let labelled = libraries::driver().is_some();
                if labelled {
                    // Another library's function is looked up again where that library cannot be kept.
                    if hook.ahead() == Some(address) {
                        hook.lead_symbol(address);
                    }
                    sink::route_found(hook);
                }
                Some(Next { address, labelled })
            },
        ),
        Layer::Runtime => runtime::find(caller.address, hook),
    };
    errno.restore();
    next
}

fn next_in_driver(hook: &'static Hook) -> Option<usize> {
    if let Some(address) = hook.ahead() {
        return Some(address);
    }
    let address = behind(hook)?;
    learn_driver();
    if libraries::driver().is_some() {
        look_ahead(hook, address);
    }
    Some(address)
}

/// The function that the caller's library has in its own scope, where there is no driver: programs that find the driver when they
/// first need it define functions of its names, which do so.
fn own_of_caller(hook: &Hook, caller: Caller) -> Option<Next> {
    let found = libraries::in_scopes_of(caller.address, hook.symbol);
    let address = found.filter(|found| libraries::is_code(*found) && !libraries::is_ours(*found))?;
    Some(Next { address, labelled: false })
}

/// Stores the function that calls by symbol continue to, if its library stays loaded.
fn look_ahead(hook: &Hook, address: usize) {
    if Some(address) == real_export(hook) || stays(address) {
        hook.look_ahead(address);
    }
}

/// Has the library of a function stay loaded, since calls will continue to it. Returns whether it does.
fn stays(address: usize) -> bool {
    libraries::base_of(address as u64).is_some_and(libraries::stays)
}

/// The function that follows ours in search order, or else the driver's own. (A variable of that name is none.)
fn behind(hook: &Hook) -> Option<usize> {
    let export = real_export(hook);
    let next = loader::next_definition(hook.symbol).filter(|found| !hook.is_wrapper(*found));
    next.filter(|found| Some(*found) == export || libraries::is_code(*found)).or(export)
}

/// Finds all driver functions when the first one is needed. That takes the loader's lock, which is held while
/// a library's constructors run: a thread that such a constructor starts and waits for must not need the lock
/// for a call that is new to us.
pub fn learn_driver() {
    // Relaxed: threads that race find the same functions.
    static LEARNED: AtomicBool = AtomicBool::new(false);
    if LEARNED.load(Ordering::Relaxed) || libraries::driver().is_none() {
        return;
    }
    for hook in Table::all().iter().filter(|hook| hook.layer == Layer::Driver) {
        if let Some(address) = behind(hook) {
            look_ahead(hook, address);
        }
    }
    LEARNED.store(true, Ordering::Relaxed);
}

/// The driver's own export of this symbol, if libcuda is loaded and has it. Looked up once.
pub fn real_export(hook: &Hook) -> Option<usize> {
    let [export, _] = hook.real();
    learned(export, || {
        let driver = libraries::driver()?;
        // What Nsight Compute injects answers a lookup in libcuda with the first function of that name in the process, which is
        // ours; to call that as the driver's would never end.
        let found = loader::in_library(driver, hook.symbol).filter(|found| !hook.is_wrapper(*found));
        Some(found.or_else(|| symbols::in_driver(hook.symbol)).unwrap_or(ABSENT))
    })
}

/// The result of the real `cuGetProcAddress` for this variant, if libcuda is loaded and has it. Looked up
/// once.
pub fn real_getproc(hook: &Hook) -> Option<usize> {
    let [_, getproc] = hook.real();
    learned(getproc, || Some(getproc::lookup(hook)?.unwrap_or(ABSENT)))
}

/// Returns a cached address. The lookup is repeated until it has a result, for which the driver must be
/// loaded.
fn learned(slot: &core::sync::atomic::AtomicUsize, lookup: impl FnOnce() -> Option<usize>) -> Option<usize> {
    let known = match slot.load(Ordering::Relaxed) {
        0 => {
            let answer = lookup()?;
            slot.store(answer, Ordering::Relaxed);
            answer
        }
        known => known,
    };
    (known != ABSENT).then_some(known)
}

/// Whether an object behind us defines a function of this name, for the caller at this address (0 = for any).
pub fn is_defined(hook: &Hook, caller: u64) -> bool {
    let found = loader::next_definition(hook.symbol).or_else(|| libraries::in_scopes_of(caller, hook.symbol));
    found.is_some_and(libraries::is_code)
}

/// Our function that continues to `next`, for a lookup of a driver's function to return. It is our export wherever that
/// continues to `next`, because programs compare pointers.
pub fn wrapper_in_driver(hook: &'static Hook, next: usize) -> Option<*const ()> {
    let by_symbol = hook.next(Route::Symbol).or_else(|| next_in_driver(hook));
    if by_symbol != Some(next) {
        return hook.wrapper(next);
    }
    // It was found before the first call, and stays what was found.
    hook.lead_symbol(next);
    Some(hook.by_symbol())
}

/// Whether `address` is the real function of this driver symbol.
pub fn is_real(hook: &Hook, address: usize) -> bool {
    real_export(hook) == Some(address) || real_getproc(hook) == Some(address)
}
