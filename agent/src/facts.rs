//! What the driver reports of kernels: registers, memory, how many blocks fit. It is queried in the app's own launch,
//! once for each shape.
//!
//! Only there is the handle certainly alive: on another thread, the poller included, its module might be unloaded at
//! the same time. The hot path compares the shape with that of the handle's last launch. If it differs, a table of
//! fixed size says whether it was queried before; when the table is full, nothing more is queried.

use core::ffi::c_int;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use gpuspy_wire::record::{Head, KernelFacts};

use crate::cuda::*;
use crate::driver::{self, Driver};
use crate::gpu::context::{Context, Contexts, with_context};
use crate::keyed::Keyed;
use crate::names::{KernelName, Names, Sight};
use crate::shape::Shape;
use crate::thread::Call;

/// Shapes of a process's launches, all handles together.
const SHAPES: usize = 1 << 13;
/// Modules and libraries that are loaded at the same time, roughly: keys are never removed.
const OWNERS: usize = 1 << 11;

/// What was queried. Valid when zero.
pub struct Facts {
    /// By handle and shape: the life of the handle in which that was queried ([`Sight::life`]). Relaxed: the thread
    /// that swaps it in makes the query.
    queried: Keyed<AtomicU32, SHAPES>,
    /// By CUmodule or CUlibrary: the return address of the call that loaded it. Relaxed: a number.
    loaded: Keyed<AtomicU64, OWNERS>,
}

/// A launch handle in a context.
struct Kernel<'c> {
    handle: CUfunction,
    name: KernelName,
    shape: Shape,
    context: Option<&'c Context>,
}

impl Facts {
    /// Notes the caller that loaded a module or library. Where the runtime loads one for itself, its caller need not be
    /// the code that contains the kernels.
    pub fn loaded(&self, call: &Call, owner: u64) {
        if let Some(place) = self.loaded.get(owner) {
            place.store(if call.is_outermost() { call.caller } else { 0 }, Ordering::Relaxed);
        }
    }

    /// Records the facts of a kernel that was launched in another shape than before.
    #[cold]
    pub fn launched(&self, call: &Call, handle: CUfunction, name: KernelName, shape: Shape) {
        if let (Some(sight), Some(driver)) = (self.first(call, handle, shape), driver::driver()) {
            let context = call.session.get::<Contexts>().iter().find(|c| c.number == shape.context());
            self.publish(call, driver, &sight, &Kernel { handle, name, shape, context });
        }
    }

    /// Records the facts of a kernel that a graph runs. Of a node with two handles, either may have been launched in a
    /// capture.
    pub fn of_node(&self, call: &Call, driver: &Driver, node: &CUDA_KERNEL_NODE_PARAMS_v2) {
        let names = call.session.get::<Names>();
        let handle = if node.context.is_null() { driver.current_context() } else { node.context };
        let context = call.session.get::<Contexts>().get(call, driver, handle);
        let shape = Shape::of(node.first.block, node.first.shared_bytes, context.map_or(0, |c| c.number));
        let handles = [node.first.func, node.kern];
        if shape.word() == 0 || handles.iter().any(|handle| self.is_queried(call, *handle, shape)) {
            return;
        }
        let (handle, name) = names.of_node(call, node);
        if name.id != 0
            && let Some(sight) = self.first(call, handle, shape)
        {
            self.publish(call, driver, &sight, &Kernel { handle, name, shape, context });
        }
    }

    /// Poller: has each kernel's facts recorded again at its next launch, for a collector that has not seen them.
    pub fn forget(&self, names: &Names) {
        // No life has this number.
        self.queried.values().for_each(|life| life.store(0, Ordering::Relaxed));
        names.forget_shapes();
    }

    fn is_queried(&self, call: &Call, handle: CUfunction, shape: Shape) -> bool {
        let (sight, queried) =
            (call.session.get::<Names>().sight(handle, None), self.queried.find(key(handle, shape)));
        sight.zip(queried).is_some_and(|(sight, queried)| queried.load(Ordering::Relaxed) == sight.life)
    }

    /// Returns what is known of a handle to the first thread that meets it in a shape: that one queries the driver.
    fn first(&self, call: &Call, handle: CUfunction, shape: Shape) -> Option<Sight> {
        let sight = call.session.get::<Names>().sight(handle, Some(shape))?;
        let queried = self.queried.get(key(handle, shape))?;
        (queried.swap(sight.life, Ordering::Relaxed) != sight.life).then_some(sight)
    }

    fn publish(&self, call: &Call, driver: &Driver, sight: &Sight, kernel: &Kernel<'_>) {
        let (module, origin) = (sight.owner, self.origin(call, sight));
        call.publish(&KernelFacts { module, origin, ..kernel.ask(driver) });
    }

    /// Returns an address in the file that the kernel is from: the stub of the runtime's launch, or the caller that
    /// loaded its module.
    fn origin(&self, call: &Call, sight: &Sight) -> u64 {
        let stub = call.origin();
        // Runtimes accept handles in place of a stub, too.
        if stub != 0 && call.session.get::<Names>().sight(stub as CUfunction, None).is_none() {
            return stub;
        }
        self.loaded.find(sight.owner).map_or(0, |address| address.load(Ordering::Relaxed))
    }
}

impl Kernel<'_> {
    /// Queries the driver; what it does not report stays 0.
    fn ask(&self, driver: &Driver) -> KernelFacts {
        let none = KernelFacts {
            head: Head::new::<KernelFacts>(),
            function: self.handle as u64,
            kernel: self.name.id,
            context: self.shape.context(),
            threads: self.shape.threads(),
            shared_bytes: self.shape.shared_bytes(),
            ..KernelFacts::default()
        };
        let ask = || {
            let attribute = |which| self.attribute(driver, which).unwrap_or(0);
            KernelFacts {
                static_shared_bytes: attribute(FUNC_SHARED_BYTES),
                local_bytes: attribute(FUNC_LOCAL_BYTES),
                registers: attribute(FUNC_REGISTERS).try_into().unwrap_or(0),
                max_threads: attribute(FUNC_MAX_THREADS).try_into().unwrap_or(0),
                blocks_per_multiprocessor: self.blocks(driver).and_then(|b| b.try_into().ok()).unwrap_or(0),
                ..none
            }
        };
        let queried = driver.relaxed(|| match self.context {
            Some(context) if context.is_leaving() => none,
            Some(context) => with_context(driver, context.handle as CUcontext, ask).unwrap_or(none),
            None => ask(),
        });
        queried.unwrap_or(none)
    }

    /// Returns an attribute. A CUkernel's attributes are per device (cuda.h, cuKernelGetAttribute).
    fn attribute(&self, driver: &Driver, which: c_int) -> Option<u32> {
        let mut value: c_int = 0;
        // SAFETY: a handle that the app has just launched, or put into a graph, of the kind that the loading call
        // reported; writes a place of ours.
        let result = unsafe {
            if self.name.is_kernel {
                let device = self.context?.device as CUdevice;
                driver.kernel_attribute?(&mut value, which, self.handle, device)
            } else {
                driver.function_attribute?(&mut value, which, self.handle)
            }
        };
        if result == CUDA_SUCCESS { u32::try_from(value).ok() } else { None }
    }

    /// Returns how many blocks fit on a multiprocessor. A CUkernel is accepted in a CUfunction's place, and means the
    /// current context (cuda.h, cuOccupancyMaxActiveBlocksPerMultiprocessor).
    fn blocks(&self, driver: &Driver) -> Option<u32> {
        let (threads, shared) = (self.shape.threads() as c_int, self.shape.shared_bytes() as usize);
        let mut blocks: c_int = 0;
        // SAFETY: as in `attribute`.
        let result = unsafe { driver.active_blocks?(&mut blocks, self.handle, threads, shared) };
        if result == CUDA_SUCCESS { u32::try_from(blocks).ok() } else { None }
    }
}

/// Returns the table's key of a handle and shape. Two of a process's few thousand have the same one with a probability
/// below 1e-11.
fn key(handle: CUfunction, shape: Shape) -> u64 {
    // The finaliser of SplitMix64 (Steele, Lea, Flood 2014), a bijection.
    let mut mixed = shape.word().wrapping_add(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    ((mixed ^ mixed >> 31) ^ (handle as u64).rotate_left(32)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shape_keeps_threads_memory_and_context_and_is_0_where_they_do_not_fit() {
        let shape = Shape::of([32, 8, 4], 227 << 10, 7);
        assert_eq!((shape.threads(), shape.shared_bytes(), shape.context()), (1024, 227 << 10, 7));
        assert_eq!(Shape::of([0, 0, 0], 0, 7).word(), 0, "cuLaunchGrid's");
        assert_eq!(Shape::of([u32::MAX, u32::MAX, 2], 0, 7).word(), 0);
        assert_eq!(Shape::of([32, 1, 1], 1 << 28, 7).word(), 0);
        assert_eq!(Shape::of([32, 1, 1], 0, 1 << 24).word(), 0);
        let shapes = [([32, 1, 1], 0, 1), ([64, 1, 1], 0, 1), ([32, 1, 1], 1, 1), ([32, 1, 1], 0, 2)];
        let keys = shapes
            .map(|(block, shared, context)| key(0x1000 as CUfunction, Shape::of(block, shared, context)));
        let mut distinct = keys.to_vec();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), 4);
    }
}
