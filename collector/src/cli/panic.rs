//! Reports a panic of gpuspy as one sentence, without a backtrace.

use parking_lot::Mutex;
use std::any::Any;
use std::io::Write;
use std::panic::{self, AssertUnwindSafe, PanicHookInfo};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// EX_SOFTWARE (sysexits.h): an internal software error.
const SOFTWARE: u8 = 70;

/// The path of the traces that are being read or written.
static TRACE: Mutex<Option<PathBuf>> = Mutex::new(None);
/// Set once a panic is reported. Panics that follow from it in other threads are not reported.
static REPORTED: Mutex<bool> = Mutex::new(false);

/// Sets the trace that a panic names from here on.
pub(super) fn about(trace: &Path) {
    *TRACE.lock() = Some(trace.to_owned());
}

/// Installs the hook that reports panics.
pub(super) fn install() {
    panic::set_hook(Box::new(report));
}

/// Runs `work` and returns its exit code. If it panics, returns the exit code of a panic, which has then been reported.
pub(super) fn caught(work: impl FnOnce() -> ExitCode) -> ExitCode {
    // State that `work` left behind is not used again.
    panic::catch_unwind(AssertUnwindSafe(work)).unwrap_or(ExitCode::from(SOFTWARE))
}

/// Only tries the locks, since the thread that panics may hold them.
fn report(info: &PanicHookInfo<'_>) {
    let is_first = REPORTED.try_lock().is_some_and(|mut reported| !std::mem::replace(&mut *reported, true));
    if !is_first {
        return;
    }
    let trace = TRACE.try_lock().and_then(|trace| trace.clone()).filter(|trace| trace.exists());
    // A closed stderr is not an error. The line is written in one call, since other threads write too.
    let _ = std::io::stderr().write_all(line(info, trace.as_deref()).as_bytes());
}

fn line(info: &PanicHookInfo<'_>, trace: Option<&Path>) -> String {
    let what = what(info.payload());
    let place = info.location().map_or_else(String::new, |l| format!(" ({}:{})", l.file(), l.line()));
    let kept = trace.map_or_else(String::new, |trace| format!("; the trace {} is kept", trace.display()));
    format!("gpuspy: internal error: {what}{place}; please report it{kept}\n")
}

/// Returns the message of a panic on one line.
fn what(payload: &dyn Any) -> String {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("no reason was given").lines().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_internal_error_is_one_sentence_with_its_own_exit_code() {
        static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());
        panic::set_hook(Box::new(|info| {
            SAID.lock().extend([line(info, None), line(info, Some(Path::new("a.gspy")))]);
        }));
        let code = caught(|| panic!("it is\nout of order"));
        drop(panic::take_hook());
        assert_eq!(code, ExitCode::from(SOFTWARE));
        let said = SAID.lock().clone();
        let [without, with] = &said[..] else { panic!("{said:?}") };
        let place = format!("({}:", file!());
        assert!(
            without.starts_with(&format!("gpuspy: internal error: it is out of order {place}")),
            "{without}"
        );
        assert!(without.ends_with("; please report it\n") && without.lines().count() == 1, "{without}");
        assert!(with.ends_with("; please report it; the trace a.gspy is kept\n"), "{with}");
    }
}
