//! Stream captures and graphs.

use core::sync::atomic::Ordering;
use gpuspy_wire::record;

use crate::calls::{Plain, Work};
use crate::cuda::*;
use crate::driver;
use crate::thread::Call;

/// A capture begins. Counted before the real call, so that no launch of the capture can be missed; a launch outside it
/// only asks once more than it needs to.
pub struct CaptureBegin {
    pub stream: CUstream,
}

impl Plain for CaptureBegin {
    fn before(&self, call: &Call) {
        call.session.captures.fetch_add(1, Ordering::Relaxed);
    }

    fn failed(&self, call: &Call) {
        call.session.captures.fetch_sub(1, Ordering::Relaxed);
    }

    fn subject(&self) -> u64 {
        self.stream as u64
    }
}

/// A capture ends; a failed end (an invalidated capture) ends it too, where one had begun.
pub struct CaptureEnd {
    pub stream: CUstream,
}

impl CaptureEnd {
    fn end(call: &Call) {
        let down = |n: u64| n.checked_sub(1);
        // An end without a begin that we saw changes nothing.
        let _ = call.session.captures.fetch_update(Ordering::Relaxed, Ordering::Relaxed, down);
    }
}

impl Plain for CaptureEnd {
    fn after(&self, call: &Call, _: u64) -> bool {
        if call.layer == crate::hook::Layer::Driver {
            CaptureEnd::end(call);
        }
        false
    }

    fn failed(&self, call: &Call) {
        // Only an end on the capture's own stream, when it was invalidated, ends it (cuStreamEndCapture). Whether this
        // was that cannot be told: staying on the careful side costs a question per launch, nothing more.
        let still = driver::driver().is_some_and(|d| d.is_capturing(self.stream));
        if !still {
            CaptureEnd::end(call);
        }
    }

    fn subject(&self) -> u64 {
        self.stream as u64
    }
}

/// A graph becomes executable.
pub struct Instantiate {
    pub out: *mut CUgraphExec,
    pub graph: CUgraph,
}

impl Plain for Instantiate {
    fn after(&self, call: &Call, _: u64) -> bool {
        // SAFETY: the call succeeded, so it has written there; null would have failed.
        let handle = unsafe { self.out.as_ref() };
        if let (Some(handle), Some(driver)) = (handle, driver::driver()) {
            call.session.graphs.instantiated(call, driver, *handle, self.graph);
        }
        false
    }
}

/// An executable graph goes.
pub struct GraphDestroy {
    pub exec: CUgraphExec,
}

impl Plain for GraphDestroy {
    fn before(&self, call: &Call) {
        call.session.graphs.destroyed(self.exec);
    }

    fn subject(&self) -> u64 {
        self.exec as u64
    }
}

/// A graph is launched: one operation on its stream.
pub struct GraphLaunch {
    pub exec: CUgraphExec,
    pub stream: CUstream,
}

impl Work for GraphLaunch {
    type Record = record::GraphLaunch;

    fn stream(&self) -> CUstream {
        self.stream
    }

    fn record(self, call: &Call, work: record::Work) -> record::GraphLaunch {
        let counts = call.session.graphs.of_handle(self.exec);
        record::GraphLaunch {
            work,
            graph: counts.graph,
            kernels: counts.kernels,
            copies: counts.copies,
            memsets: counts.memsets,
            handle: self.exec as u64,
            reserved: [0; 4],
        }
    }
}
