//! Lengths of time as people type them: `1.5s`, `200ms`. Agent and collector read them here.

/// Units and their ns. Longer names first: `ms` ends in `s` too.
const UNITS: [(&str, f64); 8] = [
    ("ns", 1.0),
    ("us", 1e3),
    ("µs", 1e3),
    ("ms", 1e6),
    ("min", 60e9),
    ("s", 1e9),
    ("m", 60e9),
    ("h", 3_600e9),
];

/// The number of a text that ends in a unit, and the unit's ns.
pub fn split(text: &str) -> Option<(&str, f64)> {
    UNITS.iter().find_map(|(unit, ns)| text.strip_suffix(unit).map(|number| (number.trim_end(), *ns)))
}

/// A number of digits and a point: what else a double can be written as (`inf`, `1e3`, `-0`) is no way to tell a time.
pub fn number(text: &str) -> Option<f64> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    text.parse::<f64>().ok().filter(|_| is_plain)
}
