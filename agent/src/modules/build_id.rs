//! The build id of a loaded object: by it the collector knows whether a file is still the one that ran.

use gpuspy_wire::build_id::{BuildId, in_notes};
use libc::{Elf64_Phdr, PF_R, PT_LOAD, PT_NOTE};

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

#[cfg(test)]
mod tests {
    use super::*;

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
