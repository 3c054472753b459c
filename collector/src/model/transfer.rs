//! What kind of transfer is a copy, and which host memory does it touch?
//!
//! A direction that the program states counts. An unstated one (`cudaMemcpyDefault`, `cuMemcpy`) follows from what is
//! known about the two addresses: managed memory counts as the device's, and an address that CUDA never allocated as
//! the host's.

use super::memory::Blocks;
use super::named::named;
use crate::hash::HashMap;
use crate::trace::record::What;
use gpuspy_wire::record::{Direction, Memory, flag};

named! {
    /// The kind of a transfer, as reports name it.
    pub enum TransferKind {
        /// Host to device.
        HtoD = "HtoD",
        /// Device to host.
        DtoH = "DtoH",
        /// Inside a device.
        DtoD = "DtoD",
        /// Host to host.
        HtoH = "HtoH",
        /// From one device to another.
        PtoP = "PtoP",
        /// A memset.
        Memset = "memset",
    }
}

named! {
    /// The host's side of a transfer.
    pub enum HostMemory {
        /// Ordinary memory, which the driver copies through a buffer of its own.
        Pageable = "pageable",
        /// Page-locked, by allocation or by registration.
        Pinned = "pinned",
        /// Managed (unified) memory.
        Managed = "managed",
        /// No host memory takes part.
        None = "none",
    }
}

impl HostMemory {
    fn of(kind: Option<Memory>) -> Self {
        match kind {
            None => HostMemory::Pageable,
            Some(Memory::Pinned | Memory::Registered) => HostMemory::Pinned,
            Some(Memory::Managed) => HostMemory::Managed,
            Some(_) => HostMemory::None,
        }
    }
}

/// What a copy or a memset moves: direction, kind of host memory, and bytes.
pub type Moved = (TransferKind, HostMemory, u64);

/// What an operation moves; `None` if it is neither a copy nor a memset. `devices` are the devices of the contexts.
pub fn moved(what: &What, blocks: &Blocks, devices: &HashMap<u32, u32>) -> Option<Moved> {
    match *what {
        What::Memcpy { direction, bytes, dst, src, peer_context, .. } => {
            let (kind, host_memory) = of_copy(direction, (src, dst), peer_context, blocks, devices);
            Some((kind, host_memory, bytes))
        }
        What::Memset { bytes, .. } => Some((TransferKind::Memset, HostMemory::None, bytes)),
        What::Kernel { .. } | What::Graph { .. } | What::Burst { .. } => None,
    }
}

/// Whether an operation's call returns only when the operation is done. Inside the call, the driver stages copies
/// from and to pageable memory, whatever the API's name says.
pub fn blocks_host(flags: u16, moved: Option<Moved>) -> bool {
    let is_staged = matches!(moved, Some((TransferKind::HtoD | TransferKind::DtoH, HostMemory::Pageable, _)))
        && flags & (flag::PREFETCH | flag::BATCH) == 0;
    is_synchronous(flags, moved.map(|(kind, ..)| kind)) || is_staged
}

/// Whether a copy of this kind waits because a synchronous call makes it. One between addresses on GPUs does not, whatever the API's
/// name says (CUDA Driver API, "API synchronization behavior").
pub fn is_synchronous(flags: u16, kind: Option<TransferKind>) -> bool {
    flags & flag::BLOCKING != 0 && !matches!(kind, Some(TransferKind::DtoD | TransferKind::PtoP))
}

/// Returns the kind of a copy from one address to another, and that of the host memory that takes part. `peer_context` is the
/// other context that the call names; 0 = none.
pub fn of_copy(
    stated: Direction,
    (src, dst): (u64, u64),
    peer_context: u32,
    blocks: &Blocks,
    devices: &HashMap<u32, u32>,
) -> (TransferKind, HostMemory) {
    let is_peer = peer_context != 0 || are_of_two_devices(src, dst, blocks, devices);
    resolve(stated, src, dst, is_peer, blocks)
}

/// Whether two addresses certainly lie in the memory of two GPUs.
fn are_of_two_devices(src: u64, dst: u64, blocks: &Blocks, devices: &HashMap<u32, u32>) -> bool {
    let device = |address| devices.get(&blocks.context_of(address)?).copied();
    device(src).zip(device(dst)).is_some_and(|(from, to)| from != to)
}

/// Resolves a copy from `src` to `dst`.
fn resolve(stated: Direction, src: u64, dst: u64, peer: bool, blocks: &Blocks) -> (TransferKind, HostMemory) {
    let (from, to) = (blocks.kind_of(src), blocks.kind_of(dst));
    let kind = match stated {
        Direction::HtoD => TransferKind::HtoD,
        Direction::DtoH => TransferKind::DtoH,
        // A program may make such a call without knowing that the addresses are on two GPUs.
        Direction::DtoD if peer => TransferKind::PtoP,
        Direction::DtoD => TransferKind::DtoD,
        Direction::HtoH => TransferKind::HtoH,
        Direction::PtoP => TransferKind::PtoP,
        Direction::Default => match (is_host(from), is_host(to)) {
            (true, false) => TransferKind::HtoD,
            (false, true) => TransferKind::DtoH,
            (true, true) => TransferKind::HtoH,
            (false, false) if peer => TransferKind::PtoP,
            (false, false) => TransferKind::DtoD,
        },
    };
    let host = match kind {
        TransferKind::HtoD => HostMemory::of(from),
        TransferKind::DtoH => HostMemory::of(to),
        // Both sides are the host's: the slower one decides.
        TransferKind::HtoH => HostMemory::of(from).min(HostMemory::of(to)),
        TransferKind::DtoD | TransferKind::PtoP | TransferKind::Memset => HostMemory::None,
    };
    (kind, host)
}

fn is_host(kind: Option<Memory>) -> bool {
    matches!(kind, None | Some(Memory::Pinned | Memory::Registered))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::record::{Alloc, Call};

    const DEVICE: u64 = 0x1000;
    const PINNED: u64 = 0x2000;
    const REGISTERED: u64 = 0x3000;
    const MANAGED: u64 = 0x4000;
    const POOL: u64 = 0x5000;
    const PAGEABLE: u64 = 0x6000;
    const ARRAY: u64 = 0x7000;

    fn blocks() -> Blocks {
        let mut blocks = Blocks::default();
        for (memory, address) in [
            (Memory::Device, DEVICE),
            (Memory::Pinned, PINNED),
            (Memory::Registered, REGISTERED),
            (Memory::Managed, MANAGED),
            (Memory::Pool, POOL),
            (Memory::Array, ARRAY),
        ] {
            blocks.allocated(
                1,
                &Alloc { call: Call::default(), memory, address, bytes: 0x1000, stream: 0, pool: 0 },
            );
        }
        blocks
    }

    /// `cuMemcpyDtoD` was a copy "each of which the host waited for", and had the idle time behind it.
    #[test]
    fn the_host_does_not_wait_for_a_copy_between_addresses_on_gpus() {
        let moved = |kind| Some((kind, HostMemory::None, 4096));
        for kind in [TransferKind::DtoD, TransferKind::PtoP] {
            assert!(!blocks_host(flag::BLOCKING, moved(kind)), "{kind:?}");
        }
        for kind in [TransferKind::HtoD, TransferKind::DtoH, TransferKind::HtoH] {
            assert!(blocks_host(flag::BLOCKING, moved(kind)) && !blocks_host(0, moved(kind)), "{kind:?}");
        }
    }

    #[test]
    fn an_unstated_direction_follows_from_the_addresses() {
        let blocks = blocks();
        for (src, dst, kind, host) in [
            (PAGEABLE, DEVICE, TransferKind::HtoD, HostMemory::Pageable),
            (PINNED + 0xfff, DEVICE, TransferKind::HtoD, HostMemory::Pinned),
            (DEVICE, REGISTERED, TransferKind::DtoH, HostMemory::Pinned),
            (POOL, PAGEABLE, TransferKind::DtoH, HostMemory::Pageable),
            (DEVICE, POOL, TransferKind::DtoD, HostMemory::None),
            (PINNED, PAGEABLE, TransferKind::HtoH, HostMemory::Pageable),
            (PINNED, REGISTERED, TransferKind::HtoH, HostMemory::Pinned),
            (PAGEABLE, MANAGED, TransferKind::HtoD, HostMemory::Pageable),
            (MANAGED, DEVICE, TransferKind::DtoD, HostMemory::None),
            (ARRAY, PINNED, TransferKind::DtoH, HostMemory::Pinned),
            // A handle is not an address: nothing follows it.
            (ARRAY + 1, DEVICE, TransferKind::HtoD, HostMemory::Pageable),
        ] {
            assert_eq!(
                resolve(Direction::Default, src, dst, false, &blocks),
                (kind, host),
                "{src:x} → {dst:x}"
            );
        }
        assert_eq!(resolve(Direction::Default, DEVICE, POOL, true, &blocks).0, TransferKind::PtoP);
    }

    /// The first pass over a trace took such copies for those inside of a GPU.
    #[test]
    fn a_copy_between_two_gpus_is_a_peer_copy_if_the_call_does_not_say_so_either() {
        let mut blocks = Blocks::default();
        for (context, address) in [(1, DEVICE), (2, POOL)] {
            let call = Call { context, ..Call::default() };
            let (memory, bytes, stream, pool) = (Memory::Device, 0x1000, 0, 0);
            blocks.allocated(1, &Alloc { call, memory, address, bytes, stream, pool });
        }
        let (asynchronous, bytes, src, dst, rows, peer_context) = (true, 64, DEVICE, POOL, 1, 0);
        for direction in [Direction::DtoD, Direction::Default] {
            let copy = What::Memcpy { direction, asynchronous, bytes, dst, src, rows, peer_context };
            let kind = |second| moved(&copy, &blocks, &[(1, 0), (2, second)].into_iter().collect());
            assert_eq!(kind(1), Some((TransferKind::PtoP, HostMemory::None, 64)));
            assert_eq!(kind(0), Some((TransferKind::DtoD, HostMemory::None, 64)), "one GPU");
        }
    }

    #[test]
    fn a_stated_direction_keeps_its_kind() {
        let blocks = blocks();
        assert_eq!(resolve(Direction::DtoD, DEVICE, POOL, true, &blocks).0, TransferKind::PtoP);
        for (stated, src, dst, kind, host) in [
            (Direction::HtoD, PAGEABLE, DEVICE, TransferKind::HtoD, HostMemory::Pageable),
            (Direction::HtoD, MANAGED, DEVICE, TransferKind::HtoD, HostMemory::Managed),
            (Direction::HtoD, REGISTERED, 0x9999, TransferKind::HtoD, HostMemory::Pinned),
            (Direction::DtoH, 0x9999, PINNED, TransferKind::DtoH, HostMemory::Pinned),
            (Direction::DtoD, PAGEABLE, PAGEABLE, TransferKind::DtoD, HostMemory::None),
            (Direction::PtoP, DEVICE, DEVICE, TransferKind::PtoP, HostMemory::None),
        ] {
            assert_eq!(resolve(stated, src, dst, false, &blocks), (kind, host), "{stated:?}");
        }
    }
}
