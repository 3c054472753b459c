//! Why was a GPU idle? What the host was doing in its gaps.
//!
//! A gap ends when an operation starts, so the thread whose call enqueued that operation leads: until that call was
//! entered, the gap is split by what the thread was doing; from then on, by what the operation was waiting for. Where
//! the clocks leave it open whether the thread was still in one call or already in the next, the time is undecided.

use super::estimate::Sum;
use super::merge::Merge;
use std::collections::BTreeMap;

/// What the host, or an operation that it had enqueued, was doing while a GPU was idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// In a call that synchronizes.
    ExplicitSync,
    /// In another call that CUDA documents to wait for the GPU, and that waited.
    ImplicitSync,
    /// In a call that allocates memory.
    Allocating,
    /// In a call that frees memory.
    Freeing,
    /// In a call that copies memory or does a memset.
    Copying,
    /// In a call that launches kernels or graphs.
    Launching,
    /// The operation was enqueued, and waited for an event or for other streams.
    StreamWait,
    /// The operation was enqueued, and nothing is known that it waited for.
    Starting,
    /// In a call that initializes CUDA, loads modules or compiles.
    Loading,
    /// The stream ran a host function.
    HostCallback,
    /// In another CUDA call.
    OtherCall,
    /// In no CUDA call.
    OutsideCuda,
    /// Not known: the clocks, missing GPU times or lost records leave it open.
    Undecided,
}

impl Cause {
    /// All causes, in the order of declaration.
    pub const ALL: [Cause; 13] = [
        Cause::ExplicitSync,
        Cause::ImplicitSync,
        Cause::Allocating,
        Cause::Freeing,
        Cause::Copying,
        Cause::Launching,
        Cause::StreamWait,
        Cause::Starting,
        Cause::Loading,
        Cause::HostCallback,
        Cause::OtherCall,
        Cause::OutsideCuda,
        Cause::Undecided,
    ];

    /// The cause's name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Cause::ExplicitSync => "explicit_sync",
            Cause::ImplicitSync => "implicit_sync",
            Cause::Allocating => "allocating",
            Cause::Freeing => "freeing",
            Cause::Copying => "copying",
            Cause::Launching => "launching",
            Cause::StreamWait => "stream_wait",
            Cause::Starting => "starting",
            Cause::Loading => "loading",
            Cause::HostCallback => "host_callback",
            Cause::OtherCall => "other_call",
            Cause::OutsideCuda => "outside_cuda",
            Cause::Undecided => "undecided",
        }
    }
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
    /// The library that called it; outside CUDA, the library whose call ended the gap.
    pub library: Option<String>,
    /// The leading thread's id in the system, if known.
    pub tid: Option<u32>,
    /// The innermost NVTX range that was open on that thread when the gap ended.
    pub range: Option<String>,
    /// The wait (an explicit or implicit synchronization, by its base name) of the leading thread that ended last before
    /// the gap did, if it ended after the gap began: the work before the gap had been waited for, so that the stream
    /// was empty.
    pub after_wait: Option<String>,
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
    /// HTA's classes.
    pub hta: HtaClasses,
    /// The threads that led gaps, the one that led most idle time first.
    pub threads: Vec<ThreadUse>,
}

/// The most sites that are kept.
pub const SITES: usize = 1024;

impl Merge for IdleReport {
    fn merge(&mut self, other: &IdleReport) {
        Merge::merge(&mut self.by_cause, &other.by_cause);
        Merge::merge(&mut self.sites, &other.sites);
        self.hta.host_wait = self.hta.host_wait.saturating_add(other.hta.host_wait);
        self.hta.kernel_wait = self.hta.kernel_wait.saturating_add(other.hta.kernel_wait);
        self.hta.other = self.hta.other.saturating_add(other.hta.other);
        self.threads.extend(other.threads.iter().cloned());
    }
}
