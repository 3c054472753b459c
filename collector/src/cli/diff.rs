//! `gpuspy diff`: two traces compared.

use super::filter::FilterOptions;
use super::report::{Run, read};
use super::traces::PATIENCE;
use super::view::{StyleOptions, at_least};
use super::{Failure, OVER_LIMIT, UNREADABLE, panic, print, say};
use crate::report::damage::described;
use crate::report::{self, Diff, DiffRun, DiffSection, DiffView};
use clap::Args;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Args, Debug)]
pub(super) struct Options {
    /// The trace before the change, or the directory with the traces of one run
    #[arg(value_name = "BEFORE")]
    before: PathBuf,
    /// The trace after the change, or the directory with the traces of one run
    #[arg(value_name = "AFTER")]
    after: PathBuf,
    /// Print the comparison as JSON
    #[arg(long)]
    json: bool,
    /// Exit with 4 if AFTER is slower by more than this, beyond the noise
    #[arg(long, value_name = "PERCENT", value_parser = percent, allow_negative_numbers = true)]
    fail_over: Option<f64>,
    /// Show only these sections, with all their rows; may be repeated
    #[arg(
        long = "section",
        value_name = "NAME",
        value_delimiter = ',',
        conflicts_with = "json",
        help_heading = "Display"
    )]
    sections: Vec<DiffSection>,
    /// Show at most N rows of each table
    #[arg(
        long,
        value_name = "N",
        value_parser = at_least::<1>,
        allow_negative_numbers = true,
        conflicts_with = "json",
        help_heading = "Display"
    )]
    top: Option<usize>,
    #[command(flatten)]
    style: StyleOptions,
    #[command(flatten)]
    filter: FilterOptions,
}

pub(super) fn diff(options: &Options) -> Result<ExitCode, Failure> {
    let filter = options.filter.filter()?;
    if options.fail_over.is_some() && filter.divides_a_gpu() {
        return Err(Failure::usage(
            "--fail-over judges whole steps, of which --kernel, --stream and --thread select a part: leave those out",
        ));
    }
    let read = |path: &Path| -> Result<Run, Failure> {
        panic::about(path);
        let run = read(path, PATIENCE, &filter)?;
        check_calls(path, &run, filter.is_everything())?;
        Ok(run)
    };
    let (before, after) = (read(&options.before)?, read(&options.after)?);
    let (name, other_name) = (options.before.to_string_lossy(), options.after.to_string_lossy());
    // The times of --step are those of the same steps in both.
    let is_window =
        filter.steps.is_none() && [filter.since, filter.until, filter.last].iter().any(Option::is_some);
    let is_part = filter.divides_a_gpu();
    let side = |path, run| DiffRun { is_window, is_part, ..side(path, run) };
    let diff = Diff::of(side(&name, &before), side(&other_name, &after));
    let view = DiffView { sections: options.sections.clone(), top: options.top };
    let text = match options.json {
        true => diff.json(),
        false => report::terminal_diff(&diff, &view, &options.style.style(io::stdout())),
    };
    let printed = print(&text)?;
    if options.fail_over.is_some()
        && let Some((what, why)) = loss(&before).or_else(|| loss(&after))
    {
        say(format_args!("{what} ({why}), so --fail-over cannot decide: record it again"));
        return Ok(ExitCode::from(UNREADABLE));
    }
    // What fails early takes less time.
    if options.fail_over.is_some()
        && diff.before.failures.is_empty()
        && let Some(how) = diff.after.failures.first()
    {
        say(format_args!("AFTER failed and BEFORE did not ({how}), so --fail-over cannot decide"));
        return Ok(ExitCode::from(UNREADABLE));
    }
    if options.fail_over.is_some() && !diff.change.is_known() {
        say(format_args!("--fail-over cannot decide: {}", diff.change.text));
        return Ok(ExitCode::from(UNREADABLE));
    }
    if let Some(percent) = options.fail_over
        && let Some(slower) = diff.slower_than(percent)
    {
        say(format_args!("AFTER is slower than --fail-over {percent} allows: {slower}"));
        return Ok(ExitCode::from(OVER_LIMIT));
    }
    Ok(printed)
}

fn side<'a>(path: &'a str, run: &'a Run) -> DiffRun<'a> {
    DiffRun {
        path,
        reports: &run.reports,
        sums: run.sums.as_ref(),
        unread: &run.unread,
        is_window: false,
        is_part: false,
    }
}

/// Checks that there is something to compare: all times of a run without a call are 0, and any other run is slower or faster
/// than that. Of a run that is whole, a filter may well select nothing.
///
/// # Errors
/// Says that the run has no call, and why.
fn check_calls(path: &Path, run: &Run, is_everything: bool) -> Result<(), Failure> {
    if !run.all().apis.is_empty() {
        return Ok(());
    }
    let path = path.display();
    let sentence = match (loss(run), is_everything) {
        (Some((_, why)), true) => format!("cannot compare: no call in {path} can be read ({why})"),
        (Some((_, why)), false) => {
            format!("cannot compare: no call that the filters select can be read in {path} ({why})")
        }
        (None, true) => format!("cannot compare: {path} has no call of CUDA"),
        (None, false) => return Ok(()),
    };
    Err(Failure { code: UNREADABLE, sentence })
}

/// Returns which trace of a run is not whole (`app.gspy is cut`), and why; `None` if all are.
fn loss(run: &Run) -> Option<(String, String)> {
    let unread =
        run.unread.iter().map(|unread| (format!("{} cannot be read", unread.path), unread.why.clone()));
    let damaged = run.reports.iter().filter_map(|report| {
        let (what, why) = described(&report.process.damage).into_iter().next()?;
        Some((format!("{} is {what}", report.process.damaged), why))
    });
    unread.chain(damaged).next()
}

/// Parses a percentage; the error is the end of a sentence.
fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim().trim_end_matches('%').trim_end().parse::<f64>().ok();
    let valid = number.filter(|percent| percent.is_finite() && *percent >= 0.0);
    valid.ok_or_else(|| "a percentage of 0 or more is needed, as in 5 or 2.5".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_a_percentage_of_at_least_0() {
        assert_eq!([percent("5"), percent("2.5 %"), percent("0%")], [Ok(5.0), Ok(2.5), Ok(0.0)]);
        for text in ["", "-1", "NaN", "inf", "5x", "%"] {
            assert!(percent(text).unwrap_err().contains("as in 5"), "{text}");
        }
    }
}
