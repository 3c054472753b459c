//! Describes what could not be read of a damaged trace.

use super::units::count;
use crate::analyze::Damage;

/// Returns what is wrong with the trace (`damaged`, `cut`, `incomplete`), each with a description; nothing if nothing is missing.
pub fn described(damage: &Damage) -> Vec<(&'static str, String)> {
    let Damage {
        chunks_lost,
        chunks_refused,
        records_lost,
        times_lost,
        end_unread,
        cut,
        unfinished,
        write_error,
    } = *damage;
    let some =
        |n: u64, of: &str| (n > 0).then(|| format!("{} {of}{}", count(n), if n == 1 { "" } else { "s" }));
    let missing = [some(records_lost, "record"), some(times_lost, "GPU time")];
    let missing: Vec<String> = missing.into_iter().flatten().collect();
    let missing =
        if missing.is_empty() { String::new() } else { format!("at least {}", missing.join(" and ")) };
    let is_missing = |before: &str| match missing.as_str() {
        "" if end_unread => format!(
            "{before}and how many records {} had is not known",
            if chunks_lost == 1 { "it" } else { "they" }
        ),
        "" => String::new(),
        missing => format!("{before}{missing} missing"),
    };
    if damage.is_only_cut() {
        return vec![("cut", format!("the file ends in the middle of a chunk{}", is_missing(", ")))];
    }
    let mut described = Vec::new();
    // The chunks that follow say how many records were in those that are missing.
    let without = if missing.is_empty() && !end_unread { ", which had no records" } else { "" };
    let unread = some(chunks_lost, "chunk").map(|chunks| format!("{chunks} could not be read{without}"));
    let refused = some(chunks_refused, "chunk").map(|chunks| {
        format!(
            "{chunks} refused because {} more than a file of this size can hold",
            if chunks_refused == 1 { "it claims" } else { "they claim" }
        )
    });
    let chunks: Vec<String> = unread.into_iter().chain(refused).collect();
    if !chunks.is_empty() {
        described.push(("damaged", format!("{}{}", chunks.join(", "), is_missing(", "))));
    } else if !missing.is_empty() {
        described.push(("damaged", is_missing("")));
    }
    let write_error = write_error.map(system_error);
    if cut {
        described.push(("cut", "the file ends in the middle of a chunk".to_owned()));
    } else if unfinished {
        let why = write_error.map_or_else(
            || "its collector was killed, or could not write any more".to_owned(),
            |error| format!("its collector could not write any more ({error})"),
        );
        described.push(("cut", format!("{why}, and the program may have run on")));
    } else if let Some(error) = write_error {
        described.push(("incomplete", format!("its collector could not write all of it ({error})")));
    }
    described
}

/// Returns the system's words for an error number.
pub fn system_error(number: i32) -> String {
    let text = std::io::Error::from_raw_os_error(number).to_string();
    text.split(" (os error ").next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_trace_is_not_reported_as_damaged_too() {
        let cut = Damage { chunks_lost: 1, cut: true, ..Damage::default() };
        assert_eq!(described(&cut), [("cut", "the file ends in the middle of a chunk".to_owned())]);
        let with_records = Damage { records_lost: 5_000, times_lost: 1, ..cut };
        let words = "the file ends in the middle of a chunk, at least 5 000 records and 1 GPU time missing";
        assert_eq!(described(&with_records), [("cut", words.to_owned())]);
        let heads: Vec<&str> =
            described(&Damage { chunks_lost: 2, ..cut }).into_iter().map(|(head, _)| head).collect();
        assert_eq!(heads, ["damaged", "cut"]);
    }

    #[test]
    fn a_trace_without_its_end_is_cut_off_and_its_program_may_have_run_on() {
        let killed = Damage { unfinished: true, ..Damage::default() };
        let full = Damage { write_error: Some(libc::ENOSPC), ..killed };
        let words = [
            (
                killed,
                "cut",
                "its collector was killed, or could not write any more, and the program may have run on",
            ),
            (
                full,
                "cut",
                "its collector could not write any more (No space left on device), and the program may have run on",
            ),
            (
                Damage { unfinished: false, ..full },
                "incomplete",
                "its collector could not write all of it (No space left on device)",
            ),
        ];
        for (damage, head, words) in words {
            assert_eq!(described(&damage), [(head, words.to_owned())]);
        }
    }

    #[test]
    fn everything_that_is_missing_is_described() {
        assert_eq!(described(&Damage::default()), []);
        let words =
            |damage: Damage| described(&damage).into_iter().map(|(_, words)| words).collect::<Vec<_>>();
        let times = Damage { chunks_lost: 1, times_lost: 30, ..Damage::default() };
        assert_eq!(words(times), ["1 chunk could not be read, at least 30 GPU times missing"]);
        let unread = Damage { chunks_lost: 2, ..Damage::default() };
        assert_eq!(words(unread), ["2 chunks could not be read, which had no records"]);
        let at_end = Damage { end_unread: true, ..unread };
        assert_eq!(words(at_end), ["2 chunks could not be read, and how many records they had is not known"]);
        assert_eq!(
            words(Damage { records_lost: 7, ..at_end }),
            ["2 chunks could not be read, at least 7 records missing"]
        );
        let cut = Damage { chunks_lost: 1, cut: true, ..at_end };
        let expected = "the file ends in the middle of a chunk, and how many records it had is not known";
        assert_eq!(words(cut), [expected]);
        let refused = Damage { chunks_refused: 582, records_lost: 19_070_976, ..Damage::default() };
        let many = "582 chunks refused because they claim more than a file of this size can hold, at least 19 070 976 \
                    records missing";
        assert_eq!(words(refused), [many]);
        let both = Damage { chunks_lost: 1, chunks_refused: 1, ..Damage::default() };
        let words_of_both = "1 chunk could not be read, which had no records, 1 chunk refused because it claims more than a file of this size can hold";
        assert_eq!(words(both), [words_of_both]);
        assert_eq!(words(Damage { records_lost: 1, ..Damage::default() }), ["at least 1 record missing"]);
    }
}
