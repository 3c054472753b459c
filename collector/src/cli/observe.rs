//! How does a command run under the agent, and what is said of what was collected from it?

use super::launch::{self, PrivateDir};
use super::printing::Printing;
use super::program::{self, BlindSpot};
use super::{Failure, panic, quoted, say, say_what_is_missing};
use crate::collect::sys::{self, Arrived, Signals, Stopped};
use crate::collect::{self, Collector, HangWatch, Session, Stopper, Target, Traces, descriptors};
use crate::trace::record::Ending;
use crate::why::{said, why};
use gpuspy_wire::switch;
use parking_lot::Mutex;
use std::ffi::OsStr;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::time::{Duration, Instant};

/// How long to wait for processes that end together with the command.
const GRACE: Duration = Duration::from_millis(100);

/// How often to see whether the command has ended, where the kernel has no descriptor that tells it (before Linux 5.3).
const LOOK: Duration = Duration::from_millis(20);

/// How often PID 1 waits for processes whose parents have ended.
pub(super) const REAP: Duration = Duration::from_secs(1);

/// For so long after the command's end, a signal counts as the one that ended it: timeout(1) and schedulers send one to a process and
/// one to its group.
const ONE_SIGNAL: Duration = Duration::from_millis(200);

/// The exit code where the system does not say how the command ended.
const UNKNOWN: i32 = 1;

/// The result of a command that ran under the agent.
pub(super) struct Observed {
    /// How it ended, or why it could not be started.
    pub(super) status: io::Result<ExitStatus>,
    /// The collector, which has the traces.
    pub(super) collector: Collector,
    /// The results of the collection from each of its processes.
    pub(super) sessions: Vec<collect::Result<Session>>,
}

/// The variable that names the library which NVTX loads (nvtxInit.h).
const NVTX_INJECTION: &str = "NVTX_INJECTION64_PATH";

/// What goes on beside a command until its traces are complete, in a thread of its own.
pub(super) type Meanwhile<'a> = &'a (dyn Fn(&Collector, &Stopped) + Sync);

/// Runs a command under the agent to its end, and collects from all its processes. Signals that gpuspy receives are passed on
/// to the command. The traces say that `again` launches the same.
pub(super) fn observe(
    target: Target,
    mut command: Command,
    again: &[String],
    hangs: HangWatch,
    meanwhile: Option<Meanwhile<'_>>,
) -> Result<Observed, Failure> {
    let private = PrivateDir::new()?;
    let socket = private.path().join(launch::SOCKET);
    let agent = launch::loadable(&launch::find_agent()?, &private)?;
    // A program that would not start with the agent runs without it; `conclude` says why nothing was collected.
    let would_fail = program::blind_spot(command.get_program()).is_some_and(|spot| spot.would_fail);
    if !would_fail {
        command
            .env("LD_PRELOAD", launch::preload(&agent, std::env::var_os("LD_PRELOAD")))
            .env("GPUSPY_SOCKET", &socket);
    }
    // If another tool is set to receive the NVTX ranges, it keeps them.
    if !would_fail && std::env::var_os(NVTX_INJECTION).is_none_or(|path| path.is_empty()) {
        command.env(NVTX_INJECTION, &agent);
    }
    // The program keeps its own limit.
    descriptors::raise_limit().restore_in(&mut command);
    // It also ignores the signals that it would ignore without gpuspy.
    sys::keep_statuses().restore_in(&mut command);
    // Signals are blocked first, so that threads started later do not receive them.
    let signals = Signals::block(&forwarded())
        .map_err(|e| Failure::usage(format_args!("cannot watch for signals: {}", why(&e))))?;
    // Its thread inherits the blocked signals. Its end waits as long as the report has to, which is printed next.
    let printing = Printing::begin(Duration::MAX);
    let listener = collect::bind(&socket)?;
    let (collector, stopper) = Collector::new(target)?;
    let collector = collector.watching(hangs).launched_by(again);
    let sessions = Mutex::new(Vec::new());
    let (over, is_over) =
        sys::stop().map_err(|e| Failure::usage(format_args!("cannot make a pipe: {}", why(&e))))?;
    let status = std::thread::scope(|threads| {
        if let Some(meanwhile) = meanwhile {
            // Without this thread, or if it panics, only what it would show is missing.
            let shown = || {
                panic::caught(|| {
                    meanwhile(&collector, &is_over);
                    ExitCode::SUCCESS
                })
            };
            let _ = std::thread::Builder::new().spawn_scoped(threads, shown);
        }
        let listening = std::thread::Builder::new().spawn_scoped(threads, || {
            collector.listen(listener, |session| {
                sessions.lock().push(session.map(|(session, _)| session));
            });
        });
        // Without this thread, the program runs unobserved, and its agent says so.
        let listening = listening.map_err(|e| say(collect::Error::no_thread("the collector", &e)));
        let status = signals.restore_in(&mut command).spawn().map(|child| end_of(child, &signals, &stopper));
        drop(stopper);
        if let Ok(listening) = listening {
            wait_until(ONE_SIGNAL, || listening.is_finished());
            // The command has ended: from here on, Ctrl-C ends gpuspy, if it would have before.
            drop(signals);
            // A panic of this thread has been reported already and does not change the command's exit code.
            let _ = listening.join();
        }
        drop(over);
        status
    });
    drop(printing);
    let sessions = sessions.into_inner();
    Ok(Observed { status, collector, sessions })
}

/// The signals that users, schedulers of jobs and timers send to what they take for the program. Each would end gpuspy.
fn forwarded() -> Vec<i32> {
    let named = [
        libc::SIGINT,
        libc::SIGQUIT,
        libc::SIGTERM,
        libc::SIGHUP,
        libc::SIGUSR1,
        libc::SIGUSR2,
        libc::SIGALRM,
        libc::SIGXCPU,
        libc::SIGXFSZ,
        libc::SIGPWR,
    ];
    named.into_iter().chain(libc::SIGRTMIN()..=libc::SIGRTMAX()).collect()
}

/// Waits for the command's end, and returns how it ended. It runs, so nothing that fails here is a reason not to run it.
fn end_of(mut child: Child, signals: &Signals, stopper: &Stopper) -> ExitStatus {
    sys::last_words("gpuspy: nothing more is recorded; the command runs on\n".to_owned());
    sys::watch_over(child.id());
    let known = attend(&child, signals);
    match &known {
        Ok(status) => {
            sys::watched_ended(*status);
            sys::last_words("gpuspy: there is no report, and the trace may end early\n".to_owned());
        }
        Err(e) => say(format_args!("signals are not passed on to the command: {}", why(e))),
    }
    // The child is not reaped yet, so that /proc still has its name.
    wait_for_the_last(stopper);
    let waited = child.wait();
    waited.or(known).unwrap_or_else(|e| {
        say(format_args!("the system does not say how the command ends: {}", why(&e)));
        ExitStatus::from_raw(UNKNOWN << 8)
    })
}

/// Waits until the command ends, which stays a zombie, and passes signals on to it. Returns how it ended. SIGCHLD would not tell the end
/// for sure: in a thread that somebody else started in this process, as compute-sanitizer does, it is not blocked, and such a thread may
/// take it.
fn attend(child: &Child, signals: &Signals) -> io::Result<ExitStatus> {
    let end = sys::pidfd_open(child.id()).ok();
    // PID 1 inherits all processes of its container whose parents have ended.
    let is_pid_1 = std::process::id() == 1;
    let look_again = match end {
        None => LOOK,
        Some(_) if is_pid_1 => REAP,
        Some(_) => sys::FOREVER,
    };
    loop {
        if let Some(status) = sys::ended(child.id())? {
            return Ok(status);
        }
        if sys::wait([Some(signals.as_fd()), end.as_ref().map(AsFd::as_fd)], look_again).is_err() {
            std::thread::sleep(LOOK);
        }
        if is_pid_1 {
            sys::reap_all_but(Some(child.id()));
        }
        if let Some(signal) = signals.next()?.filter(is_for_the_child) {
            sys::send_signal(child.id(), signal.number);
        }
    }
}

/// Whether a signal is to be passed on. The child is in the same foreground group, to which a terminal sends the signals of its
/// keys, so that it has received those itself; and a limit that gpuspy has reached is not the child's. A hangup goes to the leader
/// of the session alone, which gpuspy may be (`ssh -t host gpuspy run …`), and to the group only if the leader ends. A program that
/// receives it twice ends as one that receives it once.
fn is_for_the_child(signal: &Arrived) -> bool {
    let own = [libc::SIGINT, libc::SIGQUIT, libc::SIGXCPU, libc::SIGXFSZ];
    !(signal.from_kernel && own.contains(&signal.number))
}

/// Waits a moment for processes that end together with the command.
pub(super) fn wait_for_the_last(stopper: &Stopper) {
    wait_until(GRACE, || stopper.running() == 0);
}

/// Waits until something is so, and no longer than that.
fn wait_until(patience: Duration, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + patience;
    while !is_so() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Returns why a program could not be started, with the exit code that shells give it.
pub(super) fn not_started(program: &OsStr, error: &io::Error) -> Failure {
    Failure {
        code: if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 },
        sentence: format!("cannot run {}: {}", program.display(), why_not(error)),
    }
}

/// Returns why a program was not started: the system's own words, and what to do.
fn why_not(error: &io::Error) -> String {
    let advice = match (error.kind(), error.raw_os_error()) {
        (io::ErrorKind::NotFound, _) => "check its path, PATH, and the interpreter that a script names",
        (io::ErrorKind::PermissionDenied, _) => "name a program, or make it executable with chmod +x",
        (_, Some(libc::ENOEXEC)) => {
            "it is not a program for this machine; a script needs a first line with #! and its interpreter"
        }
        _ => return said(error),
    };
    format!("{}; {advice}", said(error))
}

/// Says what is known of a program's sessions and is not in the report, or why there is no trace.
pub(super) fn say_what_was_collected(program: &OsStr, observed: &Observed, is_quiet: bool) {
    let (traces, sessions) = (observed.collector.traces(), &observed.sessions);
    for session in sessions {
        match session {
            Err(error) => say(error),
            Ok(session) => {
                say_what_is_missing(session, traces.path(session.trace));
                if session.ending == Ending::Detached && !is_quiet {
                    let Session { program, pid, .. } = session;
                    say(format_args!("{program} ({pid}) is still running; its trace ends here"));
                }
            }
        }
    }
    if traces.whole().is_none() && sessions.is_empty() {
        say_that_nothing_was_collected(program, &traces, is_quiet);
    }
}

/// Says where the trace is.
pub(super) fn say_where(trace: &Path) {
    say(format_args!(
        "the trace is {}; read it again with: gpuspy report {}",
        trace.display(),
        quoted(trace)
    ));
}

/// Says why there is no trace, and where an earlier one of its name is now.
fn say_that_nothing_was_collected(program: &OsStr, traces: &Traces, is_quiet: bool) {
    let former = traces.set_former_aside();
    if is_quiet {
        return;
    }
    say(nothing_collected(program));
    if let Some(former) = former {
        say(format_args!("the trace of an earlier run is now {}", former.display()));
    }
}

fn nothing_collected(program: &OsStr) -> String {
    if let Some(value) = std::env::var_os("GPUSPY").filter(|value| switch::is_off(value.as_bytes())) {
        return format!("nothing was collected: GPUSPY={} turns the agent off: unset it", value.display());
    }
    match program::blind_spot(program) {
        Some(BlindSpot { reason, remedy, .. }) => format!("nothing was collected: {reason}: {remedy}"),
        None => format!(
            "nothing was collected: no process that the command started here called CUDA before the command ended, or it ended in its \
             first call, or said above why it runs unobserved. What goes on in the background is not waited for; \
             docker, srun, ssh and sudo start programs elsewhere or without this environment, and gosu, setpriv and su as another \
             user: put `gpuspy run` inside them. Else: gpuspy doctor -- {}",
            quoted(program.as_ref())
        ),
    }
}
