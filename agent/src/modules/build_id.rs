//! The build id of a loaded object: by it the collector knows whether a file is still the one that ran.

use libc::{Elf64_Phdr, PF_R, PT_LOAD, PT_NOTE};

/// The first bytes of a build id, with zeros after it; all zero = the object has none.
pub(super) type BuildId = [u8; 20];

/// The type of the note that holds a build id (`NT_GNU_BUILD_ID` of elf.h), and the name of its owner.
const NT_GNU_BUILD_ID: u32 = 3;
const OWNER: &[u8] = b"GNU\0";

/// Returns the build id of an object with this load bias and these program headers.
///
/// # Safety
/// The object's segments are mapped as its headers say.
pub(super) unsafe fn build_id(bias: u64, headers: &[Elf64_Phdr]) -> BuildId {
    let notes = headers.iter().filter(|header| header.p_type == PT_NOTE);
    // Notes that no loaded segment contains are not in memory.
    let mapped = notes.filter(|note| headers.iter().any(|segment| contains(segment, note)));
    let found = mapped
        .map(|note| {
            let (start, length) = (bias.wrapping_add(note.p_vaddr), note.p_filesz as usize);
            // SAFETY: the bytes of the file that a readable segment maps, which stay there during the call.
            let bytes = unsafe { core::slice::from_raw_parts(start as *const u8, length) };
            // Notes are aligned to 4 bytes, but for those of a segment that says 8 (gABI of x86-64).
            (bytes, if note.p_align == 8 { 8 } else { 4 })
        })
        .find_map(|(bytes, align)| in_notes(bytes, align));
    found.unwrap_or_default()
}

/// Whether a segment is readable, and maps all of another one's bytes from the file.
fn contains(segment: &Elf64_Phdr, note: &Elf64_Phdr) -> bool {
    let within = note.p_vaddr.checked_sub(segment.p_vaddr).and_then(|from| from.checked_add(note.p_filesz));
    segment.p_type == PT_LOAD
        && segment.p_flags & PF_R != 0
        && within.is_some_and(|end| end <= segment.p_filesz)
        && note.p_filesz <= isize::MAX as u64
}

/// Finds the build id among notes, each a head of three words (the sizes of the owner's name and of the description, and the
/// type), the name, and the description, padded.
fn in_notes(mut notes: &[u8], align: usize) -> Option<BuildId> {
    let word = |bytes: &mut &[u8]| {
        let (word, rest) = bytes.split_first_chunk()?;
        *bytes = rest;
        Some(u32::from_ne_bytes(*word))
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
    use super::*;

    fn note(owner: &[u8], kind: u32, description: &[u8], align: usize) -> Vec<u8> {
        let mut note = Vec::new();
        for word in [owner.len() as u32, description.len() as u32, kind] {
            note.extend(word.to_ne_bytes());
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
            let mut notes: Vec<u8> = words.into_iter().flat_map(u32::to_ne_bytes).collect();
            notes.extend(OWNER);
            for align in [4, 8] {
                assert_eq!(in_notes(&notes, align), None, "{words:?}");
            }
        }
        assert_eq!(in_notes(&[], 4), None);
    }

    #[test]
    fn notes_outside_of_what_is_mapped_are_not_read() {
        // SAFETY: headers without a value are allowed.
        let blank: Elf64_Phdr = unsafe { core::mem::zeroed() };
        let segment =
            Elf64_Phdr { p_type: PT_LOAD, p_flags: PF_R, p_vaddr: 0x1000, p_filesz: 0x100, ..blank };
        let note = |p_vaddr, p_filesz| Elf64_Phdr { p_type: PT_NOTE, p_vaddr, p_filesz, ..blank };
        assert!(contains(&segment, &note(0x10e0, 0x20)));
        for (at, size) in [(0x10e0, 0x21), (0xff0, 0x20), (0x1100, 1), (0x1000, u64::MAX), (u64::MAX, 2)] {
            assert!(!contains(&segment, &note(at, size)), "{at:x} {size:x}");
        }
        assert!(!contains(&Elf64_Phdr { p_flags: 0, ..segment }, &note(0x1000, 4)));
        // SAFETY: nothing is mapped, so nothing is read.
        assert_eq!(unsafe { build_id(0x10, &[note(0x1000, 64)]) }, BuildId::default());
    }
}
