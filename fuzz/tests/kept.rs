//! Every target reads its kept inputs, and a fixed number of changed ones, always the same.
//!
//! `GPUSPY_FUZZ_RUNS=N` reads N times as many changed inputs. An input that fails is written to the folder of temporary
//! files; `cargo nextest run -p gpuspy-fuzz` with `GPUSPY_FUZZ_INPUT=FILE` reads it alone.

use gpuspy_fuzz::mutation::{Random, mutate};
use gpuspy_fuzz::{TARGETS, Target};
use std::collections::BTreeSet;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus")
}

/// The kept inputs of a target, in the order of their names.
fn kept(target: &Target) -> Vec<(String, Vec<u8>)> {
    let entries = std::fs::read_dir(corpus().join(target.inputs)).unwrap().map(|entry| entry.unwrap().path());
    let paths: BTreeSet<PathBuf> = entries.collect();
    let name = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
    paths.iter().map(|path| (name(path), std::fs::read(path).unwrap())).collect()
}

fn check(name: &str) {
    let target = TARGETS.iter().find(|target| target.name == name).unwrap();
    if let Some(path) = std::env::var_os("GPUSPY_FUZZ_INPUT") {
        return (target.read)(&std::fs::read(path).unwrap());
    }
    let kept = kept(target);
    for (file, input) in &kept {
        println!("reading {name}/{file}");
        (target.read)(input);
    }
    let inputs: Vec<Vec<u8>> = kept.into_iter().map(|(_, input)| input).collect();
    assert!(!inputs.is_empty(), "{name} has no kept inputs");
    let more = std::env::var("GPUSPY_FUZZ_RUNS").map_or(1, |more| more.parse().unwrap());
    let mut random = Random(1);
    for n in 0..target.runs * more {
        let input = mutate(&inputs[random.below(inputs.len())], &inputs, &mut random);
        if catch_unwind(|| (target.read)(&input)).is_err() {
            let path = std::env::temp_dir().join(format!("gpuspy-fuzz-{name}-{n}"));
            std::fs::write(&path, &input).unwrap();
            panic!("{name} fails on {}, {} bytes", path.display(), input.len());
        }
    }
}

macro_rules! targets {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            check(stringify!($name));
        })*

        #[test]
        fn every_target_has_a_test_a_program_for_the_fuzzer_and_kept_inputs() {
            let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<String>>();
            let listed = |folder: &Path| {
                let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
                entries.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect::<BTreeSet<String>>()
            };
            let all = TARGETS.iter().map(|target| target.name.to_owned()).collect::<BTreeSet<String>>();
            assert_eq!(names(&[$(stringify!($name)),*]), all);
            assert_eq!(listed(&corpus()), TARGETS.iter().map(|target| target.inputs.to_owned()).collect());
            assert_eq!(listed(&Path::new(env!("CARGO_MANIFEST_DIR")).join("libfuzzer/fuzz_targets")), all);
        }
    };
}

targets! { segment records session handshake trace report line_tables program_files names filters }
