//! Calls that overlap work on a stream.

use gpuspy_wire::record::{self, Record, Untimed, flag};

use crate::calls::{current_context, record_call};
use crate::cuda::{CUDA_SUCCESS, CUresult, CUstream};
use crate::driver::{self, Driver};
use crate::gpu::burst;
use crate::gpu::capture::is_captured;
use crate::gpu::event_pairs::{self, Opened};
use crate::gpu::overlap::OverlapCheck;
use crate::gpu::stream::{Stream, Streams};
use crate::hook::{Entry, Layer};
use crate::thread::{self, Call};

/// Something that goes onto a stream.
pub trait Work: Sized {
    /// Its record.
    type Record: Record;
    /// The stream argument; null: the default stream.
    fn stream(&self) -> CUstream;
    /// False: nothing is enqueued (a copy of no bytes).
    fn is_work(&self) -> bool {
        true
    }
    /// It may overlap what is ahead of it: no event may stand beside it.
    fn is_programmatic(&self) -> bool {
        false
    }
    /// The handle of the kernel that it launches; 0: none.
    fn kernel(&self) -> u64 {
        0
    }
    /// It may run until work of another GPU does: no event of ours may stand right behind it.
    fn waits_for_others(&self, _call: &Call) -> bool {
        false
    }
    /// Before the real call, in the driver's layer.
    fn before(&self, _call: &Call) {}
    /// Before the real call, in the runtime's.
    fn hand_down(&self, _call: &Call) {}
    /// The record, from the part that all have.
    fn record(self, call: &Call, work: record::Work, entered: u32) -> Self::Record;
    /// The API waits for the work by definition.
    fn is_blocking(&self) -> bool {
        false
    }
}

/// Intercepts a call that call_counts work.
#[inline]
pub fn work<W: Work>(entry: Entry, what: impl FnOnce() -> W, real: impl FnOnce() -> CUresult) -> CUresult {
    let Some(call) = thread::enter(&entry) else { return real() };
    let what = what();
    match call.layer {
        Layer::Driver => driver_work(&call, what, real),
        Layer::Runtime => {
            what.hand_down(&call);
            let (result, before, after) = call.real(real);
            if call.was_recorded(W::Record::KIND) {
                // The driver layer has it.
            } else if result == CUDA_SUCCESS && what.is_work() {
                let mut work = common::<W>(&call, &what, after, None);
                work.untimed = Untimed::NotHooked as u8;
                let record = what.record(&call, work, call.until(before));
                call.record(&record);
            } else {
                record_call(&call, result, 0, before);
            }
            call.leave(after.wrapping_sub(before));
            result
        }
    }
}

fn driver_work<W: Work>(call: &Call, what: W, real: impl FnOnce() -> CUresult) -> CUresult {
    let Made { result, before, submitted, recorded } = overlap(call, what, || call.real(real));
    if !recorded {
        record_call(call, result, 0, before);
    }
    call.leave(submitted.wrapping_sub(before));
    result
}

/// A real call that has been made.
pub struct Made {
    /// What it returned.
    pub result: CUresult,
    /// Ticks before and after it.
    pub before: u64,
    pub submitted: u64,
    /// It was work, and is recorded as that.
    pub recorded: bool,
}

/// Puts one piece of work around the call that call_counts it, and records it.
pub fn overlap<W: Work>(call: &Call, what: W, real: impl FnOnce() -> (CUresult, u64, u64)) -> Made {
    let driver = driver::driver();
    let stream = driver.and_then(|d| call.session.get::<Streams>().get(call, d, what.stream()));
    let captured = is_captured(call, stream.map_or(what.stream(), Stream::handle));
    let way = driver.zip(stream).map(|(driver, stream)| Way::begin(driver, stream));
    let around = match &way {
        _ if captured => Around::Nothing(Untimed::Captured),
        Some(way) if what.is_work() => way.enter(call, &what),
        _ => Around::Nothing(Untimed::NoStream),
    };
    what.before(call);
    let (result, before, submitted) = real();
    let succeeded = result == CUDA_SUCCESS && what.is_work();
    let mut work = common::<W>(call, &what, submitted, stream);
    match way {
        Some(way) => way.leave(call, around, &mut work, &what, succeeded),
        None => work.untimed = if captured { Untimed::Captured } else { Untimed::NoStream } as u8,
    }
    if succeeded {
        work.head.flags |= if captured { flag::CAPTURED } else { 0 };
        // A stream that is met in a capture is not asked what it is.
        if captured && stream.is_none() {
            work.context = current_context(call);
        }
        let record = what.record(call, work, call.until(before));
        call.record(&record);
    }
    Made { result, before, submitted, recorded: succeeded }
}

/// A call's way through its stream.
struct Way {
    driver: &'static Driver,
    stream: &'static Stream,
    overlap: OverlapCheck,
}

/// What stands around the real call.
enum Around {
    /// An event pair.
    Pair(event_pairs::Pair),
    /// The burst or the run that the launch is a part of.
    Burst(burst::Member),
    /// Nothing, and why.
    Nothing(Untimed),
}

impl Way {
    #[inline]
    fn begin(driver: &'static Driver, stream: &'static Stream) -> Way {
        Way { driver, stream, overlap: OverlapCheck::begin(stream.lines()) }
    }

    /// Before the real call, outside captures.
    #[inline]
    fn enter<W: Work>(&self, call: &Call, what: &W) -> Around {
        if what.is_programmatic() {
            let member = burst::join(call, self.driver, self.stream, &self.overlap);
            return member.map_or(Around::Nothing(Untimed::Programmatic), Around::Burst);
        }
        match event_pairs::open(call, self.driver, self.stream, &self.overlap, what.kernel()) {
            Ok(Opened::Pair(pair)) => Around::Pair(pair),
            Ok(Opened::Member(member)) => Around::Burst(member),
            Err(why) => {
                // What comes now is no part of it. Where the stream is deep and nothing of it completes it lies inside.
                if why != Untimed::DeepQueue {
                    burst::end_on(call, self.stream, burst::Next::Call);
                }
                event_pairs::mark(call, self.driver, self.stream, why);
                Around::Nothing(why)
            }
        }
    }

    /// After it: writes into the record what is known of the time.
    #[inline]
    fn leave<W: Work>(self, call: &Call, around: Around, work: &mut record::Work, what: &W, succeeded: bool) {
        let Way { driver, stream, overlap } = self;
        let kernel = what.kernel();
        let (untimed, flags) = match around {
            Around::Pair(pair) if succeeded && burst::may_begin(call, kernel) => {
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

/// The part of a work record that all kinds have.
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
        reserved: [0; 3],
        stream: stream.map_or(0, Stream::id),
    }
}
