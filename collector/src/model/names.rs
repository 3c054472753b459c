//! What is a kernel called in its source?

use cpp_demangle::{DemangleOptions, Symbol};
use std::fmt;

/// Limit on a demangled name, bytes: a short symbol can stand for a huge name.
const LONGEST: usize = 64 * 1024;

/// Demangles C++ and Rust names; returns any other text unchanged.
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

/// A text whose length is limited.
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
    fn cpp_rust_and_c_names_are_demangled() {
        assert_eq!(demangle("_Z6vecaddPKfS0_Pfi"), "vecadd(float const*, float const*, float*, int)");
        assert_eq!(demangle("_ZN4core3fmt5write17h0123456789abcdefE"), "core::fmt::write");
        assert_eq!(demangle("saxpy_5us"), "saxpy_5us");
        assert_eq!(demangle("_Znonsense"), "_Znonsense");
    }

    #[test]
    fn a_short_symbol_cannot_give_a_huge_name() {
        // Each level names the previous one twice.
        let mut symbol = "_Z1fIiE".to_owned();
        for level in 0..60 {
            symbol.push_str(&format!("St4pairIS{level:X}_S{level:X}_E"));
        }
        assert!(demangle(&symbol).len() <= LONGEST);
    }
}
