//! Any bytes as a segment: `cargo +nightly fuzz run segment`, from `wire`.
#![no_main]

#[path = "../../tests/common/segment_bytes.rs"]
mod segment_bytes;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    segment_bytes::read(input);
});
