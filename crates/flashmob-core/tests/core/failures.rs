//! Failures of nodes, as clients are told of them.

use crate::testing::{FlashBed, GatewayBed, gateway_config, volume, welcome};
use flashmob_core::op::{Failure, Op};

const EXTENT_BYTES: u64 = 1 << 20;

/// The error that a client of a volume over one node gets where that fails with `failure`.
fn told(op: Op, failure: Failure) -> Failure {
    let mut bed = GatewayBed::new(gateway_config(volume(&[EXTENT_BYTES])));
    bed.link(0, &welcome(EXTENT_BYTES));
    let client = bed.gateway.native_opened(0).expect("a client");
    bed.submit(client, op, 0, 4096);
    bed.turn();
    assert_eq!(bed.answer_with(0, |_| Err(failure)), 1);
    let results: Vec<_> = bed.gateway.completions().drain(..).map(|done| done.result).collect();
    let [Err(told)] = results[..] else { panic!("{results:?}") };
    told
}

#[test]
fn a_failure_of_a_node_is_an_io_error_or_no_space_for_a_client_whatever_the_node_says() {
    for op in [Op::Read, Op::Write, Op::Trim, Op::WriteZeroes] {
        for failure in Failure::ALL {
            let expected = if failure == Failure::NoSpace { Failure::NoSpace } else { Failure::Io };
            assert_eq!(told(op, failure), expected, "{op:?}, {failure:?}");
        }
    }
}

#[test]
fn so_it_is_with_the_last_copies_and_with_the_map() {
    for failure in [Failure::NotPermitted, Failure::NoSpace, Failure::ShuttingDown, Failure::NotSupported] {
        let expected = if failure == Failure::NoSpace { Failure::NoSpace } else { Failure::Io };
        let mut bed = FlashBed::new(2, 2, 2, |_| ());
        bed.nodes.iter_mut().for_each(|node| node.fails_writes = Some(failure));
        bed.bed.submit(bed.client, Op::Write, 0, 4096);
        bed.serve();
        assert_eq!(bed.results(), [Err(expected)], "{failure:?}");
        bed.bed.submit(bed.client, Op::Read, 2 * FlashBed::CHUNK_BYTES, 4096);
        bed.serve();
        assert_eq!(bed.results(), [Err(Failure::Invalid)], "a request behind the end is the client's fault");
    }
}
