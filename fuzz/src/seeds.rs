//! Makes the first inputs of each target, from our own writers and traces: `src/bin/seeds.rs` keeps them in `corpus`.

use crate::mutation::Random;
use gpuspy_collector::trace::format::{HEADER_BYTES, Header};
use gpuspy_collector::trace::record::Record;
use gpuspy_collector::trace::{TraceReader, TraceWriter};
use gpuspy_wire::handshake::{BEGUN, FAILED, Hello};
use gpuspy_wire::record::{CELL_BYTES, Kind, Namespace, RECORD_VERSION};
use std::collections::HashMap;
use std::io;
use std::mem::discriminant;
use std::path::Path;

/// How many records of each kind a small trace has.
const EACH: usize = 6;
/// How many names of each kind it has, beside those of the functions that its records call.
const MOST_NAMES: usize = 24;

/// Returns a trace of the first records of each kind of another, without compression, so that a changed byte is a changed
/// value.
///
/// # Errors
/// One of them cannot be read or written.
pub fn small_trace(trace: &Path) -> io::Result<Vec<u8>> {
    let mut reader = TraceReader::open(trace).map_err(|why| io::Error::other(why.to_string()))?;
    let mut counts = HashMap::new();
    let is_wanted = |record: &Record| {
        let count = counts.entry(discriminant(&record.body)).or_insert(0);
        *count += 1;
        *count <= EACH
    };
    let records: Vec<Record> = reader.records().filter(is_wanted).collect();
    let (names, status) = (reader.names().clone(), reader.status().cloned().unwrap_or_default());
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("small.gspy");
    let mut writer = TraceWriter::create(&path, &status)?;
    let is_called = |id: u32| {
        records.iter().filter_map(|record| record.body.call()).any(|call| u32::from(call.api) == id)
    };
    let mut counts = HashMap::new();
    for ((space, id), text) in &names.0 {
        let count = counts.entry(*space).or_insert(0);
        *count += 1;
        if if *space == Namespace::Api { is_called(*id) } else { *count <= MOST_NAMES } {
            // Of long ones, as paths are, the start is enough.
            writer.name(*space, *id, text.get(..80).unwrap_or(text))?;
        }
    }
    for record in &records {
        writer.push(record.clone())?;
    }
    writer.finish(&status)?;
    Ok(unpacked(&std::fs::read(path)?))
}

/// Returns a trace with every chunk decompressed.
fn unpacked(bytes: &[u8]) -> Vec<u8> {
    let (mut out, mut rest) = (Vec::new(), bytes);
    while let Some(header) = rest.first_chunk::<HEADER_BYTES>().and_then(Header::from_bytes) {
        let (payload, others) = rest[HEADER_BYTES..].split_at(header.payload_bytes as usize);
        rest = others;
        let plain = header.unpack(payload.to_vec()).expect("it was just written");
        let (payload_bytes, payload_checksum) = (plain.len() as u32, crc32fast::hash(&plain));
        out.extend(Header { flags: 0, payload_bytes, payload_checksum, ..header }.to_bytes());
        out.extend(plain);
    }
    out
}

/// Returns a record of each kind, with small numbers in all fields.
pub fn records() -> Vec<u8> {
    let mut random = Random(16);
    let mut bytes = Vec::new();
    for kind in (0..=u8::MAX).filter_map(Kind::from_wire) {
        for cells in 1..=3u8 {
            let mut record = vec![0u8; usize::from(cells) * CELL_BYTES];
            record
                .iter_mut()
                .for_each(|byte| *byte = if random.below(3) == 0 { random.below(5) as u8 } else { 0 });
            record[..8].copy_from_slice(&[kind as u8, cells, RECORD_VERSION, 1, 1, 0, 0, 0]);
            bytes.extend(record);
        }
    }
    bytes
}

/// Returns inputs of the target `segment`, of which the first byte says how well-formed they are.
pub fn segments() -> Vec<(&'static str, Vec<u8>)> {
    let mut random = Random(17);
    let mut with = |help: u8| {
        let mut bytes = vec![help, 1, 5, 5, 5];
        if help & 2 != 0 {
            bytes.extend([11, 8, 0, 0, 0, 0, 0, 0, 0]);
        }
        // Slots come first: their words are mostly small.
        for _ in 0..96 {
            let word = if random.below(3) == 0 { random.number() & 0x1ff8 } else { random.below(4) as u64 };
            bytes.extend(word.to_ne_bytes());
        }
        bytes.extend(records());
        bytes
    };
    vec![("any", vec![0; 80]), ("whole", with(5)), ("spoilt", with(7)), ("loose", with(1))]
}

/// Returns inputs of the target `handshake`.
pub fn handshakes() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("hello", Hello::new(4242, 1, 1 << 20).to_bytes().to_vec()),
        ("begun", BEGUN.as_bytes().to_vec()),
        ("failed", format!("{BEGUN}{FAILED}No space left on device\n").into_bytes()),
    ]
}
