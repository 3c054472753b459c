//! Windows of `gpuspy collect`: what becomes of traces whose time is over?

use super::{Failure, parquet, say};
use crate::collect::{self, Complete, Division, sys};
use crossbeam_channel::{Receiver, unbounded};
use std::fs;
use std::path::PathBuf;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// Tables that traces become.
#[derive(Debug)]
pub(super) struct Tables {
    /// Where the folders of the jobs lie.
    pub directory: PathBuf,
    /// The job, if the user has named it.
    pub job: Option<String>,
}

/// Takes the traces that are complete, on a thread of its own: at once, one after the other.
#[derive(Debug)]
pub(super) struct Exporter(Option<JoinHandle<()>>);

/// Divides a collection into windows of this length. Their traces become tables, or stay as they are.
///
/// # Errors
/// Fails if the system has no thread for it.
pub(super) fn begin(length: Duration, tables: Option<Tables>) -> Result<(Division, Exporter), Failure> {
    let (complete, completed) = unbounded();
    let export = |tables: Tables| {
        let exporting = Builder::new().spawn(move || tables.take(&completed));
        exporting.map_err(|e| collect::Error::no_thread("the tables", &e))
    };
    let exporter = tables.map(export).transpose()?;
    Ok((Division { length, complete }, Exporter(exporter)))
}

impl Exporter {
    /// Waits until all tables are written. The [`Division`] has to be gone.
    pub(super) fn finish(self) {
        if let Some(thread) = self.0 {
            // It has said what went wrong.
            let _ = thread.join();
        }
    }
}

impl Tables {
    fn take(&self, completed: &Receiver<Complete>) {
        // The collection comes first.
        sys::lower_priority();
        for Complete { window, path } in completed {
            match parquet::add(&path, &self.directory, self.job.as_deref(), window.began()) {
                // Only the space that it takes is lost if it cannot be removed.
                Ok(_) => drop(fs::remove_file(&path)),
                Err(failure) => {
                    say(&failure.sentence);
                    say(format_args!("the trace {} was kept", path.display()));
                }
            }
            sys::trim_memory();
        }
    }
}
