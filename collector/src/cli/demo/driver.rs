//! The part of the CUDA driver API that the workload uses. The driver is loaded when needed, and its functions are looked up
//! with `cuGetProcAddress`, as a runtime library does.

use libloading::os::unix::{Library, RTLD_NOW};
use std::error::Error;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::mem::transmute;
use std::ops::Deref;
use std::ptr::null_mut;

/// The oldest supported driver: `cuGetProcAddress_v2` is in cuda.h since CUDA 12.0.
pub(super) const VERSION: c_int = 12000;

/// A CUcontext, CUmodule, CUfunction, CUstream, CUevent, CUgraph or CUgraphExec, which are pointers of the driver.
type Handle = *mut c_void;

/// A function of the driver.
struct Function<F> {
    name: &'static str,
    call: F,
}

/// Defines the functions: `name = "CUDA's name", version to look up, arguments`. All return a CUresult.
macro_rules! functions {
    ($($name:ident = $symbol:literal, $version:literal, ($($argument:ty),*);)*) => {
        struct Functions { $($name: Function<unsafe extern "C" fn($($argument),*) -> c_int>),* }

        impl Functions {
            fn find(getproc: Getproc) -> Result<Functions, String> {
                Ok(Functions { $(
                    $name: Function {
                        name: $symbol,
                        // SAFETY: the CUDA function of that name and version has this prototype (cuda.h).
                        call: unsafe {
                            transmute::<*mut c_void, unsafe extern "C" fn($($argument),*) -> c_int>(
                                look_up(getproc, $symbol, $version)?,
                            )
                        },
                    }
                ),* })
            }
        }
    };
}

functions! {
    init = "cuInit", 2000, (u32);
    attribute = "cuDeviceGetAttribute", 2000, (*mut c_int, c_int, c_int);
    retain = "cuDevicePrimaryCtxRetain", 7000, (*mut Handle, c_int);
    release = "cuDevicePrimaryCtxRelease", 11000, (c_int);
    set_current = "cuCtxSetCurrent", 4000, (Handle);
    load_module = "cuModuleLoadData", 2000, (*mut Handle, *const c_char);
    function = "cuModuleGetFunction", 2000, (*mut Handle, Handle, *const c_char);
    alloc = "cuMemAlloc", 3020, (*mut u64, usize);
    free = "cuMemFree", 3020, (u64);
    alloc_host = "cuMemAllocHost", 3020, (*mut *mut c_void, usize);
    free_host = "cuMemFreeHost", 2000, (*mut c_void);
    copy_in = "cuMemcpyHtoDAsync", 3020, (u64, *const c_void, usize, Handle);
    copy_out = "cuMemcpyDtoHAsync", 3020, (*mut c_void, u64, usize, Handle);
    create_stream = "cuStreamCreate", 2000, (*mut Handle, u32);
    synchronize = "cuStreamSynchronize", 2000, (Handle);
    create_event = "cuEventCreate", 2000, (*mut Handle, u32);
    record = "cuEventRecord", 2000, (Handle, Handle);
    wait_event = "cuStreamWaitEvent", 3020, (Handle, Handle, u32);
    synchronize_event = "cuEventSynchronize", 2000, (Handle);
    launch = "cuLaunchKernel", 4000,
        (Handle, u32, u32, u32, u32, u32, u32, u32, Handle, *mut *mut c_void, *mut *mut c_void);
    begin_capture = "cuStreamBeginCapture", 10010, (Handle, c_int);
    end_capture = "cuStreamEndCapture", 10000, (Handle, *mut Handle);
    instantiate = "cuGraphInstantiateWithFlags", 11040, (*mut Handle, Handle, u64);
    launch_graph = "cuGraphLaunch", 10000, (Handle, Handle);
    destroy_graph = "cuGraphDestroy", 10000, (Handle);
}

/// `cuGetProcAddress` since CUDA 12.0.
type Getproc = unsafe extern "C" fn(*const c_char, *mut *mut c_void, c_int, u64, *mut c_int) -> c_int;

/// Returns a function's address, which is never null.
fn look_up(getproc: Getproc, name: &str, version: c_int) -> Result<*mut c_void, String> {
    let missing = || format!("the driver has no {name}");
    let terminated = CString::new(name).map_err(|_| missing())?;
    let (mut address, mut status) = (null_mut(), 0);
    // SAFETY: the name is NUL-terminated, and both pointers are to local variables that outlive the call.
    let result = unsafe { getproc(terminated.as_ptr(), &raw mut address, version, 0, &raw mut status) };
    if result == 0 && !address.is_null() { Ok(address) } else { Err(missing()) }
}

/// Calls a function of a [`Gpu`]. The error has its name and its result.
macro_rules! cuda {
    ($gpu:expr, $name:ident($($argument:expr),*)) => {{
        let function = &$gpu.functions.$name;
        // SAFETY: handles come from the driver and are alive, and every pointer is to memory that outlives the call. A copy
        // reads only pinned memory after its call has returned, which never changes and which the driver frees.
        match unsafe { (function.call)($($argument),*) } {
            0 => Ok(()),
            error => Err(format!("{} returned {error}", function.name)),
        }
    }};
}

/// CU_STREAM_NON_BLOCKING (cuda.h): the stream does not wait for the default stream.
const NON_BLOCKING: u32 = 1;
/// CU_EVENT_DISABLE_TIMING (cuda.h).
const DISABLE_TIMING: u32 = 2;
/// CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT (cuda.h).
const MULTIPROCESSOR_COUNT: c_int = 16;
/// CU_STREAM_CAPTURE_MODE_THREAD_LOCAL (cuda.h).
const THREAD_LOCAL: c_int = 1;

/// A kernel.
#[derive(Clone, Copy)]
pub(super) struct Kernel(Handle);
/// A non-blocking stream.
#[derive(Clone, Copy)]
pub(super) struct Stream(Handle);
/// An event without timing, to order streams.
#[derive(Clone, Copy)]
pub(super) struct Event(Handle);
/// An executable graph.
#[derive(Clone, Copy)]
pub(super) struct Graph(Handle);

/// The first GPU, with its primary context current in this thread. Everything created here ends with the context.
pub(super) struct Gpu {
    functions: Functions,
    /// The number of its multiprocessors.
    multiprocessors: u32,
}

impl Gpu {
    /// Loads the driver and opens its first GPU.
    pub(super) fn open() -> Result<Gpu, String> {
        // SAFETY: runs the library's constructors, as every CUDA program does.
        let driver = unsafe { Library::open(Some("libcuda.so.1"), RTLD_NOW) }
            .map_err(|e| e.source().map_or_else(|| e.to_string(), ToString::to_string))?;
        // SAFETY: the function of that name has this prototype (cuda.h).
        let getproc = unsafe { driver.get::<Getproc>(c"cuGetProcAddress_v2") };
        let getproc = *getproc.map_err(|_| format!("the driver is older than CUDA {}", VERSION / 1000))?;
        let mut gpu = Gpu { functions: Functions::find(getproc)?, multiprocessors: 1 };
        // Threads of the driver and of the agent run in the library, so it stays loaded until the process ends.
        std::mem::forget(driver);
        let mut context = null_mut();
        cuda!(gpu, init(0))?;
        let mut multiprocessors = 0;
        cuda!(gpu, attribute(&raw mut multiprocessors, MULTIPROCESSOR_COUNT, 0))?;
        gpu.multiprocessors = u32::try_from(multiprocessors).unwrap_or(1).max(1);
        cuda!(gpu, retain(&raw mut context, 0))?;
        cuda!(gpu, set_current(context))?;
        Ok(gpu)
    }

    /// Loads PTX.
    pub(super) fn load(&self, ptx: &CStr) -> Result<Module<'_>, String> {
        let mut module = null_mut();
        cuda!(self, load_module(&raw mut module, ptx.as_ptr()))?;
        Ok(Module { gpu: self, module })
    }

    pub(super) fn stream(&self) -> Result<Stream, String> {
        let mut stream = null_mut();
        cuda!(self, create_stream(&raw mut stream, NON_BLOCKING))?;
        Ok(Stream(stream))
    }

    pub(super) fn event(&self) -> Result<Event, String> {
        let mut event = null_mut();
        cuda!(self, create_event(&raw mut event, DISABLE_TIMING))?;
        Ok(Event(event))
    }

    pub(super) fn alloc(&self, bytes: usize) -> Result<u64, String> {
        let mut address = 0;
        cuda!(self, alloc(&raw mut address, bytes))?;
        Ok(address)
    }

    pub(super) fn free(&self, address: u64) -> Result<(), String> {
        cuda!(self, free(address))
    }

    /// Allocates pinned host memory and zeroes it.
    pub(super) fn pinned(&self, bytes: usize) -> Result<Pinned<'_>, String> {
        let mut address = null_mut();
        cuda!(self, alloc_host(&raw mut address, bytes))?;
        // SAFETY: the driver has allocated this many bytes.
        unsafe { address.cast::<u8>().write_bytes(0, bytes) };
        Ok(Pinned { gpu: self, address, bytes })
    }

    /// Copies to the GPU in stream order. Pageable memory has been read when the call returns (CUDA driver API, API
    /// synchronization behavior); pinned memory may be read later.
    pub(super) fn copy_in(&self, to: u64, from: &[u8], stream: Stream) -> Result<(), String> {
        cuda!(self, copy_in(to, from.as_ptr().cast(), from.len(), stream.0))
    }

    /// Copies to pageable memory. The call returns when the copy is done (CUDA driver API, API synchronization behavior).
    pub(super) fn copy_out(&self, to: &mut [u8], from: u64, stream: Stream) -> Result<(), String> {
        cuda!(self, copy_out(to.as_mut_ptr().cast(), from, to.len(), stream.0))
    }

    /// Launches a kernel of [`ptx`](super::kernels::ptx).
    pub(super) fn launch(&self, kernel: Kernel, mut data: u64, stream: Stream) -> Result<(), String> {
        let mut arguments: [*mut c_void; 1] = [(&raw mut data).cast()];
        // One block on each multiprocessor runs at once on every GPU, and leaves room for kernels of other streams.
        let blocks = self.multiprocessors;
        cuda!(
            self,
            launch(kernel.0, blocks, 1, 1, 128, 1, 1, 0, stream.0, arguments.as_mut_ptr(), null_mut())
        )
    }

    /// Records an event after the work submitted to a stream so far. An event that was never recorded counts as complete.
    pub(super) fn record(&self, event: Event, stream: Stream) -> Result<(), String> {
        cuda!(self, record(event.0, stream.0))
    }

    /// Makes a stream wait for an event.
    pub(super) fn wait_for(&self, event: Event, stream: Stream) -> Result<(), String> {
        cuda!(self, wait_event(stream.0, event.0, 0))
    }

    /// Synchronizes with an event.
    pub(super) fn synchronize_event(&self, event: Event) -> Result<(), String> {
        cuda!(self, synchronize_event(event.0))
    }

    /// Waits until a stream is empty.
    pub(super) fn synchronize(&self, stream: Stream) -> Result<(), String> {
        cuda!(self, synchronize(stream.0))
    }

    /// CaptureRanges the work that `enqueue` submits to the stream into an executable graph.
    pub(super) fn graph(
        &self,
        stream: Stream,
        enqueue: impl FnOnce() -> Result<(), String>,
    ) -> Result<Graph, String> {
        let (mut graph, mut executable) = (null_mut(), null_mut());
        cuda!(self, begin_capture(stream.0, THREAD_LOCAL))?;
        enqueue()?;
        cuda!(self, end_capture(stream.0, &raw mut graph))?;
        cuda!(self, instantiate(&raw mut executable, graph, 0))?;
        cuda!(self, destroy_graph(graph))?;
        Ok(Graph(executable))
    }

    pub(super) fn launch_graph(&self, graph: Graph, stream: Stream) -> Result<(), String> {
        cuda!(self, launch_graph(graph.0, stream.0))
    }

    /// Releases the context, and with it everything created in it.
    pub(super) fn close(self) -> Result<(), String> {
        cuda!(self, release(0))
    }
}

/// A loaded module.
pub(super) struct Module<'g> {
    gpu: &'g Gpu,
    module: Handle,
}

impl Module<'_> {
    pub(super) fn kernel(&self, name: &str) -> Result<Kernel, String> {
        let terminated = CString::new(name).map_err(|_| format!("{name:?} is not a kernel name"))?;
        let mut kernel = null_mut();
        cuda!(self.gpu, function(&raw mut kernel, self.module, terminated.as_ptr()))?;
        Ok(Kernel(kernel))
    }
}

/// Pinned host memory that nothing writes to.
pub(super) struct Pinned<'g> {
    gpu: &'g Gpu,
    address: *mut c_void,
    bytes: usize,
}

impl Deref for Pinned<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the driver has allocated this many bytes, which were initialized and are never written again.
        unsafe { std::slice::from_raw_parts(self.address.cast(), self.bytes) }
    }
}

impl Drop for Pinned<'_> {
    fn drop(&mut self) {
        // If this fails, the memory is freed with the context.
        let _ = cuda!(self.gpu, free_host(self.address));
    }
}
