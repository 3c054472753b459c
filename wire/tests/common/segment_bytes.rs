//! What does a reader make of arbitrary bytes? Reads them as a segment, as the collector reads a foreign one.
//! The fuzz target and its smoke test run this.

use gpuspy_wire::handshake::{self, Hello};
use gpuspy_wire::record::*;
use gpuspy_wire::ring::{Corrupt, LEVELS, MAX_RECORD_WORDS, Reader};
use gpuspy_wire::segment::*;
use std::mem::{offset_of, size_of};

/// How far the reader got with an input.
#[derive(Debug, Default, PartialEq)]
pub struct Outcome {
    /// The reason why the header was rejected, if it was.
    pub refused: Option<LayoutError>,
    /// The number of records read.
    pub records: usize,
    /// The number of those that a decoder accepted.
    pub decoded: usize,
    /// The number of times that a ring's contents were rejected.
    pub corrupt: usize,
}

/// A cache line: a segment is aligned to 64 bytes.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub struct Cell([u64; CELL_WORDS]);

/// The bytes as memory, followed by zeros up to `bytes` bytes.
fn memory(content: &[u8], bytes: usize) -> Vec<Cell> {
    let mut memory = vec![Cell([0; CELL_WORDS]); bytes.div_ceil(size_of::<Cell>())];
    for (n, word) in content.chunks(8).take(memory.len() * CELL_WORDS).enumerate() {
        let mut bytes = [0; 8];
        bytes[..word.len()].copy_from_slice(word);
        memory[n / CELL_WORDS].0[n % CELL_WORDS] = u64::from_ne_bytes(bytes);
    }
    memory
}

/// Takes single values from the input's front, and zeros when it is used up.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *first
    }

    fn word(&mut self) -> u64 {
        u64::from_ne_bytes(std::array::from_fn(|_| self.byte()))
    }
}

/// Makes a segment from an input. The first byte says how well-formed it is made: bit 0: it has a valid
/// header with small levels, and the input fills the slots and rings; bit 1: one word of that header is
/// overwritten afterwards; bit 2: the cursors are brought close to each other.
pub fn segment(input: &[u8]) -> Vec<Cell> {
    let mut input = Input(input);
    let help = input.byte();
    if help & 1 == 0 {
        return memory(input.0, input.0.len().max(size_of::<Header>()));
    }
    let slots = 1 + u64::from(input.byte() % 3);
    let level_cells: [u64; LEVELS] = std::array::from_fn(|_| 1 << (input.byte() % 6));
    let region_bytes = level_cells.iter().sum::<u64>() * CELL_BYTES as u64;
    let slot_bytes = size_of::<Slot>() as u64;
    let rings_at = HEADER_BYTES as u64 + slot_bytes * slots;
    let segment_bytes = rings_at + region_bytes * slots;

    let spoilt = (help & 2 != 0).then(|| (input.byte() as usize % (size_of::<Header>() / 8), input.word()));
    let mut cells = vec![Cell([0; CELL_WORDS]); HEADER_BYTES / CELL_BYTES];
    cells.extend(memory(input.0, segment_bytes as usize - HEADER_BYTES));
    let mut set = |at: usize, value: u64| cells[at / CELL_BYTES].0[at % CELL_BYTES / 8] = value;
    set(0, MAGIC);
    set(8, u64::from(VERSION) | u64::from(ENDIANNESS) << 32);
    set(offset_of!(Header, pid), u64::from(HostClock::MonotonicRaw as u32) << 32);
    set(offset_of!(Header, segment_bytes), segment_bytes);
    set(offset_of!(Header, slots_at), HEADER_BYTES as u64);
    set(offset_of!(Header, slot_bytes), slot_bytes);
    set(offset_of!(Header, slots), slots);
    set(offset_of!(Header, rings_at), rings_at);
    set(offset_of!(Header, region_bytes), region_bytes);
    for (level, cells) in level_cells.into_iter().enumerate() {
        set(offset_of!(Header, level_cells) + level * 8, cells);
    }
    if let Some((word, value)) = spoilt {
        set(word * 8, value);
    }
    if help & 4 != 0 {
        let cursors = (HEADER_BYTES + offset_of!(Slot, cursors)) / CELL_BYTES;
        for slot in 0..slots as usize {
            let at = cursors + slot * slot_bytes as usize / CELL_BYTES;
            let head = cells[at + 1].0[0] & !7;
            cells[at].0[0] = head.wrapping_add((cells[at].0[0] % (2 * region_bytes / 8)) & !7);
            cells[at + 1].0[0] = head;
            for moved in 0..LEVELS - 1 {
                let word = &mut cells[at + 2].0[moved];
                *word = head.wrapping_add(*word % (region_bytes / 8));
            }
        }
    }
    cells
}

/// The bytes of a segment.
#[allow(dead_code, reason = "only some of those that share this file send a segment")]
pub fn bytes(cells: &[Cell]) -> &[u8] {
    // SAFETY: cells are integers without padding, and the slice has their size.
    unsafe { std::slice::from_raw_parts(cells.as_ptr().cast(), size_of_val(cells)) }
}

/// Reads the input as a segment, every slot to its end, with every decoder. Panics where the contract is
/// broken.
pub fn read(input: &[u8]) -> Outcome {
    if let Some(hello) = input.first_chunk::<{ handshake::BYTES }>().and_then(Hello::from_bytes) {
        assert_eq!(&hello.to_bytes(), input.first_chunk().unwrap());
    }
    let mut memory = segment(input);
    let bytes = size_of_val(&memory[..]) as u64;
    let mut outcome = Outcome::default();
    // SAFETY: aligned by `Cell` and alive until the end of this function, and this thread does not use it
    // otherwise. The reader stores to `head`, but `memory` is never read again as plain values.
    let segment = match unsafe { Segment::attach(memory.as_mut_ptr().cast(), bytes) } {
        Ok(segment) => segment,
        Err(why) => return Outcome { refused: Some(why), ..outcome },
    };
    let layout = segment.layout();
    assert!(layout.segment_bytes <= bytes);
    assert!(
        segment.slot(layout.slots as usize).is_none() && segment.buffers(layout.slots as usize).is_none()
    );
    for slot in 0..layout.slots as usize {
        drain(&segment, slot, &mut outcome);
    }
    outcome
}

fn drain(segment: &Segment<'_>, index: usize, outcome: &mut Outcome) {
    let (slot, buffers) = (segment.slot(index).unwrap(), segment.buffers(index).unwrap());
    let _ = slot.state.get();
    let cells_at_most: usize = buffers.iter().map(|b| b.len()).sum();
    let mut reader = Reader::new(&slot.cursors, buffers).expect("a checked layout");
    let mut out = [0; MAX_RECORD_WORDS];
    // Nobody else writes here, so that a round ends after the last cell at the latest.
    for _ in 0..=cells_at_most / CELL_WORDS {
        match reader.pop(&mut out) {
            Ok(None) => break,
            Ok(Some(words)) => {
                outcome.records += 1;
                outcome.decoded += usize::from(decode(words));
            }
            Err(Corrupt { .. }) => {
                outcome.corrupt += 1;
                // Nothing follows the invalid words: the rest is empty, or `tail` is reported again with no
                // words.
                assert!(matches!(reader.pop(&mut out), Ok(None) | Err(Corrupt { words: 0 })));
                break;
            }
        }
    }
    reader.release();
}

/// Passes a record to every decoder. Returns whether one accepted it; at most one does.
fn decode(words: &[u64]) -> bool {
    fn accepted_by<T: Record + PartialEq + std::fmt::Debug>(words: &[u64]) -> usize {
        let Some(record) = T::from_words(words) else { return 0 };
        assert_eq!(record.as_words(), &words[..record.as_words().len()]);
        assert_eq!(Kind::from_wire(words[0].to_ne_bytes()[0]), Some(T::KIND));
        1
    }
    let mut accepted = accepted_by::<Launch>(words)
        + accepted_by::<Memcpy>(words)
        + accepted_by::<Memset>(words)
        + accepted_by::<GraphLaunch>(words)
        + accepted_by::<Alloc>(words)
        + accepted_by::<Free>(words)
        + accepted_by::<Synchronize>(words)
        + accepted_by::<Api>(words)
        + accepted_by::<GpuTime>(words)
        + accepted_by::<Anchor>(words)
        + accepted_by::<Loss>(words)
        + accepted_by::<Context>(words)
        + accepted_by::<Stream>(words)
        + accepted_by::<Graph>(words)
        + accepted_by::<Module>(words)
        + accepted_by::<Device>(words);
    accepted += usize::from(EventOp::of(words).is_some());
    if let Some((intern, text)) = Intern::text(words) {
        assert_eq!(text.len(), usize::from(intern.length));
        assert!(text.len() <= MAX_TEXT);
        accepted += 1;
    }
    let head = Head::of(words).unwrap();
    let _ = (Via::from_wire(head.via), Kind::from_wire(head.kind));
    assert!(accepted <= 1);
    accepted == 1
}
