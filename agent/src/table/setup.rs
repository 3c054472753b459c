//! What comes before work and after it: finding the driver's functions, contexts, streams, modules, control.

macro_rules! setup { ($next:ident $($before:tt)*) => { $next! { $($before)*
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
} } }
