//! The demo's image: a real ext4 file system with files in it, and its check.

use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use flashmob_bench::load::random::Random;
use flashmob_core::units::MIB;
use sha2::{Digest, Sha256};

/// Files of random bytes in the image, their sizes in bytes: from smaller than a block to larger than an extent.
const FILE_SIZES_BYTES: [u64; 9] = [1, 777, 4096, 70_000, MIB, 5 * MIB + 3, 20 * MIB, 70 * MIB, 120 * MIB];
/// Files of text.
const TEXTS: usize = 200;

/// Makes an ext4 image of `size_bytes` with files in it.
pub fn make_ext4(dir: &Path, size_bytes: u64) -> anyhow::Result<PathBuf> {
    make_ext4_with(dir, 1, size_bytes, &FILE_SIZES_BYTES)
}

/// Makes an ext4 image with files of random bytes of these sizes, drawn from `seed`.
pub fn make_ext4_with(dir: &Path, seed: u64, size_bytes: u64, sizes_bytes: &[u64]) -> anyhow::Result<PathBuf> {
    let tree = dir.join("tree");
    make_files(&tree, seed, sizes_bytes)?;
    let image = dir.join(format!("image-{seed}.ext4"));
    File::create(&image)?.set_len(size_bytes)?;
    let output =
        e2fs("mkfs.ext4")?.args(["-q", "-F", "-L", "flashmob", "-d"]).arg(&tree).arg(&image).output().context(
            "cannot run mkfs.ext4; install it (Debian, Ubuntu: apt-get install e2fsprogs) or give --image FILE",
        )?;
    anyhow::ensure!(output.status.success(), "mkfs.ext4 failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    std::fs::remove_dir_all(&tree)?;
    Ok(image)
}

fn make_files(tree: &Path, seed: u64, sizes_bytes: &[u64]) -> anyhow::Result<()> {
    std::fs::create_dir_all(tree.join("texts"))?;
    let mut random = Random::new(seed, 0);
    for (number, &size) in sizes_bytes.iter().enumerate() {
        let mut file = std::io::BufWriter::new(File::create(tree.join(format!("random-{number}.bin")))?);
        let mut left = size;
        while left > 0 {
            let bytes = random.next_u64().to_le_bytes();
            let n = left.min(8);
            file.write_all(&bytes[..n as usize])?;
            left -= n;
        }
    }
    for number in 0..TEXTS {
        let text = format!("This is text {number} of {TEXTS} in an image that went through flashmob.\n")
            .repeat(1 + number * 7);
        std::fs::write(tree.join("texts").join(format!("{number:03}.txt")), text)?;
    }
    std::os::unix::fs::symlink("texts/000.txt", tree.join("a-link"))?;
    Ok(())
}

/// Checks the first `image_bytes` of `path` as ext4: e2fsck's summary, or `None` if it is not ext4.
pub fn check_ext4(path: &Path, image_bytes: u64) -> anyhow::Result<Option<String>> {
    if !is_ext(path)? {
        return Ok(None);
    }
    // The volume may be larger than the image; the file system has the image's size.
    File::options().write(true).open(path)?.set_len(image_bytes)?;
    let output = e2fs("e2fsck")?.args(["-fn"]).arg(path).output();
    let output = match output {
        Ok(output) => output,
        Err(_) => return Ok(Some("not checked: e2fsck is not installed (package e2fsprogs)".to_string())),
    };
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    anyhow::ensure!(output.status.success(), "e2fsck found errors in the data read back:\n{said}");
    let summary = said.lines().last().unwrap_or_default();
    let summary = summary.split_once(": ").map_or(summary, |(_, rest)| rest);
    Ok(Some(format!("clean, {summary}")))
}

/// Whether it has the magic number of ext2, ext3 or ext4, at byte 1,080.
fn is_ext(path: &Path) -> anyhow::Result<bool> {
    use std::os::unix::fs::FileExt;
    let mut magic = [0; 2];
    Ok(File::open(path)?.read_exact_at(&mut magic, 1080).is_ok() && magic == [0x53, 0xef])
}

/// A command of e2fsprogs, which may be only in root's PATH.
fn e2fs(name: &str) -> anyhow::Result<Command> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let dirs = std::env::split_paths(&path).chain(["/sbin", "/usr/sbin"].map(PathBuf::from));
    Ok(Command::new(dirs.map(|dir| dir.join(name)).find(|p| p.exists()).unwrap_or_else(|| name.into())))
}

/// SHA-256 of the first `len_bytes` of a file, in hexadecimal.
pub fn sha256(path: &Path, len_bytes: u64) -> anyhow::Result<String> {
    let mut file = File::open(path)?.take(len_bytes);
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        let n = file.read(&mut buffer)?;
        if n == 0 {
            break;
        }
        hasher.update(&buffer[..n]);
    }
    Ok(hasher.finalize().iter().map(|b| format!("{b:02x}")).collect())
}
