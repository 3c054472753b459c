//! What is written beside its target until it is complete.
//!
//! Who writes such a part holds its lock, which the system takes back however the process ends. So the next export of
//! the same target removes what an interrupted one left.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// What follows the target in the name of a part, before the id of the process that writes it.
const MARK: &str = ".gpuspy-";
/// What follows that id.
const END: &str = ".part";

/// Returns where a part of a target is written, and removes those that interrupted exports left. Its name begins with
/// `dot`.
pub(super) fn beside(target: &Path, dot: &str) -> PathBuf {
    let mut name = OsString::from(dot);
    name.push(target.file_name().unwrap_or_default());
    name.push(MARK);
    let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty());
    remove_left(folder.unwrap_or(Path::new(".")), name.as_encoded_bytes());
    name.push(format!("{}{END}", std::process::id()));
    target.with_file_name(name)
}

/// Keeps other exports from removing a part while it is open. On a file system without locks, none removes it.
pub(super) fn hold(part: &File) {
    let _ = part.try_lock();
}

/// Removes the parts in a folder whose names begin like this and that nobody writes. What cannot be removed stays.
fn remove_left(folder: &Path, start: &[u8]) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let (name, path) = (entry.file_name(), entry.path());
        let process = name.as_encoded_bytes().strip_prefix(start);
        let process = process.and_then(|rest| rest.strip_suffix(END.as_bytes()));
        let is_part = process.is_some_and(|id| !id.is_empty() && id.iter().all(u8::is_ascii_digit));
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        // Over a network, only a file that can be written can be locked.
        let open = || File::options().read(true).write(!is_folder).open(&path);
        if is_part && open().is_ok_and(|part| part.try_lock().is_ok()) {
            let _ = if is_folder { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An export of many GB that was interrupted left them for ever.
    #[test]
    fn what_interrupted_exports_left_is_removed_and_what_is_being_written_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let left = ["x.json.gpuspy-7.part", "x.json.gpuspy-8.part"];
        let others =
            ["x.json", "x.json.7.part", "x.json.gpuspy-.part", "x.json.gpuspy-7", "y.json.gpuspy-7.part"];
        for name in left.iter().chain(&others) {
            fs::write(at(name), "").unwrap();
        }
        fs::create_dir_all(at("x.json.gpuspy-9.part/host=a")).unwrap();
        let written = File::options().write(true).open(at(left[1])).unwrap();
        hold(&written);
        let part = beside(&at("x.json"), "");
        assert_eq!(part, at(&format!("x.json.gpuspy-{}.part", std::process::id())));
        assert!(others.iter().all(|name| at(name).exists()));
        assert!(!at(left[0]).exists() && !at("x.json.gpuspy-9.part").exists() && at(left[1]).exists());
        drop(written);
        beside(&at("x.json"), "");
        assert!(!at(left[1]).exists());
    }

    #[test]
    fn the_part_of_a_target_without_a_folder_has_none_either() {
        let part = beside(Path::new("job=j"), ".");
        assert_eq!(part, Path::new(&format!(".job=j.gpuspy-{}.part", std::process::id())));
    }
}
