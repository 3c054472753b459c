//! `gpuspy run`.

use super::hangs::HangOptions;
use super::observe::{self, Meanwhile, Observed, not_started, observe};
use super::{Failure, html, panic, progress, quoted, report, say};
use crate::collect::sys::{self, Stopped};
use crate::collect::{Collector, Target};
use clap::builder::FalseyValueParser;
use clap::{ArgAction, Args, ValueEnum};
use gpuspy_wire::capture_range::{self, CaptureRange};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Instant;

/// The default of `--budget`, percent.
const BUDGET: f64 = 5.0;
/// The variable of `--capture-range`.
const CAPTURE_RANGE: &str = "GPUSPY_CAPTURE_RANGE";

#[derive(Args, Debug)]
pub(super) struct Options {
    /// The trace: a file, or with several processes a directory of that name
    /// [default: gpuspy-<program>-<pid>.gspy]
    #[arg(short, long, value_name = "PATH", env = "GPUSPY_OUTPUT")]
    output: Option<PathBuf>,
    /// Which operations get GPU times [default: auto; off with CUDA_DEVICE_MAX_CONNECTIONS=1]
    #[arg(long, value_enum, env = "GPUSPY_TIMING")]
    timing: Option<Timing>,
    /// The profiling overhead that --timing auto may have, in percent of wall time
    #[arg(long, value_name = "PERCENT", default_value = "5", env = "GPUSPY_BUDGET", value_parser = percent, allow_negative_numbers = true)]
    budget: f64,
    #[allow(rustdoc::broken_intra_doc_links, reason = "clap prints the comment as it is")]
    /// Record only inside a range: profiler-api (from cudaProfilerStart to cudaProfilerStop), nvtx:NAME[@DOMAIN]
    /// (while an NVTX range of that name is open; @* = in any domain), or delay=SECONDS[,duration=SECONDS] (counted
    /// from the first CUDA call; also with a unit, 200ms). All ranges of the run are recorded
    #[arg(long, value_name = "RANGE", env = CAPTURE_RANGE, value_parser = capture_range)]
    capture_range: Option<String>,
    #[command(flatten)]
    hangs: HangOptions,
    /// What gets GPU times in graph launches. `nodes` adds events to the program's graphs, which slows them down
    #[arg(long, value_enum, default_value_t = Graph::Launches, env = "GPUSPY_GRAPH")]
    graph: Graph,
    /// How much of the program's own stack each call gets, so that the report names its line (Python)
    #[arg(long, value_enum, default_value_t = Stacks::Auto, env = "GPUSPY_STACKS")]
    stacks: Stacks,
    /// Read all native frames (C++, and what Python calls) of calls that take 80 us or more
    #[arg(long, env = "GPUSPY_NATIVE", action = ArgAction::SetTrue, value_parser = FalseyValueParser::new())]
    native: bool,
    /// Do not print the report
    #[arg(long, env = "GPUSPY_NO_REPORT", action = ArgAction::SetTrue, value_parser = FalseyValueParser::new())]
    no_report: bool,
    /// Write the report as JSON beside the trace
    #[arg(long, env = "GPUSPY_JSON", action = ArgAction::SetTrue, value_parser = FalseyValueParser::new())]
    json: bool,
    /// Write the report as a page for a browser, with the timeline: one file that needs nothing else
    #[arg(long, value_name = "FILE", env = "GPUSPY_HTML")]
    html: Option<PathBuf>,
    /// Show progress on stderr if it is a terminal; the program writes there too
    #[arg(long, env = "GPUSPY_PROGRESS", action = ArgAction::SetTrue, value_parser = FalseyValueParser::new())]
    progress: bool,
    /// Print nothing unless something fails
    #[arg(short, long, env = "GPUSPY_QUIET", action = ArgAction::SetTrue, value_parser = FalseyValueParser::new())]
    quiet: bool,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "CMD")]
    command: Vec<OsString>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Timing {
    /// As many as the budget allows: everything at first, then in sampling windows
    Auto,
    /// All operations
    Exact,
    /// None: calls are recorded, but no events
    Off,
}

/// Parses the budget.
fn percent(text: &str) -> Result<f64, String> {
    let percent = text.parse().ok().filter(|p| *p > 0.0 && *p <= 100.0);
    percent.ok_or_else(|| "a percentage above 0 and up to 100 is needed".to_owned())
}

/// Parses a range as the agent does.
fn capture_range(text: &str) -> Result<String, String> {
    CaptureRange::parse(text).map(|_| text.to_owned()).ok_or_else(|| capture_range::EXPECTED.to_owned())
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Graph {
    /// Each launch as one operation
    Launches,
    /// Each launch, and samples of its kernels
    Nodes,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Stacks {
    /// All frames, and of launches that are not timed those up to the first of the user's
    Auto,
    /// All frames, up to 126
    Full,
    /// None: no name of a file or a function is read
    Off,
}

/// Returns the name that an option or a variable has for a value.
fn word(value: impl ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

pub(super) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let target = match &options.output {
        Some(path) => Target::from_option(path)?,
        None => Target::default_place()?,
    };
    match &options.html {
        Some(page) if page.as_os_str() == "-" => {
            return Err(Failure::usage("--html needs a file: stdout is the program's"));
        }
        Some(page) => html::replaceable(page)?,
        None => {}
    }
    if options.json {
        options.output.as_deref().map_or(Ok(()), report::json_beside)?;
    }
    options.output.iter().for_each(|trace| panic::about(trace));
    let draw = |collector: &Collector, over: &Stopped| progress::draw(collector.progress(), over);
    let meanwhile: Option<Meanwhile<'_>> = if options.progress { Some(&draw) } else { None };
    let began = Instant::now();
    let observed = observe(target, command(options), &again(options), options.hangs.watch(), meanwhile)?;
    if options.progress {
        progress::total(observed.collector.progress(), began);
    }
    let status = *observed.status.as_ref().map_err(|error| not_started(&options.command[0], error))?;
    // The exit code is the command's, whatever fails from here on.
    sys::last_words(without_report(&observed.collector));
    panic::caught(|| {
        conclude(options, &observed);
        ExitCode::SUCCESS
    });
    Ok(ExitCode::from(sys::end_as(status) as u8))
}

/// Returns the line that is printed if abort(3) ends the report. The standard library has said before that an allocation failed.
fn without_report(collector: &Collector) -> String {
    let traces = collector.traces();
    let remedy = traces.whole().map_or_else(String::new, |trace| {
        format!("; the trace is kept, to be read where there is more memory: gpuspy report {}", quoted(trace))
    });
    format!("gpuspy: there is no report{remedy}\n")
}

/// Returns the command with the environment that the options set.
fn command(options: &Options) -> Command {
    let mut command = Command::new(&options.command[0]);
    command
        .args(&options.command[1..])
        .env("GPUSPY_BUDGET", options.budget.to_string())
        .env("GPUSPY_GRAPH", word(options.graph))
        .env("GPUSPY_STACKS", word(options.stacks))
        .env("GPUSPY_NATIVE", if options.native { "1" } else { "0" });
    if let Some(timing) = options.timing {
        command.env("GPUSPY_TIMING", word(timing));
    }
    if let Some(range) = &options.capture_range {
        command.env(CAPTURE_RANGE, range);
    }
    if options.quiet {
        command.env("GPUSPY_QUIET", "1");
    }
    command
}

/// Returns the words after `gpuspy run` that record the same again: the options that decide what is recorded, and the
/// command.
fn again(options: &Options) -> Vec<String> {
    let option = |name: &str, value: Option<String>| value.map(|value| [name.to_owned(), value]);
    let budget = Some(options.budget).filter(|percent| *percent != BUDGET).map(|percent| percent.to_string());
    let given = [
        option("--timing", options.timing.map(word)),
        option("--budget", budget),
        option("--capture-range", options.capture_range.clone()),
        option("--graph", matches!(options.graph, Graph::Nodes).then(|| word(options.graph))),
        option("--stacks", (!matches!(options.stacks, Stacks::Auto)).then(|| word(options.stacks))),
    ];
    let command = options.command.iter().map(|word| word.to_string_lossy().into_owned());
    let native = options.native.then(|| "--native".to_owned());
    given.into_iter().flatten().flatten().chain(native).chain(["--".to_owned()]).chain(command).collect()
}

/// Prints the results.
fn conclude(options: &Options, observed: &Observed) {
    observe::say_what_was_collected(&options.command[0], observed, options.quiet);
    let traces = observed.collector.traces();
    let Some(whole) = traces.whole() else { return };
    panic::about(whole);
    let print = !options.quiet && !options.no_report;
    let wanted = report::Wanted { print, json: options.json, html: options.html.as_deref() };
    match (report::after_run(whole, &wanted), wanted.html) {
        (Err(failure), _) => say(&failure.sentence),
        (Ok(()), Some(page)) if !options.quiet => say(format_args!("the page is {}", page.display())),
        _ => {}
    }
    if !options.quiet {
        observe::say_where(whole);
    }
}
