//! A configuration back to TOML, every value written out.
//!
//! It must never write what would be refused or read back as something else.

use std::fmt::{Display, Write as _};
use std::path::Path;
use std::time::Duration;

use super::error::ToTomlError;
use super::quantity::{Period, Quantity, Size};
use super::types::{
    Batch, Config, Engine, LayoutKind, Mapping, NodeConfig, NodeSource, Sizing, SocketConfig, VolumeConfig,
};

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
    fn header(&mut self, header: &str) {
        self.raw(format_args!("\n{header}"));
    }

    fn raw(&mut self, line: impl Display) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, "{line}");
    }

    fn line(&mut self, key: &str, value: impl Display) {
        self.raw(format_args!("{key} = {value}"));
    }

    fn text(&mut self, key: &str, value: &str) {
        self.line(key, in_quotes(value));
    }

    fn size(&mut self, key: &str, bytes: u64) {
        self.line(key, Size(bytes).to_toml());
    }

    fn period(&mut self, key: &str, time: Duration) {
        self.line(key, Period(time).to_toml());
    }
}

fn in_quotes(text: &str) -> String {
    toml::Value::String(text.to_string()).to_string()
}

fn write(config: &Config) -> String {
    let mut lines = Lines::default();
    let listen: Vec<String> = config.listen.iter().map(|listen| in_quotes(&listen.to_string())).collect();
    lines.line("listen", format_args!("[{}]", listen.join(", ")));
    if let Some(admin) = config.admin {
        lines.text("admin", &admin.to_string());
    }
    lines.line("connections", config.connections);
    lines.line("busy_poll_us", config.busy_poll_us);
    lines.line("trace_one_in", config.trace_one_in);
    lines.size("memory", config.memory_bytes);
    if let Some(name) = &config.name {
        lines.text("name", name);
    }
    config.volumes.iter().for_each(|volume| write_volume(volume, &mut lines));
    lines.0
}

fn write_volume(volume: &VolumeConfig, lines: &mut Lines) {
    lines.header("[[volume]]");
    lines.text("name", &volume.name);
    lines.text("id", &volume.id);
    if let Some(description) = &volume.description {
        lines.text("description", description);
    }
    match volume.layout {
        LayoutKind::Linear => lines.text("layout", "linear"),
        LayoutKind::Striped { stripe_bytes } => {
            lines.text("layout", "striped");
            lines.size("stripe", stripe_bytes);
        }
    }
    lines.line("read_only", volume.read_only);
    match volume.batch {
        Batch::Auto => lines.text("batch", "auto"),
        Batch::Fixed(requests) => lines.line("batch", requests),
    }
    lines.size("batch_bytes", volume.batch_bytes);
    lines.line("links", volume.links);
    lines.line("outstanding_batches", volume.outstanding_batches);
    lines.period("timeout", volume.timeout);
    lines.period("connect_timeout", volume.connect_timeout);
    lines.period("reconnect_min", volume.reconnect_min);
    lines.period("reconnect_max", volume.reconnect_max);
    lines.period("keep_awake", volume.keep_awake);
    write_socket(&volume.socket, lines);
    volume.nodes.iter().for_each(|node| write_node(node, lines));
}

fn write_socket(socket: &SocketConfig, lines: &mut Lines) {
    if *socket == SocketConfig::default() {
        return;
    }
    lines.header("[volume.socket]");
    let sizes = [("send_buffer", socket.send_buffer_bytes), ("receive_buffer", socket.receive_buffer_bytes)];
    for (key, bytes) in sizes {
        bytes.into_iter().for_each(|bytes| lines.size(key, bytes));
    }
    if socket.sizing == Sizing::Kernel {
        lines.text("buffers", "kernel");
    }
    if let Some(congestion) = &socket.congestion {
        lines.text("congestion", congestion);
    }
    if let Some(keepalive) = socket.keepalive {
        lines.period("keepalive", keepalive);
    }
}

fn write_node(node: &NodeConfig, lines: &mut Lines) {
    lines.header("[[volume.node]]");
    match &node.source {
        NodeSource::Remote { address } => lines.text("address", address),
        NodeSource::Local { path, threads, engine, direct, mapped } => {
            lines.text("path", &path.to_string_lossy());
            lines.line("threads", threads);
            let engine = match engine {
                Engine::Threads => "threads",
                Engine::IoUring => "io_uring",
            };
            lines.text("engine", engine);
            lines.line("direct", direct);
            let mapped = match mapped {
                Mapping::Auto => "auto",
                Mapping::Off => "off",
            };
            lines.text("mapped", mapped);
        }
    }
    if let Some(bytes) = node.size_bytes {
        lines.size("size", bytes);
    }
    if let Some(extent) = node.extent {
        lines.text("extent", &extent.to_string());
    }
}
