//! Changes inputs at random, always in the same way for the same seed: for test runs, which need no coverage to guide them.

/// A splitmix64 generator.
#[derive(Debug)]
pub struct Random(pub u64);

impl Random {
    /// Returns the next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ x >> 31
    }

    /// Returns a number below `end`; 0 if there is none.
    pub fn below(&mut self, end: usize) -> usize {
        if end == 0 { 0 } else { (self.number() % end as u64) as usize }
    }
}

/// Numbers at which something often changes.
const EDGES: &[u64] =
    &[0, 1, 2, 7, 8, 63, 64, 127, 128, 255, 256, 4095, 4096, 65_535, 1 << 31, 1 << 32, 1 << 63, u64::MAX];

/// The longest input, bytes.
const LONGEST: usize = 64 << 10;

/// Changes an input in one to eight places. `others` are inputs of which parts may be copied into it.
pub fn mutate(input: &[u8], others: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    let mut bytes = input.to_vec();
    for _ in 0..=random.below(8) {
        let at = random.below(bytes.len() + 1);
        let scale = random.below(8);
        let count = 1 + random.below(1 << scale);
        let end = (at + count).min(bytes.len());
        match random.below(8) {
            0 | 1 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
            2 if at < bytes.len() => bytes[at] = random.number() as u8,
            3 | 4 => {
                let number = EDGES[random.below(EDGES.len())].wrapping_add_signed(random.below(3) as i64 - 1);
                let width = 1 << random.below(4);
                let at = if random.below(2) == 0 { at / width * width } else { at };
                bytes
                    .iter_mut()
                    .skip(at)
                    .zip(&number.to_le_bytes()[..width])
                    .for_each(|(to, from)| *to = *from);
            }
            5 => drop(bytes.drain(at..end)),
            6 => {
                let part = bytes[at..end].to_vec();
                bytes.splice(at..at, part);
            }
            _ => {
                let other = others.get(random.below(others.len())).map_or(&[][..], Vec::as_slice);
                let from = random.below(other.len() + 1);
                let part = other[from..(from + count).min(other.len())].to_vec();
                bytes.splice(at..if random.below(2) == 0 { at } else { end }, part);
            }
        }
    }
    bytes.truncate(LONGEST);
    bytes
}
