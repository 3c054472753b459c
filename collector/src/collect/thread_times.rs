//! How long have the threads of a process run, and what are they called? The system counts it
//! (`/proc/PID/task/TID/schedstat`), and knows their names (`comm`).
//!
//! The collector reads it about every [`PERIOD`], of the threads whose CUDA calls arrived meanwhile, and less often of the
//! others, to see which have ended. A file stays open, so that a read costs about a microsecond and that a thread id which is
//! used again is not taken for the same thread. The program and its agent do nothing for it. Where the system does not say it,
//! nothing is recorded.

use super::process::Process;
use super::{descriptors, sys};
use crate::trace::record::{Body, Record, ThreadTime};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

/// The time between two samples of a thread, about.
const PERIOD: Duration = Duration::from_millis(100);
/// The time between two reads of threads that make no calls: those that have ended make room.
const LOOK: Duration = Duration::from_secs(1);
/// The most threads that are sampled at a time, each with a descriptor.
const MOST: usize = 64;
/// The most threads that are remembered because their files cannot be read. What such a thread has left in its ring
/// arrives soon after its end, and by then no more threads than this have ended.
const UNREADABLE: usize = 1024;
/// A reading that took longer than this was interrupted, and is made again: ns.
const INTERRUPTED: u64 = 100_000;
/// How often a reading is made at most.
const TRIES: usize = 3;

/// The threads of a process that make CUDA calls.
#[derive(Debug)]
pub struct ThreadTimes {
    /// The process, unless it is another one than the agent's or in another pid namespace.
    pid: Option<u32>,
    /// Those that are sampled, by claim number: at most [`MOST`].
    threads: BTreeMap<u32, Thread>,
    /// The claim numbers of those that have ended or cannot be read, the latest [`UNREADABLE`] of them. Their ids may be
    /// other threads' by now.
    unreadable: BTreeSet<u32>,
    /// The claim numbers of sampled threads that were found to have ended, until somebody takes them.
    ended: Vec<u32>,
    due: Instant,
    look: Instant,
    /// The time between two counts of a running thread's time, ns.
    tick: u64,
    /// Whether the sample at the process's end has been taken.
    is_over: bool,
}

/// A thread whose time is read.
#[derive(Debug)]
struct Thread {
    schedstat: File,
    /// Whether it has made calls since its last sample.
    has_called: bool,
}

impl ThreadTimes {
    /// Starts sampling a process whose agent says that it started at `start_time` (field 22 of `/proc/PID/stat`).
    pub(crate) fn of(process: &Process, start_time: u64) -> ThreadTimes {
        let is_it = process.start_time() == Some(start_time) && process.is_running();
        ThreadTimes {
            pid: Some(process.pid).filter(|_| is_it),
            threads: BTreeMap::new(),
            unreadable: BTreeSet::new(),
            ended: Vec::new(),
            due: Instant::now(),
            look: Instant::now() + LOOK,
            tick: sys::tick(),
            is_over: false,
        }
    }

    /// Notes that calls of a thread have arrived. Returns the thread's name when they are its first.
    pub(crate) fn has_called(&mut self, thread: u32, tid: u32) -> Option<String> {
        let pid = self.pid?;
        if let Some(known) = self.threads.get_mut(&thread) {
            known.has_called = true;
        } else if self.threads.len() < MOST && !self.unreadable.contains(&thread) {
            match open(pid, tid) {
                // Its time is worth less than another session.
                Some(schedstat) if !descriptors::is_spare(schedstat.as_fd()) => {
                    self.give_up(thread);
                    return name(pid, tid);
                }
                Some(schedstat) => {
                    self.threads.insert(thread, Thread { schedstat, has_called: true });
                    // Its first window begins now.
                    self.due = Instant::now();
                    return name(pid, tid);
                }
                None => self.give_up(thread),
            }
        }
        None
    }

    /// Notes that a thread has ended, or cannot be read: it is not looked for again, and takes no place.
    fn give_up(&mut self, thread: u32) {
        self.threads.remove(&thread);
        self.unreadable.insert(thread);
        if self.unreadable.len() > UNREADABLE {
            // Claim numbers grow, so this is the earliest of them.
            self.unreadable.pop_first();
        }
    }

    /// Returns the samples of the threads that have made calls since their last one, if it is time, or if the process is
    /// about to exit. `host_now` returns host ns.
    pub(crate) fn sample(&mut self, is_exiting: bool, host_now: impl Fn() -> u64) -> Vec<Record> {
        let is_last = is_exiting && !std::mem::replace(&mut self.is_over, is_exiting);
        if self.pid.is_none() || !(is_last || Instant::now() >= self.due) {
            return Vec::new();
        }
        self.sample_now(host_now)
    }

    /// The same at once. Of a process that has ended, the first thread can be read until its parent has waited for it.
    pub(crate) fn sample_now(&mut self, host_now: impl Fn() -> u64) -> Vec<Record> {
        let now = Instant::now();
        self.due = now + PERIOD;
        let reads_all = now >= self.look;
        if reads_all {
            self.look = now + LOOK;
        }
        let (mut samples, mut ended) = (Vec::new(), Vec::new());
        for (&claim, thread) in &mut self.threads {
            let has_called = std::mem::take(&mut thread.has_called);
            if !has_called && !reads_all {
                continue;
            }
            match read(&thread.schedstat, self.tick, &host_now) {
                Some((at, time)) if has_called => {
                    samples.push(Record { thread: claim, at, body: Body::ThreadTime(time) });
                }
                Some(_) => {}
                None => ended.push(claim),
            }
        }
        ended.iter().for_each(|claim| self.give_up(*claim));
        self.ended.append(&mut ended);
        samples
    }

    /// Whether a thread is sampled, and was not found to have ended.
    pub(crate) fn samples(&self, thread: u32) -> bool {
        self.threads.contains_key(&thread)
    }

    /// Returns the threads that were found to have ended since the last time.
    pub(crate) fn take_ended(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.ended)
    }
}

/// Opens the file of a thread by its id in the process's own namespace, which must be ours.
fn open(pid: u32, tid: u32) -> Option<File> {
    let folder = format!("/proc/{pid}/task/{tid}");
    let schedstat = File::open(format!("{folder}/schedstat")).ok()?;
    let status = fs::read_to_string(format!("{folder}/status")).ok()?;
    is_in_our_namespace(&status, tid).then_some(schedstat)
}

/// Returns what a thread calls itself, at most 15 bytes (pthread_setname_np(3)).
fn name(pid: u32, tid: u32) -> Option<String> {
    let name = fs::read(format!("/proc/{pid}/task/{tid}/comm")).ok()?;
    let name = String::from_utf8_lossy(&name).trim_end_matches('\n').replace(char::is_control, "?");
    Some(name).filter(|name| !name.is_empty())
}

/// Whether a thread has this id in the namespace of `/proc`, and in no other one (proc_pid_status(5), `NSpid`).
fn is_in_our_namespace(status: &str, tid: u32) -> bool {
    let ids = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    ids.is_some_and(|ids| ids.split_whitespace().eq([tid.to_string()]))
}

/// Reads how long a thread has run, and when that was: host ns.
fn read(schedstat: &File, tick: u64, host_now: impl Fn() -> u64) -> Option<(u64, ThreadTime)> {
    let mut best: Option<(u64, ThreadTime)> = None;
    for _ in 0..TRIES {
        let mut text = [0; 96];
        let before = host_now();
        let length = schedstat.read_at(&mut text, 0).ok()?;
        let at = host_now();
        let (ran, queued) = parse(&text[..length])?;
        let took = at.saturating_sub(before);
        let late = tick.saturating_add(took);
        if best.is_none_or(|(_, best)| late < best.late) {
            best = Some((at, ThreadTime { ran, queued, late }));
        }
        if took <= INTERRUPTED {
            break;
        }
    }
    best
}

/// Returns the first two numbers: ns on a processor, and ns in which it waited for one (sched-stats in Linux's
/// documentation).
fn parse(text: &[u8]) -> Option<(u64, u64)> {
    let mut numbers = std::str::from_utf8(text).ok()?.split_ascii_whitespace().map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collect::process::Process;
    use std::sync::atomic::{AtomicBool, Ordering};

    const MS: u64 = 1_000_000;

    fn ours() -> ThreadTimes {
        let process = Process::of(std::process::id());
        ThreadTimes::of(&process, process.start_time().unwrap())
    }

    fn own_tid() -> u32 {
        let link = fs::read_link("/proc/thread-self").unwrap();
        link.file_name().unwrap().to_str().unwrap().parse().unwrap()
    }

    /// Samples the calling thread around `work`, and returns the wall time and the time in which it ran or waited for a
    /// processor, both ns.
    fn spent_in(work: impl FnOnce()) -> (u64, u64, ThreadTime) {
        let mut times = ours();
        let mut take = || {
            times.has_called(1, own_tid());
            times.due = Instant::now();
            let samples = times.sample(false, sys::monotonic_raw);
            let [Record { thread: 1, at, body: Body::ThreadTime(time) }] = samples[..] else {
                panic!("{samples:?}")
            };
            (at, time)
        };
        let (from, first) = take();
        work();
        let (to, last) = take();
        (to - from, (last.ran + last.queued) - (first.ran + first.queued), last)
    }

    #[test]
    fn a_thread_s_name_is_told_with_its_first_calls() {
        let told = std::thread::Builder::new().name("pt_autograd_0".to_owned()).spawn(|| {
            let mut times = ours();
            [times.has_called(7, own_tid()), times.has_called(7, own_tid()), times.has_called(8, 0)]
        });
        assert_eq!(told.unwrap().join().unwrap(), [Some("pt_autograd_0".to_owned()), None, None]);
    }

    #[test]
    fn a_thread_that_sleeps_does_not_run_and_one_that_spins_does() {
        let (wall, slept, _) = spent_in(|| std::thread::sleep(Duration::from_millis(300)));
        assert!(wall >= 300 * MS && slept < wall - 250 * MS, "{slept} of {wall}");
        let (wall, spun, last) = spent_in(|| {
            let end = Instant::now() + Duration::from_millis(300);
            while Instant::now() < end {}
        });
        assert!(
            spun + 3 * last.late >= 300 * MS && spun <= wall + 3 * last.late,
            "{spun} of {wall}: {last:?}"
        );
    }

    #[test]
    fn threads_that_made_no_calls_and_those_that_have_ended_have_no_sample() {
        let mut times = ours();
        assert!(times.sample(false, || 1).is_empty());
        let (is_done, tid) = (AtomicBool::new(false), std::sync::Mutex::new(0));
        std::thread::scope(|threads| {
            let thread = threads.spawn(|| {
                *tid.lock().unwrap() = own_tid();
                while !is_done.load(Ordering::Relaxed) {
                    std::thread::yield_now();
                }
            });
            while *tid.lock().unwrap() == 0 {
                std::thread::yield_now();
            }
            times.has_called(7, *tid.lock().unwrap());
            assert_eq!(times.sample(false, || 1).len(), 1);
            assert!(times.sample(false, || 1).is_empty(), "it is not due");
            times.has_called(7, 0);
            assert_eq!(times.sample(true, || 1).len(), 1, "the last one is always due");
            is_done.store(true, Ordering::Relaxed);
            thread.join().unwrap();
        });
        // A thread that was joined is in /proc for a moment more: the kernel wakes who waits before it removes the task.
        let task = format!("/proc/self/task/{}", tid.lock().unwrap());
        while std::path::Path::new(&task).exists() {
            std::thread::yield_now();
        }
        times.has_called(7, 0);
        times.due = Instant::now();
        assert!(times.sample(false, || 1).is_empty());
    }

    /// Starts threads that do nothing until `with` returns, which gets their ids.
    fn with_threads(number: usize, with: impl FnOnce(&[u32])) {
        let (send, ids) = std::sync::mpsc::channel();
        let gate = std::sync::RwLock::new(());
        std::thread::scope(|threads| {
            // It opens the gate if `with` panics, too.
            let _closed = gate.write();
            for _ in 0..number {
                threads.spawn(|| {
                    send.send(own_tid()).unwrap();
                    drop(gate.read());
                });
            }
            let ids: Vec<u32> = ids.iter().take(number).collect();
            with(&ids);
        });
    }

    #[test]
    fn of_many_threads_some_are_sampled_and_those_that_end_make_room() {
        let mut times = ours();
        let take = |times: &mut ThreadTimes| -> BTreeSet<u32> {
            times.due = Instant::now();
            times.sample(false, || 1).iter().map(|sample| sample.thread).collect()
        };
        let call = |times: &mut ThreadTimes, from: u32, tids: &[u32]| {
            (from..).zip(tids).for_each(|(claim, tid)| drop(times.has_called(claim, *tid)));
        };
        with_threads(MOST / 2, |long| {
            with_threads(MOST, |short| {
                for _ in 0..2 {
                    call(&mut times, 0, short);
                    call(&mut times, 1_000, long);
                    assert_eq!(take(&mut times), (0..64).collect(), "there is room for no more");
                }
            });
            // The system forgets a thread a moment after its end.
            let deadline = Instant::now() + Duration::from_secs(60);
            while {
                call(&mut times, 0, &[0; MOST]);
                !take(&mut times).is_empty()
            } {
                assert!(Instant::now() < deadline, "all of those have ended");
            }
            call(&mut times, 0, long);
            assert_eq!(take(&mut times), BTreeSet::new(), "an ended thread's id may be another's by now");
            call(&mut times, 1_000, long);
            assert_eq!(take(&mut times), (1_000..1_032).collect(), "the others have their places");
        });
    }

    /// Threads that ended without a further call kept their places, and after 64 of them no other one was sampled or named.
    #[test]
    fn threads_that_end_after_their_last_sample_make_room() {
        let mut times = ours();
        let take = |times: &mut ThreadTimes| {
            times.look = Instant::now();
            times.sample_now(|| 1).len()
        };
        with_threads(MOST, |first| {
            let calls = |(claim, tid): (u32, &u32)| times.has_called(claim, *tid).is_some();
            assert!((0..).zip(first).all(calls), "each has a name");
            assert_eq!(take(&mut times), MOST);
        });
        // The system forgets a thread a moment after its end.
        let deadline = Instant::now() + Duration::from_secs(60);
        while !times.threads.is_empty() {
            assert!(Instant::now() < deadline, "all of those have ended");
            assert_eq!(take(&mut times), 0, "they make no calls");
        }
        let ended: BTreeSet<u32> = times.take_ended().into_iter().collect();
        assert_eq!(ended, (0..MOST as u32).collect());
        with_threads(1, |later| {
            assert!(times.has_called(1_000, later[0]).is_some());
            assert_eq!(take(&mut times), 1);
        });
    }

    #[test]
    fn threads_that_cannot_be_read_take_no_place_and_little_memory() {
        let mut times = ours();
        for claim in 0..10_000 {
            times.has_called(claim, 0);
            assert!(times.threads.is_empty() && times.unreadable.len() <= UNREADABLE);
        }
        times.has_called(10_000, own_tid());
        assert_eq!(times.sample(false, || 1).len(), 1);
    }

    #[test]
    fn a_process_that_is_not_the_agents_is_not_read() {
        let process = Process::of(std::process::id());
        let mut times = ThreadTimes::of(&process, process.start_time().unwrap() + 1);
        times.has_called(1, own_tid());
        assert!(times.sample(true, || 1).is_empty());
        assert!(is_in_our_namespace("Name:\tx\nNSpid:\t12\nNSpgid:\t1\n", 12));
        assert!(!is_in_our_namespace("NSpid:\t5012\t12\n", 12), "the program is in a container");
        assert!(!is_in_our_namespace("NSpid:\t13\n", 12));
        assert!(!is_in_our_namespace("Name:\tx\n", 12));
    }

    #[test]
    fn hostile_or_odd_contents_say_nothing() {
        assert_eq!(parse(b"12 34 56\n"), Some((12, 34)));
        for text in [&b""[..], b"12", b"a b c", b"-1 2 3", b"\xff 1"] {
            assert_eq!(parse(text), None);
        }
    }
}
