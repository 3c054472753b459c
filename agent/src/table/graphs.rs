//! Which functions capture streams, and create or launch graphs?

macro_rules! graphs { ($next:ident $($before:tt)*) => { $next! { $($before)*
    // StreamCaptures and graphs.
    driver "cuStreamBeginCapture" { cuStreamBeginCapture @ 10000, cuStreamBeginCapture_ptsz @ 10000 per_thread }
        (hStream: CUstream) => plain(CaptureBegin::of(hStream));
    driver "cuStreamBeginCapture" { cuStreamBeginCapture_v2 @ 10010, cuStreamBeginCapture_v2_ptsz @ 10010 per_thread }
        (hStream: CUstream, mode: CUstreamCaptureMode) => plain(CaptureBegin::of(hStream));
    driver "cuStreamBeginCaptureToGraph"
        { cuStreamBeginCaptureToGraph @ 12030, cuStreamBeginCaptureToGraph_ptsz @ 12030 per_thread }
        (hStream: CUstream, hGraph: CUgraph, dependencies: *const CUgraphNode,
         dependencyData: *const CUgraphEdgeData, numDependencies: size_t, mode: CUstreamCaptureMode)
        => plain(CaptureBegin::of(hStream));
    driver "cuStreamBeginRecaptureToGraph"
        { cuStreamBeginRecaptureToGraph @ 13030, cuStreamBeginRecaptureToGraph_ptsz @ 13030 per_thread }
        (hStream: CUstream, mode: CUstreamCaptureMode, hGraph: CUgraph, callbackFunc: CUgraphRecaptureCallback,
         userData: *mut void)
        => plain(CaptureBegin::of(hStream));
    driver "cuStreamEndCapture" { cuStreamEndCapture @ 10000, cuStreamEndCapture_ptsz @ 10000 per_thread }
        (hStream: CUstream, phGraph: *mut CUgraph) => plain(CaptureEnd::of(hStream));
    // Capture into a graphics API's command list, which runs when that is submitted, so no event of ours
    // belongs there. cuda.h compares it to a relaxed capture; that cuStreamIsCapturing reports it is an
    // assumption.
    driver "cuStreamBeginCaptureToCig"
        { cuStreamBeginCaptureToCig @ 13010, cuStreamBeginCaptureToCig_ptsz @ 13010 per_thread }
        (hStream: CUstream, streamCigCaptureParams: *mut CUstreamCigCaptureParams)
        => plain(CaptureBegin::of(hStream));
    driver "cuStreamEndCaptureToCig"
        { cuStreamEndCaptureToCig @ 13010, cuStreamEndCaptureToCig_ptsz @ 13010 per_thread }
        (hStream: CUstream) => plain(CaptureEnd::of(hStream));
    driver "cuGraphInstantiate" { cuGraphInstantiate @ 10000, cuGraphInstantiate_v2 @ 11000 }
        (phGraphExec: *mut CUgraphExec, hGraph: CUgraph, phErrorNode: *mut CUgraphNode, logBuffer: *mut char_t,
         bufferSize: size_t)
        => plain(Instantiate::of(phGraphExec, hGraph, 0));
    driver "cuGraphInstantiateWithFlags" { cuGraphInstantiateWithFlags @ 11040 }
        (phGraphExec: *mut CUgraphExec, hGraph: CUgraph, flags: unsigned_long_long)
        => plain(Instantiate::of(phGraphExec, hGraph, flags));
    driver "cuGraphInstantiateWithParams"
        { cuGraphInstantiateWithParams @ 12000, cuGraphInstantiateWithParams_ptsz @ 12000 per_thread }
        (phGraphExec: *mut CUgraphExec, hGraph: CUgraph, instantiateParams: *mut CUDA_GRAPH_INSTANTIATE_PARAMS)
        => plain(Instantiate::with(phGraphExec, hGraph, instantiateParams));
    driver "cuGraphExecUpdate" { cuGraphExecUpdate @ 10020 }
        (hGraphExec: CUgraphExec, hGraph: CUgraph, hErrorNode_out: *mut CUgraphNode,
         updateResult_out: *mut CUgraphExecUpdateResult)
        => plain(GraphUpdate::of(hGraphExec, hGraph, hErrorNode_out));
    driver "cuGraphExecUpdate" { cuGraphExecUpdate_v2 @ 12000 }
        (hGraphExec: CUgraphExec, hGraph: CUgraph, resultInfo: *mut CUgraphExecUpdateResultInfo)
        => plain(GraphUpdate::with(hGraphExec, hGraph, resultInfo));
    driver "cuGraphExecKernelNodeSetParams" { cuGraphExecKernelNodeSetParams @ 10010 }
        (hGraphExec: CUgraphExec, hNode: CUgraphNode, nodeParams: *const CUDA_KERNEL_NODE_PARAMS_v1)
        => plain(NodeChange { exec: hGraphExec, node: hNode, to: Change::KernelV1(nodeParams) });
    driver "cuGraphExecKernelNodeSetParams" { cuGraphExecKernelNodeSetParams_v2 @ 12000 }
        (hGraphExec: CUgraphExec, hNode: CUgraphNode, nodeParams: *const CUDA_KERNEL_NODE_PARAMS_v2)
        => plain(NodeChange { exec: hGraphExec, node: hNode, to: Change::Kernel(nodeParams) });
    driver "cuGraphExecMemcpyNodeSetParams" { cuGraphExecMemcpyNodeSetParams @ 10020 }
        (hGraphExec: CUgraphExec, hNode: CUgraphNode, copyParams: *const CUDA_MEMCPY3D, ctx: CUcontext)
        => plain(NodeChange { exec: hGraphExec, node: hNode, to: Change::Copy(copyParams) });
    driver "cuGraphExecMemsetNodeSetParams" { cuGraphExecMemsetNodeSetParams @ 10020 }
        (hGraphExec: CUgraphExec, hNode: CUgraphNode, memsetParams: *const CUDA_MEMSET_NODE_PARAMS, ctx: CUcontext)
        => plain(NodeChange { exec: hGraphExec, node: hNode, to: Change::Memset(memsetParams) });
    driver "cuGraphExecChildGraphNodeSetParams" { cuGraphExecChildGraphNodeSetParams @ 11010 }
        (hGraphExec: CUgraphExec, hNode: CUgraphNode, childGraph: CUgraph)
        => plain(NodeChange { exec: hGraphExec, node: hNode, to: Change::Child(childGraph) });
    driver "cuGraphExecNodeSetParams" { cuGraphExecNodeSetParams @ 12020 }
        (hGraphExec: CUgraphExec, hNode: CUgraphNode, nodeParams: *mut CUgraphNodeParams)
        => plain(NodeChange { exec: hGraphExec, node: hNode, to: Change::Any(nodeParams) });
    driver "cuGraphNodeSetEnabled" { cuGraphNodeSetEnabled @ 11060 }
        (hGraphExec: CUgraphExec, hNode: CUgraphNode, isEnabled: unsigned_int)
        => plain(NodeChange { exec: hGraphExec, node: hNode, to: Change::Enabled(isEnabled != 0) });
    driver "cuGraphUpload" { cuGraphUpload @ 11010, cuGraphUpload_ptsz @ 11010 per_thread }
        (hGraphExec: CUgraphExec, hStream: CUstream) => plain(Enqueue::on(hStream));
    driver "cuGraphLaunch" { cuGraphLaunch @ 10000, cuGraphLaunch_ptsz @ 10000 per_thread }
        (hGraphExec: CUgraphExec, hStream: CUstream) => work(GraphLaunch { exec: hGraphExec, stream: hStream });
    driver "cuGraphExecDestroy" { cuGraphExecDestroy @ 10000 } (hGraphExec: CUgraphExec)
        => plain(GraphDestroy { exec: hGraphExec });
    runtime "cudaStreamBeginCapture" { cudaStreamBeginCapture @ 0, cudaStreamBeginCapture_ptsz @ 0 per_thread }
        (stream: cudaStream_t, mode: cudaStreamCaptureMode) => plain(CaptureBegin::of(stream));
    runtime "cudaStreamBeginCaptureToGraph"
        { cudaStreamBeginCaptureToGraph @ 0, cudaStreamBeginCaptureToGraph_ptsz @ 0 per_thread }
        (stream: cudaStream_t, graph: cudaGraph_t, dependencies: *const cudaGraphNode_t,
         dependencyData: *const cudaGraphEdgeData, numDependencies: size_t, mode: cudaStreamCaptureMode)
        => plain(CaptureBegin::of(stream));
    runtime "cudaStreamBeginRecaptureToGraph"
        { cudaStreamBeginRecaptureToGraph @ 0, cudaStreamBeginRecaptureToGraph_ptsz @ 0 per_thread }
        (stream: cudaStream_t, mode: cudaStreamCaptureMode, graph: cudaGraph_t,
         callbackData: *mut cudaGraphRecaptureCallbackData)
        => plain(CaptureBegin::of(stream));
    runtime "cudaStreamEndCapture" { cudaStreamEndCapture @ 0, cudaStreamEndCapture_ptsz @ 0 per_thread }
        (stream: cudaStream_t, pGraph: *mut cudaGraph_t) => plain(CaptureEnd::of(stream));
    // In CUDA 11 these two have more arguments at their end under the same names. The arguments that are read
    // come before those.
    runtime "cudaGraphInstantiate" { cudaGraphInstantiate @ 0 }
        (pGraphExec: *mut cudaGraphExec_t, graph: cudaGraph_t, third: word, fourth: word, fifth: word)
        => plain(Host { subject: graph as u64 });
    runtime "cudaGraphExecUpdate" { cudaGraphExecUpdate @ 0 }
        (hGraphExec: cudaGraphExec_t, hGraph: cudaGraph_t, third: word, fourth: word)
        => plain(Host { subject: hGraphExec as u64 });
    runtime "cudaGraphInstantiateWithFlags" { cudaGraphInstantiateWithFlags @ 0 }
        (pGraphExec: *mut cudaGraphExec_t, graph: cudaGraph_t, flags: unsigned_long_long)
        => plain(Host { subject: graph as u64 });
    runtime "cudaGraphInstantiateWithParams"
        { cudaGraphInstantiateWithParams @ 0, cudaGraphInstantiateWithParams_ptsz @ 0 per_thread }
        (pGraphExec: *mut cudaGraphExec_t, graph: cudaGraph_t, instantiateParams: *mut cudaGraphInstantiateParams)
        => plain(Host { subject: graph as u64 });
    runtime "cudaGraphExecKernelNodeSetParams" { cudaGraphExecKernelNodeSetParams @ 0 }
        (hGraphExec: cudaGraphExec_t, node: cudaGraphNode_t, pNodeParams: *const cudaKernelNodeParams)
        => plain(Host { subject: hGraphExec as u64 });
    runtime "cudaGraphExecMemcpyNodeSetParams" { cudaGraphExecMemcpyNodeSetParams @ 0 }
        (hGraphExec: cudaGraphExec_t, node: cudaGraphNode_t, pNodeParams: *const cudaMemcpy3DParms)
        => plain(Host { subject: hGraphExec as u64 });
    runtime "cudaGraphExecMemcpyNodeSetParams1D" { cudaGraphExecMemcpyNodeSetParams1D @ 0 }
        (hGraphExec: cudaGraphExec_t, node: cudaGraphNode_t, dst: *mut void, src: *const void, count: size_t,
         kind: cudaMemcpyKind)
        => plain(Host { subject: hGraphExec as u64 });
    runtime "cudaGraphExecMemsetNodeSetParams" { cudaGraphExecMemsetNodeSetParams @ 0 }
        (hGraphExec: cudaGraphExec_t, node: cudaGraphNode_t, pNodeParams: *const cudaMemsetParams)
        => plain(Host { subject: hGraphExec as u64 });
    runtime "cudaGraphExecChildGraphNodeSetParams" { cudaGraphExecChildGraphNodeSetParams @ 0 }
        (hGraphExec: cudaGraphExec_t, node: cudaGraphNode_t, childGraph: cudaGraph_t)
        => plain(Host { subject: hGraphExec as u64 });
    runtime "cudaGraphExecNodeSetParams" { cudaGraphExecNodeSetParams @ 0 }
        (graphExec: cudaGraphExec_t, node: cudaGraphNode_t, nodeParams: *mut cudaGraphNodeParams)
        => plain(Host { subject: graphExec as u64 });
    runtime "cudaGraphNodeSetEnabled" { cudaGraphNodeSetEnabled @ 0 }
        (hGraphExec: cudaGraphExec_t, hNode: cudaGraphNode_t, isEnabled: unsigned_int)
        => plain(Host { subject: hGraphExec as u64 });
    runtime "cudaGraphUpload" { cudaGraphUpload @ 0, cudaGraphUpload_ptsz @ 0 per_thread }
        (graphExec: cudaGraphExec_t, stream: cudaStream_t) => plain(Host { subject: graphExec as u64 });
    runtime "cudaGraphLaunch" { cudaGraphLaunch @ 0, cudaGraphLaunch_ptsz @ 0 per_thread }
        (graphExec: cudaGraphExec_t, stream: cudaStream_t)
        => work(GraphLaunch { exec: graphExec, stream });
    runtime "cudaGraphExecDestroy" { cudaGraphExecDestroy @ 0 } (graphExec: cudaGraphExec_t)
        => plain(GraphDestroy { exec: graphExec });
} } }
