//! Tests of the hook table against the list of all of CUDA's functions. Each function is timed, recorded, or passed
//! through for a reason that is given here; `docs/functions.md` is the list.

use crate::hook::Layer;
use crate::prototypes::root;
use crate::table;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// Why functions are passed through: base names (`*` stands for any text), a word, and the reason. The first that fits
/// counts. None may fit a function that enqueues work or takes memory: see [`MUST`].
const PASSED: &[(&str, &str, &str)] = &[
    (
        "cuGL* cuEGL* cuVDPAU* cuGraphics* cuEventCreateFromEGLSync",
        "graphics",
        "graphics interop: never seen",
    ),
    ("cudbg*", "debugger", "the debugger's"),
    ("cuGetExportTable", "lookup", "tables by which the runtime checks its driver: never touched"),
    ("cuGraph*NodeGet* cuGraphGet* cuGraphExecGet* cuGraphNodeFindInClone", "query", "queries a graph"),
    ("cuGraphDebugDotPrint cudaGraphGetNodes cudaGraphDebugDotPrint", "query", "queries a graph"),
    ("cuGraphExec*Set*", "graph", "changes a node that neither runs a kernel nor moves bytes"),
    (
        "cuGraphAdd* cuGraphRemove* cuGraphCreate cuGraphClone cuGraphDestroy* cuGraph*Set* cuGraphConditionalHandleCreate",
        "graph",
        "describes a graph, which is read when it is instantiated",
    ),
    (
        "cuGraphKernelNodeCopyAttributes cuStreamUpdateCaptureDependencies cudaGraphDestroy",
        "graph",
        "describes a graph, which is read when it is instantiated",
    ),
    (
        "cuLogicalEndpoint*",
        "resources",
        "names memory that others may copy to and from over a fabric; takes none",
    ),
    ("cuUserObject* cuGraph*UserObject", "graph", "ties the app's own objects to a graph"),
    (
        "cuDevResource* cuDevSm* cuGreenCtxGet* cuCtxFromGreenCtx cuSubgrid*",
        "resources",
        "divides a device; contexts and streams are adopted when they are first used",
    ),
    (
        "cuDeviceRegisterAsyncNotification cuDeviceUnregisterAsyncNotification cuLogs*",
        "notification",
        "callbacks and logs of the driver",
    ),
    (
        "cuDeviceGet* cuDeviceCanAccessPeer cuDeviceTotalMem cuDeviceComputeCapability cuDriverGetVersion cuGetError*",
        "query",
        "queries devices or errors",
    ),
    (
        "cuCtxGet* cuDevicePrimaryCtxGetState cuFuncGet* cuKernelGet* cuLibraryGet* cuLibraryEnumerateKernels cuModuleGet* \
         cuModuleEnumerateFunctions cuFuncIsLoaded",
        "query",
        "queries contexts or code",
    ),
    (
        "cuOccupancy* cuStreamGet* cuStreamIsCapturing cuStreamQuery cuEventQuery cuEventElapsedTime",
        "query",
        "queries streams or events, often in loops",
    ),
    (
        "cuMemGet* cuMemRangeGet* cuMemHostGet* cuMemPoolGetAccess cuPointerGet* cuMulticastGetGranularity",
        "query",
        "queries memory; frameworks do so all the time",
    ),
    (
        "cuArrayGet* cuArray3DGet* cuMipmappedArrayGet* cuTexObjectGet* cuTexRefGet* cuSurfObjectGet* cuSurfRefGet*",
        "query",
        "queries arrays or textures",
    ),
    (
        "cudaGet* cuda*Get* cudaPeekAtLastError cudaDeviceCanAccessPeer cudaOccupancy* cudaStreamIsCapturing cudaStreamQuery",
        "query",
        "queries",
    ),
    ("cudaEventQuery cudaEventElapsedTime", "query", "queries"),
    (
        "cuTexRef* cuTexObject* cuSurfRef* cuSurfObject* cuTensorMap*",
        "binding",
        "describes memory and takes none",
    ),
    (
        "cuCtxPushCurrent cuCtxPopCurrent cuCtxSetCurrent cuCtxAttach cudaSetDevice",
        "thread",
        "says which context a thread means; the driver is queried where it matters",
    ),
    (
        "cuCtxSet* cuCtxResetPersistingL2Cache cuDevicePrimaryCtxSetFlags cuFuncSet* cuKernelSet* cudaFuncSetAttribute",
        "setting",
        "changes a setting",
    ),
    (
        "cuStreamSetAttribute cuStreamCopyAttributes cuPointerSetAttribute cuThreadExchangeStreamCaptureMode",
        "setting",
        "changes a setting",
    ),
    (
        "cudaThreadExchangeStreamCaptureMode cuCoredump* cuMemAdvise cuParamSet*",
        "setting",
        "changes a setting",
    ),
    (
        "cuCtxEnablePeerAccess cuCtxDisablePeerAccess cudaDeviceEnablePeerAccess",
        "setting",
        "opens a device to another",
    ),
    ("cuLink*", "host", "links code, on the host"),
    ("cuCheckpointProcess*", "host", "freezes a whole process, and goes on with it"),
    ("cuFlushGPUDirectRDMAWrites", "host", "makes other devices' writes visible"),
    ("cuProfiler* cudaProfiler*", "profiler", "another profiler's switches"),
    (
        "cuIpc*EventHandle cudaIpc*EventHandle cuImportExternalSemaphore cuDestroyExternalSemaphore",
        "order",
        "events and semaphores of others; what waits for them or signals them is recorded",
    ),
];

/// Functions that enqueue work, take memory, or give it back. They must never be passed through.
const MUST: &str = "cuLaunch* cudaLaunch* cuGraphLaunch cudaGraphLaunch cuGraphUpload cuMemcpy* cudaMemcpy* cuMemset* \
    cudaMemset* cuMemPrefetch* cuMemDiscard* cuMemBatchDecompressAsync cuFabricCpyBatchAsync cuStreamAttachMemAsync cuStreamWait* cuStreamWrite* \
    cuStreamBatchMemOp cuStreamAddCallback cuSignalExternalSemaphoresAsync cuWaitExternalSemaphoresAsync cuEventRecord* \
    cuCtxRecordEvent cuCtxWaitEvent cuGreenCtxRecordEvent cuGreenCtxWaitEvent cuMemAlloc* cuMemFree* cuMemHostAlloc \
    cuMemHostRegister cuMemHostUnregister cuMemCreate cuMemRelease cuMemRetainAllocationHandle cuMemMap* cuMemUnmap \
    cuMemAddressReserve cuMemAddressFree cuMemImport* cuMemPoolCreate cuMemPoolDestroy cuMemPoolTrimTo cuMemPoolImport* \
    cuArrayCreate cuArray3DCreate cuArrayDestroy cuMipmappedArrayCreate cuMipmappedArrayDestroy cuIpcOpenMemHandle \
    cuIpcCloseMemHandle cuImportExternalMemory cuExternalMemoryGetMapped* cuDestroyExternalMemory cuMulticastCreate \
    cuMulticastBind* cuMulticastUnbind cuGraphAddMemAllocNode cuGraphAddMemFreeNode cuDeviceGraphMemTrim cudaMalloc* \
    cudaFree* cudaHostAlloc cudaHostRegister cudaHostUnregister cuCtxCreate cuDevicePrimaryCtxRetain cuModuleLoad* \
    cuLibraryLoad*";

/// The CUDA version in which functions got 64-bit sizes and addresses; before, those of the same names had 32 bits.
const WITH_64_BITS: i32 = 3020;

/// Returns whether a name fits a pattern in which `*` stands for any text.
fn fits(name: &str, pattern: &str) -> bool {
    match pattern.split_once('*') {
        None => name == pattern,
        Some((start, rest)) => {
            let Some(end) = name.strip_prefix(start) else { return false };
            (0..=end.len()).any(|at| end.get(at..).is_some_and(|end| fits(end, rest)))
        }
    }
}

/// Returns whether a name fits one of the patterns of a list.
fn fits_any(name: &str, patterns: &str) -> bool {
    patterns.split_whitespace().any(|pattern| fits(name, pattern))
}

/// Returns a function's name without its variant's suffixes.
fn base(symbol: &str) -> &str {
    let mut base = symbol;
    for suffix in ["_ptsz", "_ptds", "_v2", "_v3", "_v4"] {
        base = base.strip_suffix(suffix).unwrap_or(base);
    }
    base
}

/// Functions of drivers that none of the lists has.
const LATER: &str = "cuCheckpointProcessCheckpoint cuCheckpointProcessGetRestoreThreadId cuCheckpointProcessGetState \
    cuCheckpointProcessLock cuCheckpointProcessRestore cuCheckpointProcessUnlock cuEventCreateFromEGLSync cuFuncIsLoaded \
    cuGraphAddNode_v3 cuGraphNodeSetParams_v2 cuKernelGetLibrary cuLogicalEndpointAddDevice cuLogicalEndpointBindAddr \
    cuLogicalEndpointBindMem cuLogicalEndpointCreate cuLogicalEndpointDestroy cuLogicalEndpointExport \
    cuLogicalEndpointGetLimits cuLogicalEndpointIdRelease cuLogicalEndpointIdReserve cuLogicalEndpointImport \
    cuLogicalEndpointQuery cuLogicalEndpointUnbind cuModuleEnumerateFunctions cuModuleGetFunctionCount cuStreamGetGreenCtx \
    cuTensorMapEncodeIm2colWide";

/// Returns every function that a driver exports (version 535), that NVIDIA's runtime requests (12.9 and 13.5), that
/// torch imports, or that the table has.
fn functions() -> BTreeSet<String> {
    let read = |path: &str| std::fs::read_to_string(root().join("sim").join(path)).unwrap();
    let mut all: BTreeSet<String> =
        table::all().iter().map(|h| h.symbol.to_str().unwrap().to_owned()).collect();
    for path in ["cuda/data/libcuda_535_exports.txt", "cudart/data/torch_cudart_imports.txt"] {
        all.extend(read(path).lines().map(str::to_owned));
    }
    for path in ["cuda/data/getproc_12.9.txt", "cuda/data/getproc_13.5.txt"] {
        for line in read(path).lines().filter(|line| line.starts_with("cu")) {
            // NAME VERSION FLAGS SUFFIX; "." = none, "-" = the driver does not have it.
            let words: Vec<&str> = line.split_whitespace().collect();
            let suffix = if words[3].starts_with('_') { words[3] } else { "" };
            all.insert(format!("{}{suffix}", words[0]));
        }
    }
    all.extend(LATER.split_whitespace().map(str::to_owned));
    all.retain(|name| name.starts_with("cu") || name.starts_with("__cu"));
    all
}

/// Returns what becomes of a function: one of three words, and how or why. `None`: no list has it.
fn class(symbol: &str) -> Option<(&'static str, String)> {
    let hook = table::all().iter().zip(table::TEXTS).find(|(hook, _)| hook.symbol.to_str() == Ok(symbol));
    if let Some((_, (.., how))) = hook {
        let word = if ["work", "launch"].iter().any(|kind| how.trim_start().starts_with(kind)) {
            "timed"
        } else {
            "recorded"
        };
        if how.trim_start().starts_with("lookup") {
            return Some(("passed through", "lookup: returns the others' wrappers".into()));
        }
        return Some((word, String::new()));
    }
    let (name, second) = (base(symbol), format!("{symbol}_v2"));
    let succeeded = table::all().iter().any(|hook| {
        hook.symbol.to_str() == Ok(&second) && hook.layer == Layer::Driver && hook.version == WITH_64_BITS
    });
    if succeeded {
        return Some(("passed through", "old: 32-bit sizes and addresses, of CUDA before 3.2; believed, not proven, to be refused by current drivers".into()));
    }
    let (_, word, reason) = PASSED.iter().find(|(patterns, ..)| fits_any(name, patterns))?;
    Some(("passed through", format!("{word}: {reason}")))
}

/// Returns the list for the docs: a line for each function; variants that are treated alike share one.
fn list() -> String {
    let mut lines: BTreeMap<(String, &str, String), Vec<String>> = BTreeMap::new();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for symbol in functions() {
        let (word, why) = class(&symbol).unwrap_or(("?", String::new()));
        *counts.entry(word).or_default() += 1;
        lines.entry((base(&symbol).to_owned(), word, why)).or_default().push(symbol);
    }
    let mut text = "# All functions\n\n\
        What becomes of every function that a driver exports, that NVIDIA's runtime looks up, and that PyTorch\n\
        imports from the runtime. Generated from the hook table and from `agent/src/coverage.rs`, and checked by\n\
        `cargo test -p gpuspy-agent`; `GPUSPY_UPDATE=1 cargo test -p gpuspy-agent coverage` writes it.\n\n\
        *timed*: recorded, with GPU times where there can be any. *recorded*: the call, its host time, and what it does to\n\
        memory, streams and contexts. *passed through*: not observed, for the reason given.\n\n\
        Memory is counted by what calls request. What the driver takes for itself appears in no call and is not counted:\n\
        contexts, code and its global variables, local memory, its own pools' rounding, the padding of arrays, and\n\
        what is held for graphs beyond what their launches take.\n\n\
        The runtime's functions that are not listed pass through; what they do is recorded where they call the driver.\n\
        Functions that are neither listed nor in any release of the runtime so far are unknown: if a program looks one up, its\n\
        report's coverage names it.\n\n"
        .to_owned();
    let total: usize = counts.values().sum();
    let parts: Vec<String> = counts.iter().map(|(word, count)| format!("{count} {word}")).collect();
    writeln!(text, "{total} functions: {}.\n\n| function | | reason |\n|---|---|---|", parts.join(", "))
        .unwrap();
    for ((_, word, why), symbols) in lines {
        let names: Vec<String> = symbols.iter().map(|symbol| format!("`{symbol}`")).collect();
        writeln!(text, "| {} | {word} | {why} |", names.join(" ")).unwrap();
    }
    text
}

#[test]
fn every_function_is_timed_recorded_or_passed_for_a_reason() {
    let unknown: Vec<String> = functions().into_iter().filter(|symbol| class(symbol).is_none()).collect();
    assert!(unknown.is_empty(), "no entry of the table and no reason to pass through: {}", unknown.join(" "));
}

#[test]
fn what_enqueues_work_or_takes_memory_is_never_passed_through() {
    let passed = |symbol: &String| {
        let (word, why) = class(symbol).unwrap_or_default();
        word == "passed through" && !why.starts_with("old")
    };
    let wrong: Vec<String> =
        functions().into_iter().filter(|s| fits_any(base(s), MUST) && passed(s)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join(" "));
    let all = functions();
    for pattern in MUST.split_whitespace() {
        let meant = all.iter().any(|symbol| fits(base(symbol), pattern));
        assert!(meant, "{pattern} is the name of nothing");
    }
}

#[test]
fn a_star_in_a_pattern_stands_for_any_text() {
    assert!(fits("cuMemcpy2DAsync", "cuMemcpy*") && fits("cuGraphKernelNodeGetParams", "cuGraph*NodeGet*"));
    assert!(
        !fits("cuMemAlloc", "cuMemAllo") && !fits("cudaMalloc", "cuMem*") && fits("cuLaunch", "cuLaunch*")
    );
    assert_eq!((base("cuMemcpyHtoD_v2_ptds"), base("cuMemAlloc")), ("cuMemcpyHtoD", "cuMemAlloc"));
}

#[test]
fn the_list_of_all_functions_is_current() {
    let (path, list) = (root().join("docs/functions.md"), list());
    if std::env::var_os("GPUSPY_UPDATE").is_some() {
        std::fs::write(&path, &list).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == list,
        "docs/functions.md is out of date: GPUSPY_UPDATE=1 cargo test -p gpuspy-agent coverage"
    );
}

/// Returns the functions that pass through by intent, and the names under which `cuGetProcAddress` is called for them:
/// sorted, without those of the table.
fn passed() -> BTreeSet<String> {
    let path = root().join("sim/cudart/data/libcudart_exports.txt");
    let runtime = std::fs::read_to_string(path).unwrap();
    let mut all: BTreeSet<String> =
        functions().into_iter().chain(runtime.lines().map(str::to_owned)).collect();
    all.extend(all.clone().iter().map(|symbol| base(symbol).to_owned()));
    let names =
        |hook: &crate::hook::Hook| [hook.symbol, hook.base].map(|name| name.to_str().unwrap().to_owned());
    let table: BTreeSet<String> = table::all().iter().flat_map(names).collect();
    all.retain(|name| name.starts_with("cu") && !table.contains(name));
    all
}

#[test]
fn the_agents_list_of_functions_that_pass_is_current() {
    let mut text = "//! Which CUDA functions pass through? `GPUSPY_UPDATE=1 cargo test -p gpuspy-agent coverage` generates the list\n\
        //! from those that `coverage.rs` reads.\n\n\
        /// The CUDA functions that pass through on purpose: they are not in the hook table, and they do not count as\n\
        /// unknown. Sorted.\n\
        #[rustfmt::skip]\n\
        pub const PASSED: &[&str] = &["
        .to_owned();
    let mut width = usize::MAX;
    for name in passed() {
        let name = format!("\"{name}\",");
        let begins_line = width.saturating_add(name.len()) > 110;
        text.push_str(if begins_line { "\n    " } else { " " });
        width = if begins_line { name.len() } else { width + 1 + name.len() };
        text.push_str(&name);
    }
    text.push_str("\n];\n");
    let path = root().join("agent/src/interpose/known.rs");
    if std::env::var_os("GPUSPY_UPDATE").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == text,
        "interpose/known.rs is out of date: GPUSPY_UPDATE=1 cargo test -p gpuspy-agent coverage"
    );
}
