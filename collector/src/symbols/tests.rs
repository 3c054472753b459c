//! Looks up addresses in what the C compiler makes now, whole and damaged.

use super::*;
use crate::model::callers::WhyUnread;
use crate::trace::generator::Random;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime};

const SOURCE: &str = "static inline int twice(int n) { return n * 2; }
int step(int n) { return twice(n) + 1; }
int main(int count, char **words) { return step(count); }
";

/// Compiles the program, and returns its path and the places of a few addresses in its code.
fn compiled(folder: &Path, options: &[&str]) -> (PathBuf, Vec<Place>) {
    let (source, program) = (folder.join("a.c"), folder.join("a"));
    fs::write(&source, SOURCE).unwrap();
    let mut gcc = Command::new("gcc");
    gcc.args(options).arg("-o").arg(&program).arg(&source);
    assert!(gcc.current_dir(folder).status().unwrap().success());
    let build_id = elf::Elf::open(&program).unwrap().build_id();
    let path = program.display().to_string();
    let place = |offset| Place { path: path.clone(), build_id, offset };
    (program, (0..0x3000).step_by(3).map(place).collect())
}

#[test]
fn what_a_file_says_of_its_code_is_true_at_each_address() {
    let folder = tempfile::tempdir().unwrap();
    for options in [&["-g", "-O0"][..], &["-g", "-O2", "-fno-ipa-icf"]] {
        let (_, places) = compiled(folder.path(), options);
        let found = resolve(&places, None);
        assert_eq!(found.unread, []);
        let (mut steps, mut mains) = (0, 0);
        for frame in found.frames.iter().flatten().filter(|frame| frame.line != 0) {
            let lines: &[u32] = match frame.function.as_str() {
                "twice" => &[1],
                "step" => &[2],
                "main" => &[3],
                other => panic!("{other}: {frame}"),
            };
            assert!(lines.contains(&frame.line), "{frame}");
            steps += u32::from(frame.function == "step");
            mains += u32::from(frame.function == "main");
        }
        assert!(steps > 0 && mains > 0, "{options:?}");
        // Only the functions of the source and those of the C library's start files have frames.
        let known = found.frames.iter().filter(|frames| !frames.is_empty()).count();
        assert!(known < places.len() / 2, "{known}");
    }
}

/// A process that ran at that moment, ns since 1970.
fn ran_at(moment: u64) -> Process {
    let moment = SystemTime::UNIX_EPOCH + Duration::from_nanos(moment);
    Process { pid: 0, began: moment, ended: moment }
}

#[test]
fn other_files_are_no_program_and_are_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let text = folder.path().join("text");
    fs::write(&text, "no program").unwrap();
    let large = folder.path().join("large");
    fs::File::create(&large).unwrap().set_len(3 << 30).unwrap();
    let relative = std::path::PathBuf::from("build/libx.so");
    for (path, why) in [
        (pipe, WhyUnread::Unreadable),
        (text, WhyUnread::Unreadable),
        (large, WhyUnread::Unreadable),
        (folder.path().to_owned(), WhyUnread::Unreadable),
        (relative, WhyUnread::Unreadable),
        (folder.path().join("absent"), WhyUnread::Missing),
    ] {
        let path = path.display().to_string();
        let place = Place { path: path.clone(), build_id: [1; 20], offset: 0x1000 };
        let found = resolve(&[place], Some(&ran_at(0)));
        assert_eq!((found.frames, found.unread), (vec![Vec::new()], vec![(why, path)]));
    }
}

/// A report of a program for Arm that launches in a handler of a signal said that a file could not be read.
#[test]
fn the_kernels_code_is_no_file_that_could_be_read() {
    let place = Place { path: "linux-vdso.so.1".to_owned(), build_id: [1; 20], offset: 0x1000 };
    let found = resolve(&[place], Some(&ran_at(0)));
    assert_eq!((found.frames, found.unread), (vec![Vec::new()], vec![]));
}

/// Damages the file at random places, most of them in its headers and its debug information, and looks addresses up.
#[test]
fn a_damaged_file_ends_in_no_panic_and_soon() {
    let folder = tempfile::tempdir().unwrap();
    let (program, places) = compiled(folder.path(), &["-g", "-O2", "-Wl,--build-id=none", "-gz=none"]);
    let whole = fs::read(&program).unwrap();
    let (mut random, began) = (Random(7), Instant::now());
    let path = folder.path().join("damaged").display().to_string();
    let places: Vec<Place> = places.into_iter().map(|place| Place { path: path.clone(), ..place }).collect();
    let mut read = 0;
    for _ in 0..400 {
        let mut bytes = whole.clone();
        for _ in 0..=random.below(20) {
            let length = bytes.len() as u64;
            let at = match random.below(3) {
                0 => random.below(64),
                1 => length - 1 - random.below(64 * 40),
                _ => random.below(length),
            };
            bytes[at as usize] = [0, 0xff, random.below(256) as u8][random.below(3) as usize];
        }
        bytes.truncate(if random.below(8) == 0 {
            random.below(bytes.len() as u64) as usize
        } else {
            bytes.len()
        });
        fs::write(&path, bytes).unwrap();
        let far = ran_at(u64::MAX);
        read += usize::from(resolve(&places, Some(&far)).frames.iter().any(|frames| !frames.is_empty()));
    }
    assert!(read > 20, "most damage leaves something to read: {read}");
    assert!(began.elapsed() < std::time::Duration::from_secs(120), "{:?}", began.elapsed());
}
