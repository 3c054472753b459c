//! Fat binaries: code for several architectures in one image. No public header describes their layout; it was found by
//! reading files that nvcc 13.5 wrote with known `-arch` and `-gencode` options.

use crate::config::config;

/// The magic numbers of a fat binary, and of the structure that points to one (fatbinary_section.h has the latter).
pub const MAGIC: [u8; 4] = 0xBA55_ED50u32.to_le_bytes();
pub const WRAPPER_MAGIC: [u8; 4] = 0x4662_43B1u32.to_le_bytes();

/// The device's architecture, as `CU_FUNC_ATTRIBUTE_BINARY_VERSION` counts: ten times the major number and the minor one.
const DEVICE: u32 = 90;

/// The kinds of entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Code {
    /// PTX text, perhaps compressed.
    Text,
    /// An ELF file.
    Binary,
}

/// An entry: a piece of code for an architecture.
#[derive(Clone, Copy, Debug)]
struct Entry<'a> {
    code: Code,
    architecture: u32,
    bytes: &'a [u8],
}

/// The architectures that a kernel was compiled from and for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Versions {
    /// `CU_FUNC_ATTRIBUTE_PTX_VERSION`.
    pub ptx: u32,
    /// `CU_FUNC_ATTRIBUTE_BINARY_VERSION`.
    pub binary: u32,
}

impl Default for Versions {
    fn default() -> Self {
        Self { ptx: DEVICE, binary: DEVICE }
    }
}

impl Versions {
    /// The versions of PTX text, which is compiled for the device when it is loaded.
    pub fn of_text(architecture: u32) -> Self {
        Self { ptx: architecture, binary: DEVICE }
    }

    /// The versions of an ELF file. The file does not say what it was compiled from; PTX of the same architecture is
    /// assumed, as with `-arch`.
    pub fn of_binary(architecture: u32) -> Self {
        Self { ptx: architecture, binary: architecture }
    }

    /// The versions of the chosen entry: the newest binary that the device can run (CUDA programming guide, "Binary
    /// Compatibility": one of its major number, and no newer). Without one, a real device compiles the newest PTX. The
    /// simulator runs no code and reports the versions of a binary of another architecture, except under
    /// `other_binaries=compiled`.
    fn of(entries: &[Entry<'_>]) -> Self {
        let of = |code: Code| {
            entries.iter().filter(move |entry| entry.code == code).map(|entry| entry.architecture)
        };
        let fits = |architecture: &u32| architecture / 10 == DEVICE / 10 && *architecture <= DEVICE;
        let other = if config().assume.is("other_binaries", "taken") { of(Code::Binary).max() } else { None };
        let text = of(Code::Text).filter(|architecture| *architecture <= DEVICE).max();
        match (of(Code::Binary).filter(fits).max().or(other), text) {
            (Some(architecture), _) => Self::of_binary(architecture),
            (None, Some(architecture)) => Self::of_text(architecture),
            (None, None) => Self::default(),
        }
    }
}

/// Reads the versions of a fat binary, and its first uncompressed text.
///
/// # Safety
/// `image` points to a whole fat binary or to a structure that wraps one.
pub unsafe fn read(image: *const u8) -> (Versions, Option<String>) {
    // SAFETY: the caller's: the wrapper has a magic number, a version and the address of the binary.
    let binary = unsafe {
        if *image.cast::<[u8; 4]>() == WRAPPER_MAGIC {
            image.add(8).cast::<*const u8>().read_unaligned()
        } else {
            image
        }
    };
    // SAFETY: the caller's.
    let entries = if binary.is_null() { Vec::new() } else { unsafe { entries(binary) } };
    let texts = entries.iter().filter(|entry| entry.code == Code::Text && !entry.bytes.is_empty());
    let mut texts = texts.map(|entry| String::from_utf8_lossy(entry.bytes).trim_end_matches('\0').to_owned());
    (Versions::of(&entries), texts.find(|text| text.contains(".version")))
}

unsafe fn entries<'a>(binary: *const u8) -> Vec<Entry<'a>> {
    // SAFETY: the caller's: the header gives the start and size of the entries, and each entry its own.
    unsafe {
        if *binary.cast::<[u8; 4]>() != MAGIC {
            return Vec::new();
        }
        let (begin, bytes) = (short(binary, 6) as usize, long(binary, 8) as usize);
        let (mut at, mut found) = (0, Vec::new());
        while at + 64 <= bytes {
            let entry = binary.add(begin + at);
            let (header, payload) = (short(entry, 4) as usize, long(entry, 8) as usize);
            let code = match short(entry, 0) {
                1 => Some(Code::Text),
                2 => Some(Code::Binary),
                _ => None,
            };
            if header < 64 || payload > bytes - at {
                break;
            }
            let bytes = std::slice::from_raw_parts(entry.add(header), payload);
            let architecture = u32::from(short(entry, 28));
            found.extend(code.map(|code| Entry { code, architecture, bytes }));
            at += header + payload;
        }
        found
    }
}

unsafe fn short(from: *const u8, at: usize) -> u16 {
    // SAFETY: the caller's.
    u16::from_le_bytes(unsafe { from.add(at).cast::<[u8; 2]>().read() })
}

unsafe fn long(from: *const u8, at: usize) -> u64 {
    // SAFETY: the caller's.
    u64::from_le_bytes(unsafe { from.add(at).cast::<[u8; 8]>().read() })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Kind, architecture and content of each entry.
    fn binary(entries: &[(u16, u16, &[u8])]) -> Vec<u8> {
        let mut body: Vec<u8> = Vec::new();
        for (kind, architecture, bytes) in entries {
            let mut header = [0u8; 64];
            header[..2].copy_from_slice(&kind.to_le_bytes());
            header[4] = 64;
            header[8..16].copy_from_slice(&(bytes.len() as u64).to_le_bytes());
            header[28..30].copy_from_slice(&architecture.to_le_bytes());
            body.extend(header.iter().chain(*bytes));
        }
        let mut whole = MAGIC.to_vec();
        whole.extend([1, 0, 16, 0]);
        whole.extend((body.len() as u64).to_le_bytes());
        whole.extend(body);
        whole
    }

    fn versions(entries: &[(u16, u16, &[u8])]) -> (u32, u32) {
        let binary = binary(entries);
        // SAFETY: a whole fat binary.
        let (Versions { ptx, binary }, _) = unsafe { read(binary.as_ptr()) };
        (ptx, binary)
    }

    #[test]
    fn the_versions_are_those_of_the_entry_that_the_device_uses() {
        assert_eq!(versions(&[]), (90, 90));
        assert_eq!(versions(&[(2, 80, &[]), (1, 80, &[])]), (80, 80), "-arch=sm_80");
        assert_eq!(versions(&[(2, 75, &[]), (2, 90, &[]), (2, 100, &[]), (1, 100, &[])]), (90, 90));
        assert_eq!(
            versions(&[(1, 75, &[]), (1, 80, &[]), (1, 120, &[])]),
            (80, 90),
            "text is compiled for the device"
        );
        assert_eq!(versions(&[(7, 80, &[])]), (90, 90), "neither of the two");
    }

    #[test]
    fn text_is_found_plain_and_in_a_wrapper() {
        let text = b".version 8.0\n.visible .entry k() { ret; }\n\0";
        let whole = binary(&[(2, 80, &[0x7f]), (1, 80, &[0x28, 0xb5]), (1, 80, text)]);
        let wrapper = [u64::from(u32::from_le_bytes(WRAPPER_MAGIC)) | 1 << 32, whole.as_ptr() as u64];
        // SAFETY: a structure that wraps a whole fat binary.
        let (_, found) = unsafe { read(wrapper.as_ptr().cast()) };
        assert_eq!(found.as_deref(), Some(".version 8.0\n.visible .entry k() { ret; }\n"));
    }
}
