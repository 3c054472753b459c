//! The progress line of a collection, of an export, and of reading many traces, on stderr if it is a terminal.
//!
//! `collect` and `export` always draw it; `run` only with `--progress`, because the program writes to the same terminal and a line
//! that is redrawn would mix with its output. Reading draws it if it takes longer than a moment.

use super::{printing, say};
use crate::collect::sys::{self, Stopped};
use crate::collect::{Figures, Progress};
use crate::units::count;
use std::io::IsTerminal;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// The line is redrawn five times a second.
const INTERVAL: Duration = Duration::from_millis(200);

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
        line.truncate(sys::terminal_size(stderr.as_fd()).map_or(80, |(width, _)| width).saturating_sub(1));
        printing::line(line);
    }
    printing::no_line();
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

/// Which trace of how many is being read. The line is removed when this is dropped.
pub(super) struct Reading {
    began: Instant,
    drawn: Option<Instant>,
    at: usize,
    all: usize,
}

/// Reading that is over sooner draws no line.
const MOMENT: Duration = Duration::from_millis(500);

impl Reading {
    /// Nothing is read yet of the traces of these machines.
    pub(super) fn of(machines: &[Vec<usize>]) -> Reading {
        let all = machines.iter().map(Vec::len).sum();
        Reading { began: Instant::now(), drawn: None, at: 0, all }
    }

    /// The next trace is being read.
    pub(super) fn next(&mut self) {
        self.at += 1;
        let is_due = self.drawn.map_or(self.began.elapsed() >= MOMENT, |at| at.elapsed() >= INTERVAL);
        let stderr = std::io::stderr();
        if self.all < 2 || !is_due || !stderr.is_terminal() || sys::is_in_background(stderr.as_fd()) {
            return;
        }
        self.drawn = Some(Instant::now());
        printing::line(reading(self.at, self.all));
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        printing::no_line();
    }
}

fn reading(at: usize, all: usize) -> String {
    format!("reading {} of {}", count(at as u64), count(all as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_says_which_trace_of_how_many() {
        assert_eq!(reading(17, 1_000), "reading 17 of 1 000");
    }

    #[test]
    fn the_line_has_all_figures() {
        let figures = Figures { records: 1234, timed: 600, lost: 1, bytes: 3 << 19 };
        let text = line(figures, Duration::from_millis(2900));
        assert_eq!(text, "1234 records, 600 GPU times, 1 dropped, 1.5 MiB written, 2 s");
    }
}
