//! User objects: application data that graphs keep alive. Releasing the last reference calls the destructor.

use crate::call::Call;
use crate::error::{INVALID_VALUE, Outcome};
use crate::export::exports;
use crate::graph::Graph;
use crate::handle::Handle;
use crate::parameter::Out;
use crate::{thread, worker};
use std::sync::{Arc, Weak};

exports! {
    cuUserObjectCreate => create(object: Out<Handle>, pointer: u64, destroy: Option<extern "C-unwind" fn(u64)>, count: u32, flags: u32);
    cuUserObjectRetain => retain(object: Handle, count: u32);
    cuUserObjectRelease => release(object: Handle, count: u32);
    cuGraphRetainUserObject => graph_retain(graph: Handle, object: Handle, count: u32, flags: u32);
    cuGraphReleaseUserObject => graph_release(graph: Handle, object: Handle, count: u32);
}

/// `CU_USER_OBJECT_NO_DESTRUCTOR_SYNC`.
const NO_DESTRUCTOR_SYNC: u32 = 1;
/// `CU_GRAPH_USER_OBJECT_MOVE`.
const MOVE: u32 = 1;

/// The application's data.
#[derive(Debug)]
pub struct Kept {
    pointer: u64,
    destroy: extern "C-unwind" fn(u64),
}

impl Drop for Kept {
    /// cuda.h, cuUserObjectCreate: destructors run on a thread of the driver and must not call CUDA.
    fn drop(&mut self) {
        let (destroy, pointer) = (self.destroy, self.pointer);
        worker::spawn("simcuda-object", move || thread::as_callback(|| destroy(pointer)));
    }
}

/// A user object.
#[derive(Debug)]
pub struct UserObject {
    /// The application's own references.
    count: u32,
    /// Exists while `count` is not 0.
    held: Option<Arc<Kept>>,
    /// Exists while anything references it.
    kept: Weak<Kept>,
}

impl UserObject {
    fn take(&mut self, count: u32) -> Outcome {
        self.count = self.count.checked_sub(count).ok_or(INVALID_VALUE)?;
        if self.count == 0 {
            self.held = None;
        }
        Ok(())
    }
}

/// cuda.h: counts "must be nonzero and not larger than INT_MAX".
fn counted(count: u32) -> Outcome<u32> {
    if count == 0 || count > i32::MAX as u32 { Err(INVALID_VALUE) } else { Ok(count) }
}

fn create(
    call: &mut Call,
    object: Out<Handle>,
    pointer: u64,
    destroy: Option<extern "C-unwind" fn(u64)>,
    count: u32,
    flags: u32,
) -> Outcome {
    let (Some(destroy), NO_DESTRUCTOR_SYNC) = (destroy, flags) else {
        return Err(INVALID_VALUE);
    };
    let count = counted(count)?;
    let held = Arc::new(Kept { pointer, destroy });
    let kept = Arc::downgrade(&held);
    let handle = call.lock().user_objects.insert(UserObject { count, held: Some(held), kept });
    object.put(handle);
    Ok(())
}

fn retain(call: &mut Call, object: Handle, count: u32) -> Outcome {
    let mut state = call.lock();
    let object = state.user_objects.get_mut(object).ok_or(INVALID_VALUE)?;
    let kept = object.kept.upgrade().ok_or(INVALID_VALUE)?;
    object.count = object.count.checked_add(counted(count)?).ok_or(INVALID_VALUE)?;
    object.held = Some(kept);
    Ok(())
}

fn release(call: &mut Call, object: Handle, count: u32) -> Outcome {
    let mut state = call.lock();
    state.user_objects.get_mut(object).ok_or(INVALID_VALUE)?.take(counted(count)?)
}

fn graph_retain(call: &mut Call, graph: Handle, object: Handle, count: u32, flags: u32) -> Outcome {
    let (mut state, count) = (call.lock(), counted(count)?);
    if flags & !MOVE != 0 || state.graphs.get(graph).is_none() {
        return Err(INVALID_VALUE);
    }
    let object = state.user_objects.get_mut(object).ok_or(INVALID_VALUE)?;
    let kept = object.kept.upgrade().ok_or(INVALID_VALUE)?;
    if flags & MOVE != 0 {
        object.take(count)?;
    }
    let graph = state.graphs.get_mut(graph).ok_or(INVALID_VALUE)?;
    graph.objects.push((kept, count));
    Ok(())
}

fn graph_release(call: &mut Call, graph: Handle, object: Handle, count: u32) -> Outcome {
    let (mut state, count) = (call.lock(), counted(count)?);
    let kept =
        state.user_objects.get(object).and_then(|object| object.kept.upgrade()).ok_or(INVALID_VALUE)?;
    state.graphs.get_mut(graph).ok_or(INVALID_VALUE)?.let_go(&kept, count)
}

impl Graph {
    /// Releases references to a user object.
    fn let_go(&mut self, object: &Arc<Kept>, mut count: u32) -> Outcome {
        let own = |(kept, _): &&mut (Arc<Kept>, u32)| Arc::ptr_eq(kept, object);
        let held: u64 = self.objects.iter_mut().filter(own).map(|(_, held)| u64::from(*held)).sum();
        if held < u64::from(count) {
            return Err(INVALID_VALUE);
        }
        for (_, held) in self.objects.iter_mut().filter(own) {
            let going = count.min(*held);
            (*held, count) = (*held - going, count - going);
        }
        self.objects.retain(|(_, held)| *held > 0);
        Ok(())
    }
}
