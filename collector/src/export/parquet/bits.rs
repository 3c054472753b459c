//! How do numbers that name dictionary entries become bytes? Parquet's hybrid of runs and packed bits.
//!
//! The format is that of "RLE/Bit-Packing Hybrid" in Parquet's encodings: a header says either how often one value
//! follows itself, or how many groups of eight values follow, each in `width` bits.

/// The shortest run that is written as one; what is shorter is packed with its neighbors.
const RUN: usize = 16;

/// The values of a group of packed ones.
const GROUP: usize = 8;

/// Returns how many bits the numbers from 0 to `most` take; at least one, since not every reader takes none.
pub(super) fn width_of(most: u32) -> u32 {
    (u32::BITS - most.leading_zeros()).max(1)
}

/// Appends values that take at most `width` bits.
pub(super) fn hybrid(values: &[u32], width: u32, out: &mut Vec<u8>) {
    let (mut at, mut packed_from) = (0, 0);
    while at < values.len() {
        let run = run_at(&values[at..]);
        if run >= RUN {
            packed(&values[packed_from..at], width, out);
            repeated(values[at], run, width, out);
            at += run;
            packed_from = at;
        } else {
            at = (at + GROUP).min(values.len());
        }
    }
    packed(&values[packed_from..], width, out);
}

/// Appends one value that follows itself `count` times.
pub(super) fn repeated(value: u32, count: usize, width: u32, out: &mut Vec<u8>) {
    if count > 0 {
        varint((count as u64) << 1, out);
        out.extend_from_slice(&value.to_le_bytes()[..width.div_ceil(8) as usize]);
    }
}

/// Returns how many equal values there are at the start.
fn run_at(values: &[u32]) -> usize {
    values.iter().position(|value| *value != values[0]).unwrap_or(values.len())
}

/// Appends values in groups of eight; the last group is filled with zeros.
fn packed(values: &[u32], width: u32, out: &mut Vec<u8>) {
    if values.is_empty() {
        return;
    }
    let groups = values.len().div_ceil(GROUP);
    varint((groups as u64) << 1 | 1, out);
    let end = out.len() + groups * width as usize;
    let (mut bits, mut held) = (0u64, 0);
    for value in values {
        bits |= u64::from(*value) << held;
        held += width;
        while held >= 8 {
            out.push(bits as u8);
            bits >>= 8;
            held -= 8;
        }
    }
    out.push(bits as u8);
    out.resize(end, 0);
}

/// Appends bits, the first of each byte lowest, as Parquet has truth values.
pub(super) fn flags(flags: impl Iterator<Item = bool>, out: &mut Vec<u8>) {
    let (mut byte, mut held) = (0, 0);
    for flag in flags {
        byte |= u8::from(flag) << held;
        held += 1;
        if held == 8 {
            out.push(byte);
            (byte, held) = (0, 0);
        }
    }
    if held > 0 {
        out.push(byte);
    }
}

fn varint(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads values back, by the words of the format.
    fn read(mut bytes: &[u8], width: u32, count: usize) -> Vec<u32> {
        let mut values = Vec::new();
        while values.len() < count {
            let (mut header, mut shift) = (0u64, 0);
            loop {
                let (byte, rest) = bytes.split_first().unwrap();
                bytes = rest;
                header |= u64::from(byte & 0x7f) << shift;
                shift += 7;
                if byte & 0x80 == 0 {
                    break;
                }
            }
            if header & 1 == 0 {
                let (value, rest) = bytes.split_at(width.div_ceil(8) as usize);
                bytes = rest;
                let mut whole = [0; 4];
                whole[..value.len()].copy_from_slice(value);
                values.extend(std::iter::repeat_n(u32::from_le_bytes(whole), (header >> 1) as usize));
            } else {
                let (packed, rest) = bytes.split_at((header >> 1) as usize * width as usize);
                bytes = rest;
                let bit = |at: usize| u32::from(packed[at / 8] >> (at % 8) & 1);
                let of =
                    |n: usize| (0..width as usize).map(|b| bit(n * width as usize + b) << b).sum::<u32>();
                values.extend((0..(header >> 1) as usize * 8).map(of));
            }
        }
        assert!(bytes.is_empty() && values[count..].iter().all(|padding| *padding == 0));
        values.truncate(count);
        values
    }

    #[test]
    fn what_is_written_is_read_back() {
        let mut random = crate::trace::generator::Random(7);
        for width in [1, 2, 3, 7, 8, 9, 16, 20, 31, 32] {
            for runs in [1, 8, 40] {
                let mut values = Vec::new();
                while values.len() < 3_000 {
                    let value = (random.word() >> (64 - width)) as u32;
                    let many = random.below(runs) as usize + 1;
                    values.extend(std::iter::repeat_n(value, many));
                }
                for count in [0, 1, 7, 8, 9, 16, 17, 2_999, values.len()] {
                    let mut bytes = Vec::new();
                    hybrid(&values[..count], width, &mut bytes);
                    assert_eq!(read(&bytes, width, count), values[..count], "{width} bits, {count}");
                }
            }
        }
    }

    #[test]
    fn widths_hold_their_numbers() {
        for (most, width) in [(0, 1), (1, 1), (2, 2), (255, 8), (256, 9), (u32::MAX, 32)] {
            assert_eq!(width_of(most), width);
        }
        let mut bytes = Vec::new();
        flags([true, false, true, true, false, false, false, false, true].into_iter(), &mut bytes);
        assert_eq!(bytes, [0b1101, 1]);
    }
}
