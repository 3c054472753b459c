//! How well the clocks of host and GPU are related.

use crate::analyze::quantile::Quantiles;
use crate::model::gpu_clock::{DRIFT_PPM, TURN_PPM};
use schemars::JsonSchema;
use serde::Serialize;

/// How well the clocks of host and GPU are related.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Clock {
    /// Median half-width of the interval between host and GPU clock, over timed operations; null = nothing timed, or
    /// one side of it never bounded.
    pub uncertainty_ns: Option<u64>,
    pub assumptions: Assumptions,
}

/// What the interval rests on: the GPU's and the host's oscillator part by at most drift_ppm parts per million, and
/// that changes by at most drift_change_ppm_per_s in a second.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Assumptions {
    /// The largest assumed drift, in parts per million.
    #[schemars(range(min = 0))]
    pub drift_ppm: i64,
    /// By how much the drift may change, in parts per million per second.
    #[schemars(range(min = 0))]
    pub drift_change_ppm_per_s: i64,
}

impl Clock {
    /// Returns the row for these half-widths.
    pub fn of(half_widths: &Quantiles) -> Clock {
        Clock {
            uncertainty_ns: half_widths.median().map(|half_width| half_width.value),
            assumptions: Assumptions { drift_ppm: DRIFT_PPM, drift_change_ppm_per_s: TURN_PPM },
        }
    }
}
