//! Shared by the tests of the trace: makes records of every kind from plain numbers.
#![allow(dead_code)] // each test binary uses its part

use gpuspy_collector::trace::record::*;
use gpuspy_collector::trace::{TraceReader, TraceWriter};
use gpuspy_wire::record::{
    Direction, LossCause, Memory, NodeKind, NvtxChange, SyncScope, Untimed, Via, WindowChange,
};
use std::collections::BTreeMap;
use std::io::Cursor;
use std::path::Path;

/// The number of record kinds.
pub const KINDS: u64 = 26;

/// Returns a status with every field set.
pub fn status(ending: Ending) -> Status {
    Status {
        pid: 4242,
        start_time: 99,
        began: 1 << 40,
        began_realtime: 1 << 60,
        session_realtime: Some(1 << 59),
        ended: (1 << 40) + 5,
        ending,
        exit: Some(Exit::Signal(11)),
        boot: Some(17),
        parent: Some(4241),
        write_error: None,
        agent_ns: 7,
        poller_ns: 8,
        calls: 9,
        published: 10,
        collected: 11,
        pending: 12,
        lost: BTreeMap::from([(LossCause::RingFull, 3), (LossCause::NameLost, u64::MAX)]),
        lookups: 13,
        lookups_hooked: 14,
        driver_hooked: true,
        outside_launches: 15,
        outside_others: 16,
        threads: BTreeMap::from([(0, 4242), (u32::MAX, 4243)]),
        hangs: vec![Hang {
            since: 17,
            until: 18,
            is_pending: true,
            operation: Some(Operation::Kernel(19)),
            call: Some(Blocked { tid: 4243, api: 20, library: 21, since: 22 }),
            ..Hang::default()
        }],
    }
}

/// Writes records with their names, and returns the bytes of the file.
pub fn written(records: &[Record]) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.gspy");
    let mut writer = TraceWriter::create(&path, &status(Ending::Running)).unwrap();
    for record in records {
        writer.push(record.clone()).unwrap();
    }
    writer.finish(&status(Ending::Exited)).unwrap();
    std::fs::read(&path).unwrap()
}

/// Reads all records of a trace in memory.
pub fn read(bytes: &[u8]) -> Vec<Record> {
    TraceReader::new(Cursor::new(bytes)).unwrap().records().collect()
}

/// Reads all records of a trace file, which must be undamaged and complete.
pub fn read_whole(path: &Path) -> Vec<Record> {
    let mut reader = TraceReader::open(path).unwrap();
    let records = reader.records().collect();
    assert!(reader.complete() && reader.damage().is_none(), "{:?}", reader.damage());
    records
}

/// The numbers from which records are made; 0 once they run out.
pub struct Numbers<I>(pub I);

impl<I: Iterator<Item = u64>> Numbers<I> {
    fn u64(&mut self) -> u64 {
        self.0.next().unwrap_or(0)
    }

    fn u32(&mut self) -> u32 {
        self.u64() as u32
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[(self.u64() % all.len() as u64) as usize]
    }

    fn bool(&mut self) -> bool {
        self.one_of(&[false, true])
    }

    fn call(&mut self) -> Call {
        Call {
            correlation: self.u64(),
            api: self.u64() as u16,
            via: self.one_of(&[None, Some(Via::Driver), Some(Via::RuntimeDriver), Some(Via::Runtime)]),
            flags: self.u64() as u16,
            begin: self.u64(),
            end: self.u64(),
            caller: self.u64(),
            context: self.u32(),
            stack: self.u32(),
        }
    }

    fn gpu_time(&mut self) -> GpuTime {
        GpuTime {
            time_base: self.u32(),
            start: self.u64() as i64,
            duration: self.u64(),
            start_error: self.u32(),
            duration_error: self.u32(),
            seen: self.u64(),
            flags: self.u64() as u16,
            tail: self.u64(),
        }
    }

    fn event(&mut self) -> EventOp {
        EventOp { call: self.call(), stream: self.u64(), event: self.u64(), event_flags: self.u32() }
    }

    fn work(&mut self, what: What) -> Body {
        Body::Work(Work {
            call: self.call(),
            submitted: self.u64(),
            entered: if matches!(what, What::Memcpy { .. } | What::Memset { .. }) { self.u64() } else { 0 },
            lead: self.u64(),
            tail: self.u64(),
            untimed: self.one_of(Untimed::ALL),
            stream: self.u64(),
            gpu: if self.bool() { Some(self.gpu_time()) } else { None },
            what,
        })
    }

    fn kernel(&mut self) -> What {
        What::Kernel {
            name: self.u32(),
            function: self.u64(),
            grid: [self.u32(), self.u32(), self.u32()],
            block: [self.u32(), self.u32(), self.u32()],
            shared_bytes: self.u32(),
            attributes: self.u32(),
            cluster: [self.u32() as u8, self.u32() as u8, self.u32() as u8],
        }
    }

    fn memcpy(&mut self) -> What {
        What::Memcpy {
            direction: self.one_of(Direction::ALL),
            asynchronous: self.bool(),
            bytes: self.u64(),
            dst: self.u64(),
            src: self.u64(),
            rows: self.u32(),
            peer_context: self.u32(),
        }
    }

    fn memset(&mut self) -> What {
        What::Memset {
            asynchronous: self.bool(),
            bytes: self.u64(),
            dst: self.u64(),
            value: self.u32(),
            element: self.u32() as u8,
            rows: self.u32(),
        }
    }

    fn graph_launch(&mut self) -> What {
        What::Graph {
            graph: self.u32(),
            handle: self.u64(),
            kernels: self.u32(),
            copies: self.u32(),
            memsets: self.u32(),
        }
    }

    fn device(&mut self) -> Device {
        let mut uuid = [0; 16];
        uuid[..8].copy_from_slice(&self.u64().to_le_bytes());
        uuid[8..].copy_from_slice(&self.u64().to_be_bytes());
        Device {
            ordinal: self.u32(),
            uuid,
            memory_bytes: self.u64(),
            multiprocessors: self.u32(),
            capability: self.u32(),
            warps_per_multiprocessor: self.u32(),
        }
    }

    /// Makes a body of one of the [`KINDS`] kinds.
    pub fn body(&mut self, kind: u64) -> Body {
        let (n, memory) = (self, Memory::ALL);
        match kind % KINDS {
            0 => {
                let what = n.kernel();
                n.work(what)
            }
            1 => {
                let what = n.memcpy();
                n.work(what)
            }
            2 => {
                let what = n.memset();
                n.work(what)
            }
            3 => {
                let what = n.graph_launch();
                n.work(what)
            }
            4 => Body::Alloc(Alloc {
                call: n.call(),
                memory: n.one_of(memory),
                address: n.u64(),
                bytes: n.u64(),
                stream: n.u64(),
                pool: n.u64(),
            }),
            5 => Body::Free(Free {
                call: n.call(),
                memory: n.one_of(memory),
                address: n.u64(),
                stream: n.u64(),
                bytes: n.u64(),
            }),
            6 => Body::Synchronize(Synchronize {
                call: n.call(),
                scope: n.one_of(SyncScope::ALL),
                stream: n.u64(),
                event: n.u64(),
            }),
            7 => Body::EventRecord(n.event()),
            8 => Body::EventWait(n.event()),
            9 => Body::Api(Api {
                call: n.call(),
                result: n.u32() as i32,
                subject: n.u64(),
                calls: n.u32(),
                inside: n.u64(),
                entered: n.u64(),
            }),
            10 => Body::Context(Context {
                context: n.u32(),
                device: n.u32(),
                handle: n.u64(),
                destroyed: n.bool(),
            }),
            11 => Body::Stream(Stream {
                stream: n.u64(),
                handle: n.u64(),
                context: n.u32(),
                flags: n.u32(),
                priority: n.u32() as i32,
                destroyed: n.bool(),
            }),
            12 => Body::Graph(Graph {
                graph: n.u32(),
                handle: n.u64(),
                kernels: n.u32(),
                copies: n.u32(),
                memsets: n.u32(),
                others: n.u32(),
            }),
            13 => Body::Module(Module {
                start: n.u64(),
                end: n.u64(),
                bias: n.u64(),
                path: n.u32(),
                build_id: std::array::from_fn(|_| n.u64() as u8),
            }),
            14 => Body::Device(n.device()),
            15 => {
                let (launches, ordinary, closing) = (n.u32(), n.u32(), n.u64());
                n.work(What::Burst { launches, ordinary, closing })
            }
            16 => Body::GraphNode(GraphNode {
                graph: n.u32(),
                kind: n.one_of(NodeKind::ALL),
                kernel: n.u32(),
                count: n.u32(),
                bytes: n.u64(),
                address: n.u64(),
            }),
            17 => Body::NodeTime(NodeTime {
                correlation: n.u64(),
                context: n.u32(),
                kernel: n.u32(),
                node: n.u32(),
                gpu: n.gpu_time(),
            }),
            18 => Body::ClockSample(ClockSample {
                context: n.u32(),
                time_base: n.u32(),
                gpu: n.u64() as i64,
                error: n.u32(),
                after: n.u64(),
                before: n.u64(),
            }),
            19 => Body::Window(Window {
                change: n.one_of(WindowChange::ALL),
                agent_ns: n.u64(),
                poller_ns: n.u64(),
                launches: n.u64(),
            }),
            20 => Body::NvtxRange(NvtxRange {
                change: n.one_of(NvtxChange::ALL),
                id: n.u64(),
                domain: n.u32(),
                text: n.u32(),
                category: n.u32(),
                color: n.u32(),
                payload: n.u64() & 1 != 0,
            }),
            21 => Body::KernelFacts(KernelFacts {
                function: n.u64(),
                module: n.u64(),
                origin: n.u64(),
                kernel: n.u32(),
                context: n.u32(),
                threads: n.u32(),
                shared_bytes: n.u32(),
                static_shared_bytes: n.u32(),
                local_bytes: n.u32(),
                registers: n.u32() as u16,
                blocks_per_multiprocessor: n.u32() as u16,
                max_threads: n.u32() as u16,
            }),
            22 => Body::Lookup(Lookup { function: n.u32(), count: n.u64() }),
            23 => Body::CaptureEdge { begins: n.bool() },
            24 => Body::ThreadTime(ThreadTime { ran: n.u64(), queued: n.u64(), late: n.u64() }),
            _ => Body::Loss { cause: n.one_of(LossCause::ALL), count: n.u64() },
        }
    }

    /// Makes a record of one of the [`KINDS`] kinds.
    pub fn record(&mut self, kind: u64) -> Record {
        Record { thread: self.u32(), at: self.u64(), body: self.body(kind) }
    }
}
