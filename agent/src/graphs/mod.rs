//! Executable graphs: what a graph launch will run, known before it is launched.
//!
//! Instantiations and updates are read whole and told at once. A call that changes a single node only notes that: the next
//! launch tells what has become of the graph, once, however many nodes were changed before it (programs exist that set
//! every node anew before each launch; telling each change would cost the square of their number).

mod contents;

use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use gpuspy_wire::record::{self, Fact, Head, LossCause, NodeKind};

use crate::cuda::*;
use crate::driver::Driver;
use crate::keyed::Keyed;
use crate::names;
use crate::sys::ticks;
use crate::thread::Call;
use contents::Line;
pub use contents::{Contents, What};

/// Executable graphs alive at the same time (handles are reused).
const PLACES: usize = 4096;

/// What the report opens with when it cannot say all that graphs ran.
const CONDITIONALS: &str = "graphs with conditional nodes were launched: how often their bodies ran only the GPU knows, \
                            so kernels, copies and sets inside them are not counted";

/// The graphs of a session. Valid when zero.
pub struct Graphs {
    /// By CUgraphExec.
    places: Keyed<Place, PLACES>,
    /// The last number given. Relaxed: only its being unique matters.
    last: AtomicU32,
    /// That graphs have conditional nodes was told. Relaxed: once more does no harm.
    conditionals_told: AtomicBool,
}

/// An executable graph. Calls on it are never concurrent (cuda.h, graph thread safety): a thread that does not find
/// `contents` leaves it alone.
struct Place {
    /// Its number. Release on the store, acquire on the load: the counts behind it.
    graph: AtomicU32,
    kernels: AtomicU32,
    copies: AtomicU32,
    memsets: AtomicU32,
    /// A node was changed since the number was given. Relaxed: set and read by the threads of the app's own calls, which
    /// it orders.
    changed: AtomicBool,
    /// Box<Contents>, or null: unknown, or in another call's hands. AcqRel: who takes it out owns it.
    contents: AtomicPtr<Contents>,
}

/// What is in a graph.
#[derive(Clone, Copy, Default)]
pub struct Counts {
    /// Its number; 0 = never seen instantiated.
    pub graph: u32,
    pub kernels: u32,
    pub copies: u32,
    pub memsets: u32,
}

impl Graphs {
    /// What a launch of this executable graph runs.
    #[inline]
    pub fn of_handle(&self, call: &Call, handle: CUgraphExec) -> Counts {
        let Some(place) = self.places.find(handle as u64) else { return Counts::default() };
        if place.changed.load(Ordering::Relaxed) {
            self.tell_changes(call, handle, place);
        }
        Counts {
            graph: place.graph.load(Ordering::Acquire),
            kernels: place.kernels.load(Ordering::Relaxed),
            copies: place.copies.load(Ordering::Relaxed),
            memsets: place.memsets.load(Ordering::Relaxed),
        }
    }

    /// A graph was instantiated.
    pub fn instantiated(&self, call: &Call, driver: &Driver, handle: CUgraphExec, graph: CUgraph) {
        let contents = driver.relaxed(|| Contents::read(call, driver, graph));
        let Some(place) = self.places.get(handle as u64) else { return call.lost(LossCause::TableFull, 1) };
        self.tell(call, handle, place, &contents);
        place.put(contents);
    }

    /// It was updated to what another graph holds.
    pub fn updated(&self, call: &Call, driver: &Driver, handle: CUgraphExec, graph: CUgraph) {
        let new = driver.relaxed(|| Contents::read(call, driver, graph));
        let Some(place) = self.places.find(handle as u64) else { return };
        let mut contents = place.take().unwrap_or_default();
        // Made in another order, its nodes go by other names than ours: what a launch runs is known, what a later change
        // of one node would do is not.
        if contents.replace(&new).is_none() {
            contents = new;
        }
        self.tell(call, handle, place, &contents);
        place.put(contents);
    }

    /// A call changed one of its nodes, or the nodes of a child graph.
    pub fn changed(
        &self,
        call: &Call,
        handle: CUgraphExec,
        change: impl FnOnce(&mut Contents) -> Option<bool>,
    ) {
        let Some(place) = self.places.find(handle as u64) else { return };
        let Some(mut contents) = place.take() else { return };
        match change(&mut contents) {
            Some(changed) => {
                place.changed.fetch_or(changed, Ordering::Relaxed);
            }
            None => call.lost(LossCause::NameLost, 1),
        }
        place.put(contents);
    }

    /// An executable graph was destroyed: its handle may come back as another's.
    pub fn destroyed(&self, handle: CUgraphExec) {
        if let Some(place) = self.places.find(handle as u64) {
            place.graph.store(0, Ordering::Release);
            place.count(&[]);
            place.changed.store(false, Ordering::Relaxed);
            place.take();
        }
    }

    #[cold]
    fn tell_changes(&self, call: &Call, handle: CUgraphExec, place: &Place) {
        let errno = crate::sys::Errno::save();
        if let Some(contents) = place.take() {
            self.tell(call, handle, place, &contents);
            place.put(contents);
        }
        errno.restore();
    }

    /// Gives a graph a number and tells what it holds.
    fn tell(&self, call: &Call, handle: CUgraphExec, place: &Place, contents: &Contents) {
        if contents.has_conditionals() && !self.conditionals_told.swap(true, Ordering::Relaxed) {
            names::tell_fact(call, Fact::Interception, CONDITIONALS.as_bytes());
        }
        let lines = contents.lines();
        let [kernels, copies, memsets, others] = place.count(&lines);
        let graph = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let head = Head::new::<record::Graph>();
        let (at, handle, reserved) = (ticks(), handle as u64, [0; 5]);
        call.publish(&record::Graph { head, at, handle, graph, kernels, copies, memsets, others, reserved });
        for Line { kind, kernel, count, bytes } in lines {
            call.publish(&record::GraphNode {
                head: Head::new::<record::GraphNode>(),
                graph,
                kind: kind as u8,
                kernel,
                count,
                bytes,
                ..record::GraphNode::default()
            });
        }
        place.changed.store(false, Ordering::Relaxed);
        place.graph.store(graph, Ordering::Release);
    }
}

impl Place {
    fn take(&self) -> Option<Contents> {
        let contents = self.contents.swap(core::ptr::null_mut(), Ordering::AcqRel);
        // SAFETY: null or a box that `put` gave away, ours alone since the swap.
        (!contents.is_null()).then(|| unsafe { *Box::from_raw(contents) })
    }

    fn put(&self, contents: Contents) {
        let old = self.contents.swap(Box::into_raw(Box::new(contents)), Ordering::AcqRel);
        if !old.is_null() {
            // SAFETY: as in `take`.
            drop(unsafe { Box::from_raw(old) });
        }
    }

    /// Counts what a launch runs: kernels, copies, sets, others.
    fn count(&self, lines: &[Line]) -> [u32; 4] {
        let kinds = [NodeKind::Kernel, NodeKind::Copy, NodeKind::Set, NodeKind::Other];
        let counts = kinds.map(|kind| lines.iter().filter(|l| l.kind == kind).map(|l| l.count).sum());
        let [kernels, copies, memsets, _] = counts;
        self.kernels.store(kernels, Ordering::Relaxed);
        self.copies.store(copies, Ordering::Relaxed);
        self.memsets.store(memsets, Ordering::Relaxed);
        counts
    }
}
