//! Which launches are timed together, from an event before the first to one after the last?
//!
//! **Bursts.** A kernel launched with PROGRAMMATIC_STREAM_SERIALIZATION may start before the kernel ahead of
//! it in its stream has ended; an event between the two would make it wait (cuda.h). A launch that signals an
//! event in its middle (PROGRAMMATIC_EVENT, LAUNCH_COMPLETION_EVENT) serves the same purpose. So no event is
//! recorded inside a sequence of programmatic launches.
//!
//! **Runs.** On a deep stream events are sparse ([`depth`](super::depth)): the launches between two that are
//! timed alone ([`draw`](super::draw)) are timed together as a run. One run can contain ordinary and
//! programmatic launches.
//!
//! The launches are recorded as parts of the whole ([`flag::BURST`]), and one [`record::Burst`] describes the
//! whole. Everything that was launched before the GPU reached the last launch kept the GPU busy without a
//! gap; `last` says from when on that is certain.
//!
//! **Deferred ends.** A communication kernel may run until its peers on other GPUs do. Where streams share a
//! hardware queue, an event right after it could hold up what those peers wait for. So it gets its end event
//! as a burst does: when something else goes onto its stream, which would wait for it as well. It is no
//! burst, though: its own record says that a GPU time follows, and the GPU time says when the end event was
//! recorded ([`record::GpuTime::tail`]).
//!
//! The end event is recorded before the real call of whatever else comes: the next launch that is timed alone
//! (whose start event it becomes), an ordinary operation, an event record or a wait by the app, a stream
//! capture, or a synchronization.
//!
//! On the legacy default stream an event waits for all blocking streams, and they wait for it. An event
//! recorded later than the launches would order what the program did not order. There an end event is
//! recorded only right before another launch on that stream, which waits as well, or while nothing was
//! enqueued on a blocking stream since. On a blocking stream, and where streams share hardware queues, an event that
//! nothing of the program's follows is recorded only while no other stream has work that the event would wait for.
//!
//! The difficult launches are the first of a programmatic sequence, which is an ordinary launch, and the
//! last: other launches get an event right after them and these must not, but at that time nobody knows what
//! follows. So the agent learns it for each kernel: once a programmatic launch has followed a kernel, that
//! kernel gets no event after it, until many of its launches in a row were followed by something else. Each
//! time that it is followed again, twice as many are needed. So a kernel cuts few sequences, each once, or one
//! on each stream if several threads find this out at the same time.

use core::sync::atomic::Ordering;
use gpuspy_wire::record::{self, LossCause, Untimed, flag};

use crate::cuda::CUcontext;
use crate::driver::{self, Driver};
use crate::gpu::budget::Gate;
use crate::gpu::context::{Context, Contexts};
use crate::gpu::depth::{Density, Queue};
use crate::gpu::draw::{self, Choice};
use crate::gpu::event_pairs::{self, Pair, Start};
use crate::gpu::open_burst::{ALONE, Bursts, FOLLOWED, OpenBurst, saturated};
use crate::gpu::overlap::{OverlapCheck, Since};
use crate::gpu::stream::{End, Hold, Pending, Stream, Streams};
use crate::gpu::stream_capture::is_captured;
use crate::sink::Session;
use crate::sys::ticks;
use crate::thread::Call;

/// The largest number of launches in a burst. Without a limit, a program that launches only programmatically
/// would never have a GPU time. The cost is that one launch in 256 waits for the launch ahead of it.
const LONGEST: u32 = 256;
/// So many entries may well be done, though nobody has seen it.
const FEW: u64 = 8;

/// A launch under way that will be part of a burst or run.
pub struct Member {
    hold: Hold,
    /// The start event, if this is the first launch.
    start: Option<(&'static Context, Start)>,
    /// The number of launches that may follow, if this is the first launch of a run.
    left: u32,
    is_programmatic: bool,
}

impl Member {
    /// Returns why the launch has no time of its own, for its record.
    pub fn untimed(&self) -> Untimed {
        if self.is_programmatic { Untimed::Programmatic } else { Untimed::Run }
    }
}

impl Drop for Member {
    // Also runs when the thread is cancelled inside the real call.
    fn drop(&mut self) {
        if let Some((context, start)) = self.start.take() {
            context.pool.give(start.event);
        }
    }
}

/// Whether this is the legacy default stream, where an event orders work on other streams.
fn is_legacy(stream: &Stream) -> bool {
    stream.flags() & flag::LEGACY_STREAM != 0
}

/// Whether an ordinary launch of this kernel may be the first of a programmatic sequence.
#[inline]
pub fn may_start_sequence(call: &Call, function: u64) -> bool {
    let bursts = call.session.get::<Bursts>();
    function != 0 && bursts.programmatic_seen.load(Ordering::Relaxed) && bursts.known(function) == FOLLOWED
}

/// Joins a programmatic launch, before its real call, to the newest launches on the stream, if those are
/// timed, or starts a burst where that cuts no sequence. `None`: the launch is only counted.
pub fn join(call: &Call, driver: &Driver, stream: &'static Stream, overlap: &OverlapCheck) -> Option<Member> {
    call.session.get::<Bursts>().programmatic_seen.store(true, Ordering::Relaxed);
    let context = stream.context()?;
    let mut hold = stream.hold()?;
    let may_record = stream.entries.density(*call.session.get::<Queue>()) != Density::None;
    if may_record && hold.last().burst.as_ref().is_some_and(|burst| burst.launches >= LONGEST) {
        end(call, driver, &mut hold, |since| overlap.follows(since));
    }
    if let Some(burst) = hold.last().burst.as_ref().filter(|burst| burst.is_deferred) {
        // The end event of a deferred launch would cut the sequence here.
        call.session.get::<Bursts>().set_followed(burst.function);
        leave_open(call, &mut hold);
    }
    if let Some(burst) = &mut hold.last().burst {
        call.session.get::<Bursts>().set_followed(burst.function);
        burst.since = burst.since.filter(|since| overlap.follows(*since));
        return Some(Member { hold, start: None, left: 0, is_programmatic: true });
    }
    call.session.get::<Gate>().admit().ok()?;
    let start = match hold.last().end.take() {
        // This start event cuts the sequence, but it is recorded already.
        Some(end) if overlap.follows(end.since) => {
            call.session.get::<Bursts>().set_followed(end.function);
            Start { event: end.event, shared: true, begun: end.begun, position: end.position }
        }
        stale => {
            stale.into_iter().for_each(|end| context.pool.give(end.event));
            may_cut(call, driver, &mut hold)
                .then(|| event_pairs::recorded(call, driver, context, stream).ok())??
        }
    };
    hold.last().skipped_programmatic = 0;
    Some(Member { hold, start: Some((context, start)), left: 0, is_programmatic: true })
}

/// Whether an event may be recorded before a programmatic launch: either nothing is left on the stream that
/// the launch could overlap, or [`LONGEST`] launches have gone without a time, so that one may wait.
///
/// What the poller has read may be a few ms old. A launch without a time leaves all that follows it undecided until something
/// else is known to be over: under XLA, which launches everything programmatically, that took 0.6 s. So the driver is queried
/// while few entries are left, and otherwise at the first such launch, the second, the fourth and so on.
fn may_cut(call: &Call, driver: &Driver, hold: &mut Hold) -> bool {
    if hold.stream().entries.depth() == 0 {
        return true;
    }
    let is_shallow = hold.stream().entries.depth() <= FEW;
    let last = hold.last();
    last.skipped_programmatic += 1;
    let skipped = last.skipped_programmatic;
    skipped >= LONGEST
        || (is_shallow || skipped.is_power_of_two())
            && event_pairs::is_drained(call.session, driver, hold.stream())
}

/// How a kernel's launch on a deep stream is timed.
pub enum Joined {
    /// It is part of a run.
    Member(Member),
    /// It is timed alone. `by_chance`: it represents its kernel's launches in runs.
    Alone { hold: Hold, by_chance: bool },
}

/// Joins a kernel's launch, before its real call, to the open run, or starts a run, or has it timed alone.
/// Events may be no denser than `density`.
pub fn run(
    call: &Call,
    driver: &Driver,
    mut hold: Hold,
    overlap: &OverlapCheck,
    density: Density,
    function: u64,
) -> Result<Joined, Untimed> {
    let (session, stream) = (call.session, hold.stream());
    let context = stream.context().ok_or(Untimed::NoStream)?;
    match draw::choose(session, hold.last().burst.as_ref(), density, function, call.begin) {
        Choice::Alone { by_chance } => return Ok(Joined::Alone { hold, by_chance }),
        Choice::NextRun => end(call, driver, &mut hold, |since| overlap.follows(since)),
        Choice::Run => {}
    }
    let last = hold.last();
    if let Some(run) = &mut last.burst {
        run.left = run.left.saturating_sub(1);
        run.since = run.since.filter(|since| overlap.follows(*since));
        return Ok(Joined::Member(Member { hold, start: None, left: 0, is_programmatic: false }));
    }
    let is_sampled = density == Density::Sampled;
    if is_sampled && !draw::is_really_deep(session, driver, &stream.entries, context, &last.draw) {
        return Ok(Joined::Alone { hold, by_chance: false });
    }
    let start = match last.end.take_if(|end| overlap.follows(end.since)) {
        Some(End { event, begun, position, .. }) => Start { event, shared: true, begun, position },
        None if is_sampled => return Ok(Joined::Alone { hold, by_chance: false }),
        // What came in between keeps the stream from flowing, as a host function does. The GPU may idle beside it, which
        // only an event after it shows.
        None if stream.may_take_events(*session.get::<Queue>()) => {
            event_pairs::recorded(call, driver, context, stream)?
        }
        None => return Err(Untimed::DeepQueue),
    };
    let last = hold.last();
    last.draw.run_started(context, start.event, start.position);
    let left = last.draw.length(density);
    Ok(Joined::Member(Member { hold, start: Some((context, start)), left, is_programmatic: false }))
}

/// Completes the joining of a launch after its real call, which returned at `work.submitted`. Returns false if
/// the launch failed. If it is the last one, the burst's record is left with the call, to be published after
/// the launch's record. `waits_for_others`: no event may follow right after the launch.
pub fn joined(
    call: &Call,
    driver: &Driver,
    mut member: Member,
    overlap: &OverlapCheck,
    work: Option<&record::Work>,
    (function, waits_for_others): (u64, bool),
) -> bool {
    let Some(work) = work else { return false };
    let (start, hold) = (member.start.take(), &mut member.hold);
    hold.stream().entries.add();
    match (start, &mut hold.last().burst) {
        (Some((context, start)), _) => {
            let kind = (member.is_programmatic, member.left);
            open(call, hold, context, start, overlap, work, function, kind);
        }
        (None, Some(burst)) => {
            burst.launches += 1;
            burst.programmatic += u32::from(member.is_programmatic);
            (burst.function, burst.thread) = (function, call.thread_identity());
            burst.last = work.submitted;
            burst.since = burst.since.and(overlap.alone());
        }
        (None, None) => return false,
    }
    let is_last = member.is_programmatic && call.session.get::<Bursts>().known(function) == ALONE;
    if is_last && !waits_for_others && !event_pairs::is_late(call, hold.stream(), overlap) {
        let burst = close(call, driver, hold, Next::Nothing, |since| overlap.alone() == Some(since));
        burst.into_iter().for_each(|burst| call.record_behind(&burst));
    }
    true
}

/// Starts a burst with an ordinary launch whose pair is open and whose real call has returned.
pub fn begin(call: &Call, pair: Pair, overlap: &OverlapCheck, work: &record::Work, function: u64) {
    let (mut hold, context, start) = pair.into_start();
    hold.stream().entries.add();
    // Its record is marked like those of programmatic launches.
    open(call, &mut hold, context, start, overlap, work, function, (true, 0));
}

/// Defers an operation's end event until something else comes onto its stream. Fills in what is known of the
/// operation's record by now, and returns the record's flags.
pub fn defer(call: &Call, pair: Pair, overlap: &OverlapCheck, work: &mut record::Work, function: u64) -> u16 {
    let sampled = pair.sampled();
    let (mut hold, context, start) = pair.into_start();
    hold.stream().entries.add();
    work.lead = saturated(work.submitted.wrapping_sub(start.begun));
    open(call, &mut hold, context, start, overlap, work, function, (false, 0));
    if let Some(burst) = &mut hold.last().burst {
        burst.is_deferred = true;
    }
    sampled | if start.shared { flag::SHARED_START } else { 0 }
}

/// Opens a burst. `kind` says whether the launch is programmatic, and how many more launches a run takes.
#[expect(clippy::too_many_arguments, reason = "the arguments are independent, and there are three callers")]
fn open(
    call: &Call,
    hold: &mut Hold,
    context: &'static Context,
    start: Start,
    overlap: &OverlapCheck,
    work: &record::Work,
    function: u64,
    (is_programmatic, left): (bool, u32),
) {
    let mut first = *work;
    first.head.flags |= if start.shared { flag::SHARED_START } else { 0 };
    hold.last().burst = Some(OpenBurst {
        context,
        thread: call.thread_identity(),
        start: start.event,
        lead: saturated(work.submitted.wrapping_sub(start.begun)),
        first,
        launches: 1,
        programmatic: u32::from(is_programmatic),
        is_deferred: false,
        left,
        function,
        last: work.submitted,
        since: overlap.alone(),
    });
    call.session.get::<Bursts>().open.fetch_add(1, Ordering::Relaxed);
}

/// Ends the stream's burst, if it has one, with an event recorded now. `is_undisturbed` says whether no other
/// call has overlapped since the last launch.
#[inline]
pub fn end(call: &Call, driver: &Driver, hold: &mut Hold, is_undisturbed: impl Fn(Since) -> bool) {
    if hold.last().burst.is_some()
        && let Some(burst) = close(call, driver, hold, Next::Work, is_undisturbed)
    {
        call.publish(&burst);
    }
}

/// Takes the burst off the stream without an end event, so that its end stays unknown.
fn leave_open(call: &Call, hold: &mut Hold) {
    if let Some(burst) = hold.last().burst.take() {
        call.session.get::<Bursts>().closed(&burst);
        burst.context.pool.give(burst.start);
        if burst.is_deferred {
            return call.lost(LossCause::GpuTimePending, 1);
        }
        call.publish(&burst.record(call.fresh_correlation(), ticks(), None, Untimed::Contended));
    }
}

/// Takes the burst off the stream and returns its record, with its time or the reason why there is none.
#[cold]
fn close(
    call: &Call,
    driver: &Driver,
    hold: &mut Hold,
    next: Next,
    is_undisturbed: impl Fn(Since) -> bool,
) -> Option<record::Burst> {
    let burst = hold.last().burst.take()?;
    call.session.get::<Bursts>().closed(&burst);
    let correlation = if burst.is_deferred { burst.first.correlation } else { call.fresh_correlation() };
    let ended = record_end(call, driver, hold, &burst, next, (correlation, ticks()), is_undisturbed);
    let (untimed, since) = ended.map_or_else(|why| (why, None), |since| (Untimed::Timed, since));
    if burst.is_deferred {
        if untimed != Untimed::Timed {
            call.lost(LossCause::GpuTimePending, 1);
        }
        return None;
    }
    Some(burst.record(correlation, ticks(), since, untimed))
}

/// Records a burst's end event and hands both events to the poller, or gives the start event back and returns
/// the reason. Returns the call counts after its last launch, if no other call has overlapped until the end
/// event.
fn record_end(
    call: &Call,
    driver: &Driver,
    hold: &mut Hold,
    burst: &OpenBurst,
    next: Next,
    (correlation, begun): (u64, u64),
    is_undisturbed: impl Fn(Since) -> bool,
) -> Result<Option<Since>, Untimed> {
    let (stream, context, start) = (hold.stream(), burst.context, burst.start);
    let refuse = |why, event: Option<u32>| {
        event.into_iter().chain([start]).for_each(|event| context.pool.give(event));
        Err(why)
    };
    if !next.is_wait() && stream.density(*call.session.get::<Queue>()) == Density::None {
        return refuse(Untimed::DeepQueue, None);
    }
    let Some(event) = context.take_event(call) else { return refuse(Untimed::NoEvent, None) };
    let Some(position) = event_pairs::record(call, driver, context, event, stream) else {
        return refuse(event_pairs::unrecorded(context), Some(event));
    };
    let ended = ticks();
    // A later user of the event checks what has come since then.
    if let Some(since) = burst.since {
        // The event is held before it is handed to the poller, which may give it back at once.
        context.pool.hold(event);
        let function = burst.function;
        hold.last().end = Some(End { event, function, begun, ended, position, since });
    }
    // This is checked after the record: another thread's work may have come in between. While a call that may end the context is
    // under way, other calls leave no counts.
    let since = burst.since.filter(|since| is_undisturbed(*since) && !context.is_leaving());
    let flags = if since.is_none() { flag::SHARED_INTERVAL } else { 0 };
    let (flags, tail) = match burst.is_deferred {
        true => (flags, saturated(ended.wrapping_sub(burst.first.submitted)).max(1)),
        false => (0, 0),
    };
    let pending = Pending {
        correlation,
        start,
        end: event,
        position,
        window: call.session.get::<Gate>().window(),
        launches: stream.call_counts.begun(),
        shares_start: burst.first.head.flags & flag::SHARED_START != 0,
        flags,
        tail,
        ..Pending::default()
    };
    if !hold.push(pending) {
        return refuse(Untimed::DeepQueue, Some(event));
    }
    call.session.poller.work_added();
    Ok(since)
}

/// The call that follows a burst. Before a wait, an event that itself has to wait for a place in the stream's queue costs nothing; any
/// other call must not be made to wait.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// It puts something on the stream, which waits for all that an event waits for.
    Work,
    /// It puts nothing on the stream.
    Nothing,
    /// It waits for the stream.
    Wait,
    /// It waits for all streams.
    WaitForAll,
}

impl Next {
    fn is_wait(self) -> bool {
        matches!(self, Next::Wait | Next::WaitForAll)
    }
}

/// Ends a stream's burst before a call that concerns the stream and is no launch. The burst goes on if the
/// stream cannot be named from here (its context is not current, or it is another thread's default stream) or
/// is being captured, in which case it takes no event.
pub fn end_on(call: &Call, stream: &'static Stream, next: Next) {
    if let Some((driver, current)) = with_open_bursts(call) {
        end_named(call, driver, current, stream, next, |_| true);
    }
}

/// Ends this thread's bursts before and after a wait for everything, and before a call that may end a
/// context. Another thread's burst may be in the middle of its launches, with its stream in a capture that
/// has just begun.
pub fn end_own(call: &Call, next: Next) {
    if let Some((driver, current)) = with_open_bursts(call) {
        for stream in call.session.get::<Streams>().iter().filter(|s| s.is_live()) {
            let is_own = |burst: &OpenBurst| burst.thread == call.thread_identity();
            end_named(call, driver, current, stream, next, is_own);
        }
    }
}

/// Whether there are any open bursts.
#[inline(always)]
pub fn are_open(session: Session) -> bool {
    session.get::<Bursts>().open.load(Ordering::Relaxed) != 0
}

/// Returns the driver, the current context and its handle, if there are any open bursts.
fn with_open_bursts(call: &Call) -> Option<(&'static Driver, (&'static Context, CUcontext))> {
    if !are_open(call.session) {
        return None;
    }
    let driver = driver::driver()?;
    let handle = driver.current_context();
    Some((driver, (call.session.get::<Contexts>().get(call, driver, handle)?, handle)))
}

/// Whether other streams of the context have work, as far as has been observed: those that `counts`.
fn is_beside_others(call: &Call, stream: &Stream, counts: impl Fn(&'static Stream) -> bool) -> bool {
    let context = |of: &Stream| of.context().map(core::ptr::from_ref);
    let is_other = |other: &Stream| !core::ptr::eq(other, stream) && context(other) == context(stream);
    let mut streams = call.session.get::<Streams>().iter();
    streams.any(|other| is_other(other) && other.entries.depth() != 0 && counts(other))
}

/// Whether an event on the stream would wait for work on other streams that the program's own next call does not wait for: the
/// program would wait for it, too, and for good where that work waits for the program.
fn would_wait_for_others(call: &Call, stream: &'static Stream, next: Next) -> bool {
    let counts = stream.counts();
    !matches!(next, Next::Work | Next::WaitForAll)
        && is_beside_others(call, stream, |other| counts.may_wait_for(&other.counts()))
}

fn end_named(
    call: &Call,
    driver: &Driver,
    (current, handle): (&Context, CUcontext),
    stream: &'static Stream,
    next: Next,
    may_end: impl Fn(&OpenBurst) -> bool,
) {
    if stream.context().is_none_or(|c| !core::ptr::eq(c, current)) || !stream.is_named_in(handle) {
        return;
    }
    let Some(mut hold) = stream.hold().filter(|_| stream.is_live()) else { return };
    let Some(burst) = &hold.last().burst else { return };
    let is_named = burst.thread == call.thread_identity() || stream.flags() & flag::PER_THREAD_STREAM == 0;
    if is_named && may_end(burst) && !is_captured(call, stream.handle()) {
        let is_undisturbed = burst.since.is_some_and(|since| since.is_now(stream.counts()));
        // A deferred end stays open until the app's next call on the stream.
        if burst.is_deferred && next.is_wait() && is_beside_others(call, stream, |_| true) {
            return;
        }
        if !is_undisturbed && (is_legacy(stream) || would_wait_for_others(call, stream, next)) {
            return leave_open(call, &mut hold);
        }
        // The event goes onto the stream like a call of the app's.
        let overlap = OverlapCheck::begin(stream.counts());
        if let Some(burst) = close(call, driver, &mut hold, next, |since| overlap.follows(since)) {
            call.publish(&burst);
        }
        // The next call can follow this event.
        let since = overlap.alone().filter(|_| is_undisturbed);
        if let (Some(end), Some(since)) = (&mut hold.last().end, since) {
            end.since = since;
        }
    }
}
