//! Handles: opaque values that contain their kind, are checked on every use, and are reused after a destroy, as on the
//! real driver, or never (`SIMCUDA_HANDLES`).

/// A CUcontext, CUstream, CUevent, … as the application holds it.
pub type Handle = u64;

/// The kind of object that a handle names. The discriminant is part of the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Kind {
    Context = 1,
    Stream,
    Event,
    Module,
    Function,
    Library,
    Kernel,
    Pool,
    Graph,
    Node,
    GraphExec,
    Physical,
    Array,
    Mipmap,
    External,
    Link,
    UserObject,
    Green,
    Resources,
    Semaphore,
    Texture,
    Surface,
}

impl Kind {
    /// The first handle of a kind. It looks like a heap address, but is none.
    const fn base(self) -> Handle {
        0x5C00_0000_0000 + (self as u64) * DISTANCE
    }

    /// Whether a handle is of this kind, of an object that is live or was.
    const fn is_of(self, handle: Handle) -> bool {
        handle > self.base() && handle - self.base() < DISTANCE
    }
}

/// The distance between the handles of two kinds.
const DISTANCE: u64 = 0x100_0000_0000;

/// Handles the use of a destroyed object's handle: returns `error`, or aborts the process where `stale_handles` says so.
pub fn stale(error: i32, handle: Handle) -> i32 {
    let assume = &crate::config::config().assume;
    let is_crash = |what: &str| assume.is("stale_handles", what);
    if is_crash("crash") || is_crash("events") && Kind::Event.is_of(handle) {
        eprintln!("simcuda: {handle:#x} was used after its object was destroyed");
        std::process::abort();
    }
    error
}

/// The distance between two handles of a kind.
const STRIDE: u64 = 0x40;

/// The live objects of one kind.
#[derive(Debug)]
pub struct Table<T> {
    kind: Kind,
    slots: Vec<Option<T>>,
    free: Vec<usize>,
}

impl<T> Table<T> {
    /// Creates an empty table.
    pub const fn new(kind: Kind) -> Self {
        Self { kind, slots: Vec::new(), free: Vec::new() }
    }

    /// Adds an object. The handle that was freed last is reused first, unless no handle is ever reused.
    pub fn insert(&mut self, object: T) -> Handle {
        let freed = if crate::config::config().fresh_handles { None } else { self.free.pop() };
        let index = freed.unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        self.slots[index] = Some(object);
        self.kind.base() + (index as u64 + 1) * STRIDE
    }

    fn index(&self, handle: Handle) -> Option<usize> {
        let offset = handle.checked_sub(self.kind.base() + STRIDE)?;
        (offset % STRIDE == 0).then_some((offset / STRIDE) as usize)
    }

    /// Returns the object of a live handle.
    pub fn get(&self, handle: Handle) -> Option<&T> {
        self.slots.get(self.index(handle)?)?.as_ref()
    }

    /// Returns the object of a live handle.
    pub fn get_mut(&mut self, handle: Handle) -> Option<&mut T> {
        let index = self.index(handle)?;
        self.slots.get_mut(index)?.as_mut()
    }

    /// Removes a live object.
    pub fn remove(&mut self, handle: Handle) -> Option<T> {
        let index = self.index(handle)?;
        let object = self.slots.get_mut(index)?.take()?;
        self.free.push(index);
        Some(object)
    }

    /// Iterates over all live objects, mutably.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.slots.iter_mut().flatten()
    }

    /// Iterates over all live objects and their handles.
    pub fn iter(&self) -> impl Iterator<Item = (Handle, &T)> {
        let base = self.kind.base();
        let slots = self.slots.iter().enumerate();
        slots.filter_map(move |(index, slot)| Some((base + (index as u64 + 1) * STRIDE, slot.as_ref()?)))
    }

    /// Removes every live object for which `which` is true.
    pub fn remove_where(&mut self, which: impl Fn(&T) -> bool) -> Vec<(Handle, T)> {
        let handles: Vec<_> =
            self.iter().filter(|(_, object)| which(object)).map(|(handle, _)| handle).collect();
        handles.into_iter().filter_map(|handle| Some((handle, self.remove(handle)?))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_is_valid_while_its_object_lives_and_is_then_reused() {
        let mut table = Table::new(Kind::Stream);
        let (a, b) = (table.insert('a'), table.insert('b'));
        assert_eq!((table.get(a), table.get(b)), (Some(&'a'), Some(&'b')));
        assert_eq!((table.get(0), table.get(a + 1), table.get(b + STRIDE)), (None, None, None));
        assert_eq!(Table::<char>::new(Kind::Event).get(a), None);
        assert_eq!(table.remove(a), Some('a'));
        assert_eq!(table.get(a), None);
        assert_eq!(table.remove(a), None);
        assert_eq!(table.insert('c'), a);
        assert_eq!(table.remove_where(|&c| c == 'b'), [(b, 'b')]);
    }
}
