//! Prepares a program to be started under the agent.

use super::{Failure, installation, program};
use crate::collect::{process, sys};
use crate::why::{said, why};
use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The file name of the agent.
const AGENT: &str = "libgpuspy.so";
/// The file name of the socket in a private directory.
pub(super) const SOCKET: &str = "socket";

/// A directory that only this user can enter. It is removed with its contents when dropped.
#[derive(Debug)]
pub(super) struct PrivateDir(PathBuf);

impl PrivateDir {
    /// Creates the directory where the path of a Unix socket fits into `sun_path` and the dynamic loader accepts paths.
    pub(super) fn new() -> Result<PrivateDir, Failure> {
        let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
        // Where all else is read-only, as in a container, that for traces can be written.
        let for_traces = std::env::var_os("GPUSPY_DIR").map(PathBuf::from);
        let places = [runtime, Some(std::env::temp_dir()), Some(PathBuf::from("/tmp")), for_traces];
        let mut last = io::Error::from(io::ErrorKind::NotFound);
        let prefix = prefix();
        for place in places.into_iter().flatten().filter(|p| p.is_absolute()) {
            remove_abandoned(&place);
            for n in 0..1000 {
                let path = place.join(format!("{prefix}{}-{n}", std::process::id()));
                // unix(7): sun_path has 108 bytes, including the final NUL.
                if path.join(SOCKET).as_os_str().len() >= 108 || !is_plain(&path) {
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
            "cannot create a directory for the socket: {}; set TMPDIR or GPUSPY_DIR to a writable directory with a short path",
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

/// For so long after it was made, a directory may belong to a run that does not listen yet.
const YOUNG: Duration = Duration::from_secs(60);

/// Returns what the names of private directories begin with. It contains the first digits of the boot id: several machines may share
/// a place, and no machine sees who listens on another one.
fn prefix() -> String {
    format!("gpuspy-{:06x}-", process::boot().unwrap_or(0) >> 40)
}

/// Removes the private directories of this user's runs on this machine that were killed (SIGKILL): nobody listens on their sockets.
fn remove_abandoned(place: &Path) {
    let Ok(ours) = fs::metadata("/proc/self").map(|process| process.uid()) else { return };
    let (names, prefix) = (fs::read_dir(place).into_iter().flatten().flatten(), prefix());
    for entry in names.filter(|entry| entry.file_name().as_bytes().starts_with(prefix.as_bytes())) {
        let Ok(found) = entry.metadata() else { continue };
        let is_private = found.is_dir() && found.mode() & 0o777 == 0o700 && found.uid() == ours;
        let is_young =
            found.modified().ok().and_then(|made| made.elapsed().ok()).is_none_or(|age| age < YOUNG);
        let is_silent = || matches!(sys::is_listened_on(&entry.path().join(SOCKET)), Ok(false));
        if is_private && !is_young && is_silent() {
            // If this fails, the next run tries it again.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Returns whether the loader reads a path in LD_PRELOAD as a single, literal path (ld.so(8): separators, and tokens like
/// `$ORIGIN`).
fn is_plain(path: &Path) -> bool {
    !path.as_os_str().as_bytes().iter().any(|b| b" :$\t\n".contains(b))
}

/// Finds the agent: `$GPUSPY_AGENT`, or the [installed](installation) file.
pub(super) fn find_agent() -> Result<PathBuf, Failure> {
    let named = std::env::var_os("GPUSPY_AGENT").filter(|v| !v.is_empty()).map(PathBuf::from);
    let beside = || std::env::current_exe().ok()?.parent().map(|directory| directory.join(AGENT));
    let installed = || installation::part(AGENT).or_else(beside);
    let path = named.or_else(installed).unwrap_or_else(|| PathBuf::from(AGENT));
    let absolute = std::path::absolute(&path).unwrap_or(path);
    match File::open(&absolute) {
        Ok(_) => Ok(absolute),
        // Cargo installs programs, and no libraries.
        Err(e) => Err(Failure::usage(format_args!(
            "cannot open the agent {}: {}; keep {AGENT} beside gpuspy or in ../lib/gpuspy, or set GPUSPY_AGENT to its path \
             (`cargo install` leaves it out: scripts/package.sh in gpuspy's source makes packages that have both)",
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

/// Returns the value of LD_PRELOAD that puts the agent before existing entries, except for a runtime of AddressSanitizer,
/// which must be the first.
pub(super) fn preload(agent: &Path, existing: Option<OsString>) -> OsString {
    let existing = existing.unwrap_or_default();
    let is_other = |other: &&[u8]| !other.is_empty() && *other != agent.as_os_str().as_bytes();
    let others = existing.as_bytes().split(|b| b" :".contains(b)).filter(is_other);
    let (first, last): (Vec<&[u8]>, Vec<&[u8]>) =
        others.partition(|other| program::must_be_first(&String::from_utf8_lossy(other)));
    let all = first.into_iter().chain([agent.as_os_str().as_bytes()]).chain(last);
    OsStr::from_bytes(&all.collect::<Vec<_>>().join(&b':')).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::UnixListener;
    use std::time::SystemTime;

    #[test]
    fn a_private_directory_is_private_and_is_removed() {
        let private = PrivateDir::new().unwrap();
        let path = private.path().to_owned();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        drop(private);
        assert!(!path.exists());
    }

    #[test]
    fn only_directories_of_killed_runs_are_removed() {
        let place = tempfile::tempdir().unwrap();
        let make = |name: &str| {
            let path = place.path().join(name);
            DirBuilder::new().mode(0o700).create(&path).unwrap();
            (UnixListener::bind(path.join(SOCKET)).unwrap(), path)
        };
        let age = |path: &Path| {
            let made = SystemTime::now() - 2 * YOUNG;
            File::open(path).unwrap().set_modified(made).unwrap();
        };
        let named = |rest: &str| make(&format!("{}{rest}", prefix()));
        let [(first, killed), (second, young), (listens, alive)] = ["1-0", "2-0", "4-0"].map(named);
        let (third, of_another) = make("other-3-0");
        drop((first, second, third));
        [&killed, &of_another, &alive].into_iter().for_each(|path| age(path));
        remove_abandoned(place.path());
        assert_eq!([killed, young, of_another, alive].map(|path| path.exists()), [false, true, true, true]);
        drop(listens);
    }

    /// Where machines share TMPDIR, a run that began on one removed the socket of a run on another: no process here listens on it.
    #[test]
    fn directories_of_runs_on_other_machines_are_not_removed() {
        let place = tempfile::tempdir().unwrap();
        let [here, elsewhere] = [prefix(), prefix().replace(|c: char| c.is_ascii_hexdigit(), "x")];
        let [here, elsewhere] = [here, elsewhere].map(|prefix| {
            let path = place.path().join(format!("{prefix}1-0"));
            DirBuilder::new().mode(0o700).create(&path).unwrap();
            drop(UnixListener::bind(path.join(SOCKET)).unwrap());
            let made = SystemTime::now() - 2 * YOUNG;
            File::open(&path).unwrap().set_modified(made).unwrap();
            path
        });
        remove_abandoned(place.path());
        assert_eq!((here.exists(), elsewhere.exists()), (false, true));
    }

    #[test]
    fn an_existing_preload_is_kept() {
        let agent = Path::new("/a/libgpuspy.so");
        let value = preload(agent, Some("/x.so /y.so:/a/libgpuspy.so".into()));
        assert_eq!(value, "/a/libgpuspy.so:/x.so:/y.so");
        assert_eq!(preload(agent, None), "/a/libgpuspy.so");
        let value = preload(agent, Some("/x.so:libasan.so.8".into()));
        assert_eq!(value, "libasan.so.8:/a/libgpuspy.so:/x.so");
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
}
