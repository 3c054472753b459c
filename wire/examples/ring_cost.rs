//! How long does a record take? `cargo run --release -p gpuspy-wire --example ring_cost`.
//!
//! Prints nanoseconds for one 128-byte record (a launch) as medians of several runs: pushed and popped by one
//! thread in turns, so that each side is timed alone and its data is in the cache; and through the ring while
//! a second thread drains it. The last line is what it costs to publish a call in progress, and its end.

use gpuspy_wire::in_progress::{Call, InProgress};
use gpuspy_wire::record::{Head, Launch, Record};
use gpuspy_wire::ring::{Cursors, MAX_RECORD_WORDS, Reader, Writer};
use gpuspy_wire::segment::LEVEL_CELLS;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const RUNS: usize = 15;
const RECORDS: usize = 400_000;
/// Records between two drains: fewer than the smallest buffer can hold.
const BATCH: usize = 400;

fn words(cells: usize) -> Vec<AtomicU64> {
    (0..cells * 8).map(|_| AtomicU64::new(0)).collect()
}

fn launch() -> Launch {
    let mut launch = Launch { kernel: 7, grid: [1, 2, 3], block: [128, 1, 1], ..Launch::default() };
    launch.work.head = Head::new::<Launch>();
    launch
}

fn nanoseconds(time: Duration, records: usize) -> f64 {
    time.as_nanos() as f64 / records as f64
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Measures all pushes and all pops, which take turns. Returns ns per push and ns per pop.
fn in_turns(buffers: &[Vec<AtomicU64>; 3], level: usize) -> (f64, f64) {
    let cursors = Cursors::default();
    let mut writer = Writer::claim(&cursors, &buffers[0]).unwrap();
    let mut reader = Reader::new(&cursors, [&buffers[0], &buffers[1], &buffers[2]]).unwrap();
    for next in &buffers[1..=level] {
        assert!(writer.grow(next));
    }
    let (mut pushing, mut popping) = (Duration::ZERO, Duration::ZERO);
    let mut launch = launch();
    let mut out = [0; MAX_RECORD_WORDS];
    for _ in 0..RECORDS / BATCH {
        let start = Instant::now();
        for _ in 0..BATCH {
            launch.work.correlation += 1;
            writer.push(std::hint::black_box(&launch).as_words()).unwrap();
        }
        let pushed = Instant::now();
        while let Some(words) = reader.pop(&mut out).unwrap() {
            std::hint::black_box(words);
        }
        reader.release();
        pushing += pushed - start;
        popping += pushed.elapsed();
    }
    (nanoseconds(pushing, RECORDS), nanoseconds(popping, RECORDS))
}

/// Measures the ns per record through the ring while another thread drains it.
fn across_threads(buffers: &[Vec<AtomicU64>; 3]) -> f64 {
    let cursors = Cursors::default();
    let done = AtomicBool::new(false);
    let mut writer = Writer::claim(&cursors, &buffers[0]).unwrap();
    assert!(writer.grow(&buffers[1]) && writer.grow(&buffers[2]));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut reader = Reader::new(&cursors, [&buffers[0], &buffers[1], &buffers[2]]).unwrap();
            let mut out = [0; MAX_RECORD_WORDS];
            while !done.load(Ordering::Relaxed) {
                for _ in 0..64 {
                    if reader.pop(&mut out).unwrap().is_none() {
                        break;
                    }
                }
                reader.release();
            }
        });
        let launch = launch();
        let start = Instant::now();
        for _ in 0..RECORDS {
            while writer.push(launch.as_words()).is_err() {
                std::thread::yield_now();
            }
        }
        let time = start.elapsed();
        done.store(true, Ordering::Relaxed);
        nanoseconds(time, RECORDS)
    })
}

/// Measures the ns that a call's entry and return take to publish that it is in progress, of a batch of calls, which is
/// too short to be interrupted often.
fn calls_in_progress() -> f64 {
    let thread = InProgress::<AtomicU64>::default();
    let start = Instant::now();
    for since in 1..=BATCH as u64 {
        let thread = std::hint::black_box(&thread);
        thread.enter(Call { api: 7, caller: 0x7fff_0000_1234, since });
        thread.leave();
    }
    nanoseconds(start.elapsed(), BATCH)
}

fn main() {
    let buffers = LEVEL_CELLS.map(words);
    println!("ns per 128-byte record, median of {RUNS} runs of {RECORDS}");
    for level in [0, 2] {
        let runs: Vec<_> = (0..RUNS).map(|_| in_turns(&buffers, level)).collect();
        let push = median(runs.iter().map(|run| run.0).collect());
        let pop = median(runs.iter().map(|run| run.1).collect());
        println!(
            "level {level} ({:>4} KiB)   push {push:5.1}   pop {pop:5.1}",
            LEVEL_CELLS[level] * 64 / 1024
        );
    }
    let through = median((0..RUNS).map(|_| across_threads(&buffers)).collect());
    println!("two threads          through {through:5.1}");
    let calls = median((0..RUNS * 1000).map(|_| calls_in_progress()).collect());
    println!("call in progress     both {calls:8.2}");
}
