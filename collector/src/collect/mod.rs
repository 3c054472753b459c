//! How do records come out of a process? The collector receives its segment, drains its rings and writes its trace.
//!
//! A process is a *session* with two threads. One only empties the rings, so that no writer in the process finds its
//! ring full because the collector is compressing; the other converts and writes. Between them is a bounded queue.
//! When the queue is full, the draining thread waits, and the rings buffer.

mod capture_range;
mod carry;
mod collector;
mod convert;
pub(crate) mod descriptors;
mod drain;
mod finished;
mod hangs;
mod held;
mod host_ticks;
mod host_time;
mod line_table;
mod memory;
mod open_ranges;
mod output;
pub(crate) mod process;
mod progress;
mod receive;
mod recorder;
mod session;
mod stacks;
mod starting;
mod status;
pub(crate) mod sys;
mod taken_over;
mod texts;
mod thread_times;
mod windows;

pub use carry::Carry;
pub use collector::{Collector, Inherited, Stopper, bind, leave_all_but};
pub use convert::{Item, convert};
pub use drain::{Batch, Drain, Gone, Round};
pub use hangs::{HANG_AFTER, HangNotice, HangWatch};
pub use host_ticks::{Clock, Pair, Slope};
pub use line_table::line as python_line;
pub use output::{Target, Traces};
pub use progress::{Figures, Progress};
pub use receive::refuse;
pub use session::Session;
pub use windows::{Complete, Division, Incomplete, Window};

use crate::why::why;

/// The reason why something could not be collected: one sentence without its full stop.
#[derive(Clone, Debug)]
pub struct Error {
    sentence: String,
    /// Whether the cause is that agent and collector are of different releases.
    releases_differ: bool,
}

/// A result whose error is an [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn new(sentence: impl Into<String>) -> Error {
        Error { sentence: sentence.into(), releases_differ: false }
    }

    /// An error of the system: what was being done, and the system's reason.
    pub(crate) fn io(doing: impl std::fmt::Display, error: std::io::Error) -> Error {
        Error::new(format!("{doing}: {}", why(&error)))
    }

    /// A thread that the system refuses. Its own words ("Resource temporarily unavailable") name no cause.
    pub(crate) fn no_thread(whose: impl std::fmt::Display, error: &std::io::Error) -> Error {
        let said = crate::why::said(error);
        Error::new(format!(
            "no thread can be started for {whose}: {said}; raise the limit on threads (ulimit -u) or on memory (ulimit -v)"
        ))
    }

    /// An agent of another release than this collector.
    pub(crate) fn of_releases(sentence: impl Into<String>) -> Error {
        Error { releases_differ: true, ..Error::new(sentence) }
    }

    /// Whether agent and collector are of different releases.
    pub fn releases_differ(&self) -> bool {
        self.releases_differ
    }

    /// Names the process that the error is about.
    fn about(self, pid: u32) -> Error {
        Error { sentence: format!("process {pid}: {}", self.sentence), ..self }
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.sentence)
    }
}

impl std::error::Error for Error {}
