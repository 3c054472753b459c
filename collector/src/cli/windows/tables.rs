//! Tables that traces of windows become (`gpuspy collect --to parquet`).

use super::caught;
use crate::cli::traces::{is_left, named_like_traces};
use crate::cli::{Failure, parquet, quoted, say};
use crate::collect::Complete;
use std::fs;
use std::path::{Path, PathBuf};

/// Where the tables go.
#[derive(Debug)]
pub(in crate::cli) struct Tables {
    /// Where the folders of the jobs lie.
    pub directory: PathBuf,
    /// The job, if the user has named it.
    pub job: Option<String>,
}

impl Tables {
    /// Makes tables of a trace, and removes it.
    pub(super) fn take(&self, Complete { window, path }: &Complete) {
        let (directory, job) = (&self.directory, self.job.as_deref());
        replace(path, || parquet::add(path, directory, job, window.began()));
    }

    /// Names the traces in the directory that no process is writing: a collector that was killed left them, or one that could not make
    /// tables of them. Nothing makes tables of them by itself, and nothing removes those that have theirs.
    pub(super) fn leftovers(&self) -> Vec<String> {
        // Of a directory that cannot be read, nothing can be exported either.
        let mut left = named_like_traces(&self.directory).unwrap_or_default();
        left.retain(|path| is_left(path));
        let is_added = |path: &PathBuf| parquet::is_added(path, &self.directory, self.job.as_deref());
        let (added, others): (Vec<PathBuf>, Vec<PathBuf>) = left.into_iter().partition(is_added);
        let said = [self.without_tables(&others), with_tables(&added)];
        said.into_iter().flatten().collect()
    }

    /// Says what makes tables of traces; `None` if there are none.
    fn without_tables(&self, left: &[PathBuf]) -> Option<String> {
        let (trace, of) = match left {
            [] => return None,
            [only] => (quoted(only), "it"),
            _ => ("TRACE".to_owned(), "each"),
        };
        let (which, directory) = (named(left), quoted(&self.directory));
        // Each joins the tables of its window.
        let job =
            self.job.as_ref().map_or_else(String::new, |job| format!(" --job {}", quoted(Path::new(job))));
        Some(format!(
            "{which} left by an earlier collector: gpuspy export {trace} --to parquet -o {directory}{job} makes tables of {of}"
        ))
    }
}

/// Says that traces are needed no more; `None` if there are none.
fn with_tables(left: &[PathBuf]) -> Option<String> {
    let (their, they) = if left.len() > 1 { ("their", "they") } else { ("its", "it") };
    (!left.is_empty()).then(|| {
        format!(
            "{} left by an earlier collector, and {their} tables are there: {they} can be removed",
            named(left)
        )
    })
}

/// The most traces that are named in a sentence.
const NAMED: usize = 16;

/// Names traces, and says of them: `a.gspy was`, `a.gspy and b.gspy were`.
fn named(traces: &[PathBuf]) -> String {
    let mut names: Vec<String> = traces.iter().take(NAMED).map(|path| path.display().to_string()).collect();
    names.extend((traces.len() > NAMED).then(|| format!("{} more", traces.len() - NAMED)));
    match names.split_last() {
        Some((last, before @ [_, ..])) => format!("{} and {last} were", before.join(", ")),
        _ => format!("{} was", names.concat()),
    }
}

/// Removes a trace if `add` makes tables of all of it.
fn replace(trace: &Path, add: impl FnOnce() -> Result<(), Failure>) {
    if caught("export", trace, add).is_some() {
        // Only the space that it takes is lost if it cannot be removed.
        return drop(fs::remove_file(trace));
    }
    // Its folder may have been removed.
    if trace.exists() {
        say(format_args!("the trace {} was kept", trace.display()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::filter::Filter;

    /// The thread ended, and traces lay there from then on without a word.
    #[test]
    fn a_trace_whose_export_panics_is_kept_and_the_next_one_has_its_turn() {
        let folder = tempfile::tempdir().unwrap();
        let [panics, fails, succeeds] = ["a.gspy", "b.gspy", "c.gspy"].map(|name| folder.path().join(name));
        for trace in [&panics, &fails, &succeeds] {
            fs::write(trace, "trace").unwrap();
        }
        replace(&panics, || panic!("a fault of an analysis"));
        replace(&fails, || Err(Failure::usage("the disk is full")));
        replace(&succeeds, || Ok(()));
        assert_eq!([&panics, &fails, &succeeds].map(|trace| trace.exists()), [true, true, false]);
    }

    /// Windows of a collector that was killed never became tables, and nothing said so.
    #[test]
    fn traces_of_an_earlier_collector_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for (name, text) in [("a.gspy", ""), ("b.gspy", "trace"), ("c.txt", "text"), ("d.gspy", "trace")] {
            fs::write(at(name), text).unwrap();
        }
        fs::create_dir(at("e.gspy")).unwrap();
        let [one, other] = [at("b.gspy"), at("d.gspy")].map(|path| fs::File::open(path).unwrap());
        one.lock().unwrap();
        other.lock().unwrap();
        let leftovers = |job: Option<&str>| {
            let (directory, job) = (folder.path().to_owned(), job.map(str::to_owned));
            Tables { directory, job }.leftovers()
        };
        assert_eq!(leftovers(None), [""; 0], "a collector is writing both");
        drop(other);
        let [said] = &leftovers(None)[..] else { panic!() };
        assert!(said.starts_with(&format!("{} was left by an earlier", at("d.gspy").display())), "{said}");
        assert!(said.contains(&format!("export {} --to", quoted(&at("d.gspy")))), "{said}");
        drop(one);
        let [said] = &leftovers(Some("lr 1"))[..] else { panic!() };
        let both = ["b.gspy", "d.gspy"].map(|name| at(name).display().to_string()).join(" and ");
        assert!(said.starts_with(&format!("{both} were left by an earlier")), "{said}");
        // It did not name the job, and tables came into another one.
        assert!(said.ends_with(" --job 'lr 1' makes tables of each"), "{said}");
    }

    /// Where a collector had left several, one was named; and it was said again of those that had their tables.
    #[test]
    fn each_trace_that_was_left_is_named_and_those_that_have_their_tables_can_be_removed() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let former = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/former");
        let names = ["graphs.gspy", "memory_driver.gspy", "moves.gspy"];
        for name in names {
            fs::copy(former.join(name), at(name)).unwrap();
        }
        let tables = Tables { directory: folder.path().to_owned(), job: Some("job".to_owned()) };
        let said =
            |names: &[&str]| names.iter().map(|name| at(name).display().to_string()).collect::<Vec<_>>();
        let [all] = &tables.leftovers()[..] else { panic!() };
        let [first, second, third] = &said(&names)[..] else { panic!() };
        assert!(all.starts_with(&format!("{first}, {second} and {third} were left by an earlier")), "{all}");
        parquet::export(&at(names[0]), &Filter::default(), Some(folder.path()), Some("job")).unwrap();
        let [rest, done] = &tables.leftovers()[..] else { panic!() };
        assert!(rest.starts_with(&format!("{second} and {third} were left by an earlier")), "{rest}");
        assert!(done.starts_with(&format!("{first} was left by an earlier")), "{done}");
        assert!(done.ends_with("and its tables are there: it can be removed"), "{done}");
    }
}
