//! How do people type lengths of time? `1.5s`, `200ms`. The agent and the collector both read them here.

/// The units and their ns. Longer names come first: `ms` ends in `s`, too.
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

/// Splits a text that ends in a unit into its number and the unit's ns.
pub fn split(text: &str) -> Option<(&str, f64)> {
    UNITS.iter().find_map(|(unit, ns)| text.strip_suffix(unit).map(|number| (number.trim_end(), *ns)))
}

/// Reads a number of digits and a point. The other notations of a double (`inf`, `1e3`, `-0`) are rejected.
pub fn number(text: &str) -> Option<f64> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    text.parse::<f64>().ok().filter(|_| is_plain)
}
