//! The structure in which the runtime reports a device's properties. Its layout differs between CUDA 11, 12 and 13.

use std::ffi::c_int;

use crate::device::runtime_version;
use crate::driver::{Device, Driver};
use crate::error::{INVALID_VALUE, Result};

/// Bytes of `cudaDeviceProp` (driver_types.h) of CUDA 12.
const BYTES_OF_12: usize = 1032;
/// Bytes in CUDA 13, which lacks some of these fields and has others.
const BYTES_OF_13: usize = 1008;
/// Bytes in CUDA 11, whose structure is the start of CUDA 12's.
const BYTES_OF_11: usize = 728;

/// A field, or several in a row, with the value of a device attribute.
struct Field {
    /// Its offset in CUDA 12's structure; 0 if that lacks the field.
    of_12: usize,
    /// The same of CUDA 13's.
    of_13: usize,
    /// Bytes of one value: an `int` or a `size_t`.
    width: usize,
    /// Numbers in `CUdevice_attribute` (cuda.h).
    attributes: &'static [c_int],
}

const fn int(of_12: usize, of_13: usize, attributes: &'static [c_int]) -> Field {
    Field { of_12, of_13, width: 4, attributes }
}

const fn size(of_12: usize, of_13: usize, attributes: &'static [c_int]) -> Field {
    Field { of_12, of_13, width: 8, attributes }
}

#[rustfmt::skip]
const FIELDS: &[Field] = &[
    int(304, 304, &[12]), // regsPerBlock
    int(308, 308, &[10]), // warpSize
    int(320, 320, &[1]), // maxThreadsPerBlock
    int(324, 324, &[2, 3, 4]), // maxThreadsDim
    int(336, 336, &[5, 6, 7]), // maxGridSize
    int(348, 0, &[13]), // clockRate
    int(360, 360, &[75]), // major
    int(364, 364, &[76]), // minor
    int(384, 0, &[15]), // deviceOverlap
    int(388, 384, &[16]), // multiProcessorCount
    int(392, 0, &[17]), // kernelExecTimeoutEnabled
    int(396, 388, &[18]), // integrated
    int(400, 392, &[19]), // canMapHostMemory
    int(404, 0, &[20]), // computeMode
    int(408, 396, &[21]), // maxTexture1D
    int(412, 400, &[77]), // maxTexture1DMipmap
    int(416, 0, &[69]), // maxTexture1DLinear
    int(420, 404, &[22, 23]), // maxTexture2D
    int(428, 412, &[73, 74]), // maxTexture2DMipmap
    int(436, 420, &[70, 71, 72]), // maxTexture2DLinear
    int(448, 432, &[45, 46]), // maxTexture2DGather
    int(456, 440, &[24, 25, 26]), // maxTexture3D
    int(468, 452, &[47, 48, 49]), // maxTexture3DAlt
    int(480, 464, &[52]), // maxTextureCubemap
    int(484, 468, &[42, 43]), // maxTexture1DLayered
    int(492, 476, &[27, 28, 29]), // maxTexture2DLayered
    int(504, 488, &[53, 54]), // maxTextureCubemapLayered
    int(512, 496, &[55]), // maxSurface1D
    int(516, 500, &[56, 57]), // maxSurface2D
    int(524, 508, &[58, 59, 60]), // maxSurface3D
    int(536, 520, &[61, 62]), // maxSurface1DLayered
    int(544, 528, &[63, 64, 65]), // maxSurface2DLayered
    int(556, 540, &[66]), // maxSurfaceCubemap
    int(560, 544, &[67, 68]), // maxSurfaceCubemapLayered
    int(576, 560, &[31]), // concurrentKernels
    int(580, 564, &[32]), // ECCEnabled
    int(584, 568, &[33]), // pciBusID
    int(588, 572, &[34]), // pciDeviceID
    int(592, 576, &[50]), // pciDomainID
    int(596, 580, &[35]), // tccDriver
    int(600, 584, &[40]), // asyncEngineCount
    int(604, 588, &[41]), // unifiedAddressing
    int(608, 0, &[36]), // memoryClockRate
    int(612, 592, &[37]), // memoryBusWidth
    int(616, 596, &[38]), // l2CacheSize
    int(620, 600, &[108]), // persistingL2CacheMaxSize
    int(624, 604, &[39]), // maxThreadsPerMultiProcessor
    int(628, 608, &[78]), // streamPrioritiesSupported
    int(632, 612, &[79]), // globalL1CacheSupported
    int(636, 616, &[80]), // localL1CacheSupported
    int(648, 632, &[82]), // regsPerMultiprocessor
    int(652, 636, &[83]), // managedMemory
    int(656, 640, &[84]), // isMultiGpuBoard
    int(660, 644, &[85]), // multiGpuBoardGroupID
    int(664, 648, &[86]), // hostNativeAtomicSupported
    int(668, 0, &[87]), // singleToDoublePrecisionPerfRatio
    int(672, 652, &[88]), // pageableMemoryAccess
    int(676, 656, &[89]), // concurrentManagedAccess
    int(680, 660, &[90]), // computePreemptionSupported
    int(684, 664, &[91]), // canUseHostPointerForRegisteredMem
    int(688, 668, &[95]), // cooperativeLaunch
    int(692, 0, &[96]), // cooperativeMultiDeviceLaunch
    int(704, 680, &[100]), // pageableMemoryAccessUsesHostPageTables
    int(708, 684, &[101]), // directManagedMemAccessFromHost
    int(712, 688, &[106]), // maxBlocksPerMultiProcessor
    int(716, 692, &[109]), // accessPolicyMaxWindowSize
    int(728, 704, &[99]), // hostRegisterSupported
    int(732, 708, &[112]), // sparseCudaArraySupported
    int(736, 712, &[113]), // hostRegisterReadOnlySupported
    int(740, 716, &[114]), // timelineSemaphoreInteropSupported
    int(744, 720, &[115]), // memoryPoolsSupported
    int(748, 724, &[116]), // gpuDirectRDMASupported
    int(752, 728, &[117]), // gpuDirectRDMAFlushWritesOptions
    int(756, 732, &[118]), // gpuDirectRDMAWritesOrdering
    int(760, 736, &[119]), // memoryPoolSupportedHandleTypes
    int(764, 740, &[121]), // deferredMappingCudaArraySupported
    int(768, 744, &[125]), // ipcEventSupported
    int(772, 748, &[120]), // clusterLaunch
    int(776, 752, &[129]), // unifiedFunctionPointers
    int(0, 756, &[130]), // deviceNumaConfig
    int(0, 760, &[131]), // deviceNumaId
    int(0, 764, &[133]), // mpsEnabled
    int(0, 768, &[134]), // hostNumaId
    int(0, 772, &[139]), // gpuPciDeviceID
    int(0, 776, &[140]), // gpuPciSubsystemID
    int(0, 780, &[143]), // hostNumaMultinodeIpcSupported
    size(296, 296, &[8]), // sharedMemPerBlock
    size(312, 312, &[11]), // memPitch
    size(352, 352, &[9]), // totalConstMem
    size(368, 368, &[14]), // textureAlignment
    size(376, 376, &[51]), // texturePitchAlignment
    size(568, 552, &[30]), // surfaceAlignment
    size(640, 624, &[81]), // sharedMemPerMultiprocessor
    size(696, 672, &[97]), // sharedMemPerBlockOptin
    size(720, 696, &[111]), // reservedSharedMemPerBlock
];

/// A structure that is being filled.
struct Properties {
    bytes: [u8; BYTES_OF_12],
}

impl Properties {
    fn put(&mut self, offset: usize, value: &[u8]) {
        self.bytes[offset..offset + value.len()].copy_from_slice(value);
    }

    /// Reads all fields, in CUDA 13's layout or in that of CUDA 12.
    fn read(driver: &Driver, device: Device, is_13: bool) -> Result<Properties> {
        let mut properties = Properties { bytes: [0; BYTES_OF_12] };
        let (mut uuid, mut total) = ([0; 16], 0usize);
        // SAFETY: a place of 256 bytes for the name, of 16 for the UUID, and one for the size.
        unsafe {
            driver.cuDeviceGetName(properties.bytes.as_mut_ptr().cast(), 256, device)?;
            driver.cuDeviceGetUuid(&mut uuid, device)?;
            driver.cuDeviceTotalMem(&mut total, device)?;
        }
        properties.put(256, &uuid);
        properties.put(288, &total.to_ne_bytes());
        for field in FIELDS {
            let first = if is_13 { field.of_13 } else { field.of_12 };
            for (index, number) in field.attributes.iter().enumerate().filter(|_| first != 0) {
                let value = attribute(driver, device, *number)?;
                let offset = first + index * field.width;
                match field.width {
                    4 => properties.put(offset, &value.to_ne_bytes()),
                    _ => properties.put(offset, &(value as usize).to_ne_bytes()),
                }
            }
        }
        Ok(properties)
    }

    /// Copies the first `bytes` of the structure.
    unsafe fn give(&self, to: *mut u8, bytes: usize) -> Result {
        if to.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: the application's structure has this many bytes.
        unsafe { std::ptr::copy_nonoverlapping(self.bytes.as_ptr(), to, bytes) };
        Ok(())
    }
}

/// Returns an attribute of a device; 0 if the driver is older than the attribute.
fn attribute(driver: &Driver, device: Device, number: c_int) -> Result<c_int> {
    let mut value = 0;
    // SAFETY: a place for the value; the driver checks the rest.
    match unsafe { driver.cuDeviceGetAttribute(&mut value, number, device) } {
        Err(INVALID_VALUE) => Ok(0),
        result => result.map(|()| value),
    }
}

export! {
    // CUDA 13 has its own structure. Programs built with CUDA 12 call `_v2`; in libcudart.so.12 this name is for
    // programs built with CUDA 11.
    fn cudaGetDeviceProperties(properties: *mut u8, device: c_int) = with_driver |driver| {
        let is_13 = runtime_version() >= 13000;
        Properties::read(driver, device, is_13)?.give(properties, if is_13 { BYTES_OF_13 } else { BYTES_OF_11 })
    }

    fn cudaGetDeviceProperties_v2(properties: *mut u8, device: c_int) = with_driver |driver| {
        Properties::read(driver, device, false)?.give(properties, BYTES_OF_12)
    }

    // The device that matches best is the first: the simulator's devices are all alike.
    fn cudaChooseDevice(device: *mut c_int, wanted: *const u8) = with_driver |driver| {
        let mut count = 0;
        driver.cuDeviceGetCount(&mut count)?;
        if wanted.is_null() || count == 0 {
            return Err(INVALID_VALUE);
        }
        *device.as_mut().ok_or(INVALID_VALUE)? = 0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_lie_within_their_structure_and_not_on_each_other() {
        for (of, bytes) in [(0, BYTES_OF_12), (1, BYTES_OF_13)] {
            let offset = |field: &Field| if of == 0 { field.of_12 } else { field.of_13 };
            let mut fields: Vec<&Field> = FIELDS.iter().filter(|field| offset(field) != 0).collect();
            fields.sort_by_key(|field| offset(field));
            let end = |field: &Field| offset(field) + field.width * field.attributes.len();
            assert!(fields.windows(2).all(|pair| end(pair[0]) <= offset(pair[1])));
            assert!(fields.iter().all(|field| offset(field) % field.width == 0 && end(field) <= bytes));
        }
    }
}
