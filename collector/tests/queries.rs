//! `gpuspy queries` prints what an engine runs, and refuses what it does not have in a sentence.

use std::process::{Command, Output};

fn queries(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_gpuspy")).arg("queries").args(words).output().unwrap()
}

fn printed(words: &[&str]) -> String {
    let done = queries(words);
    assert!(done.status.success(), "{words:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

#[test]
fn every_listed_query_can_be_printed() {
    let list = printed(&[]);
    assert!(list.lines().count() > 20);
    for line in list.lines() {
        let (name, sentence) = line.split_once(' ').unwrap();
        let text = printed(&[name]);
        assert!(text.starts_with("-- ") && text.contains("\nSELECT "), "{name}");
        assert!(sentence.trim().ends_with(['.', '?']), "{line}");
    }
}

#[test]
fn each_engine_has_a_setup_with_the_same_views() {
    let views = |engine: &str| -> Vec<String> {
        let text = printed(&["--setup", engine, "some/tables"]);
        assert!(text.contains("some/tables/job=*/host=*/rank=*/kernel"), "{text}");
        let views = text.lines().filter_map(|line| line.split(" VIEW ").nth(1)?.split(' ').next());
        views.filter(|view| !view.contains("_files_")).map(str::to_owned).collect()
    };
    let duckdb = views("duckdb");
    assert_eq!(duckdb, views("spark"));
    assert!(
        ["kernel", "CUPTI_ACTIVITY_KIND_KERNEL", "NVTX_EVENTS"]
            .iter()
            .all(|view| duckdb.iter().any(|one| one == view))
    );
}

/// Only those of the report's tables were defined that a query reads, though all are in the folders.
#[test]
fn all_tables_of_the_report_are_defined_that_a_folder_has() {
    let folder = tempfile::tempdir().unwrap();
    let (former, tables) = (folder.path().join("former"), folder.path().join("tables"));
    let of_rank = |folder: &std::path::Path| folder.join("job=j/host=h/rank=__HIVE_DEFAULT_PARTITION__");
    for (folder, table) in
        [(&former, "report_kernels"), (&tables, "report_kernels"), (&tables, "report_startup")]
    {
        let table = of_rank(folder).join(table);
        std::fs::create_dir_all(&table).unwrap();
        std::fs::write(table.join("pid1-00000.parquet"), "").unwrap();
    }
    let [former, tables] = [&former, &tables].map(|path| path.to_str().unwrap());
    for engine in ["duckdb", "spark"] {
        let both = printed(&["--setup", engine, former, tables]);
        let startup: Vec<&str> = both.lines().filter(|line| line.contains("/report_startup")).collect();
        assert!(
            startup.len() == 1 && startup[0].contains(tables) && !startup[0].contains(former),
            "{startup:?}"
        );
        let elsewhere = printed(&["--setup", engine, "s3://jobs/tables"]);
        for table in [
            "report",
            "report_idle",
            "report_startup",
            "report_ranges",
            "report_transfers_sizes",
            "report_coverage_untimed",
        ] {
            assert!(elsewhere.contains(&format!(" VIEW {table} AS ")), "{table} for {engine}");
            assert!(
                table == "report_startup" || !both.contains(&format!(" VIEW {table} AS ")),
                "{table} for {engine}"
            );
        }
    }
}

#[test]
fn the_tables_of_several_machines_have_one_setup() {
    for engine in ["duckdb", "spark"] {
        let text = printed(&["--setup", engine, "lr/node1", "lr/node2"]);
        for node in ["node1", "node2"] {
            assert!(text.contains(&format!("'lr/{node}/job=*/host=*/rank=*/kernel")), "{text}");
        }
    }
}

/// Each row was there twice.
#[test]
fn a_folder_that_is_named_twice_is_read_once() {
    let folder = tempfile::tempdir().unwrap();
    let (there, gone) = (folder.path().join("tables"), "s3://lr/tables");
    std::fs::create_dir(&there).unwrap();
    let there = there.to_str().unwrap();
    let again = [format!("{there}/"), format!("{there}/../tables"), format!("{gone}/")];
    for engine in ["duckdb", "spark"] {
        let once = printed(&["--setup", engine, there, gone]);
        let twice = ["--setup", engine, there, gone, &again[0], &again[1], &again[2]];
        assert_eq!(printed(&twice), once);
    }
}

#[test]
fn what_is_not_there_is_refused_in_a_sentence() {
    for (words, sentence) in [
        (&["no-such-query"][..], "there is no query no-such-query; gpuspy queries lists all"),
        (&["--setup", "sqlite", "tables"], "there is no setup for sqlite: duckdb and spark have one"),
        (&["--setup", "duckdb", "run[1]"], "'['"),
        (
            &["--setup", "duckdb", "tables", "runs/job=7/tables"],
            "take job=7 in runs/job=7/tables for the job of all",
        ),
    ] {
        let done = queries(words);
        let said = String::from_utf8_lossy(&done.stderr);
        assert_eq!((done.status.code(), said.lines().count()), (Some(2), 1), "{words:?}: {said}");
        assert!(said.contains(sentence), "{said}");
    }
}
