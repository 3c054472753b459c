//! The commands, their options and their errors.

mod collect;
mod completions;
mod demo;
mod diff;
mod doctor;
mod elf;
mod examples;
mod export;
mod exporting;
mod filter;
mod flame;
mod following;
mod hangs;
mod html;
mod installation;
mod launch;
mod machines;
mod observe;
mod operations;
mod output;
mod panic;
mod parquet;
mod part;
mod printing;
mod program;
mod progress;
mod queries;
mod report;
mod run;
mod time;
mod top;
mod traces;
mod versions;
mod view;
mod windows;

use crate::collect::{Incomplete, Session, descriptors, sys};
use crate::model::filter::Filter;
use crate::why::why;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, CommandFactory, FromArgMatches, Parser, Subcommand};
use std::error::Error as _;
use std::ffi::OsStr;
use std::fmt;
use std::io::Write;
use std::num::{IntErrorKind, ParseIntError};
use std::path::Path;
use std::process::ExitCode;

/// Why is the GPU idle? gpuspy traces any CUDA program, without root, CUPTI or changes to the program.
#[derive(Debug, Parser)]
#[command(name = "gpuspy", version, max_term_width = 100, after_help = examples::ALL)]
struct Cli {
    #[command(subcommand)]
    command: Command,

    /// With --version: say which agent belongs to it, where both are, and what they need
    #[arg(long)]
    verbose: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a program, trace the GPU work of it and its children, and print the report
    #[command(after_help = examples::RUN)]
    Run(run::Options),
    /// Collect traces from programs that were started with LD_PRELOAD=libgpuspy.so
    #[command(after_help = examples::COLLECT)]
    Collect(collect::Options),
    /// Print the report of a trace
    #[command(after_help = examples::REPORT)]
    Report(report::Options),
    /// Show what running programs do now, again and again
    #[command(after_help = examples::TOP)]
    Top(top::Options),
    /// Compare two traces: what became faster or slower, and is that more than noise
    #[command(after_help = examples::DIFF)]
    Diff(diff::Options),
    /// Export a trace for Perfetto, chrome://tracing or HTA, as tables for DuckDB and Spark, or its stacks for flame graphs
    #[command(after_help = examples::EXPORT)]
    Export(export::Options),
    /// Print SQL for the tables of `export --to parquet`, for DuckDB and Spark
    #[command(after_help = examples::QUERIES)]
    Queries(queries::Options),
    /// Check what works on this machine and what does not, and say what to do about it
    #[command(after_help = examples::DOCTOR)]
    Doctor(doctor::Options),
    /// Trace a small program with typical performance problems, on a simulated GPU if there is no real one
    #[command(after_help = examples::DEMO)]
    Demo(demo::Options),
    /// Print completions for a shell
    #[command(after_help = examples::COMPLETIONS)]
    Completions(completions::Completions),
    /// Print the manual page of gpuspy or of one of its commands
    #[command(after_help = examples::MAN)]
    Man(completions::Man),
    /// Runs one probe of the doctor, in a child process
    #[command(name = doctor::CHILD, hide = true)]
    DoctorProbe(doctor::ProbeOptions),
    /// Runs the workload of the demo
    #[command(name = demo::WORKLOAD, hide = true)]
    DemoWorkload,
}

/// A failure of gpuspy, described in one sentence.
#[derive(Debug)]
struct Failure {
    code: u8,
    sentence: String,
}

/// The exit code of bad usage, and of what cannot be set up.
const USAGE: u8 = 2;
/// The exit code of a trace that cannot be read at all.
const UNREADABLE: u8 = 3;

/// The exit code of a comparison that found more than it was told to allow.
const OVER_LIMIT: u8 = 4;

impl Failure {
    fn usage(sentence: impl fmt::Display) -> Failure {
        Failure { code: USAGE, sentence: sentence.to_string() }
    }
}

impl From<crate::collect::Error> for Failure {
    fn from(error: crate::collect::Error) -> Failure {
        Failure::usage(error)
    }
}

/// Parses the arguments, runs the command, and returns the exit code.
pub fn main() -> ExitCode {
    panic::install();
    panic::caught(|| with_enough_stack(run_command_line))
}

/// The usual limit on the first thread's stack, which all commands stay far below.
const STACK: usize = 8 << 20;

/// Runs the work, on a thread of its own if the first thread's stack is smaller than usual: a collector inherits the
/// limit (`ulimit -s`) of the program that it observes.
fn with_enough_stack(work: fn() -> ExitCode) -> ExitCode {
    if sys::limit(libc::RLIMIT_STACK).0 >= STACK as u64 {
        return work();
    }
    // Before the other thread begins: a signal that reaches this one would end the process.
    let before = sys::Mask::block_all();
    std::thread::scope(|threads| {
        let thread = std::thread::Builder::new().stack_size(STACK);
        let running = thread.spawn_scoped(threads, move || {
            before.restore();
            work()
        });
        match running {
            // A panic goes on here, where its exit code is decided.
            Ok(running) => running.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            Err(_) => {
                before.restore();
                work()
            }
        }
    })
}

/// What is said of `--verbose` alone, and with a command.
const VERBOSE: &str = "--verbose is for --version";

fn run_command_line() -> ExitCode {
    let done = match parse() {
        Ok(cli) if cli.verbose => Err(Failure::usage(VERBOSE)),
        Ok(cli) => run_command(cli.command),
        Err(error) if error.kind() == ErrorKind::DisplayVersion && asks_for_all_versions() => {
            print(&versions::versions())
        }
        // Without a command there are no other options.
        Err(error) if error.kind() == ErrorKind::MissingSubcommand => Err(Failure::usage(VERBOSE)),
        Err(error) => print_of_parser(&in_words(attributed(error))),
    };
    done.unwrap_or_else(|failure| {
        say(&failure.sentence);
        ExitCode::from(failure.code)
    })
}

/// Parses the arguments, and the variables that stand for some. A collector that an agent has started can tell nobody that a
/// variable is wrong, and the trace would be lost: it goes without them, and the trace says why.
fn parse() -> Result<Cli, clap::Error> {
    // One that is empty counts as unset.
    let parsed = parse_without(|variable| std::env::var_os(variable).is_some_and(|value| value.is_empty()));
    let is_agents = || std::env::args_os().nth(2).is_some_and(|argument| argument == "--inherit-fd");
    match parsed {
        Err(error) if is_agents() => {
            let mut cli = parse_without(|_| true)?;
            if let Command::Collect(options) = &mut cli.command {
                let reason = attributed(error).to_string();
                let reason = reason.lines().next().unwrap_or_default().trim_start_matches("error: ");
                options.note = Some(format!("{reason}; the default is used"));
            }
            Ok(cli)
        }
        parsed => parsed,
    }
}

/// Parses the arguments, and the variables but for those that are left out.
fn parse_without(is_left_out: impl Fn(&OsStr) -> bool) -> Result<Cli, clap::Error> {
    let with_variable = |argument: Arg| {
        let is_out = argument.get_env().is_some_and(&is_left_out);
        if is_out { argument.env(None::<&'static str>) } else { argument }
    };
    let all = Cli::command().mut_subcommands(|command| command.mut_args(with_variable));
    let matches = all.try_get_matches()?;
    Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut Cli::command()))
}

/// Returns the filter that these options of `gpuspy report` make.
///
/// # Errors
/// Says which of them is wrong.
pub fn filter(options: &[&str]) -> Result<Filter, String> {
    filter::FilterOptions::of_words(options)?.filter().map_err(|failure| failure.sentence)
}

/// The parser stops at `--version`, so `--verbose` may be unread.
fn asks_for_all_versions() -> bool {
    std::env::args_os().any(|argument| argument == "--verbose")
}

/// Returns an error that names the environment variable, if the bad value came from one and not from the command line.
fn attributed(mut error: clap::Error) -> clap::Error {
    let text = |kind| error.get(kind).map(ToString::to_string);
    let Some((option, value)) = text(ContextKind::InvalidArg).zip(text(ContextKind::InvalidValue)) else {
        return error;
    };
    let mut all = Cli::command();
    all.build();
    let mut arguments = all.get_subcommands().flat_map(clap::Command::get_arguments);
    let variable =
        arguments.find(|argument| argument.to_string() == option).and_then(|found| found.get_env());
    let Some(variable) = variable.filter(|variable| std::env::var_os(variable).is_some_and(|v| v == *value))
    else {
        return error;
    };
    let long = option.split(' ').next().unwrap_or_default();
    let is_typed = |argument: std::ffi::OsString| argument.to_string_lossy().split('=').next() == Some(long);
    let variable = variable.to_string_lossy().into_owned();
    if !std::env::args_os().take_while(|argument| argument != "--").any(is_typed) {
        error.insert(ContextKind::InvalidArg, ContextValue::String(variable));
    }
    error
}

/// Returns an error that says what is needed, in place of one that has what Rust says of a text that is no number.
fn in_words(error: clap::Error) -> clap::Error {
    let reason = error.source().and_then(|source| source.downcast_ref::<ParseIntError>());
    let is_no_number = reason
        .is_some_and(|reason| matches!(reason.kind(), IntErrorKind::InvalidDigit | IntErrorKind::Empty));
    let text = |kind| error.get(kind).map(ToString::to_string);
    match text(ContextKind::InvalidArg).zip(text(ContextKind::InvalidValue)) {
        Some((option, value)) if is_no_number => clap::Error::raw(
            ErrorKind::ValueValidation,
            format_args!(
                "invalid value '{value}' for '{option}': a whole number from 0 on is needed\n\nFor more information, try '--help'.\n"
            ),
        ),
        _ => error,
    }
}

fn run_command(command: Command) -> Result<ExitCode, Failure> {
    // The traces of all processes of a machine are open at the same time.
    if matches!(command, Command::Report(_) | Command::Top(_) | Command::Diff(_) | Command::Export(_)) {
        descriptors::raise_limit();
    }
    match command {
        Command::Run(options) => run::run(&options),
        Command::Collect(options) => collect::collect(&options),
        Command::Report(options) => report::report(&options),
        Command::Top(options) => top::top(&options),
        Command::Diff(options) => diff::diff(&options),
        Command::Queries(options) => queries::queries(&options),
        Command::Doctor(options) => doctor::doctor(&options),
        Command::Demo(options) => demo::demo(&options),
        Command::DemoWorkload => demo::run_workload(),
        Command::Completions(options) => completions::completions(&options),
        Command::Man(options) => completions::man(&options),
        Command::DoctorProbe(options) => doctor::run_probe(&options),
        Command::Export(options) => export::export(&options),
    }
}

/// Prints what a trace lacks that a report cannot know.
fn say_what_is_missing(session: &Session, path: &Path) {
    let path = path.display();
    session.incomplete.iter().for_each(|incomplete| say(incomplete_traces(incomplete)));
    if let Some(why) = &session.undivided {
        let pid = session.pid;
        let lost =
            if session.incomplete.is_none() { "nothing is lost" } else { "the one before has its time" };
        say(format_args!("not every window of process {pid} has a trace of its own, {lost}: {why}"));
    }
    if session.unknown > 0 {
        let unknown = session.unknown;
        say(format_args!(
            "{path} lacks {unknown} records of kinds unknown to this gpuspy: the agent is newer"
        ));
    }
}

/// Says which traces of a process lack what could not be written.
fn incomplete_traces(Incomplete { path, later, records, why }: &Incomplete) -> String {
    let path = path.display();
    let which = match later {
        0 => format!("{path} is incomplete"),
        1 => format!("{path} and a later trace of the process are incomplete"),
        _ => format!("{path} and {later} later traces of the process are incomplete"),
    };
    match records {
        0 => format!("{which}: {why}"),
        1 => format!("{which}: {why}; 1 record is missing"),
        _ => format!("{which}: {why}; {records} records are missing"),
    }
}

/// Prints a message on stderr, since stdout is for the program or the report.
fn say(what: impl fmt::Display) {
    printing::sentence(what.to_string());
}

/// Prints a result on stdout. A reader that closes the pipe (`… | head`) is not an error.
fn print(text: &str) -> Result<ExitCode, Failure> {
    let mut stdout = std::io::stdout().lock();
    printed(stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush())).map(|()| ExitCode::SUCCESS)
}

/// Prints what the parser says: help on stdout, and what is wrong on stderr.
fn print_of_parser(said: &clap::Error) -> Result<ExitCode, Failure> {
    let done = said.print().and_then(|()| std::io::stdout().flush());
    if !said.use_stderr() {
        printed(done)?;
    }
    Ok(ExitCode::from(u8::try_from(said.exit_code()).unwrap_or(USAGE)))
}

fn printed(done: std::io::Result<()>) -> Result<(), Failure> {
    match done {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Failure::usage(format_args!("cannot write to stdout: {}", why(&e))))
        }
        _ => Ok(()),
    }
}

/// Quotes a path for a shell.
fn quoted(path: &Path) -> String {
    crate::report::shell::quoted(&path.to_string_lossy())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The last trace was named, which was whole, and the first ones had gaps.
    #[test]
    fn traces_that_lack_something_are_named_with_how_much_they_lack() {
        let said = |later, records| {
            let (path, why) = ("a/x.gspy".into(), "File too large".to_owned());
            incomplete_traces(&Incomplete { path, later, records, why })
        };
        assert_eq!(said(0, 0), "a/x.gspy is incomplete: File too large");
        assert_eq!(said(0, 1), "a/x.gspy is incomplete: File too large; 1 record is missing");
        assert_eq!(
            said(3, 70),
            "a/x.gspy and 3 later traces of the process are incomplete: File too large; 70 records are missing"
        );
    }

    /// The sign was taken for another option's, and a job without a name got the folder job=unknown.
    #[test]
    fn a_negative_time_and_an_empty_name_are_refused_with_the_option() {
        for (line, option) in [
            (&["gpuspy", "run", "--hang-after", "-1", "--", "app"][..], "--hang-after"),
            (&["gpuspy", "export", "x", "--to", "parquet", "--job", ""], "--job"),
            (&["gpuspy", "collect", "--to", "parquet", "--job", ""], "--job"),
        ] {
            let error = Cli::try_parse_from(line).unwrap_err().to_string();
            assert!(error.contains(option) && !error.contains("unexpected argument"), "{line:?}: {error}");
        }
    }

    #[test]
    fn what_is_no_number_is_refused_with_what_is_needed() {
        let lines: [&[&str]; 6] = [
            &["gpuspy", "report", "x", "--device", "abc"],
            &["gpuspy", "report", "x", "--stream", "1.5"],
            &["gpuspy", "diff", "x", "y", "--rank", "x"],
            &["gpuspy", "export", "x", "--device", "zero"],
            &["gpuspy", "collect", "--pid", "abc"],
            &["gpuspy", "doctor", "--timeout", "abc"],
        ];
        for line in lines {
            let error = in_words(Cli::try_parse_from(line).unwrap_err());
            let text = error.to_string();
            assert!(text.contains("': a whole number from 0 on is needed\n"), "{line:?}: {text}");
            assert!(text.contains("--help") && error.exit_code() == 2, "{line:?}: {text}");
        }
        let error = in_words(Cli::try_parse_from(["gpuspy", "doctor", "--timeout", "0"]).unwrap_err());
        assert!(error.to_string().contains("3600"), "{error}");
    }
}
