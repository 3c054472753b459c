//! Which library does a code address lie in?

use crate::trace::record::{Module, Names};
use gpuspy_wire::record::Namespace;
use std::collections::BTreeMap;

/// The place that a call came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallSite {
    /// Path of the mapped file.
    pub path: String,
    /// The address in the file's own numbering, for `addr2line`.
    pub offset: u64,
}

/// The executable mappings of a process. Where mappings overlap, the later one counts.
#[derive(Clone, Debug, Default)]
pub struct Modules(BTreeMap<u64, Module>);

impl Modules {
    /// The first mapping at each place. A later one counts once it is [added](Modules::mapped).
    pub fn first(all: &[Module]) -> Modules {
        let mut first = Modules::default();
        for module in all {
            let before = first.0.range(..module.end).next_back();
            if before.is_none_or(|(_, before)| before.end <= module.start) {
                first.mapped(module);
            }
        }
        first
    }

    /// Adds a mapping.
    pub fn mapped(&mut self, module: &Module) {
        self.0.insert(module.start, module.clone());
    }

    /// Returns the paths of the mapped files; a file that is mapped several times is there as often.
    pub fn paths<'s>(&'s self, names: &'s Names) -> impl Iterator<Item = &'s str> {
        self.0.values().filter_map(|module| names.get(Namespace::Path, module.path))
    }

    /// The file that `address` lies in, if it is known.
    pub fn resolve(&self, address: u64, names: &Names) -> Option<CallSite> {
        let (_, module) = self.0.range(..=address).next_back()?;
        let path = names.get(Namespace::Path, module.path)?;
        (address < module.end)
            .then(|| CallSite { path: path.to_owned(), offset: address.wrapping_sub(module.bias) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_files_that_lay_at_one_place_the_first_counts_until_the_next_is_added() {
        let names = [(3, "/lib/libx.so"), (4, "/lib/liby.so")];
        let names = Names(names.map(|(path, text)| ((Namespace::Path, path), text.to_owned())).into());
        let module = |start, end, path| Module { start, end, path, ..Module::default() };
        let all = [module(0x1000, 0x2000, 3), module(0x1800, 0x3000, 4), module(0x4000, 0x5000, 4)];
        let mut modules = Modules::first(&all);
        let path = |modules: &Modules, at| modules.resolve(at, &names).map(|site| site.path);
        assert_eq!(path(&modules, 0x1900).as_deref(), Some("/lib/libx.so"));
        assert_eq!(path(&modules, 0x2900), None);
        assert_eq!(path(&modules, 0x4000).as_deref(), Some("/lib/liby.so"));
        modules.mapped(&all[1]);
        assert_eq!(path(&modules, 0x1900).as_deref(), Some("/lib/liby.so"));
    }

    #[test]
    fn an_address_is_resolved_to_file_and_offset() {
        let names = Names([((Namespace::Path, 3), "/lib/libx.so".to_owned())].into());
        let mut modules = Modules::default();
        modules.mapped(&Module { start: 0x1000, end: 0x2000, bias: 0x800, path: 3, ..Module::default() });
        modules.mapped(&Module { start: 0x8000, end: 0x9000, bias: 0, path: 4, ..Module::default() });
        let site = CallSite { path: "/lib/libx.so".to_owned(), offset: 0x1fff - 0x800 };
        assert_eq!(modules.resolve(0x1fff, &names), Some(site));
        assert_eq!(modules.resolve(0x2000, &names), None);
        assert_eq!(modules.resolve(0xfff, &names), None);
        assert_eq!(modules.resolve(0x8000, &names), None, "its name was never sent");
    }
}
