//! What a person is told when gpuspy itself is at fault: one sentence, and no backtrace.

use parking_lot::Mutex;
use std::any::Any;
use std::io::Write;
use std::panic::{self, AssertUnwindSafe, PanicHookInfo};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// EX_SOFTWARE (sysexits.h): an internal software error.
const SOFTWARE: u8 = 70;

/// The trace, or the traces, that are being read or written.
static TRACE: Mutex<Option<PathBuf>> = Mutex::new(None);
/// One fault is told; those that it brings about in other threads are not.
static TOLD: Mutex<bool> = Mutex::new(false);

/// From here on a fault names this trace.
pub(super) fn about(trace: &Path) {
    *TRACE.lock() = Some(trace.to_owned());
}

/// Has faults told as a sentence from here on.
pub(super) fn install() {
    panic::set_hook(Box::new(tell));
}

/// Does something and returns its result, or where it panicked, the exit code of that. It has been told then.
pub(super) fn caught(work: impl FnOnce() -> ExitCode) -> ExitCode {
    // What the work had in hand is not looked at again.
    panic::catch_unwind(AssertUnwindSafe(work)).unwrap_or(ExitCode::from(SOFTWARE))
}

/// Only tries the locks: the thread that panics may hold them.
fn tell(info: &PanicHookInfo<'_>) {
    let is_first = TOLD.try_lock().is_some_and(|mut told| !std::mem::replace(&mut *told, true));
    if !is_first {
        return;
    }
    let place = info.location().map_or_else(String::new, |l| format!(" ({}:{})", l.file(), l.line()));
    let trace = TRACE.try_lock().and_then(|trace| trace.clone()).filter(|trace| trace.exists());
    let kept = trace.map_or_else(String::new, |trace| format!("; the trace {} is kept", trace.display()));
    let what = what(info.payload());
    // That nobody listens is no error. In one piece: other threads write too.
    let line = format!("gpuspy: internal error: {what}{place}; please report it{kept}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// What a panic says, on one line.
fn what(payload: &dyn Any) -> String {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("no reason was given").lines().collect::<Vec<_>>().join(" ")
}
