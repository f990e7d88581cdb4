//! Every metric but the stages: its name, what it tells, and where in the report it comes from.

use crate::status::report::{
    ConditionReport, GatewayReport, LinkReport, ModelReport, NodeLinkReport, NodeOfVolume, NodeReport, PathReport,
    Report, TcpReport, VolumeReport,
};

/// What Prometheus calls the type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Goes up and down.
    Gauge,
    /// Only counts up, until the process (or, where the help says so, the connection) starts anew.
    Counter,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Value {
    Whole(u64),
    Real(f64),
}

impl Value {
    pub(super) fn is_finite(self) -> bool {
        match self {
            Value::Whole(_) => true,
            Value::Real(x) => x.is_finite(),
        }
    }
}

impl From<u64> for Value {
    fn from(n: u64) -> Value {
        Value::Whole(n)
    }
}

impl From<usize> for Value {
    fn from(n: usize) -> Value {
        Value::Whole(n as u64)
    }
}

impl From<bool> for Value {
    fn from(yes: bool) -> Value {
        Value::Whole(yes.into())
    }
}

impl From<f64> for Value {
    fn from(x: f64) -> Value {
        Value::Real(x)
    }
}

/// Names and values that tell one series from the others of its metric.
pub(super) type Labels<'a> = Vec<(&'static str, &'a str)>;

/// Values of one item, each with the labels that tell it from the item's others.
type Points<'a> = Vec<(Labels<'a>, Value)>;

/// One metric of a `T`.
pub(super) struct Series<T> {
    pub kind: Kind,
    pub name: &'static str,
    pub help: &'static str,
    pub points: for<'a> fn(&'a T) -> Points<'a>,
}

const fn gauge<T>(name: &'static str, help: &'static str, points: for<'a> fn(&'a T) -> Points<'a>) -> Series<T> {
    Series { kind: Kind::Gauge, name, help, points }
}

const fn counter<T>(name: &'static str, help: &'static str, points: for<'a> fn(&'a T) -> Points<'a>) -> Series<T> {
    Series { kind: Kind::Counter, name, help, points }
}

fn one<'a>(value: impl Into<Value>) -> Points<'a> {
    vec![(vec![], value.into())]
}

fn of_model<'a>(node: &'a NodeReport, value: fn(&ModelReport) -> Value) -> Points<'a> {
    node.model.as_ref().map(|model| one(value(model))).unwrap_or_default()
}

/// Always 1: what it tells is in its labels.
fn info(labels: Labels<'_>) -> Points<'_> {
    vec![(labels, Value::Whole(1))]
}

/// `out` and `in` as this end sees them.
fn both<'a>(out: impl Into<Value>, inwards: impl Into<Value>) -> Points<'a> {
    vec![(vec![("direction", "out")], out.into()), (vec![("direction", "in")], inwards.into())]
}

fn of_tcp<'a>(link: &'a LinkReport, points: impl FnOnce(&'a TcpReport) -> Points<'a>) -> Points<'a> {
    link.tcp.as_ref().map(points).unwrap_or_default()
}

fn of_path<'a>(link: &'a LinkReport, points: impl FnOnce(&'a PathReport) -> Points<'a>) -> Points<'a> {
    link.path.as_ref().map(points).unwrap_or_default()
}

/// What held a link back: fractions of the time since the last look, by whose buffer it was.
fn held_back<'a>(path: &PathReport) -> Points<'a> {
    let by = [
        ("receiver", path.receiver_limited_fraction),
        ("send_buffer", path.send_buffer_limited_fraction),
        ("own_window", path.receive_window_used_fraction),
    ];
    by.map(|(by, fraction)| (vec![("by", by)], fraction.into())).to_vec()
}

fn of_condition<'a>(
    node: &'a NodeOfVolume,
    points: impl FnOnce(&'a ConditionReport) -> Option<Points<'a>>,
) -> Points<'a> {
    node.condition.as_ref().and_then(points).unwrap_or_default()
}

fn beyond<'a>(c: &ConditionReport) -> Points<'a> {
    let limits = [("battery", c.is_battery_low), ("heat", c.is_hot), ("space", c.is_space_little)];
    limits.map(|(limit, is_beyond)| (vec![("limit", limit)], is_beyond.into())).to_vec()
}

fn seconds(micros: u64) -> f64 {
    micros as f64 / 1e6
}

/// Of any process.
pub(super) const PROCESS: &[Series<Report>] = &[
    gauge("flashmob_build_info", "Always 1; the label has the version", |r| info(vec![("version", &*r.version)])),
    gauge("flashmob_uptime_seconds", "Time since the process started", |r| one(r.uptime_seconds)),
    gauge("flashmob_warnings", "Number of warnings; flashmob status shows them", |r| one(r.warnings.len())),
    gauge("flashmob_memory_used_bytes", "Memory held for requests and replies", |r| one(r.memory.used_bytes)),
    gauge("flashmob_memory_peak_bytes", "Peak memory held for requests and replies since the start", |r| {
        one(r.memory.peak_bytes)
    }),
    gauge("flashmob_memory_limit_bytes", "Limit of memory for requests and replies", |r| one(r.memory.limit_bytes)),
];

/// Of a gateway.
pub(super) const GATEWAY: &[Series<GatewayReport>] = &[
    gauge("flashmob_gateway_clients", "Clients connected", |g| one(g.clients)),
    gauge("flashmob_gateway_requests_in_hand", "Requests in progress", |g| one(g.in_hand)),
    counter("flashmob_gateway_requests_total", "Requests accepted, by operation", |g| {
        g.requests.iter().map(|(op, n)| (vec![("op", &**op)], Value::Whole(*n))).collect()
    }),
    counter("flashmob_gateway_failures_total", "Requests that failed", |g| one(g.failures)),
    counter("flashmob_gateway_timeouts_total", "Requests that failed by timeout", |g| one(g.timeouts)),
    counter("flashmob_gateway_client_errors_total", "Clients dropped for protocol errors", |g| one(g.client_errors)),
    counter("flashmob_gateway_link_errors_total", "Links dropped for protocol errors of the node", |g| {
        one(g.link_errors)
    }),
    counter(
        "flashmob_gateway_reads_at_once_total",
        "Reads served immediately from extents in the gateway's process",
        |g| one(g.read_at_once),
    ),
    gauge("flashmob_trace_one_in", "One request in this many is sampled; 0: none", |g| one(g.trace.one_in)),
    gauge("flashmob_trace_in_flight", "Sampled requests in progress", |g| one(g.trace.in_flight)),
    counter("flashmob_trace_samples_total", "Sampled requests, by outcome", |g| {
        let t = &g.trace;
        let dropped = t.crowded_out + t.abandoned + t.untold;
        let outcomes = [("finished", t.finished), ("failed", t.failed), ("dropped", dropped)];
        outcomes.map(|(outcome, n)| (vec![("outcome", outcome)], Value::Whole(n))).to_vec()
    }),
    counter(
        "flashmob_gateway_losses_total",
        "Times that a device lost acknowledged writes that were not flushed",
        |g| one(g.losses),
    ),
];

/// Of a volume.
pub(super) const VOLUME: &[Series<VolumeReport>] =
    &[gauge("flashmob_volume_size_bytes", "Size of the volume; absent until it is known", |v| {
        v.size_bytes.map(one).unwrap_or_default()
    })];

/// The states that are always told, so that none is missed in a query because it has not happened yet.
const NODE_STATES: [&str; 4] = ["ready", "connecting", "waiting", "refused"];

/// Of a node as its gateway sees it.
pub(super) const NODE: &[Series<NodeOfVolume>] = &[
    gauge("flashmob_node_state", "1 for the node's state, 0 for the others", |n| {
        let other = (!NODE_STATES.contains(&&*n.state)).then_some(&*n.state);
        let states = NODE_STATES.into_iter().chain(other);
        states.map(|state| (vec![("state", state)], Value::from(state == n.state))).collect()
    }),
    gauge("flashmob_node_size_bytes", "Size of the node's extent; absent until it is known", |n| {
        n.size_bytes.map(one).unwrap_or_default()
    }),
    gauge("flashmob_node_clock_offset_seconds", "Offset of the node's clock ahead of the gateway's", |n| {
        n.clock_offset_seconds.map(one).unwrap_or_default()
    }),
    gauge("flashmob_node_clock_error_seconds", "Maximum error of that offset", |n| {
        n.clock_error_seconds.map(one).unwrap_or_default()
    }),
    gauge("flashmob_node_battery_fraction", "Charge of the node's battery, 0 to 1; absent if unknown", |n| {
        of_condition(n, |c| c.battery_percent.map(|percent| one(f64::from(percent) / 100.0)))
    }),
    gauge("flashmob_node_charging", "1 if the node's device is charging or on external power", |n| {
        of_condition(n, |c| c.charging.map(one))
    }),
    gauge("flashmob_node_celsius", "Temperature of the node's battery, or of its warmest sensor", |n| {
        of_condition(n, |c| c.celsius.map(one))
    }),
    gauge("flashmob_node_free_bytes", "Free bytes for the node's extent", |n| {
        of_condition(n, |c| c.free_bytes.map(one))
    }),
    gauge("flashmob_node_unallocated_bytes", "Bytes of the extent that are not allocated yet", |n| {
        of_condition(n, |c| c.unallocated_bytes.map(one))
    }),
    gauge("flashmob_node_beyond_limit", "1 for each limit that the node's device exceeds", |n| {
        of_condition(n, |c| Some(beyond(c)))
    }),
    counter("flashmob_node_pauses_total", "Times that the node was suspended or unreachable, since its start", |n| {
        of_condition(n, |c| Some(one(u64::from(c.pauses_total))))
    }),
    gauge("flashmob_node_queue_depth", "Pieces in the node's queue", |n| one(n.queue_depth)),
    gauge("flashmob_node_no_io", "1 if the node answers without I/O", |n| one(n.no_io)),
    gauge("flashmob_node_modelled", "1 if the node's flash is modelled", |n| one(n.modelled)),
];

/// Of a link.
pub(super) const LINK: &[Series<LinkReport>] = &[
    gauge("flashmob_link_ready", "1 if the link carries batches", |l| one(l.state == "ready")),
    gauge("flashmob_link_outstanding_batches", "Batches in flight", |l| one(l.outstanding_batches)),
    counter("flashmob_link_batches_total", "Batches sent", |l| one(l.batches)),
    counter("flashmob_link_pieces_total", "Pieces sent", |l| one(l.pieces)),
    gauge("flashmob_link_pieces_per_batch", "Pieces per batch since the start", |l| one(l.pieces_per_batch)),
    counter("flashmob_link_reply_frames_total", "Reply frames received", |l| one(l.reply_frames)),
    counter("flashmob_link_bytes_total", "Bytes sent and received, framing included", |l| {
        both(l.bytes_out, l.bytes_in)
    }),
    counter(
        "flashmob_link_node_seconds_total",
        "Time that completed pieces spent at the node",
        |l| one(l.node_seconds),
    ),
    counter("flashmob_link_alive_frames_total", "Frames that kept the link's radio awake", |l| one(l.alive_frames)),
    counter("flashmob_link_resent_pieces_total", "Pieces resent after a break", |l| one(l.resent)),
    counter("flashmob_link_failed_pieces_total", "Pieces that failed at the node", |l| one(l.failures)),
    counter("flashmob_link_breaks_total", "Times that the link broke or could not be established", |l| one(l.breaks)),
    gauge("flashmob_link_tcp_rtt_seconds", "Smoothed round-trip time of the current connection", |l| {
        of_tcp(l, |t| one(seconds(t.rtt_us)))
    }),
    gauge("flashmob_link_tcp_rtt_variation_seconds", "Variation of the round-trip time", |l| {
        of_tcp(l, |t| one(seconds(t.rtt_variation_us)))
    }),
    gauge("flashmob_link_tcp_min_rtt_seconds", "Minimum round-trip time of the current connection", |l| {
        of_tcp(l, |t| one(seconds(t.min_rtt_us)))
    }),
    counter(
        "flashmob_link_tcp_segments_total",
        "Segments, acknowledgements included; restarts with each connection",
        |l| of_tcp(l, |t| both(t.segments_out, t.segments_in)),
    ),
    counter("flashmob_link_tcp_data_segments_total", "Segments with data; restarts with each connection", |l| {
        of_tcp(l, |t| both(t.data_segments_out, t.data_segments_in))
    }),
    counter(
        "flashmob_link_tcp_data_bytes_total",
        "Bytes of data, retransmitted ones included; restarts with each connection",
        |l| of_tcp(l, |t| both(t.bytes_out, t.bytes_in)),
    ),
    gauge("flashmob_link_mean_segment_bytes", "Mean bytes of data per data segment of the current connection", |l| {
        of_tcp(l, |t| both(t.mean_segment_out_bytes, t.mean_segment_in_bytes))
    }),
    counter("flashmob_link_tcp_retransmissions_total", "Segments retransmitted; restarts with each connection", |l| {
        of_tcp(l, |t| one(t.retransmissions))
    }),
    gauge("flashmob_link_tcp_congestion_window_segments", "Congestion window", |l| {
        of_tcp(l, |t| one(t.congestion_window_segments))
    }),
    gauge("flashmob_link_tcp_congestion_info", "Always 1; the label has the congestion control", |l| {
        of_path(l, |p| p.congestion.as_deref().map(|name| info(vec![("congestion", name)])).unwrap_or_default())
    }),
    gauge("flashmob_link_tcp_delivery_rate_bytes_per_second", "The kernel's estimate of the delivery rate", |l| {
        of_path(l, |p| one(p.delivery_rate_bytes_per_second))
    }),
    gauge("flashmob_link_bytes_per_second", "Bytes per second sent and received, over the last second or more", |l| {
        of_path(l, |p| both(p.out_bytes_per_second, p.in_bytes_per_second))
    }),
    gauge("flashmob_link_tcp_window_bytes", "Windows: out is advertised by the node, in by the gateway", |l| {
        of_path(l, |p| both(p.send_window_bytes, p.receive_window_bytes))
    }),
    gauge("flashmob_link_tcp_buffer_bytes", "Socket buffers, as counted by the kernel", |l| {
        of_path(l, |p| both(p.send_buffer_bytes, p.receive_buffer_bytes))
    }),
    gauge(
        "flashmob_link_tcp_held_back_fraction",
        "receiver, send_buffer: fraction of time in which the node's window or the gateway's send buffer limited sending; own_window: used fraction of the gateway's window",
        |l| of_path(l, held_back),
    ),
    gauge("flashmob_link_buffers_too_small", "Buffers of this end that limit the link and cannot be enlarged", |l| {
        of_path(l, |p| one(p.limits.len()))
    }),
    gauge("flashmob_link_tcp_mss_bytes", "Maximum segment size for sending", |l| of_tcp(l, |t| one(t.mss_bytes))),
];

/// Of a node by itself. Its names differ from those of [`NODE`], which have other labels.
pub(super) const EXTENT: &[Series<NodeReport>] = &[
    gauge("flashmob_extent_info", "Always 1; the labels have the extent, its data and its volume", |n| {
        let volume = n.volume.as_deref().unwrap_or_default();
        info(vec![("extent", &*n.extent_id), ("path", &*n.path), ("volume", volume)])
    }),
    gauge("flashmob_extent_size_bytes", "Size of the extent", |n| one(n.size_bytes)),
    gauge("flashmob_extent_no_io", "1 if the node answers without I/O", |n| one(n.no_io)),
    gauge("flashmob_extent_model_info", "1 if the flash is modelled; the label has the profile", |n| {
        n.model.as_ref().map(|m| info(vec![("profile", &*m.profile)])).unwrap_or_default()
    }),
    counter("flashmob_extent_model_operations_total", "Operations of the modelled flash", |n| {
        of_model(n, |m| m.served.into())
    }),
    counter("flashmob_extent_model_busy_seconds_total", "Time that a slot of the modelled flash was busy", |n| {
        of_model(n, |m| m.busy_seconds.into())
    }),
    gauge(
        "flashmob_extent_model_upward_fraction",
        "Fraction of the modelled flash's address steps that were upward",
        |n| of_model(n, |m| m.upward_fraction.into()),
    ),
    gauge(
        "flashmob_extent_model_lateness_seconds",
        "Lateness of replies after the modelled flash's completion time",
        |n| {
            let quantiles = |m: &ModelReport| {
                let all = [("0.5", m.lateness_p50_us), ("0.99", m.lateness_p99_us), ("1", m.lateness_max_us)];
                all.map(|(quantile, us)| (vec![("quantile", quantile)], Value::Real(us / 1e6))).to_vec()
            };
            n.model.as_ref().map(quantiles).unwrap_or_default()
        },
    ),
    gauge("flashmob_extent_battery_fraction", "Charge of the battery, 0 to 1; absent if unknown", |n| {
        n.condition.battery_percent.map(|percent| one(f64::from(percent) / 100.0)).unwrap_or_default()
    }),
    gauge("flashmob_extent_charging", "1 if the device is charging or on external power", |n| {
        n.condition.charging.map(one).unwrap_or_default()
    }),
    gauge("flashmob_extent_celsius", "Temperature of the battery, or of the warmest sensor", |n| {
        n.condition.celsius.map(one).unwrap_or_default()
    }),
    gauge("flashmob_extent_free_bytes", "Free bytes for the extent", |n| {
        n.condition.free_bytes.map(one).unwrap_or_default()
    }),
    gauge("flashmob_extent_unallocated_bytes", "Bytes of the extent that are not allocated yet", |n| {
        n.condition.unallocated_bytes.map(one).unwrap_or_default()
    }),
    gauge("flashmob_extent_beyond_limit", "1 for each limit that the device exceeds", |n| beyond(&n.condition)),
    counter("flashmob_extent_pauses_total", "Times that the node was suspended or unreachable", |n| {
        one(u64::from(n.condition.pauses_total))
    }),
    gauge("flashmob_extent_links", "Links open", |n| one(n.links)),
    gauge(
        "flashmob_extent_link_held_back_fraction",
        "Maximum over links: receiver, send_buffer: fraction of time in which a gateway's window or the node's send buffer limited sending; own_window: used fraction of the node's window",
        |n| {
            let most = |a: PathReport, link: &NodeLinkReport| PathReport {
                receiver_limited_fraction: a.receiver_limited_fraction.max(link.path.receiver_limited_fraction),
                send_buffer_limited_fraction: a
                    .send_buffer_limited_fraction
                    .max(link.path.send_buffer_limited_fraction),
                receive_window_used_fraction: a
                    .receive_window_used_fraction
                    .max(link.path.receive_window_used_fraction),
                ..a
            };
            held_back(&n.paths.iter().fold(PathReport::default(), most))
        },
    ),
    gauge("flashmob_extent_buffers_too_small", "Link buffers that limit a link and cannot be enlarged", |n| {
        one(n.paths.iter().map(|link| link.path.limits.len()).sum::<usize>())
    }),
    counter("flashmob_extent_batches_total", "Batches received", |n| one(n.batches)),
    counter("flashmob_extent_pieces_total", "Pieces received", |n| one(n.pieces)),
    counter("flashmob_extent_fast_reads_total", "Reads served from the page cache without blocking", |n| {
        one(n.fast_reads)
    }),
    counter("flashmob_extent_mapped_reads_total", "Fast reads served from the memory mapping", |n| one(n.mapped_reads)),
    counter("flashmob_extent_mapped_major_faults_total", "Waits for a mapped page that had been evicted", |n| {
        one(n.mapped_major_faults)
    }),
    counter("flashmob_extent_store_operations_total", "Operations submitted to the store, after merging", |n| {
        one(n.store_ops)
    }),
    counter("flashmob_extent_read_bytes_total", "Bytes requested by reads", |n| one(n.read_bytes)),
    counter("flashmob_extent_written_bytes_total", "Bytes written", |n| one(n.write_bytes)),
    counter("flashmob_extent_failures_total", "Pieces that failed", |n| one(n.failures)),
    counter("flashmob_extent_protocol_errors_total", "Links dropped for protocol errors", |n| one(n.protocol_errors)),
    gauge("flashmob_extent_waiting_pieces", "Pieces queued in the elevator", |n| one(n.waiting)),
    gauge("flashmob_extent_operations_in_store", "Operations in the store", |n| one(n.in_store)),
];
