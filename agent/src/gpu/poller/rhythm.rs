//! When does the poller look next?
//!
//! A wake-up costs 24 to 41 µs of CPU (facts), whatever it finds, so it should find much; but a stream of which 256 entries
//! are not seen complete is timed no more, which is 85 launches with their two events each. Between the two lies
//! [`AIM`]: the interval is made such that the busiest stream has about that many operations to read.

/// Operations of the busiest stream that a look should find: half of the 85 that it may have, since a sleep of 4 ms ends
/// up to 4 ms late (p99).
const AIM: u64 = 40;
/// The shortest interval: 5000 looks a second are up to 20 % of a core, and 200 µs are 40 launches at 5 µs each, about
/// the fastest that a thread can launch: sooner there is not enough to read.
const SHORT_NS: u64 = 200_000;
/// The longest while there may be work: 10 000 launches a second leave 40 to read, and 250 looks are 1 % of a core.
const LONG_NS: u64 = 4_000_000;
/// Without work for so long, the poller goes to sleep until it is woken. Waking it costs the app's next launch a system
/// call: at most 50 a second.
const PATIENCE_NS: u64 = 20_000_000;
/// How long it sleeps then at most: it tells of new modules and anchors the host's clock all the same. 4 wake-ups a
/// second are 0.02 % of a core.
const SLEEP_NS: u64 = 250_000_000;

/// What a look found.
#[derive(Clone, Copy, Default)]
pub struct Found {
    /// Operations read of the stream of which most were read.
    pub most: u64,
    /// Operations that are not complete yet, of all streams.
    pub pending: u64,
    /// A stream may have more that is complete: what a look reads is bounded.
    pub more: bool,
}

/// A sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sleep {
    /// Hooks wake the poller when there is work.
    pub long: bool,
    pub ns: u64,
}

/// The poller's rhythm.
pub struct Rhythm {
    interval: u64,
    /// For how long there has been nothing to do.
    idle: u64,
}

impl Rhythm {
    pub const NEW: Rhythm = Rhythm { interval: SHORT_NS, idle: 0 };

    /// The sleep after a look, to which the poller was woken by somebody or not.
    pub fn next(&mut self, found: Found, woken: bool) -> Sleep {
        let busy = found.most != 0 || found.pending != 0;
        let wanted = self.interval * AIM / found.most.max(1);
        // Slower only step by step: a pause of one look does not say that the next burst is far.
        self.interval = wanted.min(self.interval * 2).clamp(SHORT_NS, LONG_NS);
        if woken {
            self.interval = SHORT_NS; // something begins
        }
        if busy || woken {
            self.idle = 0;
            // Far behind (it was starting the collector, or starved), it catches up first.
            return Sleep { long: false, ns: if found.more { 0 } else { self.interval } };
        }
        if self.idle < PATIENCE_NS {
            self.idle += self.interval;
            // The sleep that uses the patience up is announced as the long one and is still short: the look behind it is
            // the second look that `work_added` counts on.
            return Sleep { long: self.idle >= PATIENCE_NS, ns: self.interval };
        }
        Sleep { long: true, ns: SLEEP_NS }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks at work that completes at a steady rate; returns the looks of the last second and the most that one found.
    fn steadily(per_second: u64) -> (u64, u64) {
        let mut rhythm = Rhythm::NEW;
        let (mut now, mut read, mut looks, mut most) = (0u64, 0u64, 0, 0);
        let mut woken = true;
        while now < 2_000_000_000 {
            let complete = now * per_second / 1_000_000_000;
            let found = Found { most: complete - read, pending: 1, more: false };
            read = complete;
            if now >= 1_000_000_000 {
                looks += 1;
                most = most.max(found.most);
            }
            now += rhythm.next(found, woken).ns;
            woken = false;
        }
        (looks, most)
    }

    #[test]
    fn a_look_finds_enough_and_never_what_would_make_a_stream_deep() {
        for per_second in [1, 100, 1_000, 10_000, 30_000, 100_000, 200_000] {
            let (looks, most) = steadily(per_second);
            assert!(looks <= (per_second / 30).max(260), "{per_second}/s: {looks} looks");
            assert!(most <= 60, "{per_second}/s: up to {most} operations a look");
        }
        assert!(steadily(1_000_000).0 <= 5_000);
    }

    #[test]
    fn a_storm_is_met_at_the_next_look() {
        let mut rhythm = Rhythm::NEW;
        for _ in 0..10 {
            rhythm.next(Found { most: 1, ..Found::default() }, false);
        }
        assert_eq!(rhythm.interval, LONG_NS);
        assert_eq!(rhythm.next(Found { most: 256, pending: 9, more: true }, false).ns, 0);
        assert_eq!(rhythm.next(Found { most: 200, pending: 0, more: false }, false).ns, SHORT_NS);
    }

    #[test]
    fn idleness_is_announced_then_looked_at_once_more_and_only_then_slept_through() {
        let mut rhythm = Rhythm::NEW;
        rhythm.next(Found { most: 40, ..Found::default() }, false);
        let sleeps: Vec<Sleep> = (0..40).map(|_| rhythm.next(Found::default(), false)).collect();
        let announced = sleeps.iter().position(|s| s.long).unwrap();
        let before: u64 = sleeps[..=announced].iter().map(|s| s.ns).sum();
        assert!((PATIENCE_NS..PATIENCE_NS + LONG_NS).contains(&before), "{before}");
        assert!(sleeps[announced].ns >= SHORT_NS && sleeps[announced].ns <= LONG_NS);
        assert!(sleeps[announced + 1..].iter().all(|s| *s == Sleep { long: true, ns: SLEEP_NS }));
        // Pending work never lets it fall asleep; a wake-up makes it quick.
        assert_eq!(rhythm.next(Found::default(), true), Sleep { long: false, ns: SHORT_NS });
        for _ in 0..1000 {
            assert!(!rhythm.next(Found { pending: 1, ..Found::default() }, false).long);
        }
    }
}
