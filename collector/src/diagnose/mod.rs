//! Why is it slow, what should be changed, what would that gain, and how can it be checked?
//!
//! A diagnosis is a pure function of the finished tables. [`buckets`] divides the wall time into parts that do not
//! overlap. Each [finding] has a module that looks for one fault, and claims the part of each bucket that
//! removing the fault would give back. [`Diagnosis::of`] ranks the findings, so that no nanosecond is promised twice, and
//! the [verdict] is made from the buckets and the first finding.
#![forbid(unsafe_code)]

pub mod buckets;
pub mod finding;
pub mod findings;
pub mod framework;
pub mod rank_names;
pub mod running;
pub mod verdict;

use crate::analyze::devices::DeviceReport;
use crate::analyze::gaps::rows::GapRow;
use crate::analyze::idle::running::{Outside, Running};
use crate::analyze::idle::{Cause, IdleReport, Site, Wait};
use crate::analyze::merge::Merge;
use crate::analyze::ranks::Ranks;
use crate::analyze::source::Source;
use crate::analyze::{ProcessReport, Tables};
use buckets::Buckets;
use finding::{Claimed, Finding};
use findings::FINDERS;
use findings::waits::is_of_allocator;
use verdict::Verdict;

/// What a diagnosis is made from.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// The processes.
    pub reports: &'a [ProcessReport],
    /// Their tables, added.
    pub all: &'a Tables,
    /// The parts of the wall time.
    pub buckets: &'a Buckets,
    /// Those of the processes that are ranks, beside each other.
    pub ranks: &'a Ranks,
}

/// The share of the judged time from which on that is the time of the steps. The steps of the warm-up may take longer than the others.
const MOSTLY: f64 = 0.8;

/// What happens in fewer than one in so many steps is no habit of the steps.
const FEW_STEPS: u64 = 20;

/// The number of GPUs that had work; 1 if none had.
fn gpus(all: &Tables) -> u64 {
    let used = all.devices.iter().filter(|device| device.timelines > 0);
    (used.count() as u64).max(1)
}

/// Whether any operation was launched that is not captured into a graph only.
pub fn has_operations(all: &Tables) -> bool {
    let transfers = all.transfers.values().any(|kind| kind.count > 0);
    all.coverage.launches > 0 || all.graphs.launches > 0 || transfers
}

/// A part of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// What a filter of the report selects.
    Selected,
    /// The capture ranges.
    Captured,
}

impl<'a> Facts<'a> {
    /// Returns which part of the run the tables are about; `None` if it is all of it.
    pub fn part(&self) -> Option<Part> {
        let process = &self.reports.first()?.process;
        match () {
            () if !process.filter.is_empty() => Some(Part::Selected),
            () if process.captured.is_some() => Some(Part::Captured),
            () => None,
        }
    }

    /// The number of GPUs that had work; 1 if none had. The buckets are of one GPU, and what is added over all of them is compared
    /// with as many times the buckets.
    pub fn gpus(&self) -> u64 {
        gpus(self.all)
    }

    /// Why the GPU of the buckets was idle: what several GPUs wait for differs. Of several processes, each GPU's places are not kept, and it is
    /// that of all, who do the same.
    pub fn idle(&self) -> &'a IdleReport {
        self.device().map_or(&self.all.idle, |device| &device.idle)
    }

    /// The number of GPUs whose idle time [that](Self::idle) is.
    pub fn idle_gpus(&self) -> u64 {
        if self.device().is_some() { 1 } else { self.gpus() }
    }

    /// The largest gaps of them.
    pub fn largest_gaps(&self) -> &'a [GapRow] {
        &self.device().map_or(&self.all.gaps, |device| &device.gaps).largest
    }

    /// The GPU of the buckets, if the places of its idle time are known.
    fn device(&self) -> Option<&'a DeviceReport> {
        let device = self.all.devices.get(self.buckets.device?)?;
        (!device.idle.sites.is_empty()).then_some(device)
    }

    /// Whether the time that is judged is that of the steps, and little else: a program may do other work before them, between phases,
    /// or after them.
    pub fn judges_steps(&self) -> bool {
        self.buckets.around > 0 && self.is_mostly_steps()
    }

    /// Whether the steps take most of the time that is judged.
    fn is_mostly_steps(&self) -> bool {
        let steps = &self.all.steps;
        let ns = steps.time.map_or(0.0, |time| time.mean) * steps.count as f64;
        ns >= self.buckets.judged() as f64 * MOSTLY
    }

    /// Whether a filter selects a part of what a GPU did at one time.
    pub fn divide_a_gpu(&self) -> bool {
        self.reports.iter().any(|report| report.process.divides_a_gpu)
    }

    /// The number of steps of all processes, by which what all of them did is divided; 0 if none were found. (The steps in the
    /// added tables are those of one process.)
    pub fn steps(&self) -> u64 {
        let steps = self.reports.iter().map(|report| report.tables.steps.count).sum::<u64>();
        steps.max(self.all.steps.count)
    }

    /// Whether the threads that lead gaps were off the CPU for most of the time that they spent outside CUDA for long and did not wait
    /// for a CPU. Of a GPU that several processes share, each leads so little of its gaps that this is unknown; then it is asked of the
    /// gaps in what each process does itself.
    pub fn is_host_off_cpu(&self) -> bool {
        let long = |idle: &IdleReport| idle.running.get(&Outside::Long).copied();
        let is_off = long(self.idle()).and_then(|running| running::is_off_cpu(&running)).or_else(|| {
            let mut own = Running::default();
            self.reports
                .iter()
                .filter_map(|report| long(&report.tables.idle))
                .for_each(|one| own.merge(&one));
            running::is_off_cpu(&own)
        });
        is_off == Some(true)
    }

    /// Whether a line waits [rarely](IdleReport::is_rare), or in few of the steps: a checkpoint or an evaluation now and then is none of
    /// their habits. (Of a program whose steps are only a part of it, those of other phases are in none of them.)
    pub fn is_rare(&self, wait: &Wait) -> bool {
        let steps = self.idle().waits.get(wait).map_or(0, |emptied| emptied.steps);
        let is_in_few = steps > 0 && steps.saturating_mul(FEW_STEPS) < self.steps() && self.is_mostly_steps();
        is_in_few || self.idle().is_rare(wait)
    }

    /// Returns the API of the wait that a site's idle time is owed to. Where a thread is off the CPU for long it waits for input, a lock
    /// or another thread, and would only wait for longer if it came there earlier: that is owed to no wait for the GPU. And what
    /// the host does behind a wait that is [none of the loop](Self::is_rare) would still be there without those of the loop. An
    /// [allocator's](is_of_allocator) queries are no waits.
    pub fn owed_to<'s>(&self, cause: Cause, site: &'s Site) -> Option<&'s str> {
        let waits_for_others = || cause == Cause::OutsideCuda && site.is_long && self.is_host_off_cpu();
        let is_none = |wait: &Wait| self.is_rare(wait) || is_of_allocator(wait);
        let is_rare = || site.then_waited.as_ref().is_some_and(|wait| self.is_rare(wait));
        let wait =
            site.after_wait.as_ref().filter(|wait| !waits_for_others() && !is_none(wait) && !is_rare());
        wait.map(|wait| wait.api.as_str())
    }

    /// Returns that API, if such waits are a habit of the program.
    pub fn owed_to_habit<'s>(&self, cause: Cause, site: &'s Site) -> Option<&'s str> {
        self.owed_to(cause, site).filter(|api| self.idle().is_habit(api))
    }

    /// Returns the tables of the process of which something is; those of all if it is of none.
    pub fn of_process(&self, is_its: impl Fn(&Tables) -> bool) -> &'a Tables {
        self.reports.iter().map(|report| &report.tables).find(|tables| is_its(tables)).unwrap_or(self.all)
    }

    /// Says which process something is of, with a blank before it, if there are several: ` in rank 1`, ` in process 4711`.
    pub fn in_process(&self, rank: Option<u32>, pid: Option<u32>) -> String {
        match (rank, pid) {
            _ if self.reports.len() < 2 => String::new(),
            (Some(rank), _) => format!(" in rank {rank}"),
            (None, Some(pid)) => format!(" in process {pid}"),
            (None, None) => String::new(),
        }
    }

    /// Says the same of the process with such tables.
    pub fn in_process_of(&self, is_its: impl Fn(&Tables) -> bool) -> String {
        let process = self.reports.iter().find(|report| is_its(&report.tables)).map(|report| &report.process);
        process.map_or_else(String::new, |process| self.in_process(process.job.rank, process.pid))
    }

    /// Returns where most launches of a kernel are made.
    pub fn source_of_kernel(&self, symbol: &str) -> Source {
        let line = self.all.source_lines.of_kernel(symbol).map(|(line, _)| line.clone());
        Source { library: None, line }
    }

    /// Returns where most of the host's time in calls of an API is.
    pub fn source_of_api(&self, api: &str) -> Source {
        let line = self.all.source_lines.of_api(api).map(|(line, _)| line.clone());
        Source { library: None, line }
    }
}

/// The diagnosis of a run.
#[derive(Clone, Debug, Default)]
pub struct Diagnosis {
    /// Where the wall time went.
    pub buckets: Buckets,
    /// The answer in at most three lines.
    pub verdict: Verdict,
    /// What to change, the largest gain first.
    pub findings: Vec<Finding>,
    /// The ranks beside each other.
    pub ranks: Ranks,
}

impl Diagnosis {
    /// Diagnoses a run.
    pub fn of(reports: &[ProcessReport], all: &Tables) -> Diagnosis {
        let buckets = Buckets::of(reports, all);
        let ranks = Ranks::of(reports);
        let facts = Facts { reports, all, buckets: &buckets, ranks: &ranks };
        let mut claimed: Vec<Claimed> = FINDERS.iter().filter_map(|find| find(&facts)).collect();
        if facts.divide_a_gpu() {
            claimed.retain(|claimed| claimed.claims.keys().all(|bucket| bucket.is_of_selected()));
        }
        let first = findings::ended(&facts).map(|(fault, _)| fault);
        let findings = finding::ranked(claimed, &buckets, first);
        let verdict = Verdict::of(&facts, &findings);
        Diagnosis { verdict, findings, buckets, ranks }
    }
}
