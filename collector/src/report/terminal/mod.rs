//! The screen: what is doubtful first, then what was seen and what not, then where the time went, then the tables.
//!
//! One module per section. A section is a title beside its first sentence, and tables under it.

mod calls;
mod gaps;
mod gpu;
mod graphs;
mod header;
mod kernels;
mod launches;
mod memory;
mod occupancy;
mod ranges;
mod screen;
mod seen;
mod startup;
mod stats;
mod syncs;
mod transfers;

use super::text::{Text, Tone};
use super::view::{Section, Style, View};
use crate::analyze::windows::Timing;
use crate::analyze::{Damage, ProcessReport, Tables, lines};
use screen::Screen;
use std::borrow::Cow;

/// What is drawn.
struct Run<'a> {
    reports: &'a [ProcessReport],
    /// Their sums.
    all: Cow<'a, Tables>,
}

/// Draws a section.
type Draw = fn(&mut Screen<'_>, &Run<'_>);

/// The report of one process, or of a run of several.
pub fn terminal(reports: &[ProcessReport], view: &View, style: &Style) -> String {
    let run = Run { reports, all: Tables::of_run(reports) };
    let mut screen = Screen::new(view, style, run.filter().is_some());
    header::warnings(&mut screen, &run);
    header::header(&mut screen, &run);
    let nothing = run.nothing();
    if let Some(sentence) = nothing {
        screen.section("Nothing", Text::toned(Tone::Waste, sentence));
    }
    let sections: [(Section, Draw); 13] = [
        (Section::Seen, seen::seen),
        (Section::Gpu, gpu::gpus),
        (Section::Gaps, gaps::gaps),
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
    ];
    for (section, draw) in sections {
        // What was seen is told of an empty trace too: it may say why it is empty.
        if view.shows(section) && (nothing.is_none() || section == Section::Seen) {
            draw(&mut screen, &run);
        }
    }
    screen.text()
}

impl Run<'_> {
    /// A sentence, where there is nothing that could be reported.
    fn nothing(&self) -> Option<&'static str> {
        let all = &self.all;
        let is_empty = all.apis.is_empty()
            && all.kernels.is_empty()
            && all.transfers.is_empty()
            && all.memory.by_kind.values().all(|part| part.allocations == 0 && part.frees == 0)
            && all.graphs.launches == 0
            && all.ranges.is_empty()
            // One kernel may run all the time that is asked for, and have been called before.
            && all.devices.iter().all(|device| device.identity.span == 0);
        is_empty.then(|| match self.filter() {
            Some(_) => "of what the trace holds, nothing is within these limits",
            None if self.reports.iter().any(|report| report.process.damage != Damage::default()) => {
                "what could be read of the trace holds no call; what could not may hold some"
            }
            None if self.reports.iter().all(|report| report.process.captured.is_some()) => self.never_began(),
            None => "the trace holds no call: the program made none, or ended before its first was over",
        })
    }

    /// Why nothing was captured, where only ranges were to be.
    fn never_began(&self) -> &'static str {
        let captured = self.reports.iter().filter_map(|report| report.process.captured.as_ref());
        match captured.clone().next().map(|captured| captured.asked.as_str()) {
            _ if captured.map(|captured| captured.ranges).sum::<u64>() > 0 => {
                "no call was made in the range that was captured"
            }
            Some("profiler-api") => {
                "the range never began: the program called neither cudaProfilerStart nor cuProfilerStart"
            }
            Some(asked) if asked.starts_with("nvtx:") => {
                "the range never began: the program opened no NVTX range of this name in this domain (nvtx:NAME@* is of \
                 all domains), or its ranges did not reach gpuspy (NVTX_INJECTION64_PATH)"
            }
            _ => "the range never began: the program had ended before",
        }
    }

    /// What the report is limited to, in words.
    fn filter(&self) -> Option<&str> {
        self.reports.first().map(|report| report.process.filter.as_str()).filter(|filter| !filter.is_empty())
    }

    /// Whether it is known that nothing was to get a GPU time.
    fn timing_is_off(&self) -> bool {
        self.all.duty.timing == Some(Timing::Off)
    }

    /// Host ns that the run took, in the time that is asked for: from the first process's begin to the last one's end. Of
    /// processes on several lines, which nobody can lay beside each other, the longest's.
    fn host_wall(&self) -> u64 {
        lines(self.reports).map(|line| line.looked_ns).max().unwrap_or(0)
    }

    /// The same for every GPU that was used: what all GPUs could have worked.
    fn gpu_wall(&self) -> u64 {
        let used = self.all.devices.iter().filter(|device| device.timelines > 0);
        used.map(|device| device.line.looked_ns).fold(0, u64::saturating_add)
    }
}
