//! The wall time as a line: what the GPU did when.

use super::Run;
use crate::analyze::bins::{Bin, Bins};
use crate::analyze::identity::{Class, PARTS, Part as Of};
use crate::report::chart::{Part, bar};
use crate::report::rows::identity::Identity;
use crate::report::rows::numbers::Estimate;
use crate::report::text::{Text, Tone};

/// How each part of a GPU's time is drawn.
fn look(part: Of) -> Part {
    let (glyph, tone) = match part {
        Of::Busy(Class::Compute) => (['█', '#'], Tone::Work),
        Of::Busy(Class::Graph) => (['▓', '='], Tone::Work),
        Of::Busy(Class::Communication) => (['▞', '%'], Tone::Move),
        Of::Busy(Class::Copy) => (['▒', '+'], Tone::Move),
        // The figures have what cannot be estimated of the time that was not observed among what is undecided.
        Of::Unobserved | Of::Undecided => (['?', '?'], Tone::Dim),
        Of::Idle => (['░', '.'], Tone::Waste),
    };
    Part { value: 0, glyph, tone }
}

/// How the time before the first operation and after the last one is drawn.
const OUTSIDE: Part = Part { value: 0, glyph: ['·', '-'], tone: Tone::Dim };

/// A part of the wall time.
pub struct Named {
    /// What it is called.
    pub name: &'static str,
    /// How long it was.
    pub time: Estimate,
    /// How it is drawn, and its length in ns.
    pub bar: Part,
}

/// Returns the parts of the wall time, in the order of the screen.
pub fn parts(identity: &Identity) -> Vec<Named> {
    let named =
        |name, part: Part, time: Estimate| Named { name, time, bar: Part { value: time.value, ..part } };
    let busy = |class| look(Of::Busy(class));
    let of = &identity.estimates;
    vec![
        named("start-up", OUTSIDE, Estimate::exactly(identity.start_up_ns)),
        named("compute", busy(Class::Compute), of.compute_ns),
        named("graphs", busy(Class::Graph), of.graph_ns),
        named("comm.", busy(Class::Communication), of.exposed_comm_ns),
        named("copies", busy(Class::Copy), of.exposed_copy_ns),
        named("idle", look(Of::Idle), of.idle_ns),
        named("undecided", look(Of::Undecided), of.undecided_ns),
        named("tail", OUTSIDE, Estimate::exactly(identity.tail_ns)),
    ]
}

/// Draws the wall time from left to right. Each column shows what took most of its time and of the columns before it that
/// show something else, so that the columns of a part are about as many as its share of the wall time.
pub fn drawn(run: &Run<'_>, width: usize, ascii: bool) -> Text {
    let identity = &run.rows.identity;
    let device = identity.device.and_then(|at| run.all.devices.get(at));
    let span = identity.wall_ns - identity.start_up_ns - identity.tail_ns;
    match device.map(|device| &device.bins).filter(|bins| !bins.bins().is_empty()) {
        Some(bins) => {
            let mut owed = Owed::default();
            let drawn = Drawn::of(bins, figures(identity));
            let columns = (0..width as u64).map(|at| {
                let edge = |at: u64| scaled(identity.wall_ns, at, width as u64);
                column(&drawn, identity.start_up_ns, span, (edge(at), edge(at + 1)), &mut owed)
            });
            columns.fold(Text::default(), |line, part| {
                line.then(Text::toned(part.tone, part.drawn(ascii).to_string()))
            })
        }
        // Several timelines were added: only their sums are known.
        None => {
            let parts: Vec<Part> = parts(identity).iter().map(|part| part.bar).collect();
            bar(&parts, width, ascii)
        }
    }
}

/// Returns how much of the GPU's span each part has, ns.
fn figures(identity: &Identity) -> Bin {
    let mut figures = [0; PARTS];
    for (part, ns) in [
        (Of::Busy(Class::Compute), identity.compute_ns),
        (Of::Busy(Class::Graph), identity.graph_ns),
        (Of::Busy(Class::Communication), identity.exposed_comm_ns),
        (Of::Busy(Class::Copy), identity.exposed_copy_ns),
        (Of::Undecided, identity.undecided_ns),
        (Of::Idle, identity.idle_ns),
    ] {
        figures[part.index()] = ns;
    }
    figures
}

/// What is drawn of a GPU's span: what was observed when, as long in all as the figures say. Of a part that was observed for
/// longer than its figure, as the time in which nothing was timed, the rest is drawn as the parts whose figures are longer.
struct Drawn<'b> {
    bins: &'b Bins,
    observed: Bin,
    figures: Bin,
}

impl<'b> Drawn<'b> {
    fn of(bins: &'b Bins, figures: Bin) -> Drawn<'b> {
        let observed = std::array::from_fn(|part| {
            bins.bins().iter().fold(0u64, |sum, bin| sum.saturating_add(bin[part]))
        });
        Drawn { bins, observed, figures }
    }

    /// Returns how much of each part is drawn between two moments, ns from the start of the span.
    fn between(&self, from: u64, to: u64) -> Bin {
        let here = self.bins.between(from, to);
        let (observed, figures) = (&self.observed, &self.figures);
        let mut drawn: Bin =
            std::array::from_fn(|part| scaled(here[part], figures[part].min(observed[part]), observed[part]));
        let sum = |parts: &Bin| parts.iter().fold(0u64, |sum, ns| sum.saturating_add(*ns));
        let missing: Bin = std::array::from_fn(|part| figures[part].saturating_sub(observed[part]));
        let rest = sum(&here) - sum(&drawn);
        for (drawn, missing_here) in drawn.iter_mut().zip(missing) {
            *drawn += scaled(rest, missing_here, sum(&missing));
        }
        drawn
    }
}

fn scaled(ns: u64, part: u64, parts: u64) -> u64 {
    (u128::from(ns) * u128::from(part) / u128::from(parts.max(1))) as u64
}

/// The time of each part, and of none (the last), that no column has shown so far, ns.
type Owed = [i64; PARTS + 1];

/// Returns what a column shows that is from one moment of the wall time to another.
fn column(drawn: &Drawn<'_>, start_up: u64, span: u64, (from, to): (u64, u64), owed: &mut Owed) -> Part {
    let in_span = |at: u64| at.saturating_sub(start_up).min(span);
    let (first, last) = (in_span(from), in_span(to.max(from + 1)));
    let mut here = [0u64; PARTS + 1];
    here[..PARTS].copy_from_slice(&drawn.between(first, last));
    here[PARTS] = (to - from).saturating_sub(last - first);
    let all = here.iter().sum::<u64>();
    if all == 0 {
        return OUTSIDE;
    }
    let mut shown = None;
    for (at, ns) in here.into_iter().enumerate().filter(|(_, ns)| *ns > 0) {
        owed[at] += scaled(to - from, ns, all) as i64;
        // Of equal parts, the first in the order of precedence is shown.
        if shown.is_none_or(|shown: usize| owed[at] > owed[shown]) {
            shown = Some(at);
        }
    }
    let shown = shown.unwrap_or(PARTS);
    owed[shown] -= (to - from) as i64;
    Of::ALL.into_iter().find(|part| part.index() == shown).map_or(OUTSIDE, look)
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMPUTE: Of = Of::Busy(Class::Compute);

    /// Draws columns of equal length, up to a moment of the wall time.
    fn line(bins: &Bins, figures: &[(Of, u64)], start_up: u64, until: u64, length: u64) -> String {
        let mut sums = [0; PARTS];
        figures.iter().for_each(|(part, ns)| sums[part.index()] += ns);
        let (drawn, mut owed) = (Drawn::of(bins, sums), Owed::default());
        let edges = (0..until / length).map(|at| (at * length, (at + 1) * length));
        edges.map(|edges| column(&drawn, start_up, sums.iter().sum(), edges, &mut owed).glyph[0]).collect()
    }

    #[test]
    fn a_column_shows_what_took_most_of_its_time() {
        let mut bins = Bins::default();
        let parts = [(COMPUTE, 20_480), (Of::Idle, 20_480), (Of::Undecided, 20_480), (COMPUTE, 1_024)];
        parts.iter().for_each(|(part, ns)| bins.pass(*part, *ns));
        let line = |length| line(&bins, &parts, 10_240, 90_000, length);
        assert_eq!(
            line(10_240),
            "·██░░??·",
            "the last nanoseconds of work are less than the time after them"
        );
        assert_eq!(
            line(1_024),
            format!(
                "{}{}{}{}█{}",
                "·".repeat(10),
                "█".repeat(20),
                "░".repeat(20),
                "?".repeat(20),
                "·".repeat(16)
            )
        );
    }

    #[test]
    fn columns_longer_than_what_they_show_are_as_many_as_its_share() {
        let mut bins = Bins::default();
        for _ in 0..300 {
            bins.pass(COMPUTE, 1_000);
            bins.pass(Of::Idle, 2_000);
        }
        let line = line(&bins, &[(COMPUTE, 300_000), (Of::Idle, 600_000)], 0, 900_000, 10_000);
        let compute = line.matches('█').count();
        assert!((29..=31).contains(&compute), "{compute} of 90 columns: {line}");
        assert!(line.starts_with("░█░░█░░█░"), "{line}");
    }

    /// In sampling pauses, a certain idle moment of each step filled whole columns: the picture was idle where the figures were not.
    #[test]
    fn the_time_that_was_not_observed_is_drawn_as_the_figures_divide_it() {
        let mut bins = Bins::default();
        (0..100).for_each(|_| {
            bins.pass(COMPUTE, 800);
            bins.pass(Of::Idle, 200);
        });
        (0..400).for_each(|_| {
            bins.pass(Of::Unobserved, 990);
            bins.pass(Of::Idle, 10);
        });
        let figures = [(COMPUTE, 400_000), (Of::Idle, 90_000), (Of::Undecided, 10_000)];
        let line = line(&bins, &figures, 0, 500_000, 5_000);
        let columns = |glyph| line.matches(glyph).count();
        assert!(columns('█').abs_diff(80) <= 1 && columns('░').abs_diff(18) <= 1, "{line}");
        assert!(columns('?').abs_diff(2) <= 1 && line.ends_with(['█', '░']), "{line}");
    }

    /// The figures have less compute than was observed where the host stalls within a run of launches.
    #[test]
    fn a_part_that_was_observed_for_longer_than_its_figure_is_drawn_as_long_as_the_figure() {
        let mut bins = Bins::default();
        bins.pass(COMPUTE, 102_400);
        let line = line(&bins, &[(COMPUTE, 76_800), (Of::Idle, 25_600)], 0, 102_400, 1_024);
        assert_eq!((line.matches('█').count(), line.matches('░').count()), (75, 25), "{line}");
    }
}
