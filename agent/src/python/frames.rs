//! The calling thread's own frames. They stand still while it is inside a hook: only the thread itself changes them, and
//! it is here. Nothing is called, locked or allocated.

use gpuspy_wire::record::MAX_FRAMES;

use crate::memory::read;
use crate::numbers::mix;
use crate::python::interpreter::Interpreter;
use crate::python::layout::{C_STACK, Instruction, Layout, PYTHON_3_9, PYTHON_3_10, PYTHON_3_11, TAG};

/// A frame of the program's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Frame {
    /// Its address.
    pub address: u64,
    /// The address of its code object.
    pub code: u64,
    /// Where it is, counted from the code object's own bytecode, bytes. Where threads have copies of the bytecode, it may be in
    /// another one.
    pub place: i64,
    /// Tells its code object from others that had, or will have, the same address.
    pub identity: u64,
}

/// The frames of a thread, the innermost first.
#[derive(Clone)]
pub struct Frames<'a> {
    version: u16,
    layout: &'a Layout,
    /// The address of the next frame, or 0.
    next: u64,
}

impl<'a> Frames<'a> {
    /// The frames of the calling thread.
    ///
    /// # Safety
    /// `thread` is what [`Interpreter::this_thread`] returned on this thread since it entered the hook, and
    /// [`check`](super::check) has confirmed that the interpreter is laid out as it says.
    #[inline]
    pub unsafe fn of(interpreter: &'a Interpreter, thread: u64) -> Frames<'a> {
        let layout = &interpreter.layout;
        // SAFETY: the thread's own state, and the struct on its stack that the state points to.
        let next = unsafe {
            let first: u64 = read(thread + u64::from(layout.thread.frame));
            match layout.thread.in_cframe {
                Some(at) if first != 0 => read(first + u64::from(at)),
                _ => first,
            }
        };
        Frames { version: interpreter.version, layout, next }
    }
}

impl Iterator for Frames<'_> {
    type Item = Frame;

    #[inline(always)]
    fn next(&mut self) -> Option<Frame> {
        let at = &self.layout.frame;
        while self.next != 0 {
            let frame = self.next;
            // SAFETY: a frame of this thread that has not returned, and its code object, which it keeps alive.
            unsafe {
                self.next = read(frame + u64::from(at.previous));
                if at.owner.is_some_and(|owner| read::<u8>(frame + u64::from(owner)) >= C_STACK) {
                    continue;
                }
                let code = read::<u64>(frame + u64::from(at.code)) & !TAG;
                let place = match at.instruction {
                    Instruction::Index { at, bytes } => {
                        i64::from(read::<i32>(frame + u64::from(at)).wrapping_mul(bytes))
                    }
                    Instruction::Pointer { at, bytecode, .. } => {
                        let address: u64 = read(frame + u64::from(at));
                        address.wrapping_sub(code + u64::from(bytecode)).cast_signed()
                    }
                };
                return Some(Frame { address: frame, code, place, identity: identity(self.layout, code) });
            }
        }
        None
    }
}

/// Returns what tells a code object from others at its address.
///
/// # Safety
/// The calling thread keeps the code object alive.
#[inline(always)]
unsafe fn identity(layout: &Layout, code: u64) -> u64 {
    let at = &layout.code;
    // SAFETY: as the caller promises.
    unsafe {
        let first_line = u64::from(read::<u32>(code + u64::from(at.first_line)));
        match at.version.map_or(0, |version| read::<u32>(code + u64::from(version))) {
            0 => first_line ^ contents(layout, code),
            version => first_line | u64::from(version) << 32,
        }
    }
}

/// Where code objects have no version: hashes what a report shows of the code object, which are its file, its name and its
/// lines. Its parts may lie where those of another one lay, so it takes some of what they contain: the last eight bytes of
/// each, their lengths, and the hashes that the texts have once something has asked for them.
///
/// This is most of what a frame takes, so words are combined by operations of one cycle before the multiplication. What often
/// changes together, as the numbers at the ends of a generated name and of its file do, goes into different factors.
///
/// # Safety
/// As for [`identity`].
#[inline(always)]
unsafe fn contents(layout: &Layout, code: u64) -> u64 {
    let (at, object) = (&layout.code, &layout.object);
    // SAFETY: the code object's texts and bytes live as long as it does. In front of what a shorter one than eight bytes
    // contains are other words of the same object. The characters of a text that is not ASCII begin later, so that what is
    // read lies in it, too.
    unsafe {
        let part = |offset: u32| read::<u64>(code + u64::from(offset));
        let hash = |text: u64| read::<u64>(text + u64::from(object.hash));
        // The address of a part plus its length, which is where it ends but for the words in front of its contents.
        let end = |part: u64| part.wrapping_add(read::<u64>(part + u64::from(object.length)));
        let last = |end: u64, start: u64| read::<u64>(end.wrapping_add(start - 8));
        let (table, name, file) = (part(at.line_table), part(at.name), part(at.file));
        let (table_end, name_end, file_end) = (end(table), end(name), end(file));
        let (text_start, table_start) = (u64::from(layout.text.ascii), u64::from(object.first_byte));
        let last_of_table = last(table_end, table_start).rotate_left(28);
        let left = file_end ^ hash(name) ^ last(name_end, text_start) ^ last_of_table;
        let right = name_end ^ hash(file) ^ last(file_end, text_start) ^ table_end.rotate_left(16);
        mix(left, right)
    }
}

/// Frames and what they are known by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hashed {
    pub hash: u64,
    /// How many frames there are.
    pub count: usize,
}

/// Hashes frames up to and including the first that `is_last`, which is asked with what there is up to it; at most as many as
/// a record has.
#[inline(always)]
pub fn hash(frames: Frames<'_>, is_last: impl FnMut(&Frame, Hashed) -> bool) -> Hashed {
    // A loop of its own for each version whose frames take most, with offsets that the compiler knows, takes a fifth less
    // time for a frame.
    match frames.version {
        0x0309 => hash_laid_out(Frames { layout: &PYTHON_3_9, ..frames }, is_last),
        0x030a => hash_laid_out(Frames { layout: &PYTHON_3_10, ..frames }, is_last),
        0x030b => hash_laid_out(Frames { layout: &PYTHON_3_11, ..frames }, is_last),
        _ => hash_laid_out(frames, is_last),
    }
}

#[inline(always)]
fn hash_laid_out(frames: Frames<'_>, mut is_last: impl FnMut(&Frame, Hashed) -> bool) -> Hashed {
    let mut hashed = Hashed { hash: 0, count: 0 };
    for frame in frames.take(MAX_FRAMES) {
        // Objects are aligned to 16 and user addresses have 47 bits, so the two do not overlap below 1 MiB of bytecode.
        let place = frame.code.rotate_left(16) ^ frame.place.cast_unsigned();
        hashed.hash = mix(hashed.hash ^ place, frame.identity);
        hashed.count += 1;
        if is_last(&frame, hashed) {
            break;
        }
    }
    hashed
}
