//! What no document or measurement says. Each rule here is a guess about the real driver, named, and switchable by
//! `SIMCUDA_ASSUME=name=value,…`: what is tested against the simulator has to hold under every setting.

use std::collections::HashMap;

/// One guess.
#[derive(Debug)]
pub struct Assumption {
    /// The name in `SIMCUDA_ASSUME`.
    pub name: &'static str,
    /// What holds unless set.
    pub default: &'static str,
    /// The words it can be set to; empty = a whole number.
    pub values: &'static [&'static str],
    /// What it decides.
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

/// All of them.
pub const ALL: &[Assumption] = &[
    word("submit", &["end", "begin"], "end", "where in the call's host cost its work is submitted"),
    word("elapsed", &["rounded", "multiplied"], "rounded", "ns to float ms: rounded once, or times 1e-6f"),
    word(
        "event_query_in_capture",
        &["unsafe", "safe"],
        "unsafe",
        "cuEventQuery is potentially unsafe (pytorch #104487)",
    ),
    word(
        "stream_query_in_capture",
        &["unsafe", "safe"],
        "unsafe",
        "cuStreamQuery of another stream is potentially unsafe",
    ),
    word(
        "stream_questions_in_capture",
        &["unsafe", "safe"],
        "unsafe",
        "cuStreamGetCtx and its like end the capture of the stream that they ask about (NVIDIA/cccl #9119 saw it of \
         cuStreamGetDevice), and are potentially unsafe of another one",
    ),
    word(
        "event_create_in_capture",
        &["safe", "unsafe"],
        "safe",
        "cuEventCreate and cuStreamCreate are potentially unsafe",
    ),
    word(
        "sync_in_capture",
        &["unsafe", "safe"],
        "unsafe",
        "synchronising with a stream or event is potentially unsafe",
    ),
    word("free_in_capture", &["unsafe", "safe"], "unsafe", "cuMemFree and its like are potentially unsafe"),
    word("module_load_in_capture", &["unsafe", "safe"], "unsafe", "loading a module is potentially unsafe"),
    word(
        "event_sync_invalidates",
        &["yes", "no"],
        "yes",
        "synchronising with an event of a capture invalidates it",
    ),
    word(
        "event_needs_context",
        &["no", "yes"],
        "no",
        "event query, synchronise and elapsed need a current context",
    ),
    word(
        "null_sync",
        &["blocking", "own"],
        "blocking",
        "synchronising the legacy stream waits for blocking streams too",
    ),
    word("free", &["synchronizes", "returns"], "synchronizes", "cuMemFree waits for the context's work"),
    word(
        "batch_in_capture",
        &["refused", "copied"],
        "refused",
        "a batch of copies ends a capture, or becomes a node for each of them",
    ),
    word(
        "unmap_many",
        &["allowed", "refused"],
        "allowed",
        "cuMemUnmap of several mappings that lie side by side (cuda.h: \"the entire range that was mapped to\")",
    ),
    word(
        "green_events",
        &["primary", "own"],
        "primary",
        "an event may be recorded on any stream of its primary context and that one's green contexts (as cuda.h says of \
         cuGreenCtxRecordEvent; the runtime has no other events), or only in the context that it was made in",
    ),
    word(
        "callback_api",
        &["refused", "allowed"],
        "refused",
        "CUDA calls inside host functions fail with NOT_PERMITTED",
    ),
    word(
        "pageable_async",
        &["staged", "asynchronous"],
        "staged",
        "an asynchronous copy of pageable memory blocks the caller",
    ),
    word(
        "load_lock",
        &["free", "held"],
        "free",
        "whether all other calls wait while a module is loaded, which may compile it",
    ),
    number(
        "question_lock",
        "0",
        "ns for which cuEventQuery sleeps with a lock that the launches of other threads wait for",
    ),
    word(
        "stale_handles",
        &["refused", "crash"],
        "refused",
        "what a handle of a stream, event or context that is gone does (cuStreamIsCapturing of one: SIGSEGV on driver 590)",
    ),
    word(
        "kernel_handles",
        &["refused", "either", "crash"],
        "refused",
        "what a question about a CUfunction does with a CUkernel, and the other way round (cuFuncGetAttribute refused a \
         CUkernel in accel-sim-framework #521)",
    ),
    word(
        "captured_kernel",
        &["both", "kernel", "function", "cast"],
        "both",
        "what the node tells that a captured launch of a CUkernel made: its CUfunction in `func` and itself in `kern`, one of \
         the two, or itself in `func`",
    ),
    word(
        "runtime_kernels",
        &["shown", "hidden"],
        "shown",
        "whether the runtime loads code and finds kernels in it by functions that it looks up, or by the driver's export \
         tables",
    ),
    word(
        "runtime_primary",
        &["shown", "hidden"],
        "shown",
        "whether the runtime retains, releases and resets primary contexts by functions that it looks up, or by the \
         driver's export tables, as CUDA 11's does",
    ),
    word(
        "connections",
        &["queues", "streams"],
        "queues",
        "what waits at the head of its stream holds up the streams of its context that share its connection \
         (CUDA_DEVICE_MAX_CONNECTIONS, which they are given in turn), or none",
    ),
    word(
        "other_binaries",
        &["taken", "compiled"],
        "taken",
        "of a fat binary without code for the device's architecture, functions tell the versions of the newest that there \
         is, since none runs, or those of its text, compiled for the device, as a real one does",
    ),
    word(
        "launch_events",
        &["nominal", "late"],
        "nominal",
        "programmatic and launch completion events fire as soon as they may, or when the kernel ends",
    ),
    word(
        "negative_elapsed",
        &["signed", "refused"],
        "signed",
        "cuEventElapsedTime of a later event to an earlier one: negative, or INVALID_VALUE",
    ),
    number(
        "programmatic_trigger",
        "100",
        "% of its length at which a kernel triggers (`_trigger<N>` in its name is N)",
    ),
    number("staging_bytes", "65536", "pageable copies to the device up to this return once staged"),
    number("launch_queue", "1024", "entries a stream holds before a call blocks (OneFlow PR#890: about)"),
    number("pinned_mbps", "25000", "MB/s of a copy engine, page-locked host memory"),
    number("pageable_mbps", "6000", "MB/s of a copy engine, pageable host memory"),
    number("device_mbps", "1500000", "MB/s of copies inside a device, and of sets"),
    number("peer_mbps", "100000", "MB/s of copies between devices"),
    number("copy_ns", "1500", "ns that every copy takes besides"),
    number("set_ns", "1200", "ns that every set takes besides"),
    number("while_loops", "3", "rounds of a conditional node's loop that no kernel ends"),
    number("poll_ns", "20000", "ns between looks at a value that a stream waits for"),
];

/// The list as a person reads it.
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
    /// Reads `name=value,…` over the defaults; an error names what is not known.
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
    fn defaults_hold_until_set_and_unknown_settings_are_refused() {
        let assume = Assume::parse("elapsed=multiplied,launch_queue=8").unwrap();
        assert!(assume.is("elapsed", "multiplied") && assume.is("submit", "end"));
        assert_eq!((assume.number("launch_queue"), assume.number("set_ns")), (8, 1200));
        for wrong in ["elapse=rounded", "elapsed=exact", "launch_queue=many", "submit"] {
            assert!(Assume::parse(wrong).is_err(), "{wrong}");
        }
    }
}
