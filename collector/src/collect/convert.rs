//! What trace record does a wire record become? A pure function of words and a clock.
//!
//! The words are a private copy of what a hostile process may have written. The ring's reader has checked a record's
//! length; everything else is checked here.

use super::host_ticks::Clock;
use crate::trace::record as trace;
use crate::trace::record::{Body, Call, Record, What};
use crate::trace::rounding;
use gpuspy_wire::record as wire;
use gpuspy_wire::record::Record as _;
use gpuspy_wire::record::{
    Direction, Head, Kind, LossCause, Memory, Namespace, NodeKind, NvtxChange, StackNumber, SyncScope,
    Untimed, Via, WindowChange,
};
use std::borrow::Cow;
use std::fmt::Write as _;

/// The result of converting a wire record.
#[derive(Clone, Debug, PartialEq)]
pub enum Item<'w> {
    /// A record for the trace.
    Record(Record),
    /// A name: the text of an id.
    Name(Namespace, u32, Cow<'w, str>),
    /// The start or end of an NVTX range, or a marker: for the trace, once its text has a number.
    Range(Record, Cow<'w, str>),
    /// The GPU time of the operation with this correlation.
    GpuTime(u64, trace::GpuTime),
    /// A code object, of which the parts follow.
    Code(wire::Code),
    /// A part of a code object.
    CodePart(wire::CodePart, &'w [u8]),
    /// A stack that is new.
    Stack(wire::Stack, Vec<wire::Frame>),
    /// A reading of the clocks by the agent.
    Anchor(wire::Anchor),
    /// A record of a kind that this version does not know.
    Unknown,
    /// A record of a known kind that no agent writes.
    Invalid,
}

/// Converts one record of thread `thread`. `before` is the [`Record::at`] of the thread's previous record, which
/// records without a time of their own get.
pub fn convert<'w>(words: &'w [u64], thread: u32, before: u64, clock: &Clock) -> Item<'w> {
    let Some(kind) = Head::of(words).map(|head| Kind::from_wire(head.kind)) else { return Item::Invalid };
    let Some(kind) = kind else { return Item::Unknown };
    match kind {
        Kind::Intern => name(words),
        Kind::GpuTime => gpu_time(words, clock),
        Kind::Anchor => wire::Anchor::from_words(words).map(Item::Anchor),
        Kind::NvtxRange => range(words, thread, clock),
        Kind::Code => wire::Code::from_words(words).filter(|code| code.code != 0).map(Item::Code),
        Kind::CodePart => wire::CodePart::of(words).map(|(part, bytes)| Item::CodePart(part, bytes)),
        Kind::Stack => stack(words),
        _ => record(kind, words, before, clock).map(|(at, body)| Item::Record(rounded(thread, at, body))),
    }
    .unwrap_or(Item::Invalid)
}

/// A record with the exactness that traces have.
fn rounded(thread: u32, at: u64, body: Body) -> Record {
    let mut record = Record { thread, at, body };
    rounding::round(&mut record);
    record
}

fn name(words: &[u64]) -> Option<Item<'_>> {
    let (intern, text) = wire::Intern::text(words)?;
    let namespace = Namespace::from_wire(intern.namespace)?;
    let mut text = String::from_utf8_lossy(text);
    if intern.cut != 0 && namespace == Namespace::Kernel {
        // The id belongs to the whole name, so it distinguishes kernels that share the part that a record can contain.
        text.to_mut().push_str(&format!("[cut at {} bytes, name {}]", intern.length, intern.id));
    }
    (intern.id != 0).then_some(Item::Name(namespace, intern.id, text))
}

fn stack(words: &[u64]) -> Option<Item<'_>> {
    if let Some((stack, python, addresses)) = wire::Stack::addresses_of(words) {
        let mut text = python.get().to_string();
        for address in addresses {
            let _always = write!(text, " {address:x}");
        }
        return (stack.stack != 0).then_some(Item::Name(Namespace::NativeStack, stack.stack, text.into()));
    }
    let (stack, frames) = wire::Stack::of(words)?;
    (stack.stack != 0).then(|| Item::Stack(stack, frames.collect()))
}

fn range<'w>(words: &'w [u64], thread: u32, clock: &Clock) -> Option<Item<'w>> {
    let (w, text) = wire::NvtxRange::of(words)?;
    let wire::NvtxRange { id, domain, category, color, .. } = w;
    let (change, payload) = (NvtxChange::from_wire(w.change)?, w.payload != 0);
    let body = Body::NvtxRange(trace::NvtxRange { change, id, domain, text: 0, category, color, payload });
    Some(Item::Range(rounded(thread, clock.ns(w.at), body), String::from_utf8_lossy(text)))
}

fn gpu_time<'w>(words: &[u64], clock: &Clock) -> Option<Item<'w>> {
    let w = wire::GpuTime::from_words(words)?;
    let mut time = on_gpu(&w, clock);
    rounding::round_time(&mut time);
    Some(Item::GpuTime(w.correlation, time))
}

fn on_gpu(w: &wire::GpuTime, clock: &Clock) -> trace::GpuTime {
    trace::GpuTime {
        time_base: w.time_base,
        start: w.start,
        duration: w.duration,
        start_error: w.start_error,
        duration_error: w.duration_error,
        seen: clock.ns(w.seen),
        flags: w.head.flags,
        tail: span(w.seen.saturating_sub(u64::from(w.tail)), w.tail, clock),
    }
}

/// Returns a record's `at` and its body.
fn record(kind: Kind, words: &[u64], before: u64, clock: &Clock) -> Option<(u64, Body)> {
    Some(match kind {
        Kind::Launch | Kind::Memcpy | Kind::Memset | Kind::GraphLaunch | Kind::Burst => {
            let (work, entered, what) = what(kind, words, clock)?;
            let work = operation(&work, entered, what, clock)?;
            (work.call.end, Body::Work(work))
        }
        Kind::Alloc => {
            let w = wire::Alloc::from_words(words)?;
            let call = call(w.head, w.correlation, (w.begin, w.end), w.caller, w.context, clock).on(w.stack);
            let memory = Memory::from_wire(w.memory)?;
            let (address, bytes, stream, pool) = (w.address, w.bytes, w.stream, w.pool);
            (call.end, Body::Alloc(trace::Alloc { call, memory, address, bytes, stream, pool }))
        }
        Kind::Free => {
            let w = wire::Free::from_words(words)?;
            let call =
                call(w.head, w.correlation, (w.begin, w.begin), w.caller, w.context, clock).on(w.stack);
            let memory = Memory::from_wire(w.memory)?;
            let (address, stream, bytes) = (w.address, w.stream, w.bytes);
            (call.begin, Body::Free(trace::Free { call, memory, address, stream, bytes }))
        }
        Kind::Synchronize => {
            let w = wire::Synchronize::from_words(words)?;
            let call = call(w.head, w.correlation, (w.begin, w.end), w.caller, w.context, clock).on(w.stack);
            let scope = SyncScope::from_wire(w.scope)?;
            let (stream, event) = (w.stream, w.event);
            (call.end, Body::Synchronize(trace::Synchronize { call, scope, stream, event }))
        }
        Kind::EventRecord | Kind::EventWait => {
            let w = wire::EventOp::of(words)?;
            let call = call(w.head, w.correlation, (w.begin, w.end), w.caller, w.context, clock);
            let (stream, event, event_flags) = (w.stream, w.event, w.event_flags);
            let op = trace::EventOp { call, stream, event, event_flags };
            (call.end, if kind == Kind::EventWait { Body::EventWait(op) } else { Body::EventRecord(op) })
        }
        Kind::Api => {
            let w = wire::Api::from_words(words)?;
            let stack = wire::ApiOnStack::from_words(words).map_or(StackNumber::NONE, |api| api.stack);
            let call = call(w.head, w.correlation, (w.begin, w.end), w.caller, w.context, clock).on(stack);
            let ns = clock.length(u64::from(w.inside));
            let (inside, entered) = if w.more == 0 { (0, ns) } else { (ns, 0) };
            let (result, subject, calls) = (w.result, w.subject, w.more.saturating_add(1));
            (call.end, Body::Api(trace::Api { call, result, subject, calls, inside, entered }))
        }
        Kind::NodeTime => {
            let w = wire::NodeTime::from_words(words)?;
            let wire::NodeTime {
                head, time_base, start, duration, start_error, duration_error, seen, ..
            } = w;
            let time = wire::GpuTime {
                head,
                time_base,
                start,
                duration,
                start_error,
                duration_error,
                seen,
                ..Default::default()
            };
            let gpu = on_gpu(&time, clock);
            let (correlation, context, kernel, node) = (w.correlation, w.context, w.kernel, w.node);
            let time = trace::NodeTime { correlation, context, kernel, node, gpu };
            (time.gpu.seen, Body::NodeTime(time))
        }
        Kind::ClockSample => {
            let w = wire::ClockSample::from_words(words)?;
            let (after, before) = (clock.ns(w.after), clock.ns(w.before));
            let (context, time_base, gpu, error) = (w.context, w.time_base, w.gpu, w.error);
            (before, Body::ClockSample(trace::ClockSample { context, time_base, gpu, error, after, before }))
        }
        Kind::Window => {
            let w = wire::Window::from_words(words)?;
            let change = WindowChange::from_wire(w.change)?;
            let agent_ns = clock.length(w.agent_ticks);
            let (poller_ns, launches) = (w.poller_ns, w.launches);
            (clock.ns(w.at), Body::Window(trace::Window { change, agent_ns, poller_ns, launches }))
        }
        Kind::Loss => {
            let w = wire::Loss::from_words(words)?;
            let cause = LossCause::from_wire(w.cause)?;
            (clock.ns(w.at), Body::Loss { cause, count: w.count })
        }
        _ => inventory(kind, words, before, clock)?,
    })
}

/// Converts records about objects instead of calls.
fn inventory(kind: Kind, words: &[u64], before: u64, clock: &Clock) -> Option<(u64, Body)> {
    Some(match kind {
        Kind::Context => {
            let w = wire::Context::from_words(words)?;
            let destroyed = is_gone(w.change)?;
            let (context, device, handle) = (w.context, w.device, w.handle);
            (clock.ns(w.at), Body::Context(trace::Context { context, device, handle, destroyed }))
        }
        Kind::Stream => {
            let w = wire::Stream::from_words(words)?;
            let destroyed = is_gone(w.change)?;
            let (stream, handle, context, flags, priority) =
                (w.stream, w.handle, w.context, w.flags, w.priority);
            let stream = trace::Stream { stream, handle, context, flags, priority, destroyed };
            (clock.ns(w.at), Body::Stream(stream))
        }
        Kind::Graph => {
            let w = wire::Graph::from_words(words)?;
            let (kernels, copies, memsets, others) = (w.kernels, w.copies, w.memsets, w.others);
            let graph = trace::Graph { graph: w.graph, handle: w.handle, kernels, copies, memsets, others };
            (clock.ns(w.at), Body::Graph(graph))
        }
        Kind::GraphNode => {
            let w = wire::GraphNode::from_words(words)?;
            let kind = NodeKind::from_wire(w.kind)?;
            let (graph, kernel, count, bytes, address) = (w.graph, w.kernel, w.count, w.bytes, w.address);
            (before, Body::GraphNode(trace::GraphNode { graph, kind, kernel, count, bytes, address }))
        }
        Kind::Module => {
            let w = wire::Module::from_words(words)?;
            let wire::Module { start, end, bias, path, build_id, .. } = w;
            let module = trace::Module { start, end, bias, path, build_id };
            (clock.ns(w.at), Body::Module(module))
        }
        Kind::Device => {
            let w = wire::Device::from_words(words)?;
            let device = trace::Device {
                ordinal: w.ordinal,
                uuid: w.uuid,
                memory_bytes: w.memory_bytes,
                multiprocessors: w.multiprocessors,
                capability: w.capability,
                warps_per_multiprocessor: w.warps_per_multiprocessor,
            };
            (before, Body::Device(device))
        }
        Kind::KernelFacts => {
            let w = wire::KernelFacts::from_words(words)?;
            let facts = trace::KernelFacts {
                function: w.function,
                module: w.module,
                origin: w.origin,
                kernel: w.kernel,
                context: w.context,
                threads: w.threads,
                shared_bytes: w.shared_bytes,
                static_shared_bytes: w.static_shared_bytes,
                local_bytes: w.local_bytes,
                registers: w.registers,
                blocks_per_multiprocessor: w.blocks_per_multiprocessor,
                max_threads: w.max_threads,
            };
            (before, Body::KernelFacts(facts))
        }
        Kind::Lookup => {
            let w = wire::Lookup::from_words(words)?;
            (before, Body::Lookup(trace::Lookup { function: w.function, count: w.count }))
        }
        Kind::CaptureEdge => {
            let w = wire::CaptureEdge::from_words(words)?;
            (clock.ns(w.at), Body::CaptureEdge { begins: !is_gone(w.change)? })
        }
        // `record` converts the other kinds.
        _ => return None,
    })
}

/// Decodes `change` of contexts, streams and captures: 1 = there, 2 = gone.
fn is_gone(change: u8) -> Option<bool> {
    match change {
        1 => Some(false),
        2 => Some(true),
        _ => None,
    }
}

/// Returns the common part of an operation, the ticks until CUDA was entered for it, and its special part.
fn what(kind: Kind, words: &[u64], clock: &Clock) -> Option<(wire::Work, u32, What)> {
    Some(match kind {
        Kind::Launch => {
            let w = wire::Launch::from_words(words)?;
            let (grid, block, cluster) = (w.grid, w.block, w.cluster);
            let (name, function, shared_bytes, attributes) =
                (w.kernel, w.function, w.shared_bytes, w.attributes);
            (w.work, 0, What::Kernel { name, function, grid, block, shared_bytes, attributes, cluster })
        }
        Kind::Memcpy => {
            let w = wire::Memcpy::from_words(words)?;
            let direction = Direction::from_wire(w.direction)?;
            let asynchronous = w.asynchronous != 0;
            let (bytes, dst, src, rows, peer_context) = (w.bytes, w.dst, w.src, w.rows, w.peer_context);
            (w.work, w.entered, What::Memcpy { direction, asynchronous, bytes, dst, src, rows, peer_context })
        }
        Kind::Memset => {
            let w = wire::Memset::from_words(words)?;
            let asynchronous = w.asynchronous != 0;
            let (bytes, dst, value, element, rows) = (w.bytes, w.dst, w.value, w.element, w.rows);
            (w.work, w.entered, What::Memset { asynchronous, bytes, dst, value, element, rows })
        }
        Kind::GraphLaunch => {
            let w = wire::GraphLaunch::from_words(words)?;
            let (kernels, copies, memsets) = (w.kernels, w.copies, w.memsets);
            (w.work, 0, What::Graph { graph: w.graph, handle: w.handle, kernels, copies, memsets })
        }
        Kind::Burst => {
            let w = wire::Burst::from_words(words)?;
            let ordinary = w.launches.saturating_sub(w.programmatic);
            let closing = clock.ns(w.work.end).saturating_sub(clock.ns(w.last));
            (w.work, 0, What::Burst { launches: w.launches, ordinary, closing })
        }
        _ => return None,
    })
}

fn operation(w: &wire::Work, entered: u32, what: What, clock: &Clock) -> Option<trace::Work> {
    Some(trace::Work {
        call: call(w.head, w.correlation, (w.begin, w.end), w.caller, w.context, clock).on(w.stack),
        submitted: clock.ns(w.submitted),
        entered: clock.length(u64::from(entered)),
        lead: span(w.submitted.saturating_sub(u64::from(w.lead)), w.lead, clock),
        tail: span(w.submitted, w.tail, clock),
        untimed: Untimed::from_wire(w.untimed)?,
        stream: w.stream,
        gpu: None,
        what,
    })
}

/// The length of `ticks` from the tick `from`, in ns, rounded up, because it bounds how much a raw GPU time over-reads.
fn span(from: u64, ticks: u32, clock: &Clock) -> u64 {
    match ticks {
        0 => 0,
        u32::MAX => u64::MAX,
        ticks => clock.ns(from.saturating_add(u64::from(ticks))).saturating_sub(clock.ns(from)) + 1,
    }
}

fn call(
    head: Head,
    correlation: u64,
    (begin, end): (u64, u64),
    caller: u64,
    context: u32,
    clock: &Clock,
) -> Call {
    let (begin, end) = (clock.ns(begin), clock.ns(end));
    // An unknown route becomes `None`: the call is still worth keeping.
    let via = Via::from_wire(head.via);
    Call { correlation, api: head.api, via, flags: head.flags, begin, end, caller, context, stack: 0 }
}

impl Call {
    /// The same call, made by a stack.
    fn on(self, stack: StackNumber) -> Call {
        Call { stack: stack.get(), ..self }
    }
}

#[cfg(test)]
mod tests;
