//! Limits on the memory of a group of processes (cgroups(7)), as containers have them: program and collector share it.

use super::{is_read_or_said_to_be_empty, nothing_is_left_of, same, traces_with_content, watched};
use crate::lifecycle::launches;
use gpuspy_tests::{Done, Run, agent, program};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::time::Duration;

/// A group of processes with a limit, which is removed with it.
struct Group {
    folder: PathBuf,
}

impl Group {
    /// Makes a group whose processes may have so much memory together. `None`, with a line that says why, where none can be
    /// made.
    fn with_mib(mib: u64) -> Option<Group> {
        // The first version's hierarchy for memory, else the only one of the second.
        let hierarchies = ["/sys/fs/cgroup/memory", "/sys/fs/cgroup"].map(PathBuf::from);
        let limits = ["memory.limit_in_bytes", "memory.max"];
        for hierarchy in hierarchies {
            let folder = hierarchy.join(format!("gpuspy-tests-{}", std::process::id()));
            if std::fs::create_dir(&folder).is_err() {
                continue;
            }
            let group = Group { folder };
            let set = |file: &&str| std::fs::write(group.folder.join(file), (mib << 20).to_string()).is_ok();
            if limits.iter().any(|file| group.folder.join(file).exists() && set(file)) {
                return Some(group);
            }
        }
        eprintln!("skipped: no group of processes with a limit on memory can be made here (/sys/fs/cgroup)");
        None
    }

    /// Runs the client in the group, with the agent or without it.
    fn run(&self, agent: Option<&str>) -> Done {
        let preload = agent.map_or(String::new(), |path| format!("LD_PRELOAD={path}"));
        let script = format!("echo $$ >\"$1\" && {preload} exec \"$0\" {MIB}");
        let run = Run::command("bash").arg("-c").arg(script).arg(program("fills_memory"));
        let done = watched(run.arg(self.folder.join("cgroup.procs"))).plain();
        nothing_is_left_of(&done, "a group");
        done
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Its last processes are being removed.
        for _ in 0..100 {
            if std::fs::remove_dir(&self.folder).is_ok() {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// What the client takes, MiB.
const MIB: u64 = 64;

#[test]
fn a_group_with_room_for_both_has_the_program_traced() {
    let Some(group) = Group::with_mib(MIB + 80) else { return };
    let plain = group.run(None).succeeded();
    let done = group.run(agent().to_str());
    same(&plain, &done, "room for both");
    assert_eq!(launches(&done.report()), done.said()["launches"]);
}

/// The kernel ends the largest process of a group that has no memory left, unless one asks to be the first.
#[test]
fn where_a_groups_memory_runs_out_the_collector_is_ended_and_not_the_program() {
    // The least, in steps of 1 MiB, with which the program runs alone.
    let enough = |mib: &u64| Some(Group::with_mib(*mib)?.run(None).status.success());
    if enough(&(MIB + 80)).is_none() {
        return;
    }
    let least = (MIB..MIB + 80).find(|mib| enough(mib).unwrap()).unwrap();
    // The agent's own pages are in it, two to four MiB: with less than those the program may be too large for its group, and where
    // it is not, the collector is.
    let mut cut_off = 0;
    for mib in (2..=8).map(|more| least + more) {
        let Some(group) = Group::with_mib(mib) else { return };
        let plain = group.run(None).succeeded();
        let done = group.run(agent().to_str());
        if mib < least + 4 && done.status.signal() == Some(libc::SIGKILL) {
            continue;
        }
        same(&plain, &done, &format!("{mib} MiB, {least} are enough for the program alone"));
        cut_off += u32::from(!done.stderr.contains("the trace is "));
        for trace in traces_with_content(&done) {
            is_read_or_said_to_be_empty(&trace, 400, &format!("{mib} MiB"));
        }
    }
    println!("{least} MiB are enough for the program; the collector was ended {cut_off} times");
}
