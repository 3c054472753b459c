//! Generates a trace, reports and exports it, and prints the cost and the wrong answers as JSON.
//!
//! `scale LAUNCHES [ROUNDS]` exits with 1 if an answer was wrong. `scale --generate LAUNCHES FILE` only writes such a trace.

use gpuspy_tests::scale::{ANSWER, GENERATE, answer, generate, measure};
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |text: &str| text.parse::<u64>().ok().filter(|number| *number > 0);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (launches, rounds) = match arguments[..] {
        [mode @ (ANSWER | GENERATE), launches, trace] => {
            let launches = number(launches).expect("the second argument is not a number of launches");
            let work = if mode == ANSWER { answer } else { generate };
            work(launches, Path::new(trace));
            return ExitCode::SUCCESS;
        }
        [launches] => (number(launches), Some(1)),
        [launches, rounds] => (number(launches), number(rounds)),
        _ => (None, None),
    };
    let Some((launches, rounds)) = launches.zip(rounds) else {
        eprintln!("usage: scale LAUNCHES [ROUNDS] | scale --generate LAUNCHES FILE");
        return ExitCode::from(2);
    };
    let measured = measure(launches, rounds);
    println!("{:#}", measured.json());
    if measured.wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
