//! Formats numbers for people: three significant digits and a fitting unit.

/// Formats a duration in ns: `512 ns`, `3.40 µs`, `12.3 ms`, `62.4 s`, `12 min 05 s`, `3 h 07 min`.
pub fn duration(ns: u64) -> String {
    let seconds = ns / 1_000_000_000;
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..999_500 => scaled(ns as f64 / 1e3, "µs"),
        999_500..999_500_000 => scaled(ns as f64 / 1e6, "ms"),
        999_500_000..600_000_000_000 => scaled(ns as f64 / 1e9, "s"),
        600_000_000_000..36_000_000_000_000 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        _ => format!("{} h {:02} min", seconds / 3600, seconds / 60 % 60),
    }
}

/// Formats a size in bytes: `4 B`, `12.0 KiB`, `38.9 GiB`.
pub fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    scaled(value, UNITS[unit])
}

/// Formats a count with separated thousands: `1 204 331`.
pub fn count(count: u64) -> String {
    let digits = count.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(' ');
        }
        out.push(digit);
    }
    out
}

/// Begins a sentence with a text.
pub fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

/// Formats a count with its noun: `1 gap`, `7 gaps`.
pub fn plural(n: u64, one: &str, many: &str) -> String {
    format!("{} {}", count(n), if n == 1 { one } else { many })
}

/// Formats two durations in ns as an interval, with the unit once if it is the same: `120 .. 150 ms`, `800 µs .. 1.20 ms`.
pub fn between(lo: u64, hi: u64) -> String {
    let (from, to) = (duration(lo), duration(hi));
    match (from.split_once(' '), to.split_once(' ')) {
        (Some((number, unit)), Some((_, same))) if unit == same && !unit.contains(' ') => {
            format!("{number} .. {to}")
        }
        _ => format!("{from} .. {to}"),
    }
}

/// Formats a share of a whole: `38.1 %`. A share above zero never prints as 0 %, and one below the whole never as 100 %.
pub fn percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "-".to_owned();
    }
    let percent = part as f64 / whole as f64 * 100.0;
    match percent {
        _ if part > 0 && percent < 0.05 => "<0.1 %".to_owned(),
        _ if part < whole && percent >= 99.95 => ">99.9 %".to_owned(),
        _ => format!("{percent:.1} %"),
    }
}

/// Returns the rate per second of an amount in `ns` nanoseconds; 0 if no time passed.
pub fn rate(amount: u64, ns: u64) -> u64 {
    let a_second = (u128::from(amount) * 1_000_000_000).checked_div(ns.into()).unwrap_or(0);
    a_second.try_into().unwrap_or(u64::MAX)
}

/// Formats three significant digits and a unit.
fn scaled(value: f64, unit: &str) -> String {
    match value {
        ..9.995 => format!("{value:.2} {unit}"),
        ..99.95 => format!("{value:.1} {unit}"),
        _ => format!("{value:.0} {unit}"),
    }
}

/// Writes a moment, s since 1970, as a part of a name: `20261125-091000`, in UTC.
pub fn utc(seconds: u64) -> String {
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // Days are counted from a 1 March, so that the day that only some years have is the last one (Howard Hinnant,
    // "chrono-Compatible Low-Level Date Algorithms").
    let since = days + 719_468;
    let (era, day_of_era) = (since / 146_097, since % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute) = (second / 3_600, second / 60 % 60);
    format!("{year:04}{month:02}{day:02}-{hour:02}{minute:02}{:02}", second % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_scale() {
        for (ns, text) in [
            (0, "0 ns"),
            (999, "999 ns"),
            (1_000, "1.00 µs"),
            (9_996, "10.0 µs"),
            (999_499, "999 µs"),
            (999_600, "1.00 ms"),
            (12_340_000, "12.3 ms"),
            (62_400_000_000, "62.4 s"),
            (599_999_000_000, "600 s"),
            (725_000_000_000, "12 min 05 s"),
            (40_020_000_000_000, "11 h 07 min"),
        ] {
            assert_eq!(duration(ns), text, "{ns}");
        }
    }

    #[test]
    fn sizes_scale() {
        for (size, text) in [(4, "4 B"), (1024, "1.00 KiB"), (41_764_000_000, "38.9 GiB")] {
            assert_eq!(bytes(size), text, "{size}");
        }
        assert_eq!(bytes(u64::MAX), "16.0 EiB");
    }

    #[test]
    fn thousands_are_separated() {
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(1_204_331), "1 204 331");
    }

    #[test]
    fn one_is_singular() {
        let said = |n| plural(n, "gap", "gaps");
        assert_eq!([said(0), said(1), said(1_000)], ["0 gaps", "1 gap", "1 000 gaps"]);
    }

    #[test]
    fn intervals_have_the_unit_once() {
        assert_eq!(between(120_000_000, 150_000_000), "120 .. 150 ms");
        assert_eq!(between(800_000, 1_200_000), "800 µs .. 1.20 ms");
        assert_eq!(between(0, 5), "0 .. 5 ns");
        assert_eq!(between(725_000_000_000, 785_000_000_000), "12 min 05 s .. 13 min 05 s");
    }

    #[test]
    fn rates_are_per_second() {
        assert_eq!(rate(50, 500_000_000), 100);
        assert_eq!(rate(u64::MAX, 1), u64::MAX);
        assert_eq!(rate(5, 0), 0);
    }

    #[test]
    fn shares_never_hide_a_remainder() {
        assert_eq!(percent(0, 10), "0.0 %");
        assert_eq!(percent(1, 1_000_000), "<0.1 %");
        assert_eq!(percent(999_999, 1_000_000), ">99.9 %");
        assert_eq!(percent(10, 10), "100.0 %");
        assert_eq!(percent(0, 0), "-");
    }
}
