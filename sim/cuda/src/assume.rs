//! Assumptions: what no document and no measurement says about the real driver. Each has a name, and
//! `SIMCUDA_ASSUME=name=value,…` sets it. Code that is tested on the simulator has to work under every setting.

use std::collections::HashMap;

/// One assumption.
#[derive(Debug)]
pub struct Assumption {
    /// The name in `SIMCUDA_ASSUME`.
    pub name: &'static str,
    /// The value unless it is set.
    pub default: &'static str,
    /// The words that it can be set to; empty if it is a whole number.
    pub values: &'static [&'static str],
    /// What it decides, in one line.
    pub meaning: &'static str,
}

const fn word(
    name: &'static str,
    values: &'static [&'static str],
    default: &'static str,
    meaning: &'static str,
) -> Assumption {
    Assumption { name, default, values, meaning }
}

const fn number(name: &'static str, default: &'static str, meaning: &'static str) -> Assumption {
    Assumption { name, default, values: &[], meaning }
}

/// All assumptions.
pub const ALL: &[Assumption] = &[
    word(
        "submit",
        &["end", "begin"],
        "end",
        "where in the host cost of a call its work is submitted: at the start or at the end",
    ),
    word(
        "elapsed",
        &["rounded", "multiplied"],
        "rounded",
        "how cuEventElapsedTime turns ns into float ms: one rounded division, or a multiplication by 1e-6f",
    ),
    word(
        "event_query_in_capture",
        &["unsafe", "safe"],
        "unsafe",
        "whether cuEventQuery is potentially unsafe during a stream capture (pytorch #104487 saw captures end)",
    ),
    word(
        "stream_query_in_capture",
        &["unsafe", "safe"],
        "unsafe",
        "whether cuStreamQuery of another stream is potentially unsafe during a stream capture",
    ),
    word(
        "stream_questions_in_capture",
        &["unsafe", "safe"],
        "unsafe",
        "whether cuStreamGetCtx and its relatives end the capture of the stream that they query (NVIDIA/cccl #9119 \
         saw cuStreamGetDevice do so), and are potentially unsafe for any other stream",
    ),
    word(
        "event_create_in_capture",
        &["safe", "unsafe"],
        "safe",
        "whether cuEventCreate and cuStreamCreate are potentially unsafe during a stream capture",
    ),
    word(
        "sync_in_capture",
        &["unsafe", "safe"],
        "unsafe",
        "whether synchronizing with a stream or event is potentially unsafe during a stream capture",
    ),
    word(
        "free_in_capture",
        &["unsafe", "safe"],
        "unsafe",
        "whether cuMemFree and its relatives are potentially unsafe during a stream capture",
    ),
    word(
        "module_load_in_capture",
        &["unsafe", "safe"],
        "unsafe",
        "whether loading a module is potentially unsafe during a stream capture",
    ),
    word(
        "event_sync_invalidates",
        &["yes", "no"],
        "yes",
        "whether synchronizing with an event that was recorded in a stream capture invalidates the capture",
    ),
    word(
        "event_needs_context",
        &["no", "yes"],
        "no",
        "whether cuEventQuery, cuEventSynchronize and cuEventElapsedTime need a current context",
    ),
    word(
        "null_sync",
        &["blocking", "own"],
        "blocking",
        "whether synchronizing with the legacy stream also waits for the blocking streams of its context",
    ),
    word(
        "free",
        &["synchronizes", "returns"],
        "synchronizes",
        "whether cuMemFree waits for the work of its context",
    ),
    word(
        "load_waits",
        &["yes", "no"],
        "yes",
        "whether loading a module waits for the work of its context, as an H200 does",
    ),
    word(
        "batch_in_capture",
        &["refused", "copied"],
        "refused",
        "whether a batch of copies is refused in a stream capture, which goes on, or becomes one node for each copy",
    ),
    word(
        "unmap_many",
        &["allowed", "refused"],
        "allowed",
        "whether one cuMemUnmap may cover several adjacent mappings (cuda.h: \"the entire range that was mapped \
         to\")",
    ),
    word(
        "green_events",
        &["primary", "own"],
        "primary",
        "where an event may be recorded: on any stream of its primary context and of that context's green contexts \
         (cuda.h says so for cuGreenCtxRecordEvent, and the runtime has no other events), or only in the context \
         that created it",
    ),
    word(
        "callback_api",
        &["refused", "allowed"],
        "refused",
        "whether CUDA calls inside host functions fail with NOT_PERMITTED",
    ),
    word(
        "pageable_async",
        &["staged", "asynchronous"],
        "staged",
        "whether an asynchronous copy of pageable memory blocks its caller",
    ),
    word(
        "load_lock",
        &["most", "none", "all"],
        "most",
        "which calls of other threads wait while a module is loaded, which may include compiling it: all but queries of \
         events and streams and elapsed times, as measured, or none, or all",
    ),
    number(
        "question_lock",
        "0",
        "ns for which cuEventQuery sleeps while it holds a lock that launches of other threads need",
    ),
    word(
        "stale_handles",
        &["events", "refused", "crash"],
        "events",
        "what happens on use of a destroyed stream, event or context: a crash for events and an error for the others \
         (driver 580 on an H200), an error, or a crash (cuStreamIsCapturing crashed on driver 590 in lupine #441)",
    ),
    word(
        "kernel_handles",
        &["refused", "either", "crash"],
        "refused",
        "what a function for a CUfunction does with a CUkernel, and the reverse (cuFuncGetAttribute refused a \
         CUkernel in accel-sim-framework #521)",
    ),
    word(
        "captured_kernel",
        &["both", "kernel", "function", "cast"],
        "both",
        "what the parameters of a captured launch of a CUkernel contain: its CUfunction in `func` and the CUkernel \
         in `kern`, only one of them, or the CUkernel in `func`",
    ),
    word(
        "runtime_kernels",
        &["shown", "hidden"],
        "shown",
        "whether the runtime loads code and finds its kernels by functions that it looks up by name, or by the \
         driver's export tables",
    ),
    word(
        "runtime_primary",
        &["shown", "hidden"],
        "shown",
        "whether the runtime retains, releases and resets primary contexts by functions that it looks up by name, \
         or by the driver's export tables, as CUDA 11's does",
    ),
    word(
        "connections",
        &["queues", "streams"],
        "queues",
        "whether work that waits at the head of its stream also delays the other streams on its hardware queue (a \
         context's streams take its CUDA_DEVICE_MAX_CONNECTIONS queues in turn, with their first work)",
    ),
    word(
        "other_binaries",
        &["taken", "compiled"],
        "taken",
        "which versions functions report for a fat binary without code for the device's architecture: those of its \
         newest code, which cannot run, or those of its PTX compiled for the device, as on real hardware",
    ),
    word(
        "launch_events",
        &["nominal", "late"],
        "nominal",
        "whether programmatic and launch completion events fire as soon as they may, or when the kernel ends",
    ),
    word(
        "negative_elapsed",
        &["signed", "refused"],
        "signed",
        "what cuEventElapsedTime returns when its start is later than its end: a negative time, or INVALID_VALUE",
    ),
    number(
        "programmatic_trigger",
        "100",
        "percentage of its length at which a kernel triggers its dependents (`_trigger<N>` in its name overrides \
         it)",
    ),
    number(
        "staging_bytes",
        "65536",
        "largest pageable host-to-device copy, in bytes, that returns as soon as it is staged",
    ),
    number(
        "launch_queue",
        "1020",
        "entries that a stream takes before a call blocks (1020 on an H200: 1024 less four, also where the queue is scaled)",
    ),
    number("pinned_mbps", "25000", "MB/s of copies between page-locked host memory and a device"),
    number("pageable_mbps", "6000", "MB/s of copies between pageable host memory and a device"),
    number("device_mbps", "1500000", "MB/s of copies within a device, and of memsets"),
    number("peer_mbps", "100000", "MB/s of copies between devices"),
    number("copy_ns", "1500", "ns that every copy takes in addition to its bytes"),
    number("set_ns", "1200", "ns that every memset takes in addition to its bytes"),
    number("while_loops", "3", "iterations of a conditional node's loop that no kernel ends"),
    number("poll_ns", "20000", "ns between two polls of a value that a stream waits for"),
];

/// The list for a person to read, one line for each assumption.
pub fn text() -> String {
    let line = |assumption: &Assumption| {
        let Assumption { name, default, values, meaning } = assumption;
        let values = if values.is_empty() { "a number".to_owned() } else { values.join("|") };
        format!("{name}={default}  ({values})  {meaning}\n")
    };
    ALL.iter().map(line).collect()
}

/// The settings in force.
#[derive(Clone, Debug)]
pub struct Assume {
    words: HashMap<&'static str, &'static str>,
    numbers: HashMap<&'static str, u64>,
}

impl Assume {
    /// Reads `name=value,…` over the defaults; an error names the unknown word.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut set = Self { words: HashMap::new(), numbers: HashMap::new() };
        for assumption in ALL {
            set.set(assumption, assumption.default)?;
        }
        for pair in text.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').ok_or_else(|| format!("{pair}: not name=value"))?;
            let assumption = ALL
                .iter()
                .find(|known| known.name == name)
                .ok_or_else(|| format!("{name}: no such assumption"))?;
            set.set(assumption, value)?;
        }
        Ok(set)
    }

    fn set(&mut self, assumption: &'static Assumption, value: &str) -> Result<(), String> {
        let wrong = || format!("{}={value}: not one of {:?}", assumption.name, assumption.values);
        if assumption.values.is_empty() {
            self.numbers.insert(assumption.name, value.parse().map_err(|_| wrong())?);
        } else {
            let word = assumption.values.iter().find(|&&known| known == value).ok_or_else(wrong)?;
            self.words.insert(assumption.name, word);
        }
        Ok(())
    }

    /// Whether the assumption `name` is set to `value`. Both must be in [`ALL`].
    pub fn is(&self, name: &str, value: &str) -> bool {
        self.words[name] == value
    }

    /// The number `name`, which must be in [`ALL`].
    pub fn number(&self, name: &str) -> u64 {
        self.numbers[name]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_override_the_defaults_and_unknown_ones_are_refused() {
        let assume = Assume::parse("elapsed=multiplied,launch_queue=8").unwrap();
        assert!(assume.is("elapsed", "multiplied") && assume.is("submit", "end"));
        assert_eq!((assume.number("launch_queue"), assume.number("set_ns")), (8, 1200));
        for wrong in ["elapse=rounded", "elapsed=exact", "launch_queue=many", "submit"] {
            assert!(Assume::parse(wrong).is_err(), "{wrong}");
        }
    }

    /// The rows of `sim/README.md`'s table of assumptions.
    fn table() -> String {
        let row = |assumption: &Assumption| {
            let Assumption { name, default, values, meaning } = assumption;
            let values =
                if values.is_empty() { "a number".to_owned() } else { format!("`{}`", values.join("`, `")) };
            format!("| `{name}` | {values} | `{default}` | {meaning} |\n")
        };
        ALL.iter().map(row).collect()
    }

    #[test]
    fn the_readme_lists_every_assumption() {
        const START: &str = "<!-- Assumptions: written by GPUSPY_UPDATE=1 cargo test -p simcuda readme -->\n";
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../README.md");
        let text = std::fs::read_to_string(path).unwrap();
        let (before, rest) = text.split_once(START).expect("the README has the table's mark");
        let (_, after) = rest.split_once("<!-- End -->\n").expect("the table's end is marked");
        let head = "| word | values | default | what it decides |\n|---|---|---|---|\n";
        let new = format!("{before}{START}{head}{}<!-- End -->\n{after}", table());
        if std::env::var_os("GPUSPY_UPDATE").is_some() {
            std::fs::write(path, new).unwrap();
            return;
        }
        assert!(new == text, "sim/README.md is out of date: GPUSPY_UPDATE=1 cargo test -p simcuda readme");
    }
}
