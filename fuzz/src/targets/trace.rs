//! Trace files, which may come from anybody.

use crate::bounded;
use gpuspy_collector::analyze::{self, Input, Tables};
use gpuspy_collector::export::chrome::Chrome;
use gpuspy_collector::export::flame::{self, Process, Weight};
use gpuspy_collector::export::perfetto::Perfetto;
use gpuspy_collector::export::timeline::sink::Sink;
use gpuspy_collector::export::timeline::{Export, Source, lay_out};
use gpuspy_collector::model::filter::Filter;
use gpuspy_collector::model::stacks::{Stacks, as_lines};
use gpuspy_collector::model::survey::Survey;
use gpuspy_collector::report::html::{self, Page, Timeline};
use gpuspy_collector::report::{Operations, Section, Style, View, json, sentences, terminal};
use gpuspy_collector::trace::TraceReader;
use gpuspy_collector::trace::format::{HEADER_BYTES, MAGIC};
use std::io::{Cursor, sink};

/// Limit on the memory for a trace: what its reader allows itself (`collector/src/trace/limits.rs`) for open chunks, late
/// times, names and one chunk's bytes.
fn most(bytes: usize) -> usize {
    (256 << 20) + 64 * bytes
}

/// Reads a trace as it is, and once more with checksums that are right.
pub fn trace(input: &[u8]) {
    for bytes in [input, &mended(input)] {
        bounded(most(bytes.len()), || {
            let Ok(mut reader) = TraceReader::new(Cursor::new(bytes)) else { return };
            let (mut count, mut last) = (0, 0);
            for record in reader.records() {
                assert!(record.at >= last, "records are in order");
                (count, last) = (count + 1, record.at);
            }
            // As many as the reader allows a file of this size.
            assert!(count <= (1 << 17) + 8 * bytes.len(), "{count} records in {} bytes", bytes.len());
        });
    }
}

/// Makes every report and every export of a trace whose checksums are right.
pub fn report(input: &[u8]) {
    let bytes = mended(input);
    // The analyses keep something for each record, of which there are at most as many as a trace may have.
    bounded(2 * most(bytes.len()), || {
        if let Ok(reader) = TraceReader::new(Cursor::new(&bytes)) {
            report_of(reader);
        }
    });
}

/// Reports a trace in every form. Addresses of native callers are not looked up: the trace names their files.
pub fn report_of<R: std::io::Read + std::io::Seek + Send>(mut reader: TraceReader<R>) {
    let (names, status) = (reader.names().clone(), reader.status().cloned());
    let filter = Filter::default();
    let mut survey = Survey::of_steps(&names);
    reader.each(|record| survey.observe(record));
    let clocks = survey.finish();
    let mut process = |names| {
        analyze::process(Input {
            path: "a.gspy".to_owned(),
            names,
            status: status.as_ref(),
            damage: reader.damage().into(),
            clocks: &clocks,
            filter: &filter,
            records: clocks.callers.on_stacks(reader.records()),
        })
    };
    let lines = as_lines(&names);
    let drawn = Process::of("fuzz".to_owned(), Stacks::of(&names), &process(&lines).tables);
    let reports = [process(&names)];
    let text = json(&reports).to_string();
    assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok());
    let everything = View { sections: vec![Section::All], ..View::default() };
    for (view, width) in [(&everything, 80), (&View::default(), 100)] {
        let screen = terminal(&reports, view, &Style { width, ..Style::default() });
        assert!(
            screen.lines().all(|line| line.chars().count() <= width),
            "wider than {width} columns:\n{screen}"
        );
    }
    let mut timeline = Timeline::default();
    let of_page = html::Source { names: &names, status: status.as_ref(), clocks: &clocks, filter: &filter };
    timeline.add(of_page, clocks.callers.on_stacks(reader.records()));
    let (json, sentences) = (json(&reports), sentences(&reports, Tables::of_run(&reports), &[]));
    let mut page = Vec::new();
    let commands = html::Commands { report: String::new(), of_part: String::new() };
    html::write(&mut page, Page { json, sentences, timeline, commands }).expect("memory takes all");
    let ends = page.windows(8).filter(|text| text == b"</script").count();
    assert_eq!(ends, 8, "no name ends an element: three of data, four tables and the script");
    let mut operations = Operations::new(&names, &clocks, status.as_ref(), &filter);
    for record in reader.records() {
        let line = operations.observe(&record);
        assert!(line.is_none_or(|line| serde_json::from_str::<serde_json::Value>(&line).is_ok()));
    }
    flame::collapsed(sink(), std::slice::from_ref(&drawn), Weight::Gpu).expect("a sink takes all");
    let mut speedscope = Vec::new();
    flame::speedscope(&mut speedscope, &[drawn], &Weight::ALL).expect("memory takes all");
    assert!(serde_json::from_slice::<serde_json::Value>(&speedscope).is_ok());
    let mut source = Source::of(names, status, |observe| reader.each(observe));
    lay_out(&mut [&mut source], &filter);
    let sources = [source];
    let chrome = exported(Chrome::new(Vec::new()), &sources, &mut reader);
    assert!(
        serde_json::from_slice::<serde_json::Value>(&chrome).is_ok(),
        "{}",
        String::from_utf8_lossy(&chrome)
    );
    exported(Perfetto::new(sink()), &sources, &mut reader);
}

fn exported<S: Sink, R: std::io::Read + std::io::Seek + Send>(
    to: S,
    sources: &[Source],
    reader: &mut TraceReader<R>,
) -> S::Out {
    let mut export = Export::begin(to, sources).expect("memory takes all");
    export.process(0, &sources[0], reader.records()).expect("memory takes all");
    export.finish().expect("memory takes all").0
}

/// Returns the bytes with the right checksum in each chunk that is as long as it says, and in each header.
fn mended(input: &[u8]) -> Vec<u8> {
    let mut bytes = input.to_vec();
    let mut at = 0;
    while let Some(found) = bytes.get(at..).and_then(|rest| rest.windows(4).position(|four| four == MAGIC)) {
        at += found;
        let Some(header) = bytes.get(at..at + HEADER_BYTES) else { break };
        let length = u32::from_le_bytes([header[8], header[9], header[10], header[11]]) as usize;
        let payload = at + HEADER_BYTES;
        let is_whole = bytes.len() - payload >= length;
        if is_whole {
            let sum = crc32fast::hash(&bytes[payload..payload + length]);
            bytes[at + 20..at + 24].copy_from_slice(&sum.to_le_bytes());
        }
        let sum = crc32fast::hash(&bytes[at..at + 60]);
        bytes[at + 60..at + 64].copy_from_slice(&sum.to_le_bytes());
        at = if is_whole { payload + length } else { payload };
    }
    bytes
}
