//! Names: of kernels, by the handles that launch them, and of everything else that records refer to by number.
//!
//! A name's number is found by the hash of its text, a handle's name by the handle: both tables only grow, take no
//! lock, and are filled on slow paths (loading a function), so that a launch does one lookup.
//!
//! A launch takes a CUkernel in a CUfunction's place. The functions that query either take their own kind only (cuda.h
//! names the exceptions: launches and occupancy), and no document says what a driver does with the other kind: it may
//! read memory that is not there. So every call that returns a handle, or takes one as of its kind, reports the kind
//! here ([`Form`]), and the driver is called with that kind only. A handle that no such call reported came from a call
//! without a hook. It is queried as a CUfunction, for three reasons: that is the type of the launch's parameter; every
//! documented call that returns a CUkernel has a hook, while CUfunctions come from undocumented ones too (a runtime's
//! export tables, a graph's nodes); and only for CUfunctions is it reported that a driver refuses the other kind
//! (accel-sim-framework #521: cuFuncGetAttribute of a CUkernel returns INVALID_HANDLE). Only where the driver refuses
//! the handle as a CUfunction is it queried as a CUkernel.

use core::ffi::{CStr, c_char};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use gpuspy_wire::communication::is_communication;
use gpuspy_wire::record::{Fact, LossCause, Namespace};

use crate::cuda::*;
use crate::driver::{self, Driver, Form};
use crate::hook::{Hooks, Table};
use crate::keyed::Keyed;
use crate::shape::Shape;
use crate::sink::Ring;
use crate::sink::text::{hash, publish, with_intern};
use crate::thread::Call;

/// Distinct kernel names, and distinct handles, of a process.
const NAMES: usize = 1 << 14;
const HANDLES: usize = 1 << 15;
/// The most bytes of names that are kept for a collector that comes later.
const MOST_KEPT: usize = 16 << 20;
/// Bits of a handle's word, beside its name's number: a call has reported that it is a CUkernel, or a CUfunction.
const KERNEL: u32 = 1 << 31;
const FUNCTION: u32 = 1 << 30;
/// The bits of a handle's word that are its name's number.
const NUMBER: u32 = FUNCTION - 1;

/// The kernels' names of a session. Valid when zero.
pub struct Names {
    names: [Name; NAMES],
    /// By CUfunction or CUkernel.
    handles: Keyed<Handle, HANDLES>,
    /// A bit for each name that the poller has to send. Release by the thread that stores the text, acquire by the
    /// poller.
    unsent: [AtomicU64; NAMES / 64],
    /// The bytes of all texts. Relaxed: a limit.
    kept: AtomicUsize,
    /// A bit for each name: it is a communication kernel's. Relaxed, like `has_communication`: a thread that misses it
    /// times one launch like any other.
    communication: [AtomicU64; NAMES / 64],
    /// Whether there is one.
    has_communication: AtomicBool,
}

struct Name {
    /// The text's hash, never 0; 0 = free. Relaxed: `text` publishes.
    hash: AtomicU64,
    /// The text, or null: it is not there yet, or was too much to keep. Release on the store, acquire on the load. Never
    /// freed.
    text: AtomicPtr<Box<[u8]>>,
}

impl Name {
    fn text(&self) -> Option<&[u8]> {
        // SAFETY: null, or leaked by `Names::keep`.
        unsafe { self.text.load(Ordering::Acquire).as_ref() }.map(|text| &**text)
    }
}

/// What is known of a launch handle.
struct Handle {
    /// The number of its name, 0 = unknown, with [`KERNEL`] or [`FUNCTION`] where its kind is known. Relaxed: one word.
    name: AtomicU32,
    /// How often it may have become another function's. Relaxed, like the name.
    lives: AtomicU32,
    /// The module or library that it lies in; 0 = unknown. Relaxed: a number.
    owner: AtomicU64,
    /// The last [`Shape`] that it was launched in. Relaxed: a thread that finds another one takes the slow path, which
    /// checks.
    shape: AtomicU64,
}

impl Form {
    const fn bit(self) -> u32 {
        match self {
            Form::Function => FUNCTION,
            Form::Kernel => KERNEL,
        }
    }
}

/// A launch handle's name.
#[derive(Clone, Copy, Default)]
pub struct KernelName {
    /// In [`Namespace::Kernel`]; 0 = unknown.
    pub id: u32,
    /// The handle is a CUkernel.
    pub is_kernel: bool,
}

impl KernelName {
    /// Reads a handle's word.
    #[inline]
    fn of(word: u32) -> KernelName {
        KernelName { id: word & NUMBER, is_kernel: word & KERNEL != 0 }
    }
}

impl Handle {
    /// Sets what the handle is from now on. Another function than before begins another life.
    fn becomes(&self, word: u32, owner: u64) {
        self.owner.store(owner, Ordering::Relaxed);
        let before = self.name.swap(word, Ordering::Relaxed);
        if before & NUMBER != 0 && before != word {
            self.shape.store(0, Ordering::Relaxed);
            self.lives.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Forgets the handle's name, and keeps its kind.
    fn forget_name(&self) {
        if self.name.load(Ordering::Relaxed) & NUMBER != 0 {
            self.name.fetch_and(!NUMBER, Ordering::Relaxed);
            self.shape.store(0, Ordering::Relaxed);
            self.lives.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// What is known of a launch handle beside its name.
pub struct Sight {
    /// The module or library that it lies in; 0 = unknown.
    pub owner: u64,
    /// Counted from 1; another number means another function.
    pub life: u32,
}

impl Names {
    /// Returns the name of a handle that was launched, if it is known and the launch before had the same shape.
    #[inline(always)]
    pub fn of_known_launch(&self, handle: CUfunction, shape: Shape) -> Option<KernelName> {
        let place = self.handles.first(handle as u64)?;
        let name = KernelName::of(place.name.load(Ordering::Relaxed));
        (name.id != 0 && place.shape.load(Ordering::Relaxed) == shape.word()).then_some(name)
    }

    /// Returns the name of a handle that was launched, and whether its shape differs from that of its last launch.
    #[inline(always)]
    pub fn of_launch(&self, call: &Call, handle: CUfunction, shape: Shape) -> (KernelName, bool) {
        if let Some(place) = self.handles.first(handle as u64) {
            let name = KernelName::of(place.name.load(Ordering::Relaxed));
            if name.id != 0 {
                return (name, place.shape.load(Ordering::Relaxed) != shape.word());
            }
        }
        self.of_first_launch(call, handle, shape)
    }

    #[cold]
    fn of_first_launch(&self, call: &Call, handle: CUfunction, shape: Shape) -> (KernelName, bool) {
        let Some(place) = self.handles.get(handle as u64) else { return (KernelName::default(), false) };
        let name = self.name_at(call, handle, place);
        (name, place.shape.load(Ordering::Relaxed) != shape.word())
    }

    /// Returns what else is known of a handle that has a name, and stores the shape that it was launched in.
    pub fn sight(&self, handle: CUfunction, shape: Option<Shape>) -> Option<Sight> {
        let place = self.handles.find(handle as u64)?;
        if let Some(shape) = shape {
            place.shape.store(shape.word(), Ordering::Relaxed);
        }
        let (owner, life) = (place.owner.load(Ordering::Relaxed), place.lives.load(Ordering::Relaxed) + 1);
        (place.name.load(Ordering::Relaxed) != 0).then_some(Sight { owner, life })
    }

    /// Returns a launch handle's name. If no loading call has named the handle, its first use queries the driver.
    #[inline]
    pub fn of_handle(&self, call: &Call, handle: CUfunction) -> KernelName {
        self.handles
            .get(handle as u64)
            .map_or_else(KernelName::default, |place| self.name_at(call, handle, place))
    }

    #[inline]
    fn name_at(&self, call: &Call, handle: CUfunction, place: &Handle) -> KernelName {
        match place.name.load(Ordering::Relaxed) {
            form_bits if form_bits & NUMBER == 0 => self.query(call, handle, place, form_bits),
            known => KernelName::of(known),
        }
    }

    /// Returns the handle of a graph's node by which its kernel is known, and the name. Where a node has two handles
    /// and the name of one is known, the driver is not called. `kern` is a CUkernel, whatever `func` may be (cuda.h,
    /// CUDA_KERNEL_NODE_PARAMS).
    pub fn of_node(&self, call: &Call, node: &CUDA_KERNEL_NODE_PARAMS_v2) -> (CUfunction, KernelName) {
        let handles = [node.first.func, node.kern];
        for handle in handles {
            let word = self.handles.find(handle as u64).map_or(0, |place| place.name.load(Ordering::Relaxed));
            if word & NUMBER != 0 {
                return (handle, KernelName::of(word));
            }
        }
        let [func, kern] = handles;
        if !kern.is_null() {
            self.note_handle(kern, 0, Form::Kernel);
            let name = self.of_handle(call, kern);
            if name.id != 0 {
                return (kern, name);
            }
        }
        (func, self.of_handle(call, func))
    }

    /// Queries the driver for a handle's name (CUDA 12.3 and later), as the kind that was reported, or as the module
    /// documentation says.
    #[cold]
    fn query(&self, call: &Call, handle: CUfunction, place: &Handle, form_bits: u32) -> KernelName {
        let Some(driver) = driver::driver() else { return KernelName::of(form_bits) };
        let (answer, form_bits) = match form_bits {
            KERNEL => (driver.name_of_kernel(handle), KERNEL),
            FUNCTION => (driver.name_of_function(handle), FUNCTION),
            _ => match driver.name_of_function(handle) {
                Err(ERROR_INVALID_HANDLE | ERROR_INVALID_VALUE) => (driver.name_of_kernel(handle), KERNEL),
                // Success proves nothing about the kind: a driver may accept either.
                answer => (answer, 0),
            },
        };
        // An error from both says nothing about the kind.
        let Ok(text) = answer else { return KernelName::of(place.name.load(Ordering::Relaxed)) };
        // SAFETY: the driver's terminated string, which lives as long as the function that the app is using.
        let text = unsafe { CStr::from_ptr(text) }.to_bytes();
        self.remember(call, place, text, place.owner.load(Ordering::Relaxed), form_bits)
    }

    /// Stores the name that a loading call has given a handle.
    pub fn learn(&self, call: &Call, handle: CUfunction, text: &[u8], owner: u64, form: Form) {
        match self.handles.get(handle as u64) {
            Some(place) => {
                self.remember(call, place, text, owner, form.bit());
            }
            None => call.lost(LossCause::NameLost, 1),
        }
    }

    /// Stores the kind of a handle whose name is not known: it is queried when the handle is launched. A call that does
    /// not know the owner (0) changes nothing where the handle is known to be of that kind.
    pub fn note_handle(&self, handle: CUfunction, owner: u64, form: Form) {
        let Some(place) = self.handles.get(handle as u64) else { return };
        let is_known = place.name.load(Ordering::Relaxed) & (KERNEL | FUNCTION) == form.bit();
        if owner != 0 || !is_known {
            place.becomes(form.bit(), owner);
        }
    }

    /// Gives a CUfunction that was obtained from a CUkernel the same name.
    pub fn learn_same(&self, call: &Call, handle: CUfunction, kernel: CUkernel) {
        self.note_handle(kernel, 0, Form::Kernel);
        let name = self.of_handle(call, kernel);
        if let (Some(place), Some(of)) = (self.handles.get(handle as u64), self.handles.find(kernel as u64)) {
            place.becomes(name.id | FUNCTION, of.owner.load(Ordering::Relaxed));
        }
    }

    /// Forgets the names of a module or library that is unloaded, since its functions' handles may be reused for
    /// others. Handles whose owner is not known may be its functions too: the driver is queried again for their names
    /// and everything else. Kinds stay: unloading may fail, and where a handle is reused, the call that returns it
    /// reports its kind.
    pub fn forget(&self, owner: u64) {
        for handle in self.handles.values() {
            let of = handle.owner.load(Ordering::Relaxed);
            if of != owner && of != 0 {
                continue;
            }
            handle.forget_name();
            if of != 0 {
                handle.owner.store(0, Ordering::Relaxed);
            }
        }
    }

    /// Forgets names when a context ends, and its CUfunctions with it, whose handles may be reused by calls without a
    /// hook. Which CUfunctions are the context's is not known, so those of modules that were never unloaded lose their
    /// names only where the driver can be queried again.
    pub fn context_ends(&self) {
        let can_ask = driver::driver().is_some_and(|driver| driver.function_name.is_some());
        for handle in self.handles.values() {
            let is_kernel = handle.name.load(Ordering::Relaxed) & KERNEL != 0;
            if !is_kernel && (can_ask || handle.owner.load(Ordering::Relaxed) == 0) {
                handle.forget_name();
            }
        }
    }

    fn remember(&self, call: &Call, place: &Handle, text: &[u8], owner: u64, form_bits: u32) -> KernelName {
        let errno = crate::sys::Errno::save();
        let word = self.intern(call, text) | form_bits;
        errno.restore();
        place.becomes(word, owner);
        KernelName::of(word)
    }

    /// Returns whether any named kernel may wait for a kernel of another GPU.
    #[inline]
    pub fn has_communication(&self) -> bool {
        self.has_communication.load(Ordering::Relaxed)
    }

    /// Returns whether the kernel with this number may wait for one of another GPU.
    pub fn is_communication(&self, id: u32) -> bool {
        let Some(index) = id.checked_sub(1) else { return false };
        let word = self.communication.get(index as usize / 64);
        word.is_some_and(|word| word.load(Ordering::Relaxed) & 1 << (index % 64) != 0)
    }

    /// Returns the number of a text, and sends the text if it is new.
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
                    let is_sent = with_intern(Namespace::Kernel, id, text, |words| call.push_words(words));
                    self.keep(name, text, is_sent);
                    if !is_sent {
                        self.to_send(index / 64, 1 << (index % 64));
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

    /// Keeps a name's text. One that was sent is only needed by a collector that comes later.
    fn keep(&self, name: &Name, text: &[u8], is_sent: bool) {
        let kept = self.kept.fetch_add(text.len(), Ordering::Relaxed);
        if is_sent && kept > MOST_KEPT {
            return;
        }
        name.text.store(Box::into_raw(Box::new(Box::<[u8]>::from(text))), Ordering::Release);
    }

    /// Has the poller send the names with these bits.
    fn to_send(&self, word: usize, bits: u64) {
        if let Some(unsent) = self.unsent.get(word) {
            unsent.fetch_or(bits, Ordering::Release);
        }
    }

    /// Poller: sends all names again, with the next [`publish_unsent`](Self::publish_unsent).
    pub fn send_again(&self) {
        for (word, names) in self.names.chunks(64).enumerate() {
            let is_kept = |(_, name): &(usize, &Name)| name.text().is_some();
            let kept = names.iter().enumerate().filter(is_kept);
            self.to_send(word, kept.fold(0, |bits, (bit, _)| bits | 1 << bit));
        }
    }

    /// Poller: forgets in which shapes kernels were launched, so that the next launch of each looks for its facts.
    pub fn forget_shapes(&self) {
        self.handles.values().for_each(|handle| handle.shape.store(0, Ordering::Relaxed));
    }

    /// Poller: sends the names that have to be sent, as far as they fit into the ring.
    pub fn publish_unsent(&self, ring: &mut Ring) {
        for (word, unsent) in self.unsent.iter().enumerate() {
            // Acquire: see the field.
            let mut bits = unsent.load(Ordering::Acquire);
            while bits != 0 {
                let index = 64 * word + bits.trailing_zeros() as usize;
                let text = self.names.get(index).and_then(Name::text).unwrap_or_default();
                if !publish(ring, Namespace::Kernel, index as u32 + 1, text) {
                    return;
                }
                let bit = bits & bits.wrapping_neg();
                unsent.fetch_and(!bit, Ordering::Relaxed);
                bits &= !bit;
            }
        }
    }

    /// Sends the names of all functions that are intercepted.
    pub fn publish_functions(&self, ring: &mut Ring) {
        for hook in Table::all() {
            publish(ring, Namespace::Api, u32::from(hook.api), hook.base.to_bytes());
        }
    }

    /// Sends what the process is. Returns false if even the first of it does not fit into the ring: what a collector waits
    /// for that comes later.
    pub fn introduce(&self, ring: &mut Ring) -> bool {
        if !publish(ring, Namespace::Fact, Fact::AgentVersion as u32, env!("CARGO_PKG_VERSION").as_bytes()) {
            return false;
        }
        let mut buffer = [0u8; 4096];
        if let Some(line) = crate::sys::read_file(c"/proc/self/cmdline", &mut buffer) {
            publish(ring, Namespace::Fact, Fact::CommandLine as u32, line);
        }
        // SAFETY: a terminated path and a buffer of ours.
        let n =
            unsafe { libc::readlink(c"/proc/self/exe".as_ptr(), buffer.as_mut_ptr().cast(), buffer.len()) };
        if let Some(path) = usize::try_from(n).ok().and_then(|n| buffer.get(..n)) {
            publish(ring, Namespace::Fact, Fact::Executable as u32, path);
        }
        // SAFETY: a buffer of ours, longer than the length that is passed, so that the zero after the name stays.
        if unsafe { libc::gethostname(buffer.as_mut_ptr().cast(), 255) } == 0
            && let Ok(host) = CStr::from_bytes_until_nul(&buffer)
        {
            publish(ring, Namespace::Fact, Fact::Host as u32, host.to_bytes());
        }
        true
    }

    /// Sends a device's name and the driver's version with `push`.
    pub fn device(&self, driver: &Driver, ordinal: u32, mut push: impl FnMut(&[u64]) -> bool) {
        let mut name = [0 as c_char; 256];
        // SAFETY: a buffer of ours, longer by one than the length that is passed.
        let named = driver
            .device_name
            .is_some_and(|ask| unsafe { ask(name.as_mut_ptr(), 255, ordinal as CUdevice) } == 0);
        if named {
            // SAFETY: terminated: the last byte is beyond the length that was passed, and zero.
            let text = unsafe { CStr::from_ptr(name.as_ptr()) }.to_bytes();
            with_intern(Namespace::Device, ordinal + 1, text, &mut push);
        }
        let mut version = 0;
        // SAFETY: writes a place of ours.
        if driver.version.is_some_and(|ask| unsafe { ask(&mut version) } == CUDA_SUCCESS) {
            let mut digits = [0u8; 12];
            let text = decimal(version.unsigned_abs(), &mut digits);
            with_intern(Namespace::Fact, Fact::DriverVersion as u32, text, push);
        }
    }
}

/// Publishes a fact about the process from a hook.
pub fn publish_fact(call: &Call, fact: Fact, text: &[u8]) {
    with_intern(Namespace::Fact, fact as u32, text, |words| call.push_words(words));
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
    fn numbers_are_written_in_decimal() {
        assert_eq!(decimal(0, &mut [0; 12]), b"0");
        assert_eq!(decimal(12090, &mut [0; 12]), b"12090");
        assert_eq!(decimal(u32::MAX, &mut [0; 12]), b"4294967295");
    }
}
