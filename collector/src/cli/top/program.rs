//! `gpuspy top -- CMD`: runs a program and looks at it until it ends.
//!
//! The screen is on stdout, so what the program prints there goes to a file, and also what it prints on a terminal's stderr.

use super::{Options, SOON, Seen, Watch, show};
use crate::cli::observe::{self, Observed, not_started, observe};
use crate::cli::traces::{PATIENCE, find};
use crate::cli::{Failure, panic, quoted, say};
use crate::collect::sys::{self, Stopped};
use crate::collect::{Collector, Target};
use crate::why::why;
use parking_lot::Mutex;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, IsTerminal, Read, Seek, SeekFrom, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

/// Of what a program that failed has printed, so many lines are shown, and so many bytes at most.
const LAST_LINES: usize = 20;
const LAST_BYTES: u64 = 16 << 10;

pub(super) fn run(options: &Options, watch: Watch<'_>) -> Result<ExitCode, Failure> {
    let program = &options.command[0];
    let named = options.output.clone().or_else(|| std::env::var_os("GPUSPY_OUTPUT").map(PathBuf::from));
    let target = match named.filter(|path| !path.as_os_str().is_empty()) {
        Some(path) => Target::from_option(&path)?,
        None => Target::default_place()?,
    };
    let mut command = Command::new(program);
    command.args(&options.command[1..]);
    let printed = Printed::by(&mut command, program, &target)?;
    let again = options.command.iter().map(|word| word.to_string_lossy().into_owned());
    let again: Vec<String> = ["--".to_owned()].into_iter().chain(again).collect();
    // Only one thread looks. What it shows begins with hangs.
    let watch = Mutex::new(watch);
    let look = |collector: &Collector, over: &Stopped| watch.lock().until(over, program, collector);
    let observed = observe(target, command, &again, options.hangs.untold(), Some(&look));
    let ended = observed.and_then(|observed| match &observed.status {
        Ok(status) => Ok((*status, observed)),
        Err(error) => Err(not_started(program, error)),
    });
    let (status, observed) = ended.inspect_err(|_| printed.remove())?;
    // The exit code is the command's, whatever fails from here on.
    panic::caught(|| {
        conclude(program, &observed, &printed, status.success());
        ExitCode::SUCCESS
    });
    Ok(ExitCode::from(sys::end_as(status) as u8))
}

/// Says what else there is to know, below the last look.
fn conclude(program: &OsStr, observed: &Observed, printed: &Printed, is_well: bool) {
    observe::say_what_was_collected(program, observed, false);
    printed.conclude(is_well);
    if let Some(whole) = observed.collector.traces().whole() {
        observe::say_where(whole);
    }
}

/// What a program prints, and would be written over the screen.
struct Printed(PathBuf);

impl Printed {
    /// Has a program print into a file.
    fn by(command: &mut Command, program: &OsStr, target: &Target) -> Result<Printed, Failure> {
        let printed = Printed(target.create_printed(program)?);
        let file = || File::options().append(true).open(&printed.0);
        let cannot = |e| {
            printed.remove();
            Failure::usage(format_args!("cannot write {}: {}", printed.0.display(), why(&e)))
        };
        command.stdout(file().map_err(cannot)?);
        if io::stderr().is_terminal() {
            command.stderr(file().map_err(cannot)?);
        }
        // It would ask where nobody sees it.
        if io::stdin().is_terminal() {
            command.stdin(Stdio::null());
        }
        Ok(printed)
    }

    /// Says where it is, and shows the end of it if the program failed.
    fn conclude(&self, is_well: bool) {
        if fs::metadata(&self.0).is_ok_and(|file| file.len() == 0) {
            return self.remove();
        }
        if !is_well {
            let shown = self.end().and_then(|lines| io::stderr().write_all(&lines));
            shown.unwrap_or_else(|e| say(format_args!("cannot show {}: {}", self.0.display(), why(&e))));
        }
        say(format_args!("what the program printed is in {}", quoted(&self.0)));
    }

    /// Returns the last lines.
    fn end(&self) -> io::Result<Vec<u8>> {
        let mut file = File::open(&self.0)?;
        let bytes = file.metadata()?.len();
        file.seek(SeekFrom::Start(bytes.saturating_sub(LAST_BYTES)))?;
        let mut end = Vec::new();
        file.read_to_end(&mut end)?;
        Ok(last_lines(end))
    }

    /// There is nothing in it.
    fn remove(&self) {
        // If this fails, an empty file remains.
        let _ = fs::remove_file(&self.0);
    }
}

/// Returns the last lines of a text, with the end of the last.
fn last_lines(mut text: Vec<u8>) -> Vec<u8> {
    if !text.ends_with(b"\n") {
        text.push(b'\n');
    }
    let ends = text.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1);
    let begin = ends.skip(1).nth(LAST_LINES - 1).unwrap_or(0);
    text.split_off(begin)
}

impl Watch<'_> {
    /// Looks at a program until its traces are complete, and at these to their end.
    fn until(&mut self, over: &Stopped, program: &OsStr, collector: &Collector) {
        let started = Instant::now();
        loop {
            let began = Instant::now();
            let is_over = !matches!(sys::wait([Some(over.as_fd())], Duration::ZERO), Ok([false]));
            let whole = collector.traces().whole().map(Path::to_owned);
            whole.iter().for_each(|trace| panic::about(trace));
            let seen = match &whole {
                Some(trace) if is_over && self.looks == 0 => self.whole(trace),
                Some(trace) => self.look(trace),
                None => Ok(Seen::Nothing { is_begun: false }),
            };
            let rest = match seen {
                Ok(Seen::ByNobody) => return,
                Ok(Seen::Running | Seen::Ended) => self.rest(began.elapsed()),
                Ok(Seen::Nothing { .. }) => {
                    if self.looks == 0 && !is_over {
                        waiting(program, started.elapsed());
                    }
                    SOON
                }
                Err(failure) if is_over => return say(failure.sentence),
                // A file becomes a directory when a second process appears.
                Err(_) => SOON,
            };
            if is_over {
                return;
            }
            let _ = sys::wait([Some(over.as_fd())], rest);
        }
    }

    /// Looks at traces that were complete before the first look.
    fn whole(&mut self, trace: &Path) -> Result<Seen, Failure> {
        self.watched = find(trace, PATIENCE)?.0;
        self.show(trace).map(|_| Seen::Ended)
    }
}

/// Says on a terminal why there is nothing to see yet: to import a framework may take half a minute.
fn waiting(program: &OsStr, time: Duration) {
    if io::stdout().is_terminal() {
        let seconds = time.as_secs();
        // Where it cannot be shown, neither can what follows.
        let _ = show(&format!("gpuspy  {} has not called CUDA yet ({seconds} s)", program.display()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_whole_and_at_most_twenty() {
        let text = |lines: std::ops::Range<usize>| lines.map(|n| format!("{n}\n")).collect::<String>();
        let last = |text: &str| String::from_utf8(last_lines(text.as_bytes().to_vec())).unwrap();
        assert_eq!(last(&text(0..100)), text(80..100));
        assert_eq!(last(&text(0..20)), text(0..20));
        assert_eq!(last(text(0..21).trim_end()), text(1..21));
        assert_eq!(last("no end"), "no end\n");
    }
}
