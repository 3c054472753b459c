//! Reaching the collector: over the socket that `gpuspy run` or `collect` listens on, or by starting one.
//!
//! One that listens has the segment before the first call goes on, so that nothing is lost if the process is killed from then on.
//!
//! The app cannot notice that one is started: an intermediate process, cloned with exit signal 0, starts the collector
//! in a session of its own and exits at once. The app's `wait(-1)` returns neither; the collector has no descriptor of
//! the app's (a pipe to `cat` ends when the app does), none of its signal settings, and not its CPU affinity. It is
//! started on the poller thread, since that can take 30 ms on a busy machine.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::sync::atomic::{AtomicPtr, AtomicU8, Ordering};
use gpuspy_wire::handshake::Hello;
use std::ffi::{CString, OsStr};
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;

use crate::heap;
use crate::loader::maps::Maps;
use crate::session::announcement::Announcement;
use crate::session::environment::Environment;
use crate::session::place::Place;
use crate::session::{clone, exit};
use crate::sink::{Session, descriptors};
use crate::sys;

/// What the process is introduced with. Valid when zero.
pub struct Waiting {
    /// The environment as it was when the session started, or null. The poller uses this copy, since it must not read the
    /// environment while the app may write it. Release by the thread that makes it, acquire by the poller, which takes it.
    environment: AtomicPtr<Environment>,
    /// [`UNREACHED`], [`TRYING`] or [`REACHED`]. Release by the thread that makes the session, acquire by the poller, which leaves
    /// the environment alone while the other thread tries.
    state: AtomicU8,
}

/// The poller has to reach the collector.
const UNREACHED: u8 = 0;
/// The thread that makes the session tries.
const TRYING: u8 = 1;
/// A collector has the segment.
const REACHED: u8 = 2;

impl Waiting {
    /// Stores the environment, before the poller is started.
    pub fn put(&self, environment: Environment) {
        if environment.get("GPUSPY_SOCKET").is_some() {
            self.state.store(TRYING, Ordering::Relaxed);
        }
        self.environment.store(Box::into_raw(Box::new(environment)), Ordering::Release);
    }

    /// Passes it to `look`, unless it has been taken. For the poller, and for the thread that makes the session while it tries.
    pub fn with(&self, look: impl FnOnce(&Environment)) {
        // Acquire, with the release in `put`.
        let environment = self.environment.load(Ordering::Acquire);
        // SAFETY: null, or made by `put` and not freed yet: only the poller takes it, when the other thread does not try any more.
        if let Some(environment) = unsafe { environment.as_ref() } {
            look(environment);
        }
    }

    /// Poller: takes it, once.
    fn take(&self) -> Option<Box<Environment>> {
        // Acquire, with the release in `put`.
        let environment = self.environment.swap(core::ptr::null_mut(), Ordering::AcqRel);
        // SAFETY: null, or made by `put`, and ours alone since the swap.
        (!environment.is_null()).then(|| unsafe { Box::from_raw(environment) })
    }
}

/// Gives the segment to the collector that listens, if there is one and it can be done without waiting: on the thread that makes
/// the session, when the poller is started. Otherwise [`reach`] does it, or says why not.
pub fn reach_at_once(session: Session) {
    let waiting = session.get::<Waiting>();
    if waiting.state.load(Ordering::Relaxed) != TRYING {
        return;
    }
    let mut state = UNREACHED;
    waiting.with(|environment| {
        let socket = environment.get("GPUSPY_SOCKET").and_then(|path| connect(path).ok().flatten());
        if socket.is_some_and(|socket| hand_over(session, socket).is_ok()) {
            state = REACHED;
        }
    });
    // Release, with the acquire in `reach`.
    waiting.state.store(state, Ordering::Release);
}

/// Gives the segment to a collector, or prints why there is none. On the poller thread. Returns whether a collector has it.
pub fn reach(session: Session) -> bool {
    let waiting = session.get::<Waiting>();
    // Acquire, with the release in `reach_at_once`, which makes a dozen system calls that do not wait.
    while waiting.state.load(Ordering::Acquire) == TRYING {
        sys::sleep_ns(50_000);
    }
    let Some(environment) = waiting.take().filter(|_| waiting.state.load(Ordering::Relaxed) != REACHED)
    else {
        return true; // a collector was reached before
    };
    let result = match environment.get("GPUSPY_SOCKET") {
        Some(path) => connect_in_turn(session, path).and_then(|socket| hand_over(session, socket)),
        None => start(session, &environment),
    };
    if let Err(why) = &result {
        exit::say_unobserved(why, session.get::<exit::Shared>().is_quiet());
    }
    result.is_ok()
}

/// How long to wait before the next try to connect to a collector that has too many connections waiting, ns.
const TURN_NS: u64 = 10_000_000;

/// Connects to the collector that listens there, when it can: until the process ends.
fn connect_in_turn(session: Session, path: &OsStr) -> Result<c_int, String> {
    loop {
        if let Some(socket) = connect(path)? {
            return Ok(socket);
        }
        if session.poller.is_stopped() || !session.segment.has_writers() && sys::is_last_thread() {
            return Err(format!(
                "its collector at {} has taken no connection for as long as this process ran: it may be stopped, or out of \
                 descriptors",
                path.display()
            ));
        }
        sys::sleep_ns(TURN_NS);
    }
}

/// Connects to the collector that listens there. `None`: it has as many connections waiting as listen(2) lets it have, for which
/// nobody waits.
fn connect(path: &OsStr) -> Result<Option<c_int>, String> {
    let unreachable = |error: std::io::Error| match error.kind() {
        ErrorKind::PermissionDenied => format!(
            "its collector at {} is another user's: put `gpuspy run` behind gosu, setpriv or su, so that both are the same",
            path.display()
        ),
        _ => format!(
            "its collector does not answer at {}: a collector comes first (`gpuspy collect --dir DIR`), on this machine and as this \
             user, and `gpuspy run` ends with its command: put it inside srun, mpirun or the container, and keep what it starts \
             in the foreground",
            path.display()
        ),
    };
    // SAFETY: all-zero is a sockaddr_un.
    let mut address: libc::sockaddr_un = unsafe { core::mem::zeroed() };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    let bytes = path.as_bytes();
    // One byte stays zero: it terminates the path.
    let most = address.sun_path.len() - 1;
    if bytes.len() > most {
        return Err(format!(
            "the path of its collector's socket may have {most} bytes, and has {}: {}",
            bytes.len(),
            path.display()
        ));
    }
    for (to, from) in address.sun_path.iter_mut().zip(bytes) {
        *to = *from as c_char;
    }
    // SAFETY: a fresh socket, and an address struct of ours.
    unsafe {
        let socket =
            libc::socket(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK, 0);
        let address_bytes = size_of::<libc::sockaddr_un>() as libc::socklen_t;
        if socket < 0 || libc::connect(socket, (&raw const address).cast(), address_bytes) != 0 {
            let error = std::io::Error::last_os_error();
            if socket >= 0 {
                libc::close(socket);
            }
            // connect(2): EAGAIN.
            return if socket >= 0 && error.kind() == ErrorKind::WouldBlock {
                Ok(None)
            } else {
                Err(unreachable(error))
            };
        }
        Ok(Some(sys::out_of_the_way(socket)))
    }
}

/// Sends the hello with the segment's descriptor. The socket stays open for as long as the process lives: when it
/// closes, the session is over. It is closed if that fails.
fn hand_over(session: Session, socket: c_int) -> Result<(), String> {
    let sent = send(session, socket);
    if sent.is_ok() {
        descriptors::CONNECTION.keep(socket);
    } else {
        // SAFETY: our own descriptor.
        unsafe { libc::close(socket) };
    }
    sent
}

/// Sends them, and leaves the socket open in any case.
fn send(session: Session, socket: c_int) -> Result<(), String> {
    let header = session.segment.header();
    let mut hello = Hello::new(header.pid, header.start_time, session.segment.bytes()).to_bytes();
    let mut part = libc::iovec { iov_base: hello.as_mut_ptr().cast(), iov_len: hello.len() };
    // Room and alignment for one descriptor's control message.
    let mut control = [0u64; 8];
    let fd = session.segment.fd().ok_or("its shared memory was closed before a collector had it")?;
    // SAFETY: CMSG_* arithmetic inside `control`, which is larger than CMSG_SPACE of one descriptor; every pointer is
    // to a local that outlives the call.
    let sent = unsafe {
        let mut message: libc::msghdr = core::mem::zeroed();
        message.msg_iov = &mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = libc::CMSG_SPACE(size_of::<c_int>() as u32) as _;
        let header = libc::CMSG_FIRSTHDR(&message);
        if let Some(header) = header.as_mut() {
            header.cmsg_level = libc::SOL_SOCKET;
            header.cmsg_type = libc::SCM_RIGHTS;
            header.cmsg_len = libc::CMSG_LEN(size_of::<c_int>() as u32) as _;
            libc::CMSG_DATA(header).cast::<c_int>().write_unaligned(fd);
        }
        libc::sendmsg(socket, &message, libc::MSG_NOSIGNAL)
    };
    if sent == hello.len() as isize {
        Ok(())
    } else {
        Err("its collector does not take its shared memory".into())
    }
}

/// Starts a collector for this process alone.
fn start(session: Session, environment: &Environment) -> Result<(), String> {
    let mut subreaper: c_int = 0;
    // SAFETY: writes a place of ours.
    unsafe { libc::prctl(libc::PR_GET_CHILD_SUBREAPER, &mut subreaper) };
    if sys::pid() == 1 || subreaper != 0 {
        return Err("it is PID 1 or a subreaper, whose child a collector would become; \
             use `gpuspy run -- COMMAND` as the entry point, or `gpuspy collect --dir DIR` and GPUSPY_SOCKET"
            .into());
    }
    let program = find(environment)?;
    let place = Place::find(environment)?;
    let started = start_for(session, environment, &program, &place.path);
    match &started {
        Ok(()) => {
            let command = format!("{} report {}", quoted(&program), quoted(&place.path));
            session.get::<exit::Shared>().announce(Announcement::new(place, command));
        }
        Err(_) => place.give_up(),
    }
    started
}

/// Starts the collector for this trace and gives the segment to it.
fn start_for(
    session: Session,
    environment: &Environment,
    program: &CStr,
    trace: &CStr,
) -> Result<(), String> {
    let mut sockets = [0 as c_int; 2];
    // SAFETY: writes an array of ours.
    if unsafe {
        libc::socketpair(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0, sockets.as_mut_ptr())
    } != 0
    {
        return Err("no socket can be made for its collector".into());
    }
    let [ours, theirs] = sockets.map(sys::out_of_the_way);
    // Sent before the collector exists: if the process ends while the collector starts, nothing is lost.
    let handed = hand_over(session, ours);
    let started = handed.and_then(|()| {
        spawn(program, trace, theirs, environment).map_err(|errno| {
            // SAFETY: our own descriptor.
            unsafe { libc::close(ours) };
            let why = std::io::Error::from_raw_os_error(errno);
            format!("its collector {} cannot be started: {why}", program.to_string_lossy())
        })
    });
    // SAFETY: our own descriptor; the collector has its copy.
    unsafe { libc::close(theirs) };
    started
}

/// Whether a path is that of a program. (Of a directory, access(2) says the same as of a program.)
fn is_executable(path: &CStr) -> bool {
    let found = std::fs::metadata(OsStr::from_bytes(path.to_bytes()));
    // SAFETY: a terminated path.
    found.is_ok_and(|found| found.is_file()) && unsafe { libc::access(path.as_ptr(), libc::X_OK) == 0 }
}

/// Finds the collector's executable: `GPUSPY_COLLECTOR`, else `gpuspy` beside this library, else `bin/gpuspy` where this is
/// `lib/gpuspy/libgpuspy.so` (as packages install it), else on PATH. Its path is absolute: the collector leaves the
/// directory before it is executed.
fn find(environment: &Environment) -> Result<CString, String> {
    let program = |path: &OsStr| {
        let path = environment.path(path);
        CString::new(path.as_os_str().as_bytes()).ok().filter(|p| is_executable(p))
    };
    if let Some(path) = environment.get("GPUSPY_COLLECTOR") {
        return program(path).ok_or_else(|| {
            format!(
                "GPUSPY_COLLECTOR={} is not a program that can be executed: set it to the path of `gpuspy`, or unset it",
                path.display()
            )
        });
    }
    let ours = our_folder();
    let beside = ours.as_ref().map(|folder| [folder.as_slice(), b"/gpuspy"].concat());
    let prefix = ours.as_ref().and_then(|folder| folder.strip_suffix(b"/lib/gpuspy".as_slice()));
    let installed = prefix.map(|prefix| [prefix, b"/bin/gpuspy"].concat());
    let path = environment.get("PATH").unwrap_or_default().as_bytes();
    let on_path =
        path.split(|b| *b == b':').filter(|f| !f.is_empty()).map(|folder| [folder, b"/gpuspy"].concat());
    let mut all = beside.into_iter().chain(installed).chain(on_path);
    all.find_map(|path| program(OsStr::from_bytes(&path))).ok_or_else(|| {
        "no collector was found: put `gpuspy` beside libgpuspy.so or on PATH, or set GPUSPY_COLLECTOR to it".into()
    })
}

/// Returns the folder that this library lies in.
fn our_folder() -> Option<Vec<u8>> {
    // SAFETY: all-zero is a Dl_info.
    let mut info: libc::Dl_info = unsafe { core::mem::zeroed() };
    // SAFETY: an address in this library; writes our struct.
    if unsafe { libc::dladdr(reach as *const c_void, &mut info) } == 0 || info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: the loader's terminated path.
    let path = unsafe { CStr::from_ptr(info.dli_fname) }.to_bytes();
    // The loader has it as LD_PRELOAD does. A relative one may mean another file by now: the app may have gone elsewhere.
    let maps = if path.starts_with(b"/") { Maps::default() } else { Maps::now() };
    let mapped = maps.path_at(reach as *const c_void as u64);
    let absolute = std::fs::canonicalize(OsStr::from_bytes(mapped.unwrap_or(path))).ok()?;
    Some(absolute.parent()?.as_os_str().as_bytes().to_vec())
}

/// Quotes a path for a shell.
fn quoted(path: &CStr) -> String {
    let text = path.to_string_lossy();
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+,:@%=".contains(c);
    if text.chars().all(is_plain) {
        return text.into_owned();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// The descriptor at which the collector finds its socket.
const SOCKET_FD: c_int = 3;

/// What the two cloned processes need; they share our memory and allocate nothing.
struct Plan {
    program: *const c_char,
    arguments: *const *const c_char,
    environment: *const *const c_char,
    socket: c_int,
    second_stack: *mut c_void,
    error: c_int,
}

const STACK: usize = 64 << 10;

/// Starts `program collect --inherit-fd 3 --output TRACE`, which does not become a child of the app's. `Err` is errno.
fn spawn(program: &CStr, trace: &CStr, socket: c_int, environment: &Environment) -> Result<(), c_int> {
    let arguments = [program, c"collect", c"--inherit-fd", c"3", c"--output", trace];
    let arguments: Vec<*const c_char> =
        arguments.iter().map(|a| a.as_ptr()).chain([core::ptr::null()]).collect();
    let environment: Vec<*const c_char> =
        environment.for_collector().map(CStr::as_ptr).chain([core::ptr::null()]).collect();
    let stacks = heap::boxed(2 * STACK / 16, || 0u128).ok_or(libc::ENOMEM)?;
    let top =
        |n: usize| -> *mut c_void { stacks.as_ptr().cast::<u8>().wrapping_add(n * STACK).cast_mut().cast() };
    let mut plan = Plan {
        program: program.as_ptr(),
        arguments: arguments.as_ptr(),
        environment: environment.as_ptr(),
        socket,
        second_stack: top(2),
        error: 0,
    };
    let first_stack = top(1);
    // SAFETY: both functions run on stacks of their own while we are suspended, use only the plan and system calls, and end
    // in exec or exit. Exit signal 0: the app gets no signal, and only a wait with __WCLONE returns it.
    unsafe {
        let child = clone::run(leave, first_stack, 0, (&raw mut plan).cast());
        if child < 0 {
            plan.error = -child;
        } else {
            libc::waitpid(child, core::ptr::null_mut(), libc::__WCLONE);
        }
    }
    drop(stacks);
    if plan.error == 0 { Ok(()) } else { Err(plan.error) }
}

/// Runs in the intermediate process: starts the collector and exits, so that the collector is not a child of the app's.
extern "C" fn leave(plan: *mut c_void) -> c_int {
    // SAFETY: the plan of `spawn`, which is suspended; the stack above.
    unsafe {
        let second_stack = (*plan.cast::<Plan>()).second_stack;
        let collector = clone::run(become_collector, second_stack, libc::SIGCHLD, plan);
        if collector < 0 {
            (*plan.cast::<Plan>()).error = -collector;
        }
        libc::_exit(0)
    }
}

/// Runs in the collector's process, until exec.
extern "C" fn become_collector(plan: *mut c_void) -> c_int {
    // SAFETY: the plan of `spawn`; descriptors, signal settings and directory are this process's own copies.
    unsafe {
        let plan = &mut *plan.cast::<Plan>();
        libc::setsid();
        libc::chdir(c"/".as_ptr());
        // What the app ignores would stay ignored across exec. The kernel's own struct: all zero is SIG_DFL.
        let default = [0u64; 4];
        for signal in 1..=64 {
            libc::syscall(
                libc::SYS_rt_sigaction,
                signal,
                default.as_ptr(),
                core::ptr::null::<c_void>(),
                8usize,
            );
        }
        let none = 0u64;
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            libc::SIG_SETMASK,
            &none,
            core::ptr::null::<c_void>(),
            8usize,
        );
        // The app may be pinned to one core, which it needs for itself.
        let all = [u64::MAX; 128];
        libc::syscall(libc::SYS_sched_setaffinity, 0, size_of_val(&all), all.as_ptr());
        sys::leave_real_time();
        if plan.socket == SOCKET_FD {
            libc::fcntl(SOCKET_FD, libc::F_SETFD, 0);
        } else {
            libc::dup2(plan.socket, SOCKET_FD);
        }
        let mut null = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR);
        if null < 0 {
            // In a root without devices. The program's own files would stay open for as long as the collector lives.
            null = libc::syscall(libc::SYS_memfd_create, c"null".as_ptr(), 0) as c_int;
        }
        for fd in 0..3 {
            libc::dup2(null, fd);
        }
        if libc::syscall(libc::SYS_close_range, SOCKET_FD + 1, c_int::MAX, 0) != 0 {
            for fd in SOCKET_FD + 1..4096 {
                libc::close(fd); // Linux before 5.9
            }
        }
        libc::execve(plan.program, plan.arguments, plan.environment);
        plan.error = *libc::__errno_location();
        libc::_exit(127)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each was reported as a collector that does not answer, or that was not found, without what to do.
    #[test]
    #[cfg_attr(miri, ignore = "Miri has no Unix sockets")]
    fn a_collector_that_cannot_be_reached_is_told_with_what_to_do() {
        let why = |path: &str| connect(path.as_ref()).unwrap_err();
        assert_eq!(
            why("/no/such/socket"),
            "its collector does not answer at /no/such/socket: a collector comes first (`gpuspy collect --dir DIR`), on this machine \
             and as this user, and `gpuspy run` ends with its command: put it inside srun, mpirun or the container, and keep what it \
             starts in the foreground"
        );
        let long = "/a".repeat(54);
        assert_eq!(
            why(&long),
            format!("the path of its collector's socket may have 107 bytes, and has 108: {long}")
        );
        assert!(why(&long[1..]).starts_with("its collector does not answer"));
        let environment = Environment::of(&["GPUSPY_COLLECTOR=/no/such/gpuspy", "PATH=/usr/bin"]);
        assert_eq!(
            find(&environment).unwrap_err(),
            "GPUSPY_COLLECTOR=/no/such/gpuspy is not a program that can be executed: set it to the path of `gpuspy`, or \
             unset it"
        );
    }

    /// Connecting waited for a collector that was stopped, and the end of the process for that.
    #[test]
    #[cfg_attr(miri, ignore = "Miri has no Unix sockets")]
    fn a_collector_with_a_full_queue_is_not_waited_for() {
        use std::os::fd::AsRawFd;
        let path = std::env::temp_dir().join(format!("gpuspy-agent-queue-{}", std::process::id()));
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        // SAFETY: lets one connection wait to be accepted.
        assert_eq!(unsafe { libc::listen(listener.as_raw_fd(), 0) }, 0);
        let connected = || connect(path.as_os_str()).unwrap();
        let first = connected().unwrap();
        assert_eq!(connected(), None);
        drop(listener.accept().unwrap());
        let second = connected().unwrap();
        // SAFETY: our own descriptors.
        unsafe {
            libc::close(first);
            libc::close(second);
        }
        std::fs::remove_file(&path).unwrap();
    }

    /// The collector leaves the directory before it is executed, so that one with a relative path could never be started; and a
    /// directory of that name was taken for the program.
    #[test]
    #[cfg_attr(miri, ignore = "Miri has no access(2)")]
    fn a_collector_is_found_by_a_relative_path_and_is_no_directory() {
        let folder = std::env::temp_dir().join(format!("gpuspy-agent-collector-{}", std::process::id()));
        let bin = folder.join("bin");
        std::fs::create_dir_all(&bin).unwrap();
        let find = |variable: &str| find(&Environment::of_in(&folder, &[variable]));
        std::fs::create_dir(bin.join("gpuspy")).unwrap();
        for variable in ["GPUSPY_COLLECTOR=bin/gpuspy", "PATH=bin"] {
            assert!(find(variable).is_err(), "{variable}: it is a directory");
        }
        std::fs::remove_dir(bin.join("gpuspy")).unwrap();
        std::os::unix::fs::symlink("/bin/sh", bin.join("gpuspy")).unwrap();
        for variable in ["GPUSPY_COLLECTOR=bin/gpuspy", "PATH=bin"] {
            let found = find(variable).unwrap();
            assert_eq!(found.to_bytes(), bin.join("gpuspy").as_os_str().as_bytes(), "{variable}");
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
