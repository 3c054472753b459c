//! `gpuspy doctor`: each injected fault is reported, a sound machine is reported sound, and nothing is left behind.

use super::lifecycle::files;
use gpuspy_tests::{Done, Run, agent, gpuspy, program, root};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// The result of one `gpuspy doctor` run.
struct Visit {
    code: Option<i32>,
    checks: Vec<Value>,
}

impl Visit {
    /// Returns the checks of a topic whose finding contains `part`.
    fn of(&self, topic: &str, part: &str) -> Vec<&Value> {
        let is_meant = |c: &&Value| c["topic"] == topic && c["found"].as_str().unwrap().contains(part);
        self.checks.iter().filter(is_meant).collect()
    }

    /// Returns the advice of the only check of a topic that contains `part`, and fails the test unless it has this
    /// level.
    #[track_caller]
    fn has(&self, level: &str, topic: &str, part: &str) -> &str {
        let found = self.of(topic, part);
        assert_eq!(found.len(), 1, "{topic} with {part:?}: {:#?}", self.checks);
        assert_eq!(found[0]["level"], level, "{:#}", found[0]);
        assert_eq!(
            found[0].get("todo").is_some(),
            level != "ok",
            "a check that is not ok says what to do: {:#}",
            found[0]
        );
        found[0]["todo"].as_str().unwrap_or_default()
    }

    fn levels(&self, level: &str) -> Vec<&Value> {
        self.checks.iter().filter(|c| c["level"] == level).collect()
    }
}

/// Runs the doctor in the run's environment, and checks that it leaves no files.
fn visit(run: Run, arguments: &[&str]) -> Visit {
    let temporary = tempfile::tempdir().unwrap();
    let run = run.env("TMPDIR", temporary.path()).env("XDG_RUNTIME_DIR", temporary.path());
    let mut command = run.gpuspy_command(&["doctor", "--json"]);
    command.args(arguments);
    let done = run.finish(command);
    assert_eq!(
        std::fs::read_dir(temporary.path()).unwrap().count(),
        0,
        "the doctor left temporary files behind"
    );
    assert_eq!(files(&done), [] as [&str; 0], "the doctor left files behind");
    parse_visit(&done)
}

fn parse_visit(done: &Done) -> Visit {
    let json: Value = serde_json::from_str(&done.stdout)
        .unwrap_or_else(|e| panic!("{e}: {}\n{}\n{}", done.status, done.stdout, done.stderr));
    let visit = Visit { code: done.status.code(), checks: json["checks"].as_array().unwrap().clone() };
    let problems = visit.levels("problem").len();
    assert_eq!(json["problems"], problems);
    assert_eq!(visit.code, Some(i32::from(problems > 0)), "{:#?}", visit.checks);
    visit
}

/// Prepares a doctor on the simulated driver, whichever program is checked.
fn run() -> Run {
    Run::command("true")
}

const ROUTES: [&str; 6] = [
    "linked symbols",
    "dlsym",
    "cuGetProcAddress",
    "cuGetProcAddress_v2",
    "libcudart.so.12",
    "libcudart.so.13",
];

#[test]
fn all_is_well_on_the_simulator() {
    let visit = visit(run(), &[]);
    assert_eq!(visit.code, Some(0), "{:#?}", visit.checks);
    visit.has("ok", "agent", "version ");
    visit.has("ok", "glibc", "the agent needs glibc 2.");
    visit.has("ok", "driver", "supports CUDA up to 12.9");
    visit.has("ok", "GPU", "0: Simulated GPU, 80.0 GiB, compute capability 9.0, GPU-73696d75-6c61-");
    visit.has("ok", "runtime", "CUDA 12.9");
    visit.has("ok", "runtime", "CUDA 13.5");
    for route in ROUTES {
        visit.has("ok", "interception", &format!("by {route}: calls are recorded"));
    }
    visit.has("ok", "GPU times", "20 of 20 operations timed");
    visit.has("ok", "shared memory", "work");
    visit.has("ok", "/proc", "readable");
    visit.has("ok", "attaching", "can be collected from");
    visit.has("ok", "traces", "are written into the working directory");
    visit.has("ok", "conflicts", "no other tool");
}

#[test]
fn simgpu_puts_the_simulator_before_the_doctor() {
    let mut command = Command::new(root().join("scripts/simgpu"));
    command.arg(gpuspy()).arg("doctor").env_remove("LD_PRELOAD").env_remove("LD_LIBRARY_PATH");
    let output = command.current_dir(tempfile::tempdir().unwrap().path()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("interception   by dlsym: calls are recorded\n"), "{text}");
    assert!(text.contains("\n\ngpuspy works here"), "{text}");
}

#[test]
fn without_cuda_the_driver_is_reported_missing() {
    let visit = visit(run().without_gpu(), &[]);
    let todo = visit.has("problem", "driver", "libcuda.so.1");
    assert!(todo.contains("--gpus all"), "{todo}");
    visit.has("warning", "interception", "there is no working driver");
    visit.has("ok", "runtime", "none on the loader's path");
    assert_eq!(visit.levels("problem").len(), 1, "{:#?}", visit.checks);
}

#[test]
fn without_a_gpu_the_driver_error_is_reported_and_every_route_is_still_checked() {
    let visit = visit(run().env("SIMCUDA_FAIL", "cuInit:100:*"), &[]);
    let todo = visit.has("problem", "driver", "cuInit fails: CUDA_ERROR_NO_DEVICE (100)");
    assert!(todo.contains("CUDA_VISIBLE_DEVICES"), "{todo}");
    for route in &ROUTES[..4] {
        visit.has("ok", "interception", &format!("by {route}: calls are recorded (cuInit returned 100)"));
    }
    for route in &ROUTES[4..] {
        visit.has("ok", "interception", &format!("by {route}: calls are recorded (cudaMalloc returned 100)"));
    }
    assert!(visit.of("GPU times", "").is_empty());
}

#[test]
fn an_unusable_gpu_is_reported() {
    let visit = visit(run().env("SIMCUDA_FAIL", "cuDevicePrimaryCtxRetain:46:*"), &[]);
    let todo = visit.has("problem", "GPU times", "cuDevicePrimaryCtxRetain returned 46");
    assert!(todo.contains("nvidia-smi"), "{todo}");
}

#[test]
fn a_missing_agent_is_reported() {
    let visit = visit(run().env("GPUSPY_AGENT", "/nowhere/libgpuspy.so"), &[]);
    let todo = visit.has("problem", "agent", "/nowhere/libgpuspy.so");
    assert!(todo.contains("GPUSPY_AGENT"), "{todo}");
    visit.has("warning", "interception", "there is no agent");
    visit.has("ok", "driver", "12.9");
}

#[test]
fn a_library_that_is_no_agent_is_reported_and_observes_nothing() {
    let visit = visit(run().env("GPUSPY_AGENT", program("libwraplaunch.so")), &[]);
    visit.has("problem", "agent", "libwraplaunch.so is not a gpuspy agent");
    visit.has("problem", "interception", "by dlsym: cuInit was called but not recorded");
}

/// An agent of another release is named with its version.
#[test]
fn an_agent_of_another_version_is_reported() {
    let place = tempfile::tempdir().unwrap();
    let copy = place.path().join("libgpuspy.so");
    let mut bytes = std::fs::read(agent()).unwrap();
    let note = b"gpuspy\0\0";
    let version = env!("CARGO_PKG_VERSION").as_bytes();
    let at = bytes.windows(note.len() + version.len()).position(|w| w == [&note[..], version].concat());
    bytes[at.expect("the agent contains its version") + note.len()] = b'9';
    std::fs::write(&copy, bytes).unwrap();
    let visit = visit(run().env("GPUSPY_AGENT", &copy), &[]);
    let todo = visit.has("problem", "agent", &format!("is version 9{}", &env!("CARGO_PKG_VERSION")[1..]));
    assert!(todo.contains("one release"), "{todo}");
}

fn preload(libraries: &[PathBuf]) -> String {
    libraries.iter().map(|library| library.to_str().unwrap()).collect::<Vec<_>>().join(":")
}

#[test]
fn a_dlsym_hook_before_the_agent_is_named_with_the_routes_that_it_hides() {
    let order = preload(&[program("libhookdlsym.so"), agent()]);
    let visit = visit(run().env("LD_PRELOAD", order), &[]);
    let todo = visit.has("problem", "conflict", "libhookdlsym.so hooks dlsym and is before libgpuspy.so");
    assert!(todo.contains("first in LD_PRELOAD"), "{todo}");
    visit.has("problem", "interception", "by dlsym: cuInit was called but not recorded");
    visit.has("problem", "interception", "by cuGetProcAddress_v2: cuInit was called but not recorded");
    visit.has("ok", "interception", "by linked symbols: calls are recorded");
}

#[test]
fn a_dlsym_hook_after_the_agent_is_named_and_hides_nothing() {
    for order in [preload(&[agent(), program("libhookdlsym.so")]), preload(&[program("libhookdlsym.so")])] {
        let visit = visit(run().env("LD_PRELOAD", order), &[]);
        visit.has("ok", "conflict", "libhookdlsym.so hooks dlsym too");
        assert_eq!(visit.code, Some(0), "{:#?}", visit.checks);
    }
}

#[test]
fn conflicting_tools_in_the_environment_are_named() {
    for (variable, value) in [
        ("CUDA_INJECTION64_PATH", "/opt/tool.so"),
        ("NVTX_INJECTION64_PATH", "/opt/nvtx.so"),
        ("CUDA_DEVICE_MAX_CONNECTIONS", "1"),
        ("CUDA_LAUNCH_BLOCKING", "1"),
        ("GPUSPY", "0"),
        ("GPUSPY", "off"),
        ("GPUSPY", ""),
    ] {
        let visit = visit(run().env(variable, value), &[]);
        visit.has("warning", "conflict", &format!("{variable}={value}: "));
        assert_eq!(visit.code, Some(0), "a warning only: {:#?}", visit.checks);
        visit.has("ok", "GPU times", "20 of 20");
    }
    let visit = visit(run().env("CUDA_DEVICE_MAX_CONNECTIONS", "8"), &[]);
    visit.has("ok", "conflicts", "no other tool");
}

#[test]
fn the_multi_process_service_is_named() {
    let visit = visit(run().env("CUDA_MPS_PIPE_DIRECTORY", "/run/mps"), &[]);
    visit.has("warning", "MPS", "is configured (/run/mps)");
}

/// Runs the doctor from a shell that executes `script` first.
fn visit_after(script: &str) -> Visit {
    let run = run();
    let mut command = run.gpuspy_command(&[]);
    let environment: Vec<_> =
        command.get_envs().map(|(n, v)| (n.to_owned(), v.map(|v| v.to_owned()))).collect();
    command = Command::new("bash");
    command
        .arg("-c")
        .arg(format!("{script}; exec \"$0\" doctor --json"))
        .arg(gpuspy())
        .current_dir(run.folder());
    for (name, value) in environment {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    parse_visit(&run.finish(command))
}

#[test]
fn a_low_file_size_limit_is_reported_and_kills_no_process() {
    let visit = visit_after("ulimit -f 1024");
    let todo = visit.has("problem", "shared memory", "the file size limit is 1024 KiB");
    assert!(todo.contains("ulimit -f"), "{todo}");
    visit.has("warning", "limits", "file size 1048576 bytes");
    let seen = visit.of("interception", "by dlsym: cuInit was called but not recorded");
    let found = seen[0]["found"].as_str().unwrap();
    assert!(found.contains("runs unobserved: the file size limit (ulimit -f)"), "{found}");
}

#[test]
fn few_descriptors_are_a_warning() {
    visit_after("ulimit -n 64").has("warning", "limits", "descriptors 64");
}

#[test]
fn an_unwritable_working_directory_is_reported() {
    // Not even root can create a file there.
    let todo = visit_after("cd /proc")
        .has("warning", "traces", "cannot be written into the working directory, /proc")
        .to_owned();
    assert!(todo.contains("-o PATH"), "{todo}");
}

#[test]
fn programs_that_keep_the_agent_out_are_named() {
    let place = tempfile::tempdir().unwrap();
    let source = place.path().join("main.c");
    std::fs::write(&source, "int main(void) { return 0; }").unwrap();
    let build = |name: &str, flags: &[&str]| {
        let path = place.path().join(name);
        let status = Command::new("gcc").arg(&source).arg("-o").arg(&path).args(flags).status().unwrap();
        assert!(status.success());
        path.to_str().unwrap().to_owned()
    };
    let look = |program: &str| visit(run(), &["--", program, "--json"]);
    look(&build("static", &["-static"])).has("problem", "program", "is statically linked");
    look(&build("static-pie", &["-static-pie", "-fPIE"])).has("problem", "program", "is statically linked");
    look(&build("dynamic", &[])).has("ok", "program", "the agent can be loaded into it");
    look("sh").has("ok", "program", "/sh: the agent can be loaded");
    look("no-such-program").has("problem", "program", "no-such-program is not found");
    let setgid = build("setgid", &[]);
    std::fs::set_permissions(&setgid, std::os::unix::fs::PermissionsExt::from_mode(0o2755)).unwrap();
    look(&setgid).has("problem", "program", "setuid or setgid");
}

/// The report's "driver not hooked" note refers people to this check.
#[test]
fn a_launch_function_that_is_not_the_drivers_own_is_reported() {
    // This driver returns another function for each request, so no answer equals what the agent was given.
    let place = fake_driver(
        r#"
        #include <string.h>
        #define F(n) static int launch##n(void) { return n; }
        F(0) F(1) F(2) F(3) F(4) F(5) F(6) F(7)
        static void *launches[] = {launch0, launch1, launch2, launch3, launch4, launch5, launch6, launch7};
        static int asked;
        int cuInit(int f) { return 0 * f; }
        int cuDriverGetVersion(int *v) { *v = 12000; return 0; }
        int cuDeviceGetCount(int *n) { *n = 0; return 0; }
        int cuGetProcAddress_v2(const char *name, void **f, int v, long flags, int *status) {
            (void)v, (void)flags, (void)status;
            *f = strcmp(name, "cuInit") == 0 ? (void *)cuInit
               : strcmp(name, "cuGetProcAddress") == 0 ? (void *)cuGetProcAddress_v2
               : strcmp(name, "cuLaunchKernel") == 0 ? launches[asked++ % 8] : 0;
            return *f == 0;
        }"#,
    );
    let visit = visit(run().without_gpu().env("LD_LIBRARY_PATH", place.path()), &[]);
    let todo = visit.has("problem", "interception", "by cuGetProcAddress_v2: launches would not be recorded");
    assert!(todo.contains("LD_PRELOAD"), "{todo}");
    visit.has("ok", "interception", "by cuGetProcAddress: not offered by this driver");
    visit.has("problem", "GPU", "reports no GPU");
}

#[test]
fn a_program_for_another_c_library_is_named() {
    let place = tempfile::tempdir().unwrap();
    let loader = "-Wl,--dynamic-linker=/lib/ld-musl-x86_64.so.1";
    std::fs::write(place.path().join("main.c"), "int main(void) { return 0; }").unwrap();
    let mut gcc = Command::new("gcc");
    gcc.args(["main.c", "-o", "musl", loader]).current_dir(place.path());
    assert!(gcc.status().unwrap().success());
    let program = place.path().join("musl");
    visit(run(), &["--", program.to_str().unwrap()]).has("problem", "program", "is a program for musl");
}

#[test]
fn a_driver_that_crashes_is_reported_and_does_not_end_the_doctor() {
    let place = fake_driver(
        "int cuDriverGetVersion(int *v) { *v = 12000; return 0; } int cuInit(int f) { __builtin_trap(); }",
    );
    let visit = visit(run().without_gpu().env("LD_LIBRARY_PATH", place.path()), &[]);
    visit.has("problem", "driver", "was ended by signal");
}

#[test]
fn a_driver_that_hangs_does_not_hang_the_doctor() {
    let place = fake_driver(
        "int pause(void); int cuDriverGetVersion(int *v) { *v = 12000; return 0; } int cuInit(int f) { for (;;) pause(); }",
    );
    let began = Instant::now();
    let visit = visit(run().without_gpu().env("LD_LIBRARY_PATH", place.path()), &["--timeout", "1"]);
    visit.has("problem", "driver", "did not return within 1 s");
    assert!(began.elapsed() >= Duration::from_secs(1));
    assert!(visit.of("interception", "by dlsym").is_empty(), "a function that hangs is not called again");
}

/// An interrupted doctor ends at once, with its child and its folder.
#[test]
fn ctrl_c_leaves_nothing_behind() {
    let place = fake_driver("int pause(void); int cuDriverGetVersion(int *v) { for (;;) pause(); }");
    let temporary = tempfile::tempdir().unwrap();
    let run = run().without_gpu().env("LD_LIBRARY_PATH", place.path());
    let run = run.env("TMPDIR", temporary.path()).env("XDG_RUNTIME_DIR", temporary.path());
    let mut command = run.gpuspy_command(&["doctor"]);
    let mut doctor = command.spawn().unwrap();
    let children = format!("/proc/{0}/task/{0}/children", doctor.id());
    let mut child = String::new();
    let until = Instant::now() + Duration::from_secs(20);
    while child.is_empty() && Instant::now() < until {
        child = std::fs::read_to_string(&children).unwrap().trim().to_owned();
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(!child.is_empty(), "no child was started");
    // SAFETY: signals a child of ours that has not been waited for.
    unsafe { libc::kill(doctor.id() as i32, libc::SIGINT) };
    assert_eq!(doctor.wait().unwrap().code(), Some(130));
    assert!(!Path::new("/proc").join(child).exists(), "the doctor's child is still there");
    assert_eq!(std::fs::read_dir(temporary.path()).unwrap().count(), 0, "the doctor left files behind");
}

/// Builds a folder with a libcuda.so.1 from this source.
pub(crate) fn fake_driver(source: &str) -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    std::fs::write(place.path().join("driver.c"), source).unwrap();
    let mut gcc = Command::new("gcc");
    gcc.args(["-shared", "-fPIC", "driver.c", "-o", "libcuda.so.1"]).current_dir(place.path());
    assert!(gcc.status().unwrap().success());
    place
}
