//! How is a timeline written in the Chrome trace format, in the dialect of PyTorch's Kineto? Perfetto, chrome://tracing
//! and HTA (Holistic Trace Analysis) read it.
//!
//! `timeline` says which events, rows and arguments there are. What follows from the format and its readers:
//!
//! - Times are µs with three decimals since `baseTimeNanoseconds`.
//! - Perfetto drops events of a row that overlap, which no two do.
//! - HTA treats any time outside `kernel`, `gpu_memcpy` and `gpu_memset` as idle, and whatever has an `args.stream` and a
//!   correlation as the work of that stream. It distinguishes the rows of a GPU by nothing but `args.stream`, so the
//!   projections of ranges have none. It would join events without a correlation with each other.
//! - `distributedInfo` contains the rank if all processes of the file have the same: HTA distinguishes files by it, and
//!   requires the blank after the colon. Its backend is NCCL if an NCCL kernel was launched, and otherwise unknown.
//! - Metadata comes first, because HTA takes the first event of all for one without a correlation.

mod json;

use super::timeline::Summary;
use super::timeline::sink::{
    Arg, Arrow, Counter, Group, Header, Instant, JobOfFile, NamedRow, Row, RowKind, Sink, Slice,
};
use json::{Micros, Put, Text};
use std::io::{self, Write};
use std::rc::Rc;

/// A Chrome trace that is being written.
#[derive(Debug)]
pub struct Chrome<W> {
    out: W,
    any: bool,
    /// The event that is put together.
    event: Vec<u8>,
}

impl<W: Write> Chrome<W> {
    /// Begins a file.
    pub fn new(out: W) -> Chrome<W> {
        Chrome { out, any: false, event: Vec::new() }
    }

    /// Adds an event from its parts. Inlined, the parts are known, so that each is put without a call through a table.
    #[inline(always)]
    fn put(&mut self, parts: &[&dyn Put]) -> io::Result<()> {
        self.open();
        parts.iter().for_each(|part| part.put(&mut self.event));
        self.close()
    }

    /// Begins an event: one per line.
    fn open(&mut self) {
        self.event.clear();
        self.event.extend_from_slice(if self.any { b",\n" } else { b"\n" });
        self.any = true;
    }

    fn close(&mut self) -> io::Result<()> {
        self.out.write_all(&self.event)
    }

    fn metadata(&mut self, name: &str, Row { pid, tid }: Row, key: &str, value: &dyn Put) -> io::Result<()> {
        self.put(&[
            &r#"{"ph":"M","name":""#,
            &name,
            &r#"","ts":0,"pid":"#,
            &pid,
            &r#","tid":"#,
            &tid,
            &r#","args":{""#,
            &key,
            &r#"":"#,
            value,
            &"}}",
        ])
    }

    /// Writes an end of an arrow.
    fn arrow(&mut self, arrow: Arrow, Row { pid, tid }: Row, at: i64) -> io::Result<()> {
        let (phase, id, rest) = match arrow {
            Arrow::Call(id) => ("s", id, "}"),
            Arrow::Operation(id) => ("f", id, r#","bp":"e"}"#),
        };
        self.put(&[
            &r#"{"ph":""#,
            &phase,
            &r#"","id":"#,
            &id,
            &r#","pid":"#,
            &pid,
            &r#","tid":"#,
            &tid,
            &r#","ts":"#,
            &Micros(at),
            &r#","cat":"ac2g","name":"ac2g""#,
            &rest,
        ])
    }

    fn bar(&mut self, slice: &Slice<'_, Self>) -> io::Result<()> {
        let Slice { category, name, row: Row { pid, tid }, span: (begin, end), args, more, .. } = slice;
        self.open();
        let out = &mut self.event;
        r#"{"ph":"X","cat":""#.put(out);
        category.name().put(out);
        r#"","name":"#.put(out);
        name.put(out);
        r#","pid":"#.put(out);
        pid.put(out);
        r#","tid":"#.put(out);
        tid.put(out);
        r#","ts":"#.put(out);
        Micros(*begin).put(out);
        r#","dur":"#.put(out);
        Micros(end.saturating_sub(*begin)).put(out);
        arguments(args, more.map(|more| &**more), out);
        "}".put(out);
        self.close()
    }
}

/// Writes the arguments of an event, if it has any. Those that it shares come last.
fn arguments(args: &[Arg<'_>], more: Option<&str>, out: &mut Vec<u8>) {
    if args.is_empty() && more.is_none() {
        return;
    }
    r#","args":{"#.put(out);
    listed(args, out);
    if let Some(more) = more {
        (if args.is_empty() { "" } else { "," }).put(out);
        more.put(out);
    }
    "}".put(out);
}

fn listed(args: &[Arg<'_>], out: &mut Vec<u8>) {
    for (index, arg) in args.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        arg.put(out);
    }
}

/// Where a GPU's rows are drawn: below all of the host's, as in Kineto.
const GPU_SORT_INDEX: u32 = 5_000_000;

impl<W: Write> Sink for Chrome<W> {
    type Name = Text;
    type Args = Rc<str>;
    type Out = W;

    fn name(&mut self, text: &str) -> Text {
        Text::of(text)
    }

    fn args(&mut self, args: &[Arg<'_>]) -> Rc<str> {
        let mut written = Vec::new();
        listed(args, &mut written);
        // All parts are texts.
        String::from_utf8(written).unwrap_or_default().into()
    }

    fn begin(&mut self, header: &Header<'_>) -> io::Result<()> {
        let (out, base) = (&mut self.out, header.base);
        writeln!(
            out,
            "{{\n\"schemaVersion\": 1,\n\"displayTimeUnit\": \"ms\",\n\"baseTimeNanoseconds\": {base},"
        )?;
        if let Some(job) = header.job {
            distributed_info(out, job)?;
        }
        out.write_all(b"\"deviceProperties\": [")?;
        let mut separator = "";
        for gpu in header.gpus.iter().filter(|gpu| gpu.ordinal.is_some()) {
            json::device(out, separator, gpu)?;
            separator = ",";
        }
        out.write_all(b"],\n\"traceEvents\": [")
    }

    fn group(&mut self, group: &Group<'_>) -> io::Result<()> {
        let (pid, program, rank, known_as, label, index) = match *group {
            Group::Process { pid, program, rank, known_as } => {
                (pid, program, rank, known_as, "CPU".to_owned(), pid)
            }
            Group::Gpu { program, rank, gpu, .. } => {
                (gpu.number, program, rank, None, gpu.label(), GPU_SORT_INDEX.saturating_add(gpu.number))
            }
        };
        let rank = rank.map(|rank| format!("rank {rank}"));
        let labels = [Some(label), rank, known_as.map(str::to_owned)].into_iter().flatten();
        let label = labels.collect::<Vec<_>>().join(", ");
        let row = Row { pid, tid: 0 };
        self.metadata("process_name", row, "name", &Text::of(program))?;
        self.metadata("process_labels", row, "labels", &Text::of(&label))?;
        self.metadata("process_sort_index", row, "sort_index", &index)
    }

    fn row(&mut self, &NamedRow { row, name, kind }: &NamedRow<'_>) -> io::Result<()> {
        self.metadata("thread_name", row, "name", &Text::of(name))?;
        let index = match kind {
            RowKind::Thread | RowKind::Ranges => return Ok(()),
            RowKind::Stream => row.tid,
            RowKind::Projections { stream } => stream,
        };
        self.metadata("thread_sort_index", row, "sort_index", &index)
    }

    fn slice(&mut self, slice: &Slice<'_, Self>) -> io::Result<()> {
        self.bar(slice)?;
        if let Some(inside) = slice.inside {
            self.bar(inside)?;
        }
        slice.arrow.map_or(Ok(()), |arrow| self.arrow(arrow, slice.row, slice.span.0))
    }

    fn instant(&mut self, instant: &Instant<'_, Self>) -> io::Result<()> {
        let Instant { category, name, row: Row { pid, tid }, at, args } = instant;
        self.open();
        let out = &mut self.event;
        r#"{"ph":"i","cat":""#.put(out);
        category.name().put(out);
        r#"","s":"t","name":"#.put(out);
        name.put(out);
        r#","pid":"#.put(out);
        pid.put(out);
        r#","tid":"#.put(out);
        tid.put(out);
        r#","ts":"#.put(out);
        Micros(*at).put(out);
        arguments(args, None, out);
        "}".put(out);
        self.close()
    }

    fn counter(&mut self, &Counter { name, pid, at, bytes }: &Counter<'_>) -> io::Result<()> {
        self.put(&[
            &r#"{"ph":"C","name":""#,
            &name,
            &r#"","pid":"#,
            &pid,
            &r#","ts":"#,
            &Micros(at),
            &r#","args":{"bytes":"#,
            &bytes,
            &"}}",
        ])
    }

    fn finish(mut self, summary: &Summary) -> io::Result<W> {
        let Summary { calls, operations, untimed, captured, annotations, operators, functions, .. } = summary;
        let untimed: Vec<String> = untimed.iter().map(|(why, count)| format!("\"{why}\": {count}")).collect();
        let version = env!("CARGO_PKG_VERSION");
        write!(
            self.out,
            "\n],\n\"gpuspy\": {{\"version\": \"{version}\", \"calls\": {calls}, \"operations\": {operations}, \
             \"annotations\": {annotations}, \"operators\": {operators}, \"functions\": {functions}, \
             \"captured\": {captured}, \"untimed\": {{{}}}}}\n}}\n",
            untimed.join(", ")
        )?;
        self.out.flush()?;
        Ok(self.out)
    }
}

/// Writes the file's place in a job.
fn distributed_info(out: &mut impl Write, job: JobOfFile) -> io::Result<()> {
    out.write_all(b"\"distributedInfo\": {")?;
    if job.uses_nccl {
        out.write_all(b"\"backend\": \"nccl\", ")?;
    }
    write!(out, "\"rank\": {}", job.rank)?;
    if let Some(world_size) = job.world_size {
        write!(out, ", \"world_size\": {world_size}")?;
    }
    out.write_all(b"},\n")
}

#[cfg(test)]
mod tests;
