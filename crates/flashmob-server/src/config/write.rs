//! A configuration as TOML, with every value. The text always reads back as the same configuration.

use std::fmt::{Display, Write as _};
use std::path::Path;

use super::error::ToTomlError;
use super::limits::OFF;
use super::quantity::{Period, Quantity, Size};
use super::types::{
    Batch, Config, Engine, EtcdConfig, LayoutKind, Mapping, NodeConfig, NodeSource, Sizing, SocketConfig, VolumeConfig,
};
use crate::etcd::Tls;

impl Config {
    /// This configuration as TOML that [`Config::parse`] reads back as exactly this one.
    ///
    /// Relative paths are written as they are, so they mean the same only from the same folder:
    /// [`Config::load`] makes all of them absolute.
    pub fn to_toml(&self) -> Result<String, ToTomlError> {
        let text = write(self);
        let again = Config::parse(&text, "generated.toml", Path::new(""))?;
        if again == *self { Ok(text) } else { Err(ToTomlError::Changed) }
    }
}

/// The text, line by line.
#[derive(Default)]
struct Lines(String);

impl Lines {
    fn line(&mut self, key: &str, value: impl Display) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, "{key} = {value}");
    }

    fn maybe(&mut self, key: &str, value: Option<impl Display>) {
        value.into_iter().for_each(|value| self.line(key, value));
    }

    fn header(&mut self, header: &str) {
        let _ = writeln!(self.0, "\n{header}");
    }
}

fn in_quotes(text: impl ToString) -> String {
    toml::Value::String(text.to_string()).to_string()
}

fn write(config: &Config) -> String {
    let mut lines = Lines::default();
    let list = |items: Vec<String>| format!("[{}]", items.join(", "));
    lines.line("listen", list(config.listen.iter().map(in_quotes).collect()));
    lines.maybe("admin", config.admin.map(in_quotes));
    lines.line("admin_hosts", list(config.admin_hosts.iter().map(in_quotes).collect()));
    lines.maybe("keys", config.keys.as_ref().map(|path| in_quotes(path.display())));
    lines.line("connections", config.connections);
    lines.line("busy_poll_us", config.busy_poll_us);
    lines.line("trace_one_in", config.trace_one_in);
    lines.line("memory", Size(config.memory_bytes).to_toml());
    lines.maybe("name", config.name.as_ref().map(in_quotes));
    if let Some(etcd) = &config.etcd {
        write_etcd(etcd, &mut lines);
    }
    config.volumes.iter().for_each(|volume| write_volume(volume, &mut lines));
    lines.0
}

fn write_etcd(etcd: &EtcdConfig, lines: &mut Lines) {
    lines.header("[etcd]");
    let endpoints: Vec<String> = etcd.endpoints.iter().map(in_quotes).collect();
    lines.line("endpoints", format!("[{}]", endpoints.join(", ")));
    if let Some(Tls { ca, cert, key }) = &etcd.tls {
        lines.line("ca", in_quotes(ca.display()));
        lines.maybe("cert", cert.as_ref().map(|path| in_quotes(path.display())));
        lines.maybe("key", key.as_ref().map(|path| in_quotes(path.display())));
    }
    lines.line("prefix", in_quotes(&etcd.prefix));
    lines.line("lease", Period(etcd.lease).to_toml());
}

fn write_volume(volume: &VolumeConfig, lines: &mut Lines) {
    lines.header("[[volume]]");
    lines.line("name", in_quotes(&volume.name));
    lines.line("id", in_quotes(&volume.id));
    lines.maybe("description", volume.description.as_ref().map(in_quotes));
    match volume.layout {
        LayoutKind::Linear => lines.line("layout", in_quotes("linear")),
        LayoutKind::Striped { stripe_bytes } => {
            lines.line("layout", in_quotes("striped"));
            lines.line("stripe", Size(stripe_bytes).to_toml());
        }
        LayoutKind::Mapped { .. } => lines.line("layout", in_quotes("mapped")),
    }
    if let Some(copies) = &volume.copies {
        lines.line("copies", copies.copies);
        lines.maybe("size", copies.size_bytes.map(|bytes| Size(bytes).to_toml()));
        lines.line("min_current", copies.min_current);
        lines.line("evict_after", Period(copies.evict_after).to_toml());
        for (key, every) in [("scrub", copies.scrub), ("compare", copies.compare)] {
            lines.line(key, every.map_or_else(|| in_quotes(OFF), |every| Period(every).to_toml()));
        }
    }
    lines.line("read_only", volume.read_only);
    match volume.batch {
        Batch::Auto => lines.line("batch", in_quotes("auto")),
        Batch::Fixed(requests) => lines.line("batch", requests),
    }
    lines.line("batch_bytes", Size(volume.batch_bytes).to_toml());
    lines.line("links", volume.links);
    lines.line("outstanding_batches", volume.outstanding_batches);
    lines.line("timeout", Period(volume.timeout).to_toml());
    lines.line("connect_timeout", Period(volume.connect_timeout).to_toml());
    lines.line("reconnect_min", Period(volume.reconnect_min).to_toml());
    lines.line("reconnect_max", Period(volume.reconnect_max).to_toml());
    lines.line("keep_awake", Period(volume.keep_awake).to_toml());
    let socket = &volume.socket;
    if *socket != SocketConfig::default() {
        lines.header("[volume.socket]");
        lines.maybe("send_buffer", socket.send_buffer_bytes.map(|bytes| Size(bytes).to_toml()));
        lines.maybe("receive_buffer", socket.receive_buffer_bytes.map(|bytes| Size(bytes).to_toml()));
        lines.maybe("buffers", (socket.sizing == Sizing::Kernel).then(|| in_quotes("kernel")));
        lines.maybe("congestion", socket.congestion.as_ref().map(in_quotes));
        lines.maybe("keepalive", socket.keepalive.map(|time| Period(time).to_toml()));
    }
    volume.nodes.iter().for_each(|node| write_node(node, lines));
}

fn write_node(node: &NodeConfig, lines: &mut Lines) {
    lines.header("[[volume.node]]");
    match &node.source {
        NodeSource::Remote { address } => lines.line("address", in_quotes(address)),
        NodeSource::Local { path, threads, engine, direct, mapped } => {
            lines.line("path", in_quotes(path.to_string_lossy()));
            lines.line("threads", threads);
            lines.line("engine", in_quotes(if *engine == Engine::Threads { "threads" } else { "io_uring" }));
            lines.line("direct", direct);
            let mapped = match mapped {
                Mapping::Auto => "auto",
                Mapping::On => "on",
                Mapping::Off => "off",
            };
            lines.line("mapped", in_quotes(mapped));
        }
    }
    lines.maybe("size", node.size_bytes.map(|bytes| Size(bytes).to_toml()));
    lines.maybe("extent", node.extent.map(in_quotes));
    lines.maybe("domain", node.domain.as_ref().map(in_quotes));
}
