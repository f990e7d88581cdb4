//! How each server is started.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use anyhow::Context;
use flashmob_bench::nbd::connection::{Connection, Options};
use flashmob_bench::{Uri, copy};

use flashmob_core::units::MIB;

use super::{Build, DAEMONS, Export, MOUNTS, Running, Server, Servers, Set};
use crate::data::{self, NODES, SMALL_CHUNK_BYTES};
use crate::process::{Process, READY_TIMEOUT, free_port, require};
use crate::redis;

/// Bytes of a volume that is measured with several numbers of copies: all of them together must fit into memory.
const COPIES_BYTES: u64 = 128 * MIB;

impl Servers {
    fn process(&mut self, program: &str, args: &[&str]) -> anyhow::Result<Process> {
        let program_path = if program.contains('/') { PathBuf::from(program) } else { require(program)? };
        let name = program_path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        self.started += 1;
        let args: Vec<String> = args.iter().map(ToString::to_string).collect();
        Process::start(&self.dir, &format!("{}-{name}", self.started), &program_path, &args)
    }

    /// Starts a server.
    pub(super) fn start(&mut self, server: Server) -> anyhow::Result<Running> {
        match server {
            Server::FlashmobOne(build) => self.flashmob_one(build),
            Server::FlashmobTwo(build, set) => self.flashmob_two(build, set),
            Server::FlashmobCopies(copies, set) => self.flashmob_copies(copies, set),
            Server::NbdkitFile => {
                let (file, _) = self.files(Set::Reads)?;
                let (process, export) = self.nbdkit_file(&file, &file, true)?;
                Ok(Running::new(vec![process], Vec::new(), vec![export]))
            }
            Server::NbdkitMemory => self.nbdkit_memory(),
            Server::NbdServer => self.nbd_server(),
            Server::QemuNbd => self.qemu_nbd(),
            Server::QemuStorage => self.qemu_storage(),
            Server::RelayNbdkit(set) => self.relay_nbdkit(set),
            Server::RelayQemu(set) => self.relay_qemu(set),
            Server::EightNbdkit => {
                let (back, exports) = self.eight_nbdkit()?;
                Ok(Running::new(Vec::new(), back, exports))
            }
            Server::Nbdfuse => self.nbdfuse(),
            Server::Redis => self.redis(),
            Server::Iperf => {
                let port = free_port()?;
                let mut process =
                    self.process("iperf3", &["-s", "-B", "127.0.0.1", "-p", &port.to_string(), "--forceflush"])?;
                process.await_ready("it listens", |log| log.contains("listening on"))?;
                Ok(Running::listening(process, port))
            }
        }
    }

    fn flashmob(&self, build: Build) -> anyhow::Result<String> {
        let path = self.flashmob[build as usize].as_ref().context("no other build was given")?;
        path.to_str().map(str::to_string).with_context(|| format!("{} is not UTF-8", path.display()))
    }

    fn gateway(&mut self, build: Build, config: &Path) -> anyhow::Result<(Process, Uri)> {
        let program = self.flashmob(build)?;
        // A build may keep what it knows of extents in its own way: each has its own.
        let mut gateway = self.process(&program, &["gateway", "--forget", &config.display().to_string()])?;
        let address = gateway.await_line("listening on nbd://")?;
        gateway.await_line("volume bench ready")?;
        let (host, port) = address.rsplit_once(':').context("no port in its log")?;
        Ok((gateway, Uri::tcp(host, port.parse()?, "bench")))
    }

    fn flashmob_one(&mut self, build: Build) -> anyhow::Result<Running> {
        let (whole, _) = self.files(Set::Reads)?;
        let config = self.dir.join(format!("one-{build:?}.toml"));
        std::fs::write(&config, config_text("one", "", &[format!("path = \"{}\"", whole.display())]))?;
        let (gateway, uri) = self.gateway(build, &config)?;
        Ok(Running::new(vec![gateway], Vec::new(), vec![Export { uri, file: whole }]))
    }

    fn flashmob_two(&mut self, build: Build, set: Set) -> anyhow::Result<Running> {
        let program = self.flashmob(build)?;
        let (whole, parts) = self.files(set)?;
        let (nodes, addresses) = self.nodes(&program, &parts)?;
        let config = self.dir.join(format!("two-{build:?}-{set:?}.toml"));
        std::fs::write(&config, config_text(&format!("two-{set:?}"), "", &addresses))?;
        let (gateway, uri) = self.gateway(build, &config)?;
        // The client has a configuration of its own, so that what its gateway remembers lies elsewhere.
        let native = self.dir.join(format!("native-{build:?}-{set:?}.toml"));
        std::fs::copy(&config, &native)?;
        let mut running = Running::new(vec![gateway], nodes, vec![Export { uri, file: whole }]);
        running.config = Some(native);
        Ok(running)
    }

    /// Nodes that serve these files, and how the configuration names them.
    fn nodes(&mut self, program: &str, files: &[PathBuf]) -> anyhow::Result<(Vec<Process>, Vec<String>)> {
        let mut nodes = Vec::new();
        for file in files {
            nodes.push(
                self.process(program, &["node", "--data", &file.display().to_string(), "--listen", "127.0.0.1:0"])?,
            );
        }
        let mut addresses = Vec::new();
        for node in &mut nodes {
            addresses.push(format!("address = \"{}\"", node.await_line("ready, listening on ")?));
        }
        Ok((nodes, addresses))
    }

    fn flashmob_copies(&mut self, copies: u8, set: Set) -> anyhow::Result<Running> {
        let program = self.flashmob(Build::A)?;
        let whole = self.dir.join("copies");
        if !whole.exists() {
            data::write(&whole, 0, COPIES_BYTES, SMALL_CHUNK_BYTES)?;
        }
        let part_bytes = COPIES_BYTES / NODES as u64;
        let (id, extent_bytes) = (format!("copies-{copies}-{set:?}"), part_bytes * u64::from(copies.max(1)));
        let mut files = Vec::new();
        for number in 0..NODES {
            let file = self.dir.join(format!("{id}-{number}"));
            data::write(&file, part_bytes * number as u64, extent_bytes, SMALL_CHUNK_BYTES)?;
            files.push(file);
        }
        let (nodes, mut addresses) = self.nodes(&program, &files)?;
        let mut layout = String::new();
        if copies > 0 {
            layout = format!("layout = \"mapped\"\ncopies = {copies}\n");
            for address in &mut addresses {
                // Writing to a String cannot fail.
                let _ = write!(address, "\nsize = {extent_bytes}");
            }
        }
        let config = self.dir.join(format!("{id}.toml"));
        std::fs::write(&config, config_text(&id, &layout, &addresses))?;
        let (gateway, uri) = self.gateway(Build::A, &config)?;
        if copies > 0 {
            copy::write_image(&uri, &whole, &mut |_| ())?;
        }
        Ok(Running::new(vec![gateway], nodes, vec![Export { uri, file: whole }]))
    }

    fn nbdkit(&mut self, args: &[&str]) -> anyhow::Result<(Process, Uri)> {
        let port = free_port()?;
        let uri = Uri::tcp("127.0.0.1", port, "");
        let port = port.to_string();
        let mut process =
            self.process("nbdkit", &[&["--foreground", "--ipaddr", "127.0.0.1", "--port", &port], args].concat())?;
        answers(&mut process, &uri)?;
        Ok((process, uri))
    }

    fn nbdkit_file(&mut self, served: &Path, compared: &Path, read_only: bool) -> anyhow::Result<(Process, Export)> {
        let file = format!("file={}", served.display());
        let mode: &[&str] = if read_only { &["--readonly"] } else { &[] };
        let (process, uri) = self.nbdkit(&[mode, &["file", &file]].concat())?;
        Ok((process, Export { uri, file: compared.to_path_buf() }))
    }

    fn nbdkit_memory(&mut self) -> anyhow::Result<Running> {
        let (whole, _) = self.files(Set::Reads)?;
        let size = self.reads.size_bytes.to_string();
        let (process, uri) = self.nbdkit(&["memory", &size])?;
        copy::write_image(&uri, &whole, &mut |_| ())?;
        Ok(Running::new(vec![process], Vec::new(), vec![Export { uri, file: whole }]))
    }

    fn nbd_server(&mut self) -> anyhow::Result<Running> {
        let (whole, _) = self.files(Set::Reads)?;
        let port = free_port()?;
        let config = self.dir.join("nbd-server.conf");
        let text = format!(
            "[generic]\nlistenaddr = 127.0.0.1\nport = {port}\nallowlist = true\n[bench]\nexportname = {}\nreadonly = true\n",
            whole.display()
        );
        std::fs::write(&config, text)?;
        let pid_file = self.dir.join("nbd-server.pid");
        // It goes into the background by itself; in the foreground it would serve one connection at a time.
        let args = ["-C", &config.display().to_string(), "-p", &pid_file.display().to_string()];
        let mut starter = self.process("nbd-server", &args)?;
        let uri = Uri::tcp("127.0.0.1", port, "bench");
        let deadline = Instant::now() + READY_TIMEOUT;
        let mut running = Running::new(Vec::new(), Vec::new(), vec![Export { uri: uri.clone(), file: whole }]);
        loop {
            let pid = std::fs::read_to_string(&pid_file).ok().and_then(|text| text.trim().parse::<u32>().ok());
            if let Some(pid) = pid.filter(|_| running.daemons.is_empty()) {
                DAEMONS.lock().unwrap_or_else(PoisonError::into_inner).push(pid);
                running.daemons.push(pid);
            }
            match Connection::open(&uri, &Options::default()) {
                Ok(connection) if !running.daemons.is_empty() => {
                    connection.disconnect();
                    return Ok(running);
                }
                outcome => {
                    let failed = starter.ended().is_some_and(|status| !status.success());
                    anyhow::ensure!(
                        !failed && Instant::now() < deadline,
                        "nbd-server does not answer: {}",
                        outcome.err().map_or_else(|| "it left no pid file".to_string(), |error| error.to_string())
                    );
                    std::thread::sleep(Duration::from_millis(20));
                }
            }
        }
    }

    fn qemu_nbd(&mut self) -> anyhow::Result<Running> {
        let (whole, _) = self.files(Set::Reads)?;
        let port = free_port()?;
        let args = [
            "--persistent",
            "--read-only",
            "--format=raw",
            "--aio=io_uring",
            "--cache=writeback",
            "--shared=64",
            "--bind=127.0.0.1",
            &format!("--port={port}"),
            &whole.display().to_string(),
        ];
        let mut process = self.process("qemu-nbd", &args)?;
        let uri = Uri::tcp("127.0.0.1", port, "");
        answers(&mut process, &uri)?;
        Ok(Running::new(vec![process], Vec::new(), vec![Export { uri, file: whole }]))
    }

    /// qemu-storage-daemon with one block device that it exports.
    fn qemu_daemon(&mut self, device: &str, writable: bool) -> anyhow::Result<(Process, Uri)> {
        let port = free_port()?;
        let mode = if writable { "on" } else { "off" };
        let args = [
            "--blockdev",
            device,
            "--nbd-server",
            &format!("addr.type=inet,addr.host=127.0.0.1,addr.port={port},max-connections=64"),
            "--export",
            &format!("type=nbd,id=export,node-name=disk,name=bench,writable={mode}"),
        ];
        let mut process = self.process("qemu-storage-daemon", &args)?;
        let uri = Uri::tcp("127.0.0.1", port, "bench");
        answers(&mut process, &uri)?;
        Ok((process, uri))
    }

    fn qemu_storage(&mut self) -> anyhow::Result<Running> {
        let (whole, _) = self.files(Set::Reads)?;
        let device = format!("driver=file,node-name=disk,filename={},aio=io_uring,read-only=on", whole.display());
        let (process, uri) = self.qemu_daemon(&device, false)?;
        Ok(Running::new(vec![process], Vec::new(), vec![Export { uri, file: whole }]))
    }

    fn relay_nbdkit(&mut self, set: Set) -> anyhow::Result<Running> {
        let (served, compared) = self.served(set, "nbdkit")?;
        let (back, export) = self.nbdkit_file(&served, &compared, set == Set::Reads)?;
        let (front, uri) = self.nbdkit(&["nbd", &format!("uri={}", export.uri)])?;
        Ok(Running::new(vec![front], vec![back], vec![Export { uri, file: compared }]))
    }

    fn relay_qemu(&mut self, set: Set) -> anyhow::Result<Running> {
        let (served, compared) = self.served(set, "qemu")?;
        let (back, export) = self.nbdkit_file(&served, &compared, set == Set::Reads)?;
        let flashmob_bench::nbd::uri::Address::Tcp { host, port } = &export.uri.address else {
            anyhow::bail!("the server behind has no port");
        };
        let mode = if set == Set::Reads { "on" } else { "off" };
        let device = format!(
            "driver=nbd,node-name=disk,server.type=inet,server.host={host},server.port={port},read-only={mode}"
        );
        let (front, uri) = self.qemu_daemon(&device, set == Set::Writes)?;
        Ok(Running::new(vec![front], vec![back], vec![Export { uri, file: compared }]))
    }

    fn eight_nbdkit(&mut self) -> anyhow::Result<(Vec<Process>, Vec<Export>)> {
        let (_, parts) = self.files(Set::Reads)?;
        let mut processes = Vec::with_capacity(NODES);
        let mut exports = Vec::with_capacity(NODES);
        for part in &parts {
            let (process, export) = self.nbdkit_file(part, part, true)?;
            processes.push(process);
            exports.push(export);
        }
        Ok((processes, exports))
    }

    fn nbdfuse(&mut self) -> anyhow::Result<Running> {
        require("fusermount3")?;
        let (whole, _) = self.files(Set::Reads)?;
        let (mut back, exports) = self.eight_nbdkit()?;
        // From here on a failure must not leave mounts behind: `running` removes them.
        let mut running = Running::new(Vec::new(), Vec::new(), Vec::new());
        let mut files = Vec::new();
        for (number, export) in exports.iter().enumerate() {
            let mount = self.dir.join(format!("mount-{number}"));
            std::fs::create_dir_all(&mount)?;
            MOUNTS.lock().unwrap_or_else(PoisonError::into_inner).push(mount.clone());
            running.mounts.push(mount.clone());
            let file = mount.join("disk");
            let mut process =
                self.process("nbdfuse", &["--readonly", &file.display().to_string(), &export.uri.to_string()])?;
            process.await_ready("it is mounted", |_| file.exists())?;
            files.push(format!("file={}", file.display()));
            running.back.push(process);
        }
        running.back.append(&mut back);
        let args: Vec<&str> = ["--readonly", "split"].into_iter().chain(files.iter().map(String::as_str)).collect();
        let (front, uri) = self.nbdkit(&args)?;
        running.front.push(front);
        running.exports.push(Export { uri, file: whole });
        Ok(running)
    }

    fn redis(&mut self) -> anyhow::Result<Running> {
        let (whole, _) = self.files(Set::Reads)?;
        let port = free_port()?;
        let args = [
            "--port",
            &port.to_string(),
            "--bind",
            "127.0.0.1",
            "--save",
            "",
            "--appendonly",
            "no",
            "--daemonize",
            "no",
        ];
        let mut process = self.process("redis-server", &args)?;
        process.await_ready("it accepts connections", |log| log.contains("Ready to accept connections"))?;
        redis::fill(port, &whole, self.redis_bytes)?;
        Ok(Running::listening(process, port))
    }
}

/// A gateway's configuration; `layout` has lines of the volume.
fn config_text(id: &str, layout: &str, nodes: &[String]) -> String {
    let mut text = format!(
        "listen = \"127.0.0.1:0\"\nname = \"bench\"\n\n[[volume]]\nname = \"bench\"\nid = \"bench-{id}\"\n{layout}"
    );
    for node in nodes {
        // Writing to a String cannot fail.
        let _ = write!(text, "\n[[volume.node]]\n{node}\n");
    }
    text
}

/// Waits until a server answers.
fn answers(process: &mut Process, uri: &Uri) -> anyhow::Result<()> {
    let begun = Instant::now();
    let options = Options { timeout: Duration::from_secs(5), ..Options::default() };
    let mut why = String::new();
    let outcome = process.await_ready("it answers", |_| match Connection::open(uri, &options) {
        Ok(connection) => {
            connection.disconnect();
            true
        }
        Err(error) => {
            why = error.to_string();
            std::thread::sleep(Duration::from_millis(20));
            false
        }
    });
    outcome.with_context(|| format!("{why} (after {:.1} s)", begun.elapsed().as_secs_f64()))
}
