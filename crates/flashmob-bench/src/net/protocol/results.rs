//! The counts of one end, as they are sent.

use flashmob_results::net::TcpEnd;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::parameters::{short, short_text};
use super::{COUNT_MAX, Malformed, object, real, whole};

/// Most streams in results: 128 in each direction.
const STREAMS_MAX: usize = 256;

/// The counts of one end.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Results {
    /// Processor time, in percent of the test's time.
    pub cpu_percent: f64,
    /// Its part in user mode.
    pub cpu_user_percent: f64,
    /// Its part in the kernel.
    pub cpu_system_percent: f64,
    /// Whether retransmissions are known: 1 yes, 0 no, -1 it does not send.
    pub sender_has_retransmits: i64,
    /// Congestion control of its sockets.
    pub congestion: Option<String>,
    /// The streams.
    pub streams: Vec<StreamResult>,
    /// flashmob's extension.
    pub flashmob: Option<Extension>,
}

/// The counts of one end for one stream.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StreamResult {
    /// The stream's number: [`super::stream_id`].
    pub id: u32,
    /// Bytes sent or received, without those of the omitted time.
    pub bytes: u64,
    /// Packets retransmitted.
    pub retransmissions: Option<u64>,
    /// Jitter of datagrams, in seconds.
    pub jitter_s: f64,
    /// Datagrams lost, including the omitted time.
    pub errors: u64,
    /// Datagrams lost in the omitted time; older versions do not report it.
    pub omitted_errors: Option<u64>,
    /// Datagrams, including the omitted time.
    pub packets: u64,
    /// Datagrams of the omitted time; older versions do not report it.
    pub omitted_packets: Option<u64>,
    /// Begin, in seconds.
    pub begin_s: f64,
    /// End.
    pub end_s: f64,
}

/// flashmob's extension, under the key `flashmob`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Extension {
    /// Version of the program.
    pub version: String,
    /// The streams, in the same order.
    pub streams: Vec<ExtensionStream>,
}

/// flashmob's extension for a stream.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ExtensionStream {
    /// TCP at this end.
    pub tcp: Option<TcpEnd>,
    /// Datagrams received after a later one.
    pub out_of_order: u64,
    /// Bytes of answers that it sent.
    pub answer_bytes: u64,
}

impl Results {
    /// As JSON.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let mut json = json!({
            "cpu_util_total": self.cpu_percent,
            "cpu_util_user": self.cpu_user_percent,
            "cpu_util_system": self.cpu_system_percent,
            "sender_has_retransmits": self.sender_has_retransmits,
            "streams": self.streams.iter().map(StreamResult::to_json).collect::<Vec<Value>>(),
        });
        if let Some(name) = &self.congestion {
            json["congestion_used"] = name.as_str().into();
        }
        if let Some(extension) = &self.flashmob {
            // This serialization cannot fail.
            json["flashmob"] = serde_json::to_value(extension).unwrap_or_default();
        }
        json
    }

    /// Reads them, from any iperf3 or flashmob.
    ///
    /// # Errors
    /// Not JSON, or without streams.
    pub fn parse(text: &[u8]) -> Result<Results, Malformed> {
        let json = object(text)?;
        let streams = json.get("streams").and_then(Value::as_array);
        let streams = streams.ok_or_else(|| Malformed("results without streams".into()))?;
        if streams.len() > STREAMS_MAX {
            return Err(Malformed(format!("results of {} streams, of at most {STREAMS_MAX}", streams.len())));
        }
        Ok(Results {
            cpu_percent: real(&json, "cpu_util_total"),
            cpu_user_percent: real(&json, "cpu_util_user"),
            cpu_system_percent: real(&json, "cpu_util_system"),
            sender_has_retransmits: whole(&json, "sender_has_retransmits").map_or(-1, |n| n.min(1) as i64),
            congestion: json.get("congestion_used").map(|name| short(Some(name))).filter(|name| !name.is_empty()),
            streams: streams.iter().map(StreamResult::parse).collect::<Result<_, _>>()?,
            // Extensions of other versions of flashmob are ignored.
            flashmob: json.get("flashmob").and_then(|e| Extension::deserialize(e).ok()).map(Extension::harmless),
        })
    }

    /// The stream with this number.
    #[must_use]
    pub fn stream(&self, id: u32) -> Option<&StreamResult> {
        self.streams.iter().find(|stream| stream.id == id)
    }
}

impl Extension {
    /// Makes its names safe to show, and its counts safe to add up.
    fn harmless(mut self) -> Extension {
        self.version = short_text(&self.version);
        self.streams.truncate(STREAMS_MAX);
        for stream in &mut self.streams {
            stream.out_of_order = stream.out_of_order.min(COUNT_MAX);
            stream.answer_bytes = stream.answer_bytes.min(COUNT_MAX);
            if let Some(tcp) = &mut stream.tcp {
                tcp.congestion = tcp.congestion.as_deref().map(short_text).filter(|name| !name.is_empty());
                tcp.retransmissions = tcp.retransmissions.min(COUNT_MAX);
            }
        }
        self
    }
}

impl StreamResult {
    fn to_json(&self) -> Value {
        json!({
            "id": self.id,
            "bytes": self.bytes,
            "retransmits": self.retransmissions.map_or(Value::from(-1), Value::from),
            "jitter": self.jitter_s,
            "errors": self.errors,
            "omitted_errors": self.omitted_errors.unwrap_or(0),
            "packets": self.packets,
            "omitted_packets": self.omitted_packets.unwrap_or(0),
            "start_time": self.begin_s,
            "end_time": self.end_s,
        })
    }

    fn parse(json: &Value) -> Result<StreamResult, Malformed> {
        let id = whole(json, "id").and_then(|id| u32::try_from(id).ok());
        Ok(StreamResult {
            id: id.ok_or_else(|| Malformed("results of a stream without a number".into()))?,
            bytes: whole(json, "bytes").unwrap_or(0),
            retransmissions: whole(json, "retransmits"),
            jitter_s: real(json, "jitter").max(0.0),
            errors: whole(json, "errors").unwrap_or(0),
            omitted_errors: whole(json, "omitted_errors"),
            packets: whole(json, "packets").unwrap_or(0),
            omitted_packets: whole(json, "omitted_packets"),
            begin_s: real(json, "start_time"),
            end_s: real(json, "end_time"),
        })
    }

    /// The counted time; `None` if it is not reported.
    #[must_use]
    pub fn elapsed_s(&self) -> Option<f64> {
        Some(self.end_s - self.begin_s).filter(|s| s.is_finite() && *s > 0.0)
    }
}
