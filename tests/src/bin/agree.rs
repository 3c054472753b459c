//! Reads a report (`gpuspy report --json`) from stdin, prints one line for each disagreement in it, and exits with 1 if
//! there is one.

use std::io::Read;

fn main() {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).expect("standard input is not text");
    let report = serde_json::from_str(&text).expect("standard input is not a report in JSON");
    let found = gpuspy_tests::agree::disagreements(&report);
    found.iter().for_each(|one| println!("{one}"));
    std::process::exit(i32::from(!found.is_empty()));
}
