//! Why was a GPU idle? What the host was doing in its gaps.
//!
//! A gap ends when an operation starts, so the thread whose call enqueued that operation leads: until that call was
//! entered, the gap is split by what the thread was doing; from then on, by what the operation was waiting for. Where
//! the clocks leave it open whether the thread was still in one call or already in the next, the time is undecided,
//! unless the thread did nothing but launch.
//!
//! - [`host`]: the host's side of a process, from its events; [`history`]: the calls of its threads; [`enqueued`]: what
//!   lies before a stream's next operation; [`first_launches`]: which launches load code
//! - [`lead`]: what is known of an operation that may end a gap; [`split`]: how a gap is divided, when it is [`closed`];
//!   [`rows`]: the names
//! - [`running`]: whether the leading threads ran while they were outside CUDA
//! - [`by_step`]: the idle time in each step of the program; [`warm_up`]: what of it turns out to be warm-up
//! - [`pauses`]: the idle time in which nothing was timed
//! - [`without_waits`]: the gaps that would not be there if the threads did not wait for the GPU
//! - [`hta`]: the classes of Holistic Trace Analysis
//!
//! Calls that the agent does not intercept count as outside CUDA.

pub mod by_step;
pub mod closed;
pub mod enqueued;
pub mod first_launches;
pub mod history;
pub mod host;
pub mod hta;
pub mod lead;
pub mod pauses;
pub mod rows;
pub mod running;
pub mod split;
pub mod warm_up;
pub mod without_waits;

use self::pauses::HostTimes;
use self::running::{Outside, Running};
use self::warm_up::Early;
use super::call_class::CallClass;
use super::estimate::Sum;
use super::merge::Merge;
use super::source::Source;
use crate::model::named::named;
use crate::model::stacks::Frame;
use std::cmp::Reverse;
use std::collections::BTreeMap;

named! {
    /// What the host, or an operation that it had enqueued, was doing while a GPU was idle.
    pub enum Cause {
        /// In a call that synchronizes.
        ExplicitSync = "explicit_sync",
        /// In another call that can wait for the GPU, and that waited.
        ImplicitSync = "implicit_sync",
        /// In a call that allocates memory.
        Allocating = "allocating",
        /// In a call that frees memory.
        Freeing = "freeing",
        /// In a call that copies memory or does a memset.
        Copying = "copying",
        /// In a call that launches kernels or graphs.
        Launching = "launching",
        /// The operation was enqueued, and waited for an event, a value in memory or a semaphore.
        StreamWait = "stream_wait",
        /// The operation was enqueued, and nothing is known that it waited for.
        Starting = "starting",
        /// In a call that initializes CUDA, loads modules or compiles, or in the [first launch](first_launches) of a kernel.
        Loading = "loading",
        /// The stream ran a host function.
        HostCallback = "host_callback",
        /// In calls that launch or in others that do not wait, or between such calls: the clocks leave it open in which.
        BetweenLaunches = "between_launches",
        /// In another CUDA call.
        OtherCall = "other_call",
        /// In no CUDA call.
        OutsideCuda = "outside_cuda",
        /// The same before the first step of the program, if it launches little until then, and for [`ONE_OFF`] or longer before the
        /// second step or in the warm-up, or without steps before a twentieth of its launches: it imports, reads, compiles or
        /// tunes once.
        SetUp = "set_up",
        /// Not known: the clocks, missing GPU times or lost records leave it open.
        Undecided = "undecided",
    }
}

impl Cause {
    /// The number of causes.
    pub const COUNT: usize = Cause::ALL.len();

    /// Returns the cause that a call of a class is of idle time.
    pub fn of(class: CallClass) -> Cause {
        match class {
            CallClass::Context | CallClass::Load | CallClass::Link => Cause::Loading,
            CallClass::Launch => Cause::Launching,
            CallClass::Allocate => Cause::Allocating,
            CallClass::Free => Cause::Freeing,
            CallClass::Copy => Cause::Copying,
            CallClass::Wait => Cause::ExplicitSync,
            CallClass::Function
            | CallClass::Memory
            | CallClass::Query
            | CallClass::HostFunction
            | CallClass::StreamWait
            | CallClass::Other => Cause::OtherCall,
        }
    }

    /// The label on screen.
    pub fn label(self) -> &'static str {
        match self {
            Cause::ExplicitSync => "synchronizing",
            Cause::ImplicitSync => "synchronizing implicitly",
            Cause::Allocating => "allocating memory",
            Cause::Freeing => "freeing memory",
            Cause::Copying => "copying",
            Cause::Launching => "launching",
            Cause::StreamWait => "waiting for an event or value",
            Cause::Starting => "starting the operation",
            Cause::Loading => "loading code",
            Cause::HostCallback => "in a host function",
            Cause::BetweenLaunches => "launching or about to",
            Cause::OtherCall => "in other CUDA calls",
            Cause::OutsideCuda => "outside CUDA",
            Cause::SetUp => "outside CUDA, setting up",
            Cause::Undecided => "undecided",
        }
    }
}

/// What did a thread go on with that had been outside CUDA?
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Next {
    /// Anything else.
    #[default]
    Other,
    /// It enqueued a copy from the host to the device: input that it had prepared.
    Input,
    /// It enqueued another such copy, from the line that it had been in before: copies one by one.
    MoreInput,
    /// It loaded a module, or linked code, before it made other work: it had compiled that, or read it from a file.
    Code,
}

/// A part of the idle time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// The number of gaps that have such a part.
    pub count: u64,
    /// Their parts, ns.
    pub total: Sum,
}

impl Merge for Part {
    fn merge(&mut self, other: &Part) {
        self.count += other.count;
        self.total.add(other.total);
    }
}

/// Where the idle time of a cause comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Site {
    /// The API that the leading thread was in, by its base name; `None` outside CUDA.
    pub api: Option<String>,
    /// Where it was called; outside CUDA, where the call was made that ended the gap, or the last one that [loaded code](Next::Code).
    pub source: Source,
    /// The leading thread's id in the system, if known.
    pub tid: Option<u32>,
    /// The innermost NVTX range that was open on that thread when the gap ended.
    pub range: Option<String>,
    /// The wait before it that held the leading thread up, if the GPU [would not have been idle](without_waits) without
    /// such waits: the host would have been ahead of it.
    pub after_wait: Option<Wait>,
    /// Another wait behind that one, which waited for little, because the first had waited for the work before. Without the first it
    /// would wait for that: only without both the GPU would not have been idle.
    pub then_waited: Option<Wait>,
    /// Whether the part of a gap is [`LONG`] or longer: time between two calls and a pause are different sites.
    pub is_long: bool,
    /// Outside CUDA, what the thread went on with.
    pub next: Next,
}

impl Site {
    /// Returns the API of the wait that its idle time is owed to.
    pub fn wait(&self) -> Option<&str> {
        self.after_wait.as_ref().map(|wait| wait.api.as_str())
    }
}

/// A wait for the GPU: an explicit or implicit synchronization.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Wait {
    /// The API, by its base name.
    pub api: String,
    /// The line of the program that waited, if known.
    pub line: Option<Frame>,
}

/// The waits of a place that left a GPU idle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Emptied {
    /// How many.
    pub count: u64,
    /// In how many steps of the program they were; 0 if that is not known.
    pub steps: u64,
}

impl Merge for Emptied {
    fn merge(&mut self, other: &Emptied) {
        self.count += other.count;
        self.steps += other.steps;
    }
}

/// HTA's classes of the idle time of streams, ns. A gap between two operations of one stream is host wait if the second
/// one was launched after the first had ended; else kernel wait if it is shorter than 30 µs; else other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HtaClasses {
    /// The host was late.
    pub host_wait: u64,
    /// The time between two enqueued kernels.
    pub kernel_wait: u64,
    /// Everything else.
    pub other: u64,
}

/// How a thread that leads gaps spent the time of the report, ns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThreadUse {
    /// Its id in the system, if known.
    pub tid: Option<u32>,
    /// The time from its first to its last call.
    pub span: u64,
    /// Of that, what it spent in calls, by the cause that such a call would be of idle time. The rest was outside CUDA.
    /// The time in which a call waited for the GPU counts as explicit or implicit synchronization only.
    pub calls: BTreeMap<Cause, u64>,
    /// The idle time of GPUs that it led, ns.
    pub idle_led: u64,
}

/// Why GPUs were idle.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IdleReport {
    /// The idle time by cause: sums to the idle time of the devices.
    pub by_cause: BTreeMap<Cause, Part>,
    /// The same by cause and site. At most [`SITES`] sites; the others are added to one without a site.
    pub sites: BTreeMap<(Cause, Site), Part>,
    /// The waits that such idle time is owed to, and that left a GPU idle.
    pub waits: BTreeMap<Wait, Emptied>,
    /// HTA's classes.
    pub hta: HtaClasses,
    /// The threads that led gaps, the one that led most idle time first.
    pub threads: Vec<ThreadUse>,
    /// Whether the leading threads ran in the time outside CUDA.
    pub running: BTreeMap<Outside, Running>,
    /// How the leading threads spent the host's time.
    pub host: HostTimes,
    /// What was added for [pauses], by the line of the site, ns.
    pub paused_by_line: BTreeMap<Option<Frame>, u64>,
    /// Parts of long gaps of steps that [may be warm-up](warm_up).
    pub early: Vec<Early<Site>>,
    /// What is known of [long](Outside::Long) time in windows with such steps, by the first step of a window.
    pub early_running: BTreeMap<u64, Running>,
}

/// The fewest waits that are a habit of a program.
pub const HABIT: u64 = 10;
/// A line that waits fewer than one in so many times as often as another one does not wait in the loop of that one.
const RARE: u64 = 10;
/// The shortest pause of a thread, ns. A framework takes some tens of microseconds from one launch to the next.
pub const LONG: u64 = 100_000;
/// The shortest gap that counts as set-up, ns: a shorter one may be of the loop itself, and costs little once.
pub const ONE_OFF: u64 = 20_000_000;
/// The most sites that are kept.
pub const SITES: usize = 1024;
/// The most threads that are reported.
pub const THREADS: usize = 16;

/// Returns a sum without one of its summands.
fn less(sum: Sum, summand: Sum) -> Sum {
    Sum {
        value: sum.value.saturating_sub(summand.value),
        lo: sum.lo.saturating_sub(summand.lo),
        hi: sum.hi.saturating_sub(summand.hi),
    }
}

impl HtaClasses {
    /// Adds the classes of other streams.
    pub fn add(&mut self, other: &HtaClasses) {
        self.host_wait = self.host_wait.saturating_add(other.host_wait);
        self.kernel_wait = self.kernel_wait.saturating_add(other.kernel_wait);
        self.other = self.other.saturating_add(other.other);
    }
}

impl IdleReport {
    /// Whether waits in an API are a habit of the program.
    pub fn is_habit(&self, api: &str) -> bool {
        self.counts(api).sum::<u64>() >= HABIT
    }

    /// How many waits of each line left a GPU idle, by one API.
    fn counts(&self, api: &str) -> impl Iterator<Item = u64> {
        self.waits.iter().filter(move |(wait, _)| wait.api == api).map(|(_, emptied)| emptied.count)
    }

    /// Whether a line waits rarely, and another one often by the same API: the wait before a checkpoint is none of the loop.
    pub fn is_rare(&self, wait: &Wait) -> bool {
        let count = self.waits.get(wait).map_or(0, |emptied| emptied.count);
        wait.line.is_some() && count.saturating_mul(RARE) < self.counts(&wait.api).max().unwrap_or(0)
    }

    /// Adds idle time that lies in no gap, so that the causes sum to `idle`.
    pub fn complete(&mut self, idle: Sum) {
        let known = self.by_cause.values().fold(0u64, |sum, part| sum.saturating_add(part.total.value));
        let rest = idle.value.saturating_sub(known);
        if rest > 0 {
            let part = Part { count: 0, total: Sum { value: rest, lo: 0, hi: rest } };
            self.by_cause.entry(Cause::Undecided).or_default().merge(&part);
            self.sites.entry((Cause::Undecided, Site::default())).or_default().merge(&part);
        }
    }
}

impl Merge for IdleReport {
    fn merge(&mut self, other: &IdleReport) {
        Merge::merge(&mut self.by_cause, &other.by_cause);
        Merge::merge(&mut self.sites, &other.sites);
        Merge::merge(&mut self.waits, &other.waits);
        self.hta.add(&other.hta);
        Merge::merge(&mut self.running, &other.running);
        self.host.merge(&other.host);
        for (line, ns) in &other.paused_by_line {
            *self.paused_by_line.entry(line.clone()).or_default() += ns;
        }
        for thread in &other.threads {
            // A thread that led gaps of several GPUs has the same calls in the row of each.
            let is_same = |own: &&mut ThreadUse| own.tid.is_some() && own.tid == thread.tid;
            match self.threads.iter_mut().find(is_same) {
                Some(own) => own.idle_led = own.idle_led.saturating_add(thread.idle_led),
                None => self.threads.push(thread.clone()),
            }
        }
        self.threads.sort_by_key(|thread| Reverse(thread.idle_led));
        self.threads.truncate(THREADS);
    }
}
