//! `hidden-copy`: a copy inside the GPU before each matrix product, which a product with a bias makes unasked.

use super::super::Facts;
use super::super::buckets::Bucket;
use super::super::finding::{Claimed, Evidence, Finding, Id, Sites};
use super::super::framework::Advice;
use super::copies::whole;
use crate::analyze::estimate::Estimate;
use crate::analyze::merge::Merge;
use crate::analyze::product_copies::Before;
use crate::model::names::demangle;
use crate::units::{bytes, count, duration};
use std::collections::BTreeMap;

const FIX: Advice = Advice {
    pytorch: "Let the product add the bias in its epilogue: torch.nn.functional.linear (nn.Linear) or torch.addmm with a \
              bias of one dimension, which use cuBLASLt's bias epilogue, or torch.compile. torch.addmm with a matrix or an \
              expanded bias copies it first; with beta=0 it does not. baddbmm and out= copy as well where the bias is not \
              the output.",
    jax: "Add the bias under the same jax.jit as the product, so that XLA fuses it into the product's epilogue; donate \
          buffers (donate_argnums) that are updated in place.",
    cuda: "Let the product add the bias: CUBLASLT_EPILOGUE_BIAS of cublasLtMatmul, or separate C and D matrices \
           (cublasLtMatmul reads C and writes D), in place of a copy to C.",
};

/// The fewest copies that are a habit of the program.
const HABIT: u64 = 10;

/// Looks for it: a kernel of which half of the launches or more come right after such a copy.
pub fn find(facts: &Facts<'_>) -> Option<Claimed> {
    let launches = |symbol: &str| {
        let kernels = facts.all.kernels.iter().filter(|kernel| kernel.symbol == symbol);
        kernels.map(|kernel| kernel.count).sum::<u64>()
    };
    let regular = || {
        let rows = facts.all.product_copies.iter();
        rows.filter(|(symbol, before)| before.count >= HABIT && before.count * 2 >= launches(symbol))
    };
    let (symbol, _) = regular().max_by_key(|(_, before)| (estimated(before), before.bytes))?;
    let mut all = Before::default();
    regular().for_each(|(_, before)| all.merge(before));
    let mine = regular().map(|(_, before)| estimated(before)).sum();
    let of_all = facts.all.copy_sites.values().map(whole).sum();
    let exposed = facts.buckets.get(Bucket::ExposedCopies).share(mine, of_all);
    let text = format!(
        "{} copies inside the GPU, {} in all, came right before a matrix product on the same stream; only they ran on the \
         GPU for {}.",
        count(all.count),
        bytes(all.bytes),
        duration(exposed.value)
    );
    Some(Claimed {
        finding: Finding {
            id: Id::HiddenCopy,
            title: "A copy inside the GPU before each matrix product".to_owned(),
            evidence: Evidence {
                text,
                count: all.count,
                total: Some(all.time),
                first: Some(all.first),
                kernel: Some(demangle(symbol)),
                source: facts.source_of_kernel(symbol),
                ..Evidence::default()
            },
            explanation: "A product that adds to its output needs the bias there first, and the library copies it. The \
                          copy reads and writes the whole output once more than is needed."
                .to_owned(),
            fix: FIX.of(facts),
            saves: Estimate::exactly(0),
        },
        claims: BTreeMap::from([(Bucket::ExposedCopies, exposed)]),
        sites: Sites::new(),
    })
}

/// Returns the time of all of the copies, ns: the untimed ones like the timed ones.
fn estimated(before: &Before) -> u64 {
    before.time.value.checked_div(before.timed).unwrap_or(0).saturating_mul(before.count)
}
