//! `gpuspy export --to collapsed|speedscope`: the stacks of a program by what they cause.

use super::traces::{Opened, PATIENCE, filters, open_all, say_damage, say_unread, unreadable};
use super::{Failure, report, say};
use crate::analyze::Tables;
use crate::export::flame::{self, Process, Weight};
use crate::model::filter::Filter;
use crate::model::job::Job;
use crate::model::stacks::{Stacks, as_lines};
use crate::report::damage::described;
use crate::trace::Damage;
use crate::trace::record::Names;
use gpuspy_wire::record::{Fact, Namespace};
use std::io::{self, Write};
use std::path::Path;

/// The first bytes of every speedscope file that gpuspy writes.
pub(super) const SPEEDSCOPE_START: &[u8] = b"{\"$schema\":\"https://www.speedscope.app/";

/// A flame graph's format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flames {
    Collapsed,
    Speedscope,
}

/// Reads a trace, or all traces of a directory, by stack.
pub(super) fn read(path: &Path, filter: &Filter) -> Result<Vec<Process>, Failure> {
    let mut opened = open_all(path, PATIENCE)?;
    for (path, error) in &opened.unread {
        say(&unreadable(path, error).sentence);
    }
    let filters = filters(path, &mut opened.traces, filter)?;
    let (mut processes, mut reports) = (Vec::new(), Vec::new());
    for (trace, filter) in opened.traces.iter_mut().zip(&filters) {
        let stacks = Stacks::of(&trace.names);
        trace.names = as_lines(&trace.names);
        let report = report::analyze(trace, filter);
        let name = match (Job::of(&trace.names).rank, &trace.status) {
            (Some(rank), _) => format!("rank {rank}"),
            (None, Some(status)) => format!("pid {}", status.pid),
            (None, None) => trace.path.display().to_string(),
        };
        processes.push(Process::of(name, stacks, &report.tables));
        reports.push(report);
    }
    let tables: Vec<&Tables> = reports.iter().map(|report| &report.tables).collect();
    Process::complete(&mut processes, &tables, &Tables::of_run(&reports));
    if processes.iter().all(|process| process.stacks.is_empty()) {
        let why = |trace: &Opened| {
            why_none(&trace.names, trace.reader.damage(), &trace.clocks.callers.notes().collect::<Vec<_>>())
        };
        let reasons = opened.traces.iter().map(why);
        let why = reasons.max_by_key(|(rank, _)| *rank).map(|(_, why)| why).unwrap_or_default();
        return Err(Failure::usage(format_args!("cannot draw flames of {}: {why}", path.display())));
    }
    for trace in &opened.traces {
        say_damage(&trace.path, &trace.reader);
        say_unread(&trace.clocks.callers);
    }
    Ok(processes)
}

/// Returns why a trace has no stacks, and how likely it would have some otherwise. `unread`: of which of the program's files
/// nothing is believed.
fn why_none(names: &Names, damage: Damage, unread: &[String]) -> (u8, String) {
    let fact = |fact: Fact| names.get(Namespace::Fact, fact as u32);
    let again = "run the program again";
    if let Some((what, how)) = described(&damage.into()).into_iter().next() {
        return (3, format!("no stack in it can be read, since it is {what} ({how}): {again}"));
    }
    match (fact(Fact::Stacks), fact(Fact::StacksNote)) {
        (Some("off"), _) => {
            (2, format!("it was recorded with --stacks off: {again} with --stacks auto or full"))
        }
        (Some(_), Some(note)) => (1, format!("it has no stacks: {note}")),
        (Some(_), None) if !unread.is_empty() => {
            (1, format!("no call in it has a stack: {}", unread.join("; ")))
        }
        (Some(_), None) => (0, "no call in it has a stack, though stacks were recorded".to_owned()),
        (None, _) => (0, format!("it has no stacks: {again} with --stacks auto or full")),
    }
}

/// Writes the stacks with this weight; without one, speedscope gets all, and collapsed stacks the time of the GPU. Returns
/// whether there were any.
pub(super) fn write(
    out: impl Write,
    to: Flames,
    processes: &[Process],
    weight: Option<Weight>,
) -> io::Result<bool> {
    let stacks = match to {
        Flames::Collapsed => flame::collapsed(out, processes, weight.unwrap_or(Weight::Gpu)),
        Flames::Speedscope => {
            let weights = weight.map_or(Weight::ALL.to_vec(), |weight| vec![weight]);
            flame::speedscope(out, processes, &weights)
        }
    };
    Ok(stacks? > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of all of them it was said that the program should be run with --stacks auto, as most were.
    #[test]
    fn a_trace_without_stacks_says_why_it_has_none() {
        let why_of = |facts: &[(Fact, &str)], damage, unread: &[String]| {
            let facts =
                facts.iter().map(|(fact, text)| ((Namespace::Fact, *fact as u32), (*text).to_owned()));
            why_none(&Names(facts.collect()), damage, unread).1
        };
        let why = |facts: &[(Fact, &str)], damage| why_of(facts, damage, &[]);
        let whole = Damage::default();
        let off = "it was recorded with --stacks off: run the program again with --stacks auto or full";
        assert_eq!(why(&[(Fact::Stacks, "off")], whole), off);
        assert_eq!(
            why(&[(Fact::Stacks, "auto")], whole),
            "no call in it has a stack, though stacks were recorded"
        );
        let missing = ["/a/app is not on this machine: calls from it have no line".to_owned()];
        assert_eq!(
            why_of(&[(Fact::Stacks, "auto")], whole, &missing),
            "no call in it has a stack: /a/app is not on this machine: calls from it have no line"
        );
        let note = [(Fact::Stacks, "full"), (Fact::StacksNote, "this Python is not known")];
        assert_eq!(why(&note, whole), "it has no stacks: this Python is not known");
        let damaged = why(&[(Fact::Stacks, "auto")], Damage { chunks_lost: 2, ..whole });
        assert!(
            damaged.starts_with("no stack in it can be read, since it is damaged (2 chunks could"),
            "{damaged}"
        );
    }
}
