//! Metrics that are neither stages nor counters of core's tables: name, description, and source in the report.

use crate::status::report::{
    ConditionReport, CopiesReport, GatewayReport, LinkReport, ModelReport, NodeLinkReport, NodeOfVolume, NodeReport,
    PathReport, Report, SumsReport, TcpReport, VolumeReport,
};

/// The type of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Goes up and down.
    Gauge,
    /// Only increases, until the process (or, if the help says so, the connection) restarts.
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

macro_rules! whole {
    ($($kind:ty),*) => {$(
        impl From<$kind> for Value {
            fn from(n: $kind) -> Value {
                Value::Whole(n as u64)
            }
        }
    )*};
}

whole!(u64, usize, bool);

impl From<f64> for Value {
    fn from(x: f64) -> Value {
        Value::Real(x)
    }
}

/// Names and values that distinguish a series from the others of its metric.
pub(super) type Labels<'a> = Vec<(&'static str, &'a str)>;

/// Values of one item, each with the labels that distinguish it from the others.
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

/// No sample if there is no value.
fn maybe<'a>(value: Option<impl Into<Value>>) -> Points<'a> {
    value.map(one).unwrap_or_default()
}

/// Always 1: the information is in the labels.
fn info(labels: Labels<'_>) -> Points<'_> {
    vec![(labels, Value::Whole(1))]
}

/// `out` and `in` as this end sees them.
fn both<'a>(out: impl Into<Value>, inwards: impl Into<Value>) -> Points<'a> {
    vec![(vec![("direction", "out")], out.into()), (vec![("direction", "in")], inwards.into())]
}

/// Fractions of the time since the last look in which a buffer limited the link, by buffer.
fn held_back(path: &PathReport) -> Points<'static> {
    let by = [
        ("receiver", path.receiver_limited_fraction),
        ("send_buffer", path.send_buffer_limited_fraction),
        ("own_window", path.receive_window_used_fraction),
    ];
    by.map(|(by, fraction)| (vec![("by", by)], fraction.into())).to_vec()
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
    gauge("flashmob_trace_one_in", "One request in this many is sampled; 0: none", |g| one(g.trace.one_in)),
    gauge("flashmob_trace_in_flight", "Sampled requests in progress", |g| one(g.trace.in_flight)),
    counter("flashmob_trace_samples_total", "Sampled requests, by outcome", |g| {
        let t = &g.trace.counters;
        let dropped = t.crowded_out + t.abandoned + t.untold;
        let outcomes = [("finished", t.finished), ("failed", t.failed), ("dropped", dropped)];
        outcomes.map(|(outcome, n)| (vec![("outcome", outcome)], Value::Whole(n))).to_vec()
    }),
];

/// Of a volume.
pub(super) const VOLUME: &[Series<VolumeReport>] =
    &[gauge("flashmob_volume_size_bytes", "Size of the volume; absent until it is known", |v| maybe(v.size_bytes))];

/// Of a volume with copies.
pub(super) const COPIES: &[Series<CopiesReport>] = &[
    gauge("flashmob_volume_copies", "Copies of each chunk", |c| one(c.copies as u64)),
    gauge("flashmob_volume_copies_fewest_current", "Copies that the worst chunk has left", |c| {
        one(c.fewest_current as u64)
    }),
    gauge("flashmob_volume_chunks", "Chunks of the volume, by state; a chunk may have several", |c| {
        let of = |state, count: u64| (vec![("state", state)], Value::from(count));
        vec![
            of("all", c.chunks.into()),
            of("open", c.open_chunks.into()),
            of("behind", c.behind_chunks.into()),
            of("doubtful", c.doubtful_chunks.into()),
            of("uncompared", c.uncompared_chunks.into()),
            of("busy", c.busy_chunks as u64),
        ]
    }),
    gauge("flashmob_volume_rebuild_left_bytes", "Bytes of copies that are left to be made current", |c| {
        one(c.rebuild.left_bytes)
    }),
    gauge(
        "flashmob_volume_rebuild_bytes_per_second",
        "Bytes of copies that were made current in a second, over the last minute; absent while none were",
        |c| maybe(c.rebuild.bytes_per_second),
    ),
    gauge("flashmob_volume_rebuild_eta_seconds", "Time until all copies are current at that rate", |c| {
        maybe(c.rebuild.eta_seconds)
    }),
    gauge("flashmob_volume_scrubs_running", "Scrubs under way, by kind", |c| {
        let of = |kind, count: u64| (vec![("kind", kind)], Value::from(count));
        vec![of("compare", c.scrub.is_comparing.into()), of("verify", c.scrub.verifying_nodes as u64)]
    }),
    gauge("flashmob_volume_scrub_compared_bytes", "Bytes compared by the scrub under way; absent without one", |c| {
        maybe(c.scrub.compared_bytes)
    }),
    gauge(
        "flashmob_volume_scrub_age_seconds",
        "Time since all copies were compared, and since the copies of the node were verified that waits longest; absent before that",
        |c| {
            let ages = [("compare", c.scrub.compared_seconds_ago), ("verify", c.scrub.verified_seconds_ago)];
            ages.into_iter().filter_map(|(kind, age)| Some((vec![("kind", kind)], Value::from(age?)))).collect()
        },
    ),
    gauge("flashmob_volume_bad_blocks", "Blocks that cannot be mended: no copy matches, or copies differ", |c| {
        one(c.scrub.bad_blocks)
    }),
];

/// The states that are always present, so that queries find those that have not occurred yet.
const NODE_STATES: [&str; 5] = ["ready", "connecting", "waiting", "refused", "drained"];

/// Of a node as its gateway sees it.
pub(super) const NODE: &[Series<NodeOfVolume>] = &[
    gauge("flashmob_node_state", "1 for the node's state, 0 for the others", |n| {
        let other = (!NODE_STATES.contains(&&*n.state)).then_some(&*n.state);
        let states = NODE_STATES.into_iter().chain(other);
        states.map(|state| (vec![("state", state)], Value::from(state == n.state))).collect()
    }),
    gauge("flashmob_node_size_bytes", "Size of the node's extent; absent until it is known", |n| maybe(n.size_bytes)),
    gauge("flashmob_node_clock_offset_seconds", "Offset of the node's clock ahead of the gateway's", |n| {
        maybe(n.clock_offset_seconds)
    }),
    gauge("flashmob_node_clock_error_seconds", "Maximum error of that offset", |n| maybe(n.clock_error_seconds)),
    gauge("flashmob_node_queue_depth", "Pieces in the node's queue", |n| one(n.queue_depth)),
    counter("flashmob_node_device_failures_total", "Operations that the node's device failed, by kind", |n| {
        n.failures.totals.iter().map(|(op, total)| (vec![("op", &**op)], Value::Whole(*total))).collect()
    }),
    gauge(
        "flashmob_node_device_fails",
        "1 while the node's device fails operations: flushes until one succeeds, others for ten minutes; flashmob status says which",
        |n| one(!n.failures.failing.is_empty()),
    ),
    gauge("flashmob_node_no_io", "1 if the node answers without I/O", |n| one(n.no_io)),
    gauge("flashmob_node_modelled", "1 if the node's flash is modelled", |n| one(n.modelled)),
];

/// Of a link.
pub(super) const LINK: &[Series<LinkReport>] =
    &[
        gauge("flashmob_link_ready", "1 if the link carries batches", |l| one(l.state == "ready")),
        gauge("flashmob_link_outstanding_batches", "Batches in flight", |l| one(l.outstanding_batches)),
        gauge("flashmob_link_pieces_per_batch", "Pieces per batch since the start", |l| one(l.pieces_per_batch)),
        counter("flashmob_link_node_seconds_total", "Time that completed pieces spent at the node", |l| {
            one(l.node_seconds)
        }),
    ];

/// Of a link's connection.
pub(super) const TCP: &[Series<TcpReport>] = &[
    gauge("flashmob_link_tcp_rtt_seconds", "Smoothed round-trip time of the current connection", |t| {
        one(seconds(t.rtt_us))
    }),
    gauge("flashmob_link_tcp_rtt_variation_seconds", "Variation of the round-trip time", |t| {
        one(seconds(t.rtt_variation_us))
    }),
    gauge("flashmob_link_tcp_min_rtt_seconds", "Minimum round-trip time of the current connection", |t| {
        one(seconds(t.min_rtt_us))
    }),
    counter(
        "flashmob_link_tcp_segments_total",
        "Segments, acknowledgements included; restarts with each connection",
        |t| both(t.segments_out, t.segments_in),
    ),
    counter("flashmob_link_tcp_data_segments_total", "Segments with data; restarts with each connection", |t| {
        both(t.data_segments_out, t.data_segments_in)
    }),
    counter(
        "flashmob_link_tcp_data_bytes_total",
        "Bytes of data, retransmitted ones included; restarts with each connection",
        |t| both(t.bytes_out, t.bytes_in),
    ),
    gauge("flashmob_link_mean_segment_bytes", "Mean bytes of data per data segment of the current connection", |t| {
        both(t.mean_segment_out_bytes, t.mean_segment_in_bytes)
    }),
    counter("flashmob_link_tcp_retransmissions_total", "Segments retransmitted; restarts with each connection", |t| {
        one(t.retransmissions)
    }),
    gauge("flashmob_link_tcp_congestion_window_segments", "Congestion window", |t| one(t.congestion_window_segments)),
    gauge("flashmob_link_tcp_mss_bytes", "Maximum segment size for sending", |t| one(t.mss_bytes)),
];

/// Of a link's path.
pub(super) const PATH: &[Series<PathReport>] = &[
    gauge("flashmob_link_tcp_congestion_info", "Always 1; the label has the congestion control", |p| {
        p.congestion.as_deref().map(|name| info(vec![("congestion", name)])).unwrap_or_default()
    }),
    gauge("flashmob_link_tcp_delivery_rate_bytes_per_second", "The kernel's estimate of the delivery rate", |p| {
        one(p.delivery_rate_bytes_per_second)
    }),
    gauge("flashmob_link_bytes_per_second", "Bytes per second sent and received, over the last second or more", |p| {
        both(p.out_bytes_per_second, p.in_bytes_per_second)
    }),
    gauge("flashmob_link_tcp_window_bytes", "Windows: out is advertised by the node, in by the gateway", |p| {
        both(p.send_window_bytes, p.receive_window_bytes)
    }),
    gauge("flashmob_link_tcp_buffer_bytes", "Socket buffers, as counted by the kernel", |p| {
        both(p.send_buffer_bytes, p.receive_buffer_bytes)
    }),
    gauge(
        "flashmob_link_tcp_held_back_fraction",
        "receiver, send_buffer: fraction of time in which the node's window or the gateway's send buffer limited sending; own_window: used fraction of the gateway's window",
        held_back,
    ),
    gauge("flashmob_link_buffers_too_small", "Buffers of this end that limit the link and cannot be enlarged", |p| {
        one(p.limits.len())
    }),
];

/// Of a node's device: `flashmob_node_...` in its gateway's report, `flashmob_extent_...` in its own.
pub(super) const CONDITION: &[Series<ConditionReport>] = &[
    gauge("battery_fraction", "Charge of the node's battery, 0 to 1; absent if unknown", |c| {
        maybe(c.battery_percent.map(|percent| f64::from(percent) / 100.0))
    }),
    gauge("charging", "1 if the node's device is charging or on external power", |c| maybe(c.charging)),
    gauge("celsius", "Temperature of the node's battery, or of its warmest sensor", |c| maybe(c.celsius)),
    gauge("free_bytes", "Free bytes for the node's extent", |c| maybe(c.free_bytes)),
    gauge("unallocated_bytes", "Bytes of the extent that are not allocated yet", |c| maybe(c.unallocated_bytes)),
    gauge("beyond_limit", "1 for each limit that the node's device exceeds", |c| {
        let limits = [("battery", c.is_battery_low), ("heat", c.is_hot), ("space", c.is_space_little)];
        limits.map(|(limit, is_beyond)| (vec![("limit", limit)], is_beyond.into())).to_vec()
    }),
    counter("pauses_total", "Times that the node was suspended or unreachable, since its start", |c| {
        one(u64::from(c.pauses_total))
    }),
];

/// Of a node's modelled flash.
pub(super) const MODEL: &[Series<ModelReport>] = &[
    gauge("flashmob_extent_model_info", "1 if the flash is modelled; the label has the profile", |m| {
        info(vec![("profile", &*m.profile)])
    }),
    counter("flashmob_extent_model_operations_total", "Operations of the modelled flash", |m| one(m.served)),
    counter("flashmob_extent_model_busy_seconds_total", "Time that a slot of the modelled flash was busy", |m| {
        one(m.busy_seconds)
    }),
    gauge(
        "flashmob_extent_model_upward_fraction",
        "Fraction of the modelled flash's address steps that were upward",
        |m| one(m.upward_fraction),
    ),
    gauge(
        "flashmob_extent_model_lateness_seconds",
        "Lateness of replies after the modelled flash's completion time",
        |m| {
            let all = [("0.5", m.lateness_p50_us), ("0.99", m.lateness_p99_us), ("1", m.lateness_max_us)];
            all.map(|(quantile, us)| (vec![("quantile", quantile)], Value::Real(us / 1e6))).to_vec()
        },
    ),
];

/// Of the checksums of a node's extent.
pub(super) const SUMS: &[Series<SumsReport>] = &[
    gauge("flashmob_extent_bad_blocks", "Blocks that do not match their checksum and were not written since", |s| {
        one(s.bad_blocks)
    }),
    counter("flashmob_extent_checksum_mismatches_total", "Blocks found not to match their checksum", |s| {
        one(s.mismatches)
    }),
    counter("flashmob_extent_adopted_blocks_total", "Blocks that got the checksum of the bytes they have", |s| {
        one(s.adopted_blocks)
    }),
    counter("flashmob_extent_settled_blocks_total", "Blocks whose change by a killed process was finished", |s| {
        one(s.settled_blocks)
    }),
    counter(
        "flashmob_extent_rewritten_blocks_total",
        "Blocks that were written again because the flash had others",
        |s| one(s.rewritten_blocks),
    ),
    gauge("flashmob_extent_units_without_checksums", "Units of 4 MiB whose checksums are made at first use", |s| {
        one(s.units_without)
    }),
];

/// Of a node by itself. Its names differ from those of [`NODE`], which have other labels.
pub(super) const EXTENT: &[Series<NodeReport>] = &[
    gauge("flashmob_extent_info", "Always 1; the labels have the extent, its data and its volume", |n| {
        let volume = n.volume.as_deref().unwrap_or_default();
        info(vec![("extent", &*n.extent_id), ("path", &*n.path), ("volume", volume)])
    }),
    gauge("flashmob_extent_size_bytes", "Size of the extent", |n| one(n.size_bytes)),
    gauge("flashmob_extent_no_io", "1 if the node answers without I/O", |n| one(n.no_io)),
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
    counter("flashmob_extent_mapped_reads_total", "Fast reads served from the memory mapping", |n| one(n.mapped_reads)),
    counter("flashmob_extent_mapped_major_faults_total", "Waits for a mapped page that had been evicted", |n| {
        one(n.mapped_major_faults)
    }),
    gauge("flashmob_extent_waiting_pieces", "Pieces queued in the elevator", |n| one(n.waiting)),
    gauge("flashmob_extent_operations_in_store", "Operations in the store", |n| one(n.in_store)),
];
