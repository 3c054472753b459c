//! The roads into CUDA, and the way out at their end: which function a hook calls next.
//!
//! - by symbol: the exported names satisfy the app's references; the call goes on to the next definition in search
//!   order (another preload's, or the library's), found here;
//! - by `dlsym`: [`dlsym`];
//! - by `cuGetProcAddress`: [`getproc`].

pub mod dlsym;
pub mod getproc;
pub mod libraries;

use crate::hook::{ABSENT, Hook, Layer, Road};
use crate::session;
use crate::sys::Caller;
use core::sync::atomic::Ordering;

/// Where a call goes on.
#[derive(Clone, Copy)]
pub struct Next {
    pub address: usize,
    /// False: call it and say nothing (it cannot be told which runtime is meant).
    pub labelled: bool,
}

/// The function that a call on this road goes on to, or `None` when there is no CUDA behind it.
#[inline]
pub fn next(hook: &'static Hook, road: Road, caller: Caller) -> Option<Next> {
    match hook.next(road) {
        Some(address) => Some(Next { address, labelled: true }),
        None => next_by_symbol(hook, caller),
    }
}

#[cold]
fn next_by_symbol(hook: &'static Hook, caller: Caller) -> Option<Next> {
    match hook.layer {
        Layer::Driver => {
            let address = dlsym::next_definition(hook.symbol).or_else(|| real_export(hook))?;
            hook.lead_symbol(address);
            session::road_found(hook);
            Some(Next { address, labelled: true })
        }
        // Never kept in the hook: several runtimes can be loaded, and each caller has its own.
        Layer::Runtime => libraries::runtime_of(caller.address, hook),
    }
}

/// The driver's own export of this symbol, if libcuda is loaded and has it. Learned once.
pub fn real_export(hook: &Hook) -> Option<usize> {
    let [export, _] = &hook.real;
    learned(export, || {
        let driver = libraries::driver()?;
        Some(dlsym::in_library(driver, hook.symbol).unwrap_or(ABSENT))
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
