//! Many sessions at once: whoever connects is drained on threads of their own.

use super::host_ticks::Pair;
use super::output::{Target, Traces};
use super::progress::Progress;
use super::receive::Peer;
use super::session::Session;
use super::sys::{self, Stop, Stopped};
use super::{Error, Result};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Collects from processes until it is stopped, or they have ended.
#[derive(Debug)]
pub struct Collector {
    traces: Mutex<Traces>,
    stopped: Stopped,
    running: Arc<AtomicUsize>,
    first: Pair,
    progress: Progress,
}

/// Stops a [`Collector`] when dropped: running processes are detached, their traces completed.
#[derive(Debug)]
pub struct Stopper {
    _stop: Stop,
    running: Arc<AtomicUsize>,
}

impl Stopper {
    /// Processes that are being collected from.
    pub fn running(&self) -> usize {
        // Relaxed: a number to look at; nothing is read on the strength of it.
        self.running.load(Ordering::Relaxed)
    }
}

impl Collector {
    /// A collector that writes to `target`, and what stops it.
    ///
    /// # Errors
    /// The system is out of descriptors.
    pub fn new(target: Target) -> Result<(Collector, Stopper)> {
        let (stop, stopped) = sys::stop().map_err(|e| Error::io("cannot make a pipe", e))?;
        let running = Arc::new(AtomicUsize::new(0));
        let stopper = Stopper { _stop: stop, running: Arc::clone(&running) };
        let traces = Mutex::new(Traces::new(target));
        Ok((
            Collector { traces, stopped, running, first: Pair::now(), progress: Progress::default() },
            stopper,
        ))
    }

    /// Collects from every process that connects, until stopped. `tell` hears of each session that ends.
    pub fn listen(&self, listener: UnixListener, tell: impl Fn(&Result<Session>, &Traces) + Sync) {
        // An accept that would block is one that is over: everything here waits in `sys::wait`.
        let _ = listener.set_nonblocking(true);
        let tell = &tell;
        std::thread::scope(|threads| {
            let serve = |socket| {
                // Relaxed, with `Stopper::running`.
                self.running.fetch_add(1, Ordering::Relaxed);
                threads.spawn(move || {
                    let session = self.receive(socket);
                    self.running.fetch_sub(1, Ordering::Relaxed);
                    tell(&session, &self.traces());
                });
            };
            let mut stop = false;
            while !stop {
                let watched = [Some(listener.as_fd()), Some(self.stopped.as_fd())];
                stop = sys::wait(watched, Duration::from_secs(3600)).is_ok_and(|[_, stop]| stop);
                // Whoever has connected is heard, also at the end: a process may have come and gone by now.
                while let Some(socket) = accept(&listener) {
                    serve(socket);
                }
            }
        });
    }

    /// Collects from the process at the other end of a connection.
    ///
    /// # Errors
    /// Why there is no trace, or not a whole one.
    pub fn receive(&self, socket: UnixStream) -> Result<Session> {
        // On most systems accepted sockets do not inherit it, on none it may stay.
        socket.set_nonblocking(false).map_err(|e| Error::io("cannot wait for a greeting", e))?;
        Session::run(&Peer::receive(socket)?, &self.stopped, &self.traces, &self.first, &self.progress)
    }

    /// Collects from a running process that nobody collects from.
    ///
    /// # Errors
    /// As [`receive`](Self::receive).
    pub fn attach(&self, pid: u32) -> Result<Session> {
        Session::run(&Peer::open(pid)?, &self.stopped, &self.traces, &self.first, &self.progress)
    }

    /// What has been collected so far.
    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    /// The traces so far.
    pub fn traces(&self) -> std::sync::MutexGuard<'_, Traces> {
        // A thread that panicked has left the list of names whole.
        self.traces.lock().unwrap_or_else(|e| e.into_inner())
    }
}

fn accept(listener: &UnixListener) -> Option<UnixStream> {
    loop {
        match listener.accept() {
            Ok((socket, _)) => return Some(socket),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return None,
            Err(_) => {
                // Out of descriptors, or of memory: the connection waits in the queue until there are some.
                std::thread::sleep(Duration::from_millis(20));
                return None;
            }
        }
    }
}

/// Listens at a path.
///
/// # Errors
/// The path is taken, too long, or not writable.
pub fn bind(path: &Path) -> Result<UnixListener> {
    UnixListener::bind(path).map_err(|e| Error::io(format!("cannot listen on {}", path.display()), e))
}

/// A connection that was inherited by its number. See [`leave_all_but`].
#[derive(Debug)]
pub struct Inherited(OwnedFd);

/// Takes an inherited connection and leaves everything else that the starting process gave us: descriptors, standard
/// streams, terminal, working directory, and signals that mean the starting process and not us. To be called first.
///
/// # Errors
/// There is no such descriptor.
pub fn leave_all_but(number: i32) -> Result<Inherited> {
    let fd = sys::inherited(number).ok_or_else(|| Error::new(format!("there is no descriptor {number}")))?;
    sys::leave_everything_but(&fd);
    // The session ends when its process does, and not before: a ctrl-C or a stop of the whole group must not cost the
    // trace its end.
    sys::ignore_signals(&[libc::SIGINT, libc::SIGHUP, libc::SIGQUIT, libc::SIGTERM]);
    sys::lower_priority();
    Ok(Inherited(fd))
}

impl From<Inherited> for UnixStream {
    fn from(inherited: Inherited) -> UnixStream {
        inherited.0.into()
    }
}
