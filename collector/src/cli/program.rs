//! What kind of program is this, and can the agent be loaded into it?

use super::elf;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Why the agent cannot be loaded into a program.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct BlindSpot {
    /// Why, as a sentence without its full stop.
    pub(super) reason: String,
    /// What to do about it.
    pub(super) remedy: String,
    /// The program would not start with the agent in LD_PRELOAD. (Others ignore it.)
    pub(super) would_fail: bool,
}

/// The most scripts that name another script. The kernel has the same limit (BINPRM_MAX_RECURSION: 4, in newer kernels 5).
const INTERPRETERS: usize = 5;

/// Finds a program as execvp does.
pub(super) fn resolve(program: &OsStr) -> Option<PathBuf> {
    if program.as_bytes().contains(&b'/') {
        return Some(PathBuf::from(program));
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|directory| directory.join(program))
        .find(|candidate| candidate.is_file())
}

/// Returns the programs that run a file: itself, or for a script its interpreter, for as long as that is a script as well.
pub(super) fn interpreters(file: PathBuf) -> Vec<PathBuf> {
    let mut all = vec![file];
    while all.len() <= INTERPRETERS
        && let Some(next) = all.last().and_then(|script| interpreter(script))
    {
        all.push(next);
    }
    all
}

/// Returns the interpreter of a script: the program in its first line, or the one that `env` runs there.
fn interpreter(script: &Path) -> Option<PathBuf> {
    let mut begin = Vec::new();
    File::open(script).ok()?.take(256).read_to_end(&mut begin).ok()?;
    let line = begin.strip_prefix(b"#!")?.split(|&b| b == b'\n').next()?;
    let mut words = line.split(|b| b" \t".contains(b)).filter(|word| !word.is_empty());
    let first = PathBuf::from(OsStr::from_bytes(words.next()?));
    if first.file_name() != Some(OsStr::new("env")) {
        return Some(first);
    }
    // In `env -S NAME=VALUE program`, the program is the first word that is neither an option nor a variable.
    let named = words.find(|word| !word.starts_with(b"-") && !word.contains(&b'='))?;
    resolve(&OsString::from_vec(named.to_vec()))
}

/// Returns why the agent cannot be loaded into a command, if it cannot.
pub(super) fn blind_spot(command: &OsStr) -> Option<BlindSpot> {
    let programs = interpreters(resolve(command)?);
    let path = programs.last()?;
    let metadata = fs::metadata(path).ok()?;
    let elf = elf::read(path)?;
    let shown = path.display();
    let blind = |would_fail, reason: String, remedy: String| Some(BlindSpot { reason, remedy, would_fail });
    let mode = metadata.permissions().mode();
    // A setuid program of the same user gains no rights, and the loader treats it like any other program.
    let changes_user = mode & 0o4000 != 0 && metadata.uid() != effective_uid()?;
    if changes_user || mode & 0o2010 == 0o2010 {
        return blind(
            false,
            format!(
                "{shown} is setuid or setgid, and the loader does not preload the agent into such a program"
            ),
            "run a copy of it without that bit, or run it as its owner".into(),
        );
    }
    if !elf.is_native {
        return blind(
            true,
            format!("{shown} is for a processor other than the agent's"),
            "use a gpuspy that was built for that processor".into(),
        );
    }
    let Some(loader) = &elf.loader else {
        return blind(
            false,
            format!("{shown} is statically linked, and the agent cannot be loaded into it"),
            "link it dynamically, including the C library; programs that it starts are traced as usual"
                .into(),
        );
    };
    if loader.contains("ld-musl") {
        return blind(
            true,
            format!("{shown} is a program for musl ({loader}), and the agent is for glibc"),
            "use a build for glibc; CUDA itself supports nothing else".into(),
        );
    }
    let sanitizer = elf.needed.iter().find(|name| must_be_first(name))?;
    if is_preloaded(sanitizer) {
        return None;
    }
    blind(
        true,
        format!("{shown} needs {sanitizer} to be the first of all libraries, in front of the agent"),
        format!("start it with LD_PRELOAD={sanitizer}:/PATH/TO/libgpuspy.so, without gpuspy run"),
    )
}

/// Whether a library is a shared runtime of AddressSanitizer (GCC's or Clang's), which ends the program if another library
/// comes before it.
pub(super) fn must_be_first(library: &str) -> bool {
    let name = library.rsplit('/').next().unwrap_or(library);
    name.starts_with("libasan.so") || name.starts_with("libclang_rt.asan")
}

/// Whether LD_PRELOAD has this library.
fn is_preloaded(library: &str) -> bool {
    let preloaded = std::env::var_os("LD_PRELOAD").unwrap_or_default();
    let mut names = preloaded.as_bytes().split(|b| b" :".contains(b));
    names.any(|name| name.rsplit(|b| *b == b'/').next() == Some(library.as_bytes()))
}

fn effective_uid() -> Option<u32> {
    // The owner of /proc/self is the effective user.
    fs::metadata("/proc/self").ok().map(|m| m.uid())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A 64-bit program of this machine without program headers, which is a static one.
    fn statically_linked() -> Vec<u8> {
        let mut header = vec![0u8; 64];
        File::open("/proc/self/exe").unwrap().read_exact(&mut header).unwrap();
        // e_phoff, e_shoff; then e_phnum, e_shentsize, e_shnum and e_shstrndx.
        header[32..48].fill(0);
        header[56..64].fill(0);
        header
    }

    #[test]
    fn programs_that_keep_the_agent_out_are_known() {
        assert_eq!(blind_spot(OsStr::new("sh")), None);
        assert_eq!(blind_spot(OsStr::new("/no/such/program")), None);
        let place = tempfile::tempdir().unwrap();
        let program = place.path().join("static");
        fs::write(&program, statically_linked()).unwrap();
        let spot = blind_spot(program.as_os_str()).unwrap();
        assert!(spot.reason.contains("statically linked") && !spot.would_fail, "{spot:?}");
        let script = place.path().join("script");
        fs::write(&script, format!("#! {} -x\n", program.display())).unwrap();
        assert!(blind_spot(script.as_os_str()).unwrap().reason.contains("static is statically"));
        fs::set_permissions(&program, fs::Permissions::from_mode(0o2755)).unwrap();
        assert!(blind_spot(program.as_os_str()).unwrap().reason.contains("setgid"));
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(&program, "\x7fELF\x01\x01").unwrap();
        let spot = blind_spot(program.as_os_str()).unwrap();
        assert!(spot.reason.contains("another processor") || spot.reason.contains("a processor other"));
        assert!(spot.would_fail);
    }

    #[test]
    fn runtimes_of_address_sanitizer_are_known() {
        for name in ["libasan.so.8", "/usr/lib/libasan.so", "libclang_rt.asan-x86_64.so"] {
            assert!(must_be_first(name), "{name}");
        }
        for name in ["libtsan.so.2", "libubsan.so.1", "asan.so", "/libasan.so.8/libx.so"] {
            assert!(!must_be_first(name), "{name}");
        }
    }
}
