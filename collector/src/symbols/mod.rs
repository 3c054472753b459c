//! Which function, and which line of its source, does an address in a program's file belong to?
//!
//! Files are read when a report is made, and only those from which calls came. A file may have changed since the run, may
//! be damaged or hostile, and may be as large as libtorch: it is believed only if it has the build id that the run saw
//! ([`mod@file`]), nothing of it is read that is not needed, and what is read, and how long, is limited ([`elf`],
//! [`debug_info`]).
//!
//! - [`elf`]: the sections of a file, its build id
//! - [`symbol_table`]: the names of functions
//! - [`debug_info`]: lines, and functions that were inlined
//! - [`separate`]: debug information in a file of its own
//! - [`perf_map`]: code that lies in no file, since the program generated it
#![forbid(unsafe_code)]

mod debug_info;
mod elf;
mod file;
mod perf_map;
mod separate;
mod symbol_table;
#[cfg(test)]
mod tests;

use crate::hash::HashMap;
use crate::model::callers::{Found, Place};
use file::Answer;
use gpuspy_wire::build_id::BuildId;
pub use perf_map::Process;
use std::path::Path;

/// The kernel's code in each process, which is in no file. On Arm, a signal's handler returns to it (vdso(7)).
const KERNELS: &str = "linux-vdso.so.1";

/// Finds the frames of each place in the files of a process; `None`: nothing is known of the process.
pub fn resolve(places: &[Place], process: Option<&Process>) -> Found {
    let mut files: HashMap<(&str, BuildId), Vec<usize>> = HashMap::default();
    for (number, place) in places.iter().enumerate() {
        files.entry((&place.path, place.build_id)).or_default().push(number);
    }
    let mut found = Found { frames: vec![Vec::new(); places.len()], unread: Vec::new() };
    for ((path, build_id), numbers) in files {
        // A return address is that of the next instruction, which may be of another line or even of another function.
        let addresses = numbers.iter().filter_map(|number| places[*number].offset.checked_sub(1));
        let mut addresses: Vec<u64> = addresses.collect();
        addresses.sort_unstable();
        addresses.dedup();
        let answer = match path {
            "" => match process.and_then(|process| perf_map::look_up(process, &addresses)) {
                Some(frames) => Answer::Frames(frames),
                None => continue,
            },
            KERNELS => continue,
            path => {
                file::look_up(Path::new(path), build_id, process.map(|process| process.began), &addresses)
            }
        };
        match answer {
            Answer::Unread(why) => found.unread.push((why, path.to_owned())),
            Answer::Frames(frames) => {
                for number in numbers {
                    let address = places[number].offset.checked_sub(1);
                    let at = address.and_then(|address| addresses.binary_search(&address).ok());
                    found.frames[number] = at.map(|at| frames[at].clone()).unwrap_or_default();
                }
            }
        }
    }
    found.unread.sort();
    found.unread.dedup();
    found
}
