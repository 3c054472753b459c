//! How is one process collected, from its first record to its trace's last chunk? One thread empties its rings, and another
//! [writes](super::recorder).

use super::drain::{Drain, Gone, Pace, Round};
use super::hangs::{HangWatch, Polled};
use super::host_ticks::Pair;
use super::memory::{PAGES_READ, Share};
use super::output;
use super::progress::{Figures, Progress};
use super::receive::Peer;
use super::recorder::{Drained, Place, Recorder};
use super::status::{End, is_exiting, shown_pid};
use super::sys::{self, Stopped};
use super::windows::Incomplete;
use super::{Error, Result};
use crate::trace::record::{Ending, Exit};
use crossbeam_channel::Sender;
use gpuspy_wire::record::CELL_WORDS;
use gpuspy_wire::segment::Segment;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// Limit on the batches between the draining and the writing thread: 16 MiB.
const QUEUE: usize = 256;
/// The size of a page, bytes; that of other machines is larger by less than the margin.
const PAGE: usize = 4096;
/// How long after its connection a process may end of which the system does not say whether it is dying.
const DYING: Duration = Duration::from_millis(200);
/// How long after its connection a process may end that the system is taking apart: a GPU's memory and contexts are given back
/// when its device files are closed, which can take seconds.
const TAKEN_APART: Duration = Duration::from_secs(30);

/// A session that has ended.
#[derive(Clone, Debug)]
pub struct Session {
    /// The process.
    pub pid: u32,
    /// Its name for display.
    pub program: String,
    /// Its trace's number among the [`Traces`](super::output::Traces).
    pub trace: usize,
    /// How it ended.
    pub ending: Ending,
    /// How it exited, if the system reported it.
    pub exit: Option<Exit>,
    /// The number of records of kinds that this version does not know, which were skipped.
    pub unknown: u64,
    /// What its traces lack because it could not be written.
    pub incomplete: Option<Incomplete>,
    /// Why a window of time has no trace of its own: then that of the window before has its time, too.
    pub undivided: Option<String>,
}

impl Session {
    /// Collects from a process until it ends or `stopped` fires.
    pub(crate) fn run(
        peer: &Peer,
        stopped: &Stopped,
        place: Place<'_>,
        first: &Pair,
        progress: &Progress,
        hangs: HangWatch,
        share: &Share<'_>,
    ) -> Result<Session> {
        // Of the two threads here, this one writes.
        sys::survive_size_limit();
        let segment = peer.mapping.segment();
        let segment = segment.map_err(|e| Error::new(e.to_string()).about(peer.process.pid))?;
        let pid = shown_pid(&peer.process, segment);
        // A copy: the other process can still write there.
        let program = output::in_file_names(segment.header().program);
        let (sender, receiver) = crossbeam_channel::bounded(QUEUE);
        let recorded = std::thread::scope(|threads| {
            let draining = std::thread::Builder::new()
                .spawn_scoped(threads, || drain(peer, segment, stopped, sender, share))
                .map_err(|e| Error::no_thread("it", &e).about(pid))?;
            // This owns the receiver: if there is no recorder, the drain notices that it is gone.
            let recorder =
                Recorder::new(segment, peer, first, place, &program, hangs, share).map(|mut recorder| {
                    place.starting.over();
                    peer.tell_begun();
                    recorder.record(&receiver, progress);
                    recorder
                });
            drop(receiver);
            let end = draining.join().map_err(|_| Error::new("its drain failed").about(pid))?;
            recorder.map(|recorder| (recorder, end))
        });
        peer.detach();
        let (recorder, End { ending, exit }) = recorded?;
        let (trace, unknown, undivided) =
            (recorder.recording.number(), recorder.unknown, recorder.recording.undivided());
        let known = recorder.recording.missing();
        let incomplete = recorder.finish(End { ending, exit });
        let lost = |lost| Figures { lost, ..Figures::default() };
        progress.add(lost(known), lost(incomplete.as_ref().map_or(known, |incomplete| incomplete.records)));
        Ok(Session { pid, program, trace, ending, exit, unknown, incomplete, undivided })
    }
}

/// The draining thread: empties the rings until the process has ended or the collector is stopped, and returns how it
/// ended.
fn drain(
    peer: &Peer,
    segment: Segment<'_>,
    stopped: &Stopped,
    sender: Sender<Drained>,
    share: &Share<'_>,
) -> End {
    let mut drain = Drain::new(segment);
    let send = |drained| sender.send(drained).map_err(|_| Gone);
    let mut read = 0;
    let mut round = || {
        let polled = Polled::read(segment);
        let found = drain.round(|batch| {
            // A batch touches the pages of its words, at most one more on each side, and that of its slot.
            read += batch.bytes() + 3 * PAGE;
            while share.all().is_queue_full() && !share.is_queue_empty() {
                std::thread::sleep(Duration::from_millis(1));
            }
            share.queue(batch.bytes());
            send(Drained::Batch(batch))
        })?;
        // Whatever a peer claims to have written, no more of its segment than this is in our memory.
        if read >= PAGES_READ {
            read = 0;
            peer.mapping.release();
        }
        if found.more { Ok(found) } else { send(Drained::Emptied(polled)).map(|()| found) }
    };
    // Bounded by what a ring can contain; otherwise a process that keeps running could keep us here for ever.
    let words = segment.layout().level_cells.iter().sum::<u64>() as usize * CELL_WORDS;
    let most_rounds = words.div_ceil(super::drain::BATCH_WORDS) + 1;
    let mut pace = Pace::new();
    let mut is_leaving = false;
    let is_stopped = loop {
        let Ok(found) = round() else { return End::GIVEN_UP };
        let connection = peer.connection().filter(|_| !is_leaving);
        let watched = [connection, peer.process.end(), Some(stopped.as_fd())];
        // Nothing is sent over the connection but the Hello: if it is readable, it has ended, or its peer broke the contract, or
        // the process exits and waits.
        let Ok([connection, end, stop]) = sys::wait(watched, pace.after(found)) else { break false };
        if connection && !end && is_exiting(segment) && peer.is_half_closed() {
            is_leaving = true;
            if empty(&mut round, most_rounds).and_then(|()| send(Drained::Leaving)).is_err() {
                return End::GIVEN_UP;
            }
            continue;
        }
        if connection || end || peer.is_over() || is_leaving && !peer.is_half_closed() {
            break false;
        }
        if stop {
            break true;
        }
    };
    // Before anything else: what is seen from now on may be of another program.
    let seen = sys::monotonic_raw();
    let is_replaced = !is_stopped && peer.process.is_another_program();
    if !is_stopped && send(Drained::Over(seen)).is_err() {
        return End::GIVEN_UP;
    }
    let end = end(peer, segment, stopped, is_stopped, is_replaced);
    for _ in 0..most_rounds {
        if round().is_ok_and(|found| found == Round::default()) {
            break;
        }
    }
    end
}

/// Empties the rings, with `most` rounds at most: twice, so that nothing is held back that is still to be decided about.
fn empty(
    round: &mut impl FnMut() -> std::result::Result<Round, Gone>,
    most: usize,
) -> std::result::Result<(), Gone> {
    let mut emptied = 0;
    for _ in 0..most {
        emptied += u32::from(!round()?.more);
        if emptied == 2 {
            break;
        }
    }
    Ok(())
}

/// Returns how a process has ended whose connection is closed, or which the collector leaves (`is_stopped`). `is_replaced`: right after
/// the connection was closed, the process ran another program, whose end is none of ours.
fn end(peer: &Peer, segment: Segment<'_>, stopped: &Stopped, is_stopped: bool, is_replaced: bool) -> End {
    let began = Instant::now();
    let (mut is_dying, mut hurries) = (peer.process.is_dying(), false);
    // A process closes its descriptors before it is gone.
    while !is_stopped
        && peer.process.is_running()
        && began.elapsed() < if is_dying && !hurries { TAKEN_APART } else { DYING }
    {
        let stop = (!hurries).then(|| stopped.as_fd());
        // An error here only shortens the wait.
        let waited = sys::wait([peer.process.end(), stop], Duration::from_millis(10));
        hurries |= waited.is_ok_and(|[_, stop]| stop);
        is_dying = peer.process.is_dying();
    }
    let (is_exiting, runs) = (is_exiting(segment), peer.process.is_running() && (is_stopped || !is_dying));
    let ending = match (is_exiting, runs || is_replaced) {
        (_, true) if is_stopped => Ending::Detached,
        (true, _) => Ending::Exited,
        (false, true) => Ending::Replaced,
        (false, false) => Ending::Vanished,
    };
    let exit = if ending == Ending::Replaced { None } else { peer.process.exit() };
    End { ending, exit }
}
