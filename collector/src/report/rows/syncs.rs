//! Calls that waited for the GPU though they are no synchronize calls.

use super::numbers::Estimate;
use super::source_lines::MainLine;
use crate::analyze::source::Lines;
use crate::analyze::waits::{Cause, ImplicitSyncs, Waited};
use schemars::JsonSchema;
use serde::{Serialize, Serializer};

/// The calls of one API that waited for one reason.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ImplicitSync {
    /// The function's name.
    pub api: String,
    /// free: device memory freed or unmapped; host_free: pinned memory freed or unregistered; pageable_copy: a copy
    /// from or to pageable memory; blocking_copy: another copy or memset that returns when it is done; load, unload: of
    /// a module or library; context_end.
    #[serde(serialize_with = "name")]
    #[schemars(
        with = "&str",
        extend("enum" = Cause::ALL.map(Cause::name))
    )]
    pub cause: Cause,
    /// The number of calls that waited.
    pub count: u64,
    /// The sum of their times, from entry to return.
    pub host_ns: u64,
    /// The part of that time in which they waited, in ns: from their entry to the end of the work; of copies, to the
    /// end of the work ahead of them. A load may compile first: its lower bound is 0.
    pub waited: Estimate,
    pub undecided: Undecided,
    #[serde(flatten)]
    pub main: MainLine,
}

/// Calls that may have waited: the work is untimed, or ended too close to their entry for the clocks. They waited for
/// at most their host time.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Undecided {
    /// The number of calls.
    pub count: u64,
    /// The sum of their times, from entry to return.
    pub host_ns: u64,
}

/// Writes a cause by its name.
fn name<S: Serializer>(cause: &Cause, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(cause.name())
}

impl ImplicitSync {
    /// Returns the row.
    pub fn of((key, waited): (&(String, Cause), &Waited), syncs: &ImplicitSyncs) -> ImplicitSync {
        let (api, cause) = key;
        ImplicitSync {
            api: api.clone(),
            cause: *cause,
            count: waited.count,
            host_ns: waited.host_ns,
            waited: waited.waited.into(),
            undecided: Undecided { count: waited.undecided, host_ns: waited.undecided_host_ns },
            main: MainLine::of(syncs.lines.get(key).and_then(Lines::main)),
        }
    }
}
