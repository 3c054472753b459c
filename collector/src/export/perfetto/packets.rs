//! How do packets follow each other in a file, and what has each sequence of them said?

use super::interned::{Set, Texts, said};
use super::proto::{
    Clock, ClockSnapshot, InternedData, NEEDS_STATE, OWN_CLOCK, REALTIME, STATE_CLEARED, TracePacket,
    TracePacketDefaults, TrackEventDefaults,
};
use crate::export::timeline::sink::{Category, Key};
use prost::Message;
use std::io::{self, Write};

/// The packets of a file.
#[derive(Debug)]
pub(super) struct Packets<W> {
    pub out: W,
    /// The number of the last sequence.
    pub sequences: u32,
    /// The packet that is put together, and what comes before it.
    pub packet: Vec<u8>,
    pub head: Vec<u8>,
}

/// The packets of a track's events.
#[derive(Debug)]
pub(super) struct Sequence {
    id: u32,
    /// What its clock shows: ns of the real-time clock.
    now: u64,
    /// The categories and the names of arguments that it has said: a bit for each.
    bits: u64,
    names: Set,
    values: Set,
}

// Both fit in a word.
const _: () = assert!(Category::ALL.len() + Key::ALL.len() <= 64);

pub(super) fn bit_of_category(category: Category) -> u64 {
    1 << category as usize
}

pub(super) fn bit_of_key(key: Key) -> u64 {
    1 << (Category::ALL.len() + key as usize)
}

/// The fields of a packet in a file, and of an event in a packet: numbers 1 and 11, both messages.
pub(super) const PACKET: u8 = 1 << 3 | 2;
const TRACK_EVENT: u8 = 11 << 3 | 2;

impl<W: Write> Packets<W> {
    /// Writes a packet, with an event that is put together already.
    pub fn write(&mut self, packet: &TracePacket, event: &[u8]) -> io::Result<()> {
        self.packet.clear();
        put(packet, &mut self.packet);
        if !event.is_empty() {
            self.packet.push(TRACK_EVENT);
            put_length(event.len(), &mut self.packet);
            self.packet.extend_from_slice(event);
        }
        self.head.clear();
        self.head.push(PACKET);
        put_length(self.packet.len(), &mut self.head);
        self.out.write_all(&self.head)?;
        self.out.write_all(&self.packet)
    }

    /// Begins the sequence of a track. Its clock begins at `base`.
    pub fn sequence(&mut self, track: u64, base: u64) -> io::Result<Sequence> {
        self.sequences = self.sequences.saturating_add(1);
        let id = self.sequences;
        let real = Clock { clock_id: Some(REALTIME), timestamp: Some(base), is_incremental: None };
        let own = Clock { clock_id: Some(OWN_CLOCK), timestamp: Some(0), is_incremental: Some(true) };
        let clocks = ClockSnapshot { clocks: vec![real, own], primary_trace_clock: Some(REALTIME) };
        let defaults = TracePacketDefaults {
            timestamp_clock_id: Some(OWN_CLOCK),
            track_event_defaults: Some(TrackEventDefaults { track_uuid: Some(track) }),
        };
        self.write(
            &TracePacket {
                trusted_packet_sequence_id: Some(id),
                sequence_flags: Some(STATE_CLEARED),
                clock_snapshot: Some(Box::new(clocks)),
                trace_packet_defaults: Some(Box::new(defaults)),
                ..TracePacket::default()
            },
            &[],
        )?;
        Ok(Sequence { id, now: base, bits: 0, names: Set::default(), values: Set::default() })
    }

    /// Writes an event of a sequence, and the texts of which the sequence has not said what stands for them.
    pub fn event(
        &mut self,
        sequence: &mut Sequence,
        at: u64,
        interned: Option<Box<InternedData>>,
        event: &[u8],
    ) -> io::Result<()> {
        let (timestamp, timestamp_clock_id) = match at.checked_sub(sequence.now) {
            Some(since) => (since, None),
            None => (at, Some(REALTIME)),
        };
        sequence.now = sequence.now.max(at);
        self.write(
            &TracePacket {
                timestamp: Some(timestamp),
                timestamp_clock_id,
                trusted_packet_sequence_id: Some(sequence.id),
                sequence_flags: Some(NEEDS_STATE),
                interned_data: interned,
                ..TracePacket::default()
            },
            event,
        )
    }
}

/// What a sequence has to say before an event.
#[derive(Debug)]
pub(super) struct Said<'s> {
    sequence: &'s mut Sequence,
    new: Option<Box<InternedData>>,
}

impl<'s> Said<'s> {
    pub fn new(sequence: &'s mut Sequence) -> Said<'s> {
        Said { sequence, new: None }
    }

    /// Takes the name of an event.
    pub fn name(&mut self, names: &Texts, index: usize) {
        if self.sequence.names.insert(index) {
            self.new.get_or_insert_default().event_names.push(names.said(index));
        }
    }

    /// Takes categories and names of arguments, a bit for each, and texts of arguments.
    pub fn of(&mut self, values: &Texts, bits: u64, texts: &[usize]) {
        let missing = bits & !self.sequence.bits;
        if missing != 0 {
            self.sequence.bits |= bits;
            let new = self.new.get_or_insert_default();
            for category in Category::ALL.iter().filter(|one| missing & bit_of_category(**one) != 0) {
                new.event_categories.push(said(*category as usize, category.name()));
            }
            for key in Key::ALL.iter().filter(|one| missing & bit_of_key(**one) != 0) {
                new.debug_annotation_names.push(said(*key as usize, key.name()));
            }
        }
        for index in texts {
            if self.sequence.values.insert(*index) {
                let new = self.new.get_or_insert_default();
                new.debug_annotation_string_values.push(values.said(*index));
            }
        }
    }

    /// What is new to the sequence.
    pub fn finish(self) -> Option<Box<InternedData>> {
        self.new
    }
}

/// Appends a message.
pub(super) fn put(message: &impl Message, out: &mut Vec<u8>) {
    // A vector has room for any message.
    let _ = message.encode(out);
}

/// Appends a message behind its length.
pub(super) fn put_length_delimited(message: &impl Message, out: &mut Vec<u8>) {
    let _ = message.encode_length_delimited(out); // As above.
}

fn put_length(length: usize, out: &mut Vec<u8>) {
    let _ = prost::encode_length_delimiter(length, out); // As above.
}
