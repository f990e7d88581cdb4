//! GlusterFS without copies: a brick on each node, and fio on a mount at the gateway's place.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, ensure};
use serde_json::Value;

use crate::case::Case;
use crate::looks::{Seen, during};
use crate::{Args, Contender, Figures, Lab};

/// Starts bricks and mounts them.
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../lab/gluster");

/// One round.
pub fn measure(lab: &Lab) -> anyhow::Result<Figures> {
    let (threads, delay_us) = (lab.args.disk_threads, u64::from(lab.args.disk_delay_ms) * 1000);
    lab.with_others(Contender::Gluster, &format!("exec {SCRIPT} brick $NODE {threads} {delay_us}"))
}

/// The client inside a lab.
pub fn inside(args: &Args, case: &Case) -> anyhow::Result<Figures> {
    let outstanding = args.outstanding(case) * case.nodes;
    let mounted = Command::new(SCRIPT).args(["mount", &outstanding.to_string()]).stdin(Stdio::null()).output()?;
    ensure!(mounted.status.success(), "GlusterFS: {}", String::from_utf8_lossy(&mounted.stderr).trim());
    let files = String::from_utf8(mounted.stdout)?;
    let files: Vec<&str> = files.lines().collect();
    ensure!(files.len() == case.nodes as usize, "GlusterFS has {} files for {} bricks", files.len(), case.nodes);
    let report = tempfile::NamedTempFile::new()?;
    // It begins, opens the files and warms up in a run of its own, so that the lab is looked at while the other one counts.
    let warmed = fio(args, case, &files, args.warmup(), None).output().context("fio cannot be run")?;
    ensure!(warmed.status.success(), "fio: {}", String::from_utf8_lossy(&warmed.stderr).trim());
    let mut counted = fio(args, case, &files, args.time(), Some(report.path()));
    let (output, looks) = during(Duration::ZERO, args.time(), || counted.output())?;
    let output = output.context("fio cannot be run")?;
    ensure!(output.status.success(), "fio: {}", String::from_utf8_lossy(&output.stderr).trim());
    let text = std::fs::read_to_string(report.path())?;
    // Some engines print lines before it.
    let json: Value = serde_json::from_str(&text[text.find('{').context("fio printed no JSON")?..])?;
    Ok(looks.figures(args, case, "GlusterFS", &seen(&json, case)?))
}

/// fio with requests to all files, each as often as the others.
fn fio(args: &Args, case: &Case, files: &[&str], time: Duration, report: Option<&Path>) -> Command {
    let mut fio = Command::new("fio");
    fio.args(["--name=load", "--ioengine=libaio", "--direct=1", "--thread", "--norandommap", "--randrepeat=0"]);
    fio.args(["--file_service_type=random", "--allow_file_create=0", "--time_based", "--lat_percentiles=1"]);
    fio.arg(format!("--filename={}", files.join(":")));
    fio.arg(format!("--iodepth={}", args.outstanding(case) * case.nodes));
    fio.arg(format!("--bs={}", case.load.block_bytes));
    fio.arg(if case.load.is_read { "--rw=randread" } else { "--rw=randwrite" });
    fio.arg(format!("--runtime={}ms", time.as_millis()));
    if let Some(report) = report {
        fio.arg("--output-format=json").arg(format!("--output={}", report.display()));
    }
    fio.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    fio
}

fn seen(json: &Value, case: &Case) -> anyhow::Result<Seen> {
    let job = &json["jobs"][0];
    ensure!(job["error"] == 0, "fio failed: {}", job["error"]);
    let side = &job[if case.load.is_read { "read" } else { "write" }];
    let ms = |percent: &str| {
        let ns = side["lat_ns"]["percentile"][percent].as_f64();
        ns.map(|ns| ns / 1e6).with_context(|| format!("fio printed no {percent} % of latencies"))
    };
    let requests_per_s = side["iops"].as_f64().context("fio printed no rate")?;
    Ok(Seen { requests_per_s, p50_ms: ms("50.000000")?, p99_ms: ms("99.000000")? })
}
