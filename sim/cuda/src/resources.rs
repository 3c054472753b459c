//! The multiprocessor resources that a kernel needs, and how many of its blocks fit.
//!
//! The limits are those of compute capability 9.0 (CUDA C++ programming guide, "Compute Capabilities", "Technical
//! Specifications per Compute Capability"); how registers and shared memory are rounded is what the occupancy calculator of
//! Nsight Compute lists as physical limits of that capability.

use super::api::device::{BLOCKS_PER_MULTIPROCESSOR, THREADS_PER_MULTIPROCESSOR};

/// Registers of a multiprocessor, which is also the maximum of a block.
pub const REGISTERS: u32 = 64 << 10;
/// The maximum number of registers of a thread.
const REGISTERS_PER_THREAD: u32 = 255;
/// Registers are allocated to a warp in units of this many.
const REGISTER_UNIT: u32 = 256;
/// The number of parts of a multiprocessor's register file, each of which serves its own warps.
const PARTS: u32 = 4;
/// Shared memory of a multiprocessor, bytes.
pub const SHARED_BYTES: u32 = 228 << 10;
/// Shared memory that a block may opt in to, static and dynamic together, bytes.
pub const SHARED_BYTES_OPTIN: u32 = 227 << 10;
/// Shared memory that a block may have without opting in, bytes.
pub const SHARED_BYTES_PER_BLOCK: u32 = 48 << 10;
/// Shared memory that the system reserves for each block, bytes.
pub const SHARED_BYTES_RESERVED: u32 = 1 << 10;
/// Shared memory is allocated in units of this many bytes.
const SHARED_UNIT: u32 = 128;
/// Threads of a warp, and of the largest block.
const WARP: u32 = 32;
const MOST_THREADS: u32 = 1024;

/// The resources that a kernel's code declares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resources {
    /// Registers of a thread.
    pub registers: u32,
    /// Static shared memory of a block, bytes.
    pub shared_bytes: u32,
    /// Local memory of a thread, bytes.
    pub local_bytes: u32,
    /// Threads of the largest block.
    pub max_threads: u32,
}

impl Resources {
    /// Reads the resources from the parts `_regs<N>`, `_smem<N>`, `_local<N>` and `_maxt<N>` of a kernel's name. The
    /// defaults are 32 registers, no memory, and 1024 threads. A block cannot have more threads than there are
    /// registers for.
    pub fn of(name: &str) -> Self {
        let part = |word| name.split('_').find_map(|part| part.strip_prefix(word)?.parse::<u32>().ok());
        let registers = part("regs").unwrap_or(32).clamp(1, REGISTERS_PER_THREAD);
        Self {
            registers,
            shared_bytes: part("smem").unwrap_or(0).min(SHARED_BYTES_PER_BLOCK),
            local_bytes: part("local").unwrap_or(0),
            max_threads: part("maxt")
                .unwrap_or(MOST_THREADS)
                .min(MOST_THREADS)
                .min(warps_by_registers(registers) * WARP),
        }
    }

    /// Returns how many blocks with these threads and this dynamic shared memory (bytes) fit on a multiprocessor; 0 if
    /// none does.
    pub fn blocks_per_multiprocessor(&self, threads: u32, dynamic_bytes: u32) -> u32 {
        let shared = self.shared_bytes.saturating_add(dynamic_bytes);
        if !(1..=self.max_threads).contains(&threads) || shared > SHARED_BYTES_OPTIN {
            return 0;
        }
        let warps = threads.div_ceil(WARP);
        let by_warps = THREADS_PER_MULTIPROCESSOR as u32 / WARP / warps;
        let by_registers = warps_by_registers(self.registers) / warps;
        let by_shared = SHARED_BYTES / (shared.next_multiple_of(SHARED_UNIT) + SHARED_BYTES_RESERVED);
        by_warps.min(by_registers).min(by_shared).min(BLOCKS_PER_MULTIPROCESSOR as u32)
    }

    /// Returns the block size of at most `limit` threads (0 for any) that puts the most threads on a multiprocessor,
    /// and the largest of several. Each size has the dynamic shared memory that `shared_of` returns.
    pub fn best_block(&self, limit: u32, mut shared_of: impl FnMut(u32) -> u32) -> (u32, u32) {
        let most = if limit == 0 { self.max_threads } else { self.max_threads.min(limit) };
        let whole = (1..=most / WARP).rev().map(|warps| warps * WARP);
        let sizes = (!most.is_multiple_of(WARP)).then_some(most).into_iter().chain(whole);
        let tried =
            sizes.map(|threads| (threads, self.blocks_per_multiprocessor(threads, shared_of(threads))));
        tried.fold((0, 0), |best, tried| if tried.0 * tried.1 > best.0 * best.1 { tried } else { best })
    }
}

/// Returns how many warps with this many registers per thread a multiprocessor has registers for.
fn warps_by_registers(registers: u32) -> u32 {
    REGISTERS / PARTS / (registers * WARP).next_multiple_of(REGISTER_UNIT) * PARTS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernels_attributes_are_those_in_its_name() {
        let takes = |registers, shared_bytes, local_bytes, max_threads| Resources {
            registers,
            shared_bytes,
            local_bytes,
            max_threads,
        };
        assert_eq!(Resources::of("spin_20us"), takes(32, 0, 0, 1024));
        assert_eq!(Resources::of("gemm_regs128_smem16384_local64_maxt256_20us"), takes(128, 16384, 64, 256));
        assert_eq!(Resources::of("wide_regs128"), takes(128, 0, 0, 512), "64 Ki registers / 128");
        assert_eq!(Resources::of("wide_regs999_smem99999").registers, 255);
        assert_eq!(Resources::of("regs").registers, 32);
    }

    /// By hand, from the limits of 9.0: 64 warps, 32 blocks, 64 Ki registers in four parts of 16 Ki, 228 KiB.
    #[test]
    fn blocks_fit_as_calculated_by_hand() {
        let blocks =
            |name: &str, threads, shared| Resources::of(name).blocks_per_multiprocessor(threads, shared);
        // 64 warps / 8 of a block.
        assert_eq!(blocks("k_regs32", 256, 0), 8);
        // 64 warps / 1, and 32 blocks at most.
        assert_eq!(blocks("k_regs32", 32, 0), 32);
        // 33 threads are two warps.
        assert_eq!(blocks("k_regs32", 33, 0), 32);
        assert_eq!(blocks("k_regs32", 65, 0), 21, "64 / 3");
        // 128 registers: 4096 a warp, 4 warps in each part, 16 in all; 8 of a block.
        assert_eq!(blocks("k_regs128", 256, 0), 2);
        // 33 registers: 1056, allotted as 1280; 16384 / 1280 = 12 warps a part, 48 in all.
        assert_eq!(blocks("k_regs33", 256, 0), 6);
        // 255 registers: 8160, allotted as 8192; 2 a part, 8 in all.
        assert_eq!(blocks("k_regs255", 256, 0), 1);
        assert_eq!(blocks("k_regs255", 257, 0), 0, "more threads than there are registers for");
        // 16 KiB + 1 KiB: 233472 / 17408 = 13.4; 64 / 2 warps = 32.
        assert_eq!(blocks("k_smem16384", 64, 0), 13);
        assert_eq!(blocks("k", 64, 16384), 13);
        // One byte more is 128 more: 233472 / 17536 = 13.3. 100 KiB: 2; 113 KiB + 1: 2; 114 KiB: 1.
        assert_eq!(blocks("k", 64, 16385), 13);
        assert_eq!(blocks("k", 64, 100 << 10), 2);
        assert_eq!(blocks("k", 64, 113 << 10), 2);
        assert_eq!(blocks("k", 64, 114 << 10), 1);
        assert_eq!(blocks("k", 64, 227 << 10), 1);
        assert_eq!(blocks("k", 64, (227 << 10) + 1), 0);
        assert_eq!(blocks("k_smem1024", 64, 227 << 10), 0, "static and dynamic together");
        assert_eq!(blocks("k_maxt128", 129, 0), 0);
    }

    #[test]
    fn the_best_block_fills_a_multiprocessor_as_far_as_it_goes() {
        assert_eq!(Resources::of("k").best_block(0, |_| 0), (1024, 2));
        assert_eq!(Resources::of("k").best_block(300, |_| 0), (256, 8), "288 threads, 7 blocks, are fewer");
        assert_eq!(Resources::of("k_regs128").best_block(0, |_| 0), (512, 1));
        assert_eq!(
            Resources::of("k").best_block(0, |threads| threads * 128),
            (896, 2),
            "of 112 KiB and 1 each"
        );
        assert_eq!(Resources::of("k").best_block(20, |_| 0), (20, 32));
    }
}
