//! Programs that never call CUDA: the agent is loaded, and does nothing.

use super::files;
use gpuspy_tests::{Done, Run};

/// Runs a command without the agent and with it, and compares everything that can be observed from outside.
fn is_unaffected(command: &[&str]) -> Done {
    let run = || {
        let run = Run::command(command[0]).without_gpu();
        // Where a trace would go if the working directory could not be written.
        let folder = run.folder().to_owned();
        let run = command[1..].iter().fold(run, Run::arg);
        run.env("GPUSPY_DIR", &folder).env("TMPDIR", &folder)
    };
    let (plain, preloaded) = (run().plain(), run().preloaded());
    assert!(
        !plain.stdout.is_empty() || !files(&plain).is_empty(),
        "{command:?} does nothing: {}",
        plain.stderr
    );
    assert_eq!(preloaded.status, plain.status, "{}", preloaded.stderr);
    assert_eq!(preloaded.stdout, plain.stdout);
    assert_eq!(preloaded.stderr, plain.stderr);
    assert_eq!(files(&preloaded), files(&plain));
    preloaded
}

#[test]
fn ls_is_unaffected() {
    is_unaffected(&["ls", "-la", "/usr/bin"]);
    let failed = is_unaffected(&["bash", "-c", "ls /no/such/folder || echo $?"]);
    assert_eq!(failed.stdout, "2\n");
}

#[test]
fn bash_is_unaffected_and_has_no_additional_thread_or_child() {
    let script = "set -- /proc/$$/task/*; read -r children < /proc/$$/task/$$/children; \
                  echo \"$# tasks, children: $children.\"; echo to stderr >&2; (exit 7); exit $?";
    let done = is_unaffected(&["bash", "-c", script]);
    assert_eq!(done.stdout, "1 tasks, children: .\n");
    assert_eq!(done.status.code(), Some(7));
}

#[test]
fn python_is_unaffected_and_has_no_additional_thread_child_or_descriptor() {
    let script = "import os, subprocess, time\n\
                  subprocess.run(['true'], check=True)\n\
                  time.sleep(0.2)\n\
                  print(len(os.listdir('/proc/self/task')), 'tasks')\n\
                  print('children:', open('/proc/thread-self/children').read())\n\
                  print(sorted(os.readlink(f'/proc/self/fd/{f}').split(':')[0] for f in (0, 1, 2)))\n\
                  print(len(os.listdir('/proc/self/fd')), 'descriptors')\n";
    let done = is_unaffected(&["python3", "-c", script]);
    assert!(done.stdout.starts_with("1 tasks\nchildren: \n"), "{}", done.stdout);
}

#[test]
fn gcc_is_unaffected_and_writes_the_same_object() {
    let object = |preloaded: bool| {
        let run = Run::command("gcc").without_gpu();
        std::fs::write(run.folder().join("add.c"), "int add(int a, int b) { return a + b; }\n").unwrap();
        let run = ["-O2", "-c", "add.c", "-o", "add.o"].iter().fold(run, Run::arg);
        let done = if preloaded { run.preloaded() } else { run.plain() }.succeeded();
        assert_eq!(files(&done), ["add.c", "add.o"]);
        assert_eq!((&*done.stdout, &*done.stderr), ("", ""));
        std::fs::read(done.folder().join("add.o")).unwrap()
    };
    assert_eq!(object(true), object(false));
    is_unaffected(&["gcc", "--version"]);
}

/// Without this check, the tests above would also pass without an agent.
#[test]
fn the_agent_is_loaded_into_those_programs() {
    let done = Run::command("grep").arg("-c").arg("libgpuspy.so").arg("/proc/self/maps").without_gpu();
    let done = done.preloaded().succeeded();
    assert!(done.stdout.trim().parse::<u32>().unwrap() > 0, "{}", done.stdout);
}

#[test]
fn a_program_that_loads_cuda_and_calls_nothing_has_no_trace_and_no_line() {
    let script = "import ctypes, os\n\
                  ctypes.CDLL('libcuda.so.1')\n\
                  print(len(os.listdir('/proc/self/task')), 'tasks')\n";
    let done = Run::command("python3").arg("-c").arg(script).preloaded().succeeded();
    assert_eq!(done.stdout, "1 tasks\n");
    assert_eq!(done.stderr, "");
    assert_eq!(files(&done), [] as [&str; 0]);
}
