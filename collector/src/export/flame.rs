//! How are the stacks of a program written, with what each causes, for flame graphs?
//!
//! Both formats are text. *Collapsed* (Brendan Gregg's FlameGraph, also read by inferno and speedscope) has a line for each
//! stack: its frames from the outermost to the innermost with `;` between them, and a number. *speedscope*
//! (<https://www.speedscope.app/file-format-schema.json>) is JSON with a profile for each process and weight.
//!
//! The innermost frame is what the call did: the kernel, the kind of copy, or the API that waited. What calls without a stack
//! cause is the frame `(no stack)`, so that all stacks sum to the whole.

use crate::analyze::Tables;
use crate::analyze::source_lines::{OTHER_GRAPHS, Row, Shares};
use crate::harmless;
use crate::model::named::named;
use crate::model::names::demangle;
use crate::model::stacks::{Frame, Stacks};
use crate::model::transfer::HostMemory;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{self, Write};

named! {
    /// What the widths of a flame graph mean.
    pub enum Weight {
        /// The time of the GPU in what the stacks launched, estimated where not all was timed, ns.
        Gpu = "gpu",
        /// The idle gaps of the GPU that their operations ended, ns.
        Idle = "idle",
        /// Their waits for the GPU, ns.
        Wait = "wait",
        /// The bytes that their copies and memsets move.
        Bytes = "bytes",
    }
}

impl Weight {
    /// The name of a profile.
    fn title(self) -> &'static str {
        match self {
            Weight::Gpu => "GPU time",
            Weight::Idle => "idle time of the GPU, by what ended it",
            Weight::Wait => "waits for the GPU",
            Weight::Bytes => "bytes moved",
        }
    }

    fn unit(self) -> &'static str {
        if self == Weight::Bytes { "bytes" } else { "nanoseconds" }
    }
}

/// A frame as it is drawn.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Drawn {
    name: String,
    file: Option<String>,
    line: Option<u32>,
}

impl Drawn {
    fn named(name: impl Into<String>) -> Drawn {
        Drawn { name: name.into(), file: None, line: None }
    }

    fn of(frame: Option<&Frame>) -> Drawn {
        let Some(frame) = frame else { return Drawn::named("?") };
        if frame.is_without_line() {
            return Drawn::named(frame.place());
        }
        let name = format!("{} ({}:{})", frame.function, frame.short_file(), frame.line);
        Drawn { name, file: Some(frame.file.clone()), line: Some(frame.line) }
    }
}

/// Stacks of a process, the outermost frame first, with their weights.
pub type Weighted = BTreeMap<Vec<Drawn>, u64>;

/// The number of a stack, and what the call did; `None` if it has no stack, or did different things.
type Call = (Option<u32>, Option<String>);

/// A process whose tables are by stack: made from [names in which each stack stands in place of its
/// line](crate::model::stacks::as_lines).
#[derive(Debug)]
pub struct Process {
    /// How it is called among several: its rank, or its id.
    pub name: String,
    /// The stacks of its trace.
    pub stacks: Stacks,
    /// The weights, by stack.
    weights: BTreeMap<Weight, BTreeMap<Call, u64>>,
}

impl Process {
    /// Takes what the tables say of each stack.
    pub fn of(name: String, stacks: Stacks, tables: &Tables) -> Process {
        let mut process = Process { name, stacks, weights: BTreeMap::new() };
        // What has no stack has no line either.
        let number = |line: Option<&Frame>| line.map(|line| line.line);
        for (row, shares) in tables.source_lines.shares() {
            let leaf = leaf(row);
            if row.runs() {
                for (line, time) in shares.times() {
                    process.add(Weight::Gpu, number(line), leaf.clone(), time.value);
                }
            }
            let weight = match row {
                Row::Wait(_) => Weight::Wait,
                Row::Transfer(..) => Weight::Bytes,
                _ => continue,
            };
            for (line, amount) in shares.weights() {
                process.add(weight, number(line), leaf.clone(), amount);
            }
        }
        for (line, line_use) in &tables.source_lines.rows {
            process.add(Weight::Idle, number(line.as_ref()), None, line_use.idle_ns);
        }
        process
    }

    /// Gives the operations of a process in which none like them was timed their part of what the tables of all processes,
    /// `whole`, say beyond what the others have: so all processes together have the time of the whole. `tables` are those of each.
    pub fn complete(processes: &mut [Process], tables: &[&Tables], whole: &Tables) {
        let mut rest: BTreeMap<Row<String>, Rest> = BTreeMap::new();
        for (row, shares) in running(whole) {
            let rest = rest.entry(kind(row)).or_default();
            shares.times().for_each(|(_, time)| rest.time = rest.time.saturating_add(time.value));
        }
        for (row, shares) in tables.iter().flat_map(|tables| running(tables)) {
            let rest = rest.entry(kind(row)).or_default();
            shares.times().for_each(|(_, time)| rest.time = rest.time.saturating_sub(time.value));
            if is_untimed(shares) {
                shares.weights().for_each(|(_, amount)| rest.amount = rest.amount.saturating_add(amount));
            }
        }
        for (process, tables) in processes.iter_mut().zip(tables) {
            for (row, shares) in running(tables).filter(|(_, shares)| is_untimed(shares)) {
                for (line, amount) in shares.weights() {
                    let time = rest.get(&kind(row)).map_or(0, |rest| rest.of(amount));
                    process.add(Weight::Gpu, line.map(|line| line.line), leaf(row), time);
                }
            }
        }
    }

    fn add(&mut self, weight: Weight, stack: Option<u32>, leaf: Option<String>, amount: u64) {
        if amount > 0 {
            *self.weights.entry(weight).or_default().entry((stack, leaf)).or_default() += amount;
        }
    }

    /// Returns its stacks with what each causes.
    fn weighted(&self, weight: Weight) -> Weighted {
        let mut all = Weighted::new();
        for ((stack, leaf), amount) in self.weights.get(&weight).into_iter().flatten() {
            let mut frames = self.frames(*stack);
            frames.extend(leaf.as_ref().map(Drawn::named));
            *all.entry(frames).or_default() += amount;
        }
        all
    }

    /// Returns the frames of a stack, the outermost first.
    fn frames(&self, stack: Option<u32>) -> Vec<Drawn> {
        let Some((frames, is_cut)) = stack.and_then(|stack| self.stacks.frames(stack)) else {
            return vec![Drawn::named("(no stack)")];
        };
        let more = is_cut.then(|| Drawn::named("…"));
        more.into_iter().chain(frames.into_iter().rev().map(Drawn::of)).collect()
    }
}

/// What is left of the time of a row for operations of which none like them was timed in their process.
#[derive(Clone, Copy, Debug, Default)]
struct Rest {
    /// ns.
    time: u64,
    /// The launches or bytes of those operations.
    amount: u64,
}

impl Rest {
    /// The part of so many launches or bytes, ns.
    fn of(self, amount: u64) -> u64 {
        let part = u128::from(self.time) * u128::from(amount) / u128::from(self.amount.max(1));
        u64::try_from(part).unwrap_or(u64::MAX)
    }
}

/// Returns the rows that have time of the GPU.
fn running(tables: &Tables) -> impl Iterator<Item = (&Row<String>, &Shares)> {
    tables.source_lines.shares().filter(|(row, _)| row.runs())
}

/// Returns what the same row is in other processes. Graphs have numbers of their own in each, so they are one.
fn kind(row: &Row<String>) -> Row<String> {
    if let Row::Graph(_) = row { Row::Graph(OTHER_GRAPHS) } else { row.clone() }
}

fn is_untimed(shares: &Shares) -> bool {
    shares.times().next().is_none()
}

/// What a call did, as the innermost frame.
fn leaf(row: &Row<String>) -> Option<String> {
    Some(match row {
        Row::Api(api) | Row::Wait(api) => api.clone(),
        Row::Kernel(symbol) | Row::Captured(symbol) => demangle(symbol),
        Row::Transfer(kind, memory) => {
            let beside = match memory {
                HostMemory::None => String::new(),
                memory => format!(" ({})", memory.name()),
            };
            format!("{}{beside}", kind.name())
        }
        Row::Graph(OTHER_GRAPHS) => "other graphs".to_owned(),
        Row::Graph(graph) => format!("graph {graph}"),
    })
}

/// Writes the stacks of all processes, a line each. Of several processes the outermost frame is the process. Returns the
/// number of stacks.
///
/// # Errors
/// Fails if writing does.
pub fn collapsed(mut out: impl Write, processes: &[Process], weight: Weight) -> io::Result<usize> {
    let mut lines: BTreeMap<String, u64> = BTreeMap::new();
    for process in processes {
        let root = (processes.len() > 1).then(|| process.name.clone());
        for (frames, amount) in process.weighted(weight) {
            let names = root.iter().cloned().chain(frames.into_iter().map(|frame| frame.name));
            let names: Vec<String> = names.map(|name| plain(&name)).collect();
            *lines.entry(names.join(";")).or_default() += amount;
        }
    }
    for (stack, amount) in &lines {
        writeln!(out, "{stack} {amount}")?;
    }
    Ok(lines.len())
}

/// A name without what has a meaning in the format.
fn plain(name: &str) -> String {
    harmless::plain(&name.replace(';', ","))
}

/// Writes a profile for each process and weight. Returns the number of stacks.
///
/// # Errors
/// Fails if writing does.
pub fn speedscope(mut out: impl Write, processes: &[Process], weights: &[Weight]) -> io::Result<usize> {
    let mut numbers: BTreeMap<Drawn, usize> = BTreeMap::new();
    let mut frames: Vec<Value> = Vec::new();
    let mut profiles: Vec<Value> = Vec::new();
    let mut stacks = 0;
    for process in processes {
        for weight in weights {
            let weighted = process.weighted(*weight);
            if weighted.is_empty() {
                continue;
            }
            stacks += weighted.len();
            let mut samples: Vec<Vec<usize>> = Vec::new();
            for stack in weighted.keys() {
                let number = |frame: &Drawn| {
                    *numbers.entry(frame.clone()).or_insert_with(|| {
                        frames.push(described(frame));
                        frames.len() - 1
                    })
                };
                samples.push(stack.iter().map(number).collect());
            }
            let amounts: Vec<u64> = weighted.values().copied().collect();
            let name = match processes.len() {
                1 => weight.title().to_owned(),
                _ => format!("{}: {}", process.name, weight.title()),
            };
            profiles.push(json!({
                "type": "sampled", "name": name, "unit": weight.unit(), "startValue": 0,
                "endValue": amounts.iter().sum::<u64>(), "samples": samples, "weights": amounts,
            }));
        }
    }
    let file = json!({
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "exporter": concat!("gpuspy ", env!("CARGO_PKG_VERSION")),
        "activeProfileIndex": 0, "shared": { "frames": frames }, "profiles": profiles,
    });
    writeln!(out, "{}", harmless::json(file.to_string()))?;
    Ok(stacks)
}

fn described(frame: &Drawn) -> Value {
    let mut described = json!({ "name": frame.name });
    if let (Some(file), Some(line)) = (&frame.file, frame.line) {
        described["file"] = json!(file);
        described["line"] = json!(line);
    }
    described
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::record::Names;
    use gpuspy_wire::record::Namespace;

    fn process(name: &str) -> Process {
        let names = Names(BTreeMap::from([
            ((Namespace::Frame, 1), "Tensor.to\n/x/lib/python3.11/site-packages/torch/a.py\n30".to_owned()),
            ((Namespace::Frame, 2), "train; <lambda>\n/home/ann/train.py\n42".to_owned()),
            ((Namespace::Frame, 3), "at::copy\n\n0\n/x/libtorch_cpu.so".to_owned()),
            ((Namespace::Stack, 7), "1 2".to_owned()),
            ((Namespace::Stack, 8), "3 …".to_owned()),
        ]));
        let mut process =
            Process { name: name.to_owned(), stacks: Stacks::of(&names), weights: BTreeMap::new() };
        process.add(Weight::Gpu, Some(7), Some("gemm".to_owned()), 100);
        process.add(Weight::Gpu, Some(8), Some("HtoD (pinned)".to_owned()), 30);
        process.add(Weight::Gpu, None, Some("relu".to_owned()), 5);
        process.add(Weight::Idle, Some(7), None, 70);
        process
    }

    fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn collapsed_stacks_are_written_from_the_outermost_frame_to_what_the_call_did() {
        let text = text(|out| assert_eq!(collapsed(out, &[process("rank 0")], Weight::Gpu).unwrap(), 3));
        let lines = [
            "(no stack);relu 5\n",
            "train, <lambda> (train.py:42);Tensor.to (torch/a.py:30);gemm 100\n",
            "…;at::copy in libtorch_cpu.so;HtoD (pinned) 30\n",
        ];
        assert_eq!(text, lines.concat());
    }

    #[test]
    fn several_processes_are_told_apart() {
        let both = [process("rank 0"), process("rank 1")];
        let text = text(|out| assert_eq!(collapsed(out, &both, Weight::Idle).unwrap(), 2));
        assert!(text.starts_with("rank 0;train, <lambda> (train.py:42);"), "{text}");
        assert!(text.lines().nth(1).unwrap().starts_with("rank 1;"), "{text}");
    }

    #[test]
    fn a_speedscope_file_has_a_profile_for_each_weight_that_something_has() {
        let all = [Weight::Gpu, Weight::Idle, Weight::Wait, Weight::Bytes];
        let text = text(|out| assert_eq!(speedscope(out, &[process("rank 0")], &all).unwrap(), 4));
        let file: Value = serde_json::from_str(&text).unwrap();
        let profiles = file["profiles"].as_array().unwrap();
        assert_eq!(profiles.len(), 2);
        assert_eq!((&profiles[0]["endValue"], &profiles[0]["unit"]), (&json!(135), &json!("nanoseconds")));
        let named = |number: &Value| file["shared"]["frames"][number.as_u64().unwrap() as usize].clone();
        let sample: Vec<Value> = profiles[1]["samples"][0].as_array().unwrap().iter().map(named).collect();
        let outermost =
            json!({ "name": "train; <lambda> (train.py:42)", "file": "/home/ann/train.py", "line": 42 });
        assert_eq!((sample.len(), &sample[0]), (2, &outermost));
        assert_eq!(profiles[1]["weights"], json!([70]));
    }
}
