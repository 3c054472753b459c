//! `default-stream`: work on the legacy default stream, which other streams have to wait for, and which waits for them.

use super::super::Facts;
use super::super::buckets::Bucket;
use super::super::finding::{Claimed, Evidence, Finding, Id, Sites};
use super::super::framework::Advice;
use super::idle::times;
use crate::analyze::estimate::{Estimate, Sum};
use crate::units::{duration, plural};
use std::collections::BTreeMap;

const FIX: Advice = Advice {
    pytorch: "Run both sides on streams of their own: torch.cuda.Stream() creates streams that do not wait for the legacy \
              default stream, and with torch.cuda.stream(s) puts the work of the default stream on one. If a library's \
              own stream is a blocking one, it has to create it with cudaStreamNonBlocking. Order what really depends on \
              each other with wait_stream or events.",
    jax: "The calls are made by a library: create its streams with cudaStreamNonBlocking.",
    cuda: "Create streams with cudaStreamCreateWithFlags(cudaStreamNonBlocking), give every launch and copy a stream, or \
           compile with --default-stream per-thread; order what really depends on each other with events \
           (cudaStreamWaitEvent).",
};

/// The fewest pairs of turns that are a habit of the program.
const HABIT: u64 = 10;

/// Looks for it. At best everything overlaps that has room on the GPU; at worst the program needs the order.
pub fn find(facts: &Facts<'_>) -> Option<Claimed> {
    let turns = &facts.all.legacy_stream;
    if turns.pairs < HABIT || turns.timed == 0 {
        return None;
    }
    // The turns are those of all GPUs, and the buckets those of one.
    let all = turns.pairs as f64 / turns.timed as f64 / facts.gpus() as f64;
    let of = |bucket: Bucket, found: Sum| {
        let part = facts.buckets.get(bucket);
        let Sum { value, lo, hi } = times(found, [all; 3]);
        (bucket, Sum { value: value.min(part.value), lo, hi: hi.min(part.hi) })
    };
    let claims =
        BTreeMap::from([of(Bucket::ExposedCopies, turns.copies), of(Bucket::Compute, turns.kernels)]);
    let gain = claims.values().map(|sum| sum.value).sum();
    let text = format!(
        "{} of work has room to run at the same time: that of the legacy default stream and of {} took turns {}, without a \
         wait between them.",
        duration(gain),
        plural(turns.streams.len() as u64, "other stream", "other streams"),
        plural(turns.pairs, "time", "times")
    );
    Some(Claimed {
        finding: Finding {
            id: Id::DefaultStream,
            title: "The default stream makes other streams wait".to_owned(),
            evidence: Evidence {
                text,
                count: turns.pairs,
                first: turns.first,
                source: turns.lines.source(),
                ..Evidence::default()
            },
            explanation: "Work on the legacy default stream starts when all work before it on blocking streams is done, and \
                          they go on when it is done, whether it depends on them or not."
                .to_owned(),
            fix: FIX.of(facts),
            saves: Estimate::exactly(0),
        },
        claims,
        sites: Sites::new(),
    })
}
