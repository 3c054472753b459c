//! What hung, above everything else: a program that hangs was not slow.

use super::Run;
use super::screen::Screen;
use crate::analyze::ProcessReport;
use crate::model::hangs::Hang;
use crate::model::outcome::Outcome;
use crate::report::hangs::sentence;
use crate::report::text::{Text, Tone};
use crate::report::units::plural;
use std::cmp::Reverse;

/// The most hangs that get a line, and the most of a job of which the verdict says why its ranks wait.
const SHOWN: [usize; 2] = [4, 1];

/// Prints what hung: first what never went on, and of that the longest.
pub fn hangs<'a>(screen: &mut Screen<'_>, run: &Run<'a>) {
    let of = |report: &'a ProcessReport| report.process.hangs.iter().map(move |hang| (report, hang));
    let mut all: Vec<(&ProcessReport, &Hang)> = run.reports.iter().flat_map(of).collect();
    all.sort_by_key(|(_, hang)| (hang.is_over, Reverse(hang.age)));
    let most = SHOWN[usize::from(run.rows.compared.stopped.is_some())];
    for (report, hang) in all.iter().take(most) {
        let which = if run.reports.len() > 1 { which(report) } else { String::new() };
        screen.line(title(report, hang).then(format!(" {which}{}.", sentence(hang))));
    }
    if let Some(more @ 1..) = all.len().checked_sub(most) {
        let what = plural(more as u64, "more stream or call", "more streams or calls");
        screen.line(Text::toned(Tone::Problem, format!("{what} hung: see hangs in --json.")));
    }
}

/// Returns whether it hangs, or hung, as the end of the trace knows it.
fn title(report: &ProcessReport, hang: &Hang) -> Text {
    match report.process.outcome {
        _ if hang.is_over => Text::toned(Tone::Waste, "hung for a while:"),
        Some(Outcome::Running | Outcome::CutOff) => Text::toned(Tone::Problem, "hangs:"),
        _ => Text::toned(Tone::Problem, "hung to the end:"),
    }
}

/// Returns `rank 3 (pid 4242): `.
fn which(report: &ProcessReport) -> String {
    let process = &report.process;
    let pid = process.pid.map_or("pid unknown".to_owned(), |pid| format!("pid {pid}"));
    process.job.rank.map_or_else(|| format!("{pid}: "), |rank| format!("rank {rank} ({pid}): "))
}
