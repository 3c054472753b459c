//! The driver, found and queried the way NVIDIA's runtime does it (observed with 11.7 to 13.5).
//!
//! `dlopen("libcuda.so.1")`, `dlsym("cuGetProcAddress_v2")`; through that pointer `""` version 0, `cuInit`, and
//! `cuGetProcAddress` twice; then every function through the last pointer, in its legacy (flags 0) and per-thread
//! default stream (flags 2) variants. Nothing is ever called by symbol.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;

use crate::error::{self, Result};

pub type DevicePtr = u64;
pub type Device = c_int;
/// An opaque driver handle: context, stream, event, function, graph and so on.
pub type Handle = *mut c_void;

/// `CUipcMemHandle` and `CUipcEventHandle` (cuda.h): 64 bytes, passed by value.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct IpcHandle([u8; 64]);

/// `CUDA_ARRAY3D_DESCRIPTOR` (cuda.h).
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ArrayDescription {
    pub size: [usize; 3],
    pub format: c_uint,
    pub channels: c_uint,
    pub flags: c_uint,
}

/// `CUmemLocation` = `cudaMemLocation`: a type (1 device, 2 host) and a number.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Location {
    kind: c_int,
    id: c_int,
}

impl Location {
    /// A location that was passed in a register: the type below, the number above (the psABIs of x86-64 and AArch64).
    pub fn of_word(word: usize) -> Location {
        Location { kind: word as c_int, id: (word >> 32) as c_int }
    }

    /// A device, or with -1 (`cudaCpuDeviceId`) the host.
    pub fn of(device: c_int) -> Location {
        if device == -1 { Location { kind: 2, id: 0 } } else { Location { kind: 1, id: device } }
    }
}

/// `cuda.h`: `CU_GET_PROC_ADDRESS_LEGACY_STREAM` would be 1, but the runtime passes 0.
const LEGACY: u64 = 0;
/// `cuda.h`: `CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM`.
const PER_THREAD: u64 = 2;

/// `cuGetProcAddress` since CUDA 12: name, place for the address, version, flags, place for a status.
pub type GetProc =
    unsafe extern "C-unwind" fn(*const c_char, *mut *mut c_void, c_int, u64, *mut c_int) -> c_int;

/// The meaning of stream handle 0, which depends on the variant that was called.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DefaultStream {
    Legacy,
    PerThread,
}

/// Declares [`Driver`]: one method per function. A function `on_stream` has two variants, and its method takes a
/// [`DefaultStream`] first. The numbers are the versions that the runtime requests (legacy, per-thread). A `_v2` method
/// is looked up without its suffix, by the later version.
macro_rules! driver_functions {
    (
        plain { $( fn $name:ident[$version:literal]($($argument:ident: $type:ty),* $(,)?); )* }
        on_stream { $( fn $sname:ident[$legacy:literal, $ptsz:literal]($($sargument:ident: $stype:ty),* $(,)?); )* }
    ) => {
        /// The driver's functions, by the pointers that the lookups returned. A function that was not found fails.
        pub struct Driver {
            pub get_proc: GetProc,
            $( $name: Option<unsafe extern "C-unwind" fn($($type),*) -> c_int>, )*
            $( $sname: [Option<unsafe extern "C-unwind" fn($($stype),*) -> c_int>; 2], )*
        }

        impl Driver {
            /// Asks for every function.
            unsafe fn ask(get_proc: GetProc) -> Driver {
                // SAFETY: the pointer is the driver's.
                let driver_version = unsafe { version(get_proc) };
                let request = |get_proc, name, version, flags| {
                    // SAFETY: the same.
                    let answer = unsafe { request(get_proc, name, version, flags) };
                    // An older driver returns an older variant, which takes other arguments.
                    if version > driver_version { std::ptr::null_mut() } else { answer }
                };
                // SAFETY: each answer is used with the signature that cuda.h gives that name, version and flags; a null
                // answer becomes None.
                unsafe {
                    Driver {
                        get_proc,
                        $( $name: std::mem::transmute::<*mut c_void, Option<unsafe extern "C-unwind" fn($($type),*) -> c_int>>(
                            request(get_proc, stringify!($name), $version, LEGACY)), )*
                        $( $sname: [
                            std::mem::transmute::<*mut c_void, Option<unsafe extern "C-unwind" fn($($stype),*) -> c_int>>(
                                request(get_proc, stringify!($sname), $legacy, LEGACY)),
                            std::mem::transmute::<*mut c_void, Option<unsafe extern "C-unwind" fn($($stype),*) -> c_int>>(
                                request(get_proc, stringify!($sname), $ptsz, PER_THREAD)),
                        ], )*
                    }
                }
            }

            $( pub unsafe fn $name(&self, $($argument: $type),*) -> Result {
                let function = self.$name.ok_or(error::SYMBOL_NOT_FOUND)?;
                // SAFETY: the caller passes what the driver's documentation requires.
                error::check(unsafe { function($($argument),*) })
            } )*

            $( pub unsafe fn $sname(&self, default: DefaultStream, $($sargument: $stype),*) -> Result {
                let function = self.$sname[default as usize].ok_or(error::SYMBOL_NOT_FOUND)?;
                // SAFETY: the caller passes what the driver's documentation requires.
                error::check(unsafe { function($($sargument),*) })
            } )*
        }
    };
}

driver_functions! {
    plain {
        fn cuInit[2000](flags: c_uint);
        fn cuDriverGetVersion[2020](version: *mut c_int);
        fn cuDeviceGetCount[2000](count: *mut c_int);
        fn cuDeviceGetName[2000](name: *mut c_char, length: c_int, device: Device);
        fn cuDeviceTotalMem[3020](bytes: *mut usize, device: Device);
        fn cuDeviceGetAttribute[2000](value: *mut c_int, attribute: c_int, device: Device);
        fn cuDeviceGetPCIBusId[4010](id: *mut c_char, length: c_int, device: Device);
        fn cuDeviceGetUuid[9020](uuid: *mut [u8; 16], device: Device);
        fn cuDeviceGetDefaultMemPool[11020](pool: *mut Handle, device: Device);
        fn cuDeviceCanAccessPeer[4000](can: *mut c_int, device: Device, peer: Device);
        fn cuDevicePrimaryCtxRetain[7000](context: *mut Handle, device: Device);
        fn cuDevicePrimaryCtxSetFlags[7000](device: Device, flags: c_uint);
        fn cuDevicePrimaryCtxRelease[7000](device: Device);
        fn cuDevicePrimaryCtxReset[7000](device: Device);
        fn cuCtxGetCurrent[4000](context: *mut Handle);
        fn cuCtxSetCurrent[4000](context: Handle);
        fn cuCtxGetId[12000](context: Handle, id: *mut u64);
        fn cuCtxGetDevice[2000](device: *mut Device);
        fn cuCtxSynchronize[2000]();
        fn cuCtxGetStreamPriorityRange[5050](least: *mut c_int, greatest: *mut c_int);
        fn cuCtxEnablePeerAccess[4000](peer: Handle, flags: c_uint);
        fn cuCtxDisablePeerAccess[4000](peer: Handle);
        fn cuLibraryLoadData[12000](library: *mut Handle, code: *const c_void, jit_options: *mut c_int,
            jit_values: *mut *mut c_void, jit_count: c_uint, options: *mut c_int, values: *mut *mut c_void, count: c_uint);
        fn cuLibraryLoadFromFile[12000](library: *mut Handle, path: *const c_char, jit_options: *mut c_int,
            jit_values: *mut *mut c_void, jit_count: c_uint, options: *mut c_int, values: *mut *mut c_void, count: c_uint);
        fn cuLibraryUnload[12000](library: Handle);
        fn cuLibraryGetKernel[12000](kernel: *mut Handle, library: Handle, name: *const c_char);
        fn cuLibraryGetGlobal[12000](address: *mut DevicePtr, bytes: *mut usize, library: Handle, name: *const c_char);
        fn cuKernelGetFunction[12000](function: *mut Handle, kernel: Handle);
        fn cuFuncGetAttribute[2020](value: *mut c_int, attribute: c_int, function: Handle);
        fn cuFuncSetCacheConfig[3000](function: Handle, config: c_int);
        fn cuFuncSetSharedMemConfig[4020](function: Handle, config: c_int);
        fn cuOccupancyAvailableDynamicSMemPerBlock[10020](bytes: *mut usize, function: Handle, blocks: c_int, block_size: c_int);
        fn cuOccupancyMaxPotentialClusterSize[11070](size: *mut c_int, function: Handle, config: *const c_void);
        fn cuOccupancyMaxActiveClusters[11070](clusters: *mut c_int, function: Handle, config: *const c_void);
        fn cuFuncSetAttribute[9000](function: Handle, attribute: c_int, value: c_int);
        fn cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags[7000](blocks: *mut c_int, function: Handle,
            block_size: c_int, shared_bytes: usize, flags: c_uint);
        fn cuMemGetInfo[3020](free: *mut usize, total: *mut usize);
        fn cuMemAlloc[3020](block: *mut DevicePtr, bytes: usize);
        fn cuMemAllocManaged[6000](block: *mut DevicePtr, bytes: usize, flags: c_uint);
        fn cuMemFree[3020](block: DevicePtr);
        fn cuMemHostAlloc[2020](block: *mut *mut c_void, bytes: usize, flags: c_uint);
        fn cuMemFreeHost[2000](block: *mut c_void);
        fn cuMemHostRegister[6050](block: *mut c_void, bytes: usize, flags: c_uint);
        fn cuMemHostUnregister[4000](block: *mut c_void);
        fn cuMemHostGetDevicePointer[3020](device: *mut DevicePtr, host: *mut c_void, flags: c_uint);
        fn cuPointerGetAttribute[4000](value: *mut c_void, attribute: c_int, pointer: DevicePtr);
        fn cuMemAdvise[12020](address: DevicePtr, bytes: usize, advice: c_int, location: Location);
        fn cuMemPoolTrimTo[11020](pool: Handle, keep: usize);
        fn cuMemPoolGetAttribute[11020](pool: Handle, attribute: c_int, value: *mut c_void);
        fn cuMemPoolSetAttribute[11020](pool: Handle, attribute: c_int, value: *mut c_void);
        fn cuMemPoolSetAccess[11020](pool: Handle, list: *const c_void, count: usize);
        fn cuMemPoolCreate[11020](pool: *mut Handle, properties: *const c_void);
        fn cuMemPoolDestroy[11020](pool: Handle);
        fn cuMemPoolExportToShareableHandle[11020](shared: *mut c_void, pool: Handle, kind: c_int, flags: u64);
        fn cuMemPoolImportFromShareableHandle[11020](pool: *mut Handle, shared: *mut c_void, kind: c_int, flags: u64);
        fn cuMemPoolExportPointer[11020](data: *mut c_void, block: DevicePtr);
        fn cuMemPoolImportPointer[11020](block: *mut DevicePtr, pool: Handle, data: *mut c_void);
        fn cuDeviceGetMemPool[11020](pool: *mut Handle, device: Device);
        fn cuMemSetMemPool[13000](location: *const Location, kind: c_int, pool: Handle);
        fn cuDeviceSetMemPool[11020](device: Device, pool: Handle);
        fn cuMemAllocPitch[3020](block: *mut DevicePtr, pitch: *mut usize, width: usize, height: usize, element: c_uint);
        fn cuArray3DCreate[3020](array: *mut Handle, description: *const ArrayDescription);
        fn cuArray3DGetDescriptor[3020](description: *mut ArrayDescription, array: Handle);
        fn cuArrayDestroy[2000](array: Handle);
        fn cuMipmappedArrayCreate[5000](mipmap: *mut Handle, description: *const ArrayDescription, levels: c_uint);
        fn cuMipmappedArrayDestroy[5000](mipmap: Handle);
        fn cuImportExternalMemory[10000](external: *mut Handle, description: *const c_void);
        fn cuExternalMemoryGetMappedBuffer[10000](block: *mut DevicePtr, external: Handle, buffer: *const c_void);
        fn cuExternalMemoryGetMappedMipmappedArray[10000](mipmap: *mut Handle, external: Handle, array: *const c_void);
        fn cuDestroyExternalMemory[10000](external: Handle);
        fn cuIpcGetEventHandle[4010](handle: *mut IpcHandle, event: Handle);
        fn cuIpcOpenEventHandle[4010](event: *mut Handle, handle: IpcHandle);
        fn cuIpcGetMemHandle[4010](handle: *mut IpcHandle, block: DevicePtr);
        fn cuIpcOpenMemHandle[11000](block: *mut DevicePtr, handle: IpcHandle, flags: c_uint);
        fn cuIpcCloseMemHandle[4010](block: DevicePtr);
        fn cuEventCreate[2000](event: *mut Handle, flags: c_uint);
        fn cuEventDestroy[4000](event: Handle);
        fn cuEventQuery[2000](event: Handle);
        fn cuEventSynchronize[2000](event: Handle);
        fn cuEventElapsedTime[2000](ms: *mut f32, start: Handle, end: Handle);
        fn cuStreamCreate[2000](stream: *mut Handle, flags: c_uint);
        fn cuStreamCreateWithPriority[5050](stream: *mut Handle, flags: c_uint, priority: c_int);
        fn cuStreamDestroy[4000](stream: Handle);
        fn cuThreadExchangeStreamCaptureMode[10010](mode: *mut c_int);
        fn cuGraphCreate[10000](graph: *mut Handle, flags: c_uint);
        fn cuGraphDestroy[10000](graph: Handle);
        fn cuGraphGetNodes[10000](graph: Handle, nodes: *mut Handle, count: *mut usize);
        fn cuGraphGetEdges[10000](graph: Handle, from: *mut Handle, to: *mut Handle, count: *mut usize);
        fn cuGraphClone[10000](clone: *mut Handle, graph: Handle);
        fn cuGraphAddKernelNode[12000](node: *mut Handle, graph: Handle, before: *const Handle, count: usize,
            parameters: *const c_void);
        fn cuGraphAddMemcpyNode[10000](node: *mut Handle, graph: Handle, before: *const Handle, count: usize,
            copy: *const c_void, context: Handle);
        fn cuGraphAddMemsetNode[10000](node: *mut Handle, graph: Handle, before: *const Handle, count: usize,
            set: *const c_void, context: Handle);
        fn cuGraphAddChildGraphNode[10000](node: *mut Handle, graph: Handle, before: *const Handle, count: usize,
            child: Handle);
        fn cuGraphAddMemAllocNode[11040](node: *mut Handle, graph: Handle, before: *const Handle, count: usize,
            parameters: *mut c_void);
        fn cuGraphAddMemFreeNode[11040](node: *mut Handle, graph: Handle, before: *const Handle, count: usize,
            block: DevicePtr);
        fn cuDeviceGetGraphMemAttribute[11040](device: Device, attribute: c_int, value: *mut c_void);
        fn cuDeviceSetGraphMemAttribute[11040](device: Device, attribute: c_int, value: *mut c_void);
        fn cuDeviceGraphMemTrim[11040](device: Device);
        fn cuGraphExecKernelNodeSetParams[12000](exec: Handle, node: Handle, parameters: *const c_void);
        fn cuGraphExecMemcpyNodeSetParams[10020](exec: Handle, node: Handle, copy: *const c_void, context: Handle);
        fn cuGraphExecMemsetNodeSetParams[10020](exec: Handle, node: Handle, parameters: *const c_void, context: Handle);
        fn cuGraphExecChildGraphNodeSetParams[11010](exec: Handle, node: Handle, child: Handle);
        fn cuGraphExecUpdate[12000](exec: Handle, graph: Handle, info: *mut c_void);
        fn cuGraphNodeSetEnabled[11060](exec: Handle, node: Handle, enabled: c_uint);
        fn cuGraphInstantiateWithFlags[11040](exec: *mut Handle, graph: Handle, flags: u64);
        fn cuGraphExecDestroy[10000](exec: Handle);
        fn cuGraphDebugDotPrint[11030](graph: Handle, path: *const c_char, flags: c_uint);
        fn cuCtxGetFlags[7000](flags: *mut c_uint);
        fn cuCtxGetLimit[3010](value: *mut usize, limit: c_int);
        fn cuCtxSetLimit[3010](limit: c_int, value: usize);
        fn cuCtxGetCacheConfig[3020](config: *mut c_int);
        fn cuCtxSetCacheConfig[3020](config: c_int);
        fn cuCtxGetSharedMemConfig[4020](config: *mut c_int);
        fn cuCtxSetSharedMemConfig[4020](config: c_int);
        fn cuCtxResetPersistingL2Cache[11000]();
        fn cuDeviceGetP2PAttribute[8000](value: *mut c_int, attribute: c_int, from: Device, to: Device);
        fn cuDeviceGetByPCIBusId[4010](device: *mut Device, id: *const c_char);
        fn cuDevicePrimaryCtxGetState[7000](device: Device, flags: *mut c_uint, active: *mut c_int);
        fn cuDeviceGetTexture1DLinearMaxWidth[11010](width: *mut usize, format: c_uint, channels: c_uint, device: Device);
        fn cuLibraryGetManaged[12000](address: *mut DevicePtr, bytes: *mut usize, library: Handle, name: *const c_char);
        fn cuLibraryGetKernelCount[12040](count: *mut c_uint, library: Handle);
        fn cuLibraryEnumerateKernels[12040](kernels: *mut Handle, count: c_uint, library: Handle);
        fn cuKernelSetAttribute[12000](attribute: c_int, value: c_int, kernel: Handle, device: Device);
        fn cuFuncGetName[12030](name: *mut *const c_char, function: Handle);
        fn cuFuncGetParamInfo[12040](function: Handle, index: usize, offset: *mut usize, bytes: *mut usize);
        fn cuFuncGetParamCount[13020](function: Handle, count: *mut usize);
        fn cuMemHostGetFlags[2030](flags: *mut c_uint, block: *mut c_void);
        fn cuMemPoolGetAccess[11020](flags: *mut c_int, pool: Handle, location: *const Location);
        fn cuMipmappedArrayGetLevel[5000](array: *mut Handle, mipmap: Handle, level: c_uint);
        fn cuTexObjectCreate[5000](texture: *mut u64, resource: *const c_void, sampling: *const c_void, view: *const c_void);
        fn cuTexObjectDestroy[5000](texture: u64);
        fn cuTexObjectGetResourceDesc[5000](resource: *mut c_void, texture: u64);
        fn cuTexObjectGetTextureDesc[5000](sampling: *mut c_void, texture: u64);
        fn cuTexObjectGetResourceViewDesc[5000](view: *mut c_void, texture: u64);
        fn cuSurfObjectCreate[5000](surface: *mut u64, resource: *const c_void);
        fn cuSurfObjectDestroy[5000](surface: u64);
        fn cuSurfObjectGetResourceDesc[5000](resource: *mut c_void, surface: u64);
        fn cuImportExternalSemaphore[10000](semaphore: *mut Handle, description: *const c_void);
        fn cuDestroyExternalSemaphore[10000](semaphore: Handle);
        fn cuGraphAddHostNode[10000](node: *mut Handle, graph: Handle, before: *const Handle, count: usize,
            parameters: *const c_void);
        fn cuGraphAddEmptyNode[10000](node: *mut Handle, graph: Handle, before: *const Handle, count: usize);
        fn cuGraphAddEventRecordNode[11010](node: *mut Handle, graph: Handle, before: *const Handle, count: usize,
            event: Handle);
        fn cuGraphAddEventWaitNode[11010](node: *mut Handle, graph: Handle, before: *const Handle, count: usize,
            event: Handle);
        fn cuGraphAddNode[12020](node: *mut Handle, graph: Handle, before: *const Handle, count: usize,
            parameters: *mut c_void);
        fn cuGraphAddNode_v2[12030](node: *mut Handle, graph: Handle, before: *const Handle, edges: *const u64,
            count: usize, parameters: *mut c_void);
        fn cuGraphConditionalHandleCreate[12030](handle: *mut u64, graph: Handle, context: Handle, value: c_uint,
            flags: c_uint);
        fn cuGraphNodeSetParams[12020](node: Handle, parameters: *mut c_void);
        fn cuGraphExecNodeSetParams[12020](exec: Handle, node: Handle, parameters: *mut c_void);
        fn cuGraphNodeGetType[10000](node: Handle, kind: *mut c_int);
        fn cuGraphNodeFindInClone[10000](found: *mut Handle, node: Handle, clone: Handle);
        fn cuGraphDestroyNode[10000](node: Handle);
        fn cuGraphGetRootNodes[10000](graph: Handle, nodes: *mut Handle, count: *mut usize);
        fn cuGraphGetEdges_v2[12030](graph: Handle, from: *mut Handle, to: *mut Handle, edges: *mut u64, count: *mut usize);
        fn cuGraphNodeGetDependencies[10000](node: Handle, nodes: *mut Handle, count: *mut usize);
        fn cuGraphNodeGetDependencies_v2[12030](node: Handle, nodes: *mut Handle, edges: *mut u64, count: *mut usize);
        fn cuGraphNodeGetDependentNodes[10000](node: Handle, nodes: *mut Handle, count: *mut usize);
        fn cuGraphNodeGetDependentNodes_v2[12030](node: Handle, nodes: *mut Handle, edges: *mut u64, count: *mut usize);
        fn cuGraphAddDependencies[10000](graph: Handle, from: *const Handle, to: *const Handle, count: usize);
        fn cuGraphAddDependencies_v2[12030](graph: Handle, from: *const Handle, to: *const Handle, edges: *const u64,
            count: usize);
        fn cuGraphRemoveDependencies[10000](graph: Handle, from: *const Handle, to: *const Handle, count: usize);
        fn cuGraphRemoveDependencies_v2[12030](graph: Handle, from: *const Handle, to: *const Handle, edges: *const u64,
            count: usize);
        fn cuGraphKernelNodeGetParams[12000](node: Handle, parameters: *mut c_void);
        fn cuGraphKernelNodeSetParams[12000](node: Handle, parameters: *const c_void);
        fn cuGraphKernelNodeGetAttribute[11000](node: Handle, attribute: c_int, value: *mut c_void);
        fn cuGraphKernelNodeSetAttribute[11000](node: Handle, attribute: c_int, value: *const c_void);
        fn cuGraphKernelNodeCopyAttributes[11000](to: Handle, from: Handle);
        fn cuGraphMemcpyNodeGetParams[10000](node: Handle, copy: *mut c_void);
        fn cuGraphMemcpyNodeSetParams[10000](node: Handle, copy: *const c_void);
        fn cuGraphMemsetNodeGetParams[10000](node: Handle, set: *mut c_void);
        fn cuGraphMemsetNodeSetParams[10000](node: Handle, set: *const c_void);
        fn cuGraphHostNodeGetParams[10000](node: Handle, host: *mut c_void);
        fn cuGraphHostNodeSetParams[10000](node: Handle, host: *const c_void);
        fn cuGraphChildGraphNodeGetGraph[10000](node: Handle, graph: *mut Handle);
        fn cuGraphEventRecordNodeGetEvent[11010](node: Handle, event: *mut Handle);
        fn cuGraphEventRecordNodeSetEvent[11010](node: Handle, event: Handle);
        fn cuGraphEventWaitNodeGetEvent[11010](node: Handle, event: *mut Handle);
        fn cuGraphEventWaitNodeSetEvent[11010](node: Handle, event: Handle);
        fn cuGraphMemAllocNodeGetParams[11040](node: Handle, parameters: *mut c_void);
        fn cuGraphMemFreeNodeGetParams[11040](node: Handle, block: *mut c_void);
        fn cuGraphExecHostNodeSetParams[10020](exec: Handle, node: Handle, host: *const c_void);
        fn cuGraphExecEventRecordNodeSetEvent[11010](exec: Handle, node: Handle, event: Handle);
        fn cuGraphExecEventWaitNodeSetEvent[11010](exec: Handle, node: Handle, event: Handle);
        fn cuGraphExecGetFlags[12000](exec: Handle, flags: *mut u64);
        fn cuGraphNodeGetEnabled[11060](exec: Handle, node: Handle, enabled: *mut c_uint);
        fn cuUserObjectCreate[11030](object: *mut Handle, pointer: *mut c_void, destroy: *mut c_void, references: c_uint,
            flags: c_uint);
        fn cuUserObjectRetain[11030](object: Handle, count: c_uint);
        fn cuUserObjectRelease[11030](object: Handle, count: c_uint);
        fn cuGraphRetainUserObject[11030](graph: Handle, object: Handle, count: c_uint, flags: c_uint);
        fn cuGraphReleaseUserObject[11030](graph: Handle, object: Handle, count: c_uint);
        fn cuGetErrorString[6000](result: c_int, text: *mut *const c_char);
        fn cuProfilerStart[4000]();
        fn cuProfilerStop[4000]();
    }
    on_stream {
        fn cuLaunchKernel[4000, 7000](function: Handle, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint,
            block_y: c_uint, block_z: c_uint, shared_bytes: c_uint, stream: Handle, arguments: *mut *mut c_void,
            extra: *mut *mut c_void);
        fn cuLaunchKernelEx[11060, 11060](config: *const c_void, function: Handle, arguments: *mut *mut c_void,
            extra: *mut *mut c_void);
        fn cuLaunchCooperativeKernel[9000, 9000](function: Handle, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint,
            block_x: c_uint, block_y: c_uint, block_z: c_uint, shared_bytes: c_uint, stream: Handle,
            arguments: *mut *mut c_void);
        fn cuLaunchHostFunc[10000, 10000](stream: Handle, function: *mut c_void, data: *mut c_void);
        fn cuMemcpy[4000, 7000](to: DevicePtr, from: DevicePtr, bytes: usize);
        fn cuMemcpyAsync[4000, 7000](to: DevicePtr, from: DevicePtr, bytes: usize, stream: Handle);
        fn cuMemcpyPeerAsync[4000, 7000](to: DevicePtr, to_context: Handle, from: DevicePtr, from_context: Handle,
            bytes: usize, stream: Handle);
        fn cuMemcpyPeer[4000, 7000](to: DevicePtr, to_context: Handle, from: DevicePtr, from_context: Handle, bytes: usize);
        fn cuMemcpyHtoD[3020, 7000](to: DevicePtr, from: *const c_void, bytes: usize);
        fn cuMemcpyHtoDAsync[3020, 7000](to: DevicePtr, from: *const c_void, bytes: usize, stream: Handle);
        fn cuMemcpyDtoH[3020, 7000](to: *mut c_void, from: DevicePtr, bytes: usize);
        fn cuMemcpyDtoHAsync[3020, 7000](to: *mut c_void, from: DevicePtr, bytes: usize, stream: Handle);
        fn cuMemcpyDtoD[3020, 7000](to: DevicePtr, from: DevicePtr, bytes: usize);
        fn cuMemcpyDtoDAsync[3020, 7000](to: DevicePtr, from: DevicePtr, bytes: usize, stream: Handle);
        fn cuMemcpy2DAsync[3020, 7000](copy: *const c_void, stream: Handle);
        fn cuMemcpy2DUnaligned[3020, 7000](copy: *const c_void);
        fn cuMemcpy3D[3020, 7000](copy: *const c_void);
        fn cuMemcpy3DAsync[3020, 7000](copy: *const c_void, stream: Handle);
        fn cuMemcpy3DPeer[4000, 7000](copy: *const c_void);
        fn cuMemcpy3DPeerAsync[4000, 7000](copy: *const c_void, stream: Handle);
        fn cuMemcpyBatchAsync[12080, 12080](to: *const DevicePtr, from: *const DevicePtr, sizes: *const usize,
            count: usize, attributes: *const c_void, starts: *const usize, kinds: usize, failed: *mut usize,
            stream: Handle);
        fn cuMemcpy3DBatchAsync[12080, 12080](count: usize, operations: *const c_void, failed: *mut usize, flags: u64,
            stream: Handle);
        fn cuMemcpyWithAttributesAsync[13020, 13020](to: DevicePtr, from: DevicePtr, bytes: usize,
            attributes: *const c_void, stream: Handle);
        fn cuMemcpy3DWithAttributesAsync[13020, 13020](operation: *const c_void, flags: u64, stream: Handle);
        fn cuMemPrefetchAsync[12020, 12020](address: DevicePtr, bytes: usize, location: Location, flags: c_uint,
            stream: Handle);
        fn cuMemPrefetchBatchAsync[13000, 13000](addresses: *const DevicePtr, sizes: *const usize, count: usize,
            locations: *const Location, starts: *const usize, kinds: usize, flags: u64, stream: Handle);
        fn cuMemDiscardAndPrefetchBatchAsync[13000, 13000](addresses: *const DevicePtr, sizes: *const usize,
            count: usize, locations: *const Location, starts: *const usize, kinds: usize, flags: u64, stream: Handle);
        fn cuMemDiscardBatchAsync[13000, 13000](addresses: *const DevicePtr, sizes: *const usize, count: usize,
            flags: u64, stream: Handle);
        fn cuStreamAttachMemAsync[6000, 7000](stream: Handle, address: DevicePtr, bytes: usize, flags: c_uint);
        fn cuMemsetD2D8[3020, 7000](to: DevicePtr, pitch: usize, value: u8, width: usize, height: usize);
        fn cuMemsetD2D8Async[3020, 7000](to: DevicePtr, pitch: usize, value: u8, width: usize, height: usize,
            stream: Handle);
        fn cuMemsetD8[3020, 7000](to: DevicePtr, value: u8, bytes: usize);
        fn cuMemsetD8Async[3020, 7000](to: DevicePtr, value: u8, bytes: usize, stream: Handle);
        fn cuMemAllocAsync[11020, 11020](block: *mut DevicePtr, bytes: usize, stream: Handle);
        fn cuMemAllocFromPoolAsync[11020, 11020](block: *mut DevicePtr, bytes: usize, pool: Handle, stream: Handle);
        fn cuMemFreeAsync[11020, 11020](block: DevicePtr, stream: Handle);
        fn cuEventRecord[2000, 7000](event: Handle, stream: Handle);
        fn cuEventRecordWithFlags[11010, 11010](event: Handle, stream: Handle, flags: c_uint);
        fn cuStreamWaitEvent[3020, 7000](stream: Handle, event: Handle, flags: c_uint);
        fn cuStreamSynchronize[2000, 7000](stream: Handle);
        fn cuStreamQuery[2000, 7000](stream: Handle);
        fn cuStreamGetPriority[5050, 7000](stream: Handle, priority: *mut c_int);
        fn cuStreamGetFlags[5050, 7000](stream: Handle, flags: *mut c_uint);
        fn cuStreamGetId[12000, 12000](stream: Handle, id: *mut u64);
        fn cuStreamAddCallback[5000, 7000](stream: Handle, callback: *mut c_void, data: *mut c_void, flags: c_uint);
        fn cuStreamBeginCapture[10010, 10010](stream: Handle, mode: c_int);
        fn cuStreamBeginCaptureToGraph[12030, 12030](stream: Handle, graph: Handle, before: *const Handle, edges: *const c_void,
            count: usize, mode: c_int);
        fn cuStreamEndCapture[10000, 10000](stream: Handle, graph: *mut Handle);
        fn cuStreamIsCapturing[10000, 10000](stream: Handle, status: *mut c_int);
        fn cuStreamGetCaptureInfo[11030, 11030](stream: Handle, status: *mut c_int, id: *mut u64, graph: *mut Handle,
            dependencies: *mut *const Handle, count: *mut usize);
        fn cuStreamGetCaptureInfo_v2[12030, 12030](stream: Handle, status: *mut c_int, id: *mut u64, graph: *mut Handle,
            dependencies: *mut *const Handle, edges: *mut *const u64, count: *mut usize);
        fn cuStreamUpdateCaptureDependencies[11030, 11030](stream: Handle, nodes: *mut Handle, count: usize, flags: c_uint);
        fn cuStreamUpdateCaptureDependencies_v2[12030, 12030](stream: Handle, nodes: *mut Handle, edges: *const u64,
            count: usize, flags: c_uint);
        fn cuStreamGetDevice[12080, 12080](stream: Handle, device: *mut Device);
        fn cuStreamGetAttribute[11000, 11000](stream: Handle, attribute: c_int, value: *mut c_void);
        fn cuStreamSetAttribute[11000, 11000](stream: Handle, attribute: c_int, value: *const c_void);
        fn cuStreamCopyAttributes[11000, 11000](to: Handle, from: Handle);
        fn cuSignalExternalSemaphoresAsync[10000, 10000](semaphores: *const Handle, parameters: *const c_void,
            count: c_uint, stream: Handle);
        fn cuWaitExternalSemaphoresAsync[10000, 10000](semaphores: *const Handle, parameters: *const c_void,
            count: c_uint, stream: Handle);
        fn cuGraphInstantiateWithParams[12000, 12000](exec: *mut Handle, graph: Handle, parameters: *mut c_void);
        fn cuGraphUpload[11010, 11010](exec: Handle, stream: Handle);
        fn cuGraphLaunch[10000, 10000](exec: Handle, stream: Handle);
    }
}

/// Returns the version of the driver that `get_proc` belongs to.
unsafe fn version(get_proc: GetProc) -> c_int {
    let mut version = 0;
    // SAFETY: cuda.h's signature of the function, which needs no cuInit; a place for the version.
    unsafe {
        let answer = request(get_proc, "cuDriverGetVersion", 2020, LEGACY);
        let function = std::mem::transmute::<
            *mut c_void,
            Option<unsafe extern "C-unwind" fn(*mut c_int) -> c_int>,
        >(answer);
        function.map(|function| function(&mut version));
    }
    version
}

/// Looks up one driver function; null if it does not exist. Only the version distinguishes a `_v2` variant.
unsafe fn request(get_proc: GetProc, name: &str, version: c_int, flags: u64) -> *mut c_void {
    let name = name.strip_suffix("_v2").unwrap_or(name);
    let mut text = [0u8; 64];
    text[..name.len()].copy_from_slice(name.as_bytes());
    let (mut answer, mut status) = (std::ptr::null_mut(), 0);
    // SAFETY: a terminated name (CUDA's longest has 59 characters), and places for both answers.
    let result = unsafe { get_proc(text.as_ptr().cast(), &mut answer, version, flags, &mut status) };
    if result == 0 { answer } else { std::ptr::null_mut() }
}

impl Driver {
    /// Gets the functions for primary contexts, or for kernels, that are hidden from lookups if the simulated driver is
    /// set so. They take the place of NVIDIA's export tables.
    unsafe fn find_hidden(&mut self, library: *mut c_void) {
        // SAFETY: the simulated driver's own function, and functions of the prototypes that cuda.h gives these names.
        unsafe {
            let find = libc::dlsym(library, c"simcuda_hidden".as_ptr());
            if find.is_null() {
                return;
            }
            let find =
                std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*const c_char) -> *mut c_void>(find);
            // Each has the type of its field, a function's address or none.
            macro_rules! hide {
                ($($field:ident = $name:literal),* $(,)?) => { $(
                    let found = find($name.as_ptr());
                    if !found.is_null() {
                        self.$field = std::mem::transmute_copy(&found);
                    }
                )* };
            }
            hide! {
                cuDevicePrimaryCtxRetain = c"cuDevicePrimaryCtxRetain",
                cuDevicePrimaryCtxRelease = c"cuDevicePrimaryCtxRelease_v2",
                cuDevicePrimaryCtxReset = c"cuDevicePrimaryCtxReset_v2",
                cuLibraryLoadData = c"cuLibraryLoadData",
                cuLibraryLoadFromFile = c"cuLibraryLoadFromFile",
                cuLibraryUnload = c"cuLibraryUnload",
                cuLibraryGetKernel = c"cuLibraryGetKernel",
                cuLibraryEnumerateKernels = c"cuLibraryEnumerateKernels",
                cuKernelGetFunction = c"cuKernelGetFunction",
            }
        }
    }
}

/// Finds the driver and initializes it.
unsafe fn find() -> Result<Driver> {
    let symbol: &CStr = c"cuGetProcAddress_v2";
    // SAFETY: libcuda's own signature of the function of that name; the requests as the runtime makes them.
    unsafe {
        let library = libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOW);
        if library.is_null() {
            return Err(error::INSUFFICIENT_DRIVER);
        }
        let first = libc::dlsym(library, symbol.as_ptr());
        if first.is_null() {
            return Err(error::INSUFFICIENT_DRIVER);
        }
        let first = std::mem::transmute::<*mut c_void, GetProc>(first);
        request(first, "", 0, LEGACY);
        request(first, "cuInit", 2000, LEGACY);
        request(first, "cuGetProcAddress", 11030, LEGACY);
        let last = request(first, "cuGetProcAddress", 12000, LEGACY);
        if last.is_null() {
            return Err(error::INSUFFICIENT_DRIVER);
        }
        let mut driver = Driver::ask(std::mem::transmute::<*mut c_void, GetProc>(last));
        driver.find_hidden(library);
        driver.cuInit(0)?;
        Ok(driver)
    }
}

/// Returns the driver, which the first call of the process finds. If that fails, it is not retried.
pub fn driver() -> Result<&'static Driver> {
    static DRIVER: OnceLock<Result<Driver>> = OnceLock::new();
    // SAFETY: `find` has no conditions of its own.
    DRIVER.get_or_init(|| unsafe { find() }).as_ref().map_err(|error| *error)
}
