//! Which copies inside a GPU come right before a matrix product on the same stream? One row for each such kernel.
//!
//! A library that computes `C = A B + C` and is asked for `A B + bias` first copies the bias to `C`.

use super::analysis::{Analysis, End, Start};
use super::estimate::Sum;
use super::merge::Merge;
use super::scope::Scope;
use crate::hash::{HashMap, HashSet};
use crate::model::transfer::TransferKind;
use crate::model::{Action, Event, When};
use crate::trace::record::{Body, Names};
use gpuspy_wire::record::Namespace;
use std::collections::BTreeMap;

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
            last: HashMap::default(),
            found: HashMap::default(),
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

#[cfg(test)]
mod tests {
    use super::super::analysis::finish_at;
    use super::*;
    use crate::model::transfer::HostMemory;
    use crate::model::{Operation, simulation};
    use crate::trace::record::{Record, Stream};

    const GEMM: Action = Action::Kernel { name: 1, communication: false };
    const RELU: Action = Action::Kernel { name: 2, communication: false };
    const BIAS: Action =
        Action::Transfer { kind: TransferKind::DtoD, host_memory: HostMemory::None, bytes: 4_096 };

    fn names(first: &str) -> Names {
        let kernel = |id: u32, name: &str| ((Namespace::Kernel, id), name.to_owned());
        Names([kernel(1, first), kernel(2, "relu")].into_iter().collect())
    }

    /// What happens: an operation on a stream, or the end of the stream.
    enum Step {
        Work(u64, Action, Option<(i64, i64)>),
        Destroyed(u64),
    }
    use Step::{Destroyed, Work};

    /// Gives the analysis these steps, one each 100 ns from 1 µs after the start of the collection on.
    fn copies_of(names: &Names, steps: &[Step]) -> ProductCopies {
        let mut fold = CopiesBefore::new(&Start { began: 9_000, ..Start::of(names) });
        for (at, step) in (10_000..).step_by(100).zip(steps) {
            let (body, operation) = match *step {
                Work(stream, what, ran) => {
                    let operation = Operation { stream, ..simulation::operation(what, (at, at + 10)) };
                    let when = ran
                        .map_or(operation.when, |(start, end)| When::Timed(simulation::exactly(start, end)));
                    (Body::Work(simulation::work(at + 10, 10, 0)), Some(Operation { when, ..operation }))
                }
                Destroyed(stream) => {
                    let stream =
                        Stream { context: 1, stream, handle: 0, flags: 0, priority: 0, destroyed: true };
                    (Body::Stream(stream), None)
                }
            };
            let record = Record { thread: 1, at: at + 10, body };
            let event = Event { operation, ..Event::new(&record) };
            fold.observe(&event, &Scope::whole(&event, true));
        }
        finish_at(fold, 0)
    }

    fn found(steps: &[Step]) -> Option<Before> {
        let mut rows = copies_of(&names("ampere_sgemm_128x64"), steps);
        let before = rows.remove("ampere_sgemm_128x64");
        assert!(rows.is_empty(), "{rows:?}");
        before
    }

    #[test]
    fn a_copy_right_before_a_product_on_its_stream_counts_with_its_time() {
        let before = found(&[
            Work(7, RELU, None),
            Work(7, BIAS, Some((20_000, 20_300))),
            Work(7, GEMM, None),
            Work(7, BIAS, None),
            Work(7, GEMM, None),
        ]);
        let time = Sum { value: 300, lo: 300, hi: 300 };
        assert_eq!(before, Some(Before { count: 2, bytes: 8_192, timed: 1, time, first: 1_100 }));
    }

    #[test]
    fn a_copy_counts_once_and_only_for_the_operation_after_it() {
        assert_eq!(found(&[Work(7, BIAS, None), Work(7, RELU, None), Work(7, GEMM, None)]), None);
        let twice = found(&[Work(7, BIAS, None), Work(7, GEMM, None), Work(7, GEMM, None)]);
        assert_eq!(twice.map(|before| before.count), Some(1));
        let last = found(&[Work(7, BIAS, None), Work(7, BIAS, None), Work(7, GEMM, None)]);
        assert_eq!(last.map(|before| (before.count, before.first)), Some((1, 1_100)), "the second copy");
    }

    #[test]
    fn a_copy_on_another_stream_is_none_of_a_product() {
        assert_eq!(found(&[Work(8, BIAS, None), Work(7, GEMM, None)]), None);
        let between = found(&[Work(7, BIAS, None), Work(8, RELU, None), Work(7, GEMM, None)]);
        assert_eq!(between.map(|before| before.count), Some(1));
        assert_eq!(found(&[Work(7, BIAS, None), Destroyed(7), Work(7, GEMM, None)]), None);
    }

    #[test]
    fn a_burst_does_not_come_between_a_copy_and_the_product() {
        let burst = Action::Burst { launches: 2, ordinary: 2, communication: false };
        let before =
            found(&[Work(7, BIAS, None), Work(7, burst, Some((20_000, 20_500))), Work(7, GEMM, None)]);
        assert_eq!(before.map(|before| before.count), Some(1));
    }

    #[test]
    fn other_copies_are_not_those_of_a_bias() {
        for kind in [TransferKind::HtoD, TransferKind::PtoP, TransferKind::Memset] {
            let other = Action::Transfer { kind, host_memory: HostMemory::None, bytes: 4_096 };
            assert_eq!(found(&[Work(7, other, None), Work(7, GEMM, None)]), None, "{kind:?}");
            assert_eq!(
                found(&[Work(7, BIAS, None), Work(7, other, None), Work(7, GEMM, None)]),
                None,
                "{kind:?}"
            );
        }
    }

    #[test]
    fn kernels_are_products_by_their_names() {
        let steps = [Work(7, BIAS, None), Work(7, GEMM, None)];
        for (name, expected) in [
            ("sm90_xmma_GEMM_f16f16", 1),
            ("nvjet_hsh_128x256_64x4", 1),
            ("cublasLt_splitKreduce", 1),
            ("vectorized_elementwise_kernel", 0),
        ] {
            assert_eq!(copies_of(&names(name), &steps).len(), expected, "{name}");
        }
    }
}
