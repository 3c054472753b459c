//! `gpuspy collect`.

use super::hangs::HangOptions;
use super::launch;
use super::observe::REAP;
use super::printing::Printing;
use super::time::duration;
use super::windows::{self, Kept, MetricsFile, Tables, Taking, Wanted};
use super::{Failure, panic, progress, quoted, say, say_what_is_missing};
use crate::collect::sys::{self, Signals, Stop, Stopped};
use crate::collect::{self, Collector, Division, Session, Target, descriptors};
use crate::model::outcome::Outcome;
use crate::why::why;
use clap::builder::{FalseyValueParser, NonEmptyStringValueParser};
use clap::{ArgAction, ArgGroup, Args, ValueEnum};
use std::fs::{self, DirBuilder};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

#[derive(Args, Debug)]
#[command(override_usage = "gpuspy collect <--dir <DIR>|--pid <PID> [--output <PATH>]>")]
#[command(group(ArgGroup::new("source")))]
pub(super) struct Options {
    /// Listen on DIR/gpuspy.sock and write a trace into DIR for every process that connects, and for those that a collector
    /// before this one has left there, until SIGINT, SIGTERM or SIGHUP
    #[arg(long, value_name = "DIR", group = "source")]
    dir: Option<PathBuf>,
    /// Collect from a running process that has the agent preloaded and no collector, until it ends, or SIGINT, SIGTERM
    /// or SIGHUP
    #[arg(long, value_name = "PID", group = "source", allow_negative_numbers = true)]
    pid: Option<u32>,
    /// A connected socket inherited from the agent
    #[arg(long, value_name = "N", hide = true, group = "source", requires = "output")]
    inherit_fd: Option<i32>,
    /// The trace [default: gpuspy-<program>-<pid>.gspy]
    #[arg(short, long, value_name = "PATH", conflicts_with = "dir")]
    output: Option<PathBuf>,
    /// Begin new traces every so often, as in 10m or 1h: for jobs that run for weeks
    #[arg(long, value_name = "DURATION", value_parser = window, conflicts_with = "pid")]
    every: Option<Duration>,
    /// Write counters for Prometheus into FILE after each window of time: where the time of GPUs went, and why they idled
    /// (--every is 1m unless given)
    #[arg(long, value_name = "FILE", conflicts_with = "pid")]
    metrics: Option<PathBuf>,
    /// Remove traces whose window of time ended longer ago than that, as in 1h
    #[arg(long, value_name = "DURATION", value_parser = window, conflicts_with_all = ["pid", "to"])]
    keep: Option<Duration>,
    /// Turn each trace into tables under DIR/job=NAME.TIME/ when its time is over, and remove it (--every is 10m unless given)
    #[arg(long, value_name = "FORMAT", conflicts_with = "pid")]
    to: Option<Format>,
    /// The job's name in the tables [default: the program's]
    #[arg(long, value_name = "NAME", requires = "to", value_parser = NonEmptyStringValueParser::new())]
    job: Option<String>,
    #[command(flatten)]
    hangs: HangOptions,
    /// Why a setting is not the one that a variable requests
    #[arg(skip)]
    pub(super) note: Option<String>,
    /// Print nothing unless something fails
    #[arg(short, long, env = "GPUSPY_QUIET", action = ArgAction::SetTrue, value_parser = FalseyValueParser::new())]
    quiet: bool,
}

/// What traces become.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Tables for DuckDB and Spark
    Parquet,
}

/// The length of windows that become tables unless it is given.
const TABLES_EVERY: Duration = Duration::from_secs(600);
/// The length of windows that are only counted unless it is given.
const METRICS_EVERY: Duration = Duration::from_secs(60);

/// Parses the length of windows: whole seconds.
fn window(text: &str) -> Result<Duration, String> {
    let length = Duration::from_nanos(duration(text)?);
    if length.subsec_nanos() != 0 || length.is_zero() {
        return Err("windows last whole seconds, as in 30s, 10m or 1h".to_owned());
    }
    Ok(length)
}

impl Options {
    /// How the collection in a directory is divided into windows, and what is made of their traces; `None` if it is not.
    ///
    /// # Errors
    /// Fails if nothing can be made of them, or if there are none.
    fn windows(&self, directory: &Path) -> Result<Option<(Division, Taking)>, Failure> {
        let tables = self.to.map(|Format::Parquet| TABLES_EVERY);
        let every = self.every.or(tables).or(self.metrics.as_ref().map(|_| METRICS_EVERY));
        let Some(length) = every else {
            return match self.keep {
                Some(_) => Err(Failure::usage(
                    "--keep removes traces of windows of time: say how long these are with --every, as in --every 10m",
                )),
                None => Ok(None),
            };
        };
        let job = self.job.clone();
        let wanted = Wanted {
            metrics: self.metrics.as_deref().map(MetricsFile::new),
            tables: self.to.map(|Format::Parquet| Tables { directory: directory.to_owned(), job }),
            kept: self.keep.map(|age| Kept::new(directory, age)),
        };
        windows::begin(length, wanted).map(Some)
    }
}

/// For so long after the first signal, further ones count as the same: timeout(1) sends one to a process and one to its group.
const ONE_SIGNAL: Duration = Duration::from_millis(200);

/// How long the end of a collector waits for stderr to take what is to be said.
const LAST_WORDS: Duration = Duration::from_secs(1);

pub(super) fn collect(options: &Options) -> Result<ExitCode, Failure> {
    options.output.iter().chain(&options.dir).for_each(|place| panic::about(place));
    descriptors::raise_limit();
    match (&options.dir, options.pid, options.inherit_fd, &options.output) {
        (Some(dir), ..) => listen_in(dir, options),
        (_, Some(pid), _, output) => attach(pid, output.as_deref(), options),
        (.., Some(number), Some(output)) => serve_agent(number, output, options),
        // Checked here and not by clap, which would name the hidden option too.
        _ => Err(Failure::usage("collect needs --dir DIR or --pid PID; see gpuspy collect --help")),
    }
}

fn listen_in(directory: &Path, options: &Options) -> Result<ExitCode, Failure> {
    let quiet = options.quiet;
    let directory = prepare(directory)?;
    let socket = directory.join("gpuspy.sock");
    let signals = stopping_signals()?;
    let _printing = Printing::begin(LAST_WORDS);
    let listener = bind_anew(&socket)?;
    let (collector, stopper) = Collector::new(Target::Directory(directory.clone()))?;
    let has_tables = options.to.is_some();
    let windows = options.windows(&directory).inspect_err(|_| drop(fs::remove_file(&socket)))?;
    let (division, taking) = windows.unzip();
    let collector = collector.watching(options.hangs.watch()).divided(division).telling(say_error);
    let collector = collector.following(&socket);
    let (over, is_over) = a_stop()?;
    let began = Instant::now();
    let listening = std::thread::scope(|threads| {
        let listening = std::thread::Builder::new().spawn_scoped(threads, || {
            collector.listen(listener, |session| {
                print_session(&session, quiet, has_tables);
                if let Ok((session, _)) = session {
                    collector.traces().forget(session.trace);
                }
            });
            drop(over);
        });
        if listening.is_ok() {
            if !quiet {
                let socket = quoted(&socket);
                let agent = launch::find_agent();
                let agent = agent.map_or_else(|_| "/path/to/libgpuspy.so".to_owned(), |path| quoted(&path));
                say(format_args!("listening; start programs with GPUSPY_SOCKET={socket} LD_PRELOAD={agent}"));
            }
            // Without this thread, only the line is missing.
            let _ = std::thread::Builder::new()
                .spawn_scoped(threads, || show_progress(&collector, &is_over, quiet));
            // An error means that no signal can arrive; then only the end of the processes is waited for.
            let _ = wait_for(&signals);
        }
        drop(stopper);
        let_another_signal_end_it(&is_over, signals);
        listening.map(drop).map_err(|e| collect::Error::no_thread("the collector", &e))
    });
    let _ = fs::remove_file(&socket);
    listening?;
    if !quiet {
        progress::total(collector.progress(), began);
    }
    drop(collector);
    taking.into_iter().for_each(Taking::finish);
    Ok(ExitCode::SUCCESS)
}

fn attach(pid: u32, output: Option<&Path>, options: &Options) -> Result<ExitCode, Failure> {
    let quiet = options.quiet;
    let target = output.map_or_else(Target::default_place, Target::from_option)?;
    let signals = stopping_signals()?;
    let _printing = Printing::begin(LAST_WORDS);
    let (collector, stopper) = Collector::new(target)?;
    let collector = collector.watching(options.hangs.watch()).telling(say_error);
    let (done, is_done) = a_stop()?;
    let began = Instant::now();
    let session = std::thread::scope(|threads| {
        let collecting = std::thread::Builder::new().spawn_scoped(threads, || {
            let session = collector.attach(pid);
            drop(done);
            session
        });
        let collecting = collecting.map_err(|e| collect::Error::no_thread("the collector", &e))?;
        // Without this thread, only the line is missing.
        let _ =
            std::thread::Builder::new().spawn_scoped(threads, || show_progress(&collector, &is_done, quiet));
        let either = || sys::wait([Some(signals.as_fd()), Some(is_done.as_fd())], sys::FOREVER);
        while matches!(either(), Ok([false, false])) {}
        drop(stopper);
        let_another_signal_end_it(&is_done, signals);
        collecting.join().map_err(|_| Failure::usage("the collector thread panicked"))
    });
    let session = session??;
    let path = collector.traces().path(session.trace).to_owned();
    print_session(&Ok((session, path)), quiet, false);
    if !quiet {
        progress::total(collector.progress(), began);
    }
    Ok(ExitCode::SUCCESS)
}

/// Lets the next signal end this process, unless the end that the first one asked for comes at once: it may take as long as tables
/// take to be written. What is in the traces stays there.
fn let_another_signal_end_it(is_over: &Stopped, signals: Signals) {
    // An error means only that the next signal may come too early.
    let _ = sys::wait([Some(is_over.as_fd())], ONE_SIGNAL);
    drop(signals);
}

fn say_error(error: &collect::Error) {
    say(error);
}

fn a_stop() -> Result<(Stop, Stopped), Failure> {
    sys::stop().map_err(|e| Failure::usage(format_args!("cannot make a pipe: {}", why(&e))))
}

fn show_progress(collector: &Collector, is_over: &Stopped, quiet: bool) {
    if !quiet {
        progress::draw(collector.progress(), is_over);
    }
}

/// Serves an agent that found no collector and started this one. There is no terminal to print to.
fn serve_agent(number: i32, output: &Path, options: &Options) -> Result<ExitCode, Failure> {
    // The program that started this shares its limit on memory (cgroups), and knows nothing of us.
    sys::be_the_first_without_memory();
    let output = std::path::absolute(output).map_err(Failure::usage)?;
    let socket = UnixStream::from(collect::leave_all_but(number)?);
    let made = Collector::new(Target::File(output));
    let (collector, _stopper) = made.inspect_err(|why| collect::refuse(&socket, why))?;
    let collector = collector.watching(options.hangs.untold()).noting(options.note.as_deref());
    collector.receive(socket)?;
    Ok(ExitCode::SUCCESS)
}

/// Waits for a signal. PID 1 inherits all processes of its container whose parents have ended, and lets them go meanwhile.
fn wait_for(signals: &Signals) -> io::Result<()> {
    if std::process::id() != 1 {
        return signals.wait().map(drop);
    }
    while signals.next()?.is_none() {
        sys::wait([Some(signals.as_fd())], REAP)?;
        sys::reap_all_but(None);
    }
    Ok(())
}

fn stopping_signals() -> Result<Signals, Failure> {
    // Under nohup, a hangup means nothing.
    let hangup = Some(libc::SIGHUP).filter(|number| !sys::is_ignored(*number));
    let numbers: Vec<i32> = [libc::SIGINT, libc::SIGTERM].into_iter().chain(hangup).collect();
    Signals::block(&numbers)
        .map_err(|e| Failure::usage(format_args!("cannot watch for signals: {}", why(&e))))
}

/// Creates the directory, or checks that no other user can place a socket in it.
fn prepare(directory: &Path) -> Result<PathBuf, Failure> {
    let shown = directory.display();
    let failed = |e| Failure::usage(format_args!("cannot use {shown}: {}", why(&e)));
    if let Err(e) = DirBuilder::new().mode(0o700).recursive(true).create(directory) {
        return Err(failed(e));
    }
    let absolute = std::path::absolute(directory).map_err(failed)?;
    let found = fs::metadata(&absolute).map_err(failed)?;
    if ![0, sys::user()].contains(&found.uid()) {
        return Err(Failure::usage(format_args!(
            "{shown} belongs to another user, who could replace the socket and the traces in it: name a directory of your own"
        )));
    }
    if found.mode() & 0o022 != 0 {
        return Err(Failure::usage(format_args!(
            "other users can write into {shown}: name a directory in it that does not exist yet, which gpuspy makes for you alone"
        )));
    }
    Ok(absolute)
}

/// Listens at a path, even if a killed collector left its socket there.
fn bind_anew(socket: &Path) -> Result<UnixListener, Failure> {
    if sys::is_listened_on(socket).unwrap_or(false) {
        let shown = socket.display();
        return Err(Failure::usage(format_args!(
            "another collector listens on {shown}; end it, or choose another --dir"
        )));
    }
    let _ = fs::remove_file(socket);
    Ok(collect::bind(socket)?)
}

/// Prints how a session ended; with `quiet`, only errors. Traces that become tables are not named: they are removed.
fn print_session(session: &collect::Result<(Session, PathBuf)>, quiet: bool, has_tables: bool) {
    match session {
        Err(error) => say(error),
        Ok((session, path)) => {
            let Session { program, pid, ending, exit, .. } = session;
            let how = match Outcome::of(*ending, *exit) {
                Outcome::Detached | Outcome::Running | Outcome::CutOff => {
                    "was detached and is still running".to_owned()
                }
                Outcome::Replaced => "became another program".to_owned(),
                Outcome::Exited(None | Some(0)) => "has exited".to_owned(),
                Outcome::Vanished => "ended without its exit handlers".to_owned(),
                outcome @ Outcome::Killed(_) => format!("was {outcome}"),
                outcome => outcome.to_string(),
            };
            if !quiet && has_tables {
                say(format_args!("{program} ({pid}) {how}"));
            } else if !quiet {
                say(format_args!("{program} ({pid}) {how}; its trace is {}", path.display()));
            }
            say_what_is_missing(session, path);
        }
    }
}
