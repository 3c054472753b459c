//! The terminal report: warnings first, then the [`overview`] on one screen, or the selected sections.
//!
//! Each section has a module. A section is a title next to its first sentence, with tables below.

mod calls;
mod coverage;
mod diff;
mod findings;
mod gaps;
mod gpu;
mod graphs;
mod hangs;
mod header;
mod idle;
mod kernels;
mod launches;
mod memory;
mod occupancy;
mod overview;
mod ranges;
mod ranks;
mod screen;
mod source_lines;
mod startup;
mod stats;
mod steps;
mod syncs;
mod timeline;
mod transfers;

use super::rows::Report;
use super::text::{Text, Tone};
use super::view::{Section, Style, Unread, View};
use crate::analyze::windows::Timing;
use crate::analyze::{self, Damage, ProcessReport, Tables, lines};
pub use diff::diff as terminal_diff;
use screen::Screen;
use serde::Serialize;
use std::borrow::Cow;

/// What shares of the wall time are called.
const OF_WALL: &str = "of wall";
/// What shares of the wall time of each of several GPUs, added, are called.
const OF_GPUS_WALL: &str = "of GPUs' wall";

/// The processes that are reported.
struct Run<'a> {
    reports: &'a [ProcessReport],
    /// The sums over all processes.
    all: Cow<'a, Tables>,
    /// The JSON report's rows, from which the tables take their columns.
    rows: Report,
}

/// A function that draws one section.
type Draw = fn(&mut Screen<'_>, &Run<'_>);

/// Draws the report of one process, or of a run with several processes.
pub fn terminal(reports: &[ProcessReport], view: &View, style: &Style) -> String {
    terminal_of(reports, Tables::of_run(reports), view, style)
}

/// Draws the report of a run whose tables were added before.
pub fn terminal_of(reports: &[ProcessReport], all: Cow<'_, Tables>, view: &View, style: &Style) -> String {
    let rows = Report::of(reports, &all, &view.unread);
    drawn(&Run { reports, all, rows }, view, style)
}

/// What the terminal says of a report itself, a sentence or more each, for another view.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Sentences {
    /// What makes all of it doubtful.
    pub warnings: Vec<String>,
    /// Which ranks of a job did not end well.
    pub endings: Vec<String>,
    /// The program, its GPUs, and which part of the run it is about, without the list of processes.
    pub about: Vec<String>,
    /// How each process ended, in the order of the report's processes.
    pub outcomes: Vec<String>,
    /// Why there is nothing to report.
    pub nothing: Option<&'static str>,
    /// How the ranks of a job compare, which of them did not end well, and what could not be compared.
    pub ranks: Vec<String>,
    /// What was recorded and timed, what was not and why, and what that cost.
    pub coverage: Vec<String>,
}

/// Returns what the terminal says of a report itself.
pub fn sentences(reports: &[ProcessReport], all: Cow<'_, Tables>, unread: &[Unread]) -> Sentences {
    let rows = Report::of(reports, &all, unread);
    let run = Run { reports, all, rows };
    let view = View { sections: vec![Section::Coverage], unread: unread.to_vec(), ..View::default() };
    // Nothing is wrapped.
    let style = Style { width: usize::MAX / 2, color: false, ascii: false, full_names: true };
    let said = |draw: &[Draw]| {
        let mut screen = Screen::new(&view, &style, run.filter().is_some());
        draw.iter().for_each(|draw| draw(&mut screen, &run));
        screen.sentences()
    };
    Sentences {
        warnings: said(&[|screen, run| hangs::hangs(screen, run), header::warnings]),
        endings: said(&[ranks::endings]),
        about: said(&[header::about]),
        outcomes: reports.iter().map(|report| header::outcome(&report.process)).collect(),
        nothing: run.nothing(),
        ranks: said(&[ranks::sentences]),
        coverage: said(&[coverage::coverage]),
    }
}

fn drawn(run: &Run<'_>, view: &View, style: &Style) -> String {
    let mut screen = Screen::new(view, style, run.filter().is_some());
    hangs::hangs(&mut screen, run);
    header::warnings(&mut screen, run);
    let nothing = run.nothing();
    if view.sections.is_empty() && nothing.is_none() {
        overview::overview(&mut screen, run);
        return screen.text();
    }
    header::header(&mut screen, run);
    if let Some(sentence) = nothing {
        screen.section("Nothing", Text::toned(Tone::Waste, sentence));
    }
    let sections: &[(Section, Draw)] = &[
        (Section::Ranks, ranks::ranks),
        (Section::Findings, findings::findings),
        (Section::Coverage, coverage::coverage),
        (Section::Gpu, gpu::gpus),
        (Section::Idle, idle::idle),
        (Section::Gaps, gaps::gaps),
        (Section::Steps, steps::steps),
        (Section::Ranges, ranges::ranges),
        (Section::Kernels, kernels::kernels),
        (Section::Launches, launches::launches),
        (Section::Occupancy, occupancy::occupancy),
        (Section::Graphs, graphs::graphs),
        (Section::Transfers, transfers::transfers),
        (Section::Memory, memory::memory),
        (Section::Startup, startup::startup),
        (Section::Syncs, syncs::syncs),
        (Section::Calls, calls::calls),
        (Section::Lines, source_lines::lines),
    ];
    for &(section, draw) in sections {
        // An empty trace has its coverage section too: it may say why the trace is empty.
        let is_shown = view.shows(section) || (section == Section::Coverage && view.sections.is_empty());
        if is_shown && (nothing.is_none() || section == Section::Coverage) {
            draw(&mut screen, run);
        }
    }
    screen.text()
}

impl Run<'_> {
    /// Whether several traces are about windows of one process's time.
    fn has_windows(&self) -> bool {
        analyze::processes(self.reports).len() < self.reports.len()
    }

    /// Returns a sentence that says why there is nothing to report, if there is nothing.
    fn nothing(&self) -> Option<&'static str> {
        let all = &self.all;
        let is_empty = all.apis.is_empty()
            && all.kernels.is_empty()
            && all.transfers.is_empty()
            && all.memory.by_kind.values().all(|part| part.allocations == 0 && part.frees == 0)
            && all.graphs.launches == 0
            && all.ranges.is_empty()
            // A kernel that was launched before the selected period may run through all of it.
            && all.devices.iter().all(|device| device.identity.span == 0);
        is_empty.then(|| match self.filter() {
            Some(_) => "nothing in the trace matches these filters",
            None if self.reports.iter().any(|report| report.process.damage != Damage::default()) => {
                "the readable part of the trace contains no CUDA call; the unreadable part may contain some"
            }
            None if self.reports.iter().all(|report| report.process.captured.is_some()) => {
                self.never_started()
            }
            None => "the trace contains no CUDA call: the program made none, or ended during its first one",
        })
    }

    /// Returns why nothing was captured, for a run with `--capture-range`.
    fn never_started(&self) -> &'static str {
        let captured = self.reports.iter().filter_map(|report| report.process.captured.as_ref());
        match captured.clone().next().map(|captured| captured.requested.as_str()) {
            _ if captured.map(|captured| captured.ranges).sum::<u64>() > 0 => {
                "no CUDA call was made inside the capture range"
            }
            Some("profiler-api") => {
                "the capture range never started: the program called neither cudaProfilerStart nor cuProfilerStart"
            }
            Some(requested) if requested.starts_with("nvtx:") => {
                "the capture range never started: the program opened no NVTX range of this name in this domain \
                 (nvtx:NAME@* selects all domains), or its ranges did not reach gpuspy (NVTX_INJECTION64_PATH)"
            }
            _ => "the capture range never started: the program ended before",
        }
    }

    /// Returns the filters that limit the report, in words.
    fn filter(&self) -> Option<&str> {
        self.reports.first().map(|report| report.process.filter.as_str()).filter(|filter| !filter.is_empty())
    }

    /// Returns whether the run is known to have had `--timing off`.
    fn timing_is_off(&self) -> bool {
        self.all.duty.timing == Some(Timing::Off)
    }

    /// Returns the host time of the run within the selected period, in ns: from the start of the first process to the end
    /// of the last. Where processes ran on several machines, whose clocks cannot be compared, the longest time counts.
    fn host_wall(&self) -> u64 {
        lines(self.reports).map(|line| line.looked_ns).max().unwrap_or(0)
    }

    /// Returns the sum of that time over all GPUs that were used, in ns: what the time of operations and idle time, which are added
    /// over the GPUs, are shares of.
    fn gpu_wall(&self) -> u64 {
        self.rows.gpu_wall_ns
    }

    /// Returns the number of GPUs that were used.
    fn gpus(&self) -> u64 {
        self.all.devices.iter().filter(|device| device.timelines > 0).count() as u64
    }

    /// Says what shares of [`gpu_wall`](Self::gpu_wall) are of.
    fn of_gpu_wall(&self) -> &'static str {
        if self.gpus() > 1 { OF_GPUS_WALL } else { OF_WALL }
    }
}
