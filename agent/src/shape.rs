//! The shape of a kernel launch: what decides how many of its blocks fit on a multiprocessor.

/// The threads and the dynamic shared memory of a block, and the context, in one word; 0 = there is nothing to query.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Shape(u64);

impl Shape {
    /// Returns the shape of a launch in the context of this number. It is 0 for a block of no threads (the size of
    /// cuLaunchGrid's blocks is not known) and for a block larger than the bits hold, which fits on no GPU.
    #[inline]
    pub fn of([x, y, z]: [u32; 3], shared_bytes: u32, context: u32) -> Shape {
        let threads = u64::from(x).wrapping_mul(u64::from(y)).wrapping_mul(u64::from(z));
        let fits = threads.wrapping_sub(1) < (1 << 12) - 1 && shared_bytes < 1 << 28 && context < 1 << 24;
        if fits { Shape::of_success([x, y, z], shared_bytes, context) } else { Shape(0) }
    }

    /// Does the same for a launch that has succeeded, so that its block fits.
    #[inline(always)]
    pub fn of_success([x, y, z]: [u32; 3], shared_bytes: u32, context: u32) -> Shape {
        let threads = u64::from(x.wrapping_mul(y).wrapping_mul(z));
        Shape(u64::from(context) << 40 | u64::from(shared_bytes) << 12 | threads)
    }

    /// Returns it as one number; 0 = there is nothing to query.
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
