//! How is a launch recorded about which nothing has to be done but to record it? Most launches are such: nothing is timed
//! at the moment, and the kernel and the stream are known.
//!
//! What a launch needs is asked first, without changing anything; where something is not as it mostly is, [`light`]
//! returns `None` before the real call, and [`launch`](super::work::launch) does all; otherwise the
//! record is stored before the real call, when all that it needs is at hand, and published after it.
//!
//! A launch of the runtime's API has the record of the driver's inside it, whose kernel and stream are asked there.

use core::hint::cold_path;
use gpuspy_wire::record::{StackNumber, Untimed, Work};

use crate::calls::work::{over, record_made, record_outside};
use crate::calls::{Launch, Work as _, record_call, stack_of};
use crate::cuda::{CUDA_SUCCESS, CUresult};
use crate::gpu::budget::Gate;
use crate::gpu::burst;
use crate::gpu::event_pairs;
use crate::gpu::overlap::OverlapCheck;
use crate::gpu::stream::{Stream, Streams};
use crate::gpu::stream_capture;
use crate::hook::{Entry, Layer};
use crate::names::Names;
use crate::native::Native;
use crate::python::{Depth, Python};
use crate::sink::{self, Session};
use crate::thread::{self, AnyLightCall, Around, Call, LightCall, LightRuntimeCall, Stored};

/// Intercepts a launch, if it is one of those; `None`: nothing has happened. `what` is asked more than once, rather than that
/// what it returns is kept where a slower way needs it.
#[inline(always)]
pub fn light(entry: Entry, what: impl Fn() -> Launch, real: impl FnOnce() -> CUresult) -> Option<CUresult> {
    let session = sink::published().filter(|session| session.is_alive())?;
    if entry.layer == Layer::Runtime {
        return of_runtime(session, entry, what, real);
    }
    let place = place(session, entry, &what())?;
    match thread::enter_light(session, entry.caller.frame)? {
        AnyLightCall::Outermost(call) => made(call, session, entry, place, what, real),
        AnyLightCall::Inside(call) => made(call, session, entry, place, what, real),
    }
}

/// The stream of a launch that is not timed, and why it is not.
type Place = (&'static Stream, Untimed);

/// Returns the place of a launch; `None` where more has to be known or done.
#[inline(always)]
fn place(session: Session, entry: Entry, what: &Launch) -> Option<Place> {
    let is_usual = !what.is_programmatic() && !stream_capture::is_any_open(session);
    if !is_usual || session.get::<Native>().is_asked() {
        return None;
    }
    let stream = session.get::<Streams>().at_once(what.stream(), entry.per_thread)?;
    Some((stream, why_untimed(session, stream)?))
}

/// Makes the launch and records it. `None`: nothing has happened, because more has to be known or done.
#[inline(always)]
fn made<const IS_INSIDE: bool>(
    call: LightCall<IS_INSIDE>,
    session: Session,
    entry: Entry,
    place @ (stream, _): Place,
    what: impl Fn() -> Launch,
    real: impl FnOnce() -> CUresult,
) -> Option<CUresult> {
    let Some(stored) = store(call, session, entry, &what(), place) else {
        cold_path();
        call.give_up();
        return None;
    };
    // While later ones may be timed, the call is counted.
    let is_counted = !session.get::<Gate>().is_never_open();
    let check = is_counted.then(|| OverlapCheck::begin(stream.counts()));
    let (result, around) = call.real(entry, real);
    if result == CUDA_SUCCESS {
        if check.is_some() {
            event_pairs::count_untimed(stream);
        }
        if call.leave(stored, around) {
            return Some(CUDA_SUCCESS);
        }
    }
    cold_path();
    drop(check);
    Some(finish(call.into_call(entry), what(), place, result, around))
}

/// Does so for a launch of the runtime's API, while nothing is timed: launches that are take long, because of their events.
#[inline(always)]
fn of_runtime(
    session: Session,
    entry: Entry,
    what: impl Fn() -> Launch,
    real: impl FnOnce() -> CUresult,
) -> Option<CUresult> {
    if !session.get::<Gate>().is_shut() {
        return None;
    }
    let call = LightRuntimeCall::enter(session, entry)?;
    what().hand_down(&call.as_call(entry));
    let (result, around) = call.real(real);
    if result == CUDA_SUCCESS && call.leave(entry, around) {
        return Some(CUDA_SUCCESS);
    }
    cold_path();
    Some(finish_of_runtime(call.into_call(entry), what(), result, around))
}

/// Leaves a launch of the runtime's API after its real call, where the driver's call inside it was not observed, or more was recorded
/// than its launch. Returns its result.
#[cold]
#[inline(never)]
fn finish_of_runtime(
    call: Call,
    what: Launch,
    result: CUresult,
    Around { before, after }: Around,
) -> CUresult {
    let made = record_outside(&call, what, (result, before, after));
    over(call, made)
}

/// Stores the record of a launch. `None` where more has to be known or done.
#[inline(always)]
fn store<const IS_INSIDE: bool>(
    call: LightCall<IS_INSIDE>,
    session: Session,
    entry: Entry,
    what: &Launch,
    (stream, why): Place,
) -> Option<Stored> {
    // Asked again, now that the call has begun: what begins in a window is timed, also if it opened just now.
    if !session.get::<Gate>().is_shut() {
        return None;
    }
    let is_python = session.get::<Python>().is_read();
    let stack = if is_python { stack(&call.as_call(entry)) } else { call.launch_stack() };
    let context = stream.context().map_or(0, |context| context.number);
    let name = session.get::<Names>().of_known_launch(what.function, what.shape_of_success(context))?;
    let (untimed, stream_id) = (why as u8, stream.id());
    let work = Work { context, untimed, stack, stream: stream_id, ..call.work(entry, stream.flags()) };
    call.store(what.named(work, name))
}

/// Returns why a launch on this stream is not timed, if nothing more has to be done about that.
#[inline(always)]
fn why_untimed(session: Session, stream: &Stream) -> Option<Untimed> {
    if session.get::<Gate>().is_never_open() {
        return Some(Untimed::Off);
    }
    event_pairs::passed_by(session, stream).filter(|_| !burst::are_open(session))
}

/// Records a launch after its real call where something is not as it mostly is. Returns its result. If it has succeeded, it
/// has been counted on its stream.
#[cold]
#[inline(never)]
fn finish(
    call: Call,
    what: Launch,
    (stream, why): Place,
    result: CUresult,
    Around { before, after }: Around,
) -> CUresult {
    let made = record_made(&call, what, Some(stream), false, (result, before, after), |work, _, _| {
        work.untimed = why as u8;
    });
    if !made.recorded {
        record_call(&call, result, 0, before);
    }
    call.leave(before, after);
    result
}

/// Returns the stack of the program that makes the call.
#[inline(never)]
fn stack(call: &Call) -> StackNumber {
    stack_of(call, Depth::ToUser)
}
