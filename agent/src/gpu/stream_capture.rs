//! Is the app capturing streams? While it may be, an event of ours that is recorded or queried could invalidate the
//! capture.

use core::sync::atomic::{AtomicU64, Ordering};

use crate::cuda::CUstream;
use crate::driver;
use crate::sink::Session;
use crate::thread::Call;

/// The number of captures under way at the same time whose streams are noted.
const NOTED: usize = 64;

/// The stream captures of a session. Valid when zero.
pub struct StreamCaptures {
    /// The number of captures that the app has begun and not ended. While it is 0, launches do not query the driver.
    /// Relaxed: a thread that begins a capture sees its own change, and the capture has only its streams.
    pub open: AtomicU64,
    /// The streams on which captures have begun that are open.
    origins: [Origin; NOTED],
}

/// The stream on which a capture has begun. When it is destroyed, or its context ends, the app can no longer end the capture.
struct Origin {
    /// The stream's address; 0 = free. Relaxed: only the thread whose exchange clears it goes on to use the fact.
    stream: AtomicU64,
    /// Its context's address. Relaxed: the capture begins and ends by calls that the app has ordered.
    context: AtomicU64,
}

impl StreamCaptures {
    /// Takes note of the stream, in a context, on which a capture has begun. Both are addresses. Without a place for it, its
    /// capture counts as open until it is ended.
    pub fn begun(&self, stream: u64, context: u64) {
        let take =
            |o: &&Origin| o.stream.compare_exchange(0, stream, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if let Some(origin) = self.origins.iter().find(take) {
            origin.context.store(context, Ordering::Relaxed);
        }
    }

    /// Forgets a stream whose capture ends. Returns the context if a capture was open on it.
    pub fn forget(&self, stream: u64) -> Option<u64> {
        let origin = self.origins.iter().find(|o| o.stream.load(Ordering::Relaxed) == stream)?;
        let context = origin.context.load(Ordering::Relaxed);
        origin.clear(stream).then_some(context)
    }

    /// Takes note that a capture is over.
    pub fn ended(&self) {
        let down = |n: u64| n.checked_sub(1);
        let _ = self.open.fetch_update(Ordering::Relaxed, Ordering::Relaxed, down);
    }

    /// Takes note that a context is gone, and every capture on its streams with it.
    pub fn context_ended(&self, context: u64) {
        for origin in &self.origins {
            let stream = origin.stream.load(Ordering::Relaxed);
            if stream != 0 && origin.context.load(Ordering::Relaxed) == context && origin.clear(stream) {
                self.ended();
            }
        }
    }
}

impl Origin {
    fn clear(&self, stream: u64) -> bool {
        self.stream.compare_exchange(stream, 0, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn captures() -> StreamCaptures {
        let origin = || Origin { stream: AtomicU64::new(0), context: AtomicU64::new(0) };
        StreamCaptures { open: AtomicU64::new(0), origins: core::array::from_fn(|_| origin()) }
    }

    #[test]
    fn a_capture_is_over_when_its_stream_or_context_is_gone() {
        let captures = captures();
        for (stream, context) in [(10, 1), (11, 1), (12, 2)] {
            captures.open.fetch_add(1, Ordering::Relaxed);
            captures.begun(stream, context);
        }
        assert_eq!((captures.forget(12), captures.forget(12), captures.forget(13)), (Some(2), None, None));
        captures.ended();
        captures.context_ended(2);
        assert_eq!(captures.open.load(Ordering::Relaxed), 2, "the one in that context is over already");
        captures.context_ended(1);
        captures.context_ended(1);
        assert_eq!(captures.open.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_capture_whose_stream_is_not_noted_counts_until_it_is_ended() {
        let captures = captures();
        (1..=NOTED as u64 + 1).for_each(|stream| captures.begun(stream, 1));
        assert_eq!((captures.forget(NOTED as u64), captures.forget(NOTED as u64 + 1)), (Some(1), None));
    }
}
