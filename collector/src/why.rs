//! Formats errors of the operating system, with advice.

use std::io::{self, ErrorKind};

/// Returns the system's own words for a failed write, and what to do about it.
pub fn why(error: &io::Error) -> String {
    match advice(error) {
        Some(advice) => format!("{}; {advice}", said(error)),
        None => said(error),
    }
}

/// Returns what to do about a failed write.
pub fn advice(error: &io::Error) -> Option<&'static str> {
    Some(match error.kind() {
        ErrorKind::NotFound => "create its directory first, or choose another path",
        ErrorKind::PermissionDenied => "choose another path, or give this user access to it",
        ErrorKind::ReadOnlyFilesystem => "choose another path",
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "free some space, or choose another path",
        ErrorKind::NotADirectory => "part of the path is a file: choose another path",
        ErrorKind::IsADirectory => "name a file",
        // Of a trace: gpuspy has raised its own limit as far as it may.
        ErrorKind::FileTooLarge => "raise the limit on file sizes (ulimit -f)",
        ErrorKind::OutOfMemory => "raise the limit on memory (ulimit -v), or free some",
        _ => match error.raw_os_error() {
            // gpuspy has raised its own limit as far as it may.
            Some(libc::EMFILE) => "raise the limit on descriptors (ulimit -Hn)",
            Some(libc::ENFILE) => "raise the system's limit on open files (fs.file-max)",
            _ => return None,
        },
    })
}

/// Does the same where a system call was refused that is about no path.
pub fn why_refused(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::PermissionDenied => {
            format!("{}; a filter of system calls (seccomp) refuses it", said(error))
        }
        _ => why(error),
    }
}

/// Returns the system's own words, without the error number that Rust appends.
pub fn said(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error ").next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_keep_the_systems_text_without_its_number() {
        for number in 1..134 {
            let error = io::Error::from_raw_os_error(number);
            let text = why(&error);
            assert!(text.starts_with(&said(&error)) && !text.contains("os error"), "{number}: {text}");
        }
        let full = why(&io::Error::from_raw_os_error(libc::ENOSPC));
        assert_eq!(full, "No space left on device; free some space, or choose another path");
        assert_eq!(why(&io::Error::other("ours")), "ours");
        for number in [libc::EMFILE, libc::ENFILE, libc::ENOMEM] {
            let text = why(&io::Error::from_raw_os_error(number));
            assert!(text.contains("; raise the ") && text.contains("limit on "), "{text}");
        }
    }
}
