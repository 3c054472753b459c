//! Which text belongs to a handle? The app registers strings and domains once and then names them by a
//! handle.

use core::ffi::c_void;
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use gpuspy_wire::record::Namespace;

use crate::sink::Ring;
use crate::sink::text::publish;
use crate::sys::Errno;

/// The registered strings and domains of a process. Further ones have no text of their own.
pub static STRINGS: Texts<16384> = Texts::new();
pub static DOMAINS: Texts<256> = Texts::new();

/// Texts by number, from 1. They belong to the process rather than to a session: a forked child has its
/// parent's handles.
pub struct Texts<const N: usize> {
    /// The numbers given out. Relaxed: `texts` publishes the texts.
    given: AtomicUsize,
    /// Release on the store, acquire on the load: publishes the text, which is never removed.
    texts: [AtomicPtr<Box<[u8]>>; N],
}

impl<const N: usize> Texts<N> {
    pub const fn new() -> Self {
        Texts { given: AtomicUsize::new(0), texts: [const { AtomicPtr::new(core::ptr::null_mut()) }; N] }
    }

    /// Keeps a text. Returns its number as the handle, or null when there is no place left.
    pub fn add(&self, text: &[u8]) -> *const c_void {
        let number = self.given.fetch_add(1, Ordering::Relaxed);
        let Some(place) = self.texts.get(number) else { return core::ptr::null() };
        let errno = Errno::save();
        place.store(Box::into_raw(Box::new(text.into())), Ordering::Release);
        errno.restore();
        core::ptr::without_provenance(number + 1)
    }

    /// The text of a handle; `None` for a handle that is not ours.
    pub fn get(&self, handle: usize) -> Option<&[u8]> {
        let place = handle.checked_sub(1).and_then(|index| self.texts.get(index));
        // SAFETY: null or a box that `add` made and that is never freed.
        place.and_then(|place| unsafe { place.load(Ordering::Acquire).as_ref() }).map(|text| &**text)
    }
}

/// How many of the [`DOMAINS`] the poller of a session has published.
#[derive(Default)]
pub struct PublishedDomains(usize);

impl PublishedDomains {
    /// Publishes the names of domains that were created since the last call.
    pub fn publish_new(&mut self, ring: &mut Ring) {
        while let Some(name) = DOMAINS.get(self.0 + 1) {
            if !publish(ring, Namespace::Domain, self.0 as u32 + 1, name) {
                return;
            }
            self.0 += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Texts;

    #[test]
    fn a_handle_returns_its_text_and_other_handles_return_none() {
        let texts = Texts::<2>::new();
        let (first, second) = (texts.add(b"forward"), texts.add(b""));
        assert!(texts.add(b"a third").is_null(), "there is no place for it");
        assert_eq!(texts.get(first as usize), Some(&b"forward"[..]));
        assert_eq!(texts.get(second as usize), Some(&b""[..]));
        for stray in [0, 3, usize::MAX] {
            assert_eq!(texts.get(stray), None);
        }
    }
}
