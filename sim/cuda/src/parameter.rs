//! The parameters of exported functions: pointers that the application passed, checked before the function runs.
//!
//! `exports!` calls [`Parameter::take`] for each parameter. That call is where the simulator starts to trust a pointer of
//! the application: the pointer is NULL, or valid as cuda.h requires until the call returns. A required pointer that is
//! NULL fails there with `CUDA_ERROR_INVALID_VALUE`, so a refused call has changed nothing. The functions themselves are
//! safe code, except where the size of what a pointer points to depends on more than the other parameters.
//!
//! The pointer types are not `Send`. The simulator's state is, so the compiler keeps pointers out of it, where they would
//! outlive their call.

use crate::api::managed::Location;
use crate::error::{INVALID_VALUE, Outcome};
use crate::imported::Exported;
use crate::interprocess::ExportedEvent;
use std::ffi::{CStr, c_char};
use std::ops::Deref;
use std::ptr::NonNull;

/// A parameter of an exported function, made of what C passes.
pub trait Parameter: Sized {
    /// The type that C passes.
    type Raw;

    /// Checks what the application passed. `count` is the number of elements of a list; other parameters ignore it.
    ///
    /// # Safety
    /// A pointer is NULL, or valid until the call returns in the way that the type implementing this trait says.
    unsafe fn take(raw: Self::Raw, count: usize) -> Outcome<Self>;
}

/// Implements [`Parameter`] for types that are passed as they are.
macro_rules! plain {
    ($($type:ty),+) => {
        $(impl Parameter for $type {
            type Raw = Self;

            unsafe fn take(raw: Self, _: usize) -> Outcome<Self> {
                Ok(raw)
            }
        })+
    };
}

plain!(u8, u16, u32, u64, usize, i32, Exported, ExportedEvent, Location);

/// A function of the application's, or NULL.
impl<F> Parameter for Option<F> {
    type Raw = Self;

    unsafe fn take(raw: Self, _: usize) -> Outcome<Self> {
        Ok(raw)
    }
}

/// A pointer that the simulator ignores, or that only the function itself can check: what it points to depends on more
/// than the other parameters.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct Pointer<T>(*const T);

impl<T> Pointer<T> {
    /// NULL.
    pub const NULL: Self = Self(std::ptr::null());

    /// Makes a pointer of the simulator's own.
    ///
    /// # Safety
    /// It points to what cuda.h says for its place, or is NULL.
    pub const unsafe fn new(pointer: *const T) -> Self {
        Self(pointer)
    }

    /// Whether it is NULL.
    pub fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// The address.
    pub fn as_ptr(self) -> *const T {
        self.0
    }

    /// The list that it points to, inside a structure that also has the number of its elements.
    ///
    /// # Safety
    /// It is valid for reads of `count` elements, or NULL.
    pub unsafe fn list(self, count: usize) -> Outcome<Slice<T>> {
        // SAFETY: the caller's.
        unsafe { Slice::take(self.0, count) }
    }
}

impl<T> Parameter for Pointer<T> {
    type Raw = *const T;

    unsafe fn take(raw: *const T, _: usize) -> Outcome<Self> {
        Ok(Self(raw))
    }
}

/// A required place for a result: not NULL, and valid for a write.
#[derive(Debug)]
pub struct Out<T>(NonNull<T>);

impl<T> Out<T> {
    /// Writes the result.
    pub fn put(self, value: T) {
        // SAFETY: `take`: valid for a write.
        unsafe { self.0.write(value) };
    }

    /// The place itself, where the result's size depends on other parameters.
    pub fn as_ptr(self) -> *mut T {
        self.0.as_ptr()
    }
}

impl<T> Clone for Out<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Out<T> {}

impl<T> Parameter for Out<T> {
    type Raw = *mut T;

    unsafe fn take(raw: *mut T, _: usize) -> Outcome<Self> {
        NonNull::new(raw).map(Self).ok_or(INVALID_VALUE)
    }
}

/// An optional place for a result: NULL, or valid for a write.
#[derive(Debug)]
pub struct Maybe<T>(Option<NonNull<T>>);

impl<T> Maybe<T> {
    /// No place: what an older version of a function has in the place of a newer one's parameter.
    pub const NONE: Self = Self(None);

    /// Writes the result where there is a place for it.
    pub fn put(self, value: T) {
        if let Some(place) = self.0 {
            // SAFETY: `take`: valid for a write.
            unsafe { place.write(value) };
        }
    }
}

impl<T> Clone for Maybe<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Maybe<T> {}

impl<T> From<Out<T>> for Maybe<T> {
    fn from(place: Out<T>) -> Self {
        Self(Some(place.0))
    }
}

impl<T> Parameter for Maybe<T> {
    type Raw = *mut T;

    unsafe fn take(raw: *mut T, _: usize) -> Outcome<Self> {
        Ok(Self(NonNull::new(raw)))
    }
}

/// A required value that the function reads and replaces: not NULL, and valid for both.
#[derive(Debug)]
pub struct InOut<T>(NonNull<T>);

impl<T: Copy> InOut<T> {
    /// Reads the value.
    pub fn get(self) -> T {
        // SAFETY: `take`: valid for a read.
        unsafe { self.0.read() }
    }

    /// The value's address.
    pub fn as_ptr(self) -> *const T {
        self.0.as_ptr()
    }

    /// Replaces the value.
    pub fn put(self, value: T) {
        // SAFETY: `take`: valid for a write.
        unsafe { self.0.write(value) };
    }
}

impl<T> Clone for InOut<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for InOut<T> {}

impl<T> Parameter for InOut<T> {
    type Raw = *mut T;

    unsafe fn take(raw: *mut T, _: usize) -> Outcome<Self> {
        NonNull::new(raw).map(Self).ok_or(INVALID_VALUE)
    }
}

/// A required structure: not NULL, and valid for reads.
#[derive(Debug)]
pub struct In<T>(NonNull<T>);

impl<T> In<T> {
    /// The structure's address, where what the function reads depends on other parameters.
    pub fn as_ptr(self) -> *const T {
        self.0.as_ptr()
    }
}

impl<T> Deref for In<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: `take`: valid for reads.
        unsafe { self.0.as_ref() }
    }
}

impl<T> Clone for In<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for In<T> {}

impl<T> Parameter for In<T> {
    type Raw = *const T;

    unsafe fn take(raw: *const T, _: usize) -> Outcome<Self> {
        NonNull::new(raw.cast_mut()).map(Self).ok_or(INVALID_VALUE)
    }
}

/// An optional structure: NULL, or valid for reads.
#[derive(Debug)]
pub struct MaybeIn<T>(Option<In<T>>);

impl<T> MaybeIn<T> {
    /// The structure, where there is one.
    pub fn get(&self) -> Option<&T> {
        self.0.as_deref()
    }
}

impl<T> Clone for MaybeIn<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for MaybeIn<T> {}

impl<T> Parameter for MaybeIn<T> {
    type Raw = *const T;

    unsafe fn take(raw: *const T, _: usize) -> Outcome<Self> {
        Ok(Self(NonNull::new(raw.cast_mut()).map(In)))
    }
}

/// A required C string in UTF-8.
#[derive(Clone, Copy, Debug)]
pub struct Text(NonNull<str>);

impl Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        // SAFETY: `take`: valid for reads.
        unsafe { self.0.as_ref() }
    }
}

impl Parameter for Text {
    type Raw = *const c_char;

    unsafe fn take(raw: *const c_char, _: usize) -> Outcome<Self> {
        if raw.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: the caller's: a terminated string.
        let text = unsafe { CStr::from_ptr(raw) };
        text.to_str().map(|text| Self(text.into())).map_err(|_| INVALID_VALUE)
    }
}

/// A list that the application passed; `exports!` says which parameter counts its elements. NULL is an empty list's, or an
/// error.
#[derive(Debug)]
pub struct Slice<T>(NonNull<[T]>);

impl<T> Deref for Slice<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: `take`: valid for reads of all elements.
        unsafe { self.0.as_ref() }
    }
}

impl<T> Clone for Slice<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Slice<T> {}

impl<T> Parameter for Slice<T> {
    type Raw = *const T;

    unsafe fn take(raw: *const T, count: usize) -> Outcome<Self> {
        let first = match count {
            0 => NonNull::dangling(),
            _ => NonNull::new(raw.cast_mut()).ok_or(INVALID_VALUE)?,
        };
        Ok(Self(NonNull::slice_from_raw_parts(first, count)))
    }
}

/// A list that the application may leave out.
#[derive(Debug)]
pub struct MaybeSlice<T>(Option<Slice<T>>);

impl<T> MaybeSlice<T> {
    /// No list.
    pub const NONE: Self = Self(None);

    /// The list, where there is one.
    pub fn get(&self) -> Option<&[T]> {
        self.0.as_deref()
    }
}

impl<T> Clone for MaybeSlice<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for MaybeSlice<T> {}

impl<T> Parameter for MaybeSlice<T> {
    type Raw = *const T;

    unsafe fn take(raw: *const T, count: usize) -> Outcome<Self> {
        if raw.is_null() {
            return Ok(Self(None));
        }
        // SAFETY: the caller's.
        unsafe { Slice::take(raw, count) }.map(|list| Self(Some(list)))
    }
}

/// Room for a list of results; `exports!` says which parameter counts its elements. NULL is for none, or an error.
#[derive(Debug)]
pub struct Room<T>(NonNull<[T]>);

impl<T> Room<T> {
    /// The number of elements that fit.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Writes one element.
    pub fn put(&self, index: usize, value: T) {
        assert!(index < self.count(), "element {index} of {}", self.count());
        // SAFETY: `take`: valid for a write of each element, and `index` is one's.
        unsafe { self.0.cast::<T>().add(index).write(value) };
    }
}

impl Room<c_char> {
    /// Writes a text and its NUL, cut where it does not fit.
    pub fn put_text(&self, text: &str) -> Outcome {
        let length = text.len().min(self.count().checked_sub(1).ok_or(INVALID_VALUE)?);
        for (index, &byte) in text.as_bytes()[..length].iter().enumerate() {
            self.put(index, byte as c_char);
        }
        self.put(length, 0);
        Ok(())
    }
}

impl<T> Clone for Room<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Room<T> {}

impl<T> Parameter for Room<T> {
    type Raw = *mut T;

    unsafe fn take(raw: *mut T, count: usize) -> Outcome<Self> {
        let first = match count {
            0 => NonNull::dangling(),
            _ => NonNull::new(raw).ok_or(INVALID_VALUE)?,
        };
        Ok(Self(NonNull::slice_from_raw_parts(first, count)))
    }
}

/// Room for a list of results whose length the function finds in memory, or NULL.
#[derive(Debug)]
pub struct Rows<T>(*mut T);

impl<T> Rows<T> {
    /// No room.
    pub const NONE: Self = Self(std::ptr::null_mut());

    /// Whether the application left it out.
    pub fn is_none(self) -> bool {
        self.0.is_null()
    }

    /// Writes one element.
    ///
    /// # Safety
    /// The application did not leave the list out, and it has room for more than `index` elements.
    pub unsafe fn put(self, index: usize, value: T) {
        // SAFETY: the caller's.
        unsafe { self.0.add(index).write(value) };
    }
}

impl<T> Clone for Rows<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Rows<T> {}

impl<T> Parameter for Rows<T> {
    type Raw = *mut T;

    unsafe fn take(raw: *mut T, _: usize) -> Outcome<Self> {
        Ok(Self(raw))
    }
}
