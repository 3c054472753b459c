//! The objects that the process has loaded, by which the collector resolves a caller's address to a library. The poller
//! sends them when they change.

mod build_id;

use build_id::build_id;
use core::ffi::{CStr, c_int, c_void};
use gpuspy_wire::build_id::BuildId;
use gpuspy_wire::record::{Head, Module, Namespace, Record};

use crate::sink::Ring;
use crate::sink::text::publish;
use crate::sys::ticks;

/// The objects that have been sent.
#[derive(Default)]
pub struct Modules {
    /// The loader's count of objects ever added, when the poller last checked.
    adds: u64,
    /// Those that were sent, by their number − 1.
    published: Vec<Object>,
}

/// One loaded object.
#[derive(PartialEq, Eq)]
struct Object {
    bias: u64,
    start: u64,
    end: u64,
    path: Box<[u8]>,
    build_id: BuildId,
}

impl Modules {
    /// Sends the objects that were not sent yet. This takes no lock that a constructor of the app's could hold: glibc
    /// guards the list with a lock of its own, which dlopen holds only while it links an object in.
    pub fn publish_new(&mut self, ring: &mut Ring) {
        let mut adds = 0u64;
        // SAFETY: the callback gets our own variable back.
        unsafe { libc::dl_iterate_phdr(Some(count_adds), core::ptr::from_mut(&mut adds).cast()) };
        if adds == self.adds {
            return;
        }
        let mut objects: Vec<Object> = Vec::new();
        // SAFETY: as above.
        unsafe { libc::dl_iterate_phdr(Some(collect), core::ptr::from_mut(&mut objects).cast()) };
        for object in objects {
            if self.published.contains(&object) {
                continue;
            }
            let id = self.published.len() as u32 + 1;
            let record = Module {
                head: Head::new::<Module>(),
                at: ticks(),
                start: object.start,
                end: object.end,
                bias: object.bias,
                path: id,
                build_id: object.build_id,
            };
            if !(publish(ring, Namespace::Path, id, &object.path) && ring.push(record.as_words())) {
                return; // the ring is full: the rest is sent next time
            }
            self.published.push(object);
        }
        self.adds = adds;
    }
}

unsafe extern "C" fn count_adds(info: *mut libc::dl_phdr_info, _: usize, adds: *mut c_void) -> c_int {
    // SAFETY: the loader's struct, and the variable that `publish_new` passed.
    unsafe { *adds.cast::<u64>() = (*info).dlpi_adds };
    1 // stop: the count is the same for every object
}

unsafe extern "C" fn collect(info: *mut libc::dl_phdr_info, _: usize, objects: *mut c_void) -> c_int {
    // SAFETY: the vector that `publish_new` passed.
    let objects = unsafe { &mut *objects.cast::<Vec<Object>>() };
    // SAFETY: the loader's struct, valid during the callback.
    let info = unsafe { &*info };
    // SAFETY: the loader's array of that many program headers.
    let headers = unsafe { core::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
    let loaded = || headers.iter().filter(|h| h.p_type == libc::PT_LOAD);
    let (Some(start), Some(end)) =
        (loaded().map(|h| h.p_vaddr).min(), loaded().map(|h| h.p_vaddr.wrapping_add(h.p_memsz)).max())
    else {
        return 0;
    };
    let name = if info.dlpi_name.is_null() {
        &[]
    } else {
        // SAFETY: a terminated path.
        unsafe { CStr::from_ptr(info.dlpi_name) }.to_bytes()
    };
    objects.push(Object {
        bias: info.dlpi_addr,
        start: info.dlpi_addr.wrapping_add(start),
        end: info.dlpi_addr.wrapping_add(end),
        // The program itself has no name in the loader's list.
        path: if name.is_empty() && objects.is_empty() { program() } else { name.into() },
        // SAFETY: the object is loaded while the loader calls us: its segments are mapped.
        build_id: unsafe { build_id(info.dlpi_addr, headers) },
    });
    0
}

fn program() -> Box<[u8]> {
    let mut buffer = [0u8; 4096];
    // SAFETY: a terminated path and a buffer of ours.
    let n = unsafe { libc::readlink(c"/proc/self/exe".as_ptr(), buffer.as_mut_ptr().cast(), buffer.len()) };
    usize::try_from(n).ok().and_then(|n| buffer.get(..n)).unwrap_or(b"?").into()
}
