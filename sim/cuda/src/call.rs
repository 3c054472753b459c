//! A call into the driver: its host time, the checks that precede every function, and the truth file's lines about
//! failures.

use crate::clocks::{self, Ns};
use crate::config::{HostCost, config};
use crate::engine::Done;
use crate::error::{self, DEINITIALIZED, Failure, NOT_INITIALIZED, NOT_PERMITTED, Outcome};
use crate::export::Api;
use crate::state::{self, Guard};
use crate::thread;
use crate::truth::{self, CallEnd};
use parking_lot::{Condvar, Mutex};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

/// Classes of calls, by what they cost their caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Class {
    Launch,
    Record,
    Query,
    Elapsed,
    /// Discovery functions, which work before `cuInit`.
    Free,
    Other,
}

impl Class {
    /// Returns the class of a function by its base name.
    pub const fn of(name: &str) -> Self {
        match name.as_bytes() {
            b"cuLaunchKernel"
            | b"cuLaunchKernelEx"
            | b"cuLaunchCooperativeKernel"
            | b"cuLaunchCooperativeKernelMultiDevice"
            | b"cuLaunch"
            | b"cuLaunchGrid"
            | b"cuLaunchGridAsync"
            | b"cuTomorrowLaunchKernel"
            | b"cuGraphLaunch" => Self::Launch,
            b"cuEventRecord" | b"cuEventRecordWithFlags" => Self::Record,
            b"cuEventQuery" | b"cuStreamQuery" => Self::Query,
            b"cuEventElapsedTime" => Self::Elapsed,
            b"cuInit"
            | b"cuDriverGetVersion"
            | b"cuGetProcAddress"
            | b"cuGetErrorName"
            | b"cuGetErrorString"
            | b"cuGetExportTable"
            | b"cuThreadExchangeStreamCaptureMode"
            | b"cuModuleGetLoadingMode" => Self::Free,
            _ => Self::Other,
        }
    }

    fn cost(self, cost: &HostCost) -> Ns {
        match self {
            Self::Launch => cost.launch,
            Self::Record => cost.record,
            Self::Query => cost.query,
            Self::Elapsed => cost.elapsed,
            Self::Free => 0,
            Self::Other => cost.other,
        }
    }
}

/// The stages of the driver's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Life {
    /// `cuInit` has not been called.
    New,
    /// `cuInit` has succeeded.
    Initialised,
    /// The exit handler has run.
    Over,
    /// This is the forked child of a process that had called `cuInit`.
    Forked,
}

/// The current [`Life`]. Relaxed: a call that races with `cuInit` or `exit` may see either stage.
static LIFE: AtomicU8 = AtomicU8::new(Life::New as u8);

/// Sets the driver's stage of life.
pub fn set_life(life: Life) {
    LIFE.store(life as u8, Ordering::Relaxed);
}

/// The stages of the driver's life.
pub fn life() -> Life {
    match LIFE.load(Ordering::Relaxed) {
        0 => Life::New,
        1 => Life::Initialised,
        2 => Life::Over,
        _ => Life::Forked,
    }
}

/// The id of the process that called `cuInit`; 0 before. Relaxed: a call that races with `cuInit` is in that process.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// Notes that `cuInit` has succeeded in this process.
pub fn begin_service() {
    PROCESS.store(std::process::id(), Ordering::Relaxed);
    set_life(Life::Initialised);
}

/// Returns whether this is the child of a process that had called `cuInit`. No lock may be taken there, because a
/// thread that does not exist in the child may have held it. libc's handlers report a child that `fork` created. A
/// child that the system call created is recognised by its process id, which only calls of the class `Other` query: the
/// query is too slow for frequent calls.
fn is_in_child(class: Class) -> bool {
    life() == Life::Forked
        || class == Class::Other && ![0, std::process::id()].contains(&PROCESS.load(Ordering::Relaxed))
}

/// The number of calls that keep the driver locked while they compile. Relaxed: it is polled.
static COMPILING: AtomicU64 = AtomicU64::new(0);

/// The lock that `cuEventQuery` holds and launches need (`question_lock`). It is fair: a thread that queries one event
/// after the other would otherwise starve all others.
struct Turns {
    /// The number of turns handed out, and the turn that is being served.
    turns: Mutex<(u64, u64)>,
    over: Condvar,
}

static QUESTIONS: Turns = Turns { turns: Mutex::new((0, 0)), over: Condvar::new() };

/// A turn, which ends when it is dropped.
struct Turn<'a>(&'a Turns);

impl Turns {
    fn take(&self) -> Turn<'_> {
        let mut turns = self.turns.lock();
        let turn = turns.0;
        turns.0 += 1;
        while turns.1 != turn {
            self.over.wait(&mut turns);
        }
        Turn(self)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.turns.lock().1 += 1;
        self.0.over.notify_all();
    }
}

/// One call in progress.
#[derive(Debug)]
pub struct Call {
    /// The function.
    pub api: &'static Api,
    /// Host ns at entry.
    pub begin: Ns,
    /// Host ns at which the call's own cost has passed.
    pub ready: Ns,
    /// Host ns at its return, for the truth file.
    pub end: CallEnd,
}

impl Call {
    fn new(api: &'static Api) -> Self {
        let begin = clocks::now();
        Self { api, begin, ready: begin + api.class.cost(&config().cost), end: Arc::new(AtomicU64::new(0)) }
    }

    /// Adds `ns` to the call's cost.
    pub fn costs(&mut self, ns: Ns) {
        self.ready += ns;
    }

    /// Adds `ns` to the call's cost, from now on: it has waited for what it could not begin before.
    pub fn costs_after_wait(&mut self, ns: Ns) {
        self.ready = self.ready.max(clocks::now()) + ns;
    }

    /// Returns the host ns at which the call takes effect and submits its work.
    pub fn acts(&self) -> Ns {
        if config().assume.is("submit", "end") { self.ready } else { self.begin }
    }

    /// Locks the state at the time at which the call takes effect.
    pub fn lock(&self) -> Guard {
        let asks = matches!(self.api.class, Class::Query | Class::Elapsed);
        if COMPILING.load(Ordering::Relaxed) != 0 && (!asks || config().assume.is("load_lock", "all")) {
            while COMPILING.load(Ordering::Relaxed) != 0 {
                clocks::sleep_until(clocks::now() + 1_000_000);
            }
            // No document says in which order the waiting calls continue. Here queries come last.
            if asks {
                clocks::sleep_until(clocks::now() + 20_000_000);
            }
        }
        state::lock(self.acts())
    }

    /// Spends the rest of the call's cost with the driver locked, unless `load_lock` is `none`.
    pub fn compiles(&self) {
        if !config().assume.is("load_lock", "none") {
            COMPILING.fetch_add(1, Ordering::Relaxed);
            clocks::sleep_until(self.ready);
            COMPILING.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Makes an event query sleep while it holds a lock, and makes a launch wait for that lock, under `question_lock`.
    fn takes_its_turn(&mut self) {
        let held = config().assume.number("question_lock");
        let asks = self.api.name == "cuEventQuery";
        if held == 0 || !(asks || self.api.class == Class::Launch) || life() != Life::Initialised {
            return;
        }
        let _turn = QUESTIONS.take();
        // A sleep takes about 50 µs longer than requested, so short times are spun.
        match held {
            _ if !asks => {}
            ..50_000 => clocks::spin_until(clocks::now() + held),
            _ => std::thread::sleep(std::time::Duration::from_nanos(held)),
        }
        // The call's own cost starts here.
        self.ready += clocks::now().saturating_sub(self.begin);
    }

    fn admit(&self) -> Outcome {
        if thread::in_callback()
            && self.api.class != Class::Free
            && config().assume.is("callback_api", "refused")
        {
            // cuda.h, cuLaunchHostFunc: the function must not make CUDA API calls; "may result in NOT_PERMITTED".
            return Err(NOT_PERMITTED);
        }
        match life() {
            Life::Over => Err(DEINITIALIZED),
            Life::New if self.api.class != Class::Free => Err(NOT_INITIALIZED),
            _ => injected(self.api.name),
        }
    }
}

/// How often functions of the classes [`Class::Query`] and [`Class::Elapsed`] were called. Relaxed: they are read at the end.
static ASKED: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];

/// Writes the truth file's line about the calls that only ask, of the program and of all that is loaded with it.
pub fn report_questions() {
    let [queries, distances] = ASKED.each_ref().map(|count| count.load(Ordering::Relaxed));
    truth::line(format_args!("\"kind\":\"questions\",\"queries\":{queries},\"distances\":{distances}"));
}

/// Runs a driver function for an exported symbol.
pub fn enter(api: &'static Api, function: impl FnOnce(&mut Call) -> Outcome) -> i32 {
    if is_in_child(api.class) {
        // CUDA returns error 3 in the child of a process that had initialized it.
        return NOT_INITIALIZED;
    }
    // CUDA guarantees nothing about errno. The simulator leaves it unchanged, or sets a value that identifies the call
    // (`SIMCUDA_ERRNO`), so that a test notices if a tracer changes it.
    let errno = if config().errno { 1000 + api.name.len() as i32 } else { errno() };
    match api.class {
        Class::Query => _ = ASKED[0].fetch_add(1, Ordering::Relaxed),
        Class::Elapsed => _ = ASKED[1].fetch_add(1, Ordering::Relaxed),
        _ => {}
    }
    let mut call = Call::new(api);
    call.takes_its_turn();
    let result = error::code(call.admit().and_then(|()| function(&mut call)));
    if truth::wanted() {
        if result != error::SUCCESS && result != error::NOT_READY {
            report_failure(api.name, result);
        }
        truth::drain();
    }
    clocks::spin_until(call.ready);
    call.end.store(clocks::now(), Ordering::Relaxed);
    if life() == Life::Over && truth::flush().is_err() {
        eprintln!("simcuda: the truth file cannot be written");
    }
    set_errno(errno);
    result
}

fn errno() -> i32 {
    // SAFETY: the thread's own location.
    unsafe { *libc::__errno_location() }
}

fn set_errno(errno: i32) {
    // SAFETY: the thread's own location.
    unsafe { *libc::__errno_location() = errno };
}

/// Writes a failed call to the truth file.
pub fn report_failure(api: &str, result: Failure) {
    let tid = thread::tid();
    truth::line(format_args!("\"kind\":\"failed\",\"api\":\"{api}\",\"result\":{result},\"tid\":{tid}"));
}

/// Returns the failure that `SIMCUDA_FAIL` injects into this call, if any.
fn injected(name: &str) -> Outcome {
    let Some(rules) = config().failures.get(name) else { return Ok(()) };
    static CALLS: Mutex<Option<HashMap<String, u64>>> = Mutex::new(None);
    let mut calls = CALLS.lock();
    let count = calls.get_or_insert_default().entry(name.to_owned()).or_default();
    *count += 1;
    match rules.iter().find(|(_, call)| call.is_none_or(|call| call == *count)) {
        Some(&(result, _)) => Err(result),
        None => Ok(()),
    }
}

/// Work that ended this many ns before a call cannot have been unfinished at the call's entry.
const LONG_OVER: Ns = 1_000_000_000;

impl Call {
    /// Waits, with the state unlocked, until all work is done, in a call that is no synchronization.
    pub fn wait_for(&self, work: &[Done]) {
        state::wait_all(work);
        self.report_waited(work);
    }

    /// Writes to the truth file when the work was done. The call waited for it, unless it was done before the call.
    pub fn report_waited(&self, work: &[Done]) {
        let until = work.iter().filter_map(Done::end).max().unwrap_or(0);
        if !truth::wanted() || until + LONG_OVER < self.begin {
            return;
        }
        let (api, tid, begin, end) = (self.api.name, thread::tid(), self.begin, clocks::now());
        truth::line(format_args!(
            "\"kind\":\"waited\",\"api\":\"{api}\",\"tid\":{tid},\"begin\":{begin},\"until\":{until},\"end\":{end}"
        ));
    }

    /// Ends a synchronization: trims the pools and writes to the truth file.
    pub fn report_sync(&self, scope: &str, stream: u64, event: u64) {
        crate::api::pool::synchronized(self);
        if !truth::wanted() {
            return;
        }
        let (api, tid, begin, end) =
            (self.api.name, thread::tid(), self.begin, clocks::now().max(self.ready));
        truth::line(format_args!(
            "\"kind\":\"sync\",\"api\":\"{api}\",\"tid\":{tid},\"scope\":\"{scope}\",\"stream\":{stream},\
             \"event\":{event},\"begin\":{begin},\"end\":{end}"
        ));
    }
}
