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

/// Draws the wall time from left to right. Each column shows what took most of its time, as far as it was observed.
pub fn drawn(run: &Run<'_>, width: usize, ascii: bool) -> Text {
    let identity = &run.rows.identity;
    let device = identity.device.and_then(|at| run.all.devices.get(at));
    let span = identity.wall_ns - identity.start_up_ns - identity.tail_ns;
    match device.map(|device| &device.bins).filter(|bins| !bins.bins().is_empty()) {
        Some(bins) => {
            let columns = (0..width as u64).map(|at| {
                let edge = |at: u64| scaled(identity.wall_ns, at, width as u64);
                column(bins, identity.start_up_ns, span, (edge(at), edge(at + 1)))
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

/// Returns what a column shows that is from one moment of the wall time to another.
fn column(bins: &Bins, start_up: u64, span: u64, (from, to): (u64, u64)) -> Part {
    let in_span = |at: u64| at.saturating_sub(start_up).min(span);
    let (first, last) = (in_span(from), in_span(to.max(from + 1)));
    let parts: [u64; PARTS] = bins.between(first, last);
    let outside = (to - from).saturating_sub(last - first);
    let of = |part: &Of| parts[part.index()];
    let observed = Of::ALL.into_iter().filter(|part| *part != Of::Unobserved && of(part) > 0);
    // Of equal parts, the first in the order of precedence is shown.
    match observed.rev().max_by_key(of) {
        Some(part) if of(&part) >= outside => look(part),
        None if outside == 0 && of(&Of::Unobserved) > 0 => look(Of::Unobserved),
        _ => OUTSIDE,
    }
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
            edges.map(|edges| column(&bins, start_up, span, edges).glyph[0]).collect()
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
}
