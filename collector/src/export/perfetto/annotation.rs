//! How are arguments written?

use super::interned::{Text, Texts, iid};
use super::packets::{bit_of_key, put_length_delimited};
use super::proto::{DebugAnnotation, Value};
use crate::export::timeline::sink::{self, Arg};

/// Arguments that are written, and what their numbers stand for.
#[derive(Clone, Debug, Default)]
pub struct Encoded {
    /// The part of an event.
    pub(super) bytes: Vec<u8>,
    /// The names of the arguments: a bit for each.
    pub(super) keys: u64,
    /// Their texts.
    pub(super) values: Vec<usize>,
}

/// The field of an event that has an argument: number 4, a message.
const DEBUG_ANNOTATION: u8 = 4 << 3 | 2;

/// Appends arguments to an event, and returns what their numbers stand for.
pub(super) fn encoded(args: &[Arg<'_>], texts: &mut Texts, event: &mut Vec<u8>) -> Encoded {
    let mut said = Encoded::default();
    for Arg(key, value) in args {
        said.keys |= bit_of_key(*key);
        let annotation = annotation(value, texts, &mut said.values);
        event.push(DEBUG_ANNOTATION);
        put_length_delimited(&DebugAnnotation { name_iid: Some(iid(*key as usize)), ..annotation }, event);
    }
    said
}

fn annotation(value: &sink::Value<'_>, texts: &mut Texts, used: &mut Vec<usize>) -> DebugAnnotation {
    let array_values = match value {
        sink::Value::Three(numbers) => numbers.iter().map(|number| of(unsigned(*number))).collect(),
        sink::Value::Lists(lists) => lists.iter().map(|numbers| signed(numbers)).collect(),
        sink::Value::Texts(list) => list.iter().map(|part| of(text(part, texts, used))).collect(),
        sink::Value::Unsigned(number) => return of(unsigned(*number)),
        sink::Value::Signed(number) => return of(Value::Int(*number)),
        sink::Value::Fraction(number) => return of(Value::Double(*number)),
        sink::Value::Text(part) => return of(text(part, texts, used)),
    };
    DebugAnnotation { array_values, ..DebugAnnotation::default() }
}

fn signed(numbers: &[i64]) -> DebugAnnotation {
    let array_values = numbers.iter().map(|number| of(Value::Int(*number))).collect();
    DebugAnnotation { array_values, ..DebugAnnotation::default() }
}

fn of(value: Value) -> DebugAnnotation {
    DebugAnnotation { value: Some(value), ..DebugAnnotation::default() }
}

/// A number is signed if it can be: readers give both kinds different types.
fn unsigned(number: u64) -> Value {
    i64::try_from(number).map_or(Value::Uint(number), Value::Int)
}

fn text(text: &str, texts: &mut Texts, used: &mut Vec<usize>) -> Value {
    match texts.intern(text) {
        Text::Interned(index) => {
            used.push(index);
            Value::StringIid(iid(index))
        }
        Text::Itself(text) => Value::String(text.to_string()),
    }
}
