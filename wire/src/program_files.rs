//! Which of the files that a Python program runs did its user write?
//!
//! All others are of an installed package, the standard library, a frozen module, or a compiler that wrote them. The agent
//! reads a launch's frames up to the first of the user's, and the collector says that frame's line, so both ask here.

/// Whether the user wrote the code in a file, by the name that the interpreter has for it.
pub fn is_users(file: &str) -> bool {
    if let Some(inside) = file.strip_prefix('<') {
        // Typed in. Other such names are of frozen modules and of generated code (`<eval_with_key>` of torch.fx,
        // `<__array_function__ internals>`), and `<string>` of both what is given on the command line and what a package
        // compiles (dataclasses, tinygrad): see `is_given`.
        return ["stdin>", "console>", "ipython-input"].iter().any(|name| inside.starts_with(name));
    }
    let is_installed = ["/site-packages/", "/dist-packages/"].iter().any(|folder| file.contains(folder));
    // What TorchInductor and Triton write, by the names of their caches.
    let is_cached = ["/torchinductor_", "/.triton/cache/"].iter().any(|folder| file.contains(folder));
    !(file.is_empty() || is_installed || is_cached || is_of_inductor(file) || is_standard(file))
}

/// Whether code may be what `python -c` was given: it is if all frames outside of it are such code, too.
pub fn is_given(file: &str) -> bool {
    file == "<string>"
}

/// Whether TorchInductor wrote a file, wherever its cache is (`TORCHINDUCTOR_CACHE_DIR`): the name is `c` and a hash in base 32,
/// and the folder is called like the first two characters of the hash (`code_hash` and `get_path`,
/// torch/_inductor/codecache.py).
fn is_of_inductor(file: &str) -> bool {
    const LENGTH: usize = 1 + 51;
    let mut parts = file.rsplit('/');
    let (name, folder) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let Some(name) = name.strip_suffix(".py") else { return false };
    let is_hash = name.bytes().all(|byte| byte.is_ascii_lowercase() || (b'2'..=b'7').contains(&byte));
    is_hash && name.len() == LENGTH && name.starts_with('c') && name.get(1..3) == Some(folder)
}

/// Whether a file is in the standard library: below a folder `lib/python3.11`, or in `python311.zip`.
fn is_standard(file: &str) -> bool {
    let version = |name: &str, end: &str| {
        let number = name.strip_prefix("python").and_then(|rest| rest.strip_suffix(end));
        number.is_some_and(|number| {
            number.starts_with('3') && number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
        })
    };
    let mut folders = file.split('/');
    let mut before = folders.next().unwrap_or_default();
    for folder in folders {
        if version(folder, ".zip") || (before.starts_with("lib") && version(folder, "")) {
            return true;
        }
        before = folder;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_users_files_are_told_from_all_others() {
        for own in [
            "train.py",
            "/home/ann/train.py",
            "/work/lib/python_tools/a.py",
            "/srv/python3/app.py",
            "/cache/yf/cab3uufw5kmkkmje4ijwbq7qdm3ynhsrt5ozzsukl3zq7tqtwnbw.py",
            "/srv/ra/crab.py",
            "<stdin>",
            "<ipython-input-3-abc>",
            "/tmp/ipykernel_12/345.py",
        ] {
            assert!(is_users(own), "{own}");
        }
        for other in [
            "",
            "/usr/lib/python3/dist-packages/numpy/core.py",
            "/home/ann/.venv/lib/python3.12/site-packages/torch/nn/modules/module.py",
            "/usr/lib/python3.11/threading.py",
            "/opt/conda/lib/python3.9/runpy.py",
            "/usr/lib64/python3.13/ctypes/__init__.py",
            "/usr/lib/python311.zip/runpy.py",
            "<frozen importlib._bootstrap>",
            "<string>",
            "<eval_with_key>.3",
            "/tmp/torchinductor_ann/ab/cab.py",
            "/cache/yf/cyf3uufw5kmkkmje4ijwbq7qdm3ynhsrt5ozzsukl3zq7tqtwnbw.py",
            "/home/ann/.triton/cache/x/launcher.py",
        ] {
            assert!(!is_users(other), "{other}");
        }
    }
}
