//! A program that uses the built library as any other does: `dlopen`, `dlsym`, calls. Settings are read once per
//! process, so a test that needs its own settings runs in a process of its own.

#![allow(dead_code, clippy::missing_safety_doc)]

use serde_json::Value;
use std::ffi::{CStr, CString, c_void};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Returns the library that cargo built beside this test.
pub fn library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let built = test.ancestors().map(|folder| folder.join("libsimcuda.so")).find(|path| path.exists());
    built.expect("libsimcuda.so beside the test")
}

/// Runs `body` in a process of its own with the given settings; `test` is the name of the calling test.
pub fn alone(test: &str, settings: &[(&str, &str)], body: impl FnOnce()) {
    const MARK: &str = "SIMCUDA_TEST_ALONE";
    if std::env::var(MARK).is_ok_and(|name| name == test) {
        return body();
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([test, "--exact", "--nocapture", "--test-threads=1"]).env(MARK, test);
    let output = command.envs(settings.iter().copied()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{test} {settings:?}:\n{text}");
}

/// [`alone`] with a truth file, whose lines `check` sees in the first process.
pub fn with_truth(
    test: &str,
    settings: &[(&str, &str)],
    body: impl FnOnce(),
    check: impl FnOnce(Vec<Value>),
) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("truth");
    let mut settings = settings.to_vec();
    settings.push(("SIMCUDA_TRUTH", file.to_str().unwrap()));
    let in_child = std::env::var_os("SIMCUDA_TEST_ALONE").is_some();
    alone(test, &settings, body);
    if !in_child {
        check(read_truth(&file));
    }
}

fn read_truth(file: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(file).unwrap();
    text.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}

/// The lines of a kind.
pub fn of_kind<'a>(truth: &'a [Value], kind: &str) -> Vec<&'a Value> {
    truth.iter().filter(|line| line["kind"] == kind).collect()
}

/// Returns a whole number from a line.
pub fn number(line: &Value, field: &str) -> i64 {
    line[field].as_i64().unwrap_or_else(|| panic!("{field} in {line}"))
}

/// The loaded library.
pub fn handle() -> *mut c_void {
    static HANDLE: OnceLock<usize> = OnceLock::new();
    let handle = HANDLE.get_or_init(|| {
        let path = CString::new(library().to_str().unwrap()).unwrap();
        // SAFETY: a C string; the library's constructors are Rust's own.
        unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) as usize }
    });
    assert_ne!(*handle, 0);
    *handle as *mut c_void
}

/// An export's address; NULL if there is none.
pub fn symbol(name: &str) -> *mut c_void {
    let name = CString::new(name).unwrap();
    // SAFETY: a loaded library and a C string.
    unsafe { libc::dlsym(handle(), name.as_ptr()) }
}

/// Calls an export: `cu!(cuMemFree_v2(address: u64))`. The result is the CUresult.
#[macro_export]
macro_rules! cu {
    ($name:ident($($argument:expr => $type:ty),* $(,)?)) => {{
        let address = $crate::common::symbol(stringify!($name));
        assert!(!address.is_null(), stringify!($name));
        // SAFETY: the test writes the types that cuda.h has for the function, and keeps cuda.h's rules or breaks one that
        // the driver has to notice.
        let function: extern "C" fn($($type),*) -> i32 = unsafe { std::mem::transmute(address) };
        function($($argument),*)
    }};
}

/// [`cu!`], which must succeed.
#[macro_export]
macro_rules! ok {
    ($name:ident($($rest:tt)*)) => { assert_eq!($crate::cu!($name($($rest)*)), 0, stringify!($name)) };
}

/// Initializes the driver, makes the primary context of device 0 current, and returns it.
pub fn begin() -> u64 {
    ok!(cuInit(0 => u32));
    let mut context = 0;
    ok!(cuDevicePrimaryCtxRetain(&mut context => &mut u64, 0 => i32));
    ok!(cuCtxSetCurrent(context => u64));
    context
}

/// Loads a module with a kernel of any name, and returns the kernel.
pub fn kernel(name: &str) -> u64 {
    let text =
        CString::new(format!(".version 8.0\n.visible .entry {name}(.param .u64 a) {{ ret; }}\n")).unwrap();
    let (mut module, mut function) = (0, 0);
    ok!(cuModuleLoadData(&mut module => &mut u64, text.as_ptr() => *const i8));
    let name = CString::new(name).unwrap();
    ok!(cuModuleGetFunction(&mut function => &mut u64, module => u64, name.as_ptr() => *const i8));
    function
}

/// Launches one thread of a kernel with one argument; the CUresult.
pub fn try_launch(function: u64, stream: u64, argument: u64) -> i32 {
    let arguments = [&argument as *const u64];
    cu!(cuLaunchKernel(
        function => u64, 1 => u32, 1 => u32, 1 => u32, 1 => u32, 1 => u32, 1 => u32, 0 => u32, stream => u64,
        arguments.as_ptr() => *const *const u64, std::ptr::null() => *const u64
    ))
}

/// [`try_launch`], which must succeed.
pub fn launch(function: u64, stream: u64, argument: u64) {
    assert_eq!(try_launch(function, stream, argument), 0);
}

/// A stream; flags 1 = non-blocking.
pub fn stream(flags: u32) -> u64 {
    let mut stream = 0;
    ok!(cuStreamCreate(&mut stream => &mut u64, flags => u32));
    stream
}

/// An event.
pub fn event(flags: u32) -> u64 {
    let mut event = 0;
    ok!(cuEventCreate(&mut event => &mut u64, flags => u32));
    event
}

/// Device memory.
pub fn device(bytes: usize) -> u64 {
    let mut address = 0;
    ok!(cuMemAlloc_v2(&mut address => &mut u64, bytes => usize));
    address
}

/// Page-locked host memory.
pub fn pinned(bytes: usize) -> u64 {
    let mut address = 0;
    ok!(cuMemHostAlloc(&mut address => &mut u64, bytes => usize, 0 => u32));
    address
}

/// Waits for a stream.
pub fn synchronize(stream: u64) {
    ok!(cuStreamSynchronize(stream => u64));
}

/// A result's name.
pub fn error_name(result: i32) -> String {
    let mut name = std::ptr::null();
    match cu!(cuGetErrorName(result => i32, &mut name => &mut *const i8)) {
        // SAFETY: a C string of the library's.
        0 => unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned(),
        _ => format!("unknown {result}"),
    }
}

/// Host ns, on the clock of the truth file.
pub fn now() -> i64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a valid place.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_RAW, &mut time) };
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

/// Blocks streams until it is opened, so that the work submitted to them meanwhile starts without delays by the host.
pub struct Gate(u64);

impl Gate {
    /// Closes the streams.
    pub fn close(streams: &[u64]) -> Self {
        let flag = pinned(8);
        for &stream in streams {
            ok!(cuStreamWaitValue32(stream => u64, flag => u64, 1 => u32, 1 => u32));
        }
        Self(flag)
    }

    /// Opens all the streams at the same moment.
    pub fn open(self) {
        // SAFETY: page-locked memory of ours, which the driver watches.
        unsafe { (self.0 as *mut u32).write_volatile(1) };
    }
}
