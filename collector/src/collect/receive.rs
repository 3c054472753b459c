//! How does a process's segment reach the collector? Over a socket with the Hello, or from `/proc`.

use super::process::{self, Process};
use super::sys::{self, Mapping};
use super::{Error, Result};
use gpuspy_wire::handshake::{self, Hello};
use gpuspy_wire::segment::{self, Layout, LayoutError};
use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// A process whose segment this collector drains.
#[derive(Debug)]
pub(crate) struct Peer {
    /// The process.
    pub(crate) process: Process,
    /// Its segment; [`Mapping::segment`] has succeeded once.
    pub(crate) mapping: Mapping,
    /// When it was taken over, if another collector has drained it before and has what was sent once: CLOCK_MONOTONIC_RAW, ns.
    pub(crate) taken_over: Option<u64>,
    link: Link,
}

/// Something that exists as long as the process runs its present program.
#[derive(Debug)]
enum Link {
    /// The connection over which the segment came.
    Socket(UnixStream),
    /// The path of the segment among the process's descriptors, its inode, and the file. That it is locked tells the agent that we are
    /// there.
    Descriptor(PathBuf, u64, #[expect(dead_code, reason = "held for its lock")] OwnedFd),
}

impl Peer {
    /// Receives the Hello and the segment over a connection. `None` if the other side closed it without a word, as a process does
    /// that only looks whether a collector listens ([`sys::is_listened_on`]).
    ///
    /// # Errors
    /// Describes what the other side sent instead.
    pub(crate) fn receive(socket: UnixStream) -> Result<Option<Peer>> {
        match greeted(&socket) {
            Ok(Some((pid, mapping))) => {
                let process = Process::peer(pid, socket.as_fd());
                Ok(Some(Peer { process, mapping, taken_over: None, link: Link::Socket(socket) }))
            }
            Ok(None) => Ok(None),
            Err(error) => {
                refuse(&socket, &error);
                Err(error)
            }
        }
    }

    /// Tells the agent that the trace has its first bytes.
    pub(crate) fn tell_begun(&self) {
        if let Link::Socket(socket) = &self.link {
            tell(socket, handshake::BEGUN);
        }
    }

    /// Tells the agent that all of the trace is written.
    pub(crate) fn tell_written(&self) {
        if let Link::Socket(socket) = &self.link {
            tell(socket, handshake::WRITTEN);
        }
    }

    /// Tells the agent why something is missing in the trace, or all of it.
    pub(crate) fn tell_failed(&self, why: &Error) {
        if let Link::Socket(socket) = &self.link {
            refuse(socket, why);
        }
    }

    /// Opens the segment of a running process that no collector drains.
    ///
    /// # Errors
    /// Fails if it has no segment, belongs to another user, or is drained by another collector.
    pub(crate) fn open(pid: u32) -> Result<Peer> {
        Peer::drain(pid, Comes::Alone)
    }

    /// Opens the segments of the running processes that a collector has left in order which listened at this path, as one does that is
    /// being replaced.
    pub(crate) fn left_at(socket: &Path) -> Vec<Peer> {
        process::given("GPUSPY_SOCKET", socket).filter_map(|pid| Peer::drain(pid, Comes::Back).ok()).collect()
    }

    fn drain(pid: u32, comes: Comes) -> Result<Peer> {
        let process = Process::of(pid);
        let Some(start_time) = process.start_time() else {
            return Err(Error::new(format!("there is no process {pid}")));
        };
        let directory = format!("/proc/{pid}/fd");
        let entries = fs::read_dir(&directory).map_err(|e| {
            Error::io(
                format!("cannot read the descriptors of process {pid} (does it belong to another user?)"),
                e,
            )
        })?;
        for entry in entries.flatten() {
            let path = entry.path();
            let Some(inode) = segment_inode(&path) else { continue };
            let file = OpenOptions::new().read(true).write(true).open(&path);
            let file = file.map_err(|e| Error::io(format!("cannot open the segment of process {pid}"), e))?;
            let file = OwnedFd::from(file);
            let mapping = map(pid, &file, None).map_err(|e| e.about(pid))?;
            // A forked child inherits its parent's segment; the start time identifies the owner.
            if mapping.segment().is_ok_and(|segment| segment.header().start_time == start_time) {
                // Both before the agent can notice us. A system without such locks (gVisor) refuses the agent's look at them, too.
                let now = sys::monotonic_raw();
                let locked = sys::lock(file.as_fd());
                if let Err(error) = locked.or_else(|error| allowed(error, ErrorKind::InvalidInput)) {
                    return Err(Error::io("cannot lock its segment", error).about(pid));
                }
                let taken_over = attach(&mapping, comes).map_err(|e| e.about(pid))?.then_some(now);
                return Ok(Peer { process, mapping, taken_over, link: Link::Descriptor(path, inode, file) });
            }
        }
        Err(Error::new(format!(
            "process {pid} has no gpuspy segment: it was not started with LD_PRELOAD=libgpuspy.so, or has not called \
             CUDA yet"
        )))
    }

    /// Counts this collector out, so that another one may come.
    pub(crate) fn detach(&self) {
        let Ok(segment) = self.mapping.segment() else { return };
        let goes = |word: u64| (!word.is_multiple_of(2)).then(|| word.wrapping_add(1));
        // Relaxed: the word stands alone (see `Live`). An error means that the peer has changed it.
        let _ = segment.header().live.0.attached.fetch_update(Ordering::Relaxed, Ordering::Relaxed, goes);
    }

    /// Readable at the end of the connection, if there is one, and when the process has
    /// [closed only its side](Self::is_half_closed).
    pub(crate) fn connection(&self) -> Option<BorrowedFd<'_>> {
        match &self.link {
            Link::Socket(socket) => Some(socket.as_fd()),
            Link::Descriptor(..) => None,
        }
    }

    /// Whether the process sends nothing more over the connection, and still holds it.
    pub(crate) fn is_half_closed(&self) -> bool {
        matches!(&self.link, Link::Socket(socket) if !sys::is_hung_up(socket.as_fd()))
    }

    /// Whether the program that made the segment has certainly ended, where no descriptor shows that.
    pub(crate) fn is_over(&self) -> bool {
        let replaced = match &self.link {
            Link::Socket(_) => false,
            Link::Descriptor(path, inode, _) => segment_inode(path) != Some(*inode),
        };
        replaced || self.process.is_known_to_be_over()
    }
}

/// Tells an agent why there is no trace, or only a part of one.
pub fn refuse(socket: &UnixStream, why: &Error) {
    tell(socket, &format!("{}{}\n", handshake::FAILED, why.to_string().replace('\n', " ")));
}

/// Sends a line. An agent that does not read it, or has ended, must not keep us.
fn tell(mut socket: &UnixStream, line: &str) {
    let _ = socket.set_write_timeout(Some(Duration::from_millis(100)));
    let _ = socket.write_all(line.as_bytes());
}

/// Receives the Hello and maps the segment. Returns the process's pid with it; `None` if the connection was closed instead.
fn greeted(socket: &UnixStream) -> Result<Option<(u32, Mapping)>> {
    let pid =
        sys::peer_pid(socket.as_fd()).map_err(|e| Error::io("cannot find out which process connects", e))?;
    let Some((hello, fd)) = receive_hello(socket).map_err(|e| e.about(pid))? else { return Ok(None) };
    let mapping = map(pid, &fd, Some(hello.segment_bytes)).map_err(|e| e.about(pid))?;
    attach(&mapping, Comes::Called).map_err(|e| e.about(pid))?;
    Ok(Some((pid, mapping)))
}

/// How long a greeting may take. An agent sends it at once; a peer that sends nothing, or one byte after the other, must not
/// keep a thread of the collector.
const GREETING: Duration = Duration::from_secs(5);

/// Receives the Hello and the descriptor of the segment. `None` if the connection was closed before the first byte.
fn receive_hello(socket: &UnixStream) -> Result<Option<(Hello, OwnedFd)>> {
    let mut bytes = [0; handshake::BYTES];
    let mut descriptors = Vec::new();
    let mut filled = 0;
    let deadline = Instant::now() + GREETING;
    // What is one too many is not waited for: each byte could bring more.
    while filled < bytes.len() && descriptors.len() <= 1 {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Error::new("its greeting did not arrive"));
        }
        socket.set_read_timeout(Some(left)).map_err(|e| Error::io("cannot limit the wait", e))?;
        match sys::receive(socket.as_fd(), &mut bytes[filled..]) {
            Ok((0, _)) if filled == 0 => return Ok(None),
            Ok((0, _)) => return Err(Error::new("it closed the connection before its greeting")),
            Ok((count, more)) => {
                filled += count;
                descriptors.extend(more);
            }
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return Err(Error::io("its greeting did not arrive", e)),
        }
    }
    if descriptors.len() > 1 {
        return Err(Error::new(format!(
            "it sent {} descriptors with its greeting instead of one",
            descriptors.len()
        )));
    }
    let hello = Hello::from_bytes(&bytes).ok_or_else(|| {
        Error::of_releases(
            "its greeting has another version: agent and collector must be of the same release",
        )
    })?;
    descriptors.pop().map(|fd| Some((hello, fd))).ok_or_else(|| {
        Error::new(
            "it sent 0 descriptors with its greeting instead of one, or the collector may open no more files \
             (ulimit -n)",
        )
    })
}

/// Checks and maps a segment.
fn map(pid: u32, fd: &OwnedFd, stated: Option<u64>) -> Result<Mapping> {
    sys::check_sealed(fd.as_fd()).map_err(|why| Error::new(format!("the object it sent {why}")))?;
    let bytes = sys::size(fd.as_fd()).map_err(|e| Error::io("cannot examine its segment", e))?;
    if stated.is_some_and(|stated| stated != bytes) {
        return Err(Error::new(format!(
            "its segment has {bytes} bytes, not the size that its greeting states"
        )));
    }
    if bytes < gpuspy_wire::segment::HEADER_BYTES as u64 {
        return Err(Error::new(format!("its segment has only {bytes} bytes")));
    }
    if bytes > Layout::OURS.segment_bytes {
        return Err(cannot_read(pid, LayoutError::TooLarge));
    }
    let mapping = Mapping::new(fd.as_fd(), bytes).map_err(|e| Error::io("cannot map its segment", e))?;
    mapping.segment().map_err(|e| cannot_read(pid, e))?;
    Ok(mapping)
}

/// Says why a process's segment cannot be read.
fn cannot_read(pid: u32, why: LayoutError) -> Error {
    let LayoutError::Version(theirs) = why else {
        return Error::new(format!("cannot read its segment: {why}"));
    };
    let age = if theirs > segment::VERSION { "a newer" } else { "an older" };
    let shown =
        |path: Option<PathBuf>| path.map_or_else(String::new, |path| format!(" ({})", path.display()));
    let (agent, program) = (shown(agent_of(pid)), shown(std::env::current_exe().ok()));
    Error::of_releases(format!(
        "its agent{agent} is of {age} release than this gpuspy{program}: install both from one release"
    ))
}

/// Returns the path of the agent that a process has loaded, as far as it can be seen.
fn agent_of(pid: u32) -> Option<PathBuf> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
    let path = |line: &str| Some(PathBuf::from(&line[line.find('/')?..]));
    maps.lines().filter_map(path).find(|path| path.file_name().is_some_and(|name| name == "libgpuspy.so"))
}

/// Lets an error of this kind pass.
fn allowed(error: io::Error, kind: ErrorKind) -> io::Result<()> {
    if error.kind() == kind { Ok(()) } else { Err(error) }
}

/// How a collector comes to a segment.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Comes {
    /// The process has sent it.
    Called,
    /// Where no other collector drains it.
    Alone,
    /// Where one has drained it, and none does. A process that no collector has found yet may be about to send it.
    Back,
}

/// Counts this collector in, if it may come. Returns whether one has drained the segment before.
fn attach(mapping: &Mapping, how: Comes) -> Result<bool> {
    let segment = mapping.segment().map_err(|e| Error::new(format!("cannot read its segment: {e}")))?;
    let comes = |word: u64| match word {
        0 if how == Comes::Back => None,
        free if free.is_multiple_of(2) => Some(free.wrapping_add(1)),
        taken => (how == Comes::Called).then(|| taken.wrapping_add(2)),
    };
    // Relaxed: the word stands alone (see `Live`).
    let before = segment.header().live.0.attached.fetch_update(Ordering::Relaxed, Ordering::Relaxed, comes);
    before.map(|before| before != 0).map_err(|_| {
        Error::new(
            "another collector drains it already, or it found none or lost it to SIGKILL: stop the other one, or start the program again",
        )
    })
}

/// The inode of a `/proc/PID/fd` entry that is a memfd with an agent's name.
fn segment_inode(path: &Path) -> Option<u64> {
    let target = fs::read_link(path).ok()?;
    (target.to_str()? == "/memfd:gpuspy (deleted)").then(|| fs::metadata(path).ok())?.map(|m| m.ino())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// It was only said that the segment's layout had another version.
    #[test]
    fn an_agent_of_another_release_is_named_with_its_age_and_both_paths() {
        let said = |version| cannot_read(std::process::id(), LayoutError::Version(version));
        let program = std::env::current_exe().unwrap();
        let newer = said(segment::VERSION + 1);
        let expected = format!(
            "its agent is of a newer release than this gpuspy ({}): install both from one release",
            program.display()
        );
        assert_eq!(newer.to_string(), expected);
        assert!(newer.releases_differ() && newer.about(7).releases_differ());
        assert!(said(segment::VERSION - 1).to_string().contains("an older release"));
        let other = cannot_read(std::process::id(), LayoutError::Bounds);
        assert!(!other.releases_differ() && other.to_string().starts_with("cannot read its segment: "));
    }
}
