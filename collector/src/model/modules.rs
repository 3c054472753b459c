//! Which library does a code address lie in?
//!
//! A program that unloads a library may load another one at its addresses. The trace says when each file was seen where it lay:
//! what was called between two times at which a file was seen there is that file's, and what was called between a time of one file
//! and a time of another is of neither, since nobody knows when they took turns. [`Modules::at`] gives a call's address the number
//! of its file.

use crate::hash::HashMap;
use crate::trace::record::{Module, Names};
use gpuspy_wire::record::Namespace;

/// The place that a call came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallSite {
    /// Path of the mapped file.
    pub path: String,
    /// The address in the file's own numbering, for `addr2line`.
    pub offset: u64,
}

/// Where an address has the number of its file plus one, if it has any. Programs have addresses of 47 bits.
const NUMBER: u32 = 48;
/// The most files: the numbers have 16 bits.
const MOST_FILES: usize = (1 << 16) - 2;
/// The most times at which files were seen where calls came from.
const MOST_SEEN: usize = 1 << 20;

/// The files that a process has mapped.
#[derive(Clone, Debug, Default)]
pub struct Modules {
    /// By their first addresses.
    files: Vec<File>,
    /// Of calls' addresses where several files lay: when each file was seen there (host ns), in order.
    seen: HashMap<u64, Vec<(u64, usize)>>,
}

#[derive(Clone, Debug)]
struct File {
    module: Module,
    /// The greatest end of this file and of those in front of it.
    reach: u64,
}

impl Modules {
    /// The files that were `seen`, and when (host ns). `addresses`: those that calls came from.
    pub fn new(mut seen: Vec<(u64, Module)>, addresses: impl Iterator<Item = u64>) -> Modules {
        seen.sort_by_key(|(at, _)| *at);
        let mut modules: Vec<Module> = seen.iter().map(|(_, module)| module.clone()).collect();
        modules.sort();
        modules.dedup();
        modules.truncate(MOST_FILES);
        let mut reach = 0;
        let file = |module: Module| {
            reach = module.end.max(reach);
            File { module, reach }
        };
        let files = modules.into_iter().map(file).collect();
        let mut all = Modules { files, seen: HashMap::default() };
        let mut left = MOST_SEEN;
        for address in addresses {
            if !all.seen.contains_key(&address) && all.around(address).nth(1).is_some() {
                let times = all.times(address, &seen);
                left = left.saturating_sub(times.len());
                if left == 0 {
                    break;
                }
                all.seen.insert(address, times);
            }
        }
        all
    }

    /// Returns when which files were seen around an address.
    fn times(&self, address: u64, seen: &[(u64, Module)]) -> Vec<(u64, usize)> {
        let around = seen.iter().filter(|(_, module)| (module.start..module.end).contains(&address));
        let number = |module| self.files.binary_search_by(|file| file.module.cmp(module)).ok();
        around.filter_map(|(at, module)| Some((*at, number(module)?))).collect()
    }

    /// The numbers of the files that an address lies in.
    fn around(&self, address: u64) -> impl Iterator<Item = usize> {
        let first = self.files.partition_point(|file| file.module.start <= address);
        let reaching = (0..first).rev().take_while(move |number| address < self.files[*number].reach);
        reaching.filter(move |number| address < self.files[*number].module.end)
    }

    /// Whether a file lay at an address.
    pub fn holds(&self, address: u64) -> bool {
        self.around(address).next().is_some()
    }

    /// Returns an address from which a call came at a time (host ns): with the number of its file, if other files lay there at other
    /// times and it is known which one it was.
    pub fn at(&self, address: u64, time: u64) -> u64 {
        let Some(seen) = self.seen.get(&address) else { return address };
        let next = seen.partition_point(|(at, _)| *at <= time);
        let number = |at: usize| seen.get(at).map(|(_, number)| *number);
        match (next.checked_sub(1).and_then(number), number(next)) {
            (Some(before), Some(after)) if before != after => address,
            // It was there from before it was first seen, and stays after it was last seen.
            (before, after) => {
                before.or(after).map_or(address, |number| address | (number as u64 + 1) << NUMBER)
            }
        }
    }

    /// Returns the times from which on [`at`](Modules::at) returns something else for an address, in order.
    pub fn changes(&self, address: u64) -> impl Iterator<Item = u64> {
        self.seen.get(&address).into_iter().flatten().map(|(at, _)| *at)
    }

    /// Returns the file that an address lies in, and the address without the file's number. `None`: it is in none, or in several.
    pub fn file(&self, address: u64) -> Option<(&Module, u64)> {
        let plain = address & ((1 << NUMBER) - 1);
        let number = match (address >> NUMBER) as usize {
            0 => {
                let mut around = self.around(address);
                around.next().filter(|_| around.next().is_none())?
            }
            number => number - 1,
        };
        Some((&self.files.get(number)?.module, plain))
    }

    /// Returns the paths of the mapped files; a file that is mapped several times is there as often.
    pub fn paths<'s>(&'s self, names: &'s Names) -> impl Iterator<Item = &'s str> {
        self.files.iter().filter_map(|file| names.get(Namespace::Path, file.module.path))
    }

    /// The file that `address` lies in, if it is known.
    pub fn resolve(&self, address: u64, names: &Names) -> Option<CallSite> {
        let (module, plain) = self.file(address)?;
        let path = names.get(Namespace::Path, module.path)?;
        Some(CallSite { path: path.to_owned(), offset: plain.wrapping_sub(module.bias) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Names {
        let names = [(3, "/lib/libx.so"), (4, "/lib/liby.so")];
        Names(names.map(|(path, text)| ((Namespace::Path, path), text.to_owned())).into())
    }

    fn module(start: u64, end: u64, path: u32) -> Module {
        Module { start, end, path, bias: start, ..Module::default() }
    }

    /// All calls of a library that was unloaded were attributed to the one that was loaded in its place.
    #[test]
    fn a_call_is_of_the_library_that_lay_at_its_address_then() {
        let (x, y) = (module(0x1000, 0x2000, 3), module(0x1800, 0x3000, 4));
        let seen = [(10, &x), (20, &x), (30, &y), (40, &y), (50, &x)];
        let seen = seen.map(|(at, module)| (at, module.clone())).to_vec();
        let modules = Modules::new(seen.clone(), [0x1900, 0x1100].into_iter());
        let names = names();
        let of =
            |at, time| modules.resolve(modules.at(at, time), &names).map(|site| (site.path, site.offset));
        let (of_x, of_y) =
            (Some(("/lib/libx.so".to_owned(), 0x900)), Some(("/lib/liby.so".to_owned(), 0x100)));
        for (time, expected) in
            [(5, &of_x), (15, &of_x), (25, &None), (35, &of_y), (40, &None), (45, &None), (99, &of_x)]
        {
            assert_eq!(&of(0x1900, time), expected, "{time}");
        }
        assert_eq!(of(0x1100, 35), Some(("/lib/libx.so".to_owned(), 0x100)), "only one lay there");
        assert_eq!(modules.resolve(0x1900, &names), None, "at an unknown time");
        assert!(modules.holds(0x1900) && !modules.holds(0x3000));
        assert_eq!(modules.paths(&names).collect::<Vec<_>>(), ["/lib/libx.so", "/lib/liby.so"]);
        let without_calls = Modules::new(seen, std::iter::empty());
        assert_eq!(without_calls.at(0x1900, 15), 0x1900);
    }

    #[test]
    fn an_address_is_resolved_to_file_and_offset() {
        let at = |start, end, bias, path| (0, Module { start, end, bias, path, ..Module::default() });
        let seen = vec![at(0x1000, 0x2000, 0x800, 3), at(0x8000, 0x9000, 0, 5)];
        let modules = Modules::new(seen, std::iter::empty());
        let site = CallSite { path: "/lib/libx.so".to_owned(), offset: 0x1fff - 0x800 };
        let names = names();
        assert_eq!(modules.resolve(0x1fff, &names), Some(site));
        assert_eq!(modules.resolve(0x2000, &names), None);
        assert_eq!(modules.resolve(0xfff, &names), None);
        assert_eq!(modules.resolve(0x8000, &names), None, "its name was never sent");
        assert_eq!(modules.resolve(0xffff_ffff_ff60_0000, &names), None);
    }
}
