//! Best values and positions of work whose times are hard to tell (`tests/programs/mixes.c`), against the simulator's truth.

use crate::compare::{Compared, estimated, intervals_hold};
use gpuspy_collector::model::typical::Prior;
use gpuspy_tests::{Done, Run, until_one_is_good};
use std::collections::BTreeMap;

/// Runs a mix.
pub fn mix(name: &str, seed: u64) -> Done {
    Run::of("mixes").arg(name).arg(seed.to_string()).observed().succeeded()
}

/// What makes operations alike: a kernel's name, or a copy's way, memory and size.
pub fn kind(c: &Compared) -> String {
    match c.truth.kind.as_str() {
        "copy" => format!("{} {}, {} B", c.truth.direction, c.truth.host_memory, c.truth.bytes),
        _ => c.truth.name.clone(),
    }
}

/// The timed operations of a run, by kind.
pub fn by_kind(compared: &[Compared]) -> BTreeMap<String, Vec<&Compared>> {
    let mut kinds: BTreeMap<String, Vec<&Compared>> = BTreeMap::new();
    for c in compared.iter().filter(|c| c.timed().is_some()) {
        kinds.entry(kind(c)).or_default().push(c);
    }
    kinds
}

/// Whether its best value is more than a fifth off.
pub fn is_far_off(c: &Compared) -> bool {
    c.of_truth().is_some_and(|part| (part - 1.0).abs() > 0.2)
}

/// Whether its interval is wider than a fifth of its best value.
pub fn is_wide(c: &Compared) -> bool {
    c.timed().is_some_and(|(interval, _)| interval.length.is_wide())
}

/// What one run of a mix says of the kinds of which some are known well.
#[derive(Default)]
struct KnownWell {
    kinds: usize,
    /// How many were far off by themselves.
    far_off_alone: usize,
    /// What is far off although its like are known: each with its kind.
    far_off: Vec<String>,
}

fn known_well(name: &str, seed: u64) -> KnownWell {
    let done = mix(name, seed);
    let [alone, together] = [Prior::Never, Prior::Agreeing].map(|prior| estimated(&done, prior));
    intervals_hold(&together);
    let (alone, together) = (by_kind(&alone), by_kind(&together));
    let mut known = KnownWell::default();
    for (kind, all) in alone.iter().filter(|(_, all)| all.iter().filter(|c| !is_wide(c)).count() >= 4) {
        known.kinds += 1;
        known.far_off_alone += all.iter().filter(|c| is_far_off(c)).count();
        let far_off = together[kind].iter().filter(|c| is_far_off(c));
        known.far_off.extend(far_off.map(|c| format!("{kind}: {:?}", c.timed())));
    }
    known
}

/// A 5 µs kernel was more than 20 % off in one of ten launches, a 200 µs kernel's shortest read 3 µs, and of copies nearly half
/// were below half of the truth or ten times as long. On a busy machine those that are known well may be too few to agree, so
/// that each mix has several runs to show it in.
#[test]
fn where_some_are_known_well_their_like_are_too() {
    let mut far_off_alone = 0;
    for (name, least) in [("steps", 1), ("some", 1), ("copies", 2), ("short", 0)] {
        until_one_is_good(|| {
            let run = known_well(name, 1);
            if run.kinds < least || !run.far_off.is_empty() {
                return Err(format!("{name}: {} kinds are known well, {:?}", run.kinds, run.far_off));
            }
            far_off_alone += run.far_off_alone;
            Ok(())
        });
    }
    assert!(far_off_alone > 50, "{far_off_alone} were far off by themselves: the test shows nothing");
}

#[test]
fn random_lengths_are_what_they_are_alone_unless_the_host_stalled() {
    let done = mix("random", 2);
    let [alone, together] = [Prior::Never, Prior::Agreeing].map(|prior| estimated(&done, prior));
    assert!(alone.iter().any(is_wide) && alone.iter().any(|c| !is_wide(c)));
    for (a, b) in alone.iter().zip(&together).filter(|(a, b)| a.when != b.when) {
        let (most, _) = a.timed().map(|(interval, truth)| (interval.hi(), truth)).unwrap();
        assert!(most > 100_000, "longer than any: the host stalled behind it: {:?}, {:?}", a.when, b.when);
    }
    let typical = estimated(&done, Prior::Always);
    assert!(alone.iter().zip(&typical).any(|(a, b)| a.when != b.when), "and would not be, without the rules");
}
