//! Whether the app is capturing streams: while it may be, no event of ours is recorded or queried without care.

use core::sync::atomic::{AtomicU64, Ordering};

use crate::cuda::CUstream;
use crate::driver;
use crate::thread::Call;

/// The stream captures of a session. Valid when zero.
pub struct Captures {
    /// Captures that the app has begun and not ended: outside any, no launch asks. Relaxed: a thread that begins a
    /// capture sees its own change, and only its streams are in it.
    pub open: AtomicU64,
}

/// Whether a stream is being captured. The driver is queried only while there is any capture.
pub fn is_captured(call: &Call, handle: CUstream) -> bool {
    // Relaxed: a thread that captures has counted its own capture.
    call.session.get::<Captures>().open.load(Ordering::Relaxed) != 0
        && driver::driver().is_some_and(|d| d.is_capturing(handle))
}
