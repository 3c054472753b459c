//! Much more memory is reserved than used.

use super::holding;
use crate::diagnose::Facts;
use crate::diagnose::finding::{Claimed, Evidence, Id};
use crate::diagnose::framework::Advice;
use crate::units::{bytes, percent};
use gpuspy_wire::record::Memory;

/// Reserved memory is far above what is used from this factor on.
const FACTOR: u64 = 2;
/// And from this share of the GPU's memory on, since less is missed by nobody.
const SHARE: f64 = 0.1;

const ADVICE: Advice = Advice {
    pytorch: "Give unused segments back with torch.cuda.empty_cache() after the phase that needed them, and set \
              PYTORCH_ALLOC_CONF=garbage_collection_threshold:0.8 (before PyTorch 2.9, PYTORCH_CUDA_ALLOC_CONF).",
    jax: "Set XLA_PYTHON_CLIENT_PREALLOCATE=false, or a smaller XLA_PYTHON_CLIENT_MEM_FRACTION.",
    cuda: "Create physical memory (cuMemCreate) when it is mapped, and release it (cuMemRelease) when it is unmapped for \
           good; keep only as much in reserve as the next steps need.",
};

/// Looks for it. What drivers reserve for stream-ordered pools is not recorded.
pub fn find(facts: &Facts<'_>) -> Option<Claimed> {
    let most = holding::each(facts.reports, facts.all).filter_map(|tables| {
        let peak =
            |memory: Memory| tables.memory.by_kind.get(memory.name()).map_or(0, |part| part.peak_bytes);
        Some((peak(Memory::Reserved), peak(Memory::Mapped), holding::size(tables)?))
    });
    let (reserved, mapped, size) =
        most.max_by_key(|(reserved, mapped, _)| reserved.saturating_sub(*mapped))?;
    let unused = reserved.saturating_sub(mapped);
    if reserved < mapped.saturating_mul(FACTOR) || (unused as f64) < SHARE * size as f64 {
        return None;
    }
    let text = format!(
        "{} of physical memory were reserved at the peak, and never more than {} of it mapped: {} of the GPU ({}) \
         were of use to nobody.",
        bytes(reserved),
        bytes(mapped),
        bytes(unused),
        percent(unused, size),
    );
    const API: &str = "cuMemCreate";
    let source = facts.source_of_api(API);
    let evidence = Evidence { text, count: 1, api: Some(API.to_owned()), source, ..Evidence::default() };
    Some(holding::finding(
        Id::Fragmentation,
        format!("{} of device memory are reserved and not used", bytes(unused)),
        evidence,
        "Reserved memory is taken from all other allocations and processes, whether it is used or not.",
        ADVICE.of(facts),
    ))
}
