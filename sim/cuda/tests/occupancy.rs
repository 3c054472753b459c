//! The multiprocessor resources of a kernel, and the driver's queries about them.

mod common;

use common::{alone, begin, kernel};
use std::ffi::CString;

const INVALID_VALUE: i32 = 1;
const INVALID_CONTEXT: i32 = 201;
const INVALID_HANDLE: i32 = 400;
const LAUNCH_OUT_OF_RESOURCES: i32 = 701;

fn attribute(function: u64, which: i32) -> i32 {
    let mut value = -1;
    ok!(cuFuncGetAttribute(&mut value => &mut i32, which => i32, function => u64));
    value
}

fn blocks(function: u64, threads: i32, shared: usize) -> i32 {
    let mut blocks = -1;
    ok!(cuOccupancyMaxActiveBlocksPerMultiprocessor(
        &mut blocks => &mut i32, function => u64, threads => i32, shared => usize));
    blocks
}

fn launch(function: u64, threads: u32, shared: u32) -> i32 {
    let argument = 0u64;
    let arguments = [(&raw const argument).cast::<u8>()];
    cu!(cuLaunchKernel(
        function => u64, 1 => u32, 1 => u32, 1 => u32, threads => u32, 1 => u32, 1 => u32, shared => u32, 0 => u64,
        arguments.as_ptr() => *const *const u8, std::ptr::null() => *const u64))
}

fn library_kernel(name: &str) -> u64 {
    let text =
        CString::new(format!(".version 8.0\n.visible .entry {name}(.param .u64 a) {{ ret; }}\n")).unwrap();
    let (mut library, mut kernel, none) = (0, 0, std::ptr::null::<u64>());
    ok!(cuLibraryLoadData(
        &mut library => &mut u64, text.as_ptr() => *const i8, none => *const u64, none => *const u64, 0 => u32,
        none => *const u64, none => *const u64, 0 => u32));
    let name = CString::new(name).unwrap();
    ok!(cuLibraryGetKernel(&mut kernel => &mut u64, library => u64, name.as_ptr() => *const i8));
    kernel
}

#[test]
fn a_kernels_name_gives_its_resources_and_they_limit_its_blocks() {
    alone("a_kernels_name_gives_its_resources_and_they_limit_its_blocks", &[], || {
        begin();
        let wide = kernel("wide_regs128_smem16384_local48");
        assert_eq!([0, 1, 3, 4, 8].map(|which| attribute(wide, which)), [512, 16384, 48, 128, 32 << 10]);
        // 16 warps have the registers; 16 KiB more, and 1: 233472 / 33792.
        assert_eq!((blocks(wide, 256, 0), blocks(wide, 64, 0), blocks(wide, 64, 16384)), (2, 8, 6));
        assert_eq!(blocks(wide, 513, 0), 0);
        let (mut grid, mut block, mut bytes) = (0, 0, 0usize);
        ok!(cuOccupancyMaxPotentialBlockSize(
            &mut grid => &mut i32, &mut block => &mut i32, wide => u64, std::ptr::null() => *const u8, 0 => usize,
            0 => i32));
        assert_eq!((grid, block, blocks(wide, block, 0)), (132, 512, 1));
        ok!(cuOccupancyAvailableDynamicSMemPerBlock(
            &mut bytes => &mut usize, wide => u64, 2 => i32, 256 => i32));
        assert_eq!(bytes, (114 << 10) - 1024 - 16384);
        assert_eq!(blocks(wide, 256, bytes), 2);
        assert_eq!(blocks(wide, 256, bytes + 1), 1, "not one byte more");
        let kernel = library_kernel("k_regs64");
        assert_eq!(blocks(kernel, 512, 0), 2, "a CUkernel in a CUfunction's place");
    });
}

#[test]
fn launches_beyond_a_kernels_limits_fail() {
    alone("launches_beyond_a_kernels_limits_fail", &[], || {
        begin();
        let wide = kernel("wide_regs128_smem16384_1us");
        assert_eq!(launch(wide, 512, 0), 0);
        assert_eq!(launch(wide, 544, 0), LAUNCH_OUT_OF_RESOURCES);
        assert_eq!(launch(wide, 32, 32 << 10), 0);
        assert_eq!(launch(wide, 32, (32 << 10) + 1), INVALID_VALUE, "not opted in to");
        let most = 211 << 10;
        assert_eq!(
            cu!(cuFuncSetAttribute(wide => u64, 8 => i32, most + 1 => i32)),
            INVALID_VALUE,
            "with the static"
        );
        ok!(cuFuncSetAttribute(wide => u64, 8 => i32, most => i32));
        assert_eq!(launch(wide, 32, most as u32), 0);
        let kernel = library_kernel("k_1us");
        ok!(cuKernelSetAttribute(8 => i32, 64 << 10 => i32, kernel => u64, 0 => i32));
        assert_eq!(launch(kernel, 32, 64 << 10), 0, "of its CUkernel");
    });
}

#[test]
fn occupancy_queries_accept_only_live_handles_of_the_current_context() {
    alone(
        "occupancy_queries_accept_only_live_handles_of_the_current_context",
        &[("SIMCUDA_DEVICES", "2")],
        || {
            let first = begin();
            let (function, kernel) = (kernel("k_regs64"), library_kernel("k_regs48"));
            let (mut value, mut second) = (0, 0);
            let (mut ask, blocks) = (
                |handle: u64| cu!(cuFuncGetAttribute(&mut value => &mut i32, 4 => i32, handle => u64)),
                |handle: u64| {
                    let mut blocks = 0;
                    cu!(cuOccupancyMaxActiveBlocksPerMultiprocessor(
                    &mut blocks => &mut i32, handle => u64, 64 => i32, 0 => usize))
                },
            );
            assert_eq!((ask(function), blocks(function), blocks(kernel)), (0, 0, 0));
            assert_eq!(ask(kernel), INVALID_HANDLE, "a CUkernel's are a device's");
            assert_eq!((ask(function + 1), blocks(function + 1)), (INVALID_HANDLE, INVALID_HANDLE));
            let of = |kernel: u64, device: i32| {
                let mut value = 0;
                let result =
                    cu!(cuKernelGetAttribute(&mut value => &mut i32, 4 => i32, kernel => u64, device => i32));
                (result, value)
            };
            assert_eq!((of(kernel, 1), of(kernel, 2).0, of(function, 0).0), ((0, 48), 101, INVALID_HANDLE));
            ok!(cuDevicePrimaryCtxRetain(&mut second => &mut u64, 1 => i32));
            ok!(cuCtxSetCurrent(second => u64));
            assert_eq!((blocks(function), blocks(kernel)), (INVALID_CONTEXT, 0));
            ok!(cuCtxSetCurrent(0 => u64));
            assert_eq!((ask(function), blocks(kernel)), (INVALID_CONTEXT, INVALID_CONTEXT));
            ok!(cuCtxSetCurrent(first => u64));
            assert_eq!(ask(function), 0);
        },
    );
}

#[test]
fn a_cukernel_in_place_of_a_cufunction_is_refused_or_accepted_as_assumed() {
    for (assumed, refused) in [("kernel_handles=refused", INVALID_HANDLE), ("kernel_handles=either", 0)] {
        let settings = [("SIMCUDA_ASSUME", assumed), ("TEST_EXPECTS", &refused.to_string())];
        alone("a_cukernel_in_place_of_a_cufunction_is_refused_or_accepted_as_assumed", &settings, || {
            let expected: i32 = std::env::var("TEST_EXPECTS").unwrap().parse().unwrap();
            begin();
            let (function, kernel) = (kernel("k_regs64"), library_kernel("k_regs48"));
            let (mut name, mut value, mut count) = (std::ptr::null::<i8>(), 0, 0usize);
            let answers = [
                cu!(cuFuncGetName(&mut name => &mut *const i8, kernel => u64)),
                cu!(cuKernelGetName(&mut name => &mut *const i8, function => u64)),
                cu!(cuFuncGetAttribute(&mut value => &mut i32, 4 => i32, kernel => u64)),
                cu!(cuKernelGetAttribute(&mut value => &mut i32, 4 => i32, function => u64, 0 => i32)),
                cu!(cuFuncSetAttribute(kernel => u64, 8 => i32, 1024 => i32)),
                cu!(cuFuncGetParamInfo(kernel => u64, 0 => usize, &mut count => &mut usize, std::ptr::null() => *const usize)),
            ];
            assert_eq!(answers, [expected; 6]);
            assert_eq!((launch(kernel, 32, 0), blocks(kernel, 64, 0) > 0), (0, true), "as cuda.h says");
            assert_eq!(cu!(cuFuncGetName(&mut name => &mut *const i8, 0 => u64)), INVALID_VALUE);
        });
    }
}
