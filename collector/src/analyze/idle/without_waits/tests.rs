//! Replays programs whose end without waits is known.

use super::super::super::estimate::Estimate;
use super::super::Next;
use super::super::history::Waited;
use super::*;
use crate::model::stacks::Caller;
use proptest::prelude::*;

/// What a thread does next.
#[derive(Clone, Copy, Debug)]
enum Does {
    /// It takes `host` ns to launch a kernel of `gpu` ns.
    Launch { host: i64, gpu: i64 },
    /// It waits until the GPU has done everything.
    Wait,
    /// It loads a module when the GPU has done everything.
    Load,
}

/// A stream and the thread that launches into it. Times are ns.
#[derive(Clone, Copy, Debug, Default)]
struct Machine {
    host: i64,
    gpu: i64,
    waited: u64,
    launches: u64,
    last_wait: Option<Waited>,
    loaded: Option<i64>,
}

fn lead(machine: &Machine, called: i64) -> Lead {
    Lead {
        process: 0,
        thread: 1,
        api: 1,
        caller: Caller::default(),
        called,
        returned: called,
        in_call: Cause::Launching,
        enqueued: Cause::Starting,
        calls: Box::default(),
        known_from: i64::MIN,
        before: i64::MIN,
        range: 0,
        waited: machine.last_wait,
        is_behind_load: machine.last_wait.is_some_and(|wait| machine.loaded.is_some_and(|at| wait.to <= at)),
        launches: machine.launches,
        step: None,
        is_preparing: false,
        is_setting_up: false,
        is_paused: None,
        next: Next::Other,
    }
}

fn gap(from: i64, to: i64) -> Closed {
    let duration = Estimate::exactly((to - from) as u64);
    Closed { from, to, widest: (from, to), duration, off_by: 0, is_gap: true }
}

impl Machine {
    /// Runs a program, and returns what is owed to its waits.
    fn run(&mut self, program: &[Does], replay: &mut WithoutWaits) -> u64 {
        let mut owed = 0;
        for does in program {
            match *does {
                Does::Launch { host, gpu } => {
                    self.host += host;
                    self.launches += 1;
                    let (idle_from, start) = (self.gpu, self.gpu.max(self.host));
                    let lead = lead(self, self.host);
                    if start > idle_from && self.launches > 1 {
                        owed += replay.owed(&gap(idle_from, start), &lead).ns;
                    }
                    replay.start(&lead, start);
                    self.gpu = start + gpu;
                }
                Does::Wait => {
                    let (from, to) = (self.host, self.host.max(self.gpu));
                    self.host = to;
                    self.waited += (to - from) as u64;
                    let (place, ns) = ((2, 0), (to - from) as u64);
                    let (longest, total) = ((place, ns), self.waited);
                    self.last_wait = Some(Waited { thread: 0, place, from, to, ns, longest, total });
                }
                Does::Load => {
                    self.loaded = Some(self.host);
                    self.host = self.host.max(self.gpu);
                }
            }
        }
        owed
    }
}

fn does() -> impl Strategy<Value = Does> {
    prop_oneof![
        6 => (1i64..100, 1i64..100).prop_map(|(host, gpu)| Does::Launch { host, gpu }),
        1 => (1i64..3_000).prop_map(|host| Does::Launch { host, gpu: 10 }),
        1 => Just(Does::Wait),
    ]
}

proptest! {
    #[test]
    fn what_is_owed_to_waits_is_what_the_program_gains_without_them(
        program in prop::collection::vec(does(), 1..900),
    ) {
        let (mut with, mut without) = (Machine::default(), Machine::default());
        let owed = with.run(&program, &mut WithoutWaits::default());
        let launches: Vec<Does> =
            program.iter().copied().filter(|does| matches!(does, Does::Launch { .. })).collect();
        prop_assert_eq!(without.run(&launches, &mut WithoutWaits::default()), 0);
        // A host that is ahead by more than the work since its first launch is not looked for.
        let gains = (with.gpu - without.gpu) as u64;
        prop_assert!(owed <= gains, "{owed} of {gains}");
        prop_assert!(owed * 100 >= gains * 99, "{owed} of {gains}");
    }
}

/// Steps in which the host reads a value: it launches ten kernels of 100 ns, in `host` ns each, and waits.
fn reads_in_each_step(host: i64, steps: usize) -> Vec<Does> {
    let step = [[Does::Launch { host, gpu: 100 }; 10].as_slice(), &[Does::Wait]].concat();
    std::iter::repeat_n(step, steps).flatten().collect()
}

#[test]
fn a_fast_host_that_reads_in_each_step_owes_all_gaps_to_it() {
    // Only the first launch of a step comes late.
    let owed = Machine::default().run(&reads_in_each_step(40, 50), &mut WithoutWaits::default());
    assert_eq!(owed, 49 * 40);
}

#[test]
fn a_slow_host_that_reads_in_each_step_owes_its_gaps_to_launching() {
    let owed = Machine::default().run(&reads_in_each_step(150, 50), &mut WithoutWaits::default());
    assert_eq!(
        owed,
        49 * 100,
        "of 50 gaps in each of ten launches, it waited only for the last kernel of a step"
    );
}

#[test]
fn a_stall_is_owed_to_earlier_waits_no_further_than_a_queue_reaches() {
    let (mut machine, mut replay) = (Machine::default(), WithoutWaits::default());
    machine.run(&reads_in_each_step(40, 1_000), &mut replay);
    let stall = [Does::Launch { host: 10_000_000, gpu: 100 }];
    let owed = machine.run(&stall, &mut replay);
    let queue = (QUEUE + EACH) * 104;
    assert!((100_000..=queue).contains(&owed), "{owed}");
}

#[test]
fn waits_in_time_that_was_not_observed_do_not_count() {
    let (mut machine, mut replay) = (Machine::default(), WithoutWaits::default());
    machine.run(&reads_in_each_step(40, 10), &mut WithoutWaits::default());
    replay.skip();
    let late = [Does::Launch { host: 5_000, gpu: 100 }];
    assert_eq!(machine.run(&late, &mut replay), 0);
}

/// The wait before a module was loaded in each step had all of the time that the first launches took to load its code, and without that
/// wait the load had waited.
#[test]
fn what_comes_after_a_load_is_owed_to_no_wait_before_it() {
    let step = [
        Does::Wait,
        Does::Load,
        Does::Launch { host: 5_000, gpu: 100 },
        Does::Launch { host: 10, gpu: 5_000 },
    ];
    let program: Vec<Does> = std::iter::repeat_n(step, 50).flatten().collect();
    let (mut with, mut replay) = (Machine::default(), WithoutWaits::default());
    assert_eq!(with.run(&program, &mut replay), 0);
    let loads: Vec<Does> = program.into_iter().filter(|does| !matches!(does, Does::Wait)).collect();
    let mut without = Machine::default();
    without.run(&loads, &mut WithoutWaits::default());
    assert_eq!(with.gpu, without.gpu, "it gains nothing");
    // What was waited before it does not count for later gaps either.
    assert_eq!(with.run(&[Does::Launch { host: 9_000, gpu: 100 }], &mut replay), 0);
}
