//! The worker thread, for work whose time the application decides: it calls host functions, writes values and polls
//! values that streams wait for, each when its turn comes.

use crate::clocks::{self, Ns};
use crate::config::config;
use crate::engine::Node;
use crate::state::{self, Guard, State};
use crate::truth::{self, Operation, Times};
use crate::work::{Action, Job};
use crate::{effects, thread};
use parking_lot::Condvar;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Once};
use std::time::Duration;

/// A host function of the application and how to call it.
#[derive(Clone, Copy, Debug)]
pub enum HostCall {
    /// `cuLaunchHostFunc`.
    Function {
        /// The function.
        function: extern "C-unwind" fn(u64),
        /// Its argument.
        data: u64,
    },
    /// `cuStreamAddCallback`.
    Callback {
        /// The function: stream, status, data.
        function: extern "C-unwind" fn(u64, i32, u64),
        /// The stream, as the application named it.
        stream: u64,
        /// The last argument.
        data: u64,
    },
}

impl HostCall {
    fn call(self) {
        thread::as_callback(|| match self {
            Self::Function { function, data } => function(data),
            Self::Callback { function, stream, data } => function(stream, 0, data),
        });
    }
}

/// `cuStreamWaitValue` or `cuStreamWriteValue`.
#[derive(Clone, Copy, Debug)]
pub struct Value {
    /// The address.
    pub address: u64,
    /// 4 or 8 bytes.
    pub wide: bool,
    /// The value.
    pub value: u64,
    /// `CUstreamWaitValue_flags` of a wait; none for a write.
    pub wait: Option<u32>,
}

impl Value {
    /// Writes the value.
    fn write(&self) {
        // SAFETY: the address was checked to be device-visible memory of the right size, aligned, when it was given, and
        // cuda.h obliges the application to keep it while the operation is pending.
        unsafe {
            if self.wide {
                (self.address as *mut u64).write_volatile(self.value);
            } else {
                (self.address as *mut u32).write_volatile(self.value as u32);
            }
        }
    }

    /// Returns whether the current value lets the stream go on (cuda.h, CUstreamWaitValue_flags).
    fn passes(&self, flags: u32) -> bool {
        // SAFETY: as for `write`.
        let seen = unsafe {
            if self.wide {
                (self.address as *const u64).read_volatile()
            } else {
                u64::from((self.address as *const u32).read_volatile())
            }
        };
        let mask = if self.wide { u64::MAX } else { u64::from(u32::MAX) };
        match flags & 3 {
            0 if self.wide => (seen as i64).wrapping_sub(self.value as i64) >= 0,
            0 => (seen as i32).wrapping_sub(self.value as i32) >= 0,
            1 => seen == self.value,
            2 => seen & self.value != 0,
            _ => !(seen | self.value) & mask != 0,
        }
    }
}

/// A kernel that waits for other kernels, as the collectives of several GPUs do: it adds 1 to a shared counter when it
/// starts, and ends when the counter has reached a number.
#[derive(Clone, Copy, Debug)]
pub struct Meeting {
    /// The counter, 32 bits.
    pub counter: u64,
    /// The number.
    pub all: u32,
    /// Whether it has added its 1.
    pub arrived: bool,
}

impl Meeting {
    /// Adds its 1 to the counter at the first call, and returns whether all kernels have arrived.
    fn is_complete(&mut self) -> bool {
        // SAFETY: the program passed the address of a counter and keeps it while the kernel runs. Kernels of other
        // processes add to it as well. Relaxed: the counter publishes no other data.
        let counter = unsafe { AtomicU32::from_ptr(self.counter as *mut u32) };
        if !std::mem::replace(&mut self.arrived, true) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
        counter.load(Ordering::Relaxed) >= self.all
    }
}

#[derive(Debug)]
struct Gate {
    job: Job,
    head: Ns,
    node: Arc<Node>,
}

impl Gate {
    /// Returns whether it opens as soon as its turn comes.
    fn passes(&mut self, now: Ns) -> bool {
        match &mut self.job.action {
            Action::Meeting(meeting) => meeting.is_complete(),
            Action::Elsewhere { cell, number } => cell.end(*number).is_some_and(|end| end <= now),
            Action::Value(value) => value.wait.is_none_or(|flags| value.passes(flags)),
            _ => true,
        }
    }
}

/// Gates whose turn comes at a known time.
#[derive(Debug, Default)]
pub struct Worker {
    /// Host functions and writes, by time, then order of arrival.
    due: BTreeMap<(Ns, u64), Gate>,
    next: u64,
    /// Waits for values and for other processes.
    waits: Vec<Gate>,
}

/// Signalled when the worker gets a gate.
static GIVEN: Condvar = Condvar::new();

impl Worker {
    /// Adds a gate whose turn comes at `head`.
    pub fn push(&mut self, head: Ns, job: Job, node: Arc<Node>) {
        static START: Once = Once::new();
        START.call_once(|| spawn("simcuda-host", work));
        self.next += 1;
        let gate = Gate { job, head, node };
        if matches!(
            &gate.job.action,
            Action::Value(Value { wait: Some(_), .. }) | Action::Elsewhere { .. } | Action::Meeting(_)
        ) {
            self.waits.push(gate);
        } else {
            self.due.insert((head, self.next), gate);
        }
        GIVEN.notify_one();
    }
}

impl State {
    /// Opens the waits whose turn has come and whose value is there.
    pub fn look_at_values(&mut self) {
        let mut at = 0;
        while let Some(gate) = self.worker.waits.get_mut(at) {
            if gate.head > self.now || !gate.passes(self.now) {
                at += 1;
                continue;
            }
            let gate = self.worker.waits.remove(at);
            self.pass(gate);
        }
    }

    /// Writes work whose turn never came to the truth file, at exit.
    pub fn report_pending(&mut self) {
        let gates = std::mem::take(&mut self.worker.due).into_values().chain(self.worker.waits.drain(..));
        let jobs = gates.map(|gate| gate.job).chain(self.engine.abandon());
        for operation in jobs.filter_map(|job| job.truth) {
            truth::operation(operation, None);
        }
    }

    /// Opens a gate now.
    fn pass(&mut self, Gate { job, head, node }: Gate) {
        self.open(&node);
        report(job.truth, head, head, self.now);
    }
}

fn report(operation: Option<Box<Operation>>, head: Ns, start: Ns, end: Ns) {
    if let Some(operation) = operation {
        truth::operation(operation, Some(Times { head, start, end }));
    }
}

fn work() {
    let mut state = state::lock(0);
    loop {
        let next = state.worker.due.first_key_value().map(|(&(head, _), _)| head);
        if next.is_none_or(|head| head > state.now) {
            sleep(&mut state, next);
            continue;
        }
        let Some((_, Gate { mut job, head, node })) = state.worker.due.pop_first() else { continue };
        match job.action {
            Action::Host(call) => {
                drop(state);
                effects::drain();
                let start = clocks::now();
                call.call();
                state = state::lock(0);
                state.open(&node);
                report(job.truth.take(), head, start, state.now);
            }
            Action::Value(value) => {
                drop(state);
                effects::drain();
                state = state::lock(0);
                value.write();
                state.pass(Gate { job, head, node });
            }
            _ => state.pass(Gate { job, head, node }),
        }
    }
}

/// Waits until the next gate's turn, until a new gate arrives, or until it is time to poll values again.
fn sleep(state: &mut Guard, next: Option<Ns>) {
    let poll = (!state.worker.waits.is_empty()).then(|| config().assume.number("poll_ns"));
    let until = next.map(|head| head.saturating_sub(state.now));
    match until.into_iter().chain(poll).min() {
        Some(ns) => {
            GIVEN.wait_for(state, Duration::from_nanos(ns));
        }
        None => GIVEN.wait(state),
    }
    state.now = clocks::now();
    state.look_at_values();
}

/// Starts a thread of the simulator in which all signals are blocked, so that the application's handlers do not run
/// there.
pub fn spawn(name: &str, function: impl FnOnce() + Send + 'static) {
    // SAFETY: plain sets of signals, filled before use; the caller's mask is put back.
    unsafe {
        let (mut all, mut before) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(function);
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
        thread.expect("a thread can be started");
    }
}
