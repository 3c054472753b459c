//! Which rows will an export have? This is the first pass over a trace.

use crate::hash::HashSet;
use crate::model::facts::Facts;
use crate::trace::record::{Body, Device, Record};
use std::collections::{BTreeMap, BTreeSet};

/// What the second pass has to know about the whole trace.
#[derive(Debug, Default)]
pub struct Scene {
    /// GPUs by ordinal.
    pub devices: BTreeMap<u32, Device>,
    /// Claim numbers of threads with a call or an NVTX range.
    pub threads: BTreeSet<u32>,
    /// Streams with a timed operation, in order of appearance.
    pub streams: Vec<Stream>,
    /// What the driver said about kernels.
    pub facts: Facts,
    met: HashSet<(u32, u64)>,
}

/// A stream that gets a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    /// Its context's number.
    pub context: u32,
    /// Its id.
    pub stream: u64,
}

impl Stream {
    /// What identifies it in the process.
    pub fn key(&self) -> (u32, u64) {
        (self.context, self.stream)
    }
}

impl Scene {
    /// Takes the next record.
    pub fn observe(&mut self, record: &Record) {
        if record.body.call().is_some() || matches!(record.body, Body::NvtxRange(_)) {
            self.threads.insert(record.thread);
        }
        match &record.body {
            Body::Device(device) => {
                self.devices.insert(device.ordinal, device.clone());
            }
            Body::KernelFacts(facts) => self.facts.add(facts),
            Body::Work(work) if work.gpu.is_some() => {
                let stream = Stream { context: work.call.context, stream: work.stream };
                if self.met.insert(stream.key()) {
                    self.streams.push(stream);
                }
            }
            _ => {}
        }
    }
}
