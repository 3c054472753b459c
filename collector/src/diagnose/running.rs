//! What is said of a thread that was outside CUDA: was it running, or off the CPU?

use crate::analyze::idle::running::Running;
use crate::units::percent;

/// What a thread did outside CUDA for most of the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It slept, or waited for something.
    OffCpu,
    /// It computed.
    Running,
    /// Neither for most of the time.
    Both,
}

/// The share of the time that waiting for a processor is worth naming, percent.
const WORTH_NAMING: u64 = 10;

/// Returns whether the leading threads slept, or waited for something, for longer than they ran. For how long they waited for a processor
/// says nothing of that: on a busy machine, a thread that computes waits for one, and so does one whose input has come. `None`: that is not
/// known.
pub fn is_off_cpu(running: &Running) -> Option<bool> {
    let all = running.outside.value;
    let (off_lo, off_hi) = (all.saturating_sub(running.runnable.hi), all.saturating_sub(running.runnable.lo));
    match () {
        () if all == 0 => None,
        () if off_lo >= running.ran.hi => Some(true),
        () if off_hi < running.ran.lo => Some(false),
        () => None,
    }
}

/// Returns what the leading threads did outside CUDA; `None` if that is not known, or only within bounds that are further
/// apart than half of the time.
pub fn state(running: &Running) -> Option<State> {
    let (lo, hi, all) = shares(running);
    if all == 0 || hi - lo > all / 2 {
        return None;
    }
    Some(match () {
        () if hi <= all / 2 => State::OffCpu,
        () if lo >= all / 2 => State::Running,
        () => State::Both,
    })
}

/// Says the same of `who`, with figures, and without a full stop.
pub fn sentence(running: &Running, who: &str) -> Option<String> {
    let (lo, hi, all) = shares(running);
    let mut text = match state(running)? {
        State::OffCpu => {
            format!("{who} was off the CPU for at least {} of it: it slept or waited", percent(all - hi, all))
        }
        State::Running => format!("{who} was running for at least {} of it: it computed", percent(lo, all)),
        State::Both => {
            format!("{who} was running for {} to {} of it", percent(lo, all), percent(hi, all))
        }
    };
    if let Some(share) = queued(running) {
        text += &format!("; for at least {share} of it, it waited for a processor");
    }
    Some(text)
}

/// Returns the share of the time in which a thread certainly waited for a processor, if that is worth naming.
pub fn queued(running: &Running) -> Option<String> {
    let (least, all) = (running.queued.lo, running.outside.value);
    (all > 0 && least.saturating_mul(100) >= all.saturating_mul(WORTH_NAMING)).then(|| percent(least, all))
}

/// The least and the most time in which the threads ran, and all of the time, ns.
fn shares(running: &Running) -> (u64, u64, u64) {
    let all = running.outside.value;
    let (lo, hi) = (running.runnable.lo.min(all), running.runnable.hi.min(all));
    (lo, hi, all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyze::estimate::Sum;

    fn exactly(value: u64) -> Sum {
        Sum { value, lo: value, hi: value }
    }

    fn running(lo: u64, hi: u64, queued: u64) -> Running {
        let runnable = Sum { value: lo.midpoint(hi), lo, hi };
        Running {
            outside: exactly(1_000),
            sampled: 1_000,
            runnable,
            queued: exactly(queued),
            ..Running::default()
        }
    }

    #[test]
    fn a_thread_slept_or_ran_or_did_both_or_nothing_is_said() {
        for (lo, hi, expected) in [
            (0, 30, "Thread 7 was off the CPU for at least 97.0 % of it: it slept or waited"),
            (800, 1_000, "Thread 7 was running for at least 80.0 % of it: it computed"),
            (500, 500, "Thread 7 was off the CPU for at least 50.0 % of it: it slept or waited"),
            (400, 600, "Thread 7 was running for 40.0 % to 60.0 % of it"),
            (0, 501, ""),
            (0, 1_000, ""),
        ] {
            let said = sentence(&running(lo, hi, 0), "Thread 7");
            assert_eq!(said.unwrap_or_default(), expected);
        }
        assert_eq!(state(&Running::default()), None);
    }

    #[test]
    fn waiting_for_a_processor_is_named() {
        let said = sentence(&running(900, 1_000, 300), "the thread").unwrap();
        assert!(said.ends_with("computed; for at least 30.0 % of it, it waited for a processor"), "{said}");
        assert_eq!(queued(&running(900, 1_000, 99)), None);
    }
}
