//! Which messages of Perfetto's trace format are written, and which numbers do their fields have?
//!
//! The numbers are those of the format's documentation (<https://perfetto.dev/docs/reference/trace-packet-proto>), which is
//! made from Perfetto's sources (The Android Open Source Project, Apache License 2.0). Only what is written is here, under the
//! names that the format has for it. Field numbers never change their meaning.

use prost::{Enumeration, Message, Oneof};

/// A file: packets one after the other. Files that follow each other are one file, too.
#[cfg(test)]
#[derive(Clone, PartialEq, Message)]
pub struct Trace {
    #[prost(message, repeated, tag = "1")]
    pub packet: Vec<TracePacket>,
}

/// A unit of a file.
#[derive(Clone, PartialEq, Message)]
pub struct TracePacket {
    #[prost(message, optional, boxed, tag = "6")]
    pub clock_snapshot: Option<Box<ClockSnapshot>>,
    /// By `timestamp_clock_id`, or else by the clock of the sequence's defaults.
    #[prost(uint64, optional, tag = "8")]
    pub timestamp: Option<u64>,
    /// What the packet's numbers refer to: packets with the same number share their interned data, clocks and defaults.
    #[prost(uint32, optional, tag = "10")]
    pub trusted_packet_sequence_id: Option<u32>,
    #[prost(message, optional, boxed, tag = "11")]
    pub track_event: Option<Box<TrackEvent>>,
    #[prost(message, optional, boxed, tag = "12")]
    pub interned_data: Option<Box<InternedData>>,
    /// [`STATE_CLEARED`] or [`NEEDS_STATE`].
    #[prost(uint32, optional, tag = "13")]
    pub sequence_flags: Option<u32>,
    /// Packets, as a file has them, in zlib's format (RFC 1950).
    #[prost(bytes = "vec", optional, tag = "50")]
    pub compressed_packets: Option<Vec<u8>>,
    #[prost(uint32, optional, tag = "58")]
    pub timestamp_clock_id: Option<u32>,
    #[prost(message, optional, boxed, tag = "59")]
    pub trace_packet_defaults: Option<Box<TracePacketDefaults>>,
    #[prost(message, optional, boxed, tag = "60")]
    pub track_descriptor: Option<Box<TrackDescriptor>>,
    #[prost(message, optional, boxed, tag = "126")]
    pub trace_attributes: Option<Box<TraceAttributes>>,
}

/// `sequence_flags`: nothing that came before on this sequence counts any more.
pub const STATE_CLEARED: u32 = 1;
/// `sequence_flags`: the packet refers to what came before on this sequence.
pub const NEEDS_STATE: u32 = 2;

/// Values that packets of a sequence have if they name no others.
#[derive(Clone, PartialEq, Message)]
pub struct TracePacketDefaults {
    #[prost(message, optional, tag = "11")]
    pub track_event_defaults: Option<TrackEventDefaults>,
    #[prost(uint32, optional, tag = "58")]
    pub timestamp_clock_id: Option<u32>,
}

/// Values that events of a sequence have if they name no others.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct TrackEventDefaults {
    #[prost(uint64, optional, tag = "11")]
    pub track_uuid: Option<u64>,
}

/// What several clocks show at one moment.
#[derive(Clone, PartialEq, Message)]
pub struct ClockSnapshot {
    #[prost(message, repeated, tag = "1")]
    pub clocks: Vec<Clock>,
    /// The clock of all times after loading.
    #[prost(uint32, optional, tag = "2")]
    pub primary_trace_clock: Option<u32>,
}

/// What a clock shows.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct Clock {
    #[prost(uint32, optional, tag = "1")]
    pub clock_id: Option<u32>,
    #[prost(uint64, optional, tag = "2")]
    pub timestamp: Option<u64>,
    /// Whether times by it are counted from the time before, on the same sequence.
    #[prost(bool, optional, tag = "3")]
    pub is_incremental: Option<bool>,
}

/// CLOCK_REALTIME.
pub const REALTIME: u32 = 1;
/// The first of the clocks that a sequence has for itself.
pub const OWN_CLOCK: u32 = 64;

/// Texts and the numbers that stand for them on a sequence.
#[derive(Clone, PartialEq, Message)]
pub struct InternedData {
    #[prost(message, repeated, tag = "1")]
    pub event_categories: Vec<InternedString>,
    #[prost(message, repeated, tag = "2")]
    pub event_names: Vec<InternedString>,
    #[prost(message, repeated, tag = "3")]
    pub debug_annotation_names: Vec<InternedString>,
    #[prost(message, repeated, tag = "29")]
    pub debug_annotation_string_values: Vec<InternedString>,
}

/// A text and its number, which is not 0. (The format has a message of this form for each kind of text.)
#[derive(Clone, PartialEq, Message)]
pub struct InternedString {
    #[prost(uint64, optional, tag = "1")]
    pub iid: Option<u64>,
    #[prost(string, optional, tag = "2")]
    pub str: Option<String>,
}

/// A row, or a group of rows.
#[derive(Clone, PartialEq, Message)]
pub struct TrackDescriptor {
    /// Unique in the file, and in all files that are read as one.
    #[prost(uint64, optional, tag = "1")]
    pub uuid: Option<u64>,
    #[prost(string, optional, tag = "2")]
    pub name: Option<String>,
    #[prost(message, optional, tag = "3")]
    pub process: Option<ProcessDescriptor>,
    #[prost(message, optional, tag = "4")]
    pub thread: Option<ThreadDescriptor>,
    #[prost(uint64, optional, tag = "5")]
    pub parent_uuid: Option<u64>,
    #[prost(message, optional, tag = "8")]
    pub counter: Option<CounterDescriptor>,
    #[prost(enumeration = "ChildTracksOrdering", optional, tag = "11")]
    pub child_ordering: Option<i32>,
    #[prost(int32, optional, tag = "12")]
    pub sibling_order_rank: Option<i32>,
    #[prost(string, optional, tag = "14")]
    pub description: Option<String>,
    #[prost(enumeration = "SiblingMergeBehavior", optional, tag = "15")]
    pub sibling_merge_behavior: Option<i32>,
}

/// How rows below a group are ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub enum ChildTracksOrdering {
    Unknown = 0,
    /// By `sibling_order_rank`.
    Explicit = 3,
}

/// Whether rows are drawn as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub enum SiblingMergeBehavior {
    /// If they have the same name.
    Unspecified = 0,
    None = 2,
}

/// A process.
#[derive(Clone, PartialEq, Message)]
pub struct ProcessDescriptor {
    #[prost(int32, optional, tag = "1")]
    pub pid: Option<i32>,
    #[prost(string, optional, tag = "6")]
    pub process_name: Option<String>,
    #[prost(string, repeated, tag = "8")]
    pub process_labels: Vec<String>,
}

/// A thread.
#[derive(Clone, PartialEq, Message)]
pub struct ThreadDescriptor {
    #[prost(int32, optional, tag = "1")]
    pub pid: Option<i32>,
    #[prost(int64, optional, tag = "2")]
    pub tid: Option<i64>,
    #[prost(string, optional, tag = "5")]
    pub thread_name: Option<String>,
}

/// What a counter counts.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct CounterDescriptor {
    #[prost(enumeration = "Unit", optional, tag = "3")]
    pub unit: Option<i32>,
}

/// The unit of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub enum Unit {
    Unspecified = 0,
    SizeBytes = 3,
}

/// An event on a row.
#[derive(Clone, PartialEq, Message)]
pub struct TrackEvent {
    /// (The format allows several, which lie one after the other; so do arrows.)
    #[prost(uint64, optional, tag = "3")]
    pub category_iids: Option<u64>,
    #[prost(message, repeated, tag = "4")]
    pub debug_annotations: Vec<DebugAnnotation>,
    #[prost(enumeration = "Type", optional, tag = "9")]
    pub r#type: Option<i32>,
    #[prost(oneof = "Name", tags = "10, 23")]
    pub name: Option<Name>,
    #[prost(int64, optional, tag = "30")]
    pub counter_value: Option<i64>,
    /// An arrow that begins here.
    #[prost(fixed64, optional, tag = "47")]
    pub flow_ids: Option<u64>,
    /// An arrow that ends here.
    #[prost(fixed64, optional, tag = "48")]
    pub terminating_flow_ids: Option<u64>,
}

/// What an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub enum Type {
    Unspecified = 0,
    SliceBegin = 1,
    /// It ends what began last on its row and has not ended.
    SliceEnd = 2,
    Instant = 3,
    Counter = 4,
}

/// The name of an event: interned, or itself.
#[derive(Clone, PartialEq, Oneof)]
pub enum Name {
    #[prost(uint64, tag = "10")]
    NameIid(u64),
    #[prost(string, tag = "23")]
    Name(String),
}

/// An argument, or an element of an argument that is a list.
#[derive(Clone, PartialEq, Message)]
pub struct DebugAnnotation {
    #[prost(uint64, optional, tag = "1")]
    pub name_iid: Option<u64>,
    #[prost(oneof = "Value", tags = "3, 4, 5, 6, 17")]
    pub value: Option<Value>,
    #[prost(message, repeated, tag = "12")]
    pub array_values: Vec<DebugAnnotation>,
}

/// The value of an argument.
#[derive(Clone, PartialEq, Oneof)]
pub enum Value {
    #[prost(uint64, tag = "3")]
    Uint(u64),
    #[prost(int64, tag = "4")]
    Int(i64),
    #[prost(double, tag = "5")]
    Double(f64),
    #[prost(string, tag = "6")]
    String(String),
    #[prost(uint64, tag = "17")]
    StringIid(u64),
}

/// What is true of the whole file.
#[derive(Clone, PartialEq, Message)]
pub struct TraceAttributes {
    #[prost(message, repeated, tag = "1")]
    pub attribute: Vec<Attribute>,
}

/// A key and its value.
#[derive(Clone, PartialEq, Message)]
pub struct Attribute {
    #[prost(string, optional, tag = "1")]
    pub key: Option<String>,
    #[prost(oneof = "AttributeValue", tags = "2, 3")]
    pub value: Option<AttributeValue>,
}

/// The value of an attribute.
#[derive(Clone, PartialEq, Oneof)]
pub enum AttributeValue {
    #[prost(int64, tag = "2")]
    Long(i64),
    #[prost(string, tag = "3")]
    String(String),
}
