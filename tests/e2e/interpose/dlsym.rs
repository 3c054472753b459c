//! `dlsym`: what it answers, to whom, and what it leaves behind.

use super::{assert_each_launch_is_counted_once, assert_silent, table};
use gpuspy_tests::{Done, Run};
use serde_json::Value;

/// Asserts dlsym's answers: handle by handle and name by name as without us (`plain`), but for our own exports, where the
/// search order comes past us, and, with `hooks`, the real libraries' functions of the table.
fn assert_answers(plain: &Value, observed: &Value, hooks: bool) {
    let (driver, runtime) = (table("driver"), table("runtime"));
    for (handle, names) in plain.as_object().unwrap() {
        for (name, object) in names.as_object().unwrap() {
            let ours = match handle.as_str() {
                "default" | "program" | "next" | "next again" => {
                    driver.contains(name) || runtime.contains(name) || name == "dlsym"
                }
                "libcuda.so.1" => hooks && driver.contains(name),
                "libcudart.so.12" => hooks && runtime.contains(name),
                _ => false,
            };
            let expected = if ours { "libgpuspy.so" } else { object.as_str().unwrap() };
            assert_eq!(observed[handle][name], expected, "{name} in {handle}");
        }
    }
    // The probe asks for something of each sort.
    assert_eq!(plain["libcuda.so.1"]["cuLaunchKernel"], "libcuda.so.1");
    assert_eq!(plain["libcudart.so.12"]["cudaMalloc"], "libcudart.so.12");
    for name in ["cudnnCreate", "cuFooBar", "cuMemRangeGetAttribute", "cuLaunchKernel"] {
        assert_eq!(plain["libcudnnlike.so"][name], "libcudnnlike.so", "{name}");
    }
}

#[test]
fn dlsym_answers_as_without_us_but_for_the_real_libraries_table_functions() {
    let plain = Run::of("dlsym_probe").plain().succeeded().said();
    let observed = Run::of("dlsym_probe").preloaded().succeeded();
    assert_answers(&plain, &observed.said(), true);
    assert_silent(&observed); // looking things up is no reason to start anything
}

#[test]
fn switched_off_dlsym_answers_as_without_us() {
    let plain = Run::of("dlsym_probe").plain().succeeded().said();
    let off = Run::of("dlsym_probe").env("GPUSPY", "0").preloaded().succeeded();
    assert_answers(&plain, &off.said(), false);
    assert_silent(&off);
}

#[test]
fn dlerror_tells_what_it_tells_without_us() {
    let plain = Run::of("dlerror_probe").plain().succeeded().stdout;
    assert!(plain.contains("cuNoSuchFunction"), "{plain}");
    assert_eq!(Run::of("dlerror_probe").preloaded().succeeded().stdout, plain);
}

#[test]
fn library_in_between_finds_the_next_function_and_not_its_own() {
    let done = Run::of("rtld_next").preloaded().succeeded();
    assert_eq!(done.said()["middle_calls"], 200);
    assert_each_launch_is_counted_once(&done);
}

#[test]
fn launches_through_dlsym_are_counted_once() {
    assert_each_launch_is_counted_once(&Run::of("dlsym_launch").preloaded().succeeded());
}

fn without_driver(done: &Done, answer: Option<i64>) {
    let said = done.said();
    for call in ["weak cuLaunchKernel", "default cuLaunchKernel", "weak cudaMalloc"] {
        assert_eq!(said[call], answer.map_or(Value::Null, Value::from), "{call}");
    }
    assert_eq!(said["driver_loaded"], false);
    assert_eq!(said["threads"], 1);
    assert_eq!(said["files_opened"], 0);
    assert_eq!(said["memfds"], 0);
    assert_silent(done);
}

#[test]
fn call_without_a_driver_returns_34_and_touches_nothing() {
    without_driver(&Run::of("no_driver").without_gpu().plain().succeeded(), None);
    without_driver(&Run::of("no_driver").without_gpu().preloaded().succeeded(), Some(34));
    without_driver(&Run::of("no_driver").env("GPUSPY", "0").without_gpu().preloaded().succeeded(), Some(34));
}
