//! How are operations shown on the rows of a GPU?

use super::{GpuRow, Launch, MOST_LAUNCHES, Pass};
use crate::analyze::kernels::UNKNOWN;
use crate::export::timeline::sink::{Arg, Arrow, Category, Key, Sink, Slice};
use crate::model::Action;
use crate::model::facts::Shape;
use crate::model::gpu_interval::Length;
use crate::model::transfer::{HostMemory, TransferKind};
use crate::report::names::demangle;
use crate::trace::record::{Device, KernelFacts};
use gpuspy_wire::record::Namespace;
use std::io;

/// Threads per warp: 32 on every NVIDIA GPU so far (CUDA C++ Programming Guide, compute capabilities).
pub const WARP: u32 = 32;

/// What an operation is called, and what is said of it besides where and when it ran.
struct Described<S: Sink> {
    category: Category,
    name: S::Name,
    more: Option<S::Args>,
}

impl<S: Sink> Pass<'_, '_, S> {
    /// Writes an operation.
    pub(super) fn gpu(&mut self, (start, row): (i64, GpuRow)) -> io::Result<()> {
        let span = self.streams.entry(row.place.row).or_default().place(start, row.end);
        let GpuRow { context, correlation, length: Length { lo, value, hi }, .. } = row;
        let mut args = vec![
            Arg::of(Key::Device, row.place.gpu),
            Arg::of(Key::Context, context),
            Arg::of(Key::Stream, row.place.row),
            Arg::of(Key::Correlation, correlation),
            Arg::of(Key::Duration, [lo, value, hi]),
        ];
        args.extend(row.external.map(|id| Arg::of(Key::External, id)));
        let Described { category, name, more } =
            self.described(&row, value.max(span.1.abs_diff(span.0)), &mut args);
        let arrow = row.has_call.then_some(Arrow::Operation(correlation));
        self.export.summary.operations += 1;
        let (name, row, more) = (&name, row.place.shown(), more.as_ref());
        self.export.sink.slice(&Slice { category, name, row, span, args: &args, more, arrow, inside: None })
    }

    /// Describes an operation that took `took` ns, and adds its arguments. Its slice may be shorter, where it would overlap the one
    /// before.
    fn described(&mut self, row: &GpuRow, took: u64, args: &mut Vec<Arg<'_>>) -> Described<S> {
        let sink = &mut self.export.sink;
        match row.what {
            Action::Kernel { name: id, .. } => {
                let symbol = self.source.names.get(Namespace::Kernel, id).unwrap_or(UNKNOWN);
                let name = self.kernels.entry(id).or_insert_with(|| sink.name(&demangle(symbol))).clone();
                let more = row.launch.map(|launch| self.launched(row, launch));
                Described { category: Category::Kernel, name, more }
            }
            Action::Transfer { kind, host_memory, bytes } => {
                let category = if kind == TransferKind::Memset { Category::Set } else { Category::Copy };
                // Bytes per ns are GB per s.
                args.push(Arg::of(Key::Bytes, bytes));
                args.extend((took > 0).then(|| Arg::of(Key::Rate, bytes as f64 / took as f64)));
                let name = sink.name(&transfer_name(kind, host_memory));
                Described { category, name, more: None }
            }
            Action::Graph { kernels } => {
                let name = format!("Graph ({kernels} kernel{})", if kernels == 1 { "" } else { "s" });
                args.extend([Arg::of(Key::Queued, 0u32), Arg::of(Key::Kernels, kernels)]);
                Described { category: Category::Kernel, name: sink.name(&name), more: None }
            }
            Action::Burst { launches, .. } => {
                let kind = if row.what.is_run() { "Run" } else { "Burst" };
                let name = format!("{kind} ({launches} launch{})", if launches == 1 { "" } else { "es" });
                args.extend([Arg::of(Key::Queued, 0u32), Arg::of(Key::Launches, launches)]);
                Described { category: Category::Kernel, name: sink.name(&name), more: None }
            }
        }
    }

    /// Returns the arguments of a kernel launch. A loop makes the same launches again and again.
    fn launched(&mut self, row: &GpuRow, launch: Launch) -> S::Args {
        let name = match row.what {
            Action::Kernel { name, .. } => name,
            _ => 0,
        };
        let key = (name, row.context, launch);
        if let Some(known) = self.launches.get(&key) {
            return known.clone();
        }
        if self.launches.len() >= MOST_LAUNCHES {
            self.launches.clear();
        }
        let arguments = self.arguments(name, row.context, launch);
        let arguments = self.export.sink.args(&arguments);
        self.launches.insert(key, arguments.clone());
        arguments
    }

    fn arguments(&self, kernel: u32, context: u32, launch: Launch) -> Vec<Arg<'static>> {
        let Launch { grid, block, shared_bytes } = launch;
        let known = self.source.scene.facts.of(&Shape::of(kernel, context, block, shared_bytes));
        let facts = known.map(|known| &known.facts);
        let ordinal = self.source.clocks.devices.get(&context);
        let device = ordinal.and_then(|ordinal| self.source.scene.devices.get(ordinal));
        let registers = facts.map_or(0, |facts| facts.registers);
        let shared_bytes =
            u64::from(shared_bytes) + facts.map_or(0, |facts| u64::from(facts.static_shared_bytes));
        let mut args = vec![Arg::of(Key::Queued, 0u32)];
        if registers > 0 {
            args.push(Arg::of(Key::Registers, u32::from(registers)));
        }
        args.push(Arg::of(Key::SharedMemory, shared_bytes));
        if let Some(device) = device.filter(|device| device.multiprocessors > 0) {
            let blocks = grid.map(f64::from).iter().product::<f64>() / f64::from(device.multiprocessors);
            let warps = (block.map(f64::from).iter().product::<f64>() / f64::from(WARP)).ceil();
            args.extend([Arg::of(Key::BlocksPerSm, blocks), Arg::of(Key::WarpsPerSm, blocks * warps)]);
            let theoretical = facts.and_then(|facts| theoretical_occupancy(facts, device));
            args.extend(theoretical.map(|part| Arg::of(Key::TheoreticalOccupancy, part)));
            let estimated = facts.and_then(|facts| estimated_occupancy(facts, device, blocks));
            args.extend(estimated.map(|part| Arg::of(Key::EstimatedOccupancy, part)));
        }
        args.extend([Arg::of(Key::Grid, grid), Arg::of(Key::Block, block)]);
        args
    }
}

/// The threads of the most blocks that a multiprocessor holds, relative to the most threads that it holds, percent.
/// The report's section on occupancy shows the same number first.
fn theoretical_occupancy(facts: &KernelFacts, device: &Device) -> Option<u32> {
    let warps = u32::from(facts.blocks_per_multiprocessor).saturating_mul(facts.threads.div_ceil(WARP));
    let most = device.warps_per_multiprocessor;
    (warps > 0 && most > 0).then(|| (f64::from(warps) / f64::from(most) * 100.0).round() as u32)
}

/// Kineto's estimated achieved occupancy, percent: the threads of the blocks that a multiprocessor holds, or of its
/// share of the launch's blocks if that is less, relative to the most threads that it holds. It is not a measurement.
fn estimated_occupancy(facts: &KernelFacts, device: &Device, blocks: f64) -> Option<u32> {
    let (held, warps) = (facts.blocks_per_multiprocessor, device.warps_per_multiprocessor);
    let most = f64::from(warps) * f64::from(WARP);
    let threads = f64::from(held).min(blocks) * f64::from(facts.threads);
    (held > 0 && warps > 0).then(|| (threads / most * 100.0).round() as u32)
}

/// The name that Kineto gives a transfer: `Memcpy HtoD (Pageable -> Device)`.
fn transfer_name(kind: TransferKind, host_memory: HostMemory) -> String {
    let host = match host_memory {
        HostMemory::Pageable => "Pageable",
        HostMemory::Pinned => "Pinned",
        HostMemory::Managed => "Managed",
        HostMemory::None => "Device",
    };
    let (from, to) = match kind {
        TransferKind::HtoD => (host, "Device"),
        TransferKind::DtoH => ("Device", host),
        TransferKind::HtoH => (host, host),
        TransferKind::DtoD | TransferKind::PtoP => ("Device", "Device"),
        TransferKind::Memset => return "Memset (Device)".to_owned(),
    };
    format!("Memcpy {} ({from} -> {to})", kind.name())
}
