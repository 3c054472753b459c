//! Checks what this system allows: shared memory, /proc, limits, a directory for the trace; and whether it is a container.

use super::Check;
use crate::collect::sys;
use crate::why::said;
use gpuspy_wire::segment::Layout;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::Path;

pub(super) fn check() -> Vec<Check> {
    let mut checks = vec![shared_memory(), proc_files(), limits(), places(), attaching()];
    checks.extend(container());
    checks
}

/// Creates a segment as the agent does.
fn shared_memory() -> Check {
    let topic = "shared memory";
    let bytes = Layout::OURS.segment_bytes;
    let (limit, _) = sys::limit(libc::RLIMIT_FSIZE);
    if limit < bytes {
        let (limit, needed) = (limit >> 10, bytes >> 10);
        return Check::problem(
            topic,
            format!(
                "the file size limit is {limit} KiB, but the agent's segment, which is sparse, has {needed} KiB"
            ),
            format!("set ulimit -f unlimited (or {needed}) before the program starts"),
        );
    }
    match sys::try_segment(bytes) {
        Ok(()) => Check::ok(topic, "memfd_create and its seals work"),
        Err(e) => Check::problem(
            topic,
            format!("a sealed memfd of {} MiB cannot be created: {}", bytes >> 20, said(&e)),
            "allow memfd_create and fcntl seals (a seccomp filter? gVisor? Linux before 3.17?)",
        ),
    }
}

fn proc_files() -> Check {
    // The agent finds libraries there; the collector finds names of programs, and how they end.
    for file in ["/proc/self/maps", "/proc/self/stat", "/proc/self/cmdline", "/proc/self/fd"] {
        let readable =
            if file.ends_with("fd") { fs::read_dir(file).map(drop) } else { fs::read(file).map(drop) };
        if let Err(e) = readable {
            let found = format!("{file} cannot be read: {}", said(&e));
            return Check::problem("/proc", found, "mount /proc; without it libraries cannot be identified");
        }
    }
    Check::ok("/proc", "readable")
}

/// The descriptors that are enough for the collector and the agent, which need three for each process.
const DESCRIPTORS: u64 = 256;

fn limits() -> Check {
    let text = |limit: u64, unit| match limit {
        libc::RLIM_INFINITY => "unlimited".to_owned(),
        limit => format!("{limit}{unit}"),
    };
    let (files, _) = sys::limit(libc::RLIMIT_NOFILE);
    let (locked, _) = sys::limit(libc::RLIMIT_MEMLOCK);
    let (size, _) = sys::limit(libc::RLIMIT_FSIZE);
    let found = format!(
        "descriptors {}, file size {}, locked memory {} (matters only for programs that call mlockall)",
        text(files, ""),
        text(size, " bytes"),
        text(locked, " bytes")
    );
    if files < DESCRIPTORS {
        return Check::warning(
            "limits",
            found,
            "set ulimit -n 1024: a run with many processes needs descriptors",
        );
    }
    if size != libc::RLIM_INFINITY {
        return Check::warning(
            "limits",
            found,
            "a trace is cut where it reaches the file size limit (ulimit -f)",
        );
    }
    Check::ok("limits", found)
}

/// Checks whether traces can be written to the working directory.
fn places() -> Check {
    let here = std::env::current_dir().unwrap_or_else(|_| ".".into());
    let shown = here.display();
    match try_file(&here) {
        Ok(()) => Check::ok("traces", format!("are written into the working directory, {shown}")),
        Err(e) => Check::warning(
            "traces",
            format!("cannot be written into the working directory, {shown}: {}", said(&e)),
            "choose another path: `gpuspy run -o PATH`, or GPUSPY_DIR",
        ),
    }
}

/// Creates a file and removes it. Permissions alone do not show that a file system is read-only or full.
fn try_file(directory: &Path) -> std::io::Result<()> {
    let path = directory.join(format!(".gpuspy-doctor-{}", std::process::id()));
    File::options().write(true).create_new(true).open(&path)?;
    fs::remove_file(path)
}

/// Reports the ptrace scope of Yama, which does not restrict `collect --pid`.
fn attaching() -> Check {
    let found = match fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope") {
        Ok(scope) => format!(
            "ptrace_scope is {}, which does not restrict `collect --pid` (it reads /proc/PID/fd)",
            scope.trim()
        ),
        Err(e) if e.kind() == ErrorKind::NotFound => "there is no ptrace_scope (no Yama)".to_owned(),
        Err(e) => format!("ptrace_scope cannot be read: {}", said(&e)),
    };
    Check::ok(
        "attaching",
        format!("{found}; your own processes can be collected from, those of other users cannot"),
    )
}

fn container() -> Option<Check> {
    let files = ["/.dockerenv", "/run/.containerenv"];
    let file = files.into_iter().find(|file| Path::new(file).exists()).map(str::to_owned);
    let variable =
        || std::env::var("container").ok().filter(|v| !v.is_empty()).map(|v| format!("container={v}"));
    let group = || {
        let groups = fs::read_to_string("/proc/1/cgroup").ok()?;
        let known = ["docker", "kubepods", "containerd", "libpod", "lxc"];
        known.into_iter().find(|name| groups.contains(name)).map(|name| format!("{name} in /proc/1/cgroup"))
    };
    let sign = file.or_else(variable).or_else(group)?;
    Some(Check::ok(
        "container",
        format!(
            "this is a container ({sign}); for a program that is PID 1 in it, use `gpuspy run` as the entry point: with \
             LD_PRELOAD alone, no collector is started there"
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trying_a_directory_leaves_no_file() {
        let place = tempfile::tempdir().unwrap();
        try_file(place.path()).unwrap();
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
        // Not even root can create a file here.
        assert!(try_file(Path::new("/proc")).is_err());
    }

    #[test]
    fn a_segment_can_be_created() {
        let before = fs::read_dir("/proc/self/fd").unwrap().count();
        sys::try_segment(Layout::OURS.segment_bytes).unwrap();
        assert!(fs::read_dir("/proc/self/fd").unwrap().count() <= before);
    }
}
