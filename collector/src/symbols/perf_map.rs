//! What does a program say of code that it generated while it ran?
//!
//! Compilers of such code (Java's, Node's, LuaJIT's) can list it in `/tmp/perf-PID.map`, for `perf` (Linux,
//! tools/perf/Documentation/jit-interface.txt): lines of a function's address, its length (both hexadecimal), and its name.
//!
//! A process with the same number may have written the file at another time, so it is believed only if it was last written
//! while the process ran. Anybody can write to that folder: only a regular file of the user's own, or of
//! root's, is read, and only so much of it.

use crate::model::stacks::Frame;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, SystemTime};

/// The most bytes that are read. A million functions have some 100 MB.
const MOST_BYTES: u64 = 1 << 30;
/// A longer line names nothing.
const LONGEST_LINE: u64 = 1 << 16;
/// The most times that a function is found to hold an address. The functions of an honest list hardly overlap.
const MOST_MATCHES: usize = 10_000_000;
/// A runtime writes its map as it ends, and the end that a trace has may be that of its last call.
const AFTER_THE_END: Duration = Duration::from_secs(2);
/// What stands in place of a library.
const LIBRARY: &str = "generated code";

/// A process, as its trace knows it.
#[derive(Clone, Copy, Debug)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// When it began.
    pub began: SystemTime,
    /// When it was last seen.
    pub ended: SystemTime,
}

/// Returns the frames of addresses, which are sorted: one, or none. `None`: there is no list of that process.
pub(super) fn look_up(process: &Process, addresses: &[u64]) -> Option<Vec<Vec<Frame>>> {
    let path = format!("/tmp/perf-{}.map", process.pid);
    let file = open(Path::new(&path), process)?;
    let names = names(BufReader::new(file), addresses);
    Some(names.into_iter().map(|name| name.map(|name| frame(&name)).into_iter().collect()).collect())
}

fn frame(name: &str) -> Frame {
    Frame::native(name, None, LIBRARY)
}

/// Opens a list, if it is one of that process.
fn open(path: &Path, process: &Process) -> Option<File> {
    // What is no regular file may make its reader wait.
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    let about = file.metadata().ok()?;
    let written = about.modified().ok()?;
    let ran = process.began..=process.ended + AFTER_THE_END;
    let user = Path::new("/proc/self").metadata().ok()?.uid();
    let is_of_user = [0, user].contains(&about.uid());
    (about.is_file() && is_of_user && ran.contains(&written)).then_some(file)
}

/// Returns the name of the function that each address lies in. Memory is used again for other functions: the last one that is
/// listed counts.
fn names(mut list: impl BufRead, addresses: &[u64]) -> Vec<Option<String>> {
    let mut names = vec![None; addresses.len()];
    let (mut line, mut left, mut matches) = (Vec::new(), MOST_BYTES, 0);
    while matches < MOST_MATCHES {
        line.clear();
        let read = list.by_ref().take(LONGEST_LINE.min(left)).read_until(b'\n', &mut line);
        match read {
            Ok(read) if read > 0 => left -= read as u64,
            _ => break,
        }
        let Some((start, end, name)) = line.strip_suffix(b"\n").and_then(function) else { continue };
        let first = addresses.partition_point(|address| *address < start);
        for (address, named) in addresses.iter().zip(&mut names).skip(first) {
            if *address >= end {
                break;
            }
            *named = Some(name.to_owned());
            matches += 1;
        }
    }
    names
}

/// Reads a line: where a function starts and ends, and its name.
fn function(line: &[u8]) -> Option<(u64, u64, &str)> {
    let line = str::from_utf8(line).ok()?;
    let mut parts = line.splitn(3, ' ');
    let mut number = || {
        let part = parts.next()?;
        u64::from_str_radix(part.strip_prefix("0x").unwrap_or(part), 16).ok()
    };
    let (start, length) = (number()?, number()?);
    let name = parts.next().filter(|name| !name.is_empty())?;
    Some((start, start.checked_add(length)?, name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn an_address_has_the_name_of_the_last_function_that_lay_there() {
        let list = b"1000 100 old\n7f0000001000 20 train(float*, int)\n\
            0x1000 0x80 Lcom/x/Train;::step\nx 10 broken\n2000 zz broken\n3000 10\n3000 10 \n\
            ffffffffffffffff 10 too far\n\xff\xfe\n4000 10 without an end";
        let addresses = [0xfff, 0x1000, 0x107f, 0x1080, 0x1100, 0x3000, 0x4000, 0x7f00_0000_101f];
        let expected = [
            None,
            Some("Lcom/x/Train;::step"),
            Some("Lcom/x/Train;::step"),
            Some("old"),
            None,
            None,
            None,
            Some("train(float*, int)"),
        ];
        let names = names(list.as_slice(), &addresses);
        assert_eq!(names.iter().map(Option::as_deref).collect::<Vec<_>>(), expected);
        assert_eq!(frame("Lcom/x/Train;::step").place(), "Lcom/x/Train;::step in generated code");
    }

    #[test]
    fn a_line_without_an_end_is_not_kept() {
        let list =
            [b"1000 100 ".to_vec(), vec![b'n'; LONGEST_LINE as usize + 50], b"\n1000 100 f\n".to_vec()]
                .concat();
        assert_eq!(names(list.as_slice(), &[0x1000]), [Some("f".to_owned())]);
    }

    #[test]
    fn a_list_of_another_time_or_kind_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("perf-1.map");
        std::fs::write(&path, "1000 10 f\n").unwrap();
        let written = path.metadata().unwrap().modified().unwrap();
        let ran = |began: i64, ended: i64| {
            let at = |seconds: i64| match u64::try_from(seconds) {
                Ok(later) => written + Duration::from_secs(later),
                Err(_) => written - Duration::from_secs(seconds.unsigned_abs()),
            };
            Process { pid: 1, began: at(began), ended: at(ended) }
        };
        assert!(open(&path, &ran(-10, 10)).is_some() && open(&path, &ran(-10, -1)).is_some());
        assert!(open(&path, &ran(1, 10)).is_none() && open(&path, &ran(-10, -5)).is_none());
        let link = folder.path().join("perf-2.map");
        symlink(&path, &link).unwrap();
        assert!(open(&link, &ran(-10, 10)).is_none() && open(folder.path(), &ran(-10, 10)).is_none());
    }
}
