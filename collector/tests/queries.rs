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
        views.filter(|view| !view.ends_with("_files")).map(str::to_owned).collect()
    };
    let duckdb = views("duckdb");
    assert_eq!(duckdb, views("spark"));
    assert!(
        ["kernel", "CUPTI_ACTIVITY_KIND_KERNEL", "NVTX_EVENTS"]
            .iter()
            .all(|view| duckdb.iter().any(|one| one == view))
    );
}

#[test]
fn what_is_not_there_is_refused_in_a_sentence() {
    for (words, sentence) in [
        (&["no-such-query"][..], "there is no query no-such-query; gpuspy queries lists all"),
        (&["--setup", "sqlite", "tables"], "there is no setup for sqlite: duckdb and spark have one"),
        (&["--setup", "duckdb", "run[1]"], "'['"),
    ] {
        let done = queries(words);
        let said = String::from_utf8_lossy(&done.stderr);
        assert_eq!((done.status.code(), said.lines().count()), (Some(2), 1), "{words:?}: {said}");
        assert!(said.contains(sentence), "{said}");
    }
}
