//! `host-stall`: the host is elsewhere, in no CUDA call, while the GPU has nothing to do.

use super::super::Facts;
use super::super::buckets::Bucket;
use super::super::finding::{Claimed, Evidence, Finding, Id};
use super::super::framework::{Advice, is_partly_compiled, only_infers};
use super::super::running::{self, State};
use super::idle::Idle;
use super::pauses::{self, Pauses};
use super::{other_ranks, recompilation, small_copies};
use crate::analyze::estimate::Estimate;
use crate::analyze::idle::running::Outside;
use crate::analyze::idle::{Cause, IdleReport, Next, Site};
use crate::model::framework::Framework;
use crate::units::{duration, percent};

/// Of gaps that end with a copy to the device: the host prepared input.
const INPUT: Advice = Advice {
    pytorch: "Use DataLoader(num_workers=4 or more, persistent_workers=True, prefetch_factor=2 or more), decode and augment \
              in its workers or on the GPU, and log and save checkpoints in another thread: the thread that launches has \
              to stay free. py-spy dump --pid PID shows what it does.",
    jax: "Prepare batches in another thread or process (grain, tf.data with prefetch), and put them on the device one \
          or two steps ahead.",
    cuda: "Prepare the input of the next steps in other threads, so that the thread that launches always finds it \
           ready. A sampling profiler (perf, py-spy) shows what the thread does meanwhile.",
};

/// If the thread is off the CPU.
const INPUT_OFF_CPU: Advice = Advice {
    pytorch: "Use DataLoader(num_workers=4 or more, persistent_workers=True, prefetch_factor=2 or more), so that batches are \
              ready before they are needed, and save checkpoints in another thread: this one slept, or waited for a \
              worker, I/O or a lock. py-spy dump --pid PID shows where.",
    jax: "Load batches ahead in other threads or processes (grain, tf.data with prefetch), and put them on the device one \
          or two steps early: the thread slept, or waited for input, I/O or a lock. py-spy dump --pid PID shows where.",
    cuda: "Load the input of the next steps ahead in other threads: the one that launches slept, or waited for input, I/O \
           or a lock. gdb -p PID, or py-spy dump --pid PID for Python, shows where.",
};

/// If the thread is running.
const INPUT_RUNNING: Advice = Advice {
    pytorch: "Move what this thread computes elsewhere: decode and augment in workers of a DataLoader(num_workers=4 or more) or \
              on the GPU, and use fewer Python operations from one launch to the next. py-spy record --pid PID shows what \
              it computes.",
    jax: "Move what this thread computes elsewhere: prepare batches in other threads or processes, and put more of a step \
          into one jitted function. py-spy record --pid PID shows what it computes.",
    cuda: RUNNING.cuda,
};

/// Of gaps that end with other work: the host did something else from one launch to the next.
const RUNNING: Advice = Advice {
    pytorch: "Let Python do less from one launch to the next: torch.compile(model), or torch.cuda.make_graphed_callables, \
              leaves most of it out, a fused optimizer (fused=True) launches once, and logging and metrics can run every \
              100 steps or in another thread. py-spy record --pid PID shows what the thread computes.",
    jax: "Put more of a step into one jitted function, and compute in NumPy or Python in another thread. py-spy record \
          --pid PID shows what the thread computes.",
    cuda: "Move what this thread computes to other threads, or onto the GPU. perf record -p PID, or py-spy record --pid PID \
           for Python, shows what that is.",
};

/// If the thread is off the CPU.
const OFF_CPU: Advice = Advice {
    pytorch: "Let the thread that launches wait for nothing: it slept, or waited for I/O, a lock or another thread. Write \
              checkpoints and logs, and read files, in other threads; but what computes in Python there holds Python's lock (the \
              GIL), and belongs into other processes. py-spy dump --pid PID shows where it waits, and which thread has that lock.",
    jax: "Let the thread that launches wait for nothing: it slept, or waited for I/O, a lock or another thread. What computes in \
          Python in other threads holds Python's lock (the GIL), and belongs into other processes. py-spy dump --pid PID shows \
          where the thread waits, and which one has that lock.",
    cuda: "Let the thread that launches wait for nothing: it slept, or waited for I/O, a lock or another thread. Read and write files \
           in other threads. gdb -p PID, or py-spy dump --pid PID for Python, shows where.",
};

/// If that is not known.
const OTHER: Advice = Advice {
    pytorch: "Keep the thread that launches free: torch.compile(model), or torch.cuda.make_graphed_callables, leaves out most \
              of what Python does from one launch to the next, and logging, metrics and checkpoints can run every 100 \
              steps or in another thread. py-spy dump --pid PID shows what it does.",
    jax: "Put more of a step into one jitted function, and log and save checkpoints in another thread: the thread that \
          launches has to stay free. py-spy dump --pid PID shows what it does.",
    cuda: "Keep the thread that launches free: what it does from one launch to the next, as writing output or a checkpoint, can be \
           done in other threads. A sampling profiler (perf, py-spy) shows what that is.",
};

/// Of a program of which a part is compiled already, if the thread is running or that is not known.
const REST: Advice = Advice {
    pytorch: "Let Python do less between the parts that are compiled already: TORCH_LOGS=graph_breaks,recompiles shows where it \
              runs and what is compiled again, an optimizer that is not compiled launches once with fused=True, and logging, \
              metrics and checkpoints can run every 100 steps or in another thread. py-spy dump --pid PID shows what the \
              thread does.",
    ..OTHER
};

/// If few pauses have most of the time.
const PAUSES: Advice = Advice {
    pytorch: "Look for what stops the launches now and then: Python's garbage collector (gc.freeze() after the set-up, or \
              gc.disable()), a checkpoint, logging, an evaluation, or the workers of a new epoch (persistent_workers=True). Save \
              and log in another thread, and do the rest less often. py-spy dump --pid PID in such a pause shows it.",
    jax: "Look for what stops the launches now and then: Python's garbage collector (gc.freeze() after the set-up, or \
          gc.disable()), a checkpoint, logging or an evaluation. Save and log in another thread, and do the rest less often. \
          py-spy dump --pid PID in such a pause shows it.",
    cuda: "Look for what stops the launches now and then, as a checkpoint, logging or an evaluation: do it in another thread, or less \
           often. gdb -p PID, or py-spy dump --pid PID for Python, shows it.",
};

/// If the other gaps have little of it.
const ONLY_PAUSES: Advice = Advice {
    pytorch: " What Python does from one launch to the next is not what takes the time.",
    jax: "",
    cuda: "",
};

/// If the thread is off the CPU, and may be a server's.
const SERVES: &str = "If the program serves requests, it may have waited for one: then more requests, and not other \
                      code, fill the GPU.";

/// If the thread also waits for a processor.
const BUSY: &str = " Other threads take the processors that it needs: start fewer (OMP_NUM_THREADS, num_workers), or use more \
                    processors.";

/// The most threads that are worth naming: a GPU that has so little to do needs more work, and not more threads.
const MOST_THREADS: u64 = 16;

/// The share of the time that gaps in each step have beside pauses from which on they are worth a remedy of their own, percent.
const WORTH_NAMING: u64 = 20;

/// The fewest gaps that are a habit of the program.
const HABIT: u64 = 3;

/// Says why that costs time.
fn explanation(state: Option<State>, is_input: bool) -> String {
    let what = match state {
        Some(State::OffCpu) => "slept or waited",
        Some(State::Running) => "computed something else",
        Some(State::Both) | None => "was busy with something else or asleep",
    };
    let mut text = format!(
        "The thread that launches work {what} for so long that the GPU finished all that was queued."
    );
    if is_input {
        text += " Then it copied to the GPU: preparing input, or waiting for it, is the usual reason.";
    }
    if state == Some(State::OffCpu) {
        text += " A server waits when it has no request.";
    }
    if matches!(state, Some(State::Both) | None) {
        text += " On a machine whose processors are all busy, the thread may wait for one.";
    }
    text
}

/// Returns the advice for gaps in each step.
fn advice(facts: &Facts<'_>, state: Option<State>, is_input: bool) -> Advice {
    let rest = |other: Advice| if is_partly_compiled(facts) { REST } else { other };
    match (state, is_input) {
        // It is more likely a server than a training that waits for its data.
        (Some(State::OffCpu), _) if only_infers(facts) => OFF_CPU,
        (Some(State::Both) | None, _) if only_infers(facts) => rest(OTHER),
        (Some(State::Running), true) if only_infers(facts) => rest(RUNNING),
        (Some(State::OffCpu), true) => INPUT_OFF_CPU,
        (Some(State::OffCpu), false) => OFF_CPU,
        (Some(State::Running), true) => INPUT_RUNNING,
        (Some(State::Both) | None, true) => INPUT,
        (Some(State::Running), false) => rest(RUNNING),
        (Some(State::Both) | None, false) => rest(OTHER),
    }
}

/// Returns the remedy. `others` is the share of the time that gaps in each step have, percent, if most of it is in pauses that are made now
/// and then.
fn remedy(facts: &Facts<'_>, state: Option<State>, is_input: bool, others: Option<u64>) -> String {
    let (is_off, infers) = (state == Some(State::OffCpu), only_infers(facts));
    let advice = advice(facts, state, is_input).of(facts);
    let text = match others {
        // A server without requests stops, too.
        Some(_) if is_off && infers => advice,
        Some(share) if share >= WORTH_NAMING => {
            format!("{} For the other gaps, which have {share} % of that time: {advice}", PAUSES.of(facts))
        }
        Some(_) => PAUSES.of(facts) + &ONLY_PAUSES.of(facts),
        None => advice,
    };
    match () {
        () if is_off && (infers || (others.is_some() && is_plain(facts))) => format!("{SERVES} {text}"),
        () if is_off || (infers && state != Some(State::Running)) => format!("{text} {SERVES}"),
        () => text,
    }
}

/// Whether no framework is used: then nothing says whether the program trains or serves.
fn is_plain(facts: &Facts<'_>) -> bool {
    facts.reports.iter().all(|report| report.process.framework == Framework::Cuda)
}

/// Says how many threads have to share what a thread does outside CUDA, where one more would not keep the GPU busy. What the workers of
/// a framework do meanwhile is not known.
fn threads(facts: &Facts<'_>) -> Option<String> {
    let work = [Bucket::Compute, Bucket::Graphs, Bucket::ExposedCopies, Bucket::ExposedCommunication];
    let work = work.iter().fold(0u64, |sum, part| sum.saturating_add(facts.buckets.get(*part).value));
    let outside = facts.idle().host.long_outside();
    let number = outside.div_ceil(work.max(1));
    let is_one = facts.idle().threads.len() == 1 && facts.gpus() == 1;
    (is_plain(facts) && is_one && (2..=MOST_THREADS).contains(&number)).then(|| {
        format!(
            " It was outside CUDA for {}, and the GPU worked for {}: at least {number} threads have to share what it does there.",
            duration(outside),
            duration(work)
        )
    })
}

/// Whether the host was elsewhere for long.
fn is_stall(cause: Cause, site: &Site) -> bool {
    cause == Cause::OutsideCuda && site.is_long
}

/// Returns the gaps in which the host was elsewhere, without those of [`recompilation`] and [`small_copies`], if these are faults, and
/// without what habitual waits have caused: to remove these is the smaller change. `None` if they are no [`HABIT`]; where waits have
/// caused less than half, those of waits count for that.
fn stalls<'a>(facts: &Facts<'a>) -> Option<Idle<'a>> {
    let compiles = recompilation::compiling(facts).is_some();
    let is_of_copies = small_copies::between(facts);
    let is_meant = |cause, site: &Site| {
        is_stall(cause, site) && !(compiles && site.next == Next::Code) && !is_of_copies(cause, site)
    };
    let own =
        Idle::of(facts, |cause, site| is_meant(cause, site) && facts.owed_to_habit(cause, site).is_none());
    let all = Idle::of(facts, is_meant).part;
    let gaps = if own.part.total.value >= all.total.value / 2 { all.count } else { own.part.count };
    (gaps >= HABIT).then_some(own)
}

/// Names the thread of which a sentence says whether it ran. What it did in pauses is assumed to be the same, and not known.
fn who(idle: &IdleReport) -> &'static str {
    if idle.has_pauses() { "Where operations were timed, the thread" } else { "The thread" }
}

/// Looks for it.
pub fn find(facts: &Facts<'_>) -> Option<Claimed> {
    let mut idle = stalls(facts)?;
    let site = idle.main?;
    let mut text = format!(
        "{}, in which {} was in no CUDA call.",
        idle.lengths(facts, Cause::OutsideCuda),
        idle.leader()
    );
    if let Some(range) = &site.range {
        text += &format!(" Most of it ended in the NVTX range {range}.");
    }
    let running = facts.idle().running.get(&Outside::Long).copied().unwrap_or_default();
    if let Some(said) = running::sentence(&running, who(facts.idle())) {
        text += &format!(" {said}.");
    }
    let state = running::state(&running);
    let is_of_copies = small_copies::between(facts);
    let before_input = Idle::of(facts, |cause, site| {
        let is_input = matches!(site.next, Next::Input | Next::MoreInput) && !is_of_copies(cause, site);
        is_stall(cause, site) && is_input
    });
    let before_input = before_input.part.total.value;
    let is_input = before_input > idle.part.total.value / 2;
    if is_input {
        let share = percent(before_input.min(idle.part.total.value), idle.part.total.value);
        text += &format!(" {share} of it ended with a copy to the GPU.");
    }
    let pauses = Pauses::of(facts, &idle);
    text += &pauses.as_ref().map_or(String::new(), Pauses::sentence);
    text += &pauses::ends(facts, &idle).unwrap_or_default();
    let may_serve = is_plain(facts) || only_infers(facts);
    if state == Some(State::OffCpu) && (pauses.is_some() || may_serve) {
        // What it waits for then, as a request, may come no earlier.
        idle.claims.values_mut().for_each(|claim| claim.lo = 0);
    }
    let others = pauses.as_ref().map(|pauses| pauses.others(&idle));
    let mut fix = remedy(facts, state, is_input, others);
    if others.is_none_or(|share| share >= WORTH_NAMING) {
        fix += &threads(facts).unwrap_or_default();
    }
    if running::queued(&running).is_some() {
        fix += BUSY;
    }
    let claimed = Claimed {
        finding: Finding {
            id: Id::HostStall,
            title: "The GPU waits for the host outside CUDA".to_owned(),
            evidence: Evidence {
                text,
                count: idle.part.count,
                total: Some(idle.part.total),
                first: None,
                api: None,
                kernel: None,
                source: idle.source(),
                tid: site.tid,
            },
            explanation: explanation(state, is_input),
            fix,
            saves: Estimate::exactly(0),
        },
        claims: idle.claims,
        sites: idle.sites,
    };
    Some(other_ranks::may_be_waited_for(facts, claimed))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyze::kernels::Kernel;
    use crate::analyze::ranks::Ranks;
    use crate::analyze::{ProcessInfo, ProcessReport, Tables};
    use crate::diagnose::buckets::Buckets;

    /// A server that waited for requests was told to load its data in workers.
    #[test]
    fn a_thread_off_the_cpu_may_be_that_of_a_server() {
        let paused = |framework, state, kernel: &str, is_now_and_then: bool| {
            let all = Tables { kernels: vec![Kernel::of_launches(kernel, 9, 1_000)], ..Tables::default() };
            let process = ProcessInfo { framework, ..ProcessInfo::default() };
            let reports =
                [ProcessReport { process, tables: Tables::default(), together: None, findings: None }];
            let facts = Facts {
                reports: &reports,
                all: &all,
                buckets: &Buckets::default(),
                ranks: &Ranks::default(),
            };
            remedy(&facts, state, true, is_now_and_then.then_some(0))
        };
        let of = |framework, state, kernel: &str| paused(framework, state, kernel, false);
        let serves = of(Framework::PyTorch, Some(State::OffCpu), "softmax");
        assert!(serves.starts_with(SERVES) && !serves.contains("DataLoader"), "{serves}");
        for kernel in ["threshold_backward", "multi_tensor_apply_kernel"] {
            let trains = of(Framework::PyTorch, Some(State::OffCpu), kernel);
            assert!(trains.starts_with("Use DataLoader") && trains.ends_with(SERVES), "{trains}");
        }
        let other = of(Framework::Cuda, Some(State::OffCpu), "softmax");
        assert!(other.starts_with("Load the input") && other.ends_with(SERVES), "{other}");
        assert!(!of(Framework::PyTorch, Some(State::Running), "softmax").contains(SERVES));
        // Between bursts of requests, a server was told to look for a checkpoint or logging.
        let bursts = paused(Framework::Cuda, Some(State::OffCpu), "softmax", true);
        assert!(bursts.starts_with(SERVES) && bursts.contains("checkpoint"), "{bursts}");
        let trains = paused(Framework::PyTorch, Some(State::OffCpu), "threshold_backward", true);
        assert!(trains.starts_with("Look for") && trains.ends_with(SERVES), "{trains}");
        assert!(!paused(Framework::Cuda, Some(State::Running), "softmax", true).contains(SERVES));
    }

    /// A forward pass that was replayed as a CUDA graph, and one of Inductor's kernels, were to be compiled or made a graph.
    #[test]
    fn what_is_compiled_already_is_not_to_be_compiled() {
        let of = |state, is_input, kernel: &str, graphs: u64| {
            let mut all =
                Tables { kernels: vec![Kernel::of_launches(kernel, 9, 1_000)], ..Tables::default() };
            all.graphs.launches = graphs;
            let process = ProcessInfo { framework: Framework::PyTorch, ..ProcessInfo::default() };
            let reports =
                [ProcessReport { process, tables: Tables::default(), together: None, findings: None }];
            let facts = Facts {
                reports: &reports,
                all: &all,
                buckets: &Buckets::default(),
                ranks: &Ranks::default(),
            };
            remedy(&facts, state, is_input, None)
        };
        let may_compile = |text: &str| text.contains("torch.compile(model)");
        for (state, is_input) in [
            (None, false),
            (Some(State::Both), false),
            (None, true),
            (Some(State::Running), false),
            (Some(State::Running), true),
        ] {
            for (kernel, graphs) in [("softmax", 120), ("triton_poi_fused_gelu_0", 0)] {
                let fix = of(state, is_input, kernel, graphs);
                assert!(!may_compile(&fix) && fix.contains("compiled already"), "{state:?} {is_input} {fix}");
            }
            assert!(may_compile(&of(state, is_input, "softmax", 0)), "{state:?} {is_input}");
        }
    }

    /// What was known of a tenth of the time was said of all of it.
    #[test]
    fn of_a_run_with_pauses_it_is_said_where_the_thread_was_running() {
        let mut idle = IdleReport::default();
        assert_eq!(who(&idle), "The thread");
        idle.paused_by_line.insert(None, 1_000);
        assert_eq!(who(&idle), "Where operations were timed, the thread");
    }
}
