//! How do a thread's records get out? Its slot, the ring in it, and what is counted there.

use core::mem::offset_of;
use core::sync::atomic::{AtomicU64, Ordering};
use gpuspy_wire::in_progress;
use gpuspy_wire::record::{Api, CELL_WORDS, Head, Launch, Loss, LossCause, Record, flag};
use gpuspy_wire::ring::{LEVELS, Prepared};
use gpuspy_wire::segment::Counters;

use crate::cuda::CUDA_SUCCESS;
use crate::sink::Session;
use crate::sink::segment::Claim;
use crate::sys::{self, ticks};
use crate::thread::END_WORD;

/// How many calls a thread without a slot makes between two tries to get one: a try costs as much as a hundred calls.
const CALLS_TO_RETRY: u32 = 255;

/// The lower bits of a correlation, which count a thread's calls; the claim's number is above them.
const COUNT_BITS: u32 = 40;
const COUNT: u64 = (1 << COUNT_BITS) - 1;

/// A launch's record that is stored and not published.
pub type PreparedLaunch = Prepared<'static, AtomicU64, { LAUNCH_WORDS / CELL_WORDS }>;

/// Its length, and which words of it say which call it is of and when the real call had returned.
pub const LAUNCH_WORDS: usize = size_of::<Launch>() / 8;
pub const CORRELATION_WORD: usize = offset_of!(Launch, work.correlation) / 8;
pub const SUBMITTED_WORD: usize = offset_of!(Launch, work.submitted) / 8;

/// The counters of threads without a slot. What is counted there is not read.
static NOWHERE: Counters = Counters::zero();

/// No queries.
const NO_QUERIES: Api = Api {
    head: Head { kind: 0, cells: 0, version: 0, via: 0, api: 0, flags: 0 },
    correlation: 0,
    begin: 0,
    end: 0,
    caller: 0,
    context: 0,
    result: 0,
    subject: 0,
    more: 0,
    inside: 0,
};

/// A thread's way out.
pub struct Out {
    /// The session that the rest belongs to. If it is another than the process's, this is a forked child.
    pub session: Option<Session>,
    claim: Option<Claim>,
    /// The slot's counters; those of no slot where there is none.
    counters: &'static Counters,
    /// Without a claim: how many calls pass before the next try, which checks every slot.
    calls_to_retry: u32,
    /// The last correlation that was given out: the claim's number in the upper 24 bits, and a count.
    correlation: u64,
    /// Queries in a row that are not recorded yet; there are none where `api` is 0.
    queries: Api,
    /// How many records were dropped since the last one that fitted.
    dropped: u64,
}

impl Out {
    /// No way out yet.
    pub const NONE: Out = Out {
        session: None,
        claim: None,
        counters: &NOWHERE,
        calls_to_retry: 0,
        correlation: 0,
        queries: NO_QUERIES,
        dropped: 0,
    };

    /// Whether it has a slot in this session.
    #[inline(always)]
    pub fn leads_to(&self, session: Session) -> bool {
        self.session == Some(session) && self.claim.is_some()
    }

    /// Whether it is time to try for a slot. Counts the call that is lost if not.
    pub fn may_claim(&mut self, session: Session) -> bool {
        if self.session != Some(session) || self.calls_to_retry == 0 {
            return true;
        }
        self.calls_to_retry -= 1;
        session.lost(LossCause::NoSlot, 1);
        false
    }

    /// Claims a slot for the thread whose state is at this address. Everything from before belongs to a parent, or is
    /// nothing. Returns false if there is no slot.
    pub fn claim(&mut self, session: Session, state: *mut core::ffi::c_void) -> bool {
        *self = Out { session: Some(session), claim: session.claim(state), ..Out::NONE };
        match &self.claim {
            Some(claim) => {
                self.counters = &claim.slot.counters.0;
                self.correlation = claim.number << COUNT_BITS;
                true
            }
            None => {
                self.calls_to_retry = CALLS_TO_RETRY;
                session.lost(LossCause::NoSlot, 1);
                false
            }
        }
    }

    /// Gives the slot to the collector, to drain and free.
    pub fn close(&mut self) {
        if let Some(claim) = self.claim.take() {
            self.counters = &NOWHERE;
            claim.slot.state.close(claim.generation);
        }
    }

    /// Returns a correlation that no other call of the process has.
    #[inline(always)]
    pub fn next_correlation(&mut self) -> u64 {
        let count = self.correlation + 1;
        // A thread that has made 2^40 calls begins to count anew.
        self.correlation = if count & COUNT == 0 { count - (COUNT + 1) } else { count };
        self.correlation
    }

    /// Takes back the correlation that was given out last, of a call that has done nothing with it.
    pub fn give_back_correlation(&mut self) {
        let count = self.correlation & COUNT;
        self.correlation = self.correlation - count + (count.wrapping_sub(1) & COUNT);
    }

    /// Whether there is a way out, and nothing has to go out before the next record.
    #[inline(always)]
    pub fn is_clear(&self) -> bool {
        self.claim.is_some() && self.queries.head.api == 0 && self.dropped == 0
    }

    /// Stores a launch's record without publishing it. `None` if it is not certain that there is room, or if the way is not
    /// [clear](Self::is_clear).
    #[inline(always)]
    pub fn prepare(&mut self, launch: Launch) -> Option<PreparedLaunch> {
        let is_clear = self.is_clear();
        self.claim.as_mut().filter(|_| is_clear)?.writer.prepare(launch.to_cells())
    }

    /// Whether the record that was prepared is still there, and still nothing has to go out before it.
    #[inline(always)]
    pub fn has(&self, prepared: &PreparedLaunch) -> bool {
        self.is_clear() && self.claim.as_ref().is_some_and(|claim| claim.writer.has(prepared))
    }

    /// Publishes it, if it [is still there](Self::has). `end`: when the real call returned.
    #[inline(always)]
    pub fn publish(&mut self, prepared: PreparedLaunch, end: u64) {
        let Some(claim) = &mut self.claim else { return };
        prepared.set::<END_WORD>(end);
        prepared.set::<SUBMITTED_WORD>(end);
        if claim.writer.publish(prepared) {
            grow(claim, self.session);
        }
        self.add(&self.counters.records, 1);
    }

    /// Publishes a record, after the queries that were made before it, or counts it as dropped. Returns whether it went
    /// out.
    pub fn push(&mut self, words: &[u64]) -> bool {
        self.push_here(words)
    }

    /// Does the same as a part of the caller, for the records that a program makes most.
    #[inline(always)]
    pub fn push_here(&mut self, words: &[u64]) -> bool {
        if self.queries.head.api != 0 || self.dropped != 0 {
            self.push_what_is_before();
        }
        let Some(claim) = &mut self.claim else { return false };
        let pushed = claim.writer.push(words).is_ok();
        if claim.writer.is_half_full() {
            grow(claim, self.session);
        }
        if !pushed && !self.push_into_next(words) {
            return false;
        }
        self.add(&self.counters.records, 1);
        true
    }

    /// Publishes a record for which the ring has no room, in the next buffer, or counts it as dropped.
    #[cold]
    fn push_into_next(&mut self, words: &[u64]) -> bool {
        let Some(claim) = &mut self.claim else { return false };
        // It may be in the next buffer already, if that was ready.
        let pushed = claim.writer.push(words).is_ok()
            || (grow_at_once(claim, self.session) && claim.writer.push(words).is_ok());
        if !pushed {
            self.dropped += 1;
            self.count_lost(LossCause::RingFull, 1);
        }
        pushed
    }

    /// Publishes what comes before the next record: queries that share one, and a loss, where it ended.
    #[cold]
    fn push_what_is_before(&mut self) {
        self.push_queries();
        let Some(claim) = &mut self.claim else { return };
        if self.dropped != 0 {
            let mut loss =
                Loss { head: Head::new::<Loss>(), at: ticks(), count: self.dropped, ..Loss::default() };
            loss.cause = LossCause::RingFull as u8;
            if claim.writer.push(loss.as_words()).is_ok() {
                self.dropped = 0;
            }
        }
    }

    /// Adds a query to those that share a record, if it is like them: of the same call at the same place, a tenth of a
    /// second after the first one at most, and not after a loop that waited until the work was done. Otherwise it begins another
    /// record. (One that finds work unfinished again begins none by itself: programs ask for many streams by turns.)
    /// `query.inside`: the ticks that it took.
    pub fn add_query(&mut self, query: Api) {
        let queries = &mut self.queries;
        let is_over = queries.head.flags & flag::UNTIL_DONE != 0 && queries.result == CUDA_SUCCESS;
        let is_like = queries.head.api == query.head.api
            && queries.caller == query.caller
            && query.end.wrapping_sub(queries.begin) < sys::tenth_of_a_second();
        if !is_like || is_over {
            self.push_queries();
            self.queries = query;
            if query.result != CUDA_SUCCESS {
                self.queries.head.flags |= flag::UNTIL_DONE;
            }
            return;
        }
        queries.end = query.end;
        queries.result = query.result;
        queries.more += 1;
        queries.inside = queries.inside.saturating_add(query.inside);
        if queries.subject != query.subject {
            queries.subject = 0;
        }
        // Queries about several contexts belong to none.
        if queries.context != query.context {
            queries.context = 0;
        }
    }

    /// Publishes the record of the queries in a row, if there are any.
    pub fn push_queries(&mut self) {
        if self.queries.head.api != 0 {
            let mut queries = core::mem::replace(&mut self.queries, NO_QUERIES);
            // For a single query, the time inside is its end minus its begin.
            queries.inside = if queries.more == 0 { 0 } else { queries.inside };
            self.push(queries.as_words());
        }
    }

    /// The counters of the slot, if there is one.
    pub fn counters(&self) -> Option<&'static Counters> {
        self.claim.as_ref().map(|_| self.counters)
    }

    /// Counts ticks that were measured as our own code's.
    #[inline(always)]
    pub fn count_own(&self, measured: u64) {
        self.add(&self.counters.agent_ticks, own(measured));
    }

    /// Tells the collector which outermost call the thread is in: if it never returns, this is all that there is of it.
    #[inline(always)]
    pub fn enter_call(&self, call: in_progress::Call) {
        self.counters.in_progress.enter(call);
    }

    /// Tells the collector that the thread is in no call any more.
    #[inline(always)]
    pub fn leave_call(&self) {
        self.counters.in_progress.leave();
    }

    /// Counts a call that was entered.
    #[inline(always)]
    pub fn count_call(&self) {
        self.add(&self.counters.calls, 1);
    }

    /// Counts losses.
    pub fn count_lost(&self, cause: LossCause, count: u64) {
        if let Some(counter) = self.counters.lost.get(cause as usize) {
            self.add(counter, count);
        }
    }

    /// Adds to one of the slot's counters.
    #[inline(always)]
    fn add(&self, counter: &AtomicU64, count: u64) {
        // Relaxed load and store: this thread is the only writer, and without a slot nobody reads it.
        counter.store(counter.load(Ordering::Relaxed).wrapping_add(count), Ordering::Relaxed);
    }
}

/// Returns how many of the ticks that were measured as our own code's in a call count as such: about 10 ms at most, because a
/// thread that is stopped in a hook (SIGSTOP, a frozen container) does nothing meanwhile, and none where the clock has gone back.
#[inline(always)]
fn own(measured: u64) -> u64 {
    ((measured as i64).max(0) as u64).min(sys::tenth_of_a_second() / 10)
}

/// Moves a half-full ring to its next buffer, or requests one.
#[cold]
fn grow(claim: &mut Claim, session: Option<Session>) {
    let next = claim.writer.level() + 1;
    let Some(session) = session else { return };
    if next >= LEVELS {
        return;
    }
    let errno = sys::Errno::save();
    match session.ready_buffer(claim.index, next) {
        Some(buffer) => {
            claim.writer.grow(buffer);
        }
        None => session.want_buffer(claim.index, next),
    }
    errno.restore();
}

/// Moves a full ring to its next buffer, because the poller was late (it may be starting the collector). This takes two
/// system calls, at most twice in a thread's life, which is better than a loss. Returns false when there is no next
/// buffer, or nobody to read it.
#[cold]
fn grow_at_once(claim: &mut Claim, session: Option<Session>) -> bool {
    let next = claim.writer.level() + 1;
    let Some(session) = session.filter(|session| !session.is_detached()) else { return false };
    let errno = sys::Errno::save();
    let buffer = session.segment.buffer_at_once(claim.index, next);
    errno.restore();
    buffer.is_some_and(|buffer| claim.writer.grow(buffer))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cuda::CUDA_ERROR_NOT_READY;
    use crate::sink::{Live, wiped};
    use core::ptr::NonNull;
    use core::sync::atomic::AtomicU32;

    /// Makes the front of a session.
    fn session() -> Session {
        let memory = wiped::map(size_of::<Live>()).unwrap().memory.cast::<Live>();
        // SAFETY: zeroed, and every field is valid when zero; page-aligned; ours alone.
        let live = unsafe { &mut *memory };
        live.segment.create(false).unwrap();
        let mut key: libc::pthread_key_t = 0;
        // SAFETY: writes our own variable.
        assert_eq!(unsafe { libc::pthread_key_create(&mut key, None) }, 0);
        live.key = AtomicU32::new(key);
        // SAFETY: mapped for good; no part behind the front is used.
        unsafe { Session::new(NonNull::from(live)) }
    }

    /// What a program did behind a loop that waits, and between later queries, counted as waiting.
    #[test]
    fn a_loop_of_queries_ends_with_the_first_that_succeeds() {
        sys::host_clock(); // how long a tenth of a second is, is known from here on
        // The queries of each record, and whether they are a loop.
        let records = |results: &[i32]| {
            let (mut out, mut records) = (Out::NONE, Vec::new());
            let mut last = None;
            for (at, &result) in results.iter().enumerate() {
                let head = Head { api: 1, ..Head::default() };
                out.add_query(Api { head, result, end: at as u64, ..NO_QUERIES });
                if out.queries.more == 0 {
                    records.extend(last);
                }
                last = Some((out.queries.more + 1, out.queries.head.flags & flag::UNTIL_DONE != 0));
            }
            records.extend(last);
            records
        };
        let (n, s) = (CUDA_ERROR_NOT_READY, CUDA_SUCCESS);
        assert_eq!(records(&[n, n, n, s]), [(4, true)]);
        assert_eq!(records(&[n, s, s, s, n]), [(2, true), (3, false)]);
        assert_eq!(records(&[s, s, s]), [(3, false)]);
        assert_eq!(records(&[n, n]), [(2, true)]);
        assert_eq!(records(&[s, n, s, n, s, n, n, s]), [(8, false)], "of many streams, by turns");
    }

    /// A stop of minutes counted as the agent's cost, and a step back as half of all ticks that there are.
    #[test]
    fn a_stop_in_a_hook_and_a_clock_that_goes_back_are_not_our_own_time() {
        sys::host_clock(); // which clock ticks are of is decided from here on
        let tenth = sys::tenth_of_a_second();
        assert_eq!([0, 500, tenth / 20].map(own), [0, 500, tenth / 20]);
        assert_eq!([tenth, 600 * tenth].map(own), [tenth / 10; 2]);
        assert_eq!([5u64.wrapping_sub(7), 0u64.wrapping_sub(tenth)].map(own), [0, 0]);
    }

    /// The record went into the buffer after the one that was ready, or was dropped where there is none.
    #[test]
    #[cfg_attr(miri, ignore = "Miri has no memfd_create(2)")]
    fn a_full_rings_record_goes_into_the_buffer_that_is_ready() {
        let session = session();
        let mut out = Out::NONE;
        assert!(out.claim(session, core::ptr::null_mut()));
        let record = [0u64; CELL_WORDS];
        for cells in session.segment.header().level_cells {
            // When a ring is full, the poller makes its next buffer ready.
            session.serve_growth();
            assert!((0..cells).all(|_| out.push(&record)), "{cells} cells");
        }
        assert!(!out.push(&record), "all of them are full");
    }

    /// 4.6 MB for each thread, which stayed the process's for ever.
    #[test]
    #[cfg_attr(miri, ignore = "Miri has no memfd_create(2)")]
    fn a_ring_does_not_grow_while_nobody_reads_it() {
        let session = session();
        let mut out = Out::NONE;
        assert!(out.claim(session, core::ptr::null_mut()));
        let record = [0u64; CELL_WORDS];
        let header = session.segment.header();
        let [first, second, _] = header.level_cells;
        header.live.0.attached.store(2, Ordering::Relaxed);
        session.serve_growth();
        assert!((0..first).all(|_| out.push(&record)));
        session.serve_growth();
        assert!(!out.push(&record) && !out.push(&record));
        // Another collector has come.
        header.live.0.attached.store(3, Ordering::Relaxed);
        assert!((0..second - 1).all(|_| out.push(&record)), "and one for what was lost");
    }
}
