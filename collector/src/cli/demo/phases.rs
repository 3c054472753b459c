//! The phases of the workload, and the file in which it reports when each of them ran.

use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

/// A part of the workload that shows a performance problem or its fix. They run in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Phase {
    /// Each step's input is copied from pageable memory, and the kernels wait for it.
    Input,
    /// Kernels so short that launching them takes longer.
    SmallKernels,
    /// The loss is read after each step, and the GPU waits while the host works.
    SyncPerStep,
    /// A cache that grows, and a block that each step allocates and frees.
    GrowingMemory,
    /// The kernels of [`SmallKernels`](Phase::SmallKernels), in a CUDA graph.
    Graph,
    /// The work of [`Input`](Phase::Input), copied from pinned memory on a stream of its own.
    Overlap,
}

impl Phase {
    /// All phases.
    #[cfg(test)]
    pub(super) const ALL: [Phase; 6] = [
        Phase::Input,
        Phase::SmallKernels,
        Phase::SyncPerStep,
        Phase::GrowingMemory,
        Phase::Graph,
        Phase::Overlap,
    ];

    /// Returns the name. The names of its kernels start with the same words.
    pub(super) fn name(self) -> &'static str {
        match self {
            Phase::Input => "input",
            Phase::SmallKernels => "small-kernels",
            Phase::SyncPerStep => "sync-per-step",
            Phase::GrowingMemory => "growing-memory",
            Phase::Graph => "graph",
            Phase::Overlap => "overlap",
        }
    }
}

/// The period of a phase. None of its work was on the GPU before or after.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Window {
    pub(super) phase: Phase,
    /// Host ns, CLOCK_MONOTONIC_RAW.
    pub(super) begin: u64,
    pub(super) end: u64,
}

/// The variable with the path of the file that the workload writes its windows to.
pub(super) const FILE: &str = "GPUSPY_DEMO_PHASES";

/// The file to which the workload writes its windows, each as a line of JSON.
pub(super) struct Diary(Option<File>);

impl Diary {
    /// Opens the file that the environment names. Without one, windows are not written.
    pub(super) fn open() -> io::Result<Diary> {
        let path = std::env::var_os(FILE);
        path.map(|path| File::options().append(true).create(true).open(path)).transpose().map(Diary)
    }

    /// Writes a window.
    pub(super) fn write(&mut self, window: &Window) -> io::Result<()> {
        match &mut self.0 {
            Some(file) => file.write_all(format!("{}\n", serde_json::json!(window)).as_bytes()),
            None => Ok(()),
        }
    }
}

/// Reads the windows in a file. A workload that was killed has written those of complete phases.
pub(super) fn read(path: &Path) -> Vec<Window> {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_read_back_without_a_cut_last_line() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("phases");
        assert_eq!(read(&path), []);
        let mut diary = Diary(Some(File::create(&path).unwrap()));
        let windows = Phase::ALL.map(|phase| Window { phase, begin: 1 << 60, end: u64::MAX });
        windows.iter().for_each(|window| diary.write(window).unwrap());
        diary.0.as_mut().unwrap().write_all(b"{\"phase\":\"inp").unwrap();
        assert_eq!(read(&path), windows);
    }
}
