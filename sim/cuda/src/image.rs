//! Modules and libraries: the kernels and variables that an image contains. The code is never run; a kernel's name
//! contains its duration and the resources that it needs.

use crate::clocks::Ns;
use crate::config::config;
use crate::error::Failure;
use crate::fat_binary::{self, Versions};
use crate::handle::Handle;
use crate::resources::Resources;
use std::collections::HashMap;
use std::ffi::CStr;
use std::sync::Arc;

/// A kernel of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// Its (mangled) name.
    pub name: Arc<str>,
    /// The offset and size of each parameter in bytes; none if unknown.
    pub parameters: Option<Arc<[(usize, usize)]>>,
    /// The architectures that it was compiled from and for.
    pub versions: Versions,
}

/// A variable of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// Whether it is managed memory.
    pub managed: bool,
}

/// The contents of an image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Image {
    /// Its kernels; none if the image cannot be read, in which case every name is a kernel.
    pub kernels: Option<Vec<Kernel>>,
    /// Its variables.
    pub variables: Vec<Variable>,
    /// The architectures that its kernels were compiled from and for.
    pub versions: Versions,
}

/// A loaded module.
#[derive(Debug)]
pub struct Module {
    /// Its image.
    pub image: Arc<Image>,
    /// Its context.
    pub context: Handle,
    /// Functions whose handles were returned, by name.
    pub functions: HashMap<Arc<str>, Handle>,
    /// Addresses and sizes of variables that were queried, by name.
    pub globals: HashMap<String, (u64, u64)>,
    /// Whether one of its kernels was launched.
    pub launched: bool,
}

/// A CUfunction.
#[derive(Debug)]
pub struct Function {
    /// The kernel.
    pub kernel: Kernel,
    /// Its module.
    pub module: Handle,
    /// Its context.
    pub context: Handle,
    /// How long a launch takes.
    pub duration: Duration,
    /// The error with which it ends, if it fails.
    pub fault: Option<Failure>,
    /// The multiprocessor resources that it needs.
    pub resources: Resources,
    /// The attributes that `cuFuncSetAttribute` set.
    pub attributes: HashMap<u32, i32>,
    /// The block dimensions that `cuFuncSetBlockShape` set.
    pub block: [u32; 3],
}

/// A CUlibrary.
#[derive(Debug)]
pub struct Library {
    /// Its image.
    pub image: Arc<Image>,
    /// Kernels whose handles were returned, by name.
    pub kernels: HashMap<Arc<str>, Handle>,
    /// Its module in each context.
    pub modules: HashMap<Handle, Handle>,
}

/// A CUkernel.
#[derive(Debug)]
pub struct KernelHandle {
    /// The kernel.
    pub kernel: Kernel,
    /// Its library.
    pub library: Handle,
    /// Its function in each context.
    pub functions: HashMap<Handle, Handle>,
    /// The attributes that `cuKernelSetAttribute` set.
    pub attributes: HashMap<u32, i32>,
}

/// How long a kernel runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duration {
    /// This many ns.
    Fixed(Ns),
    /// The number of ns in its first argument, of 64 bits.
    Argument,
    /// Until other kernels run as well. Its two 64-bit arguments are the address of a counter and the value that the
    /// counter has to reach.
    Meeting,
}

impl Duration {
    /// Reads the duration from the end of the name: `_<N>ns`, `_<N>us`, `_<N>ms`, `_argns`, `_meets`; otherwise it is
    /// `SIMCUDA_KERNEL_NS`.
    pub fn of(name: &str) -> Self {
        let ending = name.rsplit('_').next().unwrap_or("");
        match ending {
            "argns" => return Self::Argument,
            "meets" => return Self::Meeting,
            _ => {}
        }
        for (unit, ns) in [("ns", 1), ("us", 1_000), ("ms", 1_000_000)] {
            if let Some(Ok(number)) = ending.strip_suffix(unit).map(str::parse::<Ns>) {
                return Self::Fixed(number * ns);
            }
        }
        Self::Fixed(config().kernel_ns)
    }
}

impl Image {
    /// Reads an image in memory, as far as it can be read.
    ///
    /// # Safety
    /// `image` points to PTX text with a NUL, a whole ELF file, or a fat binary, as cuda.h requires.
    pub unsafe fn read(image: *const u8) -> Self {
        // SAFETY: each of the formats has at least four bytes (the shortest PTX text is longer).
        let magic = unsafe { image.cast::<[u8; 4]>().read_unaligned() };
        match magic {
            fat_binary::MAGIC | fat_binary::WRAPPER_MAGIC => {
                // SAFETY: the caller's promise.
                let (versions, text) = unsafe { fat_binary::read(image) };
                Self { versions, ..text.and_then(|text| ptx::read(&text)).unwrap_or_default() }
            }
            // SAFETY: the caller's promise.
            [0x7F, b'E', b'L', b'F'] => unsafe { elf::read(image) }.unwrap_or_default(),
            // SAFETY: the caller's promise: an image that is no binary is text.
            _ => ptx::read(&unsafe { CStr::from_ptr(image.cast()) }.to_string_lossy()).unwrap_or_default(),
        }
    }

    /// Returns the kernel of a name.
    pub fn kernel(&self, name: &str) -> Option<Kernel> {
        match &self.kernels {
            Some(kernels) => {
                let kernel = kernels.iter().find(|kernel| &*kernel.name == name).cloned()?;
                Some(Kernel { versions: self.versions, ..kernel })
            }
            None => Some(Kernel { name: Arc::from(name), parameters: None, versions: self.versions }),
        }
    }

    /// Returns the variable of a name. An image that cannot be read has every variable, of one page each.
    pub fn variable(&self, name: &str) -> Option<Variable> {
        let unread = || Variable { name: name.to_owned(), bytes: 4096, managed: false };
        match self.variables.iter().find(|variable| variable.name == name) {
            Some(variable) => Some(variable.clone()),
            None => self.kernels.is_none().then(unread),
        }
    }
}

/// PTX text (PTX ISA, "Kernel Function Parameters", "State Spaces").
mod ptx {
    use super::{Image, Kernel, Variable};
    use crate::fat_binary::Versions;
    use std::sync::Arc;

    /// Reads a module's entries and variables; none if the text lacks the `.version` that PTX must start with.
    pub fn read(text: &str) -> Option<Image> {
        let text = uncommented(text);
        if !text.contains(".version") {
            return None;
        }
        let target = text.split_once(".target").and_then(|(_, rest)| rest.trim_start().strip_prefix("sm_"));
        let digits = target.map(|rest| rest.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default());
        let architecture = digits.and_then(|digits| digits.parse().ok());
        let versions = architecture.map_or(Versions::default(), Versions::of_text);
        let mut image = Image { kernels: Some(Vec::new()), variables: Vec::new(), versions };
        for statement in statements(&text) {
            if let Some((_, entry)) = statement.split_once(".entry") {
                image.kernels.as_mut()?.extend(kernel(entry));
            } else if statement.split_whitespace().any(|word| word == ".global" || word == ".const") {
                image.variables.extend(variable(statement));
            }
        }
        Some(image)
    }

    /// Returns the statements outside function bodies.
    fn statements(text: &str) -> Vec<&str> {
        let (mut depth, mut from, mut found) = (0usize, 0, Vec::new());
        for (at, byte) in text.bytes().enumerate() {
            match byte {
                b';' | b'{' | b'}' => {
                    if depth == 0 {
                        found.push(&text[from..at]);
                    }
                    depth = match byte {
                        b'{' => depth + 1,
                        b'}' => depth.saturating_sub(1),
                        _ => depth,
                    };
                    from = at + 1;
                }
                _ => {}
            }
        }
        found
    }

    /// Replaces comments by a space. A module of a compiler's has thousands.
    fn uncommented(text: &str) -> String {
        let (mut out, mut rest) = (String::with_capacity(text.len()), text);
        loop {
            let is_comment = |(at, _): &(usize, &str)| rest[at + 1..].starts_with(['/', '*']);
            let Some((at, _)) = rest.match_indices('/').find(is_comment) else {
                out.push_str(rest);
                return out;
            };
            out.push_str(&rest[..at]);
            out.push(' ');
            let end = if rest[at + 1..].starts_with('/') { "\n" } else { "*/" };
            rest = rest[at + 2..].split_once(end).map_or("", |(_, after)| after);
        }
    }

    fn kernel(entry: &str) -> Option<Kernel> {
        let name = entry.trim_start().split(|c: char| c == '(' || c.is_whitespace()).next()?;
        let list =
            entry.split_once('(').and_then(|(_, rest)| rest.split_once(')')).map_or("", |(list, _)| list);
        let mut offset = 0usize;
        let mut parameters = Vec::new();
        for parameter in list.split(',').filter(|parameter| parameter.contains(".param")) {
            let (size, alignment) = layout(parameter)?;
            offset = offset.next_multiple_of(alignment);
            parameters.push((offset, size));
            offset += size;
        }
        (!name.is_empty()).then(|| Kernel {
            name: Arc::from(name),
            parameters: Some(parameters.into()),
            versions: Versions::default(),
        })
    }

    fn variable(statement: &str) -> Option<Variable> {
        let declaration = statement.split('=').next()?;
        let space = declaration.find(".global").or_else(|| declaration.find(".const"))?;
        let declaration = &declaration[space..];
        let name = declaration.split('[').next()?.split_whitespace().last()?;
        let (bytes, _) = layout(declaration)?;
        let managed = declaration.contains(".managed");
        Some(Variable { name: name.to_owned(), bytes: bytes as u64, managed })
    }

    /// Returns the size and alignment of a declared parameter or variable.
    fn layout(declaration: &str) -> Option<(usize, usize)> {
        let mut words = declaration.split_whitespace();
        let (mut element, mut vector, mut alignment) = (None, 1, None);
        while let Some(word) = words.next() {
            match word {
                ".align" => alignment = words.next().and_then(|number| number.parse().ok()),
                ".v2" => vector = 2,
                ".v4" => vector = 4,
                ".pred" => element = Some(1),
                _ => {
                    let digits =
                        word.strip_prefix(['.']).and_then(|word| word.strip_prefix(['b', 'u', 's', 'f']));
                    if let Some(Ok(bits)) = digits.map(str::parse::<usize>) {
                        element = Some(bits / 8);
                    }
                }
            }
        }
        let element = element? * vector;
        let mut count = 1;
        for dimension in declaration.split('[').skip(1) {
            count *= dimension.split(']').next()?.trim().parse::<usize>().ok()?;
        }
        Some((element * count, alignment.unwrap_or(element).max(1)))
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        const TEXT: &str = "// a module\n.version 8.0\n.target sm_80\n.address_size 64\n\
            .visible .global .align 4 .b8 table[64];\n.global .attribute(.managed) .align 8 .u64 shared_one;\n\
            .const .align 16 .v4 .f32 quad[2] = {1, 2};\n/* .entry not_me( */\n\
            .visible .entry spin_20us(\n .param .u32 a,\n .param .u64 b,\n .param .align 8 .b8 c[24]\n)\n\
            { ld.global.f32 %f1, [%rd1]; @p bra L; { mov.u32 %r1, 1; } ret; }\n\
            .func helper(.param .b32 x) { ret; }\n.entry empty() .maxntid 128, 1, 1\n{ ret; }\n";

        #[test]
        fn entries_and_variables_are_read_with_their_layout() {
            let image = read(TEXT).unwrap();
            let kernels = image.kernels.as_ref().unwrap();
            let names: Vec<_> = kernels.iter().map(|kernel| &*kernel.name).collect();
            assert_eq!(names, ["spin_20us", "empty"]);
            assert_eq!(kernels[0].parameters.as_deref(), Some(&[(0, 4), (8, 8), (16, 24)][..]));
            assert_eq!(kernels[1].parameters.as_deref(), Some(&[][..]));
            let variable = |name: &str| image.variable(name).map(|found| (found.bytes, found.managed));
            assert_eq!(variable("table"), Some((64, false)));
            assert_eq!(variable("shared_one"), Some((8, true)));
            assert_eq!(variable("quad"), Some((32, false)));
            assert_eq!(variable("x"), None);
            assert!(image.kernel("not_me").is_none());
            assert_eq!(image.kernel("empty").unwrap().versions, Versions { ptx: 80, binary: 90 });
            assert!(read("hello").is_none());
        }
    }
}

/// ELF files (System V ABI): kernels are the sections `.text.NAME`, variables the objects in the symbol table.
mod elf {
    use super::{Image, Kernel, Variable};
    use crate::fat_binary::Versions;
    use std::ffi::CStr;
    use std::sync::Arc;

    struct Section {
        name: String,
        kind: u32,
        offset: u64,
        bytes: u64,
        link: u32,
    }

    /// Reads a 64-bit little-endian file; none if it is something else or names no kernel.
    ///
    /// # Safety
    /// `file` points to a whole ELF file.
    pub unsafe fn read(file: *const u8) -> Option<Image> {
        // SAFETY: the file's own headers give every offset below.
        unsafe {
            if *file.add(4) != 2 || *file.add(5) != 1 {
                return None;
            }
            let sections = sections(file);
            let versions = versions(file);
            let kernels: Vec<_> = sections
                .iter()
                .filter_map(|section| section.name.strip_prefix(".text."))
                .map(|name| Kernel { name: Arc::from(name), parameters: None, versions })
                .collect();
            let variables = variables(file, &sections);
            (!kernels.is_empty()).then_some(Image { kernels: Some(kernels), variables, versions })
        }
    }

    unsafe fn get<const N: usize>(file: *const u8, at: u64) -> [u8; N] {
        // SAFETY: the caller's.
        unsafe { file.add(at as usize).cast::<[u8; N]>().read_unaligned() }
    }

    unsafe fn text(file: *const u8, at: u64) -> String {
        // SAFETY: the caller's: a string table ends with NUL.
        unsafe { CStr::from_ptr(file.add(at as usize).cast()) }.to_string_lossy().into_owned()
    }

    /// The architecture of code for a GPU, from the header's flags: since version 8 of the ABI (CUDA 13) in their
    /// second byte, before that in the first (found by reading files that nvcc wrote).
    unsafe fn versions(file: *const u8) -> Versions {
        const CUDA: u16 = 190;
        // SAFETY: the caller's.
        unsafe {
            let (machine, [abi]) = (u16::from_le_bytes(get(file, 18)), get::<1>(file, 8));
            let [first, second, ..] = get::<4>(file, 48);
            let architecture = u32::from(if abi >= 8 { second } else { first });
            if machine == CUDA { Versions::of_binary(architecture) } else { Versions::default() }
        }
    }

    unsafe fn sections(file: *const u8) -> Vec<Section> {
        // SAFETY: the caller's.
        unsafe {
            let table = u64::from_le_bytes(get(file, 40));
            let [entry, count, names] = [58, 60, 62].map(|at| u64::from(u16::from_le_bytes(get(file, at))));
            let names = u64::from_le_bytes(get(file, table + names * entry + 24));
            let section = |index| {
                let at = table + index * entry;
                Section {
                    name: text(file, names + u64::from(u32::from_le_bytes(get(file, at)))),
                    kind: u32::from_le_bytes(get(file, at + 4)),
                    offset: u64::from_le_bytes(get(file, at + 24)),
                    bytes: u64::from_le_bytes(get(file, at + 32)),
                    link: u32::from_le_bytes(get(file, at + 40)),
                }
            };
            (0..count).map(section).collect()
        }
    }

    unsafe fn variables(file: *const u8, sections: &[Section]) -> Vec<Variable> {
        const SYMTAB: u32 = 2;
        const OBJECT: u8 = 1;
        const SYMBOL: u64 = 24;
        let mut found = Vec::new();
        for table in sections.iter().filter(|section| section.kind == SYMTAB) {
            let Some(names) = sections.get(table.link as usize) else { continue };
            for at in (0..table.bytes / SYMBOL).map(|index| table.offset + index * SYMBOL) {
                // SAFETY: the caller's.
                unsafe {
                    if get::<1>(file, at + 4)[0] & 15 == OBJECT {
                        let name = text(file, names.offset + u64::from(u32::from_le_bytes(get(file, at))));
                        let bytes = u64::from_le_bytes(get(file, at + 16));
                        found.push(Variable { name, bytes, managed: false });
                    }
                }
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernels_name_gives_its_length() {
        assert_eq!(Duration::of("spin_20us"), Duration::Fixed(20_000));
        assert_eq!(Duration::of("a_b_7ns"), Duration::Fixed(7));
        assert_eq!(Duration::of("x_3ms"), Duration::Fixed(3_000_000));
        assert_eq!(Duration::of("spin_argns"), Duration::Argument);
        assert_eq!(Duration::of("reduce_meets"), Duration::Meeting);
        assert_eq!(Duration::of("gemm"), Duration::Fixed(config().kernel_ns));
        assert_eq!(Duration::of("fn_ns"), Duration::Fixed(config().kernel_ns));
    }

    #[test]
    fn an_elf_file_is_read_by_its_sections_and_symbols() {
        let path = std::env::current_exe().unwrap();
        let file = std::fs::read(path).unwrap();
        // SAFETY: a whole ELF file.
        let image = unsafe { Image::read(file.as_ptr()) };
        // An ordinary program has no section per function, so nothing in it looks like a kernel, and any name is
        // accepted.
        assert_eq!(image.kernels, None);
        let unread = [0x50, 0xED, 0x55, 0xBA, 1, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        // SAFETY: a fat binary without entries.
        let image = unsafe { Image::read(unread.as_ptr()) };
        assert!(image.kernel("anything").is_some());
    }
}
