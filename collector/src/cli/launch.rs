//! Prepares a program to be started under the agent.

use super::Failure;
use crate::why::{said, why};
use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

/// The file name of the agent.
const AGENT: &str = "libgpuspy.so";

/// A directory that only this user can enter. It is removed with its contents when dropped.
#[derive(Debug)]
pub(super) struct PrivateDir(PathBuf);

impl PrivateDir {
    /// Creates the directory where the path of a Unix socket fits into `sun_path` and the dynamic loader accepts paths.
    pub(super) fn new() -> Result<PrivateDir, Failure> {
        let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
        let places = [runtime, Some(std::env::temp_dir()), Some(PathBuf::from("/tmp"))];
        let mut last = io::Error::from(io::ErrorKind::NotFound);
        for place in places.into_iter().flatten().filter(|p| p.is_absolute()) {
            for n in 0..1000 {
                let path = place.join(format!("gpuspy-{}-{n}", std::process::id()));
                // unix(7): sun_path has 108 bytes, including the final NUL.
                if path.as_os_str().len() + "/socket".len() >= 108 || !is_plain(&path) {
                    break;
                }
                match DirBuilder::new().mode(0o700).create(&path) {
                    Ok(()) => return Ok(PrivateDir(path)),
                    Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                    Err(e) => {
                        last = e;
                        break;
                    }
                }
            }
        }
        Err(Failure::usage(format_args!(
            "cannot create a directory for the socket: {}; set TMPDIR to a writable directory with a short path",
            said(&last)
        )))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for PrivateDir {
    fn drop(&mut self) {
        // If this fails, an unused socket file remains in a temporary directory.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Returns whether the loader reads a path in LD_PRELOAD as a single, literal path (ld.so(8): separators, and tokens like
/// `$ORIGIN`).
fn is_plain(path: &Path) -> bool {
    !path.as_os_str().as_bytes().iter().any(|b| b" :$\t\n".contains(b))
}

/// Finds the agent: `$GPUSPY_AGENT`, or the file beside this program.
pub(super) fn find_agent() -> Result<PathBuf, Failure> {
    let named = std::env::var_os("GPUSPY_AGENT").filter(|v| !v.is_empty()).map(PathBuf::from);
    let beside = || std::env::current_exe().ok()?.parent().map(|directory| directory.join(AGENT));
    let path = named.or_else(beside).unwrap_or_else(|| PathBuf::from(AGENT));
    let absolute = std::path::absolute(&path).unwrap_or(path);
    match File::open(&absolute) {
        Ok(_) => Ok(absolute),
        Err(e) => Err(Failure::usage(format_args!(
            "cannot open the agent {}: {}; keep {AGENT} beside gpuspy, or set GPUSPY_AGENT to its path",
            absolute.display(),
            said(&e)
        ))),
    }
}

/// Returns a path that the loader accepts for the agent: its own, or a link in the private directory.
pub(super) fn loadable(agent: &Path, private: &PrivateDir) -> Result<PathBuf, Failure> {
    if is_plain(agent) {
        return Ok(agent.to_owned());
    }
    let link = private.path().join(AGENT);
    symlink(agent, &link).map_err(|e| {
        Failure::usage(format_args!("cannot create the link {}: {}", link.display(), why(&e)))
    })?;
    Ok(link)
}

/// Returns the value of LD_PRELOAD that puts the agent before existing entries.
pub(super) fn preload(agent: &Path, existing: Option<OsString>) -> OsString {
    let mut value = OsString::from(agent);
    let existing = existing.unwrap_or_default();
    let others = existing.as_bytes().split(|b| b" :".contains(b));
    for other in others.filter(|other| !other.is_empty() && *other != agent.as_os_str().as_bytes()) {
        value.push(":");
        value.push(OsStr::from_bytes(other));
    }
    value
}

/// A program that ignores LD_PRELOAD.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct BlindSpot {
    /// Why the agent cannot be loaded into it.
    pub(super) reason: String,
    /// What to do about it.
    pub(super) remedy: &'static str,
}

/// Returns why the agent cannot be loaded into a program, if it is of a kind that ignores LD_PRELOAD.
pub(super) fn blind_spot(program: &OsStr) -> Option<BlindSpot> {
    let mut path = resolve(program)?;
    let mut begin = read_begin(&path)?;
    if let Some(line) = begin.strip_prefix(b"#!") {
        let line = line.split(|&b| b == b'\n').next()?;
        let interpreter = line.trim_ascii().split(|b| b" \t".contains(b)).next()?;
        path = PathBuf::from(OsStr::from_bytes(interpreter));
        begin = read_begin(&path)?;
    }
    let metadata = fs::metadata(&path).ok()?;
    let mode = metadata.permissions().mode();
    let shown = path.display();
    // A setuid program of the same user gains no rights, and the loader treats it like any other program.
    let changes_user = mode & 0o4000 != 0 && metadata.uid() != effective_uid()?;
    if changes_user || mode & 0o2010 == 0o2010 {
        return Some(BlindSpot {
            reason: format!(
                "{shown} is setuid or setgid, and the loader does not preload the agent into such a program"
            ),
            remedy: "run a copy of it without that bit, or run it as its owner",
        });
    }
    (begin.starts_with(b"\x7fELF") && !has_interpreter(&path)?).then(|| BlindSpot {
        reason: format!("{shown} is statically linked, and the agent cannot be loaded into it"),
        remedy: "link it dynamically, including the C library; programs that it starts are traced as usual",
    })
}

fn effective_uid() -> Option<u32> {
    // The owner of /proc/self is the effective user.
    fs::metadata("/proc/self").ok().map(|m| m.uid())
}

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

fn read_begin(path: &Path) -> Option<Vec<u8>> {
    let mut begin = Vec::new();
    File::open(path).ok()?.take(256).read_to_end(&mut begin).ok()?;
    Some(begin)
}

/// Returns whether a 64-bit ELF file names a loader (PT_INTERP). `None` if it is not such a file, or is cut.
fn has_interpreter(path: &Path) -> Option<bool> {
    /// The size of the header (elf(5)), which has the offset, size and number of the program headers.
    const HEADER: usize = 64;
    const PT_INTERP: u32 = 3;
    let mut file = File::open(path).ok()?;
    let mut header = [0; HEADER];
    file.read_exact(&mut header).ok()?;
    if header[4] != 2 {
        return None;
    }
    let at = u64::from_ne_bytes(header[32..40].try_into().ok()?);
    let each = u16::from_ne_bytes([header[54], header[55]]);
    let count = u16::from_ne_bytes([header[56], header[57]]);
    for n in 0..u64::from(count) {
        file.seek(SeekFrom::Start(at.checked_add(n * u64::from(each))?)).ok()?;
        let mut kind = [0; 4];
        file.read_exact(&mut kind).ok()?;
        if u32::from_ne_bytes(kind) == PT_INTERP {
            return Some(true);
        }
    }
    Some(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_private_directory_is_private_and_is_removed() {
        let private = PrivateDir::new().unwrap();
        let path = private.path().to_owned();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        drop(private);
        assert!(!path.exists());
    }

    #[test]
    fn an_existing_preload_is_kept() {
        let agent = Path::new("/a/libgpuspy.so");
        let value = preload(agent, Some("/x.so /y.so:/a/libgpuspy.so".into()));
        assert_eq!(value, "/a/libgpuspy.so:/x.so:/y.so");
        assert_eq!(preload(agent, None), "/a/libgpuspy.so");
    }

    #[test]
    fn an_awkward_path_is_linked_to_a_plain_one() {
        let place = tempfile::tempdir().unwrap();
        let agent = place.path().join("a b:c.so");
        fs::write(&agent, "agent").unwrap();
        let private = PrivateDir::new().unwrap();
        let path = loadable(&agent, &private).unwrap();
        assert!(is_plain(&path), "{path:?}");
        assert_eq!(fs::read(&path).unwrap(), b"agent");
    }

    #[test]
    fn programs_that_keep_the_agent_out_are_known() {
        assert_eq!(blind_spot(OsStr::new("sh")), None);
        assert_eq!(blind_spot(OsStr::new("/no/such/program")), None);
        let place = tempfile::tempdir().unwrap();
        // The header of a static program: ELF, 64 bits, no program headers.
        let program = place.path().join("static");
        let mut bytes = vec![0u8; 64];
        bytes[..5].copy_from_slice(b"\x7fELF\x02");
        fs::write(&program, &bytes).unwrap();
        assert!(blind_spot(program.as_os_str()).unwrap().reason.contains("statically linked"));
        let script = place.path().join("script");
        fs::write(&script, format!("#! {} -x\n", program.display())).unwrap();
        assert!(blind_spot(script.as_os_str()).unwrap().reason.contains("static is statically"));
        fs::set_permissions(&program, fs::Permissions::from_mode(0o2755)).unwrap();
        assert!(blind_spot(program.as_os_str()).unwrap().reason.contains("setgid"));
    }
}
