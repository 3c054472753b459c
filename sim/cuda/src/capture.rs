//! Stream captures and their rules.
//!
//! Sources: cuda.h (cuStreamBeginCapture, cuThreadExchangeStreamCaptureMode, the CUDA_ERROR_STREAM_CAPTURE_* values);
//! CUDA programming guide, "Creating a Graph Using Stream Capture": cross-stream dependencies, prohibited and unhandled
//! operations, invalidation ("when an invalid operation is attempted during stream capture, any associated capture
//! graphs are invalidated").

use crate::call::Call;
use crate::config::config;
use crate::error::{
    CAPTURED_EVENT, INVALID_HANDLE, Outcome, STREAM_CAPTURE_IMPLICIT, STREAM_CAPTURE_INVALIDATED,
    STREAM_CAPTURE_ISOLATION, STREAM_CAPTURE_MERGE, STREAM_CAPTURE_UNSUPPORTED,
};
use crate::graph::NodeWork;
use crate::handle::Handle;
use crate::state::{Recorded, State, StreamKind};
use crate::work::Work;
use crate::{thread, truth};
use std::collections::{HashMap, HashSet};

/// `CU_STREAM_CAPTURE_MODE_GLOBAL`.
pub const GLOBAL: u32 = 0;
/// `CU_STREAM_CAPTURE_MODE_THREAD_LOCAL`.
pub const THREAD_LOCAL: u32 = 1;
/// `CU_STREAM_CAPTURE_MODE_RELAXED`.
pub const RELAXED: u32 = 2;

/// A stream capture.
#[derive(Debug)]
pub struct Capture {
    /// The graph that it builds.
    pub graph: Handle,
    /// Its mode.
    pub mode: u32,
    /// The stream that it began on.
    pub origin: Handle,
    /// The thread that began it.
    pub tid: u32,
    /// Whether a rule was broken, which invalidates the capture.
    pub invalid: bool,
    /// Its streams, each with the nodes that its next node will depend on.
    pub tips: HashMap<Handle, Vec<Handle>>,
    /// The dependency sets that the application was given, kept as long as cuda.h, cuStreamGetCaptureInfo, requires.
    pub shown: HashMap<Handle, Box<[Handle]>>,
}

impl State {
    /// Fails if the calling thread must not make a potentially unsafe call now, and invalidates the stream captures
    /// that forbid it. The three modes are those of cuda.h, cuThreadExchangeStreamCaptureMode.
    pub fn check_unsafe(&mut self) -> Outcome {
        if self.captures.is_empty() {
            return Ok(());
        }
        let (mode, tid) = (thread::capture_mode(), thread::tid());
        let mut prohibited = false;
        for capture in self.captures.values_mut() {
            let local = capture.tid == tid && capture.mode != RELAXED;
            let other = capture.tid != tid && capture.mode == GLOBAL && mode == GLOBAL;
            if mode != RELAXED && (local || other) {
                capture.invalid = true;
                prohibited = true;
            }
        }
        if prohibited { Err(STREAM_CAPTURE_UNSUPPORTED) } else { Ok(()) }
    }

    /// Applies [`Self::check_unsafe`] if the assumption `name` says that the call is unsafe.
    pub fn check_assumed_unsafe(&mut self, name: &str) -> Outcome {
        if config().assume.is(name, "unsafe") { self.check_unsafe() } else { Ok(()) }
    }

    /// Checks a query about what a stream is, such as its context, rather than what it does.
    pub fn check_question(&mut self, stream: Handle) -> Outcome {
        if self.captures.is_empty() || !config().assume.is("stream_questions_in_capture", "unsafe") {
            return Ok(());
        }
        self.check_not_captured(stream)?;
        self.check_legacy(stream)?;
        self.check_unsafe()
    }

    /// Fails if the stream is the legacy stream while a blocking stream of its context is being captured: the legacy
    /// stream "encompasses these other streams" (CUDA programming guide, "Prohibited and Unhandled Operations").
    pub fn check_legacy(&mut self, stream: Handle) -> Outcome {
        if self.captures.is_empty() || !self.implicitly_captured(stream) {
            return Ok(());
        }
        let context = self.checked(stream).context;
        let blocking: Vec<u64> = self.captures_of(|stream| stream.context == context && stream.blocking());
        self.invalidate(&blocking);
        Err(STREAM_CAPTURE_IMPLICIT)
    }

    /// Returns whether a stream is the legacy stream while a blocking stream of its context is being captured.
    pub fn implicitly_captured(&mut self, stream: Handle) -> bool {
        let of = self.checked(stream);
        let (kind, context) = (of.kind, of.context);
        kind == StreamKind::Legacy
            && !self.captures_of(|stream| stream.context == context && stream.blocking()).is_empty()
    }

    /// Fails, and invalidates the capture, if any stream of the context or of its green contexts is being captured: a
    /// wait for the whole context would wait for work that was never submitted (ROCm/rocm-systems PR#4508 saw the same
    /// for THREAD_LOCAL captures).
    pub fn check_context(&mut self, context: Handle) -> Outcome {
        let captures =
            self.captures_of(|stream| [stream.context, self.root(stream.context)].contains(&context));
        if captures.is_empty() {
            return Ok(());
        }
        self.invalidate(&captures);
        Err(STREAM_CAPTURE_UNSUPPORTED)
    }

    /// Fails, and invalidates the capture, if the stream is being captured: such a stream has no work to query or to
    /// wait for.
    pub fn check_not_captured(&mut self, stream: Handle) -> Outcome {
        match self.checked(stream).capture {
            Some(capture) => {
                self.invalidate(&[capture]);
                Err(STREAM_CAPTURE_UNSUPPORTED)
            }
            None => Ok(()),
        }
    }

    /// Fails if the event's last record is in a stream capture (cuda.h, CUDA_ERROR_CAPTURED_EVENT).
    pub fn check_event(&mut self, event: Handle) -> Outcome {
        let Some(Recorded::Capture { capture, .. }) = self.events.get(event).map(|event| &event.recorded)
        else {
            return Ok(());
        };
        let capture = *capture;
        if config().assume.is("event_sync_invalidates", "yes") {
            self.invalidate(&[capture]);
        }
        Err(CAPTURED_EVENT)
    }

    fn captures_of(&self, which: impl Fn(&crate::state::Stream) -> bool) -> Vec<u64> {
        let streams =
            self.captures.iter().flat_map(|(&id, capture)| capture.tips.keys().map(move |&s| (id, s)));
        let mut found: Vec<u64> = streams
            .filter(|&(_, stream)| self.streams.get(stream).is_some_and(&which))
            .map(|(id, _)| id)
            .collect();
        found.dedup();
        found
    }

    pub fn invalidate(&mut self, captures: &[u64]) {
        for id in captures {
            if let Some(capture) = self.captures.get_mut(id) {
                capture.invalid = true;
            }
        }
    }

    /// Adds work to the capture that a stream is part of.
    pub fn capture_work(&mut self, call: &Call, stream: Handle, work: &Work) -> Outcome {
        let id = self.checked(stream).capture.ok_or(INVALID_HANDLE)?;
        let capture = self.captures.get(&id).ok_or(INVALID_HANDLE)?;
        if capture.invalid {
            return Err(STREAM_CAPTURE_INVALIDATED);
        }
        let tips = capture.tips.get(&stream).cloned().unwrap_or_default();
        match work {
            Work::Record(event) => {
                if let Some(event) = self.events.get_mut(*event) {
                    event.recorded = Recorded::Capture { capture: id, nodes: tips };
                }
            }
            Work::Wait(event) => self.capture_wait(id, stream, *event)?,
            work => {
                let place = self.place(stream);
                if let Some(mut operation) = self.operation(call, work, &place) {
                    operation.captured = true;
                    truth::operation(operation, None);
                }
                self.capture_node(stream, NodeWork::One(work.clone()))?;
            }
        }
        Ok(())
    }

    /// Adds a node at the end of a capturing stream.
    pub fn capture_node(&mut self, stream: Handle, work: NodeWork) -> Outcome<Handle> {
        self.capture_with(stream, |state, graph, before| {
            let node = state.add_node(graph, work, before)?;
            Ok((node, node))
        })
    }

    /// Does the same with a node that `add` creates, which may add further dependencies.
    pub fn capture_with<T>(
        &mut self,
        stream: Handle,
        add: impl FnOnce(&mut State, Handle, Vec<Handle>) -> Outcome<(Handle, T)>,
    ) -> Outcome<T> {
        let id = self.checked(stream).capture.ok_or(INVALID_HANDLE)?;
        let capture = self.captures.get(&id).ok_or(INVALID_HANDLE)?;
        let (graph, before) = (capture.graph, capture.tips.get(&stream).cloned().unwrap_or_default());
        let (node, made) = add(self, graph, before)?;
        if let Some(capture) = self.captures.get_mut(&id) {
            capture.tips.insert(stream, vec![node]);
        }
        Ok(made)
    }

    /// Fails if the capture that a stream is part of is invalid.
    pub fn check_capture(&mut self, stream: Handle) -> Outcome {
        let capture = self.checked(stream).capture.and_then(|id| self.captures.get(&id));
        if capture.is_some_and(|capture| capture.invalid) { Err(STREAM_CAPTURE_INVALIDATED) } else { Ok(()) }
    }

    /// Makes a capturing stream wait for an event, which must be from the same capture.
    fn capture_wait(&mut self, id: u64, stream: Handle, event: Handle) -> Outcome {
        self.learn(event);
        let recorded = self.events.get(event).map(|event| event.recorded.clone());
        match recorded {
            Some(Recorded::Capture { capture, nodes }) if capture == id => {
                let tips = self.captures.get_mut(&id).and_then(|capture| capture.tips.get_mut(&stream));
                if let Some(tips) = tips {
                    tips.extend(
                        nodes.iter().filter(|node| !tips.contains(node)).copied().collect::<Vec<_>>(),
                    );
                }
                Ok(())
            }
            Some(Recorded::Capture { capture, .. }) if self.captures.contains_key(&capture) => {
                self.invalidate(&[id, capture]);
                Err(STREAM_CAPTURE_MERGE)
            }
            Some(Recorded::Stream(_) | Recorded::Capture { .. }) => {
                self.invalidate(&[id]);
                Err(STREAM_CAPTURE_ISOLATION)
            }
            Some(Recorded::Never) | None => Ok(()),
        }
    }

    /// Makes a stream outside captures wait for an event: it joins the event's capture, if there is one. Returns
    /// whether the stream is being captured now.
    pub fn join_capture(&mut self, stream: Handle, event: Handle) -> Outcome<bool> {
        let Some(Recorded::Capture { capture: id, nodes }) =
            self.events.get(event).map(|event| event.recorded.clone())
        else {
            return Ok(false);
        };
        let legacy = self.checked(stream).kind == StreamKind::Legacy;
        let Some(capture) = self.captures.get_mut(&id) else { return Err(CAPTURED_EVENT) };
        if legacy {
            capture.invalid = true;
            return Err(STREAM_CAPTURE_IMPLICIT);
        }
        if capture.invalid {
            return Err(STREAM_CAPTURE_INVALIDATED);
        }
        capture.tips.insert(stream, nodes);
        self.checked(stream).capture = Some(id);
        Ok(true)
    }

    /// Ends a capture: its streams are no longer captured.
    pub fn leave_capture(&mut self, id: u64) -> Option<Capture> {
        let capture = self.captures.remove(&id)?;
        for &stream in capture.tips.keys() {
            if let Some(stream) = self.streams.get_mut(stream) {
                stream.capture = None;
            }
        }
        Some(capture)
    }

    /// Returns whether the work of the capture's other streams leads to its origin's last nodes (cuda.h,
    /// CUDA_ERROR_STREAM_CAPTURE_UNJOINED; cuStreamUpdateCaptureDependencies: nodes removed from a dependency set do
    /// not count).
    pub fn joined(&self, capture: &Capture) -> bool {
        let mut reached = HashSet::new();
        let mut next = capture.tips.get(&capture.origin).cloned().unwrap_or_default();
        while let Some(node) = next.pop() {
            if reached.insert(node) {
                next.extend(self.nodes.get(node).into_iter().flat_map(|node| node.before.iter()));
            }
        }
        capture.tips.values().flatten().all(|node| reached.contains(node))
    }
}
