//! The driver functions that the agent calls for itself: libcuda's own exports, never a hook.
//!
//! This is the complete list of driver calls that the agent makes. None of them synchronizes.

use crate::cuda::*;
use crate::heap;
use crate::loader::{in_library, libraries};
use core::ffi::{c_char, c_int, c_uint, c_void};
use core::sync::atomic::{AtomicPtr, Ordering};

macro_rules! functions {
    ($( $(#[$meta:meta])* $field:ident = $symbol:literal ($($arg:ty),*) ;)*) => {
        /// The driver's functions; one that this driver lacks is `None`.
        pub struct Driver { $( $(#[$meta])* pub $field: Option<unsafe extern "C-unwind" fn($($arg),*) -> CUresult>, )* }

        impl Driver {
            fn find(library: *mut c_void) -> Driver {
                Driver { $( $field: in_library(library, $symbol).map(|address| {
                    // SAFETY: the driver's export of this name has this prototype (cuda.h).
                    unsafe { core::mem::transmute::<usize, unsafe extern "C-unwind" fn($($arg),*) -> CUresult>(address) }
                }), )* }
            }
        }
    };
}

functions! {
    version = c"cuDriverGetVersion" (*mut c_int);
    context_current = c"cuCtxGetCurrent" (*mut CUcontext);
    context_device = c"cuCtxGetDevice" (*mut CUdevice);
    context_push = c"cuCtxPushCurrent_v2" (CUcontext);
    context_pop = c"cuCtxPopCurrent_v2" (*mut CUcontext);
    primary_state = c"cuDevicePrimaryCtxGetState" (CUdevice, *mut c_uint, *mut c_int);
    device_name = c"cuDeviceGetName" (*mut c_char, c_int, CUdevice);
    device_uuid = c"cuDeviceGetUuid_v2" (*mut [u8; 16], CUdevice);
    device_memory = c"cuDeviceTotalMem_v2" (*mut usize, CUdevice);
    device_attribute = c"cuDeviceGetAttribute" (*mut c_int, c_int, CUdevice);
    address_range = c"cuMemGetAddressRange_v2" (*mut CUdeviceptr, *mut usize, CUdeviceptr);
    event_create = c"cuEventCreate" (*mut CUevent, c_uint);
    event_record = c"cuEventRecord" (CUevent, CUstream);
    event_query = c"cuEventQuery" (CUevent);
    stream_query = c"cuStreamQuery" (CUstream);
    event_elapsed = c"cuEventElapsedTime" (*mut f32, CUevent, CUevent);
    stream_priorities = c"cuCtxGetStreamPriorityRange" (*mut c_int, *mut c_int);
    stream_create = c"cuStreamCreateWithPriority" (*mut CUstream, c_uint, c_int);
    stream_context = c"cuStreamGetCtx" (CUstream, *mut CUcontext);
    /// CUDA 12.5.
    stream_contexts = c"cuStreamGetCtx_v2" (CUstream, *mut CUcontext, *mut CUgreenCtx);
    /// CUDA 12.4.
    stream_green = c"cuStreamGetGreenCtx" (CUstream, *mut CUgreenCtx);
    /// CUDA 12.0.
    stream_id = c"cuStreamGetId" (CUstream, *mut u64);
    stream_flags = c"cuStreamGetFlags" (CUstream, *mut c_uint);
    stream_priority = c"cuStreamGetPriority" (CUstream, *mut c_int);
    stream_capturing = c"cuStreamIsCapturing" (CUstream, *mut c_int);
    capture_mode = c"cuThreadExchangeStreamCaptureMode" (*mut c_int);
    /// CUDA 12.3.
    function_name = c"cuFuncGetName" (*mut *const c_char, CUfunction);
    /// CUDA 12.3.
    kernel_name = c"cuKernelGetName" (*mut *const c_char, CUkernel);
    /// CUDA 12.4, like the calls that enumerate the handles.
    module_functions = c"cuModuleGetFunctionCount" (*mut c_uint, CUmodule);
    /// CUDA 12.4.
    library_kernels = c"cuLibraryGetKernelCount" (*mut c_uint, CUlibrary);
    /// These three are called once for each shape that a kernel is launched in.
    function_attribute = c"cuFuncGetAttribute" (*mut c_int, c_int, CUfunction);
    /// CUDA 12.0.
    kernel_attribute = c"cuKernelGetAttribute" (*mut c_int, c_int, CUkernel, CUdevice);
    active_blocks = c"cuOccupancyMaxActiveBlocksPerMultiprocessor" (*mut c_int, CUfunction, c_int, usize);
    graph_nodes = c"cuGraphGetNodes" (CUgraph, *mut CUgraphNode, *mut usize);
    node_type = c"cuGraphNodeGetType" (CUgraphNode, *mut c_int);
    child_graph = c"cuGraphChildGraphNodeGetGraph" (CUgraphNode, *mut CUgraph);
    /// CUDA 12.0.
    kernel_node = c"cuGraphKernelNodeGetParams_v2" (CUgraphNode, *mut CUDA_KERNEL_NODE_PARAMS_v2);
    /// CUDA 11's version of it.
    kernel_node_v1 = c"cuGraphKernelNodeGetParams" (CUgraphNode, *mut CUDA_KERNEL_NODE_PARAMS_v1);
    copy_node = c"cuGraphMemcpyNodeGetParams" (CUgraphNode, *mut CUDA_MEMCPY3D);
    set_node = c"cuGraphMemsetNodeGetParams" (CUgraphNode, *mut CUDA_MEMSET_NODE_PARAMS);
    /// CUDA 11.4.
    alloc_node = c"cuGraphMemAllocNodeGetParams" (CUgraphNode, *mut CUDA_MEM_ALLOC_NODE_PARAMS);
    /// CUDA 11.4.
    free_node = c"cuGraphMemFreeNodeGetParams" (CUgraphNode, *mut CUdeviceptr);
    /// These six are called with `--graph nodes` only.
    graph_edges = c"cuGraphGetEdges" (CUgraph, *mut CUgraphNode, *mut CUgraphNode, *mut usize);
    /// CUDA 12.3; the fourth argument takes a CUgraphEdgeData, eight bytes, of each edge.
    graph_edges_v2 = c"cuGraphGetEdges_v2" (CUgraph, *mut CUgraphNode, *mut CUgraphNode, *mut u64, *mut usize);
    add_edges = c"cuGraphAddDependencies" (CUgraph, *const CUgraphNode, *const CUgraphNode, usize);
    add_record_node = c"cuGraphAddEventRecordNode"
        (*mut CUgraphNode, CUgraph, *const CUgraphNode, usize, CUevent);
    destroy_node = c"cuGraphDestroyNode" (CUgraphNode);
    event_destroy = c"cuEventDestroy_v2" (CUevent);
}

/// Which of the two kinds a launch handle is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// A CUfunction, of a context.
    Function,
    /// A CUkernel, of a library.
    Kernel,
}

/// The functions, found once and kept. Release on the store, acquire on the load: the pointers that it refers to.
static DRIVER: AtomicPtr<Driver> = AtomicPtr::new(core::ptr::null_mut());

/// Returns the driver's functions, once libcuda is loaded.
#[inline]
pub fn driver() -> Option<&'static Driver> {
    // SAFETY: null or a leaked, never changed Driver.
    match unsafe { DRIVER.load(Ordering::Acquire).as_ref() } {
        Some(driver) => Some(driver),
        None => find(),
    }
}

#[cold]
fn find() -> Option<&'static Driver> {
    let found = Box::into_raw(Box::new(Driver::find(libraries::driver()?)));
    // Another thread may have been first. Both found the same, and one small struct stays unused.
    let _ = DRIVER.compare_exchange(core::ptr::null_mut(), found, Ordering::Release, Ordering::Relaxed);
    // SAFETY: just stored, or stored by the other; leaked and never changed.
    unsafe { DRIVER.load(Ordering::Acquire).as_ref() }
}

impl Driver {
    /// Returns a driver without any function, for a test to give it those that it needs.
    #[cfg(test)]
    pub fn without_functions() -> Driver {
        // SAFETY: optional functions only, and zero means that there is none.
        unsafe { core::mem::zeroed() }
    }

    /// Returns the calling thread's current context; null when there is none.
    #[inline]
    pub fn current_context(&self) -> CUcontext {
        let mut context: CUcontext = core::ptr::null_mut();
        if let Some(current) = self.context_current {
            // SAFETY: writes a place of ours.
            unsafe { current(&mut context) };
        }
        context
    }

    /// Returns a stream's context, and its green context or null, where the driver reports both.
    pub fn contexts_of(&self, stream: CUstream) -> Option<(CUcontext, CUgreenCtx)> {
        let (mut context, mut green) = (core::ptr::null_mut(), core::ptr::null_mut());
        // SAFETY: a stream that the app is about to use, or the current context's; writes places of ours.
        let answered = unsafe { self.stream_contexts?(stream, &mut context, &mut green) } == CUDA_SUCCESS;
        (answered && !context.is_null()).then_some((context, green))
    }

    /// Returns whether a device's primary context exists.
    pub fn is_primary_active(&self, device: CUdevice) -> bool {
        let (mut flags, mut active) = (0, 0);
        // SAFETY: writes places of ours.
        let result = self.primary_state.map(|query| unsafe { query(device, &mut flags, &mut active) });
        result == Some(CUDA_SUCCESS) && active != 0
    }

    /// Returns the bytes of the allocation at an address; 0 where the driver does not report them.
    pub fn bytes_at(&self, address: CUdeviceptr) -> usize {
        let (mut first, mut bytes) = (0, 0);
        // SAFETY: writes places of ours; the address is only looked up.
        let result = self.address_range.map(|query| unsafe { query(&mut first, &mut bytes, address) });
        if result == Some(CUDA_SUCCESS) { bytes } else { 0 }
    }

    /// Returns a CUfunction's name, a string of the driver's, or the error of the call.
    pub fn name_of_function(&self, handle: CUfunction) -> Result<*const c_char, CUresult> {
        name(self.function_name, handle)
    }

    /// Returns a CUkernel's name, as [`Driver::name_of_function`].
    pub fn name_of_kernel(&self, handle: CUkernel) -> Result<*const c_char, CUresult> {
        name(self.kernel_name, handle)
    }

    /// Returns how many CUfunctions a module has, or CUkernels a library; 0 where the driver does not report it.
    pub fn count_of(&self, owner: *mut c_void, form: Form) -> usize {
        let query = match form {
            Form::Function => self.module_functions,
            Form::Kernel => self.library_kernels,
        };
        let mut count = 0;
        // SAFETY: the module, or the library, whose handles the app has just been given; writes a place of ours.
        let result = query.and_then(|query| self.relaxed(|| unsafe { query(&mut count, owner) }));
        if result == Some(CUDA_SUCCESS) { count as usize } else { 0 }
    }

    /// Returns whether a stream is in a capture, or cannot be queried because another one is (the legacy stream's
    /// STREAM_CAPTURE_IMPLICIT).
    pub fn is_capturing(&self, stream: CUstream) -> bool {
        let Some(query) = self.stream_capturing else { return false };
        let mut status = CAPTURE_STATUS_NONE;
        // SAFETY: the app is about to overlap work on this stream; writes a place of ours.
        let result = unsafe { query(stream, &mut status) };
        result != CUDA_SUCCESS || status != CAPTURE_STATUS_NONE
    }

    /// Returns a graph's nodes; none where the driver does not report them, or where there is no memory.
    pub fn nodes_of(&self, graph: CUgraph) -> Vec<CUgraphNode> {
        let Some(query) = self.graph_nodes else { return Vec::new() };
        let mut count = 0usize;
        // SAFETY: a graph that the app is using; with a null array the driver writes the count.
        if unsafe { query(graph, core::ptr::null_mut(), &mut count) } != CUDA_SUCCESS || count == 0 {
            return Vec::new();
        }
        let Some(nodes) = heap::boxed(count, core::ptr::null_mut) else { return Vec::new() };
        let mut nodes = nodes.into_vec();
        // SAFETY: an array of ours with room for `count`.
        if unsafe { query(graph, nodes.as_mut_ptr(), &mut count) } != CUDA_SUCCESS {
            return Vec::new();
        }
        nodes.truncate(count);
        nodes
    }

    /// Returns a node's CUgraphNodeType; -1 where the driver does not report it.
    pub fn type_of_node(&self, node: CUgraphNode) -> c_int {
        answer(self.node_type, node).unwrap_or(-1)
    }

    /// Returns the graph that a child graph node runs.
    pub fn child_of(&self, node: CUgraphNode) -> Option<CUgraph> {
        answer(self.child_graph, node)
    }

    /// Returns a kernel node's parameters.
    pub fn kernel_of_node(&self, node: CUgraphNode) -> Option<CUDA_KERNEL_NODE_PARAMS_v2> {
        let old = || {
            let first = answer(self.kernel_node_v1, node)?;
            let none = core::ptr::null_mut();
            Some(CUDA_KERNEL_NODE_PARAMS_v2 { first, kern: none, context: none })
        };
        if self.kernel_node.is_some() { answer(self.kernel_node, node) } else { old() }
    }

    /// Returns a copy node's parameters.
    pub fn copy_of_node(&self, node: CUgraphNode) -> Option<CUDA_MEMCPY3D> {
        answer(self.copy_node, node)
    }

    /// Returns a memset node's parameters.
    pub fn set_of_node(&self, node: CUgraphNode) -> Option<CUDA_MEMSET_NODE_PARAMS> {
        answer(self.set_node, node)
    }

    /// Returns the parameters of a node that allocates memory.
    pub fn alloc_of_node(&self, node: CUgraphNode) -> Option<CUDA_MEM_ALLOC_NODE_PARAMS> {
        answer(self.alloc_node, node)
    }

    /// Returns the address that a node frees.
    pub fn free_of_node(&self, node: CUgraphNode) -> Option<CUdeviceptr> {
        answer(self.free_node, node)
    }

    /// Runs `work` with the thread's capture mode RELAXED, so that calls of ours which a GLOBAL capture on another
    /// thread forbids do not invalidate that capture. `None`: the driver does not change the mode, and `work` did not
    /// run. (A driver without the call, before CUDA 10.1, has no modes.)
    pub fn relaxed<T>(&self, work: impl FnOnce() -> T) -> Option<T> {
        let Some(exchange) = self.capture_mode else { return Some(work()) };
        let mut mode = CAPTURE_MODE_RELAXED;
        // SAFETY: exchanges the calling thread's mode with the place's.
        if unsafe { exchange(&mut mode) } != CUDA_SUCCESS {
            return None;
        }
        let result = work();
        // SAFETY: as above; this restores the thread's own mode.
        unsafe { exchange(&mut mode) };
        Some(result)
    }
}

/// Returns a handle's name by this function; `ERROR_NOT_FOUND` where the driver does not have it.
fn name(
    query: Option<unsafe extern "C-unwind" fn(*mut *const c_char, *mut c_void) -> CUresult>,
    handle: *mut c_void,
) -> Result<*const c_char, CUresult> {
    let mut text: *const c_char = core::ptr::null();
    // SAFETY: a handle that the app is using, of the kind that the function takes, as far as is known (`crate::names`);
    // writes a place of ours.
    match query.map(|query| unsafe { query(&mut text, handle) }) {
        Some(CUDA_SUCCESS) if !text.is_null() => Ok(text),
        Some(CUDA_SUCCESS) | None => Err(ERROR_NOT_FOUND),
        Some(refused) => Err(refused),
    }
}

/// Calls a function that reports something of a graph's node. `None`: it does not.
fn answer<T>(
    query: Option<unsafe extern "C-unwind" fn(CUgraphNode, *mut T) -> CUresult>,
    node: CUgraphNode,
) -> Option<T> {
    let mut answer = core::mem::MaybeUninit::<T>::zeroed();
    // SAFETY: a node of a graph that the app is using; writes a place of ours, of the function's type.
    let answered = unsafe { query?(node, answer.as_mut_ptr()) } == CUDA_SUCCESS;
    // SAFETY: success says that it was written; integers and addresses, for which zeros are values too.
    answered.then(|| unsafe { answer.assume_init() })
}
