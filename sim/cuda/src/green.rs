//! Green contexts: a part of a device's multiprocessors under its primary context.
//!
//! Objects created while a green context is current (events, modules, memory) belong to its primary context; streams
//! are its own. It is an assumption that its streams order themselves among each other as those of any context do, and
//! not with those of the primary context: cuda.h only says that `CU_GREEN_CTX_DEFAULT_STREAM` makes a default stream
//! "to use inside the green context".

use crate::error::{INVALID_RESOURCE_CONFIGURATION, INVALID_RESOURCE_TYPE, INVALID_VALUE, Outcome};
use crate::handle::Handle;
use crate::state::{Orphan, State, StreamKind};
use crate::truth;

/// `CU_DEV_RESOURCE_TYPE_SM`.
pub const MULTIPROCESSORS: u32 = 1;

/// A green context.
#[derive(Debug)]
pub struct Green {
    /// Its multiprocessors.
    pub part: Part,
    /// Its own context, which `cuCtxFromGreenCtx` returns; 0 once its primary context is gone.
    pub context: Handle,
}

/// Multiprocessors of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Part {
    /// Device ordinal.
    pub device: u32,
    /// The number of multiprocessors.
    pub count: u32,
    /// The split that produced it, as a part or as the remainder; 0 if it is everything that a device or a context has.
    pub split: u32,
}

impl Part {
    /// cuda.h, "Green Contexts": on compute capability 9.0, parts have at least 8 multiprocessors and a multiple of 8.
    /// With IGNORE_SM_COSCHEDULING the alignment is lower; how low is an assumption.
    pub fn size(flags: u32, least: u32) -> u32 {
        let unit = if flags & 1 != 0 { 2 } else { 8 };
        least.max(1).next_multiple_of(unit)
    }

    /// Splits it into at most `most` parts, and returns them and the remainder.
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

    /// Joins several parts, which must be from the same device and the same split (cuda.h, cuDevResourceGenerateDesc).
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
    /// Returns the green context that a context belongs to, or 0.
    pub fn green_of(&self, context: Handle) -> Handle {
        let is_green = self.root(context) != context;
        let found = self.greens.iter().find(|(_, green)| is_green && green.context == context);
        found.map_or(0, |(handle, _)| handle)
    }

    /// Returns the context number for the truth file: a green context has that of its primary context.
    pub fn number(&self, context: Handle) -> u32 {
        self.contexts.get(self.root(context)).map_or(0, |context| context.id)
    }

    /// Creates a green context under a device's primary context.
    pub fn new_green(&mut self, root: Handle, part: Part) -> Outcome<Handle> {
        let mut blank = self.blank(part.device, 0, false, 3020);
        blank.root = root;
        let context = self.contexts.insert(blank);
        let handle = self.greens.insert(Green { part, context });
        self.begin_legacy(context)?;
        self.report_green(handle, root, part, false);
        Ok(handle)
    }

    /// Destroys a green context. Its streams remain, for the application to destroy, but accept nothing more; work that
    /// was submitted to them continues, and captures on them become invalid (cuda.h of CUDA 13, cuGreenCtxDestroy).
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
        self.report_green(handle, gone.root, part, true);
        Ok(())
    }

    /// Ends a primary context's green contexts with it.
    pub fn end_greens(&mut self, root: Handle) -> Outcome {
        let greens: Vec<Handle> = self.greens.iter().map(|(handle, _)| handle).collect();
        for green in greens {
            if self.greens.get(green).is_some_and(|green| self.root(green.context) == root) {
                self.end_green(green)?;
            }
        }
        Ok(())
    }

    fn report_green(&self, handle: Handle, root: Handle, part: Part, destroyed: bool) {
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
    fn parts_have_the_size_that_the_device_requires_and_join_only_parts_of_the_same_split() {
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
