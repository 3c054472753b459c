//! What is a CUDA call for? The only place that sorts calls by the names of their APIs into kinds that cost time in the
//! same way; [`startup`](super::startup) and [`idle`](super::idle) share it.

use super::calls::base_name;
use crate::hash::HashSet;
use crate::model::{Action, CountedCall, Event};
use crate::trace::record::{Body, Names};
use gpuspy_wire::record::Namespace;

/// What a call is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallClass {
    /// It initializes the driver or creates a context.
    Context,
    /// It loads a module or a library of kernels.
    Load,
    /// It links just in time.
    Link,
    /// It launches.
    Launch,
    /// It looks up kernels, or sets or queries their attributes.
    Function,
    /// It allocates, maps or registers memory.
    Allocate,
    /// It frees, unmaps or unregisters memory.
    Free,
    /// It asks something about memory.
    Memory,
    /// It is a copy or a memset.
    Copy,
    /// It synchronizes.
    Wait,
    /// It asks whether work is done.
    Query,
    /// It puts a host function on a stream.
    HostFunction,
    /// It makes a stream wait for a value in memory, or for an external semaphore.
    StreamWait,
    /// Anything else.
    Other,
}

impl CallClass {
    /// Returns the class of a call that is neither work nor a synchronization, by its [`base_name`].
    pub fn of(api: &str) -> CallClass {
        let begins = |starts: &[&str]| starts.iter().any(|start| api.starts_with(start));
        match api {
            "cuInit" | "cuCtxCreate" | "cuDevicePrimaryCtxRetain" | "cudaInitDevice" => CallClass::Context,
            "cuEventQuery" | "cuStreamQuery" | "cudaEventQuery" | "cudaStreamQuery" => CallClass::Query,
            "cuLaunchHostFunc" | "cudaLaunchHostFunc" | "cuStreamAddCallback" | "cudaStreamAddCallback" => {
                CallClass::HostFunction
            }
            _ if begins(&["cuStreamWaitValue", "cuWaitExternalSemaphores", "cudaWaitExternalSemaphores"]) => {
                CallClass::StreamWait
            }
            _ if begins(&["cuModuleLoad", "cuLibraryLoad", "cudaLibraryLoad", "cuFuncLoad"]) => {
                CallClass::Load
            }
            _ if begins(&["cuLink"]) => CallClass::Link,
            _ if begins(&[
                "cuFunc",
                "cudaFunc",
                "cuKernel",
                "cudaKernel",
                "cuOccupancy",
                "cudaOccupancy",
            ]) || begins(&["cuModuleGet", "cuLibraryGet", "cudaLibraryGet"]) =>
            {
                CallClass::Function
            }
            "cudaHostUnregister" | "cuMemHostUnregister" | "cuMemAddressFree" => CallClass::Free,
            _ if begins(&["cudaFree", "cuMemFree", "cuMemRelease", "cuMemUnmap"])
                || begins(&[
                    "cuMemPoolDestroy",
                    "cuMemPoolTrim",
                    "cudaMemPoolDestroy",
                    "cudaMemPoolTrim",
                ]) =>
            {
                CallClass::Free
            }
            _ if begins(&["cudaHostGet", "cuMemHostGet", "cuMemPoolGet", "cudaMemPoolGet"]) => {
                CallClass::Memory
            }
            _ if begins(&[
                "cudaMalloc",
                "cuMemAlloc",
                "cudaHost",
                "cuMemHost",
                "cuMemCreate",
                "cuMemMap",
            ]) || begins(&["cuMemAddress", "cuMemSetAccess", "cuMemPool", "cudaMemPool"]) =>
            {
                CallClass::Allocate
            }
            _ => CallClass::Other,
        }
    }
}

/// The classes of a process's calls.
#[derive(Debug)]
pub struct CallClasses {
    /// By the number of the API.
    apis: Vec<CallClass>,
    /// Threads in a call that has created a context.
    made_context: HashSet<u32>,
}

impl CallClasses {
    /// Sorts the APIs that a trace names.
    pub fn new(names: &Names) -> Self {
        let mut apis = Vec::new();
        for ((_, id), name) in names.0.iter().filter(|((space, _), _)| *space == Namespace::Api) {
            let Ok(id) = u16::try_from(*id) else { continue };
            let id = usize::from(id);
            apis.resize(apis.len().max(id + 1), CallClass::Other);
            apis[id] = CallClass::of(base_name(name));
        }
        CallClasses { apis, made_context: HashSet::default() }
    }

    /// Takes every event before [`of`](Self::of): the creation of a context is a record of its own, before the end of the
    /// call that made it.
    pub fn observe(&mut self, event: &Event<'_>) {
        if let Body::Context(context) = &event.record.body
            && !context.destroyed
        {
            self.made_context.insert(event.record.thread);
        }
    }

    /// Returns the class of the call that ends with an event. A call in which a context was created is counted as that.
    pub fn of(&mut self, event: &Event<'_>, call: CountedCall) -> CallClass {
        if !self.made_context.is_empty() && self.made_context.remove(&event.record.thread) {
            return CallClass::Context;
        }
        match (&event.record.body, event.operation.map(|operation| operation.what)) {
            (_, Some(Action::Transfer { .. })) => CallClass::Copy,
            (_, Some(_)) => CallClass::Launch,
            (Body::Synchronize(_), None) => CallClass::Wait,
            (Body::Alloc(_), None) => CallClass::Allocate,
            _ => self.of_api(call.api),
        }
    }

    /// Returns the class of an API by its name alone.
    pub fn of_api(&self, api: u16) -> CallClass {
        self.apis.get(usize::from(api)).copied().unwrap_or(CallClass::Other)
    }
}
