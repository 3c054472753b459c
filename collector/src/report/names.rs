//! Names of kernels and libraries, shortened for the screen.

pub use crate::harmless::plain;
pub use crate::model::names::demangle;
pub use crate::model::short_names::{char_width, cut, distinct, shorten};

/// The most columns that [`library`] returns.
pub const LIBRARY: usize = 22;

/// The most columns that [`line()`] returns.
const LINE: usize = 32;

/// Returns a line of the program, `file:line`, without the file's directory; a place that has no line stays as it is.
pub fn line(place: &str) -> String {
    let is_line = |(_, number): (&str, &str)| number.bytes().all(|byte| byte.is_ascii_digit());
    let shown = match place.rsplit_once(':').is_some_and(is_line) {
        true => place.rsplit('/').next().unwrap_or(place),
        false => place,
    };
    cut(&plain(shown), LINE)
}

/// Returns a library's file name without its directory; `?` if it is not known.
pub fn library(path: Option<&str>) -> String {
    let name = path.and_then(|path| path.rsplit('/').next());
    cut(&name.map_or_else(|| "?".to_owned(), plain), LIBRARY)
}
