//! Where do the tables of a process lie? In folders that name its job, its machine and its rank.

use crate::model::job::Job;
use crate::model::process_key::{LONGEST, host, safe, shortened};
use crate::trace::record::{Names, Status};
use crate::units::utc;
use gpuspy_wire::record::{Fact, Namespace};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

/// The rank of processes without one, as Hive calls what has no value.
const NO_RANK: &str = "__HIVE_DEFAULT_PARTITION__";

/// ns.
const SECOND: u64 = 1_000_000_000;

/// What a time takes behind a name, bytes: `.20261125-091000`.
const TIME: usize = 16;

/// Returns the folder of a job.
pub fn of_job(directory: &Path, job: &str) -> PathBuf {
    directory.join(format!("job={}", safe(job)))
}

/// Returns the folder of the part of a job that is the window which began then, s since 1970.
pub fn of_window(directory: &Path, job: &str, began: u64) -> PathBuf {
    of_job(directory, &format!("{}.{}", shortened(job, LONGEST - TIME), utc(began)))
}

/// Returns the folder of a job, or of the part of it that is the window which began then, s since 1970.
pub fn of_part(directory: &Path, job: &str, window: Option<u64>) -> PathBuf {
    window.map_or_else(|| of_job(directory, job), |began| of_window(directory, job, began))
}

/// Returns the name of the job that these processes are, of those whose collection began first: its program, and when that
/// was.
pub fn job_of<'a>(processes: impl Iterator<Item = (&'a Names, Option<&'a Status>)>) -> String {
    let began = |status: Option<&Status>| status.map_or(u64::MAX, |status| status.began_realtime);
    let Some((names, status)) = processes.min_by_key(|(_, status)| began(*status)) else {
        return safe("");
    };
    let program = program_of(names);
    match status {
        Some(status) => format!("{program}-{}", utc(status.began_realtime / SECOND)),
        None => program,
    }
}

/// Returns the name of a process's program, as a folder has it, with room for a time behind it.
pub fn program_of(names: &Names) -> String {
    shortened(program(names).unwrap_or_default(), LONGEST - TIME)
}

/// The name of a program: that of the script that an interpreter runs, else that of its file.
fn program(names: &Names) -> Option<&str> {
    let line = names.get(Namespace::Fact, Fact::CommandLine as u32);
    let mut words = line.into_iter().flat_map(|line| line.split('\0'));
    let first = words.next();
    let script = words.next().filter(|word| !word.starts_with('-') && word.contains('.'));
    let executable = names.get(Namespace::Fact, Fact::Executable as u32);
    let path = match first.map(file_name) {
        Some(name) if name.starts_with("python") => script.or(first),
        _ => first.or(executable),
    };
    path.or(executable).map(file_name).filter(|name| !name.is_empty())
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Returns the folder of a process in that of its job.
pub fn of_process(job: &Path, names: &Names) -> PathBuf {
    let rank = Job::of(names).rank.map_or(NO_RANK.to_owned(), |rank| rank.to_string());
    job.join(format!("host={}", host(names))).join(format!("rank={rank}"))
}

/// Returns the name of a process's next file of each table, in its folder: a pid may come again, and a process may have
/// several files.
pub fn file(process: &Path, status: Option<&Status>) -> String {
    let is_free = |part: &u32| fs::symlink_metadata(of_part_in(process, status, *part)).is_err();
    named(status, (0..u32::MAX).find(is_free).unwrap_or(u32::MAX))
}

/// Returns the files of the table `process` of the processes with this pid, in their folder.
pub(super) fn files(process: &Path, status: Option<&Status>) -> impl Iterator<Item = PathBuf> {
    let files = (0..u32::MAX).map(move |part| of_part_in(process, status, part));
    files.take_while(|file| fs::symlink_metadata(file).is_ok())
}

fn of_part_in(process: &Path, status: Option<&Status>, part: u32) -> PathBuf {
    process.join("process").join(named(status, part))
}

fn named(status: Option<&Status>, part: u32) -> String {
    format!("pid{}-{part:05}.parquet", status.map_or(0, |status| status.pid))
}

/// Returns the name of a file until it is complete, which readers skip.
pub(super) fn hidden(file: &str) -> String {
    format!(".{file}.part")
}

/// Whether a process in a folder of jobs has a table. A folder that is not on this machine is taken to have all.
pub fn has_table(directory: &Path, table: &str) -> bool {
    if !directory.is_dir() {
        return true;
    }
    let inside =
        |folder: PathBuf| fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let named = |path: &PathBuf, key: &str| {
        path.file_name().and_then(OsStr::to_str).is_some_and(|name| name.starts_with(key))
    };
    let jobs = inside(directory.to_path_buf()).filter(|path| named(path, "job="));
    let hosts = jobs.flat_map(inside).filter(|path| named(path, "host="));
    let mut ranks = hosts.flat_map(inside).filter(|path| named(path, "rank="));
    ranks
        .any(|rank| inside(rank.join(table)).any(|file| file.extension().is_some_and(|end| end == "parquet")))
}

/// Removes the files of this name from the tables in a process's folder, those that are not complete, too: not all of them could
/// be written.
pub fn remove(process: &Path, file: &str) {
    for table in fs::read_dir(process).into_iter().flatten().flatten() {
        for name in [file, &hidden(file)] {
            // What is not there need not go.
            let _ = fs::remove_file(table.path().join(name));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// All windows of such a job were one, since the time was cut off.
    #[test]
    fn windows_of_a_job_with_a_long_name_have_a_folder_each_and_so_have_other_jobs() {
        let name = |job: &str, began| {
            let folder = of_window(Path::new("tables"), job, began);
            folder.file_name().unwrap().to_str().unwrap().to_owned()
        };
        let began = 1_795_924_200;
        let long = "a".repeat(500);
        assert_eq!(name(&long[..104], began), format!("job={}.20261129-035000", "a".repeat(104)));
        let folders = [
            name(&long, began),
            name(&long, began + 600),
            name(&format!("{long}b"), began),
            name(&long[..105], began),
        ];
        for folder in &folders {
            assert_eq!(folder.len(), "job=".len() + LONGEST, "{folder}");
            assert!(folder.ends_with(".20261129-035000") || folder.ends_with(".20261129-040000"), "{folder}");
            assert_eq!(folders.iter().filter(|other| *other == folder).count(), 1, "{folder}");
        }
    }

    #[test]
    fn a_process_whose_pid_came_before_has_other_files() {
        let folder = tempfile::tempdir().unwrap();
        let status = Status { pid: 7, ..Status::default() };
        let next = || file(folder.path(), Some(&status));
        assert_eq!(next(), "pid7-00000.parquet");
        fs::create_dir(folder.path().join("process")).unwrap();
        fs::write(folder.path().join("process").join(next()), "").unwrap();
        assert_eq!(next(), "pid7-00001.parquet");
    }

    /// On a full disk, what was written of it stayed, and nothing ever removed it.
    #[test]
    fn files_of_a_process_that_could_not_be_written_whole_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let kept = folder.path().join("process/pid7-00000.parquet");
        for table in ["process", "operations"] {
            fs::create_dir(folder.path().join(table)).unwrap();
        }
        fs::write(&kept, "").unwrap();
        fs::write(folder.path().join("process/pid7-00001.parquet"), "").unwrap();
        fs::write(folder.path().join("operations").join(hidden("pid7-00001.parquet")), "").unwrap();
        remove(folder.path(), "pid7-00001.parquet");
        let left = |table: &str| fs::read_dir(folder.path().join(table)).unwrap().count();
        assert_eq!((left("process"), left("operations"), kept.exists()), (1, 0, true));
    }

    #[test]
    fn a_job_is_named_by_its_program_and_its_start() {
        let process = |line: &str, began_realtime| {
            let names =
                Names(BTreeMap::from([((Namespace::Fact, Fact::CommandLine as u32), line.to_owned())]));
            (names, Status { began_realtime, ..Status::default() })
        };
        let name = |processes: &[(Names, Status)]| {
            job_of(processes.iter().map(|(names, status)| (names, Some(status))))
        };
        let second = 1_000_000_000;
        let train = process("/usr/bin/python3\0src/train.py\0--lr\x001", 1_795_924_516 * second);
        let later = process("./a b", 1_795_924_517 * second);
        assert_eq!(name(&[later.clone(), train]), "train.py-20261129-035516");
        assert_eq!(name(&[later]), "a_b-20261129-035517");
        assert_eq!(name(&[process("", 951_782_399 * second)]), "unknown-20000228-235959");
        assert_eq!(name(&[process("python3\0-c\0x.y", 951_782_400 * second)]), "python3-20000229-000000");
    }
}
