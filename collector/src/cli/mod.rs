//! The commands: what people type, and what they are told when it cannot be done.

mod collect;
mod export;
mod launch;
mod operations;
mod report;
mod run;

use crate::collect::Session;
use clap::{Parser, Subcommand};
use std::fmt;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

/// Why is the GPU idle? Traces any CUDA program: no root, no CUPTI, no change to the program.
#[derive(Debug, Parser)]
#[command(name = "gpuspy", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a program, collect what it and its children do on GPUs, and print the report
    Run(run::Options),
    /// Collect from programs that were started with LD_PRELOAD=libgpuspy.so
    Collect(collect::Options),
    /// Print the report of a trace
    Report(report::Options),
    /// Write a trace for another tool: Perfetto, Chrome, HTA
    Export(export::Options),
}

/// A failure of our own, told in a sentence.
#[derive(Debug)]
struct Failure {
    code: u8,
    sentence: String,
}

/// What cannot be set up, or was asked for wrongly.
const USAGE: u8 = 2;
/// A trace that cannot be read at all.
const UNREADABLE: u8 = 3;

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

/// Parses the arguments, does what they ask, and returns what to exit with.
pub fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Run(options) => run::run(&options),
        Command::Collect(options) => collect::collect(&options),
        Command::Report(options) => report::report(&options),
        Command::Export(options) => export::export(&options),
    };
    done.unwrap_or_else(|failure| {
        say(&failure.sentence);
        ExitCode::from(failure.code)
    })
}

/// Says what a trace lacks that no report can know of.
fn say_what_is_missing(session: &Session, path: &Path) {
    let path = path.display();
    if let Some(failure) = &session.failure {
        say(format_args!("{path} is not whole: {failure}"));
    }
    if session.unknown > 0 {
        let unknown = session.unknown;
        say(format_args!(
            "{path} lacks {unknown} records of kinds unknown to this gpuspy: its agent is a newer one"
        ));
    }
}

/// Tells the user something, on stderr: stdout is the app's, or the report's. That nobody listens is no error.
fn say(what: impl fmt::Display) {
    let _ = writeln!(std::io::stderr(), "gpuspy: {what}");
}
