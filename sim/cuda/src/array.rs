//! CUDA arrays: memory that has a handle and a description, and no address.

use crate::error::{INVALID_HANDLE, INVALID_VALUE, Outcome};
use crate::handle::{Handle, Kind, Table};

/// `CUDA_ARRAY3D_LAYERED`, `_CUBEMAP`, `_SPARSE`, `_DEFERRED_MAPPING`.
const LAYERED: u32 = 0x01;
const CUBEMAP: u32 = 0x04;
const SPARSE: u32 = 0x40;
const DEFERRED: u32 = 0x80;

/// The shape and format of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Elements in each dimension; 0 if it lacks the dimension.
    pub size: [u64; 3],
    /// `CUarray_format`.
    pub format: u32,
    /// Channels of an element.
    pub channels: u32,
    /// `CUDA_ARRAY3D_…`.
    pub flags: u32,
}

impl Shape {
    /// Checks the rules of cuda.h, cuArray3DCreate.
    pub fn check(&self) -> Outcome {
        let [width, height, depth] = self.size;
        let layered = self.flags & LAYERED != 0;
        let cube = self.flags & CUBEMAP != 0;
        let right = width > 0
            && (depth == 0 || height > 0 || layered)
            && (!cube
                || (width == height && depth > 0 && depth.is_multiple_of(6) && (layered || depth == 6)))
            && matches!(self.channels, 1 | 2 | 4);
        if right && self.element().is_some() { Ok(()) } else { Err(INVALID_VALUE) }
    }

    /// Bytes of an element. Of `CUarray_format` the plain ones are simulated.
    pub fn element(&self) -> Option<u64> {
        let channel = match self.format {
            0x01 | 0x08 => 1,
            0x02 | 0x09 | 0x10 => 2,
            0x03 | 0x0a | 0x20 => 4,
            _ => return None,
        };
        Some(channel * u64::from(self.channels))
    }

    /// Returns how many levels a mipmapped array gets for a request of `levels` (cuda.h: clamped).
    pub fn levels(&self, levels: u32) -> u32 {
        let [width, height, depth] = self.size;
        let depth = if self.flags & (LAYERED | CUBEMAP) != 0 { 0 } else { depth };
        levels.clamp(1, 1 + width.max(height).max(depth).ilog2())
    }

    /// The shape of a level: half of the one before in every dimension but layers.
    pub fn level(&self, level: u32) -> Shape {
        let half = |size: u64| if size == 0 { 0 } else { (size >> level).max(1) };
        let [width, height, depth] = self.size;
        let layers = self.flags & (LAYERED | CUBEMAP) != 0;
        Shape { size: [half(width), half(height), if layers { depth } else { half(depth) }], ..*self }
    }

    /// Returns the bytes that it occupies: 0 if memory is mapped into it later.
    pub fn bytes(&self) -> u64 {
        if self.flags & (SPARSE | DEFERRED) != 0 {
            return 0;
        }
        self.size.iter().map(|size| (*size).max(1)).product::<u64>() * self.element().unwrap_or(0)
    }
}

/// An array.
#[derive(Debug)]
pub struct Array {
    /// Its shape and format.
    pub shape: Shape,
    /// Its context, and that one's device.
    pub context: Handle,
    /// Device ordinal.
    pub device: u32,
    /// Bytes that it takes by itself.
    pub bytes: u64,
    /// The address of its bytes, which applications never get; 0 if it has none yet.
    pub address: u64,
    /// The mipmapped array of which it is a level, or 0.
    pub mipmap: Handle,
}

/// A part of an array as a copy sees it: its first address, bytes from row to row and from slice to slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// First address.
    pub address: u64,
    /// From row to row.
    pub pitch: u64,
    /// From slice to slice.
    pub slice: u64,
}

impl Array {
    /// Returns the part with this extent (bytes of a row, rows, slices or layers) at this offset (bytes, rows, slices).
    /// Both bytes must be multiples of the element size (cuda.h, cuMemcpy2D: srcXInBytes; cuMemcpyAtoD: ByteCount).
    pub fn part(&self, at: [u64; 3], extent: [u64; 3]) -> Outcome<Part> {
        let element = self.shape.element().ok_or(INVALID_VALUE)?;
        let [width, height, depth] = self.shape.size;
        let size = [width * element, height.max(1), depth.max(1)];
        let inside =
            (0..3).all(|axis| at[axis].checked_add(extent[axis]).is_some_and(|end| end <= size[axis]));
        let whole = at[0].is_multiple_of(element) && extent[0].is_multiple_of(element);
        if !inside || !whole || self.address == 0 {
            return Err(INVALID_VALUE);
        }
        let (pitch, slice) = (size[0], size[0] * size[1]);
        Ok(Part { address: self.address + at[2] * slice + at[1] * pitch + at[0], pitch, slice })
    }

    /// Returns the position of an address in the array: bytes of a row, rows, slices.
    fn position(&self, address: u64) -> Option<[u64; 3]> {
        let bytes = self.shape.bytes();
        let offset =
            address.checked_sub(self.address).filter(|offset| self.address != 0 && *offset < bytes)?;
        let pitch = self.shape.size[0] * self.shape.element()?;
        let height = self.shape.size[1].max(1);
        Some([offset % pitch, offset / pitch % height, offset / pitch / height])
    }
}

impl Arrays {
    /// Returns a part of a live array.
    pub fn part(&self, array: Handle, at: [u64; 3], extent: [u64; 3]) -> Outcome<Part> {
        self.arrays.get(array).ok_or(INVALID_HANDLE)?.part(at, extent)
    }

    /// Returns the array that contains an address, and the position in it.
    pub fn at(&self, address: u64) -> Option<(Handle, [u64; 3])> {
        self.arrays.iter().find_map(|(handle, array)| Some((handle, array.position(address)?)))
    }
}

/// A mipmapped array.
#[derive(Debug)]
pub struct Mipmap {
    /// Of the first level.
    pub shape: Shape,
    /// Its context.
    pub context: Handle,
    /// Device ordinal.
    pub device: u32,
    /// Bytes that it takes.
    pub bytes: u64,
    /// The address of its first level, which the others follow; 0 if it has no memory of its own.
    pub address: u64,
    /// Its levels.
    pub levels: Vec<Handle>,
}

/// All arrays.
#[derive(Debug)]
pub struct Arrays {
    /// Arrays, levels of mipmapped ones included.
    pub arrays: Table<Array>,
    /// Mipmapped ones.
    pub mipmaps: Table<Mipmap>,
}

impl Default for Arrays {
    fn default() -> Self {
        Self { arrays: Table::new(Kind::Array), mipmaps: Table::new(Kind::Mipmap) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn array(size: [u64; 3]) -> Array {
        let shape = Shape { size, format: 0x20, channels: 2, flags: 0 };
        Array { shape, context: 0, device: 0, bytes: shape.bytes(), address: 0x1000, mipmap: 0 }
    }

    #[test]
    fn a_part_is_whole_elements_within_the_array() {
        let flat = array([10, 4, 0]);
        let part = |at, extent| flat.part(at, extent).map(|part| part.address);
        assert_eq!(
            flat.part([8, 1, 0], [16, 2, 1]),
            Ok(Part { address: 0x1000 + 88, pitch: 80, slice: 320 })
        );
        assert_eq!(part([0, 0, 0], [80, 4, 1]), Ok(0x1000));
        for (at, extent) in [
            ([4, 0, 0], [8, 1, 1]),
            ([0, 0, 0], [12, 1, 1]),
            ([8, 0, 0], [80, 1, 1]),
            ([0, 3, 0], [8, 2, 1]),
            ([0, 0, 1], [8, 1, 1]),
            ([u64::MAX - 7, 0, 0], [8, 1, 1]),
        ] {
            assert_eq!(part(at, extent), Err(INVALID_VALUE), "{at:?} {extent:?}");
        }
        assert_eq!(array([10, 4, 3]).position(0x1000 + 2 * 320 + 80 + 8), Some([8, 1, 2]));
        assert_eq!(array([10, 0, 0]).position(0x1000 + 80), None);
    }
}
