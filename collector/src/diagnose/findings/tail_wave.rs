//! `tail-wave`: a kernel whose last wave of blocks fills little of the GPU.
//!
//! A GPU holds a wave of blocks at a time. If all blocks take the same time, a launch takes as many times as long as one of
//! them as it has waves, rounded up, so that the last wave costs as much as a full one (NVIDIA, "Matrix Multiplication
//! Background User's Guide", wave quantization). Blocks that take different times hide some of that, so the gain may be 0.

use super::super::Facts;
use super::super::buckets::Bucket;
use super::super::finding::{Claimed, Evidence, Finding, Id, Sites};
use super::super::framework::Advice;
use super::grids::{self, OneShape};
use crate::analyze::estimate::{Estimate, Sum};
use crate::model::names::demangle;
use crate::units::{count, duration, plural};
use std::collections::BTreeMap;

const FIX: Advice = Advice {
    pytorch: "Choose sizes (batch, sequence, hidden) that fill whole waves: a little smaller, or a multiple of the tile size \
              and of the number of multiprocessors; or let torch.compile(mode=\"max-autotune\") choose other tiles.",
    jax: "Choose sizes (batch, sequence, hidden) that fill whole waves: a little smaller, or a multiple of the tile size and \
          of the number of multiprocessors.",
    cuda: "Choose a grid that fills whole waves: other tiles, smaller blocks, split-K or stream-K in a matrix product, or a \
           persistent kernel with as many blocks as the GPU holds.",
};

/// The shortest launch to which waves matter, ns: below, starting a kernel takes a good part of its time.
const LEAST: u64 = 50_000;
/// The share of the kernels' time that the kernel has at least.
const SHARE: f64 = 0.1;
/// The most waves: with more, the last one is less than a fifth of the time, and blocks drift apart and fill it.
const WAVES: f64 = 4.0;

/// Looks for it.
pub fn find(facts: &Facts<'_>) -> Option<Claimed> {
    let all = grids::time_of_all(facts);
    let found =
        grids::kernels(facts, LEAST, SHARE).into_iter().filter_map(|found| Some((lost(&found)?, found)));
    let found: Vec<_> = found.collect();
    let (_, main) = found.iter().max_by_key(|(lost, _)| lost.value)?;
    let mut lost = Sum::default();
    found.iter().for_each(|(more, _)| lost.add(*more));
    let gain = facts.buckets.get(Bucket::Compute).share(lost.value, all);
    let (_, waves) = main.shape.waves()?;
    let text = format!(
        "{waves:.2} waves take as long as {:.0}, in {} of {}, of which the GPU holds {} at a time; a launch takes {}.",
        waves.ceil(),
        plural(main.kernel.count, "launch", "launches"),
        plural(main.blocks.1, "block", "blocks"),
        count(main.shape.resident()?),
        duration(main.total / main.kernel.count.max(1))
    );
    Some(Claimed {
        finding: Finding {
            id: Id::TailWave,
            title: "The last wave of blocks fills little of the GPU".to_owned(),
            evidence: Evidence {
                text,
                count: main.kernel.count,
                total: main.kernel.total().map(Sum::from),
                kernel: Some(demangle(&main.kernel.symbol)),
                source: facts.source_of_kernel(&main.kernel.symbol),
                ..Evidence::default()
            },
            explanation: "The GPU runs a grid in waves. If all blocks take the same time, the last wave takes as long as a full \
                          one, however few blocks it has. Where blocks take different times, the gain is smaller."
                .to_owned(),
            fix: FIX.of(facts),
            saves: Estimate::exactly(0),
        },
        claims: BTreeMap::from([(Bucket::Compute, Sum { lo: 0, ..gain })]),
        sites: Sites::new(),
    })
}

/// Returns the time that the empty part of the last wave takes in all launches, ns; `None` if there is none, or the number
/// of waves is not known well enough.
fn lost(found: &OneShape<'_>) -> Option<Sum> {
    let (least, most) = found.shape.waves()?;
    if most <= 1.0 || most > WAVES || least.ceil() < most.ceil() {
        return None;
    }
    let empty = |waves: f64| (found.total as f64 * (1.0 - waves / waves.ceil())).round() as u64;
    let value = empty(most);
    (value > 0).then_some(Sum { value, lo: 0, hi: empty(least).max(value) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyze::kernels::Kernel;
    use crate::analyze::shapes::{Launched, Said};

    fn lost_of(blocks: (u64, u64)) -> Option<u64> {
        let said = Said { blocks_per_multiprocessor: 2, multiprocessors: 100, ..Said::default() };
        let shape = Launched {
            threads: 1024,
            dynamic_shared_bytes: 0,
            launches: 10,
            captured: 0,
            blocks: Some(blocks),
            said: Some(said),
        };
        let kernel = Kernel::default();
        lost(&OneShape { kernel: &kernel, shape: &shape, blocks, total: 1_000 }).map(|lost| lost.value)
    }

    #[test]
    fn the_empty_part_of_the_last_wave_is_lost() {
        assert_eq!(lost_of((220, 220)), Some(450), "1.1 of 2 waves");
        assert_eq!(lost_of((400, 400)), None, "two full waves");
        assert_eq!(lost_of((150, 150)), None, "less than a wave");
        assert_eq!(lost_of((820, 820)), None, "more than four waves");
        assert_eq!(lost_of((190, 220)), None, "launches differ in their waves");
    }
}
