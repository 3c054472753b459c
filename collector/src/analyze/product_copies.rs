//! Which copies inside a GPU come right before a matrix product on the same stream? One row for each such kernel.
//!
//! A library that computes `C = A B + C` and is asked for `A B + bias` first copies the bias to `C`.

use super::analysis::{Analysis, End, Start};
use super::estimate::Sum;
use super::merge::Merge;
use super::scope::Scope;
use crate::model::transfer::TransferKind;
use crate::model::{Action, Event, When};
use crate::trace::record::{Body, Names};
use gpuspy_wire::record::Namespace;
use std::collections::{BTreeMap, HashMap, HashSet};

/// Parts of the names of kernels that compute matrix products: those of cuBLAS, CUTLASS and Triton's templates contain
/// `gemm`; cuBLAS 12 names its kernels for Hopper and later `nvjet_...`.
const PRODUCTS: [&str; 3] = ["gemm", "nvjet", "cublas"];

/// The copies before a kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Before {
    /// How many.
    pub count: u64,
    /// The bytes that they copied.
    pub bytes: u64,
    /// How many were timed.
    pub timed: u64,
    /// The time of the timed ones, ns.
    pub time: Sum,
    /// ns from the start of the collection to the first one's call.
    pub first: u64,
}

impl Merge for Before {
    fn merge(&mut self, other: &Before) {
        self.first = if self.count == 0 { other.first } else { self.first.min(other.first) };
        self.count += other.count;
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.timed += other.timed;
        self.time.add(other.time);
    }
}

/// The copies before matrix products, by the kernel's symbol.
pub type ProductCopies = BTreeMap<String, Before>;

/// The analysis. Its size grows with the number of different kernels, and of streams.
#[derive(Debug)]
pub struct CopiesBefore<'a> {
    names: &'a Names,
    began: u64,
    products: HashSet<u32>,
    /// Streams, by context and id, whose last operation was a copy inside the GPU.
    last: HashMap<(u32, u64), Before>,
    found: HashMap<u32, Before>,
}

impl<'a> Analysis<'a> for CopiesBefore<'a> {
    type Rows = ProductCopies;

    fn new(start: &Start<'a>) -> Self {
        let kernels = start.names.0.iter().filter(|((space, _), _)| *space == Namespace::Kernel);
        CopiesBefore {
            names: start.names,
            began: start.began,
            products: kernels.filter(|(_, name)| is_product(name)).map(|((_, id), _)| *id).collect(),
            last: HashMap::new(),
            found: HashMap::new(),
        }
    }

    fn observe(&mut self, event: &Event<'_>, scope: &Scope<'_>) {
        if self.products.is_empty() {
            return;
        }
        if let Body::Stream(stream) = &event.record.body
            && stream.destroyed
        {
            self.last.remove(&(stream.context, stream.stream));
        }
        let Some(operation) = scope.operation() else { return };
        let stream = (operation.context, operation.stream);
        match (operation.what, operation.when) {
            // A burst is the time of launches that came before it.
            (_, When::Captured) | (Action::Burst { .. }, _) => {}
            (Action::Transfer { kind: TransferKind::DtoD, bytes, .. }, when) => {
                let time = match when {
                    When::Timed(interval) => {
                        Some(Sum { value: interval.value(), lo: interval.lo(), hi: interval.hi() })
                    }
                    _ => None,
                };
                self.last.insert(
                    stream,
                    Before {
                        count: 1,
                        bytes,
                        timed: u64::from(time.is_some()),
                        time: time.unwrap_or_default(),
                        first: operation.called.saturating_sub(self.began),
                    },
                );
            }
            (what, _) if !self.last.is_empty() => {
                let Some(copy) = self.last.remove(&stream) else { return };
                if let Action::Kernel { name, .. } = what
                    && self.products.contains(&name)
                {
                    self.found.entry(name).or_default().merge(&copy);
                }
            }
            _ => {}
        }
    }

    fn finish(self, _: &End<'_>) -> ProductCopies {
        let mut rows = ProductCopies::new();
        for (name, before) in self.found {
            let symbol = self.names.get(Namespace::Kernel, name).unwrap_or_default().to_owned();
            rows.entry(symbol).or_default().merge(&before);
        }
        rows
    }
}

fn is_product(symbol: &str) -> bool {
    let symbol = symbol.to_ascii_lowercase();
    PRODUCTS.iter().any(|part| symbol.contains(part))
}
