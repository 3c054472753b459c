//! The hook table: every function that the agent intercepts, one entry each.
//!
//! An entry is
//!
//! ```text
//! layer "base name" { symbol @ version [per_thread], … } (parameters) => how(the call's fields)
//! ```
//!
//! - *layer*: `driver` (libcuda) or `runtime` (libcudart);
//! - *base name*: what `cuGetProcAddress` is asked for, and what reports call it;
//! - *symbols*: every exported variant with this signature; *version* is the CUDA version that `cuGetProcAddress` needs
//!   to answer with it (12.9's and 13.5's own requests), `per_thread` marks those whose default stream is the thread's
//!   own; the runtime has no versions (0);
//! - *parameters* with CUDA's own type names: they are printed as C and compiled against NVIDIA's headers (the test
//!   `prototypes_equal_the_headers`);
//! - *how*: what the call is, in the words of [`crate::calls`], its fields read from the parameters.
//!
//! From an entry come the exported symbols, the pointers that `dlsym` and `cuGetProcAddress` hand out, the lookup table,
//! and the list in `docs/hooks.md`. Version-1 functions with 32-bit device pointers (`cuMemAlloc` without `_v2`, CUDA
//! before 3.2) pass through: no 64-bit program can use them.

use crate::calls::*;
use crate::cuda::*;
use crate::hook::hooks;
use gpuspy_wire::record::{Direction, Memory, SyncScope};

hooks! {
    // Lookup: the road by which runtimes, static ones too, find everything else.
    driver "cuGetProcAddress" { cuGetProcAddress @ 11030 }
        (symbol: *const char_t, pfn: *mut *mut void, cudaVersion: int, flags: cuuint64_t)
        => lookup(Lookup { symbol, pfn });
    driver "cuGetProcAddress" { cuGetProcAddress_v2 @ 12000 }
        (symbol: *const char_t, pfn: *mut *mut void, cudaVersion: int, flags: cuuint64_t,
         symbolStatus: *mut CUdriverProcAddressQueryResult)
        => lookup(Lookup { symbol, pfn });
    runtime "cudaGetDriverEntryPoint" { cudaGetDriverEntryPoint @ 0, cudaGetDriverEntryPoint_ptsz @ 0 per_thread }
        (symbol: *const char_t, funcPtr: *mut *mut void, flags: unsigned_long_long,
         driverStatus: *mut cudaDriverEntryPointQueryResult)
        => lookup(Lookup { symbol, pfn: funcPtr });
    runtime "cudaGetDriverEntryPointByVersion"
        { cudaGetDriverEntryPointByVersion @ 0, cudaGetDriverEntryPointByVersion_ptsz @ 0 per_thread }
        (symbol: *const char_t, funcPtr: *mut *mut void, cudaVersion: unsigned_int, flags: unsigned_long_long,
         driverStatus: *mut cudaDriverEntryPointQueryResult)
        => lookup(Lookup { symbol, pfn: funcPtr });

    // Set-up: host time that explains a cold start.
    driver "cuInit" { cuInit @ 2000 } (Flags: unsigned_int) => plain(Host { subject: 0 });

    // Launches.
    driver "cuLaunchKernel" { cuLaunchKernel @ 4000, cuLaunchKernel_ptsz @ 7000 per_thread }
        (f: CUfunction, gridDimX: unsigned_int, gridDimY: unsigned_int, gridDimZ: unsigned_int,
         blockDimX: unsigned_int, blockDimY: unsigned_int, blockDimZ: unsigned_int, sharedMemBytes: unsigned_int,
         hStream: CUstream, kernelParams: *mut *mut void, extra: *mut *mut void)
        => work(Launch { function: f, grid: [gridDimX, gridDimY, gridDimZ], block: [blockDimX, blockDimY, blockDimZ],
                         shared_bytes: sharedMemBytes, stream: hStream, attributes: Attributes::NONE });
    driver "cuLaunchKernelEx" { cuLaunchKernelEx @ 11060, cuLaunchKernelEx_ptsz @ 11060 per_thread }
        (config: *const CUlaunchConfig, f: CUfunction, kernelParams: *mut *mut void, extra: *mut *mut void)
        => work(Launch::from_driver_config(config, f));
    runtime "cudaLaunchKernel" { cudaLaunchKernel @ 0, cudaLaunchKernel_ptsz @ 0 per_thread }
        (func: *const void, gridDim: dim3, blockDim: dim3, args: *mut *mut void, sharedMem: size_t,
         stream: cudaStream_t)
        => work(Launch::from_runtime(func, gridDim, blockDim, sharedMem, stream));
    runtime "__cudaLaunchKernel" { __cudaLaunchKernel @ 0, __cudaLaunchKernel_ptsz @ 0 per_thread }
        (kernel: *mut void, gridDim: dim3, blockDim: dim3, args: *mut *mut void, sharedMem: size_t,
         stream: cudaStream_t)
        => work(Launch::from_runtime(kernel, gridDim, blockDim, sharedMem, stream));
    runtime "cudaLaunchKernelExC" { cudaLaunchKernelExC @ 0, cudaLaunchKernelExC_ptsz @ 0 per_thread }
        (config: *const cudaLaunchConfig_t, func: *const void, args: *mut *mut void)
        => work(Launch::from_runtime_config(config, func));

    // Copies.
    driver "cuMemcpy" { cuMemcpy @ 4000, cuMemcpy_ptds @ 7000 per_thread }
        (dst: CUdeviceptr, src: CUdeviceptr, ByteCount: size_t)
        => work(Copy::new(Direction::Default, dst, src, ByteCount));
    driver "cuMemcpyAsync" { cuMemcpyAsync @ 4000, cuMemcpyAsync_ptsz @ 7000 per_thread }
        (dst: CUdeviceptr, src: CUdeviceptr, ByteCount: size_t, hStream: CUstream)
        => work(Copy::new(Direction::Default, dst, src, ByteCount).on(hStream));
    driver "cuMemcpyPeer" { cuMemcpyPeer @ 4000, cuMemcpyPeer_ptds @ 7000 per_thread }
        (dstDevice: CUdeviceptr, dstContext: CUcontext, srcDevice: CUdeviceptr, srcContext: CUcontext,
         ByteCount: size_t)
        => work(Copy::new(Direction::PtoP, dstDevice, srcDevice, ByteCount).peer(dstContext, srcContext));
    driver "cuMemcpyPeerAsync" { cuMemcpyPeerAsync @ 4000, cuMemcpyPeerAsync_ptsz @ 7000 per_thread }
        (dstDevice: CUdeviceptr, dstContext: CUcontext, srcDevice: CUdeviceptr, srcContext: CUcontext,
         ByteCount: size_t, hStream: CUstream)
        => work(Copy::new(Direction::PtoP, dstDevice, srcDevice, ByteCount).peer(dstContext, srcContext).on(hStream));
    driver "cuMemcpyHtoD" { cuMemcpyHtoD_v2 @ 3020, cuMemcpyHtoD_v2_ptds @ 7000 per_thread }
        (dstDevice: CUdeviceptr, srcHost: *const void, ByteCount: size_t)
        => work(Copy::new(Direction::HtoD, dstDevice, srcHost as u64, ByteCount));
    driver "cuMemcpyHtoDAsync" { cuMemcpyHtoDAsync_v2 @ 3020, cuMemcpyHtoDAsync_v2_ptsz @ 7000 per_thread }
        (dstDevice: CUdeviceptr, srcHost: *const void, ByteCount: size_t, hStream: CUstream)
        => work(Copy::new(Direction::HtoD, dstDevice, srcHost as u64, ByteCount).on(hStream));
    driver "cuMemcpyDtoH" { cuMemcpyDtoH_v2 @ 3020, cuMemcpyDtoH_v2_ptds @ 7000 per_thread }
        (dstHost: *mut void, srcDevice: CUdeviceptr, ByteCount: size_t)
        => work(Copy::new(Direction::DtoH, dstHost as u64, srcDevice, ByteCount));
    driver "cuMemcpyDtoHAsync" { cuMemcpyDtoHAsync_v2 @ 3020, cuMemcpyDtoHAsync_v2_ptsz @ 7000 per_thread }
        (dstHost: *mut void, srcDevice: CUdeviceptr, ByteCount: size_t, hStream: CUstream)
        => work(Copy::new(Direction::DtoH, dstHost as u64, srcDevice, ByteCount).on(hStream));
    driver "cuMemcpyDtoD" { cuMemcpyDtoD_v2 @ 3020, cuMemcpyDtoD_v2_ptds @ 7000 per_thread }
        (dstDevice: CUdeviceptr, srcDevice: CUdeviceptr, ByteCount: size_t)
        => work(Copy::new(Direction::DtoD, dstDevice, srcDevice, ByteCount));
    driver "cuMemcpyDtoDAsync" { cuMemcpyDtoDAsync_v2 @ 3020, cuMemcpyDtoDAsync_v2_ptsz @ 7000 per_thread }
        (dstDevice: CUdeviceptr, srcDevice: CUdeviceptr, ByteCount: size_t, hStream: CUstream)
        => work(Copy::new(Direction::DtoD, dstDevice, srcDevice, ByteCount).on(hStream));
    runtime "cudaMemcpy" { cudaMemcpy @ 0, cudaMemcpy_ptds @ 0 per_thread }
        (dst: *mut void, src: *const void, count: size_t, kind: cudaMemcpyKind)
        => work(Copy::new(runtime_direction(kind), dst as u64, src as u64, count));
    runtime "cudaMemcpyAsync" { cudaMemcpyAsync @ 0, cudaMemcpyAsync_ptsz @ 0 per_thread }
        (dst: *mut void, src: *const void, count: size_t, kind: cudaMemcpyKind, stream: cudaStream_t)
        => work(Copy::new(runtime_direction(kind), dst as u64, src as u64, count).on(stream));

    // Sets.
    driver "cuMemsetD8" { cuMemsetD8_v2 @ 3020, cuMemsetD8_v2_ptds @ 7000 per_thread }
        (dstDevice: CUdeviceptr, uc: unsigned_char, N: size_t) => work(Set::new(dstDevice, uc.into(), 1, N));
    driver "cuMemsetD16" { cuMemsetD16_v2 @ 3020, cuMemsetD16_v2_ptds @ 7000 per_thread }
        (dstDevice: CUdeviceptr, us: unsigned_short, N: size_t) => work(Set::new(dstDevice, us.into(), 2, N));
    driver "cuMemsetD32" { cuMemsetD32_v2 @ 3020, cuMemsetD32_v2_ptds @ 7000 per_thread }
        (dstDevice: CUdeviceptr, ui: unsigned_int, N: size_t) => work(Set::new(dstDevice, ui, 4, N));
    driver "cuMemsetD8Async" { cuMemsetD8Async @ 3020, cuMemsetD8Async_ptsz @ 7000 per_thread }
        (dstDevice: CUdeviceptr, uc: unsigned_char, N: size_t, hStream: CUstream)
        => work(Set::new(dstDevice, uc.into(), 1, N).on(hStream));
    driver "cuMemsetD16Async" { cuMemsetD16Async @ 3020, cuMemsetD16Async_ptsz @ 7000 per_thread }
        (dstDevice: CUdeviceptr, us: unsigned_short, N: size_t, hStream: CUstream)
        => work(Set::new(dstDevice, us.into(), 2, N).on(hStream));
    driver "cuMemsetD32Async" { cuMemsetD32Async @ 3020, cuMemsetD32Async_ptsz @ 7000 per_thread }
        (dstDevice: CUdeviceptr, ui: unsigned_int, N: size_t, hStream: CUstream)
        => work(Set::new(dstDevice, ui, 4, N).on(hStream));
    runtime "cudaMemset" { cudaMemset @ 0, cudaMemset_ptds @ 0 per_thread }
        (devPtr: *mut void, value: int, count: size_t) => work(Set::new(devPtr as u64, value as u32 & 0xff, 1, count));
    runtime "cudaMemsetAsync" { cudaMemsetAsync @ 0, cudaMemsetAsync_ptsz @ 0 per_thread }
        (devPtr: *mut void, value: int, count: size_t, stream: cudaStream_t)
        => work(Set::new(devPtr as u64, value as u32 & 0xff, 1, count).on(stream));

    // Memory: what is asked for by size.
    driver "cuMemAlloc" { cuMemAlloc_v2 @ 3020 } (dptr: *mut CUdeviceptr, bytesize: size_t)
        => plain(Alloc::at(dptr, bytesize, Memory::Device));
    driver "cuMemAllocPitch" { cuMemAllocPitch_v2 @ 3020 }
        (dptr: *mut CUdeviceptr, pPitch: *mut size_t, WidthInBytes: size_t, Height: size_t,
         ElementSizeBytes: unsigned_int)
        => plain(Alloc::pitched(dptr, pPitch, Height));
    driver "cuMemAllocManaged" { cuMemAllocManaged @ 6000 }
        (dptr: *mut CUdeviceptr, bytesize: size_t, flags: unsigned_int)
        => plain(Alloc::at(dptr, bytesize, Memory::Managed));
    driver "cuMemFree" { cuMemFree_v2 @ 3020 } (dptr: CUdeviceptr) => plain(Free::of(dptr, Memory::Device));
    driver "cuMemAllocHost" { cuMemAllocHost_v2 @ 3020 } (pp: *mut *mut void, bytesize: size_t)
        => plain(Alloc::at(pp, bytesize, Memory::Pinned));
    driver "cuMemHostAlloc" { cuMemHostAlloc @ 2020 } (pp: *mut *mut void, bytesize: size_t, Flags: unsigned_int)
        => plain(Alloc::at(pp, bytesize, Memory::Pinned));
    driver "cuMemFreeHost" { cuMemFreeHost @ 2000 } (p: *mut void) => plain(Free::of(p as u64, Memory::Pinned));
    driver "cuMemHostRegister" { cuMemHostRegister @ 4000, cuMemHostRegister_v2 @ 6050 }
        (p: *mut void, bytesize: size_t, Flags: unsigned_int)
        => plain(Alloc::of(p, bytesize, Memory::Registered));
    driver "cuMemHostUnregister" { cuMemHostUnregister @ 4000 } (p: *mut void)
        => plain(Free::of(p as u64, Memory::Registered));
    runtime "cudaMalloc" { cudaMalloc @ 0 } (devPtr: *mut *mut void, size: size_t)
        => plain(Alloc::at(devPtr, size, Memory::Device));
    runtime "cudaMallocPitch" { cudaMallocPitch @ 0 }
        (devPtr: *mut *mut void, pitch: *mut size_t, width: size_t, height: size_t)
        => plain(Alloc::pitched(devPtr, pitch, height));
    runtime "cudaMalloc3D" { cudaMalloc3D @ 0 } (pitchedDevPtr: *mut cudaPitchedPtr, extent: cudaExtent)
        => plain(Alloc::pitched_3d(pitchedDevPtr, extent));
    runtime "cudaMallocManaged" { cudaMallocManaged @ 0 } (devPtr: *mut *mut void, size: size_t, flags: unsigned_int)
        => plain(Alloc::at(devPtr, size, Memory::Managed));
    runtime "cudaFree" { cudaFree @ 0 } (devPtr: *mut void) => plain(Free::of(devPtr as u64, Memory::Device));
    runtime "cudaMallocHost" { cudaMallocHost @ 0 } (ptr: *mut *mut void, size: size_t)
        => plain(Alloc::at(ptr, size, Memory::Pinned));
    runtime "cudaHostAlloc" { cudaHostAlloc @ 0 } (pHost: *mut *mut void, size: size_t, flags: unsigned_int)
        => plain(Alloc::at(pHost, size, Memory::Pinned));
    runtime "cudaFreeHost" { cudaFreeHost @ 0 } (ptr: *mut void) => plain(Free::of(ptr as u64, Memory::Pinned));
    runtime "cudaHostRegister" { cudaHostRegister @ 0 } (ptr: *mut void, size: size_t, flags: unsigned_int)
        => plain(Alloc::of(ptr, size, Memory::Registered));
    runtime "cudaHostUnregister" { cudaHostUnregister @ 0 } (ptr: *mut void)
        => plain(Free::of(ptr as u64, Memory::Registered));

    // Memory: pools.
    driver "cuMemAllocAsync" { cuMemAllocAsync @ 11020, cuMemAllocAsync_ptsz @ 11020 per_thread }
        (dptr: *mut CUdeviceptr, bytesize: size_t, hStream: CUstream)
        => plain(Alloc::at(dptr, bytesize, Memory::Pool).on(hStream));
    driver "cuMemAllocFromPoolAsync" { cuMemAllocFromPoolAsync @ 11020, cuMemAllocFromPoolAsync_ptsz @ 11020 per_thread }
        (dptr: *mut CUdeviceptr, bytesize: size_t, pool: CUmemoryPool, hStream: CUstream)
        => plain(Alloc::at(dptr, bytesize, Memory::Pool).on(hStream).from(pool));
    driver "cuMemFreeAsync" { cuMemFreeAsync @ 11020, cuMemFreeAsync_ptsz @ 11020 per_thread }
        (dptr: CUdeviceptr, hStream: CUstream) => plain(Free::of(dptr, Memory::Pool).on(hStream));
    driver "cuMemPoolCreate" { cuMemPoolCreate @ 11020 } (pool: *mut CUmemoryPool, poolProps: *const CUmemPoolProps)
        => plain(Host { subject: 0 });
    driver "cuMemPoolDestroy" { cuMemPoolDestroy @ 11020 } (pool: CUmemoryPool)
        => plain(Host { subject: pool as u64 });
    driver "cuMemPoolTrimTo" { cuMemPoolTrimTo @ 11020 } (pool: CUmemoryPool, minBytesToKeep: size_t)
        => plain(Host { subject: pool as u64 });
    driver "cuMemPoolSetAttribute" { cuMemPoolSetAttribute @ 11020 }
        (pool: CUmemoryPool, attr: CUmemPool_attribute, value: *mut void)
        => plain(Host { subject: pool as u64 });
    driver "cuMemPoolGetAttribute" { cuMemPoolGetAttribute @ 11020 }
        (pool: CUmemoryPool, attr: CUmemPool_attribute, value: *mut void)
        => plain(Host { subject: pool as u64 });
    driver "cuMemPoolSetAccess" { cuMemPoolSetAccess @ 11020 }
        (pool: CUmemoryPool, map: *const CUmemAccessDesc, count: size_t)
        => plain(Host { subject: pool as u64 });
    driver "cuMemPoolExportToShareableHandle" { cuMemPoolExportToShareableHandle @ 11020 }
        (handle_out: *mut void, pool: CUmemoryPool, handleType: CUmemAllocationHandleType, flags: unsigned_long_long)
        => plain(Host { subject: pool as u64 });
    driver "cuMemPoolImportFromShareableHandle" { cuMemPoolImportFromShareableHandle @ 11020 }
        (pool_out: *mut CUmemoryPool, handle: *mut void, handleType: CUmemAllocationHandleType,
         flags: unsigned_long_long)
        => plain(Host { subject: 0 });
    driver "cuMemPoolExportPointer" { cuMemPoolExportPointer @ 11020 }
        (shareData_out: *mut CUmemPoolPtrExportData, ptr: CUdeviceptr) => plain(Host { subject: ptr });
    driver "cuMemPoolImportPointer" { cuMemPoolImportPointer @ 11020 }
        (ptr_out: *mut CUdeviceptr, pool: CUmemoryPool, shareData: *mut CUmemPoolPtrExportData)
        => plain(Alloc::imported(ptr_out).from(pool));
    driver "cuDeviceSetMemPool" { cuDeviceSetMemPool @ 11020 } (dev: CUdevice, pool: CUmemoryPool)
        => plain(Host { subject: pool as u64 });
    driver "cuMemSetMemPool" { cuMemSetMemPool @ 13000 }
        (location: *mut CUmemLocation, kind: CUmemAllocationType, pool: CUmemoryPool)
        => plain(Host { subject: pool as u64 });
    runtime "cudaMallocAsync" { cudaMallocAsync @ 0, cudaMallocAsync_ptsz @ 0 per_thread }
        (devPtr: *mut *mut void, size: size_t, hStream: cudaStream_t)
        => plain(Alloc::at(devPtr, size, Memory::Pool).on(hStream));
    runtime "cudaMallocFromPoolAsync" { cudaMallocFromPoolAsync @ 0, cudaMallocFromPoolAsync_ptsz @ 0 per_thread }
        (ptr: *mut *mut void, size: size_t, memPool: cudaMemPool_t, stream: cudaStream_t)
        => plain(Alloc::at(ptr, size, Memory::Pool).on(stream).from(memPool));
    runtime "cudaFreeAsync" { cudaFreeAsync @ 0, cudaFreeAsync_ptsz @ 0 per_thread }
        (devPtr: *mut void, hStream: cudaStream_t) => plain(Free::of(devPtr as u64, Memory::Pool).on(hStream));
    runtime "cudaMemPoolCreate" { cudaMemPoolCreate @ 0 }
        (memPool: *mut cudaMemPool_t, poolProps: *const cudaMemPoolProps)
        => plain(Host { subject: 0 });
    runtime "cudaMemPoolDestroy" { cudaMemPoolDestroy @ 0 } (memPool: cudaMemPool_t)
        => plain(Host { subject: memPool as u64 });
    runtime "cudaMemPoolTrimTo" { cudaMemPoolTrimTo @ 0 } (memPool: cudaMemPool_t, minBytesToKeep: size_t)
        => plain(Host { subject: memPool as u64 });
    runtime "cudaMemPoolSetAttribute" { cudaMemPoolSetAttribute @ 0 }
        (memPool: cudaMemPool_t, attr: cudaMemPoolAttr, value: *mut void)
        => plain(Host { subject: memPool as u64 });
    runtime "cudaMemPoolGetAttribute" { cudaMemPoolGetAttribute @ 0 }
        (memPool: cudaMemPool_t, attr: cudaMemPoolAttr, value: *mut void)
        => plain(Host { subject: memPool as u64 });
    runtime "cudaMemPoolSetAccess" { cudaMemPoolSetAccess @ 0 }
        (memPool: cudaMemPool_t, descList: *const cudaMemAccessDesc, count: size_t)
        => plain(Host { subject: memPool as u64 });
    runtime "cudaMemPoolExportToShareableHandle" { cudaMemPoolExportToShareableHandle @ 0 }
        (shareableHandle: *mut void, memPool: cudaMemPool_t, handleType: cudaMemAllocationHandleType,
         flags: unsigned_int)
        => plain(Host { subject: memPool as u64 });
    runtime "cudaMemPoolImportFromShareableHandle" { cudaMemPoolImportFromShareableHandle @ 0 }
        (memPool: *mut cudaMemPool_t, shareableHandle: *mut void, handleType: cudaMemAllocationHandleType,
         flags: unsigned_int)
        => plain(Host { subject: 0 });
    runtime "cudaMemPoolExportPointer" { cudaMemPoolExportPointer @ 0 }
        (exportData: *mut cudaMemPoolPtrExportData, ptr: *mut void) => plain(Host { subject: ptr as u64 });
    runtime "cudaMemPoolImportPointer" { cudaMemPoolImportPointer @ 0 }
        (ptr: *mut *mut void, memPool: cudaMemPool_t, exportData: *mut cudaMemPoolPtrExportData)
        => plain(Alloc::imported(ptr).from(memPool));
    runtime "cudaDeviceSetMemPool" { cudaDeviceSetMemPool @ 0 } (device: int, memPool: cudaMemPool_t)
        => plain(Host { subject: memPool as u64 });
    runtime "cudaMemSetMemPool" { cudaMemSetMemPool @ 0 }
        (location: *mut cudaMemLocation, kind: cudaMemAllocationType, memPool: cudaMemPool_t)
        => plain(Host { subject: memPool as u64 });

    // Memory: addresses, physical memory, and mappings of one to the other.
    driver "cuMemAddressReserve" { cuMemAddressReserve @ 10020 }
        (ptr: *mut CUdeviceptr, size: size_t, alignment: size_t, addr: CUdeviceptr, flags: unsigned_long_long)
        => plain(Host { subject: 0 });
    driver "cuMemAddressFree" { cuMemAddressFree @ 10020 } (ptr: CUdeviceptr, size: size_t)
        => plain(Host { subject: ptr });
    driver "cuMemCreate" { cuMemCreate @ 10020 }
        (handle: *mut CUmemGenericAllocationHandle, size: size_t, prop: *const CUmemAllocationProp,
         flags: unsigned_long_long)
        => plain(Alloc::created(handle, size, prop));
    driver "cuMemRelease" { cuMemRelease @ 10020 } (handle: CUmemGenericAllocationHandle)
        => plain(Free::of(handle, Memory::Reserved));
    driver "cuMemRetainAllocationHandle" { cuMemRetainAllocationHandle @ 11000 }
        (handle: *mut CUmemGenericAllocationHandle, addr: *mut void) => plain(Alloc::retained(handle));
    driver "cuMemMap" { cuMemMap @ 10020 }
        (ptr: CUdeviceptr, size: size_t, offset: size_t, handle: CUmemGenericAllocationHandle,
         flags: unsigned_long_long)
        => plain(Alloc::mapped(ptr, size, handle));
    driver "cuMemUnmap" { cuMemUnmap @ 10020 } (ptr: CUdeviceptr, size: size_t) => plain(Free::unmapped(ptr, size));
    driver "cuMemMapArrayAsync" { cuMemMapArrayAsync @ 11010, cuMemMapArrayAsync_ptsz @ 11010 per_thread }
        (mapInfoList: *mut CUarrayMapInfo, count: unsigned_int, hStream: CUstream) => plain(Enqueue::on(hStream));
    driver "cuMemSetAccess" { cuMemSetAccess @ 10020 }
        (ptr: CUdeviceptr, size: size_t, desc: *const CUmemAccessDesc, count: size_t)
        => plain(Host { subject: ptr });
    driver "cuMemExportToShareableHandle" { cuMemExportToShareableHandle @ 10020 }
        (shareableHandle: *mut void, handle: CUmemGenericAllocationHandle, handleType: CUmemAllocationHandleType,
         flags: unsigned_long_long)
        => plain(Host { subject: handle });
    driver "cuMemImportFromShareableHandle" { cuMemImportFromShareableHandle @ 10020 }
        (handle: *mut CUmemGenericAllocationHandle, osHandle: *mut void, shHandleType: CUmemAllocationHandleType)
        => plain(Host { subject: 0 });
    driver "cuMulticastCreate" { cuMulticastCreate @ 12010 }
        (mcHandle: *mut CUmemGenericAllocationHandle, prop: *const CUmulticastObjectProp)
        => plain(Host { subject: 0 });
    driver "cuMulticastAddDevice" { cuMulticastAddDevice @ 12010 }
        (mcHandle: CUmemGenericAllocationHandle, dev: CUdevice) => plain(Host { subject: mcHandle });
    driver "cuMulticastBindMem" { cuMulticastBindMem @ 12010 }
        (mcHandle: CUmemGenericAllocationHandle, mcOffset: size_t, memHandle: CUmemGenericAllocationHandle,
         memOffset: size_t, size: size_t, flags: unsigned_long_long)
        => plain(Host { subject: mcHandle });
    driver "cuMulticastBindMem" { cuMulticastBindMem_v2 @ 13010 }
        (mcHandle: CUmemGenericAllocationHandle, dev: CUdevice, mcOffset: size_t,
         memHandle: CUmemGenericAllocationHandle, memOffset: size_t, size: size_t, flags: unsigned_long_long)
        => plain(Host { subject: mcHandle });
    driver "cuMulticastBindAddr" { cuMulticastBindAddr @ 12010 }
        (mcHandle: CUmemGenericAllocationHandle, mcOffset: size_t, memptr: CUdeviceptr, size: size_t,
         flags: unsigned_long_long)
        => plain(Host { subject: mcHandle });
    driver "cuMulticastBindAddr" { cuMulticastBindAddr_v2 @ 13010 }
        (mcHandle: CUmemGenericAllocationHandle, dev: CUdevice, mcOffset: size_t, memptr: CUdeviceptr, size: size_t,
         flags: unsigned_long_long)
        => plain(Host { subject: mcHandle });
    driver "cuMulticastUnbind" { cuMulticastUnbind @ 12010 }
        (mcHandle: CUmemGenericAllocationHandle, dev: CUdevice, mcOffset: size_t, size: size_t)
        => plain(Host { subject: mcHandle });

    // Memory: other processes' and other APIs'.
    driver "cuIpcGetMemHandle" { cuIpcGetMemHandle @ 4010 } (pHandle: *mut CUipcMemHandle, dptr: CUdeviceptr)
        => plain(Host { subject: dptr });
    driver "cuIpcOpenMemHandle" { cuIpcOpenMemHandle @ 4010, cuIpcOpenMemHandle_v2 @ 11000 }
        (pdptr: *mut CUdeviceptr, handle: CUipcMemHandle, Flags: unsigned_int) => plain(Alloc::imported(pdptr));
    driver "cuIpcCloseMemHandle" { cuIpcCloseMemHandle @ 4010 } (dptr: CUdeviceptr)
        => plain(Free::of(dptr, Memory::Imported));
    driver "cuImportExternalMemory" { cuImportExternalMemory @ 10000 }
        (extMem_out: *mut CUexternalMemory, memHandleDesc: *const CUDA_EXTERNAL_MEMORY_HANDLE_DESC)
        => plain(Host { subject: 0 });
    driver "cuExternalMemoryGetMappedBuffer" { cuExternalMemoryGetMappedBuffer @ 10000 }
        (devPtr: *mut CUdeviceptr, extMem: CUexternalMemory, bufferDesc: *const CUDA_EXTERNAL_MEMORY_BUFFER_DESC)
        => plain(Alloc::of_external(devPtr, bufferDesc));
    driver "cuExternalMemoryGetMappedMipmappedArray" { cuExternalMemoryGetMappedMipmappedArray @ 10000 }
        (mipmap: *mut CUmipmappedArray, extMem: CUexternalMemory,
         mipmapDesc: *const CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC)
        => plain(Alloc::array(mipmap, None, 1));
    driver "cuDestroyExternalMemory" { cuDestroyExternalMemory @ 10000 } (extMem: CUexternalMemory)
        => plain(Host { subject: extMem as u64 });
    runtime "cudaIpcGetMemHandle" { cudaIpcGetMemHandle @ 0 } (handle: *mut cudaIpcMemHandle_t, devPtr: *mut void)
        => plain(Host { subject: devPtr as u64 });
    runtime "cudaIpcOpenMemHandle" { cudaIpcOpenMemHandle @ 0 }
        (devPtr: *mut *mut void, handle: cudaIpcMemHandle_t, flags: unsigned_int) => plain(Alloc::imported(devPtr));
    runtime "cudaIpcCloseMemHandle" { cudaIpcCloseMemHandle @ 0 } (devPtr: *mut void)
        => plain(Free::of(devPtr as u64, Memory::Imported));
    runtime "cudaImportExternalMemory" { cudaImportExternalMemory @ 0 }
        (extMem_out: *mut cudaExternalMemory_t, memHandleDesc: *const cudaExternalMemoryHandleDesc)
        => plain(Host { subject: 0 });
    runtime "cudaExternalMemoryGetMappedBuffer" { cudaExternalMemoryGetMappedBuffer @ 0 }
        (devPtr: *mut *mut void, extMem: cudaExternalMemory_t, bufferDesc: *const cudaExternalMemoryBufferDesc)
        => plain(Alloc::of_external(devPtr, bufferDesc));
    runtime "cudaExternalMemoryGetMappedMipmappedArray" { cudaExternalMemoryGetMappedMipmappedArray @ 0 }
        (mipmap: *mut cudaMipmappedArray_t, extMem: cudaExternalMemory_t,
         mipmapDesc: *const cudaExternalMemoryMipmappedArrayDesc)
        => plain(Alloc::array(mipmap, None, 1));
    runtime "cudaDestroyExternalMemory" { cudaDestroyExternalMemory @ 0 } (extMem: cudaExternalMemory_t)
        => plain(Host { subject: extMem as u64 });

    // Memory: arrays.
    driver "cuArrayCreate" { cuArrayCreate_v2 @ 3020 }
        (pHandle: *mut CUarray, pAllocateArray: *const CUDA_ARRAY_DESCRIPTOR)
        => plain(Alloc::array(pHandle, Extent::of_2d(pAllocateArray), 1));
    driver "cuArray3DCreate" { cuArray3DCreate_v2 @ 3020 }
        (pHandle: *mut CUarray, pAllocateArray: *const CUDA_ARRAY3D_DESCRIPTOR)
        => plain(Alloc::array(pHandle, Extent::of_3d(pAllocateArray), 1));
    driver "cuArrayDestroy" { cuArrayDestroy @ 2000 } (hArray: CUarray)
        => plain(Free::of(hArray as u64, Memory::Array));
    driver "cuMipmappedArrayCreate" { cuMipmappedArrayCreate @ 5000 }
        (pHandle: *mut CUmipmappedArray, pMipmappedArrayDesc: *const CUDA_ARRAY3D_DESCRIPTOR,
         numMipmapLevels: unsigned_int)
        => plain(Alloc::array(pHandle, Extent::of_3d(pMipmappedArrayDesc), numMipmapLevels));
    driver "cuMipmappedArrayDestroy" { cuMipmappedArrayDestroy @ 5000 } (hMipmappedArray: CUmipmappedArray)
        => plain(Free::of(hMipmappedArray as u64, Memory::Array));
    runtime "cudaMallocArray" { cudaMallocArray @ 0 }
        (array: *mut cudaArray_t, desc: *const cudaChannelFormatDesc, width: size_t, height: size_t,
         flags: unsigned_int)
        => plain(Alloc::array(array, Extent::of_runtime(desc, cudaExtent { width, height, depth: 0 }, flags), 1));
    runtime "cudaMalloc3DArray" { cudaMalloc3DArray @ 0 }
        (array: *mut cudaArray_t, desc: *const cudaChannelFormatDesc, extent: cudaExtent, flags: unsigned_int)
        => plain(Alloc::array(array, Extent::of_runtime(desc, extent, flags), 1));
    runtime "cudaMallocMipmappedArray" { cudaMallocMipmappedArray @ 0 }
        (mipmappedArray: *mut cudaMipmappedArray_t, desc: *const cudaChannelFormatDesc, extent: cudaExtent,
         numLevels: unsigned_int, flags: unsigned_int)
        => plain(Alloc::array(mipmappedArray, Extent::of_runtime(desc, extent, flags), numLevels));
    runtime "cudaFreeArray" { cudaFreeArray @ 0 } (array: cudaArray_t)
        => plain(Free::of(array as u64, Memory::Array));
    runtime "cudaFreeMipmappedArray" { cudaFreeMipmappedArray @ 0 } (mipmappedArray: cudaMipmappedArray_t)
        => plain(Free::of(mipmappedArray as u64, Memory::Array));

    // Memory: graphs'.
    driver "cuGraphAddMemAllocNode" { cuGraphAddMemAllocNode @ 11040 }
        (phGraphNode: *mut CUgraphNode, hGraph: CUgraph, dependencies: *const CUgraphNode, numDependencies: size_t,
         nodeParams: *mut CUDA_MEM_ALLOC_NODE_PARAMS)
        => plain(Host { subject: hGraph as u64 });
    driver "cuGraphAddMemFreeNode" { cuGraphAddMemFreeNode @ 11040 }
        (phGraphNode: *mut CUgraphNode, hGraph: CUgraph, dependencies: *const CUgraphNode, numDependencies: size_t,
         dptr: CUdeviceptr)
        => plain(Host { subject: hGraph as u64 });
    driver "cuDeviceGraphMemTrim" { cuDeviceGraphMemTrim @ 11040 } (device: CUdevice) => plain(Host { subject: 0 });
    driver "cuDeviceGetGraphMemAttribute" { cuDeviceGetGraphMemAttribute @ 11040 }
        (device: CUdevice, attr: CUgraphMem_attribute, value: *mut void) => plain(Host { subject: 0 });
    driver "cuDeviceSetGraphMemAttribute" { cuDeviceSetGraphMemAttribute @ 11040 }
        (device: CUdevice, attr: CUgraphMem_attribute, value: *mut void) => plain(Host { subject: 0 });
    runtime "cudaGraphAddMemAllocNode" { cudaGraphAddMemAllocNode @ 0 }
        (pGraphNode: *mut cudaGraphNode_t, graph: cudaGraph_t, pDependencies: *const cudaGraphNode_t,
         numDependencies: size_t, nodeParams: *mut cudaMemAllocNodeParams)
        => plain(Host { subject: graph as u64 });
    runtime "cudaGraphAddMemFreeNode" { cudaGraphAddMemFreeNode @ 0 }
        (pGraphNode: *mut cudaGraphNode_t, graph: cudaGraph_t, pDependencies: *const cudaGraphNode_t,
         numDependencies: size_t, dptr: *mut void)
        => plain(Host { subject: graph as u64 });
    runtime "cudaDeviceGraphMemTrim" { cudaDeviceGraphMemTrim @ 0 } (device: int) => plain(Host { subject: 0 });
    runtime "cudaDeviceGetGraphMemAttribute" { cudaDeviceGetGraphMemAttribute @ 0 }
        (device: int, attr: cudaGraphMemAttributeType, value: *mut void) => plain(Host { subject: 0 });
    runtime "cudaDeviceSetGraphMemAttribute" { cudaDeviceSetGraphMemAttribute @ 0 }
        (device: int, attr: cudaGraphMemAttributeType, value: *mut void) => plain(Host { subject: 0 });

    // Waiting.
    driver "cuCtxSynchronize" { cuCtxSynchronize @ 2000 } () => plain(Sync::of(SyncScope::Context));
    driver "cuCtxSynchronize" { cuCtxSynchronize_v2 @ 13000 } (ctx: CUcontext)
        => plain(Sync::of(SyncScope::Context));
    driver "cuStreamSynchronize" { cuStreamSynchronize @ 2000, cuStreamSynchronize_ptsz @ 7000 per_thread }
        (hStream: CUstream) => plain(Sync::of(SyncScope::Stream).on(hStream));
    driver "cuEventSynchronize" { cuEventSynchronize @ 2000 } (hEvent: CUevent)
        => plain(Sync::of(SyncScope::Event).event(hEvent));
    runtime "cudaDeviceSynchronize" { cudaDeviceSynchronize @ 0 } () => plain(Sync::of(SyncScope::Device));
    runtime "cudaStreamSynchronize" { cudaStreamSynchronize @ 0, cudaStreamSynchronize_ptsz @ 0 per_thread }
        (stream: cudaStream_t) => plain(Sync::of(SyncScope::Stream).on(stream));
    runtime "cudaEventSynchronize" { cudaEventSynchronize @ 0 } (event: cudaEvent_t)
        => plain(Sync::of(SyncScope::Event).event(event));

    // Events.
    driver "cuEventCreate" { cuEventCreate @ 2000 } (phEvent: *mut CUevent, Flags: unsigned_int)
        => plain(Host { subject: 0 });
    driver "cuEventDestroy" { cuEventDestroy @ 2000, cuEventDestroy_v2 @ 4000 } (hEvent: CUevent)
        => plain(Host { subject: hEvent as u64 });
    driver "cuEventRecord" { cuEventRecord @ 2000, cuEventRecord_ptsz @ 7000 per_thread }
        (hEvent: CUevent, hStream: CUstream) => plain(EventOp::record(hEvent, 0).on(hStream));
    driver "cuEventRecordWithFlags" { cuEventRecordWithFlags @ 11010, cuEventRecordWithFlags_ptsz @ 11010 per_thread }
        (hEvent: CUevent, hStream: CUstream, flags: unsigned_int)
        => plain(EventOp::record(hEvent, flags).on(hStream));
    driver "cuStreamWaitEvent" { cuStreamWaitEvent @ 3020, cuStreamWaitEvent_ptsz @ 7000 per_thread }
        (hStream: CUstream, hEvent: CUevent, Flags: unsigned_int)
        => plain(EventOp::wait(hEvent, Flags).on(hStream));
    runtime "cudaEventCreate" { cudaEventCreate @ 0 } (event: *mut cudaEvent_t) => plain(Host { subject: 0 });
    runtime "cudaEventCreateWithFlags" { cudaEventCreateWithFlags @ 0 }
        (event: *mut cudaEvent_t, flags: unsigned_int) => plain(Host { subject: 0 });
    runtime "cudaEventDestroy" { cudaEventDestroy @ 0 } (event: cudaEvent_t) => plain(Host { subject: event as u64 });
    runtime "cudaEventRecord" { cudaEventRecord @ 0, cudaEventRecord_ptsz @ 0 per_thread }
        (event: cudaEvent_t, stream: cudaStream_t) => plain(EventOp::record(event, 0).on(stream));
    runtime "cudaEventRecordWithFlags" { cudaEventRecordWithFlags @ 0, cudaEventRecordWithFlags_ptsz @ 0 per_thread }
        (event: cudaEvent_t, stream: cudaStream_t, flags: unsigned_int)
        => plain(EventOp::record(event, flags).on(stream));
    runtime "cudaStreamWaitEvent" { cudaStreamWaitEvent @ 0, cudaStreamWaitEvent_ptsz @ 0 per_thread }
        (stream: cudaStream_t, event: cudaEvent_t, flags: unsigned_int)
        => plain(EventOp::wait(event, flags).on(stream));

    // What else takes a place on a stream: between two events of ours it is no part of the work there.
    driver "cuStreamWaitValue32"
        { cuStreamWaitValue32 @ 8000, cuStreamWaitValue32_ptsz @ 8000 per_thread,
          cuStreamWaitValue32_v2 @ 11070, cuStreamWaitValue32_v2_ptsz @ 11070 per_thread }
        (stream: CUstream, addr: CUdeviceptr, value: cuuint32_t, flags: unsigned_int) => plain(Enqueue::on(stream));
    driver "cuStreamWriteValue32"
        { cuStreamWriteValue32 @ 8000, cuStreamWriteValue32_ptsz @ 8000 per_thread,
          cuStreamWriteValue32_v2 @ 11070, cuStreamWriteValue32_v2_ptsz @ 11070 per_thread }
        (stream: CUstream, addr: CUdeviceptr, value: cuuint32_t, flags: unsigned_int) => plain(Enqueue::on(stream));
    driver "cuStreamWaitValue64"
        { cuStreamWaitValue64 @ 9000, cuStreamWaitValue64_ptsz @ 9000 per_thread,
          cuStreamWaitValue64_v2 @ 11070, cuStreamWaitValue64_v2_ptsz @ 11070 per_thread }
        (stream: CUstream, addr: CUdeviceptr, value: cuuint64_t, flags: unsigned_int) => plain(Enqueue::on(stream));
    driver "cuStreamWriteValue64"
        { cuStreamWriteValue64 @ 9000, cuStreamWriteValue64_ptsz @ 9000 per_thread,
          cuStreamWriteValue64_v2 @ 11070, cuStreamWriteValue64_v2_ptsz @ 11070 per_thread }
        (stream: CUstream, addr: CUdeviceptr, value: cuuint64_t, flags: unsigned_int) => plain(Enqueue::on(stream));
    driver "cuStreamBatchMemOp"
        { cuStreamBatchMemOp @ 8000, cuStreamBatchMemOp_ptsz @ 8000 per_thread,
          cuStreamBatchMemOp_v2 @ 11070, cuStreamBatchMemOp_v2_ptsz @ 11070 per_thread }
        (stream: CUstream, count: unsigned_int, paramArray: *mut CUstreamBatchMemOpParams, flags: unsigned_int)
        => plain(Enqueue::on(stream));
    driver "cuLaunchHostFunc" { cuLaunchHostFunc @ 10000, cuLaunchHostFunc_ptsz @ 10000 per_thread }
        (hStream: CUstream, function: CUhostFn, userData: *mut void) => plain(Enqueue::on(hStream));
    driver "cuLaunchHostFunc" { cuLaunchHostFunc_v2 @ 13010, cuLaunchHostFunc_v2_ptsz @ 13010 per_thread }
        (hStream: CUstream, function: CUhostFn, userData: *mut void, syncMode: unsigned_int)
        => plain(Enqueue::on(hStream));
    driver "cuStreamAddCallback" { cuStreamAddCallback @ 5000, cuStreamAddCallback_ptsz @ 7000 per_thread }
        (hStream: CUstream, callback: CUstreamCallback, userData: *mut void, flags: unsigned_int)
        => plain(Enqueue::on(hStream));
    runtime "cudaLaunchHostFunc" { cudaLaunchHostFunc @ 0, cudaLaunchHostFunc_ptsz @ 0 per_thread }
        (stream: cudaStream_t, function: cudaHostFn_t, userData: *mut void) => plain(Enqueue::on(stream));
    runtime "cudaStreamAddCallback" { cudaStreamAddCallback @ 0, cudaStreamAddCallback_ptsz @ 0 per_thread }
        (stream: cudaStream_t, callback: cudaStreamCallback_t, userData: *mut void, flags: unsigned_int)
        => plain(Enqueue::on(stream));

    // Streams.
    driver "cuStreamCreate" { cuStreamCreate @ 2000 } (phStream: *mut CUstream, Flags: unsigned_int)
        => plain(StreamCreate { out: phStream });
    driver "cuStreamCreateWithPriority" { cuStreamCreateWithPriority @ 5050 }
        (phStream: *mut CUstream, flags: unsigned_int, priority: int)
        => plain(StreamCreate { out: phStream });
    driver "cuStreamDestroy" { cuStreamDestroy @ 2000, cuStreamDestroy_v2 @ 4000 } (hStream: CUstream)
        => plain(StreamDestroy { stream: hStream });
    runtime "cudaStreamCreate" { cudaStreamCreate @ 0 } (pStream: *mut cudaStream_t)
        => plain(StreamCreate { out: pStream });
    runtime "cudaStreamCreateWithFlags" { cudaStreamCreateWithFlags @ 0 }
        (pStream: *mut cudaStream_t, flags: unsigned_int)
        => plain(StreamCreate { out: pStream });
    runtime "cudaStreamCreateWithPriority" { cudaStreamCreateWithPriority @ 0 }
        (pStream: *mut cudaStream_t, flags: unsigned_int, priority: int)
        => plain(StreamCreate { out: pStream });
    runtime "cudaStreamDestroy" { cudaStreamDestroy @ 0 } (stream: cudaStream_t) => plain(StreamDestroy { stream });

    // Contexts.
    driver "cuCtxCreate" { cuCtxCreate_v2 @ 3020 } (pctx: *mut CUcontext, flags: unsigned_int, dev: CUdevice)
        => plain(ContextCreate { out: pctx });
    driver "cuCtxCreate" { cuCtxCreate_v3 @ 11040 }
        (pctx: *mut CUcontext, paramsArray: *mut CUexecAffinityParam, numParams: int, flags: unsigned_int,
         dev: CUdevice)
        => plain(ContextCreate { out: pctx });
    driver "cuCtxCreate" { cuCtxCreate_v4 @ 12050 }
        (pctx: *mut CUcontext, ctxCreateParams: *mut CUctxCreateParams, flags: unsigned_int, dev: CUdevice)
        => plain(ContextCreate { out: pctx });
    driver "cuCtxDestroy" { cuCtxDestroy @ 2000, cuCtxDestroy_v2 @ 4000 } (ctx: CUcontext)
        => plain(ContextDestroy::of(ctx));
    driver "cuCtxDetach" { cuCtxDetach @ 2000 } (ctx: CUcontext) => plain(ContextDestroy::of(ctx));
    driver "cuDevicePrimaryCtxRetain" { cuDevicePrimaryCtxRetain @ 7000 } (pctx: *mut CUcontext, dev: CUdevice)
        => plain(PrimaryRetain { out: pctx, device: dev });
    driver "cuDevicePrimaryCtxRelease" { cuDevicePrimaryCtxRelease @ 7000, cuDevicePrimaryCtxRelease_v2 @ 11000 }
        (dev: CUdevice) => plain(PrimaryEnd::release(dev));
    driver "cuDevicePrimaryCtxReset" { cuDevicePrimaryCtxReset @ 7000, cuDevicePrimaryCtxReset_v2 @ 11000 }
        (dev: CUdevice) => plain(PrimaryEnd::reset(dev));
    runtime "cudaDeviceReset" { cudaDeviceReset @ 0 } () => plain(Host { subject: 0 });

    // Modules, as far as kernels' names need them.
    driver "cuModuleLoad" { cuModuleLoad @ 2000 } (module: *mut CUmodule, fname: *const char_t)
        => plain(Host { subject: 0 });
    driver "cuModuleLoadData" { cuModuleLoadData @ 2000 } (module: *mut CUmodule, image: *const void)
        => plain(Host { subject: 0 });
    driver "cuModuleLoadDataEx" { cuModuleLoadDataEx @ 2010 }
        (module: *mut CUmodule, image: *const void, numOptions: unsigned_int, options: *mut CUjit_option,
         optionValues: *mut *mut void)
        => plain(Host { subject: 0 });
    driver "cuModuleLoadFatBinary" { cuModuleLoadFatBinary @ 2000 } (module: *mut CUmodule, fatCubin: *const void)
        => plain(Host { subject: 0 });
    driver "cuModuleUnload" { cuModuleUnload @ 2000 } (hmod: CUmodule) => plain(Unload { owner: hmod });
    driver "cuModuleGetFunction" { cuModuleGetFunction @ 2000 }
        (hfunc: *mut CUfunction, hmod: CUmodule, name: *const char_t)
        => plain(FunctionNamed { out: hfunc, name, owner: hmod, is_kernel: false });
    driver "cuLibraryLoadData" { cuLibraryLoadData @ 12000 }
        (library: *mut CUlibrary, code: *const void, jitOptions: *mut CUjit_option, jitOptionsValues: *mut *mut void,
         numJitOptions: unsigned_int, libraryOptions: *mut CUlibraryOption, libraryOptionValues: *mut *mut void,
         numLibraryOptions: unsigned_int)
        => plain(Host { subject: 0 });
    driver "cuLibraryLoadFromFile" { cuLibraryLoadFromFile @ 12000 }
        (library: *mut CUlibrary, fileName: *const char_t, jitOptions: *mut CUjit_option,
         jitOptionsValues: *mut *mut void, numJitOptions: unsigned_int, libraryOptions: *mut CUlibraryOption,
         libraryOptionValues: *mut *mut void, numLibraryOptions: unsigned_int)
        => plain(Host { subject: 0 });
    driver "cuLibraryUnload" { cuLibraryUnload @ 12000 } (library: CUlibrary)
        => plain(Unload { owner: library });
    driver "cuLibraryGetKernel" { cuLibraryGetKernel @ 12000 }
        (pKernel: *mut CUkernel, library: CUlibrary, name: *const char_t)
        => plain(FunctionNamed { out: pKernel, name, owner: library, is_kernel: true });
    driver "cuKernelGetFunction" { cuKernelGetFunction @ 12000 } (pFunc: *mut CUfunction, kernel: CUkernel)
        => plain(FunctionOfKernel { out: pFunc, kernel });

    // Captures and graphs.
    driver "cuStreamBeginCapture" { cuStreamBeginCapture @ 10000, cuStreamBeginCapture_ptsz @ 10000 per_thread }
        (hStream: CUstream) => plain(CaptureBegin { stream: hStream });
    driver "cuStreamBeginCapture" { cuStreamBeginCapture_v2 @ 10010, cuStreamBeginCapture_v2_ptsz @ 10010 per_thread }
        (hStream: CUstream, mode: CUstreamCaptureMode) => plain(CaptureBegin { stream: hStream });
    driver "cuStreamBeginCaptureToGraph"
        { cuStreamBeginCaptureToGraph @ 12030, cuStreamBeginCaptureToGraph_ptsz @ 12030 per_thread }
        (hStream: CUstream, hGraph: CUgraph, dependencies: *const CUgraphNode,
         dependencyData: *const CUgraphEdgeData, numDependencies: size_t, mode: CUstreamCaptureMode)
        => plain(CaptureBegin { stream: hStream });
    driver "cuStreamBeginRecaptureToGraph"
        { cuStreamBeginRecaptureToGraph @ 13030, cuStreamBeginRecaptureToGraph_ptsz @ 13030 per_thread }
        (hStream: CUstream, mode: CUstreamCaptureMode, hGraph: CUgraph, callbackFunc: CUgraphRecaptureCallback,
         userData: *mut void)
        => plain(CaptureBegin { stream: hStream });
    driver "cuStreamEndCapture" { cuStreamEndCapture @ 10000, cuStreamEndCapture_ptsz @ 10000 per_thread }
        (hStream: CUstream, phGraph: *mut CUgraph) => plain(CaptureEnd::of(hStream));
    driver "cuGraphInstantiate" { cuGraphInstantiate @ 10000, cuGraphInstantiate_v2 @ 11000 }
        (phGraphExec: *mut CUgraphExec, hGraph: CUgraph, phErrorNode: *mut CUgraphNode, logBuffer: *mut char_t,
         bufferSize: size_t)
        => plain(Instantiate::of(phGraphExec, hGraph, 0));
    driver "cuGraphInstantiateWithFlags" { cuGraphInstantiateWithFlags @ 11040 }
        (phGraphExec: *mut CUgraphExec, hGraph: CUgraph, flags: unsigned_long_long)
        => plain(Instantiate::of(phGraphExec, hGraph, flags));
    driver "cuGraphInstantiateWithParams"
        { cuGraphInstantiateWithParams @ 12000, cuGraphInstantiateWithParams_ptsz @ 12000 per_thread }
        (phGraphExec: *mut CUgraphExec, hGraph: CUgraph, instantiateParams: *mut CUDA_GRAPH_INSTANTIATE_PARAMS)
        => plain(Instantiate::with(phGraphExec, hGraph, instantiateParams));
    driver "cuGraphExecUpdate" { cuGraphExecUpdate @ 10020 }
        (hGraphExec: CUgraphExec, hGraph: CUgraph, hErrorNode_out: *mut CUgraphNode,
         updateResult_out: *mut CUgraphExecUpdateResult)
        => plain(GraphUpdate::of(hGraphExec, hGraph, hErrorNode_out));
    driver "cuGraphExecUpdate" { cuGraphExecUpdate_v2 @ 12000 }
        (hGraphExec: CUgraphExec, hGraph: CUgraph, resultInfo: *mut CUgraphExecUpdateResultInfo)
        => plain(GraphUpdate::with(hGraphExec, hGraph, resultInfo));
    driver "cuGraphExecKernelNodeSetParams" { cuGraphExecKernelNodeSetParams @ 10010 }
        (hGraphExec: CUgraphExec, hNode: CUgraphNode, nodeParams: *const CUDA_KERNEL_NODE_PARAMS_v1)
        => plain(NodeChange { exec: hGraphExec, node: hNode, to: Change::KernelV1(nodeParams) });
    driver "cuGraphExecKernelNodeSetParams" { cuGraphExecKernelNodeSetParams_v2 @ 12000 }
        (hGraphExec: CUgraphExec, hNode: CUgraphNode, nodeParams: *const CUDA_KERNEL_NODE_PARAMS_v2)
        => plain(NodeChange { exec: hGraphExec, node: hNode, to: Change::Kernel(nodeParams) });
    driver "cuGraphExecMemcpyNodeSetParams" { cuGraphExecMemcpyNodeSetParams @ 10020 }
        (hGraphExec: CUgraphExec, hNode: CUgraphNode, copyParams: *const CUDA_MEMCPY3D, ctx: CUcontext)
        => plain(NodeChange { exec: hGraphExec, node: hNode, to: Change::Copy(copyParams) });
    driver "cuGraphExecMemsetNodeSetParams" { cuGraphExecMemsetNodeSetParams @ 10020 }
        (hGraphExec: CUgraphExec, hNode: CUgraphNode, memsetParams: *const CUDA_MEMSET_NODE_PARAMS, ctx: CUcontext)
        => plain(NodeChange { exec: hGraphExec, node: hNode, to: Change::Set(memsetParams) });
    driver "cuGraphExecChildGraphNodeSetParams" { cuGraphExecChildGraphNodeSetParams @ 11010 }
        (hGraphExec: CUgraphExec, hNode: CUgraphNode, childGraph: CUgraph)
        => plain(NodeChange { exec: hGraphExec, node: hNode, to: Change::Child(childGraph) });
    driver "cuGraphExecNodeSetParams" { cuGraphExecNodeSetParams @ 12020 }
        (hGraphExec: CUgraphExec, hNode: CUgraphNode, nodeParams: *mut CUgraphNodeParams)
        => plain(NodeChange { exec: hGraphExec, node: hNode, to: Change::Any(nodeParams) });
    driver "cuGraphNodeSetEnabled" { cuGraphNodeSetEnabled @ 11060 }
        (hGraphExec: CUgraphExec, hNode: CUgraphNode, isEnabled: unsigned_int)
        => plain(NodeChange { exec: hGraphExec, node: hNode, to: Change::Enabled(isEnabled != 0) });
    driver "cuGraphUpload" { cuGraphUpload @ 11010, cuGraphUpload_ptsz @ 11010 per_thread }
        (hGraphExec: CUgraphExec, hStream: CUstream) => plain(Enqueue::on(hStream));
    driver "cuGraphLaunch" { cuGraphLaunch @ 10000, cuGraphLaunch_ptsz @ 10000 per_thread }
        (hGraphExec: CUgraphExec, hStream: CUstream) => work(GraphLaunch { exec: hGraphExec, stream: hStream });
    driver "cuGraphExecDestroy" { cuGraphExecDestroy @ 10000 } (hGraphExec: CUgraphExec)
        => plain(GraphDestroy { exec: hGraphExec });
    runtime "cudaStreamBeginCapture" { cudaStreamBeginCapture @ 0, cudaStreamBeginCapture_ptsz @ 0 per_thread }
        (stream: cudaStream_t, mode: cudaStreamCaptureMode) => plain(CaptureBegin { stream });
    runtime "cudaStreamBeginCaptureToGraph"
        { cudaStreamBeginCaptureToGraph @ 0, cudaStreamBeginCaptureToGraph_ptsz @ 0 per_thread }
        (stream: cudaStream_t, graph: cudaGraph_t, dependencies: *const cudaGraphNode_t,
         dependencyData: *const cudaGraphEdgeData, numDependencies: size_t, mode: cudaStreamCaptureMode)
        => plain(CaptureBegin { stream });
    runtime "cudaStreamEndCapture" { cudaStreamEndCapture @ 0, cudaStreamEndCapture_ptsz @ 0 per_thread }
        (stream: cudaStream_t, pGraph: *mut cudaGraph_t) => plain(CaptureEnd::of(stream));
    // cudaGraphInstantiate and cudaGraphExecUpdate have other arguments in CUDA 11 under the same name: they pass.
    runtime "cudaGraphInstantiateWithFlags" { cudaGraphInstantiateWithFlags @ 0 }
        (pGraphExec: *mut cudaGraphExec_t, graph: cudaGraph_t, flags: unsigned_long_long)
        => plain(Host { subject: graph as u64 });
    runtime "cudaGraphInstantiateWithParams"
        { cudaGraphInstantiateWithParams @ 0, cudaGraphInstantiateWithParams_ptsz @ 0 per_thread }
        (pGraphExec: *mut cudaGraphExec_t, graph: cudaGraph_t, instantiateParams: *mut cudaGraphInstantiateParams)
        => plain(Host { subject: graph as u64 });
    runtime "cudaGraphExecKernelNodeSetParams" { cudaGraphExecKernelNodeSetParams @ 0 }
        (hGraphExec: cudaGraphExec_t, node: cudaGraphNode_t, pNodeParams: *const cudaKernelNodeParams)
        => plain(Host { subject: hGraphExec as u64 });
    runtime "cudaGraphExecMemcpyNodeSetParams" { cudaGraphExecMemcpyNodeSetParams @ 0 }
        (hGraphExec: cudaGraphExec_t, node: cudaGraphNode_t, pNodeParams: *const cudaMemcpy3DParms)
        => plain(Host { subject: hGraphExec as u64 });
    runtime "cudaGraphExecMemcpyNodeSetParams1D" { cudaGraphExecMemcpyNodeSetParams1D @ 0 }
        (hGraphExec: cudaGraphExec_t, node: cudaGraphNode_t, dst: *mut void, src: *const void, count: size_t,
         kind: cudaMemcpyKind)
        => plain(Host { subject: hGraphExec as u64 });
    runtime "cudaGraphExecMemsetNodeSetParams" { cudaGraphExecMemsetNodeSetParams @ 0 }
        (hGraphExec: cudaGraphExec_t, node: cudaGraphNode_t, pNodeParams: *const cudaMemsetParams)
        => plain(Host { subject: hGraphExec as u64 });
    runtime "cudaGraphExecChildGraphNodeSetParams" { cudaGraphExecChildGraphNodeSetParams @ 0 }
        (hGraphExec: cudaGraphExec_t, node: cudaGraphNode_t, childGraph: cudaGraph_t)
        => plain(Host { subject: hGraphExec as u64 });
    runtime "cudaGraphExecNodeSetParams" { cudaGraphExecNodeSetParams @ 0 }
        (graphExec: cudaGraphExec_t, node: cudaGraphNode_t, nodeParams: *mut cudaGraphNodeParams)
        => plain(Host { subject: graphExec as u64 });
    runtime "cudaGraphNodeSetEnabled" { cudaGraphNodeSetEnabled @ 0 }
        (hGraphExec: cudaGraphExec_t, hNode: cudaGraphNode_t, isEnabled: unsigned_int)
        => plain(Host { subject: hGraphExec as u64 });
    runtime "cudaGraphUpload" { cudaGraphUpload @ 0, cudaGraphUpload_ptsz @ 0 per_thread }
        (graphExec: cudaGraphExec_t, stream: cudaStream_t) => plain(Host { subject: graphExec as u64 });
    runtime "cudaGraphLaunch" { cudaGraphLaunch @ 0, cudaGraphLaunch_ptsz @ 0 per_thread }
        (graphExec: cudaGraphExec_t, stream: cudaStream_t)
        => work(GraphLaunch { exec: graphExec, stream });
    runtime "cudaGraphExecDestroy" { cudaGraphExecDestroy @ 0 } (graphExec: cudaGraphExec_t)
        => plain(GraphDestroy { exec: graphExec });
}
