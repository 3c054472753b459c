//! The simulator's log of what really happened (`SIMCUDA_TRUTH`; simcuda's documentation describes the format).

use serde_json::Value;
use std::path::Path;

/// The whole log, in the order in which it was written.
pub struct Truth {
    lines: Vec<Value>,
}

/// An operation that ran on the GPU. Times are host ns (CLOCK_MONOTONIC_RAW).
#[derive(Clone, Debug)]
pub struct Operation {
    /// `kernel`, `copy`, `memset`, `graph`.
    pub kind: String,
    /// Its number: operations inside a graph launch carry the launch's number as `in_graph`.
    pub seq: u64,
    /// The thread that made the call.
    pub tid: u64,
    /// When that call was entered.
    pub called: u64,
    /// Stream id.
    pub stream: u64,
    /// The device's ordinal.
    pub device: u64,
    /// Kernel name.
    pub name: String,
    /// For copies and memsets: the direction (empty for a memset), the kind of host memory, and the size.
    pub direction: String,
    pub host_memory: String,
    pub bytes: u64,
    /// When it was submitted and at the head of its stream, and when it ended: its GPU interval.
    pub interval: (u64, u64),
    /// Entries ahead of it in its stream when it was submitted.
    pub queue: u64,
}

impl Truth {
    /// Reads a truth file.
    pub fn read(path: &Path) -> Truth {
        let text = std::fs::read_to_string(path)
            .unwrap_or_else(|e| panic!("cannot read the truth file {}: {e}", path.display()));
        let parse = |line: &str| {
            serde_json::from_str(line)
                .unwrap_or_else(|e| panic!("a line of the truth file is not JSON: {line}: {e}"))
        };
        Truth { lines: text.lines().map(parse).collect() }
    }

    /// Returns the lines of a kind.
    pub fn of<'t>(&'t self, kind: &'t str) -> impl Iterator<Item = &'t Value> {
        self.lines.iter().filter(move |l| l["kind"] == kind)
    }

    /// Returns how many operations of a kind the app enqueued itself, outside stream captures and graphs.
    pub fn enqueued(&self, kind: &str) -> usize {
        self.of(kind).filter(|l| l["captured"] == false && l["in_graph"] == 0).count()
    }

    /// Returns the operations that ran on the GPU by a call of their own: kernels, copies, memsets and graph launches,
    /// each with its interval, in the order of their calls.
    pub fn operations(&self) -> Vec<Operation> {
        let ran = |l: &&Value| {
            ["kernel", "copy", "memset", "graph"].iter().any(|k| l["kind"] == *k)
                && l["captured"] == false
                && l["in_graph"] == 0
        };
        let number = |l: &Value, key: &str| l[key].as_u64().unwrap_or_else(|| panic!("no {key} in {l}"));
        let text = |l: &Value, key: &str| l[key].as_str().unwrap_or_default().to_owned();
        let mut list: Vec<Operation> = self
            .lines
            .iter()
            .filter(ran)
            .map(|l| Operation {
                kind: l["kind"].as_str().unwrap().to_owned(),
                seq: number(l, "seq"),
                tid: number(l, "tid"),
                called: number(l, "call_begin"),
                stream: number(l, "stream"),
                device: number(l, "device"),
                name: text(l, "name"),
                direction: text(l, "direction"),
                host_memory: text(l, "host_memory"),
                bytes: number(l, "bytes"),
                interval: (number(l, "head"), number(l, "end")),
                queue: number(l, "queue"),
            })
            .collect();
        // One call may launch several operations.
        list.sort_by_key(|op| (op.called, op.seq));
        list
    }
}
