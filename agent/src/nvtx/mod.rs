//! Which ranges and markers do the app and its framework put around their work (NVTX)?
//!
//! NVTX 3 is header-only: every library that uses it has a copy, and each copy looks once for a tool by
//! loading `NVTX_INJECTION64_PATH` and calling its `InitializeInjectionNvtx2` (nvtxInit.h). `gpuspy run` sets
//! the variable unless it is set already; with bare preloading, the user does. The tool then puts its
//! functions into the copy's tables (nvtxTypes.h); functions that the tool leaves out become null pointers
//! there and are not called.
//!
//! Nothing here starts a session. NVTX calls before the first CUDA call are not kept, except for whether the
//! range that `--capture-range` requests is open ([`watch`]).

mod texts;
pub mod watch;

use crate::gpu::budget::Gate;
use crate::gpu::capture_range::Range;
use crate::sink;
use crate::sys::{self, ticks};
use crate::thread;
use core::ffi::{CStr, c_char, c_int, c_void};
use core::sync::atomic::{AtomicU64, Ordering};
use gpuspy_wire::record::{
    CELL_WORDS, CaptureEdge, Head, MAX_NVTX_CELLS, MAX_NVTX_TEXT, NvtxChange, NvtxRange, Record,
};
use texts::{DOMAINS, STRINGS};

pub use texts::PublishedDomains;

/// The next return value of `RangeStart`. Relaxed: the numbers only have to be unique.
static NEXT_RANGE: AtomicU64 = AtomicU64::new(1);

/// The part of `nvtxEventAttributes_v2` (nvToolsExt.h) that is read.
#[repr(C)]
struct Attributes {
    version: u16,
    size: u16,
    category: u32,
    color_type: i32,
    color: u32,
    payload_type: i32,
    reserved: i32,
    payload: u64,
    message_type: i32,
    message: *const c_void,
}

/// `nvtxColorType_t`: ARGB.
const ARGB: i32 = 1;
/// `nvtxMessageType_t`.
const ASCII: i32 = 1;
const UNICODE: i32 = 2;
const REGISTERED: i32 = 3;
/// `NVTX_NO_PUSH_POP_TRACKING`: returned by a tool that does not report how deeply the app's ranges are
/// nested.
const NO_TRACKING: c_int = -2;

/// `wchar_t` on Linux: a code point.
type Wide = u32;
type Domain = *const c_void;

/// `NvtxExportTableCallbacks`.
#[repr(C)]
pub struct Callbacks {
    struct_size: usize,
    module_table: Option<unsafe extern "C" fn(c_int, *mut *mut *mut *const c_void, *mut u32) -> c_int>,
}

/// `NvtxGetExportTableFunc_t`.
type ExportTable = unsafe extern "C" fn(u32) -> *const Callbacks;

/// `NVTX_ETID_CALLBACKS`.
const CALLBACKS: u32 = 1;
/// `NVTX_CB_MODULE_CORE` and `_CORE2`.
const CORE: c_int = 1;
const CORE2: c_int = 5;

/// The entry point that a copy of NVTX calls. Returns 0 if there is no active tool.
///
/// # Safety
/// Called by NVTX, with its own function.
#[allow(non_snake_case, reason = "NVTX's name")]
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn InitializeInjectionNvtx2(get: Option<ExportTable>) -> c_int {
    let Some(get) = get.filter(|_| sink::is_enabled()) else { return 0 };
    watch::set_request(sys::env(c"GPUSPY_CAPTURE_RANGE"));
    // SAFETY: NVTX's function, and the table that nvtxTypes.h defines for this number.
    let Some(callbacks) = (unsafe { get(CALLBACKS).as_ref() }) else { return 0 };
    let Some(module_table) =
        callbacks.module_table.filter(|_| callbacks.struct_size >= size_of::<Callbacks>())
    else {
        return 0;
    };
    let mut attached = 0;
    for (module, functions) in [(CORE, &CORE_FUNCTIONS[..]), (CORE2, &CORE2_FUNCTIONS[..])] {
        let (mut table, mut size) = (core::ptr::null_mut(), 0);
        // SAFETY: NVTX's function; the call writes to two local variables.
        if unsafe { module_table(module, &mut table, &mut size) } == 0 || table.is_null() {
            continue;
        }
        for (id, function) in functions.iter().filter(|(id, _)| *id < size) {
            // SAFETY: below the table's size, each entry points to a function pointer with this number's
            // prototype.
            if let Some(slot) = unsafe { table.add(*id as usize).read().as_mut() } {
                *slot = function.0;
                attached = 1;
            }
        }
    }
    attached
}

/// The address of one of our functions.
#[derive(Clone, Copy)]
struct Function(*const c_void);
// SAFETY: an address of code.
unsafe impl Sync for Function {}

macro_rules! functions {
    ($($id:literal $function:ident),* $(,)?) => { [$(($id, Function($function as *const c_void))),*] };
}

/// The functions by `NvtxCallbackIdCore`.
static CORE_FUNCTIONS: [(u32, Function); 11] = functions![
    1 mark_ex, 2 mark_ascii, 3 mark_wide, 4 start_ex, 5 start_ascii, 6 start_wide, 7 end,
    8 push_ex, 9 push_ascii, 10 push_wide, 11 pop,
];

/// The functions by `NvtxCallbackIdCore2`.
static CORE2_FUNCTIONS: [(u32, Function); 9] = functions![
    1 domain_mark, 2 domain_start, 3 domain_end, 4 domain_push, 5 domain_pop,
    10 register_ascii, 11 register_wide, 12 domain_ascii, 13 domain_wide,
];

/// The contents of an NVTX call, on the stack.
struct Message {
    range: NvtxRange,
    bytes: [u8; MAX_NVTX_TEXT],
    length: usize,
}

impl Message {
    fn empty() -> Message {
        Message { range: NvtxRange::default(), bytes: [0; MAX_NVTX_TEXT], length: 0 }
    }

    /// # Safety
    /// Null, or attributes as NVTX defines them.
    unsafe fn of(attributes: *const Attributes) -> Message {
        let mut message = Message::empty();
        // SAFETY: the caller's promise.
        let Some(given) = (unsafe { attributes.as_ref() }) else { return message };
        // An older struct is shorter and lacks the later fields.
        if usize::from(given.size) < size_of::<Attributes>() {
            return message;
        }
        message.range.category = given.category;
        message.range.color = if given.color_type == ARGB { given.color } else { 0 };
        message.range.payload = u32::from(given.payload_type != 0);
        // SAFETY: a message of the type that the caller states.
        unsafe {
            match given.message_type {
                ASCII => message.ascii(given.message.cast()),
                UNICODE => message.wide(given.message.cast()),
                REGISTERED => message.bytes(STRINGS.get(given.message as usize).unwrap_or_default()),
                _ => {}
            }
        }
        message
    }

    fn bytes(&mut self, text: &[u8]) {
        let kept = text.len().min(MAX_NVTX_TEXT);
        for (to, from) in self.bytes.iter_mut().zip(text) {
            *to = *from;
        }
        self.length = kept;
        self.range.cut = u8::from(kept < text.len());
    }

    /// # Safety
    /// Null or a terminated string.
    unsafe fn ascii(&mut self, text: *const c_char) {
        if !text.is_null() {
            // SAFETY: the caller's promise.
            self.bytes(unsafe { CStr::from_ptr(text) }.to_bytes());
        }
    }

    /// # Safety
    /// Null or a terminated wide string.
    unsafe fn wide(&mut self, mut text: *const Wide) {
        while !text.is_null() {
            // SAFETY: the caller's promise; the read does not go beyond the terminator.
            let (code, next) = unsafe { (text.read(), text.add(1)) };
            if code == 0 {
                break;
            }
            let mut utf8 = [0; 4];
            let encoded = char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER).encode_utf8(&mut utf8);
            let Some(place) = self.bytes.get_mut(self.length..self.length + encoded.len()) else {
                self.range.cut = 1;
                break;
            };
            place.copy_from_slice(encoded.as_bytes());
            self.length += encoded.len();
            text = next;
        }
    }

    fn text(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }

    /// Publishes the message, if there is a session.
    fn publish(self, change: NvtxChange, domain: Domain, id: u64) {
        let may_change = watch::observe(change, domain as usize as u32, id, self.text());
        let Some(session) = sink::existing() else { return };
        let entered = ticks();
        if may_change {
            let publish = |change: &CaptureEdge| thread::aside(session, entered, change.as_words());
            session.get::<Range>().follow(session.get::<Gate>(), entered, watch::is_open, publish);
        }
        let range = NvtxRange {
            head: Head::new::<NvtxRange>(),
            at: entered,
            id,
            domain: domain as usize as u32,
            change: change as u8,
            ..self.range
        };
        let mut buffer = [0; MAX_NVTX_CELLS * CELL_WORDS];
        thread::aside(session, entered, range.with_text(self.text(), &mut buffer));
    }
}

/// The default domain.
const DEFAULT: Domain = core::ptr::null();

fn start(message: Message, domain: Domain) -> u64 {
    let id = NEXT_RANGE.fetch_add(1, Ordering::Relaxed);
    message.publish(NvtxChange::Start, domain, id);
    id
}

fn push(message: Message, domain: Domain) -> c_int {
    message.publish(NvtxChange::Push, domain, 0);
    NO_TRACKING
}

/// The functions that NVTX calls instead of its own, with their prototypes from nvtxTypes.h.
macro_rules! entries {
    ($($name:ident($($arg:ident: $ty:ty),*) $(-> $ret:ty)? => $message:expr, $then:expr;)*) => { $(
        unsafe extern "C" fn $name($($arg: $ty),*) $(-> $ret)? {
            // SAFETY: NVTX's caller passes what the prototype requires.
            #[allow(unused_unsafe, reason = "some messages are empty")]
            let message: Message = unsafe { $message };
            let then: fn(Message, $($ty),*) $(-> $ret)? = $then;
            then(message, $($arg),*)
        }
    )* };
}

/// # Safety
/// Null or a terminated string.
unsafe fn ascii(text: *const c_char) -> Message {
    let mut message = Message::empty();
    // SAFETY: the caller's promise.
    unsafe { message.ascii(text) };
    message
}

/// # Safety
/// Null or a terminated wide string.
unsafe fn wide(text: *const Wide) -> Message {
    let mut message = Message::empty();
    // SAFETY: the caller's promise.
    unsafe { message.wide(text) };
    message
}

entries! {
    mark_ex(a: *const Attributes) => Message::of(a), |m, _| m.publish(NvtxChange::Mark, DEFAULT, 0);
    mark_ascii(t: *const c_char) => ascii(t), |m, _| m.publish(NvtxChange::Mark, DEFAULT, 0);
    mark_wide(t: *const Wide) => wide(t), |m, _| m.publish(NvtxChange::Mark, DEFAULT, 0);
    start_ex(a: *const Attributes) -> u64 => Message::of(a), |m, _| start(m, DEFAULT);
    start_ascii(t: *const c_char) -> u64 => ascii(t), |m, _| start(m, DEFAULT);
    start_wide(t: *const Wide) -> u64 => wide(t), |m, _| start(m, DEFAULT);
    end(id: u64) => Message::empty(), |m, id| m.publish(NvtxChange::End, DEFAULT, id);
    push_ex(a: *const Attributes) -> c_int => Message::of(a), |m, _| push(m, DEFAULT);
    push_ascii(t: *const c_char) -> c_int => ascii(t), |m, _| push(m, DEFAULT);
    push_wide(t: *const Wide) -> c_int => wide(t), |m, _| push(m, DEFAULT);
    pop() -> c_int => Message::empty(), |m| { m.publish(NvtxChange::Pop, DEFAULT, 0); NO_TRACKING };
    domain_mark(d: Domain, a: *const Attributes) => Message::of(a), |m, d, _| m.publish(NvtxChange::Mark, d, 0);
    domain_start(d: Domain, a: *const Attributes) -> u64 => Message::of(a), |m, d, _| start(m, d);
    domain_end(d: Domain, id: u64) => Message::empty(), |m, d, id| m.publish(NvtxChange::End, d, id);
    domain_push(d: Domain, a: *const Attributes) -> c_int => Message::of(a), |m, d, _| push(m, d);
    domain_pop(d: Domain) -> c_int => Message::empty(),
        |m, d| { m.publish(NvtxChange::Pop, d, 0); NO_TRACKING };
    register_ascii(_d: Domain, t: *const c_char) -> *const c_void => ascii(t), |m, _, _| STRINGS.add(m.text());
    register_wide(_d: Domain, t: *const Wide) -> *const c_void => wide(t), |m, _, _| STRINGS.add(m.text());
    domain_ascii(t: *const c_char) -> Domain => ascii(t), |m, _| DOMAINS.add(m.text());
    domain_wide(t: *const Wide) -> Domain => wide(t), |m, _| DOMAINS.add(m.text());
}
