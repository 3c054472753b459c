//! How are calls recorded that put work on a stream?

use gpuspy_wire::record::{self, Record, StackNumber, Untimed, flag};

use crate::calls::{Launch, context_number, order, record_call, stack_of};
use crate::cuda::{CUDA_SUCCESS, CUresult, CUstream};
use crate::driver::{self, Driver};
use crate::gpu::budget::Gate;
use crate::gpu::burst;
use crate::gpu::depth::Entries;
use crate::gpu::event_pairs::{self, Opened};
use crate::gpu::overlap::OverlapCheck;
use crate::gpu::stream::{Stream, Streams};
use crate::gpu::stream_capture::is_captured;
use crate::hook::{Entry, Layer};
use crate::python::Depth;
use crate::sys::Errno;
use crate::thread::{self, Call};

/// An operation that goes onto a stream.
pub trait Work: Sized {
    /// The type of its record.
    type Record: Record;
    /// The stream argument; null means the default stream.
    fn stream(&self) -> CUstream;
    /// Returns false if nothing is enqueued (a copy of no bytes).
    fn is_work(&self) -> bool {
        true
    }
    /// Whether it may overlap the operation ahead of it, so that no event may be next to it.
    fn is_programmatic(&self) -> bool {
        false
    }
    /// The handle of the kernel that it launches, or 0.
    fn kernel(&self) -> u64 {
        0
    }
    /// Whether it may run until another GPU's work does, so that no event of ours may come right after it.
    fn waits_for_others(&self, _call: &Call) -> bool {
        false
    }
    /// Called before the real call, in the driver layer.
    fn before(&self, _call: &Call) {}
    /// Called before the real call, in the runtime layer.
    fn hand_down(&self, _call: &Call) {}
    /// Builds the record from the part that all kinds of work have.
    fn record(self, call: &Call, work: record::Work, entered: u32) -> Self::Record;
    /// Whether the API waits for the work by definition.
    fn is_blocking(&self) -> bool {
        false
    }
}

/// Intercepts a call that puts work on a stream.
pub fn work<W: Work>(entry: Entry, what: impl FnOnce() -> W, real: impl FnOnce() -> CUresult) -> CUresult {
    match thread::enter(&entry) {
        Some(call) => observed(call, what(), real),
        None => unrecorded(entry, what, real),
    }
}

/// Intercepts a launch. It is the call that programs make most, so all of this becomes part of the hook.
#[inline(always)]
pub fn launch(entry: Entry, what: impl FnOnce() -> Launch, real: impl FnOnce() -> CUresult) -> CUresult {
    match thread::enter_here(&entry) {
        Some(mut call) => {
            // One that is timed may take long, because of its events.
            if call.session.get::<Gate>().is_shut() {
                call.is_one_of_many();
            }
            observed(call, what(), real)
        }
        None => unrecorded(entry, what, real),
    }
}

/// Makes a call that is not recorded. If that is because the thread has no slot, what it puts on a stream may come between two
/// events of another thread.
#[cold]
#[inline(never)]
fn unrecorded<W: Work>(entry: Entry, what: impl FnOnce() -> W, real: impl FnOnce() -> CUresult) -> CUresult {
    let Some(session) = thread::without_slot().filter(|_| entry.layer == Layer::Driver) else {
        return real();
    };
    let errno = Errno::save();
    let (what, untimed) = (what(), order::Untimed::default());
    if what.is_work() {
        untimed.begin_unrecorded(session, what.stream(), entry.per_thread);
    }
    errno.restore();
    let result = real();
    untimed.end_unrecorded(session, result == CUDA_SUCCESS, Entries::add);
    result
}

/// Makes the call, and records it.
#[inline(always)]
fn observed<W: Work>(call: Call, what: W, real: impl FnOnce() -> CUresult) -> CUresult {
    let made = match call.layer {
        Layer::Driver => record_around(&call, what, |call| call.real(real)),
        Layer::Runtime => {
            what.hand_down(&call);
            let made = call.real(real);
            record_outside(&call, what, made)
        }
    };
    over(call, made)
}

/// Leaves the hook after the real call. Returns its result.
#[inline(always)]
pub fn over(call: Call, Made { result, before, submitted, recorded }: Made) -> CUresult {
    if !recorded {
        record_call(&call, result, 0, before);
    }
    call.leave_here(before, submitted);
    result
}

/// Records a call of the runtime that has returned, if the driver layer has not.
#[inline(always)]
pub fn record_outside<W: Work>(
    call: &Call,
    what: W,
    (result, before, submitted): (CUresult, u64, u64),
) -> Made {
    let mut recorded = call.was_recorded(W::Record::KIND);
    if !recorded && result == CUDA_SUCCESS && what.is_work() {
        let mut work = common::<W>(call, &what, submitted, None);
        work.untimed = Untimed::NotHooked as u8;
        work.stack = stack_of(call, depth(&what, &work));
        let record = what.record(call, work, call.until(before));
        call.record(&record);
        recorded = true;
    }
    Made { result, before, submitted, recorded }
}

/// The outcome of a real call.
pub struct Made {
    /// What it returned.
    pub result: CUresult,
    /// Ticks before and after it.
    pub before: u64,
    pub submitted: u64,
    /// Whether it was work, and is recorded as such.
    pub recorded: bool,
}

/// Makes the call that puts one operation on a stream, with events around it where it can be timed, and
/// records it.
#[inline(always)]
pub fn record_around<W: Work>(
    call: &Call,
    what: W,
    real: impl FnOnce(&Call) -> (CUresult, u64, u64),
) -> Made {
    let driver = driver::driver();
    let stream = driver.and_then(|d| call.session.get::<Streams>().get(call, d, what.stream()));
    let captured = is_captured(call, stream.map_or(what.stream(), Stream::handle));
    let is_counted = !call.session.get::<Gate>().is_never_open();
    let on_stream = driver
        .zip(stream)
        .filter(|_| is_counted)
        .map(|(driver, stream)| OnStream::begin(driver, stream, captured));
    let untimed = match (&on_stream, stream) {
        (Some(on_stream), _) => on_stream.is_passed_by(call, &what, captured),
        _ if captured => Some(Untimed::Captured),
        (None, Some(_)) if what.is_programmatic() => Some(Untimed::Programmatic),
        (None, Some(_)) => Some(Untimed::Off),
        (None, None) => Some(Untimed::NoStream),
    };
    match (on_stream, untimed) {
        (Some(on_stream), None) => record_in_order(call, what, on_stream, captured, real),
        (on_stream, untimed) => {
            what.before(call);
            let made = real(call);
            record_made(call, what, stream, captured, made, |work, _, succeeded| {
                work.untimed = untimed.unwrap_or(Untimed::NoStream) as u8;
                if let (Some(on_stream), true) = (&on_stream, succeeded) {
                    event_pairs::count_untimed(on_stream.stream);
                }
            })
        }
    }
}

/// Does so where the operation is timed, or where other calls or the stream's events have to know of it.
#[inline(never)]
fn record_in_order<W: Work>(
    call: &Call,
    what: W,
    on_stream: OnStream,
    captured: bool,
    real: impl FnOnce(&Call) -> (CUresult, u64, u64),
) -> Made {
    let around = match captured {
        true => Around::Nothing(Untimed::Captured),
        false if what.is_work() => on_stream.enter(call, &what),
        false => Around::Nothing(Untimed::NoStream),
    };
    what.before(call);
    let stream = Some(on_stream.stream);
    record_made(call, what, stream, captured, real(call), |work, what, succeeded| {
        on_stream.leave(call, around, work, what, succeeded);
    })
}

/// Records an operation whose real call has returned. `timed` fills in what is known of its time, or why there is none.
#[inline(always)]
pub fn record_made<W: Work>(
    call: &Call,
    what: W,
    stream: Option<&'static Stream>,
    captured: bool,
    (result, before, submitted): (CUresult, u64, u64),
    timed: impl FnOnce(&mut record::Work, &W, bool),
) -> Made {
    let succeeded = result == CUDA_SUCCESS && what.is_work();
    let mut work = common::<W>(call, &what, submitted, stream);
    timed(&mut work, &what, succeeded);
    if succeeded {
        // Read after the end event, so that it does not widen the bounds of the time.
        work.stack = stack_of(call, depth(&what, &work));
        work.head.flags |= if captured { flag::CAPTURED } else { 0 };
        // A stream that is first seen in a capture is not queried, so its context is unknown.
        if captured && stream.is_none() {
            work.context = context_number(call, None);
        }
        let record = what.record(call, work, call.until(before));
        call.record(&record);
    }
    Made { result, before, submitted, recorded: succeeded }
}

/// A call on a known stream.
struct OnStream {
    driver: &'static Driver,
    stream: &'static Stream,
    overlap: OverlapCheck,
}

/// What is recorded around the real call.
enum Around {
    /// A pair of events.
    Pair(event_pairs::Pair),
    /// Nothing of its own: the launch is part of a burst or run.
    Burst(burst::Member),
    /// Nothing, for this reason.
    Nothing(Untimed),
}

impl OnStream {
    #[inline(always)]
    fn begin(driver: &'static Driver, stream: &'static Stream, captured: bool) -> OnStream {
        let counts = if captured { stream.counts_of_captured() } else { stream.counts() };
        OnStream { driver, stream, overlap: OverlapCheck::begin(counts) }
    }

    /// Returns why the operation is not timed, if nothing more has to be done about that.
    #[inline(always)]
    fn is_passed_by<W: Work>(&self, call: &Call, what: &W, captured: bool) -> Option<Untimed> {
        let is_ordinary = !captured && what.is_work() && !what.is_programmatic();
        let is_no_part = || !burst::are_open(call.session);
        let why = event_pairs::passed_by(call.session, self.stream).filter(|_| is_ordinary);
        why.filter(|_| is_no_part())
    }

    /// Starts to time the operation, before the real call and outside captures.
    #[inline]
    fn enter<W: Work>(&self, call: &Call, what: &W) -> Around {
        if what.is_programmatic() {
            let member = burst::join(call, self.driver, self.stream, &self.overlap);
            return member.map_or(Around::Nothing(Untimed::Programmatic), Around::Burst);
        }
        // A communication kernel is timed alone: when it starts says when this rank came to the collective, and the time
        // of a run would hide that.
        let is_apart = || what.waits_for_others(call);
        match event_pairs::open(call, self.driver, self.stream, &self.overlap, what.kernel(), &is_apart) {
            Ok(Opened::Pair(pair)) => Around::Pair(pair),
            Ok(Opened::Member(member)) => Around::Burst(member),
            Err(why) => {
                // The burst ends here, since this operation is not part of it. Where the stream is deep and
                // nothing on it completes, the operation becomes part of the burst.
                if why != Untimed::DeepQueue {
                    burst::end_on(call, self.stream, burst::Next::Work);
                }
                event_pairs::record_marker(call, self.driver, self.stream, why);
                Around::Nothing(why)
            }
        }
    }

    /// Writes into the record, after the real call, what is known about the operation's time.
    #[inline]
    fn leave<W: Work>(self, call: &Call, around: Around, work: &mut record::Work, what: &W, succeeded: bool) {
        let OnStream { driver, stream, overlap } = self;
        let kernel = what.kernel();
        let (untimed, flags) = match around {
            Around::Pair(pair) if succeeded && burst::may_start_sequence(call, kernel) => {
                burst::begin(call, pair, &overlap, work, kernel);
                (Untimed::Programmatic, flag::BURST)
            }
            Around::Pair(pair) if succeeded && what.waits_for_others(call) => {
                (Untimed::Timed, burst::defer(call, pair, &overlap, work, kernel))
            }
            Around::Pair(pair) => {
                let done = (work.submitted, succeeded);
                let closed = event_pairs::close(call, driver, pair, &overlap, done, kernel);
                (work.lead, work.tail) = (closed.lead, closed.tail);
                (closed.untimed, closed.flags)
            }
            Around::Burst(member) => {
                let (launched, untimed) = (succeeded.then_some(&*work), member.untimed());
                let last = (kernel, what.waits_for_others(call));
                let is_part = burst::joined(call, driver, member, &overlap, launched, last);
                (untimed, if is_part { flag::BURST } else { 0 })
            }
            Around::Nothing(why) => {
                if succeeded && why != Untimed::Captured {
                    event_pairs::count_untimed(stream);
                }
                (why, 0)
            }
        };
        work.untimed = untimed as u8;
        work.head.flags |= flags;
    }
}

/// How many frames of an operation are read. Launches can be too many for all of them, except in a window in which they
/// are timed, which the budget pays for. What is captured is replayed from elsewhere, so its own lines are needed.
#[inline(always)]
fn depth<W: Work>(what: &W, work: &record::Work) -> Depth {
    let is_rare = [Untimed::Timed as u8, Untimed::Captured as u8].contains(&work.untimed);
    if what.kernel() != 0 && !is_rare { Depth::ToUser } else { Depth::Whole }
}

/// Builds the part of a work record that all kinds have.
#[inline(always)]
fn common<W: Work>(call: &Call, what: &W, submitted: u64, stream: Option<&Stream>) -> record::Work {
    let blocking = if what.is_blocking() { flag::BLOCKING } else { 0 };
    record::Work {
        head: call.head::<W::Record>(blocking | stream.map_or(0, Stream::flags)),
        correlation: call.correlation,
        begin: call.begin,
        end: submitted,
        submitted,
        lead: 0,
        tail: 0,
        caller: call.caller,
        context: stream.and_then(Stream::context).map_or(0, |c| c.number),
        untimed: Untimed::Timed as u8,
        stack: StackNumber::NONE,
        stream: stream.map_or(0, Stream::id),
    }
}
