//! Virtual memory management: ranges of addresses, physical memory, and mappings of one to the other.
//!
//! Physical memory is a file in memory, so that two mappings of it show the same bytes.

use crate::error::{INVALID_HANDLE, INVALID_VALUE, OUT_OF_MEMORY, Outcome};
use crate::handle::{Handle, Kind, Table};
use crate::interprocess::PAGE;
use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::FileExt;

/// `cuMemGetAllocationGranularity`: what the driver answers for GPU memory on every GPU so far.
pub const GRANULARITY: u64 = 2 << 20;

/// The object that a handle names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Memory of a device, created by this process: it counts.
    Device(u32),
    /// The host's.
    Host,
    /// Another handle's, perhaps another process's.
    Imported,
    /// A multicast object, whose address stands for all memory bound to it.
    Multicast,
}

/// Physical memory.
#[derive(Debug)]
pub struct Physical {
    /// Its size.
    pub bytes: u64,
    /// Whose it is.
    pub origin: Origin,
    /// Handles of it that were not released.
    pub references: u32,
    /// Mappings of it.
    pub mappings: u32,
    /// It can be exported as a file descriptor.
    pub shared: bool,
    /// Its bytes.
    pub file: File,
}

/// A mapping.
#[derive(Clone, Copy, Debug)]
pub struct Mapping {
    /// Its size.
    pub bytes: u64,
    /// The physical memory.
    pub handle: Handle,
}

/// All of it.
#[derive(Debug)]
pub struct VirtualMemory {
    /// Bytes of each range, by first address.
    reservations: BTreeMap<u64, u64>,
    mappings: BTreeMap<u64, Mapping>,
    /// By handle.
    pub physical: Table<Physical>,
}

impl Default for VirtualMemory {
    fn default() -> Self {
        let physical = Table::new(Kind::Physical);
        Self { reservations: BTreeMap::new(), mappings: BTreeMap::new(), physical }
    }
}

fn mapped(address: u64, bytes: u64, protection: i32, file: Option<&File>, fixed: bool) -> Outcome<u64> {
    let length = usize::try_from(bytes).map_err(|_| OUT_OF_MEMORY)?;
    let fixed = if fixed { libc::MAP_FIXED } else { 0 };
    let (how, descriptor) = match file {
        Some(file) => (libc::MAP_SHARED, file.as_raw_fd()),
        None => (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE, -1),
    };
    // SAFETY: at no particular address, or at one of a range that this module reserved and the application has no right to.
    let got = unsafe { libc::mmap(address as *mut _, length, protection, how | fixed, descriptor, 0) };
    if got == libc::MAP_FAILED { Err(OUT_OF_MEMORY) } else { Ok(got as u64) }
}

/// Creates an empty file of this size that only this process sees.
pub fn memory_file(bytes: u64) -> Outcome<File> {
    // SAFETY: a C string; nothing else has the new descriptor.
    let file = unsafe {
        match libc::memfd_create(c"simcuda".as_ptr(), libc::MFD_CLOEXEC) {
            -1 => return Err(OUT_OF_MEMORY),
            descriptor => File::from_raw_fd(descriptor),
        }
    };
    file.set_len(bytes).map_err(|_| OUT_OF_MEMORY)?;
    Ok(file)
}

/// Maps a page of a file, which all processes that map it share.
pub fn shared_page(file: &File, offset: u64) -> Outcome<u64> {
    let (protection, descriptor) = (libc::PROT_READ | libc::PROT_WRITE, file.as_raw_fd());
    // SAFETY: at no particular address.
    let got = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            PAGE as usize,
            protection,
            libc::MAP_SHARED,
            descriptor,
            offset as i64,
        )
    };
    if got == libc::MAP_FAILED { Err(OUT_OF_MEMORY) } else { Ok(got as u64) }
}

impl VirtualMemory {
    /// Reserves a range. cuda.h, cuMemAddressReserve: size a multiple of the host's page; alignment a power of two, or 0.
    /// Ranges are aligned to the granularity at least.
    pub fn reserve(&mut self, bytes: u64, alignment: u64) -> Outcome<u64> {
        if bytes == 0 || !bytes.is_multiple_of(4096) || (alignment != 0 && !alignment.is_power_of_two()) {
            return Err(INVALID_VALUE);
        }
        let alignment = alignment.max(GRANULARITY);
        let room = bytes.checked_add(alignment).ok_or(OUT_OF_MEMORY)?;
        let all = mapped(0, room, libc::PROT_NONE, None, false)?;
        let address = all.next_multiple_of(alignment);
        // SAFETY: the ends of the mapping made above, whose address nothing else has.
        unsafe {
            libc::munmap(all as *mut _, (address - all) as usize);
            libc::munmap((address + bytes) as *mut _, (all + room - address - bytes) as usize);
        }
        self.reservations.insert(address, bytes);
        Ok(address)
    }

    /// Releases a range. cuda.h, cuMemAddressFree: with the address and size of its reservation, and with nothing
    /// mapped in it.
    pub fn unreserve(&mut self, address: u64, bytes: u64) -> Outcome {
        let is_mapped = self.mappings.range(address..address.saturating_add(bytes)).next().is_some();
        if self.reservations.get(&address) != Some(&bytes) || is_mapped {
            return Err(INVALID_VALUE);
        }
        self.reservations.remove(&address);
        // SAFETY: a range of ours in which nothing is mapped.
        unsafe { libc::munmap(address as *mut _, bytes as usize) };
        Ok(())
    }

    /// Returns whether an address lies in a range.
    pub fn is_reserved(&self, address: u64) -> bool {
        self.reservations.range(..=address).next_back().is_some_and(|(first, bytes)| address - first < *bytes)
    }

    /// Returns whether a mapping starts at an address.
    pub fn is_mapped(&self, address: u64) -> bool {
        self.mappings.contains_key(&address)
    }

    /// Returns the mapping that contains an address.
    pub fn mapping_at(&self, address: u64) -> Option<Mapping> {
        let (first, mapping) = self.mappings.range(..=address).next_back()?;
        (address - first < mapping.bytes).then_some(*mapping)
    }

    /// Maps physical memory, which no device can access yet. cuda.h, cuMemMap: inside one range, where nothing is
    /// mapped; address and size are multiples of the granularity; the offset "currently must be zero".
    pub fn map(&mut self, address: u64, bytes: u64, offset: u64, handle: Handle) -> Outcome {
        let physical = self.physical.get_mut(handle).ok_or(INVALID_HANDLE)?;
        let aligned = [address, bytes].iter().all(|number| number.is_multiple_of(GRANULARITY));
        let reserved = self.reservations.range(..=address).next_back();
        let inside = reserved.is_some_and(|(first, all)| address - first + bytes <= *all);
        let free = self.mappings.range(..address.saturating_add(bytes)).next_back();
        let free = free.is_none_or(|(first, mapping)| first + mapping.bytes <= address);
        if bytes == 0 || offset != 0 || !aligned || !inside || !free || bytes > physical.bytes {
            return Err(INVALID_VALUE);
        }
        physical.mappings += 1;
        self.mappings.insert(address, Mapping { bytes, handle });
        Ok(())
    }

    /// The mappings that make up a range exactly. cuda.h, cuMemUnmap: a range must have been mapped as a whole.
    pub fn mappings_in(&self, address: u64, bytes: u64) -> Outcome<Vec<(u64, Mapping)>> {
        let all: Vec<_> =
            self.mappings.range(address..address.saturating_add(bytes)).map(|(a, m)| (*a, *m)).collect();
        let mut end = address;
        for (first, mapping) in &all {
            if *first != end {
                return Err(INVALID_VALUE);
            }
            end += mapping.bytes;
        }
        if bytes == 0 || end != address + bytes { Err(INVALID_VALUE) } else { Ok(all) }
    }

    /// Removes a mapping. Its addresses stay reserved.
    pub fn unmap(&mut self, address: u64) -> Outcome {
        let Mapping { bytes, handle } = self.mappings.remove(&address).ok_or(INVALID_VALUE)?;
        if let Some(physical) = self.physical.get_mut(handle) {
            physical.mappings -= 1;
        }
        mapped(address, bytes, libc::PROT_NONE, None, true).map(|_| ())
    }

    /// Sets whether devices may access a mapping.
    pub fn protect(&mut self, address: u64, can_use: bool) -> Outcome {
        let Mapping { bytes, handle } = *self.mappings.get(&address).ok_or(INVALID_VALUE)?;
        let physical = self.physical.get(handle).ok_or(INVALID_HANDLE)?;
        let protection = if can_use { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_NONE };
        mapped(address, bytes, protection, Some(&physical.file), true).map(|_| ())
    }

    /// Removes and returns physical memory that has neither references nor mappings (cuda.h, cuMemRelease).
    pub fn settle(&mut self, handle: Handle) -> Option<Physical> {
        let Physical { references, mappings, .. } = *self.physical.get(handle)?;
        if references == 0 && mappings == 0 { self.physical.remove(handle) } else { None }
    }
}

/// The trailer of a shared file, after its bytes, by which another process recognises it as memory.
const SHARED: &[u8; 8] = b"simcuda\n";

impl Physical {
    /// Returns a file descriptor for another process: a duplicate.
    pub fn export(&self) -> Outcome<i32> {
        self.file.write_all_at(SHARED, self.bytes).map_err(|_| OUT_OF_MEMORY)?;
        // SAFETY: a descriptor of ours.
        match unsafe { libc::dup(self.file.as_raw_fd()) } {
            -1 => Err(OUT_OF_MEMORY),
            descriptor => Ok(descriptor),
        }
    }

    /// Imports an exported descriptor, which still belongs to the caller.
    pub fn import(descriptor: i32) -> Outcome<Self> {
        // SAFETY: the descriptor is only duplicated; the file's trailer says what it is.
        let file = match unsafe { libc::fcntl(descriptor, libc::F_DUPFD_CLOEXEC, 0) } {
            -1 => return Err(INVALID_VALUE),
            // SAFETY: a descriptor of our own now.
            copy => unsafe { File::from_raw_fd(copy) },
        };
        let length = file.metadata().map_err(|_| INVALID_VALUE)?.len();
        let bytes = length.checked_sub(SHARED.len() as u64).ok_or(INVALID_VALUE)?;
        let mut end = [0; SHARED.len()];
        file.read_exact_at(&mut end, bytes).map_err(|_| INVALID_VALUE)?;
        if end != *SHARED {
            return Err(INVALID_VALUE);
        }
        Ok(Self { bytes, origin: Origin::Imported, references: 1, mappings: 0, shared: true, file })
    }
}
