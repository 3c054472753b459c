//! What to change: each finding with its evidence, why it costs time, the remedy, what that gains, and how to check it.

use super::Run;
use super::screen::Screen;
use crate::report::rows::findings::Finding;
use crate::report::rows::numbers::Estimate;
use crate::report::text::{Text, Tone, dim};
use crate::report::units::{duration, percent, plural};

/// The column at which the lines of a finding start, after their labels.
const INDENT: usize = 11;

/// Draws the section.
pub fn findings(screen: &mut Screen<'_>, run: &Run<'_>) {
    let (findings, wall) = (&run.rows.findings, run.rows.identity.wall_ns);
    if findings.is_empty() && !screen.view.is_selected() {
        return;
    }
    if findings.is_empty() {
        let sentence = match &run.rows.verdict.is_unsafe {
            Some(why) => format!("none; no verdict is safe: {why}"),
            None => format!("none of the known faults, in {} of wall time", duration(wall)),
        };
        return screen.section("Findings", sentence);
    }
    let gains = findings.iter().fold(0u64, |sum, finding| sum.saturating_add(finding.saves_ns.value));
    let mut sentence = plural(findings.len() as u64, "fault", "faults");
    if gains > 0 {
        let cost = if findings.len() == 1 { "it costs" } else { "together they cost" };
        sentence += &format!("; {cost} {} of {} ({})", duration(gains), duration(wall), percent(gains, wall));
    }
    screen.section("Findings", sentence);
    let shown = screen.view.rows(findings.len());
    for (at, finding) in findings.iter().take(shown).enumerate() {
        draw(screen, at + 1, finding, wall);
    }
}

fn draw(screen: &mut Screen<'_>, number: usize, finding: &Finding, wall: u64) {
    screen.push([Text::default()]);
    let title = Text::toned(Tone::Title, &finding.title);
    screen.titled(&format!("{number:>3}"), 4, title.then(dim(format!("  ({})", finding.id))));
    let evidence = &finding.evidence;
    let mut found = evidence.text.clone();
    if let Some(first) = evidence.first_ns {
        found.push_str(&format!(" (first at {})", duration(first)));
    }
    labelled(screen, "found", found);
    if let Some(line) = &evidence.line {
        let function = evidence.function.as_deref().map_or_else(String::new, |name| format!(" in {name}"));
        labelled(screen, "line", Text::toned(Tone::Title, line).then(function));
    }
    labelled(screen, "why", &finding.explanation);
    labelled(screen, "fix", &finding.fix);
    let gain = match finding.saves_ns {
        Estimate { value: 0, .. } => Text::from(&finding.gain),
        Estimate { value, lo, hi, .. } => {
            let most = if lo == 0 { hi } else { value };
            Text::toned(Tone::Waste, &finding.gain)
                .then(format!(", {} of the wall time", percent(most, wall)))
        }
    };
    labelled(screen, "gain", gain);
    labelled(screen, "check", &finding.verify_shown);
}

fn labelled(screen: &mut Screen<'_>, label: &str, text: impl Into<Text>) {
    screen.titled(&format!("    {label}"), INDENT, text);
}
