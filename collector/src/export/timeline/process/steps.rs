//! How are the steps that gpuspy found shown? As torch.profiler shows those that a program marks, for the tools that ask for
//! them: `ProfilerStep#N`, with the numbers that the report gives them, and marked as found.
//!
//! - A step lasts on the host from its first launch, or from the range that begins it, to that of the next step. So the last
//!   one has no end that is known: it is drawn up to its last launch, and says so. Without it, HTA would leave out the last
//!   complete step, because it leaves out the last one of a file.
//! - They have a row of their own. A step begins at a launch, which may lie inside the program's own ranges, and on a
//!   thread's row nothing crosses: either the step or the range would have to be cut.
//! - There are no projections onto the GPU: HTA and the PyTorch Profiler plugin of TensorBoard would take each for another step.
//! - A program that marks steps itself, in ranges of that name, has no others.

use super::Pass;
use crate::export::timeline::rows::Sequence;
use crate::export::timeline::sink::{Arg, Category, Key, NamedRow, Row, RowKind, Sink, Slice};
use crate::model::Event;
use crate::model::gpu_interval::host;
use crate::model::steps::Source;
use crate::trace::record::Names;
use gpuspy_wire::record::Namespace;
use std::io;

/// How torch.profiler's names of steps begin.
const STEP: &str = "ProfilerStep#";

/// The row of steps: no thread, known or unknown, has so high a number.
const ROW: u32 = (1 << 23) - 1;

/// Whether a text is the name of a step that the program marks.
pub(super) fn is_step(text: &str) -> bool {
    text.strip_prefix(STEP).is_some_and(|number| number.starts_with(|c: char| c.is_ascii_digit()))
}

/// A step that has begun; times are host ns.
#[derive(Clone, Copy, Debug)]
struct Open {
    number: u64,
    begin: i64,
    /// The end of the last call in it that has an operation.
    launched: i64,
}

/// The row of steps.
#[derive(Debug, Default)]
pub(super) struct StepRow {
    /// How they were found; `None` if none are shown.
    found_by: Option<String>,
    open: Option<Open>,
    row: Sequence,
    is_named: bool,
}

impl StepRow {
    /// The row of a process's steps, if they were found and are not marked.
    pub(super) fn of(source: Option<&Source>, names: &Names) -> StepRow {
        let texts = names.0.range((Namespace::NvtxRange, 0)..=(Namespace::NvtxRange, u32::MAX));
        let is_marked = texts.map(|(_, text)| text).any(|text| is_step(text));
        let found_by = source.filter(|_| !is_marked).map(|source| match source {
            Source::Launches => "the sequence of launches repeats".to_owned(),
            Source::Graphs => "a graph is launched once in each step".to_owned(),
            Source::NvtxRange(name) => format!("the range {name} is opened once in each step"),
        });
        StepRow { found_by, ..StepRow::default() }
    }
}

impl<S: Sink> Pass<'_, '_, S> {
    /// Takes the next event, and writes the step that has ended with it.
    pub(super) fn step(&mut self, event: &Event<'_>) -> io::Result<()> {
        let Some(number) = event.step.filter(|_| self.steps.found_by.is_some()) else { return Ok(()) };
        if self.steps.open.is_none_or(|open| open.number != number) {
            let begin = host(event.record.began().unwrap_or(event.record.at));
            if let Some(over) = self.steps.open.replace(Open { number, begin, launched: begin }) {
                // Events that follow each other do so by 1 ns: see `rows`.
                self.step_over(over, begin.saturating_sub(1), None)?;
            }
        }
        if let (Some(open), Some(_), Some(call)) =
            (&mut self.steps.open, &event.operation, event.record.body.call())
        {
            open.launched = open.launched.max(host(call.end));
        }
        Ok(())
    }

    /// Writes the step that has not ended.
    pub(super) fn last_step(&mut self) -> io::Result<()> {
        let until = "its last launch: the end of the last step is not known";
        self.steps.open.take().map_or(Ok(()), |open| self.step_over(open, open.launched, Some(until)))
    }

    fn step_over(
        &mut self,
        Open { number, begin, .. }: Open,
        end: i64,
        until: Option<&str>,
    ) -> io::Result<()> {
        let (from, to) = (self.moment(begin), self.moment(end));
        let span = self.steps.row.place(from, to);
        if !self.is_in_time(begin, end) {
            return Ok(());
        }
        let (row, sink) = (Row { pid: self.rows().pid, tid: ROW }, &mut self.export.sink);
        if !self.steps.is_named {
            self.steps.is_named = true;
            sink.row(&NamedRow { row, name: "steps that gpuspy found", kind: RowKind::Ranges })?;
        }
        let name = &sink.name(&format!("{STEP}{number}"));
        let found_by = self.steps.found_by.as_deref().map(|by| Arg::of(Key::FoundBy, by));
        let until = until.map(|until| Arg::of(Key::Until, until));
        let args: Vec<Arg<'_>> = found_by.into_iter().chain(until).collect();
        self.export.summary.annotations += 1;
        let (category, more, arrow, inside) = (Category::Annotation, None, None, None);
        sink.slice(&Slice { category, name, row, span, args: &args, more, arrow, inside })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_names_that_torch_profiler_gives_are_steps() {
        assert!(is_step("ProfilerStep#0") && is_step("ProfilerStep#12, op_id = 4"));
        assert!(!is_step("ProfilerStep#") && !is_step("ProfilerStep#x") && !is_step("step 3"));
    }
}
