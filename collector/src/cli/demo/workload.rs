//! The workload of the demo: steps of a training program with several performance problems, each in its own phase, then the
//! fixes of two of them. It is this binary with a hidden command, so nothing else has to be installed.

use super::driver::{Event, Gpu, Kernel, Module, Stream};
use super::kernels::ptx;
use super::phases::{Diary, Phase, Window};
use crate::cli::Failure;
use crate::collect::sys::monotonic_raw;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// The hidden command.
pub(in crate::cli) const COMMAND: &str = "demo-workload";

/// The kernels. A name starts with its phase and ends with its duration.
const KERNELS: [&str; 8] = [
    "input_forward_600us",
    "input_backward_1200us",
    "small_kernels_2us",
    "sync_per_step_1000us",
    "growing_memory_1000us",
    "graph_2us",
    "overlap_forward_600us",
    "overlap_backward_1200us",
];

/// The size of a batch, in bytes. From pageable memory it takes 1.6 to 3 ms on servers of 2017 to 2024.
const BATCH: usize = 16 << 20;

/// The size of a batch that is copied while the model runs, in bytes. The simulator copies real bytes in the thread that
/// waits: this many take less than a step on any host.
const OVERLAPPED_BATCH: usize = 4 << 20;
/// The steps of each phase, so that it takes a third to half a second.
const INPUT_STEPS: u32 = 80;
const SMALL_STEPS: u32 = 150;
const SYNC_STEPS: u32 = 150;
const MEMORY_STEPS: u32 = 200;
const GRAPH_STEPS: u32 = 500;
const OVERLAP_STEPS: u32 = 150;
/// The number of small kernels per step.
const SMALL_KERNELS: u32 = 200;
/// How many steps the host launches before it waits for the first of them, in the phases without a problem: a host that is
/// held up for some ms then does not hold up the GPU.
const AHEAD: usize = 4;
/// How long the host takes to log a loss.
const LOGGING: Duration = Duration::from_millis(1);
/// By how much the cache grows per step, and what each step allocates and frees, in bytes.
const CACHED: usize = 2 << 20;
const SCRATCH: usize = 64 << 20;
/// The pause between phases, so that they are visibly separate.
const PAUSE: Duration = Duration::from_millis(10);

type Done = Result<(), String>;

/// Runs all phases. The error is one sentence for the terminal of the parent.
pub(in crate::cli) fn run() -> Result<ExitCode, Failure> {
    let cannot = |error| Failure::usage(format_args!("the demo's workload failed: {error}"));
    let gpu = Gpu::open().map_err(cannot)?;
    phases(&gpu).and_then(|()| gpu.close()).map_err(cannot)?;
    Ok(ExitCode::SUCCESS)
}

fn phases(gpu: &Gpu) -> Done {
    let diary = Diary::open().map_err(|e| format!("cannot write its phases: {e}"))?;
    let module = gpu.load(&ptx(&KERNELS))?;
    let (stream, data) = (gpu.stream()?, gpu.alloc(BATCH)?);
    let mut training = Training { gpu, module, stream, data, diary };
    training.warm_up()?;
    training.input()?;
    training.small_kernels()?;
    training.sync_per_step()?;
    training.growing_memory()?;
    training.graph()?;
    training.overlap()
}

/// Keeps the processor busy for so long, as a host does that formats and averages what it has read.
fn compute(time: Duration) {
    let begun = Instant::now();
    while begun.elapsed() < time {
        std::hint::spin_loop();
    }
}

/// What all phases use.
struct Training<'g> {
    gpu: &'g Gpu,
    module: Module<'g>,
    stream: Stream,
    /// The data of the kernels: a batch.
    data: u64,
    diary: Diary,
}

impl Training<'_> {
    /// Launches each kernel once, so that the cost of first launches is not part of any phase.
    fn warm_up(&self) -> Done {
        for name in KERNELS {
            self.gpu.launch(self.module.kernel(name)?, self.data, self.stream)?;
        }
        self.gpu.synchronize(self.stream)
    }

    /// Runs the steps of a phase and reports when that was.
    fn phase(&mut self, phase: Phase, steps: u32, mut step: impl FnMut(&Self, usize) -> Done) -> Done {
        std::thread::sleep(PAUSE);
        let begin = monotonic_raw();
        for n in 0..steps as usize {
            step(self, n)?;
        }
        self.gpu.synchronize(self.stream)?;
        let window = Window { phase, begin, end: monotonic_raw() };
        self.diary.write(&window).map_err(|e| format!("cannot write its phases: {e}"))
    }

    /// Makes events for the ends of as many steps as the host is ahead of the GPU.
    fn events(&self) -> Result<[Event; AHEAD], String> {
        let event = || self.gpu.event();
        Ok([event()?, event()?, event()?, event()?])
    }

    fn launch(&self, kernel: Kernel) -> Done {
        self.gpu.launch(kernel, self.data, self.stream)
    }

    /// Simulates `batch.to("cuda")` followed by a model: the call of the copy waits, and so does the model.
    fn input(&mut self) -> Done {
        let batch = vec![1; BATCH];
        let forward = self.module.kernel("input_forward_600us")?;
        let backward = self.module.kernel("input_backward_1200us")?;
        self.phase(Phase::Input, INPUT_STEPS, |training, _| {
            training.gpu.copy_in(training.data, &batch, training.stream)?;
            training.gpu.synchronize(training.stream)?;
            training.launch(forward)?;
            training.launch(backward)
        })
    }

    /// Simulates an optimizer without fused kernels.
    fn small_kernels(&mut self) -> Done {
        let kernel = self.module.kernel("small_kernels_2us")?;
        self.phase(Phase::SmallKernels, SMALL_STEPS, |training, _| {
            (0..SMALL_KERNELS).try_for_each(|_| training.launch(kernel))?;
            training.gpu.synchronize(training.stream)
        })
    }

    /// Simulates `loss.item()` and logging.
    fn sync_per_step(&mut self) -> Done {
        let kernel = self.module.kernel("sync_per_step_1000us")?;
        self.phase(Phase::SyncPerStep, SYNC_STEPS, |training, _| {
            training.launch(kernel)?;
            training.gpu.copy_out(&mut [0; size_of::<f32>()], training.data, training.stream)?;
            training.gpu.synchronize(training.stream)?;
            compute(LOGGING);
            Ok(())
        })
    }

    /// Simulates `losses.append(loss)`, which keeps the autograd graph of each step alive, and a workspace per step.
    fn growing_memory(&mut self) -> Done {
        let kernel = self.module.kernel("growing_memory_1000us")?;
        self.phase(Phase::GrowingMemory, MEMORY_STEPS, |training, _| {
            let workspace = training.gpu.alloc(SCRATCH)?;
            training.gpu.launch(kernel, workspace, training.stream)?;
            training.gpu.free(workspace)?;
            // This is never freed.
            training.gpu.alloc(CACHED).map(drop)
        })
    }

    /// Launches the small kernels as a graph, and waits for earlier steps only.
    fn graph(&mut self) -> Done {
        let kernel = self.module.kernel("graph_2us")?;
        let graph =
            self.gpu.graph(self.stream, || (0..SMALL_KERNELS).try_for_each(|_| self.launch(kernel)))?;
        let done = self.events()?;
        self.phase(Phase::Graph, GRAPH_STEPS, |training, n| {
            let [this, oldest] = [n, n + 1].map(|step| done[step % AHEAD]);
            training.gpu.launch_graph(graph, training.stream)?;
            training.gpu.record(this, training.stream)?;
            training.gpu.synchronize_event(oldest)
        })
    }

    /// Copies the next batch while the model works on this one.
    fn overlap(&mut self) -> Done {
        let gpu = self.gpu;
        let forward = self.module.kernel("overlap_forward_600us")?;
        let backward = self.module.kernel("overlap_backward_1200us")?;
        let (copies, batch) = (gpu.stream()?, gpu.pinned(OVERLAPPED_BATCH)?);
        let inputs = [self.data, gpu.alloc(OVERLAPPED_BATCH)?];
        let (copied, used) = (gpu.event()?, self.events()?);
        self.phase(Phase::Overlap, OVERLAP_STEPS, |training, n| {
            let (model, [this, next]) = (training.stream, [n % 2, (n + 1) % 2]);
            let [before, now, oldest] = [n + AHEAD - 1, n, n + 1].map(|step| used[step % AHEAD]);
            if n == 0 {
                gpu.copy_in(inputs[this], &batch, copies)?;
            }
            gpu.record(copied, copies)?;
            gpu.wait_for(copied, model)?;
            gpu.launch(forward, inputs[this], model)?;
            gpu.launch(backward, inputs[this], model)?;
            gpu.record(now, model)?;
            if n + 1 < OVERLAP_STEPS as usize {
                // The buffer of the previous batch, which the model may still use.
                gpu.wait_for(before, copies)?;
                gpu.copy_in(inputs[next], &batch, copies)?;
            }
            gpu.synchronize_event(oldest)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_are_named_after_their_phases() {
        for kernel in KERNELS {
            let is_named_after = |phase: &Phase| kernel.starts_with(&phase.name().replace('-', "_"));
            assert_eq!(Phase::ALL.iter().filter(|phase| is_named_after(phase)).count(), 1, "{kernel}");
        }
    }
}
