//! What a process writes into its ring, behind the ring's own checks.

use gpuspy_collector::collect::{Clock, Item, Pair, convert, python_line};
use gpuspy_wire::record::{CELL_WORDS, Head};

/// Reads bytes as records, one after the other, and converts each.
pub fn records(input: &[u8]) {
    let words: Vec<u64> = input
        .chunks(8)
        .map(|chunk| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            u64::from_ne_bytes(word)
        })
        .collect();
    let origin = Pair { ticks: 1 << 40, ns: 1 << 41, uncertainty: 10 };
    let slope = origin.slope_to(&Pair { ticks: (1 << 40) + 3_000_000, ns: (1 << 41) + 1_000_000, ..origin });
    let clock = Clock::new(origin, slope.expect("two moments have a slope"));
    let (mut rest, mut at) = (&words[..], 0);
    while let Some(head) = Head::of(rest) {
        // A ring's reader returns whole records only, of at least one cell.
        let length = (usize::from(head.cells) * CELL_WORDS).max(CELL_WORDS);
        let Some((record, others)) = rest.split_at_checked(length) else { return };
        rest = others;
        match convert(record, 1, at, &clock) {
            Item::Record(record) | Item::Range(record, _) => at = record.at,
            Item::Name(_, id, text) => assert!(id != 0 && text.len() <= 4 * input.len() + 100),
            Item::CodePart(_, bytes) => assert!(bytes.len() <= input.len()),
            Item::Stack(_, frames) => assert!(frames.len() <= input.len()),
            Item::GpuTime(..) | Item::Code(_) | Item::Anchor(_) | Item::Unknown | Item::Invalid => {}
        }
    }
}

/// Reads the line table of a Python function. The first bytes say the version, the first line and the instruction.
pub fn line_tables(input: &[u8]) {
    let Some((head, table)) = input.split_first_chunk::<9>() else { return };
    let [version, first @ .., i0, i1, i2, i3] = *head;
    let instruction = i32::from_le_bytes([i0, i1, i2, i3]);
    let line = python_line(0x0308 + u16::from(version % 8), table, u32::from_le_bytes(first), instruction);
    assert_ne!(line, Some(0), "there is no line 0");
}
