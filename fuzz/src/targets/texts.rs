//! Texts: the names of kernels, which a program chooses, and the words of a command.

use gpuspy_collector::cli;
use gpuspy_collector::harmless::{is_harmful, plain};
use gpuspy_collector::model::names::demangle;
use gpuspy_collector::model::short_names::{char_width, distinct, shorten};
use gpuspy_wire::capture_range::CaptureRange;
use gpuspy_wire::communication::is_communication;
use gpuspy_wire::program_files::{is_given, is_users};

/// Limit on the memory that a name may cost, bytes: a demangled name has at most 64 KiB, and the parts of a symbol that
/// it refers to are kept apart.
const NAME: usize = 16 << 20;

/// Demangles and shortens names, one on each line. The first byte says for how wide a screen.
pub fn names(input: &[u8]) {
    let Some((width, text)) = input.split_first() else { return };
    let (width, text) = (usize::from(*width), String::from_utf8_lossy(text));
    let columns = |text: &str| text.chars().map(char_width).sum::<usize>();
    crate::bounded(NAME + 1024 * input.len(), || {
        let mut all = Vec::new();
        for symbol in text.lines() {
            let name = demangle(symbol);
            assert!(name.len() <= symbol.len().max(128 << 10), "{} bytes", name.len());
            let short = shorten(&name, width);
            assert!(columns(&short) <= width, "{short:?} has more than {width} columns");
            assert!(!short.chars().any(is_harmful), "{short:?}");
            assert!(!plain(symbol).chars().any(is_harmful), "{symbol:?}");
            let _any = (
                is_communication(symbol.as_bytes()),
                is_users(symbol),
                is_given(symbol),
                CaptureRange::parse(symbol),
            );
            all.push(name);
        }
        all.truncate(64);
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        let apart = distinct(&all, width, shorten);
        assert_eq!(apart.len(), all.len());
    });
}

/// Reads the filters of a command, a word on each line. The last line is the name of a kernel.
pub fn filters(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let mut words: Vec<&str> = text.lines().collect();
    let symbol = words.pop().unwrap_or_default();
    // An expression may cost what its crate limits it to; the limit on what is compiled is 10 MiB.
    crate::bounded(256 << 20, || match cli::filter(&words) {
        Ok(filter) => {
            if let (Some(since), Some(until)) = (filter.since, filter.until) {
                assert!(since < until);
            }
            let _either = filter.names(symbol);
        }
        Err(why) => assert!(!why.is_empty()),
    });
}
