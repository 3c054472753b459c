//! Checks environment variables and other preloaded libraries that change what gpuspy records, or its overhead.

use super::{Check, ORDER};
use crate::cli::elf;
use gpuspy_wire::switch;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// A variable that matters if it is set.
struct Hint {
    variable: &'static str,
    /// Whether a value matters.
    matters: fn(&[u8]) -> bool,
    means: &'static str,
    todo: &'static str,
}

fn is_set(value: &[u8]) -> bool {
    !value.is_empty()
}

fn is_one(value: &[u8]) -> bool {
    value == b"1"
}

const HINTS: [Hint; 7] = [
    Hint {
        variable: "CUDA_INJECTION64_PATH",
        matters: is_set,
        means: "the driver loads another tool (nsys, ncu, a CUPTI profiler)",
        todo: "unset it, or read the times as those of the program under both tools",
    },
    Hint {
        variable: "NVTX_INJECTION64_PATH",
        matters: is_set,
        means: "another tool receives the program's NVTX ranges",
        todo: "unset it if that tool is not needed: host times include its overhead",
    },
    Hint {
        variable: "CUDA_DEVICE_MAX_CONNECTIONS",
        matters: is_one,
        means: "all streams share one hardware queue, in which timing events would end their overlap",
        todo: "unset it if the program does not need it; gpuspy times nothing, or sampling windows with an explicit --timing auto",
    },
    Hint {
        variable: "CUDA_LAUNCH_BLOCKING",
        matters: is_one,
        means: "every launch waits for its kernel, which causes gaps and long host times",
        todo: "unset it to measure the program as it normally runs",
    },
    Hint {
        variable: "LD_AUDIT",
        matters: is_set,
        means: "an audit library can change what symbols are bound to",
        todo: "unset it if calls are missing",
    },
    Hint { variable: "GPUSPY", matters: switch::is_off, means: "the agent is turned off", todo: "unset it" },
    Hint {
        variable: "LD_BIND_NOT",
        matters: is_set,
        means: "every call by symbol is looked up again, which costs more than gpuspy does",
        todo: "unset it",
    },
];

/// Checks the environment and the other preloaded libraries.
pub(super) fn check(agent: &Path) -> Vec<Check> {
    let mut checks = Vec::new();
    for Hint { variable, matters, means, todo } in HINTS {
        if let Some(set) = std::env::var_os(variable).filter(|set| matters(set.as_bytes())) {
            checks.push(Check::warning("conflict", format!("{variable}={}: {means}", set.display()), todo));
        }
    }
    checks.extend(hooks(agent));
    if checks.is_empty() {
        checks.push(Check::ok("conflicts", "no other tool in LD_PRELOAD or the environment"));
    }
    checks
}

/// Finds other preloaded libraries that export a `dlsym`.
fn hooks(agent: &Path) -> Vec<Check> {
    let preloaded = preloaded();
    let ours = preloaded.iter().position(|library| is_same(library, agent));
    let hooks = preloaded
        .iter()
        .enumerate()
        .filter(|(n, library)| Some(*n) != ours && elf::read(library).is_some_and(|elf| elf.exports_dlsym));
    let judge = |(n, library): (usize, &PathBuf)| {
        let shown = library.display();
        if ours.is_some_and(|ours| n < ours) {
            return Check::problem(
                "conflict",
                format!("{shown} hooks dlsym and is before libgpuspy.so in LD_PRELOAD: it can hide calls"),
                ORDER,
            );
        }
        Check::ok("conflict", format!("{shown} hooks dlsym too; it is after the agent and is still called"))
    };
    hooks.map(judge).collect()
}

/// Returns the libraries that the loader puts before those of a program, in its order. Names without a directory are left
/// out: the loader searches for them, and the checks of routes show what they do.
fn preloaded() -> Vec<PathBuf> {
    let mut list = std::env::var_os("LD_PRELOAD").unwrap_or_default().into_vec();
    list.push(b' ');
    list.extend(fs::read("/etc/ld.so.preload").unwrap_or_default());
    let names = list.split(|b| b" :\t\n".contains(b)).filter(|name| name.contains(&b'/'));
    names.map(|name| PathBuf::from(OsStr::from_bytes(name))).collect()
}

fn is_same(library: &Path, agent: &Path) -> bool {
    fs::canonicalize(library).ok().is_some_and(|path| Some(path) == fs::canonicalize(agent).ok())
}

/// Returns LD_PRELOAD for the children if the user preloads the agent, in the user's order. Otherwise children get the order of
/// `run`.
pub(super) fn is_preloaded(agent: &Path) -> Option<OsString> {
    let ours = preloaded().iter().any(|library| is_same(library, agent));
    std::env::var_os("LD_PRELOAD").filter(|_| ours)
}
