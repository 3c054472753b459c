//! When did each kernel of a graph run (`--graph nodes`)?
//!
//! The events around a graph's kernels ([`crate::graphs::events`]) are recorded anew by every launch of it, so what they
//! tell is one launch's only as long as no other has begun. Each launch writes its correlation into the graph's `launch`
//! before the real call; the poller, when it has read that launch's own time, reads the kernels' events and keeps what it
//! found if the graph is still at the same launch then. What is not read is not told: times are samples, never guesses.

use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};
use gpuspy_wire::record::{GpuTime, Head, NodeTime, Record};

use crate::cuda::*;
use crate::driver::Driver;
use crate::gpu::context::Context;
use crate::gpu::poller::cost::Outside;
use crate::gpu::time_base::distance_by;
use crate::sink::Ring;
use crate::sys::ticks;

/// Two events, one before and one behind a kernel.
pub type Pair = [CUevent; 2];

/// Graphs that are timed node by node at the same time.
const GRAPHS: usize = 1024;
/// Events of all those graphs together. None is ever destroyed: a launch of a graph that is gone may still record it.
const MOST_EVENTS: u32 = 1 << 16;
/// The poller reads a graph again when this many times what reading it took has passed.
const PAUSE: u64 = 20;
/// In a kernel's name: its node is disabled, and nothing runs between its events.
const DISABLED: u32 = 1 << 31;

/// The graphs that are timed node by node. Valid when zero.
pub struct Nodes {
    /// `GPUSPY_GRAPH=nodes`. Relaxed: set before the session is published.
    pub on: AtomicBool,
    /// Null, or a leaked graph. Release by who adds it, acquire by the poller.
    graphs: [AtomicPtr<NodeTimed>; GRAPHS],
    /// Places behind these are empty. Relaxed: who misses one misses a sample.
    used: AtomicU32,
    /// Events made. Relaxed: a bound.
    events: AtomicU32,
}

/// An executable graph with an event before and behind its kernels.
pub struct NodeTimed {
    /// Its events' context, by number.
    context: u32,
    pub pairs: Box<[Pair]>,
    /// The kernels' names, with [`DISABLED`]. Relaxed: `launch` guards them, as a sequence lock does.
    names: Box<[AtomicU32]>,
    /// The launch that the events were last recorded by: its correlation; 0 = none, or one whose kernels are not known.
    launch: AtomicU64,
    /// Somebody else launches the same nodes: they are in a graph that the app has captured a launch of this one into.
    shared: AtomicBool,
    /// Not to be read before, in ticks. Relaxed: the poller's own.
    pause: AtomicU64,
}

impl Nodes {
    /// Makes events for so many kernels, in the current context. `None`: there are too many by now, or the driver refuses.
    pub fn pairs(&self, driver: &Driver, kernels: usize) -> Option<Vec<Pair>> {
        let create = driver.event_create?;
        let events = 2 * kernels as u32;
        if self.events.fetch_add(events, Ordering::Relaxed).saturating_add(events) > MOST_EVENTS {
            self.events.fetch_sub(events, Ordering::Relaxed);
            return None;
        }
        let event = || {
            let mut event: CUevent = core::ptr::null_mut();
            // SAFETY: flags 0 = CU_EVENT_DEFAULT, with timing; writes a place of ours.
            (unsafe { create(&mut event, 0) } == CUDA_SUCCESS).then_some(event)
        };
        (0..kernels).map(|_| Some([event()?, event()?])).collect()
    }

    /// A graph with these events was instantiated in `context`. Where there is no place for it, it is never read.
    pub fn add(&self, context: &Context, pairs: Vec<Pair>) -> &'static NodeTimed {
        let graph = Box::into_raw(Box::new(NodeTimed {
            context: context.number,
            names: pairs.iter().map(|_| AtomicU32::new(0)).collect(),
            pairs: pairs.into(),
            launch: AtomicU64::new(0),
            shared: AtomicBool::new(false),
            pause: AtomicU64::new(0),
        }));
        let place = self.graphs.iter().position(|place| {
            place.compare_exchange(core::ptr::null_mut(), graph, Ordering::Release, Ordering::Relaxed).is_ok()
        });
        if let Some(place) = place {
            self.used.fetch_max(place as u32 + 1, Ordering::Relaxed);
        }
        // SAFETY: just made, and leaked: the poller may be looking at it for as long as the process lives.
        unsafe { &*graph }
    }

    /// The graph is gone.
    pub fn remove(&self, graph: &'static NodeTimed) {
        graph.ended();
        let this = core::ptr::from_ref(graph).cast_mut();
        for place in &self.graphs {
            let _ = place.compare_exchange(this, core::ptr::null_mut(), Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// The graph whose last launch has this correlation.
    fn at(&self, launch: u64) -> Option<&'static NodeTimed> {
        let used = self.used.load(Ordering::Relaxed) as usize;
        // SAFETY: null or leaked. Acquire, with the release in `add`.
        let graph = |place: &AtomicPtr<NodeTimed>| unsafe { place.load(Ordering::Acquire).as_ref() };
        self.graphs
            .iter()
            .take(used)
            .filter_map(graph)
            .find(|graph| graph.launch.load(Ordering::Acquire) == launch)
    }
}

impl NodeTimed {
    /// A launch begins: before the real call, and before anything that it records.
    #[inline]
    pub fn begins(&self, correlation: u64) {
        // Release, with the acquire in `at`: the names.
        self.launch.store(correlation, Ordering::Release);
        // Whoever reads what is written behind this finds that the launch is another.
        fence(Ordering::Release);
    }

    /// What was launched is not to be read: its kernels are not known, or it will not run now.
    pub fn ended(&self) {
        self.begins(0);
    }

    /// A launch was captured: another graph has these nodes, too.
    pub fn is_shared_now(&self) {
        self.shared.store(true, Ordering::Relaxed);
        self.ended();
    }

    /// Its kernels from now on: names, and whether they are enabled.
    pub fn runs(&self, kernels: impl Iterator<Item = (u32, bool)>) {
        self.ended();
        for (place, (name, enabled)) in self.names.iter().zip(kernels) {
            place.store(name | if enabled { 0 } else { DISABLED }, Ordering::Relaxed);
        }
    }
}

/// The poller's side: reads graphs' events and tells the times.
#[derive(Default)]
pub struct Reader {
    /// Times read in this look, not told yet.
    read: Vec<NodeTime>,
}

impl Reader {
    /// The operation that began with the event `start` is read: if it was a launch of a graph that is timed node by node,
    /// and still is its last one, so are its kernels. With the context current.
    pub fn read(
        &mut self,
        nodes: &Nodes,
        outside: Outside<'_>,
        context: &Context,
        start: CUevent,
        time: &GpuTime,
    ) {
        if !nodes.on.load(Ordering::Relaxed) {
            return;
        }
        let Some(graph) = nodes.at(time.correlation) else { return };
        let began = ticks();
        if graph.context != context.number
            || graph.shared.load(Ordering::Relaxed)
            || began < graph.pause.load(Ordering::Relaxed)
        {
            return;
        }
        let before = self.read.len();
        for (node, (&[first, last], name)) in graph.pairs.iter().zip(&graph.names).enumerate() {
            let kernel = name.load(Ordering::Relaxed);
            if context.is_leaving() {
                break;
            }
            if kernel & DISABLED != 0 {
                continue;
            }
            let between = |from, to| {
                distance_by(|forth| if forth { outside.elapsed(from, to) } else { outside.elapsed(to, from) })
            };
            let (Some(distance), Some(duration)) = (between(start, first), between(first, last)) else {
                break;
            };
            self.read.push(NodeTime {
                head: Head::new::<NodeTime>(),
                kernel,
                node: node as u32,
                start: time.start + distance.ns,
                duration: duration.ns.max(0) as u64,
                start_error: time.start_error.saturating_add(distance.error.ceil() as u32),
                duration_error: duration.error.ceil() as u32,
                correlation: time.correlation,
                context: time.context,
                time_base: time.time_base,
                seen: 0,
            });
        }
        // What was read before this is this launch's, if it is the last one still.
        fence(Ordering::Acquire);
        if graph.launch.load(Ordering::Relaxed) != time.correlation {
            self.read.truncate(before);
        }
        let now = ticks();
        graph.pause.store(now + PAUSE * now.wrapping_sub(began), Ordering::Relaxed);
    }

    /// Tells what was read in this look.
    pub fn tell(&mut self, ring: &mut Ring, seen: u64) {
        for record in self.read.drain(..) {
            ring.push(NodeTime { seen, ..record }.as_words());
        }
    }
}
