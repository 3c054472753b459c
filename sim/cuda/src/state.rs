//! The simulated driver's state, under one lock that is never held while a thread sleeps or runs the application's code.

use crate::api::link::Link;
use crate::api::texture::Textures;
use crate::api::user_object::UserObject;
use crate::array::Arrays;
use crate::capture::Capture;
use crate::clocks::{self, Ns};
use crate::config::config;
use crate::effects;
use crate::engine::{Done, Engine, Known, Node};
use crate::error::{
    CONTEXT_IS_DESTROYED, Failure, INVALID_CONTEXT, INVALID_HANDLE, Outcome, STREAM_DETACHED,
};
use crate::graph::{Exec, Graph, GraphNode};
use crate::graph_memory::GraphMemory;
use crate::green::{Green, Part};
use crate::handle::{Handle, Kind, Table, stale};
use crate::image::{Function, KernelHandle, Library, Module};
use crate::imported::Imports;
use crate::interprocess::{Shared, SharedEvents};
use crate::memory::Memory;
use crate::pool::Pool;
use crate::programmatic::Last;
use crate::thread;
use crate::truth;
use crate::virtual_memory::VirtualMemory;
use crate::work::Job;
use crate::worker::Worker;
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, LazyLock};

/// A context.
#[derive(Debug)]
pub struct Context {
    /// Its number, unique in the process (`cuCtxGetId`).
    pub id: u32,
    /// A released primary context keeps its handle and is not active.
    pub active: bool,
    /// For a green context's context: the device's primary context, which owns its memory, modules and events.
    /// Otherwise 0.
    pub root: Handle,
    /// Device ordinal.
    pub device: u32,
    /// `CUctx_flags`.
    pub flags: u32,
    /// A device's primary context.
    pub primary: bool,
    /// The version that `cuCtxGetApiVersion` returns.
    pub api_version: u32,
    /// The legacy default stream.
    pub legacy: Handle,
    /// Per-thread default streams, by thread id.
    pub per_thread: HashMap<u32, Handle>,
    /// All streams, default ones included.
    pub streams: BTreeSet<Handle>,
    /// Blocking streams that were used since the last use of the legacy stream.
    pub dirty: Vec<Handle>,
    /// For each connection, the work that must leave its queue before any later work does.
    pub taken: Vec<Done>,
    /// The number of streams that were assigned a connection.
    pub connected: usize,
    /// Work left by streams that were destroyed.
    pub orphans: Vec<Orphan>,
    /// The limits that `cuCtxSetLimit` set.
    pub limits: HashMap<u32, usize>,
    /// Contexts whose memory this one may access.
    pub peers: BTreeSet<Handle>,
    /// Unfinished work that all its streams wait for (`cuCtxWaitEvent`).
    pub waits: Vec<Done>,
}

/// The last work of a stream that was destroyed before it was done.
#[derive(Debug)]
pub struct Orphan {
    /// The work.
    pub tail: Done,
    /// Whether the legacy stream still has to be ordered after it.
    pub blocking: bool,
}

/// The kinds of streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamKind {
    /// The context's legacy default stream.
    Legacy,
    /// A thread's default stream.
    PerThread,
    /// A stream that the application created.
    Created,
}

/// A stream.
#[derive(Debug)]
pub struct Stream {
    /// `cuStreamGetId`.
    pub id: u64,
    /// Its context.
    pub context: Handle,
    /// Its kind.
    pub kind: StreamKind,
    /// `CUstream_flags`.
    pub flags: u32,
    /// Its priority.
    pub priority: i32,
    /// The index of its connection in [`Context::taken`]; none before its first work.
    pub connection: Option<usize>,
    /// The last work submitted to it.
    pub tail: Done,
    /// Entries of its launch queue that were not done at the last check.
    pub queue: VecDeque<Done>,
    /// Whether the context's `dirty` contains it.
    pub dirty: bool,
    /// What a programmatic launch needs to know about the stream's last entry.
    pub last: Last,
    /// The stream capture that it is part of.
    pub capture: Option<u64>,
    /// Whether its green context was destroyed.
    pub detached: bool,
    /// The attributes that `cuStreamSetAttribute` set.
    pub attributes: HashMap<u32, [u64; 8]>,
}

impl Stream {
    /// Whether it orders itself against the legacy default stream (CU_STREAM_NON_BLOCKING = 1 says that it does not).
    pub fn blocking(&self) -> bool {
        self.kind != StreamKind::Legacy && self.flags & 1 == 0
    }

    /// Forgets entries that are done, and counts the others.
    pub fn entries(&mut self, now: Ns) -> usize {
        while self.queue.front().is_some_and(|done| done.by(now)) {
            self.queue.pop_front();
        }
        self.queue.len()
    }
}

/// An event's last record.
#[derive(Clone, Debug)]
pub enum Recorded {
    /// The event was never recorded.
    Never,
    /// A record on a stream; it completes with this work.
    Stream(Done),
    /// A record in a stream capture.
    Capture {
        /// The capture's id.
        capture: u64,
        /// The nodes that the event represents.
        nodes: Vec<Handle>,
    },
}

/// An event.
#[derive(Debug)]
pub struct Event {
    /// Its context; for an event created in a green context, the primary context.
    pub context: Handle,
    /// The context that was current at its creation.
    pub made_in: Handle,
    /// `CUevent_flags`.
    pub flags: u32,
    /// Its last record.
    pub recorded: Recorded,
    /// The state that it shares with other processes (`CU_EVENT_INTERPROCESS`).
    pub shared: Option<Shared>,
}

/// A device's primary context.
#[derive(Clone, Copy, Debug, Default)]
pub struct Primary {
    /// The handle, which survives resets of the context; 0 before the first retain.
    pub handle: Handle,
    /// The number of retains minus the number of releases.
    pub references: u32,
    /// Flags for its next activation.
    pub flags: u32,
}

/// The whole state of the driver.
#[derive(Debug)]
#[allow(missing_docs)]
pub struct State {
    /// Host ns at which the current call takes effect.
    pub now: Ns,
    ids: u64,
    context_ids: u32,
    pub primaries: Vec<Primary>,
    pub contexts: Table<Context>,
    pub streams: Table<Stream>,
    pub events: Table<Event>,
    pub modules: Table<Module>,
    pub functions: Table<Function>,
    pub libraries: Table<Library>,
    pub kernels: Table<KernelHandle>,
    pub pools: Table<Pool>,
    pub links: Table<Link>,
    pub device_pools: HashMap<u32, Handle>,
    pub graphs: Table<Graph>,
    pub nodes: Table<GraphNode>,
    pub execs: Table<Exec>,
    pub user_objects: Table<UserObject>,
    pub graph_memory: GraphMemory,
    pub greens: Table<Green>,
    pub resources: Table<Part>,
    pub memory: Memory,
    pub virtual_memory: VirtualMemory,
    pub arrays: Arrays,
    pub imports: Imports,
    pub textures: Textures,
    pub shared_events: SharedEvents,
    pub captures: HashMap<u64, Capture>,
    pub engine: Engine<Job>,
    pub known: Vec<Known<Job>>,
    pub worker: Worker,
    /// Contexts whose work a kernel ends: number → when, and the error.
    pub faults: HashMap<u32, (Ns, Failure)>,
}

/// The state, locked.
pub type Guard = MutexGuard<'static, State>;

static STATE: LazyLock<Mutex<State>> = LazyLock::new(|| Mutex::new(State::new(config().devices())));
/// Signalled when a gate opens.
static OPENED: Condvar = Condvar::new();

/// Locks the state. The caller takes effect at `at`, or now if it had to wait for the lock.
pub fn lock(at: Ns) -> Guard {
    let mut state = STATE.lock();
    state.now = at.max(clocks::now());
    state.look_at_values();
    state
}

/// Blocks, with the state unlocked, until the work is done.
pub fn wait(done: &Done) {
    wait_all(std::slice::from_ref(done));
}

/// Blocks, with the state unlocked, until all work is done and its effects are visible.
pub fn wait_all(work: &[Done]) {
    let mut last = 0;
    if work.iter().any(|done| done.end().is_none()) {
        let mut state = STATE.lock();
        while work.iter().any(|done| done.end().is_none()) {
            OPENED.wait(&mut state);
        }
    }
    for done in work {
        last = last.max(done.end().unwrap_or(0));
    }
    clocks::sleep_until(last);
    effects::drain();
}

impl State {
    fn new(devices: u32) -> Self {
        Self {
            now: 0,
            ids: 0,
            context_ids: 0,
            primaries: vec![Primary::default(); devices as usize],
            contexts: Table::new(Kind::Context),
            streams: Table::new(Kind::Stream),
            events: Table::new(Kind::Event),
            modules: Table::new(Kind::Module),
            functions: Table::new(Kind::Function),
            libraries: Table::new(Kind::Library),
            kernels: Table::new(Kind::Kernel),
            pools: Table::new(Kind::Pool),
            links: Table::new(Kind::Link),
            device_pools: HashMap::new(),
            graphs: Table::new(Kind::Graph),
            nodes: Table::new(Kind::Node),
            execs: Table::new(Kind::GraphExec),
            user_objects: Table::new(Kind::UserObject),
            graph_memory: GraphMemory::default(),
            greens: Table::new(Kind::Green),
            resources: Table::new(Kind::Resources),
            memory: Memory::new(devices),
            virtual_memory: VirtualMemory::default(),
            arrays: Arrays::default(),
            imports: Imports::default(),
            textures: Textures::default(),
            shared_events: SharedEvents::default(),
            captures: HashMap::new(),
            engine: Engine::default(),
            known: Vec::new(),
            worker: Worker::default(),
            faults: HashMap::new(),
        }
    }

    /// Returns a number that was never used before: for stream ids, operations and stream captures.
    pub fn id(&mut self) -> u64 {
        self.ids += 1;
        self.ids
    }

    /// Returns a new context number.
    pub fn context_id(&mut self) -> u32 {
        self.context_ids += 1;
        self.context_ids
    }

    /// Returns the context that owns what the calling thread creates: its current context, or that context's primary
    /// context.
    pub fn current(&self) -> Outcome<Handle> {
        Ok(self.root(self.current_itself()?))
    }

    /// Returns a green context's primary context, and any other context itself.
    pub fn root(&self, context: Handle) -> Handle {
        self.contexts.get(context).map(|context| context.root).filter(|&root| root != 0).unwrap_or(context)
    }

    /// Returns the calling thread's current context, green or not.
    pub fn current_itself(&self) -> Outcome<Handle> {
        let handle = thread::current();
        if handle == 0 {
            // cuda.h, CUDA_ERROR_INVALID_CONTEXT: "most frequently indicates that there is no context bound".
            return Err(INVALID_CONTEXT);
        }
        self.context(handle).map(|_| handle)
    }

    /// Returns a live context. cuda.h: CUDA_ERROR_CONTEXT_IS_DESTROYED means that the current context was destroyed.
    pub fn context(&self, handle: Handle) -> Outcome<&Context> {
        let is_live = |context: &&Context| context.active;
        self.contexts.get(handle).filter(is_live).ok_or_else(|| match handle == thread::current() {
            true => CONTEXT_IS_DESTROYED,
            false => stale(INVALID_CONTEXT, handle),
        })
    }

    /// Returns the context of a handle that was checked before.
    pub fn live(&mut self, handle: Handle) -> Outcome<&mut Context> {
        self.contexts.get_mut(handle).ok_or(INVALID_CONTEXT)
    }

    /// Returns the stream that a handle means to this caller. 0 is the default stream of the caller's API, 1
    /// CU_STREAM_LEGACY, 2 CU_STREAM_PER_THREAD (cuda.h).
    pub fn stream(&mut self, per_thread: bool, handle: Handle) -> Outcome<Handle> {
        let context = self.current_itself()?;
        match handle {
            0 if per_thread => self.thread_stream(context),
            0 | 1 => Ok(self.live(context)?.legacy),
            2 => self.thread_stream(context),
            _ => match self.streams.get(handle) {
                Some(Stream { detached: false, .. }) => Ok(handle),
                // cuda.h of CUDA 13, cuGreenCtxDestroy. Older versions do not document the error.
                Some(_) if config().driver_version >= 13000 => Err(STREAM_DETACHED),
                Some(_) => Err(stale(INVALID_HANDLE, handle)),
                // An H200's answer to launches and queries (docs/hardware.md, `stale_handles`).
                None => Err(stale(INVALID_CONTEXT, handle)),
            },
        }
    }

    fn thread_stream(&mut self, context: Handle) -> Outcome<Handle> {
        if self.root(context) != context {
            // cuda.h, cuStreamGetCtx_v2: CU_STREAM_PER_THREAD is an invalid handle while a green context is current.
            return Err(INVALID_HANDLE);
        }
        let tid = thread::tid();
        if let Some(&stream) = self.live(context)?.per_thread.get(&tid) {
            return Ok(stream);
        }
        let stream = self.new_stream(context, StreamKind::PerThread, 0, 0)?;
        self.live(context)?.per_thread.insert(tid, stream);
        Ok(stream)
    }

    /// Creates a stream.
    pub fn new_stream(
        &mut self,
        context: Handle,
        kind: StreamKind,
        flags: u32,
        priority: i32,
    ) -> Outcome<Handle> {
        let id = self.id();
        let root = self.root(context);
        self.live(root)?;
        let stream = Stream {
            id,
            context,
            kind,
            flags,
            priority,
            connection: None,
            tail: Done::At(0),
            queue: VecDeque::new(),
            dirty: false,
            last: Last::Other,
            capture: None,
            detached: false,
            attributes: HashMap::new(),
        };
        let handle = self.streams.insert(stream);
        self.live(context)?.streams.insert(handle);
        let green = self.green_of(context);
        let context = self.number(context);
        truth::line(format_args!(
            "\"kind\":\"stream\",\"stream\":{id},\"stream_handle\":{handle},\"context\":{context},\"green\":{green},\
             \"flags\":{flags},\"priority\":{priority},\"default\":{},\"destroyed\":false",
            kind != StreamKind::Created
        ));
        Ok(handle)
    }

    /// Returns the stream of a handle that was checked under this lock.
    pub fn checked(&mut self, stream: Handle) -> &mut Stream {
        self.streams.get_mut(stream).expect("checked under this lock")
    }

    /// Returns the work that a synchronization with a stream waits for.
    pub fn stream_work(&mut self, stream: Handle) -> Vec<Done> {
        let Stream { kind, context, ref tail, .. } = *self.checked(stream);
        let mut work = vec![tail.clone()];
        if kind == StreamKind::Legacy
            && config().assume.is("null_sync", "blocking")
            && let Some(context) = self.contexts.get(context)
        {
            let dirty = context.dirty.iter().filter_map(|&stream| self.streams.get(stream));
            work.extend(dirty.map(|stream| stream.tail.clone()));
        }
        work
    }

    /// Returns the last work of each stream of a context.
    pub fn context_work(&self, context: Handle) -> Vec<Done> {
        // cuda.h, cuCtxSynchronize: it also synchronizes a primary context's green contexts.
        let (own, green) = (self.contexts.get(context), self.contexts.iter().map(|(_, context)| context));
        let all = own.into_iter().chain(green.filter(|green| green.root == context));
        all.flat_map(|context| {
            let streams = context.streams.iter().filter_map(|&stream| self.streams.get(stream));
            let orphans = context.orphans.iter().map(|orphan| orphan.tail.clone());
            streams.map(|stream| stream.tail.clone()).chain(orphans)
        })
        .collect()
    }

    /// Opens a gate now: the work that waited for it gets its times.
    pub fn open(&mut self, gate: &Arc<Node>) {
        let now = self.now;
        self.engine.open(gate, now, &mut self.known);
        self.settle();
        self.shared_events.publish_ended();
        OPENED.notify_all();
    }
}
