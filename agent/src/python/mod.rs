//! Which line of a Python program made a call?
//!
//! ```text
//! interpreter ─▸ check ─▸ frames ─▸ numbers ─▸ code
//! (found once)   (once)   (each     (known     (a new
//!                          call)     stack?)    code object)
//! ```
//!
//! A thread inside a hook runs no Python, so its own frames stand still, and reading them takes neither the GIL nor a
//! call that could wait. What is read becomes a hash, and the hash a number; only a stack that is new is sent, with the
//! code objects in it that are new. The collector finds the lines.
//!
//! Nothing is read before [`check`] has confirmed, without any chance of a fault, that the interpreter is laid out as its
//! version says. Where something differs, nothing is read in this process, and the reason is reported.

mod bytecode;
mod check;
mod code;
mod frames;
mod interpreter;
mod layout;

use core::ffi::CStr;
use core::hint::cold_path;
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU64, Ordering};
use gpuspy_wire::record::{self, CELL_WORDS, Fact, Head, MAX_STACK_CELLS, Namespace, Stack, StackNumber};

use crate::loader::libraries;
use crate::numbers::{Numbered, Numbers, mix};
use crate::sink::Ring;
use crate::sink::text::{publish, with_short_intern};
use crate::sys;
use crate::thread::Call;
use check::Outcome;
use code::Sent;
use frames::{Frame, Frames, Hashed};
use interpreter::Interpreter;
use layout::Unknown;

/// Distinct code objects and stacks of a process.
const CODES: usize = 1 << 15;
pub const STACKS: usize = 1 << 16;

/// How many frames a call needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Depth {
    /// All, up to the largest number that a record has.
    Whole,
    /// With `--stacks auto` those up to the first of the user's, which are few for most calls: for calls that are too many
    /// for more.
    ToUser,
}

/// What `GPUSPY_STACKS` says.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Setting {
    #[default]
    Auto,
    Full,
    Off,
}

/// The interpreter of a process, and the stacks that it was seen with. Valid when zero.
pub struct Python {
    /// What the variable says.
    setting: Setting,
    /// The interpreter whose frames are read, or null. Release on the store, acquire on the load: what it points to, which
    /// is never freed.
    interpreter: AtomicPtr<Interpreter>,
    /// Whether the interpreter has been checked. Relaxed: a thread that misses it checks again, with the same outcome.
    is_checked: AtomicBool,
    /// Why no frames are read: the number of one of [`NOTES`], from 1; 0 = they are, or there is no interpreter. Relaxed:
    /// a number.
    note: AtomicU8,
    /// The loader's count of objects when an interpreter was last searched for. Relaxed: only the thread that starts the
    /// session, and then the poller, use it.
    searched: AtomicU64,
    codes: Numbers<CODES>,
    stacks: Numbers<STACKS>,
}

const BAD_SETTING: u8 = 1;
const VERSION: u8 = 2;
const FREE_THREADED: u8 = 3;
const DIFFERENT: u8 = 4;
const REFUSED: u8 = 5;
const NOTES: [&str; 5] = [
    "GPUSPY_STACKS is not one of auto, full and off: auto is used",
    "no lines: the Python interpreter of this process is not one whose frames are known (CPython 3.9 to 3.15)",
    "no lines: the Python interpreter of this process is a free-threaded build of a version whose frames are not known (those of 3.13 and 3.14 are)",
    "no lines: the Python interpreter of this process is not laid out as its version should be",
    "no lines: the system refuses process_vm_readv, without which the Python interpreter of this process cannot be checked",
];

impl Python {
    /// Reads the setting and searches for an interpreter, before the session is published.
    pub fn begin(&mut self, setting: Option<&CStr>) {
        let mut note = 0;
        self.setting = match setting.map(CStr::to_bytes) {
            None | Some(b"" | b"auto") => Setting::Auto,
            Some(b"full") => Setting::Full,
            Some(b"off") => Setting::Off,
            Some(_) => {
                note = BAD_SETTING;
                Setting::Auto
            }
        };
        self.note = AtomicU8::new(note);
        self.search();
    }

    /// Searches for an interpreter, if objects were loaded since the last time.
    fn search(&self) {
        let is_over =
            self.setting == Setting::Off || !matches!(self.note.load(Ordering::Relaxed), 0 | BAD_SETTING);
        if is_over || !self.interpreter.load(Ordering::Relaxed).is_null() {
            return;
        }
        let adds = libraries::adds();
        if self.searched.swap(adds, Ordering::Relaxed) == adds {
            return;
        }
        match Interpreter::find() {
            None => {}
            Some(Ok(interpreter)) => {
                self.interpreter.store(Box::into_raw(Box::new(interpreter)), Ordering::Release);
            }
            Some(Err(why)) => {
                let note = match why {
                    Unknown::Version => VERSION,
                    Unknown::FreeThreaded => FREE_THREADED,
                    Unknown::Offsets => DIFFERENT,
                };
                self.note.store(note, Ordering::Relaxed);
            }
        }
    }

    /// Whether the frames of an interpreter are read.
    #[inline(always)]
    pub fn is_read(&self) -> bool {
        // Relaxed: nothing is read through it.
        !self.interpreter.load(Ordering::Relaxed).is_null()
    }

    /// Whether nothing is read, as `GPUSPY_STACKS` says.
    pub fn is_off(&self) -> bool {
        self.setting == Setting::Off
    }

    /// Returns the number of the calling thread's stack; none where it runs no Python, and where that is not known.
    #[inline(always)]
    pub fn stack(&self, call: &Call, depth: Depth) -> StackNumber {
        // Acquire, with the release in `search`.
        let interpreter = self.interpreter.load(Ordering::Acquire);
        if interpreter.is_null() {
            return StackNumber::NONE;
        }
        // SAFETY: leaked by `search`.
        self.read(call, unsafe { &*interpreter }, depth)
    }

    fn read(&self, call: &Call, interpreter: &Interpreter, depth: Depth) -> StackNumber {
        if !self.is_checked.load(Ordering::Relaxed) && !self.check(call, interpreter) {
            return StackNumber::NONE;
        }
        let Some(thread) = interpreter.this_thread() else { return StackNumber::NONE };
        // SAFETY: the thread's own state, read just now in a hook; the interpreter is checked.
        let frames = || unsafe { Frames::of(interpreter, thread) };
        let hashed = if depth == Depth::ToUser && self.setting == Setting::Auto {
            match self.to_user(call, interpreter, frames) {
                Ok(known) => return StackNumber::new(known.number),
                Err(hashed) => hashed,
            }
        } else {
            frames::hash(frames(), |_, _| false)
        };
        let Hashed { hash, count } = hashed;
        if count == 0 {
            return StackNumber::NONE;
        }
        let stack = self.stacks.number(hash, |number| self.send(call, interpreter, number, frames(), count));
        stack.map_or(StackNumber::NONE, |stack| StackNumber::new(stack.number))
    }

    /// Hashes frames up to the first of the user's, or returns the stack of these frames if it is known.
    ///
    /// To ask of each frame whether it is the user's takes about as long as all that is read of it, so as many frames are
    /// tried first as the thread's last call from the same place had. What was sent with so many is what is looked for if it
    /// ends with a frame of the user's. (It may be longer, if it is a whole stack.)
    #[inline(always)]
    fn to_user<'a>(
        &self,
        call: &Call,
        interpreter: &Interpreter,
        frames: impl Fn() -> Frames<'a>,
    ) -> Result<Numbered, Hashed> {
        let (mut leaf, mut most) = (0, 0);
        let tried = frames::hash(frames(), |_, Hashed { hash, count }| {
            if count == 1 {
                (leaf, most) = (hash, call.with_depths(|depths| depths.of(hash)));
            }
            count >= most
        });
        if let Some(known) = self.stacks.known(tried.hash).filter(|stack| stack.found) {
            return Ok(known);
        }
        cold_path();
        let hashed = frames::hash(frames(), |frame, _| {
            self.code(call, interpreter, frame).is_some_and(|code| code.found)
        });
        call.with_depths(|depths| depths.set(leaf, hashed.count));
        Err(hashed)
    }

    /// Returns the number of a frame's code object, and whether the user wrote it. `None`: it was not sent yet, and did
    /// not fit into the ring.
    #[inline(always)]
    fn code(&self, call: &Call, interpreter: &Interpreter, frame: &Frame) -> Option<Numbered> {
        let code = frame.code;
        self.codes.number(mix(code, frame.identity), |number| {
            Self::send_code(call, &Sent { interpreter, code, number })
        })
    }

    #[cold]
    fn send_code(call: &Call, code: &Sent<'_>) -> Option<bool> {
        let errno = sys::Errno::save();
        let sent = code.send(|words| call.push_words(words));
        errno.restore();
        sent
    }

    /// Checks the interpreter. Returns whether its frames can be read.
    #[cold]
    fn check(&self, call: &Call, interpreter: &Interpreter) -> bool {
        let errno = sys::Errno::save();
        if !interpreter.stays_loaded() {
            // Another one may be loaded later.
            self.interpreter.store(ptr::null_mut(), Ordering::Release);
            errno.restore();
            return false;
        }
        let outcome = interpreter
            .this_thread()
            .map_or(Outcome::NothingToSee, |thread| check::check(interpreter, thread));
        errno.restore();
        let note = match outcome {
            Outcome::Confirmed => {
                self.is_checked.store(true, Ordering::Relaxed);
                return true;
            }
            Outcome::NothingToSee => return false,
            Outcome::Different => DIFFERENT,
            Outcome::Refused => REFUSED,
        };
        self.note.store(note, Ordering::Relaxed);
        self.interpreter.store(ptr::null_mut(), Ordering::Release);
        if let Some(text) = text_of(note) {
            with_short_intern(Namespace::Fact, Fact::StacksNote as u32, text.as_bytes(), |words| {
                call.push_words(words)
            });
        }
        false
    }

    /// Sends a stack of this many frames that is new, after the code objects in it that are new. Finds whether the last frame
    /// is the user's; `None` when something did not fit into the ring.
    #[cold]
    fn send(
        &self,
        call: &Call,
        interpreter: &Interpreter,
        number: u32,
        frames: Frames<'_>,
        count: usize,
    ) -> Option<bool> {
        let is_cut = frames.clone().nth(count).is_some();
        let (mut all_sent, mut is_users) = (true, false);
        let sent = frames.take(count).map(|frame| {
            let code = self.code(call, interpreter, &frame);
            all_sent &= code.is_some();
            is_users = code.is_some_and(|code| code.found);
            // SAFETY: a frame of this thread, which is in a hook; the interpreter is checked.
            let instruction = unsafe { bytecode::instruction(&interpreter.layout, &frame) };
            record::Frame { code: code.map_or(0, |code| code.number), instruction }
        });
        let stack =
            Stack { head: Head::new::<Stack>(), stack: number, cut: u8::from(is_cut), ..Stack::default() };
        let mut buffer = [0; MAX_STACK_CELLS * CELL_WORDS];
        let words = stack.with_frames(sent, &mut buffer);
        (all_sent && call.push_words(words)).then_some(is_users)
    }

    /// Poller: sends the setting.
    pub fn introduce(&self, ring: &mut Ring) {
        let setting = match self.setting {
            Setting::Auto => "auto",
            Setting::Full => "full",
            Setting::Off => "off",
        };
        publish(ring, Namespace::Fact, Fact::Stacks as u32, setting.as_bytes());
        self.publish_note(ring);
    }

    /// Poller: searches for an interpreter that was loaded since.
    pub fn keep_up(&self, ring: &mut Ring) {
        let before = self.note.load(Ordering::Relaxed);
        self.search();
        if self.note.load(Ordering::Relaxed) != before {
            self.publish_note(ring);
        }
    }

    /// Poller: has stacks sent again when they come up again.
    pub fn forget_sent(&self) {
        self.codes.forget_sent();
        self.stacks.forget_sent();
    }

    fn publish_note(&self, ring: &mut Ring) {
        if let Some(text) = text_of(self.note.load(Ordering::Relaxed)) {
            publish(ring, Namespace::Fact, Fact::StacksNote as u32, text.as_bytes());
        }
    }
}

fn text_of(note: u8) -> Option<&'static str> {
    usize::from(note).checked_sub(1).and_then(|note| NOTES.get(note)).copied()
}
