//! Counters for Prometheus: what programs did, added up window after window (`gpuspy collect --metrics`).
//!
//! [`family`] lists the metrics, and [`samples`] takes them from the report of a window. The text is version 0.0.4 of Prometheus'
//! format, which the textfile collector of node_exporter reads
//! (<https://prometheus.io/docs/instrumenting/exposition_formats/>): there, a counter is declared by its whole name, and not without
//! `_total` as in OpenMetrics.

mod family;
mod samples;
#[cfg(test)]
mod tests;

use super::rows::Report;
use crate::analyze::ProcessReport;
use crate::model::outcome::Outcome;
use family::{Family, Kind, Unit};
use samples::Sample;
use std::collections::BTreeMap;
use std::fmt::Write;

/// The metrics of processes.
#[derive(Debug, Default)]
pub struct Metrics {
    processes: BTreeMap<Labels, Process>,
    /// The number of traces that could not be read.
    unread: u64,
}

/// What tells processes from each other in the text. Another process may get the same id later: its counters go on.
type Labels = Vec<(&'static str, String)>;

/// What is known of a process.
#[derive(Debug, Default)]
struct Process {
    /// The values of each metric, by further labels.
    values: BTreeMap<Family, BTreeMap<Labels, u64>>,
    /// When its latest window ended: s since 1970.
    ended: u64,
}

impl Metrics {
    /// Adds what a process did in a window that ended then, s since 1970.
    pub fn add(&mut self, program: &str, report: &ProcessReport, ended: u64) {
        let rows = Report::of(std::slice::from_ref(report), &report.tables, &[]);
        let mut samples = samples::of(&rows);
        samples.push(Sample { family: Family::WindowEnd, labels: Labels::new(), value: ended });
        let info = &report.process;
        if !matches!(info.outcome, Some(Outcome::Running | Outcome::Detached)) {
            // A process that has ended holds nothing.
            samples.retain(|sample| sample.family.kind() == Kind::Counter);
        }
        let numbers = [("pid", info.pid), ("rank", info.job.rank)].into_iter();
        let numbers = numbers.filter_map(|(name, number)| Some((name, number?.to_string())));
        let labels = [("program", program.to_owned())].into_iter().chain(numbers).collect();
        let process = self.processes.entry(labels).or_default();
        process.ended = process.ended.max(ended);
        process.values.retain(|family, _| family.kind() == Kind::Counter);
        for Sample { family, labels, value } in samples {
            *process.values.entry(family).or_default().entry(labels).or_default() += value;
        }
    }

    /// Counts a trace that could not be read.
    pub fn add_unread(&mut self) {
        self.unread += 1;
    }

    /// Forgets the processes that had no window since then, s since 1970.
    pub fn forget_before(&mut self, time: u64) {
        self.processes.retain(|_, process| process.ended >= time);
    }

    /// Returns all of them as a text.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for family in Family::ALL {
            let kind = if family.kind() == Kind::Counter { "counter" } else { "gauge" };
            declare(&mut text, family.name(), kind, family.help());
            for (of, process) in &self.processes {
                for (labels, value) in process.values.get(&family).into_iter().flatten() {
                    put(&mut text, family.name(), of.iter().chain(labels), &shown(*value, family.unit()));
                }
            }
        }
        declare(&mut text, UNREAD.0, "counter", UNREAD.1);
        put(&mut text, UNREAD.0, [].iter(), &self.unread.to_string());
        text
    }
}

/// The metric of the collector itself, and what it is.
const UNREAD: (&str, &str) = (
    "gpuspy_unread_traces_total",
    "Traces of windows that could not be read, so that nothing here counts what is in them.",
);

/// Prints a value in its unit.
fn shown(value: u64, unit: Unit) -> String {
    match unit {
        Unit::Number => value.to_string(),
        Unit::Nanoseconds => format!("{}.{:09}", value / 1_000_000_000, value % 1_000_000_000),
    }
}

fn declare(text: &mut String, name: &str, kind: &str, help: &str) {
    // Writing to a string does not fail.
    let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
}

fn put<'a>(
    text: &mut String,
    name: &str,
    labels: impl Iterator<Item = &'a (&'static str, String)>,
    value: &str,
) {
    let labels: Vec<String> = labels.map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
    let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
    let _ = writeln!(text, "{name}{labels} {value}");
}

/// Returns a label's value as the format wants it.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
