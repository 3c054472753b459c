//! Reads the traces of a run one machine after another.
//!
//! Processes of one machine have to be looked at together, because they may share GPUs. Those of another machine have nothing
//! in common with them but the job. So of a run on many machines, the traces of one are open at a time, and what is kept of
//! the others is what was made of them.

use super::Failure;
use super::filter::{self, Known};
use super::following::Following;
use super::progress::Reading;
use super::traces::{Found, Opened, Unread, find, joined, open, read, selected_time};
use crate::model::filter::Filter;
use crate::model::run::{self, Numbering, Place};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The selected time, ns since the start of the run: its start, and its end if it ends before the run.
type Time = Option<(u64, Option<u64>)>;

/// The traces of a run by machine, none of which is open.
pub(super) struct Machines<'f> {
    /// What the user named.
    path: PathBuf,
    traces: Vec<Found>,
    /// What is known of the time of the traces that is not shown.
    following: Option<&'f mut Following>,
    /// The traces that could not be read, and why.
    pub unread: Unread,
}

impl<'f> Machines<'f> {
    /// Looks into a trace, or into all traces of a directory, for where they are from. Successive windows of a process are one.
    pub(super) fn of(path: &Path, patience: Duration) -> Result<Machines<'f>, Failure> {
        let machines = Machines::of_windows(path, patience)?;
        Ok(Machines { traces: joined(machines.traces), ..machines })
    }

    /// Does the same with each window for itself.
    pub(super) fn of_windows(path: &Path, patience: Duration) -> Result<Machines<'f>, Failure> {
        let (traces, unread) = find(path, patience)?;
        Ok(Machines { path: path.to_owned(), traces, following: None, unread })
    }

    /// These traces of a path, which are read again and again.
    pub(super) fn following(path: &Path, traces: Vec<Found>, following: &'f mut Following) -> Machines<'f> {
        Machines { path: path.to_owned(), traces, following: Some(following), unread: Vec::new() }
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
        let (time, mut read) = self.time(filter, &machines)?;
        let mut progress = Reading::of(&machines);
        for (number, machine) in (1..).zip(machines) {
            let mut opened = read.take().unwrap_or_else(|| self.open(&machine, &mut progress));
            let filters = selected(&mut opened, &mut numbering, filter, time);
            opened.iter().zip(&filters).for_each(|(trace, filter)| known.add(&trace.contents(filter)));
            if number == last {
                known.check(&self.path, filter)?;
            }
            visit(&mut opened, &filters);
        }
        Ok(())
    }

    /// Returns the time that the filter selects by the steps of the run, or by its end, on whichever machine that is; and the traces that
    /// were read for that, if all are of one machine.
    fn time(
        &mut self,
        filter: &Filter,
        machines: &[Vec<usize>],
    ) -> Result<(Time, Option<Vec<Opened>>), Failure> {
        if !filter.depends_on_the_run() {
            return Ok((None, None));
        }
        let mut progress = Reading::of(machines);
        let (mut numbering, mut bounds, mut read) = (Numbering::default(), Vec::new(), None);
        for machine in machines {
            let mut opened = self.open(machine, &mut progress);
            let surveyed: Vec<_> = opened.iter().map(Opened::surveyed).collect();
            let filters = numbering.filters(&surveyed, filter);
            let traces = opened.iter_mut().zip(&filters);
            let chosen = traces.filter(|(trace, _)| filter.is_of_rank(trace.rank()));
            bounds.extend(chosen.map(|(trace, filter)| trace.bounds(filter)));
            read = Some(opened).filter(|_| machines.len() == 1);
        }
        Ok((selected_time(&self.path, filter, bounds.into_iter())?, read))
    }

    /// Opens the traces of a machine, and reads each once.
    fn open(&mut self, machine: &[usize], progress: &mut Reading) -> Vec<Opened> {
        let mut opened = Vec::new();
        for at in machine {
            progress.next();
            let readers = open(&self.traces[*at].paths, &mut self.unread);
            for (path, mut reader) in readers {
                if let Some(following) = &mut self.following {
                    following.skip(&path, &mut reader);
                }
                opened.push(read(path, reader));
            }
        }
        opened
    }
}

/// Returns the filters of the traces of a machine, and drops the traces of ranks that are not selected.
fn selected(opened: &mut Vec<Opened>, numbering: &mut Numbering, filter: &Filter, time: Time) -> Vec<Filter> {
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
