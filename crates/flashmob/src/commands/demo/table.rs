//! The demo's table, and its explanation.

use std::fmt::Write;
use std::time::Duration;

use flashmob_core::gateway::BatchMode;
use flashmob_core::units::Bytes;

use super::run::Run;

/// The heading of the table.
pub fn head() -> String {
    let names = "    k   block  outstanding   reads/s    p50 us    p99 us  reads/batch  packets/s  bytes/packet   B out   B back";
    format!("{names}\n{}\n", "-".repeat(names.len()))
}

/// One row: the mode, its result, and the traffic of a read on the links to the nodes.
pub fn row(run: &Run) -> String {
    let us = |d: Duration| d.as_secs_f64() * 1e6;
    format!(
        "{:>5}  {:>6}  {:>11}  {:>8.0}  {:>8.0}  {:>8.0}  {:>11.1}  {:>9.0}  {:>12.0}  {:>6.1}  {:>7.1}\n",
        run.mode.batch_name(),
        Bytes(u64::from(run.mode.block_bytes)),
        run.mode.connections * run.mode.outstanding,
        run.reads_per_second,
        us(run.p50),
        us(run.p99),
        run.pieces_per_batch,
        run.packets_per_second,
        run.mean_packet_bytes,
        run.bytes_out_per_request,
        run.bytes_back_per_request,
    )
}

/// The conclusions from all runs.
pub fn explain(runs: &[Run]) -> String {
    let verified: u64 = runs.iter().map(|r| r.verified_bytes).sum();
    let wrong: u64 = runs.iter().map(|r| r.mismatched_bytes).sum();
    let errors: u64 = runs.iter().map(|r| r.errors).sum();
    let mut text = format!("{} compared with the image, {wrong} bytes wrong, {errors} errors\n\n", Bytes(verified));
    let find = |batch, block, many: bool| {
        runs.iter().find(|r| r.mode.batch == batch && r.mode.block_bytes == block && (r.mode.outstanding > 1) == many)
    };
    if let (Some(one), Some(auto)) = (find(BatchMode::Fixed(1), 1, true), find(BatchMode::Auto, 1, true)) {
        let ratio = auto.reads_per_second / one.reads_per_second.max(1.0);
        let packets = |r: &Run| r.packets_per_second / r.reads_per_second.max(1.0);
        let _ = writeln!(
            text,
            "auto compared with k = 1 (1 B, many outstanding): {ratio:.1} times the reads/s; {:.2} packets per read, {:.2} with k = 1",
            packets(auto),
            packets(one)
        );
    }
    if let (Some(one), Some(auto)) = (find(BatchMode::Fixed(1), 1, false), find(BatchMode::Auto, 1, false)) {
        let us = |run: &Run| run.p50.as_secs_f64() * 1e6;
        let _ = writeln!(
            text,
            "one read at a time is sent immediately in both modes: p50 {:.0} us with auto, {:.0} us with k = 1",
            us(auto),
            us(one)
        );
    }
    text.push_str(
        "\nk: maximum requests per batch; auto: all requests that arrived while earlier batches were in flight. Packets are TCP\n\
         segments between gateway and nodes, both ways, acknowledgements included. Everything runs over loopback on one machine:\n\
         this shows the effect of batching, not the speed of Wi-Fi or flash.\n",
    );
    text.replace(": \n", ":\n")
}
