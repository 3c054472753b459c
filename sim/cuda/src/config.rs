//! The environment variables, read once at the first call. A mistake in one of them ends the process with a message,
//! because a test that runs with other settings than it was given proves nothing.

use crate::assume::Assume;
use crate::clocks::{self, GpuClock, Ns, Wander};
use crate::error::Failure;
use std::collections::HashMap;
use std::fmt::Display;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::OnceLock;

/// What a call costs its caller, ns (`SIMCUDA_HOST_COST`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostCost {
    /// Launches of kernels and graphs.
    pub launch: Ns,
    /// `cuEventRecord`.
    pub record: Ns,
    /// `cuEventQuery` and `cuStreamQuery`.
    pub query: Ns,
    /// `cuEventElapsedTime`.
    pub elapsed: Ns,
    /// All other calls.
    pub other: Ns,
    /// Added at the first launch from a module.
    pub module: Ns,
    /// Added when a context is created.
    pub context: Ns,
    /// Added when a module or library is loaded.
    pub load: Ns,
    /// Added when `cuMemAlloc` and its kin allocate or `cuMemFree` frees.
    pub memory: Ns,
}

impl HostCost {
    const DEFAULT: Self = Self {
        launch: 3_000,
        record: 1_000,
        query: 500,
        elapsed: 500,
        other: 500,
        module: 5_000_000,
        context: 0,
        load: 0,
        memory: 0,
    };
    const OFF: Self =
        Self { launch: 0, record: 0, query: 0, elapsed: 0, other: 0, module: 0, ..Self::DEFAULT };

    fn parse(text: &str) -> Result<Self, String> {
        if text == "off" {
            return Ok(Self::OFF);
        }
        let mut cost = Self::DEFAULT;
        for pair in text.split(',').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').ok_or_else(|| format!("{pair}: not name=ns"))?;
            let field = match name {
                "launch" => &mut cost.launch,
                "record" => &mut cost.record,
                "query" => &mut cost.query,
                "elapsed" => &mut cost.elapsed,
                "other" => &mut cost.other,
                "module" => &mut cost.module,
                "context" => &mut cost.context,
                "load" => &mut cost.load,
                "memory" => &mut cost.memory,
                _ => return Err(format!("{name}: no such cost")),
            };
            *field = value.parse().map_err(|_| format!("{value}: not a number of ns"))?;
        }
        Ok(cost)
    }
}

/// `SIMCUDA_FAIL`: base name → (result, the call that fails; none = every call).
type Failures = HashMap<String, Vec<(Failure, Option<u64>)>>;

fn failures(text: &str) -> Result<Failures, String> {
    let mut failures = Failures::new();
    for rule in text.split(',').filter(|rule| !rule.is_empty()) {
        let wrong = || format!("{rule}: not function:CUresult:call");
        let [name, result, call] = rule.split(':').collect::<Vec<_>>()[..] else { return Err(wrong()) };
        let call = if call == "*" { None } else { Some(call.parse().map_err(|_| wrong())?) };
        failures.entry(name.to_owned()).or_default().push((result.parse().map_err(|_| wrong())?, call));
    }
    Ok(failures)
}

/// All settings.
#[derive(Debug)]
pub struct Config {
    /// `SIMCUDA_DRIVER_VERSION`.
    pub driver_version: i32,
    /// The GPUs of the machine that the process sees, in the order of their ordinals: of `SIMCUDA_DEVICES`, those in
    /// `CUDA_VISIBLE_DEVICES`.
    pub visible: Vec<u32>,
    /// `SIMCUDA_HOST_COST`.
    pub cost: HostCost,
    /// `SIMCUDA_KERNEL_NS`.
    pub kernel_ns: Ns,
    /// `SIMCUDA_EVENT_NS`: GPU time that an event takes.
    pub event_ns: Ns,
    /// `SIMCUDA_LAUNCH_NS`: GPU time that a launch on a stream takes before its kernel starts.
    pub launch_ns: Ns,
    /// `SIMCUDA_CLOCK_OFFSET_NS`, `SIMCUDA_CLOCK_DRIFT_PPB`, `SIMCUDA_CLOCK_WANDER_PPB`, `SIMCUDA_CLOCK_WANDER_PERIOD_NS`,
    /// `SIMCUDA_EVENT_RESOLUTION_NS`.
    pub gpu_clock: GpuClock,
    /// `SIMCUDA_MPS=1`: the process is a client of MPS.
    pub mps: bool,
    /// `SIMCUDA_HANDLES=fresh`: no handle is used again after its object is destroyed.
    pub fresh_handles: bool,
    /// Hardware queues that the streams of a context share (`CUDA_DEVICE_MAX_CONNECTIONS`); 0: each stream has its own.
    pub connections: usize,
    /// Entries of a stream's launch queue: the assumed number, scaled by `CUDA_SCALE_LAUNCH_QUEUES`.
    pub launch_queue: usize,
    /// `SIMCUDA_ASSUME`.
    pub assume: Assume,
    /// `SIMCUDA_FAIL`.
    pub failures: Failures,
    /// `SIMCUDA_ERRNO=1`: every call sets errno to a value that identifies it: 1000 plus the length of its name.
    pub errno: bool,
    /// `SIMCUDA_TRUTH`.
    pub truth: Option<PathBuf>,
}

/// Scales a queue's length by the factors in the CUDA C++ Programming Guide ("CUDA Environment Variables").
fn scaled(entries: usize) -> usize {
    match std::env::var("CUDA_SCALE_LAUNCH_QUEUES").as_deref() {
        Ok("0.25x") => entries / 4,
        Ok("0.5x") => entries / 2,
        Ok("2x") => entries * 2,
        Ok("4x") => entries * 4,
        _ => entries,
    }
}

/// Places of a launch queue that no entry takes, however long it is: an H200's queues hold 252, 1020 and 4092.
const TAKEN: usize = 4;

/// CUDA C++ Programming Guide, "CUDA Environment Variables": 1 to 32, and 8 by default.
const CONNECTIONS: usize = 8;
/// NVIDIA's documentation of MPS, "CUDA_DEVICE_MAX_CONNECTIONS": the default of its clients since Volta.
const CONNECTIONS_OF_MPS: usize = 2;

/// Returns the settings.
pub fn config() -> &'static Config {
    static CONFIG: OnceLock<Config> = OnceLock::new();
    CONFIG.get_or_init(Config::from_environment)
}

/// Returns which of a machine's GPUs a process sees, by the CUDA C++ Programming Guide ("CUDA Environment Variables"): those in
/// the list, in its order, up to the first that there is not. One that is listed a second time ends the list, too. GPUs are
/// listed by their indices only, not by UUIDs.
fn visible(devices: u32, list: Option<&str>) -> Vec<u32> {
    let Some(list) = list else { return (0..devices).collect() };
    let mut visible = Vec::new();
    for index in list.split(',').map_while(|index| index.trim().parse().ok()) {
        if index >= devices || visible.contains(&index) {
            break;
        }
        visible.push(index);
    }
    visible
}

impl Config {
    /// The number of GPUs that the process sees.
    pub fn devices(&self) -> u32 {
        self.visible.len() as u32
    }

    fn from_environment() -> Self {
        let assume = variable("SIMCUDA_ASSUME", None, |text| Assume::parse(text).map(Some))
            .unwrap_or_else(|| Assume::parse("").expect("the defaults are values"));
        let mps = std::env::var_os("SIMCUDA_MPS").is_some_and(|v| v == "1");
        let default = if mps { CONNECTIONS_OF_MPS } else { CONNECTIONS };
        let connections = variable("CUDA_DEVICE_MAX_CONNECTIONS", default, usize::from_str).clamp(1, 32);
        Self {
            driver_version: variable("SIMCUDA_DRIVER_VERSION", 12090, str::parse),
            visible: visible(
                variable("SIMCUDA_DEVICES", 1, str::parse),
                std::env::var("CUDA_VISIBLE_DEVICES").ok().as_deref(),
            ),
            cost: variable("SIMCUDA_HOST_COST", HostCost::DEFAULT, HostCost::parse),
            kernel_ns: variable("SIMCUDA_KERNEL_NS", 5_000, str::parse),
            event_ns: variable("SIMCUDA_EVENT_NS", 0, str::parse),
            launch_ns: variable("SIMCUDA_LAUNCH_NS", 0, str::parse),
            gpu_clock: GpuClock {
                offset: variable("SIMCUDA_CLOCK_OFFSET_NS", 3 * 3600 * 1_000_000_000, i64::from_str),
                drift_ppb: variable("SIMCUDA_CLOCK_DRIFT_PPB", 20_000, i64::from_str),
                wander: Wander {
                    ppb: variable("SIMCUDA_CLOCK_WANDER_PPB", 0, i64::from_str),
                    period: variable("SIMCUDA_CLOCK_WANDER_PERIOD_NS", 10_000_000_000, str::parse),
                },
                epoch: clocks::now(),
                resolution: variable("SIMCUDA_EVENT_RESOLUTION_NS", 1, str::parse),
            },
            launch_queue: scaled(assume.number("launch_queue") as usize + TAKEN).saturating_sub(TAKEN),
            mps,
            fresh_handles: variable("SIMCUDA_HANDLES", false, fresh_handles),
            connections: if assume.is("connections", "queues") { connections } else { 0 },
            assume,
            failures: variable("SIMCUDA_FAIL", Failures::new(), failures),
            errno: std::env::var_os("SIMCUDA_ERRNO").is_some_and(|v| v == "1"),
            truth: std::env::var_os("SIMCUDA_TRUTH").filter(|path| !path.is_empty()).map(PathBuf::from),
        }
    }
}

fn fresh_handles(text: &str) -> Result<bool, String> {
    match text {
        "fresh" => Ok(true),
        "reused" => Ok(false),
        _ => Err("neither fresh nor reused".to_owned()),
    }
}

fn variable<T, E: Display>(name: &str, default: T, parse: impl Fn(&str) -> Result<T, E>) -> T {
    let Some(value) = std::env::var_os(name).filter(|value| !value.is_empty()) else { return default };
    match parse(&value.to_string_lossy()) {
        Ok(value) => value,
        Err(error) => {
            eprintln!("simcuda: {name}={}: {error}", value.to_string_lossy());
            std::process::abort()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_cost_is_off_default_or_field_by_field() {
        assert_eq!(HostCost::parse("off"), Ok(HostCost::OFF));
        let some = HostCost::parse("launch=7,module=0").unwrap();
        assert_eq!(some, HostCost { launch: 7, module: 0, ..HostCost::DEFAULT });
        assert!(HostCost::parse("lunch=7").is_err() && HostCost::parse("launch=soon").is_err());
    }

    #[test]
    fn failures_name_the_call_or_all_calls() {
        let rules = failures("cuMemAlloc:2:3,cuInit:999:*,cuMemAlloc:700:5").unwrap();
        assert_eq!(rules["cuMemAlloc"], [(2, Some(3)), (700, Some(5))]);
        assert_eq!(rules["cuInit"], [(999, None)]);
        assert!(failures("cuInit:999").is_err());
    }

    #[test]
    fn a_process_sees_the_gpus_that_are_listed_up_to_one_that_there_is_not() {
        for (list, seen) in [
            (None, &[0, 1, 2, 3][..]),
            (Some("2"), &[2]),
            (Some("3, 1"), &[3, 1]),
            (Some("0,4,1"), &[0]),
            (Some("1,1,2"), &[1]),
            (Some("-1"), &[]),
            (Some("0,none,1"), &[0]),
            (Some(""), &[]),
        ] {
            assert_eq!(visible(4, list), seen, "{list:?}");
        }
    }

    /// The names of environment variables between quotes in a text.
    fn variables(text: &str, quote: char) -> std::collections::BTreeSet<&str> {
        let is_name = |word: &&str| {
            let known = word.starts_with("SIMCUDA_") || word.starts_with("CUDA_");
            known
                && !word.ends_with('_')
                && word.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_')
        };
        text.split(quote).filter(is_name).collect()
    }

    #[test]
    fn the_readme_lists_every_environment_variable() {
        let readme = include_str!("../../README.md");
        let (_, rest) = readme.split_once("## Settings\n").unwrap();
        let (section, _) = rest.split_once("\n## ").unwrap();
        let rows = section
            .lines()
            .filter(|line| line.starts_with("| `"))
            .map(|line| line.split(" | ").next().unwrap());
        let listed = rows.collect::<Vec<_>>().join("\n");
        assert_eq!(variables(&listed, '`'), variables(include_str!("config.rs"), '"'));
    }
}
