//! The rows of line tables, and the files that they name.

use super::{Clock, Slice, SourcePlace};
use crate::symbols::elf::Elf;
use gimli::{AttributeValue, Dwarf, Unit};

/// The longest path of a file.
const LONGEST_PATH: usize = 4096;

/// Returns the file's number and the line of each address of a unit, which are sorted.
pub(super) fn rows(
    elf: &Elf,
    unit: &Unit<Slice<'_>>,
    addresses: &[u64],
    clock: &Clock,
) -> Vec<Option<(u64, u32)>> {
    let mut found = vec![None; addresses.len()];
    // What was found before a damaged row, or before the time was over, is true all the same.
    let _ = find(elf, unit, addresses, clock, &mut found);
    found
}

fn find(
    elf: &Elf,
    unit: &Unit<Slice<'_>>,
    addresses: &[u64],
    clock: &Clock,
    found: &mut [Option<(u64, u32)>],
) -> Option<()> {
    let mut rows = unit.line_program.clone()?.rows();
    // The row before: its address, its file and its line; `None` at the start of a sequence.
    let mut before: Option<(u64, u64, u32)> = None;
    let mut is_code = false;
    while let Some((_, row)) = rows.next_row().ok()? {
        clock.step()?;
        let address = row.address();
        match before {
            None => is_code = elf.is_code(address),
            Some((from, file, line)) if is_code => {
                let first = addresses.partition_point(|wanted| *wanted < from);
                let count = addresses[first..].partition_point(|wanted| *wanted < address);
                for found in &mut found[first..first + count] {
                    clock.step()?;
                    found.get_or_insert((file, line));
                }
            }
            Some(_) => {}
        }
        // A compiler gives line 0 to code that no line of the source stands for.
        let line = row.line().and_then(|line| u32::try_from(line.get()).ok()).unwrap_or(0);
        before = (!row.end_sequence()).then_some((address, row.file_index(), line));
    }
    Some(())
}

/// Returns a file with its folder, by its number in the unit, and the line.
pub(super) fn place(
    dwarf: &Dwarf<Slice<'_>>,
    unit: &Unit<Slice<'_>>,
    (file, line): (u64, u32),
) -> Option<SourcePlace> {
    if line == 0 {
        return None;
    }
    let header = unit.line_program.as_ref()?.header();
    let file = header.file(file)?;
    let text = |value: AttributeValue<Slice<'_>>| {
        let text = dwarf.attr_string(unit, value).ok()?;
        (text.len() <= LONGEST_PATH).then(|| text.to_string_lossy().into_owned())
    };
    let name = text(file.path_name())?;
    let folder = file.directory(header).and_then(text).unwrap_or_default();
    let compiled_in = unit.comp_dir.filter(|dir| dir.len() <= LONGEST_PATH);
    let compiled_in = compiled_in.map(|dir| dir.to_string_lossy().into_owned()).unwrap_or_default();
    let file = joined(&[&compiled_in, &folder, &name]);
    (!file.is_empty()).then_some(SourcePlace { file, line })
}

/// Joins the parts of a path, of which each may be a whole path by itself, without `.` and `..`.
fn joined(parts: &[&str]) -> String {
    let whole = parts.iter().rposition(|part| part.starts_with('/'));
    let mut kept: Vec<&str> = Vec::new();
    for part in parts[whole.unwrap_or(0)..].iter().flat_map(|part| part.split('/')) {
        match part {
            "" | "." => {}
            ".." if kept.last().is_some_and(|last| *last != "..") => {
                kept.pop();
            }
            // Above the root is the root.
            ".." if whole.is_some() => {}
            part => kept.push(part),
        }
    }
    let root = if whole.is_some() { "/" } else { "" };
    format!("{root}{}", kept.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_joined_from_the_last_whole_one() {
        for (parts, expected) in [
            (["/home/ann", "src", "main.cpp"], "/home/ann/src/main.cpp"),
            (
                ["/home/ann", "/usr/lib/gcc/12/../../../include/c++/12", "bits/x.h"],
                "/usr/include/c++/12/bits/x.h",
            ),
            (["/home/ann", "../bob/./x", "a.c"], "/home/bob/x/a.c"),
            (["", "", "a.c"], "a.c"),
            (["", "..", "../a.c"], "../../a.c"),
            (["/", "../..", "a.c"], "/a.c"),
            (["/x", "y", "/z//a.c"], "/z/a.c"),
        ] {
            assert_eq!(joined(&parts), expected, "{parts:?}");
        }
    }
}
