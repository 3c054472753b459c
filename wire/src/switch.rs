//! Which values of a variable that is on or off mean off? Both halves ask here, so that they agree.

/// Whether a value means off. These are the values that clap's `FalseyValueParser` takes for false, by which the collector reads
/// its variables.
pub fn is_off(value: &[u8]) -> bool {
    const OFF: [&[u8]; 7] = [b"", b"0", b"off", b"no", b"n", b"false", b"f"];
    OFF.iter().any(|off| value.eq_ignore_ascii_case(off))
}

#[cfg(test)]
mod tests {
    use super::is_off;

    #[test]
    fn words_that_mean_off_are_off_and_all_others_on() {
        for off in ["", "0", "off", "OFF", "no", "n", "false", "False", "f"] {
            assert!(is_off(off.as_bytes()), "{off:?}");
        }
        for on in ["1", "on", "yes", "true", "00", "office", " "] {
            assert!(!is_off(on.as_bytes()), "{on:?}");
        }
    }
}
