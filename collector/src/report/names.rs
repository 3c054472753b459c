//! Names of kernels and libraries, shortened for the screen.

pub use crate::model::names::demangle;
pub use crate::model::short_names::{char_width, cut, distinct, plain, shorten};

/// The most columns that [`library`] returns.
pub const LIBRARY: usize = 22;

/// Returns a library's file name without its directory; `?` if it is not known.
pub fn library(path: Option<&str>) -> String {
    let name = path.and_then(|path| path.rsplit('/').next());
    cut(&name.map_or_else(|| "?".to_owned(), plain), LIBRARY)
}
