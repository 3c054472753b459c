//! A soak: under one collector, programs that live long and many that do not, with faults injected into most of them. Whatever
//! is done to a program, it ends as it would, and its report agrees with what happened; and nothing grows: not the memory, the
//! descriptors and the threads of the collector and of the program, nor what the simulated driver has for it.
//!
//! `scripts/soak.sh SECONDS` runs it. `GPUSPY_SOAK_SEED=N` takes other programs than seed 1 does.

use crate::compare::compare;
use crate::lifecycle::Listener;
use crate::random_programs::{self, Breadth, agreement, breadth_of, check_intervals, setting_of};
use gpuspy_tests::{Done, Run, agent, program};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::time::{Duration, Instant};

/// What is done to a program while it runs.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    Nothing,
    /// The driver refuses calls that only the agent makes.
    Driver,
    /// The C library refuses the agent memory, once or from then on.
    Allocation,
    /// Linux refuses a system call.
    SystemCall,
    /// It is stopped and continued.
    Stopped,
    /// It is killed.
    Killed,
    /// Its collector is stopped and continued.
    CollectorStopped,
}

impl Fault {
    const ALL: [Fault; 7] = [
        Fault::Nothing,
        Fault::Driver,
        Fault::Allocation,
        Fault::SystemCall,
        Fault::Stopped,
        Fault::Killed,
        Fault::CollectorStopped,
    ];

    /// Whether all of the program is recorded all the same.
    fn costs_nothing(self) -> bool {
        !matches!(self, Fault::Allocation | Fault::SystemCall | Fault::Killed)
    }
}

/// readlink(2); on Arm, Linux has only the one that was made later.
#[cfg(target_arch = "x86_64")]
const READLINK: i64 = libc::SYS_readlink;
#[cfg(target_arch = "aarch64")]
const READLINK: i64 = libc::SYS_readlinkat;

/// System calls of the agent's that a program on the simulated GPU can do without.
const SYSTEM_CALLS: [i64; 8] = [
    libc::SYS_memfd_create,
    libc::SYS_connect,
    libc::SYS_sendmsg,
    libc::SYS_process_vm_readv,
    libc::SYS_getrlimit,
    READLINK,
    libc::SYS_prctl,
    libc::SYS_getcwd,
];

/// Numbers at random (xorshift64, Marsaglia 2003).
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

/// What a process has, as Linux says it.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Has {
    rss_bytes: u64,
    fds: usize,
    threads: usize,
}

impl Has {
    fn of(pid: u32) -> Has {
        let entries = |name: &str| fs::read_dir(format!("/proc/{pid}/{name}")).map_or(0, Iterator::count);
        let statm = fs::read_to_string(format!("/proc/{pid}/statm")).expect("the collector runs");
        let pages: u64 = statm.split(' ').nth(1).unwrap().parse().unwrap();
        Has { rss_bytes: pages * 4096, fds: entries("fd"), threads: entries("task") }
    }
}

/// The collector, and what it had when it had nothing to do.
struct Collector {
    listener: Listener,
    idle: Has,
}

impl Collector {
    fn start() -> Collector {
        let listener = Listener::start();
        // It listens before it has come to rest.
        let samples = (0..50).map(|_| {
            std::thread::sleep(Duration::from_millis(10));
            Has::of(listener.process.id())
        });
        let idle = samples.min_by_key(|has| (has.threads, has.fds)).expect("there are samples");
        Collector { listener, idle }
    }

    /// Waits until it has nothing to do, and returns what it has then. More descriptors or threads than at the start
    /// are some that it has lost.
    fn when_idle(&self) -> Has {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let has = Has::of(self.listener.process.id());
            if has.fds <= self.idle.fds && has.threads <= self.idle.threads {
                return has;
            }
            assert!(Instant::now() < deadline, "the collector keeps {has:?}; it began with {:?}", self.idle);
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Runs a program, and brings its trace, if there is one, into its folder.
    fn run(&self, run: Run, mut command: Command, during: impl FnOnce(u32)) -> (Done, bool) {
        command.env("GPUSPY_SOCKET", self.listener.socket());
        let mut own = String::new();
        let done = run.finish_after(command, |pid| {
            own = format!("-{pid}.gspy");
            during(pid);
        });
        self.when_idle();
        let mut has_trace = false;
        for entry in fs::read_dir(self.listener.folder.path()).unwrap() {
            let path = entry.unwrap().path();
            let Some(name) = path.to_str().filter(|name| name.ends_with(".gspy")) else { continue };
            // The collector may come to a program's connection when that has long been killed, and another one runs.
            if name.ends_with(&own) {
                // The folders may be on different file systems.
                fs::copy(&path, done.folder().join("trace.gspy")).unwrap();
                has_trace = true;
            }
            fs::remove_file(&path).unwrap();
        }
        (done, has_trace)
    }
}

fn send(pid: u32, signal: i32) {
    // SAFETY: signals a child of ours that has not been waited for.
    unsafe { libc::kill(pid as i32, signal) };
}

/// Stops a process a few times, for up to 30 ms each.
fn stop_and_continue(pid: u32, random: &mut Random) {
    for _ in 0..1 + random.below(4) {
        std::thread::sleep(Duration::from_micros(random.below(60_000)));
        send(pid, libc::SIGSTOP);
        std::thread::sleep(Duration::from_micros(random.below(30_000)));
        send(pid, libc::SIGCONT);
    }
}

/// Runs a random program with a fault, and checks what is reported. Returns whether all of it was compared.
fn run_random(collector: &Collector, seed: u64, fault: Fault) -> bool {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let setting = setting_of(seed);
    // The others make the calls themselves that are to be refused.
    let breadth = match fault {
        Fault::Driver | Fault::SystemCall => Breadth::Narrow,
        _ => breadth_of(seed),
    };
    let mut run = random_programs::program(seed, breadth, setting);
    if fault == Fault::Driver {
        let (query, elapsed, get) = (random.below(300), random.below(300), random.below(20));
        let rules = format!(
            "cuEventQuery:999:{query},cuEventElapsedTime:999:{elapsed},cuFuncGetAttribute:999:{get},cuStreamGetCtx:801:{get}"
        );
        run = run.env("SIMCUDA_FAIL", rules);
    }
    let mut command = run.preloaded_command();
    if fault == Fault::Allocation {
        let both = format!("{}:{}", program("libfailing.so").display(), agent().display());
        let at = (1 + random.below(400)).to_string();
        let after = random.below(2).to_string();
        command
            .env("LD_PRELOAD", both)
            .env("FAIL_CALL", "malloc")
            .env("FAIL_AT", at)
            .env("FAIL_AFTER", after);
    }
    if fault == Fault::SystemCall {
        let number = SYSTEM_CALLS[random.below(SYSTEM_CALLS.len() as u64) as usize];
        let plain = run.plain_command();
        let mut refused = Run::of("refused_system_call").plain_command();
        refused.arg(number.to_string()).arg(libc::EPERM.to_string()).arg(agent());
        refused.arg(plain.get_program()).args(plain.get_args()).current_dir(run.folder());
        refused.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command = refused;
    }
    let (done, has_trace) = collector.run(run, command, |pid| match fault {
        Fault::Stopped => stop_and_continue(pid, &mut random),
        Fault::Killed => {
            std::thread::sleep(Duration::from_micros(random.below(150_000)));
            send(pid, libc::SIGKILL);
        }
        Fault::CollectorStopped => stop_and_continue(collector.listener.process.id(), &mut random),
        _ => {}
    });
    let what = format!("seed {seed}, {fault:?}: {}\n{}", done.status, done.stderr);
    let was_killed = fault == Fault::Killed && done.status.signal() == Some(libc::SIGKILL);
    assert!(done.status.success() || was_killed, "{what}");
    if !has_trace {
        assert!(!fault.costs_nothing(), "there is no trace: {what}");
        return false;
    }
    // The report is also compared with itself.
    let report = done.report();
    let launches = |of: &Value| of["launches"].as_u64().unwrap();
    if !was_killed {
        assert!(launches(&report["coverage"]) <= launches(&done.said()), "{what}");
    }
    let is_whole = fault.costs_nothing() && report["coverage"]["dropped"] == 0;
    if is_whole && let Err(why) = agreement(&done, setting) {
        panic!("{what}: {why}");
    }
    is_whole
}

/// What a long-lived program has after each of its rounds, by kind.
fn accounts(done: &Done) -> BTreeMap<String, Vec<u64>> {
    let mut accounts = BTreeMap::<String, Vec<u64>>::new();
    for line in done.stdout.lines().filter_map(|line| line.strip_prefix("account ")) {
        let line: BTreeMap<String, u64> = serde_json::from_str(line).unwrap();
        line.into_iter().for_each(|(kind, count)| accounts.entry(kind).or_default().push(count));
    }
    accounts
}

/// Runs a program that lives for so long, and checks that nothing of it grows.
fn run_long(collector: &Collector, seed: u64, seconds: u64) {
    let run = Run::of("long_life").arg(seed.to_string()).arg(seconds.to_string());
    let command = run.preloaded_command();
    let (done, has_trace) = collector.run(run, command, |_| {});
    let done = done.succeeded();
    assert!(has_trace, "there is no trace");
    let (said, report) = (done.said(), done.report());
    let coverage = &report["coverage"];
    if coverage["dropped"] == 0 {
        for key in ["launches", "captured", "in_graphs"] {
            assert_eq!(coverage[key], said[key], "{key} of the program that lived for {seconds} s");
        }
        let device = |key: &str| -> u64 {
            let kinds = report["memory"]["by_kind"].as_object().unwrap().values();
            kinds.map(|kind| kind[key].as_u64().unwrap()).sum()
        };
        assert_eq!(
            (device("allocations"), device("frees")),
            (number(&said["allocations"]), number(&said["frees"]))
        );
        check_intervals(&compare(&done)).unwrap_or_else(|why| panic!("{why}"));
    }
    println!("long_life {seed}: {} rounds, {} launches in {seconds} s", said["rounds"], said["launches"]);
    for (kind, counts) in accounts(&done) {
        if kind == "rss_bytes" {
            assert_flat("long_life", &counts, A_CONTEXT);
            continue;
        }
        let (first, second) = counts.split_at(counts.len() / 2);
        let [first, second] = [first, second].map(|half| half.iter().copied().max().unwrap_or_default());
        // A thread that was joined may be listed for a moment longer.
        let late = if kind == "threads" { 3 } else { 0 };
        println!("  {kind}: at most {first} in the first half, {second} in the second");
        assert!(second <= first + late, "{kind} grows from {first} to {second}: {counts:?}");
    }
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap()
}

/// Checks that the middle value of memory in the last third is not more than it was in the second by more than this: what a
/// heap may gain by its own ways, and as much for each sample. The first third warms up.
const ANYWAY: u64 = 2 << 20;
const EACH: u64 = 1024;
/// What a program may gain in each round, in which it makes a context: the agent never frees the number, the handle and the
/// like of a context (`agent/src/gpu/context.rs`).
const A_CONTEXT: u64 = 1024;

fn assert_flat(whose: &str, bytes: &[u64], each: u64) {
    let third = bytes.len() / 3;
    let middle = |part: &[u64]| {
        let mut sorted = part.to_vec();
        sorted.sort_unstable();
        sorted.get(sorted.len() / 2).copied().unwrap_or_default()
    };
    let [second, last] = [&bytes[third..2 * third], &bytes[2 * third..]].map(middle);
    let allowed = ANYWAY + each * third as u64;
    println!(
        "  RSS of {whose}: {} KiB, then {} KiB, with {third} samples between them; {} KiB more are allowed",
        second >> 10,
        last >> 10,
        allowed >> 10
    );
    assert!(last <= second + allowed, "the memory of {whose} grows: {bytes:?}");
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name)
        .map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")))
}

#[test]
#[ignore = "it takes a minute or hours: scripts/soak.sh runs it"]
fn nothing_grows_and_every_report_agrees_with_the_truth() {
    let seconds = setting("GPUSPY_SOAK_SECONDS", 60);
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut random = Random(setting("GPUSPY_SOAK_SEED", 1));
    let collector = Collector::start();
    run_long(&collector, 1 + random.below(1 << 20), seconds / 4);
    let mut memory = Vec::new();
    let mut runs = BTreeMap::<String, (usize, usize)>::new();
    for fault in Fault::ALL.into_iter().cycle() {
        if Instant::now() >= end && memory.len() >= Fault::ALL.len() {
            break;
        }
        let seed = random.below(1 << 32);
        let is_compared = run_random(&collector, seed, fault);
        let (count, compared) = runs.entry(format!("{fault:?}")).or_default();
        (*count, *compared) = (*count + 1, *compared + usize::from(is_compared));
        memory.push(collector.when_idle().rss_bytes);
    }
    for (fault, (count, compared)) in &runs {
        println!("{fault}: {count} programs, all of {compared} compared with the truth");
    }
    println!("the collector has {:?}, and began with {:?}", collector.when_idle(), collector.idle);
    assert_flat("the collector", &memory, EACH);
    let compared: usize = runs.values().map(|(_, compared)| compared).sum();
    assert!(compared > 0, "no program was recorded without loss");
}
