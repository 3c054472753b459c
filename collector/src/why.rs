//! What should a user do after an error of the system?

use std::io::{self, ErrorKind};

/// Returns the end of a sentence that says what could not be done: the reason, and what to do.
pub fn why(error: &io::Error) -> String {
    let known = match error.kind() {
        ErrorKind::NotFound => {
            "there is no such file or directory; create the directory first, or choose another path"
        }
        ErrorKind::PermissionDenied => {
            "this user is not allowed to; choose another path, or change its permissions"
        }
        ErrorKind::ReadOnlyFilesystem => "its file system is read-only; choose another path",
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            "there is no space left; free some, or choose another path"
        }
        ErrorKind::NotADirectory => "a part of its path is not a directory; choose another path",
        ErrorKind::IsADirectory => "it is a directory; give the path of a file",
        _ => return said(error),
    };
    known.to_owned()
}

/// Returns the system's own words, without their number.
pub fn said(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error ").next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_errno_is_shown() {
        for number in 1..134 {
            let reason = why(&io::Error::from_raw_os_error(number));
            assert!(!reason.is_empty() && !reason.contains("os error"), "{number}: {reason}");
        }
        assert!(why(&io::Error::from_raw_os_error(libc::ENOSPC)).contains("free some"));
        assert_eq!(why(&io::Error::other("ours")), "ours");
    }
}
