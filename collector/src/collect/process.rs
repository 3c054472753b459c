//! What does the system say about a traced process: its identity, and whether it still runs?

use super::sys;
use crate::trace::record::Exit;
use std::ffi::OsStr;
use std::fs;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::LazyLock;
use std::time::Duration;

/// A process. A pid can be reused; a pid with a start time cannot.
#[derive(Debug)]
pub(crate) struct Process {
    /// Its pid in the collector's namespace.
    pub(crate) pid: u32,
    /// Field 22 of `/proc/PID/stat`; `None` if it had ended before that was read.
    start_time: Option<u64>,
    /// Field 4: its parent's pid in the collector's namespace when that was read.
    pub(crate) parent: Option<u32>,
    /// A descriptor that is readable when the process ends. `None` if the system call is refused (an old kernel, a
    /// strict seccomp filter); then `/proc` is read instead.
    pidfd: Option<OwnedFd>,
}

impl Process {
    /// The process that has this pid now.
    pub(crate) fn of(pid: u32) -> Process {
        Process::behind(pid, sys::pidfd_open(pid).ok())
    }

    /// The process at the other end of a socket, which had this pid when it connected. It may be gone.
    pub(crate) fn peer(pid: u32, socket: BorrowedFd<'_>) -> Process {
        Process::behind(pid, sys::peer_pidfd(socket).or_else(|_| sys::pidfd_open(pid)).ok())
    }

    fn behind(pid: u32, pidfd: Option<OwnedFd>) -> Process {
        let stat = stat(pid);
        let parent = stat.as_ref().map(|s| s.parent).filter(|parent| *parent != 0);
        Process { pid, start_time: stat.map(|s| s.start_time), parent, pidfd }
    }

    /// A descriptor that is readable when the process ends, if the system has one.
    pub(crate) fn end(&self) -> Option<BorrowedFd<'_>> {
        self.pidfd.as_ref().map(AsFd::as_fd)
    }

    /// Whether it has certainly ended, if there is no descriptor for that. A process that is not visible (in another
    /// namespace, or ended before it was examined) counts as running: only the end of its connection shows its end.
    pub(crate) fn is_known_to_be_over(&self) -> bool {
        self.pidfd.is_none() && self.start_time.is_some() && !self.is_running()
    }

    /// Whether it runs: it exists, it is the same process, and it is not a zombie. Where `/proc` has to answer, a
    /// process whose first thread ended before the others looks like a zombie.
    pub(crate) fn is_running(&self) -> bool {
        if let Some(end) = self.end() {
            return !sys::wait([Some(end)], Duration::ZERO).is_ok_and(|[over]| over);
        }
        self.start_time.is_some()
            && stat(self.pid).is_some_and(|s| Some(s.start_time) == self.start_time && !s.is_over())
    }

    /// Whether the system is taking it apart, to judge by its first thread.
    pub(crate) fn is_dying(&self) -> bool {
        stat(self.pid).is_some_and(|s| Some(s.start_time) == self.start_time && s.flags & PF_EXITING != 0)
    }

    /// Whether it runs another program, if the connection of the one before has just been closed: the system closes the descriptors of
    /// a process that ends after it has begun to take it apart. A process that closes its connection itself looks the same.
    pub(crate) fn is_another_program(&self) -> bool {
        let is_alive = |stat: Stat| !stat.is_over() && stat.flags & PF_EXITING == 0;
        stat(self.pid).filter(|stat| Some(stat.start_time) == self.start_time).is_some_and(is_alive)
    }

    /// How it exited. Only its parent certainly learns that. Other processes find it in `/proc` until the parent has
    /// waited for it, and through a pidfd from then on, since Linux 6.15.
    pub(crate) fn exit(&self) -> Option<Exit> {
        if self.is_running() {
            return None;
        }
        let over = stat(self.pid).filter(|s| Some(s.start_time) == self.start_time && s.is_over());
        let status = match over {
            Some(over) => over.wait_status.filter(|_| self.is_open_to_us()),
            None => sys::wait_status(self.pidfd.as_ref()?.as_fd()),
        };
        status.map(Exit::from_wait_status)
    }

    /// Whether its wait status is readable. To other users it reads as 0 (proc_pid_stat(5)), which would look like
    /// success.
    fn is_open_to_us(&self) -> bool {
        let executable = fs::read_link(format!("/proc/{}/exe", self.pid));
        !executable.is_err_and(|e| e.kind() == std::io::ErrorKind::PermissionDenied)
    }

    /// Field 22 of its `/proc/PID/stat`.
    pub(crate) fn start_time(&self) -> Option<u64> {
        self.start_time
    }
}

/// The pids of this user's processes that were started with a variable that has this path; a relative one is looked for in the folder
/// where the process is now. (Of other users' processes it cannot be read.)
pub(crate) fn given(name: &str, path: &Path) -> impl Iterator<Item = u32> {
    let variable = [name.as_bytes(), b"="].concat();
    let file = fs::canonicalize(path).ok();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(move |pid| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let given = environment.split(|byte| *byte == 0).find_map(|one| one.strip_prefix(&variable[..]));
        given.is_some_and(|given| {
            let there =
                || fs::canonicalize(Path::new(&format!("/proc/{pid}/cwd")).join(OsStr::from_bytes(given)));
            given == path.as_os_str().as_bytes() || file.is_some() && there().ok() == file
        })
    })
}

/// The first half of the system's boot id (random(4)). All processes between two boots of a machine share it, and
/// with it the monotonic clocks.
pub(crate) fn boot() -> Option<u64> {
    static BOOT: LazyLock<Option<u64>> =
        LazyLock::new(|| parse_boot(&fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?));
    *BOOT
}

/// Whether the process of this boot with this pid that started then (field 22 of its `/proc/PID/stat`) is still there.
pub(crate) fn is_there(pid: u32, start_time: u64, of_boot: Option<u64>) -> bool {
    of_boot == boot() && stat(pid).is_some_and(|stat| stat.start_time == start_time)
}

fn parse_boot(id: &str) -> Option<u64> {
    let digits: String = id.chars().filter(char::is_ascii_hexdigit).collect();
    u64::from_str_radix(digits.get(..16)?, 16).ok()
}

/// The flag of a task that exits (`include/linux/sched.h`).
const PF_EXITING: u32 = 4;

#[derive(Debug, PartialEq)]
struct Stat {
    state: u8,
    parent: u32,
    flags: u32,
    start_time: u64,
    /// The wait status, or 0. Since Linux 3.5.
    wait_status: Option<i32>,
}

impl Stat {
    /// Whether it is a zombie, or no longer one because its parent is waiting for it at the moment (`X`): only after that a
    /// pidfd tells the status.
    fn is_over(&self) -> bool {
        matches!(self.state, b'Z' | b'X')
    }
}

fn stat(pid: u32) -> Option<Stat> {
    parse_stat(&fs::read(format!("/proc/{pid}/stat")).ok()?)
}

/// Parses proc_pid_stat(5): `pid (comm) state …`, where comm may contain anything, including parentheses and newlines.
fn parse_stat(line: &[u8]) -> Option<Stat> {
    let behind_comm = line.iter().rposition(|&b| b == b')')? + 1;
    let fields: Vec<&str> =
        std::str::from_utf8(&line[behind_comm..]).ok()?.split_ascii_whitespace().collect();
    // Fields are numbered from 1, and the first two have been taken off.
    let field = |number: usize| fields.get(number - 3).copied();
    Some(Stat {
        state: *field(3)?.as_bytes().first()?,
        parent: field(4)?.parse().ok()?,
        flags: field(9)?.parse().ok()?,
        start_time: field(22)?.parse().ok()?,
        wait_status: field(52).and_then(|status| status.parse().ok()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_is_parsed_after_any_name() {
        let line = b"12 (a) R 1 (b\n) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 999 20";
        let mut stat = Stat { state: b'S', parent: 1, flags: 6, start_time: 999, wait_status: None };
        assert_eq!(parse_stat(line).as_ref(), Some(&stat));
        stat.wait_status = Some(11);
        let whole = [&line[..], &b" 0".repeat(28), b" 11\n"].concat();
        assert_eq!(parse_stat(&whole), Some(stat));
        assert_eq!(parse_stat(b"12 (a) S 1 2"), None);
        assert_eq!(parse_stat(b""), None);
    }

    #[test]
    fn this_process_runs() {
        let process = Process::of(std::process::id());
        assert!(process.is_running() && !process.is_dying());
    }

    #[test]
    fn a_zombie_does_not_run() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let process = Process::of(child.id());
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while process.is_running() && std::time::Instant::now() < deadline {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        assert!(!process.is_running());
        child.wait().unwrap();
        assert!(!process.is_running());
    }

    #[test]
    fn the_exit_is_known_before_the_parent_has_waited() {
        for (script, exit) in
            [("exit 0", Exit::Code(0)), ("exit 7", Exit::Code(7)), ("kill -SEGV $$", Exit::Signal(11))]
        {
            let mut child = std::process::Command::new("sh").args(["-c", script]).spawn().unwrap();
            let process = Process::of(child.id());
            assert_eq!(process.parent, Some(std::process::id()));
            let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
            while process.is_running() && std::time::Instant::now() < deadline {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            assert_eq!(process.exit(), Some(exit), "{script}");
            child.wait().unwrap();
            // From here on, a kernel before 6.15 has no answer, and there must be no wrong one.
            assert!(process.exit().is_none_or(|read| read == exit), "{script}");
        }
    }

    /// While its parent was waiting for it, how a process exited was looked for neither here nor there: a killed one had
    /// vanished.
    #[test]
    fn a_process_that_its_parent_is_waiting_for_tells_its_status() {
        let stat = |state: char| {
            let line = format!("12 (a) {state} 1{} 999{} 9\n", " 0".repeat(17), " 0".repeat(29));
            parse_stat(line.as_bytes()).unwrap()
        };
        assert!(['Z', 'X'].iter().all(|state| stat(*state).is_over() && stat(*state).wait_status == Some(9)));
        assert!(!['R', 'S', 'D', 'T', 't', 'I'].iter().any(|state| stat(*state).is_over()));
    }

    #[test]
    fn the_exit_is_known_at_any_moment_of_a_wait() {
        let is_told_afterwards = {
            let mut child = std::process::Command::new("true").spawn().unwrap();
            let process = Process::of(child.id());
            child.wait().unwrap();
            process.exit().is_some()
        };
        for round in 0..200 {
            let mut child = std::process::Command::new("sleep").arg("100").spawn().unwrap();
            let process = Process::of(child.id());
            child.kill().unwrap();
            std::thread::scope(|threads| {
                threads.spawn(move || child.wait().unwrap());
                while process.is_running() {
                    std::hint::spin_loop();
                }
                let exit = process.exit();
                let is_unknown = exit.is_none() && !is_told_afterwards;
                assert!(exit == Some(Exit::Signal(9)) || is_unknown, "round {round}: {exit:?}");
            });
        }
    }
}
