//! What gpuspy reads from others, as fuzz targets. A target is a function of any bytes that panics if gpuspy does something
//! wrong with them: if it panics itself, if it uses more memory than the bytes may cost, or if what it says does not agree
//! with itself.
//!
//! Each target is defined once, in [`TARGETS`]. `tests/kept.rs` runs all of them in each test run, on the kept inputs
//! (`corpus`) and on a fixed number of changed ones. `libfuzzer` runs one of them for as long as one likes, on
//! nightly (`scripts/deep-check.sh`, or `cargo +nightly fuzz run --fuzz-dir fuzz/libfuzzer TARGET`). An input that fails is
//! kept in `corpus` under a name that says what was wrong.
#![deny(missing_docs)]

mod memory;
pub mod mutation;
pub mod seeds;
pub mod targets;

pub use memory::bounded;

/// A fuzz target.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name: that of its program in `libfuzzer`.
    pub name: &'static str,
    /// The folder in `corpus` with its kept inputs: its own, unless another target reads the same.
    pub inputs: &'static str,
    /// Reads any bytes.
    pub read: fn(&[u8]),
    /// How many changed inputs a test run reads.
    pub runs: usize,
}

/// All targets.
pub const TARGETS: &[Target] = &[
    Target { name: "segment", inputs: "segment", read: targets::segment, runs: 20_000 },
    Target { name: "records", inputs: "records", read: targets::records, runs: 100_000 },
    Target { name: "session", inputs: "session", read: targets::session, runs: 300 },
    Target { name: "handshake", inputs: "handshake", read: targets::handshake, runs: 50_000 },
    Target { name: "trace", inputs: "trace", read: targets::trace, runs: 3_000 },
    Target { name: "report", inputs: "trace", read: targets::report, runs: 400 },
    Target { name: "line_tables", inputs: "line_tables", read: targets::line_tables, runs: 100_000 },
    Target { name: "program_files", inputs: "program_files", read: targets::program_files, runs: 3_000 },
    Target { name: "names", inputs: "names", read: targets::names, runs: 20_000 },
    Target { name: "filters", inputs: "filters", read: targets::filters, runs: 500 },
];
