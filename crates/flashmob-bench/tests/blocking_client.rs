//! Every command, one request at a time.

mod common;

use common::blocking::Client;
use common::{Behaviour, serve};
use flashmob_bench::nbd::connection::Options;
use flashmob_core::nbd::protocol as p;

#[test]
fn every_command_does_what_it_says() {
    for structured in [false, true] {
        let server = serve(Behaviour { structured, ..Behaviour::default() });
        let options = Options { structured_replies: true, ..Options::default() };
        let mut client = Client::connect_with(&server.uri, &options).unwrap();
        assert_eq!((client.export().size_bytes, client.export().structured_replies), (1 << 20, structured));
        client.write_at(10, b"hello", true).unwrap();
        client.flush().unwrap();
        let mut bytes = [9; 7];
        client.read_at(9, &mut bytes).unwrap();
        assert_eq!(&bytes, b"\0hello\0");
        client.trim(10, 2).unwrap();
        client.write_zeroes(14, 1, p::CMD_FLAG_NO_HOLE).unwrap();
        client.read_at(9, &mut bytes).unwrap();
        assert_eq!(&bytes, b"\0\0\0ll\0\0");
        client.read_at(0, &mut []).unwrap();
        let error = client.read_at((1 << 20) - 1, &mut [0; 2]).expect_err("behind the end").to_string();
        assert!(error.contains("EINVAL"), "{error}");
        assert_eq!(error.contains("(words)"), structured, "{error}");
        client.disconnect();
    }
}
