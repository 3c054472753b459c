//! Cut, damaged and forged traces: intact parts are read, losses are reported, and nothing else goes wrong.

mod trace_common;

use gpuspy_collector::trace::format::{ChunkKind, FLAG_ZSTD, HEADER_BYTES, Header, MAX_ENTRIES, VERSION};
use gpuspy_collector::trace::generator::{Generator, Options, Random};
use gpuspy_collector::trace::record::*;
use gpuspy_collector::trace::{TraceError, TraceReader, TraceWriter, read_bytes};
use gpuspy_wire::record::{Namespace, Untimed};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::io::Cursor;
use trace_common::{Numbers, read, status, written};

/// Returns a small trace with chunks of every kind, three of them with records and one with late times; and its records.
fn sample() -> (Vec<u8>, Vec<Record>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.gspy");
    let mut writer = TraceWriter::create(&path, &status(Ending::Running)).unwrap();
    let mut generator =
        Generator::new(11, Options { kernels: 9, threads: 2, other_calls: true, ..Options::default() });
    let mut random = Random(3);
    let mut records: Vec<Record> = generator.by_ref().take(45).collect();
    let others = (0..16).map(|i| {
        let at = records[20].at;
        Record { at, ..Numbers(std::iter::repeat_with(|| random.word())).record(i) }
    });
    let others: Vec<Record> = others.collect();
    records.splice(21..21, others);
    for (namespace, id, text) in generator.names() {
        writer.name(namespace, id, &text).unwrap();
    }
    let mut late = Vec::new();
    for (i, record) in records.iter().enumerate() {
        let mut record = record.clone();
        if let Body::Work(work) = &mut record.body
            && i % 3 == 0
            && work.untimed == Untimed::Timed
        {
            late.extend(work.gpu.take().map(|gpu| (work.call.correlation, gpu)));
        }
        writer.push(record).unwrap();
        if i == 25 || i == 40 {
            writer.flush().unwrap();
        }
    }
    for (correlation, time) in late {
        writer.gpu_time(correlation, time).unwrap();
    }
    writer.finish(&status(Ending::Exited)).unwrap();
    (std::fs::read(&path).unwrap(), records)
}

/// Returns the chunks of an undamaged file, each with its offset and its header.
fn chunks(bytes: &[u8]) -> Vec<(usize, Header)> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let header = Header::from_bytes(bytes[at..].first_chunk().unwrap()).unwrap();
        found.push((at, header));
        at += HEADER_BYTES + header.payload_bytes as usize;
    }
    found
}

/// Returns a record without its GPU time.
fn untimed(record: &Record) -> Record {
    let mut record = record.clone();
    if let Body::Work(work) = &mut record.body {
        work.gpu = None;
    }
    record
}

/// Reads what is left of the sample and checks it: the records must be a part of the original ones, in order, each unchanged or
/// without its time, and no more may be reported as lost than is missing. Returns the counts of read and lost records.
fn check(bytes: &[u8], truth: &[Record]) -> Option<(u64, u64)> {
    let mut reader = match TraceReader::new(Cursor::new(bytes)) {
        Ok(reader) => reader,
        Err(error) => {
            assert!(error.to_string().len() > 10);
            return None;
        }
    };
    let read: Vec<Record> = reader.records().collect();
    let mut rest = truth.iter();
    for record in &read {
        assert!(
            rest.any(|true_one| record == true_one || *record == untimed(true_one)),
            "not true, or not in order: {record:?}"
        );
    }
    let damage = reader.damage();
    let lost = damage.records_lost_at_least;
    assert!(read.len() as u64 + lost <= truth.len() as u64, "{damage:?}");
    assert!(damage.bytes_skipped <= bytes.len() as u64);
    assert!(read.len() == truth.len() || !damage.is_none() || !reader.complete(), "silent loss");
    Some((read.len() as u64, lost))
}

#[test]
fn the_sample_has_chunks_of_every_kind() {
    let (bytes, records) = sample();
    assert_eq!(read(&bytes), records);
    let kinds: Vec<u8> = chunks(&bytes).iter().map(|(_, header)| header.kind).collect();
    for kind in 1..=6 {
        assert!(kinds.contains(&kind), "{kind} in {kinds:?}");
    }
    assert_eq!(kinds.iter().filter(|kind| **kind == ChunkKind::Records as u8).count(), 3);
}

#[test]
fn cut_at_every_byte() {
    let (bytes, truth) = sample();
    let chunks = chunks(&bytes);
    let mut readable = 0;
    for end in 0..bytes.len() {
        let whole =
            |(at, header): &&(usize, Header)| at + HEADER_BYTES + header.payload_bytes as usize <= end;
        let records = chunks.iter().filter(whole).filter(|(_, h)| h.kind == ChunkKind::Records as u8);
        let expected: u64 = records.map(|(_, header)| u64::from(header.entries)).sum();
        match check(&bytes[..end], &truth) {
            Some((read, _)) => {
                readable += 1;
                assert_eq!(read, expected, "read to the last whole chunk, cut at {end}");
            }
            None => assert!(end < chunks[1].0 + HEADER_BYTES + chunks[1].1.payload_bytes as usize),
        }
        let cut = TraceReader::new(Cursor::new(&bytes[..end]));
        if let Ok(cut) = cut {
            assert!(!cut.complete());
            let at_boundary = chunks.iter().any(|(at, _)| *at == end);
            assert_eq!(cut.damage().cut, !at_boundary, "cut at {end}");
        }
    }
    assert!(readable > bytes.len() - 500);
}

#[test]
fn every_byte_flipped() {
    let (bytes, truth) = sample();
    let whole = truth.len() as u64;
    for (at, header) in chunks(&bytes) {
        let payload = at + HEADER_BYTES;
        for place in at..payload + header.payload_bytes as usize {
            for pattern in [0xff, 1 << (place % 8)] {
                let mut flipped = bytes.clone();
                flipped[place] ^= pattern;
                let (read, lost) = check(&flipped, &truth).expect("one byte does not take all");
                if header.kind == ChunkKind::Records as u8 {
                    let entries = u64::from(header.entries);
                    assert_eq!((read, lost), (whole - entries, entries), "flipped at {place}");
                } else {
                    assert_eq!((read, lost), (whole, 0), "flipped at {place}");
                }
            }
        }
    }
}

/// A report took the time of a damaged chunk for time in which the program did nothing.
#[test]
fn of_a_damaged_chunk_it_is_known_when_its_records_were_made() {
    let (bytes, truth) = sample();
    let chunks = chunks(&bytes);
    let whole = TraceReader::new(Cursor::new(&bytes)).unwrap().lost_time();
    let of_records = chunks.iter().filter(|(_, header)| header.kind == ChunkKind::Records as u8);
    let last = of_records.clone().count() - 1;
    for (n, (at, header)) in of_records.enumerate() {
        // In the payload; and in the header, so that nothing is known of the last chunk.
        for place in [at + HEADER_BYTES + 1, at + 1] {
            let mut damaged = bytes.clone();
            damaged[place] ^= 0xff;
            let mut reader = TraceReader::new(Cursor::new(damaged)).unwrap();
            let read: Vec<Record> = reader.records().collect();
            let mut lost = reader.lost_time().sorted();
            lost.retain(|stretch| !whole.clone().sorted().contains(stretch));
            if n == last && place == at + 1 {
                assert_eq!(lost, [], "nothing comes after it");
                continue;
            }
            let [(from, to)] = lost[..] else { panic!("{lost:?}") };
            let missing =
                truth.iter().filter(|one| !read.iter().any(|read| read == *one || *read == untimed(one)));
            assert!(missing.clone().count() > 5);
            missing.for_each(|one| assert!((from..=to).contains(&one.at), "{from} {to} {one:?}"));
            assert!(from <= header.first && header.last <= to, "{header:?} {from} {to}");
        }
    }
}

/// "No record lost" was said of a trace whose end could not be read.
#[test]
fn of_a_chunk_that_none_follows_it_is_not_known_how_many_records_it_had() {
    let (bytes, _) = sample();
    let chunks = chunks(&bytes);
    let (last, _) = *chunks.last().unwrap();
    for (at, _) in chunks {
        let mut damaged = bytes.clone();
        damaged[at + 5] ^= 0xff;
        let damage = TraceReader::new(Cursor::new(damaged)).unwrap().damage();
        assert_eq!((damage.chunks_lost, damage.end_unread), (1, at == last), "chunk at {at}");
    }
}

/// Returns a chunk with valid checksums and any content.
fn chunk(kind: u8, version: u8, flags: u16, payload: &[u8], plain: u32, entries: u32) -> Vec<u8> {
    let header = Header {
        kind,
        version,
        flags,
        payload_bytes: payload.len() as u32,
        plain_bytes: plain,
        entries,
        payload_checksum: crc32fast::hash(payload),
        sequence: 0,
        records_before: 0,
        first: 0,
        last: u64::MAX,
    };
    [&header.to_bytes()[..], payload].concat()
}

/// Returns a chunk with a changed payload and valid checksums.
fn forge(bytes: &[u8], (at, header): (usize, Header), change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let payload = bytes[at + HEADER_BYTES..][..header.payload_bytes as usize].to_vec();
    let mut plain = header.unpack(payload).unwrap();
    change(&mut plain);
    let forged = Header {
        flags: 0,
        payload_bytes: plain.len() as u32,
        plain_bytes: plain.len() as u32,
        payload_checksum: crc32fast::hash(&plain),
        ..header
    };
    [&forged.to_bytes(), &plain[..]].concat()
}

#[test]
fn every_payload_byte_forged_with_valid_checksums() {
    let (bytes, _) = sample();
    let end = *chunks(&bytes).last().unwrap();
    for (at, header) in chunks(&bytes) {
        let entries = if header.kind == ChunkKind::Records as u8 { u64::from(header.entries) } else { 0 };
        for place in 0..header.plain_bytes as usize {
            let forged = forge(&bytes, (at, header), |plain| plain[place] ^= 1 << (place % 8));
            // The forged chunk, followed by one that can always be read.
            let Ok(mut reader) = TraceReader::new(Cursor::new([&forged, &bytes[end.0..]].concat())) else {
                panic!("the end is readable")
            };
            // Records may be wrong now, but there are never more than before, they are in order, and losses are reported.
            let read: Vec<u64> = reader.records().map(|record| record.at).collect();
            assert!(read.len() as u64 <= entries && read.is_sorted());
            let before = end.1.records_before - entries; // of the chunks left out
            let lost = reader.damage().records_lost_at_least - before;
            assert!(read.len() as u64 + lost <= entries);
        }
    }
}

#[test]
fn unknown_chunks_versions_and_columns_are_skipped() {
    let (bytes, truth) = sample();
    let all = chunks(&bytes);
    let middle = all[all.len() / 2];
    let unknown_kind = chunk(77, VERSION, 0, b"from the future", 15, 1);
    let newer_records = chunk(ChunkKind::Records as u8, VERSION + 1, 9, b"who knows", 1_000, 5);
    for strange in [unknown_kind, newer_records] {
        let with = [&bytes[..middle.0], &strange, &bytes[middle.0..]].concat();
        assert_eq!(read(&with), truth);
        let mut reader = TraceReader::new(Cursor::new(&with)).unwrap();
        assert!(reader.records().count() == truth.len() && reader.complete());
    }
    // An unknown column, first in the table, with its data first after the table.
    let records = *all.iter().find(|(_, h)| h.kind == ChunkKind::Records as u8).unwrap();
    let chunk_with_column = forge(&bytes, records, |plain| {
        let count = u32::from_le_bytes(*plain.first_chunk().unwrap());
        plain[..4].copy_from_slice(&(count + 1).to_le_bytes());
        let table_end = 4 + 24 * count as usize;
        plain.splice(table_end..table_end, [1, 2, 3]);
        let mut entry = vec![1, 60, 0, 0, 1, 0, 0, 0, 3, 0, 0, 0, 3, 0, 0, 0];
        entry.extend([0; 8]);
        plain.splice(4..4, entry);
    });
    let behind = records.0 + HEADER_BYTES + records.1.payload_bytes as usize;
    let with_column = [&bytes[..records.0], &chunk_with_column, &bytes[behind..]].concat();
    assert_eq!(read(&with_column), truth);
    assert!(TraceReader::new(Cursor::new(&with_column)).unwrap().damage().is_none());
}

#[test]
fn garbage_between_chunks_is_skipped_and_counted() {
    let (bytes, truth) = sample();
    for (at, _) in chunks(&bytes) {
        let garbage: Vec<u8> = b"GSPY".iter().copied().cycle().take(70_001).collect();
        let with = [&bytes[..at], &garbage, &bytes[at..]].concat();
        let mut reader = TraceReader::new(Cursor::new(&with)).unwrap();
        assert!(reader.records().eq(truth.iter().cloned()));
        assert_eq!(reader.damage().bytes_skipped, 70_001);
    }
}

#[test]
fn files_that_are_not_traces_are_refused_with_a_reason() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        TraceReader::open(&path).unwrap_err()
    };
    assert!(matches!(TraceReader::open(&folder.path().join("none")).unwrap_err(), TraceError::NotFound));
    assert!(matches!(TraceReader::open(folder.path()).unwrap_err(), TraceError::IsDirectory));
    assert!(matches!(file("empty", b""), TraceError::Empty));
    assert!(matches!(file("text", &b"hello world\n".repeat(100)), TraceError::NotATrace));
    assert!(matches!(file("start", b"GSPY and then something else"), TraceError::NothingReadable));
    let newer = chunk(ChunkKind::File as u8, VERSION + 1, 0, b"", 0, 0);
    assert!(matches!(file("newer", &newer), TraceError::Newer(v) if v == VERSION + 1));
    let head = chunk(ChunkKind::File as u8, VERSION, 0, b"", 0, 0);
    assert!(matches!(file("head", &head), TraceError::NothingReadable));
}

#[test]
fn memory_for_chunks_that_expand_greatly_is_bounded() {
    // Each of these 2000 chunks claims the maximum number of records, all equal and at the same times. A reader that opened all
    // of them would use gigabytes.
    let payload = {
        let mut plain = 1u32.to_le_bytes().to_vec();
        plain.extend([0, 0, 0, 0, 0, 0, 0, 0]);
        plain.extend(MAX_ENTRIES.to_le_bytes());
        plain.extend(MAX_ENTRIES.to_le_bytes());
        plain.extend(14u64.to_le_bytes()); // kind: loss
        plain
    };
    let one = chunk(ChunkKind::Records as u8, VERSION, 0, &payload, payload.len() as u32, MAX_ENTRIES);
    let bytes = one.repeat(2_000);
    let mut reader = TraceReader::new(Cursor::new(&bytes)).unwrap();
    // A loss with cause 0 is invalid, so each chunk is rejected at its first record.
    assert_eq!(reader.records().count(), 0);
    assert_eq!(reader.damage().records_lost_at_least, 2_000 * u64::from(MAX_ENTRIES));

    // A frame that expands a few bytes to 16 MiB where its header allows 100 bytes.
    let bomb = zstd::bulk::compress(&vec![0; 16 << 20], 1).unwrap();
    let records = chunk(ChunkKind::Records as u8, VERSION, FLAG_ZSTD, &bomb, 100, 1);
    let mut reader = TraceReader::new(Cursor::new(&records)).unwrap();
    assert_eq!((reader.records().count(), reader.damage().chunks_lost), (0, 1));
}

#[test]
fn chunks_lost_to_too_much_overlap_are_reported() {
    // Valid records in more chunks over the same time than a reader may keep open.
    let loss = Record {
        thread: 0,
        at: 5,
        body: Body::Loss { cause: gpuspy_wire::record::LossCause::RingFull, count: 1 },
    };
    let bytes = written(&[loss.clone(), loss]);
    let (at, header) = *chunks(&bytes).iter().find(|(_, h)| h.kind == ChunkKind::Records as u8).unwrap();
    let one = &bytes[at..at + HEADER_BYTES + header.payload_bytes as usize];
    let many = one.repeat(1_000);
    let mut reader = TraceReader::new(Cursor::new(&many)).unwrap();
    let read = reader.records().count() as u64;
    let lost = reader.damage().records_lost_at_least;
    assert!(read > 100 && lost > 100, "{read} {lost}");
    assert_eq!(read + lost, 2_000);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn random_corruption(hits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..30)) {
        let (mut bytes, truth) = sample();
        for (index, byte) in hits {
            *index.get_mut(&mut bytes) = byte;
        }
        let _readable = check(&bytes, &truth);
    }

    #[test]
    fn chunks_moved_lost_and_doubled(order in prop::collection::vec(any::<prop::sample::Index>(), 0..12)) {
        let (bytes, _) = sample();
        let all = chunks(&bytes);
        let piece = |(at, header): &(usize, Header)| bytes[*at..at + HEADER_BYTES + header.payload_bytes as usize].to_vec();
        let shuffled = order.iter().flat_map(|index| piece(index.get(&all))).collect::<Vec<u8>>();
        if let Ok(mut reader) = TraceReader::new(Cursor::new(&shuffled)) {
            let moments: Vec<u64> = reader.records().map(|record| record.at).collect();
            prop_assert!(moments.is_sorted());
        }
    }

    #[test]
    fn any_bytes_in_a_records_chunk(payload in prop::collection::vec(any::<u8>(), 0..200), entries in 0u32..100, kind in 0u8..8) {
        read_bytes(&chunk(kind, VERSION, 0, &payload, payload.len() as u32, entries));
    }

    #[test]
    fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        read_bytes(&bytes);
        read_bytes(&[b"GSPY", &bytes[..]].concat());
    }
}

#[test]
fn names_survive_in_other_chunks() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.gspy");
    let mut writer = TraceWriter::create(&path, &status(Ending::Running)).unwrap();
    for id in 1..=3 {
        writer.name(Namespace::Kernel, id, &format!("kernel{id}")).unwrap();
        writer.flush().unwrap();
    }
    writer.finish(&status(Ending::Exited)).unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    let names: Vec<_> =
        chunks(&bytes).into_iter().filter(|(_, h)| h.kind == ChunkKind::Names as u8).collect();
    assert_eq!(names.len(), 3);
    bytes[names[1].0 + HEADER_BYTES] ^= 1;
    let reader = TraceReader::new(Cursor::new(&bytes)).unwrap();
    let left: BTreeMap<_, _> = reader.names().0.clone();
    assert_eq!(left.keys().map(|(_, id)| *id).collect::<Vec<_>>(), [1, 3]);
    assert_eq!(reader.damage().chunks_lost, 1);
}

/// A container was over before its collector had ended the trace of the program that exited in it.
#[test]
fn a_trace_that_was_completed_before_its_process_ended_is_whole_and_may_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.gspy");
    let mut writer = TraceWriter::create(&path, &status(Ending::Running)).unwrap();
    let mut records = Generator::new(11, Options { kernels: 3, threads: 1, ..Options::default() });
    let mut push = |writer: &mut TraceWriter, count| {
        records.by_ref().take(count).for_each(|record| writer.push(record).unwrap());
    };
    let read = || {
        let mut reader = TraceReader::new(Cursor::new(std::fs::read(&path).unwrap())).unwrap();
        let count = reader.records().count();
        assert!(reader.complete() && reader.damage().is_none(), "{:?}", reader.damage());
        (count, reader.status().unwrap().exit)
    };
    push(&mut writer, 1);
    writer.complete(&Status { exit: None, ..status(Ending::Exited) }).unwrap();
    assert_eq!(read(), (1, None));
    push(&mut writer, 2);
    writer.finish(&status(Ending::Exited)).unwrap();
    assert_eq!(read(), (3, status(Ending::Exited).exit));
}
