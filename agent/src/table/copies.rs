//! Which functions move or set data: copies, memsets, managed memory?

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

    // Copies by rows and slices.
    driver "cuMemcpy2D" { cuMemcpy2D_v2 @ 3020, cuMemcpy2D_v2_ptds @ 7000 per_thread } (pCopy: *const CUDA_MEMCPY2D)
        => work(Copy::of_2d(pCopy));
    driver "cuMemcpy2DUnaligned" { cuMemcpy2DUnaligned_v2 @ 3020, cuMemcpy2DUnaligned_v2_ptds @ 7000 per_thread }
        (pCopy: *const CUDA_MEMCPY2D) => work(Copy::of_2d(pCopy));
    driver "cuMemcpy2DAsync" { cuMemcpy2DAsync_v2 @ 3020, cuMemcpy2DAsync_v2_ptsz @ 7000 per_thread }
        (pCopy: *const CUDA_MEMCPY2D, hStream: CUstream) => work(Copy::of_2d(pCopy).on(hStream));
    driver "cuMemcpy3D" { cuMemcpy3D_v2 @ 3020, cuMemcpy3D_v2_ptds @ 7000 per_thread } (pCopy: *const CUDA_MEMCPY3D)
        => work(Copy::of_3d(pCopy));
    driver "cuMemcpy3DAsync" { cuMemcpy3DAsync_v2 @ 3020, cuMemcpy3DAsync_v2_ptsz @ 7000 per_thread }
        (pCopy: *const CUDA_MEMCPY3D, hStream: CUstream) => work(Copy::of_3d(pCopy).on(hStream));
    driver "cuMemcpy3DPeer" { cuMemcpy3DPeer @ 4000, cuMemcpy3DPeer_ptds @ 7000 per_thread }
        (pCopy: *const CUDA_MEMCPY3D_PEER) => work(Copy::of_3d_peer(pCopy));
    driver "cuMemcpy3DPeerAsync" { cuMemcpy3DPeerAsync @ 4000, cuMemcpy3DPeerAsync_ptsz @ 7000 per_thread }
        (pCopy: *const CUDA_MEMCPY3D_PEER, hStream: CUstream) => work(Copy::of_3d_peer(pCopy).on(hStream));
    runtime "cudaMemcpyPeer" { cudaMemcpyPeer @ 0 }
        (dst: *mut void, dstDevice: int, src: *const void, srcDevice: int, count: size_t)
        => work(Copy::new(Direction::PtoP, dst as u64, src as u64, count));
    runtime "cudaMemcpyPeerAsync" { cudaMemcpyPeerAsync @ 0 }
        (dst: *mut void, dstDevice: int, src: *const void, srcDevice: int, count: size_t, stream: cudaStream_t)
        => work(Copy::new(Direction::PtoP, dst as u64, src as u64, count).on(stream));
    runtime "cudaMemcpy2D" { cudaMemcpy2D @ 0, cudaMemcpy2D_ptds @ 0 per_thread }
        (dst: *mut void, dpitch: size_t, src: *const void, spitch: size_t, width: size_t, height: size_t,
         kind: cudaMemcpyKind) => work(Copy::plane(runtime_direction(kind), dst as u64, src as u64, width, height));
    runtime "cudaMemcpy2DAsync" { cudaMemcpy2DAsync @ 0, cudaMemcpy2DAsync_ptsz @ 0 per_thread }
        (dst: *mut void, dpitch: size_t, src: *const void, spitch: size_t, width: size_t, height: size_t,
         kind: cudaMemcpyKind, stream: cudaStream_t)
        => work(Copy::plane(runtime_direction(kind), dst as u64, src as u64, width, height).on(stream));
    runtime "cudaMemcpy3D" { cudaMemcpy3D @ 0, cudaMemcpy3D_ptds @ 0 per_thread } (p: *const cudaMemcpy3DParms)
        => work(Copy::of_runtime_3d(p));
    runtime "cudaMemcpy3DAsync" { cudaMemcpy3DAsync @ 0, cudaMemcpy3DAsync_ptsz @ 0 per_thread }
        (p: *const cudaMemcpy3DParms, stream: cudaStream_t) => work(Copy::of_runtime_3d(p).on(stream));
    runtime "cudaMemcpy3DPeer" { cudaMemcpy3DPeer @ 0, cudaMemcpy3DPeer_ptds @ 0 per_thread }
        (p: *const cudaMemcpy3DPeerParms) => work(Copy::of_runtime_3d_peer(p));
    runtime "cudaMemcpy3DPeerAsync" { cudaMemcpy3DPeerAsync @ 0, cudaMemcpy3DPeerAsync_ptsz @ 0 per_thread }
        (p: *const cudaMemcpy3DPeerParms, stream: cudaStream_t) => work(Copy::of_runtime_3d_peer(p).on(stream));

    // Copies of arrays.
    driver "cuMemcpyHtoA" { cuMemcpyHtoA_v2 @ 3020, cuMemcpyHtoA_v2_ptds @ 7000 per_thread }
        (dstArray: CUarray, dstOffset: size_t, srcHost: *const void, ByteCount: size_t)
        => work(Copy::array(Direction::HtoD, dstArray, srcHost, ByteCount, 1));
    driver "cuMemcpyHtoAAsync" { cuMemcpyHtoAAsync_v2 @ 3020, cuMemcpyHtoAAsync_v2_ptsz @ 7000 per_thread }
        (dstArray: CUarray, dstOffset: size_t, srcHost: *const void, ByteCount: size_t, hStream: CUstream)
        => work(Copy::array(Direction::HtoD, dstArray, srcHost, ByteCount, 1).on(hStream));
    driver "cuMemcpyAtoH" { cuMemcpyAtoH_v2 @ 3020, cuMemcpyAtoH_v2_ptds @ 7000 per_thread }
        (dstHost: *mut void, srcArray: CUarray, srcOffset: size_t, ByteCount: size_t)
        => work(Copy::array(Direction::DtoH, dstHost, srcArray, ByteCount, 1));
    driver "cuMemcpyAtoHAsync" { cuMemcpyAtoHAsync_v2 @ 3020, cuMemcpyAtoHAsync_v2_ptsz @ 7000 per_thread }
        (dstHost: *mut void, srcArray: CUarray, srcOffset: size_t, ByteCount: size_t, hStream: CUstream)
        => work(Copy::array(Direction::DtoH, dstHost, srcArray, ByteCount, 1).on(hStream));
    driver "cuMemcpyDtoA" { cuMemcpyDtoA_v2 @ 3020, cuMemcpyDtoA_v2_ptds @ 7000 per_thread }
        (dstArray: CUarray, dstOffset: size_t, srcDevice: CUdeviceptr, ByteCount: size_t)
        => work(Copy::new(Direction::DtoD, dstArray as u64, srcDevice, ByteCount));
    driver "cuMemcpyAtoD" { cuMemcpyAtoD_v2 @ 3020, cuMemcpyAtoD_v2_ptds @ 7000 per_thread }
        (dstDevice: CUdeviceptr, srcArray: CUarray, srcOffset: size_t, ByteCount: size_t)
        => work(Copy::new(Direction::DtoD, dstDevice, srcArray as u64, ByteCount));
    driver "cuMemcpyAtoA" { cuMemcpyAtoA_v2 @ 3020, cuMemcpyAtoA_v2_ptds @ 7000 per_thread }
        (dstArray: CUarray, dstOffset: size_t, srcArray: CUarray, srcOffset: size_t, ByteCount: size_t)
        => work(Copy::array(Direction::DtoD, dstArray, srcArray, ByteCount, 1));
    runtime "cudaMemcpyToArray" { cudaMemcpyToArray @ 0, cudaMemcpyToArray_ptds @ 0 per_thread }
        (dst: cudaArray_t, wOffset: size_t, hOffset: size_t, src: *const void, count: size_t, kind: cudaMemcpyKind)
        => work(Copy::array(runtime_direction(kind), dst, src, count, 1));
    runtime "cudaMemcpyToArrayAsync" { cudaMemcpyToArrayAsync @ 0, cudaMemcpyToArrayAsync_ptsz @ 0 per_thread }
        (dst: cudaArray_t, wOffset: size_t, hOffset: size_t, src: *const void, count: size_t, kind: cudaMemcpyKind,
         stream: cudaStream_t) => work(Copy::array(runtime_direction(kind), dst, src, count, 1).on(stream));
    runtime "cudaMemcpyFromArray" { cudaMemcpyFromArray @ 0, cudaMemcpyFromArray_ptds @ 0 per_thread }
        (dst: *mut void, src: cudaArray_const_t, wOffset: size_t, hOffset: size_t, count: size_t,
         kind: cudaMemcpyKind) => work(Copy::array(runtime_direction(kind), dst, src, count, 1));
    runtime "cudaMemcpyFromArrayAsync" { cudaMemcpyFromArrayAsync @ 0, cudaMemcpyFromArrayAsync_ptsz @ 0 per_thread }
        (dst: *mut void, src: cudaArray_const_t, wOffset: size_t, hOffset: size_t, count: size_t,
         kind: cudaMemcpyKind, stream: cudaStream_t)
        => work(Copy::array(runtime_direction(kind), dst, src, count, 1).on(stream));
    runtime "cudaMemcpyArrayToArray" { cudaMemcpyArrayToArray @ 0, cudaMemcpyArrayToArray_ptds @ 0 per_thread }
        (dst: cudaArray_t, wOffsetDst: size_t, hOffsetDst: size_t, src: cudaArray_const_t, wOffsetSrc: size_t,
         hOffsetSrc: size_t, count: size_t, kind: cudaMemcpyKind)
        => work(Copy::array(runtime_direction(kind), dst, src, count, 1));
    runtime "cudaMemcpy2DToArray" { cudaMemcpy2DToArray @ 0, cudaMemcpy2DToArray_ptds @ 0 per_thread }
        (dst: cudaArray_t, wOffset: size_t, hOffset: size_t, src: *const void, spitch: size_t, width: size_t,
         height: size_t, kind: cudaMemcpyKind) => work(Copy::array(runtime_direction(kind), dst, src, width, height));
    runtime "cudaMemcpy2DToArrayAsync" { cudaMemcpy2DToArrayAsync @ 0, cudaMemcpy2DToArrayAsync_ptsz @ 0 per_thread }
        (dst: cudaArray_t, wOffset: size_t, hOffset: size_t, src: *const void, spitch: size_t, width: size_t,
         height: size_t, kind: cudaMemcpyKind, stream: cudaStream_t)
        => work(Copy::array(runtime_direction(kind), dst, src, width, height).on(stream));
    runtime "cudaMemcpy2DFromArray" { cudaMemcpy2DFromArray @ 0, cudaMemcpy2DFromArray_ptds @ 0 per_thread }
        (dst: *mut void, dpitch: size_t, src: cudaArray_const_t, wOffset: size_t, hOffset: size_t, width: size_t,
         height: size_t, kind: cudaMemcpyKind) => work(Copy::array(runtime_direction(kind), dst, src, width, height));
    runtime "cudaMemcpy2DFromArrayAsync"
        { cudaMemcpy2DFromArrayAsync @ 0, cudaMemcpy2DFromArrayAsync_ptsz @ 0 per_thread }
        (dst: *mut void, dpitch: size_t, src: cudaArray_const_t, wOffset: size_t, hOffset: size_t, width: size_t,
         height: size_t, kind: cudaMemcpyKind, stream: cudaStream_t)
        => work(Copy::array(runtime_direction(kind), dst, src, width, height).on(stream));
    runtime "cudaMemcpy2DArrayToArray" { cudaMemcpy2DArrayToArray @ 0, cudaMemcpy2DArrayToArray_ptds @ 0 per_thread }
        (dst: cudaArray_t, wOffsetDst: size_t, hOffsetDst: size_t, src: cudaArray_const_t, wOffsetSrc: size_t,
         hOffsetSrc: size_t, width: size_t, height: size_t, kind: cudaMemcpyKind)
        => work(Copy::array(runtime_direction(kind), dst, src, width, height));

    // Copies of symbols. Only the driver knows a symbol's address: the runtime is given the host's name for
    // it.
    runtime "cudaMemcpyToSymbol" { cudaMemcpyToSymbol @ 0, cudaMemcpyToSymbol_ptds @ 0 per_thread }
        (symbol: *const void, src: *const void, count: size_t, offset: size_t, kind: cudaMemcpyKind)
        => work(Copy::new(runtime_direction(kind), symbol as u64, src as u64, count));
    runtime "cudaMemcpyToSymbolAsync" { cudaMemcpyToSymbolAsync @ 0, cudaMemcpyToSymbolAsync_ptsz @ 0 per_thread }
        (symbol: *const void, src: *const void, count: size_t, offset: size_t, kind: cudaMemcpyKind,
         stream: cudaStream_t)
        => work(Copy::new(runtime_direction(kind), symbol as u64, src as u64, count).on(stream));
    runtime "cudaMemcpyFromSymbol" { cudaMemcpyFromSymbol @ 0, cudaMemcpyFromSymbol_ptds @ 0 per_thread }
        (dst: *mut void, symbol: *const void, count: size_t, offset: size_t, kind: cudaMemcpyKind)
        => work(Copy::new(runtime_direction(kind), dst as u64, symbol as u64, count));
    runtime "cudaMemcpyFromSymbolAsync"
        { cudaMemcpyFromSymbolAsync @ 0, cudaMemcpyFromSymbolAsync_ptsz @ 0 per_thread }
        (dst: *mut void, symbol: *const void, count: size_t, offset: size_t, kind: cudaMemcpyKind,
         stream: cudaStream_t)
        => work(Copy::new(runtime_direction(kind), dst as u64, symbol as u64, count).on(stream));

    // Batches, and copies with attributes. The runtime's two batch functions have different last arguments in
    // CUDA 12 and in CUDA 13 under the same names. The arguments that are read come before those, and the
    // others are passed on unread.
    driver "cuMemcpyBatchAsync" { cuMemcpyBatchAsync @ 12080, cuMemcpyBatchAsync_ptsz @ 12080 per_thread }
        (dsts: *mut CUdeviceptr, srcs: *mut CUdeviceptr, sizes: *mut size_t, count: size_t,
         attrs: *mut CUmemcpyAttributes, attrsIdxs: *mut size_t, numAttrs: size_t, failIdx: *mut size_t,
         hStream: CUstream) => work(Copy::batch(dsts, srcs, sizes, count).on(hStream));
    driver "cuMemcpyBatchAsync" { cuMemcpyBatchAsync_v2 @ 13000, cuMemcpyBatchAsync_v2_ptsz @ 13000 per_thread }
        (dsts: *mut CUdeviceptr, srcs: *mut CUdeviceptr, sizes: *mut size_t, count: size_t,
         attrs: *mut CUmemcpyAttributes, attrsIdxs: *mut size_t, numAttrs: size_t, hStream: CUstream)
        => work(Copy::batch(dsts, srcs, sizes, count).on(hStream));
    driver "cuMemcpy3DBatchAsync" { cuMemcpy3DBatchAsync @ 12080, cuMemcpy3DBatchAsync_ptsz @ 12080 per_thread }
        (numOps: size_t, opList: *mut CUDA_MEMCPY3D_BATCH_OP, failIdx: *mut size_t, flags: unsigned_long_long,
         hStream: CUstream) => work(Copy::batch_3d(opList, numOps).on(hStream));
    driver "cuMemcpy3DBatchAsync" { cuMemcpy3DBatchAsync_v2 @ 13000, cuMemcpy3DBatchAsync_v2_ptsz @ 13000 per_thread }
        (numOps: size_t, opList: *mut CUDA_MEMCPY3D_BATCH_OP, flags: unsigned_long_long, hStream: CUstream)
        => work(Copy::batch_3d(opList, numOps).on(hStream));
    driver "cuMemcpyWithAttributesAsync"
        { cuMemcpyWithAttributesAsync @ 13020, cuMemcpyWithAttributesAsync_ptsz @ 13020 per_thread }
        (dst: CUdeviceptr, src: CUdeviceptr, size: size_t, attr: *mut CUmemcpyAttributes, hStream: CUstream)
        => work(Copy::new(Direction::Default, dst, src, size).on(hStream));
    driver "cuMemcpy3DWithAttributesAsync"
        { cuMemcpy3DWithAttributesAsync @ 13020, cuMemcpy3DWithAttributesAsync_ptsz @ 13020 per_thread }
        (op: *mut CUDA_MEMCPY3D_BATCH_OP, flags: unsigned_long_long, hStream: CUstream)
        => work(Copy::of_operation(op).on(hStream));
    runtime "cudaMemcpyBatchAsync" { cudaMemcpyBatchAsync @ 0, cudaMemcpyBatchAsync_ptsz @ 0 per_thread }
        (dsts: *mut *mut void, srcs: *mut *mut void, sizes: *mut size_t, count: size_t,
         attrs: *mut cudaMemcpyAttributes, attrsIdxs: *mut size_t, numAttrs: size_t, eighth: word, ninth: word)
        => work(Copy::batch(dsts, srcs, sizes, count).on_some_stream());
    runtime "cudaMemcpy3DBatchAsync" { cudaMemcpy3DBatchAsync @ 0, cudaMemcpy3DBatchAsync_ptsz @ 0 per_thread }
        (numOps: size_t, opList: *mut cudaMemcpy3DBatchOp, third: word, fourth: word, fifth: word)
        => work(Copy::batch_3d(opList, numOps).on_some_stream());
    driver "cuFabricCpyBatchAsync" { cuFabricCpyBatchAsync @ 13050, cuFabricCpyBatchAsync_ptsz @ 13050 per_thread }
        (numOps: size_t, opList: *mut CUDA_FABRIC_COPY_BATCH_OP, flags: unsigned_long_long, hStream: CUstream)
        => plain(Enqueue::on(hStream));
    driver "cuMemBatchDecompressAsync"
        { cuMemBatchDecompressAsync @ 12060, cuMemBatchDecompressAsync_ptsz @ 12060 per_thread }
        (paramsArray: *mut CUmemDecompressParams, count: size_t, flags: unsigned_int, errorIndex: *mut size_t,
         stream: CUstream) => plain(Enqueue::on(stream));
    runtime "cudaMemcpyWithAttributesAsync"
        { cudaMemcpyWithAttributesAsync @ 0, cudaMemcpyWithAttributesAsync_ptsz @ 0 per_thread }
        (dst: *mut void, src: *const void, size: size_t, attr: *mut cudaMemcpyAttributes, stream: cudaStream_t)
        => work(Copy::new(Direction::Default, dst as u64, src as u64, size).on(stream));
    runtime "cudaMemcpy3DWithAttributesAsync"
        { cudaMemcpy3DWithAttributesAsync @ 0, cudaMemcpy3DWithAttributesAsync_ptsz @ 0 per_thread }
        (op: *mut cudaMemcpy3DBatchOp, flags: unsigned_long_long, stream: cudaStream_t)
        => work(Copy::of_operation(op).on(stream));

    // Memsets.
    driver "cuMemsetD8" { cuMemsetD8_v2 @ 3020, cuMemsetD8_v2_ptds @ 7000 per_thread }
        (dstDevice: CUdeviceptr, uc: unsigned_char, N: size_t) => work(Memset::new(dstDevice, uc.into(), 1, N));
    driver "cuMemsetD16" { cuMemsetD16_v2 @ 3020, cuMemsetD16_v2_ptds @ 7000 per_thread }
        (dstDevice: CUdeviceptr, us: unsigned_short, N: size_t) => work(Memset::new(dstDevice, us.into(), 2, N));
    driver "cuMemsetD32" { cuMemsetD32_v2 @ 3020, cuMemsetD32_v2_ptds @ 7000 per_thread }
        (dstDevice: CUdeviceptr, ui: unsigned_int, N: size_t) => work(Memset::new(dstDevice, ui, 4, N));
    driver "cuMemsetD8Async" { cuMemsetD8Async @ 3020, cuMemsetD8Async_ptsz @ 7000 per_thread }
        (dstDevice: CUdeviceptr, uc: unsigned_char, N: size_t, hStream: CUstream)
        => work(Memset::new(dstDevice, uc.into(), 1, N).on(hStream));
    driver "cuMemsetD16Async" { cuMemsetD16Async @ 3020, cuMemsetD16Async_ptsz @ 7000 per_thread }
        (dstDevice: CUdeviceptr, us: unsigned_short, N: size_t, hStream: CUstream)
        => work(Memset::new(dstDevice, us.into(), 2, N).on(hStream));
    driver "cuMemsetD32Async" { cuMemsetD32Async @ 3020, cuMemsetD32Async_ptsz @ 7000 per_thread }
        (dstDevice: CUdeviceptr, ui: unsigned_int, N: size_t, hStream: CUstream)
        => work(Memset::new(dstDevice, ui, 4, N).on(hStream));
    runtime "cudaMemset" { cudaMemset @ 0, cudaMemset_ptds @ 0 per_thread }
        (devPtr: *mut void, value: int, count: size_t) => work(Memset::new(devPtr as u64, value as u32 & 0xff, 1, count));
    runtime "cudaMemsetAsync" { cudaMemsetAsync @ 0, cudaMemsetAsync_ptsz @ 0 per_thread }
        (devPtr: *mut void, value: int, count: size_t, stream: cudaStream_t)
        => work(Memset::new(devPtr as u64, value as u32 & 0xff, 1, count).on(stream));

    // Memsets by rows and slices.
    driver "cuMemsetD2D8" { cuMemsetD2D8_v2 @ 3020, cuMemsetD2D8_v2_ptds @ 7000 per_thread }
        (dstDevice: CUdeviceptr, dstPitch: size_t, uc: unsigned_char, Width: size_t, Height: size_t)
        => work(Memset::plane(dstDevice, uc.into(), 1, Width, Height));
    driver "cuMemsetD2D8Async" { cuMemsetD2D8Async @ 3020, cuMemsetD2D8Async_ptsz @ 7000 per_thread }
        (dstDevice: CUdeviceptr, dstPitch: size_t, uc: unsigned_char, Width: size_t, Height: size_t,
         hStream: CUstream) => work(Memset::plane(dstDevice, uc.into(), 1, Width, Height).on(hStream));
    driver "cuMemsetD2D16" { cuMemsetD2D16_v2 @ 3020, cuMemsetD2D16_v2_ptds @ 7000 per_thread }
        (dstDevice: CUdeviceptr, dstPitch: size_t, us: unsigned_short, Width: size_t, Height: size_t)
        => work(Memset::plane(dstDevice, us.into(), 2, Width, Height));
    driver "cuMemsetD2D16Async" { cuMemsetD2D16Async @ 3020, cuMemsetD2D16Async_ptsz @ 7000 per_thread }
        (dstDevice: CUdeviceptr, dstPitch: size_t, us: unsigned_short, Width: size_t, Height: size_t,
         hStream: CUstream) => work(Memset::plane(dstDevice, us.into(), 2, Width, Height).on(hStream));
    driver "cuMemsetD2D32" { cuMemsetD2D32_v2 @ 3020, cuMemsetD2D32_v2_ptds @ 7000 per_thread }
        (dstDevice: CUdeviceptr, dstPitch: size_t, ui: unsigned_int, Width: size_t, Height: size_t)
        => work(Memset::plane(dstDevice, ui, 4, Width, Height));
    driver "cuMemsetD2D32Async" { cuMemsetD2D32Async @ 3020, cuMemsetD2D32Async_ptsz @ 7000 per_thread }
        (dstDevice: CUdeviceptr, dstPitch: size_t, ui: unsigned_int, Width: size_t, Height: size_t,
         hStream: CUstream) => work(Memset::plane(dstDevice, ui, 4, Width, Height).on(hStream));
    runtime "cudaMemset2D" { cudaMemset2D @ 0, cudaMemset2D_ptds @ 0 per_thread }
        (devPtr: *mut void, pitch: size_t, value: int, width: size_t, height: size_t)
        => work(Memset::plane(devPtr as u64, value as u32 & 0xff, 1, width, height));
    runtime "cudaMemset2DAsync" { cudaMemset2DAsync @ 0, cudaMemset2DAsync_ptsz @ 0 per_thread }
        (devPtr: *mut void, pitch: size_t, value: int, width: size_t, height: size_t, stream: cudaStream_t)
        => work(Memset::plane(devPtr as u64, value as u32 & 0xff, 1, width, height).on(stream));
    runtime "cudaMemset3D" { cudaMemset3D @ 0, cudaMemset3D_ptds @ 0 per_thread }
        (pitchedDevPtr: cudaPitchedPtr, value: int, extent: cudaExtent)
        => work(Memset::of_3d(pitchedDevPtr, value, extent));
    runtime "cudaMemset3DAsync" { cudaMemset3DAsync @ 0, cudaMemset3DAsync_ptsz @ 0 per_thread }
        (pitchedDevPtr: cudaPitchedPtr, value: int, extent: cudaExtent, stream: cudaStream_t)
        => work(Memset::of_3d(pitchedDevPtr, value, extent).on(stream));

    // Managed memory: where it should be, and what is not needed. cudaMemPrefetchAsync and cudaMemAdvise have
    // different last arguments in CUDA 13 under the same names, as above.
    driver "cuMemPrefetchAsync" { cuMemPrefetchAsync @ 8000, cuMemPrefetchAsync_ptsz @ 8000 per_thread }
        (devPtr: CUdeviceptr, count: size_t, dstDevice: CUdevice, hStream: CUstream)
        => work(Copy::prefetch_to_device(devPtr, count, dstDevice).on(hStream));
    driver "cuMemPrefetchAsync" { cuMemPrefetchAsync_v2 @ 12020, cuMemPrefetchAsync_v2_ptsz @ 12020 per_thread }
        (devPtr: CUdeviceptr, count: size_t, location: CUmemLocation, flags: unsigned_int, hStream: CUstream)
        => work(Copy::prefetch_to(devPtr, count, location).on(hStream));
    driver "cuMemPrefetchBatchAsync"
        { cuMemPrefetchBatchAsync @ 13000, cuMemPrefetchBatchAsync_ptsz @ 13000 per_thread }
        (dptrs: *mut CUdeviceptr, sizes: *mut size_t, count: size_t, prefetchLocs: *mut CUmemLocation,
         prefetchLocIdxs: *mut size_t, numPrefetchLocs: size_t, flags: unsigned_long_long, hStream: CUstream)
        => work(Copy::prefetch_batch(dptrs, sizes, count, prefetchLocs, numPrefetchLocs).on(hStream));
    driver "cuMemDiscardAndPrefetchBatchAsync"
        { cuMemDiscardAndPrefetchBatchAsync @ 13000, cuMemDiscardAndPrefetchBatchAsync_ptsz @ 13000 per_thread }
        (dptrs: *mut CUdeviceptr, sizes: *mut size_t, count: size_t, prefetchLocs: *mut CUmemLocation,
         prefetchLocIdxs: *mut size_t, numPrefetchLocs: size_t, flags: unsigned_long_long, hStream: CUstream)
        => work(Copy::prefetch_batch(dptrs, sizes, count, prefetchLocs, numPrefetchLocs).on(hStream));
    driver "cuMemDiscardBatchAsync" { cuMemDiscardBatchAsync @ 13000, cuMemDiscardBatchAsync_ptsz @ 13000 per_thread }
        (dptrs: *mut CUdeviceptr, sizes: *mut size_t, count: size_t, flags: unsigned_long_long, hStream: CUstream)
        => plain(Enqueue::on(hStream));
    driver "cuMemAdvise" { cuMemAdvise @ 8000 }
        (devPtr: CUdeviceptr, count: size_t, advice: CUmem_advise, device: CUdevice)
        => plain(Host { subject: devPtr });
    driver "cuMemAdvise" { cuMemAdvise_v2 @ 12020 }
        (devPtr: CUdeviceptr, count: size_t, advice: CUmem_advise, location: CUmemLocation)
        => plain(Host { subject: devPtr });
    runtime "cudaMemPrefetchAsync" { cudaMemPrefetchAsync @ 0, cudaMemPrefetchAsync_ptsz @ 0 per_thread }
        (devPtr: *const void, count: size_t, third: word, fourth: word, fifth: word)
        => work(Copy::prefetch_somewhere(devPtr as u64, count).on_some_stream());
    runtime "cudaMemPrefetchAsync" { cudaMemPrefetchAsync_v2 @ 0, cudaMemPrefetchAsync_v2_ptsz @ 0 per_thread }
        (devPtr: *const void, count: size_t, location: cudaMemLocation, flags: unsigned_int, stream: cudaStream_t)
        => work(Copy::prefetch_to(devPtr as u64, count, location).on(stream));
    runtime "cudaMemPrefetchBatchAsync"
        { cudaMemPrefetchBatchAsync @ 0, cudaMemPrefetchBatchAsync_ptsz @ 0 per_thread }
        (dptrs: *mut *mut void, sizes: *mut size_t, count: size_t, prefetchLocs: *mut cudaMemLocation,
         prefetchLocIdxs: *mut size_t, numPrefetchLocs: size_t, flags: unsigned_long_long, stream: cudaStream_t)
        => work(Copy::prefetch_batch(dptrs, sizes, count, prefetchLocs, numPrefetchLocs).on(stream));
    runtime "cudaMemDiscardAndPrefetchBatchAsync"
        { cudaMemDiscardAndPrefetchBatchAsync @ 0, cudaMemDiscardAndPrefetchBatchAsync_ptsz @ 0 per_thread }
        (dptrs: *mut *mut void, sizes: *mut size_t, count: size_t, prefetchLocs: *mut cudaMemLocation,
         prefetchLocIdxs: *mut size_t, numPrefetchLocs: size_t, flags: unsigned_long_long, stream: cudaStream_t)
        => work(Copy::prefetch_batch(dptrs, sizes, count, prefetchLocs, numPrefetchLocs).on(stream));
    runtime "cudaMemDiscardBatchAsync" { cudaMemDiscardBatchAsync @ 0, cudaMemDiscardBatchAsync_ptsz @ 0 per_thread }
        (dptrs: *mut *mut void, sizes: *mut size_t, count: size_t, flags: unsigned_long_long, stream: cudaStream_t)
        => plain(Enqueue::on(stream));
    runtime "cudaMemAdvise" { cudaMemAdvise @ 0 }
        (devPtr: *const void, count: size_t, advice: cudaMemoryAdvise, fourth: word)
        => plain(Host { subject: devPtr as u64 });
    runtime "cudaMemAdvise" { cudaMemAdvise_v2 @ 0 }
        (devPtr: *const void, count: size_t, advice: cudaMemoryAdvise, location: cudaMemLocation)
        => plain(Host { subject: devPtr as u64 });
    driver "cuStreamAttachMemAsync" { cuStreamAttachMemAsync @ 6000, cuStreamAttachMemAsync_ptsz @ 7000 per_thread }
        (hStream: CUstream, dptr: CUdeviceptr, length: size_t, flags: unsigned_int) => plain(Enqueue::on(hStream));
    runtime "cudaStreamAttachMemAsync" { cudaStreamAttachMemAsync @ 0, cudaStreamAttachMemAsync_ptsz @ 0 per_thread }
        (stream: cudaStream_t, devPtr: *mut void, length: size_t, flags: unsigned_int) => plain(Enqueue::on(stream));
} } }
