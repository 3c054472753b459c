//! Which functions launch kernels, or put other work on a stream that takes a place in its queue?

macro_rules! launches { ($next:ident $($before:tt)*) => { $next! { $($before)*
    // Launches.
    driver "cuLaunchKernel" { cuLaunchKernel @ 4000, cuLaunchKernel_ptsz @ 7000 per_thread }
        (f: CUfunction, gridDimX: unsigned_int, gridDimY: unsigned_int, gridDimZ: unsigned_int,
         blockDimX: unsigned_int, blockDimY: unsigned_int, blockDimZ: unsigned_int, sharedMemBytes: unsigned_int,
         hStream: CUstream, kernelParams: *mut *mut void, extra: *mut *mut void)
        => launch(Launch { function: f, grid: [gridDimX, gridDimY, gridDimZ], block: [blockDimX, blockDimY, blockDimZ],
                         shared_bytes: sharedMemBytes, stream: hStream, attributes: Attributes::NONE,
                         origin: Origin::Module });
    driver "cuLaunchKernelEx" { cuLaunchKernelEx @ 11060, cuLaunchKernelEx_ptsz @ 11060 per_thread }
        (config: *const CUlaunchConfig, f: CUfunction, kernelParams: *mut *mut void, extra: *mut *mut void)
        => launch(Launch::from_driver_config(config, f));
    runtime "cudaLaunchKernel" { cudaLaunchKernel @ 0, cudaLaunchKernel_ptsz @ 0 per_thread }
        (func: *const void, gridDim: dim3, blockDim: dim3, args: *mut *mut void, sharedMem: size_t,
         stream: cudaStream_t)
        => launch(Launch::from_runtime(func, gridDim, blockDim, sharedMem, stream));
    runtime "__cudaLaunchKernel" { __cudaLaunchKernel @ 0, __cudaLaunchKernel_ptsz @ 0 per_thread }
        (kernel: *mut void, gridDim: dim3, blockDim: dim3, args: *mut *mut void, sharedMem: size_t,
         stream: cudaStream_t)
        => launch(Launch { origin: Origin::Caller, ..Launch::from_runtime(kernel, gridDim, blockDim, sharedMem, stream) });
    runtime "cudaLaunchKernelExC" { cudaLaunchKernelExC @ 0, cudaLaunchKernelExC_ptsz @ 0 per_thread }
        (config: *const cudaLaunchConfig_t, func: *const void, args: *mut *mut void)
        => launch(Launch::from_runtime_config(config, func));
    driver "cuLaunchCooperativeKernel"
        { cuLaunchCooperativeKernel @ 9000, cuLaunchCooperativeKernel_ptsz @ 9000 per_thread }
        (f: CUfunction, gridDimX: unsigned_int, gridDimY: unsigned_int, gridDimZ: unsigned_int,
         blockDimX: unsigned_int, blockDimY: unsigned_int, blockDimZ: unsigned_int, sharedMemBytes: unsigned_int,
         hStream: CUstream, kernelParams: *mut *mut void)
        => work(Launch { function: f, grid: [gridDimX, gridDimY, gridDimZ], block: [blockDimX, blockDimY, blockDimZ],
                         shared_bytes: sharedMemBytes, stream: hStream,
                         attributes: Attributes::COOPERATIVE, origin: Origin::Module });
    driver "cuLaunchCooperativeKernelMultiDevice" { cuLaunchCooperativeKernelMultiDevice @ 9000 }
        (launchParamsList: *mut CUDA_LAUNCH_PARAMS, numDevices: unsigned_int, flags: unsigned_int)
        => launches(Launches::of(launchParamsList, numDevices));
    driver "cuLaunch" { cuLaunch @ 2000 } (f: CUfunction) => work(Launch::of_grid(f, 1, 1, core::ptr::null_mut()));
    driver "cuLaunchGrid" { cuLaunchGrid @ 2000 } (f: CUfunction, grid_width: int, grid_height: int)
        => work(Launch::of_grid(f, grid_width, grid_height, core::ptr::null_mut()));
    driver "cuLaunchGridAsync" { cuLaunchGridAsync @ 2000 }
        (f: CUfunction, grid_width: int, grid_height: int, hStream: CUstream)
        => work(Launch::of_grid(f, grid_width, grid_height, hStream));
    runtime "cudaLaunchCooperativeKernel"
        { cudaLaunchCooperativeKernel @ 0, cudaLaunchCooperativeKernel_ptsz @ 0 per_thread }
        (func: *const void, gridDim: dim3, blockDim: dim3, args: *mut *mut void, sharedMem: size_t,
         stream: cudaStream_t)
        => work(Launch { attributes: Attributes::COOPERATIVE,
                         ..Launch::from_runtime(func, gridDim, blockDim, sharedMem, stream) });
    runtime "cudaLaunchCooperativeKernelMultiDevice" { cudaLaunchCooperativeKernelMultiDevice @ 0 }
        (launchParamsList: *mut cudaLaunchParams, numDevices: unsigned_int, flags: unsigned_int)
        => plain(Host { subject: 0 });

    // Other entries of a stream's queue. Between two events of ours, they are no part of the timed operation.
    driver "cuStreamWaitValue32"
        { cuStreamWaitValue32 @ 8000, cuStreamWaitValue32_ptsz @ 8000 per_thread,
          cuStreamWaitValue32_v2 @ 11070, cuStreamWaitValue32_v2_ptsz @ 11070 per_thread }
        (stream: CUstream, addr: CUdeviceptr, value: cuuint32_t, flags: unsigned_int) => plain(Enqueue::until_host(stream));
    driver "cuStreamWriteValue32"
        { cuStreamWriteValue32 @ 8000, cuStreamWriteValue32_ptsz @ 8000 per_thread,
          cuStreamWriteValue32_v2 @ 11070, cuStreamWriteValue32_v2_ptsz @ 11070 per_thread }
        (stream: CUstream, addr: CUdeviceptr, value: cuuint32_t, flags: unsigned_int) => plain(Enqueue::on(stream));
    driver "cuStreamWaitValue64"
        { cuStreamWaitValue64 @ 9000, cuStreamWaitValue64_ptsz @ 9000 per_thread,
          cuStreamWaitValue64_v2 @ 11070, cuStreamWaitValue64_v2_ptsz @ 11070 per_thread }
        (stream: CUstream, addr: CUdeviceptr, value: cuuint64_t, flags: unsigned_int) => plain(Enqueue::until_host(stream));
    driver "cuStreamWriteValue64"
        { cuStreamWriteValue64 @ 9000, cuStreamWriteValue64_ptsz @ 9000 per_thread,
          cuStreamWriteValue64_v2 @ 11070, cuStreamWriteValue64_v2_ptsz @ 11070 per_thread }
        (stream: CUstream, addr: CUdeviceptr, value: cuuint64_t, flags: unsigned_int) => plain(Enqueue::on(stream));
    driver "cuStreamBatchMemOp"
        { cuStreamBatchMemOp @ 8000, cuStreamBatchMemOp_ptsz @ 8000 per_thread,
          cuStreamBatchMemOp_v2 @ 11070, cuStreamBatchMemOp_v2_ptsz @ 11070 per_thread }
        (stream: CUstream, count: unsigned_int, paramArray: *mut CUstreamBatchMemOpParams, flags: unsigned_int)
        => plain(Enqueue::until_host(stream));
    driver "cuLaunchHostFunc" { cuLaunchHostFunc @ 10000, cuLaunchHostFunc_ptsz @ 10000 per_thread }
        (hStream: CUstream, function: CUhostFn, userData: *mut void) => plain(Enqueue::until_host(hStream));
    driver "cuLaunchHostFunc" { cuLaunchHostFunc_v2 @ 13010, cuLaunchHostFunc_v2_ptsz @ 13010 per_thread }
        (hStream: CUstream, function: CUhostFn, userData: *mut void, syncMode: unsigned_int)
        => plain(Enqueue::until_host(hStream));
    driver "cuStreamAddCallback" { cuStreamAddCallback @ 5000, cuStreamAddCallback_ptsz @ 7000 per_thread }
        (hStream: CUstream, callback: CUstreamCallback, userData: *mut void, flags: unsigned_int)
        => plain(Enqueue::until_host(hStream));
    runtime "cudaLaunchHostFunc" { cudaLaunchHostFunc @ 0, cudaLaunchHostFunc_ptsz @ 0 per_thread }
        (stream: cudaStream_t, function: cudaHostFn_t, userData: *mut void) => plain(Enqueue::until_host(stream));
    runtime "cudaLaunchHostFunc" { cudaLaunchHostFunc_v2 @ 0, cudaLaunchHostFunc_v2_ptsz @ 0 per_thread }
        (stream: cudaStream_t, function: cudaHostFn_t, userData: *mut void, syncMode: unsigned_int)
        => plain(Enqueue::until_host(stream));
    runtime "cudaStreamAddCallback" { cudaStreamAddCallback @ 0, cudaStreamAddCallback_ptsz @ 0 per_thread }
        (stream: cudaStream_t, callback: cudaStreamCallback_t, userData: *mut void, flags: unsigned_int)
        => plain(Enqueue::until_host(stream));
    driver "cuSignalExternalSemaphoresAsync"
        { cuSignalExternalSemaphoresAsync @ 10000, cuSignalExternalSemaphoresAsync_ptsz @ 10000 per_thread }
        (extSemArray: *const CUexternalSemaphore, paramsArray: *const CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS,
         numExtSems: unsigned_int, stream: CUstream) => plain(Enqueue::on(stream));
    driver "cuWaitExternalSemaphoresAsync"
        { cuWaitExternalSemaphoresAsync @ 10000, cuWaitExternalSemaphoresAsync_ptsz @ 10000 per_thread }
        (extSemArray: *const CUexternalSemaphore, paramsArray: *const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS,
         numExtSems: unsigned_int, stream: CUstream) => plain(Enqueue::until_host(stream));
    runtime "cudaSignalExternalSemaphoresAsync"
        { cudaSignalExternalSemaphoresAsync @ 0, cudaSignalExternalSemaphoresAsync_ptsz @ 0 per_thread,
          cudaSignalExternalSemaphoresAsync_v2 @ 0, cudaSignalExternalSemaphoresAsync_v2_ptsz @ 0 per_thread }
        (extSemArray: *const cudaExternalSemaphore_t, paramsArray: *const cudaExternalSemaphoreSignalParams,
         numExtSems: unsigned_int, stream: cudaStream_t) => plain(Enqueue::on(stream));
    runtime "cudaWaitExternalSemaphoresAsync"
        { cudaWaitExternalSemaphoresAsync @ 0, cudaWaitExternalSemaphoresAsync_ptsz @ 0 per_thread,
          cudaWaitExternalSemaphoresAsync_v2 @ 0, cudaWaitExternalSemaphoresAsync_v2_ptsz @ 0 per_thread }
        (extSemArray: *const cudaExternalSemaphore_t, paramsArray: *const cudaExternalSemaphoreWaitParams,
         numExtSems: unsigned_int, stream: cudaStream_t) => plain(Enqueue::until_host(stream));
    driver "cuGraphicsMapResources" { cuGraphicsMapResources @ 3000, cuGraphicsMapResources_ptsz @ 7000 per_thread }
        (count: unsigned_int, resources: *mut CUgraphicsResource, hStream: CUstream) => plain(Enqueue::on(hStream));
    driver "cuGraphicsUnmapResources"
        { cuGraphicsUnmapResources @ 3000, cuGraphicsUnmapResources_ptsz @ 7000 per_thread }
        (count: unsigned_int, resources: *mut CUgraphicsResource, hStream: CUstream) => plain(Enqueue::on(hStream));
    runtime "cudaGraphicsMapResources" { cudaGraphicsMapResources @ 0 }
        (count: int, resources: *mut cudaGraphicsResource_t, stream: cudaStream_t) => plain(Enqueue::on(stream));
    runtime "cudaGraphicsUnmapResources" { cudaGraphicsUnmapResources @ 0 }
        (count: int, resources: *mut cudaGraphicsResource_t, stream: cudaStream_t) => plain(Enqueue::on(stream));
} } }
