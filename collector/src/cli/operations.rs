//! `gpuspy report --operations`: a line for each operation, printed as the trace is read.

use super::report::{PATIENCE, say_damage, traces_of, unreadable};
use super::{Failure, say};
use crate::model::filter::Filter;
use crate::model::survey::Survey;
use crate::report::Operations;
use crate::trace::{TraceReader, wait_until_complete};
use crate::why::why;
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::Path;
use std::process::ExitCode;

pub(super) fn print(path: &Path, filter: &Filter) -> Result<ExitCode, Failure> {
    let mut out = BufWriter::new(io::stdout().lock());
    let traces = traces_of(path)?;
    let mut unread = Vec::new();
    for trace in &traces {
        match print_one(trace, filter, &mut out).map(|printed| printed.and_then(|()| out.flush())) {
            Ok(Ok(())) => {}
            // `… | head` has seen what it wanted.
            Ok(Err(e)) if e.kind() == ErrorKind::BrokenPipe => break,
            Ok(Err(e)) => {
                return Err(Failure::usage(format_args!("cannot write the operations: {}", why(&e))));
            }
            Err(failure) => unread.push(failure),
        }
    }
    match unread.pop() {
        Some(failure) if unread.len() + 1 == traces.len() => Err(failure),
        last => {
            unread.into_iter().chain(last).for_each(|failure| say(&failure.sentence));
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// The outer result tells of the trace, the inner one of the output.
fn print_one(path: &Path, filter: &Filter, out: &mut impl Write) -> Result<io::Result<()>, Failure> {
    let cannot_read = |e| unreadable(path, &e);
    if !wait_until_complete(path, PATIENCE).map_err(cannot_read)? {
        say(format_args!("{} is still being written: this is what it holds so far", path.display()));
    }
    let mut reader = TraceReader::open(path).map_err(cannot_read)?;
    let (names, status) = (reader.names().clone(), reader.status().cloned());
    let clocks = Survey::of(reader.records());
    let mut operations = Operations::new(&names, &clocks, status.as_ref(), filter);
    for record in reader.records() {
        if let Some(line) = operations.observe(&record)
            && let Err(e) = writeln!(out, "{line}")
        {
            return Ok(Err(e));
        }
    }
    say_damage(path, reader.damage());
    Ok(Ok(()))
}
