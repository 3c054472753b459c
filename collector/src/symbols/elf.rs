//! The sections of an ELF file, read one by one when they are needed.

use flate2::read::ZlibDecoder;
use gpuspy_wire::build_id::{BuildId, in_notes};
use object::LittleEndian;
use object::elf::{
    CompressionHeader64, ELFCLASS64, ELFCOMPRESS_ZLIB, ELFCOMPRESS_ZSTD, ELFDATA2LSB, ELFMAG, FileHeader64,
    PT_NOTE, ProgramHeader64, SHF_ALLOC, SHF_COMPRESSED, SHF_EXECINSTR, SHT_NOBITS, SHT_NOTE, SectionFlags,
    SectionHeader64, SectionType,
};
use object::pod::{self, Pod};
use std::cell::Cell;
use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, SystemTime};

const LE: LittleEndian = LittleEndian;

/// Larger files are not read. libtorch_cuda.so has about 1 GiB.
const LARGEST_FILE: u64 = 2 << 30;
/// The most bytes that are kept of one file, decompressed.
const MOST_KEPT: u64 = 1 << 30;
/// The most headers that are read of a file. Linkers write some tens of sections; with more than 65 279 the number itself
/// is written elsewhere, which no linked file needs.
const MOST_HEADERS: u64 = 65_279;
/// The most bytes of notes, and of a name.
const LARGEST_NOTE: u64 = 64 << 10;
const LONGEST_NAME: u64 = 16 << 10;

/// An ELF file for 64-bit little-endian machines.
#[derive(Debug)]
pub(super) struct Elf {
    file: File,
    bytes: u64,
    segments: Vec<ProgramHeader64<LittleEndian>>,
    sections: Vec<Section>,
    /// How many bytes may still be kept.
    left: Cell<u64>,
}

/// A section.
#[derive(Clone, Debug)]
pub(super) struct Section {
    name: Vec<u8>,
    /// Its type.
    pub kind: SectionType,
    header: SectionHeader64<LittleEndian>,
}

impl Section {
    /// Returns where it is in the file, and its size there.
    pub fn place(&self) -> (u64, u64) {
        match self.kind {
            SHT_NOBITS => (0, 0),
            _ => (self.header.sh_offset.get(LE), self.header.sh_size.get(LE)),
        }
    }

    /// Returns the index of the section that it refers to: the names of a symbol table.
    pub fn link(&self) -> usize {
        self.header.sh_link.get(LE) as usize
    }

    fn has(&self, flags: SectionFlags) -> bool {
        self.header.sh_flags.get(LE).contains(flags)
    }
}

impl Elf {
    /// Opens a file; `None` if it is none of these, or too large.
    pub fn open(path: &Path) -> Option<Elf> {
        // A pipe in its place would keep an ordinary open waiting.
        let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path).ok()?;
        let about = file.metadata().ok()?;
        if !about.is_file() || about.len() > LARGEST_FILE {
            return None;
        }
        let mut elf = Elf {
            file,
            bytes: about.len(),
            segments: Vec::new(),
            sections: Vec::new(),
            left: Cell::new(MOST_KEPT),
        };
        let head = elf.read(0, size_of::<FileHeader64<LittleEndian>>() as u64)?;
        let (head, _) = pod::from_bytes::<FileHeader64<LittleEndian>>(&head).ok()?;
        let ident = &head.e_ident;
        if (ident.magic, ident.class, ident.data) != (ELFMAG, ELFCLASS64, ELFDATA2LSB) {
            return None;
        }
        elf.segments = elf.table(head.e_phoff.get(LE), head.e_phnum.get(LE).into()).unwrap_or_default();
        let headers: Vec<SectionHeader64<LittleEndian>> =
            elf.table(head.e_shoff.get(LE), head.e_shnum.get(LE).into()).unwrap_or_default();
        elf.name(headers, head.e_shstrndx.get(LE).0.into());
        Some(elf)
    }

    /// Gives the sections their names.
    fn name(&mut self, headers: Vec<SectionHeader64<LittleEndian>>, names: usize) {
        let names = headers.get(names).and_then(|names| {
            let size = names.sh_size.get(LE);
            self.read(names.sh_offset.get(LE), size).filter(|_| size <= MOST_HEADERS * LONGEST_NAME)
        });
        let name = |header: &SectionHeader64<LittleEndian>| {
            let rest = names.as_deref()?.get(header.sh_name.get(LE) as usize..)?;
            rest.split(|byte| *byte == 0).next().filter(|name| name.len() < 256).map(<[u8]>::to_vec)
        };
        let section = |header: SectionHeader64<LittleEndian>| Section {
            name: name(&header).unwrap_or_default(),
            kind: header.sh_type.get(LE),
            header,
        };
        self.sections = headers.into_iter().map(section).collect();
    }

    /// Returns when it was last changed, or put in its place.
    pub fn changed(&self) -> Option<SystemTime> {
        let about = self.file.metadata().ok()?;
        let seconds = u64::try_from(about.ctime()).ok()?;
        let put = SystemTime::UNIX_EPOCH + Duration::new(seconds, about.ctime_nsec() as u32);
        Some(put.max(about.modified().ok()?))
    }

    /// Returns a section by its name.
    pub fn section(&self, name: &str) -> Option<&Section> {
        self.sections.iter().find(|section| section.name == name.as_bytes())
    }

    /// Returns a section by its type.
    pub fn of_kind(&self, kind: SectionType) -> Option<&Section> {
        self.sections.iter().find(|section| section.kind == kind)
    }

    /// Returns a section by its index.
    pub fn numbered(&self, number: usize) -> Option<&Section> {
        self.sections.get(number)
    }

    /// Whether an address is in a section of machine code. What a linker leaves out keeps its debug information, with
    /// addresses near 0, which is no code.
    pub fn is_code(&self, address: u64) -> bool {
        let mut code = self.sections.iter().filter(|s| s.has(SHF_ALLOC) && s.has(SHF_EXECINSTR));
        code.any(|section| {
            let from = address.checked_sub(section.header.sh_addr.get(LE));
            from.is_some_and(|from| from < section.header.sh_size.get(LE))
        })
    }

    /// Returns a section's bytes, decompressed; empty if the file has no such section, or it is too large.
    pub fn contents(&self, name: &str) -> Vec<u8> {
        self.section(name).and_then(|section| self.decompressed(section)).unwrap_or_default()
    }

    fn decompressed(&self, section: &Section) -> Option<Vec<u8>> {
        let (offset, size) = section.place();
        if !section.has(SHF_COMPRESSED) {
            return self.read(offset, size);
        }
        let head_bytes = size_of::<CompressionHeader64<LittleEndian>>() as u64;
        let head = self.read(offset, head_bytes)?;
        let (head, _) = pod::from_bytes::<CompressionHeader64<LittleEndian>>(&head).ok()?;
        let packed = self.read(offset.checked_add(head_bytes)?, size.checked_sub(head_bytes)?)?;
        let unpacked = head.ch_size.get(LE);
        self.keep(unpacked)?;
        let mut bytes = Vec::new();
        let kind = head.ch_type.get(LE);
        let read = if kind == ELFCOMPRESS_ZLIB {
            ZlibDecoder::new(&packed[..]).take(unpacked).read_to_end(&mut bytes)
        } else if kind == ELFCOMPRESS_ZSTD {
            zstd::Decoder::new(&packed[..]).ok()?.take(unpacked).read_to_end(&mut bytes)
        } else {
            return None;
        };
        read.is_ok_and(|read| read as u64 == unpacked).then_some(bytes)
    }

    /// Reads bytes of the file, which count as kept.
    pub fn read(&self, offset: u64, size: u64) -> Option<Vec<u8>> {
        if offset.checked_add(size)? > self.bytes {
            return None;
        }
        self.keep(size)?;
        let mut bytes = vec![0; size as usize];
        self.read_into(offset, &mut bytes)?;
        Some(bytes)
    }

    /// Fills a buffer with bytes of the file.
    pub fn read_into(&self, offset: u64, bytes: &mut [u8]) -> Option<()> {
        self.file.read_exact_at(bytes, offset).ok()
    }

    /// Reads a text that ends with a zero byte.
    pub fn text(&self, names: &Section, offset: u64) -> Option<String> {
        let (start, size) = names.place();
        let mut bytes = vec![0; size.checked_sub(offset)?.min(LONGEST_NAME) as usize];
        self.read_into(start.checked_add(offset)?, &mut bytes)?;
        let end = bytes.iter().position(|byte| *byte == 0)?;
        Some(String::from_utf8_lossy(&bytes[..end]).into_owned())
    }

    /// Returns the first bytes of its build id; zeros if it has none. A file of debug information has no bytes in its
    /// segments, and a file without section headers has only those.
    pub fn build_id(&self) -> BuildId {
        let sections = self.sections.iter().filter(|section| section.kind == SHT_NOTE);
        let sections = sections.map(|section| (section.place(), section.header.sh_addralign.get(LE)));
        let segments = self.segments.iter().filter(|segment| segment.p_type.get(LE) == PT_NOTE);
        let segments = segments
            .map(|segment| ((segment.p_offset.get(LE), segment.p_filesz.get(LE)), segment.p_align.get(LE)));
        let mut notes = sections.chain(segments).filter(|((_, size), _)| *size <= LARGEST_NOTE);
        let found = notes.find_map(|((offset, size), align)| {
            in_notes(&self.read(offset, size)?, if align == 8 { 8 } else { 4 })
        });
        found.unwrap_or_default()
    }

    /// Returns the CRC-32 of a file of at most so many bytes.
    pub fn check_sum(&self, most: u64) -> Option<u32> {
        let mut sum = crc32fast::Hasher::new();
        let (mut offset, mut piece) = (0, vec![0; 1 << 16]);
        while offset < self.bytes.min(most) {
            let count = (self.bytes - offset).min(piece.len() as u64);
            self.read_into(offset, &mut piece[..count as usize])?;
            sum.update(&piece[..count as usize]);
            offset += count;
        }
        (self.bytes <= most).then(|| sum.finalize())
    }

    /// Reads a table of headers.
    fn table<T: Pod + Clone>(&self, offset: u64, count: u64) -> Option<Vec<T>> {
        let count = count.min(MOST_HEADERS);
        let bytes = self.read(offset, count * size_of::<T>() as u64)?;
        Some(pod::slice_from_bytes::<T>(&bytes, count as usize).ok()?.0.to_vec())
    }

    /// Counts bytes as kept; `None` if they are too many.
    fn keep(&self, bytes: u64) -> Option<()> {
        self.left.set(self.left.get().checked_sub(bytes)?);
        Some(())
    }
}
