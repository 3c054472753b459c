//! Which launches of a deep stream are timed alone?
//!
//! One in eight or nine, drawn by chance: a program repeats its kernels in some order, and a fixed distance could meet the
//! same one again and again. Between two of them the others are timed as a run. Besides, the first launch of each kernel
//! that comes on a deep stream is timed alone, and one that comes after a pause of the host, in which the stream may have
//! run empty: a run would hide that.
//!
//! A stream can look deep only because nobody has looked lately. So before a run begins, the driver is asked for the event
//! that began the one before: while that has not fired, the GPU is a run behind at least.

use core::sync::atomic::Ordering;

use crate::cuda::CUDA_SUCCESS;
use crate::driver::Driver;
use crate::gpu::capture::Captures;
use crate::gpu::context::Context;
use crate::gpu::depth::{Density, Entries, Queue};
use crate::gpu::open_burst::{Bursts, OpenBurst};
use crate::sink::Session;
use crate::sys::tenth_of_a_second;

/// Launches of a run, at least, and by how many more it may be longer: one in 8.5 is timed alone.
const LEAST: u32 = 4;
const SPREAD: u32 = 8;
/// Launches of a run where nothing is seen to complete.
const SPARSE: u32 = 32;

/// What a stream's holder knows of the draw.
#[derive(Default)]
pub struct Draw {
    /// The state of a xorshift generator (Marsaglia, "Xorshift RNGs", 2003); 0 = not begun.
    state: u32,
    /// The event that began the last run, which this holds, and its number among the entries.
    witness: Option<(u32, u64)>,
}

/// What becomes of a launch on a deep stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lot {
    /// It gets events of its own. `by_chance`: it stands for its kernel's launches in runs.
    Alone { by_chance: bool },
    /// It goes on with the run that is open, or begins one.
    Run,
    /// The run that is open is long enough: it ends, and this launch begins the next.
    NextRun,
}

impl Draw {
    /// The event that it holds.
    pub fn witness(&self) -> Option<u32> {
        self.witness.map(|(event, _)| event)
    }

    /// For how many launches a run that begins now may go on.
    pub fn length(&mut self, density: Density) -> u32 {
        if density != Density::Sampled {
            return SPARSE;
        }
        let mut state = if self.state == 0 { 0x9E37_79B9 } else { self.state };
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        self.state = state;
        LEAST + (state >> 16) % SPREAD
    }

    /// A run begins with this event, which is a holder's more from here on.
    pub fn began(&mut self, context: &Context, event: u32, entry: u64) {
        context.pool.hold(event);
        if let Some((before, _)) = self.witness.replace((event, entry)) {
            context.pool.give(before);
        }
    }
}

/// What becomes of a kernel's launch that is entered at `now`, where events stand no denser than `density`.
pub fn lot(session: Session, open: Option<&OpenBurst>, density: Density, function: u64, now: u64) -> Lot {
    let is_new = || session.get::<Bursts>().is_first_when_deep(function);
    let pause = tenth_of_a_second() / 1000;
    match (open, density) {
        // Behind a burst its end decides, and not the draw.
        (Some(run), Density::Sampled) if run.left == 0 => Lot::Alone { by_chance: run.is_run() },
        (Some(run), Density::Sampled) if now.wrapping_sub(run.last) > pause || is_new() => {
            Lot::Alone { by_chance: false }
        }
        (Some(run), _) if run.left == 0 => Lot::NextRun,
        (None, Density::Sampled) if is_new() => Lot::Alone { by_chance: false },
        _ => Lot::Run,
    }
}

/// Before a run begins: whether the stream is as deep as it looks.
pub fn is_behind(
    session: Session,
    driver: &Driver,
    entries: &Entries,
    context: &Context,
    draw: &Draw,
) -> bool {
    let Some((event, entry)) = draw.witness else { return true };
    // Not while anything is being captured: see `timing`.
    if !entries.is_complete(entry) && session.get::<Captures>().open.load(Ordering::Relaxed) == 0 {
        // RELAXED: a capture may begin meanwhile. SAFETY: an event of this context, recorded and held.
        let asked = driver
            .event_query
            .and_then(|query| driver.relaxed(|| unsafe { query(context.pool.event(event)) }));
        if asked == Some(CUDA_SUCCESS) {
            entries.seen(entry);
        }
    }
    entries.density(*session.get::<Queue>()) != Density::Each
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_of_all_lengths_and_none_is_the_usual_one() {
        let mut draw = Draw::default();
        let mut counts = [0u32; (LEAST + SPREAD) as usize];
        for _ in 0..8_000 {
            counts[draw.length(Density::Sampled) as usize] += 1;
        }
        assert!(counts[..LEAST as usize].iter().all(|count| *count == 0));
        assert!(counts[LEAST as usize..].iter().all(|count| (900..1_100).contains(count)), "{counts:?}");
        assert_eq!(draw.length(Density::Sparse), SPARSE);
    }

    #[test]
    fn kernels_by_turns_are_drawn_alike() {
        let mut draw = Draw::default();
        let (mut launch, mut alone) = (0u32, [0u32; 5]);
        for _ in 0..50_000 {
            launch += draw.length(Density::Sampled) + 1;
            alone[launch as usize % alone.len()] += 1;
        }
        assert!(alone.iter().all(|count| (9_700..10_300).contains(count)), "{alone:?}");
    }
}
