//! Which functions allocate, map and free memory?

macro_rules! memory { ($next:ident $($before:tt)*) => { $next! { $($before)*
    // Memory: allocations by size.
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

    // Memory: from other processes and other APIs.
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

    // Memory: of graphs.
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
} } }
