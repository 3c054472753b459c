//! A trace has names of kernels and files, and command lines: it is only its owner's to read. And none of these names moves
//! the cursor of the terminal on which they are shown.

use super::the_line;
use gpuspy_tests::{Run, gpuspy, program};
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn traces_are_readable_by_their_owner_only() {
    assert_eq!(mode(&Run::of("dlsym_launch").preloaded().succeeded().trace()), 0o600);
    assert_eq!(mode(&Run::of("dlsym_launch").observed().succeeded().trace()), 0o600);
    let several = Run::of("job_of_three").observed().succeeded();
    let folder = several.folder().join("trace.gspy");
    assert_eq!(mode(&folder), 0o700);
    let traces: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(traces.len() > 1 && traces.iter().all(|trace| mode(trace) == 0o600), "{traces:?}");
}

/// A name that clears the screen, sets the terminal's title, and turns the direction of writing.
const NAME: &str = "tr\u{1b}[2Jai\u{9b}31mn\u{202e}\u{1b}]2;title\u{7}er";

fn assert_harmless(what: &str, text: &str) {
    let is_harmful = |c: char| {
        (c.is_control() && c != '\n') || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}')
    };
    assert!(!text.chars().any(is_harmful), "{what}: {text:?}");
}

#[test]
fn the_programs_name_reaches_no_terminal_as_it_is() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join(NAME);
    std::fs::create_dir(&folder).unwrap();
    let copy = folder.join(NAME);
    std::fs::copy(program("dlsym_launch"), &copy).unwrap();
    let done = Run::command(&copy).env("GPUSPY_DIR", &folder).preloaded().succeeded();
    assert_harmless("the line at exit", the_line(&done));
    let trace = done.trace();
    assert_harmless("the name of the trace", trace.file_name().unwrap().to_str().unwrap());
    let trace = trace.to_str().unwrap();
    let said = |arguments: &[&str]| {
        let output = Command::new(gpuspy()).args(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap()
    };
    assert_harmless("the report", &said(&["report", trace, "--section", "all"]));
    for arguments in [vec!["report", trace, "--json"], vec!["diff", trace, trace, "--json"]] {
        let json = said(&arguments);
        assert_harmless("JSON", &json);
        let json: Value = serde_json::from_str(&json).unwrap();
        assert!(json.to_string().contains("ai\u{9b}31mn\u{202e}"), "the name is there: {json}");
    }
    assert_harmless("operations", &said(&["report", trace, "--operations"]));
    for format in ["chrome", "speedscope", "collapsed"] {
        let file = place.path().join(format);
        assert_harmless(format, &said(&["export", trace, "--to", format, "-o", file.to_str().unwrap()]));
        assert_harmless(format, &std::fs::read_to_string(file).unwrap());
    }
}
