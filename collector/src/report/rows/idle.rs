//! Why GPUs were idle.

use super::numbers::Estimate;
use crate::analyze::idle::running::{Outside, Running};
use crate::analyze::idle::{Cause, HtaClasses, IdleReport, Next, Part, Site};
use crate::analyze::merge::Merge;
use crate::model::stacks::Frame;
use schemars::JsonSchema;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Why the GPUs were idle.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Idle {
    /// The idle time by what the host was doing in it, or by what an enqueued operation waited for; the largest first.
    /// The rows sum to the idle time of the devices.
    pub by_cause: Vec<ByCause>,
    /// The idle time by call, library, thread and NVTX range; the largest first, at most twenty.
    #[schemars(length(max = 20))]
    pub sites: Vec<BySite>,
    pub hta: Hta,
}

/// The idle time of one cause.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ByCause {
    /// outside_cuda: the thread that ended the gap was in no CUDA call; set_up: the same before the first step, if at
    /// most a tenth of the launches come before it, in gaps of 20 ms or more, or before code is loaded, before the second step or in
    /// the warm-up, and without steps in gaps of 20 ms or more before a twentieth of the launches: a program imports, reads,
    /// compiles or tunes once; starting: the operation was enqueued, and nothing is known that it waited for; undecided: the clocks or what was not recorded leave it open.
    #[schemars(extend("enum" = Cause::ALL.map(Cause::name)))]
    pub cause: &'static str,
    /// Its label on the screen.
    #[serde(skip)]
    pub label: &'static str,
    /// The number of gaps that have such a part.
    pub count: u64,
    pub total_ns: Estimate,
    /// How much of it the leading thread ran or waited for a processor; for the rest it was off the CPU: it slept, or
    /// waited for input, I/O or a lock. null = not known, or another cause than outside_cuda and set_up.
    pub runnable_ns: Option<Estimate>,
    /// How much of it the leading thread waited for a processor; part of runnable_ns.
    pub run_queue_ns: Option<Estimate>,
    /// The same for the screen.
    #[serde(skip)]
    pub running: Option<Running>,
}

/// The idle time of one cause at one place of the program.
#[derive(Debug, Serialize, JsonSchema)]
pub struct BySite {
    /// As in by_cause.
    #[schemars(extend("enum" = Cause::ALL.map(Cause::name)))]
    pub cause: &'static str,
    /// Its label on the screen.
    #[serde(skip)]
    pub label: &'static str,
    /// The CUDA function that the thread was in; null = none.
    pub api: Option<String>,
    /// The path of the library that called it; outside CUDA, of the library whose call ended the gap.
    pub library: Option<String>,
    /// The line of the program that called it, as file:line; outside CUDA, the one whose call ended the gap.
    pub line: Option<String>,
    /// The thread's id in the system.
    pub tid: Option<u32>,
    /// The innermost NVTX range of that thread when the gap ended.
    pub range: Option<String>,
    /// The synchronization before that held the host up, if the GPU would not have been idle without such waits: the host would have been
    /// ahead.
    pub after_wait: Option<String>,
    /// The line of the program that made that synchronization, as file:line.
    pub after_wait_line: Option<String>,
    /// The number of gaps that have such a part.
    pub count: u64,
    pub total_ns: Estimate,
}

/// The idle time of streams in the classes of Holistic Trace Analysis, ns, as it finds them in an export, which has
/// only operations with a GPU time: while untimed ones ran, as in sampling pauses, streams count as idle. A gap is
/// host_wait if the operation that ended it was launched after the one before it had ended; else kernel_wait if it is
/// shorter than 30 µs; else other.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Hta {
    /// The time in which the GPU waited for the host.
    pub host_wait_ns: u64,
    /// The time between two enqueued operations.
    pub kernel_wait_ns: u64,
    /// The rest of the idle time.
    pub other_ns: u64,
}

/// The most sites in the report.
const SITES: usize = 20;

impl Idle {
    /// Returns the rows.
    pub fn of(idle: &IdleReport) -> Idle {
        let mut by_cause: Vec<ByCause> =
            idle.by_cause.iter().map(|row| ByCause::of(row, &idle.running)).collect();
        by_cause.sort_by_key(|row| Reverse(row.total_ns.value));
        let mut together: BTreeMap<(Cause, Site), Part> = BTreeMap::new();
        for ((cause, site), part) in &idle.sites {
            together.entry((*cause, shown(site))).or_default().merge(part);
        }
        let mut sites: Vec<BySite> = together.iter().map(BySite::of).collect();
        sites.sort_by_key(|row| Reverse(row.total_ns.value));
        sites.truncate(SITES);
        let HtaClasses { host_wait, kernel_wait, other } = idle.hta;
        let hta = Hta { host_wait_ns: host_wait, kernel_wait_ns: kernel_wait, other_ns: other };
        Idle { by_cause, sites, hta }
    }
}

/// Returns a place without what no row has: functions on one line, as those of a template, are one place.
fn shown(site: &Site) -> Site {
    let mut site = Site { is_long: false, next: Next::Other, then_waited: None, ..site.clone() };
    let lines = [site.source.line.as_mut(), site.after_wait.as_mut().and_then(|wait| wait.line.as_mut())];
    for line in lines.into_iter().flatten().filter(|line| !line.is_without_line()) {
        (line.function, line.first_line) = (String::new(), 0);
    }
    site
}

impl ByCause {
    fn of((cause, part): (&Cause, &Part), running: &BTreeMap<Outside, Running>) -> ByCause {
        let outside = match cause {
            Cause::OutsideCuda => Some(Outside::Any),
            Cause::SetUp => Some(Outside::SetUp),
            _ => None,
        };
        let running = outside.and_then(|outside| running.get(&outside)).filter(|running| running.sampled > 0);
        let running = running.map(|running| running.in_all(part.total));
        ByCause {
            cause: cause.name(),
            label: cause.label(),
            count: part.count,
            total_ns: part.total.into(),
            runnable_ns: running.map(|running| running.runnable.into()),
            run_queue_ns: running.map(|running| running.queued.into()),
            running,
        }
    }
}

impl BySite {
    fn of(((cause, site), part): (&(Cause, Site), &Part)) -> BySite {
        let Site { api, source, tid, range, after_wait, .. } = site.clone();
        let place = |frame: Option<Frame>| frame.map(|frame| frame.place());
        let (after_wait, after_wait_line) = after_wait.map(|wait| (wait.api, place(wait.line))).unzip();
        BySite {
            cause: cause.name(),
            label: cause.label(),
            api,
            library: source.library,
            line: place(source.line),
            tid,
            range,
            after_wait,
            after_wait_line: after_wait_line.flatten(),
            count: part.count,
            total_ns: part.total.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyze::estimate::Sum;
    use crate::analyze::source::Source;

    /// Of the demo, three rows were the same but for their figures.
    #[test]
    fn functions_on_one_line_are_one_place() {
        let part = Part { count: 1, total: Sum { value: 10, lo: 10, hi: 10 } };
        let site = |function: &str| {
            let line = Frame {
                file: "a.rs".to_owned(),
                line: 94,
                function: function.to_owned(),
                ..Frame::default()
            };
            Site { source: Source { line: Some(line), ..Source::default() }, ..Site::default() }
        };
        let sites = ["launch<f32>", "launch<f64>"].map(|function| ((Cause::Launching, site(function)), part));
        let idle = Idle::of(&IdleReport { sites: sites.into(), ..IdleReport::default() });
        let rows: Vec<_> = idle.sites.iter().map(|row| (row.line.as_deref(), row.count)).collect();
        assert_eq!(rows, [(Some("a.rs:94"), 2)]);
    }

    /// Nine tenths of the idle time lay in pauses, and the thread seemed to have run for no more of it than gaps show.
    #[test]
    fn what_the_thread_did_in_pauses_is_assumed_in_values_and_open_in_bounds() {
        let shown = Sum { value: 100, lo: 100, hi: 100 };
        let ran = Sum { value: 98, lo: 97, hi: 99 };
        let running = Running { outside: shown, sampled: 100, runnable: ran, ran, queued: Sum::default() };
        let row = |total: Sum| {
            let by_cause = [(Cause::OutsideCuda, Part { count: 5, total })].into();
            let running = [(Outside::Any, running)].into();
            let rows = Idle::of(&IdleReport { by_cause, running, ..IdleReport::default() });
            let runnable = rows.by_cause[0].runnable_ns.unwrap();
            [runnable.lo, runnable.value, runnable.hi]
        };
        assert_eq!(row(shown), [97, 98, 99]);
        assert_eq!(row(Sum { value: 1_000, lo: 100, hi: 1_500 }), [97, 980, 1_499]);
    }
}
