//! `host-function`: an operation waits on its stream for a function of the program that runs on the host.

use super::super::Facts;
use super::super::finding::{Claimed, Evidence, Finding, Id};
use super::super::framework::Advice;
use super::idle::Idle;
use crate::analyze::call_class::CallClass;
use crate::analyze::calls::base_name;
use crate::analyze::estimate::Estimate;
use crate::analyze::idle::{Cause, HABIT};
use crate::analyze::source::{Lines, Source};
use crate::units::plural;

const FIX: Advice = Advice {
    pytorch: "Do it in a thread of the program that waits for an event (torch.cuda.Event.synchronize), or enqueue it on a stream \
              of its own that waits for the event: only what needs its result has to come after it.",
    jax: "Fetch the result with a copy ahead (copy_to_host_async) and use it in another thread, in place of a callback inside the \
          jitted function: the GPU waits while that runs.",
    cuda: "Record an event and wait for it in another thread, or enqueue the function on a stream of its own that waits for the \
           event (cudaStreamWaitEvent): only what needs its result has to come after it.",
};

/// Looks for it.
pub fn find(facts: &Facts<'_>) -> Option<Claimed> {
    let idle = Idle::of(facts, |cause, _| cause == Cause::HostCallback);
    if idle.part.count < HABIT {
        return None;
    }
    let is_one = |api: &str| CallClass::of(base_name(api)) == CallClass::HostFunction;
    let calls = facts.all.apis.iter().filter(|(api, _)| is_one(api));
    let most = calls.clone().max_by_key(|(_, calls)| calls.count);
    let all = calls.fold(0u64, |sum, (_, calls)| sum.saturating_add(calls.count));
    let mut text = idle.lengths(facts, Cause::HostCallback);
    if all > 0 {
        // With a filter on devices, the calls that enqueue them are left out: theirs is not known.
        text += &format!(", with {} on the streams", plural(all, "host function", "host functions"));
    }
    text += ".";
    Some(Claimed {
        finding: Finding {
            id: Id::HostFunction,
            title: "Kernels wait for functions on the host".to_owned(),
            evidence: Evidence {
                text,
                count: idle.part.count,
                total: Some(idle.part.total),
                api: most.map(|(api, _)| api.clone()),
                source: source(facts, is_one),
                ..Evidence::default()
            },
            explanation: "A function that is enqueued on a stream runs in a thread of the driver, and what is enqueued behind it \
                          begins when it has returned."
                .to_owned(),
            fix: FIX.of(facts),
            saves: Estimate::exactly(0),
        },
        claims: idle.claims,
        sites: idle.sites,
    })
}

/// Returns the line that most of the functions are enqueued at.
fn source(facts: &Facts<'_>, is_one: impl Fn(&str) -> bool) -> Source {
    let mut lines = Lines::default();
    for (line, used) in &facts.all.source_lines.rows {
        let calls = used.calls.iter().filter(|(api, _)| is_one(api));
        lines.add(line.clone(), calls.fold(0, |sum, (_, calls)| sum.saturating_add(*calls)));
    }
    lines.source()
}
