//! Words quoted for a shell, in commands that readers copy.

use crate::harmless::is_harmful;

/// Quotes a word, if it needs it.
pub fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+,:@%=".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// Rewrites a command of [quoted] words without characters that a screen cannot show, as a newline: words with such ones become
/// `$'…'`, which bash, zsh and ksh read, and plain sh does not.
pub fn printable(command: &str) -> String {
    let (mut shown, mut rest) = (String::new(), command);
    while let Some((before, quoted)) = rest.split_once('\'') {
        shown.push_str(before);
        // A quote that is part of a word is `\'`, between quotes.
        if before.ends_with('\\') {
            shown.push('\'');
            rest = quoted;
            continue;
        }
        let (part, after) = quoted.split_once('\'').unwrap_or((quoted, ""));
        match part.chars().any(is_harmful) {
            true => shown.push_str(&format!("$'{}'", part.chars().map(escaped).collect::<String>())),
            false => shown.push_str(&format!("'{part}'")),
        }
        rest = after;
    }
    shown + rest
}

/// Returns what stands for a character between `$'` and `'`.
fn escaped(c: char) -> String {
    match c {
        '\\' => r"\\".to_owned(),
        '\n' => r"\n".to_owned(),
        '\t' => r"\t".to_owned(),
        c if c.is_ascii_control() => format!(r"\x{:02x}", u32::from(c)),
        c if is_harmful(c) => format!(r"\u{:04x}", u32::from(c)),
        c => c.to_string(),
    }
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

    /// The command of `python -c` with a script of several lines, or with a tab, was shown with `?` in their place.
    #[test]
    fn a_printable_command_has_the_same_words() {
        let words = [
            "python",
            "-c",
            "import a\nprint('it\\n')\n",
            "\t\x1b[2Jé",
            "a\u{202e}b",
            "it's",
            "x\r\n1",
            "\\\n$HOME",
            "",
        ];
        let command = printable(&words.map(quoted).join(" "));
        assert!(!command.chars().any(is_harmful), "{command}");
        let script = format!("printf '%s\\0' {command}");
        let output = Command::new("bash").env("LC_ALL", "C.UTF-8").args(["-c", &script]).output().unwrap();
        let read: Vec<&str> = std::str::from_utf8(&output.stdout).unwrap().split('\0').collect();
        assert_eq!(read[..words.len()], words, "{command}");
        assert_eq!(printable("python 'two words' 'it'\\''s'"), "python 'two words' 'it'\\''s'");
    }

    #[test]
    fn a_path_is_no_option() {
        assert_eq!(quoted_path("-x y.gspy"), "'./-x y.gspy'");
        assert_eq!(quoted_path("runs/x.gspy"), "runs/x.gspy");
    }
}
