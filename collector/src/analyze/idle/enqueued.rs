//! What lies before the next operation of a stream that is no operation itself: a wait for an event, for a value in memory
//! or for an external semaphore, or a host function?

use super::Cause;
use crate::hash::HashMap;

/// The handles of the legacy default stream (cuda.h: 0, and `CU_STREAM_LEGACY`).
const LEGACY: [u64; 2] = [0, 1];

/// What lies before the next operations of streams.
#[derive(Debug, Default)]
pub struct Enqueued {
    /// The context and the id of a stream, by its handle.
    streams: HashMap<u64, (u32, u64)>,
    /// By context and id.
    before: HashMap<(u32, u64), Cause>,
    /// On a legacy default stream.
    legacy: Option<Cause>,
}

impl Enqueued {
    /// A stream became known.
    pub fn stream(&mut self, key: (u32, u64), handle: u64) {
        self.streams.insert(handle, key);
    }

    /// A stream was destroyed.
    pub fn forget(&mut self, key: (u32, u64), handle: u64) {
        self.before.remove(&key);
        if self.streams.get(&handle) == Some(&key) {
            self.streams.remove(&handle);
        }
    }

    /// A call made a stream wait.
    pub fn on_stream(&mut self, key: (u32, u64), cause: Cause) {
        put(self.before.entry(key).or_insert(cause), cause);
    }

    /// A call that has the handle of a stream made it wait, or put a host function on it.
    pub fn on_handle(&mut self, handle: u64, cause: Cause) {
        if LEGACY.contains(&handle) {
            put(self.legacy.get_or_insert(cause), cause);
        } else if let Some(key) = self.streams.get(&handle).copied() {
            self.on_stream(key, cause);
        }
    }

    /// Returns what lies before an operation of a stream, once.
    pub fn take(&mut self, key: (u32, u64), is_legacy: bool) -> Option<Cause> {
        let own = if self.before.is_empty() { None } else { self.before.remove(&key) };
        let legacy = if is_legacy { self.legacy.take() } else { None };
        [own, legacy].into_iter().flatten().reduce(|mut all, cause| {
            put(&mut all, cause);
            all
        })
    }
}

/// A host function is what the program can change, so it names the wait where a stream has both.
fn put(place: &mut Cause, cause: Cause) {
    if cause == Cause::HostCallback {
        *place = cause;
    }
}
