//! Which CUDA libraries are loaded, and which object contains an address? The agent never loads a CUDA
//! library.

use crate::loader::{in_library, libc_dlopen, quietly, walks};
use core::ffi::{CStr, c_char, c_int, c_void};
use core::ops::Range;
use core::sync::atomic::{AtomicUsize, Ordering};

/// libcuda's handle; 0 = not loaded yet. Relaxed: an address that never changes once known (libcuda is not
/// unloaded while a process uses it, and we have a reference).
static DRIVER: AtomicUsize = AtomicUsize::new(0);

/// The driver library's handle, if it is loaded.
pub fn driver() -> Option<*mut c_void> {
    let known = DRIVER.load(Ordering::Relaxed);
    if known != 0 {
        return Some(known as *mut c_void);
    }
    let handle = loaded(c"libcuda.so.1").or_else(|| loaded(c"libcuda.so"))?;
    DRIVER.store(handle as usize, Ordering::Relaxed);
    Some(handle)
}

/// A library's handle if it is loaded already, in any scope.
fn loaded(name: &CStr) -> Option<*mut c_void> {
    open(name, 0)
}

/// The handle of a loaded library that then stays loaded until the process ends, also after the app
/// closes it: for libraries whose functions we cache.
pub fn pinned(name: &CStr) -> Option<*mut c_void> {
    open(name, libc::RTLD_NODELETE)
}

/// Calls `get` with the handle of a library that is loaded already.
pub fn with<T>(name: &CStr, get: impl FnOnce(*mut c_void) -> Option<T>) -> Option<T> {
    let handle = loaded(name)?;
    let found = get(handle);
    // SAFETY: the reference that `loaded` took; the library has others.
    unsafe { libc::dlclose(handle) };
    found
}

fn open(name: &CStr, flags: c_int) -> Option<*mut c_void> {
    quietly(|| {
        // SAFETY: a terminated name; RTLD_NOLOAD never loads.
        let handle = unsafe { libc_dlopen()(name.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD | flags) };
        (!handle.is_null()).then_some(handle)
    })
}

/// The path of the object that contains an address, if it is a shared libcudart.
pub fn runtime_at(address: usize) -> Option<&'static CStr> {
    path_at(address).filter(|path| is_runtime_name(path.to_bytes()))
}

/// Whether an address is in libcuda or in a shared libcudart.
pub fn is_cuda(address: usize) -> bool {
    path_at(address).is_some_and(|path| is_runtime_name(path.to_bytes()) || is_driver_name(path.to_bytes()))
}

/// The path of the object that contains an address.
fn path_at(address: usize) -> Option<&'static CStr> {
    // SAFETY: all-zero is a valid Dl_info.
    let mut info: libc::Dl_info = unsafe { core::mem::zeroed() };
    // SAFETY: dladdr reads the loader's tables and writes our struct.
    if unsafe { libc::dladdr(address as *const c_void, &mut info) } == 0 || info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: a terminated path that lives as long as the object.
    Some(unsafe { CStr::from_ptr(info.dli_fname) })
}

/// The file name of a path.
fn file_name(path: &[u8]) -> &[u8] {
    path.rsplit(|b| *b == b'/').next().unwrap_or(path)
}

/// Whether a path names the driver.
fn is_driver_name(path: &[u8]) -> bool {
    file_name(path).starts_with(b"libcuda.so")
}

/// Whether a path names a shared libcudart: `libcudart.so.12`, or `libcudart-d0da41ae.so.11.0`, as auditwheel
/// renames the copies that it puts into wheels.
fn is_runtime_name(path: &[u8]) -> bool {
    file_name(path).strip_prefix(b"libcudart").is_some_and(|rest| {
        rest.starts_with(b".so") || (rest.starts_with(b"-") && rest.windows(3).any(|part| part == b".so"))
    })
}

/// Room for a file name (255 bytes at most, limits.h), and its terminator.
const NAME_BYTES: usize = 256;
/// Room for a path, and its terminator: the system opens no longer one.
const PATH_BYTES: usize = 4096;

/// A text that is kept without a heap allocation.
#[derive(Clone, Copy)]
pub struct Text<const BYTES: usize> {
    /// The terminated text.
    bytes: [u8; BYTES],
}

/// A file name.
pub type Name = Text<NAME_BYTES>;

impl<const BYTES: usize> Text<BYTES> {
    /// Returns `None` when the text is too long to be kept with its terminator.
    fn of(text: &[u8]) -> Option<Text<BYTES>> {
        let mut bytes = [0; BYTES];
        bytes.get_mut(..text.len()).filter(|_| text.len() < BYTES)?.copy_from_slice(text);
        Some(Text { bytes })
    }

    fn as_c_str(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.bytes).unwrap_or(c"")
    }
}

/// Calls `visit` with each loaded object until it returns a result. Takes the short lock of the loader's
/// list, and not the lock that is held while libraries' constructors run and that dlopen, dlsym and dladdr
/// take. `visit` allocates nothing. None where the list cannot be walked ([`walks`]).
pub fn search<T>(mut visit: impl FnMut(&Loaded<'_>) -> Option<T>) -> Option<T> {
    struct Search<'a, T> {
        visit: &'a mut dyn FnMut(&Loaded<'_>) -> Option<T>,
        found: Option<T>,
    }
    unsafe extern "C" fn callback<T>(info: *mut libc::dl_phdr_info, _: usize, data: *mut c_void) -> c_int {
        // SAFETY: the struct that was passed below.
        let search = unsafe { &mut *data.cast::<Search<'_, T>>() };
        // SAFETY: the loader's own struct, valid during the callback.
        search.found = (search.visit)(&Loaded { info: unsafe { &*info } });
        c_int::from(search.found.is_some())
    }
    let _walk = walks::begin()?;
    let mut search = Search { visit: &mut visit, found: None };
    // SAFETY: the callback gets our own struct back and only reads what the loader passes to it.
    unsafe { libc::dl_iterate_phdr(Some(callback::<T>), core::ptr::from_mut(&mut search).cast()) };
    search.found
}

/// The front of glibc's `link_map` and `r_debug` (link.h), which the libc crate lacks.
#[repr(C)]
struct LinkMap {
    base: u64,
    name: *const c_char,
    dynamic: *const c_void,
    next: *const LinkMap,
}

#[repr(C)]
struct LoaderState {
    version: c_int,
    objects: *const LinkMap,
}

unsafe extern "C" {
    /// What the loader tells debuggers.
    static _r_debug: LoaderState;
}

/// Calls `visit` with the library of this file name that the process starts with, while it starts, and no object is unloaded.
/// Nothing of libc's is called for that: what sanitizers have in place of [`search`]'s function may not be ready yet.
pub fn at_start<T>(name: &CStr, visit: impl FnOnce(&Loaded<'_>) -> Option<T>) -> Option<T> {
    // SAFETY: the loader's list, which it has made before our code runs, and appends to.
    let mut object = unsafe { _r_debug.objects.as_ref() };
    while let Some(LinkMap { base, name: path, next, .. }) = object {
        // SAFETY: null or a terminated path.
        let path = (!path.is_null()).then(|| unsafe { CStr::from_ptr(*path) });
        if path.is_some_and(|path| file_name(path.to_bytes()) == name.to_bytes()) {
            // SAFETY: a shared library is mapped from its start on, where its header is, which says where its segments' are.
            let header = unsafe { &*(*base as *const libc::Elf64_Ehdr) };
            // SAFETY: zero is valid for each field.
            let mut info: libc::dl_phdr_info = unsafe { core::mem::zeroed() };
            info.dlpi_addr = *base;
            info.dlpi_phdr = base.wrapping_add(header.e_phoff) as *const libc::Elf64_Phdr;
            info.dlpi_phnum = header.e_phnum;
            return visit(&Loaded { info: &info });
        }
        // SAFETY: as for the first.
        object = unsafe { next.as_ref() };
    }
    None
}

/// The load bias of the object that contains an address, which no two loaded objects share.
pub fn base_of(address: u64) -> Option<u64> {
    search(|loaded| loaded.holds(address).then(|| loaded.base()))
}

/// The file name of the libcudart that the object with this address was linked against.
pub fn runtime_needed_at(address: u64) -> Option<Name> {
    let of_runtime = |needed: &[u8]| is_runtime_name(needed).then(|| Name::of(file_name(needed)));
    search(|loaded| loaded.holds(address).then(|| loaded.strings(DT_NEEDED, of_runtime)))??
}

/// Calls `get` with the path of the object with this load bias; that of the program itself is empty.
fn with_path<T>(base: u64, get: impl FnOnce(&CStr) -> Option<T>) -> Option<T> {
    let of_base =
        |loaded: &Loaded<'_>| (loaded.base() == base).then(|| Text::<PATH_BYTES>::of(loaded.path()));
    get(search(of_base)??.as_c_str())
}

/// The handle of the object with this load bias, which then stays loaded until the process ends. Takes the loader's lock.
pub fn pinned_at(base: u64) -> Option<*mut c_void> {
    with_path(base, |path| pinned_as(path, base))
}

fn pinned_as(path: &CStr, base: u64) -> Option<*mut c_void> {
    let handle = pinned(path)?;
    // SAFETY: glibc's handle of an object is its `link_map`, and the object stays.
    let found = unsafe { (*handle.cast::<LinkMap>()).base };
    (found == base).then_some(handle)
}

/// Has the object with this load bias stay loaded until the process ends. Returns whether it does. Takes the loader's lock, except
/// for the program itself, which stays in any case.
pub fn stays(base: u64) -> bool {
    with_path(base, |path| (path.is_empty() || pinned_as(path, base).is_some()).then_some(())).is_some()
}

/// The loaded libcudarts: their number, and the load bias of the first one and of the one with a given name.
pub struct Runtimes {
    pub count: usize,
    pub first: Option<u64>,
    pub named: Option<u64>,
}

impl Runtimes {
    pub fn loaded(name: Option<&Name>) -> Runtimes {
        let mut runtimes = Runtimes { count: 0, first: None, named: None };
        search(|loaded| {
            if is_runtime_name(loaded.path()) {
                runtimes.count += 1;
                runtimes.first = runtimes.first.or(Some(loaded.base()));
                if runtimes.named.is_none() && name.is_some_and(|name| loaded.goes_by(name)) {
                    runtimes.named = Some(loaded.base());
                }
            }
            None::<()>
        });
        runtimes
    }
}

// elf(5): tags of the dynamic section.
const DT_NEEDED: u64 = 1;
const DT_STRTAB: u64 = 5;
const DT_SONAME: u64 = 14;

/// This library's SONAME, which build.rs gives it.
const OUR_NAME: &[u8] = b"libgpuspy.so";

/// The numbers of objects ever loaded and ever unloaded.
pub fn changes() -> (u64, u64) {
    search(|loaded| Some((loaded.info.dlpi_adds, loaded.info.dlpi_subs))).unwrap_or_default()
}

/// The number of objects ever loaded.
pub fn adds() -> u64 {
    changes().0
}

/// The number of objects ever unloaded.
pub fn subs() -> u64 {
    changes().1
}

/// How often a walk is tried while other threads load and unload libraries.
const TRIES: usize = 4;

/// The loader's list of objects at a moment. Objects are added only at its end.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct List {
    /// The number of objects ever added.
    pub adds: u64,
    /// The number of objects ever removed.
    subs: u64,
    /// The number of objects on the list.
    objects: u64,
}

impl List {
    pub fn now() -> List {
        let mut list = List { adds: 0, subs: 0, objects: 0 };
        search(|loaded| {
            let objects = list.objects + 1;
            list = List { adds: loaded.info.dlpi_adds, subs: loaded.info.dlpi_subs, objects };
            None::<()>
        });
        list
    }

    /// Returns the list that `walk` has walked over before the loader changed it. `None`: it changes all the time.
    pub fn steady(mut walk: impl FnMut(&List) -> bool) -> Option<List> {
        (0..TRIES).map(|_| List::now()).find(|list| walk(list))
    }

    /// Returns how many of its first objects were there when the number of objects ever added was `adds`. (At least: some
    /// may have been removed since.)
    pub fn known_since(&self, adds: u64) -> u64 {
        self.objects.saturating_sub(self.adds.wrapping_sub(adds))
    }

    /// Calls `visit` with each object on the list except the first `known`. Returns false when the list has
    /// changed since.
    pub fn walk(&self, known: u64, mut visit: impl FnMut(&Loaded<'_>)) -> bool {
        let mut at = 0;
        let changed = search(|loaded| {
            if (loaded.info.dlpi_adds, loaded.info.dlpi_subs) != (self.adds, self.subs) {
                return Some(());
            }
            if at >= known {
                visit(loaded);
            }
            at += 1;
            None
        });
        changed.is_none()
    }
}

/// Waits while another thread loads libraries: when it returns, everything that was on the loader's list
/// before is relocated. dladdr takes the lock that dlopen holds until constructors have run. (If the calling
/// thread is inside dlopen itself, in a constructor, the lock is its own, and the objects of that dlopen are
/// relocated already.)
pub fn wait_for_loading() {
    // SAFETY: all-zero is a valid Dl_info.
    let mut info: libc::Dl_info = unsafe { core::mem::zeroed() };
    // SAFETY: dladdr reads the loader's tables and writes our struct. No object has the address null, so it looks at no
    // object's symbols.
    unsafe { libc::dladdr(core::ptr::null(), &mut info) };
}

/// What a call by symbol from the object with this address finds in that object and its dependencies. `None` for
/// the program itself, whose scope is that of the process.
pub fn in_scope_of(address: u64, symbol: &CStr) -> Option<usize> {
    in_scope_at(base_of(address)?, symbol)
}

fn in_scope_at(base: u64, symbol: &CStr) -> Option<usize> {
    let in_object = |path: &CStr| {
        if path.is_empty() { None } else { with(path, |handle| in_library(handle, symbol)) }
    };
    with_path(base, in_object)
}

/// How many objects the process has started with. Relaxed: written before the program runs.
static AT_START: AtomicUsize = AtomicUsize::new(0);

/// Notes that what the process starts with is loaded.
pub fn process_starts() {
    AT_START.store(List::now().objects as usize, Ordering::Relaxed);
}

/// Whether the object with this address was loaded when the process had started. Objects are added at the list's end.
fn is_loaded_later(address: u64) -> bool {
    let mut at = 0;
    let found = search(|loaded| {
        at += 1;
        loaded.holds(address).then_some(())
    });
    found.is_some() && at > AT_START.load(Ordering::Relaxed)
}

/// How many objects are asked in [`in_scopes_of`].
const USERS: usize = 64;

/// As [`in_scope_of`], and what those objects find that need this one: where one of them has been loaded into a scope of its own,
/// the objects that were loaded with it search that scope as well. (Those that the process starts with do not.)
pub fn in_scopes_of(address: u64, symbol: &CStr) -> Option<usize> {
    let mut asked = [0; USERS];
    let mut count = 1;
    asked[0] = base_of(address)?;
    if !is_loaded_later(address) {
        return in_scope_at(asked[0], symbol);
    }
    let mut at = 0;
    while let Some(&base) = asked.get(at).filter(|_| at < count) {
        if let Some(found) = in_scope_at(base, symbol) {
            return Some(found);
        }
        let names = search(|loaded| (loaded.base() == base).then(|| loaded.names()));
        for name in names.into_iter().flatten().flatten() {
            search(|loaded| {
                let is_new = asked.iter().take(count).all(|asked| *asked != loaded.base());
                if is_new && loaded.needs(&name) {
                    // Those for which there is no room are not asked.
                    if let Some(place) = asked.get_mut(count) {
                        *place = loaded.base();
                        count += 1;
                    }
                }
                None::<()>
            });
        }
        at += 1;
    }
    None
}

/// Whether an address is one of code. A symbol with another address is a variable.
pub fn is_code(address: usize) -> bool {
    search(|loaded| {
        let segments = loaded.segments().find(|(range, _)| range.contains(&(address as u64)));
        segments.map(|(_, flags)| flags & libc::PF_X != 0)
    })
    .unwrap_or(false)
}

/// Whether the object with this address comes after this library in the loader's list, which is the search order of
/// what the program starts with.
pub fn is_behind_us(address: u64) -> bool {
    let mut us = false;
    search(|loaded| {
        us |= loaded.is_us();
        loaded.holds(address).then_some(us && !loaded.is_us())
    })
    .unwrap_or(false)
}

/// Whether another copy of this library comes before this one in the loader's list.
pub fn is_second_copy() -> bool {
    let is_copy =
        |loaded: &Loaded<'_>| loaded.strings(DT_SONAME, |soname| (soname == OUR_NAME).then_some(true));
    search(|loaded| if loaded.is_us() { Some(false) } else { is_copy(loaded) }).unwrap_or(false)
}

/// Returns the addresses of this library.
pub fn ours() -> Range<usize> {
    search(|loaded| {
        loaded.is_us().then(|| {
            let Range { start, end } = loaded.addresses().unwrap_or_default();
            start as usize..end as usize
        })
    })
    .unwrap_or(0..0)
}

/// Whether an address is in this library.
pub fn is_ours(address: usize) -> bool {
    search(|loaded| loaded.is_us().then(|| loaded.holds(address as u64))).unwrap_or(false)
}

/// An object as the loader presents it during a walk.
pub struct Loaded<'a> {
    info: &'a libc::dl_phdr_info,
}

impl Loaded<'_> {
    /// The load bias.
    pub fn base(&self) -> u64 {
        self.info.dlpi_addr
    }

    /// Whether this is the library that contains this code.
    pub fn is_us(&self) -> bool {
        self.holds(adds as *const () as u64)
    }

    /// Its path; empty for the program itself.
    pub fn path(&self) -> &[u8] {
        if self.info.dlpi_name.is_null() {
            return &[];
        }
        // SAFETY: a terminated path.
        unsafe { CStr::from_ptr(self.info.dlpi_name) }.to_bytes()
    }

    /// Whether its file has this name.
    pub fn is_file(&self, name: &CStr) -> bool {
        file_name(self.path()) == name.to_bytes()
    }

    /// Whether this is the driver, by its file name.
    pub fn is_driver(&self) -> bool {
        is_driver_name(self.path())
    }

    pub fn headers(&self) -> &[libc::Elf64_Phdr] {
        // SAFETY: the loader's array of that many program headers.
        unsafe { core::slice::from_raw_parts(self.info.dlpi_phdr, usize::from(self.info.dlpi_phnum)) }
    }

    /// Returns what is mapped of its file: addresses, ascending, and PF_R, PF_W and PF_X of elf(5).
    fn segments(&self) -> impl Iterator<Item = (Range<u64>, u32)> {
        self.headers().iter().filter(|h| h.p_type == libc::PT_LOAD).map(|h| {
            let start = self.info.dlpi_addr.wrapping_add(h.p_vaddr);
            (start..start.wrapping_add(h.p_memsz), h.p_flags)
        })
    }

    /// Returns the addresses from its first segment to its last.
    pub fn addresses(&self) -> Option<Range<u64>> {
        self.segments().map(|(range, _)| range).reduce(|first, last| first.start..last.end)
    }

    /// Returns the addresses of its code. Between other segments there may be something else: the kernel maps only the segments of the
    /// program and of the loader, and on Arm these are 64 KiB apart, also where pages are smaller.
    pub fn code(&self) -> Option<Range<u64>> {
        let code = self.segments().filter(|(_, flags)| flags & libc::PF_X != 0);
        code.map(|(range, _)| range).reduce(|first, last| first.start..last.end)
    }

    pub fn holds(&self, address: u64) -> bool {
        self.segments().any(|(range, _)| range.contains(&address))
    }

    /// Whether a dependency on this library name means this object, by its file name or its SONAME.
    fn goes_by(&self, name: &Name) -> bool {
        let name = name.as_c_str().to_bytes();
        file_name(self.path()) == name
            || self.strings(DT_SONAME, |soname| (soname == name).then_some(())).is_some()
    }

    /// The names by which others need this object.
    fn names(&self) -> [Option<Name>; 2] {
        [Name::of(file_name(self.path())), self.strings(DT_SONAME, |soname| Some(Name::of(soname))).flatten()]
    }

    /// Whether this object needs the library with this name.
    fn needs(&self, name: &Name) -> bool {
        let name = name.as_c_str().to_bytes();
        !name.is_empty()
            && self.strings(DT_NEEDED, |needed| (file_name(needed) == name).then_some(())).is_some()
    }

    /// The dynamic section: tags and values.
    pub fn dynamic(&self) -> Option<&[[u64; 2]]> {
        let dynamic = self.headers().iter().find(|h| h.p_type == libc::PT_DYNAMIC)?;
        let entries = self.info.dlpi_addr.wrapping_add(dynamic.p_vaddr) as *const [u64; 2];
        // SAFETY: a loaded object's dynamic section: that many tag-value pairs, by its header.
        Some(unsafe { core::slice::from_raw_parts(entries, dynamic.p_memsz as usize / 16) })
    }

    /// The first result of `get` for the dynamic section's strings with this tag.
    fn strings<T>(&self, tag: u64, get: impl Fn(&[u8]) -> Option<T>) -> Option<T> {
        let entries = self.dynamic()?;
        let strings = entries.iter().find(|[found, _]| *found == DT_STRTAB).map(|[_, value]| *value);
        // glibc relocates the value, but not in the vDSO.
        let strings = strings.filter(|place| self.holds(*place))?;
        entries.iter().take_while(|[found, _]| *found != 0).filter(|[found, _]| *found == tag).find_map(
            |[_, offset]| {
                // SAFETY: an offset into the object's string table.
                let text = unsafe { CStr::from_ptr(strings.wrapping_add(*offset) as *const libc::c_char) };
                get(text.to_bytes())
            },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls of a runtime's functions failed where its path, or that of their caller, was this long.
    #[test]
    fn an_object_with_a_long_path_is_found_by_its_path() {
        let folder = std::env::temp_dir().join(format!("gpuspy-deep-{}", std::process::id()));
        let deep = (0..4).fold(folder.clone(), |path, _| path.join("runfiles".repeat(25)));
        std::fs::create_dir_all(&deep).unwrap();
        let copy = deep.join("libdeep.so");
        let libc = std::fs::read_to_string("/proc/self/maps").unwrap();
        let libc =
            libc.lines().find_map(|line| line.split(' ').next_back()?.strip_suffix("libc.so.6")).unwrap();
        std::fs::copy(format!("{libc}libm.so.6"), &copy).unwrap();
        let path = std::ffi::CString::new(copy.to_str().unwrap()).unwrap();
        assert!(path.count_bytes() > 800);
        // SAFETY: loads a copy of the mathematical library.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
        let cos = in_library(handle, c"cos").unwrap();
        let base = base_of(cos as u64).unwrap();
        assert_eq!(in_scope_of(base, c"cos"), Some(cos));
        assert_eq!(pinned_at(base), Some(handle));
        assert!(stays(base) && !stays(base + 1));
        std::fs::remove_dir_all(folder).unwrap();
    }

    /// A library that others are loaded with did not see the CUDA that they brought along.
    #[test]
    fn an_object_finds_what_those_find_that_need_it() {
        // It needs the mathematical library, which needs it not.
        // SAFETY: loads the library of C++.
        assert!(!unsafe { libc::dlopen(c"libstdc++.so.6".as_ptr(), libc::RTLD_NOW) }.is_null());
        let of_math = |loaded: &Loaded<'_>| loaded.is_file(c"libm.so.6").then(|| loaded.base());
        let math = search(of_math).unwrap();
        assert_eq!(in_scope_of(math, c"__cxa_demangle"), None);
        let found = in_scopes_of(math, c"__cxa_demangle").unwrap();
        assert!(
            search(|loaded| loaded.holds(found as u64).then(|| loaded.is_file(c"libstdc++.so.6"))).is_some()
        );
        assert_eq!(in_scopes_of(math, c"gpuspy_has_no_such_function"), None);
    }

    #[test]
    fn a_renamed_libcudart_is_recognized() {
        for name in ["/usr/lib/libcudart.so", "libcudart.so.12", "libcudart-d0da41ae.so.11.0"] {
            assert!(is_runtime_name(name.as_bytes()), "{name}");
        }
        for name in ["", "libcudart_static.a", "/opt/libcudart.so.12/libfoo.so", "libcudart-notes.txt"] {
            assert!(!is_runtime_name(name.as_bytes()), "{name}");
        }
    }
}
