//! The shape of a kernel launch: what decides how many of its blocks fit on a multiprocessor.

/// What of a launch decides how many blocks fit on a multiprocessor: threads and dynamic shared memory of a block, and the
/// context. One word; 0 = nothing to ask for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Shape(u64);

impl Shape {
    /// Of a launch of such blocks in a context, by its number. A block of no threads (cuLaunchGrid) is not known to us, and
    /// no GPU has room for more than the bits hold.
    #[inline]
    pub fn of([x, y, z]: [u32; 3], shared_bytes: u32, context: u32) -> Shape {
        let threads = u64::from(x).wrapping_mul(u64::from(y)).wrapping_mul(u64::from(z));
        let fits = threads.wrapping_sub(1) < (1 << 12) - 1 && shared_bytes < 1 << 28 && context < 1 << 24;
        let word = u64::from(context) << 40 | u64::from(shared_bytes) << 12 | threads;
        Shape(if fits { word } else { 0 })
    }

    /// As one number; 0 = nothing to ask for.
    #[inline]
    pub fn word(self) -> u64 {
        self.0
    }

    /// Threads of a block.
    pub fn threads(self) -> u32 {
        (self.0 & ((1 << 12) - 1)) as u32
    }

    /// Dynamic shared memory of a block, bytes.
    pub fn shared_bytes(self) -> u32 {
        (self.0 >> 12) as u32 & ((1 << 28) - 1)
    }

    /// The context's number.
    pub fn context(self) -> u32 {
        (self.0 >> 40) as u32
    }
}
