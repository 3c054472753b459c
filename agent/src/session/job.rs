//! The process's place in a job, from the variables that its launcher set.
//!
//! The agent sends them; the collector does not read `/proc/PID/environ`. That file shows what the process was started
//! with and not what it has set since (mpi4py, `torch.multiprocessing` and many launch scripts set the rank from
//! inside, and a forked worker shares its parent's block), other users cannot read it, and it is gone with the process.

use core::sync::atomic::{AtomicPtr, Ordering};
use gpuspy_wire::record::{Fact, Namespace};

use crate::session::collector::Waiting;
use crate::session::environment::Environment;
use crate::sink::text::publish;
use crate::sink::{Ring, Session};

/// The variables that give a process's place in a job, and the CUDA settings that explain its timeline. No other
/// variable leaves the process: the environment may hold secrets.
const VARIABLES: [&str; 19] = [
    // torchrun, and launchers that use the same names.
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
    // MPICH's mpiexec, and others that use PMI
    "PMI_RANK",
    "PMI_SIZE",
    // CUDA Programming Guide, "CUDA Environment Variables"
    "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_MAX_CONNECTIONS",
    "CUDA_LAUNCH_BLOCKING",
    "CUDA_MODULE_LOADING",
];

/// The longest value that is sent, in bytes. A longer one is left out, since a part of it would mean something else.
/// The UUIDs of sixteen GPUs take 656.
const LONGEST: usize = 700;

// All of them fit into one record, whatever they hold.
const _: () = assert!(VARIABLES.len() * (LONGEST + 30) < gpuspy_wire::record::MAX_TEXT);

/// What there is of them, for a collector that comes later. Valid when zero.
pub struct Listed {
    /// As it is sent. Null, or leaked. Release by the thread that makes the session, acquire by the poller.
    text: AtomicPtr<Vec<u8>>,
}

/// Sends them: for the first time before the collector is started, which takes the environment.
pub fn introduce(session: Session, ring: &mut Ring) {
    let Listed { text } = session.get::<Listed>();
    session.get::<Waiting>().with(|environment| {
        text.store(Box::into_raw(Box::new(listed(environment))), Ordering::Release);
    });
    // SAFETY: null, or leaked here.
    if let Some(text) = unsafe { text.load(Ordering::Acquire).as_ref() } {
        publish(ring, Namespace::Fact, Fact::Environment as u32, text);
    }
    // SAFETY: no arguments, no failure.
    let parent = unsafe { libc::getppid() };
    // Our own pid is sent too: it shows a reader whether both are of its own PID namespace.
    let text = format!("{parent} {}", session.segment.header().pid);
    publish(ring, Namespace::Fact, Fact::Parent as u32, text.as_bytes());
}

/// Returns `NAME=value` of each variable that is set, each followed by NUL.
fn listed(environment: &Environment) -> Vec<u8> {
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
    fn only_listed_variables_are_sent() {
        let long = format!("CUDA_VISIBLE_DEVICES={}", "x".repeat(LONGEST + 1));
        let all = ["AWS_SECRET_ACCESS_KEY=s", "RANKED=2", "RANK=3", "WORLD_SIZE=", "XRANK=5", &long];
        let environment = Environment::of(&all);
        assert_eq!(listed(&environment), b"RANK=3\0", "an empty one counts as unset");
        assert_eq!(listed(&Environment::of(&[])), b"");
    }
}
