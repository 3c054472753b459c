//! Running client programs on the simulated GPU, with and without gpuspy, and reading back what each side says: the
//! program's own counts, the simulator's truth, the trace and the report.
//!
//! Everything that runs is built by `scripts/build-sim.sh`, which `scripts/test.sh` calls.

use serde_json::Value;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

pub mod agree;
pub mod generated;
pub mod scale;
pub mod truth;

/// The repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_path_buf()
}

fn built(path: PathBuf) -> PathBuf {
    assert!(path.exists(), "{} is missing: run scripts/build-sim.sh (scripts/test.sh does)", path.display());
    path
}

/// The collector's executable.
pub fn gpuspy() -> PathBuf {
    built(root().join("target/release/gpuspy"))
}

/// The agent.
pub fn agent() -> PathBuf {
    built(root().join("target/release/libgpuspy.so"))
}

/// The folder of the simulated driver and runtime.
pub fn sim_lib() -> PathBuf {
    built(root().join("target/sim/lib"))
}

/// A client program, or a library `lib….so` beside them.
pub fn program(name: &str) -> PathBuf {
    built(root().join("target/sim/bin").join(name))
}

/// The program that generates traces and measures what reading them takes.
pub fn scale_program() -> PathBuf {
    built(root().join("target/release/scale"))
}

/// A run that is being prepared, in a folder of its own.
pub struct Run {
    folder: tempfile::TempDir,
    command: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    on_gpu: bool,
}

/// A finished run.
pub struct Done {
    folder: tempfile::TempDir,
    /// How it ended.
    pub status: ExitStatus,
    /// What it printed.
    pub stdout: String,
    /// What it complained.
    pub stderr: String,
    /// The share of its time in which something that could run waited for a processor.
    pub pressure: f64,
}

impl Run {
    /// A client program on the simulated GPU.
    pub fn of(name: &str) -> Run {
        Run::command(program(name))
    }

    /// Any program, with the simulated GPU in reach.
    pub fn command(program: impl AsRef<OsStr>) -> Run {
        Run {
            folder: tempfile::tempdir().unwrap(),
            command: vec![program.as_ref().to_owned()],
            environment: Vec::new(),
            on_gpu: true,
        }
    }

    /// One more argument.
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Run {
        self.command.push(argument.as_ref().to_owned());
        self
    }

    /// A variable of the program's environment.
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Run {
        self.environment.push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Timed in windows inside a budget, not in full as tests are by default.
    pub fn auto(self, percent: &str) -> Run {
        self.env("GPUSPY_TIMING", "auto").env("GPUSPY_BUDGET", percent)
    }

    /// On a machine without any CUDA.
    pub fn without_gpu(mut self) -> Run {
        self.on_gpu = false;
        self
    }

    /// The run's own folder: its working directory, removed with the result.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The command with the agent preloaded, for tests that do more than to run it. The folder goes with the run: keep it.
    pub fn preloaded_command(&self) -> Command {
        self.prepare(&self.command, &[("LD_PRELOAD", agent().to_str().unwrap())])
    }

    /// `gpuspy` with these arguments, in the run's folder and environment.
    pub fn gpuspy_command(&self, arguments: &[&str]) -> Command {
        let command: Vec<OsString> =
            std::iter::once(gpuspy().into()).chain(arguments.iter().map(OsString::from)).collect();
        self.prepare(&command, &[])
    }

    /// Runs it as it is.
    pub fn plain(self) -> Done {
        let command = self.command.clone();
        self.start(&command, &[])
    }

    /// Runs it with the agent preloaded, and nothing else.
    pub fn preloaded(self) -> Done {
        self.preloaded_among(&[], &[])
    }

    /// Runs it with other libraries preloaded before and after the agent.
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

    /// Runs it under `gpuspy run`, which writes `trace.gspy`.
    pub fn observed(self) -> Done {
        self.observed_with(&[])
    }

    /// The same with more options.
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

    /// Runs a command of this run's to its end.
    pub fn finish(self, mut process: Command) -> Done {
        let began = (Instant::now(), waited_for_processors());
        let output = process.output().unwrap_or_else(|e| panic!("{process:?}: {e}"));
        Done {
            pressure: pressure_since(began),
            folder: self.folder,
            status: output.status,
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

impl Done {
    /// The run's folder.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Fails the test, with all that the program printed, unless it ended well.
    pub fn succeeded(self) -> Done {
        assert!(self.status.success(), "{}\nstdout: {}\nstderr: {}", self.status, self.stdout, self.stderr);
        self
    }

    /// Whether so many of all are at least `share` of them, less for what the machine did else meanwhile: a poller and hooks that
    /// get no processor leave launches untimed, which they say, and which is all that can be asked of them then.
    pub fn is_share(&self, part: usize, all: usize, share: f64) -> bool {
        part as f64 >= all as f64 * share * (1.0 - self.pressure)
    }

    /// What the program says that it did: the line of JSON on its stdout.
    pub fn said(&self) -> Value {
        let line = self.stdout.lines().find(|l| l.starts_with('{'));
        let line = line.unwrap_or_else(|| panic!("no JSON in: {}\nstderr: {}", self.stdout, self.stderr));
        serde_json::from_str(line).unwrap()
    }

    /// The traces in the run's folder. A collector that the agent started may still be writing: `report` waits for it,
    /// this only for the file to be there.
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

    /// The one trace.
    pub fn trace(&self) -> PathBuf {
        let traces = self.traces();
        assert_eq!(traces.len(), 1, "{traces:?}\nstdout: {}\nstderr: {}", self.stdout, self.stderr);
        traces.into_iter().next().unwrap()
    }

    /// `gpuspy report --json` of the one trace.
    pub fn report(&self) -> Value {
        report(&self.trace())
    }

    /// The simulator's truth.
    pub fn truth(&self) -> truth::Truth {
        truth::Truth::read(&self.folder().join("truth.jsonl"))
    }
}

/// For how long in all something that could run has waited for a processor (Linux' PSI, Documentation/accounting/psi.rst);
/// `None` where the kernel does not count that.
fn waited_for_processors() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/pressure/cpu").ok()?;
    let total = text.lines().find(|line| line.starts_with("some "))?.split("total=").nth(1)?;
    total.trim().parse().ok().map(Duration::from_micros)
}

/// The share of the time since then in which something waited; 1 where nobody knows.
fn pressure_since((began, waited): (Instant, Option<Duration>)) -> f64 {
    let more = waited_for_processors().zip(waited).map(|(now, then)| now.saturating_sub(then));
    more.map_or(1.0, |more| (more.as_secs_f64() / began.elapsed().as_secs_f64()).min(1.0))
}

/// Runs something until it is as good as it can be on a quiet machine. For what other programs only make worse: how near an
/// estimate is, and how long something takes. Fails the test when five runs in a row are not.
pub fn until_one_is_good(mut run: impl FnMut() -> Result<(), String>) {
    let mut runs = (0..5).map(|_| run());
    let mut why = Vec::new();
    let is_good = runs.any(|run| run.map_err(|reason| why.push(reason)).is_ok());
    assert!(is_good, "none of five runs is good: {why:#?}");
}

/// `gpuspy report --json` of a trace. Fails the test where two numbers of it disagree.
pub fn report(trace: &Path) -> Value {
    let output = Command::new(gpuspy()).arg("report").arg(trace).arg("--json").output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "report of {}: {}: {error}", trace.display(), output.status);
    let report = serde_json::from_slice(&output.stdout).unwrap();
    let wrong = agree::disagreements(&report);
    assert!(wrong.is_empty(), "the report of {} disagrees with itself: {wrong:#?}", trace.display());
    report
}
