//! The parts of the wall time.

use super::devices::Device;
use super::numbers::Estimate;
use crate::diagnose::buckets::{Bucket, Buckets};
use schemars::JsonSchema;
use serde::Serialize;

/// Where the wall time of the GPU that was used most went: the parts sum to wall_ns exactly.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Identity {
    /// The wall time within the selected period.
    pub wall_ns: u64,
    /// The time before the GPU's first operation.
    pub start_up_ns: u64,
    /// The time in which a kernel ran.
    pub compute_ns: u64,
    /// The time in which a communication kernel ran, and no other.
    pub exposed_comm_ns: u64,
    /// The time in which a copy or a memset ran, and no kernel.
    pub exposed_copy_ns: u64,
    /// The time in which a graph launch ran, and no kernel beside it.
    pub graph_ns: u64,
    /// The time in which the GPU was idle between operations.
    pub idle_ns: u64,
    /// The time that is neither certainly busy nor certainly idle.
    pub undecided_ns: u64,
    /// The time after the GPU's last operation.
    pub tail_ns: u64,
    pub estimates: Estimates,
    /// The parts with their bounds, for the comparison of two runs.
    #[serde(skip)]
    pub buckets: Buckets,
    /// That GPU's place in the rows of devices.
    #[serde(skip)]
    pub device: Option<usize>,
}

/// The parts that may not be known exactly, with their bounds. Their values are those of the identity's keys of the same names.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Estimates {
    /// The time in which a kernel ran.
    pub compute_ns: Estimate,
    /// The time in which a communication kernel ran, and no other.
    pub exposed_comm_ns: Estimate,
    /// The time in which a copy or a memset ran, and no kernel.
    pub exposed_copy_ns: Estimate,
    /// The time in which a graph launch ran, and no kernel beside it.
    pub graph_ns: Estimate,
    /// The time in which the GPU was idle between operations.
    pub idle_ns: Estimate,
    /// The time that is neither certainly busy nor certainly idle.
    pub undecided_ns: Estimate,
}

impl Estimates {
    /// Those of a GPU; of none, there are no such parts.
    fn of(device: Option<&Device>) -> Estimates {
        let of = |part: fn(&Device) -> Estimate| device.map_or(Estimate::exactly(0), part);
        Estimates {
            compute_ns: of(|device| device.compute_ns),
            exposed_comm_ns: of(|device| device.exposed_comm_ns),
            exposed_copy_ns: of(|device| device.exposed_copy_ns),
            graph_ns: of(|device| device.graph_ns),
            idle_ns: of(|device| device.idle_ns),
            undecided_ns: of(|device| device.undecided_ns.plus(device.unobserved_ns)),
        }
    }
}

impl Identity {
    /// Returns the row of a run with these GPUs.
    pub fn of(buckets: &Buckets, devices: &[Device]) -> Identity {
        let of = |bucket| buckets.get(bucket).value;
        Identity {
            wall_ns: buckets.wall,
            start_up_ns: of(Bucket::StartUp),
            compute_ns: of(Bucket::Compute),
            exposed_comm_ns: of(Bucket::ExposedCommunication),
            exposed_copy_ns: of(Bucket::ExposedCopies),
            graph_ns: of(Bucket::Graphs),
            idle_ns: buckets.idle().value,
            undecided_ns: of(Bucket::Undecided),
            tail_ns: of(Bucket::Tail),
            estimates: Estimates::of(buckets.device.and_then(|at| devices.get(at))),
            device: buckets.device,
            buckets: buckets.clone(),
        }
    }
}
