//! The file with the counters of what is in the traces of windows (`gpuspy collect --metrics`).

use super::caught;
use crate::analyze::ProcessReport;
use crate::cli::output::write_file;
use crate::cli::traces::{read, unreadable};
use crate::cli::{Failure, report, say};
use crate::collect::Complete;
use crate::export::parquet::place;
use crate::model::filter::Filter;
use crate::report::Metrics;
use crate::trace::TraceReader;
use std::path::{Path, PathBuf};

/// For how many seconds, or windows if that is longer, the counters of a process that has ended are still in the file: until everybody
/// who reads it now and then has seen the last ones.
const LAST: (u64, u64) = (600, 3);

/// The file, and what is counted.
#[derive(Debug)]
pub(in crate::cli) struct MetricsFile {
    path: PathBuf,
    metrics: Metrics,
    /// Whether it could not be written the last time, which was said.
    is_behind: bool,
}

impl MetricsFile {
    /// Nothing is counted yet.
    pub(in crate::cli) fn new(path: &Path) -> MetricsFile {
        MetricsFile { path: path.to_owned(), metrics: Metrics::default(), is_behind: false }
    }

    /// Writes the file. Who reads it finds the one before or this one, and nothing in between.
    pub(super) fn write(&self) -> Result<(), Failure> {
        write_file(&self.path, |out| out.write_all(self.metrics.text().as_bytes()))
    }

    /// Counts what is in a trace.
    pub(super) fn take(&mut self, Complete { window, path }: &Complete) {
        // What could panic comes before anything is counted.
        let counted = caught("counting", path, || {
            let (program, report) = report_of(path)?;
            self.metrics.add(&program, &report, window.ended());
            Ok(())
        });
        if counted.is_none() {
            self.metrics.add_unread();
        }
        let (seconds, windows) = LAST;
        let last = seconds.max(windows.saturating_mul(window.length.as_secs()));
        self.metrics.forget_before(window.ended().saturating_sub(last));
        let written = self.write();
        // A full disk is said once, and not in each window.
        if let Err(failure) = &written
            && !self.is_behind
        {
            say(&failure.sentence);
        }
        self.is_behind = written.is_err();
    }
}

/// Returns the name of the program that a trace is about, and the report of what is in it.
fn report_of(trace: &Path) -> Result<(String, ProcessReport), Failure> {
    let reader = TraceReader::open(trace).map_err(|error| unreadable(trace, &error))?;
    let mut opened = read(trace.to_owned(), reader);
    Ok((place::program_of(&opened.names), report::analyze(&mut opened, &Filter::default())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collect::Window;
    use std::fs;
    use std::time::Duration;

    #[test]
    fn a_trace_that_cannot_be_read_is_counted_as_such_and_the_next_one_has_its_turn() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("gpuspy.prom");
        let mut file = MetricsFile::new(&path);
        let window = Window { length: Duration::from_secs(60), number: 29_932_070 };
        let former = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/former/moves.gspy");
        for trace in [folder.path().join("gone.gspy"), former] {
            file.take(&Complete { window, path: trace });
        }
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains("\ngpuspy_unread_traces_total 1\n"), "{text}");
        assert!(text.contains("\ngpuspy_launches_total{program="), "{text}");
    }

    #[test]
    fn a_file_that_could_not_be_written_is_written_as_soon_as_it_can_be() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("later/gpuspy.prom");
        let mut file = MetricsFile::new(&path);
        assert!(file.write().unwrap_err().sentence.starts_with("cannot write "));
        let window = Window { length: Duration::from_secs(60), number: 29_932_070 };
        let gone = Complete { window, path: folder.path().join("gone.gspy") };
        file.take(&gone);
        assert!(file.is_behind);
        fs::create_dir(folder.path().join("later")).unwrap();
        file.take(&gone);
        assert!(!file.is_behind);
        assert!(fs::read_to_string(&path).unwrap().ends_with("\ngpuspy_unread_traces_total 2\n"));
    }
}
