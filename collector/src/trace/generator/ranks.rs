//! What would the traces of a job of many ranks contain?
//!
//! All ranks launch the same kernels, and all have their collectives in common: each rank comes to each of them at a time of
//! its own, and its kernel lasts until the last rank has come and all of them end it. One rank can be slower than the others.

use super::super::record::Status;
use super::write::{status, write_process};
use super::{BEGAN, Generator, Options, Random, Truth};
use gpuspy_wire::record::{Fact, Namespace};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ranks {
    /// The number of ranks, each with a GPU of its own.
    pub ranks: u32,
    /// The machines, each of which has as many ranks as the others, or one more.
    pub hosts: u32,
    /// The rank that is slower than the others and comes last to all collectives.
    pub late: Option<u32>,
    /// Makes another job of the same kind.
    pub seed: u64,
    /// How often the job was started before, an hour apart. The ranks of all starts have the same process ids.
    pub start: u32,
}

/// From one start of a job to the next, ns.
const BETWEEN_STARTS: u64 = 3_600_000_000_000;

/// A rank of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rank {
    job: Ranks,
    rank: u32,
}

/// Ranks come to a collective within this time, ns.
const SPREAD: u64 = 20_000;
/// The late rank comes so much later, ns.
const LATE: u64 = 200_000;
/// From one collective to the next, ns: more than the ranks need for what is between them.
const PERIOD: u64 = 1_000_000;
/// How much longer its kernels run.
const SLOWNESS: f64 = 1.5;

impl Ranks {
    /// The options of a rank: every fourth of twelve kernels is a collective's, and there are all kinds of calls.
    fn options(self, rank: u32) -> Options {
        let rank = Some(Rank { job: self, rank });
        Options { kernels: 12, communication: 4, other_calls: true, rank, ..Options::default() }
    }

    /// The machine of a rank, from 0.
    fn host(self, rank: u32) -> u32 {
        (u64::from(rank) * u64::from(self.hosts) / u64::from(self.ranks.max(1))) as u32
    }

    /// The rank's number on its machine.
    fn local(self, rank: u32) -> u32 {
        (0..rank).rev().take_while(|other| self.host(*other) == self.host(rank)).count() as u32
    }

    /// When a rank comes to a collective, ns.
    fn comes(self, rank: u32, collective: u64) -> u64 {
        let late = if self.late == Some(rank) { LATE } else { 0 };
        late + Random(self.seed ^ (collective << 20) ^ u64::from(rank)).below(SPREAD)
    }

    fn status(self, rank: u32) -> Status {
        Status {
            pid: 4242 + self.local(rank),
            boot: Some(0x0060_0700 + u64::from(self.host(rank))),
            began_realtime: 1_790_000_000_000_000_000
                + u64::from(self.start) * BETWEEN_STARTS
                + u64::from(rank) * 1_000,
            ..status()
        }
    }

    fn facts(self, rank: u32) -> Vec<(Namespace, u32, String)> {
        let (local, ranks) = (self.local(rank), self.ranks);
        let fact = |fact: Fact, text: String| (Namespace::Fact, fact as u32, text);
        vec![
            fact(Fact::Host, format!("host{:03}", self.host(rank))),
            fact(Fact::CommandLine, "python\0train.py\0".to_owned()),
            fact(Fact::Environment, format!("RANK={rank}\0LOCAL_RANK={local}\0WORLD_SIZE={ranks}")),
            (Namespace::Device, 1, "Generated GPU".to_owned()),
        ]
    }
}

impl Rank {
    /// Changes the generator's noise.
    pub(super) fn noise(self) -> u64 {
        Random(u64::from(self.rank) + 1).word()
    }

    /// The UUID of its GPU.
    pub(super) fn gpu(self) -> [u8; 16] {
        (0x4700_0000_0000_0000_0000_0000_0000_0000 + u128::from(self.rank)).to_be_bytes()
    }

    /// How much longer than others' its kernels run.
    pub(super) fn slowness(self) -> f64 {
        if self.job.late == Some(self.rank) { SLOWNESS } else { 1.0 }
    }

    /// When it comes to a collective, and when this ends: so many ns after the last rank came.
    pub(super) fn meeting(self, collective: u64, ns: u64) -> (u64, u64) {
        let first = BEGAN + collective * PERIOD;
        let last = (0..self.job.ranks).map(|rank| self.job.comes(rank, collective)).max();
        (first + self.job.comes(self.rank, collective), first + last.unwrap_or(0) + ns)
    }
}

/// Writes the traces of a job into a folder, with so many launches each. Returns their paths, and the truth about each, in
/// the order of the ranks.
///
/// # Errors
/// Fails if creating or writing the files does.
pub fn write_ranks(folder: &Path, job: Ranks, launches: u64) -> io::Result<Vec<(PathBuf, Truth)>> {
    fs::create_dir_all(folder)?;
    let write = |rank: u32| {
        let mut generator = Generator::new(job.seed, job.options(rank));
        let again = if job.start == 0 { String::new() } else { format!("-{}", job.start) };
        let path = folder.join(format!("rank{rank:04}{again}.gspy"));
        write_process(&path, &mut generator, launches, job.status(rank), &job.facts(rank))?;
        Ok((path, generator.truth().clone()))
    };
    (0..job.ranks).map(write).collect()
}
