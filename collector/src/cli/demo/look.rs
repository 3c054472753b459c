//! What to look at: for each phase a finding with figures of its own period, where the report and Perfetto show it, and how to
//! fix it.

use super::phases::{Phase, Window};
use crate::analyze::calls::HostTimes;
use crate::analyze::identity::{Class, Identity};
use crate::analyze::transfers::Transfer;
use crate::analyze::{self, Damage, Input, Tables};
use crate::model::filter::Filter;
use crate::model::survey::Survey;
use crate::model::transfer::{HostMemory, TransferKind};
use crate::report::units::{bytes, count, duration, percent};
use crate::trace::{TraceError, TraceReader};
use std::path::Path;

/// A phase, and the analyses of its period.
#[derive(Debug)]
pub(super) struct Picture {
    window: Window,
    /// The period, in ns from the start of the collection.
    since: u64,
    until: u64,
    tables: Tables,
    /// How much device memory grew, in bytes; 0 for phases whose finding does not mention it.
    grown: u64,
}

/// Analyses each window of a trace.
pub(super) fn pictures(trace: &Path, windows: &[Window]) -> Result<Vec<Picture>, TraceError> {
    let mut reader = TraceReader::open(trace)?;
    let clocks = Survey::of(reader.records());
    let (names, status) = (reader.names().clone(), reader.status().cloned());
    let began = status.as_ref().map_or(0, |status| status.began);
    let mut tables = |since, until| {
        let filter = Filter { since, until, ..Filter::default() };
        let input = Input {
            path: trace.display().to_string(),
            names: &names,
            status: status.as_ref(),
            damage: Damage::default(),
            clocks: &clocks,
            filter: &filter,
            records: reader.records(),
        };
        analyze::process(input).tables
    };
    let picture = |window: &Window| {
        let (since, until) = (window.begin.saturating_sub(began), window.end.saturating_sub(began));
        let live = |tables: &Tables| tables.memory.device.live_bytes;
        // This takes another pass over the trace, for the one phase that needs it.
        let before = (window.phase == Phase::GrowingMemory).then(|| live(&tables(None, Some(since))));
        let tables = tables(Some(since), Some(until));
        let grown = before.map_or(0, |before| live(&tables).saturating_sub(before));
        Picture { window: *window, since, until, tables, grown }
    };
    Ok(windows.iter().map(picture).collect())
}

/// Returns the findings of all phases, in lines of at most `width` columns.
pub(super) fn text(pictures: &[Picture], width: usize) -> String {
    let mut text = "What to look at\n".to_owned();
    for picture in pictures {
        let Picture { window, since, until, .. } = picture;
        let seconds = |ns: u64| format!("{:.3}", ns as f64 / 1e9);
        let name = window.phase.name();
        text.push_str(&format!("\n{name:<16}{} .. {} s\n", seconds(*since), seconds(*until)));
        let Advice { finding, place, fix } = advice(picture, pictures);
        wrap(&mut text, "    ", &finding, width);
        wrap(&mut text, "    where   ", place, width);
        wrap(&mut text, "    fix     ", fix, width);
    }
    text
}

/// The finding of a phase.
struct Advice {
    /// A sentence with figures.
    finding: String,
    /// Where the report and Perfetto show it.
    place: &'static str,
    /// How to fix it.
    fix: &'static str,
}

fn advice(picture: &Picture, all: &[Picture]) -> Advice {
    let (finding, place, fix) = match picture.window.phase {
        Phase::Input => (
            input(picture),
            "Transfers, HtoD pageable, and exposed copies under GPU 0; in Perfetto \"Memcpy HtoD (Pageable -> Device)\" \
             before each input_forward",
            "use pinned memory for the batches, and copy on a separate stream, as phase overlap does",
        ),
        Phase::SmallKernels => (
            small_kernels(picture),
            "idle under GPU 0, and cuLaunchKernel under Calls; in Perfetto the gaps between the kernels small_kernels_2us, \
             each with a launch call",
            "fuse the kernels, or launch them as a CUDA graph, as phase graph does",
        ),
        Phase::SyncPerStep => (
            sync_per_step(picture),
            "Gaps, after DtoH 4 B, and Calls; in Perfetto the gap after each \"Memcpy DtoH (Device -> Pageable)\", during \
             which there is no call",
            "keep losses on the GPU and read them every hundred steps, or log in another thread",
        ),
        Phase::GrowingMemory => (
            growing_memory(picture),
            "Memory, and cuMemFree under Calls; in Perfetto the counter of device memory, which grows in steps",
            "free what is no longer needed; allocate the workspace once, or from a pool (cuMemAllocAsync)",
        ),
        Phase::Graph => (
            graph(picture, find(all, Phase::SmallKernels)),
            "graphs under GPU 0; in Perfetto one bar per step with hardly a gap after it",
            "none needed: this is the fix of small-kernels",
        ),
        Phase::Overlap => (
            overlap(picture, find(all, Phase::Input)),
            "Transfers, HtoD pinned; in Perfetto \"Memcpy HtoD (Pinned -> Device)\" on a separate row, parallel to kernels",
            "none needed: this is the fix of input",
        ),
    };
    Advice { finding, place, fix }
}

fn find(all: &[Picture], phase: Phase) -> Option<&Picture> {
    all.iter().find(|picture| picture.window.phase == phase)
}

fn input(picture: &Picture) -> String {
    format!(
        "{} from pageable memory delay the kernels that wait for them: exposed copies are {} of the GPU's time, and it is \
         idle for {}.",
        picture.copies(TransferKind::HtoD, HostMemory::Pageable),
        picture.share(Class::Copy),
        picture.idle(),
    )
}

fn small_kernels(picture: &Picture) -> String {
    let launches = picture.calls("cuLaunchKernel");
    let gaps = &picture.tables.gaps;
    format!(
        "{} kernels of {} are launched one by one, {} per call: the GPU is idle for {}, {} before each kernel on average.",
        count(launches.count),
        picture.median_kernel(),
        each(launches.total, launches.count),
        picture.idle(),
        each(gaps.total.value, gaps.count),
    )
}

fn sync_per_step(picture: &Picture) -> String {
    let (reads, waits) = (picture.calls("cuMemcpyDtoHAsync"), picture.calls("cuStreamSynchronize"));
    let gaps = &picture.tables.gaps;
    format!(
        "{} reads of the loss take {} of host time for synchronization, and the GPU has no work while the host logs: it is \
         idle for {}, in {} gaps of {} on average.",
        count(reads.count),
        duration(reads.total + waits.total),
        picture.idle(),
        count(gaps.count),
        each(gaps.total.value, gaps.count),
    )
}

fn growing_memory(picture: &Picture) -> String {
    let frees = picture.calls("cuMemFree");
    format!(
        "Device memory grows by {} in {} steps; a block is freed {} times, and cuMemFree, which waits for the GPU, takes {} \
         of host time.",
        bytes(picture.grown),
        picture.window.steps,
        count(frees.count),
        duration(frees.total),
    )
}

fn graph(picture: &Picture, one_by_one: Option<&Picture>) -> String {
    let graphs = &picture.tables.graphs;
    let mut finding = format!(
        "{} launches of a graph run {} kernels, one every {}, and the GPU is idle for {}",
        count(graphs.launches),
        count(graphs.kernels),
        each(picture.identity().span, graphs.kernels),
        picture.idle(),
    );
    if let Some(other) = one_by_one {
        let launches = other.calls("cuLaunchKernel").count;
        let pace = |span: u64, kernels: u64| span as f64 / kernels.max(1) as f64;
        let (slow, fast) =
            (pace(other.identity().span, launches), pace(picture.identity().span, graphs.kernels));
        finding.push_str(&format!(
            "; launched one by one, it was one every {}: {:.1} times faster",
            each(other.identity().span, launches),
            slow / fast.max(1.0)
        ));
    }
    finding + "."
}

fn overlap(picture: &Picture, one_after_the_other: Option<&Picture>) -> String {
    let mut finding = format!(
        "{} from pinned memory overlap with the kernels: exposed copies are {} of the GPU's time, it is idle for {}",
        picture.copies(TransferKind::HtoD, HostMemory::Pinned),
        picture.share(Class::Copy),
        picture.idle(),
    );
    if let Some(other) = one_after_the_other {
        finding.push_str(&format!(
            ", and a step takes {} instead of {}",
            each(picture.identity().span, picture.window.steps.into()),
            each(other.identity().span, other.window.steps.into())
        ));
    }
    finding + "."
}

impl Picture {
    /// Returns where the GPU's time went. The workload uses one GPU.
    fn identity(&self) -> Identity {
        let device = self.tables.devices.iter().find(|device| device.timelines > 0);
        device.map(|device| device.identity).unwrap_or_default()
    }

    fn share(&self, class: Class) -> String {
        let identity = self.identity();
        percent(identity.busy[class as usize].value, identity.span)
    }

    fn idle(&self) -> String {
        let identity = self.identity();
        percent(identity.idle.value, identity.span)
    }

    fn calls(&self, name: &str) -> HostTimes {
        self.tables.apis.get(name).cloned().unwrap_or_default()
    }

    fn median_kernel(&self) -> String {
        let median = self.tables.kernels.first().and_then(|kernel| kernel.durations.median());
        median.map_or_else(|| "unknown length".to_owned(), |median| duration(median.value))
    }

    /// Returns how many copies there were, how large, and how fast.
    fn copies(&self, kind: TransferKind, memory: HostMemory) -> String {
        let copies: Transfer = self.tables.transfers.get(&(kind, memory)).cloned().unwrap_or_default();
        let speed = copies.gbps().and_then(|gbps| gbps.value);
        format!(
            "{} copies of {}{}",
            count(copies.count),
            bytes(copies.bytes / copies.count.max(1)),
            speed.map_or_else(String::new, |speed| format!(" at {speed:.1} GB/s"))
        )
    }
}

/// Returns the average of a total time.
fn each(total: u64, count: u64) -> String {
    duration(total / count.max(1))
}

/// Adds a paragraph. Its first line starts with `head`; the others are indented as far.
fn wrap(text: &mut String, head: &str, paragraph: &str, width: usize) {
    let indent = " ".repeat(head.len());
    let mut line = head.to_owned();
    let mut is_empty = true;
    for word in paragraph.split(' ') {
        if !is_empty && line.chars().count() + 1 + word.chars().count() > width {
            text.push_str(line.trim_end());
            text.push('\n');
            line.clone_from(&indent);
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
        }
        line.push_str(word);
        is_empty = false;
    }
    text.push_str(line.trim_end());
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyze::devices::DeviceReport;
    use crate::analyze::estimate::Sum;
    use crate::analyze::graphs::GraphUse;
    use crate::model::CountedCall;

    /// Returns a phase of four steps on a GPU with this span and idle time, in ns.
    fn picture(phase: Phase, span: u64, idle: u64) -> Picture {
        let sum = |value| Sum { value, lo: value, hi: value };
        let identity = Identity { span, idle: sum(idle), ..Identity::default() };
        let device = DeviceReport { identity, timelines: 1, ..DeviceReport::default() };
        Picture {
            window: Window { phase, begin: 0, end: span, steps: 4 },
            since: 1_500_000,
            until: 1_500_000 + span,
            tables: Tables { devices: vec![device], ..Tables::default() },
            grown: 8 << 20,
        }
    }

    #[test]
    fn a_fix_is_compared_with_its_problem() {
        let mut slow = picture(Phase::SmallKernels, 4_000_000, 3_000_000);
        let mut launches = HostTimes::default();
        for _ in 0..800 {
            launches.add(CountedCall { api: 0, calls: 1, host_ns: 5_000, failed: false });
        }
        slow.tables.apis.insert("cuLaunchKernel".to_owned(), launches);
        let mut fast = picture(Phase::Graph, 2_000_000, 400_000);
        fast.tables.graphs = GraphUse { launches: 4, kernels: 800, ..GraphUse::default() };
        let alone =
            "4 launches of a graph run 800 kernels, one every 2.50 µs, and the GPU is idle for 20.0 %";
        assert_eq!(graph(&fast, None), format!("{alone}."));
        let compared = "; launched one by one, it was one every 5.00 µs: 2.0 times faster.";
        assert_eq!(graph(&fast, Some(&slow)), format!("{alone}{compared}"));
        assert!(
            small_kernels(&slow).ends_with(
                "5.00 µs per call: the GPU is idle for 75.0 %, 0 ns before each kernel on average."
            )
        );

        let (input, overlap) = (picture(Phase::Input, 8_000_000, 0), picture(Phase::Overlap, 4_000_000, 0));
        assert!(
            advice(&overlap, &[input, picture(Phase::Graph, 1, 0)])
                .finding
                .ends_with("a step takes 1.00 ms instead of 2.00 ms.")
        );
    }

    #[test]
    fn every_phase_has_its_lines_even_without_data() {
        let pictures = Phase::ALL.map(|phase| Picture { tables: Tables::default(), ..picture(phase, 0, 0) });
        let text = text(&pictures, 80);
        for phase in Phase::ALL {
            assert!(text.contains(&format!("\n\n{:<16}0.002 .. 0.002 s\n    ", phase.name())), "{text}");
        }
        assert!(text.contains("Device memory grows by 8.00 MiB in 4 steps;"), "{text}");
        assert_eq!((text.matches("\n    where   ").count(), text.matches("\n    fix     ").count()), (6, 6));
        assert!(text.lines().all(|line| line.chars().count() <= 80 && line == line.trim_end()), "{text}");
    }

    #[test]
    fn paragraphs_are_wrapped_between_words() {
        for (width, expected) in [
            (11, "  a one two\n    three\n    indivisible\n"),
            (10, "  a one\n    two\n    three\n    indivisible\n"),
        ] {
            let mut text = String::new();
            wrap(&mut text, "  a ", "one two three indivisible", width);
            assert_eq!(text, expected, "{width}");
        }
    }
}
