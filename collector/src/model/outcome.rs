//! How did a process end, by what its session showed and what the system reported?

use crate::trace::record::{Ending, Exit};
use std::fmt;

/// How a process ended. Its `Display` is for people, its [`name`](Outcome::name) for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It still ran when the trace was last written.
    Running,
    /// It ran when its trace was cut off (the collector was killed, the disk was full), and may have run on.
    CutOff,
    /// It ran its exit handlers and ended with this code, if the code is known.
    Exited(Option<u8>),
    /// It ended with this code and without its exit handlers: `_exit`, as a forked worker of Python does.
    Left(u8),
    /// A signal from another process ended it.
    Killed(u8),
    /// A signal that it raised itself ended it.
    Crashed(u8),
    /// It ended without its exit handlers, by `_exit` or by a signal; which one is unknown.
    Vanished,
    /// It replaced itself with another program (`exec`).
    Replaced,
    /// It still ran when the collector was stopped.
    Detached,
}

/// Signals by their numbers, which x86-64 and aarch64 share (signal(7)).
const SIGNALS: [&str; 31] = [
    "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2", "PIPE",
    "ALRM", "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG", "XCPU", "XFSZ",
    "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS",
];

/// The signal with which the system ends a process that has taken too much memory, and launchers one that does not end by itself.
pub const SIGKILL: u8 = 9;

/// Signals that a fault, an assertion or `abort` raises.
const OWN_DOING: [&str; 7] = ["ILL", "TRAP", "ABRT", "BUS", "FPE", "SEGV", "SYS"];

impl Outcome {
    /// The outcome of a process whose session ended in this way and that the system reports to have exited like this.
    pub fn of(ending: Ending, exit: Option<Exit>) -> Outcome {
        match (ending, exit) {
            (Ending::Running, _) => Outcome::Running,
            (Ending::Replaced, _) => Outcome::Replaced,
            (Ending::Detached, _) => Outcome::Detached,
            // The signal may also have come in its exit handlers.
            (Ending::Exited | Ending::Vanished, Some(Exit::Signal(signal))) => {
                let is_own = short_name(signal).is_some_and(|name| OWN_DOING.contains(&name));
                if is_own { Outcome::Crashed(signal) } else { Outcome::Killed(signal) }
            }
            (Ending::Exited, Some(Exit::Code(code))) => Outcome::Exited(Some(code)),
            (Ending::Exited, None) => Outcome::Exited(None),
            (Ending::Vanished, Some(Exit::Code(code))) => Outcome::Left(code),
            (Ending::Vanished, None) => Outcome::Vanished,
        }
    }

    /// Whether the process ended by itself, and not by a signal: it did not wait for anything any more.
    pub fn is_own(self) -> bool {
        matches!(self, Outcome::Exited(_) | Outcome::Left(_))
    }

    /// Whether the process may have run on.
    pub fn runs_on(self) -> bool {
        matches!(self, Outcome::Running | Outcome::CutOff | Outcome::Detached)
    }

    /// The word for it in the JSON report.
    pub fn name(self) -> &'static str {
        match self {
            Outcome::Running => "running",
            Outcome::CutOff => "unknown",
            Outcome::Exited(_) => "exited",
            Outcome::Killed(_) => "killed",
            Outcome::Crashed(_) => "crashed",
            Outcome::Left(_) | Outcome::Vanished => "vanished",
            Outcome::Replaced => "replaced",
            Outcome::Detached => "detached",
        }
    }

    /// Whether it is known to have ended otherwise than with code 0.
    pub fn is_failure(self) -> bool {
        match self {
            Outcome::Exited(code) => code.is_some_and(|code| code != 0),
            Outcome::Left(code) => code != 0,
            outcome => outcome.is_violent(),
        }
    }

    /// Whether a signal ended it, so that a person should look into it.
    pub fn is_violent(self) -> bool {
        matches!(self, Outcome::Killed(_) | Outcome::Crashed(_))
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Outcome::Running => f.write_str("still running"),
            Outcome::CutOff => f.write_str("ending unknown"),
            Outcome::Exited(None | Some(0)) => f.write_str("exited"),
            Outcome::Exited(Some(code)) => write!(f, "exited with code {code}"),
            Outcome::Left(code) => write!(f, "ended by _exit with code {code}"),
            Outcome::Killed(signal) => write!(f, "killed by {}", signal_name(signal)),
            Outcome::Crashed(signal) => write!(f, "crashed with {}", signal_name(signal)),
            Outcome::Vanished => f.write_str("killed, crashed or ended by _exit"),
            Outcome::Replaced => f.write_str("replaced by exec"),
            Outcome::Detached => f.write_str("still running when detached"),
        }
    }
}

fn short_name(signal: u8) -> Option<&'static str> {
    SIGNALS.get(usize::from(signal).checked_sub(1)?).copied()
}

/// A signal's name in the form that kill(1) accepts.
pub fn signal_name(signal: u8) -> String {
    short_name(signal).map_or_else(|| format!("signal {signal}"), |name| format!("SIG{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_outcome_claims_no_more_than_is_known() {
        let reported = |ending, exit| {
            let outcome = Outcome::of(ending, exit);
            (outcome.name(), outcome.to_string())
        };
        let exited = |exit| reported(Ending::Exited, exit);
        assert_eq!(exited(None), ("exited", "exited".to_owned()));
        assert_eq!(exited(Some(Exit::Code(0))), ("exited", "exited".to_owned()));
        assert_eq!(exited(Some(Exit::Code(1))), ("exited", "exited with code 1".to_owned()));
        let crashed = ("crashed", "crashed with SIGSEGV".to_owned());
        assert_eq!(exited(Some(Exit::Signal(libc::SIGSEGV as u8))), crashed, "in an exit handler");
        let vanished = |exit| reported(Ending::Vanished, exit);
        assert_eq!(vanished(None), ("vanished", "killed, crashed or ended by _exit".to_owned()));
        assert_eq!(vanished(Some(Exit::Code(0))), ("vanished", "ended by _exit with code 0".to_owned()));
        assert_eq!(vanished(Some(Exit::Signal(9))), ("killed", "killed by SIGKILL".to_owned()));
        assert_eq!(vanished(Some(Exit::Signal(libc::SIGABRT as u8))).0, "crashed");
        assert_eq!(vanished(Some(Exit::Signal(libc::SIGTERM as u8))).0, "killed");
        assert_eq!(vanished(Some(Exit::Signal(40))).1, "killed by signal 40");
        assert_eq!(reported(Ending::Detached, None).0, "detached");
    }

    #[test]
    fn an_end_that_is_not_known_is_no_failure() {
        let failures = [Outcome::Exited(Some(1)), Outcome::Left(2), Outcome::Killed(15), Outcome::Crashed(6)];
        assert!(failures.into_iter().all(Outcome::is_failure));
        let others = [
            Outcome::Running,
            Outcome::CutOff,
            Outcome::Exited(None),
            Outcome::Exited(Some(0)),
            Outcome::Left(0),
            Outcome::Vanished,
            Outcome::Replaced,
            Outcome::Detached,
        ];
        assert!(!others.into_iter().any(Outcome::is_failure));
    }

    #[test]
    fn signals_have_their_names() {
        for (number, name) in [
            (libc::SIGHUP, "SIGHUP"),
            (libc::SIGBUS, "SIGBUS"),
            (libc::SIGUSR1, "SIGUSR1"),
            (libc::SIGTERM, "SIGTERM"),
            (libc::SIGXFSZ, "SIGXFSZ"),
            (libc::SIGSYS, "SIGSYS"),
        ] {
            assert_eq!(signal_name(number as u8), name);
        }
        assert_eq!(signal_name(0), "signal 0");
        assert_eq!(signal_name(255), "signal 255");
    }
}
