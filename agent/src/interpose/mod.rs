//! The routes into CUDA, and the way out at their end: which function a hook calls next.
//!
//! - by symbol: the exported names satisfy the app's references; the call goes on to the next definition in search
//!   order (another preload's, or the library's), found here;
//! - by `dlsym`: [`dlsym`];
//! - by `cuGetProcAddress`: [`getproc`].
//!
//! Functions that are looked up and that nobody here knows are told by name: [`unknown`].

mod deepbind;
pub mod dlsym;
pub mod getproc;
mod known;
mod runtime;
pub mod unknown;

use crate::hook::{ABSENT, Hook, Hooks, Layer, Route, Table};
use crate::loader::{self, libraries};
use crate::sink;
use crate::sys::{Caller, Errno};
use core::sync::atomic::{AtomicBool, Ordering};

/// Where a call goes on.
#[derive(Clone, Copy)]
pub struct Next {
    pub address: usize,
    /// False: call it and say nothing (it cannot be told which runtime is meant).
    pub labelled: bool,
}

/// The function that a call on this route goes on to, or `None` when there is no CUDA behind it.
#[inline]
pub fn next(hook: &'static Hook, route: Route, caller: Caller) -> Option<Next> {
    if let Some(address) = hook.next(route) {
        return Some(Next { address, labelled: true });
    }
    // Several runtimes can be loaded, and each caller has its own.
    if hook.layer == Layer::Runtime
        && let Some(known) = runtime::known(caller.address, hook)
    {
        return Some(known);
    }
    next_by_symbol(hook, caller)
}

/// Finds it out. errno is left as the app had it. A text that dlerror(3) still had to tell it is lost where the loader is
/// asked: glibc has no way to read it without clearing it, and none to put it back.
#[cold]
fn next_by_symbol(hook: &'static Hook, caller: Caller) -> Option<Next> {
    let errno = Errno::save();
    let next = match hook.layer {
        Layer::Driver => next_in_driver(hook).map(|address| {
            hook.lead_symbol(address);
            sink::route_found(hook);
            Next { address, labelled: true }
        }),
        Layer::Runtime => runtime::find(caller.address, hook),
    };
    errno.restore();
    next
}

fn next_in_driver(hook: &'static Hook) -> Option<usize> {
    if let Some(address) = hook.ahead() {
        return Some(address);
    }
    let address = loader::next_definition(hook.symbol).or_else(|| real_export(hook))?;
    learn_driver();
    Some(address)
}

/// Finds all driver functions when the first is needed. The loader's lock, which that takes, is held while a library's
/// constructors run: a thread that such a constructor starts and waits for must not need it for a call that is new to us.
pub fn learn_driver() {
    // Relaxed: a race finds the same twice.
    static LEARNED: AtomicBool = AtomicBool::new(false);
    if LEARNED.load(Ordering::Relaxed) || libraries::driver().is_none() {
        return;
    }
    for hook in Table::all().iter().filter(|hook| hook.layer == Layer::Driver) {
        let export = real_export(hook);
        if let Some(address) = loader::next_definition(hook.symbol).or(export) {
            hook.look_ahead(address);
        }
    }
    LEARNED.store(true, Ordering::Relaxed);
}

/// The driver's own export of this symbol, if libcuda is loaded and has it. Learned once.
pub fn real_export(hook: &Hook) -> Option<usize> {
    let [export, _] = &hook.real;
    learned(export, || {
        let driver = libraries::driver()?;
        Some(loader::in_library(driver, hook.symbol).unwrap_or(ABSENT))
    })
}

/// What the real `cuGetProcAddress` answers for this variant, if libcuda is loaded and has it. Learned once.
pub fn real_getproc(hook: &Hook) -> Option<usize> {
    let [_, getproc] = &hook.real;
    learned(getproc, || Some(getproc::ask(hook)?.unwrap_or(ABSENT)))
}

/// A learned address: asked for until there is an answer, for which the driver must be there.
fn learned(slot: &core::sync::atomic::AtomicUsize, ask: impl FnOnce() -> Option<usize>) -> Option<usize> {
    let known = match slot.load(Ordering::Relaxed) {
        0 => {
            let answer = ask()?;
            slot.store(answer, Ordering::Relaxed);
            answer
        }
        known => known,
    };
    (known != ABSENT).then_some(known)
}

/// Whether `address` is the real function of this driver symbol.
pub fn is_real(hook: &Hook, address: usize) -> bool {
    real_export(hook) == Some(address) || real_getproc(hook) == Some(address)
}
