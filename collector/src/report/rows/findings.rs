//! What to change, and what that would gain.

use super::super::shell::{printable, quoted, quoted_path};
use super::numbers::Estimate;
use crate::analyze::{self, ProcessInfo, ProcessReport};
use crate::diagnose::finding::{self, Id};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeSet;
use std::path::Path;

/// A fault of the program.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Finding {
    /// The kind of fault.
    #[schemars(extend("enum" = Id::ALL.map(Id::name)))]
    pub id: &'static str,
    /// What was found, in a few words.
    pub title: String,
    pub evidence: Evidence,
    /// Why the fault costs time.
    pub explanation: String,
    /// What to change in the program.
    pub fix: String,
    /// The wall time that removing the fault would gain. The gains of all findings together never exceed the wall time.
    /// 0 for a fault that costs something other than time.
    pub saves_ns: Estimate,
    /// The same in few words, or what a fault costs other than time.
    pub gain: String,
    /// The command that verifies the finding; where several commands started the program, what to do.
    pub verify: String,
    /// The same for people, without characters that a screen cannot show: where a word of the command has some, as the newlines of a
    /// script, bash, zsh and ksh read it, and plain sh does not.
    pub verify_shown: String,
}

/// What a finding was found by; null = does not apply.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Evidence {
    /// The evidence in one sentence.
    pub text: String,
    /// How often it happened.
    pub count: u64,
    /// The time that it took.
    pub total_ns: Option<Estimate>,
    /// The time from the start of the collection to the first time that it happened.
    pub first_ns: Option<u64>,
    /// The CUDA function.
    pub api: Option<String>,
    /// The demangled name of the kernel.
    pub kernel: Option<String>,
    /// The path of the library that made the call.
    pub library: Option<String>,
    /// The line of the program that most of it comes from, as file:line.
    pub line: Option<String>,
    /// The function that this line is in.
    pub function: Option<String>,
    /// The thread's id in the system.
    pub tid: Option<u32>,
}

impl Finding {
    /// Returns the row of a finding in a run.
    pub fn of(found: &finding::Finding, reports: &[ProcessReport]) -> Finding {
        let verify = verify(reports);
        Finding {
            id: found.id.name(),
            title: found.title.clone(),
            evidence: Evidence::of(&found.evidence),
            explanation: found.explanation.clone(),
            fix: found.fix.clone(),
            saves_ns: found.saves.into(),
            gain: found.gain(),
            verify_shown: printable(&verify),
            verify,
        }
    }
}

impl Evidence {
    fn of(evidence: &finding::Evidence) -> Evidence {
        let finding::Evidence { text, count, total, first, api, kernel, source, tid } = evidence.clone();
        let (line, function) =
            source.line.map(|frame| (frame.place(), (frame.line != 0).then_some(frame.function))).unzip();
        Evidence {
            text,
            count,
            total_ns: total.map(Estimate::from),
            first_ns: first,
            api,
            kernel,
            library: source.library,
            line,
            function: function.flatten(),
            tid,
        }
    }
}

/// Returns the command that records the changed program and compares it with this trace, quoted for a shell. It launches what
/// `gpuspy run` launched, which of several processes started all; without that, the only process. Of a job that was started
/// otherwise, it says what to do.
pub fn verify(reports: &[ProcessReport]) -> String {
    if are_started_apart(reports) {
        return format!("run the job again, then {}", comparison(reports, "NEW"));
    }
    let first = reports.first().map(|report| &report.process);
    let words: Vec<String> = match first {
        Some(process) if !process.launch.is_empty() => process.launch.clone(),
        Some(process) if !process.arguments.is_empty() => {
            ["--"].into_iter().map(str::to_owned).chain(process.arguments.iter().cloned()).collect()
        }
        _ => vec!["--".to_owned(), "CMD".to_owned()],
    };
    let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    let after = name_after(whole(reports));
    format!("gpuspy run -o {after} {} && {}", words.join(" "), comparison(reports, &after))
}

/// Returns the command that compares the run with a later one of the same job, quoted for a shell. Of ranks that are not all of their
/// job it compares the same ones.
pub fn comparison(reports: &[ProcessReport], after: &str) -> String {
    let ranks: String = ranks_of_part(reports).iter().map(|rank| format!(" --rank {rank}")).collect();
    format!("gpuspy diff {} {after}{ranks}", quoted_path(whole(reports)))
}

/// Returns the ranks that the report is about, where those are one or some of a job.
fn ranks_of_part(reports: &[ProcessReport]) -> BTreeSet<u32> {
    let is_part =
        analyze::processes(reports).len() == 1 || reports.iter().any(|report| report.process.selects_ranks);
    // A job of one process is not a part of anything.
    let jobs = reports.iter().map(|report| report.process.job).filter(|job| job.world_size != Some(1));
    jobs.filter(|_| is_part).filter_map(|job| job.rank).collect()
}

/// Whether several commands started the processes, as where each task of a job is a `gpuspy run`, or it is not known that one did.
fn are_started_apart(reports: &[ProcessReport]) -> bool {
    let processes = analyze::processes(reports);
    let all = || processes.iter().filter_map(|traces| Some(&reports.get(*traces.first()?)?.process));
    let is_part = !ranks_of_part(reports).is_empty();
    let Some(first) = all().next().filter(|_| processes.len() > 1 || is_part) else { return false };
    let is_of_one = |process: &ProcessInfo| !process.launch.is_empty() && process.launch == first.launch;
    let command = first.launch.splitn(2, |word| word == "--").last().unwrap_or_default();
    // Each `gpuspy run` has one process that is the command itself, and not what that starts. If a rank is, the others are not below it.
    let started: BTreeSet<Option<u32>> =
        all().filter(|process| process.arguments.ends_with(command)).map(|process| process.pid).collect();
    !all().all(is_of_one) || started.len() > usize::from(!is_part) || analyze::lines(reports).count() > 1
}

/// Returns the path of a run: that of its only trace, or the deepest directory that has all of its traces, as that of several windows.
fn whole(reports: &[ProcessReport]) -> &str {
    let first = match reports {
        [] => return "BEFORE",
        [only] if only.process.windows < 2 => return &only.process.path,
        [first, ..] => Path::new(&first.process.path),
    };
    let traces = || reports.iter().map(|report| Path::new(&report.process.path));
    let has_all = |directory: &&Path| traces().all(|trace| trace.starts_with(directory));
    let directory = first.ancestors().skip(1).find(has_all).and_then(Path::to_str).unwrap_or_default();
    if directory.is_empty() { "." } else { directory }
}

/// Returns what the trace after a change is called: after.gspy, or the next number where the path of the run has that name. The
/// run must not be overwritten, and not be compared with itself.
fn name_after(run: &str) -> String {
    let number = |name: &str| match name.strip_prefix("after")?.strip_suffix(".gspy")? {
        "" => Some(1),
        number => number.strip_prefix('-')?.parse::<u32>().ok(),
    };
    match run.split('/').filter_map(number).max() {
        None => "after.gspy".to_owned(),
        Some(number) => format!("after-{}.gspy", u64::from(number) + 1),
    }
}
