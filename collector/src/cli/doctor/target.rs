//! Checks whether the agent can be loaded into a given program.

use super::Check;
use crate::cli::elf;
use crate::cli::program::{self, BlindSpot};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;

pub(super) fn check(command: &OsStr) -> Check {
    let topic = "program";
    let Some(path) = program::resolve(command).filter(|path| path.is_file()) else {
        let found = format!("{} is not found", command.display());
        return Check::problem(topic, found, "give the name of a program on PATH, or a path");
    };
    let programs = program::interpreters(path);
    let shown: Vec<String> = programs.iter().map(|path| path.display().to_string()).collect();
    let shown = shown.join(", run by ");
    let Some(path) = programs.last() else { return Check::ok(topic, shown) };
    if fs::metadata(path).is_ok_and(|m| m.permissions().mode() & 0o111 == 0) {
        return Check::problem(
            topic,
            format!("{shown} is not executable"),
            "make it executable with chmod +x, or put its interpreter first",
        );
    }
    if elf::read(path).is_none() {
        return Check::problem(
            topic,
            format!("{shown} is not a program for this system"),
            "give the program itself, or its interpreter first: `gpuspy doctor -- python3 FILE`",
        );
    }
    match program::blind_spot(path.as_os_str()) {
        Some(BlindSpot { reason, remedy, .. }) => Check::problem(topic, reason, remedy),
        None => Check::ok(topic, format!("{shown}: the agent can be loaded into it")),
    }
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
