//! Names of kernels, as they stand in the source.

use cpp_demangle::{DemangleOptions, Symbol};
use std::fmt;

/// A demangled name is no longer than this many bytes: a short symbol can be made to stand for a huge one.
const LONGEST: usize = 64 * 1024;

/// The name as it stands in the source, for C++ and Rust; any other text as it is.
pub fn demangle(symbol: &str) -> String {
    if let Ok(rust) = rustc_demangle::try_demangle(symbol) {
        return format!("{rust:#}");
    }
    if !symbol.starts_with("_Z") {
        return symbol.to_owned();
    }
    let mut out = Bounded(String::new());
    let options = DemangleOptions::default();
    match Symbol::new(symbol).map(|parsed| parsed.structured_demangle(&mut out, &options)) {
        Ok(Ok(())) if !out.0.is_empty() => out.0,
        _ => symbol.to_owned(),
    }
}

/// Text that refuses to grow without end.
struct Bounded(String);

impl fmt::Write for Bounded {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.0.len() + text.len() > LONGEST {
            return Err(fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpp_rust_and_c_names_are_read() {
        assert_eq!(demangle("_Z6vecaddPKfS0_Pfi"), "vecadd(float const*, float const*, float*, int)");
        assert_eq!(demangle("_ZN4core3fmt5write17h0123456789abcdefE"), "core::fmt::write");
        assert_eq!(demangle("saxpy_5us"), "saxpy_5us");
        assert_eq!(demangle("_Znonsense"), "_Znonsense");
    }

    #[test]
    fn a_symbol_cannot_blow_up() {
        // Each level names the one before twice.
        let mut symbol = "_Z1fIiE".to_owned();
        for level in 0..60 {
            symbol.push_str(&format!("St4pairIS{level:X}_S{level:X}_E"));
        }
        assert!(demangle(&symbol).len() <= LONGEST);
    }
}
