//! The names that the rows of the timeline refer to by their numbers.

use super::rows::NONE;
use crate::analyze::calls::base_name;
use crate::analyze::kernels::UNKNOWN;
use crate::analyze::ranges::RangeName;
use crate::hash::HashMap;
use crate::model::Action;
use crate::report::names::{cut, demangle, distinct, plain, shorten};
use crate::trace::record::{self, NvtxRange};
use gpuspy_wire::record::Namespace;
use serde::Serialize;

/// The most columns of a kernel's name in a table and on the timeline.
const SHORT: usize = 64;
/// The most columns of any other text.
const LONGEST: usize = 400;
/// The most launch dimensions that are told apart.
const MOST_SHAPES: usize = 1 << 16;

/// The names.
#[derive(Debug, Default, Serialize)]
pub(super) struct Names {
    operations: Vec<OperationName>,
    apis: Vec<String>,
    lines: Vec<String>,
    /// Why operations have no GPU time; the first one is none.
    reasons: Vec<&'static str>,
    ranges: Vec<String>,
    /// Grid, block and dynamic shared memory of launches.
    shapes: Vec<[u32; 7]>,
    #[serde(skip)]
    known: Known,
    #[serde(skip)]
    by_text: HashMap<(Space, String), u32>,
    #[serde(skip)]
    by_shape: HashMap<[u32; 7], u32>,
}

/// What an operation is called.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub(super) struct OperationName {
    /// As `kind` in `--operations`; `communication` for kernels that move data between GPUs.
    pub kind: &'static str,
    /// A kernel's demangled name.
    pub name: Option<String>,
    /// The same for tables.
    pub short: Option<String>,
    /// The kind of host memory that takes part in a transfer.
    pub host_memory: Option<&'static str>,
}

/// The numbers of what the process at hand calls by numbers of its own.
#[derive(Debug, Default)]
struct Known {
    kernels: HashMap<(u32, bool), u32>,
    apis: HashMap<u16, u32>,
    lines: HashMap<u32, u32>,
    ranges: HashMap<(u32, u32), u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Space {
    Operation(&'static str, &'static str),
    Api,
    Line,
    Reason,
    Range,
}

impl Names {
    /// Forgets the numbers of the process before.
    pub fn next_process(&mut self) {
        self.known = Known::default();
        // Rows without an operation, or whose operation has a time, have the first reason.
        self.reason("");
    }

    /// The number of an operation's name, and its size.
    pub fn operation(&mut self, names: &record::Names, what: &Action) -> (u32, u64) {
        match *what {
            Action::Kernel { name, communication } => {
                if let Some(number) = self.known.kernels.get(&(name, communication)) {
                    return (*number, 0);
                }
                let kind = if communication { "communication" } else { "kernel" };
                let text = demangle(names.get(Namespace::Kernel, name).unwrap_or(UNKNOWN));
                let number = self.named(kind, Some(text), "");
                self.known.kernels.insert((name, communication), number);
                (number, 0)
            }
            Action::Transfer { kind, host_memory, bytes } => {
                (self.named(kind.name(), None, host_memory.name()), bytes)
            }
            Action::Graph { kernels } => (self.named("graph", None, ""), kernels.into()),
            Action::Burst { launches, .. } => {
                (self.named(if what.is_run() { "run" } else { "burst" }, None, ""), launches.into())
            }
        }
    }

    fn named(&mut self, kind: &'static str, name: Option<String>, memory: &'static str) -> u32 {
        let key = (Space::Operation(kind, memory), name.clone().unwrap_or_default());
        let operations = &mut self.operations;
        *self.by_text.entry(key).or_insert_with(|| {
            let host_memory = (!memory.is_empty()).then_some(memory);
            operations.push(OperationName { kind, name, short: None, host_memory });
            operations.len() as u32 - 1
        })
    }

    /// The number of an API's name.
    pub fn api(&mut self, names: &record::Names, api: u16) -> u32 {
        if let Some(number) = self.known.apis.get(&api) {
            return *number;
        }
        let text = names.get(Namespace::Api, api.into()).map_or("(unknown call)", base_name);
        let number = intern(&mut self.by_text, Space::Api, &mut self.apis, text);
        self.known.apis.insert(api, number);
        number
    }

    /// The number of a line of the program that has this number in its process; [`NONE`] if it is not known.
    pub fn line(&mut self, line: u32, place: impl FnOnce() -> Option<String>) -> u32 {
        if let Some(number) = self.known.lines.get(&line) {
            return *number;
        }
        let number = place().map_or(NONE, |place| {
            intern(&mut self.by_text, Space::Line, &mut self.lines, &cut(&place, LONGEST))
        });
        self.known.lines.insert(line, number);
        number
    }

    /// The number of the name of a range or a marker.
    pub fn range(&mut self, range: &NvtxRange, name: impl FnOnce() -> RangeName) -> u32 {
        let key = (range.domain, range.text);
        if let Some(number) = self.known.ranges.get(&key) {
            return *number;
        }
        let text = cut(&name().to_string(), LONGEST);
        let number = intern(&mut self.by_text, Space::Range, &mut self.ranges, &text);
        self.known.ranges.insert(key, number);
        number
    }

    /// The number of a reason why an operation has no time.
    pub fn reason(&mut self, why: &'static str) -> u32 {
        let reasons = &mut self.reasons;
        *self.by_text.entry((Space::Reason, why.to_owned())).or_insert_with(|| {
            reasons.push(why);
            reasons.len() as u32 - 1
        })
    }

    /// The number of a launch's dimensions; [`NONE`] if there are too many.
    pub fn shape(&mut self, grid: [u32; 3], block: [u32; 3], shared_bytes: u32) -> u32 {
        let [[gx, gy, gz], [bx, by, bz]] = [grid, block];
        let key = [gx, gy, gz, bx, by, bz, shared_bytes];
        if let Some(number) = self.by_shape.get(&key) {
            return *number;
        }
        if self.shapes.len() >= MOST_SHAPES {
            return NONE;
        }
        self.shapes.push(key);
        let number = self.shapes.len() as u32 - 1;
        self.by_shape.insert(key, number);
        number
    }

    /// Shortens the names of kernels, so that different ones still differ.
    pub fn shorten(&mut self) {
        let kernels = || self.operations.iter().filter_map(|operation| operation.name.as_deref());
        let short = distinct(&kernels().collect::<Vec<_>>(), SHORT, shorten);
        let named = self.operations.iter_mut().filter(|operation| operation.name.is_some());
        for (operation, short) in named.zip(short) {
            operation.short = Some(short);
            operation.name = operation.name.take().map(|name| cut(&plain(&name), LONGEST));
        }
    }
}

fn intern(
    known: &mut HashMap<(Space, String), u32>,
    space: Space,
    texts: &mut Vec<String>,
    text: &str,
) -> u32 {
    *known.entry((space, text.to_owned())).or_insert_with(|| {
        texts.push(text.to_owned());
        texts.len() as u32 - 1
    })
}
