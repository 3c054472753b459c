//! The ranks of a job beside each other.

use super::numbers::Estimate;
use crate::analyze::ProcessReport;
use crate::analyze::ranks::{self, Time};
use crate::diagnose::Diagnosis;
use crate::hash::HashMap;
use schemars::JsonSchema;
use serde::Serialize;

/// A rank of a job: a process with a rank, in a run of several.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Rank {
    /// The process's number in the job.
    pub rank: u32,
    /// The name of its machine; null = it is not known.
    pub host: Option<String>,
    /// The process id.
    pub pid: Option<u32>,
    /// The time from the first operation on its GPUs to the last.
    pub span_ns: u64,
    /// The part of the span in which a kernel, a graph or a copy ran.
    pub busy_ns: Estimate,
    /// The part in which nothing ran.
    pub idle_ns: Estimate,
    /// The part in which a communication kernel ran, and no other.
    pub exposed_comm_ns: Estimate,
    /// The median of its steps; null = no steps.
    pub step_median_ns: Option<u64>,
    /// The most device memory that it held at once.
    pub memory_peak_bytes: Estimate,
    /// The number of findings about this process alone.
    pub findings: u64,
    /// The number of kernel launch calls that succeeded outside stream captures.
    pub launches: u64,
    /// The number of launches with a GPU time of their own.
    pub timed: u64,
    /// The number of launches that were timed together in runs, on deep streams.
    pub timed_in_runs: u64,
    /// How it compares with the other ranks; null = it has no communication kernels that could be compared.
    pub straggler: Option<Straggler>,
}

/// How a rank compares with the others. Scores are from 0 to 1: 1 is as fast as the reference, 0.5 takes twice as long. They
/// are about the time between two communication kernels, in which a rank waits for no other.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Straggler {
    /// The best rank's mean, divided by its own.
    #[schemars(range(min = 0, max = 1))]
    pub vs_best: Option<f64>,
    /// The mean of the fastest part of its run, divided by that of its whole run.
    #[schemars(range(min = 0, max = 1))]
    pub vs_own: Option<f64>,
    /// By how much it came later than half of the ranks, summed over all collectives. Only what is certain counts. Those that
    /// were not timed on several ranks are estimated from those that were.
    pub late_ns: u64,
    /// The number of collectives to which it certainly came last.
    pub last_arrivals: u64,
    /// The number of collectives in which its arrival was compared with those of other ranks.
    pub collectives: u64,
}

/// Returns the rows; none if fewer than two processes have a rank.
pub fn rows(ranks: &ranks::Ranks, reports: &[ProcessReport]) -> Vec<Rank> {
    ranks.rows.iter().map(|rank| Rank::of(rank, &reports[rank.at])).collect()
}

impl Rank {
    fn of(rank: &ranks::Rank, report: &ProcessReport) -> Rank {
        let tables = &report.tables;
        let Time { span, busy, idle, exposed_communication } = rank.time;
        let alone = || Diagnosis::of(std::slice::from_ref(report), tables).findings.len() as u64;
        Rank {
            rank: rank.rank,
            host: rank.host.clone(),
            pid: report.process.pid,
            span_ns: span,
            busy_ns: busy.into(),
            idle_ns: idle.into(),
            exposed_comm_ns: exposed_communication.into(),
            step_median_ns: tables.steps.time.map(|time| time.median),
            memory_peak_bytes: tables.memory.device.peak().into(),
            findings: report.findings.unwrap_or_else(alone),
            launches: tables.coverage.launches,
            timed: tables.coverage.timed,
            timed_in_runs: tables.coverage.runs.launches,
            straggler: rank.straggler.map(Straggler::of),
        }
    }
}

impl Straggler {
    fn of(straggler: ranks::Straggler) -> Straggler {
        let ranks::Straggler { score, late, last_arrivals, collectives } = straggler;
        let (vs_best, vs_own) = (score.vs_best, score.vs_own);
        Straggler { vs_best, vs_own, late_ns: late, last_arrivals, collectives }
    }
}

/// Returns the rank that uses each GPU, by the GPU's UUID, if every process that used a GPU has a rank and a GPU to itself:
/// then the rank names the GPU better than its number, which is 0 in many processes.
pub fn of_gpus(reports: &[ProcessReport]) -> HashMap<&str, u32> {
    let mut ranks = HashMap::default();
    for report in reports {
        let used = report.tables.devices.iter().filter(|device| device.timelines > 0);
        let used: Vec<Option<&str>> = used.map(|device| device.uuid.as_deref()).collect();
        let job = report.process.job;
        // A job of one process has nothing to tell apart.
        let rank = job.rank.filter(|_| job.world_size != Some(1));
        match (used.as_slice(), rank) {
            ([], _) => {}
            ([Some(uuid)], Some(rank)) if !ranks.contains_key(uuid) => {
                ranks.insert(*uuid, rank);
            }
            _ => return HashMap::default(),
        }
    }
    ranks
}
