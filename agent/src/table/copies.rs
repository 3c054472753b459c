//! Data on the move: copies and sets.

macro_rules! copies { ($next:ident $($before:tt)*) => { $next! { $($before)*
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
} } }
