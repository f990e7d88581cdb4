//! The binary that a device needs, where it is found here, and whether a file is one.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::Context;
use sha2::{Digest, Sha256};

use super::devices::Properties;

/// Processors with binaries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Processor {
    Aarch64,
    Armv7,
    /// Emulators.
    X86_64,
}

/// A file to copy to a device.
#[derive(Debug)]
pub struct Binary {
    pub path: PathBuf,
    pub size_bytes: u64,
    /// In lower-case hexadecimal.
    pub sha256: String,
}

impl Processor {
    /// A device's processor: by its preferred interface, or without any by its kernel.
    ///
    /// A 64-bit kernel may have only 32-bit programs, so the interfaces come first; an emulator translates its further ones, for
    /// applications but not for programs.
    pub fn of(properties: &Properties) -> anyhow::Result<Processor> {
        let word = properties.abis.first().or(properties.machine.as_ref());
        match word.map(String::as_str) {
            Some("arm64-v8a" | "aarch64" | "arm64") => Ok(Processor::Aarch64),
            Some("x86_64") => Ok(Processor::X86_64),
            Some(word) if word == "armeabi-v7a" || word.starts_with("armv7") || word.starts_with("armv8") => {
                Ok(Processor::Armv7)
            }
            Some(word) => anyhow::bail!(
                "no binary for this processor, {word}: flashmob supports aarch64 and armv7, and x86_64 for emulators"
            ),
            None => anyhow::bail!(
                "the device does not report its processor (getprop, uname); give the right binary with --binary PATH"
            ),
        }
    }

    /// As in file names.
    pub fn name(self) -> &'static str {
        match self {
            Processor::Aarch64 => "aarch64",
            Processor::Armv7 => "armv7",
            Processor::X86_64 => "x86_64",
        }
    }

    /// The ELF class and machine of its programs.
    fn elf(self) -> (u8, u16) {
        match self {
            Processor::Aarch64 => (2, 183),
            Processor::Armv7 => (1, 40),
            Processor::X86_64 => (2, 62),
        }
    }
}

/// The given file, or one beside this program, in `target/cross`, or in `share/flashmob`.
pub fn find(named: Option<&Path>, processor: Processor) -> anyhow::Result<Binary> {
    let path = match named {
        Some(path) => path.to_path_buf(),
        None => {
            let program = std::env::current_exe().context("cannot find this program")?;
            let places = places(&program, processor);
            places.iter().find(|path| path.is_file()).cloned().ok_or_else(|| missing(&places, processor))?
        }
    };
    read(&path, processor)
}

fn missing(places: &[PathBuf], processor: Processor) -> anyhow::Error {
    let places: Vec<_> = places.iter().map(|path| path.display().to_string()).collect();
    anyhow::anyhow!(
        "no binary for {}: there is no {}; build it with 'make cross', or give one with --binary PATH",
        processor.name(),
        places.join(", no ")
    )
}

fn places(program: &Path, processor: Processor) -> Vec<PathBuf> {
    let name = format!("flashmob-{}", processor.name());
    let folder = program.parent().unwrap_or(Path::new(""));
    let above = folder.parent().unwrap_or(Path::new(""));
    vec![folder.join(&name), above.join("cross").join(&name), above.join("share/flashmob").join(&name)]
}

fn read(path: &Path, processor: Processor) -> anyhow::Result<Binary> {
    let named = || format!("the binary {}", path.display());
    let mut file = File::open(path).with_context(named)?;
    let mut head = Vec::new();
    file.by_ref().take(20).read_to_end(&mut head).with_context(named)?;
    let is_program = head.len() == 20 && head.starts_with(b"\x7fELF");
    anyhow::ensure!(is_program, "{} is not an ELF executable for Android", path.display());
    let found = (head[4], u16::from_le_bytes([head[18], head[19]]));
    anyhow::ensure!(
        found == processor.elf(),
        "{} is for another processor; the device has {}: build that binary with 'make cross', or give it with --binary PATH",
        path.display(),
        processor.name()
    );
    let mut hash = Sha256::new_with_prefix(&head);
    let rest = std::io::copy(&mut file, &mut hash).with_context(named)?;
    let sha256 = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(Binary { path: path.to_path_buf(), size_bytes: head.len() as u64 + rest, sha256 })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(abis: &[&str], machine: Option<&str>) -> anyhow::Result<Processor> {
        let abis = abis.iter().map(ToString::to_string).collect();
        Processor::of(&Properties { abis, machine: machine.map(str::to_string), ..Properties::default() })
    }

    #[test]
    fn the_preferred_interface_decides() {
        assert_eq!(of(&["arm64-v8a", "armeabi-v7a", "armeabi"], Some("aarch64")).unwrap(), Processor::Aarch64);
        assert_eq!(
            of(&["armeabi-v7a", "armeabi"], Some("aarch64")).unwrap(),
            Processor::Armv7,
            "a 64-bit kernel below 32-bit programs"
        );
        assert_eq!(of(&["x86_64", "arm64-v8a"], None).unwrap(), Processor::X86_64, "translated for applications alone");
        assert_eq!(of(&[], Some("armv7l")).unwrap(), Processor::Armv7);
        assert_eq!(of(&[], Some("armv8l")).unwrap(), Processor::Armv7);
        assert!(of(&["x86"], None).unwrap_err().to_string().contains("x86"));
        assert!(of(&["armeabi"], None).is_err());
        assert!(of(&[], None).unwrap_err().to_string().contains("--binary"));
    }

    #[test]
    fn a_binary_is_looked_for_beside_the_program_and_where_it_is_built() {
        let places = places(Path::new("/x/target/release/flashmob"), Processor::Armv7);
        let expected = [
            "/x/target/release/flashmob-armv7",
            "/x/target/cross/flashmob-armv7",
            "/x/target/share/flashmob/flashmob-armv7",
        ];
        assert_eq!(places, expected.map(PathBuf::from));
        let error = find(None, Processor::Aarch64).unwrap_err().to_string();
        assert!(error.contains("make cross"), "{error}");
    }

    #[test]
    fn a_file_for_another_processor_is_refused_before_it_is_copied() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("flashmob");
        let mut program = b"\x7fELF\x01\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\x28\0".to_vec();
        program.extend_from_slice(b"the rest");
        std::fs::write(&path, &program).unwrap();
        let binary = find(Some(&path), Processor::Armv7).unwrap();
        let hash: String = Sha256::digest(&program).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!((binary.size_bytes, binary.sha256), (28, hash));
        assert!(find(Some(&path), Processor::Aarch64).unwrap_err().to_string().contains("another processor"));
        std::fs::write(&path, "#!/bin/sh").unwrap();
        assert!(find(Some(&path), Processor::Armv7).unwrap_err().to_string().contains("not an ELF executable"));
        assert!(find(Some(&folder.path().join("absent")), Processor::Armv7).is_err());
    }
}
