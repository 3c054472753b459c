//! CUDA's types and the few constants that the agent looks at.
//!
//! Names are CUDA's own (cuda.h, driver_types.h), so that the hook table reads like the headers and can be printed as C
//! and compiled against them. Handles are addresses: the agent never looks behind one.
#![allow(non_camel_case_types, non_upper_case_globals, reason = "CUDA's own names")]

use core::ffi::{c_char, c_int, c_uint, c_void};

/// CUresult or cudaError_t; 0 is success in both.
pub type CUresult = c_int;
pub type CUdevice = c_int;
pub type CUdeviceptr = u64;
pub type CUcontext = *mut c_void;
pub type CUmodule = *mut c_void;
pub type CUlibrary = *mut c_void;
pub type CUfunction = *mut c_void;
pub type CUkernel = *mut c_void;
pub type CUstream = *mut c_void;
pub type CUevent = *mut c_void;
pub type CUgraph = *mut c_void;
pub type CUgraphNode = *mut c_void;
pub type CUgraphExec = *mut c_void;
pub type cudaStream_t = *mut c_void;
pub type cudaEvent_t = *mut c_void;
pub type cudaGraph_t = *mut c_void;
pub type cudaGraphNode_t = *mut c_void;
pub type cudaGraphExec_t = *mut c_void;
pub type CUmemoryPool = *mut c_void;
pub type CUmemGenericAllocationHandle = u64;
pub type CUexternalMemory = *mut c_void;
pub type CUarray = *mut c_void;
pub type CUmipmappedArray = *mut c_void;
pub type cudaMemPool_t = *mut c_void;
pub type cudaExternalMemory_t = *mut c_void;
pub type cudaArray_t = *mut c_void;
pub type cudaMipmappedArray_t = *mut c_void;
pub type cudaArray_const_t = *const c_void;
pub type CUgraphicsResource = *mut c_void;
pub type cudaGraphicsResource_t = *mut c_void;
pub type cudaLibrary_t = *mut c_void;
pub type cudaKernel_t = *mut c_void;
pub type cudaFunction_t = *mut c_void;
pub type cudaExecutionContext_t = *mut c_void;
pub type cudaDevResourceDesc_t = *mut c_void;
pub type CUgreenCtx = *mut c_void;
pub type CUdevResourceDesc = *mut c_void;
pub type CUlinkState = *mut c_void;
pub type CUjitInputType = c_int;
pub type CUfunction_attribute = c_int;
pub type CUfunc_cache = c_int;
pub type CUsharedconfig = c_int;
pub type CUoccupancyB2DSize = *mut c_void;
pub type CUexternalSemaphore = *mut c_void;
pub type cudaExternalSemaphore_t = *mut c_void;
pub type cudaExternalSemaphoreSignalParams = c_void;
pub type cudaExternalSemaphoreWaitParams = c_void;
pub type CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS = c_void;
pub type CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS = c_void;
pub type cudaLaunchParams = c_void;
pub type cudaFuncAttribute = c_int;
pub type cudaFuncAttributes = c_void;
pub type cudaFuncCache = c_int;
pub type cudaSharedMemConfig = c_int;
pub type CUjit_option = c_int;
pub type CUlibraryOption = c_int;
pub type cudaJitOption = c_int;
pub type cudaLibraryOption = c_int;
pub type CUstreamCaptureMode = c_int;
pub type cudaStreamCaptureMode = c_int;
pub type cudaMemcpyKind = c_int;
pub type cuuint32_t = u32;
pub type cuuint64_t = u64;
pub type CUhostFn = *mut c_void;
pub type CUstreamCallback = *mut c_void;
pub type cudaHostFn_t = *mut c_void;
pub type cudaStreamCallback_t = *mut c_void;
pub type CUstreamBatchMemOpParams = c_void;
pub type CUdriverProcAddressQueryResult = c_int;
pub type cudaDriverEntryPointQueryResult = c_int;
pub type CUexecAffinityParam = c_void;
pub type CUctxCreateParams = c_void;
pub type CUmemcpyAttributes = c_void;
pub type cudaMemcpyAttributes = c_void;
pub type CUDA_FABRIC_COPY_BATCH_OP = c_void;
pub type CUmemDecompressParams = c_void;
pub type CUmem_advise = c_int;
pub type cudaMemoryAdvise = c_int;
pub type CUgraphEdgeData = c_void;
pub type cudaGraphEdgeData = c_void;
pub type CUgraphExecUpdateResult = c_int;
pub type CUgraphRecaptureCallback = *mut c_void;
pub type cudaGraphRecaptureCallbackData = c_void;
pub type CUstreamCigCaptureParams = c_void;
pub type cudaGraphInstantiateParams = c_void;
pub type cudaKernelNodeParams = c_void;
pub type cudaMemsetParams = c_void;
pub type cudaGraphNodeParams = c_void;
pub type CUmemPoolProps = c_void;
pub type cudaMemPoolProps = c_void;
pub type CUmemPool_attribute = c_int;
pub type cudaMemPoolAttr = c_int;
pub type CUmemAllocationHandleType = c_int;
pub type cudaMemAllocationHandleType = c_int;
pub type CUmemAllocationType = c_int;
pub type cudaMemAllocationType = c_int;
pub type CUmemAccessDesc = c_void;
pub type cudaMemAccessDesc = c_void;
pub type CUmemPoolPtrExportData = c_void;
pub type cudaMemPoolPtrExportData = c_void;
pub type CUarrayMapInfo = c_void;
pub type CUmulticastObjectProp = c_void;
pub type CUDA_EXTERNAL_MEMORY_HANDLE_DESC = c_void;
pub type cudaExternalMemoryHandleDesc = c_void;
pub type CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC = c_void;
pub type cudaExternalMemoryMipmappedArrayDesc = c_void;
pub type CUgraphMem_attribute = c_int;
pub type cudaGraphMemAttributeType = c_int;
pub type cudaMemAllocNodeParams = c_void;
pub type CUarray_format = c_uint;

/// Success.
pub const CUDA_SUCCESS: CUresult = 0;
/// CUDA_ERROR_STUB_LIBRARY = cudaErrorStubLibrary: what a hook answers when there is no real function behind it.
pub const ERROR_STUB_LIBRARY: CUresult = 34;
/// CUDA_ERROR_INVALID_VALUE.
pub const ERROR_INVALID_VALUE: CUresult = 1;
/// CUDA_ERROR_INVALID_HANDLE.
pub const ERROR_INVALID_HANDLE: CUresult = 400;
/// CUDA_ERROR_NOT_FOUND.
pub const ERROR_NOT_FOUND: CUresult = 500;
/// CUDA_ERROR_DEINITIALIZED: the driver is shutting down.
pub const CUDA_ERROR_DEINITIALIZED: CUresult = 4;
/// CUDA_ERROR_NOT_READY.
pub const CUDA_ERROR_NOT_READY: CUresult = 600;

/// CU_STREAM_LEGACY.
pub const STREAM_LEGACY: usize = 1;
/// CU_STREAM_PER_THREAD.
pub const STREAM_PER_THREAD: usize = 2;

/// CU_STREAM_NON_BLOCKING.
pub const STREAM_NON_BLOCKING: c_uint = 1;

/// CU_STREAM_CAPTURE_MODE_RELAXED.
pub const CAPTURE_MODE_RELAXED: c_int = 2;
/// CU_STREAM_CAPTURE_STATUS_NONE.
pub const CAPTURE_STATUS_NONE: c_int = 0;

/// CU_GRAPH_NODE_TYPE_KERNEL, _MEMCPY, _MEMSET, _GRAPH, _MEM_ALLOC, _MEM_FREE, _CONDITIONAL; since CUDA 13 _MEMCPY_BATCH and
/// _FABRIC_CPY_BATCH.
pub const NODE_KERNEL: c_int = 0;
pub const NODE_MEMCPY: c_int = 1;
pub const NODE_MEMSET: c_int = 2;
pub const NODE_GRAPH: c_int = 4;
pub const NODE_MEMORY_ALLOC: c_int = 10;
pub const NODE_MEMORY_FREE: c_int = 11;
pub const NODE_CONDITIONAL: c_int = 13;
pub const NODE_MEMCPY_BATCH: c_int = 14;
pub const NODE_FABRIC_COPY_BATCH: c_int = 18;

/// CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH.
pub const GRAPH_DEVICE_LAUNCH: cuuint64_t = 4;

/// CUlaunchAttributeID: COOPERATIVE, CLUSTER_DIMENSION, PROGRAMMATIC_STREAM_SERIALIZATION, PROGRAMMATIC_EVENT,
/// LAUNCH_COMPLETION_EVENT.
pub const ATTRIBUTE_COOPERATIVE: c_uint = 2;
pub const ATTRIBUTE_CLUSTER: c_uint = 4;
pub const ATTRIBUTE_PROGRAMMATIC_SERIALIZATION: c_uint = 6;
pub const ATTRIBUTE_PROGRAMMATIC_EVENT: c_uint = 7;
pub const ATTRIBUTE_LAUNCH_COMPLETION_EVENT: c_uint = 12;

/// CU_DEVICE_ATTRIBUTE_WARP_SIZE, _MULTIPROCESSOR_COUNT, _MAX_THREADS_PER_MULTIPROCESSOR, _COMPUTE_CAPABILITY_MAJOR,
/// _MINOR, _MPS_ENABLED.
pub const DEVICE_WARP_SIZE: c_int = 10;
pub const DEVICE_MULTIPROCESSORS: c_int = 16;
pub const DEVICE_THREADS_PER_MULTIPROCESSOR: c_int = 39;
pub const DEVICE_CAPABILITY_MAJOR: c_int = 75;
pub const DEVICE_CAPABILITY_MINOR: c_int = 76;
pub const DEVICE_MPS_ENABLED: c_int = 133;

/// CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, _SHARED_SIZE_BYTES, _LOCAL_SIZE_BYTES, _NUM_REGS.
pub const FUNC_MAX_THREADS: c_int = 0;
pub const FUNC_SHARED_BYTES: c_int = 1;
pub const FUNC_LOCAL_BYTES: c_int = 3;
pub const FUNC_REGISTERS: c_int = 4;

/// CU_MEM_LOCATION_TYPE_DEVICE, _DEVICE_LOCALITY_DOMAIN.
pub const LOCATION_DEVICE: c_uint = 1;
pub const LOCATION_LOCALITY_DOMAIN: c_uint = 6;

/// CUDA_ARRAY3D_LAYERED, _CUBEMAP, _SPARSE, _DEFERRED_MAPPING; cudaArrayLayered and its like have the same values.
pub const ARRAY3D_LAYERED: c_uint = 0x01;
pub const ARRAY3D_CUBEMAP: c_uint = 0x04;
pub const ARRAY3D_SPARSE: c_uint = 0x40;
pub const ARRAY3D_DEFERRED_MAPPING: c_uint = 0x80;

/// dim3, uint3.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub struct dim3 {
    pub x: c_uint,
    pub y: c_uint,
    pub z: c_uint,
}

/// CUlaunchAttribute = cudaLaunchAttribute: an id and 64 bytes whose meaning it decides.
#[repr(C)]
pub struct LaunchAttribute {
    pub id: c_uint,
    pub pad: [u8; 4],
    pub value: [u32; 16],
}

/// CUlaunchConfig.
#[repr(C)]
pub struct CUlaunchConfig {
    pub grid: [c_uint; 3],
    pub block: [c_uint; 3],
    pub shared_bytes: c_uint,
    pub stream: CUstream,
    pub attributes: *const LaunchAttribute,
    pub attribute_count: c_uint,
}

/// CUDA_LAUNCH_PARAMS.
#[repr(C)]
pub struct CUDA_LAUNCH_PARAMS {
    pub function: CUfunction,
    pub grid: [c_uint; 3],
    pub block: [c_uint; 3],
    pub shared_bytes: c_uint,
    pub stream: CUstream,
    pub arguments: *mut *mut void,
}

/// cudaLaunchConfig_t.
#[repr(C)]
pub struct cudaLaunchConfig_t {
    pub grid: dim3,
    pub block: dim3,
    pub shared_bytes: usize,
    pub stream: cudaStream_t,
    pub attributes: *const LaunchAttribute,
    pub attribute_count: c_uint,
}

/// CUDA_KERNEL_NODE_PARAMS_v1.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct CUDA_KERNEL_NODE_PARAMS_v1 {
    pub func: CUfunction,
    pub grid: [c_uint; 3],
    pub block: [c_uint; 3],
    pub shared_bytes: c_uint,
    pub parameters: *mut void,
    pub extra: *mut void,
}

/// CUDA_KERNEL_NODE_PARAMS_v2 = _v3.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct CUDA_KERNEL_NODE_PARAMS_v2 {
    pub first: CUDA_KERNEL_NODE_PARAMS_v1,
    /// Counts when there is no `func`.
    pub kern: CUkernel,
    pub context: CUcontext,
}

/// A side of CUDA_MEMCPY2D.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Side2D {
    pub x_bytes: size_t,
    pub y: size_t,
    /// A CUmemorytype: it says which of the next three counts.
    pub memory: c_uint,
    pub host: u64,
    pub device: CUdeviceptr,
    pub array: CUarray,
    pub pitch: size_t,
}

/// CUDA_MEMCPY2D.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct CUDA_MEMCPY2D {
    pub src: Side2D,
    pub dst: Side2D,
    /// Bytes of a row, rows.
    pub width: size_t,
    pub height: size_t,
}

/// A side of CUDA_MEMCPY3D and of CUDA_MEMCPY3D_PEER.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Side3D {
    pub x_bytes: size_t,
    pub y: size_t,
    pub z: size_t,
    pub level: size_t,
    /// As in [`Side2D`].
    pub memory: c_uint,
    pub host: u64,
    pub device: CUdeviceptr,
    pub array: CUarray,
    /// Of a peer copy only.
    pub context: CUcontext,
    pub pitch: size_t,
    pub height: size_t,
}

/// CUDA_MEMCPY3D.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct CUDA_MEMCPY3D {
    pub src: Side3D,
    pub dst: Side3D,
    /// Bytes of a row, rows, slices.
    pub width: size_t,
    pub height: size_t,
    pub depth: size_t,
}

/// CUDA_MEMCPY3D_PEER: the same, with contexts.
pub type CUDA_MEMCPY3D_PEER = CUDA_MEMCPY3D;

/// CU_MEMORYTYPE_HOST, _DEVICE, _ARRAY, _UNIFIED.
pub const MEMORYTYPE_HOST: c_uint = 1;
pub const MEMORYTYPE_DEVICE: c_uint = 2;
pub const MEMORYTYPE_ARRAY: c_uint = 3;
pub const MEMORYTYPE_UNIFIED: c_uint = 4;

/// CUmemcpy3DOperand = cudaMemcpy3DOperand.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Operand3D {
    /// [`OPERAND_ARRAY`], or a pointer.
    pub kind: c_uint,
    /// A pointer, its row length and layer height and a location; or an array and three offsets.
    pub body: [u64; 4],
}

/// CU_MEMCPY_OPERAND_TYPE_ARRAY.
pub const OPERAND_ARRAY: c_uint = 2;

/// CUDA_MEMCPY3D_BATCH_OP.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct CUDA_MEMCPY3D_BATCH_OP {
    pub src: Operand3D,
    pub dst: Operand3D,
    /// Elements of a row, rows, slices.
    pub extent: [size_t; 3],
    pub access_order: c_uint,
    pub flags: c_uint,
}

/// cudaMemcpy3DBatchOp.
pub type cudaMemcpy3DBatchOp = CUDA_MEMCPY3D_BATCH_OP;

/// CUmemLocation.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct CUmemLocation {
    pub kind: c_int,
    pub id: c_int,
}

/// cudaMemLocation.
pub type cudaMemLocation = CUmemLocation;

/// CU_DEVICE_CPU = cudaCpuDeviceId.
pub const DEVICE_CPU: CUdevice = -1;
/// CU_MEM_LOCATION_TYPE_HOST, _HOST_NUMA, _HOST_NUMA_CURRENT.
pub const LOCATIONS_HOST: core::ops::RangeInclusive<c_int> = 2..=4;

/// cudaPitchedPtr.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct cudaPitchedPtr {
    pub ptr: *mut void,
    pub pitch: size_t,
    pub width: size_t,
    pub height: size_t,
}

/// cudaExtent.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct cudaExtent {
    pub width: size_t,
    pub height: size_t,
    pub depth: size_t,
}

/// A side of cudaMemcpy3DParms: an array or a pointer, and where in it.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct RuntimeSide3D {
    pub array: cudaArray_t,
    pub position: [size_t; 3],
    pub pointer: cudaPitchedPtr,
}

/// cudaMemcpy3DParms.
#[repr(C)]
pub struct cudaMemcpy3DParms {
    pub src: RuntimeSide3D,
    pub dst: RuntimeSide3D,
    pub extent: cudaExtent,
    pub kind: cudaMemcpyKind,
}

/// A side of cudaMemcpy3DPeerParms.
#[repr(C)]
pub struct RuntimePeer3D {
    pub side: RuntimeSide3D,
    pub device: c_int,
}

/// cudaMemcpy3DPeerParms.
#[repr(C)]
pub struct cudaMemcpy3DPeerParms {
    pub src: RuntimePeer3D,
    pub dst: RuntimePeer3D,
    pub extent: cudaExtent,
}

/// CUDA_MEMSET_NODE_PARAMS.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct CUDA_MEMSET_NODE_PARAMS {
    pub dst: CUdeviceptr,
    pub pitch: size_t,
    pub value: c_uint,
    /// Bytes of an element, elements of a row, rows.
    pub element: c_uint,
    pub width: size_t,
    pub height: size_t,
}

/// CUDA_MEM_ALLOC_NODE_PARAMS.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct CUDA_MEM_ALLOC_NODE_PARAMS {
    /// CUmemPoolProps: the type of memory and of handles, where it is, and more.
    pub kind: c_uint,
    pub handle_types: c_uint,
    pub location: c_uint,
    pub device: c_int,
    pub reserved: [u64; 9],
    pub access: *const CUmemAccessDesc,
    pub access_count: size_t,
    pub bytes: size_t,
    pub address: CUdeviceptr,
}

/// CUDA_GRAPH_INSTANTIATE_PARAMS.
#[repr(C)]
pub struct CUDA_GRAPH_INSTANTIATE_PARAMS {
    pub flags: cuuint64_t,
    pub stream: CUstream,
    pub error: CUgraphNode,
    pub result: c_int,
}

/// CUgraphExecUpdateResultInfo.
#[repr(C)]
pub struct CUgraphExecUpdateResultInfo {
    pub result: c_int,
    pub error: CUgraphNode,
    pub error_from: CUgraphNode,
}

/// CUgraphNodeParams: a type and a union.
#[repr(C)]
pub struct CUgraphNodeParams {
    pub kind: c_int,
    pub reserved: [c_int; 3],
    pub body: [u64; 29],
    pub reserved2: u64,
}

/// cudaChannelFormatDesc.
#[repr(C)]
pub struct cudaChannelFormatDesc {
    /// Of x, y, z and w.
    pub bits: [c_int; 4],
    pub kind: c_int,
}

/// CUDA_ARRAY_DESCRIPTOR.
#[repr(C)]
pub struct CUDA_ARRAY_DESCRIPTOR {
    pub width: size_t,
    pub height: size_t,
    pub format: CUarray_format,
    pub channels: c_uint,
}

/// CUDA_ARRAY3D_DESCRIPTOR.
#[repr(C)]
pub struct CUDA_ARRAY3D_DESCRIPTOR {
    pub width: size_t,
    pub height: size_t,
    pub depth: size_t,
    pub format: CUarray_format,
    pub channels: c_uint,
    pub flags: c_uint,
}

/// The first words of CUmemAllocationProp.
#[repr(C)]
pub struct CUmemAllocationProp {
    pub kind: c_uint,
    pub handle_types: c_uint,
    pub location: c_uint,
    pub device: c_int,
}

/// The first words of CUDA_EXTERNAL_MEMORY_BUFFER_DESC and cudaExternalMemoryBufferDesc.
#[repr(C)]
pub struct CUDA_EXTERNAL_MEMORY_BUFFER_DESC {
    pub offset: u64,
    pub size: u64,
}
pub type cudaExternalMemoryBufferDesc = CUDA_EXTERNAL_MEMORY_BUFFER_DESC;

/// CUipcMemHandle = cudaIpcMemHandle_t.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct CUipcMemHandle {
    pub reserved: [u8; 64],
}
pub type cudaIpcMemHandle_t = CUipcMemHandle;

const _: () = {
    assert!(size_of::<cudaPitchedPtr>() == 32 && size_of::<cudaExtent>() == 24);
    assert!(size_of::<cudaChannelFormatDesc>() == 20);
    assert!(size_of::<CUDA_ARRAY_DESCRIPTOR>() == 24 && size_of::<CUDA_ARRAY3D_DESCRIPTOR>() == 40);
    assert!(size_of::<CUipcMemHandle>() == 64);
    assert!(size_of::<CUDA_KERNEL_NODE_PARAMS_v1>() == 56 && size_of::<CUDA_KERNEL_NODE_PARAMS_v2>() == 72);
    assert!(size_of::<CUDA_MEMCPY3D>() == 200 && size_of::<CUDA_MEMSET_NODE_PARAMS>() == 40);
    assert!(size_of::<CUDA_MEM_ALLOC_NODE_PARAMS>() == 120);
    assert!(size_of::<CUDA_MEMCPY2D>() == 128 && size_of::<CUDA_MEMCPY3D_BATCH_OP>() == 112);
    assert!(size_of::<cudaMemcpy3DParms>() == 160 && size_of::<cudaMemcpy3DPeerParms>() == 168);
    assert!(size_of::<CUgraphNodeParams>() == 256);
    assert!(size_of::<LaunchAttribute>() == 72 && size_of::<CUDA_LAUNCH_PARAMS>() == 56);
    assert!(size_of::<CUlaunchConfig>() == 56);
    assert!(size_of::<cudaLaunchConfig_t>() == 56);
};

/// C's own names in the table's signatures.
pub type unsigned_char = u8;
pub type unsigned_short = u16;
pub type unsigned_int = c_uint;
pub type unsigned_long_long = u64;
pub type size_t = usize;
/// An argument that differs between versions of CUDA, or that only some have: whatever its register or its place on the
/// stack holds, to be handed on and never looked at.
pub type word = usize;
pub type int = c_int;
pub type char_t = c_char;
pub type void = c_void;
