//! Tests of the hook table against NVIDIA's headers, and against the list in the docs.

use crate::hook::{Hook, Layer};
use crate::table;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Entries that none of the C headers on PyPI declares: the compiler's own (crt/device_functions.h, C++ only), which
/// has the arguments of cudaLaunchKernel and cudaGetKernel; and the profiler's, which have none.
const NOT_IN_C_HEADERS: &[&str] = &[
    "__cudaGetKernel",
    "__cudaLaunchKernel",
    "__cudaLaunchKernel_ptsz",
    "cuProfilerStart",
    "cuProfilerStop",
    "cudaProfilerStart",
    "cudaProfilerStop",
];

/// Functions of the runtime that have other arguments in CUDA 13 than in CUDA 12 under the same name, or in CUDA 12
/// than in 11; as the headers of 12.9 and 13 declare them. The arguments that an entry reads are the same in all. The
/// others are pointers, integers and a structure of one word, each in a register or a stack slot of its own (the psABIs
/// of x86-64 and AArch64), so an entry with as many words as the longest prototype passes all of them on. A last one
/// that the caller did not pass is whatever the register, or the stack after the caller's arguments, contains, and
/// nothing reads it.
const TWO_PROTOTYPES: &[(&str, [&str; 2])] = &[
    (
        "cudaMemcpyBatchAsync",
        [
            "void **, void **, size_t *, size_t, struct cudaMemcpyAttributes *, size_t *, size_t, size_t *, cudaStream_t",
            "void *const *, const void *const *, const size_t *, size_t, struct cudaMemcpyAttributes *, size_t *, size_t, \
             cudaStream_t",
        ],
    ),
    (
        "cudaMemcpy3DBatchAsync",
        [
            "size_t, struct cudaMemcpy3DBatchOp *, size_t *, unsigned long long, cudaStream_t",
            "size_t, struct cudaMemcpy3DBatchOp *, unsigned long long, cudaStream_t",
        ],
    ),
    (
        "cudaMemPrefetchAsync",
        [
            "const void *, size_t, int, cudaStream_t",
            "const void *, size_t, struct cudaMemLocation, unsigned int, cudaStream_t",
        ],
    ),
    (
        "cudaMemAdvise",
        [
            "const void *, size_t, enum cudaMemoryAdvise, int",
            "const void *, size_t, enum cudaMemoryAdvise, struct cudaMemLocation",
        ],
    ),
    // In CUDA 11: cudaGraphExec_t *, cudaGraph_t, cudaGraphNode_t *, char *, size_t.
    ("cudaGraphInstantiate", ["cudaGraphExec_t *, cudaGraph_t, unsigned long long"; 2]),
    // In CUDA 11: cudaGraphExec_t, cudaGraph_t, cudaGraphNode_t *, enum cudaGraphExecUpdateResult *.
    ("cudaGraphExecUpdate", ["cudaGraphExec_t, cudaGraph_t, cudaGraphExecUpdateResultInfo *"; 2]),
    (
        "cudaSignalExternalSemaphoresAsync",
        [
            "const cudaExternalSemaphore_t *, const struct cudaExternalSemaphoreSignalParams_v1 *, unsigned int, cudaStream_t",
            "const cudaExternalSemaphore_t *, const struct cudaExternalSemaphoreSignalParams *, unsigned int, cudaStream_t",
        ],
    ),
    (
        "cudaWaitExternalSemaphoresAsync",
        [
            "const cudaExternalSemaphore_t *, const struct cudaExternalSemaphoreWaitParams_v1 *, unsigned int, cudaStream_t",
            "const cudaExternalSemaphore_t *, const struct cudaExternalSemaphoreWaitParams *, unsigned int, cudaStream_t",
        ],
    ),
];

/// Returns the repository's root.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_path_buf()
}

fn entries() -> impl Iterator<Item = (&'static Hook, &'static str, &'static str)> {
    table::all().iter().zip(table::TEXTS).map(|(hook, (symbol, parameters, how))| {
        assert_eq!(hook.symbol.to_str().unwrap(), *symbol);
        (hook, *parameters, *how)
    })
}

/// Returns a type of the table as C.
fn c_type(rust: &str) -> String {
    let rust = rust.trim();
    let pointer = |to: &str, constant: bool| {
        let inner = c_type(to);
        match (constant, inner.ends_with('*')) {
            (false, _) => format!("{inner} *"),
            (true, true) => format!("{inner} const *"),
            (true, false) => format!("const {inner} *"),
        }
    };
    if let Some(to) = rust.strip_prefix("*const ") {
        return pointer(to, true);
    }
    if let Some(to) = rust.strip_prefix("*mut ") {
        return pointer(to, false);
    }
    match rust {
        "char_t" => "char".into(),
        "unsigned_char" | "unsigned_short" | "unsigned_int" | "unsigned_long_long" => rust.replace('_', " "),
        "cudaMemcpyKind"
        | "cudaStreamCaptureMode"
        | "cudaDriverEntryPointQueryResult"
        | "cudaMemPoolAttr"
        | "cudaMemAllocationHandleType"
        | "cudaMemAllocationType"
        | "cudaGraphMemAttributeType"
        | "cudaMemoryAdvise"
        | "cudaFuncAttribute"
        | "cudaFuncCache"
        | "cudaSharedMemConfig"
        | "cudaJitOption"
        | "cudaLibraryOption" => format!("enum {rust}"),
        "cudaKernelNodeParams"
        | "cudaMemcpy3DParms"
        | "cudaMemsetParams"
        | "cudaGraphNodeParams"
        | "cudaMemPoolProps"
        | "cudaMemAccessDesc"
        | "cudaMemLocation"
        | "cudaMemPoolPtrExportData"
        | "cudaPitchedPtr"
        | "cudaExtent"
        | "cudaExternalMemoryHandleDesc"
        | "cudaExternalMemoryBufferDesc"
        | "cudaExternalMemoryMipmappedArrayDesc"
        | "cudaChannelFormatDesc"
        | "cudaMemAllocNodeParams"
        | "cudaMemcpy3DPeerParms"
        | "cudaMemcpyAttributes"
        | "cudaMemcpy3DBatchOp"
        | "cudaLaunchParams"
        | "cudaExternalSemaphoreSignalParams"
        | "cudaExternalSemaphoreWaitParams"
        | "cudaGraphRecaptureCallbackData"
        | "cudaFuncAttributes" => format!("struct {rust}"),
        _ => rust.into(),
    }
}

/// Returns an entry's parameters as C types.
fn c_types(parameters: &str) -> Vec<String> {
    let inner = parameters.trim().strip_prefix('(').unwrap().strip_suffix(')').unwrap();
    // stringify! breaks lines, and puts spaces between a section's tokens.
    let inner = inner.split_whitespace().collect::<Vec<_>>().join(" ").replace("* ", "*");
    let typed = inner.split(',').filter(|p| !p.trim().is_empty());
    typed.map(|p| c_type(p.split_once(':').expect("name: type").1)).collect()
}

/// Returns an entry as a C declaration, for one of the [`header_versions`].
fn c_declaration(hook: &Hook, parameters: &str, version: usize) -> String {
    let symbol = hook.symbol.to_str().unwrap();
    let types = c_types(parameters);
    let name = symbol.strip_suffix("_ptsz").unwrap_or(symbol);
    if let Some((_, of_versions)) = TWO_PROTOTYPES.iter().find(|(two, _)| *two == name) {
        return c_of_words(symbol, of_versions[version], &types);
    }
    let list = if types.is_empty() { "void".into() } else { types.join(", ") };
    match hook.layer {
        Layer::Driver => format!("CUresult CUDAAPI {symbol}({list});"),
        Layer::Runtime => format!("cudaError_t CUDARTAPI {symbol}({list});"),
    }
}

/// Returns the C declaration of one of [`TWO_PROTOTYPES`] in a version, with checks that the entry has room for it: the
/// version has no more parameters than the entry, each that the entry reads has the same size, and each that it passes
/// on is at most a word.
fn c_of_words(symbol: &str, prototype: &str, types: &[String]) -> String {
    let mut text = format!("cudaError_t CUDARTAPI {symbol}({prototype});");
    let parameters: Vec<&str> = prototype.split(',').collect();
    assert!(parameters.len() <= types.len(), "{symbol}: the entry drops what {prototype} has");
    for (parameter, entry) in parameters.iter().zip(types) {
        let fits = match entry.as_str() {
            "word" => format!("sizeof({parameter}) <= sizeof(void *)"),
            read => format!("sizeof({parameter}) == sizeof({read})"),
        };
        write!(text, " _Static_assert({fits}, \"{symbol}\");").unwrap();
    }
    text
}

const PROLOGUE: &str =
    "#define __CUDA_API_VERSION_INTERNAL\n#include <cuda.h>\n#include <cuda_runtime_api.h>\n";

fn gcc(headers: &Path, arguments: &[&str], source: &str) -> (bool, String) {
    let folder = tempfile();
    let file = folder.join("prototypes.c");
    std::fs::write(&file, source).unwrap();
    let include = format!("-I{}", headers.display());
    let output =
        Command::new("gcc").args(["-std=gnu11", &include]).args(arguments).arg(&file).output().unwrap();
    std::fs::remove_dir_all(folder).unwrap();
    let text = if output.status.success() { output.stdout } else { output.stderr };
    (output.status.success(), String::from_utf8_lossy(&text).into_owned())
}

fn tempfile() -> PathBuf {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let n = NEXT.fetch_add(1, Ordering::Relaxed);
    let folder = std::env::temp_dir().join(format!("gpuspy-prototypes-{}-{n}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// Returns the identifiers that a header version declares.
fn declared(headers: &Path) -> BTreeSet<String> {
    let (ok, text) = gcc(headers, &["-E", "-P"], PROLOGUE);
    assert!(ok, "NVIDIA's headers do not compile in {}: {text}", headers.display());
    text.split(|c: char| !(c.is_alphanumeric() || c == '_')).map(str::to_owned).collect()
}

fn header_versions() -> Vec<PathBuf> {
    let versions = ["cuda-12.9", "cuda-13"].map(|v| root().join("downloads").join(v).join("include"));
    for headers in &versions {
        assert!(headers.is_dir(), "{} is missing: run scripts/fetch.sh", headers.display());
    }
    versions.to_vec()
}

#[test]
fn prototypes_equal_the_headers() {
    let mut missing: BTreeSet<&str> = table::TEXTS.iter().map(|(symbol, ..)| *symbol).collect();
    for (version, headers) in header_versions().into_iter().enumerate() {
        let declared = declared(&headers);
        let mut source = PROLOGUE.to_owned();
        for (hook, parameters, _) in entries() {
            let symbol = hook.symbol.to_str().unwrap();
            if declared.contains(symbol) {
                missing.remove(symbol);
                // Used before our redeclaration, so that a function that the header does not declare does not compile.
                writeln!(source, "void *const use_{symbol} = (void *){symbol};").unwrap();
                writeln!(source, "{}", c_declaration(hook, parameters, version)).unwrap();
            }
        }
        let (ok, errors) =
            gcc(&headers, &["-fsyntax-only", "-Werror", "-Wno-deprecated-declarations"], &source);
        assert!(ok, "the table differs from {}:\n{errors}", headers.display());
    }
    let listed: BTreeSet<&str> = NOT_IN_C_HEADERS.iter().copied().collect();
    assert_eq!(missing, listed, "entries that no header version declares must be listed");
}

#[test]
fn a_wrong_prototype_does_not_compile() {
    let headers = &header_versions()[0];
    for wrong in [
        "CUresult CUDAAPI cuMemFree_v2(void *);",
        "CUresult CUDAAPI cuStreamSynchronize_ptsz(CUstream, int);",
    ] {
        let (ok, _) = gcc(headers, &["-fsyntax-only"], &format!("{PROLOGUE}{wrong}\n"));
        assert!(!ok, "the headers accept {wrong}");
    }
}

#[test]
fn no_two_variants_have_the_same_request() {
    // Two hooks for one request could not be distinguished.
    let mut seen = BTreeSet::new();
    for (hook, ..) in entries().filter(|(hook, ..)| hook.layer == Layer::Driver) {
        assert!(seen.insert((hook.base, hook.version, hook.per_thread)), "{:?} is there twice", hook.symbol);
    }
}

/// Returns the list of intercepted functions for the docs.
fn list() -> String {
    let mut text = "# Intercepted functions\n\n\
        Generated from the hook table (`agent/src/table`) and checked by `cargo test -p gpuspy-agent`;\n\
        `GPUSPY_UPDATE=1 cargo test -p gpuspy-agent list` writes it. *work*, *launch* and *launches* are timed where \
        they can be, *plain* is recorded,\n*query* is counted, *lookup* returns pointers to the others.\n\n\
        | symbol | layer | looked up as | from version | default stream | recorded as |\n|---|---|---|---|---|---|\n"
        .to_owned();
    for (hook, _, how) in entries() {
        let kind: String = how
            .split(|c: char| !(c.is_alphanumeric() || c == '_'))
            .filter(|w| !w.is_empty())
            .take(2)
            .collect::<Vec<_>>()
            .join(" ");
        let version = if hook.version == 0 { "–".into() } else { hook.version.to_string() };
        let stream = if hook.per_thread { "per thread" } else { "legacy" };
        let (symbol, base) = (hook.symbol.to_str().unwrap(), hook.base.to_str().unwrap());
        let layer = if hook.layer == Layer::Driver { "driver" } else { "runtime" };
        writeln!(text, "| `{symbol}` | {layer} | `{base}` | {version} | {stream} | {kind} |").unwrap();
    }
    text
}

#[test]
fn the_list_in_the_docs_is_current() {
    let path = root().join("docs/hooks.md");
    let list = list();
    if std::env::var_os("GPUSPY_UPDATE").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &list).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(written == list, "docs/hooks.md is out of date: GPUSPY_UPDATE=1 cargo test -p gpuspy-agent list");
}
