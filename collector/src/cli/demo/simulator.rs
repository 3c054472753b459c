//! The simulated GPU, for machines without a real one: a `libcuda.so.1` that goes before any other on the loader's path.

use crate::cli::Failure;
use crate::cli::launch::PrivateDir;
use std::ffi::OsString;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// What the simulator calls its GPU.
pub(super) const NAME: &str = "Simulated GPU";
/// The variable that names the folder of the simulator.
const FOLDER: &str = "GPUSPY_SIM";

/// Names under which the driver may lie in a folder of its own: as a program finds it, and as it is built.
const FILES: [&str; 2] = ["libcuda.so.1", "libsimcuda.so"];

/// Puts the simulator where the loader finds it, and returns the `LD_LIBRARY_PATH` that makes it look there. `why` a real GPU
/// cannot be used stands in the error.
pub(super) fn library_path(place: &PrivateDir, why: &str) -> Result<OsString, Failure> {
    let file = find(why)?;
    // The link is where the loader looks, and all that it finds there.
    let link = place.path().join(FILES[0]);
    symlink(&file, &link).map_err(|e| {
        Failure::usage(format_args!("cannot make the link {}: {}", link.display(), crate::why::why(&e)))
    })?;
    let mut path = place.path().as_os_str().to_owned();
    if let Some(existing) = std::env::var_os("LD_LIBRARY_PATH").filter(|path| !path.is_empty()) {
        path.push(":");
        path.push(existing);
    }
    Ok(path)
}

/// The driver: in `$GPUSPY_SIM`, beside this program, or where `scripts/build-sim.sh` leaves it.
fn find(why: &str) -> Result<PathBuf, Failure> {
    if let Some(folder) = std::env::var_os(FOLDER).filter(|folder| !folder.is_empty()) {
        return in_folder(Path::new(&folder)).ok_or_else(|| {
            let folder = folder.display();
            Failure::usage(format_args!(
                "no GPU can be used here ({why}), and {FOLDER}={folder} holds no simulator"
            ))
        });
    }
    let program = std::env::current_exe().ok();
    let beside = program.as_deref().and_then(Path::parent);
    let found = beside.and_then(|beside| {
        existing(beside.join("libsimcuda.so")).or_else(|| in_folder(&beside.parent()?.join("sim/lib")))
    });
    found.ok_or_else(|| {
        Failure::usage(format_args!(
            "no GPU can be used here ({why}), and there is no simulator for one: put libsimcuda.so beside gpuspy, or name its \
             folder in {FOLDER}; scripts/build-sim.sh in gpuspy's source builds it"
        ))
    })
}

fn in_folder(folder: &Path) -> Option<PathBuf> {
    FILES.iter().find_map(|name| existing(folder.join(name)))
}

/// The file behind a path, by a name that holds from anywhere.
fn existing(path: PathBuf) -> Option<PathBuf> {
    path.canonicalize().ok().filter(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_may_hold_it_under_either_name() {
        let place = tempfile::tempdir().unwrap();
        assert_eq!(in_folder(place.path()), None);
        for name in ["libsimcuda.so", "libcuda.so.1"] {
            let file = place.path().join(name);
            std::fs::write(&file, "").unwrap();
            assert_eq!(in_folder(place.path()), Some(file.canonicalize().unwrap()), "{name}");
        }
    }
}
