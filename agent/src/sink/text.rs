//! Names in records: each text is sent once, with the number by which other records refer to it.

use gpuspy_wire::record::{CELL_WORDS, Head, Intern, Kind, MAX_TEXT, Namespace, RECORD_VERSION};

use crate::sink::Ring;

/// Publishes a name from the poller.
pub fn publish(ring: &mut Ring, namespace: Namespace, id: u32, text: &[u8]) -> bool {
    with_intern(namespace, id, text, |words| ring.push(words))
}

/// Builds the record of a name, cut to what a record holds, and passes its words to `push`.
pub fn with_intern<T>(namespace: Namespace, id: u32, text: &[u8], push: impl FnOnce(&[u64]) -> T) -> T {
    let kept = text.get(..MAX_TEXT).unwrap_or(text);
    let cells = Intern::cells(kept.len());
    let mut words = vec![0u64; cells * CELL_WORDS];
    let head =
        Head { kind: Kind::Intern as u8, cells: cells as u8, version: RECORD_VERSION, ..Head::default() };
    let intern = Intern {
        head,
        id,
        length: kept.len() as u16,
        namespace: namespace as u8,
        cut: u8::from(kept.len() < text.len()),
    };
    // SAFETY: the vector holds the struct and the text behind it, by `Intern::cells`; integers only.
    unsafe {
        words.as_mut_ptr().cast::<Intern>().write(intern);
        let at = words.as_mut_ptr().cast::<u8>().add(size_of::<Intern>());
        core::ptr::copy_nonoverlapping(kept.as_ptr(), at, kept.len());
    }
    push(&words)
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
