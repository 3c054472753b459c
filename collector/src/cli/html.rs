//! `--html` of `gpuspy report` and `gpuspy run`: the report as a page for a browser.

use super::output::{write_file_as, write_to};
use super::report::{Reading, Run};
use super::traces::Opened;
use super::{Failure, filter, quoted};
use crate::model::filter::Filter;
use crate::report::html::{self, Commands, Page, Source, Timeline};
use crate::report::sentences;
use crate::trace::PRIVATE;
use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Write};
use std::path::Path;
use std::time::Duration;

/// Writes the page of a trace, or of all traces of a directory; `-` is stdout.
pub(super) fn write(trace: &Path, filter: &Filter, page: &Path, patience: Duration) -> Result<(), Failure> {
    replaceable(page)?;
    let (run, timeline) = Reading::of(trace, patience)?.with_timeline(filter)?;
    let write = page_of(trace, filter, &run, timeline);
    write_to((!is_stdout(page)).then_some(page), write).map(|_| ())
}

/// Writes the page of traces that were just written, as private as they are, and says nothing.
pub(super) fn write_page(trace: &Path, run: &Run, timeline: Timeline, page: &Path) -> Result<(), Failure> {
    write_file_as(PRIVATE, page, page_of(trace, &Filter::default(), run, timeline))
}

/// Adds what happened when in traces.
pub(super) fn add(timeline: &mut Timeline, traces: &mut [Opened], filters: &[Filter]) {
    for (Opened { names, status, clocks, reader, .. }, filter) in traces.iter_mut().zip(filters) {
        let source = Source { names, status: status.as_ref(), clocks, filter };
        timeline.add(source, clocks.callers.on_stacks(reader.records()));
    }
}

/// Returns what writes the page.
fn page_of(
    trace: &Path,
    filter: &Filter,
    run: &Run,
    timeline: Timeline,
) -> impl FnOnce(&mut (dyn Write + Send)) -> io::Result<()> + use<> {
    let all = run.all();
    let command = |with_time| format!("gpuspy report {}{}", quoted(trace), filter::words(filter, with_time));
    let commands = Commands { report: command(true), of_part: command(false) };
    let sentences = sentences(&run.reports, all, &run.unread);
    let page = Page { json: run.value(), sentences, timeline, commands };
    move |out| html::write(&mut BufWriter::with_capacity(1 << 20, out), page)
}

/// Refuses to write where something else would be lost, as `export -o` does.
pub(super) fn replaceable(page: &Path) -> Result<(), Failure> {
    let shown = page.display();
    if is_stdout(page) {
        return Ok(());
    }
    if page.is_dir() || page.as_os_str().as_encoded_bytes().ends_with(b"/") {
        return Err(Failure::usage(format_args!("{shown} is a directory: a page is one file")));
    }
    let folder = page.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
        let folder = folder.display();
        return Err(Failure::usage(format_args!("cannot write {shown}: there is no directory {folder}")));
    }
    if page.is_file() && !is_page(page) && fs::metadata(page).is_ok_and(|file| file.len() > 0) {
        return Err(Failure::usage(format_args!(
            "{shown} exists and is not a page of gpuspy's: choose another path, or remove it"
        )));
    }
    Ok(())
}

fn is_page(path: &Path) -> bool {
    let mut start = [0; html::START.len()];
    File::open(path).and_then(|mut file| file.read_exact(&mut start)).is_ok() && start == html::START
}

fn is_stdout(page: &Path) -> bool {
    page.as_os_str() == "-"
}
