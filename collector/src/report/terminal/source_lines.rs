//! The lines of the program, by what they cause.

use super::Run;
use super::screen::{NONE, Screen, about, number};
use crate::report::names::cut;
use crate::report::rows::source_lines::SourceLine;
use crate::report::table::{Table, names, right};
use crate::report::text::{Text, dim};
use crate::report::units::{bytes, duration, percent, plural};
use crate::report::view::Keys;

/// Rows that the section shows among all sections.
const ROWS: usize = 10;

/// Draws the section.
pub fn lines(screen: &mut Screen<'_>, run: &Run<'_>) {
    let lines = &run.rows.lines;
    if lines.is_empty() {
        return screen
            .none("Lines", "no line is known: neither of Python, nor of the files that the calls came from");
    }
    let calls = |line: &SourceLine| line.calls.values().sum::<u64>();
    let all = lines.iter().map(calls).sum::<u64>();
    let known: Vec<&SourceLine> = lines.iter().filter(|line| line.file.is_some()).collect();
    let of_lines = known.iter().map(|line| calls(line)).sum::<u64>();
    screen.section(
        "Lines",
        format!(
            "{} of the program made {} of {}",
            plural(known.len() as u64, "line", "lines"),
            percent(of_lines, all),
            plural(all, "call", "calls")
        ),
    );
    let mut rows: Vec<(String, &SourceLine)> = lines.iter().map(|line| (named(line, lines), line)).collect();
    screen.view.sort.apply(&mut rows, |(name, line)| Keys {
        total: Some(line.cost()),
        count: calls(line),
        name,
        ..Keys::default()
    });
    let shown = screen.view.rows(ROWS).min(rows.len());
    screen.table(&table(&rows[..shown], calls), rows.len() - shown, "lines");
    if lines.iter().any(|line| line.operations > 0 && line.gpu_ns.value == 0) {
        screen.remark("GPU time is without operations of which none like them was timed");
    }
}

fn table(rows: &[(String, &SourceLine)], calls: impl Fn(&SourceLine) -> u64) -> Table {
    let mut table = Table::new(&[
        right("GPU time"),
        right("idle"),
        right("waits"),
        right("moved").or_drop(2),
        right("allocated").or_drop(1),
        right("launches").or_drop(3),
        right("calls").or_drop(4),
        names("line", cut),
    ]);
    let unless_none = |amount: u64, text: fn(u64) -> String| match amount {
        0 => dim(NONE),
        amount => text(amount).into(),
    };
    for (name, line) in rows {
        table.row([
            if line.gpu_ns.value == 0 { dim(NONE) } else { about(line.gpu_ns).into() },
            unless_none(line.idle_ns, duration),
            unless_none(line.wait_ns, duration),
            unless_none(line.bytes, bytes),
            unless_none(line.allocated_bytes, bytes),
            number(line.launches),
            number(calls(line)),
            Text::from(name),
        ]);
    }
    table
}

/// Names a line among all: with the file's folder only where files of several folders have the same name.
fn named(line: &SourceLine, all: &[SourceLine]) -> String {
    let Some(file) = &line.file else { return "(no line)".to_owned() };
    if let (Some(library), None) = (&line.library, line.line) {
        let library = library.rsplit('/').next().unwrap_or(library);
        return format!("{} in {library}", line.function.as_deref().unwrap_or_default());
    }
    let name = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
    let mut others = all.iter().filter_map(|other| other.file.as_deref()).filter(|other| other != file);
    let short = if others.any(|other| name(other) == name(file)) { file.clone() } else { name(file) };
    let number = line.line.map_or_else(|| "?".to_owned(), |line| line.to_string());
    format!("{short}:{number} {}", line.function.as_deref().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyze::source_lines::LineUse;
    use crate::model::stacks::Frame;
    use std::collections::BTreeMap;

    fn rows(files: &[&str]) -> Vec<SourceLine> {
        let frame = |file: &&str| Frame {
            file: (*file).to_owned(),
            line: 3,
            function: "step".to_owned(),
            ..Frame::default()
        };
        let lines = files.iter().map(|file| (Some(frame(file)), LineUse::default()));
        SourceLine::all(&BTreeMap::from_iter(lines))
    }

    #[test]
    fn files_are_named_without_their_folders_unless_two_have_the_same_name() {
        let rows = rows(&["/home/ann/train.py", "/home/ann/a/x.py", "/opt/x.py", "<stdin>"]);
        let mut shown: Vec<String> = rows.iter().map(|row| named(row, &rows)).collect();
        shown.sort();
        assert_eq!(
            shown,
            ["/home/ann/a/x.py:3 step", "/opt/x.py:3 step", "<stdin>:3 step", "train.py:3 step"]
        );
    }
}
