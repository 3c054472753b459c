//! How is a timeline written in Perfetto's own format? [ui.perfetto.dev](https://ui.perfetto.dev) and Perfetto's trace
//! processor read it.
//!
//! `timeline` says which events, rows and arguments there are; `proto` has the messages. How they are used:
//!
//! - **A row is a track, and each track that has events is a packet sequence of its own.** Its number is said once, in the
//!   defaults of the sequence. Times are counted from the event before by a clock of the sequence; an event that was before
//!   the one that is written before it (a range around calls) says its time by the real-time clock.
//! - Threads are threads of their processes. The rows of a GPU are tracks of its group, and the group belongs to the process
//!   that used it, because there is no process with the GPU's number.
//! - A slice is two packets, its beginning and its end. Packets of the same time on a track count in the order of the file, so
//!   a slice of no length, and one that lies inside another with the same span, are written in that order.
//! - Times are ns of the real-time clock.
//! - **Files can be put together** (`cat a b`): tracks and arrows have numbers that depend on the process and on when its
//!   collection began, and each sequence begins by forgetting what was said before.
//! - Names, categories and the names and texts of arguments are interned (`interned`).
//! - Packets can be compressed by the hundred, as packets of a kind of its own (`packed`).

mod annotation;
mod interned;
mod packed;
mod packets;
mod proto;

use super::timeline::Summary;
use super::timeline::sink::{
    Arg, Arrow, Category, Counter, Group, Header, Instant, NamedGpu, NamedRow, Row, RowKind, Sink, Slice,
};
use crate::hash::{HashMap, HashSet};
use annotation::{Encoded, encoded};
use interned::{Text, Texts, iid};
pub use packed::Packed;
use packets::{Packets, Said, Sequence, bit_of_category, put};
use proto::{
    Attribute, AttributeValue, ChildTracksOrdering, CounterDescriptor, Name, ProcessDescriptor,
    SiblingMergeBehavior, ThreadDescriptor, TraceAttributes, TracePacket, TrackDescriptor, TrackEvent, Type,
    Unit,
};
use std::io::{self, Write};
use std::rc::Rc;

/// A Perfetto trace that is being written.
#[derive(Debug)]
pub struct Perfetto<W> {
    packets: Packets<W>,
    /// The real-time clock at time 0 of the timeline, ns.
    base: u64,
    /// What the numbers of this file's tracks are made from, and those of its arrows counted from.
    file: u64,
    /// By pid: the track of a process or of a GPU.
    groups: HashMap<u32, u64>,
    /// The rows that have a name.
    named: HashSet<Row>,
    rows: HashMap<Row, Sequence>,
    counters: HashMap<u32, HashMap<String, Sequence>>,
    names: Texts,
    values: Texts,
    /// The event that is put together.
    event: Vec<u8>,
}

/// What is in the first packet of each file that gpuspy writes, and so in its first 32 bytes.
pub const MARK: &str = "gpuspy.version";

/// The sequence of the packets that belong to no track.
const OF_FILE: u32 = 1;

impl<W: Write> Perfetto<W> {
    /// Begins a file.
    pub fn new(out: W) -> Perfetto<W> {
        Perfetto {
            packets: Packets { out, sequences: OF_FILE, packet: Vec::new(), head: Vec::new() },
            base: 0,
            file: 0,
            groups: HashMap::default(),
            named: HashSet::default(),
            rows: HashMap::default(),
            counters: HashMap::default(),
            names: Texts::default(),
            values: Texts::default(),
            event: Vec::new(),
        }
    }

    /// A moment as ns of the real-time clock.
    fn real(&self, moment: i64) -> u64 {
        self.base.saturating_add_signed(moment).min(LAST)
    }

    fn attributes(&mut self, attributes: Vec<(String, AttributeValue)>) -> io::Result<()> {
        let attribute =
            |(key, value): (String, AttributeValue)| Attribute { key: Some(key), value: Some(value) };
        let attributes = TraceAttributes { attribute: attributes.into_iter().map(attribute).collect() };
        let trace_attributes = Some(Box::new(attributes));
        self.packets.write(&TracePacket { trace_attributes, ..TracePacket::default() }, &[])
    }

    /// Describes the track of a row or of a group.
    fn track(&mut self, track: TrackDescriptor) -> io::Result<()> {
        self.packets.write(
            &TracePacket {
                trusted_packet_sequence_id: Some(OF_FILE),
                track_descriptor: Some(Box::new(track)),
                ..TracePacket::default()
            },
            &[],
        )
    }

    /// The number of a track.
    fn uuid(&self, kind: TrackKind, pid: u32, number: u32) -> u64 {
        numbered(numbered(self.file, kind as u64), u64::from(pid) << 32 | u64::from(number))
    }

    /// Begins the sequence of a row with its first event.
    fn open(&mut self, row: Row) -> io::Result<()> {
        if self.rows.contains_key(&row) {
            return Ok(());
        }
        if !self.named.contains(&row) {
            // A thread of which the trace has changes of memory and no call.
            self.row(&NamedRow { row, name: "", kind: RowKind::Thread })?;
        }
        let sequence = self.packets.sequence(self.uuid(TrackKind::Row, row.pid, row.tid), self.base)?;
        self.rows.insert(row, sequence);
        Ok(())
    }

    /// Writes an event of a row.
    fn event(&mut self, event: &Described<'_>) -> io::Result<()> {
        let &Described { r#type, category, name, row, at, args, more, arrow } = event;
        self.open(row)?;
        let at = self.real(at);
        let Some(sequence) = self.rows.get_mut(&row) else { return Ok(()) };
        let flow = |number: u64| Some(self.file.wrapping_add(number));
        let (flow_ids, terminating_flow_ids) = match arrow {
            Some(Arrow::Call(number)) => (flow(number), None),
            Some(Arrow::Operation(number)) => (None, flow(number)),
            None => (None, None),
        };
        let shown = match name {
            Text::Interned(index) => Name::NameIid(iid(*index)),
            Text::Itself(text) => Name::Name(text.to_string()),
        };
        let event = TrackEvent {
            r#type: Some(r#type.into()),
            category_iids: Some(iid(category as usize)),
            name: Some(shown),
            flow_ids,
            terminating_flow_ids,
            ..TrackEvent::default()
        };
        self.event.clear();
        put(&event, &mut self.event);
        let mut new = Said::new(sequence);
        if let Text::Interned(index) = name {
            new.name(&self.names, *index);
        }
        new.of(&self.values, bit_of_category(category), &[]);
        if !args.is_empty() {
            let encoded = encoded(args, &mut self.values, &mut self.event);
            new.of(&self.values, encoded.keys, &encoded.values);
        }
        if let Some(more) = more {
            self.event.extend_from_slice(&more.bytes);
            new.of(&self.values, more.keys, &more.values);
        }
        let interned = new.finish();
        self.packets.event(sequence, at, interned, &self.event)
    }

    fn begin_slice(&mut self, slice: &Slice<'_, Self>) -> io::Result<()> {
        let &Slice { category, name, row, span: (at, _), args, more, arrow, .. } = slice;
        let more = more.map(|more| &**more);
        self.event(&Described { r#type: Type::SliceBegin, category, name, row, at, args, more, arrow })
    }

    fn end_slice(&mut self, row: Row, at: i64) -> io::Result<()> {
        let at = self.real(at);
        let Some(sequence) = self.rows.get_mut(&row) else { return Ok(()) };
        self.packets.event(sequence, at, None, SLICE_END)
    }
}

/// The last time that fits the format's readers, ns.
const LAST: u64 = i64::MAX as u64;

/// An event that says no more than that a slice ends: field 9, [`Type::SliceEnd`].
const SLICE_END: &[u8] = &[9 << 3, Type::SliceEnd as u8];

/// A beginning or an instant: what the two have in common.
struct Described<'a> {
    r#type: Type,
    category: Category,
    name: &'a Text,
    row: Row,
    at: i64,
    args: &'a [Arg<'a>],
    more: Option<&'a Encoded>,
    arrow: Option<Arrow>,
}

/// What the number of a track is made for.
#[derive(Clone, Copy, Debug)]
enum TrackKind {
    Group,
    Row,
    Counter,
}

/// A number that nothing else in the file has, and very likely nothing in any other file (by SplitMix64).
fn numbered(file: u64, number: u64) -> u64 {
    let mut mixed = file.wrapping_add(number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

/// What the product is, as far as the trace says.
fn description(gpu: &NamedGpu<'_>) -> String {
    let name = gpu.name.unwrap_or("(unknown GPU)");
    let Some(device) = gpu.device else { return name.to_owned() };
    format!(
        "{name}, compute capability {}.{}, {} multiprocessors, {} bytes of memory",
        device.capability / 10,
        device.capability % 10,
        device.multiprocessors,
        device.memory_bytes
    )
}

impl<W: Write> Sink for Perfetto<W> {
    type Name = Text;
    type Args = Rc<Encoded>;
    type Out = W;

    fn name(&mut self, text: &str) -> Text {
        self.names.intern(text)
    }

    fn args(&mut self, args: &[Arg<'_>]) -> Rc<Encoded> {
        let mut bytes = Vec::new();
        let said = encoded(args, &mut self.values, &mut bytes);
        Rc::new(Encoded { bytes, ..said })
    }

    fn begin(&mut self, header: &Header<'_>) -> io::Result<()> {
        self.base = u64::try_from(header.base).unwrap_or(0).min(LAST);
        let rank = header.job.map_or(0, |job| u64::from(job.rank) + 1);
        self.file = numbered(header.began, rank);
        let mut attributes =
            vec![(MARK.to_owned(), AttributeValue::String(env!("CARGO_PKG_VERSION").to_owned()))];
        if let Some(job) = header.job {
            let world = job.world_size.map(|size| ("gpuspy.world_size", size));
            let numbers = [("gpuspy.rank", job.rank)].into_iter().chain(world);
            attributes.extend(numbers.map(|(key, n)| (key.to_owned(), AttributeValue::Long(n.into()))));
        }
        self.attributes(attributes)
    }

    fn group(&mut self, group: &Group<'_>) -> io::Result<()> {
        let (pid, track) = match *group {
            Group::Process { pid, program, rank, known_as } => {
                let rank = rank.map(|rank| format!("rank {rank}"));
                let process = Some(ProcessDescriptor {
                    pid: Some(pid.cast_signed()),
                    process_name: Some(program.to_owned()),
                    process_labels: rank.into_iter().chain(known_as.map(str::to_owned)).collect(),
                });
                (pid, TrackDescriptor { process, ..TrackDescriptor::default() })
            }
            Group::Gpu { pid, gpu, .. } => {
                let track = TrackDescriptor {
                    name: Some(gpu.label()),
                    parent_uuid: self.groups.get(&pid).copied(),
                    child_ordering: Some(ChildTracksOrdering::Explicit.into()),
                    description: Some(description(&gpu)),
                    sibling_merge_behavior: Some(SiblingMergeBehavior::None.into()),
                    ..TrackDescriptor::default()
                };
                (gpu.number, track)
            }
        };
        let uuid = self.uuid(TrackKind::Group, pid, 0);
        self.groups.insert(pid, uuid);
        self.track(TrackDescriptor { uuid: Some(uuid), ..track })
    }

    fn row(&mut self, &NamedRow { row, name, kind }: &NamedRow<'_>) -> io::Result<()> {
        let uuid = Some(self.uuid(TrackKind::Row, row.pid, row.tid));
        if !self.named.insert(row) {
            return Ok(());
        }
        // A stream, and right below it the ranges around its operations.
        let rank = match kind {
            RowKind::Thread => {
                let thread = Some(ThreadDescriptor {
                    pid: Some(row.pid.cast_signed()),
                    tid: Some(row.tid.into()),
                    thread_name: (!name.is_empty()).then(|| name.to_owned()),
                });
                return self.track(TrackDescriptor { uuid, thread, ..TrackDescriptor::default() });
            }
            RowKind::Ranges => 0,
            RowKind::Stream => u64::from(row.tid) * 2,
            RowKind::Projections { stream } => u64::from(stream) * 2 + 1,
        };
        self.track(TrackDescriptor {
            uuid,
            name: Some(name.to_owned()),
            parent_uuid: self.groups.get(&row.pid).copied(),
            sibling_order_rank: Some(i32::try_from(rank).unwrap_or(i32::MAX)),
            sibling_merge_behavior: Some(SiblingMergeBehavior::None.into()),
            ..TrackDescriptor::default()
        })
    }

    fn slice(&mut self, slice: &Slice<'_, Self>) -> io::Result<()> {
        self.begin_slice(slice)?;
        if let Some(inside) = slice.inside {
            self.begin_slice(inside)?;
            self.end_slice(inside.row, inside.span.1)?;
        }
        self.end_slice(slice.row, slice.span.1)
    }

    fn instant(&mut self, instant: &Instant<'_, Self>) -> io::Result<()> {
        let &Instant { category, name, row, at, args } = instant;
        let (r#type, more, arrow) = (Type::Instant, None, None);
        self.event(&Described { r#type, category, name, row, at, args, more, arrow })
    }

    fn counter(&mut self, &Counter { name, pid, at, bytes }: &Counter<'_>) -> io::Result<()> {
        let at = self.real(at);
        let count = self.counters.entry(pid).or_default().len();
        if !self.counters.get(&pid).is_some_and(|counters| counters.contains_key(name)) {
            let uuid = self.uuid(TrackKind::Counter, pid, count as u32);
            self.track(TrackDescriptor {
                uuid: Some(uuid),
                name: Some(name.to_owned()),
                parent_uuid: self.groups.get(&pid).copied(),
                counter: Some(CounterDescriptor { unit: Some(Unit::SizeBytes.into()) }),
                ..TrackDescriptor::default()
            })?;
            let sequence = self.packets.sequence(uuid, self.base)?;
            self.counters.entry(pid).or_default().insert(name.to_owned(), sequence);
        }
        let counter = self.counters.get_mut(&pid).and_then(|counters| counters.get_mut(name));
        let Some(sequence) = counter else { return Ok(()) };
        let (r#type, counter_value) = (Some(Type::Counter.into()), Some(bytes));
        self.event.clear();
        put(&TrackEvent { r#type, counter_value, ..TrackEvent::default() }, &mut self.event);
        self.packets.event(sequence, at, None, &self.event)
    }

    fn finish(mut self, summary: &Summary) -> io::Result<W> {
        let Summary { calls, operations, untimed, captured, annotations, operators, functions, .. } = summary;
        let known = [
            ("calls", calls),
            ("operations", operations),
            ("annotations", annotations),
            ("operators", operators),
            ("functions", functions),
            ("captured", captured),
        ];
        let known = known.map(|(name, count)| (name.to_owned(), *count)).into_iter();
        let untimed = untimed.iter().map(|(why, count)| (format!("untimed.{why}"), *count));
        let attribute = |(name, count): (String, u64)| {
            (format!("gpuspy.{name}"), AttributeValue::Long(count.min(LAST) as i64))
        };
        self.attributes(known.chain(untimed).map(attribute).collect())?;
        self.packets.out.flush()?;
        Ok(self.packets.out)
    }
}

#[cfg(test)]
mod tests;
