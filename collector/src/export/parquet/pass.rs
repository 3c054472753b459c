//! How do the events of a process become rows? The tables watch the pass of the analyses.

use super::calls::Calls;
use super::context::Context;
use super::gaps::{Gaps, Steps};
use super::memory::Memory;
use super::operations::Operations;
use super::ranges::Nvtx;
use super::tables::Rows;
use crate::analyze::Watch;
use crate::analyze::collectives::Numbers;
use crate::analyze::gaps::LoggedGap;
use crate::analyze::scope::Scope;
use crate::model::Event;
use crate::model::period::Period;
use crate::trace::record::{Body, Device};
use std::collections::BTreeMap;

/// The tables that are filled while the trace is read.
pub(super) struct Pass<'a, 'g> {
    of: Context<'a>,
    rows: Rows<'g>,
    operations: Operations,
    calls: Calls,
    memory: Memory,
    ranges: Nvtx,
    gaps: Gaps,
    steps: Steps,
    numbers: Numbers<'a>,
    devices: BTreeMap<u32, Device>,
}

/// What was learned of a process while its trace was read.
pub(super) struct Learned<'a> {
    /// The GPUs by ordinal.
    pub devices: BTreeMap<u32, Device>,
    /// How many communication kernels it launched, by symbol, whatever the filter selects.
    pub communication: BTreeMap<&'a str, u64>,
}

impl<'a, 'g> Pass<'a, 'g> {
    pub fn new(of: Context<'a>, rows: Rows<'g>, numbers: Numbers<'a>) -> Pass<'a, 'g> {
        Pass {
            of,
            rows,
            operations: Operations::default(),
            calls: Calls::default(),
            memory: Memory::default(),
            ranges: Nvtx::default(),
            gaps: Gaps::default(),
            steps: Steps::default(),
            numbers,
            devices: BTreeMap::new(),
        }
    }

    /// Gives the last rows.
    pub fn finish(self) -> Learned<'a> {
        self.rows.finish();
        Learned { devices: self.devices, communication: self.numbers.by_symbol() }
    }
}

impl Watch for Pass<'_, '_> {
    fn begin(&mut self, period: &Period) {
        self.of.period = period.clone();
    }

    fn observe(&mut self, event: &Event<'_>, scope: &Scope<'_>) {
        let Pass { of, rows, operations, calls, memory, ranges, steps, numbers, .. } = self;
        of.observe(event.record);
        let launched = event.operation.as_ref().and_then(|operation| numbers.launched(operation));
        steps.observe(of, rows, event);
        match &event.record.body {
            Body::NvtxRange(range) => return ranges.add(of, rows, (event.record, range), scope),
            Body::Device(device) => drop(self.devices.insert(device.ordinal, device.clone())),
            _ => {}
        }
        // An operation comes before its call, since it may be the first record of it.
        operations.observe(of, rows, event, (scope.operation(), launched));
        if let Some(ran) = scope.node() {
            operations.node(of, rows, event, ran);
        }
        if let Some(call) = event.record.body.call() {
            of.correlation(event.record.thread, call);
            if let Some(counted) = event.call.filter(|_| scope.call()) {
                calls.add(of, rows, event, (call, counted));
            }
        }
        memory.add(of, rows, event, scope.memory());
    }

    fn gap(&mut self, gap: &LoggedGap) {
        self.gaps.add(&mut self.of, &mut self.rows, gap);
    }

    fn end(&mut self, ended: u64) {
        self.memory.finish(&mut self.of, &mut self.rows, ended);
        self.ranges.finish(&self.of, &mut self.rows, ended);
        self.steps.end(&self.of, &mut self.rows, None);
    }
}
