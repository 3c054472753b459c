//! Reads ELF files without loading them.

use object::elf::{self, FileHeader64};
use object::read::elf::{Dyn, FileHeader, ProgramHeader, SectionHeader, SectionTable, Sym};
use object::{Endianness, ReadCache, ReadRef};
use std::fs::File;
use std::io::Read;
use std::path::Path;

type Header = FileHeader64<Endianness>;

/// The properties of a file that the checks need.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Elf {
    /// It is a 64-bit file for this machine's processor. Only then can the agent be loaded into it.
    pub(super) is_native: bool,
    /// The loader that it names (PT_INTERP). Static programs and libraries have none.
    pub(super) loader: Option<String>,
    /// It exports a `dlsym`.
    pub(super) exports_dlsym: bool,
    /// The names of the libraries that it is linked against (DT_NEEDED).
    pub(super) needed: Vec<String>,
    /// The newest version of glibc that it needs, such as `(2, 34)`.
    pub(super) glibc: Option<(u32, u32)>,
    /// The version in the note that an agent carries.
    pub(super) agent_version: Option<String>,
}

#[cfg(target_arch = "x86_64")]
const MACHINE: elf::Machine = elf::EM_X86_64;
#[cfg(target_arch = "aarch64")]
const MACHINE: elf::Machine = elf::EM_AARCH64;

/// The first bytes of every ELF file, and the index of `e_ident[EI_CLASS]`, which is 2 for 64-bit files.
const MAGIC: &[u8; 4] = b"\x7fELF";
const CLASS: usize = 4;

/// Reads a file. Returns `None` if it cannot be read or is not a complete ELF file.
pub(super) fn read(path: &Path) -> Option<Elf> {
    let mut begin = [0; CLASS + 1];
    File::open(path).ok()?.read_exact(&mut begin).ok()?;
    if !begin.starts_with(MAGIC) {
        return None;
    }
    if begin[CLASS] != 2 {
        // Nothing else matters for a file that is not for this machine.
        return Some(Elf {
            is_native: false,
            loader: None,
            exports_dlsym: false,
            needed: Vec::new(),
            glibc: None,
            agent_version: None,
        });
    }
    let cache = ReadCache::new(File::open(path).ok()?);
    parse(&cache)
}

fn parse<'d, R: ReadRef<'d>>(data: R) -> Option<Elf> {
    let header = Header::parse(data).ok()?;
    let endian = header.endian().ok()?;
    let segments = header.program_headers(endian, data).ok()?;
    let sections = header.sections(endian, data).ok()?;
    Some(Elf {
        is_native: header.e_machine(endian) == MACHINE,
        loader: segments.iter().find_map(|segment| {
            let path = segment.interpreter(endian, data).ok()??;
            Some(String::from_utf8_lossy(path).into_owned())
        }),
        needed: needed(&sections, endian, data),
        exports_dlsym: exports(&sections, endian, data, b"dlsym"),
        glibc: newest_glibc(&sections, endian, data),
        agent_version: agent_version(&sections, endian, data),
    })
}

fn exports<'d, R: ReadRef<'d>>(
    sections: &SectionTable<'d, Header, R>,
    endian: Endianness,
    data: R,
    name: &[u8],
) -> bool {
    let Ok(symbols) = sections.symbols(endian, data, elf::SHT_DYNSYM) else { return false };
    symbols.iter().any(|symbol| {
        !symbol.is_undefined(endian) && symbol.name(endian, symbols.strings()).is_ok_and(|n| n == name)
    })
}

fn needed<'d, R: ReadRef<'d>>(
    sections: &SectionTable<'d, Header, R>,
    endian: Endianness,
    data: R,
) -> Vec<String> {
    let Ok(Some((entries, link))) = sections.dynamic(endian, data) else { return Vec::new() };
    let Ok(strings) = sections.strings(endian, data, link) else { return Vec::new() };
    let names = entries.iter().filter(|entry| entry.tag(endian) == elf::DT_NEEDED);
    let names = names.filter_map(|entry| strings.get(entry.val32(endian)?).ok());
    names.map(|name| String::from_utf8_lossy(name).into_owned()).collect()
}

fn newest_glibc<'d, R: ReadRef<'d>>(
    sections: &SectionTable<'d, Header, R>,
    endian: Endianness,
    data: R,
) -> Option<(u32, u32)> {
    let (mut files, link) = sections.gnu_verneed(endian, data).ok()??;
    let strings = sections.strings(endian, data, link).ok()?;
    let mut newest = None;
    while let Ok(Some((_, mut versions))) = files.next() {
        while let Ok(Some(version)) = versions.next() {
            let name = version.name(endian, strings).ok().and_then(|n| std::str::from_utf8(n).ok());
            newest = newest.max(name.and_then(|n| glibc_version(n.strip_prefix("GLIBC_")?)));
        }
    }
    newest
}

/// Parses `2.34`, also as the start of `2.34.1`.
pub(super) fn glibc_version(text: &str) -> Option<(u32, u32)> {
    let mut parts = text.split('.').map(|part| part.parse().ok());
    Some((parts.next()??, parts.next()??))
}

fn agent_version<'d, R: ReadRef<'d>>(
    sections: &SectionTable<'d, Header, R>,
    endian: Endianness,
    data: R,
) -> Option<String> {
    let of_section = |section: &elf::SectionHeader64<Endianness>| {
        let mut notes = section.notes(endian, data).ok()??;
        while let Ok(Some(note)) = notes.next() {
            if note.name() == b"gpuspy" {
                let text = String::from_utf8_lossy(note.desc());
                return Some(text.trim_end_matches('\0').to_owned());
            }
        }
        None
    };
    sections.iter().find_map(of_section)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_program_is_for_this_machine() {
        let elf = read(&std::env::current_exe().unwrap()).unwrap();
        assert!(elf.is_native && elf.loader.is_some() && !elf.exports_dlsym, "{elf:?}");
        assert!(elf.glibc.unwrap() >= (2, 2), "{elf:?}");
        assert_eq!(elf.agent_version, None);
        assert!(elf.needed.iter().any(|name| name.starts_with("libc.so")), "{elf:?}");
    }

    #[test]
    fn files_that_are_not_elf_are_refused() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("file");
        for bytes in [&b""[..], b"\x7fELF", b"\x7fELF\x02 and then nothing", b"#!/bin/sh\n"] {
            std::fs::write(&file, bytes).unwrap();
            assert_eq!(read(&file), None, "{bytes:?}");
        }
        assert_eq!(read(&place.path().join("absent")), None);
        std::fs::write(&file, b"\x7fELF\x01\x01").unwrap();
        assert!(!read(&file).unwrap().is_native, "32 bits");
    }
}
