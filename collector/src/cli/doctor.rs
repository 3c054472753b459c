//! `gpuspy doctor`: checks what works here and what does not, why, and what to do about it.
//!
//! The doctor tries things instead of inferring them: child processes call CUDA under the agent, and their traces are read.
//! Only children load CUDA, because it can hang or crash and the doctor must not.

mod child;
mod conflicts;
mod cuda;
mod machine;
mod probe;
mod routes;
mod target;

pub(super) use probe::{Options as ProbeOptions, run as run_probe};

use super::elf;
use super::launch::{self, find_agent};
use super::{Failure, print};
use crate::harmless;
use child::Nursery;
use clap::Args;
use serde::Serialize;
use std::ffi::{CStr, OsString};
use std::fmt::Write;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

#[derive(Args, Debug)]
pub(super) struct Options {
    /// Print the checks as JSON
    #[arg(long)]
    json: bool,
    /// Time limit of each child process; a driver without persistence mode needs seconds for each GPU
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=3600))]
    timeout: u64,
    /// A program to check too: can the agent be loaded into it? It is not run
    #[arg(last = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// The time limit of a driver. Without persistence mode it needs seconds for each GPU.
const DRIVER_ANSWERS: Duration = Duration::from_secs(30);

/// The hidden command that children run.
pub(super) const CHILD: &str = "doctor-probe";

/// The severity of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Level {
    /// Everything is as it should be.
    Ok,
    /// gpuspy works, but something is unusual.
    Warning,
    /// gpuspy records nothing, or not everything.
    Problem,
}

/// The result of a check.
#[derive(Clone, Debug, Serialize)]
struct Check {
    level: Level,
    topic: &'static str,
    /// What was found, as a sentence without its full stop.
    found: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    todo: Option<String>,
}

impl Check {
    fn ok(topic: &'static str, found: impl Into<String>) -> Check {
        Check { level: Level::Ok, topic, found: found.into(), todo: None }
    }

    fn warning(topic: &'static str, found: impl Into<String>, todo: impl Into<String>) -> Check {
        Check { level: Level::Warning, topic, found: found.into(), todo: Some(todo.into()) }
    }

    fn problem(topic: &'static str, found: impl Into<String>, todo: impl Into<String>) -> Check {
        Check { level: Level::Problem, topic, found: found.into(), todo: Some(todo.into()) }
    }
}

/// The advice where another preloaded library hides calls.
const ORDER: &str = "put libgpuspy.so first in LD_PRELOAD, or use `gpuspy run`, which does";
/// The advice where agent and program are of different releases.
const ONE_RELEASE: &str = "use gpuspy and libgpuspy.so of one release";
/// The exit code if there is a problem.
const ILL: u8 = 1;

pub(super) fn doctor(options: &Options) -> Result<ExitCode, Failure> {
    let mut checks = Vec::new();
    let nursery = Nursery::new(Duration::from_secs(options.timeout));
    let agent = find_agent();
    match &agent {
        Ok(path) => checks.extend(agent_checks(path)),
        Err(failure) => checks.push(agent_is_missing(failure)),
    }
    match nursery {
        Ok(nursery) => {
            cuda_checks(&nursery, agent.as_deref().ok(), &mut checks)?;
            if let Some(code) = nursery.interruption() {
                return Err(Failure { code, sentence: "interrupted".to_owned() });
            }
        }
        Err(failure) => checks.push(Check::problem(
            "temp directory",
            failure.sentence,
            "make /tmp writable, or set TMPDIR or XDG_RUNTIME_DIR: `gpuspy run` needs such a directory too",
        )),
    }
    checks.extend(machine::check());
    checks.extend(conflicts::check(agent.as_deref().unwrap_or(Path::new(""))));
    checks.extend(options.command.first().map(|program| target::check(program)));
    let text = if options.json { json(&checks) } else { lines(&checks) };
    let is_ill = checks.iter().any(|check| check.level == Level::Problem);
    print(&text)?;
    Ok(ExitCode::from(if is_ill { ILL } else { 0 }))
}

fn agent_is_missing(failure: &Failure) -> Check {
    Check::problem(
        "agent",
        failure.sentence.clone(),
        "keep libgpuspy.so beside gpuspy or in ../lib/gpuspy, or set GPUSPY_AGENT to its path",
    )
}

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Checks that the agent is a gpuspy agent of this version, and that it can be loaded.
fn agent_checks(path: &Path) -> Vec<Check> {
    let shown = path.display();
    let Some(elf) = elf::read(path).filter(|elf| elf.agent_version.is_some()) else {
        return vec![Check::problem("agent", format!("{shown} is not a gpuspy agent"), ONE_RELEASE)];
    };
    let version = elf.agent_version.unwrap_or_default();
    let mut checks = vec![match version == VERSION {
        true => Check::ok("agent", format!("{shown}, version {version}")),
        false => Check::problem(
            "agent",
            format!("{shown} is version {version}, gpuspy is version {VERSION}"),
            ONE_RELEASE,
        ),
    }];
    // SAFETY: takes nothing and returns a constant string.
    let here = unsafe { CStr::from_ptr(libc::gnu_get_libc_version()) }.to_string_lossy().into_owned();
    let needed = elf.glibc.unwrap_or_default();
    let needs = format!("the agent needs glibc {}.{}; this system has {here}", needed.0, needed.1);
    checks.push(match elf::glibc_version(&here) {
        Some(here) if here < needed => Check::problem(
            "glibc",
            needs,
            "use the agent of a package of gpuspy (scripts/package.sh), which is linked for glibc 2.17",
        ),
        _ => Check::ok("glibc", format!("{needs}. A container has its own glibc: run the doctor inside it")),
    });
    checks
}

/// Runs the checks that need CUDA.
fn cuda_checks(nursery: &Nursery, agent: Option<&Path>, checks: &mut Vec<Check>) -> Result<(), Failure> {
    let existing = std::env::var_os("LD_PRELOAD");
    let preload = match agent {
        Some(agent) => match conflicts::is_preloaded(agent) {
            Some(order) => order,
            None => launch::preload(&launch::loadable(agent, &nursery.private)?, existing),
        },
        None => existing.unwrap_or_default(),
    };
    let cuda = cuda::check(nursery, &preload, checks);
    if agent.is_some() && cuda.driver.is_some() {
        checks.extend(routes::check(nursery, &preload, &cuda.runtimes, cuda.has_gpu()));
        checks.push(Check::ok("interception", "not covered by design: launches from device code"));
    } else {
        let missing = if agent.is_none() { "there is no agent" } else { "there is no working driver" };
        let found = format!("not tested: {missing}");
        checks.push(Check::warning("interception", found, "see above"));
    }
    Ok(())
}

/// Returns the name of the first GPU, if a program for this version of CUDA and this compute capability can use it; else why
/// not, as the end of a sentence.
pub(super) fn first_gpu(version: i32, capability: (i32, i32)) -> Result<Result<String, String>, Failure> {
    let nursery = Nursery::new(DRIVER_ANSWERS)?;
    let found = cuda::first_gpu(&nursery, version, capability);
    match nursery.interruption() {
        Some(code) => Err(Failure { code, sentence: "interrupted".to_owned() }),
        None => Ok(found),
    }
}

fn json(checks: &[Check]) -> String {
    let count = |level| checks.iter().filter(|check| check.level == level).count();
    let all = serde_json::json!({
        "version": VERSION,
        "problems": count(Level::Problem),
        "warnings": count(Level::Warning),
        "checks": checks,
    });
    harmless::json(format!("{all:#}\n"))
}

fn lines(checks: &[Check]) -> String {
    let mut text = String::new();
    for Check { level, topic, found, todo } in checks {
        let level = match level {
            Level::Ok => "ok",
            Level::Warning => "warning",
            Level::Problem => "problem",
        };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{level:<7}  {topic:<14} {found}");
        if let Some(todo) = todo {
            let _ = writeln!(text, "{:<24}-> {todo}", "");
        }
    }
    let count = |level| checks.iter().filter(|check| check.level == level).count();
    let _ = match (count(Level::Problem), count(Level::Warning)) {
        (0, 0) => writeln!(text, "\ngpuspy works here."),
        (0, warnings) => writeln!(text, "\ngpuspy works here; warnings: {warnings}."),
        (problems, warnings) => writeln!(text, "\nproblems: {problems}, warnings: {warnings}."),
    };
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_is_a_line_and_its_advice_another() {
        let checks = [
            Check::ok("agent", "is here"),
            Check::warning("MPS", "runs", "measure alone"),
            Check::problem("driver", "is missing", "install it"),
        ];
        let expected = "\
ok       agent          is here
warning  MPS            runs
                        -> measure alone
problem  driver         is missing
                        -> install it

problems: 1, warnings: 1.
";
        assert_eq!(lines(&checks), expected);
        assert!(lines(&checks[..1]).ends_with("\ngpuspy works here.\n"));
        let json: serde_json::Value = serde_json::from_str(&json(&checks)).unwrap();
        assert_eq!(json["checks"][2]["level"], "problem");
        assert_eq!(json["checks"][0].get("todo"), None);
        assert_eq!((&json["problems"], &json["warnings"]), (&1.into(), &1.into()));
    }

    #[test]
    fn a_file_that_is_not_an_agent_is_reported() {
        let checks = agent_checks(&std::env::current_exe().unwrap());
        assert!(checks[0].found.ends_with("is not a gpuspy agent"), "{checks:?}");
    }
}
