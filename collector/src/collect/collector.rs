//! How are many sessions collected at once? Each process that connects is drained on threads of its own.

use super::descriptors::{OF_A_RUNNING_SESSION, OF_A_SESSION};
use super::hangs::HangWatch;
use super::host_ticks::Pair;
use super::memory::{Held, MOST_SESSIONS};
use super::output::{Target, Traces};
use super::progress::Progress;
use super::receive::{self, Peer};
use super::recorder::Place;
use super::session::Session;
use super::starting::Starting;
use super::sys::{self, Stop, Stopped};
use super::windows::Division;
use super::{Error, Result, descriptors};
use crate::why::why_refused;
use gpuspy_wire::record::Fact;
use libc::{SIGABRT, SIGBUS, SIGCHLD, SIGFPE, SIGILL, SIGSEGV, SIGSYS, SIGTRAP};
use parking_lot::{Mutex, MutexGuard};
use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use std::{fs, io};

/// Collects from processes until they have ended or it is stopped.
#[derive(Debug)]
pub struct Collector {
    traces: Mutex<Traces>,
    stopped: Stopped,
    running: Arc<AtomicUsize>,
    /// Those of them that do not record yet.
    starting: AtomicUsize,
    first: Pair,
    progress: Progress,
    hangs: HangWatch,
    division: Option<Division>,
    tell: Option<fn(&Error)>,
    /// Where the collector before this one listened.
    follows: Option<PathBuf>,
    held: Held,
}

/// A process that is to be collected from.
#[derive(Debug)]
enum Guest {
    /// It has connected.
    Connected(UnixStream),
    /// A collector before this one has left it.
    Left(Box<Peer>),
}

/// Stops a [`Collector`] when dropped: it detaches from running processes and completes their traces.
#[derive(Debug)]
pub struct Stopper {
    _stop: Stop,
    running: Arc<AtomicUsize>,
}

impl Stopper {
    /// The number of processes that are being collected from.
    pub fn running(&self) -> usize {
        // Relaxed: a number for display; nothing is read because of its value.
        self.running.load(Ordering::Relaxed)
    }
}

impl Collector {
    /// Makes a collector that writes to `target`, and the handle that stops it.
    ///
    /// # Errors
    /// Fails if the system is out of descriptors.
    pub fn new(target: Target) -> Result<(Collector, Stopper)> {
        sys::bound_free_memory();
        let (stop, stopped) =
            sys::stop().map_err(|e| Error::new(format!("cannot create a pipe: {}", why_refused(&e))))?;
        let running = Arc::new(AtomicUsize::new(0));
        let stopper = Stopper { _stop: stop, running: Arc::clone(&running) };
        let traces = Mutex::new(Traces::new(target));
        Ok((
            Collector {
                traces,
                stopped,
                running,
                starting: AtomicUsize::new(0),
                first: Pair::now(),
                progress: Progress::default(),
                hangs: HangWatch::default(),
                division: None,
                tell: None,
                follows: None,
                held: Held::default(),
            },
            stopper,
        ))
    }

    /// Sets when an operation counts as hung, and who gets the report of it.
    #[must_use]
    pub fn watching(self, hangs: HangWatch) -> Collector {
        Collector { hangs, ..self }
    }

    /// Divides the collection into windows of time, each with traces of its own.
    #[must_use]
    pub fn divided(self, division: Option<Division>) -> Collector {
        Collector { division, ..self }
    }

    /// Has [`listen`](Self::listen) take over the processes that a collector has left in order which listened at this path before.
    #[must_use]
    pub fn following(self, socket: &Path) -> Collector {
        Collector { follows: Some(socket.to_owned()), ..self }
    }

    /// Sets who gets a report at once, once for each trace, that it cannot be written.
    #[must_use]
    pub fn telling(self, tell: fn(&Error)) -> Collector {
        Collector { tell: Some(tell), ..self }
    }

    /// Sets the words after `gpuspy run` that launch the same processes again, without the place of the trace.
    #[must_use]
    pub fn launched_by(self, words: &[String]) -> Collector {
        let text: String = words.iter().flat_map(|word| [word.as_str(), "\0"]).collect();
        self.traces.lock().begin_with(Fact::Launch, text);
        self
    }

    /// Has the traces say why a setting of the collector's is not the requested one.
    #[must_use]
    pub fn noting(self, note: Option<&str>) -> Collector {
        self.traces.lock().begin_with(Fact::CollectorNote, note.unwrap_or_default().to_owned());
        self
    }

    fn run(&self, peer: &Peer, starting: &Starting<'_>) -> Result<Session> {
        let share = self.held.share();
        let (traces, division) = (&self.traces, self.division.as_ref());
        let place = Place { starting, traces, division, tell: self.tell };
        let session =
            Session::run(peer, &self.stopped, place, &self.first, &self.progress, self.hangs, &share);
        if let Err(why) = &session {
            peer.tell_failed(why);
        }
        session
    }

    /// Collects from every process that connects, until stopped. Calls `report` with each session that ends, and the path of
    /// its trace, and once if no more connections can be accepted for now: those wait. A process for which there is no thread, or which is one
    /// too many, is refused; later ones are not. A connection that is closed without a word is no session. The listener is one of
    /// [`bind`]'s: if no connection waits, accepting one fails, so that this thread waits only in `sys::wait`.
    pub fn listen(&self, listener: UnixListener, report: impl Fn(Result<(Session, PathBuf)>) + Sync) {
        let report = &report;
        std::thread::scope(|threads| {
            let serve = |guest: Guest| {
                // Relaxed, with `Stopper::running`.
                let others = self.running.fetch_add(1, Ordering::Relaxed);
                let starting = Starting::new(&self.starting);
                // The thread takes the connection; if there is no thread, it is still there to be answered.
                let guest = Arc::new(Mutex::new(Some(guest)));
                let take = Arc::clone(&guest);
                let started = if others >= MOST_SESSIONS {
                    Err(Error::new(format!("{MOST_SESSIONS} processes are collected from, and no more")))
                } else {
                    let thread = std::thread::Builder::new().spawn_scoped(threads, move || {
                        let Some(guest) = take.lock().take() else { return };
                        let session = match guest {
                            Guest::Connected(socket) => self.receive_if_greeted(socket, &starting),
                            Guest::Left(peer) => self.run(&peer, &starting).map(Some),
                        };
                        drop(starting);
                        self.running.fetch_sub(1, Ordering::Relaxed);
                        // Before anything else: the more sessions end at the same time, the more there is to give back.
                        sys::trim_memory();
                        // The lock is free again before `report` is called, which may take its time.
                        let with_path = |session: Session| {
                            let path = self.traces().path(session.trace).to_owned();
                            (session, path)
                        };
                        if let Some(session) = session.transpose() {
                            report(session.map(with_path));
                        }
                    });
                    thread.map(drop).map_err(|e| Error::no_thread("it", &e))
                };
                if let Err(why) = started
                    && let Some(guest) = guest.lock().take()
                {
                    self.running.fetch_sub(1, Ordering::Relaxed);
                    let pid = match guest {
                        Guest::Connected(socket) => {
                            receive::refuse(&socket, &why);
                            sys::peer_pid(socket.as_fd()).unwrap_or(0)
                        }
                        Guest::Left(peer) => {
                            peer.detach();
                            peer.process.pid
                        }
                    };
                    report(Err(why.about(pid)));
                }
            };
            let left = self.follows.iter().flat_map(|socket| Peer::left_at(socket));
            left.for_each(|peer| serve(Guest::Left(Box::new(peer))));
            let (mut stop, mut is_refused) = (false, false);
            while !stop {
                let watched = [Some(listener.as_fd()), Some(self.stopped.as_fd())];
                stop = sys::wait(watched, Duration::from_secs(3600)).is_ok_and(|[_, stop]| stop);
                // Accept all pending connections, also at the end: a process may have connected and ended by now.
                loop {
                    match self.has_room().and_then(|()| accept(&listener)) {
                        Ok(Some(socket)) => serve(Guest::Connected(socket)),
                        Ok(None) => break,
                        Err(error) => {
                            if !std::mem::replace(&mut is_refused, true) {
                                let why = why_refused(&error);
                                report(Err(Error::new(format!(
                                    "processes wait to be collected from: {why}"
                                ))));
                            }
                            // The connection waits in the queue until another session has ended.
                            std::thread::sleep(Duration::from_millis(20));
                            break;
                        }
                    }
                }
            }
        });
    }

    /// Collects from the process at the other end of a connection.
    ///
    /// # Errors
    /// Says why there is no trace, or only a part of one.
    pub fn receive(&self, socket: UnixStream) -> Result<Session> {
        let session = self.receive_if_greeted(socket, &Starting::new(&self.starting))?;
        session.ok_or_else(|| Error::new("the process closed the connection before its greeting"))
    }

    /// Does the same; `None` if the connection was closed without a word.
    fn receive_if_greeted(&self, socket: UnixStream, starting: &Starting<'_>) -> Result<Option<Session>> {
        Peer::receive(socket)?.map(|peer| self.run(&peer, starting)).transpose()
    }

    /// Whether a session would have its descriptors, beside those that have been accepted. One that is alone has what there is.
    ///
    /// # Errors
    /// Fails as accepting it would.
    fn has_room(&self) -> io::Result<()> {
        // Relaxed, with `Stopper::running`.
        let running = self.running.load(Ordering::Relaxed);
        // Relaxed: see `Starting`.
        let starting = self.starting.load(Ordering::Relaxed);
        let count = OF_A_SESSION * (starting + 1) + OF_A_RUNNING_SESSION * running;
        let has_room = running == 0 || descriptors::are_free(count);
        if has_room { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::EMFILE)) }
    }

    /// Collects from a running process that no collector drains.
    ///
    /// # Errors
    /// As [`receive`](Self::receive).
    pub fn attach(&self, pid: u32) -> Result<Session> {
        self.run(&Peer::open(pid)?, &Starting::new(&self.starting))
    }

    /// What has been collected so far.
    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    /// The traces so far.
    pub fn traces(&self) -> MutexGuard<'_, Traces> {
        self.traces.lock()
    }
}

/// Accepts a connection, if there is one.
///
/// # Errors
/// Fails if the system is out of descriptors or memory.
fn accept(listener: &UnixListener) -> io::Result<Option<UnixStream>> {
    loop {
        match listener.accept() {
            Ok((socket, _)) => return Ok(Some(socket)),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            // The other end may have given up.
            Err(e) if [io::ErrorKind::WouldBlock, io::ErrorKind::ConnectionAborted].contains(&e.kind()) => {
                return Ok(None);
            }
            Err(e) => return Err(e),
        }
    }
}

/// Listens at a path, which appears when connections are accepted: programs that wait for it are not refused.
///
/// # Errors
/// Fails if the path is taken, too long, or not writable.
pub fn bind(path: &Path) -> Result<UnixListener> {
    listen_then_show(path).map_err(|e| Error::io(format!("cannot listen on {}", path.display()), e))
}

/// Listens at another path, which is as long, and gives the socket its name then.
fn listen_then_show(path: &Path) -> io::Result<UnixListener> {
    let mut hidden = path.as_os_str().as_bytes().to_vec();
    match hidden.last_mut() {
        Some(last) => *last = if *last == b'~' { b'-' } else { b'~' },
        None => return Err(io::ErrorKind::InvalidInput.into()),
    }
    let hidden = Path::new(OsStr::from_bytes(&hidden));
    // A collector that was killed may have left it.
    let _ = fs::remove_file(hidden);
    let listener = sys::listen(hidden)?;
    // A link, unlike a renaming, fails if the path is taken.
    let shown = fs::hard_link(hidden, path);
    fs::remove_file(hidden)?;
    shown.map(|()| listener)
}

/// An inherited connection. See [`leave_all_but`].
#[derive(Debug)]
pub struct Inherited(OwnedFd);

/// Takes an inherited connection and gives up everything else that was inherited from the starting process:
/// descriptors, standard streams, terminal, working directory, and signals that are meant for the starting process.
/// Call this first.
///
/// # Errors
/// Fails if there is no such descriptor.
pub fn leave_all_but(number: i32) -> Result<Inherited> {
    let fd = sys::inherited(number).ok_or_else(|| Error::new(format!("there is no descriptor {number}")))?;
    sys::leave_everything_but(&fd);
    // The session ends when its process does, not before: a ctrl-C, or whatever a scheduler sends to all processes of a
    // job (SIGUSR1 before its time is up), must not cost the trace its end.
    sys::ignore_signals(&of_others());
    sys::lower_priority();
    Ok(Inherited(fd))
}

/// The signals that others send: all but those for a fault of this process's own, and for the end of a child.
fn of_others() -> Vec<i32> {
    let own = [SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV, SIGSYS, SIGCHLD];
    (1..=libc::SIGRTMAX()).filter(|signal| !own.contains(signal)).collect()
}

impl From<Inherited> for UnixStream {
    fn from(inherited: Inherited) -> UnixStream {
        inherited.0.into()
    }
}
