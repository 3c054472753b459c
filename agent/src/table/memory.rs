//! Memory that comes and goes.

macro_rules! memory { ($next:ident $($before:tt)*) => { $next! { $($before)*
    // Memory.
    driver "cuMemAlloc" { cuMemAlloc_v2 @ 3020 } (dptr: *mut CUdeviceptr, bytesize: size_t)
        => plain(Alloc::at(dptr, bytesize, Memory::Device));
    driver "cuMemAllocManaged" { cuMemAllocManaged @ 6000 }
        (dptr: *mut CUdeviceptr, bytesize: size_t, flags: unsigned_int)
        => plain(Alloc::at(dptr, bytesize, Memory::Managed));
    driver "cuMemAllocAsync" { cuMemAllocAsync @ 11020, cuMemAllocAsync_ptsz @ 11020 per_thread }
        (dptr: *mut CUdeviceptr, bytesize: size_t, hStream: CUstream)
        => plain(Alloc::at(dptr, bytesize, Memory::Pool).on(hStream));
    driver "cuMemAllocHost" { cuMemAllocHost_v2 @ 3020 } (pp: *mut *mut void, bytesize: size_t)
        => plain(Alloc::at(pp, bytesize, Memory::Pinned));
    driver "cuMemHostAlloc" { cuMemHostAlloc @ 2020 } (pp: *mut *mut void, bytesize: size_t, Flags: unsigned_int)
        => plain(Alloc::at(pp, bytesize, Memory::Pinned));
    driver "cuMemHostRegister" { cuMemHostRegister_v2 @ 6050 } (p: *mut void, bytesize: size_t, Flags: unsigned_int)
        => plain(Alloc::of(p, bytesize, Memory::Registered));
    driver "cuMemFree" { cuMemFree_v2 @ 3020 } (dptr: CUdeviceptr) => plain(Free::of(dptr, Memory::Device));
    driver "cuMemFreeAsync" { cuMemFreeAsync @ 11020, cuMemFreeAsync_ptsz @ 11020 per_thread }
        (dptr: CUdeviceptr, hStream: CUstream) => plain(Free::of(dptr, Memory::Pool).on(hStream));
    driver "cuMemFreeHost" { cuMemFreeHost @ 2000 } (p: *mut void) => plain(Free::of(p as u64, Memory::Pinned));
    driver "cuMemHostUnregister" { cuMemHostUnregister @ 4000 } (p: *mut void)
        => plain(Free::of(p as u64, Memory::Registered));
    runtime "cudaMalloc" { cudaMalloc @ 0 } (devPtr: *mut *mut void, size: size_t)
        => plain(Alloc::at(devPtr, size, Memory::Device));
    runtime "cudaMallocManaged" { cudaMallocManaged @ 0 } (devPtr: *mut *mut void, size: size_t, flags: unsigned_int)
        => plain(Alloc::at(devPtr, size, Memory::Managed));
    runtime "cudaMallocAsync" { cudaMallocAsync @ 0, cudaMallocAsync_ptsz @ 0 per_thread }
        (devPtr: *mut *mut void, size: size_t, hStream: cudaStream_t)
        => plain(Alloc::at(devPtr, size, Memory::Pool).on(hStream));
    runtime "cudaMallocHost" { cudaMallocHost @ 0 } (ptr: *mut *mut void, size: size_t)
        => plain(Alloc::at(ptr, size, Memory::Pinned));
    runtime "cudaHostAlloc" { cudaHostAlloc @ 0 } (pHost: *mut *mut void, size: size_t, flags: unsigned_int)
        => plain(Alloc::at(pHost, size, Memory::Pinned));
    runtime "cudaHostRegister" { cudaHostRegister @ 0 } (ptr: *mut void, size: size_t, flags: unsigned_int)
        => plain(Alloc::of(ptr, size, Memory::Registered));
    runtime "cudaFree" { cudaFree @ 0 } (devPtr: *mut void) => plain(Free::of(devPtr as u64, Memory::Device));
    runtime "cudaFreeAsync" { cudaFreeAsync @ 0, cudaFreeAsync_ptsz @ 0 per_thread }
        (devPtr: *mut void, hStream: cudaStream_t) => plain(Free::of(devPtr as u64, Memory::Pool).on(hStream));
    runtime "cudaFreeHost" { cudaFreeHost @ 0 } (ptr: *mut void) => plain(Free::of(ptr as u64, Memory::Pinned));
    runtime "cudaHostUnregister" { cudaHostUnregister @ 0 } (ptr: *mut void)
        => plain(Free::of(ptr as u64, Memory::Registered));
} } }
