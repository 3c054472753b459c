//! Tables with pages of their own, which take no memory until they are touched and can be given back while there are still
//! references to them.

use core::ffi::c_void;
use core::marker::PhantomData;
use core::ops::Deref;
use core::ptr;

/// A table of values that are zero at first.
pub struct Pages<T> {
    start: *mut T,
    count: usize,
    owns: PhantomData<T>,
}

// SAFETY: it owns its values, as a box does.
unsafe impl<T: Send> Send for Pages<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Pages<T> {}

impl<T> Pages<T> {
    /// Maps a table of `count` values. `None`: there is no memory for it.
    ///
    /// # Safety
    /// A value may have all bits zero; if memory is [given back](Self::give_back), at any time and by another thread's doing, so
    /// that it consists of atomic numbers. It needs no drop.
    pub unsafe fn new(count: usize) -> Option<Pages<T>> {
        let bytes = count.checked_mul(size_of::<T>()).filter(|bytes| *bytes > 0)?;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a fresh private mapping of zeros; pages are aligned for any value.
        let start = unsafe { libc::mmap(ptr::null_mut(), bytes, access, kind, -1, 0) };
        (start != libc::MAP_FAILED).then_some(Pages { start: start.cast(), count, owns: PhantomData })
    }

    /// Gives the memory back: all values are zero again. Where Linux refuses (pages that are locked in memory), they stay as
    /// they are.
    pub fn give_back(&self) {
        // SAFETY: our own mapping; private pages without a file behind them come back as zeros, which `new`'s caller allows.
        unsafe { libc::madvise(self.place(), self.bytes(), libc::MADV_DONTNEED) };
    }

    /// Where the table is, for who has to know of it as a whole.
    pub fn place(&self) -> *mut c_void {
        self.start.cast()
    }

    /// How long it is.
    pub fn bytes(&self) -> usize {
        self.count * size_of::<T>()
    }
}

impl<T> Deref for Pages<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: a mapping of so many values, which zero is one of, until this is dropped.
        unsafe { core::slice::from_raw_parts(self.start, self.count) }
    }
}

impl<T> Drop for Pages<T> {
    fn drop(&mut self) {
        // SAFETY: our own mapping, to which there are no references any more. `new`'s caller promises that values need no drop.
        unsafe { libc::munmap(self.place(), self.bytes()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::sync::atomic::{AtomicU64, Ordering};

    fn page() -> usize {
        // SAFETY: queries a constant.
        unsafe { libc::sysconf(libc::_SC_PAGESIZE) as usize }
    }

    fn resident(pages: &Pages<AtomicU64>) -> usize {
        let mut each = vec![0u8; pages.bytes() / page()];
        // SAFETY: a mapping of whole pages, and a byte for each of them.
        assert_eq!(unsafe { libc::mincore(pages.place(), pages.bytes(), each.as_mut_ptr()) }, 0);
        each.iter().filter(|page| **page & 1 != 0).count()
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no madvise(2)")]
    fn untouched_pages_and_those_given_back_take_no_memory() {
        let values = page() / size_of::<AtomicU64>();
        // SAFETY: atomic numbers.
        let pages = unsafe { Pages::<AtomicU64>::new(64 * values) }.unwrap();
        assert_eq!((pages.len(), resident(&pages)), (64 * values, 0));
        pages.iter().take(3 * values).for_each(|value| value.store(7, Ordering::Relaxed));
        assert_eq!(resident(&pages), 3);
        pages.give_back();
        assert_eq!(resident(&pages), 0);
        assert!(pages.iter().all(|value| value.load(Ordering::Relaxed) == 0));
    }

    #[test]
    fn there_is_no_table_where_there_is_no_room() {
        // SAFETY: atomic numbers.
        unsafe {
            assert!(Pages::<AtomicU64>::new(0).is_none());
            assert!(Pages::<AtomicU64>::new(usize::MAX / 8).is_none());
            assert!(Pages::<AtomicU64>::new(usize::MAX / 4).is_none());
        }
    }
}
