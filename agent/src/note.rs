//! Which version this library is, told without loading it: an ELF note (elf(5), "Notes") of the name `gpuspy` that holds the
//! version's text. `gpuspy doctor` reads it. The linker keeps notes that nothing refers to.

/// `Elf64_Nhdr`, the name and the text, each padded to 4 bytes as elf(5) has it.
#[repr(C, align(4))]
struct Note {
    name_bytes: u32,
    text_bytes: u32,
    kind: u32,
    name: [u8; 8],
    text: [u8; 16],
}

const TEXT: &[u8] = env!("CARGO_PKG_VERSION").as_bytes();

#[used]
#[cfg_attr(not(test), unsafe(link_section = ".note.gpuspy"))]
static NOTE: Note = Note { name_bytes: 7, text_bytes: 16, kind: 1, name: *b"gpuspy\0\0", text: padded(TEXT) };

const fn padded(text: &[u8]) -> [u8; 16] {
    assert!(text.len() <= 16, "a longer version needs a longer note");
    let mut padded = [0; 16];
    let (begin, _) = padded.split_at_mut(text.len());
    begin.copy_from_slice(text);
    padded
}
