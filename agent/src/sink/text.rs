//! Names in records: each text is sent once, with the number by which other records refer to it.

use gpuspy_wire::record::{CELL_BYTES, CELL_WORDS, Head, Intern, Kind, MAX_TEXT, Namespace, RECORD_VERSION};

use crate::sink::Ring;

/// Publishes a name from the poller.
pub fn publish(ring: &mut Ring, namespace: Namespace, id: u32, text: &[u8]) -> bool {
    with_intern(namespace, id, text, |words| ring.push(words))
}

/// Builds the record of a name, cut to what a record holds, and passes its words to `push`.
pub fn with_intern<T>(namespace: Namespace, id: u32, text: &[u8], push: impl FnOnce(&[u64]) -> T) -> T {
    let kept = text.get(..MAX_TEXT).unwrap_or(text);
    let mut words = vec![0u64; Intern::cells(kept.len()) * CELL_WORDS];
    write(&mut words, namespace, id, kept, kept.len() < text.len());
    push(&words)
}

/// As [`with_intern`], without an allocation: for a text of at most [`SHORT`] bytes, to which it is cut.
pub fn with_short_intern<T>(
    namespace: Namespace,
    id: u32,
    text: &[u8],
    push: impl FnOnce(&[u64]) -> T,
) -> Option<T> {
    let kept = text.get(..SHORT).unwrap_or(text);
    let mut words = [0u64; SHORT_CELLS * CELL_WORDS];
    let words = words.get_mut(..Intern::cells(kept.len()) * CELL_WORDS)?;
    write(words, namespace, id, kept, kept.len() < text.len());
    Some(push(words))
}

/// The longest text of [`with_short_intern`], bytes, and the cells of its record.
const SHORT: usize = SHORT_CELLS * CELL_BYTES - size_of::<Intern>();
const SHORT_CELLS: usize = 4;

/// Writes the record of a name, for which there is just enough room.
fn write(words: &mut [u64], namespace: Namespace, id: u32, text: &[u8], is_cut: bool) {
    let cells = words.len() / CELL_WORDS;
    let head =
        Head { kind: Kind::Intern as u8, cells: cells as u8, version: RECORD_VERSION, ..Head::default() };
    let intern =
        Intern { head, id, length: text.len() as u16, namespace: namespace as u8, cut: u8::from(is_cut) };
    // SAFETY: the words hold the struct and the text behind it, by `Intern::cells`; integers only.
    unsafe {
        words.as_mut_ptr().cast::<Intern>().write(intern);
        let at = words.as_mut_ptr().cast::<u8>().add(size_of::<Intern>());
        core::ptr::copy_nonoverlapping(text.as_ptr(), at, text.len());
    }
}

/// Hashes a name: FNV-1a, 64 bits (Fowler, Noll, Vo), never 0. Two of a process's few thousand kernel names collide
/// with a probability below 1e-11.
pub fn hash(text: &[u8]) -> u64 {
    let mixed = text
        .iter()
        .fold(0xCBF2_9CE4_8422_2325, |h: u64, b| (h ^ u64::from(*b)).wrapping_mul(0x100_0000_01B3));
    mixed.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_too_long_is_cut_and_marked_as_cut() {
        for (length, kept, cut) in
            [(0, 0, 0), (5, 5, 0), (MAX_TEXT, MAX_TEXT, 0), (MAX_TEXT + 1, MAX_TEXT, 1)]
        {
            let text: Vec<u8> = (0..length).map(|n| b'a' + (n % 26) as u8).collect();
            with_intern(Namespace::Kernel, 7, &text, |words| {
                let (intern, read) = Intern::text(words).unwrap();
                assert_eq!((read, intern.id, intern.cut), (&text[..kept], 7, cut));
                assert_eq!(words.len(), usize::from(intern.head.cells) * CELL_WORDS);
            });
        }
    }
}
