//! How is a trace read again and again while it is written? What lies before the shown time is unpacked once, for what later
//! records need of it: the trace may have hours, and is read every few seconds.

use super::traces::Found;
use crate::collect::Carry;
use crate::hash::HashMap;
use crate::trace::TraceReader;
use crate::trace::record::{CARRIED_BEFORE, Record};
use gpuspy_wire::record::Namespace;
use std::path::{Path, PathBuf};

/// So long before the shown time, and at least as long as it, records are read as usual: clocks, steps and typical lengths are learned
/// from them, and what runs at the start of the shown time was mostly launched then.
const LEAD: u64 = 10_000_000_000;

/// Traces that are read again and again.
#[derive(Debug)]
pub(super) struct Following {
    /// What is read of each, ns before its end.
    span: u64,
    pasts: HashMap<PathBuf, Past>,
}

impl Following {
    /// Follows traces of which this time before the end is shown, ns.
    pub(super) fn of(shown: u64) -> Following {
        Following { span: shown.saturating_add(shown.max(LEAD)), pasts: HashMap::default() }
    }

    /// Forgets the traces that are not among these.
    pub(super) fn keep(&mut self, traces: &[Found]) {
        self.pasts.retain(|path, _| traces.iter().any(|trace| trace.paths.contains(path)));
    }

    /// Has a trace read from as late as it can be, with what later records need of the time before.
    pub(super) fn skip(&mut self, path: &Path, reader: &mut TraceReader) {
        let since = reader.ended().saturating_sub(self.span);
        if since <= reader.not_before() {
            return;
        }
        let past = self.pasts.entry(path.to_owned()).or_default();
        past.take(reader, since);
        // Their calls count as made at that moment, which is not later than any that is read.
        let before = past.carry.records(past.until.saturating_sub(CARRIED_BEFORE)).collect();
        reader.begin_at(past.until, before);
        for (kernel, count) in &past.launched {
            reader.name(Namespace::Launched, *kernel, count.to_string());
        }
    }
}

/// What is known of the time of a trace that is not read again.
#[derive(Debug, Default)]
struct Past {
    /// Host ns: earlier records have been taken.
    until: u64,
    carry: Carry,
    /// How often each kernel was launched, by its number: ranks compare the k-th launches of a name.
    launched: HashMap<u32, u64>,
}

impl Past {
    /// Takes the records before host ns `since`.
    fn take(&mut self, reader: &mut TraceReader, since: u64) {
        // A collector that was continued has the time of a status from before.
        if since <= self.until {
            return;
        }
        reader.begin_at(self.until, Vec::new());
        reader.records().take_while(|record| record.at < since).for_each(|record| self.observe(&record));
        self.until = since;
    }

    fn observe(&mut self, record: &Record) {
        self.carry.observe(record);
        if let Some(kernel) = record.launched() {
            *self.launched.entry(kernel).or_default() += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::report::{Reading, Run};
    use super::*;
    use crate::model::filter::Filter;
    use crate::model::run::Place;
    use serde_json::{Value, json};
    use std::fs;
    use std::time::Duration;

    /// What the host did, and how much of what the GPU did: of both, nothing depends on what was read of the time before.
    fn certain(run: Run) -> Value {
        let report = run.value();
        let pick = |list: &str, keys: &[&str]| -> Vec<Value> {
            let entries = report[list].as_array().unwrap().iter();
            let mut picked: Vec<Value> =
                entries.map(|entry| keys.iter().map(|key| entry[*key].clone()).collect()).collect();
            picked.sort_by_key(ToString::to_string);
            picked
        };
        // Where no call is left, contexts are gone, and with them which GPU memory is on that outlives them.
        let is_over = report["apis"].as_array().unwrap().is_empty();
        let memory = if is_over { &Value::Null } else { &report["memory"] };
        json!({
            "apis": pick("apis", &["name", "count", "failed", "host_ns"]),
            "syncs": pick("syncs", &["api", "count", "host_ns"]),
            "kernels": pick("kernels", &["name", "count"]),
            "transfers": pick("transfers", &["kind", "host_memory", "count", "bytes"]),
            "memory": [&memory["live_bytes"], &memory["allocations"], &memory["frees"]],
            "launches": report["coverage"]["launches"],
        })
    }

    fn looked_at(trace: &Path, shown: u64, following: Option<&mut Following>) -> Value {
        let filter = Filter { last: Some(shown), ..Filter::default() };
        let reading = match following {
            Some(following) => {
                let reader = TraceReader::open(trace).unwrap();
                let place = Place::of(reader.names(), reader.status());
                let found = Found { paths: vec![trace.to_owned()], place };
                Reading::following(trace, vec![found], following)
            }
            None => Reading::of(trace, Duration::ZERO).unwrap(),
        };
        certain(reading.run(&filter).unwrap())
    }

    #[test]
    fn a_trace_that_grows_is_reported_as_one_that_is_read_from_its_start() {
        let folder = tempfile::tempdir().unwrap();
        let trace = folder.path().join("growing.gspy");
        let former = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/former");
        let (mut skipped, mut seen) = (0, 0);
        for entry in fs::read_dir(former).unwrap() {
            let whole = entry.unwrap().path();
            if whole.extension().is_none_or(|extension| extension != "gspy") {
                continue;
            }
            let bytes = fs::read(&whole).unwrap();
            let reader = TraceReader::open(&whole).unwrap();
            let shown = (reader.ended() - reader.not_before()) / 3;
            // The time before what is shown is as long here, and not 10 s.
            let mut following = Following { span: 2 * shown, pasts: HashMap::default() };
            for part in [40, 60, 80, 100] {
                fs::write(&trace, &bytes[..bytes.len() * part / 100]).unwrap();
                if TraceReader::open(&trace).is_err() {
                    continue;
                }
                let (often, once) =
                    (looked_at(&trace, shown, Some(&mut following)), looked_at(&trace, shown, None));
                assert_eq!(often, once, "{part} % of {}", whole.display());
                seen += once["launches"].as_u64().unwrap();
            }
            skipped += following.pasts.len();
        }
        assert!(
            skipped > 3 && seen > 100,
            "{skipped} traces were not read from their start, and {seen} launches seen"
        );
    }
}
