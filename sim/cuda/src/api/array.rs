//! Arrays, mipmapped or not.

use super::memory::{report_alloc, report_free, report_gone};
use crate::array::{Array, Mipmap, Shape};
use crate::call::Call;
use crate::effects;
use crate::error::{INVALID_HANDLE, INVALID_VALUE, Outcome};
use crate::export::exports;
use crate::handle::Handle;
use crate::memory::{Allocation, MemoryKind};
use crate::parameter::{In, Out};
use crate::state::{Guard, State};

exports! {
    cuArrayCreate_v2 => create(array: Out<Handle>, descriptor: In<Descriptor>);
    cuArray3DCreate_v2 => create_3d(array: Out<Handle>, descriptor: In<Descriptor3d>);
    cuArrayGetDescriptor_v2 => get(descriptor: Out<Descriptor>, array: Handle);
    cuArray3DGetDescriptor_v2 => get_3d(descriptor: Out<Descriptor3d>, array: Handle);
    cuArrayDestroy => destroy(array: Handle);
    cuMipmappedArrayCreate => create_mipmap(mipmap: Out<Handle>, descriptor: In<Descriptor3d>, levels: u32);
    cuMipmappedArrayGetLevel => level(array: Out<Handle>, mipmap: Handle, level: u32);
    cuMipmappedArrayDestroy => destroy_mipmap(mipmap: Handle);
}

/// `CUDA_ARRAY_DESCRIPTOR` of cuda.h.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Descriptor {
    size: [u64; 2],
    format: u32,
    channels: u32,
}

/// `CUDA_ARRAY3D_DESCRIPTOR` of cuda.h.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Descriptor3d {
    size: [u64; 3],
    format: u32,
    channels: u32,
    flags: u32,
}

impl Descriptor3d {
    fn shape(&self) -> Shape {
        Shape { size: self.size, format: self.format, channels: self.channels, flags: self.flags }
    }
}

/// Returns the current context and its device, where such a call is allowed.
fn place(state: &mut Guard) -> Outcome<(Handle, u32)> {
    let context = state.current()?;
    state.check_unsafe()?;
    Ok((context, state.context(context)?.device))
}

fn new_array(call: &mut Call, array: Out<Handle>, shape: Shape) -> Outcome {
    shape.check()?;
    let mut state = call.lock();
    let (context, device) = place(&mut state)?;
    let bytes = shape.bytes();
    let address = state.back(device, bytes)?;
    let known = state.arrays.arrays.insert(Array { shape, context, device, bytes, address, mipmap: 0 });
    report_alloc(call, known, bytes, MemoryKind::Array, 0);
    array.put(known);
    Ok(())
}

fn create(call: &mut Call, array: Out<Handle>, descriptor: In<Descriptor>) -> Outcome {
    let Descriptor { size: [width, height], format, channels } = *descriptor;
    new_array(call, array, Shape { size: [width, height, 0], format, channels, flags: 0 })
}

fn create_3d(call: &mut Call, array: Out<Handle>, descriptor: In<Descriptor3d>) -> Outcome {
    new_array(call, array, descriptor.shape())
}

fn get(call: &mut Call, descriptor: Out<Descriptor>, array: Handle) -> Outcome {
    let state = call.lock();
    let Shape { size: [width, height, _], format, channels, .. } =
        state.arrays.arrays.get(array).ok_or(INVALID_HANDLE)?.shape;
    descriptor.put(Descriptor { size: [width, height], format, channels });
    Ok(())
}

fn get_3d(call: &mut Call, descriptor: Out<Descriptor3d>, array: Handle) -> Outcome {
    let state = call.lock();
    let Shape { size, format, channels, flags } = state.arrays.arrays.get(array).ok_or(INVALID_HANDLE)?.shape;
    descriptor.put(Descriptor3d { size, format, channels, flags });
    Ok(())
}

fn destroy(call: &mut Call, array: Handle) -> Outcome {
    let mut state = call.lock();
    state.current()?;
    state.check_assumed_unsafe("free_in_capture")?;
    // A level is destroyed with its mipmapped array.
    let found = state.arrays.arrays.get(array).filter(|array| array.mipmap == 0).ok_or(INVALID_HANDLE)?;
    let (address, bytes) = (found.address, found.bytes);
    state.arrays.arrays.remove(array);
    state.unback(address);
    report_free(call, array, bytes, MemoryKind::Array, 0);
    Ok(())
}

/// Creates a mipmapped array. `own` says whether it allocates its memory itself.
pub fn new_mipmap(
    call: &Call,
    state: &mut Guard,
    descriptor: &Descriptor3d,
    levels: u32,
    own: bool,
) -> Outcome<Handle> {
    let shape = descriptor.shape();
    shape.check()?;
    let (context, device) = place(state)?;
    let levels = shape.levels(levels);
    let bytes = if own { (0..levels).map(|level| shape.level(level).bytes()).sum() } else { 0 };
    let address = state.back(device, bytes)?;
    let mipmap =
        state.arrays.mipmaps.insert(Mipmap { shape, context, device, bytes, address, levels: Vec::new() });
    let mut next = address;
    let arrays = (0..levels).map(|level| {
        let (shape, address) = (shape.level(level), next);
        next += if own { shape.bytes() } else { 0 };
        state.arrays.arrays.insert(Array { shape, context, device, bytes: 0, address, mipmap })
    });
    let arrays: Vec<_> = arrays.collect();
    state.arrays.mipmaps.get_mut(mipmap).ok_or(INVALID_HANDLE)?.levels = arrays;
    report_alloc(call, mipmap, bytes, MemoryKind::Array, 0);
    Ok(mipmap)
}

fn create_mipmap(call: &mut Call, mipmap: Out<Handle>, descriptor: In<Descriptor3d>, levels: u32) -> Outcome {
    let known = new_mipmap(call, &mut call.lock(), &descriptor, levels, true)?;
    mipmap.put(known);
    Ok(())
}

fn level(call: &mut Call, array: Out<Handle>, mipmap: Handle, level: u32) -> Outcome {
    let state = call.lock();
    let levels = &state.arrays.mipmaps.get(mipmap).ok_or(INVALID_HANDLE)?.levels;
    let known = *levels.get(level as usize).ok_or(INVALID_VALUE)?;
    array.put(known);
    Ok(())
}

fn destroy_mipmap(call: &mut Call, mipmap: Handle) -> Outcome {
    let mut state = call.lock();
    state.current()?;
    state.check_assumed_unsafe("free_in_capture")?;
    let Mipmap { address, bytes, levels, .. } = state.arrays.mipmaps.remove(mipmap).ok_or(INVALID_HANDLE)?;
    for level in levels {
        state.arrays.arrays.remove(level);
    }
    state.unback(address);
    report_free(call, mipmap, bytes, MemoryKind::Array, 0);
    Ok(())
}

impl State {
    /// Allocates an array's bytes, if it has any. The memory belongs to no context; the array does.
    fn back(&mut self, device: u32, bytes: u64) -> Outcome<u64> {
        if bytes == 0 {
            return Ok(0);
        }
        self.memory.allocate(Allocation::new(MemoryKind::Array, bytes, 0, device))
    }

    fn unback(&mut self, address: u64) {
        if let Some((_, Some(range))) = self.memory.remove(address) {
            effects::push(effects::Effect::Release(range));
        }
    }

    /// Destroys the arrays of a context that ends (cuda.h, cuCtxDestroy).
    pub fn end_arrays(&mut self, context: Handle) {
        let arrays = self.arrays.arrays.remove_where(|array| array.context == context);
        let arrays = arrays.into_iter().filter(|(_, array)| array.mipmap == 0);
        let mipmaps = self.arrays.mipmaps.remove_where(|mipmap| mipmap.context == context);
        let gone = arrays.map(|(handle, array)| (handle, array.address, array.bytes));
        let gone =
            gone.chain(mipmaps.into_iter().map(|(handle, mipmap)| (handle, mipmap.address, mipmap.bytes)));
        for (handle, address, bytes) in gone.collect::<Vec<_>>() {
            self.unback(address);
            report_gone(handle, bytes, MemoryKind::Array);
        }
    }
}
