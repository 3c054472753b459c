//! Is the app capturing streams? While it may be, an event of ours that is recorded or queried could invalidate the
//! capture.

use core::sync::atomic::{AtomicU64, Ordering};

use crate::cuda::CUstream;
use crate::driver;
use crate::thread::Call;

/// The stream captures of a session. Valid when zero.
pub struct StreamCaptures {
    /// The number of captures that the app has begun and not ended. While it is 0, launches do not query the driver.
    /// Relaxed: a thread that begins a capture sees its own change, and the capture has only its streams.
    pub open: AtomicU64,
}

/// Whether a stream is being captured. The driver is queried only while there is any capture.
pub fn is_captured(call: &Call, handle: CUstream) -> bool {
    // Relaxed: a thread that captures has counted its own capture.
    call.session.get::<StreamCaptures>().open.load(Ordering::Relaxed) != 0
        && driver::driver().is_some_and(|d| d.is_capturing(handle))
}
