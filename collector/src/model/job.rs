//! What is a process's place among others: its rank in a job, and its parent?

use crate::trace::record::{Names, Status};
use gpuspy_wire::record::{Fact, Namespace};

/// A process's place in a job, from its launcher's variables. All numbers count from 0 and come from one launcher.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Job {
    /// Its number among all processes of the job.
    pub rank: Option<u32>,
    /// Its number among those on its machine.
    pub local_rank: Option<u32>,
    /// How many processes the job has.
    pub world_size: Option<u32>,
}

/// The variables in which launchers give rank, local rank and world size, the innermost launcher first. A batch
/// script that Slurm started has a rank of its own, 0, which every process of its mpirun inherits; and torchrun is
/// itself a task of srun or mpirun.
const LAUNCHERS: [[&str; 3]; 4] = [
    // torchrun
    ["RANK", "LOCAL_RANK", "WORLD_SIZE"],
    // Open MPI
    ["OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_SIZE"],
    // MPICH has no PMI variable for the local rank.
    ["PMI_RANK", "", "PMI_SIZE"],
    // srun
    ["SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS"],
];

impl Job {
    /// Reads the variables in a trace. All three numbers come from the first launcher that gives a rank, because
    /// another launcher counts something else.
    pub fn of(names: &Names) -> Job {
        let number = |name: &str| variable(names, name)?.trim().parse().ok();
        let job = |[rank, local_rank, world_size]: [&str; 3]| {
            let rank = Some(number(rank)?);
            Some(Job { rank, local_rank: number(local_rank), world_size: number(world_size) })
        };
        LAUNCHERS.into_iter().find_map(job).unwrap_or_default()
    }
}

/// A variable of the process's environment, of those that the agent records.
pub fn variable<'n>(names: &'n Names, name: &str) -> Option<&'n str> {
    let reported = names.get(Namespace::Fact, Fact::Environment as u32)?;
    reported
        .split('\0')
        .filter_map(|pair| pair.split_once('='))
        .find(|(n, _)| *n == name)
        .map(|(_, value)| value)
}

/// Whether such a variable is a number other than 0.
pub fn is_set(names: &Names, name: &str) -> bool {
    variable(names, name).is_some_and(|value| value.trim().parse::<i64>().is_ok_and(|number| number != 0))
}

/// A process's parent, as a pid in the same namespace as the trace's own pids. The agent noted its parent first, and
/// a parent may have ended since; but the agent counts in the process's pid namespace, which is the collector's only
/// if both have the same pid for the process itself.
pub fn parent(names: &Names, status: Option<&Status>) -> Option<u32> {
    let status = status?;
    let reported = names.get(Namespace::Fact, Fact::Parent as u32).and_then(|text| text.split_once(' '));
    let reported =
        reported.filter(|(_, own)| own.parse() == Ok(status.pid)).and_then(|(parent, _)| parent.parse().ok());
    reported.filter(|parent| *parent != 0).or(status.parent)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fact(fact: Fact, text: &str) -> Names {
        Names([((Namespace::Fact, fact as u32), text.to_owned())].into())
    }

    fn job(variables: &[&str]) -> (Option<u32>, Option<u32>, Option<u32>) {
        let Job { rank, local_rank, world_size } = Job::of(&fact(Fact::Environment, &variables.join("\0")));
        (rank, local_rank, world_size)
    }

    #[test]
    fn the_innermost_launcher_gives_the_rank() {
        let slurm = ["SLURM_PROCID=1", "SLURM_LOCALID=0", "SLURM_NTASKS=2", "SLURM_JOB_ID=77"];
        assert_eq!(job(&slurm), (Some(1), Some(0), Some(2)));
        let torchrun = [&slurm[..], &["RANK=13", "LOCAL_RANK=5", "WORLD_SIZE=16"]].concat();
        assert_eq!(job(&torchrun), (Some(13), Some(5), Some(16)));
        let mpirun = [&slurm[..], &["OMPI_COMM_WORLD_RANK=3", "OMPI_COMM_WORLD_SIZE=4"]].concat();
        assert_eq!(job(&mpirun), (Some(3), None, Some(4)), "Slurm's local rank counts something else");
        assert_eq!(job(&["PMI_RANK=2", "PMI_SIZE=8"]), (Some(2), None, Some(8)));
    }

    #[test]
    fn a_rank_must_be_a_number() {
        assert_eq!(job(&[]), (None, None, None));
        assert_eq!(job(&["RANK=first", "LOCAL_RANK=0", "PMI_RANK=1"]), (Some(1), None, None));
        assert_eq!(job(&["RANK=", "WORLD_SIZE=4"]), (None, None, None));
        assert_eq!(job(&["RANK=-1"]), (None, None, None));
        assert_eq!(Job::of(&Names::default()), Job::default(), "a trace of an earlier version");
    }

    #[test]
    fn a_variable_is_set_if_it_is_a_number_other_than_0() {
        let is_set = |variables: &str| is_set(&fact(Fact::Environment, variables), "CUDA_LAUNCH_BLOCKING");
        assert!(is_set("CUDA_LAUNCH_BLOCKING=1") && is_set("RANK=0\0CUDA_LAUNCH_BLOCKING= 2 \0"));
        assert!(!is_set("") && !is_set("CUDA_LAUNCH_BLOCKING=") && !is_set("CUDA_LAUNCH_BLOCKING=0"));
    }

    #[test]
    fn a_parent_in_another_pid_namespace_is_ignored() {
        let status = Status { pid: 70, parent: Some(60), ..Status::default() };
        assert_eq!(parent(&fact(Fact::Parent, "61 70"), Some(&status)), Some(61), "seen first");
        assert_eq!(parent(&fact(Fact::Parent, "1 7"), Some(&status)), Some(60));
        assert_eq!(parent(&fact(Fact::Parent, "0 70"), Some(&status)), Some(60));
        assert_eq!(parent(&fact(Fact::Parent, "rubbish"), Some(&status)), Some(60));
        assert_eq!(parent(&fact(Fact::Parent, "1 7"), Some(&Status { parent: None, ..status })), None);
        assert_eq!(parent(&fact(Fact::Parent, "61 70"), None), None);
    }
}
