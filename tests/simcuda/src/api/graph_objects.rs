//! User objects: things of the application's that graphs keep alive. The last reference that goes calls the destructor.

use super::put;
use crate::call::Call;
use crate::error::{INVALID_VALUE, Outcome};
use crate::export::exports;
use crate::graph::{Kept, UserObject};
use crate::handle::Handle;

exports! {
    cuUserObjectCreate => create(object: *mut Handle, pointer: u64, destroy: Option<extern "C-unwind" fn(u64)>, count: u32, flags: u32);
    cuUserObjectRetain => retain(object: Handle, count: u32);
    cuUserObjectRelease => release(object: Handle, count: u32);
    cuGraphRetainUserObject => graph_retain(graph: Handle, object: Handle, count: u32, flags: u32);
    cuGraphReleaseUserObject => graph_release(graph: Handle, object: Handle, count: u32);
}

/// `CU_USER_OBJECT_NO_DESTRUCTOR_SYNC`.
const NO_DESTRUCTOR_SYNC: u32 = 1;
/// `CU_GRAPH_USER_OBJECT_MOVE`.
const MOVE: u32 = 1;

/// cuda.h: counts "must be nonzero and not larger than INT_MAX".
fn counted(count: u32) -> Outcome<u32> {
    if count == 0 || count > i32::MAX as u32 { Err(INVALID_VALUE) } else { Ok(count) }
}

unsafe fn create(
    call: &mut Call,
    object: *mut Handle,
    pointer: u64,
    destroy: Option<extern "C-unwind" fn(u64)>,
    count: u32,
    flags: u32,
) -> Outcome {
    let (Some(destroy), NO_DESTRUCTOR_SYNC, false) = (destroy, flags, object.is_null()) else {
        return Err(INVALID_VALUE);
    };
    let count = counted(count)?;
    let handle = call.lock().user_objects.insert(UserObject::new(Kept { pointer, destroy }, count));
    // SAFETY: cuda.h's promise; not NULL.
    unsafe { put(object, handle) }
}

unsafe fn retain(call: &mut Call, object: Handle, count: u32) -> Outcome {
    let mut state = call.lock();
    state.user_objects.get_mut(object).ok_or(INVALID_VALUE)?.retain(counted(count)?)
}

unsafe fn release(call: &mut Call, object: Handle, count: u32) -> Outcome {
    let mut state = call.lock();
    state.user_objects.get_mut(object).ok_or(INVALID_VALUE)?.release(counted(count)?)
}

unsafe fn graph_retain(call: &mut Call, graph: Handle, object: Handle, count: u32, flags: u32) -> Outcome {
    let (mut state, count) = (call.lock(), counted(count)?);
    if flags & !MOVE != 0 || state.graphs.get(graph).is_none() {
        return Err(INVALID_VALUE);
    }
    let object = state.user_objects.get_mut(object).ok_or(INVALID_VALUE)?;
    let kept = object.kept()?;
    if flags & MOVE != 0 {
        object.release(count)?;
    }
    let graph = state.graphs.get_mut(graph).ok_or(INVALID_VALUE)?;
    graph.objects.push((kept, count));
    Ok(())
}

unsafe fn graph_release(call: &mut Call, graph: Handle, object: Handle, count: u32) -> Outcome {
    let (mut state, count) = (call.lock(), counted(count)?);
    let kept = state.user_objects.get(object).ok_or(INVALID_VALUE)?.kept()?;
    state.graphs.get_mut(graph).ok_or(INVALID_VALUE)?.let_go(&kept, count)
}
