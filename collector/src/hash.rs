//! Hash maps and sets that are fast enough to be asked several times for each record of a trace.
//!
//! The standard library's hasher, SipHash, took an eighth of the instructions of a report. Foldhash costs a few instructions
//! for the small keys that are used here. It is seeded at random in each process and for each map, so a trace cannot be
//! made in advance whose keys collide.

#![allow(clippy::disallowed_types)] // the aliases are what clippy.toml refers to

use foldhash::fast::RandomState;

/// A `std::collections::HashMap`; `HashMap::default()` makes an empty one.
pub type HashMap<K, V, S = RandomState> = std::collections::HashMap<K, V, S>;

/// A `std::collections::HashSet`; `HashSet::default()` makes an empty one.
pub type HashSet<T, S = RandomState> = std::collections::HashSet<T, S>;
