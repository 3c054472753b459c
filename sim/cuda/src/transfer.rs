//! Copies and memsets: their shape, how long they take, and what they do to memory.

use crate::clocks::Ns;
use crate::config::config;
use std::sync::Arc;

/// The directions of copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Direction {
    HtoD,
    DtoH,
    DtoD,
    HtoH,
    PtoP,
}

impl Direction {
    /// Returns its word in the truth file.
    pub fn name(self) -> &'static str {
        match self {
            Self::HtoD => "HtoD",
            Self::DtoH => "DtoH",
            Self::DtoD => "DtoD",
            Self::HtoH => "HtoH",
            Self::PtoP => "PtoP",
        }
    }
}

/// Extent and pitches of a copy, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Bytes of a row.
    pub width: u64,
    /// Rows of a slice.
    pub height: u64,
    /// Slices.
    pub depth: u64,
    /// From row to row, destination and source.
    pub pitch: [u64; 2],
    /// From slice to slice, destination and source.
    pub slice: [u64; 2],
}

impl Shape {
    /// The shape of contiguous bytes.
    pub fn linear(bytes: u64) -> Self {
        Self { width: bytes, height: 1, depth: 1, pitch: [bytes; 2], slice: [bytes; 2] }
    }

    /// Returns the total number of bytes.
    pub fn bytes(&self) -> u64 {
        self.width * self.height * self.depth
    }

    /// Returns the bytes from the first to the last one on side 0 (destination) or 1 (source).
    pub fn span(&self, side: usize) -> u64 {
        if self.bytes() == 0 {
            return 0;
        }
        self.slice[side] * (self.depth - 1) + self.pitch[side] * (self.height - 1) + self.width
    }
}

/// A copy.
#[derive(Clone, Debug)]
pub struct Copy {
    /// Destination.
    pub dst: u64,
    /// Source.
    pub src: u64,
    /// Extent.
    pub shape: Shape,
    /// Direction.
    pub direction: Direction,
    /// The kind of host memory involved.
    pub host_memory: &'static str,
    /// The copy engine.
    pub lane: Option<usize>,
    /// A copy of the source as it was when the call returned; if present, `src` is not read.
    pub staged: Option<Arc<[u8]>>,
    /// The other copies of a batch.
    pub rest: Vec<Copy>,
}

impl Copy {
    /// Returns the bytes, including those of the other copies of a batch.
    pub fn bytes(&self) -> u64 {
        self.shape.bytes() + self.rest.iter().map(Copy::bytes).sum::<u64>()
    }

    /// Returns how long it takes, ns.
    pub fn length(&self) -> Ns {
        let speed = match (self.direction, self.host_memory) {
            (Direction::PtoP, _) => "peer_mbps",
            (Direction::DtoD, _) => "device_mbps",
            (_, "pageable") => "pageable_mbps",
            _ => "pinned_mbps",
        };
        duration(self.bytes(), speed, "copy_ns")
    }

    /// Stores the source as it is now. The caller may read it.
    pub fn stage(&mut self) {
        // SAFETY: the application passed the source to be read during this call.
        let bytes = unsafe { std::slice::from_raw_parts(self.src as *const u8, self.shape.span(1) as usize) };
        self.staged = Some(Arc::from(bytes));
    }

    /// Copies the bytes. A prefetch, whose source is its destination, copies nothing: the host may be writing the
    /// bytes.
    pub fn take_place(&self) {
        self.rest.iter().for_each(Copy::take_place);
        if self.src == self.dst {
            return;
        }
        let source = self.staged.as_ref().map_or(self.src, |staged| staged.as_ptr() as u64);
        let Shape { width, height, depth, pitch, slice } = self.shape;
        for z in 0..depth {
            for y in 0..height {
                let [to, from] = [0, 1].map(|side| slice[side] * z + pitch[side] * y);
                // SAFETY: both ranges were checked at the call, as far as the driver knows them; the application keeps
                // them until the copy is done. `copy` allows overlap.
                unsafe {
                    std::ptr::copy((source + from) as *const u8, (self.dst + to) as *mut u8, width as usize);
                }
            }
        }
    }
}

/// A memset.
#[derive(Clone, Debug)]
pub struct Set {
    /// First address.
    pub dst: u64,
    /// The value, in its low `element` bytes.
    pub value: u32,
    /// Bytes of an element: 1, 2 or 4.
    pub element: u64,
    /// Elements of a row.
    pub width: u64,
    /// Rows.
    pub height: u64,
    /// Bytes from row to row.
    pub pitch: u64,
    /// The kind of host memory involved.
    pub host_memory: &'static str,
}

impl Set {
    /// Returns the number of bytes.
    pub fn bytes(&self) -> u64 {
        self.width * self.element * self.height
    }

    /// Returns how long it takes, ns.
    pub fn length(&self) -> Ns {
        duration(self.bytes(), "device_mbps", "set_ns")
    }

    /// Writes the bytes.
    pub fn take_place(&self) {
        let value = self.value.to_ne_bytes();
        let element = &value[..self.element as usize];
        for row in 0..self.height {
            // SAFETY: the range was checked at the call to be known memory; the application keeps it until the memset
            // is done.
            let row = unsafe {
                let first = (self.dst + row * self.pitch) as *mut u8;
                std::slice::from_raw_parts_mut(first, (self.width * self.element) as usize)
            };
            match element {
                [byte] => row.fill(*byte),
                _ => row.chunks_exact_mut(element.len()).for_each(|chunk| chunk.copy_from_slice(element)),
            }
        }
    }
}

fn duration(bytes: u64, speed: &str, fixed: &str) -> Ns {
    let assume = &config().assume;
    assume.number(fixed) + (u128::from(bytes) * 1000 / u128::from(assume.number(speed).max(1))) as Ns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_stay_within_their_rows() {
        let source: Vec<u8> = (0..32).collect();
        let mut to = [0u8; 12];
        let shape = Shape { width: 2, height: 3, depth: 1, pitch: [4, 8], slice: [12, 32] };
        let copy = Copy {
            dst: to.as_mut_ptr() as u64,
            src: source.as_ptr() as u64,
            shape,
            direction: Direction::HtoH,
            host_memory: "pageable",
            lane: None,
            staged: None,
            rest: Vec::new(),
        };
        copy.take_place();
        assert_eq!(to, [0, 1, 0, 0, 8, 9, 0, 0, 16, 17, 0, 0]);
        assert_eq!((shape.bytes(), shape.span(0), shape.span(1)), (6, 10, 18));
    }

    #[test]
    fn memsets_write_their_element() {
        let mut to = [0u8; 8];
        let dst = to.as_mut_ptr() as u64;
        let set = Set { dst, value: 0x0102, element: 2, width: 1, height: 2, pitch: 4, host_memory: "none" };
        set.take_place();
        assert_eq!(to, [2, 1, 0, 0, 2, 1, 0, 0]);
    }
}
