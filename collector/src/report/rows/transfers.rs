//! Copies and memsets.

use super::numbers::{Estimate, HostTimes, Rate};
use super::source_lines::MainLine;
use crate::analyze::source_lines::SourceLines;
use crate::analyze::transfers::{self, SizeClass, SizePart};
use crate::model::transfer::{HostMemory, TransferKind};
use schemars::JsonSchema;
use serde::Serialize;

/// Copies in one direction with one kind of host memory, or memsets.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Transfer {
    /// The direction of the copies (H: host, D: device, P: another device), or memset.
    #[schemars(extend("enum" = TransferKind::ALL.map(TransferKind::name)))]
    pub kind: &'static str,
    /// The kind of the host memory; none = no host memory takes part.
    #[schemars(extend("enum" = HostMemory::ALL.map(HostMemory::name)))]
    pub host_memory: &'static str,
    /// The number of operations.
    pub count: u64,
    /// The number of those with a GPU time.
    pub timed: u64,
    /// The sum of their bytes.
    pub bytes: u64,
    /// The sum of the GPU times of all; null = none was timed.
    pub total_ns: Option<Estimate>,
    /// The rate of the timed ones while they ran, in 10^9 bytes per second; hi is null where nothing bounds the time
    /// from below.
    pub gbps: Option<Rate>,
    /// The most time that they can have taken is at most four times the least; where not, the value of gbps means
    /// little.
    pub gbps_is_known: bool,
    /// The operations by the bytes that one moved, smallest first; sizes that none had are absent. The rows sum to the
    /// whole.
    pub sizes: Vec<Size>,
    /// The host's time in the calls.
    pub host: HostTimes,
    #[serde(flatten)]
    pub main: MainLine,
}

/// Transfers of similar size.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Size {
    /// The class of sizes, which has a label for the screen.
    #[serde(skip)]
    pub class: SizeClass,
    /// The largest size of this row; null = any size above the other rows.
    pub up_to_bytes: Option<u64>,
    /// The number of operations.
    pub count: u64,
    /// The number of those with a GPU time.
    pub timed: u64,
    /// The sum of their bytes.
    pub bytes: u64,
    /// The bytes of the timed ones.
    pub timed_bytes: u64,
    /// The sum of the GPU times of the timed ones.
    pub timed_ns: Estimate,
    /// The rate of the timed ones while they ran, in 10^9 bytes per second.
    pub gbps: Option<Rate>,
    /// The most time that they can have taken is at most four times the least; where not, the value of gbps means
    /// little.
    pub gbps_is_known: bool,
}

impl Transfer {
    /// Returns the row.
    pub fn of(
        ((kind, host_memory), transfer): (&(TransferKind, HostMemory), &transfers::Transfer),
        lines: &SourceLines,
    ) -> Transfer {
        Transfer {
            kind: kind.name(),
            host_memory: host_memory.name(),
            count: transfer.count,
            timed: transfer.timed,
            bytes: transfer.bytes,
            total_ns: transfer.total().map(Into::into),
            gbps: transfer.gbps().map(Into::into),
            gbps_is_known: transfer.gbps_is_known(),
            sizes: transfer.sizes.iter().map(Size::of).collect(),
            host: HostTimes::of(&transfer.host),
            main: MainLine::of(lines.of_transfer(*kind, *host_memory)),
        }
    }
}

impl Size {
    fn of((class, part): (&SizeClass, &SizePart)) -> Size {
        Size {
            class: *class,
            up_to_bytes: class.most(),
            count: part.count,
            timed: part.timed,
            bytes: part.bytes,
            timed_bytes: part.timed_bytes,
            timed_ns: part.time.into(),
            gbps: part.gbps().map(Into::into),
            gbps_is_known: part.gbps_is_known(),
        }
    }
}
