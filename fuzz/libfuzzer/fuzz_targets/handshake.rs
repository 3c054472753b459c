#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| gpuspy_fuzz::targets::handshake(input));
