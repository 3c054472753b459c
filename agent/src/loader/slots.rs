//! Where does a loaded object keep the addresses of other objects' functions?

use crate::loader::libraries::{List, Loaded};
use core::ffi::{CStr, c_char, c_void};
use core::sync::atomic::{AtomicUsize, Ordering};

// elf(5): tags of the dynamic section.
const DT_PLTRELSZ: u64 = 2;
const DT_STRTAB: u64 = 5;
const DT_SYMTAB: u64 = 6;
const DT_RELA: u64 = 7;
const DT_RELASZ: u64 = 8;
const DT_JMPREL: u64 = 23;

/// The relocations that fill a slot with a function's address: `JUMP_SLOT` and `GLOB_DAT`, by the processors'
/// ABIs.
const OF_FUNCTIONS: [u64; 2] = if cfg!(target_arch = "aarch64") { [1026, 1025] } else { [7, 6] };

/// The first two characters of the wanted functions' names, which reject most names.
const PREFIXES: [&[u8; 2]; 3] = [b"cu", b"__", b"dl"];

/// A slot for a function's address.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Slot {
    /// The slot's address.
    pub address: u64,
    /// The slot's value.
    pub value: usize,
    /// Whether the loader has stored the function's address there; otherwise it will at the first use.
    pub is_bound: bool,
}

/// Calls `decide` with each slot of a function whose name is wanted, in the objects of a list except the
/// first `known` and this library, and writes the value that it returns. The loader's list is locked
/// meanwhile: `decide` must neither call the loader nor allocate. Returns false when the list has changed;
/// then no object was visited.
///
/// Covers only what the loader has relocated: see
/// [`libraries::wait_for_loading`](super::libraries::wait_for_loading).
pub fn each<W>(
    list: &List,
    known: u64,
    wanted: impl Fn(&CStr) -> Option<W>,
    mut decide: impl FnMut(&Slot, W) -> Option<usize>,
) -> bool {
    list.walk(known, |loaded| {
        if !loaded.is_us() {
            in_object(loaded, &wanted, &mut decide);
        }
    })
}

fn in_object<W>(
    loaded: &Loaded<'_>,
    wanted: &impl Fn(&CStr) -> Option<W>,
    decide: &mut impl FnMut(&Slot, W) -> Option<usize>,
) -> Option<()> {
    let dynamic = loaded.dynamic()?;
    let value = |tag| dynamic.iter().find(|[found, _]| *found == tag).map(|[_, value]| *value);
    // glibc relocates the values of these tags, but not in the vDSO, which needs nothing from other objects.
    let place = |tag| value(tag).filter(|place| loaded.holds(*place));
    let (symbols, strings) = (place(DT_SYMTAB)?, place(DT_STRTAB)?);
    for (table, bytes) in [(DT_JMPREL, DT_PLTRELSZ), (DT_RELA, DT_RELASZ)] {
        let (Some(table), Some(bytes)) = (place(table), value(bytes)) else { continue };
        // SAFETY: the loaded object's table of Elf64_Rela, with that many bytes.
        let relocations =
            unsafe { core::slice::from_raw_parts(table as *const [u64; 3], bytes as usize / 24) };
        for &[offset, info, addend] in relocations {
            if addend != 0 || !OF_FUNCTIONS.contains(&(info & 0xffff_ffff)) {
                continue;
            }
            // SAFETY: the symbol's entry in the loaded object's table.
            let symbol = unsafe { &*(symbols as *const libc::Elf64_Sym).add((info >> 32) as usize) };
            let name = strings.wrapping_add(u64::from(symbol.st_name)) as *const c_char;
            // A symbol that the object itself defines (SHN_UNDEF is 0) means that definition.
            if symbol.st_shndx != 0 || !has_wanted_prefix(name) {
                continue;
            }
            // SAFETY: the symbol's name: an offset into the object's strings.
            if let Some(wanted) = wanted(unsafe { CStr::from_ptr(name) }) {
                consider(loaded, loaded.base().wrapping_add(offset), wanted, decide);
            }
        }
    }
    Some(())
}

fn has_wanted_prefix(name: *const c_char) -> bool {
    // SAFETY: a terminated string: the second byte is read only if the first is not the terminator.
    let matches = |with: &[u8; 2]| unsafe { *name as u8 == with[0] && *name.add(1) as u8 == with[1] };
    PREFIXES.into_iter().any(matches)
}

fn consider<W>(
    loaded: &Loaded<'_>,
    address: u64,
    wanted: W,
    decide: &mut impl FnMut(&Slot, W) -> Option<usize>,
) {
    let place = address as *const AtomicUsize;
    if !place.is_aligned() || !loaded.holds(address) {
        return;
    }
    // SAFETY: an aligned word of the loaded object. Relaxed: an address of code that is loaded already.
    let value = unsafe { (*place).load(Ordering::Relaxed) };
    // Before the first use, the slot points into the object's own procedure linkage table.
    let slot = Slot { address, value, is_bound: !loaded.holds(value as u64) };
    if let Some(new) = decide(&slot, wanted) {
        write(loaded, place, new);
    }
}

fn write(loaded: &Loaded<'_>, place: *const AtomicUsize, new: usize) {
    // SAFETY: queries a constant.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as u64;
    let start = place as u64 & !(page - 1);
    let is_sealed = is_sealed(loaded, start, page);
    let protect = |protection| {
        // SAFETY: a page of the object's relocated data, which the loader wrote before it made the page
        // read-only; it stays readable.
        !is_sealed || unsafe { libc::mprotect(start as *mut c_void, page as usize, protection) } == 0
    };
    if protect(libc::PROT_READ | libc::PROT_WRITE) {
        // SAFETY: an aligned word, writable now, changed in one step. Relaxed: as for the load.
        unsafe { (*place).store(new, Ordering::Relaxed) };
        protect(libc::PROT_READ);
    }
}

/// Whether the loader has made a page read-only after relocation (PT_GNU_RELRO; whole pages only).
fn is_sealed(loaded: &Loaded<'_>, start: u64, page: u64) -> bool {
    let whole = |address: u64| address & !(page - 1);
    loaded.headers().iter().filter(|h| h.p_type == libc::PT_GNU_RELRO).any(|h| {
        let from = loaded.base().wrapping_add(h.p_vaddr);
        (whole(from)..whole(from.wrapping_add(h.p_memsz))).contains(&start)
    })
}
