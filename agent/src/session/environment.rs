//! What was the environment when the session started, and where was the process? The poller looks at a copy: it must not read what the
//! app may be changing.

use core::ffi::{CStr, c_char};
use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::heap;

unsafe extern "C" {
    /// environ(7).
    static environ: *const *const c_char;
}

/// A copy of the environment, and of where the process was then.
pub struct Environment {
    /// `NAME=value` each.
    variables: Vec<CString>,
    /// The working directory, which the app may have left by the time that a path is looked at. `None`: it was removed.
    folder: Option<PathBuf>,
}

impl Environment {
    /// Copies the environment. Call it on a thread of the app's: reading it on another one would race with the app's
    /// setenv. `None`: there is no memory for it.
    pub fn copy() -> Option<Environment> {
        let folder = std::env::current_dir().ok();
        let mut all: Vec<CString> = Vec::new();
        // SAFETY: the C library's pointer to an array of terminated strings, which ends with a null. (clearenv(3) makes it
        // null itself.)
        let variable = |n| unsafe { (!environ.is_null()).then(|| *environ.add(n)).filter(|v| !v.is_null()) };
        for variable in (0..).map_while(variable) {
            // SAFETY: one of these strings.
            let text = unsafe { CStr::from_ptr(variable) }.to_bytes_with_nul();
            let mut copy: Vec<u8> = Vec::new();
            copy.try_reserve_exact(text.len()).ok()?;
            all.try_reserve(1).ok()?;
            if heap::is_short() {
                return None;
            }
            copy.extend_from_slice(text);
            all.extend(CString::from_vec_with_nul(copy).ok());
        }
        Some(Environment { variables: all, folder })
    }

    /// Makes one of these variables.
    #[cfg(test)]
    pub fn of(variables: &[&str]) -> Environment {
        Environment::of_in(Path::new("/"), variables)
    }

    /// Makes one of these variables, of a process that is in this directory.
    #[cfg(test)]
    pub fn of_in(folder: &Path, variables: &[&str]) -> Environment {
        let variables = variables.iter().filter_map(|v| CString::new(*v).ok()).collect();
        Environment { variables, folder: Some(folder.to_owned()) }
    }

    /// Makes the same of a process whose directory was removed.
    #[cfg(test)]
    pub fn of_nowhere(variables: &[&str]) -> Environment {
        Environment { folder: None, ..Environment::of(variables) }
    }

    /// Returns the working directory. `None`: it was removed.
    pub fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// Returns what a path in one of the variables means. A relative one is relative to the working directory, and to /tmp where
    /// that was removed.
    pub fn path(&self, path: &OsStr) -> PathBuf {
        self.folder().unwrap_or(Path::new("/tmp")).join(path)
    }

    /// Returns a variable's value, unless that is empty: then the variable counts as unset.
    pub fn get(&self, name: &str) -> Option<&OsStr> {
        let value = self
            .variables
            .iter()
            .find_map(|v| v.to_bytes().strip_prefix(name.as_bytes())?.strip_prefix(b"="));
        value.filter(|value| !value.is_empty()).map(OsStr::from_bytes)
    }

    /// Returns the variables for the collector, without those that make a process observed.
    pub fn for_collector(&self) -> impl Iterator<Item = &CStr> {
        let is_ours = |v: &CStr| {
            ["LD_PRELOAD=", "GPUSPY_SOCKET="].iter().any(|name| v.to_bytes().starts_with(name.as_bytes()))
        };
        self.variables.iter().map(CString::as_c_str).filter(move |v| !is_ours(v))
    }
}
