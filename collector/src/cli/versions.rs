//! What `gpuspy --version --verbose` prints.

use super::{elf, launch};
use crate::trace::format;
use std::fmt::Write;
use std::path::Path;

/// Returns the versions of the program and the agent, where they are, and what they need.
pub(super) fn versions() -> String {
    let mut text = format!("gpuspy {}\n", env!("CARGO_PKG_VERSION"));
    let mut line = |name: &str, said: String| {
        let _ = writeln!(text, "{name:<10} {said}");
    };
    let needs = |path: &Path| {
        let needed = elf::read(path).and_then(|elf| elf.glibc);
        needed.map_or_else(String::new, |(major, minor)| format!(", needs glibc {major}.{minor}"))
    };
    if let Ok(program) = std::env::current_exe() {
        line("program", format!("{}{}", program.display(), needs(&program)));
    }
    let agent = launch::find_agent().ok();
    let version = |path: &Path| elf::read(path).and_then(|elf| elf.agent_version);
    match agent.as_deref().and_then(|agent| Some((agent, version(agent)?))) {
        Some((agent, version)) => {
            line("agent", format!("{}, version {version}{}", agent.display(), needs(agent)));
        }
        None => line("agent", "not found; gpuspy doctor says what to do".to_owned()),
    }
    line("traces", format!("format {}", format::VERSION));
    line("built for", format!("{} {}", std::env::consts::OS, std::env::consts::ARCH));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_versions_name_both_parts() {
        let said = versions();
        assert!(said.starts_with(concat!("gpuspy ", env!("CARGO_PKG_VERSION"), "\n")), "{said}");
        assert!(said.contains("\nagent      ") && said.contains("needs glibc 2."), "{said}");
    }
}
