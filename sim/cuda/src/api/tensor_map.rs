//! Tensor maps: descriptions of memory of which a kernel moves boxes. Encoding one is arithmetic on the host: it
//! allocates nothing and enqueues nothing. Only the simulator can read maps that it encoded.

use crate::call::Call;
use crate::error::{INVALID_VALUE, Outcome};
use crate::export::exports;
use crate::parameter::{InOut, Out, Slice};

exports! {
    cuTensorMapEncodeTiled => tiled(map: Out<Map>, kind: u32, rank: u32, address: u64, size[rank]: Slice<u64>, strides[rank.saturating_sub(1)]: Slice<u64>, extent[rank]: Slice<u32>, steps[rank]: Slice<u32>, interleave: u32, swizzle: u32, promotion: u32, fill: u32);
    cuTensorMapEncodeIm2col => columns(map: Out<Map>, kind: u32, rank: u32, address: u64, size[rank]: Slice<u64>, strides[rank.saturating_sub(1)]: Slice<u64>, lower[rank.saturating_sub(2)]: Slice<i32>, upper[rank.saturating_sub(2)]: Slice<i32>, channels: u32, pixels: u32, steps[rank]: Slice<u32>, interleave: u32, swizzle: u32, promotion: u32, fill: u32);
    cuTensorMapEncodeIm2colWide => wide_columns(map: Out<Map>, kind: u32, rank: u32, address: u64, size[rank]: Slice<u64>, strides[rank.saturating_sub(1)]: Slice<u64>, lower: i32, upper: i32, channels: u32, pixels: u32, steps[rank]: Slice<u32>, interleave: u32, mode: u32, swizzle: u32, promotion: u32, fill: u32);
    cuTensorMapReplaceAddress => replace_address(map: InOut<Map>, address: u64);
}

/// `CUtensorMap` of cuda.h: 128 opaque bytes.
pub type Map = [u64; 16];

/// The first word of a map that the simulator encoded; the address and its alignment follow.
const ENCODED: u64 = u64::from_ne_bytes(*b"gpuspyTM");

/// `CUtensorMapDataType`: what packed values are, and the first that floats are.
const PACKED_4_ALIGN_8: u32 = 13;
const PACKED_4_ALIGN_16: u32 = 14;
const PACKED_6_ALIGN_16: u32 = 15;
const FLOATS: std::ops::RangeInclusive<u32> = 6..=12;

/// `CUtensorMapInterleave`.
const INTERLEAVE_32: u32 = 2;

/// The parameters that all maps have.
struct Common {
    kind: u32,
    rank: u32,
    address: u64,
    interleave: u32,
    swizzle: u32,
    promotion: u32,
    fill: u32,
}

/// Returns an error unless the condition holds.
fn require(holds: bool) -> Outcome {
    if holds { Ok(()) } else { Err(INVALID_VALUE) }
}

impl Common {
    /// Returns whether the values are packed and lie in memory with gaps or aligned to 32 bytes.
    fn wide_packed(&self) -> bool {
        [PACKED_4_ALIGN_16, PACKED_6_ALIGN_16].contains(&self.kind)
    }

    /// Bits of an element.
    fn bits(&self) -> u64 {
        match self.kind {
            0 => 8,
            1 | 6 | 9 => 16,
            4 | 5 | 8 => 64,
            PACKED_4_ALIGN_8 | PACKED_4_ALIGN_16 => 4,
            PACKED_6_ALIGN_16 => 6,
            _ => 32,
        }
    }

    /// Returns the required alignment of the address and strides, bytes.
    fn alignment(&self) -> u64 {
        if self.interleave == INTERLEAVE_32 || self.wide_packed() { 32 } else { 16 }
    }

    /// The requirements of cuda.h, cuTensorMapEncodeTiled, that all encodings share.
    fn check(&self, size: &[u64], strides: &[u64], steps: &[u32]) -> Outcome {
        require(self.kind <= PACKED_6_ALIGN_16 && (1..=5).contains(&self.rank))?;
        require(
            self.interleave <= INTERLEAVE_32 && self.swizzle <= 7 && self.promotion <= 3 && self.fill <= 1,
        )?;
        require(self.interleave == 0 || self.rank >= 3)?;
        require(self.interleave != INTERLEAVE_32 || self.swizzle == 1)?;
        require(self.kind != PACKED_6_ALIGN_16 || self.interleave == 0)?;
        require(self.fill == 0 || FLOATS.contains(&self.kind))?;
        require(self.address.is_multiple_of(self.alignment()))?;
        let whole = match self.kind {
            PACKED_4_ALIGN_8 => 2,
            _ if self.wide_packed() => 128,
            _ => 1,
        };
        require(size.iter().all(|size| (1..=1 << 31).contains(size)) && size[0].is_multiple_of(whole))?;
        let alignment = self.alignment();
        require(strides.iter().all(|stride| stride.is_multiple_of(alignment) && *stride < 1 << 40))?;
        // The step of the first dimension is ignored without interleaving.
        let ignored = usize::from(self.interleave == 0);
        require(steps[ignored..].iter().all(|step| (1..=8).contains(step)))
    }

    /// The rows of a box or a column in shared memory: `inner` elements of the first dimension.
    fn check_inner(&self, inner: u32) -> Outcome {
        require((1..=256).contains(&inner) && (!self.wide_packed() || inner == 128))?;
        if self.interleave != 0 {
            return Ok(());
        }
        let bytes = (u64::from(inner) * self.bits()).div_ceil(8);
        let span = match self.swizzle {
            0 => u64::MAX,
            1 => 32,
            2 => 64,
            _ => 128,
        };
        require(bytes.is_multiple_of(16) && bytes <= span)
    }

    /// Writes the map. cuda.h: its address is a multiple of 64.
    fn write(&self, call: &Call, map: Out<Map>) -> Outcome {
        require(map.as_ptr().addr().is_multiple_of(64))?;
        call.lock().current()?;
        let mut encoded = [0; 16];
        encoded[..3].copy_from_slice(&[ENCODED, self.address, self.alignment()]);
        map.put(encoded);
        Ok(())
    }
}

#[allow(clippy::too_many_arguments)]
fn tiled(
    call: &mut Call,
    map: Out<Map>,
    kind: u32,
    rank: u32,
    address: u64,
    size: Slice<u64>,
    strides: Slice<u64>,
    extent: Slice<u32>,
    steps: Slice<u32>,
    interleave: u32,
    swizzle: u32,
    promotion: u32,
    fill: u32,
) -> Outcome {
    let common = Common { kind, rank, address, interleave, swizzle, promotion, fill };
    common.check(&size, &strides, &steps)?;
    require(swizzle <= 6)?;
    require(extent.iter().all(|extent| (1..=256).contains(extent)))?;
    common.check_inner(extent[0])?;
    common.write(call, map)
}

/// Checks the corners of a box of pixels: each within cuda.h's range for the rank, and with pixels between them.
fn check_corners(rank: u32, lower: &[i32], upper: &[i32]) -> Outcome {
    let range = match rank {
        3 => -32768..=32767,
        4 => -128..=127,
        _ => -16..=15,
    };
    require(lower.iter().chain(upper).all(|corner| range.contains(corner)))
}

#[allow(clippy::too_many_arguments)]
fn columns(
    call: &mut Call,
    map: Out<Map>,
    kind: u32,
    rank: u32,
    address: u64,
    size: Slice<u64>,
    strides: Slice<u64>,
    lower: Slice<i32>,
    upper: Slice<i32>,
    channels: u32,
    pixels: u32,
    steps: Slice<u32>,
    interleave: u32,
    swizzle: u32,
    promotion: u32,
    fill: u32,
) -> Outcome {
    let common = Common { kind, rank, address, interleave, swizzle, promotion, fill };
    require(rank >= 3)?;
    common.check(&size, &strides, &steps)?;
    require(swizzle <= 6)?;
    check_corners(rank, &lower, &upper)?;
    require((1..=1024).contains(&pixels))?;
    common.check_inner(channels)?;
    common.write(call, map)
}

#[allow(clippy::too_many_arguments)]
fn wide_columns(
    call: &mut Call,
    map: Out<Map>,
    kind: u32,
    rank: u32,
    address: u64,
    size: Slice<u64>,
    strides: Slice<u64>,
    lower: i32,
    upper: i32,
    channels: u32,
    pixels: u32,
    steps: Slice<u32>,
    interleave: u32,
    mode: u32,
    swizzle: u32,
    promotion: u32,
    fill: u32,
) -> Outcome {
    let common = Common { kind, rank, address, interleave, swizzle, promotion, fill };
    // CU_TENSOR_MAP_IM2COL_WIDE_MODE_W is 0; of the other the number of pixels is ignored.
    require(rank >= 3 && mode <= 1)?;
    require(mode == 1 || (1..=1024).contains(&pixels))?;
    // CUtensorMapSwizzle: 64B, 128B, 128B_ATOM_32B, and in that mode 96B.
    require([2, 3, 4].contains(&swizzle) || (swizzle == 7 && mode == 0))?;
    check_corners(3, &[lower], &[upper])?;
    common.check(&size, &strides, &steps)?;
    common.check_inner(channels)?;
    common.write(call, map)
}

fn replace_address(call: &mut Call, map: InOut<Map>, address: u64) -> Outcome {
    require(map.as_ptr().addr().is_multiple_of(64))?;
    call.lock().current()?;
    let mut encoded = map.get();
    let [first, place, alignment, ..] = &mut encoded;
    require(*first == ENCODED && address.is_multiple_of(*alignment))?;
    *place = address;
    map.put(encoded);
    Ok(())
}
