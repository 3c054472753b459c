//! Reads the traces of a run one machine after another.
//!
//! Processes of one machine have to be looked at together, because they may share GPUs. Those of another machine have nothing
//! in common with them but the job. So of a run on many machines, the traces of one are open at a time, and what is kept of
//! the others is what was made of them.

use super::Failure;
use super::filter::{self, Known};
use super::progress::Reading;
use super::traces::{Found, Opened, Unread, find, joined, open, read, time_of_steps};
use crate::model::filter::Filter;
use crate::model::run::{self, Numbering, Place};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The traces of a run by machine, none of which is open.
pub(super) struct Machines {
    /// What the user named.
    path: PathBuf,
    traces: Vec<Found>,
    /// The traces that could not be read, and why.
    pub unread: Unread,
}

impl Machines {
    /// Looks into a trace, or into all traces of a directory, for where they are from. Successive windows of a process are one.
    pub(super) fn of(path: &Path, patience: Duration) -> Result<Machines, Failure> {
        let machines = Machines::of_windows(path, patience)?;
        Ok(Machines { traces: joined(machines.traces), ..machines })
    }

    /// Does the same with each window for itself.
    pub(super) fn of_windows(path: &Path, patience: Duration) -> Result<Machines, Failure> {
        let (traces, unread) = find(path, patience)?;
        Ok(Machines { path: path.to_owned(), traces, unread })
    }

    /// The trace whose collection began first.
    pub(super) fn first(&self) -> Option<&Path> {
        let began = |place: &Place| place.began.map_or(u64::MAX, |(began, _)| began);
        let first = self.traces.iter().min_by_key(|found| began(&found.place));
        first.and_then(|found| found.paths.first()).map(PathBuf::as_path)
    }

    /// The number of traces, windows that are one counted once.
    pub(super) fn count(&self) -> usize {
        self.traces.len()
    }

    /// The number of processes, each of which may have a trace for each window of its time.
    pub(super) fn processes(&self) -> usize {
        run::processes(self.traces.iter().map(|found| found.place.process.as_ref())).len()
    }

    /// When the windows of time that the traces are about began, s since 1970; with `None`, if a trace is about a whole run.
    pub(super) fn windows(&self) -> BTreeSet<Option<u64>> {
        self.traces.iter().map(|found| found.place.window).collect()
    }

    /// Reads the traces of each machine once, and gives those that the filter selects to a function, each with its own filter.
    ///
    /// # Errors
    /// The filter selects something that no trace contains.
    pub(super) fn each(
        &mut self,
        filter: &Filter,
        mut visit: impl FnMut(&mut [Opened], &[Filter]),
    ) -> Result<(), Failure> {
        filter::check_ranks(&self.path, filter, self.traces.iter().map(|found| found.place.rank))?;
        let places: Vec<Place> = self.traces.iter().map(|found| found.place.clone()).collect();
        let mut machines = run::machines(&places);
        // Ranks of other machines change nothing for those that are selected.
        machines.retain(|machine| machine.iter().any(|at| filter.is_of_rank(places[*at].rank)));
        let (mut numbering, mut known, last) = (Numbering::default(), Known::default(), machines.len());
        let time = self.time(filter, &machines)?;
        let mut progress = Reading::of(&machines);
        for (number, machine) in (1..).zip(machines) {
            let mut opened = self.open(&machine, &mut progress);
            let filters = selected(&mut opened, &mut numbering, filter, time);
            opened.iter().zip(&filters).for_each(|(trace, filter)| known.add(&trace.contents(filter)));
            if number == last {
                known.check(&self.path, filter)?;
            }
            visit(&mut opened, &filters);
        }
        Ok(())
    }

    /// Returns the time of the steps that the filter selects: of the process with most steps, whichever machine it is on.
    fn time(
        &mut self,
        filter: &Filter,
        machines: &[Vec<usize>],
    ) -> Result<Option<(u64, Option<u64>)>, Failure> {
        let Some(steps) = filter.steps else { return Ok(None) };
        let mut progress = Reading::of(machines);
        let (mut numbering, mut spans) = (Numbering::default(), Vec::new());
        for machine in machines {
            let mut opened = self.open(machine, &mut progress);
            let filters = selected(&mut opened, &mut numbering, filter, None);
            spans.extend(opened.iter_mut().zip(&filters).map(|(trace, filter)| trace.span(steps, filter)));
        }
        time_of_steps(&self.path, steps, spans.into_iter()).map(Some)
    }

    /// Opens the traces of a machine, and reads each once.
    fn open(&mut self, machine: &[usize], progress: &mut Reading) -> Vec<Opened> {
        let mut opened = Vec::new();
        for at in machine {
            progress.next();
            let readers = open(&self.traces[*at].paths, &mut self.unread);
            opened.extend(readers.into_iter().map(|(path, reader)| read(path, reader)));
        }
        opened
    }
}

/// Returns the filters of the traces of a machine, and drops the traces of ranks that are not selected.
fn selected(
    opened: &mut Vec<Opened>,
    numbering: &mut Numbering,
    filter: &Filter,
    time: Option<(u64, Option<u64>)>,
) -> Vec<Filter> {
    // Times count from the start of the run, and streams have their numbers in the run, whichever ranks are selected.
    let surveyed: Vec<_> = opened.iter().map(Opened::surveyed).collect();
    let mut filters = numbering.filters(&surveyed, filter);
    let mut ranks = opened.iter().map(Opened::rank).collect::<Vec<_>>().into_iter();
    filters.retain(|_| ranks.next().is_none_or(|rank| filter.is_of_rank(rank)));
    opened.retain(|trace| filter.is_of_rank(trace.rank()));
    if let Some((since, until)) = time {
        filters.iter_mut().for_each(|filter| (filter.since, filter.until) = (Some(since), until));
    }
    filters
}
