//! Options that limit a report to a part of the trace.

use super::{Failure, time};
use crate::model::clocks::Clocks;
use crate::model::filter::Filter;
use crate::model::names::demangle;
use crate::report::names::plain;
use crate::report::shell::quoted;
use crate::trace::record::{Names, Status};
use clap::{Args, Parser};
use gpuspy_wire::record::Namespace;
use regex::Regex;
use std::collections::BTreeSet;
use std::fmt::Display;
use std::path::Path;

/// The filters. What matches all of them is reported.
#[derive(Args, Debug, Default)]
#[command(next_help_heading = "Filters")]
pub(super) struct FilterOptions {
    /// Only this rank of a run; may be repeated
    #[arg(long = "rank", value_name = "N", allow_negative_numbers = true)]
    ranks: Vec<u32>,
    /// Only this GPU, by its CUDA device number in the program; may be repeated
    #[arg(long = "device", value_name = "N", allow_negative_numbers = true)]
    devices: Vec<u32>,
    /// Only this stream, by its number in --operations; may be repeated
    #[arg(long = "stream", value_name = "ID", allow_negative_numbers = true)]
    streams: Vec<u64>,
    /// Only calls of this thread, by its Linux thread ID; may be repeated
    #[arg(long = "thread", value_name = "TID", allow_negative_numbers = true)]
    threads: Vec<u32>,
    /// Only kernels whose demangled name or symbol matches this regular expression
    #[arg(long, value_name = "REGEX", value_parser = regex)]
    kernel: Option<Regex>,
    /// Only what starts at this time or later, counted from the start of the run: 1.5s, 200ms, 10us, 3m
    #[arg(long, value_name = "T", value_parser = time::duration, allow_hyphen_values = true)]
    since: Option<u64>,
    /// Only what starts before this time
    #[arg(long, value_name = "T", value_parser = time::duration, allow_hyphen_values = true)]
    until: Option<u64>,
    /// Only the host time of this step of the program, or of the steps N to M, counted from 0
    #[arg(long = "step", value_name = "N|N..M", value_parser = steps, conflicts_with_all = ["since", "until"])]
    steps: Option<(u64, u64)>,
    /// Only what starts in the last T of the run, or of what there is of a run that goes on
    #[arg(long, value_name = "T", value_parser = time::duration, conflicts_with_all = ["since", "until", "steps"])]
    last: Option<u64>,
}

/// The filters alone.
#[derive(Debug, Parser)]
#[command(no_binary_name = true)]
struct Words {
    #[command(flatten)]
    options: FilterOptions,
}

impl FilterOptions {
    /// Parses the words of a command line.
    pub(super) fn of_words(words: &[&str]) -> Result<FilterOptions, String> {
        Words::try_parse_from(words).map(|words| words.options).map_err(|error| error.to_string())
    }

    /// Returns the filter of these options.
    pub(super) fn filter(&self) -> Result<Filter, Failure> {
        let FilterOptions { ranks, devices, streams, threads, kernel, since, until, steps, last } = self;
        of_some_time(Filter {
            ranks: ranks.clone(),
            devices: devices.clone(),
            streams: streams.clone(),
            threads: threads.clone(),
            kernel: kernel.clone(),
            since: *since,
            until: *until,
            steps: *steps,
            last: *last,
            ..Filter::default()
        })
    }
}

/// Returns a filter whose time is not empty.
pub(super) fn of_some_time(filter: Filter) -> Result<Filter, Failure> {
    match filter {
        Filter { since: Some(since), until: Some(until), .. } if since >= until => {
            Err(Failure::usage("--until must be later than --since"))
        }
        Filter { last: Some(0), .. } => Err(Failure::usage("--last must be more than 0")),
        filter => Ok(filter),
    }
}

/// Returns the options of a filter for a command line that a shell reads, each after a space. Without `with_time`, those that limit the
/// time are left out.
pub(super) fn words(filter: &Filter, with_time: bool) -> String {
    let Filter { ranks, devices, streams, threads, kernel, since, until, steps, last, .. } = filter;
    let mut words = String::new();
    let mut add =
        |option: &str, value: &dyn Display| words += &format!(" --{option}={}", quoted(&value.to_string()));
    ranks.iter().for_each(|rank| add("rank", rank));
    devices.iter().for_each(|device| add("device", device));
    streams.iter().for_each(|stream| add("stream", stream));
    threads.iter().for_each(|thread| add("thread", thread));
    kernel.iter().for_each(|kernel| add("kernel", kernel));
    if with_time {
        steps.iter().for_each(|(first, last)| add("step", &format_args!("{first}..{last}")));
        last.iter().for_each(|last| add("last", &format_args!("{last}ns")));
        since.iter().for_each(|since| add("since", &format_args!("{since}ns")));
        until.iter().for_each(|until| add("until", &format_args!("{until}ns")));
    }
    words
}

/// What a trace contains that filters select.
pub(super) struct Contents<'a> {
    pub names: &'a Names,
    pub status: Option<&'a Status>,
    pub clocks: &'a Clocks,
    /// The filter for this trace, which has the numbers of its streams.
    pub filter: &'a Filter,
}

/// The most values that an error lists.
const LISTED: usize = 16;

/// Checks that each selected rank is one of the processes'.
pub(super) fn check_ranks(
    path: &Path,
    filter: &Filter,
    processes: impl Iterator<Item = Option<u32>>,
) -> Result<(), Failure> {
    let ranks: BTreeSet<u32> = processes.flatten().collect();
    let Some(missing) = filter.ranks.iter().find(|rank| !ranks.contains(rank)) else { return Ok(()) };
    let known = listed(texts(&ranks))
        .map_or_else(|| "its processes have no ranks".to_owned(), |list| format!("its ranks: {list}"));
    Err(Failure::usage(format_args!("--rank {missing} is not in {}; {known}", path.display())))
}

/// What the traces of a run contain that filters select.
#[derive(Default)]
pub(super) struct Known {
    devices: BTreeSet<u32>,
    streams: BTreeSet<u64>,
    threads: BTreeSet<u32>,
    /// Only if the filter selects kernels.
    kernels: BTreeSet<String>,
    /// Whether a trace has no status, which names the threads.
    lacks_threads: bool,
    has_any: bool,
}

impl Known {
    /// Adds what a trace contains.
    pub(super) fn add(&mut self, contents: &Contents<'_>) {
        let &Contents { names, status, clocks, filter } = contents;
        let named = |space| names.0.iter().filter(move |((namespace, _), _)| *namespace == space);
        self.devices.extend(clocks.devices.values().copied());
        // A device's name has its ordinal + 1.
        self.devices.extend(named(Namespace::Device).filter_map(|((_, id), _)| id.checked_sub(1)));
        let numbers = filter.numbers.iter().flat_map(|numbers| numbers.values()).copied();
        self.streams.extend(numbers.map(u64::from));
        self.lacks_threads |= status.is_none();
        self.threads.extend(status.iter().flat_map(|status| status.threads.values()).copied());
        if filter.kernel.is_some() {
            self.kernels.extend(named(Namespace::Kernel).map(|(_, symbol)| symbol.clone()));
        }
        self.has_any = true;
    }

    /// Checks that each selected device, stream and thread is in one of the traces, and that a kernel matches.
    pub(super) fn check(&self, path: &Path, filter: &Filter) -> Result<(), Failure> {
        if !self.has_any {
            return Ok(());
        }
        let Known { devices, streams, threads, kernels, lacks_threads, .. } = self;
        let path = path.display();
        let missing = |option: &str, value: &dyn Display, what: &str, known: Vec<String>| {
            let known = listed(known)
                .map_or_else(|| format!("it has no {what}"), |list| format!("its {what}: {list}"));
            Err(Failure::usage(format_args!("{option} {value} is not in {path}; {known}")))
        };
        if let Some(device) = filter.devices.iter().find(|device| !devices.contains(device)) {
            return missing("--device", device, "devices", texts(devices));
        }
        if let Some(stream) = filter.streams.iter().find(|stream| !streams.contains(stream)) {
            return missing("--stream", stream, "streams", texts(streams));
        }
        if let Some(thread) = filter.threads.iter().find(|thread| !lacks_threads && !threads.contains(thread))
        {
            return missing("--thread", thread, "threads", texts(threads));
        }
        match &filter.kernel {
            Some(kernel) if !kernels.iter().any(|symbol| filter.names(symbol)) => {
                let known = listed(kernels.iter().map(|symbol| demangle(symbol)).collect());
                let known = known
                    .map_or_else(|| "it has no kernels".to_owned(), |list| format!("its kernels: {list}"));
                Err(Failure::usage(format_args!("--kernel {kernel} matches nothing in {path}; {known}")))
            }
            _ => Ok(()),
        }
    }
}

/// Checks that what a filter selects is in one of the traces.
pub(super) fn check<'a>(
    path: &Path,
    filter: &Filter,
    contents: impl IntoIterator<Item = Contents<'a>>,
) -> Result<(), Failure> {
    let mut known = Known::default();
    contents.into_iter().for_each(|contents| known.add(&contents));
    known.check(path, filter)
}

fn texts<T: ToString>(values: &BTreeSet<T>) -> Vec<String> {
    values.iter().map(T::to_string).collect()
}

/// Returns values as a list of limited length; `None` if there are none.
fn listed(values: Vec<String>) -> Option<String> {
    let more = values.len().saturating_sub(LISTED);
    let mut list = values.into_iter().take(LISTED).map(|value| plain(&value)).collect::<Vec<_>>().join(", ");
    if more > 0 {
        list.push_str(&format!(" and {more} more"));
    }
    (!list.is_empty()).then_some(list)
}

/// Parses a step, or the first and the last of several.
pub(super) fn steps(text: &str) -> Result<(u64, u64), String> {
    let number = |text: &str| text.parse().map_err(|_| format!("{text:?} is not the number of a step"));
    let (first, last) = match text.split_once("..") {
        Some((first, last)) => (number(first)?, number(last)?),
        None => (number(text)?, number(text)?),
    };
    if first <= last { Ok((first, last)) } else { Err("the last step comes before the first".to_owned()) }
}

/// Parses a regular expression; the error is one sentence.
fn regex(text: &str) -> Result<Regex, String> {
    Regex::new(text).map_err(|error| {
        let text = error.to_string();
        let why = text.lines().last().unwrap_or_default();
        let why = why.strip_prefix("error: ").unwrap_or(why);
        format!("{why}; to match such a character itself, put a backslash before it")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_of_a_bad_expression_is_one_line() {
        let error = regex("gemm(").unwrap_err();
        assert!(error.contains("unclosed group") && !error.contains('\n'), "{error}");
        assert!(regex("^gemm<[0-9]+>").is_ok());
    }

    #[test]
    fn a_step_is_a_number_or_two() {
        assert_eq!((steps("17"), steps("3..8"), steps("4..4")), (Ok((17, 17)), Ok((3, 8)), Ok((4, 4))));
        assert!(["", "-1", "8..3", "3..", "..", "1.5", "3...5"].iter().all(|text| steps(text).is_err()));
    }

    #[test]
    fn a_filters_words_make_the_same_filter() {
        let time = ["--since=1500ns", "--until=2000000000ns"];
        let rest = ["--rank=3", "--device=0", "--device=1", "--stream=7", "--thread=42", "--kernel=^a b|c'd"];
        let filter = |words: &[&str]| FilterOptions::of_words(words).unwrap().filter().unwrap();
        for given in [&[&rest[..], &time].concat()[..], &["--step=3..8"], &["--last=30000000000ns"], &[]] {
            let printed = words(&filter(given), true);
            let script = format!("printf '%s\\n'{printed}");
            let output = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
            let read = String::from_utf8(output.stdout).unwrap();
            let read: Vec<&str> = read.lines().filter(|word| !word.is_empty()).collect();
            assert_eq!(read, given, "{printed}");
        }
        assert_eq!(words(&filter(&time), false) + &words(&filter(&["--step=1"]), false), "");
        assert_eq!(words(&filter(&rest[..2]), false), " --rank=3 --device=0");
    }

    #[test]
    fn a_filter_selects_some_time() {
        let between = |since, until| FilterOptions { since, until, ..FilterOptions::default() }.filter();
        assert!(between(Some(5), Some(5)).is_err_and(|failure| failure.sentence.contains("--until")));
        assert!(between(Some(5), Some(6)).is_ok() && between(None, Some(0)).is_ok());
        let last = |last| FilterOptions { last: Some(last), ..FilterOptions::default() }.filter();
        assert!(last(0).is_err_and(|failure| failure.sentence.contains("--last")) && last(1).is_ok());
    }
}
