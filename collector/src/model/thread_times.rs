//! How long did threads run? The processor time of threads, as the collector has sampled it.
//!
//! A thread has a bounded number of samples: in a long run every second one is left out, and then again, so that the time
//! between two of them grows with the run.

use super::host_time::host;
use crate::hash::HashMap;
use crate::trace::record::ThreadTime;

/// The most samples that are kept of a thread.
const MOST: usize = 2048;

/// The processor time of a thread at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Host ns.
    pub at: i64,
    /// Until then.
    pub time: ThreadTime,
}

/// The samples of the threads of a process.
#[derive(Clone, Debug, Default)]
pub struct ThreadTimes(HashMap<u32, Vec<Sample>>);

impl ThreadTimes {
    /// Returns the samples of a thread, in the order of their times.
    pub fn of(&self, thread: u32) -> &[Sample] {
        self.0.get(&thread).map_or(&[], Vec::as_slice)
    }
}

/// How a thread spent the time between two samples, ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spent {
    /// The time between them.
    pub wall: u64,
    /// The least that it ran or waited for a processor.
    pub runnable_lo: u64,
    /// The most.
    pub runnable_hi: u64,
    /// The least that it ran.
    pub ran_lo: u64,
    /// The most.
    pub ran_hi: u64,
    /// How long it waited for a processor, of waits that ended between them.
    pub queued: u64,
}

impl Spent {
    /// Returns how the time between two samples was spent.
    pub fn between(from: &Sample, to: &Sample) -> Spent {
        let wall = to.at.saturating_sub(from.at).max(0) as u64;
        let ran = to.time.ran.saturating_sub(from.time.ran);
        // A wait that ended between them may have begun before.
        let queued = to.time.queued.saturating_sub(from.time.queued).min(wall.saturating_sub(ran));
        let runnable = ran.saturating_add(queued);
        Spent {
            wall,
            runnable_lo: runnable.saturating_sub(from.time.late).min(wall),
            runnable_hi: runnable.saturating_add(to.time.late).min(wall),
            ran_lo: ran.saturating_sub(from.time.late).min(wall),
            ran_hi: ran.saturating_add(to.time.late).min(wall),
            queued,
        }
    }
}

/// The fold of the first pass.
#[derive(Debug, Default)]
pub struct ThreadTimesFold(HashMap<u32, Sampled>);

/// The samples of a thread so far.
#[derive(Debug)]
struct Sampled {
    kept: Vec<Sample>,
    last: Sample,
    /// Of this many samples one is kept.
    stride: u32,
    /// The samples since the one that was kept last.
    passed: u32,
    /// Whether they contradict each other.
    is_wrong: bool,
}

impl ThreadTimesFold {
    /// Takes a sample of a thread.
    pub fn observe(&mut self, thread: u32, at: u64, time: &ThreadTime) {
        let sample = Sample { at: host(at), time: *time };
        self.0.entry(thread).and_modify(|sampled| sampled.add(sample)).or_insert_with(|| Sampled {
            kept: vec![sample],
            last: sample,
            stride: 1,
            passed: 0,
            is_wrong: false,
        });
    }

    /// Returns the samples of the threads whose samples agree.
    pub fn finish(self) -> ThreadTimes {
        let threads = self.0.into_iter().filter(|(_, sampled)| !sampled.is_wrong);
        ThreadTimes(threads.map(|(thread, sampled)| (thread, sampled.finish())).collect())
    }
}

impl Sampled {
    fn add(&mut self, sample: Sample) {
        if sample.at <= self.last.at {
            return;
        }
        self.is_wrong |= contradicts(&self.last, &sample);
        self.last = sample;
        self.passed += 1;
        if self.passed < self.stride {
            return;
        }
        self.passed = 0;
        self.kept.push(sample);
        if self.kept.len() > MOST {
            let mut at = 0;
            self.kept.retain(|_| {
                at += 1;
                at % 2 == 1
            });
            self.stride = self.stride.saturating_mul(2);
        }
    }

    fn finish(mut self) -> Vec<Sample> {
        if self.passed > 0 {
            self.kept.push(self.last);
        }
        self.kept
    }
}

/// Whether two successive samples cannot both be true. A thread that seems to have run for longer than the time between
/// them runs on a processor without a tick (`nohz_full`), of which the system counts the time once a second: its samples
/// say little.
fn contradicts(from: &Sample, to: &Sample) -> bool {
    let wall = to.at.saturating_sub(from.at).max(0) as u64;
    // The system's clocks may differ by 1 in 1000.
    let most = wall.saturating_add(wall / 1000).saturating_add(from.time.late);
    to.time.queued < from.time.queued || to.time.ran.checked_sub(from.time.ran).is_none_or(|ran| ran > most)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn time(ran: u64) -> ThreadTime {
        ThreadTime { ran: ran * MS, queued: 0, late: 4 * MS }
    }

    /// A sample every 100 ms, with the time on a processor so far, ms.
    fn times(ran: impl IntoIterator<Item = u64>) -> ThreadTimes {
        let mut fold = ThreadTimesFold::default();
        (0..).zip(ran).for_each(|(n, ran)| fold.observe(1, n * 100 * MS, &time(ran)));
        fold.finish()
    }

    #[test]
    fn of_a_long_run_the_kept_samples_are_few_and_span_all_of_it() {
        let count = 10 * MOST as u64 + 3;
        let times = times((0..count).map(|n| 7 * n));
        let kept = times.of(1);
        assert!(kept.len() <= MOST + 1 && kept.len() >= MOST / 2, "{}", kept.len());
        assert_eq!(kept[0].at, 0);
        assert_eq!(kept.last().unwrap().at as u64, (count - 1) * 100 * MS);
        let steps = kept.windows(2).rev().skip(1).map(|two| two[1].at - two[0].at);
        assert!(
            steps.clone().all(|step| step == steps.clone().next().unwrap()),
            "they are equally far apart"
        );
    }

    #[test]
    fn the_time_between_two_samples_has_the_bounds_of_their_lateness() {
        let sample = |at: u64, ran, queued| Sample {
            at: (at * MS) as i64,
            time: ThreadTime { queued: queued * MS, ..time(ran) },
        };
        let between = |from, to| {
            let Spent { wall, runnable_lo, runnable_hi, queued, .. } = Spent::between(&from, &to);
            [wall / MS, runnable_lo / MS, runnable_hi / MS, queued / MS]
        };
        assert_eq!(between(sample(0, 0, 0), sample(100, 30, 20)), [100, 46, 54, 20]);
        assert_eq!(between(sample(0, 0, 0), sample(100, 0, 0)), [100, 0, 4, 0], "it slept");
        assert_eq!(between(sample(0, 5, 0), sample(100, 104, 0)), [100, 95, 100, 0], "it ran all the time");
        assert_eq!(between(sample(0, 0, 0), sample(100, 90, 400)), [100, 96, 100, 10], "a wait from before");
    }

    #[test]
    fn a_thread_whose_time_is_counted_once_a_second_has_no_samples() {
        assert!(times([0, 0, 0, 300, 300]).of(1).is_empty());
        assert!(times([50, 90, 20]).of(1).is_empty(), "another thread's");
        assert_eq!(times([0, 103, 200]).of(1).len(), 3, "103 ms in 100 ms: 4 ms were counted late");
    }
}
