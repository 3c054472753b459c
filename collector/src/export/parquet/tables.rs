//! Which tables are filled while a trace is read, and which columns do they have? docs/parquet.md describes them.

use super::layout::Kind::{Flag, Number, Text};
use super::layout::{Cell, Kind, Layout};
use super::sheet::{Block, Entries, Sheet};
use std::hash::Hash;

/// A table that is filled while the trace is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Table {
    Kernel,
    Memcpy,
    Memset,
    Graph,
    Burst,
    GraphNode,
    Runtime,
    Sync,
    Alloc,
    Nvtx,
    Gap,
    Step,
}

/// When an operation ran.
const TIMES: [&str; 9] =
    ["start", "end", "start_least", "start_most", "end_least", "end_most", "dur", "dur_least", "dur_most"];

/// Whether an operation has times, and of which clock.
const STATE: [(&str, Kind); 3] = [("timed", Flag), ("untimed", Text), ("clock", Text)];

/// Whose row it is: what the process is called in its job, and its id.
pub(super) const WHOSE: [(&str, Kind); 2] = [("process", Text), ("pid", Number)];

/// Where an operation ran, and whose call it was.
const PLACE: [(&str, Kind); 7] = [
    ("deviceId", Number),
    ("contextId", Number),
    ("streamId", Number),
    ("globalPid", Number),
    WHOSE[0],
    WHOSE[1],
    ("tid", Number),
];

/// Which thread made a call.
const THREAD: [(&str, Kind); 4] = [("globalTid", Number), WHOSE[0], WHOSE[1], ("tid", Number)];

/// A call's place in the program, besides its API.
const CALLER: [(&str, Kind); 3] = [("line", Text), ("stack_id", Number), ("library", Text)];

/// What a call is, and its place in the program.
fn called(name: &'static str) -> Vec<(&'static str, Kind)> {
    [(name, Text)].into_iter().chain(CALLER).collect()
}

/// The columns of an operation, with what is only of its kind.
fn operation(table: &str, own: &[&str], kind: &[(&'static str, Kind)]) -> Layout {
    Layout::new(table)
        .own(&TIMES)
        .own(&["correlationId", "operationId", "callStart", "callEnd", "step"])
        .own(own)
        .group(STATE)
        .group(PLACE)
        .group(called("api"))
        .group(kind.iter().copied())
}

const NAMES: [(&str, Kind); 3] = [("demangledName", Text), ("shortName", Text), ("mangledName", Text)];

fn kernel() -> Layout {
    let shape = [
        ("gridX", Number),
        ("gridY", Number),
        ("gridZ", Number),
        ("blockX", Number),
        ("blockY", Number),
        ("blockZ", Number),
        ("registersPerThread", Number),
        ("staticSharedMemory", Number),
        ("dynamicSharedMemory", Number),
        ("localMemoryPerThread", Number),
        ("communication", Flag),
    ];
    let numbers = ["communicationNumber", "communicationPlace", "burst_id"];
    operation("kernel", &numbers, &NAMES.into_iter().chain(shape).collect::<Vec<_>>())
}

fn transfer(table: &str, kind: &[(&'static str, Kind)]) -> Layout {
    let both = [("kind", Text), ("host_memory", Text), ("asynchronous", Flag), ("rows", Number)];
    operation(table, &["bytes"], &kind.iter().copied().chain(both).collect::<Vec<_>>())
}

fn alloc() -> Layout {
    let change = [
        ("memoryOperationType", Number),
        ("change", Text),
        ("kind", Text),
        ("is_device", Flag),
        ("deviceId", Number),
        ("contextId", Number),
        ("streamId", Number),
    ];
    Layout::new("alloc")
        .own(&["start", "bytes", "delta", "live_bytes", "address", "correlationId", "block_id", "step"])
        .group(change)
        .group([("globalPid", Number), WHOSE[0], WHOSE[1], ("tid", Number)])
        .group(called("name"))
}

fn gap() -> Layout {
    let side = |side: &str| {
        [("kind", Text), ("name", Text), ("line", Text)].map(|(name, kind)| (format!("{side}_{name}"), kind))
    };
    Layout::new("gap")
        .own(&["start", "end", "dur", "dur_least", "dur_most", "cause_ns", "cause2_ns", "cause3_ns"])
        .own(&["before_operationId", "after_operationId"])
        .group([("deviceId", Number), ("tid", Number), WHOSE[0], WHOSE[1]])
        .group([("cause", Text), ("cause2", Text), ("cause3", Text)])
        .group(side("before"))
        .group(side("after").into_iter().chain([("line".to_owned(), Text)]))
}

impl Table {
    /// All of them, in the order of declaration.
    pub const ALL: [Table; 12] = [
        Table::Kernel,
        Table::Memcpy,
        Table::Memset,
        Table::Graph,
        Table::Burst,
        Table::GraphNode,
        Table::Runtime,
        Table::Sync,
        Table::Alloc,
        Table::Nvtx,
        Table::Gap,
        Table::Step,
    ];

    /// Its columns.
    pub fn layout(self) -> Layout {
        match self {
            Table::Kernel => kernel(),
            Table::Memcpy => {
                transfer("memcpy", &[("copyKind", Number), ("srcKind", Number), ("dstKind", Number)])
            }
            Table::Memset => transfer("memset", &[("value", Number)]),
            Table::Graph => operation(
                "graph",
                &["graphId"],
                &[("kernels", Number), ("copies", Number), ("memsets", Number)],
            ),
            Table::Burst => operation(
                "burst",
                &["burst_id"],
                &[("kind", Text), ("launches", Number), ("ordinary", Number)],
            ),
            Table::GraphNode => Layout::new("graph_node")
                .own(&TIMES)
                .own(&["operationId", "graphNodeId"])
                .group(STATE)
                .group([
                    ("deviceId", Number),
                    ("contextId", Number),
                    ("globalPid", Number),
                    WHOSE[0],
                    WHOSE[1],
                ])
                .group(NAMES),
            Table::Runtime => Layout::new("runtime")
                .own(&["start", "end", "correlationId", "host_ns", "step"])
                .group(called("name"))
                .group(THREAD)
                .group([
                    ("returnValue", Number),
                    ("failed", Flag),
                    ("calls", Number),
                    ("captured", Flag),
                    ("contextId", Number),
                ]),
            Table::Sync => Layout::new("sync")
                .own(&["start", "end", "correlationId", "step"])
                .group([("syncType", Number), ("kind", Text)])
                .group(PLACE)
                .group(called("name")),
            Table::Alloc => alloc(),
            Table::Nvtx => Layout::new("nvtx")
                .own(&["start", "end", "rangeId"])
                .group([
                    ("eventType", Number),
                    ("text", Text),
                    ("domain", Text),
                    ("category", Number),
                    ("color", Number),
                    ("open", Flag),
                ])
                .group(THREAD),
            Table::Gap => gap(),
            Table::Step => Layout::new("step").own(&["step", "start", "end"]).group([
                ("tid", Number),
                WHOSE[0],
                WHOSE[1],
            ]),
        }
    }
}

/// The rows of all tables whose row groups have not ended, at most: they are in memory, encoded, and tables with few rows
/// would come to a million of them one after the other.
const MOST_HELD: usize = 2_500_000;

/// The rows of all tables of a process, which are given away in blocks.
pub(super) struct Rows<'g> {
    sheets: Vec<Sheet>,
    give: &'g mut dyn FnMut((Table, Block)),
}

impl<'g> Rows<'g> {
    /// No rows yet. `give` takes blocks of them.
    pub fn new(give: &'g mut dyn FnMut((Table, Block))) -> Rows<'g> {
        Rows { sheets: Table::ALL.iter().map(|table| Sheet::new(&table.layout())).collect(), give }
    }

    /// Returns the number of an entry of a group of columns, see [`Sheet::entry`].
    pub fn entry<K: Copy + Eq + Hash>(
        &mut self,
        (table, group): (Table, usize),
        known: &mut Entries<K>,
        key: K,
        cells: impl FnOnce() -> Vec<Cell>,
    ) -> u32 {
        self.sheets[table as usize].entry(group, known, key, cells)
    }

    /// Adds a row.
    pub fn add(&mut self, table: Table, own: &[Option<i64>], entries: &[u32]) {
        let sheet = &mut self.sheets[table as usize];
        sheet.row(own, entries);
        if let Some(block) = sheet.due() {
            (self.give)((table, block));
            self.bound();
        }
    }

    /// Ends the row group of the table with most rows, if all tables together have too many.
    fn bound(&mut self) {
        let held = |sheet: &Sheet| sheet.rows_in_group();
        if self.sheets.iter().map(held).sum::<usize>() > MOST_HELD
            && let Some(table) =
                Table::ALL.into_iter().max_by_key(|table| held(&self.sheets[*table as usize]))
        {
            let block = self.sheets[table as usize].take(true);
            (self.give)((table, block));
        }
    }

    /// Gives what is left.
    pub fn finish(self) {
        let give = self.give;
        for (table, mut sheet) in Table::ALL.into_iter().zip(self.sheets) {
            give((table, sheet.take(true)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_with_few_rows_do_not_hold_more_and_more() {
        let mut held = [0; Table::ALL.len()];
        let (mut most, mut ended) = (0, 0);
        let mut give = |(table, block): (Table, Block)| {
            let rows = &mut held[table as usize];
            *rows = if block.ends { 0 } else { *rows + block.rows };
            ended += u64::from(block.ends);
            most = most.max(held.iter().sum());
        };
        let mut rows = Rows::new(&mut give);
        for n in 0..800_000 {
            for table in [Table::Kernel, Table::Runtime, Table::Gap, Table::Step, Table::Nvtx] {
                rows.add(table, &[Some(n)], &[]);
            }
        }
        rows.finish();
        // The table that comes over the limit gives a block before one of them ends.
        assert!(most <= MOST_HELD + MOST_HELD / 50, "{most}");
        assert!(ended as usize > Table::ALL.len(), "not only at the end");
    }
}
