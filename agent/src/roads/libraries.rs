//! The CUDA libraries that are loaded. The agent never loads one.

use crate::hook::Hook;
use crate::roads::{Next, dlsym};
use core::ffi::{CStr, c_int, c_void};
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// libcuda's handle; 0 = not loaded yet. Relaxed: an address that never changes once known (libcuda is not unloaded
/// while a process uses it, and we hold a reference).
static DRIVER: AtomicUsize = AtomicUsize::new(0);

/// The loaded driver library, if it is.
pub fn driver() -> Option<*mut c_void> {
    let known = DRIVER.load(Ordering::Relaxed);
    if known != 0 {
        return Some(known as *mut c_void);
    }
    let handle = loaded(c"libcuda.so.1").or_else(|| loaded(c"libcuda.so"))?;
    DRIVER.store(handle as usize, Ordering::Relaxed);
    Some(handle)
}

/// A library's handle if it is loaded already, under any scope.
fn loaded(name: &CStr) -> Option<*mut c_void> {
    dlsym::quietly(|| {
        // SAFETY: a terminated name; RTLD_NOLOAD never loads.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
        (!handle.is_null()).then_some(handle)
    })
}

/// The file name of a path.
fn file_name(path: &[u8]) -> &[u8] {
    path.rsplit(|b| *b == b'/').next().unwrap_or(path)
}

fn is_runtime_name(path: &[u8]) -> bool {
    file_name(path).starts_with(b"libcudart.so")
}

/// Whether an address lies in a shared libcudart.
pub fn is_runtime(address: usize) -> bool {
    // SAFETY: all-zero is a Dl_info.
    let mut info: libc::Dl_info = unsafe { core::mem::zeroed() };
    // SAFETY: dladdr reads the loader's tables and writes our struct.
    if unsafe { libc::dladdr(address as *const c_void, &mut info) } == 0 || info.dli_fname.is_null() {
        return false;
    }
    // SAFETY: a terminated path that lives as long as the object.
    is_runtime_name(unsafe { CStr::from_ptr(info.dli_fname) }.to_bytes())
}

/// Which runtime function each call site goes on to: a small cache, since finding out walks the loader's list.
/// Keys are call sites, values addresses of code; a torn or lost entry costs one more walk, never a wrong target,
/// because the value is stored before its key (release) and read after it (acquire).
struct Site {
    key: AtomicU64,
    target: AtomicUsize,
}
const SITES: usize = 4096;
static TARGETS: [Site; SITES] =
    [const { Site { key: AtomicU64::new(0), target: AtomicUsize::new(0) } }; SITES];

/// The runtime function that a call from `caller` goes on to.
#[inline]
pub fn runtime_of(caller: u64, hook: &'static Hook) -> Option<Next> {
    // User addresses have their top 16 bits free.
    let key = (u64::from(hook.api) << 48) | caller;
    let place = (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 52) as usize;
    let site = TARGETS.get(place)?;
    // Acquire, with the release below: the target belongs to this key.
    if site.key.load(Ordering::Acquire) == key {
        return Some(Next { address: site.target.load(Ordering::Relaxed), labelled: true });
    }
    find_runtime(caller, hook, key, site)
}

#[cold]
fn find_runtime(caller: u64, hook: &'static Hook, key: u64, site: &Site) -> Option<Next> {
    let mut walk = Walk { caller, runtimes: [None; MAX_RUNTIMES], count: 0, needed: None };
    // SAFETY: the callback gets our own struct back and only reads what the loader shows it.
    unsafe { libc::dl_iterate_phdr(Some(visit), core::ptr::from_mut(&mut walk).cast()) };
    let named = |name: &Name| {
        let mut path = [0u8; NAME_BYTES];
        path.get_mut(..name.length)?.copy_from_slice(name.bytes.get(..name.length)?);
        let handle = loaded(CStr::from_bytes_until_nul(&path).ok()?)?;
        dlsym::in_library(handle, hook.symbol)
    };
    let next = dlsym::next_definition(hook.symbol);
    let (address, labelled) = if walk.count <= 1 {
        // One runtime, or another preload's function in front of it: the next definition; else the runtime itself,
        // whatever scope it was loaded into.
        (next.or_else(|| walk.runtimes.iter().flatten().next().and_then(named))?, true)
    } else {
        let bound = walk.needed.and_then(|needed| {
            walk.runtimes
                .iter()
                .flatten()
                .find(|r| file_name(r.as_bytes()) == needed.as_bytes())
                .and_then(named)
        });
        match bound {
            Some(address) => (address, true),
            None => (next.or_else(|| walk.runtimes.iter().flatten().next().and_then(named))?, false),
        }
    };
    if labelled && site.key.compare_exchange(0, u64::MAX, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
        // An empty place is taken once and kept: two sites that share it would take turns walking.
        site.target.store(address, Ordering::Relaxed);
        site.key.store(key, Ordering::Release);
    }
    Some(Next { address, labelled })
}

const NAME_BYTES: usize = 512;
const MAX_RUNTIMES: usize = 4;

/// A path or file name, kept without a heap.
#[derive(Clone, Copy)]
struct Name {
    bytes: [u8; NAME_BYTES],
    length: usize,
}

impl Name {
    /// `None` when it is too long to be kept with its terminator.
    fn of(text: &[u8]) -> Option<Name> {
        let mut bytes = [0; NAME_BYTES];
        bytes.get_mut(..text.len()).filter(|_| text.len() < NAME_BYTES)?.copy_from_slice(text);
        Some(Name { bytes, length: text.len() })
    }

    fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or(&[])
    }
}

/// What a walk over the loaded objects looks for.
struct Walk {
    caller: u64,
    /// Paths of the loaded runtimes.
    runtimes: [Option<Name>; MAX_RUNTIMES],
    count: usize,
    /// The file name of the runtime that the caller's object was linked against.
    needed: Option<Name>,
}

unsafe extern "C" fn visit(info: *mut libc::dl_phdr_info, _: usize, walk: *mut c_void) -> c_int {
    // SAFETY: the struct that `find_runtime` passed.
    let walk = unsafe { &mut *walk.cast::<Walk>() };
    // SAFETY: the loader's own struct, valid during the callback.
    let info = unsafe { &*info };
    if !info.dlpi_name.is_null() {
        // SAFETY: a terminated path.
        let path = unsafe { CStr::from_ptr(info.dlpi_name) }.to_bytes();
        if is_runtime_name(path) {
            if let Some(place) = walk.runtimes.get_mut(walk.count) {
                *place = Name::of(path);
            }
            walk.count += 1;
        }
    }
    // SAFETY: the loader's array of that many program headers.
    let headers = unsafe { core::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
    let holds_caller = headers.iter().any(|h| {
        let start = info.dlpi_addr.wrapping_add(h.p_vaddr);
        h.p_type == libc::PT_LOAD && walk.caller.wrapping_sub(start) < h.p_memsz
    });
    if holds_caller && let Some(dynamic) = headers.iter().find(|h| h.p_type == libc::PT_DYNAMIC) {
        // SAFETY: a loaded object's dynamic section, which its own header describes.
        walk.needed = unsafe { needed_runtime(info.dlpi_addr, dynamic) };
    }
    0
}

/// The libcudart among an object's DT_NEEDED entries.
///
/// # Safety
/// `dynamic` describes the dynamic section of a loaded object with this load bias.
unsafe fn needed_runtime(bias: u64, dynamic: &libc::Elf64_Phdr) -> Option<Name> {
    const DT_NEEDED: u64 = 1;
    const DT_STRTAB: u64 = 5;
    let entries = bias.wrapping_add(dynamic.p_vaddr) as *const [u64; 2];
    let count = dynamic.p_memsz as usize / 16;
    // SAFETY: that many tag-value pairs, by the header.
    let entries = unsafe { core::slice::from_raw_parts(entries, count) };
    let strings = entries.iter().find(|[tag, _]| *tag == DT_STRTAB).map(|[_, value]| *value)?;
    entries.iter().take_while(|[tag, _]| *tag != 0).filter(|[tag, _]| *tag == DT_NEEDED).find_map(
        |[_, offset]| {
            // SAFETY: an offset into the object's string table (glibc relocates DT_STRTAB to an address).
            let name =
                unsafe { CStr::from_ptr(strings.wrapping_add(*offset) as *const libc::c_char) }.to_bytes();
            is_runtime_name(name).then(|| Name::of(name)).flatten()
        },
    )
}
