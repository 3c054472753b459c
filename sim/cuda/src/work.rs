//! The work of streams and graph nodes, and how it is scheduled.

use crate::call::Call;
use crate::clocks::Ns;
use crate::config::config;
use crate::effects;
use crate::engine::{Done, Known, Length, Task};
use crate::error::Outcome;
use crate::fault::Fault;
use crate::handle::Handle;
use crate::interprocess::Mapped;
use crate::programmatic::{Last, Moment};
use crate::state::{self, Guard, Recorded, State, Stream, StreamKind};
use crate::transfer::Copy;
use crate::transfer::Set;
use crate::truth::{self, Operation, Times};
use crate::worker::{HostCall, Meeting, Value};
use crate::{graph, thread};
use std::sync::Arc;

/// A kernel launch.
#[derive(Clone, Debug)]
pub struct Launch {
    /// The kernel's name.
    pub name: Arc<str>,
    /// How long it runs, in addition to any time that it waits for other kernels.
    pub length: Ns,
    /// The other kernels that it waits for, if any.
    pub meeting: Option<Meeting>,
    /// The error with which it ends, if it fails.
    pub fault: Option<Fault>,
    /// Whether it may overlap the kernel before it in its stream.
    pub programmatic: bool,
    /// Events that the launch itself records.
    pub events: Vec<(Handle, Moment)>,
    /// The function, dimensions and arguments, which a graph's kernel node returns.
    pub node: Option<Arc<graph::KernelNode>>,
}

impl Launch {
    /// How long it takes, and what happens at its end.
    pub fn body(&self) -> (Length, Action) {
        match self.meeting {
            Some(meeting) => (Length::Gate, Action::Meeting(meeting)),
            None => (Length::Fixed(self.length), self.end()),
        }
    }

    /// What happens at the end of a kernel that waits for no others.
    pub fn end(&self) -> Action {
        self.fault.map_or(Action::None, Action::Fault)
    }
}

/// A piece of work.
#[derive(Clone, Debug)]
pub enum Work {
    /// A kernel.
    Kernel(Launch),
    /// A copy.
    Copy(Copy),
    /// A memset.
    Set(Set),
    /// A host function.
    Host(HostCall),
    /// A wait for, or a write of, a value in memory.
    Value(Value),
    /// The record of an event.
    Record(Handle),
    /// A wait for an event's present record.
    Wait(Handle),
    /// A graph's allocation of this block.
    Take(u64),
    /// A graph's free of this block.
    Give(u64),
    /// An empty node, which only orders others.
    Empty,
}

/// Where a piece of work runs.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// Number of the context.
    pub context: u32,
    /// Device ordinal.
    pub device: u32,
    /// Stream id.
    pub stream: u64,
    /// The CUstream.
    pub handle: Handle,
    /// Entries ahead of it.
    pub queue: u32,
    /// The graph launch that it belongs to; 0 = none.
    pub graph: u64,
}

/// The data that the schedule keeps for each piece of work.
#[derive(Debug)]
pub struct Job {
    /// The action to take when its times are known or its turn comes.
    pub action: Action,
    /// Its line for the truth file.
    pub truth: Told,
}

/// The line that a piece of work gets in the truth file, if any.
pub type Told = Option<Box<Operation>>;

/// The action to take when a job's times are known or its turn comes.
#[derive(Debug)]
pub enum Action {
    /// Nothing.
    None,
    /// Memory is copied.
    Copy(Copy),
    /// Memory is filled.
    Set(Set),
    /// A host function is called.
    Host(HostCall),
    /// A value in memory is written, or the stream waits for it.
    Value(Value),
    /// A kernel waits for others.
    Meeting(Meeting),
    /// A kernel fails.
    Fault(Fault),
    /// The stream waits for another process's record of an event.
    Elsewhere {
        /// The part of the event that all processes map.
        cell: Arc<Mapped>,
        /// The number of the record.
        number: u64,
    },
    /// A graph is done.
    GraphEnd {
        /// Host ns at which it was at the head of its stream.
        head: Done,
        /// Host ns at which its first nodes could start.
        begin: Done,
    },
    /// A kernel is done whose start and end are separate pieces of work.
    KernelEnd {
        /// The work that is its start.
        head: Done,
        /// The kernel that it was allowed to overlap.
        primary: Option<Done>,
    },
}

/// Submits work to a stream: to its capture, if it is being captured, otherwise to its launch queue. Blocks while the
/// queue is full.
pub fn issue(call: &Call, mut state: Guard, stream: Handle, work: &Work) -> Outcome<(Guard, Option<Done>)> {
    state.check_legacy(stream)?;
    if state.checked(stream).capture.is_some() {
        state.capture_work(call, stream, work)?;
        return Ok((state, None));
    }
    state = make_room(call, state, stream)?;
    let done = state.enqueue(call, stream, work);
    Ok((state, Some(done)))
}

/// Waits, with the state unlocked, until the stream's launch queue has room.
pub fn make_room(call: &Call, mut state: Guard, stream: Handle) -> Outcome<Guard> {
    loop {
        let now = state.now;
        let entries = state.checked(stream);
        if entries.entries(now) < config().launch_queue {
            return Ok(state);
        }
        let oldest = entries.queue.front().cloned();
        drop(state);
        state::wait_all(oldest.as_slice());
        state = call.lock();
        state.stream(call.api.per_thread, stream)?;
    }
}

impl State {
    /// Where work on a stream runs.
    pub fn place(&mut self, stream: Handle) -> Place {
        let now = self.now;
        let queue = self.checked(stream).entries(now) as u32;
        let of = self.checked(stream);
        let (id, context) = (of.id, of.context);
        let (number, device) =
            self.contexts.get(self.root(context)).map_or((0, 0), |context| (context.id, context.device));
        Place { context: number, device, stream: id, handle: stream, queue, graph: 0 }
    }

    /// Returns the work that new work on a stream waits for, including its turn on the connection.
    pub fn predecessors(&mut self, stream: Handle) -> Vec<Done> {
        let before = self.ordered_behind(stream);
        self.turn(stream, before, None).0
    }

    /// Returns what a piece of work waits for once it has taken its turn on its connection, and when it was at the head
    /// of its stream, where its GPU interval starts, for the truth file.
    ///
    /// A context's streams get its connections in turn, with their first work, and the streams of one connection share a queue
    /// into the device (CUDA C++ Programming Guide, "CUDA Environment Variables", CUDA_DEVICE_MAX_CONNECTIONS; that they keep
    /// theirs is stricter than an H200, where a stream waits only if events are pending on all connections, and that each
    /// context has its own is an assumption). A piece of work at the head of its stream waits
    /// until all work that was submitted before it to any of these streams has left the queue.
    pub fn turn(&mut self, stream: Handle, mut before: Vec<Done>, truth: Told) -> (Vec<Done>, Told) {
        if config().connections == 0 {
            return (before, truth);
        }
        let nothing = || Job { action: Action::None, truth: None };
        let head = self.add(&before, Length::Fixed(0), None, nothing());
        before.extend(self.last_taken(stream).map(|taken| taken.clone()));
        let turn = self.add(&before, Length::Fixed(0), None, nothing());
        self.taken(stream, &turn);
        let truth = truth.map(|operation| Box::new(Operation { head: Some(head), ..*operation }));
        (vec![turn], truth)
    }

    /// Makes later work on the stream's connection wait in its queue until `done`.
    fn taken(&mut self, stream: Handle, done: &Done) {
        if let Some(taken) = self.last_taken(stream) {
            *taken = done.clone();
        }
    }

    fn last_taken(&mut self, stream: Handle) -> Option<&mut Done> {
        let Stream { context, connection, .. } = *self.checked(stream);
        let root = self.root(context);
        let owner = self.contexts.get_mut(root)?;
        let connection = connection.unwrap_or_else(|| {
            owner.connected += 1;
            (owner.connected - 1) % owner.taken.len()
        });
        self.checked(stream).connection = Some(connection);
        self.contexts.get_mut(root)?.taken.get_mut(connection)
    }

    /// Returns the work ahead of new work on a stream, by the rules of [`Self::ordered_behind`].
    pub fn ahead(&mut self, stream: Handle) -> Vec<Done> {
        let of = self.checked(stream);
        let (context, kind, blocking) = (of.context, of.kind, of.blocking());
        let mut ahead = vec![of.tail.clone()];
        let Some(owner) = self.contexts.get(context) else { return ahead };
        let tail = |stream: Handle| self.streams.get(stream).map(|stream| stream.tail.clone());
        if blocking {
            ahead.extend(tail(owner.legacy));
        } else if kind == StreamKind::Legacy {
            let orphans = owner.orphans.iter().filter(|orphan| orphan.blocking);
            ahead.extend(orphans.map(|orphan| orphan.tail.clone()));
            ahead.extend(owner.dirty.iter().filter_map(|used| tail(*used)));
        }
        ahead
    }

    /// Returns the work that a stream's order puts before new work (CUDA programming guide, "Default Stream"): the
    /// stream's last work; on a blocking stream also the legacy stream's; on the legacy stream also that of all
    /// blocking streams.
    fn ordered_behind(&mut self, stream: Handle) -> Vec<Done> {
        let of = self.checked(stream);
        let (context, kind, blocking, dirty) = (of.context, of.kind, of.blocking(), of.dirty);
        let mut before = Vec::with_capacity(2);
        before.push(of.tail.clone());
        of.dirty |= blocking;
        let now = self.now;
        let Some(owner) = self.contexts.get_mut(context) else { return before };
        owner.waits.retain(|wait| !wait.by(now));
        before.extend(owner.waits.iter().cloned());
        if blocking {
            if !dirty {
                owner.dirty.push(stream);
            }
            let legacy = owner.legacy;
            before.extend(self.streams.get(legacy).map(|legacy| legacy.tail.clone()));
        } else if kind == StreamKind::Legacy {
            for orphan in owner.orphans.iter_mut().filter(|orphan| orphan.blocking) {
                orphan.blocking = false;
                before.push(orphan.tail.clone());
            }
            for used in std::mem::take(&mut owner.dirty) {
                if let Some(used) = self.streams.get_mut(used) {
                    used.dirty = false;
                    before.push(used.tail.clone());
                }
            }
        }
        before
    }

    /// Schedules work at the end of a stream that has room.
    pub fn enqueue(&mut self, call: &Call, stream: Handle, work: &Work) -> Done {
        let place = self.place(stream);
        let mut before = self.ordered_behind(stream);
        if let Work::Wait(event) = work {
            before.extend(self.recorded(*event));
        }
        let last = std::mem::take(&mut self.checked(stream).last);
        let truth = self.operation(call, work, &place);
        let (done, last) = match work {
            Work::Kernel(launch) => self.run_kernel(stream, launch, before, last, truth),
            _ => {
                let last = if matches!(work, Work::Record(_)) { last.recorded() } else { Last::Other };
                let (before, truth) = self.turn(stream, before, truth);
                (self.schedule(work, before, truth), last)
            }
        };
        if matches!(work, Work::Value(Value { wait: Some(_), .. })) {
            self.taken(stream, &done);
        }
        self.append(stream, done.clone());
        self.checked(stream).last = last;
        done
    }

    /// Makes `done` the last entry of a stream.
    pub fn append(&mut self, stream: Handle, done: Done) {
        let of = self.checked(stream);
        of.queue.push_back(done.clone());
        of.tail = done;
        of.last = Last::Other;
    }

    /// Schedules work after `before`.
    pub fn run(&mut self, call: &Call, work: &Work, before: Vec<Done>, place: &Place) -> Done {
        let truth = self.operation(call, work, place);
        self.schedule(work, before, truth)
    }

    fn schedule(&mut self, work: &Work, mut before: Vec<Done>, truth: Told) -> Done {
        let (length, lane, action) = match work {
            Work::Kernel(launch) => {
                let (length, action) = launch.body();
                (length, None, action)
            }
            Work::Copy(copy) => (Length::Fixed(copy.length()), copy.lane, Action::Copy(copy.clone())),
            Work::Set(set) => (Length::Fixed(set.length()), None, Action::Set(set.clone())),
            Work::Host(host) => (Length::Gate, None, Action::Host(*host)),
            Work::Value(value) => (Length::Gate, None, Action::Value(*value)),
            Work::Record(_) => (Length::Fixed(config().event_ns), None, Action::None),
            Work::Wait(event) => {
                before.extend(self.recorded(*event));
                (Length::Fixed(0), None, Action::None)
            }
            Work::Take(_) | Work::Give(_) | Work::Empty => (Length::Fixed(0), None, Action::None),
        };
        let done = self.add(&before, length, lane, Job { action, truth });
        if let Work::Record(event) = work {
            self.fire(*event, Recorded::Stream(done.clone()));
        }
        done
    }

    /// Returns the work that an event was recorded after, outside captures.
    fn recorded(&mut self, event: Handle) -> Option<Done> {
        self.learn(event);
        match &self.events.get(event)?.recorded {
            Recorded::Stream(done) => Some(done.clone()),
            _ => None,
        }
    }

    /// Schedules a job after `before`, submitted now.
    pub fn add(&mut self, before: &[Done], length: Length, lane: Option<usize>, payload: Job) -> Done {
        let task = Task { submit: self.now, length, lane, payload };
        let done = self.engine.add(before, task, &mut self.known);
        self.settle();
        done
    }

    /// Takes the actions whose times the schedule has computed.
    pub fn settle(&mut self) {
        for known in std::mem::take(&mut self.known) {
            match known {
                Known::Scheduled { payload: Job { action, truth }, head, start, end } => {
                    let own = truth.as_ref().and_then(|operation| operation.head.as_ref()?.end());
                    let head = own.unwrap_or(head);
                    let times = match &action {
                        Action::GraphEnd { head: reached, begin } => Times {
                            head: reached.end().unwrap_or(head),
                            start: begin.end().unwrap_or(head),
                            end,
                        },
                        Action::KernelEnd { head: begun, .. } => {
                            let start = begun.end().unwrap_or(head);
                            Times { head: own.unwrap_or(start), start, end }
                        }
                        _ => Times { head, start, end },
                    };
                    if let Some(mut operation) = truth {
                        if let Action::KernelEnd { primary: Some(primary), .. } = &action {
                            operation.overlaps = primary.end().is_some_and(|end| times.start < end);
                        }
                        let runs = times.start < self.works_until(operation.context);
                        truth::operation(operation, runs.then_some(times));
                    }
                    match action {
                        Action::Fault(fault) => self.fail(fault, end),
                        Action::Copy(copy) => effects::push(effects::Effect::Copy(copy)),
                        Action::Set(set) => effects::push(effects::Effect::Set(set)),
                        _ => {}
                    }
                }
                Known::Reached { payload, head, gate } => self.worker.push(head, payload, gate),
            }
        }
    }

    /// Returns the truth file's line for a piece of work; event records and empty nodes have none.
    pub fn operation(&mut self, call: &Call, work: &Work, place: &Place) -> Told {
        if !truth::wanted() {
            return None;
        }
        let mut operation = self.operation_of(call, "", place);
        match work {
            Work::Kernel(launch) => {
                operation.kind = "kernel";
                operation.name = launch.name.clone();
                operation.programmatic = launch.programmatic;
            }
            Work::Copy(copy) => {
                operation.kind = "copy";
                operation.bytes = copy.bytes();
                operation.direction = copy.direction.name();
                operation.host_memory = copy.host_memory;
            }
            Work::Set(set) => {
                operation.kind = "memset";
                operation.bytes = set.bytes();
                operation.host_memory = set.host_memory;
            }
            Work::Host(_) => operation.kind = "host",
            Work::Value(_) => operation.kind = "value",
            Work::Record(_) | Work::Wait(_) | Work::Take(_) | Work::Give(_) | Work::Empty => return None,
        }
        Some(operation)
    }

    /// Creates an operation's line.
    pub fn operation_of(&mut self, call: &Call, kind: &'static str, place: &Place) -> Box<Operation> {
        Box::new(Operation {
            kind,
            seq: self.id(),
            tid: thread::tid(),
            api: call.api.name,
            call_begin: call.begin,
            call_end: call.end.clone(),
            name: empty(),
            context: place.context,
            device: place.device,
            stream: place.stream,
            stream_handle: place.handle,
            bytes: 0,
            direction: "",
            host_memory: "none",
            captured: false,
            programmatic: false,
            head: None,
            overlaps: false,
            cut: false,
            in_graph: place.graph,
            queue: place.queue,
        })
    }
}

/// An empty name, shared.
fn empty() -> Arc<str> {
    static EMPTY: std::sync::LazyLock<Arc<str>> = std::sync::LazyLock::new(|| Arc::from(""));
    EMPTY.clone()
}
