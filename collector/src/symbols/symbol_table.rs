//! Which function is an address in, by a file's tables of symbols?
//!
//! A table is read once, in pieces, however large it is. Only symbols that say how long their function is count: the
//! nearest symbol before an address is often that of another function, whose neighbours have none.

use super::elf::{Elf, Section};
use object::LittleEndian;
use object::elf::{
    SHN_UNDEF, SHT_DYNSYM, SHT_SYMTAB, STB_GLOBAL, STB_WEAK, STT_FUNC, STT_GNU_IFUNC, SectionType, Sym64,
};
use object::pod;

const LE: LittleEndian = LittleEndian;
/// How many symbols are read at a time.
const PIECE: u64 = 64 << 10;
/// How often the symbols of a table are taken for addresses, at most. In a table that is not damaged, functions hardly
/// overlap.
const MOST_TAKEN: u64 = 50 << 20;

/// The symbol of an address that is best so far: of several, the shortest function, and of its names the one that is seen
/// from outside of the file.
#[derive(Clone, Copy)]
struct Best {
    size: u64,
    rank: u8,
    name: u32,
}

/// Returns the name of the function at each address, which are sorted, as it is written in the table.
pub(super) fn functions(elf: &Elf, kind: SectionType, addresses: &[u64]) -> Vec<Option<String>> {
    let found = elf.of_kind(kind).and_then(|table| {
        let names = elf.numbered(table.link())?;
        let best = best(elf, table, addresses);
        let name = |best: Option<Best>| elf.text(names, best?.name.into()).filter(|name| !name.is_empty());
        Some(best.into_iter().map(name).collect())
    });
    found.unwrap_or_else(|| vec![None; addresses.len()])
}

/// The types of tables: all symbols, and those that the loader needs, which a stripped file has left.
pub(super) const ALL: SectionType = SHT_SYMTAB;
pub(super) const DYNAMIC: SectionType = SHT_DYNSYM;

fn best(elf: &Elf, table: &Section, addresses: &[u64]) -> Vec<Option<Best>> {
    let mut best = vec![None; addresses.len()];
    let (mut offset, size) = table.place();
    let bytes = size_of::<Sym64<LittleEndian>>() as u64;
    let (mut left, mut taken) = (size / bytes, 0);
    let mut piece = vec![0; (left.min(PIECE) * bytes) as usize];
    while left > 0 {
        let count = left.min(PIECE);
        let piece = &mut piece[..(count * bytes) as usize];
        if elf.read_into(offset, piece).is_none() {
            break;
        }
        let Ok((symbols, _)) = pod::slice_from_bytes::<Sym64<LittleEndian>>(piece, count as usize) else {
            break;
        };
        taken += symbols.iter().map(|symbol| consider(symbol, addresses, &mut best)).sum::<u64>();
        if taken > MOST_TAKEN {
            return vec![None; addresses.len()];
        }
        (offset, left) = (offset + count * bytes, left - count);
    }
    best
}

/// Takes a symbol for the addresses in its function. Returns how many those are.
fn consider(symbol: &Sym64<LittleEndian>, addresses: &[u64], best: &mut [Option<Best>]) -> u64 {
    let (start, size) = (symbol.st_value.get(LE), symbol.st_size.get(LE));
    let end = start.saturating_add(size);
    let first = addresses.partition_point(|address| *address < start);
    let count = addresses[first..].partition_point(|address| *address < end);
    if count == 0 {
        return 0;
    }
    let (kind, binding) = (symbol.st_info.st_type(), symbol.st_info.st_bind());
    if ![STT_FUNC, STT_GNU_IFUNC].contains(&kind) || symbol.st_shndx.get(LE) == SHN_UNDEF {
        return 0;
    }
    let rank = [STB_GLOBAL, STB_WEAK].iter().position(|known| *known == binding).unwrap_or(2) as u8;
    let this = Best { size, rank, name: symbol.st_name.get(LE) };
    for best in &mut best[first..first + count] {
        if best.is_none_or(|best| (size, rank) < (best.size, best.rank)) {
            *best = Some(this);
        }
    }
    count as u64
}
