//! How are the packets of a file compressed, so that the file is still a trace?
//!
//! A packet can have other packets in it, compressed (`compressed_packets`). Readers unpack them where they stand, so that files
//! can still be put together. Each such packet is compressed by itself.

use super::packets::PACKET;
use super::proto::TracePacket;
use crate::export::COMPRESSION;
use flate2::write::ZlibEncoder;
use prost::Message;
use std::io::{self, Write};

/// About so many bytes of packets are compressed together. More make a file no smaller that anybody would notice, and a reader
/// needs as much memory.
const BLOCK: usize = 1 << 18;

/// A trace that is compressed as it is written. What was written is in the file after `flush`.
#[derive(Debug)]
pub struct Packed<W> {
    out: W,
    /// What is not in the file yet. It begins with a packet.
    waiting: Vec<u8>,
    /// Whether the file has its first packet, which is never compressed: it says by which program the file is.
    has_begun: bool,
}

impl<W: Write> Packed<W> {
    /// Begins a file.
    pub fn new(out: W) -> Packed<W> {
        Packed { out, waiting: Vec::new(), has_begun: false }
    }

    /// Writes the packets that are whole.
    fn pack(&mut self) -> io::Result<()> {
        if !self.has_begun
            && let Some(first) = length(&self.waiting)
        {
            self.out.write_all(&self.waiting[..first])?;
            self.waiting.drain(..first);
            self.has_begun = true;
        }
        let mut end = 0;
        while let Some(length) = length(&self.waiting[end..]) {
            end += length;
        }
        if end == 0 {
            return Ok(());
        }
        let mut encoder = ZlibEncoder::new(Vec::new(), COMPRESSION);
        encoder.write_all(&self.waiting[..end])?;
        self.waiting.drain(..end);
        let packet = TracePacket { compressed_packets: Some(encoder.finish()?), ..TracePacket::default() };
        let mut bytes = vec![PACKET];
        packet.encode_length_delimited(&mut bytes).map_err(io::Error::other)?;
        self.out.write_all(&bytes)
    }
}

/// Returns the length of the packet that some bytes begin with, with what comes before it, if all of it is there.
fn length(bytes: &[u8]) -> Option<usize> {
    let mut rest = bytes.strip_prefix(&[PACKET])?;
    let inner = prost::decode_length_delimiter(&mut rest).ok()?;
    let length = (bytes.len() - rest.len()).checked_add(inner)?;
    (length <= bytes.len()).then_some(length)
}

impl<W: Write> Write for Packed<W> {
    fn write(&mut self, part: &[u8]) -> io::Result<usize> {
        self.waiting.extend_from_slice(part);
        if self.waiting.len() >= BLOCK {
            self.pack()?;
        }
        Ok(part.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.pack()?;
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::super::proto::Trace;
    use super::*;
    use flate2::read::ZlibDecoder;
    use std::io::Read;

    /// The packets of a file, those that were compressed unpacked, and how many packets the file itself has.
    fn unpacked(file: &[u8]) -> (Vec<TracePacket>, usize) {
        let packets = Trace::decode(file).unwrap().packet;
        let count = packets.len();
        let inner = |packet: TracePacket| match &packet.compressed_packets {
            None => vec![packet],
            Some(compressed) => {
                let mut bytes = Vec::new();
                ZlibDecoder::new(&compressed[..]).read_to_end(&mut bytes).unwrap();
                Trace::decode(&bytes[..]).unwrap().packet
            }
        };
        (packets.into_iter().flat_map(inner).collect(), count)
    }

    fn packets(count: u64) -> Vec<TracePacket> {
        let packet =
            |n| TracePacket { timestamp: Some(n * n), sequence_flags: Some(2), ..TracePacket::default() };
        (0..count).map(packet).collect()
    }

    /// The file of some packets that are written in parts of so many bytes.
    fn file(packets: &[TracePacket], part: usize) -> Vec<u8> {
        let plain = Trace { packet: packets.to_vec() }.encode_to_vec();
        let mut out = Vec::new();
        let mut packed = Packed::new(&mut out);
        plain.chunks(part).for_each(|part| packed.write_all(part).unwrap());
        packed.flush().unwrap();
        out
    }

    #[test]
    fn compressed_packets_are_those_that_were_written() {
        for (count, part) in [(0, 1), (1, 1), (2, 1), (1_000, 7), (100_000, 1 << 18), (100_000, 40_007)] {
            let packets = packets(count);
            let file = file(&packets, part);
            let (read, compressed) = unpacked(&file);
            assert!(read == packets, "{count} packets in parts of {part} bytes");
            let plain = Trace { packet: packets }.encoded_len();
            assert!(compressed <= 2 + 2 * plain / BLOCK, "{compressed} packets of {plain} bytes");
            assert!(count < 100_000 || file.len() < plain / 2, "{} bytes of {plain}", file.len());
        }
    }

    #[test]
    fn the_first_packet_is_not_compressed_and_files_can_be_put_together() {
        let packets = packets(3);
        let file = file(&packets, 5);
        let first = Trace { packet: packets[..1].to_vec() }.encode_to_vec();
        assert!(file.starts_with(&first));
        let twice = [&packets[..], &packets[..]].concat();
        assert_eq!(unpacked(&[&file[..], &file[..]].concat()).0, twice);
    }

    #[test]
    fn a_file_that_cannot_be_written_is_an_error() {
        let mut full = [0; 20];
        let mut packed = Packed::new(&mut full[..]);
        let written = packed.write_all(&Trace { packet: packets(1_000) }.encode_to_vec());
        assert!(written.and_then(|()| packed.flush()).is_err());
    }
}
