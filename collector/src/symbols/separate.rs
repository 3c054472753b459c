//! Debug information in a file of its own, where debuggers look for it.
//!
//! By the build id below `/usr/lib/debug/.build-id`, or by the name in `.gnu_debuglink` beside the file, in `.debug` beside
//! it, or below `/usr/lib/debug` (GDB, "Debugging Information in Separate Files").

use super::elf::Elf;
use gpuspy_wire::build_id::BuildId;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Where distributions install debug information.
const FOLDER: &str = "/usr/lib/debug";
/// A file that must be read whole to be believed may be as large as this.
const LARGEST_SUM: u64 = 256 << 20;

/// Returns the file with the debug information of `elf`, which lies at `path`. It is believed if it has the same build id,
/// or, if there is none, the check sum that the file says.
pub(super) fn debug_file(elf: &Elf, path: &Path) -> Option<Elf> {
    let build_id = elf.build_id();
    let link = elf.contents(".gnu_debuglink");
    let (name, sum) = debug_link(&link).unzip();
    let has_id = build_id != BuildId::default();
    let is_it = |debug: &Elf| match has_id {
        true => debug.build_id() == build_id,
        false => sum.is_some() && debug.check_sum(LARGEST_SUM) == sum,
    };
    let by_id = has_id.then(|| by_build_id(&build_id));
    // A path with links is where the debugger looks first; then the one without.
    let real = path.canonicalize().ok();
    let folders = [path.parent(), real.as_deref().and_then(Path::parent)].into_iter().flatten();
    let linked = folders.flat_map(|folder| name.map(|name| beside(folder, name)).into_iter().flatten());
    by_id.into_iter().chain(linked).filter_map(|file| Elf::open(&file)).find(is_it)
}

fn by_build_id(id: &BuildId) -> PathBuf {
    // Ids are as long as their linker made them; zeros at the end are those that the agent added.
    let length = id.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    let hex: String = id[..length].iter().map(|byte| format!("{byte:02x}")).collect();
    let (folder, name) = hex.split_at(hex.len().min(2));
    Path::new(FOLDER).join(".build-id").join(folder).join(format!("{name}.debug"))
}

fn beside(folder: &Path, name: &OsStr) -> [PathBuf; 3] {
    let below = Path::new(FOLDER).join(folder.strip_prefix("/").unwrap_or(folder));
    [folder.join(name), folder.join(".debug").join(name), below.join(name)]
}

/// Reads a `.gnu_debuglink`: a file's name that ends with a zero byte, padded to 4 bytes, and its CRC-32.
fn debug_link(section: &[u8]) -> Option<(&OsStr, u32)> {
    let end = section.iter().position(|byte| *byte == 0)?;
    let sum = section.get((end + 1).next_multiple_of(4)..)?.first_chunk()?;
    let name = OsStr::from_bytes(&section[..end]);
    // A name, not a path.
    (Path::new(name).file_name() == Some(name)).then(|| (name, u32::from_le_bytes(*sum)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_debug_link_is_a_name_and_a_sum() {
        let link = debug_link(b"prog.debug\0\0\x78\x56\x34\x12");
        assert_eq!(link, Some((OsStr::new("prog.debug"), 0x1234_5678)));
        for damaged in
            [&b""[..], b"prog", b"prog\0\0\0\0\x01\x02", b"\0\0\0\0\0\0\0\0", b"../x\0\0\0\0\0\0\0\0"]
        {
            assert_eq!(debug_link(damaged), None, "{damaged:?}");
        }
    }

    #[test]
    fn a_build_id_names_a_file() {
        let mut id = BuildId::default();
        id[..3].copy_from_slice(&[0xab, 0x01, 0xf0]);
        assert_eq!(by_build_id(&id), Path::new("/usr/lib/debug/.build-id/ab/01f0.debug"));
    }
}
