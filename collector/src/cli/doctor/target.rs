//! Checks whether the agent can be loaded into a given program.

use super::{Check, elf};
use crate::cli::launch::{self, BlindSpot, resolve};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

/// The most scripts that name another script. The kernel has the same limit (BINPRM_MAX_RECURSION: 4, in newer kernels 5).
const INTERPRETERS: usize = 5;

pub(super) fn check(command: &OsStr) -> Check {
    let topic = "program";
    let Some(mut path) = resolve(command).filter(|path| path.is_file()) else {
        let found = format!("{} is not found", command.display());
        return Check::problem(topic, found, "give the name of a program on PATH, or a path");
    };
    let mut shown = path.display().to_string();
    for _ in 0..INTERPRETERS {
        let Some(interpreter) = interpreter(&path) else { break };
        shown.push_str(&format!(", run by {}", interpreter.display()));
        path = interpreter;
    }
    if fs::metadata(&path).is_ok_and(|m| m.permissions().mode() & 0o111 == 0) {
        return Check::problem(
            topic,
            format!("{shown} is not executable"),
            "make it executable with chmod +x, or put its interpreter first",
        );
    }
    let Some(elf) = elf::read(&path) else {
        return Check::problem(
            topic,
            format!("{shown} is not a program for this system"),
            "give the program itself, or its interpreter first: `gpuspy doctor -- python3 FILE`",
        );
    };
    if !elf.is_native {
        return Check::problem(
            topic,
            format!("{shown} is for a processor other than the agent's"),
            "use a gpuspy that was built for that processor",
        );
    }
    if let Some(loader) = elf.loader.filter(|loader| loader.contains("ld-musl")) {
        return Check::problem(
            topic,
            format!(
                "{shown} is a program for musl ({loader}), and the agent is for glibc: the program would not start with it"
            ),
            "use a build for glibc; CUDA itself supports nothing else",
        );
    }
    match launch::blind_spot(path.as_os_str()) {
        Some(BlindSpot { reason, remedy }) => Check::problem(topic, reason, remedy),
        None => Check::ok(topic, format!("{shown}: the agent can be loaded into it")),
    }
}

/// Returns the interpreter of a script: the program in its first line, or the one that `env` runs there.
fn interpreter(path: &PathBuf) -> Option<PathBuf> {
    let mut begin = Vec::new();
    fs::File::open(path).ok()?.take(256).read_to_end(&mut begin).ok()?;
    let line = begin.strip_prefix(b"#!")?.split(|&b| b == b'\n').next()?;
    let mut words = line.split(|b| b" \t".contains(b)).filter(|word| !word.is_empty());
    let first = PathBuf::from(OsStr::from_bytes(words.next()?));
    if first.file_name() != Some(OsStr::new("env")) {
        return Some(first);
    }
    // In `env -S NAME=VALUE program`, the program is the first word that is neither an option nor a variable.
    let named = words.find(|word| !word.starts_with(b"-") && !word.contains(&b'='))?;
    resolve(&OsString::from_vec(named.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::super::Level;
    use super::*;

    #[test]
    fn scripts_are_followed_to_their_interpreter() {
        let place = tempfile::tempdir().unwrap();
        let script = place.path().join("script");
        let write = |text: &str| {
            fs::write(&script, text).unwrap();
            fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
            check(script.as_os_str())
        };
        for line in ["#!/bin/sh\n", "#! /usr/bin/env sh\n", "#!/usr/bin/env -S A=b sh -e\n"] {
            let check = write(line);
            assert_eq!(check.level, Level::Ok, "{check:?}");
            assert!(check.found.contains("script, run by /"), "{check:?}");
        }
        assert!(write("#!/usr/bin/env no-such-program\n").found.contains("is not a program for this system"));
        assert!(write("not a program").found.contains("is not a program for this system"));
        assert!(write("\x7fELF\x01\x01").found.contains("a processor other than"));
        assert!(check(OsStr::new("no-such-program")).found.contains("is not found"));
        fs::set_permissions(&script, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(check(script.as_os_str()).found.contains("is not executable"));
    }
}
