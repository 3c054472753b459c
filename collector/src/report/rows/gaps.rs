//! Idle gaps, and the operations beside the largest ones.

use super::super::names::demangle;
use super::numbers::Estimate;
use crate::analyze::gaps::rows::{self, GapReport, LaunchKind};
use crate::analyze::gaps::{BANDS, LARGEST, Part};
use crate::analyze::idle::Cause;
use crate::model::stacks::Frame;
use crate::model::transfer::TransferKind;
use schemars::JsonSchema;
use serde::Serialize;

/// Idle intervals between two operations.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Gaps {
    /// The number of gaps.
    pub count: u64,
    /// Their total length.
    pub total_ns: Estimate,
    /// The gaps by length, shortest first: each counts in the first row whose below_ns is above its length. The rows
    /// sum to the whole.
    #[schemars(length(equal = 5))]
    pub bands: Vec<Band>,
    /// The gaps by the library whose call ended them, the largest total first. The rows sum to the whole.
    pub by_library: Vec<LibraryGaps>,
    /// The longest gaps, the longest first; at most ten.
    #[schemars(length(max = 10))]
    pub largest: Vec<Gap>,
}

/// The gaps of similar length.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Band {
    /// The length that all gaps of this row are below; null = no limit.
    pub below_ns: Option<u64>,
    /// The number of gaps.
    pub count: u64,
    /// The sum of their lengths, by the best values.
    pub total_ns: u64,
}

/// The gaps that calls of one library ended.
#[derive(Debug, Serialize, JsonSchema)]
pub struct LibraryGaps {
    /// The path of the library; null = not known.
    pub library: Option<String>,
    /// The number of gaps.
    pub count: u64,
    /// The sum of their lengths, by the best values.
    pub total_ns: u64,
}

/// One gap.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Gap {
    /// The id of the process.
    pub pid: Option<u32>,
    /// The rank of the process; null = it has none.
    pub rank: Option<u32>,
    /// The device's ordinal in the process.
    pub device: Option<u32>,
    /// From the start of its process's collection to the start of that span, which the screen adds; `None` for several
    /// timelines that were added.
    #[serde(skip)]
    pub began_ns: Option<u64>,
    /// The time from the start of the span of its timeline to the start of the gap.
    pub start_ns: u64,
    pub duration_ns: Estimate,
    pub before: Side,
    pub after: Side,
    /// What the host was doing in the gap, as in `idle`; the largest part first, at most three.
    #[schemars(length(max = 3))]
    pub causes: Vec<GapCause>,
    /// The id of the thread that led the gap: the one whose call enqueued the operation after it.
    pub tid: Option<u32>,
}

/// A part of a gap.
#[derive(Debug, Serialize, JsonSchema)]
pub struct GapCause {
    /// As in idle.by_cause.
    #[schemars(extend("enum" = Cause::ALL.map(Cause::name)))]
    pub cause: &'static str,
    /// Its label on the screen.
    #[serde(skip)]
    pub label: &'static str,
    /// The length of the part, by the best values.
    pub total_ns: u64,
}

/// An operation next to a gap.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Side {
    /// run: launches timed together; burst: programmatic launches timed together.
    #[schemars(extend("enum" = kinds()))]
    pub kind: &'static str,
    /// The demangled name of a kernel.
    pub name: Option<String>,
    /// The size of a copy or memset.
    pub bytes: Option<u64>,
    /// The number of kernels that a graph ran.
    pub kernels: Option<u32>,
    /// The correlation of its call.
    pub correlation: u64,
    /// The path of the library that made the call.
    pub library: Option<String>,
    /// The return address of the call, as an offset in that file.
    pub library_offset: Option<u64>,
    /// The line of the program that made the call, as file:line.
    pub line: Option<String>,
}

/// Returns the kinds of operations.
fn kinds() -> Vec<&'static str> {
    let launches = LaunchKind::ALL.into_iter().map(LaunchKind::name);
    launches.chain(TransferKind::ALL.into_iter().map(TransferKind::name)).collect()
}

impl Gaps {
    /// Returns the gaps of all devices.
    pub fn of(gaps: &GapReport) -> Gaps {
        let bounds = BANDS.into_iter().map(Some).chain([None]);
        let band = |(below_ns, &Part { count, total })| Band { below_ns, count, total_ns: total };
        Gaps {
            count: gaps.count,
            total_ns: gaps.total.into(),
            bands: bounds.zip(&gaps.bands).map(band).collect(),
            by_library: gaps.by_library.iter().map(LibraryGaps::of).collect(),
            largest: gaps.largest.iter().take(LARGEST).map(Gap::of).collect(),
        }
    }
}

impl LibraryGaps {
    fn of(gaps: &rows::LibraryGaps) -> LibraryGaps {
        LibraryGaps { library: gaps.library.clone(), count: gaps.count, total_ns: gaps.total }
    }
}

impl Gap {
    fn of(gap: &rows::GapRow) -> Gap {
        Gap {
            pid: gap.pid,
            rank: gap.rank,
            device: gap.device,
            began_ns: gap.began_ns,
            start_ns: gap.start,
            duration_ns: gap.duration.into(),
            before: Side::of(&gap.before),
            after: Side::of(&gap.after),
            causes: gap.causes.iter().flatten().map(GapCause::of).collect(),
            tid: gap.tid,
        }
    }
}

impl GapCause {
    fn of((cause, total): &(Cause, u64)) -> GapCause {
        GapCause { cause: cause.name(), label: cause.label(), total_ns: *total }
    }
}

impl Side {
    fn of(side: &rows::Side) -> Side {
        let caller = side.caller.as_ref();
        Side {
            kind: side.kind,
            name: side.symbol.as_deref().map(demangle),
            bytes: side.bytes,
            kernels: side.kernels,
            correlation: side.correlation,
            library: caller.map(|site| site.path.clone()),
            library_offset: caller.map(|site| site.offset),
            line: side.line.as_ref().map(Frame::place),
        }
    }
}
