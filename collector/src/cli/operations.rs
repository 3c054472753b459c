//! `gpuspy report --operations`: prints a line for each operation as the trace is read.

use super::traces::{Opened, PATIENCE, filters, open_all, say_damage, say_unread, unreadable};
use super::{Failure, say};
use crate::model::filter::Filter;
use crate::report::Operations;
use crate::why::why;
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::Path;
use std::process::ExitCode;

pub(super) fn print(path: &Path, filter: &Filter) -> Result<ExitCode, Failure> {
    let mut out = BufWriter::new(io::stdout().lock());
    let mut opened = open_all(path, PATIENCE)?;
    // All traces are read once before the first line is printed, since stream numbers are unique in the run.
    let filters = filters(path, &mut opened.traces, filter)?;
    for (trace, filter) in opened.traces.iter_mut().zip(&filters) {
        match print_one(trace, filter, &mut out).and_then(|()| out.flush()) {
            Ok(()) => {
                say_damage(&trace.path, &trace.reader);
                say_unread(&trace.clocks.callers);
            }
            // The reader (`… | head`) closed the pipe.
            Err(e) if e.kind() == ErrorKind::BrokenPipe => break,
            Err(e) => return Err(Failure::usage(format_args!("cannot write the operations: {}", why(&e)))),
        }
    }
    opened.unread.iter().for_each(|(path, error)| say(&unreadable(path, error).sentence));
    Ok(ExitCode::SUCCESS)
}

fn print_one(trace: &mut Opened, filter: &Filter, out: &mut impl Write) -> io::Result<()> {
    let Opened { path, names, status, clocks, reader, .. } = trace;
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    let mut operations = Operations::new(names, clocks, status.as_ref(), filter).of_trace(&name);
    for record in clocks.callers.on_stacks(reader.records()) {
        if let Some(line) = operations.observe(&record) {
            writeln!(out, "{line}")?;
        }
    }
    Ok(())
}
