//! `dlsym`: which pointers callers get, and that a lookup has no side effects.

use super::{assert_each_launch_is_counted_once, assert_silent, table};
use gpuspy_tests::{Done, Run};
use serde_json::Value;

/// Checks dlsym's answers, handle by handle and name by name. They equal those without the agent (`plain`) except for
/// the agent's own exports, where the search order reaches the agent, and, with `hooks`, for the real libraries'
/// functions in the agent's table.
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
    // The probe looks up something of each kind.
    assert_eq!(plain["libcuda.so.1"]["cuLaunchKernel"], "libcuda.so.1");
    assert_eq!(plain["libcudart.so.12"]["cudaMalloc"], "libcudart.so.12");
    for name in ["cudnnCreate", "cuFooBar", "cuMemRangeGetAttribute", "cuLaunchKernel"] {
        assert_eq!(plain["libcudnnlike.so"][name], "libcudnnlike.so", "{name}");
    }
}

#[test]
fn dlsym_returns_hooks_only_for_table_functions_of_the_real_libraries() {
    let plain = Run::of("dlsym_probe").plain().succeeded().said();
    let observed = Run::of("dlsym_probe").preloaded().succeeded();
    assert_answers(&plain, &observed.said(), true);
    assert_silent(&observed); // lookups alone start no session
}

#[test]
fn with_the_agent_disabled_dlsym_returns_no_hooks() {
    let plain = Run::of("dlsym_probe").plain().succeeded().said();
    let off = Run::of("dlsym_probe").env("GPUSPY", "0").preloaded().succeeded();
    assert_answers(&plain, &off.said(), false);
    assert_silent(&off);
}

#[test]
fn dlerror_reports_the_same_as_without_the_agent() {
    let plain = Run::of("dlerror_probe").plain().succeeded().stdout;
    assert!(plain.contains("cuNoSuchFunction"), "{plain}");
    assert_eq!(Run::of("dlerror_probe").preloaded().succeeded().stdout, plain);
}

#[test]
fn a_wrapping_library_finds_the_next_function_and_not_its_own() {
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
fn a_call_without_a_driver_returns_34_and_has_no_side_effects() {
    without_driver(&Run::of("no_driver").without_gpu().plain().succeeded(), None);
    without_driver(&Run::of("no_driver").without_gpu().preloaded().succeeded(), Some(34));
    without_driver(&Run::of("no_driver").env("GPUSPY", "0").without_gpu().preloaded().succeeded(), Some(34));
}
