//! Initialization, version, discovery of functions, names of errors.

use crate::call::{Call, Life, begin_service, life, set_life};
use crate::config::config;
use crate::error::{self, INVALID_VALUE, NO_DEVICE, NOT_FOUND, Outcome};
use crate::export::{Address, Answer, exports, lookup};
use crate::parameter::{InOut, Maybe, Out, Pointer, Text};
use crate::{assume, capture, effects, state, thread, truth};
use std::ffi::{CString, c_char};
use std::sync::{LazyLock, Once};

exports! {
    cuInit => init(flags: u32);
    cuDriverGetVersion => driver_version(version: Out<i32>);
    cuGetProcAddress => get_proc_address_v1(symbol: Text, function: Out<Option<Address>>, version: i32, flags: u64);
    cuGetProcAddress_v2 => get_proc_address(symbol: Text, function: Out<Option<Address>>, version: i32, flags: u64, status: Maybe<i32>);
    cuGetErrorName => error_name(error: i32, name: Out<*const c_char>);
    cuGetErrorString => error_string(error: i32, text: Out<*const c_char>);
    cuGetExportTable => export_table(table: Out<u64>, id: Pointer<u8>);
    cuProfilerStart | cuProfilerStop => profiler();
    cuThreadExchangeStreamCaptureMode => exchange_capture_mode(mode: InOut<u32>);
}

extern "C" fn at_exit() {
    if life() == Life::Forked {
        // The parent writes the buffered lines.
        return;
    }
    effects::drain();
    set_life(Life::Over);
    state::lock(0).report_pending();
    crate::call::report_questions();
    if truth::flush().is_err() {
        eprintln!("simcuda: the truth file cannot be written");
    }
}

extern "C" fn in_child() {
    set_life(Life::Forked);
}

fn init(_: &mut Call, flags: u32) -> Outcome {
    if flags != 0 {
        return Err(INVALID_VALUE);
    }
    if config().devices() == 0 {
        return Err(NO_DEVICE);
    }
    static EXIT: Once = Once::new();
    // The handlers that the application registers later run first: last in, first out.
    // SAFETY: the handlers are functions without preconditions.
    EXIT.call_once(|| unsafe {
        assert_eq!(libc::atexit(at_exit), 0, "atexit has room");
        assert_eq!(libc::pthread_atfork(None, None, Some(in_child)), 0, "pthread_atfork has room");
    });
    if life() == Life::New {
        begin_service();
    }
    Ok(())
}

fn driver_version(_: &mut Call, version: Out<i32>) -> Outcome {
    version.put(config().driver_version);
    Ok(())
}

fn get_proc_address_v1(
    call: &mut Call,
    symbol: Text,
    function: Out<Option<Address>>,
    version: i32,
    flags: u64,
) -> Outcome {
    get_proc_address(call, symbol, function, version, flags, Maybe::NONE)
}

/// CUdriverProcAddress_flags and CUdriverProcAddressQueryResult are cuda.h's.
fn get_proc_address(
    _: &mut Call,
    symbol: Text,
    function: Out<Option<Address>>,
    version: i32,
    flags: u64,
    status: Maybe<i32>,
) -> Outcome {
    const PER_THREAD: u64 = 2;
    if flags > 3 {
        return Err(INVALID_VALUE);
    }
    let (found, answer) = match lookup(&symbol, version, flags & PER_THREAD != 0, config().driver_version) {
        Answer::Found(row) => (Some(row.address), 0),
        Answer::SymbolNotFound => (None, 1),
        Answer::VersionNotSufficient => (None, 2),
    };
    function.put(found);
    status.put(answer);
    found.map(|_| ()).ok_or(NOT_FOUND)
}

fn error_name(_: &mut Call, error: i32, name: Out<*const c_char>) -> Outcome {
    let known = error::name(error);
    // cuda.h: NULL for an unknown error.
    name.put(known.map_or(std::ptr::null(), |name| name.as_ptr()));
    known.map(|_| ()).ok_or(INVALID_VALUE)
}

fn error_string(call: &mut Call, error: i32, text: Out<*const c_char>) -> Outcome {
    // NVIDIA's descriptions are not public text, so the name is returned.
    error_name(call, error, text)
}

fn export_table(_: &mut Call, table: Out<u64>, _: Pointer<u8>) -> Outcome {
    table.put(0);
    Err(NOT_FOUND)
}

fn profiler(call: &mut Call) -> Outcome {
    if truth::wanted() {
        let (api, tid, begin) = (call.api.name, thread::tid(), call.begin);
        truth::line(format_args!("\"kind\":\"profiler\",\"api\":\"{api}\",\"tid\":{tid},\"begin\":{begin}"));
    }
    Ok(())
}

fn exchange_capture_mode(_: &mut Call, mode: InOut<u32>) -> Outcome {
    if mode.get() > capture::RELAXED {
        return Err(INVALID_VALUE);
    }
    mode.put(thread::exchange_capture_mode(mode.get()));
    Ok(())
}

/// Writes the truth file now. Not in cuda.h. Returns 0 on success.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub extern "C-unwind" fn simcudaTruthFlush() -> i32 {
    effects::drain();
    i32::from(truth::flush().is_err())
}

/// Returns the assumptions and their defaults, one per line. Not in cuda.h. The text lives as long as the process.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub extern "C-unwind" fn simcudaAssumptions() -> *const c_char {
    static TEXT: LazyLock<CString> = LazyLock::new(|| CString::new(assume::text()).expect("no NUL"));
    TEXT.as_ptr()
}

/// Writes how many contexts that are active, streams, events, modules, graphs and executable graphs there are. Not in cuda.h.
/// Returns 0.
///
/// # Safety
/// `counts` has room for six numbers.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C-unwind" fn simcudaAlive(counts: *mut u64) -> i32 {
    let state = state::lock(0);
    let alive = [
        state.contexts.iter().filter(|(_, context)| context.active).count(),
        state.streams.iter().count(),
        state.events.iter().count(),
        state.modules.iter().count(),
        state.graphs.iter().count(),
        state.execs.iter().count(),
    ];
    for (place, count) in alive.into_iter().enumerate() {
        // SAFETY: the caller has room for all of them.
        unsafe { counts.add(place).write(count as u64) };
    }
    0
}
