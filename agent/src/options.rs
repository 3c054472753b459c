//! The settings in the environment: how operations are timed.

use core::ffi::CStr;
use gpuspy_wire::capture_range::CaptureRange;

/// Which operations are timed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// Operations in windows, within a budget (`crate::gpu::budget`).
    Auto,
    /// All operations.
    Exact,
    /// No operation.
    Off,
}

/// The values of `GPUSPY_TIMING`, `GPUSPY_BUDGET`, `GPUSPY_GRAPH` and `GPUSPY_CAPTURE_RANGE`.
pub struct Options {
    pub mode: Mode,
    /// The most that the agent may cost, in percent of wall time: above 0, at most 100.
    pub percent: f64,
    /// Whether windows are sparse: short and far apart, whatever they cost.
    pub is_sparse: bool,
    /// Why the settings differ from the variables: the number of one of [`NOTES`], from 1; 0 = they do not differ.
    pub note: u8,
    /// The part of the run that is recorded, the text of a [`CaptureRange`]; `None` = all of it.
    pub range: Option<&'static str>,
    /// `GPUSPY_CAPTURE_RANGE` has a value that cannot be read as a [`CaptureRange`].
    pub is_bad_range: bool,
    /// The kernels in graph launches are timed, too (`GPUSPY_GRAPH=nodes`).
    pub times_nodes: bool,
    /// `GPUSPY_GRAPH` has a value that it cannot have.
    pub is_bad_graph: bool,
    /// The program's NVTX ranges go to another tool.
    pub is_nvtx_elsewhere: bool,
}

/// CUDA C++ Programming Guide, "CUDA Environment Variables": 1 to 32, and 8 by default.
const CONNECTIONS: u32 = 8;
/// NVIDIA's documentation of MPS, "CUDA_DEVICE_MAX_CONNECTIONS": the default of its clients since Volta.
const CONNECTIONS_OF_MPS: u32 = 2;

/// The number of hardware queues of each context. Valid when zero.
#[derive(Clone, Copy)]
pub struct Connections {
    /// What `CUDA_DEVICE_MAX_CONNECTIONS` says; 0 = nothing.
    set: u32,
}

impl Connections {
    /// Reads the variable's value.
    pub fn read(text: Option<&CStr>) -> Connections {
        let number: Option<u32> = text.and_then(|text| text.to_str().ok()?.trim().parse().ok());
        Connections { set: number.map_or(0, |number| number.clamp(1, 32)) }
    }

    /// Returns the number of a context. `is_mps` says whether its device is used through MPS, and is called only where
    /// the variable says nothing.
    pub fn number(self, is_mps: impl FnOnce() -> bool) -> u32 {
        match self.set {
            0 if is_mps() => CONNECTIONS_OF_MPS,
            0 => CONNECTIONS,
            set => set,
        }
    }
}

/// The default budget.
const PERCENT: f64 = 5.0;

const BAD_TIMING: u8 = 1;
const BAD_BUDGET: u8 = 2;
const ONE_CONNECTION: u8 = 3;
const ONE_CONNECTION_UNASKED: u8 = 4;
const NOTES: [&str; 4] = [
    "GPUSPY_TIMING is not one of auto, exact and off: auto is used",
    "GPUSPY_BUDGET is not a percentage above 0 and up to 100: the budget is 5 %",
    "CUDA_DEVICE_MAX_CONNECTIONS=1: with one hardware queue, timing events make streams wait for each other, so at most a tenth of each second is timed",
    "CUDA_DEVICE_MAX_CONNECTIONS=1: with one hardware queue, timing events make streams wait for each other, so nothing is timed unless --timing auto requests it",
];
const CROWDED: &str = "more streams have had work than there are hardware queues (CUDA_DEVICE_MAX_CONNECTIONS): timing events could make streams that share a queue \
                       wait for each other, so at most a tenth of each second is timed";
const BAD_RANGE: &str = "GPUSPY_CAPTURE_RANGE is not one of profiler-api, nvtx:NAME, nvtx:NAME@DOMAIN and delay=SECONDS[,duration=SECONDS]: the \
                         whole run is recorded";
const BAD_GRAPH: &str = "GPUSPY_GRAPH is not one of launches and nodes: launches is used";
const NVTX_ELSEWHERE: &str = "NVTX_INJECTION64_PATH names another tool than libgpuspy.so: the program's NVTX ranges go to that \
                              tool and are not recorded";

impl Options {
    /// Returns the defaults with this mode.
    #[cfg(test)]
    pub fn of(mode: Mode) -> Options {
        Options {
            mode,
            percent: PERCENT,
            is_sparse: false,
            note: 0,
            range: None,
            is_bad_range: false,
            times_nodes: false,
            is_bad_graph: false,
            is_nvtx_elsewhere: false,
        }
    }

    /// Reads the variables' values.
    pub fn read(timing: Option<&CStr>, budget: Option<&CStr>, connections: Option<&CStr>) -> Options {
        let mut note = 0;
        let mut mode = match timing.map(CStr::to_bytes) {
            None | Some(b"" | b"auto") => Mode::Auto,
            Some(b"exact") => Mode::Exact,
            Some(b"off") => Mode::Off,
            Some(_) => {
                note = BAD_TIMING;
                Mode::Auto
            }
        };
        // With one connection, timing events end the overlap of streams (TransformerEngine #1353). Work after a
        // collective that waits for its peer would then wait too, so events are used only if --timing auto requests them.
        let one_connection = mode != Mode::Off && Connections::read(connections).set == 1;
        if one_connection && timing.is_none_or(CStr::is_empty) {
            (mode, note) = (Mode::Off, ONE_CONNECTION_UNASKED);
        } else if one_connection {
            (mode, note) = (Mode::Auto, ONE_CONNECTION);
        }
        let setting = budget.filter(|b| !b.is_empty());
        let percent = setting.map(|b| b.to_str().ok().and_then(percent));
        if mode == Mode::Auto && percent == Some(None) {
            note = BAD_BUDGET;
        }
        let percent = percent.flatten().unwrap_or(PERCENT);
        Options {
            mode,
            percent,
            is_sparse: one_connection,
            note,
            range: None,
            is_bad_range: false,
            times_nodes: false,
            is_bad_graph: false,
            is_nvtx_elsewhere: false,
        }
    }

    /// Adds the part of the run that the variable names. Its text is copied, once in a session, since the app may
    /// change its environment.
    pub fn in_range(self, range: Option<&CStr>) -> Options {
        let Some(setting) = range.filter(|range| !range.is_empty()) else { return self };
        let text = setting.to_str().ok().filter(|text| CaptureRange::parse(text).is_some());
        let range = text.map(|text| &*Box::leak(Box::<str>::from(text)));
        Options { range, is_bad_range: range.is_none(), ..self }
    }

    /// Adds whether the kernels in graph launches are timed, as the variable says.
    pub fn with_graphs(self, graph: Option<&CStr>) -> Options {
        let (times_nodes, is_bad_graph) = match graph.map(CStr::to_bytes) {
            None | Some(b"" | b"launches") => (false, false),
            Some(b"nodes") => (true, false),
            Some(_) => (false, true),
        };
        Options { times_nodes, is_bad_graph, ..self }
    }

    /// Adds whether the library that the program's copies of NVTX load is another one. Comparing file names is enough:
    /// to find our own file, we would have to call the loader, which could wait.
    pub fn with_nvtx_tool(self, path: Option<&CStr>) -> Options {
        let file = path.and_then(|path| path.to_bytes().rsplit(|byte| *byte == b'/').next());
        let is_nvtx_elsewhere = file.is_some_and(|file| !file.is_empty() && file != b"libgpuspy.so");
        Options { is_nvtx_elsewhere, ..self }
    }

    /// Returns the part of the run that is observed; `None` = all of it.
    pub fn range(&self) -> Option<CaptureRange<'static>> {
        CaptureRange::parse(self.range?)
    }

    /// Returns why operations are not timed or observed as the variables say. `is_crowded`: streams of the program
    /// share hardware queues.
    pub fn note(&self, is_crowded: bool) -> Option<String> {
        let timing = usize::from(self.note).checked_sub(1).and_then(|note| NOTES.get(note)).copied();
        let crowded = (is_crowded && !self.is_sparse).then_some(CROWDED);
        let bad_range = self.is_bad_range.then_some(BAD_RANGE);
        let bad_graph = self.is_bad_graph.then_some(BAD_GRAPH);
        let elsewhere = self.is_nvtx_elsewhere.then_some(NVTX_ELSEWHERE);
        let others = crowded.into_iter().chain(bad_range).chain(bad_graph).chain(elsewhere);
        let notes: Vec<&str> = timing.into_iter().chain(others).collect();
        (!notes.is_empty()).then(|| notes.join("; "))
    }
}

/// Reads a percentage above 0 and up to 100.
fn percent(text: &str) -> Option<f64> {
    text.parse().ok().filter(|p| *p > 0.0 && *p <= 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_cannot_be_read_means_the_default_and_is_reported() {
        let read = |timing, budget, connections| {
            let options = Options::read(timing, budget, connections);
            (options.mode, options.percent, options.note)
        };
        assert_eq!(read(None, None, None), (Mode::Auto, 5.0, 0));
        assert_eq!(read(Some(c"exact"), Some(c"2"), Some(c"8")), (Mode::Exact, 2.0, 0));
        assert_eq!(read(Some(c"off"), Some(c"x"), Some(c"1")), (Mode::Off, 5.0, 0));
        assert_eq!(read(Some(c"on"), Some(c"0.5"), None), (Mode::Auto, 0.5, BAD_TIMING));
        for bad in [c"0", c"-1", c"100.5", c"nan", c"inf", c"5%", c"five"] {
            assert_eq!(read(Some(c"auto"), Some(bad), None), (Mode::Auto, 5.0, BAD_BUDGET), "{bad:?}");
        }
        assert_eq!(read(Some(c"exact"), Some(c"100"), Some(c"1")), (Mode::Auto, 100.0, ONE_CONNECTION));
        assert_eq!(read(Some(c"auto"), None, Some(c"1")), (Mode::Auto, 5.0, ONE_CONNECTION));
        assert!(Options::read(Some(c"auto"), None, Some(c"1")).is_sparse);
        for unasked in [None, Some(c"")] {
            assert_eq!(read(unasked, None, Some(c"1")), (Mode::Off, 5.0, ONE_CONNECTION_UNASKED));
        }
    }

    #[test]
    fn a_client_of_mps_has_two_hardware_queues_unless_the_variable_says_how_many() {
        let number = |text, is_mps| Connections::read(text).number(|| is_mps);
        for unsaid in [None, Some(c""), Some(c"many")] {
            assert_eq!((number(unsaid, false), number(unsaid, true)), (8, 2), "{unsaid:?}");
        }
        for (text, said) in [(c"0", 1), (c"1", 1), (c" 4", 4), (c"99", 32)] {
            assert_eq!((number(Some(text), false), number(Some(text), true)), (said, said), "{text:?}");
        }
    }

    #[test]
    fn every_note_has_a_sentence() {
        let note = |note| Options { note, ..Options::of(Mode::Auto) }.note(false);
        assert_eq!(note(0), None);
        assert!(note(BAD_TIMING).unwrap().starts_with("GPUSPY_TIMING"));
        assert!(note(BAD_BUDGET).unwrap().starts_with("GPUSPY_BUDGET"));
        for one_connection in [ONE_CONNECTION, ONE_CONNECTION_UNASKED] {
            assert!(note(one_connection).unwrap().starts_with("CUDA_DEVICE_MAX_CONNECTIONS"));
        }
        let both =
            Options { note: BAD_BUDGET, is_bad_range: true, ..Options::of(Mode::Auto) }.note(false).unwrap();
        assert!(both.starts_with("GPUSPY_BUDGET") && both.contains("; GPUSPY_CAPTURE_RANGE"), "{both}");
    }

    /// It was taken for `launches`, without a word.
    #[test]
    fn a_graph_setting_that_cannot_be_read_means_launches_and_is_reported() {
        let read = |text| Options::of(Mode::Exact).with_graphs(text);
        for launches in [None, Some(c""), Some(c"launches")] {
            assert_eq!(
                (read(launches).times_nodes, read(launches).note(false)),
                (false, None),
                "{launches:?}"
            );
        }
        assert_eq!((read(Some(c"nodes")).times_nodes, read(Some(c"nodes")).note(false)), (true, None));
        for bad in [c"node", c"NODES", c"1", c"\xff"] {
            assert!(!read(Some(bad)).times_nodes, "{bad:?}");
            assert!(read(Some(bad)).note(false).unwrap().starts_with("GPUSPY_GRAPH"), "{bad:?}");
        }
    }

    #[test]
    fn ranges_that_go_to_another_tool_are_reported() {
        let note = |path| Options::of(Mode::Exact).with_nvtx_tool(path).note(false);
        for ours in [None, Some(c""), Some(c"libgpuspy.so"), Some(c"/opt/gpuspy/libgpuspy.so")] {
            assert_eq!(note(ours), None, "{ours:?}");
        }
        for other in [c"/opt/tool.so", c"tool.so", c"/opt/notlibgpuspy.so"] {
            assert!(note(Some(other)).unwrap().starts_with("NVTX_INJECTION64_PATH"), "{other:?}");
        }
    }

    #[test]
    fn a_range_that_cannot_be_read_means_all_of_the_run_and_is_reported() {
        let read = |text| Options::of(Mode::Exact).in_range(text);
        for none in [None, Some(c"")] {
            assert_eq!((read(none).range(), read(none).note(false)), (None, None));
        }
        let delay = Some(CaptureRange::Delay { delay: 1_500_000_000, duration: None });
        assert_eq!((read(Some(c"delay=1.5")).range(), read(Some(c"delay=1.5")).note(false)), (delay, None));
        for bad in [c"nvtx:", c"profiler", c"delay=soon", c"nvtx:\xff"] {
            assert_eq!(read(Some(bad)).range(), None, "{bad:?}");
            assert!(read(Some(bad)).note(false).unwrap().starts_with("GPUSPY_CAPTURE_RANGE"), "{bad:?}");
        }
    }
}
