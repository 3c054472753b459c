//! Best values and positions of work whose times are hard to tell (`tests/programs/mixes.c`), against the stand-in's truth.

use crate::compare::{Compared, estimated, intervals_hold};
use gpuspy_collector::model::typical::Prior;
use gpuspy_tests::{Done, Run};
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
    c.timed().is_some_and(|(occupancy, _)| occupancy.length.is_wide())
}

/// Of each kind of which some are known well, all are, by their best values. Tells how many of the others were far off by
/// themselves.
fn known_well(name: &str, seed: u64) -> (usize, usize) {
    let done = mix(name, seed);
    let [alone, together] = [Prior::Never, Prior::Agreeing].map(|prior| estimated(&done, prior));
    intervals_hold(&together);
    let (mut kinds, mut far_off) = (0, 0);
    for (kind, all) in
        by_kind(&alone).into_iter().filter(|(_, all)| all.iter().filter(|c| !is_wide(c)).count() >= 4)
    {
        kinds += 1;
        far_off += all.iter().filter(|c| is_far_off(c)).count();
        let wrong: Vec<_> =
            by_kind(&together)[&kind].iter().filter(|c| is_far_off(c)).map(|c| c.of_truth()).collect();
        println!(
            "{name}: {kind}: {} of {} far off alone",
            all.iter().filter(|c| is_far_off(c)).count(),
            all.len()
        );
        assert!(wrong.is_empty(), "{kind}: {} of {} are far off: {wrong:?}", wrong.len(), all.len());
    }
    (kinds, far_off)
}

/// A 5 µs kernel was more than 20 % off in one of ten launches, a 200 µs kernel's shortest read 3 µs, and of copies nearly half
/// were below half of the truth or ten times as long.
#[test]
fn where_some_are_known_well_their_like_are_too() {
    let mut far_off = 0;
    for (name, least) in [("steps", 1), ("some", 1), ("copies", 2), ("short", 0)] {
        let (kinds, of_mix) = known_well(name, 1);
        assert!(kinds >= least, "{name}: {kinds} kinds are known well");
        far_off += of_mix;
    }
    assert!(far_off > 50, "{far_off} were far off by themselves: the test shows nothing");
}

#[test]
fn random_lengths_are_what_they_are_alone_unless_the_host_stalled() {
    let done = mix("random", 2);
    let [alone, together] = [Prior::Never, Prior::Agreeing].map(|prior| estimated(&done, prior));
    assert!(alone.iter().any(is_wide) && alone.iter().any(|c| !is_wide(c)));
    for (a, b) in alone.iter().zip(&together).filter(|(a, b)| a.when != b.when) {
        let (most, _) = a.timed().map(|(occupancy, truth)| (occupancy.hi(), truth)).unwrap();
        assert!(most > 100_000, "longer than any: the host stalled behind it: {:?}, {:?}", a.when, b.when);
    }
    let typical = estimated(&done, Prior::Always);
    assert!(alone.iter().zip(&typical).any(|(a, b)| a.when != b.when), "and would not be, without the rules");
}
