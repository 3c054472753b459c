//! How are columns of numbers packed? As byte planes, compressed with zstd.
//!
//! A column contains one `u64` per record that has the field: the field's difference from its expected value (see
//! [`coding`](super::coding)), which is mostly 0 or small. Four choices per column and chunk leave little but noise:
//!
//! - **shift**: low bits that are 0 in all values are left out, as those of times in whole steps
//!   ([`rounding`](super::rounding)), and of addresses;
//! - **zigzag** if one of the values is negative: small differences of either sign become small numbers;
//! - **sparse** if most values are 0: a bit per value marks the others, and only those follow;
//! - **planes**: bytes are grouped by significance, all least significant ones together. A plane of noise is a zstd
//!   block of its own, so that it disturbs no other's statistics. The upper planes are nearly constant and take almost no
//!   space. In columns of times, the lowest bits are noise that no coder compresses: as many of them are stored
//!   uncompressed as leave the width of the distribution to one plane, where entropy coding works best. Where four bits are
//!   enough, they are such low bits, two values to a byte: zstd finds repetitions by chance in noise of so few bits, which
//!   take more than the noise.
//!
//! ```text
//! u32 columns
//! columns ×  u8 kind · u8 column · u8 flags · u8 low bits · u8 planes · u8 shift · u8×2 zero
//!            u32 values · u32 present · u64 constant                                    24 bytes each
//! columns ×  sparse: a bit per value, set where it is not 0, lowest bit first           ⌈values / 8⌉ bytes
//!            low bits of each present value, lowest bit first, without gaps             ⌈present × low bits / 8⌉ bytes
//!            plane 0 (the 8 bits above the low ones), plane 1, …                        planes × present bytes
//! ```
//!
//! There are at most [`KINDS`] × [`COLUMNS`] columns. Flags: 1 zigzag, 2 sparse. Without sparse, present = values.
//! Without low bits and planes, every present value is `constant`. Else a value is what these say, with its sign if zigzag, times
//! 2 to the power of the shift, which was 0 before version 3 of the format. A column that is all 0 is not written; a reader
//! therefore takes 0 for absent columns, and skips columns that it does not know.

use super::format::{FLAG_ZSTD, Fields, MAX_PLAIN};
use std::io::{self, Write};

/// Kinds of records that have columns: the wire's kinds, and 0 for the columns of all records.
pub const KINDS: usize = 32;
/// Columns per kind.
pub const COLUMNS: usize = 64;
/// zstd level. On the generator's launches, levels 1, 3 and 9 differ by less than 0.2 % in size, because the rest is
/// noise, and 19 is worse. Without a block for each plane of noise, a launch takes a byte more.
pub const LEVEL: i32 = 1;

const ENTRY_BYTES: usize = 24;
const ZIGZAG: u8 = 1;
const SPARSE: u8 = 2;

/// Maps small differences of either sign to small numbers.
fn zigzag(difference: u64) -> u64 {
    (difference << 1) ^ (((difference as i64) >> 63) as u64)
}

/// Inverts [`zigzag`].
fn unzigzag(coded: u64) -> u64 {
    (coded >> 1) ^ (coded & 1).wrapping_neg()
}

/// The number of bits that a value takes.
fn bits(value: u64) -> u32 {
    64 - value.leading_zeros()
}

/// Columns that are being filled.
#[derive(Debug)]
pub struct ColumnWriter {
    columns: Vec<Filling>,
    /// Of each kind, the number of values that each column of a group has so far.
    counts: [[u32; GROUPS]; KINDS],
    noisy: u64,
}

/// A column that is being filled. Most values are 0, so only the others are kept.
#[derive(Clone, Debug, Default)]
struct Filling {
    values: Vec<u64>,
    /// Where they are in the column, ascending.
    places: Vec<u32>,
}

/// Columns whose values come together: those of every record of a kind, and those of records with a GPU time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// Of every record.
    Record,
    /// Of records with a GPU time.
    GpuTime,
}

const GROUPS: usize = 2;
/// The columns of a GPU time, a bit each.
const GPU_TIME: u64 = 0b1111111 << 15 | 1 << 23;

impl Group {
    /// The group of a column.
    #[inline(always)]
    fn of(column: u8) -> Group {
        if GPU_TIME >> column & 1 == 1 { Group::GpuTime } else { Group::Record }
    }
}

/// A column ready to be written: its entry in the table without kind and column, and its data in parts that each get a
/// zstd block.
struct Packed {
    entry: Vec<u8>,
    parts: Vec<Vec<u8>>,
}

impl ColumnWriter {
    /// Starts without columns. `noisy` has a bit set for each column, of every kind, whose low bits are noise.
    pub fn new(noisy: u64) -> ColumnWriter {
        ColumnWriter {
            columns: vec![Filling::default(); KINDS * COLUMNS],
            counts: [[0; GROUPS]; KINDS],
            noisy,
        }
    }

    /// Sets the next value of a column of a kind; without it, that is 0.
    #[inline(always)]
    pub fn set(&mut self, kind: u8, column: u8, value: u64) {
        if value != 0 {
            self.keep(kind, column, value);
        }
    }

    fn keep(&mut self, kind: u8, column: u8, value: u64) {
        let place = self.counts[usize::from(kind) % KINDS][Group::of(column) as usize];
        let filling = &mut self.columns[usize::from(kind) * COLUMNS + usize::from(column)];
        filling.values.push(value);
        filling.places.push(place);
    }

    /// Ends the present value of each column of a group.
    #[inline(always)]
    pub fn next(&mut self, kind: u8, group: Group) {
        self.counts[usize::from(kind) % KINDS][group as usize] += 1;
    }

    /// Packs the columns. Returns the payload, its flags, and its size before compression in bytes.
    ///
    /// # Errors
    /// Fails if zstd does, or if the chunk would exceed [`MAX_PLAIN`].
    pub fn pack(self) -> io::Result<(Vec<u8>, u16, u32)> {
        let mut table = Vec::new();
        let mut parts = Vec::new();
        for (index, column) in self.columns.into_iter().enumerate() {
            let noisy = self.noisy >> (index % COLUMNS) & 1 == 1;
            let count = self.counts[index / COLUMNS][Group::of((index % COLUMNS) as u8) as usize];
            if let Some(packed) = pack_column(column, count as usize, noisy) {
                table.extend([(index / COLUMNS) as u8, (index % COLUMNS) as u8]);
                table.extend(packed.entry);
                parts.extend(packed.parts);
            }
        }
        let plain_bytes = 4 + table.len() + parts.iter().map(Vec::len).sum::<usize>();
        if plain_bytes > MAX_PLAIN as usize {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "more columns than a chunk holds"));
        }
        let mut frame = zstd::Encoder::new(Vec::new(), LEVEL)?;
        frame.write_all(&((table.len() / ENTRY_BYTES) as u32).to_le_bytes())?;
        frame.write_all(&table)?;
        let mut after_noise = false;
        for part in &parts {
            let is_noise = is_noise(part);
            if is_noise || after_noise {
                frame.flush()?; // ends a block: statistics are per block
            }
            frame.write_all(part)?;
            after_noise = is_noise;
        }
        Ok((frame.finish()?, FLAG_ZSTD, plain_bytes as u32))
    }
}

/// Whether a part of a column has statistics that are worth a block: it is not short, and not nearly all zeros.
fn is_noise(part: &[u8]) -> bool {
    const SHORT: usize = 128;
    let zeros = part.iter().filter(|byte| **byte == 0).count();
    part.len() >= SHORT && zeros < part.len() / 16 * 15
}

/// Packs a column of `count` values; `None` if there is nothing to write.
fn pack_column(Filling { mut values, places }: Filling, count: usize, noisy: bool) -> Option<Packed> {
    if values.is_empty() {
        return None;
    }
    let mut flags = 0;
    let mut parts = Vec::new();
    if values.len() * 2 < count {
        flags |= SPARSE;
        parts.push(mask_of(&places, count));
    } else if values.len() < count {
        values = spread(&values, &places, count);
    }
    let first = values[0];
    let constant = values.iter().all(|value| *value == first);
    let (mut shift, mut low_bits, mut planes) = (0, 0, 0);
    if !constant {
        let used = values.iter().fold(0, |all, value| all | value);
        shift = used.trailing_zeros();
        if used >> 63 == 1 {
            flags |= ZIGZAG;
            values.iter_mut().for_each(|value| *value = zigzag(((*value as i64) >> shift) as u64));
        } else {
            values.iter_mut().for_each(|value| *value >>= shift);
        }
        (low_bits, planes) = split(&values, noisy);
    }
    if low_bits > 0 {
        parts.push(pack_bits(&values, low_bits));
    }
    for plane in 0..planes {
        parts.push(values.iter().map(|value| (value >> (low_bits + 8 * plane)) as u8).collect());
    }
    let mut entry = vec![flags, low_bits as u8, planes as u8, shift as u8, 0, 0];
    entry.extend((count as u32).to_le_bytes());
    entry.extend((values.len() as u32).to_le_bytes());
    entry.extend(if constant { first } else { 0 }.to_le_bytes());
    Some(Packed { entry, parts })
}

/// Returns how many low bits of the values are packed without gaps, and how many byte planes are above.
fn split(values: &[u64], noisy: bool) -> (u32, u32) {
    let widest = bits(values.iter().fold(0, |all, value| all | value));
    if !noisy {
        return (0, widest.div_ceil(8));
    }
    let low_bits = match usual_bits(values) {
        3..=4 => 4,
        usual => usual.saturating_sub(8),
    };
    (low_bits, widest.saturating_sub(low_bits).div_ceil(8))
}

/// Returns the bits that all values but a few outliers fit in: the upper 8 of them fall into plane 0.
fn usual_bits(values: &[u64]) -> u32 {
    let mut of_width = [0usize; u64::BITS as usize + 1];
    for value in values {
        of_width[bits(*value) as usize] += 1;
    }
    let mut outliers = values.len() / 64;
    let mut width = u64::BITS;
    while width > 0 && of_width[width as usize] <= outliers {
        outliers -= of_width[width as usize];
        width -= 1;
    }
    width
}

/// Returns a bit for each of `count` values, set where it is not 0, lowest bit first.
fn mask_of(places: &[u32], count: usize) -> Vec<u8> {
    let mut mask = vec![0; count.div_ceil(8)];
    places.iter().for_each(|place| mask[*place as usize / 8] |= 1 << (place % 8));
    mask
}

/// Returns `count` values, of which those that are not 0 are at these places.
fn spread(values: &[u64], places: &[u32], count: usize) -> Vec<u64> {
    let mut all = vec![0; count];
    values.iter().zip(places).for_each(|(value, place)| all[*place as usize] = *value);
    all
}

/// Packs the low `width` bits of the values, 0 < `width` < 64, lowest bit first, without gaps.
fn pack_bits(values: &[u64], width: u32) -> Vec<u8> {
    let mut bytes = Vec::with_capacity((values.len() * width as usize).div_ceil(8) + 8);
    let (mut held, mut have) = (0u64, 0);
    for value in values {
        let value = value & !(u64::MAX << width);
        held |= value << have;
        have += width;
        if have >= u64::BITS {
            bytes.extend(held.to_le_bytes());
            have -= u64::BITS;
            held = value >> (width - have); // what of the value did not fit
        }
    }
    bytes.extend(&held.to_le_bytes()[..have.div_ceil(8) as usize]);
    bytes
}

/// The value of `width` ≤ 56 bits at index `index` of packed ones.
fn packed_at(bytes: &[u8], index: usize, width: u32) -> Option<u64> {
    let bit = index * width as usize;
    Some((word_at(bytes, bit / 8)? >> (bit % 8)) & !(u64::MAX << width))
}

/// The eight bytes from `at` on as a word. Beyond the end are zeros.
fn word_at(bytes: &[u8], at: usize) -> Option<u64> {
    let rest = bytes.get(at..)?;
    Some(match rest.first_chunk() {
        Some(whole) => u64::from_le_bytes(*whole),
        None => rest.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)),
    })
}

/// Values of a column that are unpacked at once: as many as a word of the mask has bits.
const WINDOW: usize = u64::BITS as usize;

#[derive(Clone, Debug)]
struct Column {
    /// The values unpacked last, at the end of the window, and how many of them have not been taken.
    window: [u64; WINDOW],
    left: usize,
    flags: u8,
    low_bits: u32,
    planes: usize,
    shift: u32,
    values: usize,
    present: usize,
    constant: u64,
    /// The number of values unpacked, and how many of those were present.
    unpacked: usize,
    unpacked_present: usize,
    /// Offsets of its parts in the payload: mask, low bits, planes.
    at: [usize; 3],
}

impl Column {
    /// Reads the rest of a table entry; `None` if it is invalid.
    fn from_entry(fields: &mut Fields<'_>, entries: u32) -> Option<Column> {
        let (flags, low_bits, planes) = (fields.u8()?, u32::from(fields.u8()?), usize::from(fields.u8()?));
        let shift = u32::from(fields.u8()?);
        fields.bytes(2)?;
        let (values, present, constant) = (fields.u32()?, fields.u32()?, fields.u64()?);
        let sane = flags <= (ZIGZAG | SPARSE)
            && values <= entries
            && (present == values || (flags & SPARSE != 0 && present < values))
            && low_bits <= 56
            && low_bits as usize + 8 * planes < 72
            && shift < u64::BITS;
        sane.then_some(Column {
            flags,
            low_bits,
            planes,
            shift,
            values: values as usize,
            present: present as usize,
            constant,
            unpacked: 0,
            unpacked_present: 0,
            window: [0; WINDOW],
            left: 0,
            at: [0; 3],
        })
    }

    /// Lays out the column's parts from offset `at` and returns their end. This cannot overflow, since all counts are
    /// bounded.
    fn lay_out(&mut self, at: usize) -> usize {
        let mask = if self.flags & SPARSE != 0 { self.values.div_ceil(8) } else { 0 };
        let low = (self.present * self.low_bits as usize).div_ceil(8);
        self.at = [at, at + mask, at + mask + low];
        at + mask + low + self.present * self.planes
    }

    /// Takes the next value of those that are unpacked; `None` if all of them were taken.
    #[inline(always)]
    fn take(&mut self) -> Option<u64> {
        let value = self.window[WINDOW.wrapping_sub(self.left) % WINDOW];
        self.left = self.left.checked_sub(1)?;
        Some(value)
    }

    /// Unpacks the next values into the window and takes the first; `None` if there is none.
    #[inline(never)]
    fn unpack(&mut self, plain: &[u8]) -> Option<u64> {
        let count = WINDOW.min(self.values - self.unpacked);
        if count == 0 {
            return None;
        }
        let filled = if self.flags & SPARSE == 0 {
            self.unpack_present(plain, count)?;
            count
        } else {
            let mask = word_at(plain.get(self.at[0]..self.at[1])?, self.unpacked / 8)?;
            let mask = mask & (u64::MAX >> (WINDOW - count));
            let present = (self.present - self.unpacked_present).min(mask.count_ones() as usize);
            self.unpack_present(plain, present)?;
            self.spread(mask, present).min(count)
        };
        self.unpacked += filled;
        if filled < count {
            self.values = self.unpacked;
        }
        if filled < WINDOW {
            self.window.copy_within(..filled, WINDOW - filled);
        }
        self.left = filled;
        self.take()
    }

    /// Unpacks the next present values to the start of the window.
    fn unpack_present(&mut self, plain: &[u8], count: usize) -> Option<()> {
        let first = self.unpacked_present;
        let window = &mut self.window[..count];
        window.fill(self.constant);
        if self.low_bits > 0 {
            let low = plain.get(self.at[1]..self.at[2])?;
            for (index, value) in window.iter_mut().enumerate() {
                *value |= packed_at(low, first + index, self.low_bits)?;
            }
        }
        for plane in 0..self.planes {
            let at = self.at[2] + plane * self.present + first;
            let shift = self.low_bits as usize + 8 * plane;
            for (value, byte) in window.iter_mut().zip(plain.get(at..at + count)?) {
                *value |= u64::from(*byte) << shift;
            }
        }
        if self.flags & ZIGZAG != 0 {
            window.iter_mut().for_each(|value| *value = unzigzag(*value));
        }
        if self.shift != 0 {
            window.iter_mut().for_each(|value| *value <<= self.shift);
        }
        self.unpacked_present += count;
        Some(())
    }

    /// Moves the `present` values at the start of the window to the places that the mask marks; all others are 0. Returns
    /// the first place that it marks and that has no value, where the column ends.
    fn spread(&mut self, mask: u64, present: usize) -> usize {
        let mut spread = [0; WINDOW];
        let mut places = mask;
        for value in &self.window[..present] {
            spread[places.trailing_zeros() as usize] = *value;
            places &= places - 1;
        }
        self.window = spread;
        places.trailing_zeros() as usize
    }
}

/// Columns that are being read.
#[derive(Debug)]
pub struct ColumnReader {
    plain: Vec<u8>,
    /// Of each kind, a bit for each column that is there.
    present: [u64; KINDS],
    /// The index in `columns` of each kind's column that is there.
    index: Box<[u16; KINDS * COLUMNS]>,
    columns: Vec<Column>,
}

impl ColumnReader {
    /// Reads the table of an unpacked payload whose columns have at most `entries` values; `None` if it is
    /// inconsistent.
    pub fn new(plain: Vec<u8>, entries: u32) -> Option<ColumnReader> {
        let mut fields = Fields(&plain);
        let count = usize::try_from(fields.u32()?).ok().filter(|count| *count <= KINDS * COLUMNS)?;
        let mut present = [0; KINDS];
        let mut index = Box::new([0; KINDS * COLUMNS]);
        let mut columns = Vec::new();
        let mut at = 4 + ENTRY_BYTES * count;
        for _ in 0..count {
            let (kind, id) = (usize::from(fields.u8()?), usize::from(fields.u8()?));
            let mut column = Column::from_entry(&mut fields, entries)?;
            at = column.lay_out(at);
            if at > plain.len() {
                return None;
            }
            if kind < KINDS && id < COLUMNS {
                present[kind] |= 1 << id;
                index[kind * COLUMNS + id] = u16::try_from(columns.len()).ok()?;
                columns.push(column);
            }
        }
        (at == plain.len()).then_some(ColumnReader { plain, present, index, columns })
    }

    /// Takes the next value of a column: 0 if the column is absent, `None` if it has no more.
    #[inline(always)]
    pub fn take(&mut self, kind: u8, column: u8) -> Option<u64> {
        // Most columns are absent.
        if self.present[usize::from(kind) % KINDS] >> column & 1 == 0 {
            return Some(0);
        }
        let at = self.index[usize::from(kind) % KINDS * COLUMNS + usize::from(column) % COLUMNS];
        let column = self.columns.get_mut(usize::from(at))?;
        match column.take() {
            None => column.unpack(&self.plain),
            value => value,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unpack(packed: (Vec<u8>, u16, u32)) -> Vec<u8> {
        zstd::bulk::decompress(&packed.0, packed.2 as usize).unwrap()
    }

    #[test]
    fn zigzag_is_small_for_small_differences_and_reversible() {
        assert_eq!([0, 1, u64::MAX, 2].map(zigzag), [0, 2, 1, 4]);
        for value in [0, 1, u64::MAX, 1 << 63, i64::MAX as u64, 12345] {
            assert_eq!(unzigzag(zigzag(value)), value);
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri does not run zstd, which is written in C")]
    fn expected_values_cost_nothing() {
        let mut writer = ColumnWriter::new(0);
        for _ in 0..1000 {
            writer.set(1, 2, 0);
            writer.next(1, Group::Record);
        }
        let plain = unpack(writer.pack().unwrap());
        assert_eq!(plain, [0, 0, 0, 0]);
        let mut reader = ColumnReader::new(plain, 1000).unwrap();
        assert_eq!(reader.take(1, 2), Some(0));
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri does not run zstd, which is written in C")]
    fn values_of_every_width_are_restored() {
        let wide: Vec<u64> = (0..64).map(|bit| 1 << bit).chain([0, u64::MAX]).collect();
        let mut writer = ColumnWriter::new(0);
        for value in &wide {
            writer.set(1, 0, *value);
            writer.set(19, 63, 77);
            writer.next(1, Group::Record);
            writer.next(19, Group::Record);
        }
        let mut reader = ColumnReader::new(unpack(writer.pack().unwrap()), 66).unwrap();
        for value in &wide {
            assert_eq!(reader.take(1, 0), Some(*value));
            assert_eq!(reader.take(19, 63), Some(77));
        }
        assert_eq!((reader.take(1, 0), reader.take(19, 63)), (None, None));
    }

    proptest::proptest! {
        #[test]
        #[cfg_attr(miri, ignore = "Miri does not run zstd, which is written in C")]
        fn any_values_are_restored(
            values in proptest::collection::vec((0u32..70, proptest::num::u64::ANY, proptest::bool::ANY), 1..300),
            step in 0u32..20,
            noisy: bool,
        ) {
            let word = |(shift, word, is_negative): &(u32, u64, bool)| {
                let word = word.checked_shr(*shift).unwrap_or(0) << step;
                if *is_negative { word.wrapping_neg() } else { word }
            };
            let values: Vec<u64> = values.iter().map(word).collect();
            let mut writer = ColumnWriter::new(if noisy { 1 << 5 } else { 0 });
            for value in &values {
                writer.set(3, 5, *value);
                writer.next(3, Group::Record);
            }
            let mut reader = ColumnReader::new(unpack(writer.pack().unwrap()), 300).unwrap();
            for value in &values {
                proptest::prop_assert_eq!(reader.take(3, 5), Some(*value));
            }
        }
    }

    /// Times are in steps, so that their last bits would be stored for nothing.
    #[test]
    #[cfg_attr(miri, ignore = "Miri does not run zstd, which is written in C")]
    fn low_bits_that_are_0_in_all_values_take_no_space() {
        let bytes = |step: u32| {
            let mut writer = ColumnWriter::new(1);
            for n in 0..4096u64 {
                let noise = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 53;
                let sign = if n % 2 == 0 { 1 } else { u64::MAX };
                writer.set(1, 0, (noise << step).wrapping_mul(sign));
                writer.next(1, Group::Record);
            }
            writer.pack().unwrap().0.len()
        };
        assert_eq!([1, 3, 17, 40].map(bytes), [bytes(0); 4]);
    }

    #[test]
    fn a_mask_that_marks_more_values_than_there_are_ends_the_column_there() {
        let mut entry = vec![1, 0, SPARSE, 0, 1, 0, 0, 0];
        entry.extend(100u32.to_le_bytes());
        entry.extend(2u32.to_le_bytes());
        entry.extend([0; 8]);
        let mut mask = [0; 13];
        (mask[0], mask[8], mask[9]) = (0b1000, 0b1, 0b1);
        let payload = [&1u32.to_le_bytes()[..], &entry, &mask, &[7, 8]].concat();
        let mut reader = ColumnReader::new(payload, 100).unwrap();
        let taken: Vec<u64> = std::iter::from_fn(|| reader.take(1, 0)).collect();
        assert_eq!((taken.len(), taken[3], taken[64], taken.iter().sum::<u64>()), (72, 7, 8, 15));
        assert_eq!(reader.take(1, 0), None);
    }

    #[test]
    fn unknown_columns_are_skipped_and_wrong_tables_refused() {
        let entry = |kind: u8, column: u8, planes: u8, values: u32| {
            let mut bytes = vec![kind, column, 0, 0, planes, 0, 0, 0];
            bytes.extend(values.to_le_bytes());
            bytes.extend(values.to_le_bytes());
            bytes.extend([0; 8]);
            bytes
        };
        let payload = |entries: &[Vec<u8>], data: &[u8]| {
            [&(entries.len() as u32).to_le_bytes()[..], &entries.concat(), data].concat()
        };
        let good = payload(&[entry(200, 200, 1, 3), entry(1, 0, 1, 2)], &[9, 9, 9, 5, 6]);
        let mut reader = ColumnReader::new(good.clone(), 3).unwrap();
        assert_eq!([reader.take(1, 0), reader.take(1, 0), reader.take(1, 0)], [Some(5), Some(6), None]);

        assert!(ColumnReader::new(good[..good.len() - 1].to_vec(), 3).is_none(), "too short");
        assert!(ColumnReader::new(good, 2).is_none(), "more values than entries");
        assert!(ColumnReader::new(payload(&[entry(1, 0, 9, 1)], &[0; 9]), 3).is_none(), "wider than a value");
        assert!(ColumnReader::new(vec![255, 255, 255, 255], 3).is_none(), "a missing table");
        assert!(ColumnReader::new(vec![], 3).is_none());
    }
}
