//! The idle time of a stream in the classes of Holistic Trace Analysis 0.5, computed from what our export to Chrome shows:
//! its operations with their best estimates, laid end to end with a nanosecond between them (`export/chrome/rows.rs`).

use super::HtaClasses;

/// `consecutive_kernel_delay` of HTA's `get_idle_time_breakdown`: its default, ns.
const KERNEL_WAIT: i64 = 30_000;

/// A stream.
#[derive(Clone, Copy, Debug, Default)]
pub struct HtaStream {
    /// The end of the last operation.
    end: Option<i64>,
}

impl HtaStream {
    /// Takes the stream's next operation: when it ran, and when its call was entered, if the export shows a call.
    pub fn next(&mut self, (start, end): (i64, i64), called: Option<i64>, classes: &mut HtaClasses) {
        let before = self.end;
        let start = before.map_or(start, |before| start.max(before + 1));
        self.end = Some(end.max(start));
        let Some(before) = before else { return };
        let gap = start - before;
        let class = match called {
            Some(called) if called > before => &mut classes.host_wait,
            _ if gap < KERNEL_WAIT => &mut classes.kernel_wait,
            _ => &mut classes.other,
        };
        *class = class.saturating_add(gap as u64);
    }
}
