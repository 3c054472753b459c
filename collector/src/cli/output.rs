//! Writes a file that a command was asked for.

use super::{Failure, say};
use crate::units::bytes;
use crate::why::why;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

/// Writes a file and says so, or stdout without one. `None`: the reader of stdout (`gpuspy export … | head`) has closed it.
pub(super) fn write_to<T>(
    path: Option<&Path>,
    write: impl FnOnce(&mut dyn Write) -> io::Result<T>,
) -> Result<Option<T>, Failure> {
    match path {
        Some(path) => write_file(path, write).inspect(|_| say_written(path)).map(Some),
        None => match write(&mut io::stdout().lock()) {
            Err(e) if e.kind() == ErrorKind::BrokenPipe => Ok(None),
            written => written.map(Some).map_err(|e| cannot_write("stdout", &e)),
        },
    }
}

/// Writes a temporary file beside the target and renames it at the end, so that the target is always a complete file.
pub(super) fn write_file<T>(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> io::Result<T>,
) -> Result<T, Failure> {
    let failed = |e: &io::Error| cannot_write(path.display(), e);
    let compress = path.extension().is_some_and(|e| e == "gz");
    // A link is followed: its target is written.
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    if target.exists() && !target.is_file() {
        // A device or a pipe. Opening a directory fails.
        let file = File::options().write(true).open(&target).map_err(|e| failed(&e))?;
        return write_compressed(file, compress, write).map_err(|e| failed(&e));
    }
    let mut beside = target.clone().into_os_string();
    beside.push(format!(".{}.part", std::process::id()));
    let beside = PathBuf::from(beside);
    let written = File::create(&beside)
        .and_then(|file| write_compressed(file, compress, write))
        .and_then(|written| fs::rename(&beside, &target).map(|()| written));
    written.map_err(|e| {
        let _ = fs::remove_file(&beside); // It may not exist.
        failed(&e)
    })
}

fn write_compressed<T>(
    mut file: File,
    compress: bool,
    write: impl FnOnce(&mut dyn Write) -> io::Result<T>,
) -> io::Result<T> {
    if !compress {
        return write(&mut file);
    }
    let mut encoder = GzEncoder::new(file, Compression::fast());
    let written = write(&mut encoder)?;
    encoder.finish().map(|_| written)
}

/// Prints which file was written, and its size.
pub(super) fn say_written(path: &Path) {
    // A device or a pipe has no size.
    let size = fs::metadata(path).ok().filter(fs::Metadata::is_file);
    let size = size.map_or_else(String::new, |file| format!(" ({})", bytes(file.len())));
    say(format_args!("wrote {}{size}", path.display()));
}

/// Why something was not written.
pub(super) fn cannot_write(name: impl std::fmt::Display, error: &io::Error) -> Failure {
    Failure::usage(format_args!("cannot write {name}: {}", why(error)))
}
