//! Who the process is in a job: what its launcher told it.
//!
//! Told by the agent rather than read from `/proc/PID/environ` by the collector: that shows what the process was started
//! with, not what it has set since (mpi4py, `torch.multiprocessing` and many launch scripts set the rank from inside, and a
//! forked worker shares its parent's block), is closed to other users, and is gone with the process.

use gpuspy_wire::record::{Fact, Namespace};

use crate::session::collector::{Environment, Waiting};
use crate::sink::text::tell;
use crate::sink::{Ring, Session};

/// The variables that say who a process is in a job, and what of CUDA's settings explains its timeline. Nothing else of the
/// environment leaves the process: it may hold secrets.
const VARIABLES: [&str; 19] = [
    // torchrun, and what follows its example.
    "RANK",
    "LOCAL_RANK",
    "WORLD_SIZE",
    "LOCAL_WORLD_SIZE",
    "GROUP_RANK",
    "MASTER_ADDR",
    // srun
    "SLURM_PROCID",
    "SLURM_LOCALID",
    "SLURM_NTASKS",
    "SLURM_JOB_ID",
    // Open MPI's mpirun
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "OMPI_COMM_WORLD_SIZE",
    // MPICH's mpiexec, and others that speak PMI
    "PMI_RANK",
    "PMI_SIZE",
    // CUDA Programming Guide, "CUDA Environment Variables"
    "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_MAX_CONNECTIONS",
    "CUDA_LAUNCH_BLOCKING",
    "CUDA_MODULE_LOADING",
];

/// Longest value that is told. A longer one is left out: cut, it would say something else. Sixteen GPUs' UUIDs take 656.
const LONGEST: usize = 700;

// All of them fit into one record, whatever they hold.
const _: () = assert!(VARIABLES.len() * (LONGEST + 30) < gpuspy_wire::record::MAX_TEXT);

/// Poller: tells it, before the environment is handed on.
pub fn introduce(session: Session, ring: &mut Ring) {
    session.get::<Waiting>().with(|environment| {
        tell(ring, Namespace::Fact, Fact::Environment as u32, &told(environment));
    });
    // SAFETY: no arguments, no failure.
    let parent = unsafe { libc::getppid() };
    // With our own pid, by which a reader knows whether it is numbered in his namespace.
    let text = format!("{parent} {}", session.segment.header().pid);
    tell(ring, Namespace::Fact, Fact::Parent as u32, text.as_bytes());
}

/// `NAME=value` of each variable that is set, separated by NUL.
fn told(environment: &Environment) -> Vec<u8> {
    let mut text = Vec::new();
    for name in VARIABLES {
        let Some(value) = environment.get(name).map(|value| value.as_encoded_bytes()) else { continue };
        if value.len() <= LONGEST {
            text.extend_from_slice(&[name.as_bytes(), b"=", value, b"\0"].concat());
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_listed_is_told() {
        let long = format!("CUDA_VISIBLE_DEVICES={}", "x".repeat(LONGEST + 1));
        let all = ["AWS_SECRET_ACCESS_KEY=s", "RANKED=2", "RANK=3", "WORLD_SIZE=", "XRANK=5", &long];
        let environment = Environment::of(&all);
        assert_eq!(told(&environment), b"RANK=3\0WORLD_SIZE=\0");
        assert_eq!(told(&Environment::of(&[])), b"");
    }
}
