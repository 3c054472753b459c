//! How the figures of two runs and their change are formatted.

use crate::report::diff::change::signed_percent;
use crate::report::diff::figure::{Figure, Signed};
use crate::report::terminal::screen::{NONE, about};
use crate::report::text::{Text, dim};
use crate::report::units::{bytes, count, duration};

/// Follows a change that is not certain.
pub const DOUBTFUL: &str = "(?)";

/// What a figure counts.
#[derive(Clone, Copy, Debug)]
pub enum Unit {
    /// ns.
    Time,
    /// Bytes.
    Bytes,
    /// Things.
    Count,
}

impl Unit {
    /// Formats an amount that is not negative.
    fn amount(self, amount: f64) -> String {
        let whole = amount.round() as u64;
        match self {
            Unit::Time => duration(whole),
            Unit::Bytes => bytes(whole),
            Unit::Count if amount == amount.round() || amount >= 100.0 => count(whole),
            Unit::Count if amount >= 0.095 => format!("{amount:.1}"),
            Unit::Count => "<0.1".to_owned(),
        }
    }

    fn signed(self, change: f64) -> String {
        match change {
            0.0 => "0".to_owned(),
            ..0.0 => format!("-{}", self.amount(-change)),
            _ => format!("+{}", self.amount(change)),
        }
    }
}

/// Returns the cells of a figure: before, after, its change, and that as a share.
pub fn cells(figure: &Figure, unit: Unit) -> [Text; 4] {
    let side = |side: Option<crate::report::rows::numbers::Estimate<f64>>| match (side, unit) {
        (None, _) => Text::from(NONE),
        (Some(side), Unit::Time) => about(side.rounded()).into(),
        (Some(side), _) => unit.amount(side.value).into(),
    };
    let [change, share] = change(figure, unit);
    [side(figure.before), side(figure.after), change, share]
}

/// Returns the cells of a change: the change, and the same as a share.
pub fn change(figure: &Figure, unit: Unit) -> [Text; 2] {
    let Some(change) = figure.change else { return [NONE.into(), NONE.into()] };
    let mark = if figure.is_certain || change == 0.0 { String::new() } else { format!(" {DOUBTFUL}") };
    let share = match figure.change_share {
        Some(share) => signed_percent(share),
        None if change > 0.0 => "new".to_owned(),
        None => NONE.to_owned(),
    };
    [Text::from(unit.signed(change)).then(dim(mark)), dim(share)]
}

/// Returns the cells of a figure that may be negative.
pub fn signed(figure: &Signed, unit: Unit) -> [Text; 4] {
    let side = |side: Option<f64>| side.map_or(NONE.to_owned(), |side| unit.signed(side)).into();
    [side(figure.before), side(figure.after), side(figure.change), NONE.into()]
}

/// Formats a count before and after: `12 -> 1 204`, or `12` if both are equal.
pub fn counts(figure: &Figure) -> Text {
    let [before, after, ..] = cells(figure, Unit::Count);
    if figure.is_same() { before } else { before.then(" -> ").then(after) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::diff::figure::Scale;
    use crate::report::rows::numbers::{Estimate, Kind};

    fn drawn(figure: &Figure, unit: Unit) -> Vec<String> {
        cells(figure, unit).iter().map(Text::characters).collect()
    }

    #[test]
    fn a_change_has_a_sign_a_share_and_a_mark_if_it_is_not_certain() {
        let figure = Scale::RUN.count(55_200_000, 41_800_000);
        assert_eq!(drawn(&figure, Unit::Time), ["55.2 ms", "41.8 ms", "-13.4 ms", "-24 %"]);
        let wide = |value| Some(Estimate { value, lo: value / 2, hi: value * 2, kind: Kind::Corrected });
        let figure = Scale::RUN.times(wide(1_000), wide(1_100));
        assert_eq!(drawn(&figure, Unit::Time), ["~1.00 µs", "~1.10 µs", "+100 ns (?)", "+10 %"]);
        assert_eq!(drawn(&Scale::RUN.count(0, 4096), Unit::Bytes), ["0 B", "4.00 KiB", "+4.00 KiB", "new"]);
        assert_eq!(drawn(&Scale::RUN.count(7, 7), Unit::Count), ["7", "7", "0", "0 %"]);
        assert_eq!(drawn(&Scale::RUN.times(None, wide(1)), Unit::Time), ["-", "~1 ns", "-", "-"]);
    }

    #[test]
    fn counts_of_a_step_may_be_fractions() {
        let of =
            |before, after| counts(&Scale { before: 40.0, after: 40.0 }.count(before, after)).characters();
        assert_eq!(
            [of(80, 80), of(80, 50), of(0, 1), of(4_001, 4_000)],
            ["2", "2 -> 1.2", "0 -> <0.1", "100 -> 100"]
        );
    }
}
