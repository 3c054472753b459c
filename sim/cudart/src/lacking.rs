//! Functions that NVIDIA's runtimes export and the simulator does not, with the reasons.
//! `tests/e2e/interpose/simulator_coverage.rs` compares this table with both libraries: it fails for a name that is neither
//! exported here nor listed, and for one that is both.

/// Reasons, each with the functions that are left out for it.
pub const LACKING: &[(&str, &[&str])] = &[
    (
        "The driver simulator has no graphics API, whose resources these would map.",
        &[
            "cudaEGLStreamConsumerAcquireFrame",
            "cudaEGLStreamConsumerConnect",
            "cudaEGLStreamConsumerConnectWithFlags",
            "cudaEGLStreamConsumerDisconnect",
            "cudaEGLStreamConsumerReleaseFrame",
            "cudaEGLStreamProducerConnect",
            "cudaEGLStreamProducerDisconnect",
            "cudaEGLStreamProducerPresentFrame",
            "cudaEGLStreamProducerReturnFrame",
            "cudaEventCreateFromEGLSync",
            "cudaGLGetDevices",
            "cudaGLMapBufferObject",
            "cudaGLMapBufferObjectAsync",
            "cudaGLRegisterBufferObject",
            "cudaGLSetBufferObjectMapFlags",
            "cudaGLSetGLDevice",
            "cudaGLUnmapBufferObject",
            "cudaGLUnmapBufferObjectAsync",
            "cudaGLUnregisterBufferObject",
            "cudaGraphicsEGLRegisterImage",
            "cudaGraphicsGLRegisterBuffer",
            "cudaGraphicsGLRegisterImage",
            "cudaGraphicsMapResources",
            "cudaGraphicsResourceGetMappedEglFrame",
            "cudaGraphicsResourceGetMappedMipmappedArray",
            "cudaGraphicsResourceGetMappedPointer",
            "cudaGraphicsResourceSetMapFlags",
            "cudaGraphicsSubResourceGetMappedArray",
            "cudaGraphicsUnmapResources",
            "cudaGraphicsUnregisterResource",
            "cudaGraphicsVDPAURegisterOutputSurface",
            "cudaGraphicsVDPAURegisterVideoSurface",
            "cudaVDPAUGetDevice",
            "cudaVDPAUSetVDPAUDevice",
        ],
    ),
    (
        "Green contexts, which clients make by the driver's calls.",
        &[
            "cudaDevResourceGenerateDesc",
            "cudaDevSmResourceSplit",
            "cudaDevSmResourceSplitByCount",
            "cudaDeviceGetDevResource",
            "cudaDeviceGetExecutionCtx",
            "cudaExecutionCtxDestroy",
            "cudaExecutionCtxGetDevResource",
            "cudaExecutionCtxGetDevice",
            "cudaExecutionCtxGetId",
            "cudaExecutionCtxRecordEvent",
            "cudaExecutionCtxStreamCreate",
            "cudaExecutionCtxSynchronize",
            "cudaExecutionCtxWaitEvent",
            "cudaGreenCtxCreate",
            "cudaStreamGetDevResource",
            "cudaStreamGetDevResource_ptsz",
        ],
    ),
    (
        "Logs of the driver's errors, which the simulator does not write.",
        &[
            "cudaLogsCurrent",
            "cudaLogsDumpToFile",
            "cudaLogsDumpToMemory",
            "cudaLogsRegisterCallback",
            "cudaLogsUnregisterCallback",
        ],
    ),
    (
        "NVIDIA's own way into the runtime, for its tools and libraries, which is not public.",
        &["__cudaGetProcAddress", "__cudaRegisterUnifiedTable", "cudaGetExportTable"],
    ),
    (
        "Variables of the host that device code uses where they are, of which none runs.",
        &["__cudaRegisterHostVar"],
    ),
    (
        "Nodes of external semaphores: the driver's part is not simulated.",
        &[
            "cudaGraphAddExternalSemaphoresSignalNode",
            "cudaGraphAddExternalSemaphoresWaitNode",
            "cudaGraphExecExternalSemaphoresSignalNodeSetParams",
            "cudaGraphExecExternalSemaphoresWaitNodeSetParams",
            "cudaGraphExternalSemaphoresSignalNodeGetParams",
            "cudaGraphExternalSemaphoresSignalNodeSetParams",
            "cudaGraphExternalSemaphoresWaitNodeGetParams",
            "cudaGraphExternalSemaphoresWaitNodeSetParams",
        ],
    ),
    (
        "Numbers that CUDA 13.1 gives graphs and nodes for tools, and a node's parameters as 13.2 reports them: the driver's part is not simulated.",
        &[
            "cudaGraphExecGetId",
            "cudaGraphGetId",
            "cudaGraphNodeGetContainingGraph",
            "cudaGraphNodeGetLocalId",
            "cudaGraphNodeGetParams",
            "cudaGraphNodeGetToolsId",
        ],
    ),
    (
        "A grid that a kernel divides on the device; public headers say nothing of it.",
        &["cudaSubgridCreate", "cudaSubgridWorkerGridCreate", "cudaSubgridWorksetCreate"],
    ),
    (
        "Sparse, planar and deferred arrays: no format of the simulator's arrays has planes or tiles.",
        &[
            "cudaArrayGetMemoryRequirements",
            "cudaArrayGetPlane",
            "cudaArrayGetSparseProperties",
            "cudaMipmappedArrayGetMemoryRequirements",
            "cudaMipmappedArrayGetSparseProperties",
        ],
    ),
    (
        "Atomics between devices and the host: CUDA 13's question, which the driver's part does not answer.",
        &["cudaDeviceGetHostAtomicCapabilities", "cudaDeviceGetP2PAtomicCapabilities"],
    ),
    ("Writes of other devices over PCIe, which there are none of.", &["cudaDeviceFlushGPUDirectRDMAWrites"]),
    ("NvSci, of NVIDIA's embedded systems.", &["cudaDeviceGetNvSciSyncAttributes"]),
    (
        "A device's notice that memory runs short; the simulator never gives one.",
        &["cudaDeviceRegisterAsyncNotification", "cudaDeviceUnregisterAsyncNotification"],
    ),
    (
        "Code on the device that calls through a pointer, of which none runs.",
        &["cudaLibraryGetUnifiedFunction"],
    ),
    (
        "Which pool and which place memory is taken from by default: the driver's part is not simulated.",
        &["cudaMemGetDefaultMemPool", "cudaMemGetLocationInfo", "cudaMemGetMemPool"],
    ),
    (
        "Advice and the last prefetch of managed memory: the simulator takes both and keeps neither.",
        &["cudaMemRangeGetAttribute", "cudaMemRangeGetAttributes"],
    ),
    ("Launches on several devices at once, gone in CUDA 13.", &["cudaLaunchCooperativeKernelMultiDevice"]),
    (
        "A driver's call of CUDA 13.1, which differs from the one before.",
        &["cudaLaunchHostFunc_v2", "cudaLaunchHostFunc_v2_ptsz"],
    ),
    (
        "A capture that queries the program about each node that differs.",
        &["cudaStreamBeginRecaptureToGraph", "cudaStreamBeginRecaptureToGraph_ptsz"],
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_left_out_function_is_listed_once_with_a_reason() {
        let mut names: Vec<&str> = LACKING.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
        assert!(LACKING.iter().all(|(why, names)| !why.is_empty() && !names.is_empty()));
    }
}
