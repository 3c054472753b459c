//! Can the agent be loaded into this very program?

use super::{Check, elf};
use crate::cli::launch::{self, BlindSpot, resolve};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

/// Scripts that name scripts; the kernel gives up after as many (BINPRM_MAX_RECURSION is 4, 5 in newer ones).
const INTERPRETERS: usize = 5;

pub(super) fn check(command: &OsStr) -> Check {
    let topic = "program";
    let Some(mut path) = resolve(command).filter(|path| path.is_file()) else {
        let found = format!("{} is not found", command.display());
        return Check::problem(topic, found, "name a program on PATH, or its path");
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
            format!("{shown} may not be executed"),
            "chmod +x it, or name its interpreter",
        );
    }
    let Some(elf) = elf::read(&path) else {
        return Check::problem(
            topic,
            format!("{shown}: no program of this system"),
            "name the program itself, or its interpreter first: `gpuspy doctor -- python3 FILE`",
        );
    };
    if !elf.is_native {
        return Check::problem(
            topic,
            format!("{shown} is for another processor than the agent"),
            "use a gpuspy that was built for that processor",
        );
    }
    if let Some(loader) = elf.loader.filter(|loader| loader.contains("ld-musl")) {
        return Check::problem(
            topic,
            format!(
                "{shown} is a program for musl ({loader}), the agent one for glibc: it would not start under it"
            ),
            "use a build for glibc; CUDA itself comes for nothing else",
        );
    }
    match launch::blind_spot(path.as_os_str()) {
        Some(BlindSpot { reason, remedy }) => Check::problem(topic, reason, remedy),
        None => Check::ok(topic, format!("{shown}: the agent can be loaded into it")),
    }
}

/// Who runs a script: the program in its first line, or the one that `env` finds there.
fn interpreter(path: &PathBuf) -> Option<PathBuf> {
    let mut begin = Vec::new();
    fs::File::open(path).ok()?.take(256).read_to_end(&mut begin).ok()?;
    let line = begin.strip_prefix(b"#!")?.split(|&b| b == b'\n').next()?;
    let mut words = line.split(|b| b" \t".contains(b)).filter(|word| !word.is_empty());
    let first = PathBuf::from(OsStr::from_bytes(words.next()?));
    if first.file_name() != Some(OsStr::new("env")) {
        return Some(first);
    }
    // `env -S NAME=VALUE program`: the first word that is neither an option nor a variable.
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
        assert!(write("#!/usr/bin/env no-such-program\n").found.contains("no program of this system"));
        assert!(write("not a program").found.contains("no program of this system"));
        assert!(write("\x7fELF\x01\x01").found.contains("another processor"));
        assert!(check(OsStr::new("no-such-program")).found.contains("is not found"));
        fs::set_permissions(&script, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(check(script.as_os_str()).found.contains("may not be executed"));
    }
}
