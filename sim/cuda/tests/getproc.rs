//! Discovery: cuGetProcAddress returns what real drivers returned to the requests of real runtimes, but with our own
//! exports.

mod common;

use common::{alone, library, symbol};
use std::ffi::{CString, c_void};
use std::process::Command;

const NOT_FOUND: i32 = 500;

fn ask(name: &str, version: i32, flags: u64) -> (i32, *mut c_void, i32) {
    let name = CString::new(name).unwrap();
    let (mut function, mut status) = (std::ptr::dangling_mut(), -1);
    let result = cu!(cuGetProcAddress_v2(
        name.as_ptr() => *const i8, &mut function => &mut *mut c_void, version => i32, flags => u64,
        &mut status => &mut i32
    ));
    (result, function, status)
}

/// Replays a list of requests before cuInit.
fn replay(list: &str) {
    let requests = list.lines().filter(|line| !line.starts_with('#'));
    let mut count = 0;
    for request in requests {
        let [name, version, flags, suffix] = request.split(' ').collect::<Vec<_>>()[..] else {
            panic!("{request}")
        };
        let name = name.trim_matches('"');
        let (result, function, status) = ask(name, version.parse().unwrap(), flags.parse().unwrap());
        if suffix == "-" {
            assert_eq!((result, function, status), (NOT_FOUND, std::ptr::null_mut(), 1), "{request}");
        } else {
            let export = symbol(&format!("{name}{}", suffix.trim_matches('.')));
            assert!(!export.is_null(), "{request}");
            assert_eq!((result, function, status), (0, export, 0), "{request}");
        }
        count += 1;
    }
    assert!(count > 400);
}

#[test]
fn a_12_9_driver_answers_the_12_9_runtime() {
    let version = [("SIMCUDA_DRIVER_VERSION", "12090")];
    alone("a_12_9_driver_answers_the_12_9_runtime", &version, || {
        replay(include_str!("../data/getproc_12.9.txt"))
    });
}

#[test]
fn a_13_5_driver_answers_the_13_5_runtime() {
    let version = [("SIMCUDA_DRIVER_VERSION", "13050")];
    alone("a_13_5_driver_answers_the_13_5_runtime", &version, || {
        replay(include_str!("../data/getproc_13.5.txt"))
    });
}

#[test]
fn an_older_driver_does_not_know_newer_functions() {
    let version = [("SIMCUDA_DRIVER_VERSION", "12020")];
    alone("an_older_driver_does_not_know_newer_functions", &version, || {
        assert_eq!(ask("cuMemcpyBatchAsync", 13050, 0), (NOT_FOUND, std::ptr::null_mut(), 1));
        assert_eq!(
            ask("cuGraphAddNode", 13050, 0),
            (0, symbol("cuGraphAddNode"), 0),
            "not _v2, which is 12.3's"
        );
        let mut driver = 0;
        assert_eq!(cu!(cuDriverGetVersion(&mut driver => &mut i32)), 0);
        assert_eq!(driver, 12020);
    });
}

#[test]
fn version_and_flags_choose_the_variant() {
    alone("version_and_flags_choose_the_variant", &[], || {
        assert_eq!(ask("cuMemAlloc", 3010, 0).1, symbol("cuMemAlloc"));
        assert_eq!(ask("cuMemAlloc", 3020, 0).1, symbol("cuMemAlloc_v2"));
        assert_eq!(ask("cuCtxCreate", 11040, 1).1, symbol("cuCtxCreate_v3"));
        assert_eq!(ask("cuCtxCreate", 12090, 0).1, symbol("cuCtxCreate_v4"));
        assert_eq!(ask("cuLaunchKernel", 12090, 2).1, symbol("cuLaunchKernel_ptsz"));
        assert_eq!(ask("cuLaunchKernel", 12090, 1).1, symbol("cuLaunchKernel"));
        assert_eq!(ask("cuMemcpyHtoD", 12090, 2).1, symbol("cuMemcpyHtoD_v2_ptds"));
        assert_eq!(ask("cuInit", 12090, 2).1, symbol("cuInit"), "the legacy one where there is no other");
        assert_eq!(
            ask("cuLaunchKernelEx", 11050, 0),
            (NOT_FOUND, std::ptr::null_mut(), 2),
            "too old a version"
        );
        assert_eq!(
            ask("cuLaunchKernel_ptsz", 12090, 0),
            (NOT_FOUND, std::ptr::null_mut(), 1),
            "a base name only"
        );
        assert_eq!(ask("cuLaunchKernel", 12090, 4).0, 1, "an unknown flag");
    });
}

#[test]
fn the_old_lookup_has_four_arguments_and_the_status_may_be_null() {
    alone("the_old_lookup_has_four_arguments_and_the_status_may_be_null", &[], || {
        let name = CString::new("cuGetProcAddress").unwrap();
        let mut function = std::ptr::null_mut();
        for (version, export) in [(11030, "cuGetProcAddress"), (12000, "cuGetProcAddress_v2")] {
            assert_eq!(
                cu!(cuGetProcAddress(
                    name.as_ptr() => *const i8, &mut function => &mut *mut c_void, version => i32, 0 => u64
                )),
                0
            );
            assert_eq!(function, symbol(export));
        }
        let null = std::ptr::null_mut();
        let result = cu!(cuGetProcAddress_v2(
            name.as_ptr() => *const i8, &mut function => &mut *mut c_void, 12000 => i32, 0 => u64, null => *mut i32
        ));
        assert_eq!((result, function), (0, symbol("cuGetProcAddress_v2")));
    });
}

#[test]
fn our_own_exports_are_handed_out_while_a_preload_exports_the_same_names() {
    const TEST: &str = "our_own_exports_are_handed_out_while_a_preload_exports_the_same_names";
    let folder = tempfile::tempdir().unwrap();
    let preload = folder.path().join("other.so");
    std::fs::copy(library(), &preload).unwrap();
    alone(TEST, &[("LD_PRELOAD", preload.to_str().unwrap())], || {
        // SAFETY: a C string.
        let first = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"cuLaunchKernel".as_ptr()) };
        assert!(!first.is_null(), "the preload is there");
        assert_ne!(first, symbol("cuLaunchKernel"), "and it is another");
        for name in ["cuLaunchKernel", "cuInit", "cuArrayCreate"] {
            let (_, found, _) = ask(name, 4000, 0);
            let export = if name == "cuArrayCreate" { "cuArrayCreate_v2" } else { name };
            assert_eq!(found, symbol(export), "{name}");
        }
    });
}

#[test]
fn every_name_is_exported_and_the_soname_is_the_drivers() {
    let names = include_str!("../names.txt");
    let mut count = 0;
    for line in names.lines().filter(|line| !line.starts_with('#')) {
        let mut words = line.split(' ');
        let base = words.next().unwrap();
        for variant in words {
            let suffix = variant.trim_start_matches(|c: char| c.is_ascii_digit());
            assert!(!symbol(&format!("{base}{suffix}")).is_null(), "{base}{suffix}");
            count += 1;
        }
    }
    assert!(count > 700);
    let dynamic = Command::new("readelf").arg("-d").arg(library()).output().unwrap();
    let dynamic = String::from_utf8_lossy(&dynamic.stdout).into_owned();
    assert!(dynamic.contains("[libcuda.so.1]") && dynamic.contains("SYMBOLIC"), "{dynamic}");
}

#[test]
fn functions_that_are_not_simulated_fail_with_not_supported() {
    alone("functions_that_are_not_simulated_fail_with_not_supported", &[], || {
        assert_eq!(cu!(cuTexRefCreate()), 801);
        assert_eq!(common::error_name(801), "CUDA_ERROR_NOT_SUPPORTED");
        assert_eq!(common::error_name(0), "CUDA_SUCCESS");
        let mut table = 1usize;
        assert_eq!(
            cu!(cuGetExportTable(&mut table => &mut usize, [0u8; 16].as_ptr() => *const u8)),
            NOT_FOUND
        );
        assert_eq!(table, 0);
    });
}
