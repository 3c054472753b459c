//! What this system allows: shared memory, /proc, limits, a place for the trace; and what it is (a container).

use super::Check;
use crate::collect::sys;
use gpuspy_wire::segment::Layout;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::Path;

pub(super) fn check() -> Vec<Check> {
    let mut checks = vec![shared_memory(), proc_files(), limits(), places(), attaching()];
    checks.extend(container());
    checks
}

/// Makes a segment as the agent does.
fn shared_memory() -> Check {
    let topic = "shared memory";
    let bytes = Layout::OURS.segment_bytes;
    let (limit, _) = sys::limit(libc::RLIMIT_FSIZE);
    if limit < bytes {
        let (limit, needed) = (limit >> 10, bytes >> 10);
        return Check::problem(
            topic,
            format!(
                "the file size limit is {limit} KiB; the agent's segment, though sparse, has {needed} KiB"
            ),
            format!("ulimit -f unlimited (or {needed}) before the program starts"),
        );
    }
    match sys::try_segment(bytes) {
        Ok(()) => Check::ok(topic, "memfd_create and its seals work"),
        Err(e) => Check::problem(
            topic,
            format!("a sealed memfd of {} MiB cannot be had: {e}", bytes >> 20),
            "allow memfd_create and fcntl seals (a seccomp filter? gVisor? Linux before 3.17?)",
        ),
    }
}

fn proc_files() -> Check {
    // The agent finds libraries there, the collector programs' names and ends.
    for file in ["/proc/self/maps", "/proc/self/stat", "/proc/self/cmdline", "/proc/self/fd"] {
        let readable =
            if file.ends_with("fd") { fs::read_dir(file).map(drop) } else { fs::read(file).map(drop) };
        if let Err(e) = readable {
            let found = format!("{file} cannot be read: {e}");
            return Check::problem("/proc", found, "mount /proc; without it libraries cannot be told apart");
        }
    }
    Check::ok("/proc", "readable")
}

/// Descriptors that the collector and a program's agent need, with room: three for each process.
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
        "descriptors {}, file size {}, locked memory {} (counts only for programs that call mlockall)",
        text(files, ""),
        text(size, " bytes"),
        text(locked, " bytes")
    );
    if files < DESCRIPTORS {
        return Check::warning("limits", found, "ulimit -n 1024: a run of many processes needs descriptors");
    }
    if size != libc::RLIM_INFINITY {
        return Check::warning(
            "limits",
            found,
            "a trace ends where it reaches the file size limit (ulimit -f)",
        );
    }
    Check::ok("limits", found)
}

/// Where traces go.
fn places() -> Check {
    let here = std::env::current_dir().unwrap_or_else(|_| ".".into());
    let shown = here.display();
    match try_file(&here) {
        Ok(()) => Check::ok("traces", format!("go into the working directory, {shown}")),
        Err(e) => Check::warning(
            "traces",
            format!("cannot be written into the working directory, {shown}: {e}"),
            "name a place: `gpuspy run -o PATH`, or GPUSPY_DIR",
        ),
    }
}

/// Makes a file and removes it: mounted read-only, full or forbidden, permissions do not tell all.
fn try_file(directory: &Path) -> std::io::Result<()> {
    let path = directory.join(format!(".gpuspy-doctor-{}", std::process::id()));
    File::options().write(true).create_new(true).open(&path)?;
    fs::remove_file(path)
}

/// What Yama forbids to those who would attach a debugger.
fn attaching() -> Check {
    let found = match fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope") {
        Ok(scope) => format!(
            "ptrace_scope is {}: `collect --pid` reads /proc/PID/fd, which that does not restrict",
            scope.trim()
        ),
        Err(e) if e.kind() == ErrorKind::NotFound => "no ptrace_scope here (no Yama)".to_owned(),
        Err(e) => format!("ptrace_scope cannot be read: {e}"),
    };
    Check::ok("attaching", format!("{found}; processes of yours, not of other users, can be collected from"))
}

fn container() -> Option<Check> {
    let marks = ["/.dockerenv", "/run/.containerenv"];
    let mark = marks.into_iter().find(|mark| Path::new(mark).exists()).map(str::to_owned);
    let variable =
        || std::env::var("container").ok().filter(|v| !v.is_empty()).map(|v| format!("container={v}"));
    let group = || {
        let groups = fs::read_to_string("/proc/1/cgroup").ok()?;
        let known = ["docker", "kubepods", "containerd", "libpod", "lxc"];
        known.into_iter().find(|name| groups.contains(name)).map(|name| format!("{name} in /proc/1/cgroup"))
    };
    let sign = mark.or_else(variable).or_else(group)?;
    Some(Check::ok(
        "container",
        format!(
            "this is one ({sign}); a program that is its PID 1 needs `gpuspy run` as the entry point: bare preload \
             starts no collector there"
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trying_a_place_leaves_nothing() {
        let place = tempfile::tempdir().unwrap();
        try_file(place.path()).unwrap();
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
        // Where even root makes no file.
        assert!(try_file(Path::new("/proc")).is_err());
    }

    #[test]
    fn a_segment_can_be_made_here() {
        let before = fs::read_dir("/proc/self/fd").unwrap().count();
        sys::try_segment(Layout::OURS.segment_bytes).unwrap();
        assert!(fs::read_dir("/proc/self/fd").unwrap().count() <= before);
    }
}
