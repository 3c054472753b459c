//! When did each kernel of a graph run (`--graph nodes`)?
//!
//! Every launch of a graph records the events around its kernels ([`crate::graphs::events`]) again, so their
//! times belong to a launch only as long as no other launch has begun. Each launch writes its correlation
//! into the graph's `launch` before the real call. When the poller has read that launch's own time, it reads
//! the kernels' events and keeps the times if `launch` is unchanged afterwards. Times that could not be read
//! are not reported: the reported times are samples, never guesses.

use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};
use gpuspy_wire::record::{GpuTime, Head, NodeTime, Record};

use crate::cuda::*;
use crate::driver::Driver;
use crate::gpu::context::Context;
use crate::gpu::poller::cost::Outside;
use crate::gpu::time_base::distance_by;
use crate::sink::Ring;
use crate::sys::ticks;

/// Two events, one before and one after a kernel.
pub type Pair = [CUevent; 2];

/// The number of graphs that are timed node by node at the same time.
const GRAPHS: usize = 1024;
/// The number of events of all graphs together. None that an executable graph has had is ever destroyed: a launch of a
/// graph that is gone may still record it.
const MOST_EVENTS: u32 = 1 << 16;
/// The poller reads a graph again after this many times the duration of the last reading.
const PAUSE: u64 = 20;
/// Set in a kernel's name if its node is disabled, so that nothing runs between its events.
const DISABLED: u32 = 1 << 31;

/// The graphs that are timed node by node. Valid when zero.
pub struct Nodes {
    /// Whether `GPUSPY_GRAPH=nodes` is set. Relaxed: written before the session is published.
    pub on: AtomicBool,
    /// Null, or a leaked graph. Release by the thread that adds it, acquire by the poller.
    graphs: [AtomicPtr<NodeTimed>; GRAPHS],
    /// The places from this index on are empty. Relaxed: a poller that misses a graph misses a sample.
    used: AtomicU32,
    /// The number of events that exist. Relaxed: a limit.
    events: AtomicU32,
}

/// An executable graph with an event before and after each of its kernels.
pub struct NodeTimed {
    /// The number of its events' context.
    context: u32,
    /// The context that was current when the events were created: that one, or a green context of it.
    pub current: CUcontext,
    pub pairs: Box<[Pair]>,
    /// The kernels' names, with [`DISABLED`]. Relaxed: `launch` guards them, as in a sequence lock.
    names: Box<[AtomicU32]>,
    /// The correlation of the launch that last recorded the events; 0 = none, or one whose kernels are not
    /// known.
    launch: AtomicU64,
    /// Whether another graph launches the same nodes, because the app has captured a launch of this one into
    /// it.
    shared: AtomicBool,
    /// The earliest time of the next reading, in ticks. Relaxed: only the poller accesses it.
    pause: AtomicU64,
}

impl Nodes {
    /// Creates events for `kernels` kernels in the current context. `None`: the limit is reached, or the
    /// driver refuses. Those that no executable graph gets have to be [given back](Self::give_back).
    pub fn pairs(&self, driver: &Driver, kernels: usize) -> Option<Vec<Pair>> {
        let create = driver.event_create?;
        let events = 2 * kernels as u32;
        if self.events.fetch_add(events, Ordering::Relaxed).saturating_add(events) > MOST_EVENTS {
            self.events.fetch_sub(events, Ordering::Relaxed);
            return None;
        }
        let event = || {
            let mut event: CUevent = core::ptr::null_mut();
            // SAFETY: flags 0 = CU_EVENT_DEFAULT, with timing; the call writes to a local variable.
            (unsafe { create(&mut event, 0) } == CUDA_SUCCESS).then_some(event)
        };
        let created: Vec<CUevent> = (0..events).map_while(|_| event()).collect();
        let missing = events - created.len() as u32;
        if missing > 0 {
            self.events.fetch_sub(missing, Ordering::Relaxed);
            self.give_back(driver, &created);
            return None;
        }
        Some(created.as_chunks::<2>().0.to_vec())
    }

    /// Destroys events that no executable graph has got.
    pub fn give_back(&self, driver: &Driver, events: &[CUevent]) {
        let Some(destroy) = driver.event_destroy else { return };
        // SAFETY: events that `pairs` has created, and that are in no graph any more.
        let destroyed = events.iter().filter(|event| unsafe { destroy(**event) } == CUDA_SUCCESS).count();
        self.events.fetch_sub(destroyed as u32, Ordering::Relaxed);
    }

    /// Adds a graph that was instantiated in `context`, while `current` was current, with these events. If there is no
    /// place for it, it is never read.
    pub fn add(&self, context: &Context, current: CUcontext, pairs: Vec<Pair>) -> &'static NodeTimed {
        let graph = Box::into_raw(Box::new(NodeTimed {
            context: context.number,
            current,
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
        // SAFETY: just allocated, and leaked: the poller may access it for as long as the process lives.
        unsafe { &*graph }
    }

    /// Removes a graph that is gone.
    pub fn remove(&self, graph: &'static NodeTimed) {
        graph.launch_ended();
        let this = core::ptr::from_ref(graph).cast_mut();
        for place in &self.graphs {
            let _ = place.compare_exchange(this, core::ptr::null_mut(), Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// The graph whose last launch has this correlation.
    fn at(&self, launch: u64) -> Option<&'static NodeTimed> {
        let used = self.used.load(Ordering::Relaxed) as usize;
        // SAFETY: null or leaked. Acquire pairs with the release in `add`.
        let graph = |place: &AtomicPtr<NodeTimed>| unsafe { place.load(Ordering::Acquire).as_ref() };
        self.graphs
            .iter()
            .take(used)
            .filter_map(graph)
            .find(|graph| graph.launch.load(Ordering::Acquire) == launch)
    }
}

impl NodeTimed {
    /// Starts a launch, before the real call and before anything that it records.
    #[inline]
    pub fn launch_begins(&self, correlation: u64) {
        // Release pairs with the acquire in `at` and publishes the names.
        self.launch.store(correlation, Ordering::Release);
        // A reader that sees anything written after this fence also sees that the launch has changed.
        fence(Ordering::Release);
    }

    /// Ends the current launch: its kernels are not known, or it will not run now, so its events must not be
    /// read.
    pub fn launch_ended(&self) {
        self.launch_begins(0);
    }

    /// Takes note that a launch was captured, so that another graph contains these nodes, too.
    pub fn set_shared(&self) {
        self.shared.store(true, Ordering::Relaxed);
        self.launch_ended();
    }

    /// Sets its kernels from now on: their names, and whether they are enabled.
    pub fn set_kernels(&self, kernels: impl Iterator<Item = (u32, bool)>) {
        self.launch_ended();
        for (place, (name, enabled)) in self.names.iter().zip(kernels) {
            place.store(name | if enabled { 0 } else { DISABLED }, Ordering::Relaxed);
        }
    }

    /// Takes note that its kernels are not known from now on: none of them is read.
    pub fn forget_kernels(&self) {
        self.set_kernels(core::iter::repeat((0, false)));
    }
}

/// The poller's side: reads the graphs' events and reports the times.
#[derive(Default)]
pub struct Reader {
    /// The times read in this polling pass that are not reported yet.
    read: Vec<NodeTime>,
}

impl Reader {
    /// Reads the kernels of a graph launch, if the operation that was just read is a launch of a graph that
    /// is timed node by node and is still its last one. `start` is the operation's start event; its context
    /// must be current.
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
        // The times belong to this launch if it is still the last one.
        fence(Ordering::Acquire);
        if graph.launch.load(Ordering::Relaxed) != time.correlation {
            self.read.truncate(before);
        }
        let now = ticks();
        graph.pause.store(now + PAUSE * now.wrapping_sub(began), Ordering::Relaxed);
    }

    /// Reports the times read in this polling pass.
    pub fn report(&mut self, ring: &mut Ring, seen: u64) {
        for record in self.read.drain(..) {
            ring.push(NodeTime { seen, ..record }.as_words());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::cell::Cell;
    use core::ffi::c_uint;

    thread_local! {
        /// How many events exist, and how many more the driver creates before it refuses.
        static EVENTS: Cell<[usize; 2]> = const { Cell::new([0, 0]) };
    }

    unsafe extern "C-unwind" fn create(event: *mut CUevent, _: c_uint) -> CUresult {
        let [exist, more] = EVENTS.get();
        if more == 0 {
            return ERROR_INVALID_VALUE;
        }
        EVENTS.set([exist + 1, more - 1]);
        // SAFETY: the caller's place.
        unsafe { *event = (64 * more) as CUevent };
        CUDA_SUCCESS
    }

    unsafe extern "C-unwind" fn destroy(event: CUevent) -> CUresult {
        assert!(!event.is_null());
        let [exist, more] = EVENTS.get();
        EVENTS.set([exist - 1, more]);
        CUDA_SUCCESS
    }

    fn driver() -> Driver {
        let mut driver = Driver::without_functions();
        driver.event_create = Some(create);
        driver.event_destroy = Some(destroy);
        driver
    }

    fn nodes() -> Box<Nodes> {
        // SAFETY: valid when zero.
        unsafe { Box::<Nodes>::new_zeroed().assume_init() }
    }

    /// Each instantiation that went on without events took from the number that there may be.
    #[test]
    fn events_that_no_graph_got_do_not_count() {
        let (nodes, driver) = (nodes(), driver());
        for _ in 0..2 * MOST_EVENTS / 2000 {
            EVENTS.set([0, 2000]);
            let pairs = nodes.pairs(&driver, 1000).unwrap();
            assert!((pairs.len(), EVENTS.get()) == (1000, [2000, 0]) && pairs[0] != pairs[1]);
            nodes.give_back(&driver, pairs.as_flattened());
            assert_eq!((EVENTS.get(), nodes.events.load(Ordering::Relaxed)), ([0, 0], 0));
        }
    }

    #[test]
    fn a_driver_that_refuses_an_event_leaves_none() {
        let (nodes, driver) = (nodes(), driver());
        EVENTS.set([0, 5]);
        assert!(nodes.pairs(&driver, 3).is_none());
        assert_eq!((EVENTS.get(), nodes.events.load(Ordering::Relaxed)), ([0, 0], 0));
    }

    #[test]
    fn kernels_that_are_not_known_any_more_are_not_read() {
        let null = core::ptr::null_mut();
        let graph = NodeTimed {
            context: 1,
            current: null,
            pairs: Box::new([[null; 2]; 2]),
            names: Box::new([const { AtomicU32::new(0) }; 2]),
            launch: AtomicU64::new(0),
            shared: AtomicBool::new(false),
            pause: AtomicU64::new(0),
        };
        graph.set_kernels([(7, true), (8, true)].into_iter());
        graph.launch_begins(5);
        graph.forget_kernels();
        assert!(graph.names.iter().all(|name| name.load(Ordering::Relaxed) & DISABLED != 0));
        assert_eq!(graph.launch.load(Ordering::Relaxed), 0);
    }
}
