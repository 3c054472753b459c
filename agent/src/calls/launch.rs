//! How are kernel launches recorded?

use gpuspy_wire::record::{self, StackNumber, flag};

use crate::calls::work::{Made, record_around};
use crate::calls::{Work, record_call};
use crate::cuda::*;
use crate::facts::Facts;
use crate::hook::Entry;
use crate::names::{KernelName, Names};
use crate::native::Native;
use crate::python::Python;
use crate::shape::Shape;
use crate::thread::{self, Call};

/// A launch by any API.
pub struct Launch {
    pub function: CUfunction,
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub shared_bytes: u32,
    pub stream: CUstream,
    pub attributes: Attributes,
    pub origin: Origin,
}

/// What shows which file a kernel is from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The function that the runtime's launch call received, which is the host stub.
    Stub,
    /// The caller of the launch, which is in compiled code's own host stub (crt/host_runtime.h, __cudaLaunch).
    Caller,
    /// The call that loaded the kernel's module.
    Module,
}

/// The part of a launch's attributes that matters here.
#[derive(Clone, Copy)]
pub struct Attributes {
    /// Bits `1 << CUlaunchAttributeID` of the attributes that are given.
    given: u32,
    cluster: [u8; 3],
    /// Whether it may overlap the launch ahead of it, or signals in its middle.
    programmatic: bool,
}

impl Attributes {
    /// A launch without attributes.
    pub const NONE: Attributes = Attributes { given: 0, cluster: [0; 3], programmatic: false };

    /// A cooperative launch.
    pub const COOPERATIVE: Attributes = Attributes { given: 1 << ATTRIBUTE_COOPERATIVE, ..Attributes::NONE };

    /// Reads an array of `count` attributes, or none.
    ///
    /// The app passes the array to the driver, which reads it as well.
    fn of(attributes: *const LaunchAttribute, count: u32) -> Attributes {
        if attributes.is_null() || count > 64 {
            return Attributes::NONE;
        }
        // SAFETY: the app's array of `count` elements, which the real call reads too.
        let array = unsafe { core::slice::from_raw_parts(attributes, count as usize) };
        array.iter().fold(Attributes::NONE, Attributes::and)
    }

    /// Adds an attribute.
    fn and(mut self, attribute: &LaunchAttribute) -> Attributes {
        self.given |= 1u32.checked_shl(attribute.id).unwrap_or(0);
        let [x, y, z, ..] = attribute.value;
        match attribute.id {
            ATTRIBUTE_CLUSTER => self.cluster = [x as u8, y as u8, z as u8],
            // The value is an int that allows the overlap, or not.
            ATTRIBUTE_PROGRAMMATIC_SERIALIZATION => self.programmatic |= x != 0,
            // The values begin with the event.
            ATTRIBUTE_PROGRAMMATIC_EVENT | ATTRIBUTE_LAUNCH_COMPLETION_EVENT => {
                self.programmatic |= x != 0 || y != 0;
            }
            _ => {}
        }
        self
    }
}

const fn of_dim3(dim: dim3) -> [u32; 3] {
    [dim.x, dim.y, dim.z]
}

impl Launch {
    /// Reads cuLaunchKernelEx's configuration. The driver refuses a null one.
    pub fn from_driver_config(config: *const CUlaunchConfig, function: CUfunction) -> Launch {
        // SAFETY: the app's struct, which the real call reads too.
        match unsafe { config.as_ref() } {
            Some(c) => Launch {
                function,
                grid: c.grid,
                block: c.block,
                shared_bytes: c.shared_bytes,
                stream: c.stream,
                attributes: Attributes::of(c.attributes, c.attribute_count),
                origin: Origin::Module,
            },
            None => {
                Launch::from_runtime(function, dim3::default(), dim3::default(), 0, core::ptr::null_mut())
            }
        }
    }

    /// Reads the arguments of cuLaunchGrid and similar calls: the blocks in x and y. The size of a block was set
    /// for the function before, and is recorded as 0.
    pub fn of_grid(function: CUfunction, width: int, height: int, stream: CUstream) -> Launch {
        Launch {
            function,
            grid: [width as u32, height as u32, 1],
            block: [0; 3],
            shared_bytes: 0,
            stream,
            attributes: Attributes::NONE,
            origin: Origin::Module,
        }
    }

    /// Reads cudaLaunchKernel's arguments. The function is the address of the host stub, not a handle.
    pub fn from_runtime(
        function: *const void,
        grid: dim3,
        block: dim3,
        shared: usize,
        stream: cudaStream_t,
    ) -> Launch {
        Launch {
            function: function.cast_mut(),
            grid: of_dim3(grid),
            block: of_dim3(block),
            shared_bytes: shared as u32,
            stream,
            attributes: Attributes::NONE,
            origin: Origin::Stub,
        }
    }

    /// Reads cudaLaunchKernelExC's configuration. The runtime refuses a null one.
    pub fn from_runtime_config(config: *const cudaLaunchConfig_t, function: *const void) -> Launch {
        // SAFETY: the app's struct, which the real call reads too.
        match unsafe { config.as_ref() } {
            Some(c) => Launch {
                attributes: Attributes::of(c.attributes, c.attribute_count),
                ..Launch::from_runtime(function, c.grid, c.block, c.shared_bytes, c.stream)
            },
            None => {
                Launch::from_runtime(function, dim3::default(), dim3::default(), 0, core::ptr::null_mut())
            }
        }
    }
}

impl Work for Launch {
    type Record = record::Launch;

    fn stream(&self) -> CUstream {
        self.stream
    }

    fn is_programmatic(&self) -> bool {
        self.attributes.programmatic
    }

    fn kernel(&self) -> u64 {
        self.function as u64
    }

    fn waits_for_others(&self, call: &Call) -> bool {
        let names = call.session.get::<Names>();
        names.has_communication() && names.is_communication(names.of_handle(call, self.function).id)
    }

    #[inline(always)]
    fn hand_down(&self, call: &Call) {
        let origin = if self.origin == Origin::Caller { call.caller } else { self.function as u64 };
        // A line of Python says more than the code that it called.
        let is_python = call.session.get::<Python>().is_read();
        let stack = if is_python { StackNumber::NONE } else { call.session.get::<Native>().of_launch(call) };
        call.hand_down(origin, stack);
    }

    #[inline(always)]
    fn record(self, call: &Call, work: record::Work, _: u32) -> record::Launch {
        let driver = call.layer == crate::hook::Layer::Driver;
        let name = if driver { self.kernel_name(call, work.context) } else { Default::default() };
        self.named(work, name)
    }
}

impl Launch {
    /// Returns its record, with the name of its kernel.
    #[inline(always)]
    pub fn named(&self, mut work: record::Work, name: KernelName) -> record::Launch {
        work.head.flags |= if name.is_kernel { flag::KERNEL_HANDLE } else { 0 };
        record::Launch {
            work,
            kernel: name.id,
            shared_bytes: self.shared_bytes,
            grid: self.grid,
            block: self.block,
            function: self.function as u64,
            attributes: self.attributes.given,
            cluster: self.attributes.cluster,
            reserved: 0,
            reserved2: 0,
        }
    }

    /// Returns its shape, if it has succeeded.
    #[inline(always)]
    pub fn shape_of_success(&self, context: u32) -> Shape {
        Shape::of_success(self.block, self.shared_bytes, context)
    }

    /// Returns its kernel's name. The first launch in a shape queries the driver's facts about the kernel.
    #[inline(always)]
    fn kernel_name(&self, call: &Call, context: u32) -> KernelName {
        let shape = Shape::of(self.block, self.shared_bytes, context);
        let (name, is_new) = call.session.get::<Names>().of_launch(call, self.function, shape);
        if is_new && name.id != 0 && shape.word() != 0 {
            call.session.get::<Facts>().launched(call, self.function, name, shape);
        }
        name
    }
}

/// Launches on several streams, one on each device, in one call.
pub struct Launches {
    list: *const CUDA_LAUNCH_PARAMS,
    count: u32,
}

/// More than the devices of a machine.
const MOST_LAUNCHES: u32 = 64;

impl Launches {
    /// An array of `count` launches.
    pub fn of(list: *const CUDA_LAUNCH_PARAMS, count: u32) -> Launches {
        Launches { list, count }
    }

    /// The launches; none where the driver will refuse the call.
    fn all(&self) -> &[CUDA_LAUNCH_PARAMS] {
        if self.list.is_null() || self.count > MOST_LAUNCHES {
            return &[];
        }
        // SAFETY: the app's array of `count` elements, which the real call reads too.
        unsafe { core::slice::from_raw_parts(self.list, self.count as usize) }
    }
}

impl Launch {
    fn of_many(one: &CUDA_LAUNCH_PARAMS) -> Launch {
        Launch {
            function: one.function,
            grid: one.grid,
            block: one.block,
            shared_bytes: one.shared_bytes,
            stream: one.stream,
            attributes: Attributes::COOPERATIVE,
            origin: Origin::Module,
        }
    }
}

/// Intercepts a call that launches on several streams: each launch gets a record, and events of its own
/// around the call.
pub fn launches(entry: Entry, what: impl FnOnce() -> Launches, real: impl FnOnce() -> CUresult) -> CUresult {
    let Some(call) = thread::enter(&entry) else { return real() };
    let what = what();
    let mut real = Some(real);
    // The real call is made once, by the innermost level of the recursion in `around`.
    let mut real = || match real.take() {
        Some(real) => call.real(real),
        None => (ERROR_STUB_LIBRARY, 0, 0),
    };
    let Made { result, before, submitted, recorded } = around(&call, what.all(), &mut real);
    if !recorded {
        record_call(&call, result, 0, before);
    }
    call.leave(before, submitted);
    result
}

/// Records one launch after the other around the call that makes them all.
fn around(
    call: &Call,
    launches: &[CUDA_LAUNCH_PARAMS],
    real: &mut dyn FnMut() -> (CUresult, u64, u64),
) -> Made {
    let Some((first, rest)) = launches.split_first() else {
        let (result, before, submitted) = real();
        return Made { result, before, submitted, recorded: false };
    };
    let made = record_around(call, Launch::of_many(first), |call| {
        let Made { result, before, submitted, .. } = around(&call.another(), rest, real);
        (result, before, submitted)
    });
    call.end_record();
    made
}
