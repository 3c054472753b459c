//! Is there a collector that drains the rings, and does it know what was sent before it came?
//!
//! A collector counts itself in the segment's header when it comes and when it goes. That it was killed is seen as well: the first one
//! is at the other end of our connection, and a later one (`gpuspy collect --pid`, or one in the place of the first) holds a lock on the
//! segment, which Linux takes from it when it ends.

use core::sync::atomic::Ordering;
use gpuspy_wire::record::Record;

use crate::driver;
use crate::facts::Facts;
use crate::gpu::budget::{Budget, Gate};
use crate::gpu::capture_range::Range;
use crate::gpu::context::Contexts;
use crate::gpu::stream::Streams;
use crate::graphs::Graphs;
use crate::interpose::unknown;
use crate::names::Names;
use crate::native::Native;
use crate::python::Python;
use crate::session::job;
use crate::sink::segment::anchor_now;
use crate::sink::{Ring, Session, descriptors};

/// What there is of collectors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Collector {
    /// One drains the rings, or is about to begin.
    Drains,
    /// Another one than before drains them, and knows nothing of what was sent.
    New,
    /// It has gone in order. Another one may come.
    Detached,
    /// The first was killed, or has refused, and none comes any more.
    Gone,
    /// A later one was killed, and none comes any more.
    Killed,
}

/// What collectors have been told. Only the poller uses it.
pub struct Attachment {
    /// The word of the header for whose collector everything was sent.
    told: u64,
    /// Whether hooks have still to send things again.
    is_half_told: bool,
}

impl Attachment {
    /// The first collector has all in the rings.
    pub const FIRST: Attachment = Attachment { told: 1, is_half_told: false };

    /// Looks whether there is a collector.
    pub fn look(&self, session: Session) -> Collector {
        // In this order: one that goes in order counts itself out before it closes the connection, or the file that it has locked.
        let has_closed = match self.is_first() {
            true => descriptors::CONNECTION.is_hung_up(),
            false => descriptors::SEGMENT.is_locked() == Some(false),
        };
        self.found(word(session), has_closed)
    }

    /// Whether the first collector is the only one for which everything was sent.
    fn is_first(&self) -> bool {
        self.told == Attachment::FIRST.told
    }

    fn found(&self, word: u64, has_closed: bool) -> Collector {
        match word {
            0 | 1 if has_closed => Collector::Gone,
            0 => Collector::Drains,
            word if word.is_multiple_of(2) => Collector::Detached,
            word if word == self.told && has_closed => Collector::Killed,
            word if word == self.told => Collector::Drains,
            _ => Collector::New,
        }
    }

    /// Sends everything again that is sent once, but for what hooks send. The new collector begins its trace with the first of this,
    /// and leaves out what is before it in the rings. Returns false if the poller's ring is still full of that.
    pub fn tell(&mut self, session: Session, budget: &Budget, ring: &mut Ring) -> bool {
        let word = word(session);
        if !(ring.push(anchor_now().as_words()) && introduce(session, ring)) {
            return false;
        }
        let names = session.get::<Names>();
        names.publish_functions(ring);
        names.send_again();
        budget.introduce_again(session, ring);
        session.get::<Range>().publish_again(session.get::<Gate>(), ring);
        let began = session.segment.header().anchor_ticks;
        if session.poller.begin_poll()
            && let Some(driver) = driver::driver()
        {
            session.get::<Contexts>().publish_again(driver, names, began, ring);
        }
        session.poller.end_poll();
        session.get::<Streams>().publish_again(began, ring);
        unknown::forget_published();
        (self.told, self.is_half_told) = (word, true);
        true
    }

    /// Has hooks send again what they have sent, if the collector has not been told of it. This is done a moment after the rest:
    /// the collector has that before it has what hooks send.
    pub fn tell_the_rest(&mut self, session: Session, ring: &mut Ring) {
        if core::mem::take(&mut self.is_half_told) {
            session.get::<Facts>().forget(session.get::<Names>());
            session.get::<Graphs>().publish_again(ring);
            session.get::<Python>().forget_sent();
            session.get::<Native>().forget_sent();
        }
    }
}

/// Sends what the process is. Returns false if nothing of it fits into the ring.
pub fn introduce(session: Session, ring: &mut Ring) -> bool {
    if !session.get::<Names>().introduce(ring) {
        return false;
    }
    job::introduce(session, ring);
    session.get::<Python>().introduce(ring);
    true
}

fn word(session: Session) -> u64 {
    // Relaxed: the word stands alone (see `gpuspy_wire::segment::Live`).
    session.segment.header().live.0.attached.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collector_is_gone_if_it_has_left_the_connection_without_a_count() {
        let mut attachment = Attachment::FIRST;
        let found = |word, has_closed| Attachment::FIRST.found(word, has_closed);
        assert_eq!([0, 1].map(|word| found(word, false)), [Collector::Drains; 2]);
        assert_eq!([0, 1].map(|word| found(word, true)), [Collector::Gone; 2]);
        assert_eq!([2, 4].map(|word| found(word, true)), [Collector::Detached; 2]);
        assert_eq!([3, 5].map(|word| found(word, true)), [Collector::New; 2], "our connection is not theirs");
        attachment.told = 3;
        assert_eq!([3, 5].map(|word| attachment.found(word, false)), [Collector::Drains, Collector::New]);
        let found = [3, 4, 5].map(|word| attachment.found(word, true));
        assert_eq!(
            found,
            [Collector::Killed, Collector::Detached, Collector::New],
            "another one is there by now"
        );
    }
}
