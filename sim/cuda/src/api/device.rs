//! Devices.

use crate::call::Call;
use crate::config::config;
use crate::error::{INVALID_DEVICE, INVALID_VALUE, Outcome};
use crate::export::exports;
use crate::memory::DEVICE_BYTES;
use crate::parameter::{Out, Room, Text};
use crate::resources::{
    REGISTERS, SHARED_BYTES, SHARED_BYTES_OPTIN, SHARED_BYTES_PER_BLOCK, SHARED_BYTES_RESERVED,
};
use std::ffi::c_char;

exports! {
    cuDeviceGet => get(device: Out<i32>, ordinal: i32);
    cuDeviceGetCount => count(count: Out<i32>);
    cuDeviceGetName => name(name[room.max(0)]: Room<c_char>, room: i32, device: i32);
    cuDeviceGetUuid | cuDeviceGetUuid_v2 => uuid(uuid: Out<[u8; 16]>, device: i32);
    cuDeviceTotalMem_v2 => total_memory(bytes: Out<usize>, device: i32);
    cuDeviceGetAttribute => attribute(value: Out<i32>, attribute: u32, device: i32);
    cuDeviceComputeCapability => capability(major: Out<i32>, minor: Out<i32>, device: i32);
    cuDeviceGetPCIBusId => pci_bus_id(id[room.max(0)]: Room<c_char>, room: i32, device: i32);
    cuDeviceGetByPCIBusId => by_pci_bus_id(device: Out<i32>, id: Text);
    cuDeviceCanAccessPeer => can_access_peer(can: Out<i32>, device: i32, peer: i32);
    cuDeviceGetP2PAttribute => p2p_attribute(value: Out<i32>, attribute: u32, source: i32, destination: i32);
    cuDeviceGetExecAffinitySupport => exec_affinity(value: Out<i32>, kind: u32, device: i32);
}

/// Streaming multiprocessors of a device.
pub const MULTIPROCESSORS: i32 = 132;
/// The maximum number of threads on a multiprocessor.
pub const THREADS_PER_MULTIPROCESSOR: i32 = 2048;
/// The maximum number of blocks on a multiprocessor.
pub const BLOCKS_PER_MULTIPROCESSOR: i32 = 32;

/// Returns the ordinal of a CUdevice.
pub fn ordinal(device: i32) -> Outcome<u32> {
    u32::try_from(device).ok().filter(|&ordinal| ordinal < config().devices()).ok_or(INVALID_DEVICE)
}

/// Returns the number in the machine of the GPU that a CUdevice is: by that, processes that see different ones know them apart.
fn physical(device: i32) -> Outcome<u32> {
    Ok(config().visible[ordinal(device)? as usize])
}

fn get(_: &mut Call, device: Out<i32>, number: i32) -> Outcome {
    ordinal(number)?;
    device.put(number);
    Ok(())
}

fn count(_: &mut Call, count: Out<i32>) -> Outcome {
    count.put(config().devices() as i32);
    Ok(())
}

fn name(_: &mut Call, name: Room<c_char>, _: i32, device: i32) -> Outcome {
    ordinal(device)?;
    name.put_text("Simulated GPU")
}

fn uuid(_: &mut Call, uuid: Out<[u8; 16]>, device: i32) -> Outcome {
    let mut id = *b"simulated-gpu-00";
    id[15] += physical(device)? as u8;
    uuid.put(id);
    Ok(())
}

fn total_memory(_: &mut Call, bytes: Out<usize>, device: i32) -> Outcome {
    ordinal(device)?;
    bytes.put(DEVICE_BYTES as usize);
    Ok(())
}

fn attribute(_: &mut Call, value: Out<i32>, attribute: u32, device: i32) -> Outcome {
    let physical = physical(device)?;
    let known = match attribute {
        33 => physical as i32 + 1, // PCI_BUS_ID
        _ => attribute_of_all(attribute).ok_or(INVALID_VALUE)?,
    };
    value.put(known);
    Ok(())
}

/// Returns an attribute that all devices share. The numbers are CUdevice_attribute's (cuda.h); the values are those of
/// the CUDA programming guide's "Compute Capabilities" for 9.0, where it lists them.
fn attribute_of_all(attribute: u32) -> Option<i32> {
    Some(match attribute {
        1..=3 => 1024, // MAX_THREADS_PER_BLOCK, MAX_BLOCK_DIM_X, _Y
        4 => 64,       // MAX_BLOCK_DIM_Z
        5 => i32::MAX, // MAX_GRID_DIM_X
        6 | 7 => 65535,
        8 => SHARED_BYTES_PER_BLOCK as i32, // MAX_SHARED_MEMORY_PER_BLOCK
        9 => 64 << 10,                      // TOTAL_CONSTANT_MEMORY
        10 => 32,                           // WARP_SIZE
        11 => i32::MAX,
        12 => REGISTERS as i32, // MAX_REGISTERS_PER_BLOCK
        13 => 1_980_000,        // CLOCK_RATE, kHz
        14 => 512,              // TEXTURE_ALIGNMENT
        15 => 1,                // GPU_OVERLAP
        16 => MULTIPROCESSORS,
        17 | 18 => 0, // KERNEL_EXEC_TIMEOUT, INTEGRATED
        19 => 1,      // CAN_MAP_HOST_MEMORY
        20 => 0,      // COMPUTE_MODE
        21..=30 | 42..=49 | 51..=74 | 77 => texture(attribute),
        31 => 1, // CONCURRENT_KERNELS
        32 => 0, // ECC_ENABLED
        34 | 35 | 50 => 0,
        36 => 2_619_000, // MEMORY_CLOCK_RATE, kHz
        37 => 5120,      // GLOBAL_MEMORY_BUS_WIDTH, bits
        38 => 50 << 20,  // L2_CACHE_SIZE
        39 => THREADS_PER_MULTIPROCESSOR,
        40 => 3, // ASYNC_ENGINE_COUNT
        41 => 1, // UNIFIED_ADDRESSING
        75 => 9, // COMPUTE_CAPABILITY_MAJOR
        76 => 0,
        78..=80 => 1,
        81 => SHARED_BYTES as i32, // MAX_SHARED_MEMORY_PER_MULTIPROCESSOR
        82 => REGISTERS as i32,    // MAX_REGISTERS_PER_MULTIPROCESSOR
        83 => 1,                   // MANAGED_MEMORY
        84..=86 => 0,
        87 => 2,
        88 => 0, // PAGEABLE_MEMORY_ACCESS
        89..=91 => 1,
        92 | 93 => 0,
        94 => 1,
        95 => 1, // COOPERATIVE_LAUNCH
        96 => 0,
        97 => SHARED_BYTES_OPTIN as i32, // MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
        98 => 0,
        99 => 1, // HOST_REGISTER_SUPPORTED
        100 | 101 => 0,
        102 => 1, // VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED
        103 => 1, // HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED
        104 | 105 => 0,
        106 => BLOCKS_PER_MULTIPROCESSOR,
        107..=110 => 0,
        111 => SHARED_BYTES_RESERVED as i32, // RESERVED_SHARED_MEMORY_PER_BLOCK
        112..=114 => 0,
        115 => 1, // MEMORY_POOLS_SUPPORTED
        116..=118 => 0,
        119 => 1, // MEMPOOL_SUPPORTED_HANDLE_TYPES: POSIX_FILE_DESCRIPTOR
        120 => 1, // CLUSTER_LAUNCH
        121 => 0,
        122 | 123 => 1, // CAN_USE_64_BIT_STREAM_MEM_OPS, CAN_USE_STREAM_WAIT_VALUE_NOR
        124..=126 => 0,
        127 => 1, // TENSOR_MAP_ACCESS_SUPPORTED
        128 => 0,
        129 => 0,
        130 => 0,
        131 | 134 => -1,                               // NUMA_ID, HOST_NUMA_ID
        132 => 1,                                      // MULTICAST_SUPPORTED
        133 => i32::from(crate::config::config().mps), // MPS_ENABLED
        135..=143 => 0,
        _ => return None,
    })
}

/// Limits of textures and surfaces: the CUDA programming guide's "Technical Specifications per Compute Capability".
fn texture(attribute: u32) -> i32 {
    match attribute {
        30 => 512,                    // SURFACE_ALIGNMENT
        51 => 32,                     // TEXTURE_PITCH_ALIGNMENT
        44 => 1,                      // CAN_TEX2D_GATHER
        69 => 1 << 28,                // TEXTURE1D_LINEAR
        21 | 22 | 56 | 70 => 131_072, // TEXTURE1D, TEXTURE2D, SURFACE2D, TEXTURE2D_LINEAR: widths
        23 | 57 => 65_536,            // TEXTURE2D, SURFACE2D: heights
        71 => 65_000,                 // TEXTURE2D_LINEAR: height
        72 => 2_097_120,              // and pitch
        24..=26 | 58..=60 => 16_384,  // TEXTURE3D, SURFACE3D
        47 | 48 => 8_192,             // TEXTURE3D, the alternative
        29 | 43 | 62 | 65 => 2_048,   // layers
        54 | 68 => 2_046,             // of cubes
        _ => 32_768,
    }
}

/// The limits that a texture's memory is checked against.
pub struct TextureLimits {
    /// Of an address.
    pub alignment: u64,
    /// Of a pitch.
    pub pitch_alignment: u64,
    /// Elements of linear memory.
    pub linear: u64,
    /// Width, height and pitch of pitched memory.
    pub pitched: [u64; 3],
}

/// Returns the limits, from the attributes.
pub fn texture_limits() -> TextureLimits {
    let of = |attribute| attribute_of_all(attribute).unwrap_or(0) as u64;
    TextureLimits {
        alignment: of(14),
        pitch_alignment: of(51),
        linear: of(69),
        pitched: [70, 71, 72].map(of),
    }
}

fn capability(_: &mut Call, major: Out<i32>, minor: Out<i32>, device: i32) -> Outcome {
    ordinal(device)?;
    major.put(9);
    minor.put(0);
    Ok(())
}

fn pci_bus_id(_: &mut Call, id: Room<c_char>, _: i32, device: i32) -> Outcome {
    let text = format!("0000:{:02x}:00.0", physical(device)? + 1);
    id.put_text(&text)
}

fn by_pci_bus_id(_: &mut Call, device: Out<i32>, id: Text) -> Outcome {
    // The domain and the function may be left out.
    let bus = id.split(':').rev().nth(1).and_then(|bus| u32::from_str_radix(bus, 16).ok());
    let bus = bus.ok_or(INVALID_VALUE)?;
    let ordinal = config().visible.iter().position(|physical| physical + 1 == bus).ok_or(INVALID_DEVICE)?;
    device.put(ordinal as i32);
    Ok(())
}

fn can_access_peer(_: &mut Call, can: Out<i32>, device: i32, peer: i32) -> Outcome {
    let distinct = ordinal(device)? != ordinal(peer)?;
    can.put(i32::from(distinct));
    Ok(())
}

fn p2p_attribute(_: &mut Call, value: Out<i32>, attribute: u32, source: i32, destination: i32) -> Outcome {
    if ordinal(source)? == ordinal(destination)? {
        return Err(INVALID_DEVICE);
    }
    let known = match attribute {
        1 => 0,
        2 | 3 => 1,
        4 => 0,
        _ => return Err(INVALID_VALUE),
    };
    value.put(known);
    Ok(())
}

fn exec_affinity(_: &mut Call, value: Out<i32>, _: u32, device: i32) -> Outcome {
    ordinal(device)?;
    value.put(0);
    Ok(())
}
