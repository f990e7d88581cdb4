//! What the fuzz targets do with their input, apart from the fuzzer, so that the seeds are run by `cargo test` too.
//!
//! Each module feeds one part of flashmob and asserts what must hold whatever comes. Nothing here reads a clock or
//! draws a random number: an input always does the same.

pub mod admin_host;
pub mod air_profile;
pub mod bytes;
pub mod capture;
pub mod config;
pub mod doctor;
pub mod enroll;
pub mod etcd;
pub mod gateway_frames;
pub mod gateway_node;
pub mod heard;
pub mod iperf3;
pub mod keys;
pub mod map_chain;
pub mod map_log;
pub mod mirror;
pub mod mutated;
pub mod nbd;
pub mod nbd_client;
pub mod node_frames;
pub mod node_host;
pub mod scrub_file;
pub mod seeds;
pub mod sums_file;
pub mod texts;
pub mod tls;
pub mod trace;
pub mod wire;

/// A target's name and what it does with an input.
pub type Target = (&'static str, fn(&[u8]));

/// Every target, by the name of its file in `libfuzzer/targets/`.
pub const TARGETS: [Target; 26] = [
    ("nbd_handshake", nbd::handshake),
    ("nbd_requests", nbd::requests),
    ("node_frames", node_frames::run),
    ("gateway_frames", gateway_frames::run),
    ("wire_decode", wire::run),
    ("sizes", texts::sizes),
    ("config", config::run),
    ("job", texts::job),
    ("results", texts::results),
    ("air_profile", air_profile::run),
    ("capture", capture::run),
    ("doctor_undo", doctor::undo),
    ("enroll", enroll::run),
    ("etcd", etcd::run),
    ("heard", heard::run),
    ("iperf3", iperf3::run),
    ("keys", keys::run),
    ("map_log", map_log::run),
    ("map_chain", map_chain::run),
    ("mirror", mirror::run),
    ("scrub_file", scrub_file::run),
    ("sums_file", sums_file::run),
    ("trace_format", trace::format),
    ("trace_page", trace::page),
    ("tls", tls::run),
    ("admin_host", admin_host::run),
];
