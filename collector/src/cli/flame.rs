//! `gpuspy export --to collapsed|speedscope`: the stacks of a program by what they cause.

use super::traces::{PATIENCE, filters, open_all, unreadable};
use super::{Failure, report, say};
use crate::export::flame::{self, Process, Weight};
use crate::model::filter::Filter;
use crate::model::job::Job;
use crate::model::stacks::{Stacks, as_lines};
use std::io::{self, Write};
use std::path::Path;

/// The first bytes of every speedscope file that gpuspy writes.
pub(super) const SPEEDSCOPE_START: &[u8] = b"{\"$schema\":\"https://www.speedscope.app/";

/// A flame graph's format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flames {
    Collapsed,
    Speedscope,
}

/// Reads a trace, or all traces of a directory, by stack.
pub(super) fn read(path: &Path, filter: &Filter) -> Result<Vec<Process>, Failure> {
    let mut opened = open_all(path, PATIENCE)?;
    for (path, error) in &opened.unread {
        say(&unreadable(path, error).sentence);
    }
    let filters = filters(path, &mut opened.traces, filter)?;
    let mut processes = Vec::new();
    for (trace, filter) in opened.traces.iter_mut().zip(&filters) {
        let stacks = Stacks::of(&trace.names);
        trace.names = as_lines(&trace.names);
        let report = report::analyze(trace, filter);
        let name = match (Job::of(&trace.names).rank, &trace.status) {
            (Some(rank), _) => format!("rank {rank}"),
            (None, Some(status)) => format!("pid {}", status.pid),
            (None, None) => trace.path.display().to_string(),
        };
        processes.push(Process::of(name, stacks, &report.tables));
    }
    if processes.iter().all(|process| process.stacks.is_empty()) {
        let why = "it has no stacks: run the program again with --stacks auto or full";
        return Err(Failure::usage(format_args!("cannot draw flames of {}: {why}", path.display())));
    }
    Ok(processes)
}

/// Writes the stacks with this weight; without one, speedscope gets all, and collapsed stacks the time of the GPU. Returns
/// whether there were any.
pub(super) fn write(
    out: impl Write,
    to: Flames,
    processes: &[Process],
    weight: Option<Weight>,
) -> io::Result<bool> {
    let stacks = match to {
        Flames::Collapsed => flame::collapsed(out, processes, weight.unwrap_or(Weight::Gpu)),
        Flames::Speedscope => {
            let weights = weight.map_or(Weight::ALL.to_vec(), |weight| vec![weight]);
            flame::speedscope(out, processes, &weights)
        }
    };
    Ok(stacks? > 0)
}
