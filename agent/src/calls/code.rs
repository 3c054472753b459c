//! How are the calls recorded that load or unload code, and that return handles of what can be launched?

use core::cell::Cell;
use core::ffi::CStr;

use crate::calls::{Plain, written};
use crate::cuda::*;
use crate::driver::{self, Form};
use crate::facts::Facts;
use crate::names::Names;
use crate::thread::Call;

/// A loading call that names a function.
pub struct FunctionNamed {
    pub out: *mut CUfunction,
    pub name: *const char_t,
    /// The CUmodule or CUlibrary that contains the function.
    pub owner: *mut void,
    /// What the handle is.
    pub form: Form,
}

impl Plain for FunctionNamed {
    const REGISTERS_KINDS: bool = true;

    fn register_kinds(&self, names: &Names) {
        if let Some(function) = written(self.out) {
            names.note_handle(function, self.owner as u64, self.form);
        }
    }

    fn after(&self, call: &Call, _: u64) -> bool {
        self.after_labelled(call);
        false
    }

    /// Needed in the runtime layer, too: the driver call inside that named the function may be one without a
    /// hook.
    fn after_labelled(&self, call: &Call) {
        if let Some(function) = written(self.out)
            && !self.name.is_null()
        {
            // SAFETY: the call succeeded with this terminated name.
            let name = unsafe { CStr::from_ptr(self.name) }.to_bytes();
            call.session.get::<Names>().learn(call, function, name, self.owner as u64, self.form);
        }
    }
}

/// A call that returns all functions of a module, or all kernels of a library, without their names.
pub struct Enumerated {
    pub out: *mut CUfunction,
    /// The number of handles that the app's array has room for.
    pub room: u32,
    /// The CUmodule or CUlibrary.
    pub owner: *mut void,
    /// What the handles are.
    pub form: Form,
}

impl Plain for Enumerated {
    const REGISTERS_KINDS: bool = true;

    fn after(&self, call: &Call, _: u64) -> bool {
        self.after_labelled(call);
        false
    }

    fn after_labelled(&self, call: &Call) {
        self.register_kinds(call.session.get::<Names>());
    }

    fn register_kinds(&self, names: &Names) {
        // The array's elements after the last handle are left as they are.
        let count = driver::driver().map_or(0, |driver| driver.count_of(self.owner, self.form));
        if self.out.is_null() {
            return;
        }
        for index in 0..count.min(self.room as usize) {
            // SAFETY: the app's array, in which the call has written as many handles as there are, or as fit.
            let handle = unsafe { self.out.add(index).read_unaligned() };
            names.note_handle(handle, self.owner as u64, self.form);
        }
    }

    fn subject(&self) -> u64 {
        self.owner as u64
    }
}

/// A runtime call that returns the handle of a kernel that it knows by a host address.
pub struct HandleGiven {
    pub out: *mut CUfunction,
    /// What the handle is.
    pub form: Form,
}

impl Plain for HandleGiven {
    const REGISTERS_KINDS: bool = true;

    fn after(&self, call: &Call, _: u64) -> bool {
        self.after_labelled(call);
        false
    }

    fn after_labelled(&self, call: &Call) {
        self.register_kinds(call.session.get::<Names>());
    }

    fn register_kinds(&self, names: &Names) {
        if let Some(handle) = written(self.out) {
            names.note_handle(handle, 0, self.form);
        }
    }
}

/// A call that loads a module or library.
pub struct Load {
    out: *mut *mut void,
    /// The loaded module or library; 0 = none.
    owner: Cell<u64>,
}

impl Load {
    /// A load that writes its handle to `out`.
    pub fn of(out: *mut *mut void) -> Load {
        Load { out, owner: Cell::new(0) }
    }
}

impl Plain for Load {
    fn after(&self, call: &Call, _: u64) -> bool {
        let owner = written(self.out).map_or(0, |owner| owner as u64);
        self.owner.set(owner);
        call.session.get::<Facts>().loaded(call, owner);
        false
    }

    /// The app called the runtime for it, so the app is the origin of the kernels.
    fn after_labelled(&self, call: &Call) {
        if let Some(owner) = written(self.out) {
            call.session.get::<Facts>().loaded(call, owner as u64);
        }
    }

    fn subject(&self) -> u64 {
        self.owner.get()
    }
}

/// A call that unloads a module or library, and its functions with it: their handles may come back as
/// others'.
pub struct Unload {
    pub owner: *mut void,
}

impl Plain for Unload {
    fn before(&self, call: &Call) {
        call.session.get::<Names>().forget(self.owner as u64);
    }

    fn subject(&self) -> u64 {
        self.owner as u64
    }
}

/// A call that returns a CUfunction for a CUkernel.
pub struct FunctionOfKernel {
    pub out: *mut CUfunction,
    pub kernel: CUkernel,
}

impl Plain for FunctionOfKernel {
    const REGISTERS_KINDS: bool = true;

    fn register_kinds(&self, names: &Names) {
        names.note_handle(self.kernel, 0, Form::Kernel);
        if let Some(function) = written(self.out) {
            names.note_handle(function, 0, Form::Function);
        }
    }

    fn after(&self, call: &Call, _: u64) -> bool {
        if let Some(function) = written(self.out) {
            call.session.get::<Names>().learn_same(call, function, self.kernel);
        }
        false
    }
}
