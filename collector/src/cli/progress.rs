//! The line on a terminal's stderr that tells how far collecting has come.
//!
//! `collect` draws it, and `run` if it is asked to: the program writes to the same terminal, and a line that moves can stand
//! in the middle of what it says.

use super::say;
use crate::collect::sys::{self, Stopped};
use crate::collect::{Figures, Progress};
use parking_lot::Mutex;
use std::io::{IsTerminal, Write};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// Five times a second.
const INTERVAL: Duration = Duration::from_millis(200);

/// Whether the line stands on the terminal. Whoever writes to stderr holds this meanwhile.
static STANDS: Mutex<bool> = Mutex::new(false);

/// To the line's begin, and away with all behind it (ECMA-48: CR, EL).
const ERASE: &str = "\r\x1b[K";

/// Says something on stderr where the line was; it is drawn anew below.
pub(super) fn above_the_line(say: impl FnOnce()) {
    let mut stands = STANDS.lock();
    erase(&mut stands);
    say();
}

fn erase(stands: &mut bool) {
    if std::mem::take(stands) {
        let _ = write!(std::io::stderr(), "{ERASE}");
    }
}

/// Draws the line until `stopped`, while stderr is a terminal and we are in its foreground.
pub(super) fn draw(progress: &Progress, stopped: &Stopped) {
    let stderr = std::io::stderr();
    if !stderr.is_terminal() {
        return;
    }
    let began = Instant::now();
    while matches!(sys::wait([Some(stopped.as_fd())], INTERVAL), Ok([false])) {
        // The terminal is someone else's for now, the shell's for one.
        if sys::is_in_background(stderr.as_fd()) {
            continue;
        }
        let mut line = line(progress.figures(), began.elapsed());
        // A line that wraps cannot be erased.
        line.truncate(sys::terminal_width(stderr.as_fd()).unwrap_or(80).saturating_sub(1));
        let mut stands = STANDS.lock();
        *stands = write!(stderr.lock(), "{ERASE}{line}").is_ok();
    }
    above_the_line(|| ());
}

/// What it came to, in a last line that stays.
pub(super) fn total(progress: &Progress, began: Instant) {
    say(line(progress.figures(), began.elapsed()));
}

/// ASCII, so that it can be cut anywhere.
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
    fn the_line_tells_all_figures() {
        let figures = Figures { records: 1234, timed: 600, lost: 1, bytes: 3 << 19 };
        let text = line(figures, Duration::from_millis(2900));
        assert_eq!(text, "1234 records, 600 GPU times, 1 dropped, 1.5 MiB written, 2 s");
    }
}
