//! Checks the CUDA installation: driver, GPUs, runtimes, and MPS.

use super::child::{Nursery, Silent};
use super::probe::{Found, Gpu, Probe};
use super::{Check, Level};
use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;

/// What the checks of routes need to know.
#[derive(Debug, Default)]
pub(super) struct Cuda {
    pub(super) driver: Option<Found>,
    /// The file names of the runtimes that the loader finds.
    pub(super) runtimes: Vec<String>,
}

impl Cuda {
    pub(super) fn has_gpu(&self) -> bool {
        self.driver.as_ref().is_some_and(|driver| !driver.gpus.is_empty())
    }
}

const NO_DRIVER: &str = "install NVIDIA's driver; in a container, start it with the GPU (docker run --gpus all). If the \
                         file is elsewhere, add its directory to LD_LIBRARY_PATH";
const NO_GPU: &str = "check whether nvidia-smi finds one, whether CUDA_VISIBLE_DEVICES hides it, and in a container whether \
                      /dev/nvidia0 exists (docker run --gpus all)";

/// Runs the checks in children, which have the environment of a program under `preload`.
pub(super) fn check(nursery: &Nursery, preload: &OsString, checks: &mut Vec<Check>) -> Cuda {
    let mut cuda = Cuda::default();
    let environment = [("LD_PRELOAD", preload.clone()), ("GPUSPY", "0".into())];
    match nursery.send::<Found>(Probe::Driver, None, &environment) {
        Err(Silent(why)) => checks.push(Check::problem("driver", why, NO_DRIVER)),
        Ok(found) => {
            checks.push(driver(&found));
            checks.extend(gpus(&found));
            cuda.driver = Some(found);
        }
    }
    // The file names in CUDA 11, 12 and 13.
    for name in ["libcudart.so.11.0", "libcudart.so.12", "libcudart.so.13"] {
        if let Ok(found) = nursery.send::<Found>(Probe::Runtime, Some(name), &environment) {
            checks.push(Check::ok("runtime", format!("CUDA {}, {}", version(found.version), found.path)));
            cuda.runtimes.push(name.to_owned());
        }
    }
    if cuda.runtimes.is_empty() {
        let found = "none on the loader's path; programs that bring their own are traced all the same";
        checks.push(Check::ok("runtime", found));
    }
    checks.extend(mps());
    cuda
}

/// Returns the name of the first GPU, if a program for this version of CUDA and this compute capability can use it; else why not.
pub(super) fn first_gpu(nursery: &Nursery, version: i32, capability: (i32, i32)) -> Result<String, String> {
    let environment = [("GPUSPY", "0".into())];
    let found = nursery.send::<Found>(Probe::Driver, None, &environment).map_err(|Silent(why)| why)?;
    usable(&found, version, capability).map(|gpu| gpu.name.clone())
}

fn usable(found: &Found, needed: i32, capability: (i32, i32)) -> Result<&Gpu, String> {
    if let Some((code, name)) = found.init.as_ref().filter(|(code, _)| *code != 0) {
        return Err(format!("cuInit fails: {name} ({code})"));
    }
    if found.version < needed {
        return Err(format!(
            "the driver supports CUDA up to {}, not {}",
            version(found.version),
            version(needed)
        ));
    }
    let gpu = found.gpus.first().ok_or("the driver works but reports no GPU")?;
    match gpu {
        Gpu { compute_mode: PROHIBITED, name, .. } => Err(format!("{name} is in prohibited compute mode")),
        Gpu { name, capability: has, .. } if *has < capability => {
            let ((major, minor), (least, of_least)) = (has, capability);
            Err(format!("{name} has compute capability {major}.{minor}, not {least}.{of_least}"))
        }
        gpu => Ok(gpu),
    }
}

/// Formats a version: `12090` → `12.9` (cuda.h: 1000 * major + 10 * minor).
fn version(number: i32) -> String {
    format!("{}.{}", number / 1000, number % 1000 / 10)
}

fn driver(found: &Found) -> Check {
    let module = fs::read_to_string("/proc/driver/nvidia/version").unwrap_or_default();
    let module = module_version(&module).map(|v| format!(", kernel module {v}")).unwrap_or_default();
    let what = format!("supports CUDA up to {}{module}, {}", version(found.version), found.path);
    match &found.init {
        Some((0, _)) | None => Check::ok("driver", what),
        Some((code, name)) => {
            Check::problem("driver", format!("{what}; cuInit fails: {name} ({code})"), NO_GPU)
        }
    }
}

/// Returns the version in the first line of the kernel module's description: the first word of digits and dots.
fn module_version(text: &str) -> Option<&str> {
    let is_version = |word: &&str| word.contains('.') && word.chars().all(|c| c.is_ascii_digit() || c == '.');
    text.lines().next()?.split_whitespace().find(is_version)
}

/// CUcomputemode (cuda.h).
const PROHIBITED: i32 = 2;
const EXCLUSIVE: i32 = 3;

fn gpus(found: &Found) -> Vec<Check> {
    if found.gpus.is_empty() && matches!(found.init, Some((0, _))) {
        return vec![Check::problem("GPU", "the driver works but reports no GPU", NO_GPU)];
    }
    found.gpus.iter().enumerate().map(|(n, gpu)| describe(n, gpu)).collect()
}

fn describe(n: usize, gpu: &Gpu) -> Check {
    let Gpu { name, uuid, bytes, capability: (major, minor), compute_mode } = gpu;
    let gib = *bytes as f64 / (1u64 << 30) as f64;
    let part = if uuid.starts_with("MIG-") { ", a MIG instance" } else { "" };
    let found = format!("{n}: {name}, {gib:.1} GiB, compute capability {major}.{minor}, {uuid}{part}");
    match *compute_mode {
        PROHIBITED => Check::problem(
            "GPU",
            format!("{found}; compute mode prohibited: no program can use it"),
            "allow use with nvidia-smi -c DEFAULT (needs root)",
        ),
        EXCLUSIVE => Check {
            level: Level::Warning,
            topic: "GPU",
            found: format!("{found}; compute mode exclusive process"),
            todo: Some("a second process on this GPU fails, with or without gpuspy".to_owned()),
        },
        _ => Check::ok("GPU", found),
    }
}

/// Checks for the Multi-Process Service, by its variable, its pipe, or its processes.
fn mps() -> Option<Check> {
    let named = std::env::var_os("CUDA_MPS_PIPE_DIRECTORY").filter(|v| !v.is_empty());
    // The default path (NVIDIA, Multi-Process Service).
    let pipes = named.as_ref().map_or_else(|| PathBuf::from("/tmp/nvidia-mps"), PathBuf::from);
    let process = processes_named("nvidia-cuda-mps").into_iter().next();
    if named.is_none() && process.is_none() {
        return None;
    }
    let running =
        if process.is_some() || pipes.join("control").exists() { "is running" } else { "is configured" };
    Some(Check::warning(
        "MPS",
        format!("the Multi-Process Service {running} ({})", pipes.display()),
        "processes share the GPU, so GPU times include work of other processes; measure alone to compare",
    ))
}

/// Finds processes by the start of their `comm`, which has 15 bytes.
fn processes_named(begin: &str) -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| {
        fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.trim_end().starts_with(begin))
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_formatted_as_major_and_minor() {
        assert_eq!((version(12090).as_str(), version(11080).as_str()), ("12.9", "11.8"));
        let closed =
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.161.08  Sat Feb 17 22:55:48 UTC 2024\nGCC";
        assert_eq!(module_version(closed), Some("535.161.08"));
        assert_eq!(module_version(""), None);
    }

    #[test]
    fn mig_instances_and_compute_modes_are_reported() {
        let gpu = |uuid: &str, compute_mode| Gpu {
            name: "NVIDIA X".into(),
            uuid: uuid.into(),
            bytes: 3 << 30,
            capability: (9, 0),
            compute_mode,
        };
        assert!(
            describe(0, &gpu("MIG-1", 0)).found.contains("3.0 GiB, compute capability 9.0, MIG-1, a MIG")
        );
        assert_eq!(describe(0, &gpu("GPU-1", PROHIBITED)).level, Level::Problem);
        assert_eq!(describe(0, &gpu("GPU-1", EXCLUSIVE)).level, Level::Warning);
        assert_eq!(describe(0, &gpu("GPU-1", 0)).level, Level::Ok);
    }

    #[test]
    fn a_gpu_is_usable_or_the_reason_is_given() {
        let gpu =
            |capability, compute_mode| Gpu { name: "X".into(), capability, compute_mode, ..Gpu::default() };
        let found = |version, code, gpus: &[Gpu]| Found {
            version,
            init: Some((code, "NAME".into())),
            gpus: gpus.to_vec(),
            ..Found::default()
        };
        let why = |found: &Found| usable(found, 12000, (7, 0)).err();
        let good = gpu((7, 0), 0);
        assert_eq!(why(&found(12000, 0, std::slice::from_ref(&good))), None);
        for (found, expected) in [
            (found(12000, 100, &[]), "cuInit fails: NAME (100)"),
            (found(11080, 0, &[good]), "the driver supports CUDA up to 11.8, not 12.0"),
            (found(12000, 0, &[]), "the driver works but reports no GPU"),
            (found(12000, 0, &[gpu((9, 0), PROHIBITED)]), "X is in prohibited compute mode"),
            (found(12000, 0, &[gpu((6, 1), 0)]), "X has compute capability 6.1, not 7.0"),
        ] {
            assert_eq!(why(&found).as_deref(), Some(expected));
        }
    }

    #[test]
    fn processes_are_found_by_name() {
        let comm = fs::read_to_string("/proc/self/comm").unwrap();
        assert!(processes_named(comm.trim_end()).contains(&std::process::id()));
        assert_eq!(processes_named("no such process"), [] as [u32; 0]);
    }
}
