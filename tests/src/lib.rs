//! Runs client programs on the simulated GPU, with and without gpuspy, and reads back the program's own counts, the
//! simulator's truth, the trace and the report.
//!
//! Everything that runs is built by `scripts/build-sim.sh`, which `scripts/test.sh` calls.

use serde_json::Value;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::{FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

pub mod agree;
pub mod generated;
pub mod scale;
pub mod truth;

/// Returns the repository's root.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_path_buf()
}

fn built(path: PathBuf) -> PathBuf {
    assert!(path.exists(), "{} is missing: run scripts/build-sim.sh (scripts/test.sh does)", path.display());
    path
}

/// Returns the path of the collector's executable.
pub fn gpuspy() -> PathBuf {
    built(root().join("target/release/gpuspy"))
}

/// Returns the path of the agent.
pub fn agent() -> PathBuf {
    built(root().join("target/release/libgpuspy.so"))
}

/// Returns the folder of the simulated driver and runtime.
pub fn sim_lib() -> PathBuf {
    built(root().join("target/sim/lib"))
}

/// Returns the path of a client program, or of a library `lib….so` beside them.
pub fn program(name: &str) -> PathBuf {
    built(root().join("target/sim/bin").join(name))
}

/// Returns the path of the program that generates traces and measures the cost of reading them.
pub fn scale_program() -> PathBuf {
    built(root().join("target/release/scale"))
}

/// A run that is being prepared, with a folder of its own.
pub struct Run {
    folder: tempfile::TempDir,
    command: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    on_gpu: bool,
}

/// A finished run.
pub struct Done {
    folder: tempfile::TempDir,
    /// Its exit status.
    pub status: ExitStatus,
    /// What it printed on stdout.
    pub stdout: String,
    /// What it printed on stderr.
    pub stderr: String,
    /// The share of its wall time, 0 to 1, in which some runnable thread on the machine waited for a processor.
    pub pressure: f64,
}

impl Run {
    /// Prepares a client program on the simulated GPU.
    pub fn of(name: &str) -> Run {
        Run::command(program(name))
    }

    /// Prepares any program, with the simulated GPU on the loader's path.
    pub fn command(program: impl AsRef<OsStr>) -> Run {
        Run {
            folder: tempfile::tempdir().unwrap(),
            command: vec![program.as_ref().to_owned()],
            environment: Vec::new(),
            on_gpu: true,
        }
    }

    /// Adds an argument.
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Run {
        self.command.push(argument.as_ref().to_owned());
        self
    }

    /// Sets a variable of the program's environment.
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Run {
        self.environment.push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Times launches in windows within a budget, not in full as tests do by default.
    pub fn auto(self, percent: &str) -> Run {
        self.env("GPUSPY_TIMING", "auto").env("GPUSPY_BUDGET", percent)
    }

    /// Removes the simulator from the loader's path, as on a machine without CUDA.
    pub fn without_gpu(mut self) -> Run {
        self.on_gpu = false;
        self
    }

    /// Returns the run's own folder: its working directory, removed together with the result.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the command with the agent preloaded, for tests that do more than run it. The folder is removed with the
    /// `Run`, so keep that.
    pub fn preloaded_command(&self) -> Command {
        self.prepare(&self.command, &[("LD_PRELOAD", agent().to_str().unwrap())])
    }

    /// Returns the command without the agent.
    pub fn plain_command(&self) -> Command {
        self.prepare(&self.command, &[])
    }

    /// Returns a `gpuspy` command with these arguments, in the run's folder and environment.
    pub fn gpuspy_command(&self, arguments: &[&str]) -> Command {
        let command: Vec<OsString> =
            std::iter::once(gpuspy().into()).chain(arguments.iter().map(OsString::from)).collect();
        self.prepare(&command, &[])
    }

    /// Runs the program without gpuspy.
    pub fn plain(self) -> Done {
        let command = self.command.clone();
        self.start(&command, &[])
    }

    /// Runs the program with only the agent preloaded.
    pub fn preloaded(self) -> Done {
        self.preloaded_among(&[], &[])
    }

    /// Runs the program with other libraries preloaded before and after the agent.
    pub fn preloaded_among(self, before: &[&str], after: &[&str]) -> Done {
        let libraries: Vec<PathBuf> = before
            .iter()
            .map(|name| program(name))
            .chain([agent()])
            .chain(after.iter().map(|name| program(name)))
            .collect();
        let list = libraries.iter().map(|l| l.to_str().unwrap()).collect::<Vec<_>>().join(":");
        let command = self.command.clone();
        self.start(&command, &[("LD_PRELOAD", &list)])
    }

    /// Runs the program under `gpuspy run`, which writes `trace.gspy`.
    pub fn observed(self) -> Done {
        self.observed_with(&[])
    }

    /// Does the same with more options of `gpuspy run`.
    pub fn observed_with(self, options: &[&str]) -> Done {
        let mut command: Vec<OsString> =
            vec![gpuspy().into(), "run".into(), "-o".into(), "trace.gspy".into()];
        command.extend(options.iter().map(OsString::from));
        command.push("--".into());
        command.extend(self.command.iter().cloned());
        self.start(&command, &[])
    }

    fn prepare(&self, command: &[OsString], extra: &[(&str, &str)]) -> Command {
        let (program, arguments) = command.split_first().unwrap();
        let mut process = Command::new(program);
        process.args(arguments).current_dir(self.folder.path()).stdin(Stdio::null());
        for variable in ["LD_PRELOAD", "LD_LIBRARY_PATH"] {
            process.env_remove(variable);
        }
        for (name, _) in std::env::vars_os().filter(|(n, _)| n.to_string_lossy().starts_with("GPUSPY")) {
            process.env_remove(name);
        }
        if self.on_gpu {
            process.env("LD_LIBRARY_PATH", sim_lib());
            process.env("SIMCUDA_TRUTH", self.folder.path().join("truth.jsonl"));
        }
        // Most tests compare every operation's time with the truth.
        process.env("GPUSPY_TIMING", "exact");
        process.envs(self.environment.iter().map(|(n, v)| (n, v))).envs(extra.iter().copied());
        process
    }

    fn start(self, command: &[OsString], extra: &[(&str, &str)]) -> Done {
        let process = self.prepare(command, extra);
        self.finish(process)
    }

    /// Runs a command of this run to its end.
    pub fn finish(self, process: Command) -> Done {
        self.finish_after(process, |_| {})
    }

    /// Starts a command of this run, does something to its process, of which it gets the id, and waits for its end.
    pub fn finish_after(self, mut process: Command, during: impl FnOnce(u32)) -> Done {
        let began = (Instant::now(), waited_for_processors());
        process.stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = process.spawn().unwrap_or_else(|e| panic!("cannot run {process:?}: {e}"));
        during(child.id());
        let output = child.wait_with_output().unwrap_or_else(|e| panic!("cannot wait for {process:?}: {e}"));
        Done { pressure: pressure_since(began), ..self.finished(output) }
    }

    /// Describes a command of this run that has ended, and printed this.
    pub fn finished(self, output: Output) -> Done {
        Done {
            pressure: 1.0,
            folder: self.folder,
            status: output.status,
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

impl Done {
    /// Returns the run's folder.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Fails the test with everything that the program printed, unless its exit status is 0.
    pub fn succeeded(self) -> Done {
        assert!(self.status.success(), "{}\nstdout: {}\nstderr: {}", self.status, self.stdout, self.stderr);
        self
    }

    /// Returns whether `part` is at least `share` of `all`, where the share is lowered by the pressure on the machine:
    /// a poller and hooks that get no processor leave launches untimed, and report that they did.
    pub fn is_share(&self, part: usize, all: usize, share: f64) -> bool {
        part as f64 >= all as f64 * share * (1.0 - self.pressure)
    }

    /// Fails the test if the report of the only trace says that something was dropped. Where programs waited for processors,
    /// GPU times may lack: the program's end waits a tenth of a second for the poller that reads them.
    pub fn dropped_nothing(&self, report: &Value) {
        let coverage = &report["coverage"];
        let may_lack =
            if self.pressure > 0.3 { coverage["dropped_by"]["gpu_time_pending"].as_u64() } else { None };
        assert_eq!(coverage["dropped"], may_lack.unwrap_or(0), "{coverage:#}, pressure {}", self.pressure);
    }

    /// Returns the line of JSON that the program printed on stdout: its own account of what it did.
    pub fn said(&self) -> Value {
        let line = self.stdout.lines().find(|l| l.starts_with('{'));
        let line = line.unwrap_or_else(|| panic!("no JSON in: {}\nstderr: {}", self.stdout, self.stderr));
        serde_json::from_str(line).unwrap()
    }

    /// Returns the traces in the run's folder, waiting until there is one. A collector that the agent started may still
    /// be writing; `report` waits for it to finish.
    pub fn traces(&self) -> Vec<PathBuf> {
        let list = || -> Vec<PathBuf> {
            let entries = std::fs::read_dir(self.folder()).unwrap().map(|e| e.unwrap().path());
            entries.filter(|p| p.extension().is_some_and(|e| e == "gspy")).collect()
        };
        let until = Instant::now() + Duration::from_secs(5);
        while list().is_empty() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(20));
        }
        list()
    }

    /// Returns the only trace.
    pub fn trace(&self) -> PathBuf {
        let traces = self.traces();
        assert_eq!(
            traces.len(),
            1,
            "not one trace: {traces:?}\nstdout: {}\nstderr: {}",
            self.stdout,
            self.stderr
        );
        traces.into_iter().next().unwrap()
    }

    /// Returns `gpuspy report --json` of the only trace.
    pub fn report(&self) -> Value {
        report(&self.trace())
    }

    /// Returns a section of the terminal report of the only trace, with single spaces between words.
    pub fn section(&self, name: &str) -> String {
        let output =
            Command::new(gpuspy()).args(["report", "--section", name]).arg(self.trace()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// Returns the simulator's truth.
    pub fn truth(&self) -> truth::Truth {
        truth::Truth::read(&self.folder().join("truth.jsonl"))
    }
}

/// Returns the total time for which some runnable thread has waited for a processor since boot (Linux PSI,
/// Documentation/accounting/psi.rst); `None` if the Linux kernel does not count it.
fn waited_for_processors() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/pressure/cpu").ok()?;
    let total = text.lines().find(|line| line.starts_with("some "))?.split("total=").nth(1)?;
    total.trim().parse().ok().map(Duration::from_micros)
}

/// Returns the share of the time since then in which some thread waited; 1 if unknown.
fn pressure_since((began, waited): (Instant, Option<Duration>)) -> f64 {
    let more = waited_for_processors().zip(waited).map(|(now, then)| now.saturating_sub(then));
    more.map_or(1.0, |more| (more.as_secs_f64() / began.elapsed().as_secs_f64()).min(1.0))
}

/// Repeats `run` until one run is good, and fails the test if twelve runs in a row are not. Use this for results that
/// other programs on the machine can only make worse: how close an estimate is, or how long something takes. Whatever
/// must be true on any machine has to be asserted inside `run`.
pub fn until_one_is_good(mut run: impl FnMut() -> Result<(), String>) {
    let mut runs = (0..12).map(|_| run());
    let mut why = Vec::new();
    let is_good = runs.any(|run| run.map_err(|reason| why.push(reason)).is_ok());
    assert!(is_good, "none of the runs is good: {why:#?}");
}

/// Returns `gpuspy report --json` of a trace. Fails the test if two numbers in it disagree.
pub fn report(trace: &Path) -> Value {
    let output = Command::new(gpuspy()).arg("report").arg(trace).arg("--json").output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "report of {}: {}: {error}", trace.display(), output.status);
    let report = serde_json::from_slice(&output.stdout).unwrap();
    let wrong = agree::disagreements(&report);
    assert!(wrong.is_empty(), "the report of {} disagrees with itself: {wrong:#?}", trace.display());
    report
}

/// Opens a pseudo-terminal: what is written to the second end is read from the first.
pub fn terminal() -> (File, OwnedFd) {
    let (mut master, mut slave) = (0, 0);
    let (no_name, no_settings) = (std::ptr::null_mut(), std::ptr::null_mut());
    let size = libc::winsize { ws_row: 24, ws_col: 100, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: openpty fills two descriptors, which we own from then on, and only reads the size.
    unsafe {
        let result =
            libc::openpty(&mut master, &mut slave, no_name, no_settings, (&raw const size).cast_mut());
        assert_eq!(result, 0);
        (File::from_raw_fd(master), OwnedFd::from_raw_fd(slave))
    }
}
