//! Textures and surfaces, through which a kernel reads and writes memory. They describe memory and allocate none.

use super::device::{ordinal, texture_limits};
use crate::call::Call;
use crate::error::{INVALID_VALUE, Outcome};
use crate::export::exports;
use crate::handle::{Handle, Kind, Table};
use crate::parameter::{In, MaybeIn, Out};
use crate::state::State;

exports! {
    cuTexObjectCreate => create(texture: Out<u64>, resource: In<Resource>, sampling: In<Sampling>, view: MaybeIn<View>);
    cuTexObjectDestroy => destroy(texture: u64);
    cuTexObjectGetResourceDesc => get_resource(resource: Out<Resource>, texture: u64);
    cuTexObjectGetTextureDesc => get_sampling(sampling: Out<Sampling>, texture: u64);
    cuTexObjectGetResourceViewDesc => get_view(view: Out<View>, texture: u64);
    cuSurfObjectCreate => create_surface(surface: Out<u64>, resource: In<Resource>);
    cuSurfObjectDestroy => destroy_surface(surface: u64);
    cuSurfObjectGetResourceDesc => get_surface(resource: Out<Resource>, surface: u64);
    cuDeviceGetTexture1DLinearMaxWidth => linear_width(width: Out<usize>, format: u32, channels: u32, device: i32);
}

/// `CUDA_RESOURCE_DESC` of cuda.h: a type and a union.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Resource {
    kind: u32,
    /// An array, a mipmapped array, or an address.
    of: u64,
    format: u32,
    channels: u32,
    /// Linear memory: bytes; pitched: width, height and pitch.
    size: [u64; 3],
    rest: [u64; 11],
    flags: u32,
}

/// `CUDA_TEXTURE_DESC` of cuda.h.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Sampling {
    address_modes: [u32; 3],
    filter: u32,
    flags: u32,
    anisotropy: u32,
    mipmap_filter: u32,
    /// The bias, clamps and the border's colour.
    numbers: [f32; 7],
    reserved: [u32; 12],
}

/// `CUDA_RESOURCE_VIEW_DESC` of cuda.h.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct View {
    format: u32,
    size: [u64; 3],
    levels: [u32; 2],
    layers: [u32; 2],
    reserved: [u32; 16],
}

const _: () =
    assert!(size_of::<Resource>() == 144 && size_of::<Sampling>() == 104 && size_of::<View>() == 112);

/// `CUresourcetype`.
const ARRAY: u32 = 0;
const MIPMAPPED: u32 = 1;
const LINEAR: u32 = 2;
const PITCHED: u32 = 3;

/// Flags of `CUDA_TEXTURE_DESC`, `CU_TRSF_…`: all of them, and two that have conditions.
const FLAGS: u32 = 0x73;
const NORMALIZED_COORDINATES: u32 = 2;
const SEAMLESS_CUBEMAP: u32 = 0x40;
/// `CUDA_ARRAY3D_CUBEMAP` and `CUDA_ARRAY3D_SURFACE_LDST`.
const CUBEMAP: u32 = 4;
const SURFACE: u32 = 2;
/// The last `CUresourceViewFormat` that is not block-compressed.
const LAST_PLAIN_VIEW: u32 = 0x1b;
const LAST_VIEW: u32 = 0x22;

/// A texture.
#[derive(Clone, Copy, Debug)]
struct Texture {
    context: Handle,
    resource: Resource,
    sampling: Sampling,
    view: Option<View>,
}

/// All textures and surfaces.
#[derive(Debug)]
pub struct Textures {
    textures: Table<Texture>,
    surfaces: Table<(Handle, Resource)>,
}

impl Default for Textures {
    fn default() -> Self {
        Self { textures: Table::new(Kind::Texture), surfaces: Table::new(Kind::Surface) }
    }
}

impl Textures {
    /// Destroys the textures and surfaces of a context that ends.
    pub fn end(&mut self, context: Handle) {
        self.textures.remove_where(|texture| texture.context == context);
        self.surfaces.remove_where(|(of, _)| *of == context);
    }
}

impl Resource {
    /// Returns the bytes of an element of linear or pitched memory.
    fn element(&self) -> Outcome<u64> {
        let channel = match self.format {
            0x01 | 0x08 => 1,
            0x02 | 0x09 | 0x10 => 2,
            0x03 | 0x0a | 0x20 => 4,
            _ => return Err(INVALID_VALUE),
        };
        if matches!(self.channels, 1 | 2 | 4) {
            Ok(channel * u64::from(self.channels))
        } else {
            Err(INVALID_VALUE)
        }
    }

    /// Checks the rules of cuda.h, cuTexObjectCreate, except those for sampling; returns the flags of the array, if it
    /// is one.
    fn check(&self, state: &State) -> Outcome<u32> {
        if self.flags != 0 {
            return Err(INVALID_VALUE);
        }
        let limits = texture_limits();
        let [first, height, pitch] = self.size;
        let (bytes, fits) = match self.kind {
            ARRAY => {
                return state.arrays.arrays.get(self.of).map(|array| array.shape.flags).ok_or(INVALID_VALUE);
            }
            MIPMAPPED => {
                return state
                    .arrays
                    .mipmaps
                    .get(self.of)
                    .map(|mipmap| mipmap.shape.flags)
                    .ok_or(INVALID_VALUE);
            }
            LINEAR => (first, first / self.element()? <= limits.linear),
            PITCHED => {
                let row = first.checked_mul(self.element()?).ok_or(INVALID_VALUE)?;
                let whole = row <= pitch && pitch.is_multiple_of(limits.pitch_alignment) && height > 0;
                let fits =
                    first <= limits.pitched[0] && height <= limits.pitched[1] && pitch <= limits.pitched[2];
                (height.saturating_sub(1).saturating_mul(pitch).saturating_add(row), whole && fits)
            }
            _ => return Err(INVALID_VALUE),
        };
        let aligned = self.of.is_multiple_of(limits.alignment);
        if fits && aligned && bytes > 0 && state.memory.covers(self.of, bytes) {
            Ok(0)
        } else {
            Err(INVALID_VALUE)
        }
    }
}

impl Sampling {
    /// Checks the rules of cuda.h, cuTexObjectCreate. cuda.h also says that coordinates that are not normalized are
    /// only clamped; but programs leave the mode at zero, which is wrap, and no document mentions an error.
    fn check(&self, resource: &Resource, array_flags: u32) -> Outcome {
        let modes =
            self.address_modes.iter().all(|mode| *mode <= 3) && self.filter <= 1 && self.mipmap_filter <= 1;
        let known = self.flags & !FLAGS == 0;
        let normalized = resource.kind != MIPMAPPED || self.flags & NORMALIZED_COORDINATES != 0;
        let seamless = self.flags & SEAMLESS_CUBEMAP == 0 || array_flags & CUBEMAP != 0;
        if modes && known && normalized && seamless { Ok(()) } else { Err(INVALID_VALUE) }
    }
}

impl View {
    /// Checks the rules of cuda.h, cuTexObjectCreate: the size is the array's, or four times that if blocks are read as
    /// texels; levels and layers must exist.
    fn check(&self, state: &State, resource: &Resource) -> Outcome {
        let (shape, levels) = match resource.kind {
            ARRAY => (state.arrays.arrays.get(resource.of).map(|array| array.shape), 1),
            MIPMAPPED => {
                let mipmap = state.arrays.mipmaps.get(resource.of);
                (mipmap.map(|mipmap| mipmap.shape), mipmap.map_or(0, |mipmap| mipmap.levels.len()))
            }
            _ => return Err(INVALID_VALUE),
        };
        let shape = shape.ok_or(INVALID_VALUE)?;
        let [width, height, depth] = shape.size;
        let times = if self.format > LAST_PLAIN_VIEW { 4 } else { 1 };
        let size = self.size == [width * times, height * times, depth];
        let levels = self.levels[0] <= self.levels[1] && (self.levels[1] as usize) < levels;
        let layers = self.layers[0] <= self.layers[1] && u64::from(self.layers[1]) < depth.max(1);
        if size && levels && layers && self.format <= LAST_VIEW { Ok(()) } else { Err(INVALID_VALUE) }
    }
}

fn create(
    call: &mut Call,
    texture: Out<u64>,
    resource: In<Resource>,
    sampling: In<Sampling>,
    view: MaybeIn<View>,
) -> Outcome {
    let (resource, sampling, view) = (*resource, *sampling, view.get());
    let mut state = call.lock();
    let context = state.current()?;
    sampling.check(&resource, resource.check(&state)?)?;
    view.map_or(Ok(()), |view| view.check(&state, &resource))?;
    let known = state.textures.textures.insert(Texture { context, resource, sampling, view: view.copied() });
    texture.put(known);
    Ok(())
}

fn destroy(call: &mut Call, texture: u64) -> Outcome {
    let mut state = call.lock();
    state.current()?;
    state.textures.textures.remove(texture).map(|_| ()).ok_or(INVALID_VALUE)
}

fn known(call: &Call, texture: u64) -> Outcome<Texture> {
    let state = call.lock();
    state.current()?;
    state.textures.textures.get(texture).copied().ok_or(INVALID_VALUE)
}

fn get_resource(call: &mut Call, resource: Out<Resource>, texture: u64) -> Outcome {
    let known = known(call, texture)?;
    resource.put(known.resource);
    Ok(())
}

fn get_sampling(call: &mut Call, sampling: Out<Sampling>, texture: u64) -> Outcome {
    let known = known(call, texture)?;
    sampling.put(known.sampling);
    Ok(())
}

/// cuda.h: it is an error if the texture has no view.
fn get_view(call: &mut Call, view: Out<View>, texture: u64) -> Outcome {
    let known = known(call, texture)?.view.ok_or(INVALID_VALUE)?;
    view.put(known);
    Ok(())
}

/// Creates a surface of an array, which must allow it (cuda.h, CUDA_ARRAY3D_SURFACE_LDST).
fn create_surface(call: &mut Call, surface: Out<u64>, resource: In<Resource>) -> Outcome {
    let resource = *resource;
    if resource.kind != ARRAY {
        return Err(INVALID_VALUE);
    }
    let mut state = call.lock();
    let context = state.current()?;
    if resource.check(&state)? & SURFACE == 0 {
        return Err(INVALID_VALUE);
    }
    let known = state.textures.surfaces.insert((context, resource));
    surface.put(known);
    Ok(())
}

fn destroy_surface(call: &mut Call, surface: u64) -> Outcome {
    let mut state = call.lock();
    state.current()?;
    state.textures.surfaces.remove(surface).map(|_| ()).ok_or(INVALID_VALUE)
}

fn get_surface(call: &mut Call, resource: Out<Resource>, surface: u64) -> Outcome {
    let state = call.lock();
    state.current()?;
    let (_, known) = *state.textures.surfaces.get(surface).ok_or(INVALID_VALUE)?;
    resource.put(known);
    Ok(())
}

fn linear_width(_: &mut Call, width: Out<usize>, format: u32, channels: u32, device: i32) -> Outcome {
    ordinal(device)?;
    let of = Resource { kind: LINEAR, of: 0, format, channels, size: [0; 3], rest: [0; 11], flags: 0 };
    of.element()?;
    width.put(texture_limits().linear as usize);
    Ok(())
}
