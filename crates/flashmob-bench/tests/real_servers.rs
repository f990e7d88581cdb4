//! The client against nbdkit, an NBD server that this project has no part in. nbdkit must be
//! installed: without it these tests fail.

#[path = "common/blocking.rs"]
mod blocking;

use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use blocking::Client;
use flashmob_bench::copy::{read_image, write_image};
use flashmob_bench::load::offsets::{Alignment, Pattern};
use flashmob_bench::load::reference::{ImageReference, PatternReference, Reference};
use flashmob_bench::load::{Load, Stop, run};
use flashmob_bench::nbd::connection::Options;
use flashmob_bench::{Errno, Error, Uri};

const SIZE_BYTES: u64 = 64 << 20;

/// A running nbdkit; it ends with the value.
struct Nbdkit(Child);

impl Drop for Nbdkit {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts nbdkit with `arguments` and waits until `uri` answers; `None` if it ended, as it does where its port was taken meanwhile.
fn started(uri: &Uri, arguments: &[&str]) -> Option<Nbdkit> {
    let mut command = Command::new("nbdkit");
    command.args(["--foreground", "--exit-with-parent"]).args(arguments).stderr(Stdio::null());
    let mut server = Nbdkit(command.spawn().expect("nbdkit must be installed (Debian: apt install nbdkit)"));
    let begun = Instant::now();
    while server.0.try_wait().unwrap().is_none() {
        match Client::connect(uri) {
            Ok(client) => {
                client.disconnect();
                return Some(server);
            }
            // The export may be refused on purpose.
            Err(Error::Refused { .. }) => return Some(server),
            // Also where the server of another test has the port, and ends.
            Err(error) => assert!(begun.elapsed() < Duration::from_secs(60), "nbdkit {arguments:?}: {error}"),
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    None
}

fn on_unix(socket: &Path, arguments: &[&str]) -> (Nbdkit, Uri) {
    let uri = Uri::unix(socket, "");
    let socket = socket.to_str().unwrap();
    let server = started(&uri, &[&["--unix", socket], arguments].concat());
    (server.unwrap_or_else(|| panic!("nbdkit {arguments:?} ended")), uri)
}

fn on_tcp(arguments: &[&str]) -> (Nbdkit, Uri) {
    for _ in 0..10 {
        // Free at this moment, and anybody's at the next.
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let uri = Uri::tcp("127.0.0.1", port, "");
        let port = port.to_string();
        if let Some(server) = started(&uri, &[&["--ipaddr", "127.0.0.1", "--port", &port], arguments].concat()) {
            return (server, uri);
        }
    }
    panic!("nbdkit {arguments:?} ended on ten ports");
}

/// Fills the export with the pattern, then reads and writes at random and compares every byte.
fn fill_and_verify(uri: &Uri, structured_replies: bool) {
    let pattern = Arc::new(PatternReference { seed: 5 });
    let fill = Load {
        pattern: Pattern::Sequential,
        alignment: Alignment::Block,
        block_bytes: 256 * 1024,
        outstanding: 16,
        read_fraction: 0.0,
        stop: Stop::Requests(SIZE_BYTES / (256 * 1024)),
        verify: Some(pattern.clone()),
        structured_replies,
        ..Load::default()
    };
    assert_eq!(run(uri, &fill, &mut |_| ()).unwrap().bytes, SIZE_BYTES);
    for (block_bytes, connections, threads) in [(4096, 1, 1), (1, 4, 2), (100_000, 2, 1)] {
        let check = Load {
            block_bytes,
            connections,
            threads,
            read_fraction: 0.9,
            pattern: Pattern::Random { seed: 9 },
            alignment: Alignment::Byte,
            stop: Stop::Requests(3000),
            outstanding: 64,
            ..fill.clone()
        };
        let result = run(uri, &check, &mut |_| ()).unwrap();
        assert_eq!((result.reads + result.writes, result.errors_total(), result.mismatched_bytes), (3000, 0, 0));
        assert_eq!(result.verified_bytes, result.reads * u64::from(block_bytes));
    }
}

#[test]
fn a_volume_in_memory_is_filled_and_verified_over_both_kinds_of_socket() {
    let directory = tempfile::tempdir().unwrap();
    let (_server, uri) = on_unix(&directory.path().join("s"), &["memory", "64M"]);
    fill_and_verify(&uri, false);
    let (_server, uri) = on_tcp(&["memory", "64M"]);
    fill_and_verify(&uri, true);
}

#[test]
fn structured_replies_with_holes_are_understood() {
    let (_server, uri) = on_tcp(&["memory", "64M"]);
    let options = Options { structured_replies: true, ..Options::default() };
    let mut client = Client::connect_with(&uri, &options).unwrap();
    assert!(client.export().structured_replies);
    client.write_at(5_000_000, &[1; 1000], false).unwrap();
    let mut bytes = vec![9; 10 << 20];
    client.read_at(0, &mut bytes).unwrap();
    assert!(bytes[5_000_000..5_001_000].iter().all(|&b| b == 1));
    assert_eq!(bytes.iter().filter(|&&b| b == 0).count(), bytes.len() - 1000);
    let error = client.read_at(SIZE_BYTES, &mut [0]).expect_err("behind the end");
    assert!(matches!(&error, Error::Request { error, .. } if error.errno == Errno(22)), "{error}");
}

#[test]
fn an_image_goes_in_and_comes_out_and_serves_as_reference() {
    let directory = tempfile::tempdir().unwrap();
    let (_server, uri) = on_unix(&directory.path().join("s"), &["memory", "64M"]);
    let image = directory.path().join("image");
    let mut bytes = vec![0; 40 << 20];
    PatternReference { seed: 3 }.fill(0, &mut bytes[..10 << 20]);
    let file = std::fs::File::create(&image).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &bytes[..10 << 20], 20 << 20).unwrap();
    file.set_len(SIZE_BYTES).unwrap();
    let result = write_image(&uri, &image, &mut |_| ()).unwrap();
    assert_eq!((result.image_bytes, result.data_bytes), (SIZE_BYTES, 10 << 20));
    let back = directory.path().join("back");
    read_image(&uri, &back, &mut |_| ()).unwrap();
    assert_eq!(std::fs::read(&image).unwrap(), std::fs::read(&back).unwrap());
    let verify = Some(Arc::new(ImageReference::open(&image).unwrap()) as _);
    let result = run(&uri, &Load { stop: Stop::Requests(5000), verify, ..Load::default() }, &mut |_| ()).unwrap();
    assert_eq!((result.verified_bytes, result.mismatched_bytes), (5000 * 4096, 0));
}

#[test]
fn a_servers_errors_reach_the_result() {
    let (_server, uri) = on_tcp(&["--filter=error", "memory", "64M", "error-pread=ENOSPC", "error-pread-rate=30%"]);
    let result = run(&uri, &Load { stop: Stop::Requests(2000), ..Load::default() }, &mut |_| ()).unwrap();
    assert_eq!(result.reads + result.errors[&Errno(28)], 2000);
    assert!((300..900).contains(&result.errors_total()), "{:?}", result.errors);
}

#[test]
fn an_unknown_export_is_refused_by_name() {
    let arguments = ["--filter=exportname", "memory", "64M", "exportname-strict=true", "exportname=volume"];
    let directory = tempfile::tempdir().unwrap();
    let (_server, uri) = on_unix(&directory.path().join("s"), &arguments);
    let wrong = Uri { export: "valium".into(), ..uri.clone() };
    let error = Client::connect(&wrong).expect_err("no such export");
    assert!(matches!(&error, Error::Refused { what, .. } if what == "the export 'valium'"), "{error}");
    let right = Uri { export: "volume".into(), ..uri };
    assert_eq!(Client::connect(&right).unwrap().export().size_bytes, SIZE_BYTES);
}

#[test]
fn a_killed_server_is_an_error_and_no_hang() {
    let (mut server, uri) = on_tcp(&["memory", "64M"]);
    let load = Load { stop: Stop::After(Duration::from_secs(600)), ..Load::default() };
    let error = std::thread::scope(|scope| {
        let running = scope.spawn(|| run(&uri, &load, &mut |_| ()));
        std::thread::sleep(Duration::from_millis(500));
        server.0.kill().unwrap();
        running.join().unwrap().expect_err("the server is gone")
    });
    assert!(matches!(error, Error::Closed { .. }), "{error}");
}
