//! Which functions prepare work and end it: lookups of the driver's functions, contexts, streams, modules,
//! control?

macro_rules! setup { ($next:ident $($before:tt)*) => { $next! { $($before)*
    // Lookup: the route by which all runtimes, including static ones, find the other functions.
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
    driver "cuGreenCtxCreate" { cuGreenCtxCreate @ 12040 }
        (phCtx: *mut CUgreenCtx, desc: CUdevResourceDesc, dev: CUdevice, flags: unsigned_int)
        => plain(GreenCreate { out: phCtx, device: dev });
    driver "cuGreenCtxDestroy" { cuGreenCtxDestroy @ 12040 } (hCtx: CUgreenCtx) => plain(GreenDestroy::of(hCtx));
    runtime "cudaInitDevice" { cudaInitDevice @ 0 } (device: int, deviceFlags: unsigned_int, flags: unsigned_int)
        => plain(Host { subject: 0 });
    runtime "cudaSetDeviceFlags" { cudaSetDeviceFlags @ 0 } (flags: unsigned_int) => plain(Host { subject: 0 });
    runtime "cudaDeviceReset" { cudaDeviceReset @ 0 } () => plain(DeviceReset::default());
    runtime "cudaThreadExit" { cudaThreadExit @ 0 } () => plain(DeviceReset::default());
    runtime "cudaGreenCtxCreate" { cudaGreenCtxCreate @ 0 }
        (phCtx: *mut cudaExecutionContext_t, desc: cudaDevResourceDesc_t, device: int, flags: unsigned_int)
        => plain(Host { subject: 0 });
    runtime "cudaExecutionCtxDestroy" { cudaExecutionCtxDestroy @ 0 } (ctx: cudaExecutionContext_t)
        => plain(Host { subject: ctx as u64 });

    // Streams.
    driver "cuStreamCreate" { cuStreamCreate @ 2000 } (phStream: *mut CUstream, Flags: unsigned_int)
        => plain(StreamCreate { out: phStream });
    driver "cuStreamCreateWithPriority" { cuStreamCreateWithPriority @ 5050 }
        (phStream: *mut CUstream, flags: unsigned_int, priority: int)
        => plain(StreamCreate { out: phStream });
    driver "cuGreenCtxStreamCreate" { cuGreenCtxStreamCreate @ 12050 }
        (phStream: *mut CUstream, greenCtx: CUgreenCtx, flags: unsigned_int, priority: int)
        => plain(StreamCreate { out: phStream });
    driver "cuStreamDestroy" { cuStreamDestroy @ 2000, cuStreamDestroy_v2 @ 4000 } (hStream: CUstream)
        => plain(StreamDestroy::of(hStream));
    runtime "cudaStreamCreate" { cudaStreamCreate @ 0 } (pStream: *mut cudaStream_t)
        => plain(StreamCreate { out: pStream });
    runtime "cudaStreamCreateWithFlags" { cudaStreamCreateWithFlags @ 0 }
        (pStream: *mut cudaStream_t, flags: unsigned_int)
        => plain(StreamCreate { out: pStream });
    runtime "cudaStreamCreateWithPriority" { cudaStreamCreateWithPriority @ 0 }
        (pStream: *mut cudaStream_t, flags: unsigned_int, priority: int)
        => plain(StreamCreate { out: pStream });
    runtime "cudaExecutionCtxStreamCreate" { cudaExecutionCtxStreamCreate @ 0 }
        (phStream: *mut cudaStream_t, ctx: cudaExecutionContext_t, flags: unsigned_int, priority: int)
        => plain(StreamCreate { out: phStream });
    runtime "cudaStreamDestroy" { cudaStreamDestroy @ 0 } (stream: cudaStream_t) => plain(StreamDestroy::of(stream));

    // Modules, as far as kernel names need them.
    driver "cuModuleLoad" { cuModuleLoad @ 2000 } (module: *mut CUmodule, fname: *const char_t)
        => plain(Load::of(module));
    driver "cuModuleLoadData" { cuModuleLoadData @ 2000 } (module: *mut CUmodule, image: *const void)
        => plain(Load::of(module));
    driver "cuModuleLoadDataEx" { cuModuleLoadDataEx @ 2010 }
        (module: *mut CUmodule, image: *const void, numOptions: unsigned_int, options: *mut CUjit_option,
         optionValues: *mut *mut void)
        => plain(Load::of(module));
    driver "cuModuleLoadFatBinary" { cuModuleLoadFatBinary @ 2000 } (module: *mut CUmodule, fatCubin: *const void)
        => plain(Load::of(module));
    driver "cuModuleUnload" { cuModuleUnload @ 2000 } (hmod: CUmodule) => plain(Unload { owner: hmod });
    driver "cuModuleGetFunction" { cuModuleGetFunction @ 2000 }
        (hfunc: *mut CUfunction, hmod: CUmodule, name: *const char_t)
        => plain(FunctionNamed { out: hfunc, name, owner: hmod, form: Form::Function });
    driver "cuModuleEnumerateFunctions" { cuModuleEnumerateFunctions @ 12040 }
        (functions: *mut CUfunction, numFunctions: unsigned_int, hmod: CUmodule)
        => plain(Enumerated { out: functions, room: numFunctions, owner: hmod, form: Form::Function });
    driver "cuLibraryLoadData" { cuLibraryLoadData @ 12000 }
        (library: *mut CUlibrary, code: *const void, jitOptions: *mut CUjit_option, jitOptionsValues: *mut *mut void,
         numJitOptions: unsigned_int, libraryOptions: *mut CUlibraryOption, libraryOptionValues: *mut *mut void,
         numLibraryOptions: unsigned_int)
        => plain(Load::of(library));
    driver "cuLibraryLoadFromFile" { cuLibraryLoadFromFile @ 12000 }
        (library: *mut CUlibrary, fileName: *const char_t, jitOptions: *mut CUjit_option,
         jitOptionsValues: *mut *mut void, numJitOptions: unsigned_int, libraryOptions: *mut CUlibraryOption,
         libraryOptionValues: *mut *mut void, numLibraryOptions: unsigned_int)
        => plain(Load::of(library));
    driver "cuLibraryUnload" { cuLibraryUnload @ 12000 } (library: CUlibrary)
        => plain(Unload { owner: library });
    runtime "cudaLibraryLoadData" { cudaLibraryLoadData @ 0 }
        (library: *mut cudaLibrary_t, code: *const void, jitOptions: *mut cudaJitOption,
         jitOptionsValues: *mut *mut void, numJitOptions: unsigned_int, libraryOptions: *mut cudaLibraryOption,
         libraryOptionValues: *mut *mut void, numLibraryOptions: unsigned_int)
        => plain(Load::of(library));
    runtime "cudaLibraryLoadFromFile" { cudaLibraryLoadFromFile @ 0 }
        (library: *mut cudaLibrary_t, fileName: *const char_t, jitOptions: *mut cudaJitOption,
         jitOptionsValues: *mut *mut void, numJitOptions: unsigned_int, libraryOptions: *mut cudaLibraryOption,
         libraryOptionValues: *mut *mut void, numLibraryOptions: unsigned_int)
        => plain(Load::of(library));
    runtime "cudaLibraryUnload" { cudaLibraryUnload @ 0 } (library: cudaLibrary_t)
        => plain(Unload { owner: library });
    driver "cuLibraryGetKernel" { cuLibraryGetKernel @ 12000 }
        (pKernel: *mut CUkernel, library: CUlibrary, name: *const char_t)
        => plain(FunctionNamed { out: pKernel, name, owner: library, form: Form::Kernel });
    driver "cuLibraryEnumerateKernels" { cuLibraryEnumerateKernels @ 12040 }
        (kernels: *mut CUkernel, numKernels: unsigned_int, lib: CUlibrary)
        => plain(Enumerated { out: kernels, room: numKernels, owner: lib, form: Form::Kernel });
    driver "cuKernelGetFunction" { cuKernelGetFunction @ 12000 } (pFunc: *mut CUfunction, kernel: CUkernel)
        => plain(FunctionOfKernel { out: pFunc, kernel });
    // The runtime's handles are the driver's (cuda_runtime_api.h, "Interactions with the CUDA Driver API").
    runtime "cudaLibraryGetKernel" { cudaLibraryGetKernel @ 0 }
        (pKernel: *mut cudaKernel_t, library: cudaLibrary_t, name: *const char_t)
        => plain(FunctionNamed { out: pKernel, name, owner: library, form: Form::Kernel });
    runtime "cudaLibraryEnumerateKernels" { cudaLibraryEnumerateKernels @ 0 }
        (kernels: *mut cudaKernel_t, numKernels: unsigned_int, lib: cudaLibrary_t)
        => plain(Enumerated { out: kernels, room: numKernels, owner: lib, form: Form::Kernel });
    runtime "cudaGetKernel" { cudaGetKernel @ 0 } (kernelPtr: *mut cudaKernel_t, entryFuncAddr: *const void)
        => plain(HandleGiven { out: kernelPtr, form: Form::Kernel });
    runtime "__cudaGetKernel" { __cudaGetKernel @ 0 } (kernelPtr: *mut cudaKernel_t, entryFuncAddr: *const void)
        => plain(HandleGiven { out: kernelPtr, form: Form::Kernel });
    runtime "cudaGetFuncBySymbol" { cudaGetFuncBySymbol @ 0 }
        (functionPtr: *mut cudaFunction_t, symbolPtr: *const void)
        => plain(HandleGiven { out: functionPtr, form: Form::Function });

    // Linking, and queries about modules.
    driver "cuLinkCreate" { cuLinkCreate @ 5050, cuLinkCreate_v2 @ 6050 }
        (numOptions: unsigned_int, options: *mut CUjit_option, optionValues: *mut *mut void,
         stateOut: *mut CUlinkState) => plain(Host { subject: 0 });
    driver "cuLinkAddData" { cuLinkAddData @ 5050, cuLinkAddData_v2 @ 6050 }
        (state: CUlinkState, kind: CUjitInputType, data: *mut void, size: size_t, name: *const char_t,
         numOptions: unsigned_int, options: *mut CUjit_option, optionValues: *mut *mut void)
        => plain(Host { subject: state as u64 });
    driver "cuLinkAddFile" { cuLinkAddFile @ 5050, cuLinkAddFile_v2 @ 6050 }
        (state: CUlinkState, kind: CUjitInputType, path: *const char_t, numOptions: unsigned_int,
         options: *mut CUjit_option, optionValues: *mut *mut void) => plain(Host { subject: state as u64 });
    driver "cuLinkComplete" { cuLinkComplete @ 5050 }
        (state: CUlinkState, cubinOut: *mut *mut void, sizeOut: *mut size_t) => plain(Host { subject: state as u64 });
    driver "cuLinkDestroy" { cuLinkDestroy @ 5050 } (state: CUlinkState) => plain(Host { subject: state as u64 });
    driver "cuModuleGetGlobal" { cuModuleGetGlobal_v2 @ 3020 }
        (dptr: *mut CUdeviceptr, bytes: *mut size_t, hmod: CUmodule, name: *const char_t)
        => plain(Host { subject: hmod as u64 });
    driver "cuLibraryGetGlobal" { cuLibraryGetGlobal @ 12000 }
        (dptr: *mut CUdeviceptr, bytes: *mut size_t, library: CUlibrary, name: *const char_t)
        => plain(Host { subject: library as u64 });
    driver "cuLibraryGetManaged" { cuLibraryGetManaged @ 12000 }
        (dptr: *mut CUdeviceptr, bytes: *mut size_t, library: CUlibrary, name: *const char_t)
        => plain(Host { subject: library as u64 });
    driver "cuLibraryGetModule" { cuLibraryGetModule @ 12000 } (pMod: *mut CUmodule, library: CUlibrary)
        => plain(Host { subject: library as u64 });
    driver "cuFuncLoad" { cuFuncLoad @ 12040 } (function: CUfunction) => plain(Host { subject: function as u64 });

    // How functions should run, and how many of their blocks fit.
    driver "cuFuncSetAttribute" { cuFuncSetAttribute @ 9000 }
        (hfunc: CUfunction, attrib: CUfunction_attribute, value: int) => plain(Host { subject: hfunc as u64 });
    driver "cuFuncSetCacheConfig" { cuFuncSetCacheConfig @ 3000 } (hfunc: CUfunction, config: CUfunc_cache)
        => plain(Host { subject: hfunc as u64 });
    driver "cuFuncSetSharedMemConfig" { cuFuncSetSharedMemConfig @ 4020 } (hfunc: CUfunction, config: CUsharedconfig)
        => plain(Host { subject: hfunc as u64 });
    driver "cuKernelSetAttribute" { cuKernelSetAttribute @ 12000 }
        (attrib: CUfunction_attribute, val: int, kernel: CUkernel, dev: CUdevice)
        => plain(Host { subject: kernel as u64 });
    driver "cuKernelSetCacheConfig" { cuKernelSetCacheConfig @ 12000 }
        (kernel: CUkernel, config: CUfunc_cache, dev: CUdevice) => plain(Host { subject: kernel as u64 });
    driver "cuOccupancyMaxActiveBlocksPerMultiprocessor" { cuOccupancyMaxActiveBlocksPerMultiprocessor @ 6050 }
        (numBlocks: *mut int, func: CUfunction, blockSize: int, dynamicSMemSize: size_t)
        => plain(Host { subject: func as u64 });
    driver "cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags"
        { cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags @ 7000 }
        (numBlocks: *mut int, func: CUfunction, blockSize: int, dynamicSMemSize: size_t, flags: unsigned_int)
        => plain(Host { subject: func as u64 });
    driver "cuOccupancyMaxPotentialBlockSize" { cuOccupancyMaxPotentialBlockSize @ 6050 }
        (minGridSize: *mut int, blockSize: *mut int, func: CUfunction,
         blockSizeToDynamicSMemSize: CUoccupancyB2DSize, dynamicSMemSize: size_t, blockSizeLimit: int)
        => plain(Host { subject: func as u64 });
    driver "cuOccupancyMaxPotentialBlockSizeWithFlags" { cuOccupancyMaxPotentialBlockSizeWithFlags @ 7000 }
        (minGridSize: *mut int, blockSize: *mut int, func: CUfunction,
         blockSizeToDynamicSMemSize: CUoccupancyB2DSize, dynamicSMemSize: size_t, blockSizeLimit: int,
         flags: unsigned_int) => plain(Host { subject: func as u64 });
    driver "cuOccupancyAvailableDynamicSMemPerBlock" { cuOccupancyAvailableDynamicSMemPerBlock @ 10020 }
        (dynamicSmemSize: *mut size_t, func: CUfunction, numBlocks: int, blockSize: int)
        => plain(Host { subject: func as u64 });
    driver "cuOccupancyMaxPotentialClusterSize" { cuOccupancyMaxPotentialClusterSize @ 11070 }
        (clusterSize: *mut int, func: CUfunction, config: *const CUlaunchConfig)
        => plain(Host { subject: func as u64 });
    driver "cuOccupancyMaxActiveClusters" { cuOccupancyMaxActiveClusters @ 11070 }
        (numClusters: *mut int, func: CUfunction, config: *const CUlaunchConfig)
        => plain(Host { subject: func as u64 });
    runtime "cudaFuncSetAttribute" { cudaFuncSetAttribute @ 0 }
        (func: *const void, attr: cudaFuncAttribute, value: int) => plain(Host { subject: func as u64 });
    runtime "cudaFuncSetCacheConfig" { cudaFuncSetCacheConfig @ 0 } (func: *const void, cacheConfig: cudaFuncCache)
        => plain(Host { subject: func as u64 });
    runtime "cudaFuncSetSharedMemConfig" { cudaFuncSetSharedMemConfig @ 0 }
        (func: *const void, config: cudaSharedMemConfig) => plain(Host { subject: func as u64 });
    runtime "cudaFuncGetAttributes" { cudaFuncGetAttributes @ 0 } (attr: *mut cudaFuncAttributes, func: *const void)
        => plain(Host { subject: func as u64 });
    runtime "cudaOccupancyMaxActiveBlocksPerMultiprocessor" { cudaOccupancyMaxActiveBlocksPerMultiprocessor @ 0 }
        (numBlocks: *mut int, func: *const void, blockSize: int, dynamicSMemSize: size_t)
        => plain(Host { subject: func as u64 });
    runtime "cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags"
        { cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags @ 0 }
        (numBlocks: *mut int, func: *const void, blockSize: int, dynamicSMemSize: size_t, flags: unsigned_int)
        => plain(Host { subject: func as u64 });
    runtime "cudaOccupancyAvailableDynamicSMemPerBlock" { cudaOccupancyAvailableDynamicSMemPerBlock @ 0 }
        (dynamicSmemSize: *mut size_t, func: *const void, numBlocks: int, blockSize: int)
        => plain(Host { subject: func as u64 });
    runtime "cudaOccupancyMaxPotentialClusterSize" { cudaOccupancyMaxPotentialClusterSize @ 0 }
        (clusterSize: *mut int, func: *const void, launchConfig: *const cudaLaunchConfig_t)
        => plain(Host { subject: func as u64 });
    runtime "cudaOccupancyMaxActiveClusters" { cudaOccupancyMaxActiveClusters @ 0 }
        (numClusters: *mut int, func: *const void, launchConfig: *const cudaLaunchConfig_t)
        => plain(Host { subject: func as u64 });

    // Control. cudaSetDevice, cuCtxSetCurrent and similar functions pass through: frameworks call them before
    // nearly everything, each record names its context, and the cost of a first cudaSetDevice is in its
    // cuDevicePrimaryCtxRetain.
    driver "cuProfilerStart" { cuProfilerStart @ 4000 } () => plain(Profiler { opens: true });
    driver "cuProfilerStop" { cuProfilerStop @ 4000 } () => plain(Profiler { opens: false });
    driver "cuCtxEnablePeerAccess" { cuCtxEnablePeerAccess @ 4000 } (peerContext: CUcontext, Flags: unsigned_int)
        => plain(Host { subject: peerContext as u64 });
    driver "cuCtxDisablePeerAccess" { cuCtxDisablePeerAccess @ 4000 } (peerContext: CUcontext)
        => plain(Host { subject: peerContext as u64 });
    runtime "cudaProfilerStart" { cudaProfilerStart @ 0 } () => plain(Profiler { opens: true });
    runtime "cudaProfilerStop" { cudaProfilerStop @ 0 } () => plain(Profiler { opens: false });
    runtime "cudaDeviceEnablePeerAccess" { cudaDeviceEnablePeerAccess @ 0 } (peerDevice: int, flags: unsigned_int)
        => plain(Host { subject: peerDevice as u64 });
    runtime "cudaDeviceDisablePeerAccess" { cudaDeviceDisablePeerAccess @ 0 } (peerDevice: int)
        => plain(Host { subject: peerDevice as u64 });
} } }
