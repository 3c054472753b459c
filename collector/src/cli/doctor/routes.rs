//! Checks that the agent intercepts each route into CUDA on this machine. A child is started as `run` starts programs and
//! calls CUDA by the route; its trace must have the call.

use super::child::{Nursery, Silent};
use super::probe::{Called, MEMSETS, Probe};
use super::{Check, Level, ONE_RELEASE, ORDER};
use crate::cli::observe::wait_for_the_last;
use crate::collect::{self, Collector, Target};
use crate::trace::TraceReader;
use crate::trace::record::{Body, What};
use gpuspy_wire::record::Namespace;
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;

/// What the trace of a child has.
#[derive(Debug, Default)]
struct Seen {
    /// The functions that were called.
    apis: BTreeSet<String>,
    /// The child got a hook when it looked up a launch function.
    launches: bool,
    memsets: usize,
    timed: usize,
}

/// The result of trying a route.
struct Tried {
    called: Result<Called, Silent>,
    /// `None` if no agent connected; an error if one did but its trace is not usable.
    seen: Option<Result<Seen, Unusable>>,
    /// What the child's loader or agent printed.
    complaint: String,
}

/// Why a trace is not usable, and what to do about it.
type Unusable = (String, &'static str);

/// Tries all routes. `preload` is the value of LD_PRELOAD; `runtimes` are the runtimes that were found.
pub(super) fn check(nursery: &Nursery, preload: &OsString, runtimes: &[String], has_gpu: bool) -> Vec<Check> {
    let tried = |probe, runtime| attempt(nursery, preload, probe, runtime);
    let routes = [
        (Probe::Symbol, "linked symbols"),
        (Probe::Dlsym, "dlsym"),
        (Probe::Getproc11, "cuGetProcAddress"),
        (Probe::Getproc12, "cuGetProcAddress_v2"),
    ];
    let mut checks: Vec<Check> =
        routes.into_iter().map(|(probe, route)| judge(route, probe, &tried(probe, None))).collect();
    for runtime in runtimes {
        checks.push(judge(runtime, Probe::ByRuntime, &tried(Probe::ByRuntime, Some(runtime))));
    }
    if has_gpu {
        checks.push(judge_times(&tried(Probe::Work, None)));
    }
    checks
}

fn attempt(nursery: &Nursery, preload: &OsString, probe: Probe, runtime: Option<&str>) -> Tried {
    let socket = nursery.private.path().join("socket");
    let trace = nursery.private.path().join("route.gspy");
    for left in [&socket, &trace] {
        let _ = fs::remove_file(left);
    }
    let cannot = |e: collect::Error| Tried {
        called: Err(Silent(format!("could not be traced: {e}"))),
        seen: None,
        complaint: String::new(),
    };
    let listener = match collect::bind(&socket) {
        Ok(listener) => listener,
        Err(e) => return cannot(e),
    };
    let (collector, stopper) = match Collector::new(Target::File(trace.clone())) {
        Ok(both) => both,
        Err(e) => return cannot(e),
    };
    let sessions = Mutex::new(Vec::new());
    let environment = [
        ("LD_PRELOAD", preload.clone()),
        ("GPUSPY", "1".into()),
        ("GPUSPY_QUIET", "".into()),
        ("GPUSPY_SOCKET", socket.into()),
        ("GPUSPY_TIMING", "exact".into()),
        ("GPUSPY_CAPTURE_RANGE", "".into()),
        // With one hardware queue the agent would not time everything. Another check covers this variable.
        ("CUDA_DEVICE_MAX_CONNECTIONS", "8".into()),
    ];
    let called = std::thread::scope(|threads| {
        threads.spawn(|| {
            collector.listen(listener, |session| sessions.lock().push(session));
        });
        let called = nursery.send(probe, runtime, &environment);
        wait_for_the_last(&stopper);
        drop(stopper);
        called
    });
    let session = sessions.into_inner().pop();
    let seen = session.map(|session| match session {
        Ok(_) => look(&trace).map_err(|e| (format!("cannot read its trace: {e}"), REPORT)),
        Err(e) => Err((e.to_string(), if e.releases_differ() { ONE_RELEASE } else { REPORT })),
    });
    Tried { called, seen, complaint: nursery.last_complaint() }
}

/// Reads a trace.
fn look(trace: &std::path::Path) -> Result<Seen, crate::trace::TraceError> {
    let mut reader = TraceReader::open(trace)?;
    let names = reader.names().clone();
    let mut seen =
        Seen { launches: reader.status().is_some_and(|status| status.driver_hooked), ..Seen::default() };
    for record in reader.records() {
        if let Body::Work(work) = &record.body
            && matches!(work.what, What::Memset { .. })
        {
            seen.memsets += 1;
            seen.timed += usize::from(work.gpu.is_some());
        }
        if let Some(call) = record.body.call() {
            seen.apis.extend(names.get(Namespace::Api, call.api.into()).map(str::to_owned));
        }
    }
    Ok(seen)
}

const UNKNOWN: &str = "cuLaunchKernel is not the function that libcuda.so.1 returns for this name: find out which tool replaces \
                       it (LD_PRELOAD, LD_LIBRARY_PATH)";
const REPORT: &str = "run the doctor again; if the problem remains, report it with this output";

fn judge(route: &str, probe: Probe, tried: &Tried) -> Check {
    let topic = "interception";
    let (called, seen) = match (&tried.called, &tried.seen) {
        (Err(Silent(why)), _) => return not_called(route, why),
        (Ok(called), None) => {
            let said = if tried.complaint.is_empty() { "" } else { ": " };
            let name = called.calls.first().map_or("the call", |(name, _)| name.as_str());
            let found = format!("by {route}: {name} was called but not recorded{said}{}", tried.complaint);
            return Check::problem(topic, found, ORDER);
        }
        (Ok(_), Some(Err((why, todo)))) => return Check::problem(topic, format!("by {route}: {why}"), *todo),
        (Ok(called), Some(Ok(seen))) => (called, seen),
    };
    let failed = match called.failure() {
        Some((name, result)) => format!(" ({name} returned {result})"),
        None => String::new(),
    };
    let looks_up_launches = matches!(probe, Probe::Dlsym | Probe::Getproc11 | Probe::Getproc12);
    if let Some((name, _)) = called.calls.iter().find(|(name, _)| !seen.apis.contains(name)) {
        return Check::problem(
            topic,
            format!("by {route}: {name} was called but not recorded{failed}"),
            ORDER,
        );
    }
    if looks_up_launches && !seen.launches {
        return Check::problem(topic, format!("by {route}: launches would not be recorded"), UNKNOWN);
    }
    Check::ok(topic, format!("by {route}: calls are recorded{failed}"))
}

/// Returns the check of a route that the child could not use. A function that the driver lacks is not a problem.
fn not_called(route: &str, why: &str) -> Check {
    let is_absent = why.ends_with("is not found");
    let found = format!("by {route}: not tested: the child {why}");
    Check {
        level: if is_absent { Level::Ok } else { Level::Problem },
        topic: "interception",
        found: if is_absent { format!("by {route}: not offered by this driver") } else { found },
        todo: (!is_absent).then(|| "try another CUDA program; if that works, report this".to_owned()),
    }
}

fn judge_times(tried: &Tried) -> Check {
    let topic = "GPU times";
    let (called, seen) = match (&tried.called, &tried.seen) {
        (Ok(called), Some(Ok(seen))) => (called, seen),
        (Err(Silent(why)), _) => {
            let found = format!("not tested: the child that used the GPU {why}");
            return Check::problem(topic, found, "try another CUDA program");
        }
        _ => return Check::warning(topic, "not tested: the calls were not recorded", "see interception"),
    };
    if let Some((name, result)) = called.failure() {
        return Check::problem(
            topic,
            format!("the first GPU cannot be used: {name} returned {result}"),
            "check with nvidia-smi whether it is full, faulty, or used by another process in exclusive mode",
        );
    }
    let (timed, memsets) = (seen.timed, seen.memsets);
    if timed > 0 && memsets == MEMSETS {
        return Check::ok(topic, format!("{timed} of {memsets} operations timed on the first GPU"));
    }
    Check::problem(topic, format!("{memsets} of {MEMSETS} operations recorded, {timed} timed"), REPORT)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The advice was to report it.
    #[test]
    fn an_agent_of_another_release_is_told_with_what_to_do() {
        for todo in [ONE_RELEASE, REPORT] {
            let seen = Some(Err(("process 7: something is wrong".to_owned(), todo)));
            let tried = Tried { called: Ok(Called::default()), seen, complaint: String::new() };
            let check = judge("dlsym", Probe::Dlsym, &tried);
            assert_eq!((check.level, check.todo.as_deref()), (Level::Problem, Some(todo)));
            assert_eq!(check.found, "by dlsym: process 7: something is wrong");
        }
    }
}
