//! What strangers can make a node remember is limited.

use crate::testing::{NodeBed, Reads, hello, node_config};
use flashmob_core::node::LINKS_OF_GATEWAY_MAX;
use flashmob_core::wire::frame::FrameKind;
use flashmob_core::wire::hello::{Hello, Refuse, RefuseReason};

#[test]
fn the_numbers_of_a_gateways_links_are_limited() {
    let mut bed = NodeBed::new(node_config(4096), Reads::NotTried);
    for (link, is_welcome) in
        [(LINKS_OF_GATEWAY_MAX - 1, true), (LINKS_OF_GATEWAY_MAX, false), (LINKS_OF_GATEWAY_MAX + 1, false)]
    {
        let id = bed.open_link(&Hello { link, ..hello() });
        let frames = bed.sent(id);
        assert_eq!(frames.len(), 1);
        assert_eq!(frames[0].kind == FrameKind::Welcome, is_welcome, "{link}");
        if !is_welcome {
            let refuse = Refuse::decode(&frames[0].meta).unwrap();
            assert_eq!(
                (refuse.reason, refuse.text.as_str()),
                (RefuseReason::Busy, "a gateway may have 256 links to a node")
            );
        }
    }
}
