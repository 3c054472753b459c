//! Where the files of gpuspy are: all in one folder, or as packages install them, `bin/gpuspy` and `lib/gpuspy/*.so`.

use std::path::{Path, PathBuf};

/// The folder of the libraries, from that of the program.
const LIBRARIES: &str = "../lib/gpuspy";

/// Returns the path of a file of the installation: beside this program, else in its `lib/gpuspy/`; `None` if it is in neither.
pub(super) fn part(name: &str) -> Option<PathBuf> {
    beside(&std::env::current_exe().ok()?, name)
}

fn beside(program: &Path, name: &str) -> Option<PathBuf> {
    // A link to the program, as pipx makes them, says nothing about the other files.
    let program = program.canonicalize().ok()?;
    let folder = program.parent()?;
    let found =
        [folder.join(name), folder.join(LIBRARIES).join(name)].into_iter().find(|path| path.is_file());
    found.and_then(|path| path.canonicalize().ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_part_is_beside_the_program_or_in_the_folder_of_its_libraries() {
        let place = tempfile::tempdir().unwrap();
        let place = place.path().canonicalize().unwrap();
        let (bin, lib) = (place.join("bin"), place.join("lib/gpuspy"));
        fs::create_dir_all(&bin).unwrap();
        fs::create_dir_all(&lib).unwrap();
        let (program, link) = (bin.join("gpuspy"), place.join("link"));
        fs::write(&program, "").unwrap();
        std::os::unix::fs::symlink(&program, &link).unwrap();
        assert_eq!(beside(&program, "agent.so"), None);
        fs::write(lib.join("agent.so"), "").unwrap();
        for start in [&program, &link] {
            assert_eq!(beside(start, "agent.so"), Some(lib.join("agent.so")));
        }
        fs::write(bin.join("agent.so"), "").unwrap();
        assert_eq!(beside(&link, "agent.so"), Some(bin.join("agent.so")));
    }
}
