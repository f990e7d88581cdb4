//! The demo's second act: a volume with two copies loses a node with its flash while it is used.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::Context;
use flashmob_bench::copy::{read_image, write_image};
use flashmob_bench::progress::ProgressLine;
use flashmob_core::units::{Bytes, MIB};
use flashmob_server::net::fetch::fetch_volumes;
use flashmob_server::status::volumes::{MemberDetails, NodeDetails, VolumesReport};

use super::cluster::{Cluster, Gateway};
use super::image;
use super::rewrite::{Rewriter, Rewritten};
use crate::process::of_this_binary;

/// How many nodes.
const NODES: usize = 8;
/// The one that is lost.
const LOST: usize = 3;
const EXTENT_BYTES: u64 = 32 * MIB;
const IMAGE_BYTES: u64 = 96 * MIB;
/// A node that leaves requests unanswered for so long is not waited for.
const EVICT_AFTER: Duration = Duration::from_secs(1);
/// Other requests are under way on this machine, too.
const OTHER_WAITS: Duration = Duration::from_secs(2);
/// Longest wait for anything that is to happen.
const PATIENCE: Duration = Duration::from_secs(60);

/// Kills a node and deletes its file while an image is read and written, puts an empty one in its place, and brings the old file back.
pub fn run(dir: &Path) -> anyhow::Result<()> {
    let dir = dir.join("copies");
    std::fs::create_dir(&dir)?;
    println!("\nA volume with two copies (the second act): {NODES} nodes of {}", Bytes(EXTENT_BYTES));
    let images = [0, 1].map(|seed| image::make_ext4_with(&dir, seed, IMAGE_BYTES, &FILE_SIZES_BYTES));
    let [first, second] = images;
    let images = [first?, second?];
    let mut cluster = Cluster::start(&dir, NODES, EXTENT_BYTES)?;
    let options = format!("layout = \"mapped\"\ncopies = 2\nevict_after = \"{}ms\"\n", EVICT_AFTER.as_millis());
    let gateway = cluster.gateway_with(&options, Some(EXTENT_BYTES))?;
    await_that(&gateway, |volume| volume.iter().all(|node| node.state == "ready"))?;
    write_image(&gateway.uri, &images[0], &mut |_| ())?;
    println!("an ext4 image is written, and is rewritten with another one while both are read");

    let load = Rewriter::start(&gateway.uri, images.clone(), IMAGE_BYTES);
    std::thread::sleep(Duration::from_millis(500));
    let saved = dir.join("saved");
    cluster.lose(LOST, &saved)?;
    println!("node {LOST} is killed, and its files deleted");
    let behind = |nodes: &[NodeDetails]| nodes[LOST].state != "ready" && member(nodes).is_some_and(|m| m.behind > 0);
    await_that(&gateway, behind)?;

    cluster.start_again(LOST, EXTENT_BYTES)?;
    let begun = Instant::now();
    replace(&gateway)?;
    let took = begun.elapsed();
    println!("a node with an empty file takes its place: flashmob volume replace {} demo {LOST} --yes", gateway.admin);
    println!("its copies are made again:   in {:.1} s, while clients read and write", took.as_secs_f64());
    anyhow::ensure!(!load.has_ended(), "the load ended early: {:?}", load.stop().err());
    let done = load.stop()?;
    tell_load(&done)?;
    compare(&gateway, &images[done.image], &dir)?;

    cluster.bring_back(LOST, &saved, EXTENT_BYTES)?;
    await_that(&gateway, |nodes| nodes[LOST].state == "refused")?;
    println!("the old files are back at node {LOST}: refused");
    compare(&gateway, &images[done.image], &dir)?;
    drop(gateway);
    Ok(())
}

/// Files in the images, of random bytes.
const FILE_SIZES_BYTES: [u64; 7] = [1, 777, 4096, 70_000, MIB, 5 * MIB + 3, 40 * MIB];

fn tell_load(done: &Rewritten) -> anyhow::Result<()> {
    println!(
        "meanwhile:                   {} written, {} read, every byte compared; the longest wait was {:.2} s",
        Bytes(done.written_bytes),
        Bytes(done.read_bytes),
        done.longest.as_secs_f64()
    );
    println!("                             (a node that does not answer is given {:.0} s)", EVICT_AFTER.as_secs_f64());
    anyhow::ensure!(
        done.longest < EVICT_AFTER + OTHER_WAITS,
        "a request took {:?}, much longer than {EVICT_AFTER:?}",
        done.longest
    );
    Ok(())
}

/// The command that people use, with its progress line.
fn replace(gateway: &Gateway) -> anyhow::Result<()> {
    let admin = gateway.admin.to_string();
    let node = LOST.to_string();
    let args = ["volume", "replace", &admin, "demo", &node, "--yes"].map(str::to_string);
    let output = of_this_binary(&args)?
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .output()
        .context("cannot run 'flashmob volume replace'")?;
    let text = String::from_utf8_lossy(&output.stdout);
    anyhow::ensure!(output.status.success(), "'flashmob volume replace' failed");
    log::debug!("{text}");
    Ok(())
}

/// Reads the volume back, and compares it with an image.
fn compare(gateway: &Gateway, image: &Path, dir: &Path) -> anyhow::Result<()> {
    let back = dir.join("back.img");
    let mut line = ProgressLine::new("reading it back");
    read_image(&gateway.uri, &back, &mut |p| line.show(p))?;
    drop(line);
    let sum = image::sha256(image, IMAGE_BYTES)?;
    anyhow::ensure!(image::sha256(&back, IMAGE_BYTES)? == sum, "the data read back DIFFERS from the image");
    let verdict = image::check_ext4(&back, IMAGE_BYTES)?.unwrap_or_else(|| "not ext4".to_string());
    println!("read back, checksum equal:   sha256 {}...; e2fsck -fn: {verdict}", &sum[..16]);
    std::fs::remove_file(&back)?;
    Ok(())
}

fn member(nodes: &[NodeDetails]) -> Option<&MemberDetails> {
    nodes.get(LOST)?.member.as_ref()
}

/// Waits until the volume's nodes are as they should be.
fn await_that(gateway: &Gateway, is: impl Fn(&[NodeDetails]) -> bool) -> anyhow::Result<()> {
    let begun = Instant::now();
    loop {
        let report: VolumesReport = serde_json::from_slice(&fetch_volumes(&gateway.admin.to_string().parse()?)?)?;
        let nodes = &report.volumes.first().context("the gateway has no volume")?.nodes;
        if is(nodes) {
            return Ok(());
        }
        anyhow::ensure!(
            begun.elapsed() < PATIENCE,
            "after {PATIENCE:?} the nodes are not as they should be: {nodes:?}"
        );
        std::thread::sleep(Duration::from_millis(50));
    }
}
