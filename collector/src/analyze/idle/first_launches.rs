//! Which launches load code? With lazy loading, the default since CUDA 12.2, a kernel's code is loaded when it is launched for the first
//! time (CUDA C++ Programming Guide, "Lazy Loading").

use super::LONG;
use crate::hash::HashMap;
use crate::model::{Action, Event, When};

/// The kernels that a process has launched.
#[derive(Debug, Default)]
pub struct FirstLaunches {
    /// By context and name, how many modules had been loaded at the latest launch.
    launched: HashMap<(u32, u32), u64>,
    modules: u64,
}

impl FirstLaunches {
    /// Notes that a module has been loaded.
    pub fn module_loaded(&mut self) {
        self.modules += 1;
    }

    /// Whether an event is a launch that loads code: the first one of its kernel, or the first one since a module was loaded if it takes
    /// [long](LONG): the kernel may be another one of the same name.
    pub fn loads(&mut self, event: &Event<'_>) -> bool {
        let Some(operation) = event.operation.as_ref().filter(|operation| operation.when != When::Captured)
        else {
            return false;
        };
        let Action::Kernel { name, .. } = operation.what else { return false };
        let is_long = operation.returned.saturating_sub(operation.called) >= LONG;
        match self.launched.insert((operation.context, name), self.modules) {
            None => true,
            Some(modules) => modules < self.modules && is_long,
        }
    }
}
