//! The parts of a registered fat binary that the runtime reads, and the fat binary that it passes to the driver
//! instead: the architectures that there is code for, and the names that the program registered. The layout is the
//! driver's (sim/cuda, `fat_binary`).

use std::ffi::c_void;

/// The magic numbers of the structure that compiled code registers (fatbinary_section.h), and of the fat binary that it
/// points to.
const WRAPPER_MAGIC: u32 = 0x4662_43B1;
const MAGIC: u32 = 0xBA55_ED50;

/// Bytes of the header, and of an entry's as it is written here.
const HEADER: usize = 16;
const ENTRY: usize = 64;
/// The kind of an entry with PTX text.
const TEXT: u16 = 1;

/// An entry's kind and architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    kind: u16,
    architecture: u16,
}

/// Returns the entries of a registered fat binary; none if it is something else.
///
/// # Safety
/// `wrapper` is null or points to such a structure.
pub unsafe fn entries(wrapper: *const c_void) -> Vec<Entry> {
    let mut found = Vec::new();
    // SAFETY: the caller's; the headers contain their own sizes and those of what follows them.
    unsafe {
        if wrapper.is_null() || wrapper.cast::<u32>().read() != WRAPPER_MAGIC {
            return found;
        }
        let binary = wrapper.add(8).cast::<*const u8>().read();
        if binary.is_null() || binary.cast::<u32>().read_unaligned() != MAGIC {
            return found;
        }
        let bytes = binary.add(8).cast::<u64>().read_unaligned() as usize;
        let first = binary.add(usize::from(binary.add(6).cast::<u16>().read_unaligned()));
        let mut at = 0;
        while at + ENTRY <= bytes {
            let entry = first.add(at);
            let short = |offset| entry.add(offset).cast::<u16>().read_unaligned();
            found.push(Entry { kind: short(0), architecture: short(28) });
            at += usize::from(short(4)).max(ENTRY) + entry.add(8).cast::<u64>().read_unaligned() as usize;
        }
    }
    found
}

/// Builds a fat binary with empty entries, and one with text that contains the names. Its bytes are in words.
pub fn with_text(entries: &[Entry], text: &str) -> Vec<u64> {
    let payload = (text.len() + 1).next_multiple_of(8);
    let mut bytes = Vec::with_capacity(HEADER + (entries.len() + 1) * ENTRY + payload);
    bytes.extend(MAGIC.to_ne_bytes());
    bytes.extend([1, 0, HEADER as u8, 0]);
    bytes.extend(((entries.len() + 1) * ENTRY + payload).to_ne_bytes());
    // PTX for the oldest architecture is never preferred to a binary entry.
    let architecture = entries.iter().map(|entry| entry.architecture).min().unwrap_or(0);
    let named = Entry { kind: TEXT, architecture };
    for (entry, content) in entries.iter().map(|entry| (entry, 0)).chain([(&named, payload)]) {
        let mut header = [0; ENTRY];
        header[..2].copy_from_slice(&entry.kind.to_ne_bytes());
        header[4] = ENTRY as u8;
        header[8..16].copy_from_slice(&content.to_ne_bytes());
        header[28..30].copy_from_slice(&entry.architecture.to_ne_bytes());
        bytes.extend(header);
    }
    bytes.extend(text.bytes());
    bytes.resize(bytes.capacity(), 0);
    bytes.chunks_exact(8).map(|word| u64::from_ne_bytes(std::array::from_fn(|byte| word[byte]))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_written_fat_binary_is_read_back_with_its_text() {
        let known = [Entry { kind: 2, architecture: 80 }, Entry { kind: 1, architecture: 86 }];
        let binary = with_text(&known, ".version 7.0\n");
        let wrapper = [u64::from(WRAPPER_MAGIC) | 1 << 32, binary.as_ptr() as u64];
        // SAFETY: such a structure.
        let found = unsafe { entries(wrapper.as_ptr().cast()) };
        assert_eq!(found, [known[0], known[1], Entry { kind: TEXT, architecture: 80 }]);
        // SAFETY: the same without a binary, and nothing.
        let nothing =
            unsafe { [entries([u64::from(WRAPPER_MAGIC), 0].as_ptr().cast()), entries(std::ptr::null())] };
        assert!(nothing.iter().all(Vec::is_empty));
    }
}
