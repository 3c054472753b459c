//! Which line is an instruction on? Decodes the line tables of CPython's code objects: of 3.9 (`Objects/lnotab_notes.txt`),
//! of 3.10 (PEP 626) and of 3.11 and later (`Objects/locations.md` in CPython's sources).
//!
//! A table comes from a hostile process: it can contain anything, and every walk over it ends with its last byte.

/// Returns the line of an instruction, by its place in the bytecode (bytes). `None`: it has no line, or the table does not
/// reach it. `python`: the version, `major << 8 | minor`.
pub fn line(python: u16, table: &[u8], first_line: u32, instruction: i32) -> Option<u32> {
    let found = match u32::try_from(instruction) {
        // Before its first instruction, a function is on its first line.
        Err(_) => Some(i64::from(first_line)),
        Ok(instruction) => match python {
            ..=0x0309 => by_differences(table, first_line, instruction),
            0x030a => by_ranges(table, first_line, instruction),
            _ => by_locations(table, first_line, instruction),
        },
    };
    found.and_then(|line| u32::try_from(line).ok()).filter(|line| *line != 0)
}

/// 3.9: pairs of how far the bytecode goes, and how many lines.
fn by_differences(table: &[u8], first_line: u32, instruction: u32) -> Option<i64> {
    let (mut at, mut line) = (0, i64::from(first_line));
    for pair in table.chunks_exact(2) {
        at += u32::from(pair[0]);
        if at > instruction {
            break;
        }
        line += i64::from(pair[1] as i8);
    }
    Some(line)
}

/// 3.10: pairs of a range's length and the difference of its line from the one before; -128: the range has no line.
fn by_ranges(table: &[u8], first_line: u32, instruction: u32) -> Option<i64> {
    let (mut end, mut line) = (0, i64::from(first_line));
    for pair in table.chunks_exact(2) {
        end += u32::from(pair[0]);
        let difference = pair[1] as i8;
        let has_line = difference != i8::MIN;
        line += if has_line { i64::from(difference) } else { 0 };
        if instruction < end {
            return has_line.then_some(line);
        }
    }
    None
}

/// 3.11 and later: entries for ranges of code units (2 bytes). An entry's first byte has the top bit set, a code in the
/// next four, and the length less 1 in the last three; the code says how the line follows.
fn by_locations(table: &[u8], first_line: u32, instruction: u32) -> Option<i64> {
    const NO_LINE: u8 = 15;
    const LONG: u8 = 14;
    const NO_COLUMNS: u8 = 13;
    let (mut end, mut line) = (0u32, i64::from(first_line));
    let mut rest = table;
    while let Some((&first, behind)) = rest.split_first() {
        let next = behind.iter().position(|byte| byte & 0x80 != 0).unwrap_or(behind.len());
        let (body, others) = behind.split_at(next);
        rest = others;
        end = end.saturating_add(2 * (u32::from(first & 7) + 1));
        let code = first >> 3 & 15;
        match code {
            LONG | NO_COLUMNS => line = line.saturating_add(signed(body)),
            10..=12 => line += i64::from(code) - 10,
            _ => {}
        }
        if instruction < end {
            return (code != NO_LINE).then_some(line);
        }
    }
    None
}

/// Reads the signed number at the start: six bits a byte, the lowest first; bit 6 says that more follow. The lowest bit of
/// the number is its sign.
fn signed(bytes: &[u8]) -> i64 {
    let mut number = 0u32;
    for (shift, byte) in (0..).step_by(6).zip(bytes) {
        number |= u32::from(byte & 0x3f).checked_shl(shift).unwrap_or(0);
        if byte & 0x40 == 0 {
            break;
        }
    }
    let size = i64::from(number >> 1);
    if number & 1 == 0 { size } else { -size }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The lines of the instructions of
    ///
    /// ```python
    /// def f(a):
    ///     a = 1
    ///     for i in a:
    ///         g(i,
    ///           2)
    ///     return a
    /// ```
    ///
    /// at line 10: the tables that the versions of CPython made of it (`co_linetable`, in 3.9 `co_lnotab`), and the lines that
    /// their own `co_lines` (in 3.9 `dis.findlinestarts`) gave for the first and the last instruction of each range.
    fn check(python: u16, table: &[u8], expected: &[(i32, Option<u32>)]) {
        for (instruction, wanted) in expected {
            assert_eq!(line(python, table, 10, *instruction), *wanted, "{python:#x} at {instruction}");
        }
    }

    /// The same for 3.9 and 3.10, which compile it alike.
    const LINES_BEFORE_3_11: [(i32, Option<u32>); 11] = [
        (0, Some(11)),
        (2, Some(11)),
        (4, Some(12)),
        (10, Some(12)),
        (12, Some(13)),
        (14, Some(13)),
        (16, Some(14)),
        (18, Some(13)),
        (22, Some(13)),
        (24, Some(15)),
        (26, Some(15)),
    ];

    #[test]
    fn each_version_s_own_lines_are_found() {
        check(0x0309, &[0, 1, 4, 1, 8, 1, 4, 1, 2, 255, 6, 2], &LINES_BEFORE_3_11);
        check(0x030a, &[4, 1, 8, 1, 4, 1, 2, 1, 6, 255, 4, 2], &LINES_BEFORE_3_11);
        check(
            0x030b,
            &[
                128, 0, 216, 8, 9, 128, 65, 216, 13, 14, 240, 0, 2, 5, 13, 240, 0, 2, 5, 13, 136, 1, 221, 8,
                9, 136, 33, 216, 10, 11, 241, 3, 1, 9, 13, 244, 0, 1, 9, 13, 240, 0, 1, 9, 13, 240, 0, 1, 9,
                13, 224, 11, 12, 128, 72,
            ],
            &[
                (0, Some(10)),
                (2, Some(11)),
                (4, Some(11)),
                (6, Some(12)),
                (8, Some(12)),
                (10, Some(12)),
                (12, Some(12)),
                (14, Some(13)),
                (24, Some(13)),
                (26, Some(13)),
                (28, Some(14)),
                (30, Some(13)),
                (32, Some(13)),
                (34, Some(13)),
                (42, Some(13)),
                (44, Some(13)),
                (46, Some(13)),
                (48, Some(15)),
                (50, Some(15)),
            ],
        );
        check(
            0x030c,
            &[
                128, 0, 216, 8, 9, 128, 65, 216, 13, 14, 242, 0, 2, 5, 13, 136, 1, 220, 8, 9, 136, 33, 216,
                10, 11, 245, 3, 1, 9, 13, 240, 3, 2, 5, 13, 240, 6, 0, 12, 13, 128, 72,
            ],
            &[
                (0, Some(10)),
                (2, Some(11)),
                (4, Some(11)),
                (6, Some(12)),
                (14, Some(12)),
                (16, Some(13)),
                (26, Some(13)),
                (28, Some(14)),
                (30, Some(13)),
                (40, Some(13)),
                (42, Some(12)),
                (44, Some(15)),
                (46, Some(15)),
            ],
        );
        check(
            0x030d,
            &[
                128, 0, 216, 8, 9, 128, 65, 219, 13, 14, 136, 1, 220, 8, 9, 136, 33, 216, 10, 11, 246, 3, 1,
                9, 13, 241, 3, 0, 14, 15, 240, 6, 0, 12, 13, 128, 72,
            ],
            &[
                (0, Some(10)),
                (2, Some(11)),
                (4, Some(11)),
                (6, Some(12)),
                (14, Some(12)),
                (16, Some(13)),
                (26, Some(13)),
                (28, Some(14)),
                (30, Some(13)),
                (42, Some(13)),
                (44, Some(12)),
                (46, Some(12)),
                (48, Some(15)),
                (50, Some(15)),
            ],
        );
    }

    #[test]
    fn a_line_before_the_one_ahead_is_found() {
        // A jump back by 300 lines takes several bytes in 3.11, and several pairs before.
        assert_eq!(
            line(0x030b, &[0x80 | 13 << 3, 0x40 | (601 & 0x3f) as u8, (601 >> 6) as u8], 1000, 0),
            Some(700)
        );
        assert_eq!(line(0x0309, &[4, 0x80, 0, 0x80, 0, 212], 1000, 4), Some(700));
        assert_eq!(line(0x030a, &[0, 0x81, 0, 0x81, 4, 210], 1000, 2), Some(700));
    }

    #[test]
    fn a_function_that_has_not_begun_is_on_its_first_line() {
        for python in [0x0309, 0x030a, 0x030b] {
            assert_eq!(line(python, &[], 7, -1), Some(7));
            assert_eq!(line(python, &[], 0, -1), None, "no file has a line 0");
        }
    }

    #[test]
    fn an_instruction_without_a_line_has_none() {
        assert_eq!(line(0x030a, &[4, 0x80], 7, 0), None);
        assert_eq!(line(0x030c, &[0x80 | 15 << 3], 7, 0), None);
        assert_eq!(line(0x030c, &[], 7, 0), None, "the table does not reach it");
    }

    proptest! {
        #[test]
        fn any_table_is_read_without_panic(
            python in 0x0308u16..0x0310,
            table in prop::collection::vec(any::<u8>(), 0..300),
            first_line in any::<u32>(),
            instruction in any::<i32>(),
        ) {
            let _any = line(python, &table, first_line, instruction);
        }
    }
}
