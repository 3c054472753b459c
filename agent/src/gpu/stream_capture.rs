//! Is the app capturing streams? While it may be, an event of ours that is recorded or queried could invalidate the
//! capture.

use core::sync::atomic::{AtomicU64, Ordering};

use crate::cuda::CUstream;
use crate::driver;
use crate::sink::Session;
use crate::thread::Call;

/// The stream captures of a session. Valid when zero.
pub struct StreamCaptures {
    /// The number of captures that the app has begun and not ended. While it is 0, launches do not query the driver.
    /// Relaxed: a thread that begins a capture sees its own change, and the capture has only its streams.
    pub open: AtomicU64,
}

/// Whether any stream may be being captured.
#[inline(always)]
pub fn is_any_open(session: Session) -> bool {
    // Relaxed: a thread that captures has counted its own capture.
    session.get::<StreamCaptures>().open.load(Ordering::Relaxed) != 0
}

/// Whether a stream is being captured. The driver is queried only while there is any capture.
pub fn is_captured(call: &Call, handle: CUstream) -> bool {
    is_any_open(call.session) && driver::driver().is_some_and(|d| d.is_capturing(handle))
}
