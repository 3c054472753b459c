//! What the findings about memory share: the sizes of GPUs, and holders in words.

use crate::analyze::estimate::Estimate;
use crate::analyze::memory::holders::{Holder, Origin};
use crate::analyze::{ProcessReport, Tables};
use crate::diagnose::finding::{Claimed, Evidence, Finding, Id, Sites};
use crate::units::{bytes, percent};
use std::collections::BTreeMap;

/// The most holders that a sentence names.
const NAMED: usize = 3;

/// Returns the size of the memory of the GPU that had work, bytes; `None` if it is unknown, or there are several: each of them has
/// memory of its own, which can be full while others have room.
pub fn size(tables: &Tables) -> Option<u64> {
    let mut used = tables.devices.iter().filter(|device| device.timelines > 0);
    let device = used.next().filter(|_| used.next().is_none())?;
    device.memory_bytes.filter(|size| *size > 0)
}

/// Returns the size of the memory of one GPU of a process, bytes, by its ordinal there; `None` if it is unknown.
pub fn size_of(tables: &Tables, gpu: u32) -> Option<u64> {
    let device = tables.devices.iter().find(|device| device.id == Some(gpu))?;
    device.memory_bytes.filter(|size| *size > 0)
}

/// Returns the tables of all processes, and those of each of them: what is true of both is best said of the process.
pub fn each<'a>(reports: &'a [ProcessReport], all: &'a Tables) -> impl Iterator<Item = &'a Tables> {
    std::iter::once(all).chain(reports.iter().map(|report| &report.tables))
}

/// Returns a finding that costs memory and no time.
pub fn finding(id: Id, title: String, evidence: Evidence, explanation: &str, fix: String) -> Claimed {
    let (explanation, saves) = (explanation.to_owned(), Estimate::exactly(0));
    Claimed {
        finding: Finding { id, title, evidence, explanation, fix, saves },
        claims: BTreeMap::new(),
        sites: Sites::new(),
    }
}

/// Returns evidence that is about memory of an origin.
pub fn evidence(origin: &Origin, text: String, count: u64, first: Option<u64>) -> Evidence {
    let Origin { api, source, tid, .. } = origin.clone();
    Evidence { text, count, first, api, source, tid, ..Evidence::default() }
}

/// Returns where memory was allocated, in words.
pub fn place(origin: &Origin) -> String {
    let library = origin.source.library.as_deref().and_then(|path| path.rsplit('/').next());
    let mut words = match (library, origin.pool) {
        (Some(library), Some(pool)) => format!("{library} ({pool}'s memory pool)"),
        (Some(library), None) => library.to_owned(),
        _ => "an unknown library".to_owned(),
    };
    if let Some(api) = &origin.api {
        words = format!("{words} with {api}");
    }
    if let Some(line) = &origin.source.line {
        words = format!("{words} at {}", line.place());
    }
    if let Some(range) = &origin.range {
        words = format!("{words} in range {range}");
    }
    words
}

/// Returns the holders of the most memory in words, with their shares of `all` bytes.
pub fn holders(holders: &[&Holder], all: u64) -> String {
    let words = |holder: &&Holder| {
        format!("{} ({}) by {}", bytes(holder.bytes), percent(holder.bytes, all), place(&holder.origin))
    };
    holders.iter().take(NAMED).map(words).collect::<Vec<_>>().join(", ")
}
