//! What the system says to an attempt, in words that tell what to do.

use std::io::{self, ErrorKind};

/// The end of a sentence that says what could not be done.
pub fn why(error: &io::Error) -> String {
    let known = match error.kind() {
        ErrorKind::NotFound => {
            "there is no such file or folder; make its folder first, or name another place"
        }
        ErrorKind::PermissionDenied => {
            "this user has no right to; name another place, or have the right given"
        }
        ErrorKind::ReadOnlyFilesystem => "its file system is read-only; name another place",
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            "no space is left for it; make room, or name another place"
        }
        ErrorKind::NotADirectory => "it would lie in what is no folder; name another place",
        ErrorKind::IsADirectory => "it is a folder; name a file",
        _ => return said(error),
    };
    known.to_owned()
}

/// The system's own words, without their number.
pub fn said(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error ").next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_number_of_the_system_is_told() {
        for number in 1..134 {
            let told = why(&io::Error::from_raw_os_error(number));
            assert!(!told.is_empty() && !told.contains("os error"), "{number}: {told}");
        }
        assert!(why(&io::Error::from_raw_os_error(libc::ENOSPC)).contains("make room"));
        assert_eq!(why(&io::Error::other("ours")), "ours");
    }
}
