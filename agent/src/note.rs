//! The library's version in an ELF note (elf(5), "Notes") named `gpuspy`, so that `gpuspy doctor` can read it without
//! loading the library. The linker keeps notes even if nothing refers to them.

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
