//! Where is a loaded object's own definition of a symbol? Read from the object's tables during a walk of the loader's
//! list, so that neither the lock of dlsym is taken, which a constructor of the app's may hold, nor code of the object is
//! run.

use crate::loader::libraries::{self, Loaded};
use core::ffi::{CStr, c_char};

// elf(5): tags of the dynamic section. DT_GNU_HASH is GNU's (elf.h of glibc).
const DT_STRTAB: u64 = 5;
const DT_SYMTAB: u64 = 6;
const DT_GNU_HASH: u64 = 0x6fff_fef5;
/// GNU's type of a symbol whose address is what a function at its value returns.
const STT_GNU_IFUNC: u8 = 10;

/// The symbols of an object, found by GNU's hash table. An object without one (linked with `--hash-style=sysv`) counts
/// as having none.
pub struct Symbols<'a> {
    loaded: &'a Loaded<'a>,
    symbols: *const libc::Elf64_Sym,
    strings: *const c_char,
    table: *const u32,
}

impl<'a> Symbols<'a> {
    /// Returns an object's symbols. `None`: it has no table.
    pub fn of(loaded: &'a Loaded<'a>) -> Option<Symbols<'a>> {
        let dynamic = loaded.dynamic()?;
        // glibc relocates the values of these tags, but not in the vDSO.
        let place = |tag| {
            let value = dynamic.iter().find(|[found, _]| *found == tag).map(|[_, value]| *value);
            value.filter(|place| loaded.holds(*place))
        };
        Some(Symbols {
            loaded,
            symbols: place(DT_SYMTAB)? as *const libc::Elf64_Sym,
            strings: place(DT_STRTAB)? as *const c_char,
            table: place(DT_GNU_HASH)? as *const u32,
        })
    }

    /// Returns the address of a symbol that the object defines.
    pub fn get(&self, name: &CStr) -> Option<u64> {
        let hash = hash(name.to_bytes());
        // SAFETY: the hash table begins with four words: the number of buckets, the index of the first symbol in the
        // table, and the length and the shift of its filter.
        let [buckets, first, filter_words, _] = unsafe { self.table.cast::<[u32; 4]>().read_unaligned() };
        if buckets == 0 {
            return None;
        }
        // SAFETY: behind them come the filter, which is of 64-bit words, the buckets, and the hashes of the symbols.
        let (bucket, hashes) = unsafe {
            let start = self.table.add(4 + 2 * filter_words as usize);
            (start.add((hash % buckets) as usize).read(), start.add(buckets as usize))
        };
        let mut index = bucket;
        while index >= first && index != 0 {
            // SAFETY: a bucket's symbols follow each other, and the last one's hash has the lowest bit set.
            let found = unsafe { hashes.add((index - first) as usize).read() };
            if found | 1 == hash | 1
                && let Some(address) = self.defined(index, name)
            {
                return Some(address);
            }
            if found & 1 != 0 {
                break;
            }
            index += 1;
        }
        None
    }

    /// Returns the address of the symbol at an index, if it has this name and lies in the object. What is chosen by code of
    /// the object's when it is loaded counts as absent.
    fn defined(&self, index: u32, name: &CStr) -> Option<u64> {
        // SAFETY: an index from the hash table, whose symbols all have an entry.
        let symbol = unsafe { &*self.symbols.add(index as usize) };
        // SAFETY: the symbol's name: an offset into the object's strings.
        let found = unsafe { CStr::from_ptr(self.strings.add(symbol.st_name as usize)) };
        let address = self.loaded.base().wrapping_add(symbol.st_value);
        let is_chosen = symbol.st_info & 0xf == STT_GNU_IFUNC;
        let is_defined = symbol.st_shndx != 0 && !is_chosen && self.loaded.holds(address);
        (found == name && is_defined).then_some(address)
    }
}

/// Returns the address of libc's own function of this name, even where other libraries have one as well.
pub fn in_libc(name: &CStr) -> Option<usize> {
    // A function that no other library has a reason to replace.
    let libc = libc::gnu_get_libc_version as *const () as u64;
    in_first(|loaded| loaded.holds(libc), name)
}

/// Returns the address of a function of this name in a library with this file name, if that is loaded.
pub fn in_file(library: &CStr, name: &CStr) -> Option<usize> {
    in_first(|loaded| loaded.is_file(library), name)
}

/// Returns the address of a function of this name in the library with this file name that the process starts with, while it
/// starts.
pub fn in_file_at_start(library: &CStr, name: &CStr) -> Option<usize> {
    libraries::at_start(library, |loaded| Symbols::of(loaded)?.get(name)).map(|address| address as usize)
}

/// Returns the address of libcuda's own function of this name, read from its tables: what lookups by dlsym find may be another
/// library's.
pub fn in_driver(name: &CStr) -> Option<usize> {
    in_first(|loaded| loaded.is_driver(), name)
}

/// Returns the address of a function of the first object that is accepted.
fn in_first(accepts: impl Fn(&Loaded<'_>) -> bool, name: &CStr) -> Option<usize> {
    let found = libraries::search(|loaded| accepts(loaded).then(|| Symbols::of(loaded)?.get(name)));
    found.flatten().map(|address| address as usize)
}

/// GNU's hash of a symbol's name (Bernstein's, with 33 and 5381).
fn hash(name: &[u8]) -> u32 {
    name.iter().fold(5381, |hash: u32, byte| hash.wrapping_mul(33).wrapping_add(u32::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loader::next_definition;

    #[test]
    fn a_symbol_has_the_address_that_the_loader_finds() {
        let found = |name: &CStr| libraries::search(|loaded| Symbols::of(loaded)?.get(name));
        for name in [c"malloc", c"getenv", c"dl_iterate_phdr"] {
            let expected = next_definition(name).unwrap() as u64;
            let holder =
                libraries::search(|loaded| loaded.holds(expected).then(|| Symbols::of(loaded)?.get(name)));
            assert_eq!(holder, Some(Some(expected)), "{name:?}");
        }
        assert_eq!(found(c"gpuspy_has_no_such_function"), None);
    }

    #[test]
    fn a_library_of_the_start_has_the_functions_that_the_loader_finds() {
        for name in [c"dlsym", c"clock_gettime", c"gpuspy_has_no_such_function"] {
            assert_eq!(in_file_at_start(c"libc.so.6", name), in_libc(name), "{name:?}");
        }
        assert_eq!(in_file_at_start(c"libcuda.so.1", c"cuInit"), None, "it is not loaded");
    }

    #[test]
    fn a_function_of_libcs_is_found_in_libc() {
        let found = in_libc(c"clock_gettime").unwrap();
        assert_eq!(found, next_definition(c"clock_gettime").unwrap());
        assert_eq!(in_libc(c"gpuspy_has_no_such_function"), None);
    }
}
