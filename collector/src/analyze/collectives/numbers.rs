//! Which of its name is a communication kernel, and which of all?

use crate::hash::HashMap;
use crate::model::gpu_interval::host;
use crate::model::period::{self, Period};
use crate::model::{Action, Operation, When};
use crate::trace::record::Names;
use gpuspy_wire::record::Namespace;
use std::collections::BTreeMap;

/// Numbers the communication kernels of a process, whatever the filter selects, so that numbers mean the same on every
/// rank.
#[derive(Debug)]
pub struct Numbers<'a> {
    names: &'a Names,
    /// Number of a kernel → the first number with the same symbol. A kernel has a number in each context.
    firsts: HashMap<u32, u32>,
    symbols: HashMap<&'a str, u32>,
    /// By the first number with the symbol: how many were launched in earlier windows of the collection, and in this
    /// trace.
    launches: HashMap<u32, (u64, u64)>,
    /// The start of the present window: what was launched before it is among those of earlier ones.
    from: i64,
    all: u64,
}

/// A launch of a communication kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launched {
    /// The first number of a kernel with its symbol.
    pub kernel: u32,
    /// Its number among those of its name since the start of the run, from 0.
    pub number: u64,
    /// Its number among all communication kernels in the trace of the process, from 0.
    pub place: u64,
}

impl<'a> Numbers<'a> {
    /// Begins to count the kernels of a trace that recorded this time, whatever the filter selects of it.
    pub fn new(names: &'a Names, captured: &Period) -> Numbers<'a> {
        let is_first = period::window(names).is_none_or(|number| number == 0);
        let mut numbers = Numbers {
            names,
            firsts: HashMap::default(),
            symbols: HashMap::default(),
            launches: HashMap::default(),
            from: if is_first { i64::MIN } else { captured.ends().0 },
            all: 0,
        };
        let launched = names.0.range((Namespace::Launched, 0)..=(Namespace::Launched, u32::MAX));
        for ((_, name), count) in launched {
            let (earlier, _) = numbers.launches_of(*name).1;
            *earlier = earlier.saturating_add(count.parse().unwrap_or(0));
        }
        numbers
    }

    /// Returns the number of an operation, if it is a communication kernel that was launched in this trace's time.
    pub fn launched(&mut self, operation: &Operation) -> Option<Launched> {
        let Action::Kernel { name, communication: true } = operation.what else { return None };
        if operation.when == When::Captured || self.is_earlier(operation) {
            return None;
        }
        let (kernel, (earlier, here)) = self.launches_of(name);
        let number = earlier.saturating_add(*here);
        *here += 1;
        self.all += 1;
        Some(Launched { kernel, number, place: self.all - 1 })
    }

    /// Whether an operation was launched in an earlier window.
    pub fn is_earlier(&self, operation: &Operation) -> bool {
        host(operation.called) < self.from
    }

    /// Returns how many were launched in this trace, by symbol.
    pub fn by_symbol(&self) -> BTreeMap<&'a str, u64> {
        let names = self.names;
        let launched = self.launches.iter().filter(|(_, (_, here))| *here > 0);
        let named = launched.map(|(kernel, (_, here))| (names.get(Namespace::Kernel, *kernel), *here));
        named.map(|(symbol, here)| (symbol.unwrap_or_default(), here)).collect()
    }

    /// Returns the first number with the symbol of this one, and how often it was launched.
    fn launches_of(&mut self, name: u32) -> (u32, &mut (u64, u64)) {
        let kernel = *self.firsts.entry(name).or_insert_with(|| {
            let symbol = self.names.get(Namespace::Kernel, name).unwrap_or_default();
            *self.symbols.entry(symbol).or_insert(name)
        });
        (kernel, self.launches.entry(kernel).or_default())
    }
}
