//! A client's parameters.

use flashmob_results::net::{Direction, Messages, Protocol};
use serde_json::{Value, json};

use super::{
    BLOCK_BYTES_MAX, DATAGRAM_BYTES_MAX, DATAGRAM_BYTES_MIN, Malformed, STREAMS_MAX, object, real, truth, whole,
};

/// Version of the extension under `flashmob`.
pub const EXTENSION_VERSION: u64 = 1;
/// Most bytes of a message.
pub const MESSAGE_BYTES_MAX: u32 = 16 << 20;
/// Most requests outstanding on a stream.
pub const DEPTH_MAX: u32 = 65_536;
/// A day: the longest test.
const TIME_S_MAX: u64 = 86_400;
/// iperf3's default size of a write.
pub const BLOCK_BYTES_DEFAULT: u32 = 128 << 10;

/// A client's parameters. `None` stands for the system's default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// The protocol; messages are an extension of flashmob.
    pub protocol: Protocol,
    /// Direction of the data.
    pub direction: Direction,
    /// Streams in each direction.
    pub streams: u32,
    /// Seconds before counting begins.
    pub omit_s: u32,
    /// Seconds that count; 0 if bytes end the test.
    pub time_s: u32,
    /// Bytes in each direction after which it ends.
    pub bytes: Option<u64>,
    /// Bytes of each write, or of each datagram.
    pub block_bytes: u32,
    /// Maximum rate of each stream.
    pub rate_bits_per_second: Option<u64>,
    /// Size of both buffers of each socket.
    pub window_bytes: Option<u64>,
    /// Congestion control.
    pub congestion: Option<String>,
    /// Whether to disable Nagle's algorithm.
    pub nodelay: bool,
    /// Largest packet, as TCP_MAXSEG takes it.
    pub mss_bytes: Option<u32>,
    /// Numbers of datagrams have eight bytes instead of four.
    pub counters_64bit: bool,
    /// Requests and answers.
    pub messages: Option<Messages>,
    /// Version of the client's iperf3, or of its flashmob.
    pub client_version: String,
    /// The client is flashmob.
    pub is_flashmob: bool,
}

impl Parameters {
    /// As JSON. iperf3 ignores the key `flashmob`.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let is = |wanted: bool| wanted.then_some(true);
        let is_udp = self.protocol == Protocol::Udp;
        let messages = self
            .messages
            .map(|m| json!({ "request_bytes": m.request_bytes, "answer_bytes": m.answer_bytes, "depth": m.depth }));
        let extension = match messages {
            Some(messages) => json!({ "version": EXTENSION_VERSION, "messages": messages }),
            None => json!({ "version": EXTENSION_VERSION }),
        };
        let mut json = json!({
            "udp": is(is_udp),
            "tcp": is(!is_udp),
            "omit": self.omit_s,
            "time": self.time_s,
            "num": self.bytes.unwrap_or(0),
            "blockcount": 0,
            "parallel": self.streams,
            "reverse": is(self.direction == Direction::Down),
            "bidirectional": is(self.direction == Direction::Both),
            "window": self.window_bytes,
            "len": self.block_bytes,
            "bandwidth": self.rate_bits_per_second,
            "pacing_timer": 1000,
            "congestion": self.congestion,
            "nodelay": is(self.nodelay),
            "MSS": self.mss_bytes,
            "udp_counters_64bit": is(self.counters_64bit).map(u8::from),
            "client_version": self.client_version,
            "flashmob": is(self.is_flashmob).map(|_| extension),
        });
        // iperf3 omits what is not set.
        json.as_object_mut().into_iter().for_each(|map| map.retain(|_, value| !value.is_null()));
        json
    }

    /// Reads them, from any iperf3 or flashmob.
    ///
    /// # Errors
    /// Not JSON, or a limit is exceeded, which is named.
    pub fn parse(text: &[u8]) -> Result<Parameters, Malformed> {
        let json = object(text)?;
        let bad = |what: String| Err(Malformed(what));
        if truth(&json, "sctp") {
            return bad("SCTP, which is not served".into());
        }
        let extension = json.get("flashmob").filter(|e| e.is_object());
        let messages = extension.and_then(|e| e.get("messages")).map(messages).transpose()?;
        // Datagrams have no answers.
        let messages = messages.filter(|_| !truth(&json, "udp"));
        let protocol = match (truth(&json, "udp"), messages) {
            (true, _) => Protocol::Udp,
            (false, Some(_)) => Protocol::Messages,
            (false, None) => Protocol::Tcp,
        };
        let direction = match (truth(&json, "bidirectional"), truth(&json, "reverse")) {
            (true, _) => Direction::Both,
            (false, true) => Direction::Down,
            (false, false) => Direction::Up,
        };
        let streams = whole(&json, "parallel").unwrap_or(1);
        if !(1..=u64::from(STREAMS_MAX)).contains(&streams) {
            return bad(format!("{streams} streams, of at most {STREAMS_MAX}"));
        }
        let block = whole(&json, "len").filter(|&b| b > 0).unwrap_or(if protocol == Protocol::Udp {
            1460
        } else {
            u64::from(BLOCK_BYTES_DEFAULT)
        });
        let (least, most) = match protocol {
            Protocol::Udp => (DATAGRAM_BYTES_MIN, DATAGRAM_BYTES_MAX),
            Protocol::Tcp | Protocol::Messages => (1, BLOCK_BYTES_MAX),
        };
        if !(u64::from(least)..=u64::from(most)).contains(&block) {
            return bad(format!("blocks of {block} bytes; {least} to {most} are possible"));
        }
        let seconds = |key: &str| match whole(&json, key).unwrap_or(0) {
            s if s > TIME_S_MAX => Err(Malformed(format!("{s} s of '{key}', of at most {TIME_S_MAX}"))),
            s => Ok(s as u32),
        };
        let blocks =
            whole(&json, "blockcount").filter(|&n| n > 0).map(|n| n.saturating_mul(block).min(i64::MAX as u64));
        let congestion = json.get("congestion").and_then(Value::as_str).filter(|name| !name.is_empty());
        // It is used in messages and in a file name of the kernel.
        let is_name = |name: &str| {
            name.len() < flashmob_path::congestion::NAME_BYTES_MAX
                && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
        };
        if congestion.is_some_and(|name| !is_name(name)) {
            return bad("an invalid name of a congestion control".into());
        }
        Ok(Parameters {
            protocol,
            direction: if messages.is_some() { Direction::Up } else { direction },
            streams: streams as u32,
            omit_s: seconds("omit")?,
            time_s: seconds("time")?,
            bytes: whole(&json, "num").filter(|&n| n > 0).or(blocks),
            block_bytes: block as u32,
            rate_bits_per_second: Some(real(&json, "bandwidth")).filter(|&r| r >= 1.0).map(|r| r as u64),
            window_bytes: whole(&json, "window").filter(|&n| n > 0),
            congestion: congestion.map(str::to_string),
            nodelay: truth(&json, "nodelay"),
            mss_bytes: whole(&json, "MSS").and_then(|n| u32::try_from(n).ok()).filter(|&n| n > 0),
            counters_64bit: truth(&json, "udp_counters_64bit"),
            messages,
            client_version: short(json.get("client_version")),
            is_flashmob: extension.is_some(),
        })
    }
}

fn messages(value: &Value) -> Result<Messages, Malformed> {
    let number = |key: &str, max: u32| match whole(value, key) {
        Some(n) if (1..=u64::from(max)).contains(&n) => Ok(n as u32),
        _ => Err(Malformed(format!("messages whose '{key}' is not between 1 and {max}"))),
    };
    Ok(Messages {
        request_bytes: number("request_bytes", MESSAGE_BYTES_MAX)?,
        answer_bytes: number("answer_bytes", MESSAGE_BYTES_MAX)?,
        depth: number("depth", DEPTH_MAX)?,
    })
}

/// A name from a peer, made safe for a log.
pub(super) fn short(value: Option<&Value>) -> String {
    short_text(value.and_then(Value::as_str).unwrap_or_default())
}

/// The same of a text.
pub(super) fn short_text(text: &str) -> String {
    text.chars().filter(|c| c.is_ascii_graphic() || *c == ' ').take(40).collect()
}
