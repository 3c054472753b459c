//! Windows of `gpuspy collect`: what is made of traces whose time is over?

mod kept;
mod metrics;
mod tables;

use super::{Failure, say};
use crate::collect::{self, Complete, Division, sys};
use crossbeam_channel::{Receiver, unbounded};
pub(super) use kept::Kept;
pub(super) use metrics::MetricsFile;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;
pub(super) use tables::Tables;

/// What is made of the traces that are complete. Without any of it, they stay as they are.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    /// Counters of what is in them.
    pub metrics: Option<MetricsFile>,
    /// Tables, which take their place.
    pub tables: Option<Tables>,
    /// Those that are old are removed.
    pub kept: Option<Kept>,
}

/// Takes the traces that are complete, on a thread of its own: at once, one after the other.
#[derive(Debug)]
pub(super) struct Taking(Option<JoinHandle<()>>);

/// Divides a collection into windows of this length.
///
/// # Errors
/// Fails if the system has no thread for it, or if nothing can be written where the metrics are wanted.
pub(super) fn begin(length: Duration, wanted: Wanted) -> Result<(Division, Taking), Failure> {
    if let Some(metrics) = &wanted.metrics {
        metrics.write()?;
    }
    wanted.tables.as_ref().map_or_else(Vec::new, Tables::leftovers).iter().for_each(say);
    let (complete, completed) = unbounded();
    if wanted.is_nothing() {
        return Ok((Division { length, complete }, Taking(None)));
    }
    let taking = Builder::new().spawn(move || wanted.take(&completed));
    let taking = taking.map_err(|e| collect::Error::no_thread("complete traces", &e))?;
    Ok((Division { length, complete }, Taking(Some(taking))))
}

impl Taking {
    /// Waits until everything is written. The [`Division`] has to be gone.
    pub(super) fn finish(self) {
        if let Some(thread) = self.0 {
            // It has said what went wrong.
            let _ = thread.join();
        }
    }
}

impl Wanted {
    fn is_nothing(&self) -> bool {
        let Wanted { metrics, tables, kept } = self;
        metrics.is_none() && tables.is_none() && kept.is_none()
    }

    fn take(mut self, completed: &Receiver<Complete>) {
        // The collection comes first.
        sys::lower_priority();
        // Threads that this one starts have its mask.
        sys::survive_size_limit();
        for complete in completed {
            if let Some(metrics) = &mut self.metrics {
                metrics.take(&complete);
            }
            if let Some(tables) = &self.tables {
                tables.take(&complete);
            }
            if let Some(kept) = &mut self.kept {
                kept.take(&complete);
            }
            sys::trim_memory();
        }
    }
}

/// Makes something of a trace. If that fails, it says why, even if it is by a fault of ours: the next trace has its turn.
fn caught<T>(making: &str, trace: &Path, make: impl FnOnce() -> Result<T, Failure>) -> Option<T> {
    // State that a panic leaves behind is not used again.
    match catch_unwind(AssertUnwindSafe(make)) {
        Ok(Ok(made)) => return Some(made),
        Ok(Err(failure)) => say(&failure.sentence),
        Err(_) => say(format_args!("an internal error ended the {making} of {}", trace.display())),
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A write beyond `ulimit -f` ended the collector.
    #[test]
    fn the_thread_that_writes_survives_a_limit_on_file_sizes() {
        let (_, completed) = unbounded();
        let taking = std::thread::spawn(move || {
            Wanted::default().take(&completed);
            std::fs::read_to_string("/proc/thread-self/status").unwrap()
        });
        let status = taking.join().unwrap();
        let blocked = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).unwrap();
        let blocked = u64::from_str_radix(blocked.trim(), 16).unwrap();
        assert_ne!(blocked & (1 << (libc::SIGXFSZ - 1)), 0, "{blocked:x}");
    }
}
