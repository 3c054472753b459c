//! How far has collecting come? Figures of all sessions together, for a display while they run.

use std::sync::atomic::{AtomicU64, Ordering};

/// The sums over all sessions. Each session adds its changes.
#[derive(Debug, Default)]
pub struct Progress {
    // Relaxed, all of them: figures for display, which may be slightly old.
    records: AtomicU64,
    timed: AtomicU64,
    lost: AtomicU64,
    bytes: AtomicU64,
}

/// Figures of one session or of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// The number of records taken from the rings.
    pub records: u64,
    /// The number of GPU times among them.
    pub timed: u64,
    /// The number of records that are known to be lost.
    pub lost: u64,
    /// Bytes written to traces.
    pub bytes: u64,
}

impl Progress {
    /// The present figures.
    pub fn figures(&self) -> Figures {
        let read = |figure: &AtomicU64| figure.load(Ordering::Relaxed);
        Figures {
            records: read(&self.records),
            timed: read(&self.timed),
            lost: read(&self.lost),
            bytes: read(&self.bytes),
        }
    }

    /// Adds the change of a session's figures from `before` to `now`.
    pub(super) fn add(&self, before: Figures, now: Figures) {
        let add = |sum: &AtomicU64, before: u64, now: u64| {
            sum.fetch_add(now.saturating_sub(before), Ordering::Relaxed);
        };
        add(&self.records, before.records, now.records);
        add(&self.timed, before.timed, now.timed);
        add(&self.lost, before.lost, now.lost);
        add(&self.bytes, before.bytes, now.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_add_up() {
        let progress = Progress::default();
        let at = |n| Figures { records: n, timed: n / 2, lost: 1, bytes: 7 * n };
        progress.add(Figures::default(), at(10));
        progress.add(Figures::default(), at(100));
        progress.add(at(10), at(30));
        assert_eq!(progress.figures(), Figures { records: 130, timed: 65, lost: 2, bytes: 910 });
    }
}
