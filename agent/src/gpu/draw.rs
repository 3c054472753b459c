//! Which launches of a deep stream are timed alone?
//!
//! One in eight or nine is, drawn at random: a program repeats its kernels in some order, and a fixed
//! distance could hit the same kernel every time. The launches between two drawn ones are timed together as a
//! run. In addition, the first launch of each kernel on a deep stream is timed alone, and so is a launch that
//! follows a pause of the host in which the stream may have run empty, because a run would hide that idle
//! gap. Communication kernels are not drawn: each is timed alone, since ranks are compared by when theirs
//! start.
//!
//! A stream can look deep only because nothing has queried it lately. So before a run starts, the driver is
//! queried for the event at the start of the previous run: while that has not fired, the GPU is at least one
//! run behind.

use core::sync::atomic::Ordering;

use crate::cuda::CUDA_SUCCESS;
use crate::driver::Driver;
use crate::gpu::context::Context;
use crate::gpu::depth::{Density, Entries, Queue};
use crate::gpu::open_burst::{Bursts, OpenBurst};
use crate::gpu::query::query_event;
use crate::gpu::stream_capture::StreamCaptures;
use crate::sink::Session;
use crate::sys::tenth_of_a_second;

/// The shortest run, and by how many launches a run may be longer: one launch in 8.5 is timed alone.
const LEAST: u32 = 4;
const SPREAD: u32 = 8;
/// The number of launches in a run while no entry is observed to complete.
const SPARSE: u32 = 32;

/// The state of the random draw, kept by the stream's holder.
#[derive(Default)]
pub struct Draw {
    /// The state of a xorshift generator (Marsaglia, "Xorshift RNGs", 2003); 0 = not seeded yet.
    state: u32,
    /// The start event of the last run, which this struct holds, and its entry number.
    witness: Option<(u32, u64)>,
}

/// How a launch on a deep stream is timed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Choice {
    /// It gets events of its own. `by_chance`: it was drawn at random and represents its kernel's launches in
    /// runs.
    Alone { by_chance: bool },
    /// It joins the open run, or starts one.
    Run,
    /// The open run is long enough: it ends, and this launch starts the next one.
    NextRun,
}

impl Draw {
    /// The event that the draw holds.
    pub fn witness(&self) -> Option<u32> {
        self.witness.map(|(event, _)| event)
    }

    /// Draws the number of launches that a run starting now may take.
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

    /// Takes note that a run starts with this event, and holds the event from here on.
    pub fn run_started(&mut self, context: &Context, event: u32, entry: u64) {
        context.pool.hold(event);
        if let Some((before, _)) = self.witness.replace((event, entry)) {
            context.pool.give(before);
        }
    }
}

/// Chooses how a kernel's launch is timed that is entered at `now` (ticks), where events may be no denser
/// than `density`.
pub fn choose(
    session: Session,
    open: Option<&OpenBurst>,
    density: Density,
    function: u64,
    now: u64,
) -> Choice {
    let is_new = || session.get::<Bursts>().is_first_when_deep(function);
    let pause = tenth_of_a_second() / 1000;
    match (open, density) {
        // After a burst of programmatic launches, the launch is timed alone because the burst ended, not
        // because it was drawn.
        (Some(run), Density::Sampled) if run.left == 0 => Choice::Alone { by_chance: run.is_run() },
        (Some(run), Density::Sampled) if now.wrapping_sub(run.last) > pause || is_new() => {
            Choice::Alone { by_chance: false }
        }
        (Some(run), _) if run.left == 0 => Choice::NextRun,
        (None, Density::Sampled) if is_new() => Choice::Alone { by_chance: false },
        _ => Choice::Run,
    }
}

/// Checks, before a run starts, whether the stream is as deep as it looks.
pub fn is_really_deep(
    session: Session,
    driver: &Driver,
    entries: &Entries,
    context: &Context,
    draw: &Draw,
) -> bool {
    let Some((event, entry)) = draw.witness else { return true };
    // No query while anything is being captured: see `event_pairs`.
    if !entries.is_complete(entry) && session.get::<StreamCaptures>().open.load(Ordering::Relaxed) == 0 {
        // RELAXED: a capture may begin meanwhile.
        let result = driver.relaxed(|| query_event(session, driver, context, event));
        if result == Some(Some(CUDA_SUCCESS)) {
            entries.observe_complete(entry);
        }
    }
    entries.density(*session.get::<Queue>()) != Density::Each
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_run_lengths_are_equally_likely() {
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
    fn kernels_that_alternate_are_drawn_equally_often() {
        let mut draw = Draw::default();
        let (mut launch, mut alone) = (0u32, [0u32; 5]);
        for _ in 0..50_000 {
            launch += draw.length(Density::Sampled) + 1;
            alone[launch as usize % alone.len()] += 1;
        }
        assert!(alone.iter().all(|count| (9_700..10_300).contains(count)), "{alone:?}");
    }
}
