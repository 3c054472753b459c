//! Sessions with a simulated agent in its own process: many threads, a kill, an exec, a detach, hostile clients.

#[allow(dead_code, reason = "shared with tests that use the rest of it")]
mod collect_support;

use collect_support::{FakeAgent, SEALS, memfd, now, send, try_send};
use gpuspy_collector::collect::{self, Collector, Pair, Session, Stopper, Target};
use gpuspy_collector::trace::TraceReader;
use gpuspy_collector::trace::record::{Body, Ending, Exit, Record, Status, What};
use gpuspy_wire::handshake::Hello;
use gpuspy_wire::record::{Anchor, Fact, Head, Loss, LossCause, Namespace, Record as _};
use gpuspy_wire::segment::{HEADER_BYTES, Layout};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A generous time limit, since the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(60);

/// A collector that listens in its own directory.
struct Collecting {
    directory: tempfile::TempDir,
    collector: Arc<Collector>,
    stopper: Option<Stopper>,
    sessions: Arc<Mutex<Vec<collect::Result<Session>>>>,
    listening: Option<JoinHandle<()>>,
}

impl Collecting {
    fn new() -> Collecting {
        let directory = tempfile::tempdir().unwrap();
        let (collector, stopper) = Collector::new(Target::Directory(directory.path().to_owned())).unwrap();
        let collector = Arc::new(collector);
        let sessions = Arc::new(Mutex::new(Vec::new()));
        let listener = collect::bind(&directory.path().join("socket")).unwrap();
        let listening = std::thread::spawn({
            let (collector, sessions) = (Arc::clone(&collector), Arc::clone(&sessions));
            move || {
                collector.listen(listener, |ended| sessions.lock().push(ended.map(|(session, _)| session)))
            }
        });
        Collecting { directory, collector, stopper: Some(stopper), sessions, listening: Some(listening) }
    }

    fn socket(&self) -> PathBuf {
        self.directory.path().join("socket")
    }

    /// Starts the simulated agent in its own process.
    fn agent(&self, what: &str) -> Child {
        agent_command(what).env("FAKE_SOCKET", self.socket()).spawn().unwrap()
    }

    fn wait_for_sessions(&self, count: usize) -> Vec<collect::Result<Session>> {
        let deadline = Instant::now() + PATIENCE;
        while self.sessions.lock().len() < count {
            assert!(Instant::now() < deadline, "{:?}", self.sessions.lock());
            std::thread::sleep(Duration::from_millis(1));
        }
        self.sessions.lock().clone()
    }

    fn read(&self, session: &Session) -> Trace {
        Trace::read(self.collector.traces().path(session.trace))
    }

    /// Stops the collector and waits for its end.
    fn stop(&mut self) {
        self.stopper = None;
        if let Some(listening) = self.listening.take() {
            listening.join().unwrap();
        }
    }
}

impl Drop for Collecting {
    fn drop(&mut self) {
        self.stop();
    }
}

struct Trace {
    status: Status,
    records: Vec<Record>,
    names: BTreeMap<(Namespace, u32), String>,
}

impl Trace {
    fn read(path: &Path) -> Trace {
        let mut reader = TraceReader::open(path).unwrap();
        assert!(reader.complete(), "the writer came to its end");
        let status = reader.status().unwrap().clone();
        let names = reader.names().0.clone();
        let records = reader.records().collect();
        Trace { status, records, names }
    }

    /// Returns the launches of each thread, by the numbers that the simulated agent writes into the grid.
    fn launches(&self) -> BTreeMap<u32, Vec<u32>> {
        let mut threads = BTreeMap::<u32, Vec<u32>>::new();
        for record in &self.records {
            if let Body::Work(work) = &record.body
                && let What::Kernel { grid, .. } = work.what
            {
                threads.entry(record.thread).or_default().push(grid[0]);
            }
        }
        threads
    }
}

fn agent_command(what: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "the_simulated_agent_runs_its_role", "--nocapture"]).env("FAKE_AGENT", what);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    command
}

/// The test that child processes run, see [`agent_command`].
#[test]
fn the_simulated_agent_runs_its_role() {
    let Ok(what) = std::env::var("FAKE_AGENT") else {
        let output = agent_command("nonsense").stderr(Stdio::piped()).output().unwrap();
        assert!(!output.status.success(), "it must not take an order that it does not know for done");
        return;
    };
    let socket = std::env::var_os("FAKE_SOCKET").map(PathBuf::from);
    let connect = || FakeAgent::connect(socket.as_deref().unwrap());
    match what.as_str() {
        "threads" => threads(&connect()),
        "killed" => killed(&connect()),
        "exec for a moment" => replaced_for_a_moment(&connect()),
        "exec" => replaced(&connect()),
        "taken apart" => taken_apart(connect()),
        "running" => running(&connect()),
        "hostile" => hostile(&connect()),
        "full rings" => full_rings(&connect()),
        "unattended" => unattended(),
        "taken over" => taken_over(&connect()),
        "leaving" => leaving(&connect()),
        other => panic!("no simulator does {other}"),
    }
}

fn wait_for_stdin_to_close() {
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

const WAVES: u64 = 3;
const THREADS: u64 = 4;
const EACH: u32 = 5000;

fn threads(agent: &FakeAgent) {
    for _ in 0..WAVES {
        std::thread::scope(|threads| {
            for _ in 0..THREADS {
                threads.spawn(|| {
                    let mut thread = agent.thread();
                    let kernel = thread.claim as u32;
                    thread.name(Namespace::Kernel, kernel, &format!("kernel_{kernel}{}", "x".repeat(3000)));
                    for _ in 0..EACH {
                        thread.launch(kernel);
                    }
                    thread.close();
                });
            }
        });
    }
    agent.exiting();
}

#[test]
fn every_record_of_every_thread_arrives_once_and_in_order() {
    let collecting = Collecting::new();
    let status = collecting.agent("threads").wait().unwrap();
    assert!(status.success());
    let session = collecting.wait_for_sessions(1).remove(0).unwrap();
    assert_eq!(session.ending, Ending::Exited);
    let trace = collecting.read(&session);
    let launches = trace.launches();
    let claims: Vec<u32> = (1..=(WAVES * THREADS) as u32).collect();
    assert_eq!(launches.keys().copied().collect::<Vec<_>>(), claims);
    for (thread, counts) in &launches {
        assert!(counts.iter().copied().eq(1..=EACH), "thread {thread}: {} launches", counts.len());
        assert!(trace.names[&(Namespace::Kernel, *thread)].starts_with(&format!("kernel_{thread}x")));
        assert_eq!(trace.status.threads[thread], 1000 + thread);
    }
    let total = WAVES * THREADS * u64::from(EACH);
    assert_eq!(trace.status.published, total + WAVES * THREADS, "launches and names");
    assert_eq!((trace.status.collected, trace.status.calls), (trace.status.published, total));
    assert!(trace.status.lost.is_empty() && trace.status.ended > trace.status.began);
    assert_eq!(trace.status.ending, Ending::Exited);
}

fn killed(agent: &FakeAgent) {
    let mut thread = agent.thread();
    for _ in 0..1000 {
        thread.launch(1);
    }
    // A record kind of a later version is published, and must be skipped.
    thread.push(&[u64::from_ne_bytes([200, 1, 9, 0, 0, 0, 0, 0]), 1, 2, 3, 4, 5, 6, 7]);
    thread.lose(LossCause::RingFull, 3);
    agent.segment.header().live.0.pending.store(7, Ordering::Relaxed);
    agent.segment.header().live.0.lost[LossCause::NoSlot as usize].store(2, Ordering::Relaxed);
    // SAFETY: kill takes numbers.
    unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
}

#[test]
fn the_trace_of_a_killed_process_has_all_published_records() {
    let collecting = Collecting::new();
    let status = collecting.agent("killed").wait().unwrap();
    assert_eq!(status.signal(), Some(libc::SIGKILL));
    let session = collecting.wait_for_sessions(1).remove(0).unwrap();
    assert_eq!((session.ending, session.unknown), (Ending::Vanished, 1));
    let trace = collecting.read(&session);
    assert!(trace.launches()[&1].iter().copied().eq(1..=1000));
    assert_eq!((trace.status.published, trace.status.collected), (1001, 1000));
    assert_eq!(trace.status.pending, 7);
    assert_eq!(trace.status.lost, BTreeMap::from([(LossCause::RingFull, 3), (LossCause::NoSlot, 2)]));
}

fn replaced(agent: &FakeAgent) {
    let mut thread = agent.thread();
    for _ in 0..10 {
        thread.launch(1);
    }
    panic!("exec failed: {}", Command::new("cat").exec());
}

#[test]
fn an_exec_ends_the_session() {
    let collecting = Collecting::new();
    let mut child = collecting.agent("exec");
    let session = collecting.wait_for_sessions(1).remove(0).unwrap();
    assert_eq!((session.ending, session.pid), (Ending::Replaced, child.id()));
    assert_eq!(child.try_wait().unwrap(), None, "the process runs on");
    assert_eq!(collecting.read(&session).launches()[&1].len(), 10);
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
}

fn replaced_for_a_moment(agent: &FakeAgent) {
    let mut thread = agent.thread();
    thread.launch(1);
    agent.wait_attached();
    println!("{}", now());
    panic!("exec failed: {}", Command::new("sh").args(["-c", "sleep 0.15; exit 7"]).exec());
}

/// Runs a program that another one replaces for 150 ms, and returns how long after that the first one is said to have ended, ns.
fn end_after_an_exec() -> u64 {
    let collecting = Collecting::new();
    let mut child = collecting.agent("exec for a moment");
    let session = collecting.wait_for_sessions(1).remove(0).unwrap();
    assert_eq!((session.ending, session.exit), (Ending::Replaced, None));
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let replaced: u64 = lines.filter_map(|line| line.parse().ok()).next().unwrap();
    let trace = collecting.read(&session);
    assert_eq!(trace.status.exit, None);
    assert_eq!(child.wait().unwrap().code(), Some(7));
    let last = trace.records.iter().map(|record| record.at).max().unwrap().max(trace.status.ended);
    last.checked_sub(replaced).expect("it ended no earlier")
}

/// The program before seemed to have lived until 200 ms later, and to have exited with the code of the one after it.
#[test]
fn the_end_of_a_program_after_an_exec_is_not_that_of_the_one_before() {
    // On a busy machine, an end may be noticed late.
    let mut ends = (0..12).map(|_| end_after_an_exec());
    assert!(ends.any(|end| end < 145_000_000), "each end was noticed more than 145 ms late");
}

/// Does what a process of a large GPU context looks like when it is killed: its first thread is gone and its connection closed,
/// and its end takes its time.
fn taken_apart(agent: FakeAgent) {
    extern "C" fn end_this_thread(_: i32) {
        // SAFETY: this ends the thread that runs it, and nothing else.
        unsafe { libc::syscall(libc::SYS_exit, 0) };
    }
    let mut thread = agent.thread();
    for _ in 0..10 {
        thread.launch(1);
    }
    agent.wait_attached();
    let pid = std::process::id();
    // SAFETY: the handler makes one system call; tgkill takes numbers.
    unsafe {
        libc::signal(libc::SIGUSR1, end_this_thread as *const () as usize);
        libc::syscall(libc::SYS_tgkill, pid, pid, libc::SIGUSR1);
    }
    while !std::fs::read_to_string("/proc/self/stat").unwrap().contains(") Z ") {
        std::thread::sleep(Duration::from_millis(1));
    }
    drop(agent);
    std::thread::sleep(Duration::from_millis(700));
    // SAFETY: as above.
    unsafe { libc::kill(pid as i32, libc::SIGKILL) };
}

/// It counted as replaced by exec after 200 ms, and the signal was lost.
#[test]
fn a_killed_process_that_takes_long_to_be_gone_was_killed() {
    let collecting = Collecting::new();
    let mut child = collecting.agent("taken apart");
    let status = child.wait().unwrap();
    assert_eq!(status.signal(), Some(libc::SIGKILL));
    let session = collecting.wait_for_sessions(1).remove(0).unwrap();
    assert_eq!(session.ending, Ending::Vanished);
    assert!(matches!(session.exit, None | Some(Exit::Signal(9))), "{:?}", session.exit);
    assert_eq!(collecting.read(&session).launches()[&1].len(), 10);
}

fn running(agent: &FakeAgent) {
    let mut thread = agent.thread();
    for _ in 0..10 {
        thread.launch(1);
    }
    println!("ready");
    wait_for_stdin_to_close();
    assert_eq!(agent.attached(), 2, "nobody drains us");
}

/// Waits until a simulated agent reports that it is ready.
fn wait_ready(child: &mut Child) {
    // The pipe is borrowed, so that it stays open for the simulated agent.
    let lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
    assert!(lines.map_while(Result::ok).any(|line| line.ends_with("ready")));
}

#[test]
fn a_stop_detaches_and_completes_the_trace() {
    let mut collecting = Collecting::new();
    let mut child = collecting.agent("running");
    wait_ready(&mut child);
    collecting.stop();
    let session = collecting.wait_for_sessions(1).remove(0).unwrap();
    assert_eq!(session.ending, Ending::Detached);
    assert_eq!(collecting.read(&session).launches()[&1].len(), 10);
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success(), "the process must have run on, and know that nobody drains it");
}

fn hostile(agent: &FakeAgent) {
    let mut state = 88_172_645_463_325_252u64;
    let mut random = || {
        // xorshift64, Marsaglia 2003.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut good = agent.thread();
    let layout = agent.segment.layout();
    for round in 0..200 {
        good.launch(1);
        for n in 2..20 {
            let slot = agent.segment.slot(n).unwrap();
            slot.state.0.store(random(), Ordering::Relaxed);
            for word in [&slot.cursors.moved[0], &slot.cursors.moved[1], &slot.counters.0.agent_ticks] {
                word.store(random() >> (random() % 64), Ordering::Relaxed);
            }
            for _ in 0..100 {
                let (at, bytes) = layout.buffer_at(n, 0);
                // SAFETY: the address is inside the mapping and aligned; the reader uses atomics and accepts any value.
                unsafe {
                    agent.base.add((at + random() % (bytes / 8) * 8) as usize).cast::<u64>().write(random())
                };
            }
            slot.cursors.tail.0.store(random() >> (round % 64), Ordering::Release);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    // Anything may be written after the header, and after the handover also into the header.
    // SAFETY: as above.
    unsafe { agent.base.cast::<u64>().write(random()) };
    for at in (16..HEADER_BYTES).step_by(8) {
        // SAFETY: as above. One of these words is `exiting`.
        unsafe { agent.base.add(at).cast::<u64>().write(random()) };
    }
}

#[test]
fn a_hostile_process_harms_only_its_own_trace() {
    let collecting = Collecting::new();
    let mut bad = collecting.agent("hostile");
    let good = collecting.agent("threads").wait().unwrap();
    assert!(good.success() && bad.wait().unwrap().success());
    let sessions: Vec<Session> = collecting.wait_for_sessions(2).into_iter().map(Result::unwrap).collect();
    let (bad, good): (Vec<_>, Vec<_>) = sessions.iter().partition(|s| s.pid == bad.id());
    let trace = collecting.read(bad[0]);
    assert!(trace.status.lost[&LossCause::Corrupt] > 0);
    assert!(trace.launches()[&1].iter().copied().eq(1..=200), "the slot that kept the rules is read");
    let trace = collecting.read(good[0]);
    assert_eq!(
        trace.launches().values().map(Vec::len).sum::<usize>() as u64,
        WAVES * THREADS * u64::from(EACH)
    );
    assert!(trace.status.lost.is_empty());
}

#[test]
fn a_counters_ticks_become_nanoseconds() {
    let collecting = Collecting::new();
    let agent = FakeAgent::on_counter(&Pair::now());
    let stream = UnixStream::connect(collecting.socket()).unwrap();
    agent.greet(&stream);
    let mut thread = agent.thread();
    let mut truth = Vec::new();
    for _ in 0..30 {
        let pair = Pair::now();
        thread.launch_at(1, pair.ticks);
        truth.push(pair.ns);
        let (ticks, monotonic_raw, uncertainty) = (pair.ticks, pair.ns, pair.uncertainty);
        let head = Head::new::<Anchor>();
        thread.push(Anchor { head, ticks, monotonic_raw, uncertainty, ..Anchor::default() }.as_words());
        std::thread::sleep(Duration::from_millis(10));
    }
    // The connection ends, and this process continues.
    drop(stream);
    let session = collecting.wait_for_sessions(1).remove(0).unwrap();
    assert_eq!(session.ending, Ending::Replaced);
    let trace = collecting.read(&session);
    let begins = trace.records.iter().filter_map(|record| match &record.body {
        Body::Work(work) => Some(work.call.begin),
        _ => None,
    });
    let begins: Vec<u64> = begins.collect();
    assert_eq!(begins.len(), truth.len());
    for (begin, truth) in begins.iter().zip(&truth) {
        assert!(begin.abs_diff(*truth) < 20_000, "{} ns off", begin.abs_diff(*truth));
    }
    assert_eq!(trace.status.collected, 60, "anchors are taken, not written");
}

fn unattended() {
    let agent = FakeAgent::new(Layout::OURS);
    let mut thread = agent.thread();
    for _ in 0..100 {
        thread.launch(1);
    }
    println!("ready");
    agent.wait_attached();
    for _ in 0..50 {
        thread.launch(1);
    }
    wait_for_stdin_to_close();
    agent.exiting();
}

#[test]
fn a_running_process_can_be_attached_to_once_at_a_time() {
    let place = tempfile::tempdir().unwrap();
    let (collector, stopper) = Collector::new(Target::Named(place.path().to_owned())).unwrap();
    let mut child = agent_command("unattended").spawn().unwrap();
    let pid = child.id();
    wait_ready(&mut child);
    let session = std::thread::scope(|threads| {
        let attached = threads.spawn(|| collector.attach(pid));
        while collector.traces().whole().is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }
        let second = collector.attach(pid).unwrap_err().to_string();
        assert!(second.contains("another collector drains it already"), "{second}");
        drop(child.stdin.take());
        attached.join().unwrap().unwrap()
    });
    assert!(child.wait().unwrap().success());
    assert_eq!(session.ending, Ending::Exited);
    let trace = Trace::read(collector.traces().path(session.trace));
    assert!(trace.launches()[&1].iter().copied().eq(1..=150), "what lay there, and what came");
    let gone = collector.attach(pid).unwrap_err().to_string();
    assert!(gone.contains("there is no process"), "{gone}");
    let without = collector.attach(1).unwrap_err().to_string();
    assert!(
        without.contains("has no gpuspy segment") || without.contains("cannot read the descriptors"),
        "{without}"
    );
    drop(stopper);
}

fn taken_over(agent: &FakeAgent) {
    let wait_for = |attached: u64| {
        while agent.attached() != attached {
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    let (mut poller, mut thread) = (agent.thread(), agent.thread());
    poller.name(Namespace::Kernel, 1, "first");
    (0..10).for_each(|_| thread.launch(1));
    println!("ready");
    wait_for(2);
    (0..20).for_each(|_| thread.launch(1));
    thread.lose(LossCause::RingFull, 5);
    println!("ready");
    wait_for(3);
    let (ticks, monotonic_raw) = (collect_support::now(), collect_support::now());
    let head = Head::new::<Anchor>();
    poller.push(Anchor { head, ticks, monotonic_raw, uncertainty: 100, ..Anchor::default() }.as_words());
    poller.name(Namespace::Fact, Fact::AgentVersion as u32, "1");
    poller.name(Namespace::Kernel, 1, "second");
    poller.wait_until_read();
    let (head, at, count) = (Head::new::<Loss>(), collect_support::now(), 5);
    thread.push(Loss { head, at, count, cause: LossCause::RingFull as u8, ..Loss::default() }.as_words());
    (0..30).for_each(|_| thread.launch(1));
    println!("ready");
    wait_for_stdin_to_close();
    agent.exiting();
}

/// It began when the process did, and had no name but those that the first collector had not had.
#[test]
fn a_second_collector_has_what_comes_after_it_and_not_what_came_before() {
    let mut collecting = Collecting::new();
    let mut child = collecting.agent("taken over");
    wait_ready(&mut child);
    collecting.stop();
    let first = collecting.read(&collecting.wait_for_sessions(1).remove(0).unwrap());
    assert_eq!((first.launches()[&2].len(), first.status.ending), (10, Ending::Detached));
    // On a busy machine, the next collector was there before the agent had seen that this one is gone.
    wait_ready(&mut child);
    let place = tempfile::tempdir().unwrap();
    let (collector, stopper) = Collector::new(Target::Named(place.path().to_owned())).unwrap();
    let pid = child.id();
    let session = std::thread::scope(|threads| {
        let attached = threads.spawn(|| collector.attach(pid));
        wait_ready(&mut child);
        drop(child.stdin.take());
        attached.join().unwrap().unwrap()
    });
    assert!(child.wait().unwrap().success());
    let second = Trace::read(collector.traces().path(session.trace));
    assert!(second.launches()[&2].iter().copied().eq(31..=60), "{:?}", second.launches());
    assert_eq!(second.names[&(Namespace::Kernel, 1)], "second");
    let status = &second.status;
    assert!(status.began > first.status.ended && status.began_realtime > first.status.began_realtime);
    assert_eq!((status.ending, &status.lost), (Ending::Exited, &BTreeMap::new()));
    let is_loss = |record: &Record| matches!(record.body, Body::Loss { .. });
    assert!(!second.records.iter().any(is_loss), "that was before");
    drop(stopper);
}

fn leaving(agent: &FakeAgent) {
    let mut thread = agent.thread();
    (0..10).for_each(|_| thread.launch(1));
    agent.waits_at_exit();
    println!("ready");
    wait_for_stdin_to_close();
    thread.launch(1);
}

/// What ends with the process, as a container does, ended its collector before the trace had its last launches and its end.
#[test]
fn the_trace_of_a_process_that_waits_at_its_exit_is_whole_while_it_waits() {
    let collecting = Collecting::new();
    let mut child = collecting.agent("leaving");
    wait_ready(&mut child);
    let path = || collecting.collector.traces().paths().next().unwrap().to_owned();
    let trace = Trace::read(&path());
    assert!(trace.launches()[&1].iter().copied().eq(1..=10));
    assert_eq!((trace.status.ending, trace.status.exit), (Ending::Exited, None));
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
    let session = collecting.wait_for_sessions(1).remove(0).unwrap();
    assert_eq!(session.ending, Ending::Exited);
    let trace = Trace::read(&path());
    assert_eq!(trace.launches()[&1].len(), 11, "what came in its last moments, too");
}

#[test]
fn invalid_clients_are_refused_with_a_reason() {
    let collecting = Collecting::new();
    let size = Layout::OURS.segment_bytes;
    let hello = Hello::new(std::process::id(), 1, size).to_bytes();
    let (sealed, unsealed) = (memfd(size, SEALS), memfd(size, libc::F_SEAL_SHRINK));
    let (short, file) = (memfd(100, SEALS), tempfile::tempfile().unwrap());
    let fd = |fd: &dyn AsRawFd| fd.as_raw_fd();
    let vast = memfd(1 << 40, SEALS);
    let hello_of_vast = Hello::new(std::process::id(), 1, 1 << 40).to_bytes();
    let cases: [(&[u8], Vec<i32>, &str); 8] = [
        (&hello[..7], vec![fd(&sealed)], "closed the connection"),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n", vec![fd(&sealed)], "has another version"),
        (&hello, vec![], "sent 0 descriptors"),
        (&hello, vec![fd(&sealed), fd(&sealed)], "sent 2 descriptors"),
        (&hello, vec![fd(&file)], "is not a memfd"),
        (&hello, vec![fd(&unsealed)], "not sealed"),
        (&hello, vec![fd(&short)], "has 100 bytes"),
        (&hello_of_vast, vec![fd(&vast)], "larger than any that an agent of this release makes"),
    ];
    for (n, (bytes, descriptors, reason)) in cases.into_iter().enumerate() {
        let stream = UnixStream::connect(collecting.socket()).unwrap();
        send(&stream, bytes, &descriptors);
        drop(stream);
        let error = collecting.wait_for_sessions(n + 1)[n].as_ref().unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
    // Zeros are not a segment, even with the right size and seals.
    let stream = UnixStream::connect(collecting.socket()).unwrap();
    send(&stream, &hello, &[fd(&sealed)]);
    let error = collecting.wait_for_sessions(9)[8].as_ref().unwrap_err().to_string();
    assert!(error.contains("it is no gpuspy segment"), "{error}");
    assert_eq!(collecting.collector.traces().whole(), None, "no file is made for strangers");
    // The next client is served.
    assert!(collecting.agent("threads").wait().unwrap().success());
    assert_eq!(collecting.wait_for_sessions(10)[9].as_ref().unwrap().ending, Ending::Exited);
}

/// `gpuspy run` looks whether the collectors of other runs still listen, and each reported that as a process that failed.
#[test]
fn a_connection_that_is_closed_without_a_word_is_not_reported() {
    let mut collecting = Collecting::new();
    for _ in 0..3 {
        drop(UnixStream::connect(collecting.socket()).unwrap());
    }
    assert!(collecting.agent("threads").wait().unwrap().success());
    collecting.wait_for_sessions(1);
    collecting.stop();
    let sessions = collecting.wait_for_sessions(1);
    let [session] = &sessions[..] else { panic!("{sessions:?}") };
    assert_eq!(session.as_ref().unwrap().ending, Ending::Exited);
}

#[test]
fn clients_that_say_nothing_or_little_are_given_up_and_others_are_served_meanwhile() {
    let collecting = Collecting::new();
    let silent: Vec<UnixStream> =
        (0..50).map(|_| UnixStream::connect(collecting.socket()).unwrap()).collect();
    // It never waits for as long as a greeting may take, and all of it takes longer.
    let slow = UnixStream::connect(collecting.socket()).unwrap();
    let speaking = std::thread::spawn(move || {
        let hello = Hello::new(std::process::id(), 1, Layout::OURS.segment_bytes).to_bytes();
        let heard = hello.iter().take_while(|byte| {
            std::thread::sleep(Duration::from_millis(500));
            (&slow).write_all(&[**byte]).is_ok()
        });
        heard.count()
    });
    assert!(collecting.agent("threads").wait().unwrap().success());
    let first = collecting.wait_for_sessions(1).remove(0);
    assert_eq!(first.unwrap().ending, Ending::Exited, "it did not wait for the others");
    let refused = collecting.wait_for_sessions(52).split_off(1);
    for refusal in refused {
        let why = refusal.unwrap_err().to_string();
        assert!(why.contains("its greeting did not arrive"), "{why}");
    }
    assert!(speaking.join().unwrap() < 31, "its greeting was never whole");
    drop(silent);
}

#[test]
fn descriptors_of_strangers_are_closed() {
    let collecting = Collecting::new();
    let count = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let sent = memfd(4096, SEALS);
    let hello = Hello::new(std::process::id(), 1, Layout::OURS.segment_bytes).to_bytes();
    let before = count();
    let mut refused = 0;
    for descriptors in [1, 2, 5, 12] {
        for piece in [1, 7, hello.len()] {
            let stream = UnixStream::connect(collecting.socket()).unwrap();
            // With each piece come as many. The collector may hang up before the last.
            let all = vec![sent.as_raw_fd(); descriptors];
            hello.chunks(piece).take_while(|bytes| try_send(&stream, bytes, &all)).for_each(drop);
            drop(stream);
            refused += 1;
            let why = collecting.wait_for_sessions(refused)[refused - 1].as_ref().unwrap_err().to_string();
            assert!(
                why.contains("descriptors") || why.contains("4096 bytes"),
                "{descriptors} with {piece}: {why}"
            );
        }
    }
    let deadline = Instant::now() + PATIENCE;
    while count() > before {
        assert!(Instant::now() < deadline, "{} descriptors, and {before} before", count());
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(collecting.agent("threads").wait().unwrap().success());
    assert_eq!(collecting.wait_for_sessions(refused + 1)[refused].as_ref().unwrap().ending, Ending::Exited);
}

const FULL_THREADS: u64 = 24;
const FULL_EACH: u64 = 25_000;

/// Fills the buffers of many threads, up to the largest.
fn full_rings(agent: &FakeAgent) {
    std::thread::scope(|threads| {
        for _ in 0..FULL_THREADS {
            threads.spawn(|| {
                let mut thread = agent.thread();
                thread.grow();
                thread.grow();
                (0..FULL_EACH).for_each(|_| thread.launch(1));
            });
        }
    });
    println!("ready");
    wait_for_stdin_to_close();
}

/// Returns a figure of this process's memory, in KiB.
fn memory_kib(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(name)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn what_was_read_of_a_large_segment_does_not_stay_in_memory() {
    let collecting = Collecting::new();
    let mut child = collecting.agent("full rings");
    wait_ready(&mut child);
    let deadline = Instant::now() + PATIENCE;
    while collecting.collector.progress().figures().records < FULL_THREADS * FULL_EACH {
        assert!(Instant::now() < deadline, "{:?}", collecting.collector.progress().figures());
        std::thread::sleep(Duration::from_millis(10));
    }
    let shared = memory_kib("RssShmem");
    println!(
        "{shared} KiB of the segment's pages are in memory after reading {} launches",
        FULL_THREADS * FULL_EACH
    );
    assert!(shared < 8 << 10, "{shared} KiB");
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
}

#[test]
fn the_memory_of_ended_sessions_is_given_back() {
    let collecting = Collecting::new();
    let serve = |count: usize, all: usize| {
        for _ in 0..count {
            assert!(collecting.agent("threads").wait().unwrap().success());
        }
        collecting.wait_for_sessions(all);
        // The threads of the last session are still giving memory back.
        std::thread::sleep(Duration::from_millis(300));
        memory_kib("RssAnon")
    };
    let (first, last) = (serve(4, 4), serve(20, 24));
    println!("{first} KiB after 4 processes, {last} KiB after 24");
    assert!(last < first + (16 << 10) && last < 48 << 10, "{first} KiB, then {last} KiB");
}
