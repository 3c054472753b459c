//! Stream-ordered memory pools: their blocks, and which freed block an allocation reuses.

use crate::clocks::Ns;
use crate::engine::Done;
use crate::handle::Handle;
use crate::memory::Allocation;
use std::collections::HashMap;

/// A block freed in stream order.
#[derive(Debug)]
pub struct FreeBlock {
    /// The block.
    pub allocation: Allocation,
    /// The stream on which it was freed.
    pub stream: Handle,
    /// The work that ends the free.
    pub done: Done,
}

/// A stream-ordered memory pool.
#[derive(Debug, Default)]
pub struct Pool {
    /// Device ordinal.
    pub device: u32,
    /// Whether it is a device's default pool.
    pub default: bool,
    /// Freed blocks, by bytes taken.
    pub free: HashMap<u64, Vec<FreeBlock>>,
    /// Bytes in use, and their maximum.
    pub used: (u64, u64),
    /// Bytes reserved, and their maximum.
    pub reserved: (u64, u64),
    /// The attributes (`CUmemPool_attribute`) that were set.
    pub attributes: HashMap<u32, u64>,
    /// The maximum number of bytes that it may reserve; 0 for the device's.
    pub most: u64,
    /// The access (`CUmemAccess_flags`) that was set, by type and number of the location.
    pub access: HashMap<[u32; 2], u32>,
    /// Whether it can be shared with other processes.
    pub shared: bool,
    /// Whether it belongs to another process, in which case nothing can be allocated from it.
    pub imported: bool,
}

impl Pool {
    /// Returns a free block that an allocation of `taken` bytes on `stream` can reuse: one freed on the same stream, or
    /// one whose free is done (CUDA programming guide, "Stream Ordered Memory Allocator").
    pub fn reuse(&mut self, taken: u64, stream: Handle, now: Ns) -> Option<FreeBlock> {
        let blocks = self.free.get_mut(&taken)?;
        let at = blocks.iter().rposition(|block| block.stream == stream || block.done.by(now))?;
        Some(blocks.swap_remove(at))
    }

    /// Returns whether it may reserve this many more bytes.
    pub fn has_room(&self, bytes: u64) -> bool {
        self.most == 0 || self.reserved.0 + bytes <= self.most
    }

    /// Adds to the bytes in use and reserved.
    pub fn count(&mut self, used: i64, reserved: i64) {
        for (counter, change) in [(&mut self.used, used), (&mut self.reserved, reserved)] {
            counter.0 = counter.0.saturating_add_signed(change);
            counter.1 = counter.1.max(counter.0);
        }
    }
}
