//! `flashmob demo`: a cluster on this machine, with real processes, a real file system and every byte checked.

mod cluster;
mod copies;
mod image;
mod rewrite;
mod run;
mod table;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Args;
use flashmob_bench::Uri;
use flashmob_bench::copy::{read_image, write_image};
use flashmob_bench::progress::ProgressLine;
use flashmob_core::gateway::BatchMode;
use flashmob_core::units::{Bytes, MIB};

use cluster::{Cluster, Gateway, Scratch};
use run::{Mode, Run};

/// How many nodes the demo starts.
const NODES: usize = 8;
/// The least size of one node's extent, in bytes.
const EXTENT_BYTES_MIN: u64 = 64 * MIB;
const TIME_MIN: Duration = Duration::from_millis(100);
const TIME_MAX: Duration = Duration::from_secs(3600);

/// Demonstrate flashmob on this machine: eight nodes, a gateway, a volume; measured and verified.
///
/// Starts eight node processes and a gateway, which present a volume of 8 x 64 MiB over loopback. Copies an ext4
/// image in and out over NBD and verifies it (checksum, e2fsck), then measures random reads with at most k requests
/// per packet, as in the paper (k = 1, 10, 100), and with self-clocked batches (auto). Every byte read is compared
/// with the image. Then a second act: a volume with two copies loses a node with its file while it is read and written, and
/// an empty node takes its place (not with --image). All files are removed at the end.
#[derive(Debug, Args)]
pub struct DemoArgs {
    /// Use this image instead of creating one.
    #[arg(long, value_name = "FILE")]
    image: Option<PathBuf>,
    /// Total time of reading; a bare number means seconds.
    #[arg(long, default_value = "10", value_name = "TIME", value_parser = flashmob_node::values::time_in(TIME_MIN..=TIME_MAX))]
    seconds: Duration,
    /// Leave the cluster running, and print commands to try. Ctrl-C ends it.
    #[arg(long)]
    keep: bool,
}

/// Runs the demo.
pub fn run(args: &DemoArgs) -> anyhow::Result<()> {
    let scratch = Scratch::new()?;
    scratch.remove_on_signal()?;
    let image = match &args.image {
        Some(path) => path.clone(),
        None => image::make_ext4(scratch.path(), NODES as u64 * EXTENT_BYTES_MIN)?,
    };
    let image_bytes = std::fs::metadata(&image).with_context(|| format!("cannot read {}", image.display()))?.len();
    anyhow::ensure!(image_bytes > 0, "{} is empty", image.display());
    let extent_bytes = image_bytes.div_ceil(NODES as u64).next_multiple_of(MIB).max(EXTENT_BYTES_MIN);
    let cluster = Cluster::start(scratch.path(), NODES, extent_bytes)?;
    println!("{NODES} nodes of {}, one process each; data in {}", Bytes(extent_bytes), scratch.path().display());

    let gateway = cluster.gateway(BatchMode::Auto, 1)?;
    copy_and_check(&gateway.uri, &image, image_bytes, scratch.path())?;
    drop(gateway);

    let runs = measure(&cluster, &image, image_bytes, args.seconds)?;
    print!("\n{}", table::explain(&runs));
    anyhow::ensure!(runs.iter().all(|r| r.errors == 0), "some requests failed");
    anyhow::ensure!(runs.iter().all(|r| r.mismatched_bytes == 0), "some bytes were WRONG");

    if args.image.is_none() {
        copies::run(scratch.path())?;
    }
    if args.keep {
        keep(&cluster.gateway(BatchMode::Auto, 1)?, &cluster);
    }
    Ok(())
}

/// Writes the image into the volume, reads it back, and checks that it is identical and a consistent file system.
fn copy_and_check(uri: &Uri, image: &Path, image_bytes: u64, dir: &Path) -> anyhow::Result<()> {
    let begun = Instant::now();
    let mut line = ProgressLine::new("writing the image");
    let written = write_image(uri, image, &mut |p| line.show(p))?;
    drop(line);
    println!("image written through NBD:   {}", copied(written.data_bytes, begun.elapsed()));

    let back = dir.join("back.img");
    let begun = Instant::now();
    let mut line = ProgressLine::new("reading it back");
    let read = read_image(uri, &back, &mut |p| line.show(p))?;
    drop(line);
    println!("volume read back:            {}", copied(read.image_bytes, begun.elapsed()));

    let sum = image::sha256(image, image_bytes)?;
    anyhow::ensure!(image::sha256(&back, image_bytes)? == sum, "the data read back DIFFERS from the image");
    println!("checksum equal:              sha256 {}...", &sum[..16]);
    if let Some(verdict) = image::check_ext4(&back, image_bytes)? {
        println!("file system (e2fsck -fn):    {verdict}");
    }
    std::fs::remove_file(&back)?;
    Ok(())
}

fn copied(bytes: u64, elapsed: Duration) -> String {
    let rate = bytes as f64 / elapsed.as_secs_f64().max(1e-9);
    format!("{} in {:.1} s, {}/s", Bytes(bytes), elapsed.as_secs_f64(), Bytes((rate / 1e6).round() as u64 * 1_000_000))
}

/// Random reads in every mode, each with its own gateway.
fn measure(cluster: &Cluster, image: &Path, image_bytes: u64, time: Duration) -> anyhow::Result<Vec<Run>> {
    let modes = Mode::all();
    let each = time / modes.len() as u32;
    let mut runs = Vec::new();
    println!("\nrandom reads, every byte compared with the image:\n");
    print!("{}", table::head());
    for mode in modes {
        let gateway = cluster.gateway(mode.batch, mode.links)?;
        let run = run::read_at_random(&gateway, mode, image, image_bytes, each)?;
        print!("{}", table::row(&run));
        runs.push(run);
    }
    Ok(runs)
}

/// Prints commands to try, and waits for Ctrl-C.
fn keep(gateway: &Gateway, cluster: &Cluster) {
    let (uri, admin) = (&gateway.uri, gateway.admin);
    println!("\nThe cluster keeps running until Ctrl-C. Commands to try in another terminal:\n");
    println!("  flashmob status {admin}");
    println!("  curl -s http://{admin}/metrics | grep pieces");
    println!("  nbdinfo {uri}");
    println!("  nbdcopy --progress {uri} copy.img");
    println!("  qemu-img convert -p -f raw -O qcow2 '{uri}' copy.qcow2");
    println!(
        "  fio --name=reads --ioengine=nbd --uri={uri} --rw=randread --bs=4k --iodepth=64 --time_based --runtime=5"
    );
    println!("and as root, to mount the image's file system:\n");
    println!("  mkdir -p nbd mnt && nbdfuse nbd/volume {uri} &");
    println!("  mount -o loop nbd/volume mnt\n");
    println!("Node data and logs: {}", cluster.dir().display());
    loop {
        std::thread::park();
    }
}
