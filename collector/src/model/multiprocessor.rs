//! Which limit of a multiprocessor determines how many blocks of a kernel it holds?
//!
//! The driver says how many blocks fit; this module computes which limit gives that number. The limits are those of
//! the CUDA C++ Programming Guide, "Technical Specifications per Compute Capability"; the rounding is that of the
//! occupancy calculator in Nsight Compute. If the computation disagrees with the driver, no limit is reported.

use super::named::named;
use crate::trace::record::KernelFacts;

/// Threads per warp.
pub const WARP: u32 = 32;
/// Registers of a multiprocessor from compute capability 5.0 on.
const REGISTERS: u32 = 64 << 10;
/// A multiprocessor is divided into this many parts, each with its own warps and registers.
const PARTS: u32 = 4;
/// Registers are allocated to a warp in units of this many.
const REGISTER_UNIT: u32 = 256;

named! {
    /// A limit on the number of blocks on a multiprocessor.
    pub enum Limit {
        /// The number of warps.
        Warps = "warps",
        /// The number of blocks.
        Blocks = "blocks",
        /// The number of registers.
        Registers = "registers",
        /// The size of the shared memory.
        SharedMemory = "shared memory",
    }
}

/// The blocks and the KiB of shared memory that a multiprocessor of a compute capability holds; `None` if not listed
/// here.
fn capacity(capability: u32) -> Option<(u32, u32)> {
    Some(match capability {
        70 | 72 => (32, 96),
        75 => (16, 64),
        80 => (32, 164),
        86 => (16, 100),
        87 => (16, 164),
        89 => (24, 100),
        90 | 100 | 103 => (32, 228),
        120 | 121 => (24, 100),
        _ => return None,
    })
}

/// Returns the limits that a kernel's blocks meet on a multiprocessor of this capability with room for `warps` warps:
/// several if they are met at once, none if the computation disagrees with the driver.
pub fn limits(facts: &KernelFacts, capability: u32, warps: u32) -> Vec<Limit> {
    let of_block = facts.threads.div_ceil(WARP);
    let Some((blocks, shared_kib)) = capacity(capability).filter(|_| of_block > 0 && facts.registers > 0)
    else {
        return Vec::new();
    };
    // From 8.0 on, the system reserves 1 KiB of shared memory per block.
    let (unit, reserved) = if capability >= 80 { (128, 1 << 10) } else { (256, 0) };
    let of_warp = (u32::from(facts.registers) * WARP).next_multiple_of(REGISTER_UNIT);
    let shared = u64::from(facts.static_shared_bytes) + u64::from(facts.shared_bytes);
    let shared = shared.next_multiple_of(unit) + reserved;
    let by_shared = (u64::from(shared_kib) << 10).checked_div(shared).map_or(u32::MAX, |n| n as u32);
    let bounds = [
        (Limit::Warps, warps / of_block),
        (Limit::Blocks, blocks),
        (Limit::Registers, REGISTERS / PARTS / of_warp * PARTS / of_block),
        (Limit::SharedMemory, by_shared),
    ];
    let held = u32::from(facts.blocks_per_multiprocessor);
    let least = bounds.iter().map(|(_, bound)| *bound).min();
    let met = bounds.into_iter().filter(|(_, bound)| least == Some(held) && *bound == held);
    met.map(|(limit, _)| limit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(registers: u16, threads: u32, shared_bytes: u32, blocks: u16) -> Vec<Limit> {
        let facts = KernelFacts {
            registers,
            threads,
            shared_bytes,
            blocks_per_multiprocessor: blocks,
            ..KernelFacts::default()
        };
        limits(&facts, 90, 64)
    }

    /// The numbers of blocks are those that the driver of an H200 gives, by the limits of 9.0.
    #[test]
    fn the_limit_that_is_met_is_named() {
        use Limit::{Blocks, Registers, SharedMemory, Warps};
        assert_eq!(held(32, 256, 0, 8), [Warps, Registers], "64 warps, and as many have 32 registers");
        assert_eq!(held(24, 256, 0, 8), [Warps]);
        assert_eq!(held(24, 32, 0, 32), [Blocks]);
        assert_eq!(held(128, 256, 0, 2), [Registers]);
        assert_eq!(held(24, 64, 100 << 10, 2), [SharedMemory]);
        assert_eq!(held(128, 256, 100 << 10, 2), [Registers, SharedMemory]);
        assert_eq!(
            held(24, 256, 0, 5),
            [],
            "something else limits it: a preferred carveout, or a partition of the GPU"
        );
        assert_eq!(held(0, 256, 0, 8), [], "the driver did not say");
        assert_eq!(held(24, 0, 0, 8), []);
    }

    #[test]
    fn an_unknown_capability_has_no_limits() {
        let facts = KernelFacts {
            registers: 24,
            threads: 256,
            blocks_per_multiprocessor: 8,
            ..KernelFacts::default()
        };
        assert_eq!(limits(&facts, 90, 64), [Limit::Warps]);
        assert_eq!(limits(&facts, 42, 64), []);
    }

    #[test]
    fn hostile_facts_do_not_panic() {
        let most = KernelFacts {
            threads: u32::MAX,
            shared_bytes: u32::MAX,
            static_shared_bytes: u32::MAX,
            registers: u16::MAX,
            blocks_per_multiprocessor: u16::MAX,
            ..KernelFacts::default()
        };
        assert_eq!(limits(&most, 90, u32::MAX), []);
    }
}
