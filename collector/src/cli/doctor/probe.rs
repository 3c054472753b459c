//! The probes that the doctor's children run. A child loads CUDA and calls it, which can hang, crash or print, and reports to
//! its parent with a line of JSON on stdout. It is this program with a hidden command, so nothing else has to be installed.

use super::super::Failure;
use clap::{Args, ValueEnum};
use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
use serde::{Deserialize, Serialize};
use std::error::Error;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::mem::transmute;
use std::process::ExitCode;
use std::ptr::null_mut;

#[derive(Args, Debug)]
pub(in crate::cli) struct Options {
    probe: Probe,
    /// The file name of the runtime, for probes that need one
    #[arg(default_value = "libcudart.so")]
    runtime: String,
}

/// What a child does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Probe {
    /// Report the driver and its GPUs.
    Driver,
    /// Report the runtime.
    Runtime,
    /// Call the driver as a program does that is linked against it.
    Symbol,
    /// Call the function that `dlsym` finds in the driver.
    Dlsym,
    /// Call the function that `cuGetProcAddress` of CUDA 11.3 finds.
    Getproc11,
    /// Call the function that `cuGetProcAddress` of CUDA 12.0 finds.
    Getproc12,
    /// Call the runtime, which calls the driver.
    ByRuntime,
    /// Allocate, memset and free memory on the first GPU.
    Work,
}

impl Probe {
    /// Returns its name on the command line.
    pub(super) fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }
}

/// A CUDA library.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Found {
    pub(super) path: String,
    /// 1000 * major + 10 * minor (cuda.h, cuDriverGetVersion).
    pub(super) version: i32,
    /// The result of `cuInit` and its name, for the driver.
    pub(super) init: Option<(i32, String)>,
    pub(super) gpus: Vec<Gpu>,
    /// The object whose `dlsym` programs call.
    pub(super) dlsym: String,
}

/// A GPU, or a MIG instance of one.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Gpu {
    pub(super) name: String,
    pub(super) uuid: String,
    pub(super) bytes: u64,
    /// (major, minor)
    pub(super) capability: (i32, i32),
    /// CUcomputemode: 0 default, 2 prohibited, 3 exclusive process.
    pub(super) compute_mode: i32,
}

/// The results of calls.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Called {
    /// The functions in the order of the calls, each with its result.
    pub(super) calls: Vec<(String, i32)>,
}

impl Called {
    /// Returns the first call that failed.
    pub(super) fn failure(&self) -> Option<&(String, i32)> {
        self.calls.iter().find(|(_, result)| *result != 0)
    }
}

/// Runs a probe and prints its result. The error is one sentence for the parent.
pub(in crate::cli) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let json = match options.probe {
        Probe::Driver => driver().map(|found| serde_json::json!(found)),
        Probe::Runtime => runtime(&options.runtime).map(|found| serde_json::json!(found)),
        probe => call(probe, &options.runtime).map(|called| serde_json::json!(called)),
    };
    let json = json.map_err(Failure::usage)?;
    super::super::print(&format!("{json}\n"))
}

const DRIVER: &str = "libcuda.so.1";

/// Loads a library as the loader of a program would, and keeps it loaded.
fn load(name: &str) -> Result<&'static Library, String> {
    // SAFETY: runs the library's constructors, as every CUDA program does.
    let library = unsafe { Library::open(Some(name), RTLD_NOW | RTLD_GLOBAL) };
    match library {
        Ok(library) => Ok(Box::leak(Box::new(library))),
        // The source of the error has the loader's own text.
        Err(error) => Err(error.source().map_or_else(|| error.to_string(), ToString::to_string)),
    }
}

/// Finds a function by the library's handle.
fn by_handle(library: &Library, name: &CStr) -> Option<*mut c_void> {
    // SAFETY: the symbol is only taken as an address; nothing is called here.
    unsafe { library.get::<*mut c_void>(name) }.ok().map(|symbol| symbol.into_raw()).filter(|p| !p.is_null())
}

/// Finds the function that a symbol reference is bound to: the first in the global scope.
fn by_symbol(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: the name is NUL-terminated.
    Some(unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) }).filter(|p| !p.is_null())
}

/// Returns the file that contains an address.
fn file_of(address: *mut c_void) -> String {
    // SAFETY: all zero bytes are a valid Dl_info.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: dladdr fills the struct; a file name in it is a NUL-terminated string of the loader.
    unsafe {
        if libc::dladdr(address, &raw mut info) == 0 || info.dli_fname.is_null() {
            return String::new();
        }
        CStr::from_ptr(info.dli_fname).to_string_lossy().into_owned()
    }
}

/// Prototypes of the CUDA functions that are used here. All return CUresult or cudaError_t.
macro_rules! functions {
    ($($kind:ident($($argument:ty),*);)*) => { $(
        type $kind = unsafe extern "C" fn($($argument),*) -> c_int;
    )* };
}

functions! {
    Number(c_int);
    Flags(u32);
    Out(*mut c_int);
    Sized(*mut u64, usize);
    Address(u64);
    Memset(u64, u8, usize);
    Nothing();
    Context(*mut *mut c_void, c_int);
    Handle(*mut c_void);
    Name(*mut c_char, c_int, c_int);
    Uuid(*mut [u8; 16], c_int);
    Total(*mut usize, c_int);
    Attribute(*mut c_int, c_int, c_int);
    Getproc11(*const c_char, *mut *mut c_void, c_int, u64);
    Getproc12(*const c_char, *mut *mut c_void, c_int, u64, *mut c_int);
    ErrorName(c_int, *mut *const c_char);
}

/// Calls `$found`, an optional address, as a function of a prototype. Returns `None` if there is no such function.
macro_rules! call {
    ($found:expr, $kind:ty, $($argument:expr),*) => {
        // SAFETY: the CUDA function of that name has this prototype (cuda.h, cuda_runtime_api.h), and every pointer argument is
        // to a local variable that outlives the call.
        $found.map(|function| unsafe { transmute::<*mut c_void, $kind>(function)($($argument),*) })
    };
}

fn driver() -> Result<Found, String> {
    let library = load(DRIVER)?;
    let find = |name| by_handle(library, name);
    let version =
        find(c"cuDriverGetVersion").ok_or("it has no cuDriverGetVersion, so it is not a CUDA driver")?;
    let mut found = Found { path: file_of(version), ..Found::default() };
    found.dlsym = by_symbol(c"dlsym").map(file_of).unwrap_or_default();
    call!(Some(version), Out, &raw mut found.version);
    let result = call!(find(c"cuInit"), Flags, 0).unwrap_or(-1);
    let mut text: *const c_char = std::ptr::null();
    call!(find(c"cuGetErrorName"), ErrorName, result, &raw mut text);
    // SAFETY: the pointer is null or a constant string of the driver.
    let text = (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned());
    found.init = Some((result, text.unwrap_or_else(|| format!("error {result}"))));
    let mut count = 0;
    call!(find(c"cuDeviceGetCount"), Out, &raw mut count);
    found.gpus = (0..count).map(|device| gpu(library, device)).collect();
    Ok(found)
}

/// CUdevice_attribute in cuda.h: compute capability and compute mode.
const CAPABILITY_MAJOR: c_int = 75;
const CAPABILITY_MINOR: c_int = 76;
const COMPUTE_MODE: c_int = 20;

/// Queries a device. On all drivers so far, a CUdevice equals its ordinal, so cuDeviceGet is not needed.
fn gpu(library: &Library, device: c_int) -> Gpu {
    let find = |name| by_handle(library, name);
    let attribute = |which| {
        let mut value = 0;
        call!(find(c"cuDeviceGetAttribute"), Attribute, &raw mut value, which, device);
        value
    };
    let mut name = [0u8; 256];
    call!(find(c"cuDeviceGetName"), Name, name.as_mut_ptr().cast(), 255, device);
    let name = CStr::from_bytes_until_nul(&name).unwrap_or_default().to_string_lossy().into_owned();
    let mut uuid = [0u8; 16];
    // The newer function distinguishes MIG instances.
    let get_uuid = find(c"cuDeviceGetUuid_v2").or_else(|| find(c"cuDeviceGetUuid"));
    call!(get_uuid, Uuid, &raw mut uuid, device);
    let mut bytes = 0usize;
    call!(find(c"cuDeviceTotalMem_v2"), Total, &raw mut bytes, device);
    Gpu {
        uuid: uuid_text(&name, &uuid),
        name,
        bytes: bytes as u64,
        capability: (attribute(CAPABILITY_MAJOR), attribute(CAPABILITY_MINOR)),
        compute_mode: attribute(COMPUTE_MODE),
    }
}

/// Formats a UUID as nvidia-smi does.
fn uuid_text(name: &str, uuid: &[u8; 16]) -> String {
    let mut text = if name.contains(" MIG ") { "MIG" } else { "GPU" }.to_owned();
    for (n, byte) in uuid.iter().enumerate() {
        let dash = if [0, 4, 6, 8, 10].contains(&n) { "-" } else { "" };
        text.push_str(&format!("{dash}{byte:02x}"));
    }
    text
}

fn runtime(name: &str) -> Result<Found, String> {
    let library = load(name)?;
    let version = by_handle(library, c"cudaRuntimeGetVersion").ok_or("it has no cudaRuntimeGetVersion")?;
    let mut found = Found { path: file_of(version), ..Found::default() };
    call!(Some(version), Out, &raw mut found.version);
    Ok(found)
}

/// Calls CUDA by one route. Each route also looks up a launch function, which the agent's segment header then shows.
fn call(probe: Probe, runtime: &str) -> Result<Called, String> {
    let driver = load(DRIVER)?;
    let mut called = Called::default();
    let mut note = |name: &str, result: Option<c_int>| {
        let result = result.ok_or_else(|| format!("{name} is not found"))?;
        called.calls.push((name.to_owned(), result));
        Ok::<bool, String>(result == 0)
    };
    let init = |find: &dyn Fn(&CStr) -> Option<*mut c_void>| {
        let _ = find(c"cuLaunchKernel");
        call!(find(c"cuInit"), Flags, 0)
    };
    match probe {
        Probe::Symbol => note("cuInit", init(&by_symbol)).map(drop)?,
        Probe::Dlsym => note("cuInit", init(&|name| by_handle(driver, name))).map(drop)?,
        Probe::Getproc11 => note("cuInit", init(&|name| getproc11(driver, name))).map(drop)?,
        Probe::Getproc12 => note("cuInit", init(&|name| getproc12(driver, name))).map(drop)?,
        Probe::ByRuntime => {
            load(runtime)?;
            let mut address: *mut c_void = null_mut();
            let malloc = call!(by_symbol(c"cudaMalloc"), Sized, (&raw mut address).cast(), BYTES);
            if note("cudaMalloc", malloc)? {
                note("cudaFree", call!(by_symbol(c"cudaFree"), Handle, address))?;
            }
        }
        Probe::Work => work(&mut note)?,
        Probe::Driver | Probe::Runtime => {}
    }
    Ok(called)
}

/// The size of the allocation, in bytes.
const BYTES: usize = 1 << 20;
/// How many memsets are made.
pub(super) const MEMSETS: usize = 20;

/// Uses the first GPU by linked symbols, until a call fails.
fn work(note: &mut impl FnMut(&str, Option<c_int>) -> Result<bool, String>) -> Result<(), String> {
    let (mut context, mut address): (*mut c_void, u64) = (null_mut(), 0);
    let in_order = note("cuInit", call!(by_symbol(c"cuInit"), Flags, 0))?
        && note(
            "cuDevicePrimaryCtxRetain",
            call!(by_symbol(c"cuDevicePrimaryCtxRetain"), Context, &raw mut context, 0),
        )?
        && note("cuCtxSetCurrent", call!(by_symbol(c"cuCtxSetCurrent"), Handle, context))?
        && note("cuMemAlloc", call!(by_symbol(c"cuMemAlloc_v2"), Sized, &raw mut address, BYTES))?;
    if in_order {
        for n in 0..MEMSETS {
            let set = call!(by_symbol(c"cuMemsetD8_v2"), Memset, address, n as u8, BYTES);
            note("cuMemsetD8", set)?;
        }
        note("cuCtxSynchronize", call!(by_symbol(c"cuCtxSynchronize"), Nothing,))?;
        note("cuMemFree", call!(by_symbol(c"cuMemFree_v2"), Address, address))?;
    }
    if !context.is_null() {
        note("cuDevicePrimaryCtxRelease", call!(by_symbol(c"cuDevicePrimaryCtxRelease_v2"), Number, 0))?;
    }
    Ok(())
}

/// Looks up a function as the runtimes of CUDA 11 do.
fn getproc11(driver: &Library, name: &CStr) -> Option<*mut c_void> {
    let mut function: *mut c_void = null_mut();
    let version = minimum(name);
    let getproc = by_handle(driver, c"cuGetProcAddress");
    let result = call!(getproc, Getproc11, name.as_ptr(), &raw mut function, version, 0);
    (result == Some(0) && !function.is_null()).then_some(function)
}

/// Looks up a function as the runtimes of CUDA 12 and 13 do: they first look up `cuGetProcAddress` itself.
fn getproc12(driver: &Library, name: &CStr) -> Option<*mut c_void> {
    let (mut getproc, mut function): (*mut c_void, *mut c_void) = (null_mut(), null_mut());
    let mut status = 0;
    let (first, own) = (by_handle(driver, c"cuGetProcAddress_v2"), CString::from(c"cuGetProcAddress"));
    call!(first, Getproc12, own.as_ptr(), &raw mut getproc, 12000, 0, &raw mut status);
    let getproc = Some(getproc).filter(|getproc| !getproc.is_null());
    let version = minimum(name);
    let result = call!(getproc, Getproc12, name.as_ptr(), &raw mut function, version, 0, &raw mut status);
    (result == Some(0) && !function.is_null()).then_some(function)
}

/// Returns the CUDA version to look a function up with: the first that has its current variant.
fn minimum(name: &CStr) -> c_int {
    if name == c"cuInit" { 2000 } else { 4000 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_are_formatted_as_nvidia_smi_does() {
        let uuid = std::array::from_fn(|n| n as u8);
        assert_eq!(uuid_text("NVIDIA H100", &uuid), "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f");
        assert!(uuid_text("NVIDIA A100-SXM4-40GB MIG 1g.5gb", &uuid).starts_with("MIG-0001"));
    }
}
