//! `gpuspy top`: what programs do now, looked at again and again.

mod program;

use super::following::Following;
use super::hangs::HangOptions;
use super::report::Reading;
use super::time::duration;
use super::traces::{Found, Live, PATIENCE, live};
use super::view::{StyleOptions, at_least};
use super::{Failure, panic, printed};
use crate::collect::sys;
use crate::model::filter::Filter;
use crate::report::{Section, View};
use crate::trace::format::MAGIC;
use clap::Args;
use std::ffi::OsString;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

#[derive(Args, Debug)]
#[command(override_usage = "gpuspy top [OPTIONS] <TRACE>\n       gpuspy top [OPTIONS] -- <CMD>...")]
pub(super) struct Options {
    /// The trace of a running program, or the directory with those of several
    #[arg(value_name = "TRACE", required_unless_present = "command", conflicts_with = "command")]
    trace: Option<PathBuf>,
    /// The trace of CMD: a file, or with several processes a directory of that name
    /// [default: GPUSPY_OUTPUT, else gpuspy-<program>-<pid>.gspy]
    #[arg(short, long, value_name = "PATH", requires = "command", conflicts_with = "trace")]
    output: Option<PathBuf>,
    /// The time that is shown: the last T
    #[arg(long, value_name = "T", value_parser = duration, default_value = "10s")]
    last: u64,
    /// The time from one look to the next
    #[arg(long, value_name = "T", value_parser = duration, default_value = "2s")]
    every: u64,
    /// End after N looks [default: when the programs have ended]
    #[arg(long, value_name = "N", value_parser = at_least::<1>, allow_negative_numbers = true, conflicts_with = "command")]
    looks: Option<usize>,
    /// Show these sections instead of the overview; may be repeated
    #[arg(long = "section", value_name = "NAME", value_delimiter = ',')]
    sections: Vec<Section>,
    /// Show at most N rows of each table
    #[arg(long, value_name = "N", value_parser = at_least::<1>, allow_negative_numbers = true)]
    top: Option<usize>,
    /// Only this rank of a run; may be repeated
    #[arg(long = "rank", value_name = "N", allow_negative_numbers = true)]
    ranks: Vec<u32>,
    /// Only this GPU, by its CUDA device number in the program; may be repeated
    #[arg(long = "device", value_name = "N", allow_negative_numbers = true)]
    devices: Vec<u32>,
    #[command(flatten)]
    hangs: HangOptions,
    /// A program to run and to look at until it ends, and its arguments
    #[arg(last = true, value_name = "CMD")]
    command: Vec<OsString>,
    #[command(flatten)]
    style: StyleOptions,
}

/// A look takes a fifth of the time at most.
const REST: u32 = 4;
/// How soon it is seen that there is something to look at.
const SOON: Duration = Duration::from_millis(200);

pub(super) fn top(options: &Options) -> Result<ExitCode, Failure> {
    let watch = Watch::new(options)?;
    match &options.trace {
        Some(trace) => follow(trace, watch),
        None => program::run(options, watch),
    }
}

/// Looks at the traces of programs that others started.
fn follow(trace: &Path, mut watch: Watch<'_>) -> Result<ExitCode, Failure> {
    panic::about(trace);
    let started = Instant::now();
    loop {
        let began = Instant::now();
        match watch.look(trace)? {
            Seen::Nothing { is_begun } if is_begun || is_made(trace, started) || is_collected(trace) => {
                std::thread::sleep(SOON);
                continue;
            }
            Seen::Nothing { .. } => return Err(nothing_runs(trace)),
            Seen::ByNobody => return Ok(ExitCode::SUCCESS),
            Seen::Ended if !is_collected(trace) => return Ok(ExitCode::SUCCESS),
            Seen::Ended | Seen::Running => {}
        }
        if watch.options.looks.is_some_and(|most| watch.looks >= most) {
            return Ok(ExitCode::SUCCESS);
        }
        std::thread::sleep(watch.rest(began.elapsed()));
    }
}

/// Looks at programs.
struct Watch<'a> {
    options: &'a Options,
    filter: Filter,
    following: Following,
    /// The traces that were written at the last look.
    watched: Vec<Found>,
    looks: usize,
}

/// What was seen.
#[derive(Debug)]
enum Seen {
    /// Programs that run.
    Running,
    /// Those that ran at the look before, to their end.
    Ended,
    /// No program has run since the look before. Of one, there may be a trace that cannot be read yet.
    Nothing { is_begun: bool },
    /// Nobody reads what is shown any more.
    ByNobody,
}

impl<'a> Watch<'a> {
    fn new(options: &'a Options) -> Result<Watch<'a>, Failure> {
        let following = Following::of(options.last);
        Ok(Watch { options, filter: options.filter()?, following, watched: Vec::new(), looks: 0 })
    }

    /// Shows the report of what traces have now.
    fn look(&mut self, trace: &Path) -> Result<Seen, Failure> {
        let Live { readable, is_begun } = live(trace)?;
        let seen = match (readable.is_empty(), self.watched.is_empty()) {
            (false, _) => {
                self.following.keep(&readable);
                self.watched = readable;
                Seen::Running
            }
            (true, false) => Seen::Ended,
            (true, true) => return Ok(Seen::Nothing { is_begun }),
        };
        let is_read = self.show(trace)?;
        if matches!(seen, Seen::Ended) {
            // The next program may come.
            self.watched.clear();
        }
        Ok(if is_read { seen } else { Seen::ByNobody })
    }

    /// Shows what the watched traces have.
    fn show(&mut self, trace: &Path) -> Result<bool, Failure> {
        let run = Reading::following(trace, self.watched.clone(), &mut self.following).run(&self.filter)?;
        self.looks += 1;
        // They may have gone meanwhile, which is said then.
        if run.reports.is_empty() {
            return Ok(true);
        }
        show(&run.drawn(self.options.view(), &self.options.style.style(io::stdout())))
    }

    /// How long to wait after a look that took so long.
    fn rest(&self, took: Duration) -> Duration {
        Duration::from_nanos(self.options.every).saturating_sub(took).max(REST * took)
    }
}

impl Options {
    fn filter(&self) -> Result<Filter, Failure> {
        let (ranks, devices, last) = (self.ranks.clone(), self.devices.clone(), Some(self.last));
        super::filter::of_some_time(Filter { ranks, devices, last, ..Filter::default() })
    }

    fn view(&self) -> View {
        let (sections, top) = (self.sections.clone(), self.top);
        View { sections, top, ..View::default() }
    }
}

/// Draws a screen in the place of the one before, or below it if stdout is no terminal. Returns false if nobody reads it any more
/// (`… | head`).
fn show(screen: &str) -> Result<bool, Failure> {
    let mut stdout = io::stdout();
    let text = match stdout.is_terminal() {
        false => format!("{screen}\n"),
        // Another program has the terminal for now, for example the shell.
        true if sys::is_in_background(stdout.as_fd()) => return Ok(true),
        true => redrawn(screen, sys::terminal_size(stdout.as_fd()).map_or(24, |(_, height)| height)),
    };
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(e) if e.kind() == ErrorKind::BrokenPipe => Ok(false),
        written => printed(written).map(|()| true),
    }
}

/// Returns a screen over what the terminal shows, cut to its height. (ECMA-48: CUP, EL, ED. What is below is erased at the end, so that
/// nothing flickers.)
fn redrawn(screen: &str, height: usize) -> String {
    let lines = screen.trim_end().lines().take(height.saturating_sub(1));
    let lines: String = lines.map(|line| format!("{line}\x1b[K\n")).collect();
    format!("\x1b[H{lines}\x1b[J")
}

/// Whether a collector waits for programs whose traces come into this directory.
fn is_collected(path: &Path) -> bool {
    path.is_dir() && sys::is_listened_on(&path.join("gpuspy.sock")).unwrap_or(false)
}

/// Whether this is a file that is made and not written yet: the collector's first act.
fn is_made(path: &Path, started: Instant) -> bool {
    let is_empty =
        std::fs::metadata(path).is_ok_and(|file| file.is_file() && file.len() <= MAGIC.len() as u64);
    is_empty && started.elapsed() < PATIENCE
}

fn nothing_runs(path: &Path) -> Failure {
    let shown = path.display();
    let quoted = super::quoted(path);
    Failure::usage(format_args!(
        "no program writes to {shown} any more: gpuspy report {quoted} shows what it has"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_screen_is_drawn_over_the_one_before_and_cut_to_the_terminal() {
        assert_eq!(redrawn("a\nb\nc\n", 3), "\x1b[Ha\x1b[K\nb\x1b[K\n\x1b[J");
        assert_eq!(redrawn("a\n", 24), "\x1b[Ha\x1b[K\n\x1b[J");
    }
}
