//! The ring that the poller writes its records to.

use core::sync::atomic::Ordering;
use gpuspy_wire::record::LossCause;
use gpuspy_wire::ring::LEVELS;

use crate::sink::Session;
use crate::sink::segment::Claim;

/// The poller's own ring, which the poller grows itself while somebody reads it.
pub struct Ring {
    claim: Claim,
    session: Session,
}

impl Ring {
    /// Makes the ring of a claimed slot.
    pub fn new(session: Session, claim: Claim) -> Ring {
        Ring { claim, session }
    }

    /// Publishes a record. Returns false if it did not fit, which is counted as a loss.
    pub fn push(&mut self, words: &[u64]) -> bool {
        let next = self.claim.writer.level() + 1;
        if next < LEVELS
            && self.claim.writer.is_half_full()
            && !self.session.is_detached()
            && let Some(buffer) = self.session.segment.buffer(self.claim.index, next)
        {
            self.claim.writer.grow(buffer);
        }
        let pushed = self.claim.writer.push(words).is_ok();
        let counters = &self.claim.slot.counters.0;
        let counter =
            if pushed { Some(&counters.records) } else { counters.lost.get(LossCause::RingFull as usize) };
        if let Some(counter) = counter {
            // Relaxed load and store: this thread is the only writer.
            counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        }
        pushed
    }
}
