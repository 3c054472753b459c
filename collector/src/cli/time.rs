//! Durations as people type them: `1.5s`, `200ms`, `10us`.

/// Units and their nanoseconds. Longer names first: `ms` ends in `s` too.
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
/// Beyond this (some 104 days) a double no longer counts single nanoseconds.
const MOST: f64 = (1u64 << f64::MANTISSA_DIGITS) as f64;

/// Nanoseconds of a duration: a number that is not negative, and its unit. For clap's `value_parser`.
///
/// # Errors
/// What is wrong with the text, as the end of a sentence that quotes it.
pub(super) fn duration(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let Some((number, nanoseconds)) =
        UNITS.iter().find_map(|(unit, ns)| text.strip_suffix(unit).map(|number| (number.trim_end(), ns)))
    else {
        return Err("a duration needs its unit, as in 1.5s, 200ms, 10us or 3m".to_owned());
    };
    // Digits and a point: what else a double can be written as (`inf`, `1e3`, `-0`) is no way to tell a time.
    let is_plain = number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let value = number.parse::<f64>().ok().filter(|_| is_plain).map(|number| (number * nanoseconds).round());
    match value {
        None => Err("a duration is a number and a unit, as in 1.5s, 200ms, 10us or 3m".to_owned()),
        Some(value) if value >= MOST => Err("a duration of at most 100 days is needed".to_owned()),
        Some(value) => Ok(value as u64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit_is_read() {
        assert_eq!(duration("1.5s"), Ok(1_500_000_000));
        assert_eq!(duration("200ms"), Ok(200_000_000));
        assert_eq!(duration("10us"), Ok(10_000));
        assert_eq!(duration("10 µs"), Ok(10_000));
        assert_eq!(duration("7ns"), Ok(7));
        assert_eq!(duration("3m"), Ok(180_000_000_000));
        assert_eq!(duration("0.5 h"), Ok(1_800_000_000_000));
        assert_eq!(duration("2min"), Ok(120_000_000_000));
        assert_eq!(duration("0s"), Ok(0));
        assert_eq!(duration(".25us"), Ok(250));
        assert_eq!(duration("1.000000001s"), Ok(1_000_000_001), "no nanosecond is lost");
    }

    #[test]
    fn what_is_no_duration_is_told_apart() {
        for text in ["", "s", "5", "1.2.3s", "-1s", "+1s", "infs", "NaNs", "1e3s", "1d", "1 m s", "."] {
            let error = duration(text).unwrap_err();
            assert!(error.contains("as in 1.5s"), "{text}: {error}");
        }
        assert!(duration("99999999s").unwrap_err().contains("100 days"));
    }
}
