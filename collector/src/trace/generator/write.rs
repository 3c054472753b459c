//! How does a generated session become a trace file?

use super::super::TraceWriter;
use super::super::record::{Body, Ending, GpuTime, Record, Status, window_text};
use super::{BEGAN, Generator};
use gpuspy_wire::record::{Fact, Namespace};
use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

/// How often the simulated collector flushes what is due, ns.
const TICK: u64 = 10_000_000;
/// Start of a generated trace's session, host ns: before its first call.
pub const SESSION: u64 = BEGAN - 2_000_000;

/// Writes a trace of `launches` launches as a collector would, in the session's own time: records when they happened,
/// GPU times when the poller observed them. Returns the size of the file in bytes.
///
/// # Errors
/// Fails if creating or writing the file does.
pub fn write_trace(path: &Path, generator: &mut Generator, launches: u64) -> io::Result<u64> {
    write_process(path, generator, launches, status(), &[])
}

/// Writes the trace of a window of time in which a process did nothing. It began then, s since 1970, and lasted for so many seconds.
///
/// # Errors
/// Fails if creating or writing the file does.
pub fn write_idle_window(path: &Path, pid: u32, began: u64, length: u64) -> io::Result<()> {
    let (began_realtime, ended) = (began * 1_000_000_000 + 57, SESSION + length * 1_000_000_000);
    let status = Status { pid, began_realtime, ended, ..status() };
    let mut writer = TraceWriter::create(path, &status)?;
    for (fact, text) in [(Fact::CaptureRange, window_text(length)), (Fact::Window, "0".to_owned())] {
        writer.name(Namespace::Fact, fact as u32, &text)?;
    }
    writer.finish(&status).map(drop)
}

/// Writes a trace of a process of which this is known.
pub(super) fn write_process(
    path: &Path,
    generator: &mut Generator,
    launches: u64,
    mut status: Status,
    facts: &[(Namespace, u32, String)],
) -> io::Result<u64> {
    let mut writer = TraceWriter::create(path, &status)?;
    for (namespace, id, text) in generator.names().into_iter().chain(facts.iter().cloned()) {
        writer.name(namespace, id, &text)?;
    }
    let real = Instant::now();
    let mut times: VecDeque<(u64, GpuTime)> = VecDeque::new();
    let mut tick = 0;
    while generator.truth().launches < launches {
        let Some(mut record) = generator.next() else { break };
        let now = record.at;
        let time = take_time(&mut record);
        status.published += 1 + u64::from(time.is_some());
        writer.push(record)?;
        times.extend(time);
        while let Some((correlation, time)) = times.pop_front_if(|(_, time)| time.seen <= now) {
            writer.gpu_time(correlation, time)?;
        }
        if now >= tick {
            tick = now + TICK;
            writer.flush_if_due(real + Duration::from_nanos(now - SESSION))?;
        }
        status.ended = now;
    }
    for (correlation, time) in times {
        status.ended = status.ended.max(time.seen);
        writer.gpu_time(correlation, time)?;
    }
    let calls = generator.truth().calls.values().map(|(count, _)| count).sum();
    let status = Status { ending: Ending::Exited, calls, collected: status.published, ..status };
    Ok(writer.finish(&status)?.bytes)
}

/// Takes the GPU time out of a record, since the agent sends it separately.
fn take_time(record: &mut Record) -> Option<(u64, GpuTime)> {
    match &mut record.body {
        Body::Work(work) => work.gpu.take().map(|gpu| (work.call.correlation, gpu)),
        _ => None,
    }
}

/// A process of which nothing special is known.
pub(super) fn status() -> Status {
    Status { pid: 4242, began: SESSION, ended: SESSION, driver_hooked: true, ..Status::default() }
}
