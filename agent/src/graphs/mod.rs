//! What will a launch of an executable graph run? The answer is known before the launch.
//!
//! Instantiations and updates are read in full and published at once, unless an update changes nothing. A call
//! that changes a single node only sets a flag: the next launch publishes the changed graph once, however many
//! nodes were changed before it. (Some programs set every node again before each launch; publishing each change
//! would cost the square of the number of nodes.)

mod contents;
pub mod events;

use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use gpuspy_wire::record::{self, Fact, Head, LossCause, Namespace, NodeKind};

use crate::cuda::*;
use crate::driver::{self, Driver};
use crate::gpu::context::{Context, Contexts};
use crate::gpu::nodes::{NodeTimed, Nodes, Pair};
use crate::names::{self, Names};
use crate::objects::Objects;
use crate::sink::Ring;
use crate::sink::text::publish;
use crate::sys::ticks;
use crate::thread::Call;
use contents::Line;
pub use contents::{Contents, What};
use events::Inserted;

/// The number of executable graphs of a process that are alive at the same time.
const PLACES: usize = 4096;

/// The notes that open the report where a graph is not described in full, or was changed.
const NOTES: [&str; 3] = [
    "graphs with conditional nodes: how often their bodies ran only the GPU knows; what is inside them is not counted",
    "--graph nodes changed graphs: an event stands before and behind each of their kernels, and they run slower for it",
    "--graph nodes left some graphs alone, where an event is not possible or would change more than time",
];
/// The indices of the notes in [`NOTES`].
const CONDITIONALS: u32 = 0;
const CHANGED: u32 = 1;
const LEFT_ALONE: u32 = 2;

/// The graphs of a session. Valid when zero.
pub struct Graphs {
    /// By CUgraphExec: the place of the graph that has this handle now.
    by_handle: Objects<Place, PLACES>,
    /// The places of all graphs.
    places: [Place; PLACES],
    /// The last number given out. Relaxed: it only has to be unique.
    last: AtomicU32,
    /// Bits `1 << index` of the [`NOTES`] that were published. Relaxed: publishing one twice does no harm.
    noted: AtomicU32,
}

/// An executable graph. Calls on it are never concurrent (cuda.h, graph thread safety): a thread that finds
/// `contents` missing leaves it alone.
struct Place {
    /// Whether a graph has it. Release by the thread that empties it, acquire by the one that takes it for another graph.
    is_taken: AtomicBool,
    /// Its number. Release on the store, acquire on the load: it publishes the counts.
    graph: AtomicU32,
    kernels: AtomicU32,
    copies: AtomicU32,
    memsets: AtomicU32,
    /// Whether some of its kernels are communication. Relaxed, like `changed`.
    communication: AtomicBool,
    /// Whether a node was changed since the number was given, or a collector has come that has not seen it. Relaxed: only
    /// the threads of the app's own calls access it, and the app orders those; the poller sets it.
    changed: AtomicBool,
    /// Null, or leaked: the graph's kernels are timed one by one. Release on the store, acquire on the load.
    timed: AtomicPtr<NodeTimed>,
    /// Box<Contents>, or null: unknown, or taken by another call. AcqRel: the thread that takes it out owns
    /// it.
    contents: AtomicPtr<Contents>,
}

/// The events around a graph's kernels.
pub struct KernelEvents {
    pub pairs: Vec<Pair>,
    /// Their context.
    context: &'static Context,
    /// The context that was current when they were created: that one, or a green context of it.
    current: CUcontext,
}

/// The number of nodes of each kind in a graph.
#[derive(Clone, Copy, Default)]
pub struct Counts {
    /// The graph's number; 0 = its instantiation was not observed.
    pub graph: u32,
    pub kernels: u32,
    pub copies: u32,
    pub memsets: u32,
}

impl Graphs {
    /// What a launch of this executable graph runs.
    #[inline]
    pub fn of_handle(&self, call: &Call, handle: CUgraphExec) -> Counts {
        let Some(place) = self.by_handle.find(handle as u64) else { return Counts::default() };
        if place.changed.load(Ordering::Relaxed) {
            self.publish_changes(call, handle, place);
        }
        Counts {
            graph: place.graph.load(Ordering::Acquire),
            kernels: place.kernels.load(Ordering::Relaxed),
            copies: place.copies.load(Ordering::Relaxed),
            memsets: place.memsets.load(Ordering::Relaxed),
        }
    }

    /// Whether some of its kernels, as last published, may wait for other GPUs.
    pub fn has_communication(&self, handle: CUgraphExec) -> bool {
        self.by_handle.find(handle as u64).is_some_and(|place| place.communication.load(Ordering::Relaxed))
    }

    /// Takes in the instantiation of a graph.
    pub fn instantiated(
        &'static self,
        call: &Call,
        driver: &Driver,
        handle: CUgraphExec,
        graph: CUgraph,
        events: Option<KernelEvents>,
    ) {
        let contents = driver.relaxed(|| Contents::read(call, driver, graph)).flatten().unwrap_or_default();
        let nodes = call.session.get::<Nodes>();
        let Some(place) = self.take_place(nodes, handle) else { return call.lost(LossCause::TableFull, 1) };
        if let Some(KernelEvents { pairs, context, current }) = events {
            let timed = core::ptr::from_ref(nodes.add(context, current, pairs));
            place.timed.store(timed.cast_mut(), Ordering::Release);
        }
        self.publish(call, handle, place, &contents);
        place.put(contents);
    }

    /// Takes in an update of an executable graph from another graph.
    pub fn updated(&self, call: &Call, driver: &Driver, handle: CUgraphExec, graph: CUgraph) {
        let new = driver.relaxed(|| Contents::read(call, driver, graph)).flatten().unwrap_or_default();
        let Some(place) = self.by_handle.find(handle as u64) else { return };
        let mut contents = place.take().unwrap_or_default();
        let changed = contents.replace(&new);
        // If the other graph was created in another order, its node handles differ from ours: what a launch
        // runs is known, but not the effect of a later change of one node.
        if changed.is_none() {
            contents = new;
        }
        // Programs that capture in each step update with what has not changed, mostly.
        if changed != Some(false) {
            self.publish(call, handle, place, &contents);
        }
        place.put(contents);
    }

    /// Takes in an update by a thread that can record nothing: it is not known between which kernels the events are now.
    pub fn updated_unrecorded(&self, handle: CUgraphExec) {
        if let Some(place) = self.by_handle.find(handle as u64)
            && let Some(timed) = place.timed()
        {
            timed.forget_kernels();
            place.take();
        }
    }

    /// Takes in a change of one of its nodes, or of the nodes of a child graph.
    pub fn changed(
        &self,
        call: &Call,
        handle: CUgraphExec,
        change: impl FnOnce(&mut Contents) -> Option<bool>,
    ) {
        let Some(place) = self.by_handle.find(handle as u64) else { return };
        let Some(mut contents) = place.take() else { return };
        match change(&mut contents) {
            Some(changed) => {
                place.changed.fetch_or(changed, Ordering::Relaxed);
            }
            None => call.lost(LossCause::NameLost, 1),
        }
        place.put(contents);
    }

    /// Takes in the start of a launch, before the real call.
    #[inline]
    pub fn launches(&self, call: &Call, handle: CUgraphExec) {
        if !call.session.get::<Nodes>().on.load(Ordering::Relaxed) {
            return;
        }
        let Some(place) = self.by_handle.find(handle as u64) else { return };
        let Some(timed) = place.timed() else { return };
        // A change is published after the launch, so this launch's kernels are not known in time.
        if place.changed.load(Ordering::Relaxed) {
            timed.launch_ended();
        } else {
            timed.launch_begins(call.correlation);
        }
    }

    /// Takes in a captured launch, which became part of another graph.
    pub fn captured(&self, handle: CUgraphExec) {
        if let Some(timed) = self.by_handle.find(handle as u64).and_then(Place::timed) {
            timed.set_shared();
        }
    }

    /// Puts events around the kernels of a graph before it is instantiated, if `--graph nodes` is on and that is
    /// possible.
    pub fn insert(&self, call: &Call, graph: CUgraph, for_device: bool) -> Option<(Inserted, KernelEvents)> {
        let (driver, nodes) = (driver::driver()?, call.session.get::<Nodes>());
        if !nodes.on.load(Ordering::Relaxed) {
            return None;
        }
        let current = driver.current_context();
        // Without a place for the graph, it would not be known at its next update that it has events.
        let kernels = if for_device || !self.has_place() {
            None
        } else {
            driver.relaxed(|| events::kernels(driver, graph, current)).flatten()
        };
        if kernels.as_ref().is_some_and(Vec::is_empty) {
            return None;
        }
        let inserted = kernels.and_then(|kernels| {
            let context = call.session.get::<Contexts>().get(call, driver, current)?;
            let add = || {
                // The edges are read before the events are created, because they may show that none is possible.
                let edges = events::edges(driver, graph)?;
                let pairs = nodes.pairs(driver, kernels.len())?;
                let inserted = Inserted::new(driver, graph, &kernels, &edges, &pairs);
                if inserted.is_none() {
                    nodes.give_back(driver, pairs.as_flattened());
                }
                Some((inserted?, KernelEvents { pairs, context, current }))
            };
            driver.relaxed(add).flatten()
        });
        self.note(call, if inserted.is_some() { CHANGED } else { LEFT_ALONE });
        inserted
    }

    /// Puts events around the kernels of a graph before an executable graph whose kernels have events is updated
    /// from it.
    pub fn insert_again(&self, handle: CUgraphExec, graph: CUgraph) -> Option<Inserted> {
        let driver = driver::driver()?;
        let timed = self.by_handle.find(handle as u64)?.timed()?;
        timed.launch_ended();
        let inserted = driver.relaxed(|| {
            let kernels = events::kernels(driver, graph, timed.current)?;
            // If the number of kernels differs, the driver will refuse the update and must return the same
            // error as without us.
            if kernels.len() != timed.pairs.len() {
                return None;
            }
            Inserted::new(driver, graph, &kernels, &events::edges(driver, graph)?, &timed.pairs)
        });
        inserted.flatten()
    }

    /// Takes in the destruction of an executable graph: its handle may come back as another's.
    pub fn destroyed(&self, nodes: &Nodes, handle: CUgraphExec) {
        if let Some(timed) = self.by_handle.remove(handle as u64).and_then(Place::give_back) {
            nodes.remove(timed);
        }
    }

    /// Whether a place is left for one more graph. Another thread may take it at any time.
    fn has_place(&self) -> bool {
        self.places.iter().any(|place| !place.is_taken.load(Ordering::Relaxed))
    }

    /// Takes an empty place for a graph that has just been instantiated. `None`: none is left.
    fn take_place(&'static self, nodes: &Nodes, handle: CUgraphExec) -> Option<&'static Place> {
        // A graph that had the handle before is gone, even if its destruction was not observed.
        self.destroyed(nodes, handle);
        let place = self.places.iter().find(|place| place.take_if_free())?;
        if self.by_handle.insert(handle as u64, place).is_err() {
            place.give_back();
            return None;
        }
        Some(place)
    }

    #[cold]
    fn publish_changes(&self, call: &Call, handle: CUgraphExec, place: &Place) {
        let errno = crate::sys::Errno::save();
        if let Some(contents) = place.take() {
            self.publish(call, handle, place, &contents);
            place.put(contents);
        }
        errno.restore();
    }

    /// Publishes a general note about graphs, once.
    fn note(&self, call: &Call, note: u32) {
        let published = self.noted.fetch_or(1 << note, Ordering::Relaxed);
        if published & 1 << note == 0 {
            // A fact has only one text, so the text is published again with all notes so far.
            names::publish_fact(call, Fact::Interception, text_of(published | 1 << note).as_bytes());
        }
    }

    /// Poller: publishes the notes again, and has each graph published again at its next launch, for a collector that has not
    /// seen them.
    pub fn publish_again(&self, ring: &mut Ring) {
        let noted = self.noted.load(Ordering::Relaxed);
        if noted != 0 {
            publish(ring, Namespace::Fact, Fact::Interception as u32, text_of(noted).as_bytes());
        }
        for place in &self.places {
            if !place.contents.load(Ordering::Relaxed).is_null() {
                place.changed.store(true, Ordering::Relaxed);
            }
        }
    }

    /// Gives a graph a number and publishes its contents.
    fn publish(&self, call: &Call, handle: CUgraphExec, place: &Place, contents: &Contents) {
        if contents.has_conditionals() {
            self.note(call, CONDITIONALS);
        }
        if let Some(timed) = place.timed() {
            timed.set_kernels(contents.own_kernels());
        }
        let lines = contents.lines();
        let [kernels, copies, memsets, others] = place.count(&lines);
        let communication =
            lines.iter().any(|line| call.session.get::<Names>().is_communication(line.kernel));
        place.communication.store(communication, Ordering::Relaxed);
        let graph = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let head = Head::new::<record::Graph>();
        let (at, handle, reserved) = (ticks(), handle as u64, [0; 5]);
        call.publish(&record::Graph { head, at, handle, graph, kernels, copies, memsets, others, reserved });
        for Line { kind, kernel, count, bytes, address } in lines {
            call.publish(&record::GraphNode {
                head: Head::new::<record::GraphNode>(),
                graph,
                kind: kind as u8,
                kernel,
                count,
                bytes,
                address,
                ..record::GraphNode::default()
            });
        }
        place.changed.store(false, Ordering::Relaxed);
        place.graph.store(graph, Ordering::Release);
    }
}

/// Returns the notes with these bits.
fn text_of(noted: u32) -> String {
    let is_noted = |(place, _): &(usize, &&str)| noted & 1 << place != 0;
    let notes: Vec<&str> = NOTES.iter().enumerate().filter(is_noted).map(|(_, text)| *text).collect();
    notes.join(". ")
}

impl Place {
    /// Takes it for a graph. Returns false if another graph has it.
    fn take_if_free(&self) -> bool {
        self.is_taken.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Empties it for another graph. Returns what its graph was timed by, if it was timed.
    fn give_back(&self) -> Option<&'static NodeTimed> {
        let timed = self.timed();
        self.timed.store(core::ptr::null_mut(), Ordering::Release);
        self.graph.store(0, Ordering::Release);
        self.count(&[]);
        self.communication.store(false, Ordering::Relaxed);
        self.changed.store(false, Ordering::Relaxed);
        self.take();
        self.is_taken.store(false, Ordering::Release);
        timed
    }

    fn timed(&self) -> Option<&'static NodeTimed> {
        // SAFETY: null or leaked. Acquire pairs with the release in `instantiated`.
        unsafe { self.timed.load(Ordering::Acquire).as_ref() }
    }

    fn take(&self) -> Option<Contents> {
        let contents = self.contents.swap(core::ptr::null_mut(), Ordering::AcqRel);
        // SAFETY: null or a box that `put` gave away; only this thread has it since the swap.
        (!contents.is_null()).then(|| unsafe { *Box::from_raw(contents) })
    }

    fn put(&self, contents: Contents) {
        let old = self.contents.swap(Box::into_raw(Box::new(contents)), Ordering::AcqRel);
        if !old.is_null() {
            // SAFETY: as in `take`.
            drop(unsafe { Box::from_raw(old) });
        }
    }

    /// Stores the number of nodes that a launch runs: kernels, copies, memsets, others.
    fn count(&self, lines: &[Line]) -> [u32; 4] {
        use NodeKind::{Alloc, Copy, Free, Kernel, Other, Set};
        let kinds: [&[NodeKind]; 4] = [&[Kernel], &[Copy], &[Set], &[Other, Alloc, Free]];
        let counts =
            kinds.map(|kinds| lines.iter().filter(|l| kinds.contains(&l.kind)).map(|l| l.count).sum());
        let [kernels, copies, memsets, _] = counts;
        self.kernels.store(kernels, Ordering::Relaxed);
        self.copies.store(copies, Ordering::Relaxed);
        self.memsets.store(memsets, Ordering::Relaxed);
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns tables that live as long as the process, as a session's do.
    fn tables() -> (&'static Graphs, &'static Nodes) {
        // SAFETY: both are valid when zero.
        let (graphs, nodes) =
            unsafe { (Box::<Graphs>::new_zeroed().assume_init(), Box::<Nodes>::new_zeroed().assume_init()) };
        (Box::leak(graphs), Box::leak(nodes))
    }

    /// The table kept the handle of every graph that it had met.
    #[test]
    fn a_graph_that_is_gone_makes_room_for_another_handle() {
        let (graphs, nodes) = tables();
        for n in 1..=2 * PLACES {
            let handle = (64 * n) as CUgraphExec;
            let place = graphs.take_place(nodes, handle).unwrap();
            place.graph.store(n as u32, Ordering::Relaxed);
            place.put(Contents::default());
            let found = graphs.by_handle.find(handle as u64).unwrap();
            assert_eq!(found.graph.load(Ordering::Relaxed), n as u32);
            graphs.destroyed(nodes, handle);
            assert!(graphs.by_handle.find(handle as u64).is_none());
        }
    }

    #[test]
    fn a_graph_without_room_takes_no_place() {
        let (graphs, nodes) = tables();
        for _ in 0..2 * PLACES {
            assert!(graphs.take_place(nodes, core::ptr::null_mut()).is_none(), "null is no handle");
        }
        assert!(graphs.has_place());
        let places = (1..=PLACES).filter(|&n| graphs.take_place(nodes, (64 * n) as CUgraphExec).is_some());
        assert!(places.count() > PLACES / 2);
    }

    #[test]
    fn a_handle_that_comes_back_means_the_new_graph() {
        let (graphs, nodes) = tables();
        let handle = 0x1000 as CUgraphExec;
        let place = graphs.take_place(nodes, handle).unwrap();
        place.graph.store(7, Ordering::Relaxed);
        let place = graphs.take_place(nodes, handle).unwrap();
        assert_eq!(place.graph.load(Ordering::Relaxed), 0);
        let taken = graphs.places.iter().filter(|place| place.is_taken.load(Ordering::Relaxed));
        assert_eq!(taken.count(), 1);
    }
}
