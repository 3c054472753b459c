//! Other preloaded libraries that are between a program and CUDA: they keep being called, wherever they stand, and we
//! count as if they were not there.

use super::{assert_each_launch_is_counted_once, assert_silent};
use gpuspy_tests::{Done, Run, program};

/// A client, by the route that its launches take.
#[derive(Clone, Copy)]
struct Client {
    name: &'static str,
    /// Calls of `cuLaunchKernel` that libwraplaunch sees of it, and lookups and calls that libhookdlsym does.
    wraplaunch: u64,
    hookdlsym: [u64; 2],
}

const BY_SYMBOL: Client = Client { name: "rtld_next", wraplaunch: 200, hookdlsym: [0, 0] };
const BY_DLSYM: Client = Client { name: "dlsym_launch", wraplaunch: 0, hookdlsym: [1, 500] };
const BY_GETPROC: Client = Client { name: "work_getproc", wraplaunch: 0, hookdlsym: [0, 0] };

/// The client, with its neighbours reporting on its stdout.
fn run(client: Client) -> Run {
    Run::of(client.name).env("WRAPLAUNCH_FD", "1").env("HOOKDLSYM_FD", "1")
}

/// The numbers that a neighbour printed.
fn told(done: &Done, neighbour: &str) -> Vec<u64> {
    let line = done.stdout.lines().find_map(|line| line.strip_prefix(neighbour));
    let line = line.unwrap_or_else(|| panic!("{neighbour} said nothing: {}{}", done.stdout, done.stderr));
    line.split_whitespace().map(|number| number.parse().unwrap()).collect()
}

/// The neighbour sees what it sees without us, and we see everything.
fn both_see_everything(client: Client, neighbour: &str, before: bool) {
    let library = format!("lib{neighbour}.so");
    let expected = match neighbour {
        "wraplaunch" => vec![client.wraplaunch],
        _ => client.hookdlsym.to_vec(),
    };
    let alone = run(client).env("LD_PRELOAD", program(&library)).plain().succeeded();
    assert_eq!(told(&alone, neighbour), expected, "without us");
    let (first, last) = if before { (vec![&*library], vec![]) } else { (vec![], vec![&*library]) };
    let done = run(client).preloaded_among(&first, &last).succeeded();
    assert_eq!(told(&done, neighbour), expected, "with us");
    assert_each_launch_is_counted_once(&done);
}

#[test]
fn wrapper_before_us_keeps_being_called_by_symbol() {
    both_see_everything(BY_SYMBOL, "wraplaunch", true);
}

#[test]
fn wrapper_after_us_keeps_being_called_by_symbol() {
    both_see_everything(BY_SYMBOL, "wraplaunch", false);
}

#[test]
fn wrapper_before_us_does_not_hide_dlsym_and_getproc() {
    both_see_everything(BY_DLSYM, "wraplaunch", true);
    both_see_everything(BY_GETPROC, "wraplaunch", true);
}

#[test]
fn wrapper_after_us_does_not_hide_dlsym_and_getproc() {
    both_see_everything(BY_DLSYM, "wraplaunch", false);
    both_see_everything(BY_GETPROC, "wraplaunch", false);
}

#[test]
fn dlsym_hook_after_us_keeps_being_asked_and_called() {
    both_see_everything(BY_SYMBOL, "hookdlsym", false);
    both_see_everything(BY_DLSYM, "hookdlsym", false);
    both_see_everything(BY_GETPROC, "hookdlsym", false);
}

#[test]
fn dlsym_hook_before_us_does_not_hide_calls_by_symbol() {
    both_see_everything(BY_SYMBOL, "hookdlsym", true);
}

/// It answers from libc, past us: nothing can be seen of these programs, and they must not notice us either.
#[test]
fn dlsym_hook_before_us_keeps_being_called_and_we_stay_out_of_the_way() {
    for client in [BY_DLSYM, BY_GETPROC] {
        let done = run(client).preloaded_among(&["libhookdlsym.so"], &[]).succeeded();
        assert_eq!(told(&done, "hookdlsym"), client.hookdlsym);
        assert_eq!(done.truth().enqueued("kernel") as u64, done.said()["launches"].as_u64().unwrap());
        assert_silent(&done);
    }
}

#[test]
fn wrapper_and_dlsym_hook_on_both_sides_are_called_and_nothing_is_counted_twice() {
    for client in [BY_SYMBOL, BY_DLSYM] {
        let done = run(client).preloaded_among(&["libwraplaunch.so"], &["libhookdlsym.so"]).succeeded();
        assert_eq!(told(&done, "wraplaunch"), [client.wraplaunch]);
        assert_eq!(told(&done, "hookdlsym"), client.hookdlsym);
        assert_each_launch_is_counted_once(&done);
    }
}
