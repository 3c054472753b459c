//! Writes a file that a command was asked for.

use super::{Failure, part, say};
use crate::ahead::behind;
use crate::export::COMPRESSION;
use crate::units::bytes;
use crate::why::why;
use flate2::write::GzEncoder;
use parking_lot::Mutex;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Writes a file and says so, or stdout without one. `None`: the reader of stdout (`gpuspy export … | head`) has closed it.
pub(super) fn write_to<T>(
    path: Option<&Path>,
    write: impl FnOnce(&mut (dyn Write + Send)) -> io::Result<T>,
) -> Result<Option<T>, Failure> {
    match path {
        Some(path) => write_file(path, write).inspect(|_| say_written(path)).map(Some),
        None => match write(&mut io::stdout()) {
            Err(e) if e.kind() == ErrorKind::BrokenPipe => Ok(None),
            written => written.map(Some).map_err(|e| cannot_write("stdout", &e)),
        },
    }
}

/// Writes a temporary file beside the target and renames it at the end, so that the target is always a complete file.
pub(super) fn write_file<T>(
    path: &Path,
    write: impl FnOnce(&mut (dyn Write + Send)) -> io::Result<T>,
) -> Result<T, Failure> {
    write_file_as(0o666, path, write)
}

/// The same with a mode, from which the system takes the user's mask.
pub(super) fn write_file_as<T>(
    mode: u32,
    path: &Path,
    write: impl FnOnce(&mut (dyn Write + Send)) -> io::Result<T>,
) -> Result<T, Failure> {
    let failed = |e: &io::Error| cannot_write(path.display(), e);
    let compress = is_compressed(path);
    // A link is followed: its target is written.
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    if target.exists() && !target.is_file() {
        // A device or a pipe. Opening a directory fails.
        let file = File::options().write(true).open(&target).map_err(|e| failed(&e))?;
        return write_compressed(&file, compress, write).map_err(|e| failed(&e));
    }
    let beside = part::beside(&target, "");
    let opened = File::options().write(true).create(true).truncate(true).mode(mode).open(&beside);
    let written = opened.and_then(|file| {
        part::hold(&file);
        let written = write_compressed(&file, compress, write)?;
        fs::rename(&beside, &target).map(|()| written)
    });
    written.map_err(|e| {
        let _ = fs::remove_file(&beside); // It may not exist.
        failed(&e)
    })
}

/// Returns whether a file of this name is compressed as a whole.
pub(super) fn is_compressed(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "gz")
}

fn write_compressed<T>(
    mut file: &File,
    compress: bool,
    write: impl FnOnce(&mut (dyn Write + Send)) -> io::Result<T>,
) -> io::Result<T> {
    if !compress {
        return write(&mut file);
    }
    let mut encoder = GzEncoder::new(file, COMPRESSION);
    let written = write(&mut encoder)?;
    encoder.finish().map(|_| written)
}

/// The bytes that are written to a file at once, and handed over at once.
const BLOCK: usize = 1 << 16;

/// Lets `write` write what is written to `out`, and maybe compressed there, by a thread of its own. Memory is a few blocks.
///
/// # Errors
/// Those of `write` and of `out`. After one of `out`, nothing more is written to it.
pub(super) fn written_behind<T>(
    out: &mut (impl Write + Send),
    write: impl FnOnce(&mut Handed<'_>) -> io::Result<T>,
) -> io::Result<T> {
    let failed = Mutex::new(None);
    let put = |block: Vec<u8>| {
        // It is not locked while something is written.
        if failed.lock().is_none()
            && let Err(error) = out.write_all(&block)
        {
            *failed.lock() = Some(error);
        }
    };
    let written = behind(put, |give| {
        let mut handed = Handed { give, failed: &failed, block: Vec::with_capacity(BLOCK) };
        write(&mut handed).and_then(|written| handed.flush().map(|()| written))
    });
    // An error of `write` may be that it was told of this one.
    match failed.into_inner() {
        Some(error) => Err(error),
        None => written.and_then(|written| out.flush().map(|()| written)),
    }
}

/// What is written here is handed over in blocks.
pub(super) struct Handed<'h> {
    give: &'h mut dyn FnMut(Vec<u8>),
    /// Why a block was not written.
    failed: &'h Mutex<Option<io::Error>>,
    block: Vec<u8>,
}

impl Write for Handed<'_> {
    fn write(&mut self, part: &[u8]) -> io::Result<usize> {
        if self.block.len() + part.len() > BLOCK {
            self.flush()?;
        }
        self.block.extend_from_slice(part);
        Ok(part.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.failed.lock().is_some() {
            return Err(io::Error::other("what was written before was not taken"));
        }
        if !self.block.is_empty() {
            (self.give)(std::mem::replace(&mut self.block, Vec::with_capacity(BLOCK)));
        }
        Ok(())
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_written_takes_the_place_of_what_an_interrupted_export_left() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("x.json.gpuspy-7.part"), "half").unwrap();
        write_file(&folder.path().join("x.json"), |out| out.write_all(b"whole")).unwrap();
        let names = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
        assert_eq!(names.collect::<Vec<_>>(), ["x.json"]);
    }

    #[test]
    fn what_is_written_behind_is_there_in_order() {
        let mut file = Vec::new();
        let count = written_behind(&mut file, |out| {
            for number in 0..200_000_u32 {
                out.write_all(&number.to_le_bytes())?;
            }
            out.write_all(&[7; 3 * BLOCK]).map(|()| 200_000)
        });
        assert_eq!(count.unwrap(), 200_000);
        let (numbers, rest) = file.split_at(800_000);
        assert!(numbers.chunks(4).map(|four| u32::from_le_bytes(four.try_into().unwrap())).eq(0..200_000));
        assert!(rest.len() == 3 * BLOCK && rest.iter().all(|byte| *byte == 7));
    }

    /// It takes so many bytes, as a full disk does.
    struct Full(usize);

    impl Write for Full {
        fn write(&mut self, part: &[u8]) -> io::Result<usize> {
            self.0 = self.0.checked_sub(part.len()).ok_or(ErrorKind::StorageFull)?;
            Ok(part.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_file_that_cannot_be_written_behind_ends_the_writing_with_its_error() {
        let mut written = 0;
        let endless = written_behind(&mut Full(3 * BLOCK), |out| -> io::Result<()> {
            loop {
                out.write_all(&[0; 1000])?;
                written += 1000;
            }
        });
        assert_eq!(endless.unwrap_err().kind(), ErrorKind::StorageFull);
        assert!(written >= 3 * BLOCK - 1000, "{written}");
        // The last block is written when nobody is left to be told.
        let short = written_behind(&mut Full(10), |out| out.write_all(&[0; 11]));
        assert_eq!(short.unwrap_err().kind(), ErrorKind::StorageFull);
        let own = written_behind(&mut Full(BLOCK), |_| Err::<(), _>(ErrorKind::InvalidData.into()));
        assert_eq!(own.unwrap_err().kind(), ErrorKind::InvalidData);
    }
}
