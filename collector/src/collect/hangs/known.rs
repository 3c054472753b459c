//! What are the numbers called that a hang contains, and which file does a call come from? Needed while the trace is
//! being written; a reader of the trace knows it from there.

use crate::trace::record::{Module, Names};
use gpuspy_wire::record::Namespace;
use std::collections::BTreeMap;

/// Limit on the bytes of names that are kept; further ones are unknown. PyTorch's 2000 kernels have 1 MB of names.
const NAMES: usize = 16 << 20;
/// The cost of a name besides its text, bytes.
const OVERHEAD: usize = 64;
/// Limit on the mappings; programs have thousands at most.
const MODULES: usize = 1 << 16;

/// Names, and executable mappings.
#[derive(Debug)]
pub(super) struct Known {
    /// Of kernels, functions and files.
    pub(super) names: Names,
    left: usize,
    /// First address → first address after the mapping, and the file. Where mappings overlap, the later one counts.
    modules: BTreeMap<u64, (u64, u32)>,
}

impl Default for Known {
    fn default() -> Known {
        Known { names: Names::default(), left: NAMES, modules: BTreeMap::new() }
    }
}

impl Known {
    /// Takes a name, if it is of a kind that a hang contains.
    pub(super) fn name(&mut self, namespace: Namespace, id: u32, text: &str) {
        let is_used = matches!(namespace, Namespace::Kernel | Namespace::Api | Namespace::Path);
        let cost = text.len() + OVERHEAD;
        if is_used && cost <= self.left {
            self.left -= cost;
            self.names.0.insert((namespace, id), text.to_owned());
        }
    }

    /// Takes a mapping.
    pub(super) fn module(&mut self, module: &Module) {
        if self.modules.len() < MODULES {
            self.modules.insert(module.start, (module.end, module.path));
        }
    }

    /// Returns the file that an address lies in; 0 = unknown.
    pub(super) fn file(&self, address: u64) -> u32 {
        let module = self.modules.range(..=address).next_back();
        module.filter(|(_, (end, _))| address < *end).map_or(0, |(_, (_, path))| *path)
    }
}
