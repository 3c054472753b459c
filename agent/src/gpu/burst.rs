//! Which launches are timed together, from an event before the first to one after the last?
//!
//! **Bursts.** A kernel launched with PROGRAMMATIC_STREAM_SERIALIZATION may start before the kernel ahead of
//! it in its stream has ended; an event between the two would make it wait (cuda.h). A launch that signals an
//! event in its middle (PROGRAMMATIC_EVENT, LAUNCH_COMPLETION_EVENT) serves the same purpose. So no event is
//! recorded inside a sequence of programmatic launches.
//!
//! **Runs.** On a deep stream events are sparse ([`depth`](super::depth)): the launches between two that are
//! timed alone ([`draw`](super::draw)) are timed together as a run. One sequence can contain a program's
//! launches of both kinds.
//!
//! The launches are recorded as parts of the whole ([`flag::BURST`]), and one [`record::Burst`] describes the
//! whole. Everything that was launched before the GPU reached the last launch kept the GPU busy without a
//! gap; `last` says from when on that is certain.
//!
//! **Deferred ends.** A communication kernel may run until its peers on other GPUs do. Where streams share a
//! hardware queue, an event right after it could hold up what those peers wait for. So it gets its end event
//! as a burst does: when something else goes onto its stream, which would wait for it as well. It is no
//! burst, though: its own record says that its time will come, and the time says when the end event was
//! recorded ([`record::GpuTime::tail`]).
//!
//! The end event is recorded, before the real call, when something else comes: the next launch that is timed
//! alone (whose start event it becomes), an ordinary operation, an event record or a wait by the app, a
//! stream capture, or a synchronization.
//!
//! On the legacy default stream an event waits for all blocking streams, and they wait for it. An event
//! recorded later than the launches would order what the program did not order. There an end event is
//! recorded only right before another launch on that stream, which waits as well, or while nothing was
//! enqueued on a blocking stream since.
//!
//! The difficult launches are the first of a programmatic sequence, which is an ordinary launch, and the
//! last: every other launch gets an event right after it and these must not, but at that time nobody knows
//! what follows. So the agent learns it for each kernel: a kernel that a programmatic launch has ever
//! followed gets no event after it any more. Each kernel can cut one sequence, once, or one on each stream
//! where several threads find it out at the same time.

use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};
use gpuspy_wire::record::{self, Head, LossCause, Untimed, flag};

use crate::calls::is_captured;
use crate::driver::{self, Driver};
use crate::gpu::context::Context;
use crate::gpu::depth::Density;
use crate::gpu::draw::{self, Choice};
use crate::gpu::event_pairs::{self, Pair, Start, saturated};
use crate::gpu::overlap::{OverlapCheck, Since};
use crate::gpu::stream::{End, Hold, Pending, Stream};
use crate::keyed::Keyed;
use crate::sys::ticks;
use crate::thread::Call;

/// The number of kernels for which the agent knows what follows them.
const KERNELS: usize = 4096;

/// The largest number of launches in a burst. Otherwise a program that launches only programmatically would
/// never get a time. The cost is that one launch in 256 waits for the launch ahead of it.
const LONGEST: u32 = 256;

/// What a session knows about bursts. Valid when zero.
pub struct Shared {
    /// Whether a programmatic launch was observed. Before that, none of this costs anything. Relaxed: a
    /// thread that sees it late cuts one sequence.
    programmatic_seen: AtomicBool,
    /// The number of bursts without an end event. Relaxed: a thread that waits for a stream has seen its own
    /// launches, and those of other threads that it knows of.
    open: AtomicU32,
    /// By CUfunction or CUkernel: [`UNKNOWN`], [`FOLLOWED`] or [`ALONE`]. Relaxed: one word, and only a
    /// prediction.
    kernels: Keyed<AtomicU8, KERNELS>,
    /// By CUfunction or CUkernel: 1 = it has been launched on a deep stream. Relaxed: a thread that sees it
    /// late times one launch more.
    deep: Keyed<AtomicU8, KERNELS>,
}

/// Nothing is known about the kernel.
const UNKNOWN: u8 = 0;
/// A programmatic launch has followed the kernel. The state is final, so that the kernel cuts no second
/// sequence.
const FOLLOWED: u8 = 1;
/// Something else followed the kernel each time that was observed.
const ALONE: u8 = 2;

/// A burst without an end event.
pub struct OpenBurst {
    context: &'static Context,
    /// The thread that made its last launch.
    thread: u64,
    /// The start event; the burst holds it.
    pub start: u32,
    lead: u32,
    /// The record of its first launch.
    first: record::Work,
    launches: u32,
    /// The number of its launches that may overlap the launch ahead of them, or that signal in their middle.
    programmatic: u32,
    /// Whether it is a single launch that has a record of its own and only lacks its end event.
    pub is_deferred: bool,
    /// The number of launches that a run still takes.
    pub left: u32,
    /// The last kernel launched; 0 = a graph.
    function: u64,
    /// Ticks when its launch returned.
    pub last: u64,
    /// The call counts after the last launch; `None` when another call may overlap the burst.
    since: Option<Since>,
}

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
    /// The reason in its record why it has no time of its own.
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

impl OpenBurst {
    /// Whether it consists of several launches, none of them programmatic.
    pub fn is_run(&self) -> bool {
        self.programmatic == 0 && !self.is_deferred
    }

    /// Builds its record; the end event was recorded by `ended` (ticks).
    fn record(&self, correlation: u64, ended: u64, since: Option<Since>, untimed: Untimed) -> record::Burst {
        let first = self.first;
        let kept = first.head.flags & (flag::SHARED_START | flag::LEGACY_STREAM | flag::PER_THREAD_STREAM);
        let disturbed = if since.is_none() { flag::SHARED_INTERVAL } else { 0 };
        record::Burst {
            work: record::Work {
                head: Head { flags: kept | disturbed | flag::MORE, ..Head::new::<record::Burst>() },
                correlation,
                end: ended,
                lead: self.lead,
                tail: saturated(ended.wrapping_sub(first.submitted)),
                untimed: untimed as u8,
                ..first
            },
            launches: self.launches,
            programmatic: self.programmatic,
            last: self.last,
            reserved: [0; 5],
        }
    }
}

impl Shared {
    fn kernel(&self, function: u64) -> Option<&AtomicU8> {
        self.kernels.get(function)
    }

    /// Takes note that a programmatic launch follows this kernel.
    fn set_followed(&self, function: u64) {
        if let Some(kernel) = self.kernel(function) {
            kernel.store(FOLLOWED, Ordering::Relaxed);
        }
    }

    /// Takes note that something else follows this kernel.
    fn set_alone(&self, function: u64) {
        if let Some(kernel) = self.kernel(function) {
            let _ = kernel.compare_exchange(UNKNOWN, ALONE, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Takes note that a stream has ended with an open burst.
    pub fn abandoned(&self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether this is a kernel's first launch on a deep stream.
    pub fn is_first_when_deep(&self, function: u64) -> bool {
        let Some(kernel) = self.deep.get(function) else { return false };
        kernel.load(Ordering::Relaxed) == 0 && kernel.swap(1, Ordering::Relaxed) == 0
    }

    fn known(&self, function: u64) -> u8 {
        self.kernel(function).map_or(UNKNOWN, |kernel| kernel.load(Ordering::Relaxed))
    }
}

/// Whether this is the legacy default stream, where an event orders work on other streams.
fn is_legacy(stream: &Stream) -> bool {
    stream.flags() & flag::LEGACY_STREAM != 0
}

/// Whether an ordinary launch of this kernel may be the first of a programmatic sequence.
#[inline]
pub fn may_start_sequence(call: &Call, function: u64) -> bool {
    let bursts = &call.session.bursts;
    function != 0 && bursts.programmatic_seen.load(Ordering::Relaxed) && bursts.known(function) == FOLLOWED
}

/// Before the real call of a programmatic launch: joins it to the newest launches on the stream, if those are
/// timed, or starts a burst where that cuts no sequence. `None`: the launch is only counted.
pub fn join(call: &Call, driver: &Driver, stream: &'static Stream, overlap: &OverlapCheck) -> Option<Member> {
    call.session.bursts.programmatic_seen.store(true, Ordering::Relaxed);
    let context = stream.context()?;
    let mut hold = stream.hold()?;
    let may_record = stream.entries.density(call.session.queue) != Density::None;
    if may_record && hold.last().burst.as_ref().is_some_and(|burst| burst.launches >= LONGEST) {
        end(call, driver, &mut hold, |since| overlap.follows(since));
    }
    if let Some(burst) = hold.last().burst.as_ref().filter(|burst| burst.is_deferred) {
        // The end event of a deferred launch would cut the sequence here.
        call.session.bursts.set_followed(burst.function);
        leave_open(call, &mut hold);
    }
    if let Some(burst) = &mut hold.last().burst {
        call.session.bursts.set_followed(burst.function);
        burst.since = burst.since.filter(|since| overlap.follows(*since));
        return Some(Member { hold, start: None, left: 0, is_programmatic: true });
    }
    call.session.timing.admit().ok()?;
    let start = match hold.last().end.take() {
        // This start event cuts the sequence, but it is recorded already.
        Some(end) if overlap.follows(end.since) => {
            call.session.bursts.set_followed(end.function);
            Start { event: end.event, shared: true, begun: end.begun }
        }
        stale => {
            stale.into_iter().for_each(|end| context.pool.give(end.event));
            may_cut(&mut hold).then(|| event_pairs::recorded(call, driver, context, stream).ok())??
        }
    };
    hold.last().skipped_programmatic = 0;
    Some(Member { hold, start: Some((context, start)), left: 0, is_programmatic: true })
}

/// Whether an event may be recorded before a programmatic launch: either nothing is left on the stream that
/// the launch could overlap, or [`LONGEST`] launches have gone without a time, so that one may wait.
fn may_cut(hold: &mut Hold) -> bool {
    if hold.stream().entries.depth() == 0 {
        return true;
    }
    let last = hold.last();
    last.skipped_programmatic += 1;
    last.skipped_programmatic >= LONGEST
}

/// How a kernel's launch on a deep stream is timed.
pub enum Joined {
    /// It is part of a run.
    Member(Member),
    /// It is timed alone. `by_chance`: it represents its kernel's launches in runs.
    Alone { hold: Hold, by_chance: bool },
}

/// Before the real call of a kernel's launch, where events may be no denser than `density`: joins it to the
/// open run, starts a run, or has it timed alone.
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
    match draw::choose(session, &mut hold, density, function, call.begin) {
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
    if is_sampled && !draw::is_really_deep(session, driver, stream, context, &last.draw) {
        return Ok(Joined::Alone { hold, by_chance: false });
    }
    let follows = last.end.take_if(|end| overlap.follows(end.since));
    let Some(End { event, begun, position, .. }) = follows else {
        return if is_sampled {
            Ok(Joined::Alone { hold, by_chance: false })
        } else {
            Err(Untimed::DeepQueue)
        };
    };
    last.draw.run_started(context, event, position);
    let left = last.draw.length(density);
    let start = Start { event, shared: true, begun };
    Ok(Joined::Member(Member { hold, start: Some((context, start)), left, is_programmatic: false }))
}

/// After the real call of a launch that was to join, which returned at `work.submitted`: completes the
/// joining. Returns false if the launch failed. If it is the last one, the burst's record is left with the
/// call, to be published after the launch's record. `waits_for_others`: no event may follow right after it.
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
    if member.is_programmatic && call.session.bursts.known(function) == ALONE && !waits_for_others {
        let burst = close(call, driver, hold, Next::Call, |since| overlap.alone() == Some(since));
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

/// Starts a deferred end: no event may follow the operation before something else comes. Fills in what is
/// known of the operation's record by now; returns its flags.
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
#[expect(clippy::too_many_arguments, reason = "each is another thing, and only three callers know them")]
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
    call.session.bursts.open.fetch_add(1, Ordering::Relaxed);
}

/// Ends the stream's burst, if it has one, with an event recorded now. `is_undisturbed` says whether no other
/// call has overlapped since the last launch.
#[inline]
pub fn end(call: &Call, driver: &Driver, hold: &mut Hold, is_undisturbed: impl Fn(Since) -> bool) {
    if hold.last().burst.is_some()
        && let Some(burst) = close(call, driver, hold, Next::Call, is_undisturbed)
    {
        call.publish(&burst);
    }
}

/// Takes the burst off the stream without an end event, so that its end stays unknown.
fn leave_open(call: &Call, hold: &mut Hold) {
    if let Some(burst) = hold.last().burst.take() {
        call.session.bursts.abandoned();
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
    let bursts = &call.session.bursts;
    bursts.open.fetch_sub(1, Ordering::Relaxed);
    if burst.programmatic != 0 {
        bursts.set_alone(burst.function);
    }
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
    if next == Next::Call && stream.entries.density(call.session.queue) == Density::None {
        return refuse(Untimed::DeepQueue, None);
    }
    let Some(event) = call.take_event(context) else { return refuse(Untimed::NoEvent, None) };
    let Some(position) = event_pairs::record(call, driver, context, event, stream) else {
        return refuse(Untimed::EventFailed, Some(event));
    };
    let ended = ticks();
    // A later user of the event checks what has come since then.
    if let Some(since) = burst.since {
        // Held before it is handed to the poller, which may give it back at once.
        context.pool.hold(event);
        let function = burst.function;
        hold.last().end = Some(End { event, function, begun, ended, position, since });
    }
    // Checked after the record: another thread's work may have come in between.
    let since = burst.since.filter(|since| is_undisturbed(*since));
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
        window: call.session.timing.window(),
        launches: stream.call_counts.begun(),
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

/// The call that follows a burst.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// A call that must not be made to wait.
    Call,
    /// A wait for the burst's stream: an event that has to wait for a place in the stream's queue costs
    /// nothing then.
    Wait,
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
        for stream in call.session.streams.iter().filter(|s| s.is_live()) {
            let is_own = |burst: &OpenBurst| burst.thread == call.thread_identity();
            end_named(call, driver, current, stream, next, is_own);
        }
    }
}

/// Returns the driver and the current context, if there are any open bursts.
fn with_open_bursts(call: &Call) -> Option<(&'static Driver, &'static Context)> {
    if call.session.bursts.open.load(Ordering::Relaxed) == 0 {
        return None;
    }
    let driver = driver::driver()?;
    Some((driver, call.session.contexts.get(call, driver, driver.current_context())?))
}

/// Whether other streams of the context have work, as far as has been observed.
fn is_beside_others(call: &Call, stream: &Stream) -> bool {
    let context = |of: &Stream| of.context().map(core::ptr::from_ref);
    let is_other = |other: &&Stream| !core::ptr::eq(*other, stream) && context(other) == context(stream);
    call.session.streams.iter().filter(is_other).any(|other| other.entries.depth() != 0)
}

fn end_named(
    call: &Call,
    driver: &Driver,
    current: &Context,
    stream: &'static Stream,
    next: Next,
    may_end: impl Fn(&OpenBurst) -> bool,
) {
    if stream.context().is_none_or(|c| !core::ptr::eq(c, current)) {
        return;
    }
    let Some(mut hold) = stream.hold().filter(|_| stream.is_live()) else { return };
    let Some(burst) = &hold.last().burst else { return };
    let is_named = burst.thread == call.thread_identity() || stream.flags() & flag::PER_THREAD_STREAM == 0;
    if is_named && may_end(burst) && !is_captured(call, stream.handle()) {
        let is_undisturbed = burst.since.is_some_and(|since| since.is_now(stream));
        // A deferred end stays open until the app's next call on the stream.
        if burst.is_deferred && next == Next::Wait && is_beside_others(call, stream) {
            return;
        }
        if is_legacy(stream) && !is_undisturbed {
            return leave_open(call, &mut hold);
        }
        // The event goes onto the stream like a call of the app's.
        let overlap = OverlapCheck::begin(stream);
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
