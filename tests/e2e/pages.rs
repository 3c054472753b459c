//! `--html`: the page has the report and every operation, whatever the program is called, and nothing else is overwritten.

use gpuspy_tests::{Run, gpuspy, report};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

const START: &str = "<!doctype html>\n<!-- gpuspy report -->\n";

fn page(trace: &Path, arguments: &[&str]) -> Output {
    Command::new(gpuspy()).arg("report").arg(trace).args(arguments).output().unwrap()
}

/// Returns the data of an element of a page.
fn data(page: &str, id: &str) -> Value {
    let (_, rest) = page.split_once(&format!("id=\"{id}\">")).unwrap_or_else(|| panic!("no {id}"));
    serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap()
}

#[track_caller]
fn refused(output: &Output, why: &str) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && said.contains(why), "{:?}: {said}", output.status);
}

#[test]
fn a_run_ends_with_the_page_that_was_asked_for() {
    let done = Run::of("nvtx").observed_with(&["--html", "page.html"]).succeeded();
    assert!(done.stderr.contains("the page is page.html"), "{}", done.stderr);
    let written = fs::read_to_string(done.folder().join("page.html")).unwrap();
    assert!(written.starts_with(START) && written.contains("default-src 'none'"));
    let report = report(&done.trace());
    let of_page = data(&written, "data-report");
    assert_eq!(of_page["kernels"], report["kernels"]);
    assert_eq!(of_page["coverage"], report["coverage"]);
    let timeline = data(&written, "data-timeline");
    let launches = done.said()["launches"].as_u64();
    assert_eq!(timeline["tables"]["operations"]["slices"].as_u64(), launches);
    assert!(timeline["tables"]["ranges"]["slices"].as_u64() > Some(0));
}

#[test]
fn a_page_goes_to_stdout_and_is_of_the_part_that_was_asked_for() {
    let done = Run::of("nvtx").observed().succeeded();
    let kernel = page(&done.trace(), &["--html", "-", "--kernel", "decode_5us"]);
    assert!(
        kernel.status.success() && kernel.stderr.is_empty(),
        "{}",
        String::from_utf8_lossy(&kernel.stderr)
    );
    let written = String::from_utf8(kernel.stdout).unwrap();
    let decode = report(&done.trace())["kernels"]
        .as_array()
        .unwrap()
        .iter()
        .find(|row| row["name"] == "decode_5us")
        .cloned();
    let timeline = data(&written, "data-timeline");
    assert_eq!(timeline["tables"]["operations"]["slices"], decode.unwrap()["count"]);
    assert_eq!(data(&written, "data-report")["kernels"].as_array().unwrap().len(), 1);
}

#[test]
fn a_page_that_cannot_be_written_is_refused_in_a_sentence() {
    let done = Run::of("nvtx").observed().succeeded();
    let trace = done.trace();
    let at = |name: &str| done.folder().join(name).display().to_string();
    refused(&page(&trace, &["--html", &at("nowhere/page.html")]), "there is no directory");
    refused(&page(&trace, &["--html", &at("")]), "is a directory");
    refused(&page(&trace, &["--html", &trace.display().to_string()]), "exists and is not a page of gpuspy's");
    refused(&page(&trace, &["--html", &at("page.html"), "--json"]), "cannot be used with");
    assert!(report(&trace)["coverage"]["launches"].as_u64() > Some(0), "the trace is as it was");
    for _ in 0..2 {
        let written = page(&trace, &["--html", &at("page.html")]);
        assert!(
            written.status.success(),
            "a page replaces a page: {}",
            String::from_utf8_lossy(&written.stderr)
        );
    }
}

/// The program would have run to its end before the sentence.
#[test]
fn a_run_whose_page_cannot_be_written_does_not_begin() {
    let done = Run::of("nvtx").observed_with(&["--html", "nowhere/page.html"]);
    assert!(done.status.code() == Some(2) && done.stdout.is_empty(), "{:?}: {}", done.status, done.stdout);
    assert!(done.stderr.contains("there is no directory nowhere"), "{}", done.stderr);
    let stdout = Run::of("nvtx").observed_with(&["--html", "-"]);
    assert!(stdout.stderr.contains("stdout is the program's"), "{}", stdout.stderr);
}
