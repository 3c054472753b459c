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
            .none("Lines", "no line is known: only those of Python programs are read, unless --stacks off");
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
    let inside = folder(&known);
    let mut rows: Vec<(String, &SourceLine)> =
        lines.iter().map(|line| (named(line, &inside), line)).collect();
    screen.view.sort.apply(&mut rows, |(name, line)| Keys {
        total: Some(line.cost()),
        count: calls(line),
        name,
        ..Keys::default()
    });
    let shown = screen.view.rows(ROWS).min(rows.len());
    screen.table(&table(&rows[..shown], calls), rows.len() - shown, "lines");
    if !inside.is_empty() {
        screen.remark(&format!("files in {inside}"));
    }
    if lines.iter().any(|line| line.timed < line.operations) {
        screen.remark("GPU time is of timed operations only");
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
            if line.timed == 0 { dim(NONE) } else { about(line.gpu_ns).into() },
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

/// Returns the folder that all files are in, with the slash at its end; empty if there is none but the root.
fn folder(lines: &[&SourceLine]) -> String {
    let mut files =
        lines.iter().filter_map(|line| line.file.as_deref()).filter(|file| !file.starts_with('<'));
    let Some(first) = files.next() else { return String::new() };
    let parent = |path: &str| path.rfind('/').map_or(0, |slash| slash + 1);
    let mut common = &first[..parent(first)];
    for file in files {
        while !file.starts_with(common) {
            common = &common[..parent(&common[..common.len() - 1])];
        }
    }
    if common == "/" { String::new() } else { common.to_owned() }
}

fn named(line: &SourceLine, inside: &str) -> String {
    let Some(file) = &line.file else { return "(no line)".to_owned() };
    let file = file.strip_prefix(inside).unwrap_or(file);
    let number = line.line.map_or_else(|| "?".to_owned(), |line| line.to_string());
    format!("{file}:{number} {}", line.function.as_deref().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyze::source_lines::LineUse;
    use crate::model::stacks::Frame;
    use std::collections::BTreeMap;

    fn rows(files: &[&str]) -> Vec<SourceLine> {
        let frame = |file: &&str| Frame { file: (*file).to_owned(), line: 3, function: "step".to_owned() };
        let lines = files.iter().map(|file| (Some(frame(file)), LineUse::default()));
        SourceLine::all(&BTreeMap::from_iter(lines))
    }

    #[test]
    fn files_are_named_without_the_folder_that_all_are_in() {
        for (files, expected) in [
            (&["/home/ann/a/train.py", "/home/ann/b/x.py"][..], "/home/ann/"),
            (&["/home/ann/train.py"], "/home/ann/"),
            (&["/home/train.py", "/opt/x.py"], ""),
            (&["train.py", "/opt/x.py"], ""),
            (&["<stdin>", "/opt/x.py"], "/opt/"),
            (&["<stdin>"], ""),
        ] {
            let rows = rows(files);
            assert_eq!(folder(&rows.iter().collect::<Vec<_>>()), expected, "{files:?}");
        }
        assert_eq!(named(&rows(&["/opt/x/y.py"])[0], "/opt/"), "x/y.py:3 step");
    }
}
