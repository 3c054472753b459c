//! The simulated GPU, for machines without a real one: a `libcuda.so.1` that comes first on the loader's path.

use crate::cli::Failure;
use crate::cli::installation;
use crate::cli::launch::PrivateDir;
use std::ffi::OsString;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// The name of the simulated GPU.
pub(super) const NAME: &str = "Simulated GPU";
/// The variable with the directory of the simulator.
const FOLDER: &str = "GPUSPY_SIM";

/// The file names that the simulated driver may have: the one that programs load, and the one that is built.
const FILES: [&str; 2] = ["libcuda.so.1", "libsimcuda.so"];

/// Links the simulator into a directory and returns an `LD_LIBRARY_PATH` that starts with it. The error says `why` a real GPU
/// cannot be used.
pub(super) fn library_path(place: &PrivateDir, why: &str) -> Result<OsString, Failure> {
    let file = find(why)?;
    // The directory has nothing else that the loader could find.
    let link = place.path().join(FILES[0]);
    symlink(&file, &link).map_err(|e| {
        Failure::usage(format_args!("cannot create the link {}: {}", link.display(), crate::why::why(&e)))
    })?;
    let mut path = place.path().as_os_str().to_owned();
    if let Some(existing) = std::env::var_os("LD_LIBRARY_PATH").filter(|path| !path.is_empty()) {
        path.push(":");
        path.push(existing);
    }
    Ok(path)
}

/// Finds the simulated driver: in `$GPUSPY_SIM`, where it is [installed](installation), or where `scripts/build-sim.sh` puts it.
fn find(why: &str) -> Result<PathBuf, Failure> {
    if let Some(folder) = std::env::var_os(FOLDER).filter(|folder| !folder.is_empty()) {
        return in_folder(Path::new(&folder)).ok_or_else(|| {
            let folder = folder.display();
            Failure::usage(format_args!("no GPU can be used ({why}), and {FOLDER}={folder} has no simulator"))
        });
    }
    let built = || in_folder(&std::env::current_exe().ok()?.parent()?.parent()?.join("sim/lib"));
    let found = installation::part("libsimcuda.so").or_else(built);
    found.ok_or_else(|| {
        Failure::usage(format_args!(
            "no GPU can be used ({why}), and there is no simulator: put libsimcuda.so beside gpuspy, or set {FOLDER} to its \
             directory; scripts/build-sim.sh in gpuspy's source builds it"
        ))
    })
}

fn in_folder(folder: &Path) -> Option<PathBuf> {
    FILES.iter().find_map(|name| existing(folder.join(name)))
}

/// Returns the absolute path of a file, if it exists.
fn existing(path: PathBuf) -> Option<PathBuf> {
    path.canonicalize().ok().filter(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_simulator_is_found_under_either_name() {
        let place = tempfile::tempdir().unwrap();
        assert_eq!(in_folder(place.path()), None);
        for name in ["libsimcuda.so", "libcuda.so.1"] {
            let file = place.path().join(name);
            std::fs::write(&file, "").unwrap();
            assert_eq!(in_folder(place.path()), Some(file.canonicalize().unwrap()), "{name}");
        }
    }
}
