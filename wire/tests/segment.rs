//! Is any byte sequence safe to read as a segment? Runs the fuzz target's function on pseudo-random inputs,
//! so that every test run includes a little fuzzing.

#[path = "common/segment_bytes.rs"]
mod segment_bytes;

use gpuspy_wire::segment::LayoutError;
use segment_bytes::read;

/// A splitmix64 generator.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ x >> 31
    }
}

#[test]
fn any_bytes_can_be_read_as_a_segment() {
    let mut noise = Noise(2);
    let (mut records, mut decoded, mut corrupt, mut bounds, mut magic) = (0, 0, 0, 0, 0);
    for n in 0..if cfg!(miri) { 64 } else { 6_000 } {
        // The values that `segment_bytes` takes from the front, followed by the slots and rings.
        let help = n as u8;
        let front = if help & 2 != 0 { 14 } else { 5 };
        let mut input: Vec<u8> = (0..front).map(|_| noise.next() as u8).collect();
        input[0] = help;
        for word in 0..noise.next() % 600 {
            let mut bytes = noise.next().to_ne_bytes();
            if help & 8 != 0 && word % 8 == 0 {
                // A record's first word with an existing kind and a valid length.
                bytes = [bytes[0] % 20, 1 + bytes[1] % 3, 0, 0, 0, 0, 0, 0];
            }
            input.extend(bytes);
        }
        let outcome = read(&input);
        records += outcome.records;
        decoded += outcome.decoded;
        corrupt += outcome.corrupt;
        bounds += usize::from(outcome.refused == Some(LayoutError::Bounds));
        magic += usize::from(outcome.refused == Some(LayoutError::Magic));
    }
    for (what, count) in [
        ("records", records),
        ("decoded", decoded),
        ("corrupt", corrupt),
        ("bounds", bounds),
        ("magic", magic),
    ] {
        assert!(count > 0, "no input reached: {what}");
    }
}
