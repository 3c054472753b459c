//! Stream-ordered memory pools: what they hold, and which freed block an allocation gets.

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
    /// Where it was freed.
    pub stream: Handle,
    /// When the free is done.
    pub done: Done,
}

/// A stream-ordered memory pool.
#[derive(Debug, Default)]
pub struct Pool {
    /// Device ordinal.
    pub device: u32,
    /// A device's default pool.
    pub default: bool,
    /// Freed blocks, by bytes taken.
    pub free: HashMap<u64, Vec<FreeBlock>>,
    /// Bytes in use, and the most there were.
    pub used: (u64, u64),
    /// Bytes held, and the most there were.
    pub reserved: (u64, u64),
    /// `CUmemPool_attribute` that was set.
    pub attributes: HashMap<u32, u64>,
    /// The most bytes that it may hold; 0 = the device's.
    pub most: u64,
    /// `CUmemAccess_flags` that were set, by type and number of the location.
    pub access: HashMap<[u32; 2], u32>,
    /// It can be shared with other processes.
    pub shared: bool,
    /// It is another process's: nothing can be allocated from it.
    pub imported: bool,
}

impl Pool {
    /// A free block that an allocation of `taken` bytes on `stream` can have: one freed on the same stream, or whose
    /// free is done (CUDA programming guide, "Stream Ordered Memory Allocator").
    pub fn reuse(&mut self, taken: u64, stream: Handle, now: Ns) -> Option<FreeBlock> {
        let blocks = self.free.get_mut(&taken)?;
        let at = blocks.iter().rposition(|block| block.stream == stream || block.done.by(now))?;
        Some(blocks.swap_remove(at))
    }

    /// Whether it may hold so many bytes more.
    pub fn has_room(&self, bytes: u64) -> bool {
        self.most == 0 || self.reserved.0 + bytes <= self.most
    }

    /// Counts bytes in use and held.
    pub fn count(&mut self, used: i64, reserved: i64) {
        for (counter, change) in [(&mut self.used, used), (&mut self.reserved, reserved)] {
            counter.0 = counter.0.saturating_add_signed(change);
            counter.1 = counter.1.max(counter.0);
        }
    }
}
