//! Words quoted for a shell, in commands that readers copy.

/// Quotes a word, if it needs it.
pub fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+,:@%=".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// Quotes a path, which is not taken for an option even if it starts like one.
pub fn quoted_path(path: &str) -> String {
    if path.starts_with('-') { quoted(&format!("./{path}")) } else { quoted(path) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_shell_reads_quoted_words_as_they_were() {
        let words =
            ["plain", "", "two words", "it's", "$HOME `id` \"x\" \\ * ; | & > ~", "a\nb", "ä", "--k=v"];
        let line = words.map(quoted).join(" ");
        let output = Command::new("sh").args(["-c", &format!("printf '%s\\0' {line}")]).output().unwrap();
        let read: Vec<&str> = std::str::from_utf8(&output.stdout).unwrap().split('\0').collect();
        assert_eq!(read[..words.len()], words, "{line}");
        assert_eq!(quoted("train.py"), "train.py");
    }

    #[test]
    fn a_path_is_no_option() {
        assert_eq!(quoted_path("-x y.gspy"), "'./-x y.gspy'");
        assert_eq!(quoted_path("runs/x.gspy"), "runs/x.gspy");
    }
}
