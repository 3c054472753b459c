//! Options that ask for a part of a trace.

use super::{Failure, time};
use crate::model::filter::Filter;
use clap::Args;
use regex::Regex;

/// A trace's part: what meets all conditions.
#[derive(Args, Debug, Default)]
#[command(next_help_heading = "Limit it to")]
pub(super) struct FilterOptions {
    /// A GPU, by its number in the program; may be repeated
    #[arg(long = "device", value_name = "N", allow_negative_numbers = true)]
    devices: Vec<u32>,
    /// A stream, by the number that --operations gives it; may be repeated
    #[arg(long = "stream", value_name = "ID", allow_negative_numbers = true)]
    streams: Vec<u64>,
    /// A thread that called, by its Linux thread id; may be repeated
    #[arg(long = "thread", value_name = "TID", allow_negative_numbers = true)]
    threads: Vec<u32>,
    /// Kernels whose demangled name or symbol this regular expression finds
    #[arg(long, value_name = "REGEX", value_parser = regex)]
    kernel: Option<Regex>,
    /// What begins at this time or later, counted from the begin of the run: 1.5s, 200ms, 10us, 3m
    #[arg(long, value_name = "T", value_parser = time::duration, allow_hyphen_values = true)]
    since: Option<u64>,
    /// What begins before this time
    #[arg(long, value_name = "T", value_parser = time::duration, allow_hyphen_values = true)]
    until: Option<u64>,
}

impl FilterOptions {
    /// The filter that they mean.
    pub(super) fn filter(&self) -> Result<Filter, Failure> {
        if let (Some(since), Some(until)) = (self.since, self.until)
            && since >= until
        {
            let sentence =
                "nothing is both after --since and before --until: --until has to be the later one";
            return Err(Failure::usage(sentence));
        }
        let FilterOptions { devices, streams, threads, kernel, since, until } = self;
        Ok(Filter {
            devices: devices.clone(),
            streams: streams.clone(),
            threads: threads.clone(),
            kernel: kernel.clone(),
            since: *since,
            until: *until,
            ..Filter::default()
        })
    }
}

/// A regular expression; why it is none, in a sentence.
fn regex(text: &str) -> Result<Regex, String> {
    Regex::new(text).map_err(|error| {
        let told = error.to_string();
        let why = told.lines().last().unwrap_or_default();
        let why = why.strip_prefix("error: ").unwrap_or(why);
        format!("{why}; to find such a character itself, put a backslash before it")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_expression_is_told_in_one_line() {
        let error = regex("gemm(").unwrap_err();
        assert!(error.contains("unclosed group") && !error.contains('\n'), "{error}");
        assert!(regex("^gemm<[0-9]+>").is_ok());
    }

    #[test]
    fn time_goes_forward() {
        let between = |since, until| FilterOptions { since, until, ..FilterOptions::default() }.filter();
        assert!(between(Some(5), Some(5)).is_err_and(|failure| failure.sentence.contains("--until")));
        assert!(between(Some(5), Some(6)).is_ok() && between(None, Some(0)).is_ok());
    }
}
