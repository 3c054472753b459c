//! Calls that load code or unload it, and that give out handles of what can be launched.

use core::cell::Cell;
use core::ffi::CStr;

use crate::calls::{Plain, written};
use crate::cuda::*;
use crate::driver::{self, Form};
use crate::facts::Facts;
use crate::names::Names;
use crate::thread::Call;

/// A loading call that tells a function's name.
pub struct FunctionNamed {
    pub out: *mut CUfunction,
    pub name: *const char_t,
    /// The CUmodule or CUlibrary that it lies in.
    pub owner: *mut void,
    /// What the handle is.
    pub form: Form,
}

impl Plain for FunctionNamed {
    const TELLS_KINDS: bool = true;

    fn tell_kinds(&self, names: &Names) {
        if let Some(function) = written(self.out) {
            names.tell(function, self.owner as u64, self.form);
        }
    }

    fn after(&self, call: &Call, _: u64) -> bool {
        self.labelled(call);
        false
    }

    /// Whichever calls the runtime made inside: the one that told may be of those that no hook sees.
    fn labelled(&self, call: &Call) {
        if let Some(function) = written(self.out)
            && !self.name.is_null()
        {
            // SAFETY: the call succeeded by this terminated name.
            let name = unsafe { CStr::from_ptr(self.name) }.to_bytes();
            call.session.get::<Names>().learn(call, function, name, self.owner as u64, self.form);
        }
    }
}

/// A call that gives out all functions of a module, or all kernels of a library, without their names.
pub struct Enumerated {
    pub out: *mut CUfunction,
    /// Places that the app has for them.
    pub room: u32,
    /// The CUmodule or CUlibrary.
    pub owner: *mut void,
    /// What the handles are.
    pub form: Form,
}

impl Plain for Enumerated {
    const TELLS_KINDS: bool = true;

    fn after(&self, call: &Call, _: u64) -> bool {
        self.labelled(call);
        false
    }

    fn labelled(&self, call: &Call) {
        self.tell_kinds(call.session.get::<Names>());
    }

    fn tell_kinds(&self, names: &Names) {
        // What lies behind the last one is the app's, as it was.
        let count = driver::driver().map_or(0, |driver| driver.count_of(self.owner, self.form));
        if self.out.is_null() {
            return;
        }
        for index in 0..count.min(self.room as usize) {
            // SAFETY: the app's array, in which the call has written as many handles as there are, or as have room.
            let handle = unsafe { self.out.add(index).read_unaligned() };
            names.tell(handle, self.owner as u64, self.form);
        }
    }

    fn subject(&self) -> u64 {
        self.owner as u64
    }
}

/// A call of the runtime's that gives out the handle of a kernel that it knows by a host address.
pub struct HandleGiven {
    pub out: *mut CUfunction,
    /// What the handle is.
    pub form: Form,
}

impl Plain for HandleGiven {
    const TELLS_KINDS: bool = true;

    fn after(&self, call: &Call, _: u64) -> bool {
        self.labelled(call);
        false
    }

    fn labelled(&self, call: &Call) {
        self.tell_kinds(call.session.get::<Names>());
    }

    fn tell_kinds(&self, names: &Names) {
        if let Some(handle) = written(self.out) {
            names.tell(handle, 0, self.form);
        }
    }
}

/// A module or library comes.
pub struct Load {
    out: *mut *mut void,
    /// Which; 0 = none came.
    owner: Cell<u64>,
}

impl Load {
    /// To be written there.
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

    /// The app asked the runtime for it: the app is who brought the kernels.
    fn labelled(&self, call: &Call) {
        if let Some(owner) = written(self.out) {
            call.session.get::<Facts>().loaded(call, owner as u64);
        }
    }

    fn subject(&self) -> u64 {
        self.owner.get()
    }
}

/// A module or library goes, and its functions with it: their handles may come back as others'.
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

/// A CUfunction got from a CUkernel.
pub struct FunctionOfKernel {
    pub out: *mut CUfunction,
    pub kernel: CUkernel,
}

impl Plain for FunctionOfKernel {
    const TELLS_KINDS: bool = true;

    fn tell_kinds(&self, names: &Names) {
        names.tell(self.kernel, 0, Form::Kernel);
        if let Some(function) = written(self.out) {
            names.tell(function, 0, Form::Function);
        }
    }

    fn after(&self, call: &Call, _: u64) -> bool {
        if let Some(function) = written(self.out) {
            call.session.get::<Names>().learn_same(call, function, self.kernel);
        }
        false
    }
}
