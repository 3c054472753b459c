//! Which file is the trace of a process whose collector the agent starts?

use gpuspy_wire::TRACE_MAGIC;
use std::ffi::{CString, OsStr};
use std::fs::{File, Permissions, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use crate::session::environment::Environment;
use crate::sys;

/// Where a trace will be.
pub struct Place {
    pub path: CString,
    file: Reserved,
}

/// Whose the file at a place is until a collector writes it. One that is this process's has [`TRACE_MAGIC`] in it, so that other
/// processes with the same `GPUSPY_OUTPUT` take another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Reserved {
    /// We have made it.
    Made,
    /// It was there, and empty: the user has made it (`mktemp`) to be written.
    Marked,
    /// It is no file, or cannot be written: the collector says why.
    No,
}

impl Place {
    /// Returns `GPUSPY_OUTPUT` or a name beside it, else a name of the process's own in the directory that the app was in at
    /// its first call or, where no file can be made, in `GPUSPY_DIR`, `TMPDIR` or /tmp. Such a file is made at once, so that
    /// no other trace is ever overwritten (a process that executes its own program again keeps its name and pid), and a
    /// report right after the process's end finds a trace that is about to be written.
    pub fn find(environment: &Environment) -> Result<Place, String> {
        if let Some(path) = environment.get("GPUSPY_OUTPUT") {
            let path = environment.path(path);
            let none =
                || format!("too many traces lie beside {}; set GPUSPY_OUTPUT to another", path.display());
            return Place::named(&path).ok_or_else(none);
        }
        let program = std::env::args_os().next().unwrap_or_default();
        let program = Path::new(&program).file_name().unwrap_or("program".as_ref()).to_string_lossy();
        let program: String = program.chars().map(|c| if in_a_name(c) { c } else { '_' }).collect();
        let stem = format!("gpuspy-{program}-{}", sys::pid());
        let here = environment.folder().map(Path::as_os_str);
        let [named, temporary] = ["GPUSPY_DIR", "TMPDIR"].map(|name| environment.get(name));
        let folders = [here, named, temporary, Some(OsStr::new("/tmp"))];
        let mut why = None;
        for folder in folders.into_iter().flatten() {
            match reserve(&environment.path(folder), &stem) {
                Ok(path) => return Ok(Place { path, file: Reserved::Made }),
                Err(error) => why = why.or(Some(error)),
            }
        }
        let why = why.map_or(String::new(), |error| format!(" ({error})"));
        Err(format!("no trace can be written here{why}; set GPUSPY_DIR to a folder for it"))
    }

    /// Returns the place that the user has named or, where a file of that name has something in it, that name with `-2`, `-3`, …: the
    /// variable names the first trace of several. `None`: there are too many.
    fn named(path: &Path) -> Option<Place> {
        let name = path.as_os_str().as_bytes();
        let stem = name.strip_suffix(b".gspy");
        let extension: &[u8] = if stem.is_some() { b".gspy" } else { b"" };
        (1..1000).find_map(|n: u32| {
            let nth = [stem.unwrap_or(name), format!("-{n}").as_bytes(), extension].concat();
            let path = if n == 1 { path } else { Path::new(OsStr::from_bytes(&nth)) };
            let file = match make(path) {
                Ok(()) => Reserved::Made,
                Err(e) if e.kind() == ErrorKind::AlreadyExists => mark(path)?,
                Err(_) => Reserved::No,
            };
            Some(Place { path: CString::new(path.as_os_str().as_bytes()).ok()?, file })
        })
    }

    /// Leaves the file as it was, when there will be no trace.
    pub fn give_up(&self) {
        match self.file {
            // SAFETY: a terminated path.
            Reserved::Made => unsafe { _ = libc::unlink(self.path.as_ptr()) },
            // SAFETY: a terminated path.
            Reserved::Marked => unsafe { _ = libc::truncate(self.path.as_ptr(), 0) },
            Reserved::No => {}
        }
    }
}

/// Whether a character of a program's name may be in that of its trace, as in the names that the collector makes.
fn in_a_name(c: char) -> bool {
    c.is_alphanumeric() || "._-+".contains(c)
}

/// Makes `FOLDER/STEM.gspy`, or with `-2`, `-3`, … when that exists. `Err`: nothing can be made there.
fn reserve(folder: &Path, stem: &str) -> io::Result<CString> {
    for n in 1..1000 {
        let name = if n == 1 { format!("{stem}.gspy") } else { format!("{stem}-{n}.gspy") };
        let path = folder.join(name);
        match make(&path) {
            Ok(()) => return Ok(CString::new(path.as_os_str().as_bytes())?),
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
            Err(e) => return Err(e),
        }
    }
    Err(ErrorKind::AlreadyExists.into())
}

/// Makes a file for a trace of this process, which must not exist. One that cannot be written, on a full disk, does not stay.
fn make(path: &Path) -> io::Result<()> {
    let mut file = File::options().write(true).create_new(true).mode(0o600).open(path)?;
    // The collector opens it, too, whatever mask the program has for the files that it makes.
    let _ = file.set_permissions(Permissions::from_mode(0o600));
    // Whoever finds it empty before this takes it as one of the user's; and then we do not have it.
    match hold(&mut file) {
        Ok(true) => Ok(()),
        Ok(false) => Err(ErrorKind::AlreadyExists.into()),
        Err(why) => {
            let _ = std::fs::remove_file(path);
            Err(why)
        }
    }
}

/// Takes a file that is there for this process, if it is empty. `None`: it is another trace, or another process's.
fn mark(path: &Path) -> Option<Reserved> {
    // Neither a device nor a pipe is opened here, which may wait for a reader.
    if !std::fs::metadata(path).is_ok_and(|found| found.is_file()) {
        return Some(Reserved::No);
    }
    match File::options().write(true).open(path) {
        Ok(mut file) => match hold(&mut file) {
            Ok(is_ours) => is_ours.then_some(Reserved::Marked),
            Err(_) => {
                let _ = file.set_len(0);
                Some(Reserved::No)
            }
        },
        Err(_) => Some(Reserved::No),
    }
}

/// Marks a file as that of this process. Returns false if it is not empty, or if another process has it locked: one that is marking it
/// at this moment, or a collector. Where the file system has no locks, two processes may mark it at the same moment. `Err`: it cannot
/// be written.
fn hold(file: &mut File) -> io::Result<bool> {
    let is_empty = |file: &File| file.metadata().is_ok_and(|found| found.len() == 0);
    // One that is not empty is not locked: its own collector would find that another process has it.
    if !is_empty(file) {
        return Ok(false);
    }
    let is_free = !matches!(file.try_lock(), Err(TryLockError::WouldBlock)) && is_empty(file);
    let marked = if is_free { file.write_all(&TRACE_MAGIC) } else { Ok(()) };
    let _ = file.unlock();
    marked.map(|()| is_free)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn find(output: &Path) -> (String, Reserved) {
        let environment = Environment::of(&[&format!("GPUSPY_OUTPUT={}", output.display())]);
        let place = Place::find(&environment).unwrap();
        let path = Path::new(OsStr::from_bytes(place.path.to_bytes()));
        (path.file_name().unwrap().to_string_lossy().into_owned(), place.file)
    }

    /// They lay where the program had gone since.
    #[test]
    fn relative_paths_are_relative_to_where_the_program_was_at_its_first_call() {
        let folder = std::env::temp_dir().join(format!("gpuspy-agent-relative-{}", std::process::id()));
        let traces = folder.join("traces");
        fs::create_dir_all(&traces).unwrap();
        for (variable, parent) in [("GPUSPY_OUTPUT=traces/run.gspy", &traces), ("GPUSPY_QUIET=1", &folder)] {
            let place = Place::find(&Environment::of_in(&folder, &[variable])).unwrap();
            let path = Path::new(OsStr::from_bytes(place.path.to_bytes()));
            assert_eq!((path.parent(), place.file), (Some(&**parent), Reserved::Made), "{variable}");
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
            let place = Place::find(&Environment::of_nowhere(&[&variable])).unwrap();
            let path = Path::new(OsStr::from_bytes(place.path.to_bytes()));
            assert_eq!((path.parent(), place.file), (Some(&*folder), Reserved::Made), "{variable}");
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
        let place = Place::find(&environment).unwrap();
        let path = Path::new(OsStr::from_bytes(place.path.to_bytes()));
        assert_eq!((path.parent(), place.file), (Some(&*folder), Reserved::Made));
        fs::remove_dir_all(&folder).unwrap();
    }

    /// Of eight ranks with one `GPUSPY_OUTPUT`, seven had no trace, and a second program replaced the trace of the first.
    #[test]
    fn each_process_with_the_same_output_has_a_trace_of_its_own() {
        let folder = std::env::temp_dir().join(format!("gpuspy-agent-output-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let made = |name: &str| (name.to_owned(), Reserved::Made);
        for name in ["run.gspy", "run-2.gspy", "run-3.gspy"] {
            assert_eq!(find(&folder.join("run.gspy")), made(name), "the first of them is still empty");
        }
        fs::write(folder.join("plain.v1"), "a trace, or a file that is none").unwrap();
        assert_eq!(find(&folder.join("plain.v1")), made("plain.v1-2"));

        fs::write(folder.join("older.gspy"), "").unwrap();
        let older = find(&folder.join("older.gspy"));
        assert_eq!(older, ("older.gspy".to_owned(), Reserved::Marked), "the user has made it");
        assert_eq!(
            find(&folder.join("older.gspy")),
            made("older-2.gspy"),
            "and the first process has taken it"
        );
        assert_eq!(find(Path::new("/dev/full")), ("full".to_owned(), Reserved::No));
        assert_eq!(
            find(&folder.join("no/folder.gspy")),
            ("folder.gspy".to_owned(), Reserved::No),
            "the collector says why"
        );
        fs::remove_dir_all(&folder).unwrap();
    }

    /// Of ranks that were started in the same tick of the clock, several took one file, which was empty, as one of the user's.
    #[test]
    fn processes_that_begin_at_the_same_moment_have_a_trace_each() {
        let folder = std::env::temp_dir().join(format!("gpuspy-agent-moment-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let output = folder.join("run.gspy");
        for is_there in [false, true] {
            if is_there {
                fs::write(&output, "").unwrap();
            }
            let finding: Vec<_> = (0..8)
                .map(|_| {
                    let output = output.clone();
                    std::thread::spawn(move || find(&output).0)
                })
                .collect();
            let found: std::collections::BTreeSet<String> =
                finding.into_iter().map(|finding| finding.join().unwrap()).collect();
            assert_eq!(found.len(), 8, "{found:?}");
            fs::read_dir(&folder).unwrap().for_each(|entry| fs::remove_file(entry.unwrap().path()).unwrap());
        }
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn without_a_trace_the_file_is_as_it_was() {
        let folder = std::env::temp_dir().join(format!("gpuspy-agent-as-it-was-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("empty.gspy"), "").unwrap();
        for name in ["empty.gspy", "new.gspy"] {
            let environment = Environment::of(&[&format!("GPUSPY_OUTPUT={}", folder.join(name).display())]);
            let place = Place::find(&environment).unwrap();
            assert_eq!(fs::read(folder.join(name)).unwrap(), TRACE_MAGIC);
            place.give_up();
        }
        assert_eq!(fs::metadata(folder.join("empty.gspy")).unwrap().len(), 0);
        assert!(!folder.join("new.gspy").exists());
        fs::remove_dir_all(&folder).unwrap();
    }
}
