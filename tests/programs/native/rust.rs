// The same for a program in Rust: for each memset, its bytes, the line and the function.

use std::ffi::{c_int, c_void};
use std::hint::black_box;

unsafe extern "C" {
    fn cudaMalloc(memory: *mut *mut c_void, bytes: usize) -> c_int;
    fn cudaMemset(memory: *mut c_void, value: c_int, bytes: usize) -> c_int;
}

#[inline(never)]
fn plain(memory: *mut c_void, bytes: usize) -> c_int {
    println!("{bytes} {} rust::plain", line!() + 1);
    black_box(unsafe { cudaMemset(memory, 0, bytes) })
}

#[inline(always)]
fn inlined(memory: *mut c_void, bytes: usize) -> c_int {
    println!("{bytes} {} rust::inlined", line!() + 1);
    black_box(unsafe { cudaMemset(memory, 0, bytes) })
}

fn main() {
    let mut memory = std::ptr::null_mut();
    unsafe { cudaMalloc(&mut memory, 1 << 16) };
    let failed = plain(memory, 1) | inlined(memory, 2) | plain(memory, 3);
    std::process::exit(failed);
}
