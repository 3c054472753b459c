//! Where is the build id of an object among its notes? The agent asks in a program's memory, and the collector in files.

/// The first bytes of a build id, with zeros after it; all zero = the object has none. A linker computes 20 bytes.
pub type BuildId = [u8; 20];

/// The type of the note that holds a build id (`NT_GNU_BUILD_ID` of elf.h), and the name of its owner.
const NT_GNU_BUILD_ID: u32 = 3;
const OWNER: &[u8] = b"GNU\0";

/// Finds the build id among notes, each a head of three words (the sizes of the owner's name and of the description, and the
/// type), the name, and the description, padded to `align` bytes: 4 or 8. `None`: there is none, or the notes are damaged.
pub fn in_notes(mut notes: &[u8], align: usize) -> Option<BuildId> {
    let word = |bytes: &mut &[u8]| {
        let (word, rest) = bytes.split_first_chunk()?;
        *bytes = rest;
        Some(u32::from_le_bytes(*word))
    };
    loop {
        let (name, description, kind) = (word(&mut notes)?, word(&mut notes)?, word(&mut notes)?);
        let padded = |end: usize| end.checked_next_multiple_of(align);
        // Offsets count from the note's own start, which is aligned.
        let from = padded((name as usize).checked_add(12)?)? - 12;
        let end = from.checked_add(description as usize)?;
        let bytes = notes.get(from..end)?;
        if kind == NT_GNU_BUILD_ID && notes.get(..name as usize)? == OWNER {
            let mut id = BuildId::default();
            id.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
            return Some(id);
        }
        notes = notes.get(padded(end.checked_add(12)?)? - 12..)?;
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

    fn note(owner: &[u8], kind: u32, description: &[u8], align: usize) -> Vec<u8> {
        let mut note = Vec::new();
        for word in [owner.len() as u32, description.len() as u32, kind] {
            note.extend(word.to_le_bytes());
        }
        for part in [owner, description] {
            note.extend(part);
            note.resize(note.len().next_multiple_of(align), 0);
        }
        note
    }

    #[test]
    fn a_build_id_is_found_behind_other_notes() {
        for align in [4, 8] {
            let id: Vec<u8> = (1..=20).collect();
            let mut notes = note(OWNER, 1, &[9; 6], align);
            notes.extend(note(b"Go\0", NT_GNU_BUILD_ID, b"other", align));
            notes.extend(note(OWNER, NT_GNU_BUILD_ID, &id, align));
            assert_eq!(in_notes(&notes, align).unwrap().as_slice(), id, "{align}");
            assert_eq!(in_notes(&notes[..notes.len() - 5], align), None, "it is cut");
        }
        assert_eq!(
            in_notes(&note(OWNER, NT_GNU_BUILD_ID, &[7; 8], 4), 4).unwrap()[..10],
            [7, 7, 7, 7, 7, 7, 7, 7, 0, 0]
        );
        assert_eq!(
            in_notes(&note(OWNER, NT_GNU_BUILD_ID, &[7; 32], 4), 4),
            Some([7; 20]),
            "a longer one is cut"
        );
    }

    #[test]
    fn damaged_notes_have_no_build_id() {
        for words in [[u32::MAX, u32::MAX, 3], [4, u32::MAX, 3], [u32::MAX, 20, 3], [0, 0, 3], [4, 20, 3]] {
            let mut notes: Vec<u8> = words.into_iter().flat_map(u32::to_le_bytes).collect();
            notes.extend(OWNER);
            for align in [4, 8] {
                assert_eq!(in_notes(&notes, align), None, "{words:?}");
            }
        }
        assert_eq!(in_notes(&[], 4), None);
    }
}
