//! How are the calls recorded that create and destroy streams and contexts, and other host calls?

use core::cell::Cell;
use gpuspy_wire::capture_range::CaptureRange;

use crate::calls::{Plain, current_context, written};
use crate::cuda::*;
use crate::driver;
use crate::gpu::budget::Gate;
use crate::gpu::burst::{self, Next};
use crate::gpu::capture_range::Range;
use crate::gpu::context::{Context, Contexts, Primary};
use crate::gpu::ending::{self, Ending, PrimaryEnding};
use crate::gpu::stream::Streams;
use crate::gpu::stream_capture::StreamCaptures;
use crate::sink::Session;
use crate::thread::Call;

/// A call of which only the host time matters.
pub struct Host {
    pub subject: u64,
}

impl Plain for Host {
    fn subject(&self) -> u64 {
        self.subject
    }
}

/// The app's own start or end of a capture range.
pub struct Profiler {
    pub opens: bool,
}

impl Plain for Profiler {
    // The range lies between the two calls and includes neither.
    fn after(&self, call: &Call, end: u64) -> bool {
        let session = call.session;
        if session.get::<Gate>().range() == Some(CaptureRange::ProfilerApi) {
            let at = if self.opens { end } else { call.begin };
            if let Some(change) = session.get::<Range>().change(session.get::<Gate>(), self.opens, at) {
                call.publish(&change);
            }
        }
        false
    }
}

/// The creation of a stream.
pub struct StreamCreate {
    pub out: *mut CUstream,
}

impl Plain for StreamCreate {
    fn after(&self, call: &Call, _: u64) -> bool {
        if let Some(stream) = written(self.out) {
            call.session.get::<Streams>().made(call, stream);
        }
        false
    }
}

/// The destruction of a stream.
pub struct StreamDestroy {
    stream: CUstream,
    /// Whether a capture is open that has begun on it: nothing else ends that.
    is_origin: Cell<bool>,
}

impl StreamDestroy {
    /// The destruction of the stream with this handle.
    pub fn of(stream: CUstream) -> StreamDestroy {
        StreamDestroy { stream, is_origin: Cell::new(false) }
    }
}

impl Plain for StreamDestroy {
    const IS_ALWAYS_NOTED: bool = true;

    // Done before the real call: after it, another thread may already have the handle for a new stream.
    fn before(&self, call: &Call) {
        let captures = call.session.get::<StreamCaptures>();
        call.session.get::<Streams>().destroyed(call, self.stream, |stream| {
            burst::end_on(call, stream, Next::Nothing);
            self.is_origin.set(captures.forget(stream.address()).is_some());
        });
    }

    fn after(&self, call: &Call, _: u64) -> bool {
        if self.is_origin.get() {
            call.session.get::<StreamCaptures>().ended();
        }
        false
    }

    fn begins_unrecorded(&self, session: Session, per_thread: bool) {
        let captures = session.get::<StreamCaptures>();
        let stream = session.get::<Streams>().destroyed_unrecorded(session, self.stream, per_thread);
        self.is_origin.set(stream.is_some_and(|stream| captures.forget(stream.address()).is_some()));
    }

    fn over_unrecorded(&self, session: Session, succeeded: bool) {
        if succeeded && self.is_origin.get() {
            session.get::<StreamCaptures>().ended();
        }
    }

    fn subject(&self) -> u64 {
        self.stream as u64
    }
}

/// The creation of a context.
pub struct ContextCreate {
    pub out: *mut CUcontext,
}

impl Plain for ContextCreate {
    fn after(&self, call: &Call, _: u64) -> bool {
        if let (Some(context), Some(driver)) = (written(self.out), driver::driver()) {
            ending::made(call, driver, context);
        }
        false
    }
}

/// A retain of a primary context, which may create it.
pub struct PrimaryRetain {
    pub out: *mut CUcontext,
    pub device: CUdevice,
}

impl PrimaryRetain {
    fn primary(&self, session: Session) -> Option<&'static Primary> {
        session.get::<Contexts>().primary(self.device)
    }

    /// Counts the end of the call. Relaxed, like its start: the driver's lock orders it with the calls that
    /// read the counts. Returns the context if the call has retained it.
    fn over(&self, session: Session, succeeded: bool) -> Option<CUcontext> {
        let primary = self.primary(session)?;
        primary.call_counts.end();
        let context = succeeded.then(|| written(self.out)).flatten()?;
        primary.retain();
        primary.set_handle(context);
        Some(context)
    }
}

impl Plain for PrimaryRetain {
    const IS_ALWAYS_NOTED: bool = true;

    fn before(&self, call: &Call) {
        self.begins_unrecorded(call.session, call.per_thread);
    }

    fn after(&self, call: &Call, _: u64) -> bool {
        if let (Some(context), Some(driver)) = (self.over(call.session, true), driver::driver()) {
            call.session.get::<Contexts>().get(call, driver, context);
        }
        false
    }

    fn failed(&self, call: &Call) {
        self.over(call.session, false);
    }

    fn begins_unrecorded(&self, session: Session, _: bool) {
        self.primary(session).into_iter().for_each(|primary| primary.call_counts.begin());
    }

    fn over_unrecorded(&self, session: Session, succeeded: bool) {
        self.over(session, succeeded);
    }
}

/// The creation of a green context, which takes a reference to its device's primary context.
pub struct GreenCreate {
    pub out: *mut CUgreenCtx,
    pub device: CUdevice,
}

impl GreenCreate {
    fn over(&self, session: Session, succeeded: bool) {
        let contexts = session.get::<Contexts>();
        let Some(primary) = contexts.primary(self.device) else { return };
        primary.call_counts.end();
        // A reference is not counted whose end would not be noticed: see `Primary::retained`.
        if succeeded
            && let Some(green) = written(self.out)
            && contexts.greens.made(green, self.device)
        {
            primary.retain();
        }
    }
}

impl Plain for GreenCreate {
    const IS_ALWAYS_NOTED: bool = true;

    fn before(&self, call: &Call) {
        self.begins_unrecorded(call.session, call.per_thread);
    }

    fn after(&self, call: &Call, _: u64) -> bool {
        self.over(call.session, true);
        false
    }

    fn failed(&self, call: &Call) {
        self.over(call.session, false);
    }

    fn begins_unrecorded(&self, session: Session, _: bool) {
        let primary = session.get::<Contexts>().primary(self.device);
        primary.into_iter().for_each(|primary| primary.call_counts.begin());
    }

    fn over_unrecorded(&self, session: Session, succeeded: bool) {
        self.over(session, succeeded);
    }
}

/// The destruction of a green context, which drops its reference. If it is the last one, the primary context
/// ends.
pub struct GreenDestroy {
    green: CUgreenCtx,
    device: Cell<Option<CUdevice>>,
    ending: PrimaryEnding,
}

impl GreenDestroy {
    /// The destruction of the green context with this handle.
    pub fn of(green: CUgreenCtx) -> GreenDestroy {
        GreenDestroy { green, device: Cell::new(None), ending: PrimaryEnding::default() }
    }

    fn begin(&self, session: Session) {
        self.device.set(session.get::<Contexts>().greens.ending(self.green));
        if let Some(device) = self.device.get() {
            self.ending.begin(session, device, false);
        }
    }

    fn over(&self, session: Session, call: Option<&Call>, succeeded: bool) {
        let Some(device) = self.device.get() else { return };
        if !succeeded {
            // It still exists, and another call may end it. Its reference is not counted again: `Primary::retained` may be less.
            session.get::<Contexts>().greens.made(self.green, device);
        }
        self.ending.over(session, call, device, false, succeeded);
    }
}

impl Plain for GreenDestroy {
    const IS_ALWAYS_NOTED: bool = true;

    fn before(&self, call: &Call) {
        burst::end_own(call, Next::WaitForAll);
        call.session
            .get::<Streams>()
            .green_ends(call, self.green, |stream| burst::end_on(call, stream, Next::Nothing));
        self.begin(call.session);
    }

    fn after(&self, call: &Call, _: u64) -> bool {
        self.over(call.session, Some(call), true);
        false
    }

    fn failed(&self, call: &Call) {
        self.over(call.session, Some(call), false);
    }

    fn begins_unrecorded(&self, session: Session, _: bool) {
        let streams = session.get::<Streams>();
        // One that may be another's, because the driver does not say whose it is, is created again at its next use.
        for stream in streams.iter().filter(|stream| stream.is_live() && stream.may_be_green(self.green)) {
            streams.destroyed_unrecorded(session, stream.handle(), false);
        }
        self.begin(session);
    }

    fn over_unrecorded(&self, session: Session, succeeded: bool) {
        self.over(session, None, succeeded);
    }

    fn subject(&self) -> u64 {
        self.green as u64
    }
}

/// The destruction of a context.
pub struct ContextDestroy {
    handle: CUcontext,
    ending: Ending,
}

impl ContextDestroy {
    /// The destruction of the context with this handle.
    pub fn of(handle: CUcontext) -> ContextDestroy {
        ContextDestroy { handle, ending: Ending::default() }
    }
}

impl Plain for ContextDestroy {
    const IS_ALWAYS_NOTED: bool = true;

    fn before(&self, call: &Call) {
        burst::end_own(call, Next::WaitForAll);
        self.begins_unrecorded(call.session, call.per_thread);
    }

    fn begins_unrecorded(&self, session: Session, _: bool) {
        let ends = |c: &Context| c.handle == self.handle as u64;
        ending::drain(session, ends);
        self.ending.begin(session, ends);
    }

    fn over_unrecorded(&self, session: Session, succeeded: bool) {
        self.ending.over(session, None, succeeded);
    }

    fn after(&self, call: &Call, _: u64) -> bool {
        self.ending.over(call.session, Some(call), true);
        false
    }

    fn failed(&self, call: &Call) {
        self.ending.over(call.session, Some(call), false);
    }

    fn subject(&self) -> u64 {
        self.handle as u64
    }
}

/// A release of a primary context, which may end it, or a reset, which does end it.
pub struct PrimaryEnd {
    device: CUdevice,
    is_reset: bool,
    ending: PrimaryEnding,
}

impl PrimaryEnd {
    /// A release of a device's primary context.
    pub fn release(device: CUdevice) -> PrimaryEnd {
        PrimaryEnd { device, is_reset: false, ending: PrimaryEnding::default() }
    }

    /// A reset of a device's primary context.
    pub fn reset(device: CUdevice) -> PrimaryEnd {
        PrimaryEnd { is_reset: true, ..PrimaryEnd::release(device) }
    }
}

impl Plain for PrimaryEnd {
    const IS_ALWAYS_NOTED: bool = true;

    fn before(&self, call: &Call) {
        burst::end_own(call, Next::WaitForAll);
        self.ending.begin(call.session, self.device, self.is_reset);
    }

    fn after(&self, call: &Call, _: u64) -> bool {
        self.ending.over(call.session, Some(call), self.device, self.is_reset, true);
        false
    }

    fn failed(&self, call: &Call) {
        self.ending.over(call.session, Some(call), self.device, self.is_reset, false);
    }

    fn begins_unrecorded(&self, session: Session, _: bool) {
        self.ending.begin(session, self.device, self.is_reset);
    }

    fn over_unrecorded(&self, session: Session, succeeded: bool) {
        self.ending.over(session, None, self.device, self.is_reset, succeeded);
    }
}

/// `cudaDeviceReset`. It ends the primary context of the current device by driver functions that may have no
/// hook (its export tables). Where they have one, that hook's work is nested in this one.
#[derive(Default)]
pub struct DeviceReset {
    /// `None`: it is not known to have a context.
    device: Cell<Option<CUdevice>>,
    ending: PrimaryEnding,
}

impl Plain for DeviceReset {
    fn before_runtime(&self, call: &Call) {
        burst::end_own(call, Next::WaitForAll);
        let contexts = call.session.get::<Contexts>();
        // Without a current context it is most likely device 0, the runtime's default. If that has no context either, the hook
        // of the driver's function knows the device, or there is nothing to reset.
        let device = current_context(call).or_else(|| contexts.iter().find(|context| context.device == 0));
        self.device.set(device.map(|context| context.device as CUdevice));
        if let Some(device) = self.device.get() {
            self.ending.begin(call.session, device, true);
        }
    }

    fn after_runtime(&self, call: &Call, succeeded: bool) {
        if let Some(device) = self.device.get() {
            self.ending.over(call.session, Some(call), device, true, succeeded);
        }
    }
}
