//! The fat binary that a program registers, as far as it is looked at, and the one that the driver is given for it: which code
//! is in it for which architecture, and the names that the program registers beside it. The layout is the driver's
//! (sim/cuda, `fat_binary`).

use std::ffi::c_void;

/// Of the structure that compiled code registers (fatbinary_section.h), and of what it points to.
const WRAPPER_MAGIC: u32 = 0x4662_43B1;
const MAGIC: u32 = 0xBA55_ED50;

/// Bytes of the header, and of an entry's as it is written here.
const HEADER: usize = 16;
const ENTRY: usize = 64;
/// What an entry's text is: PTX.
const TEXT: u16 = 1;

/// An entry's kind and architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    kind: u16,
    architecture: u16,
}

/// The entries of what a program registers; none where it is something else.
///
/// # Safety
/// `wrapper` is null or points to such a structure.
pub unsafe fn entries(wrapper: *const c_void) -> Vec<Entry> {
    let mut found = Vec::new();
    // SAFETY: the caller's; the headers tell their own sizes and those of what is behind them.
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

/// A fat binary of entries without content, and one with text that names what is in them. The words are its bytes.
pub fn with_text(entries: &[Entry], text: &str) -> Vec<u64> {
    let payload = (text.len() + 1).next_multiple_of(8);
    let mut bytes = Vec::with_capacity(HEADER + (entries.len() + 1) * ENTRY + payload);
    bytes.extend(MAGIC.to_ne_bytes());
    bytes.extend([1, 0, HEADER as u8, 0]);
    bytes.extend(((entries.len() + 1) * ENTRY + payload).to_ne_bytes());
    // Text for the oldest of them is never preferred to an entry of theirs.
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
    fn what_is_written_is_read_with_the_text_behind() {
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
