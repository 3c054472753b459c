//! When does the poller poll next?
//!
//! A wake-up costs 24 to 41 µs of CPU time (measured), whatever it finds, so it should find much. But a
//! stream with more than 256 entries not observed to be complete is no longer timed, which is 85 launches
//! with their two events each. [`AIM`] lies between the two: the interval is chosen so that the busiest
//! stream has about that many operations to read.

/// The number of operations that a polling pass should find on the busiest stream: half of the 85 that it may
/// have, since a sleep of 4 ms ends up to 4 ms late (p99).
const AIM: u64 = 40;
/// The shortest interval. 5000 polling passes a second are up to 20 % of a core, and 200 µs are 40 launches
/// at 5 µs each, about the fastest that a thread can launch: polling more often finds too little to read.
const SHORT_NS: u64 = 200_000;
/// The longest interval while there may be work: 10 000 launches a second leave 40 to read, and 250 polling
/// passes are 1 % of a core.
const LONG_NS: u64 = 4_000_000;
/// Without work for this long, the poller goes to sleep until it is woken. Waking it costs the app's next
/// launch a system call: at most 50 a second.
const PATIENCE_NS: u64 = 20_000_000;
/// The longest such sleep: the poller still has to report new modules and to anchor the host's clock. 4
/// wake-ups a second are 0.02 % of a core.
const SLEEP_NS: u64 = 250_000_000;

/// What a polling pass found.
#[derive(Clone, Copy, Default)]
pub struct Found {
    /// The number of operations read from the stream of which most were read.
    pub most: u64,
    /// The number of operations that are not complete yet, on all streams.
    pub pending: u64,
    /// Whether a stream may have more complete operations: a polling pass reads a limited number.
    pub more: bool,
}

/// A sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sleep {
    /// Whether hooks must wake the poller when there is work.
    pub long: bool,
    pub ns: u64,
}

/// The state that determines the poller's next sleep.
pub struct Rhythm {
    interval: u64,
    /// How long there has been nothing to do, ns.
    idle: u64,
}

impl Rhythm {
    pub const NEW: Rhythm = Rhythm { interval: SHORT_NS, idle: 0 };

    /// Returns the sleep after a polling pass. `woken` says whether another thread ended the sleep before it.
    pub fn next(&mut self, found: Found, woken: bool) -> Sleep {
        let busy = found.most != 0 || found.pending != 0;
        let wanted = self.interval * AIM / found.most.max(1);
        // The interval grows only step by step: one pass that finds little does not mean that the next burst
        // is far away.
        self.interval = wanted.min(self.interval * 2).clamp(SHORT_NS, LONG_NS);
        if woken {
            self.interval = SHORT_NS; // work is starting
        }
        if busy || woken {
            self.idle = 0;
            // A poller that is far behind (it was starting the collector, or was starved of CPU time) catches
            // up without a sleep.
            return Sleep { long: false, ns: if found.more { 0 } else { self.interval } };
        }
        if self.idle < PATIENCE_NS {
            self.idle += self.interval;
            // The sleep that uses up the patience is announced as the long one and is still short: the
            // polling pass after it is the second one that `work_added` relies on.
            return Sleep { long: self.idle >= PATIENCE_NS, ns: self.interval };
        }
        Sleep { long: true, ns: SLEEP_NS }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Polls work that completes at a steady rate; returns the number of polling passes in the last second
    /// and the largest number of operations that one found.
    fn steadily(per_second: u64) -> (u64, u64) {
        let mut rhythm = Rhythm::NEW;
        let (mut now, mut read, mut passes, mut most) = (0u64, 0u64, 0, 0);
        let mut woken = true;
        while now < 2_000_000_000 {
            let complete = now * per_second / 1_000_000_000;
            let found = Found { most: complete - read, pending: 1, more: false };
            read = complete;
            if now >= 1_000_000_000 {
                passes += 1;
                most = most.max(found.most);
            }
            now += rhythm.next(found, woken).ns;
            woken = false;
        }
        (passes, most)
    }

    #[test]
    fn a_polling_pass_finds_enough_but_never_so_much_that_a_stream_is_deep() {
        for per_second in [1, 100, 1_000, 10_000, 30_000, 100_000, 200_000] {
            let (passes, most) = steadily(per_second);
            assert!(passes <= (per_second / 30).max(260), "{per_second}/s: {passes} passes");
            assert!(most <= 60, "{per_second}/s: up to {most} operations a pass");
        }
        assert!(steadily(1_000_000).0 <= 5_000);
    }

    #[test]
    fn a_storm_of_launches_ends_the_long_interval_at_once() {
        let mut rhythm = Rhythm::NEW;
        for _ in 0..10 {
            rhythm.next(Found { most: 1, ..Found::default() }, false);
        }
        assert_eq!(rhythm.interval, LONG_NS);
        assert_eq!(rhythm.next(Found { most: 256, pending: 9, more: true }, false).ns, 0);
        assert_eq!(rhythm.next(Found { most: 200, pending: 0, more: false }, false).ns, SHORT_NS);
    }

    #[test]
    fn the_poller_announces_a_long_sleep_and_polls_once_more_before_it() {
        let mut rhythm = Rhythm::NEW;
        rhythm.next(Found { most: 40, ..Found::default() }, false);
        let sleeps: Vec<Sleep> = (0..40).map(|_| rhythm.next(Found::default(), false)).collect();
        let announced = sleeps.iter().position(|s| s.long).unwrap();
        let before: u64 = sleeps[..=announced].iter().map(|s| s.ns).sum();
        assert!((PATIENCE_NS..PATIENCE_NS + LONG_NS).contains(&before), "{before}");
        assert!(sleeps[announced].ns >= SHORT_NS && sleeps[announced].ns <= LONG_NS);
        assert!(sleeps[announced + 1..].iter().all(|s| *s == Sleep { long: true, ns: SLEEP_NS }));
        // Pending work never lets it fall asleep; a wake-up makes the next sleep short.
        assert_eq!(rhythm.next(Found::default(), true), Sleep { long: false, ns: SHORT_NS });
        for _ in 0..1000 {
            assert!(!rhythm.next(Found { pending: 1, ..Found::default() }, false).long);
        }
    }
}
