//! The wall time as a line: what the GPU did when.

use super::Run;
use crate::analyze::bins::Bins;
use crate::analyze::identity::{Class, PARTS, Part as Of};
use crate::report::chart::{Part, bar};
use crate::report::rows::identity::Identity;
use crate::report::text::{Text, Tone};

/// How each part of a GPU's time is drawn.
fn look(part: Of) -> Part {
    let (glyph, tone) = match part {
        Of::Busy(Class::Compute) => (['█', '#'], Tone::Work),
        Of::Busy(Class::Graph) => (['▓', '='], Tone::Work),
        Of::Busy(Class::Communication) => (['▞', '%'], Tone::Move),
        Of::Busy(Class::Copy) => (['▒', '+'], Tone::Move),
        Of::Unobserved => (['╌', '~'], Tone::Dim),
        Of::Undecided => (['?', '?'], Tone::Dim),
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
    /// How it is drawn, and its length in ns.
    pub bar: Part,
}

/// Returns the parts of the wall time, in the order of the screen.
pub fn parts(identity: &Identity) -> Vec<Named> {
    let named = |name, part: Part, value| Named { name, bar: Part { value, ..part } };
    let busy = |class| look(Of::Busy(class));
    vec![
        named("start-up", OUTSIDE, identity.start_up_ns),
        named("compute", busy(Class::Compute), identity.compute_ns),
        named("graphs", busy(Class::Graph), identity.graph_ns),
        named("comm.", busy(Class::Communication), identity.exposed_comm_ns),
        named("copies", busy(Class::Copy), identity.exposed_copy_ns),
        named("idle", look(Of::Idle), identity.idle_ns),
        named("undecided", look(Of::Undecided), identity.undecided_ns),
        named("tail", OUTSIDE, identity.tail_ns),
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
            let columns = (0..width as u64).map(|at| {
                let edge = |at: u64| scaled(identity.wall_ns, at, width as u64);
                column(bins, identity.start_up_ns, span, (edge(at), edge(at + 1)), &mut owed)
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

fn scaled(ns: u64, part: u64, parts: u64) -> u64 {
    (u128::from(ns) * u128::from(part) / u128::from(parts.max(1))) as u64
}

/// The time of each part, and of none (the last), that no column has shown so far, ns.
type Owed = [i64; PARTS + 1];

/// Returns what a column shows that is from one moment of the wall time to another.
fn column(bins: &Bins, start_up: u64, span: u64, (from, to): (u64, u64), owed: &mut Owed) -> Part {
    let in_span = |at: u64| at.saturating_sub(start_up).min(span);
    let (first, last) = (in_span(from), in_span(to.max(from + 1)));
    let mut here = [0u64; PARTS + 1];
    here[..PARTS].copy_from_slice(&bins.between(first, last));
    here[PARTS] = (to - from).saturating_sub(last - first);
    // Time that was not observed is shown where nothing else was.
    let unobserved = std::mem::take(&mut here[Of::Unobserved.index()]);
    let all = here.iter().sum::<u64>();
    if all == 0 {
        return if unobserved > 0 { look(Of::Unobserved) } else { OUTSIDE };
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

    #[test]
    fn a_column_shows_what_took_most_of_its_time() {
        let mut bins = Bins::default();
        let compute = Of::Busy(Class::Compute);
        for (part, ns) in [(compute, 20_480), (Of::Idle, 20_480), (Of::Unobserved, 20_480), (compute, 1_024)]
        {
            bins.pass(part, ns);
        }
        let (start_up, span) = (10_240, 62_464);
        let line = |length: u64| -> String {
            let edges = (0..90_000 / length).map(|at| (at * length, (at + 1) * length));
            let mut owed = Owed::default();
            edges.map(|edges| column(&bins, start_up, span, edges, &mut owed).glyph[0]).collect()
        };
        assert_eq!(
            line(10_240),
            "·██░░╌╌·",
            "the last nanoseconds of work are less than the time after them"
        );
        assert_eq!(
            line(1_024),
            format!(
                "{}{}{}{}█{}",
                "·".repeat(10),
                "█".repeat(20),
                "░".repeat(20),
                "╌".repeat(20),
                "·".repeat(16)
            )
        );
        assert_eq!(line(30_000), "█░·", "time that was observed is shown before time that was not");
    }
    #[test]
    fn columns_longer_than_what_they_show_are_as_many_as_its_share() {
        let mut bins = Bins::default();
        for _ in 0..300 {
            bins.pass(Of::Busy(Class::Compute), 1_000);
            bins.pass(Of::Idle, 2_000);
        }
        let mut owed = Owed::default();
        let edges = (0..90).map(|at| (at * 10_000, (at + 1) * 10_000));
        let line: String = edges.map(|edges| column(&bins, 0, 900_000, edges, &mut owed).glyph[0]).collect();
        let compute = line.matches('█').count();
        assert!((29..=31).contains(&compute), "{compute} of 90 columns: {line}");
        assert!(line.starts_with("░█░░█░░█░"), "{line}");
    }
}
