//! What does the app say about its own work? NVTX ranges and markers.

use super::{CELL_BYTES, CELL_WORDS, Head, Kind, Record};
use core::mem::{align_of, offset_of, size_of};

/// The start or end of an NVTX range, or a marker; the text's bytes follow in the record's remaining space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct NvtxRange {
    /// The head; `cells` includes the text.
    pub head: Head,
    /// The time (ticks).
    pub at: u64,
    /// For `Start` and `End`: the range's id, unique in the process. Otherwise 0: a `Pop` ends the last
    /// `Push` of its thread and domain.
    pub id: u64,
    /// The domain, in [`Namespace::Domain`](super::Namespace::Domain); 0 = the default domain.
    pub domain: u32,
    /// The app's number for a category; 0 = none.
    pub category: u32,
    /// ARGB; 0 = none.
    pub color: u32,
    /// A [`NvtxChange`](super::NvtxChange).
    pub change: u8,
    /// Non-zero: the text was cut at [`MAX_NVTX_TEXT`].
    pub cut: u8,
    /// The number of bytes of text that follow this struct.
    pub length: u16,
    /// Non-zero: the app passed a payload, which is not recorded.
    pub payload: u32,
    /// Zero.
    pub reserved: u32,
}

/// The number of cells of the longest [`NvtxRange`].
pub const MAX_NVTX_CELLS: usize = 4;
/// The largest number of bytes of text in a [`NvtxRange`].
pub const MAX_NVTX_TEXT: usize = MAX_NVTX_CELLS * CELL_BYTES - size_of::<NvtxRange>();

impl NvtxRange {
    /// Writes the record with its text, cut to [`MAX_NVTX_TEXT`], and returns its words.
    pub fn with_text<'b>(
        mut self,
        text: &[u8],
        buffer: &'b mut [u64; MAX_NVTX_CELLS * CELL_WORDS],
    ) -> &'b [u64] {
        let kept = text.get(..MAX_NVTX_TEXT).unwrap_or(text);
        let cells = (size_of::<NvtxRange>() + kept.len()).div_ceil(CELL_BYTES);
        self.head.cells = cells as u8;
        self.length = kept.len() as u16;
        self.cut |= u8::from(kept.len() < text.len());
        let words = buffer.get_mut(..cells * CELL_WORDS).unwrap_or_default();
        words.fill(0);
        // SAFETY: the words have room for the struct and the text after it, which was cut to fit; integers
        // only.
        unsafe {
            words.as_mut_ptr().cast::<NvtxRange>().write(self);
            let at = words.as_mut_ptr().cast::<u8>().add(size_of::<NvtxRange>());
            core::ptr::copy_nonoverlapping(kept.as_ptr(), at, kept.len());
        }
        words
    }

    /// Reads the record and its text from the words of a record; the text cannot exceed the record.
    pub fn of(words: &[u64]) -> Option<(NvtxRange, &[u8])> {
        let head = Head::of(words)?;
        if head.kind != Kind::NvtxRange as u8 || size_of_val(words) < size_of::<NvtxRange>() {
            return None;
        }
        // SAFETY: long enough and aligned to 8; any bytes are a NvtxRange.
        let range = unsafe { words.as_ptr().cast::<NvtxRange>().read() };
        // SAFETY: the slice's own memory, as bytes.
        let bytes = unsafe { core::slice::from_raw_parts(words.as_ptr().cast::<u8>(), size_of_val(words)) };
        let text = bytes.get(size_of::<NvtxRange>()..size_of::<NvtxRange>() + range.length as usize)?;
        Some((range, text))
    }
}

// SAFETY: repr(C), integers only, no padding (asserted below), alignment 8.
unsafe impl Record for NvtxRange {
    const KIND: Kind = Kind::NvtxRange;
}

const _: () = {
    assert!(size_of::<NvtxRange>() == 48 && align_of::<NvtxRange>() == 8);
    assert!(
        offset_of!(NvtxRange, id) == 16
            && offset_of!(NvtxRange, change) == 36
            && offset_of!(NvtxRange, payload) == 40
    );
    assert!(MAX_NVTX_CELLS <= super::MAX_CELLS);
};
