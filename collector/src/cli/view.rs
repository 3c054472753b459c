//! Options that choose what the screen shows, and how it is drawn.

use crate::collect::sys;
use crate::report::{NARROWEST, Section, Sort, Style, USUAL, View};
use clap::{Args, ValueEnum};
use std::io::IsTerminal;
use std::num::{IntErrorKind, ParseIntError};
use std::os::fd::AsFd;

#[derive(Args, Debug, Default)]
#[command(next_help_heading = "Display")]
pub(super) struct ViewOptions {
    /// Show these sections with all their rows instead of the overview; may be repeated
    #[arg(long = "section", value_name = "NAME", value_delimiter = ',', conflicts_with_all = ["json", "operations", "html"])]
    sections: Vec<Section>,
    /// Show at most N rows of each table
    #[arg(long, value_name = "N", value_parser = at_least::<1>, allow_negative_numbers = true, conflicts_with_all = ["json", "operations", "html"])]
    top: Option<usize>,
    /// Sort rows by this column
    #[arg(long, value_enum, value_name = "COLUMN", default_value_t, conflicts_with_all = ["json", "operations", "html"])]
    sort: Sort,
    #[command(flatten)]
    style: StyleOptions,
}

/// Options that choose how a screen is drawn.
#[derive(Args, Debug, Default)]
#[command(next_help_heading = "Display")]
pub(super) struct StyleOptions {
    /// When to use colours. auto: on a terminal, with respect to NO_COLOR, CLICOLOR_FORCE and TERM=dumb
    #[arg(long, value_enum, value_name = "WHEN", default_value_t)]
    color: Color,
    /// Columns of the screen, at least 80 [default: those of the terminal, else 100]
    #[arg(long, value_name = "N", value_parser = at_least::<NARROWEST>, allow_negative_numbers = true)]
    width: Option<usize>,
    /// Use only ASCII: bars of #, us for microseconds. This is the default if the locale is not UTF-8
    #[arg(long)]
    ascii: bool,
    /// Do not shorten kernel names, however long the line becomes
    #[arg(long)]
    full_names: bool,
}

/// When colours are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Color {
    /// On a terminal, unless the environment says otherwise
    #[default]
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// Parses a number; the error is the end of a sentence.
pub(super) fn at_least<const LEAST: usize>(text: &str) -> Result<usize, String> {
    let number: Result<usize, ParseIntError> = text.parse();
    match number {
        Ok(number) if number >= LEAST => Ok(number),
        Err(error) if *error.kind() == IntErrorKind::PosOverflow => {
            Err(format!("a number of {} or less is needed", usize::MAX))
        }
        _ => Err(format!("a number of {LEAST} or more is needed")),
    }
}

impl ViewOptions {
    /// Returns what is shown.
    pub(super) fn view(&self, trace_bytes: Option<u64>) -> View {
        let (sections, unread) = (self.sections.clone(), Vec::new());
        View { sections, top: self.top, sort: self.sort, trace_bytes, unread, repeats_verdict: false }
    }

    /// Returns how it is drawn on a stream.
    pub(super) fn style(&self, stream: impl AsFd) -> Style {
        self.style.style(stream)
    }
}

impl StyleOptions {
    /// Returns how it is drawn on a stream.
    pub(super) fn style(&self, stream: impl AsFd) -> Style {
        let stream = stream.as_fd();
        let environment =
            |name: &str| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned());
        Style {
            width: self.width.or_else(|| Some(sys::terminal_size(stream)?.0)).unwrap_or(USUAL),
            color: self.color.is_wanted(stream.is_terminal(), environment),
            ascii: self.ascii || !is_utf8(environment),
            full_names: self.full_names,
        }
    }
}

impl Color {
    /// Returns whether colours are used: not if NO_COLOR is set (no-color.org), always if CLICOLOR_FORCE is set to anything
    /// but 0 (bixense.com/clicolors), else on terminals that are not dumb.
    fn is_wanted(self, is_terminal: bool, environment: impl Fn(&str) -> Option<String>) -> bool {
        let is_set = |name: &str| environment(name).is_some_and(|value| !value.is_empty());
        match self {
            Color::Always => true,
            Color::Never => false,
            Color::Auto if is_set("NO_COLOR") => false,
            Color::Auto if is_set("CLICOLOR_FORCE") => environment("CLICOLOR_FORCE").as_deref() != Some("0"),
            Color::Auto => is_terminal && environment("TERM").as_deref() != Some("dumb"),
        }
    }
}

/// Returns whether the locale uses UTF-8. Of its variables, the first that is set decides (POSIX).
fn is_utf8(environment: impl Fn(&str) -> Option<String>) -> bool {
    let locale =
        ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().filter_map(environment).find(|value| !value.is_empty());
    locale.is_some_and(|locale| {
        let locale = locale.to_ascii_lowercase();
        locale.contains("utf-8") || locale.contains("utf8")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of<'a>(set: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Option<String> + 'a {
        |name| set.iter().find(|(theirs, _)| *theirs == name).map(|(_, value)| (*value).to_owned())
    }

    /// It was said to be less than 1.
    #[test]
    fn a_number_that_is_too_large_is_said_to_be() {
        assert_eq!(at_least::<1>("7"), Ok(7));
        let error = at_least::<1>("99999999999999999999").unwrap_err();
        assert_eq!(error, format!("a number of {} or less is needed", usize::MAX));
        for text in ["0", "-1", "x", ""] {
            assert_eq!(at_least::<1>(text).unwrap_err(), "a number of 1 or more is needed", "{text}");
        }
    }

    #[test]
    fn colours_follow_the_terminal_and_the_environment() {
        let auto = |is_terminal, set: &[_]| Color::Auto.is_wanted(is_terminal, of(set));
        assert!(auto(true, &[]) && auto(true, &[("TERM", "xterm")]) && !auto(false, &[]));
        assert!(!auto(true, &[("TERM", "dumb")]));
        assert!(!auto(true, &[("NO_COLOR", "1")]) && auto(true, &[("NO_COLOR", "")]));
        assert!(auto(false, &[("CLICOLOR_FORCE", "1"), ("TERM", "dumb")]));
        assert!(!auto(false, &[("CLICOLOR_FORCE", "0")]));
        assert!(!auto(true, &[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")]));
        assert!(Color::Always.is_wanted(false, of(&[("NO_COLOR", "1")])));
        assert!(!Color::Never.is_wanted(true, of(&[("CLICOLOR_FORCE", "1")])));
    }

    #[test]
    fn the_locale_decides_about_unicode() {
        assert!(is_utf8(of(&[("LANG", "en_US.UTF-8")])) && is_utf8(of(&[("LC_CTYPE", "C.utf8")])));
        assert!(!is_utf8(of(&[])) && !is_utf8(of(&[("LANG", "C")])));
        assert!(!is_utf8(of(&[("LC_ALL", "C"), ("LANG", "en_US.UTF-8")])), "the first that is set decides");
        assert!(is_utf8(of(&[("LC_ALL", ""), ("LANG", "en_US.UTF-8")])));
    }
}
