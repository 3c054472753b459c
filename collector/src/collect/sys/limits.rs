//! What this process may take, and what it gives back.

use std::ffi::c_int;
use std::path::Path;

/// Bounds what libc keeps of freed memory, for the rest of the process's life. By itself it makes eight heaps for each
/// processor, and keeps up to 64 MiB of each: it raises its threshold with every large block that is freed.
pub(crate) fn bound_free_memory() {
    #[cfg(target_env = "gnu")]
    {
        // Each heap reserves 64 MiB of address space.
        let heaps = if limit(libc::RLIMIT_AS).0 < 1 << 30 { 1 } else { 8 };
        const KEPT: c_int = 1 << 20;
        for (parameter, value) in
            [(libc::M_ARENA_MAX, heaps), (libc::M_TRIM_THRESHOLD, KEPT), (libc::M_MMAP_THRESHOLD, KEPT)]
        {
            // SAFETY: takes numbers, and locks the heap itself.
            unsafe { libc::mallopt(parameter, value) };
        }
    }
}

/// Gives memory that is free back to the system: libc keeps what the threads of a session have freed.
pub(crate) fn trim_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: takes a number, and locks each of libc's arenas itself.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Makes the kernel end this process before others when memory runs out (proc_pid_oom_score_adj(5)), unless others would be ended
/// with it.
pub(crate) fn be_the_first_without_memory() {
    let ours = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    if !ends_together(Path::new("/sys/fs/cgroup"), &ours) {
        // Any process may raise its own. Where there is no /proc, the kernel chooses as it would.
        let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
    }
}

/// Whether the kernel ends a process together with all others of its group, or of one above, when memory runs out: such a group has
/// `memory.oom.group` set, as containers of Kubernetes have (Linux, cgroup-v2.rst). `ours`: the process's `/proc/PID/cgroup`.
///
/// A container sees its own group as the root of the hierarchy, whatever the path in `ours` is; the machine's root has no such file.
fn ends_together(hierarchy: &Path, ours: &str) -> bool {
    let path = ours.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or_default();
    let group = hierarchy.join(path.trim_start_matches('/'));
    let groups = group.ancestors().take_while(|folder| folder.starts_with(hierarchy));
    groups.chain([hierarchy]).any(|folder| {
        std::fs::read_to_string(folder.join("memory.oom.group")).is_ok_and(|value| value.trim() == "1")
    })
}

/// A limit of this process: the present value, and the maximum. `RLIM_INFINITY` if the system does not say.
pub(crate) fn limit(resource: libc::__rlimit_resource_t) -> (u64, u64) {
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: fills the struct.
    unsafe { libc::getrlimit(resource, &raw mut limit) };
    (limit.rlim_cur, limit.rlim_max)
}

/// Lowers this process's priority a little.
pub(crate) fn lower_priority() {
    // SAFETY: takes numbers. If it fails, only scheduling differs.
    unsafe { libc::setpriority(libc::PRIO_PROCESS as _, 0, 5) };
}

#[cfg(test)]
mod tests {
    use super::ends_together;
    use std::fs;

    /// The kernel would have ended the whole container if the collector asked to be the first without memory.
    #[test]
    fn a_collector_in_a_group_that_ends_together_is_seen() {
        let hierarchy = tempfile::tempdir().unwrap();
        let root = hierarchy.path();
        let set = |group: &str, value: &str| {
            let folder = root.join(group);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("memory.oom.group"), value).unwrap();
        };
        let machine = "9:memory:/elsewhere\n0::/pods/pod/train\n";
        assert!(!ends_together(root, machine), "no such group");
        for group in ["pods", "pods/pod", "pods/pod/train", "elsewhere"] {
            set(group, "0\n");
        }
        assert!(!ends_together(root, machine), "no group has it set");
        set("elsewhere", "1\n");
        assert!(!ends_together(root, machine), "another group has it set");
        set("pods/pod", "1\n");
        assert!(ends_together(root, machine), "the group above has it set");
        set("pods/pod", "0\n");
        set("pods/pod/train", "1\n");
        assert!(ends_together(root, machine), "the process's own group has it set");
        // A container: its own group is the root, and the path may be one of the machine's, which it does not see.
        for ours in ["0::/\n", "0::/kubepods/pod/container\n", "0::/../..\n", "9:memory:/elsewhere\n", ""] {
            assert!(!ends_together(root, ours), "{ours:?}");
        }
        set("", "1\n");
        for ours in ["0::/\n", "0::/kubepods/pod/container\n", "0::/../..\n", "9:memory:/elsewhere\n", ""] {
            assert!(ends_together(root, ours), "{ours:?}");
        }
    }
}
