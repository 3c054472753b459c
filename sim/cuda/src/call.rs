//! A call into the driver: its host time, the checks that come before any function, the truth about failures.

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

/// What a call costs its caller, by kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Class {
    Launch,
    Record,
    Query,
    Elapsed,
    /// Discovery: answered before `cuInit`.
    Free,
    Other,
}

impl Class {
    /// The class of a function, by its base name.
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

/// Where the driver is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Life {
    /// `cuInit` has not been called.
    New,
    /// In service.
    Initialised,
    /// The exit handler has run.
    Over,
    /// A fork's child of a process that had called `cuInit`.
    Forked,
}

/// A [`Life`]. Read and written without order: who races with `cuInit` or `exit` may see either side.
static LIFE: AtomicU8 = AtomicU8::new(Life::New as u8);

/// Moves the driver on in its life.
pub fn set_life(life: Life) {
    LIFE.store(life as u8, Ordering::Relaxed);
}

/// Where the driver is in its life.
pub fn life() -> Life {
    match LIFE.load(Ordering::Relaxed) {
        0 => Life::New,
        1 => Life::Initialised,
        2 => Life::Over,
        _ => Life::Forked,
    }
}

/// The process that called `cuInit`; 0 before. Relaxed: who races with `cuInit` is in that process.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// The driver is in service, in this process.
pub fn begin_service() {
    PROCESS.store(std::process::id(), Ordering::Relaxed);
    set_life(Life::Initialised);
}

/// Whether this is the child of a process that had called `cuInit`. No lock may be taken there, since a thread that does not
/// exist here may have held it. libc's handlers tell of a child that `fork` made; one that the system call made is known by
/// its number, which is asked for where a call is not one of the frequent ones.
fn is_in_child(class: Class) -> bool {
    life() == Life::Forked
        || class == Class::Other && ![0, std::process::id()].contains(&PROCESS.load(Ordering::Relaxed))
}

/// Calls that have the driver locked while they compile. Relaxed: it is looked at again and again.
static COMPILING: AtomicU64 = AtomicU64::new(0);

/// What a question holds and launches wait for (`question_lock`). Those who want it are served in turn: a thread that asks
/// one question after the other would else never let anybody in between.
struct Turns {
    /// Turns that were given out, and the one that it is.
    turns: Mutex<(u64, u64)>,
    over: Condvar,
}

static QUESTIONS: Turns = Turns { turns: Mutex::new((0, 0)), over: Condvar::new() };

/// A turn; over when it is dropped.
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
    /// Which.
    pub api: &'static Api,
    /// Host ns at entry.
    pub begin: Ns,
    /// Host ns at which the call's own cost is over.
    pub ready: Ns,
    /// Host ns at its return, for the truth.
    pub end: CallEnd,
}

impl Call {
    fn new(api: &'static Api) -> Self {
        let begin = clocks::now();
        Self { api, begin, ready: begin + api.class.cost(&config().cost), end: Arc::new(AtomicU64::new(0)) }
    }

    /// Adds to what the call costs.
    pub fn costs(&mut self, ns: Ns) {
        self.ready += ns;
    }

    /// Host ns at which the call acts: its work is submitted then.
    pub fn acts(&self) -> Ns {
        if config().assume.is("submit", "end") { self.ready } else { self.begin }
    }

    /// Enters the simulated state at the time that the call acts at.
    pub fn lock(&self) -> Guard {
        if COMPILING.load(Ordering::Relaxed) != 0 {
            while COMPILING.load(Ordering::Relaxed) != 0 {
                clocks::sleep_until(clocks::now() + 1_000_000);
            }
            // Nobody says in which order those go on who have waited: questions come last.
            if self.api.class == Class::Query {
                clocks::sleep_until(clocks::now() + 20_000_000);
            }
        }
        state::lock(self.acts())
    }

    /// The rest of what the call costs passes with the driver locked, if that is assumed of it (`load_lock=held`).
    pub fn compiles(&self) {
        if config().assume.is("load_lock", "held") {
            COMPILING.fetch_add(1, Ordering::Relaxed);
            clocks::sleep_until(self.ready);
            COMPILING.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// A question about an event holds a lock for a while, and a launch waits for it, if that is assumed.
    fn takes_its_turn(&mut self) {
        let held = config().assume.number("question_lock");
        let asks = self.api.name == "cuEventQuery";
        if held == 0 || !(asks || self.api.class == Class::Launch) || life() != Life::Initialised {
            return;
        }
        let _turn = QUESTIONS.take();
        // A sleep takes 50 µs more than it is asked to.
        match held {
            _ if !asks => {}
            ..50_000 => clocks::spin_until(clocks::now() + held),
            _ => std::thread::sleep(std::time::Duration::from_nanos(held)),
        }
        // What the call costs besides begins here.
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

/// Runs a function of the driver for an export.
pub fn enter(api: &'static Api, function: impl FnOnce(&mut Call) -> Outcome) -> i32 {
    if is_in_child(api.class) {
        // What CUDA is known to do in the child of a process that had initialised it: error 3.
        return NOT_INITIALIZED;
    }
    // CUDA promises nothing about errno. The simulator leaves it alone, or as it says, so that whoever changes it shows.
    let errno = if config().errno { 1000 + api.name.len() as i32 } else { errno() };
    let mut call = Call::new(api);
    call.takes_its_turn();
    let result = error::code(call.admit().and_then(|()| function(&mut call)));
    if truth::wanted() {
        if result != error::SUCCESS && result != error::NOT_READY {
            tell_failure(api.name, result);
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

/// Tells the truth about a failed call.
pub fn tell_failure(api: &str, result: Failure) {
    let tid = thread::tid();
    truth::line(format_args!("\"kind\":\"failed\",\"api\":\"{api}\",\"result\":{result},\"tid\":{tid}"));
}

/// `SIMCUDA_FAIL`: the failure that this call is to have.
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

/// What was over so long before a call, ns, the app cannot have found unfinished when it made the call.
const LONG_OVER: Ns = 1_000_000_000;

impl Call {
    /// Waits, with the state unlocked, until all is done, though waiting is not what the call is for.
    pub fn wait_for(&self, work: &[Done]) {
        state::wait_all(work);
        self.tell_waited(work);
    }

    /// Tells when all of this was done, which the call has waited for at least if it was not when it was entered.
    pub fn tell_waited(&self, work: &[Done]) {
        let until = work.iter().filter_map(Done::end).max().unwrap_or(0);
        if !truth::wanted() || until + LONG_OVER < self.begin {
            return;
        }
        let (api, tid, begin, end) = (self.api.name, thread::tid(), self.begin, clocks::now());
        truth::line(format_args!(
            "\"kind\":\"waited\",\"api\":\"{api}\",\"tid\":{tid},\"begin\":{begin},\"until\":{until},\"end\":{end}"
        ));
    }

    /// A synchronisation is over: pools take notice, and the truth is told.
    pub fn tell_sync(&self, scope: &str, stream: u64, event: u64) {
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
