//! How far has an export come, and does its file become too large for those that read it?
//!
//! Tools that draw a timeline read the whole file into memory, so a file that is long to write is often one that nothing opens.
//! The sentence about that comes while the file is written, and not at its end.

use super::progress;
use super::{Failure, say};
use crate::collect::sys;
use crate::units::bytes;
use crate::why::why;
use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The size from which on a file counts as large, before it is compressed.
const LARGE: u64 = 500 << 20;

/// What is exported.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Asked {
    /// Whether there is a smaller format.
    pub is_chrome: bool,
    /// Whether the file is compressed as a whole.
    pub is_compressed: bool,
    /// Whether the whole trace is exported.
    pub is_whole: bool,
    /// Whether several processes share the file.
    pub is_shared: bool,
    /// Whether the steps that gpuspy found are left out.
    pub without_steps: bool,
    /// Whether the functions of Python are left out.
    pub without_functions: bool,
}

/// What is known of an export while it is under way.
#[derive(Debug, Default)]
pub(super) struct Exporting {
    pub asked: Asked,
    // Relaxed, all of them: figures for display, which may be slightly old.
    /// Records that were read in this pass over the trace.
    read: AtomicU64,
    /// Records that the pass has to read; 0 in the first one, which counts them.
    all: AtomicU64,
    written: AtomicU64,
}

impl Exporting {
    /// An export that begins.
    pub(super) fn new(asked: Asked) -> Exporting {
        Exporting { asked, ..Exporting::default() }
    }

    /// Does the work of an export, and shows how far it has come, if `shows` it and stderr is a terminal.
    pub(super) fn with_progress<T>(
        &self,
        shows: bool,
        work: impl FnOnce() -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        if !shows {
            return work();
        }
        let (over, is_over) =
            sys::stop().map_err(|e| Failure::usage(format_args!("cannot make a pipe: {}", why(&e))))?;
        std::thread::scope(|threads| {
            // Without this thread, only the line is missing.
            let _ = std::thread::Builder::new()
                .spawn_scoped(threads, || progress::draw_line(|elapsed| self.line(elapsed), &is_over));
            let done = work();
            drop(over);
            done
        })
    }

    /// A record was read.
    pub(super) fn read(&self) {
        self.read.fetch_add(1, Ordering::Relaxed);
    }

    /// A file is written from here on, from so many records.
    pub(super) fn file_of(&self, records: u64) {
        self.all.store(records, Ordering::Relaxed);
        self.read.store(0, Ordering::Relaxed);
        self.written.store(0, Ordering::Relaxed);
    }

    /// What is written to `out` is counted, and said if it is much.
    pub(super) fn counted<W: Write>(&self, out: W) -> Counted<'_, W> {
        Counted { out, exporting: self }
    }

    fn share(&self) -> f64 {
        let all = self.all.load(Ordering::Relaxed).max(1);
        (self.read.load(Ordering::Relaxed) as f64 / all as f64).min(1.0)
    }

    /// Returns the line, in ASCII so that it can be cut anywhere.
    fn line(&self, elapsed: Duration) -> String {
        let seconds = elapsed.as_secs();
        if self.all.load(Ordering::Relaxed) == 0 {
            return format!("reading: {} records, {seconds} s", self.read.load(Ordering::Relaxed));
        }
        let written = bytes(self.written.load(Ordering::Relaxed));
        format!("writing: {:.0} % of the trace, {written}, {seconds} s", self.share() * 100.0)
    }

    /// Counts what was written. Returns a sentence when the file becomes large.
    fn wrote(&self, count: u64) -> Option<String> {
        let before = self.written.fetch_add(count, Ordering::Relaxed);
        let written = before.saturating_add(count);
        if before >= LARGE || written < LARGE {
            return None;
        }
        let (share, Asked { is_chrome, is_whole, is_shared, .. }) = (self.share(), self.asked);
        let end = if is_whole && share > 0.0 {
            format!(" and will have about {}", bytes((written as f64 / share) as u64))
        } else {
            String::new()
        };
        let json = if is_chrome { " of JSON" } else { "" };
        let smaller = [
            is_chrome.then_some("--to perfetto"),
            is_whole.then_some("a part of the run (--step N..M, --since and --until)"),
            is_shared.then_some("a file for each rank (-o DIR/)"),
            Some("one GPU or stream (--device, --stream)"),
        ];
        let smaller: Vec<&str> = smaller.into_iter().flatten().collect();
        Some(format!(
            "the export has {}{json} after {:.0} % of the trace{end}, which tools have to hold in memory; smaller are: {}",
            bytes(written),
            share * 100.0,
            smaller.join(", ")
        ))
    }
}

/// A file that is written.
#[derive(Debug)]
pub(super) struct Counted<'e, W> {
    out: W,
    exporting: &'e Exporting,
}

impl<W: Write> Write for Counted<'_, W> {
    fn write(&mut self, part: &[u8]) -> io::Result<usize> {
        let count = self.out.write(part)?;
        self.exporting.wrote(count as u64).into_iter().for_each(say);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_how_far_it_is() {
        let exporting = Exporting::default();
        (0..3).for_each(|_| exporting.read());
        assert_eq!(exporting.line(Duration::from_millis(1_900)), "reading: 3 records, 1 s");
        exporting.file_of(4);
        exporting.read();
        exporting.counted(io::sink()).write_all(&[0; 2_048]).unwrap();
        assert_eq!(exporting.line(Duration::from_secs(2)), "writing: 25 % of the trace, 2.00 KiB, 2 s");
        exporting.file_of(1);
        (0..9).for_each(|_| exporting.read());
        assert_eq!(exporting.line(Duration::ZERO), "writing: 100 % of the trace, 0 B, 0 s");
    }

    #[test]
    fn a_file_that_becomes_large_is_said_once_with_what_is_smaller() {
        let exporting = Exporting::new(Asked { is_chrome: true, is_whole: true, ..Asked::default() });
        exporting.file_of(10);
        exporting.read();
        assert_eq!(exporting.wrote(LARGE - 1), None);
        assert_eq!(
            exporting.wrote(1).as_deref(),
            Some(
                "the export has 500 MiB of JSON after 10 % of the trace and will have about 4.88 GiB, which tools have to \
                 hold in memory; smaller are: --to perfetto, a part of the run (--step N..M, --since and --until), one GPU \
                 or stream (--device, --stream)"
            )
        );
        assert_eq!(exporting.wrote(LARGE), None, "once for each file");
        exporting.file_of(10);
        assert!(exporting.wrote(LARGE).is_some());

        let part = Exporting::new(Asked { is_shared: true, ..Asked::default() });
        part.file_of(2);
        part.read();
        let sentence = part.wrote(LARGE).unwrap();
        assert!(sentence.contains("50 % of the trace, which") && sentence.contains("-o DIR/"), "{sentence}");
        assert!(!sentence.contains("--to perfetto") && !sentence.contains("--step"), "{sentence}");
    }
}
