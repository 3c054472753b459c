//! Reads any bytes as a segment. Run it in `wire` with `cargo +nightly fuzz run segment`.
#![no_main]

#[path = "../../tests/common/segment_bytes.rs"]
mod segment_bytes;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    segment_bytes::read(input);
});
