//! `duplicate-uploads`: the same data is copied to the same place on the GPU again and again.
//!
//! Only buffers most of whose repeats are certain count ([`repeated_uploads`](crate::analyze::repeated_uploads)): a staging
//! buffer that is filled again for each step looks the same otherwise. What remains open is whether a kernel changes the
//! copy on the GPU, so that the gain may be 0.

use super::super::Facts;
use super::super::buckets::Bucket;
use super::super::finding::{Claimed, Evidence, Finding, Id, Sites};
use super::super::framework::Advice;
use super::copies::repeated;
use crate::analyze::estimate::{Estimate, Sum};
use crate::analyze::merge::Merge;
use crate::analyze::repeated_uploads::Repeats;
use crate::units::{bytes, count, duration, plural};
use std::collections::BTreeMap;

const FIX: Advice = Advice {
    pytorch: "Move what does not change once, before the loop, and keep the tensor on the GPU (register_buffer for masks, \
              tables and constants of a module). If the data is new in each step, the program overwrites page-locked memory \
              that the GPU still reads: wait for the copy's event before, or use several buffers in turn.",
    jax: "Put what does not change on the device once (jax.device_put) and pass that to the step.",
    cuda: "Copy what does not change once and keep it on the GPU; if kernels change it there, keep a second copy and restore \
           it with a copy inside the GPU. If the data is new each time, the program overwrites page-locked memory that the \
           GPU still reads: wait for the copy's event before, or use several buffers in turn.",
};

/// The fewest repeats that are a habit of the program.
const HABIT: u64 = 10;

/// Looks for it.
pub fn find(facts: &Facts<'_>) -> Option<Claimed> {
    let rows = &facts.all.repeated_uploads;
    let ((api, source), _) = rows.iter().max_by_key(|(_, repeats)| repeats.whole())?;
    let mut all = Repeats::default();
    rows.values().for_each(|repeats| all.merge(repeats));
    if all.certain < HABIT {
        return None;
    }
    let exposed = repeated(facts);
    let text = format!(
        "{}, {} in all, from the same address to the same place as one before ({} of these pairs); {} of them were called \
         while that one was not over; only they ran on the GPU for {}.",
        plural(all.count, "copy", "copies"),
        bytes(all.bytes),
        count(all.buffers),
        count(all.certain),
        duration(exposed.value)
    );
    Some(Claimed {
        finding: Finding {
            id: Id::DuplicateUploads,
            title: "The same data is copied to the GPU again".to_owned(),
            evidence: Evidence {
                text,
                count: all.count,
                total: Some(all.time),
                first: Some(all.first),
                api: Some(api.clone()),
                source: source.clone(),
                ..Evidence::default()
            },
            explanation: "While a copy is not over, the host must not change what it reads, so the next copy from there moves \
                          the same data. It is needed only if a kernel has changed the copy on the GPU."
                .to_owned(),
            fix: FIX.of(facts),
            saves: Estimate::exactly(0),
        },
        claims: BTreeMap::from([(Bucket::ExposedCopies, Sum { lo: 0, ..exposed })]),
        sites: Sites::new(),
    })
}
