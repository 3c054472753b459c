//! The phases of the workload, and how it tells when each of them ran.

use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

/// What a part of the workload shows: a fault, or the remedy of one. In the order in which they run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Phase {
    /// Each step's input is copied from pageable memory, and the kernels wait for it.
    Input,
    /// Kernels so short that launching them takes longer.
    SmallKernels,
    /// The loss is read after each step, and the host works while the GPU waits.
    SyncPerStep,
    /// A cache that grows, and a block that each step allocates and frees.
    GrowingMemory,
    /// The kernels of [`SmallKernels`](Phase::SmallKernels), in a CUDA graph.
    Graph,
    /// The work of [`Input`](Phase::Input), copied from pinned memory on a stream of its own.
    Overlap,
}

impl Phase {
    /// All of them.
    #[cfg(test)]
    pub(super) const ALL: [Phase; 6] = [
        Phase::Input,
        Phase::SmallKernels,
        Phase::SyncPerStep,
        Phase::GrowingMemory,
        Phase::Graph,
        Phase::Overlap,
    ];

    /// What people read. Its kernels begin with the same words.
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

/// When a phase ran: nothing of it was on the GPU before or after.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Window {
    pub(super) phase: Phase,
    /// Host ns, CLOCK_MONOTONIC_RAW.
    pub(super) begin: u64,
    pub(super) end: u64,
    /// Training steps in it.
    pub(super) steps: u32,
}

/// The variable that names the file that the workload writes its windows to.
pub(super) const FILE: &str = "GPUSPY_DEMO_PHASES";

/// Where the workload tells its windows, a line of JSON each.
pub(super) struct Diary(Option<File>);

impl Diary {
    /// In the file that the environment names; without one nobody wants to know.
    pub(super) fn open() -> io::Result<Diary> {
        let path = std::env::var_os(FILE);
        path.map(|path| File::options().append(true).create(true).open(path)).transpose().map(Diary)
    }

    /// Tells a window.
    pub(super) fn write(&mut self, window: &Window) -> io::Result<()> {
        match &mut self.0 {
            Some(file) => file.write_all(format!("{}\n", serde_json::json!(window)).as_bytes()),
            None => Ok(()),
        }
    }
}

/// The windows told in a file. A workload that was ended has told those that were over.
pub(super) fn read(path: &Path) -> Vec<Window> {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_that_were_told_are_read_back_and_a_cut_line_is_none() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("phases");
        assert_eq!(read(&path), []);
        let mut diary = Diary(Some(File::create(&path).unwrap()));
        let told = Phase::ALL.map(|phase| Window { phase, begin: 1 << 60, end: u64::MAX, steps: 3 });
        told.iter().for_each(|window| diary.write(window).unwrap());
        diary.0.as_mut().unwrap().write_all(b"{\"phase\":\"inp").unwrap();
        assert_eq!(read(&path), told);
    }
}
