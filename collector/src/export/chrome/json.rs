//! How are texts, times and devices written as JSON?

use crate::harmless;
use crate::trace::record::Device;
use std::fmt;
use std::io::{self, Write};
use std::rc::Rc;

/// A part of a row. Most rows are put together from texts and numbers without `core::fmt`, which took half of the time of
/// an export.
pub(super) trait Put {
    /// Appends it.
    fn put(&self, out: &mut Vec<u8>);
}

impl Put for &str {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.as_bytes());
    }
}

macro_rules! numbers {
    ($($name:ty),*) => { $(
        impl Put for $name {
            fn put(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(itoa::Buffer::new().format(*self).as_bytes());
            }
        }
    )* };
}
numbers!(u32, u64, i64);

/// A text with its quotes and escapes.
#[derive(Clone, Debug)]
pub(super) struct Text(Rc<str>);

impl Put for Text {
    fn put(&self, out: &mut Vec<u8>) {
        (&*self.0).put(out);
    }
}

impl Text {
    pub fn of(text: &str) -> Text {
        // Serializing a text cannot fail.
        Text(harmless::json(serde_json::to_string(text).unwrap_or_else(|_| "\"\"".to_owned())).into())
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A number of ns, written in µs with three decimals, so that no digit is lost.
#[derive(Clone, Copy, Debug)]
pub(super) struct Micros(pub i64);

impl fmt::Display for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (sign, ns) = (if self.0 < 0 { "-" } else { "" }, self.0.unsigned_abs());
        write!(f, "{sign}{}.{:03}", ns / 1000, ns % 1000)
    }
}

impl Put for Micros {
    fn put(&self, out: &mut Vec<u8>) {
        let ns = self.0.unsigned_abs();
        if self.0 < 0 {
            out.push(b'-');
        }
        (ns / 1000).put(out);
        let digit = |power: u64| b'0' + (ns / power % 10) as u8;
        out.extend_from_slice(&[b'.', digit(100), digit(10), digit(1)]);
    }
}

/// A bar on a row, without its arguments and the end of the event.
pub(super) struct Slice<'p> {
    pub category: &'static str,
    pub name: &'p Text,
    /// The process and the thread that the row is shown as.
    pub row: [&'p dyn Put; 2],
    pub ts: Micros,
    pub dur: Micros,
}

impl Put for Slice<'_> {
    fn put(&self, out: &mut Vec<u8>) {
        let Slice { category, name, row: [pid, tid], ts, dur } = self;
        r#"{"ph":"X","cat":""#.put(out);
        category.put(out);
        r#"","name":"#.put(out);
        name.put(out);
        r#","pid":"#.put(out);
        pid.put(out);
        r#","tid":"#.put(out);
        tid.put(out);
        r#","ts":"#.put(out);
        ts.put(out);
        r#","dur":"#.put(out);
        dur.put(out);
    }
}

/// An end of the arrow from a call to what it launched, without the end of the event.
pub(super) struct Arrow<'p> {
    /// `s` at the call, `f` at the operation.
    pub phase: &'static str,
    pub id: u64,
    /// As in [`Slice`].
    pub row: [&'p dyn Put; 2],
    pub ts: Micros,
}

impl Put for Arrow<'_> {
    fn put(&self, out: &mut Vec<u8>) {
        let Arrow { phase, id, row: [pid, tid], ts } = self;
        r#"{"ph":""#.put(out);
        phase.put(out);
        r#"","id":"#.put(out);
        id.put(out);
        r#","pid":"#.put(out);
        pid.put(out);
        r#","tid":"#.put(out);
        tid.put(out);
        r#","ts":"#.put(out);
        ts.put(out);
        r#","cat":"ac2g","name":"ac2g""#.put(out);
    }
}

/// Threads per warp: 32 on every NVIDIA GPU so far (CUDA C++ Programming Guide, compute capabilities).
pub(super) const WARP: u32 = 32;

/// Writes an entry of `deviceProperties`, as far as the trace has its values.
pub(super) fn device(
    out: &mut impl Write,
    separator: &str,
    id: u32,
    name: Option<&str>,
    device: Option<&Device>,
) -> io::Result<()> {
    write!(out, "{separator}\n{{\"id\": {id}, \"name\": {}", Text::of(name.unwrap_or("(unknown GPU)")))?;
    if let Some(device) = device {
        write!(
            out,
            ", \"totalGlobalMem\": {}, \"computeMajor\": {}, \"computeMinor\": {}, \"numSms\": {}, \
             \"maxThreadsPerMultiprocessor\": {}, \"warpSize\": {WARP}",
            device.memory_bytes,
            device.capability / 10,
            device.capability % 10,
            device.multiprocessors,
            u64::from(device.warps_per_multiprocessor) * u64::from(WARP)
        )?;
    }
    out.write_all(b"}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_keeps_every_nanosecond() {
        let shown = |ns| {
            let mut put = Vec::new();
            Micros(ns).put(&mut put);
            assert_eq!(put, Micros(ns).to_string().as_bytes());
            Micros(ns).to_string()
        };
        assert_eq!(shown(0), "0.000");
        assert_eq!(shown(1_234_567_001), "1234567.001");
        assert_eq!(shown(-1), "-0.001");
        assert_eq!(shown(i64::MIN), "-9223372036854775.808");
    }

    #[test]
    fn a_name_cannot_end_its_json_string() {
        assert_eq!(Text::of("a\"b\\\u{1}\n").to_string(), r#""a\"b\\\u0001\n""#);
    }
}
