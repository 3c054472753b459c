//! A directory to run `gpuspy` in, and the programs that run there.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A directory to run in, with an agent that does nothing.
pub struct Place(tempfile::TempDir);

impl Place {
    pub fn new() -> Place {
        let place = Place(tempfile::tempdir().unwrap());
        place.library("agent.so", "");
        place
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Compiles a shared library from C.
    pub fn library(&self, name: &str, source: &str) {
        let file = self.path("library.c");
        fs::write(&file, format!("int gpuspy_test_of_nothing;\n{source}")).unwrap();
        let gcc =
            Command::new("gcc").args(["-shared", "-fPIC", "-o"]).arg(self.path(name)).arg(file).status();
        assert!(gcc.unwrap().success());
    }

    pub fn script(&self, name: &str, mode: u32, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    /// Returns a command for `gpuspy` in this directory, with the agent that does nothing and a clean environment.
    pub fn gpuspy(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gpuspy"));
        command.current_dir(self.0.path()).args(arguments).stdin(Stdio::null());
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("GPUSPY")) {
            command.env_remove(name);
        }
        command.env("GPUSPY_AGENT", self.path("agent.so"));
        command
    }

    pub fn run(&self, command: &[&str]) -> Output {
        self.gpuspy(&[&["run", "--"], command].concat()).output().unwrap()
    }

    /// Returns all traces and directories of traces in this directory.
    pub fn traces(&self) -> Vec<String> {
        names(self.0.path()).into_iter().filter(|name| name.contains(".gspy")).collect()
    }
}

pub fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(directory).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Returns a command that runs this test's executable as a program that launches.
pub fn sample_program() -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "the_simulated_agent_launches", "--nocapture"]);
    command
}

/// Runs `gpuspy run OPTIONS -- sh -c SCRIPT`, in which `$AGENT` is a process that calls CUDA.
pub fn run_script(place: &Place, options: &[&str], script: &str) -> Output {
    let agent = format!(
        "{} --exact the_simulated_agent_launches --nocapture",
        std::env::current_exe().unwrap().display()
    );
    let arguments = [&["run"], options, &["--", "sh", "-c", script]].concat();
    place.gpuspy(&arguments).env("AGENT", agent).output().unwrap()
}
