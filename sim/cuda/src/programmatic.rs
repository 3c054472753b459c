//! Programmatic dependent launches: kernels that start before the one ahead of them in their stream has ended.
//!
//! Sources: cuda.h, CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, _PROGRAMMATIC_EVENT and
//! _LAUNCH_COMPLETION_EVENT; CUDA programming guide, "Programmatic Dependent Launch and Synchronization".
//!
//! - A kernel launched with the first attribute, directly after a kernel of its stream, starts when that kernel, its
//!   primary, has triggered. A primary triggers where its code says so (here: where its name or the assumption
//!   `programmatic_trigger` says), and otherwise at its end.
//! - It ends when it has run for its length and its primary has ended: it waits for the primary's results before it
//!   ends (cudaGridDependencySynchronize). Later work in the stream waits for both.
//! - Anything between the two, including an event record, waits for the primary's end, and the kernel waits for that.
//! - A programmatic event fires at the trigger, or at the start if it requests that; a launch completion event fires
//!   when all blocks have started, which is the start here. Both are guaranteed to fire no earlier than that and may be
//!   late: the assumption `launch_events`.
//!
//! In a graph such launches are ordinary ones: "allows, but does not guarantee, concurrent execution".

use crate::clocks::Ns;
use crate::config::config;
use crate::engine::{Done, Length};
use crate::handle::Handle;
use crate::state::{Recorded, State};
use crate::work::{Action, Job, Launch, Told};

/// A kernel that the next launch on its stream may overlap.
#[derive(Clone, Debug)]
pub struct Primary {
    /// It has triggered.
    trigger: Done,
    /// It is over.
    done: Done,
}

/// A stream's last entry, as a programmatic launch after it sees it.
#[derive(Clone, Debug, Default)]
pub enum Last {
    /// It may overlap this one.
    Kernel(Primary),
    /// The kernel that could be overlapped if no event had been recorded after it.
    Recorded(Primary),
    /// Anything else: the launch waits for it.
    #[default]
    Other,
}

impl Last {
    /// Notes that an event was recorded after it.
    pub fn recorded(self) -> Self {
        match self {
            Self::Kernel(primary) | Self::Recorded(primary) => Self::Recorded(primary),
            Self::Other => Self::Other,
        }
    }
}

/// When an event that a launch records fires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// All blocks have begun.
    Start,
    /// All blocks have triggered.
    Trigger,
}

/// Returns how long after its start a kernel triggers, ns; none for at its end. A part `_trigger<N>` of its name is a
/// percentage of its length.
fn trigger_ns(name: &str, length: Ns) -> Option<Ns> {
    let named = name.split('_').find_map(|part| part.strip_prefix("trigger")?.parse().ok());
    let percent = named.unwrap_or_else(|| config().assume.number("programmatic_trigger"));
    (percent < 100).then(|| length * percent / 100)
}

impl State {
    /// Schedules a stream's kernel after `before`, of which the first is the stream's last entry, and returns what the
    /// next launch may overlap.
    pub fn run_kernel(
        &mut self,
        stream: Handle,
        launch: &Launch,
        mut before: Vec<Done>,
        last: Last,
        mut truth: Told,
    ) -> (Done, Last) {
        if let Some(operation) = &mut truth {
            // A kernel that had already ended could not have been overlapped.
            operation.cut =
                launch.programmatic && matches!(&last, Last::Recorded(primary) if !primary.done.by(self.now));
        }
        let primary = match last {
            Last::Kernel(primary) if launch.programmatic => Some(primary),
            _ => None,
        };
        if let Some(primary) = &primary {
            before[0] = primary.trigger.clone();
        }
        let nothing = || Job { action: Action::None, truth: None };
        if config().launch_ns > 0 {
            before = vec![self.add(&before, Length::Fixed(config().launch_ns), None, nothing())];
        }
        let (before, truth) = self.turn(stream, before, truth);
        let trigger = trigger_ns(&launch.name, launch.length);
        if primary.is_none() && trigger.is_none() && launch.events.is_empty() {
            let (length, action) = launch.body();
            let done = self.add(&before, length, None, Job { action, truth });
            return (done.clone(), Last::Kernel(Primary { trigger: done.clone(), done }));
        }
        let head = self.add(&before, Length::Fixed(0), None, nothing());
        let after = std::slice::from_ref(&head);
        let trigger = trigger.map(|ns| self.add(after, Length::Fixed(ns), None, nothing()));
        let end = Job { action: launch.end(), truth: None };
        let body = self.add(after, Length::Fixed(launch.length), None, end);
        let primary = primary.map(|primary| primary.done);
        let ends: Vec<Done> = [body].into_iter().chain(primary.clone()).collect();
        let action = Action::KernelEnd { head: head.clone(), primary };
        let done = self.add(&ends, Length::Fixed(0), None, Job { action, truth });
        let trigger = trigger.unwrap_or_else(|| done.clone());
        for &(event, moment) in &launch.events {
            let fires = match moment {
                _ if config().assume.is("launch_events", "late") => &done,
                Moment::Start => &head,
                Moment::Trigger => &trigger,
            };
            self.fire(event, Recorded::Stream(fires.clone()));
        }
        (done.clone(), Last::Kernel(Primary { trigger, done }))
    }

    /// Makes `recorded` an event's last record.
    pub fn fire(&mut self, event: Handle, recorded: Recorded) {
        if let Recorded::Stream(done) = &recorded {
            self.share(event, done);
        }
        if let Some(event) = self.events.get_mut(event) {
            event.recorded = recorded;
        }
    }
}
