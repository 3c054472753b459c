//! Children that cannot hang the doctor. Each has a time limit, prints into files of a private directory, and is killed when
//! the doctor receives a signal.

use super::probe::Probe;
use crate::cli::Failure;
use crate::cli::launch::PrivateDir;
use crate::collect::sys::{self, Signals};
use serde::de::DeserializeOwned;
use std::ffi::OsString;
use std::fs::{self, File};
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How long a killed child may take to end. One that is blocked in a broken kernel driver never does.
const KILLED: Duration = Duration::from_secs(2);
/// The interval at which a child is polled.
const POLL: Duration = Duration::from_millis(5);

/// The error of a child that was not waited for.
const INTERRUPTED: &str = "was interrupted";

/// What all children share.
#[derive(Debug)]
pub(super) struct Nursery {
    pub(super) private: PrivateDir,
    signals: Signals,
    /// The time limit of a child.
    limit: Duration,
}

/// A child without a result. The text completes a sentence that starts with "the child".
#[derive(Debug)]
pub(super) struct Silent(pub(super) String);

impl Nursery {
    /// Must be created before any thread is started.
    pub(super) fn new(limit: Duration) -> Result<Nursery, Failure> {
        let private = PrivateDir::new()?;
        let signals = Signals::block(&[libc::SIGINT, libc::SIGTERM, libc::SIGHUP])
            .map_err(|e| Failure::usage(format_args!("cannot watch for signals: {}", crate::why::why(&e))))?;
        Ok(Nursery { private, signals, limit })
    }

    /// Returns the exit code if a signal has arrived: 128 + its number, as in a shell.
    pub(super) fn interruption(&self) -> Option<u8> {
        let signal = self.signals.next().ok()??;
        u8::try_from(128 + signal.number).ok()
    }

    /// Returns whether a signal has arrived. The signal stays pending.
    fn is_interrupted(&self) -> bool {
        sys::wait([Some(self.signals.as_fd())], Duration::ZERO).is_ok_and(|[arrived]| arrived)
    }

    /// Runs a probe in a child and returns its result.
    pub(super) fn send<T: DeserializeOwned>(
        &self,
        probe: Probe,
        runtime: Option<&str>,
        environment: &[(&str, OsString)],
    ) -> Result<T, Silent> {
        if self.is_interrupted() {
            return Err(Silent(INTERRUPTED.to_owned()));
        }
        let silent = |e: std::io::Error| Silent(format!("cannot be started: {}", crate::why::said(&e)));
        let place = self.private.path();
        let (stdout, stderr) = (place.join("stdout"), place.join("stderr"));
        let mut command = Command::new(std::env::current_exe().map_err(silent)?);
        command
            .arg(super::CHILD)
            .arg(probe.name())
            .args(runtime)
            .envs(environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(File::create(&stdout).map_err(silent)?)
            .stderr(File::create(&stderr).map_err(silent)?);
        let child = self.signals.restore_in(&mut command).spawn().map_err(silent)?;
        let status = self.wait(child)?;
        let said = fs::read(&stdout).unwrap_or_default();
        let line = said.split(|&b| b == b'\n').rfind(|line| line.starts_with(b"{"));
        match line.and_then(|line| serde_json::from_slice(line).ok()) {
            Some(answer) if status.success() => Ok(answer),
            _ => Err(Silent(why(status, &stderr))),
        }
    }

    /// Returns the last line on the stderr of the last child.
    pub(super) fn last_complaint(&self) -> String {
        complaint(&fs::read(self.private.path().join("stderr")).unwrap_or_default())
    }

    fn wait(&self, mut child: Child) -> Result<ExitStatus, Silent> {
        let deadline = Instant::now() + self.limit;
        while !self.is_interrupted() && Instant::now() < deadline {
            if let Ok(Some(status)) = child.try_wait() {
                return Ok(status);
            }
            std::thread::sleep(POLL);
        }
        // Fails if the child has ended just now.
        let _ = child.kill();
        let gone = Instant::now() + KILLED;
        while matches!(child.try_wait(), Ok(None)) {
            if Instant::now() > gone {
                return Err(Silent("hangs in the driver and cannot be ended".to_owned()));
            }
            std::thread::sleep(POLL);
        }
        Err(Silent(match self.is_interrupted() {
            true => INTERRUPTED.to_owned(),
            false => format!("did not return within {} s", self.limit.as_secs()),
        }))
    }
}

/// Returns how a child failed, with the last line of its stderr.
fn why(status: ExitStatus, stderr: &Path) -> String {
    let complaint = complaint(&fs::read(stderr).unwrap_or_default());
    match (status.signal(), complaint.is_empty()) {
        (Some(signal), true) => format!("was ended by signal {signal}"),
        (Some(signal), false) => format!("was ended by signal {signal}: {complaint}"),
        (None, true) => format!("gave no answer ({status})"),
        (None, false) => complaint,
    }
}

/// Returns the last line of a child's stderr, without the prefix `gpuspy: `.
fn complaint(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    let line = text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
    line.strip_prefix("gpuspy: ").unwrap_or(line).to_owned()
}
