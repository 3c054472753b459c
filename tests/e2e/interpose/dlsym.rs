//! `dlsym`: which pointers callers get, and that a lookup has no side effects.

use super::{assert_each_launch_is_counted_once, assert_silent, table};
use gpuspy_tests::{Done, Run};
use serde_json::Value;

/// Checks dlsym's answers, handle by handle and name by name. They equal those without the agent (`plain`) except for
/// dlsym itself, where the search order reaches the agent, and, with `hooks`, for the real libraries' functions in the
/// agent's table. (The probe loads these libraries into scopes of their own: by the process's scope nobody finds them.)
fn assert_answers(plain: &Value, observed: &Value, hooks: bool) {
    let (driver, runtime) = (table("driver"), table("runtime"));
    for (handle, names) in plain.as_object().unwrap() {
        for (name, object) in names.as_object().unwrap() {
            let ours = match handle.as_str() {
                "default" | "program" | "next" | "next again" => name == "dlsym",
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

fn without_driver(done: &Done) {
    let said = done.said();
    for call in
        ["weak cuLaunchKernel", "default cuLaunchKernel", "weak cudaMalloc", "weak cudaGetDeviceCount"]
    {
        assert_eq!(said[call], Value::Null, "{call}");
    }
    for lookup in ["missing by default", "missing in the program", "missing next"] {
        assert_eq!(said[lookup], true, "{lookup}");
    }
    assert_eq!(said["devices"], -1, "a library that asks by a weak reference finds no CUDA either");
    assert_eq!(said["driver_loaded"], false);
    assert_eq!(said["threads"], 1);
    assert_eq!(said["files_opened"], 0);
    assert_eq!(said["memfds"], 0);
    assert_silent(done);
}

#[test]
fn a_machine_without_cuda_looks_like_one() {
    without_driver(&Run::of("no_driver").without_gpu().plain().succeeded());
    for enabled in ["1", "0"] {
        let run = Run::of("no_driver").env("GPUSPY", enabled).without_gpu();
        without_driver(&run.preloaded().succeeded());
    }
}

#[test]
fn a_call_that_nobody_provides_returns_34_and_has_no_side_effects() {
    for enabled in ["1", "0"] {
        let run =
            Run::of("no_driver").env("GPUSPY", enabled).env("CALL_WHAT_IS_UNDEFINED", "1").without_gpu();
        let done = run.preloaded().succeeded();
        assert_eq!(done.said()["undefined cuLaunchKernel"], 34);
        without_driver(&done);
    }
}

#[test]
fn a_librarys_variables_with_cudas_names_stay_its_own() {
    let cases = [("own_variables_linked", ""), ("own_variables_loaded", "local")];
    for (program, how) in cases.into_iter().chain(["global", "deep"].map(|how| ("own_variables_loaded", how)))
    {
        let run =
            || [how].iter().filter(|how| !how.is_empty()).fold(Run::of(program), |run, how| run.arg(how));
        let plain = run().plain().succeeded().said();
        assert_eq!(plain["null"], 7, "{program} {how}: the variables have no value at the start");
        assert_ne!(plain["as_expected"], false, "{program} {how}");
        assert_ne!(plain["program_sees_null"], false, "{program} {how}");
        let off = run().env("GPUSPY", "0").preloaded().succeeded();
        assert_eq!(off.said(), plain, "{program} {how}, turned off");
        let observed = run().preloaded().succeeded();
        assert_eq!(observed.said(), plain, "{program} {how}");
        assert_each_launch_is_counted_once(&observed);
    }
}

#[test]
fn a_function_that_merely_has_a_name_of_the_drivers_is_called_and_not_traced() {
    for enabled in ["1", "0"] {
        let done = Run::of("namesake").env("GPUSPY", enabled).without_gpu().preloaded().succeeded();
        assert_silent(&done);
    }
}

/// It found nothing: only its own dependencies were searched for it.
#[test]
fn a_library_finds_the_cuda_that_the_library_brings_which_needs_it() {
    let plain = Run::of("weak_in_scope").plain().succeeded().said();
    assert_eq!(plain["is_found"], true);
    assert!(plain["devices"].as_u64().unwrap() > 0, "{plain}");
    assert_eq!(Run::of("weak_in_scope").preloaded().succeeded().said(), plain);
}

/// Its calls returned CUDA_ERROR_STUB_LIBRARY.
#[test]
fn a_loaded_librarys_own_function_with_a_name_of_cudas_is_called_where_there_is_no_driver() {
    Run::of("namesake_loaded").without_gpu().plain().succeeded();
    for enabled in ["1", "0"] {
        let run = Run::of("namesake_loaded").env("GPUSPY", enabled).without_gpu();
        assert_silent(&run.preloaded().succeeded());
    }
}

#[test]
fn a_functions_address_is_the_same_by_every_route() {
    let plain = Run::of("pointers").plain().succeeded().said();
    assert!(plain["equal"].as_object().unwrap().values().all(|equal| *equal == true), "{plain}");
    let observed = Run::of("pointers").preloaded().succeeded();
    assert_eq!(observed.said(), plain);
    assert_each_launch_is_counted_once(&observed);
}
