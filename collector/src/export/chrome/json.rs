//! How are texts, times and devices written as JSON?

use crate::export::timeline::WARP;
use crate::export::timeline::sink::{Arg, NamedGpu, Value};
use crate::harmless;
use std::fmt;
use std::io::{self, Write};
use std::rc::Rc;

/// A part of an event. Most events are put together from texts and numbers without `core::fmt`, which took half of the time of
/// an export.
pub(super) trait Put {
    /// Appends it.
    fn put(&self, out: &mut Vec<u8>);
}

impl Put for &str {
    /// Inlined, a literal is copied by a few moves instead of a call of memcpy.
    #[inline]
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

impl Put for Value<'_> {
    fn put(&self, out: &mut Vec<u8>) {
        match *self {
            Value::Unsigned(number) => number.put(out),
            Value::Signed(number) => number.put(out),
            // Writing to a vector cannot fail.
            Value::Fraction(number) => drop(write!(out, "{number:.6}")),
            Value::Three(numbers) => list(&numbers, out),
            Value::Text(text) => Text::of(text).put(out),
            Value::Lists(lists) => list(lists, out),
            Value::Texts(texts) => list(&texts.iter().map(|text| Text::of(text)).collect::<Vec<_>>(), out),
        }
    }
}

impl Put for Vec<i64> {
    fn put(&self, out: &mut Vec<u8>) {
        list(self, out);
    }
}

fn list(parts: &[impl Put], out: &mut Vec<u8>) {
    for (index, part) in parts.iter().enumerate() {
        out.push(if index == 0 { b'[' } else { b',' });
        part.put(out);
    }
    if parts.is_empty() {
        out.push(b'[');
    }
    out.push(b']');
}

impl Put for Arg<'_> {
    fn put(&self, out: &mut Vec<u8>) {
        let Arg(key, value) = self;
        out.push(b'"');
        key.name().put(out);
        "\":".put(out);
        value.put(out);
    }
}

/// A text with its quotes and escapes.
#[derive(Clone, Debug)]
pub struct Text(Rc<str>);

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

/// Writes an entry of `deviceProperties`, as far as the trace has its values.
pub(super) fn device(out: &mut impl Write, separator: &str, gpu: &NamedGpu<'_>) -> io::Result<()> {
    let (id, name) = (gpu.number, Text::of(gpu.name.unwrap_or("(unknown GPU)")));
    write!(out, "{separator}\n{{\"id\": {id}, \"name\": {name}")?;
    if let Some(device) = gpu.device {
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

    /// 19 bytes in 2432 ns are 0.0078125 GB/s, which was 0.007812 in one format, and 0.007813 in the other as Perfetto shows it.
    #[test]
    fn a_fraction_that_lies_between_two_of_six_decimals_is_the_same_in_all_formats() {
        let value = Value::from(19.0 / 2432.0);
        let mut out = Vec::new();
        value.put(&mut out);
        assert_eq!(out, b"0.007813");
        assert!(matches!(value, Value::Fraction(0.007813)), "{value:?}");
    }

    #[test]
    fn a_name_cannot_end_its_json_string() {
        assert_eq!(Text::of("a\"b\\\u{1}\n").to_string(), r#""a\"b\\\u0001\n""#);
    }
}
