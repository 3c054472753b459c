//! The comparison of two runs on the screen: the change in one sentence first, then what makes it doubtful, then tables.

mod cells;
mod tables;

use super::screen::Screen;
use crate::report::diff::Diff;
use crate::report::diff::change::Verdict;
use crate::report::diff::circumstances::Side;
use crate::report::diff::parts::Per;
use crate::report::names::plain;
use crate::report::text::{Text, Tone, dim};
use crate::report::units::{count, duration, percent, plural};
use crate::report::view::{DiffSection, DiffView, Style, View};
use cells::DOUBTFUL;

/// The column at which the text next to the titles of the two runs starts.
const INDENT: usize = 8;

/// A comparison that is being drawn.
struct Drawn<'a> {
    screen: Screen<'a>,
    view: &'a DiffView,
    diff: &'a Diff,
}

/// A function that draws one section.
type Draw = fn(&mut Drawn<'_>);

/// Draws the comparison of two runs.
pub fn diff(diff: &Diff, view: &DiffView, style: &Style) -> String {
    let whole = View::default();
    let mut drawn = Drawn { screen: Screen::new(&whole, style, false), view, diff };
    drawn.head();
    let sections: [(DiffSection, Draw); 9] = [
        (DiffSection::Findings, tables::findings),
        (DiffSection::Steps, tables::steps),
        (DiffSection::Wall, tables::wall),
        (DiffSection::Idle, tables::idle),
        (DiffSection::Ranges, tables::ranges),
        (DiffSection::Kernels, tables::kernels),
        (DiffSection::Transfers, tables::transfers),
        (DiffSection::Syncs, tables::syncs),
        (DiffSection::Memory, tables::memory),
    ];
    for (section, draw) in sections {
        if view.sections.is_empty() || view.sections.contains(&section) {
            draw(&mut drawn);
        }
    }
    drawn.legend();
    drawn.screen.text()
}

impl Drawn<'_> {
    fn head(&mut self) {
        for change in [Some(&self.diff.change), self.diff.unseen()].into_iter().flatten() {
            let tone = match change.verdict {
                Verdict::Faster => Tone::Work,
                Verdict::Slower => Tone::Problem,
                Verdict::Noise | Verdict::Same => Tone::Title,
                Verdict::Unknown => Tone::Waste,
            };
            self.screen.line(Text::toned(tone, &change.text));
        }
        for warning in &self.diff.warnings {
            self.screen.line(Text::toned(Tone::Waste, "warning: ").then(warning));
        }
        self.screen.titled("", INDENT, "");
        self.side("before", &self.diff.before);
        self.side("after", &self.diff.after);
    }

    fn side(&mut self, title: &str, side: &Side) {
        let command = side.command.as_deref().unwrap_or("(command unknown)");
        self.screen.titled(title, INDENT, plain(&side.path));
        self.screen.titled("", INDENT, dim(plain(command)));
        let launches = format!(
            "{}, {} timed",
            plural(side.launches, "launch", "launches"),
            percent(side.timed.saturating_add(side.timed_in_runs), side.launches)
        );
        let facts = [
            (side.processes > 1).then(|| plural(side.processes, "process", "processes")),
            (!side.gpus.is_empty()).then(|| side.gpus.join(", ")),
            side.wall_ns.map(duration),
            (side.steps > 0).then(|| plural(side.steps, "step", "steps")),
            Some(launches),
        ];
        let facts: Vec<String> = facts.into_iter().flatten().collect();
        self.screen.titled("", INDENT, dim(facts.join(", ")));
    }

    /// Returns what sums over processes were divided by, if they are of a step: ` per step`.
    fn per(&self) -> &'static str {
        let has_several = |side: &Side| side.all_steps > side.steps;
        match self.diff.per {
            Per::Step if has_several(&self.diff.before) || has_several(&self.diff.after) => {
                " per step of a process"
            }
            Per::Step => " per step",
            Per::Run => "",
        }
    }

    /// Returns how many of the rows of a table are shown; `few` is the limit of the overview.
    fn shown(&self, rows: usize, few: usize) -> usize {
        self.view.top.unwrap_or(if self.is_overview() { few } else { usize::MAX }).min(rows)
    }

    fn is_overview(&self) -> bool {
        self.view.sections.is_empty()
    }

    /// Says how many rows are not shown.
    fn hidden(&mut self, rows: usize, section: &str) {
        if rows > 0 {
            let option = if self.is_overview() && self.view.top.is_none() {
                format!(": --section {section}")
            } else {
                String::new()
            };
            self.screen.remark(&format!("and {} more{option}", count(rows as u64)));
        }
    }

    fn legend(&mut self) {
        if self.screen.has(DOUBTFUL) {
            let meaning =
                "marks a change that is smaller than what both figures may be wrong by (bounds in --json)";
            self.screen.titled("", 0, "");
            self.screen.line(dim(format!("{DOUBTFUL} {meaning}")));
        }
    }
}
