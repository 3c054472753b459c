//! Where do traces go, and how does one file become a directory when a second process appears?

use super::sys;
use super::windows::Window;
use super::{Error, Result};
use crate::trace::format::MAGIC;
use crate::trace::record::Status;
use crate::trace::{PRIVATE, TraceWriter};
use crate::units::utc;
use crate::why::said;
use gpuspy_wire::record::{Fact, Namespace};
use gpuspy_wire::segment::ProgramName;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The extension of a trace file.
const EXTENSION: &str = "gspy";
/// The extension of a file with what a program printed.
const PRINTED: &str = "out";

/// Where the user wants the traces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// `DIR/gpuspy-<program>-<pid>.gspy` (an empty `DIR` is the working directory); a directory of that name if there
    /// are several processes.
    Named(PathBuf),
    /// This file; a directory of its name if there are several processes.
    File(PathBuf),
    /// `DIR/<program>-<pid>.gspy` for each process.
    Directory(PathBuf),
}

impl Target {
    /// Interprets an `--output PATH`: it is a directory if it exists as one or ends like one.
    ///
    /// # Errors
    /// Fails if nothing can be written there, or if what is there must not be replaced.
    pub fn from_option(path: &Path) -> Result<Target> {
        let ends_like_one = path.as_os_str().as_encoded_bytes().ends_with(b"/");
        if path.is_dir() {
            let mut entries = fs::read_dir(path)
                .map_err(|e| Error::io(format!("cannot read the directory {}", path.display()), e))?;
            if entries.next().is_some() {
                let shown = path.display();
                return Err(Error::new(format!(
                    "{shown} is not empty, and the traces of a run need a folder of their own: name a new one with -o"
                )));
            }
            writable(path)?;
            return Ok(Target::Directory(path.to_owned()));
        }
        if ends_like_one {
            private_directory()
                .recursive(true)
                .create(path)
                .map_err(|e| Error::io(format!("cannot create {}", path.display()), e))?;
            return Ok(Target::Directory(path.to_owned()));
        }
        may_be_replaced(path)?;
        writable(parent(path))?;
        Ok(Target::File(path.to_owned()))
    }

    /// The default: the working directory, else `$GPUSPY_DIR`, else `$TMPDIR`, else `/tmp`; the first that is writable, as the agent
    /// chooses where it starts a collector.
    ///
    /// # Errors
    /// Fails if none of them is writable.
    pub fn default_place() -> Result<Target> {
        // A directory that was removed says that it is writable, and takes no file.
        if std::env::current_dir().is_ok() && sys::is_writable(Path::new(".")).is_ok() {
            return Ok(Target::Named(PathBuf::new()));
        }
        let named = std::env::var_os("GPUSPY_DIR").map(PathBuf::from);
        let temporary = [std::env::temp_dir(), PathBuf::from("/tmp")];
        let mut places = named.into_iter().chain(temporary);
        let place = places.find(|place| sys::is_writable(place).is_ok());
        place.map(Target::Named).ok_or_else(|| {
            Error::new(
                "no directory for the trace is writable, neither this one nor GPUSPY_DIR, TMPDIR and /tmp: choose one with -o",
            )
        })
    }

    /// Creates an empty file for what a command prints, beside the traces: `FILE.out`, or `gpuspy-<program>-<pid>.out` with the pid of
    /// this process.
    ///
    /// # Errors
    /// Fails if it cannot be written.
    pub(crate) fn create_printed(&self, command: &OsStr) -> Result<PathBuf> {
        let program = Path::new(command).file_name().unwrap_or(command);
        let program = in_file_names(ProgramName::new(program.as_encoded_bytes()));
        let stem = format!("gpuspy-{program}-{}", std::process::id());
        match self {
            Target::Named(place) | Target::Directory(place) => reserve(place, &stem, PRINTED),
            Target::File(path) => {
                let name = path.file_name().map_or(stem.into(), OsStr::to_string_lossy);
                reserve(path.parent().unwrap_or(Path::new("")), &name, PRINTED)
            }
        }
    }
}

/// Checks that no file is lost if a trace is written there, and that no one has to be waited for.
///
/// # Errors
/// Fails if there is a file that is not a trace, or a pipe, which opens only when somebody reads it.
fn may_be_replaced(path: &Path) -> Result<()> {
    let kind = fs::metadata(path).map(|found| found.file_type());
    if kind.is_ok_and(|kind| kind.is_fifo() || kind.is_socket()) {
        let shown = path.display();
        return Err(Error::new(format!(
            "{shown} is a pipe or a socket, and a trace needs a file: choose another path with -o or GPUSPY_OUTPUT"
        )));
    }
    if path.exists() && !is_ours(path) {
        let shown = path.display();
        return Err(Error::new(format!(
            "{shown} exists and is not a trace: choose another path with -o or GPUSPY_OUTPUT, or remove it"
        )));
    }
    Ok(())
}

/// Whether a file may be overwritten: it is a trace, or empty, or not a regular file, which writing does not replace.
fn is_ours(path: &Path) -> bool {
    let begin = || {
        let mut begin = Vec::new();
        OpenOptions::new().read(true).open(path)?.take(MAGIC.len() as u64).read_to_end(&mut begin)?;
        Ok::<_, io::Error>(begin)
    };
    !path.is_file() || begin().is_ok_and(|begin| begin.is_empty() || begin == MAGIC)
}

/// The name of a program as it is displayed and as the names of its traces contain it, with `_` for the characters that
/// are unsuitable in those.
pub(crate) fn in_file_names(program: ProgramName) -> String {
    let suitable = |c: char| if c.is_alphanumeric() || "._-+".contains(c) { c } else { '_' };
    let name: String = String::from_utf8_lossy(program.bytes()).trim().chars().map(suitable).collect();
    let name = name.trim_start_matches(['.', '-']);
    if name.is_empty() { "process".to_owned() } else { name.to_owned() }
}

fn parent(path: &Path) -> &Path {
    path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn writable(directory: &Path) -> Result<()> {
    let shown = directory.display();
    sys::is_writable(directory).map_err(|e| {
        Error::new(format!("cannot write into {shown}: {}; choose another directory with -o", said(&e)))
    })
}

/// The traces of one run, in order of appearance.
#[derive(Debug)]
pub struct Traces {
    target: Target,
    /// By their numbers.
    traces: BTreeMap<usize, Trace>,
    /// How many there have been: the number of the next one.
    count: usize,
    /// What each trace begins with.
    facts: Vec<(Fact, String)>,
}

/// One trace.
#[derive(Debug)]
struct Trace {
    path: PathBuf,
    /// Its name in a directory of several.
    stem: String,
}

impl Traces {
    /// Starts without traces.
    pub fn new(target: Target) -> Traces {
        Traces { target, traces: BTreeMap::new(), count: 0, facts: Vec::new() }
    }

    /// Has each trace begin with a fact, unless its text is empty.
    pub fn begin_with(&mut self, fact: Fact, text: String) {
        if !text.is_empty() {
            self.facts.push((fact, text));
        }
    }

    /// Creates the next process's trace and returns its number.
    ///
    /// # Errors
    /// Fails if it cannot be written; then there is no trace.
    pub fn create(&mut self, program: &str, status: &Status) -> Result<(usize, TraceWriter)> {
        self.create_as(format!("{program}-{}", status.pid), status)
    }

    /// Creates the trace of the next process's first window and returns its number.
    ///
    /// # Errors
    /// As [`create`](Self::create).
    pub fn create_in(
        &mut self,
        window: Window,
        program: &str,
        status: &Status,
    ) -> Result<(usize, TraceWriter)> {
        self.create_as(stem_in(window, program, status), status)
    }

    /// Creates the trace of a process's next window, which takes the place of that of the one before.
    ///
    /// # Errors
    /// As [`create`](Self::create); then the one before keeps its place.
    pub fn next(
        &mut self,
        number: usize,
        window: Window,
        program: &str,
        status: &Status,
    ) -> Result<TraceWriter> {
        let (last, writer) = self.create_in(window, program, status)?;
        if let Some(created) = self.traces.remove(&last) {
            self.traces.insert(number, created);
        }
        Ok(writer)
    }

    /// Forgets a trace that is complete and that nobody asks for again: a collector that runs for months has any number of them.
    pub fn forget(&mut self, number: usize) {
        self.traces.remove(&number);
    }

    fn create_as(&mut self, stem: String, status: &Status) -> Result<(usize, TraceWriter)> {
        let number = self.place(stem)?;
        let path = self.path(number).to_owned();
        let facts = &self.facts;
        let created = TraceWriter::create(&path, status).and_then(|mut writer| {
            for (fact, text) in facts {
                writer.name(Namespace::Fact, *fact as u32, text)?;
            }
            Ok((number, writer))
        });
        created.map_err(|e| {
            // The file that was created for it is still empty, or has the agent's mark. So may be one that another process has begun and
            // locked.
            let is_ours = e.kind() != io::ErrorKind::WouldBlock;
            let most = MAGIC.len() as u64;
            let error = Error::io(format!("cannot write {}", path.display()), e);
            if is_ours && fs::metadata(&path).is_ok_and(|m| m.is_file() && m.len() <= most) {
                let _ = fs::remove_file(&path);
            }
            self.traces.remove(&number);
            error
        })
    }

    /// Creates a process's trace file and returns its number.
    fn place(&mut self, stem: String) -> Result<usize> {
        let cannot = |path: &Path| format!("cannot write {}", path.display());
        let path = match (&self.target, self.traces.len()) {
            (Target::Named(place), 0) => reserve(place, &format!("gpuspy-{stem}"), EXTENSION)?,
            (Target::File(path), 0) => {
                // `GPUSPY_OUTPUT` of a bare preload has not been looked at before.
                may_be_replaced(path)?;
                // The file is not emptied here: another collector may be writing it, which the writer checks.
                let opened =
                    OpenOptions::new().write(true).create(true).truncate(false).mode(PRIVATE).open(path);
                opened.map_err(|e| Error::io(cannot(path), e))?;
                path.clone()
            }
            (Target::Named(_) | Target::File(_), _) => {
                let directory = self.become_directory()?;
                reserve(&directory, &stem, EXTENSION)?
            }
            (Target::Directory(directory), _) => reserve(directory, &stem, EXTENSION)?,
        };
        let number = self.count;
        self.count += 1;
        self.traces.insert(number, Trace { path, stem });
        Ok(number)
    }

    /// Replaces the only file by a directory of its name with the file in it. An open writer keeps writing to it.
    fn become_directory(&mut self) -> Result<PathBuf> {
        let only = self.traces.values_mut().next();
        let Some(Trace { path, stem }) = only else { unreachable!("the first one has made the file") };
        let directory = path.clone();
        // A device is not ours to move, and a symbolic link that is moved may point to nothing.
        if !fs::symlink_metadata(&directory).is_ok_and(|found| found.is_file()) {
            return Err(Error::new(format!(
                "there are several processes, and {} is no regular file that can become a directory of traces: choose \
                 another path with -o",
                directory.display()
            )));
        }
        let failed =
            |e| Error::io(format!("cannot turn {} into a directory of traces", directory.display()), e);
        let aside = directory.with_extension(format!("{EXTENSION}.first"));
        fs::rename(&directory, &aside).map_err(failed)?;
        *path = aside;
        private_directory().create(&directory).map_err(failed)?;
        let inside = directory.join(format!("{stem}.{EXTENSION}"));
        fs::rename(&*path, &inside).map_err(failed)?;
        *path = inside;
        self.target = Target::Directory(directory.clone());
        Ok(directory)
    }

    /// The present path of a trace.
    pub fn path(&self, number: usize) -> &Path {
        &self.traces[&number].path
    }

    /// The path of the whole run: the one file, or the directory of several. `None` if there is no trace.
    pub fn whole(&self) -> Option<&Path> {
        let first = self.traces.values().next()?;
        match &self.target {
            _ if self.traces.len() == 1 => Some(&first.path),
            Target::Named(path) | Target::File(path) | Target::Directory(path) => Some(path),
        }
    }

    /// Moves an earlier trace of the name that was asked for out of the way, to that name with `.old` behind it, and returns the
    /// new path. Where this run has no trace, a reader of that name would take the earlier one for it.
    pub fn set_former_aside(&self) -> Option<PathBuf> {
        let Target::File(path) = &self.target else { return None };
        let is_former = self.count == 0 && fs::symlink_metadata(path).is_ok_and(|found| found.is_file());
        if !is_former || !is_ours(path) {
            return None;
        }
        let mut aside = path.clone().into_os_string();
        aside.push(".old");
        let aside = PathBuf::from(aside);
        fs::rename(path, &aside).ok().map(|()| aside)
    }

    /// The paths of all traces.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.traces.values().map(|trace| trace.path.as_path())
    }
}

/// The name of the trace of a window: `<program>-<pid>-<window>`.
fn stem_in(window: Window, program: &str, status: &Status) -> String {
    format!("{program}-{}-{}", status.pid, utc(window.began()))
}

/// Makes directories that only this user can enter.
fn private_directory() -> DirBuilder {
    let mut builder = DirBuilder::new();
    builder.mode(0o700);
    builder
}

/// Creates `DIR/STEM.EXTENSION`, or if that exists, `DIR/STEM-2.EXTENSION`, `DIR/STEM-3.EXTENSION`, ….
fn reserve(directory: &Path, stem: &str, extension: &str) -> Result<PathBuf> {
    for n in 1.. {
        let path = match n {
            1 => directory.join(format!("{stem}.{extension}")),
            n => directory.join(format!("{stem}-{n}.{extension}")),
        };
        match OpenOptions::new().write(true).create_new(true).mode(PRIVATE).open(&path) {
            Ok(_) => return Ok(path),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists && n < 10_000 => {}
            Err(e) => return Err(Error::io(format!("cannot write {}", path.display()), e)),
        }
    }
    unreachable!("the last number returns")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(directory: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            fs::read_dir(directory).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn the_name_of_a_program_is_safe_in_a_file_name() {
        let named = |name: &[u8]| in_file_names(ProgramName::new(name));
        assert_eq!(named("a b/c:ü".as_bytes()), "a_b_c_ü");
        assert_eq!(named(b" ../-rf \n"), "_-rf");
        assert_eq!(named(b"-\xff"), "_");
        assert_eq!(named(b"..\0hidden"), "process");
        assert_eq!(named(&[b'a'; 100]), "a".repeat(64));
    }

    #[test]
    fn a_second_process_makes_the_file_a_directory() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("run.gspy");
        let mut traces = Traces::new(Target::File(path.clone()));
        assert_eq!(traces.whole(), None);
        let first = traces.place("python-7".to_owned()).unwrap();
        assert_eq!(traces.whole(), Some(&*path));
        fs::write(traces.path(first), "first").unwrap();
        let second = traces.place("python-8".to_owned()).unwrap();
        let again = traces.place("python-8".to_owned()).unwrap();
        assert_eq!(names(&path), ["python-7.gspy", "python-8-2.gspy", "python-8.gspy"]);
        assert_eq!(fs::read(traces.path(first)).unwrap(), b"first", "the file was moved, not made again");
        assert_eq!(traces.path(second), path.join("python-8.gspy"));
        assert_eq!(traces.path(again), path.join("python-8-2.gspy"));
        assert_eq!(traces.whole(), Some(&*path));
        assert_eq!(names(place.path()), ["run.gspy"], "nothing is left beside it");
    }

    /// `run -o after.gspy` of a program that called no CUDA left the trace of an earlier run there, which `diff` then compared.
    #[test]
    fn without_a_trace_an_earlier_one_is_set_aside() {
        let place = tempfile::tempdir().unwrap();
        let [path, other, text] = ["run.gspy", "other.gspy", "notes.txt"].map(|name| place.path().join(name));
        let aside = |path: &Path| Traces::new(Target::File(path.to_owned())).set_former_aside();
        assert_eq!(aside(&path), None, "there is none");
        fs::write(&path, MAGIC).unwrap();
        fs::write(&text, "not a trace").unwrap();
        std::os::unix::fs::symlink("run.gspy", &other).unwrap();
        assert_eq!([aside(&other), aside(&text)], [None, None]);
        let mut traces = Traces::new(Target::File(path.clone()));
        traces.place("python-7".to_owned()).unwrap();
        assert_eq!(traces.set_former_aside(), None, "it is this run's");
        assert_eq!(aside(&path), Some(place.path().join("run.gspy.old")));
        assert_eq!(names(place.path()), ["notes.txt", "other.gspy", "run.gspy.old"]);
    }

    /// `run -o /dev/null` as root renamed the device when a second process appeared, and made a directory of its name.
    #[test]
    fn what_is_no_regular_file_does_not_become_a_directory() {
        let place = tempfile::tempdir().unwrap();
        let [file, link, device] = ["real.gspy", "link.gspy", "device"].map(|name| place.path().join(name));
        fs::write(&file, MAGIC).unwrap();
        std::os::unix::fs::symlink("real.gspy", &link).unwrap();
        // The device itself would be lost if this failed.
        std::os::unix::fs::symlink("/dev/null", &device).unwrap();
        for path in [&*device, &link] {
            let mut traces = Traces::new(Target::from_option(path).unwrap());
            let first = traces.place("python-7".to_owned()).unwrap();
            for _ in 0..2 {
                let error = traces.place("python-8".to_owned()).unwrap_err().to_string();
                assert!(error.contains("no regular file that can become a directory"), "{error}");
            }
            assert_eq!(traces.path(first), path, "the first goes on");
            assert_eq!(traces.whole(), Some(path));
        }
        assert_eq!(fs::read(&link).unwrap(), MAGIC);
        assert_eq!(names(place.path()), ["device", "link.gspy", "real.gspy"]);
    }

    /// The paths of all processes that ever connected took memory until the collector's end.
    #[test]
    fn traces_that_are_forgotten_take_no_memory_and_the_others_keep_their_numbers() {
        let place = tempfile::tempdir().unwrap();
        let mut traces = Traces::new(Target::Directory(place.path().to_owned()));
        let long = traces.place("server-1".to_owned()).unwrap();
        for n in 0..1_000 {
            let (short, writer) = traces.create("python", &Status { pid: n, ..Status::default() }).unwrap();
            writer.finish(&Status::default()).unwrap();
            assert!(traces.path(short).ends_with(format!("python-{n}.gspy")));
            traces.forget(short);
        }
        assert_eq!(traces.path(long), place.path().join("server-1.gspy"));
        let minute = Window::now(std::time::Duration::from_secs(60));
        drop(traces.next(long, minute, "server", &Status::default()).unwrap());
        assert!(traces.path(long).to_string_lossy().contains("server-0-20"), "that of the next window");
        assert_eq!(traces.paths().count(), 1);
        traces.forget(long);
        assert_eq!((traces.paths().count(), traces.whole()), (0, None));
    }

    /// It was removed if the other process had locked it and not written yet.
    #[test]
    fn a_file_that_another_process_has_locked_is_not_removed() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("run.gspy");
        let other = fs::File::create(&path).unwrap();
        other.lock().unwrap();
        let mut traces = Traces::new(Target::File(path.clone()));
        let error = traces.create("python", &Status::default()).unwrap_err().to_string();
        assert!(error.contains("another process is writing this trace"), "{error}");
        assert!(path.exists());
        assert_eq!(traces.whole(), None);
    }

    /// Of processes with one name for their traces, each looks whether the file is its own.
    #[test]
    fn a_file_with_an_agents_mark_is_written_when_who_looks_at_it_has_gone() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("run.gspy");
        fs::write(&path, MAGIC).unwrap();
        let other = fs::File::open(&path).unwrap();
        other.lock().unwrap();
        let looking = std::thread::spawn(move || {
            std::thread::sleep(std::time::Duration::from_millis(30));
            drop(other);
        });
        let mut traces = Traces::new(Target::File(path.clone()));
        let (_, writer) = traces.create("python", &Status::default()).unwrap();
        writer.finish(&Status::default()).unwrap();
        looking.join().unwrap();
        assert!(crate::trace::TraceReader::open(&path).unwrap().complete());
    }

    /// Opening it waited for a reader, with the lock on the traces held.
    #[test]
    fn a_pipe_is_refused_as_a_trace() {
        let place = tempfile::tempdir().unwrap();
        let pipe = place.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let _socket = std::os::unix::net::UnixListener::bind(place.path().join("socket")).unwrap();
        for path in [pipe, place.path().join("socket")] {
            let error = Target::from_option(&path).unwrap_err().to_string();
            assert!(error.contains("is a pipe or a socket"), "{error}");
            let error = Traces::new(Target::File(path)).place("python-7".to_owned()).unwrap_err().to_string();
            assert!(error.contains("is a pipe or a socket"), "{error}");
        }
    }

    #[test]
    fn default_names_never_replace() {
        let place = tempfile::tempdir().unwrap();
        for expected in ["gpuspy-a-1.gspy", "gpuspy-a-1-2.gspy", "gpuspy-a-1-3.gspy"] {
            let mut traces = Traces::new(Target::Named(place.path().to_owned()));
            let n = traces.place("a-1".to_owned()).unwrap();
            assert_eq!(traces.path(n), place.path().join(expected));
        }
    }

    #[test]
    fn files_other_than_traces_are_not_replaced() {
        let place = tempfile::tempdir().unwrap();
        let script = place.path().join("train.py");
        fs::write(&script, "import torch").unwrap();
        let error = Target::from_option(&script).unwrap_err().to_string();
        assert!(error.contains("train.py exists and is not a trace"), "{error}");
        let error = Traces::new(Target::File(script.clone())).place("python-7".to_owned()).unwrap_err();
        assert!(error.to_string().contains("train.py exists and is not a trace"), "{error}");
        assert_eq!(fs::read(&script).unwrap(), b"import torch");
        let error = Target::from_option(place.path()).unwrap_err().to_string();
        assert!(error.contains("is not empty"), "{error}");
        let error = Target::from_option(&place.path().join("no/such/run.gspy")).unwrap_err().to_string();
        assert!(error.contains("cannot write into"), "{error}");
    }

    #[test]
    fn a_path_that_ends_like_a_directory_is_one() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("runs/");
        assert_eq!(Target::from_option(&path).unwrap(), Target::Directory(path.clone()));
        assert_eq!(
            Target::from_option(&path).unwrap(),
            Target::Directory(path),
            "an empty one is still free"
        );
    }
}
