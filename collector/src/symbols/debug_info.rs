//! Which line is an address of, and which functions were inlined there, by a file's debug information (DWARF 2 to 5)?
//!
//! The units that addresses are in are found by `.debug_aranges`, else by the ranges that each unit says. Of those units,
//! the entries of functions are gone through once, and the rows of the line table once.

mod lines;

use super::elf::Elf;
use gimli::{
    AttributeValue, DebugInfoOffset, DebuggingInformationEntry, Dwarf, DwarfSections, EndianSlice,
    LittleEndian, Range, RangeIter, SectionId, Unit, UnitOffset, constants,
};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

type Slice<'a> = EndianSlice<'a, LittleEndian>;

/// How long a file's debug information is read. What is not found by then has no line. Without such a limit, a small
/// damaged file could keep a report waiting for hours. Only units that calls came from are gone through: 13 MB of entries and
/// 5 MB of rows took 0.1 s.
const PATIENCE: Duration = Duration::from_secs(10);
/// How many functions are inlined into one another, at most; more are left out.
const DEEPEST: usize = 64;
/// How often a function's name is looked up in another entry.
const MOST_HOPS: u32 = 8;

/// A place in the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SourcePlace {
    /// The file, with its folder as the compiler has it.
    pub file: String,
    /// The line.
    pub line: u32,
}

/// A function, and where in it an address is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct At {
    /// Its name as the linker has it; `None` if the debug information says none.
    pub function: Option<String>,
    /// Where; `None` = not known.
    pub place: Option<SourcePlace>,
}

/// The longest name.
const LONGEST_NAME: usize = 16 << 10;

/// Returns where each address is, the innermost function first. The addresses are sorted.
pub(super) fn look_up(elf: &Elf, addresses: &[u64]) -> Vec<Vec<At>> {
    let found = vec![Vec::new(); addresses.len()];
    if elf.section(".debug_info").is_none() {
        return found;
    }
    let contents = |id: SectionId| Ok::<_, gimli::Error>(elf.contents(id.name()));
    let Ok(sections) = DwarfSections::load(contents) else { return found };
    let dwarf = sections.borrow(|bytes| EndianSlice::new(bytes, LittleEndian));
    let clock = Clock { ends: Instant::now() + PATIENCE, steps: Cell::new(0) };
    let mut search = Search { dwarf, elf, addresses, found, clock };
    search.by_index();
    search.by_unit();
    search.found
}

/// Limits how long a file is read.
struct Clock {
    ends: Instant,
    steps: Cell<u32>,
}

impl Clock {
    /// Counts one step; `None` when the time is over.
    fn step(&self) -> Option<()> {
        let steps = self.steps.get().wrapping_add(1);
        self.steps.set(steps);
        (!steps.is_multiple_of(4096) || !self.is_over()).then_some(())
    }

    fn is_over(&self) -> bool {
        Instant::now() >= self.ends
    }
}

/// A function that an address is in.
#[derive(Clone, Copy, Debug)]
struct Scope {
    entry: UnitOffset,
    depth: isize,
    /// Where it was inlined: the number of the file and the line.
    called_at: Option<(u64, u32)>,
}

struct Search<'a> {
    dwarf: Dwarf<Slice<'a>>,
    elf: &'a Elf,
    addresses: &'a [u64],
    found: Vec<Vec<At>>,
    clock: Clock,
}

impl<'a> Search<'a> {
    /// Looks in the units that `.debug_aranges` names.
    fn by_index(&mut self) -> Option<()> {
        let all = self.missing();
        let mut units: Vec<Option<DebugInfoOffset>> = vec![None; all.len()];
        let mut sets = self.dwarf.debug_aranges.headers();
        while let Some(set) = sets.next().ok()? {
            let mut entries = set.entries();
            while let Some(entry) = entries.next().ok()? {
                self.clock.step()?;
                for number in self.within(entry.range(), &all)? {
                    units[*number].get_or_insert(set.debug_info_offset());
                }
            }
        }
        let mut by_unit: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (number, unit) in units.iter().enumerate() {
            unit.map(|unit| by_unit.entry(unit.0).or_default().push(number));
        }
        for (unit, numbers) in by_unit {
            let header = self.dwarf.unit_header(DebugInfoOffset(unit));
            if let Ok(unit) = header.and_then(|header| self.dwarf.unit(header)) {
                self.in_unit(&unit, &numbers);
            }
        }
        Some(())
    }

    /// Looks in all units for the addresses that were not found.
    fn by_unit(&mut self) -> Option<()> {
        let mut missing = self.missing();
        let mut headers = self.dwarf.units();
        while !missing.is_empty()
            && !self.clock.is_over()
            && let Some(header) = headers.next().ok()?
        {
            let Ok(unit) = self.dwarf.unit(header) else { continue };
            let Some(numbers) = self.of_unit(&unit, &missing).filter(|numbers| !numbers.is_empty()) else {
                continue;
            };
            self.in_unit(&unit, &numbers);
            missing = self.missing();
        }
        Some(())
    }

    /// Returns the numbers of the addresses of which nothing is known.
    fn missing(&self) -> Vec<usize> {
        (0..self.found.len()).filter(|number| self.found[*number].is_empty()).collect()
    }

    /// Returns which of the addresses with these numbers are in a unit.
    fn of_unit(&self, unit: &Unit<Slice<'a>>, numbers: &[usize]) -> Option<Vec<usize>> {
        let mut is_in = vec![false; numbers.len()];
        let mut entries = unit.entries();
        let mut ranges = self.ranges(unit, entries.next_dfs().ok()??)?;
        while let Some(range) = ranges.next().ok()? {
            self.clock.step()?;
            for number in self.within(range, numbers)? {
                is_in[numbers.binary_search(number).ok()?] = true;
            }
        }
        Some(numbers.iter().zip(is_in).filter(|(_, is_in)| *is_in).map(|(number, _)| *number).collect())
    }

    /// Returns the ranges of code of an entry.
    fn ranges(
        &self,
        unit: &Unit<Slice<'a>>,
        entry: &DebuggingInformationEntry<Slice<'a>>,
    ) -> Option<RangeIter<Slice<'a>>> {
        // gimli 0.34 adds the length of a range to its start without a check.
        let (mut start, mut length) = (0, 0);
        for attribute in entry.attrs() {
            match (attribute.name(), attribute.value()) {
                (constants::DW_AT_low_pc, value) => {
                    start = start.max(self.dwarf.attr_address(unit, value).ok()??);
                }
                (constants::DW_AT_high_pc, AttributeValue::Udata(bytes)) => length = length.max(bytes),
                _ => {}
            }
        }
        start.checked_add(length)?;
        self.dwarf.die_ranges(unit, entry).ok()
    }

    /// Returns which of the addresses with these numbers are in a range of code.
    fn within<'n>(&self, range: Range, numbers: &'n [usize]) -> Option<&'n [usize]> {
        let before = |end: u64| move |number: &usize| self.addresses[*number] < end;
        let first = numbers.partition_point(before(range.begin));
        let count = numbers[first..].partition_point(before(range.end));
        if count == 0 || !self.elf.is_code(range.begin) {
            return Some(&[]);
        }
        (0..count).try_for_each(|_| self.clock.step())?;
        Some(&numbers[first..first + count])
    }

    /// Finds the functions and lines of addresses in a unit.
    fn in_unit(&mut self, unit: &Unit<Slice<'a>>, numbers: &[usize]) -> Option<()> {
        let scopes = self.scopes(unit, numbers)?;
        let addresses: Vec<u64> = numbers.iter().map(|number| self.addresses[*number]).collect();
        let rows = lines::rows(self.elf, unit, &addresses, &self.clock);
        for ((number, scopes), row) in numbers.iter().zip(scopes).zip(rows) {
            let mut place = row.and_then(|row| lines::place(&self.dwarf, unit, row));
            let mut at = Vec::new();
            if scopes.is_empty() && place.is_some() {
                at.push(At { function: None, place: place.take() });
            }
            for scope in scopes.iter().rev() {
                let called = scope.called_at.and_then(|row| lines::place(&self.dwarf, unit, row));
                let function = self.name(unit, scope.entry, MOST_HOPS);
                at.push(At { function, place: std::mem::replace(&mut place, called) });
            }
            self.found[*number] = at;
        }
        Some(())
    }

    /// Returns the functions that each address is in, the outermost first.
    fn scopes(&self, unit: &Unit<Slice<'a>>, numbers: &[usize]) -> Option<Vec<Vec<Scope>>> {
        let mut scopes: Vec<Vec<Scope>> = vec![Vec::new(); numbers.len()];
        let mut entries = unit.entries();
        while let Some(entry) = entries.next_dfs().ok()? {
            self.clock.step()?;
            let is_inlined = match entry.tag() {
                constants::DW_TAG_subprogram => false,
                constants::DW_TAG_inlined_subroutine => true,
                _ => continue,
            };
            let Some(mut ranges) = self.ranges(unit, entry) else { continue };
            while let Some(range) = ranges.next().ok()? {
                self.clock.step()?;
                for number in self.within(range, numbers)? {
                    enter(&mut scopes[numbers.binary_search(number).ok()?], entry, is_inlined);
                }
            }
        }
        Some(scopes)
    }

    /// Returns a function's name as the linker has it, or as the source has it.
    fn name(&self, unit: &Unit<Slice<'a>>, entry: UnitOffset, hops: u32) -> Option<String> {
        let entry = unit.entry(entry).ok()?;
        let text = |name: constants::DwAt| {
            let text = self.dwarf.attr_string(unit, entry.attr_value(name)?).ok()?;
            (text.len() <= LONGEST_NAME).then(|| text.to_string_lossy().into_owned())
        };
        let linkage =
            || text(constants::DW_AT_linkage_name).or_else(|| text(constants::DW_AT_MIPS_linkage_name));
        let other = || {
            let other = [constants::DW_AT_abstract_origin, constants::DW_AT_specification];
            let other = other.into_iter().find_map(|name| entry.attr_value(name))?;
            self.name_of(unit, other, hops.checked_sub(1)?)
        };
        linkage().or_else(other).or_else(|| text(constants::DW_AT_name))
    }

    /// Returns the name of the function that an entry refers to, in its own unit or in another one.
    fn name_of(
        &self,
        unit: &Unit<Slice<'a>>,
        reference: AttributeValue<Slice<'a>>,
        hops: u32,
    ) -> Option<String> {
        let offset = match reference {
            AttributeValue::UnitRef(entry) => return self.name(unit, entry, hops),
            AttributeValue::DebugInfoRef(offset) => offset,
            _ => return None,
        };
        let mut headers = self.dwarf.units();
        while let Some(header) = headers.next().ok()? {
            self.clock.step()?;
            if let Some(entry) = offset.to_unit_offset(&header) {
                return self.name(&self.dwarf.unit(header).ok()?, entry, hops);
            }
        }
        None
    }
}

/// Enters a function on the way from the outermost one to an address.
fn enter(scopes: &mut Vec<Scope>, entry: &DebuggingInformationEntry<Slice<'_>>, is_inlined: bool) {
    let (offset, depth) = (entry.offset(), entry.depth());
    if !is_inlined {
        // A function inside another one has code of its own.
        scopes.clear();
    }
    let fits = match scopes.last() {
        Some(outer) => outer.depth < depth && outer.entry != offset,
        None => !is_inlined,
    };
    if fits && scopes.len() < DEEPEST {
        let number = |name| entry.attr(name).and_then(gimli::Attribute::udata_value);
        let file = match entry.attr_value(constants::DW_AT_call_file) {
            Some(AttributeValue::FileIndex(file)) => Some(file),
            _ => number(constants::DW_AT_call_file),
        };
        let line = number(constants::DW_AT_call_line).and_then(|line| u32::try_from(line).ok());
        scopes.push(Scope { entry: offset, depth, called_at: file.zip(line) });
    }
}
