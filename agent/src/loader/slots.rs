//! Where does a loaded object keep the addresses of other objects' functions and variables?

use crate::loader::libraries::{List, Loaded};
use core::ffi::{CStr, c_char, c_void};
use core::marker::PhantomData;
use core::sync::atomic::{AtomicUsize, Ordering};

// elf(5): tags of the dynamic section.
const DT_PLTRELSZ: u64 = 2;
const DT_STRTAB: u64 = 5;
const DT_SYMTAB: u64 = 6;
const DT_RELA: u64 = 7;
const DT_RELASZ: u64 = 8;
const DT_JMPREL: u64 = 23;
const DT_RELACOUNT: u64 = 0x6fff_fff9;

/// The relocations that fill a slot with a symbol's address: `JUMP_SLOT`, `GLOB_DAT` and the one for data, by the
/// processors' ABIs.
const OF_ADDRESSES: [u64; 3] = if cfg!(target_arch = "aarch64") { [1026, 1025, 257] } else { [7, 6, 1] };

/// The relocation that copies a library's variable into the program, which then is the variable of both.
const COPY: u64 = if cfg!(target_arch = "aarch64") { 1024 } else { 5 };

/// `STB_WEAK` of elf(5).
const WEAK: u8 = 2;

/// A slot for a symbol's address.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Slot {
    /// The slot's address.
    pub address: u64,
    /// The slot's value.
    pub value: usize,
    /// Whether the loader has stored a function's address there; otherwise it will at the first use.
    pub is_bound: bool,
}

/// A reference of an object to a symbol.
pub struct Reference<'a> {
    pub slot: Slot,
    /// Its symbol's place in the object's table. It is read only if asked for: most references are rejected by their value, and a large
    /// library has a million of them.
    symbol: *const libc::Elf64_Sym,
    strings: *const c_char,
    is_copy: bool,
    object: PhantomData<&'a ()>,
}

impl<'a> Reference<'a> {
    fn symbol(&self) -> &'a libc::Elf64_Sym {
        // SAFETY: the symbol's entry in the table of the loaded object, which stays for as long as the object.
        unsafe { &*self.symbol }
    }

    /// Returns the symbol's name.
    pub fn name(&self) -> &'a CStr {
        // SAFETY: an offset into the loaded object's strings, which stay for as long as the object.
        unsafe { CStr::from_ptr(self.strings.add(self.symbol().st_name as usize)) }
    }

    /// Whether the object defines a symbol of this name itself (SHN_UNDEF is 0).
    pub fn is_own(&self) -> bool {
        self.symbol().st_shndx != 0
    }

    /// Whether the program starts without a definition, too.
    pub fn is_weak(&self) -> bool {
        self.symbol().st_info >> 4 == WEAK
    }

    /// Returns the number of bytes if a library's variable was copied to here. The slot's value then is the variable's
    /// first word.
    pub fn copied_bytes(&self) -> Option<usize> {
        self.is_copy.then(|| self.symbol().st_size as usize)
    }
}

/// Calls `see` with each reference of the objects of a list except the first `known` and this library. The loader's list
/// is locked meanwhile: `see` must neither call the loader nor allocate. Returns false when the list has changed; then no
/// object was visited.
///
/// Covers only what the loader has relocated: see
/// [`libraries::wait_for_loading`](super::libraries::wait_for_loading).
fn each(list: &List, known: u64, mut see: impl FnMut(&Reference<'_>)) -> bool {
    list.walk(known, |loaded| {
        if !loaded.is_us() {
            in_object(loaded, &mut see);
        }
    })
}

/// The most references that are changed without memory of the heap's.
const FEW: usize = 32;

/// Changes references in a walk over the list that gathers those that `select` answers, and another that writes what
/// `decide` has returned in between, when the loader may be called. (Its locks have an order: that of the list is the
/// inner one.) Returns false when the list has changed meanwhile, or when there is no memory.
pub fn change<W: Copy>(
    list: &List,
    known: u64,
    select: impl Fn(&Reference<'_>) -> Option<W>,
    mut decide: impl FnMut(&Slot, W) -> Option<usize>,
) -> bool {
    let mut few = [None; FEW];
    let Some(count) = gather(list, known, &select, &mut few) else { return false };
    let mut many: Vec<Option<(Slot, W)>> = Vec::new();
    let found = if count <= FEW {
        &few[..]
    } else {
        // There was no room for all of them.
        if many.try_reserve_exact(count).is_err() {
            return false;
        }
        many.resize(count, None);
        if gather(list, known, &select, &mut many).is_none() {
            return false;
        }
        &many[..]
    };
    let mut changes: Vec<(Slot, usize)> = Vec::new();
    for (slot, selected) in found.iter().flatten() {
        if let Some(new) = decide(slot, *selected) {
            if changes.try_reserve(1).is_err() {
                return false;
            }
            changes.push((*slot, new));
        }
    }
    // During this walk, the objects stay loaded while we write.
    changes.is_empty()
        || list.walk(known, |loaded| {
            for (before, new) in &changes {
                if !loaded.is_us() && slot(loaded, before.address) == Some(*before) {
                    write(loaded, before.address, *new);
                }
            }
        })
}

/// Stores the references that `select` answers, as many as there is room for, and returns how many there are. `None`: the list
/// has changed.
fn gather<W: Copy>(
    list: &List,
    known: u64,
    select: &impl Fn(&Reference<'_>) -> Option<W>,
    into: &mut [Option<(Slot, W)>],
) -> Option<usize> {
    let mut count = 0;
    let gathered = each(list, known, |reference| {
        if let Some(selected) = select(reference) {
            if let Some(place) = into.get_mut(count) {
                *place = Some((reference.slot, selected));
            }
            count += 1;
        }
    });
    gathered.then_some(count)
}

fn in_object(loaded: &Loaded<'_>, see: &mut impl FnMut(&Reference<'_>)) -> Option<()> {
    let dynamic = loaded.dynamic()?;
    let value = |tag| dynamic.iter().find(|[found, _]| *found == tag).map(|[_, value]| *value);
    // glibc relocates the values of these tags, but not in the vDSO, which needs nothing from other objects.
    let place = |tag| value(tag).filter(|place| loaded.holds(*place));
    let (symbols, strings) = (place(DT_SYMTAB)?, place(DT_STRTAB)?);
    // The first relocations of the second table have no symbol; a large program has a million of them.
    let without_symbol = value(DT_RELACOUNT).unwrap_or(0) as usize;
    for (table, bytes, skipped) in [(DT_JMPREL, DT_PLTRELSZ, 0), (DT_RELA, DT_RELASZ, without_symbol)] {
        let (Some(table), Some(bytes)) = (place(table), value(bytes)) else { continue };
        // SAFETY: the loaded object's table of Elf64_Rela, with that many bytes.
        let relocations =
            unsafe { core::slice::from_raw_parts(table as *const [u64; 3], bytes as usize / 24) };
        for &[offset, info, addend] in relocations.get(skipped..).unwrap_or_default() {
            let kind = info & 0xffff_ffff;
            if addend != 0 || info >> 32 == 0 || !(OF_ADDRESSES.contains(&kind) || kind == COPY) {
                continue;
            }
            let Some(slot) = slot(loaded, loaded.base().wrapping_add(offset)) else { continue };
            let symbol = (symbols as *const libc::Elf64_Sym).wrapping_add((info >> 32) as usize);
            let strings = strings as *const c_char;
            see(&Reference { slot, symbol, strings, is_copy: kind == COPY, object: PhantomData });
        }
    }
    Some(())
}

fn slot(loaded: &Loaded<'_>, address: u64) -> Option<Slot> {
    let place = address as *const AtomicUsize;
    if !place.is_aligned() || !loaded.holds(address) {
        return None;
    }
    // SAFETY: an aligned word of the loaded object. Relaxed: an address of what is loaded already.
    let value = unsafe { (*place).load(Ordering::Relaxed) };
    // Before the first use, the slot points into the object's own procedure linkage table.
    Some(Slot { address, value, is_bound: !loaded.holds(value as u64) })
}

fn write(loaded: &Loaded<'_>, address: u64, new: usize) {
    // SAFETY: queries a constant.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as u64;
    let start = address & !(page - 1);
    let is_sealed = is_sealed(loaded, start, page);
    let protect = |protection| {
        // SAFETY: a page of the object's relocated data, which the loader wrote before it made the page
        // read-only; it stays readable.
        !is_sealed || unsafe { libc::mprotect(start as *mut c_void, page as usize, protection) } == 0
    };
    if protect(libc::PROT_READ | libc::PROT_WRITE) {
        // SAFETY: an aligned word of the loaded object (`slot` has checked both), writable now, changed in one step.
        // Relaxed: as for the load.
        unsafe { (*(address as *const AtomicUsize)).store(new, Ordering::Relaxed) };
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
