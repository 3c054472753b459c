//! `SIMCUDA_TRUTH=FILE`: what really happened, one JSON object per line. `sim/README.md` describes the format.
//!
//! A line is formatted once its call has returned and its times are known, by a later call during its simulated host
//! cost. [`flush`] formats the remaining lines.

use crate::clocks::{GpuClock, Ns};
use crate::config::config;
use crate::engine::Done;
use parking_lot::{Mutex, MutexGuard};
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Host ns at which a call returned; 0 before. Written once by the calling thread and read by any thread that formats
/// lines. Relaxed: it publishes no other data.
pub type CallEnd = Arc<AtomicU64>;

/// An operation in the truth file. Times are host ns.
#[derive(Clone, Debug)]
pub struct Operation {
    /// `kernel`, `copy`, `memset`, `graph`, `host` or `value`.
    pub kind: &'static str,
    /// Unique number of the operation.
    pub seq: u64,
    /// The thread that submitted it.
    pub tid: u32,
    /// Base name of the call.
    pub api: &'static str,
    /// When the call was entered.
    pub call_begin: Ns,
    /// When it returned.
    pub call_end: CallEnd,
    /// A kernel's name, else empty.
    pub name: Arc<str>,
    /// Number of the context.
    pub context: u32,
    /// Device ordinal.
    pub device: u32,
    /// Stream id.
    pub stream: u64,
    /// The CUstream.
    pub stream_handle: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// The direction of a copy.
    pub direction: &'static str,
    /// The kind of host memory that a copy or memset involves.
    pub host_memory: &'static str,
    /// Whether it became a node of a graph instead of running.
    pub captured: bool,
    /// When it was submitted and at the head of its stream, if that differs from when its turn came.
    pub head: Option<Done>,
    /// Whether a kernel was launched to overlap the one before it in its stream.
    pub programmatic: bool,
    /// Whether it did overlap: it started before that kernel ended.
    pub overlaps: bool,
    /// Whether it could not overlap because an event record was between the two.
    pub cut: bool,
    /// The graph launch that ran it, or 0.
    pub in_graph: u64,
    /// Entries ahead of it in its stream.
    pub queue: u32,
}

/// Head, start and end of an operation.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// When it was submitted and at the head of its stream.
    pub head: Ns,
    /// Start.
    pub start: Ns,
    /// End.
    pub end: Ns,
}

#[derive(Debug)]
enum Line {
    Operation(Box<Operation>, Option<Times>),
    Text(String),
}

#[derive(Debug)]
struct Writer {
    file: File,
    buffer: Vec<u8>,
    lines: VecDeque<Line>,
    clock: GpuClock,
}

/// Bytes written at most in one step.
const STEP: usize = 64 * 1024;

fn writer() -> Option<MutexGuard<'static, Writer>> {
    static WRITER: OnceLock<Option<Mutex<Writer>>> = OnceLock::new();
    let writer = WRITER.get_or_init(|| {
        let path = config().truth.as_ref()?;
        let file = File::options().create(true).append(true).open(path).unwrap_or_else(|error| {
            eprintln!("simcuda: SIMCUDA_TRUTH={}: {error}", path.display());
            std::process::abort()
        });
        let clock = config().gpu_clock;
        Some(Mutex::new(Writer { file, buffer: Vec::with_capacity(STEP), lines: VecDeque::new(), clock }))
    });
    Some(writer.as_ref()?.lock())
}

/// Returns whether there is a truth file.
pub fn wanted() -> bool {
    config().truth.is_some()
}

/// Writes an operation whose times are known or, without times, will never be known.
pub fn operation(operation: Box<Operation>, times: Option<Times>) {
    if let Some(mut writer) = writer() {
        writer.lines.push_back(Line::Operation(operation, times));
    }
}

/// Writes any other line. `fields` is the inside of a JSON object.
pub fn line(fields: std::fmt::Arguments<'_>) {
    if let Some(mut writer) = writer() {
        let text = format!("{{{fields}}}\n");
        writer.lines.push_back(Line::Text(text));
    }
}

/// Formats the lines that are ready, during the caller's simulated host cost.
pub fn drain() {
    if let Some(mut writer) = writer() {
        writer.format(false);
    }
}

/// Formats and writes everything.
pub fn flush() -> std::io::Result<()> {
    match writer() {
        Some(mut writer) => {
            writer.format(true);
            writer.write()
        }
        None => Ok(()),
    }
}

/// Divides text into steps of whole lines, so that lines of other processes come between them. A line that is longer than
/// [`STEP`] is a step.
fn steps(mut text: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let is_end = |byte: &u8| *byte == b'\n';
        let last = text[..text.len().min(STEP)].iter().rposition(is_end);
        let end = last.or_else(|| text.iter().position(is_end)).map_or(text.len(), |at| at + 1);
        let (step, rest) = text.split_at(end);
        text = rest;
        (!step.is_empty()).then_some(step)
    })
}

impl Writer {
    fn format(&mut self, all: bool) {
        for _ in 0..self.lines.len() {
            match self.lines.pop_front() {
                Some(Line::Operation(operation, times)) => {
                    if !all && operation.call_end.load(Ordering::Relaxed) == 0 {
                        self.lines.push_back(Line::Operation(operation, times));
                        continue;
                    }
                    self.operation(&operation, times);
                }
                Some(Line::Text(text)) => self.buffer.extend_from_slice(text.as_bytes()),
                None => break,
            }
            if self.buffer.len() > STEP - 2048 && self.write().is_err() {
                eprintln!("simcuda: the truth file cannot be written");
                std::process::abort();
            }
        }
    }

    fn write(&mut self) -> std::io::Result<()> {
        for step in steps(&self.buffer) {
            self.file.write_all(step)?;
        }
        self.buffer.clear();
        Ok(())
    }

    fn operation(&mut self, operation: &Operation, times: Option<Times>) {
        let clock = self.clock;
        let mut text = Text(&mut self.buffer);
        text.words("{\"kind\":\"").words(operation.kind).words("\",\"api\":\"").words(operation.api);
        text.words("\",\"name\":\"").escaped(&operation.name);
        text.words("\",\"direction\":\"").words(operation.direction);
        text.words("\",\"host_memory\":\"").words(operation.host_memory).words("\"");
        text.flag("captured", operation.captured);
        if operation.kind == "kernel" {
            let Operation { programmatic, overlaps, cut, .. } = *operation;
            text.flag("programmatic", programmatic).flag("overlaps", overlaps).flag("cut", cut);
        }
        text.field("seq", operation.seq as i64).field("tid", i64::from(operation.tid));
        text.field("call_begin", operation.call_begin as i64);
        let end = operation.call_end.load(Ordering::Relaxed);
        text.optional("call_end", (end != 0).then_some(end as i64));
        text.field("context", i64::from(operation.context)).field("device", i64::from(operation.device));
        text.field("stream", operation.stream as i64).field("stream_handle", operation.stream_handle as i64);
        text.field("bytes", operation.bytes as i64);
        text.optional("head", times.map(|times| times.head as i64));
        text.optional("start", times.map(|times| times.start as i64));
        text.optional("end", times.map(|times| times.end as i64));
        text.optional("gpu_start", times.map(|times| clock.at(times.start)));
        text.optional("gpu_end", times.map(|times| clock.at(times.end)));
        text.field("in_graph", operation.in_graph as i64)
            .field("queue", i64::from(operation.queue))
            .words("}\n");
    }
}

/// Appends to a buffer without the formatting machinery: a launch's line costs a fraction of a microsecond.
struct Text<'a>(&'a mut Vec<u8>);

impl Text<'_> {
    fn words(&mut self, words: &str) -> &mut Self {
        self.0.extend_from_slice(words.as_bytes());
        self
    }

    fn field(&mut self, name: &str, value: i64) -> &mut Self {
        self.words(",\"").words(name).words("\":").number(value)
    }

    fn flag(&mut self, name: &str, value: bool) -> &mut Self {
        self.words(",\"").words(name).words(if value { "\":true" } else { "\":false" })
    }

    fn optional(&mut self, name: &str, value: Option<i64>) -> &mut Self {
        match value {
            Some(value) => self.field(name, value),
            None => self.words(",\"").words(name).words("\":null"),
        }
    }

    fn number(&mut self, value: i64) -> &mut Self {
        if value < 0 {
            self.0.push(b'-');
        }
        let (mut digits, mut at, mut rest) = ([0u8; 20], 20, value.unsigned_abs());
        loop {
            at -= 1;
            digits[at] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        self.0.extend_from_slice(&digits[at..]);
        self
    }

    fn escaped(&mut self, text: &str) -> &mut Self {
        self.words(&Escaped(text).to_string())
    }
}

/// The inside of a JSON string.
#[derive(Debug)]
pub struct Escaped<'a>(pub &'a str);

impl std::fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for c in self.0.chars() {
            match c {
                '"' | '\\' => write!(f, "\\{c}")?,
                c if (c as u32) < 0x20 => write!(f, "\\u{:04x}", c as u32)?,
                c => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_two_processes_are_never_mixed() {
        let line = |bytes: usize| [vec![b'x'; bytes - 1], vec![b'\n']].concat();
        for lengths in [vec![], vec![10], vec![40_000; 5], vec![STEP, 1, STEP + 1, 3], vec![3 * STEP]] {
            let text = lengths.iter().flat_map(|bytes| line(*bytes)).collect::<Vec<u8>>();
            assert!(steps(&text).all(|step| step.ends_with(b"\n")), "{lengths:?}");
            assert_eq!(steps(&text).collect::<Vec<_>>().concat(), text, "{lengths:?}");
            assert!(
                steps(&text)
                    .all(|step| step.len() <= STEP || step.iter().filter(|b| **b == b'\n').count() == 1)
            );
        }
    }
}
