//! Names: of kernels, by the handles that launch them, and of everything else that records call by number.
//!
//! A name's number is found by the hash of its text, a handle's name by the handle: both tables only grow, take no lock,
//! and are filled on slow paths (loading a function), so that a launch does one lookup.

use core::ffi::{CStr, c_char};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use gpuspy_wire::communication::is_communication;
use gpuspy_wire::record::{
    CELL_WORDS, Fact, Head, Intern, Kind, LossCause, MAX_TEXT, Namespace, RECORD_VERSION,
};

use crate::cuda::*;
use crate::driver::{self, Driver};
use crate::facts::Shape;
use crate::gpu::poller::Ring;
use crate::keyed::Keyed;
use crate::thread::Call;

/// Distinct kernel names, and distinct handles, of a process.
const NAMES: usize = 1 << 14;
const HANDLES: usize = 1 << 15;
/// In a handle's number: it is a CUkernel.
const KERNEL: u32 = 1 << 31;

/// The kernels' names of a session. Valid when zero.
pub struct Names {
    names: [Name; NAMES],
    /// By CUfunction or CUkernel.
    handles: Keyed<Handle, HANDLES>,
    /// Names that did not fit into a ring yet. Relaxed: the poller looks again.
    unsent: AtomicU32,
    /// A bit for each name: it is a communication kernel's. Relaxed, like `has_communication`: who misses it times one launch as
    /// any other.
    communication: [AtomicU64; NAMES / 64],
    /// There is one.
    has_communication: AtomicBool,
}

struct Name {
    /// The text's hash, never 0; 0 = free. Relaxed: `text` publishes.
    hash: AtomicU64,
    /// The text, while it has not been sent. Release on the store, acquire on the load; taken by whoever sends it.
    text: AtomicPtr<Box<[u8]>>,
}

/// What is known of a launch handle.
struct Handle {
    /// The number of its name, with [`KERNEL`]; 0 = unknown. Relaxed: a number.
    name: AtomicU32,
    /// How often it may have become another's. Relaxed: as the names.
    lives: AtomicU32,
    /// The module or library that it lies in; 0 = unknown. Relaxed: a number.
    owner: AtomicU64,
    /// The last [`Shape`] that it was launched in. Relaxed: who finds another looks closer.
    shape: AtomicU64,
}

/// A launch handle's name.
#[derive(Clone, Copy, Default)]
pub struct KernelName {
    /// In [`Namespace::Kernel`]; 0 = unknown.
    pub id: u32,
    /// The handle is a CUkernel.
    pub is_kernel: bool,
}

/// What stands beside a launch handle's name.
pub struct Sight {
    /// The module or library that it lies in; 0 = unknown.
    pub owner: u64,
    /// From 1 on; another number is another function.
    pub life: u32,
}

impl Names {
    /// The name of a handle that was launched, and whether that was in another shape than the time before.
    #[inline]
    pub fn of_launch(&self, call: &Call, handle: CUfunction, shape: Shape) -> (KernelName, bool) {
        let Some(place) = self.handles.get(handle as u64) else { return (KernelName::default(), false) };
        let name = self.name_at(call, handle, place);
        (name, place.shape.load(Ordering::Relaxed) != shape.word())
    }

    /// What else is known of a handle that has a name, which was launched in this shape.
    pub fn sight(&self, handle: CUfunction, shape: Option<Shape>) -> Option<Sight> {
        let place = self.handles.find(handle as u64)?;
        if let Some(shape) = shape {
            place.shape.store(shape.word(), Ordering::Relaxed);
        }
        let (owner, life) = (place.owner.load(Ordering::Relaxed), place.lives.load(Ordering::Relaxed) + 1);
        (place.name.load(Ordering::Relaxed) != 0).then_some(Sight { owner, life })
    }

    /// A launch handle's name. The first sight of a handle that no loading call has named asks the driver.
    #[inline]
    pub fn of_handle(&self, call: &Call, handle: CUfunction) -> KernelName {
        self.handles
            .get(handle as u64)
            .map_or_else(KernelName::default, |place| self.name_at(call, handle, place))
    }

    #[inline]
    fn name_at(&self, call: &Call, handle: CUfunction, place: &Handle) -> KernelName {
        match place.name.load(Ordering::Relaxed) {
            0 => self.ask(call, handle, place),
            known => KernelName { id: known & !KERNEL, is_kernel: known & KERNEL != 0 },
        }
    }

    /// Asks the driver for a handle's name (CUDA 12.3 and later).
    #[cold]
    fn ask(&self, call: &Call, handle: CUfunction, place: &Handle) -> KernelName {
        let Some(driver) = driver::driver() else { return KernelName::default() };
        let mut text: *const c_char = core::ptr::null();
        for (ask, is_kernel) in [(driver.function_name, false), (driver.kernel_name, true)] {
            // SAFETY: a handle that the app launches; the driver refuses one of the other kind; writes a place of ours.
            let found = ask.is_some_and(|ask| unsafe { ask(&mut text, handle) } == CUDA_SUCCESS);
            if found && !text.is_null() {
                // SAFETY: the driver's terminated string.
                let text = unsafe { CStr::from_ptr(text) }.to_bytes();
                return self.remember(call, place, text, 0, is_kernel);
            }
        }
        KernelName::default()
    }

    /// A loading call has named a handle.
    pub fn learn(&self, call: &Call, handle: CUfunction, text: &[u8], owner: u64, is_kernel: bool) {
        match self.handles.get(handle as u64) {
            Some(place) => {
                self.remember(call, place, text, owner, is_kernel);
            }
            None => call.lost(LossCause::NameLost, 1),
        }
    }

    /// A CUfunction was got from a CUkernel: it has the same name.
    pub fn learn_same(&self, call: &Call, handle: CUfunction, kernel: CUkernel) {
        let name = self.of_handle(call, kernel);
        if name.id != 0
            && let Some(place) = self.handles.get(handle as u64)
        {
            place.name.store(name.id, Ordering::Relaxed);
            let owner = self.handles.get(kernel as u64).map_or(0, |k| k.owner.load(Ordering::Relaxed));
            place.owner.store(owner, Ordering::Relaxed);
        }
    }

    /// A module or library is unloaded: its functions' handles may come back as others'. Those whose owner is not known
    /// may be its, too; the driver is asked for their names again, and for all else.
    pub fn forget(&self, owner: u64) {
        for handle in self.handles.values() {
            let of = handle.owner.load(Ordering::Relaxed);
            if of == owner || of == 0 {
                handle.name.store(0, Ordering::Relaxed);
                handle.shape.store(0, Ordering::Relaxed);
                handle.lives.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    fn remember(&self, call: &Call, place: &Handle, text: &[u8], owner: u64, is_kernel: bool) -> KernelName {
        let errno = crate::sys::Errno::save();
        let id = self.intern(call, text);
        errno.restore();
        if id != 0 {
            place.owner.store(owner, Ordering::Relaxed);
            place.name.store(id | if is_kernel { KERNEL } else { 0 }, Ordering::Relaxed);
        }
        KernelName { id, is_kernel }
    }

    /// Whether any kernel that was named may wait for one of another GPU.
    #[inline]
    pub fn has_communication(&self) -> bool {
        self.has_communication.load(Ordering::Relaxed)
    }

    /// Whether the kernel of this number may.
    pub fn is_communication(&self, id: u32) -> bool {
        let Some(index) = id.checked_sub(1) else { return false };
        let word = self.communication.get(index as usize / 64);
        word.is_some_and(|word| word.load(Ordering::Relaxed) & 1 << (index % 64) != 0)
    }

    /// The number of a text, which is sent now if it is new.
    fn intern(&self, call: &Call, text: &[u8]) -> u32 {
        let hash = hash(text);
        let start = hash as usize % NAMES;
        for n in 0..64 {
            let index = (start + n) % NAMES;
            let Some(name) = self.names.get(index) else { return 0 };
            let id = index as u32 + 1;
            match name.hash.compare_exchange(0, hash, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => {
                    if is_communication(text)
                        && let Some(word) = self.communication.get(index / 64)
                    {
                        word.fetch_or(1 << (index % 64), Ordering::Relaxed);
                        self.has_communication.store(true, Ordering::Relaxed);
                    }
                    let sent = with_intern(Namespace::Kernel, id, text, |words| call.push_words(words));
                    if !sent {
                        let text = Box::into_raw(Box::new(Box::<[u8]>::from(text)));
                        name.text.store(text, Ordering::Release);
                        self.unsent.fetch_add(1, Ordering::Relaxed);
                    }
                    return id;
                }
                Err(other) if other == hash => return id,
                Err(_) => {}
            }
        }
        call.lost(LossCause::NameLost, 1);
        0
    }

    /// Poller: sends the names that found a full ring.
    pub fn tell_unsent(&self, ring: &mut Ring) {
        if self.unsent.load(Ordering::Relaxed) == 0 {
            return;
        }
        for (index, name) in self.names.iter().enumerate() {
            let text = name.text.swap(core::ptr::null_mut(), Ordering::AcqRel);
            if text.is_null() {
                continue;
            }
            // SAFETY: stored by `intern`, and ours alone since the swap.
            let text = unsafe { Box::from_raw(text) };
            if with_intern(Namespace::Kernel, index as u32 + 1, &text, |words| ring.push(words)) {
                self.unsent.fetch_sub(1, Ordering::Relaxed);
            } else {
                name.text.store(Box::into_raw(text), Ordering::Release);
            }
        }
    }

    /// Poller: the names that every session begins with.
    pub fn introduce(&self, ring: &mut Ring) {
        for hook in crate::table::all() {
            tell(ring, Namespace::Api, u32::from(hook.api), hook.base.to_bytes());
        }
        tell(ring, Namespace::Fact, Fact::AgentVersion as u32, env!("CARGO_PKG_VERSION").as_bytes());
        let mut buffer = [0u8; 4096];
        if let Some(line) = crate::sys::read_file(c"/proc/self/cmdline", &mut buffer) {
            tell(ring, Namespace::Fact, Fact::CommandLine as u32, line);
        }
        // SAFETY: a terminated path and a buffer of ours.
        let n =
            unsafe { libc::readlink(c"/proc/self/exe".as_ptr(), buffer.as_mut_ptr().cast(), buffer.len()) };
        if let Some(path) = usize::try_from(n).ok().and_then(|n| buffer.get(..n)) {
            tell(ring, Namespace::Fact, Fact::Executable as u32, path);
        }
        // SAFETY: a buffer of ours, shorter by one than told, so that the zero behind the name stays.
        if unsafe { libc::gethostname(buffer.as_mut_ptr().cast(), 255) } == 0
            && let Ok(host) = CStr::from_bytes_until_nul(&buffer)
        {
            tell(ring, Namespace::Fact, Fact::Host as u32, host.to_bytes());
        }
    }

    /// A device's name, and the driver's version with the first.
    pub fn device(&self, call: &Call, driver: &Driver, ordinal: u32) {
        let mut name = [0 as c_char; 256];
        // SAFETY: a buffer of ours, shorter by one than told.
        let named = driver
            .device_name
            .is_some_and(|ask| unsafe { ask(name.as_mut_ptr(), 255, ordinal as CUdevice) } == 0);
        if named {
            // SAFETY: terminated: the last byte was never told of.
            let text = unsafe { CStr::from_ptr(name.as_ptr()) }.to_bytes();
            with_intern(Namespace::Device, ordinal + 1, text, |words| call.push_words(words));
        }
        let mut version = 0;
        // SAFETY: writes a place of ours.
        if driver.version.is_some_and(|ask| unsafe { ask(&mut version) } == CUDA_SUCCESS) {
            let mut digits = [0u8; 12];
            let text = decimal(version.unsigned_abs(), &mut digits);
            with_intern(Namespace::Fact, Fact::DriverVersion as u32, text, |words| call.push_words(words));
        }
    }
}

/// Publishes a fact about the process from a hook.
pub fn tell_fact(call: &Call, fact: Fact, text: &[u8]) {
    with_intern(Namespace::Fact, fact as u32, text, |words| call.push_words(words));
}

/// Publishes a name from the poller.
pub fn tell(ring: &mut Ring, namespace: Namespace, id: u32, text: &[u8]) -> bool {
    with_intern(namespace, id, text, |words| ring.push(words))
}

/// Builds the record of a name, cut to what a record holds, and hands its words on.
pub fn with_intern<T>(namespace: Namespace, id: u32, text: &[u8], push: impl FnOnce(&[u64]) -> T) -> T {
    let kept = text.get(..MAX_TEXT).unwrap_or(text);
    let cells = Intern::cells(kept.len());
    let mut words = vec![0u64; cells * CELL_WORDS];
    let head =
        Head { kind: Kind::Intern as u8, cells: cells as u8, version: RECORD_VERSION, ..Head::default() };
    let intern = Intern {
        head,
        id,
        length: kept.len() as u16,
        namespace: namespace as u8,
        cut: u8::from(kept.len() < text.len()),
    };
    // SAFETY: the vector holds the struct and the text behind it, by `Intern::cells`; integers only.
    unsafe {
        words.as_mut_ptr().cast::<Intern>().write(intern);
        let at = words.as_mut_ptr().cast::<u8>().add(size_of::<Intern>());
        core::ptr::copy_nonoverlapping(kept.as_ptr(), at, kept.len());
    }
    push(&words)
}

/// FNV-1a, 64 bits (Fowler, Noll, Vo), never 0. Two of a process's few thousand kernel names collide with a
/// probability below 1e-11.
pub fn hash(text: &[u8]) -> u64 {
    let mixed = text
        .iter()
        .fold(0xCBF2_9CE4_8422_2325, |h: u64, b| (h ^ u64::from(*b)).wrapping_mul(0x100_0000_01B3));
    mixed.max(1)
}

fn decimal(mut number: u32, digits: &mut [u8; 12]) -> &[u8] {
    let mut at = digits.len();
    loop {
        at -= 1;
        if let Some(place) = digits.get_mut(at) {
            *place = b'0' + (number % 10) as u8;
        }
        number /= 10;
        if number == 0 {
            return digits.get(at..).unwrap_or(&[]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_cut_to_what_a_record_holds_and_says_so() {
        for (length, kept, cut) in
            [(0, 0, 0), (5, 5, 0), (MAX_TEXT, MAX_TEXT, 0), (MAX_TEXT + 1, MAX_TEXT, 1)]
        {
            let text: Vec<u8> = (0..length).map(|n| b'a' + (n % 26) as u8).collect();
            with_intern(Namespace::Kernel, 7, &text, |words| {
                let (intern, read) = Intern::text(words).unwrap();
                assert_eq!((read, intern.id, intern.cut), (&text[..kept], 7, cut));
                assert_eq!(words.len(), usize::from(intern.head.cells) * CELL_WORDS);
            });
        }
    }

    #[test]
    fn numbers_are_written_in_decimal() {
        assert_eq!(decimal(0, &mut [0; 12]), b"0");
        assert_eq!(decimal(12090, &mut [0; 12]), b"12090");
        assert_eq!(decimal(u32::MAX, &mut [0; 12]), b"4294967295");
    }
}
