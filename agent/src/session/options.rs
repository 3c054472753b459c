//! How operations are timed, as the environment asks for it.

use core::ffi::CStr;

/// Which operations are timed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// Windows, inside a budget ([`crate::gpu::budget`]).
    Auto,
    /// All.
    Exact,
    /// None.
    Off,
}

/// `GPUSPY_TIMING` and `GPUSPY_BUDGET`.
pub struct Options {
    pub mode: Mode,
    /// What we may cost, in percent of wall time: above 0, at most 100.
    pub percent: f64,
    /// Windows are short and far between, whatever they cost us.
    pub is_sparse: bool,
    /// Why that is not what was asked for: one of [`NOTES`], counted from 1; 0 = it is.
    pub note: u8,
}

/// The budget that nobody asked for.
const PERCENT: f64 = 5.0;

const BAD_TIMING: u8 = 1;
const BAD_BUDGET: u8 = 2;
const ONE_CONNECTION: u8 = 3;
const NOTES: [&str; 3] = [
    "GPUSPY_TIMING is none of auto, exact and off: timed as with auto",
    "GPUSPY_BUDGET is no percentage above 0 and up to 100: the budget is 5 %",
    "CUDA_DEVICE_MAX_CONNECTIONS=1, where timing events make streams wait that would overlap: at most a tenth of a second is timed in each second",
];

impl Options {
    /// From the variables' values.
    pub fn read(timing: Option<&CStr>, budget: Option<&CStr>, connections: Option<&CStr>) -> Options {
        let mut note = 0;
        let mut mode = match timing.map(CStr::to_bytes) {
            None | Some(b"" | b"auto") => Mode::Auto,
            Some(b"exact") => Mode::Exact,
            Some(b"off") => Mode::Off,
            Some(_) => {
                note = BAD_TIMING;
                Mode::Auto
            }
        };
        // Facts (TransformerEngine #1353): with one connection, events that keep time end the overlap of streams.
        let one_connection = mode != Mode::Off && connections.is_some_and(|c| c.to_bytes() == b"1");
        if one_connection {
            (mode, note) = (Mode::Auto, ONE_CONNECTION);
        }
        let asked = budget.filter(|b| !b.is_empty());
        let percent = asked.map(|b| b.to_str().ok().and_then(percent));
        if mode == Mode::Auto && percent == Some(None) {
            note = BAD_BUDGET;
        }
        Options { mode, percent: percent.flatten().unwrap_or(PERCENT), is_sparse: one_connection, note }
    }

    /// Why operations are not timed as asked for.
    pub fn note(&self) -> Option<&'static str> {
        NOTES.get(usize::from(self.note).checked_sub(1)?).copied()
    }
}

/// A percentage above 0 and up to 100.
fn percent(text: &str) -> Option<f64> {
    text.parse().ok().filter(|p| *p > 0.0 && *p <= 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_read_is_the_default_and_says_so() {
        let read = |timing, budget, connections| {
            let options = Options::read(timing, budget, connections);
            (options.mode, options.percent, options.note)
        };
        assert_eq!(read(None, None, None), (Mode::Auto, 5.0, 0));
        assert_eq!(read(Some(c"exact"), Some(c"2"), Some(c"8")), (Mode::Exact, 2.0, 0));
        assert_eq!(read(Some(c"off"), Some(c"x"), Some(c"1")), (Mode::Off, 5.0, 0));
        assert_eq!(read(Some(c"on"), Some(c"0.5"), None), (Mode::Auto, 0.5, BAD_TIMING));
        for bad in [c"0", c"-1", c"100.5", c"nan", c"inf", c"5%", c"five"] {
            assert_eq!(read(Some(c"auto"), Some(bad), None), (Mode::Auto, 5.0, BAD_BUDGET), "{bad:?}");
        }
        assert_eq!(read(Some(c"exact"), Some(c"100"), Some(c"1")), (Mode::Auto, 100.0, ONE_CONNECTION));
        assert_eq!(read(None, None, Some(c"1")), (Mode::Auto, 5.0, ONE_CONNECTION));
        assert!(Options::read(None, None, Some(c"1")).is_sparse);
    }

    #[test]
    fn every_note_has_its_sentence() {
        let note = |note| Options { mode: Mode::Auto, percent: 5.0, is_sparse: false, note }.note();
        assert_eq!(note(0), None);
        assert!(note(BAD_TIMING).unwrap().starts_with("GPUSPY_TIMING"));
        assert!(note(BAD_BUDGET).unwrap().starts_with("GPUSPY_BUDGET"));
        assert!(note(ONE_CONNECTION).unwrap().starts_with("CUDA_DEVICE_MAX_CONNECTIONS"));
    }
}
