//! `gpuspy queries`: SQL for the tables of `gpuspy export --to parquet`.

use super::{Failure, print};
use crate::export::parquet::place::has_table;
use crate::export::queries::{ALL, Engine, Query, setup};
use clap::Args;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Args, Debug)]
pub(super) struct Options {
    /// The query to print [default: list all queries]
    #[arg(value_name = "NAME", conflicts_with = "setup")]
    name: Option<String>,
    /// Print what defines the tables of an export in an engine, to run before the queries. DIR is what `gpuspy export --to parquet
    /// -o DIR` wrote, as the engine sees it. The tables of several DIRs are read as one, as those of the windows of each machine
    #[arg(long, num_args = 2.., value_names = ["duckdb|spark", "DIR"])]
    setup: Option<Vec<String>>,
}

pub(super) fn queries(options: &Options) -> Result<ExitCode, Failure> {
    match (options.setup.as_deref(), options.name.as_deref()) {
        (Some([engine, directories @ ..]), _) => {
            let has = |directory: &str, table: &str| has_table(Path::new(directory), table);
            let text = setup(named(engine)?, &different(directories), has);
            print(&text.map_err(Failure::usage)?)
        }
        (_, Some(name)) => {
            let unknown =
                || Failure::usage(format_args!("there is no query {name}; gpuspy queries lists all"));
            print(Query::named(name).ok_or_else(unknown)?.text)
        }
        _ => print(&list()),
    }
}

/// Returns the folders without those that are another one of them under another name, whose rows would be there twice. An engine may see
/// folders that are not here.
fn different(directories: &[String]) -> Vec<&str> {
    let mut known = BTreeSet::new();
    let folder = |directory: &str| fs::canonicalize(directory).unwrap_or_else(|_| PathBuf::from(directory));
    directories.iter().map(String::as_str).filter(|directory| known.insert(folder(directory))).collect()
}

fn named(engine: &str) -> Result<Engine, Failure> {
    match engine {
        "duckdb" => Ok(Engine::DuckDb),
        "spark" => Ok(Engine::Spark),
        _ => Err(Failure::usage(format_args!("there is no setup for {engine}: duckdb and spark have one"))),
    }
}

/// Returns a line for each query.
fn list() -> String {
    let width = ALL.iter().map(|query| query.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for query in ALL {
        // Writing into a text does not fail.
        let _ = writeln!(text, "{:width$}  {}", query.name, query.sentence());
    }
    text
}
