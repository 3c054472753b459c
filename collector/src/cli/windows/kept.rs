//! Which traces of windows are old, and go (`gpuspy collect --keep`).

use crate::cli::say;
use crate::cli::traces::{is_left, named_like_traces};
use crate::collect::Complete;
use crate::model::run::Place;
use crate::trace::TraceReader;
use crate::why::why;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The complete traces, of which those that are old are removed.
#[derive(Debug)]
pub(in crate::cli) struct Kept {
    /// How long before the latest window those ended that stay.
    age: Duration,
    /// When their windows ended, s since 1970, and where they are.
    traces: Vec<(u64, PathBuf)>,
}

impl Kept {
    /// Keeps traces for so long, those that earlier collectors left in the directory too.
    pub(in crate::cli) fn new(directory: &Path, age: Duration) -> Kept {
        let left = named_like_traces(directory).unwrap_or_default().into_iter().filter(|path| is_left(path));
        Kept { age, traces: left.filter_map(|path| Some((window_end(&path)?, path))).collect() }
    }

    /// Takes a trace, and removes those that are old by now.
    pub(super) fn take(&mut self, Complete { window, path }: &Complete) {
        self.traces.push((window.ended(), path.clone()));
        let oldest = window.ended().saturating_sub(self.age.as_secs());
        self.traces.retain(|(ended, path)| {
            let stays = *ended > oldest;
            if !stays {
                remove(path);
            }
            stays
        });
    }
}

/// Returns when a trace of a window ended: s since 1970. Windows of an earlier collector may have had another length.
fn window_end(trace: &Path) -> Option<u64> {
    let reader = TraceReader::open(trace).ok()?;
    let status = reader.status()?;
    Place::of(reader.names(), Some(status)).window?;
    let lasted = status.ended.saturating_sub(status.began);
    Some(status.began_realtime.saturating_add(lasted) / 1_000_000_000)
}

fn remove(trace: &Path) {
    match fs::remove_file(trace) {
        Err(e) if e.kind() != ErrorKind::NotFound => {
            say(format_args!("cannot remove {}: {}; it stays", trace.display(), why(&e)));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collect::Window;
    use crate::trace::generator::write_idle_window;

    const LENGTH: Duration = Duration::from_secs(60);

    fn complete(folder: &Path, number: u64, pid: u32) -> Complete {
        let path = folder.join(format!("python-{pid}-{number}.gspy"));
        fs::write(&path, "trace").unwrap();
        Complete { window: Window { length: LENGTH, number }, path }
    }

    #[test]
    fn traces_go_when_their_windows_ended_longer_ago_than_they_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let other = folder.path().join("kept-by-hand.gspy");
        fs::write(&other, "trace").unwrap();
        let mut kept = Kept::new(folder.path(), 3 * LENGTH);
        let traces: Vec<Complete> =
            (10..15).flat_map(|number| [7, 8].map(|pid| complete(folder.path(), number, pid))).collect();
        for trace in &traces {
            kept.take(trace);
        }
        let there: Vec<u64> =
            traces.iter().filter(|trace| trace.path.exists()).map(|trace| trace.window.number).collect();
        assert_eq!(there, [12, 12, 13, 13, 14, 14], "three windows of each");
        assert!(other.exists(), "nobody knows when it was");
    }

    /// They would have stayed for ever.
    #[test]
    fn traces_that_an_earlier_collector_left_go_too() {
        let folder = tempfile::tempdir().unwrap();
        let left = folder.path().join("python-7-20261125-091000.gspy");
        write_idle_window(&left, 7, LENGTH.as_secs() * 10, LENGTH.as_secs()).unwrap();
        let mut kept = Kept::new(folder.path(), LENGTH);
        assert_eq!(kept.traces, [(LENGTH.as_secs() * 11, left.clone())]);
        kept.take(&complete(folder.path(), 10, 8));
        assert!(left.exists(), "it is of the latest window");
        let latest = complete(folder.path(), 11, 8);
        kept.take(&latest);
        assert!(!left.exists() && latest.path.exists());
    }

    #[test]
    fn a_trace_that_somebody_else_removed_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let mut kept = Kept::new(folder.path(), LENGTH);
        let trace = complete(folder.path(), 1, 7);
        kept.take(&trace);
        fs::remove_file(&trace.path).unwrap();
        kept.take(&complete(folder.path(), 9, 7));
        assert_eq!(kept.traces.len(), 1);
    }
}
