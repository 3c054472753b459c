//! Parses durations as people type them: `1.5s`, `200ms`, `10us`.

use gpuspy_wire::duration::{number, split};

/// From this many ns on (about 104 days), a double cannot represent every nanosecond.
const MOST: f64 = (1u64 << f64::MANTISSA_DIGITS) as f64;

/// Parses a duration, a non-negative number and a unit, into nanoseconds. For clap's `value_parser`.
///
/// # Errors
/// Says what is wrong with the text, as the end of a sentence that quotes it.
pub(super) fn duration(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let Some((digits, nanoseconds)) = split(text) else {
        return Err("a duration needs its unit, as in 1.5s, 200ms, 10us or 3m".to_owned());
    };
    let value = number(digits).map(|number| (number * nanoseconds).round());
    match value {
        None => Err("a duration is a number and a unit, as in 1.5s, 200ms, 10us or 3m".to_owned()),
        Some(value) if value >= MOST => Err("a duration must be at most 100 days".to_owned()),
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
    fn bad_durations_are_refused_with_an_example() {
        for text in ["", "s", "5", "1.2.3s", "-1s", "+1s", "infs", "NaNs", "1e3s", "1d", "1 m s", "."] {
            let error = duration(text).unwrap_err();
            assert!(error.contains("as in 1.5s"), "{text}: {error}");
        }
        assert!(duration("99999999s").unwrap_err().contains("100 days"));
    }
}
