//! The progress line of a collection, and of an export, on stderr if it is a terminal.
//!
//! `collect` and `export` always draw it; `run` only with `--progress`, because the program writes to the same terminal and a line that is
//! redrawn would mix with its output.

use super::say;
use crate::collect::sys::{self, Stopped};
use crate::collect::{Figures, Progress};
use parking_lot::Mutex;
use std::io::{IsTerminal, Write};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// The line is redrawn five times a second.
const INTERVAL: Duration = Duration::from_millis(200);

/// Whether the line is on the terminal. A thread holds this lock while it writes to stderr.
static DRAWN: Mutex<bool> = Mutex::new(false);

/// Returns to the start of the line and erases it (ECMA-48: CR, EL).
const ERASE: &str = "\r\x1b[K";

/// Prints a message on stderr in place of the line, which is redrawn below it.
pub(super) fn above_the_line(say: impl FnOnce()) {
    let mut drawn = DRAWN.lock();
    erase(&mut drawn);
    say();
}

fn erase(drawn: &mut bool) {
    if std::mem::take(drawn) {
        let _ = write!(std::io::stderr(), "{ERASE}");
    }
}

/// Draws the line of a collection.
pub(super) fn draw(progress: &Progress, stopped: &Stopped) {
    draw_line(|elapsed| line(progress.figures(), elapsed), stopped);
}

/// Draws a line of ASCII until `stopped`, while stderr is a terminal and gpuspy is in its foreground. It is given the time that
/// has passed.
pub(super) fn draw_line(line: impl Fn(Duration) -> String, stopped: &Stopped) {
    let stderr = std::io::stderr();
    if !stderr.is_terminal() {
        return;
    }
    let began = Instant::now();
    while matches!(sys::wait([Some(stopped.as_fd())], INTERVAL), Ok([false])) {
        // Another program has the terminal for now, for example the shell.
        if sys::is_in_background(stderr.as_fd()) {
            continue;
        }
        let mut line = line(began.elapsed());
        // A line that wraps cannot be erased.
        line.truncate(sys::terminal_width(stderr.as_fd()).unwrap_or(80).saturating_sub(1));
        let mut drawn = DRAWN.lock();
        *drawn = write!(stderr.lock(), "{ERASE}{line}").is_ok();
    }
    above_the_line(|| ());
}

/// Prints the totals as a last line that stays.
pub(super) fn total(progress: &Progress, began: Instant) {
    say(line(progress.figures(), began.elapsed()));
}

/// Returns the line, in ASCII so that it can be cut anywhere.
fn line(figures: Figures, elapsed: Duration) -> String {
    let Figures { records, timed, lost, bytes } = figures;
    let mib = bytes as f64 / f64::from(1 << 20);
    let seconds = elapsed.as_secs();
    format!("{records} records, {timed} GPU times, {lost} dropped, {mib:.1} MiB written, {seconds} s")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_has_all_figures() {
        let figures = Figures { records: 1234, timed: 600, lost: 1, bytes: 3 << 19 };
        let text = line(figures, Duration::from_millis(2900));
        assert_eq!(text, "1234 records, 600 GPU times, 1 dropped, 1.5 MiB written, 2 s");
    }
}
