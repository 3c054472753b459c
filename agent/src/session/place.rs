//! Which file is the trace of a process whose collector the agent starts?

use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use crate::session::collector::Environment;
use crate::sys;

/// Where a trace will be.
pub struct Place {
    pub path: CString,
    /// Whether we have made the file.
    pub reserved: bool,
}

impl Place {
    /// Returns `GPUSPY_OUTPUT` or a name beside it, else a name of the process's own in the directory that the app was in at
    /// its first call or, where no file can be made, in `GPUSPY_DIR`, `TMPDIR` or /tmp. Such a file is made at once, so that
    /// no other trace is ever overwritten (a process that executes its own program again keeps its name and pid), and a
    /// report right after the process's end finds a trace that is about to be written. `start_time` is the process's, in
    /// clock ticks after the boot.
    pub fn find(environment: &Environment, start_time: u64) -> Result<Place, String> {
        if let Some(path) = environment.get("GPUSPY_OUTPUT") {
            let path = environment.path(path);
            let none =
                || format!("too many traces lie beside {}; set GPUSPY_OUTPUT to another", path.display());
            return Place::named(&path, start_time).ok_or_else(none);
        }
        let program = std::env::args_os().next().unwrap_or_default();
        let program = Path::new(&program).file_name().unwrap_or("program".as_ref()).to_string_lossy();
        let program: String = program.chars().map(|c| if in_a_name(c) { c } else { '_' }).collect();
        let stem = format!("gpuspy-{program}-{}", sys::pid());
        let here = environment.folder().map(Path::as_os_str);
        let [named, temporary] = ["GPUSPY_DIR", "TMPDIR"].map(|name| environment.get(name));
        let folders = [here, named, temporary, Some(OsStr::new("/tmp"))];
        let path = folders.into_iter().flatten().find_map(|folder| reserve(&environment.path(folder), &stem));
        let path = path.ok_or("no trace can be written here; set GPUSPY_DIR to a folder for it")?;
        Ok(Place { path, reserved: true })
    }

    /// Returns the place that the user has named or, where a file of that name has something in it or is about to be written by
    /// another process, that name with `-2`, `-3`, …: the variable names the first trace of several. What is no file, or cannot be
    /// made, is left to the collector, which says why. `None`: there are too many.
    fn named(path: &Path, start_time: u64) -> Option<Place> {
        let name = path.as_os_str().as_bytes();
        let stem = name.strip_suffix(b".gspy");
        let extension: &[u8] = if stem.is_some() { b".gspy" } else { b"" };
        (1..1000).find_map(|n: u32| {
            let nth = [stem.unwrap_or(name), format!("-{n}").as_bytes(), extension].concat();
            let path = if n == 1 { path } else { Path::new(OsStr::from_bytes(&nth)) };
            let reserved = match make(path) {
                Ok(_) => true,
                Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists && is_taken(path, start_time) => {
                    return None;
                }
                Err(_) => false,
            };
            Some(Place { path: CString::new(path.as_os_str().as_bytes()).ok()?, reserved })
        })
    }

    /// Removes the file that was made, when there will be no trace.
    pub fn give_up(&self) {
        if self.reserved {
            // SAFETY: a terminated path.
            unsafe { libc::unlink(self.path.as_ptr()) };
        }
    }
}

/// Whether a character of a program's name may be in that of its trace, as in the names that the collector makes.
fn in_a_name(c: char) -> bool {
    c.is_alphanumeric() || "._-+".contains(c)
}

/// Makes `FOLDER/STEM.gspy`, or with `-2`, `-3`, … when that exists. `None`: nothing can be made there.
fn reserve(folder: &Path, stem: &str) -> Option<CString> {
    for n in 1..1000 {
        let name = if n == 1 { format!("{stem}.gspy") } else { format!("{stem}-{n}.gspy") };
        let path = folder.join(name);
        match make(&path) {
            Ok(_) => return CString::new(path.as_os_str().as_bytes()).ok(),
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(_) => return None,
        }
    }
    None
}

/// Makes a file for a trace, which must not exist.
fn make(path: &Path) -> std::io::Result<std::fs::File> {
    std::fs::File::options().write(true).create_new(true).mode(0o600).open(path)
}

/// Whether a file that exists has something in it, or is about to: one that is empty and not older than this process may be
/// another's that has made it and whose collector has not begun. An older one was made by the user (`mktemp`) to be written.
fn is_taken(path: &Path, start_time: u64) -> bool {
    let Ok(found) = std::fs::metadata(path) else { return false };
    // SAFETY: sysconf only reads a number.
    let ticks_a_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) }.max(1) as u64;
    // The end of the tick in which this process was started.
    let started = start_time.saturating_add(1).saturating_mul(1_000_000_000 / ticks_a_second);
    let age = sys::clock_ns(libc::CLOCK_BOOTTIME).saturating_sub(started);
    let started = sys::clock_ns(libc::CLOCK_REALTIME).saturating_sub(age);
    let changed = (found.mtime().max(0) as u64).saturating_mul(1_000_000_000) + found.mtime_nsec() as u64;
    found.is_file() && (found.len() > 0 || changed > started)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::time::{Duration, SystemTime};

    fn find(output: &Path) -> (String, bool) {
        let environment = Environment::of(&[&format!("GPUSPY_OUTPUT={}", output.display())]);
        let place = Place::find(&environment, crate::sink::segment::start_time()).unwrap();
        let path = Path::new(OsStr::from_bytes(place.path.to_bytes()));
        (path.file_name().unwrap().to_string_lossy().into_owned(), place.reserved)
    }

    /// They lay where the program had gone since.
    #[test]
    fn relative_paths_are_relative_to_where_the_program_was_at_its_first_call() {
        let folder = std::env::temp_dir().join(format!("gpuspy-agent-relative-{}", std::process::id()));
        let traces = folder.join("traces");
        fs::create_dir_all(&traces).unwrap();
        for (variable, parent) in [("GPUSPY_OUTPUT=traces/run.gspy", &traces), ("GPUSPY_QUIET=1", &folder)] {
            let place = Place::find(&Environment::of_in(&folder, &[variable]), 0).unwrap();
            let path = Path::new(OsStr::from_bytes(place.path.to_bytes()));
            assert_eq!((path.parent(), place.reserved), (Some(&**parent), true), "{variable}");
        }
        fs::remove_dir_all(&folder).unwrap();
    }

    /// The trace lay in /tmp, wherever these variables said.
    #[test]
    fn where_the_working_directory_was_removed_traces_go_where_the_variables_say() {
        let folder = std::env::temp_dir().join(format!("gpuspy-agent-nowhere-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        for name in ["GPUSPY_DIR", "TMPDIR"] {
            let variable = format!("{name}={}", folder.display());
            let place = Place::find(&Environment::of_nowhere(&[&variable]), 0).unwrap();
            let path = Path::new(OsStr::from_bytes(place.path.to_bytes()));
            assert_eq!((path.parent(), place.reserved), (Some(&*folder), true), "{variable}");
        }
        fs::remove_dir_all(&folder).unwrap();
    }

    /// The trace was lost.
    #[test]
    fn an_empty_variable_counts_as_unset() {
        let folder = std::env::temp_dir().join(format!("gpuspy-agent-empty-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let environment =
            Environment::of_in(&folder, &["GPUSPY_OUTPUT=", "GPUSPY_SOCKET=", "GPUSPY_COLLECTOR="]);
        for name in ["GPUSPY_OUTPUT", "GPUSPY_SOCKET", "GPUSPY_COLLECTOR"] {
            assert_eq!(environment.get(name), None, "{name}");
        }
        let place = Place::find(&environment, 0).unwrap();
        let path = Path::new(OsStr::from_bytes(place.path.to_bytes()));
        assert_eq!((path.parent(), place.reserved), (Some(&*folder), true));
        fs::remove_dir_all(&folder).unwrap();
    }

    /// Of eight ranks with one `GPUSPY_OUTPUT`, seven had no trace, and a second program replaced the trace of the first.
    #[test]
    fn each_process_with_the_same_output_has_a_trace_of_its_own() {
        let folder = std::env::temp_dir().join(format!("gpuspy-agent-output-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let made = |name: &str| (name.to_owned(), true);
        for name in ["run.gspy", "run-2.gspy", "run-3.gspy"] {
            assert_eq!(find(&folder.join("run.gspy")), made(name), "the first of them is still empty");
        }
        fs::write(folder.join("plain.v1"), "a trace, or a file that is none").unwrap();
        assert_eq!(find(&folder.join("plain.v1")), made("plain.v1-2"));

        let older = fs::File::create(folder.join("older.gspy")).unwrap();
        older.set_modified(SystemTime::now() - Duration::from_secs(86_400)).unwrap();
        assert_eq!(
            find(&folder.join("older.gspy")),
            ("older.gspy".to_owned(), false),
            "the user has made it"
        );
        assert_eq!(find(Path::new("/dev/full")), ("full".to_owned(), false));
        assert_eq!(
            find(&folder.join("no/folder.gspy")),
            ("folder.gspy".to_owned(), false),
            "the collector says why"
        );
        fs::remove_dir_all(&folder).unwrap();
    }
}
