//! How much memory does a CUDA array take? An array is created from a description, never from a number of
//! bytes.
//!
//! The size is computed from the described elements and the size of their format. The driver lays them out in
//! tiles and may take more, and no CUDA function returns how much more (`cuArrayGetMemoryRequirements` works
//! only for arrays that have no memory yet).

use crate::cuda::*;

/// The description of an array.
#[derive(Clone, Copy)]
pub struct Extent {
    /// Elements of a row, rows, and slices or layers; 0 rows or slices: the array has fewer dimensions.
    pub size: [usize; 3],
    pub bits_per_element: usize,
    pub flags: unsigned_int,
}

impl Extent {
    /// Reads cuArrayCreate's descriptor.
    pub fn of_2d(descriptor: *const CUDA_ARRAY_DESCRIPTOR) -> Option<Extent> {
        // SAFETY: null, or the descriptor that the app has passed to the call.
        let d = unsafe { descriptor.as_ref() }?;
        let bits_per_element = bits(d.format, d.channels);
        Some(Extent { size: [d.width, d.height, 0], bits_per_element, flags: 0 })
    }

    /// Reads the descriptor of cuArray3DCreate and cuMipmappedArrayCreate.
    pub fn of_3d(descriptor: *const CUDA_ARRAY3D_DESCRIPTOR) -> Option<Extent> {
        // SAFETY: as above.
        let d = unsafe { descriptor.as_ref() }?;
        let bits_per_element = bits(d.format, d.channels);
        Some(Extent { size: [d.width, d.height, d.depth], bits_per_element, flags: d.flags })
    }

    /// Reads the arguments of the runtime's functions.
    pub fn of_runtime(
        channels: *const cudaChannelFormatDesc,
        extent: cudaExtent,
        flags: unsigned_int,
    ) -> Option<Extent> {
        // SAFETY: as above.
        let c = unsafe { channels.as_ref() }?;
        let bits_per_element = c.bits.iter().map(|bits| usize::try_from(*bits).unwrap_or(0)).sum();
        Some(Extent { size: [extent.width, extent.height, extent.depth], bits_per_element, flags })
    }
}

/// Returns the bytes of an array with `levels` mipmap levels.
pub fn bytes(extent: &Extent, levels: unsigned_int) -> usize {
    if extent.flags & (ARRAY3D_SPARSE | ARRAY3D_DEFERRED_MAPPING) != 0 {
        return 0; // it takes memory only when memory with a handle of its own is mapped into it
    }
    let [width, height, depth] = extent.size;
    let layers = extent.flags & (ARRAY3D_LAYERED | ARRAY3D_CUBEMAP) != 0;
    let largest = width.max(height).max(if layers { 0 } else { depth });
    // cuda.h, cuMipmappedArrayCreate: clamped to 1 … 1 + ⌊log2(largest extent)⌋.
    let levels = levels.clamp(1, largest.checked_ilog2().map_or(1, |log| log + 1));
    let of_level = |level: u32| {
        let at = |size: usize| (size >> level).max(1);
        let slices = if layers { depth.max(1) } else { at(depth) };
        at(width).saturating_mul(at(height)).saturating_mul(slices)
    };
    let elements = (0..levels).fold(0usize, |sum, level| sum.saturating_add(of_level(level)));
    elements.saturating_mul(extent.bits_per_element).div_ceil(8)
}

/// Returns the bits of one element by CUarray_format: of one channel, of all channels, or of a texel. 0: the
/// format is unknown.
fn bits(format: CUarray_format, channels: unsigned_int) -> usize {
    let channels = channels as usize;
    match format {
        0x01 | 0x08 => 8 * channels,
        0x02 | 0x09 | 0x10 => 16 * channels,
        0x03 | 0x0a | 0x20 => 32 * channels,
        // UNORM_INT8X1 … SNORM_INT16X4: the format includes the number of channels.
        0xc0 | 0xc6 => 8,
        0xc1 | 0xc3 | 0xc7 | 0xc9 => 16,
        0xc2 | 0xc4 | 0xc8 | 0xca => 32,
        0xc5 | 0xcb => 64,
        // Compressed in blocks of 4 × 4: BC1 and BC4 in eight bytes, the others in sixteen.
        0x91 | 0x92 | 0x97 | 0x98 => 4,
        0x93..=0x96 | 0x99..=0x9e => 8,
        // Video: one luma sample per element, and two chroma samples for four (4:2:0), two (4:2:2) or one
        // (4:4:4) of them.
        0xb0 | 0x53 | 0x59 => 12,
        0x9f | 0xa1 | 0x54 | 0x5a => 24,
        0xa2 | 0xa5 | 0x51 | 0x55 | 0x5b => 16,
        0xa3 | 0xa4 | 0xa6 | 0xa7 | 0x56 | 0x5c | 0xa8 | 0xa9 | 0x50 | 0x52 => 32,
        0xb2 | 0xb4 | 0x57 | 0x5d => 24,
        0xb3 | 0xb5 | 0x58 | 0x5e => 48,
        0xb1 => 64,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(size: [usize; 3], flags: unsigned_int) -> Extent {
        Extent { size, bits_per_element: bits(0x20, 2), flags }
    }

    #[test]
    fn an_arrays_size_is_the_product_of_its_dimensions() {
        assert_eq!(bytes(&extent([100, 0, 0], 0), 1), 100 * 8);
        assert_eq!(bytes(&extent([100, 30, 0], 0), 1), 100 * 30 * 8);
        assert_eq!(bytes(&extent([100, 30, 5], 0), 1), 100 * 30 * 5 * 8);
        assert_eq!(bytes(&extent([100, 0, 7], ARRAY3D_LAYERED), 1), 100 * 7 * 8);
        assert_eq!(bytes(&extent([64, 64, 6], ARRAY3D_CUBEMAP), 1), 64 * 64 * 6 * 8);
    }

    #[test]
    fn mipmap_levels_halve_extents_but_not_layers() {
        assert_eq!(bytes(&extent([8, 4, 0], 0), 3), (32 + 8 + 2) * 8);
        assert_eq!(
            bytes(&extent([8, 4, 0], 0), 99),
            (32 + 8 + 2 + 1) * 8,
            "levels are clamped to those that exist"
        );
        assert_eq!(bytes(&extent([8, 8, 8], 0), 2), (512 + 64) * 8);
        assert_eq!(bytes(&extent([8, 8, 8], ARRAY3D_LAYERED), 2), (512 + 128) * 8);
    }

    #[test]
    fn arrays_without_memory_of_their_own_take_none_and_sizes_saturate() {
        assert_eq!(bytes(&extent([4096, 4096, 0], ARRAY3D_SPARSE), 1), 0);
        assert_eq!(bytes(&extent([4096, 4096, 0], ARRAY3D_DEFERRED_MAPPING), 1), 0);
        assert_eq!(bytes(&extent([usize::MAX, usize::MAX, 9], 0), u32::MAX), usize::MAX / 8 + 1);
    }

    #[test]
    fn formats_have_their_sizes() {
        let sizes = [
            (0x01, 4, 32),
            (0x10, 2, 32),
            (0xc5, 4, 64),
            (0x91, 4, 4),
            (0x9d, 4, 8),
            (0xb0, 3, 12),
            (0x52, 4, 32),
            (0x7777, 4, 0),
        ];
        for (format, channels, expected) in sizes {
            assert_eq!(bits(format, channels), expected, "{format:#x}");
        }
    }
}
