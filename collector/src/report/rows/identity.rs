//! The parts of the wall time.

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
    /// The parts with their bounds, for the comparison of two runs.
    #[serde(skip)]
    pub buckets: Buckets,
    /// That GPU's place in the rows of devices.
    #[serde(skip)]
    pub device: Option<usize>,
}

impl Identity {
    /// Returns the row.
    pub fn of(buckets: &Buckets) -> Identity {
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
            device: buckets.device,
            buckets: buckets.clone(),
        }
    }
}
