//! What does the driver say about kernels in the shapes in which they were launched, and which call loaded their
//! modules?

use crate::hash::{HashMap, HashSet};
use crate::trace::record::{Api, KernelFacts, Names};
use gpuspy_wire::record::Namespace;

/// Limit on the shapes of all kernels: more than an agent queries.
const MOST_SHAPES: usize = 1 << 16;
/// Limit on the modules.
const MOST_MODULES: usize = 1 << 16;

/// The shape of a launch: what determines how many of its blocks fit on a multiprocessor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shape {
    /// In [`Namespace::Kernel`].
    pub kernel: u32,
    /// The context.
    pub context: u32,
    /// Threads per block.
    pub threads: u32,
    /// Dynamic shared memory per block, bytes.
    pub shared_bytes: u32,
}

impl Shape {
    /// The shape of a launch with blocks of these dimensions.
    pub fn of(kernel: u32, context: u32, block: [u32; 3], shared_bytes: u32) -> Shape {
        let threads = block.into_iter().fold(1u32, u32::saturating_mul);
        Shape { kernel, context, threads, shared_bytes }
    }
}

/// What is known about a kernel in a shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// The driver's latest answer.
    pub facts: KernelFacts,
    /// The call that loaded its module, if it was recorded.
    pub loaded_by: Option<Load>,
}

/// A call that loaded a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// In [`Namespace::Api`].
    pub api: u16,
    /// Its return address.
    pub caller: u64,
}

/// What is known about all kernels.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    known: HashMap<Shape, Known>,
    /// The modules and libraries that are loaded.
    modules: HashMap<u64, Load>,
    loading: HashSet<u16>,
    unloading: HashSet<u16>,
}

impl Facts {
    /// Starts with a trace's names and no facts.
    pub fn new(names: &Names) -> Facts {
        let apis = |is_one: fn(&str) -> bool| {
            let apis = names.0.iter().filter(|((space, _), name)| *space == Namespace::Api && is_one(name));
            apis.filter_map(|((_, id), _)| u16::try_from(*id).ok()).collect()
        };
        Facts {
            loading: apis(|name| {
                ["cuModuleLoad", "cuLibraryLoad", "cudaLibraryLoad"]
                    .iter()
                    .any(|start| name.starts_with(start))
            }),
            unloading: apis(|name| {
                ["cuModuleUnload", "cuLibraryUnload", "cudaLibraryUnload"].contains(&name)
            }),
            ..Facts::default()
        }
    }

    /// Takes the end of a call; remembers modules that it loads.
    pub fn called(&mut self, api: &Api) {
        if api.result != 0 || api.subject == 0 {
            return;
        }
        if self.unloading.contains(&api.call.api) {
            self.modules.remove(&api.subject);
        } else if self.loading.contains(&api.call.api) && self.modules.len() < MOST_MODULES {
            self.modules.insert(api.subject, Load { api: api.call.api, caller: api.call.caller });
        }
    }

    /// Takes an answer of the driver.
    pub fn add(&mut self, facts: &KernelFacts) {
        let KernelFacts { kernel, context, threads, shared_bytes, .. } = *facts;
        let shape = Shape { kernel, context, threads, shared_bytes };
        if self.known.len() < MOST_SHAPES || self.known.contains_key(&shape) {
            let loaded_by = self.modules.get(&facts.module).copied();
            self.known.insert(shape, Known { facts: facts.clone(), loaded_by });
        }
    }

    /// What is known about a shape.
    pub fn of(&self, shape: &Shape) -> Option<&Known> {
        self.known.get(shape)
    }

    /// All shapes with what is known about them.
    pub fn all(&self) -> impl Iterator<Item = (&Shape, &Known)> {
        self.known.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::record::Call;

    #[test]
    fn the_latest_facts_count_and_a_module_belongs_to_its_latest_loader() {
        let apis =
            [(1, "cuModuleLoadData"), (2, "cuLibraryLoadData"), (3, "cuModuleUnload"), (4, "cuMemAlloc")];
        let names = Names(apis.map(|(id, name)| ((Namespace::Api, id), name.to_owned())).into());
        let mut facts = Facts::new(&names);
        let call = |api, subject, result| Api {
            call: Call { api, ..Call::default() },
            result,
            subject,
            calls: 1,
            inside: 0,
            entered: 0,
        };
        let facts_with = |registers| KernelFacts {
            kernel: 7,
            context: 1,
            threads: 64,
            module: 50,
            registers,
            ..Default::default()
        };
        let shape = Shape::of(7, 1, [8, 4, 2], 0);
        let known = |facts: &Facts| {
            facts.of(&shape).map(|known| (known.facts.registers, known.loaded_by.map(|load| load.api)))
        };
        facts.add(&facts_with(30));
        assert_eq!(known(&facts), Some((30, None)));
        facts.called(&call(1, 50, 0));
        facts.add(&facts_with(40));
        assert_eq!(known(&facts), Some((40, Some(1))));
        facts.called(&call(3, 50, 0));
        facts.called(&call(2, 50, 200));
        facts.called(&call(4, 50, 0));
        facts.add(&facts_with(41));
        assert_eq!(known(&facts), Some((41, None)), "it went, one load failed, and memory is no module");
        facts.called(&call(2, 50, 0));
        facts.add(&facts_with(42));
        assert_eq!(known(&facts), Some((42, Some(2))));
        assert_eq!(facts.of(&Shape { threads: 65, ..shape }), None);
    }
}
