//! Host times as the model computes with them: signed, so that differences of any two are numbers.

/// The longest time that a trace may hold, ns (18 years). Longer ones are invalid; sums of shorter ones fit into 64 bits.
pub const MOST_TIME: u64 = 1 << 59;

/// Returns a host time as a signed number of ns.
pub fn host(time: u64) -> i64 {
    time.min(MOST_TIME) as i64
}
