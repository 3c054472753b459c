//! What to look at: for each phase what the diagnosis of its own period says.

use super::phases::Window;
use crate::analyze::{self, Damage, Input};
use crate::diagnose::Diagnosis;
use crate::diagnose::finding::{Finding, WORTH};
use crate::model::filter::Filter;
use crate::model::lost::Lost;
use crate::model::survey::Survey;
use crate::report::units::{duration, percent};
use crate::report::{Style, line};
use crate::trace::{TraceError, TraceReader};
use std::path::Path;

/// The most findings of a phase that are printed.
const MOST: usize = 2;

/// A phase, and the diagnosis of its period.
#[derive(Debug)]
pub(super) struct Picture {
    window: Window,
    /// The period, in ns from the start of the collection.
    since: u64,
    until: u64,
    diagnosis: Diagnosis,
}

/// Diagnoses each window of a trace.
pub(super) fn pictures(trace: &Path, windows: &[Window]) -> Result<Vec<Picture>, TraceError> {
    let mut reader = TraceReader::open(trace)?;
    let mut clocks = Survey::of(reader.records());
    clocks.lost = Lost::of(reader.lost_time());
    let (names, status) = (reader.names().clone(), reader.status().cloned());
    let began = status.as_ref().map_or(0, |status| status.began);
    let picture = |window: &Window| {
        let (since, until) = (window.begin.saturating_sub(began), window.end.saturating_sub(began));
        let filter = Filter { since: Some(since), until: Some(until), ..Filter::default() };
        let report = analyze::process(Input {
            path: trace.display().to_string(),
            names: &names,
            status: status.as_ref(),
            damage: Damage::default(),
            clocks: &clocks,
            filter: &filter,
            records: reader.records(),
        });
        let diagnosis = Diagnosis::of(std::slice::from_ref(&report), &report.tables);
        Picture { window: *window, since, until, diagnosis }
    };
    Ok(windows.iter().map(picture).collect())
}

/// Returns the diagnoses of all phases, in lines that fit.
pub(super) fn text(pictures: &[Picture], style: &Style) -> String {
    let Style { width, ascii, .. } = *style;
    let mut text = "What to look at\n".to_owned();
    for Picture { window, since, until, diagnosis } in pictures {
        let seconds = |ns: u64| format!("{:.3}", ns as f64 / 1e9);
        let name = window.phase.name();
        text.push_str(&format!("\n{name:<16}{} .. {} s\n", seconds(*since), seconds(*until)));
        // The rest of the verdict is about the first finding.
        let bound = diagnosis.verdict.text.first().map_or("", String::as_str);
        wrap(&mut text, "    ", bound, width);
        if diagnosis.findings.is_empty() {
            let share = percent((WORTH * 100.0).round() as u64, 100);
            wrap(&mut text, "    ", &format!("No finding: nothing to gain above {share}."), width);
        }
        for finding in diagnosis.findings.iter().take(MOST) {
            finding_text(&mut text, finding, diagnosis.buckets.wall, width);
        }
    }
    text.lines().map(|text| line(text, ascii) + "\n").collect()
}

fn finding_text(text: &mut String, finding: &Finding, wall: u64, width: usize) {
    let Finding { id, title, evidence, fix, saves, .. } = finding;
    wrap(text, "  - ", &format!("{title} ({})", id.name()), width);
    wrap(text, "    found   ", &evidence.text, width);
    wrap(text, "    fix     ", fix, width);
    let gain = match saves.value {
        0 => finding.gain(),
        _ => format!("{} of {}", finding.gain(), duration(wall)),
    };
    wrap(text, "    gain    ", &gain, width);
}

/// Adds a paragraph. Its first line starts with `head`; the others are indented as far.
fn wrap(text: &mut String, head: &str, paragraph: &str, width: usize) {
    let indent = " ".repeat(head.len());
    let mut line = head.to_owned();
    let mut is_empty = true;
    for word in paragraph.split(' ') {
        if !is_empty && line.chars().count() + 1 + word.chars().count() > width {
            text.push_str(line.trim_end());
            text.push('\n');
            line.clone_from(&indent);
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
        }
        line.push_str(word);
        is_empty = false;
    }
    text.push_str(line.trim_end());
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::super::phases::Phase;
    use super::*;
    use crate::analyze::estimate::Estimate;
    use crate::diagnose::buckets::Buckets;
    use crate::diagnose::finding::{Evidence, Id};
    use crate::diagnose::verdict::Verdict;

    fn picture(phase: Phase, findings: Vec<Finding>) -> Picture {
        let verdict = Verdict { text: vec!["Bound.".to_owned(), "Gain.".to_owned()], ..Verdict::default() };
        let buckets = Buckets { wall: 4_000_000, ..Buckets::default() };
        Picture {
            window: Window { phase, begin: 0, end: 4_000_000 },
            since: 1_500_000,
            until: 5_000_000,
            diagnosis: Diagnosis { buckets, verdict, findings, ..Diagnosis::default() },
        }
    }

    fn finding(id: Id, saves: u64) -> Finding {
        let evidence = Evidence { text: format!("the evidence of {}", id.name()), ..Evidence::default() };
        let (title, explanation, fix) = ("the title".to_owned(), String::new(), "the fix".to_owned());
        Finding { id, title, evidence, explanation, fix, saves: Estimate::exactly(saves) }
    }

    fn wide() -> Style {
        Style { width: 80, ..Style::default() }
    }

    /// Where the report above it was in ASCII, this had the letter µ.
    #[test]
    fn where_the_locale_has_only_ascii_so_has_the_text() {
        let mut one = finding(Id::NoOverlap, 4_000);
        one.evidence.text = "gaps of 17.2 µs".to_owned();
        let text = text(&[picture(Phase::Input, vec![one])], &Style { ascii: true, ..wide() });
        assert!(text.is_ascii() && text.contains("gaps of 17.2 us\n"), "{text}");
    }

    #[test]
    fn a_phase_shows_the_first_findings_with_evidence_fix_and_gain() {
        let findings =
            vec![finding(Id::NoOverlap, 1_000_000), finding(Id::PeakMemory, 0), finding(Id::NeverFreed, 0)];
        let text = text(&[picture(Phase::Input, findings)], &wide());
        let expected = "What to look at

input           0.002 .. 0.005 s
    Bound.
  - the title (no-overlap)
    found   the evidence of no-overlap
    fix     the fix
    gain    saves 1.00 ms of 4.00 ms
  - the title (peak-memory)
    found   the evidence of peak-memory
    fix     the fix
    gain    costs memory
";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_phase_without_findings_says_so() {
        let pictures = Phase::ALL.map(|phase| picture(phase, Vec::new()));
        let text = text(&pictures, &wide());
        for phase in Phase::ALL {
            let name = phase.name();
            let expected = format!(
                "\n\n{name:<16}0.002 .. 0.005 s\n    Bound.\n    No finding: nothing to gain above 1.0 %.\n"
            );
            assert!(text.contains(&expected), "{text}");
        }
    }

    #[test]
    fn paragraphs_are_wrapped_between_words() {
        for (width, expected) in [
            (11, "  a one two\n    three\n    indivisible\n"),
            (10, "  a one\n    two\n    three\n    indivisible\n"),
        ] {
            let mut text = String::new();
            wrap(&mut text, "  a ", "one two three indivisible", width);
            assert_eq!(text, expected, "{width}");
        }
    }
}
