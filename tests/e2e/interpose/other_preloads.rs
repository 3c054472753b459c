//! Other preloaded libraries between a program and CUDA: they are still called, wherever they are in the preload order,
//! and the agent counts as if they were not there.

use super::{assert_each_launch_is_counted_once, assert_silent};
use gpuspy_tests::{Done, Run, agent, program};

/// A client and the route that its launches take.
#[derive(Clone, Copy)]
struct Client {
    name: &'static str,
    /// How often libwraplaunch observes `cuLaunchKernel`, and how many lookups and calls libhookdlsym observes.
    wraplaunch: u64,
    hookdlsym: [u64; 2],
}

const BY_SYMBOL: Client = Client { name: "rtld_next", wraplaunch: 200, hookdlsym: [0, 0] };
const BY_DLSYM: Client = Client { name: "dlsym_launch", wraplaunch: 0, hookdlsym: [1, 500] };
const BY_GETPROC: Client = Client { name: "work_getproc", wraplaunch: 0, hookdlsym: [0, 0] };

/// Prepares the client with the other libraries reporting on its stdout.
fn run(client: Client) -> Run {
    Run::of(client.name).env("WRAPLAUNCH_FD", "1").env("HOOKDLSYM_FD", "1")
}

/// Returns the numbers that another library printed.
fn printed(done: &Done, neighbour: &str) -> Vec<u64> {
    let line = done.stdout.lines().find_map(|line| line.strip_prefix(neighbour));
    let line = line.unwrap_or_else(|| panic!("{neighbour} printed nothing: {}{}", done.stdout, done.stderr));
    line.split_whitespace().map(|number| number.parse().unwrap()).collect()
}

/// Checks that the other library observes the same as without the agent, and that the agent observes everything.
fn both_observe_everything(client: Client, neighbour: &str, before: bool) {
    let library = format!("lib{neighbour}.so");
    let expected = match neighbour {
        "wraplaunch" => vec![client.wraplaunch],
        _ => client.hookdlsym.to_vec(),
    };
    let alone = run(client).env("LD_PRELOAD", program(&library)).plain().succeeded();
    assert_eq!(printed(&alone, neighbour), expected, "without the agent");
    let (first, last) = if before { (vec![&*library], vec![]) } else { (vec![], vec![&*library]) };
    let done = run(client).preloaded_among(&first, &last).succeeded();
    assert_eq!(printed(&done, neighbour), expected, "with the agent");
    assert_each_launch_is_counted_once(&done);
}

#[test]
fn a_wrapper_before_the_agent_is_still_called_by_symbol() {
    both_observe_everything(BY_SYMBOL, "wraplaunch", true);
}

#[test]
fn a_wrapper_after_the_agent_is_still_called_by_symbol() {
    both_observe_everything(BY_SYMBOL, "wraplaunch", false);
}

#[test]
fn a_wrapper_before_the_agent_does_not_hide_dlsym_and_getproc() {
    both_observe_everything(BY_DLSYM, "wraplaunch", true);
    both_observe_everything(BY_GETPROC, "wraplaunch", true);
}

#[test]
fn a_wrapper_after_the_agent_does_not_hide_dlsym_and_getproc() {
    both_observe_everything(BY_DLSYM, "wraplaunch", false);
    both_observe_everything(BY_GETPROC, "wraplaunch", false);
}

#[test]
fn a_dlsym_hook_after_the_agent_still_gets_lookups_and_calls() {
    both_observe_everything(BY_SYMBOL, "hookdlsym", false);
    both_observe_everything(BY_DLSYM, "hookdlsym", false);
    both_observe_everything(BY_GETPROC, "hookdlsym", false);
}

#[test]
fn a_dlsym_hook_before_the_agent_does_not_hide_calls_by_symbol() {
    both_observe_everything(BY_SYMBOL, "hookdlsym", true);
}

/// The hook gets its answer from libc, past the agent: the agent observes nothing of these programs, and must not
/// disturb them either.
#[test]
fn a_dlsym_hook_before_the_agent_is_still_called_and_not_disturbed() {
    for client in [BY_DLSYM, BY_GETPROC] {
        let done = run(client).preloaded_among(&["libhookdlsym.so"], &[]).succeeded();
        assert_eq!(printed(&done, "hookdlsym"), client.hookdlsym);
        assert_eq!(done.truth().enqueued("kernel") as u64, done.said()["launches"].as_u64().unwrap());
        assert_silent(&done);
    }
}

#[test]
fn wrappers_and_dlsym_hooks_on_both_sides_are_called_and_nothing_is_counted_twice() {
    for client in [BY_SYMBOL, BY_DLSYM] {
        let done = run(client).preloaded_among(&["libwraplaunch.so"], &["libhookdlsym.so"]).succeeded();
        assert_eq!(printed(&done, "wraplaunch"), [client.wraplaunch]);
        assert_eq!(printed(&done, "hookdlsym"), client.hookdlsym);
        assert_each_launch_is_counted_once(&done);
    }
}

/// Found on an H200: under Nsight Compute the agent took its own function for the driver's, and called itself until the stack was
/// full.
#[test]
fn a_tool_that_answers_lookups_in_libcuda_with_the_first_function_of_the_process_does_not_make_the_agent_call_itself()
 {
    for client in [BY_GETPROC, BY_SYMBOL] {
        let done = run(client).preloaded_among(&[], &["libinjected.so"]).succeeded();
        assert_each_launch_is_counted_once(&done);
    }
}

/// Both copies recorded every launch, in a trace each.
#[test]
fn a_second_copy_of_the_agent_passes_everything_through() {
    for client in [BY_SYMBOL, BY_DLSYM, BY_GETPROC] {
        let run = run(client);
        let copy = run.folder().join("copy/libgpuspy.so");
        std::fs::create_dir(run.folder().join("copy")).unwrap();
        std::fs::copy(agent(), &copy).unwrap();
        let done = run.env("LD_PRELOAD", copy).observed_with(&["--no-report"]).succeeded();
        assert_each_launch_is_counted_once(&done);
        assert_eq!(done.report()["processes"].as_array().unwrap().len(), 1);
    }
}
