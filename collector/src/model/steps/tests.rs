//! Steps in sequences of launches whose steps are known.

use super::*;
use crate::model::simulation::work;
use crate::trace::generator::Random;
use crate::trace::record::{Call, NvtxRange, Synchronize, What};
use gpuspy_wire::record::{Direction, Fact, SyncScope};
use proptest::prelude::*;

/// A program, as records with times of their own.
#[derive(Default)]
struct Program {
    records: Vec<Record>,
    names: Names,
    now: u64,
    thread: u32,
    context: Option<u32>,
}

impl Program {
    /// Launches a kernel of this name, whose call comes `gap` ns after the last one.
    fn after(&mut self, gap: u64, kernel: &str) {
        let of = (1..)
            .zip(&self.names.0)
            .find(|(_, ((space, _), text))| *space == Namespace::Kernel && text.as_str() == kernel);
        let id = of.map(|(_, ((_, id), _))| *id).unwrap_or_else(|| {
            let id = self.names.0.len() as u32 + 1;
            self.names.0.insert((Namespace::Kernel, id), kernel.to_owned());
            id
        });
        self.now += gap;
        let mut launch = work(self.now, 2_000, 1_000);
        launch.call.begin = self.now;
        if let What::Kernel { name, .. } = &mut launch.what {
            *name = id;
        }
        launch.stream = u64::from(self.thread) + 7;
        launch.call.context = self.context.unwrap_or(launch.call.context);
        self.records.push(Record { thread: self.thread, at: self.now + 1_000, body: Body::Work(launch) });
    }

    fn launch(&mut self, kernels: &[&str]) {
        kernels.iter().for_each(|kernel| self.after(5_000, kernel));
    }

    /// Copies to the GPU or from there.
    fn copy(&mut self, direction: Direction, bytes: u64) {
        self.after(5_000, "copy");
        let Some(Body::Work(copy)) = self.records.last_mut().map(|record| &mut record.body) else { return };
        let (asynchronous, dst, src, rows, peer_context) = (true, 0, 0, 1, 0);
        copy.what = What::Memcpy { direction, asynchronous, bytes, dst, src, rows, peer_context };
    }

    /// Copies a batch to the GPU, which needs no wait.
    fn upload(&mut self) {
        self.copy(Direction::HtoD, 1 << 20);
    }

    /// Reads a result, for which the host waits.
    fn read(&mut self) {
        self.copy(Direction::DtoH, 256);
        self.wait();
    }

    fn graph(&mut self, graph: u32) {
        self.updated_graph(0, graph);
    }

    /// Launches an executable graph whose present contents have this number.
    fn updated_graph(&mut self, handle: u64, graph: u32) {
        self.after(5_000, "graph");
        let Some(Body::Work(launch)) = self.records.last_mut().map(|record| &mut record.body) else { return };
        launch.what = What::Graph { graph, handle, kernels: 40, copies: 1, memsets: 0 };
    }

    fn wait(&mut self) {
        self.now += 5_000;
        let call = Call { begin: self.now, end: self.now + 1_000, context: 1, ..Call::default() };
        let body = Body::Synchronize(Synchronize { call, scope: SyncScope::Stream, stream: 7, event: 0 });
        self.records.push(Record { thread: self.thread, at: self.now + 1_000, body });
    }

    /// Opens a range, or ends one without a text.
    fn range(&mut self, text: Option<&str>) {
        self.changed(if text.is_some() { NvtxChange::Push } else { NvtxChange::Pop }, 0, text);
    }

    fn changed(&mut self, change: NvtxChange, id: u64, text: Option<&str>) {
        let text = text.map_or(0, |text| {
            let known = self
                .names
                .0
                .iter()
                .find(|((space, _), of)| *space == Namespace::NvtxRange && of.as_str() == text);
            known.map(|((_, id), _)| *id).unwrap_or_else(|| {
                let id = self.names.0.len() as u32 + 1;
                self.names.0.insert((Namespace::NvtxRange, id), text.to_owned());
                id
            })
        });
        self.now += 100;
        let range = NvtxRange { change, id, domain: 0, text, category: 0, color: 0, payload: false };
        self.records.push(Record { thread: self.thread, at: self.now, body: Body::NvtxRange(range) });
    }

    fn rule(&self) -> StepRule {
        let mut finder = Finder::new(&self.names);
        self.records.iter().for_each(|record| finder.observe(record));
        finder.finish()
    }

    /// The number of steps.
    fn steps(&self) -> u64 {
        let mut counter = StepCounter::new(&self.rule());
        let steps = self.records.iter().filter_map(|record| counter.observe(record));
        steps.max().map_or(0, |last| last + 1)
    }
}

const STEP: [&str; 5] = ["embed", "gemm", "gelu", "gemm", "loss"];

fn of(program: impl FnOnce(&mut Program)) -> Program {
    let mut all = Program { now: 1_000_000, thread: 1, ..Program::default() };
    program(&mut all);
    all
}

#[test]
fn constant_steps_are_counted() {
    let constant = of(|p| (0..50).for_each(|_| p.launch(&STEP)));
    assert_eq!((constant.steps(), constant.rule().source), (50, Some(Source::Launches)));
    let few = of(|p| (0..4).for_each(|_| p.launch(&STEP)));
    assert_eq!(few.steps(), 4);
    let synchronized = of(|p| {
        for _ in 0..30 {
            p.launch(&["k"; 12]);
            p.wait();
        }
    });
    assert_eq!(synchronized.steps(), 30, "the wait tells equal launches apart");
}

#[test]
fn warm_up_and_jitter_in_the_launches_do_not_matter() {
    let mut random = Random(3);
    let program = of(|p| {
        (0..400).for_each(|n| p.launch(&[["fill", "init", "gemm", "tune"][n % 4]]));
        for step in 0..200 {
            for kernel in STEP {
                if step < 3 {
                    p.launch(&["tune"; 20]);
                }
                p.after(random.below(900_000), kernel);
                if random.below(12) == 0 {
                    p.launch(&["cast"]);
                }
            }
        }
    });
    assert!((200..=201).contains(&program.steps()), "{}", program.steps());
}

/// PyTorch's DistributedDataParallel waits for eight events in each of its first ten steps, for its statistics. What follows a wait
/// there follows the optimizer later, so that the 29 steps after that were the steadiest of 40.
#[test]
fn steps_that_contain_more_waits_at_first_are_steps() {
    let program = of(|p| {
        (0..9).for_each(|_| p.launch(&["fill", "init"]));
        for step in 0..40 {
            p.launch(&["zero", "forward", "sum", "backward", "copy", "reduce", "update"]);
            if step < 10 {
                (0..4).for_each(|_| p.wait());
            }
        }
        p.wait();
    });
    assert_eq!(program.steps(), 40);
}

#[test]
fn micro_batches_are_parts_of_a_step() {
    let update: [&[&str]; 3] = [&["update"], &["multi_tensor_apply_kernel"], &["scale", "update", "zero"]];
    for update in update {
        let program = of(|p| {
            for _ in 0..40 {
                (0..4).for_each(|_| p.launch(&["forward", "relu", "loss", "backward"]));
                p.launch(update);
            }
        });
        assert_eq!(program.steps(), 40, "{update:?}");
    }
    let short = of(|p| {
        for _ in 0..40 {
            (0..4).for_each(|_| p.launch(&["forward", "backward"]));
            p.launch(&["update"]);
        }
    });
    assert_eq!(short.steps(), 40);
}

#[test]
fn an_evaluation_after_some_steps_is_no_level_of_its_own() {
    for (every, own) in [(10, "evaluate"), (20, "forward"), (5, "evaluate")] {
        let program = of(|p| {
            for step in 0..100 {
                p.launch(&["forward", "loss", "backward", "update"]);
                if step % every == every - 1 {
                    (0..12).for_each(|_| p.launch(&[own]));
                    p.launch(&["metric"]);
                }
            }
        });
        assert!((99..=101).contains(&program.steps()), "every {every}, {own}: {}", program.steps());
    }
}

#[test]
fn an_optimizer_decides_whether_a_short_rest_ends_the_step() {
    let program = of(|p| {
        for step in 0..100 {
            p.launch(&["forward", "loss", "backward", "multi_tensor_apply_kernel<adam>"]);
            if step % 10 == 9 {
                p.launch(&["log_norm"]);
            }
        }
    });
    assert_eq!(program.steps(), 100);
}

/// In a program that torch.compile had made graphs of on an H100, the loss was read after every 50 steps, before the kernel that
/// begins the optimizer's update: 7 steps were found instead of 300.
#[test]
fn a_value_that_is_read_before_an_optimizers_kernel_ends_no_longer_step() {
    let read_now_and_then = of(|p| {
        for step in 0..300 {
            if step % 50 == 1 {
                p.wait();
            }
            p.launch(&["multi_tensor_apply_kernel<copy>", "forward", "loss", "backward"]);
            for part in 0..6 {
                p.launch(&[&format!("multi_tensor_apply_kernel<{part}>"), "divide"]);
            }
        }
    });
    assert_eq!(read_now_and_then.steps(), 300);
}

/// Where a step has few kinds of operations, a wait after every 20 or 50 of them ended the step: of 200 steps of a graph and 100
/// launches, 5 were found. The kernel after a wait was taken for what the longer step computes.
#[test]
fn a_wait_after_some_steps_of_few_kernels_ends_no_longer_step() {
    for every in [10, 20, 25, 50] {
        let kernels = of(|p| {
            // It waits before the loop and after it, too.
            p.launch(&["side"]);
            p.wait();
            for step in 0..400 {
                p.launch(&["layer"; 10]);
                p.launch(&["side"; 10]);
                if step % every == every - 1 {
                    p.wait();
                }
            }
            p.wait();
        });
        assert!((399..=401).contains(&kernels.steps()), "every {every}: {}", kernels.steps());
        let graphs = of(|p| {
            p.launch(&["update"]);
            p.wait();
            for step in 0..200 {
                p.graph(3);
                p.launch(&["update"; 100]);
                if step % every == every - 1 {
                    p.wait();
                }
            }
        });
        assert!((199..=201).contains(&graphs.steps()), "every {every}: {}", graphs.steps());
    }
}

#[test]
fn a_few_launches_that_come_again_and_again_until_a_wait_are_a_part_of_a_step() {
    let on_two_gpus = of(|p| {
        for _ in 0..100 {
            (0..20).for_each(|_| p.launch(&["on_one", "on_other"]));
            p.wait();
            p.wait();
        }
    });
    assert_eq!(on_two_gpus.steps(), 100);
}

#[test]
fn layers_are_parts_of_a_step() {
    let training = of(|p| {
        for _ in 0..12 {
            p.launch(&["embed"]);
            (0..24).for_each(|_| p.launch(&["norm", "qkv", "attention", "mlp"]));
            p.launch(&["head", "loss"]);
            (0..24)
                .for_each(|_| p.launch(&["d_mlp", "d_mlp_w", "d_attention", "d_qkv", "d_qkv_w", "d_norm"]));
            p.launch(&["update"]);
        }
    });
    assert_eq!(training.steps(), 12);
    let inference = of(|p| {
        for _ in 0..60 {
            p.launch(&["embed"]);
            (0..32).for_each(|_| p.launch(&["norm", "qkv", "attention", "mlp"]));
            p.launch(&["norm_last", "head", "softmax", "cumsum", "sample"]);
            p.wait();
        }
    });
    assert_eq!(inference.steps(), 60);
}

/// AdamW with foreach=False, and a hand-written Lion, launch a few kernels for each parameter, whose names reveal nothing: 50 steps of
/// a training were 3 350 or 11 250.
#[test]
fn the_parameters_of_an_optimizer_that_updates_one_after_the_other_are_no_steps() {
    for parameters in [67, 195] {
        let adamw = of(|p| {
            p.launch(&["fill"; 30]);
            for _ in 0..50 {
                p.launch(&["zero", "embed"]);
                (0..4).for_each(|_| {
                    p.launch(&["norm", "gemm", "add", "softmax", "gemm", "add", "gelu", "add"])
                });
                p.launch(&["norm", "log_softmax", "nll", "d_nll", "d_softmax"]);
                for _ in 0..4 {
                    p.launch(&["d_gelu", "gemm", "sum", "d_softmax", "gemm", "sum", "gemm", "sum"]);
                    p.launch(&["d_norm", "gamma", "add", "d_norm_2", "gemm", "sum", "d_gelu_2", "add"]);
                }
                p.launch(&["d_embed", "sort", "scan"]);
                for _ in 0..parameters {
                    p.launch(&["mul", "lerp", "mul", "addcmul", "sqrt", "div", "add", "addcdiv"]);
                }
            }
        });
        assert_eq!(adamw.steps(), 50, "{parameters} parameters");
    }
    let lion = of(|p| {
        for _ in 0..50 {
            p.launch(&["embed"]);
            (0..4).for_each(|_| p.launch(&["norm", "qkv", "softmax", "mlp", "gelu", "down"]));
            p.launch(&["head", "loss", "d_loss", "d_head"]);
            (0..4).for_each(|_| p.launch(&["d_down", "d_gelu", "d_mlp", "d_softmax", "d_qkv", "d_norm"]));
            p.launch(&["d_embed", "sort"]);
            (0..80).for_each(|_| p.launch(&["mul", "add", "sign", "add", "mul", "add"]));
        }
    });
    assert_eq!(lion.steps(), 50);
}

/// 150 requests of 8 layers that nothing is read of were 1 200 steps.
#[test]
fn layers_of_which_the_last_one_has_another_kernel_are_parts_of_a_step() {
    let requests = of(|p| {
        p.launch(&["fill"; 20]);
        for _ in 0..150 {
            (0..7).for_each(|_| p.launch(&["gemm", "relu"]));
            p.launch(&["gemm", "argmax"]);
        }
    });
    assert_eq!(requests.steps(), 150);
}

/// 120 batches of a network of 4 layers were 480 steps of 2 launches, if their results were read or their input was copied.
#[test]
fn layers_between_a_batch_and_its_results_are_parts_of_a_step() {
    let layers = |p: &mut Program, layers: usize| {
        (0..layers).for_each(|_| p.launch(&["gemm", "relu"]));
        p.launch(&["gemm"]);
    };
    for depth in 2..8 {
        let (read, uploaded, both) = (
            of(|p| {
                (0..120).for_each(|_| {
                    layers(p, depth);
                    p.launch(&["softmax"]);
                    p.read();
                })
            }),
            of(|p| {
                (0..120).for_each(|_| {
                    p.upload();
                    layers(p, depth);
                })
            }),
            of(|p| {
                (0..120).for_each(|_| {
                    p.upload();
                    layers(p, depth);
                    p.launch(&["softmax"]);
                    p.read();
                })
            }),
        );
        assert_eq!([read, uploaded, both].map(|p| p.steps()), [120; 3], "{depth} layers");
    }
}

/// 80 batches of zeros that a kernel makes on the GPU, for 3 layers, were 240 steps; and 60 steps that apply such a network three times, and
/// need more time before that, 540.
#[test]
fn layers_of_which_the_first_one_follows_another_kernel_are_parts_of_a_step() {
    const BATCH: [&str; 6] = ["fill", "gemm", "relu", "gemm", "relu", "gemm"];
    let once = of(|p| (0..80).for_each(|_| p.launch(&BATCH)));
    assert_eq!(once.steps(), 80);
    let three_times = of(|p| {
        for _ in 0..60 {
            p.after(50_000, "fill_bytes");
            (0..3).for_each(|_| p.launch(&BATCH));
        }
    });
    assert_eq!(three_times.steps(), 60);
}

/// The layers of a transformer of 2 and of 11 to 13 of them were steps: its parameters, which are copied one by one before, are two or three
/// waits for each of the steps.
#[test]
fn waits_before_the_loop_are_none_of_a_step() {
    for depth in [1, 2, 3, 4, 6, 8, 10, 11, 12, 13, 16, 24] {
        let program = of(|p| {
            for _ in 0..12 * depth {
                p.copy(Direction::HtoD, 1 << 18);
                p.wait();
            }
            for _ in 0..50 {
                p.upload();
                for _ in 0..depth {
                    p.launch(&["norm", "gemm", "copy", "copy", "bmm", "softmax", "copy", "bmm", "copy"]);
                    p.launch(&["gemm", "add", "norm", "gemm", "gelu", "gemm", "add"]);
                }
                p.launch(&["gemm", "argmax", "cat"]);
                p.read();
            }
            p.wait();
        });
        assert_eq!(program.steps(), 50, "{depth} layers");
    }
}

/// A batch that was moved row by row, 64 in each of 100 steps: there were 6 404 steps without a launch.
#[test]
fn copies_one_by_one_are_no_steps_of_a_program_that_computes_on_all_of_them() {
    let copies = |p: &mut Program| {
        (0..64).for_each(|_| {
            p.copy(Direction::HtoD, 512);
            p.wait();
        });
    };
    let program = of(|p| {
        for _ in 0..100 {
            copies(p);
            p.launch(&["cat", "gemm", "relu", "gemm", "relu", "gemm", "relu", "gemm", "relu", "gemm"]);
        }
    });
    assert_eq!(program.steps(), 100);
    let only_copies = of(|p| (0..10).for_each(|_| copies(p)));
    assert_eq!(only_copies.steps(), 640, "nothing else says what a step is");
}

/// An evaluation of many batches is much longer than a step, and is not what the step consists of.
#[test]
fn a_long_evaluation_after_some_steps_is_no_level_of_its_own() {
    let program = of(|p| {
        for step in 0..800 {
            p.launch(&["forward", "gelu", "loss", "d_loss", "d_gelu", "backward", "norm", "update"]);
            if step % 100 == 99 {
                (0..20).for_each(|_| p.launch(&["forward", "gelu", "loss", "argmax", "compare", "add"]));
                p.launch(&["divide", "metric"]);
            }
        }
    });
    assert!((799..=801).contains(&program.steps()), "{}", program.steps());
}

/// A language model generates: a prompt's kernels, then tokens. On an H100, the layers of the prompts were taken for steps, of which
/// three had nearly all launches, and then all layers.
#[test]
fn the_layers_of_a_prompt_are_no_steps_of_what_is_generated() {
    let program = of(|p| {
        for _ in 0..3 {
            for _ in 0..8 {
                p.launch(&["norm", "prompt_gemm", "attention", "add", "norm", "up", "gelu", "down", "add"]);
            }
            for _ in 0..80 {
                for _ in 0..8 {
                    p.launch(&[
                        "norm",
                        "gemm",
                        "cat",
                        "attention",
                        "add",
                        "norm",
                        "up",
                        "gelu",
                        "down",
                        "add",
                    ]);
                }
                // Twice in each token, and not at equal distances.
                p.launch(&["head", "softmax"]);
                p.wait();
                p.launch(&["sample", "compare", "any", "all", "not", "or"]);
                p.wait();
            }
        }
    });
    assert!((238..=243).contains(&program.steps()), "{} steps", program.steps());
}

#[test]
fn two_streams_or_threads_in_turns_are_one_sequence() {
    let turns = of(|p| {
        for _ in 0..60 {
            p.thread = 1;
            p.launch(&["forward", "gelu", "loss"]);
            p.thread = 2;
            p.launch(&["d_loss", "d_gelu", "d_forward"]);
        }
    });
    assert_eq!(turns.steps(), 60);
}

/// Two threads with a GPU each, whose loops take 1.2 and 1.8 ms: in a range of one name or without one.
fn two_gpus(range: bool, kernels: [&str; 2]) -> Program {
    of(|p| {
        let (mut nows, mut left) = ([p.now; 2], [300; 2]);
        while left != [0; 2] {
            let n = usize::from(left[0] == 0 || (left[1] > 0 && nows[1] < nows[0]));
            (p.thread, p.context, p.now) = (n as u32 + 1, Some(n as u32 + 1), nows[n]);
            if range {
                p.range(Some("step"));
            }
            p.launch(&[kernels[n]; 6]);
            if range {
                p.range(None);
            }
            p.wait();
            nows[n] += [1_200_000, 1_800_000][n];
            left[n] -= 1;
        }
        p.records.sort_by_key(|record| record.at);
    })
}

/// "Steps 600, median 923 us, the last ones 42.5 % longer than the first", of two loops of 300 steps.
#[test]
fn of_threads_with_a_gpu_each_the_steps_of_one_count() {
    for range in [true, false] {
        for kernels in [["k", "k"], ["k", "m"]] {
            let program = two_gpus(range, kernels);
            let rule = program.rule();
            assert_eq!(
                (program.steps(), rule.thread),
                (300, Some(2)),
                "{range} {kernels:?} {:?}",
                rule.source
            );
        }
    }
}

#[test]
fn threads_of_one_loop_have_the_steps_of_the_process() {
    let turns = |gpus: bool| {
        of(|p| {
            for _ in 0..60 {
                (p.thread, p.context) = (1, None);
                p.range(Some("step"));
                for context in 1..=2 {
                    p.context = Some(context);
                    p.launch(&["forward", "gelu", "loss"]);
                }
                for thread in 2..=3 {
                    (p.thread, p.context) = (thread, Some(if gpus { thread - 1 } else { 1 }));
                    p.launch(&["d_loss", "d_gelu", "d_forward"]);
                }
                p.thread = 1;
                p.range(None);
            }
        })
    };
    for gpus in [false, true] {
        let program = turns(gpus);
        assert_eq!(
            (program.steps(), program.rule().thread),
            (60, None),
            "one opens the range, and launches on both"
        );
    }
}

#[test]
fn every_second_step_on_another_stream_is_a_step_too() {
    let program = of(|p| {
        for step in 0..60 {
            p.launch(&STEP);
            for record in p.records.iter_mut().rev().take(STEP.len()) {
                if let Body::Work(launch) = &mut record.body {
                    launch.stream = 20 + step % 2;
                }
            }
        }
    });
    assert_eq!(program.steps(), 60);
}

#[test]
fn of_two_threads_with_loops_of_their_own_the_busier_ones_steps_count() {
    let mut random = Random(9);
    let program = of(|p| {
        let (mut one, mut two) = (0, 0);
        while one < 600 {
            if random.below(10) < 6 {
                p.thread = 1;
                p.launch(&[["a", "b", "c", "d", "e", "f"][one % 6]]);
                one += 1;
            } else {
                p.thread = 2;
                p.launch(&[["x", "y", "z", "w"][two % 4]]);
                two += 1;
            }
        }
    });
    let steps = program.steps();
    assert!((99..=101).contains(&steps), "{steps}: {:?}", program.rule());
}

#[test]
fn replays_are_steps_even_if_the_warm_up_has_more_launches() {
    let found = of(|p| {
        (0..3).for_each(|_| (0..40).for_each(|_| p.launch(&["sin", "mul", "add"])));
        (0..100).for_each(|_| p.graph(3));
    });
    assert_eq!((found.steps(), found.rule().source), (100, Some(Source::Graphs)));
}

#[test]
fn graphs_are_steps() {
    let one = of(|p| (0..70).for_each(|_| p.graph(3)));
    assert_eq!((one.steps(), one.rule().source), (70, Some(Source::Graphs)));
    let two = of(|p| {
        for _ in 0..70 {
            p.graph(3);
            p.graph(4);
            p.launch(&["sample"]);
        }
    });
    assert_eq!((two.steps(), two.rule().source), (70, Some(Source::Graphs)));
}

/// An update gives a graph another number, and each launch was taken for one of another graph: there were no steps.
#[test]
fn a_loop_that_updates_the_graph_which_it_launches_has_steps() {
    let program = of(|p| {
        for step in 0..70 {
            p.updated_graph(0x7f00_1000, step + 1);
            p.wait();
        }
    });
    assert_eq!((program.steps(), program.rule().source), (70, Some(Source::Graphs)));
}

#[test]
fn an_nvtx_range_that_contains_most_launches_is_the_step() {
    let numbered = of(|p| {
        for step in 0..20 {
            p.range(Some(&format!("ProfilerStep#{step}")));
            p.range(Some("forward"));
            (0..1 + step % 3).for_each(|_| p.launch(&["k", "l"]));
            p.range(None);
            p.range(Some("Optimizer.step#SGD.step"));
            p.launch(&["sgd"]);
            p.range(None);
            p.range(None);
        }
    });
    assert_eq!(numbered.steps(), 20);
    assert_eq!(numbered.rule().source, Some(Source::NvtxRange("ProfilerStep#*".into())));
    let plain = of(|p| {
        for _ in 0..20 {
            p.range(Some("outer"));
            (0..3).for_each(|_| {
                p.range(Some("inner"));
                p.launch(&["k", "l"]);
                p.range(None);
            });
            p.range(None);
        }
    });
    assert_eq!((plain.steps(), plain.rule().source), (20, Some(Source::NvtxRange("outer".into()))));
}

/// A dispatcher started a range for each request of a burst, and a worker ended it: "steps" of no launch and 117 ns, so that a comparison
/// did not see that requests took twice as long.
#[test]
fn ranges_that_start_while_others_are_open_are_no_steps() {
    use NvtxChange::{End, Start};
    let burst = of(|p| {
        (1..=40).for_each(|id| p.changed(Start, id, Some("request")));
        for id in 1..=40 {
            p.range(Some("serve"));
            p.launch(&STEP);
            p.range(None);
            p.changed(End, id, None);
        }
    });
    assert_eq!((burst.steps(), burst.rule().source), (40, Some(Source::NvtxRange("serve".into()))));
    let one_by_one = of(|p| {
        for id in 1..=40 {
            p.changed(Start, id, Some("request"));
            p.launch(&STEP);
            p.changed(End, id, None);
        }
    });
    let source = one_by_one.rule().source;
    assert_eq!((one_by_one.steps(), source), (40, Some(Source::NvtxRange("request".into()))));
}

#[test]
fn a_range_around_little_of_the_work_is_no_step() {
    let program = of(|p| {
        for _ in 0..40 {
            p.range(Some("load batch"));
            p.launch(&["copy"]);
            p.range(None);
            p.launch(&STEP);
        }
    });
    assert_eq!((program.steps(), program.rule().source), (40, Some(Source::Launches)));
}

#[test]
fn one_long_phase_or_equal_launches_are_no_steps() {
    let phase = of(|p| (0..900).for_each(|n| p.launch(&[&format!("k{}", n * n % 1009)])));
    assert_eq!(phase.steps(), 0);
    let equal = of(|p| (0..900).for_each(|_| p.launch(&["k"])));
    assert_eq!(equal.steps(), 0);
    let few = of(|p| (0..2).for_each(|_| p.launch(&STEP)));
    assert_eq!(few.steps(), 0);
}

#[test]
fn memory_does_not_grow_with_the_trace() {
    let mut finder = Finder::default();
    let mut program = of(|_| ());
    for n in 0..200_000u64 {
        program.now += 10;
        let mut launch = work(program.now, 2_000, 1_000);
        if let What::Kernel { name, .. } = &mut launch.what {
            *name = n as u32;
        }
        finder.observe(&Record { thread: (n % 40) as u32, at: program.now, body: Body::Work(launch) });
    }
    let lanes = finder.threads.values().chain([&finder.process]);
    assert!(
        lanes.clone().count() <= 1 + MOST_THREADS && lanes.map(|lane| lane.tokens.len()).all(|n| n <= 4098)
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn random_launches_have_no_steps(seed in 1u64.., kernels in 2u64..12, launches in 100u64..3_000) {
        let mut random = Random(seed);
        let program = of(|p| {
            for _ in 0..launches {
                let kernel = format!("k{}", random.below(kernels));
                p.after(random.below(50_000), &kernel);
            }
        });
        prop_assert_eq!(program.steps(), 0, "{:?}", program.rule());
    }
}

/// Steps of random kernels, each the same, after a start of other launches. A few cannot be told from others: short steps of
/// few kernels consist of nearly equal halves, or of eight steps every second one has what the others lack by chance.
#[test]
fn random_loops_are_found() {
    const LOOPS: u64 = 400;
    let is_found = |seed: &u64| {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let (kernels, length) = (5 + random.below(11), 12 + random.below(48));
        let (steps, start) = (8 + random.below(72), random.below(60));
        let mut body: Vec<String> = (0..length).map(|_| format!("k{}", random.below(kernels))).collect();
        body.push("loss".to_owned());
        let program = of(|p| {
            for _ in 0..start {
                let kernel = format!("start{}", random.below(kernels));
                p.after(random.below(50_000), &kernel);
            }
            for _ in 0..steps {
                body.iter().for_each(|kernel| p.after(random.below(50_000), kernel));
            }
        });
        program.steps().abs_diff(steps) <= 1
    };
    let found = (1..=LOOPS).filter(is_found).count() as u64;
    assert!(found * 100 >= LOOPS * 99, "the steps of {found} of {LOOPS} loops are found");
}

/// Returns during how many records of a program it prepares.
fn prepared(program: &Program) -> usize {
    let mut counter = StepCounter::new(&program.rule());
    let is_preparing = program.records.iter().map(|record| {
        counter.observe(record);
        counter.is_preparing()
    });
    is_preparing.filter(|is_preparing| *is_preparing).count()
}

#[test]
fn a_program_without_steps_prepares_for_the_first_twentieth_of_its_launches() {
    let of_launches = |launches: usize| {
        let mut random = Random(9);
        let program =
            of(|p| (0..launches).for_each(|_| p.launch(&[["a", "b", "c"][random.below(3) as usize]])));
        assert_eq!(program.rule().source, None, "the sequence has no period");
        prepared(&program)
    };
    assert_eq!([19, 20, 200, 400].map(of_launches), [0, 1, 10, 20]);
}

#[test]
fn a_program_prepares_in_the_first_window_of_its_collection_only() {
    let steps = |window: Option<&str>| {
        let mut program =
            of(|p| (0..100).for_each(|_| ["a", "b", "c"].iter().for_each(|name| p.launch(&[name]))));
        let number = window.map(|number| ((Namespace::Fact, Fact::Window as u32), number.to_owned()));
        program.names.0.extend(number);
        assert!(program.rule().source.is_some());
        prepared(&program)
    };
    assert!(steps(None) > 0);
    assert_eq!(steps(Some("0")), steps(None));
    assert_eq!(steps(Some("7")), 0);
}

/// What a program did before its first step was judged as the steps, if it was no single long pause.
#[test]
fn a_program_sets_up_until_the_first_operation_of_its_first_step_if_it_launches_little_until_then() {
    let set_up = |launches: usize, is_named: bool| {
        let program = of(|p| {
            (0..launches).for_each(|_| p.launch(&["fill"]));
            for _ in 0..50 {
                p.range(is_named.then_some("step"));
                p.launch(&STEP);
                p.range(None);
            }
        });
        let mut counter = StepCounter::new(&program.rule());
        let is_setting_up = program.records.iter().filter(|record| {
            let is_setting_up = counter.is_setting_up();
            counter.observe(record);
            is_setting_up && letter(record).is_some()
        });
        is_setting_up.count()
    };
    for is_named in [true, false] {
        assert_eq!([20, 40].map(|launches| set_up(launches, is_named)), [21, 0], "named: {is_named}");
    }
}
