//! The subset of Perfetto's messages that is needed here; see its documentation of TracePacket. Field numbers are part
//! of that format and never change.

/// A trace: a sequence of packets.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Trace {
    #[prost(message, repeated, tag = "1")]
    pub packet: Vec<TracePacket>,
}

/// `trusted_packet_sequence_id` is `sequence`, `timestamp_clock_id` is `clock`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct TracePacket {
    #[prost(message, optional, tag = "6")]
    pub clocks: Option<ClockSnapshot>,
    #[prost(uint64, optional, tag = "8")]
    pub timestamp: Option<u64>,
    #[prost(uint32, optional, tag = "10")]
    pub sequence: Option<u32>,
    #[prost(message, optional, tag = "11")]
    pub event: Option<TrackEvent>,
    #[prost(message, optional, tag = "12")]
    pub names: Option<InternedData>,
    #[prost(uint32, optional, tag = "13")]
    pub flags: Option<u32>,
    #[prost(uint32, optional, tag = "58")]
    pub clock: Option<u32>,
    #[prost(message, optional, tag = "60")]
    pub track: Option<TrackDescriptor>,
}

/// `SEQ_INCREMENTAL_STATE_CLEARED`: interned names start anew.
pub const STATE_CLEARED: u32 = 1;
/// `SEQ_NEEDS_INCREMENTAL_STATE`: the packet uses interned names.
pub const NEEDS_STATE: u32 = 2;
pub const MONOTONIC: u32 = 3;

#[derive(Clone, PartialEq, prost::Message)]
pub struct ClockSnapshot {
    #[prost(message, repeated, tag = "1")]
    pub clocks: Vec<Clock>,
    #[prost(int32, optional, tag = "2")]
    pub primary: Option<i32>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct Clock {
    #[prost(uint32, required, tag = "1")]
    pub id: u32,
    #[prost(uint64, required, tag = "2")]
    pub timestamp: u64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct TrackDescriptor {
    #[prost(uint64, required, tag = "1")]
    pub uuid: u64,
    #[prost(string, optional, tag = "2")]
    pub name: Option<String>,
    #[prost(message, optional, tag = "3")]
    pub process: Option<ProcessDescriptor>,
    #[prost(uint64, optional, tag = "5")]
    pub parent: Option<u64>,
    /// `child_ordering`.
    #[prost(int32, optional, tag = "11")]
    pub children: Option<i32>,
    /// `sibling_order_rank`.
    #[prost(int32, optional, tag = "12")]
    pub rank: Option<i32>,
}

/// Tracks are ordered by rank.
pub const CHILDREN_EXPLICIT: i32 = 3;

#[derive(Clone, PartialEq, prost::Message)]
pub struct ProcessDescriptor {
    #[prost(int32, required, tag = "1")]
    pub pid: i32,
    #[prost(string, optional, tag = "6")]
    pub name: Option<String>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct TrackEvent {
    /// `debug_annotations`.
    #[prost(message, repeated, tag = "4")]
    pub notes: Vec<Note>,
    #[prost(int32, optional, tag = "9")]
    pub kind: Option<i32>,
    /// `name_iid`.
    #[prost(uint64, optional, tag = "10")]
    pub name: Option<u64>,
    #[prost(uint64, optional, tag = "11")]
    pub track: Option<u64>,
    #[prost(fixed64, repeated, packed = "false", tag = "47")]
    pub flows: Vec<u64>,
    #[prost(fixed64, repeated, packed = "false", tag = "48")]
    pub flow_ends: Vec<u64>,
}

pub const SLICE_BEGIN: i32 = 1;
pub const SLICE_END: i32 = 2;
pub const INSTANT: i32 = 3;

#[derive(Clone, PartialEq, prost::Message)]
pub struct Note {
    /// `name_iid`.
    #[prost(uint64, required, tag = "1")]
    pub name: u64,
    #[prost(oneof = "Value", tags = "3, 6, 17")]
    pub value: Option<Value>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub enum Value {
    #[prost(uint64, tag = "3")]
    Number(u64),
    #[prost(string, tag = "6")]
    Words(String),
    /// `string_value_iid`.
    #[prost(uint64, tag = "17")]
    Text(u64),
}

/// The names of debug annotations; the constants below are their indices, starting at 1.
pub const NAMES: [&str; 7] = ["operation", "thread", "file", "address", "bytes", "cause", "unattributed_ns"];
pub const OPERATION: u64 = 1;
pub const THREAD: u64 = 2;
pub const FILE: u64 = 3;
pub const ADDRESS: u64 = 4;
pub const BYTES: u64 = 5;
pub const CAUSE: u64 = 6;
pub const UNATTRIBUTED: u64 = 7;

impl Note {
    pub fn number(name: u64, value: u64) -> Note {
        Note { name, value: Some(Value::Number(value)) }
    }
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct InternedData {
    #[prost(message, repeated, tag = "2")]
    pub events: Vec<InternedName>,
    #[prost(message, repeated, tag = "3")]
    pub notes: Vec<InternedName>,
    #[prost(message, repeated, tag = "29")]
    pub texts: Vec<InternedString>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct InternedName {
    #[prost(uint64, required, tag = "1")]
    pub id: u64,
    #[prost(string, required, tag = "2")]
    pub name: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct InternedString {
    #[prost(uint64, required, tag = "1")]
    pub id: u64,
    #[prost(bytes = "vec", required, tag = "2")]
    pub text: Vec<u8>,
}
