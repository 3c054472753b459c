//! CUDA arrays: memory that has a handle and a description, and no address.

use crate::error::{INVALID_VALUE, Outcome};
use crate::handle::{Handle, Kind, Table};

/// `CUDA_ARRAY3D_LAYERED`, `_CUBEMAP`, `_SPARSE`, `_DEFERRED_MAPPING`.
const LAYERED: u32 = 0x01;
const CUBEMAP: u32 = 0x04;
const SPARSE: u32 = 0x40;
const DEFERRED: u32 = 0x80;

/// What an array is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Elements in each dimension; 0: it has not that dimension.
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

    /// How many levels a mipmapped array has, asked for `levels` (cuda.h: clamped).
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

    /// Bytes that it takes: none if memory is mapped into it later.
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
    /// What it is made of.
    pub shape: Shape,
    /// Its context, and that one's device.
    pub context: Handle,
    /// Device ordinal.
    pub device: u32,
    /// Bytes that it takes by itself.
    pub bytes: u64,
    /// The mipmapped array that it is a level of; 0 = none.
    pub mipmap: Handle,
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
    /// Its levels.
    pub levels: Vec<Handle>,
}

/// All of them.
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
