//! `gpuspy run`.

use super::hangs::HangOptions;
use super::launch::{self, PrivateDir};
use super::printing::Printing;
use super::program::{self, BlindSpot};
use super::{Failure, html, panic, progress, quoted, report, say, say_what_is_missing};
use crate::collect::sys::{self, Arrived, Signals};
use crate::collect::{self, Collector, HangWatch, Session, Stopper, Target, Traces, descriptors};
use crate::trace::record::Ending;
use crate::why::{said, why};
use clap::builder::FalseyValueParser;
use clap::{ArgAction, Args, ValueEnum};
use gpuspy_wire::capture_range::{self, CaptureRange};
use gpuspy_wire::switch;
use parking_lot::Mutex;
use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::time::{Duration, Instant};

/// The default of `--budget`, percent.
const BUDGET: f64 = 5.0;
/// The variable of `--capture-range`.
const CAPTURE_RANGE: &str = "GPUSPY_CAPTURE_RANGE";

#[derive(Args, Debug)]
pub(super) struct Options {
    /// The trace: a file, or with several processes a directory of that name
    /// [default: gpuspy-<program>-<pid>.gspy]
    #[arg(short, long, value_name = "PATH", env = "GPUSPY_OUTPUT")]
    output: Option<PathBuf>,
    /// Which operations get GPU times [default: auto; off with CUDA_DEVICE_MAX_CONNECTIONS=1]
    #[arg(long, value_enum, env = "GPUSPY_TIMING")]
    timing: Option<Timing>,
    /// The profiling overhead that --timing auto may have, in percent of wall time
    #[arg(long, value_name = "PERCENT", default_value = "5", env = "GPUSPY_BUDGET", value_parser = percent, allow_negative_numbers = true)]
    budget: f64,
    #[allow(rustdoc::broken_intra_doc_links, reason = "clap prints the comment as it is")]
    /// Record only inside a range: profiler-api (from cudaProfilerStart to cudaProfilerStop), nvtx:NAME[@DOMAIN]
    /// (while an NVTX range of that name is open; @* = in any domain), or delay=SECONDS[,duration=SECONDS] (counted
    /// from the first CUDA call; also with a unit, 200ms). All ranges of the run are recorded
    #[arg(long, value_name = "RANGE", env = CAPTURE_RANGE, value_parser = capture_range)]
    capture_range: Option<String>,
    #[command(flatten)]
    hangs: HangOptions,
    /// What gets GPU times in graph launches. `nodes` adds events to the program's graphs, which slows them down
    #[arg(long, value_enum, default_value_t = Graph::Launches, env = "GPUSPY_GRAPH")]
    graph: Graph,
    /// How much of the program's own stack each call gets, so that the report names its line (Python)
    #[arg(long, value_enum, default_value_t = Stacks::Auto, env = "GPUSPY_STACKS")]
    stacks: Stacks,
    /// Read all native frames (C++, and what Python calls) of calls that take 80 us or more
    #[arg(long, env = "GPUSPY_NATIVE", action = ArgAction::SetTrue, value_parser = FalseyValueParser::new())]
    native: bool,
    /// Do not print the report
    #[arg(long, env = "GPUSPY_NO_REPORT", action = ArgAction::SetTrue, value_parser = FalseyValueParser::new())]
    no_report: bool,
    /// Write the report as JSON beside the trace
    #[arg(long, env = "GPUSPY_JSON", action = ArgAction::SetTrue, value_parser = FalseyValueParser::new())]
    json: bool,
    /// Write the report as a page for a browser, with the timeline: one file that needs nothing else
    #[arg(long, value_name = "FILE", env = "GPUSPY_HTML")]
    html: Option<PathBuf>,
    /// Show progress on stderr if it is a terminal; the program writes there too
    #[arg(long, env = "GPUSPY_PROGRESS", action = ArgAction::SetTrue, value_parser = FalseyValueParser::new())]
    progress: bool,
    /// Print nothing unless something fails
    #[arg(short, long, env = "GPUSPY_QUIET", action = ArgAction::SetTrue, value_parser = FalseyValueParser::new())]
    quiet: bool,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "CMD")]
    command: Vec<OsString>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Timing {
    /// As many as the budget allows: everything at first, then in sampling windows
    Auto,
    /// All operations
    Exact,
    /// None: calls are recorded, but no events
    Off,
}

/// Parses the budget.
fn percent(text: &str) -> Result<f64, String> {
    let percent = text.parse().ok().filter(|p| *p > 0.0 && *p <= 100.0);
    percent.ok_or_else(|| "a percentage above 0 and up to 100 is needed".to_owned())
}

/// Parses a range as the agent does.
fn capture_range(text: &str) -> Result<String, String> {
    CaptureRange::parse(text).map(|_| text.to_owned()).ok_or_else(|| capture_range::EXPECTED.to_owned())
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Graph {
    /// Each launch as one operation
    Launches,
    /// Each launch, and samples of its kernels
    Nodes,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Stacks {
    /// All frames, and of launches that are not timed those up to the first of the user's
    Auto,
    /// All frames, up to 126
    Full,
    /// None: no name of a file or a function is read
    Off,
}

/// Returns the name that an option or a variable has for a value.
fn word(value: impl ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

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

pub(super) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let target = match &options.output {
        Some(path) => Target::from_option(path)?,
        None => Target::default_place()?,
    };
    match &options.html {
        Some(page) if page.as_os_str() == "-" => {
            return Err(Failure::usage("--html needs a file: stdout is the program's"));
        }
        Some(page) => html::replaceable(page)?,
        None => {}
    }
    if options.json {
        options.output.as_deref().map_or(Ok(()), report::json_beside)?;
    }
    options.output.iter().for_each(|trace| panic::about(trace));
    let Observed { status, collector, sessions } =
        observe(target, command(options), &again(options), options.hangs.watch(), options.progress)?;
    match status {
        Ok(status) => {
            // The exit code is the command's, whatever fails from here on.
            sys::last_words(without_report(&collector));
            panic::caught(|| {
                conclude(options, &collector, &sessions);
                ExitCode::SUCCESS
            });
            Ok(ExitCode::from(sys::end_as(status) as u8))
        }
        Err(error) => Err(Failure {
            code: if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 },
            sentence: format!("cannot run {}: {}", options.command[0].display(), why_not(&error)),
        }),
    }
}

/// Returns the line that is printed if abort(3) ends the report. The standard library has said before that an allocation failed.
fn without_report(collector: &Collector) -> String {
    let traces = collector.traces();
    let remedy = traces.whole().map_or_else(String::new, |trace| {
        format!("; the trace is kept, to be read where there is more memory: gpuspy report {}", quoted(trace))
    });
    format!("gpuspy: there is no report{remedy}\n")
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

/// Returns the command with the environment that the options set.
fn command(options: &Options) -> Command {
    let mut command = Command::new(&options.command[0]);
    command
        .args(&options.command[1..])
        .env("GPUSPY_BUDGET", options.budget.to_string())
        .env("GPUSPY_GRAPH", word(options.graph))
        .env("GPUSPY_STACKS", word(options.stacks))
        .env("GPUSPY_NATIVE", if options.native { "1" } else { "0" });
    if let Some(timing) = options.timing {
        command.env("GPUSPY_TIMING", word(timing));
    }
    if let Some(range) = &options.capture_range {
        command.env(CAPTURE_RANGE, range);
    }
    if options.quiet {
        command.env("GPUSPY_QUIET", "1");
    }
    command
}

/// Returns the words after `gpuspy run` that record the same again: the options that decide what is recorded, and the
/// command.
fn again(options: &Options) -> Vec<String> {
    let option = |name: &str, value: Option<String>| value.map(|value| [name.to_owned(), value]);
    let budget = Some(options.budget).filter(|percent| *percent != BUDGET).map(|percent| percent.to_string());
    let given = [
        option("--timing", options.timing.map(word)),
        option("--budget", budget),
        option("--capture-range", options.capture_range.clone()),
        option("--graph", matches!(options.graph, Graph::Nodes).then(|| word(options.graph))),
        option("--stacks", (!matches!(options.stacks, Stacks::Auto)).then(|| word(options.stacks))),
    ];
    let command = options.command.iter().map(|word| word.to_string_lossy().into_owned());
    let native = options.native.then(|| "--native".to_owned());
    given.into_iter().flatten().flatten().chain(native).chain(["--".to_owned()]).chain(command).collect()
}

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

/// Runs a command under the agent to its end, and collects from all its processes. Signals that gpuspy receives are passed on
/// to the command. The traces say that `again` launches the same. With `shows_progress`, a line on the terminal shows the
/// progress.
pub(super) fn observe(
    target: Target,
    mut command: Command,
    again: &[String],
    hangs: HangWatch,
    shows_progress: bool,
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
    let began = Instant::now();
    let status = std::thread::scope(|threads| {
        if shows_progress {
            // Without this thread, only the line is missing.
            let _ = std::thread::Builder::new()
                .spawn_scoped(threads, || progress::draw(collector.progress(), &is_over));
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
    if shows_progress {
        progress::total(collector.progress(), began);
    }
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

/// Prints the results.
fn conclude(options: &Options, collector: &Collector, sessions: &[collect::Result<Session>]) {
    let traces = collector.traces();
    for session in sessions {
        match session {
            Err(error) => say(error),
            Ok(session) => {
                say_what_is_missing(session, traces.path(session.trace));
                if session.ending == Ending::Detached && !options.quiet {
                    let Session { program, pid, .. } = session;
                    say(format_args!("{program} ({pid}) is still running; its trace ends here"));
                }
            }
        }
    }
    let Some(whole) = traces.whole() else {
        if sessions.is_empty() {
            say_that_nothing_was_collected(options, &traces);
        }
        return;
    };
    panic::about(whole);
    let print = !options.quiet && !options.no_report;
    let wanted = report::Wanted { print, json: options.json, html: options.html.as_deref() };
    match (report::after_run(whole, &wanted), wanted.html) {
        (Err(failure), _) => say(&failure.sentence),
        (Ok(()), Some(page)) if !options.quiet => say(format_args!("the page is {}", page.display())),
        _ => {}
    }
    if !options.quiet {
        let (shown, quoted) = (whole.display(), quoted(whole));
        say(format_args!("the trace is {shown}; read it again with: gpuspy report {quoted}"));
    }
}

/// Says why there is no trace, and where an earlier one of its name is now.
fn say_that_nothing_was_collected(options: &Options, traces: &Traces) {
    let former = traces.set_former_aside();
    if options.quiet {
        return;
    }
    say(nothing_collected(&options.command[0]));
    if let Some(former) = former {
        say(format_args!("the trace of an earlier run is now {}", former.display()));
    }
}

fn nothing_collected(program: &std::ffi::OsStr) -> String {
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
