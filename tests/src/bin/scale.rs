//! Generates a trace, reports and exports it, and prints the cost and the wrong answers as JSON.
//!
//! `scale LAUNCHES [ROUNDS]` exits with 1 if an answer was wrong. `scale --generate LAUNCHES FILE` only writes such a trace,
//! and `scale --ranks RANKS MACHINES LAUNCHES FOLDER [STARTS]` the traces of a job, which may be started several times.

use gpuspy_tests::scale::{ANSWER, GENERATE, RANKS, answer, generate, generate_ranks, measure};
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
        [RANKS, ranks, hosts, launches, folder, ref starts @ ..] if starts.len() <= 1 => {
            let small = |text: &str| number(text).and_then(|number| u32::try_from(number).ok());
            let starts = starts.first().map_or(Some(1), |starts| small(starts));
            let job = small(ranks).zip(small(hosts)).zip(number(launches)).zip(starts);
            let (((ranks, hosts), launches), starts) =
                job.expect("ranks, machines, launches and starts are numbers");
            generate_ranks(ranks, hosts, launches, Path::new(folder), starts);
            return ExitCode::SUCCESS;
        }
        [launches] => (number(launches), Some(1)),
        [launches, rounds] => (number(launches), number(rounds)),
        _ => (None, None),
    };
    let Some((launches, rounds)) = launches.zip(rounds) else {
        eprintln!(
            "usage: scale LAUNCHES [ROUNDS] | scale --generate LAUNCHES FILE | scale --ranks RANKS MACHINES LAUNCHES FOLDER [STARTS]"
        );
        return ExitCode::from(2);
    };
    let measured = measure(launches, rounds);
    println!("{:#}", measured.json());
    if measured.wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
