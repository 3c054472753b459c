//! Green contexts: a part of a device's multiprocessors under its primary context.
//!
//! What is made while one is current (events, modules, memory) is the primary context's; streams are its own. That its
//! streams order themselves among each other as any context's do, and not with those of the primary context, is an
//! assumption: cuda.h only says that `CU_GREEN_CTX_DEFAULT_STREAM` makes a default stream "to use inside the green context".

use crate::error::{INVALID_RESOURCE_CONFIGURATION, INVALID_RESOURCE_TYPE, INVALID_VALUE, Outcome};
use crate::handle::Handle;
use crate::state::{Orphan, State, StreamKind};
use crate::truth;

/// `CU_DEV_RESOURCE_TYPE_SM`.
pub const MULTIPROCESSORS: u32 = 1;

/// A green context.
#[derive(Debug)]
pub struct Green {
    /// What it has.
    pub part: Part,
    /// Its own context: what `cuCtxFromGreenCtx` returns; 0 when its primary context has gone.
    pub context: Handle,
}

/// Multiprocessors of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Part {
    /// Device ordinal.
    pub device: u32,
    /// How many.
    pub count: u32,
    /// The split that it is a result or the rest of; 0: it is all that a device or a context has.
    pub split: u32,
}

impl Part {
    /// cuda.h, "Green Contexts": on compute capability 9.0 parts have at least 8 multiprocessors and a multiple of 8; with
    /// IGNORE_SM_COSCHEDULING the alignment is lower, to which is an assumption.
    pub fn size(flags: u32, least: u32) -> u32 {
        let unit = if flags & 1 != 0 { 2 } else { 8 };
        least.max(1).next_multiple_of(unit)
    }

    /// Parts of this one, `most` at most, and the rest.
    pub fn divide(self, flags: u32, least: u32, most: u32, split: u32) -> Outcome<(Vec<Part>, Part)> {
        if flags > 3 || least > self.count {
            return Err(INVALID_VALUE);
        }
        // "the output results cannot be split again without first creating a descriptor and a green context"
        if self.split != 0 {
            return Err(INVALID_RESOURCE_CONFIGURATION);
        }
        let size = Part::size(flags, least);
        let groups = (self.count / size).min(most);
        let part = |count| Part { count, split, ..self };
        Ok(((0..groups).map(|_| part(size)).collect(), part(self.count - groups * size)))
    }

    /// Several parts as one: of the same device and from the same split (cuda.h, cuDevResourceGenerateDesc).
    pub fn join(parts: &[Part]) -> Outcome<Part> {
        let [first, others @ ..] = parts else { return Err(INVALID_VALUE) };
        let alike = |other: &Part| {
            (other.device, other.split) == (first.device, first.split) && first.split != 0 && other.count != 0
        };
        if first.count == 0 {
            return Err(INVALID_RESOURCE_TYPE);
        }
        if !others.iter().all(alike) {
            return Err(INVALID_RESOURCE_CONFIGURATION);
        }
        Ok(Part { count: parts.iter().map(|part| part.count).sum(), ..*first })
    }
}

impl State {
    /// The green context that a context is the one of; 0: none.
    pub fn green_of(&self, context: Handle) -> Handle {
        let is_green = self.root(context) != context;
        let found = self.greens.iter().find(|(_, green)| is_green && green.context == context);
        found.map_or(0, |(handle, _)| handle)
    }

    /// The number that the truth gives a context: a green one's is its primary context's.
    pub fn number(&self, context: Handle) -> u32 {
        self.contexts.get(self.root(context)).map_or(0, |context| context.id)
    }

    /// Makes a green context of a device's primary context.
    pub fn new_green(&mut self, root: Handle, part: Part) -> Outcome<Handle> {
        let mut blank = self.blank(part.device, 0, false, 3020);
        blank.root = root;
        let context = self.contexts.insert(blank);
        let handle = self.greens.insert(Green { part, context });
        self.begin_legacy(context)?;
        self.tell_green(handle, root, part, false);
        Ok(handle)
    }

    /// Takes a green context away. Its streams stay, for the application to destroy, and can do nothing more; what they were
    /// given goes on, and captures on them are invalid (cuda.h of CUDA 13, cuGreenCtxDestroy).
    pub fn end_green(&mut self, handle: Handle) -> Outcome {
        let Some(green) = self.greens.get_mut(handle) else { return Ok(()) };
        let (part, context) = (green.part, std::mem::take(&mut green.context));
        let Some(gone) = self.contexts.remove(context) else { return Ok(()) };
        let mut orphans = gone.orphans;
        for stream in gone.streams {
            let Some(of) = self.streams.get_mut(stream) else { continue };
            of.context = gone.root;
            let capture = of.capture;
            if of.kind == StreamKind::Created {
                of.detached = true;
                self.live(gone.root)?.streams.insert(stream);
                self.invalidate(capture.as_slice());
            } else {
                orphans.push(Orphan { tail: of.tail.clone(), blocking: false });
                self.streams.remove(stream);
            }
        }
        self.live(gone.root)?.orphans.append(&mut orphans);
        self.tell_green(handle, gone.root, part, true);
        Ok(())
    }

    /// A primary context goes, and its green ones with it.
    pub fn end_greens(&mut self, root: Handle) -> Outcome {
        let greens: Vec<Handle> = self.greens.iter().map(|(handle, _)| handle).collect();
        for green in greens {
            if self.greens.get(green).is_some_and(|green| self.root(green.context) == root) {
                self.end_green(green)?;
            }
        }
        Ok(())
    }

    fn tell_green(&self, handle: Handle, root: Handle, part: Part, destroyed: bool) {
        let (context, Part { device, count, .. }) = (self.number(root), part);
        truth::line(format_args!(
            "\"kind\":\"green\",\"green\":{handle},\"context\":{context},\"device\":{device},\
             \"multiprocessors\":{count},\"destroyed\":{destroyed}"
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_have_the_size_that_the_device_asks_for_and_are_joined_only_with_their_like() {
        let all = Part { device: 0, count: 132, split: 0 };
        let (parts, rest) = all.divide(0, 20, u32::MAX, 7).unwrap();
        assert_eq!((parts.len(), parts[0].count, rest.count), (5, 24, 12));
        let (few, rest_of_few) = all.divide(1, 20, 2, 8).unwrap();
        assert_eq!((few.len(), few[0].count, rest_of_few.count), (2, 20, 92));
        assert_eq!(all.divide(0, 133, 1, 9), Err(INVALID_VALUE));
        assert_eq!(all.divide(4, 8, 1, 9), Err(INVALID_VALUE));
        assert_eq!(rest.divide(0, 8, 1, 9), Err(INVALID_RESOURCE_CONFIGURATION));
        assert_eq!(Part::join(&[parts[0], rest]).map(|part| part.count), Ok(36));
        assert_eq!(Part::join(&[parts[0], few[0]]), Err(INVALID_RESOURCE_CONFIGURATION));
        assert_eq!(Part::join(&[all, all]), Err(INVALID_RESOURCE_CONFIGURATION));
        assert_eq!(Part::join(&[all]), Ok(all));
    }
}
